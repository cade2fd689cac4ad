// SPDX-License-Identifier: MIT
// plan_store.c - a plan as bytes, and back.
//
//   "KILNPLAN"  version  total bytes  | fields, in the order of plan_fields() |  checksum of everything before it
// Integers are 8 bytes, little-endian; a text is its length + 1 (0: NULL) and its bytes. One list of fields serves
// writing and reading. Reading trusts nothing: every length, index and postfix program is checked.
#include "plan/code.h"

enum { PLAN_VERSION = 7, HEADER_BYTES = 24, CHECKSUM_BYTES = 8 };
static const char magic[8] = { 'K', 'I', 'L', 'N', 'P', 'L', 'A', 'N' };

typedef struct Stream {
    Text *out;    // writing, else NULL
    Arena *arena; // reading
    const char *bytes;
    size_t at, length;
    bool failed;
} Stream;

// FNV-1a over 64 bits: finds damage, not malice; the cache that holds plans is guarded by a digest of its own.
static uint64_t checksum(const char *bytes, size_t n)
{
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) sum = (sum ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return sum;
}

static void word_field(Stream *s, int64_t *value)
{
    unsigned char bytes[8];
    if (s->out) {
        for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)*value >> 8 * i);
        text_add(s->out, (const char *)bytes, 8);
        return;
    }
    uint64_t word = 0;
    s->failed |= s->length - s->at < 8;
    if (!s->failed) {
        memcpy(bytes, s->bytes + s->at, 8);
        for (int i = 0; i < 8; i++) word |= (uint64_t)bytes[i] << 8 * i;
        s->at += 8;
    }
    *value = (int64_t)word;
}

static void int_field(Stream *s, int *value)
{
    int64_t word = *value;
    word_field(s, &word);
    s->failed |= word < INT32_MIN || word > INT32_MAX;
    *value = s->failed ? 0 : (int)word;
}

static void bool_field(Stream *s, bool *value)
{
    int number = *value;
    int_field(s, &number);
    s->failed |= number != 0 && number != 1;
    *value = number != 0;
}

// A number below `limit`.
static void index_field(Stream *s, int *value, int limit)
{
    int_field(s, value);
    s->failed |= *value < 0 || *value >= limit;
    if (s->failed) *value = 0;
}

static void text_field(Stream *s, const char **text)
{
    int64_t length = *text ? (int64_t)strlen(*text) + 1 : 0;
    word_field(s, &length);
    if (s->out) {
        if (*text) text_add(s->out, *text, (size_t)length - 1);
        return;
    }
    *text = NULL;
    if (s->failed || length == 0) return;
    s->failed |= length < 0 || (uint64_t)length - 1 > s->length - s->at;
    if (s->failed) return;
    *text = arena_copy_text(s->arena, s->bytes + s->at, (size_t)length - 1);
    s->failed |= strlen(*text) != (size_t)length - 1;
    s->at += (size_t)length - 1;
}

// The count of an array; when reading, as many zeroed items (of at least a word each) are made.
static void *array_field(Stream *s, int *count, void *items, size_t item_bytes, int limit)
{
    int_field(s, count);
    if (s->out) return items;
    s->failed |= *count < 0 || *count > limit || (size_t)*count > (s->length - s->at) / 8;
    if (s->failed) *count = 0;
    return arena_alloc(s->arena, item_bytes * (size_t)(*count + 1));
}

static void code_field(Stream *s, PlanCode *code)
{
    int_field(s, &code->start);
    int_field(s, &code->length);
}

static void param_fields(Stream *s, PlanParam *p)
{
    int type = p->type, access = p->access;
    text_field(s, &p->name);
    bool_field(s, &p->is_tensor);
    bool_field(s, &p->optional);
    bool_field(s, &p->absent);
    bool_field(s, &p->strided);
    bool_field(s, &p->spaced);
    index_field(s, &type, DTYPE_COUNT);
    index_field(s, &access, ACCESS_INOUT + 1);
    index_field(s, &p->rank, MAX_RANK + 1);
    p->type = (DType)type;
    p->access = (Access)access;
    for (int d = 0; d < p->rank; d++) code_field(s, &p->shape[d]);
}

static void place_fields(Stream *s, const LaunchPlan *plan, int *param, int *dim)
{
    index_field(s, param, plan->n_params);
    index_field(s, dim, MAX_RANK);
    if (!s->failed && !s->out) s->failed |= !plan->params[*param].is_tensor || *dim >= plan->params[*param].rank;
}

static void map_fields(Stream *s, const LaunchPlan *plan, PlanMap *m)
{
    int type = m->type;
    index_field(s, &m->param, plan->n_params);
    index_field(s, &m->rank, 6);
    index_field(s, &type, DTYPE_COUNT);
    m->type = (DType)type;
    for (int d = 0; d < m->rank; d++) {
        code_field(s, &m->dim[d]);
        code_field(s, &m->stride[d]);
        int_field(s, &m->box[d]);
    }
    int_field(s, &m->swizzle);
    bool_field(s, &m->has_steps);
    for (int d = 0; m->has_steps && d < m->rank; d++) code_field(s, &m->step[d]);
    index_field(s, &m->n_walked, COUNT(m->walked) + 1);
    for (int i = 0; i < m->n_walked; i++) {
        code_field(s, &m->walked[i].first);
        code_field(s, &m->walked[i].last);
    }
    s->failed |= m->n_walked > 0 && (m->n_walked != m->rank - 2 || !m->has_steps);
}

// What comes after the arguments: bit 0 the fault record, bit 1 the trace.
static void ends_field(Stream *s, LaunchPlan *p)
{
    int ends = p->traps | p->traces << 1;
    int_field(s, &ends);
    s->failed |= (ends & ~3) != 0;
    p->traps = ends & 1;
    p->traces = ends >> 1 & 1;
}

static void plan_fields(Stream *s, LaunchPlan *p)
{
    text_field(s, &p->name);
    text_field(s, &p->key);
    text_field(s, &p->target);
    text_field(s, &p->symbol);
    p->code = array_field(s, &p->n_code, p->code, sizeof(*p->code), INT32_MAX);
    for (int i = 0; i < p->n_code; i++) word_field(s, &p->code[i]);
    p->params = array_field(s, &p->n_params, p->params, sizeof(*p->params), PLAN_MAX_PARAMS);
    for (int i = 0; i < p->n_params; i++) param_fields(s, &p->params[i]);
    p->binds = array_field(s, &p->n_binds, p->binds, sizeof(*p->binds), PLAN_MAX_BINDS);
    for (int i = 0; i < p->n_binds; i++) {
        text_field(s, &p->binds[i].symbol);
        place_fields(s, p, &p->binds[i].param, &p->binds[i].dim);
        word_field(s, &p->binds[i].subtract);
        bool_field(s, &p->binds[i].is_stride);
    }
    p->checks = array_field(s, &p->n_checks, p->checks, sizeof(*p->checks), INT32_MAX);
    for (int i = 0; i < p->n_checks; i++) {
        place_fields(s, p, &p->checks[i].param, &p->checks[i].dim);
        code_field(s, &p->checks[i].expected);
        text_field(s, &p->checks[i].text);
    }
    p->requires = array_field(s, &p->n_requires, p->requires, sizeof(*p->requires), INT32_MAX);
    for (int i = 0; i < p->n_requires; i++) {
        code_field(s, &p->requires[i].cond);
        text_field(s, &p->requires[i].message);
    }
    p->grid = array_field(s, &p->n_grid, p->grid, sizeof(*p->grid), PLAN_MAX_GRID);
    for (int i = 0; i < p->n_grid; i++) code_field(s, &p->grid[i]);
    word_field(s, &p->scratch_bytes);
    int_field(s, &p->arch);
    int_field(s, &p->threads);
    int_field(s, &p->dynamic_shared_bytes);
    for (int i = 0; i < 3; i++) int_field(s, &p->cluster[i]);
    int_field(s, &p->min_alignment);
    word_field(s, &p->symbol_max);
    int64_t wide = (int64_t)p->wide;
    word_field(s, &wide);
    p->wide = (uint64_t)wide;
    code_field(s, &p->boxes);
    bool_field(s, &p->persistent);
    int_field(s, &p->blocks_per_sm);
    bool_field(s, &p->follows);
    p->maps = array_field(s, &p->n_maps, p->maps, sizeof(*p->maps), PLAN_MAX_MAPS);
    for (int i = 0; i < p->n_maps; i++) map_fields(s, p, &p->maps[i]);
    p->extras = array_field(s, &p->n_extras, p->extras, sizeof(*p->extras), PLAN_MAX_EXTRAS);
    for (int i = 0; i < p->n_extras; i++) code_field(s, &p->extras[i].value);
    ends_field(s, p);
    bool_field(s, &p->deterministic);
}

static bool codes_are_sound(const LaunchPlan *p)
{
    bool sound = p->name && p->symbol;
    for (int i = 0; i < p->n_params; i++)
        for (int d = 0; d < p->params[i].rank; d++) sound &= plan_code_is_sound(p, p->params[i].shape[d]);
    for (int i = 0; i < p->n_checks; i++) sound &= plan_code_is_sound(p, p->checks[i].expected);
    for (int i = 0; i < p->n_requires; i++) sound &= plan_code_is_sound(p, p->requires[i].cond);
    for (int i = 0; i < p->n_grid; i++) sound &= plan_code_is_sound(p, p->grid[i]);
    for (int i = 0; i < p->n_maps; i++) {
        const PlanMap *const m = &p->maps[i];
        for (int d = 0; d < m->rank; d++)
            sound &= plan_code_is_sound(p, m->dim[d]) && plan_code_is_sound(p, m->stride[d]) &&
                     plan_code_is_sound(p, m->step[d]);
        for (int w = 0; w < m->n_walked; w++)
            sound &= plan_code_is_sound(p, m->walked[w].first) && plan_code_is_sound(p, m->walked[w].last);
    }
    for (int i = 0; i < p->n_extras; i++) sound &= plan_code_is_sound(p, p->extras[i].value);
    sound &= plan_code_is_sound(p, p->boxes);
    return sound && plan_words(p) <= PLAN_MAX_WORDS;
}

void plan_write(Text *out, const LaunchPlan *plan)
{
    Text body = { .arena = out->arena };
    Stream s = { .out = &body };
    LaunchPlan copy = *plan; // writing changes nothing; the list of fields serves reading too
    plan_fields(&s, &copy);
    Text whole = { .arena = out->arena };
    Stream head = { .out = &whole };
    int64_t version = PLAN_VERSION, total = (int64_t)(HEADER_BYTES + body.length + CHECKSUM_BYTES);
    text_add(&whole, magic, sizeof(magic));
    word_field(&head, &version);
    word_field(&head, &total);
    text_add(&whole, body.data, body.length);
    int64_t sum = (int64_t)checksum(whole.data, whole.length);
    word_field(&head, &sum);
    text_add(out, whole.data, whole.length);
}

LaunchPlan *plan_read(Arena *arena, const char *bytes, size_t n)
{
    if (n < HEADER_BYTES + CHECKSUM_BYTES || memcmp(bytes, magic, sizeof(magic)) != 0) return NULL;
    Stream s = { .arena = arena, .bytes = bytes, .at = sizeof(magic), .length = n };
    int64_t version, total, sum;
    word_field(&s, &version);
    word_field(&s, &total);
    if (version != PLAN_VERSION || total != (int64_t)n) return NULL;
    s.at = n - CHECKSUM_BYTES;
    word_field(&s, &sum);
    if ((uint64_t)sum != checksum(bytes, n - CHECKSUM_BYTES)) return NULL;
    s.at = HEADER_BYTES;
    s.length = n - CHECKSUM_BYTES;
    LaunchPlan *const plan = NEW(arena, LaunchPlan, .name = NULL);
    plan_fields(&s, plan);
    if (s.failed || s.at != s.length || !codes_are_sound(plan)) return NULL;
    return plan;
}
