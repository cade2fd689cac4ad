#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""cost.py - what the cost model (src/lower/gpu/cost) expects, beside what was measured.

usage: cost.py measure CASES >MEASURED     on a machine with a GPU: times each line "FILE KERNEL NAME=VALUE..." of CASES
       cost.py compare MEASURED [WORST]    anywhere: estimates the same launches, prints the errors and their distribution

$KILN is the command (build/kiln). The rates in src/target/gpu/machine.c are fitted so that the errors are small: change a
rate, build, compare again.
"""
import json
import math
import os
import re
import subprocess
import sys

KILN = os.environ.get("KILN", "build/kiln")


def measure(cases):
    for line in open(cases):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        command = [KILN, "run", "--device=cuda:0", "--no-check", "--seconds=0", "--json"] + words
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=25, stdin=subprocess.DEVNULL)
            result = json.loads(done.stdout)
        except (subprocess.TimeoutExpired, ValueError):
            print("not timed: " + line.strip(), file=sys.stderr)
            continue
        print(json.dumps({"file": words[0], "case": result["case"], "device": result["device"],
                          "seconds": result["median_seconds"]}), flush=True)


def values_of(case):
    """gemm<T=bf16, BM=64>(M=4, N=5): its build parameters as arguments of the command, its launch as an option."""
    name, build, launch = re.match(r"([^<(]*)(?:<(.*?)>)?(?:\((.*)\))?$", case).groups()
    integers = [v for v in (launch or "").split(", ") if re.match(r"\w+=-?\d+$", v)]
    return ["--at=" + ",".join(integers)], [name] + (build.split(", ") if build else [])


def estimate(file, case, device):
    card = next((name for name in ("H200", "H100", "A100") if name in device), "H200")
    options, arguments = values_of(case)
    command = [KILN, "explain", "--arch=90", "--cost", "--card=" + card] + options + [file] + arguments
    text = subprocess.run(command, capture_output=True, text=True).stdout
    seconds, bounds = 0, []
    for time, unit, bound in re.findall(r"expected: .*: ([0-9.]+) (us|ms), bound by (.*)", text):
        seconds += float(time) * (1e-6 if unit == "us" else 1e-3)
        bounds.append(bound)
    return seconds, ", ".join(bounds)


def compare(measured, worst):
    rows = []
    for line in open(measured):
        row = json.loads(line)
        seconds, bound = estimate(row["file"], row["case"], row["device"])
        if seconds > 0:
            rows.append((seconds / row["seconds"], row, seconds, bound))
        else:
            print("no estimate: " + row["case"])
    rows.sort(key=lambda r: -abs(math.log(r[0])))
    print("expected/measured  measured us  expected us  bound by, case")
    for ratio, row, seconds, bound in rows[:worst]:
        print(f"{ratio:17.2f}  {1e6 * row['seconds']:11.1f}  {1e6 * seconds:11.1f}  {bound}: {row['case'][:110]}")
    errors = sorted(max(r[0], 1 / r[0]) for r in rows)
    for factor in (1.25, 1.5, 2, 3):
        print(f"within {factor}: {sum(e <= factor for e in errors)} of {len(errors)}")
    if errors:
        print(f"median error {errors[len(errors) // 2]:.2f}, largest {errors[-1]:.2f}")


if __name__ == "__main__":
    if len(sys.argv) >= 3 and sys.argv[1] == "measure":
        measure(sys.argv[2])
    elif len(sys.argv) >= 3 and sys.argv[1] == "compare":
        compare(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1000)
    else:
        sys.exit(__doc__)
