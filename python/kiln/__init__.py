# SPDX-License-Identifier: MIT
"""Kiln from Python: tile kernels on the tensors of any framework.

    import kiln

    softmax = kiln.load("norm/softmax.tile").kernel("softmax", T="f32")
    y = softmax(x)                                  # x: of PyTorch, NumPy, CuPy, JAX ...; y is allocated as x was

    scale = kiln.kernel('''kernel scale(in f32 X[N], out f32 Y[N], f32 a) { ... }''')
    scale(x, y, a=2.5)

`kiln.ops` has the library's operators as functions. docs/python.md is the guide. All of it may be called from several threads
at once; no call holds Python's lock while Kiln works.
"""
from __future__ import annotations

from typing import Any as _Any

from ._library import Error, check as _check, lib as _lib, open_device as _open_device, version as __version__
from ._program import Kernel, Parameter, Program, kernel, load
from ._tensor import Tensor, _native_stream, empty, tensor, wrap_stream as _wrap_stream
from . import ops
from ._command import bench, explain, run, test, tune

__all__ = ["Error", "Kernel", "Parameter", "Program", "Tensor", "bench", "describe", "device_count", "empty", "explain", "kernel",
           "load", "ops", "run", "set_threads", "tensor", "test", "tune", "wait"]


def device_count(kind: str) -> int:
    """How many devices of a kind there are: "cpu" (1), "cuda" (0 without a driver)."""
    return _lib.kiln_device_count(kind.encode())


def describe(device: str = "cpu") -> str:
    """What a device is: "NVIDIA H200, sm_90, 132 SMs". Error: there is no such device."""
    return _lib.kiln_device_describe(_open_device(device)).decode()


def wait(device: str, stream: _Any = None) -> None:
    """Waits until all work on a stream is done; None: the default stream.

    Error: what went wrong in that work, with its place in the source: an `assert`, or a violation in a build with `check`
    ("trapped"), or the driver's ("device failed"). After that this process can use that GPU no more.
    """
    _check(_lib.kiln_stream_wait(_open_device(device), _wrap_stream(device, 0 if stream is None else _native_stream(stream))))


def set_threads(threads: int) -> None:
    """The number of threads that this process uses for CPU kernels; 0: $KILN_THREADS, else as many as the machine has."""
    _lib.kiln_set_threads(threads)
