// SPDX-License-Identifier: MIT
// archive.c - `kiln build --emit=archive`: all kernels of a list as one libNAME.a, with NAME.h.
//
// A line of the list is
//     [cpu|cuda] FILE KERNEL [as NAME] [PARAMETER=VALUE, ...]         # and a comment
// FILE is one of the library's ("attention/decode.tile"), else a path, beside the list if it is relative. A line with a
// NAME, and every line with a path, gives the typed functions of NAME (the kernel's own where none is said). The other
// lines are the operators': they stand in the archive's table as kiln_ops_list writes them.
#include "tools/emission.h"
#include "ops/call.h"
#include "base/memory.h"
#include "emit/escape.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef struct Line {
    const TargetKind *kind; // NULL: all
    const char *file, *kernel, *name, *bindings;
} Line;

typedef struct List {
    Emission *e;
    const CodeForms *forms;  // all that were asked for
    const char *path, *name; // of the list; of the archive
    Text header;
    VEC(const char *) lines, codes; // the operators' lines, and their identifiers
} List;

// ---- one line

static const char *next_word(Arena *arena, const char **at)
{
    static const char blanks[] = " \t\r";
    const char *const word = *at + strspn(*at, blanks);
    const size_t n = strcspn(word, blanks);
    *at = word + n + strspn(word + n, blanks);
    return n ? arena_copy_text(arena, word, n) : NULL;
}

// False: it is empty. `text`: without its comment, if it has one.
static bool read_line(Arena *arena, const char *text, Line *line)
{
    const char *at = text;
    *line = (Line){ .file = next_word(arena, &at) };
    line->kind = line->file ? target_find(line->file) : NULL;
    if (line->kind) line->file = next_word(arena, &at);
    line->kernel = next_word(arena, &at);
    if (strncmp(at, "as ", 3) == 0) {
        next_word(arena, &at);
        line->name = next_word(arena, &at);
    }
    size_t n = strlen(at);
    while (n && strchr(" \t\r", at[n - 1])) n--;
    line->bindings = arena_copy_text(arena, at, n);
    return line->file != NULL;
}

// ---- what it asks for

static kiln_status load_line(const List *list, const Line *line, kiln_program **program)
{
    const char *const slash = strrchr(list->path, '/'), *path = line->file;
    if (kernel_text(line->file)) return program_load_texts(line->file, kernel_text, program);
    if (slash && *path != '/')
        path = arena_printf(list->e->arena, "%.*s/%s", (int)(slash - list->path), list->path, path);
    return load_program(path, list->e->folders, program);
}

static bool knows_kernel(const kiln_program *program, const char *name)
{
    return program_find(program->program, DECL_KERNEL, name) || program_find(program->program, DECL_OPERATOR, name);
}

// A line of the operators has an identifier of its own.
static const char *identifier_of(List *list, const Line *line, bool is_operators)
{
    Arena *const arena = list->e->arena;
    if (!is_operators) return line->name ? line->name : line->kernel;
    const char *const name = arena_printf(arena, "%s_op_%d", list->name, list->codes.count + 1);
    VEC_PUSH(arena, &list->codes, name);
    VEC_PUSH(arena, &list->lines,
             arena_printf(arena, "%s%s%s %s%s%s", line->kind ? line->kind->name : "", line->kind ? " " : "", line->file,
                          line->kernel, *line->bindings ? " " : "", line->bindings));
    return name;
}

static int add_program(List *list, const Line *line, kiln_program *program)
{
    const bool is_operators = !line->name && kernel_text(line->file);
    BuildRequest request = { .program = program,
                             .name = line->kernel,
                             .checked = is_operators && ops_is_checked(line->file) };
    Binding *bindings;
    if (!knows_kernel(program, line->kernel))
        return fail_usage("%s has no kernel or operator called '%s'", line->file, line->kernel);
    if (bindings_parse(list->e->arena, program, line->kernel, line->bindings, &bindings, &request.n_bindings))
        return fail_status(NULL);
    request.bindings = bindings;
    const char *const name = identifier_of(list, line, is_operators);
    const int result = check_identifier(name);
    if (result >= 0) return result;
    return emission_unit(list->e, &request, name, is_operators ? NULL : &list->header) ? fail_status(NULL) : -1;
}

static CodeForms forms_of_kind(const CodeForms *all, const TargetKind *kind)
{
    CodeForms forms = *all;
    forms.n = 0;
    for (int i = 0; i < all->n; i++)
        if (!kind || all->of[i].target.kind == kind) forms.of[forms.n++] = all->of[i];
    return forms;
}

static int add_line(List *list, const Line *line)
{
    const CodeForms forms = forms_of_kind(list->forms, line->kind);
    kiln_program *program;
    if (!line->kernel) return fail_usage("expected [cpu|cuda] FILE KERNEL [as NAME] [PARAMETER=VALUE, ...]");
    if (forms.n == 0) return -1;
    if (load_line(list, line, &program)) return fail_status(NULL);
    list->e->forms = &forms;
    const int result = add_program(list, line, program);
    list->e->forms = list->forms;
    kiln_program_free(program);
    return result;
}

static int add_lines(List *list, const char *text)
{
    Arena *const arena = list->e->arena;
    Line line;
    int result = -1;
    for (int number = 1; *text && result < 0; number++) {
        const size_t n = strcspn(text, "\n"), kept = strcspn(text, "#\n");
        if (read_line(arena, arena_copy_text(arena, text, kept), &line) && (result = add_line(list, &line)) >= 0)
            fprintf(stderr, "kiln: that was line %d of %s\n", number, list->path);
        text += n + (text[n] == '\n');
    }
    return result;
}

// ---- the table

static void add_table(List *list)
{
    Text text = { .arena = list->e->arena }, *const out = &text;
    const char *const name = list->name;
    text_print(out, "/* %s.c - the kernels of the operators, by their lines. Made by `kiln build`; do not edit. */\n",
               name);
    for (int i = 0; i < list->codes.count; i++) text_print(out, "extern const char %s_code;\n", list->codes.items[i]);
    text_print(out, "static const char *const %s_lines[] = {\n", name);
    for (int i = 0; i < list->lines.count; i++) {
        escape_string(out, list->lines.items[i], strlen(list->lines.items[i]));
        text_print(out, ",\n");
    }
    text_print(out, "    0 };\nstatic const void *const %s_codes[] = {\n", name);
    for (int i = 0; i < list->codes.count; i++) text_print(out, "    &%s_code,\n", list->codes.items[i]);
    text_print(
        out,
        "    0 };\n\n/* Laid out as kiln_archive in kiln/code.h. */\n"
        "const struct {\n    const char *const *names;\n    const void *const *codes;\n    int n;\n} %s_archive = {\n"
        "    %s_lines, %s_codes, %d\n};\n",
        name, name, name, list->codes.count);
    emission_add(list->e, name, out, "");
}

static kiln_status write_archive(List *list)
{
    Arena *const arena = list->e->arena;
    add_table(list);
    emission_header_end(&list->header);
    const kiln_status status = emission_write(list->e, arena_printf(arena, "%s.h", list->name), &list->header);
    return status ? status
                  : emission_compile_pieces(list->e, arena_printf(arena, "%s/lib%s.a", list->e->folder, list->name));
}

int build_archive(Emission *e, const char *path)
{
    List list = { .e = e, .forms = e->forms, .path = path, .name = e->name, .header = { .arena = e->arena } };
    size_t n;
    char *const text = file_read(path, &n);
    if (!text) return fail_usage("cannot read the list %s: %s", path, strerror(errno));
    emission_header_begin(&list.header, e->name, forms_list(e->forms, e->arena));
    text_print(&list.header, "/* For kiln_ops_open_archive. */\nextern const kiln_archive %s_archive;\n\n", e->name);
    const int result = add_lines(&list, text);
    memory_free(text);
    return result >= 0 ? result : write_archive(&list) ? fail_status(NULL) : EXIT_OK;
}
