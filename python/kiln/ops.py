# SPDX-License-Identifier: MIT
"""The library's operators on the tensors of any framework.

    out = kiln.ops.attention(q, k, v, causal=True)
    c = kiln.ops.gemm(a, b, transpose_b=True, activation="silu")

Each function is one call of include/kiln/ops, whose headers have every rule; arguments have the names that the headers give
them, and so do messages. What is an output there may be left out: it is allocated by the framework of the first tensor and
returned. A tensor that is given is written and returned as well. Workspaces come from the same framework.

Shapes are in elements, outermost dimension first. Types: T is bf16, f16 or f32, the same for all tensors of a call that have it,
unless it is said otherwise. Letters: B batch, S query rows, SKV key rows, H query heads, HKV key heads, D size of queries and
keys, DV of values. Most tensors may have strides: contiguous in the last dimension, multiples of 16 bytes in the others.
`stream` is the stream to work on: None for the framework's current one, or the default one.

Every function raises `kiln.Error` with the library's message where an argument does not fit (nothing is started then), and
TypeError for what is no tensor. A first call with given types, head sizes and options builds a kernel. No gradient is recorded.
"""
from __future__ import annotations

import ctypes
from ctypes import c_size_t
from typing import Any, Dict, NamedTuple, Optional, Tuple

from ._calls import (Call, MlaPlanStruct, MlaShape, MoeRoutingStruct, PagedPlanStruct, RotaryStruct, check_values, handle_of,
                     type_name)
from ._library import TYPES, check, lib
from ._tensor import Array, as_tensor, plain_types, workspace
from ._warm import plan_types, warm

__all__ = ["MlaPlan", "PagedPlan", "QuantisedWeights", "Rotary", "activate", "activate_backward", "argmax",
           "attention", "attention_backward", "attention_backward_varlen", "attention_decode", "attention_kvpacked",
           "attention_qkvpacked", "attention_varlen", "block_mask", "block_sparse", "block_sparse_decode",
           "block_sparse_gemm", "cast_fp8", "cast_int8", "causal_conv", "causal_conv_backward", "causal_conv_step", "check_values",
           "clean_logits", "conv2d", "cross_entropy", "cross_entropy_backward", "embedding", "gated_norm",
           "gated_norm_backward", "gdn_backward", "gdn_forward", "gdn_gates", "gdn_gates_backward", "gdn_step", "gemm",
           "grouped_gemm", "grouped_gemm_weights", "grouped_mxfp4", "hadamard", "index_append", "indexed_attention",
           "indexed_attention_paged", "indexer_logits", "indexer_scores", "kernel_list", "layer_norm",
           "linear_attention", "linear_attention_backward", "linear_attention_step", "mamba2_backward",
           "mamba2_forward", "mamba2_step", "masked_decode", "mla_append", "mla_decode", "mla_decode_contiguous",
           "mla_decode_sparse", "mla_dequantize", "mla_plan", "mla_prefill_sparse", "mla_quantize", "mla_slots", "moe",
           "moe_permute", "moe_route", "moe_unpermute", "nsa_choose", "nsa_combine", "nsa_combine_backward",
           "nsa_compressed_backward", "nsa_decode", "nsa_decode_choose", "nsa_decode_pool", "nsa_forward",
           "nsa_selected", "nsa_selected_backward", "paged_append", "paged_attention", "paged_plan", "paged_slots",
           "quant_pack", "quant_ternary", "quant_unpack", "quantised_gemm", "rms_norm", "rotary_embedding", "sample", "softmax", "sparse24_pack",
           "topk", "topk_select", "vertical_slash", "vertical_slash_estimate"]

_ACTIVATIONS = {None: 0, "none": 0, "relu": 1, "gelu": 2, "gelu_tanh": 3, "silu": 4}        # kiln_activation
_FORMATS = {name: i for i, name in enumerate(("int4", "int4s", "int2", "nf4", "fp4", "mxfp4", "int8", "fp8", "int4min", "w8a8",
                                              "w4a8", "w2a8", "fp8_block", "w4a8u"))}                     # kiln_quant_format
_LAYOUTS = {name: i for i, name in enumerate(("plain", "awq", "gptq", "bitsandbytes", "twiddled", "interleaved", "gguf"))}
_PRECISIONS = {None: 0, "f32": 0, "tf32": 1, "tf32x3": 2}                                     # kiln_precision
_STYLES = {"halves": 1, "interleaved": 2, "dynamic_ntk": 3, "qwen_ntk": 4, "yarn": 5, "llama3": 6, "multi": 7}
_MOE_ACTIVATIONS = {"swiglu": 0, "geglu": 1, "swiglu_clamped": 2}                           # kiln_moe_activation
_MOE_FORMATS = {None: 0, "same": 0, "mxfp4": 1, "fp8": 2}                                     # kiln_moe_format


def kernel_list(device: str = "cpu") -> str:
    """The lines of all kernels that calls on a device have built so far, as `kiln build --emit=archive` takes them."""
    handle = handle_of(device)
    n = lib.kiln_ops_list(handle, None, 0)
    text = ctypes.create_string_buffer(n + 1)
    lib.kiln_ops_list(handle, text, n + 1)
    return text.value.decode()


def _choice(what: str, name: Any, choices: dict) -> int:
    if name not in choices:
        raise TypeError("kiln: %s is %r, expected one of %s" % (what, name, ", ".join(str(c) for c in choices if c)))
    return choices[name]


def _with_lse(out: Array, lse: Array, wanted: bool) -> Any:
    return (out, lse) if wanted else out


# ---- products

def gemm(a: Array, b: Array, c: Optional[Array] = None, *, bias: Optional[Array] = None,
         residual: Optional[Array] = None, transpose_a: bool = False, transpose_b: bool = False,
         activation: Optional[str] = None, scale: Optional[float] = None, a_scales: Optional[Array] = None,
         b_scales: Optional[Array] = None, precision: Optional[str] = None, up: Optional[Array] = None,
         up_scales: Optional[Array] = None, up_bias: Optional[Array] = None, a_places: Optional[Array] = None,
         b_places: Optional[Array] = None, type: Any = None, stream: Any = None) -> Any:
    """c = activation(scale * a_scales[m] * b_scales[n] * a b + bias) + residual, a matrix product or a batch of them; with `up`
    c = activation(...) * (scale * a_scales[m] * up_scales[n] * a up + up_bias) + residual, the first half of a gated MLP.

    a         [Z][M][K], with transpose_a [Z][K][M]; without a batch the first dimension is missing, in all tensors
    b         [Z][K][N], with transpose_b [Z][N][K]; a and b: bf16, f16, f32, f64, i8, e4m3 or e5m2, both the
              same or two of fp8
    c         [Z][M][N]; None: allocated, with elements of `type`, None: those of a, of i8 i32; bf16, f16, f32, e4m3 or e5m2, of
              i8 also i32, of f64 f64 alone
    bias      [N], residual [Z][M][N], both of c's type; or None
    a_scales  f32 [Z][M], b_scales f32 [Z][N], or None; not with c of i32 or f64. Of e4m3 without a batch also of blocks: [M][K/128],
              [N/128, rounded up][K/128], with transpose_b and `type` or `c`; K is a multiple of 128
    precision of products of f32: None or "f32", "tf32", "tf32x3" (about as exact as f32, on tensor cores)
    activation: None, "relu", "gelu", "gelu_tanh" or "silu"; scale: None: 1
    up        as b, up_scales f32 [Z][N], up_bias [N] of c's type; or None
    a_places, b_places  u8, of `sparse24_pack`: a is [Z][M][K/2] of a 2:4 sparse matrix, or b, with transpose_b, [Z][N][K/2]; or None
    Returns c.
    """
    call = Call("kiln_gemm", "kiln_gemm_args", a=a, b=b, bias=bias, residual=residual, a_scales=a_scales, b_scales=b_scales,
                up=up, up_scales=up_scales, up_bias=up_bias, a_places=a_places, b_places=b_places)
    left, right = call.tensors["a"].shape, call.tensors["b"].shape
    m = (left or (0,))[-1] if transpose_a else (left[-2:] or (0,))[0]
    n = (right[-2:] or (0,))[0] if transpose_b else (right or (0,))[-1]
    c = call.output("c", c, left[:-2] + (m, n), type or ("i32" if call.type_of("a") == "i8" else call.type_of("a")))
    call.set(transpose_a=transpose_a, transpose_b=transpose_b,
             activation=_choice("activation", activation, _ACTIVATIONS), scale=scale,
             precision=_choice("precision", precision, _PRECISIONS))
    call.run(stream)
    return c


def sparse24_pack(weights: Array, values: Optional[Array] = None, places: Optional[Array] = None, excess: Optional[Array] = None, *,
                  prune: bool = False, stream: Any = None) -> Tuple[Any, Any, Any]:
    """The two elements that are kept of each four of a row, and where they stood, for `gemm`.

    weights   bf16, f16, e4m3, e5m2 or i8 [Z][R][K], or [R][K]; K is a multiple of 8
    prune     excess is not wanted: the two largest of each four are kept, whatever the others are
    Returns (values, places, excess): as weights [Z][R][K/2]; u8 [Z][R][K/8]; i32 [Z][R], in how many groups of four of a row more
    than two are not 0: not all is kept. With prune None, if it is not given.
    """
    call = Call("kiln_sparse24_pack", "kiln_sparse24_pack_args", weights=weights)
    shape = call.tensors["weights"].shape
    k = (shape or (0,))[-1]
    values = call.output("values", values, shape[:-1] + (k // 2,), call.type_of("weights"))
    places = call.output("places", places, shape[:-1] + (k // 8,), "u8")
    if excess is not None or not prune:
        excess = call.output("excess", excess, shape[:-1], "i32")
    call.set(prune=prune)
    call.run(stream)
    return values, places, excess


class QuantisedWeights(NamedTuple):
    """Weights as `quantised_gemm` takes them; kiln/ops/quant.h has the formats."""
    format: str
    group: int
    codes: Array
    scales: Optional[Array] = None
    zeros: Optional[Array] = None
    minima: Optional[Array] = None


def quant_pack(weights: Array, scales: Optional[Array] = None, zeros: Optional[Array] = None, *, format: str, n: int, k: int,
               layout: str = "plain", group: int = 128, weight_group: int = 0, exponent_offset: int = 0, type: Any = "bf16",
               stream: Any = None) -> QuantisedWeights:
    """Weights of a checkpoint, of n rows and k columns, in the library's own layout.

    weights, scales, zeros: as `layout` has them: "plain", "awq", "gptq", "bitsandbytes", "twiddled", "interleaved" or "gguf"
    format       "int4", "int4s", "int2", "nf4", "fp4", "mxfp4", "int8", "fp8", "int4min", "w8a8", "w4a8" or "w2a8"
    group        columns of a scale of the result: 16, 32, 64 or 128; weight_group: of one of `scales`, 0: all k
    type         of the result's scales: those of the activations cost least
    """
    call = Call("kiln_quant_pack", "kiln_quant_pack_args", weights=weights, weight_scales=scales, weight_zeros=zeros)
    number = _choice("format", format, _FORMATS)
    columns, groups = ctypes.c_int64(), ctypes.c_int64()
    bits = {"int2": 2, "w2a8": 2, "int8": 8, "fp8": 8, "w8a8": 8}.get(format, 4)
    check(lib.kiln_quant_extents(number, ctypes.c_int64(k), group, None, ctypes.byref(columns), ctypes.byref(groups)))
    codes = call.output("codes", None, (n, columns.value * bits // 8), "u8")
    grouped = format not in ("w8a8", "w4a8", "w2a8")
    scale_type = "u8" if format == "mxfp4" else type
    made = call.output("scales", None, (n, groups.value), scale_type) if grouped else None
    made_zeros = call.output("zeros", None, (n, groups.value), "u8") if zeros is not None else None
    minima = call.output("minima", None, (n, groups.value), scale_type) if format == "int4min" else None
    call.set(format=number, layout=_choice("layout", layout, _LAYOUTS), k=k, group=group, weight_group=weight_group,
             exponent_offset=exponent_offset)
    call.run(stream)
    return QuantisedWeights(format, group, codes, made, made_zeros, minima)


def quant_unpack(weights: QuantisedWeights, k: int, out: Optional[Array] = None, *, type: Any = "bf16",
                 stream: Any = None) -> Any:
    """Packed weights as numbers, rounded once: out, [N][k] of `type`, bf16, f16 or f32, or of `out`. Returns out."""
    call = Call("kiln_quant_unpack", "kiln_quant_unpack_args", codes=weights.codes, scales=weights.scales, zeros=weights.zeros,
                minima=weights.minima)
    out = call.output("weights", out, (call.extents("codes", 1)[0], k), type)
    call.set(format=_choice("format", weights.format, _FORMATS), group=weights.group)
    call.run(stream)
    return out


def quant_ternary(weights: Array, offsets: Optional[Array] = None, *, stream: Any = None) -> QuantisedWeights:
    """Weights of BitNet: -1, 0 or 1 times the mean magnitude of a group of rows, for `quantised_gemm`.

    weights   T [N][K], K a multiple of 32, at least 32; offsets: i32 [groups + 1], the rows of each group, None: one group
    """
    call = Call("kiln_quant_ternary", "kiln_quant_ternary_args", weights=weights, offsets=offsets)
    n, k = call.extents("weights", 2)
    codes = call.output("codes", None, (n, -(-k // 128) * 32), "u8")
    scales = call.output("scales", None, (n,), "f32")
    call.run(stream)
    return QuantisedWeights("w2a8", 0, codes, scales)


def quantised_gemm(a: Array, weights: QuantisedWeights, c: Optional[Array] = None, *, a_scales: Optional[Array] = None,
                   bias: Optional[Array] = None, residual: Optional[Array] = None, type: Any = None,
                   stream: Any = None) -> Any:
    """c = a w^T + bias + residual with quantised weights.

    a         [M][K], bf16 or f16; of "w8a8", "w4a8", "w4a8u" and "w2a8" i8, of "fp8_block" e4m3
    weights   of `quant_pack`; of "fp8_block" codes e4m3 [N][K] with scales f32 [N/128, rounded up][K/128]; of "w4a8u" zeros u8 [N]
    a_scales  f32 [M], of "fp8_block" [M][K/128], of which columns may be contiguous
    residual  [M][N], of formats with scales of groups
    c         [M][N]; None: allocated, with elements of `type`, None: those of a, of bytes bf16; its columns may be contiguous
    Returns c.
    """
    call = Call("kiln_quantised_gemm", "kiln_quantised_gemm_args", a=a, codes=weights.codes, scales=weights.scales,
                zeros=weights.zeros, minima=weights.minima, a_scales=a_scales, bias=bias, residual=residual)
    own = call.type_of("a")
    c = call.output("c", c, (call.extents("a", 1)[0], call.extents("codes", 1)[0]), type or (own if own in ("bf16", "f16") else "bf16"))
    call.set(format=_choice("format", weights.format, _FORMATS), group=weights.group)
    call.run(stream)
    return c


# ---- attention

def attention(q: Array, k: Array, v: Array, out: Optional[Array] = None, lse: Optional[Array] = None, *,
              causal: bool = False, window: int = 0, scale: Optional[float] = None, sinks: Optional[Array] = None,
              softcap: float = 0, return_lse: bool = False, stream: Any = None) -> Any:
    """Softmax attention, with grouped heads: out = softmax(scale q k^T) v.

    q         T [B][S][H][D], k T [B][SKV][HKV][D], v T [B][SKV][HKV][DV]; H is a multiple of HKV, D and DV of 16, up to 256
    causal    query i of S sees key j of SKV if j <= i + SKV - S; window > 0: causal, and the last `window` keys only
    scale     None: 1/sqrt(D)
    sinks     f32 [H]: logits that join the sums of exponentials, or None; softcap > 0: scores become softcap * tanh(score / softcap)
    Returns out, T [B][S][H][DV]; with return_lse, or where `lse` is given, (out, lse): f32 [B][H][S], the natural logarithms of
    the sums of exponentials.
    """
    call = Call("kiln_attention_forward", "kiln_attention_args", q=q, k=k, v=v, sinks=sinks)
    batch, rows, heads = call.extents("q", 3)
    out = call.output("out", out, (batch, rows, heads, call.extents("v", 4)[3]), call.type_of("q"))
    wanted = return_lse or lse is not None
    if wanted:
        lse = call.output("lse", lse, (batch, heads, rows), "f32")
    call.set(causal=causal, window=window, scale=scale, softcap=softcap)
    call.run(stream)
    return _with_lse(out, lse, wanted)


def attention_varlen(q: Array, k: Array, v: Array, q_offsets: Array, k_offsets: Array, max_queries: int,
                     out: Optional[Array] = None, lse: Optional[Array] = None, *, causal: bool = False,
                     window: int = 0, scale: Optional[float] = None, sinks: Optional[Array] = None, softcap: float = 0,
                     return_lse: bool = False, stream: Any = None) -> Any:
    """`attention` over a ragged batch that is packed without padding.

    q         T [TQ][H][D], k T [TK][HKV][D], v T [TK][HKV][DV]
    q_offsets i32 [B + 1]: sequence b is rows q_offsets[b] to q_offsets[b + 1] - 1 of q; k_offsets the same of k and v
    max_queries: rows of the longest sequence of queries, or more
    Returns out, T [TQ][H][DV]; with return_lse (out, lse): f32 [H][TQ].
    """
    call = Call("kiln_attention_forward_varlen", "kiln_attention_varlen_args", q=q, k=k, v=v, q_offsets=q_offsets,
                k_offsets=k_offsets, sinks=sinks)
    rows, heads = call.extents("q", 2)
    out = call.output("out", out, (rows, heads, call.extents("v", 3)[2]), call.type_of("q"))
    wanted = return_lse or lse is not None
    if wanted:
        lse = call.output("lse", lse, (heads, rows), "f32")
    call.set(max_queries=max_queries, causal=causal, window=window, scale=scale, softcap=softcap)
    call.run(stream)
    return _with_lse(out, lse, wanted)


def attention_qkvpacked(qkv: Array, offsets: Array, head_size: int, max_rows: int, out: Optional[Array] = None,
                        lse: Optional[Array] = None, *, causal: bool = False, window: int = 0,
                        scale: Optional[float] = None, sinks: Optional[Array] = None, softcap: float = 0,
                        return_lse: bool = False, stream: Any = None) -> Any:
    """`attention_varlen` with q, k and v of each token and head in one tensor.

    qkv       T [TOKENS][H][2 * D + DV]: q, then k, then v; head_size is D
    offsets   i32 [B + 1], of queries and keys alike; max_rows: of the longest sequence, or more
    Returns out, T [TOKENS][H][DV]; with return_lse (out, lse): f32 [H][TOKENS].
    """
    call = Call("kiln_attention_forward_qkvpacked", "kiln_attention_qkvpacked_args", qkv=qkv, offsets=offsets,
                sinks=sinks)
    rows, heads, width = call.extents("qkv", 3)
    out = call.output("out", out, (rows, heads, width - 2 * head_size), call.type_of("qkv"))
    wanted = return_lse or lse is not None
    if wanted:
        lse = call.output("lse", lse, (heads, rows), "f32")
    call.set(head_size=head_size, max_rows=max_rows, causal=causal, window=window, scale=scale, softcap=softcap)
    call.run(stream)
    return _with_lse(out, lse, wanted)


def attention_kvpacked(q: Array, kv: Array, q_offsets: Array, k_offsets: Array, max_queries: int,
                       out: Optional[Array] = None, lse: Optional[Array] = None, *, causal: bool = False,
                       window: int = 0, scale: Optional[float] = None, sinks: Optional[Array] = None, softcap: float = 0,
                       return_lse: bool = False, stream: Any = None) -> Any:
    """`attention_varlen` with k and v of each token and head in one tensor: kv, T [TK][HKV][D + DV]; q is T [TQ][H][D].

    Returns out, T [TQ][H][DV]; with return_lse (out, lse): f32 [H][TQ].
    """
    call = Call("kiln_attention_forward_kvpacked", "kiln_attention_kvpacked_args", q=q, kv=kv, q_offsets=q_offsets,
                k_offsets=k_offsets, sinks=sinks)
    rows, heads, size = call.extents("q", 3)
    out = call.output("out", out, (rows, heads, call.extents("kv", 3)[2] - size), call.type_of("q"))
    wanted = return_lse or lse is not None
    if wanted:
        lse = call.output("lse", lse, (heads, rows), "f32")
    call.set(max_queries=max_queries, causal=causal, window=window, scale=scale, softcap=softcap)
    call.run(stream)
    return _with_lse(out, lse, wanted)


def _gradients(call: Call, dq: Array, dk: Array, dv: Array, sinks: Optional[Array] = None) -> Tuple[Any, ...]:
    def like(field: str, given: Array, of: str) -> Any:
        return call.output(field, given, call.tensors[of].shape, call.type_of(of))
    made = like("dq", dq, "q"), like("dk", dk, "k"), like("dv", dv, "v")
    return made if sinks is None else made + (like("dsinks", None, "sinks"),)


def attention_backward(q: Array, k: Array, v: Array, out: Array, lse: Array, dout: Array, dq: Optional[Array] = None,
                       dk: Optional[Array] = None, dv: Optional[Array] = None, *, causal: bool = False,
                       window: int = 0, deterministic: bool = False, scale: Optional[float] = None,
                       sinks: Optional[Array] = None, softcap: float = 0, stream: Any = None) -> Tuple[Any, ...]:
    """The gradients of `attention`, from its inputs, its out and lse, and the gradient dout of out, T [B][S][H][DV].

    deterministic: the same bits every time, slower. causal, window, scale, sinks and softcap as in the forward call.
    Returns (dq, dk, dv), of the shapes and types of q, k and v; those of k and v are summed over the query heads of a key head;
    with sinks (dq, dk, dv, dsinks), f32 [H].
    """
    call = Call("kiln_attention_backward", "kiln_attention_backward_args", q=q, k=k, v=v, out=out, lse=lse, dout=dout,
                sinks=sinks)
    made = _gradients(call, dq, dk, dv, sinks)
    call.set(causal=causal, window=window, deterministic=deterministic, scale=scale, softcap=softcap)
    call.run(stream)
    return made


def attention_backward_varlen(q: Array, k: Array, v: Array, q_offsets: Array, k_offsets: Array, max_keys: int,
                              out: Array, lse: Array, dout: Array, dq: Optional[Array] = None,
                              dk: Optional[Array] = None, dv: Optional[Array] = None, *, causal: bool = False,
                              window: int = 0, deterministic: bool = False, max_queries: int = 0,
                              scale: Optional[float] = None, sinks: Optional[Array] = None, softcap: float = 0,
                              stream: Any = None) -> Tuple[Any, ...]:
    """The gradients of `attention_varlen`. max_keys: keys of the longest sequence, or more; deterministic needs max_queries.

    Returns (dq, dk, dv), with sinks (dq, dk, dv, dsinks).
    """
    call = Call("kiln_attention_backward_varlen", "kiln_attention_backward_varlen_args", q=q, k=k, v=v,
                q_offsets=q_offsets, k_offsets=k_offsets, out=out, lse=lse, dout=dout, sinks=sinks)
    made = _gradients(call, dq, dk, dv, sinks)
    call.set(max_keys=max_keys, max_queries=max_queries, causal=causal, window=window, deterministic=deterministic,
             scale=scale, softcap=softcap)
    call.run(stream)
    return made


def attention_decode(q: Array, k: Array, v: Array, out: Optional[Array] = None, lse: Optional[Array] = None, *,
                     mask: Optional[Array] = None, lengths: Optional[Array] = None, splits: int = 0,
                     scale: Optional[float] = None, softcap: float = 0, sinks: Optional[Array] = None,
                     return_lse: bool = False, stream: Any = None) -> Any:
    """Attention of one query row for each request against a cache of S keys, which are split among multiprocessors or cores.

    q         T [B][H][D], k T [B][S][HKV][D], v T [B][S][HKV][DV]
    mask      u8 [B][S][HKV]: 0 masks the key; lengths i32 [B]: how many of the S keys each request has; or None
    splits    into how many parts the keys are split; 0: as many as fill the device; softcap, sinks as for `attention`
    Returns out, T [B][H][DV]; with return_lse (out, lse): f32 [B][H].
    """
    call = Call("kiln_attention_decode", "kiln_attention_decode_args", q=q, k=k, v=v, mask=mask, lengths=lengths,
                sinks=sinks)
    batch, heads = call.extents("q", 2)
    out = call.output("out", out, (batch, heads, call.extents("v", 4)[3]), call.type_of("q"))
    wanted = return_lse or lse is not None
    if wanted:
        lse = call.output("lse", lse, (batch, heads), "f32")
    call.set(splits=splits, scale=scale, softcap=softcap)
    call.run(stream)
    return _with_lse(out, lse, wanted)


class Rotary(NamedTuple):
    """How rotary embedding turns the elements of a head; include/kiln/ops/rotary.h has each style's angles. 0 is a default."""

    style: str = "halves"                       # "interleaved", "dynamic_ntk", "qwen_ntk", "yarn", "llama3", "multi"
    size: int = 0                               # how many elements of a head are rotated; 0: all; interleaved: half of them
    base: float = 0                             # 0: 10000
    scale: float = 0
    low: float = 0
    high: float = 0
    extrapolation: float = 0
    magnitude: float = 0
    offset: int = 0


def _rotary(call: Call, rotary: Optional[Rotary]) -> None:
    if rotary is not None:
        made = RotaryStruct(_choice("style", rotary.style, _STYLES), *rotary[1:])
        call.set(rotary=ctypes.pointer(made))


def masked_decode(q: Array, k: Array, v: Array, cache: Array, table: Array, lengths: Array,
                  out: Optional[Array] = None, *, rotary: Optional[Rotary] = None, scales: Optional[Array] = None,
                  cache2: Optional[Array] = None, ring: int = 0, max_length: int = 0, splits: int = 0,
                  q_bias: Optional[Array] = None, k_bias: Optional[Array] = None, v_bias: Optional[Array] = None,
                  qkv_scales: Optional[Array] = None, type: Any = None, tasks: Optional[Array] = None,
                  key_factors: Optional[Array] = None, value_factors: Optional[Array] = None,
                  positions: Optional[Array] = None, prefix_lengths: Optional[Array] = None,
                  positions_after_prefix: bool = False, scale: Optional[float] = None, slopes: Optional[Array] = None,
                  bias: Optional[Array] = None, bucket_bias: Optional[Array] = None, bucket_distance: int = 0,
                  one_sided_buckets: bool = False, log_scaling: bool = False, trained_length: int = 0,
                  finished: Optional[Array] = None, cross: bool = False, beams: int = 0,
                  sources: Optional[Array] = None, prompt_lengths: Optional[Array] = None,
                  out_scale: Optional[Array] = None, sinks: Optional[Array] = None, stream: Any = None) -> Any:
    """One decoding step of a layer: biases, rotary embedding, attention over a paged cache, and the new token appended to it.

    q         T or i8 [R][H][D], k and v [R][HKV][D]: the new tokens' projections, a row each
    cache     T, i8 or e4m3 [blocks][HKV][page size][D], read and written
    table     i32 [R][2][pages]: the block of each page of keys, then of values
    lengths   i32 [R]: tokens in the cache, without the new one
    The other arguments each add one thing; include/kiln/ops/decode.h has their shapes.
    Returns out, T [R][H][D]; T is `type`, None: that of q.
    """
    call = Call("kiln_masked_decode", "kiln_masked_decode_args", q=q, k=k, v=v, table=table, lengths=lengths,
                q_bias=q_bias, k_bias=k_bias, v_bias=v_bias, qkv_scales=qkv_scales, tasks=tasks,
                key_factors=key_factors, value_factors=value_factors, positions=positions,
                prefix_lengths=prefix_lengths, slopes=slopes, bias=bias, bucket_bias=bucket_bias, finished=finished,
                sources=sources, prompt_lengths=prompt_lengths, out_scale=out_scale, sinks=sinks)
    for field, given in (("cache", cache), ("cache2", cache2), ("scales", scales)):
        if given is not None and cross:
            call.put(field, as_tensor(given))
        elif given is not None:
            call.inout(field, given)
    out = call.output("out", out, call.extents("q", 3), type or call.type_of("q"))
    _rotary(call, rotary)
    call.set(ring=ring, max_length=max_length, splits=splits, positions_after_prefix=positions_after_prefix,
             scale=scale, type=None if type is None else TYPES[type_name(type)], bucket_distance=bucket_distance,
             one_sided_buckets=one_sided_buckets, log_scaling=log_scaling, trained_length=trained_length, cross=cross,
             beams=beams)
    call.run(stream)
    return out


# ---- paged caches of keys and values

class PagedPlan:
    """How the keys of a ragged batch are divided: made by `paged_plan` once a step, for every layer. It holds its memory."""

    __slots__ = ("struct", "memory", "pointer", "sizes", "__weakref__")

    def __init__(self, struct: PagedPlanStruct, memory: Array):
        self.struct = struct
        self.memory = memory
        self.pointer = ctypes.pointer(struct)
        self.sizes: Dict[Any, int] = {}         # of workspaces, by kind of call


def paged_plan(lengths: Array, *, rows: int, heads: int, key_heads: int, size: int, value_size: int = 0,
               eight_bit: bool = False, q_offsets: Optional[Array] = None, max_queries: int = 0, causal: bool = False,
               window: int = 0, parts: int = 0, stream: Any = None) -> PagedPlan:
    """The plan for `paged_attention`: the keys of the whole batch in parts of equal work.

    lengths     i32 [B], q_offsets i32 [B + 1] or None, max_queries, causal, window: those of the calls
    rows        TQ; heads H, key_heads HKV, size D, value_size DV, 0: D; eight_bit: the caches are e4m3
    parts       0: as many as fill the device
    """
    call = Call("kiln_paged_plan_make", "kiln_paged_plan_args", lengths=lengths, q_offsets=q_offsets)
    call.set(rows=rows, max_queries=max_queries, heads=heads, key_heads=key_heads, size=size, value_size=value_size,
             eight_bit=eight_bit, causal=causal, window=window, parts=parts)
    n, made, first = c_size_t(), PagedPlanStruct(), as_tensor(lengths)
    lib.kiln_paged_plan_size.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(c_size_t)]
    check(lib.kiln_paged_plan_size(handle_of(first.device), ctypes.byref(call.args), ctypes.byref(n)))
    address, n_bytes, owner = workspace(first.framework, n.value, first.device, stream)
    call.set(memory=address, memory_bytes=n_bytes)
    call.run(stream, made)
    return PagedPlan(made, owner)


def paged_attention(q: Array, k: Array, v: Array, table: Array, lengths: Array, out: Optional[Array] = None,
                    lse: Optional[Array] = None, *, q_offsets: Optional[Array] = None, max_queries: int = 0,
                    max_keys: int = 0, causal: bool = False, window: int = 0, softcap: float = 0,
                    slopes: Optional[Array] = None, sinks: Optional[Array] = None,
                    k_scales: Optional[Array] = None, v_scales: Optional[Array] = None, splits: int = 0,
                    scale: Optional[float] = None, plan: Optional[PagedPlan] = None, return_lse: bool = False,
                    stream: Any = None) -> Any:
    """Attention over paged keys and values: decoding, drafts, prefill in chunks, batches of all in one call.

    q         bf16 or f16 [TQ][H][D]: request b has rows q_offsets[b] to q_offsets[b + 1] - 1; q_offsets None: TQ / B rows each
    k, v      as q, or both e4m3 [pages][page size][HKV][D], [pages][page size][HKV][DV]; a page has 1 to 256 tokens
    table     i32 [B][pages per request]; lengths i32 [B]: keys of each request, the new ones included; q_offsets i32 [B + 1]
    max_queries, max_keys: of the request that has most, or more; 0: not known
    causal, window: as for `attention`; softcap > 0: scores become softcap * tanh(score / softcap)
    slopes    f32 [H]: ALiBi; sinks f32 [H]: logits in the denominator of out alone; or None
    k_scales, v_scales: f32 [HKV], what keys and values of a head are multiplied by; None: 1
    splits    into how many shares the keys are split; 0: as many as fill the device
    plan      of `paged_plan`, made for the same lengths, offsets, sizes and masks; None: none
    Returns out, as q [TQ][H][DV]; with return_lse (out, lse): f32 [TQ][H].
    """
    call = Call("kiln_paged_attention", "kiln_paged_attention_args", q=q, k=k, v=v, table=table, lengths=lengths,
                q_offsets=q_offsets, slopes=slopes, sinks=sinks, k_scales=k_scales, v_scales=v_scales)
    rows, heads = call.extents("q", 2)
    out = call.output("out", out, (rows, heads, call.extents("v", 4)[3]), call.type_of("q"))
    wanted = return_lse or lse is not None
    if wanted:
        lse = call.output("lse", lse, (rows, heads), "f32")
    call.set(max_queries=max_queries, max_keys=max_keys, causal=causal, window=window, softcap=softcap, splits=splits,
             scale=scale)
    if plan is not None:
        call.set(plan=plan.pointer)
    call.run(stream)
    return _with_lse(out, lse, wanted)


def paged_slots(table: Array, lengths: Array, tokens: int, page_size: int, slots: Optional[Array] = None,
                positions: Optional[Array] = None, *, q_offsets: Optional[Array] = None, stream: Any = None) -> Any:
    """Slots and positions of the new tokens, the last of each request, for every layer's append.

    table     i32 [B][pages per request]; lengths i32 [B], including the new tokens; page_size: tokens of a page
    tokens    the new ones of all requests, TQ; q_offsets as for `paged_attention`
    Returns (slots, positions), i32 [TQ]; a slot is -1 for a token before the first or past the table.
    """
    call = Call("kiln_paged_slots", "kiln_paged_slots_args", table=table, lengths=lengths, q_offsets=q_offsets)
    slots = call.output("slots", slots, (tokens,), "i32")
    positions = call.output("positions", positions, (tokens,), "i32")
    call.set(page_size=page_size)
    call.run(stream)
    return slots, positions


def paged_append(keys: Array, values: Array, k: Array, v: Array, slots: Array, *, positions: Optional[Array] = None,
                 k_scales: Optional[Array] = None, v_scales: Optional[Array] = None, rotary: Optional[Rotary] = None,
                 trained_length: int = 0, stream: Any = None) -> Any:
    """Writes keys and values to their slots of paged caches, the keys rotated if `rotary` and `positions` are given. keys: bf16 or
    f16 [N][HKV][D]; values: [N][HKV][DV]; k, v as for `paged_attention`; slots, positions: i32 [N];
    k_scales, v_scales: f32 [HKV], what heads are divided by, for caches of e4m3. Returns (k, v)."""
    call = Call("kiln_paged_append", "kiln_paged_append_args", keys=keys, values=values, slots=slots, positions=positions,
                k_scales=k_scales, v_scales=v_scales)
    call.inout("k", k)
    call.inout("v", v)
    _rotary(call, rotary)
    call.set(trained_length=trained_length)
    call.run(stream)
    return k, v


# ---- blocks of keys that masks or lists choose, columns and diagonals

def block_sparse(q: Array, k: Array, v: Array, out: Optional[Array] = None, lse: Optional[Array] = None, *,
                 mask: Optional[Array] = None, list: Optional[Array] = None, counts: Optional[Array] = None,
                 q_offsets: Optional[Array] = None, k_offsets: Optional[Array] = None, max_queries: int = 0,
                 max_keys: int = 0, causal: bool = False, query_block: int = 0, key_block: int = 0, first_row: int = 0,
                 scale: Optional[float] = None, return_lse: bool = False, stream: Any = None) -> Any:
    """Attention of blocks of queries to the blocks of keys that a mask or a list gives them, one of the two.

    q, k, v   as for `attention`; with q_offsets and k_offsets, max_queries and max_keys (of the longest sequences) as for
              `attention_varlen`
    mask      u8, i8 or bool [B][HM][query blocks][key blocks]: not 0 where a block is taken; H is a multiple of HM
    list      i32 [B][HM][query blocks][places]: numbers of blocks in any order, others (-1) count for nothing;
              counts i32 [B][HM][query blocks]: how many of the first places count, or None
    query_block, key_block: rows of a block, powers of two from 16 to 1024; 0: 64
    first_row of mask or list, which the first block of queries reads
    Returns out, as q of DV columns; with return_lse (out, lse): f32 [B][H][S], packed [H][TQ].
    """
    call = Call("kiln_block_sparse", "kiln_block_sparse_args", q=q, k=k, v=v, mask=mask, list=list, counts=counts,
                q_offsets=q_offsets, k_offsets=k_offsets)
    packed = q_offsets is not None
    shape = call.extents("q", 3 if packed else 4)[:-1]
    out = call.output("out", out, (*shape, call.extents("v", 3 if packed else 4)[-1]), call.type_of("q"))
    wanted = return_lse or lse is not None
    if wanted:
        lse = call.output("lse", lse, (*shape[:-2], shape[-1], shape[-2]), "f32")
    call.set(max_queries=max_queries, max_keys=max_keys, causal=causal, query_block=query_block, key_block=key_block,
             first_row=first_row, scale=scale)
    call.run(stream)
    return _with_lse(out, lse, wanted)


def block_sparse_decode(q: Array, k: Array, v: Array, lengths: Array, out: Optional[Array] = None,
                        lse: Optional[Array] = None, *, mask: Optional[Array] = None, list: Optional[Array] = None,
                        counts: Optional[Array] = None, table: Optional[Array] = None, key_block: int = 0,
                        splits: int = 0, scale: Optional[float] = None, return_lse: bool = False,
                        stream: Any = None) -> Any:
    """One query row for each request over the blocks of keys that a mask or a list gives to each key head.

    q         T [B][H][D]; k, v T [B][S][HKV][D], [B][S][HKV][DV], or with table, i32 [B][pages per request], paged:
              [pages][page size][HKV][D], of which a page holds whole blocks
    lengths   i32 [B]: keys of each request
    mask      u8, i8 or bool [B][HKV][key blocks]; list i32 [B][HKV][places]: numbers of blocks, -1: none; counts i32 [B][HKV]
    key_block keys of a block, a power of two from 16 to 256; 0: 64. splits: of the blocks; 0: as many as fill the device
    Returns out, T [B][H][DV]; with return_lse (out, lse): f32 [B][H].
    """
    call = Call("kiln_block_sparse_decode", "kiln_block_sparse_decode_args", q=q, k=k, v=v, table=table,
                lengths=lengths, mask=mask, list=list, counts=counts)
    batch, heads = call.extents("q", 2)
    out = call.output("out", out, (batch, heads, call.extents("v", 4)[3]), call.type_of("q"))
    wanted = return_lse or lse is not None
    if wanted:
        lse = call.output("lse", lse, (batch, heads), "f32")
    call.set(key_block=key_block, splits=splits, scale=scale)
    call.run(stream)
    return _with_lse(out, lse, wanted)


def block_mask(scores: Array, queries: int, keys: int, mask: Optional[Array] = None, *, causal: bool = False,
               query_block: int = 0, key_block: int = 0, top: int = 0, threshold: float = 0, whole_rows: int = 0,
               stream: Any = None) -> Any:
    """The blocks that scores choose, as a mask for `block_sparse`: the `top` largest of each row, or with 0 all above `threshold`.

    scores    f32 [B][HM][query blocks][key blocks]; queries and keys: rows of a sequence; whole_rows: so many of the last blocks of
              queries take all blocks that they see
    Returns mask, u8 of the same shape.
    """
    call = Call("kiln_block_mask", "kiln_block_mask_args", scores=scores)
    mask = call.output("mask", mask, call.extents("scores", 4), "u8")
    call.set(queries=queries, keys=keys, causal=causal, query_block=query_block, key_block=key_block, top=top,
             threshold=threshold, whole_rows=whole_rows)
    call.run(stream)
    return mask


def vertical_slash_estimate(q: Array, k: Array, columns: int, diagonals: int, vertical: Optional[Array] = None,
                            slash: Optional[Array] = None, *, scale: Optional[float] = None,
                            stream: Any = None) -> Tuple[Any, Any]:
    """The columns and diagonals of causal attention that the last 64 queries give most weight, for `vertical_slash`.

    q         bf16 or f16 [B][S][H][D], k as q [B][S][HKV][D]; columns and diagonals: how many; scale of the scores, None: 1
    Returns (vertical, slash), i32 [B][H][columns], [B][H][diagonals], ascending, -1 after all there are.
    """
    call = Call("kiln_vertical_slash_estimate", "kiln_vertical_slash_estimate_args", q=q, k=k)
    batch, _, heads, _ = call.extents("q", 4)
    vertical = call.output("vertical", vertical, (batch, heads, columns), "i32")
    slash = call.output("slash", slash, (batch, heads, diagonals), "i32")
    call.set(scale=scale)
    call.run(stream)
    return vertical, slash


def vertical_slash(q: Array, k: Array, v: Array, vertical: Array, slash: Array, out: Optional[Array] = None, *,
                   scale: Optional[float] = None, stream: Any = None) -> Any:
    """Causal attention over listed columns and, in blocks of 64 keys, what listed diagonals reach from 64 queries.

    q, k, v   bf16 or f16 [B][S][H][D], [B][S][HKV][D]; vertical, slash: i32, ascending, as `vertical_slash_estimate` gives them
    Returns out, as q.
    """
    call = Call("kiln_vertical_slash", "kiln_vertical_slash_args", q=q, k=k, v=v, vertical=vertical, slash=slash)
    out = call.output("out", out, call.extents("q", 4), call.type_of("q"))
    call.set(scale=scale)
    call.run(stream)
    return out


# ---- native sparse attention. TOKENS tokens of all sequences: with `offsets`, i32 [N + 1], sequence n is tokens offsets[n] to
# offsets[n + 1] - 1, at most max_tokens of them; without, there are `sequences` of equal lengths. H is a multiple of HKV, at most
# 64 times as many; T is bf16 or f16. Lists of blocks: i32 [TOKENS][HKV][S], numbers within the sequence, none twice; -1 for none.

def nsa_forward(q: Array, k: Array, v: Array, g_selected: Array, out: Optional[Array] = None, *,
                g_compressed: Optional[Array] = None, g_window: Optional[Array] = None,
                block_indices: Optional[Array] = None, block_counts: Optional[Array] = None,
                pool_k: Optional[Array] = None, pool_v: Optional[Array] = None, offsets: Optional[Array] = None,
                sequences: int = 0, max_tokens: int = 0, block_size: int = 0, blocks: int = 0, initial_blocks: int = 0,
                local_blocks: int = 0, window: int = 0, scale: Optional[float] = None, stream: Any = None) -> Any:
    """Native sparse attention: out = g_compressed * compressed + g_selected * selected + g_window * window.

    q         T [TOKENS][H][D], k T [TOKENS][HKV][D], v T [TOKENS][HKV][DV]; D and DV are multiples of 16, up to 256
    gates     f32 or T [TOKENS][H], factors as they are; None: no such branch
    block_indices the lists; None: chosen, `blocks` of them (0: 16), as `nsa_choose` does; block_counts i32 [TOKENS][HKV]
    pool_k, pool_v f32 [HKV][block size]: weights of a block's tokens; None: their mean
    block_size 16, 32, 64 or 128; 0: 64. window: 0: 512 where there is a gate. scale: None: 1/sqrt(D)
    Returns out, T [TOKENS][H][DV].
    """
    call = Call("kiln_nsa_forward", "kiln_nsa_args", q=q, k=k, v=v, g_compressed=g_compressed, g_selected=g_selected,
                g_window=g_window, block_indices=block_indices, block_counts=block_counts, pool_k=pool_k, pool_v=pool_v,
                offsets=offsets)
    out = call.output("out", out, call.extents("q", 2) + (call.extents("v", 3)[2],), call.type_of("q"))
    call.set(sequences=sequences, max_tokens=max_tokens, block_size=block_size, blocks=blocks, window=window,
             initial_blocks=initial_blocks, local_blocks=local_blocks, scale=scale)
    call.run(stream)
    return out


def nsa_choose(q: Array, k: Array, v: Array, blocks: int = 16, out: Optional[Array] = None,
               block_indices: Optional[Array] = None, lse: Optional[Array] = None, *, pool_k: Optional[Array] = None,
               pool_v: Optional[Array] = None, offsets: Optional[Array] = None, sequences: int = 0, max_tokens: int = 0,
               block_size: int = 0, initial_blocks: int = 0, local_blocks: int = 0, scale: Optional[float] = None,
               return_lse: bool = False, stream: Any = None) -> Any:
    """The compressed branch, and the blocks that it finds most important to each token and key head: the first
    `initial_blocks`, the token's own and `local_blocks` - 1 before it, then by falling importance, then -1.

    Returns (out, block_indices), T [TOKENS][H][DV] and i32 [TOKENS][HKV][blocks]; with return_lse (out, block_indices, lse):
    f32 [TOKENS][H].
    """
    call = Call("kiln_nsa_choose", "kiln_nsa_choose_args", q=q, k=k, v=v, pool_k=pool_k, pool_v=pool_v, offsets=offsets)
    rows, heads = call.extents("q", 2)
    out = call.output("out", out, (rows, heads, call.extents("v", 3)[2]), call.type_of("q"))
    block_indices = call.output("block_indices", block_indices, (rows, call.extents("k", 2)[1], blocks), "i32")
    wanted = return_lse or lse is not None
    if wanted:
        lse = call.output("lse", lse, (rows, heads), "f32")
    call.set(sequences=sequences, max_tokens=max_tokens, block_size=block_size, initial_blocks=initial_blocks,
             local_blocks=local_blocks, scale=scale)
    call.run(stream)
    return (out, block_indices, lse) if wanted else (out, block_indices)


def nsa_compressed_backward(q: Array, k: Array, v: Array, out: Array, lse: Array, dout: Array,
                            dq: Optional[Array] = None, dk: Optional[Array] = None, dv: Optional[Array] = None,
                            dpool_k: Optional[Array] = None, dpool_v: Optional[Array] = None, *,
                            pool_k: Optional[Array] = None, pool_v: Optional[Array] = None,
                            offsets: Optional[Array] = None, sequences: int = 0, max_tokens: int = 0,
                            block_size: int = 0, scale: Optional[float] = None, stream: Any = None) -> Any:
    """Gradients of the compressed branch of `nsa_choose`, whose out and lse these are; dout is the gradient of out, before any gate.
    Returns (dq, dk, dv, dpool_k, dpool_v), the last two f32 [HKV][block size], None where there are no weights."""
    call = Call("kiln_nsa_compressed_backward", "kiln_nsa_compressed_backward_args", q=q, k=k, v=v, out=out, lse=lse,
                dout=dout, pool_k=pool_k, pool_v=pool_v, offsets=offsets)
    dq = call.output("dq", dq, call.extents("q", 3), call.type_of("q"))
    dk = call.output("dk", dk, call.extents("k", 3), call.type_of("q"))
    dv = call.output("dv", dv, call.extents("v", 3), call.type_of("q"))
    if pool_k is not None:
        dpool_k = call.output("dpool_k", dpool_k, call.extents("pool_k", 2), "f32")
    if pool_v is not None:
        dpool_v = call.output("dpool_v", dpool_v, call.extents("pool_v", 2), "f32")
    call.set(sequences=sequences, max_tokens=max_tokens, block_size=block_size, scale=scale)
    call.run(stream)
    return dq, dk, dv, dpool_k, dpool_v


def nsa_selected(q: Array, k: Array, v: Array, block_indices: Array, out: Optional[Array] = None,
                 lse: Optional[Array] = None, *, block_counts: Optional[Array] = None, offsets: Optional[Array] = None,
                 sequences: int = 0, max_tokens: int = 0, block_size: int = 0, scale: Optional[float] = None,
                 return_lse: bool = False, stream: Any = None) -> Any:
    """The selected branch: each token attends to the tokens up to itself of the blocks in its list.

    Returns out, T [TOKENS][H][DV]; with return_lse (out, lse): f32 [TOKENS][H], which `nsa_selected_backward` takes.
    """
    call = Call("kiln_nsa_selected_forward", "kiln_nsa_selected_args", q=q, k=k, v=v, block_indices=block_indices,
                block_counts=block_counts, offsets=offsets)
    rows, heads = call.extents("q", 2)
    out = call.output("out", out, (rows, heads, call.extents("v", 3)[2]), call.type_of("q"))
    wanted = return_lse or lse is not None
    if wanted:
        lse = call.output("lse", lse, (rows, heads), "f32")
    call.set(sequences=sequences, max_tokens=max_tokens, block_size=block_size, scale=scale)
    call.run(stream)
    return _with_lse(out, lse, wanted)


def nsa_selected_backward(q: Array, k: Array, v: Array, out: Array, lse: Array, dout: Array, block_indices: Array,
                          dq: Optional[Array] = None, dk: Optional[Array] = None, dv: Optional[Array] = None, *,
                          block_counts: Optional[Array] = None, offsets: Optional[Array] = None, sequences: int = 0,
                          max_tokens: int = 0, block_size: int = 0, fused: bool = False, scale: Optional[float] = None,
                          stream: Any = None) -> Any:
    """Gradients of `nsa_selected`, whose other arguments these are; dout is the gradient of out, before any gate. fused: dq comes
    out of the pass that makes dk and dv, in an order that differs from run to run. Returns (dq, dk, dv)."""
    call = Call("kiln_nsa_selected_backward", "kiln_nsa_selected_backward_args", q=q, k=k, v=v, out=out, lse=lse,
                dout=dout, block_indices=block_indices, block_counts=block_counts, offsets=offsets)
    dq = call.output("dq", dq, call.extents("q", 3), call.type_of("q"))
    dk = call.output("dk", dk, call.extents("k", 3), call.type_of("q"))
    dv = call.output("dv", dv, call.extents("v", 3), call.type_of("q"))
    call.set(sequences=sequences, max_tokens=max_tokens, block_size=block_size, fused=fused, scale=scale)
    call.run(stream)
    return dq, dk, dv


def nsa_combine(selected: Array, g_selected: Array, out: Optional[Array] = None, *, compressed: Optional[Array] = None,
                g_compressed: Optional[Array] = None, window: Optional[Array] = None, g_window: Optional[Array] = None,
                stream: Any = None) -> Any:
    """The gated sum of the branches, T [TOKENS][H][DV]; gates f32 or T [TOKENS][H]. Returns out."""
    call = Call("kiln_nsa_combine", "kiln_nsa_combine_args", selected=selected, g_selected=g_selected,
                compressed=compressed, g_compressed=g_compressed, window=window, g_window=g_window)
    out = call.output("out", out, call.extents("selected", 3), call.type_of("selected"))
    call.run(stream)
    return out


def nsa_combine_backward(dout: Array, selected: Array, g_selected: Array, *, compressed: Optional[Array] = None,
                         g_compressed: Optional[Array] = None, window: Optional[Array] = None,
                         g_window: Optional[Array] = None, stream: Any = None) -> Any:
    """Gradients of `nsa_combine`. Returns (dcompressed, dselected, dwindow, dg_compressed, dg_selected, dg_window), with None for
    what belongs to a branch that is not there."""
    call = Call("kiln_nsa_combine_backward", "kiln_nsa_combine_backward_args", dout=dout, selected=selected,
                g_selected=g_selected, compressed=compressed, g_compressed=g_compressed, window=window,
                g_window=g_window)
    there = (("compressed", compressed), ("selected", selected), ("window", window))
    shape = call.extents("dout", 3)
    made = [None if x is None else call.output("d" + name, None, shape, call.type_of("dout")) for name, x in there]
    made += [None if x is None else call.output("dg_" + name, None, shape[:2], call.type_of("g_selected"))
             for name, x in there]
    call.run(stream)
    return tuple(made)


def nsa_decode(q: Array, k: Array, v: Array, block_indices: Array, out: Optional[Array] = None,
               lse: Optional[Array] = None, *, block_counts: Optional[Array] = None, lengths: Optional[Array] = None,
               block_size: int = 0, splits: int = 0, scale: Optional[float] = None, return_lse: bool = False,
               stream: Any = None) -> Any:
    """One token of each request against the blocks of its cache that it selected.

    q         T [B][H][D], k T [B][M][HKV][D], v T [B][M][HKV][DV]: caches with room for M tokens
    block_indices i32 [B][HKV][S], block_counts i32 [B][HKV] or None: S; lengths i32 [B]: tokens in each cache; None: M
    splits    shares of a list; 0: as many as fill the device
    Returns out, T [B][H][DV]; with return_lse (out, lse): f32 [B][H].
    """
    call = Call("kiln_nsa_decode", "kiln_nsa_decode_args", q=q, k=k, v=v, block_indices=block_indices,
                block_counts=block_counts, lengths=lengths)
    rows, heads = call.extents("q", 2)
    out = call.output("out", out, (rows, heads, call.extents("v", 4)[3]), call.type_of("q"))
    wanted = return_lse or lse is not None
    if wanted:
        lse = call.output("lse", lse, (rows, heads), "f32")
    call.set(block_size=block_size, splits=splits, scale=scale)
    call.run(stream)
    return _with_lse(out, lse, wanted)


def nsa_decode_pool(x: Array, lengths: Array, pooled: Array, *, weights: Optional[Array] = None, block_size: int = 0,
                    all: bool = False, stream: Any = None) -> Any:
    """Pools blocks of a cache of keys or values as they become full: of each request the last one, if the newest token filled it,
    or all that are full. x: T [B][M][HKV][D]; lengths: i32 [B]; pooled: T [B][R][HKV][D], a row for each block; weights: f32
    [HKV][block size], None: the mean. Returns pooled."""
    call = Call("kiln_nsa_decode_pool", "kiln_nsa_decode_pool_args", x=x, weights=weights, lengths=lengths)
    call.inout("pooled", pooled)
    call.set(block_size=block_size, all=all)
    call.run(stream)
    return pooled


def nsa_decode_choose(q: Array, k_pooled: Array, v_pooled: Array, lengths: Array, blocks: int = 16,
                      out: Optional[Array] = None, block_indices: Optional[Array] = None, lse: Optional[Array] = None, *,
                      block_size: int = 0, initial_blocks: int = 0, local_blocks: int = 0,
                      scale: Optional[float] = None, return_lse: bool = False, stream: Any = None) -> Any:
    """`nsa_choose` for one token of each request, the last of its cache, over what `nsa_decode_pool` keeps.

    q         T [B][H][D], k_pooled T [B][R][HKV][D], v_pooled T [B][R][HKV][DV]; lengths i32 [B]: tokens in each cache
    Returns (out, block_indices), T [B][H][DV] and i32 [B][HKV][blocks]; with return_lse (out, block_indices, lse): f32 [B][H].
    """
    call = Call("kiln_nsa_decode_choose", "kiln_nsa_decode_choose_args", q=q, k_pooled=k_pooled, v_pooled=v_pooled,
                lengths=lengths)
    rows, heads = call.extents("q", 2)
    out = call.output("out", out, (rows, heads, call.extents("v_pooled", 4)[3]), call.type_of("q"))
    block_indices = call.output("block_indices", block_indices, (rows, call.extents("k_pooled", 3)[2], blocks), "i32")
    wanted = return_lse or lse is not None
    if wanted:
        lse = call.output("lse", lse, (rows, heads), "f32")
    call.set(block_size=block_size, initial_blocks=initial_blocks, local_blocks=local_blocks, scale=scale)
    call.run(stream)
    return (out, block_indices, lse) if wanted else (out, block_indices)


# ---- multi-head latent attention. A cached token is 576 values: all its key, the first 512 its value

class MlaPlan:
    """How the keys of a ragged batch are split: made by `mla_plan` once a step, for every layer. It holds its memory."""

    __slots__ = ("struct", "memory", "pointer", "sizes", "__weakref__")

    def __init__(self, struct: MlaPlanStruct, memory: Array):
        self.struct = struct
        self.memory = memory
        self.pointer = ctypes.pointer(struct)
        self.sizes: Dict[Any, int] = {}         # of workspaces, by kind of call

    def __repr__(self) -> str:
        shape = MlaShape()
        lib.kiln_mla_plan_shape.argtypes = [ctypes.POINTER(MlaPlanStruct), ctypes.POINTER(MlaShape)]
        check(lib.kiln_mla_plan_shape(self.struct, shape))
        return "kiln.ops.MlaPlan(%s)" % ", ".join("%s=%d" % (name, getattr(shape, name)) for name, _ in shape._fields_)


def mla_plan(lengths: Optional[Array] = None, *, query_heads: int, queries: int = 1, key_heads: int = 1,
             batch: Optional[int] = None, topk: int = 0, extra_topk: int = 0, partitions: int = 0,
             topk_lengths: Optional[Array] = None, extra_topk_lengths: Optional[Array] = None,
             like: Optional[Array] = None, stream: Any = None) -> MlaPlan:
    """The plan for `mla_decode`, or with topk for `mla_decode_sparse`.

    lengths     dense: i32 [batch]: tokens in the cache of each request, including the new ones
    queries     new tokens of each request
    topk        sparse: the length of the lists; extra_topk: of those for the extra cache. topk_lengths, extra_topk_lengths i32
                [batch]: those of the decoding calls, so that parts have equal work; None: full lists
    batch       None: the extent of the lengths; like: any tensor of the device, where no lengths say which
    partitions  0: as many as fill the device
    """
    call = Call("kiln_mla_plan_make", "kiln_mla_plan_args", lengths=lengths, topk_lengths=topk_lengths,
                extra_topk_lengths=extra_topk_lengths)
    if call.first is None:
        if like is None:
            raise TypeError("mla_plan: `like`, a tensor of the device, is missing: no lengths say where the plan is made")
        call.first = as_tensor(like)
    if batch is None:
        batch = (call.first.shape or (0,))[0]
    shape = MlaShape(batch, queries, query_heads, key_heads, topk, extra_topk, partitions)
    n, made = c_size_t(), MlaPlanStruct()
    handle = handle_of(call.first.device)
    lib.kiln_mla_plan_size.argtypes = [ctypes.c_void_p, ctypes.POINTER(MlaShape), ctypes.POINTER(c_size_t)]
    check(lib.kiln_mla_plan_size(handle, shape, ctypes.byref(n)))
    address, n_bytes, owner = workspace(call.first.framework, n.value, call.first.device, stream)
    call.set(shape=ctypes.pointer(shape), memory=address, memory_bytes=n_bytes)
    call.run(stream, made)
    return MlaPlan(made, owner)


def _mla_outputs(call: Call, out: Array, lse: Array, wanted: bool) -> Any:
    batch, queries, heads = call.extents("q", 3)
    out = call.output("out", out, (batch, queries, heads, 512), call.type_of("q"))
    if not wanted and lse is None:
        return out
    return out, call.output("lse", lse, (batch, heads, queries), "f32")


def mla_decode(plan: MlaPlan, q: Array, cache: Array, table: Array, lengths: Array, out: Optional[Array] = None,
               lse: Optional[Array] = None, *, causal: bool = False, round_scales: bool = False,
               scale: Optional[float] = None, return_lse: bool = True, stream: Any = None) -> Any:
    """Dense latent decoding over a paged cache.

    plan      made for the same lengths
    q         bf16 or f16 [batch][queries][query_heads][576]
    cache     as q [pages][page size][key_heads][576], or fp8: u8, i8 or e4m3 [pages][page size][656]
    table     i32 [batch][pages per request]; lengths i32 [batch]
    causal    query j sees keys before length - (queries - 1 - j); scale: None: 1/sqrt(576)
    Returns (out, lse): as q [batch][queries][query_heads][512], f32 [batch][query_heads][queries], natural logarithms; where
    return_lse is False, and `lse` is not given, out alone.
    """
    call = Call("kiln_mla_decode", "kiln_mla_decode_args", q=q, cache=cache, table=table, lengths=lengths)
    made = _mla_outputs(call, out, lse, return_lse)
    call.set(plan=plan.pointer, causal=causal, round_scales=round_scales, scale=scale)
    call.run(stream)
    return made


def mla_decode_sparse(plan: MlaPlan, q: Array, cache: Array, indices: Array, out: Optional[Array] = None,
                      lse: Optional[Array] = None, *, topk_lengths: Optional[Array] = None,
                      extra_cache: Optional[Array] = None, extra_indices: Optional[Array] = None,
                      extra_topk_lengths: Optional[Array] = None, sink: Optional[Array] = None,
                      round_scales: bool = False, scale: Optional[float] = None, return_lse: bool = True,
                      stream: Any = None) -> Any:
    """Latent decoding over lists of slots in an fp8 cache.

    plan      with topk
    q         bf16 [batch][queries][query_heads][D]; D is 576 or 512
    cache     u8, i8 or e4m3 [pages][page size][656] where D is 576, [584] where it is 512
    indices   i32 [batch][queries][topk]: slots, page * (page size) + offset; one outside the cache is masked
    topk_lengths i32 [batch]; extra_cache, extra_indices, extra_topk_lengths: a second cache with its own lists
    sink      f32 [query_heads]: a logit that is added to the denominator of out
    Returns (out, lse), or out alone, as `mla_decode`.
    """
    call = Call("kiln_mla_decode_sparse", "kiln_mla_decode_sparse_args", q=q, cache=cache, indices=indices,
                topk_lengths=topk_lengths, extra_cache=extra_cache, extra_indices=extra_indices,
                extra_topk_lengths=extra_topk_lengths, sink=sink)
    made = _mla_outputs(call, out, lse, return_lse)
    call.set(plan=plan.pointer, round_scales=round_scales, scale=scale)
    call.run(stream)
    return made


def mla_decode_contiguous(q: Array, q_rotary: Array, cache: Array, rotary_cache: Array, out: Optional[Array] = None,
                          lse: Optional[Array] = None, *, lengths: Optional[Array] = None, scales: Optional[Array] = None,
                          splits: int = 0, scale: Optional[float] = None, return_lse: bool = True, stream: Any = None) -> Any:
    """Latent decoding over contiguous caches, one new token of each request, latent and rotary parts in tensors of their own.

    q         bf16 or f16 [B][H][512], q_rotary [B][H][64]; cache [B][S][512], rotary_cache [B][S][64], or [B][S][1][...]
    scales    f32 [B][S], with a cache of e4m3: what the latent values of a key are multiplied by
    lengths   i32 [B]: keys of each request; None: S; splits: 0: as many as fill the device; scale: None: 1/sqrt(576)
    Returns (out, lse): as q [B][H][512], f32 [B][H], natural; where return_lse is False, and `lse` is not given, out alone.
    """
    call = Call("kiln_mla_decode_contiguous", "kiln_mla_decode_contiguous_args", q=q, q_rotary=q_rotary, cache=cache,
                rotary_cache=rotary_cache, lengths=lengths, scales=scales)
    batch, heads = call.extents("q", 2)
    out = call.output("out", out, (batch, heads, 512), call.type_of("q"))
    wanted = return_lse or lse is not None
    if wanted:
        lse = call.output("lse", lse, (batch, heads), "f32")
    call.set(splits=splits, scale=scale)
    call.run(stream)
    return _with_lse(out, lse, wanted)


def mla_prefill_sparse(q: Array, kv: Array, indices: Array, out: Optional[Array] = None,
                       max_logits: Optional[Array] = None, lse: Optional[Array] = None, *,
                       topk_lengths: Optional[Array] = None, sink: Optional[Array] = None,
                       scale: Optional[float] = None, base2: bool = False, ends: Optional[Array] = None,
                       return_lse: bool = True, stream: Any = None) -> Any:
    """Latent prefill: each query token attends to its own list of rows.

    q         bf16 [S][H][D], kv bf16 [SKV][D]; D is 576 or 512
    indices   i32 [S][topk]: rows of kv; one outside is masked. topk_lengths i32 [S]; sink f32 [H]
    ends      i32 [S]: rows from there on are masked
    base2     max_logits and lse in base 2, and lse -infinity for a row without keys, as FlashMLA returned them until 2026
    Returns (out, max_logits, lse): bf16 [S][H][512], f32 [S][H], f32 [S][H], both natural; where return_lse is False out alone:
    the others are then written if they are given.
    """
    call = Call("kiln_mla_prefill_sparse", "kiln_mla_prefill_sparse_args", q=q, kv=kv, indices=indices,
                topk_lengths=topk_lengths, sink=sink, ends=ends)
    rows, heads = call.extents("q", 2)
    out = call.output("out", out, (rows, heads, 512), "bf16")
    if return_lse or max_logits is not None:
        max_logits = call.output("max_logits", max_logits, (rows, heads), "f32")
    if return_lse or lse is not None:
        lse = call.output("lse", lse, (rows, heads), "f32")
    call.set(scale=scale, base2=base2)
    call.run(stream)
    return (out, max_logits, lse) if return_lse else out


# ---- DeepSeek sparse attention. A window of query i is starts[i] to ends[i] - 1; None: from the first key, to the last

def indexer_logits(q: Array, k: Array, k_scales: Array, weights: Array, logits: Optional[Array] = None, *,
                   starts: Optional[Array] = None, ends: Optional[Array] = None, windows_alone: bool = False,
                   stream: Any = None) -> Any:
    """The indexer's logits of packed queries: k_scales * sum over heads of max(q.k, 0) * weights, outside of windows -infinity.

    q         e4m3 [S][HI][DI], k e4m3 [SKV][DI], k_scales f32 [SKV], weights f32 [S][HI]; starts, ends i32 [S]
    windows_alone: what is outside of windows may be left as it was
    Returns logits, f32 [S][SKV].
    """
    call = Call("kiln_indexer_logits", "kiln_indexer_logits_args", q=q, k=k, k_scales=k_scales, weights=weights, starts=starts,
                ends=ends)
    logits = call.output("logits", logits, (call.extents("q", 1)[0], call.extents("k", 1)[0]), "f32")
    call.set(windows_alone=windows_alone)
    call.run(stream)
    return logits


def indexer_scores(q: Array, k: Array, k_scales: Array, weights: Array, scores: Optional[Array] = None, *,
                   stream: Any = None) -> Any:
    """The same for the queries of each request over its own keys, without windows: q e4m3 [B][S][HI][DI], k e4m3 [B][SKV][DI],
    k_scales f32 [B][SKV], weights f32 [B][S][HI]. Returns scores, f32 [B][S][SKV]."""
    call = Call("kiln_indexer_scores", "kiln_indexer_scores_args", q=q, k=k, k_scales=k_scales, weights=weights)
    scores = call.output("scores", scores, call.extents("q", 2) + (call.extents("k", 2)[1],), "f32")
    call.run(stream)
    return scores


def clean_logits(logits: Array, *, starts: Optional[Array] = None, ends: Optional[Array] = None, stream: Any = None) -> Any:
    """Writes -infinity outside of the windows of f32 [S][SKV]; starts, ends i32 [S]. Returns logits."""
    call = Call("kiln_clean_logits", "kiln_clean_logits_args", starts=starts, ends=ends)
    call.inout("logits", logits)
    call.run(stream)
    return logits


def topk_select(logits: Array, topk: int, indices: Optional[Array] = None, *, starts: Optional[Array] = None,
                ends: Optional[Array] = None, stream: Any = None) -> Any:
    """The columns of the topk largest of each row's window, ascending; the lowest columns among equals; -1 where there are fewer.

    logits    f32 [S][SKV]; starts, ends i32 [S]; topk: 1 to 16384
    Returns indices, i32 [S][topk].
    """
    call = Call("kiln_topk_select", "kiln_topk_select_args", logits=logits, starts=starts, ends=ends)
    indices = call.output("indices", indices, (call.extents("logits", 1)[0], topk), "i32")
    call.run(stream)
    return indices


def indexed_attention(index_q: Array, index_k: Array, index_scales: Array, index_weights: Array, q: Array, kv: Array, topk: int,
                      out: Optional[Array] = None, max_logits: Optional[Array] = None, lse: Optional[Array] = None, *,
                      starts: Optional[Array] = None, ends: Optional[Array] = None, sink: Optional[Array] = None,
                      indices: Optional[Array] = None, scale: Optional[float] = None, base2: bool = False, rows: int = 0,
                      return_lse: bool = True, stream: Any = None) -> Any:
    """`indexer_logits`, `topk_select` and `mla_prefill_sparse` in one call, for `rows` queries at a time.

    index_q, index_k, index_scales, index_weights, starts, ends: as for `indexer_logits`
    q         bf16 [S][H][D], kv bf16 [SKV][D]; D is 576 or 512; sink f32 [H]
    indices   i32 [S][topk]: written, if it is given
    rows      0: as many as fill the device
    Returns (out, max_logits, lse) as `mla_prefill_sparse`, or out alone.
    """
    call = Call("kiln_indexed_attention", "kiln_indexed_attention_args", q=q, kv=kv, index_q=index_q, index_k=index_k,
                index_scales=index_scales, index_weights=index_weights, starts=starts, ends=ends, sink=sink)
    queries, heads = call.extents("q", 2)
    out = call.output("out", out, (queries, heads, 512), "bf16")
    if return_lse or max_logits is not None:
        max_logits = call.output("max_logits", max_logits, (queries, heads), "f32")
    if return_lse or lse is not None:
        lse = call.output("lse", lse, (queries, heads), "f32")
    if indices is not None:
        call.output("indices", indices, (), None)
    call.set(topk=topk, scale=scale, base2=base2, rows=rows)
    call.run(stream)
    return (out, max_logits, lse) if return_lse else out


def indexed_attention_paged(index_q: Array, index_k: Array, index_scales: Array, index_weights: Array, table: Array, lengths: Array,
                            topk: int, out: Optional[Array] = None, lse: Optional[Array] = None, *, q: Optional[Array] = None,
                            kv: Optional[Array] = None, q_offsets: Optional[Array] = None, sink: Optional[Array] = None,
                            max_logits: Optional[Array] = None, indices: Optional[Array] = None, max_keys: int = 0,
                            scale: Optional[float] = None, base2: bool = False, rows: int = 0, stream: Any = None) -> Any:
    """The same over paged caches: request b has rows q_offsets[b] to q_offsets[b + 1] - 1, its last tokens; None: TQ / B rows each.

    index_q   e4m3 [TQ][HI][DI], index_weights f32 [TQ][HI]
    index_k   e4m3 [pages][page size][DI], index_scales f32 [pages][page size]: of one shape, or parts of packed pages
    table     i32 [B][pages per request]; lengths i32 [B], the new tokens included; q_offsets i32 [B + 1]
    q         bf16 [TQ][H][D], kv bf16 [pages][page size][D]; D is 576 or 512; without them the selection alone
    max_keys  of the longest request, or more; 0: not known; rows: queries whose logits are in memory at a time
    Returns (out, lse): bf16 [TQ][H][512], f32 [TQ][H]; without q indices, i32 [TQ][topk]: slots, page * (page size) + place, then -1.
    """
    call = Call("kiln_indexed_attention_paged", "kiln_indexed_attention_paged_args", index_q=index_q, index_k=index_k,
                index_scales=index_scales, index_weights=index_weights, table=table, lengths=lengths, q_offsets=q_offsets, q=q, kv=kv,
                sink=sink)
    queries, heads = call.extents("index_q", 1)[0], call.extents("q", 2)[1]
    if q is not None:
        out = call.output("out", out, (queries, heads, 512), "bf16")
        lse = call.output("lse", lse, (queries, heads), "f32")
    if max_logits is not None:
        call.output("max_logits", max_logits, (), None)
    if indices is not None or q is None:
        indices = call.output("indices", indices, (queries, topk), "i32")
    call.set(topk=topk, max_keys=max_keys, scale=scale, base2=base2, rows=rows)
    call.run(stream)
    return indices if q is None else (out, lse)


def index_append(keys: Array, slots: Array, index_k: Array, index_scales: Array, *, power_of_two: bool = False,
                 stream: Any = None) -> Any:
    """Writes new index keys, bf16 or f16 [N][DI], to their slots (`paged_slots`) as codes and a scale each. Returns (index_k,
    index_scales), e4m3 [pages][page size][DI], f32 [pages][page size]."""
    call = Call("kiln_index_append", "kiln_index_append_args", keys=keys, slots=slots)
    call.inout("index_k", index_k), call.inout("index_scales", index_scales)
    call.set(power_of_two=power_of_two)
    call.run(stream)
    return index_k, index_scales


def mla_slots(table: Array, lengths: Array, queries: int, page_size: int, slots: Optional[Array] = None, *,
              stream: Any = None) -> Any:
    """The slots of the last `queries` tokens of each request, for every layer's append.

    table     i32 [batch][pages per request]; lengths i32 [batch], including the new tokens; page_size: tokens of a page
    Returns slots, i32 [batch][queries]; -1 for a token before the first or past the table.
    """
    call = Call("kiln_mla_slots", "kiln_mla_slots_args", table=table, lengths=lengths)
    slots = call.output("slots", slots, (call.extents("table", 1)[0], queries), "i32")
    call.set(page_size=page_size)
    call.run(stream)
    return slots


def mla_append(keys: Array, cache: Array, slots: Optional[Array] = None, *, stream: Any = None) -> Any:
    """Writes rows into a paged cache. keys: bf16 or f16 [N][key_heads][576]; cache: as keys [pages][page size][key_heads][576];
    slots: i32 [N], or [batch][queries] as of `mla_slots`; None: 0, 1, 2 ... Returns cache."""
    call = Call("kiln_mla_append", "kiln_mla_append_args", keys=keys, slots=slots)
    call.as_list("slots")
    call.inout("cache", cache)
    call.run(stream)
    return cache


def mla_quantize(keys: Array, cache: Array, slots: Optional[Array] = None, *, full_scales: bool = False,
                 power_scales: bool = False, stream: Any = None) -> Any:
    """Writes rows into an fp8 cache. keys: bf16 or f16 [N][576] or [N][512]; cache: u8, i8 or e4m3 [pages][page size][656] or
    [584]; slots as of `mla_append`. With 656 bytes: full_scales: scales stay f32, else they are rounded to bf16; power_scales:
    they are powers of two. Returns cache."""
    call = Call("kiln_mla_quantize", "kiln_mla_quantize_args", keys=keys, slots=slots)
    call.as_list("slots")
    call.inout("cache", cache)
    call.set(full_scales=full_scales, power_scales=power_scales)
    call.run(stream)
    return cache


def mla_dequantize(cache: Array, slots: Optional[Array] = None, keys: Optional[Array] = None, *,
                   round_scales: bool = False, stream: Any = None) -> Any:
    """Reads rows of the fp8 cache. Returns keys, bf16 [N][576] or [N][512]; slots as of `mla_append`, None: all of the cache."""
    call = Call("kiln_mla_dequantize", "kiln_mla_dequantize_args", cache=cache, slots=slots)
    call.as_list("slots")
    pages, page_size = call.extents("cache", 2)
    rows = pages * page_size if slots is None else call.extents("slots", 1)[0]
    keys = call.output("keys", keys, (rows, 512 if call.tensors["cache"].shape[-1:] == (584,) else 576), "bf16")
    call.set(round_scales=round_scales)
    call.run(stream)
    return keys


# ---- layers with a state. Letters: B batch, S tokens of a sequence, R tokens of a step (1 to 16), H value heads, HK key heads (H
# is a multiple of HK), DK size of queries and keys, DV of values, N sequences: B, or with `offsets`, i32 [N + 1], those that are
# packed one after another in a batch of one. States are f32, or T.
#
# Steps work on a pool of M states in place; two requests may not share one that is written.

def _sequences(call: Call, sequences: Optional[Array], batch: int) -> int:
    return batch if sequences is None else max(call.extents("offsets", 1)[0] - 1, 0)


def _given(call: Call, **outputs: Optional[Array]) -> None:
    for field, given in outputs.items():
        if given is not None:
            call.inout(field, given)


def _with_states(call: Call, out: Array, states: Array, shape: Tuple[int, ...], wanted: bool) -> Any:
    if not wanted and states is None:
        return out
    of = call.type_of("initial_states")         # f32 where there are none
    return out, call.output("final_states", states, shape, of)


# Of the type of the states that there are; f32 where there are none.
def _initial_gradient(call: Call, states: Array, shape: Tuple[int, ...], wanted: bool) -> Tuple[Any, ...]:
    if not wanted and states is None:
        return ()
    of = call.type_of("dfinal_states" if call.tensors.get("initial_states") is None else "initial_states")
    return (call.output("dinitial_states", states, shape, of),)


def gdn_forward(q: Array, k: Array, v: Array, gates: Array, beta: Array, out: Optional[Array] = None,
                final_states: Optional[Array] = None, *, offsets: Optional[Array] = None,
                initial_states: Optional[Array] = None, normalize: bool = False, scale: Optional[float] = None,
                return_states: bool = False, stream: Any = None) -> Any:
    """Gated delta net over whole sequences: X = exp(g) X; X = X + k^T beta (v - k X); out = scale q X.

    q, k      T [B][S][HK][DK], v T [B][S][H][DV]; DK and DV are multiples of 16 up to 256
    gates     f32 [B][S][H]: g, a natural logarithm, at most 0; or [B][S][H][DK], Kimi delta attention; beta T or f32 [B][S][H]
    initial_states f32 or T [N][H][DK][DV]; None: 0
    normalize q and k are divided by their lengths first; scale: None: 1/sqrt(DK)
    Returns out, T [B][S][H][DV]; with return_states, or where `final_states` is given, (out, final_states): [N][H][DK][DV].
    """
    call = Call("kiln_gdn_forward", "kiln_gdn_args", q=q, k=k, v=v, gates=gates, beta=beta, offsets=offsets,
                initial_states=initial_states)
    batch, tokens, heads, values = call.extents("v", 4)
    out = call.output("out", out, (batch, tokens, heads, values), call.type_of("q"))
    shape = _sequences(call, offsets, batch), heads, call.extents("q", 4)[3], values
    made = _with_states(call, out, final_states, shape, return_states)
    call.set(normalize=normalize, scale=scale)
    call.run(stream)
    return made


def gdn_backward(q: Array, k: Array, v: Array, gates: Array, beta: Array, dout: Array, dq: Optional[Array] = None,
                 dk: Optional[Array] = None, dv: Optional[Array] = None, dgates: Optional[Array] = None,
                 dbeta: Optional[Array] = None, dinitial_states: Optional[Array] = None, *, offsets: Optional[Array] = None,
                 initial_states: Optional[Array] = None, dfinal_states: Optional[Array] = None, normalize: bool = False,
                 scale: Optional[float] = None, return_states: bool = False, stream: Any = None) -> Tuple[Any, ...]:
    """The gradients of `gdn_forward`, from its inputs and the gradients of out and, where they were used, of its final states.

    dout      T [B][S][H][DV]; dfinal_states f32 or T [N][H][DK][DV]; None: 0. The others as in the forward call
    Returns (dq, dk, dv, dgates, dbeta), of the shapes and types of the inputs; those of q and k are summed over the value heads of
    a key head. With return_states, or where `dinitial_states` is given, it follows: [N][H][DK][DV].
    """
    call = Call("kiln_gdn_backward", "kiln_gdn_backward_args", q=q, k=k, v=v, gates=gates, beta=beta, offsets=offsets,
                initial_states=initial_states, dout=dout, dfinal_states=dfinal_states)
    made = _gradients(call, dq, dk, dv, None)
    of_gates = call.output("dgates", dgates, call.tensors["gates"].shape, "f32")
    of_beta = call.output("dbeta", dbeta, call.tensors["beta"].shape, call.type_of("beta"))
    batch, _, heads, values = call.extents("v", 4)
    shape = _sequences(call, offsets, batch), heads, call.extents("q", 4)[3], values
    made += (of_gates, of_beta) + _initial_gradient(call, dinitial_states, shape, return_states)
    call.set(normalize=normalize, scale=scale)
    call.run(stream)
    return made


def gdn_gates(a: Array, b: Array, a_log: Array, gates: Optional[Array] = None, beta: Optional[Array] = None, *,
              dt_bias: Optional[Array] = None, double_beta: bool = False, type: Any = None,
              stream: Any = None) -> Tuple[Any, Any]:
    """What a layer of `gdn_forward` makes its gates from: -exp(a_log) softplus(a + dt_bias), and beta = sigmoid(b).

    a         T [M][H], or with a gate for each channel [M][H][DK]; b T [M][H]
    a_log     f32 [H]; dt_bias f32 [H] or [H][DK]; None: 0
    double_beta beta is twice that; type: of beta: None: T, or "f32"
    Returns (gates, beta): f32 of a's shape, [M][H].
    """
    call = Call("kiln_gdn_gates", "kiln_gdn_gates_args", a=a, b=b, a_log=a_log, dt_bias=dt_bias)
    gates = call.output("gates", gates, call.tensors["a"].shape, "f32")
    beta = call.output("beta", beta, call.tensors["b"].shape, type or call.type_of("a"))
    call.set(double_beta=double_beta)
    call.run(stream)
    return gates, beta


def gdn_gates_backward(a: Array, b: Array, a_log: Array, dgates: Array, dbeta: Array, da: Optional[Array] = None,
                       db: Optional[Array] = None, da_log: Optional[Array] = None, ddt_bias: Optional[Array] = None, *,
                       dt_bias: Optional[Array] = None, double_beta: bool = False,
                       stream: Any = None) -> Tuple[Any, Any, Any, Any]:
    """The gradients of `gdn_gates`, from its inputs and those of its outputs: (da, db, da_log, ddt_bias), of the shapes and types of
    what they belong to; ddt_bias None without a dt_bias."""
    call = Call("kiln_gdn_gates_backward", "kiln_gdn_gates_backward_args", a=a, b=b, a_log=a_log, dt_bias=dt_bias, dgates=dgates,
                dbeta=dbeta)
    of = call.type_of("a")
    da, db = call.output("da", da, call.tensors["a"].shape, of), call.output("db", db, call.tensors["b"].shape, of)
    da_log = call.output("da_log", da_log, call.tensors["a_log"].shape, "f32")
    if dt_bias is not None:
        ddt_bias = call.output("ddt_bias", ddt_bias, call.tensors["dt_bias"].shape, "f32")
    call.set(double_beta=double_beta)
    call.run(stream)
    return da, db, da_log, ddt_bias


def gdn_step(q: Array, k: Array, v: Array, gates: Array, beta: Array, states: Array, out: Optional[Array] = None, *,
             from_: Optional[Array] = None, to: Optional[Array] = None, normalize: bool = False,
             scale: Optional[float] = None, stream: Any = None) -> Any:
    """`gdn_forward` for the next tokens of each request; states, f32 or T [M][H][DK][DV], are read and written.

    q, k      T [B][R][HK][DK], v T [B][R][H][DV]; gates f32 [B][R][H] or [B][R][H][DK], beta T or f32 [B][R][H]
    from_     i32 [B]: the number of each request's state before its first token; None: b
    to        i32 [B][R]: where the state after each token goes; None: the last one in place. No such number: zeros, not written
    Returns out, T [B][R][H][DV].
    """
    call = Call("kiln_gdn_step", "kiln_gdn_step_args", q=q, k=k, v=v, gates=gates, beta=beta, to=to, **{"from": from_})
    call.inout("states", states)
    out = call.output("out", out, call.extents("v", 4), call.type_of("q"))
    call.set(normalize=normalize, scale=scale)
    call.run(stream)
    return out


def linear_attention(q: Array, k: Array, v: Array, out: Optional[Array] = None, final_states: Optional[Array] = None, *,
                     gates: Optional[Array] = None, decay: Optional[Array] = None, offsets: Optional[Array] = None,
                     initial_states: Optional[Array] = None, normalize: bool = False, initial_keys: Optional[Array] = None,
                     final_keys: Optional[Array] = None, norm: Optional[Array] = None, scale: Optional[float] = None,
                     return_states: bool = False, stream: Any = None) -> Any:
    """Linear attention over whole sequences: X = exp(g) X + k^T v; out = scale q X, with g = gates + decay.

    q, k      T [B][S][HK][DK], v T [B][S][H][DV]; DK and DV are multiples of 16 up to 256
    gates     f32 [B][S][H], decay f32 [H]; None: 0. With decay log(1 - 2^(-5 - head)) it is retention
    initial_states f32 or T [N][H][DK][DV]; None: 0; scale: None: 1/sqrt(DK)
    normalize out is multiplied by 1 / (scale q Z + 1e-10), Z = exp(g) Z + k; then Z may begin as initial_keys, f32 [N][H][DK], and
              final_keys, of its shape, and norm, f32 [B][S][H], which the gradients take, are written where they are given
    Returns out, T [B][S][H][DV]; with return_states, or where `final_states` is given, (out, final_states): [N][H][DK][DV].
    """
    call = Call("kiln_linear_attention_forward", "kiln_linear_attention_args", q=q, k=k, v=v, gates=gates, decay=decay,
                offsets=offsets, initial_states=initial_states, initial_keys=initial_keys)
    batch, tokens, heads, values = call.extents("v", 4)
    out = call.output("out", out, (batch, tokens, heads, values), call.type_of("q"))
    shape = _sequences(call, offsets, batch), heads, call.extents("q", 4)[3], values
    made = _with_states(call, out, final_states, shape, return_states)
    _given(call, final_keys=final_keys, norm=norm)
    call.set(normalize=normalize, scale=scale)
    call.run(stream)
    return made


def linear_attention_backward(q: Array, k: Array, v: Array, dout: Array, dq: Optional[Array] = None,
                              dk: Optional[Array] = None, dv: Optional[Array] = None, *, gates: Optional[Array] = None,
                              decay: Optional[Array] = None, offsets: Optional[Array] = None,
                              initial_states: Optional[Array] = None, initial_keys: Optional[Array] = None,
                              out: Optional[Array] = None, norm: Optional[Array] = None,
                              dfinal_states: Optional[Array] = None, dfinal_keys: Optional[Array] = None,
                              dgates: Optional[Array] = None, ddecay: Optional[Array] = None,
                              dinitial_states: Optional[Array] = None, dinitial_keys: Optional[Array] = None,
                              scale: Optional[float] = None, stream: Any = None) -> Tuple[Any, Any, Any]:
    """The gradients of `linear_attention`, from its inputs, dout, T [B][S][H][DV], and the gradients of the final states.

    out, norm of a normalised forward call; None: it was not
    dgates, ddecay, dinitial_states, dinitial_keys are written where they are given, of the shapes of what they belong to
    Returns (dq, dk, dv), of the shapes and types of q, k and v; those of q and k are summed over the heads of a group.
    """
    call = Call("kiln_linear_attention_backward", "kiln_linear_attention_backward_args", q=q, k=k, v=v, gates=gates,
                decay=decay, offsets=offsets, initial_states=initial_states, initial_keys=initial_keys, out=out, norm=norm,
                dout=dout, dfinal_states=dfinal_states, dfinal_keys=dfinal_keys)
    made = _gradients(call, dq, dk, dv, None)
    _given(call, dgates=dgates, ddecay=ddecay, dinitial_states=dinitial_states, dinitial_keys=dinitial_keys)
    call.set(scale=scale)
    call.run(stream)
    return made


def linear_attention_step(q: Array, k: Array, v: Array, states: Array, out: Optional[Array] = None, *,
                          gates: Optional[Array] = None, decay: Optional[Array] = None,
                          from_: Optional[Array] = None, to: Optional[Array] = None, scale: Optional[float] = None,
                          keys: Optional[Array] = None, norm: Optional[Array] = None, stream: Any = None) -> Any:
    """`linear_attention` for the next tokens of each request; states, f32 or T [M][H][DK][DV], are read and written. With
    keys, f32 [M][H][DK], read and written beside them, out is normalised; norm, f32 [B][R][H], is what it is multiplied by.

    q, k      T [B][R][HK][DK], v T [B][R][H][DV]; gates f32 [B][R][H], decay f32 [H], or None
    from_     i32 [B]: the number of each request's state before its first token; None: b
    to        i32 [B][R]: where the state after each token goes; None: the last one in place. No such number: zeros, not written
    Returns out, T [B][R][H][DV].
    """
    call = Call("kiln_linear_attention_step", "kiln_linear_attention_step_args", q=q, k=k, v=v, gates=gates, decay=decay,
                to=to, **{"from": from_})
    call.inout("states", states)
    out = call.output("out", out, call.extents("v", 4), call.type_of("q"))
    if keys is not None:
        call.inout("keys", keys)
        call.output("norm", norm, call.extents("v", 3), "f32")
    call.set(scale=scale)
    call.run(stream)
    return out


def mamba2_forward(x: Array, dt: Array, a: Array, b: Array, c: Array, out: Optional[Array] = None,
                   final_states: Optional[Array] = None, *, skip: Optional[Array] = None,
                   dt_bias: Optional[Array] = None, z: Optional[Array] = None, offsets: Optional[Array] = None,
                   initial_states: Optional[Array] = None, ungated: Optional[Array] = None, plain_dt: bool = False,
                   return_states: bool = False, stream: Any = None) -> Any:
    """Mamba-2 over whole sequences: d = softplus(dt + dt_bias); X = exp(a d) X + d x^T b; out = (X c + skip x) silu(z).

    x         T [B][S][H][P], dt T [B][S][H]; P is 16, 32, 64 or 128
    b, c      T [B][S][G][N]: of H / G heads each; N is a multiple of 16, and the header has what P * N may be
    a         f32 [H], below 0; skip, dt_bias f32 [H]; None: 0
    z         T [B][S][H][P]; None: out is not multiplied. ungated, T [B][S][H][P], gets out without silu(z), for the gradients
    offsets   i32 [E + 1]: packed sequences, where B is 1; None: not, and E is B
    initial_states f32 or T [E][H][P][N]; None: 0; plain_dt: d = dt + dt_bias
    Returns out, T [B][S][H][P]; with return_states, or where `final_states` is given, (out, final_states): [E][H][P][N].
    """
    call = Call("kiln_mamba2_forward", "kiln_mamba2_args", x=x, dt=dt, a=a, b=b, c=c, skip=skip, dt_bias=dt_bias,
                z=z, offsets=offsets, initial_states=initial_states)
    batch, tokens, heads, size = call.extents("x", 4)
    out = call.output("out", out, (batch, tokens, heads, size), call.type_of("x"))
    shape = _sequences(call, offsets, batch), heads, size, call.extents("b", 4)[3]
    made = _with_states(call, out, final_states, shape, return_states)
    _given(call, ungated=ungated)
    call.set(plain_dt=plain_dt)
    call.run(stream)
    return made


def mamba2_backward(x: Array, dt: Array, a: Array, b: Array, c: Array, dout: Array, dx: Optional[Array] = None,
                    ddt: Optional[Array] = None, da: Optional[Array] = None, db: Optional[Array] = None,
                    dc: Optional[Array] = None, *, skip: Optional[Array] = None, dt_bias: Optional[Array] = None,
                    z: Optional[Array] = None, ungated: Optional[Array] = None, offsets: Optional[Array] = None,
                    initial_states: Optional[Array] = None, dfinal_states: Optional[Array] = None,
                    dskip: Optional[Array] = None, ddt_bias: Optional[Array] = None, dz: Optional[Array] = None,
                    dinitial_states: Optional[Array] = None, plain_dt: bool = False,
                    stream: Any = None) -> Tuple[Any, Any, Any, Any, Any]:
    """The gradients of `mamba2_forward`, from its inputs, dout, T [B][S][H][P], and the gradient of the final states.

    z, ungated of a gated forward call; None: it was not
    dskip, ddt_bias, dz, dinitial_states are written where they are given, of the shapes of what they belong to
    Returns (dx, ddt, da, db, dc), of the shapes and types of x, dt, a, b and c.
    """
    call = Call("kiln_mamba2_backward", "kiln_mamba2_backward_args", x=x, dt=dt, a=a, b=b, c=c, skip=skip, dt_bias=dt_bias,
                z=z, ungated=ungated, offsets=offsets, initial_states=initial_states, dout=dout, dfinal_states=dfinal_states)
    made = tuple(call.output("d" + field, given, call.tensors[field].shape, call.type_of(field))
                 for field, given in (("x", dx), ("dt", ddt), ("a", da), ("b", db), ("c", dc)))
    _given(call, dskip=dskip, ddt_bias=ddt_bias, dz=dz, dinitial_states=dinitial_states)
    call.set(plain_dt=plain_dt)
    call.run(stream)
    return made


def mamba2_step(x: Array, dt: Array, a: Array, b: Array, c: Array, states: Array, out: Optional[Array] = None, *,
                skip: Optional[Array] = None, dt_bias: Optional[Array] = None, z: Optional[Array] = None,
                from_: Optional[Array] = None, to: Optional[Array] = None, plain_dt: bool = False,
                stream: Any = None) -> Any:
    """`mamba2_forward` for the next tokens of each request; states, f32 or T [M][H][P][N], are read and written.

    x         T [B][R][H][P], dt T [B][R][H], b and c T [B][R][G][N], N a multiple of 8 up to 256; a, skip, dt_bias f32 [H]
    z         T [B][R][H][P]: out is multiplied by silu(z); None: 1
    from_     i32 [B]: the number of each request's state before its first token; None: b
    to        i32 [B][R]: where the state after each token goes; None: the last one in place. No such number: zeros, not written
    Returns out, T [B][R][H][P].
    """
    call = Call("kiln_mamba2_step", "kiln_mamba2_step_args", x=x, dt=dt, a=a, b=b, c=c, skip=skip, dt_bias=dt_bias, z=z,
                to=to, **{"from": from_})
    call.inout("states", states)
    out = call.output("out", out, call.extents("x", 4), call.type_of("x"))
    call.set(plain_dt=plain_dt)
    call.run(stream)
    return out


def causal_conv(x: Array, filter: Array, out: Optional[Array] = None, final_states: Optional[Array] = None, *,
                bias: Optional[Array] = None, offsets: Optional[Array] = None, initial_states: Optional[Array] = None,
                activation: Optional[str] = None, return_states: bool = False, stream: Any = None) -> Any:
    """A convolution of each channel with the last W tokens: out[t][d] = activation(bias[d] + sum of filter[d][w] x[t-W+1+w][d]).

    x         T [B][S][D], filter T [D][W], W from 2 to 8; bias T [D]; None: 0
    initial_states f32 or T [N][W - 1][D]: the inputs before the first, the oldest first; None: 0; activation as for `gemm`
    Returns out, T [B][S][D]; with return_states, or where `final_states` is given, (out, final_states): [N][W - 1][D].
    """
    call = Call("kiln_causal_conv", "kiln_causal_conv_args", x=x, filter=filter, bias=bias, offsets=offsets,
                initial_states=initial_states)
    batch, tokens, channels = call.extents("x", 3)
    out = call.output("out", out, (batch, tokens, channels), call.type_of("x"))
    shape = _sequences(call, offsets, batch), call.extents("filter", 2)[1] - 1, channels
    made = _with_states(call, out, final_states, shape, return_states)
    call.set(activation=_choice("activation", activation, _ACTIVATIONS))
    call.run(stream)
    return made


def causal_conv_backward(x: Array, filter: Array, dout: Array, dx: Optional[Array] = None, dfilter: Optional[Array] = None,
                         dbias: Optional[Array] = None, dinitial_states: Optional[Array] = None, *,
                         bias: Optional[Array] = None, offsets: Optional[Array] = None,
                         initial_states: Optional[Array] = None, dfinal_states: Optional[Array] = None,
                         activation: Optional[str] = None, return_states: bool = False,
                         stream: Any = None) -> Tuple[Any, ...]:
    """The gradients of `causal_conv`, from its inputs and the gradients of out and, where they were used, of its final states.

    dout      T [B][S][D]; dfinal_states f32 or T [N][W - 1][D]; None: 0. The others as in the forward call
    Returns (dx, dfilter, dbias), dbias None without a bias; with return_states, or where `dinitial_states` is given, it follows:
    [N][W - 1][D].
    """
    call = Call("kiln_causal_conv_backward", "kiln_causal_conv_backward_args", x=x, filter=filter, bias=bias, offsets=offsets,
                initial_states=initial_states, dout=dout, dfinal_states=dfinal_states)
    batch, tokens, channels = call.extents("x", 3)
    taps = call.extents("filter", 2)[1]
    of_x = call.output("dx", dx, (batch, tokens, channels), call.type_of("x"))
    of_filter = call.output("dfilter", dfilter, (channels, taps), call.type_of("x"))
    if bias is not None or dbias is not None:
        dbias = call.output("dbias", dbias, (channels,), call.type_of("x"))
    shape = _sequences(call, offsets, batch), taps - 1, channels
    made = (of_x, of_filter, dbias) + _initial_gradient(call, dinitial_states, shape, return_states)
    call.set(activation=_choice("activation", activation, _ACTIVATIONS))
    call.run(stream)
    return made


def causal_conv_step(x: Array, filter: Array, states: Array, out: Optional[Array] = None, *,
                     bias: Optional[Array] = None, from_: Optional[Array] = None, to: Optional[Array] = None,
                     activation: Optional[str] = None, stream: Any = None) -> Any:
    """`causal_conv` for the next tokens of each request; states, f32 or T [M][W - 1][D], are read and written.

    x         T [B][R][D], filter T [D][W], bias T [D] or None
    from_     i32 [B]: the number of each request's state before its first token; None: b
    to        i32 [B][R]: where the state after each token goes; None: the last one in place. No such number: zeros, not written
    Returns out, T [B][R][D].
    """
    call = Call("kiln_causal_conv_step", "kiln_causal_conv_step_args", x=x, filter=filter, bias=bias, to=to,
                **{"from": from_})
    call.inout("states", states)
    out = call.output("out", out, call.extents("x", 3), call.type_of("x"))
    call.set(activation=_choice("activation", activation, _ACTIVATIONS))
    call.run(stream)
    return out


# ---- the small operators. Tensors [M][N] may have any number of dimensions: they are rows of the last one

def _norm(name: str, x: Array, out: Array, residual: Array, weight: Array, bias: Array, sum: Array, out_scale: Array,
          eps: float, type: Any, return_sum: bool, stream: Any) -> Any:
    call = Call(name, "kiln_norm_args", x=x, residual=residual, weight=weight, bias=bias)
    shape, of = call.tensors["x"].shape, call.type_of("x")
    out = call.output("out", out, shape, type or of)
    results = [out]
    if return_sum or sum is not None:
        results.append(call.output("sum", sum, shape, of))
    call.as_rows("x", "residual", "out", "sum")
    if out_scale is not None or call.type_of("out") in ("e4m3", "i8"):
        results.append(call.output("out_scale", out_scale, shape[:-1], "f32"))
        call.as_list("out_scale")
    call.set(eps=eps)
    call.run(stream)
    return results[0] if len(results) == 1 else tuple(results)


def rms_norm(x: Array, weight: Optional[Array] = None, out: Optional[Array] = None, *,
             residual: Optional[Array] = None, bias: Optional[Array] = None, sum: Optional[Array] = None,
             out_scale: Optional[Array] = None, eps: float = 1e-6, type: Any = None, return_sum: bool = False,
             stream: Any = None) -> Any:
    """RMS norm of rows: s / sqrt(mean(s^2) + eps) * weight + bias of s = x + residual.

    x, residual  T [M][N], N up to 16384; weight, bias T [N]; or None
    type         of out: None: T; "e4m3" or "i8": divided by its row's scale
    Returns out [M][N]; with return_sum also sum, T [M][N]: s; with a narrow type also out_scale, f32 [M]: a tuple in this order.
    """
    return _norm("kiln_rms_norm", x, out, residual, weight, bias, sum, out_scale, eps, type, return_sum, stream)


def layer_norm(x: Array, weight: Optional[Array] = None, bias: Optional[Array] = None, out: Optional[Array] = None, *,
               residual: Optional[Array] = None, sum: Optional[Array] = None, out_scale: Optional[Array] = None,
               eps: float = 1e-5, type: Any = None, return_sum: bool = False, stream: Any = None) -> Any:
    """Layer norm of rows: (s - mean) / sqrt(variance + eps) * weight + bias of s = x + residual; all else as for `rms_norm`."""
    return _norm("kiln_layer_norm", x, out, residual, weight, bias, sum, out_scale, eps, type, return_sum, stream)


def gated_norm(x: Array, z: Optional[Array] = None, weight: Optional[Array] = None, out: Optional[Array] = None, *,
               eps: float = 1e-6, gate_first: bool = False, sigmoid: bool = False, stream: Any = None) -> Any:
    """RMS norm of groups beside a gate: norm(x) * weight * silu(z), with gate_first norm(x * silu(z)) * weight.

    x, z      T [M][G][N], N up to 8192, of f32 4096; z None: no gate; weight T [N], or [G][N]; None: 1
    sigmoid   1 / (1 + exp(-z)) in place of silu(z)
    Returns out, T [M][G][N].
    """
    call = Call("kiln_gated_norm", "kiln_gated_norm_args", x=x, z=z, weight=weight)
    out = call.output("out", out, call.extents("x", 3), call.type_of("x"))
    call.set(eps=eps, gate_first=gate_first, sigmoid=sigmoid)
    call.run(stream)
    return out


def gated_norm_backward(x: Array, z: Optional[Array], weight: Optional[Array], dout: Array, dx: Optional[Array] = None,
                        dz: Optional[Array] = None, dweight: Optional[Array] = None, *, dresidual: Optional[Array] = None,
                        eps: float = 1e-6, gate_first: bool = False, sigmoid: bool = False,
                        stream: Any = None) -> Tuple[Any, Any, Any]:
    """The gradients of `gated_norm`, without a z those of `rms_norm`: (dx, dz, dweight), of the shapes and types of what they
    belong to; None for what there is not. dresidual, T [M][G][N], is added to dx."""
    call = Call("kiln_gated_norm_backward", "kiln_gated_norm_backward_args", x=x, z=z, weight=weight, dout=dout,
                dresidual=dresidual)
    of = call.type_of("x")
    dx = call.output("dx", dx, call.extents("x", 3), of)
    if z is not None:
        dz = call.output("dz", dz, call.extents("x", 3), of)
    if weight is not None:
        dweight = call.output("dweight", dweight, call.tensors["weight"].shape, of)
    call.set(eps=eps, gate_first=gate_first, sigmoid=sigmoid)
    call.run(stream)
    return dx, dz, dweight


def rotary_embedding(x: Array, positions: Array, *, rotary: Optional[Rotary] = None, trained_length: int = 0,
                     lengths: Optional[Array] = None, backward: bool = False, stream: Any = None) -> Any:
    """Turns pairs of each head's elements in place. x: T [tokens][H][D]; positions: i32 [tokens]; rotary: a style, or a dict of
    what it has; lengths: i32 [tokens], of NTK's styles how long the sequence of each token is; backward: by the opposite angle.
    Returns x."""
    call = Call("kiln_rotary_embedding", "kiln_rotary_embedding_args")
    call.inout("x", x)
    call.put("positions", as_tensor(positions))
    if lengths is not None:
        call.put("lengths", as_tensor(lengths))
    _rotary(call, rotary)
    call.set(trained_length=trained_length, backward=backward)
    call.run(stream)
    return x


def activate(gate: Array, up: Optional[Array] = None, out: Optional[Array] = None, *, activation: str = "silu",
             stream: Any = None) -> Any:
    """out = activation(gate) * up, T [M][N]; up None: 1. Returns out. activation as for `gemm`."""
    call = Call("kiln_activate", "kiln_activate_args", gate=gate, up=up)
    out = call.output("out", out, call.tensors["gate"].shape, call.type_of("gate"))
    call.as_rows("gate", "up", "out")
    call.set(activation=_choice("activation", activation, _ACTIVATIONS))
    call.run(stream)
    return out


def activate_backward(gate: Array, up: Array, dout: Array, dgate: Optional[Array] = None, dup: Optional[Array] = None,
                      *, activation: str = "silu", stream: Any = None) -> Any:
    """The gradients of `activate`, T [M][N]: (dgate, dup); where up is None dgate alone."""
    call = Call("kiln_activate_backward", "kiln_activate_backward_args", gate=gate, up=up, dout=dout)
    shape, of = call.tensors["gate"].shape, call.type_of("gate")
    dgate = call.output("dgate", dgate, shape, of)
    if up is not None or dup is not None:
        dup = call.output("dup", dup, shape, of)
    call.as_rows("gate", "up", "dout", "dgate", "dup")
    call.set(activation=_choice("activation", activation, _ACTIVATIONS))
    call.run(stream)
    return dgate if dup is None else (dgate, dup)


def softmax(x: Array, out: Optional[Array] = None, *, type: Any = None, stream: Any = None) -> Any:
    """Softmax of rows. x: T [M][N]; returns out, `type` [M][N]: bf16, f16 or f32; None: T."""
    call = Call("kiln_softmax", "kiln_softmax_args", x=x)
    out = call.output("out", out, call.tensors["x"].shape, type or call.type_of("x"))
    call.as_rows("x", "out")
    call.run(stream)
    return out


def cross_entropy(logits: Array, labels: Array, loss: Optional[Array] = None, lse: Optional[Array] = None, *,
                  dloss: Optional[Array] = None, dlogits: Optional[Array] = None, return_dlogits: bool = False,
                  stream: Any = None) -> Tuple:
    """loss = lse - logits[label] of rows. logits: T [M][V]; labels: i32 [M], one outside of the row is ignored (loss 0).
    Returns (loss, lse), f32 [M]; with return_dlogits, or where `dlogits` is given, (loss, lse, dlogits): the gradient, T [M][V],
    of which a row is multiplied by its dloss, f32 [M] (None: 1)."""
    call = Call("kiln_cross_entropy", "kiln_cross_entropy_args", logits=logits, labels=labels, dloss=dloss)
    rows = call.extents("logits", 1)
    made = call.output("loss", loss, rows, "f32"), call.output("lse", lse, rows, "f32")
    if return_dlogits or dlogits is not None:
        made += (call.output("dlogits", dlogits, call.tensors["logits"].shape, call.type_of("logits")),)
    call.run(stream)
    return made


def cross_entropy_backward(logits: Array, labels: Array, lse: Array, dloss: Array, dlogits: Optional[Array] = None, *,
                           stream: Any = None) -> Any:
    """The gradient of `cross_entropy`, from its inputs, its lse, and dloss, f32 [M]. Returns dlogits, T [M][V]."""
    call = Call("kiln_cross_entropy_backward", "kiln_cross_entropy_backward_args", logits=logits, labels=labels,
                lse=lse, dloss=dloss)
    dlogits = call.output("dlogits", dlogits, call.tensors["logits"].shape, call.type_of("logits"))
    call.run(stream)
    return dlogits


def embedding(table: Array, tokens: Array, out: Optional[Array] = None, *, scale: float = 1.0,
              stream: Any = None) -> Any:
    """Rows of a table by number, times a factor: table T [V][N], tokens i32 [M]. Returns out, T [M][N]; no such row: zeros."""
    call = Call("kiln_embedding", "kiln_embedding_args", table=table, tokens=tokens)
    out = call.output("out", out, (call.extents("tokens", 1)[0], call.extents("table", 2)[1]), call.type_of("table"))
    call.set(scale=scale)
    call.run(stream)
    return out


def argmax(x: Array, index: Optional[Array] = None, *, stream: Any = None) -> Any:
    """The column of the largest of each row, the first among equals; NaN is the largest. x: T [M][N]. Returns index, i32 [M]."""
    call = Call("kiln_argmax", "kiln_argmax_args", x=x)
    index = call.output("index", index, call.tensors["x"].shape[:-1], "i32")
    call.as_rows("x")
    call.as_list("index")
    call.run(stream)
    return index


def cast_fp8(x: Array, out: Optional[Array] = None, scales: Optional[Array] = None, *, group: int = 0,
             counts: Optional[Array] = None, rows: int = 0, stream: Any = None) -> Tuple[Any, Any]:
    """x, T [M][N], is about out * scale, for each row, or each `group` (32, 64, 128 or 256) neighbours in it.
    Returns (out, scales): e4m3 [M][N]; f32 [M], with a group [M][ceil(N / group)]. With counts, i32 [G], x has groups of so many
    rows, of which each gets a place of `rows` rows: e4m3 [G][rows][N], f32 [G][rows][...]."""
    call = Call("kiln_cast_fp8", "kiln_cast_fp8_args", x=x, counts=counts)
    lines, columns = call.extents("x", 2)
    places = (lines,) if counts is None else call.extents("counts", 1) + (rows,)
    out = call.output("out", out, tuple(places) + (columns,), "e4m3")
    scales = call.output("scales", scales, tuple(places) + ((-(-columns // group),) if group > 0 else ()), "f32")
    call.set(group=group)
    call.run(stream)
    return out, scales


def cast_int8(x: Array, out: Optional[Array] = None, scales: Optional[Array] = None, *, stream: Any = None) -> Tuple[Any, Any]:
    """x, T [M][N], is about out * scale for each row. Returns (out, scales): i8 [M][N], f32 [M]."""
    call = Call("kiln_cast_int8", "kiln_cast_int8_args", x=x)
    rows, columns = call.extents("x", 2)
    out = call.output("out", out, (rows, columns), "i8")
    scales = call.output("scales", scales, (rows,), "f32")
    call.run(stream)
    return out, scales


def hadamard(x: Array, out: Optional[Array] = None, *, stream: Any = None) -> Any:
    """The Walsh-Hadamard transform of rows, in natural order, not normalised. x: T [M][N], N a power of two from 2 to 32768.
    Returns out, T [M][N]."""
    call = Call("kiln_hadamard", "kiln_hadamard_args", x=x)
    out = call.output("out", out, call.tensors["x"].shape, call.type_of("x"))
    call.as_rows("x", "out")
    call.run(stream)
    return out


def conv2d(x: Array, filter: Array, out: Optional[Array] = None, *, stride: int = 1, dilation: int = 1, pad: int = 0,
           stream: Any = None) -> Any:
    """A convolution of images, channels last: x T [images][H][W][C], filter T [KH][KW][C][F].
    Returns out, T [images][OH][OW][F], OH = (H + 2 pad - dilation (KH - 1) - 1) / stride + 1, OW alike."""
    call = Call("kiln_conv2d", "kiln_conv2d_args", x=x, filter=filter)
    images, height, width, _ = call.extents("x", 4)
    rows, columns, _, filters = call.extents("filter", 4)

    def extent(size: int, taps: int) -> int:
        return (size + 2 * pad - dilation * (taps - 1) - 1) // max(stride, 1) + 1
    out = call.output("out", out, (images, extent(height, rows), extent(width, columns), filters), call.type_of("x"))
    call.set(stride=stride, dilation=dilation, pad=pad)
    call.run(stream)
    return out


# ---- mixtures of experts. Letters: M tokens, K experts of a token, E experts, R rows of experts, F hidden elements of an expert. An
# expert's number outside of 0 .. E - 1 is none: its pair of token and expert adds nothing. T is bf16 or f16.

def _routing(sigmoid: bool, renormalise: bool, scale: float, groups: int, top_groups: int, group_scores: int) -> Any:
    number = ctypes.pointer(ctypes.c_double(scale))
    return ctypes.pointer(MoeRoutingStruct(sigmoid, renormalise, number, groups, top_groups, group_scores))


def moe_route(logits: Array, top_k: int, experts: Optional[Array] = None, weights: Optional[Array] = None, *,
              correction: Optional[Array] = None, sigmoid: bool = False, renormalise: bool = False, scale: float = 1.0,
              groups: int = 0, top_groups: int = 0, group_scores: int = 0, stream: Any = None) -> Any:
    """The top_k experts of each token, the best first, and their weights.

    logits    bf16, f16 or f32 [M][E]; correction f32 [E]: added to scores for the choice alone
    sigmoid   scores are sigmoids, else a softmax; renormalise: weights are divided by their sum; scale: of all weights
    groups    experts in so many groups, of which the top_groups best by the sum of their group_scores largest are chosen from
    Returns (experts, weights): i32 and f32 [M][top_k].
    """
    call = Call("kiln_moe_route", "kiln_moe_route_args", logits=logits, correction=correction)
    tokens = call.extents("logits", 1)[0]
    experts = call.output("experts", experts, (tokens, top_k), "i32")
    weights = call.output("weights", weights, (tokens, top_k), "f32")
    call.set(routing=_routing(sigmoid, renormalise, scale, groups, top_groups, group_scores))
    call.run(stream)
    return experts, weights


def moe_permute(experts: Array, n_experts: int, x: Optional[Array] = None, tokens: Optional[Array] = None,
                places: Optional[Array] = None, offsets: Optional[Array] = None, rows: Optional[Array] = None, *,
                alignment: int = 1, stream: Any = None) -> Any:
    """Sorts pairs of token and expert by expert, those of one by token.

    experts   i32 [M][K]; x: bf16, f16 or f32 [M][N], or None; alignment: experts begin at multiples of so many rows
    Returns (tokens, places, offsets), i32 [R], [M][K] and [n_experts + 1]: the token of each row, -1: none, the row of each pair,
    -1: none, and where experts begin; with x also rows, as x [R][N]. R is M * K + n_experts * (alignment - 1), or that of `tokens`.
    """
    call = Call("kiln_moe_permute", "kiln_moe_permute_args", experts=experts, x=x)
    m, k = call.extents("experts", 2)
    tokens = call.output("tokens", tokens, (m * k + n_experts * (max(alignment, 1) - 1),), "i32")
    places = call.output("places", places, (m, k), "i32")
    offsets = call.output("offsets", offsets, (n_experts + 1,), "i32")
    made = [tokens, places, offsets]
    if x is not None:
        shape = call.extents("tokens", 1)[0], call.extents("x", 2)[1]
        made.append(call.output("rows", rows, shape, call.type_of("x")))
    call.set(alignment=alignment)
    call.run(stream)
    return tuple(made)


def moe_unpermute(rows: Array, places: Array, out: Optional[Array] = None, *, weights: Optional[Array] = None,
                  shared: Optional[Array] = None, residual: Optional[Array] = None, stream: Any = None) -> Any:
    """out[m] = shared[m] + sum over k of weights[m][k] rows[places[m][k]] + residual[m].

    rows      bf16, f16 or f32 [R][N]; places i32 [M][K], of `moe_permute`; weights f32 [M][K], or None: 1
    shared, residual  as rows [M][N]; or None
    Returns out, as rows [M][N].
    """
    call = Call("kiln_moe_unpermute", "kiln_moe_unpermute_args", rows=rows, places=places, weights=weights, shared=shared,
                residual=residual)
    out = call.output("out", out, (call.extents("places", 1)[0], call.extents("rows", 2)[1]), call.type_of("rows"))
    call.run(stream)
    return out


def grouped_gemm(a: Array, b: Array, c: Optional[Array] = None, *, offsets: Optional[Array] = None,
                 counts: Optional[Array] = None, bias: Optional[Array] = None, a_scales: Optional[Array] = None,
                 b_scales: Optional[Array] = None, transpose_b: bool = False, type: Any = None, stream: Any = None) -> Any:
    """c[r] = a[r] b[e] + bias[e] of the expert e that row r belongs to. Rows that belong to none are not written.

    a         T [R][K], experts one after the other by offsets, i32 [E + 1]; or T [E][rows][K], the first counts[e] of each, i32 [E]
    b         T [E][K][N], with transpose_b [E][N][K]; bias as c [E][N]
    a_scales, b_scales  of e4m3, with transpose_b: f32 [R][K / 128], for each 1 x 128 of a, and [E][N / 128][K / 128]
    type      of c: None: T, of e4m3 bf16; or f32
    Returns c: [R][N], or [E][rows][N].
    """
    call = Call("kiln_grouped_gemm", "kiln_grouped_gemm_args", a=a, b=b, offsets=offsets, counts=counts, bias=bias,
                a_scales=a_scales, b_scales=b_scales)
    shape = call.tensors["a"].shape[:-1] + (call.extents("b", 3)[1 if transpose_b else 2],)
    of = call.type_of("a")
    c = call.output("c", c, shape, type or ("bf16" if of == "e4m3" else of))
    call.set(transpose_b=transpose_b)
    call.run(stream)
    return c


def grouped_mxfp4(a: Array, codes: Array, scales: Array, offsets: Array, c: Optional[Array] = None, *,
                  tokens: Optional[Array] = None, bias: Optional[Array] = None, row_weights: Optional[Array] = None,
                  type: Any = None, stream: Any = None) -> Any:
    """c[r] = (a[r] w[e]^T + bias[e]) * row_weights[r] of the expert e that row r belongs to, with weights in MXFP4. Rows that belong
    to none are not written.

    a         bf16 [R][K], experts one after the other by offsets, i32 [E + 1]; with tokens, i32 [R], the rows of a [M][K] that
              stand for them, -1: zeros
    codes     u8 [E][N][P / 2], P: K rounded up to a multiple of 128; scales u8 [E][N][P / 32]: those of `quant_pack` of all rows
    bias      as c [E][N]; row_weights f32 [R]; or None; type: of c: None: bf16; or f32
    Returns c [R][N].
    """
    call = Call("kiln_grouped_mxfp4", "kiln_grouped_mxfp4_args", a=a, codes=codes, scales=scales, offsets=offsets, tokens=tokens,
                bias=bias, row_weights=row_weights)
    rows = call.extents("a" if tokens is None else "tokens", 1)[0]
    c = call.output("c", c, (rows, call.extents("codes", 3)[1]), type or "bf16")
    call.run(stream)
    return c


def grouped_gemm_weights(a: Array, dc: Array, offsets: Array, db: Optional[Array] = None, *, transpose_b: bool = False,
                         type: Any = None, stream: Any = None) -> Any:
    """The gradient of b of `grouped_gemm`: a_e^T dc_e of each expert's rows, zeros without any.

    a         T [R][K], dc T [R][N], offsets i32 [E + 1]; type: of db: None: T; or f32
    Returns db [E][K][N], with transpose_b [E][N][K].
    """
    call = Call("kiln_grouped_gemm_weights", "kiln_grouped_gemm_weights_args", a=a, dc=dc, offsets=offsets)
    sizes = call.extents("a", 2)[1], call.extents("dc", 2)[1]
    shape = (call.extents("offsets", 1)[0] - 1,) + (sizes[::-1] if transpose_b else sizes)
    db = call.output("db", db, shape, type or call.type_of("a"))
    call.set(transpose_b=transpose_b)
    call.run(stream)
    return db


def moe(x: Array, gate_up: Array, down: Array, logits: Optional[Array] = None, out: Optional[Array] = None, *,
        top_k: int = 0, experts: Optional[Array] = None, weights: Optional[Array] = None,
        correction: Optional[Array] = None, gate_up_bias: Optional[Array] = None, down_bias: Optional[Array] = None,
        shared_gate_up: Optional[Array] = None, shared_down: Optional[Array] = None, residual: Optional[Array] = None,
        sigmoid: bool = False, renormalise: bool = False, scale: float = 1.0, groups: int = 0, top_groups: int = 0,
        group_scores: int = 0, activation: str = "swiglu", interleaved: bool = False, alpha: Optional[float] = None,
        limit: Optional[float] = None, format: Optional[str] = None, gate_up_scales: Optional[Array] = None,
        down_scales: Optional[Array] = None, shared_gate_up_scales: Optional[Array] = None,
        shared_down_scales: Optional[Array] = None, stream: Any = None) -> Any:
    """A layer of experts: out = residual + shared(x) + the weighted sum of each token's experts.

    x         T [M][D]; gate_up T [E][2 F][D]: the rows of gate, then of up, or with interleaved in turns; down T [E][D][F]
    logits    bf16, f16 or f32 [M][E], with top_k and what `moe_route` takes; or experts i32 [M][K], weights f32 [M][K] or None
    gate_up_bias T [E][2 F], down_bias T [E][D]; shared_gate_up T [2 S][D], shared_down T [D][S]; residual T [M][D]
    activation "swiglu", "geglu", or "swiglu_clamped": g sigmoid(alpha g) (u + 1), clamped by limit (None: 1.702 and 7)
    format    None, "mxfp4" (gpt-oss: u8 codes of `quant_pack` of all experts' rows and u8 scales) or "fp8" (DeepSeek V3: e4m3 and
              f32 scales of 128 x 128): weights and their *_scales, as kiln_moe_format says in kiln/ops/moe.h
    Returns out, T [M][D].
    """
    call = Call("kiln_moe", "kiln_moe_args", x=x, gate_up=gate_up, down=down, gate_up_bias=gate_up_bias, down_bias=down_bias,
                logits=logits, correction=correction, experts=experts, weights=weights, shared_gate_up=shared_gate_up,
                shared_down=shared_down, residual=residual, gate_up_scales=gate_up_scales, down_scales=down_scales,
                shared_gate_up_scales=shared_gate_up_scales, shared_down_scales=shared_down_scales)
    out = call.output("out", out, call.extents("x", 2), call.type_of("x"))
    call.set(top_k=top_k, routing=_routing(sigmoid, renormalise, scale, groups, top_groups, group_scores),
             activation=_choice("activation", activation, _MOE_ACTIVATIONS), interleaved=interleaved, alpha=alpha, limit=limit,
             format=_choice("format", format, _MOE_FORMATS))
    call.run(stream)
    return out


# ---- products over blocks

def block_sparse_gemm(a: Array, b: Array, mask: Array, c: Optional[Array] = None, *, block_m: int = 0, block_n: int = 0,
                      block_k: int = 0, transpose_b: bool = False, type: Any = None, stream: Any = None) -> Any:
    """c = a b over the blocks that a mask keeps: of block_m rows, block_n columns and block_k elements of the contraction (0: 128,
    128 and 64).

    a         bf16 or f16 [M][K]; b as a [K][N], with transpose_b [N][K]; type: of c: None: as a; or f32
    mask      u8 or bool [M / block_m][N / block_n][K / block_k], each rounded up
    Returns c [M][N].
    """
    call = Call("kiln_block_sparse_gemm", "kiln_block_sparse_gemm_args", a=a, b=b, mask=mask)
    shape = call.extents("a", 1)[0], call.extents("b", 2)[0 if transpose_b else 1]
    c = call.output("c", c, shape, type or call.type_of("a"))
    call.set(block_m=block_m, block_n=block_n, block_k=block_k, transpose_b=transpose_b)
    call.run(stream)
    return c


# ---- tokens from logits

def topk(x: Array, k: int, values: Optional[Array] = None, indices: Optional[Array] = None, *, stream: Any = None) -> Any:
    """The k largest elements of each row, the largest first, of equal ones the lowest columns; NaN is below every number.

    x         bf16, f16 or f32 [M][N]; k up to 2048
    Returns (values, indices): as x and i32 [M][k].
    """
    call = Call("kiln_topk", "kiln_topk_args", x=x)
    rows = call.extents("x", 1)[0]
    values = call.output("values", values, (rows, k), call.type_of("x"))
    indices = call.output("indices", indices, (rows, k), "i32")
    call.run(stream)
    return values, indices


def sample(logits: Array, tokens: Optional[Array] = None, *, temperatures: Optional[Array] = None,
           top_k: Optional[Array] = None, top_p: Optional[Array] = None, min_p: Optional[Array] = None,
           seeds: Optional[Array] = None, steps: Optional[Array] = None, probabilities: Optional[Array] = None,
           logprobs: Optional[Array] = None, distribution: Optional[Array] = None, stream: Any = None) -> Any:
    """A token of each row of logits: drawn where there are seeds, else the most probable.

    logits    bf16, f16 or f32 [M][V], V up to 262144
    temperatures f32 [M]; None: 1. Not above 0: the most probable token; top_k i32 [M], 0: all; top_p f32 [M]; min_p f32 [M]
    seeds     i64 [M], steps i64 [M]: how many draws of a seed came before; None: 0
    Returns tokens, i32 [M]. probabilities f32 [M] (of the token among the candidates), logprobs f32 [M] (among all) and
    distribution f32 [M][V] are written where they are given.
    """
    call = Call("kiln_sample", "kiln_sample_args", logits=logits, temperatures=temperatures, top_k=top_k, top_p=top_p,
                min_p=min_p, seeds=seeds, steps=steps)
    tokens = call.output("tokens", tokens, call.extents("logits", 1), "i32")
    for name, given in (("probabilities", probabilities), ("logprobs", logprobs), ("distribution", distribution)):
        if given is not None:
            call.output(name, given, (), None)
    call.run(stream)
    return tokens


# ---- warm calls

plan_types.extend([MlaPlan, PagedPlan])
plain_types.add(Rotary)
for _name, _function in list(globals().items()):
    if _name in __all__ and "stream" in (getattr(_function, "__kwdefaults__", None) or ()):
        globals()[_name] = warm(_function)
