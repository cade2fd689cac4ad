// SPDX-License-Identifier: MIT
// device_test.c - the runtime on a CUDA device: memory, launches, streams, graphs, refusals, and going on after a fault.
#define _GNU_SOURCE // environ
#include "kiln/kiln.h"

#include <pthread.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../capture.h"
#include "../skip.h"

static const char source[] = "kernel scale<int BN = 256>(in f32 X[N], out f32 Y[N], f32 a)\n"
                             "{\n"
                             "    grid (n : ceildiv(N, BN)) warps(4);\n"
                             "    fragment f32 x[BN] = X[n*BN +: BN];\n"
                             "    forall (i : BN) x[i] *= a;\n"
                             "    Y[n*BN +: BN] = x;\n"
                             "}\n"
                             "kernel product(in f16 A[M][K], in f16 B[N][K], out f32 C[M][N])\n"
                             "{\n"
                             "    grid (n : ceildiv(N, 128), m : ceildiv(M, 64)) warps(4);\n"
                             "    fragment f32 acc[64][128] = 0;\n"
                             "    pipeline (k : ceildiv(K, 64); stages = 3) {\n"
                             "        shared f16 a[64][64] = A[m*64 +: 64][k*64 +: 64];\n"
                             "        shared f16 b[128][64] = B[n*128 +: 128][k*64 +: 64];\n"
                             "        acc += a @ transpose(b);\n"
                             "    }\n"
                             "    C[m*64 +: 64][n*128 +: 128] = acc;\n"
                             "}\n"
                             "kernel first(in f32 X[P][N], out f32 Y[M][N])\n"
                             "{\n"
                             "    grid (m : ceildiv(M, 64), n : ceildiv(N, 32)) warps(4);\n"
                             "    shared f32 x[64][32] = X[m*64 +: 64][n*32 +: 32];\n"
                             "    Y[m*64 +: 64][n*32 +: 32] = x;\n"
                             "}\n"
                             "kernel outside(in f32 X[N], out f32 Y[N], int at)\n"
                             "{\n"
                             "    grid (n : ceildiv(N, 64)) warps(4);\n"
                             "    shared f32 x[64] = X[n*64 +: 64];\n"
                             "    forall (i : 64) Y[n*64 + i] = x[n == 3 ? i + at : i];\n"
                             "}\n"
                             "kernel unwritten(in f32 X[N], out f32 Y[N], int written)\n"
                             "{\n"
                             "    grid ();\n"
                             "    fragment f32 x[128];\n"
                             "    forall (i : 128) if (i < written) x[i] = X[i];\n"
                             "    forall (i : 128) Y[i] = x[i];\n"
                             "}\n"
                             "kernel unwritten_step(in f32 X[N], out f32 Y[N], int written)\n"
                             "{\n"
                             "    grid ();\n"
                             "    pipeline (k : 2; stages = 2) {\n"
                             "        shared f32 x[64];\n"
                             "        if (k < written) x = X[k*64 +: 64];\n"
                             "        Y[k*64 +: 64] = x;\n"
                             "    }\n"
                             "}\n"
                             "kernel unwritten_product(in f32 X[N], out f32 Y[N], int written)\n"
                             "{\n"
                             "    grid () warps(4);\n"
                             "    shared f16 a[16][16] = 1, b[16][16];\n"
                             "    forall (i : 16, j : 16) if (i * 16 + j < written) b[i][j] = X[i * 16 + j];\n"
                             "    fragment f32 c[16][16] = a @ transpose(b);\n"
                             "    forall (i : 16, j : 16) Y[i * 16 + j] = c[i][j];\n"
                             "}\n"
                             "kernel corners(in u8 X[M][N], out u8 Y[M][N])\n"
                             "{\n"
                             "    grid (c : 2) warps(4);\n"
                             "    fragment u8 x[64] = X[c * (M - 1)][N - 64 +: 64];\n"
                             "    Y[c * (M - 1)][N - 64 +: 64] = x;\n"
                             "}\n"
                             "kernel overflow(in f32 X[N], out f32 Y[N], int v) { grid (); Y[0] = v * v / 4; }\n"
                             "kernel arithmetic(in f32 X[N], out f32 Y[N], int v)\n"
                             "{\n"
                             "    grid ();\n"
                             "    int zero = v < 0, least = -9223372036854775807 - (v < 0 ? 0 : 1), a = 7;\n"
                             "    i32 nought = zero;\n"
                             "    shared i32 t[4] = 7;\n"
                             "    if (v == 1) a = a / zero;\n"
                             "    if (v == 2) a = 7 % nought;\n"
                             "    if (v == 3) a = least / (zero - 1);\n"
                             "    if (v == 4) a = -least;\n"
                             "    if (v == 5) a = abs(least);\n"
                             "    if (v == 6) a = a << 64 + zero;\n"
                             "    if (v == 7) a = a << 62 + zero;\n"
                             "    if (v == 8) a = ceildiv(a, zero);\n"
                             "    if (v == 9) forall (i : 4) t[i] /= nought;\n"
                             "    if (v == 10) a = least - 1;\n"
                             "    Y[0] = a + t[3];\n"
                             "}\n"
                             "kernel asserts(in f32 X[N], out f32 Y[N], int v)\n"
                             "{\n"
                             "    grid (n : 2) warps(4);\n"
                             "    forall (i : N / 2) assert(X[n*(N/2) + i] < v, \"X is \\\"large\\\", 100%\");\n"
                             "    Y[0] = X[0];\n"
                             "}\n";

enum { N = 1000 };

static kiln_device *gpu, *cpu;
static kiln_program *program;
static kiln_kernel *scale;
static float host[N];

static void assert_ok(kiln_status status)
{
    if (status) fail_msg("%s: %s", kiln_status_name(status), kiln_error_message());
}

static void assert_fails(kiln_status status, kiln_status expected, const char *part)
{
    if (status != expected || !strstr(kiln_error_message(), part))
        fail_msg("%s: '%s', expected %s and '%s'", kiln_status_name(status), kiln_error_message(),
                 kiln_status_name(expected), part);
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Two vectors on the device, X with 0, 1, 2 ...
typedef struct Vectors {
    kiln_tensor x, y;
} Vectors;

static Vectors make_vectors(void)
{
    const int64_t shape[] = { N };
    void *x, *y;
    for (int i = 0; i < N; i++) host[i] = (float)i;
    assert_ok(kiln_alloc(gpu, sizeof host, &x));
    assert_ok(kiln_alloc(gpu, sizeof host, &y));
    assert_ok(kiln_upload(gpu, x, host, sizeof host));
    return (Vectors){ kiln_tensor_of(gpu, x, KILN_F32, 1, shape), kiln_tensor_of(gpu, y, KILN_F32, 1, shape) };
}

static void free_vectors(Vectors *v)
{
    kiln_free(gpu, v->x.data);
    kiln_free(gpu, v->y.data);
}

static kiln_status launch(const Vectors *v, kiln_stream *stream, float a)
{
    const kiln_arg args[] = { KILN_TENSOR(&v->x), KILN_TENSOR(&v->y), KILN_FLOAT(a) };
    return kiln_launch(scale, stream, args, 3);
}

static void assert_scaled(const Vectors *v, float a)
{
    assert_ok(kiln_download(gpu, host, v->y.data, sizeof host));
    for (int i = 0; i < N; i++)
        if (host[i] != a * (float)i) fail_msg("element %d is %g, expected %g", i, host[i], a * (float)i);
}

static void open_device(void)
{
    assert_ok(kiln_device_open("cuda:0", &gpu));
    assert_ok(kiln_kernel_build(gpu, program, "scale", NULL, NULL, &scale));
}

static void close_device(void)
{
    kiln_kernel_free(scale);
    kiln_device_close(gpu);
}

static int open_all(void **state)
{
    assert_ok(kiln_device_open("cpu", &cpu));
    assert_ok(kiln_program_load_text("gpu.tile", source, &program));
    open_device();
    print_message("%s\n", kiln_device_describe(gpu));
    return 0;
}

static int close_all(void **state)
{
    close_device();
    kiln_program_free(program);
    kiln_device_close(cpu);
    return 0;
}

static void launches_compute(void **state)
{
    Vectors v = make_vectors();
    assert_ok(launch(&v, NULL, 3));
    assert_ok(kiln_stream_wait(gpu, NULL));
    assert_scaled(&v, 3);
    free_vectors(&v);
}

static void tensor_maps_follow_their_tensors(void **state)
{
    enum { M = 128, COLUMNS = 256, K = 192 };
    static const int64_t steps[] = { 64, 61, K, 127, 128 }; // rows of odd lengths are no boxes
    static uint16_t a[M * K], b[COLUMNS * K];
    static float c[M * COLUMNS];
    kiln_kernel *product;
    void *da, *db, *dc;
    for (int i = 0; i < M * K; i++) a[i] = 0x3c00;       // 1
    for (int i = 0; i < COLUMNS * K; i++) b[i] = 0x4000; // 2
    assert_ok(kiln_kernel_build(gpu, program, "product", NULL, NULL, &product));
    assert_ok(kiln_alloc(gpu, sizeof a, &da));
    assert_ok(kiln_alloc(gpu, sizeof b, &db));
    assert_ok(kiln_alloc(gpu, sizeof c, &dc));
    assert_ok(kiln_upload(gpu, da, a, sizeof a));
    assert_ok(kiln_upload(gpu, db, b, sizeof b));
    for (int step = 0; step < (int)(sizeof steps / sizeof *steps); step++) {
        const int64_t k = steps[step]; // other shapes over the same memory: other maps, or another build
        const int64_t sa[] = { M, k }, sb[] = { COLUMNS, k }, sc[] = { M, COLUMNS };
        const kiln_tensor ta = kiln_tensor_of(gpu, da, KILN_F16, 2, sa), tb = kiln_tensor_of(gpu, db, KILN_F16, 2, sb),
                          tc = kiln_tensor_of(gpu, dc, KILN_F32, 2, sc);
        const kiln_arg args[] = { KILN_TENSOR(&ta), KILN_TENSOR(&tb), KILN_TENSOR(&tc) };
        for (int again = 0; again < 2; again++) {
            assert_ok(kiln_launch(product, NULL, args, 3));
            assert_ok(kiln_download(gpu, c, dc, sizeof c));
            for (int i = 0; i < M * COLUMNS; i++)
                if (c[i] != 2 * (float)k) fail_msg("K = %d: element %d is %g", (int)k, i, c[i]);
        }
    }
    kiln_free(gpu, da);
    kiln_free(gpu, db);
    kiln_free(gpu, dc);
    kiln_kernel_free(product);
}

static void streams_and_events(void **state)
{
    kiln_stream *stream;
    kiln_event *begin, *end;
    double ms = -1;
    Vectors v = make_vectors();
    assert_ok(kiln_stream_open(gpu, &stream));
    assert_ok(kiln_event_open(gpu, &begin));
    assert_ok(kiln_event_open(gpu, &end));
    assert_int_equal(kiln_event_elapsed(begin, end, &ms), KILN_BAD_ARGUMENT); // and goes on
    assert_ok(kiln_event_record(begin, stream));
    for (int i = 0; i < 100; i++) assert_ok(launch(&v, stream, 2));
    assert_ok(kiln_event_record(end, stream));
    assert_ok(kiln_event_wait(end));
    assert_ok(kiln_event_elapsed(begin, end, &ms));
    assert_true(ms > 0 && ms < 1000);
    assert_scaled(&v, 2);
    assert_fails(kiln_stream_wait(cpu, stream), KILN_BAD_DEVICE, "stream is of cuda:0");
    kiln_event_close(begin);
    kiln_event_close(end);
    kiln_stream_close(stream);
    free_vectors(&v);
}

static void memory_runs_out_and_comes_back(void **state)
{
    void *memory;
    assert_fails(kiln_alloc(gpu, (size_t)1 << 46, &memory), KILN_OUT_OF_MEMORY,
                 "out of device memory for 70368744177664 bytes");
    launches_compute(state);
}

// The host writes and reads it in place; the kernel has one side of it there and the other in the device's memory.
static void pinned_memory_is_reached_from_both_sides(void **state)
{
    float *pinned;
    Vectors v = make_vectors();
    void *const x = v.x.data, *const y = v.y.data;
    assert_ok(kiln_host_alloc(gpu, sizeof host, (void **)&pinned));
    assert_int_equal((uintptr_t)pinned % 256, 0);
    for (int i = 0; i < N; i++) pinned[i] = (float)i;
    v.x.data = pinned;
    assert_ok(launch(&v, NULL, 8));
    assert_ok(kiln_stream_wait(gpu, NULL));
    assert_scaled(&v, 8);
    v.x.data = x, v.y.data = pinned;
    assert_ok(launch(&v, NULL, 9));
    assert_ok(kiln_stream_wait(gpu, NULL));
    for (int i = 0; i < N; i++) assert_true(pinned[i] == 9 * (float)i);
    assert_ok(kiln_upload(gpu, y, pinned, sizeof host));
    v.y.data = y;
    assert_scaled(&v, 9);
    kiln_host_free(gpu, pinned);
    kiln_host_free(gpu, NULL);
    void *none;
    assert_int_not_equal(kiln_host_alloc(gpu, (size_t)1 << 46, &none), KILN_OK);
    free_vectors(&v);
}

static void devices_are_not_mixed(void **state)
{
    static float x[N], y[N];
    const int64_t shape[] = { N };
    Vectors v = make_vectors();
    kiln_kernel *on_cpu;
    const kiln_tensor hx = kiln_tensor_of(NULL, x, KILN_F32, 1, shape), hy = kiln_tensor_of(cpu, y, KILN_F32, 1, shape);
    kiln_arg args[] = { KILN_TENSOR(&hx), KILN_TENSOR(&v.y), KILN_FLOAT(1) };
    assert_fails(kiln_launch(scale, NULL, args, 3), KILN_BAD_DEVICE,
                 "'X' is memory of the host, but the kernel runs on cuda:0");
    args[0] = KILN_TENSOR(&v.x), args[1] = KILN_TENSOR(&hy);
    assert_fails(kiln_launch(scale, NULL, args, 3), KILN_BAD_DEVICE, "'Y' is memory of cpu");
    assert_ok(kiln_kernel_build(cpu, program, "scale", NULL, NULL, &on_cpu));
    args[0] = KILN_TENSOR(&v.x);
    assert_fails(kiln_launch(on_cpu, NULL, args, 3), KILN_BAD_DEVICE,
                 "'X' is memory of cuda:0, but the kernel runs on cpu");
    kiln_kernel_free(on_cpu);
    v.y.data = (char *)v.y.data + 2;
    assert_fails(launch(&v, NULL, 1), KILN_BAD_ALIGNMENT, "'Y'");
    v.y.data = (char *)v.y.data - 2;
    free_vectors(&v);
}

// ---- sizes

static void empty_tensors_launch_nothing(void **state)
{
    const int64_t none[] = { 0 };
    Vectors v = make_vectors();
    Vectors empty = v;
    memcpy(empty.x.shape, none, sizeof none);
    memcpy(empty.y.shape, none, sizeof none);
    assert_ok(launch(&v, NULL, 6));
    assert_ok(launch(&empty, NULL, 1));
    empty.x.data = empty.y.data = NULL;
    assert_ok(launch(&empty, NULL, 1));
    assert_scaled(&v, 6);
    free_vectors(&v);
}

// Instances, but nothing to copy: what has no elements needs no memory, and reads as zeros.
static void nothing_is_copied_from_empty_tensors(void **state)
{
    enum { M = 64, COLUMNS = 128 };
    static float c[M * COLUMNS];
    const kiln_tensor a = kiln_tensor_of(gpu, NULL, KILN_F16, 2, (int64_t[]){ M, 0 }),
                      b = kiln_tensor_of(gpu, NULL, KILN_F16, 2, (int64_t[]){ COLUMNS, 0 });
    kiln_kernel *product, *first;
    void *dc;
    assert_ok(kiln_alloc(gpu, sizeof c, &dc));
    const kiln_tensor tc = kiln_tensor_of(gpu, dc, KILN_F32, 2, (int64_t[]){ M, COLUMNS });
    const kiln_tensor none = kiln_tensor_of(gpu, NULL, KILN_F32, 2, (int64_t[]){ 0, COLUMNS });
    assert_ok(kiln_kernel_build(gpu, program, "product", NULL, NULL, &product));
    assert_ok(kiln_kernel_build(gpu, program, "first", NULL, NULL, &first));
    for (int i = 0; i < 2; i++) {
        memset(c, 0xFF, sizeof c);
        assert_ok(kiln_upload(gpu, dc, c, sizeof c));
        if (i == 0)
            assert_ok(
                kiln_launch(product, NULL, (kiln_arg[]){ KILN_TENSOR(&a), KILN_TENSOR(&b), KILN_TENSOR(&tc) }, 3));
        else assert_ok(kiln_launch(first, NULL, (kiln_arg[]){ KILN_TENSOR(&none), KILN_TENSOR(&tc) }, 2));
        assert_ok(kiln_download(gpu, c, dc, sizeof c));
        for (int k = 0; k < M * COLUMNS; k++) assert_true(c[k] == 0);
    }
    kiln_kernel_free(product);
    kiln_kernel_free(first);
    kiln_free(gpu, dc);
}

// 65537 x 65600 bytes: places past 2^32 in tensors past 4 GiB. The ends of the first and of the last row are copied.
static void tensors_pass_4_gigabytes(void **state)
{
    enum { ROWS = 65537, COLUMNS = 65600, END = 64, FROM = COLUMNS - END };
    const int64_t shape[] = { ROWS, COLUMNS };
    const size_t bytes = (size_t)ROWS * COLUMNS, last = bytes - END;
    static uint8_t here[END], back[END];
    void *x, *y;
    kiln_kernel *corners;
    if (kiln_alloc(gpu, bytes, &x)) skip_because("the device has no 4 GiB left");
    if (kiln_alloc(gpu, bytes, &y)) {
        kiln_free(gpu, x);
        skip_because("the device has no second 4 GiB left");
    }
    assert_ok(kiln_kernel_build(gpu, program, "corners", NULL, NULL, &corners));
    const kiln_tensor tx = kiln_tensor_of(gpu, x, KILN_U8, 2, shape), ty = kiln_tensor_of(gpu, y, KILN_U8, 2, shape);
    const kiln_arg args[] = { KILN_TENSOR(&tx), KILN_TENSOR(&ty) };
    for (int i = 0; i < END; i++) here[i] = (uint8_t)(i * 7);
    assert_ok(kiln_upload(gpu, (char *)x + FROM, here, END));
    assert_ok(kiln_upload(gpu, (char *)x + last, here, END));
    assert_ok(kiln_upload(gpu, (char *)y + last - END, back, END));
    assert_ok(kiln_launch(corners, NULL, args, 2));
    assert_ok(kiln_download(gpu, back, (char *)y + last, END));
    assert_memory_equal(back, here, END);
    assert_ok(kiln_download(gpu, back, (char *)y + FROM, END));
    assert_memory_equal(back, here, END);
    assert_ok(kiln_download(gpu, back, (char *)y + last - END, END));
    for (int i = 0; i < END; i++) assert_int_equal(back[i], 0);
    kiln_kernel_free(corners);
    kiln_free(gpu, x);
    kiln_free(gpu, y);
}

static void sizes_that_no_launch_can_take_are_refused_by_name(void **state)
{
    const int64_t far = (INT64_C(1) << 40) + 1, rows[] = { far, 64 }, out[] = { far, 128 }, b[] = { 128, 64 };
    void *const low = (void *)(uintptr_t)64; // never read: the launch does not start
    char *const high = (char *)low + ((size_t)1 << 56);
    Vectors v = make_vectors();
    kiln_kernel *product;
    v.x = kiln_tensor_of(gpu, low, KILN_F32, 1, &far);
    v.y = kiln_tensor_of(gpu, high, KILN_F32, 1, &far);
    assert_fails(launch(&v, NULL, 1), KILN_BAD_SHAPE, "scale: N is at most 1099511627776");
    assert_ok(kiln_kernel_build(gpu, program, "product", NULL, NULL, &product));
    const kiln_tensor ta = kiln_tensor_of(gpu, low, KILN_F16, 2, rows), tb = kiln_tensor_of(gpu, low, KILN_F16, 2, b),
                      tc = kiln_tensor_of(gpu, high, KILN_F32, 2, out);
    const kiln_arg args[] = { KILN_TENSOR(&ta), KILN_TENSOR(&tb), KILN_TENSOR(&tc) };
    assert_fails(kiln_launch(product, NULL, args, 3), KILN_BAD_SHAPE, "product: M is at most 1099511627776");
    kiln_kernel_free(product);
}

static void too_much_shared_memory_names_the_tiles(void **state)
{
    static const char greedy[] = "kernel greedy(in f32 X[N], out f32 Y[N])\n"
                                 "{\n"
                                 "    grid () warps(4);\n"
                                 "    shared f32 small[64] = X[0 +: 64], large[60000] = X[64 +: 60000];\n"
                                 "    forall (i : N) Y[i] = small[i % 64] + large[i % 60000];\n"
                                 "}\n";
    kiln_program *p;
    kiln_kernel *k;
    assert_ok(kiln_program_load_text("greedy.tile", greedy, &p));
    assert_fails(kiln_kernel_build(gpu, p, "greedy", NULL, NULL, &k), KILN_BAD_SOURCE,
                 "bytes of shared memory; a CTA has 232448");
    assert_non_null(strstr(kiln_error_message(), "'large': 1 x 240"));
    kiln_program_free(p);
}

// ---- capture

static void launches_are_captured_into_graphs(void **state)
{
    Vectors v = make_vectors();
    Capture c = begin_capture(gpu);
    assert_ok(launch(&v, c.stream, 5));
    assert_ok(launch(&v, c.stream, 7));
    end_capture(&c);
    for (int i = 0; i < 3; i++) {
        replay(&c);
        assert_scaled(&v, 7);
    }
    close_capture(&c);
    free_vectors(&v);
}

// ---- capture of launches that have to be built first

enum { SIDE = 128, LONGEST = 192 };

// A product of ones by twos.
typedef struct Product {
    kiln_kernel *kernel;
    void *a, *b, *c;
} Product;

static Product make_product(void)
{
    static uint16_t ones[SIDE * LONGEST], twos[SIDE * LONGEST];
    Product p;
    for (int i = 0; i < SIDE * LONGEST; i++) ones[i] = 0x3c00, twos[i] = 0x4000;
    assert_ok(kiln_kernel_build(gpu, program, "product", NULL, NULL, &p.kernel));
    assert_ok(kiln_alloc(gpu, sizeof ones, &p.a));
    assert_ok(kiln_alloc(gpu, sizeof twos, &p.b));
    assert_ok(kiln_alloc(gpu, SIDE * SIDE * sizeof(float), &p.c));
    assert_ok(kiln_upload(gpu, p.a, ones, sizeof ones));
    assert_ok(kiln_upload(gpu, p.b, twos, sizeof twos));
    return p;
}

static void free_product(Product *p)
{
    kiln_free(gpu, p->a);
    kiln_free(gpu, p->b);
    kiln_free(gpu, p->c);
    kiln_kernel_free(p->kernel);
}

static kiln_status launch_product(const Product *p, kiln_stream *stream, int64_t k)
{
    const int64_t in[] = { SIDE, k }, out[] = { SIDE, SIDE };
    const kiln_tensor a = kiln_tensor_of(gpu, p->a, KILN_F16, 2, in), b = kiln_tensor_of(gpu, p->b, KILN_F16, 2, in),
                      c = kiln_tensor_of(gpu, p->c, KILN_F32, 2, out);
    const kiln_arg args[] = { KILN_TENSOR(&a), KILN_TENSOR(&b), KILN_TENSOR(&c) };
    return kiln_launch(p->kernel, stream, args, 3);
}

static void assert_product(const Product *p, int64_t k)
{
    static float c[SIDE * SIDE];
    assert_ok(kiln_download(gpu, c, p->c, sizeof c));
    for (int i = 0; i < SIDE * SIDE; i++)
        if (c[i] != 2 * (float)k) fail_msg("K = %d: element %d is %g", (int)k, i, c[i]);
    memset(c, 0xFF, sizeof c);
    assert_ok(kiln_upload(gpu, p->c, c, sizeof c));
}

// Rows that are no boxes have a build of their own, which the capture's first launch makes.
static void a_capture_builds_for_other_rows(void **state)
{
    Product p = make_product();
    Capture c = begin_capture(gpu);
    assert_ok(launch_product(&p, c.stream, 128));
    assert_ok(launch_product(&p, c.stream, 61));
    end_capture(&c);
    for (int i = 0; i < 2; i++) {
        replay(&c);
        assert_product(&p, 61);
    }
    assert_ok(launch_product(&p, NULL, 127)); // the build is there for others, too
    assert_product(&p, 127);
    close_capture(&c);
    free_product(&p);
}

// A whole kernel is built while another thread's stream is captured, and one is freed.
static void *build_beside(void *context)
{
    kiln_kernel *kernel;
    if (kiln_kernel_build(gpu, program, "first", NULL, NULL, &kernel)) return "a build beside a capture failed";
    kiln_kernel_free(kernel);
    return NULL;
}

static void kernels_are_built_beside_a_capture(void **state)
{
    Vectors v = make_vectors();
    pthread_t thread;
    void *problem;
    Capture c = begin_capture(gpu);
    assert_int_equal(pthread_create(&thread, NULL, build_beside, NULL), 0);
    pthread_join(thread, &problem);
    assert_null(problem);
    assert_null(build_beside(NULL));
    assert_ok(launch(&v, c.stream, 9));
    end_capture(&c);
    replay(&c);
    assert_scaled(&v, 9);
    close_capture(&c);
    free_vectors(&v);
}

// Four of them; each returns what went wrong, or NULL.
static void run_in_threads(void *run(void *), void *context)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, run, context), 0);
    for (int i = 0; i < 4; i++) {
        void *problem;
        pthread_join(threads[i], &problem);
        assert_null(problem);
    }
}

static void *launch_odd_rows(void *context) { return launch_product(context, NULL, 61) ? "a launch failed" : NULL; }

static void threads_build_once(void **state)
{
    Product p = make_product();
    run_in_threads(launch_odd_rows, &p);
    assert_product(&p, 61);
    free_product(&p);
}

// An empty cache, so that the compiler is needed, which can be made to fail.
typedef struct OtherCache {
    char folder[32];
    const char *before;
} OtherCache;

static OtherCache use_empty_cache(void)
{
    OtherCache o = { .folder = "/tmp/kiln-device-XXXXXX", .before = getenv("KILN_CACHE") };
    const char *const given = getenv("KILN_CUDA");
    if (!given || !strstr(given, "emulated")) skip_because("only the emulated device's compiler can be made to fail");
    assert_non_null(mkdtemp(o.folder));
    assert_int_equal(setenv("KILN_CACHE", o.folder, 1), 0);
    return o;
}

static void drop_cache(const OtherCache *o)
{
    char command[64];
    assert_int_equal(o->before ? setenv("KILN_CACHE", o->before, 1) : unsetenv("KILN_CACHE"), 0);
    snprintf(command, sizeof command, "rm -rf %s", o->folder);
    assert_int_equal(system(command), 0);
}

static void break_compiler(void) { assert_int_equal(setenv("KILN_EMULATOR_EDIT", "s/__global__/nothing/", 1), 0); }
static void mend_compiler(void) { assert_int_equal(unsetenv("KILN_EMULATOR_EDIT"), 0); }

// What was built for no device takes all launches, and serves a device.
static void a_build_ahead_of_time_serves(void **state)
{
    kiln_kernel *ahead;
    const OtherCache cache = use_empty_cache();
    assert_ok(kiln_kernel_build(NULL, program, "product", NULL, &(kiln_build_options){ .arch = 90 }, &ahead));
    kiln_kernel_free(ahead);
    break_compiler();
    Product p = make_product();
    for (int64_t k = 61; k <= 64; k += 3) {
        assert_ok(launch_product(&p, NULL, k));
        assert_product(&p, k);
    }
    mend_compiler();
    free_product(&p);
    drop_cache(&cache);
}

// What cannot be built says so, and the capture goes on.
static void a_build_that_fails_leaves_the_capture(void **state)
{
    const OtherCache cache = use_empty_cache();
    Product p = make_product();
    Capture c = begin_capture(gpu);
    assert_ok(launch_product(&p, c.stream, 128));
    break_compiler();
    assert_fails(launch_product(&p, c.stream, 61), KILN_TOOLCHAIN, "product, built again for this launch: ");
    mend_compiler();
    end_capture(&c);
    replay(&c);
    assert_product(&p, 128);
    assert_ok(launch_product(&p, NULL, 61)); // it is tried again
    assert_product(&p, 61);
    close_capture(&c);
    free_product(&p);
    drop_cache(&cache);
}

// As tensors_pass_4_gigabytes, in one row of more than 2^31 columns.
static void a_capture_builds_for_large_extents(void **state)
{
    enum { END = 64 };
    const int64_t shape[] = { 1, (INT64_C(1) << 31) + END };
    const size_t bytes = (size_t)shape[1];
    static uint8_t here[END], back[END];
    void *x, *y;
    kiln_kernel *corners;
    if (kiln_alloc(gpu, bytes, &x)) skip_because("the device has no 2 GiB left");
    if (kiln_alloc(gpu, bytes, &y)) {
        kiln_free(gpu, x);
        skip_because("the device has no second 2 GiB left");
    }
    assert_ok(kiln_kernel_build(gpu, program, "corners", NULL, NULL, &corners));
    const kiln_tensor tx = kiln_tensor_of(gpu, x, KILN_U8, 2, shape), ty = kiln_tensor_of(gpu, y, KILN_U8, 2, shape);
    const kiln_arg args[] = { KILN_TENSOR(&tx), KILN_TENSOR(&ty) };
    for (int i = 0; i < END; i++) here[i] = (uint8_t)(i * 5 + 1);
    assert_ok(kiln_upload(gpu, (char *)x + bytes - END, here, END));
    Capture c = begin_capture(gpu);
    assert_ok(kiln_launch(corners, c.stream, args, 2));
    end_capture(&c);
    replay(&c);
    assert_ok(kiln_download(gpu, back, (char *)y + bytes - END, END));
    assert_memory_equal(back, here, END);
    close_capture(&c);
    kiln_kernel_free(corners);
    kiln_free(gpu, x);
    kiln_free(gpu, y);
}

static void launches_cost_little(void **state)
{
    enum { LAUNCHES = 2000 };
    Vectors v = make_vectors();
    double best = 1;
    for (int round = 0; round < 5; round++) {
        assert_ok(launch(&v, NULL, 1));
        assert_ok(kiln_stream_wait(gpu, NULL));
        const double begin = seconds_now();
        for (int i = 0; i < LAUNCHES / 4; i++) // fewer than the driver queues, so that none waits
            assert_ok(launch(&v, NULL, 1));
        const double each = (seconds_now() - begin) / (LAUNCHES / 4);
        best = each < best ? each : best;
        assert_ok(kiln_stream_wait(gpu, NULL));
    }
    print_message("a launch costs %.2f us on the host\n", 1e6 * best);
    assert_true(best < 20e-6); // 5 us is the aim; a busy host must not fail the test
    free_vectors(&v);
}

static void cached_builds_are_quick(void **state)
{
    kiln_kernel *k;
    double best = 1;
    for (int i = 0; i < 5; i++) {
        const double begin = seconds_now();
        assert_ok(kiln_kernel_build(gpu, program, "product", NULL, NULL, &k));
        const double took = seconds_now() - begin;
        best = took < best ? took : best;
        kiln_kernel_free(k);
    }
    print_message("a cached build takes %.2f ms\n", 1e3 * best);
    assert_true(best < 20e-3);
}

static void *launch_from_a_thread(void *context)
{
    for (int i = 0; i < 200; i++)
        if (launch(context, NULL, 4)) return "a launch failed";
    return NULL;
}

static void threads_launch_at_once(void **state)
{
    Vectors v = make_vectors();
    run_in_threads(launch_from_a_thread, &v);
    assert_scaled(&v, 4);
    free_vectors(&v);
}

// ---- what takes the context down: each in a process of its own, since many drivers end CUDA for the whole process then

static void goes_on_or_says_why_not(void **state)
{
    close_device();
    gpu = NULL, scale = NULL;
    const kiln_status again = kiln_device_open("cuda:0", &gpu);
    if (again) {
        assert_fails(again, KILN_DEVICE_FAILED, "only another process can go on");
        print_message("%s\n", kiln_error_message());
        gpu = NULL;
        return;
    }
    assert_ok(kiln_kernel_build(gpu, program, "scale", NULL, NULL, &scale));
    launches_compute(state);
}

typedef struct Trap {
    const char *kernel;
    bool check;
    int64_t good, bad;
    int block;
} Trap;

static void trap_names_its_place(void **state)
{
    const Trap *const trap = *state;
    const kiln_build_options options = { .check = trap->check };
    const int64_t shape[] = { N };
    static float hx[N], hy[N];
    char expected[512], block[32];
    kiln_kernel *k, *on_cpu;
    Vectors v = make_vectors();
    memcpy(hx, host, sizeof hx);
    const kiln_tensor tx = kiln_tensor_of(cpu, hx, KILN_F32, 1, shape),
                      ty = kiln_tensor_of(cpu, hy, KILN_F32, 1, shape);
    const kiln_arg cpu_args[] = { KILN_TENSOR(&tx), KILN_TENSOR(&ty), KILN_INT(trap->bad) };
    assert_ok(kiln_kernel_build(cpu, program, trap->kernel, NULL, &options, &on_cpu));
    assert_int_equal(kiln_launch(on_cpu, NULL, cpu_args, 3), KILN_TRAPPED);
    snprintf(expected, sizeof expected, "%s", kiln_error_message()); // the same words on both
    snprintf(block, sizeof block, "(block %d)", trap->block);
    assert_ok(kiln_kernel_build(gpu, program, trap->kernel, NULL, &options, &k));
    kiln_arg args[] = { KILN_TENSOR(&v.x), KILN_TENSOR(&v.y), KILN_INT(trap->good) };
    assert_ok(kiln_launch(k, NULL, args, 3));
    assert_ok(kiln_stream_wait(gpu, NULL));
    args[2] = KILN_INT(trap->bad);
    assert_ok(kiln_launch(k, NULL, args, 3));
    assert_fails(kiln_stream_wait(gpu, NULL), KILN_TRAPPED, expected);
    assert_non_null(strstr(kiln_error_message(), block));
    kiln_kernel_free(on_cpu);
    kiln_kernel_free(k);
    goes_on_or_says_why_not(state);
}

static void a_fault_names_the_kernel(void **state)
{
    Vectors v = make_vectors();
    v.y.data = (void *)(uintptr_t)0x7000; // no such memory
    assert_ok(launch(&v, NULL, 1));
    assert_fails(kiln_stream_wait(gpu, NULL), KILN_DEVICE_FAILED, "scale");
    v.y.data = v.x.data;
    assert_fails(launch(&v, NULL, 1), KILN_BAD_ARGUMENT, "overlap");
    goes_on_or_says_why_not(state);
}

// clang-format off
static Trap traps[] = {
    { "outside", true, 0, 1, 3 }, { "unwritten", true, 128, 127, 0 }, { "unwritten_step", true, 2, 1, 0 },
    { "unwritten_product", true, 256, 255, 0 }, { "overflow", true, 1 << 20, INT64_C(1) << 40, 0 }, { "asserts", false, N, N - 1, 1 },
    { "arithmetic", true, 0, 1, 0 }, { "arithmetic", true, 0, 2, 0 }, { "arithmetic", true, 0, 3, 0 }, { "arithmetic", true, 0, 4, 0 },
    { "arithmetic", true, 0, 5, 0 }, { "arithmetic", true, 0, 6, 0 }, { "arithmetic", true, 0, 7, 0 }, { "arithmetic", true, 0, 8, 0 },
    { "arithmetic", true, 0, 9, 0 }, { "arithmetic", true, 0, 10, 0 },
};
// clang-format on
// clang-format off
static const struct CMUnitTest faults[] = {
    cmocka_unit_test_prestate(trap_names_its_place, &traps[0]), cmocka_unit_test_prestate(trap_names_its_place, &traps[1]),
    cmocka_unit_test_prestate(trap_names_its_place, &traps[2]), cmocka_unit_test_prestate(trap_names_its_place, &traps[3]),
    cmocka_unit_test_prestate(trap_names_its_place, &traps[4]), cmocka_unit_test_prestate(trap_names_its_place, &traps[5]),
    cmocka_unit_test_prestate(trap_names_its_place, &traps[6]), cmocka_unit_test_prestate(trap_names_its_place, &traps[7]),
    cmocka_unit_test_prestate(trap_names_its_place, &traps[8]), cmocka_unit_test_prestate(trap_names_its_place, &traps[9]),
    cmocka_unit_test_prestate(trap_names_its_place, &traps[10]), cmocka_unit_test_prestate(trap_names_its_place, &traps[11]),
    cmocka_unit_test_prestate(trap_names_its_place, &traps[12]), cmocka_unit_test_prestate(trap_names_its_place, &traps[13]),
    cmocka_unit_test_prestate(trap_names_its_place, &traps[14]), cmocka_unit_test_prestate(trap_names_its_place, &traps[15]),
    cmocka_unit_test(a_fault_names_the_kernel),
};
// clang-format on
enum { FAULTS = sizeof faults / sizeof *faults };

static int meet_fault(int i)
{
    const struct CMUnitTest one[] = { faults[i] };
    return cmocka_run_group_tests(one, open_all, close_all);
}

// This program again, for one of the faults.
static int meet_in_a_new_process(int i)
{
    char number[16], *const command[] = { "gpu_device_test", number, NULL };
    pid_t process;
    int status;
    snprintf(number, sizeof number, "%d", i);
    return posix_spawn(&process, "/proc/self/exe", NULL, NULL, command, environ) || waitpid(process, &status, 0) < 0 ||
           status != 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_compute),
        cmocka_unit_test(tensor_maps_follow_their_tensors),
        cmocka_unit_test(streams_and_events),
        cmocka_unit_test(memory_runs_out_and_comes_back),
        cmocka_unit_test(pinned_memory_is_reached_from_both_sides),
        cmocka_unit_test(devices_are_not_mixed),
        cmocka_unit_test(empty_tensors_launch_nothing),
        cmocka_unit_test(nothing_is_copied_from_empty_tensors),
        cmocka_unit_test(tensors_pass_4_gigabytes),
        cmocka_unit_test(sizes_that_no_launch_can_take_are_refused_by_name),
        cmocka_unit_test(too_much_shared_memory_names_the_tiles),
        cmocka_unit_test(launches_are_captured_into_graphs),
        cmocka_unit_test(a_capture_builds_for_other_rows),
        cmocka_unit_test(a_capture_builds_for_large_extents),
        cmocka_unit_test(kernels_are_built_beside_a_capture),
        cmocka_unit_test(a_build_ahead_of_time_serves),
        cmocka_unit_test(a_build_that_fails_leaves_the_capture),
        cmocka_unit_test(threads_build_once),
        cmocka_unit_test(launches_cost_little),
        cmocka_unit_test(cached_builds_are_quick),
        cmocka_unit_test(threads_launch_at_once),
    };
    if (argc > 1) return meet_fault(atoi(argv[1]));
    if (kiln_device_count("cuda") == 0) {
        printf("skipped: there is no CUDA device (%s)\n", kiln_device_open("cuda:0", &gpu) ? kiln_error_message() : "");
        return 0;
    }
    int failed = cmocka_run_group_tests(tests, open_all, close_all);
    for (int i = 0; i < FAULTS; i++) failed += meet_in_a_new_process(i);
    return failed;
}
