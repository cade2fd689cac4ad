// SPDX-License-Identifier: MIT
// forms.h - the forms of code that a kernel is built as and run in, and how what it leaves is compared.
#ifndef TESTS_GENERATE_FORMS_H
#define TESTS_GENERATE_FORMS_H

#include "program.h"

#include "kiln/kiln.h"

typedef struct Form {
    const char *name, *device, *isa;
    bool check;
    int arch;
} Form;
enum { FORMS = 7, REASON_BYTES = 4096 };
extern const Form forms[FORMS];

typedef enum { AGREES, DIFFERS, REFUSED, UNSUPPORTED, FAILED } Outcome;

typedef struct Result {
    Outcome outcome;
    int section; // the index of the one that differs or was refused; -1: not known
    char reason[REASON_BYTES];
    long compared, vague; // elements
    double build_seconds, run_seconds;
} Result;

// A fault that is planted in the text of a kernel: a word that becomes another.
typedef struct Plant {
    const char *name, *from, *to;
} Plant;
enum { PLANTS = 8 };
extern const Plant plants[PLANTS];

// Builds and launches a kernel of sections that have been evaluated, and compares all their tensors.
Result run_form(const Form *form, Section *const *sections, int n, const Grid *grid, const Plant *plant);
double now(void);

#endif
