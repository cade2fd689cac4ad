# SPDX-License-Identifier: MIT
"""conf.py - how Sphinx makes the site of what pages.py has written beside this file."""
import json
import os

from pygments.lexer import RegexLexer, bygroups, words as any_of
from pygments import token as t

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "words.json"), encoding="utf-8") as file:
    site = json.load(file)

project = "Kiln"
version = release = site["version"]
extensions = ["myst_parser"]
myst_heading_anchors = 5
myst_all_links_external = False
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
templates_path = []
exclude_patterns = []
highlight_language = "text"

html_theme = "furo"
html_title = "Kiln"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["extra"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "navigation_with_keys": True,
    "light_css_variables": {"color-code-background": "#f5f6f8"},
    "dark_css_variables": {"color-code-background": "#1c1e22"},
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"


_w = site["words"]
_values = {"true", "false", "none"}
_keywords = [w for w in _w["reserved"] if w not in _values] + _w["declarations"]


class TileLexer(RegexLexer):
    """.tile files; the words are those of `kiln list --words`."""

    name, aliases, filenames = "Tile", ["tile"], ["*.tile"]
    tokens = {
        "root": [
            (r"//.*?$", t.Comment.Single),
            (r"/\*", t.Comment.Multiline, "comment"),
            (r'"(\\.|[^"\\\n])*"', t.String),
            (r"0[xX][0-9a-fA-F_']+|0[bB][01_']+|\d[0-9_']*(\.\d[0-9_']*)?([eE][+-]?\d+)?", t.Number),
            (r"\b(kernel|operator|reference|check|verify)(\s+)(\w+)", bygroups(t.Keyword, t.Whitespace, t.Name.Function)),
            (r"\b(fn)(\s+)(\w+)(\s+)(\w+)(?=\s*[<(])", bygroups(t.Keyword, t.Whitespace, t.Keyword.Type, t.Whitespace, t.Name.Function)),
            (any_of(_w["types"], r"\b", r"\b"), t.Keyword.Type),
            (any_of(sorted(_values) + _w["constants"], r"\b", r"\b"), t.Keyword.Constant),
            (any_of(_keywords, r"\b", r"\b"), t.Keyword),
            (any_of(_w["parameters"] + _w["kinds"], r"\b", r"\b(?=\s+\w)"), t.Keyword),
            (any_of(_w["statements"], r"\b", r"\b(?=\s*[(:\w])"), t.Keyword),
            (any_of(_w["functions"], r"\b", r"\b(?=\s*[(<])"), t.Name.Builtin),
            (any_of(_w["hints"] + _w["layouts"] + _w["inputs"], r"\b", r"\b(?=\s*\()"), t.Name.Attribute),
            (r"\w+", t.Name),
            (r"[-+*/%&|^<>=!~?@]+|\+:|\.\.", t.Operator),
            (r"[\[\](){},;:.]", t.Punctuation),
            (r"\s+", t.Whitespace),
        ],
        "comment": [(r"[^*]+", t.Comment.Multiline), (r"\*/", t.Comment.Multiline, "#pop"), (r"\*", t.Comment.Multiline)],
    }


def setup(app):
    app.add_lexer("tile", TileLexer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
