// SPDX-License-Identifier: MIT
// stream.c - which copies write past the caches: those from tiles into a tensor that the kernel only writes and that
// is, as launched, larger than caches keep (prelude/stream.c).
//
// Kernels with atomics are left alone: there other instances may read what was written while the kernel runs, and
// only the end of a call orders streamed lines.
#include "lower/cpu/cpu.h"

static void note_atomic(const TileUse *use, void *context)
{
    bool *const any = context;
    *any = *any || use->atomic;
}

static void find_atomics(TileOp *op, bool *any)
{
    for (; op && !*any; op = op->next) {
        *any = op->kind == T_ATOMIC || op->kind == T_ATOMIC_TILE;
        tile_uses(op, note_atomic, any);
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) find_atomics(*body, any);
    }
}

void cpu_find_streamed(Cpu *cx)
{
    bool atomics = cpu_is_checked(cx);
    find_atomics(cx->kernel->body, &atomics);
    cx->streams = NEW_ARRAY(cx->arena, Var *, cx->kernel->n_buffers + 1);
    cx->may_stream = !atomics;
}

// Whether a row of a copy into dst should be streamed: a variable of the launch, or NULL for never.
Expr *cpu_streams(Cpu *cx, const Place *dst)
{
    Buffer *const root = dst->root;
    if (!cx->may_stream || !root || root->kind != BUFFER_TENSOR || root->access != ACCESS_OUT || dst->packed)
        return NULL;
    if (!cx->streams[root->id]) cx->streams[root->id] = loop_new_var(cx->unit, DTYPE_BOOL, "streams");
    return cpu_of(cx, cx->streams[root->id]);
}

// Declares what cpu_streams handed out, before the loop over the instances.
void cpu_declare_streams(Cpu *cx)
{
    const TileKernel *const k = cx->kernel;
    for (int i = 0; i < k->n_params; i++) {
        Buffer *const b = k->params[i].tensor;
        if (!b || !cx->streams[b->id]) continue;
        Expr *bytes = int_const(cx->arena, dtype_bytes(b->type, 1));
        for (int d = 0; d < b->rank; d++) bytes = int_mul(cx->arena, bytes, cpu_expr(cx, b->shape[d]));
        cpu_add(cx, (LoopStmt){ .kind = L_DECLARE,
                                .declare = { .var = cx->streams[b->id],
                                             .value = cpu_call(cx, DTYPE_BOOL, "kiln_streams", 1, bytes) } });
        cpu_use_prelude(cx, "STREAM");
    }
}
