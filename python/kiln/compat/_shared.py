# SPDX-License-Identifier: MIT
"""What the interfaces of other libraries share."""
from __future__ import annotations

import functools
from typing import Any, Callable, Tuple, TypeVar, cast

import torch
from torch import Tensor, is_grad_enabled
from torch.compiler import is_compiling

F = TypeVar("F", bound=Callable[..., Any])


def refuse(where: str, **given: Any) -> None:
    """Arguments that must be off: None, 0 or False."""
    for name, value in given.items():
        if value is not None and not (isinstance(value, (int, float)) and value <= 0):
            raise NotImplementedError("%s: %s is not supported" % (where, name))


def records(*tensors: Tensor) -> bool:
    """Whether the call is one of PyTorch's graph; else the shorter way does."""
    if is_compiling():
        return True
    if is_grad_enabled():
        for t in tensors:
            if t.requires_grad:
                return True
    return False


def rows(*tensors: Tensor) -> Tuple[Tensor, ...]:
    return tuple(t if t.stride(-1) == 1 else t.contiguous() for t in tensors)


def untraced(function: F) -> F:
    """Not traced by torch.compile: one break of the graph, as at a call of a C extension."""
    untraced_function = torch.compiler.disable(function)

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:                  # beside compiling, the quicker way
        return (untraced_function if is_compiling() else function)(*args, **named)
    return cast(F, call)
