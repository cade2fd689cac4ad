// SPDX-License-Identifier: MIT
// pipeline.h - pipelines whose products run under the next step: what is decided of them, and what prints them.
#ifndef KILN_LOWER_GPU_DECIDE_PIPELINE_PIPELINE_H
#define KILN_LOWER_GPU_DECIDE_PIPELINE_PIPELINE_H

#include "lower/gpu/plans/pipeline.h"
#include "lower/gpu/decide/actions/actions.h"

// ---- software_pipeline.c: deciding; pipelines with stage labels
bool can_software_pipeline(Lowering *lo, TileOp *pipeline);
bool groups_ping_pong(Lowering *lo, TileOp *pipeline);
void act_first_ping_pong(Lowering *lo);
void decide_software_pipeline(Lowering *lo, TileOp *pipeline);

// ---- early_issue.c: deciding; pipelines whose step begins with products that the step before issues at its end
bool can_issue_early(Lowering *lo, TileOp *pipeline);
void decide_early_issue_loop(Lowering *lo, TileOp *pipeline);
void decide_early_issue(Lowering *lo); // such products, if they are due

// ---- product_loop.c: deciding
int loop_products(Lowering *lo, TileOp *pipeline); // of a step, where it is nothing but such products; else 0
bool starts_in_loop(Lowering *lo, const TileOp *fill);
void decide_product_loop(Lowering *lo, TileOp *op, int n_products);

#endif
