// SPDX-License-Identifier: MIT
// code.h - the words of a PlanCode: postfix, each operation one word, a constant's value in the word after it.
//
//   bits 0-7 kind   8-15 type   16-23 operation, function or source type   24-31 number of operands   32- index
// The type is that of the operands; comparisons leave a bool.
#ifndef KILN_PLAN_CODE_H
#define KILN_PLAN_CODE_H

#include "plan/plan.h"

typedef enum { P_CONST, P_SYMBOL, P_SCALAR, P_UNARY, P_BINARY, P_SELECT, P_CONVERT, P_MATH, P_KIND_COUNT } PlanKind;
enum { PLAN_STACK = 64 };

static inline int64_t plan_word(PlanKind kind, DType type, int what, int operands, int64_t index)
{
    return (int64_t)((uint64_t)kind | (uint64_t)type << 8 | (uint64_t)what << 16 | (uint64_t)operands << 24 |
                     (uint64_t)index << 32);
}
static inline PlanKind plan_kind(int64_t word) { return (PlanKind)(word & 255); }
static inline DType plan_type(int64_t word) { return (DType)(word >> 8 & 255); }
static inline int plan_what(int64_t word) { return (int)(word >> 16 & 255); }
static inline int plan_operands(int64_t word) { return (int)(word >> 24 & 255); }
static inline int plan_index(int64_t word) { return (int)(word >> 32 & INT32_MAX); }

// That the code stays inside its bounds, its stack and the plan's tables: what plan_eval relies on.
bool plan_code_is_sound(const LaunchPlan *plan, PlanCode code);

#endif
