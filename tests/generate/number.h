// SPDX-License-Identifier: MIT
// number.h - the numbers of the language by the rules of docs/language.md, 3, without any of the compiler's code.
//
// A value is `vague` where the rules leave its last bits open (a rounded product may be fused with a sum, quotients are
// within 1 ulp, the order of a reduction is the compiler's): it is carried along and not compared. Nothing may depend on
// it but other values: who branches on it or subscripts by it gives the program up.
#ifndef TESTS_GENERATE_NUMBER_H
#define TESTS_GENERATE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

typedef enum Type {
    F64,
    F32,
    TF32,
    F16,
    BF16,
    E4M3,
    E5M2,
    E2M1,
    INT,
    I64,
    I32,
    I16,
    I8,
    I4,
    I2,
    U64,
    U32,
    U16,
    U8,
    U4,
    U2,
    BOOL,
    TYPES
} Type;

typedef enum Op {
    ADD,
    SUB,
    MUL,
    DIV,
    MOD,
    AND,
    OR,
    XOR,
    SHL,
    SHR,
    LT,
    LE,
    GT,
    GE,
    EQ,
    NE,
    BOTH,
    EITHER, // between operands
    NEG,
    INVERT,
    NOT, // before one
    MIN,
    MAX,
    CLAMP,
    ABS,
    FMA,
    FLOOR,
    CEIL,
    TRUNC,
    RINT,
    ROUND,
    SQRT,
    CEILDIV,
    POPCOUNT,
    CLZ,
    FFS, // calls
    SELECT,
    OPS
} Op;

typedef struct Value {
    Type type;
    bool vague;
    int64_t i; // of integers and bool: as wide as its type, sign- or zero-extended
    double f;  // of floating types
} Value;

typedef enum Style { INFIX, PREFIX, CALLED, CONDITIONAL } Style;
typedef struct OpInfo {
    const char *text;
    Style style;
    int operands;
    bool integers;
} OpInfo;
typedef struct TypeInfo {
    const char *name;
    int bits;
    bool floating, is_unsigned;
    int mantissa, bias;
    bool infinity, nan;
} TypeInfo;
extern const OpInfo op_info[OPS];
extern const TypeInfo type_info[TYPES];

static inline bool is_float(Type t) { return type_info[t].floating; }
static inline bool is_integer(Type t) { return !type_info[t].floating && t != BOOL; }
Type wide_type(Type t);           // what it computes in; bool: i32
Type common_type(Type a, Type b); // of two operands

Value integer_value(Type type, uint64_t bits); // keeps the low bits
Value real_value(Type type, double x);         // rounds
Value convert(Type type, Value x);
uint64_t value_bits(Value x); // as they lie in memory, in the low bits
Value value_of_bits(Type type, uint64_t bits);
bool is_true(Value x);
bool same_value(Value a, Value b); // NaN equals NaN, -0 equals 0

// The result of an operation; NULL in `*undefined`, or what the rules do not define (yet) about it.
Value compute(Op op, const Value *operands, int n, const char **undefined);
Type result_type(Op op, const Type *operands, int n);

// Sums, extremes and the like of many values in any order.
typedef struct Total {
    Op op;
    Value value;      // in the type it is computed in
    double magnitude; // of floating sums: what no partial sum exceeds
    int lowest;       // exponent of the lowest bit of any
    bool special;
} Total;
Total total_begin(Op op, Value first);
void total_add(Total *total, Value x);
Value total_end(const Total *total, int mantissa); // vague if the order could be seen in so many bits

#endif
