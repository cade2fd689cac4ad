# SPDX-License-Identifier: MIT
"""The functions of FlashAttention 2's Python package over Kiln's operators, with its signatures, shapes and defaults:

    from kiln.compat.flash_attn import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache

Tensors are PyTorch's, on a GPU or on the host; types bf16, f16, and f32 as well. Gradients are recorded where PyTorch asks for
them, and models that call these can be compiled. What Kiln has no operator for raises NotImplementedError and says what it is:

    dropout, ALiBi slopes, windows that look past the query's own key, leftpadded caches; gradients through a block table

A row that sees no key has a log-sum-exp of -infinity. Of `return_attn_probs` the third result, the probabilities, is None.
"""
from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, is_grad_enabled
from torch.compiler import is_compiling
from torch.nn.functional import pad

from .. import ops
from .. import torch as kt
from .._warm import warm
from ._shared import records, refuse, rows

__all__ = ["flash_attn_func", "flash_attn_kvpacked_func", "flash_attn_qkvpacked_func", "flash_attn_varlen_func",
           "flash_attn_varlen_kvpacked_func", "flash_attn_varlen_qkvpacked_func", "flash_attn_with_kvcache"]

_WHERE = "kiln.compat.flash_attn"
_GRANULE = 16                                   # head sizes are multiples of it
_PAGE_MAX = 256                                 # tokens
_DECODE_ROWS = 64


def _mask(causal: bool, window_size: Tuple[int, int], queries: int, keys: int) -> Tuple[bool, int]:
    """causal and window as Kiln has them: the last `window` keys up to the query's own."""
    left, right = window_size
    if left >= keys - 1:
        left = -1
    if causal or queries == 1 and left >= 0:        # one query has no key past its own
        right = 0
    elif right >= keys or right >= queries - 1:     # the former is how FlashAttention sees it
        right = -1
    if right < 0 and left < 0:
        return False, 0
    if right != 0:
        raise NotImplementedError("kiln.compat.flash_attn: window_size = (%d, %d) without causal is not supported" % window_size)
    return True, left + 1 if left >= 0 else 0


def _numbers(window_size: Sequence[int]) -> Tuple[int, int]:
    left, right = (int(w) for w in window_size)
    return left, right


def _padded(*tensors: Tensor) -> Tuple[Tensor, ...]:
    more = -tensors[0].shape[-1] % _GRANULE
    return tuple(pad(t, (0, more)) for t in tensors) if more else tensors


def _results(out: Tensor, lse: Tensor, size: int, probs: bool) -> Any:
    out = out[..., :size] if out.shape[-1] != size else out
    return (out, lse, None) if probs else out


@warm
def _forward(q: Tensor, k: Tensor, v: Tensor, softmax_scale: Optional[float], causal: bool, left: int, right: int,
             softcap: float, probs: bool) -> Any:
    causal, window = _mask(causal, (left, right), q.shape[1], k.shape[1])
    size, scale = q.shape[-1], q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    made = ops.attention(*_padded(*rows(q, k, v)), causal=causal, window=window, scale=scale, softcap=softcap, return_lse=probs)
    out = made[0] if probs else made
    return _results(out, made[1] if probs else out, size, probs)


def flash_attn_func(q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0, softmax_scale: Optional[float] = None,
                    causal: bool = False, window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
                    alibi_slopes: Optional[Tensor] = None, deterministic: bool = False, return_attn_probs: bool = False) -> Any:
    """Attention of q [B][S][H][D] over k and v [B][SKV][HKV][D]; masks are aligned to the bottom right corner.

    Returns out [B][S][H][D]; with return_attn_probs (out, softmax_lse f32 [B][H][S], None).
    """
    if dropout_p or alibi_slopes is not None:
        refuse(_WHERE, dropout_p=dropout_p, alibi_slopes=alibi_slopes)
    if type(window_size) is not tuple:
        window_size = _numbers(window_size)
    if not (is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad) or is_compiling()):      # as records()
        left, right = window_size
        return _forward(q, k, v, softmax_scale, causal, left, right, softcap, return_attn_probs)
    causal, window = _mask(causal, window_size, q.shape[1], k.shape[1])
    size, scale = q.shape[-1], q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    out, lse = kt.attention(*_padded(*rows(q, k, v)), causal=causal, window=window, scale=scale, deterministic=deterministic,
                            softcap=softcap)
    return _results(out, lse, size, return_attn_probs)


def flash_attn_kvpacked_func(q: Tensor, kv: Tensor, dropout_p: float = 0.0, softmax_scale: Optional[float] = None,
                             causal: bool = False, window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
                             alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
                             return_attn_probs: bool = False) -> Any:
    """`flash_attn_func` with kv [B][SKV][2][HKV][D]."""
    return flash_attn_func(q, kv[:, :, 0], kv[:, :, 1], dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes,
                           deterministic, return_attn_probs)


def flash_attn_qkvpacked_func(qkv: Tensor, dropout_p: float = 0.0, softmax_scale: Optional[float] = None, causal: bool = False,
                              window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0, alibi_slopes: Optional[Tensor] = None,
                              deterministic: bool = False, return_attn_probs: bool = False) -> Any:
    """`flash_attn_func` with qkv [B][S][3][H][D]."""
    return flash_attn_func(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], dropout_p, softmax_scale, causal, window_size, softcap,
                           alibi_slopes, deterministic, return_attn_probs)


def _pages(k_cache: Tensor, v_cache: Tensor, table: Optional[Tensor], requests: Optional[Tensor]) -> Tuple[Tensor, Tensor, Tensor]:
    """Caches as pages of at most 256 tokens, and the table of them: parts of larger pages, or of contiguous requests."""
    tokens = k_cache.shape[1]
    page = next(n for n in range(min(tokens, _PAGE_MAX), 0, -1) if tokens % n == 0)
    parts = tokens // page
    if table is None:
        table = torch.arange(k_cache.shape[0], dtype=torch.int32, device=k_cache.device)[:, None] if requests is None else requests[:, None]
    if parts > 1:
        k_cache, v_cache = (c.unflatten(1, (parts, page)).flatten(0, 1) for c in (k_cache, v_cache))
        table = (table[:, :, None] * parts + torch.arange(parts, dtype=torch.int32, device=table.device)).flatten(1)
    return k_cache, v_cache, table.int()


def flash_attn_varlen_func(q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, max_seqlen_q: int,
                           max_seqlen_k: int, dropout_p: float = 0.0, softmax_scale: Optional[float] = None, causal: bool = False,
                           window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0, alibi_slopes: Optional[Tensor] = None,
                           deterministic: bool = False, return_attn_probs: bool = False,
                           block_table: Optional[Tensor] = None) -> Any:
    """Attention of a packed ragged batch: q [TQ][H][D], k and v [TK][HKV][D], cu_seqlens i32 [B + 1]. With block_table
    i32 [B][PAGES], k and v are bf16 or f16 [ALL PAGES][PAGE SIZE][HKV][D], and no gradients are recorded.

    Returns out [TQ][H][D]; with return_attn_probs (out, softmax_lse f32 [H][TQ], None).
    """
    refuse(_WHERE, dropout_p=dropout_p, alibi_slopes=alibi_slopes)
    causal, window = _mask(causal, _numbers(window_size), max_seqlen_q, max_seqlen_k)
    size, scale = q.shape[-1], q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    q, k, v = _padded(*rows(q, k, v))
    if block_table is not None:
        out, lse = ops.paged_attention(q, *_pages(k, v, block_table, None), cu_seqlens_k.diff(), q_offsets=cu_seqlens_q,
                                       max_queries=max_seqlen_q, causal=causal, window=window, softcap=softcap, scale=scale,
                                       return_lse=True)
        return _results(out, lse.t(), size, return_attn_probs)
    if records(q, k, v):
        out, lse = kt.attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal=causal,
                                       window=window, scale=scale, deterministic=deterministic, softcap=softcap)
    else:
        out, lse = ops.attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, causal=causal, window=window,
                                        scale=scale, softcap=softcap, return_lse=True)
    return _results(out, lse, size, return_attn_probs)


def flash_attn_varlen_kvpacked_func(q: Tensor, kv: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, max_seqlen_q: int,
                                    max_seqlen_k: int, dropout_p: float = 0.0, softmax_scale: Optional[float] = None,
                                    causal: bool = False, window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
                                    alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
                                    return_attn_probs: bool = False) -> Any:
    """`flash_attn_varlen_func` with kv [TK][2][HKV][D]."""
    return flash_attn_varlen_func(q, kv[:, 0], kv[:, 1], cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p,
                                  softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs)


def flash_attn_varlen_qkvpacked_func(qkv: Tensor, cu_seqlens: Tensor, max_seqlen: int, dropout_p: float = 0.0,
                                     softmax_scale: Optional[float] = None, causal: bool = False,
                                     window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
                                     alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
                                     return_attn_probs: bool = False) -> Any:
    """`flash_attn_varlen_func` with qkv [TOKENS][3][H][D]."""
    return flash_attn_varlen_func(qkv[:, 0], qkv[:, 1], qkv[:, 2], cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, dropout_p,
                                  softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs)


# ---- decoding

def _turn(x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, interleaved: bool) -> Tensor:
    """Rotary embedding of x [B][S][H][D] by tables [length][size / 2], at positions [B][S]."""
    size = 2 * cos.shape[-1]
    c, s = (t[positions].unsqueeze(2).float() for t in (cos, sin))
    part = x[..., :size].float()
    a, b = (part[..., 0::2], part[..., 1::2]) if interleaved else part.chunk(2, -1)
    both = (a * c - b * s, a * s + b * c)
    turned = torch.stack(both, -1).flatten(-2) if interleaved else torch.cat(both, -1)
    return torch.cat([turned.to(x.dtype), x[..., size:]], -1)


def _check_room(lengths: Tensor, more: int, room: int) -> None:
    """As FlashAttention does, by waiting for the device; a graph is captured without it."""
    if lengths.is_cuda and torch.cuda.is_current_stream_capturing():
        return
    longest = int(lengths.max()) + more if lengths.numel() else 0
    if longest > room:
        raise RuntimeError("kiln.compat.flash_attn: cache_seqlens up to %d, expected at most %d, which block_table has pages for"
                           % (longest, room))


def _are_many(q: Tensor, groups: int) -> bool:
    """Rows for a key head that are more than decoding takes, and of a type that pages have."""
    return q.shape[1] * (q.shape[2] // groups) > _DECODE_ROWS and q.dtype != torch.float32


def _write(k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, places: Tensor, table: Optional[Tensor],
           which: Optional[Tensor]) -> None:
    """New tokens to their places [B][NEW] in each request."""
    requests = torch.arange(len(places), device=places.device)[:, None].expand_as(places)
    if table is not None:
        tokens = k_cache.shape[1]
        pages, at = table[requests, places // tokens], places % tokens
    else:
        pages, at = requests if which is None else which.long()[requests], places
    k_cache[pages, at], v_cache[pages, at] = k, v


@warm
def _attend(q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Optional[Tensor], table: Optional[Tensor],
            requests: Optional[Tensor], causal: bool, left: int, right: int, softcap: float, softmax_scale: Optional[float],
            splits: int, wants_lse: bool) -> Any:
    """Of tokens that are in the cache; table and requests as block_table and cache_batch_idx."""
    batch, queries, heads, size = q.shape
    causal, window = _mask(causal, (left, right), queries, k_cache.shape[1] * (1 if table is None else table.shape[1]))
    scale = size ** -0.5 if softmax_scale is None else softmax_scale
    groups = k_cache.shape[2]
    q, k_cache, v_cache = _padded(*rows(q, k_cache, v_cache))
    if table is not None or requests is not None or window or causal and queries > 1 or _are_many(q, groups):
        if lengths is None:
            room = k_cache.shape[1] * (1 if table is None else table.shape[1])
            lengths = torch.full((batch,), room, dtype=torch.int32, device=q.device)
        pages = _pages(k_cache, v_cache, table, requests)
        made = ops.paged_attention(q.flatten(0, 1), *pages, lengths, causal=causal, window=window, softcap=softcap, scale=scale,
                                   splits=splits, return_lse=wants_lse)
        out, lse = made if wants_lse else (made, None)
        out = out.unflatten(0, (batch, queries))
        lse = lse.unflatten(0, (batch, queries)).transpose(1, 2) if lse is not None else None
    elif queries == 1:
        made = ops.attention_decode(q.view(batch, heads, -1), k_cache, v_cache, lengths=lengths, scale=scale, softcap=softcap,
                                    splits=splits, return_lse=wants_lse)
        out, lse = made if wants_lse else (made, None)
        out, lse = out.view(q.shape), lse.view(batch, heads, 1) if lse is not None else None
    else:                                           # without a mask between them, queries are further heads of their key head
        many = q.unflatten(2, (groups, -1)).transpose(1, 2).reshape(batch, queries * heads, -1)
        out, lse = ops.attention_decode(many, k_cache, v_cache, lengths=lengths, scale=scale, softcap=softcap, splits=splits,
                                        return_lse=True)
        out = out.view(batch, groups, queries, -1, out.shape[-1]).transpose(1, 2).reshape(batch, queries, heads, -1)
        lse = lse.view(batch, groups, queries, -1).transpose(2, 3).reshape(batch, heads, queries)
    out = out[..., :size] if out.shape[-1] != size else out
    return (out, lse) if wants_lse else out


def flash_attn_with_kvcache(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Optional[Tensor] = None, v: Optional[Tensor] = None,
                            rotary_cos: Optional[Tensor] = None, rotary_sin: Optional[Tensor] = None,
                            cache_seqlens: Optional[Union[int, Tensor]] = None, cache_batch_idx: Optional[Tensor] = None,
                            cache_leftpad: Optional[Tensor] = None, block_table: Optional[Tensor] = None,
                            softmax_scale: Optional[float] = None, causal: bool = False,
                            window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0, rotary_interleaved: bool = True,
                            alibi_slopes: Optional[Tensor] = None, num_splits: int = 0, return_softmax_lse: bool = False) -> Any:
    """Decoding: q [B][S][H][D] against caches [B][SKV][HKV][D] of which cache_seqlens tokens count (i32 [B], a number, or None:
    all); k and v [B][NEW][HKV][D], where given, are first rotated and written after them. Not to be captured in a graph with k.
    With cache_batch_idx i32 [B] request b has the cache of that number; with block_table i32 [B][PAGES] caches are
    [ALL PAGES][PAGE SIZE][HKV][D]. These, several causal queries, and windows take caches of bf16 or f16, and read
    contiguous ones as pages: of as many tokens as divide SKV and are at most 256.

    Returns out [B][S][H][D]; with return_softmax_lse (out, softmax_lse f32 [B][H][S]).
    """
    if alibi_slopes is not None or cache_leftpad is not None:
        refuse(_WHERE, alibi_slopes=alibi_slopes, cache_leftpad=cache_leftpad)
    if type(window_size) is not tuple:
        window_size = _numbers(window_size)
    if k is not None or block_table is not None or isinstance(cache_seqlens, int):
        batch, queries = q.shape[:2]
        room = k_cache.shape[1] * (1 if block_table is None else block_table.shape[1])
        _mask(causal, window_size, queries, room)       # what it refuses, before anything is written
        if isinstance(cache_seqlens, int):
            cache_seqlens = torch.full((batch,), cache_seqlens, dtype=torch.int32, device=q.device)
        if block_table is not None and cache_seqlens is not None:
            _check_room(cache_seqlens, 0 if k is None else k.shape[1], room)
    if k is not None and v is not None:
        if cache_seqlens is None:
            raise ValueError("kiln.compat.flash_attn: k and v need cache_seqlens, which says where they go")
        places = cache_seqlens.long()[:, None] + torch.arange(k.shape[1], device=q.device)
        if rotary_cos is not None and rotary_sin is not None:
            k = _turn(k, rotary_cos, rotary_sin, places, rotary_interleaved)
            steps = torch.arange(queries, device=q.device) if _mask(causal, window_size, queries, room)[0] else torch.zeros(queries, dtype=torch.long, device=q.device)
            q = _turn(q, rotary_cos, rotary_sin, cache_seqlens.long()[:, None] + steps, rotary_interleaved)
        _write(k, v, k_cache, v_cache, places, block_table, cache_batch_idx)
        cache_seqlens = cache_seqlens + k.shape[1]
    left, right = window_size
    return _attend(q, k_cache, v_cache, cache_seqlens, block_table, cache_batch_idx, causal, left, right, softcap, softmax_scale,
                   num_splits, return_softmax_lse)
