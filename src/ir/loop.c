// SPDX-License-Identifier: MIT
// loop.c - building Loop IR: lists under construction, new variables.
#include "ir/loop.h"

LoopList loop_list(Arena *arena) { return (LoopList){ .arena = arena }; }

// `last` is NULL while the list is empty, so that a list may be returned and copied before its first statement.
LoopStmt *loop_add(LoopList *list, LoopStmt stmt)
{
    LoopStmt *const made = NEW(list->arena, LoopStmt, .kind = L_BLOCK);
    *made = stmt;
    made->next = NULL;
    *(list->last ? list->last : &list->first) = made;
    list->last = &made->next;
    return made;
}

Var *loop_new_var(LoopUnit *unit, DType type, const char *name)
{
    return NEW(unit->arena, Var, .name = name, .id = unit->n_vars++, .kind = VAR_LOCAL, .type = type);
}

Var *loop_new_pointer(LoopUnit *unit, DType type, const char *name)
{
    Var *const pointer = loop_new_var(unit, type, name);
    pointer->pointer = 1;
    return pointer;
}
