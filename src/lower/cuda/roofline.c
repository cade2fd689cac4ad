// SPDX-License-Identifier: MIT
// roofline.c - for `kiln explain`: how many operations the products make, how many bytes the tensors have, and the time
// below which no kernel can do it.
//
// Trip counts and extents are those of the bound shapes (`kiln explain FILE KERNEL M=4096 ..`); where a count depends on
// the instance, as under a causal mask, the largest is taken and said to be one. Rates: on an H200 what was measured
// (docs/hopper.md) for bf16, fp8, i8 and copies; all others are the data sheets'.
#include "lower/cuda/cuda.h"

typedef struct Rates { const char *card; double bf16, fp8, i8, tf32, f32, f64, bytes; } Rates;        // operations and bytes per second
static const Rates h200 = { "an H200", 790e12, 1550e12, 1600e12, 494e12, 67e12, 34e12, 4.27e12 };
static const Rates a100 = { "an A100", 312e12, 312e12, 624e12, 156e12, 19.5e12, 9.7e12, 1.55e12 };

typedef struct Roofline {
    const Rates *rates;
    double trips;                    // of the op at hand, by one instance
    double operations, seconds;      // of all products of one instance
    bool   is_bound, is_largest;     // all trip counts are known; some are the largest there can be
} Roofline;

// The value of an extent that was bound, or the largest that it can have.
static bool extent_of(Expr *x, double *extent, bool *is_largest)
{
    int64_t exact;
    const Range r = expr_range(x);
    if (expr_as_int(x, &exact)) {
        *extent = (double)(exact > 0 ? exact : 0);
        return true;
    }
    if (!r.has_hi || r.hi >= 1 << 27)
        return false;
    *extent = (double)(r.hi > 0 ? r.hi : 0);
    return *is_largest = true;
}

static double rate_of(const Rates *rates, const Product *p)
{
    const DType type = p->left.type;
    const bool is_loop = p->kind == PRODUCT_LOOP || p->kind == PRODUCT_FMA;
    if (type == DTYPE_F64)
        return rates->f64;
    if (is_loop)
        return rates->f32;
    if (type == DTYPE_TF32)
        return rates->tf32;
    if (dtype_bits(type) == 16)
        return rates->bf16;
    return !dtype_is_float(type) ? rates->i8 : p->kind == PRODUCT_WGMMA ? rates->fp8 : rates->bf16;
}

static void count_block(Lowering *lo, Roofline *roof, TileOp *block);

static void count_loop(Lowering *lo, Roofline *roof, const LoopIndex *indices, int n, TileOp *body)
{
    const double outside = roof->trips;
    for (int i = 0; i < n; i++) {
        double trips = 1;
        if (!extent_of(int_sub(lo->arena, indices[i].hi, indices[i].lo), &trips, &roof->is_largest))
            roof->is_bound = false;
        roof->trips *= trips;
    }
    count_block(lo, roof, body);
    roof->trips = outside;
}

static void count_block(Lowering *lo, Roofline *roof, TileOp *block)
{
    for (TileOp *op = block; op; op = op->next) {
        if (op->kind == T_MATMUL) {
            const Product *const p = op_info(lo, op)->product;
            const double operations = 2.0 * p->m * p->n * p->k * roof->trips;
            roof->operations += operations;
            roof->seconds += operations / rate_of(roof->rates, p);
        } else if (op->kind == T_FOR) {
            const LoopIndex index = { op->for_.var, op->for_.lo, op->for_.hi };
            count_loop(lo, roof, &index, 1, op->for_.body);
        } else if (op->kind == T_PIPELINE) {
            count_loop(lo, roof, op->pipeline.indices, op->pipeline.n, op->pipeline.body);
        } else if (op->kind == T_IF) {
            count_block(lo, roof, op->branch.then);
            count_block(lo, roof, op->branch.otherwise);
        } else if (op->kind == T_WHILE) {
            roof->is_bound = false;
            count_block(lo, roof, op->while_.body);
        }
    }
}

// Every tensor once; those that are read and written, twice.
static bool count_bytes(const Lowering *lo, double *bytes)
{
    *bytes = 0;
    for (int i = 0; i < lo->kernel->n_params; i++) {
        const TileParam *const p = &lo->kernel->params[i];
        if (!p->is_tensor || p->absent)
            continue;
        double size = dtype_bits(p->tensor->type) / 8.0;
        for (int d = 0; d < p->tensor->rank; d++) {
            int64_t extent;
            if (!expr_as_int(p->tensor->shape[d], &extent))
                return false;
            size *= (double)extent;
        }
        *bytes += p->tensor->access == ACCESS_INOUT ? 2 * size : size;
    }
    return true;
}

static void print_amount(Text *out, double x, const char *unit)
{
    static const char *const prefixes[] = { "", "K", "M", "G", "T", "P" };
    int i = 0;
    for (; x >= 1000 && i + 1 < COUNT(prefixes); i++)
        x /= 1000;
    text_print(out, "%.3g %s%s", x, prefixes[i], unit);
}

static void print_time(Text *out, double seconds)
{
    if (seconds < 1e-3) text_print(out, "%.3g us", 1e6 * seconds);
    else text_print(out, "%.3g ms", 1e3 * seconds);
}

void explain_roofline(Lowering *lo)
{
    Text *const out = lo->explanation;
    Roofline roof = { .rates = lo->target->arch >= 90 ? &h200 : &a100, .trips = 1, .is_bound = true };
    count_block(lo, &roof, lo->kernel->body);
    double instances = 1, bytes;
    for (int i = 0; i < lo->kernel->n_grid; i++) {
        double extent = 1;
        if (!extent_of(lo->kernel->grid[i].extent, &extent, &roof.is_largest))
            roof.is_bound = false;
        instances *= extent;
    }
    if (!roof.is_bound || !count_bytes(lo, &bytes)) {
        text_print(out, "floor: bind the shapes' names (NAME=VALUE) to see operations, bytes and the least time\n");
        return;
    }
    const double computing = roof.seconds * instances, moving = bytes / roof.rates->bytes;
    text_print(out, "floor on %s: %.0f instances", roof.rates->card, instances);
    if (roof.operations > 0) {
        text_print(out, "; ");
        print_amount(out, roof.operations * instances,
                     roof.is_largest ? "op in products, were all instances the longest: " : "op in products: ");
        print_time(out, computing);
    }
    text_print(out, "; ");
    print_amount(out, bytes, "B of tensors, each moved once: ");
    print_time(out, moving);
    text_print(out, "; bound by %s\n", computing > moving ? "products" : "memory");
}
