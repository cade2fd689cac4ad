// SPDX-License-Identifier: MIT
// tool.h - what the subcommands of `kiln` share: options, help, terminals, and how they end.
#ifndef KILN_TOOLS_TOOL_H
#define KILN_TOOLS_TOOL_H

#include "base/json.h"
#include "runtime/build.h"

#include <stdio.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

// A row of main.c's table. `run` gets the arguments after its name.
typedef struct Command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary; // of `kiln --help`
} Command;

int tool_test(int argc, char **argv);
int tool_run(int argc, char **argv);
int tool_build(int argc, char **argv);
int tool_dump(int argc, char **argv);
int tool_explain(int argc, char **argv);
int tool_bench(int argc, char **argv);
int tool_fmt(int argc, char **argv);
int tool_devices(int argc, char **argv);
int tool_cache(int argc, char **argv);
int tool_list(int argc, char **argv);
int tool_tune(int argc, char **argv);
int tool_lsp(int argc, char **argv);
int tool_profile(int argc, char **argv);
int tool_layout(int argc, char **argv);

// `kiln tune --gemm-table`, which stands in bench: times tiles of kiln_gemm on a device, and makes its table from times.
typedef struct GemmTableOptions {
    const char *path;   // the file of times, which those of this run are added to
    const char *device; // NULL: nothing is timed
    const char *beside; // the program that times a peer, or NULL
    const char *output; // the table's source, or NULL
    double seconds;
    int64_t seed, steps;
    int n_args;
    char **args; // more files of times
} GemmTableOptions;

// ---- notes.c
typedef VEC(const char *) NoteTexts;
// The performance notes of a kernel, or of an operator's steps, that are not among them yet; each ends with a newline.
void notes_collect(Arena *arena, NoteTexts *notes, const kiln_kernel *kernel);
void notes_show(Arena *arena, const kiln_kernel *kernel); // on standard output

// ---- options: --name, --name=value or --name value; a folder: -I value or -Ivalue, any number of times; a file that is written:
// --name for standard output, which is "-", or --name=value
typedef enum { OPTION_FLAG, OPTION_TEXT, OPTION_FILE, OPTION_NUMBER, OPTION_SECONDS, OPTION_FOLDER } OptionKind;
typedef struct Folders {
    const char *items[32];
    int n;
} Folders;
typedef struct Option {
    const char *name; // "--device"
    OptionKind kind;
    void *
        value; // bool *, const char ** (of OPTION_FILE, too), int64_t *, of seconds double *, or Folders *; numbers: 0 to INT32_MAX
    const char *argument, *help; // "NAME", "run on this device"
} Option;
typedef struct Usage {
    const char *line; // "kiln test [OPTION...] FILE|FOLDER..."
    const char *about;
    const Option *options;
    int n_options;
    const char *examples;
} Usage;
// Takes the options out of argv; what is left stands in argv[0 .. *n). Returns -1 to go on, else the exit status
// (after --help, or a mistake that was printed).
int parse_options(const Usage *usage, int argc, char **argv, int *n);
// The number that an option says, 0 or more: -1, or the exit status after a mistake that was printed.
int read_number(const char *option, const char *text, int64_t *value);

// ---- printing
const char *paint(FILE *file, const char *ansi); // the escape sequence on terminals, else ""
#define RED "\033[1;31m"
#define GREEN "\033[32m"
#define YELLOW "\033[33m"
#define BOLD "\033[1m"
#define PLAIN "\033[0m"
void progress(const char *format, ...) __attribute__((format(printf, 1, 2))); // one line, overwritten; terminals only
void progress_end(void);
// Where an object of JSON goes: standard output. From the first call on, what kernels print goes to standard error.
FILE *json_output(void);
void json_output_end(void);
// Into a file, or "-": standard output. The exit status, after a message if it fails.
int output_text(const char *path, const Text *text);
extern bool output_lost;           // some of it could not be written
int fail_status(const char *what); // prints the library's message; EXIT_FAILED
int fail_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
void print_near(const char *name, const char *const *candidates, int n); // "did you mean ...?", if one is near
void print_near_file(const char *path); // the same among the .tile files and folders beside it
// Ctrl-C from here on: `summary` is printed, and the command ends with 130. Threads are started after this call.
void on_interrupt(void (*summary)(void *context), void *context);
void output_hold(void); // what is printed, and counted, as one
void output_release(void);
double seconds_now(void);
int compare_doubles(const void *a, const void *b); // for qsort

// "FILE [KERNEL] [NAME=VALUE...]" and the options that choose a target, as a request for the builder.
typedef struct TargetOptions {
    const char *device, *isa;
    int64_t arch;      // without a device: compile only
    bool check, trace; // trace: CUDA code that records when it waits
    Folders folders;
    const char *tuned, *tuned_for; // TUNED_OPTIONS
} TargetOptions;
#define TUNED_OPTIONS(t)                                                                                               \
    { "--tuned", OPTION_TEXT, &(t).tuned, "FILE", "take build values from a file of 'kiln tune'" },                    \
    {                                                                                                                  \
        "--tuned-for", OPTION_TEXT, &(t).tuned_for, "VALUES",                                                          \
            "of its rows the one nearest to these launch values, as M=64,N=4096"                                       \
    }
#define FOLDER_OPTION(f)                                                                                               \
    {                                                                                                                  \
        "-I", OPTION_FOLDER, &(f), "DIR", "look for imports there, before $KILN_PATH and the library"                  \
    }
#define TARGET_OPTIONS(t) DEVICE_OPTIONS(t, "compile for CUDA architecture 90 or 80, with or without a GPU")
#define DEVICE_OPTIONS(t, arch_help)                                                                                   \
    { "--device", OPTION_TEXT, &(t).device, "NAME", "cpu, cuda:0 ... (default: cpu)" },                                \
        { "--arch", OPTION_NUMBER, &(t).arch, "N", arch_help },                                                        \
        { "--isa", OPTION_TEXT, &(t).isa, "NAME", "avx512, avx2 or portable instead of the machine's best" },          \
        { "--check", OPTION_FLAG, &(t).check, NULL, "trap accesses outside tiles and reads of undefined tiles" },      \
        FOLDER_OPTION((t).folders)
typedef struct ToolRequest {
    BuildRequest build;
    const char **values;
    int n_values;  // the NAME=VALUE arguments
    Text bindings; // the same as one text
    const char *tuned, *tuned_for;
} ToolRequest;
// Opens program and device; prints what is wrong and returns the exit status, or -1. `request_close` in any case.
int request_open(ToolRequest *request, Arena *arena, const TargetOptions *options, int n_args, char **args);
int request_bind(ToolRequest *request, Arena *arena); // takes all values as bindings of the build
// Where the parameters' own values do not go together: those of the kernel's first check. False: it has none.
bool bind_first_check(BuildRequest *build);
void request_close(ToolRequest *request);

// Reads a program, with folders for its imports.
kiln_status load_program(const char *path, const Folders *folders, kiln_program **program);
// The kernels of the library, as they are installed or built, else ./kernels; from the arena.
const char *kernels_folder(Arena *arena);
// All .tile files among the arguments and below the folders among them, sorted; `paths` from the arena.
// False after printing what is missing.
bool find_tile_files(Arena *arena, int n_args, char **args, const char ***paths, int *n);
// The device of --device, $KILN_TEST_DEVICE or the CPU.
const char *device_name_or_default(const char *given);
// Runs `work` with an arena; running out of memory ends it with a message.
int with_arena(int (*work)(Arena *arena, void *context), void *context);
// Runs task(context, i) for i < n on as many threads as the machine has.
void in_parallel(int n, void (*task)(void *context, int i), void *context);

int bench_gemm_table(Arena *arena, const GemmTableOptions *options);

#endif
