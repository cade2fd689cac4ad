// SPDX-License-Identifier: MIT
// matmul_f32.c - f32 @ f32 into f32. needs: matmul.c
#define KILN_MULTIPLY_F32(sum, x, b) ((sum) + (x) * (b))
KILN_DEFINE_VECTOR_MATMUL(f32, float, float, float, float, kiln_vf32, KILN_MULTIPLY_F32,
                          KILN_FORM_F32, KILN_FORM_F32, 0, 1)
