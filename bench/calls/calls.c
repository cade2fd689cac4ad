// SPDX-License-Identifier: MIT
// calls.c - what a warm call of an operator costs on the host. Run by bench/calls.sh, with a driver whose launches do nothing
// (idle_driver.c), or on a GPU with one that takes the time of its launches (timed_driver.c).
//
//   operator_calls [CALLS [NAME]]     CALLS of each row, or of one: ns of a call, the least and the median of 15 turns
//
// With a driver that takes times the median's part in launches stands beside it, and what is left. With a NAME for valgrind,
// which counts the instructions of run_calls.
#define _POSIX_C_SOURCE 200809L
#include "kiln/ops/attention.h"
#include "kiln/ops/decode.h"
#include "kiln/ops/mla.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TURNS = 15, B = 4, S = 1024, H = 8, HKV = 2, D = 128, PAGES = 64, SIZE = 64, EACH = 16, TOPK = 128 };

static kiln_device *device;
static kiln_ops *ops;
static kiln_kernel *one;
static void *workspace, *plan_memory;
enum { WORKSPACE_BYTES = 1 << 28, PLAN_BYTES = 1 << 16 };

static void need(kiln_status status)
{
    if (!status) return;
    fprintf(stderr, "operator_calls: %s: %s\n", kiln_status_name(status), kiln_error_message());
    exit(1);
}

static kiln_tensor tensor(kiln_type type, int rank, const int64_t *shape)
{
    kiln_tensor t = kiln_tensor_of(device, NULL, type, rank, shape);
    const size_t size = kiln_tensor_bytes(&t);
    void *const zeros = calloc(1, size);
    if (!zeros) exit(1);
    need(kiln_alloc(device, size, &t.data));
    need(kiln_upload(device, t.data, zeros, size));
    free(zeros);
    return t;
}
#define TENSOR(type, ...)                                                                                              \
    tensor(type, (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (int64_t[]){ __VA_ARGS__ })

// ---- the arguments

static kiln_tensor vector, q, k, v, out, lse, dq, dk, dv, q1, out1, lse1;
static kiln_tensor k1, v1, blocks, blocks_of, pasts;
static kiln_tensor ql, cache, cache8, table, lengths, outl, lsel, keys, slots, lists;
static kiln_mla_plan plan, sparse_plan;

static const kiln_attention_args forward_args = { .q = &q, .k = &k, .v = &v, .out = &out, .lse = &lse, .causal = true };
static kiln_attention_backward_args backward_args = {
    .q = &q, .k = &k, .v = &v, .out = &out, .lse = &lse, .dout = &out, .dq = &dq, .dk = &dk, .dv = &dv, .causal = true
};
static kiln_attention_decode_args decode_args = { .q = &q1, .k = &k, .v = &v, .out = &out1, .lse = &lse1 };
static const kiln_rotary rotary = { .style = KILN_ROTARY_HALVES };
static kiln_masked_decode_args masked_args = { .q = &q1,
                                               .k = &k1,
                                               .v = &v1,
                                               .cache = &blocks,
                                               .table = &blocks_of,
                                               .lengths = &pasts,
                                               .out = &out1,
                                               .rotary = &rotary,
                                               .splits = 1 };
static const kiln_mla_shape shape = { .batch = B, .queries = 1, .query_heads = 64 };
static const kiln_mla_shape sparse_shape = { .batch = B, .queries = 1, .query_heads = 64, .topk = TOPK };
static kiln_mla_plan_args plan_args = { .shape = &shape, .lengths = &lengths };
static kiln_mla_decode_args latent_args = {
    .plan = &plan, .q = &ql, .cache = &cache, .table = &table, .lengths = &lengths, .out = &outl, .lse = &lsel
};
static kiln_mla_decode_sparse_args sparse_args = {
    .plan = &sparse_plan, .q = &ql, .cache = &cache8, .indices = &lists, .out = &outl, .lse = &lsel
};
static const kiln_mla_append_args append_args = { .keys = &keys, .slots = &slots, .cache = &cache };

static void make_tensors(void)
{
    vector = TENSOR(KILN_F32, 64);
    q = TENSOR(KILN_BF16, B, S, H, D), out = TENSOR(KILN_BF16, B, S, H, D), dq = TENSOR(KILN_BF16, B, S, H, D);
    k = TENSOR(KILN_BF16, B, S, HKV, D), dk = TENSOR(KILN_BF16, B, S, HKV, D);
    v = TENSOR(KILN_BF16, B, S, HKV, D), dv = TENSOR(KILN_BF16, B, S, HKV, D);
    lse = TENSOR(KILN_F32, B, H, S);
    q1 = TENSOR(KILN_BF16, B, H, D), out1 = TENSOR(KILN_BF16, B, H, D), lse1 = TENSOR(KILN_F32, B, H);
    k1 = TENSOR(KILN_BF16, B, HKV, D), v1 = TENSOR(KILN_BF16, B, HKV, D), pasts = TENSOR(KILN_I32, B);
    blocks = TENSOR(KILN_BF16, B * 2, HKV, SIZE, D), blocks_of = TENSOR(KILN_I32, B, 2, 1);
    ql = TENSOR(KILN_BF16, B, 1, 64, KILN_MLA_KEY), outl = TENSOR(KILN_BF16, B, 1, 64, KILN_MLA_VALUE);
    lsel = TENSOR(KILN_F32, B, 64, 1);
    cache = TENSOR(KILN_BF16, PAGES, SIZE, 1, KILN_MLA_KEY), cache8 = TENSOR(KILN_U8, PAGES, SIZE, 656);
    table = TENSOR(KILN_I32, B, EACH), lengths = TENSOR(KILN_I32, B), lists = TENSOR(KILN_I32, B, 1, TOPK);
    keys = TENSOR(KILN_BF16, B, 1, KILN_MLA_KEY), slots = TENSOR(KILN_I32, B);
    need(kiln_alloc(device, WORKSPACE_BYTES, &workspace));
    need(kiln_alloc(device, PLAN_BYTES, &plan_memory));
    backward_args.workspace = decode_args.workspace = latent_args.workspace = sparse_args.workspace = workspace;
    backward_args.workspace_bytes = decode_args.workspace_bytes = latent_args.workspace_bytes =
        sparse_args.workspace_bytes = WORKSPACE_BYTES;
    plan_args.memory = plan_memory, plan_args.memory_bytes = PLAN_BYTES / 2;
}

// ---- the rows

static size_t bytes;

static kiln_status launch(void) { return kiln_launch(one, NULL, (kiln_arg[]){ KILN_TENSOR(&vector) }, 1); }
static kiln_status forward(void) { return kiln_attention_forward(ops, NULL, &forward_args); }
static kiln_status decode(void) { return kiln_attention_decode(ops, NULL, &decode_args); }
static kiln_status backward(void) { return kiln_attention_backward(ops, NULL, &backward_args); }
static kiln_status masked(void) { return kiln_masked_decode(ops, NULL, &masked_args); }
static kiln_status make_plan(void) { return kiln_mla_plan_make(ops, NULL, &plan_args, &plan); }
static kiln_status latent(void) { return kiln_mla_decode(ops, NULL, &latent_args); }
static kiln_status sparse(void) { return kiln_mla_decode_sparse(ops, NULL, &sparse_args); }
static kiln_status append(void) { return kiln_mla_append(ops, NULL, &append_args); }
static kiln_status decode_size(void) { return kiln_attention_decode_workspace_size(ops, &decode_args, &bytes); }
static kiln_status backward_size(void) { return kiln_attention_backward_workspace_size(ops, &backward_args, &bytes); }
static kiln_status masked_size(void) { return kiln_masked_decode_workspace_size(ops, &masked_args, &bytes); }
static kiln_status latent_size(void) { return kiln_mla_decode_workspace_size(ops, &latent_args, &bytes); }
static kiln_status sparse_size(void) { return kiln_mla_decode_sparse_workspace_size(ops, &sparse_args, &bytes); }

static const struct {
    const char *name;
    kiln_status (*call)(void);
} rows[] = { { "launch", launch },           { "forward", forward },
             { "decode", decode },           { "backward", backward },
             { "plan", make_plan },          { "latent", latent },
             { "sparse", sparse },           { "append", append },
             { "decode_size", decode_size }, { "backward_size", backward_size },
             { "latent_size", latent_size }, { "sparse_size", sparse_size },
             { "masked", masked },           { "masked_size", masked_size } };

// ---- timing

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

__attribute__((noinline)) static void run_calls(kiln_status (*call)(void), int n)
{
    for (int i = 0; i < n; i++)
        if (call()) need(call());
}

typedef struct Turn {
    double call, launches; // ns of one call
} Turn;

static int compare(const void *a, const void *b)
{
    const double x = ((const Turn *)a)->call, y = ((const Turn *)b)->call;
    return (x > y) - (x < y);
}

// What the driver counts, if it does: ns in launches.
static double *launch_ns;

static void time_calls(const char *name, kiln_status (*call)(void), int n)
{
    Turn turns[TURNS];
    for (int turn = 0; turn < TURNS; turn++) {
        const double before = launch_ns ? *launch_ns : 0, begin = seconds();
        run_calls(call, n);
        turns[turn].call = (seconds() - begin) / n * 1e9;
        turns[turn].launches = launch_ns ? (*launch_ns - before) / n : 0;
        need(kiln_stream_wait(device, NULL));
    }
    qsort(turns, TURNS, sizeof *turns, compare);
    const Turn *const median = &turns[TURNS / 2];
    printf("| %-13s | %6.0f | %6.0f |", name, turns[0].call, median->call);
    if (launch_ns) printf(" %8.0f | %6.0f |", median->launches, median->call - median->launches);
    printf("\n");
}

static void find_counter(void)
{
    const char *const driver = getenv("KILN_CUDA");
    void *const library = driver ? dlopen(driver, RTLD_NOW | RTLD_NOLOAD) : NULL;
    launch_ns = library ? dlsym(library, "launch_ns") : NULL;
}

static void open_all(void)
{
    static const char text[] =
        "kernel one(out f32 Y[N])\n{\n    grid (n : ceildiv(N, 64));\n    fragment f32 y[64] = 0;\n"
        "    Y[n*64 +: 64] = y;\n}\n";
    kiln_program *program;
    need(kiln_device_open("cuda:0", &device));
    need(kiln_ops_open(device, NULL, &ops));
    need(kiln_program_load_text("one.tile", text, &program));
    need(kiln_kernel_build(device, program, "one", NULL, NULL, &one));
    kiln_program_free(program);
    make_tensors();
    kiln_mla_plan_args args = plan_args;
    args.shape = &sparse_shape, args.lengths = NULL, args.memory = (char *)plan_memory + PLAN_BYTES / 2;
    need(kiln_mla_plan_make(ops, NULL, &args, &sparse_plan));
    need(make_plan());
}

int main(int argc, char **argv)
{
    const int n = argc > 1 ? atoi(argv[1]) : 20000;
    const char *const only = argc > 2 ? argv[2] : NULL;
    open_all();
    find_counter();
    if (!only)
        printf("| call          |  least | median |%s    (ns, %d turns of %d calls)\n",
               launch_ns ? " launches |  rest  |" : "", TURNS, n);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (only && strcmp(only, rows[i].name) != 0) continue;
        for (int warm = 0; warm < 3; warm++) need(rows[i].call());
        if (only) run_calls(rows[i].call, n);
        else time_calls(rows[i].name, rows[i].call, n);
    }
    return 0;
}
