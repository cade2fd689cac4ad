#!/bin/sh
# SPDX-License-Identifier: MIT
# cpu.sh - the tables of docs/benchmarks/cpu.md: a build from clean, every CPU row, every kernel's compile time.
#
#   bench/cpu.sh [NAME...]       only rows that contain a NAME
#
# Results go to $OUT (default: build/bench): cpu.md, rows.json, compile.json. SECONDS_EACH: for each row (default 3).
cd "$(dirname "$0")/.." || exit 1
OUT=${OUT:-build/bench}; CLEAN=$(mktemp -d) || exit 1
mkdir -p "$OUT" || exit 1
# OpenBLAS 0.3.21 takes newer AMD processors for ones without AVX-512, which doubles every ratio to it.
grep -qsw avx512f /proc/cpuinfo && export OPENBLAS_CORETYPE="${OPENBLAS_CORETYPE:-SkylakeX}"
load() { cut -d' ' -f1 /proc/loadavg; }
{
    echo "date: $(date -u +%F), commit: ${COMMIT:-$(git rev-parse --short HEAD)}, $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2), $(nproc) threads"
    begin=$(date +%s.%N); before=$(load)
    { cmake -S . -B "$CLEAN" -DCMAKE_BUILD_TYPE=Release && cmake --build "$CLEAN" --target kiln kiln_command -j 2; } > "$OUT/build.log" 2>&1 ||
        { tail -40 "$OUT/build.log"; exit 1; }
    echo "libkiln and the command from clean, -j 2: $(awk "BEGIN { printf \"%.1f\", $(date +%s.%N) - $begin }") s (target 60; load before $before)"
    echo "load before the rows: $(load)"
    echo
    "$CLEAN/kiln" bench --seconds="${SECONDS_EACH:-3}" --save="$OUT/rows.json" "$@"
    echo
    echo "load after the rows: $(load)"
    echo
    "$CLEAN/kiln" bench --compile --save="$OUT/compile.json"
} > "$OUT/cpu.md" 2> "$OUT/errors.log"
rm -rf "$CLEAN"
cat "$OUT/cpu.md" "$OUT/errors.log"
