# SPDX-License-Identifier: MIT
"""prose.py - plain text of comments and docstrings as Markdown, and links of Markdown to other pages."""
import os
import posixpath
import re

_CODE = re.compile(r"(`[^`\n]+`)")


def escaped(text):
    """Plain text, with nothing in it that Markdown would read; spans of code stay."""
    parts = _CODE.split(text)
    return "".join(p if i % 2 else re.sub(r"([\\*_<>\[\]|#~$])", r"\\\1", p) for i, p in enumerate(parts))


_FILE = re.compile(r"(?<![\w/.`-])((?:docs|kernels|kiln|include/kiln)/[\w/-]+\.(?:tile|md|hpp|h))\b(?!`)")


def _said(text):
    """A plain text as Markdown; files that it names are code, from which Links makes links."""
    parts = _CODE.split(text)
    return escaped("".join(p if i % 2 else _FILE.sub(r"`\1`", p) for i, p in enumerate(parts)))


def in_cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def fenced(text, language="text"):
    fence = "```"
    while fence in text:
        fence += "`"
    return "%s%s\n%s\n%s\n" % (fence, language, text.strip("\n"), fence)


# "name   what it is": a name or a few, two or more blanks, a text.
_TERM = re.compile(r"^(\S(?:\S| (?! ))*?)  +(\S.*)$")


def _flush(out, lines):
    if lines:
        out.append(_said(" ".join(line.strip() for line in lines)).strip() + "\n")
        lines.clear()


def prose(text, language="text"):
    """Markdown of a plain text: paragraphs, lists of terms, and indented blocks, which are code."""
    out, lines, block, terms = [], [], [], []

    def end():
        _flush(out, lines)
        if block:
            out.append(fenced("\n".join(line[4:] for line in block), language))
            block.clear()
        if terms:
            out.append("\n".join("- `%s`: %s" % (name, _said(what)) for name, what in terms) + "\n")
            terms.clear()

    for line in text.expandtabs().split("\n"):
        term = _TERM.match(line)
        if not line.strip():
            if not block:
                end()
            else:
                block.append("")
        elif line.startswith("    ") and not terms and (block or not lines or lines[-1].endswith(":")):
            _flush(out, lines)
            block.append(line)
        elif term and len(term.group(1)) < 40 and not block:
            _flush(out, lines)
            terms.append((term.group(1).replace("`", ""), term.group(2)))
        elif terms and line.startswith(" "):
            terms[-1] = (terms[-1][0], terms[-1][1] + " " + line.strip())
        else:
            if block or terms:
                end()
            lines.append(line)
    end()
    return "\n".join(out)


class Links:
    """The pages that there are, by the files that they show, and the way from one to another."""

    def __init__(self, source):
        self.source = source
        self.pages = {}                                      # "kernels/gemm/gemm.tile": "kernels/gemm/gemm.md"

    def add(self, path, page):
        self.pages[path] = page

    def to(self, path, page):
        """A relative link from `page`, or None."""
        there = self.pages.get(path)
        return posixpath.relpath(there, posixpath.dirname(page) or ".") if there else None

    def _target(self, found, file, page):
        text, target = found.group(1), found.group(2)
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return found.group(0)
        target, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(file), target))
        link = self.to(path, page)
        if link:
            return "[%s](%s%s)" % (text, link, "#" + anchor if anchor else "")
        return text if "`" in text else "`%s`" % text

    def _named(self, found, page):
        path = found.group(1) if not found.group(1).startswith("kiln/") else "include/" + found.group(1)
        link = self.to(path, page)
        return "[`%s`](%s)" % (found.group(1), link) if link else found.group(0)

    def line(self, line, file, page):
        line = re.sub(r"(?<!!)\[([^\]\n]+)\]\(([^)\s]+)\)", lambda f: self._target(f, file, page), line)
        return re.sub(r"(?<!\[)`((?:kernels|docs|include|kiln)/[\w/.-]+\.(?:tile|md|h|hpp))`(?!\])", lambda f: self._named(f, page), line)

    def markdown(self, text, file, page):
        """The Markdown of a file of the repository for its page: links go to pages; those to what has none are its name."""
        out, fence = [], None
        for line in text.split("\n"):
            mark = re.match(r"\s*(```+|~~~+)(.*)$", line)
            if mark and not fence:
                fence = mark.group(1)
                if not mark.group(2).startswith("{"):
                    line = line[:mark.end(1)] + (mark.group(2).split() or ["text"])[0]      # ```tile run
            elif mark and mark.group(1) == fence and not mark.group(2).strip():
                fence = None
            elif not fence:
                line = self.line(line, file, page)
            out.append(line)
        return "\n".join(out)


def write(folder, page, text):
    where = os.path.join(folder, page)
    os.makedirs(os.path.dirname(where), exist_ok=True)
    with open(where, "w", encoding="utf-8") as file:
        file.write(text if text.endswith("\n") else text + "\n")


def toctree(pages, caption=None, hidden=True, depth=None):
    options = ([":hidden:"] if hidden else []) + ([":caption: " + caption] if caption else []) + ([":maxdepth: %d" % depth] if depth else [])
    return "```{toctree}\n%s\n\n%s\n```\n" % ("\n".join(options), "\n".join(pages))
