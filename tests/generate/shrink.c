// SPDX-License-Identifier: MIT
// shrink.c - drops statement after statement; what is left must be defined, and end in the same way as before.
#include "shrink.h"
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_RUNS = 120 };

typedef struct Shrinker {
    Section *section;
    const Grid *grid;
    const Form *form;
    const Plant *plant;
    Outcome outcome;
    int runs;
    Result last;
} Shrinker;

static bool still_fails(Shrinker *shrinker)
{
    const char *reason;
    if (shrinker->runs >= MAX_RUNS || !evaluate_section(shrinker->section, shrinker->grid, &reason)) return false;
    shrinker->runs++;
    const Result result = run_form(shrinker->form, &shrinker->section, 1, shrinker->grid, shrinker->plant);
    if (result.outcome != shrinker->outcome) return false;
    shrinker->last = result;
    return true;
}

static void drop_statements(Shrinker *shrinker, Statement *list)
{
    for (Statement *st = list; st; st = st->next) {
        if (st->dropped) continue;
        st->dropped = true;
        if (st->kind == S_TILE) reset_memory(st->dst.memory, false);
        if (still_fails(shrinker)) continue;
        st->dropped = false;
        drop_statements(shrinker, st->body);
        drop_statements(shrinker, st->otherwise);
    }
}

void show_smallest(Section *section, const Grid *grid, const Form *form, const Plant *plant, const Result *first)
{
    Shrinker shrinker = { section, grid, form, plant, first->outcome, 0, *first };
    if (first->outcome == REFUSED || first->outcome == UNSUPPORTED) return;
    if (!still_fails(&shrinker)) {
        printf("     alone it does not\n");
        return;
    }
    drop_statements(&shrinker, section->body);
    Writer out = { 0 };
    print_kernel(&out, &section, 1, grid);
    printf("     shrunk: %s\n%s", shrinker.last.reason, out.text);
    free(out.text);
}
