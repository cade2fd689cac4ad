// SPDX-License-Identifier: MIT
// partition.c - how many threads a CTA has.
//
// The consumers are warps(n), or what the kernel's products and tiles ask for. Before them comes the producer, of
// a whole group where registers are divided between groups (registers.c), else of one warp.
//
// before: jumps are structure       after: lo->partition, the groups and warps of the consumers
#include "lower/gpu/facts/lowering.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/partition.h"

typedef struct Sizes {
    int64_t rows;
    bool products, pipelines;
    int64_t largest;
} Sizes;

static bool measure_products(Lowering *lo, TileOp *op, void *context)
{
    Sizes *const sizes = context;
    int64_t rows;
    if (op->kind == T_MATMUL) {
        sizes->products = true;
        const Operand *const a = &op->matmul.a;
        if (expr_as_int(region_extent(&a->region, a->transposed ? 1 : 0), &rows) && rows > sizes->rows)
            sizes->rows = rows;
    }
    sizes->pipelines |= op->kind == T_PIPELINE;
    if (op->kind == T_TILE) {
        int64_t n = 1, extent;
        for (int d = 0; d < op->tile.buffer->rank; d++)
            n *= expr_as_int(op->tile.buffer->shape[d], &extent) ? extent : 1;
        if (n > sizes->largest) sizes->largest = n;
    }
    return false;
}

// ---- groups that have a part in no product

typedef struct Useful {
    int groups;
    bool all, any; // all products divide among so many, some do
    bool is_open;  // products that others decide of: by hints, by groups that statements are placed on
} Useful;

// By rows, or else by columns (mma/products.c).
static bool divides_among(const TileOp *op, int groups)
{
    int64_t m = 0, n = 0;
    const Operand *const a = &op->matmul.a, *const b = &op->matmul.b;
    return !expr_as_int(region_extent(&a->region, a->transposed), &m) ||
           !expr_as_int(region_extent(&b->region, !b->transposed), &n) || m > 64 * (groups - 1) ||
           n % (8 * groups) == 0;
}

static bool see_product(Lowering *lo, TileOp *op, void *context)
{
    Useful *const useful = context;
    useful->is_open |= op->groups != 0;
    if (op->kind != T_MATMUL) return op->kind == T_FORALL;
    const bool divides = divides_among(op, useful->groups);
    useful->is_open |= op->matmul.dst.buffer->hint != HINT_NONE || op->matmul.meta ||
                       dtype_bits(op->matmul.a.region.buffer->type) > 16;
    useful->all = useful->all && divides;
    useful->any = useful->any || divides;
    return false;
}

static Useful see_groups(Lowering *lo, int groups)
{
    Useful useful = { .groups = groups, .all = true };
    each_op(lo, lo->kernel->body, see_product, &useful);
    return useful;
}

// Where no product divides among the groups, some would only repeat what others do: there are as many as divide all. More
// CTAs on a multiprocessor have the warps that were asked for.
static int leave_out_groups(Lowering *lo, int groups)
{
    const Useful asked = see_groups(lo, groups);
    int n = groups;
    if (!lo->gpu->tma || lo->kernel->checked || asked.is_open || asked.all || asked.any) return groups;
    while (n > 1 && !see_groups(lo, n).all) n--;
    if (lo->kernel->occupancy <= 1) lo->occupancy = (groups + n - 1) / n;
    note(lo, "no product divides among %d groups: there are %d", groups, n);
    return n;
}

// ---- the choice

// warps(n), or one group per 64 rows of the tallest product, at most two.
void choose_partition(Lowering *lo)
{
    Sizes sizes = { 0 };
    each_op(lo, lo->kernel->body, measure_products, &sizes);
    int warps = lo->kernel->warps;
    if (!warps) warps = sizes.products ? (sizes.rows >= 128 ? 8 : 4) : sizes.largest > 8192 ? 8 : 4;
    const int most = sizes.products || sizes.pipelines ? CONSUMER_WARPS_MAX : WARPS_MAX;
    if (lo->groups_wanted) warps = 4 * lo->groups_wanted;
    if (warps > most) warps = most;
    if (!lo->groups_wanted && sizes.products && warps > 4) warps = 4 * leave_out_groups(lo, warps / 4);
    lo->partition = warps < 4 ? (Partition){ 1, warps } : (Partition){ warps / 4, 4 };
}

// Where statements are placed on groups, their number stays.
bool may_have_groups(const Lowering *lo, int groups) { return !lo->is_specialised && groups >= 1 && groups <= 4; }

int partition_threads(Partition partition) { return partition.groups * partition.warps * WARP_LANES; }

int consumer_threads(const Lowering *lo) { return partition_threads(lo->partition); }

int all_threads(const Lowering *lo) { return partition_threads(lo->all); }

bool has_room_for_producer(const Lowering *lo) { return consumer_threads(lo) <= CONSUMER_WARPS_MAX * WARP_LANES; }

int producer_threads(const Lowering *lo)
{
    return !lo->has_producer ? 0 : lo->partition.warps == 4 ? WARPGROUP_THREADS : WARP_LANES;
}
