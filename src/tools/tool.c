// SPDX-License-Identifier: MIT
// tool.c - options, help, terminals and small services for the subcommands.
#define _GNU_SOURCE // qsort's strings, open_memstream
#include "tools/tool.h"
#include "base/memory.h"
#include "base/near.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// ---- options

static void print_help(const Usage *usage)
{
    printf("usage: %s\n\n%s\n", usage->line, usage->about);
    if (usage->n_options) printf("\noptions:\n");
    for (int i = 0; i < usage->n_options; i++) {
        const Option *const o = &usage->options[i];
        char left[64];
        const char *const between = !o->argument               ? ""
                                    : o->kind == OPTION_FOLDER ? " "
                                    : o->kind == OPTION_FILE   ? "[="
                                                               : "=";
        snprintf(left, sizeof left, "%s%s%s%s", o->name, between, o->argument ? o->argument : "",
                 o->kind == OPTION_FILE ? "]" : "");
        printf("  %-22s %s\n", left, o->help);
    }
    if (usage->examples) printf("\nexamples:\n%s", usage->examples);
}

static const Option *find_option(const Usage *usage, const char *text, size_t n)
{
    for (int i = 0; i < usage->n_options; i++)
        if (usage->options[i].kind == OPTION_FOLDER && strncmp(text, usage->options[i].name, 2) == 0)
            return &usage->options[i];
        else if (strlen(usage->options[i].name) == n && memcmp(usage->options[i].name, text, n) == 0)
            return &usage->options[i];
    return NULL;
}

int read_number(const char *option, const char *text, int64_t *value)
{
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    *value = number;
    if (!*text || *end || isspace((unsigned char)*text))
        return fail_usage("%s takes a whole number, not '%s'", option, text);
    return !errno && number >= 0 && number <= INT32_MAX
               ? -1
               : fail_usage("%s takes a number from 0 to %d, not %s", option, INT32_MAX, text);
}

// Seconds in decimal digits, as 2 or 0.2.
static int read_seconds(const char *option, const char *text, double *value)
{
    const size_t whole = strspn(text, "0123456789"),
                 part = text[whole] == '.' ? strspn(text + whole + 1, "0123456789") : 0;
    if (whole + part == 0 || text[whole + (text[whole] == '.') + part])
        return fail_usage("%s takes seconds, as 2 or 0.2, not '%s'", option, text);
    *value = 0;
    for (size_t i = 0; i < whole; i++) *value = *value * 10 + (text[i] - '0');
    double unit = 1;
    for (size_t i = 0; i < part; i++) *value += (text[whole + 1 + i] - '0') * (unit /= 10);
    return *value <= INT32_MAX ? -1 : fail_usage("%s takes seconds from 0 to %d, not %s", option, INT32_MAX, text);
}

static int take_folder(const Option *option, const char *text)
{
    Folders *const folders = option->value;
    struct stat st;
    if (stat(text, &st) != 0 || !S_ISDIR(st.st_mode))
        return fail_usage("%s %s: there is no such folder", option->name, text);
    if (folders->n == COUNT(folders->items))
        return fail_usage("%s is given more than %d times", option->name, COUNT(folders->items));
    folders->items[folders->n++] = text;
    return -1;
}

static int fail_option(const Usage *usage, const char *text)
{
    const char *names[64];
    int n = 0;
    for (; n < usage->n_options && n < COUNT(names); n++) names[n] = usage->options[n].name;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    const int words = (int)strcspn(strchr(usage->line, ' ') + 1, " ") + 5;
    fail_usage("unknown option '%s'; see '%.*s --help'", text, words, usage->line);
    print_near(name, names, n);
    return EXIT_USAGE;
}

// One option at argv[*i]; -1 when it was taken.
static int take_option(const Usage *usage, int argc, char **argv, int *i)
{
    const char *const text = argv[*i];
    const size_t n = strcspn(text, "=");
    const Option *const option = find_option(usage, text, n);
    if (!option) return fail_option(usage, text);
    if (option->kind == OPTION_FLAG) {
        *(bool *)option->value = true;
        return text[n] ? fail_usage("%s takes no value", option->name) : -1;
    }
    if (option->kind == OPTION_FILE) {
        *(const char **)option->value = text[n] ? text + n + 1 : "-";
        return text[n] && !text[n + 1]
                   ? fail_usage("%s= needs a value: %s=%s", option->name, option->name, option->argument)
                   : -1;
    }
    const bool joined = option->kind == OPTION_FOLDER ? text[2] != 0 : text[n] != 0;
    const char *value = !joined ? NULL : option->kind == OPTION_FOLDER ? text + 2 : text + n + 1;
    if (!value && *i + 1 < argc) value = argv[++*i];
    if (!value || !*value)
        return fail_usage("%s needs a value: %s%s%s", option->name, option->name,
                          option->kind == OPTION_FOLDER ? " " : "=", option->argument);
    if (option->kind == OPTION_NUMBER) return read_number(option->name, value, option->value);
    if (option->kind == OPTION_SECONDS) return read_seconds(option->name, value, option->value);
    if (option->kind == OPTION_FOLDER) return take_folder(option, value);
    *(const char **)option->value = value;
    return -1;
}

int parse_options(const Usage *usage, int argc, char **argv, int *n)
{
    bool only_files = false;
    *n = 0;
    for (int i = 0; i < argc; i++) {
        if (!only_files && strcmp(argv[i], "--") == 0) {
            only_files = true;
        } else if (only_files || argv[i][0] != '-' || !argv[i][1]) {
            argv[(*n)++] = argv[i];
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help(usage);
            return EXIT_OK;
        } else {
            const int end = take_option(usage, argc, argv, &i);
            if (end >= 0) return end;
        }
    }
    return -1;
}

// ---- printing

static bool is_terminal(FILE *file)
{
    const char *const term = getenv("TERM");
    return isatty(fileno(file)) && !(term && strcmp(term, "dumb") == 0);
}

const char *paint(FILE *file, const char *ansi)
{
    const char *const no_color = getenv("NO_COLOR");
    return is_terminal(file) && !(no_color && *no_color) ? ansi : "";
}

static bool progress_shown;

void progress(const char *format, ...)
{
    char line[160];
    va_list args;
    if (!is_terminal(stderr)) return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fprintf(stderr, "\r\033[K%.78s", line);
    fflush(stderr);
    progress_shown = true;
}

void progress_end(void)
{
    if (progress_shown) fputs("\r\033[K", stderr);
    progress_shown = false;
}

static FILE *json_file;

bool output_lost;

FILE *json_output(void)
{
    if (json_file) return json_file;
    fflush(stdout);
    const int out = dup(STDOUT_FILENO);
    json_file = out >= 0 ? fdopen(out, "w") : NULL;
    if (!json_file) return stdout;
    dup2(STDERR_FILENO, STDOUT_FILENO);
    return json_file;
}

void json_output_end(void)
{
    if (!json_file) return;
    fflush(NULL);
    dup2(fileno(json_file), STDOUT_FILENO);
    output_lost |= ferror(json_file) != 0;
    output_lost |= fclose(json_file) != 0;
    json_file = NULL;
}

int output_text(const char *path, const Text *text)
{
    if (strcmp(path, "-") == 0) {
        fwrite(text_cstr(text), 1, text->length, stdout);
        return EXIT_OK;
    }
    if (!file_write(path, text_cstr(text), text->length)) {
        fprintf(stderr, "kiln: cannot write %s: %s\n", path, strerror(errno));
        return EXIT_FAILED;
    }
    return EXIT_OK;
}

// Messages about a source begin with its place; all others are the command's own.
static bool has_place(const char *message)
{
    const char *const error = strstr(message, ": error: "), *const line = strchr(message, '\n');
    return error && (!line || error < line) && error > message && isdigit((unsigned char)error[-1]);
}

int fail_status(const char *what)
{
    static const char placeless[] = "error: ";
    const char *message = kiln_error_message();
    progress_end();
    fflush(stdout);
    if (strncmp(message, placeless, strlen(placeless)) == 0) message += strlen(placeless);
    if (what || !has_place(message)) fprintf(stderr, "kiln: %s%s", what ? what : "", what ? ": " : "");
    fprintf(stderr, "%s%s", message, *message && message[strlen(message) - 1] == '\n' ? "" : "\n");
    return EXIT_FAILED;
}

int fail_usage(const char *format, ...)
{
    va_list args;
    progress_end();
    fputs("kiln: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    putc('\n', stderr);
    return EXIT_USAGE;
}

void print_near(const char *name, const char *const *candidates, int n)
{
    const char *const near = nearest_name(name, candidates, n);
    if (near) fprintf(stderr, "kiln: did you mean '%s'?\n", near);
}

int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// ---- files

typedef struct Paths {
    VEC(const char *) list;
    Arena *arena;
} Paths;

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static void add_folder(Paths *paths, const char *folder)
{
    DIR *const dir = opendir(folder);
    for (const struct dirent *item; dir && (item = readdir(dir)) != NULL;) {
        struct stat st;
        if (item->d_name[0] == '.') continue;
        const char *const path =
            arena_printf(paths->arena, "%s%s%s", folder, ends_with(folder, "/") ? "" : "/", item->d_name);
        if (stat(path, &st) != 0) continue;
        if (S_ISDIR(st.st_mode)) add_folder(paths, path);
        else if (ends_with(path, ".tile")) VEC_PUSH(paths->arena, &paths->list, path);
    }
    if (dir) closedir(dir);
}

void print_near_file(const char *path)
{
    const char *const slash = strrchr(path, '/');
    char near[256];
    if (nearest_file(path, near, sizeof near))
        fprintf(stderr, "kiln: did you mean '%.*s%s'?\n", slash ? (int)(slash - path) + 1 : 0, path, near);
}

static int compare_paths(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

bool find_tile_files(Arena *arena, int n_args, char **args, const char ***paths, int *n)
{
    Paths found = { .arena = arena };
    for (int i = 0; i < n_args; i++) {
        struct stat st;
        const int before = found.list.count;
        if (stat(args[i], &st) != 0) {
            fail_usage("%s: %s", args[i], strerror(errno));
            print_near_file(args[i]);
            return false;
        }
        if (S_ISDIR(st.st_mode)) add_folder(&found, args[i]);
        else VEC_PUSH(arena, &found.list, args[i]);
        if (found.list.count == before) return fail_usage("%s: no .tile files in it", args[i]), false;
        qsort(found.list.items + before, (size_t)(found.list.count - before), sizeof *found.list.items, compare_paths);
    }
    *paths = found.list.items;
    *n = found.list.count;
    return true;
}

kiln_status load_program(const char *path, const Folders *folders, kiln_program **program)
{
    return kiln_program_load(path, NULL, &(kiln_program_options){ folders->items, folders->n }, program);
}

const char *kernels_folder(Arena *arena)
{
    char path[PATH_BYTES];
    return library_folder(path) ? arena_copy_text(arena, path, strlen(path)) : "kernels";
}

const char *device_name_or_default(const char *given)
{
    const char *const wanted = getenv("KILN_TEST_DEVICE");
    return given ? given : wanted && *wanted ? wanted : "cpu";
}

int with_arena(int (*work)(Arena *arena, void *context), void *context)
{
    Arena *const arena = arena_new();
    if (arena && setjmp(arena->out_of_memory) == 0) {
        const int result = work(arena, context);
        arena_free(arena);
        return result;
    }
    arena_free(arena);
    fprintf(stderr, "kiln: out of memory\n");
    return EXIT_FAILED;
}

// ---- work on several threads

typedef struct Work {
    void (*task)(void *, int);
    void *context;
    int n;
    _Atomic int next;
} Work;

static void *do_work(void *context)
{
    Work *const work = context;
    for (int i; (i = atomic_fetch_add(&work->next, 1)) < work->n;) work->task(work->context, i);
    return NULL;
}

void in_parallel(int n, void (*task)(void *context, int i), void *context)
{
    enum { MOST = 64 };
    Work work = { task, context, n, 0 };
    pthread_t threads[MOST];
    int started = 0;
    const int wanted = threads_count() < n ? threads_count() : n;
    for (; started < wanted - 1 && started < MOST; started++)
        if (pthread_create(&threads[started], NULL, do_work, &work) != 0) break;
    do_work(&work);
    while (started > 0) pthread_join(threads[--started], NULL);
}
