// SPDX-License-Identifier: MIT
// tile_test.c - questions about Tile IR, copies of blocks, and the violations that the verifier must find.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ir/tile.h"

static Arena *arena;

static int setup(void **state)
{
    arena = arena_new();
    return arena ? 0 : -1;
}

static int teardown(void **state)
{
    arena_free(arena);
    return 0;
}

// A[N], and a shared tile a[64] filled from it, doubled by a forall.
typedef struct Sample {
    TileKernel *kernel;
    Buffer *tensor, *tile;
    Var *i, *symbol;
    TileOp *declare, *copy, *forall, *store;
} Sample;

static TileOp *add_op(Sample *s, TileOp op)
{
    TileOp **end = &s->kernel->body;
    while (*end) end = &(*end)->next;
    *end = NEW(arena, TileOp, .kind = op.kind);
    **end = op;
    return *end;
}

static Sample sample(void)
{
    Sample s = { .kernel = NEW(arena, TileKernel, .name = "sample", .target = "cpu", .arena = arena) };
    TileKernel *const k = s.kernel;
    k->diags = diags_new(arena);
    s.symbol = tile_new_var(k, VAR_SYMBOL, DTYPE_INT, "N", (Span){ 0 });
    s.tensor = tile_new_buffer(k, BUFFER_TENSOR, DTYPE_F32, "A", 1, (Span){ 0 });
    s.tensor->shape[0] = expr_var(arena, s.symbol);
    s.tensor->param = 0;
    s.tensor->access = ACCESS_INOUT;
    k->n_params = k->n_binds = 1;
    k->params = NEW(arena, TileParam, .name = "A", .is_tensor = true, .tensor = s.tensor);
    k->binds = NEW(arena, TileBind, .symbol = s.symbol);
    s.tile = tile_new_buffer(k, BUFFER_SHARED, DTYPE_F32, "a", 1, (Span){ 0 });
    s.tile->shape[0] = int_const(arena, 64);
    s.i = tile_new_var(k, VAR_INDEX, DTYPE_INT, "i", (Span){ 0 });
    s.declare = add_op(&s, (TileOp){ .kind = T_TILE, .tile = { s.tile } });
    Region from = region_whole(arena, s.tensor, (Span){ 0 });
    from.subs[0].width = int_const(arena, 64);
    s.copy = add_op(&s, (TileOp){ .kind = T_COPY, .copy = { region_whole(arena, s.tile, (Span){ 0 }), from } });
    Expr **const subs = NEW_ARRAY(arena, Expr *, 1);
    subs[0] = expr_var(arena, s.i);
    Expr *const twice = expr_binary(arena, X_MUL, expr_load(arena, s.tile, subs), expr_float(arena, DTYPE_F32, 2));
    s.store = NEW(arena, TileOp, .kind = T_STORE, .store = { s.tile, subs, twice });
    s.forall = add_op(&s, (TileOp){ .kind = T_FORALL,
                                    .forall = { NEW(arena, LoopIndex, s.i, int_const(arena, 0), int_const(arena, 64)),
                                                1, s.store } });
    return s;
}

static const char *text_of(const TileKernel *k)
{
    Text text = { .arena = arena };
    tile_print(&text, k);
    return text_cstr(&text);
}

static void test_regions(void **state)
{
    const Sample s = sample();
    assert_true(region_is_whole(&s.copy->copy.dst));
    assert_false(region_is_whole(&s.copy->copy.src));
    assert_int_equal(region_rank(&s.copy->copy.src), 1);
    assert_int_equal(region_extent(&s.copy->copy.src, 0)->integer.value, 64);
    Buffer *const view = tile_new_buffer(s.kernel, BUFFER_VIEW, DTYPE_F32, "v", 1, (Span){ 0 });
    view->base = s.copy->copy.src;
    assert_ptr_equal(buffer_root(view), s.tensor);
}

typedef struct Seen {
    int reads, writes;
    const Buffer *read, *written;
} Seen;

static void see(const TileUse *use, void *context)
{
    Seen *const seen = context;
    if (use->reads) {
        seen->reads++;
        seen->read = use->buffer;
    }
    if (use->writes) {
        seen->writes++;
        seen->written = use->buffer;
    }
}

static void test_uses(void **state)
{
    const Sample s = sample();
    Seen copy = { 0 }, store = { 0 }, forall = { 0 };
    tile_uses(s.copy, see, &copy);
    tile_uses(s.store, see, &store);
    tile_uses(s.forall, see, &forall);
    assert_int_equal(copy.reads, 1);
    assert_ptr_equal(copy.read, s.tensor);
    assert_ptr_equal(copy.written, s.tile);
    assert_int_equal(store.reads, 1); // the load inside the value
    assert_ptr_equal(store.written, s.tile);
    assert_int_equal(forall.reads + forall.writes, 0); // its body is not its own
    assert_true(tile_block_writes(s.forall, s.tile));
    assert_false(tile_block_writes(s.kernel->body, s.tensor));
}

// A view's address is computed where the view is used.
static void test_uses_of_a_view_read_its_subscripts(void **state)
{
    Sample s = sample();
    Buffer *const index = tile_new_buffer(s.kernel, BUFFER_SHARED, DTYPE_INT, "index", 1, (Span){ 0 });
    index->shape[0] = int_const(arena, 4);
    Expr *at[] = { int_const(arena, 3) };
    Buffer *const view = tile_new_buffer(s.kernel, BUFFER_VIEW, DTYPE_F32, "v", 1, (Span){ 0 });
    view->base = region_whole(arena, s.tensor, (Span){ 0 });
    view->base.subs[0].start = expr_load(arena, index, at);
    view->shape[0] = int_const(arena, 64);
    s.copy->copy.src = region_whole(arena, view, (Span){ 0 });
    Seen seen = { 0 };
    tile_uses(s.copy, see, &seen);
    assert_int_equal(seen.reads, 2);
    assert_ptr_equal(seen.read, index);
}

static void test_printing_and_copying(void **state)
{
    Sample s = sample();
    Text why = { .arena = arena };
    if (!tile_verify(s.kernel, &why)) fail_msg("%s", text_cstr(&why));
    s.forall->next = tile_copy_block(s.kernel, s.forall);
    if (!tile_verify(s.kernel, &why)) fail_msg("%s", text_cstr(&why));
    assert_string_equal(text_of(s.kernel), "kernel sample(inout f32 A[N]) {\n"
                                           "    // N = extent 0 of A\n"
                                           "    grid ();\n"
                                           "    shared f32 a[64];\n"
                                           "    a = A[0 +: 64];\n"
                                           "    forall (i : 64) {\n"
                                           "        a[i] = a[i]*2.0;\n"
                                           "    }\n"
                                           "    forall (i.2 : 64) {\n"
                                           "        a[i.2] = a[i.2]*2.0;\n"
                                           "    }\n"
                                           "}\n");
    assert_ptr_not_equal(s.forall->next->forall.indices[0].var, s.i);
}

static void test_copies_have_tiles_of_their_own(void **state)
{
    Sample s = sample();
    TileOp *const copy = tile_copy_block(s.kernel, s.kernel->body);
    assert_ptr_not_equal(copy->tile.buffer, s.tile);
    assert_ptr_equal(copy->next->copy.dst.buffer, copy->tile.buffer);
    assert_ptr_equal(copy->next->copy.src.buffer, s.tensor);
    assert_ptr_equal(copy->next->next->forall.body->store.value->op.a->load.buffer, copy->tile.buffer);
}

static void expect_violation(const Sample *s, const char *message)
{
    Text why = { .arena = arena };
    assert_false(tile_verify(s->kernel, &why));
    if (!strstr(text_cstr(&why), message)) fail_msg("'%s', not '%s'", text_cstr(&why), message);
}

static void test_the_verifier_finds_what_is_wrong(void **state)
{
    Sample s = sample();
    s.kernel->body = s.copy; // without the tile's declaration
    expect_violation(&s, "'a' is used out of scope or before its declaration");
    s = sample();
    s.copy->next = s.store; // without the forall that declares i
    s.store->next = NULL;
    expect_violation(&s, "variable 'i' is used out of scope");
    s = sample();
    s.copy->copy.src.subs[0].width = int_const(arena, 32);
    expect_violation(&s, "a copy: extents 64 and 32");
    s = sample();
    s.tile->shape[0] = expr_var(arena, s.symbol);
    expect_violation(&s, "extent 0 of 'a' is not constant");
    s = sample();
    s.store->store.value = int_const(arena, 1);
    expect_violation(&s, "'a' is f32, what is stored int");
    s = sample();
    s.store->kind = T_RETURN;
    expect_violation(&s, "return leaves a forall");
    s = sample();
    s.store->kind = T_BREAK;
    expect_violation(&s, "break leaves");
    s = sample();
    s.copy->stage = 1;
    expect_violation(&s, "a stage label outside of a pipeline");
    s = sample();
    Var *const x = tile_new_var(s.kernel, VAR_LOCAL, DTYPE_INT, "x", (Span){ 0 });
    s.forall->next = NEW(arena, TileOp, .kind = T_SET, .let = { x, int_const(arena, 1) });
    expect_violation(&s, "'x' is set but not marked as assigned");
    s = sample();
    s.forall->forall.indices[0].hi = expr_float(arena, DTYPE_F32, 64);
    expect_violation(&s, "an upper bound '64.0' is f32, not an integer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regions),
        cmocka_unit_test(test_uses),
        cmocka_unit_test(test_uses_of_a_view_read_its_subscripts),
        cmocka_unit_test(test_printing_and_copying),
        cmocka_unit_test(test_copies_have_tiles_of_their_own),
        cmocka_unit_test(test_the_verifier_finds_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
