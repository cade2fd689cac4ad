// SPDX-License-Identifier: MIT
// attention_prefill_test.c - packed sequences as FlashMLA's tests of MHA prefill have them, forward and backward, up to
// their full size: every element of every result is compared with a reference in double precision.
//
// The kernels' references take ten minutes for a case of 8192 keys and 128 heads. But here a head's keys and
// values are copies of KINDS tokens, in runs of random length: a sum over the keys that a row sees is one over KINDS tokens,
// each as often as the row sees it, and keys of a kind receive the same gradient from each row that sees them. The kernels
// do not know. Of small batches these sums are held against the kernels' references, every element. Sums this long hide much: a tile of keys that one row leaves out moves it by 1/64. So beside the three-part
// tolerance of FlashMLA for all elements, each TILE rows of a head must be right as a whole, to TILE_MOST of their size.
//
// Results, the workspace, and what lies before and after every tensor, are NaN beforehand.
#include "support.h"

#include <sys/mman.h>

enum { KINDS = 8, SEQUENCES = 8, TILE = 64, REPEATS = 5, EDGE = 1 << 16, PIECE = 1 << 21, SIZE_MOST = 256 };
static const double TILE_MOST = 0.01; // roundings make 0.003 of it
enum { Q, K, V, DOUT, OUT, LSE, DQ, DK, DV, ROOMS, WORKSPACE = ROOMS };
enum { FULL = 1, CAUSAL = 2 };
static const char *const names[ROOMS] = { "q", "k", "v", "dout", "out", "lse", "dq", "dk", "dv" };

typedef struct Sizes {
    int heads, key_heads, size, value_size;
} Sizes;

// ---- memory: taken once for all cases, since at full size making it takes longer than filling it

typedef struct Room {
    Array array;  // of the case at hand; its mirror has no guards
    char *memory; // on the device, with EDGE bytes at both ends
    size_t capacity;
} Room;

static Room rooms[ROOMS + 1];
static unsigned char *erased, *piece; // PIECE bytes, which stay in a processor's cache: of 0xFF, and of anything

// In large pages, where there are any: a head's rows lie 48 KB apart.
static unsigned char *take_mirror(size_t bytes)
{
    enum { PAGE = 1 << 21 };
    const size_t all = (bytes / PAGE + 1) * PAGE;
    unsigned char *const mirror = aligned_alloc(PAGE, all);
    assert_non_null(mirror);
    if (bytes >= PAGE) madvise(mirror, all, MADV_HUGEPAGE);
    return mirror;
}

static void take_room(Room *r, size_t bytes, bool mirror)
{
    if (r->memory && r->capacity >= bytes) return;
    kiln_free(device, r->memory);
    free(r->array.host);
    *r = (Room){ .capacity = bytes, .array.host = mirror ? take_mirror(bytes) : NULL };
    assert_ok(kiln_alloc(device, bytes + 2 * EDGE, (void **)&r->memory));
}

static int free_rooms(void **state)
{
    for (Room *r = rooms; r <= rooms + WORKSPACE; r++) {
        kiln_free(device, r->memory);
        free(r->array.host);
        *r = (Room){ 0 };
    }
    free(erased);
    free(piece);
    erased = piece = NULL;
    return free_arrays(state);
}

static void erase_bytes(char *memory, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += PIECE)
        assert_ok(kiln_upload(device, memory + at, erased, bytes - at < PIECE ? bytes - at : PIECE));
}

static bool is_piece(const Room *r, size_t from, size_t bytes, const unsigned char *expected)
{
    assert_ok(kiln_download(device, piece, r->memory + from, bytes));
    return memcmp(piece, expected, bytes) == 0;
}

static void edges_hold(const Room *r, const char *name)
{
    if (!is_piece(r, 0, EDGE, erased) || !is_piece(r, EDGE + r->array.bytes, EDGE, erased))
        fail_msg("something was written beside '%s'", name);
}

static void is_as_in_mirror(const Room *r, const char *name)
{
    for (size_t at = 0; at < r->array.bytes; at += PIECE) {
        const size_t n = r->array.bytes - at < PIECE ? r->array.bytes - at : PIECE;
        if (!is_piece(r, EDGE + at, n, r->array.host + at)) fail_msg("'%s' differs", name);
    }
    edges_hold(r, name);
}

static Array *take_tensor(int which, kiln_type type, int rank, const int64_t *shape)
{
    Room *const r = &rooms[which];
    const kiln_tensor t = kiln_tensor_of(device, NULL, type, rank, shape);
    take_room(r, kiln_tensor_bytes(&t), true);
    r->array.tensor = t;
    r->array.tensor.data = r->memory + EDGE;
    r->array.bytes = kiln_tensor_bytes(&t);
    return &r->array;
}

static void erase(const Room *r) { erase_bytes(r->memory, r->array.bytes + 2 * EDGE); }

static void send(const Room *r)
{
    erase_bytes(r->memory, EDGE);
    assert_ok(kiln_upload(device, r->memory + EDGE, r->array.host, r->array.bytes));
    erase_bytes(r->memory + EDGE + r->array.bytes, EDGE);
}

static void fetch(Room *r, const char *name)
{
    assert_ok(kiln_download(device, r->array.host, r->memory + EDGE, r->array.bytes));
    edges_hold(r, name);
}

// ---- what is compared

// A result against the reference: what one thread has seen of it, and of TILE rows of a head (sums of squares).
typedef struct Squares {
    double size, error;
} Squares;
typedef struct Tally {
    double product, squares, size;
    int64_t wrong, first;
    double got, expected;
} Tally;

typedef struct Batch {
    Sizes s;
    bool causal, deterministic;
    int n;
    int64_t rows[SEQUENCES + 1], keys[SEQUENCES + 1]; // offsets
    double scale;
    double *pool[2];      // [key head][KINDS][size]: keys, values
    unsigned char *kinds; // [key][key head]
    Tally *tallies;       // [result][sequence * key heads + key head]
    Squares *tiles[ROOMS];
} Batch;

// FlashMLA's; and a part of an average tile's size that counts for each tile: where a row sees one kind of key alone its dq is
// 0 but for what is left of the rounding of out.
static const struct {
    Tolerance most;
    double floor;
} tolerances[ROOMS] = { [OUT] = { { 1e-3, 8.01 / 128, 7e-6 }, 1e-3 },
                        [LSE] = { { 1e-6, 2.01 / 65536, 1e-7 }, 0 },
                        [DQ] = { { 1e-3, 8.01 / 128, 7e-6 }, 1 },
                        [DK] = { { 1e-3, 8.01 / 128, 7e-6 }, 1e-3 },
                        [DV] = { { 1e-3, 8.01 / 128, 7e-6 }, 1e-3 } };

static int64_t n_tiles(const Batch *b, bool of_keys)
{
    return ((of_keys ? b->keys : b->rows)[b->n] / TILE + b->n + 1) * (of_keys ? b->s.key_heads : b->s.heads);
}

// What is wrong among n elements: seldom looked for in more than one.
static void note_wrong(Tally *t, const Tolerance *most, int64_t first, int n, const double *got, const double *expected)
{
    for (int d = 0; d < n; d++) {
        const double a = got[d], e = expected[d], off = fabs(a - e);
        if (!isfinite(a) || !isfinite(e) ? a == e : off < most->absolute || off < most->relative * (fabs(e) + 1e-6))
            continue;
        if (!t->wrong++) t->first = first + d, t->got = a, t->expected = e;
    }
}

// Eight sums and eight largest excesses over the bound, so that they can be vectors. What is not finite leaves no finite sum.
typedef struct Eight {
    double product[8], got[8], expected[8], error[8], excess[8];
} Eight;

static void add_eight(Eight *x, const Tolerance *most, const double *restrict got, const double *restrict expected)
{
    for (int j = 0; j < 8; j++) {
        const double a = got[j], e = expected[j], off = fabs(a - e), near = most->relative * (fabs(e) + 1e-6);
        const double excess = off - (near > most->absolute ? near : most->absolute);
        x->product[j] += a * e;
        x->got[j] += a * a;
        x->expected[j] += e * e;
        x->error[j] += off * off;
        x->excess[j] = excess > x->excess[j] ? excess : x->excess[j];
    }
}

static double sum_of(const double *x) { return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7])); }

// Elements first .. first + n - 1 of a result; n is a multiple of 8.
static void compare(Tally *t, int which, int64_t first, int n, const double *expected, Squares *tile)
{
    const Tolerance *const most = &tolerances[which].most;
    double got[SIZE_MOST], excess = -1;
    Eight x = { .excess = { -1, -1, -1, -1, -1, -1, -1, -1 } };
    get_many(&rooms[which].array, first, n, got);
    for (int d = 0; d + 8 <= n; d += 8) add_eight(&x, most, got + d, expected + d);
    for (int j = 0; j < 8; j++) excess = fmax(excess, x.excess[j]);
    const double size = sum_of(x.expected), error = sum_of(x.error);
    if (excess >= 0 || !isfinite(error)) note_wrong(t, most, first, n, got, expected);
    if (!isfinite(error)) return;
    t->product += sum_of(x.product), t->squares += sum_of(x.got) + size, t->size += size;
    tile->size += size, tile->error += error;
}

// A log-sum-exp, which may be infinite.
static void compare_one(Tally *t, int which, int64_t at, double expected)
{
    const double got = get(&rooms[which].array, at);
    note_wrong(t, &tolerances[which].most, at, 1, &got, &expected);
    if (!isfinite(got) || !isfinite(expected)) return;
    t->product += got * expected;
    t->squares += got * got + expected * expected;
}

static Squares *tile_of(const Batch *b, int which, int x, int64_t i, int h)
{
    const bool of_keys = which == DK || which == DV;
    const int64_t offset = (of_keys ? b->keys : b->rows)[x];
    return &b->tiles[which][(offset / TILE + x + i / TILE) * (of_keys ? b->s.key_heads : b->s.heads) + h];
}

// ---- the reference: a key head of a sequence

static void add_to(double *restrict x, double factor, const double *restrict y, int n)
{
    for (int d = 0; d + 8 <= n; d += 8)
        for (int j = 0; j < 8; j++) x[d + j] += factor * y[d + j];
}

static void zero(double *x, int n) { memset(x, 0, sizeof *x * (size_t)n); }

// Key head g of sequence x. Rows come last first: what keys of each kind have received so far is then what a key has received
// that is seen from there on.
typedef struct Head {
    const Batch *b;
    int x, g;
    const double *keys, *values; // [KINDS][size]
    int64_t seen[KINDS];         // keys of each kind that the row at hand sees
    double dk[KINDS][SIZE_MOST], dv[KINDS][SIZE_MOST];
    Tally *tallies;
} Head;

static Tally *tally_of(const Head *at, int which)
{
    return at->tallies + (int64_t)which * at->b->n * at->b->s.key_heads;
}

// Row i of query head h: compares out, lse and dq, adds to dk and dv.
static void expect_row(Head *at, int64_t i, int h)
{
    const Batch *const b = at->b;
    const int size = b->s.size, width = b->s.value_size;
    const int64_t token = b->rows[at->x] + i, place = token * b->s.heads + h;
    double q[SIZE_MOST], g[SIZE_MOST], out[SIZE_MOST], dq[SIZE_MOST], weight[KINDS], gain[KINDS], top = -INFINITY,
                                                                                                  sum = 0, delta = 0;
    get_many(&rooms[Q].array, place * size, size, q);
    get_many(&rooms[DOUT].array, place * width, width, g);
    zero(out, width);
    zero(dq, size);
    for (int c = 0; c < KINDS; c++)
        if (at->seen[c]) {
            weight[c] = b->scale * dot(q, at->keys + c * size, size);
            top = fmax(top, weight[c]);
        }
    for (int c = 0; c < KINDS; c++)
        if (at->seen[c]) sum += (double)at->seen[c] * (weight[c] = exp(weight[c] - top));
    for (int c = 0; c < KINDS; c++)
        if (at->seen[c]) {
            weight[c] /= sum;
            gain[c] = dot(g, at->values + c * width, width);
            delta += (double)at->seen[c] * weight[c] * gain[c];
            add_to(out, (double)at->seen[c] * weight[c], at->values + c * width, width);
            add_to(at->dv[c], weight[c], g, width);
        }
    for (int c = 0; c < KINDS; c++)
        if (at->seen[c]) {
            const double slope = b->scale * weight[c] * (gain[c] - delta);
            add_to(dq, (double)at->seen[c] * slope, at->keys + c * size, size);
            add_to(at->dk[c], slope, q, size);
        }
    compare(tally_of(at, OUT), OUT, place * width, width, out, tile_of(b, OUT, at->x, i, h));
    compare_one(tally_of(at, LSE), LSE, h * b->rows[b->n] + token, sum == 0 ? -INFINITY : top + log(sum));
    compare(tally_of(at, DQ), DQ, place * size, size, dq, tile_of(b, DQ, at->x, i, h));
}

static void expect_key(Head *at, int64_t j)
{
    const Batch *const b = at->b;
    const int size = b->s.size, width = b->s.value_size;
    const int64_t place = (b->keys[at->x] + j) * b->s.key_heads + at->g;
    const int c = b->kinds[place];
    compare(tally_of(at, DK), DK, place * size, size, at->dk[c], tile_of(b, DK, at->x, j, at->g));
    compare(tally_of(at, DV), DV, place * width, width, at->dv[c], tile_of(b, DV, at->x, j, at->g));
    at->seen[c]--;
}

static void expect_head(int64_t n, void *context)
{
    const Batch *const b = context;
    const int group = b->s.heads / b->s.key_heads, x = (int)(n / b->s.key_heads), g = (int)(n % b->s.key_heads);
    const int64_t S = b->rows[x + 1] - b->rows[x], SKV = b->keys[x + 1] - b->keys[x];
    Head at = { .b = b,
                .x = x,
                .g = g,
                .keys = b->pool[0] + (int64_t)g * KINDS * b->s.size,
                .values = b->pool[1] + (int64_t)g * KINDS * b->s.value_size,
                .tallies = b->tallies + n };
    int64_t j = SKV;
    for (int64_t k = b->keys[x]; k < b->keys[x + 1]; k++) at.seen[b->kinds[k * b->s.key_heads + g]]++;
    for (int64_t i = S - 1; i >= 0; i--) {
        while (b->causal && j > 0 && j > i + SKV - S + 1) expect_key(&at, --j);
        for (int h = g * group; h < (g + 1) * group; h++) expect_row(&at, i, h);
    }
    while (j > 0) expect_key(&at, --j);
}

static void judge(const Batch *b, int which)
{
    const int64_t units = (int64_t)b->n * b->s.key_heads, n = which == LSE ? 0 : n_tiles(b, which == DK || which == DV);
    Tally all = { 0 };
    double worst = 0;
    for (int64_t u = 0; u < units; u++) {
        const Tally *const t = &b->tallies[which * units + u];
        if (t->wrong && !all.wrong) all.first = t->first, all.got = t->got, all.expected = t->expected;
        all.product += t->product, all.squares += t->squares, all.size += t->size, all.wrong += t->wrong;
    }
    if (all.wrong)
        fail_msg("%s: %lld of %lld are wrong; [%lld] is %.9g, expected %.9g", names[which], (long long)all.wrong,
                 (long long)count(&rooms[which].array), (long long)all.first, all.got, all.expected);
    const double cosine = all.squares > 0 ? fabs(1 - 2 * all.product / all.squares) : 0;
    for (int64_t i = 0; i < n; i++) {
        const Squares *const t = &b->tiles[which][i];
        worst = fmax(worst, sqrt(t->error / (t->size + tolerances[which].floor * all.size / (double)n + 1e-30)));
    }
    if (cosine > tolerances[which].most.cosine)
        fail_msg("%s: the cosine difference is %.3g, expected at most %.3g", names[which], cosine,
                 tolerances[which].most.cosine);
    if (worst > TILE_MOST)
        fail_msg("%s: %d rows of a head are off by %.3g of their size, expected at most %.3g", names[which], TILE,
                 worst, TILE_MOST);
}

// ---- cases

// As many rows and keys of each sequence.
static Batch make_batch(Sizes s, int n, const int *rows, const int *keys)
{
    Batch b = { .s = s, .n = n, .scale = 1 / sqrt(s.size + 100) };
    for (int x = 0; x < n; x++) b.rows[x + 1] = b.rows[x] + rows[x], b.keys[x + 1] = b.keys[x] + keys[x];
    return b;
}

typedef struct Copies {
    Array *to;
    const double *pool;
    const unsigned char *kinds;
    int heads, size;
} Copies;

static void copy_kinds(int64_t key, void *context)
{
    const Copies *const c = context;
    for (int64_t g = 0, row = key * c->heads; g < c->heads; g++, row++)
        for (int d = 0; d < c->size; d++)
            set(c->to, row * c->size + d, c->pool[(g * KINDS + c->kinds[row]) * c->size + d]);
}

// Tokens of which keys and values are copies.
static double *make_pool(int heads, int size, double most)
{
    Array *const pool = ARRAY(KILN_BF16, heads, KINDS, size);
    fill_random(pool, -most, most);
    return values(pool);
}

static void make_inputs(Batch *b)
{
    const Sizes *const s = &b->s;
    const int64_t T = b->rows[b->n], TK = b->keys[b->n], longest = TK / 256 + 2;
    seed((unsigned)(T * 7 + TK + s->heads + s->size));
    b->pool[0] = make_pool(s->key_heads, s->size, 1.5);
    b->pool[1] = make_pool(s->key_heads, s->value_size, 0.17);
    b->kinds = ARRAY(KILN_U8, TK, s->key_heads)->host;
    for (int64_t g = 0; g < s->key_heads; g++)
        for (int64_t j = 0, end = 0, kind = 0; j < TK; j++) {
            if (j == end) end += integer(1, longest), kind = integer(0, KINDS - 1);
            b->kinds[j * s->key_heads + g] = (unsigned char)kind;
        }
    Array *const q = take_tensor(Q, KILN_BF16, 3, (int64_t[]){ T, s->heads, s->size });
    Array *const k = take_tensor(K, KILN_BF16, 3, (int64_t[]){ TK, s->key_heads, s->size });
    Array *const v = take_tensor(V, KILN_BF16, 3, (int64_t[]){ TK, s->key_heads, s->value_size });
    Array *const dout = take_tensor(DOUT, KILN_BF16, 3, (int64_t[]){ T, s->heads, s->value_size });
    const double dout_most = 0.1 / sqrt(s->heads / s->key_heads); // dk and dv are sums over a group of heads
    draw_random(q, -1.5, 1.5);
    draw_random(dout, -dout_most, dout_most);
    in_parallel(TK, copy_kinds, &(Copies){ k, b->pool[0], b->kinds, s->key_heads, s->size });
    in_parallel(TK, copy_kinds, &(Copies){ v, b->pool[1], b->kinds, s->key_heads, s->value_size });
    for (int r = Q; r <= DOUT; r++) send(&rooms[r]);
    take_tensor(OUT, KILN_BF16, 3, dout->tensor.shape);
    take_tensor(LSE, KILN_F32, 2, (int64_t[]){ s->heads, T });
    take_tensor(DQ, KILN_BF16, 3, q->tensor.shape);
    take_tensor(DK, KILN_BF16, 3, k->tensor.shape);
    take_tensor(DV, KILN_BF16, 3, v->tensor.shape);
}

static Array *offsets_of(const int64_t *offsets, int n)
{
    Array *const a = ARRAY(KILN_I32, n + 1);
    for (int i = 0; i <= n; i++) set(a, i, (double)offsets[i]);
    array_send(a);
    return a;
}

static int64_t longest_of(const int64_t *offsets, int n)
{
    int64_t most = 0;
    for (int i = 0; i < n; i++) most = offsets[i + 1] - offsets[i] > most ? offsets[i + 1] - offsets[i] : most;
    return most;
}

// Forward and backward; the backward call takes what the forward call gave. Again: in memory as it is.
static void run(const Batch *b, bool again)
{
    const kiln_tensor *const q_offsets = &offsets_of(b->rows, b->n)->tensor, *const k_offsets =
                                                                                 &offsets_of(b->keys, b->n)->tensor;
    const kiln_tensor *t[ROOMS];
    Room *const w = &rooms[WORKSPACE];
    for (int r = 0; r < ROOMS; r++) t[r] = &rooms[r].array.tensor;
    // clang-format off
    const kiln_attention_varlen_args forward = {
        .q = t[Q], .k = t[K], .v = t[V], .q_offsets = q_offsets, .k_offsets = k_offsets, .max_queries = longest_of(b->rows, b->n),
        .out = t[OUT], .lse = t[LSE], .causal = b->causal, .scale = &b->scale };
    kiln_attention_backward_varlen_args backward = {
        .q = t[Q], .k = t[K], .v = t[V], .q_offsets = q_offsets, .k_offsets = k_offsets, .max_keys = longest_of(b->keys, b->n),
        .out = t[OUT], .lse = t[LSE], .dout = t[DOUT], .dq = t[DQ], .dk = t[DK], .dv = t[DV], .causal = b->causal, .deterministic = b->deterministic,
        .max_queries = b->deterministic ? forward.max_queries : 0, .scale = &b->scale };
    assert_ok(kiln_attention_forward_varlen(ops, NULL, &forward));
    assert_ok(kiln_attention_backward_varlen_workspace_size(ops, &backward, &backward.workspace_bytes));
    take_room(w, backward.workspace_bytes, false);
    w->array.bytes = backward.workspace_bytes;
    if (!again) erase(w);
    backward.workspace = w->memory + EDGE;
    assert_ok(kiln_attention_backward_varlen(ops, NULL, &backward));
    assert_ok(kiln_stream_wait(device, NULL));
    edges_hold(w, "workspace");
}

// What the kernels' references give, in the mirrors of the results.
static void run_references(const Batch *b)
{
    kiln_arg t[ROOMS];
    for (int r = 0; r < ROOMS; r++) t[r] = mirror_arg(&rooms[r].array);
    const kiln_arg rows = host_arg(offsets_of(b->rows, b->n)), keys = host_arg(offsets_of(b->keys, b->n)),
                   most = KILN_INT(longest_of(b->rows, b->n)), scale = KILN_FLOAT(b->scale);
    const kiln_arg forward[] = { t[Q], t[K], t[V], rows, keys, t[OUT], t[LSE], most, scale };
    const kiln_arg backward[] = { t[Q], t[K],  t[V],  t[OUT], t[LSE], t[DOUT], rows,
                                  keys, t[DQ], t[DK], t[DV],  KILN_INT(longest_of(b->keys, b->n)), scale };
    char bindings[64];
    snprintf(bindings, sizeof bindings, "T=bf16, D=%d, DV=%d, CAUSAL=%s", b->s.size, b->s.value_size,
             b->causal ? "true" : "false");
    run_reference("attention/varlen.tile", "attention_varlen", bindings, forward, 9);
    run_reference("attention/backward_varlen.tile", "attention_varlen_backward", bindings, backward, 13);
}

static void check_results(Batch *b)
{
    const int64_t units = (int64_t)b->n * b->s.key_heads;
    b->tallies = calloc((size_t)(ROOMS * units + 1), sizeof *b->tallies);
    for (int r = OUT; r <= DV; r++) b->tiles[r] = calloc((size_t)n_tiles(b, r == DK || r == DV), sizeof **b->tiles);
    in_parallel(units, expect_head, b);
    for (int r = OUT; r <= DV; r++) judge(b, r);
    for (int r = OUT; r <= DV; r++) free(b->tiles[r]);
    free(b->tallies);
}

// FULL, CAUSAL or both; the sums against references, if the batch is small; REPEATS times with the same bits, but for dq where it is added up by atomics.
static void check_batch(Batch b, int masks)
{
    if (!erased) {
        erased = malloc(PIECE);
        piece = malloc(PIECE);
        memset(erased, 0xFF, PIECE);
    }
    // clang-format on
    make_inputs(&b);
    for (int mask = FULL; mask <= CAUSAL; mask *= 2) {
        if (!(masks & mask)) continue;
        b.causal = mask == CAUSAL;
        if (b.s.heads < 32) run_references(&b), check_results(&b);
        for (int r = OUT; r <= DV; r++) erase(&rooms[r]);
        run(&b, false);
        for (int r = OUT; r <= DV; r++) fetch(&rooms[r], names[r]);
        check_results(&b);
        for (int i = 1; i < REPEATS; i++) {
            run(&b, true);
            for (int r = OUT; r <= DV; r++)
                if (r != DQ || b.deterministic) is_as_in_mirror(&rooms[r], names[r]);
        }
    }
    for (int r = Q; r <= DOUT; r++) is_as_in_mirror(&rooms[r], names[r]);
    free_arrays(NULL);
}

// Ragged; without keys, without rows, with fewer keys than rows: causal, the first of these see nothing.
static const int some_rows[] = { 70, 0, 1, 90, 5 }, some_keys[] = { 150, 12, 90, 20, 0 };

static void small_causal_batches(void **state)
{
    check_batch(make_batch((Sizes){ 2, 2, 128, 128 }, 5, some_rows, some_keys), CAUSAL);
}

static void small_batches(void **state)
{
    check_batch(make_batch((Sizes){ 2, 2, 128, 128 }, 5, some_rows, some_keys), FULL);
    check_batch(make_batch((Sizes){ 4, 1, 192, 128 }, 5, some_rows, some_keys), FULL | CAUSAL);
}

static const Sizes sizes_of_heads[] = {
    { 128, 128, 192, 128 }, { 128, 128, 128, 128 }, { 32, 4, 192, 128 }, { 32, 4, 128, 128 }
};

// The grid of FlashMLA's tests: two sequences of 4096 or 8192 rows and keys, or of about as many; on the CPU a sixteenth.
static void whole_grid(void **state)
{
    need_long_tests();
    for (int i = 0; i < 4; i++)
        for (int mean = 8192; mean >= 4096; mean /= 2) {
            const int n = on_cpu() ? mean / 16 : mean, same[] = { n, n };
            check_batch(make_batch(sizes_of_heads[i], 2, same, same), FULL | CAUSAL);
            seed((unsigned)(i + mean));
            int rows[2], keys[2];
            for (int x = 0; x < 2; x++) {
                rows[x] = (int)integer(1, 2 * n);
                keys[x] = (int)integer(rows[x], 2 * n);
            }
            Batch ragged = make_batch(sizes_of_heads[i], 2, rows, keys);
            check_batch(ragged, FULL | CAUSAL);
            ragged.deterministic = true; // not FlashMLA's
            if (mean == 4096 && i == 3) check_batch(ragged, FULL | CAUSAL);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(small_causal_batches, free_rooms),
        cmocka_unit_test_teardown(small_batches, free_rooms),
        cmocka_unit_test_teardown(whole_grid, free_rooms),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
