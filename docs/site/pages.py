#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""pages.py - all pages of the documentation site as Markdown, for Sphinx: the documents, the headers, the Python package, the
command, and a page for each file of kernels/.

usage: pages.py [--few] [--explain] KILN-COMMAND SOURCE-FOLDER WORK-FOLDER

  --few       the documents, and one of each other kind: for a quick look
  --explain   pages of `kiln explain --html` as well; compiles every kernel

WORK-FOLDER is made; conf.py and what it needs are copied into it. It needs Python 3.9 and nothing else."""
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import header_pages
import kernel_pages
import python_pages
from prose import Links, escaped, fenced, toctree, write

HERE = os.path.dirname(os.path.abspath(__file__))
GUIDES = ["guide", "language", "operators", "python", "editors"]


def documents_of(source):
    """{file of the repository: its page}"""
    found = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}
    for name in sorted(os.listdir(os.path.join(source, "docs"))):
        if name.endswith(".md"):
            found["docs/" + name] = name
    for name in sorted(os.listdir(os.path.join(source, "docs", "benchmarks"))):
        if name.endswith(".md"):
            found["docs/benchmarks/" + name] = "benchmarks/" + name
    return found


def pages_of(source, few=False):
    """All files that have a page, and their pages."""
    found = documents_of(source)
    found.update({path: header_pages.page_name(path) for path in header_pages.headers_of(source, few)})
    found.update({"kernels/" + f: kernel_pages.page_of(f) for f in kernel_pages.files_of(source, few)})
    for path in sorted(os.listdir(os.path.join(source, "examples", "notebook")) if os.path.isdir(os.path.join(source, "examples", "notebook")) else []):
        if path.endswith(".ipynb"):
            found["examples/notebook/" + path] = "notebooks/" + path[:-len(".ipynb")] + ".md"
    return found


def read(source, path):
    with open(os.path.join(source, path), encoding="utf-8") as file:
        return file.read()


# ---- the command's pages

def write_command_pages(kiln, work):
    def said(*args):
        return subprocess.run([kiln, *args], stdout=subprocess.PIPE, check=True, text=True).stdout

    overview = said("--help")
    names = re.findall(r"^  ([a-z]+)  +(.*)$", overview.split("commands:")[1], re.M)
    out = ["# The command\n", "What `kiln --help` and `kiln COMMAND --help` say.\n", fenced(overview)]
    for name, about in names:
        out.append("## kiln %s\n\n%s.\n\n%s" % (name, escaped(about[:1].upper() + about[1:]), fenced(said(name, "--help"))))
    write(work, "command.md", "\n".join(out))


# ---- notebooks

def notebook_page(text):
    """The cells of a notebook, with the texts that their runs have left."""
    out = []
    for cell in json.loads(text)["cells"]:
        body = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            out.append(body + "\n")
        elif cell["cell_type"] == "code" and body.strip():
            file = re.match(r"%%writefile (\S+)\n", body)
            if file:
                out.append("The file `%s`:\n\n%s" % (file.group(1), fenced(body[file.end():], "tile" if file.group(1).endswith(".tile") else "text")))
                continue
            out.append(fenced(body, "python"))
            said = "".join("".join(o.get("text", o.get("data", {}).get("text/plain", ""))) for o in cell.get("outputs", []))
            if said.strip():
                out.append(fenced(said))
    return "\n".join(out)


# ---- all

def write_index(source, work, links, pages):
    text = links.markdown(read(source, "README.md"), "README.md", "index.md")
    notebooks = [p[:-3] for f, p in pages.items() if f.endswith(".ipynb")]
    trees = [
        toctree([g for g in GUIDES if "docs/%s.md" % g in pages] + notebooks, "Guides", depth=1),
        toctree(["kernels/index"], "Gallery", depth=2),
        toctree(["command", "api/index", "python-reference/index"], "Reference", depth=1),
        toctree(sorted(p[:-3] for f, p in pages.items() if f.startswith("docs/") and p.startswith("benchmarks/")), "Measurements", depth=1),
        toctree(sorted(p[:-3] for f, p in pages.items() if f.startswith("docs/") and "/" not in p and p[:-3] not in GUIDES) + ["changelog"],
                "Inside", depth=1),
    ]
    write(work, "index.md", text + "\n\n" + "\n".join(trees))


def main():
    args = [a for a in sys.argv[1:] if not a.startswith("--")]
    few, explain = "--few" in sys.argv, "--explain" in sys.argv
    if len(args) != 3 or set(sys.argv[1:]) - set(args) - {"--few", "--explain"}:
        sys.exit(__doc__)
    kiln, source, work = (os.path.abspath(a) for a in args)
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(os.path.join(work, "extra"))
    shutil.copy(os.path.join(HERE, "conf.py"), work)
    shutil.copytree(os.path.join(HERE, "static"), os.path.join(work, "static"))
    words = subprocess.run([kiln, "list", "--words", "--json"], check=True, stdout=subprocess.PIPE).stdout
    version = subprocess.run([kiln, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
    write(work, "words.json", json.dumps({"words": json.loads(words), "version": re.search(r"[\d.]+", version).group(0)}))
    pages = pages_of(source, few)
    links = Links(source)
    for path, page in pages.items():
        links.add(path, page)
    for family in {f.split("/")[0] for f in kernel_pages.files_of(source, few)}:
        links.add("kernels/" + family, "kernels/%s/index.md" % family)
    links.add("kernels", "kernels/index.md")
    links.add("include/kiln", "api/index.md")
    links.add("docs/benchmarks", "benchmarks/h200.md")
    for path, page in documents_of(source).items():
        if path != "README.md":
            write(work, page, links.markdown(read(source, path), path, page))
    for path, page in pages.items():
        if path.endswith(".ipynb"):
            write(work, page, links.markdown(notebook_page(read(source, path)), path, page))
    write_index(source, work, links, pages)
    write_command_pages(kiln, work)
    header_pages.write_pages(source, work, links, few)
    python_pages.write_pages(source, work, links, few)
    kernel_pages.write_pages(kiln, source, work, links, few, os.path.join(work, "extra") if explain else None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
