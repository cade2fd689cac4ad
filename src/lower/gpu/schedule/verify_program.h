// SPDX-License-Identifier: MIT
// verify_program.h - a part of schedule_verify(): each role's tree of actions as a list of steps with jumps.
#ifndef KILN_LOWER_GPU_SCHEDULE_VERIFY_PROGRAM_H
#define KILN_LOWER_GPU_SCHEDULE_VERIFY_PROGRAM_H

#include "lower/gpu/schedule/schedule.h"

// STEP_ACCESS: STEP_DO of an action that is nothing but its accesses, or a copy, a store, a product.
typedef enum StepKind {
    STEP_DO,
    STEP_ACCESS,
    STEP_LOOP,
    STEP_NEXT,
    STEP_SCOPE,
    STEP_LEAVE,
    STEP_IF,
    STEP_GOTO,
    STEP_END
} StepKind;

typedef struct ProgramStep {
    StepKind kind;
    const Action *action;
    int loop;   // among the source loops; -1: none
    int target; // step after the loop or the body; of STEP_NEXT: the body's first
    int first;  // of STEP_LEAVE: the step of its STEP_SCOPE
    int warps;  // of the agent that run it: -1: all
    bool is_divergent;
    bool is_opposite; // of STEP_IF: its condition holds where one before it does not
} ProgramStep;

static inline bool does_something(const ProgramStep *step)
{
    return step->kind == STEP_DO || step->kind == STEP_ACCESS;
}

typedef struct Program {
    VEC(ProgramStep) steps;
} Program;

// One loop of the source, or the grid: all roles make the same number of steps in it.
typedef struct SourceLoop {
    const void *source; // a TileOp; the schedule itself: the grid
    int known;          // trip count, if it is a constant; else -1
    bool is_outer;      // has others within
    int trips;          // in this run
} SourceLoop;

typedef struct Programs {
    VEC(SourceLoop) loops;
    VEC(Program *) roles;
    VEC(const Expr *) conditions; // of scalars that nothing assigns again; of two opposite ones the first
    int most_accesses;            // of an action
    int *ring_loop;               // the source loop at whose steps' end a ring advances; -1: none
    bool has_forms;               // something differs where the launch's strides allow no boxes
    bool has_branches[2];         // with boxes, without: conditions that others depend on; the rest hold in all runs
} Programs;

void make_programs(const Schedule *schedule, Programs *programs);

#endif
