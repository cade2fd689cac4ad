// SPDX-License-Identifier: MIT
// cache.c - what was compiled before, by the hash of all it was made from.
//
// An entry is one file: its bytes, then a trailer with their number and SHA-256. Loaders of ELF files ignore what
// follows the last section, so a shared object is opened in place, from the descriptor that was checked. Entries are
// made aside and renamed: a reader sees all or nothing, and of two processes that build the same one the last wins with
// the same bytes.
#define _GNU_SOURCE // dladdr, secure_getenv
#include "toolchain/toolchain.h"
#include "base/fork.h"
#include "base/memory.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct Trailer {
    uint8_t digest[HASH_BYTES];
    uint64_t length;
    char magic[8];
} Trailer;

static const char trailer_magic[8] = "KILN\n01";

static Trailer make_trailer(const void *bytes, size_t n)
{
    Trailer trailer = { .length = n };
    Hash hash = hash_begin();
    hash_add(&hash, bytes, n);
    hash_end(&hash, trailer.digest);
    memcpy(trailer.magic, trailer_magic, sizeof trailer.magic);
    return trailer;
}

// ---- the folder

// Code that others could have put there would run as this user: files and folders are used only if they belong to this
// user or to root and nobody else can write them.
static bool is_trusted(const struct stat *st)
{
    return (st->st_uid == geteuid() || st->st_uid == 0) && (st->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// In a program with more rights than its user (setuid) the environment decides nothing.
static bool name_folder(char path[PATH_BYTES])
{
    const char *const own = secure_getenv("KILN_CACHE"), *const xdg = secure_getenv("XDG_CACHE_HOME"),
                      *const home = secure_getenv("HOME");
    int n = -1;
    if (own && *own) n = snprintf(path, PATH_BYTES, "%s", own);
    else if (xdg && *xdg == '/') n = snprintf(path, PATH_BYTES, "%s/kiln", xdg);
    else if (home && *home) n = snprintf(path, PATH_BYTES, "%s/.cache/kiln", home);
    return n > 0 && n < PATH_BYTES - 64;
}

// A descriptor of the folder, from which everything in it is opened, so that it cannot be exchanged meanwhile; -1: there
// is none to use. `st`: of the folder if there is one, trusted or not.
static int open_folder(char path[PATH_BYTES], struct stat *st)
{
    *st = (struct stat){ 0 };
    if (!name_folder(path) || !folder_make(path)) return -1;
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, st) == 0 && is_trusted(st)) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

kiln_status cache_check(void)
{
    char path[PATH_BYTES];
    struct stat st;
    const int fd = open_folder(path, &st);
    if (fd >= 0) {
        close(fd);
        return KILN_OK;
    }
    if (st.st_mode == 0) return KILN_OK; // no folder
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return status_fail(KILN_IO,
                           "the cache '%s' belongs to another user (%u), who could put code there; name a folder of "
                           "your own: export KILN_CACHE=FOLDER",
                           path, (unsigned)st.st_uid);
    return status_fail(KILN_IO,
                       "the cache '%s' can be written by others (its mode is %04o), who could put code there; type: "
                       "chmod go-w '%s'",
                       path, (unsigned)st.st_mode & 07777, path);
}

bool cache_folder(char path[PATH_BYTES])
{
    struct stat st;
    const int fd = open_folder(path, &st);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

// ---- entries

static bool is_whole(const char *bytes, size_t size)
{
    Trailer found;
    if (size < sizeof found) return false;
    memcpy(&found, bytes + size - sizeof found, sizeof found);
    const Trailer expected = make_trailer(bytes, size - sizeof found);
    return memcmp(&found, &expected, sizeof found) == 0;
}

int cache_open(const char *name, char **bytes, size_t *n)
{
    char path[PATH_BYTES];
    struct stat st;
    size_t size = 0;
    const int folder = open_folder(path, &st);
    // Neither a link to elsewhere nor a pipe that would be waited for.
    const int fd = folder < 0 ? -1 : openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool ok = fd >= 0;
    *bytes = NULL;
    if (ok && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && is_trusted(&st) &&
        (*bytes = file_read_open(fd, &size)) != NULL && is_whole(*bytes, size)) {
        *n = size - sizeof(Trailer);
        (*bytes)[*n] = 0;
    } else {
        if (folder >= 0 && (ok || errno == ELOOP))
            unlinkat(folder, name, 0); // damaged, or not ours: make room for a good one
        if (fd >= 0) close(fd);
        memory_free(*bytes);
        *bytes = NULL;
        ok = false;
    }
    if (folder >= 0) close(folder);
    return ok ? fd : -1;
}

char *cache_read(const char *name, size_t *n)
{
    char *bytes;
    const int fd = cache_open(name, &bytes, n);
    if (fd >= 0) close(fd);
    return bytes;
}

// A new file of a name that nobody can have guessed.
static int create_aside(int folder, const char *name, char aside[NAME_MAX + 1])
{
    uint64_t random;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random) return -1;
    snprintf(aside, NAME_MAX + 1, "%s.%016llx.new", name, (unsigned long long)random);
    return openat(folder, aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
}

bool cache_write(const char *name, const void *bytes, size_t n)
{
    char path[PATH_BYTES], aside[NAME_MAX + 1];
    struct stat st;
    const Trailer trailer = make_trailer(bytes, n);
    const int folder = open_folder(path, &st);
    const int fd = folder < 0 ? -1 : create_aside(folder, name, aside);
    bool ok = false;
    if (fd >= 0) {
        ok = file_write_open(fd, bytes, n) && file_write_open(fd, &trailer, sizeof trailer);
        ok = close(fd) == 0 && ok && renameat(folder, aside, folder, name) == 0;
        if (!ok) unlinkat(folder, aside, 0);
    }
    if (folder >= 0) close(folder);
    return ok;
}

// ---- looking after it

enum { WORK_SECONDS_MAX = 7200 }; // a younger folder may be another process' build, which may take an hour

typedef void Visit(int folder, const char *name, const struct stat *st, CacheUse *use, int64_t before);

// Only what this cache made: KILN_CACHE may have been pointed at a folder with other things in it.
static bool is_ours(const char *name)
{
    return strspn(name, "0123456789abcdef") == HASH_NAME - 1 || strncmp(name, "work-", 5) == 0;
}

static void visit_entries(Visit *visit, CacheUse *use, int64_t before)
{
    char path[PATH_BYTES];
    struct stat st;
    const int folder = open_folder(path, &st);
    DIR *const dir = folder < 0 ? NULL : fdopendir(folder);
    for (const struct dirent *item; dir && (item = readdir(dir)) != NULL;)
        if (is_ours(item->d_name) && fstatat(folder, item->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            visit(folder, item->d_name, &st, use, before);
    if (dir) closedir(dir);
    else if (folder >= 0) close(folder);
}

static void count(int folder, const char *name, const struct stat *st, CacheUse *use, int64_t before)
{
    if (!S_ISREG(st->st_mode)) return;
    use->entries++;
    use->bytes += st->st_size;
}

// Left by a build that was killed.
static void remove_leftover(int folder, const char *name, const struct stat *st, CacheUse *use, int64_t before)
{
    const size_t n = strlen(name);
    if (st->st_mtime >= (int64_t)time(NULL) - WORK_SECONDS_MAX) return;
    if (S_ISDIR(st->st_mode)) folder_remove_at(folder, name);
    else if (n > 4 && strcmp(name + n - 4, ".new") == 0) unlinkat(folder, name, 0);
}

static void remove_old(int folder, const char *name, const struct stat *st, CacheUse *use, int64_t before)
{
    if (st->st_mtime > before) return;
    if (S_ISDIR(st->st_mode)) remove_leftover(folder, name, st, use, before);
    else if (unlinkat(folder, name, 0) == 0) use->entries++, use->bytes += st->st_size;
}

CacheUse cache_measure(void)
{
    CacheUse use = { 0, 0 };
    visit_entries(count, &use, 0);
    return use;
}

CacheUse cache_clean(int older_than_days)
{
    CacheUse use = { 0, 0 };
    // Everything is everything: a file's clock may be ahead of this one by a little.
    const int64_t before = older_than_days > 0 ? (int64_t)time(NULL) - 86400LL * older_than_days : INT64_MAX;
    visit_entries(remove_old, &use, before);
    return use;
}

kiln_status work_folder_make(bool outside_cache, char path[PATH_BYTES])
{
    static _Atomic pid_t looked; // the process that looked for leftovers
    const char *const tmp = secure_getenv("TMPDIR");
    const char *const places[] = { tmp && *tmp ? tmp : "/tmp", "/tmp", "/var/tmp" };
    if (!outside_cache && cache_folder(path)) {
        if (atomic_exchange(&looked, getpid()) != getpid()) visit_entries(remove_leftover, NULL, 0);
        strcat(path, "/work-XXXXXX"); // cache_folder leaves room
        if (mkdtemp(path)) return KILN_OK;
    }
    for (int i = 0; i < COUNT(places); i++)
        if (snprintf(path, PATH_BYTES, "%s/kiln-XXXXXX", places[i]) < PATH_BYTES && mkdtemp(path)) return KILN_OK;
    return status_fail(KILN_IO,
                       "no folder to build in: neither the cache ($KILN_CACHE, ~/.cache/kiln) nor %s can be "
                       "written (%s)",
                       places[0], strerror(errno));
}

// ---- this library itself

// A rebuilt library must not use what its former self made, so its file is part of every key.
static char identity[256];

static void make_identity(void)
{
    Dl_info own, program;
    struct stat st;
    const bool found = dladdr((void *)make_identity, &own) && dladdr((void *)getauxval(AT_ENTRY), &program);
    // Of the program itself dladdr knows only what it was called by, which need not be a path.
    if (found && stat(own.dli_fbase == program.dli_fbase ? "/proc/self/exe" : own.dli_fname, &st) == 0)
        snprintf(identity, sizeof identity, "%s %lld.%09ld %lld", KILN_VERSION, (long long)st.st_mtim.tv_sec,
                 st.st_mtim.tv_nsec, (long long)st.st_size);
    else snprintf(identity, sizeof identity, "%s %ld", KILN_VERSION, (long)getpid());
}

const char *library_identity(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    fork_hold(); // dladdr takes the loader's lock
    pthread_once(&once, make_identity);
    fork_release();
    return identity;
}
