// SPDX-License-Identifier: MIT
// print_transfer.h - printing: registers of a fragment stored to shared memory, as the layout engine planned.
#ifndef KILN_LOWER_GPU_PRINT_LAYOUT_PRINT_TRANSFER_H
#define KILN_LOWER_GPU_PRINT_LAYOUT_PRINT_TRANSFER_H

#include "lower/gpu/print/build/printer.h"
#include "lower/gpu/plans/convert_layout.h"
#include "lower/gpu/plans/matrix_load.h"

typedef struct Transfer {
    const SharedTransfer *how;
    const TileInfo *tile;
    int first;           // of its registers
    DType type;          // as stored
    Expr *at;            // address of the panels: u32
    int offset;          // and bytes from there
    int first_row, rows; // that are moved, which lie there from the beginning on; rows 0: all
    bool keeps_address;  // ptxas may keep it from one step of a loop to the next
} Transfer;

void print_copy_transfer(Printer *pr, const TransferPlan *plan);
void store_transfer(Printer *pr, const Transfer *transfer);
void load_transfer(Printer *pr, const Transfer *transfer); // of the type as stored

// ---- addresses
Expr *lanes_part(Printer *pr, const Layout *lanes, int dim); // along a dimension of the threads that give addresses
Expr *lane_address(Printer *pr, const TileInfo *tile, Expr *row, Expr *column); // of an element in shared memory
typedef struct Corner {
    Expr *row, *column;
} Corner; // where a slice begins: i32
Corner corner_of(Printer *pr, const Region *region);

// ---- print_matrix_load.c
void print_matrix_load(Printer *pr, const MatrixLoadPlan *plan);

#endif
