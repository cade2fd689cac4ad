// SPDX-License-Identifier: MIT
// print_rings.h - printing of what the roles do with rings.
#ifndef KILN_LOWER_GPU_PRINT_PRINT_RINGS_H
#define KILN_LOWER_GPU_PRINT_PRINT_RINGS_H

#include "lower/gpu/print/printer.h"

void print_ring_states(Printer *pr);
void print_advance(Printer *pr, const Action *action);
void print_wait_full(Printer *pr, const Ring *ring);
void print_release(Printer *pr, const Ring *ring, Var *held); // held: the slot that the step before used, or NULL
void print_consumer_acquire(Printer *pr, const Ring *ring);   // of a ring that consumers fill
void print_consumer_arrive(Printer *pr, const Ring *ring);
bool is_release_scope(const Action *action); // decide_last_release() made it
void print_release_scope(Printer *pr, const Action *action);

// ---- of the producer
void print_acquire(Printer *pr, const Action *action);
void print_expect(Printer *pr, const Action *action);
void print_arrive(Printer *pr, const Action *action);
void print_fetch(Printer *pr, const Action *action); // a copy by boxes or lanes

#endif
