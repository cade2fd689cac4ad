// SPDX-License-Identifier: MIT
// near.c - near misses among names.
#include "base/near.h"

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
        const int distance = length <= 2 && strcasecmp(name, candidates[i]) != 0 ? best : edit_distance(name, candidates[i]);
        if (strcasecmp(name, candidates[i]) == 0) return candidates[i];
        if (distance < best) {
            best = distance;
            nearest = candidates[i];
        }
    }
    return nearest;
}
