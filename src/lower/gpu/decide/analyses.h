// SPDX-License-Identifier: MIT
// analyses.h - the analyses that lower.c calls, in its order. Each finds what later ones and the walks decide by, and
// leaves it in Lowering, TileInfo, OpInfo and Ring. Those that return false have reported why the kernel is refused.
#ifndef KILN_LOWER_GPU_DECIDE_ANALYSES_H
#define KILN_LOWER_GPU_DECIDE_ANALYSES_H

#include "lower/gpu/facts/lowering.h"

void structure_kernel(Lowering *lo);
void merge_pipeline_indices(Lowering *lo);
void find_bounds(Lowering *lo);
void find_forall_copies(Lowering *lo);
void undo_forall_copies(Lowering *lo); // the kernel as it was before, for another lowering
void limit_maps(Lowering *lo);
bool may_shift_rows(Lowering *lo); // where no boxes can be made (shifted_rows.c)
void find_cluster(Lowering *lo);
void find_warp_roles(Lowering *lo);
void expand_scans(Lowering *lo, TileOp **link);
void find_producer_group(Lowering *lo);
void assign_storage(Lowering *lo);
void find_gathered_tiles(Lowering *lo);
void find_column_reads(Lowering *lo);
bool give_products_fragments(Lowering *lo); // the kernel has changed: all is to be decided anew (detour.c)
void find_fetches(Lowering *lo);
void find_consumer_rings(Lowering *lo);
void find_shared_tiles(Lowering *lo);
void find_register_prefetches(Lowering *lo); // before: it is known which tiles a cluster exchanges
void find_product_only(Lowering *lo);
bool lay_out_shared_tiles(Lowering *lo);
void find_multistages(Lowering *lo);
bool place_memory(Lowering *lo);
void find_hazards(Lowering *lo);
void find_backward_slice(Lowering *lo);
void join_release_fences(Lowering *lo);  // of the schedule's roles, when they are complete
void drop_needless_fences(Lowering *lo); // then

#endif
