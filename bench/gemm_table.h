// SPDX-License-Identifier: MIT
// gemm_table.h - `kiln tune --gemm-table`: times of kiln_gemm's tiles, and the table that is made of them, src/ops/gemm_costs.c.
//
//     gemm_table.c   draws shapes, builds and times tiles, keeps the times in a file
//     gemm_fit.c     fits the model of cost of src/ops/gemm_tiles.h to times, says what it is worth, writes the table
#ifndef KILN_GEMM_TABLE_H
#define KILN_GEMM_TABLE_H

#include "ops/gemm_tiles.h"
#include "tools/tool.h"

enum { GEMM_TILES_MAX = 128 };

typedef struct GemmTime {
    GemmShape shape;
    int tile, parts; // its place in GemmTimes.tiles
    double ns, peer; // peer: of the program of --beside; 0: not timed
} GemmTime;

typedef struct GemmTimes {
    GemmTile tiles[GEMM_TILES_MAX]; // those of the table first
    int n_tiles;
    VEC(GemmTime) all;
} GemmTimes;

// The place of a tile, which is added if it is none of them; -1: there is no room.
int gemm_find_tile(GemmTimes *times, GemmTile tile);
// Adds the times of a file: lines M,N,K,size,BM,BN,steps,stages,form,parts,us[,peer us]; size: bytes of an element; steps: of 128
// bytes along K. The exit status after a mistake that was printed, or -1.
int gemm_read_times(Arena *arena, GemmTimes *times, const char *path);
// Fits `steps` random steps long, prints what the choices of both tables are worth on the third of the shapes that it has not seen,
// and writes the new one to `output`, if that is not NULL and the new one is better. The exit status.
int gemm_fit(Arena *arena, GemmTimes *times, int64_t steps, const char *device, const char *output);

#endif
