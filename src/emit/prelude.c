// SPDX-License-Identifier: MIT
// prelude.c - which items of a prelude a text needs. Compilers take longer to read a whole prelude than a small kernel.
#include "emit/prelude.h"
#include "ir/loop.h"

#include <stdbool.h>

static void take(const Prelude *prelude, bool *taken, int item)
{
    if (taken[item]) return;
    taken[item] = true;
    const PreludeItem *const it = &prelude->items[item];
    for (int i = it->first_use; i < it->end_use; i++) take(prelude, taken, prelude->uses[i]);
}

// What a name consists of: 1 where it may begin.
// clang-format off
static const char in_names[256] = {
    ['0'] = 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
    ['A'] = 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    ['a'] = 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    ['_'] = 1,
};
// clang-format on

static void take_named(const Prelude *prelude, bool *taken, unsigned hash)
{
    const short *const bucket = &prelude->buckets[hash % PRELUDE_BUCKETS];
    for (const PreludeName *n = prelude->names + bucket[0]; n < prelude->names + bucket[1]; n++)
        if (n->hash == hash) take(prelude, taken, n->item);
}

// Names are told apart by their hashes, and comments and strings count as well: an item too many does no harm. Numbers and
// the kernel's variables, of which a text has most, are passed over.
static void take_used(const Prelude *prelude, bool *taken, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at) {
        if (!in_names[*at]) {
            at++;
        } else if (in_names[*at] > 1 || (at[0] == LOOP_VAR_PREFIX[0] && at[1] == LOOP_VAR_PREFIX[1])) {
            while (in_names[*at]) at++;
        } else {
            unsigned hash = 0;
            for (; in_names[*at]; at++) hash = hash * 31 + *at;
            take_named(prelude, taken, hash);
        }
    }
}

void prelude_add_used(Text *out, const Prelude *prelude, const char *text)
{
    bool *const taken = NEW_ARRAY(out->arena, bool, prelude->n_items);
    take_used(prelude, taken, text);
    for (int i = 0; i < prelude->n_items; i++)
        if (taken[i]) text_add(out, prelude->items[i].text, strlen(prelude->items[i].text));
}
