// SPDX-License-Identifier: MIT
// support.c - see support.h.
#include "support.h"
#include "ops/call.h"
#include "runtime/build.h"

#include <pthread.h>
#include <unistd.h>

kiln_device *device;
kiln_ops *ops;

static Array *arrays;
static struct Kept {
    struct Kept *next;
    double numbers[];
} * kept;

bool on_cpu(void) { return strcmp(kiln_device_name(device), "cpu") == 0; }

void need_long_tests(void)
{
    if (!getenv("KILN_TEST_LONG")) skip_because("takes long: KILN_TEST_LONG is not set");
}

int open_ops(void **state)
{
    const char *const name = getenv("KILN_TEST_DEVICE");
    assert_ok(kiln_device_open(name ? name : "cpu", &device));
    assert_ok(kiln_ops_open(device, &(kiln_build_options){ .check = getenv("KILN_TEST_CHECK") != NULL }, &ops));
    return 0;
}

int free_arrays(void **state)
{
    for (Array *b; (b = arrays) != NULL;) {
        arrays = b->next;
        kiln_free(device, b->memory);
        free(b->block);
        free(b);
    }
    for (struct Kept *k; (k = kept) != NULL;) {
        kept = k->next;
        free(k);
    }
    return 0;
}

int close_ops(void **state)
{
    free_arrays(state);
    kiln_ops_close(ops);
    kiln_device_close(device);
    return 0;
}

void assert_ok(kiln_status status)
{
    if (status) fail_msg("%s: %s", kiln_status_name(status), kiln_error_message());
}

void assert_fails(kiln_status status, kiln_status expected, const char *part)
{
    if (status != expected)
        fail_msg("%s (%s), expected %s: %s", kiln_status_name(status), status ? kiln_error_message() : "",
                 kiln_status_name(expected), part);
    if (!strstr(kiln_error_message(), part)) fail_msg("'%s' does not say '%s'", kiln_error_message(), part);
}

// ---- arrays

static void *must_have(void *memory)
{
    if (!memory) fail_msg("out of memory");
    return memory;
}

Array *array_new(kiln_type type, int rank, const int64_t *shape)
{
    Array *const b = must_have(calloc(1, sizeof *b));
    b->next = arrays;
    arrays = b;
    b->tensor = kiln_tensor_of(device, NULL, type, rank, shape);
    b->bytes = kiln_tensor_bytes(&b->tensor);
    b->block = must_have(malloc(b->bytes + 2 * GUARD));
    memset(b->block, 0xFF, b->bytes + 2 * GUARD);
    b->host = b->block + GUARD;
    assert_ok(kiln_alloc(device, b->bytes + 2 * GUARD, &b->memory));
    b->tensor.data = (char *)b->memory + GUARD;
    array_send(b);
    return b;
}

static Array *part_of(Array *b, const kiln_tensor *tensor)
{
    Array *const part = must_have(calloc(1, sizeof *part));
    part->next = arrays;
    arrays = part;
    part->whole = b->whole ? b->whole : b;
    part->tensor = *tensor;
    part->host = b->host + ((char *)tensor->data - (char *)b->tensor.data);
    return part;
}

Array *array_part(Array *b, int dim, int64_t first, int64_t extent)
{
    kiln_tensor slice;
    assert_ok(kiln_tensor_slice(&b->tensor, dim, first, extent, &slice));
    return part_of(b, &slice);
}

Array *array_swapped(Array *b, int x, int y)
{
    kiln_tensor t;
    assert_ok(kiln_tensor_slice(&b->tensor, x, 0, b->tensor.shape[x], &t)); // with strides
    const int64_t shape = t.shape[x], stride = t.strides[x];
    t.shape[x] = t.shape[y], t.strides[x] = t.strides[y];
    t.shape[y] = shape, t.strides[y] = stride;
    return part_of(b, &t);
}

// Where element i is in the mirror.
static int64_t place(const Array *b, int64_t i)
{
    int64_t at = 0;
    if (!b->tensor.has_strides) return i;
    for (int d = b->tensor.rank - 1; d >= 0; d--) {
        at += i % b->tensor.shape[d] * b->tensor.strides[d];
        i /= b->tensor.shape[d];
    }
    return at;
}

static size_t element_bytes(const Array *b) { return (size_t)kiln_type_bits(b->tensor.type) / 8; }

// Into a part of its shape, and to the device.
static Array *filled_as(Array *a, const Array *b)
{
    for (int64_t i = 0; i < count(b); i++)
        memcpy(a->host + (size_t)place(a, i) * element_bytes(a), b->host + (size_t)i * element_bytes(b),
               element_bytes(a));
    array_send(a);
    return a;
}

Array *array_spread(const Array *b, bool swapped)
{
    const int rank = b->tensor.rank, last = rank - 1;
    const int64_t unit = 16 / (int64_t)element_bytes(b);
    kiln_tensor t = b->tensor;
    if (swapped) t.shape[1] = b->tensor.shape[2], t.shape[2] = b->tensor.shape[1];
    int64_t shape[KILN_MAX_RANK];
    for (int d = 0; d < rank; d++) shape[d] = d < last ? t.shape[d] + 2 : (t.shape[d] + 3 * unit - 1) / unit * unit;
    Array *a = array_new(t.type, rank, shape);
    for (int d = 0; d < rank; d++) a = array_part(a, d, d == last ? unit : 1, t.shape[d]);
    return filled_as(swapped ? array_swapped(a, 1, 2) : a, b);
}

Array *array_shifted(const Array *b)
{
    const int rank = b->tensor.rank, last = rank - 1;
    int64_t shape[KILN_MAX_RANK];
    for (int d = 0; d < rank; d++) shape[d] = b->tensor.shape[d] + (d == last ? 3 - b->tensor.shape[d] % 2 : 0);
    return filled_as(array_part(array_new(b->tensor.type, rank, shape), last, 1, b->tensor.shape[last]), b);
}

size_t decoding_bytes(const kiln_mla_plan *plan)
{
    kiln_mla_shape s;
    size_t bytes;
    assert_ok(kiln_mla_plan_shape(plan, &s));
    const size_t rows = (size_t)((s.batch + s.partitions) * s.queries * s.query_heads);
    assert_ok(kiln_mla_workspace_size(ops, &s, &bytes));
    assert_int_equal(bytes, (rows * 2048 + 255) / 256 * 256 + (rows * 4 + 255) / 256 * 256);
    return bytes;
}

kiln_tensor moved_away(const Array *a)
{
    kiln_tensor moved = a->tensor;
    const int last = moved.rank - 1;
    const int64_t row = moved.shape[last], rows = row ? count(a) / row : 0;
    Array *const room = ARRAY(KILN_I32, 1 + rows * (row + 3));
    for (int64_t i = 0; i < rows * row; i++) set(room, 1 + i / row * (row + 3) + i % row, get(a, i));
    array_send(room);
    moved.data = (char *)room->tensor.data + 4;
    moved.has_strides = true;
    moved.strides[last] = 1;
    for (int64_t d = last - 1, stride = row + 3; d >= 0; stride *= moved.shape[d], d--) moved.strides[d] = stride;
    return moved;
}

void array_erase(Array *b)
{
    for (int64_t i = 0; i < count(b); i++)
        memset(b->host + (size_t)place(b, i) * element_bytes(b), 0xFF, element_bytes(b));
}

bool array_is_erased(const Array *b)
{
    const Array *const whole = b->whole ? b->whole : b;
    for (size_t i = 0; i < whole->bytes; i++)
        if (whole->host[i] != 0xFF) return false;
    return true;
}

Array *bytes_new(size_t bytes) { return ARRAY(KILN_U8, (int64_t)bytes); }

void array_send(Array *b)
{
    const Array *const whole = b->whole ? b->whole : b;
    assert_ok(kiln_upload(device, whole->memory, whole->block, whole->bytes + 2 * GUARD));
}

static unsigned char *download(const Array *b)
{
    unsigned char *const copy = must_have(malloc(b->bytes + 2 * GUARD));
    assert_ok(kiln_download(device, copy, b->memory, b->bytes + 2 * GUARD));
    return copy;
}

static bool guards_hold(const unsigned char *block, size_t bytes)
{
    for (size_t i = 0; i < GUARD; i++)
        if (block[i] != 0xFF || block[GUARD + bytes + i] != 0xFF) return false;
    return true;
}

void array_fetch(Array *b)
{
    b = b->whole ? b->whole : b;
    unsigned char *const copy = download(b);
    const bool hold = guards_hold(copy, b->bytes);
    memcpy(b->block, copy, b->bytes + 2 * GUARD);
    free(copy);
    if (!hold) fail_msg("something was written beside a tensor");
}

void array_unchanged(Array *b, const char *name)
{
    enum { PIECE = 1 << 24 }; // of a large array, memory for a copy would take longer than the copy
    b = b->whole ? b->whole : b;
    const size_t all = b->bytes + 2 * GUARD, piece = all < PIECE ? all : PIECE;
    unsigned char *const copy = must_have(malloc(piece));
    bool same = true;
    for (size_t at = 0; same && at < all; at += piece) {
        const size_t n = all - at < piece ? all - at : piece;
        assert_ok(kiln_download(device, copy, (char *)b->memory + at, n));
        same = memcmp(copy, b->block + at, n) == 0;
    }
    free(copy);
    if (!same) fail_msg("'%s' was written", name);
}

static double load(const Array *b, int64_t at)
{
    if (b->tensor.type == KILN_BF16) {
        const uint32_t bits = (uint32_t)((const uint16_t *)(const void *)b->host)[at] << 16;
        float x;
        memcpy(&x, &bits, sizeof x);
        return x;
    }
    return element_get(dtype_of_type(b->tensor.type), b->host, at);
}

static void store(Array *b, int64_t at, double value)
{
    if (b->tensor.type == KILN_BF16 && fabs(value) > 1e-30 && fabs(value) < 1e30) { // there are many of these
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        bits += (UINT64_C(1) << 44) - 1 + (bits >> 45 & 1);
        value = ((union {
                    uint64_t bits;
                    double value;
                }){ .bits = bits >> 45 << 45 })
                    .value; // 7 bits of mantissa
        const float narrow = (float)value;
        uint32_t word;
        memcpy(&word, &narrow, sizeof word);
        ((uint16_t *)(void *)b->host)[at] = (uint16_t)(word >> 16);
        return;
    }
    element_set(dtype_of_type(b->tensor.type), b->host, at, value);
}

double get(const Array *b, int64_t i) { return load(b, place(b, i)); }
void set(Array *b, int64_t i, double value) { store(b, place(b, i), value); }

void get_many(const Array *b, int64_t first, int64_t n, double *values)
{
    int64_t i = 0;
    if (b->tensor.type == KILN_BF16 && !b->tensor.has_strides) {
        const uint16_t *const words = (const uint16_t *)(const void *)b->host + first;
        for (; i + 8 <= n; i += 8) { // as vectors
            union {
                uint32_t bits[8];
                float floats[8];
            } x;
            for (int j = 0; j < 8; j++) x.bits[j] = (uint32_t)words[i + j] << 16;
            for (int j = 0; j < 8; j++) values[i + j] = x.floats[j];
        }
    }
    for (; i < n; i++) values[i] = load(b, place(b, first + i));
}

int64_t count(const Array *b) { return tensor_elements(&b->tensor); }

static void *keep(size_t bytes)
{
    struct Kept *const k = must_have(malloc(sizeof *k + bytes));
    k->next = kept;
    kept = k;
    return k->numbers;
}

double *values(const Array *b)
{
    double *const numbers = keep(sizeof *numbers * (size_t)count(b));
    get_many(b, 0, count(b), numbers);
    return numbers;
}

// ---- numbers

static uint64_t random_state;

void seed(unsigned n) { random_state = n * UINT64_C(0x9E3779B97F4A7C15) + 1; }

enum { CHUNK = 1 << 16 }; // of numbers, for one thread
static const uint64_t random_step = UINT64_C(0x9E3779B97F4A7C15);

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static uint64_t random_word(void) { return mix(random_state += random_step); }

static double between(double low, double high, uint64_t word)
{
    return low + (high - low) * ((double)(word >> 11) * 0x1p-53);
}

double uniform(double low, double high) { return between(low, high, random_word()); }

int64_t integer(int64_t low, int64_t high) { return low + (int64_t)(random_word() % (uint64_t)(high - low + 1)); }

void permute(int32_t *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] = (int32_t)i;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = integer(0, i);
        const int32_t t = x[i];
        x[i] = x[j];
        x[j] = t;
    }
}

// The next n numbers of the sequence are taken by whoever has the place.
static uint64_t random_take(int64_t n)
{
    const uint64_t at = random_state;
    random_state += (uint64_t)n * random_step;
    return at;
}

typedef struct Fill {
    Array *array;
    uint64_t at;
    double low, high;
} Fill;

static void fill_chunk(int64_t chunk, void *context)
{
    const Fill *const f = context;
    const int64_t first = chunk * CHUNK, n = count(f->array);
    uint64_t at = f->at + (uint64_t)first * random_step;
    for (int64_t i = first; i < n && i < first + CHUNK; i++)
        store(f->array, place(f->array, i), between(f->low, f->high, mix(at += random_step)));
}

void draw_random(Array *b, double low, double high)
{
    Fill fill = { b, random_take(count(b)), low, high };
    in_parallel((count(b) + CHUNK - 1) / CHUNK, fill_chunk, &fill);
}

void fill_random(Array *b, double low, double high)
{
    draw_random(b, low, high);
    array_send(b);
}

// Eight sums, so that they can be vectors.
double dot(const double *x, const double *y, int n)
{
    double part[8] = { 0 };
    int d = 0;
    for (; d + 8 <= n; d += 8)
        for (int i = 0; i < 8; i++) part[i] += x[d + i] * y[d + i];
    for (; d < n; d++) part[0] += x[d] * y[d];
    return (part[0] + part[4]) + (part[1] + part[5]) + ((part[2] + part[6]) + (part[3] + part[7]));
}

void check_differences(const char *name, double *x, const double *dx, int n, double loss(const void *context),
                       const void *context)
{
    const double step = 1e-5;
    for (int i = 0; i < n; i++) {
        const double kept = x[i];
        x[i] = kept + step;
        const double above = loss(context);
        x[i] = kept - step;
        const double found = (above - loss(context)) / (2 * step);
        x[i] = kept;
        if (!(fabs(found - dx[i]) <= 1e-6 * (1 + fabs(found))))
            fail_msg("%s[%d]: %g, by differences %g", name, i, dx[i], found);
    }
}

// ---- threads

typedef struct Team {
    void (*body)(int64_t i, void *context);
    void *context;
    int64_t n;
    _Atomic int64_t next;
} Team;

static void *work(void *context)
{
    Team *const team = context;
    for (int64_t i; (i = team->next++) < team->n;) team->body(i, team->context);
    return NULL;
}

void in_parallel(int64_t n, void body(int64_t i, void *context), void *context)
{
    enum { MOST = 64 };
    Team team = { .body = body, .context = context, .n = n };
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    pthread_t threads[MOST];
    int started = 0;
    while (started < MOST && started + 1 < processors && started + 1 < n &&
           pthread_create(&threads[started], NULL, work, &team) == 0)
        started++;
    work(&team);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
}

// ---- the kernels' own references

const kiln_tensor *host_copy(const Array *b)
{
    const DType type = dtype_is_float(dtype_of_type(b->tensor.type)) ? DTYPE_F32 : dtype_of_type(b->tensor.type);
    kiln_tensor *const t = keep(sizeof *t);
    *t = kiln_tensor_of(NULL, NULL, type_of_dtype(type), b->tensor.rank, b->tensor.shape);
    t->data = keep(kiln_tensor_bytes(t));
    for (int64_t i = 0; i < count(b); i++) element_set(type, t->data, i, get(b, i));
    return t;
}

// What is left as it was agrees with nothing.
const kiln_tensor *host_result(const Array *b)
{
    const kiln_tensor *const t = host_copy(b);
    for (int64_t i = 0; i < count(b); i++) element_set(dtype_of_type(t->type), t->data, i, 1e30);
    return t;
}

const double *numbers(const kiln_tensor *host)
{
    const int64_t n = tensor_elements(host);
    double *const x = keep(sizeof *x * (size_t)n);
    for (int64_t i = 0; i < n; i++) x[i] = element_get(dtype_of_type(host->type), host->data, i);
    return x;
}

const kiln_tensor *host_as(const void *data, kiln_type type, int rank, const int64_t *shape)
{
    kiln_tensor *const t = keep(sizeof *t);
    *t = kiln_tensor_of(NULL, (void *)(uintptr_t)data, type, rank, shape);
    return t;
}

kiln_arg host_arg(const Array *b) { return b ? KILN_TENSOR(host_copy(b)) : KILN_NONE; }
kiln_arg result_arg(const Array *b) { return b ? KILN_TENSOR(host_result(b)) : KILN_NONE; }

kiln_arg mirror_arg(const Array *b)
{
    return b ? KILN_TENSOR(host_as(b->host, b->tensor.type, b->tensor.rank, b->tensor.shape)) : KILN_NONE;
}

// The bindings of a text, and of tensors that are left out.
static Binding *reference_bindings(Arena *arena, kiln_program *program, const char *kernel, const char *text,
                                   const kiln_arg *args, int n_args, int *n)
{
    Binding *list;
    assert_ok(bindings_parse(arena, program, kernel, text, &list, n));
    Binding *const all = arena_alloc(arena, sizeof *all * (size_t)(*n + n_args));
    for (int i = 0; i < *n; i++) all[i] = list[i];
    const Decl *decl = program_find(program->program, DECL_KERNEL, kernel);
    if (!decl) decl = program_find(program->program, DECL_OPERATOR, kernel);
    int i = 0;
    for (const Param *p = decl->params; p && i < n_args; p = p->next, i++) {
        bool is_named = args[i].kind != KILN_ARG_NONE;
        for (int j = 0; j < *n; j++) is_named |= strcmp(all[j].name, p->name) == 0;
        if (!is_named) all[(*n)++] = (Binding){ .name = p->name, .kind = BIND_NONE };
    }
    return all;
}

void run_reference(const char *file, const char *kernel, const char *bindings, const kiln_arg *args, int n_args)
{
    kiln_program *program;
    kiln_kernel *reference;
    int n;
    Arena *const arena = must_have(arena_new());
    if (setjmp(arena->out_of_memory) != 0) must_have(NULL);
    assert_ok(program_load_texts(file, kernel_text, &program));
    const Binding *const list = reference_bindings(arena, program, kernel, bindings, args, n_args, &n);
    assert_ok(reference_build(program, kernel, list, n, &reference));
    assert_ok(kiln_launch(reference, NULL, args, n_args));
    kiln_kernel_free(reference);
    kiln_program_free(program);
    arena_free(arena);
}

// ---- comparing

static pthread_mutex_t comparing = PTHREAD_MUTEX_INITIALIZER;

void compare_part(Comparison *c, int64_t first, int64_t n, const double *expected)
{
    enum { PIECE = 512 };
    double ab = 0, aa_bb = 0, size = 0, error = 0, got[PIECE];
    int64_t wrong = 0, first_wrong = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i % PIECE == 0) get_many(c->got, first + i, n - i < PIECE ? n - i : PIECE, got);
        const double a = got[i % PIECE], e = expected[i], off = fabs(a - e);
        bool right = a == e || (isnan(a) && isnan(e));
        if (isfinite(a) && isfinite(e)) {
            ab += a * e;
            aa_bb += a * a + e * e;
            size += e * e;
            error += off * off;
            right = off < c->tolerance.absolute || off / (fabs(e) + 1e-6) < c->tolerance.relative;
        }
        if (!right && wrong++ == 0) first_wrong = i;
    }
    pthread_mutex_lock(&comparing);
    c->seen += n;
    c->ab += ab;
    c->aa_bb += aa_bb;
    if (wrong && (c->wrong == 0 || first + first_wrong < c->first))
        c->first = first + first_wrong, c->expected = expected[first_wrong];
    c->wrong += wrong;
    if (c->part_most > 0 && sqrt(error) > c->part_most * sqrt(size) && c->wrong_parts++ == 0)
        c->first_part = first, c->off = sqrt(error / size);
    pthread_mutex_unlock(&comparing);
}

void assert_compared(const Comparison *c)
{
    if (c->wrong)
        fail_msg("%s: %lld of %lld are wrong; [%lld] is %.9g, expected %.9g", c->name, (long long)c->wrong,
                 (long long)count(c->got), (long long)c->first, get(c->got, c->first), c->expected);
    if (c->wrong_parts)
        fail_msg("%s: %lld parts are wrong as a whole; one from [%lld] on by %.3g of its size, expected at most %.3g",
                 c->name, (long long)c->wrong_parts, (long long)c->first_part, c->off, c->part_most);
    const double cosine = c->aa_bb > 0 ? fabs(1 - 2 * c->ab / c->aa_bb) : 0;
    if (cosine > c->tolerance.cosine)
        fail_msg("%s: the cosine difference is %.3g, expected at most %.3g", c->name, cosine, c->tolerance.cosine);
    if (c->seen != count(c->got))
        fail_msg("%s: %lld of %lld elements were compared", c->name, (long long)c->seen, (long long)count(c->got));
}

void assert_close(const char *name, const Array *got, const double *expected, Tolerance tolerance)
{
    Comparison c = { .name = name, .got = got, .tolerance = tolerance };
    compare_part(&c, 0, count(got), expected);
    assert_compared(&c);
}
