// SPDX-License-Identifier: MIT
// main.c - the `kiln` command: a table of subcommands.
#include "tools/tool.h"

#include <string.h>

static const Command commands[] = {
    { "run",     tool_run,     "build a kernel, check it against its reference, time it" },
    { "test",    tool_test,    "run all checks of files or folders" },
    { "build",   tool_build,   "compile ahead of time, to C, a header or an object" },
    { "bench",   tool_bench,   "tables of times beside the ceilings and baselines of this machine" },
    { "dump",    tool_dump,    "print what any stage of the compiler made" },
    { "explain", tool_explain, "say what was decided for a kernel, and why" },
    { "fmt",     tool_fmt,     "format .tile files" },
    { "devices", tool_devices, "list devices and toolchains" },
    { "cache",   tool_cache,   "show or clean the cache of compiled kernels" },
};

static int print_overview(FILE *out)
{
    fprintf(out, "usage: kiln COMMAND [OPTION...] [ARGUMENT...]\n\nKiln compiles tile kernels for this machine's CPU and "
                 "for NVIDIA GPUs.\n\ncommands:\n");
    for (int i = 0; i < COUNT(commands); i++)
        fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].summary);
    fprintf(out, "\n'kiln COMMAND --help' shows a command's options and examples.\n");
    return out == stdout ? EXIT_OK : EXIT_USAGE;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return print_overview(stderr);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)
        return print_overview(stdout);
    if (strcmp(argv[1], "--version") == 0)
        return printf("kiln %s\n", KILN_VERSION) < 0;
    program_color = *paint(stderr, RED) != 0;
    for (int i = 0; i < COUNT(commands); i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 2, argv + 2);
    return fail_usage("'%s' is not a command; see 'kiln --help'", argv[1]);
}
