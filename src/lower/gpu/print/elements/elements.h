// SPDX-License-Identifier: MIT
// elements.h - maps over elements: the loops, wide moves and statements of one iteration; scans.
#ifndef KILN_LOWER_GPU_PRINT_ELEMENTS_ELEMENTS_H
#define KILN_LOWER_GPU_PRINT_ELEMENTS_ELEMENTS_H

#include "lower/gpu/print/expressions/expressions.h"
#include "lower/gpu/plans/map.h"
#include "lower/gpu/plans/scan.h"

// ---- thread.c: the statements of one iteration
void apply_update(Printer *pr, TileOp *update, Expr *value, DType type, const Iteration *it); // buffer target
void index_bounds(Printer *pr, const LoopIndex *index, const Iteration *it, Expr **from, Expr **to);
void begin_index_loop(Printer *pr, Nest *nest, const LoopIndex *index, LoopForm form, const Iteration *it);
void begin_counted_loop(Printer *pr, Nest *nest, const TileOp *op, LoopForm form, const Iteration *it); // of a T_FOR
Expr *let_value(Printer *pr, const TileOp *op, const Iteration *it); // of a T_LET; NULL: none
void emit_thread_op(Printer *pr, TileOp *op, Iteration *it);
void emit_thread_block(Printer *pr, TileOp *block, Iteration *it);
void begin_while(Printer *pr, Nest *nest, Expr *cond, const Iteration *it); // cond: of Tile IR

// ---- moves.c
int first_of_mode(Printer *pr, const Iteration *it, int mode); // of the loop over it
int end_of_mode(Printer *pr, const Iteration *it, int mode);
// Loops over the register modes but the vector's, all loads from tensors of several iterations before the first
// that uses one; every nest that it opens goes to `nests`. Returns how many.
int begin_register_loops(Printer *pr, Iteration *it, Nest *nests);
int begin_mode_loops(Printer *pr, Iteration *it, int first, int end, Nest *nests); // over it->order[first .. end)
void emit_batch(Printer *pr, Iteration *it);
void emit_vector_loads(Printer *pr, Iteration *it);
bool is_fp8(DType type);
bool waits_in_f32(Printer *pr, const Iteration *it, const TileOp *store, bool rounds); // a stored vector's values
void store_quad(Printer *pr, const TileOp *store, Var *words, const Iteration *it);
void emit_vector_stores(Printer *pr, Iteration *it);

// ---- halves.c
const TileOp *find_halves(Printer *pr, TileOp *map,
                          const Iteration *it);            // a store whose elements along the last mode are; or NULL
Expr *word_of_halves(const TileOp *store, const Var *var); // var: the index of the elements

// ---- masks.c
Expr *mask_test(Printer *pr, TileOp *forall, const Iteration *it); // uniform in a warp; NULL: no test would help

// ---- print_map.c
// Declares the index variables of the dimensions in `dims` (bits of the layout's) for the current register modes;
// returns the condition under which they are iterations at all, NULL: always.
Expr *declare_indices(Printer *pr, const Iteration *it, uint32_t dims);
void print_map(Printer *pr, const MapPlan *plan);
void print_early_loads(Printer *pr, const EarlyLoads *loads);

// ---- debug.c
void emit_assert(Printer *pr, TileOp *op, const Iteration *it);
void emit_print(Printer *pr, TileOp *op, const Iteration *it);
void emit_external(Printer *pr, TileOp *op, const Iteration *it);

// ---- print_scan.c, print_scan_registers.c
void print_scan(Printer *pr, const ScanPlan *plan);
void print_register_scan(Printer *pr, const TileOp *op);

// ---- print_partial.c
void print_partial(Printer *pr, const Action *action); // of an ACTION_MAP that is not MAP_ELEMENTS

#endif
