// SPDX-License-Identifier: MIT
// process.c - run a program for some time at most, and keep what it said.
#define _GNU_SOURCE // pipe2, secure_getenv
#include "toolchain/toolchain.h"
#include "base/fork.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { BUILD_SECONDS = 600, BUILD_SECONDS_MAX = 3600 };

bool process_find(const char *program, char path[PATH_BYTES])
{
    if (strchr(program, '/')) return snprintf(path, PATH_BYTES, "%s", program) < PATH_BYTES && access(path, X_OK) == 0;
    const char *at = secure_getenv("PATH");
    for (const char *end; at && *at; at = *end ? end + 1 : end) {
        end = at + strcspn(at, ":");
        struct stat st;
        if (snprintf(path, PATH_BYTES, "%.*s/%s", (int)(end - at), at, program) < PATH_BYTES && stat(path, &st) == 0 &&
            S_ISREG(st.st_mode) && access(path, X_OK) == 0)
            return true;
    }
    return false;
}

// The environment with TMPDIR replaced: an array to free; the strings are borrowed.
static char **environment_with(char *tmpdir)
{
    int n = 0, kept = 0;
    while (environ[n]) n++;
    char **const list = memory_alloc(sizeof *list * (size_t)(n + 2));
    for (int i = 0; list && i < n; i++)
        if (strncmp(environ[i], "TMPDIR=", 7) != 0) list[kept++] = environ[i];
    if (list) list[kept] = tmpdir;
    return list;
}

// ---- waiting for it

static int64_t milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int build_seconds(void)
{
    const char *const text = secure_getenv("KILN_BUILD_SECONDS");
    const long n = text ? strtol(text, NULL, 10) : 0;
    return n < 1 ? BUILD_SECONDS : n < BUILD_SECONDS_MAX ? (int)n : BUILD_SECONDS_MAX;
}

typedef struct Child {
    pid_t pid;
    int pipe, status;
    bool ended;
} Child;

// The host may ignore SIGCHLD: then the result, or its absence, must tell.
static bool has_ended(Child *child)
{
    if (!child->ended) {
        const pid_t found = waitpid(child->pid, &child->status, WNOHANG);
        child->ended = found == child->pid || (found < 0 && errno == ECHILD);
    }
    return child->ended;
}

// Keeps what fits of what there is to read now. False at the end of the pipe.
static bool read_some(int fd, char *output, size_t bytes)
{
    char chunk[4096];
    const ssize_t n = read(fd, chunk, sizeof chunk);
    if (n <= 0) return n < 0 && (errno == EINTR || errno == EAGAIN);
    const size_t kept = strlen(output), room = bytes - 1 - kept, take = (size_t)n < room ? (size_t)n : room;
    memcpy(output + kept, chunk, take);
    output[kept + take] = 0;
    return true;
}

// Reads until the program ends, not until its outputs do, which what it started may hold open. False: no time is left.
static bool follow(Child *child, char *output, size_t bytes, int64_t end)
{
    enum { LOOK_MS = 50 };
    bool open = true;
    while (!has_ended(child)) {
        struct pollfd ready = { child->pipe, POLLIN, 0 };
        if (milliseconds() > end) return false;
        if (poll(&ready, open ? 1 : 0, open ? LOOK_MS : 1) > 0) open = read_some(child->pipe, output, bytes);
    }
    for (struct pollfd ready = { child->pipe, POLLIN, 0 }; open && poll(&ready, 1, 0) > 0;)
        open = read_some(child->pipe, output, bytes);
    return true;
}

// The program with all that it started: they are a process group.
static void end_all(Child *child)
{
    kill(-child->pid, SIGKILL);
    while (!has_ended(child)) poll(NULL, 0, 1);
}

// ---- starting it

// In a process group of its own; its pipe is in no child that another thread forks meanwhile.
static int start(char *const argv[], char **env, Child *child)
{
    int ends[2];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    fork_hold();
    if (pipe2(ends, O_CLOEXEC) != 0) {
        fork_release();
        return errno;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none); // what the host has blocked is its own affair
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    const int error = posix_spawnp(&child->pid, argv[0], &actions, &attributes, argv, env);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    fork_release();
    child->pipe = ends[0];
    if (error) close(ends[0]);
    return error;
}

int process_run(char *const argv[], const char *folder, int seconds, char *output, size_t output_bytes)
{
    char tmpdir[PATH_BYTES + 8];
    Child child = { 0 };
    output[0] = 0;
    snprintf(tmpdir, sizeof tmpdir, "TMPDIR=%s", folder ? folder : "");
    char **const env = folder ? environment_with(tmpdir) : environ;
    const int error = env ? start(argv, env, &child) : ENOMEM;
    if (folder) memory_free(env);
    if (error) {
        errno = error;
        return -1;
    }
    const bool in_time = follow(&child, output, output_bytes, milliseconds() + 1000LL * seconds);
    if (!in_time) end_all(&child);
    close(child.pipe);
    errno = ETIMEDOUT;
    return !in_time ? -1 : WIFSIGNALED(child.status) ? 128 + WTERMSIG(child.status) : WEXITSTATUS(child.status);
}
