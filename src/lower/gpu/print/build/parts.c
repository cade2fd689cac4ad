// SPDX-License-Identifier: MIT
// parts.c - the parts of the action at hand, in the course of its printing, and the statements that are open around it.
//
// before: the walk over the actions stands at one      after: its next parts are printed by that walk, in their order
#include "lower/gpu/print/build/parts.h"
#include "lower/gpu/print/build/build.h"

#include <assert.h>

Nest *push_nest(Printer *pr)
{
    Nest *const nest = NEW(pr->arena, Nest);
    VEC_PUSH(pr->arena, &pr->nests, nest);
    return nest;
}

Nest *top_nest(Printer *pr) { return pr->nests.items[pr->nests.count - 1]; }

void pop_nest(Printer *pr)
{
    end_nest(pr, top_nest(pr));
    pr->nests.count--;
}

void print_part(Printer *pr, ActionKind kind)
{
    const Action *const part = pr->next_part;
    assert(part && part->kind == kind && "printing follows the schedule");
    (void)kind;
    pr->next_part = part->next;
    pr->print_tree(pr, part);
}

void print_parts_through(Printer *pr, ActionKind kind)
{
    for (const Action *part = pr->next_part; part; part = pr->next_part) {
        print_part(pr, part->kind);
        if (part->kind == kind) return;
    }
    assert(false && "printing follows the schedule");
}

void print_parts(Printer *pr)
{
    while (pr->next_part) print_part(pr, pr->next_part->kind);
}

void print_place(Printer *pr, Span span)
{
    if (!pr->lo->target->places || !span.source) return;
    const int line = source_position(span.source, span.begin).line;
    loop_add(pr->out, (LoopStmt){ .kind = L_COMMENT,
                                  .comment = { arena_printf(pr->arena, "at %s:%d", span.source->path, line) } });
}
