# SPDX-License-Identifier: MIT
"""What the operators of `kiln.ops` share: the structs of include/kiln/ops, handles of devices, and one call from its tensors to
its launch."""
from __future__ import annotations

import ctypes
import math
import threading
from ctypes import POINTER, addressof, c_bool, c_double, c_int, c_int64, c_size_t, c_uint64, c_void_p, pointer
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ._library import TYPE_NAMES, TYPES, Error, build_options, check, error_of, lib, open_device
from ._program import _value_text
from ._tensor import Tensor, _row_major, _struct, as_tensor, stream_for, workspace

# The fields of each struct after struct_size, in the header's order (python/tests/test_ops.py compares them): *x a tensor,
# ?x a bool, x:i an int64, x:d a double, x:f a pointer to one, x:e an enum, x:p an address, x:z a size, x:r a kiln_rotary, x:s a shape,
# x:l a plan, x:m a kiln_moe_routing.
STRUCTS = {
    "kiln_gemm_args": "*a *b *c *bias *residual ?transpose_a ?transpose_b activation:e scale:f workspace:p "
                      "workspace_bytes:z *a_scales *b_scales precision:e *up *up_scales *up_bias *a_places *b_places",
    "kiln_sparse24_pack_args": "*weights *values *places *excess ?prune",
    "kiln_quantised_gemm_args": "*a *codes *scales *zeros *minima *a_scales *bias *c format:e group:e workspace:p workspace_bytes:z *residual",
    "kiln_quant_pack_args": "*weights *weight_scales *weight_zeros *codes *scales *zeros *minima format:e layout:e k:i group:e "
                            "weight_group:e exponent_offset:e",
    "kiln_quant_unpack_args": "*codes *scales *zeros *minima *weights format:e group:e",
    "kiln_quant_ternary_args": "*weights *offsets *codes *scales workspace:p workspace_bytes:z",
    "kiln_attention_args": "*q *k *v *out *lse ?causal window:i scale:f *sinks softcap:d workspace:p workspace_bytes:z",
    "kiln_attention_varlen_args": "*q *k *v *q_offsets *k_offsets max_queries:i *out *lse ?causal window:i scale:f "
                                  "*sinks softcap:d",
    "kiln_attention_qkvpacked_args": "*qkv *offsets head_size:i max_rows:i *out *lse ?causal window:i scale:f *sinks softcap:d",
    "kiln_attention_kvpacked_args": "*q *kv *q_offsets *k_offsets max_queries:i *out *lse ?causal window:i scale:f "
                                    "*sinks softcap:d",
    "kiln_attention_backward_args": "*q *k *v *out *lse *dout *dq *dk *dv ?causal ?deterministic scale:f workspace:p "
                                    "workspace_bytes:z window:i *sinks *dsinks softcap:d",
    "kiln_attention_backward_varlen_args": "*q *k *v *q_offsets *k_offsets max_keys:i *out *lse *dout *dq *dk *dv ?causal "
                                           "?deterministic max_queries:i scale:f workspace:p workspace_bytes:z window:i "
                                           "*sinks *dsinks softcap:d",
    "kiln_attention_decode_args": "*q *k *v *mask *lengths *out *lse splits:i scale:f workspace:p workspace_bytes:z softcap:d *sinks",
    "kiln_masked_decode_args":
        "*q *k *v *cache *table *lengths *out rotary:r workspace:p workspace_bytes:z *scales *cache2 ring:i max_length:i splits:i "
        "*q_bias *k_bias *v_bias *qkv_scales type:e *tasks *key_factors *value_factors *positions *prefix_lengths "
        "?positions_after_prefix scale:f *slopes *bias *bucket_bias bucket_distance:i ?one_sided_buckets ?log_scaling "
        "trained_length:i *finished ?cross beams:i *sources *prompt_lengths *out_scale *sinks",
    "kiln_paged_plan_args":
        "*lengths *q_offsets rows:i max_queries:i heads:i key_heads:i size:i value_size:i ?eight_bit ?causal window:i parts:i "
        "memory:p memory_bytes:z",
    "kiln_paged_attention_args":
        "plan:g *q *k *v *table *lengths *q_offsets max_queries:i max_keys:i *out *lse ?causal window:i softcap:d *slopes *sinks "
        "*k_scales *v_scales splits:i scale:f workspace:p workspace_bytes:z",
    "kiln_paged_slots_args": "*table *lengths *q_offsets *slots *positions page_size:i",
    "kiln_paged_append_args": "*keys *values *slots *positions *k *v *k_scales *v_scales rotary:r trained_length:i",
    "kiln_nsa_args":
        "*q *k *v *g_compressed *g_selected *g_window *block_indices *block_counts *pool_k *pool_v *offsets sequences:i "
        "max_tokens:i *out block_size:i blocks:i initial_blocks:i local_blocks:i window:i scale:f workspace:p workspace_bytes:z",
    "kiln_nsa_choose_args":
        "*q *k *v *pool_k *pool_v *offsets sequences:i max_tokens:i *out *lse *block_indices block_size:i initial_blocks:i "
        "local_blocks:i scale:f workspace:p workspace_bytes:z",
    "kiln_nsa_compressed_backward_args":
        "*q *k *v *out *lse *dout *pool_k *pool_v *offsets sequences:i max_tokens:i *dq *dk *dv *dpool_k *dpool_v block_size:i "
        "scale:f workspace:p workspace_bytes:z",
    "kiln_nsa_selected_args":
        "*q *k *v *block_indices *block_counts *offsets sequences:i max_tokens:i *out *lse block_size:i scale:f workspace:p "
        "workspace_bytes:z",
    "kiln_nsa_selected_backward_args":
        "*q *k *v *out *lse *dout *block_indices *block_counts *offsets sequences:i max_tokens:i *dq *dk *dv block_size:i "
        "?fused scale:f workspace:p workspace_bytes:z",
    "kiln_nsa_combine_args": "*compressed *selected *window *g_compressed *g_selected *g_window *out",
    "kiln_nsa_combine_backward_args":
        "*dout *compressed *selected *window *g_compressed *g_selected *g_window *dcompressed *dselected *dwindow "
        "*dg_compressed *dg_selected *dg_window",
    "kiln_nsa_decode_pool_args": "*x *weights *lengths *pooled block_size:i ?all",
    "kiln_nsa_decode_choose_args":
        "*q *k_pooled *v_pooled *lengths *out *lse *block_indices block_size:i initial_blocks:i local_blocks:i scale:f",
    "kiln_nsa_decode_args":
        "*q *k *v *block_indices *block_counts *lengths *out *lse block_size:i splits:i scale:f workspace:p workspace_bytes:z",
    "kiln_block_sparse_args": "*q *k *v *mask *list *counts *q_offsets *k_offsets max_queries:i max_keys:i *out *lse ?causal "
                              "query_block:i key_block:i first_row:i scale:f workspace:p workspace_bytes:z",
    "kiln_block_sparse_decode_args": "*q *k *v *table *lengths *mask *list *counts *out *lse key_block:i splits:i scale:f "
                                     "workspace:p workspace_bytes:z",
    "kiln_block_mask_args": "*scores *mask queries:i keys:i ?causal query_block:i key_block:i top:i threshold:d whole_rows:i",
    "kiln_vertical_slash_estimate_args": "*q *k *vertical *slash scale:f workspace:p workspace_bytes:z",
    "kiln_vertical_slash_args": "*q *k *v *vertical *slash *out scale:f workspace:p workspace_bytes:z",
    "kiln_mla_plan_args": "shape:s *lengths *topk_lengths *extra_topk_lengths memory:p memory_bytes:z",
    "kiln_mla_decode_args": "plan:l *q *cache *table *lengths *out *lse ?causal ?round_scales scale:f workspace:p "
                            "workspace_bytes:z",
    "kiln_mla_decode_sparse_args": "plan:l *q *cache *indices *topk_lengths *extra_cache *extra_indices *extra_topk_lengths *sink "
                                   "*out *lse scale:f ?round_scales workspace:p workspace_bytes:z",
    "kiln_mla_slots_args": "*table *lengths *slots page_size:i",
    "kiln_mla_append_args": "*keys *slots *cache",
    "kiln_mla_quantize_args": "*keys *slots *cache ?full_scales ?power_scales",
    "kiln_mla_dequantize_args": "*cache *slots *keys ?round_scales",
    "kiln_mla_decode_contiguous_args": "*q *q_rotary *cache *rotary_cache *lengths *out *lse splits:i scale:f workspace:p "
                                       "workspace_bytes:z *scales",
    "kiln_mla_prefill_sparse_args": "*q *kv *indices *topk_lengths *sink *out *max_logits *lse scale:f ?base2 *ends",
    "kiln_indexer_logits_args": "*q *k *k_scales *weights *starts *ends *logits ?windows_alone",
    "kiln_indexer_scores_args": "*q *k *k_scales *weights *scores",
    "kiln_clean_logits_args": "*logits *starts *ends",
    "kiln_topk_select_args": "*logits *starts *ends *indices",
    "kiln_indexed_attention_args": "*index_q *index_k *index_scales *index_weights *starts *ends *q *kv *sink *out *max_logits *lse "
                                   "*indices topk:i scale:f ?base2 rows:i workspace:p workspace_bytes:z",
    "kiln_indexed_attention_paged_args":
        "*index_q *index_k *index_scales *index_weights *table *lengths *q_offsets *q *kv *sink *out *max_logits *lse *indices topk:i "
        "max_keys:i scale:f ?base2 rows:i workspace:p workspace_bytes:z",
    "kiln_index_append_args": "*keys *slots *index_k *index_scales ?power_of_two",
    "kiln_norm_args": "*x *residual *weight *bias *out *sum *out_scale eps:d",
    "kiln_gated_norm_args": "*x *z *weight *out eps:d ?gate_first ?sigmoid",
    "kiln_gated_norm_backward_args": "*x *z *weight *dout *dresidual *dx *dz *dweight eps:d ?gate_first ?sigmoid workspace:p "
                                     "workspace_bytes:z",
    "kiln_rotary_embedding_args": "*x *positions rotary:r trained_length:i ?backward *lengths",
    "kiln_activate_args": "*gate *up *out activation:e",
    "kiln_activate_backward_args": "*gate *up *dout *dgate *dup activation:e",
    "kiln_softmax_args": "*x *out",
    "kiln_cross_entropy_args": "*logits *labels *loss *lse *dloss *dlogits",
    "kiln_cross_entropy_backward_args": "*logits *labels *lse *dloss *dlogits",
    "kiln_embedding_args": "*table *tokens *out scale:f",
    "kiln_argmax_args": "*x *index",
    "kiln_cast_fp8_args": "*x *out *scales group:i *counts",
    "kiln_cast_int8_args": "*x *out *scales",
    "kiln_hadamard_args": "*x *out",
    "kiln_conv2d_args": "*x *filter *out stride:i dilation:i pad:i",
    "kiln_gdn_args": "*q *k *v *gates *beta *offsets *initial_states *out *final_states ?normalize scale:f workspace:p "
                     "workspace_bytes:z",
    "kiln_gdn_backward_args": "*q *k *v *gates *beta *offsets *initial_states *dout *dfinal_states *dq *dk *dv *dgates *dbeta "
                              "*dinitial_states ?normalize scale:f workspace:p workspace_bytes:z",
    "kiln_gdn_gates_args": "*a *b *a_log *dt_bias *gates *beta ?double_beta",
    "kiln_gdn_gates_backward_args": "*a *b *a_log *dt_bias *dgates *dbeta *da *db *da_log *ddt_bias ?double_beta workspace:p "
                                    "workspace_bytes:z",
    "kiln_gdn_step_args": "*q *k *v *gates *beta *from *to *states *out ?normalize scale:f",
    "kiln_linear_attention_args": "*q *k *v *gates *decay *offsets *initial_states *out *final_states *initial_keys *final_keys "
                                  "*norm ?normalize scale:f workspace:p workspace_bytes:z",
    "kiln_linear_attention_backward_args": "*q *k *v *gates *decay *offsets *initial_states *initial_keys *out *norm *dout "
                                           "*dfinal_states *dfinal_keys *dq *dk *dv *dgates *ddecay *dinitial_states "
                                           "*dinitial_keys scale:f workspace:p workspace_bytes:z",
    "kiln_linear_attention_step_args": "*q *k *v *gates *decay *from *to *states *out scale:f *keys *norm",
    "kiln_mamba2_args": "*x *dt *a *b *c *skip *dt_bias *z *offsets *initial_states *out *ungated *final_states ?plain_dt workspace:p "
                        "workspace_bytes:z",
    "kiln_mamba2_backward_args": "*x *dt *a *b *c *skip *dt_bias *z *ungated *offsets *initial_states *dout *dfinal_states *dx *ddt "
                                 "*da *db *dc *dskip *ddt_bias *dz *dinitial_states ?plain_dt workspace:p workspace_bytes:z",
    "kiln_mamba2_step_args": "*x *dt *a *b *c *skip *dt_bias *z *from *to *states *out ?plain_dt",
    "kiln_causal_conv_args": "*x *filter *bias *offsets *initial_states *out *final_states activation:e",
    "kiln_causal_conv_backward_args": "*x *filter *bias *offsets *initial_states *dout *dfinal_states *dx *dfilter *dbias "
                                      "*dinitial_states activation:e workspace:p workspace_bytes:z",
    "kiln_causal_conv_step_args": "*x *filter *bias *from *to *states *out activation:e",
    "kiln_moe_route_args": "*logits *correction *experts *weights routing:m",
    "kiln_moe_permute_args": "*experts *x *tokens *places *offsets *rows alignment:i",
    "kiln_moe_unpermute_args": "*rows *places *weights *shared *residual *out",
    "kiln_grouped_gemm_args": "*a *b *c *a_scales *b_scales *offsets *counts *bias ?transpose_b workspace:p workspace_bytes:z",
    "kiln_grouped_gemm_weights_args": "*a *dc *offsets *db ?transpose_b",
    "kiln_grouped_mxfp4_args": "*a *codes *scales *offsets *tokens *bias *row_weights *c workspace:p workspace_bytes:z",
    "kiln_moe_args": "*x *gate_up *down *gate_up_bias *down_bias *logits *correction *experts *weights *shared_gate_up *shared_down "
                     "*residual *out top_k:i routing:m activation:e ?interleaved alpha:f limit:f workspace:p workspace_bytes:z "
                     "format:e *gate_up_scales *down_scales *shared_gate_up_scales *shared_down_scales",
    "kiln_block_sparse_gemm_args": "*a *b *mask *c block_m:i block_n:i block_k:i ?transpose_b",
    "kiln_topk_args": "*x *values *indices workspace:p workspace_bytes:z",
    "kiln_sample_args": "*logits *temperatures *top_k *top_p *min_p *seeds *steps *tokens *probabilities *logprobs *distribution",
}
ROTARY = "style:e size:i base:d scale:d low:d high:d extrapolation:d magnitude:d offset:i"
MOE_ROUTING = "?sigmoid ?renormalise scale:f groups:i top_groups:i group_scores:i"
MLA_SHAPE = "batch:i queries:i query_heads:i key_heads:i topk:i extra_topk:i partitions:i"

_PLAIN = {"i": c_int64, "d": c_double, "e": c_int, "p": c_void_p, "z": c_size_t}


def _fields(text: str, kinds: Dict[str, Any]) -> List[Tuple[str, Any]]:
    made = []
    for word in text.split():
        name, _, kind = word.partition(":")
        made.append((name[1:], c_void_p) if name[0] == "*" else (name[1:], c_bool) if name[0] == "?" else (name, kinds[kind]))
    return made


class RotaryStruct(ctypes.Structure):
    _fields_ = _fields(ROTARY, _PLAIN)


class MoeRoutingStruct(ctypes.Structure):
    _fields_ = _fields(MOE_ROUTING, dict(_PLAIN, f=POINTER(c_double)))


class MlaShape(ctypes.Structure):
    _fields_ = _fields(MLA_SHAPE, _PLAIN)


class MlaPlanStruct(ctypes.Structure):
    _fields_ = [("opaque", c_uint64 * 16)]


class PagedPlanStruct(ctypes.Structure):
    _fields_ = [("opaque", c_uint64 * 20)]


_POINTERS = dict(_PLAIN, f=POINTER(c_double), r=POINTER(RotaryStruct), s=POINTER(MlaShape), l=POINTER(MlaPlanStruct),
                 m=POINTER(MoeRoutingStruct), g=POINTER(PagedPlanStruct))
_MADE = {"kiln_mla_plan_make": MlaPlanStruct, "kiln_paged_plan_make": PagedPlanStruct}       # by function: what it fills
_types: Dict[str, Any] = {}
_functions: Dict[str, Tuple[Any, Any, Any]] = {}       # by operator: its struct, its function, that of its workspace's size


def struct_type(name: str) -> Any:
    if name not in _types:
        fields: Any = [("struct_size", c_size_t)] + _fields(STRUCTS[name], _POINTERS)
        _types[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
    return _types[name]


def _function(name: str, struct: str) -> Tuple[Any, Any, Any]:
    known = _functions.get(name)
    if known is None:
        kind, run, size = struct_type(struct), getattr(lib, name), None
        made = [POINTER(_MADE[name])] if name in _MADE else []
        run.restype, run.argtypes = c_int, [c_void_p, c_void_p, POINTER(kind)] + made
        if "workspace:p" in STRUCTS[struct]:
            size = getattr(lib, name + "_workspace_size")
            size.restype, size.argtypes = c_int, [c_void_p, POINTER(kind), POINTER(c_size_t)]
        known = _functions[name] = (kind, run, size)
    return known


# ---- handles: one for each device, kept until the process ends

_handles: Dict[Tuple[str, bool], int] = {}
_lock = threading.Lock()
_checks = False


def check_values(on: bool) -> None:
    """Whether calls from here on check lengths, pages and offsets in GPU memory before they use them, by kernels that trap: a
    `kiln.Error` of `kiln.wait`. On the CPU they always do, and the call itself fails ("trapped")."""
    global _checks
    _checks = bool(on)


def handle_of(device: str) -> int:
    checks = _checks
    handle = _handles.get((device, checks))
    if handle is None:
        with _lock:
            handle = _handles.get((device, checks))             # another thread may have been first
            if handle is None:
                made = c_void_p()
                check(lib.kiln_ops_open(open_device(device), build_options(checks, 0, None), ctypes.byref(made)))
                handle = _handles[device, checks] = made.value or 0
    return handle


# ---- a call

_NUMBERS = ("scale", "alpha", "limit")         # which arguments have by address: left out they have defaults


class _Recorder(threading.local):
    def __init__(self) -> None:
        self.recorded: Optional[List[Any]] = None       # the calls of the function at hand (_warm.py); None: nobody asks


recorder = _Recorder()


class Call:
    """One call of an operator. Tensors that are left out are allocated; what does not fit is left to the library, whose message
    names the field: so nothing here fails because a rank is wrong."""

    def __init__(self, name: str, struct: str, **tensors: Any):
        self.name = name
        self.kind, self.function, self.size = _function(name, struct)
        self.args = self.kind(struct_size=ctypes.sizeof(self.kind))
        self.tensors: Dict[str, Tensor] = {}
        self.keep: List[Any] = []
        self.made: Dict[str, Any] = {}          # outputs that were left out
        self.first: Optional[Tensor] = None
        for field, x in tensors.items():
            if x is not None:
                self.put(field, as_tensor(x))

    def put(self, field: str, tensor: Tensor) -> None:
        self.tensors[field] = tensor
        if self.first is None:
            self.first = tensor
        setattr(self.args, field, addressof(tensor.struct))

    def extents(self, field: str, rank: int) -> Tuple[int, ...]:
        """The first `rank` extents of a tensor; 0 for what is not there."""
        tensor = self.tensors.get(field)
        shape = tensor.shape if tensor is not None else ()
        return (shape + (0,) * rank)[:rank]

    def type_of(self, field: str) -> str:
        tensor = self.tensors.get(field)
        return TYPE_NAMES.get(tensor.struct.type, "f32") if tensor is not None else "f32"

    def output(self, field: str, given: Any, shape: Sequence[int], type: Any) -> Any:
        """The caller's tensor, or a new one."""
        if given is None:
            first = self.first
            if first is None:
                raise TypeError("%s: there is no tensor" % self.name)
            given = first.framework.empty(tuple(max(int(e), 0) for e in shape), type_name(type), first.device)
            self.made[field] = given
        tensor = as_tensor(given)
        if tensor.read_only:
            raise Error("bad argument", "%s: '%s' is written, but its memory may only be read" % (self.name, field))
        self.put(field, tensor)
        return given

    def inout(self, field: str, given: Any) -> Any:
        """The caller's tensor, which is written."""
        return self.output(field, given, (), None)

    def as_rows(self, *fields: str) -> None:
        """Tensors of other than two dimensions become rows of their last one."""
        for field in fields:
            tensor = self.tensors.get(field)
            if tensor is not None and len(tensor.shape) != 2:
                self.put(field, rows_of(self.name, field, tensor))

    def as_list(self, field: str) -> None:
        """A contiguous tensor of any number of dimensions becomes one of one."""
        tensor = self.tensors.get(field)
        if tensor is not None and len(tensor.shape) != 1 and not tensor.struct.has_strides:
            struct = _struct(tensor.data_ptr, tensor.struct.type, (math.prod(tensor.shape),), None, tensor.device)
            self.put(field, Tensor(struct, tensor.owner, tensor.device, tensor.read_only, tensor.framework))

    def set(self, **values: Any) -> None:
        for field, value in values.items():
            if value is not None:
                setattr(self.args, field, pointer(c_double(value)) if field in _NUMBERS else value)

    def stream(self, stream: Any) -> Optional[int]:
        first = self.first
        return stream_for(first.device, first.framework, stream) if first is not None else None

    def run(self, stream: Any, *more: Any) -> None:
        first = self.first
        if first is None:
            raise TypeError("%s: there is no tensor" % self.name)
        handle, queue = handle_of(first.device), self.stream(stream)
        if self.size is not None:
            wanted = c_size_t()
            check(self.size(handle, self.args, ctypes.byref(wanted)))
            if wanted.value:
                address, n, owner = workspace(first.framework, wanted.value, first.device, stream)
                self.args.workspace, self.args.workspace_bytes = address, n
                self.keep.append(owner)
        status = self.function(handle, queue, self.args, *more)
        if status:
            raise error_of(status)
        if recorder.recorded is not None:
            recorder.recorded.append(None if more or stream is not None else self)


def rows_of(name: str, field: str, tensor: Tensor) -> Tensor:
    shape, strides = tensor.shape, tensor.strides
    for d in range(len(shape) - 2):
        if strides[d] != strides[d + 1] * shape[d + 1] and shape[d] > 1:
            raise Error("bad shape", "%s: '%s' is no matrix of rows: dimension %d has stride %d, expected %d"
                        % (name, field, d, strides[d], strides[d + 1] * shape[d + 1]))
    count = math.prod(shape[:-1])
    width = shape[-1] if shape else 1
    step = strides[-2] if len(shape) > 1 else width
    flat = (step, strides[-1] if shape else 1)
    struct = _struct(tensor.data_ptr, tensor.struct.type, (count, width),
                     None if flat == _row_major((count, width)) else flat, tensor.device)
    return Tensor(struct, tensor.owner, tensor.device, tensor.read_only, tensor.framework)


def type_name(type: Any) -> str:
    """"bf16", torch.bfloat16 or numpy.float16 as Kiln's name of it."""
    name = _value_text(type)
    if name not in TYPES:
        raise Error("bad type", "there is no type '%s': the types are %s" % (name, ", ".join(TYPES)))
    return name
