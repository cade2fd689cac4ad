// SPDX-License-Identifier: MIT
// prelude.c - which items of a prelude a text needs. Compilers take longer to read a whole prelude than a small kernel.
#include "emit/prelude.h"

#include <stdbool.h>

static void take(const Prelude *prelude, bool *taken, int item)
{
    if (taken[item]) return;
    taken[item] = true;
    const PreludeItem *const it = &prelude->items[item];
    for (int i = it->first_use; i < it->end_use; i++) take(prelude, taken, prelude->uses[i]);
}

static bool is_letter(char c) { return (unsigned)(c | 32) - 'a' < 26 || c == '_'; }
static bool is_digit(char c) { return (unsigned)c - '0' < 10; }

// Comments and strings count as well: an item too many does no harm.
static void take_used(const Prelude *prelude, bool *taken, const char *text)
{
    for (const char *at = text; *at;) {
        const char *const word = at;
        unsigned hash = 0;
        for (; is_letter(*at) || is_digit(*at); at++) hash = hash * 31 + (unsigned char)*at;
        if (at == word) {
            at++;
            continue;
        }
        const short *const bucket = &prelude->buckets[hash % PRELUDE_BUCKETS];
        for (const PreludeName *n = prelude->names + bucket[0]; n < prelude->names + bucket[1]; n++)
            if (n->length == at - word && memcmp(n->name, word, (size_t)n->length) == 0) take(prelude, taken, n->item);
    }
}

void prelude_add_used(Text *out, const Prelude *prelude, const char *text)
{
    bool *const taken = NEW_ARRAY(out->arena, bool, prelude->n_items);
    take_used(prelude, taken, text);
    for (int i = 0; i < prelude->n_items; i++)
        if (taken[i]) text_add(out, prelude->items[i].text, strlen(prelude->items[i].text));
}
