// SPDX-License-Identifier: MIT
// places.h - what stands where in a source: the names in it and where they are declared. For `kiln lsp`.
#ifndef KILN_TOOLS_PLACES_H
#define KILN_TOOLS_PLACES_H

#include "compile/compile.h"

// What a name stands for.
typedef struct Place {
    const char *name, *what; // "a kernel", "a build parameter", "a tensor", "an index" ...
    Span span;               // of the name where it is declared
    Span text;               // of what declares it, to be shown; a statement, or the head of a declaration
    const Decl *inside;      // the declaration that it is local to; NULL: of the program
} Place;

typedef void UsePlace(void *context, const Place *place);

const Decl *decl_at(const Module *module, int offset);            // around this byte; NULL: none
const Decl *subject_of(const Program *program, const Decl *decl); // of a reference, check, verify: its kernel
void places_in(const Program *program, const Decl *decl, UsePlace *use, void *context); // local to it
void places_of(const Program *program, UsePlace *use, void *context); // kernels, functions, constants of all files
// The word at a byte of a source: its span; false: there is none.
bool word_at(const Source *source, int offset, Span *word);
// What the word stands for, at its place. False: nothing that is declared in a source.
bool find_declared_place(const Program *program, const Module *module, Span word, Place *place);
Span head_of(const Decl *decl); // "kernel name<...>(...)"

#endif
