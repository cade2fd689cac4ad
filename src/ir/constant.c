// SPDX-License-Identifier: MIT
// constant.c - values of constants in every element type, computed as the targets would.
#include "ir/constant.h"

#include <float.h>
#include <math.h>
#include <string.h>

// Of a floating type: mantissa bits without the leading one, exponent of the least normal number, largest number.
typedef struct FloatFormat {
    int mantissa, least_exponent;
    double most;
    bool saturates;
} FloatFormat;

static bool find_format(DType type, FloatFormat *format)
{
    switch ((int)type) {
    case DTYPE_TF32: *format = (FloatFormat){ 10, -126, 0x1.ffcp127, false }; return true;
    case DTYPE_F16: *format = (FloatFormat){ 10, -14, 65504, false }; return true;
    case DTYPE_BF16: *format = (FloatFormat){ 7, -126, 0x1.fep127, false }; return true;
    case DTYPE_E4M3: *format = (FloatFormat){ 3, -6, 448, true }; return true;
    case DTYPE_E5M2: *format = (FloatFormat){ 2, -14, 57344, true }; return true;
    case DTYPE_E2M1: *format = (FloatFormat){ 1, 0, 6, true }; return true;
    case DTYPE_E8M0: *format = (FloatFormat){ 0, -127, 0x1p127, true }; return true;
    default: return false;
    }
}

int64_t constant_wrap(DType type, int64_t value)
{
    if (type == DTYPE_BOOL) return value != 0;
    const int bits = dtype_bits(type);
    if (bits >= 64 || !dtype_is_integer(type)) return value;
    const uint64_t kept = (uint64_t)value & ((UINT64_C(1) << bits) - 1);
    const uint64_t sign = UINT64_C(1) << (bits - 1);
    return dtype_is_unsigned(type) ? (int64_t)kept : (int64_t)((kept ^ sign) - sign);
}

// Of e8m0: the nearest power of two, of two the one with the even code; 0 and less give the least.
static double round_to_power(double value)
{
    if (!(value > 0x1p-127)) return 0x1p-127;
    if (value >= 0x1p127) return 0x1p127;
    const int exponent = ilogb(value);
    const double middle = ldexp(1.5, exponent);
    const bool up = value > middle || (value == middle && (exponent + 127) % 2 != 0);
    return ldexp(1, exponent + up);
}

double constant_round(DType type, double value)
{
    FloatFormat format;
    if (type == DTYPE_F32) return (float)value;
    if (!find_format(type, &format)) return value;
    if (isnan(value)) return type == DTYPE_E2M1 ? format.most : value;
    if (type == DTYPE_E8M0) return round_to_power(value);
    if (isinf(value)) return format.saturates ? copysign(format.most, value) : value;
    if (value == 0) return value;
    int exponent = ilogb(value);
    if (exponent < format.least_exponent) exponent = format.least_exponent;
    const int step = exponent - format.mantissa;
    const double rounded = ldexp(nearbyint(ldexp(value, -step)), step);
    if (fabs(rounded) <= format.most) return rounded;
    return copysign(format.saturates ? format.most : INFINITY, value);
}

int64_t constant_truncate(DType type, double value)
{
    if (type == DTYPE_BOOL) return value != 0; // NaN is not zero
    if (isnan(value)) return 0;
    const int bits = dtype_bits(type);
    const double beyond = ldexp(1, dtype_is_unsigned(type) ? bits : bits - 1);
    const double least = dtype_is_unsigned(type) ? 0 : -beyond;
    if (value >= beyond)
        return dtype_is_unsigned(type) ? (int64_t)(UINT64_MAX >> (64 - bits)) : (int64_t)(UINT64_MAX >> (65 - bits));
    if (value < least) return dtype_is_unsigned(type) ? 0 : -(int64_t)(UINT64_MAX >> (65 - bits)) - 1;
    return type == DTYPE_U64 ? (int64_t)(uint64_t)value : (int64_t)value;
}

uint64_t constant_bits(DType type, double value)
{
    FloatFormat format;
    if (type == DTYPE_F64) {
        uint64_t bits;
        memcpy(&bits, &value, 8);
        return bits;
    }
    if (type == DTYPE_F32 || !find_format(type, &format) || dtype_bits(type) == 32) {
        const float narrow = (float)constant_round(type, value);
        uint32_t bits;
        memcpy(&bits, &narrow, 4);
        return bits;
    }
    if (type == DTYPE_E8M0) return isnan(value) ? 255 : (uint64_t)(ilogb(constant_round(type, value)) + 127);
    const double x = constant_round(type, value), magnitude = fabs(x);
    const uint64_t sign = signbit(x) ? UINT64_C(1) << (dtype_bits(type) - 1) : 0;
    const uint64_t all_ones = (UINT64_C(1) << (dtype_bits(type) - 1)) - 1;
    const uint64_t infinity = all_ones & ~((UINT64_C(1) << format.mantissa) - 1);
    if (isnan(x)) return type == DTYPE_E4M3 ? all_ones : infinity | UINT64_C(1) << (format.mantissa - 1);
    if (isinf(x)) return sign | infinity;
    if (magnitude < ldexp(1, format.least_exponent)) // subnormal: a count of the smallest step
        return sign | (uint64_t)ldexp(magnitude, format.mantissa - format.least_exponent);
    const int exponent = ilogb(magnitude);
    const uint64_t fraction = (uint64_t)ldexp(magnitude, format.mantissa - exponent) - (UINT64_C(1) << format.mantissa);
    return sign | (uint64_t)(exponent - format.least_exponent + 1) << format.mantissa | fraction;
}

bool constant_float_from_int(DType to, DType from, int64_t value, double *result)
{
    if (from == DTYPE_U64 && value < 0) {
        if (to != DTYPE_F64 && to != DTYPE_F32) return false;
        *result = to == DTYPE_F32 ? (double)(float)(uint64_t)value : (double)(uint64_t)value;
        return true;
    }
    if (to == DTYPE_F32) {
        *result = (float)value;
        return true;
    }
    // Rounded once only if the double holds it.
    if (to != DTYPE_F64 && (value > (INT64_C(1) << 53) || value < -(INT64_C(1) << 53))) return false;
    *result = constant_round(to, (double)value);
    return true;
}

double dtype_most(DType type)
{
    FloatFormat format;
    return find_format(type, &format) ? format.most : type == DTYPE_F32 ? FLT_MAX : DBL_MAX;
}

bool constant_overflows(DType type, double value)
{
    FloatFormat format;
    if (!isfinite(value)) return false;
    if (type == DTYPE_E8M0 && value < 0x1p-127) return true; // 0 and below, too
    return find_format(type, &format) && format.saturates ? fabs(value) > format.most
                                                          : isinf(constant_round(type, value));
}

bool dtype_limits(DType type, int64_t *lo, int64_t *hi)
{
    if (type == DTYPE_BOOL) {
        *lo = 0;
        *hi = 1;
        return true;
    }
    if (!dtype_is_integer(type) || type == DTYPE_U64) return false;
    const int bits = dtype_bits(type);
    *hi = (int64_t)(UINT64_MAX >> (dtype_is_unsigned(type) ? 64 - bits : 65 - bits));
    *lo = dtype_is_unsigned(type) ? 0 : -*hi - 1;
    return true;
}

// Bits of magnitude a floating type has, counting the leading one.
static int float_digits(DType type)
{
    FloatFormat format;
    if (type == DTYPE_F64) return 53;
    if (type == DTYPE_F32) return 24;
    return find_format(type, &format) ? format.mantissa + 1 : 0;
}

static bool float_holds(DType wide, DType narrow)
{
    if (wide == DTYPE_F64) return true;
    if (wide == DTYPE_F32) return narrow != DTYPE_F64;
    if (wide == DTYPE_TF32) return narrow != DTYPE_F64 && narrow != DTYPE_F32;
    const bool is_small = narrow == DTYPE_E4M3 || narrow == DTYPE_E5M2 || narrow == DTYPE_E2M1;
    if (wide == DTYPE_F16) return is_small;
    if (wide == DTYPE_BF16) return is_small || narrow == DTYPE_E8M0;
    return (wide == DTYPE_E4M3 || wide == DTYPE_E5M2) && narrow == DTYPE_E2M1;
}

bool dtype_holds(DType wide, DType narrow)
{
    if (wide == narrow) return true;
    if (wide == DTYPE_BOOL || wide == DTYPE_NONE || narrow == DTYPE_NONE) return false;
    const bool narrow_float = dtype_is_float(narrow);
    if (dtype_is_float(wide)) {
        if (narrow_float) return float_holds(wide, narrow);
        if (narrow == DTYPE_BOOL) return wide != DTYPE_E8M0;
        // The magnitude of the most negative number is a power of two, so the sign costs no digit.
        const int digits = dtype_bits(narrow) - !dtype_is_unsigned(narrow);
        return float_digits(wide) >= digits && (wide != DTYPE_F16 || digits < 16) && wide != DTYPE_E4M3 &&
               wide != DTYPE_E5M2 && wide != DTYPE_E2M1 && wide != DTYPE_E8M0;
    }
    if (narrow_float) return false;
    if (narrow == DTYPE_BOOL) return true;
    const int wide_bits = dtype_bits(wide), narrow_bits = dtype_bits(narrow);
    if (dtype_is_unsigned(wide)) return dtype_is_unsigned(narrow) && wide_bits >= narrow_bits;
    return dtype_is_unsigned(narrow) ? wide_bits > narrow_bits : wide_bits >= narrow_bits;
}
