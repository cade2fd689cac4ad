// SPDX-License-Identifier: MIT
// machine.h - the evaluator's state: what runs now, and how it gives a program up.
#ifndef TESTS_GENERATE_MACHINE_H
#define TESTS_GENERATE_MACHINE_H

#include "program.h"

#include <setjmp.h>

enum { NOBODY = -1, MANY = -2, MAX_TOTALS = 4096 };

typedef struct Pending {
    Cell *cell;
    Type type;
    Var *var;
} Pending;

typedef struct Machine {
    jmp_buf out;
    const char *reason;
    Section *section;
    Grid grid;
    Type returned_type;
    Value returned;
    int instance, instances;
    uint32_t epoch; // counts foralls
    int iteration;  // NOBODY outside of forall
    int64_t steps;
    Pending totals[MAX_TOTALS]; // of the forall that runs
    int n_totals;
} Machine;

_Noreturn void give_up(Machine *machine, const char *reason);

// ---- memory.c

void reset_memory(Memory *memory, bool defined);
void begin_tensor(Memory *memory); // holds what it is given
Value read_element(Machine *machine, Memory *memory, const int64_t *index);
void write_element(Machine *machine, Memory *memory, const int64_t *index, Value value);
// Reductions and atomics: `value` takes part; what is outside is left out.
void add_to_element(Machine *machine, Memory *memory, const int64_t *index, Op op, Value value, bool atomic);
void end_totals(Machine *machine); // at the end of a forall
void end_tensor(Memory *memory);   // at the end of the launch

#endif
