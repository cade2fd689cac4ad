# SPDX-License-Identifier: MIT
"""kernel_pages.py - the gallery: a page for each file of kernels/, with what it computes, how to run it, its speed and its source."""
import json
import os
import posixpath
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from prose import escaped, fenced, in_cell, prose, toctree, write

FAMILIES = {
    "attention": "Softmax attention", "cast": "Conversions", "conv": "Convolution", "decode": "A whole decoding step", "elementwise": "Elementwise",
    "gemm": "Matrix products", "linear": "Layers with a state", "mla": "Latent attention", "moe": "Experts", "nn": "Small operators",
    "norm": "Norms and softmax", "nsa": "Native sparse attention", "quant": "Quantised weights", "sparse": "Block-sparse attention",
    "topk": "Selection and sampling", "transform": "Transforms",
}

# Headings of docs/benchmarks under which the operators that run a family's kernels are timed, as they begin.
TIMED = {
    "attention": ["Attention over paged caches"], "linear": ["Whole calls", "Layers with a state"],
    "mla": ["DeepSeek sparse attention", "Sparse latent decoding"], "moe": ["Experts and sampling"], "quant": ["Quantised weights"],
    "sparse": ["Block-sparse, vertical-slash, sinks"], "topk": ["Experts and sampling"],
}

# What a kernel must be given beside its defaults to be built.
VALUES = {("decode/masked.tile", "masked_mha"): ["POOL2=none"], ("gemm/row.tile", "gemm_row"): ["UP=none", "UPS=none", "UPB=none"]}


def files_of(source, few=False):
    """"gemm/gemm.tile" ...; a few: of one family."""
    folder = os.path.join(source, "kernels")
    found = sorted(posixpath.join(family, name) for family in os.listdir(folder) for name in os.listdir(os.path.join(folder, family))
                   if name.endswith(".tile"))
    return [f for f in found if f.startswith("norm/")] if few else found


def page_of(file):
    return "kernels/" + file[:-len(".tile")] + ".md"


# ---- speed

def speed_files(source):
    """The file of a row of docs/benchmarks/h200.md, by how its name begins, longest first: from the tables of bench/."""
    found = {}
    for name in ("rows.c", "command.c"):
        with open(os.path.join(source, "bench", name), encoding="utf-8") as file:
            text = file.read()
        for begin, label, path in re.findall(r'(MEMORY\(|\{|\n)\s*"([^"\n]+)"(?: NAME)?,\s*"([a-z0-9_]+/[a-z0-9_]+\.tile)"', text):
            found[("memory " if begin == "MEMORY(" else "") + label] = path
    return sorted(found.items(), key=lambda item: -len(item[0]))


def speeds(source):
    """{file: [(heading row, row)]} and the rows of the tables of times that no file was found for."""
    files, of, unknown = speed_files(source), {}, []
    with open(os.path.join(source, "docs", "benchmarks", "h200.md"), encoding="utf-8") as file:
        lines = file.read().split("\n")
    head = None
    for i, line in enumerate(lines):
        if line.startswith("| ---"):
            head = lines[i - 1]
        elif not line.startswith("|"):
            head = None
        elif head and head.startswith(("| what | ms", "| launch, warm")):
            label = line.split("|")[1].strip()
            path = next((p for begin, p in files if label.startswith(begin)), None)
            if path:
                of.setdefault(path, []).append((head, line))
            else:
                unknown.append(label)
    return of, unknown


def timed_sections(source):
    """{family: links to the sections that TIMED names, as a file of docs/benchmarks has them}."""
    found, folder = {}, os.path.join(source, "docs", "benchmarks")
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            for heading in re.findall(r"^## (.*)$", file.read(), re.M):
                anchor = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
                found[heading] = "[%s](%s#%s)" % (heading.split(" (")[0], name, anchor)
    return {family: [next(link for heading, link in found.items() if heading.startswith(begin)) for begin in begins]
            for family, begins in TIMED.items()}


def _speed_tables(rows):
    out, before = [], None
    for head, row in rows:
        cells = [[c.strip() for c in line.strip("|").split("|")] for line in (head, row)]
        keep = [i for i, name in enumerate(cells[0]) if name not in ("build s", "")]
        shown = ["| " + " | ".join(line[i] for i in keep) + " |" for line in cells]
        if head != before:
            out += ["", shown[0], "|" + " --- |" * len(keep)]
            before = head
        out.append(shown[1])
    return "\n".join(out) + "\n"


# ---- what the sources say

def _comment_of_file(text):
    lines = []
    for line in text.split("\n"):
        if "SPDX" in line and not lines:
            continue
        if not line.startswith("//"):
            break
        lines.append(re.sub(r"^// ?", "", line))
    text = re.sub(r"^\S+\.tile - ", "", "\n".join(lines))
    return text if ".tile" in text.split(" ")[0] else text[:1].upper() + text[1:]


def imports_of(text, file):
    """The files of the library that it imports."""
    found = []
    for name in re.findall(r'^import "([^"]+)"', text, re.M):
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(file), name))
        found.append(beside)
    return found


def _uses(source):
    """{file: headers whose operators run it}: src/ops/NAME.c is of include/kiln/ops/NAME.h."""
    of = {}
    folder = os.path.join(source, "src", "ops")
    for name in sorted(os.listdir(folder)):
        header = "include/kiln/ops/%s.h" % name[:-2]
        if not name.endswith(".c"):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            text = file.read()
        while not os.path.exists(os.path.join(source, header)) and "_" in os.path.basename(header):
            header = header.rsplit("_", 1)[0] + ".h"         # recurrent_backward.c is of recurrent.h
        if os.path.exists(os.path.join(source, header)):
            for path in set(re.findall(r'"([a-z0-9_]+/[a-z0-9_]+\.tile)"', text)):
                of.setdefault(path, set()).add(header)
    return of


def _declared(text):
    """Kernels and operators that it declares, in order: (kind, name)."""
    return re.findall(r"^(kernel|operator) (\w+)", text, re.M)


# ---- the pages of `kiln explain --html`

def explain_pages(kiln, source, out, listed, seconds=300):
    """{(file, kernel): path below `out`} of the pages, for Hopper. One that cannot be made ends the program, after a line for each."""
    def make(entry):
        path = "explain/%s-%s.html" % (entry["file"][:-len(".tile")].replace("/", "-"), entry["name"])
        where = os.path.join(out, path)
        os.makedirs(os.path.dirname(where), exist_ok=True)
        try:
            done = subprocess.run([kiln, "explain", "--arch=90", "--html=" + where, "kernels/" + entry["file"], entry["name"],
                                   *VALUES.get((entry["file"], entry["name"]), [])], cwd=source,       # the page names the file
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=seconds, text=True)
            reason = (done.stderr.strip().split("\n") or ["?"])[0] if done.returncode or not os.path.exists(where) else None
        except subprocess.TimeoutExpired:
            reason = "it took more than %d s" % seconds
        return (entry["file"], entry["name"]), path, reason

    pages, missing = {}, 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for key, path, reason in pool.map(make, listed):
            pages[key] = path
            if reason:
                print("site: %s is not made, the page of %s of kernels/%s: %s" % (path, key[1], key[0], reason), file=sys.stderr)
                missing += 1
    if missing:
        sys.exit("site: %d pages of 'kiln explain' could not be made" % missing)
    return pages


# ---- the pages

def _at_commas(text, width):
    """Lines of a list, broken behind commas outside of brackets where the next word would pass the width."""
    words, word, depth = [], "", 0
    for c in text:
        word += c
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            words.append(word.strip())
            word = ""
    lines = [""]
    for word in words + [word.strip()]:
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines


def _signature(kind, text, width=100):
    name, build, params = re.match(r"(\w+)(?:<(.*)>)? ?\((.*)\)$", text, re.S).groups()
    out = kind + " " + name
    if build:
        out += "<%s>" % ("\n" + " " * (len(out) + 1)).join(_at_commas(build, width - len(out)))
    return out + "\n    (%s)" % "\n     ".join(_at_commas(params, width))


def _runs(file, entries):
    lines = ["# a few of its cases, against their references", "kiln test --quick kernels/%s" % file]
    if entries:
        name = entries[0]["name"]
        named = " ".join(["kernels/" + file, name, *VALUES.get((file, name), [])])
        lines += ["# checked and timed on this machine's CPU; with --device=cuda:0 on a GPU", "kiln run " + named,
                  "# what was decided for Hopper; no GPU is needed", "kiln explain --arch=90 " + named]
    return fenced("\n".join(lines), "sh")


def _page(file, text, entries, site):
    page = page_of(file)
    out = ["# %s\n" % escaped(file), prose(_comment_of_file(text), "tile")]
    has = {e["name"]: e for e in entries}
    declared = _declared(text)
    if declared:
        out.append("## Kernels and operators\n")
    for kind, name in declared:
        entry = has.get(name)
        if not entry:
            continue
        out.append("### %s\n" % escaped(name))
        out.append(prose(entry["comment"]) if entry["comment"] else "")
        out.append(fenced(_signature(kind, entry["signature"]), "tile"))
        made = site.explained.get((file, name))
        if made:
            way = posixpath.relpath(made, posixpath.dirname(page))
            out.append('<a href="%s">What the compiler decided for Hopper</a>, line by line.\n' % way)
    steps = [name for kind, name in declared if name not in has]
    if steps:
        out.append("Its other kernels are steps of these, or of other files: %s.\n" % ", ".join("`%s`" % name for name in steps))
    out.append("## Run it\n\n" + _runs(file, entries) if declared else "It has functions for other files, and no kernel of its own.\n")
    near = []
    for what, files in (("Imports", imports_of(text, file)), ("Imported by", site.importers.get(file, []))):
        if files:
            near.append("%s: %s." % (what, ", ".join("`kernels/%s`" % f for f in files)))
    headers = sorted(site.uses.get(file, []))
    if headers:
        near.append("Run by the operators of %s." % ", ".join("`%s`" % h[len("include/"):] for h in headers))
    if near:
        out.append("## Where it stands\n\n" + "\n\n".join(near) + "\n")
    if file in site.speeds:
        out.append("## Speed on an H200\n\nThe rows of `docs/benchmarks/h200.md`, which says how they were measured.\n" + _speed_tables(site.speeds[file]))
    source = re.sub(r"^// SPDX.*\n", "", text)
    out.append("## Source\n\n````{code-block} tile\n:linenos:\n:lineno-start: %d\n\n%s````\n" % (1 + text.startswith("// SPDX"), source))
    return page, "\n".join(out)


class _Site:
    pass


def _family_table(own, texts, by_file, site):
    """What each file of a family computes; FOLDER stands for the way to their pages."""
    out = ["| file | what it computes | kernels and operators | timed |", "| --- | --- | --- | --- |"]
    for f in own:
        about = re.split(r"(?<=\.)\s", " ".join(_comment_of_file(texts[f]).split("\n\n")[0].split()))[0]
        about = re.sub(r":$", ".", about)
        names = ", ".join("`%s`" % e["name"] for e in by_file[f])
        out.append("| [%s](FOLDER%s.md) | %s | %s | %s |" % (escaped(posixpath.basename(f)), posixpath.basename(f)[:-len(".tile")],
                                                            in_cell(escaped(about)), names, "yes" if f in site.speeds else ""))
    return "\n".join(out) + "\n"


def _write_gallery(work, links, files, texts, by_file, site):
    """The page of each family, and the one of all of them."""
    families = sorted({f.split("/")[0] for f in files})
    gallery, whole = [], "kernels/index.md"
    for family in families:
        own = [f for f in files if f.startswith(family + "/")]
        title, page = FAMILIES.get(family, family), "kernels/%s/index.md" % family
        timed = "Whole operators are timed in %s.\n\n" % "; ".join(site.timed[family]) if family in site.timed else ""
        table = _family_table(own, texts, by_file, site)
        names = [posixpath.basename(f)[:-len(".tile")] for f in own]
        write(work, page, "# %s\n\n%s%s\n%s" % (title, links.markdown(timed, "docs/benchmarks/h200.md", page), table.replace("FOLDER", ""),
                                               toctree(["%s <%s>" % (n, n) for n in names])))
        gallery.append("## [%s](%s/index.md)\n\n%s%s" % (title, family, links.markdown(timed, "docs/benchmarks/h200.md", whole),
                                                        table.replace("FOLDER", family + "/")))
    write(work, whole, "# The kernels\n\nEach file of `kernels/` holds kernels with their references and checks. Those that are timed by themselves have "
          "rows in [the measurements on an H200](%s).\n\n%s\n%s" % (links.to("docs/benchmarks/h200.md", whole), "\n".join(gallery),
                                                                   toctree(["%s/index" % f for f in families])))


def write_pages(kiln, source, work, links, few, extra=None):
    """Pages of all kernels; `extra`: the folder for those of `kiln explain --html`, None: they are not made."""
    files = files_of(source, few)
    listed = json.loads(subprocess.run([kiln, "list", "--json", "--kernels=" + os.path.join(source, "kernels")], check=True,
                                       stdout=subprocess.PIPE).stdout)["kernels"]
    listed = [e for e in listed if e["file"] in files]
    site = _Site()
    site.speeds, unknown = speeds(source)
    if unknown:
        sys.exit("site: no kernel is known for these rows of docs/benchmarks/h200.md: %s" % ", ".join(unknown))
    site.timed = timed_sections(source)
    site.uses = _uses(source)
    site.explained = explain_pages(kiln, source, extra, listed) if extra else {}
    texts, site.importers = {}, {}
    for file in files:
        with open(os.path.join(source, "kernels", file), encoding="utf-8") as one:
            texts[file] = one.read()
        for other in imports_of(texts[file], file):
            site.importers.setdefault(other, []).append(file)
    by_file = {file: [e for e in listed if e["file"] == file] for file in files}
    for file in files:
        page, text = _page(file, texts[file], by_file[file], site)
        write(work, page, links.markdown(text, "kernels/" + file, page))
    _write_gallery(work, links, files, texts, by_file, site)
