// SPDX-License-Identifier: MIT
// cost.h - how long the code of a schedule is expected to take, line by line and as a whole.
//
// Every action says how much it uses of each unit of a multiprocessor, and what its threads wait for (schedule/work.h). The
// model walks each role with a clock of its own, that of one warp group:
//
//   - elementwise work takes the longest of its units' times, at the rate that one group can ask for, and what it waits for;
//   - a product in flight runs beside all that follows, up to the wait for it; products of one group run one after another;
//   - a loop is walked for its first, a middle and its last step, with the values of its index where they are known, so that
//     masks at an edge count where they are; the middle step stands for all between;
//   - a ring hides the latency of its copies behind as many steps as it has slots.
//
// That is the *chain*: what an instance takes if nothing else runs on its multiprocessor. Groups that do not wait for each
// other, CTAs beside each other and the producer overlap: a multiprocessor is busy with an instance for as long as its busiest
// unit, and no shorter than the chain divided by the CTAs it holds. A launch is as many of these as its busiest
// multiprocessor has instances, and not less than the memory's time for what it moves. What depends on a coordinate of
// the grid (causal masks) is taken at instances spread over it.
//
// Where the lengths of loops are known (build constants, and shapes that the build binds), all is for an instance and for
// the launch; a loop whose length is not known counts as `unknown_trips` steps, and there is no time of the launch.
//
// before: actions have their work (decide/explain/work.c)           after: nothing is changed
#ifndef KILN_LOWER_GPU_COST_COST_H
#define KILN_LOWER_GPU_COST_COST_H

#include "lower/gpu/schedule/schedule.h"
#include "target/target.h"
#include "target/gpu/machine.h"

typedef enum Bound { BOUND_WAITS = UNITS, BOUND_MEMORY, BOUND_CHAIN, BOUND_COUNT } Bound; // a Unit, or one of these
extern const char *const bound_names[BOUND_COUNT];                                        // "tensor cores", "waits"

// The actions of one line of a source.
typedef struct CostLine {
    const Source *source;
    int line;
    const TileOp *op;                  // the first of them
    double used[UNITS], needed[UNITS]; // of an instance
    double branches;                   // of a thread
    double waits;                      // cycles, one after the other
    double cycles, floor;              // of a multiprocessor, if nothing else ran; with what is needed alone
    int bound;
    // the worst of its actions
    int conflicts;
    const Buffer *conflicting;
    double sectors, repeats, idle, alone;
} CostLine;

typedef struct Cost {
    const GpuMachine *machine;
    VEC(CostLine) lines;  // in the order of the source
    double units[UNITS];  // cycles of each, of an instance
    double chain;         // cycles of the slowest role
    double cycles, floor; // of an instance: what a multiprocessor is busy with it; with what is needed alone
    double instances;     // 0: not known
    int resident;         // CTAs of a multiprocessor
    double bytes;         // between the device's memory and its L2, of the launch
    double seconds;       // of the launch; 0: not known
    int bound;            // of the launch, else of an instance
    double *late;         // by ring: cycles of an instance in which its consumers wait for a copy that had no free slot
    VEC(int) open_loops;  // lines of loops whose length is not known
} Cost;

typedef struct CostQuestion {
    const Schedule *schedule;
    const TileKernel *kernel;
    const GpuMachine *machine;
    const Target *target; // whose launch it is, if one is known
    int occupancy;        // CTAs of a multiprocessor that the launch asks for
    double unknown_trips; // of a loop whose length is not known
} CostQuestion;

enum { LIKELY_TRIPS = 16 }; // of loops whose length is not known, where the whole is asked for

const Cost *cost_of(Arena *arena, const CostQuestion *question); // cost.c
double busiest_unit(const Cost *cost);                           // cycles of an instance
const CostLine *cost_line(const Cost *cost, const TileOp *op); // of the line that it begins in; NULL: it costs nothing
void cost_print(Text *out, const Cost *cost, const TileKernel *kernel); // cost_print.c: a table, and what it comes to

// ---- cost_time.c: cycles that one warp group takes for its part of an action
enum { ISSUE_CYCLES = 16, WAIT_CYCLES = 40, RESULT_CYCLES = 90, FENCE_CYCLES = 40 };
typedef struct CostThreads {
    const GpuMachine *machine;
    double groups, warps; // of the role; of one group
} CostThreads;
CostThreads cost_threads(const GpuMachine *machine, const ScheduleRole *role);
double cost_group_time(const CostThreads *threads, const ActionWork *work);   // the longest of its units
double cost_product_time(const CostThreads *threads, const ActionWork *work); // of the tensor cores
double cost_waits(const CostThreads *threads, const ActionWork *work);        // of a thread, one after the other

// ---- cost_values.c: integers that are known while a walk stands at some place
typedef struct CostValues {
    struct {
        int64_t value;
        bool known;
    } * vars; // by Var.id
    int n_vars;
    int64_t *effort; // statements that may still be run or looked at; below 0, loops are not counted any more
} CostValues;
CostValues cost_values_new(Arena *arena, const CostQuestion *question); // those of the launch
bool cost_value(const CostValues *values, const Expr *x, int64_t *value);
void cost_value_set(CostValues *values, const Var *var, bool known, int64_t value);

void cost_forget(CostValues *values, const TileOp *block);  // what it assigns
void cost_run_scalar(CostValues *values, const TileOp *op); // a declaration, assignment or update
bool cost_count_while(Arena *arena, const CostValues *values, const TileOp *loop, double *trips); // false: not known

// ---- cost_launch.c: from instances to the launch
void cost_launch(Cost *cost, const CostQuestion *question, const CostValues *values, const Traffic *traffic,
                 int n_traffic, double longest);

#endif
