# SPDX-License-Identifier: MIT
"""header_pages.py - pages of the public headers, from their own comments and declarations."""
import os
import re

from prose import escaped, fenced, prose, toctree, write


def _comment_text(lines):
    """The text of a comment, without its marks; of one in many lines, without the indentation of its first."""
    text = []
    for line in lines:
        line = re.sub(r"^\s*(/\*+|\*/|\*|//)? ?", "", line, count=1) if line.strip() != "*/" else ""
        text.append(re.sub(r"\s*\*/\s*$", "", line))
    while text and not text[-1].strip():
        text.pop()
    return "\n".join(text)


def _pieces(source):
    """('section', title), ('comment', text) and ('code', lines) in order; blank lines end a piece."""
    lines = source.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        section = re.match(r"^(?:/\*|//) ---- (.*?)(?: \*/)?$", line)
        if section:
            yield "section", section.group(1)
            at += 1
        elif line.startswith("/*") or line.startswith("//"):
            begin = at
            if line.startswith("/*"):
                while "*/" not in lines[at]:
                    at += 1
                at += 1
            else:
                while at < len(lines) and lines[at].startswith("//"):
                    at += 1
            yield "comment", _comment_text(lines[begin:at])
        elif not line.strip():
            yield "blank", ""
            at += 1
        else:
            begin, depth, in_comment = at, 0, False
            while at < len(lines):                           # to a blank line or a comment outside of brackets
                bare = ("/*" if in_comment else "") + lines[at]
                bare = re.sub(r"/\*.*?\*/|//.*$|\"[^\"]*\"", "", bare)
                in_comment = "/*" in bare
                bare = bare.split("/*")[0]
                depth += sum(bare.count(c) for c in "{(") - sum(bare.count(c) for c in "})")
                at += 1
                if at < len(lines) and depth <= 0 and not in_comment and not lines[at - 1].endswith("\\") and (
                        not lines[at].strip() or re.match(r"/\*|//", lines[at])):
                    break
            yield "code", lines[begin:at]


# What every header has around its declarations.
_AROUND = re.compile(r"""^.*SPDX.*\n
    | ^\#ifdef\ __cplusplus\n (?:extern\ "C"\ \{ | \})\n \#endif\n
    | ^\#ifndef\ KILN_\w+_HP*\n \#define\ KILN_\w+_HP*\n
    | ^\#include\ .*\n
    | ^namespace\ kiln\n\{\n | ^\}\ //\ namespace.*\n
    | ^\#endif\n*\Z""", re.M | re.X)


def _names(code, language):
    """What a piece of code declares."""
    bare = re.sub(r"/\*.*?\*/|//[^\n]*", "", code, flags=re.S)
    if language == "cpp":
        found = re.findall(r"^(?:class|struct) (\w+)|^(?:inline|constexpr)\b[^(\n]*?(\w+)\(", bare, re.M)
        return list(dict.fromkeys(a or b for a, b in found))
    found = re.findall(r"\b(kiln_\w+)\s*\(", bare) if "KILN_API" in bare or "inline" in bare else []
    found += re.findall(r"^typedef (?:struct|enum|union) (\w+)", bare, re.M) + re.findall(r"^#define (KILN_\w+)", bare, re.M)
    return list(dict.fromkeys(found + re.findall(r"^enum \{ (KILN_\w+)", bare, re.M)))


def _title(names):
    shown = names[:4] + (["..."] if len(names) > 4 else [])
    return ", ".join("`%s`" % n if n != "..." else n for n in shown)


def page_of(path, source):
    """(what it is for, in a line; the Markdown of the page)"""
    language = "cpp" if path.endswith(".hpp") else "c"
    pieces = list(_pieces(_AROUND.sub("", source)))
    first = next(text for kind, text in pieces if kind == "comment")
    name, _, rest = first.partition(" - ")
    about = re.split(r"(?<=[.:])\s", " ".join(rest.split("\n\n")[0].split()))[0].rstrip(".:")
    out = ["# %s\n" % "/".join(path.split("/")[1:]), prose(rest[:1].upper() + rest[1:], language)]
    comment, shown_first = None, False
    general = any(kind == "section" for kind, _ in pieces)   # what stands before the first section
    for kind, text in pieces:
        if kind == "comment" and not shown_first:
            shown_first = True
        elif kind == "section":
            general = False
            out.append("## %s\n" % escaped(text[:1].upper() + text[1:]))
        elif kind == "comment":
            if comment:
                out.append(prose(comment, language))
            comment = text
        elif kind == "blank" and comment:
            out.append(prose(comment, language))
            comment = None
        elif kind == "code":
            code = "\n".join(text)
            code = re.sub(r"\n+  private:\n.*?(?=^\};)", "\n", code, flags=re.M | re.S)
            names = _names(code, language)
            if general:
                general = False
                out.append("## General\n")
            if names:
                out.append("### %s\n" % _title(names))
            if comment:
                out.append(prose(comment, language))
            out.append(fenced(code, language))
            comment = None
    return about, "\n".join(out)


def headers_of(source, few):
    folder = os.path.join(source, "include", "kiln")
    paths = ["include/kiln/" + n for n in ("kiln.h", "kiln.hpp", "code.h")]
    paths += sorted("include/kiln/ops/" + n for n in os.listdir(os.path.join(folder, "ops")) if n.endswith(".h"))
    return paths[:1] if few else paths


def page_name(path):
    return "api/" + path[len("include/kiln/"):].replace(".", "_") + ".md"


def write_pages(source, work, links, few):
    rows, pages = [], []
    for path in headers_of(source, few):
        with open(os.path.join(source, path), encoding="utf-8") as file:
            about, text = page_of(path, file.read())
        page = page_name(path)
        write(work, page, links.markdown(text, path, page))
        pages.append(page[len("api/"):-len(".md")])
        rows.append("| [`%s`](%s) | %s |" % (path[len("include/"):], page[len("api/"):], escaped(about)))
    text = "# C and C++ headers\n\nFrom the headers' own comments. [Operators](%s) shows the operators with examples.\n\n| header | what it is for |\n| --- | --- |\n%s\n\n%s"
    write(work, "api/index.md", text % (links.to("docs/operators.md", "api/index.md") or "../operators.md", "\n".join(rows), toctree(pages)))
