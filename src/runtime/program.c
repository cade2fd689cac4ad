// SPDX-License-Identifier: MIT
// program.c - programs: a file and what it imports, parsed and kept.
#include "runtime/build.h"
#include "base/memory.h"

#include <errno.h>
#include <stdatomic.h>
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

// From `text`, or among the texts that `find` knows, or else from the file `path`.
static kiln_status load(const char *path, const char *text, FindText *find, kiln_program **program)
{
    kiln_program *const made = memory_alloc(sizeof *made);
    Arena *const arena = made ? arena_new() : NULL;
    if (!arena) {
        memory_free(made);
        return status_fail(KILN_OUT_OF_MEMORY, "out of memory for the program %s", path);
    }
    kiln_status status = KILN_OK;
    if (setjmp(arena->out_of_memory) == 0) {
        Diags *const diags = diags_new(arena);
        made->arena = arena;
        made->uses = 1;
        made->program = text ? program_from_text(arena, diags, path, text, strlen(text))
                      : find ? program_from_texts(arena, diags, path, find) : program_load(arena, diags, path);
        if (diags->errors)           // without a module: of the file itself
            status = fail_with(text || made->program->n_modules ? KILN_BAD_SOURCE : KILN_IO, diags);
        else
            hash_program(made);
    } else {
        status = status_fail(KILN_OUT_OF_MEMORY, "out of memory for the program %s", path);
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

kiln_status kiln_program_load_file(const char *path, kiln_program **program)
{
    if (!path || !program)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_program_load_file: '%s' is null", path ? "program" : "path");
    if (access(path, R_OK) != 0)
        return status_fail(errno == ENOENT ? KILN_NOT_FOUND : KILN_IO, "cannot open %s: %s", path, strerror(errno));
    return load(path, NULL, NULL, program);
}

kiln_status kiln_program_load_text(const char *name, const char *text, kiln_program **program)
{
    if (!text || !program)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_program_load_text: '%s' is null", text ? "program" : "text");
    return load(name ? name : "program.tile", text, NULL, program);
}

kiln_status program_load_texts(const char *path, FindText *find, kiln_program **program)
{
    return load(path, NULL, find, program);
}

void program_keep(kiln_program *program) { atomic_fetch_add(&program->uses, 1); }

void kiln_program_free(kiln_program *program)
{
    if (!program || atomic_fetch_sub(&program->uses, 1) > 1)
        return;
    arena_free(program->arena);
    pthread_mutex_destroy(&program->lock);
    memory_free(program);
}
