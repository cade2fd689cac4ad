#!/bin/sh
# SPDX-License-Identifier: MIT
# test_gpu.sh - the tests that need an NVIDIA GPU: a line for each part as it ends, then a table and one closing line.
# usage: test_gpu.sh BUILD
#
# BUILD is built first, with CMake or without. If it holds a `kiln` but no CMakeCache.txt or objects, it was made on
# another machine (scripts/gpu_kit.sh) and is used as it is. Parts, in this order:
#
#   the runtime              tests/gpu/device_test.c, alone
#   long                     the operators at full size: the parts that take longest
#   examples
#   kernels, language        every case of a .tile file on the device; a part for each file of kernels/ and tests/language/run
#   operators                tests/ops, the programs of tests/unit/language, and large tensors on the device
#   memcheck, racecheck, synccheck    a small case of some kernels under compute-sanitizer
#   sm_80, checked           some cases of every file as generic code, and with checks
#
# LANES parts (a third of the processors, 2 to 12) run at once, each with a limit, and all of them within LIMIT seconds
# (530): what finds no time left is skipped and named. A part that fails or hangs does not stop others. Logs stand in BUILD/gpu-logs.
set -u

# ---- one part, in a process of its own

FIRST_LINES='FAIL|ERROR|error|\*\*\*|=========.*(Invalid|hazard|Barrier|Error|not)|did not end'

find_program() { # find_program NAME: as CMake and plain_build.sh place it
    for path in "$build/tests/$1" "$build/examples/$1"; do [ -x "$path" ] && echo "$path" && return; done
    if needs_cmocka "$1" && ! has_cmocka; then echo "skip $1: it is not built, for cmocka is not on this machine"
    else echo "error: $build has no $1"; fi
    return 1
}

needs_cmocka() { case $1 in example_*) return 1 ;; esac; }

has_cmocka() {
    echo '#include <cmocka.h>' |
        ${CC:-cc} -include stdarg.h -include stddef.h -include stdint.h -include setjmp.h -E - >/dev/null 2>&1
}

# The small cases that compute-sanitizer sees, each of another kernel: TOOLS FILE, a part of a case's label. The tools: m
# memcheck, r racecheck, s synccheck.
#
# racecheck follows no arrival by cp.async at an mbarrier, and takes what one thread says for a group or warp, after a
# barrier among them, for that thread's own accesses alone: it names races in every kernel that fills shared memory so.
# synccheck wants all threads of a named barrier at one instruction, and hangs where groups meet at two. The emulated
# device looks for both in all kernels.
sanitized_cases() {
    cat <<'END'
mrs kernels/elementwise/add.tile add<f32>(M=33, N=500
mrs kernels/norm/rms_norm.tile rms_norm<bf16,WIDTH=1024>(M=5, N=700, eps=1e-06) W=none
mrs kernels/topk/topk.tile topk<KK=1,WIDTH=128>(M=1, N=100
mrs kernels/topk/select.tile topk_select<K=64,CAP=1024>(B=6, N=3000
mrs kernels/gemm/quickstart.tile matmul_relu<f16>(M=129, N=200, K=128
mrs kernels/gemm/gemm.tile gemm_nt<bf16>(M=100, N=256, K=77
mrs kernels/gemm/split_k.tile gemm_split_k<f16>(M=130, N=129, K=100, splits=1
mrs kernels/gemm/stream_k.tile gemm_stream_k<f32,BM=32,BN=32,BK=32>(M=256, N=160, K=300, instances=7
m-s kernels/gemm/sparse24.tile gemm_sparse24_nn<bf16>(M=130, H=160, K=320, P=40, N=264
mrs kernels/conv/conv2d.tile conv2d<f16,BM=64,BN=64,BK=32>(N=2, H=5, W=9, C=3, KH=1, KW=3, F=8, stride=1, dilation=2, pad=2
mrs kernels/attention/forward.tile attention_forward<bf16,D=64,CAUSAL=1>(B=1, S=200, SKV=200, H=4, HKV=1
mrs kernels/attention/varlen.tile attention_varlen<bf16,D=128,DV=128,CAUSAL=1>(B=4, TQ=170, TK=290, H=2, HKV=1
mrs kernels/attention/decode.tile flash_decode<f16,D=64,G=4,BN=64>(B=2, S=200, H=4, HKV=1, splits=3
m-s kernels/attention/backward.tile attention_backward<bf16,D=128,DV=128,CAUSAL=1>(B=1, S=130, SKV=100, H=4, HKV=2
m-s kernels/attention/backward_varlen.tile attention_varlen_backward<bf16,D=128,DV=128,CAUSAL=1>(B=5, TQ=160, TK=290, H=2, HKV=1
m-- kernels/mla/decode.tile mla_decode_planned<bf16,CAUSAL=1,PS=64>(B=3, SQ=8, HQ=6, HKV=2
m-- kernels/mla/decode_fp8.tile mla_decode_fp8_planned<PAIR=2,HALVES=1,f16>(B=3, SQ=2, HQ=5, PAGES=6, PS=64, TOPK=200, parts=7
m-- kernels/mla/decode_dense_fp8.tile mla_decode_dense_fp8_planned<CAUSAL=0>(B=4, SQ=1, HQ=20, PS=64, MAXP=5, PAGES=20, parts=7
m-- kernels/mla/prefill.tile mla_prefill_sparse<D=576,KEYS=128>(S=1, HQ=80, SKV=153, TOPK=200
m-- kernels/mla/decode_contiguous.tile mla_decode_contiguous<f16>(B=2, H=72, S=333, splits=3
mrs kernels/linear/gdn.tile gdn_state<bf16,DK=64,BV=32,CV=2>(B=1, S=150, H=2, DV=64) Gate=present H0=present
m-- kernels/linear/gdn.tile gdn_forward<bf16,bf16,DK=64,DV=64,G=2,NORM=1,FUSED=1,BO=32>(B=1, S=150, H=2, N=4
mrs kernels/linear/step.tile recurrent_step<bf16,f32,DK=128,DV=64,R=3,DELTA=1>(B=3, H=2, M=10
mrs kernels/linear/causal_conv.tile causal_conv<bf16,f32,W=4,ACT=4>(B=1, S=70, D=40, N=4
mrs tests/language/run/clusters.tile product<C=4>(M=300, N=504, K=200
mr- tests/language/run/clusters.tile converted<C=2
m-s tests/language/run/clusters.tile ragged<C=2,OWN=0
END
}

sanitizer() {
    for path in "$(command -v compute-sanitizer)" /usr/local/cuda/bin/compute-sanitizer /usr/local/cuda-*/bin/compute-sanitizer; do
        [ -x "$path" ] && echo "$path" && return
    done
    return 1
}

command_of() { # command_of NAME LIMIT: runs what the part is
    case $1 in
    memcheck:*|racecheck:*|synccheck:*)
        set -- "${1%%:*}" "$2" $(sanitized_cases | grep -F " ${1#*:}<" | cut -d ' ' -f 2) "$(sanitized_cases | grep -F " ${1#*:}<" | cut -d ' ' -f 3-)"
        exec timeout -k 5 "$2" "$(sanitizer)" --tool "$1" --error-exitcode 9 --print-limit 3 "$build/kiln" test --device="$device" --filter="$4" "$3" ;;
    sm_80:*)  exec timeout -k 5 "$2" "$build/kiln" test --device="$device" --arch=80 --quick --verbose "${1#*:}" ;;
    checked:*) exec timeout -k 5 "$2" "$build/kiln" test --device="$device" --check --quick --verbose "${1#*:}" ;;
    *.tile)   exec timeout -k 5 "$2" "$build/kiln" test --device="$device" --verbose "$1" ;;
    example_scale)       path=$(find_program "$1") && exec timeout -k 5 "$2" "$path" "$device" ;;
    example_decode_loop) path=$(find_program "$1") && exec timeout -k 5 "$2" "$path" --device "$device" ;;
    long:*)   export KILN_TEST_LONG=1 KILN_TEST_FILTER='*whole_grid'
              path=$(find_program "${1#*:}") && exec timeout -k 5 "$2" "$path" ;;
    *)        path=$(find_program "$1") && exec timeout -k 5 "$2" "$path" ;;
    esac
    echo "$path"
    return 1
}

# "P F S" of a log: of `kiln test`, of cmocka, or nothing.
counts() {
    awk '
        /^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { p = $1; f = $3; s = $5; any = 1 }
        /^\[  PASSED  \] [0-9]+ test/ { p += $4; any = 1 }
        /^\[  FAILED  \] [0-9]+ test/ { f += $4; any = 1 }
        /^\[  SKIPPED \] [0-9]+ test/ { s += $4; any = 1 }
        END { if (any) print p + 0, f + 0, s + 0 }' "$1"
}

record() { # record NAME P F S SECONDS
    printf '%s\t%d\t%d\t%d\t%d\n' "$@" >>"$logs/results"
    printf '%-44s %5d passed, %d failed, %d skipped  %4d s\n' "$@"
}

run_part() { # run_part NAME LIMIT
    name=$1 limit=$2
    log=$logs/$(echo "$name" | tr '/:' '__').log
    started=$(date +%s)
    left=$((deadline - started))
    if [ "$left" -lt 10 ]; then
        echo "skip $name: no time was left" >"$log"
        record "$name" 0 0 1 0
        return
    fi
    [ "$limit" -gt "$left" ] && limit=$left
    (command_of "$name" "$limit") >"$log" 2>&1 </dev/null
    status=$?
    if [ $status -eq 124 ] || [ $status -eq 137 ]; then
        last=$(grep -E '^(ok|FAIL|\[ +(RUN|OK) )' "$log" | tail -n 1)
        echo "FAIL: did not end within $limit s; the last that was heard: ${last:-nothing}" >>"$log"
    fi
    case $name in
    *check:*)
        grep -qE '^========= (ERROR|RACECHECK) SUMMARY: [1-9]' "$log" && status=9 ;;
    *.tile)
        [ $status -eq 1 ] && status=0 ;;                   # its failed cases are counted
    esac
    if grep -q '^skip .*: it is not built, for cmocka' "$log"; then
        record "$name" 0 0 1 0
        return
    fi
    # shellcheck disable=SC2046
    set -- $(counts "$log")
    p=${1:-0} f=${2:-0} s=${3:-0}
    case $name in *.tile) [ $status -ge 124 ] && p=$(grep -cE '^ok .* ms$' "$log") ;; esac           # it did not count them itself
    case $name in
    example_*) [ $status -eq 0 ] && p=1 ;;
    *) [ $# -eq 0 ] && [ $status -eq 0 ] && status=1 ;;    # all others count
    esac
    if [ $status -ne 0 ] && [ "$f" -eq 0 ]; then
        f=1
        grep -qE "$FIRST_LINES" "$log" || echo "FAIL: ended with status $status" >>"$log"
    fi
    record "$name" "$p" "$f" "$s" $(($(date +%s) - started))
}

if [ "$1" = --part ]; then
    build=$KILN_GPU_BUILD logs=$build/gpu-logs device=$KILN_TEST_DEVICE deadline=$KILN_GPU_DEADLINE
    run_part "$2" "$3"
    exit 0
fi

# ---- all of it

mkdir -p "$1" && build=$(cd "$1" && pwd) || exit 1
script=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
cd "$(dirname "$script")/.."
logs=$build/gpu-logs
export NO_COLOR=1 KILN_TEST_DEVICE="${KILN_TEST_DEVICE:-cuda:0}" KILN_GPU_BUILD="$build"
export KILN_PATH="${KILN_PATH:-$PWD/kernels}" # a kit has no library beside it
rm -rf "$logs"
mkdir -p "$logs"

is_prebuilt() { [ -x "$build/kiln" ] && [ ! -e "$build/CMakeCache.txt" ] && [ ! -e "$build/objects" ]; }

make_build() {
    if is_prebuilt; then return 0; fi
    if command -v cmake >/dev/null 2>&1; then sh scripts/build.sh "$build" "$(nproc)"
    else sh scripts/plain_build.sh "$build" "$(nproc)"; fi
}

make_build || { echo "0 passed, 1 failed, 0 skipped"; exit 1; }
[ -d "$build/lib" ] && export LD_LIBRARY_PATH="$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
[ -f "$build/cache.tar.gz" ] && [ ! -d "$build/cache" ] && tar -C "$build" -xzf "$build/cache.tar.gz"
if [ -d "$build/cache" ]; then KILN_CACHE=$build/cache; else KILN_CACHE=$build/gpu-cache; fi
export KILN_CACHE
if ! "$build/kiln" devices --json | grep -qF "\"$KILN_TEST_DEVICE\": {\"usable\": true"; then
    "$build/kiln" devices
    echo "skip: $KILN_TEST_DEVICE cannot be used"
    echo "0 passed, 0 failed, 1 skipped"
    exit 1
fi
"$build/kiln" devices
began=$(date +%s)
export KILN_GPU_DEADLINE=$((began + ${LIMIT:-530}))
lanes=$(($(nproc) / 3))
[ "$lanes" -lt 2 ] && lanes=2
[ "$lanes" -gt 12 ] && lanes=12
run_lanes() { xargs -P "${LANES:-$lanes}" -n 2 sh "$script" --part; }

echo "gpu_device_test 60" | run_lanes
{
    for test in attention_prefill mla_decode mla_sparse; do echo "long:ops_${test}_test 300"; done
    echo "example_scale 60"
    echo "example_decode_loop 60"
    files=$(for file in $(ls -S kernels/*/*.tile) tests/language/run/*.tile; do grep -q '^check ' "$file" && echo "$file"; done)
    for file in $files; do echo "$file 150"; done
    for source in tests/api/large_test.c tests/unit/language/*_test.c tests/ops/*_test.c; do
        echo "$(echo "$source" | sed 's#^tests/##; s#^unit/##; s#/#_#g; s#\.c$##') 120"
    done
    if sanitizer >/dev/null; then
        for tool in memcheck racecheck synccheck; do
            sanitized_cases | sed -n "s/^[mrs-]*$(echo $tool | cut -c 1)[mrs-]* [^ ]* \([^<]*\)<.*/$tool:\1 90/p"
        done
    fi
    for file in $files; do echo "sm_80:$file 150"; done
    for file in $files; do echo "checked:$file 150"; done
} | grep -E "${PARTS:-.}" >"$logs/parts"
run_lanes <"$logs/parts"
sanitizer >/dev/null || { echo "skip sanitizers: compute-sanitizer is not on this machine" >"$logs/sanitizers.log"; record sanitizers 0 0 1 0; }

# ---- the table: a row for what passed of each kind, then one for every other part with the lines that say why

kind_of='function kind(name) {
    return name ~ /^(memcheck|racecheck|synccheck|long|sm_80|checked):/ ? substr(name, 1, index(name, ":") - 1) : \
           name ~ /^kernels\// ? "kernels" : name ~ /^tests\/language\// ? "language" : \
           name ~ /^(ops|language|api)_/ ? "operators" : "runtime" }'
printf '\n%-44s %7s %7s %7s %7s\n' part passed failed skipped seconds
awk -F '\t' "$kind_of"' { k = kind($1); if (!(k in n)) order[++kinds] = k; n[k]++; p[k] += $2; f[k] += $3; s[k] += $4; t[k] += $5 }
    END { for (i = 1; i <= kinds; i++) { k = order[i]; printf "%-44s %7d %7d %7d %7d\n", k " (" n[k] ")", p[k], f[k], s[k], t[k] } }' "$logs/results"
missing=$(sed -n 's/^skip \(.*\): it is not built, for cmocka is not on this machine$/\1/p' "$logs"/*.log 2>/dev/null | sort -u)
[ -n "$missing" ] && echo "not built, for cmocka is not on this machine (libcmocka-dev has it):" $missing
late=$(grep -lx 'skip .*: no time was left' "$logs"/*.log 2>/dev/null | wc -l)
[ "$late" -gt 0 ] && echo "no time was left for $late parts: $(sed -n 's/^skip \(.*\): no time was left$/\1/p' "$logs"/*.log | tr '\n' ' ' | cut -c1-1500)"
awk -F '\t' '$3 || $4' "$logs/results" | while IFS='	' read -r name p f s seconds; do
    log=$logs/$(echo "$name" | tr '/:' '__').log
    grep -qx 'skip .*: no time was left' "$log" && continue
    printf '%-44s %7d %7d %7d %7d\n' "$name" "$p" "$f" "$s" "$seconds"
    [ "$f" -gt 0 ] && grep -E -A1 "$FIRST_LINES" "$log" | grep -v '^--$' | head -n 4 | cut -c1-180 | sed 's/^/    /'
    [ "$s" -gt 0 ] && grep -iE '^(skip|reason: )|: skipped' "$log" | head -n 3 | cut -c1-180 | sed 's/^/    /'
done
echo "$(($(date +%s) - began)) s in all; logs in $logs"
awk -F '\t' '{ p += $2; f += $3; s += $4 } END { print p + 0 " passed, " f + 0 " failed, " s + 0 " skipped"; exit f > 0 || p == 0 }' "$logs/results"
