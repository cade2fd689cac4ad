// SPDX-License-Identifier: MIT
// prelude.h - the texts of src/lower/*/prelude, which the build embeds in the library (embed.sh).
#ifndef KILN_EMIT_PRELUDE_H
#define KILN_EMIT_PRELUDE_H

#include "base/text.h"

// The whole text of a part, such as "cpu/vector_math". NULL if there is none of that name.
const char *prelude_text(const char *name);

// What stands at the top level of a prelude, in order (items.awk): functions, structs, macros, each with its comment.
typedef struct PreludeItem {
    const char *text;
    int first_use, end_use; // of `uses`: the items without which it does not compile
} PreludeItem;

typedef struct PreludeName {
    unsigned hash;
    int item; // which defines it; a name with several items has a row for each
} PreludeName;

enum { PRELUDE_BUCKETS = 512 };

typedef struct Prelude {
    const PreludeItem *items;
    int n_items;
    const short *uses;
    const PreludeName *names; // in order of their buckets
    const short *buckets;     // where the names of each begin; then the number of names
} Prelude;

extern const Prelude prelude_cuda;

// Those items that a text names, and those that they need.
void prelude_add_used(Text *out, const Prelude *prelude, const char *text);

#endif
