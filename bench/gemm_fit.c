// SPDX-License-Identifier: MIT
// gemm_fit.c - the figures of kiln_gemm's model of cost, fitted to measured times.
//
// Two thirds of the shapes are fitted, by random steps that are kept if they lessen an error: how far expected times are from those
// measured, above all of what is near the best of a shape, and how much longer the choices take than the best. The other shapes
// say what the figures are worth. Which shapes are which depends on their extents alone, so that times of later runs of a shape
// fall on the same side.
#include "gemm_table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static const double NEAR = 1.3, FAR = 2, USED = 1.02, MISSED = 1.05; // times the best of a shape
enum { USED_SHAPES = 2 };                                            // for which a tile is near the best

// ---- the figures, by name

typedef struct Figure {
    const char *name;
    size_t at;
} Figure;
#define FIGURE(field)                                                                                                  \
    {                                                                                                                  \
        "." #field, offsetof(GemmMachine, field)                                                                       \
    }
static const Figure figures[] = {
    { "[1]", offsetof(GemmMachine, tensor_flops[1]) },
    { "[2]", offsetof(GemmMachine, tensor_flops[2]) },
    FIGURE(l2_bytes),
    FIGURE(latency),
    FIGURE(step),
    FIGURE(launch),
    FIGURE(end),
    FIGURE(end_element),
    FIGURE(divided),
    FIGURE(part),
    FIGURE(part_element),
    FIGURE(join_bytes),
    FIGURE(l2_all),
    FIGURE(each),
    FIGURE(bytes),
    FIGURE(memory),
    FIGURE(straddle),
};
enum { FIRST_OF_ALL = 2 }; // those before are of a size of elements

static double *figure(GemmMachine *machine, int i) { return (double *)(void *)((char *)machine + figures[i].at); }

typedef struct Model {
    GemmMachine machine;
    GemmTile tiles[GEMM_TILES_MAX];
} Model;

// ---- times by shape

typedef struct Group {
    int first, n; // of its times
    double best, peer;
} Group;

typedef struct Fit {
    const GemmTimes *times;
    GemmTime *rows; // those of a shape side by side
    int n, n_groups;
    Group *groups;
} Fit;

static int compare_shapes(const GemmShape *x, const GemmShape *y)
{
    const int64_t d[] = { kiln_type_bits(x->type) - kiln_type_bits(y->type), x->m - y->m, x->n - y->n, x->k - y->k };
    for (int i = 0; i < COUNT(d); i++)
        if (d[i]) return d[i] < 0 ? -1 : 1;
    return 0;
}

static int compare_rows(const void *x, const void *y)
{
    const GemmTime *const a = x, *const b = y;
    const int shapes = compare_shapes(&a->shape, &b->shape);
    return shapes ? shapes : a->tile != b->tile ? a->tile - b->tile : a->parts - b->parts;
}

static bool is_fitted(const GemmShape *s)
{
    uint64_t x = (uint64_t)s->m * 0x9e3779b97f4a7c15u ^ (uint64_t)s->n * 0xbf58476d1ce4e5b9u ^
                 (uint64_t)s->k * 0x94d049bb133111ebu;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return (x >> 33) % 3 != 0;
}

// What was timed more than once: once, in the geometric mean.
static void merge_rows(Fit *f)
{
    int n = 0;
    for (int i = 0; i < f->n;) {
        int same = 1;
        double log_ns = log(f->rows[i].ns);
        for (; i + same < f->n && compare_rows(&f->rows[i], &f->rows[i + same]) == 0; same++)
            log_ns += log(f->rows[i + same].ns);
        f->rows[n] = f->rows[i];
        f->rows[n++].ns = exp(log_ns / same);
        i += same;
    }
    f->n = n;
}

// The rows of which `keep` says so, by shapes. side: those fitted (1), the others (0), or all (-1).
static void group_rows(Arena *arena, Fit *f, const GemmTimes *times, const bool *kept_tiles, int side)
{
    *f = (Fit){ .times = times, .rows = NEW_ARRAY(arena, GemmTime, times->all.count + 1) };
    for (int i = 0; i < times->all.count; i++) {
        const GemmTime *const t = &times->all.items[i];
        if (kept_tiles && !kept_tiles[t->tile]) continue;
        if (side < 0 || is_fitted(&t->shape) == side) f->rows[f->n++] = *t;
    }
    qsort(f->rows, (size_t)f->n, sizeof *f->rows, compare_rows);
    merge_rows(f);
    f->groups = NEW_ARRAY(arena, Group, f->n + 1);
    for (int i = 0; i < f->n; i++) {
        Group *g = f->n_groups ? &f->groups[f->n_groups - 1] : NULL;
        if (!g || compare_shapes(&f->rows[g->first].shape, &f->rows[i].shape) != 0) {
            g = &f->groups[f->n_groups++];
            *g = (Group){ .first = i, .best = INFINITY };
        }
        g->n++;
        g->best = fmin(g->best, f->rows[i].ns);
        g->peer = f->rows[i].peer > 0 ? f->rows[i].peer : g->peer;
    }
}

// ---- how good a model is

static double expected(const Model *m, const GemmTime *t)
{
    return gemm_cost(&m->machine, &t->shape, &m->tiles[t->tile], t->parts);
}

static int chosen(const Fit *f, const Model *m, const Group *g)
{
    int best = g->first;
    double least = INFINITY;
    for (int i = g->first; i < g->first + g->n; i++) {
        const double ns = expected(m, &f->rows[i]);
        if (ns < least) least = ns, best = i;
    }
    return best;
}

typedef struct Error {
    double near, all, lost, most_lost;
    int n_near, n;
} Error;

static void add_group(const Fit *f, const Model *m, const Group *g, Error *e)
{
    double least = INFINITY, of_least = 0;
    for (int i = g->first; i < g->first + g->n; i++) {
        const double ns = expected(m, &f->rows[i]), off = pow(fabs(log(ns / f->rows[i].ns)), 1.5);
        if (ns < least) least = ns, of_least = f->rows[i].ns;
        if (f->rows[i].ns > FAR * g->best) continue; // what is far from the best need not be known
        e->all += off;
        e->n++;
        if (f->rows[i].ns < NEAR * g->best) e->near += off, e->n_near++;
    }
    const double lost = log(of_least / g->best);
    e->lost += lost;
    e->most_lost = fmax(e->most_lost, lost);
}

static double square(double x) { return x * x; }

static double error_of(const Fit *f, const Model *m, const Model *start)
{
    Error e = { 0 };
    double strange = 0, factors = 0;
    for (int i = 0; i < f->n_groups; i++) add_group(f, m, &f->groups[i], &e);
    for (int i = 0; i < COUNT(figures); i++)
        strange += square(log(*figure((GemmMachine *)&m->machine, i) / *figure((GemmMachine *)&start->machine, i)));
    for (int i = 0; i < f->times->n_tiles; i++) factors += square(log(m->tiles[i].factor / start->tiles[i].factor));
    return e.near / (e.n_near + 1) + 0.3 * e.all / (e.n + 1) + 3 * e.lost / (f->n_groups + 1) + 0.1 * e.most_lost +
           3e-4 * strange + 0.02 * factors / f->times->n_tiles;
}

// ---- random steps

static double unit(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

// Of a distribution like the normal one.
static double bell(uint64_t *state)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += unit(state);
    return sum;
}

static void step(Model *m, int n_tiles, double width, uint64_t *random)
{
    const bool is_machine = unit(random) < 0.5;
    const int n = is_machine ? COUNT(figures) : n_tiles;
    for (int changes = 1 + (int)(3 * square(unit(random))); changes > 0; changes--) {
        const int i = (int)(unit(random) * n);
        if (is_machine) *figure(&m->machine, i) *= exp(bell(random) * width);
        else m->tiles[i].factor *= exp(bell(random) * width / 2);
    }
}

static Model fitted(const Fit *f, const Model *start, int64_t steps)
{
    Model best = *start;
    double least = error_of(f, &best, start);
    uint64_t random = 1;
    for (int64_t i = 0; i < steps; i++) {
        Model now = best;
        if (i % 100 == 0) progress("fitting: step %d of %d, error %.4f", (int)i, (int)steps, least);
        step(&now, f->times->n_tiles, 0.2 * (1 - (double)i / (double)steps) + 0.01, &random);
        const double error = error_of(f, &now, start);
        if (error < least) least = error, best = now;
    }
    progress_end();
    return best;
}

// ---- what it is worth

typedef struct Worth {
    double ns, lost, most_lost, ratio, least,
        top; // geometric means of the choices, over the best too; of peers over both
    int n, n_peers, below;
} Worth;

static Worth worth_of(const Fit *f, const Model *m)
{
    Worth w = { .least = INFINITY };
    double lost = 0, ratios = 0, tops = 0, all = 0;
    for (int i = 0; i < f->n_groups; i++) {
        const Group *const g = &f->groups[i];
        const double ns = f->rows[chosen(f, m, g)].ns;
        lost += log(ns / g->best);
        all += log(ns);
        w.most_lost = fmax(w.most_lost, ns / g->best);
        if (g->peer <= 0) continue;
        w.n_peers++;
        ratios += log(g->peer / ns);
        tops += log(g->peer / g->best);
        w.least = fmin(w.least, g->peer / ns);
        w.below += g->peer / ns < 0.9;
    }
    w.n = f->n_groups;
    w.ns = exp(all / (w.n + 1e-9));
    w.lost = exp(lost / (w.n + 1e-9));
    w.ratio = exp(ratios / (w.n_peers + 1e-9));
    w.top = exp(tops / (w.n_peers + 1e-9));
    return w;
}

static Worth report(const char *what, const Fit *f, const Model *m)
{
    const Worth w = worth_of(f, m);
    printf("%s: %d shapes; choices take %.3f of the best measured, at most %.2f", what, w.n, w.lost, w.most_lost);
    if (w.n_peers)
        printf("; peer's time over theirs %.3f, least %.2f, %d below 0.9; over the best %.3f", w.ratio, w.least,
               w.below, w.top);
    printf("\n");
    return w;
}

static void print_tile(const GemmTile *t, int parts)
{
    static const char *const names[] = { "", " turned", " twin" };
    printf(" %dx%dx%d%s in %d", t->rows, t->columns, t->steps, names[t->form], parts);
}

enum { WORST = 12 };
static void report_worst(const Fit *f, const Model *m)
{
    bool told[WORST * 1000] = { false };
    for (int k = 0; k < WORST; k++) {
        int at = -1;
        double most = 1.1;
        for (int i = 0; i < f->n_groups && i < COUNT(told); i++) {
            const double lost = f->rows[chosen(f, m, &f->groups[i])].ns / f->groups[i].best;
            if (!told[i] && lost > most) most = lost, at = i;
        }
        if (at < 0) return;
        told[at] = true;
        const Group *const g = &f->groups[at];
        const GemmTime *const t = &f->rows[chosen(f, m, g)];
        printf("  %.2f of the best%s: %d x %d x %d %s:", most, g->peer > 0 ? "" : "", (int)t->shape.m, (int)t->shape.n,
               (int)t->shape.k, kiln_type_name(t->shape.type));
        print_tile(&m->tiles[t->tile], t->parts);
        printf(", %.1f us for %.1f", 1e-3 * t->ns, 1e-3 * expected(m, t));
        for (int i = g->first; i < g->first + g->n; i++)
            if (f->rows[i].ns <= g->best) {
                printf("; the best");
                print_tile(&m->tiles[f->rows[i].tile], f->rows[i].parts);
                printf(", %.1f for %.1f", 1e-3 * f->rows[i].ns, 1e-3 * expected(m, &f->rows[i]));
                break;
            }
        printf("\n");
    }
}

// ---- the table

static void print_number(FILE *file, double x, int digits)
{
    char text[64];
    int after = digits - 1 - (int)floor(log10(x)); // places after the point
    if (after < 0) after = 0;
    snprintf(text, sizeof text, "%.*f", after, x);
    if (strchr(text, '.'))
        while (text[strlen(text) - 1] == '0') text[strlen(text) - 1] = 0;
    if (text[strlen(text) - 1] == '.') text[strlen(text) - 1] = 0;
    fputs(text, file);
}

static void print_machine(FILE *file, GemmMachine machine)
{
    fprintf(file, "const GemmMachine gemm_machine = {\n    .tensor_flops = { [1] = ");
    print_number(file, machine.tensor_flops[1], 5);
    fprintf(file, ", [2] = ");
    print_number(file, machine.tensor_flops[2], 5);
    fprintf(file, ", [4] = ");
    print_number(file, machine.tensor_flops[2] / 2, 5);
    fprintf(file, " },\n    .flops_f32 = ");
    print_number(file, machine.flops_f32, 4);
    fprintf(file, ",\n    .flops_f64 = ");
    print_number(file, machine.flops_f64, 4);
    fprintf(file, ", // a guess, half of f32's\n");
    for (int i = FIRST_OF_ALL; i < COUNT(figures); i++) {
        fprintf(file, "    %s = ", figures[i].name);
        print_number(file, *figure(&machine, i), 4);
        fprintf(file, ",\n");
    }
    fprintf(file, "};\n");
}

// Shapes for which the model misses the best; ascending, as the groups are.
static int print_known(FILE *file, const Fit *f, const Model *m, const int *places)
{
    int n = 0;
    for (int i = 0; i < f->n_groups; i++) {
        const Group *const g = &f->groups[i];
        if (f->rows[chosen(f, m, g)].ns <= MISSED * g->best) continue;
        int best = g->first;
        while (f->rows[best].ns > g->best) best++;
        const GemmTime *const t = &f->rows[best];
        fprintf(file, "    { %d, %d, %d, %d, %d, %d },\n", kiln_type_bits(t->shape.type) / 8, (int)t->shape.m,
                (int)t->shape.n, (int)t->shape.k, places[t->tile], t->parts);
        n++;
    }
    if (n == 0) fprintf(file, "    { 0, 0, 0, 0, 0, 0 },\n");
    return n;
}

static int write_table(const char *path, const char *about, const Fit *f, const Model *m, const bool *kept)
{
    FILE *const file = fopen(path, "w");
    static const char *const forms[] = { "GEMM_PLAIN", "GEMM_TURNED", "GEMM_TWIN" };
    int places[GEMM_TILES_MAX], n = 0;
    if (!file) return fail_usage("cannot write %s: %s", path, strerror(errno));
    fprintf(file,
            "// SPDX-License-Identifier: MIT\n"
            "// gemm_costs.c - the figures of the model of cost of gemm_tiles.c, and its tiles.\n//\n"
            "// Written by `kiln tune --gemm-table`; not meant to be edited.\n// %s\n"
            "#include \"ops/gemm_tiles.h\"\n\n#include \"base/arena.h\"\n\n// clang-format off\n",
            about);
    print_machine(file, m->machine);
    fprintf(file, "\nconst GemmTile gemm_tiles[] = {\n");
    for (int i = 0; i < f->times->n_tiles; i++) {
        const GemmTile *const t = &m->tiles[i];
        if (!kept[i]) continue;
        places[i] = n++;
        fprintf(file, "    { %d, %d, %d, %d, %s, %.3f },\n", t->rows, t->columns, t->steps, t->stages, forms[t->form],
                t->factor);
    }
    fprintf(file, "};\n// clang-format on\nconst int gemm_n_tiles = COUNT(gemm_tiles);\n\n// clang-format off\n"
                  "const GemmKnown gemm_known[] = {\n");
    const int n_known = print_known(file, f, m, places);
    fprintf(file, "};\n// clang-format on\nconst int gemm_n_known = COUNT(gemm_known);\n");
    if ((ferror(file) | fclose(file)) != 0) return fail_usage("cannot write all of %s: %s", path, strerror(errno));
    printf("written: %s, %d tiles, %d shapes of their own\n", path, n, n_known);
    return EXIT_OK;
}

// ---- the whole

// Tiles that are near the best of more than one shape.
static int keep_tiles(const Fit *all, bool *kept)
{
    int uses[GEMM_TILES_MAX] = { 0 }, n = 0;
    for (int i = 0; i < all->n_groups; i++) {
        bool used[GEMM_TILES_MAX] = { false };
        for (int j = all->groups[i].first; j < all->groups[i].first + all->groups[i].n; j++)
            used[all->rows[j].tile] |= all->rows[j].ns <= USED * all->groups[i].best;
        for (int j = 0; j < GEMM_TILES_MAX; j++) uses[j] += used[j];
    }
    for (int i = 0; i < GEMM_TILES_MAX; i++) n += kept[i] = uses[i] >= USED_SHAPES;
    return n;
}

// Of the tiles that are in the table.
static void known_tiles(const GemmTimes *times, bool *kept)
{
    for (int i = 0; i < times->n_tiles; i++) kept[i] = i < gemm_n_tiles;
}

int gemm_fit(Arena *arena, GemmTimes *times, int64_t steps, const char *device, const char *output)
{
    bool kept[GEMM_TILES_MAX] = { false }, known[GEMM_TILES_MAX] = { false };
    Fit all, some, others, others_known;
    Model start = { .machine = gemm_machine };
    memcpy(start.tiles, times->tiles, sizeof start.tiles);
    group_rows(arena, &all, times, NULL, -1);
    const int n = keep_tiles(&all, kept);
    known_tiles(times, known);
    group_rows(arena, &all, times, kept, -1);
    group_rows(arena, &some, times, kept, 1);
    group_rows(arena, &others, times, kept, 0);
    group_rows(arena, &others_known, times, known, 0);
    if (some.n_groups < 3 || others.n_groups < 2)
        return fail_usage("--gemm-table: %d shapes are too few to fit", all.n_groups);
    const Model found = fitted(&some, &start, steps);
    const Worth before = report("as it is, others", &others_known, &start);
    report("fitted", &some, &found);
    const Worth now = report("fitted, others", &others, &found);
    report_worst(&others, &found);
    printf("%d of %d tiles are near the best of some shapes\n", n, times->n_tiles);
    if (!output) return EXIT_OK;
    if (before.n && now.ns >= before.ns) return printf("not better: %s stays\n", output), EXIT_OK;
    const char *const about =
        arena_printf(arena, "%s: %d times of %d shapes; of %d others the choices take %.3f of the best measured.",
                     device, all.n, all.n_groups, now.n, now.lost);
    return write_table(output, about, &all, &found, kept);
}
