#!/bin/sh
# test.sh - everything that can be tested here, and one closing line: N passed, N failed, N skipped.
# usage: test.sh BUILD         a build made by scripts/build.sh; others are made beside it
#
# Two lanes run at once, since most parts leave a processor idle now and then:
#   first   unit, golden, API, ahead-of-time, example and document tests; every kernel on the CPU, natively, as AVX2, as
#           portable C, and with checks; every kernel compiled for CUDA
#   second  builds with ASan and UBSan (by clang, where it is there) and with TSan; the same tests in them; the fuzzers
# Kernels are compiled into a cache of this run's own, which starts empty and which all parts share.
# Each part leaves NAME.log and its counts in BUILD/test-logs; a skip is printed with its reason.
set -u
build=$(cd "$1" && pwd) || exit 1
cd "$(dirname "$0")/.."
jobs=$(( ($(nproc) + 1) / 2 ))
logs=$build/test-logs
FUZZ_SECONDS=${FUZZ_SECONDS:-30}                           # for each of the two
rm -rf "$logs" "$build/test-cache"
mkdir -p "$logs"
export KILN_CACHE="$build/test-cache" NO_COLOR=1
unset KILN_TEST_DEVICE KILN_ISA KILN_NVRTC KILN_CUDA
export UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1

# ---- parts

# counts FILE: "P F S" of the last line of the kind "P passed, F failed[, S skipped]", or nothing.
counts() {
    sed -nE 's/^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$/\1 \2 \4/p' "$1" | tail -n 1
}

# part NAME COMMAND...: one line with its counts and time; a program that prints no counts is one test.
part() {
    name=$1; shift
    started=$(date +%s)
    "$@" >"$logs/$name.log" 2>&1
    status=$?
    # shellcheck disable=SC2046
    set -- $(counts "$logs/$name.log")
    p=${1:-0} f=${2:-0} s=${3:-0}
    [ $# -eq 0 ] && [ $status -eq 0 ] && p=1
    [ $status -ne 0 ] && [ "$f" -eq 0 ] && f=1
    echo "$p $f $s" >"$logs/$name.count"
    {
        printf '%-16s %5d passed, %d failed, %d skipped  %4d s\n' "$name" "$p" "$f" "$s" $(($(date +%s) - started))
        grep -E '^skip' "$logs/$name.log" | sort | uniq -c | sed -E 's/^ *1 /    /; s/^ *([0-9]+) /    \1 x /' | cut -c1-240
        [ "$f" -ne 0 ] && { grep -E 'FAIL|ERROR|error|\*\*\*' "$logs/$name.log" | head -n 30; echo "    more in $logs/$name.log"; }
    } >"$logs/$name.report"
    cat "$logs/$name.report"
    return $((f > 0))
}

skip() { # skip NAME REASON
    echo "0 0 1" >"$logs/$1.count"
    printf '%-16s skipped: %s\n' "$1" "$2"
}

# ctest's log, one block for each program: cmocka counts its tests, others are one test or say "A of B ... passed".
count_ctest() {
    awk '
        / Testing: /                  { p = f = s = 0; skipped = "" }
        /^\[  PASSED  \] [0-9]+ test/ { p += $4 }
        /^\[  FAILED  \] [0-9]+ test/ { f += $4 }
        /^\[  SKIPPED \] [0-9]+ test/ { s += $4 }
        /^\[  SKIPPED \] [^0-9]/      { print "skip " name ": " $4 }
        /^[0-9]+ of [0-9]+ .*passed/  { p += $1; f += $3 - $1 }
        /^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped/ { p += $1; f += $3; s += $5 }
        /(^|: )skipped[:,] /          { s++; sub(/^skipped: /, ""); print "skip " name ": " $0 }
        / Test: /                     { name = $3 }
        /^Skip regular expression/    { S += s }
        /^Test Passed/                { if (p + s == 0) p = 1; P += p; F += f; S += s }
        /^Test (Failed|timed out|not run|Exception)|^\*\*\*|^Unable to find/ { if (f == 0) f = 1; P += p; F += f; S += s }
        END { print P + 0 " passed, " F + 0 " failed, " S + 0 " skipped" }' "$1"
}

run_ctest() { # run_ctest BUILD CTEST-ARGUMENT...
    folder=$1; shift
    log=$folder/Testing/Temporary/LastTest.log
    rm -f "$log"
    (cd "$folder" && exec ctest -j "$jobs" --output-on-failure --timeout 300 "$@")
    status=$?
    [ -f "$log" ] && count_ctest "$log"
    return $status
}

# What does not compile for CUDA yet is listed in tests/gpu/not_yet_ARCH.txt, by the beginnings of its lines, and is
# skipped with the compiler's reason; anything else that fails is a failure.
compile_for_cuda() { # compile_for_cuda ARCH FILE|FOLDER...
    arch=$1; shift
    "$build/kiln" test --arch="$arch" --compile-only --verbose "$@" >"$logs/ptxas-$arch.txt" 2>&1
    awk -v known="tests/gpu/not_yet_$arch.txt" -f scripts/cuda_results.awk "$logs/ptxas-$arch.txt"
}

# On the emulated device: a few cases of every kernel, then the pipelined ones again with other orders of threads and of
# copies, and with so few SMs that an instance works on several tiles.
run_emulated() {
    pipelined="kernels/gemm/gemm.tile kernels/gemm/split_k.tile kernels/gemm/stream_k.tile kernels/attention/forward.tile
        kernels/attention/backward.tile kernels/attention/varlen.tile kernels/linear kernels/mla/decode.tile kernels/sparse"
    status=0
    emulated 0 132 kernels || status=1
    # shellcheck disable=SC2086
    for seed in 1 2 3; do emulated $seed $seed $pipelined || status=1; done
    echo "with --arch=80"
    emulated 0 132 --arch=80 kernels/gemm kernels/norm kernels/topk/topk.tile kernels/attention/forward.tile || status=1
    awk '/^[0-9]+ passed, [0-9]+ failed/ { p += $1; f += $3; s += $5 } END { print p + 0 " passed, " f + 0 " failed, " s + 0 " skipped" }' \
        "$logs/emulated.txt"
    return $status
}

emulated() { # emulated SEED SMS ARGUMENT...
    KILN_EMULATOR_SEED=$1 KILN_EMULATOR_SMS=$2
    export KILN_EMULATOR_SEED KILN_EMULATOR_SMS
    shift 2
    BUILD=$build sh scripts/emulated.sh "$build/kiln" test --device=cuda:0 --quick "$@" >"$logs/emulated-part.txt" 2>&1
    result=$?
    cat "$logs/emulated-part.txt" >>"$logs/emulated.txt"
    grep -v '^[0-9]* passed' "$logs/emulated-part.txt"
    return $result
}

nvrtc_is_here() { "$build/kiln" devices 2>&1 | grep -q 'NVRTC [0-9]'; }

machine_has() { for flag in "$@"; do grep -qw "$flag" /proc/cpuinfo || return 1; done; }

# ---- the first lane

first_lane() {
    part programs run_ctest "$build"
    part kernels-native "$build/kiln" test kernels
    if machine_has avx2 fma f16c; then part kernels-avx2 "$build/kiln" test --quick --isa=avx2 kernels
    else skip kernels-avx2 "this processor lacks avx2, fma or f16c"; fi
    part kernels-portable "$build/kiln" test --quick --isa=portable kernels
    part kernels-check "$build/kiln" test --quick --check kernels
    if nvrtc_is_here; then
        part cuda-sm_90a compile_for_cuda 90 kernels tests/language/run
        part cuda-sm_80 compile_for_cuda 80 kernels tests/language/run
    else
        skip cuda-sm_90a "libnvrtc is not on this machine ('kiln devices' says where it was looked for)"
        skip cuda-sm_80 "libnvrtc is not on this machine"
    fi
    if [ -f "$build/tests/libemulated_gpu.so" ]; then part cuda-emulated run_emulated
    else skip cuda-emulated "there is no C++ compiler here"; fi
}

# ---- the second lane

# Warnings are errors with the compilers whose warnings are known.
strict() { # strict COMPILER
    case $(basename "$1")-$("$1" -dumpversion) in gcc-12*|clang-14*) echo ON ;; *) echo OFF ;; esac
}

can_compile() { # can_compile COMPILER FLAG: what it makes runs, too
    command -v "$1" >/dev/null 2>&1 || return 1
    printf 'int main(void) { return 0; }\n' >"$logs/probe.c"
    "$1" "$2" "$logs/probe.c" -o "$logs/probe" >"$logs/probe.log" 2>&1 && "$logs/probe"
}
can_fuzz() {
    printf 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return 0; }\n' >"$logs/probe.c"
    clang -fsanitize=address,fuzzer "$logs/probe.c" -o "$logs/probe" >"$logs/probe.log" 2>&1
}

build_with() { # build_with FOLDER COMPILER SANITIZERS CMAKE-OPTION...
    folder=$1 compiler=$2 sanitizers=$3
    shift 3
    CC=$compiler sh scripts/build.sh "$folder" "$jobs" -DCMAKE_BUILD_TYPE=Sanitize -DKILN_SANITIZE="$sanitizers" \
        -DKILN_WERROR="$(strict "$compiler")" "$@"
}

fuzz() { # fuzz TARGET FOLDER...: searches for FUZZ_SECONDS; inputs it finds are kept beside the logs
    target=$1; shift
    if [ "$fuzzer" = yes ]; then
        echo "with libFuzzer"
        mkdir -p "$logs/corpus-$target"
        "$build-asan/tests/${target}_search" -max_total_time="$FUZZ_SECONDS" -timeout=20 -rss_limit_mb=4000 -max_len=8192 \
            -print_final_stats=1 -artifact_prefix="$logs/" "$logs/corpus-$target" "$@"
    else
        echo "without coverage, by random variations: this machine has no libFuzzer (clang and libclang-rt-14-dev)"
        "$build-asan/tests/${target}_fuzz" --seconds="$FUZZ_SECONDS" "$@"
    fi
}

sanitized() {
    compiler= fuzzer=no
    for candidate in clang gcc cc; do
        if [ -z "$compiler" ] && can_compile $candidate -fsanitize=address,undefined; then compiler=$candidate; fi
    done
    [ "$compiler" = clang ] && can_fuzz && fuzzer=yes
    [ -z "$compiler" ] && { skip asan "no compiler here has ASan and UBSan"; skip fuzz "it needs the build with ASan"; return; }
    part asan-build build_with "$build-asan" "$compiler" address,undefined \
        -DKILN_FUZZ="$([ $fuzzer = yes ] && echo ON || echo OFF)" || return
    # The prelude's tests for every instruction set are the same programs as in the first lane.
    part asan-programs run_ctest "$build-asan" -E 'every_isa|docs'
    [ $fuzzer = no ] && echo "fuzzing without libFuzzer: clang and its run-time library are not here"
    part fuzz-front_end fuzz front_end tests/fuzz/corpus/front_end tests/language/errors tests/language/run kernels
    part fuzz-launch fuzz launch tests/fuzz/corpus/launch
    part asan-kernels "$build-asan/kiln" test --quick kernels
}

raced() {
    compiler=
    for candidate in gcc clang cc; do
        if [ -z "$compiler" ] && can_compile $candidate -fsanitize=thread; then compiler=$candidate; fi
    done
    [ -z "$compiler" ] && { skip tsan "no compiler here has TSan, or it does not run on this kernel"; return; }
    part tsan-build build_with "$build-tsan" "$compiler" thread || return
    part tsan-programs run_ctest "$build-tsan" -R '^(api_|ops_handle|ops_refusal|tools_|example_|emit|plan|base)'
}

second_lane() {
    sanitized
    raced
}

# ---- all of it

began=$(date +%s)
second_lane &
first_lane
wait
echo "$(($(date +%s) - began)) s in all"
cat "$logs"/*.count | awk '{ p += $1; f += $2; s += $3 } END { print p + 0 " passed, " f + 0 " failed, " s + 0 " skipped"; exit f > 0 || p == 0 }'
