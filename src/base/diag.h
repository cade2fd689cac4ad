// SPDX-License-Identifier: MIT
// diag.h - errors in the user's source: collected, sorted, printed once.
//
// A message names the values at hand; a note shows where the other half was said; a help offers a fix only if
// it would work. Reporting never stops the caller: it returns a poison value and goes on, so that several
// independent errors are seen in one run; at one span only the first error is kept.
#ifndef KILN_BASE_DIAG_H
#define KILN_BASE_DIAG_H

#include "base/source.h"
#include "base/text.h"

#include <stdbool.h>

typedef enum { DIAG_ERROR, DIAG_NOTE, DIAG_HELP } DiagKind;

typedef struct Diag {
    DiagKind kind;
    Span span;
    const char *message;
    struct Diag *next; // the next message; notes and helps follow the error they belong to
} Diag;

typedef struct Diags {
    Arena *arena;
    Diag *first, **last;
    int errors;    // different ones, those past the limit included
    int limit;     // errors kept; 0: 20. Past it they are only counted
    bool dropping; // the last message was not kept, so its notes and helps are not either
} Diags;

Diags *diags_new(Arena *arena);
bool diag_error(Diags *diags, Span span, const char *format, ...) __attribute__((format(printf, 3, 4))); // false
void diag_note(Diags *diags, Span span, const char *format, ...) __attribute__((format(printf, 3, 4)));
void diag_help(Diags *diags, Span span, const char *format, ...) __attribute__((format(printf, 3, 4)));
void diags_print(const Diags *diags, Text *out, bool color);

#endif
