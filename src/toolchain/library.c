// SPDX-License-Identifier: MIT
// library.c - where the library's kernels lie: found from the file that holds this code, wherever that was moved to.
#define _GNU_SOURCE // dladdr
#include "toolchain/toolchain.h"
#include "base/fork.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifndef KILN_DATA_FOLDER
#define KILN_DATA_FOLDER "share" // of an installation, below its prefix
#endif

// From PREFIX/bin or PREFIX/lib, from PREFIX/lib/ARCHITECTURE, from a build folder in the sources, and from one elsewhere.
static const char *const places[] = {
    "../" KILN_DATA_FOLDER "/kiln/kernels",
    "../../" KILN_DATA_FOLDER "/kiln/kernels",
    "../kernels",
    "kernels",
};

// The shared library, or the program that holds it; only the latter may go by a relative name.
static bool find_own_file(char path[PATH_BYTES])
{
    Dl_info info;
    fork_hold(); // dladdr takes a lock that no fork may find taken
    const bool known = dladdr((const void *)places, &info) != 0 && info.dli_fname && info.dli_fname[0] == '/';
    fork_release();
    char real[PATH_MAX];
    if (!realpath(known ? info.dli_fname : "/proc/self/exe", real)) return false;
    return snprintf(path, PATH_BYTES, "%s", real) < PATH_BYTES;
}

bool library_folder(char path[PATH_BYTES])
{
    char own[PATH_BYTES], place[PATH_BYTES], real[PATH_MAX];
    struct stat st;
    if (!find_own_file(own)) return false;
    *strrchr(own, '/') = 0;
    for (int i = 0; i < COUNT(places); i++)
        if (snprintf(place, sizeof place, "%s/%s", own, places[i]) < (int)sizeof place && realpath(place, real) &&
            stat(real, &st) == 0 && S_ISDIR(st.st_mode))
            return snprintf(path, PATH_BYTES, "%s", real) < PATH_BYTES;
    return false;
}
