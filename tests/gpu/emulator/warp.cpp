// SPDX-License-Identifier: MIT
// warp.cpp - what the lanes of a warp do together: shuffles, votes, reductions, matrices between lanes.
#include "emulator.h"
#include "numbers.h"
#include "ptx.h"

#include <algorithm>
#include <cstring>

namespace emu {

static void finish(Warp *warp, size_t i, void (*lane_sync)(LaneSync &))
{
    const std::unique_ptr<LaneSync> m = std::move(warp->lane_syncs[i]);
    warp->lane_syncs.erase(warp->lane_syncs.begin() + (long)i);
    lane_sync(*m);
    for (int lane = 0; lane < WARP; lane++)
        if (m->arrived >> lane & 1 && warp->fibers[(size_t)lane]->state == BLOCKED)
            wake(warp->fibers[(size_t)lane]);
}

void lane_sync(const char *what, uint32_t mask, const uint64_t *given, int n, uint64_t *taken, void (*lane_sync)(LaneSync &))
{
    Fiber *const f = self();
    Warp *const warp = f->warp;
    const uint32_t bit = 1u << f->lane;
    if (!(mask & bit))
        fault(LAUNCH_FAILED, "%s: lane %d is not in its mask %#x", what, f->lane, mask);
    size_t i = 0;
    while (i < warp->lane_syncs.size() && (warp->lane_syncs[i]->lane_sync != lane_sync || warp->lane_syncs[i]->mask != mask || warp->lane_syncs[i]->arrived & bit))
        i++;
    if (i == warp->lane_syncs.size()) {
        warp->lane_syncs.emplace_back(new LaneSync);          // not make_unique, which clears all of it
        warp->lane_syncs[i]->what = what;
        warp->lane_syncs[i]->lane_sync = lane_sync;
        warp->lane_syncs[i]->mask = mask;
    }
    LaneSync &m = *warp->lane_syncs[i];
    m.arrived |= bit;
    std::copy(given, given + n, m.given[f->lane]);
    m.taken[f->lane] = taken;
    if (m.arrived == (mask & warp->alive))
        finish(warp, i, lane_sync);
    else
        block_self(what, mask, m.arrived);
}

void thread_left_meetings(Fiber *f)
{
    Warp *const warp = f->warp;
    for (size_t i = warp->lane_syncs.size(); i-- > 0; )
        if (warp->lane_syncs[i]->arrived == (warp->lane_syncs[i]->mask & warp->alive))
            finish(warp, i, warp->lane_syncs[i]->lane_sync);
}

static void order_lanes(LaneSync &) { lanes_met(self()->warp); }

}

namespace ptx {
using namespace emu;

void warp_sync(uint32_t mask) { lane_sync("__syncwarp", mask, nullptr, 0, nullptr, order_lanes); }

// given: value, the lane to read. A lane that is not there gives its old value: nothing else is promised.
static void exchange(LaneSync &m)
{
    for (unsigned lane = 0; lane < WARP; lane++)
        if (m.arrived >> lane & 1) {
            const unsigned from = (unsigned)m.given[lane][1];
            if (!(m.arrived >> from & 1))
                fault(LAUNCH_FAILED, "a shuffle reads lane %u, which does not take part (mask %#x)", from, m.mask);
            *m.taken[lane] = m.given[from][0];
        }
}

uint64_t shuffle(uint64_t x, unsigned mask, ShuffleMode mode, unsigned by, unsigned width)
{
    const unsigned lane = (unsigned)self()->lane, first = lane & ~(width - 1), last = first + width - 1;
    unsigned from = lane;
    switch (mode) {
    case SHUFFLE_INDEX: from = first + (by & (width - 1)); break;
    case SHUFFLE_UP: from = lane >= first + by ? lane - by : lane; break;
    case SHUFFLE_DOWN: from = lane + by <= last ? lane + by : lane; break;
    case SHUFFLE_XOR: from = (lane ^ by) <= last ? lane ^ by : lane; break;
    }
    const uint64_t given[] = { x, from };
    lane_sync("shfl", mask, given, 2, &x, exchange);
    return x;
}

static void vote(LaneSync &m)
{
    uint64_t votes = 0;
    for (int lane = 0; lane < WARP; lane++)
        if (m.arrived >> lane & 1 && m.given[lane][0])
            votes |= 1u << lane;
    for (int lane = 0; lane < WARP; lane++)
        if (m.arrived >> lane & 1)
            *m.taken[lane] = votes;
}

uint32_t ballot(uint32_t mask, bool predicate)
{
    const uint64_t given = predicate;
    uint64_t votes = 0;
    lane_sync("vote", mask, &given, 1, &votes, vote);
    return (uint32_t)votes;
}

static void match(LaneSync &m)
{
    for (int lane = 0; lane < WARP; lane++)
        if (m.arrived >> lane & 1) {
            *m.taken[lane] = 0;
            for (int other = 0; other < WARP; other++)
                if (m.arrived >> other & 1 && m.given[other][0] == m.given[lane][0])
                    *m.taken[lane] |= 1u << other;
        }
}

uint32_t match_any(uint32_t mask, uint64_t x)
{
    uint64_t same = 0;
    lane_sync("match", mask, &x, 1, &same, match);
    return (uint32_t)same;
}

bool elect(uint32_t mask)
{
    warp_sync(mask);
    return self()->lane == __builtin_ctz(mask);
}

static void reduce(LaneSync &m)
{
    uint32_t result = 0;
    bool first = true;
    for (int lane = 0; lane < WARP; lane++)
        if (m.arrived >> lane & 1) {
            const uint32_t x = (uint32_t)m.given[lane][0];
            if (first) {
                result = x;
                first = false;
                continue;
            }
            switch ((ReduceMode)m.given[lane][1]) {
            case REDUCE_ADD: result += x; break;
            case REDUCE_MIN_S: result = (uint32_t)std::min((int32_t)result, (int32_t)x); break;
            case REDUCE_MAX_S: result = (uint32_t)std::max((int32_t)result, (int32_t)x); break;
            case REDUCE_MIN_U: result = std::min(result, x); break;
            case REDUCE_MAX_U: result = std::max(result, x); break;
            case REDUCE_AND: result &= x; break;
            case REDUCE_OR: result |= x; break;
            case REDUCE_XOR: result ^= x; break;
            }
        }
    for (int lane = 0; lane < WARP; lane++)
        if (m.arrived >> lane & 1)
            *m.taken[lane] = result;
}

uint32_t reduce(uint32_t mask, ReduceMode mode, uint32_t x)
{
    const uint64_t given[] = { x, mode };
    uint64_t result = 0;
    lane_sync("redux", mask, given, 2, &result, reduce);
    return (uint32_t)result;
}

// ---- 8 x 8 matrices of 16 bits: lane l holds elements 2*(l % 4) and the next of row l / 4

// given: address, how many matrices, transposed, then (for a store) the words.
static uint16_t *row_at(LaneSync &m, int row, bool writes, const char *what)
{
    const uint32_t address = (uint32_t)m.given[row][0];
    if (address % 16 != 0)
        fault(ILLEGAL_ADDRESS, "%s: the row address %#x of lane %d is not aligned to 16 bytes", what, address, row);
    worker->together = true;
    uint16_t *const place = (uint16_t *)generic_from_shared(address, 16, writes, what);
    worker->together = false;
    return place;
}

static void load_matrices(LaneSync &m)
{
    const int n = (int)m.given[0][1];
    const bool across = m.given[0][2] != 0;
    for (int i = 0; i < n; i++)
        for (int row = 0; row < 8; row++) {
            const uint16_t *const from = row_at(m, i * 8 + row, false, "ldmatrix");
            for (int column = 0; column < 8; column++) {
                const int lane = across ? column * 4 + row / 2 : row * 4 + column / 2, half = (across ? row : column) % 2;
                uint64_t &word = m.taken[lane][i];
                word = half ? (word & 0xffff) | (uint64_t)from[column] << 16 : (word & 0xffff0000) | from[column];
            }
        }
}

static void store_matrices(LaneSync &m)
{
    const int n = (int)m.given[0][1];
    const bool across = m.given[0][2] != 0;
    for (int i = 0; i < n; i++)
        for (int row = 0; row < 8; row++) {
            uint16_t *const to = row_at(m, i * 8 + row, true, "stmatrix");
            for (int column = 0; column < 8; column++) {
                const int lane = across ? column * 4 + row / 2 : row * 4 + column / 2, half = (across ? row : column) % 2;
                to[column] = (uint16_t)(m.given[lane][3 + i] >> 16 * half);
            }
        }
}

void load_matrices(uint32_t *words, int n, bool across, uint32_t address)
{
    const uint64_t given[] = { address, (uint64_t)n, across };
    uint64_t taken[4] = {};
    lane_sync("ldmatrix", 0xffffffff, given, 3, taken, load_matrices);
    for (int i = 0; i < n; i++)
        words[i] = (uint32_t)taken[i];
}

void store_matrices(const uint32_t *words, int n, bool across, uint32_t address)
{
    uint64_t given[7] = { address, (uint64_t)n, across };
    for (int i = 0; i < n; i++)
        given[3 + i] = words[i];
    lane_sync("stmatrix", 0xffffffff, given, 3 + n, nullptr, store_matrices);
}

// ---- mma.sync: D[16][8] = A[16][K] B[K][8] + C, operands spread over the lanes

// The elements of a word: floats, or integers as such.
static inline void unpack(MatrixType type, uint32_t word, float to[4])
{
    switch (type) {
    case TYPE_F16: to[0] = from_f16((uint16_t)word), to[1] = from_f16((uint16_t)(word >> 16)); return;
    case TYPE_BF16: to[0] = from_bf16((uint16_t)word), to[1] = from_bf16((uint16_t)(word >> 16)); return;
    case TYPE_TF32: to[0] = to_tf32(word); return;
    case TYPE_E4M3: for (int i = 0; i < 4; i++) to[i] = from_e4m3((uint8_t)(word >> 8 * i)); return;
    case TYPE_E5M2: for (int i = 0; i < 4; i++) to[i] = from_e5m2((uint8_t)(word >> 8 * i)); return;
    case TYPE_S8: for (int i = 0; i < 4; i++) to[i] = (float)(int8_t)(word >> 8 * i); return;
    case TYPE_U8: for (int i = 0; i < 4; i++) to[i] = (float)(uint8_t)(word >> 8 * i); return;
    default: fault(LAUNCH_FAILED, "mma: a type that is not emulated");
    }
}

static int bits_of_type(MatrixType type) { return type == TYPE_TF32 ? 32 : type == TYPE_F16 || type == TYPE_BF16 ? 16 : 8; }

// Moves the kept elements of A to the columns that their places say; the others are 0.
static void spread_kept(const LaneSync &m, MatrixType type, int k, uint32_t selector, float a[16][64])
{
    uint32_t words[WARP];
    int columns[16][32];
    for (int lane = 0; lane < WARP; lane++)
        words[lane] = (uint32_t)m.given[lane][9];
    dense_columns(words, bits_of_type(type) / 8, k, selector, columns);
    for (int row = 0; row < 16; row++) {
        float dense[64] = {};
        for (int i = 0; i < k / 2; i++)
            dense[columns[row][i]] = a[row][i];
        std::copy(dense, dense + k, a[row]);
    }
}

// D = A B + C, a row at a time: vectors of its columns, each summed in the order of K.
template <class T> static void add_products(LaneSync &m, const float a[16][64], const float b[64][8], int k)
{
    typedef T Row __attribute__((vector_size(8 * sizeof(T))));
    const auto place = [&](int row, int column) -> uint64_t & { return m.taken[row % 8 * 4 + column / 2][row / 8 * 2 + column % 2]; };
    Row from[64];
    for (int x = 0; x < k; x++)
        for (int column = 0; column < 8; column++)
            from[x][column] = (T)b[x][column];
    for (int row = 0; row < 16; row++) {
        Row sum;
        uint32_t bits[8];
        for (int column = 0; column < 8; column++)
            bits[column] = (uint32_t)place(row, column);
        memcpy(&sum, bits, sizeof sum);
        for (int x = 0; x < k; x++)
            sum += (T)a[row][x] * from[x];
        memcpy(bits, &sum, sizeof sum);
        for (int column = 0; column < 8; column++)
            place(row, column) = bits[column];
    }
}

// given: the words of A (up to 4) and B (up to 4); K, types, sparse, selector; places of a sparse A. C comes through
// taken[], which holds D after.
static void multiply(LaneSync &m)
{
    const int k = (int)(m.given[0][8] & 0xff);
    const MatrixType type_a = (MatrixType)(m.given[0][8] >> 8 & 0xff), type_b = (MatrixType)(m.given[0][8] >> 16 & 0xff);
    const bool sparse = m.given[0][8] >> 24 & 1;
    const int each = 32 / bits_of_type(type_a), words = k / each / 4;     // words: of B; twice as many of a dense A
    float a[16][64], b[64][8];
    for (int lane = 0; lane < WARP; lane++)
        for (int w = 0; w < words; w++) {
            const int row = lane / 4, at = (lane % 4 + 4 * w) * each;
            float part[4];
            unpack(type_b, (uint32_t)m.given[lane][4 + w], part);
            for (int i = 0; i < each; i++)
                b[at + i][row] = part[i];
            for (int half = 0; half < 2 && !(sparse && w >= words / 2); half++) {
                unpack(type_a, (uint32_t)m.given[lane][2 * w + half], part);
                std::copy(part, part + each, a[row + 8 * half] + at);
            }
        }
    if (sparse)
        spread_kept(m, type_a, k, (uint32_t)(m.given[0][8] >> 32), a);
    if (type_a == TYPE_S8 || type_a == TYPE_U8)
        add_products<int32_t>(m, a, b, k);
    else
        add_products<float>(m, a, b, k);
}

void multiply_matrices(int k, MatrixType type_a, MatrixType type_b, uint32_t *d, const uint32_t *a, const uint32_t *b, const uint32_t *c,
                       const SparsePlaces *sparse)
{
    const int words = k * bits_of_type(type_a) / 128;      // of B
    uint64_t given[10] = {}, taken[4];
    for (int i = 0; i < (sparse ? words : 2 * words); i++)
        given[i] = a[i];
    for (int i = 0; i < words; i++)
        given[4 + i] = b[i];
    given[8] = (uint64_t)k | (uint64_t)type_a << 8 | (uint64_t)type_b << 16;
    if (sparse) {
        given[8] |= 1 << 24 | (uint64_t)sparse->selector << 32;
        given[9] = sparse->word;
    }
    for (int r = 0; r < 4; r++)
        taken[r] = c[r];
    lane_sync("mma", 0xffffffff, given, 10, taken, multiply);
    for (int r = 0; r < 4; r++)
        d[r] = (uint32_t)taken[r];
}

}
