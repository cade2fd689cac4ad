// SPDX-License-Identifier: MIT
// profile_ncu.c - `kiln profile` where Nsight Compute is installed: this command runs again under it (--once), its report is
// printed as CSV (ncu.h) and read, and instructions are put to lines of the source (sass_lines.h).
#include "tools/profile.h"
#include "base/memory.h"
#include "toolchain/toolchain.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { SECONDS = 300, PAGE_BYTES = 128 << 20, ARGS_MAX = 64 };

// ---- the program

// $KILN_NCU, in $PATH, or where CUDA's installer puts it.
static bool find_ncu(char path[PATH_BYTES])
{
    const char *const given = getenv("KILN_NCU");
    static const char *const places[] = { "ncu", "/usr/local/cuda/bin/ncu" };
    if (given) return *given && process_find(given, path);
    for (int i = 0; i < COUNT(places); i++)
        if (process_find(places[i], path)) return true;
    return false;
}

typedef struct CommandLine {
    char *items[ARGS_MAX + 1];
    int n;
} CommandLine;

static void add(CommandLine *command, const char *text)
{
    if (command->n < ARGS_MAX) command->items[command->n++] = (char *)text;
    command->items[command->n] = NULL;
}

static void add_all(CommandLine *command, const char *const *texts, int n)
{
    for (int i = 0; i < n; i++) add(command, texts[i]);
}

// Sections, as their metrics have other names in other versions; three more, which are in none.
static const char *const collected[] = {
    "--target-processes", "application-only",
    "--kernel-name",      "regex:kiln_",
    "--section",          "SpeedOfLight",
    "--section",          "ComputeWorkloadAnalysis",
    "--section",          "MemoryWorkloadAnalysis",
    "--section",          "WarpStateStats",
    "--section",          "SourceCounters",
    "--metrics",          "dram__bytes_read.sum,dram__bytes_write.sum,lts__t_bytes.sum",
};

// What a page of the report says; memory_alloc'ed. NULL: after a message.
static char *print_page(const char *ncu, const char *report, const char *page)
{
    CommandLine command = { .n = 0 };
    char *const text = memory_alloc(PAGE_BYTES);
    add_all(&command, (const char *[]){ ncu, "--import", report, "--csv", "--page", page, "--print-units", "base" }, 8);
    if (strcmp(page, "source") == 0) add_all(&command, (const char *[]){ "--print-source", "sass" }, 2);
    const int result = text ? process_run(command.items, NULL, SECONDS, text, PAGE_BYTES) : -1;
    if (result == 0) return text;
    fprintf(stderr, "kiln: ncu cannot print its page '%s': %s\n", page,
            text && *text ? text : strerror(text ? errno : ENOMEM));
    memory_free(text);
    return NULL;
}

// ---- running under it

// The line of its output that says why, else the last one.
static void explain_failure(const char *output)
{
    const char *const refused = strstr(output, "ERR_NVGPUCTRPERM"), *const error = strstr(output, "==ERROR==");
    const size_t n = error ? strcspn(error, "\n") : 0;
    if (refused)
        fprintf(stderr, "kiln: ncu may not read the hardware's counters here: the driver lets only administrators "
                        "(ERR_NVGPUCTRPERM)\n");
    else if (error) fprintf(stderr, "kiln: ncu: %.*s\n", (int)(n < 300 ? n : 300), error);
    else fprintf(stderr, "kiln: ncu made no report: %.300s\n", output);
}

// ncu gives the name an ending, of which it has two. NULL: it made none.
static const char *find_report(Arena *arena, const char *report)
{
    static const char *const endings[] = { ".ncu-rep", ".ncu-repz", "" };
    for (int i = 0; i < COUNT(endings); i++) {
        const char *const path = arena_printf(arena, "%s%s", report, endings[i]);
        if (access(path, R_OK) == 0) return path;
    }
    return NULL;
}

// The report's file; NULL: after a message.
static const char *collect(const Profile *p, const char *ncu, const char *folder, const char *report)
{
    static char output[1 << 16], self[PATH_BYTES];
    const ProfileOptions *const o = p->options;
    CommandLine command = { .n = 0 };
    char parts[16];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    snprintf(parts, sizeof parts, "%d", kernel_parts(p->open->build->kernel));
    add_all(&command, (const char *[]){ ncu, "-f", "-o", report, "--launch-count", parts }, 6);
    add_all(&command, collected, COUNT(collected));
    add_all(&command, (const char *[]){ self, "profile", "--once" }, 3);
    add_all(&command, (const char *const *)o->argv, o->argc);
    if (n <= 0 || command.n == ARGS_MAX) {
        fprintf(stderr, "kiln: ncu cannot be given this command\n");
        return NULL;
    }
    progress("ncu runs %s", p->request.build.name);
    const int result = process_run(command.items, folder, SECONDS, output, sizeof output);
    progress_end();
    const char *const found = result == 0 ? find_report(p->arena, report) : NULL;
    if (!found) explain_failure(output);
    return found;
}

static bool read_pages(Profile *p, const char *ncu, const char *report)
{
    char *const raw = print_page(ncu, report, "raw");
    char *const source = raw ? print_page(ncu, report, "source") : NULL;
    bool ok = source != NULL;
    if (raw && !ncu_read_raw(p->arena, raw, strlen(raw), &p->counts.launches)) {
        fprintf(stderr, "kiln: ncu's page 'raw' has no table\n");
        ok = false;
    }
    if (ok && !ncu_read_source(p->arena, source, strlen(source), &p->counts.launches))
        fprintf(stderr, "kiln: ncu's page 'source' has no table: lines are not known\n");
    memory_free(raw);
    memory_free(source);
    return ok;
}

// ---- lines

static kiln_status collect_places(const Compiled *compiled, void *context)
{
    Profile *const p = context;
    CodePlaces part = { .symbol = arena_printf(p->arena, "%s", compiled->plan->symbol) };
    const CudaArch arch = cuda_arch(p->request.build.target.gpu, p->request.build.device->arch);
    const kiln_status status = sass_places(p->arena, compiled, arch, &part.places);
    if (!status) VEC_PUSH(p->arena, &p->counts.parts, part);
    return status;
}

static void find_places(Profile *p)
{
    BuildRequest request = p->request.build;
    request.target.trace = false;
    request.target.places = true;
    request.bindings = p->open->check->build;
    request.n_bindings = p->open->check->n_build;
    if (kernel_compile(&request, NULL, NULL, collect_places, p))
        fprintf(stderr, "kiln: %s: lines are not known\n", kiln_error_message());
}

// ---- all of it

void profile_ncu(Profile *p)
{
    char ncu[PATH_BYTES], folder[PATH_BYTES];
    if (!find_ncu(ncu)) {
        if (!p->options->json)
            printf("Nsight Compute's ncu is not in PATH: no counts of the hardware (KILN_NCU gives its file)\n");
        return;
    }
    if (work_folder_make(true, folder)) {
        fail_status(NULL);
        return;
    }
    const char *const report = collect(p, ncu, folder, arena_printf(p->arena, "%s/report", folder));
    if (report && read_pages(p, ncu, report)) find_places(p);
    folder_remove(folder);
}
