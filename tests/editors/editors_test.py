# SPDX-License-Identifier: MIT
"""editors_test.py - the files of editors/: their lists of words are the compiler's, and what uses them, where it is here, reads them.

usage: editors_test.py KILN-COMMAND SOURCE-FOLDER

What is not here (node, vim, emacs, the command of tree-sitter) is skipped, and named."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

KILN, SOURCE = (os.path.abspath(a) for a in sys.argv[1:3])
EDITORS = os.path.join(SOURCE, "editors")
HERE = os.path.join(SOURCE, "tests", "editors")
SAMPLE = """// A comment of kernel and 12
kernel scale<type T = f32>(in T X[N], out f32 Y[N], f32 a)
{
    grid (n : ceildiv(N, 256)) warps(4);
    fragment f32 x[256] = X[n*256 +: 256];
    forall (i : 256) x[i] *= LOG2E;
    print("kernel {}", n);
    f32 view2 = 0x1f + 1.5e-3;
}
"""
results = {"passed": 0, "failed": 0, "skipped": 0}


def ok(condition, what):
    results["passed" if condition else "failed"] += 1
    if not condition:
        print("FAIL:", what)


def skip(what):
    results["skipped"] += 1
    print("skipped:", what)


def run(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=120, text=True, **more)
    return done.returncode, done.stdout


def words_are_fresh():
    code, said = run([sys.executable, os.path.join(EDITORS, "words.py"), "--check", KILN])
    ok(code == 0, said)


def text_mate():
    with open(os.path.join(EDITORS, "vscode", "syntaxes", "tile.tmLanguage.json"), encoding="utf-8") as file:
        grammar = json.load(file)
    names = {}
    for line in SAMPLE.split("\n"):                          # as an editor does: the pattern that matches first, then the first of them
        at = 0
        while at < len(line):
            found = [(m.start(), i, m) for i, p in enumerate(grammar["patterns"]) for m in [re.compile(p.get("match") or p["begin"]).search(line, at)]
                     if m and m.end() > at]
            if not found:
                break
            _, i, m = min(found, key=lambda f: f[:2])
            pattern = grammar["patterns"][i]
            at = m.end()
            if "begin" in pattern:
                end = re.compile(pattern["end"]).search(line, at)
                names[line[m.start():end.end()]], at = pattern["name"], max(end.end(), at + 1)
            for group, capture in pattern.get("captures", {}).items():
                names[m.group(int(group))] = capture["name"]
            names.setdefault(m.group(0), pattern.get("name"))
    for word, name in {"kernel": "keyword.declaration", "scale": "entity.name.function", "f32": "storage.type", "in": "storage.modifier",
                       "fragment": "storage.modifier", "forall": "keyword.control", "grid": "keyword.control", "ceildiv": "support.function",
                       "warps": "support.other.hint", "LOG2E": "constant.language", "0x1f": "constant.numeric", "1.5e-3": "constant.numeric",
                       '"kernel {}"': "string.quoted.double", "+:": "keyword.operator"}.items():
        ok(str(names.get(word)).startswith(name), "TextMate: %s is %s" % (word, names.get(word)))
    ok("view2" not in names and "x" not in names, "TextMate: a name has a colour")
    for name in ("package.json", "language-configuration.json"):
        with open(os.path.join(EDITORS, "vscode", name), encoding="utf-8") as file:
            ok(json.load(file), name)


def coloured(folder, tool, command, expected):
    source, found = os.path.join(folder, "sample.tile"), os.path.join(folder, tool)
    with open(source, "w", encoding="utf-8") as file:
        file.write(SAMPLE)
    code, said = run(command, env=dict(os.environ, SOURCE=source, FOUND=found, EDITORS=EDITORS, HOME=folder))
    if not os.path.exists(found):
        return ok(False, "%s ended with %d: %s" % (tool, code, said))
    with open(found, encoding="utf-8") as file:
        lines = file.read().split("\n")
    for line in expected:
        ok(line in lines, "%s: no '%s' among %s" % (tool, line, lines))


def in_vim(folder):
    if not shutil.which("vim"):
        return skip("no vim here: its colours are not looked at")
    if "+syntax" not in run(["vim", "--version"])[1]:
        return skip("this vim has no colours")
    coloured(folder, "vim", ["vim", "-N", "-u", "NONE", "-es", "-S", os.path.join(HERE, "words_test.vim")],
             ["tile // %s", "A tileComment", "kernel tileDeclaration", "scale tileFunctionName", "f32 tileType", "in tileModifier",
              "fragment tileModifier", "forall tileReserved", "grid tileWord", "ceildiv tileFunction", "warps tileHint", "LOG2E tileConstant",
              "0x1f tileNumber", "kernel tileString", "view2 ", "x "])


def in_emacs(folder):
    if not shutil.which("emacs"):
        return skip("no emacs here: its mode is not looked at")
    mode = os.path.join(folder, "tile-mode.el")
    shutil.copy(os.path.join(EDITORS, "emacs", "tile-mode.el"), mode)
    code, said = run(["emacs", "-Q", "--batch", "--eval", "(setq byte-compile-error-on-warn t)", "-f", "batch-byte-compile", mode])
    ok(code == 0, said)
    coloured(folder, "emacs", ["emacs", "-Q", "--batch", "-L", folder, "-l", os.path.join(HERE, "words_test.el")],
             ["A font-lock-comment-face", "kernel font-lock-keyword-face", "scale font-lock-function-name-face", "f32 font-lock-type-face",
              "in font-lock-keyword-face", "fragment font-lock-keyword-face", "grid font-lock-keyword-face", "ceildiv font-lock-builtin-face",
              "warps font-lock-preprocessor-face", "LOG2E font-lock-constant-face", "kernel font-lock-string-face", "view2 nil", "x nil"])


def in_vscode():
    if not shutil.which("node"):
        return skip("no node here: VS Code's client is not run")
    code, said = run(["node", os.path.join(HERE, "client_test.js"), KILN, os.path.join(EDITORS, "vscode")])
    ok(code == 0, said)


def tile_files(*folders):
    return sorted(os.path.join(path, name) for folder in folders for path, _, names in os.walk(os.path.join(SOURCE, folder))
                  for name in names if name.endswith(".tile") and os.sep + "errors" not in path)


def tree_sitter(folder):
    """All .tile files but those of tests/language/errors, whose mistakes are meant."""
    command = os.environ.get("TREE_SITTER") or shutil.which("tree-sitter")
    if not command or not shutil.which("node"):
        return skip("no tree-sitter command, or no node, here: its grammar is not generated (TREE_SITTER names the command)")
    grammar = os.path.join(folder, "tree-sitter-kiln")
    shutil.copytree(os.path.join(EDITORS, "tree-sitter-kiln"), grammar)
    env = dict(os.environ, HOME=folder, XDG_CACHE_HOME=folder, NO_COLOR="1")
    code, said = run([command, "generate"], cwd=grammar, env=env)
    ok(code == 0, said)
    code, said = run([command, "test"], cwd=grammar, env=env)
    ok(code == 0, said)
    files = tile_files("kernels", "tests")
    code, said = run([command, "parse", "-q"] + files, cwd=grammar, env=env)
    ok(code == 0 and len(files) > 100, said)
    code, said = run([command, "query", "queries/highlights.scm", files[0]], cwd=grammar, env=env)
    ok(code == 0 and "function.builtin" in said, said)


def main():
    words_are_fresh()
    text_mate()
    in_vscode()
    with tempfile.TemporaryDirectory() as folder:
        in_vim(folder)
        in_emacs(folder)
        tree_sitter(folder)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % results)
    return 1 if results["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
