// SPDX-License-Identifier: MIT
// note.h - performance notes: what of a kernel is expected to be slow, why, and what to write instead.
//
// A lowering adds a note where it knows the reason; it says what is so, at one place of the source, for one target. A note
// is no error and changes no code. A kernel that means it says so in its header, with the reason:
//
//     grid (x : X) warps(4) accept(product_loop, "the matrix is 4 x 4: an instruction would be 1/16 used");
//
// Then notes of that kind are *accepted*: they are kept, with the reason, and nobody is bothered with them. The kinds are
// rows of one table (note.c), whose names `accept` takes and `kiln explain --notes` prints.
#ifndef KILN_IR_NOTE_H
#define KILN_IR_NOTE_H

#include "base/source.h"
#include "base/text.h"

typedef struct TileKernel TileKernel;

typedef enum NoteKind {
    NOTE_PRODUCT_LOOP,   // a product without the units that are made for it
    NOTE_COPY_WAITS,     // a copy that does not run ahead of the step that reads it
    NOTE_SCATTERED,      // elements of memory one by one
    NOTE_BANK_CONFLICTS, // lanes that wait for each other at a bank of shared memory
    NOTE_REPLICAS,       // threads that do what others do as well
    NOTE_FEW_INSTANCES,  // fewer than there are processors
    NOTE_SERIAL,         // one thread or warp works, the others wait
    NOTE_CONVERSION,     // values that go through memory to get into another layout
    NOTE_OCCUPANCY,      // too few warps to hide what each waits for, and no pipeline
    NOTE_BRANCHES,       // a branch for each element
    NOTE_NOT_VECTORISED, // a loop that runs an element at a time
    NOTE_SPILLS, // registers that ptxas keeps in memory; known when the code is made, so that none is added here
    NOTE_KINDS
} NoteKind;

typedef struct NoteInfo {
    const char *name;  // of accept(), in lists
    const char *title; // what it is, for tables
} NoteInfo;
extern const NoteInfo note_infos[NOTE_KINDS];
int note_find(const char *name); // the kind of that name; -1: none

typedef struct Note {
    NoteKind kind;
    Span span;
    const char *why;     // a sentence without its full stop: "X is read by the threads, because ..."
    const char *instead; // what to write: advice that works; NULL: nothing is known
} Note;

// Of one kernel on one target. All text is of the kernel's arena.
typedef struct NoteList {
    VEC(Note) list;                   // in the order of the source, once notes_sort() has run
    const char *accepted[NOTE_KINDS]; // the header's reason; NULL: none
} NoteList;

// At a span there is one note of each kind; further ones are dropped.
void note_add(TileKernel *kernel, NoteKind kind, Span span, const char *instead, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void notes_sort(NoteList *notes);
int notes_open(const NoteList *notes); // how many are not accepted
// A line for each note that is not accepted, and one for what to write instead:
//     FILE:LINE:COLUMN: performance note: WHY [KIND]
//         instead: ADVICE
void notes_print(Text *out, const NoteList *notes);

#endif
