// SPDX-License-Identifier: MIT
// mla_cache.c - the operators of kiln/ops/mla.h that fill and read paged caches, over kernels/mla/cache.tile.
#include "kiln/ops/mla.h"
#include "ops/mla_format.h"

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
    kiln_status status = call_begin(&call, "kiln_mla_slots", ops, a, FORM(kiln_mla_slots_args));
    if (call_again(&call, stream, &status)) return status;
    // clang-format off
    const Want wants[] = {
        { IN,  "table",   a->table,   1 << KILN_I32, "TABLE[batch][pages per request]" },
        { IN,  "lengths", a->lengths, 1 << KILN_I32, "LENGTH[batch]" },
        { OUT, "slots",   a->slots,   1 << KILN_I32, "SLOT[batch][queries]" },
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
    kiln_status status = call_begin(&call, "kiln_mla_append", ops, a, FORM(kiln_mla_append_args));
    if (call_again(&call, stream, &status)) return status;
    // clang-format off
    const Want wants[] = {
        { IN,          "keys",  a->keys,  TYPES_16,      "K[N][key_heads][576]" },
        { IN_OPTIONAL, "slots", a->slots, 1 << KILN_I32, "SLOT[N]" },
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

static kiln_status take_keys(const Call *call, const kiln_tensor *keys, const kiln_tensor *given, int64_t *size)
{
    return latent_keys(call, "keys", given, keys && keys->rank == 2 ? given->rank : -1, size);
}

static const char *shape_of_keys(int64_t size) { return size == KILN_MLA_SHORT_KEY ? "K[N][512]" : "K[N][576]"; }

static kiln_status check_scales(const Call *call, const kiln_mla_quantize_args *a, int64_t size)
{
    if (a->full_scales && a->power_scales)
        return call_fail(call, KILN_BAD_ARGUMENT, "'full_scales' and 'power_scales' are both set");
    if (a->full_scales && size == KILN_MLA_SHORT_KEY)
        return call_fail(call, KILN_BAD_ARGUMENT,
                         "'full_scales' is set, but 'cache' has 584 bytes a token, whose scales are powers of two");
    return KILN_OK;
}

kiln_status kiln_mla_quantize(kiln_ops *ops, kiln_stream *stream, const kiln_mla_quantize_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_mla_quantize", ops, a, FORM(kiln_mla_quantize_args));
    if (call_again(&call, stream, &status)) return status;
    const kiln_tensor *const keys = call_without_key_head(&call, a->keys, 2);
    int64_t size;
    LatentCache cache;
    status = take_keys(&call, keys, a->keys, &size);
    if (!status) status = latent_cache(&call, "cache", a->cache, size, "keys", true, &cache);
    if (!status) status = check_scales(&call, a, size);
    if (status) return status;
    // clang-format off
    const Want wants[] = {
        { IN,           "keys",  keys,         TYPES_16,      shape_of_keys(size) },
        { IN_OPTIONAL,  "slots", a->slots,     1 << KILN_I32, "SLOT[N]" },
        { OUT,          "cache", cache.tokens, TYPES_BYTES,   latent_shape(size, false) },
        { OUT_OPTIONAL, "cache", cache.scales, 1 << KILN_U8,  "SCALES[pages][scale bytes]" },
    };
    // clang-format on
    status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_page(&call, call_extent(&call, "page size"), "the page size (dimension 1 of 'cache')");
    if (status) return status;
    call_take_bytes(&call, 2);
    status = call_kernel(&call, file, "mla_quantize", "T=%s, D=%d, SCALE=%d%s%s", kiln_type_name(keys->type), (int)size,
                         a->full_scales                                  ? 0
                         : a->power_scales || size == KILN_MLA_SHORT_KEY ? 2
                                                                         : 1,
                         a->slots ? "" : ", SLOT=none", cache.scales ? "" : ", SCALES=none");
    return status ? status : call_run(&call, stream, NULL, 0);
}

kiln_status kiln_mla_dequantize(kiln_ops *ops, kiln_stream *stream, const kiln_mla_dequantize_args *a)
{
    Call call;
    kiln_status status = call_begin(&call, "kiln_mla_dequantize", ops, a, FORM(kiln_mla_dequantize_args));
    if (call_again(&call, stream, &status)) return status;
    const kiln_tensor *const keys = call_without_key_head(&call, a->keys, 2);
    int64_t size;
    LatentCache cache;
    status = take_keys(&call, keys, a->keys, &size);
    if (!status) status = latent_cache(&call, "cache", a->cache, size, "keys", true, &cache);
    if (status) return status;
    // clang-format off
    const Want wants[] = {
        { IN,          "cache", cache.tokens, TYPES_BYTES,    latent_shape(size, false) },
        { IN_OPTIONAL, "cache", cache.scales, 1 << KILN_U8,   "SCALES[pages][scale bytes]" },
        { IN_OPTIONAL, "slots", a->slots,     1 << KILN_I32,  "SLOT[N]" },
        { OUT,         "keys",  keys,         1 << KILN_BF16, shape_of_keys(size) },
    };
    // clang-format on
    status = call_check(&call, wants, COUNT(wants), NULL, NULL, 0);
    if (!status) status = check_page(&call, call_extent(&call, "page size"), "the page size (dimension 1 of 'cache')");
    if (status) return status;
    call_take_bytes(&call, 0);
    status = call_kernel(&call, file, "mla_dequantize", "ROUND_SCALE=%s, D=%d%s%s", a->round_scales ? "true" : "false",
                         (int)size, a->slots ? "" : ", SLOT=none", cache.scales ? "" : ", SCALES=none");
    return status ? status : call_run(&call, stream, NULL, 0);
}
