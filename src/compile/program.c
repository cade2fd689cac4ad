// SPDX-License-Identifier: MIT
// program.c - a file and everything it imports, each file once. A path is relative to the importing file, on disk or
// among texts that are in memory; on disk, what is not there is looked for in the folders of imports, in their order.
#include "check/check.h"
#include "base/near.h"
#include "compile/compile.h"
#include "syntax/parser.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_IMPORT_DEPTH = 64 };

typedef struct Import {
    Module *module;
    const char *path;
    bool open;
} Import; // open: its imports are being read

typedef struct Loader {
    Program *program;
    FindText *find; // where imports are; NULL: on disk
    const ImportFolders *folders;
    VEC(const char *) own; // real names, with the last '/': the first file's folder, then those of imports
    VEC(Import) imports;
    int depth;
} Loader;

// ---- reading

typedef struct FileRead {
    const char *text;
    size_t n;
    const char *problem;
} FileRead;

// No file is held while the arena is used, for it may jump away.
static FileRead read_regular_file(Arena *arena, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return (FileRead){ .problem = errno == ENOENT || errno == ENOTDIR ? "there is no such file" : strerror(errno) };
    if (S_ISDIR(st.st_mode)) return (FileRead){ .problem = "it is a folder" };
    if (!S_ISREG(st.st_mode)) return (FileRead){ .problem = "it is not a regular file" };
    if (st.st_size > PARSE_SOURCE_BYTES_MAX) return (FileRead){ .problem = "it is larger than a source may be" };
    char *const text = arena_alloc(arena, (size_t)st.st_size + 1);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return (FileRead){ .problem = strerror(errno) };
    size_t n = 0;
    ssize_t got = 1;
    while (n < (size_t)st.st_size && (got = read(file, text + n, (size_t)st.st_size - n)) != 0) {
        if (got > 0) n += (size_t)got;
        else if (errno != EINTR) break;
    }
    const int failed = got < 0 ? errno : 0;
    close(file);
    if (failed) return (FileRead){ .problem = strerror(failed) };
    return (FileRead){ .text = text, .n = n };
}

// ---- imports

static const char *path_beside(Arena *arena, const char *importer, const char *path)
{
    const char *const slash = strrchr(importer, '/');
    if (path[0] == '/' || !slash) return path;
    return arena_printf(arena, "%.*s/%s", (int)(slash - importer), importer, path);
}

// Two spellings of one file are one file: a/../b.tile is b.tile.
static const char *normal_path(Arena *arena, const char *path)
{
    char real[4096];
    return realpath(path, real) ? arena_copy_text(arena, real, strlen(real)) : path;
}

// The same for texts in memory, whose names are no files.
static const char *collapse_path(Arena *arena, const char *path)
{
    char *const out = arena_alloc(arena, strlen(path) + 1);
    size_t n = 0;
    while (*path) {
        const size_t part = strcspn(path, "/"), step = part + (path[part] == '/');
        if (part == 2 && strncmp(path, "..", 2) == 0 && n > 0)
            for (n--; n > 0 && out[n - 1] != '/'; n--) {
            }
        else if (!(part == 1 && path[0] == '.')) memcpy(out + n, path, step), n += step;
        path += step;
    }
    out[n] = 0;
    return out;
}

static const char *path_of(Loader *l, const char *path)
{
    return l->find ? collapse_path(l->program->arena, path) : normal_path(l->program->arena, path);
}

static FileRead read_text(Loader *l, const char *path)
{
    if (!l->find) return read_regular_file(l->program->arena, path);
    const char *const text = l->find(path_of(l, path));
    return text ? (FileRead){ .text = text, .n = strlen(text) } : (FileRead){ .problem = "there is no such text" };
}

// Whoever gives a program's text decides what it imports, and may see no more than what the program's owner laid beside
// it: a message shows no line of a file elsewhere, and no word of what is no source by its name.
static bool is_source_name(const char *path)
{
    const size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".tile") == 0;
}

static bool is_inside(const Loader *l, const char *normal)
{
    for (int i = 0; i < l->own.count; i++)
        if (strncmp(normal, l->own.items[i], strlen(l->own.items[i])) == 0) return true;
    return l->find != NULL;
}

static const char *folder_of(Arena *arena, const char *normal)
{
    const char *const slash = strrchr(normal, '/');
    if (slash) return arena_copy_text(arena, normal, (size_t)(slash - normal) + 1);
    return arena_printf(arena, "%s/", normal_path(arena, "."));
}

// The program's own folders are the first file's and those that its owner has named.
static void note_folders(Loader *l, const char *first)
{
    Arena *const arena = l->program->arena;
    VEC_PUSH(arena, &l->own, folder_of(arena, first));
    for (int i = 0; i < l->folders->n; i++)
        VEC_PUSH(arena, &l->own, arena_printf(arena, "%s/", normal_path(arena, l->folders->items[i])));
}

static bool is_there(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

// Beside the importing file, else in the first folder that has it; beside the file if nothing does.
static const char *locate_import(Loader *l, const char *importer, const char *name)
{
    const char *const beside = path_beside(l->program->arena, importer, name);
    if (l->find || name[0] == '/' || is_there(beside)) return beside;
    for (int i = 0; i < l->folders->n; i++) {
        const char *const path = arena_printf(l->program->arena, "%s/%s", l->folders->items[i], name);
        if (is_there(path)) return path;
    }
    return beside;
}

// "did you mean": a file of nearly that name in a folder of the program's own.
static bool help_near(Loader *l, const Decl *decl, const char *path)
{
    Arena *const arena = l->program->arena;
    char near[256];
    const char *const slash = strrchr(path, '/'), *const last = strrchr(decl->name, '/');
    const char *const folder = slash ? arena_copy_text(arena, path, (size_t)(slash - path)) : ".";
    if (!is_inside(l, arena_printf(arena, "%s/", normal_path(arena, folder))) || !nearest_file(path, near, sizeof near))
        return false;
    diag_help(l->program->diags, decl->name_span, "did you mean \"%.*s%s\"?", last ? (int)(last - decl->name) + 1 : 0,
              decl->name, near);
    return true;
}

static void help_missing(Loader *l, const Decl *decl, const char *beside)
{
    Arena *const arena = l->program->arena;
    bool near = help_near(l, decl, beside);
    Text searched = { .arena = arena };
    for (int i = 0; i < l->folders->n && decl->name[0] != '/'; i++) {
        text_print(&searched, "%s%s", i ? ", " : "", l->folders->items[i]);
        near = near || help_near(l, decl, arena_printf(arena, "%s/%s", l->folders->items[i], decl->name));
    }
    if (searched.length)
        diag_help(l->program->diags, decl->name_span, "it was looked for beside this file, then in %s",
                  text_cstr(&searched));
}

static Import *find_import(Loader *l, const char *normal)
{
    for (int i = 0; i < l->imports.count; i++)
        if (strcmp(l->imports.items[i].path, normal) == 0) return &l->imports.items[i];
    return NULL;
}

static void load_text(Loader *l, const char *path, const char *text, size_t n);

static void load_import(Loader *l, const Source *from, const Decl *decl)
{
    Diags *const diags = l->program->diags;
    const char *const path = locate_import(l, from->path, decl->name);
    const Import *const known = find_import(l, path_of(l, path));
    if (known && known->open) {
        diag_error(diags, decl->name_span, "\"%s\" imports itself, directly or through what it imports", decl->name);
        return;
    }
    if (known) return;
    if (l->depth >= MAX_IMPORT_DEPTH) {
        diag_error(diags, decl->name_span, "imports nest deeper than %d files", MAX_IMPORT_DEPTH);
        return;
    }
    if (!is_source_name(path_of(l, path))) {
        diag_error(diags, decl->name_span, "cannot import '%s': the name of a source ends in .tile", path);
        return;
    }
    const FileRead file = read_text(l, path);
    if (!file.problem) {
        load_text(l, path, file.text, file.n);
        return;
    }
    diag_error(diags, decl->name_span, "cannot import '%s': %s", path, file.problem);
    if (!l->find && !is_there(path)) help_missing(l, decl, path);
}

static void load_text(Loader *l, const char *path, const char *text, size_t n)
{
    Program *const program = l->program;
    Arena *const arena = program->arena;
    const char *const normal = path_of(l, path), *const shown =
                                                     l->find ? normal : arena_copy_text(arena, path, strlen(path));
    if (l->own.count == 0) note_folders(l, normal);
    Source *const source =
        NEW(arena, Source, .path = shown, .text = text, .length = (int)n, .hidden = !is_inside(l, normal));
    source_find_lines(arena, source);
    const int at = l->imports.count;
    VEC_PUSH(arena, &l->imports, ((Import){ NULL, normal, true }));
    l->imports.items[at].module = parse_module(arena, program->diags, source);
    l->depth++;
    for (const Decl *d = l->imports.items[at].module->decls; d; d = d->next)
        if (d->kind == DECL_IMPORT && d->name) load_import(l, source, d); // NULL: a syntax error
    l->depth--;
    l->imports.items[at].open = false;
}

static Program *finish(Loader *l)
{
    Program *const program = l->program;
    program->modules = NEW_ARRAY(program->arena, Module *, l->imports.count + 1);
    for (int i = 0; i < l->imports.count; i++) program->modules[program->n_modules++] = l->imports.items[i].module;
    return program;
}

static const ImportFolders no_folders;

static Program *load_first(Loader *l, const char *path)
{
    const FileRead file = read_text(l, path);
    if (file.problem) diag_error(l->program->diags, (Span){ NULL, 0, 0 }, "cannot read '%s': %s", path, file.problem);
    else load_text(l, path, file.text, file.n);
    return finish(l);
}

Program *program_from_text_with(Arena *arena, Diags *diags, const char *path, const char *text, size_t length,
                                const ImportFolders *folders)
{
    Loader l = { .program = NEW(arena, Program, .arena = arena, .diags = diags), .folders = folders };
    if (length > PARSE_SOURCE_BYTES_MAX)
        diag_error(diags, (Span){ NULL, 0, 0 }, "%s: it is larger than a source may be", path);
    else load_text(&l, path, arena_copy_text(arena, text, length), length);
    return finish(&l);
}

Program *program_load_with(Arena *arena, Diags *diags, const char *path, const ImportFolders *folders)
{
    Loader l = { .program = NEW(arena, Program, .arena = arena, .diags = diags), .folders = folders };
    return load_first(&l, path);
}

Program *program_from_text(Arena *arena, Diags *diags, const char *path, const char *text, size_t length)
{
    return program_from_text_with(arena, diags, path, text, length, &no_folders);
}

Program *program_load(Arena *arena, Diags *diags, const char *path)
{
    return program_load_with(arena, diags, path, &no_folders);
}

Program *program_from_texts(Arena *arena, Diags *diags, const char *path, FindText *find)
{
    Loader l = { .program = NEW(arena, Program, .arena = arena, .diags = diags), .find = find, .folders = &no_folders };
    return load_first(&l, path);
}
