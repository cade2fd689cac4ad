// SPDX-License-Identifier: MIT
// page_roles.c - the roles of a schedule, and the actions of each as lines of text with their depth.
#include "tools/page/page.h"
#include "lower/gpu/schedule/dump.h"

typedef struct Listing {
    Page *page;
    const Schedule *schedule;
    PageRole *role;
} Listing;

static void add_line(Listing *l, int depth, Span span, const char *text)
{
    const PageAction line = { depth, span.source ? source_position(span.source, span.begin).line : 0, span.source,
                              text };
    VEC_PUSH(l->page->arena, &l->role->actions, line);
}

static void add_block(Listing *l, const Action *action, int depth)
{
    for (; action; action = action->next) {
        if (action->kind == ACTION_DECLARE && !action->n_accesses) continue;
        Text text = { .arena = l->page->arena };
        schedule_dump_action(l->schedule, action, &text);
        add_line(l, depth, action->op ? action->op->span : action->span, text_cstr(&text));
        add_block(l, action->body, depth + 1);
        if (!action->otherwise) continue;
        add_line(l, depth, (Span){ 0 }, action->kind == ACTION_SCOPE ? "otherwise" : "else");
        add_block(l, action->otherwise, depth + 1);
    }
}

void page_add_roles(Page *page, PageKernel *kernel, const Compiled *compiled)
{
    const Schedule *const schedule = compiled->unit->schedule;
    for (int i = 0; i < schedule->roles.count; i++) {
        const ScheduleRole *const from = schedule->roles.items[i];
        PageRole role = { .name = arena_copy_text(page->arena, from->name, strlen(from->name)),
                          .first_thread = from->first_thread,
                          .threads = from->threads,
                          .registers = from->registers };
        Listing listing = { page, schedule, &role };
        add_block(&listing, from->body, 0);
        VEC_PUSH(page->arena, &kernel->roles, role);
    }
}
