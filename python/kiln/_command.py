# SPDX-License-Identifier: MIT
"""The command's `test`, `run`, `tune`, `explain` and `bench` as functions: they run it and give back what it says.

A file is named by a path, as imports name those of the library ("norm/softmax.tile"), or is a `Program` of a file.
"""
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from html import escape
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from ._library import Error
from ._program import Program, _value_text, kernels_folders

File = Union[str, os.PathLike, Program]


def find_command() -> str:
    """The command's file: in the package, or in the source tree; beside the library that $KILN_LIBRARY names, if it names one."""
    package = os.path.dirname(os.path.abspath(__file__))
    places = [os.path.join(package, "native", "bin", "kiln"), os.path.join(package, "..", "..", "build", "kiln")]
    if os.environ.get("KILN_LIBRARY"):
        places.insert(0, os.path.join(os.path.dirname(os.environ["KILN_LIBRARY"]), "kiln"))
    for place in places:
        if os.access(place, os.X_OK) and os.path.isfile(place):
            return os.path.abspath(place)
    raise Error("not found", "the command is not there: install the wheel, or build the source tree with 'make'")


def _path_of(file: File) -> str:
    path = file.path if isinstance(file, Program) else os.fspath(file)
    if os.path.exists(path) or os.path.isabs(path):
        return path
    for folder in kernels_folders():
        if os.path.exists(os.path.join(folder, path)):
            return os.path.join(folder, path)
    return path


# ---- what the command says on terminals as it works, "timing 3 of 10: BM=64", in the output of a notebook's cell

_CLEAR = "\r\x1b[K"                             # what begins a line of progress, and ends the last one


def _is_notebook() -> bool:
    return hasattr(getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)(), "kernel")


def _bar() -> Callable[[str], None]:
    """What shows a text with a bar of its numbers, in place of the one before."""
    from IPython.display import HTML, display
    shown = display(HTML(""), display_id=True)

    def show(text: str) -> None:
        found = re.search(r"(\d+) of (\d+)", text)
        bar = '<progress value="%s" max="%s"></progress> ' % found.groups() if found else ""
        shown.update(HTML("<div>%s%s</div>" % (bar, escape(text)) if text else ""))
    return show


def _run_shown(command: Sequence[str], show: Callable[[str], None]) -> Tuple[int, str, str]:
    """The command on a terminal of its own: status, output, and what it said after its last line of progress."""
    terminal, its_end = os.openpty()
    said, shown = "", 0.0
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as out:
        with subprocess.Popen(command, stdout=out, stderr=its_end, env=dict(os.environ, TERM="xterm", NO_COLOR="1")) as child:
            os.close(its_end)
            try:
                while True:
                    said = (said + os.read(terminal, 4096).decode("utf-8", "replace")).rpartition(_CLEAR)[2]
                    if time.monotonic() - shown > 0.1:
                        show(said.strip().rpartition("\n")[2])
                        shown = time.monotonic()
            except OSError:                     # the end: nobody has the terminal any more
                pass
            except BaseException:
                child.kill()
                raise
            finally:
                os.close(terminal)
                show("")
        out.seek(0)
        return child.returncode, out.read(), said.replace("\r\n", "\n")


def _run(arguments: Sequence[str], in_notebook: bool = False, on_terminal: bool = False, failures: Tuple[int, ...] = ()) -> str:
    """What the command prints; where it shows how far it is. Error: it ended with something else than 0 or one of `failures`."""
    command = [find_command(), *arguments]
    if in_notebook and _is_notebook():
        status, out, errors = _run_shown(command, _bar())
    else:
        stderr = None if on_terminal and sys.stderr.isatty() else subprocess.PIPE
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, text=True, encoding="utf-8", errors="replace")
        status, out, errors = done.returncode, done.stdout, done.stderr
    if status != 0 and status not in failures:
        text = (errors or out or "").strip()
        text = text[len("kiln: "):] if text.startswith("kiln: ") else text
        raise Error("command failed", text or "kiln %s ended with %d" % (arguments[0], status))
    return out


def _options(**options: Any) -> List[str]:
    named = {name: value for name, value in options.items() if value is not None and value is not False}
    return ["--%s" % name.replace("_", "-") if value is True else "--%s=%s" % (name.replace("_", "-"), value)
            for name, value in named.items()]


def _values(values: Dict[str, Any]) -> List[str]:
    return ["%s=%s" % (name, _value_text(value)) for name, value in values.items()]


def test(*files: File, device: Optional[str] = None, filter: Optional[str] = None, check: bool = False, quick: bool = False,
         arch: Optional[int] = None, compile_only: bool = False) -> Dict[str, Any]:
    """Runs all checks of files or folders, as `kiln test` does.

    device    "cpu" (None), "cuda:0"; filter: cases whose name contains it; quick: few cases of each kernel
    check     with every access to a tile looked at; compile_only: for `arch`, without running

    Returns {"device", "cases": [{"file", "case", "outcome", "correct", "seconds", ...}], "passed", "failed", "skipped"}; a case
    that fails does not raise. Error: a file cannot be read or has mistakes.
    """
    options = _options(device=device, filter=filter, check=check, quick=quick, arch=arch, compile_only=compile_only)
    return json.loads(_run(["test", "--json", *options, *map(_path_of, files)], True, failures=(1,)))


def run(file: File, kernel: Optional[str] = None, *, device: Optional[str] = None, seconds: Optional[int] = None,
        no_check: bool = False, tuned: Optional[Union[str, os.PathLike]] = None, **values: Any) -> Dict[str, Any]:
    """Builds a kernel, compares it with its reference and times it, as `kiln run` does.

    values    build parameters, shapes and scalars, M=4096, T="bf16"; others are those of the kernel's largest check
    Returns {"device", "case", "correct", "median_seconds", "runs", "operations", "bytes", ...}.
    Error: it does not build, or its result is wrong.
    """
    options = _options(device=device, seconds=seconds, no_check=no_check, tuned=os.fspath(tuned) if tuned else None)
    return json.loads(_run(["run", "--json", *options, _path_of(file), *([kernel] if kernel else []), *_values(values)]))


def tune(file: File, kernel: Optional[str] = None, *, device: Optional[str] = None, seconds: Optional[int] = None,
         tries: Optional[int] = None, output: Optional[Union[str, os.PathLike]] = None, **values: Any) -> Dict[str, Any]:
    """Finds the build values with which a kernel is the fastest for a launch, as `kiln tune` does.

    seconds   no further candidate is started after that; tries: at most so many are timed
    output    a file for the result, to be taken by `load(...).kernel(..., tuned=output)`
    values    of the launch, and of build parameters that are fixed
    Returns {"kernel", "target", "device", "given", "launch", "tuned": "BM=64, BN=128", "seconds", "default_seconds", "timed"}.
    Error: nothing could be timed, or a result is wrong.
    """
    options = _options(device=device, seconds=seconds, tries=tries, output=os.fspath(output) if output else None)
    return json.loads(_run(["tune", "--json", *options, _path_of(file), *([kernel] if kernel else []), *_values(values)], True, True))


def explain(file: File, kernel: Optional[str] = None, *, device: Optional[str] = None, arch: Optional[int] = None,
            isa: Optional[str] = None, check: bool = False, cost: bool = False, html: bool = False, **values: Any) -> str:
    """What the compiler decided for a kernel, and what each line is expected to cost, as `kiln explain` says it: a text.

    arch      90 or 80: for that GPU, which need not be there; cost: only the cost model
    html      a page with drawings instead, for a browser or `IPython.display.HTML`
    """
    options = _options(device=device, arch=arch, isa=isa, check=check, cost=cost, html=html)
    return _run(["explain", *options, _path_of(file), *([kernel] if kernel else []), *_values(values)])


def bench(*names: str, device: Optional[str] = None, seconds: Optional[int] = None, beside: Optional[str] = None) -> Dict[str, Any]:
    """Times kernels of the library at sizes that show their limit, as `kiln bench` does; of names only rows that contain one.

    beside: a command that times other implementations of the same rows. Returns the object of `kiln bench --json`.
    """
    return json.loads(_run(["bench", "--json", *_options(device=device, seconds=seconds, beside=beside), *names], True, True))
