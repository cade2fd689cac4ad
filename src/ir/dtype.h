// SPDX-License-Identifier: MIT
// dtype.h - the element types: one row each, read by lexer, checker, printers, targets and the public API.
#ifndef KILN_IR_DTYPE_H
#define KILN_IR_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum DType {
    DTYPE_NONE, // no value, or a poisoned one after an error
    DTYPE_F64,
    DTYPE_F32,
    DTYPE_TF32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_E4M3,
    DTYPE_E5M2,
    DTYPE_E2M1,
    DTYPE_INT, // `int`: 64 bits in meaning, computed in 32 where that can be proved
    DTYPE_I64,
    DTYPE_I32,
    DTYPE_I16,
    DTYPE_I8,
    DTYPE_I4,
    DTYPE_I2,
    DTYPE_U64,
    DTYPE_U32,
    DTYPE_U16,
    DTYPE_U8,
    DTYPE_U4,
    DTYPE_U2,
    DTYPE_BOOL,
    DTYPE_E8M0, // a power of two; has no 0 and no sign. Last, as KILN_E8M0 is
    DTYPE_COUNT
} DType;

typedef enum { CLASS_NONE, CLASS_FLOAT, CLASS_SIGNED, CLASS_UNSIGNED, CLASS_BOOL } DTypeClass;

typedef struct DTypeInfo {
    const char *name; // in .tile sources and messages
    int bits;         // of one element in memory; 8 for bool; below 8: packed, first in the low bits
    DTypeClass class;
    DType wide;         // what it computes in: f32, f64, i32, i64, u32, u64, int, bool
    const char *c_name; // the C type that stores it (a byte for packed types)
} DTypeInfo;

extern const DTypeInfo dtype_info[DTYPE_COUNT];

DType dtype_find(const char *name, int length); // DTYPE_NONE if there is none
static inline const char *dtype_name(DType t) { return dtype_info[t].name; }
static inline int dtype_bits(DType t) { return dtype_info[t].bits; }
static inline bool dtype_is_float(DType t) { return dtype_info[t].class == CLASS_FLOAT; }
static inline bool dtype_is_unsigned(DType t) { return dtype_info[t].class == CLASS_UNSIGNED; }
static inline bool dtype_is_integer(DType t)
{
    return dtype_info[t].class == CLASS_SIGNED || dtype_info[t].class == CLASS_UNSIGNED;
}
static inline bool dtype_is_counting(DType t) { return dtype_is_integer(t) || t == DTYPE_BOOL; }
// Kept as their bits; they compute in f32.
static inline bool dtype_is_narrow_float(DType t) { return dtype_is_float(t) && dtype_info[t].bits < 32; }
static inline bool dtype_is_packed(DType t) { return dtype_info[t].bits < 8; } // several to a byte in tensors
// printf's conversion of a value that `print` shows, as a double or 64-bit integer.
static inline const char *print_conversion(DType t)
{
    return dtype_is_float(t) ? "%.9g" : t == DTYPE_U64 ? "%llu" : "%lld";
}
// Bytes of n elements that stand together; packed types round up.
static inline int64_t dtype_bytes(DType t, int64_t n) { return (n * dtype_info[t].bits + 7) / 8; }

#endif
