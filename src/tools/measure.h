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
bool measure_times(Case *c, double seconds, Measurement *measurement); // without the work

// A case with values of the command line in place of its own: NAME=VALUE of build parameters goes to the build, of
// others to the launch. `base` may be NULL. The copy is the arena's.
CheckCase *case_with_values(Arena *arena, kiln_program *program, const char *name, const CheckCase *base,
                            const Binding *values, int n);

// What the command line means.
typedef struct Choice {
    const CheckCase *base;   // the largest case of the kernel's checks that is like it; NULL if it has none
    const CheckCase *wanted; // with the command line's values
    const char *tolerance;   // where the one results are compared by comes from
    bool unchecked_types;    // no check has these types
    const Binding *given;    // the command line's values
    int n_given;
} Choice;
// `text`: NAME=VALUE, separated by commas. -1, or the exit status after a mistake that was printed.
int case_choose(Choice *choice, Arena *arena, kiln_program *program, const char *name, const char *text);
// What is wanted, without the build values of the check that have a list: those `kiln tune` chooses.
const CheckCase *case_to_tune(const Choice *choice, Arena *arena, kiln_program *program, const char *name);
// Of an open case the one to be compared with the reference: itself, where that takes at most so many operations, else the launch
// values of the check's own largest case with its build. NULL: there is none.
const CheckCase *case_to_check(const Choice *choice, Arena *arena, const Case *timed, double most);
// Of a launch by the cost model; 0: not known.
double case_expected_seconds(const BuildRequest *build, const CheckCase *check);
#endif
