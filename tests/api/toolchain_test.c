// SPDX-License-Identifier: MIT
// toolchain_test.c - a compiler that is missing, fails, or finds the disk full; a cache that cannot be used, is
// damaged, or is written by two processes at once: each ends in success or a clear error.
#define _GNU_SOURCE
#include "toolchain/toolchain.h"
#include "base/memory.h"
#include "kiln/kiln.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../skip.h"

static char root[PATH_BYTES]; // of this run; removed at the end
static const CpuTarget portable = { .isa = ISA_PORTABLE };

static char *join(const char *name)
{
    static char path[PATH_BYTES + 128];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

static int fresh(void **state)
{
    strcpy(root, "/tmp/kiln-test-XXXXXX");
    assert_non_null(mkdtemp(root));
    setenv("KILN_CACHE", join("cache"), 1);
    unsetenv("CC");
    return 0;
}

static int clean(void **state)
{
    unsetenv("KILN_BUILD_SECONDS");
    chmod(join("cache"), 0700);
    cache_clean(0);
    folder_remove(join("cache"));
    folder_remove(root);
    unsetenv("CC");
    return 0;
}

static void write_program(const char *name, const char *text)
{
    assert_true(file_write(join(name), text, strlen(text)));
    chmod(join(name), 0755);
}

static int call(void *object)
{
    int (*f)(void);
    void *const entry = dlsym(object, "answer");
    assert_non_null(entry);
    memcpy(&f, &entry, sizeof f);
    return f();
}

static const char answer[] = "__attribute__((visibility(\"default\"))) int answer(void) { return 42; }";

static kiln_status build(const char *source, char name[HASH_NAME], void **object)
{
    *object = NULL;
    return cc_build(source, &portable, CC_KERNEL, "the test", name, object);
}

static void assert_builds(void)
{
    char name[HASH_NAME];
    void *object;
    assert_int_equal(build(answer, name, &object), KILN_OK);
    assert_int_equal(call(object), 42);
    cc_close(object);
}

static void assert_says(const char *part)
{
    if (!strstr(kiln_error_message(), part)) fail_msg("'%s' does not say '%s'", kiln_error_message(), part);
}

static void builds_and_finds_it_again(void **state)
{
    char name[HASH_NAME], again[HASH_NAME];
    void *object;
    assert_int_equal(build(answer, name, &object), KILN_OK);
    cc_close(object);
    setenv("CC", "/bin/false", 1); // another compiler: another entry
    assert_int_equal(build(answer, again, &object), KILN_TOOLCHAIN);
    unsetenv("CC");
    object = cc_find(name);
    assert_non_null(object);
    assert_int_equal(call(object), 42);
    cc_close(object);
    assert_int_equal(cache_measure().entries, 1);
}

static void no_compiler_at_all(void **state)
{
    char name[HASH_NAME], path[PATH_BYTES];
    void *object;
    snprintf(path, sizeof path, "%s", getenv("PATH"));
    setenv("PATH", root, 1);
    assert_int_equal(build(answer, name, &object), KILN_TOOLCHAIN);
    setenv("PATH", path, 1);
    assert_says("none of cc, gcc, clang is in PATH");
}

static void cc_names_what_is_not_there(void **state)
{
    char name[HASH_NAME];
    void *object;
    setenv("CC", "no-such-compiler -m64", 1);
    assert_int_equal(build(answer, name, &object), KILN_TOOLCHAIN);
    assert_says("'no-such-compiler' is not a program in PATH");
}

static void cc_may_carry_arguments(void **state)
{
    char name[HASH_NAME];
    void *object;
    setenv("CC", "  cc  -DTHE_ANSWER=7 ", 1);
    assert_int_equal(
        build("__attribute__((visibility(\"default\"))) int answer(void) { return THE_ANSWER; }", name, &object),
        KILN_OK);
    assert_int_equal(call(object), 7);
    cc_close(object);
}

static void failing_compiler_is_quoted(void **state)
{
    char name[HASH_NAME];
    void *object;
    write_program("bad-cc", "#!/bin/sh\necho 'internal error: out of ideas' >&2\nexit 3\n");
    setenv("CC", join("bad-cc"), 1);
    assert_int_equal(build(answer, name, &object), KILN_TOOLCHAIN);
    assert_says("failed with exit status 3");
    assert_says("out of ideas");
    write_program("dying-cc", "#!/bin/sh\nkill -9 $$\n");
    setenv("CC", join("dying-cc"), 1);
    assert_int_equal(build(answer, name, &object), KILN_TOOLCHAIN);
    assert_says("killed by signal 9");
    write_program("lazy-cc", "#!/bin/sh\nexit 0\n");
    setenv("CC", join("lazy-cc"), 1);
    assert_int_equal(build(answer, name, &object), KILN_TOOLCHAIN);
    assert_says("said nothing");
}

static void wrong_code_shows_the_compilers_words(void **state)
{
    char name[HASH_NAME];
    void *object;
    assert_int_equal(build("int answer(void) { return forty_two; }", name, &object), KILN_TOOLCHAIN);
    assert_says("forty_two");
}

static void read_only_cache_only_costs_time(void **state)
{
    if (geteuid() == 0) { // nothing is read-only to root: a file in its place is
        setenv("KILN_CACHE", "/dev/null/cache", 1);
    } else {
        assert_true(folder_make(join("cache")));
        assert_int_equal(chmod(join("cache"), 0500), 0);
    }
    assert_builds();
    assert_builds();
}

static void no_home_and_no_cache(void **state)
{
    char home[PATH_BYTES];
    snprintf(home, sizeof home, "%s", getenv("HOME") ? getenv("HOME") : "");
    unsetenv("KILN_CACHE");
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    assert_builds();
    setenv("HOME", home, 1);
}

static void damage_entry(const char *name, off_t at, bool cut)
{
    char file[HASH_NAME + 16];
    snprintf(file, sizeof file, "cache/%s.so", name);
    const char *const path = join(file);
    const int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    if (cut) assert_int_equal(ftruncate(fd, at), 0);
    else assert_int_equal(pwrite(fd, "damage", 6, at), 6);
    close(fd);
}

static void damaged_entries_are_made_anew(void **state)
{
    char name[HASH_NAME];
    void *object;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(build(answer, name, &object), KILN_OK);
        assert_int_equal(call(object), 42);
        cc_close(object);
        damage_entry(name, (off_t[]){ 0, 5000, 100, 0, 4096 }[i], i >= 3);
        assert_null(cc_find(name)); // noticed before it is opened, and removed
    }
    assert_builds();
}

// In a child: the limits and the signal are its own.
static int in_child(int (*work)(void))
{
    int status;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) _exit(work());
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static int build_under_a_limit(void)
{
    char name[HASH_NAME];
    void *object;
    const struct rlimit limit = { 2048, 2048 };
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    const kiln_status status = build(answer, name, &object);
    const bool clear = strstr(kiln_error_message(), "disk full") != NULL;
    if (status != KILN_IO || !clear) fprintf(stderr, "%s: %s\n", kiln_status_name(status), kiln_error_message());
    return status == KILN_IO && clear ? 0 : 1;
}

static int build_a_long_source_under_a_limit(void)
{
    char name[HASH_NAME];
    void *object;
    static char source[8192];
    memset(source, ' ', sizeof source - 1);
    const struct rlimit limit = { 2048, 2048 };
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    const kiln_status status = build(source, name, &object);
    return status == KILN_IO && strstr(kiln_error_message(), "disk is full") ? 0 : 1;
}

static void full_disk_is_said(void **state)
{
    assert_int_equal(in_child(build_under_a_limit), 0);
    assert_int_equal(in_child(build_a_long_source_under_a_limit), 0);
}

static void full_cache_disk_builds_elsewhere(void **state)
{
    assert_true(folder_make(join("cache")));
    if (mount("tmpfs", join("cache"), "tmpfs", 0, "size=16k,mode=0700") != 0) {
        skip_because("mounting a small tmpfs needs root");
    }
    assert_builds();
    assert_int_equal(umount(join("cache")), 0);
}

static int build_many(void)
{
    char name[HASH_NAME], source[256];
    for (int i = 0; i < 6; i++) {
        void *object;
        snprintf(source, sizeof source, "__attribute__((visibility(\"default\"))) int answer(void) { return %d; }", i);
        if (build(source, name, &object) || call(object) != i) return 1;
        cc_close(object);
    }
    return 0;
}

static void processes_build_the_same_at_once(void **state)
{
    enum { PROCESSES = 4 };
    pid_t pids[PROCESSES];
    fflush(NULL);
    for (int i = 0; i < PROCESSES; i++)
        if ((pids[i] = fork()) == 0) _exit(build_many());
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_equal(cache_measure().entries, 6); // and nothing half-made beside them
}

// ---- who may write the cache

static void a_cache_that_others_can_write_is_refused(void **state)
{
    char name[HASH_NAME];
    void *object;
    assert_true(folder_make(join("cache")));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(chmod(join("cache"), (mode_t[]){ 0770, 01777 }[i]), 0);
        assert_int_equal(build(answer, name, &object), KILN_IO);
        assert_says("can be written by others (its mode is ");
        assert_says("type: chmod go-w '");
        assert_says(join("cache"));
        assert_null(cc_find(name));
        assert_false(cache_write("0123456789012345678901234567890123456789.test", "x", 1));
    }
    assert_int_equal(chmod(join("cache"), 0755), 0);
    assert_builds();
    if (geteuid() != 0) skip_because("giving a folder to another user needs root");
    assert_int_equal(chown(join("cache"), 12345, (gid_t)-1), 0);
    assert_int_equal(build(answer, name, &object), KILN_IO);
    assert_says("belongs to another user (12345)");
    assert_int_equal(chown(join("cache"), 0, (gid_t)-1), 0);
}

static char *entry_of(const char *name)
{
    char file[HASH_NAME + 16];
    snprintf(file, sizeof file, "cache/%s.so", name);
    return join(file);
}

// An entry that others could have put there, or that is something else than a file, is made anew.
static void foreign_entries_are_not_opened(void **state)
{
    char name[HASH_NAME], aside[PATH_BYTES + 128];
    void *object;
    struct stat st;
    snprintf(aside, sizeof aside, "%s", join("aside"));
    for (int i = 0; i < 4; i++) {
        if (i == 3 && geteuid() != 0) skip_because("giving a file to another user needs root");
        assert_builds();
        assert_int_equal(build(answer, name, &object), KILN_OK);
        cc_close(object);
        if (i == 0) {
            assert_int_equal(rename(entry_of(name), aside), 0);
            assert_int_equal(symlink(aside, entry_of(name)), 0);
        } else if (i == 1) {
            assert_int_equal(unlink(entry_of(name)), 0);
            assert_int_equal(mkfifo(entry_of(name), 0600), 0); // opening it would wait for ever
        } else if (i == 2) {
            assert_int_equal(chmod(entry_of(name), 0666), 0);
        } else {
            assert_int_equal(chown(entry_of(name), 12345, (gid_t)-1), 0);
        }
        assert_null(cc_find(name));
        assert_int_equal(lstat(entry_of(name), &st), -1);
    }
    unlink(aside);
    assert_builds();
    assert_int_equal(build(answer, name, &object), KILN_OK);
    cc_close(object);
    assert_int_equal(stat(entry_of(name), &st), 0);
    assert_int_equal(st.st_mode & 022, 0);
}

// All come through descriptors of the same number, which the loader must not take for the same file.
static void objects_that_are_open_at_once_are_told_apart(void **state)
{
    enum { OBJECTS = 5 };
    void *objects[OBJECTS];
    char name[HASH_NAME], source[256];
    for (int i = 0; i < OBJECTS; i++) {
        snprintf(source, sizeof source, "__attribute__((visibility(\"default\"))) int answer(void) { return %d; }", i);
        assert_int_equal(build(source, name, &objects[i]), KILN_OK);
    }
    for (int i = 0; i < OBJECTS; i++) {
        assert_int_equal(call(objects[i]), i);
        cc_close(objects[i]);
    }
}

static void age(const char *path, int seconds)
{
    const struct timespec then = { time(NULL) - seconds, 0 }, times[2] = { then, then };
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static int build_once(void)
{
    char name[HASH_NAME];
    void *object;
    return build(answer, name, &object) == KILN_OK ? 0 : 1;
}

static void leftovers_of_killed_builds_are_removed(void **state)
{
    const char *const fresh_folder = "cache/work-fresh0", *const old_folder = "cache/work-old000",
                      *const old_file = "cache/0123456789012345678901234567890123456789.so.0123456789abcdef.new";
    assert_true(folder_make(join(fresh_folder)) && folder_make(join(old_folder)));
    assert_true(file_write(join("cache/work-old000/source.c"), "x", 1) && file_write(join(old_file), "x", 1));
    age(join(old_folder), 86400);
    age(join(old_file), 86400);
    assert_int_equal(in_child(build_once), 0); // a process looks once
    assert_int_equal(access(join(old_folder), F_OK), -1);
    assert_int_equal(access(join(old_file), F_OK), -1);
    assert_int_equal(access(join(fresh_folder), F_OK), 0);
    folder_remove(join(fresh_folder));
}

// ---- limits of time

static pid_t read_pid(const char *name)
{
    size_t n;
    char *const text = file_read(join(name), &n);
    assert_non_null(text);
    const pid_t pid = (pid_t)atoi(text);
    memory_free(text);
    unlink(join(name));
    return pid;
}

// Also once its parent is gone, and before whoever inherits it has asked how it ended.
static bool is_running(pid_t pid)
{
    char path[64], text[256] = "", state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    const int fd = open(path, O_RDONLY);
    if (fd < 0) return false;
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 && sscanf(text, "%*d %*s %c", &state) == 1 && state != 'Z' && state != 'X';
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void a_compiler_that_hangs_is_ended_with_its_children(void **state)
{
    char name[HASH_NAME], text[4 * PATH_BYTES];
    void *object;
    snprintf(text, sizeof text, "#!/bin/sh\nsleep 100 &\necho $! >%s/child\necho $$ >%s/parent\necho thinking\nwait\n",
             root, root);
    write_program("hanging", text);
    setenv("CC", join("hanging"), 1);
    setenv("KILN_BUILD_SECONDS", "1", 1);
    const double begun = seconds_now();
    assert_int_equal(build(answer, name, &object), KILN_TOOLCHAIN);
    unsetenv("KILN_BUILD_SECONDS");
    assert_true(seconds_now() - begun < 20);
    assert_says("did not end within 1 seconds");
    assert_says("KILN_BUILD_SECONDS");
    assert_false(is_running(read_pid("parent")));
    const pid_t child = read_pid("child");
    for (int i = 0; i < 200 && is_running(child); i++) usleep(10000);
    assert_false(is_running(child));
}

// Such as a server that a compiler's cache starts: it keeps the output open, for as long as it runs.
static void what_a_compiler_leaves_running_is_not_waited_for(void **state)
{
    char text[2 * PATH_BYTES];
    snprintf(text, sizeof text, "#!/bin/sh\nsleep 100 &\necho $! >%s/child\nexec cc \"$@\"\n", root);
    write_program("leaving", text);
    setenv("CC", join("leaving"), 1);
    const double begun = seconds_now();
    assert_builds();
    assert_true(seconds_now() - begun < 50);
    kill(read_pid("child"), SIGKILL);
}

static const char hanging_nvrtc[] =
    "#include <unistd.h>\n"
    "int nvrtcVersion(int *a, int *b) { *a = 13, *b = 0; return 0; }\n"
    "int nvrtcCreateProgram(void **p, const char *s, const char *n, int k, const char *const *h, const char *const *i) { return 0; }\n"
    "int nvrtcDestroyProgram(void **p) { return 0; }\n"
    "int nvrtcCompileProgram(void *p, int n, const char *const *o) { for (;;) sleep(100); }\n"
    "int nvrtcGetProgramLogSize(void *p, unsigned long *n) { return 1; }\n"
    "int nvrtcGetProgramLog(void *p, char *c) { return 1; }\n"
    "int nvrtcGetCUBINSize(void *p, unsigned long *n) { return 1; }\n"
    "int nvrtcGetCUBIN(void *p, char *c) { return 1; }\n"
    "int nvrtcGetPTXSize(void *p, unsigned long *n) { return 1; }\n"
    "int nvrtcGetPTX(void *p, char *c) { return 1; }\n"
    "const char *nvrtcGetErrorString(int r) { return \"\"; }\n";

static int compile_for_cuda(void)
{
    char name[HASH_NAME], *cubin;
    size_t n;
    setenv("KILN_NVRTC", join("hanging.so"), 1);
    setenv("KILN_BUILD_SECONDS", "1", 1);
    for (int i = 0; i < 2; i++) // the second waits for the first, which is still at it
        if (nvrtc_build("x", cuda_arch(&gpu_sm_90a, 0), "the test", name, &cubin, &n, NULL) != KILN_TOOLCHAIN ||
            !strstr(kiln_error_message(), "NVRTC did not end within 1 seconds"))
            return 1;
    return 0;
}

static void nvrtc_that_hangs_is_left(void **state)
{
    char command[4 * PATH_BYTES];
    write_program("hanging.c", hanging_nvrtc);
    snprintf(command, sizeof command, "cc -shared -fPIC %s/hanging.c -o %s/hanging.so", root, root);
    assert_int_equal(system(command), 0);
    assert_int_equal(in_child(compile_for_cuda), 0);
}

// ---- without a compiler

static const char doubling[] =
    "kernel twice<int BN = 32>(in f32 X[N], out f32 Y[N]) { grid (n : ceildiv(N, BN));\n"
    "    fragment f32 x[BN] = X[n*BN +: BN]; forall (i : BN) x[i] *= 2; Y[n*BN +: BN] = x; }\n";

static kiln_status build_twice(const char *bindings, float *result)
{
    kiln_device *device;
    kiln_program *program;
    kiln_kernel *kernel = NULL;
    float x[4] = { 1, 2, 3, 4 }, y[4] = { 0 };
    assert_int_equal(kiln_device_open("cpu", &device), KILN_OK);
    assert_int_equal(kiln_program_load_text("twice.tile", doubling, &program), KILN_OK);
    const kiln_status status = kiln_kernel_build(device, program, "twice", bindings, NULL, &kernel);
    if (!status) {
        const int64_t shape[] = { 4 };
        const kiln_tensor in = kiln_tensor_of(device, x, KILN_F32, 1, shape),
                          out = kiln_tensor_of(device, y, KILN_F32, 1, shape);
        const kiln_arg args[] = { KILN_TENSOR(&in), KILN_TENSOR(&out) };
        assert_int_equal(kiln_launch(kernel, NULL, args, 2), KILN_OK);
        *result = y[3];
    }
    kiln_kernel_free(kernel);
    kiln_program_free(program);
    kiln_device_close(device);
    return status;
}

static void a_warm_cache_needs_no_compiler(void **state)
{
    char path[PATH_BYTES];
    float result = 0;
    assert_int_equal(build_twice("BN=32", &result), KILN_OK);
    snprintf(path, sizeof path, "%s", getenv("PATH"));
    setenv("PATH", root, 1);
    result = 0;
    assert_int_equal(build_twice("BN=32", &result), KILN_OK);
    assert_true(result == 8);
    assert_int_equal(build_twice("BN=64", &result), KILN_TOOLCHAIN);
    assert_says("none of cc, gcc, clang is in PATH");
    setenv("PATH", path, 1);
    assert_int_equal(build_twice("BN=64", &result), KILN_OK);
}

// ---- forks

static kiln_status build_some(int i)
{
    char bindings[32];
    float result = 0;
    snprintf(bindings, sizeof bindings, "BN=%d", i);
    const kiln_status status = build_twice(bindings, &result);
    return status ? status : result == 8 ? KILN_OK : KILN_DEVICE_FAILED;
}

static _Atomic bool enough;

static void *build_until_told(void *first)
{
    for (int i = (int)(intptr_t)first; !enough; i = i < 1000 ? i + 2 : 1)
        if (build_some(i)) return (void *)"a build failed";
    return NULL;
}

static int build_in_the_child(void)
{
    alarm(60); // a lock that nobody will give back
    for (int i = 0; i < 3; i++)
        if (build_some(i + 1)) return 1;
    return build_some(2000 + (int)getpid() % 7) ? 1 : 0;
}

static void a_process_forks_while_others_build(void **state)
{
    enum { FORKS = 12 };
    pthread_t threads[2];
    void *said;
#ifdef __SANITIZE_THREAD__
    skip_because("ThreadSanitizer ends a forked child that starts threads");
#endif
#ifdef HAS_ADDRESS_SANITIZER
    skip_because("AddressSanitizer's allocator keeps the locks of other threads in a forked child");
#endif
    enough = false;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, build_until_told, (void *)(intptr_t)(i + 1)), 0);
    for (int i = 0; i < FORKS; i++) {
        usleep(7000 * (unsigned)i);
        assert_int_equal(in_child(build_in_the_child), 0);
    }
    enough = true;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], &said), 0);
        assert_null(said);
    }
}

static void *build_answer(void *ok)
{
    char name[HASH_NAME];
    void *object;
    *(bool *)ok = build(answer, name, &object) == KILN_OK && call(object) == 42;
    cc_close(object);
    return NULL;
}

// A compiler that says when it runs, slow enough that all others come meanwhile.
static void threads_build_the_same_once(void **state)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    bool ok[THREADS] = { false };
    char text[2 * PATH_BYTES];
    size_t n = 0;
    snprintf(text, sizeof text, "#!/bin/sh\necho >>%s/runs\nsleep 0.3\nexec cc \"$@\"\n", root);
    write_program("slow", text);
    setenv("CC", join("slow"), 1);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, build_answer, &ok[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(ok[i]);
    }
    char *const runs = file_read(join("runs"), &n);
    memory_free(runs);
    assert_int_equal(n, 1); // lines
}

static void cache_removed_during_a_build(void **state)
{
    char text[4 * PATH_BYTES];
    snprintf(text, sizeof text,
             "#!/bin/sh\nif [ ! -e %s/once ]; then : >%s/once; rm -rf %s/cache; fi\nexec cc \"$@\"\n", root, root,
             root);
    write_program("removing-cc", text);
    setenv("CC", join("removing-cc"), 1);
    assert_builds();
    unlink(join("once"));
}

static void entries_survive_any_bytes(void **state)
{
    char bytes[3000];
    size_t n;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * 7);
    assert_true(cache_write("0123456789012345678901234567890123456789.test", bytes, sizeof bytes));
    char *const back = cache_read("0123456789012345678901234567890123456789.test", &n);
    assert_non_null(back);
    assert_int_equal(n, sizeof bytes);
    assert_memory_equal(back, bytes, n);
    memory_free(back);
    assert_null(cache_read("0000000000000000000000000000000000000000.test", &n));
    assert_int_equal(cache_clean(1).entries, 0); // nothing is a day old
    assert_int_equal(cache_clean(0).entries, 1);
}

static void isa_can_be_lowered_not_raised(void **state)
{
    CpuTarget target;
    assert_int_equal(cpu_target_choose("portable", &target), KILN_OK);
    assert_int_equal(target.isa, ISA_PORTABLE);
    assert_false(target.bf16 || target.vnni || target.amx);
    assert_int_equal(cpu_target_choose("sse9", &target), KILN_BAD_ARGUMENT);
    assert_says(" or portable");
    setenv("KILN_ISA", "portable", 1);
    assert_int_equal(cpu_target_choose(NULL, &target), KILN_OK);
    assert_int_equal(target.isa, ISA_PORTABLE);
    unsetenv("KILN_ISA");
}

// A name is what it says and no more, whatever this machine has beside.
static void forms_are_what_their_names_say(void **state)
{
    static const char *const names[] = { "portable",    "avx2", "avx512", "avx512_vnni",
                                         "avx512_bf16", "amx",  "neon",   "sve256" };
    const CpuForm *const machine = cpu_form_of_machine();
    for (int i = 0; i < COUNT(names); i++) {
        const CpuForm *const form = cpu_form_find(names[i]), *chosen = NULL;
        assert_non_null(form);
        assert_ptr_equal(cpu_form_of(&form->target), form);
        assert_true(form->target.amx <= form->target.bf16 && form->target.bf16 <= form->target.vnni);
        if (cpu_form_runs(names[i], machine)) {
            assert_int_equal(cpu_form_choose(names[i], &chosen), KILN_OK);
            assert_ptr_equal(chosen, form);
            assert_true(cpu_form_runs("portable", form));
        } else {
            assert_int_equal(cpu_form_choose(names[i], &chosen), KILN_UNSUPPORTED);
        }
    }
    assert_int_not_equal(cpu_form_runs("avx2", machine) + cpu_form_runs("neon", machine), 2);
    assert_false(cpu_form_runs("avx2", cpu_form_find("portable")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(builds_and_finds_it_again, fresh, clean),
        cmocka_unit_test_setup_teardown(no_compiler_at_all, fresh, clean),
        cmocka_unit_test_setup_teardown(cc_names_what_is_not_there, fresh, clean),
        cmocka_unit_test_setup_teardown(cc_may_carry_arguments, fresh, clean),
        cmocka_unit_test_setup_teardown(failing_compiler_is_quoted, fresh, clean),
        cmocka_unit_test_setup_teardown(wrong_code_shows_the_compilers_words, fresh, clean),
        cmocka_unit_test_setup_teardown(read_only_cache_only_costs_time, fresh, clean),
        cmocka_unit_test_setup_teardown(no_home_and_no_cache, fresh, clean),
        cmocka_unit_test_setup_teardown(damaged_entries_are_made_anew, fresh, clean),
        cmocka_unit_test_setup_teardown(full_disk_is_said, fresh, clean),
        cmocka_unit_test_setup_teardown(full_cache_disk_builds_elsewhere, fresh, clean),
        cmocka_unit_test_setup_teardown(processes_build_the_same_at_once, fresh, clean),
        cmocka_unit_test_setup_teardown(threads_build_the_same_once, fresh, clean),
        cmocka_unit_test_setup_teardown(a_cache_that_others_can_write_is_refused, fresh, clean),
        cmocka_unit_test_setup_teardown(foreign_entries_are_not_opened, fresh, clean),
        cmocka_unit_test_setup_teardown(objects_that_are_open_at_once_are_told_apart, fresh, clean),
        cmocka_unit_test_setup_teardown(leftovers_of_killed_builds_are_removed, fresh, clean),
        cmocka_unit_test_setup_teardown(a_compiler_that_hangs_is_ended_with_its_children, fresh, clean),
        cmocka_unit_test_setup_teardown(what_a_compiler_leaves_running_is_not_waited_for, fresh, clean),
        cmocka_unit_test_setup_teardown(nvrtc_that_hangs_is_left, fresh, clean),
        cmocka_unit_test_setup_teardown(a_warm_cache_needs_no_compiler, fresh, clean),
        cmocka_unit_test_setup_teardown(a_process_forks_while_others_build, fresh, clean),
        cmocka_unit_test_setup_teardown(cache_removed_during_a_build, fresh, clean),
        cmocka_unit_test_setup_teardown(entries_survive_any_bytes, fresh, clean),
        cmocka_unit_test_setup_teardown(isa_can_be_lowered_not_raised, fresh, clean),
        cmocka_unit_test_setup_teardown(forms_are_what_their_names_say, fresh, clean),
    };
    cmocka_set_test_filter(getenv("KILN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
