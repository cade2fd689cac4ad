// SPDX-License-Identifier: MIT
// emit_test.c - what is printed means what it should: random expressions are compiled and compared with a plain
// evaluator; statements are compared as text in both dialects.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../ir/evaluate.h"
#include "emit/emit.h"

#include <stdio.h>
#include <unistd.h>

static Arena *arena;

static int setup(void **state)
{
    arena = arena_new();
    return arena ? 0 : -1;
}

static int teardown(void **state)
{
    arena_free(arena);
    return 0;
}

// ---- random expressions, compiled

enum { EXPRESSIONS = 400 };

// Conversions between floats and integers are calls of the prelude in Loop IR; everything else is printed as it is.
static bool needs_call(const Expr *x, void *context)
{
    const bool crosses = x->kind == E_CONVERT && dtype_is_float(x->type) != dtype_is_float(x->convert.a->type);
    return crosses || (x->kind == E_MATH && dtype_is_float(x->type)) || (x->kind == E_MATH && !loop_has_math(x));
}

static void declare_values(LoopList *list, const Env *env)
{
    for (int i = 0; i < env->n; i++) {
        Var *const var = (Var *)env->bindings[i].var;
        Expr *const value = dtype_is_float(var->type) ? expr_float(arena, var->type, env->bindings[i].value.f)
                                                      : expr_int(arena, var->type, env->bindings[i].value.i);
        loop_add(list, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = var, .value = value } });
    }
}

static void bind_vars(Random *r, Env *env)
{
    for (int i = 0; i < 4; i++)
        env->bindings[env->n++] = (EvalBinding){ r->ints[i], { .i = (int64_t)random_below(r, 400) - 200 } };
    for (int i = 0; i < 3; i++) {
        const int64_t value = random_ints[random_below(r, COUNT(random_ints))];
        env->bindings[env->n++] = (EvalBinding){ r->sized[i], { .i = constant_wrap(r->sized[i]->type, value) } };
    }
}

static const char *run_program(const char *text)
{
    char source[] = "/tmp/kiln-emit-XXXXXX.c", command[200];
    const int file = mkstemps(source, 2);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
    snprintf(command, sizeof command, "cc -std=gnu11 -w -O1 -fwrapv -o %s.out %s -lm && %s.out", source, source,
             source);
    FILE *const pipe = popen(command, "r");
    assert_non_null(pipe);
    Text out = { .arena = arena };
    char part[4096];
    for (size_t n; (n = fread(part, 1, sizeof part, pipe)) > 0;) text_add(&out, part, n);
    const int status = pclose(pipe);
    snprintf(command, sizeof command, "%s.out", source);
    if (status == 0) unlink(source);
    unlink(command);
    if (status != 0) fail_msg("%s did not compile or run", source);
    return text_cstr(&out);
}

static void test_random_expressions_mean_the_same_in_c(void **state)
{
    static const DType types[] = { DTYPE_INT, DTYPE_I32, DTYPE_I32, DTYPE_U32, DTYPE_I64, DTYPE_BOOL, DTYPE_F64 };
    static const char *const names[] = { "i", "int", "i_2", "m", "a", "i", "register", "x", "y" }; // some need care
    Random r = { .state = 99, .arena = arena };
    LoopUnit unit = { .arena = arena };
    for (int v = 0; v < 4; v++) r.ints[v] = loop_new_var(&unit, DTYPE_INT, names[v]);
    r.sized[0] = loop_new_var(&unit, DTYPE_I32, names[4]);
    r.sized[1] = loop_new_var(&unit, DTYPE_U32, names[5]);
    r.sized[2] = loop_new_var(&unit, DTYPE_I64, names[6]);
    r.floats[0] = loop_new_var(&unit, DTYPE_F32, names[7]);
    r.floats[1] = loop_new_var(&unit, DTYPE_F64, names[8]);
    Var *const ints = loop_new_pointer(&unit, DTYPE_INT, "ints"), *const reals =
                                                                      loop_new_pointer(&unit, DTYPE_F64, "reals");
    Var *params[] = { ints, reals };
    LoopList body = loop_list(arena);
    Result expected[EXPRESSIONS];
    Expr *kept[EXPRESSIONS];
    int n = 0;
    while (n < EXPRESSIONS) {
        const DType type = types[random_below(&r, COUNT(types))];
        const Twin twin = random_expr(&r, type, 1 + random_below(&r, 4));
        Env env = { .n = 0 };
        bind_vars(&r, &env);
        env.bindings[env.n++] =
            (EvalBinding){ r.floats[1], { .f = random_floats[random_below(&r, COUNT(random_floats))] } };
        Expr *const chosen = random_below(&r, 2) ? twin.folded : twin.plain;
        expected[n] = evaluate(twin.plain, &env);
        if (expected[n].undefined || expr_any(chosen, needs_call, NULL) || expr_uses(chosen, r.floats[0])) continue;
        LoopList block = loop_list(arena);
        declare_values(&block, &env);
        const bool real = dtype_is_float(type);
        Expr *const value =
            NEW(arena, Expr, .kind = E_CONVERT, .type = real ? DTYPE_F64 : DTYPE_INT, .convert = { chosen });
        loop_add(&block, (LoopStmt){ .kind = L_STORE, .store = { real ? reals : ints, int_const(arena, n), value } });
        loop_add(&body, (LoopStmt){ .kind = L_BLOCK, .block = { block.first } });
        kept[n++] = chosen;
    }
    LoopFunction function = { .name = "compute", .params = params, .n_params = 2, .body = body.first };
    VEC_PUSH(arena, &unit.functions, &function);
    static const char *preludes[] = { "cpu/base", "cpu/entry" };
    unit.preludes = preludes;
    unit.n_preludes = 2;
    Text why = { .arena = arena }, text = { .arena = arena };
    if (!loop_verify(&unit, &why)) fail_msg("%s", text_cstr(&why));
    emit_unit(&text, &unit, &dialect_c);
    text_print(
        &text,
        "\n#include <stdio.h>\nint main(void)\n{\n    static int64_t ints[%d]; static double reals[%d];\n"
        "    compute(ints, reals);\n    for (int i = 0; i < %d; i++) printf(\"%%lld %%a\\n\", (long long)ints[i], reals[i]);\n"
        "    return 0;\n}\n",
        n, n, n);
    const char *at = run_program(text_cstr(&text));
    for (int i = 0; i < n; i++) {
        char *end;
        const int64_t value = strtoll(at, &end, 10);
        const double real = strtod(end, &end);
        at = end;
        const bool is_real = dtype_is_float(kept[i]->type);
        const bool same =
            is_real ? real == expected[i].f || (isnan(real) && isnan(expected[i].f)) : value == expected[i].i;
        if (!same) {
            Text shown = { .arena = arena };
            expr_print(&shown, kept[i]);
            fail_msg("%s: %lld %g, not %lld %g", text_cstr(&shown), (long long)value, real, (long long)expected[i].i,
                     expected[i].f);
        }
    }
}

// ---- statements as text

static LoopUnit *small_unit(void)
{
    LoopUnit *const unit = NEW(arena, LoopUnit, .arena = arena);
    Var *const from = loop_new_pointer(unit, DTYPE_BF16, "from"), *const to = loop_new_pointer(unit, DTYPE_F32, "to");
    Var *const i = loop_new_var(unit, DTYPE_INT, "i"), *const again = loop_new_var(unit, DTYPE_I32, "i");
    Var *const tile = loop_new_pointer(unit, DTYPE_F32, "tile"), *const flag = loop_new_var(unit, DTYPE_BOOL, "flag");
    to->restricted = true;
    LoopList body = loop_list(arena), inner = loop_list(arena), then = loop_list(arena);
    loop_add(&body, (LoopStmt){ .kind = L_DECLARE,
                                .declare = { .var = tile, .elements = 64, .space = SPACE_SHARED, .align = 16 } });
    loop_add(&body, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = flag, .value = expr_bool(arena, false) } });
    Expr *const element = expr_index(arena, from, expr_var(arena, i));
    Expr *const wide = expr_call(arena, DTYPE_F32, "kiln_f32_from_bf16", 1, (Expr *[]){ element });
    loop_add(&inner, (LoopStmt){ .kind = L_STORE,
                                 .store = { to, int_sub(arena, expr_var(arena, i), int_const(arena, 1)),
                                            expr_binary(arena, X_MUL, wide, expr_float(arena, DTYPE_F32, 0.1)) } });
    loop_add(&then, (LoopStmt){ .kind = L_BREAK });
    loop_add(&inner, (LoopStmt){ .kind = L_IF, .branch = { expr_var(arena, flag), then.first, NULL } });
    loop_add(&body, (LoopStmt){ .kind = L_FOR,
                                .for_ = { .var = i,
                                          .lo = int_const(arena, 1),
                                          .hi = int_const(arena, 65),
                                          .form = LOOP_UNROLL,
                                          .body = inner.first } });
    loop_add(&body, (LoopStmt){ .kind = L_FOR,
                                .for_ = { .var = again,
                                          .lo = expr_int(arena, DTYPE_I32, 8),
                                          .hi = expr_int(arena, DTYPE_I32, 0),
                                          .step = expr_int(arena, DTYPE_I32, -2),
                                          .form = LOOP_NO_UNROLL } });
    loop_add(&body, (LoopStmt){ .kind = L_COMMENT, .comment = { "ends here \\\nnot there" } });
    Var **const params = NEW_ARRAY(arena, Var *, 2);
    params[0] = from;
    params[1] = to;
    VEC_PUSH(arena, &unit->functions,
             NEW(arena, LoopFunction, .name = "scale", .params = params, .n_params = 2, .body = body.first));
    return unit;
}

static void test_statements_in_c(void **state)
{
    Text text = { .arena = arena };
    emit_unit(&text, small_unit(), &dialect_c);
    assert_string_equal(text_cstr(&text), "\nstatic void scale(uint16_t *v_from, float *restrict v_to)\n"
                                          "{\n"
                                          "    _Alignas(16) float v_tile[64];\n"
                                          "    _Bool v_flag = 0;\n"
                                          "    KILN_UNROLL\n"
                                          "    for (int64_t v_i = 1; v_i < 65; v_i++) {\n"
                                          "        v_to[v_i - 1] = kiln_f32_from_bf16(v_from[v_i]) * 0.1f;\n"
                                          "        if (v_flag) {\n"
                                          "            break;\n"
                                          "        }\n"
                                          "    }\n"
                                          "    KILN_NO_UNROLL\n"
                                          "    for (int32_t v_i_2 = 8; v_i_2 > 0; v_i_2 += -2) {\n"
                                          "    }\n"
                                          "    // ends here   not there\n"
                                          "}\n");
}

static void test_statements_in_cuda(void **state)
{
    Text text = { .arena = arena };
    emit_unit(&text, small_unit(), &dialect_cuda);
    const char *const out = text_cstr(&text);
    assert_non_null(strstr(out, "    __shared__ __align__(16) float v_tile[64];\n"));
    assert_non_null(strstr(out, "    bool v_flag = 0;\n"));
    assert_non_null(strstr(out, "    #pragma unroll\n    for (int64_t v_i = 1; v_i < 65; v_i++) {\n"));
    assert_non_null(strstr(out, "static void scale(uint16_t *v_from, float *__restrict__ v_to)\n"));
}

static void test_equal_units_give_equal_texts(void **state)
{
    Text one = { .arena = arena }, two = { .arena = arena };
    emit_unit(&one, small_unit(), &dialect_c);
    emit_unit(&two, small_unit(), &dialect_c);
    assert_string_equal(text_cstr(&one), text_cstr(&two));
}

// ---- the verifier

static void expect_violation(LoopStmt stmt, const char *message)
{
    LoopUnit unit = { .arena = arena };
    LoopList body = loop_list(arena);
    loop_add(&body, stmt);
    LoopFunction function = { .name = "f", .body = body.first };
    VEC_PUSH(arena, &unit.functions, &function);
    Text why = { .arena = arena };
    assert_false(loop_verify(&unit, &why));
    assert_string_equal(text_cstr(&why), message);
}

static void test_the_verifier_finds_what_is_wrong(void **state)
{
    LoopUnit unit = { .arena = arena, .n_vars = 7 };
    Var *const x = loop_new_var(&unit, DTYPE_INT, "x");
    expect_violation((LoopStmt){ .kind = L_BREAK }, "f: break outside of a loop");
    expect_violation((LoopStmt){ .kind = L_GOTO, .label = { "end" } }, "f: goto 'end', which is no label");
    expect_violation((LoopStmt){ .kind = L_ASSIGN, .assign = { x, int_const(arena, 1) } },
                     "f: 'x' (7) is used out of scope or before its declaration");
    expect_violation((LoopStmt){ .kind = L_CALL, .call = { int_const(arena, 1) } }, "f: '1' is no call");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_expressions_mean_the_same_in_c),
        cmocka_unit_test(test_statements_in_c),
        cmocka_unit_test(test_statements_in_cuda),
        cmocka_unit_test(test_equal_units_give_equal_texts),
        cmocka_unit_test(test_the_verifier_finds_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
