#!/bin/sh
# SPDX-License-Identifier: MIT
# test.sh - everything that can be tested here, and one closing line: N passed, N failed, N skipped.
# usage: [ALL=1] [DAY=N] [LIMIT=SECONDS] [TESTS='test_native ...'] [FRAMEWORKS=yes] test.sh BUILD
#
# BUILD was made by scripts/build.sh; other builds are made beside it. TESTS: these parts (all_parts in scripts/turns.sh), on any day.
#
# What a run takes depends on the day, which is printed; DAY, a number, stands for another one. ALL=1 takes every case of all.
# scripts/turns.sh says what takes turns; tests/tools/turns_test.sh, that each has its day. FRAMEWORKS=yes: PyTorch and JAX, 5 GB, are
# installed into BUILD for the Python package's tests on the days that take them (scripts/frameworks.sh).
#
# The parts: unit, golden, API, ahead-of-time, example and document tests; every kernel on the CPU, natively, as AVX2, as
# portable C, and with checks; every kernel compiled for CUDA, and run on the emulated device; a few kernels rewritten; a
# half a minute of generated programs in all these forms; builds with ASan and UBSan (by clang, where it is there) and with TSan;
# the same tests in them; the fuzzers.
# Two lanes take them one by one, in the order of all_parts, so that both end at about the same time.
# Kernels are compiled into a cache of this run's own, which starts empty and which all parts share: a part that needs
# what another compiles comes after it.
# Each part leaves NAME.log and its counts in BUILD/test-logs; a skip is printed with its reason. A part has a limit of time
# (limit_of below, or LIMIT seconds); past it, it is ended, with all that it started, and has failed. Beside the time that a
# part took stands what it took of processors, which other work on the machine hardly changes.
set -u
script=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
[ "$1" = --command ] || build=$(cd "$1" && pwd) || exit 1
cd "$(dirname "$0")/.."
jobs=$(( ($(nproc) + 1) / 2 ))
logs=$build/test-logs
FUZZ_SECONDS=${FUZZ_SECONDS:-15}                           # for each of the two
if [ "$1" != --command ]; then
    # shellcheck source=scripts/turns.sh
    . scripts/turns.sh
    if [ -n "${ALL:-}" ]; then unset KILN_TEST_DAY; take_all
    else
        quick=yes day=${DAY:-$(($(date +%s) / 86400))}
        export KILN_TEST_DAY="$day"
        take_turns "$day" "$(cd "$build" && ctest -N 2>/dev/null | sed -n 's/^ *Test *#[0-9]*: //p')"
        [ -z "${TESTS:-}" ] || left_parts=
    fi
fi
[ "$1" = --command ] || { rm -rf "$logs" "$build/test-cache"; mkdir -p "$logs"; }
export KILN_CACHE="$build/test-cache" NO_COLOR=1
unset KILN_TEST_DEVICE KILN_ISA KILN_NVRTC KILN_CUDA
export UBSAN_OPTIONS=print_stacktrace=1
# With TSan a program that leaves threads waiting sleeps before it ends, to see what they still do: a second, if not told.
# It does not see the lock of the dynamic loader.
export TSAN_OPTIONS="halt_on_error=1 atexit_sleep_ms=100 suppressions='$PWD/tests/tsan.suppressions'"

# ---- parts

# counts FILE: "P F S" of the last line of the kind "P passed, F failed[, S skipped]", or nothing.
counts() {
    sed -nE 's/^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$/\1 \2 \4/p' "$1" | tail -n 1
}

# add_counts FILE: one line for all such lines.
add_counts() {
    awk '/^[0-9]+ passed, [0-9]+ failed/ { p += $1; f += $3; s += $5 } END { print p + 0 " passed, " f + 0 " failed, " s + 0 " skipped" }' "$1"
}

# count NAME P F S: the part has ended. In one move, for who waits for it.
count() {
    echo "$2 $3 $4" >"$logs/$1.counted"
    mv "$logs/$1.counted" "$logs/$1.count"
}

# Processor seconds of all that this lane has run.
processor_seconds() {
    times >"$logs/times-$lane"
    awk 'END { split($1, u, "m"); split($2, s, "m"); printf "%d", 60 * (u[1] + s[1]) + u[2] + s[2] }' "$logs/times-$lane"
}

# Seconds that a part may take: some three times what it does on two processors.
limit_of() { # limit_of NAME
    case $1 in
    programs | asan-programs) seconds=2400 ;;
    kernels-native | kernels-check | kernels-avx2 | kernels-portable | cuda-* | asan-kernels | tsan-programs) seconds=900 ;;
    language-*) seconds=900 ;;
    generated) seconds=$((300 + GENERATE_SECONDS)) ;;
    fuzz-*) seconds=$((120 + FUZZ_SECONDS)) ;;
    *) seconds=600 ;;
    esac
    [ -z "${ALL:-}" ] || seconds=$((10 * seconds))
    echo "${LIMIT:-$seconds}"
}

# part NAME COMMAND...: one line with its counts and time; a program that prints no counts is one test. The command runs in
# this script again, so that its time can be limited where it is a function.
part() {
    name=$1 limit=$(limit_of "$1"); shift
    started=$(date +%s)
    processor_seconds >"$logs/before-$lane"
    timeout -k 10 "$limit" sh "$script" --command "$@" >"$logs/$name.log" 2>&1
    status=$?
    if [ $status -eq 124 ] || [ $status -eq 137 ]; then echo "FAIL: $name did not end within $limit s" >>"$logs/$name.log"; fi
    processor_seconds >"$logs/after-$lane"
    used=$(($(cat "$logs/after-$lane") - $(cat "$logs/before-$lane")))
    # shellcheck disable=SC2046
    set -- $(counts "$logs/$name.log")
    p=${1:-0} f=${2:-0} s=${3:-0}
    [ $# -eq 0 ] && [ $status -eq 0 ] && p=1
    [ $status -ne 0 ] && [ "$f" -eq 0 ] && f=1
    {
        printf '%-16s %5d passed, %d failed, %d skipped  %4d s, %4d of a processor\n' "$name" "$p" "$f" "$s" \
            $(($(date +%s) - started)) $used
        grep -E '^skip' "$logs/$name.log" | sort | uniq -c | sed -E 's/^ *1 /    /; s/^ *([0-9]+) /    \1 x /' | cut -c1-240
        [ "$f" -ne 0 ] && { grep -E 'FAIL|ERROR|error|\*\*\*' "$logs/$name.log" | head -n 30; echo "    more in $logs/$name.log"; }
    } >"$logs/$name.report"
    cat "$logs/$name.report"
    count "$name" "$p" "$f" "$s"
    return $((f > 0))
}

skip() { # skip NAME REASON
    count "$1" 0 0 1
    printf '%-16s skipped: %s\n' "$1" "$2"
}

# ctest's log, one block for each program: cmocka counts its tests, others are one test or say "A of B ... passed".
count_ctest() {
    awk '
        / Testing: /                  { p = f = s = 0; skipped = "" }
        /^\[  PASSED  \] [0-9]+ test/ { p += $4 }
        /^\[  FAILED  \] [0-9]+ test/ { f += $4 }
        /^\[  SKIPPED \] [0-9]+ test/ { s += $4 }
        /^\[ RUN      \]/             { test = $4 }
        /^reason: /                   { sub(/^reason: /, ""); print "skip " name ", " test ": " $0 }
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
    (cd "$folder" && exec ctest -j "$jobs" --output-on-failure --timeout 600 "$@")
    status=$?
    [ -f "$log" ] && count_ctest "$log"
    return $status
}

# On the emulated device: a few cases of the kernels whose turn it is, then pipelined ones with other orders of threads and of
# copies, and with so few SMs that an instance works on several tiles; then some as generic CUDA.
run_emulated() {
    status=0
    # shellcheck disable=SC2086
    run_some 0 132 $emulated || status=1
    # shellcheck disable=SC2086
    for sms in $few_sms; do run_some $((order_seed + sms)) $sms $pipelined || status=1; done
    echo "with --arch=80"
    # shellcheck disable=SC2086
    run_some 0 132 --arch=80 $emulated_80 || status=1
    add_counts "$logs/emulated.txt"
    return $status
}

run_some() { # run_some SEED SMS ARGUMENT...
    seed=$1 sms=$2
    shift 2
    KILN_EMULATOR_SEED=$seed KILN_EMULATOR_SMS=$sms BUILD=$build sh scripts/emulated.sh "$build/kiln" test --device=cuda:0 --quick "$@" >"$logs/emulated-part.txt" 2>&1
    result=$?
    cat "$logs/emulated-part.txt" >>"$logs/emulated.txt"
    grep -v '^[0-9]* passed' "$logs/emulated-part.txt"
    return $result
}

# in_turns WHOLE BRIEF OPTION...: every case of WHOLE and of the kernels whose turn it is, few of BRIEF.
in_turns() {
    files=$1 few=$2; shift 2
    {
        status=0
        # shellcheck disable=SC2086
        "$build/kiln" test "$@" $files $whole || status=1
        # shellcheck disable=SC2086
        [ -z "$few" ] || "$build/kiln" test --quick "$@" $few || status=1
    } >"$logs/turns-$lane.txt" 2>&1
    cat "$logs/turns-$lane.txt"
    add_counts "$logs/turns-$lane.txt"
    return $status
}

# of_turn WHOLE OPTION...: every case of WHOLE, few of the kernels whose turn it is.
of_turn() {
    files=$1; shift
    {
        status=0
        # shellcheck disable=SC2086
        "$build/kiln" test "$@" $files || status=1
        # shellcheck disable=SC2086
        "$build/kiln" test ${quick:+--quick} "$@" $whole || status=1
    } >"$logs/turns-$lane.txt" 2>&1
    cat "$logs/turns-$lane.txt"
    add_counts "$logs/turns-$lane.txt"
    return $status
}

nvrtc_is_here() { "$build/kiln" devices 2>&1 | grep -q 'NVRTC [0-9]'; }

machine_has() { for flag in "$@"; do grep -qw "$flag" /proc/cpuinfo || return 1; done; }

# ---- this build

# libFuzzer begins with the same inputs, on its days.
test_programs() {
    without="$rests"
    for target in front_end launch; do
        case " $left_parts " in *" fuzz_$target "*) continue ;; esac
        [ $fuzzer = yes ] && [ -z "${TESTS:-}${ALL:-}" ] && without="$without|${target}_fuzz"
    done
    part programs run_ctest "$build" ${without:+-E "$without"}
}
test_native()   { part kernels-native in_turns "" "$native"; }
# shellcheck disable=SC2086
test_portable() { part kernels-portable "$build/kiln" test ${quick:+--quick} --isa=portable $of_portable; }
# shellcheck disable=SC2086
test_checked()  { part kernels-check "$build/kiln" test ${quick:+--quick} --check $of_check; }
# The programs take few of the language's cases where --check, another instruction set or what is GPUs' own is at stake.
test_language() {
    [ -z "$quick" ] || return
    for o in "" --check --isa=portable $(machine_has avx2 fma f16c && echo --isa=avx2); do
        # shellcheck disable=SC2086
        part "language-all$o" "$build/kiln" test $o tests/language/run
    done
}

test_avx2() {
    # shellcheck disable=SC2086
    if machine_has avx2 fma f16c; then part kernels-avx2 "$build/kiln" test ${quick:+--quick} --isa=avx2 $of_avx2
    else skip kernels-avx2 "this processor lacks avx2, fma or f16c"; fi
}

compile_for() { # compile_for NAME ARGUMENT...
    name=$1; shift
    if nvrtc_is_here; then part "$name" "$@"
    else skip "$name" "libnvrtc is not on this machine ('kiln devices' says where it was looked for)"; fi
}
test_cuda_90() { compile_for cuda-sm_90a in_turns "$language_90" "$brief_90 $compiled" --compile-only --arch=90; }
test_cuda_80() { compile_for cuda-sm_80 of_turn "$language_80" --compile-only --arch=80; }
# With checks, which take shared memory of their own: the kernels that fill it without.
test_cuda_checked() { compile_for cuda-checked "$build/kiln" test --compile-only --arch=90 --check --quick --filter=strided kernels/mla/decode*.tile kernels/mla/prefill.tile; }

test_emulated() {
    if [ -f "$build/tests/libemulated_gpu.so" ]; then part cuda-emulated run_emulated
    else skip cuda-emulated "there is no C++ compiler here"; fi
}

# Generated programs (tests/generate) for half a minute, other ones each day; GENERATE_SEED makes others. C of other forms than
# the native one with -Og.
GENERATE_SECONDS=${GENERATE_SECONDS:-30} GENERATE_SEED=${GENERATE_SEED:-${generate_seed:-}}
run_generated() {
    forms=native,portable,check$(machine_has avx2 fma f16c && echo ,avx2)
    set -- "$build/tests/generated_programs" --seconds="$GENERATE_SECONDS" --fast --seed="$GENERATE_SEED"
    if [ -f "$build/tests/libemulated_gpu.so" ]; then
        BUILD=$build KILN_EMULATOR_THREADS=1 sh scripts/emulated.sh "$@" --forms="$forms,sm_90,sm_80"
    else
        "$@" --forms="$forms"
    fi
}
test_generated() { part generated run_generated; }

# Kernels of the library, rewritten without a change of meaning: a few rewritings a day, natively and on the emulated device.
run_cliffs() {
    seed=${CLIFFS_SEED:-$(($(date +%s) / 86400))} status=0
    echo "seed $seed (CLIFFS_SEED)"
    "$build/kiln" bench --cliffs --check-only --seed="$seed" --few=12 >"$logs/cliffs-part.txt" 2>&1 || status=1
    if [ -f "$build/tests/libemulated_gpu.so" ]; then
        BUILD=$build sh scripts/emulated.sh "$build/kiln" bench --cliffs --device=cuda:0 --check-only --seed="$seed" --few=12 \
            >>"$logs/cliffs-part.txt" 2>&1 || status=1
    fi
    cat "$logs/cliffs-part.txt"
    add_counts "$logs/cliffs-part.txt"
    return $status
}
test_cliffs() { part cliffs run_cliffs; }

# ---- builds with sanitizers

# after PART...: waits until the other lane has ended them.
after() { for name in "$@"; do until [ -f "$logs/$name.count" ]; do sleep 1; done; done; }

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
    linker=
    can_compile "$compiler" -fuse-ld=lld && linker=-fuse-ld=lld    # half the time of the usual one for a hundred large programs
    CC=$compiler sh scripts/build.sh "$folder" "$jobs" -DCMAKE_BUILD_TYPE=Sanitize -DKILN_SANITIZE="$sanitizers" \
        -DKILN_WERROR="$(strict "$compiler")" -DCMAKE_EXE_LINKER_FLAGS="$linker" "$@"
}

fuzz() { # fuzz TARGET FOLDER...: searches for FUZZ_SECONDS; inputs it finds are kept beside the logs
    target=$1; shift
    if [ "$fuzzer" = yes ]; then
        echo "with libFuzzer"
        mkdir -p "$logs/corpus-$target"
        "$build-asan/tests/${target}_search" -max_total_time="$FUZZ_SECONDS" -timeout=60 -rss_limit_mb=2048 -max_len=8192 \
            -print_final_stats=1 -artifact_prefix="$logs/" "$logs/corpus-$target" "$@"
    else
        echo "without coverage, by random variations: this machine has no libFuzzer (clang and libclang-rt-14-dev)"
        "$build-asan/tests/${target}_fuzz" --seconds="$FUZZ_SECONDS" "$@"
    fi
}

find_sanitizers() {
    asan= tsan= fuzzer=no
    for candidate in clang gcc cc; do
        if [ -z "$asan" ] && can_compile $candidate -fsanitize=address,undefined; then asan=$candidate; fi
    done
    [ "$asan" = clang ] && can_fuzz && fuzzer=yes
    for candidate in gcc clang cc; do
        if [ -z "$tsan" ] && can_compile $candidate -fsanitize=thread; then tsan=$candidate; fi
    done
}

build_asan() {
    if [ -z "$asan" ]; then skip asan-build "no compiler here has ASan and UBSan"
    else part asan-build build_with "$build-asan" "$asan" address,undefined -DKILN_FUZZ="$([ $fuzzer = yes ] && echo ON || echo OFF)"; fi
}
build_tsan() {
    if [ -z "$tsan" ]; then skip tsan-build "no compiler here has TSan, or it does not run on this kernel"
    else part tsan-build build_with "$build-tsan" "$tsan" thread; fi
}

# has_built ASAN-OR-TSAN: once that is known.
has_built() {
    after "$1-build"
    [ "$(cat "$logs/$1-build.count")" = "1 0 0" ]
}

# The prelude's tests for every instruction set are the same programs as in this build; libFuzzer replays all seeds itself.
test_asan() {
    without="every_isa|docs|run_avx2|run_portable${rests_asan:+|$rests_asan}"
    [ $fuzzer = yes ] && without="$without|front_end_fuzz|launch_fuzz"
    has_built asan && after programs && part asan-programs run_ctest "$build-asan" -E "$without"
}
test_asan_kernels() { has_built asan && after kernels-native && part asan-kernels "$build-asan/kiln" test --quick $sanitized; }
test_tsan()     { has_built tsan && after programs && part tsan-programs run_ctest "$build-tsan" -R "$tsan_programs"; }
fuzz_front_end() {
    has_built asan && part fuzz-front_end fuzz front_end tests/fuzz/corpus/front_end tests/language/errors tests/language/run kernels
}
fuzz_launch()   { has_built asan && part fuzz-launch fuzz launch tests/fuzz/corpus/launch; }

tsan_programs='^(api_|ops_handle|ops_refusal|tools_work|example_|emit_|plan_|base_)'

# ---- all of it

run_lane() { # run_lane NAME: whatever no lane has taken yet
    lane=$1
    for test in ${TESTS:-$all_parts}; do
        case " $left_parts " in *" $test "*) continue ;; esac
        mkdir "$logs/taken-$test" 2>/dev/null && $test
    done
}

if [ "$1" = --command ]; then                              # of a part
    shift
    "$@"
    exit
fi
began=$(date +%s)
find_sanitizers
PYTHON_FRAMEWORKS=
[ "${FRAMEWORKS:-}${with_frameworks:-}" = yesyes ] && PYTHON_FRAMEWORKS=$build/frameworks
export build few_sms order_seed rests rests_asan PYTHON_WITHOUT PYTHON_FRAMEWORKS of_check of_avx2 of_portable quick whole brief native compiled emulated pipelined emulated_80 sanitized language_90 brief_90 language_80 asan tsan fuzzer lane GENERATE_SECONDS GENERATE_SEED FUZZ_SECONDS
run_lane 1 &
run_lane 2 &                                               # in a process of its own: a lane counts what its children take
wait
[ -n "$quick" ] && echo "day $day (DAY=$day repeats it); every case, natively and for Hopper:" $whole "(few of the others); emulated:" $emulated \
    "with other orders of threads:" $pipelined "as generic code:" $emulated_80 \
    "for Hopper, too, few of:" $compiled "of the language for Hopper:" $language_90 "(few of" $brief_90 "), as generic code:" $language_80 \
    "(none of the others); few cases with checks:" $of_check "as AVX2:" $of_avx2 "as portable C:" $of_portable \
    "left to other days:" $left_parts "$rests" "python's $PYTHON_WITHOUT" "with ASan:" "$rests_asan" "(ALL=1 takes all)"
echo "$(($(date +%s) - began)) s in all"
cat "$logs"/*.count | awk '{ p += $1; f += $2; s += $3 } END { print p + 0 " passed, " f + 0 " failed, " s + 0 " skipped"; exit f > 0 || p == 0 }'
