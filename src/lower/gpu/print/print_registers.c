// SPDX-License-Identifier: MIT
// print_registers.c - setmaxnreg: registers from the groups that need few to the others.
//
// before: a role begins, and its group of threads is known        after: the group has what registers.c gives it
#include "lower/gpu/facts/registers.h"
#include "lower/gpu/print/print.h"
#include "lower/gpu/facts/groups.h"
#include "lower/gpu/print/print_registers.h"

static void emit_set(Printer *pr, const char *verb, int registers) { emit_call(pr, verb, 1, i32_const(pr, registers)); }

void emit_producer_registers(Printer *pr)
{
    const int registers = producer_registers(pr->lo);
    if (registers) emit_set(pr, "setmaxnreg_dec", registers);
}

// Of all consumers, where they take the same.
void emit_consumer_registers(Printer *pr)
{
    const int registers = divide_registers(pr->lo).consumer;
    if (registers && !pr->lo->has_producer_group && !unequal_registers(pr->lo, 0))
        emit_set(pr, "setmaxnreg_inc", registers);
}

// Of one group, in its own walk. To ask for more and name fewer than the launch gave is an illegal instruction.
void emit_group_registers(Printer *pr, int group)
{
    const int registers = own_registers(pr->lo, group);
    const bool is_fewer = !pr->lo->has_producer
                              ? light_groups(pr->lo) >> group & 1
                              : registers < registers_each(pr->lo, (pr->lo->all.groups + 1) * WARPGROUP_THREADS);
    if (registers) emit_set(pr, is_fewer ? "setmaxnreg_dec" : "setmaxnreg_inc", registers);
}
