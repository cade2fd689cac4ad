// SPDX-License-Identifier: MIT
// cases.c - check name<...>(...) { }: the product of its values, one case each.
//
// Values are taken in the order they stand in; each may use the names before it, and build parameters not listed have
// their defaults. `input X = {none, present}` multiplies too. A case holds what builds its kernel, what launches it,
// how each input is made, and the tolerance.
#include "check/context.h"

enum { CASES_MAX = 100000 };

typedef struct Maker {
    Checker *cx; // names given so far are its scope
    const Decl *decl, *subject;
    CheckCases *cases;
    int capacity;
    Binding build[64], launch[64];
    int n_build, n_launch;
    Text label;
    const St *varied[16]; // inputs made in several ways in turn: input X = {0, uniform(0, 9)};
    const Ex *ways[16];
    int n_varied;
    bool strided; // the inputs that are made {contiguous, strided}
    bool failed;
} Maker;

// ---- what the subject has

static const BuildParam *find_build(const Decl *subject, Name name)
{
    for (const BuildParam *build = subject->build; build; build = build->next)
        if (build->name == name) return build;
    return NULL;
}

static const Param *find_param(const Decl *subject, Name name, int *index)
{
    int i = 0;
    for (const Param *param = subject->params; param; param = param->next, i++)
        if (param->name == name) {
            *index = i;
            return param;
        }
    return NULL;
}

static bool names_symbol(const Ex *ex, Name name)
{
    if (!ex) return false;
    if (ex->kind == EX_NAME) return ex->name.name == name;
    return ex->kind == EX_BINARY && (names_symbol(ex->binary.a, name) || names_symbol(ex->binary.b, name));
}

static bool is_symbol(const Decl *subject, Name name)
{
    for (const Param *param = subject->params; param; param = param->next)
        for (const Ex *extent = param->extents; extent; extent = extent->next)
            if (names_symbol(extent, name)) return true;
    return false;
}

static void report_unknown(Maker *m, const NamedValue *value, const char *what, const char *const *names, int n)
{
    check_error(m->cx, value->span, "'%s' has no %s '%s'", m->subject->name, what, value->name);
    const char *const near = nearest_name(value->name, names, n);
    if (near) check_help(m->cx, value->span, "did you mean '%s'?", near);
    m->failed = true;
}

static void report_unknown_build(Maker *m, const NamedValue *value)
{
    const char *names[64];
    int n = 0;
    for (const BuildParam *build = m->subject->build; build && n < 64; build = build->next) names[n++] = build->name;
    report_unknown(m, value, "build parameter", names, n);
    if (is_symbol(m->subject, value->name)) check_help(m->cx, value->span, "shape symbols and scalars stand in (...)");
}

static void report_unknown_value(Maker *m, const NamedValue *value)
{
    const char *names[256];
    int n = 0;
    for (const Param *param = m->subject->params; param; param = param->next) {
        if (!param->extents && n < 256) names[n++] = param->name;
        for (const Ex *extent = param->extents; extent && n < 256; extent = extent->next)
            if (extent->kind == EX_NAME) names[n++] = extent->name.name;
    }
    report_unknown(m, value, "shape symbol or scalar argument", names, n);
    if (find_build(m->subject, value->name)) check_help(m->cx, value->span, "build parameters stand in <...>");
}

// ---- values

static void add_label(Maker *m, const char *separator, const NamedValue *value, const Binding *binding)
{
    text_print(&m->label, "%s", separator);
    if (binding->kind == BIND_TYPE) {
        text_print(&m->label, "%s", dtype_name(binding->type));
        return;
    }
    text_print(&m->label, "%s=", value->name);
    if (binding->kind == BIND_FN) text_print(&m->label, "%s", binding->function);
    else if (binding->kind == BIND_FLOAT) text_print(&m->label, "%g", binding->real);
    else text_print(&m->label, "%lld", (long long)binding->integer);
}

// A value as a binding for a parameter of this type; false (reported) if it cannot be one.
static bool bind_value(Maker *m, const NamedValue *named, Value v, DType type, Binding *binding)
{
    *binding = (Binding){ .name = named->name };
    if (v.kind == VALUE_POISON) return false;
    if (v.kind == VALUE_TYPE) {
        binding->kind = BIND_TYPE;
        binding->type = v.type;
        return type == DTYPE_NONE || check_error(m->cx, v.span, "'%s' is a number, not a type", named->name);
    }
    if (v.kind == VALUE_FUNCTION) {
        binding->kind = BIND_FN;
        binding->function = v.function;
        return type == DTYPE_NONE || check_error(m->cx, v.span, "'%s' is a number, not a function", named->name);
    }
    if (v.kind != VALUE_SCALAR || !expr_is_const(v.expr))
        return check_error(m->cx, v.span, "the values of a check are constants, or computed from names before them");
    const bool wants_float = type != DTYPE_NONE ? dtype_is_float(type) : v.expr->kind == E_FLOAT;
    Expr *const x = convert_expr(m->cx, v, wants_float ? DTYPE_F64 : type == DTYPE_NONE ? DTYPE_INT : type);
    if (!x) return false;
    binding->kind = wants_float ? BIND_FLOAT : BIND_INT;
    if (wants_float) binding->real = x->real.value;
    else binding->integer = x->integer.value;
    return true;
}

static void make_launch(Maker *m, const NamedValue *value);

static void each_value(Maker *m, const NamedValue *value, void (*with)(Maker *, const NamedValue *, Value, bool))
{
    const bool is_set = value->value->kind == EX_SET;
    for (const Ex *ex = is_set ? value->value->set.items : value->value; ex && !m->failed;
         ex = is_set ? ex->next : NULL) {
        Entity *const names = m->cx->names;
        const Text label = m->label;
        const int n_build = m->n_build, n_launch = m->n_launch;
        const BuildParam *const build = find_build(m->subject, value->name);
        with(m, value, build ? check_build_value(m->cx, build, ex) : check_expression(m->cx, ex), value->next == NULL);
        m->cx->names = names;
        // The label grows by copying, so its earlier bytes are still those of this prefix.
        m->label.length = label.length;
        if (m->label.data) m->label.data[label.length] = 0;
        m->n_build = n_build;
        m->n_launch = n_launch;
    }
}

// ---- inputs

typedef struct InputForm {
    const char *name;
    InputKind kind;
    int arguments;
    double a, b;
} InputForm;

static const InputForm input_forms[] = {
    { "normal", INPUT_NORMAL, 2, 0, 1 },
    { "uniform", INPUT_UNIFORM, 2, 0, 1 },
    { "permutation", INPUT_PERMUTATION, 0, 0, 0 },
    { "sorted", INPUT_SORTED, 2, 0, 0 },
};

const char *check_input_word(int i) { return i < COUNT(input_forms) ? input_forms[i].name : NULL; }

static bool const_number(Maker *m, const Ex *ex, double *number)
{
    const Value v = check_scalar(m->cx, ex);
    if (v.kind == VALUE_POISON) return false;
    if (v.expr->kind == E_INT) *number = (double)v.expr->integer.value;
    else if (v.expr->kind == E_FLOAT) *number = v.expr->real.value;
    else return check_error(m->cx, ex->span, "expected a number known when the case is made");
    return true;
}

static bool input_call(Maker *m, const Ex *how, CaseInput *input)
{
    const char *names[COUNT(input_forms)];
    for (int i = 0; i < COUNT(input_forms); i++) {
        const InputForm *const form = &input_forms[i];
        names[i] = form->name;
        if (strcmp(form->name, how->call.name) != 0) continue;
        double numbers[2] = { form->a, form->b };
        int n = 0;
        for (const Ex *arg = how->call.args; arg; arg = arg->next) {
            double number;
            if (!const_number(m, arg, &number)) return false;
            if (n < 2) numbers[n] = number;
            n++;
        }
        if (n != form->arguments)
            return check_error(m->cx, how->span, "'%s' takes %d argument%s, not %d", form->name, form->arguments,
                               form->arguments == 1 ? "" : "s", n);
        *input = (CaseInput){ input->param, form->kind, numbers[0], numbers[1] };
        return true;
    }
    if (is_builtin(how->call.name)) { // a constant expression: min(M, 3)
        input->kind = INPUT_CONSTANT;
        return const_number(m, how, &input->a);
    }
    check_error(m->cx, how->span, "inputs are made by normal, uniform, permutation or sorted, not by '%s'",
                how->call.name);
    const char *const near = nearest_name(how->call.name, names, COUNT(names));
    if (near) check_help(m->cx, how->span, "did you mean '%s'?", near);
    return false;
}

static bool is_word(const Ex *ex, const char *word) { return ex->kind == EX_NAME && strcmp(ex->name.name, word) == 0; }

static bool is_presence(const Ex *how)
{
    if (how->kind == EX_SET) return is_presence(how->set.items);
    return how->kind == EX_NONE || is_word(how, "present");
}

// Not how it is filled: that it, or an output, is built with rows that lie apart; or both in turn, all of these together.
static bool is_strided(const Ex *how)
{
    if (how->kind != EX_SET) return is_word(how, "strided");
    const Ex *const first = how->set.items, *const second = first->next;
    return is_word(first, "contiguous") && second && is_word(second, "strided") && !second->next;
}

// How this statement makes its input in the case at hand.
static const Ex *way_of(const Maker *m, const St *st)
{
    for (int i = 0; i < m->n_varied; i++)
        if (m->varied[i] == st) return m->ways[i];
    return st->input.how;
}

// Bit 0: absent, bit 1: present.
static unsigned presence_of(Maker *m, const Param *param)
{
    unsigned result = 2;
    for (const St *st = m->decl->body; st; st = st->next) {
        if (st->kind != ST_INPUT || st->input.tensor != param->name || !is_presence(st->input.how)) continue;
        result = 0;
        const Ex *const how = st->input.how;
        for (const Ex *one = how->kind == EX_SET ? how->set.items : how; one;
             one = how->kind == EX_SET ? one->next : NULL) {
            if (one->kind == EX_NONE) result |= 1;
            else if (is_word(one, "present")) result |= 2;
            else m->failed = !check_error(m->cx, one->span, "presence is 'none' or 'present'");
        }
    }
    return result;
}

static bool code_fills(Maker *m, Name tensor) { return statements_assign(m->cx, m->decl->body, tensor); }

static DType tensor_type(Maker *m, const Param *param) { return resolve_type(m->cx, &param->type); }

static bool case_input(Maker *m, const Param *param, int index, CaseInput *input)
{
    const DType type = tensor_type(m, param);
    *input = (CaseInput){ index, dtype_is_float(type) ? INPUT_NORMAL : INPUT_CONSTANT, 0, 1 };
    bool given = false;
    for (const St *st = m->decl->body; st; st = st->next) {
        if (st->kind != ST_INPUT || st->input.tensor != param->name || is_presence(st->input.how) ||
            is_strided(st->input.how))
            continue;
        const Ex *const how = way_of(m, st);
        given = true;
        if (how->kind == EX_CALL) {
            if (!input_call(m, how, input)) return false;
        } else {
            input->kind = INPUT_CONSTANT;
            if (!const_number(m, how, &input->a)) return false;
        }
        if (input->kind == INPUT_PERMUTATION && dtype_is_float(type))
            return check_error(m->cx, st->input.how->span, "a permutation fills integers, and '%s' is %s", param->name,
                               dtype_name(type));
    }
    if (given || dtype_is_float(type) || type == DTYPE_NONE || code_fills(m, param->name)) return true;
    check_error(m->cx, m->decl->name_span, "nothing makes the input '%s'", param->name);
    check_help(m->cx, m->decl->name_span, "integers have no default: input %s = uniform(lo, hi);", param->name);
    return false;
}

static void check_inputs_named(Maker *m)
{
    for (const St *st = m->decl->body; st; st = st->next) {
        int index;
        if (st->kind != ST_INPUT) continue;
        const Param *const param = find_param(m->subject, st->input.tensor, &index);
        const char *names[128];
        int n = 0;
        for (const Param *one = m->subject->params; one && n < 128; one = one->next)
            if (one->extents) names[n++] = one->name;
        if (!param || !param->extents) {
            m->failed = !check_error(m->cx, st->input.tensor_span, "'%s' has no tensor '%s'", m->subject->name,
                                     st->input.tensor);
            const char *const near = nearest_name(st->input.tensor, names, n);
            if (near) check_help(m->cx, st->input.tensor_span, "did you mean '%s'?", near);
        } else if (!param->optional && is_presence(st->input.how)) {
            m->failed = !check_error(m->cx, st->span, "'%s' is not optional", param->name);
        } else if (param->mode == MODE_OUT && !is_presence(st->input.how) && !is_strided(st->input.how)) {
            m->failed = !check_error(m->cx, st->input.tensor_span, "'%s' is an output, not an input", param->name);
        }
    }
}

// ---- tolerances

static const char *const tolerance_terms[] = { "relative", "absolute", "cosine", "outliers", "exact" };

const char *check_tolerance_word(int i) { return i < COUNT(tolerance_terms) ? tolerance_terms[i] : NULL; }

static bool tolerance_term(Maker *m, const Hint *term, CaseTolerance *tolerance)
{
    double *const fields[] = { &tolerance->relative, &tolerance->absolute, &tolerance->cosine, &tolerance->outliers };
    for (int i = 0; i < COUNT(fields); i++) {
        if (strcmp(term->name, tolerance_terms[i]) != 0) continue;
        if (!term->argument)
            return check_error(m->cx, term->span, "'%s' needs a number: %s 1e-3", term->name, term->name);
        if (!const_number(m, term->argument, fields[i])) return false;
        return *fields[i] >= 0 || check_error(m->cx, term->argument->span, "a tolerance is not negative");
    }
    if (strcmp(term->name, "exact") == 0) {
        tolerance->exact = true;
        return !term->argument || check_error(m->cx, term->span, "'exact' takes no number");
    }
    check_error(m->cx, term->span, "there is no tolerance '%s'", term->name);
    const char *const near = nearest_name(term->name, tolerance_terms, COUNT(tolerance_terms));
    if (near) check_help(m->cx, term->span, "did you mean '%s'?", near);
    return false;
}

static bool one_tolerance(Maker *m, const St *st, CaseTolerance *tolerance)
{
    int index = -1;
    *tolerance = (CaseTolerance){ .param = -1, .relative = -1, .absolute = -1, .cosine = -1, .outliers = -1 };
    if (st->tolerance.output) {
        const Param *const param = find_param(m->subject, st->tolerance.output, &index);
        if (!param || !param->extents)
            return check_error(m->cx, st->tolerance.output_span, "'%s' has no tensor '%s'", m->subject->name,
                               st->tolerance.output);
        if (param->mode == MODE_IN)
            return check_error(m->cx, st->tolerance.output_span, "'%s' is an input; a tolerance is for outputs",
                               param->name);
        tolerance->param = index;
    }
    bool ok = true;
    for (const Hint *term = st->tolerance.terms; term; term = term->next) ok &= tolerance_term(m, term, tolerance);
    if (ok && tolerance->exact &&
        (tolerance->relative >= 0 || tolerance->absolute >= 0 || tolerance->cosine >= 0 || tolerance->outliers >= 0))
        return check_error(m->cx, st->span, "'exact' leaves no room for other bounds");
    return ok;
}

// ---- one case

static Binding *copy_bindings(Arena *arena, const Binding *items, int n)
{
    Binding *const copy = NEW_ARRAY(arena, Binding, n + 1);
    memcpy(copy, items, sizeof(Binding) * (size_t)n);
    return copy;
}

static bool is_absent(const Maker *m, Name name)
{
    for (int i = 0; i < m->n_build; i++)
        if (m->build[i].kind == BIND_NONE && m->build[i].name == name) return true;
    return false;
}

// The bindings of the build, with those that the check's inputs demand.
static Binding *build_of_case(Maker *m, int *n)
{
    int strided = 0;
    for (const St *st = m->decl->body; st; st = st->next) strided += st->kind == ST_INPUT && is_strided(st->input.how);
    Binding *const build = NEW_ARRAY(m->cx->arena, Binding, m->n_build + strided + 1);
    if (m->n_build) memcpy(build, m->build, sizeof(Binding) * (size_t)m->n_build);
    *n = m->n_build;
    for (const St *st = m->decl->body; st; st = st->next)
        if (st->kind == ST_INPUT && is_strided(st->input.how) && (st->input.how->kind != EX_SET || m->strided) &&
            !is_absent(m, st->input.tensor))
            build[(*n)++] = (Binding){ .name = st->input.tensor, .kind = BIND_STRIDED };
    return build;
}

static void add_case(Maker *m)
{
    Arena *const a = m->cx->arena;
    CheckCase made = { .decl = m->decl,
                       .launch = copy_bindings(a, m->launch, m->n_launch),
                       .n_launch = m->n_launch,
                       .label = arena_copy_text(a, m->label.data, m->label.length) };
    int n = 0, index = 0;
    made.build = build_of_case(m, &made.n_build);
    for (const Param *param = m->subject->params; param; param = param->next) n++;
    made.inputs = NEW_ARRAY(a, CaseInput, n + 1);
    for (const Param *param = m->subject->params; param; param = param->next, index++) {
        bool absent = false;
        for (int i = 0; i < m->n_build; i++) absent |= m->build[i].kind == BIND_NONE && m->build[i].name == param->name;
        if (!param->extents || param->mode == MODE_OUT || absent) continue;
        if (!case_input(m, param, index, &made.inputs[made.n_inputs++])) m->failed = true;
    }
    int tolerances = 0;
    for (const St *st = m->decl->body; st; st = st->next) {
        tolerances += st->kind == ST_TOLERANCE;
        made.has_code |= st->kind != ST_TOLERANCE && st->kind != ST_INPUT;
    }
    made.tolerances = NEW_ARRAY(a, CaseTolerance, tolerances + 1);
    for (const St *st = m->decl->body; st; st = st->next)
        if (st->kind == ST_TOLERANCE && !one_tolerance(m, st, &made.tolerances[made.n_tolerances++])) m->failed = true;
    if (m->cases->count == CASES_MAX) {
        m->failed = !check_error(m->cx, m->decl->name_span, "more than %d cases", CASES_MAX);
        return;
    }
    if (m->cases->count == m->capacity) {
        m->capacity = m->capacity ? 2 * m->capacity : 16;
        CheckCase *const items = NEW_ARRAY(a, CheckCase, m->capacity);
        if (m->cases->count) memcpy(items, m->cases->items, sizeof(CheckCase) * (size_t)m->cases->count);
        m->cases->items = items;
    }
    m->cases->items[m->cases->count++] = made;
}

// Everything a launch needs must have been said.
static bool all_given(Maker *m)
{
    bool ok = true;
    for (const Param *param = m->subject->params; param; param = param->next) {
        if (!param->extents && !find_entity(m->cx, param->name))
            ok = check_error(m->cx, m->decl->name_span, "no value is given for '%s'", param->name);
        if (is_absent(m, param->name)) continue;
        for (const Ex *extent = param->extents; extent; extent = extent->next)
            if (extent->kind == EX_NAME && !find_entity(m->cx, extent->name.name))
                ok = check_error(m->cx, m->decl->name_span, "no value is given for '%s'", extent->name.name);
        if (!ok) return false;
    }
    return ok;
}

static void label_source(Maker *m, const Span span)
{
    text_add(&m->label, span.source->text + span.begin, (size_t)(span.end - span.begin));
}

// Each way to make an input is a case of its own.
static void make_ways(Maker *m, const St *st)
{
    while (st && (st->kind != ST_INPUT || st->input.how->kind != EX_SET || is_presence(st->input.how) ||
                  is_strided(st->input.how)))
        st = st->next;
    if (m->failed) return;
    if (!st) {
        add_case(m);
        return;
    }
    if (m->n_varied == COUNT(m->varied)) {
        m->failed = !check_error(m->cx, st->span, "more than %d inputs made in several ways", COUNT(m->varied));
        return;
    }
    const int at = m->n_varied++;
    const size_t length = m->label.length;
    m->varied[at] = st;
    for (const Ex *way = st->input.how->set.items; way && !m->failed; way = way->next) {
        m->ways[at] = way;
        text_print(&m->label, " %s=", st->input.tensor);
        label_source(m, way->span);
        make_ways(m, st->next);
        m->label.length = length;
        m->label.data[length] = 0;
    }
    m->n_varied = at;
}

static void make_strides(Maker *m)
{
    bool both = false;
    const size_t length = m->label.length;
    for (const St *st = m->decl->body; st; st = st->next)
        both |= st->kind == ST_INPUT && st->input.how->kind == EX_SET && is_strided(st->input.how);
    m->strided = false;
    make_ways(m, m->decl->body);
    if (!both || m->failed) return;
    m->strided = true;
    text_print(&m->label, " strided");
    make_ways(m, m->decl->body);
    m->label.length = length;
    m->label.data[length] = 0;
}

static void make_presence(Maker *m, const Param *param)
{
    while (param && !(param->extents && param->optional)) param = param->next;
    if (m->failed) return;
    if (!param) {
        if (all_given(m)) make_strides(m);
        else m->failed = true;
        return;
    }
    const unsigned presence = presence_of(m, param);
    for (int present = 0; present < 2 && !m->failed; present++) {
        if (!(presence >> present & 1)) continue;
        const int n_build = m->n_build;
        const size_t length = m->label.length;
        if (presence == 3) text_print(&m->label, " %s=%s", param->name, present ? "present" : "none");
        if (!present && m->n_build < COUNT(m->build))
            m->build[m->n_build++] = (Binding){ .name = param->name, .kind = BIND_NONE };
        make_presence(m, param->next);
        m->n_build = n_build;
        m->label.length = length;
        m->label.data[length] = 0;
    }
}

// ---- the product

static void with_launch(Maker *m, const NamedValue *value, Value v, bool is_last)
{
    int index = 0;
    const Param *const param = find_param(m->subject, value->name, &index);
    const bool is_scalar = param && !param->extents;
    if ((!is_scalar && !is_symbol(m->subject, value->name)) || find_build(m->subject, value->name)) {
        report_unknown_value(m, value);
        return;
    }
    const DType type = is_scalar ? resolve_type(m->cx, &param->type) : DTYPE_INT;
    Binding binding;
    if (!bind_value(m, value, v, type, &binding)) {
        m->failed = true;
        return;
    }
    if (m->n_launch == COUNT(m->launch)) {
        m->failed = !check_error(m->cx, value->span, "more than %d values", COUNT(m->launch));
        return;
    }
    m->launch[m->n_launch++] = binding;
    add_label(m, m->n_launch == 1 ? "(" : ", ", value, &binding);
    Expr *const known = binding.kind == BIND_FLOAT ? expr_float(m->cx->arena, DTYPE_F64, binding.real)
                                                   : int_const(m->cx->arena, binding.integer);
    declare(m->cx, (Entity){ .kind = ENTITY_VALUE,
                             .name = value->name,
                             .span = value->span,
                             .what = "a value of the check",
                             .value = known,
                             .type = known->type });
    make_launch(m, is_last ? NULL : value->next);
}

static void make_launch(Maker *m, const NamedValue *value)
{
    if (value) {
        each_value(m, value, with_launch);
        return;
    }
    if (m->n_launch > 0) text_print(&m->label, ")");
    else text_print(&m->label, "()");
    make_presence(m, m->subject->params);
}

static bool is_given(const Maker *m, Name name)
{
    for (int i = 0; i < m->n_build; i++)
        if (m->build[i].name == name) return true;
    return false;
}

// Build parameters that the check does not list have their defaults.
static void make_defaults(Maker *m)
{
    for (const BuildParam *build = m->subject->build; build; build = build->next) {
        if (is_given(m, build->name)) continue;
        if (!build->value) {
            m->failed = !check_error(m->cx, m->decl->name_span, "no value is given for '%s', which has no default",
                                     build->name);
            return;
        }
        declare_build_param(m->cx, build, check_build_value(m->cx, build, build->value));
    }
    if (m->n_build > 0) text_print(&m->label, ">");
    make_launch(m, m->decl->values);
}

static void make_build(Maker *m, const NamedValue *value);

static void with_build(Maker *m, const NamedValue *value, Value v, bool is_last)
{
    const BuildParam *const build = find_build(m->subject, value->name);
    if (!build) {
        report_unknown_build(m, value);
        return;
    }
    static const DType types[] = { [BUILD_TYPE] = DTYPE_NONE,
                                   [BUILD_INT] = DTYPE_INT,
                                   [BUILD_BOOL] = DTYPE_BOOL,
                                   [BUILD_FLOAT] = DTYPE_F64,
                                   [BUILD_FN] = DTYPE_NONE };
    Binding binding;
    const int errors = m->cx->errors;
    Entity *const before = m->cx->names;
    declare_build_param(m->cx, build, v);
    if (m->cx->errors != errors || m->cx->names == before || !bind_value(m, value, v, types[build->kind], &binding)) {
        m->failed = true;
        return;
    }
    if (m->n_build == COUNT(m->build)) {
        m->failed = !check_error(m->cx, value->span, "more than %d values", COUNT(m->build));
        return;
    }
    m->build[m->n_build++] = binding;
    add_label(m, m->n_build == 1 ? "<" : ",", value, &binding);
    make_build(m, is_last ? NULL : value->next);
}

static void make_build(Maker *m, const NamedValue *value)
{
    if (value) each_value(m, value, with_build);
    else make_defaults(m);
}

static void make_cases(Program *program, const Decl *decl, const Decl *subject, CheckCases *cases, int *capacity,
                       bool *failed)
{
    static const CheckOptions options = { .target = "cpu" };
    Checker *const cx = new_checker(program, subject, &options);
    new_kernel(cx, decl->name);
    cx->sequential = true;
    Maker *const m = NEW(cx->arena, Maker, .cx = cx);
    m->decl = decl;
    m->subject = subject;
    m->cases = cases;
    m->capacity = *capacity;
    m->label.arena = cx->arena;
    text_print(&m->label, "%s", decl->name);
    check_inputs_named(m);
    if (!m->failed) make_build(m, decl->build_values);
    *capacity = m->capacity;
    *failed |= m->failed || cx->errors > 0;
}

CheckCases *check_cases(Program *program, const char *name)
{
    CheckCases *const cases = NEW(program->arena, CheckCases, .count = 0);
    int capacity = 0;
    bool failed = false;
    for (int i = 0; i < program->n_modules; i++)
        for (const Decl *decl = program->modules[i]->decls; decl; decl = decl->next) {
            if (decl->kind != DECL_CHECK || strcmp(decl->name, name) != 0) continue;
            const Decl *const subject = signature_of(program, decl);
            failed |= !subject;
            if (subject) make_cases(program, decl, subject, cases, &capacity, &failed);
        }
    return failed ? NULL : cases;
}
