#!/bin/sh
# test_gpu.sh - the tests that need an NVIDIA GPU, and one closing line: N passed, N failed, N skipped.
# usage: test_gpu.sh BUILD
#
#   kernels        every case of every kernel on the device
#   programs       the runtime on the device (tests/gpu), small programs of the language, the operators, examples
#   memcheck, racecheck, synccheck   a few cases of some kernels under compute-sanitizer
# Nothing is installed: without CMake the sources are compiled by a loop here, without cmocka its programs are skipped.
set -u
mkdir -p "$1" && build=$(cd "$1" && pwd) || exit 1
cd "$(dirname "$0")/.."
jobs=$(nproc)
logs=$build/gpu-logs
device=${KILN_TEST_DEVICE:-cuda:0}
SANITIZED="kernels/gemm/quickstart.tile kernels/attention/forward.tile kernels/norm/rms_norm.tile kernels/topk/topk.tile
    kernels/gemm/split_k.tile kernels/elementwise/add.tile"
rm -rf "$logs"
mkdir -p "$logs"
export KILN_CACHE="$build/gpu-cache" NO_COLOR=1

# ---- building

# Without CMake: each source on its own, then the command; the tests that cmocka is there for.
compile_all() {
    objects=$build/gpu-objects
    mkdir -p "$objects"
    sh src/emit/embed.sh src/lower >"$objects/prelude_texts.c" || return 1
    sh src/ops/embed.sh kernels kernels/attention/*.tile kernels/mla/*.tile >"$objects/kernel_texts.c" || return 1
    flags="-std=gnu11 -O2 -w -fno-strict-aliasing -Iinclude -Isrc"
    for source in src/base/*.c src/syntax/*.c src/check/*.c src/ir/*.c src/layout/*.c src/passes/*.c src/plan/*.c \
        src/lower/cpu/*.c src/lower/cuda/*.c src/emit/*.c src/toolchain/*.c src/compile/*.c src/runtime/*.c src/ops/*.c \
        src/tools/*.c "$objects/prelude_texts.c" "$objects/kernel_texts.c"; do
        [ -e "$source" ] && echo "$source $objects/$(echo "$source" | sed 's#[/.]#_#g').o"
    done >"$objects/list"
    xargs -P "$jobs" -n 2 sh -c '${CC:-cc} '"$flags"' -c "$0" -o "$1" || exit 255' <"$objects/list" || return 1
    ${CC:-cc} "$objects"/*.o -o "$build/kiln" -lpthread -ldl -lm || return 1
    mkdir -p "$objects/library"
    mv "$objects"/src_tools_*.o "$objects/library/"
    for example in scale decode_loop; do
        ${CC:-cc} $flags examples/$example.c "$objects"/*.o -o "$build/example_$example" -lpthread -ldl -lm || return 1
    done
    if echo '#include <cmocka.h>' | ${CC:-cc} -include stddef.h -include setjmp.h -include stdarg.h -E - >/dev/null 2>&1; then
        ${CC:-cc} $flags tests/gpu/device_test.c "$objects"/*.o -o "$build/gpu_device_test" -lcmocka -lpthread -ldl -lm
        for test in tests/ops/*_test.c; do
            ${CC:-cc} $flags "$test" tests/ops/support.c "$objects"/*.o -o "$build/ops_$(basename "$test" .c)" -lcmocka -lpthread -ldl -lm
        done
    fi
}

make_build() {
    if command -v cmake >/dev/null 2>&1; then sh scripts/build.sh "$build" "$jobs"
    else compile_all; fi
}

# ---- parts

# part NAME COMMAND...: one line with its counts and time; a program that prints no counts is one test.
part() {
    name=$1; shift
    started=$(date +%s)
    "$@" >"$logs/$name.log" 2>&1
    status=$?
    # shellcheck disable=SC2046
    set -- $(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$/\1 \2 \4/p' "$logs/$name.log" | tail -n 1)
    p=${1:-0} f=${2:-0} s=${3:-0}
    [ $# -eq 0 ] && [ $status -eq 0 ] && p=1
    [ $status -ne 0 ] && [ "$f" -eq 0 ] && f=1
    echo "$p $f $s" >"$logs/$name.count"
    printf '%-16s %5d passed, %d failed, %d skipped  %4d s\n' "$name" "$p" "$f" "$s" $(($(date +%s) - started))
    grep -E '^skip' "$logs/$name.log" | sed 's/^/    /'
    [ "$f" -ne 0 ] && { grep -E -A1 'FAIL|ERROR|error|=========' "$logs/$name.log" | head -n 60; echo "    more in $logs/$name.log"; }
    return 0
}

skip() { # skip NAME REASON
    echo "0 0 1" >"$logs/$1.count"
    printf '%-16s skipped: %s\n' "$1" "$2"
}

close_report() {
    cat "$logs"/*.count | awk '{ p += $1; f += $2; s += $3 } END { print p + 0 " passed, " f + 0 " failed, " s + 0 " skipped"; exit f > 0 }'
}

test_on_device() { # test_on_device FILE|FOLDER...
    "$build/kiln" test --device="$device" "$@" >"$logs/device.txt" 2>&1
    awk -v known=tests/gpu/not_yet_90.txt -f scripts/cuda_results.awk "$logs/device.txt"
}

program() { # program NAME: from either kind of build
    for path in "$build/tests/$1" "$build/examples/$1" "$build/$1"; do [ -x "$path" ] && echo "$path" && return; done
    return 1
}

run_program() { # run_program NAME [ARGUMENT...]
    path=$(program "$1") || { skip "$1" "it was not built: cmocka is not on this machine"; return; }
    name=$1; shift
    part "$name" "$path" "$@"
}

find_sanitizer() {
    for path in "$(command -v compute-sanitizer)" /usr/local/cuda/bin/compute-sanitizer /usr/local/cuda-*/bin/compute-sanitizer; do
        [ -x "$path" ] && echo "$path" && return
    done
    return 1
}

# The kernels of a file, quickly, from the cache that the tests before have filled.
sanitize() { # sanitize TOOL
    for file in $SANITIZED; do
        timeout 300 "$sanitizer" --tool "$1" --error-exitcode 9 --print-limit 3 "$build/kiln" test --device="$device" --quick "$file" \
            >"$logs/$1.txt" 2>&1
        status=$?
        grep '=========' "$logs/$1.txt"
        if [ $status -eq 124 ]; then echo "skip $file: not done in 300 s"; slow=$((slow + 1))
        elif grep -qE '^========= ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards' "$logs/$1.txt"; then clean=$((clean + 1))
        else echo "FAIL $file under $1"; cat "$logs/$1.txt"; dirty=$((dirty + 1)); fi
    done
    echo "$clean passed, $dirty failed, $slow skipped"
}

# ---- all of it

make_build || { echo "0 passed, 1 failed, 0 skipped"; exit 1; }
if ! "$build/kiln" devices --json | grep -qF "\"$device\": {\"usable\": true"; then
    skip gpu "$("$build/kiln" devices | grep "^cuda" | tr -s ' ')"
    close_report
    exit
fi
"$build/kiln" devices
part kernels test_on_device kernels
run_program gpu_device_test
run_program example_scale "$device"
run_program example_decode_loop --device "$device"
export KILN_TEST_DEVICE="$device" KILN_TEST_LONG=1
for path in "$build"/tests/language_*_test "$build"/tests/ops_*_test "$build"/ops_*_test; do
    [ -x "$path" ] && run_program "$(basename "$path")"
done
if sanitizer=$(find_sanitizer); then
    for tool in memcheck racecheck synccheck; do
        clean=0 dirty=0 slow=0
        part $tool sanitize $tool
    done
else
    skip sanitizers "compute-sanitizer is not on this machine"
fi
close_report
