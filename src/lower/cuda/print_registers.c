// SPDX-License-Identifier: MIT
// print_registers.c - setmaxnreg: registers from the groups that need few to the others.
//
// before: a role begins, and its group of threads is known        after: the group has what registers.c gives it
#include "lower/cuda/registers.h"
#include "lower/cuda/print.h"

static void emit_set(Lowering *lo, const char *verb, int registers)
{
    emit_call(lo, verb, 1, i32_const(lo, registers));
}

void emit_producer_registers(Lowering *lo)
{
    const int registers = producer_registers(lo);
    if (registers) emit_set(lo, "setmaxnreg_dec", registers);
}

// Of all consumers, where they take the same.
void emit_consumer_registers(Lowering *lo)
{
    const int registers = divide_registers(lo).consumer;
    if (registers && !lo->has_producer_group && !unequal_registers(lo, 0)) emit_set(lo, "setmaxnreg_inc", registers);
}

// Of one group, in its own walk.
void emit_group_registers(Lowering *lo, int group)
{
    const int registers = own_registers(lo, group);
    const bool is_fewer =
        !lo->has_producer
            ? light_groups(lo) >> group & 1
            : unequal_registers(lo, group) && registers < registers_each(lo, (lo->all.groups + 1) * WARPGROUP_THREADS);
    if (registers) emit_set(lo, is_fewer ? "setmaxnreg_dec" : "setmaxnreg_inc", registers);
}
