// SPDX-License-Identifier: MIT
// split_groups.c - a forall over fragments of different warp groups becomes one for each.
//
// A fragment lives with the group that `on` lets write it. A forall that comes to fragments of two groups would have to reach
// the registers of both from one thread, and the fragments would have to leave them.
//
// before: simplified    after: neighbouring statements of a forall's body whose fragments have no group in common stand in
//                       foralls of their own, in the same order
// never:  parts statements that share a scalar of the body, or leave an iteration early
#include "passes/passes.h"

typedef struct Owners {
    TileKernel *kernel;
    uint32_t *of; // by a fragment's id: the groups whose statements write it
    uint32_t groups;
} Owners;

static void note_owner(const TileUse *use, void *context)
{
    Owners *const o = context;
    const Buffer *const root = buffer_root(use->buffer);
    if (use->writes && root->kind == BUFFER_FRAGMENT) o->of[root->id] |= o->groups;
}

static void find_owners(Owners *o, TileOp *op, uint32_t groups)
{
    for (; op; op = op->next) {
        TileOp **body;
        const uint32_t own = op->groups ? op->groups : groups;
        o->groups = own;
        tile_uses(op, note_owner, o);
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) find_owners(o, *body, own);
    }
}

static void see_owner(const TileUse *use, void *context)
{
    Owners *const o = context;
    const Buffer *const root = buffer_root(use->buffer);
    if (root->kind == BUFFER_FRAGMENT) o->groups |= o->of[root->id];
}

static uint32_t owners_of(Owners *o, TileOp *op)
{
    uint32_t groups;
    TileOp **body;
    o->groups = 0;
    tile_uses(op, see_owner, o);
    groups = o->groups;
    for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++)
        for (TileOp *inner = *body; inner; inner = inner->next) groups |= owners_of(o, inner);
    return groups;
}

static bool can_part(const TileOp *op)
{
    for (; op; op = op->next)
        if (op->kind != T_STORE && !(op->kind == T_UPDATE && op->update.buffer)) return false;
    return true;
}

// The forall's body up to `last` stays; the rest goes into a copy after it.
static void part(TileKernel *kernel, TileOp *forall, TileOp *last)
{
    TileOp *const rest = NEW(kernel->arena, TileOp, .kind = T_FORALL);
    *rest = *forall;
    rest->next = NULL;
    rest->forall.body = last->next;
    last->next = NULL;
    TileOp *const copy = tile_copy_block(kernel, rest); // with indices of its own
    copy->next = forall->next;
    forall->next = copy;
}

static void split_forall(Owners *o, TileOp *forall)
{
    uint32_t groups = 0;
    if (forall->groups || !can_part(forall->forall.body)) return;
    for (TileOp *op = forall->forall.body, *before = NULL; op; before = op, op = op->next) {
        const uint32_t own = owners_of(o, op);
        if (before && groups && own && !(groups & own)) {
            part(o->kernel, forall, before);
            return;
        }
        groups |= own;
    }
}

static void split_in(Owners *o, TileOp *op)
{
    for (; op; op = op->next) {
        TileOp **body;
        if (op->kind == T_FORALL) split_forall(o, op);
        else
            for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) split_in(o, *body);
    }
}

void split_groups(TileKernel *kernel)
{
    Owners o = { .kernel = kernel, .of = NEW_ARRAY(kernel->arena, uint32_t, kernel->n_buffers + 1) };
    if (kernel->checked) return;
    find_owners(&o, kernel->body, 0);
    split_in(&o, kernel->body);
}
