# SPDX-License-Identifier: MIT
"""Calls that differ from an earlier one in nothing but addresses.

The first call of an operator's function with tensors of given shapes, strides, types, device and alignment (to 16 bytes or not, by
which operators choose kernels and workspaces), and with given options, runs as it stands there, and is kept if it made one call of
the library and nothing else: the C struct with all that it points to, which argument or new output each tensor of it is, and what
was returned. Later calls like it put the addresses in and go on. Functions that are made warm have no other effect than that call,
and look at no values in tensors.

Only PyTorch's own tensors, all of different memory, on the framework's current stream; all else goes the long way. What is kept is
a thread's own, so that no two calls share a struct. So are workspaces, one for each stream, which calls use one after another; a
call that is captured in a graph gets its own.

Where PyTorch has DLPack's exchange API, one call of the library (kiln_dlpack_agree) compares all arguments with those of the last
call of the function: shapes, strides, types and alignment of tensors, and that what is no tensor is the very same object. Else the
last call with equal options is compared by its tensors alone; what differs from that is looked up by a key of all.
"""
from __future__ import annotations

import ctypes
import functools
import operator
import threading
import weakref
from ctypes import addressof, c_char_p, c_int, c_int64, c_size_t, c_void_p, py_object
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, TypeVar, cast

from . import _calls
from ._library import MAX_RANK, check, error_of, lib
from ._tensor import WORKSPACE_ALIGNMENT, _row_major, know_torch, plain_types, streams_of, tensor_types

F = TypeVar("F", bound=Callable[..., Any])

_KEPT_MAX = 1024                                # of a thread; then it begins anew
_FEW = 16                                       # tensors of a call that are kept; more are rare
_MEMORY_MAX = 1 << 26                           # bytes of a workspace that stays


class _Thread(threading.local):
    def __init__(self) -> None:
        self.kept: Dict[Any, Optional["_Kept"]] = {}
        self.last: Dict[Any, "_Kept"] = {}      # by options: the call that was made last
        self.latest: Dict[Any, Tuple] = {}      # by function: the call that was made last, as _Kept.latest has it
        self.memory: Dict[int, Dict[Any, Tuple[int, int, Any]]] = {}    # by device and stream: a workspace's address, bytes, owner


thread = _Thread()
plan_types: List[Any] = []                      # whose objects have a struct that calls point to, `pointer`


class _Place(ctypes.Structure):
    _fields_ = [("address", c_void_p), ("same", c_void_p), ("index", c_int64), ("seen", c_int64 * (2 + 2 * MAX_RANK))]


class _Places(ctypes.Structure):
    _fields_ = [("api", c_void_p), ("item", c_void_p), ("type_of", c_void_p), ("release", c_void_p), ("places", c_void_p),
                ("n", c_int64)]


_agree = ctypes.PyDLL(None, handle=lib._handle).kiln_dlpack_agree           # it keeps the interpreter's lock
_agree.restype, _agree.argtypes = c_int, [c_void_p, py_object]
_item, _type_of, _release = (ctypes.cast(f, c_void_p).value for f in (
    ctypes.pythonapi.PyTuple_GetItem, ctypes.pythonapi.PyObject_Type, ctypes.pythonapi.Py_DecRef))
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


def _allocator(torch: Any, index: int, place: Any) -> Callable[[Any, Any, Any], Any]:
    """Of new outputs, by shape, strides and type: what PyTorch's compiled code calls, past the dispatcher, where that is there."""
    def plain(shape: Any, strides: Any, dtype: Any) -> Any:
        return torch.empty(shape, dtype=dtype, device=place)
    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)        # private, so it may be gone
    quick = getattr(guards, "_empty_strided_cpu" if index < 0 else "_empty_strided_cuda", None)
    if quick is None or index < 0 or torch.cuda.device_count() == 1:
        return quick or plain
    device_of = torch.cuda.current_device       # whose memory it gives
    return lambda shape, strides, dtype: (quick if device_of() == index else plain)(shape, strides, dtype)


class _Kept:
    """A call, ready to be made again."""

    __slots__ = ("call", "taken", "made", "results", "is_tuple", "torch", "device", "place", "index", "sized", "pointer", "handle",
                 "layout", "names", "checks", "each", "tensors_at", "latest", "options", "plan", "memory", "address", "bytes",
                 "run")

    call: Any
    taken: List[Tuple[Any, int]]                # structs of tensors, and which argument each is
    made: List[Tuple[Any, Any, Any, Any]]       # of new outputs: struct, shape, strides, type
    results: List[Any]                          # numbers of new outputs, -1 - those of arguments
    is_tuple: bool
    torch: Any
    device: str
    place: Any                                  # the same for PyTorch
    index: int                                  # of a CUDA device; -1: the host
    sized: int                                  # bytes of workspace
    pointer: Any                                # to the struct
    handle: int
    layout: "_Layout"                           # of its arguments
    names: Tuple[str, ...]                      # of those that were named
    checks: bool
    each: Any                                   # places of all arguments: of those that are no tensors, then of tensors
    tensors_at: Any                             # places of tensors; None: they cannot be compared
    latest: Any                                 # number and names of arguments, checks, address of all places, run, what it needs
    options: List[Any]                          # the objects that the first places are of, held
    plan: Any                                   # a weak reference
    memory: Dict[Any, Tuple[int, int, Any]]     # the thread's workspaces of this device, by stream
    address: int                                # of the workspace in the struct, of `bytes`
    bytes: int
    run: Callable[[Sequence[Any]], Any]

    def put(self, values: Sequence[Any]) -> None:
        for struct, i in self.taken:
            struct.data = values[i].data_ptr()

    def compare_by(self, values: Sequence[Any]) -> None:
        """How later calls are compared with this one."""
        layout, n, api = self.layout, len(values), _api(self.torch)
        self.each, self.tensors_at, self.latest = (_Place * n)(), None, None
        self.options, self.plan = [_Kept] * len(layout.options_at), None
        others, structs = (*layout.options_at, *layout.plans_at), {i: struct for struct, i in self.taken}
        for place, i in zip(self.each, (*others, *layout.tensors_at)):
            place.index = i
            if i in structs:
                place.address = addressof(structs[i])       # of its first field
        if not api:
            return
        whole, tensors = (_Places(api, _item, _type_of, _release, addressof(self.each[skipped]), n - skipped)
                          for skipped in (0, len(others)))
        try:
            if _agree(addressof(tensors), values) == 1:
                self.tensors_at = tensors
                self.latest = n, self.names, self.checks, addressof(whole), self.run, (whole, self.each)
        except Exception:                       # none of the types that it knows
            pass

    def agrees(self, values: Sequence[Any]) -> bool:
        """Whether the tensors of a call do; their addresses are put in."""
        try:
            return self.tensors_at is not None and _agree(addressof(self.tensors_at), values) == 1
        except Exception:                       # a tensor that PyTorch does not export
            return False

    def renew(self, values: Sequence[Any]) -> None:
        """This call's options and plan are what the next one's are compared with."""
        layout, options = self.layout, self.options
        for k, i in enumerate(layout.options_at):
            x = values[i]
            if options[k] is not x:
                options[k], self.each[k].same = x, id(x)
        for i in layout.plans_at:
            plan = values[i]
            if self.plan is None or self.plan() is not plan:
                place = self.each[len(options)]
                self.plan = weakref.ref(plan, lambda _: setattr(place, "same", None))       # another may get its address
                place.same = id(plan)
                self.call.args.plan = plan.pointer
                self.sized = self.size_with(plan)

    def runner(self) -> Callable[[Sequence[Any]], Any]:
        """What makes the call with the addresses of arguments put in: a function whose own names are quicker than attributes."""
        call, made, handle, pointer, index = self.call, self.made, self.handle, self.pointer, self.index
        function, has_workspace, empty = call.function, call.size is not None, _allocator(self.torch, index, self.place)
        streams, raw_stream = streams_of(self.device), call.first.framework.raw_stream if index >= 0 else None
        is_one = len(made) == 1 and self.results == [0] and not self.is_tuple       # as most calls are, and quicker
        to, shape, strides, dtype = made[0] if is_one else (None, None, None, None)

        def run(values: Sequence[Any]) -> Any:
            if is_one:
                new = empty(shape, strides, dtype)
                to.data = new.data_ptr()
            else:
                new = []
                for struct, extents, steps, kind in made:
                    x = empty(extents, steps, kind)
                    struct.data = x.data_ptr()
                    new.append(x)
            queue = streams[raw_stream(index)] if raw_stream is not None else None
            owner = self.workspace(queue) if has_workspace and self.sized else None
            status = function(handle, queue, pointer)
            del owner                           # of memory that was in use until here
            if status:
                raise error_of(status)
            return new if is_one else finish(new, values)
        finish = self.finisher()
        return run

    def finisher(self) -> Callable[[Sequence[Any], Sequence[Any]], Any]:
        """What is returned, of new outputs and arguments."""
        results, is_tuple, first = self.results, self.is_tuple, self.results[0]
        if is_tuple and results == list(range(len(self.made))):
            return lambda new, values: tuple(new)

        def finish(new: Sequence[Any], values: Sequence[Any]) -> Any:
            if not is_tuple:
                return new[first] if first >= 0 else values[-1 - first]
            return tuple([None if at is None else new[at] if at >= 0 else values[-1 - at] for at in results])
        return finish

    def size_with(self, plan: Any) -> int:
        """Bytes of workspace, which depend on the plan's partitions."""
        n = plan.sizes.get(self)
        if n is None and self.call.size is not None:
            wanted = c_size_t()
            check(self.call.size(self.handle, self.pointer, ctypes.byref(wanted)))
            n = plan.sizes[self] = wanted.value
        return n or 0

    def workspace(self, queue: Any) -> Any:
        """Puts a workspace in; its owner. The default stream, None, is never captured."""
        n = self.sized
        is_kept = n <= _MEMORY_MAX and (queue is None or not self.torch.cuda.is_current_stream_capturing())
        known = self.memory.get(queue) if is_kept else None
        if known is None or known[1] < n:
            owner = self.torch.empty(n + WORKSPACE_ALIGNMENT, dtype=self.torch.uint8, device=self.place)
            address = owner.data_ptr()
            known = address + -address % WORKSPACE_ALIGNMENT, n, owner
            if is_kept:
                self.memory[queue] = known
        if known[0] != self.address or n != self.bytes:
            self.call.args.workspace = self.address = known[0]
            self.call.args.workspace_bytes = self.bytes = n
        return known[2]


def _place_of(x: Any, made: Dict[int, Tuple[str, Any]], order: List[str], values: Sequence[Any]) -> Optional[int]:
    """A result's number among the new outputs, or -1 - that of an argument."""
    found = made.get(x.data_ptr())
    if found is not None:
        given = found[1]
        return order.index(found[0]) if x.is_contiguous() and x.dtype is given.dtype and x.numel() == given.numel() else None
    for i, t in enumerate(values):
        if t is x:
            return -1 - i
    return None


def _keep(calls: List[Any], values: Sequence[Any], layout: "_Layout", names: Tuple[str, ...], result: Any) -> Optional[_Kept]:
    """What is needed to make the call again; None: it is more than a call."""
    if len(calls) != 1 or calls[0] is None or not 0 < len(layout.tensors_at) <= _FEW:
        return None
    call: Any = calls[0]
    places = {values[i].data_ptr(): i for i in layout.tensors_at}
    if len(places) != len(layout.tensors_at) or 0 in places:
        return None
    made = {x.data_ptr(): (field, x) for field, x in call.made.items()}
    if 0 in made or len(made) != len(call.made) or not all(type(x) in tensor_types for _, x in made.values()):
        return None
    results = result if type(result) is tuple else (result,)
    if not all(x is None or type(x) in tensor_types for x in results):
        return None
    order = list(call.made)
    kept = _Kept()
    kept.results = [None if x is None else _place_of(x, made, order, values) for x in results]
    if any(at is None and x is not None for at, x in zip(kept.results, results)) or results == (None,):
        return None
    kept.taken = [(t.struct, places.get(t.data_ptr, -1)) for field, t in call.tensors.items() if field not in call.made]
    if {i for _, i in kept.taken} != set(layout.tensors_at):
        return None                             # one is of memory that the function made, or none of the call: its value counts
    shapes = {at: tuple(x.shape) for at, x in zip(kept.results, results) if at is not None and at >= 0}
    kept.made = []
    for i, (field, x) in enumerate(call.made.items()):
        shape = shapes.get(i, tuple(x.shape))
        kept.made.append((call.tensors[field].struct, shape, _row_major(shape), x.dtype))
    kept.is_tuple = type(result) is tuple
    return _settle(kept, call, values, layout, names)


def _settle(kept: _Kept, call: Any, values: Sequence[Any], layout: "_Layout", names: Tuple[str, ...]) -> Optional[_Kept]:
    """The rest of what is kept of a call."""
    first = call.first
    kept.call, kept.device, kept.place = call, first.device, values[layout.tensors_at[0]].device
    kept.torch, kept.sized = first.framework.torch, int(call.args.workspace_bytes or 0) if call.size is not None else 0
    kept.index = -1 if first.device == "cpu" else int(first.device[5:])
    kept.pointer, kept.handle, kept.address, kept.bytes = ctypes.pointer(call.args), _calls.handle_of(first.device), 0, 0
    kept.layout, kept.names, kept.checks, kept.memory = layout, names, _calls._checks, thread.memory.setdefault(kept.index, {})
    call.keep = [x for x in call.keep if not hasattr(x, "data_ptr")]        # a workspace goes
    call.made, call.tensors, first.owner = {}, {}, None          # and nobody's tensors stay
    if kept.index >= 0 and first.framework.raw_stream is None:
        return None
    kept.run = kept.runner()
    kept.compare_by(values)
    return kept


class _Layout:
    """What the arguments of a call are by their types: which are tensors, a plan, options."""

    __slots__ = ("is_warm", "tensors_at", "options_at", "plans_at", "options")

    def __init__(self, kinds: Sequence[Any]):
        at: Dict[str, List[int]] = {"tensor": [], "plan": [], "option": []}
        for i, kind in enumerate(kinds):
            name = "tensor" if kind in tensor_types else "plan" if kind in plan_types else "option"
            at[name].append(i)
        self.tensors_at, self.options_at, self.plans_at = at["tensor"], at["option"], at["plan"]
        # Not another framework's arrays, nor what has tensors in it.
        self.is_warm = len(self.plans_at) < 2 and all(kinds[i] in plain_types for i in self.options_at)
        self.options = _getter(self.options_at)


def _getter(at: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    if len(at) > 1:
        return operator.itemgetter(*at)
    return (lambda values: (values[at[0]],)) if at else (lambda values: ())


_layouts: Dict[Any, _Layout] = {}               # by function, types, and names of named arguments


def _call_anew(function: Any, args: Tuple, named: Dict[str, Any], values: Tuple, names: Tuple[str, ...]) -> Any:
    """A call that differs from the last one of the function."""
    if _calls.recorder.recorded is not None or not (tensor_types or know_torch()):
        return function(*args, **named)
    mine, kinds = thread, (function, *map(type, values), *names)
    layout = _layouts.get(kinds)
    if layout is None:
        layout = _layouts.setdefault(kinds, _Layout(kinds[1:1 + len(values)]))
    if not layout.is_warm:
        return function(*args, **named)
    key = (layout, _calls._checks, layout.options(values))
    kept = mine.last.get(key)
    if kept is None or not kept.agrees(values):
        tensors = [values[i] for i in layout.tensors_at]
        full = key + tuple([part for x in tensors
                            for part in (x.shape, x.stride(), x.dtype, x.device, x.data_ptr() % 16 == 0)])
        if full not in mine.kept:
            return _record(function, args, named, values, layout, names, key, full)
        kept = mine.kept[full]
        if kept is None:
            return function(*args, **named)
        mine.last[key] = kept
        kept.put(values)
    kept.renew(values)
    if kept.latest is not None:
        mine.latest[function] = kept.latest
    return kept.run(values)


def _record(function: Any, args: Tuple, named: Dict[str, Any], values: Tuple, layout: _Layout, names: Tuple[str, ...], key: Tuple,
            full: Tuple) -> Any:
    """A call that is like none: it runs as it stands in the function, and is kept."""
    mine, recorded = thread, cast(List[Any], [])
    latest, mine.latest, _calls.recorder.recorded = mine.latest, {}, recorded          # calls in it are not made short
    try:
        result = function(*args, **named)
    finally:
        mine.latest, _calls.recorder.recorded = latest, None
    if len(mine.kept) >= _KEPT_MAX:
        mine.kept.clear()
        mine.last.clear()
        mine.latest.clear()
    made = mine.kept[full] = _keep(recorded, values, layout, names, result)
    if made is not None:
        mine.last[key] = made
    return result


def warm(function: F) -> F:
    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        values, names = ((*args, *named.values()), tuple(named)) if named else (args, ())
        latest = thread.latest.get(function)
        if latest is not None:
            n, given, checks, at, run, _ = latest
            if n == len(values) and given == names and checks is _calls._checks:
                agrees = 0
                try:
                    agrees = _agree(at, values)
                except Exception:               # a tensor that PyTorch does not export
                    pass
                if agrees == 1:
                    return run(values)
        return _call_anew(function, args, named, values, names)
    return cast(F, call)
