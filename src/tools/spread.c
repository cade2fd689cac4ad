// SPDX-License-Identifier: MIT
// spread.c - tensors of parameters that are `strided`, or bound to it, with gaps between rows, so that a kernel which takes
// them for contiguous is found out.
#include "tools/cases.h"

#include <stdlib.h>

// Rows keep the alignment that a contiguous tensor would give them, as copies in hardware may rely on it; those of a tensor
// bound to `strided` have the one that is demanded.
enum { GAP_BYTES = 64, ROW_ALIGNMENT = 16 };

static int64_t element_bytes(const CaseTensor *t) { return kiln_type_bits(t->host.type) / 8; }

static void choose_strides(CaseTensor *t, bool aligned, bool tight)
{
    kiln_tensor *const d = &t->device;
    const int64_t unit = ROW_ALIGNMENT / element_bytes(t);
    int64_t stride = 1;
    for (int i = d->rank - 1; i >= 0; i--) {
        d->strides[i] = stride;
        stride *= d->shape[i] > 0 ? d->shape[i] : 1;
        if (i == d->rank - 1 && !tight) stride += GAP_BYTES / element_bytes(t);
        if (i == d->rank - 1 && aligned) stride = (stride + unit - 1) / unit * unit;
    }
    d->has_strides = true;
    t->spread_bytes = (size_t)(stride * element_bytes(t));
}

// Copies rows (the last dimension is contiguous in both) to the spread form or back; on the way back leaves poison.
static void copy_rows(CaseTensor *t, char *spread, bool back, int poison)
{
    const kiln_tensor *const h = &t->host;
    const int64_t columns = h->shape[h->rank - 1], elements = tensor_elements(h);
    const size_t row_bytes = (size_t)(columns * element_bytes(t));
    for (int64_t row = 0; columns > 0 && row < elements / columns; row++) {
        int64_t at = 0, rest = row;
        for (int d = h->rank - 2; d >= 0; d--) {
            at += rest % h->shape[d] * t->device.strides[d];
            rest /= h->shape[d];
        }
        char *const far = spread + at * element_bytes(t), *const near = (char *)h->data + (size_t)row * row_bytes;
        memcpy(back ? near : far, back ? far : near, row_bytes);
        if (back) memset(far, poison, row_bytes);
    }
}

bool spread_tensor(CaseTensor *t, bool aligned, bool tight, int poison)
{
    if (t->host.rank < 2 || kiln_type_bits(t->host.type) < 8)
        return true; // there is no row to part, or rows may begin within a byte
    choose_strides(t, aligned, tight);
    t->spread = aligned_alloc(4096, (2 * GUARD_BYTES + t->spread_bytes + 4095) & ~(size_t)4095);
    if (!t->spread) return false;
    memset(t->spread, poison, 2 * GUARD_BYTES + t->spread_bytes);
    t->device.data = t->spread + GUARD_BYTES;
    copy_rows(t, t->spread + GUARD_BYTES, false, poison);
    return true;
}

void gather_tensor(CaseTensor *t, int poison, bool *gaps_hold)
{
    *gaps_hold = true;
    if (!t->spread) return;
    copy_rows(t, t->spread + GUARD_BYTES, true, poison);
    for (size_t i = 0; i < 2 * GUARD_BYTES + t->spread_bytes; i++) *gaps_hold &= t->spread[i] == (char)poison;
    copy_rows(t, t->spread + GUARD_BYTES, false, poison); // as it was, for a further run
}
