# SPDX-License-Identifier: MIT
"""Calls that differ from an earlier one in nothing but addresses.

The first call of an operator's function with tensors of given shapes, strides, types and device, and with given options, runs as
it stands there, and is kept if it made one call of the library and nothing else: the C struct with all that it points to, which
argument or new output each tensor of it is, and what was returned. Later calls like it put the addresses in and go on. Functions
that are made warm have no other effect than that call, and look at no values in tensors.

Only PyTorch's own tensors, all of different memory, on the framework's current stream; all else goes the long way. What is kept is a
thread's own, so that no two calls share a struct.
"""
from __future__ import annotations

import ctypes
import functools
import threading
from ctypes import c_size_t
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, TypeVar, cast

from . import _calls
from ._library import check, error_of
from ._tensor import WORKSPACE_ALIGNMENT, current_stream, know_torch, plain_types, tensor_types

F = TypeVar("F", bound=Callable[..., Any])

_KEPT_MAX = 1024                                # of a thread; then it begins anew
_FEW = 16                                       # tensors of a call that are kept; more are rare


class _Thread(threading.local):
    def __init__(self) -> None:
        self.kept: Dict[Any, Optional["_Kept"]] = {}


thread = _Thread()
plan_types: List[Any] = []                      # whose objects have a struct that calls point to, `pointer`


class _Kept:
    """A call, ready to be made again."""

    __slots__ = ("call", "taken", "made", "results", "is_tuple", "torch", "device", "place", "index", "sized", "pointer")

    call: Any
    taken: List[Tuple[Any, int]]                # structs of tensors, and which argument each is
    made: List[Tuple[Any, Tuple[int, ...], Any, int]]       # of new outputs: struct, shape, type, the argument that it is like or -1
    results: List[Any]                          # numbers of new outputs, -1 - those of arguments
    is_tuple: bool
    torch: Any
    device: str
    place: Any                                  # the same for PyTorch
    index: int                                  # of a CUDA device; -1: the host
    sized: int                                  # bytes of workspace
    pointer: Any                                # to the struct

    def run(self, tensors: Sequence[Any], plan: Any) -> Any:
        call = self.call
        for struct, i in self.taken:
            struct.data = tensors[i].data_ptr()
        new: List[Any] = []
        for struct, shape, dtype, like in self.made:
            x = self.torch.empty_like(tensors[like]) if like >= 0 else self.torch.empty(shape, dtype=dtype, device=self.place)
            struct.data = x.data_ptr()
            new.append(x)
        if plan is not None:
            call.args.plan = plan.pointer
        handle, memory = _calls.handle_of(self.device), None
        queue = current_stream(call.first.framework, self.device, self.index) if self.index >= 0 else None
        if call.size is not None:
            n = self.sized if plan is None else plan.sizes.get(self)
            if n is None:                       # it depends on the plan's partitions
                wanted = c_size_t()
                check(call.size(handle, self.pointer, ctypes.byref(wanted)))
                n = plan.sizes[self] = wanted.value
            if n:
                memory = self.torch.empty(n + WORKSPACE_ALIGNMENT, dtype=self.torch.uint8, device=self.place)
                address = memory.data_ptr()
                call.args.workspace = address + -address % WORKSPACE_ALIGNMENT
                call.args.workspace_bytes = n
        status = call.function(handle, queue, self.pointer)
        if status:
            raise error_of(status)
        if not self.is_tuple:
            at = self.results[0]
            return new[at] if at >= 0 else tensors[-1 - at]
        return tuple([None if at is None else new[at] if at >= 0 else tensors[-1 - at] for at in self.results])


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
        kept.made.append((structs[field], tuple(shape), x.dtype, _like(x, tensors) if tuple(shape) == tuple(x.shape) else -1))
    first = call.first
    kept.call, kept.is_tuple, kept.device, kept.place = call, type(result) is tuple, first.device, tensors[0].device
    kept.torch, kept.sized = first.framework.torch, int(call.args.workspace_bytes or 0) if call.size is not None else 0
    kept.index = -1 if first.device == "cpu" else int(first.device[5:])
    kept.pointer = ctypes.pointer(call.args)
    call.keep = [x for x in call.keep if not hasattr(x, "data_ptr")]        # a workspace goes
    call.made, call.tensors, first.owner = {}, {}, None          # and nobody's tensors stay
    if kept.index >= 0 and first.framework.raw_stream is None:
        return None
    return kept


def warm(function: F) -> F:
    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        mine = thread
        if _calls.recorder.recorded is not None or not (tensor_types or know_torch()):
            return function(*args, **named)
        parts: List[Any] = [function, _calls._checks]
        tensors: List[Any] = []
        plan = None
        for x in args:
            kind = type(x)
            if kind in tensor_types:
                tensors.append(x)
                parts += x.shape, x.stride(), x.dtype, x.device
            elif kind in plain_types:
                parts.append(x)
            elif kind in plan_types:
                plan = x
                parts.append(kind)
            else:                               # another framework's array, or what has tensors in it
                return function(*args, **named)
        for name, x in named.items():
            kind = type(x)
            if kind in tensor_types:
                tensors.append(x)
                parts += name, x.shape, x.stride(), x.dtype, x.device
            elif kind in plain_types:
                parts += name, x
            elif kind in plan_types:
                plan = x
                parts += name, kind
            else:
                return function(*args, **named)
        key = tuple(parts)
        kept = mine.kept.get(key, mine)
        if kept is not mine:
            return kept.run(tensors, plan) if kept is not None else function(*args, **named)
        recorded: List[Any] = []
        _calls.recorder.recorded = recorded
        try:
            result = function(*args, **named)
        finally:
            _calls.recorder.recorded = None
        if len(mine.kept) >= _KEPT_MAX:
            mine.kept.clear()
        mine.kept[key] = _keep(recorded, tensors, result) if tensors else None
        return result
    return cast(F, call)
