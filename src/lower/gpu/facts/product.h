// SPDX-License-Identifier: MIT
// product.h - products: what is decided of them, and who decides it.
#ifndef KILN_LOWER_GPU_FACTS_PRODUCT_H
#define KILN_LOWER_GPU_FACTS_PRODUCT_H

#include "lower/gpu/facts/lowering.h"

typedef enum { PRODUCT_LOOP, PRODUCT_WGMMA, PRODUCT_MMA, PRODUCT_FMA } ProductKind;

// An operand that no instruction takes from where it is: each lane reads the elements of its words one by one, converted,
// and 0 in the padding.
typedef struct ElementOperand {
    const char *why; // for explain; NULL: by ldmatrix or wgmma
    Var *line, *at;  // row of the left operand or column of the right one; place along the contraction
    Expr *value;     // of Tile IR
} ElementOperand;

// How ldmatrix brings 16 lines by 32 bytes of an operand's contraction from shared memory.
typedef struct OperandLoad {
    bool is_across;   // a row of the tile is one place along the contraction: matrices are transposed
    const char *sort; // of bytes across, whose lines come in pairs: what takes these apart; else NULL
    Layout lanes;     // row and column, from the first on, of which each lane gives the address
} OperandLoad;

// How one `@` is computed.
struct Product {
    ProductKind kind;
    TileOp *op;
    int m, n, k;         // of the instruction's view
    Operand left, right; // of the product as it is computed
    bool is_swapped;     // the transpose is computed: n x m in the source
    DType type;          // of the multiplied elements
    Division division;
    bool a_in_registers;
    int n_group;                // columns of one group
    int n_piece;                // of them those of one instruction
    int row_blocks;             // of 64 (wgmma) or 16 * warps rows per group
    int step_k;                 // of one instruction; of the kept elements, where the left operand is sparse
    bool odd_rows, odd_columns; // bytes transposed in pairs (layout_accumulator_bytes)
    ElementOperand left_elements, right_elements;
    OperandLoad left_load, right_load; // where neither registers nor single elements are read
    bool anywhere;                     // an operand's slice begins where ldmatrix can read it and wgmma cannot
    bool preloads;                     // the left operand is loaded before the loop around
    bool is_preloaded;                 // while deciding: it is loaded
    bool starts_tile;       // in place of the zeros before its loop, the first step overwrites the accumulator
    RegisterTile rectangle; // of each thread, by multiply-adds
    bool keeps_rows;        // there: other products' results share row statistics with it
    bool fell_back;         // to a loop nest, because of how its result is used
    const char *why_not;    // tensor cores, for explain
    const char *why_loop;   // why not even multiply-adds in registers
};

// ---- fma.c: deciding
const char *plan_fma(Lowering *lo, Product *p); // NULL: can be done
bool finish_fma(Lowering *lo, Product *p);

// ---- element_operands.c: deciding; operands that are read element by element, for mma.sync
const char *check_elements(Lowering *lo, const Product *p, const Operand *x); // NULL: can be done
void finish_elements(Lowering *lo, Product *p);

// ---- operand_loads.c: deciding
OperandLoad plan_operand_load(Lowering *lo, const Operand *x, bool is_left);

// ---- sparse.c: deciding; 2:4 sparse left operands
const char *check_sparse(Lowering *lo, const Product *p, bool is_wgmma); // NULL: tensor cores take it
void finish_sparse(Lowering *lo, const Product *p);

// ---- preload.c: deciding; left operands that stay the same through a loop, kept in registers
void choose_preloads(Lowering *lo);
bool is_preloaded_alone(Lowering *lo, const Ring *ring);
void act_preloads(Lowering *lo, TileOp *loop);

// ---- decide_product.c
void decide_product(Lowering *lo, TileOp *op);

// ---- in_flight.c: deciding
void add_in_flight(Lowering *lo, const Product *p);
bool is_in_flight(const Lowering *lo, const TileInfo *acc);
void wait_for_tile(Lowering *lo, const TileInfo *tile, bool written); // products that write it or, if written, read it
void wait_for_all(Lowering *lo);
void cover_in_flight(Lowering *lo, TileOp *op);        // a statement has come that takes its time under them
void act_scheduling_barrier(Lowering *lo);             // what is printed before it runs before what is printed after
bool release_with_in_flight(Lowering *lo, Ring *ring); // when the products that read it are done; false: none does

// ---- partial.c: deciding; sums over rows that only the end of a loop needs whole
void open_partial_sums(Lowering *lo, TileOp *loop);
void close_partial_sums(Lowering *lo, TileOp *loop);
bool is_split_k(Lowering *lo, const TileOp *op);             // a product of whose contraction each group takes a part
int split_k_bytes(const Lowering *lo, const TileInfo *tile); // of scratch
void act_keep_first(Lowering *lo, const TileInfo *tile);     // its value in the first copy, zeros in the others
void act_join_groups(Lowering *lo, const TileInfo *tile);

#endif
