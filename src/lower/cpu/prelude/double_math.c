// SPDX-License-Identifier: MIT
// double_math.c - the language's functions in f64: the C library's. needs: base.c
KILN_INLINE double kiln_exp_f64(double x) { return __builtin_exp(x); }
KILN_INLINE double kiln_exp2_f64(double x) { return __builtin_exp2(x); }
KILN_INLINE double kiln_log_f64(double x) { return __builtin_log(x); }
KILN_INLINE double kiln_log2_f64(double x) { return __builtin_log2(x); }
KILN_INLINE double kiln_sin_f64(double x) { return __builtin_sin(x); }
KILN_INLINE double kiln_cos_f64(double x) { return __builtin_cos(x); }
KILN_INLINE double kiln_tanh_f64(double x) { return __builtin_tanh(x); }
KILN_INLINE double kiln_erf_f64(double x) { return __builtin_erf(x); }
KILN_INLINE double kiln_pow_f64(double x, double y) { return __builtin_pow(x, y); }
