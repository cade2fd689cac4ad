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
if command -v pkg-config >/dev/null; then
    # shellcheck disable=SC2046
    PKG_CONFIG_PATH=$library/pkgconfig; export PKG_CONFIG_PATH
    $cc -std=c11 examples/scale.c $(pkg-config --cflags --libs kiln) -Wl,-rpath,"$library" -o by_pkg_config
    ./by_pkg_config >/dev/null
fi
for header in prefix/include/kiln/*.h prefix/include/kiln/ops/*.h; do      # each stands alone, and is C++ too
    printf '#include "%s"\nint main(void) { return 0; }\n' "$header" >alone.c
    $cc -std=c11 -pedantic -Wall -Wextra -Werror -I prefix/include -fsyntax-only alone.c
    if command -v c++ >/dev/null; then c++ -x c++ -Wall -Wextra -Werror -I prefix/include -fsyntax-only alone.c; fi
done
prefix/bin/kiln devices >/dev/null
echo "install: ok"
