// SPDX-License-Identifier: MIT
// files.c - whole files and folders.
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
    for (size_t at = 0; at < n; ) {
        const ssize_t got = read(fd, bytes + at, n - at);
        if (got > 0)
            at += (size_t)got;
        else if (got == 0 || errno != EINTR)
            return errno = got == 0 ? EIO : errno, false;
    }
    return true;
}

char *file_read(const char *path, size_t *n)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    struct stat st;
    char *bytes = NULL;
    int error = 0;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        error = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    else if (!(bytes = memory_alloc((size_t)st.st_size + 1)))
        error = ENOMEM;
    else if (!read_all(fd, bytes, (size_t)st.st_size))
        error = errno;
    close(fd);
    if (error) {
        memory_free(bytes);
        errno = error;
        return NULL;
    }
    *n = (size_t)st.st_size;
    return bytes;
}

static int write_all(int fd, const char *bytes, size_t n)
{
    for (size_t at = 0; at < n; ) {
        const ssize_t put = write(fd, bytes + at, n - at);
        if (put >= 0)
            at += (size_t)put;
        else if (errno != EINTR)
            return errno;
    }
    return 0;
}

bool file_write(const char *path, const void *bytes, size_t n)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return false;
    int error = write_all(fd, bytes, n);
    if (close(fd) != 0 && !error)    // a full disk may only show here
        error = errno;
    if (error)
        unlink(path);
    errno = error;
    return !error;
}

void folder_remove(const char *path)
{
    DIR *const dir = opendir(path);
    for (const struct dirent *item; dir && (item = readdir(dir)) != NULL; )
        if (strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0)
            unlinkat(dirfd(dir), item->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(path);
}

bool folder_make(const char *path)
{
    char part[PATH_BYTES];
    const size_t n = strlen(path);
    if (n == 0 || n >= sizeof part)
        return false;
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i])
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (mkdir(part, 0700) != 0 && errno != EEXIST && access(part, X_OK) != 0)
            return false;
    }
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}
