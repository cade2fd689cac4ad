// SPDX-License-Identifier: MIT
// registers.h - how many registers fragments take, and each group's threads have.
#ifndef KILN_LOWER_GPU_FACTS_REGISTERS_H
#define KILN_LOWER_GPU_FACTS_REGISTERS_H

#include "lower/gpu/facts/lowering.h"

// Of a producer that copies rows where TMA cannot walk them, or that a list names, leaving 208 to two consumers; and of one
// that copies rows that begin anywhere.
enum { STEPPING_REGISTERS = 88, SHIFTING_REGISTERS = 136 };

typedef struct Shares {
    int producer, consumer;
} Shares; // of a thread; 0: as compiled

int occupancy(const Lowering *lo);                   // CTAs that a multiprocessor holds
int tile_words(const TileInfo *tile);                // 32-bit registers of a thread
int fragment_words(const Lowering *lo);              // of all fragments
bool is_of_group(const TileInfo *tile, int group);   // it holds the tile
int group_words(const Lowering *lo, int group);      // of one group's
int most_words(const Lowering *lo);                  // of any group
int words_during(Lowering *lo, const TileOp *loop);  // of what may hold a value then
int registers_each(const Lowering *lo, int threads); // of a thread, where so many share a multiprocessor's
Shares divide_registers(const Lowering *lo);
bool can_shift_rows(const Lowering *lo);        // a producer that does leaves consumers enough registers
int producer_registers(const Lowering *lo);     // that it keeps; 0: as compiled
int consumer_registers(const Lowering *lo);     // of a thread
int unequal_registers(Lowering *lo, int group); // of its threads; 0: all groups of consumers have the same
int own_registers(Lowering *lo, int group);     // that it sets in its own walk; 0: none

#endif
