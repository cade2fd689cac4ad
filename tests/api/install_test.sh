#!/bin/sh
# SPDX-License-Identifier: MIT
# install_test.sh - what `cmake --install` leaves is enough: the examples build against it, by CMake and by hand, and run
# where no source tree is. usage: install_test.sh CMAKE BUILD-FOLDER SOURCE-FOLDER
set -eu
cmake=$1 build=$2 source=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
KILN_CACHE=${KILN_CACHE:-$folder/cache}
export KILN_CACHE

"$cmake" --install "$build" --prefix "$folder/prefix" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
cp -r "$source/examples" "$folder/examples"
cd "$folder"
{ "$cmake" -S examples -B built -DCMAKE_PREFIX_PATH="$folder/prefix" && "$cmake" --build built; } >log 2>&1 || { cat log; exit 1; }
built/example_scale >/dev/null
built/example_ahead_of_time >/dev/null
built/example_attention "$folder/prefix/share/kiln/kernels/attention/forward.tile" >/dev/null
built/example_decode_loop --device cpu >/dev/null

cc=${CC:-cc}
library=$(dirname "$(find "$folder/prefix" -name libkiln.so | head -n 1)")
$cc -std=c11 -Wall -Wextra -Werror -I prefix/include examples/scale.c -L "$library" -lkiln -Wl,-rpath,"$library" -o scale
./scale >/dev/null
# Imports are found in the installed kernels, by a program of the library and by the command.
cat >imports.c <<'END'
#include <kiln/kiln.h>
#include <stdio.h>
int main(void)
{
    kiln_device *device;
    kiln_program *program;
    kiln_kernel *kernel;
    const char *const text = "import \"attention/softmax.tile\" import \"own.tile\" kernel k(out f32 Y[1]) { grid (); Y[0] = own(finite(2)); }";
    const char *const folders[] = { "nowhere", "own" };
    const kiln_program_options options = { folders, 2 }, bad = { NULL, 2 };
    if (kiln_program_load("main.tile", text, &bad, &program) != KILN_BAD_ARGUMENT || kiln_program_load("main.tile", text, NULL, &program) != KILN_BAD_SOURCE)
        return 2;
    if (kiln_device_open("cpu", &device) || kiln_program_load("main.tile", text, &options, &program)
        || kiln_kernel_build(device, program, "k", NULL, NULL, &kernel)) {
        puts(kiln_error_message());
        return 1;
    }
    return 0;
}
END
mkdir own
echo 'fn f32 own(f32 x) { return x; }' >own/own.tile
$cc -std=c11 -Wall -Wextra -Werror -I prefix/include imports.c -L "$library" -lkiln -Wl,-rpath,"$library" -o imports
./imports
if command -v pkg-config >/dev/null; then
    PKG_CONFIG_PATH=$library/pkgconfig; export PKG_CONFIG_PATH
    prefix/bin/kiln build --emit=object --output=generated --name=add_f32 "prefix/share/kiln/kernels/elementwise/add.tile" T=f32 >/dev/null
    # shellcheck disable=SC2046
    for how in "kiln" "kiln_static" "--static kiln"; do
        $cc -std=c11 examples/scale.c $(pkg-config --cflags --libs $how) -Wl,-rpath,"$library" -o by_pkg_config
        ./by_pkg_config >/dev/null || { echo "built with pkg-config $how it fails"; exit 1; }
    done
    mkdir archives
    cp "$library"/libkiln_static.a archives/libkiln.a
    # What Libs.private says is enough where -lkiln is an archive.
    # shellcheck disable=SC2046
    $cc -std=c11 examples/scale.c $(pkg-config --cflags kiln) -L archives $(pkg-config --static --libs kiln) -o archived
    ./archived >/dev/null
    # shellcheck disable=SC2046
    for how in "kiln_launch" "--static kiln_launch"; do
        $cc -std=c11 -I generated examples/ahead_of_time.c generated/add_f32.o $(pkg-config --cflags --libs $how) -lm -o launched
        ./launched >/dev/null || { echo "built with pkg-config $how it fails"; exit 1; }
    done
fi
for header in prefix/include/kiln/*.h prefix/include/kiln/ops/*.h; do      # each stands alone, and is C++ too
    printf '#include "%s"\nint main(void) { return 0; }\n' "$header" >alone.c
    $cc -std=c11 -pedantic -Wall -Wextra -Werror -I prefix/include -fsyntax-only alone.c
    if command -v c++ >/dev/null; then c++ -x c++ -Wall -Wextra -Werror -I prefix/include -fsyntax-only alone.c; fi
done
prefix/bin/kiln devices >/dev/null

# A manual page for each command; completion in bash.
for name in $(prefix/bin/kiln --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    grep -q '^\.SH SYNOPSIS' "prefix/share/man/man1/kiln-$name.1" || { echo "there is no page of kiln $name"; exit 1; }
done
grep -B 1 '^  register' prefix/share/man/man1/kiln-layout.1 | grep -qx '\.nf' || { echo "lists of a page are filled"; exit 1; }
grep -q 'kiln COMMAND' prefix/share/man/man1/kiln.1 || { echo "there is no page of kiln"; exit 1; }
if command -v bash >/dev/null; then
    found=$(PATH="$PWD/prefix/bin:$PATH" bash -c '. prefix/share/bash-completion/completions/kiln; COMP_WORDS=(kiln tune --tr); COMP_CWORD=2; _kiln; echo "${COMPREPLY[@]}"')
    [ "$found" = --tries ] || { echo "completion of 'kiln tune --tr' gives '$found'"; exit 1; }
fi

# What is installed refers to nothing outside of it, and may be moved.
mv prefix moved
mkdir elsewhere
cd elsewhere
[ "$(../moved/bin/kiln list --json add | grep -c '"name": "add"')" = 1 ]
../moved/bin/kiln list | head -n 1 | grep -qx "$folder/moved/share/kiln/kernels"
../moved/bin/kiln bench --seconds=0 'gemm f32 512' >bench.log 2>&1 || { cat bench.log; exit 1; }
printf 'import "attention/softmax.tile"\nkernel k(out f32 Y[1]) { grid (); Y[0] = finite(2); }\n' >main.tile
../moved/bin/kiln build main.tile >/dev/null
echo "install: ok"
