// SPDX-License-Identifier: MIT
// main.c - the `kiln` command: a table of subcommands.
#include "tools/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

// clang-format off
static const Command commands[] = {
    { "run",     tool_run,     "build a kernel, check it against its reference, time it" },
    { "test",    tool_test,    "run all checks of files or folders" },
    { "build",   tool_build,   "compile ahead of time, to C, a header or an object" },
    { "bench",   tool_bench,   "tables of times beside the ceilings and baselines of this machine" },
    { "tune",    tool_tune,    "find the build values with which a kernel is the fastest" },
    { "profile", tool_profile, "show where the time of a kernel goes, by role and by line" },
    { "dump",    tool_dump,    "print what any stage of the compiler made" },
    { "explain", tool_explain, "say what was decided for a kernel, and why" },
    { "layout",  tool_layout,  "draw which thread, or which byte of shared memory, has which element" },
    { "fmt",     tool_fmt,     "format .tile files" },
    { "lsp",     tool_lsp,     "a language server, for editors" },
    { "list",    tool_list,    "list the kernels of the library" },
    { "devices", tool_devices, "list devices and toolchains" },
    { "cache",   tool_cache,   "show or clean the cache of compiled kernels" },
};
// clang-format on

static int print_overview(FILE *out)
{
    fprintf(out,
            "usage: kiln COMMAND [OPTION...] [ARGUMENT...]\n\nKiln compiles tile kernels for this machine's CPU and "
            "for NVIDIA GPUs.\n\ncommands:\n");
    for (int i = 0; i < COUNT(commands); i++) fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].summary);
    fprintf(out,
            "\n'kiln COMMAND --help' and 'kiln help COMMAND' show a command's options and examples; 'kiln --version', "
            "what this is.\n");
    return out == stdout ? EXIT_OK : EXIT_USAGE;
}

static const Command *find_command(const char *name)
{
    for (int i = 0; i < COUNT(commands); i++)
        if (strcmp(name, commands[i].name) == 0) return &commands[i];
    return NULL;
}

static int fail_command(const char *name)
{
    const char *names[COUNT(commands)];
    for (int i = 0; i < COUNT(commands); i++) names[i] = commands[i].name;
    fail_usage("'%s' is not a command; see 'kiln --help'", name);
    print_near(name, names, COUNT(names));
    return EXIT_USAGE;
}

// "kiln help run" is "kiln run --help".
static int help(int argc, char **argv)
{
    static char wanted[] = "--help";
    char *only[] = { wanted };
    const Command *const command = argc > 0 ? find_command(argv[0]) : NULL;
    if (argc == 0) return print_overview(stdout);
    return command ? command->run(1, only) : fail_command(argv[0]);
}

static bool is_one_of(const char *text, const char *a, const char *b, const char *c)
{
    return strcmp(text, a) == 0 || strcmp(text, b) == 0 || strcmp(text, c) == 0;
}

static int run_command(int argc, char **argv)
{
    if (argc < 2) return print_overview(stderr);
    if (is_one_of(argv[1], "--help", "-h", "help")) return help(argc - 2, argv + 2);
    if (is_one_of(argv[1], "--version", "-V", "version")) return printf("kiln %s\n", KILN_VERSION) < 0;
    const Command *const command = find_command(argv[1]);
    program_color = *paint(stderr, RED) != 0;
    return command ? command->run(argc - 2, argv + 2) : fail_command(argv[1]);
}

// A file that is opened must not take the place of an output that was closed: writing to that one fails.
static void hold_outputs(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0) open("/dev/null", O_RDONLY);
}

// What was printed has to arrive, be it into a full disk or a closed output.
static int finish(int result)
{
    const bool failed = ferror(stdout) != 0 || output_lost;
    if (fflush(stdout) == 0 && !failed) return result;
    fprintf(stderr, "kiln: cannot write the output: %s\n", strerror(errno));
    return result == EXIT_OK ? EXIT_FAILED : result;
}

int main(int argc, char **argv)
{
    hold_outputs();
    return finish(run_command(argc, argv));
}
