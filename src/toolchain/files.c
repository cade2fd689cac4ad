// SPDX-License-Identifier: MIT
// files.c - whole files and folders.
#define _GNU_SOURCE // O_NOFOLLOW, O_DIRECTORY
#include "toolchain/toolchain.h"
#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static bool read_all(int fd, char *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        const ssize_t got = read(fd, bytes + at, n - at);
        if (got > 0) at += (size_t)got;
        else if (got == 0 || errno != EINTR) return errno = got == 0 ? EIO : errno, false;
    }
    return true;
}

char *file_read_open(int fd, size_t *n)
{
    struct stat st;
    char *bytes = NULL;
    int error = 0;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) error = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    else if (!(bytes = memory_alloc((size_t)st.st_size + 1))) error = ENOMEM;
    else if (!read_all(fd, bytes, (size_t)st.st_size)) error = errno;
    if (error) {
        memory_free(bytes);
        errno = error;
        return NULL;
    }
    *n = (size_t)st.st_size;
    return bytes;
}

char *file_read(const char *path, size_t *n)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    char *const bytes = file_read_open(fd, n);
    const int error = errno;
    close(fd);
    errno = error;
    return bytes;
}

bool file_write_open(int fd, const void *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        const ssize_t put = write(fd, (const char *)bytes + at, n - at);
        if (put >= 0) at += (size_t)put;
        else if (errno != EINTR) return false;
    }
    return true;
}

bool file_write(const char *path, const void *bytes, size_t n)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return false;
    int error = file_write_open(fd, bytes, n) ? 0 : errno;
    if (close(fd) != 0 && !error) // a full disk may only show here
        error = errno;
    struct stat about; // a part of a file is taken away; a device or a link to one is not ours
    if (error && lstat(path, &about) == 0 && S_ISREG(about.st_mode)) unlink(path);
    errno = error;
    return !error;
}

void folder_remove_at(int parent, const char *name)
{
    const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *const dir = fd < 0 ? NULL : fdopendir(fd);
    for (const struct dirent *item; dir && (item = readdir(dir)) != NULL;)
        if (strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0) unlinkat(dirfd(dir), item->d_name, 0);
    if (dir) closedir(dir);
    else if (fd >= 0) close(fd);
    unlinkat(parent, name, AT_REMOVEDIR);
}

void folder_remove(const char *path) { folder_remove_at(AT_FDCWD, path); }

static bool make_folder(const char *path, mode_t mode)
{
    char part[PATH_BYTES];
    const size_t n = strlen(path);
    if (n == 0 || n >= sizeof part) return false;
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i]) continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (mkdir(part, mode) != 0 && errno != EEXIST && access(part, X_OK) != 0) return false;
    }
    struct stat st;
    if (stat(path, &st) != 0) return false;
    errno = ENOTDIR;
    return S_ISDIR(st.st_mode);
}

bool folder_make(const char *path) { return make_folder(path, 0700); }
bool folder_make_shared(const char *path) { return make_folder(path, 0777); }
