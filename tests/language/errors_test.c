// SPDX-License-Identifier: MIT
// errors_test.c - every diagnostic of the language, held to its exact words: tests/language/errors/NAME.tile.
//
// The message stands beside the line that causes it:
//     acc += a @ b;              //~ error: inner extents of '@' differ: 64 on the left, 128 on the right
//     //~^ note: 'b' is ...      '^' is the line above, '^^' two above
//     //~@12 help: did you ...   line 12; line 0 is another file, or nowhere
// Several may stand on one line. A text that ends with "..." is the beginning of the message. Each error
// must be listed, and all that is listed must appear; notes and helps may be left out.
//
// A file is loaded with its imports. If it loads without error, these lines ask for more, in their order:
//     //~ check: gemm<T=f32, BM=64>(M=3)     the kernel or operator, specialised for the CPU; `check cuda:` for CUDA
//     //~ reference: gemm<T=f32>             //~ verify: topk<K=4>             //~ cases: gemm
// Values are types, integers, reals, true, false and none.
//
//     errors_test DIRECTORY | FILE...        --print first: show what is reported instead of comparing
#include "base/memory.h"
#include "compile/compile.h"
#include "toolchain/toolchain.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

enum { BINDINGS_MAX = 32, DIAGS_MAX = 1000 };

typedef struct Expectation {
    int line;
    DiagKind kind;
    const char *text;
    bool met;
} Expectation;

typedef struct Request {
    const char *what, *target, *name;
    Binding bindings[BINDINGS_MAX];
    int n_bindings;
} Request;

typedef struct Case {
    Arena *arena;
    const char *path;
    VEC(Expectation) expectations;
    VEC(Request) requests;
    int failures;
} Case;

static void fail(Case *c, int line, const char *what, const char *text)
{
    printf("%s:%d: %s: %s\n", c->path, line, what, text);
    c->failures++;
}

// ---- reading what is expected

static char *trim(char *text)
{
    while (*text == ' ') text++;
    size_t n = strlen(text);
    while (n && strchr(" \r\t", text[n - 1])) text[--n] = 0;
    return text;
}

static Binding read_binding(Case *c, int line, char *text)
{
    char *value = strchr(text, '=');
    Binding binding = { .kind = BIND_INT };
    if (!value) {
        fail(c, line, "a binding without '='", text);
        return binding;
    }
    *value++ = 0;
    binding.name = trim(text);
    value = trim(value);
    char *rest;
    binding.type = dtype_find(value, (int)strlen(value));
    binding.integer = strtoll(value, &rest, 0);
    if (binding.type != DTYPE_NONE) binding.kind = BIND_TYPE;
    else if (strcmp(value, "none") == 0) binding.kind = BIND_NONE;
    else if (strcmp(value, "strided") == 0) binding.kind = BIND_STRIDED;
    else if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0) binding.integer = *value == 't';
    else if (*rest) {
        binding.kind = BIND_FLOAT;
        binding.real = strtod(value, &rest);
        if (*rest) fail(c, line, "a value that is neither type nor number", value);
    }
    return binding;
}

// NAME<A=1, B=2>(C=3): both lists become bindings.
static void read_request(Case *c, int line, const char *what, const char *target, char *text)
{
    Request request = { .what = what, .target = target, .name = text };
    char *p = text + strcspn(text, "<( ");
    if (*p) *p++ = 0;
    for (char *item = strtok(p, "<>(),"); item; item = strtok(NULL, "<>(),")) {
        if (!*trim(item)) continue;
        if (request.n_bindings == BINDINGS_MAX) fail(c, line, "too many bindings", item);
        else request.bindings[request.n_bindings++] = read_binding(c, line, item);
    }
    VEC_PUSH(c->arena, &c->requests, request);
}

static void read_expectation(Case *c, int line, char *text)
{
    static const char *const kinds[] = { [DIAG_ERROR] = "error", [DIAG_NOTE] = "note", [DIAG_HELP] = "help" };
    const int own_line = line;
    for (; *text == '^'; text++) line--;
    if (*text == '@') line = (int)strtol(text + 1, &text, 10);
    text = trim(text);
    char *colon = strchr(text, ':');
    if (!colon) {
        fail(c, own_line, "expected '//~ KIND: TEXT'", text);
        return;
    }
    *colon = 0;
    char *const rest = trim(colon + 1);
    for (int kind = 0; kind < COUNT(kinds); kind++)
        if (strcmp(text, kinds[kind]) == 0) {
            const Expectation expectation = { line, (DiagKind)kind, rest, false };
            VEC_PUSH(c->arena, &c->expectations, expectation);
            return;
        }
    char *const target = strchr(text, ' ');
    if (target) *target = 0;
    if (strcmp(text, "check") == 0 || strcmp(text, "reference") == 0 || strcmp(text, "verify") == 0 ||
        strcmp(text, "cases") == 0)
        read_request(c, own_line, text, target ? trim(target + 1) : "cpu", rest);
    else fail(c, own_line, "unknown kind of expectation", text);
}

static void read_expectations(Case *c, char *text)
{
    int line = 1;
    for (char *next; text; text = next, line++) {
        next = strchr(text, '\n');
        if (next) *next++ = 0;
        for (char *mark = strstr(text, "//~"), *after; mark; mark = after) {
            after = strstr(mark + 3, "//~");
            if (after) *after = 0;
            char *const copy = arena_copy_text(c->arena, mark + 3, strlen(mark + 3));
            if (after) *after = '/';
            read_expectation(c, line, copy);
        }
    }
}

// ---- running

// A check's cases, and the code of each.
static void check_case_codes(Program *program, const char *name)
{
    const CheckCases *const cases = check_cases(program, name);
    for (int i = 0; cases && i < cases->count; i++)
        if (cases->items[i].has_code) check_case_code(program, name, &cases->items[i]);
}

static void run_request(Program *program, const Request *request)
{
    const CheckOptions options = { .target = request->target,
                                   .bindings = request->bindings,
                                   .n_bindings = request->n_bindings };
    if (strcmp(request->what, "reference") == 0) check_reference(program, request->name, &options);
    else if (strcmp(request->what, "verify") == 0) check_verify(program, request->name, &options);
    else if (strcmp(request->what, "cases") == 0) check_case_codes(program, request->name);
    else if (program_find(program, DECL_OPERATOR, request->name)) check_operator(program, request->name, &options);
    else check_kernel(program, request->name, &options);
}

static Diags *run_case(Case *c)
{
    Diags *const diags = diags_new(c->arena);
    diags->limit = DIAGS_MAX;
    Program *const program = program_load(c->arena, diags, c->path);
    if (diags->errors == 0)
        for (int i = 0; i < c->requests.count; i++) run_request(program, &c->requests.items[i]);
    return diags;
}

static int line_of(const Case *c, const Diag *diag)
{
    if (!diag->span.source || strcmp(diag->span.source->path, c->path) != 0) return 0;
    return source_position(diag->span.source, diag->span.begin).line;
}

static bool matches(const Expectation *expected, const Diag *diag, int line)
{
    const size_t n = strlen(expected->text);
    if (expected->line != line || expected->kind != diag->kind || expected->met) return false;
    if (n >= 3 && strcmp(expected->text + n - 3, "...") == 0) return strncmp(expected->text, diag->message, n - 3) == 0;
    return strcmp(expected->text, diag->message) == 0;
}

static void compare(Case *c, const Diags *diags)
{
    for (const Diag *diag = diags->first; diag; diag = diag->next) {
        const int line = line_of(c, diag);
        bool found = false;
        for (int i = 0; i < c->expectations.count && !found; i++) {
            found = matches(&c->expectations.items[i], diag, line);
            if (found) c->expectations.items[i].met = true;
        }
        if (!found && diag->kind == DIAG_ERROR) fail(c, line, "unexpected error", diag->message);
    }
    for (int i = 0; i < c->expectations.count; i++)
        if (!c->expectations.items[i].met)
            fail(c, c->expectations.items[i].line, "did not appear", c->expectations.items[i].text);
    if (c->expectations.count == 0) fail(c, 1, "nothing is expected", "the file lists no diagnostic");
}

static char *read_file(const char *path)
{
    size_t length;
    char *const text = file_read(path, &length);
    for (size_t i = 0; text && i < length; i++)
        if (!text[i]) text[i] = ' '; // a NUL must not hide the expectations behind it
    return text;
}

// False when the memory ran out on the way.
static bool run_text(Arena *arena, const char *path, char *text, bool print, bool *passed)
{
    if (setjmp(arena->out_of_memory)) return false;
    Case *const c = NEW(arena, Case, .arena = arena, .path = path);
    read_expectations(c, text);
    const Diags *const diags = run_case(c);
    Text out = { .arena = arena };
    diags_print(diags, &out, false);
    if (print) printf("%s", text_cstr(&out));
    else compare(c, diags);
    *passed = c->failures == 0;
    if (!*passed && !print) printf("reported was:\n%s\n", text_cstr(&out));
    return true;
}

static bool run_file(const char *path, bool print)
{
    char *const text = read_file(path);
    Arena *const arena = arena_new();
    bool passed = false;
    if (!text || !arena || !run_text(arena, path, text, print, &passed)) {
        printf("%s: cannot be read, or out of memory\n", path);
        passed = false;
    }
    arena_free(arena);
    memory_free(text);
    return passed;
}

static int is_source(const struct dirent *entry)
{
    const size_t n = strlen(entry->d_name);
    return n > 5 && strcmp(entry->d_name + n - 5, ".tile") == 0;
}

// NAME.part.tile is only imported by others.
static bool is_part(const char *name) { return strstr(name, ".part.tile") != NULL; }

static int run_directory(const char *directory, bool print, int *run)
{
    struct dirent **entries;
    const int n = scandir(directory, &entries, is_source, alphasort);
    int failed = 0;
    for (int i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", directory, entries[i]->d_name);
        if (!is_part(entries[i]->d_name)) {
            ++*run;
            failed += !run_file(path, print);
        }
        free(entries[i]);
    }
    if (n >= 0) free(entries);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0, run = 0;
    const bool print = argc > 1 && strcmp(argv[1], "--print") == 0;
    for (int i = print ? 2 : 1; i < argc; i++) {
        if (strstr(argv[i], ".tile")) {
            run++;
            failed += !run_file(argv[i], print);
        } else {
            failed += run_directory(argv[i], print, &run);
        }
    }
    printf("%d of %d files passed\n", run - failed, run);
    return failed > 0 || run == 0;
}
