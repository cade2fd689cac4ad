// SPDX-License-Identifier: MIT
// tensor_map.cpp - descriptions of tensors for the copy engine: the driver's checks, and boxes of them.
#include "emulator.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace emu {

static const uint64_t MAGIC = 0x70616d2d75746e65ull;

static uint32_t check_of(const TensorMap &map)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < offsetof(TensorMap, check); i++)
        h = (h ^ ((const unsigned char *)&map)[i]) * 16777619u;
    return h;
}

// The types, as the driver numbers them: u8 u16 u32 i32 u64 i64 f16 f32 f64 bf16 f32-ftz tf32 tf32-ftz.
static const uint8_t type_bytes[] = { 1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4 };

// What both kinds of maps have.
struct Asked {
    void *to;
    int type;
    unsigned rank;
    uint64_t base;
    const uint64_t *dims, *strides;
    unsigned columns;
    const unsigned *steps;
    int interleave, swizzle, promotion, fill;
};

static const char *problem(const Asked &a)
{
    if ((uintptr_t)a.to % 64 != 0) return "the map is not aligned to 64 bytes";
    if (a.type < 0 || a.type >= (int)sizeof type_bytes) return "there is no such element type";
    if (a.rank < 1 || a.rank > 5) return "the rank is not 1 to 5";
    if (a.interleave != 0) return "interleaved layouts are not emulated";
    if (a.base % 16 != 0) return "the tensor is not aligned to 16 bytes";
    if (a.swizzle < 0 || a.swizzle > 3) return "there is no such swizzle";
    if (a.promotion < 0 || a.promotion > 3) return "there is no such L2 promotion";
    if (a.fill < 0 || a.fill > 1) return "there is no such fill";
    if (a.fill == 1 && (a.type < 6 || a.type > 12)) return "NaN fills floating-point tensors only";
    const uint64_t inner = (uint64_t)a.columns * type_bytes[a.type];
    for (unsigned i = 0; i < a.rank; i++) {
        if (a.dims[i] < 1 || a.dims[i] > (uint64_t)1 << 32) return "a dimension is not 1 to 2^32";
        if (a.steps[i] < 1 || a.steps[i] > 8) return "an element stride is not 1 to 8";
        if (i + 1 < a.rank && (a.strides[i] % 16 != 0 || a.strides[i] >> 40 || a.strides[i] == 0)) return "a stride is not a multiple of 16 below 2^40";
    }
    if (a.columns < 1 || a.columns > 256) return "the columns of a box are not 1 to 256";
    if (inner % 16 != 0) return "a row of the box is not a multiple of 16 bytes";
    if (a.swizzle && inner > 16u << a.swizzle) return "a row of the box is wider than the swizzle";
    return nullptr;
}

static int refuse(const char *who, const char *why)
{
    fprintf(stderr, "emulated device: %s: %s\n", who, why);
    return INVALID_VALUE;
}

static TensorMap describe(const Asked &a)
{
    TensorMap map = {};
    map.magic = MAGIC;
    map.base = a.base;
    for (unsigned i = 0; i < 5; i++) {
        map.dims[i] = i < a.rank ? a.dims[i] : 1;
        map.box[i] = (uint16_t)(i == 0 ? a.columns : 1);
        map.steps[i] = (uint8_t)(i > 0 && i < a.rank ? a.steps[i] : 1);    // the innermost is ignored
        if (i > 0)
            map.strides[i - 1] = i < a.rank ? a.strides[i - 1] : 0;
    }
    map.type = (uint8_t)a.type;
    map.rank = (uint8_t)a.rank;
    map.swizzle = (uint8_t)a.swizzle;
    map.nan_fill = (uint8_t)a.fill;
    map.element_bytes = type_bytes[a.type];
    return map;
}

static int store(void *to, TensorMap map)
{
    map.check = check_of(map);
    memset(to, 0, 128);
    memcpy(to, &map, sizeof map);
    return OK;
}

extern "C" __attribute__((visibility("default")))
int cuTensorMapEncodeTiled(void *to, int type, unsigned rank, void *base, const uint64_t *dims, const uint64_t *strides,
                           const unsigned *box, const unsigned *steps, int interleave, int swizzle, int promotion, int fill)
{
    const Asked asked = { to, type, rank, (uint64_t)base, dims, strides, box[0], steps, interleave, swizzle, promotion, fill };
    const char *why = problem(asked);
    for (unsigned i = 1; !why && i < rank; i++)
        if (box[i] < 1 || box[i] > 256) why = "a dimension of the box is not 1 to 256";
    if (why)
        return refuse("cuTensorMapEncodeTiled", why);
    TensorMap map = describe(asked);
    for (unsigned i = 1; i < rank; i++)
        map.box[i] = (uint16_t)box[i];
    return store(to, map);
}

extern "C" __attribute__((visibility("default")))
int cuTensorMapEncodeIm2col(void *to, int type, unsigned rank, void *base, const uint64_t *dims, const uint64_t *strides,
                            const int *first, const int *last, unsigned columns, unsigned rows, const unsigned *steps,
                            int interleave, int swizzle, int promotion, int fill)
{
    const Asked asked = { to, type, rank, (uint64_t)base, dims, strides, columns, steps, interleave, swizzle, promotion, fill };
    const char *why = problem(asked);
    if (!why && rank < 3) why = "the rank of an im2col map is not 3 to 5";
    if (!why && (rows < 1 || rows > 1024)) why = "the pixels of a column are not 1 to 1024";
    const int half = rank == 3 ? 1 << 15 : rank == 4 ? 1 << 7 : 1 << 4;
    for (unsigned i = 0; !why && i + 2 < rank; i++) {
        if (first[i] < -half || first[i] >= half || last[i] < -half || last[i] >= half) why = "a corner does not fit";
        else if (first[i] > (int64_t)dims[1 + i] - 1 + last[i]) why = "the corners are in the wrong order";
    }
    if (why)
        return refuse("cuTensorMapEncodeIm2col", why);
    TensorMap map = describe(asked);
    map.im2col = 1;
    map.box[1] = (uint16_t)rows;
    for (unsigned i = 0; i + 2 < rank; i++) {
        map.first[i] = (int16_t)first[i];
        map.last[i] = (int16_t)last[i];
    }
    return store(to, map);
}

const TensorMap *tensor_map_at(const void *at, int rank, const char *what)
{
    const TensorMap *const map = (const TensorMap *)at;
    if ((uintptr_t)at % 64 != 0)
        fault(ILLEGAL_ADDRESS, "%s: the tensor map at %p is not aligned to 64 bytes", what, at);
    if (map->magic != MAGIC || map->check != check_of(*map))
        fault(LAUNCH_FAILED, "%s: there is no tensor map at %p", what, at);
    if (map->rank != rank)
        fault(LAUNCH_FAILED, "%s: %d coordinates for a map of rank %d", what, rank, map->rank);
    // How rows narrower than the swizzle lie is not documented; nobody should rely on it.
    if (map->swizzle && (uint32_t)map->box[0] * map->element_bytes != 16u << map->swizzle && box_bytes(map) > 16u << map->swizzle)
        fault(LAUNCH_FAILED, "%s: a box of several rows, each narrower than its swizzle, is not emulated", what);
    return map;
}

static int count(const TensorMap *map, int i) { return (map->box[i] + map->steps[i] - 1) / map->steps[i]; }

uint32_t box_bytes(const TensorMap *map)
{
    uint32_t bytes = map->element_bytes;
    if (map->im2col)
        return bytes * map->box[0] * map->box[1];
    for (int i = 0; i < map->rank; i++)
        bytes *= (uint32_t)count(map, i);
    return bytes;
}

// Calls row(offset in the box, address in the tensor of its element 0, first element inside, one past the last).
template <class Row> static void each_row(const TensorMap *map, const int32_t *at, Row row)
{
    const int n0 = map->box[0];
    const int64_t first = std::min<int64_t>(std::max<int64_t>(0, -(int64_t)at[0]), n0);
    const int64_t last = std::max<int64_t>(first, std::min<int64_t>(n0, (int64_t)map->dims[0] - at[0]));
    uint32_t offset = 0;
    int i[5] = { 0, 0, 0, 0, 0 };
    for (;;) {
        bool inside = true;
        uint64_t address = map->base + (uint64_t)((int64_t)at[0] * map->element_bytes);
        for (int d = 1; d < map->rank; d++) {
            const int64_t x = (int64_t)at[d] + (int64_t)i[d] * map->steps[d];
            inside = inside && x >= 0 && x < (int64_t)map->dims[d];
            address += (uint64_t)x * map->strides[d - 1];
        }
        row(offset, address, inside ? first : 0, inside ? last : 0);
        offset += (uint32_t)n0 * map->element_bytes;
        int d = 1;
        while (d < map->rank && ++i[d] == count(map, d))
            i[d++] = 0;
        if (d >= map->rank)
            return;
    }
}

void read_box(const TensorMap *map, const int32_t *at, unsigned char *box)
{
    if (map->nan_fill)
        poison(box, box_bytes(map));
    else
        memset(box, 0, box_bytes(map));
    const size_t size = map->element_bytes;
    each_row(map, at, [&](uint32_t offset, uint64_t address, int64_t first, int64_t last) {
        if (first < last)
            memcpy(box + offset + (size_t)first * size, (const char *)address + (size_t)first * size, (size_t)(last - first) * size);
    });
}

// One row at these coordinates, or what is outside.
static void read_row(const TensorMap *map, const int64_t *at, unsigned char *row)
{
    uint64_t address = map->base + (uint64_t)(at[0] * map->element_bytes);
    for (int d = 1; d < map->rank; d++) {
        if (at[d] < 0 || at[d] >= (int64_t)map->dims[d])
            return;
        address += (uint64_t)at[d] * map->strides[d - 1];
    }
    const int64_t first = std::max<int64_t>(0, -at[0]), last = std::min<int64_t>(map->box[0], (int64_t)map->dims[0] - at[0]);
    if (first < last)
        memcpy(row + first * map->element_bytes, (const char *)address + first * map->element_bytes, (size_t)(last - first) * map->element_bytes);
}

void read_im2col(const TensorMap *map, const int32_t *at, const int32_t *offsets, unsigned char *rows)
{
    int64_t base[5], moved[5];
    if (map->nan_fill)
        poison(rows, box_bytes(map));
    else
        memset(rows, 0, box_bytes(map));
    std::copy(at, at + map->rank, base);
    for (int row = 0; row < map->box[1]; row++) {
        for (int d = 0; d < map->rank; d++)
            moved[d] = base[d] + (d > 0 && d < map->rank - 1 ? offsets[d - 1] : 0);
        read_row(map, moved, rows + (size_t)row * map->box[0] * map->element_bytes);
        int d = 1;
        for (; d < map->rank - 1; d++) {
            base[d] += map->steps[d];
            if (base[d] <= (int64_t)map->dims[d] - 1 + map->last[d - 1])
                break;
            base[d] = map->first[d - 1];
        }
        base[map->rank - 1] += d == map->rank - 1;
    }
}

// A row that ends within a piece of 16 bytes is written to the piece's end, as an H100 does where a pitch leaves room for it.
void write_box(const TensorMap *map, const int32_t *at, const unsigned char *box,
               const std::function<void(void *, const void *, size_t)> &put)
{
    const size_t size = map->element_bytes;
    const int64_t piece = map->rank > 1 ? 16 / (int64_t)size : 1;
    each_row(map, at, [&](uint32_t offset, uint64_t address, int64_t first, int64_t last) {
        last = std::min<int64_t>((last + piece - 1) / piece * piece, map->box[0]);
        if (first < last)
            put((char *)address + (size_t)first * size, box + offset + (size_t)first * size, (size_t)(last - first) * size);
    });
}

}
