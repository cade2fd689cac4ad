// SPDX-License-Identifier: MIT
// work.h - how much a launch has to do at least, and what this machine can do at most.
#ifndef KILN_TOOLS_WORK_H
#define KILN_TOOLS_WORK_H

#include "tools/cases.h"
#include "tools/count.h"

// Of a kernel or operator with these bindings: what its reference does, else what its tiles do (count.h).
Work work_of(kiln_program *program, const char *name, const Binding *bindings, int n_bindings,
             const WorkValues *values);
Work work_of_case(const Case *c);
// Bytes of all tensors, each once; inout counts twice.
double count_bytes(const Case *c);

// The least that a launch does, and what a GPU of the request's architecture can do at most.
typedef struct Roofline {
    const char *unknown; // why there is none; NULL: there is
    const char *card;    // "an H200"; NULL: nothing is known of it
    double operations, bytes;
    double operation_rate, byte_rate; // per second
} Roofline;
Roofline roofline_of(const BuildRequest *request); // all shapes are bound

// For `kiln explain`, a line: the least time for it on a GPU of the request's architecture.
void explain_roofline(const BuildRequest *request, const kiln_kernel *kernel);

// The machine's own figures, measured here (CPU) or known for the model (GPU). 0: not known.
typedef struct Ceiling {
    double bytes_per_second, operations_per_second;
    const char *what;
} Ceiling;
Ceiling ceiling_of(const kiln_device *device, DType type);

#endif
