#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_site.py - a site that was made: its links lead somewhere, each document and kernel has its page, nothing comes from elsewhere.

usage: check_site.py [--few] SOURCE-FOLDER SITE-FOLDER"""
import os
import re
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pages

FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "link": "href"}


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.fetched, self.text = set(), [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids |= {values[k] for k in ("id", "name") if values.get(k)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag in FETCHED and values.get(FETCHED[tag]) and not (tag == "link" and values.get("rel") in ("canonical", "next", "prev", "index", "search")):
            self.fetched.append(values[FETCHED[tag]])

    def handle_data(self, data):
        self.text.append(data)


def is_elsewhere(link):
    return re.match(r"[a-z][a-z0-9+.-]*:|//", link) is not None and not link.startswith("data:")


def main():
    few = "--few" in sys.argv
    source, out = (os.path.abspath(a) for a in sys.argv[1:] if not a.startswith("--"))
    found, faults, n_links = {}, [], 0
    for folder, _, names in os.walk(out):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".html"):
                with open(path, encoding="utf-8") as file:
                    found[path] = Page(file.read())
            elif name.endswith(".css"):
                with open(path, encoding="utf-8") as file:
                    for far in re.findall(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')]+)", file.read()):
                        faults.append("%s fetches %s" % (os.path.relpath(path, out), far))
    for path, page in found.items():
        here = os.path.relpath(path, out)
        faults += ["%s fetches %s" % (here, link) for link in page.fetched if is_elsewhere(link)]
        for link in page.links + [link for link in page.fetched if not is_elsewhere(link)]:
            target, anchor = urldefrag(link)
            if is_elsewhere(link) or link.startswith("data:"):
                continue
            n_links += 1
            there = os.path.normpath(os.path.join(os.path.dirname(path), unquote(target.split("?")[0]))) if target else path
            if os.path.isdir(there):
                there = os.path.join(there, "index.html")
            if not os.path.exists(there):
                faults.append("%s: %s is not there" % (here, link))
            elif anchor and there in found and unquote(anchor) not in found[there].ids:
                faults.append("%s: %s has no '%s'" % (here, target or "the page", anchor))
    expected = pages.pages_of(source, few)
    for path, page in expected.items():
        if os.path.join(out, page[:-3] + ".html") not in found:
            faults.append("%s has no page %s" % (path, page[:-3] + ".html"))
    if not os.path.exists(os.path.join(out, "searchindex.js")):
        faults.append("there is no index for searching")
    for fault in sorted(set(faults)):
        print("FAIL:", fault)
    print("%d pages, %d links, %d documents and kernels; %d faults" % (len(found), n_links, len(expected), len(set(faults))))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
