// SPDX-License-Identifier: MIT
// cliffs_report.c - what the code of a variant has otherwise than the original's, and the tables of `kiln bench --cliffs`.
#include "cliffs.h"
#include "base/table.h"

#include <stdlib.h>

// ---- kernels, with the steps of operators

static int steps_of(const kiln_kernel *kernel) { return kernel->steps ? kernel->steps->n_steps : 1; }

static const kiln_kernel *step_of(const kiln_kernel *kernel, int i)
{
    return kernel->steps ? kernel->steps->steps[i].kernel : kernel;
}

static size_t name_length(const char *text)
{
    return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
}

// Names of variables begin with v_; each stands for the same one everywhere.
static bool is_same_but_names(Arena *arena, const char *a, const char *b)
{
    Table names = { .arena = arena }, back = { .arena = arena };
    while (*a && *b) {
        if (strncmp(a, "v_", 2) != 0 || strncmp(b, "v_", 2) != 0) {
            if (*a++ != *b++) return false;
            continue;
        }
        const size_t n = name_length(a), m = name_length(b);
        const char *const x = intern(arena, a, n), *const y = intern(arena, b, m);
        void **const to = table_at(&names, x);
        if (!*to) *to = (void *)y;
        if (*to != y) return false;
        void **const from = table_at(&back, y);
        if (!*from) *from = (void *)x;
        if (*from != x) return false;
        a += n;
        b += m;
    }
    return *a == *b;
}

bool has_same_source(Arena *arena, const kiln_kernel *a, const kiln_kernel *b)
{
    if (steps_of(a) != steps_of(b)) return false;
    for (int i = 0; i < steps_of(a); i++) {
        const ArenaMark mark = arena_mark(arena);
        const bool same = is_same_but_names(arena, step_of(a, i)->source, step_of(b, i)->source);
        arena_rewind(arena, mark);
        if (!same) return false;
    }
    return true;
}

// ---- what explain says

// What is counted of an explanation's lines. `good`: fewer are worse; else more are.
static const struct {
    const char *words, *name;
    bool good;
} counted[] = {
    { "by wgmma", "wgmma", true },
    { "by mma", "mma", true },
    { "by a loop nest", "products by a loop nest", false },
    { "by multiply-adds", "products by multiply-adds", false },
    { "fetched ahead", "tiles fetched ahead", true },
    { "ahead by", "copied ahead", true },
    { "by the threads", "copies by threads", false },
    { "conversion", "conversions", false },
};

static int count_words(const kiln_kernel *kernel, const char *words)
{
    int n = 0;
    for (int i = 0; i < steps_of(kernel); i++)
        for (const char *at = step_of(kernel, i)->explanation; at && (at = strstr(at, words)) != NULL; at++) n++;
    return n;
}

static int most_registers(const kiln_kernel *kernel)
{
    int most = 0;
    for (int i = 0; i < steps_of(kernel); i++)
        if (step_of(kernel, i)->report.registers > most) most = step_of(kernel, i)->report.registers;
    return most;
}

static int sum_of(const kiln_kernel *kernel, bool shared)
{
    int sum = 0;
    for (int i = 0; i < steps_of(kernel); i++) {
        const kiln_kernel *const k = step_of(kernel, i);
        sum += shared ? k->plan->dynamic_shared_bytes : k->report.spill_bytes + k->report.stack_bytes;
    }
    return sum;
}

static void say_change(Text *out, const char *name, int before, int after)
{
    if (before != after) text_print(out, "%s%s %d -> %d", out->length ? ", " : "", name, before, after);
}

const char *compare_code(Arena *arena, const Variant *original, const Variant *variant)
{
    Text out = { .arena = arena };
    const kiln_kernel *const a = original->build.kernel, *const b = variant->build.kernel;
    if (!a || !b) return "";
    for (int i = 0; i < COUNT(counted); i++) {
        const int before = count_words(a, counted[i].words), after = count_words(b, counted[i].words);
        if (counted[i].good ? after < before : after > before) say_change(&out, counted[i].name, before, after);
    }
    if (most_registers(b) > most_registers(a)) say_change(&out, "registers", most_registers(a), most_registers(b));
    if (sum_of(b, true) > sum_of(a, true)) say_change(&out, "shared bytes", sum_of(a, true), sum_of(b, true));
    if (sum_of(b, false) > sum_of(a, false)) say_change(&out, "spilled bytes", sum_of(a, false), sum_of(b, false));
    return text_cstr(&out);
}

// ---- line by line

// A line without its numbers of lines and addresses, which every rewriting moves.
static const char *plain_line(Arena *arena, const char *line, size_t n)
{
    Text out = { .arena = arena };
    for (size_t i = 0; i < n;) {
        const bool place = strncmp(line + i, " at ", 4) == 0 || strncmp(line + i, "line ", 5) == 0 ||
                           strncmp(line + i, "from ", 5) == 0;
        const size_t word = place ? strcspn(line + i + 1, " ") + 2 : 1;
        text_add(&out, line + i, word);
        i += word;
        if (place) i += strspn(line + i, "0123456789");
    }
    return text_cstr(&out);
}

static bool has_line(Arena *arena, const char *text, const char *wanted)
{
    while (text && *text) {
        const size_t n = strcspn(text, "\n");
        const ArenaMark mark = arena_mark(arena);
        const bool same = strcmp(plain_line(arena, text, n), wanted) == 0;
        arena_rewind(arena, mark);
        if (same) return true;
        text += n + (text[n] == '\n');
    }
    return false;
}

static void print_missing(Arena *arena, const char *text, const char *other, char sign)
{
    while (text && *text) {
        const size_t n = strcspn(text, "\n");
        const char *const line = plain_line(arena, text, n);
        if (!has_line(arena, other, line)) printf("    %c %.*s\n", sign, (int)n, text);
        text += n + (text[n] == '\n');
    }
}

// Line by line.
static void print_code_difference(Arena *arena, const Variant *original, const Variant *variant)
{
    const kiln_kernel *const a = original->build.kernel, *const b = variant->build.kernel;
    for (int i = 0; a && b && i < steps_of(a) && i < steps_of(b); i++) {
        print_missing(arena, step_of(a, i)->explanation, step_of(b, i)->explanation, '-');
        print_missing(arena, step_of(b, i)->explanation, step_of(a, i)->explanation, '+');
    }
}

// ---- tables

static double ratio_of(const Variant *v)
{
    return v->same_code ? 1 : v->original_seconds > 0 ? v->seconds / v->original_seconds : 0;
}

static int by_ratio(const void *a, const void *b)
{
    const double x = ratio_of(*(const Variant *const *)a), y = ratio_of(*(const Variant *const *)b);
    return x < y ? 1 : x > y ? -1 : 0;
}

typedef struct Tally {
    int variants, same, refused, wrong, slow, worse;
} Tally;

static void count_variant(Arena *arena, const Variant *o, const Variant *v, Tally *t)
{
    t->variants++;
    t->same += v->same_code;
    t->refused += v->build.status != KILN_OK;
    t->wrong += v->wrong != NULL;
    t->slow += ratio_of(v) > 1.5;
    t->worse += compare_code(arena, o, v)[0] != 0;
}

static void print_variant(Arena *arena, const CliffOptions *options, const Variant *o, const Variant *v)
{
    const char *const code = compare_code(arena, o, v);
    const bool timed = v->original_seconds > 0;
    if (v->wrong) printf("WRONG   ");
    else if (v->build.status) printf("refused ");
    else if (timed && v->original_seconds > 0) printf("%7.2f ", ratio_of(v));
    else if (!code[0]) return; // nothing to say
    else printf("        ");
    printf("%-12s %-13s %s", v->row->name, v->name, v->what);
    if (timed) printf("  (%.1f us, original %.1f)", 1e6 * v->seconds, 1e6 * v->original_seconds);
    printf("%s%s\n", code[0] ? "\n            " : "", code);
    if (v->wrong) printf("            %s\n", v->wrong);
    else if (v->build.status) printf("            %.300s\n", v->build.message ? v->build.message : "out of memory");
    if (options->verbose && !v->build.status) print_code_difference(arena, o, v);
}

static double median_of(const Variant *const *sorted, int n)
{
    int known = 0;
    while (known < n && ratio_of(sorted[known]) > 0) known++;
    return known ? ratio_of(sorted[known / 2]) : 0;
}

// Of the variants of one row, or of all: sorted by ratio, the slowest first.
static const Variant **sorted_variants(Arena *arena, const Variants *all, int original, int *n)
{
    const Variant **const sorted = NEW_ARRAY(arena, const Variant *, all->count + 1);
    *n = 0;
    for (int i = 0; i < all->count; i++)
        if (all->items[i].original != i && (original < 0 || all->items[i].original == original))
            sorted[(*n)++] = &all->items[i];
    qsort(sorted, (size_t)*n, sizeof *sorted, by_ratio);
    return sorted;
}

static void print_row(Arena *arena, const Variants *all, int original)
{
    int n;
    Tally t = { 0 };
    const Variant **const sorted = sorted_variants(arena, all, original, &n), *const o = &all->items[original];
    for (int i = 0; i < n; i++) count_variant(arena, o, sorted[i], &t);
    printf("| %s | %d | %d | %d | %d | %d |", o->row->name, t.variants, t.same, t.worse, t.refused, t.wrong);
    if (o->seconds > 0 && n)
        printf(" %.1f | %.2f | %.2f | %s: %s |", 1e6 * o->seconds, median_of(sorted, n), ratio_of(sorted[0]),
               sorted[0]->name, sorted[0]->what);
    printf("\n");
}

static bool has_problem(const Variant *o) { return o->wrong || o->build.status; }

static bool print_original(const Variant *o)
{
    const char *const problem = o->wrong ? o->wrong : o->build.status ? o->build.message : NULL;
    if (problem) printf("WRONG   %-12s the original: %s\n", o->row->name, problem);
    return problem == NULL;
}

void report_row(Arena *arena, const CliffOptions *options, const Variants *variants, int original)
{
    int n;
    const Variant **const sorted = sorted_variants(arena, variants, original, &n);
    if (!print_original(&variants->items[original])) return;
    for (int i = 0; i < n; i++) print_variant(arena, options, &variants->items[original], sorted[i]);
    fflush(stdout);
}

int report_variants(Arena *arena, const CliffOptions *options, Variants *variants)
{
    Tally t = { 0 };
    int n, failed = 0;
    const Variant **const sorted = sorted_variants(arena, variants, -1, &n);
    const bool timed = !options->check_only && !options->compile_only;
    for (int i = 0; i < variants->count; i++) {
        if (variants->items[i].original != i) continue;
        if (!timed) report_row(arena, options, variants, i);
        failed += has_problem(&variants->items[i]);
    }
    for (int i = 0; i < n; i++) count_variant(arena, &variants->items[sorted[i]->original], sorted[i], &t);
    printf(
        "\n| kernel | variants | same code | worse code | refused | wrong |%s\n| --- | --- | --- | --- | --- | --- |%s\n",
        timed ? " us | median | worst | which |" : "", timed ? " --- | --- | --- | --- |" : "");
    for (int i = 0; i < variants->count; i++)
        if (variants->items[i].original == i) print_row(arena, variants, i);
    if (timed && n)
        printf("\nmedian %.3f, worst %.2f, above 1.5: %d\n", median_of(sorted, n), ratio_of(sorted[0]), t.slow);
    printf("\n%d passed, %d failed, 0 skipped\n", n - t.wrong, t.wrong + failed);
    return t.wrong || failed ? EXIT_FAILED : EXIT_OK;
}
