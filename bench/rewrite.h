// SPDX-License-Identifier: MIT
// rewrite.h - kernels written in another way that means the same, for `kiln bench --cliffs`.
//
// A rewriting is a row of a table: a name, what it does, and a function that is tried at every statement of a kernel. Where
// it fits it leaves edits of the source's text, at places that the syntax tree names; the text with the edits, formatted,
// is parsed anew, so a rewritten kernel is a source like any other. Rewritings judge by syntax alone: what they cannot see
// to be the same they leave.
//
//     rewrite.c        places, edits, the table
//     rewrite_facts.c  what the tree says: names, uses, constants, effects
//     rewrite_loops.c  indices, and statements that run over them
//     rewrite_tiles.c  tiles and slices
//     rewrite_code.c   order, scalars, conditions
#ifndef KILN_REWRITE_H
#define KILN_REWRITE_H

#include "check/check.h"

enum { INSIDE_FORALL = 1, INSIDE_LOOP = 2 };

// A statement of the kernel, and what it stands in.
typedef struct Place {
    const St *st;
    const St *before;    // the statement before it in its block; NULL: it is the first, or in no block
    const St *const *up; // the statements around it, the nearest first; ends with NULL
    bool in_block;       // another statement may stand beside it
    int inside;          // INSIDE_... of all that is around it
} Place;
typedef VEC(Place) Places;

typedef struct Edit {
    int begin, end;
    const char *text;
    int order;
} Edit;

typedef struct Rewriter {
    Arena *arena;
    const Program *program;
    const Source *source;
    const Decl *decl;     // the kernel
    const Binding *build; // values of its build parameters, where they are not the defaults
    int n_build;
    bool is_cpu;
    int arch;
    Places places;
    uint64_t choice; // which of several ways to take at one place
    VEC(Edit) edits;
    const char *what; // was done, for people: "i in 4"
} Rewriter;

typedef bool Rewrite(Rewriter *w, const Place *place); // false: it does not fit here; edits are then of no use
typedef struct Rewriting {
    const char *name;
    Rewrite *rewrite;
    const char *does;
} Rewriting;
const Rewriting *rewritings(int *n);

// The text of the file with the rewriting done at its `nth` place, counted round, in an order that `seed` chooses. NULL: there
// is no place. `w` is of `arena, program, decl, build, is_cpu, arch` alone. `*n_places`: how many there are.
const char *rewrite_source(Rewriter *w, const Rewriting *rewriting, uint64_t seed, int nth, int *n_places);

// ---- edits
void edit(Rewriter *w, int begin, int end, const char *format, ...) __attribute__((format(printf, 4, 5)));
const char *text_of(const Rewriter *w, Span span);
Span span_of(const Rewriter *w, const St *st); // with its semicolon
// The span's text with `with` in place of the name, which occurs in `st` or `ex`.
const char *text_replacing(const Rewriter *w, Span span, const St *st, Name name, const char *with);
void replace_name(Rewriter *w, const St *st, Name name, const char *with);  // all its uses in the statement
void replace_after(Rewriter *w, const St *st, Name name, const char *with); // in all that follows it in its block
const char *fresh(const Rewriter *w, const char *stem);                     // a name that does not occur
const char *opaque_zero(Rewriter *w); // a variable that is 0, which the compiler cannot know; NULL: none can be made
int choose(Rewriter *w, int n);       // one of n ways

// ---- facts
typedef void Each(void *context, const Ex *ex);
void each_of(const Ex *ex, Each *each, void *context);  // every node, the outer first
void each_in(const St *st, Each *each, void *context);  // of every expression of the statement and of those in it
void each_own(const St *st, Each *each, void *context); // not of those in it
const Ex *root_of(const Ex *ex);                        // A of A[i][j]; itself if it is no subscript
bool is_named(const Ex *ex, Name name);
bool uses(const St *st, Name name);
bool uses_in(const Ex *ex, Name name);
int count_list(const Ex *list);
const Ex *nth_of(const Ex *list, int n);
const Declarator *find_tile(const Rewriter *w, Name name, const St **decl); // NULL: none, or several of that name
const Param *find_param(const Rewriter *w, Name name);
const St *find_view(const Rewriter *w, Name name);
Storage storage_of(const Rewriter *w, Name name); // STORE_SCALAR: no tile
bool is_changed(const Rewriter *w, Name name);    // assigned anywhere after its declaration, or given to a function
bool is_constant(const Rewriter *w, const Ex *ex, int64_t *value);
bool is_plain(const Rewriter *w, const Ex *ex); // of + - * / %, numbers, and names that never change
bool are_independent(const Rewriter *w, const St *a, const St *b);
bool holds(const St *st, StKind kind);         // the statement is one, or has one in it
const St *own_block(const St *body);           // the statements of a body, in a block or alone
bool is_pure(const Rewriter *w, const Ex *ex); // the same, with comparisons, choices and built-in functions
const Place *find_place(const Rewriter *w, const St *st);
bool is_forall_index(const Place *place, Name name);

// ---- the rewritings
Rewrite split_index, merge_indices, loop_for_forall, fission, halves, fuse, more_stages;
Rewrite shift_slice, shift_operand, view_between, copy_tile, tile_outside, element_copy, declare_apart, rename_tile;
Rewrite swap_statements, hoist_scalar, sink_scalar, always_true, update_apart, swap_arms;

#endif
