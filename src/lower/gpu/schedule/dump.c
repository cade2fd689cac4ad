// SPDX-License-Identifier: MIT
// dump.c - a schedule as text: its tables, then each role's actions, a line each, bodies indented.
//
// Source operations stand as Tile IR prints them, cut to one line. Nothing here is read back.
#include "lower/gpu/schedule/dump.h"
#include "ir/names.h"

enum { SOURCE_COLUMNS = 100 }; // of a source operation; the rest is left out

typedef struct Dump {
    const Schedule *schedule;
    Text *out;
} Dump;

// clang-format off
static const char *const action_names[] = {
    [ACTION_GRID] = "for tile in grid",         [ACTION_LOOP] = "for",
    [ACTION_IF] = "if",                         [ACTION_SCOPE] = "in",
    [ACTION_JUMP] = "jump",                     [ACTION_ACQUIRE] = "acquire",
    [ACTION_EXPECT] = "expect",                 [ACTION_ARRIVE] = "arrive",
    [ACTION_WAIT] = "wait",                     [ACTION_RELEASE] = "release",
    [ACTION_ADVANCE] = "advance",               [ACTION_COPY] = "copy",
    [ACTION_COPY_COMMIT] = "cp.async.commit",   [ACTION_COPY_WAIT] = "cp.async.wait",
    [ACTION_LDMATRIX] = "ldmatrix",             [ACTION_STORE] = "store",
    [ACTION_STORE_WAIT] = "store.wait",         [ACTION_PREFETCH] = "prefetch",
    [ACTION_MMA] = "mma",                       [ACTION_MMA_WAIT] = "mma.wait",
    [ACTION_FENCE_ASYNC] = "fence.proxy.async", [ACTION_FENCE_REGISTERS] = "fence.registers",
    [ACTION_BARRIER_SYNC] = "barrier.sync",     [ACTION_BARRIER_ARRIVE] = "barrier.arrive",
    [ACTION_CLUSTER_SYNC] = "cluster.sync",     [ACTION_WARP_SYNC] = "warp.sync",
    [ACTION_MAP] = "map",                       [ACTION_SCAN] = "scan",
    [ACTION_ATOMIC] = "atomic",                 [ACTION_SCALAR] = "scalar",
    [ACTION_DECLARE] = "declare",
};
static const char *const scope_names[] = {
    [SCOPE_ISSUE] = "",
    [SCOPE_ANY_STEP] = "if there is a step",    [SCOPE_FIRST_STEP] = "first step",
    [SCOPE_NO_STEP] = "if there is no step",    [SCOPE_LAST_STEP] = "last step",
    [SCOPE_PREVIOUS_STEP] = "previous step",    [SCOPE_NEXT_STEP] = "next step",
    [SCOPE_FURTHER_STEP] = "next step, if there is one",
    [SCOPE_BUT_LAST] = "every iteration but the last",
    [SCOPE_BUT_FIRST] = "every iteration but the first, for the previous step",
    [SCOPE_HAS_STEP] = "every iteration after the prologue",
    [SCOPE_STEP_AHEAD] = "the step ahead, if there is one",
    [SCOPE_ONE_GROUP] = "warp group",           [SCOPE_ONE_THREAD] = "one thread",
    [SCOPE_ONE_WARP] = "one warp",              [SCOPE_EACH_WARP] = "each warp",
    [SCOPE_ALIGNED] = "if strides allow boxes, ", [SCOPE_ROW_PART] = "row of each thread's two",
};
static const char *const copy_names[] = {
    [COPY_TMA] = "tma", [COPY_CP_ASYNC] = "cp.async", [COPY_LANES] = "copy (by lanes)", [COPY_THREADS] = "copy (by threads)",
};
static const char *const store_names[] = {
    [STORE_THREADS] = "store (by threads)",         [STORE_STAGED] = "store (staged, tma)",
    [STORE_TRANSPOSED] = "store (transposed, tma)", [STORE_REDUCE] = "store (added, tma)",
    [STORE_ATOMIC] = "store (atomic)",              [STORE_BOXES] = "store (boxes, tma)",
};
static const char *const map_names[] = {
    [MAP_ELEMENTS] = "map",                            [MAP_BEGIN_PARTIALS] = "map (begin partial results)",
    [MAP_COMBINE_GROUPS] = "map (combine warp groups)", [MAP_COMBINE_THREADS] = "map (combine threads)",
    [MAP_CONVERT] = "convert",                         [MAP_STAGE] = "stage",
};
// clang-format on

const char *action_name(ActionKind kind) { return action_names[kind]; }

// ---- tables

static void dump_shape(const Dump *dump, const ScheduleTile *tile)
{
    text_print(dump->out, "%s", tile->name);
    if (tile->rank) text_print(dump->out, " %s", dtype_name(tile->type));
    for (int d = 0; d < tile->rank; d++) text_print(dump->out, "[%lld]", (long long)tile->shape[d]);
    if (tile->layout && *tile->layout) text_print(dump->out, ", %s", tile->layout);
}

static void dump_tile(const Dump *dump, const ScheduleTile *tile)
{
    text_print(dump->out, "    ");
    dump_shape(dump, tile);
    if (tile->place == TILE_REGISTERS) {
        text_print(dump->out, ", %d registers a thread\n", tile->registers);
        return;
    }
    text_print(dump->out, ": ");
    const int n = tile->parts ? tile->parts : tile->slots;
    if (n > 1) text_print(dump->out, "%d x ", n);
    text_print(dump->out, "%d bytes @%d", tile->parts ? tile->part_bytes : tile->bytes, tile->offset);
    if (tile->is_over) text_print(dump->out, ", overlaps others");
    if (tile->ring != NO_RING) text_print(dump->out, ", ring %s", dump->schedule->rings.items[tile->ring]->name);
    text_print(dump->out, "\n");
}

static void dump_tiles(const Dump *dump, TilePlace place, const char *title)
{
    bool any = false;
    for (int i = 0; i < dump->schedule->tiles.count; i++) {
        const ScheduleTile *const tile = dump->schedule->tiles.items[i];
        if (tile->place != place) continue;
        if (!any) text_print(dump->out, "  %s\n", title);
        any = true;
        dump_tile(dump, tile);
    }
}

static void dump_rings(const Dump *dump)
{
    if (dump->schedule->rings.count) text_print(dump->out, "  rings\n");
    for (int i = 0; i < dump->schedule->rings.count; i++) {
        const ScheduleRing *const ring = dump->schedule->rings.items[i];
        text_print(dump->out, "    %s[%d]: full @%d counts %d", ring->name, ring->slots, ring->full_offset,
                   ring->full_count);
        if (ring->elements_count) text_print(dump->out, " (%d without boxes)", ring->elements_count);
        text_print(dump->out, ", empty @%d counts %d", ring->empty_offset, ring->empty_count);
        if (ring->bytes) text_print(dump->out, ", %d bytes a fill", ring->bytes);
        if (ring->by_consumers) text_print(dump->out, ", filled by consumers");
        if (ring->across_cluster) text_print(dump->out, ", across the cluster");
        text_print(dump->out, "\n");
    }
}

static void dump_roles(const Dump *dump)
{
    text_print(dump->out, "  roles\n");
    for (int i = 0; i < dump->schedule->roles.count; i++) {
        const ScheduleRole *const role = dump->schedule->roles.items[i];
        text_print(dump->out, "    %s: threads %d .. %d", role->name, role->first_thread,
                   role->first_thread + role->threads - 1);
        if (role->registers) text_print(dump->out, ", %d registers each", role->registers);
        text_print(dump->out, "\n");
    }
}

static void dump_tables(const Dump *dump)
{
    const Schedule *const schedule = dump->schedule;
    text_print(dump->out, "schedule %s for %s: %d threads, %d bytes of shared memory", schedule->kernel,
               schedule->target, schedule->threads, schedule->shared_bytes);
    if (schedule->cluster > 1) text_print(dump->out, ", clusters of %d", schedule->cluster);
    if (schedule->is_persistent) text_print(dump->out, ", persistent");
    text_print(dump->out, "\n");
    dump_roles(dump);
    dump_tiles(dump, TILE_REGISTERS, "registers");
    dump_tiles(dump, TILE_SHARED, "shared memory");
    dump_rings(dump);
}

// ---- what actions say

// The first line of a source operation, without the semicolon, cut where it becomes long.
static void dump_source(const Dump *dump, const TileOp *op)
{
    Text line = { .arena = dump->schedule->arena };
    tile_print_head(&line, NULL, op);
    const char *const text = text_cstr(&line);
    int n = (int)line.length;
    if (n && text[n - 1] == ';') n--;
    if (n > SOURCE_COLUMNS) text_print(dump->out, "%.*s...", SOURCE_COLUMNS - 3, text);
    else text_print(dump->out, "%.*s", n, text);
}

static void dump_slots(const Dump *dump, const TileAccess *access)
{
    text_print(dump->out, "[%d", access->ahead);
    if (access->slots > 1) text_print(dump->out, " .. %d", access->ahead + access->slots - 1);
    text_print(dump->out, "]");
}

// The tiles that an action reads or writes, in the order of its accesses; returns how many.
static int dump_accesses(const Dump *dump, const Action *action, bool writes, const char *before)
{
    int n = 0;
    for (int i = 0; i < action->n_accesses; i++) {
        const TileAccess *const access = &action->accesses[i];
        if (writes ? !access->writes : !access->reads) continue;
        const ScheduleTile *const tile = dump->schedule->tiles.items[access->tile];
        text_print(dump->out, "%s%s", n++ ? ", " : before, tile->name);
        if (access->slots) dump_slots(dump, access);
        else if (access->ahead) text_print(dump->out, "(%+d)", access->ahead);
    }
    return n;
}

// The source operation; for what a pass has made, the tiles.
static void dump_work(const Dump *dump, const Action *action)
{
    if (action->op) {
        text_print(dump->out, " ");
        dump_source(dump, action->op);
        return;
    }
    dump_accesses(dump, action, true, " ");
    dump_accesses(dump, action, false, " <- ");
}

// What a loop or branch of elementwise work reads and writes, which its first line does not say.
static void dump_map(const Dump *dump, const Action *action)
{
    dump_work(dump, action);
    if (!action->op || action->op->kind != T_FORALL) return;
    dump_accesses(dump, action, true, ": ");
    dump_accesses(dump, action, false, " <- ");
}

static void dump_whole_map(const Dump *dump, const Action *action)
{
    text_print(dump->out, "%s", map_names[action->map.how]);
    dump_map(dump, action);
}

static const char *ring_name(const Dump *dump, const Action *action)
{
    if (action->ring.ring == NO_RING) return dump->schedule->tiles.items[action->ring.tile]->name;
    return dump->schedule->rings.items[action->ring.ring]->name;
}

static void dump_ring(const Dump *dump, const Action *action)
{
    static const char *const slots[] = { "", " (previous slot)", " (next slot)" };
    text_print(dump->out, " %s%s", ring_name(dump, action), slots[action->ring.slot]);
    if (action->kind == ACTION_EXPECT) text_print(dump->out, ", %d bytes", action->ring.bytes);
    if (action->ring.arrivals > 1) text_print(dump->out, ", %d arrivals", action->ring.arrivals);
}

static void dump_copy(const Dump *dump, const Action *action)
{
    const TileOp *const op = action->op;
    text_print(dump->out, "%s%s", copy_names[action->copy.how], action->copy.walks ? " im2col" : "");
    if (action->copy.shifts) text_print(dump->out, " shifted%s", action->copy.ahead ? ", fetched a step ahead" : "");
    if (op && op->kind == T_COPY) {
        text_print(dump->out, " ");
        tile_print_region(dump->out, NULL, &op->copy.dst);
        text_print(dump->out, " <- ");
        tile_print_region(dump->out, NULL, &op->copy.src);
    } else if (op) {
        dump_map(dump, action);
    } else {
        dump_accesses(dump, action, true, " ");
    }
    if (action->copy.bytes) text_print(dump->out, ", %d bytes", action->copy.bytes);
    if (action->copy.boxes) text_print(dump->out, " in %d boxes", action->copy.boxes);
    if (action->copy.predicate) text_print(dump->out, ", if %s", action->copy.predicate);
}

static void dump_store(const Dump *dump, const Action *action)
{
    text_print(dump->out, "%s", store_names[action->store.how]);
    dump_work(dump, action);
    if (action->store.bytes) text_print(dump->out, ", %d bytes", action->store.bytes);
}

static void dump_mma(const Dump *dump, const Action *action)
{
    text_print(dump->out, action->mma.is_async ? "mma.issue" : "mma");
    dump_work(dump, action);
    if (!action->mma.instruction) return;
    text_print(dump->out, ", ");
    if (action->mma.count > 1) text_print(dump->out, "%d x ", action->mma.count);
    text_print(dump->out, "%s", action->mma.instruction);
}

// Of the product that takes what is loaded.
static void dump_ldmatrix(const Dump *dump, const Action *action)
{
    text_print(dump->out, "%s", action_name(action->kind));
    dump_accesses(dump, action, false, " ");
    if (!action->op) return;
    text_print(dump->out, ", for ");
    dump_source(dump, action->op);
}

static void dump_barrier(const Dump *dump, const Action *action)
{
    static const char *const of[] = { "", " + group", " + next group" };
    text_print(dump->out, "%s %d%s", action_name(action->kind), action->barrier.barrier, of[action->barrier.of]);
    if (action->barrier.threads) text_print(dump->out, ", %d threads", action->barrier.threads);
}

static void dump_loop(const Dump *dump, const Action *action)
{
    static const char *const parts[] = {
        [LOOP_ALL] = "",
        [LOOP_REST] = ", steps after the first",
        [LOOP_ONE_MORE] = ", one extra iteration",
        [LOOP_AHEAD] = ", prologue iterations: ",
    };
    if (action->loop.source) dump_source(dump, action->loop.source);
    else text_print(dump->out, "for");
    text_print(dump->out, "%s", parts[action->loop.part]);
    if (action->loop.part == LOOP_AHEAD) text_print(dump->out, "%d", action->loop.ahead);
}

static void dump_branch(const Dump *dump, const Action *action)
{
    if (action->branch.source) dump_source(dump, action->branch.source);
    else text_print(dump->out, "if");
    if (!action->branch.is_uniform) text_print(dump->out, " (each thread for itself)");
}

static void dump_issue(const Dump *dump, int threads)
{
    if (threads > 1) text_print(dump->out, "by %d threads", threads);
    else text_print(dump->out, "by one elected thread");
}

static void dump_scope(const Dump *dump, const Action *action)
{
    const ScopeKind kind = action->scope.kind;
    text_print(dump->out, "%s", scope_names[kind]);
    if (kind == SCOPE_ISSUE || kind == SCOPE_ALIGNED) dump_issue(dump, action->scope.threads);
    else if (kind == SCOPE_ONE_GROUP || kind == SCOPE_ROW_PART) text_print(dump->out, " %d", action->scope.threads);
    else if (action->scope.threads > 1) text_print(dump->out, " (%d threads)", action->scope.threads);
}

static void dump_jump(const Dump *dump, const Action *action)
{
    text_print(dump->out, action->jump.how == T_BREAK      ? "break"
                          : action->jump.how == T_CONTINUE ? "continue"
                                                           : "return");
}

static void dump_registers(const Dump *dump, const Action *action)
{
    const int tile = action->registers.tile;
    text_print(dump->out, "%s %s", action_name(action->kind),
               tile == NO_TILE ? "all" : dump->schedule->tiles.items[tile]->name);
}

static void dump_head(const Dump *dump, const Action *action)
{
    switch (action->kind) {
    case ACTION_LOOP: dump_loop(dump, action); return;
    case ACTION_IF: dump_branch(dump, action); return;
    case ACTION_SCOPE: dump_scope(dump, action); return;
    case ACTION_JUMP: dump_jump(dump, action); return;
    case ACTION_COPY: dump_copy(dump, action); return;
    case ACTION_STORE: dump_store(dump, action); return;
    case ACTION_MMA: dump_mma(dump, action); return;
    case ACTION_FENCE_REGISTERS: dump_registers(dump, action); return;
    case ACTION_BARRIER_SYNC:
    case ACTION_BARRIER_ARRIVE: dump_barrier(dump, action); return;
    case ACTION_ACQUIRE:
    case ACTION_EXPECT:
    case ACTION_ARRIVE:
    case ACTION_WAIT:
    case ACTION_RELEASE:
    case ACTION_ADVANCE:
        text_print(dump->out, "%s", action_name(action->kind));
        dump_ring(dump, action);
        return;
    case ACTION_COPY_WAIT:
    case ACTION_STORE_WAIT:
    case ACTION_MMA_WAIT:
        text_print(dump->out, "%s%s %d", action_name(action->kind), action->wait.completes ? " (written)" : "",
                   action->wait.pending);
        return;
    case ACTION_MAP: dump_whole_map(dump, action); return;
    case ACTION_LDMATRIX: dump_ldmatrix(dump, action); return;
    case ACTION_SCAN:
    case ACTION_ATOMIC:
        text_print(dump->out, "%s", action_name(action->kind));
        dump_map(dump, action);
        return;
    case ACTION_PREFETCH:
    case ACTION_SCALAR:
        text_print(dump->out, "%s", action_name(action->kind));
        if (action->op) dump_work(dump, action);
        return;
    case ACTION_GRID:
    case ACTION_COPY_COMMIT:
    case ACTION_FENCE_ASYNC:
    case ACTION_CLUSTER_SYNC:
    case ACTION_WARP_SYNC: text_print(dump->out, "%s", action_name(action->kind)); return;
    case ACTION_DECLARE:
        text_print(dump->out, "row indices");
        dump_work(dump, action);
        return;
    }
}

// ---- the tree

static void dump_line(const Dump *dump, int depth) { text_print(dump->out, "%*s", 2 * depth, ""); }

static void dump_block(const Dump *dump, const Action *action, int depth)
{
    for (; action; action = action->next) {
        if (action->kind == ACTION_DECLARE && !action->n_accesses) continue;
        dump_line(dump, depth);
        dump_head(dump, action);
        text_print(dump->out, "\n");
        dump_block(dump, action->body, depth + 1);
        if (!action->otherwise) continue;
        dump_line(dump, depth);
        text_print(dump->out, action->kind == ACTION_SCOPE ? "otherwise\n" : "else\n");
        dump_block(dump, action->otherwise, depth + 1);
    }
}

void schedule_dump_action(const Schedule *schedule, const Action *action, Text *text)
{
    const Dump dump = { schedule, text };
    dump_head(&dump, action);
}

const char *schedule_ring_name(Arena *arena, const Schedule *schedule, int ring)
{
    const char *const name = schedule->rings.items[ring]->name;
    int n = 1;
    for (int i = 0; i < ring; i++) n += strcmp(schedule->rings.items[i]->name, name) == 0;
    return n > 1 ? arena_printf(arena, "%s (%d)", name, n) : name;
}

void schedule_dump(const Schedule *schedule, Text *text)
{
    const Dump dump = { schedule, text };
    dump_tables(&dump);
    for (int i = 0; i < schedule->roles.count; i++) {
        const ScheduleRole *const role = schedule->roles.items[i];
        text_print(text, "%s:\n", role->name);
        dump_block(&dump, role->body, 1);
    }
}
