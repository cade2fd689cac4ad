#!/bin/sh
# SPDX-License-Identifier: MIT
# embed.sh - print a C file that holds the texts of DIR/cpu/prelude/*.c, and the items of DIR/cuda/prelude/*.cuh.
# usage: embed.sh DIR
set -eu
printf '#include "emit/prelude.h"\n#include <string.h>\n'
echo 'static const struct { const char *name, *text; } preludes[] = {'
for file in "$1"/cpu/prelude/*.c; do
    printf '{ "cpu/%s",\n' "$(basename "$file" .c)"
    sed -e '1{/SPDX-License-Identifier/d;}' -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$/\\n"/' "$file"
    echo '},'
done
echo '{ 0, 0 } };'
echo 'const char *prelude_text(const char *name)'
echo '{'
echo '    for (int i = 0; preludes[i].name; i++)'
echo '        if (strcmp(preludes[i].name, name) == 0) return preludes[i].text;'
echo '    return NULL;'
echo '}'

# In this order: what a part uses stands in those before it.
cuda="types convert math threads vector atomic tensor_core barrier tma im2col stage check multistage cluster rows fma stepped
shifted unaligned quads around pairs codes unpack trace"
for file in "$1"/cuda/prelude/*.cuh; do
    case " $(echo $cuda) " in *" $(basename "$file" .cuh) "*) ;; *) echo "$0: where does $file belong?" >&2; exit 1 ;; esac
done
items=$(cd "$(dirname "$0")" && pwd)/items.awk
cd "$1/cuda/prelude"
# shellcheck disable=SC2046
LC_ALL=C awk -f "$items" $(printf '%s.cuh ' $cuda)
