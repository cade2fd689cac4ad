#!/bin/sh
# SPDX-License-Identifier: MIT
# forms.sh - print a C file of what the structs of operators' arguments consist of. usage: forms.sh FOLDER
#
# FOLDER has the operators' headers. Every struct of theirs named kiln_..._args, and those that such a struct points to, gets a
# form (ops/form.h) with all of its fields, in order.
set -eu
folder=$1
echo '#include "ops/form.h"'
for header in "$folder"/*.h; do echo "#include \"kiln/ops/$(basename "$header")\""; done
echo 'extern const Form form_kiln_rotary, form_kiln_moe_routing, form_kiln_mla_shape;'
cat "$folder"/*.h | awk '
    { text = text $0 "\n" }
    function name_of(declarator) { # "const kiln_tensor *q": q
        gsub(/[ \t\n]+$/, "", declarator)
        sub(/.*[^A-Za-z0-9_]/, "", declarator)
        return declarator
    }
    function print_form(name, body,    n, i, j, k, fields, names) {
        print "static const FormField fields_" name "[] = {"
        n = split(body, fields, ";")
        for (i = 1; i < n; i++) {
            k = split(fields[i], names, ",")
            for (j = 1; j <= k; j++)
                if (name_of(names[j]) != "struct_size") print "    FORM_FIELD(" name ", " name_of(names[j]) "),"
        }
        print "};"
        print "const Form form_" name " = { sizeof(" name "), (int)(sizeof fields_" name " / sizeof(FormField)), fields_" name " };"
    }
    END {
        while ((at = index(text, "/*")) > 0)
            text = substr(text, 1, at - 1) " " substr(text, at + 1 + index(substr(text, at + 2), "*/") + 2)
        while (match(text, /typedef struct [a-z0-9_]+ \{[^}]*\}/)) {
            struct = substr(text, RSTART + 15, RLENGTH - 16)
            text = substr(text, RSTART + RLENGTH)
            name = struct
            sub(/ .*/, "", name)
            sub(/^[^{]*\{/, "", struct)
            if (name ~ /_args$/ || name ~ /^kiln_(rotary|moe_routing|mla_shape)$/) print_form(name, struct)
        }
    }'
