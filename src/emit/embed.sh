#!/bin/sh
# SPDX-License-Identifier: MIT
# embed.sh - print a C file that holds the texts of DIR/cpu/prelude/*.c and DIR/cuda/prelude/*.cuh.
# usage: embed.sh DIR
set -eu
printf '#include "emit/emit.h"\n#include <string.h>\n'
echo 'static const struct { const char *name, *text; } preludes[] = {'
for file in "$1"/cpu/prelude/*.c "$1"/cuda/prelude/*.cuh; do
    [ -f "$file" ] || continue
    name=${file#"$1"/}
    name=${name%.*}
    printf '{ "%s",\n' "$(echo "$name" | sed 's|/prelude/|/|')"
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
