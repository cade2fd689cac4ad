// SPDX-License-Identifier: MIT
// gemm.c - the operators of kiln/ops/gemm.h over kernels/gemm/any.tile.
#include "kiln/ops/gemm.h"
#include "ops/call.h"
#include "ops/gemm_tiles.h"

enum { TENSORS = 5, TYPES_GEMM = TYPES_FLOAT | 1 << KILN_E4M3 };

// The tensors of a call, with a batch of one where they have none.
typedef struct Batched {
    kiln_tensor copies[TENSORS];
    const kiln_tensor *at[TENSORS]; // NULL: absent
} Batched;

static const kiln_tensor *with_batch(const kiln_tensor *tensor, kiln_tensor *copy)
{
    if (!tensor || tensor->rank != 2) return tensor;
    *copy = *tensor;
    copy->rank = 3;
    copy->shape[0] = 1;
    for (int d = 0; d < 2; d++) copy->shape[d + 1] = tensor->shape[d], copy->strides[d + 1] = tensor->strides[d];
    copy->strides[0] = tensor->has_strides ? tensor->shape[0] * tensor->strides[0] : 0;
    return copy;
}

static kiln_status check(Call *call, const kiln_gemm_args *g, Batched *t)
{
    const kiln_tensor *const given[TENSORS] = { g->a, g->b, g->c, g->bias, g->residual };
    for (int i = 0; i < TENSORS; i++) t->at[i] = i == 3 ? given[i] : with_batch(given[i], &t->copies[i]);
    const unsigned of_c = g->c && (unsigned)g->c->type <= KILN_BOOL ? TYPES_GEMM & 1u << g->c->type : 0;
    const unsigned results = of_c ? of_c : TYPES_GEMM;
    // clang-format off
    const Want wants[TENSORS] = {
        { IN,          "a",        t->at[0], TYPES_GEMM, g->transpose_a ? "A[Z][K][M]" : "A[Z][M][K]" },
        { IN,          "b",        t->at[1], 0,          g->transpose_b ? "B[Z][N][K]" : "B[Z][K][N]" },
        { OUT,         "c",        t->at[2], TYPES_GEMM, "C[Z][M][N]" },
        { IN_OPTIONAL, "bias",     t->at[3], results,    "[N]" },
        { IN_OPTIONAL, "residual", t->at[4], results,    "RES[Z][M][N]" },
    };
    // clang-format on
    const kiln_status status = call_check(call, wants, TENSORS, "workspace", g->workspace, g->workspace_bytes);
    if (!status && (g->activation < KILN_ACTIVATION_NONE || g->activation > KILN_ACTIVATION_SILU))
        return call_fail(call, KILN_BAD_ARGUMENT, "'activation' is %d, expected one of kiln_activation",
                         (int)g->activation);
    return status;
}

static const char *yes(bool b) { return b ? "true" : "false"; }

static kiln_status choose(Call *call, const kiln_gemm_args *g)
{
    const GemmShape shape = { .batch = call_extent(call, "Z"),
                              .m = call_extent(call, "M"),
                              .n = call_extent(call, "N"),
                              .k = call_extent(call, "K"),
                              .type = g->a->type,
                              .processors = ops_processors(call->ops),
                              .on_cpu = ops_on_cpu(call->ops) };
    const GemmChoice choice = gemm_choose(&shape);
    const kiln_status status =
        call_kernel(call, "gemm/any.tile", "gemm",
                    "T=%s, TC=%s, TA=%s, TB=%s, ACT=%d, BM=%d, BN=%d, BK=%d, STAGES=%d, EVEN=%s, TURN=%s%-s%-s",
                    kiln_type_name(g->a->type), kiln_type_name(g->c->type), yes(g->transpose_a), yes(g->transpose_b),
                    (int)g->activation, choice.rows, choice.columns, choice.depth, choice.stages, yes(shape.n % 8 == 0),
                    yes(choice.turned), LACKS(g->bias, "BIAS"), LACKS(g->residual, "RES"));
    call_add(call, KILN_FLOAT(g->scale ? *g->scale : 1));
    call_add(call, KILN_INT(shape.processors));
    call_add(call, KILN_INT(choice.parts));
    return status;
}

kiln_status kiln_gemm_workspace_size(kiln_ops *ops, const kiln_gemm_args *args, size_t *bytes)
{
    Call call;
    Batched tensors;
    kiln_status status = call_begin_sizing(&call, "kiln_gemm_workspace_size", ops, args, sizeof *args, bytes);
    if (!status) status = check(&call, args, &tensors);
    if (!status) status = choose(&call, args);
    return status ? status : call_size(&call, bytes);
}

kiln_status kiln_gemm(kiln_ops *ops, kiln_stream *stream, const kiln_gemm_args *args)
{
    Call call;
    Batched tensors;
    kiln_status status = call_begin(&call, "kiln_gemm", ops, args, sizeof *args);
    if (!status) status = check(&call, args, &tensors);
    if (!status) status = choose(&call, args);
    return status ? status : call_run(&call, stream, args->workspace, args->workspace_bytes);
}
