// SPDX-License-Identifier: MIT
// history.c - saved runs, read back.
#include "history.h"
#include "base/json_read.h"
#include "base/memory.h"
#include "toolchain/toolchain.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// ---- one run

static double number_of(const Json *json, const char *name)
{
    const Json *const found = json_at(json, name);
    return found && found->kind == JSON_NUMBER ? found->number : NAN;
}

// Texts before there was a field say it by their numbers.
static bool is_by_memory(const Json *json, const SavedRow *row)
{
    const char *const says = json_text(json, "rate_of", "");
    const double operations = number_of(json, "operations"), bytes = number_of(json, "bytes");
    if (*says) return strcmp(says, "bytes") == 0;
    return !(operations > 0) || fabs(row->rate * row->median - bytes) < fabs(row->rate * row->median - operations);
}

static SavedRow row_of(const Json *json)
{
    SavedRow row = { .name = json_text(json, "name", "?"),
                     .kernel = json_text(json, "kernel", ""),
                     .values = json_text(json, "values", ""),
                     .baseline = json_text(json, "baseline", ""),
                     .verdict = json_text(json, "verdict", "-"),
                     .target_text = json_text(json, "target_text", ""),
                     .problem = json_text(json, "problem", NULL) };
    const struct {
        const char *name;
        double *value;
    } numbers[] = { { "median_seconds", &row.median },
                    { "fastest_seconds", &row.fastest },
                    { "slowest_seconds", &row.slowest },
                    { "baseline_median_seconds", &row.baseline_median },
                    { "baseline_fastest_seconds", &row.baseline_fastest },
                    { "floor_seconds", &row.floor },
                    { "rate", &row.rate },
                    { "ceiling", &row.ceiling },
                    { "ratio", &row.ratio },
                    { "host_seconds", &row.host },
                    { "spill_bytes", &row.spill_bytes } };
    for (int i = 0; i < COUNT(numbers); i++) *numbers[i].value = number_of(json, numbers[i].name);
    row.host_target = isnan(row.host) ? NAN : number_of(json, "target");
    row.by_memory = is_by_memory(json, &row);
    return row;
}

// What --compile saves has rows of another kind, which are passed over.
static bool is_row(const Json *json)
{
    return json_at(json, "median_seconds") || json_at(json, "host_seconds") || json_at(json, "problem");
}

static void add_object(Arena *arena, const Json *json, const char *date, SavedRun *run)
{
    const double copy = number_of(json, "copy_bytes_per_second");
    const Json *const interrupted = json_at(json, "interrupted");
    if (!run->device) {
        run->device = json_text(json, "device", "?");
        run->date = json_text(json, "date", date);
        run->version = json_text(json, "version", "");
    }
    if (copy > 0) run->copy_rate = copy;
    run->interrupted |= interrupted && interrupted->kind == JSON_TRUE;
    for (const Json *row = json_at(json, "rows")->first; row; row = row->next)
        if (is_row(row)) VEC_PUSH(arena, &run->rows, row_of(row));
}

static bool add_if_run(Arena *arena, const char *text, size_t n, const char *date, SavedRun *run)
{
    const Json *const json = json_read(arena, text, n), *const rows = json ? json_at(json, "rows") : NULL;
    if (!rows || rows->kind != JSON_LIST) return false;
    if (run->device && strcmp(json_text(json, "device", "?"), run->device) != 0) return false;
    add_object(arena, json, date, run);
    return true;
}

bool saved_run_parse(Arena *arena, const char *path, const char *text, size_t n, const char *date, SavedRun *run)
{
    const char *const end = text + n;
    *run = (SavedRun){ .path = path };
    if (add_if_run(arena, text, n, date, run)) return true;
    for (const char *at = text; at < end; at++) {
        const char *const newline = memchr(at, '\n', (size_t)(end - at));
        add_if_run(arena, at, (size_t)((newline ? newline : end) - at), date, run);
        if (!newline) break;
        at = newline;
    }
    return run->device != NULL;
}

// ---- many

const char *saved_date(Arena *arena, time_t when)
{
    struct tm tm;
    char text[32] = "";
    if (gmtime_r(&when, &tm)) strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm);
    return arena_printf(arena, "%s", text);
}

static bool read_file(Arena *arena, const char *path, bool was_named, SavedRuns *runs)
{
    struct stat about;
    size_t n;
    SavedRun run;
    char *const text = stat(path, &about) == 0 ? file_read(path, &n) : NULL;
    if (!text) {
        fprintf(stderr, "kiln: cannot read %s: %s\n", path, strerror(errno));
        return false;
    }
    if (saved_run_parse(arena, path, text, n, saved_date(arena, about.st_mtime), &run)) VEC_PUSH(arena, runs, run);
    else if (was_named) fprintf(stderr, "kiln: %s is no saved run: left out\n", path);
    memory_free(text);
    return true;
}

static bool is_json(const char *name)
{
    const size_t n = strlen(name);
    return n > 5 && strcmp(name + n - 5, ".json") == 0;
}

static bool read_folder(Arena *arena, const char *path, SavedRuns *runs)
{
    DIR *const folder = opendir(path);
    bool ok = folder != NULL;
    if (!folder) return read_file(arena, path, true, runs);
    for (const struct dirent *entry; ok && (entry = readdir(folder));)
        if (is_json(entry->d_name))
            ok = read_file(arena, arena_printf(arena, "%s/%s", path, entry->d_name), false, runs);
    closedir(folder);
    return ok;
}

static int older_first(const void *a, const void *b)
{
    const SavedRun *const x = a, *const y = b;
    const int order = strcmp(x->date, y->date);
    return order ? order : strcmp(x->path, y->path);
}

bool saved_runs_read(Arena *arena, const char *list, SavedRuns *runs)
{
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',') {
        const char *const path = arena_printf(arena, "%.*s", (int)strcspn(at, ","), at);
        if (*path && !read_folder(arena, path, runs)) return false;
    }
    if (runs->count) qsort(runs->items, (size_t)runs->count, sizeof(SavedRun), older_first);
    return true;
}

void saved_runs_keep_earlier(SavedRuns *runs, const SavedRun *run)
{
    int n = 0;
    while (n < runs->count && strcmp(runs->items[n].date, run->date) < 0) n++;
    runs->count = n;
}

// ---- comparing

const SavedRow *saved_row_find(const SavedRun *run, const SavedRow *like)
{
    for (int i = 0; i < run->rows.count; i++) {
        const SavedRow *const row = &run->rows.items[i];
        if (!row->problem && strcmp(row->name, like->name) == 0 && strcmp(row->values, like->values) == 0) return row;
    }
    return NULL;
}

Change saved_change(const SavedRow *before, const SavedRow *after)
{
    const bool is_host = !isnan(after->host);
    const double speed = is_host ? before->host / after->host : before->median / after->median;
    const bool apart = is_host || ((after->median < before->fastest || after->median > before->slowest) &&
                                   (before->median < after->fastest || before->median > after->slowest));
    return (Change){ speed, apart && fabs(speed - 1) >= CHANGE_MARKED };
}
