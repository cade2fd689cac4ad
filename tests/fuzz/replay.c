// SPDX-License-Identifier: MIT
// replay.c - runs a fuzz target over files and directories; for compilers that have no fuzzer, also over variations.
//
//     NAME_fuzz FILE|DIRECTORY...                 each of them once
//     NAME_fuzz --seconds=N FILE|DIRECTORY...     then random variations of them, for N seconds
//
// An input that takes more than 20 s of a processor ends the program, with its name or, of a variation, its bytes.
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_SECONDS = 20, KEPT_MAX = 4096, KEPT_BYTES_MAX = 1 << 16, EDITS_MAX = 8 };

static int runs;
static struct {
    uint8_t *data;
    size_t size;
} kept[KEPT_MAX];
static int n_kept;

// ---- a limit of time for each input

static const char *volatile input_name;
static const uint8_t *volatile input;
static volatile size_t input_size;

static void say(const void *bytes, size_t n)
{
    if (write(STDERR_FILENO, bytes, n) < 0) _exit(1);
}

static void took_too_long(int signal)
{
    (void)signal;
    if (input_name) say(input_name, strlen(input_name));
    else say(input, input_size);
    say("\n: this input takes too long\n", 28);
    abort();
}

// Of the processor, so that other work on the machine does not count.
static void limit_time(int seconds) { setitimer(ITIMER_PROF, &(struct itimerval){ .it_value.tv_sec = seconds }, NULL); }

static void try_input(const char *name, const uint8_t *data, size_t size)
{
    input_name = name;
    input = data;
    input_size = size;
    limit_time(INPUT_SECONDS);
    LLVMFuzzerTestOneInput(data, size);
    limit_time(0);
    runs++;
}

static void keep_or_free(uint8_t *data, size_t size)
{
    if (n_kept == KEPT_MAX || size == 0 || size > KEPT_BYTES_MAX) {
        free(data);
        return;
    }
    kept[n_kept].data = data;
    kept[n_kept++].size = size;
}

static int replay_file(const char *path)
{
    FILE *const file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "%s: cannot be read\n", path);
        return 1;
    }
    uint8_t *data = NULL;
    size_t size = 0, got;
    do {
        uint8_t *const grown = realloc(data, size + 65536);
        if (!grown) abort();
        data = grown;
        size += got = fread(data + size, 1, 65536, file);
    } while (got > 0);
    fclose(file);
    try_input(path, data, size);
    keep_or_free(data, size);
    return 0;
}

static int replay(const char *path)
{
    DIR *const directory = opendir(path);
    if (!directory) return replay_file(path);
    int failed = 0;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char inner[4096];
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.') failed += replay(inner);
    }
    closedir(directory);
    return failed;
}

// ---- variations

static size_t below(size_t n) { return n ? (size_t)rand() % n : 0; }

// Bytes changed, a piece repeated or taken out, or one of another input put in.
static size_t edit(uint8_t *data, size_t size, size_t room)
{
    const int other = (int)below((size_t)n_kept);
    const size_t at = below(size), rest = size - at;
    size_t n = 1 + below(rest < 32 ? rest : 32);
    switch (rand() % 4) {
    case 0: data[at] = (uint8_t)(rand() & 1 ? rand() : data[below(size)]); return size;
    case 1:
        if (n >= size) return size;
        memmove(data + at, data + at + n, rest - n);
        return size - n;
    case 2:
        if (size + n > room) return size;
        memmove(data + at + n, data + at, rest);
        return size + n;
    default:
        n = n < kept[other].size ? n : kept[other].size;
        if (n > rest) n = rest;
        memcpy(data + at, kept[other].data + below(kept[other].size - n + 1), n);
        return size;
    }
}

static void vary(double seconds)
{
    static uint8_t data[KEPT_BYTES_MAX + 32 * EDITS_MAX];
    const time_t end = time(NULL) + (time_t)seconds;
    while (time(NULL) < end) {
        const int from = (int)below((size_t)n_kept);
        size_t size = kept[from].size;
        memcpy(data, kept[from].data, size);
        for (int edits = 1 + rand() % EDITS_MAX; edits > 0 && size > 0; edits--) size = edit(data, size, sizeof data);
        uint8_t *const exact = malloc(size + !size); // so that a sanitizer sees where it ends
        if (!exact) abort();
        memcpy(exact, data, size);
        try_input(NULL, exact, size);
        free(exact);
    }
}

int main(int argc, char **argv)
{
    int failed = 0;
    signal(SIGPROF, took_too_long);
    const double seconds = argc > 1 && strncmp(argv[1], "--seconds=", 10) == 0 ? atof(argv[1] + 10) : 0;
    for (int i = seconds > 0 ? 2 : 1; i < argc; i++) failed += replay(argv[i]);
    printf("%d inputs replayed\n", runs);
    fflush(stdout);
    if (seconds > 0 && n_kept) {
        srand((unsigned)time(NULL));
        runs = 0;
        vary(seconds);
        printf("%d variations tried\n", runs);
    }
    for (int i = 0; i < n_kept; i++) free(kept[i].data);
    return failed > 0 || runs == 0;
}
