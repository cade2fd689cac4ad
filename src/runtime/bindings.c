// SPDX-License-Identifier: MIT
// bindings.c - "T=bf16, BM=64, LSE=none": the values a caller fixes when a kernel is built.
#include "runtime/build.h"
#include "base/near.h"
#include "syntax/foreign.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct Word {
    const char *at;
    int n;
} Word;

static const char *skip_spaces(const char *p) { return p + strspn(p, " \t\r\n"); }

static Word trimmed(const char *begin, const char *end)
{
    begin = skip_spaces(begin);
    while (end > begin && strchr(" \t\r\n", end[-1])) end--;
    return (Word){ begin, end > begin ? (int)(end - begin) : 0 };
}

static bool word_is(Word word, const char *text)
{
    return (int)strlen(text) == word.n && memcmp(word.at, text, (size_t)word.n) == 0;
}

// As the language writes them: decimal, or hexadecimal after 0x; there are no octal numbers.
static bool is_integer(const char *text, int *base)
{
    const char *digits = text + (*text == '-' || *text == '+');
    *base = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X') ? 16 : 10;
    digits += *base == 16 ? 2 : 0;
    return *digits && digits[strspn(digits, *base == 16 ? "0123456789abcdefABCDEF" : "0123456789")] == 0;
}

static kiln_status parse_integer(const char *name, const char *text, int base, int64_t *value)
{
    const char *const digits = text + (*text == '-' || *text == '+');
    if (base == 10 && digits[0] == '0' && digits[1])
        return status_fail(KILN_BAD_ARGUMENT,
                           "bindings: '%s' (of '%s'): octal numbers do not exist; write it without the leading 0", text,
                           name);
    errno = 0;
    *value = strtoll(text, NULL, base);
    return !errno ? KILN_OK
                  : status_fail(KILN_BAD_ARGUMENT, "bindings: '%s' (of '%s') does not fit into 64 bits (%lld .. %lld)",
                                text, name, (long long)INT64_MIN, (long long)INT64_MAX);
}

static bool parse_float(const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return *text && !*end && (!isinf(*value) || !strpbrk(text, "0123456789")); // inf is one, 1e400 is not
}

// ---- what a name may be bound to

static bool extents_use(const Ex *ex, const char *name)
{
    for (; ex; ex = ex->next) {
        if (ex->kind == EX_NAME && strcmp(ex->name.name, name) == 0) return true;
        if ((ex->kind == EX_UNARY && extents_use(ex->unary.a, name)) ||
            (ex->kind == EX_BINARY && (extents_use(ex->binary.a, name) || extents_use(ex->binary.b, name))) ||
            (ex->kind == EX_CALL && extents_use(ex->call.args, name)))
            return true;
    }
    return false;
}

static const char *const binding_kinds[] = {
    [BIND_INT] = "an integer",      [BIND_FLOAT] = "a floating-point number",
    [BIND_TYPE] = "a type",         [BIND_FN] = "a function",
    [BIND_NONE] = "none",           [BIND_STRIDED] = "strided",
    [BIND_UNALIGNED] = "unaligned",
};

static kiln_status expect(const Binding *binding, bool ok, const char *expected)
{
    return ok ? KILN_OK
              : status_fail(KILN_BAD_TYPE, "'%s' is bound to %s, expected %s", binding->name,
                            binding_kinds[binding->kind], expected);
}

static kiln_status check_build_param(const BuildParam *param, Binding *binding)
{
    if (param->kind == BUILD_FLOAT && binding->kind == BIND_INT) {
        binding->kind = BIND_FLOAT;
        binding->real = (double)binding->integer;
    }
    switch (param->kind) {
    case BUILD_TYPE: return expect(binding, binding->kind == BIND_TYPE, "a type");
    case BUILD_INT: return expect(binding, binding->kind == BIND_INT, "an integer");
    case BUILD_BOOL: return expect(binding, binding->kind == BIND_INT && (binding->integer & ~1) == 0, "true or false");
    case BUILD_FLOAT: return expect(binding, binding->kind == BIND_FLOAT, "a number");
    case BUILD_FN: return expect(binding, binding->kind == BIND_FN, "the name of a function");
    }
    return KILN_OK;
}

static kiln_status check_param(const Param *param, Binding *binding)
{
    if (param->extents && (binding->kind == BIND_STRIDED || binding->kind == BIND_UNALIGNED)) return KILN_OK;
    if (param->extents)
        return expect(binding, binding->kind == BIND_NONE && param->optional,
                      param->optional ? "none (a tensor is given at launch)" : "nothing: a tensor is given at launch");
    return expect(binding, binding->kind == BIND_INT || binding->kind == BIND_FLOAT, "a number");
}

// Each once.
typedef struct Names {
    Text text;
    const char *items[64];
    int n;
} Names;

static void list_name(Names *names, const char *name)
{
    for (int i = 0; i < names->n; i++)
        if (strcmp(names->items[i], name) == 0) return;
    if (names->n == COUNT(names->items)) return;
    text_print(&names->text, "%s%s", names->n ? ", " : "", name);
    names->items[names->n++] = name;
}

static void list_names(Names *names, const Decl *decl)
{
    for (const BuildParam *p = decl->build; p; p = p->next) list_name(names, p->name);
    for (const Param *p = decl->params; p; p = p->next)
        if (!p->extents || p->optional) list_name(names, p->name);
    for (const Param *p = decl->params; p; p = p->next)
        for (const Ex *ex = p->extents; ex; ex = ex->next)
            if (ex->kind == EX_NAME) list_name(names, ex->name.name);
}

static const char *did_you_mean(Arena *arena, const char *near)
{
    return near ? arena_printf(arena, "; did you mean '%s'?", near) : "";
}

// "; did you mean 'f16'?" of a value that is none.
static const char *near_value(Arena *arena, Word word)
{
    const char *candidates[DTYPE_COUNT + 8], *const text = arena_copy_text(arena, word.at, (size_t)word.n);
    static const char *const words[] = { "true", "false", "none", "strided", "unaligned" };
    const ForeignWord *const foreign = find_foreign_of(text, FOREIGN_TYPE);
    int n = 0;
    for (int i = 0; i < COUNT(words); i++) candidates[n++] = words[i];
    for (int t = DTYPE_NONE + 1; t < DTYPE_COUNT; t++) candidates[n++] = dtype_name((DType)t);
    return did_you_mean(arena, foreign && foreign->ours ? foreign->ours : nearest_name(text, candidates, n));
}

static bool takes_function(const Decl *decl, const char *name)
{
    for (const BuildParam *p = decl->build; p; p = p->next)
        if (strcmp(p->name, name) == 0) return p->kind == BUILD_FN;
    return false;
}

// The name of a function; whether the program has it, the check says.
static kiln_status parse_function(Arena *arena, Word word, Binding *binding)
{
    binding->kind = BIND_FN;
    binding->function = arena_copy_text(arena, word.at, (size_t)word.n);
    for (int i = 0; i < word.n; i++)
        if (!isalpha((unsigned char)word.at[i]) && word.at[i] != '_' && (i == 0 || !isdigit((unsigned char)word.at[i])))
            return status_fail(KILN_BAD_ARGUMENT, "bindings: '%s' (of '%s') is not the name of a function",
                               binding->function, binding->name);
    return KILN_OK;
}

static kiln_status parse_value(Arena *arena, Word word, Binding *binding)
{
    int base;
    const char *const text = arena_copy_text(arena, word.at, (size_t)word.n);
    binding->kind = BIND_INT;
    if (word_is(word, "true") || word_is(word, "false")) return binding->integer = word_is(word, "true"), KILN_OK;
    if (word_is(word, "none")) return binding->kind = BIND_NONE, KILN_OK;
    if (word_is(word, "strided")) return binding->kind = BIND_STRIDED, KILN_OK;
    if (word_is(word, "unaligned")) return binding->kind = BIND_UNALIGNED, KILN_OK;
    if ((binding->type = dtype_find(word.at, word.n)) != DTYPE_NONE) return binding->kind = BIND_TYPE, KILN_OK;
    if (is_integer(text, &base)) return parse_integer(binding->name, text, base, &binding->integer);
    binding->kind = BIND_FLOAT;
    if (parse_float(text, &binding->real)) return KILN_OK;
    return status_fail(
        KILN_BAD_ARGUMENT,
        "bindings: '%s' (of '%s') is neither a number, a type, true, false, none, strided nor unaligned%s", text,
        binding->name, near_value(arena, word));
}

static const char *near_decl(Arena *arena, const Program *program, const char *name)
{
    const char *candidates[256];
    int n = 0;
    for (int m = 0; m < program->n_modules; m++)
        for (const Decl *d = program->modules[m]->decls; d && n < COUNT(candidates); d = d->next)
            if (d->kind == DECL_KERNEL || d->kind == DECL_OPERATOR) candidates[n++] = d->name;
    return did_you_mean(arena, nearest_name(name, candidates, n));
}

static kiln_status check_binding(Arena *arena, const Decl *decl, Binding *binding)
{
    for (const BuildParam *p = decl->build; p; p = p->next)
        if (strcmp(p->name, binding->name) == 0) return check_build_param(p, binding);
    for (const Param *p = decl->params; p; p = p->next)
        if (strcmp(p->name, binding->name) == 0) return check_param(p, binding);
    for (const Param *p = decl->params; p; p = p->next)
        if (extents_use(p->extents, binding->name) && binding->kind == BIND_INT && binding->integer < 0)
            return status_fail(KILN_BAD_ARGUMENT, "'%s' is bound to %" PRId64 ", expected an extent, 0 or more",
                               binding->name, binding->integer);
        else if (extents_use(p->extents, binding->name))
            return expect(binding, binding->kind == BIND_INT && binding->integer >= 0, "an extent");
    Names names = { .text = { .arena = arena } };
    list_names(&names, decl);
    return status_fail(KILN_BAD_ARGUMENT, "'%s' has nothing called '%s' to bind: it has %s%s", decl->name,
                       binding->name, text_cstr(&names.text),
                       did_you_mean(arena, nearest_name(binding->name, names.items, names.n)));
}

static kiln_status check_twice(const Binding *bindings, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(bindings[i].name, bindings[n].name) == 0)
            return status_fail(KILN_BAD_ARGUMENT, "'%s' is bound twice", bindings[n].name);
    return KILN_OK;
}

static const Decl *find_decl(kiln_program *program, const char *name)
{
    const Decl *const kernel = program_find(program->program, DECL_KERNEL, name);
    return kernel ? kernel : program_find(program->program, DECL_OPERATOR, name);
}

kiln_status bindings_parse(Arena *arena, kiln_program *program, const char *name, const char *text, Binding **bindings,
                           int *n)
{
    const Decl *const decl = find_decl(program, name);
    VEC(Binding) list = { 0 };
    *n = 0;
    if (!decl)
        return status_fail(KILN_NOT_FOUND, "%s has no kernel or operator called '%s'%s",
                           program->program->modules[0]->source->path, name, near_decl(arena, program->program, name));
    for (const char *at = skip_spaces(text ? text : ""), *end; *at; at = skip_spaces(end + (*end != 0))) {
        end = at + strcspn(at, ",");
        const char *const equals = memchr(at, '=', (size_t)(end - at));
        const Word key = trimmed(at, equals ? equals : end), value = trimmed(equals ? equals + 1 : end, end);
        Binding binding = { .name = arena_copy_text(arena, key.at, (size_t)key.n) };
        if (!equals || !key.n || !value.n)
            return status_fail(KILN_BAD_ARGUMENT, "bindings: expected NAME=VALUE, found '%.*s'", (int)(end - at), at);
        const bool is_function = takes_function(decl, binding.name);
        kiln_status status = is_function ? parse_function(arena, value, &binding) : parse_value(arena, value, &binding);
        if (status) return status;
        status = check_binding(arena, decl, &binding);
        VEC_PUSH(arena, &list, binding);
        if (!status) status = check_twice(list.items, list.count - 1);
        if (status) return status;
    }
    *bindings = list.items;
    *n = list.count;
    return KILN_OK;
}

// The shortest form that reads back as the same number.
static void print_real(Text *out, double value)
{
    char text[40];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    text_print(out, "%s", text);
}

void bindings_print(Text *out, const Binding *bindings, int n)
{
    for (int i = 0; i < n; i++) {
        const Binding *const b = &bindings[i];
        text_print(out, "%s%s=", i ? ", " : "", b->name);
        switch (b->kind) {
        case BIND_INT: text_print(out, "%lld", (long long)b->integer); break;
        case BIND_FLOAT: print_real(out, b->real); break;
        case BIND_TYPE: text_print(out, "%s", dtype_name(b->type)); break;
        case BIND_FN: text_print(out, "%s", b->function); break;
        case BIND_NONE: text_print(out, "none"); break;
        case BIND_STRIDED: text_print(out, "strided"); break;
        case BIND_UNALIGNED: text_print(out, "unaligned"); break;
        }
    }
}
