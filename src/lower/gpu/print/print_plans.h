// SPDX-License-Identifier: MIT
// print_plans.h - printing of what the plans of actions say (lower/gpu/plans).
#ifndef KILN_LOWER_GPU_PRINT_PRINT_PLANS_H
#define KILN_LOWER_GPU_PRINT_PRINT_PLANS_H

#include "lower/gpu/plans/convert_layout.h"
#include "lower/gpu/plans/matrix_load.h"
#include "lower/gpu/plans/multistage.h"
#include "lower/gpu/plans/producer.h"
#include "lower/gpu/plans/rows.h"
#include "lower/gpu/plans/scan.h"
#include "lower/gpu/plans/store.h"
#include "lower/gpu/print/printer.h"

// ---- print_map.c
void print_map(Printer *pr, const MapPlan *plan);
void print_early_loads(Printer *pr, const EarlyLoads *loads);
// ---- print_convert_layout.c
void print_layout_conversion(Printer *pr, const ConversionPlan *plan);
void print_conversion_part(Printer *pr, const ConversionPart *side);
// ---- print_transfer.c
void print_copy_transfer(Printer *pr, const TransferPlan *plan);
void print_commit(Printer *pr, const Action *action);
void print_pieces(Printer *pr, const Pieces *pieces);
void print_l2_prefetch(Printer *pr, const L2Prefetch *plan); // print_l2_prefetch.c
// ---- print_store.c
void print_store(Printer *pr, const StorePlan *plan);
void print_store_wait(Printer *pr, const Action *action);
void print_boxes(Printer *pr, const Action *action);
// ---- print_scan.c, print_scan_registers.c
void print_scan(Printer *pr, const ScanPlan *plan);
void print_register_scan(Printer *pr, const TileOp *op);
void print_matrix_load(Printer *pr, const MatrixLoadPlan *plan); // print_matrix_load.c

#endif
