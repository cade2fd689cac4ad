// SPDX-License-Identifier: MIT
// sweep_case.c - shapes drawn from ranges, the tensors of an operator, and elements of its results compared with
// float64.
//
// Inputs repeat a table whose length is a prime (bench.h says why), and have a copy in host memory until the results are
// compared. What is written holds 0xFF before.
#include "sweep.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { PERIOD = 1048583 };

// ---- shapes

static int find_value(const Shape *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->values[i].name, name) == 0) return i;
    return -1;
}

bool shape_has(const Shape *s, const char *name) { return find_value(s, name) >= 0; }

int64_t shape_get(const Shape *s, const char *name)
{
    const int i = find_value(s, name);
    return i < 0 ? 0 : strcmp(s->values[i].text, "true") == 0 ? 1 : strtoll(s->values[i].text, NULL, 10);
}

bool shape_is(const Shape *s, const char *name, const char *text)
{
    const int i = find_value(s, name);
    return i >= 0 && strcmp(s->values[i].text, text) == 0;
}

kiln_type shape_type(const Shape *s, const char *name)
{
    static const kiln_type types[] = { KILN_F64, KILN_F32, KILN_F16, KILN_BF16, KILN_E4M3, KILN_E5M2, KILN_I8 };
    for (int i = 0; i < COUNT(types); i++)
        if (shape_is(s, name, kiln_type_name(types[i]))) return types[i];
    return KILN_BF16;
}

double shape_type_bytes(const Shape *s, const char *name) { return kiln_type_bits(shape_type(s, name)) / 8.0; }

static void set_text(Shape *s, const char *name, size_t name_n, const char *text, size_t n)
{
    char wanted[sizeof s->values[0].name];
    snprintf(wanted, sizeof wanted, "%.*s", (int)name_n, name);
    int i = find_value(s, wanted);
    if (i < 0 && s->n == SHAPE_VALUES) return;
    if (i < 0) i = s->n++;
    snprintf(s->values[i].name, sizeof s->values[i].name, "%s", wanted);
    snprintf(s->values[i].text, sizeof s->values[i].text, "%.*s", (int)n, text);
}

void shape_set(Shape *s, const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    set_text(s, name, strlen(name), text, strlen(text));
}

void shape_print(const Shape *s, char *text, size_t bytes)
{
    size_t at = 0;
    for (int i = 0; i < s->n && at < bytes; i++)
        at += (size_t)snprintf(text + at, bytes - at, "%s%s=%s", i ? ", " : "", s->values[i].name, s->values[i].text);
}

bool shape_parse(Shape *s, const char *text)
{
    *s = (Shape){ 0 };
    while (*text) {
        const size_t item = strcspn(text, ","), name = strcspn(text, "=");
        if (name == 0 || name >= item || item == name + 1) return false;
        set_text(s, text, name, text + name + 1, item - name - 1);
        text += item;
        text += strspn(text, ", ");
    }
    return s->n > 0;
}

// ---- random numbers, and shapes from them

uint64_t sweep_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static double random_unit(uint64_t *state) { return (double)(sweep_random(state) >> 11) * 0x1p-53; }

int64_t shape_length(int64_t longest, int64_t i)
{
    return i == 0 ? longest : longest - longest * (i * 7919 % 1000) / 2000;
}

static int64_t draw_between(int64_t low, int64_t high, uint64_t *random)
{
    const double x = exp2(log2((double)low) + random_unit(random) * log2((double)(high + 1) / (double)low));
    const int64_t n = (int64_t)x;
    return n < low ? low : n > high ? high : n;
}

static void draw_value(Shape *s, const char *name, size_t name_n, const char *text, size_t n, uint64_t *random)
{
    const char *const dots = memchr(text, '.', n);
    char number[24];
    if (!dots || dots[1] != '.') {
        set_text(s, name, name_n, text, n);
        return;
    }
    snprintf(number, sizeof number, "%" PRId64,
             draw_between(strtoll(text, NULL, 10), strtoll(dots + 2, NULL, 10), random));
    set_text(s, name, name_n, number, strlen(number));
}

static void draw_line(Shape *s, const char *line, uint64_t *random)
{
    const char *const colon = strchr(line, ':'), *option = colon + 1 + strspn(colon + 1, " ");
    int options = 0;
    for (const char *at = option; *at; at += strcspn(at, " "), at += strspn(at, " ")) options++;
    for (int skip = (int)(random_unit(random) * options); skip > 0; skip--) {
        option += strcspn(option, " ");
        option += strspn(option, " ");
    }
    for (const char *name = line; name < colon;) {
        const size_t name_n = strcspn(name, "/:"), n = strcspn(option, "/ ");
        draw_value(s, name, name_n, option, n, random);
        name += name_n + 1;
        option += n + (option[n] == '/');
    }
}

void shape_draw(Shape *s, const char *const *ranges, uint64_t *random)
{
    *s = (Shape){ 0 };
    for (; *ranges; ranges++) draw_line(s, *ranges, random);
}

// ---- tensors

void sweep_try(SweepCase *c, kiln_status status)
{
    if (c->status || !status) return;
    c->status = status;
    snprintf(c->problem, sizeof c->problem, "%s", kiln_error_message());
}

static void complain(SweepCase *c, const char *what, const char *name)
{
    if (c->status) return;
    c->status = KILN_OUT_OF_MEMORY;
    snprintf(c->problem, sizeof c->problem, "%s '%s'", what, name);
}

static SweepTensor *new_tensor(SweepCase *c, const char *name, kiln_type type, int rank, const int64_t *shape)
{
    static SweepTensor none; // of a case that failed
    void *memory = NULL;
    if (c->n == SWEEP_TENSORS) complain(c, "no room for", name);
    if (c->status) return &none;
    SweepTensor *const t = &c->tensors[c->n];
    *t = (SweepTensor){ .name = name };
    t->tensor = kiln_tensor_of(c->machine->device, NULL, type, rank, shape);
    sweep_try(c, kiln_alloc(c->machine->device, kiln_tensor_bytes(&t->tensor) + 256, &memory));
    if (c->status) return &none;
    t->tensor.data = memory;
    c->bytes += (double)kiln_tensor_bytes(&t->tensor);
    c->n++;
    return t;
}

static SweepTensor *upload(SweepCase *c, SweepTensor *t)
{
    if (t->host != t->tensor.data)
        sweep_try(c, kiln_upload(c->machine->device, t->tensor.data, t->host, kiln_tensor_bytes(&t->tensor)));
    return t;
}

static SweepTensor *filled(SweepCase *c, const CaseInput *input, const char *name, kiln_type type, int rank,
                           const int64_t *shape)
{
    SweepTensor *const t = new_tensor(c, name, type, rank, shape);
    if (c->status) return t;
    const DType dtype = dtype_of_type(type);
    const int64_t n = tensor_elements(&t->tensor), piece = n < PERIOD ? n : PERIOD;
    const size_t bytes = kiln_tensor_bytes(&t->tensor), each = (size_t)dtype_bits(dtype) / 8 * (size_t)piece;
    t->own = !c->machine->is_cpu;
    t->host = t->own ? malloc(bytes + 1) : t->tensor.data;
    if (!t->host) return complain(c, "out of memory for", name), t;
    fill_input(input, dtype, t->host, piece, 1 + (uint64_t)c->n);
    for (size_t at = each; at < bytes; at += each) memcpy(t->host + at, t->host, bytes - at < each ? bytes - at : each);
    return upload(c, t);
}

SweepTensor *sweep_normal(SweepCase *c, const char *name, kiln_type type, double deviation, int rank,
                          const int64_t *shape)
{
    return filled(c, &(CaseInput){ .kind = INPUT_NORMAL, .b = deviation }, name, type, rank, shape);
}

SweepTensor *sweep_uniform(SweepCase *c, const char *name, kiln_type type, double low, double high, int rank,
                           const int64_t *shape)
{
    return filled(c, &(CaseInput){ .kind = INPUT_UNIFORM, .a = low, .b = high }, name, type, rank, shape);
}

SweepTensor *sweep_made(SweepCase *c, const char *name, kiln_type type, void *host, int rank, const int64_t *shape)
{
    SweepTensor *const t = new_tensor(c, name, type, rank, shape);
    if (!host) complain(c, "out of memory for", name);
    if (c->status) return free(host), t;
    t->host = host;
    t->own = true;
    return upload(c, t);
}

SweepTensor *sweep_output(SweepCase *c, const char *name, kiln_type type, bool checked, int rank, const int64_t *shape)
{
    SweepTensor *const t = new_tensor(c, name, type, rank, shape);
    if (c->status) return t;
    const size_t bytes = kiln_tensor_bytes(&t->tensor);
    t->checked = checked;
    t->expected = host_expected(NULL, bytes);
    if (!t->expected) return complain(c, "out of memory for", name), t;
    sweep_try(c, kiln_upload(c->machine->device, t->tensor.data, t->expected, bytes));
    return t;
}

SweepTensor *sweep_in_place(SweepCase *c, SweepTensor *t)
{
    if (c->status) return t;
    t->checked = t->in_place = true;
    if (t->own) return t;
    const size_t bytes = kiln_tensor_bytes(&t->tensor);
    t->host = host_expected(t->host, bytes); // what was the device's
    t->own = true;
    if (!t->host) complain(c, "out of memory for", t->name);
    return t;
}

void sweep_between(SweepCase *c, const char *name, kiln_type type, int rank, const int64_t *shape)
{
    if (c->n == SWEEP_TENSORS) complain(c, "no room for", name);
    if (c->status) return;
    SweepTensor *const t = &c->tensors[c->n++];
    *t = (SweepTensor){ .name = name, .tensor = kiln_tensor_of(NULL, NULL, type, rank, shape) };
    t->expected = host_expected(NULL, kiln_tensor_bytes(&t->tensor));
    if (!t->expected) complain(c, "out of memory for", name);
}

void *sweep_own(SweepCase *c, size_t bytes)
{
    c->own = calloc(1, bytes);
    if (!c->own) abort();
    return c->own;
}

void *sweep_workspace(SweepCase *c, size_t bytes)
{
    void *memory = NULL;
    if (c->n_memory == COUNT(c->memory)) complain(c, "no room for", "workspace");
    if (!c->status) sweep_try(c, kiln_alloc(c->machine->device, bytes + 1, &memory));
    if (memory) c->memory[c->n_memory++] = memory;
    return memory;
}

int32_t *sweep_integers(SweepCase *c, int64_t n)
{
    int32_t *const host = calloc((size_t)n + 1, sizeof *host);
    if (!host) complain(c, "out of memory for", "integers");
    return host;
}

const char *sweep_type(const SweepCase *c, const char *name)
{
    return kiln_type_name(sweep_find(c, name)->tensor.type);
}

const SweepTensor *sweep_find(const SweepCase *c, const char *name)
{
    for (int i = 0; i < c->n; i++)
        if (strcmp(c->tensors[i].name, name) == 0) return &c->tensors[i];
    return NULL;
}

// ---- comparing

int sweep_samples(const SweepCase *c) { return c->family->samples ? c->family->samples : 32; }

static double slack_of(const SweepCase *c)
{
    const SweepFamily *const f = c->family;
    return f->slack_of ? f->slack_of(&c->shape) : f->slack > 0 ? f->slack : 1;
}

static bool compare_output(SweepCase *c, const SweepTensor *t)
{
    const Results results = { t->name, &t->tensor, t->in_place ? t->host : NULL, t->expected, slack_of(c) };
    if (!t->referred) return complain(c, "no reference says what should be in", t->name), false;
    const Verdict verdict = results_compare(&results, c->machine->device, c->problem, sizeof c->problem);
    c->wrong = verdict == RESULTS_WRONG;
    if (verdict == RESULTS_UNKNOWN && !c->status) c->status = KILN_BAD_ARGUMENT;
    return verdict == RESULTS_FIT;
}

// ---- the case

// What only comparing needs.
static void free_host(SweepCase *c)
{
    for (SweepTensor *t = c->tensors; t < c->tensors + c->n; t++) {
        free(t->expected);
        t->expected = NULL;
        if (!t->own) continue;
        free(t->host);
        t->host = NULL;
    }
}

bool sweep_launch(void *context)
{
    SweepCase *const c = context;
    sweep_try(c, c->family->call(c));
    return !c->status;
}

bool sweep_open(SweepCase *c, const SweepFamily *family, const Shape *shape, Machine *machine, kiln_ops *ops)
{
    *c = (SweepCase){ .family = family, .shape = *shape, .machine = machine, .ops = ops };
    family->prepare(c);
    if (c->status || !sweep_launch(c)) return false;
    sweep_try(c, kiln_stream_wait(machine->device, NULL));
    if (!c->status && family->refer) family->refer(c);
    for (int i = 0; i < c->n && !c->status; i++)
        if (c->tensors[i].checked && !compare_output(c, &c->tensors[i])) return false;
    free_host(c);
    return !c->status;
}

void sweep_close(SweepCase *c)
{
    free_host(c);
    for (int i = 0; i < c->n; i++) kiln_free(c->machine->device, c->tensors[i].tensor.data);
    for (int i = 0; i < c->n_memory; i++) kiln_free(c->machine->device, c->memory[i]);
    free(c->own);
    *c = (SweepCase){ 0 };
}
