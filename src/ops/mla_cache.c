// SPDX-License-Identifier: MIT
// mla_cache.c - the operators of kiln/ops/mla.h that fill and read paged caches, over kernels/mla/cache.tile.
#include "kiln/ops/mla.h"
#include "ops/call.h"

#include <inttypes.h>

static const char file[] = "mla/cache.tile";

static kiln_status check_page(const Call *call, int64_t size, const char *what)
{
    return size >= 1 && size <= INT32_MAX
               ? KILN_OK
               : call_fail(call, KILN_BAD_SHAPE, "%s is %" PRId64 ", expected at least 1", what, size);
}

kiln_status kiln_mla_slots(kiln_ops *ops, kiln_stream *stream, const kiln_mla_slots_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_mla_slots", ops, a, sizeof *a);
    if (status) return status;
    // clang-format off
    const Want wants[] = {
        { IN,  "table",   a->table,   1 << KILN_I32, "TABLE[batch][pages per request]" },
        { IN,  "lengths", a->lengths, 1 << KILN_I32, "[batch]" },
        { OUT, "slots",   a->slots,   1 << KILN_I32, "[batch][queries]" },
    };
    // clang-format on
    status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_page(&call, a->page_size, "'page_size'");
    if (!status) status = call_kernel(&call, file, "mla_slots", "%s", "");
    if (status) return status;
    call_add(&call, KILN_INT(a->page_size));
    return call_run(&call, stream, NULL, 0);
}

kiln_status kiln_mla_append(kiln_ops *ops, kiln_stream *stream, const kiln_mla_append_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_mla_append", ops, a, sizeof *a);
    if (status) return status;
    // clang-format off
    const Want wants[] = {
        { IN,          "keys",  a->keys,  TYPES_16,      "K[N][key_heads][576]" },
        { IN_OPTIONAL, "slots", a->slots, 1 << KILN_I32, "[N]" },
        { OUT,         "cache", a->cache, 0,             "CACHE[pages][page size][key_heads][576]" },
    };
    // clang-format on
    status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_page(&call, call_extent(&call, "page size"), "the page size (dimension 1 of 'cache')");
    if (!status)
        status = call_kernel(&call, file, "mla_append", "T=%s%s", kiln_type_name(a->keys->type),
                             a->slots ? "" : ", SLOT=none");
    return status ? status : call_run(&call, stream, NULL, 0);
}

kiln_status kiln_mla_quantize(kiln_ops *ops, kiln_stream *stream, const kiln_mla_quantize_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_mla_quantize", ops, a, sizeof *a);
    if (status) return status;
    const kiln_tensor *const cache = call_without_key_head(&call, a->cache, 3);
    const kiln_tensor *const keys = call_without_key_head(&call, a->keys, 2);
    // clang-format off
    const Want wants[] = {
        { IN,          "keys",  keys,     TYPES_16,      "K[N][576]" },
        { IN_OPTIONAL, "slots", a->slots, 1 << KILN_I32, "[N]" },
        { OUT,         "cache", cache,    TYPES_BYTES,   "CACHE[pages][page size][656]" },
    };
    // clang-format on
    status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_page(&call, call_extent(&call, "page size"), "the page size (dimension 1 of 'cache')");
    if (status) return status;
    call_take_bytes(&call, 2);
    status = call_kernel(&call, file, "mla_quantize", "T=%s, ROUND_SCALE=%s%s", kiln_type_name(keys->type),
                         a->full_scales ? "false" : "true", a->slots ? "" : ", SLOT=none");
    return status ? status : call_run(&call, stream, NULL, 0);
}

kiln_status kiln_mla_dequantize(kiln_ops *ops, kiln_stream *stream, const kiln_mla_dequantize_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_mla_dequantize", ops, a, sizeof *a);
    if (status) return status;
    const kiln_tensor *const cache = call_without_key_head(&call, a->cache, 3);
    const kiln_tensor *const keys = call_without_key_head(&call, a->keys, 2);
    // clang-format off
    const Want wants[] = {
        { IN,          "cache", cache,    TYPES_BYTES,    "CACHE[pages][page size][656]" },
        { IN_OPTIONAL, "slots", a->slots, 1 << KILN_I32,  "[N]" },
        { OUT,         "keys",  keys,     1 << KILN_BF16, "K[N][576]" },
    };
    // clang-format on
    status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_page(&call, call_extent(&call, "page size"), "the page size (dimension 1 of 'cache')");
    if (status) return status;
    call_take_bytes(&call, 0);
    status = call_kernel(&call, file, "mla_dequantize", "ROUND_SCALE=%s%s", a->round_scales ? "true" : "false",
                         a->slots ? "" : ", SLOT=none");
    return status ? status : call_run(&call, stream, NULL, 0);
}
