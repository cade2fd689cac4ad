#!/bin/sh
# SPDX-License-Identifier: MIT
# man.sh - manual pages of the command, made from what its --help says: kiln.1 and kiln-COMMAND.1.
# usage: man.sh KILN-COMMAND FOLDER
set -eu
kiln=$1 folder=$2
mkdir -p "$folder"
version=$("$kiln" --version)

# A backslash, and a dot or quote that begins a line, mean something to troff.
escaped() { sed -e 's/\\/\\e/g' -e "s/^\([.']\)/\\\\\&\1/" -e 's/-/\\-/g'; }

page() { # page NAME SUMMARY TEXT: text is all that --help says
    {
        printf '.TH %s 1 "" "%s" "Kiln"\n.SH NAME\n%s \\- ' "$(echo "$1" | tr 'a-z' 'A-Z')" "$version" "$1"
        echo "$2" | escaped
        printf '.SH SYNOPSIS\n.nf\n'
        echo "$3" | sed -n '/^usage: /,/^$/p' | sed -e 's/^usage: //' -e 's/^ *//' | escaped
        printf '.fi\n.SH DESCRIPTION\n'
        echo "$3" | sed -e '1,/^$/d' | awk '
            /^  / && !open && !list { print ".nf"; list = 1 }
            !/^  / && list { print ".fi"; list = 0 }
            /^(options|commands|examples):$/ { if (open) print ".fi"; print ".SH " toupper(substr($0, 1, length($0) - 1)); print ".nf"; open = 1; next }
            { print }
            END { if (open) print ".fi" }' | escaped | sed -e 's/^\\&\.\(SH\|nf\|fi\)/.\1/'
        printf '.SH SEE ALSO\n'
        if [ "$1" = kiln ]; then echo "kiln\\-COMMAND(1) for each command"; else echo "kiln(1)"; fi
    } >"$folder/$1.1"
}

overview=$("$kiln" --help)
page kiln "a compiler for tile kernels, and its tools" "$overview"
echo "$overview" | sed -n '/^commands:/,/^$/s/^  \([a-z]*\)  *\(.*\)/\1 \2/p' | while read -r name summary; do
    page "kiln-$name" "$summary" "$("$kiln" "$name" --help)"
done
