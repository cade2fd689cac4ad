#!/bin/sh
# SPDX-License-Identifier: MIT
# sweep.sh - `kiln bench --sweep` on a GPU, a family after the other, each operator beside its peer in the same run.
#
#   bench/sweep.sh [FAMILY...]     default: all of `kiln bench --sweep --list`
#
# SEED (1) and COUNT (8) choose the shapes. A family begins no shape after LIMIT seconds (60); all end within 20 seconds after TOTAL (540). One that takes
# longer than ROW_LIMIT seconds (120, for peers that are compiled) or ends the program is left out, and the family goes on after it.
# Results go to $OUT (default: build/sweep): sweep.md, the tables; FAMILY.N.json, each row when it is there; errors.log. Last it prints a
# line for each family. KILN: a command built elsewhere; else it is built in BUILD. Peers beside PyTorch are found in PYTHONPATH.
cd "$(dirname "$0")/.." || exit 1
OUT=${OUT:-build/sweep}; BUILD=${BUILD:-build}; LIMIT=${LIMIT:-60}; TOTAL=${TOTAL:-540}; ROW_LIMIT=${ROW_LIMIT:-120}
SEED=${SEED:-1}; COUNT=${COUNT:-8}
began=$(date +%s)
mkdir -p "$OUT" || exit 1
if [ -z "$KILN" ]; then
    { cmake -S . -B "$BUILD" && cmake --build "$BUILD" --target kiln_command -j "$(nproc)"; } > "$OUT/build.log" 2>&1 ||
        { tail -40 "$OUT/build.log"; exit 1; }
    KILN=$BUILD/kiln
fi
: > "$OUT/errors.log"
{
    echo "date: $(date -u +%F), commit: ${COMMIT:-$(git rev-parse --short HEAD)}, seed $SEED, $COUNT shapes"
    nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit --format=csv,noheader
    timeout 60 python3 -c 'import torch; print("PyTorch", torch.__version__, "CUDA", torch.version.cuda, "cuDNN", torch.backends.cudnn.version())'
} > "$OUT/sweep.md" 2>&1

rows() { grep -c '"shape":' "$1" 2>/dev/null; }

# sweep FAMILY: again after the shape that ended it, while there is time.
sweep() {
    family=$1 skip=0 n=0 begin=$(date +%s)
    while now=$(date +%s); left=$((LIMIT - now + begin)) all=$((TOTAL - now + began)); [ "$left" -gt "$all" ] && left=$all; [ "$left" -gt 2 ]; do
        n=$((n + 1))
        timeout -k 5 $((all + 15)) "$KILN" bench --device=cuda:0 --sweep="$family" --seed="$SEED" --count="$COUNT" --skip="$skip" \
            --limit="$left" --row-limit="$ROW_LIMIT" --save="$OUT/$family.$n.json" \
            --beside="python3 bench/baselines.py --patience=$(((ROW_LIMIT * 5 + 5) / 6))" >> "$OUT/sweep.md" 2>> "$OUT/errors.log"
        status=$?
        done=$(rows "$OUT/$family.$n.json")
        echo "$family: status $status, $(($(date +%s) - begin)) s, ${done:-0} shapes" >> "$OUT/errors.log"
        case $status in 0|1|2|124) return ;; esac                 # it ended by itself, maybe with shapes that failed; or all time is over
        skip=$((skip + ${done:-0}))
        [ "$status" -eq 3 ] && [ "${done:-0}" -gt 0 ] && continue # the device was lost to that process: its shape is printed
        skip=$((skip + 1))
        printf '\n%s: ended by shape %d with status %d (142: it took longer than %d s).\n\n' "$family" "$skip" "$status" "$ROW_LIMIT" >> "$OUT/sweep.md"
    done
    echo "$family: no time left" | tee -a "$OUT/errors.log" >> "$OUT/sweep.md"
}

for family in ${*:-$("$KILN" bench --sweep --list | sed -n 's/^\([a-z0-9-]*\): .*/\1/p')}; do
    sweep "$family"
done
cat "$OUT/sweep.md"
sed 's/^/    /' "$OUT/errors.log"
echo '| family | shapes | failed | with a peer | least | 10% | median | geometric mean | below 0.9 |'
echo '| --- | --- | --- | --- | --- | --- | --- | --- | --- |'
grep -hE '^\| [a-z0-9-]+ \| [0-9]+ \| [0-9]+ \| [0-9]+ \| ' "$OUT/sweep.md"
grep -hE 'ended by shape|no time left' "$OUT/sweep.md"
