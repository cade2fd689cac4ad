// SPDX-License-Identifier: MIT
// elementwise.h - maps over elements: how their iterations are divided, and what is found in them.
#ifndef KILN_LOWER_GPU_FACTS_ELEMENTWISE_H
#define KILN_LOWER_GPU_FACTS_ELEMENTWISE_H

#include "lower/gpu/facts/lowering.h"

// One pass of a forall as a thread sees it: which register each mode is at, and loads made beforehand.
struct Iteration {
    const LoopIndex *indices;
    int n;
    Layout layout; // over the distributed indices
    Partition partition;
    int dim_of[LAYOUT_MAX_RANK * 2]; // index -> dimension of the layout; -1: a loop in each thread
    Var *mode[LAYOUT_MAX_MODES];     // loop variable of each register mode, NULL for others
    struct {
        Expr *load;
        Var *values;
        bool in_words;
    } loaded[16];
    int n_loaded; // vector loads
    struct {
        Var *at;
        int extent;
    } batch[LAYOUT_MAX_MODES]; // modes of loads made together; NULL: not one
    struct {
        TileOp *store;
        Var *values;
        bool rounds;
        int codes; // the load of fp8 that it converts in pairs, and that is all; -1: none
    } stored[8];
    int n_stored; // and stores
    struct {
        Expr *convert;  // a code's conversion to a floating type
        Buffer *bytes;  // the tile that it is in, of bytes
        Expr **subs;    // of the byte that the codes begin at; of less than two, of the piece of 16 bytes around them
        Expr *byte;     // in that piece; NULL: there is none
        Expr *position; // of the first code in that byte; NULL: the first one
        Var *values;
    } codes[8];
    int n_codes;                          // vectors of codes, which are converted together (codes.c)
    int vector;                           // the mode they run along, -1: none
    Var *run;                             // and the index
    int order[LAYOUT_MAX_MODES], n_order; // the other register modes, the slowest first
    int n_batched, batch_size, chunk;
    Var *chunk_begin; // of these the last so many: their loads are made together
    bool is_loaded;   // while printing: they are made already

    struct {
        TileOp *update;
        Var *partial;
        uint32_t kept;
        int chains;
        bool joins;
    } reductions[8]; // kept: layout dimensions; joins: threads exchange what they have
    int n_reductions;
    const TileOp *halves; // while printing: a store of both halves of a word (halves.c)
    bool is_linear;       // the distributed indices are counted through by all threads together
    bool recasts;         // vectors may be of views whose elements are several of a tensor's (recasts_rows)
};

// ---- iteration.c
Iteration own_iteration(void);                        // of one thread alone
bool is_map(const TileOp *op);                        // as_map takes it
TileOp *map_of(const Lowering *lo, const TileOp *op); // the same, once as_map() has made it
TileOp *as_map(Lowering *lo, TileOp *op);             // a copy, fill or tile atomic as a forall; a forall as it is
LoopIndex new_index(const Lowering *lo, const char *name, Expr *extent, Span span); // 0 .. extent
bool static_extent(const LoopIndex *index, int64_t *lo, int64_t *hi);
bool full_extent(const LoopIndex *index, int64_t *extent); // 0 .. extent, constant
// Are the subscripts exactly some of these indices, each once? Then which[d] is the index of subscript d.
bool subscripts_are_indices(Expr *const *subs, int rank, const LoopIndex *indices, int n, int *which);
// Subscripts that are indices, or indices that count a dimension through together (y*H + h): index[] is those of
// dimension 0, the slowest first, then those of dimension 1, and so on; dims says how many and of which extents. Each
// stands once.
typedef struct Subscripts {
    DimensionSplit dims[MAX_RANK];
    int n, index[LAYOUT_MAX_RANK];
    bool is_split;
} Subscripts;
// The iteration's register mode that moves with each of the tile's; false: the element is in no register of its own.
bool find_register_modes(const Lowering *lo, const TileInfo *tile, Expr *const *subs, const Iteration *it,
                         Layout *layout, int *same);
bool match_subscripts(const Lowering *lo, Expr *const *subs, int rank, const LoopIndex *indices, int n,
                      Subscripts *result);
bool split_layout(const TileInfo *tile, const Subscripts *subs, Layout *parts); // with a dimension for each index
bool is_fragment_in_registers(const Lowering *lo, const Buffer *buffer);
int vector_words(const Buffer *buffer, int width); // of 32 bits

// ---- iterate.c
void choose_iteration(Lowering *lo, TileOp *forall, Iteration *it);
typedef struct MapUse {
    TileUse use;
    TileOp *op;
} MapUse;
typedef VEC(MapUse) MapUses;
void map_uses(Lowering *lo, TileOp *forall, MapUses *uses); // of everything in its body
bool has_replicas(const Layout *layout);                    // threads that repeat the iterations of others
// Whether threads that repeat iterations, for registers or results of their own, would read memory that the first of
// them has changed.
bool replicas_would_race(Lowering *lo, TileOp *forall, const MapUses *uses, const Layout *layout);

// ---- map.c
void find_reductions(Lowering *lo, TileOp *forall, Iteration *it);
bool result_is_looped(const TileOp *update, const Iteration *it); // of a reduction: no thread has an element of it

// ---- packed.c
bool is_packed_conversion(Lowering *lo, const TileOp *forall, TileInfo **to, TileInfo **from);

// ---- vector.c
// The mode of the layout that runs through consecutive elements, if loads or stores of this forall can move several
// at a time; -1: none. Fills it->loaded and it->stored.
int choose_vectors(Lowering *lo, TileOp *forall, Iteration *it, Var **run);
void choose_moves(Lowering *lo, TileOp *forall, Iteration *it); // the same, and which loads are made together
int early_words(const Iteration *it); // of all its loads; 0: they cannot be made before its loops

// ---- codes.c
// Adds what the expression converts of a run of `width` codes along `run` to it->codes.
void find_codes(Lowering *lo, Iteration *it, Var *run, int width, Expr *x);

// ---- rescale.c
const TileInfo *rescale_factor(Lowering *lo, const TileOp *op); // of its rows; NULL: it is no such product

#endif
