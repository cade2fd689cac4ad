// SPDX-License-Identifier: MIT
// cc.c - the system's C compiler as the back end of the CPU target.
//
// $CC (with arguments, split at spaces), else cc, gcc or clang, whichever is found first. The source goes to a
// private folder, the object is read back, kept in the cache and opened. Where the cache cannot be written the
// object is opened from the private folder, which can be removed under it.
#define _GNU_SOURCE // secure_getenv
#include "toolchain/toolchain.h"
#include "base/fork.h"
#include "base/memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_WORDS = 64, OUTPUT_BYTES = 4096, SHOWN_LINES = 12 };

typedef struct Command {
    char text[1024]; // the words, each ended by a NUL
    char *words[MAX_WORDS];
    int n;
} Command;

static bool add_words(Command *command, size_t *used, const char *text)
{
    for (text += strspn(text, " \t"); *text; text += strspn(text, " \t")) {
        const size_t n = strcspn(text, " \t");
        if (*used + n + 1 > sizeof command->text || command->n == MAX_WORDS - 1) return false;
        char *const word = memcpy(command->text + *used, text, n);
        word[n] = 0;
        command->words[command->n++] = word;
        *used += n + 1;
        text += n;
    }
    return true;
}

// The compiler and the arguments that $CC brings.
static kiln_status find_compiler(Command *command, const char *machine)
{
    const bool here = !machine || strcmp(machine, cpu_machine()) == 0;
    char other[64];
    snprintf(other, sizeof other, "%s-linux-gnu-gcc", here ? "" : machine);
    const char *const usual[] = { here ? "cc" : other, here ? "gcc" : other, here ? "clang" : other };
    const char *const cc = secure_getenv("CC");
    char path[PATH_BYTES];
    size_t used = 0;
    *command = (Command){ .n = 0 };
    if (cc && cc[strspn(cc, " \t")]) {
        if (!add_words(command, &used, cc)) return status_fail(KILN_TOOLCHAIN, "CC is too long: %zu bytes", strlen(cc));
        if (!process_find(command->words[0], path))
            return status_fail(KILN_TOOLCHAIN, "no C compiler: CC is '%s', but '%s' is not a program%s", cc,
                               command->words[0], strchr(command->words[0], '/') ? "" : " in PATH");
        return KILN_OK;
    }
    for (int i = 0; i < COUNT(usual); i++)
        if (process_find(usual[i], path)) {
            add_words(command, &used, usual[i]);
            return KILN_OK;
        }
    if (!here)
        return status_fail(KILN_TOOLCHAIN,
                           "no C compiler for %s: %s is not in PATH; install it (apt-get install "
                           "gcc-%s-linux-gnu) or name one in CC",
                           machine, other, machine);
    return status_fail(KILN_TOOLCHAIN, "no C compiler: none of cc, gcc, clang is in PATH; install one "
                                       "(apt-get install gcc) or name it in CC");
}

static const char common_flags[] = "-x c -std=gnu11 -w -fPIC -fvisibility=hidden -fno-strict-aliasing -fwrapv -pipe";
// NaN, infinity and the sign of zero keep their meaning: only what cannot be observed is given up.
#define KERNEL_FLAGS "-fno-math-errno -fno-trapping-math -ffp-contract=fast -fopenmp-simd"
// Of checked code the tests are most of its time: what -Og makes of it runs as fast as with -O1, and is built in 0.7 of
// the time.
static const char *const form_flags[] = {
    [CC_KERNEL] = "-O3 " KERNEL_FLAGS,
    [CC_CHECKED] = "-Og " KERNEL_FLAGS,
    [CC_SEQUENTIAL] = "-O1 -ffp-contract=off",
};

const char *cc_isa_flags(const CpuTarget *target)
{
    const CpuForm *const form = cpu_form_of(target);
    return form == cpu_form_of_machine() ? form->native : form->flags;
}

// gcc spills to MMX registers where it has no others, and leaves them so: what uses the x87 stack next, be it another
// kernel's spill, finds it full and reads NaN. Behind -march=native, which allows them.
static const char *flags_of_machine(const char *machine)
{
    return strcmp(machine ? machine : cpu_machine(), "x86_64") == 0 ? "-mno-mmx" : "";
}

static kiln_status make_command(Command *command, const char *machine, const char *flags, CcForm form)
{
    const kiln_status status = find_compiler(command, machine);
    if (status) return status;
    char *const last = command->words[command->n - 1];
    size_t used = (size_t)(last - command->text) + strlen(last) + 1;
    const bool fits = add_words(command, &used, common_flags) && add_words(command, &used, form_flags[form]) &&
                      add_words(command, &used, form == CC_SEQUENTIAL ? "" : flags) &&
                      add_words(command, &used, flags_of_machine(machine));
    return fits ? KILN_OK : status_fail(KILN_TOOLCHAIN, "CC has too many arguments");
}

// Which compiler this is, without asking it: every word that names a program stands with its size and time, so that
// an upgraded compiler, also one after ccache, makes new entries.
static void hash_programs(Hash *hash, const Command *command)
{
    for (int i = 0; i < command->n; i++) {
        char path[PATH_BYTES];
        struct stat st;
        hash_add_text(hash, command->words[i]);
        if (command->words[i][0] == '-' || !process_find(command->words[i], path) || stat(path, &st) != 0) continue;
        const int64_t facts[] = { st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec };
        hash_add_text(hash, path);
        hash_add(hash, facts, sizeof facts);
    }
}

kiln_status cc_hash(Hash *hash, const CpuTarget *target, CcForm form)
{
    Command command;
    const kiln_status status = make_command(&command, NULL, cc_isa_flags(target), form);
    if (status) return status;
    hash_programs(hash, &command);
    hash_add_text(hash, cpu_identity());
    hash_add_text(hash, secure_getenv("CPATH"));
    return KILN_OK;
}

kiln_status cc_describe(const char *machine, const char *flags, char *text, size_t bytes)
{
    Command command;
    const kiln_status status = make_command(&command, machine, flags, CC_KERNEL);
    size_t at = 0;
    for (int i = 0; !status && i < command.n && at < bytes; i++)
        at += (size_t)snprintf(text + at, bytes - at, i ? " %s" : "%s", command.words[i]);
    return status;
}

// ---- running it

static bool says_disk_full(const char *output)
{
    return strstr(output, "No space left on device") || strstr(output, "File too large");
}

static void cut_after_lines(char *text, int lines)
{
    for (char *p = text; *p; p++)
        if (*p == '\n' && --lines == 0) {
            strcpy(p, "\n  ...");
            return;
        }
}

static kiln_status explain_failure(const Command *command, int rc, char *output, const char *what)
{
    if (rc < 0 && errno == ETIMEDOUT)
        return status_fail(KILN_TOOLCHAIN,
                           "the C compiler '%s' did not end within %d seconds on the code made for %s and was "
                           "stopped; KILN_BUILD_SECONDS sets another limit",
                           command->words[0], build_seconds(), what);
    if (rc < 0)
        return status_fail(errno == ENOMEM ? KILN_OUT_OF_MEMORY : KILN_TOOLCHAIN,
                           "the C compiler '%s' could not be started: %s", command->words[0], strerror(errno));
    if (says_disk_full(output))
        return status_fail(KILN_IO, "disk full (or a limit on file sizes reached) while compiling %s with '%s'", what,
                           command->words[0]);
    cut_after_lines(output, SHOWN_LINES);
    const char *const end = rc > 128 ? "was killed by signal" : "failed with exit status";
    return status_fail(KILN_TOOLCHAIN, "the C compiler '%s' %s %d on the code made for %s%s%s", command->words[0], end,
                       rc > 128 ? rc - 128 : rc, what, *output ? ":\n" : " and said nothing", output);
}

// Compiles `source` in `folder` to `result` there.
static kiln_status run_compiler(Command command, const char *folder, const char *source, const char *what,
                                const char *const *options, const char *result)
{
    char in[PATH_BYTES + 16], out[PATH_BYTES + 16], output[OUTPUT_BYTES];
    snprintf(in, sizeof in, "%s/source.c", folder);
    snprintf(out, sizeof out, "%s/%s", folder, result);
    if (!file_write(in, source, strlen(source)))
        return status_fail(KILN_IO, "cannot write %s: %s", in,
                           errno == ENOSPC || errno == EFBIG ? "the disk is full" : strerror(errno));
    for (; *options && command.n < MAX_WORDS - 5; options++) command.words[command.n++] = (char *)*options;
    command.words[command.n++] = "-o";
    command.words[command.n++] = out;
    command.words[command.n++] = in;
    command.words[command.n++] = "-lm"; // after what needs it; with -c it means nothing
    command.words[command.n] = NULL;
    const int rc = process_run(command.words, folder, build_seconds(), output, sizeof output);
    struct stat st;
    return rc == 0 && stat(out, &st) == 0 && st.st_size > 0 ? KILN_OK : explain_failure(&command, rc, output, what);
}

// The loader has a lock, too: a child that was forked while it was held could open nothing any more.
static kiln_status open_object(const char *path, void **object)
{
    fork_hold();
    *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    fork_release();
    return *object ? KILN_OK : status_fail(KILN_TOOLCHAIN, "the compiled code cannot be opened: %s", dlerror());
}

static void entry_file(const char *name, char file[HASH_NAME + 8]) { snprintf(file, HASH_NAME + 8, "%s.so", name); }

// Opens the file behind a descriptor. The loader takes two files of one name for the same one, and numbers of descriptors
// come again; so each gets another spelling of its name: '/' or '/./' for each bit of a counter.
static void *open_descriptor(int fd)
{
    static _Atomic unsigned counter;
    char path[160] = "/proc/self/fd";
    for (unsigned count = ++counter; count; count >>= 1) strcat(path, count & 1 ? "/." : "/");
    snprintf(path + strlen(path), 16, "/%d", fd);
    void *object;
    return open_object(path, &object) ? NULL : object;
}

// What is checked is what is opened: dlopen would crash on a damaged file, and run a foreign one.
void *cc_find(const char *name)
{
    char file[HASH_NAME + 8], *bytes;
    size_t n;
    entry_file(name, file);
    const int fd = cache_open(file, &bytes, &n);
    if (fd < 0) return NULL;
    memory_free(bytes);
    void *const object = open_descriptor(fd);
    close(fd);
    return object;
}

// Moves the new object into the cache and opens it there, or where it is.
static kiln_status keep_object(const char *folder, const char *name, void **object)
{
    char made[PATH_BYTES + 16], file[HASH_NAME + 8];
    size_t n;
    snprintf(made, sizeof made, "%s/object.so", folder);
    entry_file(name, file);
    char *const bytes = file_read(made, &n);
    const bool kept = bytes && cache_write(file, bytes, n);
    memory_free(bytes);
    if (kept && (*object = cc_find(name)) != NULL) return KILN_OK;
    return open_object(made, object);
}

// What is not in the cache.
static kiln_status build_object(Command command, const char *source, const char *what, const char *name, void **object)
{
    static const char *const options[] = { "-shared", NULL };
    char folder[PATH_BYTES];
    kiln_status status = KILN_OK;
    // A cache on a full disk, or one that is being removed, must not stop a build: the second try is made elsewhere.
    for (int try = 0; try < 2; try++) {
        if ((status = work_folder_make(try > 0, folder)) != KILN_OK) return status;
        status = run_compiler(command, folder, source, what, options, "object.so");
        if (!status) status = keep_object(folder, name, object);
        const bool vanished = access(folder, W_OK) != 0;
        folder_remove(folder);
        if (status != KILN_IO && !(status && vanished)) break;
    }
    return status;
}

kiln_status cc_build(const char *source, const CpuTarget *target, CcForm form, const char *what, char name[HASH_NAME],
                     void **object)
{
    Command command;
    Turn turn;
    Hash hash = hash_begin();
    kiln_status status = make_command(&command, NULL, cc_isa_flags(target), form);
    if (!status) status = cc_hash(&hash, target, form);
    if (!status) status = cache_check();
    if (status) return status;
    hash_add_text(&hash, source);
    hash_name(&hash, name);
    turn_take(&turn, name);
    if ((*object = cc_find(name)) == NULL) status = build_object(command, source, what, name, object);
    turn_end(&turn);
    return status;
}

void *cc_symbol(void *object, const char *name)
{
    fork_hold();
    void *const symbol = dlsym(object, name);
    fork_release();
    return symbol;
}

void cc_close(void *object)
{
    fork_hold();
    if (object) dlclose(object);
    fork_release();
}

kiln_status cc_object(const char *source, const char *machine, const char *flags, const char *path)
{
    static const char *const options[] = { "-c", NULL };
    Command command;
    char folder[PATH_BYTES], made[PATH_BYTES + 16];
    size_t n;
    kiln_status status = make_command(&command, machine, flags, CC_KERNEL);
    if (!status) status = work_folder_make(true, folder);
    if (status) return status;
    status = run_compiler(command, folder, source, path, options, "object.o");
    snprintf(made, sizeof made, "%s/object.o", folder);
    char *const bytes = status ? NULL : file_read(made, &n);
    if (!status && (!bytes || !file_write(path, bytes, n)))
        status = status_fail(KILN_IO, "cannot write %s: %s", path, strerror(errno));
    memory_free(bytes);
    folder_remove(folder);
    return status;
}

kiln_status cc_join(const char *machine, const char *const *objects, int n, const char *path)
{
    const size_t length = strlen(path);
    const bool archive = length < 2 || strcmp(path + length - 2, ".o") != 0;
    const char *const own = secure_getenv("AR"), *const ar = own && *own ? own : "ar";
    char output[OUTPUT_BYTES];
    char **const words = memory_alloc(sizeof *words * (size_t)(n + 8));
    Command command = { .n = 0 };
    int at = 0;
    kiln_status status = words ? KILN_OK : status_fail(KILN_OUT_OF_MEMORY, "out of memory for a list of objects");
    if (!status && !archive) status = find_compiler(&command, machine);
    if (!status && archive) words[at++] = (char *)ar, words[at++] = "rcsD", words[at++] = (char *)path;
    for (int i = 0; !status && i < command.n; i++) words[at++] = command.words[i];
    if (!status && !archive)
        words[at++] = "-nostdlib", words[at++] = "-r", words[at++] = "-o", words[at++] = (char *)path;
    for (int i = 0; !status && i < n; i++) words[at++] = (char *)objects[i];
    if (!status) {
        words[at] = NULL;
        unlink(path); // ar would add to it
        if (process_run(words, NULL, build_seconds(), output, sizeof output) != 0)
            status =
                status_fail(KILN_TOOLCHAIN, "'%s' could not make %s%s%s", words[0], path, *output ? ":\n" : "", output);
    }
    memory_free(words);
    return status;
}

// ---- of the CPU targets

static kiln_status hash_build(Hash *hash, const CodeRequest *request)
{
    return cc_hash(hash, &request->target->cpu, request->form);
}

static kiln_status build_code(const char *source, const CodeRequest *request, const char *what, char name[HASH_NAME],
                              BuiltCode *code)
{
    *code = (BuiltCode){ .object = NULL };
    return cc_build(source, &request->target->cpu, request->form, what, name, &code->object);
}

static bool find_code(const char *name, BuiltCode *code)
{
    *code = (BuiltCode){ .object = cc_find(name) };
    return code->object != NULL;
}

const Toolchain toolchain_cc = { hash_build, build_code, find_code };
