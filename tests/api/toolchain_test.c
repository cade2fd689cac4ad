// SPDX-License-Identifier: MIT
// toolchain_test.c - a compiler that is missing, fails, or finds the disk full; a cache that cannot be used, is
// damaged, or is written by two processes at once: each ends in success or a clear error.
#define _GNU_SOURCE
#include "toolchain/toolchain.h"
#include "base/memory.h"

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
#include <unistd.h>

#include <cmocka.h>

#include "../skip.h"

static char root[PATH_BYTES];                              // of this run; removed at the end
static const CpuTarget portable = { .isa = ISA_PORTABLE };

static char *join(const char *name)
{
    static char path[PATH_BYTES + 64];
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
    if (!strstr(kiln_error_message(), part))
        fail_msg("'%s' does not say '%s'", kiln_error_message(), part);
}

static void builds_and_finds_it_again(void **state)
{
    char name[HASH_NAME], again[HASH_NAME];
    void *object;
    assert_int_equal(build(answer, name, &object), KILN_OK);
    cc_close(object);
    setenv("CC", "/bin/false", 1);                         // another compiler: another entry
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
    assert_int_equal(build("__attribute__((visibility(\"default\"))) int answer(void) { return THE_ANSWER; }", name, &object),
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
    if (geteuid() == 0) {                                  // nothing is read-only to root: a file in its place is
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
    if (cut)
        assert_int_equal(ftruncate(fd, at), 0);
    else
        assert_int_equal(pwrite(fd, "damage", 6, at), 6);
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
        assert_null(cc_find(name));                        // noticed before it is opened, and removed
    }
    assert_builds();
}

// In a child: the limits and the signal are its own.
static int in_child(int (*work)(void))
{
    int status;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0)
        _exit(work());
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
    if (status != KILN_IO || !clear)
        fprintf(stderr, "%s: %s\n", kiln_status_name(status), kiln_error_message());
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
    if (mount("tmpfs", join("cache"), "tmpfs", 0, "size=16k") != 0) {
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
        if (build(source, name, &object) || call(object) != i)
            return 1;
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
        if ((pids[i] = fork()) == 0)
            _exit(build_many());
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_equal(cache_measure().entries, 6);          // and nothing half-made beside them
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
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, build_answer, &ok[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(ok[i]);
    }
    char *const runs = file_read(join("runs"), &n);
    memory_free(runs);
    assert_int_equal(n, 1);                                // lines
}

static void cache_removed_during_a_build(void **state)
{
    char text[4 * PATH_BYTES];
    snprintf(text, sizeof text, "#!/bin/sh\nif [ ! -e %s/once ]; then : >%s/once; rm -rf %s/cache; fi\nexec cc \"$@\"\n", root, root, root);
    write_program("removing-cc", text);
    setenv("CC", join("removing-cc"), 1);
    assert_builds();
    unlink(join("once"));
}

static void entries_survive_any_bytes(void **state)
{
    char bytes[3000];
    size_t n;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7);
    assert_true(cache_write("0123456789012345678901234567890123456789.test", bytes, sizeof bytes));
    char *const back = cache_read("0123456789012345678901234567890123456789.test", &n);
    assert_non_null(back);
    assert_int_equal(n, sizeof bytes);
    assert_memory_equal(back, bytes, n);
    memory_free(back);
    assert_null(cache_read("0000000000000000000000000000000000000000.test", &n));
    assert_int_equal(cache_clean(1).entries, 0);           // nothing is a day old
    assert_int_equal(cache_clean(0).entries, 1);
}

static void isa_can_be_lowered_not_raised(void **state)
{
    CpuTarget target;
    assert_int_equal(cpu_target_choose("portable", &target), KILN_OK);
    assert_int_equal(target.isa, ISA_PORTABLE);
    assert_false(target.bf16 || target.vnni || target.amx);
    assert_int_equal(cpu_target_choose("sse9", &target), KILN_BAD_ARGUMENT);
    assert_says("expected avx512, avx2 or portable");
    setenv("KILN_ISA", "portable", 1);
    assert_int_equal(cpu_target_choose(NULL, &target), KILN_OK);
    assert_int_equal(target.isa, ISA_PORTABLE);
    unsetenv("KILN_ISA");
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
        cmocka_unit_test_setup_teardown(cache_removed_during_a_build, fresh, clean),
        cmocka_unit_test_setup_teardown(entries_survive_any_bytes, fresh, clean),
        cmocka_unit_test_setup_teardown(isa_can_be_lowered_not_raised, fresh, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
