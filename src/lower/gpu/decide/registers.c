// SPDX-License-Identifier: MIT
// registers.c - whether a thread can hold what products must hold at one time, and how many registers there are, said.
#include "lower/gpu/facts/registers.h"
#include "lower/gpu/facts/info.h"

// ---- what no thread can hold

typedef struct Held {
    const TileInfo *tiles[32];
    int n;
    const TileOp *loop;
} Held;

static void hold(Held *held, const TileInfo *tile)
{
    if (!tile || tile->storage != TILE_IN_REGISTERS || held->n == COUNT(held->tiles)) return;
    for (int i = 0; i < held->n; i++)
        if (held->tiles[i] == tile) return;
    held->tiles[held->n++] = tile;
}

// A sum of products that goes on from step to step of the loop.
static bool see_sum(Lowering *lo, TileOp *op, void *context)
{
    Held *const held = context;
    const TileInfo *const tile =
        op->kind == T_MATMUL && op->matmul.accumulate ? tile_info(lo, op->matmul.dst.buffer) : NULL;
    if (tile && !is_within(lo, tile->declared, held->loop)) hold(held, tile);
    return op->kind == T_FORALL;
}

static bool is_loop(const TileOp *op) { return op->kind == T_FOR || op->kind == T_WHILE || op->kind == T_PIPELINE; }

static void refuse(Lowering *lo, const TileOp *op, const Held *held, int group, int words, int most)
{
    diag_error(lo->diags, op->span,
               "the result of this product and the sums around it take %d registers of each thread; there are %d",
               words, most);
    for (int i = 0; i < held->n; i++)
        if (is_of_group(held->tiles[i], group))
            diag_note(lo->diags, held->tiles[i]->buffer->span, "'%s': %d", held->tiles[i]->buffer->name,
                      tile_words(held->tiles[i]));
    lo->failed = true;
}

// A product's result, and the sums of all loops around it, are registers at one time, whatever the compiler does.
static bool see_product_held(Lowering *lo, TileOp *op, void *context)
{
    Held held = { .n = 0 };
    if (op->kind != T_MATMUL || lo->failed) return op->kind == T_FORALL;
    hold(&held, tile_info(lo, op->matmul.dst.buffer));
    for (held.loop = op_info(lo, op)->parent; held.loop; held.loop = op_info(lo, held.loop)->parent) {
        TileOp **body;
        for (int i = 0; is_loop(held.loop) && (body = tile_bodies((TileOp *)held.loop, i)) != NULL; i++)
            each_op(lo, *body, see_sum, &held);
    }
    const int most = lo->is_specialised ? lo->gpu->thread_registers : consumer_registers(lo);
    for (int g = 0; g < lo->all.groups && !lo->failed; g++) {
        int words = 0;
        for (int i = 0; i < held.n; i++) words += is_of_group(held.tiles[i], g) ? tile_words(held.tiles[i]) : 0;
        if (words > most) refuse(lo, op, &held, g, words, most);
    }
    return false;
}

bool registers_suffice(Lowering *lo)
{
    each_op(lo, lo->kernel->body, see_product_held, NULL);
    return !lo->failed;
}

// ---- what each sets

void explain_registers(Lowering *lo)
{
    Text *const out = lo->explanation;
    const int all = divide_registers(lo).consumer;
    text_print(out, "registers of a computing thread: at most %d, of which %d hold fragments", consumer_registers(lo),
               lo->is_specialised ? most_words(lo) : fragment_words(lo));
    if (producer_registers(lo)) text_print(out, "; setmaxnreg: %d in the producer", producer_registers(lo));
    for (int g = 0; g < lo->all.groups; g++) {
        const int own = own_registers(lo, g) ? own_registers(lo, g) : all;
        if (own) text_print(out, "%s %d in group %d", g || producer_registers(lo) ? "," : "; setmaxnreg:", own, g);
    }
    text_print(out, "\n");
}
