// SPDX-License-Identifier: MIT
// cache.c - `kiln cache`: where compiled kernels are kept, how much, and how to be rid of them.
#include "tools/tool.h"

static void print_bytes(int64_t bytes)
{
    const double mb = (double)bytes / 1e6;
    printf(mb < 1000 ? "%.1f MB" : "%.0f MB", mb);
}

static int clean(int64_t days)
{
    const CacheUse use = cache_clean((int)days);
    printf("removed %lld files, ", (long long)use.entries);
    print_bytes(use.bytes);
    printf("\n");
    return EXIT_OK;
}

int tool_cache(int argc, char **argv)
{
    bool wants_clean = false, json = false;
    int64_t days = 0;
    const Option options[] = {
        { "--clean", OPTION_FLAG, &wants_clean, NULL, "remove what it holds" },
        { "--older", OPTION_NUMBER, &days, "DAYS", "with --clean: only what was made more than DAYS days ago" },
        { "--json", OPTION_FLAG, &json, NULL, "print one JSON object" },
    };
    const Usage usage = {
        "kiln cache [OPTION...]",
        "Shows the folder of compiled kernels ($KILN_CACHE, else $XDG_CACHE_HOME/kiln, else ~/.cache/kiln) and\n"
        "its size. It may be removed at any time; kernels are then compiled again.",
        options, COUNT(options), "  kiln cache\n  kiln cache --clean --older=30\n"
    };
    char folder[PATH_BYTES];
    int n;
    const int end = parse_options(&usage, argc, argv, &n);
    if (end >= 0) return end;
    if (n > 0) return fail_usage("cache takes no argument, but '%s' was given", argv[0]);
    if (days && !wants_clean) return fail_usage("--older=%lld goes with --clean", (long long)days);
    if (cache_check()) return fail_status(NULL);
    if (!cache_folder(folder)) return fail_usage("there is no cache folder: set KILN_CACHE or HOME");
    if (wants_clean) return clean(days);
    const CacheUse use = cache_measure();
    if (json) {
        printf("{\"folder\": ");
        print_json_text(stdout, folder);
        printf(", \"files\": %lld, \"bytes\": %lld}\n", (long long)use.entries, (long long)use.bytes);
        return EXIT_OK;
    }
    printf("%s: %lld files, ", folder, (long long)use.entries);
    print_bytes(use.bytes);
    printf("\n");
    return EXIT_OK;
}
