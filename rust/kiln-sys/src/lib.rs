// SPDX-License-Identifier: MIT
//! The C interface of Kiln as it is: include/kiln/*.h. Written by rust/generate.py.
#![allow(non_camel_case_types)]

use std::os::raw::{c_char, c_int, c_uint, c_void};

pub const KILN_DLPACK_COPIED: c_int = 2;
pub const KILN_DLPACK_READ_ONLY: c_int = 1;
pub const KILN_MAX_RANK: c_int = 8;
pub const KILN_MLA_FP8_BYTES: c_int = 656;
pub const KILN_MLA_FP8_SHORT_BYTES: c_int = 584;
pub const KILN_MLA_KEY: c_int = 576;
pub const KILN_MLA_SHORT_KEY: c_int = 512;
pub const KILN_MLA_VALUE: c_int = 512;

pub type kiln_activation = c_uint;
pub const KILN_ACTIVATION_NONE: kiln_activation = 0;
pub const KILN_ACTIVATION_RELU: kiln_activation = 1;
pub const KILN_ACTIVATION_GELU: kiln_activation = 2;
pub const KILN_ACTIVATION_GELU_TANH: kiln_activation = 3;
pub const KILN_ACTIVATION_SILU: kiln_activation = 4;

pub type kiln_arg_kind = c_uint;
pub const KILN_ARG_NONE: kiln_arg_kind = 0;
pub const KILN_ARG_TENSOR: kiln_arg_kind = 1;
pub const KILN_ARG_INT: kiln_arg_kind = 2;
pub const KILN_ARG_FLOAT: kiln_arg_kind = 3;

pub type kiln_moe_activation = c_uint;
pub const KILN_MOE_SWIGLU: kiln_moe_activation = 0;
pub const KILN_MOE_GEGLU: kiln_moe_activation = 1;
pub const KILN_MOE_SWIGLU_CLAMPED: kiln_moe_activation = 2;

pub type kiln_moe_format = c_uint;
pub const KILN_MOE_SAME: kiln_moe_format = 0;
pub const KILN_MOE_MXFP4: kiln_moe_format = 1;
pub const KILN_MOE_FP8: kiln_moe_format = 2;

pub type kiln_precision = c_uint;
pub const KILN_PRECISION_F32: kiln_precision = 0;
pub const KILN_PRECISION_TF32: kiln_precision = 1;
pub const KILN_PRECISION_TF32X3: kiln_precision = 2;

pub type kiln_quant_format = c_uint;
pub const KILN_QUANT_INT4: kiln_quant_format = 0;
pub const KILN_QUANT_INT4S: kiln_quant_format = 1;
pub const KILN_QUANT_INT2: kiln_quant_format = 2;
pub const KILN_QUANT_NF4: kiln_quant_format = 3;
pub const KILN_QUANT_FP4: kiln_quant_format = 4;
pub const KILN_QUANT_MXFP4: kiln_quant_format = 5;
pub const KILN_QUANT_INT8: kiln_quant_format = 6;
pub const KILN_QUANT_FP8: kiln_quant_format = 7;
pub const KILN_QUANT_INT4MIN: kiln_quant_format = 8;
pub const KILN_QUANT_W8A8: kiln_quant_format = 9;
pub const KILN_QUANT_W4A8: kiln_quant_format = 10;
pub const KILN_QUANT_W2A8: kiln_quant_format = 11;
pub const KILN_QUANT_FP8_BLOCK: kiln_quant_format = 12;
pub const KILN_QUANT_W4A8U: kiln_quant_format = 13;

pub type kiln_quant_layout = c_uint;
pub const KILN_QUANT_PLAIN: kiln_quant_layout = 0;
pub const KILN_QUANT_AWQ: kiln_quant_layout = 1;
pub const KILN_QUANT_GPTQ: kiln_quant_layout = 2;
pub const KILN_QUANT_BITSANDBYTES: kiln_quant_layout = 3;
pub const KILN_QUANT_TWIDDLED: kiln_quant_layout = 4;
pub const KILN_QUANT_INTERLEAVED: kiln_quant_layout = 5;
pub const KILN_QUANT_GGUF: kiln_quant_layout = 6;

pub type kiln_rotary_style = c_uint;
pub const KILN_ROTARY_HALVES: kiln_rotary_style = 1;
pub const KILN_ROTARY_INTERLEAVED: kiln_rotary_style = 2;
pub const KILN_ROTARY_DYNAMIC_NTK: kiln_rotary_style = 3;
pub const KILN_ROTARY_QWEN_NTK: kiln_rotary_style = 4;
pub const KILN_ROTARY_YARN: kiln_rotary_style = 5;
pub const KILN_ROTARY_LLAMA3: kiln_rotary_style = 6;
pub const KILN_ROTARY_MULTI: kiln_rotary_style = 7;

pub type kiln_status = c_uint;
pub const KILN_OK: kiln_status = 0;
pub const KILN_OUT_OF_MEMORY: kiln_status = 1;
pub const KILN_BAD_SOURCE: kiln_status = 2;
pub const KILN_BAD_ARGUMENT: kiln_status = 3;
pub const KILN_BAD_TYPE: kiln_status = 4;
pub const KILN_BAD_SHAPE: kiln_status = 5;
pub const KILN_BAD_DEVICE: kiln_status = 6;
pub const KILN_BAD_ALIGNMENT: kiln_status = 7;
pub const KILN_NOT_FOUND: kiln_status = 8;
pub const KILN_UNSUPPORTED: kiln_status = 9;
pub const KILN_TOOLCHAIN: kiln_status = 10;
pub const KILN_IO: kiln_status = 11;
pub const KILN_DEVICE_FAILED: kiln_status = 12;
pub const KILN_TRAPPED: kiln_status = 13;

pub type kiln_type = c_uint;
pub const KILN_F64: kiln_type = 1;
pub const KILN_F32: kiln_type = 2;
pub const KILN_TF32: kiln_type = 3;
pub const KILN_F16: kiln_type = 4;
pub const KILN_BF16: kiln_type = 5;
pub const KILN_E4M3: kiln_type = 6;
pub const KILN_E5M2: kiln_type = 7;
pub const KILN_E2M1: kiln_type = 8;
pub const KILN_I64: kiln_type = 9;
pub const KILN_I32: kiln_type = 10;
pub const KILN_I16: kiln_type = 11;
pub const KILN_I8: kiln_type = 12;
pub const KILN_I4: kiln_type = 13;
pub const KILN_I2: kiln_type = 14;
pub const KILN_U64: kiln_type = 15;
pub const KILN_U32: kiln_type = 16;
pub const KILN_U16: kiln_type = 17;
pub const KILN_U8: kiln_type = 18;
pub const KILN_U4: kiln_type = 19;
pub const KILN_U2: kiln_type = 20;
pub const KILN_BOOL: kiln_type = 21;
pub const KILN_E8M0: kiln_type = 22;

#[repr(C)]
pub struct kiln_archive {
    _private: [u8; 0],
}

#[repr(C)]
pub struct kiln_device {
    _private: [u8; 0],
}

#[repr(C)]
pub struct kiln_event {
    _private: [u8; 0],
}

#[repr(C)]
pub struct kiln_kernel {
    _private: [u8; 0],
}

#[repr(C)]
pub struct kiln_ops {
    _private: [u8; 0],
}

#[repr(C)]
pub struct kiln_program {
    _private: [u8; 0],
}

#[repr(C)]
pub struct kiln_stream {
    _private: [u8; 0],
}

/// The value of a [`kiln_arg`], as its kind says.
#[repr(C)]
#[derive(Clone, Copy)]
pub union kiln_arg_value {
    pub tensor: *const kiln_tensor,
    pub integer: i64,
    pub real: f64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_arg {
    pub kind: kiln_arg_kind,
    pub value: kiln_arg_value,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_activate_args {
    pub struct_size: usize,
    pub gate: *const kiln_tensor,
    pub up: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub activation: kiln_activation,
}

impl Default for kiln_activate_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_activate_backward_args {
    pub struct_size: usize,
    pub gate: *const kiln_tensor,
    pub up: *const kiln_tensor,
    pub dout: *const kiln_tensor,
    pub dgate: *const kiln_tensor,
    pub dup: *const kiln_tensor,
    pub activation: kiln_activation,
}

impl Default for kiln_activate_backward_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_argmax_args {
    pub struct_size: usize,
    pub x: *const kiln_tensor,
    pub index: *const kiln_tensor,
}

impl Default for kiln_argmax_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_attention_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub causal: bool,
    pub window: i64,
    pub scale: *const f64,
    pub sinks: *const kiln_tensor,
    pub softcap: f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_attention_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_attention_backward_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub dout: *const kiln_tensor,
    pub dq: *const kiln_tensor,
    pub dk: *const kiln_tensor,
    pub dv: *const kiln_tensor,
    pub causal: bool,
    pub deterministic: bool,
    pub scale: *const f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
    pub window: i64,
    pub sinks: *const kiln_tensor,
    pub dsinks: *const kiln_tensor,
    pub softcap: f64,
}

impl Default for kiln_attention_backward_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_attention_backward_varlen_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub q_offsets: *const kiln_tensor,
    pub k_offsets: *const kiln_tensor,
    pub max_keys: i64,
    pub out: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub dout: *const kiln_tensor,
    pub dq: *const kiln_tensor,
    pub dk: *const kiln_tensor,
    pub dv: *const kiln_tensor,
    pub causal: bool,
    pub deterministic: bool,
    pub max_queries: i64,
    pub scale: *const f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
    pub window: i64,
    pub sinks: *const kiln_tensor,
    pub dsinks: *const kiln_tensor,
    pub softcap: f64,
}

impl Default for kiln_attention_backward_varlen_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_attention_decode_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub mask: *const kiln_tensor,
    pub lengths: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub splits: i64,
    pub scale: *const f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
    pub softcap: f64,
    pub sinks: *const kiln_tensor,
}

impl Default for kiln_attention_decode_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_attention_kvpacked_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub kv: *const kiln_tensor,
    pub q_offsets: *const kiln_tensor,
    pub k_offsets: *const kiln_tensor,
    pub max_queries: i64,
    pub out: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub causal: bool,
    pub window: i64,
    pub scale: *const f64,
    pub sinks: *const kiln_tensor,
    pub softcap: f64,
}

impl Default for kiln_attention_kvpacked_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_attention_qkvpacked_args {
    pub struct_size: usize,
    pub qkv: *const kiln_tensor,
    pub offsets: *const kiln_tensor,
    pub head_size: i64,
    pub max_rows: i64,
    pub out: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub causal: bool,
    pub window: i64,
    pub scale: *const f64,
    pub sinks: *const kiln_tensor,
    pub softcap: f64,
}

impl Default for kiln_attention_qkvpacked_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_attention_varlen_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub q_offsets: *const kiln_tensor,
    pub k_offsets: *const kiln_tensor,
    pub max_queries: i64,
    pub out: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub causal: bool,
    pub window: i64,
    pub scale: *const f64,
    pub sinks: *const kiln_tensor,
    pub softcap: f64,
}

impl Default for kiln_attention_varlen_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_block_mask_args {
    pub struct_size: usize,
    pub scores: *const kiln_tensor,
    pub mask: *const kiln_tensor,
    pub queries: i64,
    pub keys: i64,
    pub causal: bool,
    pub query_block: i64,
    pub key_block: i64,
    pub top: i64,
    pub threshold: f64,
    pub whole_rows: i64,
}

impl Default for kiln_block_mask_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_block_sparse_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub mask: *const kiln_tensor,
    pub list: *const kiln_tensor,
    pub counts: *const kiln_tensor,
    pub q_offsets: *const kiln_tensor,
    pub k_offsets: *const kiln_tensor,
    pub max_queries: i64,
    pub max_keys: i64,
    pub out: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub causal: bool,
    pub query_block: i64,
    pub key_block: i64,
    pub first_row: i64,
    pub scale: *const f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_block_sparse_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_block_sparse_decode_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub table: *const kiln_tensor,
    pub lengths: *const kiln_tensor,
    pub mask: *const kiln_tensor,
    pub list: *const kiln_tensor,
    pub counts: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub key_block: i64,
    pub splits: i64,
    pub scale: *const f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_block_sparse_decode_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_block_sparse_gemm_args {
    pub struct_size: usize,
    pub a: *const kiln_tensor,
    pub b: *const kiln_tensor,
    pub mask: *const kiln_tensor,
    pub c: *const kiln_tensor,
    pub block_m: i64,
    pub block_n: i64,
    pub block_k: i64,
    pub transpose_b: bool,
}

impl Default for kiln_block_sparse_gemm_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_build_options {
    pub struct_size: usize,
    pub check: bool,
    pub arch: c_int,
    pub isa: *const c_char,
    pub tuned: *const c_char,
    pub tuned_for: *const c_char,
}

impl Default for kiln_build_options {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_cast_fp8_args {
    pub struct_size: usize,
    pub x: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub scales: *const kiln_tensor,
    pub group: i64,
    pub counts: *const kiln_tensor,
}

impl Default for kiln_cast_fp8_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_cast_int8_args {
    pub struct_size: usize,
    pub x: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub scales: *const kiln_tensor,
}

impl Default for kiln_cast_int8_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_causal_conv_args {
    pub struct_size: usize,
    pub x: *const kiln_tensor,
    pub filter: *const kiln_tensor,
    pub bias: *const kiln_tensor,
    pub offsets: *const kiln_tensor,
    pub initial_states: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub final_states: *const kiln_tensor,
    pub activation: kiln_activation,
}

impl Default for kiln_causal_conv_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_causal_conv_backward_args {
    pub struct_size: usize,
    pub x: *const kiln_tensor,
    pub filter: *const kiln_tensor,
    pub bias: *const kiln_tensor,
    pub offsets: *const kiln_tensor,
    pub initial_states: *const kiln_tensor,
    pub dout: *const kiln_tensor,
    pub dfinal_states: *const kiln_tensor,
    pub dx: *const kiln_tensor,
    pub dfilter: *const kiln_tensor,
    pub dbias: *const kiln_tensor,
    pub dinitial_states: *const kiln_tensor,
    pub activation: kiln_activation,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_causal_conv_backward_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_causal_conv_step_args {
    pub struct_size: usize,
    pub x: *const kiln_tensor,
    pub filter: *const kiln_tensor,
    pub bias: *const kiln_tensor,
    pub from: *const kiln_tensor,
    pub to: *const kiln_tensor,
    pub states: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub activation: kiln_activation,
}

impl Default for kiln_causal_conv_step_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_clean_logits_args {
    pub struct_size: usize,
    pub logits: *const kiln_tensor,
    pub starts: *const kiln_tensor,
    pub ends: *const kiln_tensor,
}

impl Default for kiln_clean_logits_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_conv2d_args {
    pub struct_size: usize,
    pub x: *const kiln_tensor,
    pub filter: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub stride: i64,
    pub dilation: i64,
    pub pad: i64,
}

impl Default for kiln_conv2d_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_cross_entropy_args {
    pub struct_size: usize,
    pub logits: *const kiln_tensor,
    pub labels: *const kiln_tensor,
    pub loss: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub dloss: *const kiln_tensor,
    pub dlogits: *const kiln_tensor,
}

impl Default for kiln_cross_entropy_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_cross_entropy_backward_args {
    pub struct_size: usize,
    pub logits: *const kiln_tensor,
    pub labels: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub dloss: *const kiln_tensor,
    pub dlogits: *const kiln_tensor,
}

impl Default for kiln_cross_entropy_backward_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_dlpack_place {
    pub address: *mut *mut c_void,
    pub same: *const c_void,
    pub index: i64,
    pub seen: [i64; 18],
}

impl Default for kiln_dlpack_place {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_dlpack_places {
    pub exchange_api: *const c_void,
    pub item: *const c_void,
    pub type_of: *const c_void,
    pub release: *const c_void,
    pub places: *mut kiln_dlpack_place,
    pub n: i64,
}

impl Default for kiln_dlpack_places {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_embedding_args {
    pub struct_size: usize,
    pub table: *const kiln_tensor,
    pub tokens: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub scale: *const f64,
}

impl Default for kiln_embedding_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_gated_norm_args {
    pub struct_size: usize,
    pub x: *const kiln_tensor,
    pub z: *const kiln_tensor,
    pub weight: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub eps: f64,
    pub gate_first: bool,
    pub sigmoid: bool,
}

impl Default for kiln_gated_norm_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_gated_norm_backward_args {
    pub struct_size: usize,
    pub x: *const kiln_tensor,
    pub z: *const kiln_tensor,
    pub weight: *const kiln_tensor,
    pub dout: *const kiln_tensor,
    pub dresidual: *const kiln_tensor,
    pub dx: *const kiln_tensor,
    pub dz: *const kiln_tensor,
    pub dweight: *const kiln_tensor,
    pub eps: f64,
    pub gate_first: bool,
    pub sigmoid: bool,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_gated_norm_backward_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_gdn_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub gates: *const kiln_tensor,
    pub beta: *const kiln_tensor,
    pub offsets: *const kiln_tensor,
    pub initial_states: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub final_states: *const kiln_tensor,
    pub normalize: bool,
    pub scale: *const f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_gdn_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_gdn_backward_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub gates: *const kiln_tensor,
    pub beta: *const kiln_tensor,
    pub offsets: *const kiln_tensor,
    pub initial_states: *const kiln_tensor,
    pub dout: *const kiln_tensor,
    pub dfinal_states: *const kiln_tensor,
    pub dq: *const kiln_tensor,
    pub dk: *const kiln_tensor,
    pub dv: *const kiln_tensor,
    pub dgates: *const kiln_tensor,
    pub dbeta: *const kiln_tensor,
    pub dinitial_states: *const kiln_tensor,
    pub normalize: bool,
    pub scale: *const f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_gdn_backward_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_gdn_gates_args {
    pub struct_size: usize,
    pub a: *const kiln_tensor,
    pub b: *const kiln_tensor,
    pub a_log: *const kiln_tensor,
    pub dt_bias: *const kiln_tensor,
    pub gates: *const kiln_tensor,
    pub beta: *const kiln_tensor,
    pub double_beta: bool,
}

impl Default for kiln_gdn_gates_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_gdn_gates_backward_args {
    pub struct_size: usize,
    pub a: *const kiln_tensor,
    pub b: *const kiln_tensor,
    pub a_log: *const kiln_tensor,
    pub dt_bias: *const kiln_tensor,
    pub dgates: *const kiln_tensor,
    pub dbeta: *const kiln_tensor,
    pub da: *const kiln_tensor,
    pub db: *const kiln_tensor,
    pub da_log: *const kiln_tensor,
    pub ddt_bias: *const kiln_tensor,
    pub double_beta: bool,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_gdn_gates_backward_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_gdn_step_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub gates: *const kiln_tensor,
    pub beta: *const kiln_tensor,
    pub from: *const kiln_tensor,
    pub to: *const kiln_tensor,
    pub states: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub normalize: bool,
    pub scale: *const f64,
}

impl Default for kiln_gdn_step_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_gemm_args {
    pub struct_size: usize,
    pub a: *const kiln_tensor,
    pub b: *const kiln_tensor,
    pub c: *const kiln_tensor,
    pub bias: *const kiln_tensor,
    pub residual: *const kiln_tensor,
    pub transpose_a: bool,
    pub transpose_b: bool,
    pub activation: kiln_activation,
    pub scale: *const f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
    pub a_scales: *const kiln_tensor,
    pub b_scales: *const kiln_tensor,
    pub precision: kiln_precision,
    pub up: *const kiln_tensor,
    pub up_scales: *const kiln_tensor,
    pub up_bias: *const kiln_tensor,
    pub a_places: *const kiln_tensor,
    pub b_places: *const kiln_tensor,
}

impl Default for kiln_gemm_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_grouped_gemm_args {
    pub struct_size: usize,
    pub a: *const kiln_tensor,
    pub b: *const kiln_tensor,
    pub c: *const kiln_tensor,
    pub a_scales: *const kiln_tensor,
    pub b_scales: *const kiln_tensor,
    pub offsets: *const kiln_tensor,
    pub counts: *const kiln_tensor,
    pub bias: *const kiln_tensor,
    pub transpose_b: bool,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_grouped_gemm_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_grouped_gemm_weights_args {
    pub struct_size: usize,
    pub a: *const kiln_tensor,
    pub dc: *const kiln_tensor,
    pub offsets: *const kiln_tensor,
    pub db: *const kiln_tensor,
    pub transpose_b: bool,
}

impl Default for kiln_grouped_gemm_weights_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_grouped_mxfp4_args {
    pub struct_size: usize,
    pub a: *const kiln_tensor,
    pub codes: *const kiln_tensor,
    pub scales: *const kiln_tensor,
    pub offsets: *const kiln_tensor,
    pub tokens: *const kiln_tensor,
    pub bias: *const kiln_tensor,
    pub row_weights: *const kiln_tensor,
    pub c: *const kiln_tensor,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_grouped_mxfp4_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_hadamard_args {
    pub struct_size: usize,
    pub x: *const kiln_tensor,
    pub out: *const kiln_tensor,
}

impl Default for kiln_hadamard_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_index_append_args {
    pub struct_size: usize,
    pub keys: *const kiln_tensor,
    pub slots: *const kiln_tensor,
    pub index_k: *const kiln_tensor,
    pub index_scales: *const kiln_tensor,
    pub power_of_two: bool,
}

impl Default for kiln_index_append_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_indexed_attention_args {
    pub struct_size: usize,
    pub index_q: *const kiln_tensor,
    pub index_k: *const kiln_tensor,
    pub index_scales: *const kiln_tensor,
    pub index_weights: *const kiln_tensor,
    pub starts: *const kiln_tensor,
    pub ends: *const kiln_tensor,
    pub q: *const kiln_tensor,
    pub kv: *const kiln_tensor,
    pub sink: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub max_logits: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub indices: *const kiln_tensor,
    pub topk: i64,
    pub scale: *const f64,
    pub base2: bool,
    pub rows: i64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_indexed_attention_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_indexed_attention_paged_args {
    pub struct_size: usize,
    pub index_q: *const kiln_tensor,
    pub index_k: *const kiln_tensor,
    pub index_scales: *const kiln_tensor,
    pub index_weights: *const kiln_tensor,
    pub table: *const kiln_tensor,
    pub lengths: *const kiln_tensor,
    pub q_offsets: *const kiln_tensor,
    pub q: *const kiln_tensor,
    pub kv: *const kiln_tensor,
    pub sink: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub max_logits: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub indices: *const kiln_tensor,
    pub topk: i64,
    pub max_keys: i64,
    pub scale: *const f64,
    pub base2: bool,
    pub rows: i64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_indexed_attention_paged_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_indexer_logits_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub k_scales: *const kiln_tensor,
    pub weights: *const kiln_tensor,
    pub starts: *const kiln_tensor,
    pub ends: *const kiln_tensor,
    pub logits: *const kiln_tensor,
    pub windows_alone: bool,
}

impl Default for kiln_indexer_logits_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_indexer_scores_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub k_scales: *const kiln_tensor,
    pub weights: *const kiln_tensor,
    pub scores: *const kiln_tensor,
}

impl Default for kiln_indexer_scores_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_linear_attention_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub gates: *const kiln_tensor,
    pub decay: *const kiln_tensor,
    pub offsets: *const kiln_tensor,
    pub initial_states: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub final_states: *const kiln_tensor,
    pub initial_keys: *const kiln_tensor,
    pub final_keys: *const kiln_tensor,
    pub norm: *const kiln_tensor,
    pub normalize: bool,
    pub scale: *const f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_linear_attention_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_linear_attention_backward_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub gates: *const kiln_tensor,
    pub decay: *const kiln_tensor,
    pub offsets: *const kiln_tensor,
    pub initial_states: *const kiln_tensor,
    pub initial_keys: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub norm: *const kiln_tensor,
    pub dout: *const kiln_tensor,
    pub dfinal_states: *const kiln_tensor,
    pub dfinal_keys: *const kiln_tensor,
    pub dq: *const kiln_tensor,
    pub dk: *const kiln_tensor,
    pub dv: *const kiln_tensor,
    pub dgates: *const kiln_tensor,
    pub ddecay: *const kiln_tensor,
    pub dinitial_states: *const kiln_tensor,
    pub dinitial_keys: *const kiln_tensor,
    pub scale: *const f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_linear_attention_backward_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_linear_attention_step_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub gates: *const kiln_tensor,
    pub decay: *const kiln_tensor,
    pub from: *const kiln_tensor,
    pub to: *const kiln_tensor,
    pub states: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub scale: *const f64,
    pub keys: *const kiln_tensor,
    pub norm: *const kiln_tensor,
}

impl Default for kiln_linear_attention_step_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_mamba2_args {
    pub struct_size: usize,
    pub x: *const kiln_tensor,
    pub dt: *const kiln_tensor,
    pub a: *const kiln_tensor,
    pub b: *const kiln_tensor,
    pub c: *const kiln_tensor,
    pub skip: *const kiln_tensor,
    pub dt_bias: *const kiln_tensor,
    pub z: *const kiln_tensor,
    pub offsets: *const kiln_tensor,
    pub initial_states: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub ungated: *const kiln_tensor,
    pub final_states: *const kiln_tensor,
    pub plain_dt: bool,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_mamba2_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_mamba2_backward_args {
    pub struct_size: usize,
    pub x: *const kiln_tensor,
    pub dt: *const kiln_tensor,
    pub a: *const kiln_tensor,
    pub b: *const kiln_tensor,
    pub c: *const kiln_tensor,
    pub skip: *const kiln_tensor,
    pub dt_bias: *const kiln_tensor,
    pub z: *const kiln_tensor,
    pub ungated: *const kiln_tensor,
    pub offsets: *const kiln_tensor,
    pub initial_states: *const kiln_tensor,
    pub dout: *const kiln_tensor,
    pub dfinal_states: *const kiln_tensor,
    pub dx: *const kiln_tensor,
    pub ddt: *const kiln_tensor,
    pub da: *const kiln_tensor,
    pub db: *const kiln_tensor,
    pub dc: *const kiln_tensor,
    pub dskip: *const kiln_tensor,
    pub ddt_bias: *const kiln_tensor,
    pub dz: *const kiln_tensor,
    pub dinitial_states: *const kiln_tensor,
    pub plain_dt: bool,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_mamba2_backward_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_mamba2_step_args {
    pub struct_size: usize,
    pub x: *const kiln_tensor,
    pub dt: *const kiln_tensor,
    pub a: *const kiln_tensor,
    pub b: *const kiln_tensor,
    pub c: *const kiln_tensor,
    pub skip: *const kiln_tensor,
    pub dt_bias: *const kiln_tensor,
    pub z: *const kiln_tensor,
    pub from: *const kiln_tensor,
    pub to: *const kiln_tensor,
    pub states: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub plain_dt: bool,
}

impl Default for kiln_mamba2_step_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_masked_decode_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub cache: *const kiln_tensor,
    pub table: *const kiln_tensor,
    pub lengths: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub rotary: *const kiln_rotary,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
    pub scales: *const kiln_tensor,
    pub cache2: *const kiln_tensor,
    pub ring: i64,
    pub max_length: i64,
    pub splits: i64,
    pub q_bias: *const kiln_tensor,
    pub k_bias: *const kiln_tensor,
    pub v_bias: *const kiln_tensor,
    pub qkv_scales: *const kiln_tensor,
    pub r#type: kiln_type,
    pub tasks: *const kiln_tensor,
    pub key_factors: *const kiln_tensor,
    pub value_factors: *const kiln_tensor,
    pub positions: *const kiln_tensor,
    pub prefix_lengths: *const kiln_tensor,
    pub positions_after_prefix: bool,
    pub scale: *const f64,
    pub slopes: *const kiln_tensor,
    pub bias: *const kiln_tensor,
    pub bucket_bias: *const kiln_tensor,
    pub bucket_distance: i64,
    pub one_sided_buckets: bool,
    pub log_scaling: bool,
    pub trained_length: i64,
    pub finished: *const kiln_tensor,
    pub cross: bool,
    pub beams: i64,
    pub sources: *const kiln_tensor,
    pub prompt_lengths: *const kiln_tensor,
    pub out_scale: *const kiln_tensor,
    pub sinks: *const kiln_tensor,
}

impl Default for kiln_masked_decode_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_mla_append_args {
    pub struct_size: usize,
    pub keys: *const kiln_tensor,
    pub slots: *const kiln_tensor,
    pub cache: *const kiln_tensor,
}

impl Default for kiln_mla_append_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_mla_decode_args {
    pub struct_size: usize,
    pub plan: *const kiln_mla_plan,
    pub q: *const kiln_tensor,
    pub cache: *const kiln_tensor,
    pub table: *const kiln_tensor,
    pub lengths: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub causal: bool,
    pub round_scales: bool,
    pub scale: *const f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_mla_decode_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_mla_decode_contiguous_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub q_rotary: *const kiln_tensor,
    pub cache: *const kiln_tensor,
    pub rotary_cache: *const kiln_tensor,
    pub lengths: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub splits: i64,
    pub scale: *const f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
    pub scales: *const kiln_tensor,
}

impl Default for kiln_mla_decode_contiguous_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_mla_decode_sparse_args {
    pub struct_size: usize,
    pub plan: *const kiln_mla_plan,
    pub q: *const kiln_tensor,
    pub cache: *const kiln_tensor,
    pub indices: *const kiln_tensor,
    pub topk_lengths: *const kiln_tensor,
    pub extra_cache: *const kiln_tensor,
    pub extra_indices: *const kiln_tensor,
    pub extra_topk_lengths: *const kiln_tensor,
    pub sink: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub scale: *const f64,
    pub round_scales: bool,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_mla_decode_sparse_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_mla_dequantize_args {
    pub struct_size: usize,
    pub cache: *const kiln_tensor,
    pub slots: *const kiln_tensor,
    pub keys: *const kiln_tensor,
    pub round_scales: bool,
}

impl Default for kiln_mla_dequantize_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_mla_plan {
    pub opaque: [u64; 16],
}

impl Default for kiln_mla_plan {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_mla_plan_args {
    pub struct_size: usize,
    pub shape: *const kiln_mla_shape,
    pub lengths: *const kiln_tensor,
    pub topk_lengths: *const kiln_tensor,
    pub extra_topk_lengths: *const kiln_tensor,
    pub memory: *mut c_void,
    pub memory_bytes: usize,
}

impl Default for kiln_mla_plan_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_mla_prefill_sparse_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub kv: *const kiln_tensor,
    pub indices: *const kiln_tensor,
    pub topk_lengths: *const kiln_tensor,
    pub sink: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub max_logits: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub scale: *const f64,
    pub base2: bool,
    pub ends: *const kiln_tensor,
}

impl Default for kiln_mla_prefill_sparse_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_mla_quantize_args {
    pub struct_size: usize,
    pub keys: *const kiln_tensor,
    pub slots: *const kiln_tensor,
    pub cache: *const kiln_tensor,
    pub full_scales: bool,
    pub power_scales: bool,
}

impl Default for kiln_mla_quantize_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_mla_shape {
    pub batch: i64,
    pub queries: i64,
    pub query_heads: i64,
    pub key_heads: i64,
    pub topk: i64,
    pub extra_topk: i64,
    pub partitions: i64,
}

impl Default for kiln_mla_shape {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_mla_slots_args {
    pub struct_size: usize,
    pub table: *const kiln_tensor,
    pub lengths: *const kiln_tensor,
    pub slots: *const kiln_tensor,
    pub page_size: i64,
}

impl Default for kiln_mla_slots_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_moe_args {
    pub struct_size: usize,
    pub x: *const kiln_tensor,
    pub gate_up: *const kiln_tensor,
    pub down: *const kiln_tensor,
    pub gate_up_bias: *const kiln_tensor,
    pub down_bias: *const kiln_tensor,
    pub logits: *const kiln_tensor,
    pub correction: *const kiln_tensor,
    pub experts: *const kiln_tensor,
    pub weights: *const kiln_tensor,
    pub shared_gate_up: *const kiln_tensor,
    pub shared_down: *const kiln_tensor,
    pub residual: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub top_k: i64,
    pub routing: *const kiln_moe_routing,
    pub activation: kiln_moe_activation,
    pub interleaved: bool,
    pub alpha: *const f64,
    pub limit: *const f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
    pub format: kiln_moe_format,
    pub gate_up_scales: *const kiln_tensor,
    pub down_scales: *const kiln_tensor,
    pub shared_gate_up_scales: *const kiln_tensor,
    pub shared_down_scales: *const kiln_tensor,
}

impl Default for kiln_moe_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_moe_permute_args {
    pub struct_size: usize,
    pub experts: *const kiln_tensor,
    pub x: *const kiln_tensor,
    pub tokens: *const kiln_tensor,
    pub places: *const kiln_tensor,
    pub offsets: *const kiln_tensor,
    pub rows: *const kiln_tensor,
    pub alignment: i64,
}

impl Default for kiln_moe_permute_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_moe_route_args {
    pub struct_size: usize,
    pub logits: *const kiln_tensor,
    pub correction: *const kiln_tensor,
    pub experts: *const kiln_tensor,
    pub weights: *const kiln_tensor,
    pub routing: *const kiln_moe_routing,
}

impl Default for kiln_moe_route_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_moe_routing {
    pub sigmoid: bool,
    pub renormalise: bool,
    pub scale: *const f64,
    pub groups: i64,
    pub top_groups: i64,
    pub group_scores: i64,
}

impl Default for kiln_moe_routing {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_moe_unpermute_args {
    pub struct_size: usize,
    pub rows: *const kiln_tensor,
    pub places: *const kiln_tensor,
    pub weights: *const kiln_tensor,
    pub shared: *const kiln_tensor,
    pub residual: *const kiln_tensor,
    pub out: *const kiln_tensor,
}

impl Default for kiln_moe_unpermute_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_norm_args {
    pub struct_size: usize,
    pub x: *const kiln_tensor,
    pub residual: *const kiln_tensor,
    pub weight: *const kiln_tensor,
    pub bias: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub sum: *const kiln_tensor,
    pub out_scale: *const kiln_tensor,
    pub eps: f64,
}

impl Default for kiln_norm_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_nsa_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub g_compressed: *const kiln_tensor,
    pub g_selected: *const kiln_tensor,
    pub g_window: *const kiln_tensor,
    pub block_indices: *const kiln_tensor,
    pub block_counts: *const kiln_tensor,
    pub pool_k: *const kiln_tensor,
    pub pool_v: *const kiln_tensor,
    pub offsets: *const kiln_tensor,
    pub sequences: i64,
    pub max_tokens: i64,
    pub out: *const kiln_tensor,
    pub block_size: i64,
    pub blocks: i64,
    pub initial_blocks: i64,
    pub local_blocks: i64,
    pub window: i64,
    pub scale: *const f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_nsa_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_nsa_choose_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub pool_k: *const kiln_tensor,
    pub pool_v: *const kiln_tensor,
    pub offsets: *const kiln_tensor,
    pub sequences: i64,
    pub max_tokens: i64,
    pub out: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub block_indices: *const kiln_tensor,
    pub block_size: i64,
    pub initial_blocks: i64,
    pub local_blocks: i64,
    pub scale: *const f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_nsa_choose_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_nsa_combine_args {
    pub struct_size: usize,
    pub compressed: *const kiln_tensor,
    pub selected: *const kiln_tensor,
    pub window: *const kiln_tensor,
    pub g_compressed: *const kiln_tensor,
    pub g_selected: *const kiln_tensor,
    pub g_window: *const kiln_tensor,
    pub out: *const kiln_tensor,
}

impl Default for kiln_nsa_combine_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_nsa_combine_backward_args {
    pub struct_size: usize,
    pub dout: *const kiln_tensor,
    pub compressed: *const kiln_tensor,
    pub selected: *const kiln_tensor,
    pub window: *const kiln_tensor,
    pub g_compressed: *const kiln_tensor,
    pub g_selected: *const kiln_tensor,
    pub g_window: *const kiln_tensor,
    pub dcompressed: *const kiln_tensor,
    pub dselected: *const kiln_tensor,
    pub dwindow: *const kiln_tensor,
    pub dg_compressed: *const kiln_tensor,
    pub dg_selected: *const kiln_tensor,
    pub dg_window: *const kiln_tensor,
}

impl Default for kiln_nsa_combine_backward_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_nsa_compressed_backward_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub dout: *const kiln_tensor,
    pub pool_k: *const kiln_tensor,
    pub pool_v: *const kiln_tensor,
    pub offsets: *const kiln_tensor,
    pub sequences: i64,
    pub max_tokens: i64,
    pub dq: *const kiln_tensor,
    pub dk: *const kiln_tensor,
    pub dv: *const kiln_tensor,
    pub dpool_k: *const kiln_tensor,
    pub dpool_v: *const kiln_tensor,
    pub block_size: i64,
    pub scale: *const f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_nsa_compressed_backward_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_nsa_decode_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub block_indices: *const kiln_tensor,
    pub block_counts: *const kiln_tensor,
    pub lengths: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub block_size: i64,
    pub splits: i64,
    pub scale: *const f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_nsa_decode_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_nsa_decode_choose_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k_pooled: *const kiln_tensor,
    pub v_pooled: *const kiln_tensor,
    pub lengths: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub block_indices: *const kiln_tensor,
    pub block_size: i64,
    pub initial_blocks: i64,
    pub local_blocks: i64,
    pub scale: *const f64,
}

impl Default for kiln_nsa_decode_choose_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_nsa_decode_pool_args {
    pub struct_size: usize,
    pub x: *const kiln_tensor,
    pub weights: *const kiln_tensor,
    pub lengths: *const kiln_tensor,
    pub pooled: *const kiln_tensor,
    pub block_size: i64,
    pub all: bool,
}

impl Default for kiln_nsa_decode_pool_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_nsa_selected_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub block_indices: *const kiln_tensor,
    pub block_counts: *const kiln_tensor,
    pub offsets: *const kiln_tensor,
    pub sequences: i64,
    pub max_tokens: i64,
    pub out: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub block_size: i64,
    pub scale: *const f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_nsa_selected_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_nsa_selected_backward_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub dout: *const kiln_tensor,
    pub block_indices: *const kiln_tensor,
    pub block_counts: *const kiln_tensor,
    pub offsets: *const kiln_tensor,
    pub sequences: i64,
    pub max_tokens: i64,
    pub dq: *const kiln_tensor,
    pub dk: *const kiln_tensor,
    pub dv: *const kiln_tensor,
    pub block_size: i64,
    pub fused: bool,
    pub scale: *const f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_nsa_selected_backward_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_paged_append_args {
    pub struct_size: usize,
    pub keys: *const kiln_tensor,
    pub values: *const kiln_tensor,
    pub slots: *const kiln_tensor,
    pub positions: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub k_scales: *const kiln_tensor,
    pub v_scales: *const kiln_tensor,
    pub rotary: *const kiln_rotary,
    pub trained_length: i64,
}

impl Default for kiln_paged_append_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_paged_attention_args {
    pub struct_size: usize,
    pub plan: *const kiln_paged_plan,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub table: *const kiln_tensor,
    pub lengths: *const kiln_tensor,
    pub q_offsets: *const kiln_tensor,
    pub max_queries: i64,
    pub max_keys: i64,
    pub out: *const kiln_tensor,
    pub lse: *const kiln_tensor,
    pub causal: bool,
    pub window: i64,
    pub softcap: f64,
    pub slopes: *const kiln_tensor,
    pub sinks: *const kiln_tensor,
    pub k_scales: *const kiln_tensor,
    pub v_scales: *const kiln_tensor,
    pub splits: i64,
    pub scale: *const f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_paged_attention_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_paged_plan {
    pub opaque: [u64; 20],
}

impl Default for kiln_paged_plan {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_paged_plan_args {
    pub struct_size: usize,
    pub lengths: *const kiln_tensor,
    pub q_offsets: *const kiln_tensor,
    pub rows: i64,
    pub max_queries: i64,
    pub heads: i64,
    pub key_heads: i64,
    pub size: i64,
    pub value_size: i64,
    pub eight_bit: bool,
    pub causal: bool,
    pub window: i64,
    pub parts: i64,
    pub memory: *mut c_void,
    pub memory_bytes: usize,
}

impl Default for kiln_paged_plan_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_paged_slots_args {
    pub struct_size: usize,
    pub table: *const kiln_tensor,
    pub lengths: *const kiln_tensor,
    pub q_offsets: *const kiln_tensor,
    pub slots: *const kiln_tensor,
    pub positions: *const kiln_tensor,
    pub page_size: i64,
}

impl Default for kiln_paged_slots_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_parameter {
    pub struct_size: usize,
    pub name: *const c_char,
    pub kind: kiln_arg_kind,
    pub r#type: kiln_type,
    pub rank: c_int,
    pub reads: bool,
    pub writes: bool,
    pub optional: bool,
    pub strided: bool,
}

impl Default for kiln_parameter {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_program_options {
    pub folders: *const *const c_char,
    pub n_folders: c_int,
}

impl Default for kiln_program_options {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_quant_pack_args {
    pub struct_size: usize,
    pub weights: *const kiln_tensor,
    pub weight_scales: *const kiln_tensor,
    pub weight_zeros: *const kiln_tensor,
    pub codes: *const kiln_tensor,
    pub scales: *const kiln_tensor,
    pub zeros: *const kiln_tensor,
    pub minima: *const kiln_tensor,
    pub format: kiln_quant_format,
    pub layout: kiln_quant_layout,
    pub k: i64,
    pub group: c_int,
    pub weight_group: c_int,
    pub exponent_offset: c_int,
}

impl Default for kiln_quant_pack_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_quant_ternary_args {
    pub struct_size: usize,
    pub weights: *const kiln_tensor,
    pub offsets: *const kiln_tensor,
    pub codes: *const kiln_tensor,
    pub scales: *const kiln_tensor,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_quant_ternary_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_quant_unpack_args {
    pub struct_size: usize,
    pub codes: *const kiln_tensor,
    pub scales: *const kiln_tensor,
    pub zeros: *const kiln_tensor,
    pub minima: *const kiln_tensor,
    pub weights: *const kiln_tensor,
    pub format: kiln_quant_format,
    pub group: c_int,
}

impl Default for kiln_quant_unpack_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_quantised_gemm_args {
    pub struct_size: usize,
    pub a: *const kiln_tensor,
    pub codes: *const kiln_tensor,
    pub scales: *const kiln_tensor,
    pub zeros: *const kiln_tensor,
    pub minima: *const kiln_tensor,
    pub a_scales: *const kiln_tensor,
    pub bias: *const kiln_tensor,
    pub c: *const kiln_tensor,
    pub format: kiln_quant_format,
    pub group: c_int,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
    pub residual: *const kiln_tensor,
}

impl Default for kiln_quantised_gemm_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_rotary {
    pub style: kiln_rotary_style,
    pub size: i64,
    pub base: f64,
    pub scale: f64,
    pub low: f64,
    pub high: f64,
    pub extrapolation: f64,
    pub magnitude: f64,
    pub offset: i64,
}

impl Default for kiln_rotary {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_rotary_embedding_args {
    pub struct_size: usize,
    pub x: *const kiln_tensor,
    pub positions: *const kiln_tensor,
    pub rotary: *const kiln_rotary,
    pub trained_length: i64,
    pub backward: bool,
    pub lengths: *const kiln_tensor,
}

impl Default for kiln_rotary_embedding_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_sample_args {
    pub struct_size: usize,
    pub logits: *const kiln_tensor,
    pub temperatures: *const kiln_tensor,
    pub top_k: *const kiln_tensor,
    pub top_p: *const kiln_tensor,
    pub min_p: *const kiln_tensor,
    pub seeds: *const kiln_tensor,
    pub steps: *const kiln_tensor,
    pub tokens: *const kiln_tensor,
    pub probabilities: *const kiln_tensor,
    pub logprobs: *const kiln_tensor,
    pub distribution: *const kiln_tensor,
}

impl Default for kiln_sample_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_softmax_args {
    pub struct_size: usize,
    pub x: *const kiln_tensor,
    pub out: *const kiln_tensor,
}

impl Default for kiln_softmax_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_sparse24_pack_args {
    pub struct_size: usize,
    pub weights: *const kiln_tensor,
    pub values: *const kiln_tensor,
    pub places: *const kiln_tensor,
    pub excess: *const kiln_tensor,
    pub prune: bool,
}

impl Default for kiln_sparse24_pack_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_tensor {
    pub data: *mut c_void,
    pub r#type: kiln_type,
    pub rank: c_int,
    pub shape: [i64; 8],
    pub strides: [i64; 8],
    pub has_strides: bool,
    pub device: *mut kiln_device,
}

impl Default for kiln_tensor {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_topk_args {
    pub struct_size: usize,
    pub x: *const kiln_tensor,
    pub values: *const kiln_tensor,
    pub indices: *const kiln_tensor,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_topk_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_topk_select_args {
    pub struct_size: usize,
    pub logits: *const kiln_tensor,
    pub starts: *const kiln_tensor,
    pub ends: *const kiln_tensor,
    pub indices: *const kiln_tensor,
}

impl Default for kiln_topk_select_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_vertical_slash_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub v: *const kiln_tensor,
    pub vertical: *const kiln_tensor,
    pub slash: *const kiln_tensor,
    pub out: *const kiln_tensor,
    pub scale: *const f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_vertical_slash_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_vertical_slash_estimate_args {
    pub struct_size: usize,
    pub q: *const kiln_tensor,
    pub k: *const kiln_tensor,
    pub vertical: *const kiln_tensor,
    pub slash: *const kiln_tensor,
    pub scale: *const f64,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

impl Default for kiln_vertical_slash_estimate_args {
    /// All zero.
    fn default() -> Self {
        // Integers, floats, false, null pointers: zero is a value of each.
        unsafe { core::mem::zeroed() }
    }
}

extern "C" {
    pub fn kiln_activate(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_activate_args) -> kiln_status;
    pub fn kiln_activate_backward(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_activate_backward_args) -> kiln_status;
    pub fn kiln_alloc(device: *mut kiln_device, bytes: usize, memory: *mut *mut c_void) -> kiln_status;
    pub fn kiln_argmax(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_argmax_args) -> kiln_status;
    pub fn kiln_attention_backward(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_attention_backward_args) -> kiln_status;
    pub fn kiln_attention_backward_varlen(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_attention_backward_varlen_args) -> kiln_status;
    pub fn kiln_attention_backward_varlen_workspace_size(ops: *mut kiln_ops, args: *const kiln_attention_backward_varlen_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_attention_backward_workspace_size(ops: *mut kiln_ops, args: *const kiln_attention_backward_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_attention_decode(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_attention_decode_args) -> kiln_status;
    pub fn kiln_attention_decode_workspace_size(ops: *mut kiln_ops, args: *const kiln_attention_decode_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_attention_forward(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_attention_args) -> kiln_status;
    pub fn kiln_attention_forward_kvpacked(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_attention_kvpacked_args) -> kiln_status;
    pub fn kiln_attention_forward_qkvpacked(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_attention_qkvpacked_args) -> kiln_status;
    pub fn kiln_attention_forward_varlen(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_attention_varlen_args) -> kiln_status;
    pub fn kiln_attention_forward_workspace_size(ops: *mut kiln_ops, args: *const kiln_attention_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_block_mask(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_block_mask_args) -> kiln_status;
    pub fn kiln_block_sparse(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_block_sparse_args) -> kiln_status;
    pub fn kiln_block_sparse_decode(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_block_sparse_decode_args) -> kiln_status;
    pub fn kiln_block_sparse_decode_workspace_size(ops: *mut kiln_ops, args: *const kiln_block_sparse_decode_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_block_sparse_gemm(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_block_sparse_gemm_args) -> kiln_status;
    pub fn kiln_block_sparse_workspace_size(ops: *mut kiln_ops, args: *const kiln_block_sparse_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_cast_fp8(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_cast_fp8_args) -> kiln_status;
    pub fn kiln_cast_int8(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_cast_int8_args) -> kiln_status;
    pub fn kiln_causal_conv(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_causal_conv_args) -> kiln_status;
    pub fn kiln_causal_conv_backward(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_causal_conv_backward_args) -> kiln_status;
    pub fn kiln_causal_conv_backward_workspace_size(ops: *mut kiln_ops, args: *const kiln_causal_conv_backward_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_causal_conv_step(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_causal_conv_step_args) -> kiln_status;
    pub fn kiln_clean_logits(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_clean_logits_args) -> kiln_status;
    pub fn kiln_conv2d(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_conv2d_args) -> kiln_status;
    pub fn kiln_cross_entropy(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_cross_entropy_args) -> kiln_status;
    pub fn kiln_cross_entropy_backward(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_cross_entropy_backward_args) -> kiln_status;
    pub fn kiln_device_close(device: *mut kiln_device);
    pub fn kiln_device_count(kind: *const c_char) -> c_int;
    pub fn kiln_device_describe(device: *const kiln_device) -> *const c_char;
    pub fn kiln_device_name(device: *const kiln_device) -> *const c_char;
    pub fn kiln_device_open(name: *const c_char, device: *mut *mut kiln_device) -> kiln_status;
    pub fn kiln_dlpack_agree(places: *const kiln_dlpack_places, objects: *mut c_void) -> c_int;
    pub fn kiln_download(device: *mut kiln_device, host: *mut c_void, memory: *const c_void, bytes: usize) -> kiln_status;
    pub fn kiln_embedding(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_embedding_args) -> kiln_status;
    pub fn kiln_error_message() -> *const c_char;
    pub fn kiln_event_close(event: *mut kiln_event);
    pub fn kiln_event_elapsed(begin: *mut kiln_event, end: *mut kiln_event, milliseconds: *mut f64) -> kiln_status;
    pub fn kiln_event_open(device: *mut kiln_device, event: *mut *mut kiln_event) -> kiln_status;
    pub fn kiln_event_record(event: *mut kiln_event, stream: *mut kiln_stream) -> kiln_status;
    pub fn kiln_event_wait(event: *mut kiln_event) -> kiln_status;
    pub fn kiln_free(device: *mut kiln_device, memory: *mut c_void);
    pub fn kiln_gated_norm(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_gated_norm_args) -> kiln_status;
    pub fn kiln_gated_norm_backward(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_gated_norm_backward_args) -> kiln_status;
    pub fn kiln_gated_norm_backward_workspace_size(ops: *mut kiln_ops, args: *const kiln_gated_norm_backward_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_gdn_backward(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_gdn_backward_args) -> kiln_status;
    pub fn kiln_gdn_backward_workspace_size(ops: *mut kiln_ops, args: *const kiln_gdn_backward_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_gdn_forward(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_gdn_args) -> kiln_status;
    pub fn kiln_gdn_forward_workspace_size(ops: *mut kiln_ops, args: *const kiln_gdn_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_gdn_gates(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_gdn_gates_args) -> kiln_status;
    pub fn kiln_gdn_gates_backward(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_gdn_gates_backward_args) -> kiln_status;
    pub fn kiln_gdn_gates_backward_workspace_size(ops: *mut kiln_ops, args: *const kiln_gdn_gates_backward_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_gdn_step(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_gdn_step_args) -> kiln_status;
    pub fn kiln_gemm(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_gemm_args) -> kiln_status;
    pub fn kiln_gemm_workspace_size(ops: *mut kiln_ops, args: *const kiln_gemm_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_grouped_gemm(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_grouped_gemm_args) -> kiln_status;
    pub fn kiln_grouped_gemm_weights(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_grouped_gemm_weights_args) -> kiln_status;
    pub fn kiln_grouped_gemm_workspace_size(ops: *mut kiln_ops, args: *const kiln_grouped_gemm_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_grouped_mxfp4(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_grouped_mxfp4_args) -> kiln_status;
    pub fn kiln_grouped_mxfp4_workspace_size(ops: *mut kiln_ops, args: *const kiln_grouped_mxfp4_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_hadamard(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_hadamard_args) -> kiln_status;
    pub fn kiln_host_alloc(device: *mut kiln_device, bytes: usize, memory: *mut *mut c_void) -> kiln_status;
    pub fn kiln_host_free(device: *mut kiln_device, memory: *mut c_void);
    pub fn kiln_index_append(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_index_append_args) -> kiln_status;
    pub fn kiln_indexed_attention(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_indexed_attention_args) -> kiln_status;
    pub fn kiln_indexed_attention_paged(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_indexed_attention_paged_args) -> kiln_status;
    pub fn kiln_indexed_attention_paged_workspace_size(ops: *mut kiln_ops, args: *const kiln_indexed_attention_paged_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_indexed_attention_workspace_size(ops: *mut kiln_ops, args: *const kiln_indexed_attention_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_indexer_logits(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_indexer_logits_args) -> kiln_status;
    pub fn kiln_indexer_scores(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_indexer_scores_args) -> kiln_status;
    pub fn kiln_kernel_build(device: *mut kiln_device, program: *mut kiln_program, name: *const c_char, bindings: *const c_char, options: *const kiln_build_options, kernel: *mut *mut kiln_kernel) -> kiln_status;
    pub fn kiln_kernel_extents(kernel: *const kiln_kernel, args: *const kiln_arg, n_args: c_int, index: c_int, shape: *mut i64) -> kiln_status;
    pub fn kiln_kernel_free(kernel: *mut kiln_kernel);
    pub fn kiln_kernel_parameter(kernel: *const kiln_kernel, index: c_int, parameter: *mut kiln_parameter) -> kiln_status;
    pub fn kiln_kernel_parameter_name(kernel: *const kiln_kernel, index: c_int) -> *const c_char;
    pub fn kiln_kernel_parameters(kernel: *const kiln_kernel) -> c_int;
    pub fn kiln_kernel_source(kernel: *const kiln_kernel) -> *const c_char;
    pub fn kiln_launch(kernel: *mut kiln_kernel, stream: *mut kiln_stream, args: *const kiln_arg, n_args: c_int) -> kiln_status;
    pub fn kiln_launch_with(kernel: *mut kiln_kernel, stream: *mut kiln_stream, args: *const kiln_arg, n_args: c_int, workspace: *mut c_void, workspace_bytes: usize) -> kiln_status;
    pub fn kiln_layer_norm(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_norm_args) -> kiln_status;
    pub fn kiln_linear_attention_backward(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_linear_attention_backward_args) -> kiln_status;
    pub fn kiln_linear_attention_backward_workspace_size(ops: *mut kiln_ops, args: *const kiln_linear_attention_backward_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_linear_attention_forward(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_linear_attention_args) -> kiln_status;
    pub fn kiln_linear_attention_forward_workspace_size(ops: *mut kiln_ops, args: *const kiln_linear_attention_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_linear_attention_step(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_linear_attention_step_args) -> kiln_status;
    pub fn kiln_mamba2_backward(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_mamba2_backward_args) -> kiln_status;
    pub fn kiln_mamba2_backward_workspace_size(ops: *mut kiln_ops, args: *const kiln_mamba2_backward_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_mamba2_forward(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_mamba2_args) -> kiln_status;
    pub fn kiln_mamba2_forward_workspace_size(ops: *mut kiln_ops, args: *const kiln_mamba2_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_mamba2_step(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_mamba2_step_args) -> kiln_status;
    pub fn kiln_masked_decode(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_masked_decode_args) -> kiln_status;
    pub fn kiln_masked_decode_workspace_size(ops: *mut kiln_ops, args: *const kiln_masked_decode_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_mla_append(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_mla_append_args) -> kiln_status;
    pub fn kiln_mla_decode(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_mla_decode_args) -> kiln_status;
    pub fn kiln_mla_decode_contiguous(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_mla_decode_contiguous_args) -> kiln_status;
    pub fn kiln_mla_decode_contiguous_workspace_size(ops: *mut kiln_ops, args: *const kiln_mla_decode_contiguous_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_mla_decode_sparse(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_mla_decode_sparse_args) -> kiln_status;
    pub fn kiln_mla_decode_sparse_workspace_size(ops: *mut kiln_ops, args: *const kiln_mla_decode_sparse_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_mla_decode_workspace_size(ops: *mut kiln_ops, args: *const kiln_mla_decode_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_mla_dequantize(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_mla_dequantize_args) -> kiln_status;
    pub fn kiln_mla_plan_make(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_mla_plan_args, plan: *mut kiln_mla_plan) -> kiln_status;
    pub fn kiln_mla_plan_shape(plan: *const kiln_mla_plan, shape: *mut kiln_mla_shape) -> kiln_status;
    pub fn kiln_mla_plan_size(ops: *mut kiln_ops, shape: *const kiln_mla_shape, bytes: *mut usize) -> kiln_status;
    pub fn kiln_mla_prefill_sparse(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_mla_prefill_sparse_args) -> kiln_status;
    pub fn kiln_mla_quantize(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_mla_quantize_args) -> kiln_status;
    pub fn kiln_mla_slots(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_mla_slots_args) -> kiln_status;
    pub fn kiln_mla_workspace_size(ops: *mut kiln_ops, shape: *const kiln_mla_shape, bytes: *mut usize) -> kiln_status;
    pub fn kiln_moe(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_moe_args) -> kiln_status;
    pub fn kiln_moe_permute(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_moe_permute_args) -> kiln_status;
    pub fn kiln_moe_route(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_moe_route_args) -> kiln_status;
    pub fn kiln_moe_unpermute(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_moe_unpermute_args) -> kiln_status;
    pub fn kiln_moe_workspace_size(ops: *mut kiln_ops, args: *const kiln_moe_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_nsa_choose(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_nsa_choose_args) -> kiln_status;
    pub fn kiln_nsa_choose_workspace_size(ops: *mut kiln_ops, args: *const kiln_nsa_choose_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_nsa_combine(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_nsa_combine_args) -> kiln_status;
    pub fn kiln_nsa_combine_backward(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_nsa_combine_backward_args) -> kiln_status;
    pub fn kiln_nsa_compressed_backward(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_nsa_compressed_backward_args) -> kiln_status;
    pub fn kiln_nsa_compressed_backward_workspace_size(ops: *mut kiln_ops, args: *const kiln_nsa_compressed_backward_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_nsa_decode(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_nsa_decode_args) -> kiln_status;
    pub fn kiln_nsa_decode_choose(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_nsa_decode_choose_args) -> kiln_status;
    pub fn kiln_nsa_decode_pool(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_nsa_decode_pool_args) -> kiln_status;
    pub fn kiln_nsa_decode_workspace_size(ops: *mut kiln_ops, args: *const kiln_nsa_decode_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_nsa_forward(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_nsa_args) -> kiln_status;
    pub fn kiln_nsa_forward_workspace_size(ops: *mut kiln_ops, args: *const kiln_nsa_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_nsa_selected_backward(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_nsa_selected_backward_args) -> kiln_status;
    pub fn kiln_nsa_selected_backward_workspace_size(ops: *mut kiln_ops, args: *const kiln_nsa_selected_backward_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_nsa_selected_forward(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_nsa_selected_args) -> kiln_status;
    pub fn kiln_nsa_selected_forward_workspace_size(ops: *mut kiln_ops, args: *const kiln_nsa_selected_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_ops_close(ops: *mut kiln_ops);
    pub fn kiln_ops_list(ops: *mut kiln_ops, text: *mut c_char, bytes: usize) -> usize;
    pub fn kiln_ops_open(device: *mut kiln_device, options: *const kiln_build_options, ops: *mut *mut kiln_ops) -> kiln_status;
    pub fn kiln_ops_open_archive(device: *mut kiln_device, archive: *const kiln_archive, ops: *mut *mut kiln_ops) -> kiln_status;
    pub fn kiln_paged_append(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_paged_append_args) -> kiln_status;
    pub fn kiln_paged_attention(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_paged_attention_args) -> kiln_status;
    pub fn kiln_paged_attention_workspace_size(ops: *mut kiln_ops, args: *const kiln_paged_attention_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_paged_plan_make(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_paged_plan_args, plan: *mut kiln_paged_plan) -> kiln_status;
    pub fn kiln_paged_plan_size(ops: *mut kiln_ops, args: *const kiln_paged_plan_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_paged_slots(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_paged_slots_args) -> kiln_status;
    pub fn kiln_program_free(program: *mut kiln_program);
    pub fn kiln_program_load(path: *const c_char, text: *const c_char, options: *const kiln_program_options, program: *mut *mut kiln_program) -> kiln_status;
    pub fn kiln_program_load_file(path: *const c_char, program: *mut *mut kiln_program) -> kiln_status;
    pub fn kiln_program_load_text(name: *const c_char, text: *const c_char, program: *mut *mut kiln_program) -> kiln_status;
    pub fn kiln_quant_extents(format: kiln_quant_format, k: i64, group: c_int, code_type: *mut kiln_type, code_columns: *mut i64, scale_columns: *mut i64) -> kiln_status;
    pub fn kiln_quant_pack(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_quant_pack_args) -> kiln_status;
    pub fn kiln_quant_ternary(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_quant_ternary_args) -> kiln_status;
    pub fn kiln_quant_ternary_workspace_size(ops: *mut kiln_ops, args: *const kiln_quant_ternary_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_quant_unpack(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_quant_unpack_args) -> kiln_status;
    pub fn kiln_quantised_gemm(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_quantised_gemm_args) -> kiln_status;
    pub fn kiln_quantised_gemm_workspace_size(ops: *mut kiln_ops, args: *const kiln_quantised_gemm_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_rms_norm(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_norm_args) -> kiln_status;
    pub fn kiln_rotary_embedding(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_rotary_embedding_args) -> kiln_status;
    pub fn kiln_sample(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_sample_args) -> kiln_status;
    pub fn kiln_set_threads(threads: c_int);
    pub fn kiln_softmax(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_softmax_args) -> kiln_status;
    pub fn kiln_sparse24_pack(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_sparse24_pack_args) -> kiln_status;
    pub fn kiln_status_name(status: kiln_status) -> *const c_char;
    pub fn kiln_stream_close(stream: *mut kiln_stream);
    pub fn kiln_stream_open(device: *mut kiln_device, stream: *mut *mut kiln_stream) -> kiln_status;
    pub fn kiln_stream_wait(device: *mut kiln_device, stream: *mut kiln_stream) -> kiln_status;
    pub fn kiln_stream_wrap(device: *mut kiln_device, native: *mut c_void, stream: *mut *mut kiln_stream) -> kiln_status;
    pub fn kiln_tensor_bytes(tensor: *const kiln_tensor) -> usize;
    pub fn kiln_tensor_from_dlpack(managed: *const c_void, tensor: *mut kiln_tensor) -> kiln_status;
    pub fn kiln_tensor_from_dlpack_versioned(managed: *const c_void, tensor: *mut kiln_tensor, flags: *mut u64) -> kiln_status;
    pub fn kiln_tensor_of(device: *mut kiln_device, data: *mut c_void, r#type: kiln_type, rank: c_int, shape: *const i64) -> kiln_tensor;
    pub fn kiln_tensor_slice(tensor: *const kiln_tensor, dim: c_int, first: i64, extent: i64, slice: *mut kiln_tensor) -> kiln_status;
    pub fn kiln_tensor_to_dlpack(tensor: *const kiln_tensor, managed: *mut *mut c_void) -> kiln_status;
    pub fn kiln_tensor_to_dlpack_versioned(tensor: *const kiln_tensor, flags: u64, managed: *mut *mut c_void) -> kiln_status;
    pub fn kiln_topk(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_topk_args) -> kiln_status;
    pub fn kiln_topk_select(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_topk_select_args) -> kiln_status;
    pub fn kiln_topk_workspace_size(ops: *mut kiln_ops, args: *const kiln_topk_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_type_bits(r#type: kiln_type) -> c_int;
    pub fn kiln_type_name(r#type: kiln_type) -> *const c_char;
    pub fn kiln_upload(device: *mut kiln_device, memory: *mut c_void, host: *const c_void, bytes: usize) -> kiln_status;
    pub fn kiln_version() -> *const c_char;
    pub fn kiln_vertical_slash(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_vertical_slash_args) -> kiln_status;
    pub fn kiln_vertical_slash_estimate(ops: *mut kiln_ops, stream: *mut kiln_stream, args: *const kiln_vertical_slash_estimate_args) -> kiln_status;
    pub fn kiln_vertical_slash_estimate_workspace_size(ops: *mut kiln_ops, args: *const kiln_vertical_slash_estimate_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_vertical_slash_workspace_size(ops: *mut kiln_ops, args: *const kiln_vertical_slash_args, bytes: *mut usize) -> kiln_status;
    pub fn kiln_workspace_size(kernel: *mut kiln_kernel, args: *const kiln_arg, n_args: c_int, bytes: *mut usize) -> kiln_status;
}
