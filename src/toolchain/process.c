// SPDX-License-Identifier: MIT
// process.c - run a program and keep what it said.
#define _GNU_SOURCE                  // pipe2
#include "toolchain/toolchain.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

bool process_find(const char *program, char path[PATH_BYTES])
{
    if (strchr(program, '/'))
        return snprintf(path, PATH_BYTES, "%s", program) < PATH_BYTES && access(path, X_OK) == 0;
    const char *at = getenv("PATH");
    for (const char *end; at && *at; at = *end ? end + 1 : end) {
        end = at + strcspn(at, ":");
        struct stat st;
        if (snprintf(path, PATH_BYTES, "%.*s/%s", (int)(end - at), at, program) < PATH_BYTES
            && stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0)
            return true;
    }
    return false;
}

// The environment with TMPDIR replaced: an array to free; the strings are borrowed.
static char **environment_with(char *tmpdir)
{
    int n = 0, kept = 0;
    while (environ[n])
        n++;
    char **const list = memory_alloc(sizeof *list * (size_t)(n + 2));
    for (int i = 0; list && i < n; i++)
        if (strncmp(environ[i], "TMPDIR=", 7) != 0)
            list[kept++] = environ[i];
    if (list)
        list[kept] = tmpdir;
    return list;
}

// Reads to the end, keeps what fits.
static void drain(int fd, char *output, size_t bytes)
{
    size_t kept = 0;
    char chunk[4096];
    for (ssize_t n; (n = read(fd, chunk, sizeof chunk)) > 0 || (n < 0 && errno == EINTR); ) {
        if (n <= 0)
            continue;
        const size_t room = bytes - 1 - kept, take = (size_t)n < room ? (size_t)n : room;
        memcpy(output + kept, chunk, take);
        kept += take;
    }
    output[kept] = 0;
}

static int wait_for(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 0;                // the host ignores SIGCHLD: the result, or its absence, must tell
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int process_run(char *const argv[], const char *folder, char *output, size_t output_bytes)
{
    char tmpdir[PATH_BYTES + 8];
    int ends[2];
    pid_t pid;
    output[0] = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    snprintf(tmpdir, sizeof tmpdir, "TMPDIR=%s", folder ? folder : "");
    char **const env = folder ? environment_with(tmpdir) : environ;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    const int error = env ? posix_spawnp(&pid, argv[0], &actions, NULL, argv, env) : ENOMEM;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (folder)
        memory_free(env);
    if (!error)
        drain(ends[0], output, output_bytes);
    close(ends[0]);
    errno = error;
    return error ? -1 : wait_for(pid);
}
