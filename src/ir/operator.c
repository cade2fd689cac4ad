// SPDX-License-Identifier: MIT
// operator.c - the rows of the operators, and their arithmetic on constants. Launches link this without the compiler.
#include "ir/operator.h"
#include "ir/constant.h"

// clang-format off
const ExprOpInfo expr_op_info[X_OP_COUNT] = {
    [X_NEG] = { "-", 12, 0 },      [X_NOT] = { "!", 12, 0 },      [X_BITNOT] = { "~", 12, 0 },
    [X_MUL] = { "*", 11, "mul" },  [X_DIV] = { "/", 11, "div" },  [X_MOD] = { "%", 11, "mod" },
    [X_ADD] = { "+", 10, "add" },  [X_SUB] = { "-", 10, "sub" },
    [X_SHL] = { "<<", 9, "shl" },  [X_SHR] = { ">>", 9, "shr" },
    [X_LT] = { "<", 8, 0 },        [X_LE] = { "<=", 8, 0 },       [X_GT] = { ">", 8, 0 },     [X_GE] = { ">=", 8, 0 },
    [X_EQ] = { "==", 7, 0 },       [X_NE] = { "!=", 7, 0 },
    [X_BITAND] = { "&", 6, 0 },    [X_BITXOR] = { "^", 5, 0 },    [X_BITOR] = { "|", 4, 0 },
    [X_AND] = { "&&", 3, 0 },      [X_OR] = { "||", 2, 0 },
};
// clang-format on

const char *op_fault_text(OpFault fault)
{
    static const char *const texts[] = {
        [OP_FAULT_NONE] = "has a value",
        [OP_FAULT_DIVIDES_BY_ZERO] = "divides by 0",
        [OP_FAULT_OVERFLOWS] = "does not fit into 64 bits",
        [OP_FAULT_SHIFTS_TOO_FAR] = "shifts by less than 0 or more than 63",
        [OP_FAULT_NO_DIVISOR] = "takes 'ceildiv' by a divisor that is not positive",
    };
    return texts[fault];
}

bool op_compare(ExprOp op, bool less, bool equal, bool greater)
{
    switch ((int)op) {
    case X_LT: return less;
    case X_LE: return less || equal;
    case X_GT: return greater;
    case X_GE: return greater || equal;
    case X_EQ: return equal;
    default: return !equal;
    }
}

bool int_less(DType type, int64_t x, int64_t y) { return type == DTYPE_U64 ? (uint64_t)x < (uint64_t)y : x < y; }

bool op_compare_int(ExprOp op, DType type, int64_t x, int64_t y)
{
    return op_compare(op, int_less(type, x, y), x == y, int_less(type, y, x));
}

bool op_compare_float(ExprOp op, double x, double y) { return op_compare(op, x < y, x == y, y < x); }

// Of f32 too: a double holds more than twice its digits, so that rounding twice is rounding once.
double op_compute_float(ExprOp op, DType type, double x, double y)
{
    switch ((int)op) {
    case X_ADD: return constant_round(type, x + y);
    case X_SUB: return constant_round(type, x - y);
    case X_MUL: return constant_round(type, x * y);
    default: return constant_round(type, x / y);
    }
}

// Sums of `int` overflow, of sized integers they wrap.
static OpFault sum(ExprOp op, DType type, int64_t x, int64_t y, int64_t *result)
{
    const bool overflows = op == X_ADD   ? __builtin_add_overflow(x, y, result)
                           : op == X_SUB ? __builtin_sub_overflow(x, y, result)
                                         : __builtin_mul_overflow(x, y, result);
    return overflows && type == DTYPE_INT ? OP_FAULT_OVERFLOWS : OP_FAULT_NONE;
}

static OpFault quotient(ExprOp op, DType type, int64_t x, int64_t y, int64_t *result)
{
    const uint64_t ux = (uint64_t)x, uy = (uint64_t)y;
    *result = 0;
    if (y == 0) return OP_FAULT_DIVIDES_BY_ZERO;
    if (dtype_is_unsigned(type)) *result = (int64_t)(op == X_DIV ? ux / uy : ux % uy);
    else if (y != -1) *result = op == X_DIV ? x / y : x % y;
    else if (op == X_DIV) return sum(X_SUB, type, 0, x, result);
    return OP_FAULT_NONE;
}

static OpFault shift(ExprOp op, DType type, int64_t x, int64_t count, int64_t *result)
{
    const int bits = dtype_bits(type), n = (int)(count & (bits - 1));
    const int64_t right = dtype_is_unsigned(type) ? (int64_t)((uint64_t)x >> n) : x >> n;
    *result = op == X_SHR ? right : (int64_t)((uint64_t)x << n);
    if (type != DTYPE_INT) return OP_FAULT_NONE;
    if (n != count) return OP_FAULT_SHIFTS_TOO_FAR;
    return op == X_SHL && *result >> n != x ? OP_FAULT_OVERFLOWS : OP_FAULT_NONE;
}

static OpFault compute(ExprOp op, DType type, int64_t x, int64_t y, int64_t *result)
{
    switch ((int)op) {
    case X_ADD:
    case X_SUB:
    case X_MUL: return sum(op, type, x, y, result);
    case X_DIV:
    case X_MOD: return quotient(op, type, x, y, result);
    case X_SHL:
    case X_SHR: return shift(op, type, x, y, result);
    case X_BITAND: *result = x & y; return OP_FAULT_NONE;
    case X_BITOR: *result = x | y; return OP_FAULT_NONE;
    default: *result = x ^ y; return OP_FAULT_NONE;
    }
}

OpFault op_compute_int(ExprOp op, DType type, int64_t x, int64_t y, int64_t *result)
{
    const OpFault fault = compute(op, type, x, y, result);
    *result = constant_wrap(type, *result);
    return fault;
}
