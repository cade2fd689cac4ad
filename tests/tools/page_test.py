#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`kiln explain --html` and `kiln layout`: the texts alone, then the pages in a headless browser, in light and dark, wide and narrow.

usage: page_test.py KILN-COMMAND SOURCES
The browser is Chromium (or $CHROMIUM); without it that part skips. Pictures are compared with what a formula says is to be
seen, so that fonts do not matter: the colour at a corner of each cell.
"""
import html.parser
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

from browser import Chromium, find_chromium

ODD = """// <script>alert("&amp;")</script> \u00e4 \x01
kernel odd<type T = f32, int BN = 64>(in T X[N], out T Y[N])
{
    require(N < 1 << 20, "N < 2^20 & 'more' </pre>");
    grid (n : ceildiv(N, BN));
    fragment f32 x[BN] = X[n*BN +: BN];                                                                 // a long comment that ends far away
    forall (i : BN) x[i] = x[i] < 0 ? 0 : x[i];
    Y[n*BN +: BN] = x;
}
"""
PAGES = {  # name: arguments of `kiln explain`; {} is the folder of the test
    "gemm": "--arch=90 --measured=200us kernels/gemm/gemm.tile gemm_nt M=4096 N=4096 K=4096",
    "operator": "--arch=80 --profile={}/trace.json kernels/gemm/split_k.tile",
    "odd": "--arch=90 {}/odd.tile odd",
    "cpu": "{}/odd.tile odd",
}
def span(role, warp, depth, kind, begin, end, what=None, line=0, part=1):
    return dict(role=role, part=part, cta=3, warp=warp, depth=depth, kind=kind, what=what or kind, file="gemm/split_k.tile" if line else None,
                line=line, begin=begin, end=end)


TRACE = {"kernel": "a <launch>", "device": "nothing", "unit": "cycles", "unit_seconds": 5e-10, "lost": 2, "spans": [
    span("producer", 0, 0, "role", 0, 100), span("producer", 0, 1, "step", 10, 40), span("producer", 0, 2, "empty", 20, 30, "empty slot of x", 7),
    span("producer", 0, 1, "step", 40, 90), span("consumers", 4, 0, "role", 0, 200), span("consumers", 4, 1, "full", 0, 150, "full slot of x", 9)]}
PARTS = {"source", "timeline", "barriers", "roles", "tiles", "memory", "code", "roofline"}
passed = failed = 0


def check(ok, what):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print("FAIL:", what)


def run(*arguments, status=0):
    done = subprocess.run([kiln, *arguments], cwd=sources, capture_output=True)
    check(done.returncode == status, f"{' '.join(arguments)} ended with {done.returncode}: {done.stderr.decode()}")
    return done.stdout.decode() if status == 0 else done.stderr.decode()


# ---- layouts

# The manual's figure of an accumulator of m64: lane, warp and value of an element.
def accumulator(row, column):
    return row % 8 * 4 + column % 8 // 2, row // 16 % 4, column % 2 + row % 16 // 8 * 2 + column // 8 * 4


def swizzled(row, piece):
    return row * 128 + (piece ^ row % 8) * 16


def check_layouts():
    svg = "{http://www.w3.org/2000/svg}"
    titles = [t.text for t in xml.etree.ElementTree.fromstring(run("layout", "--svg", "f32[64][16] accumulator", "--rows=64")).iter(svg + "title")]
    for row in range(64):
        for column in range(16):
            lane, warp, value = accumulator(row, column)
            said = titles[1 + row * 16 + column]
            check(said == f"element [{row}][{column}]: lane {lane}, warp {warp}, group 0, value {value} (register {value})", said)
    table = run("layout", "bf16[64][64] swizzle 128", "--row=1", "--rows=8").splitlines()
    check(table[0] == "bf16[64][64], panels of 64 columns, swizzle 128", table[0])
    for row, line in enumerate(table[3:], 1):
        cells = [int(x) for x in line.split()[1::2]]
        check(cells == [swizzled(row, piece) for piece in range(8)], f"row {row} of a swizzle: {line}")
    check("t0:0      t1:0" in run("layout", "f32[100] blocked 4"), "a vector")
    again = "f32[16][8]: register 2 x d1+1 2 x d0+8; lane 4 x d1+2 8 x d0+1"
    check(run("layout", again).splitlines()[0] == again, "a layout in modes comes back as it was given")
    for text, why in {"": "which layout?", "f32[8][8]": "no layout", "f32[63][64] accumulator": "rows of 16", "u4[8][8] rows": "less than a byte",
                      "bf16[64][63] swizzle 128": "not a multiple of the swizzle", "f32[8][8] lumpy": "unknown words", "8 rows": "no extents",
                      "foo[8][8] rows": "no element type", "f32[8][8] rows apart": "unknown words", "f32[8][8] rows 99999999999 bytes apart": "unknown words",
                      "bf16[64][64] swizzle 128, panels of 0 columns": "unknown words", "f32[99999999][9] rows": "extents are numbers", "f32[16][16]: lane 4 x d0+1": "without a thread"}.items():
        said = run("layout", *[text][:bool(text)], status=2)
        check(why in said, f"layout '{text}' says '{said}', and not '{why}'")


# ---- texts of pages

class Reader(html.parser.HTMLParser):
    """Checks that tags match; collects ids, what links lead to, and all text outside of styles and scripts."""
    VOID = {"meta"}

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.text, self.wrong = [], [], [], [], []
        self.feed(text)
        self.close()
        self.wrong += ["open at the end: " + tag for tag in self.open]

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if "href" in given else []
        self.wrong += [f"{tag} has {name}" for name in given if name in ("src", "srcset", "xlink:href") or name.startswith("on")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append("does not match: </" + tag + ">")

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.text.append(data)


def check_text(name, text):
    page = Reader(text)
    check(not page.wrong, f"{name}: {page.wrong[:3]}")
    check(len(page.ids) == len(set(page.ids)), f"{name}: an id is there twice")
    check(all(link[:1] == "#" and link[1:] in page.ids for link in page.links), f"{name}: a link leads nowhere, or out of the page")
    check(not re.search(r"url\(|@import|https?://(?!www\.w3\.org)", text[text.index("<style>"):text.index("</style>")]), f"{name}: a style fetches")
    return page


# Each group of warps, and each slot, does one thing after the other; slots are filled in turn, and held until they are filled again.
def check_timeline(page):
    text = "".join(page.text)
    spans = re.findall(r"(ring a b, slot \d|tensor cores|consumers, group \d|producer): ([^\n]*?), step (\d+): (\d+) to (\d+) cycles", text)
    lanes = {}
    for lane, what, step, begin, end in spans:
        lanes.setdefault(lane, []).append((what, int(step), int(begin), int(end)))
    for lane, done in lanes.items():
        check(all(a[3] <= b[2] + 1 for a, b in zip(done, done[1:])), f"{lane} does two things at once: {done}")
    for slot in range(4):
        done = [(what[:5], step) for what, step, _, _ in lanes[f"ring a b, slot {slot}"]]
        wanted = [(what, step) for step in range(slot, 6, 4) for what in ("being", "full,")]
        check(done == wanted, f"slot {slot}: {done}")
    check(sorted(step for _, step, _, _ in lanes["tensor cores"]) == sorted([*range(6), *range(6)]), "two products in each step")


# Each moment of a track is the innermost span's; the second kernel alone was traced.
def check_trace(page):
    text = "".join(page.text)
    pieces = re.findall(r"(\w+), warp (\d): ([^\n]*): (\d+) to (\d+) cycles(, line \d)?", text)
    wanted = [("producer", "0", "outside of steps", 0, 10, ""), ("producer", "0", "computes, copies or issues, step 0", 10, 20, ""),
              ("producer", "0", "empty slot of x, step 0", 20, 30, ", line 7"), ("producer", "0", "computes, copies or issues, step 0", 30, 40, ""),
              ("producer", "0", "computes, copies or issues, step 1", 40, 90, ""), ("producer", "0", "outside of steps", 90, 100, ""),
              ("consumers", "4", "full slot of x", 0, 150, ", line 9"), ("consumers", "4", "outside of steps", 150, 200, "")]
    check([(*p[:3], int(p[3]), int(p[4]), p[5]) for p in pieces] == wanted, f"pieces of a trace: {pieces}")
    check(re.findall(r"([\d.]+)%", text[text.index("Measured: what each role"):])[:4] == ["10.0", "90.0", "75.0", "25.0"], "shares of a trace")
    check("a <launch> on nothing, by kiln profile; 1000 cycles are 0.5 us; 2 records found no room" in text, "what was measured")
    check(text.count("Measured: block 3") == 1 and "#step2-s0l9" in page.links, "where a trace is, and where its lines lead")


def check_no_traces(folder, arguments):
    wrong = {"is not what": "{}", "cannot read": None, "more kernels": json.dumps(dict(TRACE, spans=[span("x", 0, 0, "role", 0, 1, part=2)])),
             "is not what 'kiln profile --json'": json.dumps(dict(TRACE, spans=[span("x", 0, 0, "role", 2, 1)]))}
    for words, text in wrong.items():
        file = folder / ("none.json" if text is None else "wrong.json")
        if text is not None:
            file.write_text(text)
        said = run("explain", "--html", f"--profile={file}", *arguments, status=2)
        check(words in said, f"--profile of {text} says '{said}'")
    check("goes with --html" in run("explain", f"--profile={folder}/trace.json", *arguments, status=2), "--profile without --html")


def check_texts(folder):
    (folder / "odd.tile").write_text(ODD)
    (folder / "trace.json").write_text(json.dumps(TRACE))
    pages = {}
    for name, arguments in PAGES.items():
        file = folder / (name + ".html")
        run("explain", f"--html={file}", *arguments.format(folder).split())
        pages[name] = check_text(name, file.read_text())
    arguments = PAGES["odd"].format(folder).split()
    check(run("explain", "--html", *arguments) == (folder / "odd.html").read_text(), "a page is the same on standard output, and each time")
    check(PARTS <= set(pages["gemm"].ids), "the page of a GPU's kernel has all parts")
    check({"step1-source", "step2-timeline"} <= set(pages["operator"].ids), "the page of an operator has its steps")
    check("source" in pages["cpu"].ids and "timeline" not in pages["cpu"].ids, "the page of a CPU's kernel has no timeline")
    check_timeline(pages["gemm"])
    check_trace(pages["operator"])
    check_no_traces(folder, arguments)
    gemm = "".join(pages["gemm"].text)
    for words in ("acc: 128 registers of each thread", "swizzle 128, ring a b", "producer: TMA, 16384 bytes", "consumers: m64n256k16 bf16, in flight",
                  "a b is full", "1 pass through the banks, where rows one after another would take 8", "137 Gop in products", "200 us",
                  "Shared memory: 229456 of 232448 bytes", "kiln explain --html --arch=90"):
        check(words in gemm, f"gemm: '{words}' is not on the page")
    check('// <script>alert("&amp;")</script> \u00e4 \ufffd' in "".join(pages["odd"].text), "odd: the source is on the page as it is")
    check("takes a time" in run("explain", "--html", "--measured=fast", *arguments, status=2), "a time that is none")
    check("--html is a page of one kernel" in run("explain", "--html", "--notes", str(folder), status=2), "--html with --notes")
    check("cannot write" in run("explain", f"--html={folder}/none/x.html", *arguments, status=1), "a folder that is not there")


# ---- in a browser

# What is wrong to the eye: [] if nothing is.
AUDIT = r"""(() => {
    const wrong = [], say = (what, of) => { if (wrong.length < 5) wrong.push(what + ': ' + (of.textContent || of.className).trim().slice(0, 60)); };
    const box = e => e.getBoundingClientRect();
    const rgb = text => text.match(/[\d.]+/g).map(Number);
    const light = text => { const c = rgb(text).slice(0, 3).map(x => x / 255).map(x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
        return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]; };
    const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
    const ground = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\)|transparent/.test(c)) return c; } };
    const legible = (e, ink, paper) => { if (contrast(ink, paper) < 4.5) say('contrast ' + contrast(ink, paper).toFixed(1), e); };
    if (document.documentElement.scrollWidth > innerWidth) say('the page is wider than the window', document.querySelector('h1'));
    for (const e of document.querySelectorAll('body *:not(script):not(style)')) {
        if (e.closest('svg') || e.id === 'said' || !box(e).width) continue;
        if ([...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) legible(e, getComputedStyle(e).color, ground(e));
        if (!e.closest('.scroll, pre') && box(e).right > innerWidth) say('beyond the window', e);
    }
    for (const line of document.querySelectorAll('.line')) {
        const [number, code, decided] = [...line.children].map(box);
        if (!number.width) continue;
        if (number.right > code.left || (decided.width && decided.top < code.bottom - 1 && code.right > decided.left)) say('a line overlaps', line);
    }
    for (const svg of document.querySelectorAll('svg')) {
        const all = box(svg), places = [];
        for (const text of svg.querySelectorAll('text')) {
            const t = box(text), cell = text.parentElement.querySelector(':scope > rect'), room = cell ? box(cell) : all;
            if (t.left < room.left - 0.5 || t.right > room.right + 0.5 || t.top < room.top - 3 || t.bottom > room.bottom + 3) say('text beyond its cell', text);
            legible(text, getComputedStyle(text).fill, cell ? getComputedStyle(cell).fill : ground(svg));
            places.push([t, text]);
        }
        for (const cell of svg.querySelectorAll('g > rect')) {
            const c = box(cell);
            if (c.left < all.left - 1 || c.right > all.right + 1 || c.bottom > all.bottom + 1) say('a cell beyond its drawing', cell.parentElement);
            places.push([c, cell]);
        }
        places.sort((a, b) => a[0].left - b[0].left);
        places.forEach(([a, e], i) => {
            for (let j = i + 1; j < places.length && places[j][0].left < a.right - 1.2; j++) {
                const [b, f] = places[j];
                if (e.parentElement === f.parentElement && e.parentElement.tagName === 'g') continue;
                const slack = e.tagName === 'rect' && f.tagName === 'rect' ? 1.2 : 3.5;
                if (a.top < b.bottom - slack && b.top < a.bottom - slack) say('overlaps ' + (f.parentElement.textContent || '').trim().slice(0, 40), e.parentElement);
            }
        });
    }
    return wrong;
})()"""
# Each cell of a drawing: a point near its lower right corner, and the colour it has; of those that are wide enough.
CELLS = r"""(selector => { const svg = document.querySelector(selector), s = svg.getBoundingClientRect();
    return { clip: [Math.floor(s.left + scrollX), Math.floor(s.top + scrollY), Math.ceil(s.width), Math.ceil(s.height)], cells:
        [...svg.querySelectorAll('g > rect')].map(r => [r.getBoundingClientRect(), getComputedStyle(r).fill]).filter(([b]) => b.width > 8)
        .map(([b, fill]) => [Math.floor(b.right - 3 - Math.floor(s.left)), Math.floor(b.bottom - 3 - Math.floor(s.top)), fill]) }; })"""


def painted(browser, name, selector):
    """The colours of a drawing's cells, which are those that its style says: nothing lies over them."""
    drawn = browser.evaluate(f"{CELLS}({selector!r})")
    picture = browser.picture(drawn["clip"])
    colours = [picture.at(x, y) for x, y, _ in drawn["cells"]]
    for (_, _, fill), colour in zip(drawn["cells"], colours):
        wanted = [round(float(x)) for x in re.findall(r"[\d.]+", fill)][:3]
        check(max(abs(a - b) for a, b in zip(wanted, colour)) <= 3, f"{name}: {selector} shows {colour}, where {fill} should be")
    check(len(colours) > 3, f"{name}: {selector} has cells")
    return colours


# Each colour as the letter of the order in which it comes.
def letters(colours):
    order = list(dict.fromkeys(colours))
    return "".join(chr(97 + order.index(c)) for c in colours)


def check_pointer(browser):
    browser.open(address["gemm"])
    browser.shape(1280, 900, False)
    said = "document.getElementById('said').hidden ? '' : document.getElementById('said').textContent"
    figure = "[...document.querySelectorAll('figure.grid')].find(f => !f.dataset.shared)"
    rows = "%s.querySelector('.window').firstChild.textContent.trim()" % figure
    check(browser.evaluate(said) == "", "nothing is said before something is pointed at")
    browser.evaluate(f"{figure}.querySelector('svg.layout').scrollIntoView({{block: 'center'}})")
    x, y = browser.evaluate(f"(b => [b.left + b.width / 2, b.top + b.height / 2])({figure}.querySelectorAll('svg.layout g')[18].getBoundingClientRect())")
    lane, warp, value = accumulator(1, 2)
    for at, words in ((x, f"element [1][2]: lane {lane}, warp {warp}, group 0, value {value} (register {value})"), (2, "")):
        browser.point(at, y)
        check(browser.evaluate(said) == words, f"the pointer at {at}, {y}: '{browser.evaluate(said)}' and not '{words}'")
    browser.evaluate(f"{figure}.querySelector('.scroll').focus()")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft"):
        browser.key(key)
    check(browser.evaluate(said).startswith("element [1][1]: "), f"arrow keys lead to '{browser.evaluate(said)}'")
    check(browser.evaluate(rows) == "rows 0 to 15 of 128, columns 0 to 15 of 256", browser.evaluate(rows))
    browser.evaluate(f"{figure}.querySelector('button[aria-label=\"rows after\"]').click()")
    lane, warp, value = accumulator(16, 0)
    title = browser.evaluate(f"{figure}.querySelector('svg.layout g title').textContent")
    check(title == f"element [16][0]: lane {lane}, warp {warp}, group 0, value {value} (register {value})", f"the next rows begin with '{title}'")
    check(browser.evaluate(rows) == "rows 16 to 31 of 128, columns 0 to 15 of 256", browser.evaluate(rows))


def check_pictures(browser):
    for dark in (False, True):
        browser.shape(1280, 900, dark)
        seen = letters(painted(browser, "gemm", "figure[data-shared] svg.layout"))
        check(seen == "".join(chr(97 + (piece ^ row)) for row in range(8) for piece in range(8)), f"a swizzle looks like {seen}")
        ground = browser.picture((0, 0, 4, 4)).at(1, 1)
        check((sum(ground) < 150) == dark, f"the page is {ground}")
    painted(browser, "gemm", "svg.map")
    painted(browser, "gemm", "svg.timeline")


def check_pages(browser):
    looks = [(1280, False), (800, True), (1280, True), (800, False)]
    for name in PAGES:
        browser.open(address[name] + "#check")
        state = browser.evaluate("document.documentElement.dataset.error || document.documentElement.dataset.script")
        check(state == "ready", f"{name}: {state}")
        for width, dark in looks[:4 if name == "gemm" else 2]:
            browser.shape(width, 900, dark)
            wrong = browser.evaluate(AUDIT)
            check(not wrong, f"{name}, {width} wide, {'dark' if dark else 'light'}: {wrong}")


def look(folder):
    address.update({name: f"file://{folder}/{name}.html" for name in PAGES})
    browser = Chromium(find_chromium())
    try:
        check_pages(browser)
        check_pointer(browser)
        check_pictures(browser)
    finally:
        browser.close()


kiln, sources = os.path.abspath(sys.argv[1]), sys.argv[2]
address = {}
signal.alarm(300)  # a browser that hangs
os.environ["KILN_PATH"] = ""
check_layouts()
with tempfile.TemporaryDirectory() as made:
    check_texts(pathlib.Path(made))
    if find_chromium():
        look(pathlib.Path(made))
    else:
        print("skipped: the pages are not looked at: there is no Chromium ('sh scripts/setup.sh test' installs it)")
print(f"{passed} of {passed + failed} checks passed")
sys.exit(failed > 0)
