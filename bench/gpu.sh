#!/bin/sh
# SPDX-License-Identifier: MIT
# gpu.sh - the tables of docs/benchmarks/h200.md: builds, then times every row in turns with PyTorch's libraries.
#
#   bench/gpu.sh [FAMILY...]     of: gemm attention backward memory mla launch compile, op (operators); default: all but op
#
# Results go to $OUT (default: build/bench), each row when it is there: gpu.md; gpu.json, a line for each family that
# has ended; gpu.html, a page of it beside the runs in HISTORY (files or folders, with commas between them); clocks.csv; errors.log. A row that takes longer than ROW_LIMIT seconds (60) or ends the program is left out,
# one that faults says so, and the family goes on after it; a family has LIMIT seconds (110), all of them TOTAL (540). The cache is a fresh one, so
# that build times are cold. KILN: a command built elsewhere (scripts/gpu_kit.sh); else it is built in BUILD.
cd "$(dirname "$0")/.." || exit 1
OUT=${OUT:-build/bench}; BUILD=${BUILD:-build}; LIMIT=${LIMIT:-110}; TOTAL=${TOTAL:-540}; ROW_LIMIT=${ROW_LIMIT:-60}
began=$(date +%s)
mkdir -p "$OUT" || exit 1
KILN_CACHE=$(mktemp -d) || exit 1
export KILN_CACHE
if [ -z "$KILN" ]; then
    { cmake -S . -B "$BUILD" && cmake --build "$BUILD" --target kiln_command -j "$(nproc)"; } > "$OUT/build.log" 2>&1 ||
        { tail -40 "$OUT/build.log"; exit 1; }
    KILN=$BUILD/kiln
fi
{
    echo "date: $(date -u +%F), commit: ${COMMIT:-$(git rev-parse --short HEAD)}"
    nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem,power.limit --format=csv,noheader
    timeout 60 python3 -c 'import torch; print("PyTorch", torch.__version__, "CUDA", torch.version.cuda, "cuDNN", torch.backends.cudnn.version())'
} > "$OUT/gpu.md" 2>&1
: > "$OUT/errors.log"
: > "$OUT/gpu.json"
nvidia-smi --query-gpu=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv,noheader -l 2 > "$OUT/clocks.csv" 2>&1 &
CLOCKS=$!
trap 'kill "$CLOCKS" 2>/dev/null; rm -rf "$KILN_CACHE"' EXIT
trap 'exit 1' INT TERM

seconds_left() { # seconds_left FAMILY-BEGIN: of the family, and of all
    now=$(date +%s)
    left=$((LIMIT - now + $1)) all=$((TOTAL - now + began))
    [ "$left" -gt "$all" ] && left=$all
}

# measure FAMILY ARGUMENT...: runs it, then again after the row that ended it, while there is time.
measure() {
    family=$1; shift
    begin=$(date +%s) skip=0
    printf '\n## %s\n\n' "$family" >> "$OUT/gpu.md"
    before=$(wc -l < "$OUT/gpu.md")
    while seconds_left "$begin"; [ "$left" -gt 5 ]; do
        timeout -k 5 "$left" "$KILN" bench --device=cuda:0 --save="$OUT/$family.json" --row-limit="$ROW_LIMIT" --skip="$skip" "$@" \
            >> "$OUT/gpu.md" 2>> "$OUT/errors.log"
        status=$?
        { tr -d '\n' < "$OUT/$family.json"; echo; } >> "$OUT/gpu.json"
        rm -f "$OUT/$family.json"
        done=$(tail -n +$((before + 1)) "$OUT/gpu.md" | grep -cE '^\| (gemm|attention|backward|memory|mla|launch|op) ')
        echo "$family: status $status, $(($(date +%s) - begin)) s, $done rows" >> "$OUT/errors.log"
        [ "$status" -le 2 ] || [ "$family" = compile ] && return      # it ended by itself, maybe with rows that failed
        if [ "$status" -eq 3 ]; then                                  # the device is lost to that process: its row is printed
            skip=$((skip >= done ? skip + 1 : done))
            continue
        fi
        skip=$((skip > done ? skip + 1 : done + 1))
        printf '\nEnded by row %d with status %d (142: it took longer than %d s).\n\n' "$skip" "$status" "$ROW_LIMIT" >> "$OUT/gpu.md"
    done
    echo "$family: no time left" | tee -a "$OUT/errors.log" >> "$OUT/gpu.md"
}

for family in ${*:-gemm attention backward memory mla launch compile}; do
    case $family in
    compile) measure compile --compile ;;
    *)       measure "$family" --beside='python3 bench/baselines.py' "$family" ;;
    esac
done
"$KILN" bench --html="$OUT/gpu.html" --from="$OUT/gpu.json" ${HISTORY:+"--history=$HISTORY"} 2>> "$OUT/errors.log"
cat "$OUT/gpu.md" "$OUT/errors.log"
