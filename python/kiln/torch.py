# SPDX-License-Identifier: MIT
"""Kiln's operators as PyTorch's: `torch.ops.kiln.*`, for models that are compiled, exported or trained.

    import kiln.torch

    out, lse = kiln.torch.attention(q, k, v, causal=True)           # records gradients; torch.compile sees one operator
    y = kiln.torch.gemm(x, w, transpose_b=True, bias=b)

They compute what the functions of the same names in `kiln.ops` do, allocate their results, and change nothing. Each has a fake
kernel, so that `torch.compile` and `torch.export` know shapes without running it. Gradients: attention, attention_varlen, nsa_choose,
nsa_selected, nsa_combine, gemm (without an activation), activate, softmax, cross_entropy, rotary_embedding, embedding. The others raise where a
gradient is asked for. PyTorch's dispatcher takes some 20 us a call: where only
speed counts and nothing is compiled, `kiln.ops` is the shorter way.

Needs PyTorch 2.4 or later.
"""
from __future__ import annotations

from typing import Any, Callable, Optional, Tuple

import torch
from torch import Tensor

from . import ops

__all__ = ["activate", "attention", "attention_decode", "attention_varlen", "cross_entropy", "embedding", "gemm", "layer_norm",
           "nsa_choose", "nsa_combine", "nsa_selected", "rms_norm", "rotary_embedding", "softmax"]

# Schemas are written out: PyTorch reads annotations, which are texts here.


def _operator(name: str, schema: str, run: Callable, fake: Callable, backward: Optional[Callable] = None,
              setup: Optional[Callable] = None) -> Any:
    made = torch.library.custom_op("kiln::" + name, run, mutates_args=(), schema=schema)
    made.register_fake(fake)
    if backward is not None and setup is not None:
        made.register_autograd(backward, setup_context=lambda ctx, inputs, output: setup(ctx, inputs, output))
    return made


def _like(x: Tensor, *shape: Any, dtype: Optional[torch.dtype] = None) -> Tensor:
    return x.new_empty(shape, dtype=dtype or x.dtype)


def _rows(x: Tensor) -> Tensor:
    """Gradients come with any strides, such as those of `expand`; Kiln takes those with contiguous rows of 16 bytes."""
    return x.contiguous()


# ---- attention

def _setup_attention(context: Any, inputs: Tuple, output: Tuple) -> None:
    q, k, v, context.causal, context.window, context.scale, context.deterministic, context.softcap = inputs
    context.save_for_backward(q, k, v, *output)
    context.mark_non_differentiable(output[1])


def _attention_backward(context: Any, dout: Tensor, _: Any) -> Tuple:
    gradients = torch.ops.kiln.attention_backward(*context.saved_tensors, _rows(dout), context.causal, context.window,
                                                  context.scale, context.deterministic, context.softcap)
    return (*gradients, *[None] * 5)


_operator("attention_backward",
          "(Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor dout, bool causal, int window, float? scale, "
          "bool deterministic, float softcap) -> (Tensor, Tensor, Tensor)",
          lambda q, k, v, out, lse, dout, causal, window, scale, deterministic, softcap: ops.attention_backward(
              q, k, v, out, lse, dout, causal=causal, window=window, scale=scale, deterministic=deterministic, softcap=softcap),
          lambda q, k, v, *rest: tuple(_like(t, *t.shape) for t in (q, k, v)))
_attention = _operator(
    "attention",
    "(Tensor q, Tensor k, Tensor v, bool causal, int window, float? scale, bool deterministic, float softcap) -> (Tensor, Tensor)",
    lambda q, k, v, causal, window, scale, _, softcap: ops.attention(q, k, v, causal=causal, window=window, scale=scale,
                                                                     softcap=softcap, return_lse=True),
    lambda q, k, v, *rest: (_like(q, *q.shape[:3], v.shape[3]),
                            _like(q, q.shape[0], q.shape[2], q.shape[1], dtype=torch.float32)),
    _attention_backward, _setup_attention)


def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, window: int = 0,
              scale: Optional[float] = None, deterministic: bool = False, softcap: float = 0) -> Tuple[Tensor, Tensor]:
    """`kiln.ops.attention`: (out [B][S][H][DV], lse f32 [B][H][S]) of q [B][S][H][D], k [B][SKV][HKV][D], v [B][SKV][HKV][DV].
    lse has no gradient; deterministic: the others are the same bits every time."""
    return _attention(q, k, v, causal, window, scale, deterministic, softcap)


def _setup_varlen(context: Any, inputs: Tuple, output: Tuple) -> None:
    (context.max_queries, context.max_keys, context.causal, context.window, context.scale, context.deterministic,
     context.softcap) = inputs[5:]
    context.save_for_backward(*inputs[:5], *output)
    context.mark_non_differentiable(output[1])


def _varlen_backward(context: Any, dout: Tensor, _: Any) -> Tuple:
    gradients = torch.ops.kiln.attention_varlen_backward(*context.saved_tensors, _rows(dout), context.max_queries, context.max_keys,
                                                         context.causal, context.window, context.scale,
                                                         context.deterministic, context.softcap)
    return (*gradients, *[None] * 9)


_operator("attention_varlen_backward",
          "(Tensor q, Tensor k, Tensor v, Tensor q_offsets, Tensor k_offsets, Tensor out, Tensor lse, Tensor dout, "
          "int max_queries, int max_keys, bool causal, int window, float? scale, bool deterministic, float softcap) "
          "-> (Tensor, Tensor, Tensor)",
          lambda q, k, v, q_offsets, k_offsets, out, lse, dout, max_queries, max_keys, causal, window, scale, deterministic, softcap:
          ops.attention_backward_varlen(q, k, v, q_offsets, k_offsets, max_keys, out, lse, dout, causal=causal, window=window,
                                        scale=scale, deterministic=deterministic, max_queries=max_queries, softcap=softcap),
          lambda q, k, v, *rest: tuple(_like(t, *t.shape) for t in (q, k, v)))
_attention_varlen = _operator(
    "attention_varlen",
    "(Tensor q, Tensor k, Tensor v, Tensor q_offsets, Tensor k_offsets, int max_queries, int max_keys, bool causal, int window, "
    "float? scale, bool deterministic, float softcap) -> (Tensor, Tensor)",
    lambda q, k, v, q_offsets, k_offsets, max_queries, max_keys, causal, window, scale, _, softcap: ops.attention_varlen(
        q, k, v, q_offsets, k_offsets, max_queries, causal=causal, window=window, scale=scale, softcap=softcap, return_lse=True),
    lambda q, k, v, *rest: (_like(q, *q.shape[:2], v.shape[2]), _like(q, q.shape[1], q.shape[0], dtype=torch.float32)),
    _varlen_backward, _setup_varlen)


def attention_varlen(q: Tensor, k: Tensor, v: Tensor, q_offsets: Tensor, k_offsets: Tensor, max_queries: int, max_keys: int, *,
                     causal: bool = False, window: int = 0, scale: Optional[float] = None,
                     deterministic: bool = False, softcap: float = 0) -> Tuple[Tensor, Tensor]:
    """`kiln.ops.attention_varlen`: (out [TQ][H][DV], lse f32 [H][TQ]). max_keys, of the longest sequence of keys or more, is for
    the gradient."""
    return _attention_varlen(q, k, v, q_offsets, k_offsets, max_queries, max_keys, causal, window, scale, deterministic, softcap)


_attention_decode = _operator(
    "attention_decode", "(Tensor q, Tensor k, Tensor v, Tensor? mask, Tensor? lengths, float? scale) -> Tensor",
    lambda q, k, v, mask, lengths, scale: ops.attention_decode(q, k, v, mask=mask, lengths=lengths, scale=scale),
    lambda q, k, v, mask, lengths, scale: _like(q, *q.shape[:2], v.shape[3]))


def attention_decode(q: Tensor, k: Tensor, v: Tensor, *, mask: Optional[Tensor] = None, lengths: Optional[Tensor] = None,
                     scale: Optional[float] = None) -> Tensor:
    """`kiln.ops.attention_decode`: out [B][H][DV] of q [B][H][D] against a cache. No gradient."""
    return _attention_decode(q, k, v, mask, lengths, scale)


# ---- products

# ---- native sparse attention. What an operator returns is always a tensor: an empty one stands for none

def _or_empty(like: Tensor, *made: Optional[Tensor]) -> Tuple[Tensor, ...]:
    return tuple(like.new_empty(0) if x is None else x for x in made)


def _if(wanted: Any, made: Tensor) -> Optional[Tensor]:
    return None if wanted is None else made


def _like_each(like: Tensor, *tensors: Optional[Tensor]) -> Tuple[Tensor, ...]:
    return tuple(like.new_empty(0) if x is None else _like(x, *x.shape) for x in tensors)


_nsa_numbers = "int sequences, int max_tokens, int block_size, float? scale"


def _nsa_names(numbers: Tuple) -> dict:
    return dict(zip(("sequences", "max_tokens", "block_size", "scale"), numbers))


def _setup_choose(context: Any, inputs: Tuple, output: Tuple) -> None:
    q, k, v, pool_k, pool_v, offsets, _, _, _, *context.numbers = inputs
    out, block_indices, lse = output
    context.save_for_backward(q, k, v, out, lse, pool_k, pool_v, offsets)
    context.mark_non_differentiable(block_indices, lse)


def _choose_backward(context: Any, dout: Tensor, *_: Any) -> Tuple:
    q, k, v, out, lse, pool_k, pool_v, offsets = context.saved_tensors
    dq, dk, dv, dpool_k, dpool_v = torch.ops.kiln.nsa_compressed_backward(q, k, v, out, lse, _rows(dout), pool_k, pool_v, offsets,
                                                                          *context.numbers)
    return (dq, dk, dv, _if(pool_k, dpool_k), _if(pool_v, dpool_v), *[None] * 8)


_operator("nsa_compressed_backward",
          "(Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor dout, Tensor? pool_k, Tensor? pool_v, Tensor? offsets, "
          + _nsa_numbers + ") -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
          lambda q, k, v, out, lse, dout, pool_k, pool_v, offsets, *numbers: _or_empty(lse, *ops.nsa_compressed_backward(
              q, k, v, out, lse, dout, pool_k=pool_k, pool_v=pool_v, offsets=offsets, **_nsa_names(numbers))),
          lambda q, k, v, out, lse, dout, pool_k, pool_v, *rest: _like_each(lse, q, k, v, pool_k, pool_v))
_nsa_choose = _operator(
    "nsa_choose",
    "(Tensor q, Tensor k, Tensor v, Tensor? pool_k, Tensor? pool_v, Tensor? offsets, int blocks, int initial_blocks, "
    "int local_blocks, " + _nsa_numbers + ") -> (Tensor, Tensor, Tensor)",
    lambda q, k, v, pool_k, pool_v, offsets, blocks, initial_blocks, local_blocks, *numbers: ops.nsa_choose(
        q, k, v, blocks, pool_k=pool_k, pool_v=pool_v, offsets=offsets, initial_blocks=initial_blocks, local_blocks=local_blocks,
        return_lse=True, **_nsa_names(numbers)),
    lambda q, k, v, pool_k, pool_v, offsets, blocks, *rest: (
        _like(q, *q.shape[:2], v.shape[2]), _like(q, q.shape[0], k.shape[1], blocks, dtype=torch.int32),
        _like(q, *q.shape[:2], dtype=torch.float32)),
    _choose_backward, _setup_choose)


def nsa_choose(q: Tensor, k: Tensor, v: Tensor, blocks: int = 16, *, pool_k: Optional[Tensor] = None,
               pool_v: Optional[Tensor] = None, offsets: Optional[Tensor] = None, sequences: int = 0, max_tokens: int = 0,
               block_size: int = 0, initial_blocks: int = 0, local_blocks: int = 0,
               scale: Optional[float] = None) -> Tuple[Tensor, Tensor, Tensor]:
    """`kiln.ops.nsa_choose`: (out [TOKENS][H][DV], block_indices i32 [TOKENS][HKV][blocks], lse f32 [TOKENS][H]), the compressed
    branch and the lists. Gradients of q, k, v and the weights through out alone."""
    return _nsa_choose(q, k, v, pool_k, pool_v, offsets, blocks, initial_blocks, local_blocks, sequences, max_tokens, block_size,
                       scale)


def _setup_selected(context: Any, inputs: Tuple, output: Tuple) -> None:
    q, k, v, block_indices, block_counts, offsets, context.fused, *context.numbers = inputs
    context.save_for_backward(q, k, v, *output, block_indices, block_counts, offsets)
    context.mark_non_differentiable(output[1])


def _selected_backward(context: Any, dout: Tensor, _: Any) -> Tuple:
    q, k, v, out, lse, *lists = context.saved_tensors
    gradients = torch.ops.kiln.nsa_selected_backward(q, k, v, out, lse, _rows(dout), *lists, context.fused, *context.numbers)
    return (*gradients, *[None] * 8)


_operator("nsa_selected_backward",
          "(Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor dout, Tensor block_indices, Tensor? block_counts, "
          "Tensor? offsets, bool fused, " + _nsa_numbers + ") -> (Tensor, Tensor, Tensor)",
          lambda q, k, v, out, lse, dout, block_indices, block_counts, offsets, fused, *numbers: ops.nsa_selected_backward(
              q, k, v, out, lse, dout, block_indices, block_counts=block_counts, offsets=offsets, fused=fused,
              **_nsa_names(numbers)),
          lambda q, k, v, *rest: tuple(_like(t, *t.shape) for t in (q, k, v)))
_nsa_selected = _operator(
    "nsa_selected",
    "(Tensor q, Tensor k, Tensor v, Tensor block_indices, Tensor? block_counts, Tensor? offsets, bool fused, " + _nsa_numbers
    + ") -> (Tensor, Tensor)",
    lambda q, k, v, block_indices, block_counts, offsets, _, *numbers: ops.nsa_selected(
        q, k, v, block_indices, block_counts=block_counts, offsets=offsets, return_lse=True, **_nsa_names(numbers)),
    lambda q, k, v, *rest: (_like(q, *q.shape[:2], v.shape[2]), _like(q, *q.shape[:2], dtype=torch.float32)),
    _selected_backward, _setup_selected)


def nsa_selected(q: Tensor, k: Tensor, v: Tensor, block_indices: Tensor, *, block_counts: Optional[Tensor] = None,
                 offsets: Optional[Tensor] = None, sequences: int = 0, max_tokens: int = 0, block_size: int = 0,
                 fused: bool = False, scale: Optional[float] = None) -> Tuple[Tensor, Tensor]:
    """`kiln.ops.nsa_selected`: (out [TOKENS][H][DV], lse f32 [TOKENS][H]). lse has no gradient; fused: the way of the gradient."""
    return _nsa_selected(q, k, v, block_indices, block_counts, offsets, fused, sequences, max_tokens, block_size, scale)


def _setup_combine(context: Any, inputs: Tuple, output: Tensor) -> None:
    context.save_for_backward(*inputs)


def _run_combine_backward(dout: Tensor, selected: Tensor, g_selected: Tensor, compressed: Optional[Tensor],
                          g_compressed: Optional[Tensor], window: Optional[Tensor], g_window: Optional[Tensor]) -> Tuple:
    dc, ds, dw, gc, gs, gw = ops.nsa_combine_backward(dout, selected, g_selected, compressed=compressed,
                                                      g_compressed=g_compressed, window=window, g_window=g_window)
    return _or_empty(dout, ds, gs, dc, gc, dw, gw)


def _combine_backward(context: Any, dout: Tensor) -> Tuple:
    saved = context.saved_tensors
    return tuple(map(_if, saved, torch.ops.kiln.nsa_combine_backward(_rows(dout), *saved)))


_nsa_branches = ("Tensor selected, Tensor g_selected, Tensor? compressed, Tensor? g_compressed, Tensor? window, "
                 "Tensor? g_window")
_operator("nsa_combine_backward",
          "(Tensor dout, " + _nsa_branches + ") -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
          _run_combine_backward, lambda dout, *branches: _like_each(dout, *branches))
_nsa_combine = _operator(
    "nsa_combine", "(" + _nsa_branches + ") -> Tensor",
    lambda selected, g_selected, compressed, g_compressed, window, g_window: ops.nsa_combine(
        selected, g_selected, compressed=compressed, g_compressed=g_compressed, window=window, g_window=g_window),
    lambda selected, *rest: _like(selected, *selected.shape), _combine_backward, _setup_combine)


def nsa_combine(selected: Tensor, g_selected: Tensor, *, compressed: Optional[Tensor] = None,
                g_compressed: Optional[Tensor] = None, window: Optional[Tensor] = None,
                g_window: Optional[Tensor] = None) -> Tensor:
    """`kiln.ops.nsa_combine`: the gated sum of the branches, [TOKENS][H][DV]; gates f32 or as the branches [TOKENS][H]."""
    return _nsa_combine(selected, g_selected, compressed, g_compressed, window, g_window)


def _setup_gemm(context: Any, inputs: Tuple, output: Tensor) -> None:
    a, b, bias, residual, context.transpose_a, context.transpose_b, context.activation, context.scale, _ = inputs
    context.save_for_backward(a, b)
    context.bias_type = bias.dtype if bias is not None else None
    context.has_residual = residual is not None


def _gemm_backward(context: Any, dc: Tensor) -> Tuple:
    if context.activation is not None:
        raise NotImplementedError("kiln::gemm has no gradient with an activation: use kiln.torch.activate")
    a, b = context.saved_tensors
    dc = _rows(dc)
    d, rows = dc.to(a.dtype), tuple(range(dc.dim() - 1))
    ta, tb, da, db = context.transpose_a, context.transpose_b, None, None

    def product(x: Tensor, y: Tensor, transpose_x: bool, transpose_y: bool) -> Tensor:
        return _gemm(x, y, None, None, transpose_x, transpose_y, None, context.scale, None)
    if context.needs_input_grad[0]:             # da = dc b^T, or its transpose b dc^T
        da = product(b, d, tb, True) if ta else product(d, b, False, not tb)
    if context.needs_input_grad[1]:             # db = a^T dc, or its transpose dc^T a
        db = product(d, a, True, ta) if tb else product(a, d, not ta, False)
    bias = dc.sum(rows).to(context.bias_type) if context.bias_type is not None else None
    return da, db, bias, dc if context.has_residual else None, None, None, None, None, None


def _fake_gemm(a: Tensor, b: Tensor, bias: Any, residual: Any, transpose_a: bool, transpose_b: bool, activation: Any, scale: float,
               dtype: Optional[torch.dtype]) -> Tensor:
    return _like(a, *a.shape[:-2], a.shape[-1 if transpose_a else -2], b.shape[-2 if transpose_b else -1], dtype=dtype)


_gemm = _operator(
    "gemm", "(Tensor a, Tensor b, Tensor? bias, Tensor? residual, bool transpose_a, bool transpose_b, str? activation, "
    "float scale, ScalarType? dtype) -> Tensor",
    lambda a, b, bias, residual, transpose_a, transpose_b, activation, scale, dtype: ops.gemm(
        a, b, bias=bias, residual=residual, transpose_a=transpose_a, transpose_b=transpose_b, activation=activation, scale=scale,
        type=dtype),
    _fake_gemm, _gemm_backward, _setup_gemm)


def gemm(a: Tensor, b: Tensor, *, bias: Optional[Tensor] = None, residual: Optional[Tensor] = None, transpose_a: bool = False,
         transpose_b: bool = False, activation: Optional[str] = None, scale: float = 1.0,
         dtype: Optional[torch.dtype] = None) -> Tensor:
    """`kiln.ops.gemm`: activation(scale * a b + bias) + residual, [Z][M][N] or [M][N]; dtype is that of the result."""
    return _gemm(a, b, bias, residual, transpose_a, transpose_b, activation, scale, dtype)


# ---- rows

def _fake_rows(x: Tensor, *rest: Any) -> Tensor:
    return _like(x, *x.shape)


_norm_schema = "(Tensor x, Tensor? weight, Tensor? bias, float eps) -> Tensor"
_rms_norm = _operator("rms_norm", _norm_schema,
                      lambda x, weight, bias, eps: ops.rms_norm(x, weight, bias=bias, eps=eps), _fake_rows)
_layer_norm = _operator("layer_norm", _norm_schema,
                        lambda x, weight, bias, eps: ops.layer_norm(x, weight, bias, eps=eps), _fake_rows)


def rms_norm(x: Tensor, weight: Optional[Tensor] = None, *, bias: Optional[Tensor] = None, eps: float = 1e-6) -> Tensor:
    """`kiln.ops.rms_norm` of rows of the last dimension. No gradient."""
    return _rms_norm(x, weight, bias, eps)


def layer_norm(x: Tensor, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, *, eps: float = 1e-5) -> Tensor:
    """`kiln.ops.layer_norm` of rows of the last dimension. No gradient."""
    return _layer_norm(x, weight, bias, eps)


def _setup_softmax(context: Any, inputs: Tuple, output: Tensor) -> None:
    context.save_for_backward(output)


def _softmax_backward(context: Any, dy: Tensor) -> Tensor:
    y, = context.saved_tensors
    return (dy - (dy.float() * y.float()).sum(-1, keepdim=True)).to(y.dtype) * y


_softmax = _operator("softmax", "(Tensor x) -> Tensor", lambda x: ops.softmax(x), _fake_rows, _softmax_backward, _setup_softmax)


def softmax(x: Tensor) -> Tensor:
    """`kiln.ops.softmax` of the last dimension, of x's type."""
    return _softmax(x)


def _setup_activate(context: Any, inputs: Tuple, output: Tensor) -> None:
    gate, up, context.activation = inputs
    context.save_for_backward(gate, up)


def _activate_backward(context: Any, dout: Tensor) -> Tuple:
    gate, up = context.saved_tensors
    if up is None:
        return torch.ops.kiln.activate_backward(gate, None, _rows(dout), context.activation)[0], None, None
    return (*torch.ops.kiln.activate_backward(gate, up, _rows(dout), context.activation), None)


def _run_activate_backward(gate: Tensor, up: Optional[Tensor], dout: Tensor, activation: str) -> Any:
    made = ops.activate_backward(gate, up, dout, activation=activation)
    return list(made) if isinstance(made, tuple) else [made]


_operator("activate_backward", "(Tensor gate, Tensor? up, Tensor dout, str activation) -> Tensor[]", _run_activate_backward,
          lambda gate, up, dout, activation: [_like(gate, *gate.shape) for _ in range(1 if up is None else 2)])
_activate = _operator("activate", "(Tensor gate, Tensor? up, str activation) -> Tensor",
                      lambda gate, up, activation: ops.activate(gate, up, activation=activation), _fake_rows, _activate_backward,
                      _setup_activate)


def activate(gate: Tensor, up: Optional[Tensor] = None, *, activation: str = "silu") -> Tensor:
    """`kiln.ops.activate`: activation(gate) * up."""
    return _activate(gate, up, activation)


# ---- tokens

def _setup_cross_entropy(context: Any, inputs: Tuple, output: Tuple) -> None:
    context.save_for_backward(*inputs, output[1])
    context.mark_non_differentiable(output[1])


def _cross_entropy_backward(context: Any, dloss: Tensor, _: Any) -> Tuple:
    logits, labels, lse = context.saved_tensors
    return torch.ops.kiln.cross_entropy_backward(logits, labels, lse, _rows(dloss)), None


_operator("cross_entropy_backward", "(Tensor logits, Tensor labels, Tensor lse, Tensor dloss) -> Tensor",
          lambda logits, labels, lse, dloss: ops.cross_entropy_backward(logits, labels, lse, dloss), _fake_rows)
_cross_entropy = _operator("cross_entropy", "(Tensor logits, Tensor labels) -> (Tensor, Tensor)",
                           lambda logits, labels: ops.cross_entropy(logits, labels),
                           lambda logits, labels: (_like(logits, logits.shape[0], dtype=torch.float32),
                                                   _like(logits, logits.shape[0], dtype=torch.float32)),
                           _cross_entropy_backward, _setup_cross_entropy)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """`kiln.ops.cross_entropy`: the loss of each row, f32 [M]; labels are i32."""
    return _cross_entropy(logits, labels)[0]


def _setup_embedding(context: Any, inputs: Tuple, output: Tensor) -> None:
    table, tokens, context.scale = inputs
    context.save_for_backward(tokens)
    context.shape, context.dtype = table.shape, table.dtype


def _embedding_backward(context: Any, dout: Tensor) -> Tuple:
    tokens, = context.saved_tensors
    known = ((tokens >= 0) & (tokens < context.shape[0])).unsqueeze(-1)
    rows = torch.where(known, dout.float() * context.scale, 0)
    table = torch.zeros(context.shape, dtype=torch.float32, device=dout.device)
    return table.index_add(0, tokens.clamp(0, context.shape[0] - 1), rows).to(context.dtype), None, None


_embedding = _operator("embedding", "(Tensor table, Tensor tokens, float scale) -> Tensor",
                       lambda table, tokens, scale: ops.embedding(table, tokens, scale=scale),
                       lambda table, tokens, scale: _like(table, tokens.shape[0], table.shape[1]),
                       _embedding_backward, _setup_embedding)


def embedding(table: Tensor, tokens: Tensor, *, scale: float = 1.0) -> Tensor:
    """`kiln.ops.embedding`: rows of a table [V][N] by i32 tokens [M], times `scale`; no such row: zeros."""
    return _embedding(table, tokens, scale)


_ROTARY = "str style, int size, float base, float scale, float low, float high, float extrapolation, float magnitude, int offset"


def _turn(x: Tensor, positions: Tensor, style: str, size: int, base: float, scale: float, low: float, high: float,
          extrapolation: float, magnitude: float, offset: int, trained_length: int, backward: bool) -> Tensor:
    rotary = ops.Rotary(style, size, base, scale, low, high, extrapolation, magnitude, offset)
    return ops.rotary_embedding(x.clone(memory_format=torch.contiguous_format), positions, rotary=rotary,
                                trained_length=trained_length, backward=backward)


def _setup_turn(context: Any, inputs: Tuple, output: Tensor) -> None:
    context.save_for_backward(inputs[1])
    context.rest = inputs[2:-1] + (not inputs[-1],)


def _turn_backward(context: Any, dout: Tensor) -> Tuple:
    return (_rotary_embedding(dout, context.saved_tensors[0], *context.rest), *[None] * (1 + len(context.rest)))


_rotary_embedding = _operator("rotary_embedding",
                              "(Tensor x, Tensor positions, " + _ROTARY + ", int trained_length, bool backward) -> Tensor",
                              _turn, _fake_rows, _turn_backward, _setup_turn)


def rotary_embedding(x: Tensor, positions: Tensor, *, rotary: Optional[ops.Rotary] = None, trained_length: int = 0) -> Tensor:
    """`kiln.ops.rotary_embedding` of a copy: x [tokens][H][D], positions i32 [tokens]."""
    return _rotary_embedding(x, positions, *(rotary or ops.Rotary()), trained_length, False)
