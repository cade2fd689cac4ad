# SPDX-License-Identifier: MIT
"""python_pages.py - pages of the Python package: what each module offers, from its text; nothing is imported."""
import ast
import os
import re

from prose import escaped, fenced, prose, toctree, write

# (module, its file, files in which a name of it may stand)
MODULES = [
    ("kiln", "__init__.py", ["__init__.py", "_program.py", "_tensor.py", "_library.py", "_command.py"]),
    ("kiln.ops", "ops.py", ["ops.py", "_calls.py"]),
    ("kiln.torch", "torch.py", ["torch.py"]),
    ("kiln.compat.flash_attn", "compat/flash_attn.py", ["compat/flash_attn.py"]),
    ("kiln.compat.flash_mla", "compat/flash_mla.py", ["compat/flash_mla.py"]),
]


def _signature(node, name=None):
    args = ast.unparse(node.args)
    result = " -> " + ast.unparse(node.returns) if node.returns else ""
    text = "%s(%s)%s" % (name or node.name, args, result)
    if len(text) <= 110:
        return text
    indent = " " * (len(name or node.name) + 1)
    lines, line, depth = [], "", 0
    for piece in args:
        depth += piece in "[(" or -(piece in "])")
        line += piece
        if piece == "," and depth == 0 and len(line) > 80:
            lines.append(line.strip())
            line = ""
    return "%s(%s)%s" % (name or node.name, ("\n" + indent).join(lines + [line.strip()]), result)


def _function(node, title, level):
    return "%s `%s`\n\n%s\n%s" % ("#" * level, title, fenced(_signature(node), "python"), prose(ast.get_docstring(node) or ""))


def _class(node, level):
    out = ["%s `%s`\n" % ("#" * level, node.name), prose(ast.get_docstring(node) or "")]
    fields = [ast.unparse(n) for n in node.body if isinstance(n, ast.AnnAssign) and not ast.unparse(n.target).startswith("_")]
    if fields:
        out.append(fenced("\n".join(fields), "python"))
    for n in node.body:
        if isinstance(n, ast.FunctionDef) and ast.get_docstring(n) and (not n.name.startswith("_") or n.name in ("__init__", "__call__")):
            out.append(_function(n, "%s.%s" % (node.name, n.name), level + 1))
    return "\n".join(out)


def _module(package, module, file, places):
    trees = {}
    for place in places:
        with open(os.path.join(package, place), encoding="utf-8") as text:
            trees[place] = ast.parse(text.read())
    offered = next(ast.literal_eval(n.value) for n in trees[file].body if isinstance(n, ast.Assign) and n.targets[0].id == "__all__")
    nodes = {}
    for place in reversed(places):
        nodes.update({n.name: n for n in trees[place].body if isinstance(n, (ast.FunctionDef, ast.ClassDef))})
    doc = ast.get_docstring(trees[file]) or ""
    out = ["# %s\n" % module, prose(doc, "python")]
    missing = []
    for name in offered:
        node = nodes.get(name)
        if isinstance(node, ast.ClassDef):
            out.append(_class(node, 2))
        elif node is not None:
            out.append(_function(node, name, 2))
        elif name != "ops":
            missing.append(name)
    if missing:                                              # made by a call: kiln.torch's
        out.append("## Others\n\n" + ", ".join("`%s`" % name for name in missing) + "\n")
    return re.sub(r":$", ".", doc.split("\n")[0]), "\n".join(out)


def write_pages(source, work, links, few):
    rows, pages = [], []
    for module, file, places in MODULES[:1] if few else MODULES:
        about, text = _module(os.path.join(source, "python", "kiln"), module, file, places)
        page = "python-reference/%s.md" % module.replace(".", "-")
        write(work, page, links.markdown(text, "python/kiln/" + file, page))
        pages.append(os.path.basename(page)[:-len(".md")])
        rows.append("| [`%s`](%s) | %s |" % (module, os.path.basename(page), escaped(about)))
    text = "# The Python package\n\n[Kiln from Python](%s) is the guide. These pages are the docstrings.\n\n| module | what it has |\n| --- | --- |\n%s\n\n%s"
    write(work, "python-reference/index.md", text % (links.to("docs/python.md", "python-reference/index.md") or "../python.md",
                                                     "\n".join(rows), toctree(pages)))
