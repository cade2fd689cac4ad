// SPDX-License-Identifier: MIT
// words.h - the words of the language, from the compiler's own tables: for completion, and for editors' highlighting.
#ifndef KILN_TOOLS_WORDS_H
#define KILN_TOOLS_WORDS_H

// Words that are highlighted alike. `name` is the member of the JSON object of `kiln list --words`.
typedef struct WordGroup {
    const char *name, *about;   // "types", "an element type"
    const char *(*word)(int i); // the i-th from 0, NULL past the last; some come twice
} WordGroup;

enum { WORD_GROUPS = 13 };
extern const WordGroup word_groups[WORD_GROUPS];

#endif
