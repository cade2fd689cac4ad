// SPDX-License-Identifier: MIT
// gemm_costs.c - the figures of the model of cost of gemm_tiles.c, and its tiles.
//
// Written by bench/gemm_table.sh; not meant to be edited.
// 1662 times of 153 shapes on an H100 (2026-11-25).
#include "ops/gemm_tiles.h"

#include "base/arena.h"

// clang-format off
const GemmMachine gemm_machine = {
    .tensor_flops = { [1] = 12824, [2] = 6412, [4] = 3206 },
    .flops_f32 = 320,
    .flops_f64 = 160, // a guess, half of f32's
    .l2_bytes = 114.4,
    .latency = 81.5,
    .step = 7.836,
    .launch = 2289,
    .end = 1053,
    .end_element = 0.03931,
    .divided = 6866,
    .part = 609.5,
    .part_element = 0.05299,
    .join_bytes = 1946,
    .l2_all = 14060,
    .each = 84.41,
    .bytes = 2939,
    .memory = 4384,
    .straddle = 1.747,
};

const GemmTile gemm_tiles[] = {
    { 16, 64, 2, 8, false, 1.000 },
    { 16, 128, 2, 6, false, 1.000 },
    { 32, 64, 2, 8, false, 1.000 },
    { 32, 128, 2, 5, false, 1.000 },
    { 64, 32, 2, 8, false, 1.000 },
    { 64, 64, 2, 6, false, 1.000 },
    { 64, 96, 2, 5, false, 1.000 },
    { 64, 128, 2, 4, false, 1.000 },
    { 64, 192, 1, 6, false, 1.000 },
    { 64, 256, 1, 4, false, 1.000 },
    { 128, 64, 1, 8, false, 1.000 },
    { 128, 96, 1, 7, false, 1.000 },
    { 128, 128, 1, 6, false, 1.000 },
    { 128, 160, 1, 5, false, 1.000 },
    { 128, 192, 1, 4, false, 1.000 },
    { 128, 224, 1, 4, false, 1.000 },
    { 128, 240, 1, 4, false, 1.000 },
    { 128, 256, 1, 4, false, 1.000 },
    { 192, 128, 1, 4, false, 1.000 },
    { 192, 160, 1, 4, false, 1.000 },
    { 192, 192, 1, 4, false, 1.000 },
    { 256, 128, 1, 4, false, 1.000 },
    { 80, 256, 1, 5, true, 1.000 },
    { 112, 128, 1, 6, true, 1.000 },
    { 112, 256, 1, 4, true, 1.000 },
    { 176, 128, 1, 5, true, 1.000 },
    { 208, 128, 1, 5, true, 1.000 },
};
// clang-format on
const int gemm_n_tiles = COUNT(gemm_tiles);
