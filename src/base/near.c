// SPDX-License-Identifier: MIT
// near.c - near misses among names, and among files.
#define _DEFAULT_SOURCE // DT_DIR
#include "base/near.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static int smaller(int a, int b) { return a < b ? a : b; }

// Letters to insert, drop, change or swap; gives up past 40 letters.
static int edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 40 };
    int rows[3][LONGEST + 1];
    const int n = (int)strlen(a), m = (int)strlen(b);
    if (n > LONGEST || m > LONGEST) return LONGEST;
    for (int j = 0; j <= m; j++) rows[1][j] = j;
    for (int i = 1; i <= n; i++) {
        int *const now = rows[(i + 1) % 3], *const last = rows[i % 3], *const before = rows[(i + 2) % 3];
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            now[j] = smaller(smaller(last[j], now[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = smaller(now[j], before[j - 2] + 1);
        }
    }
    return rows[(n + 1) % 3][m];
}

const char *nearest_name(const char *name, const char *const *candidates, int n)
{
    const int length = (int)strlen(name);
    int best = length <= 2 ? 1 : length <= 5 ? 2 : 3;
    const char *nearest = NULL;
    for (int i = 0; i < n; i++) {
        if (strcmp(name, candidates[i]) == 0) continue;
        // With one or two letters only another spelling of the same letters is meant.
        const int distance =
            length <= 2 && strcasecmp(name, candidates[i]) != 0 ? best : edit_distance(name, candidates[i]);
        if (strcasecmp(name, candidates[i]) == 0) return candidates[i];
        if (distance < best) {
            best = distance;
            nearest = candidates[i];
        }
    }
    return nearest;
}

static bool is_source_or_folder(const struct dirent *item)
{
    const size_t n = strlen(item->d_name);
    return item->d_name[0] != '.' && ((n > 5 && strcmp(item->d_name + n - 5, ".tile") == 0) || item->d_type == DT_DIR);
}

bool nearest_file(const char *path, char *near, size_t bytes)
{
    const char *const slash = strrchr(path, '/'), *const name = slash ? slash + 1 : path;
    char folder[4096];
    *near = 0;
    if ((size_t)(name - path) >= sizeof folder) return false;
    snprintf(folder, sizeof folder, "%.*s", (int)(name - path), path);
    DIR *const dir = opendir(*folder ? folder : ".");
    for (const struct dirent *item; dir && (item = readdir(dir)) != NULL;) {
        const char *const both[] = { item->d_name, near };
        const char *const nearer =
            is_source_or_folder(item) && strlen(item->d_name) < bytes ? nearest_name(name, both, *near ? 2 : 1) : NULL;
        if (nearer && nearer != near) snprintf(near, bytes, "%s", item->d_name);
    }
    if (dir) closedir(dir);
    return *near != 0;
}
