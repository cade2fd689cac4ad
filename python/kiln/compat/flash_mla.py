# SPDX-License-Identifier: MIT
"""The functions of FlashMLA's Python package, as of April 2026, over Kiln's operators, with its signatures, shapes and defaults:

    from kiln.compat.flash_mla import get_mla_metadata, flash_mla_with_kvcache, flash_mla_sparse_fwd, flash_attn_varlen_func

Tensors are PyTorch's, on a GPU or on the host. Decoding is dense, over a cache of the queries' type or an fp8 one, or sparse,
over fp8 caches of 656 bytes a token (keys of 576) or 584 (keys of 512); prefill is sparse, or dense with a head's own keys
(multi-head attention). Logarithms are natural. Where FlashMLA takes one page size, numbers of heads or head sizes, or no gradient
of grouped heads, Kiln takes what include/kiln/ops has. What it has no operator for raises NotImplementedError and says what it is:

    dropout, values of other than 512 elements, sparse decoding over a cache that is not fp8 or has several key heads, dense
    decoding with keys of 512, with a sink or with lists' lengths

A call that does not fit the plan, or that lacks a tensor, is a ValueError; what does not fit the operator is a `kiln.Error`.
"""
from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, Optional, Tuple

from torch import Tensor
from torch.compiler import disable, is_dynamo_compiling

from .. import ops
from .. import torch as kt
from .._tensor import plain_types
from .._warm import warm
from ._shared import records, refuse, rows, untraced

__all__ = ["FlashMLASchedMeta", "flash_attn_varlen_func", "flash_attn_varlen_kvpacked_func", "flash_attn_varlen_qkvpacked_func",
           "flash_mla_sparse_fwd", "flash_mla_with_kvcache", "get_mla_metadata"]

_WHERE = "kiln.compat.flash_mla"
_VALUES = 512


# ---- decoding

class _Config(NamedTuple):
    """What a plan is for, besides the lengths."""

    b: int
    s_q: int
    h_q: int
    page_block_size: int
    h_k: int
    causal: bool
    is_fp8_kvcache: bool
    topk: Optional[int]
    extra_page_block_size: Optional[int]
    extra_topk: Optional[int]


plain_types.add(_Config)


@dataclasses.dataclass
class FlashMLASchedMeta:
    """The plan of a decoding step: empty, then made by the first call that has it, for all later ones of the same shapes and
    lengths. The two tensors are the plan's memory, opaque; where tile_scheduler_metadata is None, the next call plans anew."""

    Config = _Config

    have_initialized: bool = False
    config: Optional[_Config] = None
    tile_scheduler_metadata: Optional[Tensor] = None
    num_splits: Optional[Tensor] = None
    plan: Optional[ops.MlaPlan] = dataclasses.field(default=None, repr=False)


def get_mla_metadata(*args: Any, **kwargs: Any) -> Tuple[FlashMLASchedMeta, None]:
    """An empty plan, and None. Arguments, which older versions had, are ignored."""
    return FlashMLASchedMeta(), None


def _check_config(old: Optional[_Config], new: _Config) -> None:
    for name, a, b in zip(_Config._fields, old or new, new):
        if a != b:
            raise ValueError("%s: the call has %s = %s, but its plan was made for %s" % (_WHERE, name, b, a))


def _check_first(config: _Config, q: Tensor, k_cache: Tensor, num_splits: Any, head_dim_v: int) -> None:
    """What later calls have in common with the first."""
    if num_splits is not None:
        raise ValueError("%s: num_splits must be None: the plan has the splits" % _WHERE)
    if head_dim_v != _VALUES:
        raise NotImplementedError("%s: head_dim_v = %d is not supported, expected %d" % (_WHERE, head_dim_v, _VALUES))
    if (k_cache.element_size() == 1) != config.is_fp8_kvcache:
        raise ValueError("%s: is_fp8_kvcache is %s, but k_cache is of %s" % (_WHERE, config.is_fp8_kvcache, k_cache.dtype))
    if config.topk is None:
        if q.shape[3] == _VALUES:
            raise NotImplementedError("%s: keys of %d are not supported in dense decoding" % (_WHERE, _VALUES))
        return
    if config.causal:
        raise ValueError("%s: causal must be False with indices" % _WHERE)
    if not config.is_fp8_kvcache:
        raise NotImplementedError("%s: indices are not supported without is_fp8_kvcache" % _WHERE)
    if config.h_k != 1:
        raise NotImplementedError("%s: %d key heads are not supported with indices" % (_WHERE, config.h_k))


def _config(q: Tensor, k_cache: Tensor, causal: bool, is_fp8_kvcache: bool, indices: Optional[Tensor],
            extra_k_cache: Optional[Tensor], extra_indices: Optional[Tensor]) -> _Config:
    batch, queries, heads = q.shape[:3]
    return _Config(batch, queries, heads, k_cache.shape[1], k_cache.shape[2], causal, is_fp8_kvcache,
                   indices.shape[2] if indices is not None else None, extra_k_cache.shape[1] if extra_k_cache is not None else None,
                   extra_indices.shape[2] if extra_indices is not None else None)


def _check_dense(block_table: Optional[Tensor], cache_seqlens: Optional[Tensor], attn_sink: Any, extra_k_cache: Any,
                 extra_indices_in_kvcache: Any, topk_length: Any, extra_topk_length: Any) -> None:
    refuse(_WHERE + ": dense decoding", attn_sink=attn_sink, extra_k_cache=extra_k_cache,
           extra_indices_in_kvcache=extra_indices_in_kvcache, topk_length=topk_length, extra_topk_length=extra_topk_length)
    if block_table is None or cache_seqlens is None:
        raise ValueError("%s: dense decoding needs block_table and cache_seqlens" % _WHERE)


def _keep(meta: FlashMLASchedMeta, config: _Config, plan: ops.MlaPlan) -> None:
    meta.plan, meta.config, meta.have_initialized = plan, config, True
    meta.tile_scheduler_metadata = meta.num_splits = plan.memory


def flash_mla_with_kvcache(q: Tensor, k_cache: Tensor, block_table: Optional[Tensor], cache_seqlens: Optional[Tensor],
                           head_dim_v: int, tile_scheduler_metadata: FlashMLASchedMeta, num_splits: None = None,
                           softmax_scale: Optional[float] = None, causal: bool = False, is_fp8_kvcache: bool = False,
                           indices: Optional[Tensor] = None, attn_sink: Optional[Tensor] = None,
                           extra_k_cache: Optional[Tensor] = None, extra_indices_in_kvcache: Optional[Tensor] = None,
                           topk_length: Optional[Tensor] = None,
                           extra_topk_length: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    """One decoding step of a layer over a paged latent cache; with `indices` over lists of slots, else over cache_seqlens tokens.

    q         [b][s_q][h_q][576], bf16, in dense decoding or f16; in sparse decoding also [512]
    k_cache   [pages][page size][h_k][576] as q; is_fp8_kvcache: bytes, [pages][page size][1][656], of keys of 512 [584]
    block_table i32 [b][pages of each], cache_seqlens i32 [b]: of dense decoding; with indices they may be None
    tile_scheduler_metadata: of `get_mla_metadata`: one for all layers of a step
    causal    dense: query j sees keys before cache_seqlens - (s_q - 1 - j)
    indices   i32 [b][s_q][topk]: slots, page * (page size) + offset, -1 for none; of extra_k_cache extra_indices_in_kvcache
    topk_length, extra_topk_length i32 [b]: how many entries count; attn_sink f32 [h_q]: a logit in the denominator of out
    softmax_scale: None: 1/sqrt(head size of q)
    Returns out [b][s_q][h_q][512] and softmax_lse, f32 [b][h_q][s_q]: +infinity for a row without keys, whose out is 0.
    """
    if is_dynamo_compiling():
        return _untraced_with_kvcache(q, k_cache, block_table, cache_seqlens, head_dim_v, tile_scheduler_metadata, num_splits,
                                      softmax_scale, causal, is_fp8_kvcache, indices, attn_sink, extra_k_cache,
                                      extra_indices_in_kvcache, topk_length, extra_topk_length)
    meta = tile_scheduler_metadata
    if not isinstance(meta, FlashMLASchedMeta):
        raise TypeError("%s: tile_scheduler_metadata is no FlashMLASchedMeta, which get_mla_metadata() returns" % _WHERE)
    plan = meta.plan if meta.tile_scheduler_metadata is not None else None
    if plan is not None:
        if indices is attn_sink is extra_k_cache is extra_indices_in_kvcache is topk_length is extra_topk_length is None:
            return _decode(plan, meta.config, q, k_cache, block_table, cache_seqlens, head_dim_v, num_splits, softmax_scale, causal,
                           is_fp8_kvcache)
        return _decode(plan, meta.config, q, k_cache, block_table, cache_seqlens, head_dim_v, num_splits, softmax_scale, causal,
                       is_fp8_kvcache, indices, attn_sink, extra_k_cache, extra_indices_in_kvcache, topk_length, extra_topk_length)
    config = _config(q, k_cache, causal, is_fp8_kvcache, indices, extra_k_cache, extra_indices_in_kvcache)
    if meta.config != config:
        if meta.have_initialized:
            _check_config(meta.config, config)
        _check_first(config, q, k_cache, num_splits, head_dim_v)
    if indices is None:
        _check_dense(block_table, cache_seqlens, attn_sink, extra_k_cache, extra_indices_in_kvcache, topk_length, extra_topk_length)
        plan = ops.mla_plan(cache_seqlens, batch=config.b, queries=config.s_q, query_heads=config.h_q, key_heads=config.h_k, like=q)
    else:
        plan = ops.mla_plan(batch=config.b, queries=config.s_q, query_heads=config.h_q, topk=config.topk or 0,
                            extra_topk=config.extra_topk or 0, topk_lengths=topk_length, extra_topk_lengths=extra_topk_length, like=q)
    made = _decode(plan, config, q, k_cache, block_table, cache_seqlens, head_dim_v, num_splits, softmax_scale, causal,
                   is_fp8_kvcache, indices, attn_sink, extra_k_cache, extra_indices_in_kvcache, topk_length, extra_topk_length)
    _keep(meta, config, plan)                   # not before a call went through
    return made


_untraced_with_kvcache = disable(flash_mla_with_kvcache)        # one break of the graph, as untraced() makes it


@warm
def _decode(plan: ops.MlaPlan, planned: Optional[_Config], q: Tensor, k_cache: Tensor, block_table: Optional[Tensor],
            cache_seqlens: Optional[Tensor], head_dim_v: int, num_splits: None, softmax_scale: Optional[float], causal: bool,
            is_fp8_kvcache: bool, indices: Optional[Tensor] = None, attn_sink: Optional[Tensor] = None,
            extra_k_cache: Optional[Tensor] = None, extra_indices_in_kvcache: Optional[Tensor] = None,
            topk_length: Optional[Tensor] = None, extra_topk_length: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    """With a plan that was made for a call of this configuration."""
    config = _config(q, k_cache, causal, is_fp8_kvcache, indices, extra_k_cache, extra_indices_in_kvcache)
    if planned != config:
        _check_config(planned, config)
        _check_first(config, q, k_cache, num_splits, head_dim_v)
    if indices is None:
        _check_dense(block_table, cache_seqlens, attn_sink, extra_k_cache, extra_indices_in_kvcache, topk_length, extra_topk_length)
        return ops.mla_decode(plan, q, k_cache, block_table, cache_seqlens, causal=causal, scale=softmax_scale)
    return ops.mla_decode_sparse(plan, q, k_cache, indices, topk_lengths=topk_length, extra_cache=extra_k_cache,
                                 extra_indices=extra_indices_in_kvcache, extra_topk_lengths=extra_topk_length, sink=attn_sink,
                                 scale=softmax_scale)


# ---- prefill

@untraced
def flash_mla_sparse_fwd(q: Tensor, kv: Tensor, indices: Tensor, sm_scale: float, d_v: int = 512,
                         attn_sink: Optional[Tensor] = None,
                         topk_length: Optional[Tensor] = None) -> Tuple[Tensor, Tensor, Tensor]:
    """Latent prefill: each query attends to its own list of rows of kv.

    q         bf16 [s_q][h_q][d], kv bf16 [s_kv][1][d]; d is 576 or 512
    indices   i32 [s_q][1][topk]: -1, or anything from s_kv on, is none; topk_length i32 [s_q]: how many count
    attn_sink f32 [h_q]: a logit in the denominator of out
    Returns out, bf16 [s_q][h_q][512], max_logits and lse, f32 [s_q][h_q]: for a row without keys 0, -infinity and +infinity.
    """
    if d_v != _VALUES:
        raise NotImplementedError("%s: d_v = %d is not supported, expected %d" % (_WHERE, d_v, _VALUES))
    if kv.shape[1] != 1:
        raise NotImplementedError("%s: kv of %d key heads is not supported" % (_WHERE, kv.shape[1]))
    return ops.mla_prefill_sparse(q, kv, indices, sink=attn_sink, topk_lengths=topk_length, scale=sm_scale)


def flash_attn_varlen_func(q: Tensor, k: Tensor, v: Tensor, cu_seqlens_qo: Tensor, cu_seqlens_kv: Tensor, max_seqlen_qo: int,
                           max_seqlen_kv: int, dropout_p: float = 0.0, softmax_scale: Optional[float] = None,
                           causal: bool = False, deterministic: bool = False,
                           is_varlen: bool = True) -> Tuple[Tensor, Tensor]:
    """Attention of a packed ragged batch: q [TQ][h][d], k [TK][h_k][d], v [TK][h_k][d_v], cu_seqlens i32 [b + 1]. Gradients are
    recorded where PyTorch asks for them; deterministic: those are the same bits every time. is_varlen changes nothing: sequences
    of one length are what cu_seqlens says as well.

    Returns out [TQ][h][d_v] and lse, f32 [TQ][h], with stride 1 along the tokens: -infinity for a row without keys.
    """
    refuse(_WHERE, dropout_p=dropout_p)
    q, k, v = rows(q, k, v)
    if records(q, k, v):
        out, lse = kt.attention_varlen(q, k, v, cu_seqlens_qo, cu_seqlens_kv, max_seqlen_qo, max_seqlen_kv, causal=causal,
                                       scale=softmax_scale, deterministic=deterministic)
    else:
        out, lse = ops.attention_varlen(q, k, v, cu_seqlens_qo, cu_seqlens_kv, max_seqlen_qo, causal=causal, scale=softmax_scale,
                                        return_lse=True)
    return out, lse.t()


def flash_attn_varlen_qkvpacked_func(qkv: Tensor, cu_seqlens: Tensor, max_seqlen: int, head_dim_qk: int, dropout_p: float = 0.0,
                                     softmax_scale: Optional[float] = None, causal: bool = False, deterministic: bool = False,
                                     is_varlen: bool = True) -> Tuple[Tensor, Tensor]:
    """`flash_attn_varlen_func` with q, k and v of each token and head in one row: qkv [TOKENS][h][2 * head_dim_qk + d_v]."""
    d = head_dim_qk
    return flash_attn_varlen_func(qkv[..., :d], qkv[..., d:2 * d], qkv[..., 2 * d:], cu_seqlens, cu_seqlens, max_seqlen, max_seqlen,
                                  dropout_p, softmax_scale, causal, deterministic, is_varlen)


def flash_attn_varlen_kvpacked_func(q: Tensor, kv: Tensor, cu_seqlens_qo: Tensor, cu_seqlens_kv: Tensor, max_seqlen_qo: int,
                                    max_seqlen_kv: int, head_dim_qk: int, dropout_p: float = 0.0,
                                    softmax_scale: Optional[float] = None, causal: bool = False, deterministic: bool = False,
                                    is_varlen: bool = True) -> Tuple[Tensor, Tensor]:
    """`flash_attn_varlen_func` with k and v of each token and head in one row: kv [TK][h_k][head_dim_qk + d_v]."""
    return flash_attn_varlen_func(q, kv[..., :head_dim_qk], kv[..., head_dim_qk:], cu_seqlens_qo, cu_seqlens_kv, max_seqlen_qo,
                                  max_seqlen_kv, dropout_p, softmax_scale, causal, deterministic, is_varlen)
