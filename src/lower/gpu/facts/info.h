// SPDX-License-Identifier: MIT
// info.h - what is noted about tiles and operations, and visits of what is inside an operation.
#ifndef KILN_LOWER_GPU_FACTS_INFO_H
#define KILN_LOWER_GPU_FACTS_INFO_H

#include "lower/gpu/facts/lowering.h"

bool unsupported(Lowering *lo, Span span, const char *format, ...) __attribute__((format(printf, 3, 4))); // false
void note(Lowering *lo, const char *format, ...) __attribute__((format(printf, 2, 3)));
OpInfo *op_info(Lowering *lo, const TileOp *op);               // made on first use
const OpInfo *info_of(const Lowering *lo, const TileOp *op);   // what is noted, if anything is
TileInfo *tile_info(const Lowering *lo, const Buffer *buffer); // NULL: a tensor or a view
void note_operations(Lowering *lo);
void note_insertion(Lowering *lo, TileOp *declared);
typedef bool OpVisit(Lowering *lo, TileOp *op, void *context);             // true: do not descend
bool is_wgmma(Lowering *lo, const TileOp *op);                             // a product of that kind
bool is_within(const Lowering *lo, const TileOp *op, const TileOp *outer); // or the same
bool is_flow(const TileOp *op);                                            // a loop or an if
// Another shape of all elements of a tensor: its elements are found as a tensor's of that shape are.
bool is_flat_tensor(const Buffer *view);
bool has_all_elements(const Buffer *view); // it is known to have as many as its base, which is whole
// A view of all of a tensor with strides whose rows count several of its dimensions, and whose columns are the tensor's.
bool merges_rows(const Buffer *view);
// Does the view show a whole tensor's rows as elements of another type, each one or more of the tensor's?
bool recasts_rows(const Buffer *view);
const char *line_of(Lowering *lo, const TileOp *op); // of the source: "31", in an imported file "softmax.tile:13"

// ---- visits
void visit_op(Lowering *lo, TileOp *op, OpVisit *visit, void *context);   // the op and what is inside it
void each_op(Lowering *lo, TileOp *block, OpVisit *visit, void *context); // all of a block
typedef bool OpTest(Lowering *lo, TileOp *op);
bool op_has(Lowering *lo, TileOp *op, OpTest *test); // the op passes the test, or what is inside it, not in foralls
bool block_has(Lowering *lo, TileOp *block, OpTest *test);
bool has_jumps(Lowering *lo, TileOp *block);                                 // outside foralls
void each_use(Lowering *lo, TileOp *op, TileUseVisit *visit, void *context); // by the op and what is inside it
typedef struct RootUses {
    const Buffer *root;
    bool reads, writes;
} RootUses;
RootUses root_uses(Lowering *lo, TileOp *op, const Buffer *root); // the same, of one tensor or tile
RootUses own_uses(TileOp *op, const Buffer *root);                // by the op alone

#endif
