#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""profile_test.py - what `kiln profile` records: of traced kernels on the emulated device, and of the CPU's threads; what it makes of
Nsight Compute's counts, by fake_ncu.py; and which instructions `kiln dump --stage=lines` puts to which lines, by NVRTC.

usage: profile_test.py KILN-COMMAND SOURCE-FOLDER [EMULATED-GPU]

Spans nest, every role occurs, results stay right (--compare), and there are as many waits as the schedule says.
"""
import collections
import json
import os
import subprocess
import sys
import tempfile

kiln, sources = map(os.path.abspath, sys.argv[1:3])
folder = tempfile.TemporaryDirectory()
environment = dict(os.environ, KILN_CACHE=folder.name + "/cache", NO_COLOR="1", KILN_NCU="")
environment.pop("KILN_TEST_DEVICE", None)
emulated = dict(environment, KILN_CUDA=sys.argv[3], KILN_NVRTC=sys.argv[3]) if len(sys.argv) > 3 else None
passed = failed = 0


def check(holds, what):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    if not holds:
        print("FAIL:", what)


def run(arguments, where):
    return subprocess.run([kiln, "profile", *arguments], env=where, cwd=sources, capture_output=True, text=True, timeout=200)


def timeline(arguments, where):
    done = run(["--json", "--compare", *arguments], where)
    check(done.returncode == 0, "%s: %s" % (" ".join(arguments), done.stderr))
    return json.loads(done.stdout) if done.returncode == 0 else {"spans": [], "lost": 0, "kernel": ""}


def tracks_of(found):
    """The spans of each warp, by (part, cta, warp); wrong nesting is a failure."""
    tracks = collections.defaultdict(list)
    for span in found["spans"]:
        tracks[span["part"], span["cta"], span["warp"]].append(span)
    for spans in tracks.values():
        stack = []
        for span in spans:
            del stack[span["depth"]:]
            check(len(stack) == span["depth"] and span["begin"] <= span["end"], "depth of %s" % span)
            if stack:
                check(stack[-1]["begin"] <= span["begin"] and span["end"] <= stack[-1]["end"] and
                      stack[-1]["kind"] in ("role", "tile", "step", "thread"), "%s is not within %s" % (span, stack[-1]))
            stack.append(span)
    return tracks


def expect(found, role, ctas, warps, **counts):
    """So many warps have the role in each CTA, and each has so many spans of each kind."""
    tracks = [spans for spans in tracks_of(found).values() if spans[0]["role"] == role]
    check(len(tracks) == ctas * warps, "%s: %d tracks of %s" % (found["kernel"], len(tracks), role))
    for spans in tracks:
        n = collections.Counter(span["kind"] for span in spans)
        for kind, count in counts.items():
            check(n[kind] == count, "%s: %s: %d spans '%s', not %d" % (found["kernel"], role, n[kind], kind, count))


def line_of(text, path):
    with open(os.path.join(sources, path)) as lines:
        return 1 + [text in line for line in lines].index(True)


def traces():
    # 4 tiles on 4 CTAs, two of which are traced; ceil(320 / 64) steps, each of which fills a slot.
    gemm = ["--device=cuda:0", "kernels/gemm/quickstart.tile", "T=bf16", "M=256", "N=256", "K=320"]
    chrome = folder.name + "/chrome.json"
    found = timeline(["--chrome", chrome, *gemm], emulated)
    expect(found, "producer", 2, 1, tile=1, step=5, empty=5)
    expect(found, "consumers", 2, 8, tile=1, step=5, full=5, products=6)
    check({span["line"] for span in found["spans"] if span["kind"] == "products"} ==
          {line_of("acc += a @ b", gemm[1])}, "the line of products")
    check(found["lost"] == 0 and found["unit"] == "cycles" and found["unit_seconds"] > 0, "units")
    with open(chrome) as text:
        events = json.load(text)["traceEvents"]
    check(len([e for e in events if e["ph"] == "X"]) == len(found["spans"]), "as many events as spans")
    check({e["args"]["name"] for e in events if e["name"] == "process_name"} == {"CTA 0", "CTA 1"}, "processes")

    # On the page of what was decided.
    with open(folder.name + "/trace.json", "w") as text:
        json.dump(found, text)
    done = subprocess.run([kiln, "explain", "--html", "--arch=90", "--profile=%s/trace.json" % folder.name, *gemm[1:]], env=environment,
                          cwd=sources, capture_output=True, text=True, timeout=100)
    check(done.returncode == 0 and "Measured: block 1" in done.stdout and "consumers, warp 4: full slot of a b, step 4" in done.stdout and
          "consumers (16)" in done.stdout, "a trace on the page: %s" % done.stderr)

    found = timeline(["--steps=2", "--ctas=3", *gemm], emulated)
    expect(found, "producer", 1, 1, step=2)
    expect(found, "consumers", 1, 8, step=2, full=2)
    check({span["cta"] for span in found["spans"]} == {3}, "the chosen CTA")

    # Two roles of consumers that hand tiles to each other, and a pipeline whose first and last steps stand apart.
    found = timeline(["--device=cuda:0", "--ctas=0", "kernels/attention/forward.tile"], emulated)
    expect(found, "producer", 1, 1, tile=1)
    expect(found, "consumers", 1, 4, tile=1, step=7)
    # Copies by threads, without a producer.
    found = timeline(["--device=cuda:0", "--arch=80", "--ctas=0", *gemm[1:]], emulated)
    expect(found, "consumers", 1, 8, tile=1, copies=5)
    # An operator: each of its kernels.
    found = timeline(["--device=cuda:0", "--ctas=0", "kernels/gemm/split_k.tile"], emulated)
    check({span["part"] for span in found["spans"]} == {0, 1}, "parts of an operator")

    # More than there is room for is counted.
    found = timeline(["--device=cuda:0", "--ctas=0", "kernels/gemm/stream_k.tile", "gemm_stream_k", "T=f16", "BM=32", "BN=32", "BK=32",
                      "M=32", "N=32", "K=14400", "instances=1"], emulated)
    tracks = tracks_of(found)
    producer = [spans for spans in tracks.values() if spans[0]["role"] == "producer"]
    check(len(producer) == 1 and sum(s["kind"] == "step" for s in producer[0]) == 450, "all of the producer's steps")
    check(found["lost"] > 0, "lost records are counted")

    table = run(gemm, emulated).stdout
    check("producer: 2 warps" in table and "consumers: 16 warps" in table and "empty slot of a b" in table, table)
    check(run(["--ctas=0,x", *gemm], emulated).returncode == 2, "--ctas=0,x")
    check(run(["--ctas=0,1,2,3,4", *gemm], emulated).returncode == 2, "five CTAs")
    check("none of the blocks 9999" in run(["--ctas=9999", *gemm], emulated).stderr, "a block that is not there")


def counts():
    gemm = ["--device=cuda:0", "--ctas=0", "kernels/gemm/quickstart.tile", "T=bf16", "M=128", "N=128", "K=64"]
    fake = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_ncu.py")
    launches = json.dumps([{"kernel": "kiln_other(KernelParams)", "instructions": 3}])
    counting = dict(emulated, KILN_NCU=fake, FAKE_NCU=launches)
    done = run(["--json", *gemm], counting)
    found = json.loads(done.stdout)
    check(done.returncode == 0 and len(found["spans"]) > 9 and len(found["counts"]) == 1, done.stderr)
    check(found["counts"][0]["kernel"].startswith("kiln_other") and found["counts"][0]["metrics"]["gpu__time_duration.sum"] == 12345,
          found["counts"])
    done = run(gemm, counting)
    check("full slot of a b" in done.stdout and "kiln_other, by Nsight Compute: 12.35 us, compute 72% of peak, 2.0 MB read" in done.stdout,
          done.stdout + done.stderr)
    done = run(gemm, dict(counting, FAKE_NCU_FAIL="==ERROR== ERR_NVGPUCTRPERM - no permission"))
    check(done.returncode == 0 and "full slot of a b" in done.stdout and "ERR_NVGPUCTRPERM" in done.stderr, done.stderr)
    done = run(["--trace", *gemm], counting)
    check("Nsight" not in done.stdout, "--trace is without ncu")
    done = run(["--once", *gemm], emulated)
    check(done.returncode == 0 and done.stdout == "" and done.stderr == "", "--once says nothing: %s%s" % (done.stdout, done.stderr))


def lines():
    path = "kernels/gemm/quickstart.tile"
    done = subprocess.run([kiln, "dump", "--stage=lines", "--arch=90", path], env=environment, cwd=sources, capture_output=True, text=True,
                          timeout=100)
    if "NVRTC" in done.stderr and done.returncode == 1:
        print("skipped: instructions by line: %s" % done.stderr.strip())
        return 1
    head = done.stdout.split("\n")[0].split()
    found = {}
    for count, place in (line.split()[:2] for line in done.stdout.strip().split("\n")[2:]):
        found[place] = int(count)
    check(sum(found.values()) == int(head[1]), "all instructions: %s" % done.stdout)
    expected = ["quickstart.tile:%d" % line_of(text, path) for text in ("shared T a", "shared T b", "acc += a @ b", "max(acc", "C[m*BM")]
    check(set(expected) <= set(found) and sum(found[place] for place in expected) > 0.8 * int(head[1]), done.stdout)
    return 0


def instances():
    found = timeline(["kernels/gemm/quickstart.tile", "T=f32", "M=300", "N=200", "K=64"], environment)
    tracks_of(found)
    names = [span["what"] for span in found["spans"] if span["kind"] == "instance"]
    check(sorted(names) == sorted("instance %d" % i for i in range(6)), "an instance each: %s" % names)
    check(found["unit"] == "us", "unit of the CPU")
    table = run(["kernels/gemm/quickstart.tile", "T=f32", "M=300", "N=200", "K=64"], environment).stdout
    check("6 instances in " in table and "the slowest:" in table, table)
    check(run(["--trace", "kernels/gemm/quickstart.tile"], environment).returncode == 2, "--trace on the CPU")
    check(run(["--arch=90", "kernels/gemm/quickstart.tile"], environment).returncode == 2, "without a device")


def texts():
    def dump(*options):
        return subprocess.run([kiln, "dump", "--stage=source", "--arch=90", *options, "kernels/gemm/quickstart.tile"], env=environment,
                              cwd=sources, capture_output=True, text=True, timeout=60).stdout
    check("trace" not in dump() and "trace_mark" in dump("--trace"), "only a traced build has its statements")


instances()
texts()
skipped = lines()
if emulated:
    traces()
    counts()
else:
    print("skipped: there is no emulated device, so no traces")
print("%d passed, %d failed, %d skipped" % (passed, failed, skipped + (0 if emulated else 1)))
sys.exit(failed > 0)
