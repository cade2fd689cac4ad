// SPDX-License-Identifier: MIT
// matmul_test.c - the prelude's products against plain loops in f64, or exact integers.
//
// Built once for each instruction set and compiler. Every type, both orientations of both operands,
// extents around each block size, fresh and accumulating, in place and packed with zeros at the
// edge, and bf16 and i8 in few rows; NaN lies everywhere a product must not read, and the neighbours of c are guarded.
#define _GNU_SOURCE
#define KILN_USE_BF16 1
#define KILN_USE_F16 1
#define KILN_USE_E4M3 1
#define KILN_USE_E5M2 1
#define KILN_USE_E4M3_E5M2 1
#define KILN_USE_E5M2_E4M3 1
#define KILN_USE_I8I8 1
#define KILN_USE_U8U8 1
#define KILN_USE_I8U8 1
#define KILN_USE_U8I8 1
#include "../../../../src/lower/cpu/prelude/base.c"
#include "../../../../src/lower/cpu/prelude/convert.c"
#include "../../../../src/lower/cpu/prelude/matmul_pack.c"
#include "../../../../src/lower/cpu/prelude/matmul_vector.c"
#if KILN_AMX
#include "../../../../src/lower/cpu/prelude/matmul_amx.c"
#endif
#include "../../../../src/lower/cpu/prelude/matmul.c"
#include "../../../../src/lower/cpu/prelude/matmul_f32.c"
#include "../../../../src/lower/cpu/prelude/matmul_f64.c"
#include "../../../../src/lower/cpu/prelude/matmul_narrow_float.c"
#include "../../../../src/lower/cpu/prelude/matmul_i8.c"
#include "../../../../src/lower/cpu/prelude/matmul_few_bf16.c"
#include "../../../../src/lower/cpu/prelude/matmul_few_i8.c"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if KILN_AMX
#include <sys/syscall.h>
#include <unistd.h>
#endif

typedef enum { F32, F64, BF16, F16, E4M3, E5M2, I8, U8 } Type;
static const struct {
    int bytes;
    uint64_t poison;
} types[] = {
    [F32] = { 4, 0x7fc00000 }, [F64] = { 8, 0x7ff8000000000000 },
    [BF16] = { 2, 0x7fc0 },    [F16] = { 2, 0x7e00 },
    [E4M3] = { 1, 0x7f },      [E5M2] = { 1, 0x7f },
    [I8] = { 1, 0x55 },        [U8] = { 1, 0xaa },
};

static uint64_t seed = 88172645463325252u;
static uint64_t next_random(void)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

// Writes a random element and returns its value. Extreme bytes are common on purpose.
static double put(Type type, void *at)
{
    const float x = (float)((double)(next_random() >> 11) / 9007199254740992.0 * 4 - 2);
    const uint8_t extreme[] = { 0x80, 0x7f, 0xff, 0x00 };
    const uint64_t r = next_random();
    const uint8_t byte = r & 3 ? (uint8_t)(r >> 8) : extreme[r >> 8 & 3];
    switch (type) {
    case F32: memcpy(at, &x, 4); return x;
    case F64: memcpy(at, &(double){ x }, 8); return x;
    case BF16: memcpy(at, &(uint16_t){ kiln_bf16_from_f32(x) }, 2); return kiln_f32_from_bf16(*(uint16_t *)at);
    case F16: memcpy(at, &(uint16_t){ kiln_f16_from_f32(x) }, 2); return kiln_f32_from_f16(*(uint16_t *)at);
    case E4M3: *(uint8_t *)at = kiln_e4m3_from_f32(x); return kiln_f32_from_e4m3(*(uint8_t *)at);
    case E5M2: *(uint8_t *)at = kiln_e5m2_from_f32(x); return kiln_f32_from_e5m2(*(uint8_t *)at);
    case I8: *(uint8_t *)at = byte; return (int8_t)byte;
    case U8: *(uint8_t *)at = byte; return byte;
    }
    return 0;
}

// rows x columns elements, `stride` apart, values beside them; everything else is poison.
static void *make_operand(Type type, double *value, int64_t rows, int64_t columns, int64_t stride)
{
    const int bytes = types[type].bytes;
    const int64_t total = rows * stride - (stride - columns); // ends with the last element: ASan sees reads past it
    char *const data = malloc((size_t)((total > 0 ? total : 1) * bytes));
    for (int64_t i = 0; i < total; i++) memcpy(data + i * bytes, &types[type].poison, (size_t)bytes);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) value[i * columns + j] = put(type, data + (i * stride + j) * bytes);
    return data;
}

typedef struct {
    int64_t m, n, k;
    int at, bt, accumulate, packed;
} Case;

#define DEFINE_RUN(T, A, B, ACC)                                                                                       \
    static void run_##T(const Case *t, void *c, int64_t cs, const void *a, int64_t as, const void *b, int64_t bs,      \
                        char *scratch)                                                                                 \
    {                                                                                                                  \
        if (t->packed) {                                                                                               \
            const int64_t M = t->m + 5, N = t->n + 3, K = t->k + 7;                                                    \
            char *const pb = scratch, *const pa = scratch + 8 * kiln_round_up(N, 64) * kiln_round_up(K, 16);           \
            if (t->bt) kiln_pack_b_##T(pb, (const B *)b, bs, 1, t->n, t->k, N, K);                                     \
            else kiln_pack_b_##T(pb, (const B *)b, bs, 0, t->n, t->k, N, K);                                           \
            if (t->at) kiln_pack_a_##T(pa, (const A *)a, as, 1, t->m, t->k, M, K);                                     \
            else kiln_pack_a_##T(pa, (const A *)a, as, 0, t->m, t->k, M, K);                                           \
            kiln_product_##T((ACC *)c, cs, pa, pb, M, N, K, t->accumulate);                                            \
        } else                                                                                                         \
            kiln_matmul_##T((ACC *)c, cs, (const A *)a, as, t->at, (const B *)b, bs, t->bt, t->m, t->n, t->k,          \
                            t->accumulate, scratch);                                                                   \
    }
DEFINE_RUN(f32, float, float, float)
DEFINE_RUN(f64, double, double, double)
DEFINE_RUN(bf16, uint16_t, uint16_t, float)
DEFINE_RUN(f16, uint16_t, uint16_t, float)
DEFINE_RUN(e4m3, uint8_t, uint8_t, float)
DEFINE_RUN(e5m2, uint8_t, uint8_t, float)
DEFINE_RUN(e4m3_e5m2, uint8_t, uint8_t, float)
DEFINE_RUN(e5m2_e4m3, uint8_t, uint8_t, float)
DEFINE_RUN(i8i8, int8_t, int8_t, int32_t)
DEFINE_RUN(u8u8, uint8_t, uint8_t, int32_t)
DEFINE_RUN(i8u8, int8_t, uint8_t, int32_t)
DEFINE_RUN(u8i8, uint8_t, int8_t, int32_t)

static void few_f64(const Case *t, void *c, int64_t cs, const void *a, int64_t as, const void *b, int64_t bs,
                    char *scratch)
{
    kiln_few_f64(c, cs, a, as, 0, b, bs, 1, t->m, t->n, t->k, t->accumulate, scratch, NULL);
}
#if KILN_BF16
static void few_bf16(const Case *t, void *c, int64_t cs, const void *a, int64_t as, const void *b, int64_t bs,
                     char *scratch)
{
    kiln_few_bf16_pairs(c, cs, a, as, b, bs, t->bt, t->m, t->n, t->k, t->accumulate, scratch, t->m % 2 ? NULL : b);
}
#endif
#if KILN_AVX512 && KILN_VNNI
static void few_i8(const Case *t, void *c, int64_t cs, const void *a, int64_t as, const void *b, int64_t bs,
                   char *scratch)
{
    kiln_few_i8i8(c, cs, a, as, 0, b, bs, 1, t->m, t->n, t->k, t->accumulate, scratch, t->m % 2 ? NULL : b);
}
#endif

typedef void Run(const Case *, void *, int64_t, const void *, int64_t, const void *, int64_t, char *);
// clang-format off
static const struct { const char *name; Run *run; Type a, b; enum { TO_F32, TO_F64, TO_I32 } acc; } products[] = {
    { "f32", run_f32, F32, F32, TO_F32 },     { "f64", run_f64, F64, F64, TO_F64 },
    { "bf16", run_bf16, BF16, BF16, TO_F32 }, { "f16", run_f16, F16, F16, TO_F32 },
    { "e4m3", run_e4m3, E4M3, E4M3, TO_F32 }, { "e5m2", run_e5m2, E5M2, E5M2, TO_F32 },
    { "e4m3_e5m2", run_e4m3_e5m2, E4M3, E5M2, TO_F32 }, { "e5m2_e4m3", run_e5m2_e4m3, E5M2, E4M3, TO_F32 },
    { "i8i8", run_i8i8, I8, I8, TO_I32 },     { "u8u8", run_u8u8, U8, U8, TO_I32 },
    { "i8u8", run_i8u8, I8, U8, TO_I32 },     { "u8i8", run_u8i8, U8, I8, TO_I32 },
    { "few f64", few_f64, F64, F64, TO_F64 },              // b as b[n][k] alone
#if KILN_BF16
    { "few bf16", few_bf16, BF16, BF16, TO_F32 },
#endif
#if KILN_AVX512 && KILN_VNNI
    { "few i8", few_i8, I8, I8, TO_I32 },                  // quads where bf16 has pairs, and b as b[n][k] alone
#endif
};
// clang-format on
enum { PRODUCTS = sizeof products / sizeof *products, FEW = 12 };

static double read_c(int acc, const char *c, int64_t i)
{
    if (acc == TO_F64) return ((const double *)c)[i];
    return acc == TO_F32 ? (double)((const float *)c)[i] : (double)((const int32_t *)c)[i];
}
static void write_c(int acc, char *c, int64_t i, double x)
{
    if (acc == TO_F64) ((double *)c)[i] = x;
    else if (acc == TO_F32) ((float *)c)[i] = (float)x;
    else ((int32_t *)c)[i] = (int32_t)x;
}

static int check(int p, const Case *t)
{
    const int acc = products[p].acc;
    const int64_t extra_m = t->packed ? 5 : 0, extra_n = t->packed ? 3 : 0;
    const int64_t rows = t->m + extra_m, columns = t->n + extra_n, cs = columns + 9;
    const int64_t as = (t->at ? t->m : t->k) + 3, bs = (t->bt ? t->k : t->n) + 1;
    double *const va = malloc((size_t)(t->m * t->k + 1) * 8), *const vb = malloc((size_t)(t->n * t->k + 1) * 8);
    void *const a = make_operand(products[p].a, va, t->at ? t->k : t->m, t->at ? t->m : t->k, as);
    void *const b = make_operand(products[p].b, vb, t->bt ? t->n : t->k, t->bt ? t->k : t->n, bs);
    char *const c = malloc((size_t)((rows + 1) * cs * 8));
    for (int64_t i = 0; i < (rows + 1) * cs; i++) write_c(acc, c, i, 77);
    const int64_t room =
        8 * (kiln_round_up(columns, 64) + kiln_round_up(rows, 16)) * (kiln_round_up(t->k + 7, 16) + 16);
    char *const scratch = aligned_alloc(64, (size_t)(room + 64));
    memset(scratch, 0xff, (size_t)room);
    products[p].run(t, c, cs, a, as, b, bs, scratch);
    int bad = 0;
    for (int64_t i = 0; i <= rows && !bad; i++)
        for (int64_t j = 0; j < cs && !bad; j++) {
            const int inside = i < rows && j < columns;
            double sum = inside && !t->accumulate ? 0 : 77, size = fabs(sum);
            if (i < t->m && j < t->n)
                for (int64_t u = 0; u < t->k; u++) {
                    const double x = va[t->at ? u * t->m + i : i * t->k + u] * vb[t->bt ? j * t->k + u : u * t->n + j];
                    sum += x, size += fabs(x);
                }
            const double got = read_c(acc, c, i * cs + j);
            const double unit = acc == TO_I32 || !inside ? 0 : acc == TO_F32 ? 1.0 / 16777216 : 1e-16;
            if (!(fabs(got - sum) <= unit * (4 + (double)t->k) * size)) bad = 1;
            if (bad)
                printf("%s m %d n %d k %d %s%s%s%s: c[%d][%d] = %.9g, expected %.9g\n", products[p].name, (int)t->m,
                       (int)t->n, (int)t->k, t->at ? "a^T " : "", t->bt ? "b^T " : "", t->accumulate ? "+= " : "",
                       t->packed ? "packed" : "", (int)i, (int)j, got, sum);
        }
    free(va), free(vb), free(a), free(b), free(c), free(scratch);
    return bad;
}

int main(void)
{
#if KILN_AMX
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    if (syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) != 0)
        return printf("skipped: the kernel does not grant tile data\n"), 0;
#endif
    static const int64_t extents[][3] = {
        { 1, 1, 1 }, { 1, 64, 64 }, { 2, 3, 5 }, { 16, 32, 64 }, { 32, 32, 128 }, { 17, 33, 65 }, { 12, 48, 7 },
        { 48, 16, 96 }, { 13, 70, 31 }, { 64, 1, 63 }, { 5, 31, 0 }, { 31, 97, 300 }, { 33, 40, 1100 }, { 80, 96, 256 },
    }, few[][3] = {                                        // whole vectors along b's rows, as that product asks for
        { 1, 64, 64 }, { 2, 32, 32 }, { 3, 96, 32 }, { 4, 128, 128 }, { 4, 32, 576 }, { 5, 32, 0 }, { 7, 64, 64 },
        { 15, 64, 96 }, { 13, 96, 32 }, { 16, 96, 96 }, { 16, 32, 256 }, { 9, 32, 64 },
    }, dots[][3] = { { 1, 33, 64 }, { 4, 30, 32 }, { 7, 5, 96 }, { 12, 48, 32 }, { 16, 30, 64 } },
      sums[][3] = { { 1, 32, 6 }, { 12, 64, 30 } };
    const int thin = getenv("KILN_SPARSE") ? 97 : 1; // for emulated processors
    int bad = 0, cases = 0;
    for (int p = FEW; p < PRODUCTS; p++)
        for (int flags = 0; flags < 4; flags++) {
            const int bt = flags & 1, accumulate = flags >> 1, of_32 = products[p].a == I8 ? 2 : 1;
            if (!bt && products[p].a != BF16) continue;
            for (size_t e = 0; e < sizeof few / sizeof *few; e++, cases++)
                if (cases % thin == 0)
                    bad += check(p, &(Case){ few[e][0], few[e][1], few[e][2] * of_32, 0, bt, accumulate, 0 });
            for (size_t e = 0; bt && e < sizeof dots / sizeof *dots; e++, cases++)
                if (cases % thin == 0)
                    bad += check(p, &(Case){ dots[e][0], dots[e][1], dots[e][2] * of_32, 0, bt, accumulate, 0 });
            for (size_t e = 0; !bt && e < sizeof sums / sizeof *sums; e++, cases++)
                if (cases % thin == 0)
                    bad += check(p, &(Case){ sums[e][0], sums[e][1], sums[e][2], 0, bt, accumulate, 0 });
        }
    for (int p = 0; p < FEW; p++)
        for (size_t e = 0; e < sizeof extents / sizeof *extents; e++)
            for (int flags = 0; flags < 16; flags++, cases++)
                if (cases % thin == 0)
                    bad += check(p, &(Case){ extents[e][0], extents[e][1], extents[e][2], flags & 1, flags >> 1 & 1,
                                             flags >> 2 & 1, flags >> 3 });
    printf("%d products, %d wrong\n", cases, bad);
    return bad != 0;
}
