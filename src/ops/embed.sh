#!/bin/sh
# SPDX-License-Identifier: MIT
# embed.sh - print a C file that holds the texts of the kernels that the operators use. usage: embed.sh KERNELS SOURCE...
#
# A folder of KERNELS is embedded, all of it, when an operator's SOURCE names one of its files, as in "mla/plan.tile", or a file of
# such a folder imports from it.
set -eu
folder=$1
shift
used=$(sed -n 's/.*"\([a-z0-9_]*\)\/[a-z0-9_]*\.tile".*/\1/p' "$@" | sort -u)
files() { for name in $used; do echo "$folder/$name"/*.tile; done; }
used=$({
    echo "$used"
    sed -n 's/^import "\.\.\/\([a-z0-9_]*\)\/.*/\1/p' $(files)
} | sort -u)
printf '#include "ops/call.h"\n#include <string.h>\n'
echo 'static const struct { const char *path, *text; } kernels[] = {'
for file in $(files); do
    printf '{ "%s",\n' "${file#"$folder"/}"
    sed -e '1{/SPDX-License-Identifier/d;}' -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$/\\n"/' "$file"
    echo '},'
done
echo '{ 0, 0 } };'
echo 'const char *kernel_text(const char *path)'
echo '{'
echo '    for (int i = 0; kernels[i].path; i++)'
echo '        if (strcmp(kernels[i].path, path) == 0) return kernels[i].text;'
echo '    return NULL;'
echo '}'
