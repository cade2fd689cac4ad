// SPDX-License-Identifier: MIT
// operator.h - the operators of scalar expressions: one row each, and what they compute from constants.
//
// The expression builders fold with this and a launch plan evaluates with it, so both give the same values. What has no
// value (a divisor of 0, overflow of `int`) is a fault: the builders leave it as it is, so that --check builds stop there.
#ifndef KILN_IR_OPERATOR_H
#define KILN_IR_OPERATOR_H

#include "ir/dtype.h"

typedef enum { // arithmetic is done in the type of the result (operands have that type already), except
    X_NEG,
    X_NOT,
    X_BITNOT, // comparisons: operands share a type, the result is bool
    X_ADD,
    X_SUB,
    X_MUL,
    X_DIV,
    X_MOD, // of integers: x / 0 is 0, x % 0 is x, the least number / -1 wraps
    X_SHL,
    X_SHR, // the count is taken modulo the width of the type
    X_BITAND,
    X_BITOR,
    X_BITXOR,
    X_LT,
    X_LE,
    X_GT,
    X_GE,
    X_EQ,
    X_NE,
    X_AND,
    X_OR, // && and ||: the right side's accesses are made only if needed
    X_OP_COUNT
} ExprOp;

typedef struct ExprOpInfo {
    const char *text;    // in the language, C and CUDA C alike
    int level;           // C's precedence, higher binds tighter
    const char *checked; // the test of --check builds is named after this; NULL: there is nothing to test
} ExprOpInfo;
extern const ExprOpInfo expr_op_info[X_OP_COUNT];

static inline bool op_compares(ExprOp op) { return op >= X_LT && op <= X_NE; }
static inline bool op_divides(ExprOp op) { return op == X_DIV || op == X_MOD; }
static inline bool op_shifts(ExprOp op) { return op == X_SHL || op == X_SHR; }

// Why operands have no result.
typedef enum {
    OP_FAULT_NONE,
    OP_FAULT_DIVIDES_BY_ZERO,
    OP_FAULT_OVERFLOWS,
    OP_FAULT_SHIFTS_TOO_FAR,
    OP_FAULT_NO_DIVISOR
} OpFault;
const char *op_fault_text(OpFault fault); // "divides by 0"

// x op y of constants, kept as constant.h says; `type` is that of the operands. Not for && and ||, nor the unary ones.
OpFault op_compute_int(ExprOp op, DType type, int64_t x, int64_t y, int64_t *result); // result is set in any case
double op_compute_float(ExprOp op, DType type, double x, double y);                   // + - * /
bool op_compare_int(ExprOp op, DType type, int64_t x, int64_t y);
bool op_compare_float(ExprOp op, double x, double y);
bool op_compare(ExprOp op, bool less, bool equal, bool greater); // of which at most one holds (none: one is NaN)
bool int_less(DType type, int64_t x, int64_t y);

#endif
