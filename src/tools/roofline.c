// SPDX-License-Identifier: MIT
// roofline.c - for `kiln explain`: how many operations a launch has to do, how many bytes it has to move (count.h), and the
// time below which no kernel can do it.
//
// Rates: on an H200 what was measured (docs/hopper.md) for bf16, fp8, i8 and copies; all others are the data sheets'.
#include "tools/work.h"

#include <math.h>

typedef struct Rates {
    const GpuTarget *gpu;
    const char *card;
    double bf16, fp8, i8, tf32, f32, f64, bytes;
} Rates; // operations and bytes per second
static const Rates cards[] = {
    { &gpu_sm_90a, "an H200", 790e12, 1550e12, 1600e12, 494e12, 67e12, 34e12, 4.27e12 },
    { &gpu_sm_80, "an A100", 312e12, 312e12, 624e12, 156e12, 19.5e12, 9.7e12, 1.55e12 },
};

// NULL: nothing is known of it.
static const Rates *find_rates(const GpuTarget *gpu)
{
    for (int i = 0; i < COUNT(cards); i++)
        if (cards[i].gpu == gpu) return &cards[i];
    return NULL;
}

static double rate_of(const Rates *rates, DType type)
{
    if (type == DTYPE_F64) return rates->f64;
    if (type == DTYPE_TF32) return rates->tf32;
    if (dtype_bits(type) == 16) return rates->bf16;
    if (dtype_bits(type) <= 8) return dtype_is_float(type) ? rates->fp8 : rates->i8;
    return rates->f32;
}

// The kernel's products by their tiles' sizes: how many operations, and how long they take.
typedef struct Mix {
    const Rates *rates;
    double operations, seconds;
} Mix;

static void add_products(Mix *mix, TileOp *op)
{
    for (; op; op = op->next) {
        TileOp **body;
        for (int i = 0; (body = tile_bodies(op, i)) != NULL; i++) add_products(mix, *body);
        int64_t m, n, k;
        if (op->kind != T_MATMUL || !expr_as_int(region_extent(&op->matmul.dst, 0), &m) ||
            !expr_as_int(region_extent(&op->matmul.dst, 1), &n) ||
            !expr_as_int(region_extent(&op->matmul.a.region, !op->matmul.a.transposed), &k))
            continue;
        mix->operations += 2.0 * (double)m * (double)n * (double)k;
        mix->seconds += 2.0 * (double)m * (double)n * (double)k / rate_of(mix->rates, op->matmul.a.type);
    }
}

static kiln_status add_kernel(const Compiled *compiled, void *context)
{
    add_products(context, compiled->kernel->body);
    return KILN_OK;
}

// Of all products of the kernels together: those of a kernel with several types are as many of each as its tiles are.
static double operations_rate(const BuildRequest *request, const Rates *rates)
{
    Mix mix = { .rates = rates };
    if (kernel_compile(request, NULL, NULL, add_kernel, &mix) || mix.operations <= 0) return rates->f32;
    return mix.operations / mix.seconds;
}

static void print_amount(double x, const char *unit)
{
    static const char *const prefixes[] = { "", "K", "M", "G", "T", "P" };
    int i = 0;
    for (; x >= 1000 && i + 1 < COUNT(prefixes); i++) x /= 1000;
    printf("%.3g %s%s", x, prefixes[i], unit);
}

static void print_time(double seconds)
{
    if (seconds < 1e-3) printf("%.3g us", 1e6 * seconds);
    else printf("%.3g ms", 1e3 * seconds);
}

static bool has_free_shape(const LaunchPlan *plan)
{
    for (int i = 0; i < plan->n_binds; i++)
        if (!plan->binds[i].is_stride) return true;
    return false;
}

Roofline roofline_of(const BuildRequest *request)
{
    const Rates *const rates = find_rates(request->target.gpu);
    if (!rates) return (Roofline){ .unknown = "nothing is known of the target's machines" };
    const Work work = work_of(request->program, request->name, request->bindings, request->n_bindings,
                              &(WorkValues){ .values = request->bindings, .n_values = request->n_bindings });
    if (work.operations_unknown || work.bytes_unknown)
        return (Roofline){ .unknown = work.operations_unknown ? work.operations_unknown : work.bytes_unknown };
    return (Roofline){ .card = rates->card,
                       .operations = work.operations,
                       .bytes = work.bytes,
                       .operation_rate = operations_rate(request, rates),
                       .byte_rate = rates->bytes };
}

static void print_counted(const Roofline *roofline)
{
    const double computing = roofline->operations / roofline->operation_rate,
                 moving = roofline->bytes / roofline->byte_rate;
    printf("floor on %s: ", roofline->card);
    if (roofline->operations > 0) {
        print_amount(roofline->operations, "op in products: ");
        print_time(computing);
        printf("; ");
    }
    print_amount(roofline->bytes, "B moved once: ");
    print_time(moving);
    printf("; bound by %s\n", computing > moving ? "products" : "memory");
}

void explain_roofline(const BuildRequest *request, const kiln_kernel *kernel)
{
    if (!find_rates(request->target.gpu)) return;
    if (has_free_shape(kernel->plan)) {
        printf("floor: bind the shapes' names (NAME=VALUE) to see operations, bytes and the least time\n");
        return;
    }
    const Roofline roofline = roofline_of(request);
    if (roofline.unknown) printf("floor: not counted: %s\n", roofline.unknown);
    else print_counted(&roofline);
}
