#!/bin/sh
# SPDX-License-Identifier: MIT
# build_test.sh - the scripts: that they can be called, what a build says, and what a machine without cmocka tests.
# usage: build_test.sh KILN-COMMAND SOURCE-FOLDER EMULATED-GPU
set -u
kiln=$1 source=$2 emulated=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$source" || exit 1
failed=0
bad() { failed=$((failed + 1)); echo "FAIL: $*"; }

says() { # says FILE TEXT...: all of them
    file=$1; shift
    for text in "$@"; do grep -qF -- "$text" "$file" || { bad "expected '$text' of:"; head -20 "$file"; }; done
}

# ---- what documents and other scripts call is executable, in git too
for script in scripts/*.sh bench/*.sh; do [ -x "$script" ] || bad "$script is not executable"; done
if command -v git >/dev/null && git rev-parse --git-dir >/dev/null 2>&1; then
    git ls-files -s -- 'scripts/*.sh' 'bench/*.sh' .ci/run | while read -r mode _ _ path; do
        [ "$mode" = 100755 ] || echo "$path has mode $mode in git"
    done >"$folder/modes"
    [ -s "$folder/modes" ] && bad "$(cat "$folder/modes")"
fi

# ---- a build says that it begins, how far it is, and where its results lie: no terminal is needed
mkdir -p "$folder/bin"
cat >"$folder/bin/cmake" <<'END'
#!/bin/sh
case $1 in
-S) exit 0 ;;
--build) for n in '  3' ' 25' ' 40' ' 74' ' 76' '100'; do echo "[$n%] Building C object $n.o"; done
         [ -e "$2/broken" ] && { echo 'x.c:1:1: error: it is broken'; exit 2; }
         : >"$2/kiln"; : >"$2/libkiln.so" ;;
esac
END
chmod +x "$folder/bin/cmake"
PATH="$folder/bin:$PATH" sh scripts/build.sh "$folder/built" 3 >"$folder/out" 2>&1 || bad 'build.sh fails'
says "$folder/out" "building in $folder/built with 3 jobs" '  25%' '  50%' '  75%' ": $folder/built/kiln $folder/built/libkiln.so"
[ "$(grep -c '%' "$folder/out")" = 3 ] || { bad 'build.sh repeats itself:'; cat "$folder/out"; }
: >"$folder/built/broken"
PATH="$folder/bin:$PATH" sh scripts/build.sh "$folder/built" 3 >"$folder/out" 2>&1 && bad 'build.sh hides a failure'
says "$folder/out" 'x.c:1:1: error: it is broken' 'the build failed; all of its output is in'

# ---- a part of the tests that does not end fails by name
mkdir -p "$folder/hanging"
printf '#!/bin/sh\nsleep 1234 & wait\n' >"$folder/hanging/kiln"
chmod +x "$folder/hanging/kiln"
LIMIT=1 TESTS='test_checked' sh scripts/test.sh "$folder/hanging" >"$folder/out" 2>&1 && bad 'test.sh hides a part that hangs'
says "$folder/out" 'FAIL: kernels-check did not end within 1 s' '0 passed, 1 failed, 0 skipped'

# ---- without cmocka: what needs it is skipped by name, with the reason; nothing fails for want of it
cat >"$folder/bin/no-cmocka" <<'END'
#!/bin/sh
case "$*" in *-E*) exit 1 ;; esac
exec cc "$@"
END
chmod +x "$folder/bin/no-cmocka"
mkdir -p "$folder/kit/examples" && cp "$kiln" "$folder/kit/kiln"
CC=$folder/bin/no-cmocka KILN_CUDA=$emulated KILN_NVRTC=$emulated LIMIT=100 PARTS='ops_handle_test|api_large_test|long:' \
    sh scripts/test_gpu.sh "$folder/kit" >"$folder/out" 2>&1
says "$folder/out" 'not built, for cmocka is not on this machine' gpu_device_test api_large_test ops_handle_test long:ops_mla_decode_test '0 passed, 0 failed, '
KILN_CUDA=$emulated KILN_NVRTC=$emulated LIMIT=100 PARTS=nothing sh scripts/test_gpu.sh "$folder/kit" >"$folder/out" 2>&1
if echo '#include <cmocka.h>' | cc -include stdarg.h -include stddef.h -include stdint.h -include setjmp.h -E - >/dev/null 2>&1; then
    says "$folder/out" '0 passed, 1 failed, 0 skipped' 'error: '                    # with it, what is missing is a failure
fi

# CMake builds what needs no cmocka all the same.
if command -v cmake >/dev/null; then
    cmake -S . -B "$folder/without" -DCMOCKA=OFF >"$folder/out" 2>&1 || { bad 'cmake fails without cmocka:'; tail -5 "$folder/out"; }
    says "$folder/out" 'cmocka is not here: no tests that need it'
    cmake --build "$folder/without" --target help >"$folder/out" 2>&1
    says "$folder/out" language_errors kiln_command example_scale emulated_gpu
    grep -q -e gpu_device_test -e ops_handle_test "$folder/out" && bad 'programs that need cmocka are built without it'
fi

[ $failed = 0 ] && echo 'the build: ok'
exit $((failed > 0))
