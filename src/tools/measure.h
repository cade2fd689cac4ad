// SPDX-License-Identifier: MIT
// measure.h - a kernel timed on one case. Used by `kiln run` and `kiln bench`.
#ifndef KILN_TOOLS_MEASURE_H
#define KILN_TOOLS_MEASURE_H

#include "tools/work.h"

typedef struct Measurement {
    int runs;
    double median, fastest, slowest; // seconds of one launch
    Work work;                       // of one launch
} Measurement;

// Times launches of an open case: at least ten, for about `seconds`. False with c->problem filled in.
bool measure_case(Case *c, double seconds, Measurement *measurement);

// A case with values of the command line in place of its own: NAME=VALUE of build parameters goes to the build, of
// others to the launch. `base` may be NULL. The copy is the arena's.
CheckCase *case_with_values(Arena *arena, kiln_program *program, const char *name, const CheckCase *base,
                            const Binding *values, int n);
#endif
