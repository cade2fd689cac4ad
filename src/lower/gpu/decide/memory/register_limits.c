// SPDX-License-Identifier: MIT
// register_limits.c - whether a thread can hold what products must hold at one time, and how many registers there are, said.
#include "lower/gpu/decide/memory/register_limits.h"
#include "lower/gpu/facts/registers.h"
#include "lower/gpu/facts/operands.h"
#include "lower/gpu/facts/partition.h"
#include "lower/gpu/facts/product.h"
#include "lower/gpu/facts/info.h"

// ---- what one instruction can name

enum { BESIDE_ACCUMULATOR = 30 }; // registers of an instruction's other operands, and what ptxas keeps

// Pieces of so many columns begin where the right operand's panels do, where those lie along the columns.
static int unit_of_pieces(const Lowering *lo, const Product *p)
{
    return p->right.transposed ? 8 : tile_info(lo, p->right.region.buffer)->shared.panel_columns;
}

static bool narrow_product(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind != T_MATMUL) return op->kind == T_FORALL;
    Product *const p = op_info(lo, op)->product;
    if (p->kind != PRODUCT_WGMMA) return false;
    const int unit = unit_of_pieces(lo, p), most = 2 * (*(const int *)context - BESIDE_ACCUMULATOR) / unit * unit;
    if (p->n_piece <= most || most <= 0) return false;
    const int pieces = (p->n_group + most - 1) / most;
    p->n_piece = ((p->n_group + pieces - 1) / pieces + unit - 1) / unit * unit;
    return false;
}

static int registers_at_start(const Lowering *lo)
{
    return registers_each(lo, (all_threads(lo) + producer_threads(lo)) * occupancy(lo));
}

// An instruction can name no more registers than a thread has when the kernel starts, whatever setmaxnreg gives it
// later (C7602): wide products are made by several.
void narrow_products(Lowering *lo)
{
    int each = registers_at_start(lo);
    each_op(lo, lo->kernel->body, narrow_product, &each);
}

// ---- what no thread can hold

enum {
    BESIDE_FRAGMENTS = 20, // registers that wgmma's threads need at the least; it is serialised where there are fewer
    BESIDE_MANY = 32,      // that they should have, where fewer CTAs on a multiprocessor leave them
    BESIDE_ADDRESSES = 50, // fewer do not hold the addresses that ptxas keeps from one step to the next: it spills
    LISTED_WORDS = 8,      // of a tile that a message names
    SETMAXNREG_LEAST = 24, // registers
};

// Where a group's fragments take more registers than its threads have.
typedef struct Excess {
    LiveWords live; // at NULL: nowhere
    int group, most;
} Excess;

static bool finds_wgmma(Lowering *lo, TileOp *op) { return is_wgmma(lo, op); }

// Of a thread of the group; where setmaxnreg divides none, all that it can name.
static int registers_of(Lowering *lo, int group)
{
    const int own = own_registers(lo, group), each = registers_at_start(lo);
    if (own || divide_registers(lo).consumer) return own ? own : consumer_registers(lo);
    return each < lo->gpu->thread_registers ? each : lo->gpu->thread_registers;
}

// `beside`: registers that fragments must leave, where there is wgmma.
static Excess find_excess(Lowering *lo, int beside, bool sums_only)
{
    if (!block_has(lo, lo->kernel->body, finds_wgmma)) beside = 0;
    for (int g = 0; g < lo->all.groups; g++) {
        const int most = registers_of(lo, g);
        const LiveWords live = live_words(lo, g, sums_only);
        if (live.at && live.words > most - beside) return (Excess){ live, g, most };
    }
    return (Excess){ .group = -1 };
}

static void refuse(Lowering *lo, const Excess *excess)
{
    const TileInfo *largest = NULL;
    // A product says more than a statement of an imported function.
    const bool names_product = excess->live.product && excess->live.product_words > excess->most - BESIDE_FRAGMENTS;
    const TileOp *const at = names_product ? excess->live.product : excess->live.at;
    diag_error(lo->diags, at->span,
               "the fragments that hold values here take %d registers of each thread; there are %d",
               names_product ? excess->live.product_words : excess->live.words, excess->most);
    for (int i = 0; i < lo->n_declared; i++) {
        const TileInfo *const tile = lo->declared.items[i];
        if (!is_of_group(tile, excess->group) || !is_live(lo, &excess->live, tile, at)) continue;
        if (tile_words(tile) >= LISTED_WORDS)
            diag_note(lo->diags, tile->buffer->span, "'%s': %d", tile->buffer->name, tile_words(tile));
        if (!largest || tile_words(tile) > tile_words(largest)) largest = tile;
    }
    if (largest)
        diag_help(lo->diags, largest->buffer->span, "'%s' must have fewer rows or columns", largest->buffer->name);
}

// The producer leaves the consumers no number of registers that setmaxnreg takes.
static bool leaves_too_few(const Lowering *lo)
{
    const Shares shares = divide_registers(lo);
    return shares.producer && shares.consumer < SETMAXNREG_LEAST;
}

// More CTAs on a multiprocessor than have registers are fewer. A kernel with wgmma that does not fit as one is refused, with
// every number of groups that it may have (lower.c); another, where the products' results alone do not.
bool registers_suffice(Lowering *lo)
{
    while (lo->occupancy > 1 && (leaves_too_few(lo) || find_excess(lo, BESIDE_MANY, false).live.at)) {
        note(lo, "%d CTAs of a multiprocessor do not have the registers: %d", lo->occupancy, lo->occupancy - 1);
        lo->occupancy--;
    }
    lo->remakes_addresses = find_excess(lo, BESIDE_ADDRESSES, false).live.at != NULL;
    const Excess excess = find_excess(lo, BESIDE_FRAGMENTS, !block_has(lo, lo->kernel->body, finds_wgmma));
    if (!excess.live.at) return true;
    lo->failed = true;
    if (lo->is_last_attempt) refuse(lo, &excess);
    else lo->lacks_registers = true;
    return false;
}

// ---- what each sets

void explain_registers(Lowering *lo)
{
    Text *const out = lo->explanation;
    const int all = divide_registers(lo).consumer;
    int live = 0;
    for (int g = 0; g < lo->all.groups; g++) {
        const int words = live_words(lo, g, false).words;
        live = words > live ? words : live;
    }
    text_print(out, "registers of a computing thread: at most %d, of which %d hold fragments, %d at one time",
               consumer_registers(lo), lo->is_specialised ? most_words(lo) : fragment_words(lo), live);
    if (producer_registers(lo)) text_print(out, "; setmaxnreg: %d in the producer", producer_registers(lo));
    for (int g = 0; g < lo->all.groups; g++) {
        const int own = own_registers(lo, g) ? own_registers(lo, g) : all;
        if (own) text_print(out, "%s %d in group %d", g || producer_registers(lo) ? "," : "; setmaxnreg:", own, g);
    }
    text_print(out, "\n");
}
