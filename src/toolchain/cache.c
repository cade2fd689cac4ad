// SPDX-License-Identifier: MIT
// cache.c - what was compiled before, by the hash of all it was made from.
//
// An entry is one file: its bytes, then a trailer with their number and SHA-256. Loaders of ELF files ignore what
// follows the last section, so a shared object is opened in place. Entries are made aside and renamed: a reader
// sees all or nothing, and of two processes that build the same one the last wins with the same bytes.
#define _GNU_SOURCE                  // dladdr
#include "toolchain/toolchain.h"
#include "base/memory.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct Trailer {
    uint8_t  digest[HASH_BYTES];
    uint64_t length;
    char     magic[8];
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

// ---- one build of an entry at a time

static pthread_mutex_t turns_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  turn_ended = PTHREAD_COND_INITIALIZER;
static CacheTurn      *turns;        // taken now

static bool is_taken(const char *name)
{
    for (const CacheTurn *t = turns; t; t = t->next)
        if (strcmp(t->name, name) == 0)
            return true;
    return false;
}

void cache_take_turn(CacheTurn *turn, const char *name)
{
    pthread_mutex_lock(&turns_lock);
    while (is_taken(name))
        pthread_cond_wait(&turn_ended, &turns_lock);
    *turn = (CacheTurn){ name, turns };
    turns = turn;
    pthread_mutex_unlock(&turns_lock);
}

void cache_end_turn(CacheTurn *turn)
{
    pthread_mutex_lock(&turns_lock);
    CacheTurn **link = &turns;
    while (*link != turn)
        link = &(*link)->next;
    *link = turn->next;
    pthread_cond_broadcast(&turn_ended);
    pthread_mutex_unlock(&turns_lock);
}

// ---- entries

bool cache_folder(char path[PATH_BYTES])
{
    const char *const own = getenv("KILN_CACHE"), *const xdg = getenv("XDG_CACHE_HOME"), *const home = getenv("HOME");
    int n = -1;
    if (own && *own)
        n = snprintf(path, PATH_BYTES, "%s", own);
    else if (xdg && *xdg == '/')
        n = snprintf(path, PATH_BYTES, "%s/kiln", xdg);
    else if (home && *home)
        n = snprintf(path, PATH_BYTES, "%s/.cache/kiln", home);
    return n > 0 && n < PATH_BYTES - 64 && folder_make(path);
}

bool cache_path(const char *name, char path[PATH_BYTES])
{
    if (!cache_folder(path))
        return false;
    const size_t n = strlen(path);
    return snprintf(path + n, PATH_BYTES - n, "/%s", name) < (int)(PATH_BYTES - n);
}

char *cache_read(const char *name, size_t *n)
{
    char path[PATH_BYTES];
    size_t size;
    char *const bytes = cache_path(name, path) ? file_read(path, &size) : NULL;
    if (!bytes)
        return NULL;
    Trailer found;
    if (size >= sizeof found) {
        memcpy(&found, bytes + size - sizeof found, sizeof found);
        const Trailer expected = make_trailer(bytes, size - sizeof found);
        if (memcmp(&found, &expected, sizeof found) == 0) {
            *n = size - sizeof found;
            bytes[*n] = 0;
            return bytes;
        }
    }
    memory_free(bytes);
    unlink(path);                    // damaged: make room for a good one
    return NULL;
}

bool cache_write(const char *name, const void *bytes, size_t n)
{
    char path[PATH_BYTES], aside[PATH_BYTES + 48];
    static _Atomic unsigned counter;
    if (!cache_path(name, path))
        return false;
    char *const whole = memory_alloc(n + sizeof(Trailer));
    if (!whole)
        return false;
    const Trailer trailer = make_trailer(bytes, n);
    memcpy(whole, bytes, n);
    memcpy(whole + n, &trailer, sizeof trailer);
    snprintf(aside, sizeof aside, "%s.%ld.%u.new", path, (long)getpid(), counter++);
    bool ok = file_write(aside, whole, n + sizeof trailer);
    if (ok && rename(aside, path) != 0) {
        unlink(aside);
        ok = false;
    }
    memory_free(whole);
    return ok;
}

// ---- looking after it

enum { WORK_SECONDS_MAX = 3600 };    // a younger folder may be another process' build

typedef void Visit(const char *path, const struct stat *st, CacheUse *use, int64_t before);

static void visit_entries(const char *folder, Visit *visit, CacheUse *use, int64_t before)
{
    DIR *const dir = opendir(folder);
    for (const struct dirent *item; dir && (item = readdir(dir)) != NULL; ) {
        char path[PATH_BYTES];
        struct stat st;
        if (item->d_name[0] != '.' && snprintf(path, sizeof path, "%s/%s", folder, item->d_name) < (int)sizeof path
            && lstat(path, &st) == 0)
            visit(path, &st, use, before);
    }
    if (dir)
        closedir(dir);
}

// Only what this cache made: KILN_CACHE may have been pointed at a folder with other things in it.
static bool is_ours(const char *path)
{
    const char *const name = strrchr(path, '/') + 1;
    return strspn(name, "0123456789abcdef") == HASH_NAME - 1 || strncmp(name, "work-", 5) == 0;
}

static void count(const char *path, const struct stat *st, CacheUse *use, int64_t before)
{
    if (!S_ISREG(st->st_mode) || !is_ours(path))
        return;
    use->entries++;
    use->bytes += st->st_size;
}

static void remove_old(const char *path, const struct stat *st, CacheUse *use, int64_t before)
{
    if (!is_ours(path) || st->st_mtime > before)
        return;
    if (S_ISDIR(st->st_mode)) {
        if (st->st_mtime < (int64_t)time(NULL) - WORK_SECONDS_MAX)
            folder_remove(path);     // left by a build that was killed
    } else if (unlink(path) == 0)
        use->entries++, use->bytes += st->st_size;
}

CacheUse cache_measure(void)
{
    char folder[PATH_BYTES];
    CacheUse use = { 0, 0 };
    if (cache_folder(folder))
        visit_entries(folder, count, &use, 0);
    return use;
}

CacheUse cache_clean(int older_than_days)
{
    char folder[PATH_BYTES];
    CacheUse use = { 0, 0 };
    // Everything is everything: a file's clock may be ahead of this one by a little.
    const int64_t before = older_than_days > 0 ? (int64_t)time(NULL) - 86400LL * older_than_days : INT64_MAX;
    if (cache_folder(folder))
        visit_entries(folder, remove_old, &use, before);
    return use;
}

kiln_status work_folder_make(bool outside_cache, char path[PATH_BYTES])
{
    const char *const tmp = getenv("TMPDIR");
    const char *const places[] = { tmp && *tmp ? tmp : "/tmp", "/tmp", "/var/tmp" };
    if (!outside_cache && cache_folder(path)) {
        strcat(path, "/work-XXXXXX");                      // cache_folder leaves room
        if (mkdtemp(path))
            return KILN_OK;
    }
    for (int i = 0; i < COUNT(places); i++)
        if (snprintf(path, PATH_BYTES, "%s/kiln-XXXXXX", places[i]) < PATH_BYTES && mkdtemp(path))
            return KILN_OK;
    return status_fail(KILN_IO, "no folder to build in: neither the cache ($KILN_CACHE, ~/.cache/kiln) nor %s can be "
                       "written (%s)", places[0], strerror(errno));
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
    else
        snprintf(identity, sizeof identity, "%s %ld", KILN_VERSION, (long)getpid());
}

const char *library_identity(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_identity);
    return identity;
}
