# SPDX-License-Identifier: MIT
"""Programs of tile kernels, their kernels, and calls of these."""
from __future__ import annotations

import ctypes
import difflib
import operator
import os
import re
import struct
import threading
from ctypes import addressof, c_char_p, c_int64, c_size_t, c_void_p
from typing import Any, Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from ._library import (FLOAT, INT, MAX_RANK, NATIVE, NONE, PACKAGE, TENSOR, TYPE_NAMES, Error, ParameterStruct, ProgramOptions,
                       build_options, check, error_of, lib, open_device)
from ._tensor import _NAMES, Tensor, as_tensor, know_torch, stream_for, streams_of, tensor_types, workspace


class Parameter(NamedTuple):
    """One parameter of a built kernel, as its source declares it and the build has bound it."""

    name: str
    kind: str                                   # "tensor", "integer" (or bool), "float"; "none": bound when built, no argument
    type: str                                   # "bf16", "i32" ... of the elements, or of the scalar
    rank: int                                   # of a tensor, else 0
    reads: bool                                 # `in` and scalars read; `out` writes; `inout` does both
    writes: bool
    optional: bool                              # may be None
    strided: bool                               # takes tensors with strides


_KINDS = {NONE: "none", TENSOR: "tensor", INT: "integer", FLOAT: "float"}
_SCALARS = (int, float, bool, type(None))
_LAUNCHES_MAX = 256                             # of a kernel that a thread keeps; then it begins anew


def _is_scalar(x: Any) -> bool:
    if type(x) in _SCALARS:
        return True
    if getattr(x, "shape", None) == () and type(x).__module__ == "numpy" and not hasattr(x, "ctypes"):
        return True                             # a number of NumPy's
    return isinstance(x, (int, float))


def _value_text(value: Any) -> str:
    """A value of a binding as Kiln writes it: bf16, 128, true, none, 0.5."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    name = str(getattr(value, "name", value)).rpartition(".")[2]        # torch.bfloat16, numpy.dtype("float16")
    if name not in _NAMES:
        name = getattr(value, "__name__", "")                           # numpy.float16
    if name not in _NAMES:
        raise TypeError("kiln: %r is no value of a binding: expected a type, a number, a bool or None" % (value,))
    return _NAMES[name]


class _Built:
    """A kernel for one device and one choice of absent tensors."""

    def __init__(self, kernel: "Kernel", device: Optional[str], bindings: str):
        made = c_void_p()
        options = build_options(kernel._check, kernel._arch, kernel._isa, kernel._tuned, kernel._tuned_for)
        self.handle = None
        check(lib.kiln_kernel_build(open_device(device) if device else None, kernel.program._handle, kernel.name.encode(),
                                    bindings.encode(), options, ctypes.byref(made)))
        self.handle = made.value
        self.is_operator = lib.kiln_kernel_source(self.handle) is None
        self.parameters = tuple(self._parameter(i) for i in range(lib.kiln_kernel_parameters(self.handle)))
        self.names = [p.name for p in self.parameters]
        self.args_type = c_int64 * (2 * len(self.names))
        self.writes = [p.writes for p in self.parameters]

    def _parameter(self, index: int) -> Parameter:
        p = ParameterStruct(ctypes.sizeof(ParameterStruct))
        check(lib.kiln_kernel_parameter(self.handle, index, p))
        return Parameter(p.name.decode(), _KINDS[p.kind], TYPE_NAMES[p.type], p.rank, p.reads, p.writes, p.optional, p.strided)

    def __del__(self, lib: Any = lib) -> None:  # which is gone from the module when the interpreter ends
        if getattr(self, "handle", None):
            lib.kiln_kernel_free(self.handle)


class _Launches(threading.local):
    """A thread's launches of a kernel, by shapes, strides, types and device of their tensors."""

    def __init__(self) -> None:
        self.kept: Dict[Any, "_Launch"] = {}


class _Launch:
    """A launch on tensors of PyTorch: later ones like it differ in addresses and scalars alone."""

    __slots__ = ("built", "words", "structs", "scalars", "first", "index")

    def __init__(self, built: _Built, values: List[Any], first: Tensor):
        words: List[int] = []
        for i, x in enumerate(values):
            words += _number(x, built.parameters[i], "") if type(x) is not Tensor else (TENSOR, addressof(x.struct))
        self.built, self.words, self.first = built, built.args_type(*words), first
        self.structs = [(x.struct, i) for i, x in enumerate(values) if type(x) is Tensor]
        self.scalars = [(i, built.parameters[i]) for i, x in enumerate(values) if type(x) is not Tensor]
        self.index = -1 if first.device == "cpu" else int(first.device[5:])
        for x in values:
            if type(x) is Tensor:
                x.owner = None                  # whose memory it was

    def run(self, name: str, args: Sequence[Any]) -> None:
        words, first, n = self.words, self.first, len(args)
        for struct, i in self.structs:
            struct.data = args[i].data_ptr()
        for i, parameter in self.scalars:
            words[2 * i], words[2 * i + 1] = _number(args[i], parameter, name)
        queue = streams_of(first.device)[first.framework.raw_stream(self.index)] if self.index >= 0 else None
        address, n_bytes, owner = None, 0, None
        if self.built.is_operator:
            wanted = c_size_t()
            check(lib.kiln_workspace_size(self.built.handle, words, n, ctypes.byref(wanted)))
            address, n_bytes, owner = workspace(first.framework, wanted.value, first.device)
        status = lib.kiln_launch_with(self.built.handle, queue, words, n, address, n_bytes)
        if status:
            raise error_of(status)
        del owner


def _likeness(args: Sequence[Any]) -> Optional[Tuple[Any, ...]]:
    """What launches with these arguments have in common; None: they are not all tensors of PyTorch and numbers."""
    parts: List[Any] = []
    for x in args:
        kind = type(x)
        if kind in tensor_types:
            parts += x.shape, x.stride(), x.dtype, x.device
        elif kind is int or kind is float or kind is bool:
            parts.append(kind)
        else:
            return None
    return tuple(parts)


class Kernel:
    """A kernel or operator of a program, with its build parameters. Calling it runs it; it is built at the first call on a
    device (about a second, or milliseconds from the cache of earlier runs) and kept.

    `kernel(*args, stream=None, **named)` takes arguments in the order of the source, or by name. Tensors are anything that
    `kiln.tensor` takes, all on one device; scalars are numbers; None stands for an absent optional tensor. What the source
    calls `out` may be left out: it is allocated by the framework of the first tensor, in the shape that the others ask for,
    and returned - one tensor, or a tuple of several. The call queues work on `stream`, else on the current stream of the
    framework (PyTorch, CuPy), else on the default stream, and does not wait for it; on the CPU it is done when it returns.
    No gradient is recorded.

    Raises `kiln.Error` if a shape, type, device, alignment or requirement does not hold (nothing is started then), if the
    kernel cannot be built, or if it traps; TypeError for arguments that it does not have or that are missing.
    """

    def __init__(self, program: "Program", name: str, bindings: str, device: Optional[str], check: bool, arch: int,
                 isa: Optional[str], tuned: Optional[str], tuned_for: Optional[str]):
        self.program = program
        self.name = name
        self.bindings = bindings                # "T=bf16, BM=128"
        self._device, self._check, self._arch, self._isa = device, check, arch, isa
        self._tuned, self._tuned_for = tuned, tuned_for
        self._built: Dict[Tuple[Optional[str], FrozenSet[str]], _Built] = {}
        self._lock = threading.Lock()
        self._launches = _Launches()

    def __repr__(self) -> str:
        return "kiln.Kernel(%s%s)" % (self.name, "<%s>" % self.bindings if self.bindings else "")

    def _get(self, device: Optional[str], absent: FrozenSet[str] = frozenset()) -> _Built:
        built = self._built.get((device, absent))
        if built is None:
            with self._lock:
                built = self._built.get((device, absent))
                if built is None:
                    bindings = ", ".join([self.bindings] * bool(self.bindings) + ["%s=none" % name for name in sorted(absent)])
                    built = self._built[device, absent] = _Built(self, device, bindings)
        return built

    def build(self, device: Optional[str] = None) -> "Kernel":
        """Builds it now, for "cpu" or "cuda:0" (None: the device that it was made for, else the CPU), and returns it."""
        self._get(self._where(device))
        return self

    def _where(self, device: Optional[str] = None) -> Optional[str]:
        return device or self._device or (None if self._arch else "cpu")

    @property
    def parameters(self) -> Tuple[Parameter, ...]:
        """Its parameters in the order of arguments. Builds it, unless some device has it."""
        for built in list(self._built.values()):
            return built.parameters
        return self._get(self._where()).parameters

    def source(self, device: Optional[str] = None) -> Optional[str]:
        """The C or CUDA C that was emitted for it; None for an operator, which has several kernels."""
        text = lib.kiln_kernel_source(self._get(self._where(device)).handle)
        return None if text is None else text.decode()

    # ---- calls

    def __call__(self, *args: Any, stream: Any = None, **named: Any) -> Any:
        like = _likeness(args) if not named and stream is None and know_torch() else None
        if like is not None:
            kept = self._launches.kept.get(like)
            if kept is not None:
                return kept.run(self.name, args)
        values = [x if type(x) in _SCALARS or _is_scalar(x) else as_tensor(x) for x in args]
        for name, x in named.items():
            named[name] = x if _is_scalar(x) else as_tensor(x)
        first = next((x for x in values + list(named.values()) if type(x) is Tensor), None)
        device = first.device if first is not None else self._where()
        absent = frozenset(name for name, x in named.items() if x is None) if named else frozenset()
        built = self._get(device, absent)
        if None in values:
            more = [p.name for p, x in zip(built.parameters, values) if x is None and p.kind == "tensor" and p.optional]
            if more:
                built = self._get(device, absent.union(more))
        if named or len(values) != len(built.names):
            values, like = _in_order(self.name, built, values, named), None
        result = self._launch(built, values, first, device, stream)
        if like is not None and first is not None and (device == "cpu" or first.framework.raw_stream):
            if len(self._launches.kept) >= _LAUNCHES_MAX:
                self._launches.kept.clear()
            self._launches.kept[like] = _Launch(built, values, first)
        return result

    def _launch(self, built: _Built, values: List[Any], first: Optional[Tensor], device: Optional[str], stream: Any) -> Any:
        words: List[int] = []
        results: List[Any] = []
        for i, x in enumerate(values):
            if type(x) is Tensor:
                if x.read_only and built.writes[i]:
                    raise Error("bad argument", "%s: '%s' is written, but its memory may only be read"
                                % (self.name, built.names[i]))
                words += TENSOR, addressof(x.struct)
            elif x is None or x is _MISSING:
                words += NONE, 0
            else:
                words += _number(x, built.parameters[i], self.name)
        n, args = len(values), built.args_type(*words)
        if _MISSING in values:
            values = list(values)               # which holds what was made
            for i in [i for i, x in enumerate(values) if x is _MISSING]:
                results.append(_allocate(built, args, i, first))
                values[i] = as_tensor(results[-1])
            for i, x in enumerate(values):
                if type(x) is Tensor:
                    args[2 * i:2 * i + 2] = [TENSOR, addressof(x.struct)]
        queue = stream_for(device, first.framework, stream) if first is not None and device != "cpu" else None
        address, n_bytes, owner = None, 0, None
        if built.is_operator and first is not None:
            wanted = c_size_t()
            check(lib.kiln_workspace_size(built.handle, args, n, ctypes.byref(wanted)))
            address, n_bytes, owner = workspace(first.framework, wanted.value, first.device, stream)
        status = lib.kiln_launch_with(built.handle, queue, args, n, address, n_bytes)
        if status:
            raise error_of(status)
        del owner                               # only now: its memory is reused after the work that is queued
        return None if not results else results[0] if len(results) == 1 else tuple(results)


class _Missing:
    pass


_MISSING = _Missing()


def _in_order(name: str, built: _Built, values: List[Any], named: Mapping[str, Any]) -> List[Any]:
    """All arguments in the order of the parameters; outputs that are left out are _MISSING, what was bound is None."""
    def says() -> str:
        return "%s(%s)" % (name, ", ".join(built.names))
    if len(values) > len(built.names):
        raise TypeError("%s: %d arguments given, expected %d: %s" % (name, len(values), len(built.names), says()))
    for given in named:
        if given not in built.names:
            raise TypeError("%s: there is no parameter '%s': %s" % (name, given, says()))
        if given in built.names[:len(values)]:
            raise TypeError("%s: '%s' is given twice: %s" % (name, given, says()))
    values = list(values)
    for p in built.parameters[len(values):]:
        if p.name in named:
            values.append(named[p.name])
        elif p.kind == "none":
            values.append(None)
        elif p.kind == "tensor" and p.writes and not p.reads:
            values.append(_MISSING)
        else:
            raise TypeError("%s: '%s' is missing: %s" % (name, p.name, says()))
    return values


def _number(x: Any, parameter: Parameter, kernel: str) -> Tuple[int, int]:
    """A scalar as the words of a kiln_arg."""
    is_whole = hasattr(x, "__index__") or type(x).__name__ in ("bool_", "bool")
    if is_whole and parameter.kind != "float":
        value = operator.index(x) if hasattr(x, "__index__") else int(x)
        if not -2**63 <= value < 2**63:
            raise Error("bad argument", "%s: '%s' is %d, which %s cannot hold" % (kernel, parameter.name, value, parameter.type))
        return INT, value
    return FLOAT, struct.unpack("=q", struct.pack("=d", x))[0]


def _allocate(built: _Built, args: Any, i: int, first: Optional[Tensor]) -> Any:
    """An output that was left out, made by the framework of the first tensor."""
    parameter = built.parameters[i]
    if first is None:
        raise TypeError("%s is left out, but there is no other tensor to say where it should be" % parameter.name)
    shape = (c_int64 * MAX_RANK)()
    check(lib.kiln_kernel_extents(built.handle, args, len(built.names), i, shape))
    return first.framework.empty(tuple(shape[:parameter.rank]), parameter.type, first.device)


# ---- programs

class Program:
    """A `.tile` source with everything that it imports."""

    def __init__(self, path: str, text: Optional[str] = None, folders: Sequence[Union[str, os.PathLike]] = ()):
        made, self._handle = c_void_p(), None
        names = [os.fspath(folder).encode() for folder in folders]
        options = ProgramOptions((c_char_p * len(names))(*names), len(names))
        self.path = path
        check(lib.kiln_program_load(path.encode(), None if text is None else text.encode(), options, ctypes.byref(made)))
        self._handle = made.value

    def __repr__(self) -> str:
        return "kiln.Program(%r)" % self.path

    def __del__(self, lib: Any = lib) -> None:
        if getattr(self, "_handle", None):
            lib.kiln_program_free(self._handle)

    def kernel(self, name: str, bindings: str = "", /, *, device: Optional[str] = None, check: bool = False, arch: int = 0,
               isa: Optional[str] = None, tuned: Optional[Union[str, os.PathLike]] = None, tuned_for: Optional[str] = None,
               **values: Any) -> Kernel:
        """The kernel or operator `name`, to be called.

        bindings  what is fixed when it is built, as text, "T=bf16, BM=128, LSE=none, M=4096, Q=strided", or as keywords:
                  T="bf16" (or torch.bfloat16), BM=128, CAUSAL=True, LSE=None
        device    where it is built if no tensor says so: "cpu", "cuda:0"
        check     traps accesses outside tiles, reads of undefined tiles, false asserts: slower
        arch      90 or 80: GPU code for that architecture; with no device at hand it can be looked at, not called
        isa       the form of CPU code: "avx512", "avx2", "portable"; None: the best of this machine
        tuned     a file of `kiln tune`: values for build parameters that are not given; tuned_for: of its rows the one nearest
                  to these launch values, as "M=64, N=4096"

        Nothing is built yet, so mistakes in `name` and bindings are found by the first call, or by `.build()`.
        """
        texts = [bindings] * bool(bindings) + ["%s=%s" % (key, _value_text(value)) for key, value in values.items()]
        return Kernel(self, name, ", ".join(texts), device, check, arch, isa, os.fspath(tuned) if tuned else None, tuned_for)

    __getitem__ = kernel


def load(path: Union[str, os.PathLike], folders: Sequence[Union[str, os.PathLike]] = ()) -> Program:
    """The program of a file. A file of the library may be named as imports name it: `kiln.load("norm/softmax.tile")`.

    folders: searched for imports, after the file's own and before $KILN_PATH and the library's kernels.
    Error: the file cannot be read, or its source has mistakes (the message has the diagnostics).
    """
    name = os.fspath(path)
    if not os.path.exists(name) and not os.path.isabs(name):
        for folder in kernels_folders():
            if os.path.exists(os.path.join(folder, name)):
                name = os.path.join(folder, name)
                break
        else:
            raise Error("not found", "kiln.load: there is no file %s, here or in the library%s" % (name, _near_file(name)))
    return Program(name, None, folders)


def kernels_folders() -> List[str]:
    """Where the library's kernels lie: in the package, or in the source tree that holds it."""
    places = [os.path.join(NATIVE, "share", "kiln", "kernels"), os.path.join(PACKAGE, "..", "..", "kernels")]
    return [os.path.normpath(place) for place in places if os.path.isdir(place)]


def _near_file(name: str) -> str:
    """"; did you mean 'norm/softmax.tile'?", of the library's files, or nothing."""
    files = [os.path.relpath(os.path.join(where, file), folder) for folder in kernels_folders()
             for where, _, names in os.walk(folder) for file in names if file.endswith(".tile")]
    near = difflib.get_close_matches(name, files, 1)
    return "; did you mean '%s', of the library?" % near[0] if near else ""


_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"", re.S)
_HEADS = re.compile(r"(?:^|[;}\s])(kernel|operator)\s+([A-Za-z_]\w*)\s*[<(]")


def kernel(source: str, name: Optional[str] = None, bindings: str = "", /, *, folders: Sequence[Union[str, os.PathLike]] = (),
           device: Optional[str] = None, check: bool = False, arch: int = 0, isa: Optional[str] = None,
           tuned: Optional[Union[str, os.PathLike]] = None, tuned_for: Optional[str] = None, **values: Any) -> Kernel:
    """The kernel of a source text; `name` says which, if it has several. The rest is as for `Program.kernel`.

    Error: the source has mistakes (the message has the diagnostics). TypeError: it has several kernels, or none.
    """
    if name is None:
        names = [found[1] for found in _HEADS.findall(_COMMENTS.sub(" ", source))]
        if len(names) != 1:
            Program("inline.tile", source, folders)         # its mistakes come first
            raise TypeError("kiln.kernel: the source has %s: name one" % (", ".join(names) if names else "no kernel"))
        name = names[0]
    program = Program((name if name.isidentifier() else "inline") + ".tile", source, folders)
    return program.kernel(name, bindings, device=device, check=check, arch=arch, isa=isa, tuned=tuned, tuned_for=tuned_for,
                          **values)
