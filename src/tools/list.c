// SPDX-License-Identifier: MIT
// list.c - `kiln list`: the kernels and operators of the library, with a line for each.
//
// Listed is what a file holds a `check` of: other kernels are steps of its operators.
#include "tools/tool.h"
#include "tools/words.h"

#include <ctype.h>
#include <string.h>

typedef struct ListOptions {
    const char *kernels;
    bool json, words;
    int n_args;
    char **args;
} ListOptions;

// One file of the library, one kernel or operator of it.
typedef struct Entry {
    const char *file, *about, *name, *signature, *comment;
    bool is_operator;
} Entry;
typedef struct List {
    Arena *arena;
    VEC(Entry) entries;
    const char *folder;
    bool failed;
} List;

// ---- texts of a source

// Runs of blanks and line ends are one blank.
static const char *squeezed(Arena *arena, const char *text, size_t n)
{
    Text out = { .arena = arena };
    bool blank = false;
    for (size_t i = 0; i < n; i++) {
        const bool is_blank = isspace((unsigned char)text[i]);
        if (!is_blank && blank && out.length) text_add(&out, " ", 1);
        if (!is_blank) text_add(&out, &text[i], 1);
        blank = is_blank;
    }
    return text_cstr(&out);
}

// The '{' of the body: one after '=' opens a list of values.
static const char *find_body(const char *text, const char *end)
{
    char before = 0;
    for (; text < end; text++) {
        if (*text == '{' && before != '=') return text;
        if (!isspace((unsigned char)*text)) before = *text;
    }
    return NULL;
}

static const char *signature_of_decl(Arena *arena, const Decl *decl)
{
    const char *const text = decl->name_span.source->text, *const begin = text + decl->name_span.begin;
    const char *const end = find_body(begin, text + decl->span.end);
    return end ? squeezed(arena, begin, (size_t)(end - begin)) : decl->name;
}

// The end of the first sentence of `n` bytes: a full stop at the end or before a blank.
static size_t sentence_length(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] == '.' && (i + 1 == n || isspace((unsigned char)text[i + 1]))) return i + 1;
    return n;
}

// The comment of whole lines that ends before `end`: its first sentence. "" if there is none.
static const char *comment_before(Arena *arena, const char *text, const char *end)
{
    const char *begin = end;
    while (begin > text) {
        const char *line = begin - 1;
        while (line > text && line[-1] != '\n') line--;
        if (strncmp(line, "//", 2) != 0 || strncmp(line, "// SPDX", 7) == 0) break;
        begin = line;
    }
    Text out = { .arena = arena };
    for (const char *at = begin; at < end; at += strcspn(at, "\n") + 1) {
        const size_t n = strcspn(at, "\n");
        text_print(&out, "%.*s ", n > 2 ? (int)(n - 2) : 0, at + 2);
    }
    const char *const plain = squeezed(arena, text_cstr(&out), out.length);
    return arena_copy_text(arena, plain, sentence_length(plain, strlen(plain)));
}

// What the file's first comment says after "NAME.tile - ".
static const char *about_file(Arena *arena, const Source *source)
{
    const char *at = source->text;
    while (strncmp(at, "// SPDX", 7) == 0) at += strcspn(at, "\n") + 1;
    const char *end = at;
    while (strncmp(end, "//", 2) == 0) {
        end += strcspn(end, "\n");
        end += *end == '\n';
    }
    const char *const all = comment_before(arena, at, end), *const dash = strstr(all, ".tile - ");
    if (!dash || memchr(all, ' ', (size_t)(dash - all))) return all;
    return dash + strlen(".tile - ");
}

// ---- collecting

static bool has_check(const Module *module, const char *name)
{
    for (const Decl *d = module->decls; d; d = d->next)
        if (d->kind == DECL_CHECK && strcmp(d->name, name) == 0) return true;
    return false;
}

// Not the file's, which may stand right above.
static const char *own_comment(Arena *arena, const char *text, const Decl *decl)
{
    const char *const comment = comment_before(arena, text, text + decl->span.begin);
    return strstr(comment, ".tile - ") ? "" : comment;
}

static void add_entries(List *list, const char *path, const Module *module)
{
    const char *const file = arena_copy_text(list->arena, path, strlen(path));
    const char *const about = about_file(list->arena, module->source);
    for (const Decl *d = module->decls; d; d = d->next) {
        if ((d->kind != DECL_KERNEL && d->kind != DECL_OPERATOR) || !has_check(module, d->name)) continue;
        const char *const text = module->source->text;
        VEC_PUSH(list->arena, &list->entries,
                 ((Entry){ .file = file,
                           .about = about,
                           .name = arena_copy_text(list->arena, d->name, strlen(d->name)),
                           .signature = signature_of_decl(list->arena, d),
                           .comment = own_comment(list->arena, text, d),
                           .is_operator = d->kind == DECL_OPERATOR }));
    }
}

static void add_file(List *list, const char *path)
{
    const size_t n = strlen(list->folder);
    const char *const below = strncmp(path, list->folder, n) == 0 ? path + n + strspn(path + n, "/") : path;
    kiln_program *program = NULL;
    if (kiln_program_load_file(path, &program)) {
        fail_status(NULL);
        list->failed = true;
        return;
    }
    add_entries(list, below, program->program->modules[0]);
    kiln_program_free(program);
}

// ---- printing

// What comes after <...>: from the parenthesis that the last one closes.
static const char *parameters_of(const char *signature)
{
    const char *at = signature + strlen(signature);
    for (int depth = 0; at > signature;) {
        at--;
        depth += *at == ')' ? 1 : *at == '(' ? -1 : 0;
        if (depth == 0) return at;
    }
    return at;
}

static void print_short(const Entry *e)
{
    enum { COLUMNS = 116 };
    char line[COLUMNS + 1];
    const char *const shown = *e->comment ? e->comment : parameters_of(e->signature);
    const int n = snprintf(line, sizeof line, "%s%s%s", e->name, *e->comment ? ": " : "", shown);
    printf("  %s%s\n", line, n >= (int)sizeof line ? "..." : "");
}

static void print_list(const List *list, const Entry *const *shown, int n)
{
    printf("%s\n", list->folder);
    for (int i = 0; i < n; i++) {
        if (i == 0 || strcmp(shown[i]->file, shown[i - 1]->file) != 0)
            printf("\n%s%s%s: %s\n", paint(stdout, BOLD), shown[i]->file, paint(stdout, PLAIN), shown[i]->about);
        print_short(shown[i]);
    }
}

static void print_member(const char *name, const char *text)
{
    printf("\"%s\": ", name);
    print_json_text(stdout, text);
}

static void print_list_json(const List *list, const Entry *const *shown, int n)
{
    printf("{");
    print_member("folder", list->folder);
    printf(", \"kernels\": [");
    for (int i = 0; i < n; i++) {
        const Entry *const e = shown[i];
        printf("%s\n  {", i ? "," : "");
        const struct {
            const char *name, *text;
        } members[] = {
            { "file", e->file },
            { "name", e->name },
            { "kind", e->is_operator ? "operator" : "kernel" },
            { "signature", e->signature },
            { "comment", e->comment },
            { "about_file", e->about },
        };
        for (int m = 0; m < COUNT(members); m++) {
            printf("%s", m ? ", " : "");
            print_member(members[m].name, members[m].text);
        }
        printf("}");
    }
    printf("\n]}\n");
}

// ---- the words of the language

static void print_words(bool json)
{
    printf("%s", json ? "{" : "");
    for (int g = 0; g < WORD_GROUPS; g++) {
        const WordGroup *const group = &word_groups[g];
        printf(json ? "%s\n\"%s\": [" : "%s%s:", json && g ? "," : "", group->name);
        const char *before = "", *word;
        for (int i = 0, n = 0; (word = group->word(i)) != NULL; before = word, i++) {
            if (strcmp(word, before) == 0) continue;
            printf(json ? "%s\"%s\"" : "%s %s", json && n++ ? ", " : "", word);
        }
        printf(json ? "]" : "\n");
    }
    printf("%s", json ? "\n}\n" : "");
}

// ---- all of it

static bool is_wanted(const ListOptions *o, const Entry *e)
{
    bool any = o->n_args == 0;
    for (int i = 0; i < o->n_args; i++) any |= strstr(e->name, o->args[i]) || strstr(e->file, o->args[i]);
    return any;
}

static int fail_none(Arena *arena, const ListOptions *o, const List *list)
{
    const char **const names = NEW_ARRAY(arena, const char *, list->entries.count + 1);
    for (int i = 0; i < list->entries.count; i++) names[i] = list->entries.items[i].name;
    fail_usage("no name of a kernel or file contains '%s'; see 'kiln list'", o->args[0]);
    print_near(o->args[0], names, list->entries.count);
    return EXIT_USAGE;
}

static int list_all(Arena *arena, void *context)
{
    const ListOptions *const o = context;
    if (o->words) {
        print_words(o->json);
        return EXIT_OK;
    }
    List list = { .arena = arena, .folder = o->kernels ? o->kernels : kernels_folder(arena) };
    char *const folders[] = { (char *)list.folder };
    const char **paths;
    int n, n_shown = 0;
    if (!find_tile_files(arena, 1, (char **)folders, &paths, &n)) return EXIT_USAGE;
    for (int i = 0; i < n; i++) add_file(&list, paths[i]);
    const Entry **const shown = NEW_ARRAY(arena, const Entry *, list.entries.count + 1);
    for (int i = 0; i < list.entries.count; i++)
        if (is_wanted(o, &list.entries.items[i])) shown[n_shown++] = &list.entries.items[i];
    if (n_shown == 0 && o->n_args) return fail_none(arena, o, &list);
    (o->json ? print_list_json : print_list)(&list, shown, n_shown);
    return list.failed ? EXIT_FAILED : EXIT_OK;
}

int tool_list(int argc, char **argv)
{
    ListOptions o = { .args = argv };
    const Option options[] = {
        { "--kernels", OPTION_TEXT, &o.kernels, "FOLDER",
          "of this folder (default: the library's, as they are installed)" },
        { "--words", OPTION_FLAG, &o.words, NULL, "the words of the language instead, by what they are" },
        { "--json", OPTION_FLAG, &o.json, NULL, "print one JSON object" },
    };
    const Usage usage = {
        "kiln list [OPTION...] [NAME...]",
        "Lists the kernels and operators of the library: where they are, and a line for each, its comment or its parameters.\n"
        "With names, only those whose name or file contains one.",
        options, COUNT(options), "  kiln list\n  kiln list gemm attention/\n  kiln list --json\n"
    };
    const int end = parse_options(&usage, argc, argv, &o.n_args);
    return end >= 0 ? end : with_arena(list_all, &o);
}
