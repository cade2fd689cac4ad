// SPDX-License-Identifier: MIT
// gemm.c - the operators of kiln/ops/gemm.h over kernels/gemm/any.tile.
#include "kiln/ops/gemm.h"
#include "ops/call.h"
#include "ops/gemm_tiles.h"

enum { TYPES_GEMM = TYPES_FLOAT | 1 << KILN_E4M3 };

static kiln_status check_rank(const Call *call, const char *name, const kiln_tensor *tensor)
{
    return !tensor || tensor->rank == 2 || tensor->rank == 3
               ? KILN_OK
               : call_fail(call, KILN_BAD_SHAPE, "'%s' has rank %d, expected 2, or 3 with a batch", name, tensor->rank);
}

// The tensors, with a batch of one where they have none.
static kiln_status check(Call *call, const kiln_gemm_args *g)
{
    kiln_status status = check_rank(call, "a", g->a);
    if (!status) status = check_rank(call, "b", g->b);
    if (!status) status = check_rank(call, "c", g->c);
    if (!status) status = check_rank(call, "residual", g->residual);
    if (status) return status;
    const kiln_tensor *const a = call_with_batch(call, g->a, 3), *const b = call_with_batch(call, g->b, 3);
    const kiln_tensor *const c = call_with_batch(call, g->c, 3), *const r = call_with_batch(call, g->residual, 3);
    const unsigned of_c = g->c && (unsigned)g->c->type <= KILN_BOOL ? TYPES_GEMM & 1u << g->c->type : 0;
    const unsigned results = of_c ? of_c : TYPES_GEMM;
    // clang-format off
    const Want wants[] = {
        { IN,          "a",        a,       TYPES_GEMM, g->transpose_a ? "A[Z][K][M]" : "A[Z][M][K]" },
        { IN,          "b",        b,       0,          g->transpose_b ? "B[Z][N][K]" : "B[Z][K][N]" },
        { OUT,         "c",        c,       TYPES_GEMM, "C[Z][M][N]" },
        { IN_OPTIONAL, "bias",     g->bias, results,    "[N]" },
        { IN_OPTIONAL, "residual", r,       results,    "RES[Z][M][N]" },
    };
    // clang-format on
    status = call_check(call, wants, COUNT(wants), "workspace", g->workspace, g->workspace_bytes);
    return status ? status : call_activation(call, (int)g->activation);
}

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
    kiln_status status = call_begin_sizing(&call, "kiln_gemm_workspace_size", ops, args, sizeof *args, bytes);
    if (!status) status = check(&call, args);
    if (!status) status = choose(&call, args);
    return status ? status : call_size(&call, bytes);
}

kiln_status kiln_gemm(kiln_ops *ops, kiln_stream *stream, const kiln_gemm_args *args)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_gemm", ops, args, sizeof *args);
    if (!status) status = check(&call, args);
    if (!status) status = choose(&call, args);
    return status ? status : call_run(&call, stream, args->workspace, args->workspace_bytes);
}
