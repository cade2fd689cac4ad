// SPDX-License-Identifier: MIT
// scratch.c - a place in the thread's scratch for every tile, by lifetime.
//
// A tile lives from its T_TILE op to the end of the last op of the same block that uses it, at any depth: a loop that
// uses it may come round again. Neighbours that may run rows by rows together (rows.c) count as one op. Tiles that do
// not live together may share bytes. First fit, in order of birth.
#include "lower/cpu/abi.h"
#include "lower/cpu/cpu.h"

enum { ALIGNMENT = 64 };

typedef struct Frame {
    VEC(Buffer *) users;
} Frame; // tiles of this depth that the op at hand uses

typedef struct Walk {
    Cpu *cx;
    int place, depth;
    VEC(Frame) frames; // by depth
    int *depth_of;     // by buffer id: of the block that holds the T_TILE op
    VEC(Buffer *) tiles;
    VEC(TileInfo *) alive; // placed, by offset
} Walk;

static void touch(const TileUse *use, void *context)
{
    Walk *const w = context;
    Buffer *const root = buffer_root(use->buffer);
    if (root->kind != BUFFER_SHARED && root->kind != BUFFER_FRAGMENT) return;
    w->cx->tiles[root->id].uses++;
    VEC_PUSH(w->cx->arena, &w->frames.items[w->depth_of[root->id]].users, root);
}

static void walk_block(Walk *w, TileOp *op)
{
    const int depth = w->depth;
    if (w->frames.count == depth) VEC_PUSH(w->cx->arena, &w->frames, (Frame){ 0 });
    bool in_run = false;
    int run = w->place;
    for (; op; op = op->next) {
        in_run = in_run && (cpu_may_share_rows(op) || op->kind == T_TILE);
        if (!in_run) {
            w->frames.items[depth].users.count = 0;
            run = w->place;
        }
        in_run = in_run || cpu_may_share_rows(op);
        const int place = run;
        w->place++;
        if (op->kind == T_TILE && op->tile.buffer->kind != BUFFER_LOCAL) {
            Buffer *const b = op->tile.buffer;
            w->depth_of[b->id] = depth;
            w->cx->tiles[b->id].first = w->cx->tiles[b->id].last = place;
            VEC_PUSH(w->cx->arena, &w->tiles, b);
        }
        tile_uses(op, touch, w);
        w->depth++;
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) walk_block(w, *body);
        w->depth--;
        const Frame *const frame = &w->frames.items[depth];
        for (int i = 0; i < frame->users.count; i++) w->cx->tiles[frame->users.items[i]->id].last = w->place;
        w->place++;
    }
}

// Tiles come in order of birth: those that died before this one are in nobody's way any more.
static void drop_dead(Walk *w, const TileInfo *t)
{
    int n = 0;
    for (int i = 0; i < w->alive.count; i++)
        if (w->alive.items[i]->last >= t->first) w->alive.items[n++] = w->alive.items[i];
    w->alive.count = n;
}

// The lowest place where nothing that lives at the same time is.
static void place_tile(Walk *w, TileInfo *t)
{
    int at = 0;
    drop_dead(w, t);
    t->offset = CPU_HOST_BYTES;
    for (; at < w->alive.count && w->alive.items[at]->offset < t->offset + t->bytes; at++) {
        const TileInfo *const other = w->alive.items[at];
        if (other->offset + other->bytes > t->offset) t->offset = other->offset + other->bytes;
    }
    VEC_PUSH(w->cx->arena, &w->alive, t);
    memmove(&w->alive.items[at + 1], &w->alive.items[at], sizeof t * (size_t)(w->alive.count - 1 - at));
    w->alive.items[at] = t;
}

static void measure_tile(Cpu *cx, Buffer *b)
{
    TileInfo *const t = &cx->tiles[b->id];
    int64_t extent = 0;
    t->elements = 1;
    for (int d = b->rank - 1; d >= 0; d--) {
        t->strides[d] = int_const(cx->arena, t->elements);
        if (expr_as_int(b->shape[d], &extent)) t->elements *= extent;
    }
    const int bits = dtype_bits(b->type) < 8 ? 8 : dtype_bits(b->type);
    t->bytes = round_up(t->elements * bits / 8, ALIGNMENT);
    if (cpu_is_checked(cx)) t->bytes += round_up(t->elements, ALIGNMENT);
}

void cpu_plan_scratch(Cpu *cx)
{
    Walk w = { .cx = cx, .depth_of = NEW_ARRAY(cx->arena, int, cx->kernel->n_buffers + 1) };
    walk_block(&w, cx->kernel->body);
    int64_t end = CPU_HOST_BYTES;
    for (int i = 0; i < w.tiles.count; i++) {
        Buffer *const b = w.tiles.items[i];
        TileInfo *const t = &cx->tiles[b->id];
        measure_tile(cx, b);
        place_tile(&w, t);
        if (t->offset + t->bytes > end) end = t->offset + t->bytes;
        Var *const scratch = cx->host;
        t->pointer = cpu_declare_pointer(
            cx, cpu_array_type(b->type), b->name,
            cpu_call(cx, b->type, "kiln_at", 2, cpu_of(cx, scratch), int_const(cx->arena, t->offset)));
        if (cpu_is_checked(cx))
            t->shadow = cpu_declare_pointer(
                cx, DTYPE_U8, "written",
                cpu_call(cx, DTYPE_U8, "kiln_at", 2, cpu_of(cx, scratch),
                         int_const(cx->arena, t->offset + t->bytes - round_up(t->elements, ALIGNMENT))));
        t->declared = true;
    }
    if (end > CPU_SCRATCH_MAX)
        cx->failed = !diag_error(cx->diags, w.tiles.items[0]->span,
                                 "the tiles that live at the same time take %lld bytes, an "
                                 "instance has %d",
                                 (long long)end, CPU_SCRATCH_MAX);
    cx->plan->scratch_bytes = end;
    cx->temp = cpu_declare_pointer(
        cx, DTYPE_U8, "temp", cpu_call(cx, DTYPE_U8, "kiln_at", 2, cpu_of(cx, cx->host), int_const(cx->arena, end)));
}

int64_t cpu_temp_room(Cpu *cx, int64_t offset, int64_t bytes)
{
    const int64_t end = round_up(offset + bytes, ALIGNMENT);
    if (end > cx->temp_bytes) cx->temp_bytes = end;
    return end;
}

// *room: where it lies after the tiles; then what is after it.
Place cpu_own_array(Cpu *cx, DType type, const int64_t *extents, int n, int64_t *room)
{
    Place p = { .type = type, .n_axes = n, .at = { .base = int_const(cx->arena, 0) } };
    int64_t elements = 1;
    for (int a = n - 1; a >= 0; a--) {
        p.widths[a] = int_const(cx->arena, extents[a]);
        p.at.coef[a] = int_const(cx->arena, elements);
        elements *= extents[a];
    }
    p.pointer =
        cpu_declare_pointer(cx, cpu_array_type(type), "operand",
                            cpu_call(cx, type, "kiln_at", 2, cpu_of(cx, cx->temp), int_const(cx->arena, *room)));
    *room = cpu_temp_room(cx, *room, elements * (dtype_bits(type) < 8 ? 8 : dtype_bits(type)) / 8);
    return p;
}

// A tile comes to life: what it held before is gone. A local one is an array of the iteration.
void cpu_declare_tile(Cpu *cx, Buffer *b)
{
    TileInfo *const t = &cx->tiles[b->id];
    t->home = cx->out;
    t->ahead = NULL;
    if (b->kind != BUFFER_LOCAL) {
        if (t->shadow)
            cpu_add_call(cx, cpu_call(cx, DTYPE_INT, "kiln_zero_bytes", 2, cpu_of(cx, t->shadow),
                                      int_const(cx->arena, t->elements)));
        return;
    }
    measure_tile(cx, b);
    t->pointer = loop_new_pointer(cx->unit, cpu_array_type(b->type), b->name);
    t->pointer->pointer = 0;
    cpu_add(cx, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = t->pointer, .elements = t->elements } });
    t->pointer->pointer = 1;
}
