// SPDX-License-Identifier: MIT
// im2col.cuh - copies of rows in the order in which a tensor map counts them (sm_90).
// Rows of a tensor that the map counts, from those at these coordinates on, all moved by the offsets.
DEVICE void tma_load_im2col_3d(uint32_t dst, const TensorMap *m, uint32_t bar, int32_t x, int32_t y, int32_t z, int32_t dy)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2], {%6};"
                 ::"r"(dst), "l"(m), "r"(bar), "r"(x), "r"(y), "r"(z), "h"((uint16_t)dy) : "memory");
}
DEVICE void tma_load_im2col_4d(uint32_t dst, const TensorMap *m, uint32_t bar, int32_t x, int32_t y, int32_t z, int32_t w, int32_t dy, int32_t dz)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};"
                 ::"r"(dst), "l"(m), "r"(bar), "r"(x), "r"(y), "r"(z), "r"(w), "h"((uint16_t)dy), "h"((uint16_t)dz) : "memory");
}
DEVICE void tma_load_im2col_5d(uint32_t dst, const TensorMap *m, uint32_t bar, int32_t x, int32_t y, int32_t z, int32_t w, int32_t v,
                               int32_t dy, int32_t dz, int32_t dw)
{
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};"
                 ::"r"(dst), "l"(m), "r"(bar), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v), "h"((uint16_t)dy), "h"((uint16_t)dz), "h"((uint16_t)dw) : "memory");
}
