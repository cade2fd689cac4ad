// SPDX-License-Identifier: MIT
// cliffs.c - `kiln bench --cliffs`: kernels rewritten without a change of meaning, and what that costs.
//
// Every variant is a whole source: the kernel's file with one rewriting done at one place, and a check of its own at the end,
// so that it can be kept, tested and explained like any other. Builds run on all processors. A variant is compared with the
// reference on a small case, then with the original's results at the size that is timed, and timed in turns with the
// original. Where both are the same code nothing is run.
#include "cliffs.h"
#include "base/memory.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Cliffs {
    Arena *arena;
    CliffOptions *options;
    CaseOptions cases;
    Machine machine;
    bool is_cpu;
    Variants variants;
    _Atomic int done;
    double began;
} Cliffs;

// ---- sources

static char *read_file(Arena *arena, const char *path)
{
    size_t n = 0;
    char *const bytes = file_read(path, &n);
    char *const text = bytes ? arena_copy_text(arena, bytes, n) : NULL;
    memory_free(bytes);
    return text;
}

static const char *check_of(Arena *arena, const CliffRow *row, const char *build, const char *inputs)
{
    return arena_printf(arena, "\n// Timed with: %s\ncheck %s<%s>(%s) {\n%s\n%s\n}\n", row->large, row->run, build,
                        row->small, row->inputs, inputs);
}

static const char *kernel_of(const Cliffs *c, const CliffRow *row)
{
    return c->is_cpu && row->cpu_kernel ? row->cpu_kernel : row->kernel;
}

static const char *path_of(const Cliffs *c, const CliffRow *row)
{
    return arena_printf(c->arena, "%s/%s", c->options->kernels, row->file);
}

static bool is_wanted(const CliffOptions *o, const CliffRow *row, const char *rewriting)
{
    bool any = o->n_args == 0;
    for (int i = 0; i < o->n_args; i++) any |= strstr(row->name, o->args[i]) != NULL;
    return any && (!o->only || !rewriting || strstr(rewriting, o->only));
}

static void add_variant(Cliffs *c, const CliffRow *row, int original, const char *name, const char *what,
                        const char *text)
{
    for (int i = original; i < c->variants.count; i++)
        if (strcmp(c->variants.items[i].text, text) == 0) return;
    const Variant v = { .row = row, .original = original, .name = name, .what = what, .text = text };
    VEC_PUSH(c->arena, &c->variants, v);
}

static bool open_rewriter(const Cliffs *c, const CliffRow *row, kiln_program *program, Rewriter *w)
{
    Binding *build = NULL;
    *w = (Rewriter){
        .arena = c->arena, .program = program->program, .is_cpu = c->is_cpu, .arch = (int)c->options->arch
    };
    w->decl = program_find(program->program, DECL_KERNEL, kernel_of(c, row));
    if (!w->decl || bindings_parse(c->arena, program, w->decl->name, row->constants ? row->constants : row->build,
                                   &build, &w->n_build))
        return false;
    w->build = build;
    return true;
}

// One rewriting more, drawn by the seed: the first that fits.
static const char *rewrite_again(Cliffs *c, const CliffRow *row, const char *text, uint64_t seed, const char **name,
                                 const char **what)
{
    int n, places;
    Rewriter w;
    kiln_program *program = NULL;
    const char *again = NULL;
    const Rewriting *const all = rewritings(&n);
    if (kiln_program_load_text(path_of(c, row), text, &program)) return text;
    for (int i = 0; i < n && !again && open_rewriter(c, row, program, &w); i++) {
        const Rewriting *const one = &all[(seed * 2654435761u + (uint64_t)i) % (uint64_t)n];
        again = rewrite_source(&w, one, seed, 0, &places);
        if (!again) continue;
        *name = arena_printf(c->arena, "%s+%s", *name, one->name);
        *what = arena_printf(c->arena, "%s; %s", *what, w.what);
    }
    kiln_program_free(program);
    return again ? again : text;
}

static void add_rewritten(Cliffs *c, const CliffRow *row, int original, kiln_program *program)
{
    int n, places;
    Rewriter w;
    const Rewriting *const all = rewritings(&n);
    const uint64_t seed = (uint64_t)c->options->seed;
    if (!open_rewriter(c, row, program, &w)) return;
    for (int r = 0; r < n; r++) {
        if (!is_wanted(c->options, row, all[r].name)) continue;
        for (int i = 0; i < c->options->sites; i++) {
            const char *text = rewrite_source(&w, &all[r], seed, i, &places), *name = all[r].name, *what = w.what;
            if (!text || i >= places) break;
            for (int more = 1; more < c->options->depth; more++)
                text = rewrite_again(c, row, text, seed + (uint64_t)(1000 * r + 10 * i + more), &name, &what);
            add_variant(c, row, original, name, what, text);
        }
    }
}

// ---- what no text of the kernel says: strides, and other tiles

static bool occurs(const char *text, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = text; (at = strstr(at, name)) != NULL; at += n) {
        const bool begins = at == text || !(at[-1] == '_' || (at[-1] | 32) >= 'a');
        if (begins && !(at[n] == '_' || (at[n] | 32) >= 'a' || (at[n] >= '0' && at[n] <= '9'))) return true;
    }
    return false;
}

// A size of tiles is in no shape and in no reference: the meaning does not depend on it.
static bool is_tile_size(Arena *arena, const Program *program, const Decl *decl, const BuildParam *param)
{
    const DeclKind specifications[] = { DECL_REFERENCE, DECL_VERIFY };
    if (param->kind != BUILD_INT) return false;
    for (const Param *p = decl->params; p; p = p->next)
        for (const Ex *e = p->extents; e; e = e->next)
            if (uses_in(e, param->name)) return false;
    for (int i = 0; i < COUNT(specifications); i++) {
        const Decl *const d = program_find(program, specifications[i], decl->name);
        const Source *const s = d ? d->span.source : NULL;
        if (s &&
            occurs(arena_copy_text(arena, s->text + d->span.begin, (size_t)(d->span.end - d->span.begin)), param->name))
            return false;
    }
    return true;
}

// Those that the kernel offers, of which `kiln tune` takes the fastest: int BM = {128, 64, 256}. What a check sets besides is there
// for small cases.
static void add_values(Cliffs *c, const CliffRow *row, int original, const BuildParam *param, const char *source)
{
    if (!param->range || occurs(row->build, param->name)) return;
    for (const Ex *e = param->range; e; e = e->next) {
        if (e->kind != EX_INT) continue;
        const char *const what = arena_printf(c->arena, "%s=%lld", param->name, (long long)e->integer.value);
        const char *const build = arena_printf(c->arena, "%s, %s", row->build, what);
        add_variant(c, row, original, "tiles", what,
                    arena_printf(c->arena, "%s%s", source, check_of(c->arena, row, build, "")));
    }
}

static void add_tiles(Cliffs *c, const CliffRow *row, int original, kiln_program *program, const char *source)
{
    const Decl *decl = program_find(program->program, DECL_KERNEL, row->run);
    if (!decl) decl = program_find(program->program, DECL_OPERATOR, row->run);
    for (const BuildParam *p = decl ? decl->build : NULL; p; p = p->next)
        if (is_tile_size(c->arena, program->program, decl, p)) add_values(c, row, original, p, source);
}

static void add_strided(Cliffs *c, const CliffRow *row, int original, kiln_program *program, const char *source)
{
    Text names = { .arena = c->arena };
    const Decl *decl = program_find(program->program, DECL_KERNEL, row->run);
    if (!decl) decl = program_find(program->program, DECL_OPERATOR, row->run);
    for (const Param *p = decl ? decl->params : NULL; p; p = p->next)
        if (p->extents && p->extents->next && !p->strided &&
            !strstr(row->inputs, arena_printf(c->arena, "%s = none", p->name)) && !p->optional)
            text_print(&names, "%s%s", names.length ? ", " : "", p->name);
    if (!names.length) return;
    const char *const input = arena_printf(c->arena, "input %s = strided;", text_cstr(&names));
    const char *const text = arena_printf(c->arena, "%s%s", source, check_of(c->arena, row, row->build, input));
    add_variant(c, row, original, "strided", text_cstr(&names), text);
    add_variant(c, row, original, "strided-tight", text_cstr(&names),
                arena_printf(c->arena, "// The same with rows side by side.\n%s", text));
}

static int add_row(Cliffs *c, const CliffRow *row)
{
    const int original = c->variants.count;
    const char *const path = path_of(c, row), *const source = read_file(c->arena, path);
    kiln_program *program = NULL;
    if (!source) return fail_usage("cannot read %s", path);
    const char *const text = arena_printf(c->arena, "%s%s", source, check_of(c->arena, row, row->build, ""));
    if (kiln_program_load_text(path, text, &program)) return fail_status(row->name);
    add_variant(c, row, original, "original", "", text);
    add_rewritten(c, row, original, program);
    if (is_wanted(c->options, row, "strided")) add_strided(c, row, original, program, source);
    if (is_wanted(c->options, row, "tiles")) add_tiles(c, row, original, program, source);
    kiln_program_free(program);
    return -1;
}

// So many of them, drawn by the seed, beside the originals that they need.
static void keep_few(Cliffs *c)
{
    uint64_t x = (uint64_t)c->options->seed * 0x9e3779b97f4a7c15u + 1;
    VEC(int) drawn = { 0 };
    for (int i = 0; i < c->variants.count; i++)
        if (c->variants.items[i].original != i) VEC_PUSH(c->arena, &drawn, i);
    for (int i = drawn.count - 1; i > 0; i--) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        const int k = (int)((x >> 33) % (uint64_t)(i + 1)), other = drawn.items[k];
        drawn.items[k] = drawn.items[i];
        drawn.items[i] = other;
    }
    bool *const keep = NEW_ARRAY(c->arena, bool, c->variants.count);
    for (int i = 0; i < drawn.count && i < c->options->few; i++)
        keep[drawn.items[i]] = keep[c->variants.items[drawn.items[i]].original] = true;
    int *const moved = NEW_ARRAY(c->arena, int, c->variants.count), n = c->variants.count;
    c->variants.count = 0;
    for (int i = 0; i < n; i++) {
        if (!keep[i]) continue;
        moved[i] = c->variants.count;
        c->variants.items[c->variants.count] = c->variants.items[i];
        c->variants.items[c->variants.count++].original = moved[c->variants.items[i].original];
    }
}

static int make_variants(Cliffs *c)
{
    int n, before = 0;
    const CliffRow *const rows = cliff_rows(&n);
    for (int i = 0; i < n; i++) {
        if (!is_wanted(c->options, &rows[i], NULL)) continue;
        const int end = add_row(c, &rows[i]);
        if (end >= 0) return end;
        before++;
    }
    if (!before) return fail_usage("no kernel's name contains '%s'", c->options->args[0]);
    if (c->options->few) keep_few(c);
    return -1;
}

static bool keep_source(const Cliffs *c, int i, const char *why)
{
    const Variant *const v = &c->variants.items[i];
    const char *const path = arena_printf(c->arena, "%s/%s-%s-%d.tile", c->options->keep, v->row->name, v->name, i);
    const char *const text = arena_printf(c->arena, "// %s, %s: %s\n%s", v->name, v->what, why, v->text);
    return file_write(path, text, strlen(text));
}

// ---- building

static const char *first_line(Arena *arena, const char *text)
{
    return arena_copy_text(arena, text, strcspn(text, "\n"));
}

static bool choose_cases(Cliffs *c, Variant *v)
{
    Binding *values;
    int n;
    pthread_mutex_lock(&v->program->lock);
    v->program->program->diags = diags_new(v->program->program->arena);
    const CheckCases *const all = check_cases(v->program->program, v->row->run);
    if (v->program->program->diags->errors) program_fail(v->program->program->diags);
    pthread_mutex_unlock(&v->program->lock);
    const Decl *last = NULL;
    for (const Decl *d = v->program->program->modules[0]->decls; d; d = d->next)
        if (d->kind == DECL_CHECK) last = d;
    for (int i = 0; all && i < all->count; i++)
        if (all->items[i].decl == last) v->small = &all->items[i];
    if (!v->small || bindings_parse(c->arena, v->program, v->row->run, v->row->large, &values, &n)) return false;
    v->large = case_with_values(c->arena, v->program, v->row->run, v->small, values, n);
    return true;
}

// The arena is of one thread: sources are read one after another, and translated, which takes a few milliseconds.
static void read_variant(Cliffs *c, Variant *v)
{
    if (kiln_program_load_text(path_of(c, v->row), v->text, &v->program) || !choose_cases(c, v)) {
        v->build.status = KILN_BAD_SOURCE;
        v->build.message = memory_copy_text(first_line(c->arena, kiln_error_message()));
        return;
    }
    v->build = (CaseBuild){
        .program = v->program, .name = v->row->run, .bindings = v->small->build, .n_bindings = v->small->n_build
    };
    const Program *const p = v->program->program;
    const bool compares = !c->options->compile_only && &c->variants.items[v->original] == v;
    v->build.has_reference = compares && program_find(p, DECL_REFERENCE, v->row->run);
    v->build.has_verify = compares && program_find(p, DECL_VERIFY, v->row->run);
}

static void translate_one(void *context, int i)
{
    Cliffs *const c = context;
    Variant *const v = &c->variants.items[i];
    if (v->build.status) return;
    BuildRequest request = { .device = c->cases.device,
                             .program = v->program,
                             .name = v->row->run,
                             .bindings = v->build.bindings,
                             .n_bindings = v->build.n_bindings };
    v->build.status = target_choose(c->cases.device, &c->cases.build, &request.target);
    if (!v->build.status) v->build.status = kernel_translate(&request, &v->plain);
    if (v->build.status) v->build.message = memory_copy_text(kiln_error_message());
}

static void build_one(void *context, int i)
{
    Cliffs *const c = context;
    Variant *const v = &c->variants.items[i];
    progress("building %d of %d", ++c->done, c->variants.count);
    if (!v->build.status && !v->same_code) case_build(&v->build, &c->cases);
}

// References are the original's: no rewriting touches them.
static void lend_references(Cliffs *c, bool lend)
{
    for (int i = 0; i < c->variants.count; i++) {
        Variant *const v = &c->variants.items[i];
        if (v->original == i) continue;
        v->build.reference = lend ? c->variants.items[v->original].build.reference : NULL;
        v->build.verify = lend ? c->variants.items[v->original].build.verify : NULL;
    }
}

static void build_all(Cliffs *c)
{
    for (int i = 0; i < c->variants.count; i++) read_variant(c, &c->variants.items[i]);
    in_parallel(c->variants.count, translate_one, c);
    for (int i = 0; i < c->variants.count; i++) {
        Variant *const v = &c->variants.items[i];
        const Variant *const original = &c->variants.items[v->original];
        v->same_code =
            v != original && v->plain && original->plain && has_same_source(c->arena, v->plain, original->plain);
    }
    in_parallel(c->variants.count, build_one, c);
    lend_references(c, true);
    progress_end();
}

// ---- checking

static bool is_strided(const Variant *v) { return strncmp(v->name, "strided", 7) == 0; }

static CaseOptions options_of(const Cliffs *c, const Variant *v)
{
    CaseOptions options = c->cases;
    options.tight = strcmp(v->name, "strided-tight") == 0;
    return options;
}

static void check_variant(Cliffs *c, Variant *v)
{
    const CaseOptions options = options_of(c, v);
    static Case one;
    if (v->build.status || v->same_code) return;
    progress("checking %s: %s", v->row->name, v->name);
    const bool ran = case_open(&one, &v->build, v->small, &options) && case_run(&one);
    if (!ran && strcmp(v->name, "tiles") == 0) { // these shapes are none for these tiles
        v->build.status = KILN_BAD_SHAPE;
        v->build.message = memory_copy_text(one.problem);
    } else if (!ran || !case_check(&one)) {
        v->wrong = arena_printf(c->arena, "%s", one.problem);
    }
    case_close(&one);
}

// ---- timing

enum { RUNS = 12, TURNS = 2, COMPARED_MAX = 2000000 };

static bool launch(void *context) { return case_launch(context, NULL); }

// Runs once and brings what is written back, and nothing else: inputs are large.
static bool run_large(Cliffs *c, Case *large)
{
    if (!case_launch(large, NULL)) return false;
    for (int i = 0; i < large->build->kernel->plan->n_params; i++) {
        CaseTensor *const t = &large->inputs[i];
        if (!large->expected[i].block || c->is_cpu) continue;
        if (kiln_download(c->cases.device, t->host.data, t->device.data, t->bytes)) {
            snprintf(large->problem, sizeof large->problem, "%s", kiln_error_message());
            return false;
        }
    }
    return kiln_stream_wait(c->cases.device, NULL) == KILN_OK;
}

// The first two million elements, by whole rows of the first dimension: enough to see that something is wrong.
static kiln_tensor first_part(const kiln_tensor *t)
{
    kiln_tensor part = *t;
    const int64_t elements = tensor_elements(t);
    if (elements > COMPARED_MAX && part.shape[0] > 1) {
        part.shape[0] = part.shape[0] * COMPARED_MAX / elements;
        if (part.shape[0] < 1) part.shape[0] = 1;
    }
    return part;
}

// The results at the size that is timed are the original's, within the check's tolerance.
static bool compare_large(Cliffs *c, Case *large, const Case *original, Variant *v, bool apart)
{
    const LaunchPlan *const plan = v->build.kernel->plan;
    if (!(apart ? case_run(large) : run_large(c, large)))
        return v->wrong = arena_printf(c->arena, "%s", large->problem), false;
    for (int i = 0; i < plan->n_params; i++) {
        if (!original->expected[i].block) continue;
        const CaseTolerance t = tolerance_for(v->large, i, plan->params[i].type);
        const kiln_tensor got = first_part(&large->inputs[i].host), expected = first_part(&original->expected[i].host);
        char problem[512];
        if (compare_tensors(plan->params[i].name, &got, &expected, &t, problem, sizeof problem)) continue;
        v->wrong = arena_printf(c->arena, "at the size that is timed: %s", problem);
        return false;
    }
    return true;
}

static void time_variant(Cliffs *c, Case *original, Variant *v, bool is_original)
{
    static Case own;
    static Times times[2], warm_up;
    Case *large = &own;
    // Tensors are the original's but where they lie apart.
    const bool apart = !is_original && is_strided(v);
    const CaseOptions options = options_of(c, v);
    static CheckCase same; // inputs are made by the case's label
    same = *v->large;
    same.label = original->check->label;
    if (apart && !case_open(&own, &v->build, &same, &options)) {
        v->wrong = arena_printf(c->arena, "%s", own.problem);
        return;
    }
    if (!apart) {
        own = *original;
        own.build = &v->build;
    }
    times[0].n = times[1].n = warm_up.n = 0;
    bool ok = compare_large(c, large, original, v, apart) && machine_time(&c->machine, launch, large, 2, 0, &warm_up);
    for (int i = 0; ok && i < TURNS; i++)
        ok = machine_time(&c->machine, launch, original, RUNS, 0, &times[0]) &&
             machine_time(&c->machine, launch, large, RUNS, 0, &times[1]);
    if (ok) {
        v->original_seconds = c->is_cpu ? times_spread(&times[0]).fastest : times_spread(&times[0]).median;
        v->seconds = c->is_cpu ? times_spread(&times[1]).fastest : times_spread(&times[1]).median;
    } else if (!v->wrong) {
        v->wrong = arena_printf(c->arena, "%s", kiln_error_message());
    }
    if (apart) case_close(&own);
}

static void time_row(Cliffs *c, int first)
{
    static Case original;
    Variant *const o = &c->variants.items[first];
    if (o->build.status || o->wrong) return;
    bool ok = case_open(&original, &o->build, o->large, &c->cases) && case_run(&original);
    for (int i = 0; ok && i < o->build.kernel->plan->n_params; i++)
        if (original.expected[i].block)
            memcpy(original.expected[i].host.data, original.inputs[i].host.data, original.inputs[i].bytes);
    if (!ok) o->wrong = arena_printf(c->arena, "%s", original.problem);
    for (int i = first; ok && i < c->variants.count && c->variants.items[i].original == first; i++) {
        Variant *const v = &c->variants.items[i];
        progress("timing %s: %s", v->row->name, v->name);
        if (c->options->verbose)
            fprintf(stderr, "%.1f s: %s, %s %s\n", seconds_now() - c->began, v->row->name, v->name, v->what);
        if (!v->build.status && !v->wrong && !v->same_code) time_variant(c, &original, v, i == first);
    }
    case_close(&original);
    progress_end();
    report_row(c->arena, c->options, &c->variants, first);
}

// ---- the command

static void close_all(Cliffs *c)
{
    lend_references(c, false);
    for (int i = 0; i < c->variants.count; i++) {
        Variant *const v = &c->variants.items[i];
        case_build_free(&v->build);
        kiln_kernel_free(v->plain);
        kiln_program_free(v->program);
    }
}

static void keep_sources(const Cliffs *c)
{
    mkdir(c->options->keep, 0777);
    for (int i = 0; i < c->variants.count; i++) {
        const Variant *const v = &c->variants.items[i];
        if (!keep_source(c, i,
                         v->wrong           ? v->wrong
                         : v->build.message ? first_line(c->arena, v->build.message)
                                            : "kept"))
            fprintf(stderr, "kiln: cannot write into %s\n", c->options->keep);
    }
}

static bool is_late(const Cliffs *c)
{
    return c->options->limit && seconds_now() - c->began > (double)c->options->limit;
}

// Row by row, so that what is known is said, whatever becomes of the next.
static void run_variants(Cliffs *c)
{
    for (int first = 0; first < c->variants.count; first++) {
        if (c->variants.items[first].original != first) continue;
        if (is_late(c)) {
            printf("%s and what comes after it: left out, after %lld s\n", c->variants.items[first].row->name,
                   (long long)c->options->limit);
            return;
        }
        for (int i = first; i < c->variants.count && c->variants.items[i].original == first; i++)
            check_variant(c, &c->variants.items[i]);
        if (!c->options->check_only) time_row(c, first);
    }
    progress_end();
}

static int list_rewritings(void)
{
    int n;
    const Rewriting *const all = rewritings(&n);
    for (int i = 0; i < n; i++) printf("%-15s %s\n", all[i].name, all[i].does);
    printf("%-15s %s\n", "strided", "every tensor is bound to strided, and its rows lie apart");
    printf("%-15s %s\n", "strided-tight", "the same, with rows side by side");
    printf("%-15s %s\n", "tiles", "tiles of another size, of those that checks use");
    return EXIT_OK;
}

int bench_cliffs(Arena *arena, CliffOptions *options)
{
    Cliffs c = { .arena = arena, .options = options, .began = seconds_now() };
    kiln_device *device = NULL;
    if (options->list) return list_rewritings();
    if (!options->kernels) options->kernels = kernels_folder(arena);
    if (!options->compile_only && kiln_device_open(options->device, &device)) return fail_status(NULL);
    c.is_cpu = device ? device_is_cpu(device) : !options->arch;
    if (!options->arch && !c.is_cpu) options->arch = 90;
    c.cases = (CaseOptions){ .device = device, .build = { .arch = c.is_cpu ? 0 : (int)options->arch } };
    int result = make_variants(&c);
    if (result < 0) {
        build_all(&c);
        if (device && !options->check_only && !machine_open(&c.machine, device)) result = fail_status(NULL);
        if (result < 0) {
            if (!options->compile_only) run_variants(&c);
            if (options->keep) keep_sources(&c);
            result = report_variants(arena, options, &c.variants);
        }
        if (c.machine.device) machine_close(&c.machine);
    }
    close_all(&c);
    kiln_device_close(device);
    return result;
}
