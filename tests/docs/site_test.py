#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""site_test.py - the pages of the documentation site are made from docs/, kernels/, the headers and the Python package as they
stand, their links lead somewhere, a page that cannot be made is named, and check_site.py finds what is wrong in a site. Where Sphinx
is here, a small site is made.

usage: site_test.py KILN-COMMAND SOURCE-FOLDER"""
import os
import posixpath
import re
import subprocess
import sys
import tempfile

KILN, SOURCE = (os.path.abspath(a) for a in sys.argv[1:3])
SITE = os.path.join(SOURCE, "docs", "site")
sys.path.insert(0, SITE)
sys.dont_write_bytecode = True
import header_pages
import pages
import prose

results = {"passed": 0, "failed": 0, "skipped": 0}


def ok(condition, what):
    results["passed" if condition else "failed"] += 1
    if not condition:
        print("FAIL:", what)


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=300, text=True)
    return done.returncode, done.stdout


# ---- the pages as Markdown

def without_code(text):
    return re.sub(r"^(```+|~~~+)(?!\{toctree).*?^\1$", "", text, flags=re.M | re.S)


def anchors_of(text):
    """Of its headings, as MyST and GitHub make them."""
    titles = re.findall(r"^#+ (.*)$", without_code(text), re.M)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", t).replace("\\", "").strip().lower() for t in titles]
    return {re.sub(r"[^\w -]", "", t).replace(" ", "-") for t in plain}


def links_lead_somewhere(work):
    texts = {}
    for folder, _, names in os.walk(work):
        for name in names:
            if name.endswith(".md"):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    texts[posixpath.relpath(path, work)] = file.read()
    listed, n_links = {"index.md"}, 0
    for page, text in texts.items():
        here = posixpath.dirname(page)
        for body in re.findall(r"^```\{toctree\}\n(?::[^\n]*\n)*\n(.*?)^```$", text, re.M | re.S):
            for line in body.split("\n"):
                if line.strip():
                    named = re.sub(r"^.*<(.*)>$", r"\1", line)
                    listed.add(posixpath.normpath(posixpath.join(here, named)) + ".md")
        for link in re.findall(r"(?<!`)\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "`", without_code(text)).replace("`]", "]")):
            if re.match(r"[a-z]+:", link):
                continue
            target, _, anchor = link.partition("#")
            there = posixpath.normpath(posixpath.join(here, target)) if target else page
            n_links += 1
            ok(there in texts, "%s: a link to %s, which is no page" % (page, link))
            ok(not anchor or anchor in anchors_of(texts.get(there, "")), "%s: %s has no heading '%s'" % (page, there, anchor))
    ok(listed == set(texts), "pages that no list has, or that are only in one: %s" % sorted(listed ^ set(texts)))
    ok(n_links > 300, "there are only %d links" % n_links)
    return texts


def pages_say(texts):
    for page, said in {
        "index.md": ["# Kiln", "](operators.md)", "kernels/index"],
        "kernels/index.md": ["[softmax.tile](norm/softmax.md)", "## [Softmax attention](attention/index.md)"],
        "kernels/attention/forward.md": ["kernel attention_forward<type T = bf16", "## Speed on an H200", "cuDNN", "[`kernels/attention/softmax.tile`](softmax.md)",
                                         "[`kiln/ops/attention.h`](../../api/ops/attention_h.md)", "````{code-block} tile"],
        "api/kiln_h.md": ["### `kiln_device_open`", "## Status", "- `args`: one per parameter of the source"],
        "api/ops/attention_h.md": ["[`kiln/ops/ops.h`](ops_h.md)", "[`kernels/attention/forward.tile`](../../kernels/attention/forward.md)"],
        "api/kiln_hpp.md": ["### `device`", "class device"],
        "python-reference/kiln.md": ["## `load`", "Kernel.build"],
        "python-reference/kiln-compat-flash_attn.md": ["flash_attn_func"],
        "notebooks/kernel_in_a_model.md": ["The file `add_norm.tile`:\n\n```tile\n", "torch.compile(model"],
        "command.md": ["## kiln explain", "--arch"],
    }.items():
        for words in said:
            ok(words in texts.get(page, ""), "%s lacks '%s'" % (page, words))
    ok("private:" not in texts["api/kiln_hpp.md"], "the page of kiln.hpp has private members")
    for page, text in texts.items():
        ok("SPDX" not in text, "%s has a line of its licence" % page)


def small_pieces():
    text = prose.prose("One *line*.\n\nargs   what is\n       given\nn      a count\n\nAn example:\n    f(1);\n    f(2);\nThen more.", "c")
    ok("One \\*line\\*." in text and "- `args`: what is given\n- `n`: a count" in text and "```c\nf(1);\nf(2);\n```" in text and "\nThen more." in text, text)
    about, page = header_pages.page_of("include/kiln/x.h", "/* SPDX-License-Identifier: MIT */\n/* x.h - for x. */\n#ifndef KILN_X_H\n#define KILN_X_H\n\n#ifdef __cplusplus\n"
                                       "extern \"C\" {\n#endif\n\n/* Does (it. */\nKILN_API int kiln_do(int a); /* or (b,\n * c */\nKILN_API int kiln_undo(int a);\n\n"
                                       "/* ---- more */\n\nenum { KILN_N = 1 };\n\n#ifdef __cplusplus\n}\n#endif\n#endif\n")
    ok(about == "for x", about)
    ok("### `kiln_do`, `kiln_undo`\n\nDoes (it.\n" in page and "## More" in page and "### `KILN_N`" in page and "__cplusplus" not in page, page)


# ---- a site

def faults_are_found(folder):
    out = os.path.join(folder, "bad")
    for page in list(pages.pages_of(SOURCE, True).values()) + ["other.md"]:
        where = os.path.join(out, page[:-3] + ".html")
        os.makedirs(os.path.dirname(where), exist_ok=True)
        with open(where, "w", encoding="utf-8") as file:
            file.write("<p id='here'>")
    with open(os.path.join(out, "searchindex.js"), "w", encoding="utf-8") as file:
        file.write("x")

    def check():
        return run(sys.executable, os.path.join(SITE, "check_site.py"), "--few", SOURCE, out)

    code, said = check()
    ok(code == 0, said)
    with open(os.path.join(out, "other.html"), "w", encoding="utf-8") as file:
        file.write("<a href='index.html#here'></a><a href='gone.html'></a><a href='index.html#nothing'></a><img src='https://example.org/a.png'>"
                   "<a href='https://example.org/'></a>")
    os.remove(os.path.join(out, "language.html"))
    code, said = check()
    found = re.findall(r"^FAIL: (.*)$", said, re.M)
    ok(code == 1 and found == ["docs/language.md has no page language.html", "other.html fetches https://example.org/a.png",
                               "other.html: gone.html is not there", "other.html: index.html has no 'nothing'"], said)


def missing_pages_are_named(folder):
    command = os.path.join(folder, "kiln")
    with open(command, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n[ \"$2\" != --arch=90 ] || { echo 'kiln: disk full' >&2; exit 1; }\nexec '%s' \"$@\"\n" % KILN)
    os.chmod(command, 0o755)
    code, said = run(sys.executable, "-B", os.path.join(SITE, "pages.py"), "--few", "--explain", command, SOURCE, os.path.join(folder, "few"))
    ok(code == 1 and re.search(r"^site: explain/\S+\.html is not made, the page of \w+ of kernels/\S+\.tile: kiln: disk full$", said, re.M), said)


def sphinx_makes_it(folder):
    if subprocess.run([sys.executable, "-c", "import sphinx, myst_parser, furo"], stderr=subprocess.DEVNULL).returncode:
        results["skipped"] += 1
        return print("skipped: no Sphinx, MyST or Furo in this python3 (docs/site/requirements.txt): no page is rendered")
    build = os.path.join(folder, "build")
    os.mkdir(build)
    os.symlink(KILN, os.path.join(build, "kiln"))
    code, said = run("sh", os.path.join(SOURCE, "scripts", "site.sh"), build, "--few")
    ok(code == 0 and " 0 faults" in said, said)


def main():
    small_pieces()
    with tempfile.TemporaryDirectory() as folder:
        work = os.path.join(folder, "work")
        code, said = run(sys.executable, "-B", os.path.join(SITE, "pages.py"), KILN, SOURCE, work)
        ok(code == 0, said)
        if code == 0:
            pages_say(links_lead_somewhere(work))
        faults_are_found(folder)
        missing_pages_are_named(folder)
        sphinx_makes_it(folder)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % results)
    return 1 if results["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
