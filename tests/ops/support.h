// SPDX-License-Identifier: MIT
// support.h - what the tests of the operators share: tensors between guards, random numbers, the three-part tolerance.
//
// The device is that of KILN_TEST_DEVICE (default: cpu); KILN_TEST_FILTER picks tests by name, with * and ?;
// KILN_TEST_CHECK, if set, builds kernels with checks; KILN_TEST_LONG adds tests at full size. Every array has a mirror in host memory that references read.
#ifndef KILN_TESTS_OPS_SUPPORT_H
#define KILN_TESTS_OPS_SUPPORT_H

#include "kiln/ops/attention.h"
#include "kiln/ops/decode.h"
#include "kiln/ops/gemm.h"
#include "kiln/ops/mla.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../skip.h"

extern kiln_device *device;
extern kiln_ops *ops;
bool on_cpu(void);
void need_long_tests(void); // skips unless KILN_TEST_LONG is set

int open_ops(void **state);    // group set-up: device and ops
int close_ops(void **state);   // frees every array that is left, too
int free_arrays(void **state); // of a test: its tear-down

void assert_ok(kiln_status status);
void assert_fails(kiln_status status, kiln_status expected, const char *part);

// ---- refusals

// Restores what `change` did after each call.
#define REFUSED(call, args, change, status, message)                                                                   \
    do {                                                                                                               \
        const __typeof__(args) kept_ = args;                                                                           \
        change;                                                                                                        \
        assert_fails(call, status, message);                                                                           \
        args = kept_;                                                                                                  \
    } while (0)

// The same for a change of one tensor of the call.
#define REFUSED_TENSOR(call, tensor, change, status, message) REFUSED(call, tensor, (tensor).change, status, message)

// ---- arrays

enum { GUARD = 1024 };

typedef struct Array {
    struct Array *next;
    kiln_tensor tensor;          // its data is device memory between guards
    unsigned char *block, *host; // the mirror with its guards; its elements
    void *memory;
    size_t bytes;
    struct Array *whole; // of a part: what it is cut from, which has the memory, the mirror and the guards
} Array;

// Every byte is 0xFF: NaN, or -1. Freed at the end of the test.
Array *array_new(kiln_type type, int rank, const int64_t *shape);
#define ARRAY(type, ...)                                                                                               \
    array_new(type, (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (int64_t[]){ __VA_ARGS__ })
Array *bytes_new(size_t bytes);                   // a workspace
size_t decoding_bytes(const kiln_mla_plan *plan); // of a plan's decoding calls, as mla.h says

// Over the same memory: `extent` of dimension `dim`, from `first` on; two dimensions exchanged.
Array *array_part(Array *b, int dim, int64_t first, int64_t extent);
Array *array_swapped(Array *b, int x, int y);
// A copy whose rows lie apart in a larger array of 0xFF; with `swapped` dimensions 1 and 2 stand the other way round.
Array *array_spread(const Array *b, bool swapped);
// The same numbers as a part of a larger array whose rows have an odd number of elements, and begin at its second one.
Array *array_shifted(const Array *b);
// The numbers of an i32 array at a place that is aligned to 4 bytes alone, rows 3 numbers apart; as the array's mirror has them.
kiln_tensor moved_away(const Array *a);
void array_erase(Array *b);           // 0xFF in the mirror
bool array_is_erased(const Array *b); // the whole that it is a part of

void array_send(Array *b);                        // mirror and guards to the device
void array_fetch(Array *b);                       // elements to the mirror; fails if the guards do not hold
void array_unchanged(Array *b, const char *name); // fails if the device has something else than the mirror
double get(const Array *b, int64_t i);
void set(Array *b, int64_t i, double value); // rounds to the type
int64_t count(const Array *b);
void get_many(const Array *b, int64_t first, int64_t n, double *values);
void draw_random(Array *b, double low, double high); // into the mirror alone
void fill_random(Array *b, double low, double high); // and sent
double *values(const Array *b);                      // all as doubles; the test's, freed with the arrays

// ---- numbers

void seed(unsigned n); // the same sequence for the same n
double uniform(double low, double high);
int64_t integer(int64_t low, int64_t high); // high included
void permute(int32_t *x, int64_t n);        // 0 .. n-1 in random order
double dot(const double *x, const double *y, int n);
// Fails unless dx[i] is the derivative of loss(context) by x[i], by differences; x is what it was afterwards.
void check_differences(const char *name, double *x, const double *dx, int n, double loss(const void *context),
                       const void *context);

// body(0, context) .. body(n - 1, context) in any order, on all processors; these may fail no test and draw no numbers.
void in_parallel(int64_t n, void body(int64_t i, void *context), void *context);

// ---- the kernels' own references

// A contiguous copy in host memory, the test's: of floating-point numbers as f32, of others as they are.
const kiln_tensor *host_copy(const Array *b);
const kiln_tensor *host_result(const Array *b); // of its shape, for the reference to write
// Host memory, such as an array's mirror, as a contiguous tensor of another type or shape.
const kiln_tensor *host_as(const void *data, kiln_type type, int rank, const int64_t *shape);
#define HOST_AS(data, type, ...)                                                                                       \
    host_as(data, type, (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (int64_t[]){ __VA_ARGS__ })
kiln_arg host_arg(const Array *b); // of NULL: none
kiln_arg result_arg(const Array *b);
kiln_arg mirror_arg(const Array *b); // the mirror itself, of the array's type, to read or to write
// Runs the reference of a kernel of the library, such as "attention_forward" of "attention/forward.tile", on host memory. It
// computes in f64; with T=f32 results are rounded to f32 alone. Tensors that are none need no binding.
void run_reference(const char *file, const char *kernel, const char *bindings, const kiln_arg *args, int n_args);
const double *numbers(const kiln_tensor *host); // all as doubles; the test's, too

// ---- comparing

typedef struct Tolerance {
    double absolute, relative, cosine;
} Tolerance;

// Infinities and NaN must stand at the same places; elsewhere each element is within the absolute or the relative bound,
// and all together within the cosine difference 1 - 2<a,b>/(<a,a> + <b,b>).
void assert_close(const char *name, const Array *got, const double *expected, Tolerance tolerance);

// The same, a part at a time, by any threads. Sums over many tokens hide much: with part_most > 0 each part must be right as
// a whole, the root of its squared errors at most that share of its size.
typedef struct Comparison {
    const char *name;
    const Array *got;
    Tolerance tolerance;
    double part_most;
    double ab, aa_bb;           // of what was compared so far, as all below
    int64_t seen, wrong, first; // elements; the first wrong one, if any is
    int64_t wrong_parts, first_part;
    double expected, off; // of the first wrong element; of the first wrong part, the share
} Comparison;
void compare_part(Comparison *c, int64_t first, int64_t n, const double *expected);
void assert_compared(const Comparison *c); // fails, too, if less than all of it was compared

#endif
