// SPDX-License-Identifier: MIT
// foreign.h - words of CUDA, of C, and of Python's libraries for tensors, and what stands for them here.
//
// One table for parser and checker. A word is looked up only where it means nothing else: a file may use any of them
// for functions and variables of its own, but for those that no statement can begin with (FOREIGN_WORD).
#ifndef KILN_SYNTAX_FOREIGN_H
#define KILN_SYNTAX_FOREIGN_H

#include "base/arena.h"

#include <stdbool.h>

// What `ours` is: a type; an expression of numbers x, y, z, whole numbers i, j, n and tensors X, L; a statement of these,
// of the tiles t[64], a, b and c (a product's), and of the variables s, top, at, any; a statement that declares the
// grid; a file's declaration, with "{ ... }" for its body. A FOREIGN_WORD begins no statement at all, and has one or only
// advice; of NOTHING there is only advice.
typedef enum ForeignKind {
    FOREIGN_TYPE,
    FOREIGN_VALUE,
    FOREIGN_STATEMENT,
    FOREIGN_GRID,
    FOREIGN_DECLARATION,
    FOREIGN_WORD,
    FOREIGN_NOTHING
} ForeignKind;

typedef struct ForeignWord {
    const char *word;
    ForeignKind kind;
    const char *ours;   // NULL: nothing
    const char *advice; // NULL: `ours` says it all
} ForeignWord;

extern const ForeignWord foreign_words[];
extern const int n_foreign_words;

const ForeignWord *find_foreign(const char *word); // NULL: none, as of those below
const ForeignWord *find_foreign_of(const char *word, ForeignKind kind);
const ForeignWord *find_foreign_member(const char *owner, const char *member); // torch.relu, blockIdx.x
bool foreign_is_library(const char *name); // torch, tl, std ...: what a member's owner may be
const char *foreign_advice(Arena *arena, const ForeignWord *foreign); // "write max(x, 0)"

#endif
