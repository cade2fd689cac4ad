#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench_page_test.py - the page of `kiln bench --html`: of saved runs that are made up here, and of a run of one row.

usage: bench_page_test.py KILN-COMMAND SOURCE-FOLDER [PAGE-TO-KEEP]

The page is whole and self-contained, its numbers are those of the runs, changes are marked where the times say so, and only earlier
runs on the same device count.
"""
import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile

kiln, sources = map(os.path.abspath, sys.argv[1:3])
folder = tempfile.TemporaryDirectory()
environment = dict(os.environ, KILN_CACHE=folder.name + "/cache", NO_COLOR="1")
passed = failed = 0


def check(holds, what):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    if not holds:
        print("FAIL:", what)


def bench(*arguments):
    return subprocess.run([kiln, "bench", *arguments], env=environment, cwd=folder.name, capture_output=True, text=True, timeout=200)


def row(name, milliseconds, ratio=None, memory=False, work=1e11, **more):
    seconds = milliseconds * 1e-3
    found = {"name": name, "kernel": "k", "values": "M=4", "correct": True, "verdict": "-", "baseline": "peer" if ratio else "",
             "median_seconds": seconds, "fastest_seconds": 0.99 * seconds, "slowest_seconds": 1.01 * seconds, "floor_seconds": 0.8 * seconds,
             "baseline_median_seconds": seconds * ratio if ratio else 0, "rate": work / seconds, "ceiling": 1.5 * work / seconds,
             "operations": 0 if memory else work, "bytes": work if memory else 1, "ratio": ratio, "target": 0}
    return dict(found, **more)


def save(name, date, rows, device="Test GPU <1>", **more):
    with open(os.path.join(folder.name, name), "w") as out:
        json.dump(dict({"device": device, "version": "0.1", "date": date, "rows": rows, "copy_bytes_per_second": 4e12}, **more), out)


class Page(html.parser.HTMLParser):
    """Elements have ends and are nested; nothing is loaded from elsewhere; `cells` are the tables' rows."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.text, self.elements, self.wrong = [], [], text, [], []
        self.feed(text)
        self.close()
        if self.open:
            self.wrong.append("open at the end: %s" % self.open)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag in ("script", "link", "img") or any(name in ("src", "href") for name, _ in attributes):
            self.wrong.append("loads something: <%s>" % tag)
        if tag == "tr":
            self.rows.append("")
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append("</%s> closes nothing" % tag)

    def handle_data(self, data):
        if "tr" in self.open and "title" not in self.open:
            self.rows[-1] += data + " "

    def row(self, name):
        return next((r for r in self.rows if r.startswith(name)), "no row '%s'" % name)


def page(*arguments):
    done = bench("--html=page.html", *arguments)
    check(done.returncode == 0, "%s: %s" % (" ".join(arguments), done.stderr))
    with open(os.path.join(folder.name, "page.html")) as text:
        found = Page(text.read())
    check(not found.wrong, found.wrong)
    check("nan" not in re.sub(r"<style>.*</style>", "", found.text, flags=re.S).lower(), "a number is none")
    return found


def saved_runs():
    os.mkdir(os.path.join(folder.name, "runs"))
    for day in range(1, 6):
        save("runs/%d.json" % day, "2026-03-0%d 10:00:00" % day,
             [row("gemm <big>", 2.0 - 0.1 * day, 0.97 + 0.02 * day, verdict="met", target=1, target_text="1.00"),
              row("copy", 1.0 + 0.001 * day, 1.2, memory=True), row("slower", 1.0 if day < 5 else 1.2, 0.9, verdict="not met", target=1),
              {"name": "launch", "correct": True, "host_seconds": 4e-6, "target": 5e-6}])
    save("runs/other.json", "2026-03-02 10:00:00", [row("gemm <big>", 0.1)], device="another")
    save("runs/noise.json", "2026-03-02 11:00:00", [], rows_of="")
    with open(os.path.join(folder.name, "runs/strange.json"), "w") as out:
        out.write("{\"a\": [1]}")
    save("new.json", "2026-03-06 10:00:00",
         [row("gemm <big>", 1.2, 1.25, verdict="met", target=1, target_text="1.00"), row("copy", 1.003, 1.2, memory=True),
          row("slower", 1.3, 0.85, verdict="not met", target=1), row("new", 3.0),
          {"name": "broken", "kernel": "k", "values": "", "correct": None, "problem": "out of <memory>"},
          {"name": "launch", "correct": True, "host_seconds": 6e-6, "target": 5e-6}])
    found = page("--from=new.json", "--history=runs")
    if len(sys.argv) > 3:
        with open(sys.argv[3], "w") as out:
            out.write(found.text)
    gemm = found.row("gemm <big>")
    check("1.200 ms" in gemm and "1.25x" in gemm and "+25.0%" in gemm and "met" in gemm, gemm)
    check("%" in found.row("copy") and "\N{BLACK UP-POINTING TRIANGLE}" not in found.row("copy"), found.row("copy"))
    check("\N{BLACK DOWN-POINTING TRIANGLE} -7.7%" in found.row("slower"), found.row("slower"))
    check(found.row("new").split()[-1] == "-", found.row("new"))
    check("out of <memory>" in found.row("broken"), found.row("broken"))
    check("6.00 us" in found.row("launch") and "-33.3%" in found.row("launch"), found.row("launch"))
    figures = sum(tag == "figure" for tag, _ in found.elements)
    check(figures == 3, "a plot for each row with a history, not %d" % figures)
    points = [a for tag, a in found.elements if tag == "circle"]
    check(len(points) == 3 * 6, "a point of each run: %d" % len(points))
    check("6 earlier runs on this device" in found.text and "1 more of other devices" in found.text, "what is compared")
    check("1 of 2" in found.text, "targets met")
    # The last of the runs, with those before it.
    found = page("--from=runs")
    check("2026-03-05 10:00" in found.text and "1.500 ms" in found.row("gemm"), "the latest run is shown")
    check("5 earlier runs" in found.text, "those before it")
    # Parts of a run, each on a line, as bench/gpu.sh keeps them; one was cut off, one is of compile times.
    with open(os.path.join(folder.name, "parts.json"), "w") as out:
        for rows in ([row("gemm <big>", 1.0)], [row("copy", 2.0)], [{"name": "add", "seconds": 1}]):
            out.write(json.dumps({"device": "Test GPU <1>", "date": "2026-03-07 10:00:00", "rows": rows}) + "\n")
        out.write("{\"device\": \"Test GPU <1>\", \"rows\": [\n")
    found = page("--from=parts.json", "--history=runs,new.json")
    check("1.000 ms" in found.row("gemm") and "2.000 ms" in found.row("copy") and len(found.rows) == 3, found.rows)
    # Nothing to compare with.
    found = page("--from=new.json")
    check("History" not in found.text and "25.0%" not in found.text, "no history")


def one_run():
    name = "gemm f32 512"
    kernels = "--kernels=%s/kernels" % sources
    found = page("--seconds=0", "--save=first.json", kernels, name)
    with open(os.path.join(folder.name, "first.json")) as text:
        saved = json.load(text)
    check(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", saved["date"]) and saved["version"], "date and version are saved")
    check(any(r["rate_of"] == "operations" and r["median_seconds"] > 0 for r in saved["rows"]), "saved rows")
    check(name in found.row(name) and "FLOPS" in found.row(name), found.row(name))
    done = bench("--seconds=0", "--json", "--save=second.json", kernels, name)
    with open(os.path.join(folder.name, "second.json")) as text:
        check(done.returncode == 0 and done.stdout == text.read() and json.loads(done.stdout)["rows"], "--json with --save prints what it saves")
    saved["date"] = "2026-01-01 00:00:00"
    with open(os.path.join(folder.name, "first.json"), "w") as out:
        json.dump(saved, out)
    found = page("--seconds=0", "--history=first.json", kernels, name)
    check("1 earlier run on this device" in found.text and "<figure>" in found.text, "beside the first")


def refusals():
    for arguments, says in (
            (["--history=runs"], "of --html"), (["--html=p.html", "--list"], "nothing else"), (["--html=p.html", "--from=gone.json"], "cannot read"),
            (["--html=p.html", "--from=runs/strange.json"], "no saved run"), (["--html=gone/p.html", "--from=new.json"], "cannot write"),
            (["--html=p.html", "--json"], "--save")):
        done = bench(*arguments)
        check(done.returncode == 2 and says in done.stderr, "%s: %d %s" % (arguments, done.returncode, done.stderr))


saved_runs()
one_run()
refusals()
print("%d passed, %d failed" % (passed, failed))
sys.exit(failed > 0)
