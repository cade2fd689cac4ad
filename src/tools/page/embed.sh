#!/bin/sh
# SPDX-License-Identifier: MIT
# embed.sh - print a C file that holds page.css and page.js, without comments of whole lines. usage: embed.sh FOLDER
set -eu
echo '#include "tools/page/page.h"'
for part in style:css script:js; do
    printf 'const char page_%s[] =\n' "${part%:*}"
    sed -e '/^ *\/\/ /d' -e '/^\/\*.*\*\/$/d' -e '/^$/d' -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^ */"/' -e 's/$/\\n"/' "$1/page.${part#*:}"
    echo ';'
done
