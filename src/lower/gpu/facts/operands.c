// SPDX-License-Identifier: MIT
// operands.c - operands of products: where their slices lie, and how multiply-adds read them.
#include "lower/gpu/facts/operands.h"
#include "lower/gpu/facts/product.h"

int row_padding(const Buffer *tile) { return tile->hint == HINT_PADDED && tile->rank >= 2 ? tile->hint_value : 0; }

bool reads_elements(const Product *p) { return p->left_elements.why || p->right_elements.why; }

bool product_region(const Region *region, int64_t *start, int64_t *width)
{
    int n = 0;
    for (int d = 0; d < region->buffer->rank; d++) {
        const Sub *const sub = &region->subs[d];
        if (!sub->is_range) return false;
        if (n == 2 || sub->step || !expr_as_int(sub->start, &start[n]) || !expr_as_int(sub->width, &width[n]))
            return false;
        n++;
    }
    return n == 2;
}

const MmaShape *product_mma(const Lowering *lo, const Product *p)
{
    return gpu_mma(lo->gpu, p->kind == PRODUCT_WGMMA ? MMA_WARP_GROUP : MMA_WARP);
}

// ---- multiply-adds

// Of the prelude; NULL: there is none.
static const char *const element_class[DTYPE_COUNT] = {
    [DTYPE_F32] = "Element<float>",  [DTYPE_TF32] = "Element<float>",
    [DTYPE_F64] = "Element<double>", [DTYPE_I32] = "Element<int32_t>",
    [DTYPE_I8] = "Element<int8_t>",  [DTYPE_U8] = "Element<uint8_t>",
    [DTYPE_BF16] = "Bf16",           [DTYPE_F16] = "F16",
    [DTYPE_E4M3] = "E4m3",           [DTYPE_E5M2] = "E5m2",
};

const char *fma_class(DType type) { return element_class[type]; }

int fma_piece(DType type) { return dtype_bits(type) == 64 ? 2 : 4; }

bool fma_is_along(const Operand *x, bool is_left) { return is_left ? !x->transposed : x->transposed; }
