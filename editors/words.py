#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""words.py - the lists of words in the files of this folder, from the compiler's own tables (`kiln list --words --json`).

usage: words.py [--check] KILN-COMMAND

Rewrites what stands between the lines 'words ...' and 'end of words', and vscode/syntaxes/tile.tmLanguage.json as a whole.
With --check it changes nothing, names the files that are stale, and ends with 1 if there are any."""
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
WIDTH = 120


def unique(*groups):
    return list(dict.fromkeys(word for group in groups for word in group))


class Words:
    """The words by how they are coloured; `all` is what the command says."""

    def __init__(self, kiln):
        text = subprocess.run([kiln, "list", "--words", "--json"], check=True, stdout=subprocess.PIPE).stdout
        self.all = every = json.loads(text)
        storage = {"shared", "fragment", "local", "const", "static", "unroll", "atomic"}
        values = {"true", "false", "none"}
        self.types = every["types"]
        self.functions = every["functions"]
        self.constants = unique([w for w in every["reserved"] if w in values], every["constants"])
        self.storage = [w for w in every["reserved"] if w in storage]
        self.reserved = [w for w in every["reserved"] if w not in storage | values]
        self.declarations = every["declarations"]
        self.parameters = unique(every["parameters"], every["kinds"])
        self.statements = every["statements"]
        self.hints = unique(every["hints"], every["layouts"], every["pipelines"], every["inputs"], every["tolerances"])


def wrapped(words, first, rest, width=WIDTH, between=" "):
    """Lines of at most `width` columns: `first` before the first, `rest` before the others."""
    lines, line = [], first
    for i, word in enumerate(words):
        piece = word + (between if i + 1 < len(words) else "")
        if len(line) + len(piece.rstrip()) > width and line.strip():
            lines.append(line.rstrip())
            line = rest
        line += piece
    return lines + [line.rstrip()]


def tree_sitter_types(words):
    lines = wrapped(["'%s'" % w for w in words.types], "const TYPES = [", "  ", between=", ")
    return lines[:-1] + [lines[-1] + "];"]


def tree_sitter_functions(words):
    lines = wrapped(['"%s"' % w for w in words.functions], "  (#any-of? @function.builtin ", "    ")
    return ["((call function: (identifier) @function.builtin)"] + lines[:-1] + [lines[-1] + "))"]


def tree_sitter_constants(words):
    lines = wrapped(['"%s"' % w for w in words.all["constants"]], "  (#any-of? @constant.builtin ", "    ")
    return ["((identifier) @constant.builtin"] + lines[:-1] + [lines[-1] + "))"]


def vim(words):
    lines = []
    for group, of in (("Reserved", words.reserved), ("Modifier", words.storage), ("Declaration", words.declarations), ("Type", words.types),
                      ("Constant", words.constants)):
        lines += wrapped(of, "syntax keyword tile%s " % group, "syntax keyword tile%s " % group)
    # Words of one place only are matched with what follows them: `syntax keyword` would colour names, too.
    lines.append("syntax match tileModifier '\\<\\(%s\\)\\>\\ze\\s\\+\\h'" % "\\|".join(words.parameters))
    lines.append("syntax match tileWord '\\<\\(%s\\)\\>\\ze\\s*\\((\\|\\h\\|:\\|\\d\\)'" % "\\|".join(words.statements))
    lines.append("syntax match tileHint '\\<\\(%s\\)\\>\\ze\\(\\s*(\\|\\s\\+[0-9.]\\)'" % "\\|".join(words.hints))
    lines.append("syntax match tileFunction '\\<\\(%s\\)\\>\\ze\\s*[(<]'" % "\\|".join(words.functions))
    return lines


def emacs(words):
    lines = []
    for name, about, of in (("types", "Element types.", words.types),
                            ("keywords", "Words of declarations and statements.", unique(words.reserved, words.storage, words.declarations, words.parameters)),
                            ("constants", "Constants of the language.", words.constants),
                            ("functions", "Built-in functions.", words.functions),
                            ("statements", "Words that begin a statement.", words.statements),
                            ("hints", "Hints, and the words of checks.", words.hints)):
        lines += ["(defconst tile-mode-%s" % name] + wrapped(['"%s"' % w for w in of], "  '(", "    ")
        lines[-1] += ")"
        lines.append('  "%s")' % about)
    return lines


# (file, what comes after 'words' in its marker, the lines of it)
REGIONS = [
    ("tree-sitter-kiln/grammar.js", ": types", tree_sitter_types),
    ("tree-sitter-kiln/queries/highlights.scm", ": functions", tree_sitter_functions),
    ("tree-sitter-kiln/queries/highlights.scm", ": constants", tree_sitter_constants),
    ("vim/syntax/tile.vim", "", vim),
    ("emacs/tile-mode.el", "", emacs),
]


def with_region(text, marker, lines):
    pattern = re.compile(r"(^\S+ words%s\b[^\n]*\n).*?(^\S+ end of words$)" % re.escape(marker), re.M | re.S)
    if not pattern.search(text):
        sys.exit("words.py: there is no line 'words%s'" % marker)
    return pattern.sub(lambda found: found.group(1) + "\n".join(lines) + "\n" + found.group(2), text, count=1)


def any_of(words):
    return r"\b(?:%s)\b" % "|".join(words)


def text_mate(words):
    name = r"[A-Za-z_]\w*"
    patterns = [
        {"name": "comment.line.double-slash.tile", "match": "//.*$"},
        {"name": "comment.block.tile", "begin": r"/\*", "end": r"\*/"},
        {"name": "string.quoted.double.tile", "begin": '"', "end": '"|$',
         "patterns": [{"name": "constant.character.escape.tile", "match": r"\\."}]},
        {"name": "constant.numeric.tile",
         "match": r"\b(?:0[xX][0-9a-fA-F_']+|0[bB][01_']+|\d[0-9_']*(?:\.\d[0-9_']*)?(?:[eE][+-]?\d+)?)\b"},
        {"match": r"\b(kernel|operator|reference|check|verify)\s+(%s)" % name,
         "captures": {"1": {"name": "keyword.declaration.tile"}, "2": {"name": "entity.name.function.tile"}}},
        {"match": r"\b(fn)\s+(%s)\s+(%s)" % (name, name),
         "captures": {"1": {"name": "keyword.declaration.tile"}, "2": {"name": "storage.type.tile"}, "3": {"name": "entity.name.function.tile"}}},
        {"name": "storage.type.tile", "match": any_of(words.types)},
        {"name": "storage.modifier.tile", "match": any_of(words.storage)},
        {"name": "constant.language.tile", "match": any_of(words.constants)},
        {"name": "keyword.control.tile", "match": any_of(words.reserved)},
        {"name": "keyword.declaration.tile", "match": any_of(words.declarations) + r"(?=\s+[\"A-Za-z_])"},
        {"name": "storage.modifier.tile", "match": any_of(words.parameters) + r"(?=\s+[A-Za-z_])"},
        {"name": "keyword.control.tile", "match": any_of(words.statements) + r"(?=\s*(?:[(:]|[A-Za-z_0-9]))"},
        {"name": "support.function.tile", "match": any_of(words.functions) + r"(?=\s*[(<])"},
        {"name": "support.other.hint.tile", "match": any_of(words.hints) + r"(?=\s*\(|\s+[0-9.]|\s*[;,])"},
        {"name": "keyword.operator.tile", "match": r"\+:|\.\.|@|<<=?|>>=?|[-+*/%&|^<>=!]=|&&|\|\||\+\+|--|[-+*/%&|^<>=!~?]"},
    ]
    grammar = {"comment": "SPDX-License-Identifier: MIT. Made by editors/words.py.", "name": "Tile", "scopeName": "source.tile",
               "fileTypes": ["tile"], "patterns": patterns}
    return json.dumps(grammar, indent=2) + "\n"


def main():
    args = [a for a in sys.argv[1:] if a != "--check"]
    if len(args) != 1:
        sys.exit(__doc__)
    words, texts = Words(args[0]), {}
    for path, marker, made in REGIONS:
        if path not in texts:
            with open(os.path.join(HERE, path), encoding="utf-8") as file:
                texts[path] = file.read()
        texts[path] = with_region(texts[path], marker, made(words))
    texts["vscode/syntaxes/tile.tmLanguage.json"] = text_mate(words)
    stale = 0
    for path, text in texts.items():
        where = os.path.join(HERE, path)
        there = open(where, encoding="utf-8").read() if os.path.exists(where) else None
        if there == text:
            continue
        stale += 1
        if "--check" in sys.argv:
            print("FAIL: editors/%s is stale: type editors/words.py KILN-COMMAND" % path)
        else:
            with open(where, "w", encoding="utf-8") as file:
                file.write(text)
            print("wrote editors/%s" % path)
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
