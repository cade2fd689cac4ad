#!/bin/sh
# gpu.sh - the tables of docs/benchmarks/h200.md: builds, then times every row in turns with PyTorch's libraries.
#
#   bench/gpu.sh [FAMILY...]     of: gemm attention backward memory mla launch compile; default: all
#
# Results go to $OUT (default: build/bench): gpu.md, and a JSON file per family. A family that takes too long is ended
# and the others go on. The caches are fresh ones, so that build times are cold. KILN: a command built elsewhere.
cd "$(dirname "$0")/.." || exit 1
OUT=${OUT:-build/bench}; BUILD=${BUILD:-build}; LIMIT=${LIMIT:-150}
mkdir -p "$OUT" || exit 1
KILN_CACHE=$(mktemp -d) || exit 1
CUDA_CACHE_DISABLE=1                      # NVRTC's own
export KILN_CACHE CUDA_CACHE_DISABLE
if [ -z "$KILN" ]; then
    { cmake -S . -B "$BUILD" && cmake --build "$BUILD" --target kiln_command -j "$(nproc)"; } > "$OUT/build.log" 2>&1 ||
        { tail -40 "$OUT/build.log"; exit 1; }
    KILN=$BUILD/kiln
fi
{
    echo "date: $(date -u +%F), commit: ${COMMIT:-$(git rev-parse --short HEAD)}"
    nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem,power.limit --format=csv,noheader
    python3 -c 'import torch; print("PyTorch", torch.__version__, "CUDA", torch.version.cuda, "cuDNN", torch.backends.cudnn.version())'
} > "$OUT/gpu.md" 2>&1
nvidia-smi --query-gpu=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv,noheader -l 2 > "$OUT/clocks.csv" 2>&1 &
CLOCKS=$!
for family in ${*:-gemm attention backward memory mla launch compile}; do
    case $family in
    compile) set -- --compile ;;
    *)       set -- --beside='python3 bench/baselines.py' "$family" ;;
    esac
    printf '\n## %s\n\n' "$family" >> "$OUT/gpu.md"
    begin=$(date +%s)
    timeout "$LIMIT" "$KILN" bench --device=cuda:0 --save="$OUT/$family.json" "$@" >> "$OUT/gpu.md" 2>> "$OUT/errors.log"
    echo "$family: exit $?, $(($(date +%s) - begin)) s" >> "$OUT/errors.log"
done
kill "$CLOCKS"
rm -rf "$KILN_CACHE"
cat "$OUT/gpu.md" "$OUT/errors.log"
