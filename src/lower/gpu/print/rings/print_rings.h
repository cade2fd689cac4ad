// SPDX-License-Identifier: MIT
// print_rings.h - printing of what the roles do with rings.
#ifndef KILN_LOWER_GPU_PRINT_RINGS_PRINT_RINGS_H
#define KILN_LOWER_GPU_PRINT_RINGS_PRINT_RINGS_H

#include "lower/gpu/print/build/printer.h"

void print_ring_states(Printer *pr);
void print_advance(Printer *pr, const Action *action);
void print_wait_full(Printer *pr, const Ring *ring);
void print_release(Printer *pr, const Ring *ring, Var *held); // held: the slot that the step before used, or NULL
void print_consumer_acquire(Printer *pr, const Ring *ring);   // of a ring that consumers fill
void print_consumer_arrive(Printer *pr, const Ring *ring);
bool is_release_scope(const Action *action); // decide_last_release() made it
void print_release_scope(Printer *pr, const Action *action);

// ---- tiles.c, barriers of rings
void print_tiles(Printer *pr);
void print_slot_pointers(Printer *pr, const Ring *ring); // its tiles' pointers to the current slot
void print_other_buffer(Printer *pr, const TileInfo *tile);
void init_barriers(Printer *pr);
Expr *other_phase(Printer *pr, const RingState *ring_state);
Expr *full_barrier(Printer *pr, const Ring *ring); // address of the current buffer's
Expr *empty_barrier(Printer *pr, const Ring *ring);

#endif
