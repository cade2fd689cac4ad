// SPDX-License-Identifier: MIT
// explain.c - what was decided, for `kiln explain`.
#include "lower/gpu/decide/copy/fetch.h"
#include "lower/gpu/decide/layout/convert_layout.h"
#include "lower/gpu/facts/box.h"
#include "lower/gpu/decide/pipeline/pipeline.h"
#include "lower/gpu/decide/memory/register_limits.h"
#include "lower/gpu/facts/registers.h"
#include "lower/gpu/decide/pipeline/store.h"
#include "lower/gpu/facts/operands.h"
#include "lower/gpu/facts/groups.h"
#include "lower/gpu/decide/explain/explain.h"
#include "lower/gpu/decide/memory/memory.h"
#include "lower/gpu/decide/pipeline/multistage.h"
#include "lower/gpu/decide/pipeline/producer.h"
#include "lower/gpu/decide/mma/products.h"
#include "lower/gpu/decide/copy/rows.h"
#include "lower/gpu/facts/info.h"
#include "lower/gpu/facts/partition.h"
#include "lower/gpu/facts/roles.h"
#include "lower/gpu/facts/load_balance.h"

// The group that does it alone; -1: all do.
static int single_group(const Lowering *lo, uint32_t groups)
{
    if (!lo->is_specialised || groups == 0 || (groups & (groups - 1)) != 0) return -1;
    int group = 0;
    while (!(groups >> group & 1)) group++;
    return group;
}

static void explain_tile(Lowering *lo, const TileInfo *tile)
{
    Text *const out = lo->explanation;
    const Buffer *const b = tile->buffer;
    text_print(out, "  %-10s %s", b->name, dtype_name(b->type));
    for (int d = 0; d < b->rank; d++) {
        int64_t extent = 0;
        expr_as_int(b->shape[d], &extent);
        text_print(out, "[%lld]", (long long)extent);
    }
    if (tile->storage == TILE_IN_REGISTERS) {
        const int group = single_group(lo, tile->groups);
        text_print(out, ": %d registers of each thread%s; ", layout_registers(&tile->layout) * dtype_bits(b->type) / 32,
                   group < 0 ? "" : arena_printf(lo->arena, " of group %d", group));
        layout_print(out, &tile->layout);
        text_print(out, "\n");
        return;
    }
    text_print(out, ": %d x %d bytes at %d", tile->buffers, tile->shared.bytes, tile->offset);
    if (tile->shared.swizzle_bytes)
        text_print(out, ", panels of %d columns, swizzle %d", tile->shared.panel_columns, tile->shared.swizzle_bytes);
    if (row_padding(b)) text_print(out, ", rows %d bytes apart", tile->shared.pitch_bytes);
    if (tile->ring && tile->ring->is_consumer_ring)
        text_print(out, ", filled by group %d (ring %d)", tile->ring->source_group, tile->ring->index);
    else if (tile->ring)
        text_print(out, ", fetched ahead (ring %d)%s", tile->ring->index,
                   tile->is_multicast || tile->is_exchanged ? ", once for the cluster" : "");
    if (tile->multistage) text_print(out, ", multistage cp.async");
    if (tile->why) text_print(out, "; in shared memory because %s", tile->why);
    text_print(out, "\n");
}

// Which instruction, and how many of them a group or a warp issues for one product.
static void explain_instructions(Lowering *lo, const Product *p, int group)
{
    const int k = p->division == DIVIDE_CONTRACTION ? p->k / lo->partition.groups : p->k, steps = k / p->step_k;
    const MmaShape *const mma = product_mma(lo, p);
    const char *const where = mma->kind == MMA_WARP ? "each warp"
                              : group < 0           ? "each group"
                                                    : arena_printf(lo->arena, "group %d", group);
    text_print(lo->explanation, " (%d m%dn%dk%d of %s in %s",
               steps * p->row_blocks * ((p->n_group + p->n_piece - 1) / p->n_piece), mma->m, p->n_piece, p->step_k,
               dtype_name(p->type), where);
    if (mma->kind == MMA_WARP_GROUP) text_print(lo->explanation, ", B %s", p->right.transposed ? "K-major" : "N-major");
    text_print(lo->explanation, ")");
}

// The tensors that the statements of a forall read and write.
typedef struct Accessed {
    const Buffer *tensors[8];
    bool writes[8];
    int n;
} Accessed;

static void access(const TileUse *use, void *context)
{
    Accessed *const accessed = context;
    const Buffer *const root = buffer_root(use->buffer);
    const bool writes = use->writes || use->atomic;
    if (root->kind != BUFFER_TENSOR) return;
    for (int i = 0; i < accessed->n; i++)
        if (accessed->tensors[i] == root && accessed->writes[i] == writes) return;
    if (accessed->n < COUNT(accessed->tensors)) {
        accessed->tensors[accessed->n] = root;
        accessed->writes[accessed->n++] = writes;
    }
}

static bool access_op(Lowering *lo, TileOp *op, void *context)
{
    tile_uses(op, access, context);
    return false;
}

static void explain_forall(Lowering *lo, TileOp *op)
{
    Text *const out = lo->explanation;
    const OpInfo *const info = op_info(lo, op);
    Accessed accessed = { .n = 0 };
    visit_op(lo, op, access_op, &accessed);
    if (accessed.n == 0) return;
    text_print(out, "  line %s:", line_of(lo, op));
    for (int i = 0; i < accessed.n; i++)
        text_print(out, "%s %s %s", i ? "," : "", accessed.tensors[i]->name, accessed.writes[i] ? "written" : "read");
    text_print(out, " by the threads%s%s\n", info->fills ? " of the producer" : "",
               fill_is_gather(lo, op) ? ", rows by cp.async"
               : fill_is_rows(lo, op) ? ", rows through registers"
                                      : "");
}

// What moves between tensors and tiles, beside what the producer fetches.
static bool explain_move(Lowering *lo, TileOp *op, void *context)
{
    Text *const out = lo->explanation;
    if (op->kind == T_FORALL) explain_forall(lo, op);
    if (op->kind != T_COPY && op->kind != T_ATOMIC_TILE) return op->kind == T_FORALL;
    const Buffer *const to = buffer_root(op->copy.dst.buffer), *const from = buffer_root(op->copy.src.buffer);
    if (op->kind == T_COPY) explain_conversion(lo, op);
    if (to->kind == BUFFER_TENSOR && store_is_staged(lo, op))
        text_print(
            out, "  line %s: %s %s %s by TMA, staged%s%s\n", line_of(lo, op), from->name,
            op->kind == T_COPY ? "to" : "added to", to->name,
            slice_is_aligned(lo, &op->copy.dst) ? "; where its rows are not multiples of 16 bytes, by the threads" : "",
            op_info(lo, op)->window ? "; what its view ends within, by the threads" : "");
    else if (fill_is_box(lo, op))
        text_print(out, "  line %s: %s to %s by TMA, into the ring that the producer's threads fill\n", line_of(lo, op),
                   from->name, to->name);
    else if (to->kind == BUFFER_TENSOR || (from->kind == BUFFER_TENSOR && !op_info(lo, op)->fetched)) {
        const TileInfo *const tile = tile_info(lo, to);
        const char *const why = tile && tile->buffer->kind == BUFFER_SHARED ? tile->why_in_place : NULL;
        text_print(out, "  line %s: %s %s %s by the threads%s%s\n", line_of(lo, op), from->name,
                   op->kind == T_COPY ? "to" : "added to", to->name, why ? ", not ahead because " : "", why ? why : "");
    }
    return false;
}

static bool has_steps(const TensorMap *map)
{
    bool any = false;
    for (int d = 0; d < map->tensor->rank; d++) any |= map->step[d] != NULL;
    return any;
}

static void explain_maps(Lowering *lo)
{
    Text *const out = lo->explanation;
    for (int i = 0; i < lo->maps.count; i++) {
        const TensorMap *const map = lo->maps.items[i];
        text_print(out, "tensor map %d: %s ", i, buffer_root(map->tensor)->name);
        if (map->im2col) {
            text_print(out, "by im2col, %d pixels of %d columns, swizzle %d; steps to 8, padding and taps of %s bits\n",
                       map->box[1], map->box[0], map->swizzle,
                       map->im2col->n == 1   ? "16"
                       : map->im2col->n == 2 ? "8"
                                             : "5");
            continue;
        }
        text_print(out, "in boxes of");
        for (int d = 0; d < map->tensor->rank; d++) text_print(out, "%s%d", d ? " x " : " ", map->box[d]);
        text_print(out, ", the last dimension first, swizzle %d%s\n", map->swizzle,
                   has_steps(map) ? ", by steps to 8" : "");
    }
}

static const char *issuers(const Lowering *lo)
{
    const int threads = producer_issuers(lo);
    return threads == producer_threads(lo) ? "all threads fill tiles"
           : threads > 1                   ? "a warp copies"
                                           : "a thread copies";
}

static bool explain_product(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind != T_MATMUL) return op->kind == T_FORALL;
    Text *const out = lo->explanation;
    const Product *const p = op_info(lo, op)->product;
    static const char *const kinds[] = { [PRODUCT_LOOP] = "a loop nest",
                                         [PRODUCT_WGMMA] = "wgmma",
                                         [PRODUCT_MMA] = "mma.sync",
                                         [PRODUCT_FMA] = "multiply-adds" };
    const int group = single_group(lo, op_groups(lo, op));
    const bool on_tensor_cores = p->kind == PRODUCT_WGMMA || p->kind == PRODUCT_MMA;
    text_print(out, "  line %s: %d x %d x %d by %s", line_of(lo, op), p->m, p->n, p->k, kinds[p->kind]);
    if (on_tensor_cores && !op->matmul.meta) explain_instructions(lo, p, group);
    if (op->matmul.meta) text_print(out, " of 2:4 sparse rows");
    if (op->matmul.meta && on_tensor_cores)
        text_print(out, " (%s.m%dn%dk%d)", p->kind == PRODUCT_WGMMA ? "wgmma.mma_async.sp" : "mma.sp",
                   product_mma(lo, p)->m, p->n_piece, 2 * p->step_k);
    if (p->kind == PRODUCT_FMA)
        text_print(out, ", %d x %d in each thread, because %s", p->rectangle.row_run * p->rectangle.row_runs,
                   p->rectangle.column_run * p->rectangle.column_runs, p->why_not);
    else if (p->kind == PRODUCT_LOOP)
        text_print(out, ", because %s%s%s", p->why_not ? p->why_not : "", p->why_not ? "; " : "", p->why_loop);
    else
        text_print(out, ", A from %s%s%s",
                   p->is_preloaded     ? "registers, loaded before the loop"
                   : p->a_in_registers ? "registers"
                                       : "shared memory",
                   group < 0 ? ", groups divide the " : "",
                   group >= 0                      ? ""
                   : p->division == DIVIDE_ROWS    ? "rows"
                   : p->division == DIVIDE_COLUMNS ? "columns"
                                                   : "contraction");
    const Buffer *const result = op->matmul.dst.buffer;
    if (result->hint == HINT_ROWS || result->hint == HINT_COLUMNS || result->hint == HINT_PARTIAL)
        text_print(out, on_tensor_cores ? ", as layout(%s) says" : "; layout(%s) is for tensor cores alone",
                   result->name);
    if (p->kind == PRODUCT_MMA && gpu_mma(lo->gpu, MMA_WARP_GROUP) && has_padded_rows(p))
        text_print(out, ", not by wgmma because an operand's rows are padded");
    if (p->kind == PRODUCT_MMA && op->matmul.in_three) text_print(out, ", each of f32 as three of tf32");
    const char *const why[2] = { p->left_elements.why, p->right_elements.why };
    for (int i = 0; i < 2 && p->kind == PRODUCT_MMA; i++)
        if (why[i]) text_print(out, ", %c element by element because %s", "AB"[i], why[i]);
    if (p->kind == PRODUCT_WGMMA && op->matmul.promote)
        text_print(out, ", every %d steps of k added in f32", op->matmul.promote);
    text_print(out, "\n");
    return false;
}

static bool explain_barrier(Lowering *lo, TileOp *op, void *context)
{
    if (op_info(lo, op)->barrier_before) {
        lo->n_barriers++;
        text_print(lo->explanation, " %s", line_of(lo, op));
    }
    return false;
}

// How the steps of a pipeline overlap.
static bool explain_pipeline(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind != T_PIPELINE) return op->kind == T_FORALL;
    Text *const out = lo->explanation;
    const Multistage *const multistage = op_info(lo, op)->multistage;
    text_print(out, "pipeline of line %s: ", line_of(lo, op));
    if (can_software_pipeline(lo, op))
        text_print(out, "software pipelined: stage 1 of a step runs under stage 0 of the next%s",
                   groups_ping_pong(lo, op) ? "; ping-pong between the groups" : "");
    else if (can_issue_early(lo, op))
        text_print(out, "early MMA issue: stage 0 of a step runs under the end of stage 1 of the one before");
    else if (loop_products(lo, op))
        text_print(out, "products stay in flight from step to step; a buffer is released a step later");
    else if (multistage)
        text_print(out, "multistage cp.async: copies run %d steps ahead, one barrier a step", multistage->buffers - 1);
    else text_print(out, "step by step%s", lo->has_producer ? ", the producer ahead as far as buffers go" : "");
    text_print(out, "\n");
    return false;
}

static void explain_grid(Lowering *lo)
{
    Text *const out = lo->explanation;
    const TileKernel *const kernel = lo->kernel;
    const bool in_pairs = lo->is_persistent && lo->in_pairs;
    const int imbalanced = lo->is_persistent ? lo->imbalance : -1;
    if (kernel->n_grid == 0) return;
    text_print(out, lo->is_persistent ? "grid: %d CTA%s for each multiprocessor" : "grid: a CTA for each instance",
               occupancy(lo), occupancy(lo) > 1 ? "s" : "");
    text_print(out, "%s",
               !lo->is_persistent      ? ""
               : kernel->rasterize > 1 ? ", which take instances in turn"
                                       : ", which take instances in turn, every second round backwards");
    if (kernel->rasterize > 1 && kernel->n_grid >= 2)
        text_print(out, "; bands of %d along %s, within a band along %s", kernel->rasterize, kernel->grid[1].var->name,
                   kernel->grid[0].var->name);
    for (int i = kernel->rasterize > 1 && kernel->n_grid >= 2 ? 2 : 0; i < kernel->n_grid; i++)
        if (i != imbalanced)
            text_print(out, "%s %s", i == 0 || (i == 1 && imbalanced == 0) ? "; fastest:" : ",",
                       kernel->grid[i].var->name);
    if (imbalanced >= 0)
        text_print(out, "; work depends on %s: %s", kernel->grid[imbalanced].var->name,
                   in_pairs ? "a CTA takes its i-th longest and i-th shortest together"
                            : "it runs slowest within groups of the others");
    text_print(out, "\n");
    if (lo->why_occupancy)
        text_print(out, "occupancy: %d CTA%s, because %s\n", occupancy(lo), occupancy(lo) > 1 ? "s" : "",
                   lo->why_occupancy);
}

void explain(Lowering *lo)
{
    Text *const out = lo->explanation;
    if (!out) return;
    text_print(out, "%s for sm_%d\n", lo->kernel->key, lo->gpu->arch);
    text_print(
        out, "threads: %d computing (%d groups)%s%s\n", all_threads(lo), lo->all.groups,
        !lo->has_producer
            ? ""
            : arena_printf(lo->arena, ", and a producer group of %d, of which %s", producer_threads(lo), issuers(lo)),
        lo->has_producer && lo->may_need_elements ? " (all, elements, where rows are not multiples of 16 bytes)" : "");
    explain_grid(lo);
    explain_registers(lo);
    text_print(out, "shared memory: %d of %d bytes\n", lo->shared_bytes, shared_bytes_max(lo));
    for (int i = 0; i < lo->n_declared; i++) explain_tile(lo, lo->declared.items[i]);
    if (lo->staging_bytes)
        text_print(out, "  staging of stores: %d bytes at %d\n", lo->staging_bytes, lo->staging_offset);
    text_print(out, "  between warps: %d bytes at %d; barriers from %d\n", lo->scratch_bytes, lo->scratch_offset,
               lo->barrier_offset);
    for (int i = 0; i < lo->rings.count; i++) {
        const Ring *const ring = lo->rings.items[i];
        text_print(out, "ring %d:", i);
        for (int t = 0; t < ring->n_tiles; t++) text_print(out, " %s", ring->tiles[t]->buffer->name);
        text_print(out, ", %d buffer%s, full at %d, empty at %d%s\n", ring->ring_state->buffers,
                   ring->ring_state->buffers == 1 ? "" : "s", ring->full, ring->empty,
                   ring->is_plain ? "" : ", copies under conditions");
    }
    explain_maps(lo);
    text_print(out, "products:%s\n",
               !lo->calls_printf || !gpu_mma(lo->gpu, MMA_WARP_GROUP)
                   ? ""
                   : " (no wgmma beside print and assert: calls serialise it)");
    each_op(lo, lo->kernel->body, explain_product, NULL);
    each_op(lo, lo->kernel->body, explain_pipeline, NULL);
    text_print(out, "other copies:\n");
    each_op(lo, lo->kernel->body, explain_move, NULL);
    text_print(out, "barriers of all computing threads before lines:");
    each_op(lo, lo->kernel->body, explain_barrier, NULL);
    text_print(out, "%s\n", lo->n_barriers ? "" : " none");
    for (int i = 0; i < lo->group_barriers.count; i++) {
        const GroupBarrier *const group_barrier = lo->group_barriers.items[i];
        text_print(out, "group %d arrives after line %s, group %d waits before line %s (named barrier %d)\n",
                   group_barrier->from, line_of(lo, group_barrier->after), group_barrier->to,
                   line_of(lo, group_barrier->before), group_barrier->barrier);
    }
    explain_cluster(lo);
    for (int i = 0; i < lo->notes.count; i++) text_print(out, "%s\n", lo->notes.items[i]);
}
