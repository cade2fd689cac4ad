#!/bin/sh
# SPDX-License-Identifier: MIT
# plain_build.sh - builds the command, the tests of a GPU and the examples where there is no CMake.
# usage: plain_build.sh BUILD JOBS
#
# Without cmocka its programs are left out, and a line says so.
set -u
mkdir -p "$1" && build=$(cd "$1" && pwd) || exit 1
cd "$(dirname "$0")/.."
jobs=$2
objects=$build/objects
flags="-std=gnu11 -O2 -w -fno-strict-aliasing -Iinclude -Isrc"
libraries="-lpthread -ldl -lm"
mkdir -p "$objects/tools" "$build/tests" "$build/examples"
sh src/emit/embed.sh src/lower >"$objects/prelude_texts.c" || exit 1
sh src/ops/embed.sh kernels src/ops/*.c >"$objects/kernel_texts.c" || exit 1
sh src/ops/forms.sh include/kiln/ops >"$objects/forms.c" || exit 1
sh src/tools/page/embed.sh src/tools/page >"$objects/page_texts.c" || exit 1
for source in $(find src bench -name '*.c' ! -path '*/prelude/*' ! -path 'bench/*/*') "$objects/prelude_texts.c" "$objects/kernel_texts.c" \
    "$objects/forms.c" "$objects/page_texts.c"; do
    case $source in src/tools/* | bench/* | */page_texts.c) echo "$source $objects/tools/$(echo "$source" | sed 's#[/.]#_#g').o" ;;
    *) echo "$source $objects/$(echo "${source##"$build"/}" | sed 's#[/.]#_#g').o" ;; esac
done >"$objects/list"
xargs -P "$jobs" -n 2 sh -c '${CC:-cc} '"$flags"' -c "$0" -o "$1" || exit 255' <"$objects/list" || exit 1

link() { # link PROGRAM OBJECT|SOURCE|-lNAME...
    program=$1; shift
    # shellcheck disable=SC2086
    ${CC:-cc} $flags -o "$program" "$@" "$objects"/*.o $libraries
}

link "$build/kiln" "$objects"/tools/*.o || exit 1
for example in scale decode_loop; do link "$build/examples/example_$example" examples/$example.c || exit 1; done
if echo '#include <cmocka.h>' | ${CC:-cc} -include stddef.h -include setjmp.h -include stdarg.h -E - >/dev/null 2>&1; then
    link "$build/tests/gpu_device_test" tests/gpu/device_test.c -lcmocka || exit 1
    link "$build/tests/api_large_test" tests/api/large_test.c -lcmocka || exit 1
    for test in tests/ops/*_test.c; do
        # shellcheck disable=SC2046
        link "$build/tests/ops_$(basename "$test" .c)" "$test" tests/ops/support.c tests/ops/latent.c $(sed -n 's|^// link: ||p' "$test") -lcmocka || exit 1
    done
    for test in tests/unit/language/*_test.c; do
        link "$build/tests/language_$(basename "$test" .c)" "$test" -lcmocka || exit 1
    done
else
    echo "cmocka is not on this machine: its programs are not built"
fi
