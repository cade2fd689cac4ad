// SPDX-License-Identifier: MIT
// wgmma.cpp - products of warp groups on tensor cores, asynchronous as they are.
//
// Each warp of the group computes its 16 rows. A product is queued when its lanes issue it; from then until the wait
// that covers it the accumulator's registers hold poison (its true value is kept here), and it reads shared memory
// anywhere between. Descriptors and layouts are those of the PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
#include "emulator.h"
#include "numbers.h"
#include "ptx.h"

#include <algorithm>
#include <cstring>

namespace emu {

enum { ROWS = 16, N_MAX = 256, K_MAX = 64, FLYING = 0x7fbad5a5 };         // FLYING: NaN as a float, odd as an integer

// An accumulator in flight: the warp's 16 rows.
struct Accumulator {
    int   n;
    bool  integer;
    float tile[ROWS * N_MAX];                              // or int32_t, bit for bit
    uint32_t *registers[WARP][N_MAX / 2] = {};
    uint32_t given = 0;                                    // lanes that have issued its first product
};

struct Product {
    std::shared_ptr<Accumulator> acc;
    ptx::MatrixShape shape;
    uint64_t a, b;                                         // descriptors
    bool from_registers, add, negate_a, negate_b, across_a, across_b;
    uint32_t words[WARP][4];                               // of A
    bool sparse;                                           // A keeps half of its elements: places say which
    uint32_t places[WARP], selector;
    uint32_t issued = 0;                                   // lanes
    bool done = false;
};

struct MatrixQueue {
    std::vector<std::shared_ptr<Product>> products;        // from the `first`-th on
    size_t first = 0;
    std::vector<size_t> groups;                            // products before the end of each committed group
    std::vector<std::shared_ptr<Accumulator>> accumulators;        // in flight
    size_t issued[WARP] = {}, committed[WARP] = {};        // products and groups of each lane
};

// ---- operands in shared memory

// The byte in shared memory of 16 bytes of an operand: `line` of M or N, piece or row of K.
struct Descriptor { uint32_t start, lead, stride; int swizzle; };  // swizzle: 0, or 1 to 3 for 32, 64, 128 bytes

static Descriptor decode(uint64_t d)
{
    static const int swizzles[] = { 0, 3, 2, 1 };
    if (d >> 49 & 7)
        fault(LAUNCH_FAILED, "wgmma: a descriptor with base offset %u is not emulated", (unsigned)(d >> 49 & 7));
    const Descriptor made = { (uint32_t)(d & 0x3fff) << 4, (uint32_t)(d >> 16 & 0x3fff) << 4, (uint32_t)(d >> 32 & 0x3fff) << 4, swizzles[d >> 62] };
    if (swizzled(made.start & ~127u, made.swizzle) != (made.start & ~127u))
        fault(LAUNCH_FAILED, "wgmma: a descriptor starts at %#x, inside the pattern of its swizzle: that needs a base offset", made.start);
    return made;
}

// K contiguous. The piece of 16 bytes, number `piece` of `line`.
static uint32_t along_k(const Descriptor &d, int line, int piece)
{
    const uint32_t row = (uint32_t)line % 8, block = (uint32_t)line / 8;
    if (d.swizzle == 0)
        return d.start + block * d.stride + row * 16 + (uint32_t)piece * d.lead;
    return swizzled(d.start + block * d.stride + row * (16u << d.swizzle) + (uint32_t)piece * 16, d.swizzle);
}

// M or N contiguous: 8 lines of 2 bytes to a piece.
static uint32_t across_k(const Descriptor &d, int line_piece, int k)
{
    const uint32_t row = (uint32_t)k % 8, block = (uint32_t)k / 8, wide = 1u << d.swizzle;
    if (d.swizzle == 0)
        return d.start + (uint32_t)line_piece * d.stride + row * 16 + block * d.lead;
    return swizzled(d.start + (uint32_t)line_piece / wide * d.lead + (uint32_t)line_piece % wide * 16 + row * (16u << d.swizzle)
                    + block * d.stride, d.swizzle);
}

static const float *table_of_f16()
{
    static std::vector<float> table;
    static const bool made = [] {
        table.resize(1 << 16);
        for (unsigned i = 0; i < 1 << 16; i++)
            table[i] = from_f16((uint16_t)i);
        return true;
    }();
    (void)made;
    return table.data();
}

static const float *table_of_bytes(ptx::MatrixType type)
{
    static float e4m3[256], e5m2[256];
    static const bool made = [] {
        for (unsigned i = 0; i < 256; i++)
            e4m3[i] = from_e4m3((uint8_t)i), e5m2[i] = from_e5m2((uint8_t)i);
        return true;
    }();
    (void)made;
    return type == ptx::TYPE_E4M3 ? e4m3 : e5m2;
}

// The elements of 16 bytes as floats, or as integers bit for bit.
static int widen(ptx::MatrixType type, const unsigned char *from, uint32_t *to)
{
    uint16_t half[8];
    uint32_t word[4];
    switch (type) {
    case ptx::TYPE_F16: {
        const float *const table = table_of_f16();
        memcpy(half, from, 16);
        for (int i = 0; i < 8; i++)
            to[i] = bits_of(table[half[i]]);
        return 8;
    }
    case ptx::TYPE_BF16:
        memcpy(half, from, 16);
        for (int i = 0; i < 8; i++)
            to[i] = (uint32_t)half[i] << 16;
        return 8;
    case ptx::TYPE_TF32:
        memcpy(word, from, 16);
        for (int i = 0; i < 4; i++)
            to[i] = word[i] & ~0x1fffu;
        return 4;
    case ptx::TYPE_E4M3: case ptx::TYPE_E5M2: {
        const float *const table = table_of_bytes(type);
        for (int i = 0; i < 16; i++)
            to[i] = bits_of(table[from[i]]);
        return 16;
    }
    case ptx::TYPE_S8:
        for (int i = 0; i < 16; i++)
            to[i] = (uint32_t)(int32_t)(int8_t)from[i];
        return 16;
    case ptx::TYPE_U8:
        for (int i = 0; i < 16; i++)
            to[i] = from[i];
        return 16;
    default: fault(LAUNCH_FAILED, "wgmma: a type that is not emulated");
    }
}

// `lines` of M or N from the first on, as to[k][line], `pitch` apart.
static void load_operand(Block *block, ptx::MatrixType type, uint64_t descriptor, bool across, int first, int lines, int k,
                         uint32_t *to, int pitch)
{
    const Descriptor d = decode(descriptor);
    uint32_t piece[16];
    const int each = 16 / ptx::type_bytes(type);
    if (!across) {
        for (int line = 0; line < lines; line++)
            for (int p = 0; p < k / each; p++) {
                widen(type, shared_in(block, along_k(d, first + line, p), 16, "wgmma"), piece);
                for (int i = 0; i < each; i++)
                    to[(p * each + i) * pitch + line] = piece[i];
            }
        return;
    }
    if (each != 8)
        fault(LAUNCH_FAILED, "wgmma: only operands of 2 bytes may be transposed");
    for (int row = 0; row < k; row++)
        for (int p = 0; p < lines / 8; p++)
            widen(type, shared_in(block, across_k(d, first / 8 + p, row), 16, "wgmma"), to + row * pitch + p * 8);
}

// Every 16 bytes of shared memory that a product reads for this warp.
template <class Each> static void each_piece(const Warp *warp, const Product &p, Each each)
{
    const int pieces = p.shape.k * ptx::type_bytes(p.shape.b) / 16, first = warp->number % 4 * ROWS, less = p.sparse ? 2 : 1;
    const Descriptor a = decode(p.a), b = decode(p.b);
    for (int line = 0; !p.from_registers && !p.across_a && line < ROWS; line++)
        for (int i = 0; i < pieces / less; i++)
            each(along_k(a, first + line, i));
    for (int row = 0; !p.from_registers && p.across_a && row < p.shape.k / less; row++)
        for (int i = 0; i < ROWS / 8; i++)
            each(across_k(a, first / 8 + i, row));
    for (int line = 0; !p.across_b && line < p.shape.n; line++)
        for (int i = 0; i < pieces; i++)
            each(along_k(b, line, i));
    for (int row = 0; p.across_b && row < p.shape.k; row++)
        for (int i = 0; i < p.shape.n / 8; i++)
            each(across_k(b, i, row));
}

// ---- the product

// a[k][ROWS], b[k][N_MAX]
template <class T> __attribute__((always_inline)) static inline void add_products(T *acc, const T *a, const T *b, int n, int k)
{
    for (int row = 0; row < ROWS; row++)
        for (int x = 0; x < k; x++) {
            const T factor = a[x * ROWS + row];
            const T *const from = b + x * N_MAX;
            T *const to = acc + row * N_MAX;
            for (int j = 0; j < n; j++)
                to[j] += factor * from[j];
        }
}

#ifdef __x86_64__
#define FOR_EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif
FOR_EACH_PROCESSOR static void multiply_floats(float *acc, const float *a, const float *b, int n, int k) { add_products(acc, a, b, n, k); }
FOR_EACH_PROCESSOR static void multiply_integers(uint32_t *acc, const uint32_t *a, const uint32_t *b, int n, int k) { add_products(acc, a, b, n, k); }

// A from registers: as for mma, lane l holds pairs of rows l / 4 and 8 more.
static void words_of_a(const Product &p, uint32_t *a)
{
    const int each = 4 / ptx::type_bytes(p.shape.a);
    for (int lane = 0; lane < WARP; lane++)
        for (int w = 0; w < 4; w++)
            for (int i = 0; i < each; i++) {
                unsigned char bytes[16] = {};
                uint32_t wide[16];
                memcpy(bytes, &p.words[lane][w], 4);
                widen(p.shape.a, bytes, wide);
                a[((lane % 4 + 4 * (w / 2)) * each + i) * ROWS + lane / 4 + 8 * (w % 2)] = wide[i];
            }
}

// The kept elements move to the columns that their places say; the others are 0.
static void spread_kept(const Product &p, uint32_t *a)
{
    int columns[ROWS][32];
    const int k = p.shape.k;
    dense_columns(p.places, ptx::type_bytes(p.shape.a), k, p.selector, columns);
    std::vector<uint32_t> dense((size_t)(k * ROWS));
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < k / 2; i++)
            dense[(size_t)(columns[row][i] * ROWS + row)] = a[i * ROWS + row];
    std::copy(dense.begin(), dense.end(), a);
}

static void execute(const Warp *warp, Product &p)
{
    uint32_t a[K_MAX * ROWS], b[K_MAX * N_MAX];
    const int n = p.shape.n, k = p.shape.k;
    if (p.from_registers)
        words_of_a(p, a);
    else
        load_operand(warp->block, p.shape.a, p.a, p.across_a, warp->number % 4 * ROWS, ROWS, p.sparse ? k / 2 : k, a, ROWS);
    if (p.sparse)
        spread_kept(p, a);
    load_operand(warp->block, p.shape.b, p.b, p.across_b, 0, n, k, b, N_MAX);
    if (!p.add)
        memset(p.acc->tile, 0, sizeof p.acc->tile);
    if (p.negate_a != p.negate_b)
        for (int i = 0; i < k * ROWS; i++)
            a[i] ^= 0x80000000;
    if (p.shape.integer)
        multiply_integers((uint32_t *)p.acc->tile, a, b, n, k);
    else
        multiply_floats(p.acc->tile, (const float *)a, (const float *)b, n, k);
    p.done = true;
}

static void execute_up_to(Warp *warp, MatrixQueue &q, size_t end)
{
    for (size_t i = 0; q.first + i < end; i++)
        if (!q.products[i]->done)
            execute(warp, *q.products[i]);
}

// ---- accumulators: register r of lane l is row l / 4 + 8 * (r % 4 / 2), column 8 * (r / 4) + 2 * (l % 4) + r % 2

static float &tile_element(Accumulator &acc, int lane, int r)
{
    return acc.tile[(lane / 4 + 8 * (r % 4 / 2)) * N_MAX + r / 4 * 8 + lane % 4 * 2 + r % 2];
}

static void take_registers(Accumulator &acc, int lane, uint32_t *const *registers)
{
    for (int r = 0; r < acc.n / 2; r++) {
        acc.registers[lane][r] = registers[r];
        memcpy(&tile_element(acc, lane, r), registers[r], 4);
        *registers[r] = FLYING;
    }
    acc.given |= 1u << lane;
}

static void give_registers(const Warp *warp, Accumulator &acc)
{
    for (int lane = 0; lane < WARP; lane++) {
        if (!(acc.given >> lane & 1))
            continue;
        for (int r = 0; r < acc.n / 2; r++) {
            if (*acc.registers[lane][r] != FLYING)
                fault(LAUNCH_FAILED, "register %d of an accumulator was written by thread %d while a wgmma that adds to it was in flight",
                      r, warp->number * WARP + lane);
            memcpy(acc.registers[lane][r], &tile_element(acc, lane, r), 4);
        }
    }
}

static MatrixQueue &queue_of(Warp *warp)
{
    if (!warp->matrix)
        warp->matrix = std::make_shared<MatrixQueue>();
    return *warp->matrix;
}

// The accumulator that begins with this register of this lane, if it is in flight.
static std::shared_ptr<Accumulator> flying(const MatrixQueue &q, int lane, const uint32_t *first)
{
    for (const auto &acc : q.accumulators)
        if (acc->given >> lane & 1 && acc->registers[lane][0] == first)
            return acc;
    return nullptr;
}

// The group is released: what products still in flight add to stays.
static void retire(Warp *warp, MatrixQueue &q, size_t end)
{
    execute_up_to(warp, q, end);
    while (q.first < end) {
        if (warp->block->cells)
            each_piece(warp, *q.products.front(), [=](uint32_t offset) { end_async_read(warp->block, warp, offset, 16, false); });
        q.products.erase(q.products.begin());
        q.first++;
    }
    for (size_t i = q.accumulators.size(); i-- > 0; ) {
        const std::shared_ptr<Accumulator> acc = q.accumulators[i];
        bool used = false;
        for (const auto &p : q.products)
            used = used || p->acc == acc;
        if (used)
            continue;
        give_registers(warp, *acc);
        q.accumulators.erase(q.accumulators.begin() + (long)i);
    }
}

// given: groups that may stay in flight, groups that this lane has committed.
static void wait_together(LaneSync &m)
{
    Fiber *const f = self();
    MatrixQueue &q = queue_of(f->warp);
    const uint64_t groups = m.given[f->lane][1];
    for (int lane = 0; lane < WARP; lane++)
        if (m.given[lane][1] != groups || m.given[lane][0] != m.given[f->lane][0] || q.issued[lane] != q.issued[f->lane])
            fault(LAUNCH_FAILED, "wgmma.wait_group: lanes %d and %d have not issued the same products and groups", lane, f->lane);
    const uint64_t kept = m.given[f->lane][0];
    if (groups > kept)
        retire(f->warp, q, q.groups[groups - kept - 1]);
}

void products_at_exit(Fiber *f)
{
    if (f->warp->matrix && !f->warp->matrix->accumulators.empty() && flying(*f->warp->matrix, f->lane, f->warp->matrix->accumulators[0]->registers[f->lane][0]))
        fault(LAUNCH_FAILED, "the thread ends with wgmma in flight");
}

}

namespace ptx {
using namespace emu;

void wgmma_fence() { self()->fenced = true; }

void wgmma_commit()
{
    Fiber *const f = self();
    MatrixQueue &q = queue_of(f->warp);
    const size_t n = q.committed[f->lane]++;
    if (n == q.groups.size())
        q.groups.push_back(q.issued[f->lane]);
    else if (q.groups[n] != q.issued[f->lane])
        fault(LAUNCH_FAILED, "wgmma.commit_group: lanes commit different products");
}

void wgmma_wait(uint32_t n)
{
    Fiber *const f = self();
    const uint64_t given[] = { n, queue_of(f->warp).committed[f->lane] };
    lane_sync("wgmma.wait_group", 0xffffffff, given, 2, nullptr, wait_together);
    f->fenced = false;
}

static bool allowed(const MatrixShape &s, bool sparse)
{
    const int k = (sparse ? 64 : 32) / type_bytes(s.a);
    const bool wide = s.integer && s.n > 32 ? s.n % 16 == 0 : s.n % 8 == 0;
    return s.n >= 8 && s.n <= N_MAX && (wide || s.n == 24) && s.k == k && type_bytes(s.a) == type_bytes(s.b);
}

void wgmma(const MatrixShape &shape, uint32_t *const *registers, int n_registers, const MatrixOperand &a, uint64_t b, bool add,
           int scale_a, int scale_b, int across_a, int across_b, const SparsePlaces *sparse)
{
    Fiber *const f = self();
    const int lane = f->lane;
    MatrixQueue &q = queue_of(f->warp);
    if (!allowed(shape, sparse) || n_registers != shape.n / 2)
        fault(LAUNCH_FAILED, "wgmma: there is no shape m64n%dk%d of these types with %d registers", shape.n, shape.k, n_registers);
    if (f->block->threads % 128 != 0)
        fault(LAUNCH_FAILED, "wgmma: the block's threads do not make whole warp groups");
    const size_t number = q.issued[lane]++ - q.first;
    if (number == q.products.size()) {
        q.products.push_back(std::make_shared<Product>());
        Product &p = *q.products[number];
        p.shape = shape;
        p.from_registers = a.from_registers;
        p.a = a.descriptor, p.b = b;
        p.add = add, p.negate_a = scale_a < 0, p.negate_b = scale_b < 0;
        p.across_a = across_a, p.across_b = across_b;
        p.sparse = sparse, p.selector = sparse ? sparse->selector : 0;
    }
    const std::shared_ptr<Product> p = q.products[number];
    if (p->shape.n != shape.n || p->b != b || p->a != a.descriptor || p->add != add || p->sparse != (sparse != nullptr))
        fault(LAUNCH_FAILED, "wgmma: the lanes of a warp issue different products");
    const bool chained = flying(q, lane, registers[0]) != nullptr;
    if (!f->fenced && (!chained || a.from_registers || sparse))
        fault(LAUNCH_FAILED, "wgmma: there is no wgmma.fence between the last use of its registers and it");
    if (!p->acc)
        p->acc = flying(q, lane, registers[0]);
    if (!p->acc) {
        p->acc = std::make_shared<Accumulator>();
        p->acc->n = shape.n;
        p->acc->integer = shape.integer;
        q.accumulators.push_back(p->acc);
    }
    if (p->acc->n != shape.n)
        fault(LAUNCH_FAILED, "wgmma: an accumulator in flight is used with another shape");
    if (!(p->acc->given >> lane & 1))
        take_registers(*p->acc, lane, registers);
    else if (p->acc->registers[lane][0] != registers[0])
        fault(LAUNCH_FAILED, "wgmma: the lanes of a warp use different accumulators");
    std::copy(a.words, a.words + 4, p->words[lane]);
    p->places[lane] = sparse ? sparse->word : 0;
    p->issued |= 1u << lane;
    Warp *const warp = f->warp;
    if (p->issued == 0xffffffff && warp->block->cells)
        each_piece(warp, *p, [=](uint32_t offset) { begin_async_read(warp->block, warp, offset, 16); });
    if (p->issued == 0xffffffff && worker->random.below(256) < worker->haste)
        execute_up_to(f->warp, q, q.first + number + 1);
}

}
