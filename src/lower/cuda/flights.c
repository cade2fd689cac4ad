// SPDX-License-Identifier: MIT
// flights.c - products in flight, and waiting for them where a result is first used.
//
// Groups of products complete in order, so waiting for one leaves the later ones in flight. When a flight is known to be
// done, the ring buffers that it read are released.
#include "lower/cuda/cuda.h"

void add_flight(Lowering *lo, const Product *p)
{
    Flight flight = { .accumulator = tile_info(lo, p->op->matmul.dst.buffer), .op = p->op };
    if (p->a_in_registers && tile_info(lo, p->left.region.buffer)->is_packed)
        flight.a_registers = tile_info(lo, p->left.region.buffer); // else the product reads a packed copy
    else if (!p->a_in_registers && !p->preloaded) flight.reads[0] = tile_info(lo, p->left.region.buffer);
    flight.reads[1] = tile_info(lo, p->right.region.buffer);
    VEC_PUSH(lo->arena, &lo->flights, flight);
}

void settle_registers(Lowering *lo, const TileInfo *acc, Var *registers)
{
    emit_call(lo, arena_printf(lo->arena, "settle<%d>", layout_registers(&acc->layout)), 1, var_of(lo, registers));
}

void emit_settle(Lowering *lo, const TileInfo *tile) { settle_registers(lo, tile, tile->registers); }

bool is_flying(const Lowering *lo, const TileInfo *acc)
{
    for (int i = 0; i < lo->flights.count; i++)
        if (lo->flights.items[i].accumulator == acc) return true;
    return false;
}

// The assembler moves a wait to the top of its basic block, before the work that it should stand behind. Only a block's
// boundary holds it: a wait for a buffer that is known to be full is one, and costs next to nothing.
static void hold_wait(Lowering *lo, const Flight *flight)
{
    const Channel *const channel = flight->n_releases ? flight->releases[0] : NULL;
    if (!channel) return;
    for (int i = 0; i < lo->n_declared; i++) {
        const TileInfo *const tile = lo->declared.items[i];
        if (tile->is_accumulator && tile->home == HOME_REGISTERS && !is_flying(lo, tile)) emit_settle(lo, tile);
    }
    emit_wait_full(lo, channel);
}

void hold_work(Lowering *lo)
{
    if (lo->flights.count) hold_wait(lo, &lo->flights.items[lo->flights.count - 1]);
}

static bool releases_any(const Lowering *lo, const Flight *flight)
{
    bool any = flight->n_releases > 0;
    for (int i = 0; i < lo->channels.count; i++)
        any |= flight->op && release_within(lo, lo->channels.items[i]) == flight->op;
    return any;
}

static void release(Lowering *lo, Flight *flight)
{
    for (int i = 0; i < flight->n_releases; i++) emit_release(lo, flight->releases[i]);
    flight->n_releases = 0;
    for (int i = 0; i < lo->channels.count; i++)
        if (flight->op && release_within(lo, lo->channels.items[i]) == flight->op)
            emit_last_release(lo, lo->channels.items[i], true);
    flight->op = NULL;
}

// Each accumulator once.
static void settle_results(Lowering *lo, int last)
{
    for (int i = 0; i <= last; i++) {
        const TileInfo *const acc = lo->flights.items[i].accumulator;
        bool again = false;
        for (int j = i + 1; j <= last; j++) again = again || lo->flights.items[j].accumulator == acc;
        if (!again) emit_settle(lo, acc);
    }
}

// Everything up to flights[last] is done.
static void wait_for_flight(Lowering *lo, int last)
{
    const int later = lo->flights.count - 1 - last;
    if (lo->holds_waits) hold_wait(lo, &lo->flights.items[last]);
    // Groups that share tiles give back each as soon as it is read: the other's next one may stand behind it.
    for (int i = 0; i < last && lo->has_teams; i++) {
        Flight *const flight = &lo->flights.items[i];
        if (releases_any(lo, flight)) emit_call(lo, "wgmma_wait", 1, i32_const(lo, lo->flights.count - 1 - i));
        release(lo, flight);
    }
    emit_call(lo, "wgmma_wait", 1, i32_const(lo, later));
    settle_results(lo, last);
    for (int i = 0; i <= last; i++) release(lo, &lo->flights.items[i]);
    for (int i = last + 1; i < lo->flights.count; i++) lo->flights.items[i - last - 1] = lo->flights.items[i];
    lo->flights.count = later;
}

static bool reads_tile(const Flight *flight, const TileInfo *tile)
{
    return flight->reads[0] == tile || flight->reads[1] == tile;
}

void wait_for_tile(Lowering *lo, const TileInfo *tile, bool written)
{
    for (int i = lo->flights.count - 1; i >= 0; i--) {
        const Flight *const f = &lo->flights.items[i];
        if (f->accumulator == tile || (written && (f->a_registers == tile || reads_tile(f, tile)))) {
            wait_for_flight(lo, i);
            return;
        }
    }
}

void wait_for_all(Lowering *lo)
{
    wait_for_copies(lo);
    if (lo->flights.count) wait_for_flight(lo, lo->flights.count - 1);
}

bool release_with_flight(Lowering *lo, Channel *channel)
{
    for (int i = lo->flights.count - 1; i >= 0; i--) {
        Flight *const f = &lo->flights.items[i];
        for (int t = 0; t < channel->n_tiles; t++)
            if (reads_tile(f, channel->tiles[t]) && f->n_releases < COUNT(f->releases)) {
                f->releases[f->n_releases++] = channel;
                return true;
            }
    }
    return false;
}
