// SPDX-License-Identifier: MIT
// program.c - programs: a file and what it imports, parsed and kept.
#define _GNU_SOURCE // secure_getenv
#include "runtime/build.h"
#include "base/memory.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

bool program_color;

static kiln_status fail_with(kiln_status status, const Diags *diags)
{
    Text text = { .arena = diags->arena };
    diags_print(diags, &text, program_color);
    return status_fail(status, "%s", text_cstr(&text));
}

kiln_status program_fail(const Diags *diags) { return fail_with(KILN_BAD_SOURCE, diags); }

static void hash_program(kiln_program *program)
{
    Hash hash = hash_begin();
    for (int i = 0; i < program->program->n_modules; i++) {
        const Source *const source = program->program->modules[i]->source;
        hash_add_text(&hash, source->path);
        hash_add(&hash, &source->length, sizeof source->length);
        hash_add(&hash, source->text, (size_t)source->length);
    }
    hash_name(&hash, program->hash);
}

// ---- folders of imports

typedef struct Folders {
    Arena *arena;
    VEC(const char *) list;
} Folders;

// "one:two"; an empty part is none.
static void add_path(Folders *folders, const char *path)
{
    for (const char *at = path, *end; at && *at; at = *end ? end + 1 : end) {
        end = at + strcspn(at, ":");
        if (end > at) VEC_PUSH(folders->arena, &folders->list, arena_copy_text(folders->arena, at, (size_t)(end - at)));
    }
}

// The caller's, those of $KILN_PATH, and the library's own.
static ImportFolders folders_of(Arena *arena, const kiln_program_options *options)
{
    Folders all = { .arena = arena };
    char library[PATH_BYTES];
    for (int i = 0; options && i < options->n_folders; i++) VEC_PUSH(arena, &all.list, options->folders[i]);
    add_path(&all, secure_getenv("KILN_PATH"));
    if (library_folder(library)) VEC_PUSH(arena, &all.list, arena_copy_text(arena, library, strlen(library)));
    return (ImportFolders){ all.list.items, all.list.count };
}

// ---- loading

// What is loaded: `text`, or among the texts that `find` knows, or else the file `path`.
typedef struct Wanted {
    const char *path, *text;
    FindText *find;
    const kiln_program_options *options;
} Wanted;

static Program *read_program(Arena *arena, Diags *diags, const Wanted *w)
{
    if (w->find) return program_from_texts(arena, diags, w->path, w->find);
    const ImportFolders folders = folders_of(arena, w->options);
    return w->text ? program_from_text_with(arena, diags, w->path, w->text, strlen(w->text), &folders)
                   : program_load_with(arena, diags, w->path, &folders);
}

static kiln_status load(const Wanted *w, kiln_program **program)
{
    kiln_program *const made = memory_alloc(sizeof *made);
    Arena *const arena = made ? arena_new() : NULL;
    if (!arena) {
        memory_free(made);
        return status_fail(KILN_OUT_OF_MEMORY, "out of memory for the program %s", w->path);
    }
    kiln_status status = KILN_OK;
    if (setjmp(arena->out_of_memory) == 0) {
        Diags *const diags = diags_new(arena);
        made->arena = arena;
        made->uses = 1;
        made->program = read_program(arena, diags, w);
        if (diags->errors) // without a module: of the file itself
            status = fail_with(w->text || made->program->n_modules ? KILN_BAD_SOURCE : KILN_IO, diags);
        else hash_program(made);
    } else {
        status = status_fail(KILN_OUT_OF_MEMORY, "out of memory for the program %s", w->path);
    }
    if (status) {
        arena_free(arena);
        memory_free(made);
        return status;
    }
    pthread_mutex_init(&made->lock, NULL);
    *program = made;
    return KILN_OK;
}

static kiln_status load_file(const char *path, const kiln_program_options *options, kiln_program **program)
{
    if (access(path, R_OK) != 0)
        return status_fail(errno == ENOENT ? KILN_NOT_FOUND : KILN_IO, "cannot open %s: %s", path, strerror(errno));
    return load(&(Wanted){ .path = path, .options = options }, program);
}

kiln_status kiln_program_load_file(const char *path, kiln_program **program)
{
    if (!path || !program)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_program_load_file: '%s' is null", path ? "program" : "path");
    return load_file(path, NULL, program);
}

kiln_status kiln_program_load_text(const char *name, const char *text, kiln_program **program)
{
    if (!text || !program)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_program_load_text: '%s' is null", text ? "program" : "text");
    return load(&(Wanted){ .path = name ? name : "program.tile", .text = text }, program);
}

static kiln_status check_folders(const kiln_program_options *options)
{
    if (options && (options->n_folders < 0 || (options->n_folders > 0 && !options->folders)))
        return status_fail(KILN_BAD_ARGUMENT, "kiln_program_load: there are %d folders, and 'folders' is %s",
                           options->n_folders, options->folders ? "given" : "null");
    for (int i = 0; options && i < options->n_folders; i++)
        if (!options->folders[i] || !*options->folders[i])
            return status_fail(KILN_BAD_ARGUMENT, "kiln_program_load: folder %d has no name", i);
    return KILN_OK;
}

kiln_status kiln_program_load(const char *path, const char *text, const kiln_program_options *options,
                              kiln_program **program)
{
    if (!path || !program)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_program_load: '%s' is null", path ? "program" : "path");
    const kiln_status status = check_folders(options);
    if (status) return status;
    return text ? load(&(Wanted){ .path = path, .text = text, .options = options }, program)
                : load_file(path, options, program);
}

kiln_status program_load_texts(const char *path, FindText *find, kiln_program **program)
{
    return load(&(Wanted){ .path = path, .find = find }, program);
}

void program_keep(kiln_program *program) { atomic_fetch_add(&program->uses, 1); }

void kiln_program_free(kiln_program *program)
{
    if (!program || atomic_fetch_sub(&program->uses, 1) > 1) return;
    arena_free(program->arena);
    pthread_mutex_destroy(&program->lock);
    memory_free(program);
}
