// SPDX-License-Identifier: MIT
// fmt.c - `kiln fmt`: sources in canonical form.
#include "tools/tool.h"
#include "syntax/format.h"
#include "base/memory.h"

#include <errno.h>
#include <string.h>

typedef struct FmtOptions {
    bool check, print;
    int changed, n_args;
    char **args;
} FmtOptions;

static int format_file(Arena *arena, FmtOptions *options, const char *path)
{
    size_t n;
    Text out = { .arena = arena };
    char *const bytes = file_read(path, &n);
    if (!bytes) return fprintf(stderr, "kiln: cannot read %s: %s\n", path, strerror(errno)), EXIT_FAILED;
    const Source source = { .path = path, .text = arena_copy_text(arena, bytes, n), .length = (int)n };
    memory_free(bytes);
    Diags *const diags = diags_new(arena);
    if (!format_source(arena, diags, &source, &out)) {
        program_fail(diags);
        return fail_status(NULL);
    }
    const bool same = out.length == n && memcmp(text_cstr(&out), source.text, n) == 0;
    options->changed += !same;
    if (options->print) fwrite(text_cstr(&out), 1, out.length, stdout);
    else if (!same && options->check) printf("%s\n", path);
    else if (!same && !file_write(path, out.data, out.length))
        return fprintf(stderr, "kiln: cannot write %s: %s\n", path, strerror(errno)), EXIT_FAILED;
    return EXIT_OK;
}

static int format_files(Arena *arena, void *context)
{
    FmtOptions *const options = context;
    const char **paths;
    int n, result = EXIT_OK;
    if (!find_tile_files(arena, options->n_args, options->args, &paths, &n)) return EXIT_USAGE;
    for (int i = 0; i < n; i++)
        if (format_file(arena, options, paths[i]) != EXIT_OK) result = EXIT_FAILED;
    return options->check && options->changed ? EXIT_FAILED : result;
}

int tool_fmt(int argc, char **argv)
{
    FmtOptions o = { .args = argv };
    const Option options[] = {
        { "--check", OPTION_FLAG, &o.check, NULL, "change nothing; print the files that would change and end with 1" },
        { "--print", OPTION_FLAG, &o.print, NULL, "print the result instead of changing the file" },
    };
    const Usage usage = { "kiln fmt [OPTION...] FILE|FOLDER...",
                          "Brings .tile files into canonical form. Comments stay; doing it twice changes nothing more.",
                          options, COUNT(options),
                          "  kiln fmt kernels/\n  kiln fmt --check kernels/     in a pre-commit hook\n" };
    const int end = parse_options(&usage, argc, argv, &o.n_args);
    if (end >= 0) return end;
    return o.n_args ? with_arena(format_files, &o) : fail_usage("fmt: which files? see 'kiln fmt --help'");
}
