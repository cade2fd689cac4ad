// rows.c - a filler's rows: k[r][d] = f(tensor[..r..][d]) in pieces of 16 bytes of the tile.
//
// Plain copies go by cp.async: no register stands in between, and all of a row are in flight. What is converted passes
// through registers: two sets of them, each loaded anew, from the next line if this one ends, as soon as it is
// converted, so that a set is always in flight. Where it is known which rows the next step converts (places.c), both sets
// of the next step's only line are loaded once this step's is sent: the fence before that waits for what is in flight.
// There a copy of the same rows to the columns behind the converted ones is their tail: loaded, stored and sent with them.
// Factors that a whole piece shares (scales of a block of columns) are loaded once.
#include "lower/cuda/cuda.h"

enum { PIECE = 8, PIECE_BYTES = 16, SET_WORDS = 16, SET_UNITS = 8, SETS = 2, RUNS_MAX = 4, SHARED_MAX = 4, CLUSTER_MAX = 16, LINES_MAX = 8 };

// Of a line: where the load stands at its first column, and whether it is inside. A stock's is, and reads so many bytes.
struct Line { Var *pointer, *inside; int size, bytes; };         // size: of an element, in the tensor's own elements
typedef struct Run { Expr *load; Var *element, *wide; Line line; } Run;          // consecutive along the columns
typedef struct Each { Expr *load; Var *value; int64_t by; Line line; } Each;     // one for `by` columns; 0: for all

// Of a tile among the lanes: `across` of them beside each other, each with `pieces` of every `lines` lines.
typedef struct Spread { Iteration it; int across, pieces, lines, digit; } Spread;          // digit: of the lines; -1: there is one

typedef struct Rows {
    Lowering *lo;
    TileOp   *store;
    Var      *column;
    Run       runs[RUNS_MAX]; int n_runs;
    Each      each[SHARED_MAX]; int n_each;
    Expr     *value;                 // with the loads replaced by their variables
    bool      fits, is_copy;
    int       unit;                  // elements that a lane loads at a time
    Var      *away[CLUSTER_MAX], *full_away[CLUSTER_MAX]; int n_away;    // from here to the other instances that get the rows; their barriers
} Rows;

static int low_bit(int64_t x) { return x == 0 ? PIECE_BYTES : (int)(x & -x) < PIECE_BYTES ? (int)(x & -x) : PIECE_BYTES; }

// Of buffer[.., sub]: what bytes its address is a multiple of, if `sub` is; 0: the last dimension may be left, or moves.
static int place_alignment(const Buffer *buffer, const Expr *sub, int64_t multiple)
{
    const Range range = expr_range(sub);
    int64_t extent, start;
    int align = low_bit(multiple * dtype_bits(buffer->type) / 8);
    if (buffer->rank < 1 || !expr_as_int(buffer->shape[buffer->rank - 1], &extent) || !range.has_lo || range.lo < 0 || !range.has_hi || range.hi >= extent)
        return 0;
    for (; buffer->kind == BUFFER_VIEW; buffer = buffer->base.buffer) {
        const Region *const base = &buffer->base;
        const Sub *const of_base = &base->subs[base->buffer->rank - 1];
        const int64_t bytes = extent * dtype_bits(buffer->type) / 8, size = dtype_bits(base->buffer->type) / 8;
        if (region_rank(base) != buffer->rank || !of_base->is_range || of_base->step || !expr_as_int(of_base->start, &start) || start < 0 ||
            size < 1 || !expr_as_int(base->buffer->shape[base->buffer->rank - 1], &extent) || start * size + bytes > extent * size)
            return 0;
        const int here = low_bit(start * size);
        align = here < align ? here : align;
    }
    if (buffer->kind != BUFFER_TENSOR || buffer->strided || buffer->access != ACCESS_IN)
        return 0;
    int64_t stride = dtype_bits(buffer->type) / 8;
    for (int d = buffer->rank - 1; d > 0; d--) {
        stride *= expr_multiple(buffer->shape[d]);
        const int here = buffer->stride[0] ? low_bit(expr_multiple(buffer->stride[d - 1]) * dtype_bits(buffer->type) / 8) : low_bit(stride);
        align = here < align ? here : align;
    }
    return align;
}

static bool only_last_uses(const Rows *rows, const Expr *load)
{
    for (int d = 0; d + 1 < load->load.buffer->rank; d++)
        if (expr_uses(load->load.subs[d], rows->column))
            return false;
    return load->load.buffer->rank > 0;
}

static bool is_run(const Rows *rows, const Expr *load)
{
    const Buffer *const buffer = load->load.buffer;
    const int last = buffer->rank - 1, size = dtype_bits(buffer->type) / 8;
    int64_t coefficient = 0;
    Expr *rest = NULL;
    return only_last_uses(rows, load) && size >= 1 && size <= 2 &&
           expr_affine(rows->lo->arena, load->load.subs[last], (Var *const *)&rows->column, 1, &coefficient, &rest) && coefficient == 1 &&
           expr_multiple(rest) % PIECE == 0 && place_alignment(buffer, load->load.subs[last], PIECE) >= PIECE * size;
}

// One value for columns / by, or for all.
static bool is_each(const Rows *rows, const Expr *load, int64_t *by)
{
    const Expr *const sub = load->load.buffer->rank > 0 ? load->load.subs[load->load.buffer->rank - 1] : NULL;
    if (!sub || !only_last_uses(rows, load) || dtype_bits(load->type) != 32 || place_alignment(load->load.buffer, sub, 1) < 4)
        return false;
    *by = 0;
    if (!expr_uses(sub, rows->column))
        return true;
    return sub->kind == E_BINARY && sub->op.op == X_DIV && sub->op.a->kind == E_VAR && sub->op.a->var.var == rows->column &&
           expr_as_int(sub->op.b, by) && *by > 0 && *by % PIECE == 0;
}

static void see_leaf(Expr *x, Rows *rows)
{
    Lowering *const lo = rows->lo;
    int64_t by;
    if (x->kind == E_ATOMIC || x->kind == E_CALL)
        rows->fits = false;
    if (x->kind == E_VAR && x->var.var == rows->column)
        rows->fits = false;          // outside of subscripts
    if (x->kind != E_LOAD)
        return;
    for (int i = 0; i < rows->n_runs; i++)
        if (expr_equal(rows->runs[i].load, x))
            return;
    for (int i = 0; i < rows->n_each; i++)
        if (expr_equal(rows->each[i].load, x))
            return;
    if (is_run(rows, x) && rows->n_runs < RUNS_MAX)
        rows->runs[rows->n_runs++] = (Run){ .load = x, .element = tile_new_var(lo->kernel, VAR_LOCAL, x->type, "element", x->span),
                                            .wide = tile_new_var(lo->kernel, VAR_LOCAL, DTYPE_F32, "wide", x->span) };
    else if (is_each(rows, x, &by) && rows->n_each < SHARED_MAX)
        rows->each[rows->n_each++] = (Each){ .load = x, .value = tile_new_var(lo->kernel, VAR_LOCAL, x->type, "each", x->span), .by = by };
    else
        rows->fits = false;
}

static bool is_narrow_float(DType t) { return t == DTYPE_E4M3 || t == DTYPE_E5M2 || t == DTYPE_BF16 || t == DTYPE_F16; }

static Expr *replace_load(Expr *x, void *context)
{
    const Rows *const rows = context;
    Arena *const a = rows->lo->arena;
    for (int i = 0; i < rows->n_runs; i++) {
        if (x->kind == E_LOAD && expr_equal(x, rows->runs[i].load))
            return expr_var(a, rows->runs[i].element);
        if (x->kind == E_CONVERT && x->type == DTYPE_F32 && x->convert.a->kind == E_VAR && x->convert.a->var.var == rows->runs[i].element &&
            is_narrow_float(rows->runs[i].load->type))
            return expr_var(a, rows->runs[i].wide);
    }
    for (int i = 0; i < rows->n_each; i++)
        if (x->kind == E_LOAD && expr_equal(x, rows->each[i].load))
            return expr_var(a, rows->each[i].value);
    return x;
}

// Not into the subscripts of loads.
static void find_loads(Rows *rows, Expr *x)
{
    if (x->kind == E_LOAD || x->kind == E_VAR || x->kind == E_ATOMIC || x->kind == E_CALL) {
        see_leaf(x, rows);
        return;
    }
    Expr **slots[8];
    const int n = expr_children(x, slots, COUNT(slots));
    for (int i = 0; i < n; i++)
        find_loads(rows, *slots[i]);
}

// Of bytes sixteen, so that loads move 16 bytes too.
static int choose_unit(const Rows *rows, int64_t columns)
{
    bool bytes = !rows->is_copy && columns % (4 * PIECE_BYTES) == 0;
    for (int i = 0; i < rows->n_runs; i++) {
        const Expr *const load = rows->runs[i].load, *const sub = load->load.subs[load->load.buffer->rank - 1];
        int64_t coefficient;
        Expr *rest = NULL;
        bytes = bytes && dtype_bits(load->type) == 8 && expr_affine(rows->lo->arena, (Expr *)sub, (Var *const *)&rows->column, 1, &coefficient, &rest) &&
                expr_multiple(rest) % PIECE_BYTES == 0 && place_alignment(load->load.buffer, sub, PIECE_BYTES) >= PIECE_BYTES;
    }
    for (int i = 0; i < rows->n_each; i++)
        bytes = bytes && rows->each[i].by % PIECE_BYTES == 0;
    return bytes ? PIECE_BYTES : PIECE;
}

static bool plan_rows(Lowering *lo, TileOp *op, Rows *rows)
{
    TileOp *const forall = as_map(lo, op);
    TileOp *const store = forall->forall.body;
    *rows = (Rows){ .lo = lo, .store = store, .fits = true };
    if (lo->target->arch < 90 || !store || store->next || store->kind != T_STORE || forall->forall.n != 2)
        return false;
    const TileInfo *const tile = tile_info(lo, store->store.buffer);
    int64_t extent[2], coefficient = 0;
    Expr *rest = NULL;
    const Crew crew = op_info(lo, op)->fills ? (Crew){ 1, 4 } : map_crew(lo, forall);
    if (!tile || tile->home != HOME_SHARED || !tile->wants_panels || tile->buffer->hint != HINT_NONE || dtype_bits(tile->buffer->type) != 16 || tile->buffer->rank != 2 ||
        !full_extent(&forall->forall.indices[0], &extent[0]) || !full_extent(&forall->forall.indices[1], &extent[1]) ||
        extent[0] % (8 * crew.warps * crew.groups) != 0 || extent[1] % (4 * PIECE) != 0 || extent[1] == 4 * PIECE)
        return false;
    rows->column = forall->forall.indices[1].var;
    if (expr_uses(store->store.subs[0], rows->column) ||
        !expr_affine(lo->arena, store->store.subs[1], &rows->column, 1, &coefficient, &rest) || coefficient != 1 || expr_multiple(rest) % PIECE != 0)
        return false;
    find_loads(rows, store->store.value);
    if (!rows->fits || !rows->n_runs)
        return false;
    rows->is_copy = rows->n_runs == 1 && !rows->n_each && store->store.value->kind == E_LOAD && store->store.value->type == tile->buffer->type &&
                    dtype_bits(store->store.value->type) == 16;
    rows->value = expr_map(lo->arena, store->store.value, replace_load, rows);
    rows->unit = choose_unit(rows, extent[1]);
    return true;
}

// Set i of a line holds chunk i; where a line has more chunks than there are sets, they take turns.
static int chunk_units(const Rows *rows, int units)
{
    int words = 0, chunk = units;
    for (int i = 0; i < rows->n_runs; i++)
        words += rows->unit * dtype_bits(rows->runs[i].load->type) / 32;
    while (chunk > 1 && (units % chunk != 0 || chunk * words > SET_WORDS || chunk > SET_UNITS))
        chunk--;
    return chunk;
}

bool fill_is_rows(Lowering *lo, TileOp *op)
{
    Rows rows;
    return plan_rows(lo, op, &rows);
}

bool fill_is_gather(Lowering *lo, TileOp *op)
{
    Rows rows;
    return plan_rows(lo, op, &rows) && rows.is_copy;
}

// ---- printing

// The numbers of the row, read once: a test that reads one again is a branch around it.
static void read_subscripts(Lowering *lo, Expr **subs, int n, const Iteration *it)
{
    for (int d = 0; d < n; d++) {
        if (!expr_loads(subs[d]))
            continue;
        Var *const number = tile_new_var(lo->kernel, VAR_LOCAL, subs[d]->type, "number", subs[d]->span);
        *var_slot(lo, number) = emit_declare(lo, loop_type(subs[d]->type), "number", lower_as(lo, subs[d]->type, subs[d], it));
        subs[d] = expr_var(lo->arena, number);
    }
}

// At the first columns of a line.
static Line begin_line(Lowering *lo, const Expr *load, const Iteration *it)
{
    Place place;
    Line line = { 0 };
    Expr *subs[MAX_RANK];
    memcpy(subs, load->load.subs, sizeof(Expr *) * (size_t)load->load.buffer->rank);
    if (lo->stock)
        read_subscripts(lo, subs, load->load.buffer->rank, it);
    if (!place_element(lo, load->load.buffer, subs, it, &place, load->span))
        return line;
    line.size = dtype_bits(load->load.buffer->type) / dtype_bits(place.root->type);
    line.inside = emit_declare(lo, DTYPE_BOOL, "inside", place.inside ? place.inside : expr_bool(lo->arena, true));
    line.pointer = loop_new_pointer(lo->unit, place.pointer->type, "line_at");
    Expr *const at = expr_select(lo->arena, var_of(lo, line.inside), place.at, expr_int(lo->arena, place.at->type, 0));
    loop_add(lo->out, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = line.pointer, .value = expr_address(lo->arena, place.pointer, at) } });
    return line;
}

static Expr *in_line(Lowering *lo, const Line *line, Expr *elements)
{
    return expr_address(lo->arena, line->pointer, i32_mul(lo, elements, line->size));
}

static Expr *piece_address(Lowering *lo, Rows *rows, const Iteration *it)
{
    Place place;
    place_element(lo, rows->store->store.buffer, rows->store->store.subs, it, &place, rows->store->span);
    return call_expr(lo, DTYPE_U32, "shared_address", 1, expr_address(lo->arena, place.pointer, place.at));
}

// Units of a line that share the value, where all lanes' columns of a unit do; else 1.
static int units_of_each(const Rows *rows, const Each *x, int units)
{
    const int64_t n = x->by / (4 * rows->unit);
    return x->by == 0 ? units : x->by % (4 * rows->unit) == 0 && units % n == 0 ? (int)n : 1;
}

// A set of registers: consecutive units of a line.
typedef struct Set { Var *raw[SET_UNITS][RUNS_MAX], *each[SET_UNITS][SHARED_MAX]; } Set;

static void declare_set(Lowering *lo, const Rows *rows, Set *set, int units)
{
    for (int u = 0; u < units; u++) {
        for (int i = 0; i < rows->n_runs; i++)
            set->raw[u][i] = emit_array(lo, DTYPE_U32, "raw", rows->unit * dtype_bits(rows->runs[i].load->type) / 32);
        for (int i = 0; i < rows->n_each; i++)
            set->each[u][i] = u % units_of_each(rows, &rows->each[i], units) != 0 ? set->each[u - 1][i]
                            : emit_declare(lo, loop_type(rows->each[i].load->type), "each", NULL);
    }
}

// Units `from` .. of the line.
static void load_set(Lowering *lo, const Rows *rows, const Set *set, int from, int units, Expr *column)
{
    Arena *const a = lo->arena;
    const char *const ahead = lo->stock ? "_ahead" : "";       // there a line is never outside
    for (int u = 0; u < units; u++) {
        const int columns = (from + u) * 4 * rows->unit;
        for (int i = 0; i < rows->n_runs; i++)
            emit_call(lo, arena_printf(a, "load_piece%s<%d>", ahead, rows->unit * dtype_bits(rows->runs[i].load->type) / 32), lo->stock ? 2 : 3,
                      var_of(lo, set->raw[u][i]), in_line(lo, &rows->runs[i].line, i32_const(lo, columns)),
                      lo->stock ? NULL : var_of(lo, rows->runs[i].line.inside));
        for (int i = 0; i < rows->n_each; i++) {
            const Each *const x = &rows->each[i];
            const int shared = units_of_each(rows, x, units);
            if (u % shared != 0)
                continue;
            Expr *const at = !x->by ? i32_const(lo, 0) : shared > 1 || x->by == 4 * rows->unit ? i32_const(lo, columns / x->by)
                           : expr_binary(a, X_DIV, i32_add(lo, column, i32_const(lo, columns)), i32_const(lo, x->by));
            emit_assign(lo, set->each[u][i], call_expr(lo, set->each[u][i]->type,
                        arena_printf(a, "load_each%s<%s>", ahead, dtype_info[set->each[u][i]->type].c_name), lo->stock ? 1 : 2, in_line(lo, &x->line, at),
                        lo->stock ? NULL : var_of(lo, x->line.inside)));
        }
    }
}

// Elements `part` * PIECE .. of a unit.
static void emit_converted_piece(Lowering *lo, Rows *rows, const Iteration *it, Var *const *raw, Var *const *each, int part)
{
    Arena *const a = lo->arena;
    const DType type = rows->store->store.buffer->type;
    Expr *const value = rows->value;
    const bool rounds = value->kind == E_CONVERT && value->convert.a->type == DTYPE_F32;
    Var *wide[RUNS_MAX];
    for (int i = 0; i < rows->n_runs; i++) {
        wide[i] = NULL;
        if (!expr_uses(value, rows->runs[i].wide))
            continue;
        const DType narrow = rows->runs[i].load->type;
        wide[i] = emit_array(lo, DTYPE_F32, "wide", PIECE);
        emit_call(lo, arena_printf(a, "widen_%s", dtype_name(narrow)), 3, var_of(lo, wide[i]), var_of(lo, raw[i]),
                  i32_const(lo, part * PIECE * dtype_bits(narrow) / 32));
    }
    for (int i = 0; i < rows->n_each; i++)
        *var_slot(lo, rows->each[i].value) = each[i];
    Var *const out = emit_array(lo, rounds ? DTYPE_F32 : DTYPE_U16, "out", PIECE);
    Var *const v = loop_new_var(lo->unit, DTYPE_I32, "v");
    Nest loop;
    begin_for(lo, &loop, v, i32_const(lo, 0), i32_const(lo, PIECE), i32_const(lo, 1), LOOP_UNROLL);
    for (int i = 0; i < rows->n_runs; i++) {
        const DType element = loop_type(rows->runs[i].load->type);
        *var_slot(lo, rows->runs[i].element) = emit_declare(lo, element, "element", call_expr(lo, element,
            arena_printf(a, "element_of<%s, %d>", dtype_info[element].c_name, PIECE), 3, var_of(lo, raw[i]), i32_const(lo, part), var_of(lo, v)));
        if (wide[i])
            *var_slot(lo, rows->runs[i].wide) = emit_declare(lo, DTYPE_F32, "x", expr_index(a, wide[i], var_of(lo, v)));
    }
    Expr *const x = rounds ? lower_as(lo, DTYPE_F32, value->convert.a, it) : lower_as(lo, type, value, it);
    loop_add(lo->out, (LoopStmt){ .kind = L_STORE, .store = { out, var_of(lo, v), x } });
    end_nest(lo, &loop);
    Expr *words[4];
    for (int w = 0; w < 4; w++)
        words[w] = call_expr(lo, DTYPE_U32, rounds ? arena_printf(a, "pack_%s", dtype_name(type)) : "pack_bits", 2,
                             expr_index(a, out, i32_const(lo, 2 * w)), expr_index(a, out, i32_const(lo, 2 * w + 1)));
    emit_call(lo, "store_piece", 5, piece_address(lo, rows, it), words[0], words[1], words[2], words[3]);
}

// `columns` past the lane's first: a block in which the column's variable stands there.
static Var *begin_columns(Lowering *lo, const Rows *rows, Nest *block, int columns)
{
    Var **const slot = var_slot(lo, rows->column), *const first = *slot;
    begin_block(lo, block);
    *slot = emit_declare(lo, first->type, first->name, expr_binary(lo->arena, X_ADD, var_of(lo, first), expr_int(lo->arena, first->type, columns)));
    return first;
}

static Expr *uniform(Lowering *lo, Expr *address)
{
    return call_expr(lo, DTYPE_U32, "(uint32_t)uniform", 1, call_expr(lo, DTYPE_I32, "(int32_t)", 1, address));
}

// The line that the warp has stored, to the other instances: eight rows of a panel are one piece of shared memory, which
// begins with the first lane's.
static void send_line(Lowering *lo, Rows *rows, const Iteration *it, int columns)
{
    Arena *const a = lo->arena;
    const SharedLayout *const panels = &tile_info(lo, rows->store->store.buffer)->shared;
    Nest block, one;
    Var *const first = begin_columns(lo, rows, &block, 0);
    Var *const piece = emit_declare(lo, DTYPE_U32, "piece", uniform(lo, piece_address(lo, rows, it)));
    emit_call(lo, "fence_async", 0);
    emit_call(lo, "__syncwarp", 0);
    begin_if(lo, &one, call_expr(lo, DTYPE_BOOL, "elected", 0));
    for (int i = 0; i < columns / panels->panel_columns; i++)
        for (int n = 0; n < rows->n_away; n++) {
            Expr *const at = expr_binary(a, X_ADD, var_of(lo, piece), expr_int(a, DTYPE_U32, i * panels->panel_bytes));
            emit_call(lo, "remote_copy", 4, expr_binary(a, X_ADD, at, var_of(lo, rows->away[n])), at,
                      expr_int(a, DTYPE_U32, 8 * panels->pitch_bytes), var_of(lo, rows->full_away[n]));
        }
    end_nest(lo, &one);
    end_nest(lo, &block);
    *var_slot(lo, rows->column) = first;
}

static void convert_set(Lowering *lo, Rows *rows, const Iteration *it, const Set *set, int from, int units)
{
    Nest block;
    for (int u = 0; u < units; u++)
        for (int part = 0; part < rows->unit / PIECE; part++) {
            Var *const first = begin_columns(lo, rows, &block, (from + u) * 4 * rows->unit + part * PIECE);
            emit_converted_piece(lo, rows, it, set->raw[u], set->each[u], part);
            end_nest(lo, &block);
            *var_slot(lo, rows->column) = first;
        }
}

static void begin_loads(Lowering *lo, Rows *rows, const Iteration *it)
{
    for (int i = 0; i < rows->n_runs; i++)
        rows->runs[i].line = begin_line(lo, rows->runs[i].load, it);
    for (int i = 0; i < rows->n_each; i++) {
        Expr *subs[MAX_RANK], *const load = rows->each[i].load;          // from the first value of the line
        memcpy(subs, load->load.subs, sizeof(Expr *) * (size_t)load->load.buffer->rank);
        if (rows->each[i].by)
            subs[load->load.buffer->rank - 1] = int_const(lo->arena, 0);
        rows->each[i].line = begin_line(lo, expr_load(lo->arena, load->load.buffer, subs), it);
    }
}

static void copy_line(Lowering *lo, Rows *rows, const Iteration *it, int pieces, int across)
{
    Nest block;
    for (int u = 0; u < pieces; u++) {
        Var *const first = begin_columns(lo, rows, &block, u * across * PIECE);
        emit_call(lo, "cp_async_16", 3, piece_address(lo, rows, it), in_line(lo, &rows->runs[0].line, i32_const(lo, u * across * PIECE)),
                  var_of(lo, rows->runs[0].line.inside));
        end_nest(lo, &block);
        *var_slot(lo, rows->column) = first;
    }
}

// The lane's place in line `line`, in variables of its own.
static void declare_line(Lowering *lo, Iteration *it, int digit, Var *line)
{
    if (digit >= 0)
        it->digit[digit] = line;
    for (int i = 0; i < it->n; i++)
        *var_slot(lo, it->indices[i].var) = NULL;
    declare_indices(lo, it, ~0u);
}

// How the pieces of `rows` lie, and in which digits of the lane's registers its columns and lines count; -1: in none.
static bool lay_rows(Lowering *lo, TileOp *op, const Rows *rows, Iteration *it, int *columns, int *lines)
{
    TileOp *const forall = as_map(lo, op);
    *it = (Iteration){ .indices = forall->forall.indices, .n = forall->forall.n, .crew = map_crew(lo, forall), .dim_of = { 0, 1 }, .vector = -1 };
    if (!choose_row_pieces(lo, forall, rows->unit, 4, &it->layout))
        return false;
    *columns = *lines = -1;
    for (int i = 1; i < it->layout.n; i++)                           // beside the piece's own
        if (it->layout.digit[i].input == IN_REGISTER)
            *(it->layout.digit[i].dim == 1 ? columns : lines) = i;
    return true;
}

// ---- rows of the next step

// Registers of the whole pipeline, for its conversions of one form, of which one is made in each step. Where all have a
// tail, it is loaded, stored and sent with them.
typedef struct Stock {
    TileOp *pipeline, *op;
    Rows rows, tail;
    int chunk, chunks, tail_units;   // tail_units 0: there is none
    Set set[SETS], tail_set;
} Stock;

static bool has_form(const Rows *a, const Rows *b)
{
    bool same = a->unit == b->unit && a->n_runs == b->n_runs && a->n_each == b->n_each;
    for (int i = 0; i < a->n_runs && same; i++)
        same = a->runs[i].load->type == b->runs[i].load->type;
    for (int i = 0; i < a->n_each && same; i++)
        same = a->each[i].by == b->each[i].by && a->each[i].load->type == b->each[i].load->type;
    return same;
}

typedef struct Conversions { TileOp *op; Rows rows; int n, units, tails, copies; bool fails; } Conversions;

static bool is_made_each_step(Lowering *lo, const TileOp *pipeline, const Conversions *all)
{
    const TileOp *const parent = op_info(lo, all->op)->parent;
    return all->n == 2 ? op_info(lo, parent)->parent == pipeline : parent == pipeline;
}

// Eight rows of every panel can be sent as one piece.
static bool can_send(Lowering *lo, const Rows *rows, int64_t columns)
{
    const TileInfo *const tile = tile_info(lo, rows->store->store.buffer);
    int64_t extent[2], coefficient;
    SharedLayout panels;
    Expr *rest = NULL;
    return expr_as_int(tile->buffer->shape[0], &extent[0]) && expr_as_int(tile->buffer->shape[1], &extent[1]) &&
           tile_panels(tile, (int)extent[0], (int)extent[1], 2, &panels) && panels.swizzle_bytes == panels.pitch_bytes &&
           columns % panels.panel_columns == 0 && expr_affine(lo->arena, rows->store->store.subs[1], &rows->column, 1, &coefficient, &rest) &&
           expr_multiple(rest) % panels.panel_columns == 0;
}

// The tile's columns that are made of a row: from `first` on.
static bool made_columns(Lowering *lo, TileOp *op, const Rows *rows, int64_t *first, int64_t *n)
{
    int64_t coefficient;
    Expr *rest = NULL;
    return full_extent(&as_map(lo, op)->forall.indices[1], n) &&
           expr_affine(lo->arena, rows->store->store.subs[1], &rows->column, 1, &coefficient, &rest) && expr_as_int(rest, first);
}

// Behind a conversion, a copy of the same rows to the columns behind its own; NULL: there is none.
static TileOp *tail_of(Lowering *lo, TileOp *op, Rows *tail)
{
    Rows rows;
    int64_t first[2], n[2];
    TileOp *const next = op->next;
    return next && op_info(lo, next)->fills && plan_rows(lo, op, &rows) && !rows.is_copy && plan_rows(lo, next, tail) &&
           tail->is_copy && tail->store->store.buffer == rows.store->store.buffer && made_columns(lo, op, &rows, &first[0], &n[0]) &&
           made_columns(lo, next, tail, &first[1], &n[1]) && first[1] == first[0] + n[0] && n[1] / (4 * PIECE) <= SET_UNITS &&
           can_send(lo, tail, n[1]) ? next : NULL;
}

// One, or one in either branch of an if.
static bool see_conversion(Lowering *lo, TileOp *op, void *context)
{
    Conversions *const all = context;
    const OpInfo *const info = op_info(lo, op);
    Rows rows, tail;
    Iteration it;
    int columns, lines;
    if (!info->fills || info->is_place)
        return op->kind == T_FORALL;
    if (!plan_rows(lo, op, &rows))
        return true;
    all->copies += rows.is_copy;
    if (rows.is_copy)
        return true;
    const int instances = tile_info(lo, rows.store->store.buffer)->is_exchanged ? lo->cluster : 1;
    for (int i = 0; i < rows.n_runs; i++)                  // strides take the registers
        all->fails |= buffer_root(rows.runs[i].load->load.buffer)->stride[0] != NULL;
    if (!lay_rows(lo, op, &rows, &it, &columns, &lines) || columns < 0 || (lines >= 0 && it.layout.digit[lines].extent > instances)) {
        all->fails = true;
    } else if (all->n == 0) {
        all->op = op;
        all->rows = rows;
        all->units = it.layout.digit[columns].extent;
    } else {
        const OpInfo *const first = op_info(lo, all->op);
        all->fails |= all->n > 1 || first->parent != info->parent || first->block == info->block || !has_form(&rows, &all->rows) ||
                      it.layout.digit[columns].extent != all->units;
    }
    all->n++;
    all->tails += tail_of(lo, op, &tail) != NULL;
    return true;
}

// `row`, or zeros of its length.
static Expr *row_or_zeros(Lowering *lo, Var *row, int bytes, Expr *inside)
{
    return call_expr(lo, row->type, arena_printf(lo->arena, "row_or_zeros<%d>", bytes), 2, var_of(lo, row), inside);
}

// bytes: that are read of a line
static Line stock_line(Lowering *lo, const Expr *load, int bytes)
{
    const Buffer *const root = buffer_root(load->load.buffer);
    Var *const tensor = lo->tensors[root->id];
    Line line = { .size = dtype_bits(load->load.buffer->type) / dtype_bits(root->type), .bytes = bytes };
    line.pointer = loop_new_pointer(lo->unit, tensor->type, "next_line_at");
    loop_add(lo->out, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = line.pointer, .value = row_or_zeros(lo, tensor, bytes, expr_bool(lo->arena, false)) } });
    return line;
}

// The conversions of a pipeline whose registers can be loaded a step ahead; false: they cannot.
static bool plan_stock(Lowering *lo, TileOp *pipeline, Conversions *all, int *chunk)
{
    *all = (Conversions){ .n = 0 };
    each_op(lo, pipeline->pipeline.body, see_conversion, all);
    *chunk = all->n > 0 && !all->fails ? chunk_units(&all->rows, all->units) : 0;
    return *chunk && all->units / *chunk <= SETS && is_made_each_step(lo, pipeline, all) && rows_are_local(lo, pipeline);
}

static bool mark_tail(Lowering *lo, TileOp *op, void *context)
{
    Rows tail;
    (void)context;
    if (op_info(lo, op)->fills && tail_of(lo, op, &tail)) {
        op_info(lo, op->next)->is_tail = true;
        tile_info(lo, tail.store->store.buffer)->channel->has_gathers = false;
    }
    return op->kind == T_FORALL;
}

static bool find_tails_of(Lowering *lo, TileOp *op, void *context)
{
    Conversions all;
    int chunk;
    (void)context;
    if (op->kind == T_PIPELINE && op_info(lo, op)->has_places && plan_stock(lo, op, &all, &chunk) &&
        tile_info(lo, all.rows.store->store.buffer)->is_exchanged && all.tails == all.n && all.copies == all.n)
        each_op(lo, op->pipeline.body, mark_tail, NULL);
    return op->kind == T_FORALL;
}

void find_tails(Lowering *lo) { each_op(lo, lo->kernel->body, find_tails_of, NULL); }

void declare_stock(Lowering *lo, TileOp *pipeline)
{
    Conversions all;
    int chunk;
    if (!plan_stock(lo, pipeline, &all, &chunk))
        return;
    lo->stock = NEW(lo->arena, Stock, .pipeline = pipeline, .op = all.op, .rows = all.rows, .chunk = chunk, .chunks = all.units / chunk);
    Rows *const rows = &lo->stock->rows, *const tail = &lo->stock->tail;
    const int columns = all.units * 4 * rows->unit;
    for (int i = 0; i < rows->n_runs; i++)
        rows->runs[i].line = stock_line(lo, rows->runs[i].load, columns * dtype_bits(rows->runs[i].load->type) / 8);
    for (int i = 0; i < rows->n_each; i++)
        rows->each[i].line = stock_line(lo, rows->each[i].load, (rows->each[i].by ? columns / (int)rows->each[i].by : 1) * (int)sizeof(uint32_t));
    for (int i = 0; i < lo->stock->chunks; i++)
        declare_set(lo, rows, &lo->stock->set[i], chunk);
    int64_t first, n;
    if (!tail_of(lo, all.op, tail) || !op_info(lo, all.op->next)->is_tail || !made_columns(lo, all.op->next, tail, &first, &n))
        return;
    lo->stock->tail_units = (int)n / (4 * PIECE);
    tail->runs[0].line = stock_line(lo, tail->runs[0].load, (int)n * PIECE_BYTES / PIECE);
    declare_set(lo, tail, &lo->stock->tail_set, lo->stock->tail_units);
}

static bool is_stocked(Lowering *lo, TileOp *op)
{
    Rows rows;
    return lo->stock && plan_rows(lo, op, &rows) && !rows.is_copy;
}

// The lines that this instance converts: from `begin` on.
static int lines_here(Lowering *lo, const Rows *rows, int lines, Expr **begin)
{
    *begin = i32_const(lo, 0);
    if (!tile_info(lo, rows->store->store.buffer)->is_exchanged)
        return lines;
    lines /= lo->cluster;
    *begin = var_of(lo, emit_declare(lo, DTYPE_I32, "begin_line", i32_mul(lo, cluster_rank(lo), lines)));
    return lines;
}

static void set_line(Lowering *lo, const Line *to, const Line *from)
{
    emit_assign(lo, to->pointer, var_of(lo, from->pointer));
    emit_assign(lo, to->inside, var_of(lo, from->inside));
}

static void set_lines(Lowering *lo, const Rows *to, const Rows *from)
{
    for (int i = 0; i < to->n_runs; i++)
        set_line(lo, &to->runs[i].line, &from->runs[i].line);
    for (int i = 0; i < to->n_each; i++)
        set_line(lo, &to->each[i].line, &from->each[i].line);
}

static void aim_line(Lowering *lo, const Line *to, const Line *from)
{
    emit_assign(lo, to->pointer, row_or_zeros(lo, from->pointer, to->bytes, var_of(lo, from->inside)));
}

static bool aim_stock(Lowering *lo, TileOp *op)
{
    Rows rows;
    Iteration it;
    Expr *begin;
    int columns, lines;
    Nest block;
    if (!is_stocked(lo, op) || !plan_rows(lo, op, &rows) || !lay_rows(lo, op, &rows, &it, &columns, &lines))
        return false;
    const Crew crew = lo->crew;
    lo->crew = it.crew;
    begin_block(lo, &block);
    lines_here(lo, &rows, lines < 0 ? 1 : it.layout.digit[lines].extent, &begin);
    declare_line(lo, &it, lines, emit_declare(lo, DTYPE_I32, "first_line", begin));
    begin_loads(lo, &rows, &it);
    for (int i = 0; i < rows.n_runs; i++)
        aim_line(lo, &lo->stock->rows.runs[i].line, &rows.runs[i].line);
    for (int i = 0; i < rows.n_each; i++)
        aim_line(lo, &lo->stock->rows.each[i].line, &rows.each[i].line);
    if (lo->stock->tail_units && tail_of(lo, op, &rows) && lay_rows(lo, op->next, &rows, &it, &columns, &lines)) {
        declare_line(lo, &it, lines, emit_declare(lo, DTYPE_I32, "first_line", begin));
        begin_loads(lo, &rows, &it);
        aim_line(lo, &lo->stock->tail.runs[0].line, &rows.runs[0].line);
    }
    end_nest(lo, &block);
    lo->crew = crew;
    return true;
}

// Behind the elements of lists: loads share a scoreboard, and what waits for an element would wait for rows, too.
static void begin_stock_loads(Lowering *lo, const Stock *stock)
{
    Expr *const zero = var_of(lo, emit_declare(lo, DTYPE_I32, "zero", await_lists(lo, stock->pipeline)));
    for (int i = 0; i < stock->rows.n_runs; i++)
        emit_assign(lo, stock->rows.runs[i].line.pointer, in_line(lo, &stock->rows.runs[i].line, zero));
    for (int i = 0; i < stock->rows.n_each; i++)
        emit_assign(lo, stock->rows.each[i].line.pointer, in_line(lo, &stock->rows.each[i].line, zero));
    if (stock->tail_units)
        emit_assign(lo, stock->tail.runs[0].line.pointer, in_line(lo, &stock->tail.runs[0].line, zero));
}

static void load_sets(Lowering *lo, const Stock *stock, Expr *column)
{
    for (int i = 0; i < stock->chunks; i++)
        load_set(lo, &stock->rows, &stock->set[i], i * stock->chunk, stock->chunk, column);
    if (stock->tail_units)
        load_set(lo, &stock->tail, &stock->tail_set, 0, stock->tail_units, column);
}

void load_stock(Lowering *lo)
{
    Rows rows;
    Iteration it;
    int columns, lines;
    Nest block;
    Stock *const stock = lo->stock;
    if (!stock || !plan_rows(lo, stock->op, &rows) || !lay_rows(lo, stock->op, &rows, &it, &columns, &lines))
        return;
    begin_block(lo, &block);
    declare_line(lo, &it, lines, emit_declare(lo, DTYPE_I32, "first_line", i32_const(lo, 0)));
    begin_stock_loads(lo, stock);
    load_sets(lo, stock, var_of(lo, *var_slot(lo, rows.column)));
    end_nest(lo, &block);
}

// ---- conversions

// As it was loaded.
static void store_tail(Lowering *lo, TileOp *op)
{
    const Stock *const stock = lo->stock;
    Rows rows;
    Iteration it;
    int columns, lines;
    Expr *begin;
    Nest block, piece;
    if (!plan_rows(lo, op, &rows) || !lay_rows(lo, op, &rows, &it, &columns, &lines))
        return;
    begin_block(lo, &block);
    lines_here(lo, &rows, lines < 0 ? 1 : it.layout.digit[lines].extent, &begin);
    declare_line(lo, &it, lines, emit_declare(lo, DTYPE_I32, "first_line", begin));
    for (int u = 0; u < stock->tail_units; u++) {
        Var *const first = begin_columns(lo, &rows, &piece, u * 4 * PIECE);
        Expr *words[4];
        for (int w = 0; w < COUNT(words); w++)
            words[w] = expr_index(lo->arena, stock->tail_set.raw[u][0], i32_const(lo, w));
        emit_call(lo, "store_piece", 5, piece_address(lo, &rows, &it), words[0], words[1], words[2], words[3]);
        end_nest(lo, &piece);
        *var_slot(lo, rows.column) = first;
    }
    end_nest(lo, &block);
}

// The only line of this instance, which lies in the stock.
static void convert_stock(Lowering *lo, TileOp *op, Rows *rows, Iteration *it, int digit, int lines, int units)
{
    const Stock *const stock = lo->stock;
    Expr *begin;
    lines_here(lo, rows, lines, &begin);
    declare_line(lo, it, digit, emit_declare(lo, DTYPE_I32, "first_line", begin));
    for (int i = 0; i < stock->chunks; i++) {
        convert_set(lo, rows, it, &stock->set[i], i * stock->chunk, stock->chunk);
        if (i == 0)                  // which has waited for all rows
            load_lists(lo, stock->pipeline);
    }
    if (stock->tail_units)
        store_tail(lo, op->next);
    if (rows->n_away)
        send_line(lo, rows, it, (units * rows->unit + stock->tail_units * PIECE) * 4);
    begin_stock_loads(lo, stock);
    load_sets(lo, stock, var_of(lo, *var_slot(lo, rows->column)));
}

static void convert_lines(Lowering *lo, TileOp *op, Rows *rows, Iteration *it, int digit, int lines, int units)
{
    Arena *const a = lo->arena;
    const int chunk = chunk_units(rows, units), chunks = units / chunk, sets = chunks % SETS == 0 ? SETS : 1;
    Set set[SETS];
    Expr *begin;
    lines = lines_here(lo, rows, lines, &begin);
    Expr *const end = i32_add(lo, begin, i32_const(lo, lines));
    Var *const line = loop_new_var(lo->unit, DTYPE_I32, "line"), *const zero = emit_declare(lo, DTYPE_I32, "first_line", begin);
    declare_line(lo, it, digit, zero);
    begin_loads(lo, rows, it);
    for (int i = 0; i < sets; i++) {
        declare_set(lo, rows, &set[i], chunk);
        load_set(lo, rows, &set[i], i * chunk, chunk, var_of(lo, *var_slot(lo, rows->column)));
    }
    const Rows current = *rows;
    for (int c = 0; c < chunks && lines == 1; c++) {
        convert_set(lo, rows, it, &set[c % sets], c * chunk, chunk);
        if (c + sets < chunks)
            load_set(lo, &current, &set[c % sets], (c + sets) % chunks * chunk, chunk, var_of(lo, *var_slot(lo, rows->column)));
    }
    if (lines == 1 && rows->n_away)
        send_line(lo, rows, it, units * 4 * rows->unit);
    if (lines == 1)
        return;
    Nest loop;
    begin_for(lo, &loop, line, begin, end, i32_const(lo, 1), LOOP_NO_UNROLL);
    Expr *const more = expr_binary(a, X_LT, i32_add(lo, var_of(lo, line), i32_const(lo, 1)), end);
    Var *const next = emit_declare(lo, DTYPE_I32, "next_line", expr_select(a, more, i32_add(lo, var_of(lo, line), i32_const(lo, 1)), var_of(lo, line)));
    declare_line(lo, it, digit, next);
    Rows ahead = *rows;
    begin_loads(lo, &ahead, it);
    for (int i = 0; i < ahead.n_runs; i++)
        emit_assign(lo, ahead.runs[i].line.inside, expr_binary(a, X_AND, more, var_of(lo, ahead.runs[i].line.inside)));
    for (int i = 0; i < ahead.n_each; i++)
        emit_assign(lo, ahead.each[i].line.inside, expr_binary(a, X_AND, more, var_of(lo, ahead.each[i].line.inside)));
    declare_line(lo, it, digit, line);
    for (int c = 0; c < chunks; c++) {
        convert_set(lo, rows, it, &set[c % sets], c * chunk, chunk);
        const bool same = c + sets < chunks;
        load_set(lo, same ? &current : &ahead, &set[c % sets], (c + sets) % chunks * chunk, chunk, var_of(lo, *var_slot(lo, rows->column)));
    }
    if (rows->n_away)
        send_line(lo, rows, it, units * 4 * rows->unit);
    if (chunks > sets)
        set_lines(lo, &current, &ahead);
    end_nest(lo, &loop);
}

bool fill_divides(Lowering *lo, TileOp *op, int n, bool *converts)
{
    Rows rows;
    int64_t extent, columns;
    if (!plan_rows(lo, op, &rows))
        return false;
    *converts |= !rows.is_copy;
    return rows.is_copy || (full_extent(&as_map(lo, op)->forall.indices[0], &extent) && extent % (8 * 4 * n) == 0 &&
                            full_extent(&as_map(lo, op)->forall.indices[1], &columns) && can_send(lo, &rows, columns));
}

// The others' bytes are announced before this thread's arrival: until then the phase cannot end.
static void begin_exchange(Lowering *lo, Rows *rows, const TileOp *forall, int columns)
{
    Arena *const a = lo->arena;
    const TileInfo *const tile = tile_info(lo, rows->store->store.buffer);
    int64_t n_rows;
    if (!tile->is_exchanged || !full_extent(&forall->forall.indices[0], &n_rows))
        return;
    Expr *const full = full_barrier(lo, tile->channel);
    const int bytes = (int)n_rows / lo->cluster * columns * PIECE_BYTES / PIECE;
    Nest nest;
    begin_if(lo, &nest, expr_binary(a, X_EQ, var_of(lo, lo->thread), i32_const(lo, 0)));
    emit_call(lo, "mbar_expect_more", 2, full, expr_int(a, DTYPE_U32, (lo->cluster - 1) * bytes));
    end_nest(lo, &nest);
    for (int i = 1; i < lo->cluster; i++) {
        Expr *const rank = expr_binary(a, X_MOD, i32_add(lo, cluster_rank(lo), i32_const(lo, i)), i32_const(lo, lo->cluster));
        Expr *const there = call_expr(lo, DTYPE_U32, "address_at", 2, call_expr(lo, DTYPE_U32, "shared_base", 0), rank);
        Var *const away = emit_declare(lo, DTYPE_U32, "away", uniform(lo, expr_binary(a, X_SUB, there, call_expr(lo, DTYPE_U32, "shared_base", 0))));
        rows->away[rows->n_away] = away;
        rows->full_away[rows->n_away++] = emit_declare(lo, DTYPE_U32, "full_away", uniform(lo, expr_binary(a, X_ADD, full, var_of(lo, away))));
    }
}

// The consumers' own copies: in flight until their threads next meet.
static bool copies_in_place(Lowering *lo, const Rows *rows)
{
    return lo->role == ROLE_CONSUMER && rows->is_copy && lo->crew.warps == 4 && !tile_info(lo, rows->store->store.buffer)->channel;
}

void wait_for_copies(Lowering *lo)
{
    if (lo->copies_fly)
        emit_call(lo, "cp_async_wait", 0);
    lo->copies_fly = false;
}

// How the lanes divide the rows of `op`; false: it has no such form.
static bool spread_rows(Lowering *lo, TileOp *op, Rows *rows, Spread *spread)
{
    if (!plan_rows(lo, op, rows))
        return false;
    TileOp *const forall = as_map(lo, op);
    int64_t columns;
    const bool wide = only_gathers(lo) && rows->is_copy && full_extent(&forall->forall.indices[1], &columns) && columns % (8 * PIECE) == 0;
    *spread = (Spread){ .across = wide ? 8 : 4, .pieces = 1, .lines = 1, .digit = -1 };
    Iteration *const it = &spread->it;
    *it = (Iteration){ .indices = forall->forall.indices, .n = forall->forall.n, .crew = map_crew(lo, forall), .dim_of = { 0, 1 }, .vector = -1 };
    if (!choose_row_pieces(lo, forall, rows->unit, spread->across, &it->layout))
        return false;
    for (int i = 1; i < it->layout.n; i++) {     // register digits beside the piece's own
        const Digit *const digit = &it->layout.digit[i];
        if (digit->input != IN_REGISTER)
            continue;
        *(digit->dim == 1 ? &spread->pieces : &spread->lines) = digit->extent;
        if (digit->dim == 0)
            spread->digit = i;
    }
    return true;
}

static bool see_other_place(const Expr *x, void *context)
{
    const TileInfo *const tile = x->kind == E_LOAD ? tile_info(context, buffer_root(x->load.buffer)) : NULL;
    return tile && !tile->has_sides;
}

// Do both read the same rows of one tensor, b's columns a constant behind a's?
static bool reads_same_rows(Lowering *lo, TileOp *op_a, const Rows *a, TileOp *op_b, const Rows *b, int64_t *behind)
{
    const Expr *const x = a->runs[0].load, *const y = b->runs[0].load;
    if (x->load.buffer != y->load.buffer)
        return false;
    const LoopIndex *const from = as_map(lo, op_b)->forall.indices, *const to = as_map(lo, op_a)->forall.indices;
    const int last = x->load.buffer->rank - 1;
    for (int d = 0; d <= last; d++) {
        Expr *sub = y->load.subs[d];
        for (int i = 0; i < 2; i++)
            sub = expr_replace(lo->arena, sub, from[i].var, expr_var(lo->arena, to[i].var));
        if (d < last ? !expr_equal(sub, x->load.subs[d]) : !expr_as_int(int_sub(lo->arena, sub, x->load.subs[d]), behind))
            return false;
    }
    return true;
}

static bool may_look_up(Lowering *lo, TileOp *op, Rows *rows, Spread *spread)
{
    return op_info(lo, op)->fills && spread_rows(lo, op, rows, spread) && rows->is_copy && spread->lines <= LINES_MAX &&
           !expr_any(rows->store->store.value, see_other_place, lo);
}

static void look_up(Lowering *lo, TileOp *first, TileOp *op, Rows *rows, Spread *spread)
{
    Line *const lines = op_info(lo, op)->lines = NEW_ARRAY(lo->arena, Line, spread->lines);
    for (TileOp *as = first; as != op; as = as->next) {
        Rows before;
        Spread by;
        int64_t behind;
        if (!op_info(lo, as)->lines || !spread_rows(lo, as, &before, &by) || by.lines != spread->lines || by.across != spread->across ||
            !reads_same_rows(lo, as, &before, op, rows, &behind))
            continue;
        for (int i = 0; i < spread->lines; i++) {
            const Line *const line = &op_info(lo, as)->lines[i];
            lines[i] = *line;
            lines[i].pointer = loop_new_pointer(lo->unit, line->pointer->type, "line_at");
            loop_add(lo->out, (LoopStmt){ .kind = L_DECLARE, .declare = { .var = lines[i].pointer,
                     .value = in_line(lo, line, i32_const(lo, (int)behind)) } });
        }
        return;
    }
    const Crew crew = lo->crew;
    lo->crew = spread->it.crew;
    for (int i = 0; i < spread->lines; i++) {
        declare_line(lo, &spread->it, spread->digit, emit_declare(lo, DTYPE_I32, "line", i32_const(lo, i)));
        begin_loads(lo, rows, &spread->it);
        lines[i] = rows->runs[0].line;
    }
    lo->crew = crew;
}

// A step's rows are known before its tiles are free: their numbers are read and their addresses made while the first is
// waited for, once for all tiles that take parts of the same rows.
void look_up_rows(Lowering *lo, TileOp *op)
{
    if (!only_gathers(lo) || op_info(lo, op)->lines)
        return;
    for (TileOp *at = op; at; at = at->next) {
        Rows rows;
        Spread spread;
        if (may_look_up(lo, at, &rows, &spread))
            look_up(lo, op, at, &rows, &spread);
        else if (at == op)
            return;
    }
}

static void copy_lines(Lowering *lo, TileOp *op, Rows *rows, Spread *spread)
{
    OpInfo *const info = op_info(lo, op);
    for (int i = 0; i < spread->lines && info->lines; i++) {
        declare_line(lo, &spread->it, spread->digit, emit_declare(lo, DTYPE_I32, "line", i32_const(lo, i)));
        rows->runs[0].line = info->lines[i];
        copy_line(lo, rows, &spread->it, spread->pieces, spread->across);
    }
    if (info->lines) {
        info->lines = NULL;
        return;
    }
    Nest loop;
    Var *const line = loop_new_var(lo->unit, DTYPE_I32, "line");
    const bool few = lo->stock && spread->lines * spread->pieces <= 4;
    begin_for(lo, &loop, line, i32_const(lo, 0), i32_const(lo, spread->lines), i32_const(lo, 1), few ? LOOP_UNROLL : LOOP_NO_UNROLL);
    declare_line(lo, &spread->it, spread->digit, line);
    begin_loads(lo, rows, &spread->it);
    copy_line(lo, rows, &spread->it, spread->pieces, spread->across);
    end_nest(lo, &loop);
}

bool emit_rows(Lowering *lo, TileOp *op)
{
    Rows rows;
    Spread spread;
    if (op_info(lo, op)->is_tail)    // it went with the conversion
        return true;
    if (!spread_rows(lo, op, &rows, &spread))
        return false;
    const bool in_place = copies_in_place(lo, &rows);
    if (!in_place && !op_info(lo, op)->fills)
        return false;
    lo->copies_fly |= rows.is_copy && (in_place || !tile_info(lo, rows.store->store.buffer)->channel->is_gathered);
    TileOp *const forall = as_map(lo, op);
    const Crew crew = lo->crew;
    lo->crew = spread.it.crew;
    Nest block;
    begin_block(lo, &block);
    if (rows.is_copy) {
        copy_lines(lo, op, &rows, &spread);
    } else {
        int64_t columns = 0;
        full_extent(&forall->forall.indices[1], &columns);
        begin_exchange(lo, &rows, forall, (int)columns + (lo->stock ? lo->stock->tail_units * 4 * PIECE : 0));
        (is_stocked(lo, op) ? convert_stock : convert_lines)(lo, op, &rows, &spread.it, spread.digit, spread.lines, spread.pieces);
    }
    end_nest(lo, &block);
    lo->crew = crew;
    return true;
}

// Into the L2 cache. A row is one lane's, where the tensor's rows may be asked for as they lie.
static void ask_rows(Lowering *lo, TileOp *op)
{
    Rows rows;
    int64_t n_rows, columns;
    if (only_gathers(lo) || !plan_rows(lo, op, &rows))
        return;
    TileOp *const forall = as_map(lo, op);
    const LoopIndex *const index = forall->forall.indices;
    if (!full_extent(&index[0], &n_rows) || !full_extent(&index[1], &columns))
        return;
    Iteration it = { .indices = index, .n = 2, .layout = layout_new(0, NULL), .vector = -1 };
    for (int i = 0; i < COUNT(it.dim_of); i++)
        it.dim_of[i] = -1;
    Nest nest;
    begin_row(lo, &index[0], &nest);
    *var_slot(lo, index[1].var) = emit_declare(lo, DTYPE_I32, index[1].var->name, i32_const(lo, 0));
    for (int i = 0; i < rows.n_runs; i++) {
        Expr *const load = rows.runs[i].load, *rest = NULL;
        const int size = dtype_bits(load->type) / 8, last = load->load.buffer->rank - 1;
        int64_t coefficient;
        expr_affine(lo->arena, load->load.subs[last], &rows.column, 1, &coefficient, &rest);
        if (columns * size % PIECE_BYTES != 0 || expr_multiple(rest) * size % PIECE_BYTES != 0 ||
            place_alignment(load->load.buffer, load->load.subs[last], PIECE_BYTES / size) < PIECE_BYTES)
            continue;
        const Line line = begin_line(lo, load, &it);
        emit_call(lo, "ask_row", 3, var_of(lo, line.pointer), i32_const(lo, columns * size), var_of(lo, line.inside));
    }
    end_nest(lo, &nest);
}

// Beside a stock nothing is asked for: copies have the time of a conversion.
void aim_or_ask(Lowering *lo, TileOp *op)
{
    if (!aim_stock(lo, op) && !lo->stock)
        ask_rows(lo, op);
}
