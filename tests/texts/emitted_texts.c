// SPDX-License-Identifier: MIT
// emitted_texts.c - the C and CUDA text of every kernel, of all forms, to be compared with what another build makes.
// usage: emitted_texts write FOLDER FILE|FOLDER...
//        emitted_texts compare [--names|--kernels] BEFORE AFTER
//
// `write` makes a file for each source and form. It holds, for each build of the file's checks, the hash of the launch plan
// and the text of every step, or the error. Nothing is compiled and nothing runs, so all forms can be made anywhere.
// `compare` says what differs. With --names, identifiers may have been renamed one to one within a text, and comments
// may differ; the renamed ones are listed, for people to look at. Variables of the kernel (their names begin with the
// prefix of variables) and all other names are renamed apart: a kernel's `first` is not the `first` of a prelude.
// With --kernels, what CUDA texts hold of the prelude is passed over: a change of it, or of which items a text needs,
// would hide whether kernels changed.
// scripts/compare_texts.sh does both.
#define _GNU_SOURCE // scandir, mkdir
#include "runtime/build.h"
#include "base/memory.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

typedef struct Form {
    const char *name;
    bool checked;
    Target target;
} Form;

// clang-format off
static const Form forms[] = {
    { "amx",           false, { .kind = &target_cpu, .cpu = { .isa = ISA_AVX512, .bf16 = true, .vnni = true, .amx = true } } },
    { "avx512",        false, { .kind = &target_cpu, .cpu = { .isa = ISA_AVX512 } } },
    { "avx2",          false, { .kind = &target_cpu, .cpu = { .isa = ISA_AVX2 } } },
    { "portable",      false, { .kind = &target_cpu, .cpu = { .isa = ISA_PORTABLE } } },
    { "check",         true,  { .kind = &target_cpu, .cpu = { .isa = ISA_PORTABLE } } },
    { "sm_90a",        false, { .kind = &target_cuda, .gpu = &gpu_sm_90a } },
    { "sm_80",         false, { .kind = &target_cuda, .gpu = &gpu_sm_80 } },
    { "sm_90a-check",  true,  { .kind = &target_cuda, .gpu = &gpu_sm_90a } },
};
// clang-format on

// ---- writing

static kiln_status write_step(const Compiled *compiled, void *context)
{
    Arena *const arena = arena_new();
    char hash_text[HASH_NAME] = "";
    if (arena && setjmp(arena->out_of_memory) == 0) {
        Text plan = { .arena = arena };
        plan_write(&plan, compiled->plan);
        Hash hash = hash_begin();
        hash_add(&hash, plan.data, plan.length);
        hash_name(&hash, hash_text);
    }
    arena_free(arena);
    fprintf(context, "plan %s\n%s\n", hash_text, compiled->source);
    return KILN_OK;
}

static bool same_build(const CheckCase *a, const CheckCase *b)
{
    for (int i = 0; a->n_build == b->n_build && i < a->n_build; i++)
        if (strcmp(a->build[i].name, b->build[i].name) != 0 || a->build[i].kind != b->build[i].kind ||
            a->build[i].integer != b->build[i].integer || a->build[i].type != b->build[i].type ||
            memcmp(&a->build[i].real, &b->build[i].real, sizeof a->build[i].real) != 0)
            return false;
    return a->n_build == b->n_build;
}

static bool is_first(const CheckCases *cases, int at)
{
    for (int i = 0; i < at; i++)
        if (same_build(&cases->items[i], &cases->items[at])) return false;
    return true;
}

static int write_kernel(kiln_program *program, const char *name, const char *stem)
{
    const CheckCases *const cases = check_cases(program->program, name);
    int texts = 0;
    for (int f = 0; cases && f < COUNT(forms); f++) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%s.%s", stem, forms[f].name);
        FILE *const out = fopen(path, "a");
        if (!out) {
            fprintf(stderr, "%s: %s\n", path, strerror(errno));
            exit(2);
        }
        for (int i = 0; i < cases->count; i++) {
            const CheckCase *const one = &cases->items[i];
            if (!is_first(cases, i)) continue;
            const BuildRequest request = { .program = program,
                                           .name = name,
                                           .bindings = one->build,
                                           .n_bindings = one->n_build,
                                           .checked = forms[f].checked,
                                           .target = forms[f].target };
            fprintf(out, "==== %s\n", one->label);
            if (kernel_compile(&request, NULL, NULL, write_step, out)) fprintf(out, "%s\n", kiln_error_message());
            texts++;
        }
        fclose(out);
    }
    return texts;
}

static bool is_repeated(const Decl *first, const Decl *check)
{
    for (const Decl *d = first; d != check; d = d->next)
        if (d->kind == DECL_CHECK && strcmp(d->name, check->name) == 0) return true;
    return false;
}

// kernels/gemm/gemm.tile becomes FOLDER/kernels-gemm-gemm.FORM.
static int write_file(const char *folder, const char *path)
{
    char stem[PATH_BYTES - 32];
    kiln_program *program;
    if (kiln_program_load_file(path, &program)) {
        fprintf(stderr, "%s\n", kiln_error_message());
        exit(2);
    }
    const int n = snprintf(stem, sizeof stem, "%s/%s", folder, path);
    stem[n - (int)strlen(".tile")] = 0;
    for (char *p = stem + strlen(folder) + 1; *p; p++)
        if (*p == '/') *p = '-';
    int texts = 0;
    const Decl *const first = program->program->modules[0]->decls;
    if (setjmp(program->arena->out_of_memory) != 0) {
        fprintf(stderr, "%s: out of memory\n", path);
        exit(2);
    }
    for (const Decl *d = first; d; d = d->next)
        if (d->kind == DECL_CHECK && !is_repeated(first, d)) texts += write_kernel(program, d->name, stem);
    kiln_program_free(program);
    return texts;
}

static int is_shown(const struct dirent *item) { return item->d_name[0] != '.'; }

static int write_all(const char *folder, const char *path)
{
    struct dirent **items;
    struct stat st;
    int texts = 0;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) return write_file(folder, path);
    const int n = scandir(path, &items, is_shown, alphasort);
    for (int i = 0; i < n; i++) {
        char inner[PATH_BYTES];
        snprintf(inner, sizeof inner, "%s/%s", path, items[i]->d_name);
        const size_t length = strlen(inner);
        if ((stat(inner, &st) == 0 && S_ISDIR(st.st_mode)) || (length > 5 && strcmp(inner + length - 5, ".tile") == 0))
            texts += write_all(folder, inner);
        free(items[i]);
    }
    if (n >= 0) free(items);
    return texts;
}

// ---- comparing

typedef struct Token {
    const char *at;
    size_t n;
    bool name;
} Token;

// The next token; blanks and comments are passed over, and lines are counted.
static Token next_token(const char **at, int *line)
{
    const char *p = *at;
    for (;; p++) {
        if (p[0] == '/' && p[1] == '/')
            while (p[1] && p[1] != '\n') p++;
        else if (*p == '\n') ++*line;
        else if (!isspace((unsigned char)*p)) break;
    }
    const char *end = p + (*p != 0);
    const bool name = isalpha((unsigned char)*p) || *p == '_';
    if (name || isdigit((unsigned char)*p))
        while (isalnum((unsigned char)*end) || *end == '_' || (!name && *end == '.')) end++;
    else if (*p == '"')
        for (; *end && end[-1 + (end == p)] && *end != '\n'; end++)
            if (*end == '"' && end[-1] != '\\') {
                end++;
                break;
            }
    *at = end;
    return (Token){ p, (size_t)(end - p), name };
}

// Renamings of one text, both ways.
typedef struct Renamed {
    char *before, *after;
    bool variable;
} Renamed;
typedef struct Names {
    Renamed *items;
    int n;
} Names;

static bool is(const Token *t, const char *text) { return strlen(text) == t->n && memcmp(text, t->at, t->n) == 0; }

static bool is_variable(const Token *t)
{
    return t->n > strlen(LOOP_VAR_PREFIX) && memcmp(t->at, LOOP_VAR_PREFIX, strlen(LOOP_VAR_PREFIX)) == 0;
}

static bool agree_on(Names *names, const Token *a, const Token *b)
{
    const bool variable = is_variable(b);
    for (int i = 0; i < names->n; i++)
        if (names->items[i].variable == variable && (is(a, names->items[i].before) || is(b, names->items[i].after)))
            return is(a, names->items[i].before) && is(b, names->items[i].after);
    names->items = realloc(names->items, sizeof *names->items * (size_t)(names->n + 1));
    if (!names->items) exit(2);
    names->items[names->n++] = (Renamed){ strndup(a->at, a->n), strndup(b->at, b->n), variable };
    return true;
}

static void forget(Names *names, bool show)
{
    for (int i = 0; i < names->n; i++) {
        if (show && strcmp(names->items[i].before, names->items[i].after) != 0)
            printf("renamed: %s is now %s\n", names->items[i].before, names->items[i].after);
        free(names->items[i].before);
        free(names->items[i].after);
    }
    names->n = 0;
}

static void print_line_at(const char *mark, const char *text, int line)
{
    for (int i = 1; i < line && *text; text++) i += *text == '\n';
    printf("    %s %.*s\n", mark, (int)(strcspn(text, "\n") < 160 ? strcspn(text, "\n") : 160), text);
}

static bool report(const char *file, const char *before, int line_before, const char *after, int line_after)
{
    printf("DIFFERS: %s, line %d (before: %d)\n", file, line_after, line_before);
    print_line_at("-", before, line_before);
    print_line_at("+", after, line_after);
    return false;
}

static bool same_exactly(const char *file, const char *before, const char *after)
{
    int line = 1;
    const char *a = before, *b = after;
    for (; *a && *a == *b; a++, b++) line += *a == '\n';
    return *a == *b ? true : report(file, before, line, after, line);
}

static bool same_but_for_names(const char *file, const char *before, const char *after)
{
    Names names = { NULL, 0 };
    const char *a = before, *b = after;
    int line_a = 1, line_b = 1;
    bool same = true;
    for (bool more = true; same && more;) {
        const Token x = next_token(&a, &line_a), y = next_token(&b, &line_b);
        if (is(&x, "plan") && is(&y, "plan")) // another text
            forget(&names, same);
        same = x.name == y.name && (x.name ? agree_on(&names, &x, &y) : x.n == y.n && memcmp(x.at, y.at, x.n) == 0);
        more = x.n > 0 && y.n > 0;
        if (!same) report(file, before, line_a, after, line_b);
    }
    forget(&names, same);
    free(names.items);
    return same;
}

// Plans hold names; with --names they are no part of the comparison.
static void blank_plans(char *text)
{
    for (char *p = text; (p = strstr(p, "\nplan ")) != NULL; p++) memset(p + 6, '-', strcspn(p + 6, "\n"));
}

static void drop_preludes(char *text)
{
    char *to = text;
    for (const char *from = text; *from;) {
        const char *plan = strstr(from, "\nplan "),
                   *kernel = plan ? strstr(plan, "\nstruct __align__(64) KernelParams") : NULL;
        const size_t kept = kernel ? (size_t)(plan + 1 + strcspn(plan + 1, "\n") - from) : strlen(from);
        memmove(to, from, kept);
        to += kept;
        from = kernel ? kernel : from + kept;
    }
    *to = 0;
}

static int compare_folders(const char *before, const char *after, bool names, bool kernels)
{
    struct dirent **items;
    int different = 0, missing = 0;
    const int n = scandir(before, &items, is_shown, alphasort);
    for (int i = 0; i < n; i++) {
        char a[PATH_BYTES], b[PATH_BYTES];
        size_t length;
        snprintf(a, sizeof a, "%s/%s", before, items[i]->d_name);
        snprintf(b, sizeof b, "%s/%s", after, items[i]->d_name);
        char *const was = file_read(a, &length), *const now = file_read(b, &length);
        if (was && now && names) {
            blank_plans(was);
            blank_plans(now);
        }
        if (was && now && kernels) {
            drop_preludes(was);
            drop_preludes(now);
        }
        if (!was || !now) missing++, printf("MISSING: %s\n", was ? b : a);
        else if (!(names ? same_but_for_names : same_exactly)(items[i]->d_name, was, now)) different++;
        memory_free(was);
        memory_free(now);
        free(items[i]);
    }
    if (n > 0) free(items);
    printf("%d passed, %d failed, 0 skipped\n", n < 0 ? 0 : n - different - missing, n <= 0 ? 1 : different + missing);
    return n <= 0 || different || missing;
}

static int usage(void)
{
    fprintf(
        stderr,
        "usage: emitted_texts write FOLDER FILE|FOLDER...\n       emitted_texts compare [--names|--kernels] BEFORE AFTER\n");
    return 2;
}

int main(int argc, char **argv)
{
    const bool names = argc > 2 && strcmp(argv[2], "--names") == 0;
    const bool kernels = argc > 2 && strcmp(argv[2], "--kernels") == 0;
    if (argc == 4 + (names || kernels) && strcmp(argv[1], "compare") == 0)
        return compare_folders(argv[argc - 2], argv[argc - 1], names, kernels);
    if (argc < 4 || strcmp(argv[1], "write") != 0) return usage();
    int texts = 0;
    if (!folder_make(argv[2])) return fprintf(stderr, "%s: %s\n", argv[2], strerror(errno)), 2;
    for (int i = 3; i < argc; i++) texts += write_all(argv[2], argv[i]);
    printf("%d texts in %s\n", texts, argv[2]);
    return texts == 0;
}
