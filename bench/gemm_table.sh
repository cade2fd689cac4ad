#!/bin/sh
# SPDX-License-Identifier: MIT
# gemm_table.sh - makes the table of kiln_gemm, src/ops/gemm_costs.c: times its tiles on a GPU, fits the model of cost, writes the file.
#
#   bench/gemm_table.sh [SECONDS [SHAPES [SEED]]]     default: 300 seconds, as many shapes as they allow, seed 1
#
# Needs an sm_90 GPU and PyTorch, whose cuBLAS it is compared with. Shapes are drawn by the seed from those of engines; of each the
# likeliest choices by the model are timed (gemm_tune.py), and all times go to $OUT/gemm_times.csv (default: build/gemm_table) shape by shape. Then
# gemm_fit.py fits two thirds of the shapes and prints of the others how far what is chosen is from the best that was measured and from
# cuBLAS, in the geometric mean and at worst, by the figures that were there and by those found. The file is written where the
# latter are better. KEEP=1 leaves it. TIMES: files of earlier runs that are fitted, too. TYPES (bf16,e4m3); FEW=1: at most 16 rows alone. KILN and LIBKILN: a command and
# a library built elsewhere; else they are built in BUILD (build).
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
OUT=${OUT:-$BUILD/gemm_table}
mkdir -p "$OUT" || exit 1
if [ -z "$KILN" ] || [ -z "$LIBKILN" ]; then
    sh scripts/build.sh "$BUILD" "$(nproc)" >"$OUT/build.log" 2>&1 || { tail -40 "$OUT/build.log"; exit 1; }
    KILN=$PWD/$BUILD/kiln LIBKILN=$PWD/$BUILD/libkiln.so
fi
seconds=${1:-300}
nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit --format=csv,noheader
timeout $((seconds + 30)) python3 bench/gemm_tune.py "$LIBKILN" "$KILN" "$OUT/gemm_times.csv" --seconds="$seconds" --seed="${3:-1}" \
    --types="${TYPES:-bf16,e4m3}" ${2:+--shapes="$2"} ${FEW:+--few} || exit 1
# shellcheck disable=SC2086
python3 bench/gemm_fit.py "$OUT/gemm_times.csv" $TIMES ${KEEP:---write}
