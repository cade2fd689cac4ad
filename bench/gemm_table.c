// SPDX-License-Identifier: MIT
// gemm_table.c - `kiln tune --gemm-table`: times of kiln_gemm's tiles on shapes drawn by a seed.
//
// Tiles are those of the table and `candidates`. Their kernels are built first, on all processors, for at most half of the time; what is
// not built then is left out. Of each shape the choices that the model expects to be the fastest are run and compared at some
// elements with float64, then timed from a cold L2, and written at once. Operands are the beginnings of two pieces of memory that
// repeat a table of numbers whose length is a prime.
#include "gemm_table.h"
#include "sweep.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum {
    RUNS = 5,
    PEER_RUNS = 9,
    CHOICES = 20,
    OF_A_TILE = 2,
    SAMPLES = 8,
    PERIOD = 1048583,
    PROCESSORS = 132,
    TYPES = 2
};
static const double OPERATIONS_MAX = 2e12; // of a shape
static const double A_BYTES = 6e8, B_BYTES = 1.4e9, C_BYTES = 1.6e9, WORKSPACE_BYTES = 8e8;

static const struct {
    kiln_type type, result;
    const char *name;
} types[TYPES] = { { KILN_BF16, KILN_BF16, "bf16" }, { KILN_E4M3, KILN_BF16, "e4m3" } };

static const GemmTile candidates[] = {
    { 64, 64, 1, 12, GEMM_TURNED, 1 },  { 96, 64, 1, 10, GEMM_TURNED, 1 }, { 128, 64, 1, 8, GEMM_TURNED, 1 },
    { 128, 128, 1, 6, GEMM_TURNED, 1 }, { 80, 128, 1, 7, GEMM_TURNED, 1 }, { 128, 256, 1, 4, GEMM_TWIN, 1 },
    { 128, 192, 1, 5, GEMM_TWIN, 1 },   { 128, 128, 1, 6, GEMM_TWIN, 1 },  { 64, 256, 1, 5, GEMM_TWIN, 1 },
    { 64, 128, 1, 8, GEMM_TWIN, 1 },
};

static const char *const ranges[] = {
    "M: 1 2 4 8 16 24 32 48 64 100 128 192 256 384 512 777 1024 1500 2048 4096 8192 2..64 2..64 16..16384 16..16384 16..16384",
    "N/K: 6144/4096 4096/4096 28672/4096 4096/14336 128256/4096 10240/8192 8192/8192 57344/8192 8192/28672 24576/4096 4096/12288 "
    "10240/5120 5120/8192 51200/5120 5120/25600 3584/18944 37888/3584 5120/5120 1024/1024 "
    "2112/7168 24576/1536 32768/512 7168/16384 36864/7168 7168/18432 4096/7168 7168/2048 "
    "5120/2880 2880/4096 2880/2880 201088/2880 16..8192/16..8192 16..8192/16..8192 1000/8888 16..16384/4096",
    NULL
};

typedef struct Table {
    const GemmTableOptions *options;
    Arena *arena;
    GemmTimes times;
    kiln_device *device;
    kiln_program *program;
    Machine machine;
    kiln_kernel *kernels[TYPES][GEMM_TILES_MAX];
    char *numbers[TYPES];      // PERIOD of each, in host memory
    char *a[TYPES], *b[TYPES]; // on the device
    char *c, *workspace;
    FILE *file;
    double begin, deadline;
    int shapes, wrong;
} Table;

// ---- files of times

int gemm_find_tile(GemmTimes *times, GemmTile t)
{
    for (int i = 0; i < times->n_tiles; i++) {
        const GemmTile *const u = &times->tiles[i];
        if (u->rows == t.rows && u->columns == t.columns && u->steps == t.steps && u->stages == t.stages &&
            u->form == t.form)
            return i;
    }
    if (times->n_tiles == GEMM_TILES_MAX) return -1;
    times->tiles[times->n_tiles] = t;
    return times->n_tiles++;
}

static bool read_line(Arena *arena, GemmTimes *times, const char *line)
{
    int v[10];
    double us, peer = 0;
    if (sscanf(line, "%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%lf,%lf", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7],
               &v[8], &v[9], &us, &peer) < 11)
        return false;
    for (int i = 0; i < 10; i++)
        if (v[i] < (i != 8)) return false;
    if (v[3] > 2 || v[8] > GEMM_TWIN || !(us > 0)) return false;
    const int tile = gemm_find_tile(times, (GemmTile){ v[4], v[5], v[6], v[7], (GemmForm)v[8], 1 });
    if (tile < 0) return false;
    const GemmShape shape = {
        .batch = 1, .m = v[0], .n = v[1], .k = v[2], .type = v[3] == 1 ? KILN_E4M3 : KILN_BF16, .processors = PROCESSORS
    };
    VEC_PUSH(arena, &times->all, (GemmTime){ shape, tile, v[9], 1e3 * us, 1e3 * peer });
    return true;
}

int gemm_read_times(Arena *arena, GemmTimes *times, const char *path)
{
    char line[256];
    int result = -1;
    FILE *const file = fopen(path, "r");
    if (!file) return fail_usage("cannot read %s: %s", path, strerror(errno));
    for (int i = 1; result < 0 && fgets(line, sizeof line, file); i++)
        if (!read_line(arena, times, line) && i > 1) result = fail_usage("%s:%d: no time of a tile: %s", path, i, line);
    fclose(file);
    return result;
}

// ---- kernels

static bool build_tile(Table *t, int type, int tile)
{
    const GemmTile *const x = &t->times.tiles[tile];
    char values[512];
    snprintf(
        values, sizeof values,
        "T=%s, U=%s, TC=bf16, TA=false, TB=true, PREC=0, ACT=0, BM=%d, BN=%d, BK=%d, STAGES=%d, EVEN=true, TURN=%s, "
        "PA=false, PB=false, WHOLE=false, TWIN=%s, UP=none, SA=none, SB=none, UPS=none, BIAS=none, UPB=none, RES=none",
        types[type].name, types[type].name, x->rows, x->columns, 1024 * x->steps / kiln_type_bits(types[type].type),
        x->stages, x->form == GEMM_TURNED ? "true" : "false", x->form == GEMM_TWIN ? "true" : "false");
    return kiln_kernel_build(t->device, t->program, "gemm", values, NULL, &t->kernels[type][tile]) == KILN_OK;
}

static void build_one(void *context, int i)
{
    Table *const t = context;
    if (seconds_now() < t->begin + t->options->seconds / 2 && !build_tile(t, i % TYPES, i / TYPES))
        fprintf(stderr, "kiln: left out: %s\n", kiln_error_message());
}

static void build_tiles(Table *t)
{
    int n = 0;
    for (int i = 0; i < COUNT(candidates); i++) gemm_find_tile(&t->times, candidates[i]);
    progress("building %d tiles", t->times.n_tiles);
    in_parallel(TYPES * t->times.n_tiles, build_one, t);
    progress_end();
    for (int i = 0; i < TYPES * t->times.n_tiles; i++) n += t->kernels[i % TYPES][i / TYPES] != NULL;
    printf("%d of %d kernels built in %.0f s\n", n, TYPES * t->times.n_tiles, seconds_now() - t->begin);
}

// ---- operands

static bool make_operand(Table *t, int type, double bytes, char **memory)
{
    const size_t all = (size_t)bytes, piece = (size_t)PERIOD * (size_t)kiln_type_bits(types[type].type) / 8;
    void *place;
    if (kiln_alloc(t->device, all, &place)) return false;
    *memory = place;
    for (size_t at = 0; at < all; at += piece)
        if (kiln_upload(t->device, *memory + at, t->numbers[type], all - at < piece ? all - at : piece)) return false;
    return true;
}

static bool make_operands(Table *t)
{
    void *c, *workspace;
    for (int i = 0; i < TYPES; i++) {
        const double bytes = kiln_type_bits(types[i].type) / 16.0;
        t->numbers[i] = arena_alloc(t->arena, (size_t)PERIOD * 2);
        fill_input(&(CaseInput){ .kind = INPUT_NORMAL, .b = 1 }, dtype_of_type(types[i].type), t->numbers[i], PERIOD,
                   (uint64_t)i + 1);
        if (!make_operand(t, i, A_BYTES * bytes, &t->a[i]) || !make_operand(t, i, B_BYTES * bytes, &t->b[i]))
            return false;
    }
    if (kiln_alloc(t->device, (size_t)C_BYTES, &c) || kiln_alloc(t->device, (size_t)WORKSPACE_BYTES, &workspace))
        return false;
    t->c = c;
    t->workspace = workspace;
    return true;
}

// ---- a shape

typedef struct Product {
    Table *table;
    GemmShape shape;
    int type;
    kiln_tensor a, b, c;
    kiln_arg args[13]; // A B UP C SA SB UPS BIAS UPB RES scale p parts
    kiln_kernel *kernel;
    size_t workspace;
    int64_t at[SAMPLES]; // of c
    double expected[SAMPLES];
} Product;

static double number(const Product *p, int64_t i)
{
    return element_get(dtype_of_type(types[p->type].type), p->table->numbers[p->type], i % PERIOD);
}

// Two corners, and others. Not element 0, a sum of squares: tensor cores cut every product of 8 bits where the sum so far has its
// last bit, 3% of 5120 squares.
static void expect_samples(Product *p)
{
    uint64_t random = 1;
    const int64_t n = p->shape.n, k = p->shape.k, all = p->shape.m * n;
    for (int i = 0; i < SAMPLES; i++) {
        p->at[i] = i == 0 ? n - 1 : i == 1 ? all - n : (int64_t)(sweep_random(&random) % (uint64_t)all);
        p->expected[i] = 0;
        for (int64_t j = 0; j < k; j++)
            p->expected[i] += number(p, p->at[i] / n * k + j) * number(p, p->at[i] % n * k + j);
    }
}

static void make_product(Table *t, Product *p, int type, const Shape *s)
{
    *p = (Product){ .table = t, .type = type };
    p->shape = (GemmShape){ .batch = 1,
                            .m = shape_get(s, "M"),
                            .n = shape_get(s, "N"),
                            .k = shape_get(s, "K"),
                            .type = types[type].type,
                            .processors = PROCESSORS };
    const int64_t m = p->shape.m, n = p->shape.n, k = p->shape.k;
    p->a = kiln_tensor_of(t->device, t->a[type], types[type].type, 3, (int64_t[]){ 1, m, k });
    p->b = kiln_tensor_of(t->device, t->b[type], types[type].type, 3, (int64_t[]){ 1, n, k });
    p->c = kiln_tensor_of(t->device, t->c, types[type].result, 3, (int64_t[]){ 1, m, n });
    for (int i = 0; i < COUNT(p->args); i++) p->args[i] = KILN_NONE;
    p->args[0] = KILN_TENSOR(&p->a);
    p->args[1] = KILN_TENSOR(&p->b);
    p->args[3] = KILN_TENSOR(&p->c);
    p->args[10] = KILN_FLOAT(1);
    p->args[11] = KILN_INT(PROCESSORS);
    expect_samples(p);
}

static bool queue_product(void *context)
{
    Product *const p = context;
    return !kiln_launch_with(p->kernel, NULL, p->args, COUNT(p->args), p->table->workspace, p->workspace);
}

// The result's samples before a run hold NaN.
static bool run_and_compare(Product *p)
{
    const uint16_t poison = 0xFFFF;
    kiln_device *const device = p->table->device;
    uint16_t element;
    for (int i = 0; i < SAMPLES; i++)
        if (kiln_upload(device, p->table->c + 2 * p->at[i], &poison, 2)) return false;
    if (!queue_product(p) || kiln_stream_wait(device, NULL)) return false;
    for (int i = 0; i < SAMPLES; i++) {
        if (kiln_download(device, &element, p->table->c + 2 * p->at[i], 2)) return false;
        const double is = element_get(dtype_of_type(types[p->type].result), &element, 0);
        if (!(fabs(is - p->expected[i]) <= 0x1p-7 * (fabs(p->expected[i]) + sqrt((double)p->shape.k))))
            return status_fail(KILN_DEVICE_FAILED, "WRONG: element %d is %g, not %g", (int)p->at[i], is,
                               p->expected[i]),
                   false;
    }
    return true;
}

// Seconds, or 0: it does not run, or is wrong, which is said.
static double time_choice(Product *p, const GemmTime *choice)
{
    static Times runs;
    Table *const t = p->table;
    const GemmTile *const x = &t->times.tiles[choice->tile];
    runs.n = 0;
    p->kernel = t->kernels[p->type][choice->tile];
    p->args[12] = KILN_INT(choice->parts);
    if (!kiln_workspace_size(p->kernel, p->args, COUNT(p->args), &p->workspace) &&
        (double)p->workspace <= WORKSPACE_BYTES && run_and_compare(p) &&
        machine_time(&t->machine, queue_product, p, RUNS, 0, &runs))
        return times_spread(&runs).median;
    if ((double)p->workspace > WORKSPACE_BYTES) return 0;
    fprintf(stderr, "kiln: %d x %d x %d %s by %d x %d x %d in %d: %s\n", (int)p->shape.m, (int)p->shape.n,
            (int)p->shape.k, types[p->type].name, x->rows, x->columns, x->steps, choice->parts, kiln_error_message());
    t->wrong++;
    return 0;
}

static int by_expectation(const void *x, const void *y)
{
    const GemmTime *const a = x, *const b = y;
    return (a->ns > b->ns) - (a->ns < b->ns);
}

// The choices that the model expects to be the fastest; their ns are what it expects.
static int likely_choices(const Product *p, GemmTime *choices, int most)
{
    const Table *const t = p->table;
    int n = 0, kept = 0, of_tile[GEMM_TILES_MAX] = { 0 };
    for (int i = 0; i < t->times.n_tiles; i++) {
        const int parts = t->kernels[p->type][i] ? gemm_most_parts(&p->shape, &t->times.tiles[i]) : 0;
        for (int j = 1; j <= parts && n < most; j++)
            choices[n++] = (GemmTime){ p->shape, i, j, gemm_cost(&gemm_machine, &p->shape, &t->times.tiles[i], j), 0 };
    }
    qsort(choices, (size_t)n, sizeof *choices, by_expectation);
    for (int i = 0; i < n && kept < CHOICES; i++)
        if (of_tile[choices[i].tile]++ < OF_A_TILE) choices[kept++] = choices[i];
    return kept;
}

static double time_peer(const Product *p)
{
    Table *const t = p->table;
    static Times runs;
    static Baseline peer;
    char text[256];
    runs.n = 0;
    if (!t->options->beside) return 0;
    snprintf(text, sizeof text, "M=%d, N=%d, K=%d, T=%s", (int)p->shape.m, (int)p->shape.n, (int)p->shape.k,
             types[p->type].name);
    baseline_open_peer(&peer, &t->machine, "gemm", text);
    baseline_time(&peer, 2, 0, &runs);
    runs.n = 0;
    baseline_time(&peer, PEER_RUNS, 0, &runs);
    baseline_close(&peer);
    return times_spread(&runs).median;
}

static void time_shape(Table *t, int type, const Shape *s)
{
    static GemmTime choices[GEMM_TILES_MAX * 64];
    static Product p;
    make_product(t, &p, type, s);
    const int n = likely_choices(&p, choices, COUNT(choices));
    const double peer = time_peer(&p);
    for (int i = 0; i < n; i++) {
        const GemmTile *const x = &t->times.tiles[choices[i].tile];
        const double seconds = time_choice(&p, &choices[i]);
        if (t->device->poisoned) return;
        if (seconds <= 0) continue;
        fprintf(t->file, "%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%.2f,%.2f\n", (int)p.shape.m, (int)p.shape.n, (int)p.shape.k,
                kiln_type_bits(types[type].type) / 8, x->rows, x->columns, x->steps, x->stages, (int)x->form,
                choices[i].parts, 1e6 * seconds, 1e6 * peer);
        VEC_PUSH(t->arena, &t->times.all,
                 (GemmTime){ p.shape, choices[i].tile, choices[i].parts, 1e9 * seconds, 1e9 * peer });
    }
    fflush(t->file);
    t->shapes++;
}

// In whole vectors; false: too large.
static bool draw(Shape *s, int type, uint64_t *random)
{
    const double bytes = kiln_type_bits(types[type].type) / 8.0;
    *s = (Shape){ 0 };
    shape_draw(s, ranges, random);
    shape_set(s, "N", (shape_get(s, "N") + 15) / 16 * 16);
    shape_set(s, "K", (shape_get(s, "K") + 15) / 16 * 16);
    const double m = (double)shape_get(s, "M"), n = (double)shape_get(s, "N"), k = (double)shape_get(s, "K");
    if (2 * m * n * k > OPERATIONS_MAX || m * k * bytes > A_BYTES * bytes / 2 || n * k * bytes > B_BYTES * bytes / 2 ||
        2 * m * n > C_BYTES)
        return false;
    return true;
}

static void time_shapes(Table *t)
{
    uint64_t random = 0xcbf29ce484222325u ^ (uint64_t)t->options->seed * 0x2545f4914f6cdd1du;
    Shape shape;
    for (int i = 0; seconds_now() < t->deadline && !t->device->poisoned; i++) {
        const int type = i % 5 >= 3;
        while (!draw(&shape, type, &random)) continue;
        progress("%d shapes timed, %.0f s left", t->shapes, t->deadline - seconds_now());
        time_shape(t, type, &shape);
    }
    progress_end();
    printf("%d shapes timed in %.0f s%s\n", t->shapes, seconds_now() - t->begin, t->wrong ? ", some WRONG" : "");
}

// ---- the command

static int open_file(Table *t)
{
    t->file = fopen(t->options->path, "a");
    if (!t->file) return fail_usage("cannot write %s: %s", t->options->path, strerror(errno));
    if (fseek(t->file, 0, SEEK_END) == 0 && ftell(t->file) == 0)
        fprintf(t->file, "M,N,K,size,BM,BN,steps,stages,form,parts,us,peer\n");
    return -1;
}

static int measure(Table *t)
{
    const char *const kernels = kernels_folder(t->arena);
    char path[4096];
    snprintf(path, sizeof path, "%s/gemm/any.tile", kernels);
    if (t->options->beside && !baseline_start_process(t->options->beside))
        return fail_usage("cannot start '%s'", t->options->beside);
    if (kiln_program_load_file(path, &t->program) || !machine_open(&t->machine, t->device)) return fail_status(NULL);
    build_tiles(t);
    if (!make_operands(t)) return fail_status(NULL);
    const int result = open_file(t);
    if (result < 0) time_shapes(t);
    if (t->file && fclose(t->file) != 0)
        return fail_usage("cannot write all of %s: %s", t->options->path, strerror(errno));
    return result;
}

static void close_table(Table *t)
{
    baseline_end_process();
    for (int i = 0; i < TYPES * GEMM_TILES_MAX; i++)
        if (t->kernels[i % TYPES][i / TYPES]) kiln_kernel_free(t->kernels[i % TYPES][i / TYPES]);
    for (int i = 0; i < TYPES; i++) kiln_free(t->device, t->a[i]), kiln_free(t->device, t->b[i]);
    kiln_free(t->device, t->c);
    kiln_free(t->device, t->workspace);
    machine_close(&t->machine);
    kiln_program_free(t->program);
    kiln_device_close(t->device);
}

static int read_all(Table *t)
{
    int result = -1;
    FILE *const there = fopen(t->options->path, "r");
    if (there) fclose(there);
    if (there || !t->options->device) result = gemm_read_times(t->arena, &t->times, t->options->path);
    for (int i = 0; i < t->options->n_args && result < 0; i++)
        result = gemm_read_times(t->arena, &t->times, t->options->args[i]);
    return result;
}

int bench_gemm_table(Arena *arena, const GemmTableOptions *options)
{
    Table *const t = arena_alloc(arena, sizeof *t);
    const char *device = "from files";
    t->options = options;
    t->arena = arena;
    t->begin = seconds_now();
    t->deadline = t->begin + options->seconds;
    for (int i = 0; i < gemm_n_tiles; i++) gemm_find_tile(&t->times, gemm_tiles[i]);
    int result = read_all(t);
    if (result < 0 && options->device) {
        if (kiln_device_open(options->device, &t->device)) return fail_status(NULL);
        device = arena_printf(arena, "%s", kiln_device_describe(t->device));
        result = device_is_cpu(t->device) ? fail_usage("--gemm-table: tiles are a GPU's: --device=cuda:0") : measure(t);
        close_table(t);
    }
    if (result < 0) result = gemm_fit(arena, &t->times, options->steps, device, options->output);
    return result == EXIT_OK && t->wrong ? EXIT_FAILED : result;
}
