# SPDX-License-Identifier: MIT
# items.awk - print C tables of a CUDA prelude's items: what stands at the top level of its files, each with the comment
# before it, and which names it defines and which items it uses.
#
# An item ends after a declaration, a macro's definition, a use of a macro that makes declarations, or the #endif of an #if
# at the top level; what is between the two goes together. A file's first line, which says what it holds, is an item that
# all others of the file use. Who uses a name uses all items that define it.

function bare(line)                                        # without comments and what strings hold
{
    gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
    gsub(/\/\*[^*]*\*\//, "", line)
    sub(/\/\/.*/, "", line)
    return line
}
function count(text, set) { return gsub(set, "", text) }
function begin_item() { item = ++items; text[item] = ""; code[item] = ""; depth = 0; is_macro = 0 }

# ---- macros that make declarations

function begin_macro(line,    head)
{
    match(line, /^#define +[A-Za-z0-9_]+/)
    macro = substr(line, 9, RLENGTH - 8)
    gsub(/ /, "", macro)
    define(macro, item)
    line = substr(line, RLENGTH + 1)
    params[macro] = ""
    if (line ~ /^\(/) {
        match(line, /^\([^)]*\)/)
        params[macro] = substr(line, 2, RLENGTH - 2)
        line = substr(line, RLENGTH + 1)
    }
    return line
}
function with_arguments(name, arguments,    body, out, word, p, a, i, n, value)
{
    n = split(params[name], p, / *, */)
    split(arguments, a, / *, */)
    for (i = 1; i <= n; i++) value[p[i]] = a[i]
    for (body = bodies[name]; match(body, /[A-Za-z_][A-Za-z0-9_]*/); body = substr(body, RSTART + RLENGTH)) {
        word = substr(body, RSTART, RLENGTH)
        out = out substr(body, 1, RSTART - 1) (word in value ? value[word] : word)
    }
    out = out body
    gsub(/ *## */, "", out)
    return out
}
function expanded(s,    name, before, call, after)
{
    for (name in makes)
        while (match(s, "(^|[^A-Za-z0-9_])" name "\\([^()]*\\)")) {
            before = substr(s, 1, RSTART - 1)
            call = substr(s, RSTART, RLENGTH)
            after = substr(s, RSTART + RLENGTH)
            sub(/^[^(]*\(/, "", call)
            sub(/\)$/, "", call)
            s = before "\n" with_arguments(name, call) after
            s = expanded(s)
        }
    return s
}

# ---- names

function define(name, i)
{
    if (!(name in makers)) names[++n_names] = name
    if (index(makers[name] " ", " " i " ") == 0) makers[name] = makers[name] " " i
}
function define_all(s, i,    n, piece, k, is_call, name)
{
    while (gsub(/\([^(){}]*\)/, "@", s) + gsub(/\{[^(){}]*\}/, ";", s) > 0) { }
    while (gsub(/<[^<>]*>/, "", s) > 0) { }
    gsub(/__align__@/, "", s)
    n = split(s, piece, ";")
    for (k = 1; k <= n; k++) {
        is_call = piece[k] ~ /^[^=[]*@/
        sub(/[@=[].*/, "", piece[k])
        gsub(/[ \n]+$/, "", piece[k])
        if (!match(piece[k], /[A-Za-z_][A-Za-z0-9_]*$/)) continue
        name = substr(piece[k], RSTART)
        define(name, i)
        if (is_call) functions[name] = 1
    }
}

# ---- reading

FNR == 1 { part = FILENAME; sub(/.*\//, "", part); head = 0; next }
FNR == 2 { begin_item(); text[item] = (items > 1 ? "\n" : "") $0 "\n"; head = item; begin_item(); of[item] = head; next }
{
    if (!(item in of)) of[item] = head
    if (text[item] == "" && $0 == "") next
    text[item] = text[item] $0 "\n"
    line = bare($0)
    if (line ~ /^#define/ && !is_macro) { line = begin_macro(line); is_macro = 1; bodies[macro] = "" }
    if (is_macro) {
        more = line ~ /\\$/
        sub(/\\$/, "", line)
        bodies[macro] = bodies[macro] line "\n"
        uses[item] = uses[item] line "\n"
        is_macro = more
        if (!more && bodies[macro] ~ /DEVICE/ && macro != "DEVICE") makes[macro] = 1
        if (!more && depth == 0) begin_item()
        next
    }
    depth += count(line, "[({[]") - count(line, "[])}]")
    if (line ~ /^#if/) depth++
    else if (line ~ /^#endif/) depth--
    else if (line !~ /^#/) code[item] = code[item] line "\n"
    uses[item] = uses[item] line "\n"
    last = line
    sub(/ +$/, "", last)
    invoked = line
    sub(/\(.*/, "", invoked)
    if (depth == 0 && (last ~ /[;}]$/ || line ~ /^#endif/ || (invoked in makes))) begin_item()
}

# ---- printing

function replaced(s, what, by,    n, piece, i, out)        # gsub's backslashes are not the same in all awks
{
    n = split(s, piece, what)
    for (i = 1; i <= n; i++) out = out (i > 1 ? by : "") piece[i]
    return out
}
function quoted(s)
{
    gsub(/\\/, "&&", s)
    return "\"" replaced(replaced(s, "\"", "\\\""), "\n", "\\n\"\n\"") "\""
}
function hash(name,    i, h)                                # as prelude.c has it
{
    h = 0
    for (i = 1; i <= length(name); i++) h = (h * 31 + code_of[substr(name, i, 1)]) % 4294967296
    return h
}
function used_by(i,    s, word, list, n, k, done)
{
    list = of[i]
    for (s = uses[i] "\n" whole[i]; match(s, /[A-Za-z_][A-Za-z0-9_]*/); s = substr(s, RSTART + RLENGTH)) {
        word = substr(s, RSTART, RLENGTH)
        if (!(word in makers) || (word in done)) continue
        if ((word in functions) && substr(s, RSTART + RLENGTH) !~ /^ *[(<]/) continue    # a variable of that name
        done[word] = 1
        list = list makers[word]
    }
    return list
}
END {
    if (text[item] == "") items--
    BUCKETS = 512
    for (i = 1; i < 128; i++) code_of[sprintf("%c", i)] = i
    for (i = 1; i <= items; i++)
        if (i in of) { whole[i] = expanded(code[i]); define_all(whole[i], i) }
    print "static const short cuda_uses[] = {"
    for (i = 1; i <= items; i++) {
        n = split(i in of ? used_by(i) : "", list, " ")
        first[i] = total + 0
        delete seen
        for (k = 1; k <= n; k++)
            if (list[k] != i && !(list[k] in seen)) { seen[list[k]] = 1; printf "%d,", list[k] - 1; total++ }
        print ""
    }
    first[items + 1] = total
    print "0 };\nstatic const PreludeItem cuda_items[] = {"
    for (i = 1; i <= items; i++) printf "{ %s, %d, %d },\n", quoted(text[i]), first[i], first[i + 1]
    print "};\nstatic const PreludeName cuda_names[] = {"
    for (i = 1; i <= n_names; i++) { h = hash(names[i]) % BUCKETS; bucket[h] = bucket[h] " " names[i] }
    rows = 0
    for (h = 0; h < BUCKETS; h++) {
        starts = starts rows ","
        n = split(bucket[h], list, " ")
        for (k = 1; k <= n; k++) {
            m = split(makers[list[k]], maker, " ")
            for (j = 1; j <= m; j++) { printf "{ %.0fu, %d }, // %s\n", hash(list[k]), maker[j] - 1, list[k]; rows++ }
        }
    }
    print "};\nstatic const short cuda_buckets[] = { " starts rows " };"
    print "const Prelude prelude_cuda = { cuda_items, " items ", cuda_uses, cuda_names, cuda_buckets };"
}
