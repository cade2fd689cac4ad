// SPDX-License-Identifier: MIT
// sampling.c - the operators of kiln/ops/sampling.h over kernels/topk.
#include "kiln/ops/sampling.h"
#include "ops/call.h"

#include <inttypes.h>

enum {
    LARGEST_MOST = 2048,
    SHORT_ROW = 512, // that registers hold, from which few are taken one after the other
    SHORT_LARGEST = 16,
    SHORT_ELEMENTS = 2048, // of all rows of an instance
    LOGITS_MOST = 262144,
    LONG_ON_CPU = 16384,
};

static kiln_status check_extent(const Call *call, const char *letter, const char *tensor, int64_t least, int64_t most)
{
    const int64_t n = call_extent(call, letter);
    return n >= least && n <= most
               ? KILN_OK
               : call_fail(call, KILN_UNSUPPORTED, "'%s' has %s = %" PRId64 ", expected %" PRId64 " to %" PRId64,
                           tensor, letter, n, least, most);
}

// ---- the largest

static kiln_status prepare_topk(Call *call, const void *args)
{
    const kiln_topk_args *const a = args;
    const Want wants[] = { { IN, "x", a->x, TYPES_FLOAT, "X[M][N]" },
                           { OUT, "values", a->values, 0, "[M][K]" },
                           { OUT, "indices", a->indices, 1 << KILN_I32, "[M][K]" } };
    kiln_status status = call_check(call, wants, COUNT(wants), "workspace", a->workspace, a->workspace_bytes);
    if (!status) status = check_extent(call, "K", "values", 1, LARGEST_MOST);
    if (!status) status = check_extent(call, "N", "x", call_extent(call, "K"), INT32_MAX);
    if (status) return status;
    const int64_t N = call_extent(call, "N"), K = call_extent(call, "K");
    if (N > SHORT_ROW || K > SHORT_LARGEST)
        return call_kernel(call, "topk/rows.tile", "topk_rows", "T=%s, K=%d", kiln_type_name(a->x->type), (int)K);
    int width = 64;
    while (width < N) width *= 2;
    return call_kernel(call, "topk/topk.tile", "topk", "T=%s, KK=%d, WIDTH=%d, BM=%d", kiln_type_name(a->x->type),
                       (int)K, width, SHORT_ELEMENTS / width);
}

static const CallPair topk = { .name = "kiln_topk", .size_name = "kiln_topk_workspace_size", .prepare = prepare_topk };

kiln_status kiln_topk_workspace_size(kiln_ops *ops, const kiln_topk_args *a, size_t *bytes)
{
    return pair_size(&topk, ops, a, FORM(kiln_topk_args), bytes);
}

kiln_status kiln_topk(kiln_ops *ops, kiln_stream *stream, const kiln_topk_args *a)
{
    return pair_run(&topk, ops, stream, a, FORM(kiln_topk_args));
}

// ---- one of a row

// A CPU goes through short rows in parts that they fill.
static const char *tiles_of_sample(const Call *call)
{
    const int64_t V = call_extent(call, "V");
    if (!ops_on_cpu(call->ops) || V > LONG_ON_CPU) return "";
    return V <= 512 ? ", W=512, CAP=512" : V <= 4096 ? ", W=1024, CAP=4096" : ", W=1024";
}

kiln_status kiln_sample(kiln_ops *ops, kiln_stream *stream, const kiln_sample_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_sample", ops, a, FORM(kiln_sample_args));
    if (call_again(&call, stream, &status)) return status;
    // clang-format off
    const Want wants[] = {
        { IN,           "logits",        a->logits,        TYPES_FLOAT,   "LOGIT[M][V]" },
        { IN_OPTIONAL,  "temperatures",  a->temperatures,  1 << KILN_F32, "[M]" },
        { IN_OPTIONAL,  "top_k",         a->top_k,         1 << KILN_I32, "[M]" },
        { IN_OPTIONAL,  "top_p",         a->top_p,         1 << KILN_F32, "[M]" },
        { IN_OPTIONAL,  "min_p",         a->min_p,         1 << KILN_F32, "[M]" },
        { IN_OPTIONAL,  "seeds",         a->seeds,         1 << KILN_I64, "[M]" },
        { IN_OPTIONAL,  "steps",         a->steps,         1 << KILN_I64, "[M]" },
        { OUT,          "tokens",        a->tokens,        1 << KILN_I32, "[M]" },
        { OUT_OPTIONAL, "probabilities", a->probabilities, 1 << KILN_F32, "[M]" },
        { OUT_OPTIONAL, "logprobs",      a->logprobs,      1 << KILN_F32, "[M]" },
        { OUT_OPTIONAL, "distribution",  a->distribution,  1 << KILN_F32, "[M][V]" },
    };
    // clang-format on
    status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_extent(&call, "V", "logits", 1, LOGITS_MOST);
    if (!status)
        status = call_kernel(
            &call, "topk/sample.tile", "sample", "T=%s, MANY=%s%s%-s%-s%-s%-s%-s%-s%-s%-s%-s",
            kiln_type_name(a->logits->type), yes(!ops_on_cpu(ops) && call_extent(&call, "M") > ops_processors(ops)),
            tiles_of_sample(&call), LACKS(a->temperatures, "TEMPERATURE"), LACKS(a->top_k, "TOPK"),
            LACKS(a->top_p, "TOPP"), LACKS(a->min_p, "MINP"), LACKS(a->seeds, "SEED"), LACKS(a->steps, "STEP"),
            LACKS(a->probabilities, "PROBABILITY"), LACKS(a->logprobs, "LOGPROB"), LACKS(a->distribution, "ALL"));
    return status ? status : call_run(&call, stream, NULL, 0);
}
