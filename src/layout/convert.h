// SPDX-License-Identifier: MIT
// convert.h - how the values of a fragment get from one layout to another, and what that costs.
//
// The composition of `to` with the inverse of `from` says, mode by mode, where the value of a register and thread
// under `to` stands under `from`. By where the two places of the modes are, the plan is the first possible of
//
//   same        the same registers
//   renamed     the registers of a thread in another order: in unrolled code only names change
//   shuffles    within a warp, a few steps, each of which moves modes between register and lane numbers:
//                 select     the thread's number picks one of several registers (what others hold is left alone)
//                 exchange   a bit of the register number and a bit of the lane number change places (shfl.xor)
//                 lanes      bits of the lane number change places, or one lane sends to several (shfl.idx)
//                 gather     both lanes of a pair get what both have (shfl.xor): twice the registers
//   shared      through shared memory: stmatrix and ldmatrix, or vectors as wide as each side has them, in rows, in
//               padded rows or in swizzled panels, whichever has the fewest bank conflicts
//
// where shuffles give way to shared memory if that is cheaper.
//
// The cost is in cycles of a warp scheduler for one warp, while all four of a multiprocessor do the same: a selection
// 2 (64 lanes a cycle), a shuffle 4 (32 lanes a cycle), 128 bytes to or from shared memory without a conflict 4, plus
// what the warp waits for once (CUDA C++ Programming Guide, arithmetic throughput, 8.0 and 9.0). Renaming is free.
#ifndef KILN_LAYOUT_CONVERT_H
#define KILN_LAYOUT_CONVERT_H

#include "layout/linear.h"

enum { CONVERT_MAX_STEPS = 16, LANE_BITS = 5, LANE_ZERO = -1 };

typedef enum ConversionKind { CONVERT_SAME, CONVERT_RENAMED, CONVERT_SHUFFLES, CONVERT_SHARED } ConversionKind;
typedef enum StepKind { STEP_SELECT, STEP_EXCHANGE, STEP_LANES, STEP_GATHER } StepKind;

// What a step makes of the registers before it; register numbers are high * extent * stride + value * stride + low, the
// value of one mode.
//   select     result[high][low] = value[high][number / by_stride % extent][low], where number is the thread's `by`
//   exchange   of the registers of values 0 and 1, a lane keeps that of its bit and gets the other from lane ^ by_stride
//   lanes      result[r] = value[r] of the lane whose bit i is the reader's bit source[i], or 0
//   gather     result[value][r] = value[r] of the lane with that bit; the mode is the slowest of the result
typedef struct ConversionStep {
    StepKind kind;
    int stride, extent; // of the mode of the register number; gather: of the result's
    LayoutInput by;
    int by_stride;            // of the thread number's mode: lane bit b has 1 << b
    int source[LANE_BITS];    // LANE_ZERO: 0
    int registers;            // after it
    int shuffles, selections; // instructions, if a word is one element
} ConversionStep;

typedef enum TransferInstruction { BY_VECTORS, BY_MATRICES, BY_TRANSPOSED_MATRICES } TransferInstruction;

// One side of a way through shared memory. piece: elements of a vector; 2 for matrices, whose lanes hold pairs.
typedef struct SharedSide {
    TransferInstruction access;
    int piece;
    int instructions;
    int wavefronts;   // passes of 128 bytes through the banks
    LinearMap pieces; // (element of the piece, number of the piece) -> register
} SharedSide;

typedef enum ConversionScope { WITHIN_WARP, WITHIN_CTA } ConversionScope;

typedef struct Conversion {
    ConversionKind kind;
    const char *why; // it is not simpler; NULL: same or renamed
    int cost;
    int n_steps;
    ConversionStep step[CONVERT_MAX_STEPS];
    LinearMap registers; // of `to` -> of what the steps end with
    int per_word;        // neighbouring registers that all steps move alike, and that fit 32 bits
    // CONVERT_SHARED
    SharedLayout shared;
    SharedSide stores, loads;
    ConversionScope scope; // who must have stored before anybody loads
} Conversion;

typedef struct ConversionTarget {
    Partition partition;
    int element_bits;                // 8, 16, 32, 64
    bool has_stmatrix, has_ldmatrix; // of 16-bit elements
    bool in_registers;               // only same, renamed and shuffles are wanted
} ConversionTarget;

// Both of the same extents and complete (layout_covers), else a reason. Of replicated values the first are stored, and
// all of `to` are made. NULL: *plan is the cheapest; with in_registers, the reason why there is none.
const char *layout_convert(const Layout *from, const Layout *to, const ConversionTarget *target, Conversion *plan);

// ---- wider pieces of a row (widen.c)
// The layout in which every lane has `elements` (a power of two) neighbours along the last dimension: modes of the column
// that lanes counted change places with the lowest ones above `elements` that registers count. NULL: *wide is it; else why
// there is none. layout_convert() says what it takes to get there.
const char *layout_widen(const Layout *layout, Partition partition, int elements, Layout *wide);
bool conversion_exchanges(
    const Conversion *how); // it is steps of STEP_EXCHANGE alone, and registers keep their numbers

// ---- between a fragment and a given tile of shared memory (shared_transfer.c)
// Panels that products read, boxes that TMA sends, and the staging of a conversion are filled alike: instruction i of a
// thread moves the bytes at (place ^ flip) + step, where `place` is the thread's own of instruction `base`. With swizzled
// panels that holds for pieces that are columns of a panel (flip), panels or eight rows further (step).
typedef struct PieceAddress {
    int base, flip, step;   // of two instructions with one base flip and step are constants
    int row, panel, column; // of instruction i in thread 0; column: within the panel
} PieceAddress;

typedef struct SharedTransfer {
    Conversion exchange; // before a store, so that pieces are wide enough; n_steps 0: none
    SharedSide side;     // registers are those after it
    SharedLayout shared;
    Layout lanes; // dimensions row, panel, column within it: of the threads that give addresses; no registers
    int n;        // instructions: pieces, or four matrices each
    PieceAddress *address;
    // Lanes with this bit set take piece number i ^ swap first, so that rows that would meet in the same banks do not.
    int swap, swap_lane; // swap 0: none do
} SharedTransfer;

typedef struct TransferOptions {
    Partition partition;
    int element_bytes;
    bool is_store, has_matrices; // stmatrix or ldmatrix
    int least_bytes;             // of a piece that is stored: else lanes exchange registers before; 0: any
    bool
        anywhere; // the fragment is a slice of the tile that begins anywhere: each instruction is a base, panels do not count
} TransferOptions;

// Of a fragment that is moved box by box: registers `first` .. of it are those of the box, which is laid out among the same
// lanes (and warps, if its layout has them); corner[d]: where the box begins in the first thread. False: they are not.
bool layout_find_box(const Layout *fragment, const Layout *box, int first, int *corner);
// False: a piece would cross a panel's end, is too narrow, or the threads' modes are no powers of two.
bool plan_transfer(Arena *arena, const Layout *fragment, const SharedLayout *shared, const TransferOptions *options,
                   SharedTransfer *plan);
int transfer_register(const SharedTransfer *plan, int element, int piece);

// ---- through shared memory (convert_shared.c)
// One side: what moves a fragment's elements to a shared layout, or from it, at least cost.
typedef struct Side {
    const Layout *layout;
    LinearMap map;
    int element_bytes;
    bool is_store;
} Side;
SharedSide best_side(const Side *side, const SharedLayout *shared, bool has_matrices);
// Passes through the banks, if lanes with bit `lane` of their number take piece i ^ swap where others take i.
int swapped_wavefronts(const Side *side, const SharedLayout *shared, const SharedSide *result, int swap, int lane);
// The cheapest way; fills `shared`, both sides and the cost without waiting.
void plan_shared(const Layout *from, const Layout *to, const ConversionTarget *target, Conversion *plan);

#endif
