// SPDX-License-Identifier: MIT
// mla_format.c - which fp8 format a cache has, and its parts.
//
// before: the caller's tensor      after: of a cache of the 584-byte format tokens and scales are two tensors over its memory
#include "ops/mla_format.h"
#include "kiln/ops/mla.h"
#include "runtime/runtime.h"

#include <inttypes.h>

enum { TOKEN = 576, SCALE_ROW = 8, PAGE_UNIT = 16, PAGE_MAX = INT32_MAX / KILN_MLA_FP8_SHORT_BYTES };

kiln_status latent_keys(const Call *call, const char *name, const kiln_tensor *tensor, int rank, int64_t *keys)
{
    *keys = KILN_MLA_KEY;
    if (!tensor || rank < 0) return KILN_OK;
    if (tensor->rank != rank)
        return call_fail(call, KILN_BAD_SHAPE, "'%s' has rank %d, expected %d, of which the last is the key size", name,
                         tensor->rank, rank);
    *keys = tensor->shape[rank - 1];
    return *keys == KILN_MLA_KEY || *keys == KILN_MLA_SHORT_KEY
               ? KILN_OK
               : call_fail(call, KILN_UNSUPPORTED,
                           "the key size (dimension %d of '%s') is %" PRId64 ", expected %d or %d", rank - 1, name,
                           *keys, KILN_MLA_KEY, KILN_MLA_SHORT_KEY);
}

const char *latent_shape(int64_t keys, bool is_extra)
{
    static const char *const shapes[2][2] = {
        { "CACHE[pages][page size][656]", "CACHE2[extra pages][extra page size][656]" },
        { "CACHE[pages][page size][576]", "CACHE2[extra pages][extra page size][576]" }
    };
    return shapes[keys == KILN_MLA_SHORT_KEY][is_extra];
}

static bool is_bytes(const kiln_tensor *t) { return (unsigned)t->type <= KILN_BOOL && (TYPES_BYTES >> t->type & 1); }

static kiln_status check_format(const Call *call, const char *name, const kiln_tensor *t, int64_t keys, const char *of)
{
    const int64_t bytes = t->shape[t->rank - 1];
    if (!is_bytes(t))
        return call_fail(
            call, KILN_UNSUPPORTED,
            "the format of '%s' is not supported here: it is a tensor of %s, expected e4m3, i8 or u8 with %d "
            "bytes a token, or %d",
            name, kiln_type_name(t->type), KILN_MLA_FP8_BYTES, KILN_MLA_FP8_SHORT_BYTES);
    if (bytes != KILN_MLA_FP8_BYTES && bytes != KILN_MLA_FP8_SHORT_BYTES)
        return call_fail(
            call, KILN_UNSUPPORTED,
            "the format of '%s' is not supported: %" PRId64 " bytes a token (dimension %d), expected %d, of keys "
            "of %d values, or %d, of keys of %d",
            name, bytes, t->rank - 1, KILN_MLA_FP8_BYTES, KILN_MLA_KEY, KILN_MLA_FP8_SHORT_BYTES, KILN_MLA_SHORT_KEY);
    const int64_t has = bytes == KILN_MLA_FP8_BYTES ? KILN_MLA_KEY : KILN_MLA_SHORT_KEY;
    return has == keys
               ? KILN_OK
               : call_fail(call, KILN_BAD_SHAPE,
                           "'%s' has keys of %" PRId64 " values (dimension %d is %" PRId64 "), but '%s' has keys of "
                           "%" PRId64,
                           name, has, t->rank - 1, bytes, of, keys);
}

// Pages of the 584-byte format: their tokens stand together, and pages begin at multiples of 16 bytes.
static kiln_status check_pages(const Call *call, const char *name, const kiln_tensor *t)
{
    const int64_t pages = t->shape[0], size = t->shape[1], stride = tensor_stride(t, 0);
    if (pages < 0 || size < 1 || size > PAGE_MAX)
        return call_fail(call, KILN_BAD_SHAPE, "dimension %d of '%s' is %" PRId64 ", expected %d to %d", pages >= 0,
                         name, pages < 0 ? pages : size, pages < 0 ? 0 : 1, pages < 0 ? INT32_MAX : PAGE_MAX);
    for (int d = 1; d < t->rank; d++) {
        const int64_t expected = d == t->rank - 1 ? 1 : KILN_MLA_FP8_SHORT_BYTES;
        if (t->shape[d] > 1 && tensor_stride(t, d) != expected)
            return call_fail(call, KILN_BAD_SHAPE,
                             "dimension %d of '%s' has stride %" PRId64 ", expected %" PRId64
                             ": the bytes of a page stand together",
                             d, name, tensor_stride(t, d), expected);
    }
    if (pages > 1 && (stride < size * KILN_MLA_FP8_SHORT_BYTES || stride % PAGE_UNIT != 0))
        return call_fail(call, KILN_BAD_ALIGNMENT,
                         "dimension 0 of '%s' has stride %" PRId64 ", expected a multiple of %d bytes, of at least the "
                         "page's %" PRId64,
                         name, stride, PAGE_UNIT, size * KILN_MLA_FP8_SHORT_BYTES);
    if (pages > 1 && stride > (int64_t)INT32_MAX * SCALE_ROW / (pages - 1) - size * SCALE_ROW)
        return call_fail(call, KILN_UNSUPPORTED, "'%s' reaches over more than 16 GiB, which this format does not",
                         name);
    return KILN_OK;
}

// From byte `first` of each page on; `page`: bytes from one to the next.
static kiln_tensor part_of(const kiln_tensor *t, int64_t first, int rank, const int64_t *shape, int64_t page)
{
    kiln_tensor part = kiln_tensor_of(t->device, t->data ? (char *)t->data + first : NULL, KILN_U8, rank, shape);
    part.has_strides = true;
    part.strides[rank - 1] = 1;
    if (rank == 3) part.strides[1] = shape[2];
    part.strides[0] = page;
    return part;
}

static void split_pages(Call *call, const kiln_tensor *t, bool written, LatentCache *cache)
{
    const int64_t pages = t->shape[0], size = t->shape[1];
    const int64_t page =
        pages > 1 ? tensor_stride(t, 0) : (size * KILN_MLA_FP8_SHORT_BYTES + PAGE_UNIT - 1) / PAGE_UNIT * PAGE_UNIT;
    const kiln_tensor tokens = part_of(t, 0, 3, (int64_t[]){ pages, size, TOKEN }, page);
    cache->apart = page / SCALE_ROW;
    const int64_t rows = pages > 0 ? (pages - 1) * cache->apart + size : 0;
    const kiln_tensor scales = written ? part_of(t, size * TOKEN, 2, (int64_t[]){ pages, size * SCALE_ROW }, page)
                                       : part_of(t, size * TOKEN, 2, (int64_t[]){ rows, SCALE_ROW }, SCALE_ROW);
    cache->tokens = call_keep(call, &tokens);
    cache->scales = call_keep(call, &scales);
}

kiln_status latent_cache(Call *call, const char *name, const kiln_tensor *tensor, int64_t keys, const char *of,
                         bool written, LatentCache *cache)
{
    *cache = (LatentCache){ .tokens = call_without_key_head(call, tensor, 3) };
    if (!tensor) return KILN_OK;
    if (cache->tokens->rank != 3)
        return call_fail(call, KILN_BAD_SHAPE,
                         "'%s' has rank %d, expected 3: [pages][page size][%d], or 4 with a dimension of 1 before the "
                         "last one",
                         name, tensor->rank, keys == KILN_MLA_KEY ? KILN_MLA_FP8_BYTES : KILN_MLA_FP8_SHORT_BYTES);
    kiln_status status = check_format(call, name, tensor, keys, of);
    if (status || keys == KILN_MLA_KEY) return status;
    status = check_pages(call, name, tensor);
    if (!status) split_pages(call, tensor, written, cache);
    return status;
}
