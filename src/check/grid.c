// SPDX-License-Identifier: MIT
// grid.c - grid (x : X, y : Y) hints: the instances of a kernel.
#include "check/context.h"

static bool hint_number(Checker *cx, const Hint *hint, int64_t most, int64_t *value)
{
    if (!hint->argument || hint->has_reason)
        return check_error(cx, hint->span, "'%s' needs a number: %s(8)", hint->name, hint->name);
    if (!check_const_int(cx, hint->argument, "a hint's number", value)) return false;
    if (*value >= 1 && *value <= most) return true;
    return check_error(cx, hint->span, "%s(%lld): there are 1 to %lld", hint->name, (long long)*value, (long long)most);
}

static void check_cluster_hint(Checker *cx, const Hint *hint)
{
    int64_t n;
    if (!hint->argument_name || hint->has_reason) {
        check_error(cx, hint->span, "'cluster' names a coordinate: cluster(x = 2)");
        return;
    }
    if (!hint_number(cx, hint, 16, &n)) return;
    const char *names[64];
    for (int i = 0; i < cx->grid.count; i++) {
        names[i] = cx->grid.items[i].var->name;
        if (names[i] != hint->argument_name) continue;
        cx->grid.items[i].cluster = (int)n;
        if (n > 1) {
            Expr *const rest = expr_binary(cx->arena, X_MOD, cx->grid.items[i].extent, int_const(cx->arena, n));
            Expr *const cond = expr_binary(cx->arena, X_EQ, rest, int_const(cx->arena, 0));
            const char *const message = arena_printf(
                cx->arena, "the extent of '%s' must be a multiple of its cluster, %lld", names[i], (long long)n);
            bool known;
            if (!is_const_bool(cond, &known))
                VEC_PUSH(cx->arena, &cx->requires, ((TileRequire){ cond, message, hint->span }));
            else if (!known)
                check_error(cx, hint->span, "%s; it is %s", message, show_expr(cx, cx->grid.items[i].extent));
        }
        return;
    }
    check_error(cx, hint->span, "the grid has no coordinate '%s'", hint->argument_name);
    const char *const near = nearest_name(hint->argument_name, names, cx->grid.count);
    if (near) check_help(cx, hint->span, "did you mean '%s'?", near);
}

// accept(serial, "why"): performance notes of that kind are meant (ir/note.h).
static void check_accept_hint(Checker *cx, const Hint *hint)
{
    const char *names[NOTE_KINDS];
    for (int i = 0; i < NOTE_KINDS; i++) names[i] = note_infos[i].name;
    if (!hint->has_reason || !hint->argument || hint->argument->kind != EX_STRING) {
        check_error(cx, hint->span,
                    "'accept' names a kind of performance note and the reason: accept(serial, \"why\")");
        return;
    }
    const int kind = note_find(hint->argument_name);
    if (kind >= 0) {
        cx->kernel->notes.accepted[kind] = hint->argument->string.text;
        return;
    }
    check_error(cx, hint->span, "there is no performance note '%s'", hint->argument_name);
    const char *const near = nearest_name(hint->argument_name, names, NOTE_KINDS);
    if (near) check_help(cx, hint->span, "did you mean '%s'?", near);
}

static const char *const grid_hints[] = {
    "warps", "occupancy", "rasterize", "persistent", "cluster", "early", "accept"
};

const char *check_grid_word(int i) { return i < COUNT(grid_hints) ? grid_hints[i] : NULL; }

static void check_grid_hint(Checker *cx, const Hint *hint)
{
    TileKernel *const k = cx->kernel;
    int64_t n;
    if (strcmp(hint->name, "warps") == 0) {
        if (!hint_number(cx, hint, 32, &n)) return;
        if (n > 2 && n % 4 != 0)
            check_error(cx, hint->span, "warps(%lld): computing warps are 1, 2 or a multiple of 4", (long long)n);
        k->warps = (int)n;
    } else if (strcmp(hint->name, "occupancy") == 0) {
        if (hint_number(cx, hint, 32, &n)) k->occupancy = (int)n;
    } else if (strcmp(hint->name, "rasterize") == 0) {
        if (hint_number(cx, hint, 1024, &n)) k->rasterize = (int)n;
    } else if (strcmp(hint->name, "persistent") == 0) {
        if (hint->argument) check_error(cx, hint->span, "'persistent' takes no number");
        k->persistent = true;
    } else if (strcmp(hint->name, "early") == 0) {
        if (hint->argument) check_error(cx, hint->span, "'early' takes no number");
        k->early = true;
    } else if (strcmp(hint->name, "cluster") == 0) {
        check_cluster_hint(cx, hint);
    } else if (strcmp(hint->name, "accept") == 0) {
        check_accept_hint(cx, hint);
    } else {
        check_error(cx, hint->span, "there is no grid hint '%s'", hint->name);
        const char *const near = nearest_name(hint->name, grid_hints, COUNT(grid_hints));
        if (near) check_help(cx, hint->span, "did you mean '%s'?", near);
    }
}

static void check_coordinate(Checker *cx, const IndexVar *index)
{
    Entity entity = { .kind = ENTITY_POISON,
                      .name = index->name,
                      .span = index->span,
                      .what = "a grid coordinate",
                      .may_read = true,
                      .type = DTYPE_INT };
    Expr *const extent = check_int(cx, index->hi, "the extent of a coordinate");
    int64_t constant;
    if (index->lo) check_error(cx, index->lo->span, "a coordinate counts from 0: '%s : n'", index->name);
    else if (extent && !known_at_launch(extent)) {
        check_error(cx, index->hi->span, "the extent of a coordinate depends on shapes and scalar arguments only");
    } else if (extent && expr_as_int(extent, &constant) && constant < 0) {
        check_error(cx, index->hi->span, "an extent of %lld", (long long)constant);
    } else if (extent) {
        Var *const var = tile_new_var(cx->kernel, VAR_GRID, DTYPE_INT, index->name, index->span);
        var->lo = int_const(cx->arena, 0);
        var->hi = int_sub(cx->arena, extent, int_const(cx->arena, 1));
        entity.kind = ENTITY_VARIABLE;
        entity.var = var;
        VEC_PUSH(cx->arena, &cx->grid, ((TileGridDim){ var, extent, 0 }));
    }
    declare(cx, entity);
}

void check_grid(Checker *cx, const St *st)
{
    if (cx->call) {
        check_error(cx, st->span, "a function has no grid");
        return;
    }
    if (cx->has_grid) {
        check_error(cx, st->span, "a second grid");
        return;
    }
    if (cx->branch_depth > 0 || cx->loop) {
        check_error(cx, st->span, "the grid stands outside of conditions and loops");
        return;
    }
    cx->has_grid = true;
    int n = 0;
    for (const IndexVar *index = st->grid.indices; index; index = index->next, n++) {
        if (n == 64) {
            check_error(cx, index->span, "more than 64 coordinates");
            return;
        }
        check_coordinate(cx, index);
    }
    cx->is_launch_time = false;
    for (const Hint *hint = st->grid.hints; hint; hint = hint->next) check_grid_hint(cx, hint);
}
