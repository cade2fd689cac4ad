// SPDX-License-Identifier: MIT
// maps.c - which tensors are copied by tensor maps where a launch cannot carry maps for all of them: the first ones.
// Others are copied by the threads, as where there is no TMA.
//
// before: no copy has been looked at       after: no_maps has a bit for each parameter whose boxes are none
#include "lower/gpu/facts/box.h"
#include "lower/gpu/decide/analyses.h"
#include "lower/gpu/facts/info.h"

enum { MAPS_OF_CUT = 5 }; // of a box that a view may cut (tensor_maps.c)

// Boxes of one tensor and size share a map.
typedef struct Key {
    const Buffer *tensor;
    int64_t width[MAX_RANK];
} Key;
typedef struct Count {
    VEC(Key) keys;
    int most, of_param[PLAN_MAX_PARAMS];
} Count;

static bool is_known(const Count *count, const Key *key)
{
    for (int i = 0; i < count->keys.count; i++)
        if (memcmp(&count->keys.items[i], key, sizeof *key) == 0) return true;
    return false;
}

static void count_box(Lowering *lo, const Region *slice, Count *count)
{
    const Buffer *const root = buffer_root(slice->buffer);
    Box box;
    if (root->kind != BUFFER_TENSOR || count->of_param[root->param] > count->most || !find_box(lo, slice, &box)) return;
    Key key;
    memset(&key, 0, sizeof key);
    key.tensor = box.tensor;
    memcpy(key.width, box.width, sizeof(int64_t) * (size_t)box.tensor->rank);
    if (is_known(count, &key)) return;
    VEC_PUSH(lo->arena, &count->keys, key);
    count->of_param[root->param] += box.cut < 0 ? 1 : MAPS_OF_CUT;
}

// Into shared memory, and out of fragments.
static bool count_op(Lowering *lo, TileOp *op, void *context)
{
    if (op->kind == T_COPY && buffer_root(op->copy.dst.buffer)->kind == BUFFER_SHARED)
        count_box(lo, &op->copy.src, context);
    if ((op->kind == T_COPY || op->kind == T_ATOMIC_TILE) && buffer_root(op->copy.src.buffer)->kind == BUFFER_FRAGMENT)
        count_box(lo, &op->copy.dst, context);
    return false;
}

void limit_maps(Lowering *lo)
{
    Count count = { .most = plan_most_maps(plan_words(lo->plan)) };
    if (!lo->gpu->tma) return;
    each_op(lo, lo->kernel->body, count_op, &count);
    for (int i = 0, all = 0; i < lo->kernel->n_params; i++) {
        if (all + count.of_param[i] > count.most) lo->no_maps |= UINT64_C(1) << i;
        else all += count.of_param[i];
    }
}
