// SPDX-License-Identifier: MIT
// pairs.cuh - functions of words that hold two 16-bit numbers, for `extern cuda fn` (kernels/quant/pairs.tile).
// a*b + c of two numbers each, rounded once.
DEVICE uint32_t fma2_bf16(uint32_t a, uint32_t b, uint32_t c) { uint32_t r; asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); return r; }
DEVICE uint32_t fma2_f16(uint32_t a, uint32_t b, uint32_t c) { uint32_t r; asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); return r; }
// Four of eight bytes, the first of a being 0, by the nibbles of `which`.
DEVICE uint32_t select_bytes(uint32_t a, uint32_t b, uint32_t which) { uint32_t r; asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(which)); return r; }
