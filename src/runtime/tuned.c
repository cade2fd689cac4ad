// SPDX-License-Identifier: MIT
// tuned.c - reading and writing the file of `kiln tune`.
#include "runtime/tuned.h"
#include "base/fork.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIELDS = 8, FILE_BYTES_MAX = 16 << 20 };

static const char heading[] =
    "# The fastest build values that 'kiln tune' found. Fields: kernel, target, given build values, launch values, tuned build\n"
    "# values, seconds of a launch, seconds by default, device.\n";

const char *tuned_target(const Target *target)
{
    static _Thread_local char name[16];
    if (!target->gpu) return "cpu";
    snprintf(name, sizeof name, "sm_%d", target->gpu->arch);
    return name;
}

// ---- lists of NAME=VALUE

typedef struct Pair {
    const char *name, *value;
    int name_length, value_length;
} Pair;

// The next pair; false at the end.
static bool next_pair(const char **at, Pair *pair)
{
    while (**at == ' ' || **at == ',') ++*at;
    if (!**at) return false;
    const char *const end = *at + strcspn(*at, ","), *const equals = memchr(*at, '=', (size_t)(end - *at));
    const char *name_end = equals ? equals : end, *value = equals ? equals + 1 : end, *value_end = end;
    pair->name = *at;
    while (name_end > pair->name && isspace((unsigned char)name_end[-1])) name_end--;
    while (value < value_end && isspace((unsigned char)*value)) value++;
    while (value_end > value && isspace((unsigned char)value_end[-1])) value_end--;
    pair->value = value;
    pair->name_length = (int)(name_end - pair->name);
    pair->value_length = (int)(value_end - value);
    *at = end;
    return true;
}

static bool find_pair(const char *list, const Pair *wanted, Pair *found)
{
    for (const char *at = list ? list : ""; next_pair(&at, found);)
        if (found->name_length == wanted->name_length &&
            memcmp(found->name, wanted->name, (size_t)wanted->name_length) == 0)
            return true;
    return false;
}

static bool holds_all(const char *list, const char *wanted)
{
    Pair pair, found;
    for (const char *at = wanted; next_pair(&at, &pair);)
        if (!find_pair(list, &pair, &found) || found.value_length != pair.value_length ||
            memcmp(found.value, pair.value, (size_t)pair.value_length) != 0)
            return false;
    return true;
}

// How far the sizes of two launches are from each other: the factors between them, multiplied.
static double distance(const char *launch, const char *wanted)
{
    Pair pair, found;
    double sum = 0;
    for (const char *at = wanted ? wanted : ""; next_pair(&at, &pair);) {
        if (!find_pair(launch, &pair, &found)) continue;
        const double x = strtod(pair.value, NULL), y = strtod(found.value, NULL);
        if (x > 0 && y > 0) sum += fabs(log(x / y));
        else if (x != y) sum += 1;
    }
    return sum;
}

// ---- the file

static kiln_status fail_file(const char *what, const char *path)
{
    return status_fail(KILN_NOT_FOUND, "%s: cannot %s the file of tuned values: %s", path, what, strerror(errno));
}

static kiln_status read_all(Arena *arena, const char *path, bool may_lack, char **text)
{
    FILE *const file = fopen(path, "rb");
    *text = arena_copy_text(arena, "", 0);
    if (!file) return may_lack && errno == ENOENT ? KILN_OK : fail_file("read", path);
    Text all = { .arena = arena };
    char part[4096];
    size_t n;
    while ((n = fread(part, 1, sizeof part, file)) > 0 && all.length <= FILE_BYTES_MAX) text_add(&all, part, n);
    const bool failed = ferror(file) != 0;
    fclose(file);
    if (failed) return fail_file("read", path);
    if (all.length > FILE_BYTES_MAX)
        return status_fail(KILN_BAD_ARGUMENT, "%s: a file of tuned values has at most %d MiB", path,
                           FILE_BYTES_MAX >> 20);
    *text = arena_copy_text(arena, text_cstr(&all), all.length);
    return KILN_OK;
}

// A line, which is cut at its tabs. False: it is empty or a comment.
static kiln_status read_row(char *line, const char *path, int number, TunedRow *row, bool *is_row)
{
    char *fields[FIELDS], *at = line;
    int n = 0;
    *is_row = *line && *line != '#';
    if (!*is_row) return KILN_OK;
    for (; n < FIELDS; n++) {
        fields[n] = at;
        at += strcspn(at, "\t");
        if (!*at) {
            n++;
            break;
        }
        *at++ = 0;
    }
    if (n != FIELDS)
        return status_fail(KILN_BAD_ARGUMENT, "%s:%d: a row of tuned values has %d fields apart by tabs, not %d", path,
                           number, FIELDS, n);
    *row = (TunedRow){
        fields[0], fields[1], fields[2], fields[3], fields[4], strtod(fields[5], NULL), strtod(fields[6], NULL),
        fields[7]
    };
    return KILN_OK;
}

typedef struct Rows {
    VEC(TunedRow) list;
} Rows;

static kiln_status read_rows(Arena *arena, const char *path, bool may_lack, Rows *rows)
{
    char *text, *next;
    const kiln_status status = read_all(arena, path, may_lack, &text);
    if (status) return status;
    int number = 1;
    for (char *line = text; *line; line = next, number++) {
        const size_t length = strcspn(line, "\n");
        next = line + length + (line[length] != 0);
        line[length] = 0;
        TunedRow row;
        bool is_row;
        const kiln_status read = read_row(line, path, number, &row, &is_row);
        if (read) return read;
        if (is_row) VEC_PUSH(arena, &rows->list, row);
    }
    return KILN_OK;
}

static bool same_place(const TunedRow *a, const TunedRow *b)
{
    return strcmp(a->kernel, b->kernel) == 0 && strcmp(a->target, b->target) == 0 && strcmp(a->given, b->given) == 0 &&
           strcmp(a->launch, b->launch) == 0;
}

static kiln_status replace_file(Arena *arena, const char *path, const Rows *rows)
{
    const char *const fresh = arena_printf(arena, "%s.%ld", path, (long)getpid());
    FILE *const file = fopen(fresh, "wb");
    if (!file) return fail_file("write", path);
    fputs(heading, file);
    for (int i = 0; i < rows->list.count; i++) {
        const TunedRow *const r = &rows->list.items[i];
        fprintf(file, "%s\t%s\t%s\t%s\t%s\t%.4g\t%.4g\t%s\n", r->kernel, r->target, r->given, r->launch, r->tuned,
                r->seconds, r->by_default, r->device);
    }
    bool ok = fflush(file) == 0;
    ok = fclose(file) == 0 && ok;
    if (ok && rename(fresh, path) == 0) return KILN_OK;
    const kiln_status status = fail_file("write", path);
    remove(fresh);
    return status;
}

kiln_status tuned_write(const char *path, const TunedRow *row)
{
    Arena *const arena = arena_new();
    kiln_status status = status_fail(KILN_OUT_OF_MEMORY, "out of memory writing %s", path);
    if (arena && setjmp(arena->out_of_memory) == 0) {
        Rows rows = { .list = { 0 } };
        int at = 0;
        status = read_rows(arena, path, true, &rows);
        while (at < rows.list.count && !same_place(&rows.list.items[at], row)) at++;
        if (at == rows.list.count) VEC_PUSH(arena, &rows.list, *row);
        else rows.list.items[at] = *row;
        if (!status) status = replace_file(arena, path, &rows);
    }
    arena_free(arena);
    return status;
}

// Of a request, the build values without a list that are not the default. False: there was an error, which the build reports.
static bool print_given(Text *given, const BuildRequest *request)
{
    const CheckOptions options = { .target = request->target.kind->name,
                                   .arch = request->target.gpu ? request->target.gpu->arch : 0,
                                   .checked = request->checked,
                                   .bindings = request->bindings,
                                   .n_bindings = request->n_bindings };
    const Tunings *const tunings = check_tunings(request->program->program, request->name, &options, 0);
    if (tunings) bindings_print(given, tunings->given, tunings->n_given);
    return tunings != NULL;
}

static const char *given_values(Arena *arena, const BuildRequest *request)
{
    kiln_program *const program = request->program;
    Text given = { .arena = arena };
    volatile bool ok = false; // written between setjmp and longjmp
    fork_hold();
    pthread_mutex_lock(&program->lock);
    const ArenaMark mark = arena_mark(program->arena);
    Diags *const before = program->program->diags;
    if (setjmp(program->arena->out_of_memory) == 0) {
        program->program->diags = diags_new(program->arena);
        ok = print_given(&given, request);
    }
    program->program->diags = before;
    arena_rewind(program->arena, mark);
    pthread_mutex_unlock(&program->lock);
    fork_release();
    return ok ? text_cstr(&given) : NULL;
}

static const TunedRow *nearest_row(const Rows *rows, const BuildRequest *request, const char *given, const char *launch)
{
    const TunedRow *best = NULL;
    for (int i = 0; i < rows->list.count; i++) {
        const TunedRow *const row = &rows->list.items[i];
        if (strcmp(row->kernel, request->name) != 0 || strcmp(row->target, tuned_target(&request->target)) != 0)
            continue;
        if (!holds_all(given, row->given) || !holds_all(row->given, given)) continue;
        if (!best || distance(row->launch, launch) < distance(best->launch, launch)) best = row;
    }
    return best;
}

kiln_status tuned_apply(Arena *arena, BuildRequest *request, const char *path, const char *launch)
{
    Rows rows = { .list = { 0 } };
    Text all = { .arena = arena };
    if (!path) return KILN_OK;
    kiln_status status = read_rows(arena, path, false, &rows);
    if (status) return status;
    bindings_print(&all, request->bindings, request->n_bindings);
    const char *const given = arena_copy_text(arena, text_cstr(&all), all.length);
    const char *const values = given_values(arena, request);
    const TunedRow *const best = values ? nearest_row(&rows, request, values, launch) : NULL;
    Pair pair, found;
    for (const char *at = best ? best->tuned : ""; next_pair(&at, &pair);)
        if (!find_pair(given, &pair, &found))
            text_print(&all, "%s%.*s=%.*s", all.length ? ", " : "", pair.name_length, pair.name, pair.value_length,
                       pair.value);
    Binding *bindings = NULL;
    status = bindings_parse(arena, request->program, request->name, text_cstr(&all), &bindings, &request->n_bindings);
    request->bindings = bindings;
    if (!status || !best) return status;
    const char *const why = kiln_error_message();
    return status_fail(status, "%s: the tuned values of '%s': %s", path, request->name,
                       arena_copy_text(arena, why, strlen(why)));
}
