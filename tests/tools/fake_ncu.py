#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""fake_ncu.py - stands in for Nsight Compute's command in tests: runs what it is given, and prints pages in ncu's form.

Which launches there are, and how many instructions, is said by $FAKE_NCU: JSON, a list of {"kernel", "instructions"}. Each instruction is
executed 10 times; instruction i of a launch has i % 7 samples. $FAKE_NCU_FAIL: what to print instead, with status 1.
"""
import csv
import json
import os
import subprocess
import sys

arguments = sys.argv[1:]
out = csv.writer(sys.stdout, quoting=csv.QUOTE_ALL, lineterminator="\n")
if os.environ.get("FAKE_NCU_FAIL"):
    print("==PROF== Connected to process 1\n" + os.environ["FAKE_NCU_FAIL"])
    sys.exit(1)
if "--import" not in arguments:
    report = arguments[arguments.index("-o") + 1]
    command = arguments[next(i for i, a in enumerate(arguments) if a.startswith("/") and a != report):]
    print("==PROF== Connected to process 1")
    status = subprocess.run(command).returncode
    with open(report + ".ncu-rep", "w") as text:
        text.write(os.environ["FAKE_NCU"])
    print("==PROF== Disconnected from process 1")
    sys.exit(status)

with open(arguments[arguments.index("--import") + 1]) as text:
    launches = json.load(text)
if arguments[arguments.index("--page") + 1] == "raw":
    names = ["gpu__time_duration.sum", "sm__throughput.avg.pct_of_peak_sustained_elapsed", "dram__bytes_read.sum", "lts__t_sector_hit_rate.pct"]
    out.writerow(["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Block Size", *names])
    out.writerow(["", "", "", "", "", "", "ns", "%", "byte", "%"])
    for i, launch in enumerate(launches):
        out.writerow([i, 1, "kiln", "127.0.0.1", launch["kernel"], "(384, 1, 1)", "12,345", "71.5", "2000000", "n/a"])
else:
    head = ["#", "Address", "Source", "Warp Stall Sampling (All Samples)", "Warp Stall Sampling (Not-issued Samples)", "# Samples",
            "Instructions Executed", "L2 Theoretical Sectors Global", "L1 Wavefronts Shared", "L1 Wavefronts Shared Ideal", "stall_gmma",
            "stall_wait", "stall_wait (Not Issued)"]
    for launch in launches:
        out.writerow(["Kernel Name", launch["kernel"]])
        out.writerow(head)
        for i in range(launch["instructions"]):
            n = i % 7
            out.writerow([i + 1, hex(0x7f00 + 16 * i), '@P0 SASS "%d", R1' % i, n, 0, n, 10, 2, 5, 4, n - n // 2, n // 2, n])
