// SPDX-License-Identifier: MIT
// element.c - single elements of any type, as doubles or integers.
//
// Small formats are decoded from their fields and encoded by searching nothing: the value is scaled to the format's
// last place, rounded to nearest even by the machine, and put together again.
#include "runtime/runtime.h"

#include <math.h>

// A binary floating-point format of at most 16 bits.
typedef struct Format {
    int bits, mantissa, bias;
    bool has_infinity, has_nan;
} Format;

// clang-format off
static const Format formats[DTYPE_COUNT] = {
    [DTYPE_F16]  = { 16, 10, 15, true,  true },
    [DTYPE_BF16] = { 16, 7, 127, true,  true },
    [DTYPE_E4M3] = { 8,  3, 7,   false, true },            // all ones: NaN; the largest is 448
    [DTYPE_E5M2] = { 8,  2, 15,  true,  true },
    [DTYPE_E2M1] = { 4,  1, 1,   false, false },           // the largest is 6
};
// clang-format on

static uint64_t load_bits(int bits, const void *data, int64_t index)
{
    uint64_t word = 0;
    if (bits < 8) {
        const int per_byte = 8 / bits;
        const uint8_t byte = ((const uint8_t *)data)[index / per_byte];
        return byte >> (index % per_byte * bits) & ((1u << bits) - 1);
    }
    memcpy(&word, (const char *)data + index * (bits / 8), (size_t)bits / 8);
    return word;
}

static void store_bits(int bits, void *data, int64_t index, uint64_t word)
{
    if (bits >= 8) {
        memcpy((char *)data + index * (bits / 8), &word, (size_t)bits / 8);
        return;
    }
    const int per_byte = 8 / bits, shift = (int)(index % per_byte) * bits;
    uint8_t *const byte = (uint8_t *)data + index / per_byte;
    const unsigned mask = ((1u << bits) - 1) << shift;
    *byte = (uint8_t)((*byte & ~mask) | ((unsigned)word << shift & mask));
}

static double decode(const Format *f, uint64_t word)
{
    const int exponent_bits = f->bits - 1 - f->mantissa, all_ones = (1 << exponent_bits) - 1;
    const int exponent = (int)(word >> f->mantissa) & all_ones, fraction = (int)word & ((1 << f->mantissa) - 1);
    const double sign = word >> (f->bits - 1) & 1 ? -1 : 1;
    if (exponent == all_ones && f->has_infinity) return fraction ? NAN : sign * INFINITY;
    if (exponent == all_ones && f->has_nan && fraction == (1 << f->mantissa) - 1) return NAN;
    if (exponent == 0) return sign * ldexp(fraction, 1 - f->bias - f->mantissa);
    return sign * ldexp(fraction + (1 << f->mantissa), exponent - f->bias - f->mantissa);
}

// What the language's conversion gives: e5m2 saturates although it has an infinity.
static uint64_t encode(DType type, double value)
{
    const Format *const f = &formats[type];
    const int all_ones = (1 << (f->bits - 1 - f->mantissa)) - 1;
    const uint64_t sign = (uint64_t)(signbit(value) != 0) << (f->bits - 1);
    const uint64_t infinity = (uint64_t)all_ones << f->mantissa;
    const uint64_t largest = f->has_infinity ? infinity - 1
                             : f->has_nan    ? (UINT64_C(1) << (f->bits - 1)) - 2
                                             : (UINT64_C(1) << (f->bits - 1)) - 1;
    if (isnan(value))
        return f->has_infinity ? infinity | (UINT64_C(1) << (f->mantissa - 1)) : f->has_nan ? sign | (largest + 1) : 0;
    const double size = fabs(value);
    const bool saturates = f->bits <= 8;
    if (isinf(value)) return sign | (saturates ? largest : infinity);
    int exponent;
    frexp(size, &exponent); // size = m * 2^exponent, 0.5 <= m < 1
    int field = exponent - 1 + f->bias;
    field = size == 0 || field < 1 ? 0 : field;
    const int scale = (field ? field : 1) - f->bias - f->mantissa;
    const double places = nearbyint(ldexp(size, -scale)); // to nearest even; may carry into the exponent
    if (places >= ldexp(1, f->mantissa + 2)) return sign | (saturates ? largest : infinity);
    const uint64_t word = (uint64_t)places + (field ? (uint64_t)(field - 1) << f->mantissa : 0);
    return sign | (word > largest ? (saturates ? largest : infinity) : word);
}

// e8m0: an exponent alone, of which the last one is NaN. 0 and less give the least.
static double decode_power(uint64_t word) { return word == 255 ? NAN : ldexp(1, (int)word - 127); }

static uint64_t encode_power(double value)
{
    int exponent;
    if (isnan(value)) return 255;
    if (!(value > 0x1p-127)) return 0;
    if (value >= 0x1p127) return 254;
    const double fraction = frexp(value, &exponent); // value = fraction * 2^exponent, 0.5 <= fraction < 1
    const int code = exponent - 1 + 127;
    return (uint64_t)(code + (fraction > 0.75 || (fraction == 0.75 && code % 2 != 0)));
}

double element_get(DType type, const void *data, int64_t index)
{
    double wide;
    float narrow;
    switch (type) {
    case DTYPE_F64: memcpy(&wide, (const char *)data + 8 * index, 8); return wide;
    case DTYPE_F32:
    case DTYPE_TF32: memcpy(&narrow, (const char *)data + 4 * index, 4); return narrow;
    case DTYPE_F16:
    case DTYPE_BF16:
    case DTYPE_E4M3:
    case DTYPE_E5M2:
    case DTYPE_E2M1: return decode(&formats[type], load_bits(formats[type].bits, data, index));
    case DTYPE_E8M0: return decode_power(load_bits(8, data, index));
    case DTYPE_U64: return (double)(uint64_t)element_get_int(type, data, index);
    case DTYPE_INT:
    case DTYPE_I64:
    case DTYPE_I32:
    case DTYPE_I16:
    case DTYPE_I8:
    case DTYPE_I4:
    case DTYPE_I2:
    case DTYPE_U32:
    case DTYPE_U16:
    case DTYPE_U8:
    case DTYPE_U4:
    case DTYPE_U2:
    case DTYPE_BOOL:
    case DTYPE_NONE:
    case DTYPE_COUNT: break;
    }
    return (double)element_get_int(type, data, index);
}

int64_t element_get_int(DType type, const void *data, int64_t index)
{
    const int bits = dtype_bits(type), spare = 64 - bits;
    const uint64_t word = load_bits(bits, data, index);
    return type == DTYPE_BOOL ? word != 0 : dtype_is_unsigned(type) ? (int64_t)word : (int64_t)(word << spare) >> spare;
}

void element_set_int(DType type, void *data, int64_t index, int64_t value)
{
    if (dtype_is_float(type)) element_set(type, data, index, (double)value);
    else store_bits(dtype_bits(type), data, index, type == DTYPE_BOOL ? value != 0 : (uint64_t)value);
}

// Truncates and saturates; NaN gives 0.
static int64_t to_integer(DType type, double value)
{
    const int bits = dtype_bits(type);
    const bool is_unsigned = dtype_is_unsigned(type);
    const double low = is_unsigned ? 0 : -ldexp(1, bits - 1), high = ldexp(1, is_unsigned ? bits : bits - 1);
    if (isnan(value)) return 0;
    if (value <= low) return is_unsigned ? 0 : (int64_t)low;
    if (value >= high)
        return is_unsigned ? (int64_t)(bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1)
                           : (int64_t)((UINT64_C(1) << (bits - 1)) - 1);
    return is_unsigned ? (int64_t)(uint64_t)value : (int64_t)value;
}

void element_set(DType type, void *data, int64_t index, double value)
{
    const float narrow = (float)value;
    switch (type) {
    case DTYPE_F64: memcpy((char *)data + 8 * index, &value, 8); return;
    case DTYPE_F32:
    case DTYPE_TF32: memcpy((char *)data + 4 * index, &narrow, 4); return;
    case DTYPE_F16:
    case DTYPE_BF16:
    case DTYPE_E4M3:
    case DTYPE_E5M2:
    case DTYPE_E2M1: store_bits(formats[type].bits, data, index, encode(type, value)); return;
    case DTYPE_E8M0: store_bits(8, data, index, encode_power(value)); return;
    case DTYPE_BOOL: store_bits(8, data, index, value != 0); return;
    case DTYPE_INT:
    case DTYPE_I64:
    case DTYPE_I32:
    case DTYPE_I16:
    case DTYPE_I8:
    case DTYPE_I4:
    case DTYPE_I2:
    case DTYPE_U64:
    case DTYPE_U32:
    case DTYPE_U16:
    case DTYPE_U8:
    case DTYPE_U4:
    case DTYPE_U2:
    case DTYPE_NONE:
    case DTYPE_COUNT: break;
    }
    store_bits(dtype_bits(type), data, index, (uint64_t)to_integer(type, value));
}
