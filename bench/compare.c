// SPDX-License-Identifier: MIT
// compare.c - results of a device beside what some instances of a reference have written.
//
// The reference's memory holds 0xFF before, or what the kernel found in a tensor that it reads, too. What it has not
// changed is not compared; of the device only what it has changed is read.
#define _GNU_SOURCE // madvise
#include "bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

// ---- host memory

typedef struct Copying {
    char *to;
    const char *from;
    size_t piece, bytes;
} Copying;

static void copy_pieces(void *context, int64_t first, int64_t last)
{
    const Copying *const x = context;
    for (size_t at = (size_t)first * x->piece; at < (size_t)last * x->piece && at < x->bytes; at += x->piece)
        memcpy(x->to + at, x->from, x->bytes - at < x->piece ? x->bytes - at : x->piece);
}

void host_repeat(char *to, const char *from, size_t piece, size_t bytes)
{
    threads_run((int64_t)((bytes + piece - 1) / piece), copy_pieces, &(Copying){ to, from, piece, bytes });
}

void *host_memory(size_t bytes)
{
    enum { LARGE_PAGE = 1 << 21 };
    void *const memory = aligned_alloc(LARGE_PAGE, (bytes / LARGE_PAGE + 1) * LARGE_PAGE);
    if (memory) madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

enum { POISON = 1 << 16, STEP = 4096 };
static const char *poison(void)
{
    static char bytes[POISON]; // 0xFF
    if (bytes[0] == 0) memset(bytes, 0xFF, sizeof bytes);
    return bytes;
}

void *host_expected(const char *before, size_t bytes)
{
    char *const memory = host_memory(bytes);
    if (memory && before) host_repeat(memory, before, bytes + !bytes, bytes);
    else if (memory) host_repeat(memory, poison(), POISON, bytes);
    return memory;
}

// ---- what the reference has written

// What an element may be off by, in units of its own size and of a typical one's, of all or of its row: three
// roundings of its type. Others, integers, are exact.
static const double units[DTYPE_COUNT] = { [DTYPE_BF16] = 0x1p-7, [DTYPE_F16] = 0x1p-9, [DTYPE_E4M3] = 0x1p-3,
                                           [DTYPE_E5M2] = 0x1p-2, [DTYPE_F32] = 1e-4,   [DTYPE_F64] = 1e-12 };

static DType type_of(const Results *r) { return dtype_of_type(r->tensor->type); }
static size_t element_bytes(const Results *r) { return (size_t)dtype_bits(type_of(r)) / 8; }

// Whether the reference has left so many bytes as they were.
static bool is_untouched(const Results *r, size_t at, size_t bytes)
{
    return memcmp(r->expected + at, r->before ? r->before + at : poison(), bytes) == 0;
}

// The next elements that the reference has written, in one row: first .. last - 1, from last on. False: no more.
static bool next_expected(const Results *r, int64_t *first, int64_t *last)
{
    const size_t size = element_bytes(r), step = STEP / size, n = (size_t)tensor_elements(r->tensor);
    const size_t row = (size_t)r->tensor->shape[r->tensor->rank - 1];
    size_t i = (size_t)*last;
    while (i < n && is_untouched(r, i * size, size)) i += i + step <= n && is_untouched(r, i * size, STEP) ? step : 1;
    *first = (int64_t)i;
    while (i < n && !is_untouched(r, i * size, size) && (i == (size_t)*first || i % row != 0)) i++;
    *last = (int64_t)i;
    return *first < *last;
}

static double root_mean_square(const Results *r, int64_t first, int64_t last)
{
    double squares = 0;
    for (int64_t i = first; i < last; i++) {
        const double e = element_get(type_of(r), r->expected, i);
        squares += isfinite(e) ? e * e : 0;
    }
    return sqrt(squares / (double)(last - first));
}

// Of all that is expected; and in how many runs it stands.
static double typical_size(const Results *r, int64_t *runs)
{
    double squares = 0, n = 0;
    *runs = 0;
    for (int64_t first, last = 0; next_expected(r, &first, &last); ++*runs) {
        squares += pow(root_mean_square(r, first, last), 2) * (double)(last - first);
        n += (double)(last - first);
    }
    return n > 0 ? sqrt(squares / n) : NAN;
}

// ---- beside what the device has

// `got` holds elements first .. last - 1.
static Verdict compare_run(const Results *r, const char *got, int64_t first, int64_t last, double size, char *problem,
                           size_t bytes)
{
    const double typical = fmax(size, root_mean_square(r, first, last)),
                 unit = units[type_of(r)] * (r->slack > 0 ? r->slack : 1);
    for (int64_t i = first; i < last; i++) {
        const double is = element_get(type_of(r), got, i - first), expected = element_get(type_of(r), r->expected, i);
        if (is == expected || fabs(is - expected) <= unit * (fabs(expected) + typical)) continue;
        snprintf(problem, bytes, "WRONG: element %" PRId64 " of '%s' is %g, not %g", i, r->name, is, expected);
        return RESULTS_WRONG;
    }
    return RESULTS_FIT;
}

// What the device has of them: a run at a time, or all at once where there are many.
typedef struct Got {
    char *memory;
    bool whole;
} Got;

static const char *fetch(const Results *r, const Got *got, kiln_device *device, int64_t first, int64_t last)
{
    const size_t at = (size_t)first * element_bytes(r), bytes = (size_t)(last - first) * element_bytes(r);
    if (got->whole) return got->memory + at;
    return kiln_download(device, got->memory, (const char *)r->tensor->data + at, bytes) ? NULL : got->memory;
}

static bool get_ready(const Results *r, Got *got, kiln_device *device, int64_t runs)
{
    enum { FEW = 2000 };
    const size_t all = kiln_tensor_bytes(r->tensor), row = (size_t)r->tensor->shape[r->tensor->rank - 1];
    got->whole = runs > FEW;
    got->memory = host_memory(got->whole ? all : row * element_bytes(r));
    return got->memory && (!got->whole || !kiln_download(device, got->memory, r->tensor->data, all));
}

Verdict results_compare(const Results *r, kiln_device *device, char *problem, size_t bytes)
{
    int64_t runs;
    Got got = { 0 };
    Verdict verdict = RESULTS_FIT;
    if (tensor_elements(r->tensor) == 0) return RESULTS_FIT;
    const double size = typical_size(r, &runs);
    if (isnan(size)) return snprintf(problem, bytes, "the reference says nothing of '%s'", r->name), RESULTS_UNKNOWN;
    if (!get_ready(r, &got, device, runs)) {
        snprintf(problem, bytes, "%s", got.memory ? kiln_error_message() : "out of memory for results");
        verdict = RESULTS_UNKNOWN;
    }
    for (int64_t first, last = 0; !verdict && next_expected(r, &first, &last);) {
        const char *const is = fetch(r, &got, device, first, last);
        if (is) verdict = compare_run(r, is, first, last, size, problem, bytes);
        else snprintf(problem, bytes, "%s", kiln_error_message()), verdict = RESULTS_UNKNOWN;
    }
    free(got.memory);
    return verdict;
}
