# SPDX-License-Identifier: MIT
"""Calls that differ from an earlier one in nothing but addresses.

The first call of an operator's function with tensors of given shapes, strides, types and device, and with given options, runs as
it stands there, and is kept if it made one call of the library and nothing else: the C struct with all that it points to, which
argument or new output each tensor of it is, and what was returned. Later calls like it put the addresses in and go on. Functions
that are made warm have no other effect than that call, and look at no values in tensors.

Only PyTorch's own tensors, all of different memory, on the framework's current stream; all else goes the long way. What is kept is a
thread's own, so that no two calls share a struct. So are workspaces, one for each stream, which calls use one after another; a call
that is captured in a graph gets its own.

Shapes, strides and types of tensors are looked at in one call of the library (kiln_dlpack_agree) where PyTorch has DLPack's exchange
API: the last call with the same options is compared. What differs is looked up by a key of all.
"""
from __future__ import annotations

import ctypes
import functools
import operator
import threading
from ctypes import addressof, c_char_p, c_int, c_int64, c_size_t, c_void_p, py_object
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, TypeVar, cast

from . import _calls
from ._library import MAX_RANK, check, error_of, lib
from ._tensor import WORKSPACE_ALIGNMENT, current_stream, know_torch, plain_types, tensor_types

F = TypeVar("F", bound=Callable[..., Any])

_KEPT_MAX = 1024                                # of a thread; then it begins anew
_FEW = 16                                       # tensors of a call that are kept; more are rare
_MEMORY_MAX = 1 << 26                           # bytes of a workspace that stays


class _Thread(threading.local):
    def __init__(self) -> None:
        self.kept: Dict[Any, Optional["_Kept"]] = {}
        self.last: Dict[Any, "_Kept"] = {}      # by options: the call that was made last
        self.memory: Dict[Any, Tuple[int, int, Any]] = {}   # by device and stream: a workspace's address, bytes, owner


thread = _Thread()
plan_types: List[Any] = []                      # whose objects have a struct that calls point to, `pointer`


class _Place(ctypes.Structure):
    _fields_ = [("address", c_void_p), ("seen", c_int64 * (2 + 2 * MAX_RANK))]


class _Places(ctypes.Structure):
    _fields_ = [("api", c_void_p), ("item", c_void_p), ("places", c_void_p), ("n", c_int64)]


_agree = ctypes.PyDLL(None, handle=lib._handle).kiln_dlpack_agree           # it keeps the interpreter's lock
_agree.restype, _agree.argtypes = c_int, [c_void_p, py_object]
_item = ctypes.cast(ctypes.pythonapi.PyTuple_GetItem, c_void_p).value
_apis: List[int] = []                           # PyTorch's exchange API; 0: it has none


def _api(torch: Any) -> int:
    if not _apis:
        capsule, get = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None), ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = c_void_p, [py_object, c_char_p]
        try:
            _apis.append(get(capsule, b"dlpack_exchange_api") or 0)
        except (TypeError, ValueError):
            _apis.append(0)
    return _apis[0]


def _never(at: int, tensors: Any) -> int:
    return 0


class _Kept:
    """A call, ready to be made again."""

    __slots__ = ("call", "taken", "made", "results", "is_tuple", "torch", "device", "place", "index", "sized", "pointer", "handle",
                 "agree", "places", "at", "address", "bytes", "run")

    call: Any
    taken: List[Tuple[Any, int]]                # structs of tensors, and which argument each is
    made: List[Tuple[Any, Any, int]]            # of new outputs: struct, one of one element that it is like, or the argument that is
    results: List[Any]                          # numbers of new outputs, -1 - those of arguments
    is_tuple: bool
    torch: Any
    device: str
    place: Any                                  # the same for PyTorch
    index: int                                  # of a CUDA device; -1: the host
    sized: int                                  # bytes of workspace
    pointer: Any                                # to the struct
    handle: int
    agree: Any                                  # compares a tuple of tensors with places, which `at` points to, and puts addresses in
    places: Any
    at: int
    address: int                                # of the workspace in the struct, of `bytes`
    bytes: int
    run: Callable[[Sequence[Any], Any], Any]

    def put(self, tensors: Sequence[Any]) -> None:
        for struct, i in self.taken:
            struct.data = tensors[i].data_ptr()

    def compare_by(self, tensors: Sequence[Any]) -> None:
        """How later calls are compared with this one."""
        self.agree, self.at, n, api = _never, 0, len(tensors), _api(self.torch)
        if not api or len(self.taken) != n:
            return
        each = (_Place * n)()
        for struct, i in self.taken:
            each[i].address = addressof(struct)             # of its first field
        self.places = _Places(api, _item, addressof(each), n), each
        self.at = addressof(self.places[0])
        try:
            if _agree(self.at, tuple(tensors)) == 1:
                self.agree = _agree
        except Exception:                       # none of the types that it knows
            pass

    def runner(self) -> Callable[[Sequence[Any], Any], Any]:
        """What makes the call with the addresses of arguments put in: a function whose own names are quicker than attributes."""
        call, made, is_tuple, handle, pointer, index = self.call, self.made, self.is_tuple, self.handle, self.pointer, self.index
        function, struct, has_workspace, sized, device = call.function, call.args, call.size is not None, self.sized, self.device
        framework, first, is_plain = call.first.framework, self.results[0], self.results == list(range(len(made)))
        empty_like, results = self.torch.empty_like, self.results

        def run(tensors: Sequence[Any], plan: Any) -> Any:
            new: List[Any] = []
            for to, template, like in made:
                x = empty_like(template if like < 0 else tensors[like])
                to.data = x.data_ptr()
                new.append(x)
            n = sized
            if plan is not None:
                struct.plan = plan.pointer
                n = self.size_with(plan)
            queue = current_stream(framework, device, index) if index >= 0 else None
            owner = self.workspace(n, queue) if has_workspace and n else None
            status = function(handle, queue, pointer)
            del owner                           # of memory that was in use until here
            if status:
                raise error_of(status)
            if not is_tuple:
                return new[first] if first >= 0 else tensors[-1 - first]
            if is_plain:
                return tuple(new)
            return tuple([None if at is None else new[at] if at >= 0 else tensors[-1 - at] for at in results])
        return run

    def size_with(self, plan: Any) -> int:
        """Bytes of workspace, which depend on the plan's partitions."""
        n = plan.sizes.get(self)
        if n is None and self.call.size is not None:
            wanted = c_size_t()
            check(self.call.size(self.handle, self.pointer, ctypes.byref(wanted)))
            n = plan.sizes[self] = wanted.value
        return n or 0

    def workspace(self, n: int, queue: Any) -> Any:
        """Puts a workspace of n bytes in; its owner."""
        is_kept = n <= _MEMORY_MAX and (self.index < 0 or not self.torch.cuda.is_current_stream_capturing())
        known = thread.memory.get((self.index, queue)) if is_kept else None
        if known is None or known[1] < n:
            owner = self.torch.empty(n + WORKSPACE_ALIGNMENT, dtype=self.torch.uint8, device=self.place)
            address = owner.data_ptr()
            known = address + -address % WORKSPACE_ALIGNMENT, n, owner
            if is_kept:
                thread.memory[self.index, queue] = known
        if known[0] != self.address or n != self.bytes:
            self.call.args.workspace = self.address = known[0]
            self.call.args.workspace_bytes = self.bytes = n
        return known[2]


def _place_of(x: Any, made: Dict[int, Tuple[str, Any]], order: List[str], tensors: Sequence[Any]) -> Optional[int]:
    """A result's number among the new outputs, or -1 - that of an argument."""
    found = made.get(x.data_ptr())
    if found is not None:
        given = found[1]
        return order.index(found[0]) if x.is_contiguous() and x.dtype is given.dtype and x.numel() == given.numel() else None
    for i, t in enumerate(tensors):
        if t is x:
            return -1 - i
    return None


def _like(x: Any, tensors: Sequence[Any]) -> int:
    """The argument that an output is like in all: -1: none."""
    for i, t in enumerate(tensors):
        if t.shape == x.shape and t.dtype is x.dtype and t.is_contiguous() and x.is_contiguous():
            return i
    return -1


def _keep(calls: List[Any], tensors: Sequence[Any], result: Any) -> Optional[_Kept]:
    """What is needed to make the call again; None: it is more than a call."""
    if len(calls) != 1 or calls[0] is None or len(tensors) > _FEW:
        return None
    call: Any = calls[0]
    places = {t.data_ptr(): i for i, t in enumerate(tensors)}
    if len(places) != len(tensors) or 0 in places:
        return None
    made = {x.data_ptr(): (field, x) for field, x in call.made.items()}
    if 0 in made or len(made) != len(call.made) or not all(type(x) in tensor_types for _, x in made.values()):
        return None
    results = result if type(result) is tuple else (result,)
    if not all(x is None or type(x) in tensor_types for x in results):
        return None
    order = list(call.made)
    kept = _Kept()
    kept.results = [None if x is None else _place_of(x, made, order, tensors) for x in results]
    if any(at is None and x is not None for at, x in zip(kept.results, results)) or results == (None,):
        return None
    shapes = {at: x.shape for at, x in zip(kept.results, results) if at is not None and at >= 0}
    structs: Dict[str, Any] = {}
    kept.taken = []
    for field, tensor in call.tensors.items():
        if field in call.made:
            structs[field] = tensor.struct
        elif tensor.data_ptr in places:
            kept.taken.append((tensor.struct, places[tensor.data_ptr]))
        else:
            return None                         # of memory that the function made
    if len({i for _, i in kept.taken}) != len(tensors):
        return None                             # one is no tensor of the call: its value counts
    kept.made = []
    for i, field in enumerate(order):
        x = call.made[field]
        shape = shapes.get(i, x.shape)
        like = _like(x, tensors) if tuple(shape) == tuple(x.shape) else -1
        template = call.first.framework.torch.empty((), dtype=x.dtype, device=x.device).expand(shape)       # new ones are contiguous
        kept.made.append((structs[field], template, like))
    first = call.first
    kept.call, kept.is_tuple, kept.device, kept.place = call, type(result) is tuple, first.device, tensors[0].device
    kept.torch, kept.sized = first.framework.torch, int(call.args.workspace_bytes or 0) if call.size is not None else 0
    kept.index = -1 if first.device == "cpu" else int(first.device[5:])
    kept.pointer, kept.handle, kept.address, kept.bytes = ctypes.pointer(call.args), _calls.handle_of(first.device), 0, 0
    kept.compare_by(tensors)
    call.keep = [x for x in call.keep if not hasattr(x, "data_ptr")]        # a workspace goes
    call.made, call.tensors, first.owner = {}, {}, None          # and nobody's tensors stay
    if kept.index >= 0 and first.framework.raw_stream is None:
        return None
    kept.run = kept.runner()
    return kept


class _Layout:
    """What the arguments of a call are by their types: which are tensors, a plan, options."""

    __slots__ = ("is_warm", "tensors", "options", "plan")

    def __init__(self, kinds: Sequence[Any]):
        at: Dict[str, List[int]] = {"tensor": [], "plan": [], "option": []}
        for i, kind in enumerate(kinds):
            name = "tensor" if kind in tensor_types else "plan" if kind in plan_types else "option"
            at[name].append(i)
        # Not another framework's arrays, nor what has tensors in it.
        self.is_warm = len(at["plan"]) < 2 and all(kinds[i] in plain_types for i in at["option"])
        self.tensors, self.options = _getter(at["tensor"]), _getter(at["option"])
        self.plan = at["plan"][0] if at["plan"] else -1


def _getter(at: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    if len(at) > 1:
        return operator.itemgetter(*at)
    return (lambda values: (values[at[0]],)) if at else (lambda values: ())


_layouts: Dict[Any, _Layout] = {}               # by function, types, and names of named arguments


def warm(function: F) -> F:
    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        mine = thread
        if _calls.recorder.recorded is not None or not (tensor_types or know_torch()):
            return function(*args, **named)
        values = (*args, *named.values()) if named else args
        kinds = (function, *map(type, values), *named)
        layout = _layouts.get(kinds)
        if layout is None:
            layout = _layouts.setdefault(kinds, _Layout(kinds[1:1 + len(values)]))
        if not layout.is_warm:
            return function(*args, **named)
        tensors, plan = layout.tensors(values), values[layout.plan] if layout.plan >= 0 else None
        key = (layout, _calls._checks, layout.options(values))
        last = mine.last.get(key)
        if last is not None:
            try:
                agrees = last.agree(last.at, tensors) == 1
            except Exception:                   # a tensor that PyTorch does not export
                agrees = False
            if agrees:
                return last.run(tensors, plan)
        full = key + tuple([part for x in tensors for part in (x.shape, x.stride(), x.dtype, x.device)])
        if full not in mine.kept:
            recorded: List[Any] = []
            _calls.recorder.recorded = recorded
            try:
                result = function(*args, **named)
            finally:
                _calls.recorder.recorded = None
            if len(mine.kept) >= _KEPT_MAX:
                mine.kept.clear()
                mine.last.clear()
            made = mine.kept[full] = _keep(recorded, tensors, result) if tensors else None
            if made is not None:
                mine.last[key] = made
            return result
        kept = mine.kept[full]
        if kept is None:
            return function(*args, **named)
        mine.last[key] = kept
        kept.put(tensors)
        return kept.run(tensors, plan)
    return cast(F, call)
