// SPDX-License-Identifier: MIT
//! What follows from the C headers. Written by rust/generate.py.

use crate::{check, Held, MlaPlan, Operators, PagedPlan, Plan, Result, Stream, Tensor, Workspace};
use kiln_sys as sys;

fn tensor(t: Option<&Tensor>, held: &mut Vec<Held>) -> *const sys::kiln_tensor {
    match t {
        Some(t) => {
            held.push(t.held());
            t.as_c()
        }
        None => core::ptr::null(),
    }
}

fn plan<T: Copy + Default>(p: Option<&Plan<T>>, held: &mut Vec<Held>) -> *const T {
    match p {
        Some(p) => {
            held.extend(p.held());
            p.as_c()
        }
        None => core::ptr::null(),
    }
}

fn number(x: Option<f64>, numbers: &mut Vec<Box<f64>>) -> *const f64 {
    match x {
        Some(x) => {
            numbers.push(Box::new(x));
            &**numbers.last().unwrap()
        }
        None => core::ptr::null(),
    }
}

/// `kiln_activation` of the C headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum Activation {
    #[default]
    None = 0,
    Relu = 1,
    Gelu = 2,
    GeluTanh = 3,
    Silu = 4,
}

/// `kiln_precision` of the C headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum Precision {
    #[default]
    F32 = 0,
    Tf32 = 1,
    Tf32x3 = 2,
}

/// `kiln_quant_format` of the C headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum QuantFormat {
    #[default]
    QuantInt4 = 0,
    QuantInt4s = 1,
    QuantInt2 = 2,
    QuantNf4 = 3,
    QuantFp4 = 4,
    QuantMxfp4 = 5,
    QuantInt8 = 6,
    QuantFp8 = 7,
    QuantInt4min = 8,
    QuantW8a8 = 9,
    QuantW4a8 = 10,
    QuantW2a8 = 11,
    QuantFp8Block = 12,
    QuantW4a8u = 13,
}

/// `kiln_quant_layout` of the C headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum QuantLayout {
    #[default]
    QuantPlain = 0,
    QuantAwq = 1,
    QuantGptq = 2,
    QuantBitsandbytes = 3,
    QuantTwiddled = 4,
    QuantInterleaved = 5,
    QuantGguf = 6,
}

/// `kiln_status` of the C headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum Status {
    #[default]
    Ok = 0,
    OutOfMemory = 1,
    BadSource = 2,
    BadArgument = 3,
    BadType = 4,
    BadShape = 5,
    BadDevice = 6,
    BadAlignment = 7,
    NotFound = 8,
    Unsupported = 9,
    Toolchain = 10,
    Io = 11,
    DeviceFailed = 12,
    Trapped = 13,
}

impl Status {
    pub(crate) fn from_c(value: u32) -> Option<Self> {
        match value {
            0 => Some(Self::Ok),
            1 => Some(Self::OutOfMemory),
            2 => Some(Self::BadSource),
            3 => Some(Self::BadArgument),
            4 => Some(Self::BadType),
            5 => Some(Self::BadShape),
            6 => Some(Self::BadDevice),
            7 => Some(Self::BadAlignment),
            8 => Some(Self::NotFound),
            9 => Some(Self::Unsupported),
            10 => Some(Self::Toolchain),
            11 => Some(Self::Io),
            12 => Some(Self::DeviceFailed),
            13 => Some(Self::Trapped),
            _ => None,
        }
    }
}

/// `kiln_type` of the C headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Type {
    F64 = 1,
    F32 = 2,
    TF32 = 3,
    F16 = 4,
    BF16 = 5,
    E4M3 = 6,
    E5M2 = 7,
    E2M1 = 8,
    I64 = 9,
    I32 = 10,
    I16 = 11,
    I8 = 12,
    I4 = 13,
    I2 = 14,
    U64 = 15,
    U32 = 16,
    U16 = 17,
    U8 = 18,
    U4 = 19,
    U2 = 20,
    BOOL = 21,
    E8M0 = 22,
}

/// `kiln_activate_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct ActivateArgs<'a> {
    /// `` in T [M][N] ``
    pub gate: Option<&'a Tensor>,
    /// `` in T [M][N]; NULL: 1 ``
    pub up: Option<&'a Tensor>,
    /// `` out T [M][N] ``
    pub out: Option<&'a Tensor>,
    pub activation: Activation,
}

impl ActivateArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_activate_args {
        let _ = (&numbers, &held);
        sys::kiln_activate_args {
            struct_size: core::mem::size_of::<sys::kiln_activate_args>(),
            gate: tensor(self.gate, held),
            up: tensor(self.up, held),
            out: tensor(self.out, held),
            activation: self.activation as u32,
        }
    }
}

/// `kiln_activate_backward_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct ActivateBackwardArgs<'a> {
    /// `` in T [M][N] ``
    pub gate: Option<&'a Tensor>,
    /// `` in T [M][N]; NULL: 1 ``
    pub up: Option<&'a Tensor>,
    /// `` in T [M][N] ``
    pub dout: Option<&'a Tensor>,
    /// `` out T [M][N] ``
    pub dgate: Option<&'a Tensor>,
    /// `` out T [M][N]; NULL: not wanted. Not without up ``
    pub dup: Option<&'a Tensor>,
    pub activation: Activation,
}

impl ActivateBackwardArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_activate_backward_args {
        let _ = (&numbers, &held);
        sys::kiln_activate_backward_args {
            struct_size: core::mem::size_of::<sys::kiln_activate_backward_args>(),
            gate: tensor(self.gate, held),
            up: tensor(self.up, held),
            dout: tensor(self.dout, held),
            dgate: tensor(self.dgate, held),
            dup: tensor(self.dup, held),
            activation: self.activation as u32,
        }
    }
}

/// `kiln_argmax_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct ArgmaxArgs<'a> {
    /// `` in T [M][N], N at least 1 ``
    pub x: Option<&'a Tensor>,
    /// `` out i32 [M] ``
    pub index: Option<&'a Tensor>,
}

impl ArgmaxArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_argmax_args {
        let _ = (&numbers, &held);
        sys::kiln_argmax_args {
            struct_size: core::mem::size_of::<sys::kiln_argmax_args>(),
            x: tensor(self.x, held),
            index: tensor(self.index, held),
        }
    }
}

/// `kiln_attention_backward_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct AttentionBackwardArgs<'a> {
    /// `` in [B][S][H][D] ``
    pub q: Option<&'a Tensor>,
    /// `` in [B][SKV][HKV][D] ``
    pub k: Option<&'a Tensor>,
    /// `` in [B][SKV][HKV][DV] ``
    pub v: Option<&'a Tensor>,
    /// `` in [B][S][H][DV], of the forward call ``
    pub out: Option<&'a Tensor>,
    /// `` in f32 [B][H][S], of the forward call ``
    pub lse: Option<&'a Tensor>,
    /// `` in [B][S][H][DV]: the gradient of out; that of lse is taken as 0 ``
    pub dout: Option<&'a Tensor>,
    /// `` out [B][S][H][D] ``
    pub dq: Option<&'a Tensor>,
    /// `` out [B][SKV][HKV][D], summed over the query heads of a key head ``
    pub dk: Option<&'a Tensor>,
    /// `` out [B][SKV][HKV][DV] ``
    pub dv: Option<&'a Tensor>,
    /// `` as in the forward call ``
    pub causal: bool,
    /// `` dq in a pass of its own instead of by atomics: the same bits every time, slower ``
    pub deterministic: bool,
    /// `` as in the forward call ``
    pub scale: Option<f64>,
    /// `` as in the forward call ``
    pub window: i64,
    /// `` in f32 [H], of the forward call; NULL: none ``
    pub sinks: Option<&'a Tensor>,
    /// `` out f32 [H], the same bits every time; there if sinks are ``
    pub dsinks: Option<&'a Tensor>,
    /// `` as in the forward call ``
    pub softcap: f64,
}

impl AttentionBackwardArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_attention_backward_args {
        let _ = (&numbers, &held);
        sys::kiln_attention_backward_args {
            struct_size: core::mem::size_of::<sys::kiln_attention_backward_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            out: tensor(self.out, held),
            lse: tensor(self.lse, held),
            dout: tensor(self.dout, held),
            dq: tensor(self.dq, held),
            dk: tensor(self.dk, held),
            dv: tensor(self.dv, held),
            causal: self.causal,
            deterministic: self.deterministic,
            scale: number(self.scale, numbers),
            window: self.window,
            sinks: tensor(self.sinks, held),
            dsinks: tensor(self.dsinks, held),
            softcap: self.softcap,
            ..Default::default()
        }
    }
}

/// `kiln_attention_backward_varlen_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct AttentionBackwardVarlenArgs<'a> {
    /// `` in [TQ][H][D], as in the forward call; so are the next five ``
    pub q: Option<&'a Tensor>,
    /// `` in [TK][HKV][D] ``
    pub k: Option<&'a Tensor>,
    /// `` in [TK][HKV][DV] ``
    pub v: Option<&'a Tensor>,
    /// `` in i32 [B + 1] ``
    pub q_offsets: Option<&'a Tensor>,
    /// `` in i32 [B + 1] ``
    pub k_offsets: Option<&'a Tensor>,
    /// `` keys of the longest sequence of keys, or more; keys past it get no gradient ``
    pub max_keys: i64,
    /// `` in [TQ][H][DV], of the forward call ``
    pub out: Option<&'a Tensor>,
    /// `` in f32 [H][TQ], of the forward call ``
    pub lse: Option<&'a Tensor>,
    /// `` in [TQ][H][DV]: the gradient of out; that of lse is taken as 0 ``
    pub dout: Option<&'a Tensor>,
    /// `` out [TQ][H][D] ``
    pub dq: Option<&'a Tensor>,
    /// `` out [TK][HKV][D], summed over the query heads of a key head ``
    pub dk: Option<&'a Tensor>,
    /// `` out [TK][HKV][DV] ``
    pub dv: Option<&'a Tensor>,
    /// `` as in the forward call ``
    pub causal: bool,
    /// `` dq in a pass of its own instead of by atomics: the same bits every time, slower ``
    pub deterministic: bool,
    /// `` if deterministic: rows of the longest sequence of queries, or more; rows past it: dq 0 ``
    pub max_queries: i64,
    /// `` as in the forward call ``
    pub scale: Option<f64>,
    /// `` as in the forward call ``
    pub window: i64,
    /// `` in f32 [H], of the forward call; NULL: none ``
    pub sinks: Option<&'a Tensor>,
    /// `` out f32 [H], the same bits every time; there if sinks are ``
    pub dsinks: Option<&'a Tensor>,
    /// `` as in the forward call ``
    pub softcap: f64,
}

impl AttentionBackwardVarlenArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_attention_backward_varlen_args {
        let _ = (&numbers, &held);
        sys::kiln_attention_backward_varlen_args {
            struct_size: core::mem::size_of::<sys::kiln_attention_backward_varlen_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            q_offsets: tensor(self.q_offsets, held),
            k_offsets: tensor(self.k_offsets, held),
            max_keys: self.max_keys,
            out: tensor(self.out, held),
            lse: tensor(self.lse, held),
            dout: tensor(self.dout, held),
            dq: tensor(self.dq, held),
            dk: tensor(self.dk, held),
            dv: tensor(self.dv, held),
            causal: self.causal,
            deterministic: self.deterministic,
            max_queries: self.max_queries,
            scale: number(self.scale, numbers),
            window: self.window,
            sinks: tensor(self.sinks, held),
            dsinks: tensor(self.dsinks, held),
            softcap: self.softcap,
            ..Default::default()
        }
    }
}

/// `kiln_attention_decode_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct AttentionDecodeArgs<'a> {
    /// `` in [B][H][D] ``
    pub q: Option<&'a Tensor>,
    /// `` in [B][S][HKV][D] ``
    pub k: Option<&'a Tensor>,
    /// `` in [B][S][HKV][DV] ``
    pub v: Option<&'a Tensor>,
    /// `` in u8 [B][S][HKV], 0 masks the key; NULL: no mask ``
    pub mask: Option<&'a Tensor>,
    /// `` in i32 [B]: how many of the S keys each request has, clamped to 0 .. S; keys after them are not read. NULL: all have S ``
    pub lengths: Option<&'a Tensor>,
    /// `` out [B][H][DV] ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 [B][H]; NULL: not wanted ``
    pub lse: Option<&'a Tensor>,
    /// `` into how many parts the keys are split; 0: as many as fill the device ``
    pub splits: i64,
    /// `` > 0; NULL: 1/sqrt(D) ``
    pub scale: Option<f64>,
    /// `` > 0; 0: none ``
    pub softcap: f64,
    /// `` in f32 [H]; NULL: none ``
    pub sinks: Option<&'a Tensor>,
}

impl AttentionDecodeArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_attention_decode_args {
        let _ = (&numbers, &held);
        sys::kiln_attention_decode_args {
            struct_size: core::mem::size_of::<sys::kiln_attention_decode_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            mask: tensor(self.mask, held),
            lengths: tensor(self.lengths, held),
            out: tensor(self.out, held),
            lse: tensor(self.lse, held),
            splits: self.splits,
            scale: number(self.scale, numbers),
            softcap: self.softcap,
            sinks: tensor(self.sinks, held),
            ..Default::default()
        }
    }
}

/// `kiln_attention_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct AttentionArgs<'a> {
    /// `` in [B][S][H][D] ``
    pub q: Option<&'a Tensor>,
    /// `` in [B][SKV][HKV][D] ``
    pub k: Option<&'a Tensor>,
    /// `` in [B][SKV][HKV][DV] ``
    pub v: Option<&'a Tensor>,
    /// `` out [B][S][H][DV] ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 [B][H][S]; NULL: not wanted ``
    pub lse: Option<&'a Tensor>,
    pub causal: bool,
    /// `` > 0: causal, and only the last `window` keys up to the query's own ``
    pub window: i64,
    /// `` > 0; NULL: 1/sqrt(D) ``
    pub scale: Option<f64>,
    /// `` in f32 [H]; NULL: none ``
    pub sinks: Option<&'a Tensor>,
    /// `` > 0; 0: none ``
    pub softcap: f64,
}

impl AttentionArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_attention_args {
        let _ = (&numbers, &held);
        sys::kiln_attention_args {
            struct_size: core::mem::size_of::<sys::kiln_attention_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            out: tensor(self.out, held),
            lse: tensor(self.lse, held),
            causal: self.causal,
            window: self.window,
            scale: number(self.scale, numbers),
            sinks: tensor(self.sinks, held),
            softcap: self.softcap,
            ..Default::default()
        }
    }
}

/// `kiln_attention_kvpacked_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct AttentionKvpackedArgs<'a> {
    /// `` in [TQ][H][D] ``
    pub q: Option<&'a Tensor>,
    /// `` in [TK][HKV][D + DV]: k, then v ``
    pub kv: Option<&'a Tensor>,
    /// `` in i32 [B + 1] ``
    pub q_offsets: Option<&'a Tensor>,
    /// `` in i32 [B + 1] ``
    pub k_offsets: Option<&'a Tensor>,
    pub max_queries: i64,
    /// `` out [TQ][H][DV] ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 [H][TQ]; NULL: not wanted ``
    pub lse: Option<&'a Tensor>,
    pub causal: bool,
    pub window: i64,
    pub scale: Option<f64>,
    /// `` in f32 [H]; NULL: none ``
    pub sinks: Option<&'a Tensor>,
    /// `` > 0; 0: none ``
    pub softcap: f64,
}

impl AttentionKvpackedArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_attention_kvpacked_args {
        let _ = (&numbers, &held);
        sys::kiln_attention_kvpacked_args {
            struct_size: core::mem::size_of::<sys::kiln_attention_kvpacked_args>(),
            q: tensor(self.q, held),
            kv: tensor(self.kv, held),
            q_offsets: tensor(self.q_offsets, held),
            k_offsets: tensor(self.k_offsets, held),
            max_queries: self.max_queries,
            out: tensor(self.out, held),
            lse: tensor(self.lse, held),
            causal: self.causal,
            window: self.window,
            scale: number(self.scale, numbers),
            sinks: tensor(self.sinks, held),
            softcap: self.softcap,
        }
    }
}

/// `kiln_attention_qkvpacked_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct AttentionQkvpackedArgs<'a> {
    /// `` in [T][H][2 * D + DV]: q, then k, then v ``
    pub qkv: Option<&'a Tensor>,
    /// `` in i32 [B + 1], from 0 to T, not decreasing ``
    pub offsets: Option<&'a Tensor>,
    /// `` D ``
    pub head_size: i64,
    /// `` of the longest sequence, or more; rows past it are not computed ``
    pub max_rows: i64,
    /// `` out [T][H][DV] ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 [H][T]; NULL: not wanted ``
    pub lse: Option<&'a Tensor>,
    pub causal: bool,
    pub window: i64,
    pub scale: Option<f64>,
    /// `` in f32 [H]; NULL: none ``
    pub sinks: Option<&'a Tensor>,
    /// `` > 0; 0: none ``
    pub softcap: f64,
}

impl AttentionQkvpackedArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_attention_qkvpacked_args {
        let _ = (&numbers, &held);
        sys::kiln_attention_qkvpacked_args {
            struct_size: core::mem::size_of::<sys::kiln_attention_qkvpacked_args>(),
            qkv: tensor(self.qkv, held),
            offsets: tensor(self.offsets, held),
            head_size: self.head_size,
            max_rows: self.max_rows,
            out: tensor(self.out, held),
            lse: tensor(self.lse, held),
            causal: self.causal,
            window: self.window,
            scale: number(self.scale, numbers),
            sinks: tensor(self.sinks, held),
            softcap: self.softcap,
        }
    }
}

/// `kiln_attention_varlen_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct AttentionVarlenArgs<'a> {
    /// `` in [TQ][H][D]: sequence b is rows q_offsets[b] to q_offsets[b + 1] - 1 ``
    pub q: Option<&'a Tensor>,
    /// `` in [TK][HKV][D]: the same with k_offsets ``
    pub k: Option<&'a Tensor>,
    /// `` in [TK][HKV][DV] ``
    pub v: Option<&'a Tensor>,
    /// `` in i32 [B + 1], from 0 to TQ, not decreasing ``
    pub q_offsets: Option<&'a Tensor>,
    /// `` in i32 [B + 1], from 0 to TK, not decreasing ``
    pub k_offsets: Option<&'a Tensor>,
    /// `` rows of the longest sequence of queries, or more; rows past it are not computed ``
    pub max_queries: i64,
    /// `` out [TQ][H][DV] ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 [H][TQ]; NULL: not wanted ``
    pub lse: Option<&'a Tensor>,
    /// `` within each sequence ``
    pub causal: bool,
    /// `` > 0: causal, and only the last `window` keys up to the query's own ``
    pub window: i64,
    /// `` > 0; NULL: 1/sqrt(D) ``
    pub scale: Option<f64>,
    /// `` in f32 [H]; NULL: none ``
    pub sinks: Option<&'a Tensor>,
    /// `` > 0; 0: none ``
    pub softcap: f64,
}

impl AttentionVarlenArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_attention_varlen_args {
        let _ = (&numbers, &held);
        sys::kiln_attention_varlen_args {
            struct_size: core::mem::size_of::<sys::kiln_attention_varlen_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            q_offsets: tensor(self.q_offsets, held),
            k_offsets: tensor(self.k_offsets, held),
            max_queries: self.max_queries,
            out: tensor(self.out, held),
            lse: tensor(self.lse, held),
            causal: self.causal,
            window: self.window,
            scale: number(self.scale, numbers),
            sinks: tensor(self.sinks, held),
            softcap: self.softcap,
        }
    }
}

/// `kiln_block_mask_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct BlockMaskArgs<'a> {
    /// `` in f32 [B][HM][query blocks][key blocks], at most 16384 blocks of keys ``
    pub scores: Option<&'a Tensor>,
    /// `` out u8 of the same shape: 1 where a block is taken, of those that the causal mask leaves ``
    pub mask: Option<&'a Tensor>,
    /// `` S and SKV ``
    pub queries: i64,
    /// `` S and SKV ``
    pub keys: i64,
    pub causal: bool,
    /// `` rows of a block; 0: 64 ``
    pub query_block: i64,
    /// `` rows of a block; 0: 64 ``
    pub key_block: i64,
    /// `` the blocks of the largest scores, so many in a row; among equals the first. 0: by threshold ``
    pub top: i64,
    /// `` with top = 0: the blocks with larger scores. A NaN is below all ``
    pub threshold: f64,
    /// `` the last blocks of queries take all that they see, so many ``
    pub whole_rows: i64,
}

impl BlockMaskArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_block_mask_args {
        let _ = (&numbers, &held);
        sys::kiln_block_mask_args {
            struct_size: core::mem::size_of::<sys::kiln_block_mask_args>(),
            scores: tensor(self.scores, held),
            mask: tensor(self.mask, held),
            queries: self.queries,
            keys: self.keys,
            causal: self.causal,
            query_block: self.query_block,
            key_block: self.key_block,
            top: self.top,
            threshold: self.threshold,
            whole_rows: self.whole_rows,
        }
    }
}

/// `kiln_block_sparse_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct BlockSparseArgs<'a> {
    /// `` in [B][S][H][D]; with q_offsets [TQ][H][D]: sequence b is rows q_offsets[b] to q_offsets[b + 1] - 1 ``
    pub q: Option<&'a Tensor>,
    /// `` in [B][SKV][HKV][D]; with k_offsets [TK][HKV][D] ``
    pub k: Option<&'a Tensor>,
    /// `` in [B][SKV][HKV][DV]; with k_offsets [TK][HKV][DV] ``
    pub v: Option<&'a Tensor>,
    /// `` in u8, i8 or bool [B][HM][query blocks][key blocks]: not 0 where the block of queries takes the block of keys; or NULL, and a list ``
    pub mask: Option<&'a Tensor>,
    /// `` in i32 [B][HM][query blocks][places]: the numbers of the blocks that it takes, in any order; numbers that are no block (-1) count for nothing, and one twice counts once ``
    pub list: Option<&'a Tensor>,
    /// `` in i32 [B][HM][query blocks]: how many of its first places count; NULL: all ``
    pub counts: Option<&'a Tensor>,
    /// `` in i32 [B + 1], from 0 to TQ, not decreasing; NULL: not packed ``
    pub q_offsets: Option<&'a Tensor>,
    /// `` in i32 [B + 1], from 0 to TK, not decreasing; there if q_offsets is ``
    pub k_offsets: Option<&'a Tensor>,
    /// `` packed: rows of the longest sequence of queries, or more; rows past it are not computed ``
    pub max_queries: i64,
    /// `` packed: keys of the longest sequence of keys, or more; how large the workspace is depends on it ``
    pub max_keys: i64,
    /// `` out as q, of DV columns ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 [B][H][S], packed [H][TQ]; NULL: not wanted ``
    pub lse: Option<&'a Tensor>,
    pub causal: bool,
    /// `` rows of a block; 0: 64 ``
    pub query_block: i64,
    /// `` rows of a block; 0: 64 ``
    pub key_block: i64,
    /// `` of the mask or list, that the first block of queries reads. (SKV - S) / query_block where it has a row for each block of keys ``
    pub first_row: i64,
    /// `` > 0; NULL: 1/sqrt(D) ``
    pub scale: Option<f64>,
}

impl BlockSparseArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_block_sparse_args {
        let _ = (&numbers, &held);
        sys::kiln_block_sparse_args {
            struct_size: core::mem::size_of::<sys::kiln_block_sparse_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            mask: tensor(self.mask, held),
            list: tensor(self.list, held),
            counts: tensor(self.counts, held),
            q_offsets: tensor(self.q_offsets, held),
            k_offsets: tensor(self.k_offsets, held),
            max_queries: self.max_queries,
            max_keys: self.max_keys,
            out: tensor(self.out, held),
            lse: tensor(self.lse, held),
            causal: self.causal,
            query_block: self.query_block,
            key_block: self.key_block,
            first_row: self.first_row,
            scale: number(self.scale, numbers),
            ..Default::default()
        }
    }
}

/// `kiln_block_sparse_decode_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct BlockSparseDecodeArgs<'a> {
    /// `` in [B][H][D] ``
    pub q: Option<&'a Tensor>,
    /// `` in [B][S][HKV][D]; with a table [pages][page size][HKV][D] ``
    pub k: Option<&'a Tensor>,
    /// `` in [B][S][HKV][DV]; with a table [pages][page size][HKV][DV] ``
    pub v: Option<&'a Tensor>,
    /// `` in i32 [B][pages per request]: key t is in slot t % (page size) of page table[b][t / (page size)]; a page holds whole blocks. NULL: the cache is contiguous ``
    pub table: Option<&'a Tensor>,
    /// `` in i32 [B]: keys of each request, clamped to what the cache has room for ``
    pub lengths: Option<&'a Tensor>,
    /// `` in u8, i8 or bool [B][HKV][key blocks]: not 0 where a block is taken; or NULL, and a list ``
    pub mask: Option<&'a Tensor>,
    /// `` in i32 [B][HKV][places]: numbers of blocks, in any order, negative ones count for nothing, and none twice. Pages of blocks that are not taken are not read ``
    pub list: Option<&'a Tensor>,
    /// `` in i32 [B][HKV]: how many of its first places count; NULL: all ``
    pub counts: Option<&'a Tensor>,
    /// `` out [B][H][DV] ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 [B][H]; NULL: not wanted ``
    pub lse: Option<&'a Tensor>,
    /// `` keys of a block, at most 256 here; 0: 64 ``
    pub key_block: i64,
    /// `` into how many shares the blocks are split, 1 to 65536; 0: as many as fill the device ``
    pub splits: i64,
    /// `` > 0; NULL: 1/sqrt(D) ``
    pub scale: Option<f64>,
}

impl BlockSparseDecodeArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_block_sparse_decode_args {
        let _ = (&numbers, &held);
        sys::kiln_block_sparse_decode_args {
            struct_size: core::mem::size_of::<sys::kiln_block_sparse_decode_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            table: tensor(self.table, held),
            lengths: tensor(self.lengths, held),
            mask: tensor(self.mask, held),
            list: tensor(self.list, held),
            counts: tensor(self.counts, held),
            out: tensor(self.out, held),
            lse: tensor(self.lse, held),
            key_block: self.key_block,
            splits: self.splits,
            scale: number(self.scale, numbers),
            ..Default::default()
        }
    }
}

/// `kiln_block_sparse_gemm_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct BlockSparseGemmArgs<'a> {
    /// `` in T [M][K] ``
    pub a: Option<&'a Tensor>,
    /// `` in T [K][N], with transpose_b [N][K] ``
    pub b: Option<&'a Tensor>,
    /// `` in u8 or bool [M / block_m][N / block_n][K / block_k], each rounded up: not 0 where a block counts ``
    pub mask: Option<&'a Tensor>,
    /// `` out T or f32 [M][N] ``
    pub c: Option<&'a Tensor>,
    /// `` 16, 32, 64 or a multiple of 128, up to 65536; 0: 128 ``
    pub block_m: i64,
    /// `` 16, 32, 64 or a multiple of 128, up to 65536; 0: 128 ``
    pub block_n: i64,
    /// `` 16, 32 or a multiple of 64, up to 65536; 0: 64 ``
    pub block_k: i64,
    pub transpose_b: bool,
}

impl BlockSparseGemmArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_block_sparse_gemm_args {
        let _ = (&numbers, &held);
        sys::kiln_block_sparse_gemm_args {
            struct_size: core::mem::size_of::<sys::kiln_block_sparse_gemm_args>(),
            a: tensor(self.a, held),
            b: tensor(self.b, held),
            mask: tensor(self.mask, held),
            c: tensor(self.c, held),
            block_m: self.block_m,
            block_n: self.block_n,
            block_k: self.block_k,
            transpose_b: self.transpose_b,
        }
    }
}

/// `kiln_cast_fp8_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct CastFp8Args<'a> {
    /// `` in T [M][N] ``
    pub x: Option<&'a Tensor>,
    /// `` out e4m3 [M][N], with counts [G][R][N] ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 [M], with a group [M][N / group, rounded up], with counts [G][R][...] ``
    pub scales: Option<&'a Tensor>,
    /// `` 32, 64, 128 or 256; 0: whole rows, not with counts ``
    pub group: i64,
    /// `` in i32 [G], M or less in all (negative: none); NULL: rows are no groups ``
    pub counts: Option<&'a Tensor>,
}

impl CastFp8Args<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_cast_fp8_args {
        let _ = (&numbers, &held);
        sys::kiln_cast_fp8_args {
            struct_size: core::mem::size_of::<sys::kiln_cast_fp8_args>(),
            x: tensor(self.x, held),
            out: tensor(self.out, held),
            scales: tensor(self.scales, held),
            group: self.group,
            counts: tensor(self.counts, held),
        }
    }
}

/// `kiln_cast_int8_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct CastInt8Args<'a> {
    /// `` in T [M][N] ``
    pub x: Option<&'a Tensor>,
    /// `` out i8 [M][N] ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 [M] ``
    pub scales: Option<&'a Tensor>,
}

impl CastInt8Args<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_cast_int8_args {
        let _ = (&numbers, &held);
        sys::kiln_cast_int8_args {
            struct_size: core::mem::size_of::<sys::kiln_cast_int8_args>(),
            x: tensor(self.x, held),
            out: tensor(self.out, held),
            scales: tensor(self.scales, held),
        }
    }
}

/// `kiln_causal_conv_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct CausalConvArgs<'a> {
    /// `` in T [B][S][D] ``
    pub x: Option<&'a Tensor>,
    /// `` in T [D][W] ``
    pub filter: Option<&'a Tensor>,
    /// `` in T [D]; NULL: 0 ``
    pub bias: Option<&'a Tensor>,
    /// `` in i32 [N + 1], from 0 to S, not decreasing; NULL: not packed ``
    pub offsets: Option<&'a Tensor>,
    /// `` in f32 or T [N][W - 1][D]; NULL: 0 ``
    pub initial_states: Option<&'a Tensor>,
    /// `` out T [B][S][D] ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 or T [N][W - 1][D]; NULL: not wanted ``
    pub final_states: Option<&'a Tensor>,
    pub activation: Activation,
}

impl CausalConvArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_causal_conv_args {
        let _ = (&numbers, &held);
        sys::kiln_causal_conv_args {
            struct_size: core::mem::size_of::<sys::kiln_causal_conv_args>(),
            x: tensor(self.x, held),
            filter: tensor(self.filter, held),
            bias: tensor(self.bias, held),
            offsets: tensor(self.offsets, held),
            initial_states: tensor(self.initial_states, held),
            out: tensor(self.out, held),
            final_states: tensor(self.final_states, held),
            activation: self.activation as u32,
        }
    }
}

/// `kiln_causal_conv_backward_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct CausalConvBackwardArgs<'a> {
    /// `` in T [B][S][D], of the forward pass, as all down to initial_states ``
    pub x: Option<&'a Tensor>,
    /// `` in T [D][W] ``
    pub filter: Option<&'a Tensor>,
    /// `` in T [D]; NULL: 0 ``
    pub bias: Option<&'a Tensor>,
    /// `` in i32 [N + 1], from 0 to S, not decreasing; NULL: not packed ``
    pub offsets: Option<&'a Tensor>,
    /// `` in f32 or T [N][W - 1][D]; NULL: 0 ``
    pub initial_states: Option<&'a Tensor>,
    /// `` in T [B][S][D] ``
    pub dout: Option<&'a Tensor>,
    /// `` in f32 or T [N][W - 1][D]; NULL: 0 ``
    pub dfinal_states: Option<&'a Tensor>,
    /// `` out T [B][S][D] ``
    pub dx: Option<&'a Tensor>,
    /// `` out T [D][W] ``
    pub dfilter: Option<&'a Tensor>,
    /// `` out T [D]; NULL: not wanted ``
    pub dbias: Option<&'a Tensor>,
    /// `` out f32 or T [N][W - 1][D]; NULL: not wanted ``
    pub dinitial_states: Option<&'a Tensor>,
    pub activation: Activation,
}

impl CausalConvBackwardArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_causal_conv_backward_args {
        let _ = (&numbers, &held);
        sys::kiln_causal_conv_backward_args {
            struct_size: core::mem::size_of::<sys::kiln_causal_conv_backward_args>(),
            x: tensor(self.x, held),
            filter: tensor(self.filter, held),
            bias: tensor(self.bias, held),
            offsets: tensor(self.offsets, held),
            initial_states: tensor(self.initial_states, held),
            dout: tensor(self.dout, held),
            dfinal_states: tensor(self.dfinal_states, held),
            dx: tensor(self.dx, held),
            dfilter: tensor(self.dfilter, held),
            dbias: tensor(self.dbias, held),
            dinitial_states: tensor(self.dinitial_states, held),
            activation: self.activation as u32,
            ..Default::default()
        }
    }
}

/// `kiln_causal_conv_step_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct CausalConvStepArgs<'a> {
    /// `` in T [B][R][D], R from 1 to 16 ``
    pub x: Option<&'a Tensor>,
    /// `` in T [D][W] ``
    pub filter: Option<&'a Tensor>,
    /// `` in T [D]; NULL: 0 ``
    pub bias: Option<&'a Tensor>,
    /// `` in i32 [B]; NULL: b ``
    pub from: Option<&'a Tensor>,
    /// `` in i32 [B][R]; NULL: in place ``
    pub to: Option<&'a Tensor>,
    /// `` inout f32 or T [M][W - 1][D] ``
    pub states: Option<&'a Tensor>,
    /// `` out T [B][R][D] ``
    pub out: Option<&'a Tensor>,
    pub activation: Activation,
}

impl CausalConvStepArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_causal_conv_step_args {
        let _ = (&numbers, &held);
        sys::kiln_causal_conv_step_args {
            struct_size: core::mem::size_of::<sys::kiln_causal_conv_step_args>(),
            x: tensor(self.x, held),
            filter: tensor(self.filter, held),
            bias: tensor(self.bias, held),
            from: tensor(self.from, held),
            to: tensor(self.to, held),
            states: tensor(self.states, held),
            out: tensor(self.out, held),
            activation: self.activation as u32,
        }
    }
}

/// `kiln_clean_logits_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct CleanLogitsArgs<'a> {
    /// `` inout f32 [S][SKV] ``
    pub logits: Option<&'a Tensor>,
    /// `` in i32 [S]; NULL: 0 ``
    pub starts: Option<&'a Tensor>,
    /// `` in i32 [S]; NULL: SKV ``
    pub ends: Option<&'a Tensor>,
}

impl CleanLogitsArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_clean_logits_args {
        let _ = (&numbers, &held);
        sys::kiln_clean_logits_args {
            struct_size: core::mem::size_of::<sys::kiln_clean_logits_args>(),
            logits: tensor(self.logits, held),
            starts: tensor(self.starts, held),
            ends: tensor(self.ends, held),
        }
    }
}

/// `kiln_conv2d_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct Conv2dArgs<'a> {
    /// `` in T [images][H][W][C] ``
    pub x: Option<&'a Tensor>,
    /// `` in T [KH][KW][C][F] ``
    pub filter: Option<&'a Tensor>,
    /// `` out T [images][OH][OW][F] ``
    pub out: Option<&'a Tensor>,
    /// `` at least 1; 0: 1 ``
    pub stride: i64,
    /// `` at least 1; 0: 1 ``
    pub dilation: i64,
    /// `` at least 0, on all sides ``
    pub pad: i64,
}

impl Conv2dArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_conv2d_args {
        let _ = (&numbers, &held);
        sys::kiln_conv2d_args {
            struct_size: core::mem::size_of::<sys::kiln_conv2d_args>(),
            x: tensor(self.x, held),
            filter: tensor(self.filter, held),
            out: tensor(self.out, held),
            stride: self.stride,
            dilation: self.dilation,
            pad: self.pad,
        }
    }
}

/// `kiln_cross_entropy_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct CrossEntropyArgs<'a> {
    /// `` in T [M][V], V at least 1 ``
    pub logits: Option<&'a Tensor>,
    /// `` in i32 [M] ``
    pub labels: Option<&'a Tensor>,
    /// `` out f32 [M] ``
    pub loss: Option<&'a Tensor>,
    /// `` out f32 [M]: the logarithm of the sum of exponentials, for the backward pass ``
    pub lse: Option<&'a Tensor>,
    /// `` in f32 [M]; NULL: 1. Not without dlogits ``
    pub dloss: Option<&'a Tensor>,
    /// `` out T [M][V], no memory of logits; NULL: not wanted ``
    pub dlogits: Option<&'a Tensor>,
}

impl CrossEntropyArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_cross_entropy_args {
        let _ = (&numbers, &held);
        sys::kiln_cross_entropy_args {
            struct_size: core::mem::size_of::<sys::kiln_cross_entropy_args>(),
            logits: tensor(self.logits, held),
            labels: tensor(self.labels, held),
            loss: tensor(self.loss, held),
            lse: tensor(self.lse, held),
            dloss: tensor(self.dloss, held),
            dlogits: tensor(self.dlogits, held),
        }
    }
}

/// `kiln_cross_entropy_backward_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct CrossEntropyBackwardArgs<'a> {
    /// `` in T [M][V] ``
    pub logits: Option<&'a Tensor>,
    /// `` in i32 [M] ``
    pub labels: Option<&'a Tensor>,
    /// `` in f32 [M], of the forward pass ``
    pub lse: Option<&'a Tensor>,
    /// `` in f32 [M] ``
    pub dloss: Option<&'a Tensor>,
    /// `` out T [M][V] ``
    pub dlogits: Option<&'a Tensor>,
}

impl CrossEntropyBackwardArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_cross_entropy_backward_args {
        let _ = (&numbers, &held);
        sys::kiln_cross_entropy_backward_args {
            struct_size: core::mem::size_of::<sys::kiln_cross_entropy_backward_args>(),
            logits: tensor(self.logits, held),
            labels: tensor(self.labels, held),
            lse: tensor(self.lse, held),
            dloss: tensor(self.dloss, held),
            dlogits: tensor(self.dlogits, held),
        }
    }
}

/// `kiln_embedding_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct EmbeddingArgs<'a> {
    /// `` in T [V][N] ``
    pub table: Option<&'a Tensor>,
    /// `` in i32 [M] ``
    pub tokens: Option<&'a Tensor>,
    /// `` out T [M][N] ``
    pub out: Option<&'a Tensor>,
    /// `` > 0; NULL: 1 ``
    pub scale: Option<f64>,
}

impl EmbeddingArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_embedding_args {
        let _ = (&numbers, &held);
        sys::kiln_embedding_args {
            struct_size: core::mem::size_of::<sys::kiln_embedding_args>(),
            table: tensor(self.table, held),
            tokens: tensor(self.tokens, held),
            out: tensor(self.out, held),
            scale: number(self.scale, numbers),
        }
    }
}

/// `kiln_gated_norm_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct GatedNormArgs<'a> {
    /// `` in T [M][G][N], N from 1 to 8192; of f32 to 4096 ``
    pub x: Option<&'a Tensor>,
    /// `` in T [M][G][N]; NULL: no gate ``
    pub z: Option<&'a Tensor>,
    /// `` in T [N], or [G][N]; NULL: 1 ``
    pub weight: Option<&'a Tensor>,
    /// `` out T [M][G][N] ``
    pub out: Option<&'a Tensor>,
    /// `` at least 0, and finite ``
    pub eps: f64,
    /// `` x is multiplied by f(z), then normalised ``
    pub gate_first: bool,
    /// `` f(z) = 1 / (1 + exp(-z)) ``
    pub sigmoid: bool,
}

impl GatedNormArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_gated_norm_args {
        let _ = (&numbers, &held);
        sys::kiln_gated_norm_args {
            struct_size: core::mem::size_of::<sys::kiln_gated_norm_args>(),
            x: tensor(self.x, held),
            z: tensor(self.z, held),
            weight: tensor(self.weight, held),
            out: tensor(self.out, held),
            eps: self.eps,
            gate_first: self.gate_first,
            sigmoid: self.sigmoid,
        }
    }
}

/// `kiln_gated_norm_backward_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct GatedNormBackwardArgs<'a> {
    /// `` in T [M][G][N], as in the forward call, as all down to weight ``
    pub x: Option<&'a Tensor>,
    /// `` in T [M][G][N]; NULL: no gate ``
    pub z: Option<&'a Tensor>,
    /// `` in T [N], or [G][N]; NULL: 1 ``
    pub weight: Option<&'a Tensor>,
    /// `` in T [M][G][N] ``
    pub dout: Option<&'a Tensor>,
    /// `` in T [M][G][N]; NULL: 0 ``
    pub dresidual: Option<&'a Tensor>,
    /// `` out T [M][G][N] ``
    pub dx: Option<&'a Tensor>,
    /// `` out T [M][G][N]; NULL: not wanted. Not without z ``
    pub dz: Option<&'a Tensor>,
    /// `` out T, of weight's shape; NULL: not wanted. Not without weight ``
    pub dweight: Option<&'a Tensor>,
    pub eps: f64,
    pub gate_first: bool,
    pub sigmoid: bool,
}

impl GatedNormBackwardArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_gated_norm_backward_args {
        let _ = (&numbers, &held);
        sys::kiln_gated_norm_backward_args {
            struct_size: core::mem::size_of::<sys::kiln_gated_norm_backward_args>(),
            x: tensor(self.x, held),
            z: tensor(self.z, held),
            weight: tensor(self.weight, held),
            dout: tensor(self.dout, held),
            dresidual: tensor(self.dresidual, held),
            dx: tensor(self.dx, held),
            dz: tensor(self.dz, held),
            dweight: tensor(self.dweight, held),
            eps: self.eps,
            gate_first: self.gate_first,
            sigmoid: self.sigmoid,
            ..Default::default()
        }
    }
}

/// `kiln_gdn_backward_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct GdnBackwardArgs<'a> {
    /// `` in T [B][S][HK][DK], of the forward pass, as all down to initial_states ``
    pub q: Option<&'a Tensor>,
    /// `` in T [B][S][HK][DK] ``
    pub k: Option<&'a Tensor>,
    /// `` in T [B][S][H][DV] ``
    pub v: Option<&'a Tensor>,
    /// `` in f32 [B][S][H] or [B][S][H][DK] ``
    pub gates: Option<&'a Tensor>,
    /// `` in T or f32 [B][S][H] ``
    pub beta: Option<&'a Tensor>,
    /// `` in i32 [N + 1], from 0 to S, not decreasing; NULL: not packed ``
    pub offsets: Option<&'a Tensor>,
    /// `` in f32 or T [N][H][DK][DV]; NULL: 0 ``
    pub initial_states: Option<&'a Tensor>,
    /// `` in T [B][S][H][DV] ``
    pub dout: Option<&'a Tensor>,
    /// `` in f32 or T [N][H][DK][DV]; NULL: 0 ``
    pub dfinal_states: Option<&'a Tensor>,
    /// `` out T [B][S][HK][DK]: summed over the heads of a group, as dk ``
    pub dq: Option<&'a Tensor>,
    /// `` out T [B][S][HK][DK] ``
    pub dk: Option<&'a Tensor>,
    /// `` out T [B][S][H][DV] ``
    pub dv: Option<&'a Tensor>,
    /// `` out f32, of gates' shape ``
    pub dgates: Option<&'a Tensor>,
    /// `` out [B][S][H], of beta's type ``
    pub dbeta: Option<&'a Tensor>,
    /// `` out f32 or T [N][H][DK][DV]; NULL: not wanted ``
    pub dinitial_states: Option<&'a Tensor>,
    /// `` as in the forward pass, as scale ``
    pub normalize: bool,
    /// `` > 0; NULL: 1/sqrt(DK) ``
    pub scale: Option<f64>,
}

impl GdnBackwardArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_gdn_backward_args {
        let _ = (&numbers, &held);
        sys::kiln_gdn_backward_args {
            struct_size: core::mem::size_of::<sys::kiln_gdn_backward_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            gates: tensor(self.gates, held),
            beta: tensor(self.beta, held),
            offsets: tensor(self.offsets, held),
            initial_states: tensor(self.initial_states, held),
            dout: tensor(self.dout, held),
            dfinal_states: tensor(self.dfinal_states, held),
            dq: tensor(self.dq, held),
            dk: tensor(self.dk, held),
            dv: tensor(self.dv, held),
            dgates: tensor(self.dgates, held),
            dbeta: tensor(self.dbeta, held),
            dinitial_states: tensor(self.dinitial_states, held),
            normalize: self.normalize,
            scale: number(self.scale, numbers),
            ..Default::default()
        }
    }
}

/// `kiln_gdn_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct GdnArgs<'a> {
    /// `` in T [B][S][HK][DK] ``
    pub q: Option<&'a Tensor>,
    /// `` in T [B][S][HK][DK] ``
    pub k: Option<&'a Tensor>,
    /// `` in T [B][S][H][DV] ``
    pub v: Option<&'a Tensor>,
    /// `` in f32 [B][S][H] or [B][S][H][DK]: g. Below -40, -infinity too, it counts as -40 ``
    pub gates: Option<&'a Tensor>,
    /// `` in T or f32 [B][S][H] ``
    pub beta: Option<&'a Tensor>,
    /// `` in i32 [N + 1], from 0 to S, not decreasing; NULL: not packed ``
    pub offsets: Option<&'a Tensor>,
    /// `` in f32 or T [N][H][DK][DV]: the states before the first token; NULL: 0 ``
    pub initial_states: Option<&'a Tensor>,
    /// `` out T [B][S][H][DV]: o ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 or T [N][H][DK][DV]: the states after the last token; NULL: not wanted ``
    pub final_states: Option<&'a Tensor>,
    /// `` q and k are divided by sqrt(|q|^2 + 1e-6) and sqrt(|k|^2 + 1e-6) ``
    pub normalize: bool,
    /// `` > 0; NULL: 1/sqrt(DK) ``
    pub scale: Option<f64>,
}

impl GdnArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_gdn_args {
        let _ = (&numbers, &held);
        sys::kiln_gdn_args {
            struct_size: core::mem::size_of::<sys::kiln_gdn_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            gates: tensor(self.gates, held),
            beta: tensor(self.beta, held),
            offsets: tensor(self.offsets, held),
            initial_states: tensor(self.initial_states, held),
            out: tensor(self.out, held),
            final_states: tensor(self.final_states, held),
            normalize: self.normalize,
            scale: number(self.scale, numbers),
            ..Default::default()
        }
    }
}

/// `kiln_gdn_gates_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct GdnGatesArgs<'a> {
    /// `` in T [M][H] or [M][H][DK], DK a multiple of 16 up to 256 ``
    pub a: Option<&'a Tensor>,
    /// `` in T [M][H] ``
    pub b: Option<&'a Tensor>,
    /// `` in f32 [H] ``
    pub a_log: Option<&'a Tensor>,
    /// `` in f32 [H] or [H][DK]; NULL: 0 ``
    pub dt_bias: Option<&'a Tensor>,
    /// `` out f32, of a's shape ``
    pub gates: Option<&'a Tensor>,
    /// `` out T or f32 [M][H] ``
    pub beta: Option<&'a Tensor>,
    /// `` beta = 2 sigmoid(b): eigenvalues down to -1 ``
    pub double_beta: bool,
}

impl GdnGatesArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_gdn_gates_args {
        let _ = (&numbers, &held);
        sys::kiln_gdn_gates_args {
            struct_size: core::mem::size_of::<sys::kiln_gdn_gates_args>(),
            a: tensor(self.a, held),
            b: tensor(self.b, held),
            a_log: tensor(self.a_log, held),
            dt_bias: tensor(self.dt_bias, held),
            gates: tensor(self.gates, held),
            beta: tensor(self.beta, held),
            double_beta: self.double_beta,
        }
    }
}

/// `kiln_gdn_gates_backward_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct GdnGatesBackwardArgs<'a> {
    /// `` in T [M][H] or [M][H][DK], as in the forward call, as all down to dt_bias ``
    pub a: Option<&'a Tensor>,
    /// `` in T [M][H] ``
    pub b: Option<&'a Tensor>,
    /// `` in f32 [H] ``
    pub a_log: Option<&'a Tensor>,
    /// `` in f32 [H] or [H][DK]; NULL: 0 ``
    pub dt_bias: Option<&'a Tensor>,
    /// `` in f32, of a's shape ``
    pub dgates: Option<&'a Tensor>,
    /// `` in T or f32 [M][H] ``
    pub dbeta: Option<&'a Tensor>,
    /// `` out T, of a's shape ``
    pub da: Option<&'a Tensor>,
    /// `` out T [M][H] ``
    pub db: Option<&'a Tensor>,
    /// `` out f32 [H] ``
    pub da_log: Option<&'a Tensor>,
    /// `` out f32 [H] or [H][DK]; NULL: not wanted ``
    pub ddt_bias: Option<&'a Tensor>,
    pub double_beta: bool,
}

impl GdnGatesBackwardArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_gdn_gates_backward_args {
        let _ = (&numbers, &held);
        sys::kiln_gdn_gates_backward_args {
            struct_size: core::mem::size_of::<sys::kiln_gdn_gates_backward_args>(),
            a: tensor(self.a, held),
            b: tensor(self.b, held),
            a_log: tensor(self.a_log, held),
            dt_bias: tensor(self.dt_bias, held),
            dgates: tensor(self.dgates, held),
            dbeta: tensor(self.dbeta, held),
            da: tensor(self.da, held),
            db: tensor(self.db, held),
            da_log: tensor(self.da_log, held),
            ddt_bias: tensor(self.ddt_bias, held),
            double_beta: self.double_beta,
            ..Default::default()
        }
    }
}

/// `kiln_gdn_step_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct GdnStepArgs<'a> {
    /// `` in T [B][R][HK][DK], R from 1 to 16 ``
    pub q: Option<&'a Tensor>,
    /// `` in T [B][R][HK][DK] ``
    pub k: Option<&'a Tensor>,
    /// `` in T [B][R][H][DV] ``
    pub v: Option<&'a Tensor>,
    /// `` in f32 [B][R][H] or [B][R][H][DK] ``
    pub gates: Option<&'a Tensor>,
    /// `` in T or f32 [B][R][H] ``
    pub beta: Option<&'a Tensor>,
    /// `` in i32 [B]; NULL: b ``
    pub from: Option<&'a Tensor>,
    /// `` in i32 [B][R]; NULL: in place ``
    pub to: Option<&'a Tensor>,
    /// `` inout f32 or T [M][H][DK][DV] ``
    pub states: Option<&'a Tensor>,
    /// `` out T [B][R][H][DV] ``
    pub out: Option<&'a Tensor>,
    pub normalize: bool,
    /// `` > 0; NULL: 1/sqrt(DK) ``
    pub scale: Option<f64>,
}

impl GdnStepArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_gdn_step_args {
        let _ = (&numbers, &held);
        sys::kiln_gdn_step_args {
            struct_size: core::mem::size_of::<sys::kiln_gdn_step_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            gates: tensor(self.gates, held),
            beta: tensor(self.beta, held),
            from: tensor(self.from, held),
            to: tensor(self.to, held),
            states: tensor(self.states, held),
            out: tensor(self.out, held),
            normalize: self.normalize,
            scale: number(self.scale, numbers),
        }
    }
}

/// `kiln_gemm_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct GemmArgs<'a> {
    /// `` in [Z][M][K], with transpose_a [Z][K][M] ``
    pub a: Option<&'a Tensor>,
    /// `` in [Z][K][N], with transpose_b [Z][N][K] ``
    pub b: Option<&'a Tensor>,
    /// `` out [Z][M][N] ``
    pub c: Option<&'a Tensor>,
    /// `` in [N]; NULL: none ``
    pub bias: Option<&'a Tensor>,
    /// `` in [Z][M][N]; NULL: none ``
    pub residual: Option<&'a Tensor>,
    pub transpose_a: bool,
    pub transpose_b: bool,
    pub activation: Activation,
    /// `` any number; NULL: 1 ``
    pub scale: Option<f64>,
    /// `` in f32 [Z][M], or of blocks [M][K/128]; NULL: 1. Not with c of i32 or f64 ``
    pub a_scales: Option<&'a Tensor>,
    /// `` in f32 [Z][N], or of blocks [N/128, rounded up][K/128]; NULL: 1. Not with c of i32 or f64 ``
    pub b_scales: Option<&'a Tensor>,
    pub precision: Precision,
    /// `` in as b; NULL: no pair. Not with c of i32 ``
    pub up: Option<&'a Tensor>,
    /// `` in f32 [Z][N]; NULL: 1 ``
    pub up_scales: Option<&'a Tensor>,
    /// `` in [N]; NULL: none ``
    pub up_bias: Option<&'a Tensor>,
    /// `` in u8 [Z][M][K/8]; NULL: a is dense. Not with transpose_a or b_places ``
    pub a_places: Option<&'a Tensor>,
    /// `` in u8 [Z][N][K/8], with transpose_b; NULL: b is dense ``
    pub b_places: Option<&'a Tensor>,
}

impl GemmArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_gemm_args {
        let _ = (&numbers, &held);
        sys::kiln_gemm_args {
            struct_size: core::mem::size_of::<sys::kiln_gemm_args>(),
            a: tensor(self.a, held),
            b: tensor(self.b, held),
            c: tensor(self.c, held),
            bias: tensor(self.bias, held),
            residual: tensor(self.residual, held),
            transpose_a: self.transpose_a,
            transpose_b: self.transpose_b,
            activation: self.activation as u32,
            scale: number(self.scale, numbers),
            a_scales: tensor(self.a_scales, held),
            b_scales: tensor(self.b_scales, held),
            precision: self.precision as u32,
            up: tensor(self.up, held),
            up_scales: tensor(self.up_scales, held),
            up_bias: tensor(self.up_bias, held),
            a_places: tensor(self.a_places, held),
            b_places: tensor(self.b_places, held),
            ..Default::default()
        }
    }
}

/// `kiln_grouped_gemm_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct GroupedGemmArgs<'a> {
    /// `` in T or e4m3 [R][K], with counts [E][rows][K] ``
    pub a: Option<&'a Tensor>,
    /// `` in as a [E][K][N], with transpose_b [E][N][K] ``
    pub b: Option<&'a Tensor>,
    /// `` out T or f32 [R][N], with counts [E][rows][N] ``
    pub c: Option<&'a Tensor>,
    /// `` in f32 [R][K / 128, rounded up], with counts [E][rows][...]; of e4m3 ``
    pub a_scales: Option<&'a Tensor>,
    /// `` in f32 [E][N / 128, rounded up][K / 128, rounded up]; of e4m3 ``
    pub b_scales: Option<&'a Tensor>,
    /// `` in i32 [E + 1]: from 0 up to R at most, never falling; NULL: counts are given ``
    pub offsets: Option<&'a Tensor>,
    /// `` in i32 [E]; NULL: offsets are given ``
    pub counts: Option<&'a Tensor>,
    /// `` in as c [E][N]; NULL: none ``
    pub bias: Option<&'a Tensor>,
    pub transpose_b: bool,
}

impl GroupedGemmArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_grouped_gemm_args {
        let _ = (&numbers, &held);
        sys::kiln_grouped_gemm_args {
            struct_size: core::mem::size_of::<sys::kiln_grouped_gemm_args>(),
            a: tensor(self.a, held),
            b: tensor(self.b, held),
            c: tensor(self.c, held),
            a_scales: tensor(self.a_scales, held),
            b_scales: tensor(self.b_scales, held),
            offsets: tensor(self.offsets, held),
            counts: tensor(self.counts, held),
            bias: tensor(self.bias, held),
            transpose_b: self.transpose_b,
            ..Default::default()
        }
    }
}

/// `kiln_grouped_gemm_weights_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct GroupedGemmWeightsArgs<'a> {
    /// `` in T [R][K] ``
    pub a: Option<&'a Tensor>,
    /// `` in T [R][N] ``
    pub dc: Option<&'a Tensor>,
    /// `` in i32 [E + 1] ``
    pub offsets: Option<&'a Tensor>,
    /// `` out T or f32 [E][K][N], with transpose_b [E][N][K] ``
    pub db: Option<&'a Tensor>,
    pub transpose_b: bool,
}

impl GroupedGemmWeightsArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_grouped_gemm_weights_args {
        let _ = (&numbers, &held);
        sys::kiln_grouped_gemm_weights_args {
            struct_size: core::mem::size_of::<sys::kiln_grouped_gemm_weights_args>(),
            a: tensor(self.a, held),
            dc: tensor(self.dc, held),
            offsets: tensor(self.offsets, held),
            db: tensor(self.db, held),
            transpose_b: self.transpose_b,
        }
    }
}

/// `kiln_grouped_mxfp4_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct GroupedMxfp4Args<'a> {
    /// `` in bf16 [R][K], with tokens [M][K]; rows may lie apart ``
    pub a: Option<&'a Tensor>,
    /// `` in e2m1 [E][N][P], or u8 [E][N][P / 2] ``
    pub codes: Option<&'a Tensor>,
    /// `` in u8 [E][N][P / 32] ``
    pub scales: Option<&'a Tensor>,
    /// `` in i32 [E + 1]: from 0 up to R at most, never falling ``
    pub offsets: Option<&'a Tensor>,
    /// `` in i32 [R]: the row of a that stands for r, of kiln_moe_permute; -1: zeros. NULL: r ``
    pub tokens: Option<&'a Tensor>,
    /// `` in as c [E][N]; NULL: none ``
    pub bias: Option<&'a Tensor>,
    /// `` in f32 [R]; NULL: 1 ``
    pub row_weights: Option<&'a Tensor>,
    /// `` out bf16 or f32 [R][N]; rows may lie apart ``
    pub c: Option<&'a Tensor>,
}

impl GroupedMxfp4Args<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_grouped_mxfp4_args {
        let _ = (&numbers, &held);
        sys::kiln_grouped_mxfp4_args {
            struct_size: core::mem::size_of::<sys::kiln_grouped_mxfp4_args>(),
            a: tensor(self.a, held),
            codes: tensor(self.codes, held),
            scales: tensor(self.scales, held),
            offsets: tensor(self.offsets, held),
            tokens: tensor(self.tokens, held),
            bias: tensor(self.bias, held),
            row_weights: tensor(self.row_weights, held),
            c: tensor(self.c, held),
            ..Default::default()
        }
    }
}

/// `kiln_hadamard_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct HadamardArgs<'a> {
    /// `` in T [M][N], N a power of two from 2 to 32768 ``
    pub x: Option<&'a Tensor>,
    /// `` out T [M][N] ``
    pub out: Option<&'a Tensor>,
}

impl HadamardArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_hadamard_args {
        let _ = (&numbers, &held);
        sys::kiln_hadamard_args {
            struct_size: core::mem::size_of::<sys::kiln_hadamard_args>(),
            x: tensor(self.x, held),
            out: tensor(self.out, held),
        }
    }
}

/// `kiln_index_append_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct IndexAppendArgs<'a> {
    /// `` in bf16 or f16 [N][DI] ``
    pub keys: Option<&'a Tensor>,
    /// `` in i32 [N] ``
    pub slots: Option<&'a Tensor>,
    /// `` inout e4m3 [pages][page size][DI] ``
    pub index_k: Option<&'a Tensor>,
    /// `` inout f32 [pages][page size] ``
    pub index_scales: Option<&'a Tensor>,
    /// `` scales are rounded up to powers of two ``
    pub power_of_two: bool,
}

impl IndexAppendArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_index_append_args {
        let _ = (&numbers, &held);
        sys::kiln_index_append_args {
            struct_size: core::mem::size_of::<sys::kiln_index_append_args>(),
            keys: tensor(self.keys, held),
            slots: tensor(self.slots, held),
            index_k: tensor(self.index_k, held),
            index_scales: tensor(self.index_scales, held),
            power_of_two: self.power_of_two,
        }
    }
}

/// `kiln_indexed_attention_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct IndexedAttentionArgs<'a> {
    /// `` in e4m3 [S][HI][DI] ``
    pub index_q: Option<&'a Tensor>,
    /// `` in e4m3 [SKV][DI] ``
    pub index_k: Option<&'a Tensor>,
    /// `` in f32 [SKV] ``
    pub index_scales: Option<&'a Tensor>,
    /// `` in f32 [S][HI] ``
    pub index_weights: Option<&'a Tensor>,
    /// `` in i32 [S]; NULL: 0 ``
    pub starts: Option<&'a Tensor>,
    /// `` in i32 [S]; NULL: SKV ``
    pub ends: Option<&'a Tensor>,
    /// `` in bf16 [S][H][D]; D is 576 or 512 ``
    pub q: Option<&'a Tensor>,
    /// `` in bf16 [SKV][D]: the first 512 values of a key are also its value ``
    pub kv: Option<&'a Tensor>,
    /// `` in f32 [H], as in kiln_mla_prefill_sparse_args; NULL: none ``
    pub sink: Option<&'a Tensor>,
    /// `` out bf16 [S][H][512] ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 [S][H]; NULL: not wanted; this and lse as in kiln_mla_prefill_sparse_args ``
    pub max_logits: Option<&'a Tensor>,
    /// `` out f32 [S][H]; NULL: not wanted ``
    pub lse: Option<&'a Tensor>,
    /// `` out i32 [S][topk]: the keys of each query; NULL: not wanted ``
    pub indices: Option<&'a Tensor>,
    /// `` keys of a query, 1 to 16384 ``
    pub topk: i64,
    /// `` of attention, > 0; NULL: 1/sqrt(D) ``
    pub scale: Option<f64>,
    /// `` as in kiln_mla_prefill_sparse_args ``
    pub base2: bool,
    /// `` queries at a time, rounded up to a multiple of 16; 0: 512, or more where the logits of these take less than 128 MiB ``
    pub rows: i64,
}

impl IndexedAttentionArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_indexed_attention_args {
        let _ = (&numbers, &held);
        sys::kiln_indexed_attention_args {
            struct_size: core::mem::size_of::<sys::kiln_indexed_attention_args>(),
            index_q: tensor(self.index_q, held),
            index_k: tensor(self.index_k, held),
            index_scales: tensor(self.index_scales, held),
            index_weights: tensor(self.index_weights, held),
            starts: tensor(self.starts, held),
            ends: tensor(self.ends, held),
            q: tensor(self.q, held),
            kv: tensor(self.kv, held),
            sink: tensor(self.sink, held),
            out: tensor(self.out, held),
            max_logits: tensor(self.max_logits, held),
            lse: tensor(self.lse, held),
            indices: tensor(self.indices, held),
            topk: self.topk,
            scale: number(self.scale, numbers),
            base2: self.base2,
            rows: self.rows,
            ..Default::default()
        }
    }
}

/// `kiln_indexed_attention_paged_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct IndexedAttentionPagedArgs<'a> {
    /// `` in e4m3 [TQ][HI][DI]: request b has rows q_offsets[b] to q_offsets[b + 1] - 1 ``
    pub index_q: Option<&'a Tensor>,
    /// `` in e4m3 [pages][page size][DI]; a page has 1 to 256 tokens ``
    pub index_k: Option<&'a Tensor>,
    /// `` in f32 [pages][page size] ``
    pub index_scales: Option<&'a Tensor>,
    /// `` in f32 [TQ][HI] ``
    pub index_weights: Option<&'a Tensor>,
    /// `` in i32 [B][pages per request] ``
    pub table: Option<&'a Tensor>,
    /// `` in i32 [B]: the new tokens included; may be 0 ``
    pub lengths: Option<&'a Tensor>,
    /// `` in i32 [B + 1], from 0 to TQ, not decreasing; NULL: every request has TQ / B rows ``
    pub q_offsets: Option<&'a Tensor>,
    /// `` in bf16 [TQ][H][D]; D is 576 or 512; NULL, and with it kv and out: the selection alone ``
    pub q: Option<&'a Tensor>,
    /// `` in bf16 [pages][page size][D], or with a dimension of 1 before the last: the first 512 values of a key are also its value. Pages lie (page size) tokens apart ``
    pub kv: Option<&'a Tensor>,
    /// `` in f32 [H], as in kiln_mla_prefill_sparse_args; NULL: none ``
    pub sink: Option<&'a Tensor>,
    /// `` out bf16 [TQ][H][512] ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 [TQ][H]; NULL: not wanted; this and lse as in kiln_mla_prefill_sparse_args ``
    pub max_logits: Option<&'a Tensor>,
    /// `` out f32 [TQ][H]; NULL: not wanted ``
    pub lse: Option<&'a Tensor>,
    /// `` out i32 [TQ][topk]: the slots of each query's tokens, by ascending positions, then -1; NULL: not wanted ``
    pub indices: Option<&'a Tensor>,
    /// `` keys of a query, 1 to 16384 ``
    pub topk: i64,
    /// `` tokens of the longest request, or more: the logits have room for so many; 0: what the table has room for ``
    pub max_keys: i64,
    /// `` of attention, > 0; NULL: 1/sqrt(D) ``
    pub scale: Option<f64>,
    /// `` as in kiln_mla_prefill_sparse_args ``
    pub base2: bool,
    /// `` queries whose logits are in memory at a time, more or less; 0: as many as fit 128 MiB, 512 at least ``
    pub rows: i64,
}

impl IndexedAttentionPagedArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_indexed_attention_paged_args {
        let _ = (&numbers, &held);
        sys::kiln_indexed_attention_paged_args {
            struct_size: core::mem::size_of::<sys::kiln_indexed_attention_paged_args>(),
            index_q: tensor(self.index_q, held),
            index_k: tensor(self.index_k, held),
            index_scales: tensor(self.index_scales, held),
            index_weights: tensor(self.index_weights, held),
            table: tensor(self.table, held),
            lengths: tensor(self.lengths, held),
            q_offsets: tensor(self.q_offsets, held),
            q: tensor(self.q, held),
            kv: tensor(self.kv, held),
            sink: tensor(self.sink, held),
            out: tensor(self.out, held),
            max_logits: tensor(self.max_logits, held),
            lse: tensor(self.lse, held),
            indices: tensor(self.indices, held),
            topk: self.topk,
            max_keys: self.max_keys,
            scale: number(self.scale, numbers),
            base2: self.base2,
            rows: self.rows,
            ..Default::default()
        }
    }
}

/// `kiln_indexer_logits_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct IndexerLogitsArgs<'a> {
    /// `` in e4m3 [S][HI][DI] ``
    pub q: Option<&'a Tensor>,
    /// `` in e4m3 [SKV][DI] ``
    pub k: Option<&'a Tensor>,
    /// `` in f32 [SKV]: what a key is multiplied by ``
    pub k_scales: Option<&'a Tensor>,
    /// `` in f32 [S][HI]; of either sign ``
    pub weights: Option<&'a Tensor>,
    /// `` in i32 [S]; NULL: 0 ``
    pub starts: Option<&'a Tensor>,
    /// `` in i32 [S]; NULL: SKV ``
    pub ends: Option<&'a Tensor>,
    /// `` out f32 [S][SKV]: outside of the windows -infinity ``
    pub logits: Option<&'a Tensor>,
    /// `` outside of a query's window its logits may be left as they were, or be anything: for kiln_topk_select with the same windows, or kiln_clean_logits ``
    pub windows_alone: bool,
}

impl IndexerLogitsArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_indexer_logits_args {
        let _ = (&numbers, &held);
        sys::kiln_indexer_logits_args {
            struct_size: core::mem::size_of::<sys::kiln_indexer_logits_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            k_scales: tensor(self.k_scales, held),
            weights: tensor(self.weights, held),
            starts: tensor(self.starts, held),
            ends: tensor(self.ends, held),
            logits: tensor(self.logits, held),
            windows_alone: self.windows_alone,
        }
    }
}

/// `kiln_indexer_scores_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct IndexerScoresArgs<'a> {
    /// `` in e4m3 [B][S][HI][DI] ``
    pub q: Option<&'a Tensor>,
    /// `` in e4m3 [B][SKV][DI] ``
    pub k: Option<&'a Tensor>,
    /// `` in f32 [B][SKV] ``
    pub k_scales: Option<&'a Tensor>,
    /// `` in f32 [B][S][HI] ``
    pub weights: Option<&'a Tensor>,
    /// `` out f32 [B][S][SKV] ``
    pub scores: Option<&'a Tensor>,
}

impl IndexerScoresArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_indexer_scores_args {
        let _ = (&numbers, &held);
        sys::kiln_indexer_scores_args {
            struct_size: core::mem::size_of::<sys::kiln_indexer_scores_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            k_scales: tensor(self.k_scales, held),
            weights: tensor(self.weights, held),
            scores: tensor(self.scores, held),
        }
    }
}

/// `kiln_norm_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct NormArgs<'a> {
    /// `` in T [M][N], N from 1 to 16384 ``
    pub x: Option<&'a Tensor>,
    /// `` in T [M][N]; NULL: none ``
    pub residual: Option<&'a Tensor>,
    /// `` in T [N]; NULL: 1 ``
    pub weight: Option<&'a Tensor>,
    /// `` in T [N]; NULL: 0 ``
    pub bias: Option<&'a Tensor>,
    /// `` out T, e4m3 or i8 [M][N]; narrow ones divided by their row's scale, saturating; NaN is 0 in i8 ``
    pub out: Option<&'a Tensor>,
    /// `` out T [M][N]: x + residual, rounded, which is what is normalised; NULL: not wanted ``
    pub sum: Option<&'a Tensor>,
    /// `` out f32 [M]: max(largest magnitude of the row, 1e-4) / 448, for i8 / 127. With e4m3 and i8 ``
    pub out_scale: Option<&'a Tensor>,
    /// `` at least 0, and finite ``
    pub eps: f64,
}

impl NormArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_norm_args {
        let _ = (&numbers, &held);
        sys::kiln_norm_args {
            struct_size: core::mem::size_of::<sys::kiln_norm_args>(),
            x: tensor(self.x, held),
            residual: tensor(self.residual, held),
            weight: tensor(self.weight, held),
            bias: tensor(self.bias, held),
            out: tensor(self.out, held),
            sum: tensor(self.sum, held),
            out_scale: tensor(self.out_scale, held),
            eps: self.eps,
        }
    }
}

/// `kiln_linear_attention_backward_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct LinearAttentionBackwardArgs<'a> {
    /// `` in T [B][S][HK][DK] ``
    pub q: Option<&'a Tensor>,
    /// `` in T [B][S][HK][DK] ``
    pub k: Option<&'a Tensor>,
    /// `` in T [B][S][H][DV] ``
    pub v: Option<&'a Tensor>,
    /// `` in f32 [B][S][H]; NULL: 0 ``
    pub gates: Option<&'a Tensor>,
    /// `` in f32 [H]; NULL: 0 ``
    pub decay: Option<&'a Tensor>,
    /// `` in i32 [N + 1], from 0 to S, not decreasing; NULL: not packed ``
    pub offsets: Option<&'a Tensor>,
    /// `` in f32 or T [N][H][DK][DV]; NULL: 0 ``
    pub initial_states: Option<&'a Tensor>,
    /// `` in f32 [N][H][DK]; NULL: 0 ``
    pub initial_keys: Option<&'a Tensor>,
    /// `` in T [B][S][H][DV] of a normalised forward call; NULL: it was not ``
    pub out: Option<&'a Tensor>,
    /// `` in f32 [B][S][H], both or neither ``
    pub norm: Option<&'a Tensor>,
    /// `` in T [B][S][H][DV] ``
    pub dout: Option<&'a Tensor>,
    /// `` in f32 or T [N][H][DK][DV]; NULL: 0 ``
    pub dfinal_states: Option<&'a Tensor>,
    /// `` in f32 [N][H][DK]; NULL: 0 ``
    pub dfinal_keys: Option<&'a Tensor>,
    /// `` out T [B][S][HK][DK] ``
    pub dq: Option<&'a Tensor>,
    /// `` out T [B][S][HK][DK] ``
    pub dk: Option<&'a Tensor>,
    /// `` out T [B][S][H][DV] ``
    pub dv: Option<&'a Tensor>,
    /// `` out f32 [B][S][H]; NULL: not wanted ``
    pub dgates: Option<&'a Tensor>,
    /// `` out f32 [H]; NULL: not wanted ``
    pub ddecay: Option<&'a Tensor>,
    /// `` out f32 or T [N][H][DK][DV]; NULL: not wanted ``
    pub dinitial_states: Option<&'a Tensor>,
    /// `` out f32 [N][H][DK]; NULL: not wanted ``
    pub dinitial_keys: Option<&'a Tensor>,
    /// `` > 0; NULL: 1/sqrt(DK) ``
    pub scale: Option<f64>,
}

impl LinearAttentionBackwardArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_linear_attention_backward_args {
        let _ = (&numbers, &held);
        sys::kiln_linear_attention_backward_args {
            struct_size: core::mem::size_of::<sys::kiln_linear_attention_backward_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            gates: tensor(self.gates, held),
            decay: tensor(self.decay, held),
            offsets: tensor(self.offsets, held),
            initial_states: tensor(self.initial_states, held),
            initial_keys: tensor(self.initial_keys, held),
            out: tensor(self.out, held),
            norm: tensor(self.norm, held),
            dout: tensor(self.dout, held),
            dfinal_states: tensor(self.dfinal_states, held),
            dfinal_keys: tensor(self.dfinal_keys, held),
            dq: tensor(self.dq, held),
            dk: tensor(self.dk, held),
            dv: tensor(self.dv, held),
            dgates: tensor(self.dgates, held),
            ddecay: tensor(self.ddecay, held),
            dinitial_states: tensor(self.dinitial_states, held),
            dinitial_keys: tensor(self.dinitial_keys, held),
            scale: number(self.scale, numbers),
            ..Default::default()
        }
    }
}

/// `kiln_linear_attention_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct LinearAttentionArgs<'a> {
    /// `` in T [B][S][HK][DK] ``
    pub q: Option<&'a Tensor>,
    /// `` in T [B][S][HK][DK] ``
    pub k: Option<&'a Tensor>,
    /// `` in T [B][S][H][DV] ``
    pub v: Option<&'a Tensor>,
    /// `` in f32 [B][S][H]; NULL: 0 ``
    pub gates: Option<&'a Tensor>,
    /// `` in f32 [H]; NULL: 0 ``
    pub decay: Option<&'a Tensor>,
    /// `` in i32 [N + 1], from 0 to S, not decreasing; NULL: not packed ``
    pub offsets: Option<&'a Tensor>,
    /// `` in f32 or T [N][H][DK][DV]; NULL: 0 ``
    pub initial_states: Option<&'a Tensor>,
    /// `` out T [B][S][H][DV] ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 or T [N][H][DK][DV]; NULL: not wanted ``
    pub final_states: Option<&'a Tensor>,
    /// `` in f32 [N][H][DK]: Z before the first token, with `normalize`; NULL: 0 ``
    pub initial_keys: Option<&'a Tensor>,
    /// `` out f32 [N][H][DK]: Z after the last token, with `normalize`; NULL: not wanted ``
    pub final_keys: Option<&'a Tensor>,
    /// `` out f32 [B][S][H]: n, which the gradients take, with `normalize`; NULL: not wanted ``
    pub norm: Option<&'a Tensor>,
    /// `` out is multiplied by n = 1 / (scale q Z + 1e-10), Z = exp(g) Z + k ``
    pub normalize: bool,
    /// `` > 0; NULL: 1/sqrt(DK) ``
    pub scale: Option<f64>,
}

impl LinearAttentionArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_linear_attention_args {
        let _ = (&numbers, &held);
        sys::kiln_linear_attention_args {
            struct_size: core::mem::size_of::<sys::kiln_linear_attention_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            gates: tensor(self.gates, held),
            decay: tensor(self.decay, held),
            offsets: tensor(self.offsets, held),
            initial_states: tensor(self.initial_states, held),
            out: tensor(self.out, held),
            final_states: tensor(self.final_states, held),
            initial_keys: tensor(self.initial_keys, held),
            final_keys: tensor(self.final_keys, held),
            norm: tensor(self.norm, held),
            normalize: self.normalize,
            scale: number(self.scale, numbers),
            ..Default::default()
        }
    }
}

/// `kiln_linear_attention_step_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct LinearAttentionStepArgs<'a> {
    /// `` in T [B][R][HK][DK], R from 1 to 16 ``
    pub q: Option<&'a Tensor>,
    /// `` in T [B][R][HK][DK] ``
    pub k: Option<&'a Tensor>,
    /// `` in T [B][R][H][DV] ``
    pub v: Option<&'a Tensor>,
    /// `` in f32 [B][R][H]; NULL: 0 ``
    pub gates: Option<&'a Tensor>,
    /// `` in f32 [H]; NULL: 0 ``
    pub decay: Option<&'a Tensor>,
    /// `` in i32 [B]; NULL: b ``
    pub from: Option<&'a Tensor>,
    /// `` in i32 [B][R]; NULL: in place ``
    pub to: Option<&'a Tensor>,
    /// `` inout f32 or T [M][H][DK][DV] ``
    pub states: Option<&'a Tensor>,
    /// `` out T [B][R][H][DV] ``
    pub out: Option<&'a Tensor>,
    /// `` > 0; NULL: 1/sqrt(DK) ``
    pub scale: Option<f64>,
    /// `` inout f32 [M][H][DK]: Z, beside each state; out is multiplied by n. NULL: it is not ``
    pub keys: Option<&'a Tensor>,
    /// `` out f32 [B][R][H]: n, with keys ``
    pub norm: Option<&'a Tensor>,
}

impl LinearAttentionStepArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_linear_attention_step_args {
        let _ = (&numbers, &held);
        sys::kiln_linear_attention_step_args {
            struct_size: core::mem::size_of::<sys::kiln_linear_attention_step_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            gates: tensor(self.gates, held),
            decay: tensor(self.decay, held),
            from: tensor(self.from, held),
            to: tensor(self.to, held),
            states: tensor(self.states, held),
            out: tensor(self.out, held),
            scale: number(self.scale, numbers),
            keys: tensor(self.keys, held),
            norm: tensor(self.norm, held),
        }
    }
}

/// `kiln_mamba2_backward_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct Mamba2BackwardArgs<'a> {
    /// `` in T [B][S][H][P] ``
    pub x: Option<&'a Tensor>,
    /// `` in T [B][S][H] ``
    pub dt: Option<&'a Tensor>,
    /// `` in f32 [H], below 0 ``
    pub a: Option<&'a Tensor>,
    /// `` in T [B][S][G][N] ``
    pub b: Option<&'a Tensor>,
    /// `` in T [B][S][G][N] ``
    pub c: Option<&'a Tensor>,
    /// `` in f32 [H]; NULL: 0 ``
    pub skip: Option<&'a Tensor>,
    /// `` in f32 [H]; NULL: 0 ``
    pub dt_bias: Option<&'a Tensor>,
    /// `` in T [B][S][H][P]; NULL: 1 ``
    pub z: Option<&'a Tensor>,
    /// `` in T [B][S][H][P], both or neither ``
    pub ungated: Option<&'a Tensor>,
    /// `` in i32 [E + 1], from 0 to S, not decreasing; NULL: not packed ``
    pub offsets: Option<&'a Tensor>,
    /// `` in f32 or T [E][H][P][N]; NULL: 0 ``
    pub initial_states: Option<&'a Tensor>,
    /// `` in T [B][S][H][P] ``
    pub dout: Option<&'a Tensor>,
    /// `` in f32 or T [E][H][P][N]; NULL: 0 ``
    pub dfinal_states: Option<&'a Tensor>,
    /// `` out T [B][S][H][P] ``
    pub dx: Option<&'a Tensor>,
    /// `` out T [B][S][H] ``
    pub ddt: Option<&'a Tensor>,
    /// `` out f32 [H] ``
    pub da: Option<&'a Tensor>,
    /// `` out T [B][S][G][N] ``
    pub db: Option<&'a Tensor>,
    /// `` out T [B][S][G][N] ``
    pub dc: Option<&'a Tensor>,
    /// `` out f32 [H]; NULL: not wanted ``
    pub dskip: Option<&'a Tensor>,
    /// `` out f32 [H]; NULL: not wanted ``
    pub ddt_bias: Option<&'a Tensor>,
    /// `` out T [B][S][H][P]; NULL: not wanted. Not without z ``
    pub dz: Option<&'a Tensor>,
    /// `` out f32 or T [E][H][P][N]; NULL: not wanted ``
    pub dinitial_states: Option<&'a Tensor>,
    /// `` d = dt + dt_bias ``
    pub plain_dt: bool,
}

impl Mamba2BackwardArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_mamba2_backward_args {
        let _ = (&numbers, &held);
        sys::kiln_mamba2_backward_args {
            struct_size: core::mem::size_of::<sys::kiln_mamba2_backward_args>(),
            x: tensor(self.x, held),
            dt: tensor(self.dt, held),
            a: tensor(self.a, held),
            b: tensor(self.b, held),
            c: tensor(self.c, held),
            skip: tensor(self.skip, held),
            dt_bias: tensor(self.dt_bias, held),
            z: tensor(self.z, held),
            ungated: tensor(self.ungated, held),
            offsets: tensor(self.offsets, held),
            initial_states: tensor(self.initial_states, held),
            dout: tensor(self.dout, held),
            dfinal_states: tensor(self.dfinal_states, held),
            dx: tensor(self.dx, held),
            ddt: tensor(self.ddt, held),
            da: tensor(self.da, held),
            db: tensor(self.db, held),
            dc: tensor(self.dc, held),
            dskip: tensor(self.dskip, held),
            ddt_bias: tensor(self.ddt_bias, held),
            dz: tensor(self.dz, held),
            dinitial_states: tensor(self.dinitial_states, held),
            plain_dt: self.plain_dt,
            ..Default::default()
        }
    }
}

/// `kiln_mamba2_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct Mamba2Args<'a> {
    /// `` in T [B][S][H][P] ``
    pub x: Option<&'a Tensor>,
    /// `` in T [B][S][H] ``
    pub dt: Option<&'a Tensor>,
    /// `` in f32 [H], below 0 ``
    pub a: Option<&'a Tensor>,
    /// `` in T [B][S][G][N] ``
    pub b: Option<&'a Tensor>,
    /// `` in T [B][S][G][N] ``
    pub c: Option<&'a Tensor>,
    /// `` in f32 [H]; NULL: 0 ``
    pub skip: Option<&'a Tensor>,
    /// `` in f32 [H]; NULL: 0 ``
    pub dt_bias: Option<&'a Tensor>,
    /// `` in T [B][S][H][P]: out is multiplied by silu(z); NULL: 1 ``
    pub z: Option<&'a Tensor>,
    /// `` in i32 [E + 1], from 0 to S, not decreasing; NULL: not packed ``
    pub offsets: Option<&'a Tensor>,
    /// `` in f32 or T [E][H][P][N]; NULL: 0 ``
    pub initial_states: Option<&'a Tensor>,
    /// `` out T [B][S][H][P] ``
    pub out: Option<&'a Tensor>,
    /// `` out T [B][S][H][P]: out without silu(z), for the gradients; NULL: not wanted. Not without z ``
    pub ungated: Option<&'a Tensor>,
    /// `` out f32 or T [E][H][P][N]; NULL: not wanted ``
    pub final_states: Option<&'a Tensor>,
    /// `` d = dt + dt_bias ``
    pub plain_dt: bool,
}

impl Mamba2Args<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_mamba2_args {
        let _ = (&numbers, &held);
        sys::kiln_mamba2_args {
            struct_size: core::mem::size_of::<sys::kiln_mamba2_args>(),
            x: tensor(self.x, held),
            dt: tensor(self.dt, held),
            a: tensor(self.a, held),
            b: tensor(self.b, held),
            c: tensor(self.c, held),
            skip: tensor(self.skip, held),
            dt_bias: tensor(self.dt_bias, held),
            z: tensor(self.z, held),
            offsets: tensor(self.offsets, held),
            initial_states: tensor(self.initial_states, held),
            out: tensor(self.out, held),
            ungated: tensor(self.ungated, held),
            final_states: tensor(self.final_states, held),
            plain_dt: self.plain_dt,
            ..Default::default()
        }
    }
}

/// `kiln_mamba2_step_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct Mamba2StepArgs<'a> {
    /// `` in T [B][R][H][P], R from 1 to 16 ``
    pub x: Option<&'a Tensor>,
    /// `` in T [B][R][H] ``
    pub dt: Option<&'a Tensor>,
    /// `` in f32 [H], below 0 ``
    pub a: Option<&'a Tensor>,
    /// `` in T [B][R][G][N] ``
    pub b: Option<&'a Tensor>,
    /// `` in T [B][R][G][N] ``
    pub c: Option<&'a Tensor>,
    /// `` in f32 [H]; NULL: 0 ``
    pub skip: Option<&'a Tensor>,
    /// `` in f32 [H]; NULL: 0 ``
    pub dt_bias: Option<&'a Tensor>,
    /// `` in T [B][R][H][P]: out is multiplied by silu(z); NULL: 1 ``
    pub z: Option<&'a Tensor>,
    /// `` in i32 [B]; NULL: the number of the request ``
    pub from: Option<&'a Tensor>,
    /// `` in i32 [B][R]; NULL: in place ``
    pub to: Option<&'a Tensor>,
    /// `` inout f32 or T [M][H][P][N] ``
    pub states: Option<&'a Tensor>,
    /// `` out T [B][R][H][P] ``
    pub out: Option<&'a Tensor>,
    /// `` d = dt + dt_bias ``
    pub plain_dt: bool,
}

impl Mamba2StepArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_mamba2_step_args {
        let _ = (&numbers, &held);
        sys::kiln_mamba2_step_args {
            struct_size: core::mem::size_of::<sys::kiln_mamba2_step_args>(),
            x: tensor(self.x, held),
            dt: tensor(self.dt, held),
            a: tensor(self.a, held),
            b: tensor(self.b, held),
            c: tensor(self.c, held),
            skip: tensor(self.skip, held),
            dt_bias: tensor(self.dt_bias, held),
            z: tensor(self.z, held),
            from: tensor(self.from, held),
            to: tensor(self.to, held),
            states: tensor(self.states, held),
            out: tensor(self.out, held),
            plain_dt: self.plain_dt,
        }
    }
}

/// `kiln_masked_decode_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct MaskedDecodeArgs<'a> {
    /// `` in bf16, f16, f32 or i8 [R][H][D]: the new tokens' projections ``
    pub q: Option<&'a Tensor>,
    /// `` in as q [R][HKV][D]; NULL in cross attention, as v ``
    pub k: Option<&'a Tensor>,
    /// `` in as q [R][HKV][D]. All three may be parts of one tensor [R][H + 2 * HKV][D] ``
    pub v: Option<&'a Tensor>,
    /// `` inout T, i8 or e4m3 [blocks][HKV][page size][D]: blocks of keys and blocks of values. In cross attention it is only read ``
    pub cache: Option<&'a Tensor>,
    /// `` in i32 [R][2][pages]: the block of each page of keys, then of values. Used entries are blocks of the cache, and the page that a token is appended to is the row's own ``
    pub table: Option<&'a Tensor>,
    /// `` in i32 [R]: tokens in the cache, without the new one and without the prefix ``
    pub lengths: Option<&'a Tensor>,
    /// `` out T or e4m3 [R][H][D] ``
    pub out: Option<&'a Tensor>,
    /// `` in host memory; NULL: none ``
    pub rotary: Option<&'a sys::kiln_rotary>,
    /// `` inout f32 [blocks][HKV][page size]: what the elements of a token, i8 or e4m3, are multiplied by. An i8 cache needs it: a new token gets its largest magnitude / 128, and one of NaN a scale of NaN. An e4m3 cache: NULL: 1; a new token gets 1 ``
    pub scales: Option<&'a Tensor>,
    /// `` inout as cache [blocks2][HKV][page size][D]: a second pool. An entry of the table with the top bit set means the block of its other 31 bits, of this one. Not with scales ``
    pub cache2: Option<&'a Tensor>,
    /// `` token t is in place t % ring: the last `ring` tokens and the new one count. 1 to pages * page size; 0: pages * page size ``
    pub ring: i64,
    /// `` tokens in the cache of the longest row, prefix included, or more: what the workspace and the splitting are made for; tokens past it are not seen. 0: as many as fit ``
    pub max_length: i64,
    /// `` into how many parts the cached tokens are split, at most: 1 to 1024; 0: as many as fill the device ``
    pub splits: i64,
    /// `` in T [H][D]; NULL: none ``
    pub q_bias: Option<&'a Tensor>,
    /// `` in T [HKV][D]; NULL: none ``
    pub k_bias: Option<&'a Tensor>,
    /// `` in T [HKV][D]; NULL: none ``
    pub v_bias: Option<&'a Tensor>,
    /// `` in f32 [3]: what q, k and v are multiplied by before biases; i8 needs it; NULL: 1 ``
    pub qkv_scales: Option<&'a Tensor>,
    /// `` T; 0: the type of q; if that is i8, the type of out ``
    pub r#type: Option<Type>,
    /// `` in i32 [R / beams]: which factors each request has; NULL: none ``
    pub tasks: Option<&'a Tensor>,
    /// `` in T [tasks][HKV][D]: after bias, before rotary embedding; with `tasks` ``
    pub key_factors: Option<&'a Tensor>,
    /// `` in T [tasks][HKV][D] ``
    pub value_factors: Option<&'a Tensor>,
    /// `` in i32 [R][components]: rotary position of the new token; the first component counts. NULL: n. With `rotary` ``
    pub positions: Option<&'a Tensor>,
    /// `` in i32 [R]: tokens of a prefix, in the cache before the `lengths` others; NULL: 0 ``
    pub prefix_lengths: Option<&'a Tensor>,
    /// `` rotary positions begin with 0 after the prefix. Interleaved only ``
    pub positions_after_prefix: bool,
    /// `` > 0; NULL: 1/sqrt(D) ``
    pub scale: Option<f64>,
    /// `` in f32 [H]: linear bias (ALiBi); NULL: none ``
    pub slopes: Option<&'a Tensor>,
    /// `` in T [H][L][L]: of the query at the second index for the key at the third; every position is below L; NULL: none ``
    pub bias: Option<&'a Tensor>,
    /// `` in T [H][buckets], at least 4: by distance, a bucket for each up to half of them, the others in logarithmic steps up to bucket_distance (T5); NULL: none ``
    pub bucket_bias: Option<&'a Tensor>,
    /// `` with bucket_bias: > buckets / 2: from here on distances share the last bucket ``
    pub bucket_distance: i64,
    /// `` all buckets are for keys before the query; else the first half is (the other half is of keys after it, which decoding has none of) ``
    pub one_sided_buckets: bool,
    /// `` queries at n >= trained_length are multiplied by ln(n + 1) / ln(trained_length) ``
    pub log_scaling: bool,
    /// `` > 1 where log_scaling, NTK, YaRN or Llama 3 asks for it ``
    pub trained_length: i64,
    /// `` in bool [R]: rows to leave alone, their out and cache too; NULL: none ``
    pub finished: Option<&'a Tensor>,
    /// `` cross attention: over an encoder's `lengths` tokens; nothing is appended. Rows of beams read from the first of their request; one of length 0 has out 0. n is lengths - 1 ``
    pub cross: bool,
    /// `` rows of a request; R is a multiple; 0: 1 ``
    pub beams: i64,
    /// `` in i32 [R][positions]: of which beam of the request, from 0 on, the row has the token at each position; needed with beams > 1, but in cross attention; n < ring then ``
    pub sources: Option<&'a Tensor>,
    /// `` in i32 [R]: positions before it are the request's first beam's; with `sources` ``
    pub prompt_lengths: Option<&'a Tensor>,
    /// `` in f32 [1]: what out is multiplied by; NULL: 1 ``
    pub out_scale: Option<&'a Tensor>,
    /// `` in f32 [H]: a logit of each head, natural and not scaled, whose exponential is added to the sum of softmax, and which has no value; -infinity is none, +infinity or NaN makes NaN; NULL: none ``
    pub sinks: Option<&'a Tensor>,
}

impl MaskedDecodeArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_masked_decode_args {
        let _ = (&numbers, &held);
        sys::kiln_masked_decode_args {
            struct_size: core::mem::size_of::<sys::kiln_masked_decode_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            cache: tensor(self.cache, held),
            table: tensor(self.table, held),
            lengths: tensor(self.lengths, held),
            out: tensor(self.out, held),
            rotary: self.rotary.map_or(core::ptr::null(), |r| r),
            scales: tensor(self.scales, held),
            cache2: tensor(self.cache2, held),
            ring: self.ring,
            max_length: self.max_length,
            splits: self.splits,
            q_bias: tensor(self.q_bias, held),
            k_bias: tensor(self.k_bias, held),
            v_bias: tensor(self.v_bias, held),
            qkv_scales: tensor(self.qkv_scales, held),
            r#type: self.r#type.map_or(0, |t| t as u32),
            tasks: tensor(self.tasks, held),
            key_factors: tensor(self.key_factors, held),
            value_factors: tensor(self.value_factors, held),
            positions: tensor(self.positions, held),
            prefix_lengths: tensor(self.prefix_lengths, held),
            positions_after_prefix: self.positions_after_prefix,
            scale: number(self.scale, numbers),
            slopes: tensor(self.slopes, held),
            bias: tensor(self.bias, held),
            bucket_bias: tensor(self.bucket_bias, held),
            bucket_distance: self.bucket_distance,
            one_sided_buckets: self.one_sided_buckets,
            log_scaling: self.log_scaling,
            trained_length: self.trained_length,
            finished: tensor(self.finished, held),
            cross: self.cross,
            beams: self.beams,
            sources: tensor(self.sources, held),
            prompt_lengths: tensor(self.prompt_lengths, held),
            out_scale: tensor(self.out_scale, held),
            sinks: tensor(self.sinks, held),
            ..Default::default()
        }
    }
}

/// `kiln_mla_append_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct MlaAppendArgs<'a> {
    /// `` in bf16 or f16 [N][key_heads][576] ``
    pub keys: Option<&'a Tensor>,
    /// `` in i32 [N]; NULL: 0, 1, 2 ... ``
    pub slots: Option<&'a Tensor>,
    /// `` inout as keys [pages][page size][key_heads][576] ``
    pub cache: Option<&'a Tensor>,
}

impl MlaAppendArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_mla_append_args {
        let _ = (&numbers, &held);
        sys::kiln_mla_append_args {
            struct_size: core::mem::size_of::<sys::kiln_mla_append_args>(),
            keys: tensor(self.keys, held),
            slots: tensor(self.slots, held),
            cache: tensor(self.cache, held),
        }
    }
}

/// `kiln_mla_decode_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct MlaDecodeArgs<'a> {
    /// `` dense, made for the same lengths ``
    pub plan: Option<&'a MlaPlan>,
    /// `` in bf16 or f16 [batch][queries][query_heads][576] ``
    pub q: Option<&'a Tensor>,
    /// `` in as q [pages][page size][key_heads][576]; page size 16, 32, 64, 128 or 256; or, with bf16 q and one key head, u8, i8 or e4m3 [pages][page size][656]; page size any ``
    pub cache: Option<&'a Tensor>,
    /// `` in i32 [batch][pages per request]: token t of a request is in page table[t / size] ``
    pub table: Option<&'a Tensor>,
    /// `` in i32 [batch]: as planned. At most (pages per request) * (page size) ``
    pub lengths: Option<&'a Tensor>,
    /// `` out as q [batch][queries][query_heads][512] ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 [batch][query_heads][queries], or NULL ``
    pub lse: Option<&'a Tensor>,
    /// `` query j sees keys before length - (queries - 1 - j) ``
    pub causal: bool,
    /// `` fp8 cache: as in kiln_mla_decode_sparse_args ``
    pub round_scales: bool,
    /// `` > 0; NULL: 1/sqrt(576) ``
    pub scale: Option<f64>,
}

impl MlaDecodeArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_mla_decode_args {
        let _ = (&numbers, &held);
        sys::kiln_mla_decode_args {
            struct_size: core::mem::size_of::<sys::kiln_mla_decode_args>(),
            plan: plan(self.plan, held),
            q: tensor(self.q, held),
            cache: tensor(self.cache, held),
            table: tensor(self.table, held),
            lengths: tensor(self.lengths, held),
            out: tensor(self.out, held),
            lse: tensor(self.lse, held),
            causal: self.causal,
            round_scales: self.round_scales,
            scale: number(self.scale, numbers),
            ..Default::default()
        }
    }
}

/// `kiln_mla_decode_contiguous_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct MlaDecodeContiguousArgs<'a> {
    /// `` in bf16 or f16 [B][H][512] ``
    pub q: Option<&'a Tensor>,
    /// `` in as q [B][H][64] ``
    pub q_rotary: Option<&'a Tensor>,
    /// `` in as q, or e4m3 [B][S][512]; here and in rotary_cache a dimension of 1 for the key head may stand before the last one ``
    pub cache: Option<&'a Tensor>,
    /// `` in as q [B][S][64] ``
    pub rotary_cache: Option<&'a Tensor>,
    /// `` in i32 [B]: keys of each request, the first ones; what comes after them is not looked at. One below 0 is 0, one past S is S. NULL: S ``
    pub lengths: Option<&'a Tensor>,
    /// `` out as q [B][H][512] ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 [B][H]; NULL: not wanted ``
    pub lse: Option<&'a Tensor>,
    /// `` into how many shares the keys are split, 1 to 65536; 0: as many as fill the device ``
    pub splits: i64,
    /// `` > 0; NULL: 1/sqrt(576) ``
    pub scale: Option<f64>,
    /// `` in f32 [B][S] or [B][S][1], with a cache of e4m3: what the latent values of a key are multiplied by, in f32, rounded once; NULL: 1 ``
    pub scales: Option<&'a Tensor>,
}

impl MlaDecodeContiguousArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_mla_decode_contiguous_args {
        let _ = (&numbers, &held);
        sys::kiln_mla_decode_contiguous_args {
            struct_size: core::mem::size_of::<sys::kiln_mla_decode_contiguous_args>(),
            q: tensor(self.q, held),
            q_rotary: tensor(self.q_rotary, held),
            cache: tensor(self.cache, held),
            rotary_cache: tensor(self.rotary_cache, held),
            lengths: tensor(self.lengths, held),
            out: tensor(self.out, held),
            lse: tensor(self.lse, held),
            splits: self.splits,
            scale: number(self.scale, numbers),
            scales: tensor(self.scales, held),
            ..Default::default()
        }
    }
}

/// `kiln_mla_decode_sparse_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct MlaDecodeSparseArgs<'a> {
    /// `` with topk, and extra_topk if there is an extra cache; made for lists as long as these, or longer, as full ones are: then parts are valid, but not of equal cost ``
    pub plan: Option<&'a MlaPlan>,
    /// `` in bf16 [batch][queries][query_heads][D]; D is 576 or 512; one key head ``
    pub q: Option<&'a Tensor>,
    /// `` in u8, i8 or e4m3 [pages][page size][656] where D is 576, [584] where it is 512; a page has any number of tokens ``
    pub cache: Option<&'a Tensor>,
    /// `` in i32 [batch][queries][topk]: slots, page * (page size) + offset in it, in any order. One below 0 or past the cache is masked; one that occurs twice counts twice ``
    pub indices: Option<&'a Tensor>,
    /// `` in i32 [batch]: how many entries of a request's lists count: as planned; NULL: all ``
    pub topk_lengths: Option<&'a Tensor>,
    /// `` in NULL, or a second cache of the same format, with pages of its own size and lists of its own: both are attended to ``
    pub extra_cache: Option<&'a Tensor>,
    /// `` in i32 [batch][queries][extra_topk] ``
    pub extra_indices: Option<&'a Tensor>,
    /// `` in i32 [batch] or NULL ``
    pub extra_topk_lengths: Option<&'a Tensor>,
    /// `` in f32 [query_heads]: a logit, natural and not scaled, that is added to the denominator of out only; NULL: none ``
    pub sink: Option<&'a Tensor>,
    /// `` out bf16 [batch][queries][query_heads][512] ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 [batch][query_heads][queries], or NULL ``
    pub lse: Option<&'a Tensor>,
    /// `` > 0; NULL: 1/sqrt(D) ``
    pub scale: Option<f64>,
    /// `` round the scales of the cache to bf16 before use, as some writers expect; else keys are the product in f32, rounded once. The same for powers of two ``
    pub round_scales: bool,
}

impl MlaDecodeSparseArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_mla_decode_sparse_args {
        let _ = (&numbers, &held);
        sys::kiln_mla_decode_sparse_args {
            struct_size: core::mem::size_of::<sys::kiln_mla_decode_sparse_args>(),
            plan: plan(self.plan, held),
            q: tensor(self.q, held),
            cache: tensor(self.cache, held),
            indices: tensor(self.indices, held),
            topk_lengths: tensor(self.topk_lengths, held),
            extra_cache: tensor(self.extra_cache, held),
            extra_indices: tensor(self.extra_indices, held),
            extra_topk_lengths: tensor(self.extra_topk_lengths, held),
            sink: tensor(self.sink, held),
            out: tensor(self.out, held),
            lse: tensor(self.lse, held),
            scale: number(self.scale, numbers),
            round_scales: self.round_scales,
            ..Default::default()
        }
    }
}

/// `kiln_mla_dequantize_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct MlaDequantizeArgs<'a> {
    /// `` in u8, i8 or e4m3 [pages][page size][656] or [584] ``
    pub cache: Option<&'a Tensor>,
    /// `` in i32 [N]; NULL: 0, 1, 2 ... ``
    pub slots: Option<&'a Tensor>,
    /// `` out bf16 [N][576] or [N][512] ``
    pub keys: Option<&'a Tensor>,
    /// `` as in kiln_mla_decode_sparse_args ``
    pub round_scales: bool,
}

impl MlaDequantizeArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_mla_dequantize_args {
        let _ = (&numbers, &held);
        sys::kiln_mla_dequantize_args {
            struct_size: core::mem::size_of::<sys::kiln_mla_dequantize_args>(),
            cache: tensor(self.cache, held),
            slots: tensor(self.slots, held),
            keys: tensor(self.keys, held),
            round_scales: self.round_scales,
        }
    }
}

/// `kiln_mla_prefill_sparse_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct MlaPrefillSparseArgs<'a> {
    /// `` in bf16 [S][H][D]; D is 576 or 512 ``
    pub q: Option<&'a Tensor>,
    /// `` in bf16 [SKV][D] ``
    pub kv: Option<&'a Tensor>,
    /// `` in i32 [S][topk]: rows of kv, in any order. One below 0 or past SKV - 1 is masked; one that occurs twice counts twice ``
    pub indices: Option<&'a Tensor>,
    /// `` in i32 [S]: how many entries of each list count; NULL: all ``
    pub topk_lengths: Option<&'a Tensor>,
    /// `` in f32 [H]: a logit, natural and not scaled, that is added to the denominator of out only; NULL: none ``
    pub sink: Option<&'a Tensor>,
    /// `` out bf16 [S][H][512] ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 [S][H] or NULL: the maximum of scale * <q, k>; no key: -infinity; NaN where lse is ``
    pub max_logits: Option<&'a Tensor>,
    /// `` out f32 [S][H] or NULL: the logarithm of the sum of exp(scale * <q, k>); no key: +infinity, and out is 0 ``
    pub lse: Option<&'a Tensor>,
    /// `` > 0; NULL: 1/sqrt(D) ``
    pub scale: Option<f64>,
    /// `` max_logits and lse in base 2, times log2(e), and lse -infinity for a row without keys: as FlashMLA returned them until 2026 ``
    pub base2: bool,
    /// `` in i32 [S]: rows of kv from ends[s] on are masked for query s, as in causal attention over lists that may name later rows; NULL: none is ``
    pub ends: Option<&'a Tensor>,
}

impl MlaPrefillSparseArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_mla_prefill_sparse_args {
        let _ = (&numbers, &held);
        sys::kiln_mla_prefill_sparse_args {
            struct_size: core::mem::size_of::<sys::kiln_mla_prefill_sparse_args>(),
            q: tensor(self.q, held),
            kv: tensor(self.kv, held),
            indices: tensor(self.indices, held),
            topk_lengths: tensor(self.topk_lengths, held),
            sink: tensor(self.sink, held),
            out: tensor(self.out, held),
            max_logits: tensor(self.max_logits, held),
            lse: tensor(self.lse, held),
            scale: number(self.scale, numbers),
            base2: self.base2,
            ends: tensor(self.ends, held),
        }
    }
}

/// `kiln_mla_quantize_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct MlaQuantizeArgs<'a> {
    /// `` in bf16 or f16 [N][576] or [N][512] ``
    pub keys: Option<&'a Tensor>,
    /// `` in i32 [N]; NULL: 0, 1, 2 ... ``
    pub slots: Option<&'a Tensor>,
    /// `` inout u8, i8 or e4m3 [pages][page size][656] or [584] ``
    pub cache: Option<&'a Tensor>,
    /// `` 656 bytes: keep scales in f32; else they are rounded to bf16, so that readers that round them and readers that do not agree ``
    pub full_scales: bool,
    /// `` 656 bytes: scales as with keys of 512, as FlashMLA has written them since 2026 ``
    pub power_scales: bool,
}

impl MlaQuantizeArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_mla_quantize_args {
        let _ = (&numbers, &held);
        sys::kiln_mla_quantize_args {
            struct_size: core::mem::size_of::<sys::kiln_mla_quantize_args>(),
            keys: tensor(self.keys, held),
            slots: tensor(self.slots, held),
            cache: tensor(self.cache, held),
            full_scales: self.full_scales,
            power_scales: self.power_scales,
        }
    }
}

/// `kiln_mla_slots_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct MlaSlotsArgs<'a> {
    /// `` in i32 [batch][pages per request] ``
    pub table: Option<&'a Tensor>,
    /// `` in i32 [batch]: including the new tokens ``
    pub lengths: Option<&'a Tensor>,
    /// `` out i32 [batch][queries]; -1 for a token before the first or past the table ``
    pub slots: Option<&'a Tensor>,
    /// `` tokens of a page ``
    pub page_size: i64,
}

impl MlaSlotsArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_mla_slots_args {
        let _ = (&numbers, &held);
        sys::kiln_mla_slots_args {
            struct_size: core::mem::size_of::<sys::kiln_mla_slots_args>(),
            table: tensor(self.table, held),
            lengths: tensor(self.lengths, held),
            slots: tensor(self.slots, held),
            page_size: self.page_size,
        }
    }
}

/// `kiln_moe_permute_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct MoePermuteArgs<'a> {
    /// `` in i32 [M][K] ``
    pub experts: Option<&'a Tensor>,
    /// `` in bf16, f16 or f32 [M][N]; NULL: no rows are wanted ``
    pub x: Option<&'a Tensor>,
    /// `` out i32 [R]: the token of each row, -1 where there is none; R at least M K + E (alignment - 1) ``
    pub tokens: Option<&'a Tensor>,
    /// `` out i32 [M][K]: the row of each pair; -1: none ``
    pub places: Option<&'a Tensor>,
    /// `` out i32 [E + 1]: where each expert's rows begin, and the last ones end; E up to 4096 ``
    pub offsets: Option<&'a Tensor>,
    /// `` out as x [R][N]: the tokens' rows, zeros where there is none. With x ``
    pub rows: Option<&'a Tensor>,
    /// `` experts begin at multiples of so many rows, 1 to 1024; 0: 1 ``
    pub alignment: i64,
}

impl MoePermuteArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_moe_permute_args {
        let _ = (&numbers, &held);
        sys::kiln_moe_permute_args {
            struct_size: core::mem::size_of::<sys::kiln_moe_permute_args>(),
            experts: tensor(self.experts, held),
            x: tensor(self.x, held),
            tokens: tensor(self.tokens, held),
            places: tensor(self.places, held),
            offsets: tensor(self.offsets, held),
            rows: tensor(self.rows, held),
            alignment: self.alignment,
        }
    }
}

/// `kiln_moe_unpermute_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct MoeUnpermuteArgs<'a> {
    /// `` in bf16, f16 or f32 [R][N] ``
    pub rows: Option<&'a Tensor>,
    /// `` in i32 [M][K]; K from 1 to 64 ``
    pub places: Option<&'a Tensor>,
    /// `` in f32 [M][K]; NULL: 1 ``
    pub weights: Option<&'a Tensor>,
    /// `` in as rows [M][N]; NULL: none ``
    pub shared: Option<&'a Tensor>,
    /// `` in as rows [M][N]; NULL: none ``
    pub residual: Option<&'a Tensor>,
    /// `` out as rows [M][N] ``
    pub out: Option<&'a Tensor>,
}

impl MoeUnpermuteArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_moe_unpermute_args {
        let _ = (&numbers, &held);
        sys::kiln_moe_unpermute_args {
            struct_size: core::mem::size_of::<sys::kiln_moe_unpermute_args>(),
            rows: tensor(self.rows, held),
            places: tensor(self.places, held),
            weights: tensor(self.weights, held),
            shared: tensor(self.shared, held),
            residual: tensor(self.residual, held),
            out: tensor(self.out, held),
        }
    }
}

/// `kiln_nsa_choose_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct NsaChooseArgs<'a> {
    /// `` in bf16 or f16 [T][H][D] ``
    pub q: Option<&'a Tensor>,
    /// `` in as q [T][HKV][D] ``
    pub k: Option<&'a Tensor>,
    /// `` in as q [T][HKV][DV] ``
    pub v: Option<&'a Tensor>,
    /// `` in f32 [HKV][BS]: weights of a block's keys; NULL: their mean ``
    pub pool_k: Option<&'a Tensor>,
    /// `` in f32 [HKV][BS]: the same of its values ``
    pub pool_v: Option<&'a Tensor>,
    /// `` in i32 [N + 1]; NULL: equal lengths ``
    pub offsets: Option<&'a Tensor>,
    /// `` without offsets; 0: one ``
    pub sequences: i64,
    /// `` with offsets; 0: T ``
    pub max_tokens: i64,
    /// `` out as q [T][H][DV]: the compressed branch ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 [T][H]; NULL: not wanted ``
    pub lse: Option<&'a Tensor>,
    /// `` out i32 [T][HKV][S] ``
    pub block_indices: Option<&'a Tensor>,
    /// `` BS; 0: 64 ``
    pub block_size: i64,
    /// `` 0 or more ``
    pub initial_blocks: i64,
    /// `` 0: 1. With initial_blocks at most S ``
    pub local_blocks: i64,
    /// `` > 0; NULL: 1/sqrt(D) ``
    pub scale: Option<f64>,
}

impl NsaChooseArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_nsa_choose_args {
        let _ = (&numbers, &held);
        sys::kiln_nsa_choose_args {
            struct_size: core::mem::size_of::<sys::kiln_nsa_choose_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            pool_k: tensor(self.pool_k, held),
            pool_v: tensor(self.pool_v, held),
            offsets: tensor(self.offsets, held),
            sequences: self.sequences,
            max_tokens: self.max_tokens,
            out: tensor(self.out, held),
            lse: tensor(self.lse, held),
            block_indices: tensor(self.block_indices, held),
            block_size: self.block_size,
            initial_blocks: self.initial_blocks,
            local_blocks: self.local_blocks,
            scale: number(self.scale, numbers),
            ..Default::default()
        }
    }
}

/// `kiln_nsa_combine_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct NsaCombineArgs<'a> {
    /// `` in as selected [T][H][DV]; NULL: none ``
    pub compressed: Option<&'a Tensor>,
    /// `` in bf16 or f16 [T][H][DV] ``
    pub selected: Option<&'a Tensor>,
    /// `` in as selected [T][H][DV]; NULL: none ``
    pub window: Option<&'a Tensor>,
    /// `` in as g_selected [T][H], with compressed ``
    pub g_compressed: Option<&'a Tensor>,
    /// `` in f32 or as selected [T][H] ``
    pub g_selected: Option<&'a Tensor>,
    /// `` in as g_selected [T][H], with window ``
    pub g_window: Option<&'a Tensor>,
    /// `` out as selected [T][H][DV] ``
    pub out: Option<&'a Tensor>,
}

impl NsaCombineArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_nsa_combine_args {
        let _ = (&numbers, &held);
        sys::kiln_nsa_combine_args {
            struct_size: core::mem::size_of::<sys::kiln_nsa_combine_args>(),
            compressed: tensor(self.compressed, held),
            selected: tensor(self.selected, held),
            window: tensor(self.window, held),
            g_compressed: tensor(self.g_compressed, held),
            g_selected: tensor(self.g_selected, held),
            g_window: tensor(self.g_window, held),
            out: tensor(self.out, held),
        }
    }
}

/// `kiln_nsa_combine_backward_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct NsaCombineBackwardArgs<'a> {
    /// `` in bf16 or f16 [T][H][DV] ``
    pub dout: Option<&'a Tensor>,
    /// `` in as dout [T][H][DV]; NULL: none ``
    pub compressed: Option<&'a Tensor>,
    /// `` in as dout [T][H][DV] ``
    pub selected: Option<&'a Tensor>,
    /// `` in as dout [T][H][DV]; NULL: none ``
    pub window: Option<&'a Tensor>,
    /// `` in as g_selected [T][H], with compressed ``
    pub g_compressed: Option<&'a Tensor>,
    /// `` in f32 or as dout [T][H] ``
    pub g_selected: Option<&'a Tensor>,
    /// `` in as g_selected [T][H], with window ``
    pub g_window: Option<&'a Tensor>,
    /// `` out as dout [T][H][DV], with compressed: what the branch's backward calls take ``
    pub dcompressed: Option<&'a Tensor>,
    /// `` out as dout [T][H][DV] ``
    pub dselected: Option<&'a Tensor>,
    /// `` out as dout [T][H][DV], with window ``
    pub dwindow: Option<&'a Tensor>,
    /// `` out as g_selected [T][H], with compressed ``
    pub dg_compressed: Option<&'a Tensor>,
    /// `` out as g_selected [T][H] ``
    pub dg_selected: Option<&'a Tensor>,
    /// `` out as g_selected [T][H], with window ``
    pub dg_window: Option<&'a Tensor>,
}

impl NsaCombineBackwardArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_nsa_combine_backward_args {
        let _ = (&numbers, &held);
        sys::kiln_nsa_combine_backward_args {
            struct_size: core::mem::size_of::<sys::kiln_nsa_combine_backward_args>(),
            dout: tensor(self.dout, held),
            compressed: tensor(self.compressed, held),
            selected: tensor(self.selected, held),
            window: tensor(self.window, held),
            g_compressed: tensor(self.g_compressed, held),
            g_selected: tensor(self.g_selected, held),
            g_window: tensor(self.g_window, held),
            dcompressed: tensor(self.dcompressed, held),
            dselected: tensor(self.dselected, held),
            dwindow: tensor(self.dwindow, held),
            dg_compressed: tensor(self.dg_compressed, held),
            dg_selected: tensor(self.dg_selected, held),
            dg_window: tensor(self.dg_window, held),
        }
    }
}

/// `kiln_nsa_compressed_backward_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct NsaCompressedBackwardArgs<'a> {
    /// `` in bf16 or f16 [T][H][D] ``
    pub q: Option<&'a Tensor>,
    /// `` in as q [T][HKV][D] ``
    pub k: Option<&'a Tensor>,
    /// `` in as q [T][HKV][DV] ``
    pub v: Option<&'a Tensor>,
    /// `` in as q [T][H][DV]: of kiln_nsa_choose ``
    pub out: Option<&'a Tensor>,
    /// `` in f32 [T][H]: of kiln_nsa_choose ``
    pub lse: Option<&'a Tensor>,
    /// `` in as q [T][H][DV]: the gradient of out, before any gate ``
    pub dout: Option<&'a Tensor>,
    /// `` in f32 [HKV][BS]; NULL: the mean ``
    pub pool_k: Option<&'a Tensor>,
    /// `` in f32 [HKV][BS]; NULL: the mean ``
    pub pool_v: Option<&'a Tensor>,
    /// `` in i32 [N + 1]; NULL: equal lengths ``
    pub offsets: Option<&'a Tensor>,
    /// `` without offsets; 0: one ``
    pub sequences: i64,
    /// `` with offsets; 0: T ``
    pub max_tokens: i64,
    /// `` out as q [T][H][D] ``
    pub dq: Option<&'a Tensor>,
    /// `` out as q [T][HKV][D] ``
    pub dk: Option<&'a Tensor>,
    /// `` out as q [T][HKV][DV] ``
    pub dv: Option<&'a Tensor>,
    /// `` out f32 [HKV][BS]; NULL: not wanted ``
    pub dpool_k: Option<&'a Tensor>,
    /// `` out f32 [HKV][BS]; NULL: not wanted ``
    pub dpool_v: Option<&'a Tensor>,
    /// `` BS; 0: 64 ``
    pub block_size: i64,
    /// `` > 0; NULL: 1/sqrt(D) ``
    pub scale: Option<f64>,
}

impl NsaCompressedBackwardArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_nsa_compressed_backward_args {
        let _ = (&numbers, &held);
        sys::kiln_nsa_compressed_backward_args {
            struct_size: core::mem::size_of::<sys::kiln_nsa_compressed_backward_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            out: tensor(self.out, held),
            lse: tensor(self.lse, held),
            dout: tensor(self.dout, held),
            pool_k: tensor(self.pool_k, held),
            pool_v: tensor(self.pool_v, held),
            offsets: tensor(self.offsets, held),
            sequences: self.sequences,
            max_tokens: self.max_tokens,
            dq: tensor(self.dq, held),
            dk: tensor(self.dk, held),
            dv: tensor(self.dv, held),
            dpool_k: tensor(self.dpool_k, held),
            dpool_v: tensor(self.dpool_v, held),
            block_size: self.block_size,
            scale: number(self.scale, numbers),
            ..Default::default()
        }
    }
}

/// `kiln_nsa_decode_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct NsaDecodeArgs<'a> {
    /// `` in bf16 or f16 [B][H][D] ``
    pub q: Option<&'a Tensor>,
    /// `` in as q [B][M][HKV][D] ``
    pub k: Option<&'a Tensor>,
    /// `` in as q [B][M][HKV][DV] ``
    pub v: Option<&'a Tensor>,
    /// `` in i32 [B][HKV][S] ``
    pub block_indices: Option<&'a Tensor>,
    /// `` in i32 [B][HKV]; NULL: S ``
    pub block_counts: Option<&'a Tensor>,
    /// `` in i32 [B]: tokens in each cache, the new one among them; NULL: M. More count as M ``
    pub lengths: Option<&'a Tensor>,
    /// `` out as q [B][H][DV] ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 [B][H]; NULL: not wanted ``
    pub lse: Option<&'a Tensor>,
    /// `` BS; 0: 64 ``
    pub block_size: i64,
    /// `` shares of a list, 1 to S; 0: as many as fill the device. Results depend on it, as rounding does ``
    pub splits: i64,
    /// `` > 0; NULL: 1/sqrt(D) ``
    pub scale: Option<f64>,
}

impl NsaDecodeArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_nsa_decode_args {
        let _ = (&numbers, &held);
        sys::kiln_nsa_decode_args {
            struct_size: core::mem::size_of::<sys::kiln_nsa_decode_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            block_indices: tensor(self.block_indices, held),
            block_counts: tensor(self.block_counts, held),
            lengths: tensor(self.lengths, held),
            out: tensor(self.out, held),
            lse: tensor(self.lse, held),
            block_size: self.block_size,
            splits: self.splits,
            scale: number(self.scale, numbers),
            ..Default::default()
        }
    }
}

/// `kiln_nsa_decode_choose_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct NsaDecodeChooseArgs<'a> {
    /// `` in bf16 or f16 [B][H][D] ``
    pub q: Option<&'a Tensor>,
    /// `` in as q [B][R][HKV][D], at most 8191 rows ``
    pub k_pooled: Option<&'a Tensor>,
    /// `` in as q [B][R][HKV][DV] ``
    pub v_pooled: Option<&'a Tensor>,
    /// `` in i32 [B]: tokens in each cache, the new one among them ``
    pub lengths: Option<&'a Tensor>,
    /// `` out as q [B][H][DV]: the compressed branch ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 [B][H]; NULL: not wanted ``
    pub lse: Option<&'a Tensor>,
    /// `` out i32 [B][HKV][S] ``
    pub block_indices: Option<&'a Tensor>,
    /// `` BS; 0: 64 ``
    pub block_size: i64,
    /// `` 0 or more ``
    pub initial_blocks: i64,
    /// `` 0: 1. With initial_blocks at most S ``
    pub local_blocks: i64,
    /// `` > 0; NULL: 1/sqrt(D) ``
    pub scale: Option<f64>,
}

impl NsaDecodeChooseArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_nsa_decode_choose_args {
        let _ = (&numbers, &held);
        sys::kiln_nsa_decode_choose_args {
            struct_size: core::mem::size_of::<sys::kiln_nsa_decode_choose_args>(),
            q: tensor(self.q, held),
            k_pooled: tensor(self.k_pooled, held),
            v_pooled: tensor(self.v_pooled, held),
            lengths: tensor(self.lengths, held),
            out: tensor(self.out, held),
            lse: tensor(self.lse, held),
            block_indices: tensor(self.block_indices, held),
            block_size: self.block_size,
            initial_blocks: self.initial_blocks,
            local_blocks: self.local_blocks,
            scale: number(self.scale, numbers),
        }
    }
}

/// `kiln_nsa_decode_pool_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct NsaDecodePoolArgs<'a> {
    /// `` in bf16 or f16 [B][M][HKV][D]: keys, or values ``
    pub x: Option<&'a Tensor>,
    /// `` in f32 [HKV][BS]: of a block's tokens; NULL: their mean ``
    pub weights: Option<&'a Tensor>,
    /// `` in i32 [B]: tokens in each cache ``
    pub lengths: Option<&'a Tensor>,
    /// `` inout as x [B][R][HKV][D] ``
    pub pooled: Option<&'a Tensor>,
    /// `` BS; 0: 64 ``
    pub block_size: i64,
    /// `` every block that is full, as after a prompt; else the last, if the newest token filled it ``
    pub all: bool,
}

impl NsaDecodePoolArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_nsa_decode_pool_args {
        let _ = (&numbers, &held);
        sys::kiln_nsa_decode_pool_args {
            struct_size: core::mem::size_of::<sys::kiln_nsa_decode_pool_args>(),
            x: tensor(self.x, held),
            weights: tensor(self.weights, held),
            lengths: tensor(self.lengths, held),
            pooled: tensor(self.pooled, held),
            block_size: self.block_size,
            all: self.all,
        }
    }
}

/// `kiln_nsa_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct NsaArgs<'a> {
    /// `` in bf16 or f16 [T][H][D] ``
    pub q: Option<&'a Tensor>,
    /// `` in as q [T][HKV][D] ``
    pub k: Option<&'a Tensor>,
    /// `` in as q [T][HKV][DV] ``
    pub v: Option<&'a Tensor>,
    /// `` in f32 or as q [T][H]: a factor as it is; NULL: no such branch ``
    pub g_compressed: Option<&'a Tensor>,
    /// `` in f32 or as q [T][H] ``
    pub g_selected: Option<&'a Tensor>,
    /// `` in as g_selected [T][H]; NULL: no such branch ``
    pub g_window: Option<&'a Tensor>,
    /// `` in i32 [T][HKV][S]; NULL: chosen, as kiln_nsa_choose does ``
    pub block_indices: Option<&'a Tensor>,
    /// `` in i32 [T][HKV]; NULL: S ``
    pub block_counts: Option<&'a Tensor>,
    /// `` in f32 [HKV][BS]: weights of a block's keys; NULL: their mean ``
    pub pool_k: Option<&'a Tensor>,
    /// `` in f32 [HKV][BS]: the same of its values ``
    pub pool_v: Option<&'a Tensor>,
    /// `` in i32 [N + 1], from 0 to T, not decreasing; NULL: equal lengths ``
    pub offsets: Option<&'a Tensor>,
    /// `` without offsets: their number; 0: one ``
    pub sequences: i64,
    /// `` with offsets: of the longest sequence, or more; 0: T ``
    pub max_tokens: i64,
    /// `` out as q [T][H][DV] ``
    pub out: Option<&'a Tensor>,
    /// `` BS; 0: 64 ``
    pub block_size: i64,
    /// `` S, without block_indices; 0: 16 ``
    pub blocks: i64,
    /// `` as in kiln_nsa_choose_args; without block_indices ``
    pub initial_blocks: i64,
    /// `` as in kiln_nsa_choose_args; without block_indices ``
    pub local_blocks: i64,
    /// `` with g_window; 0: 512 ``
    pub window: i64,
    /// `` > 0; NULL: 1/sqrt(D) ``
    pub scale: Option<f64>,
}

impl NsaArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_nsa_args {
        let _ = (&numbers, &held);
        sys::kiln_nsa_args {
            struct_size: core::mem::size_of::<sys::kiln_nsa_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            g_compressed: tensor(self.g_compressed, held),
            g_selected: tensor(self.g_selected, held),
            g_window: tensor(self.g_window, held),
            block_indices: tensor(self.block_indices, held),
            block_counts: tensor(self.block_counts, held),
            pool_k: tensor(self.pool_k, held),
            pool_v: tensor(self.pool_v, held),
            offsets: tensor(self.offsets, held),
            sequences: self.sequences,
            max_tokens: self.max_tokens,
            out: tensor(self.out, held),
            block_size: self.block_size,
            blocks: self.blocks,
            initial_blocks: self.initial_blocks,
            local_blocks: self.local_blocks,
            window: self.window,
            scale: number(self.scale, numbers),
            ..Default::default()
        }
    }
}

/// `kiln_nsa_selected_backward_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct NsaSelectedBackwardArgs<'a> {
    /// `` in bf16 or f16 [T][H][D] ``
    pub q: Option<&'a Tensor>,
    /// `` in as q [T][HKV][D] ``
    pub k: Option<&'a Tensor>,
    /// `` in as q [T][HKV][DV] ``
    pub v: Option<&'a Tensor>,
    /// `` in as q [T][H][DV]: of the forward call ``
    pub out: Option<&'a Tensor>,
    /// `` in f32 [T][H]: of the forward call ``
    pub lse: Option<&'a Tensor>,
    /// `` in as q [T][H][DV]: the gradient of out, before any gate ``
    pub dout: Option<&'a Tensor>,
    /// `` in i32 [T][HKV][S] ``
    pub block_indices: Option<&'a Tensor>,
    /// `` in i32 [T][HKV]; NULL: S ``
    pub block_counts: Option<&'a Tensor>,
    /// `` in i32 [N + 1]; NULL: equal lengths ``
    pub offsets: Option<&'a Tensor>,
    /// `` without offsets; 0: one ``
    pub sequences: i64,
    /// `` with offsets; 0: T ``
    pub max_tokens: i64,
    /// `` out as q [T][H][D] ``
    pub dq: Option<&'a Tensor>,
    /// `` out as q [T][HKV][D] ``
    pub dk: Option<&'a Tensor>,
    /// `` out as q [T][HKV][DV] ``
    pub dv: Option<&'a Tensor>,
    /// `` BS; 0: 64 ``
    pub block_size: i64,
    pub fused: bool,
    /// `` > 0; NULL: 1/sqrt(D) ``
    pub scale: Option<f64>,
}

impl NsaSelectedBackwardArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_nsa_selected_backward_args {
        let _ = (&numbers, &held);
        sys::kiln_nsa_selected_backward_args {
            struct_size: core::mem::size_of::<sys::kiln_nsa_selected_backward_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            out: tensor(self.out, held),
            lse: tensor(self.lse, held),
            dout: tensor(self.dout, held),
            block_indices: tensor(self.block_indices, held),
            block_counts: tensor(self.block_counts, held),
            offsets: tensor(self.offsets, held),
            sequences: self.sequences,
            max_tokens: self.max_tokens,
            dq: tensor(self.dq, held),
            dk: tensor(self.dk, held),
            dv: tensor(self.dv, held),
            block_size: self.block_size,
            fused: self.fused,
            scale: number(self.scale, numbers),
            ..Default::default()
        }
    }
}

/// `kiln_nsa_selected_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct NsaSelectedArgs<'a> {
    /// `` in bf16 or f16 [T][H][D] ``
    pub q: Option<&'a Tensor>,
    /// `` in as q [T][HKV][D] ``
    pub k: Option<&'a Tensor>,
    /// `` in as q [T][HKV][DV] ``
    pub v: Option<&'a Tensor>,
    /// `` in i32 [T][HKV][S] ``
    pub block_indices: Option<&'a Tensor>,
    /// `` in i32 [T][HKV]; NULL: S ``
    pub block_counts: Option<&'a Tensor>,
    /// `` in i32 [N + 1]; NULL: equal lengths ``
    pub offsets: Option<&'a Tensor>,
    /// `` without offsets; 0: one ``
    pub sequences: i64,
    /// `` with offsets; 0: T ``
    pub max_tokens: i64,
    /// `` out as q [T][H][DV] ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 [T][H], which the backward call needs; NULL: not wanted ``
    pub lse: Option<&'a Tensor>,
    /// `` BS; 0: 64 ``
    pub block_size: i64,
    /// `` > 0; NULL: 1/sqrt(D) ``
    pub scale: Option<f64>,
}

impl NsaSelectedArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_nsa_selected_args {
        let _ = (&numbers, &held);
        sys::kiln_nsa_selected_args {
            struct_size: core::mem::size_of::<sys::kiln_nsa_selected_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            block_indices: tensor(self.block_indices, held),
            block_counts: tensor(self.block_counts, held),
            offsets: tensor(self.offsets, held),
            sequences: self.sequences,
            max_tokens: self.max_tokens,
            out: tensor(self.out, held),
            lse: tensor(self.lse, held),
            block_size: self.block_size,
            scale: number(self.scale, numbers),
            ..Default::default()
        }
    }
}

/// `kiln_paged_append_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct PagedAppendArgs<'a> {
    /// `` in bf16 or f16 [N][HKV][D] ``
    pub keys: Option<&'a Tensor>,
    /// `` in [N][HKV][DV] ``
    pub values: Option<&'a Tensor>,
    /// `` in i32 [N] ``
    pub slots: Option<&'a Tensor>,
    /// `` in i32 [N]: with `rotary` ``
    pub positions: Option<&'a Tensor>,
    /// `` inout as keys, or e4m3 [pages][page size][HKV][D] ``
    pub k: Option<&'a Tensor>,
    /// `` inout as k [pages][page size][HKV][DV] ``
    pub v: Option<&'a Tensor>,
    /// `` in f32 [HKV], positive: what the keys of a head are divided by; NULL: 1. e4m3 saturates ``
    pub k_scales: Option<&'a Tensor>,
    /// `` in f32 [HKV]: the same for its values ``
    pub v_scales: Option<&'a Tensor>,
    /// `` in host memory; NULL: none. Styles: halves, interleaved, YaRN, Llama 3 ``
    pub rotary: Option<&'a sys::kiln_rotary>,
    /// `` YaRN, Llama 3: positions that the model was trained for, at least 1 ``
    pub trained_length: i64,
}

impl PagedAppendArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_paged_append_args {
        let _ = (&numbers, &held);
        sys::kiln_paged_append_args {
            struct_size: core::mem::size_of::<sys::kiln_paged_append_args>(),
            keys: tensor(self.keys, held),
            values: tensor(self.values, held),
            slots: tensor(self.slots, held),
            positions: tensor(self.positions, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            k_scales: tensor(self.k_scales, held),
            v_scales: tensor(self.v_scales, held),
            rotary: self.rotary.map_or(core::ptr::null(), |r| r),
            trained_length: self.trained_length,
        }
    }
}

/// `kiln_paged_attention_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct PagedAttentionArgs<'a> {
    /// `` made for the same lengths, offsets, sizes and masks; NULL: none ``
    pub plan: Option<&'a PagedPlan>,
    /// `` in bf16 or f16 [TQ][H][D]: request b has rows q_offsets[b] to q_offsets[b + 1] - 1 ``
    pub q: Option<&'a Tensor>,
    /// `` in as q, or e4m3 [pages][page size][HKV][D] ``
    pub k: Option<&'a Tensor>,
    /// `` in as k [pages][page size][HKV][DV] ``
    pub v: Option<&'a Tensor>,
    /// `` in i32 [B][pages per request], at most 2^30 slots each ``
    pub table: Option<&'a Tensor>,
    /// `` in i32 [B]: keys of each request, the new ones included; may be 0 ``
    pub lengths: Option<&'a Tensor>,
    /// `` in i32 [B + 1], from 0 to TQ, not decreasing; NULL: every request has TQ / B rows ``
    pub q_offsets: Option<&'a Tensor>,
    /// `` with q_offsets: rows of the request that has most, or more; rows past it are not computed. 0: TQ. A small number (times H / HKV at most 64) chooses the way of decoding. With a plan: the plan's ``
    pub max_queries: i64,
    /// `` keys of the longest request, or more: how many shares the keys are split into depends on it, and no result; 0: what the table has room for. With a plan: not used ``
    pub max_keys: i64,
    /// `` out [TQ][H][DV] ``
    pub out: Option<&'a Tensor>,
    /// `` out f32 [TQ][H]; NULL: not wanted ``
    pub lse: Option<&'a Tensor>,
    pub causal: bool,
    /// `` > 0: causal, and only the last `window` keys up to the query's own. Pages before the window of a request's first row are not read, and their table entries may be anything ``
    pub window: i64,
    /// `` > 0: scores become softcap * tanh(s / softcap); 0: they do not ``
    pub softcap: f64,
    /// `` in f32 [H] (ALiBi): slope * |i + L - S - j| is taken off s, once capped; NULL: none ``
    pub slopes: Option<&'a Tensor>,
    /// `` in f32 [H]: a logit, natural and not scaled, that is added to the denominator of out alone; NULL: none ``
    pub sinks: Option<&'a Tensor>,
    /// `` in f32 [HKV], positive: what the keys of a head are multiplied by; NULL: 1 ``
    pub k_scales: Option<&'a Tensor>,
    /// `` in f32 [HKV]: the same for its values ``
    pub v_scales: Option<&'a Tensor>,
    /// `` into how many shares the keys are split, 1 to 65536; 0: as many as fill the device, or as planned ``
    pub splits: i64,
    /// `` > 0; NULL: 1/sqrt(D) ``
    pub scale: Option<f64>,
}

impl PagedAttentionArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_paged_attention_args {
        let _ = (&numbers, &held);
        sys::kiln_paged_attention_args {
            struct_size: core::mem::size_of::<sys::kiln_paged_attention_args>(),
            plan: plan(self.plan, held),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            table: tensor(self.table, held),
            lengths: tensor(self.lengths, held),
            q_offsets: tensor(self.q_offsets, held),
            max_queries: self.max_queries,
            max_keys: self.max_keys,
            out: tensor(self.out, held),
            lse: tensor(self.lse, held),
            causal: self.causal,
            window: self.window,
            softcap: self.softcap,
            slopes: tensor(self.slopes, held),
            sinks: tensor(self.sinks, held),
            k_scales: tensor(self.k_scales, held),
            v_scales: tensor(self.v_scales, held),
            splits: self.splits,
            scale: number(self.scale, numbers),
            ..Default::default()
        }
    }
}

/// `kiln_paged_slots_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct PagedSlotsArgs<'a> {
    /// `` in i32 [B][pages per request] ``
    pub table: Option<&'a Tensor>,
    /// `` in i32 [B]: including the new tokens ``
    pub lengths: Option<&'a Tensor>,
    /// `` in i32 [B + 1]: as in kiln_paged_attention_args; NULL: TQ / B tokens each ``
    pub q_offsets: Option<&'a Tensor>,
    /// `` out i32 [TQ]; -1 for a token before the first or past the table ``
    pub slots: Option<&'a Tensor>,
    /// `` out i32 [TQ]: the token's place in its request; NULL: not wanted ``
    pub positions: Option<&'a Tensor>,
    /// `` tokens of a page ``
    pub page_size: i64,
}

impl PagedSlotsArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_paged_slots_args {
        let _ = (&numbers, &held);
        sys::kiln_paged_slots_args {
            struct_size: core::mem::size_of::<sys::kiln_paged_slots_args>(),
            table: tensor(self.table, held),
            lengths: tensor(self.lengths, held),
            q_offsets: tensor(self.q_offsets, held),
            slots: tensor(self.slots, held),
            positions: tensor(self.positions, held),
            page_size: self.page_size,
        }
    }
}

/// `kiln_quant_pack_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct QuantPackArgs<'a> {
    /// `` in as the layout says; bytes may be u8 or i8 ``
    pub weights: Option<&'a Tensor>,
    /// `` in as the layout says; NULL for GGUF, and where the format has no groups ``
    pub weight_scales: Option<&'a Tensor>,
    /// `` in as the layout says; NULL: none ``
    pub weight_zeros: Option<&'a Tensor>,
    /// `` out [N][P], of the format's type or u8: [N][bytes] ``
    pub codes: Option<&'a Tensor>,
    /// `` out [N][P/G]; NULL with weight_scales, but for GGUF ``
    pub scales: Option<&'a Tensor>,
    /// `` out u8 [N][P/G]; NULL with weight_zeros ``
    pub zeros: Option<&'a Tensor>,
    /// `` out [N][P/G] of INT4MIN; else NULL ``
    pub minima: Option<&'a Tensor>,
    pub format: QuantFormat,
    pub layout: QuantLayout,
    /// `` K ``
    pub k: i64,
    /// `` G, as above, of scales ``
    pub group: i32,
    /// `` S, of weight_scales; 0: K ``
    pub weight_group: i32,
    /// `` MXFP4: added to the exponents, 0 to 127: 127 where scales stand for 2^s ``
    pub exponent_offset: i32,
}

impl QuantPackArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_quant_pack_args {
        let _ = (&numbers, &held);
        sys::kiln_quant_pack_args {
            struct_size: core::mem::size_of::<sys::kiln_quant_pack_args>(),
            weights: tensor(self.weights, held),
            weight_scales: tensor(self.weight_scales, held),
            weight_zeros: tensor(self.weight_zeros, held),
            codes: tensor(self.codes, held),
            scales: tensor(self.scales, held),
            zeros: tensor(self.zeros, held),
            minima: tensor(self.minima, held),
            format: self.format as u32,
            layout: self.layout as u32,
            k: self.k,
            group: self.group,
            weight_group: self.weight_group,
            exponent_offset: self.exponent_offset,
        }
    }
}

/// `kiln_quant_ternary_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct QuantTernaryArgs<'a> {
    /// `` in bf16, f16 or f32 [N][K]; K at least 32 ``
    pub weights: Option<&'a Tensor>,
    /// `` in i32 [groups + 1], from 0 to N, never falling; NULL: one group ``
    pub offsets: Option<&'a Tensor>,
    /// `` out i2 [N][P], or u8 [N][P/4] ``
    pub codes: Option<&'a Tensor>,
    /// `` out f32 [N] ``
    pub scales: Option<&'a Tensor>,
}

impl QuantTernaryArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_quant_ternary_args {
        let _ = (&numbers, &held);
        sys::kiln_quant_ternary_args {
            struct_size: core::mem::size_of::<sys::kiln_quant_ternary_args>(),
            weights: tensor(self.weights, held),
            offsets: tensor(self.offsets, held),
            codes: tensor(self.codes, held),
            scales: tensor(self.scales, held),
            ..Default::default()
        }
    }
}

/// `kiln_quant_unpack_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct QuantUnpackArgs<'a> {
    /// `` in [N][P], as kiln_quantised_gemm takes them, as all down to minima ``
    pub codes: Option<&'a Tensor>,
    /// `` in as the format says; of W8A8, W4A8, W4A8U and W2A8 NULL: 1 ``
    pub scales: Option<&'a Tensor>,
    /// `` in [N][P/G], of W4A8U [N]; NULL: 0 ``
    pub zeros: Option<&'a Tensor>,
    /// `` in [N][P/G], of the scales' type ``
    pub minima: Option<&'a Tensor>,
    /// `` out bf16, f16 or f32 [N][K] ``
    pub weights: Option<&'a Tensor>,
    pub format: QuantFormat,
    /// `` G; not read where the format has one or none ``
    pub group: i32,
}

impl QuantUnpackArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_quant_unpack_args {
        let _ = (&numbers, &held);
        sys::kiln_quant_unpack_args {
            struct_size: core::mem::size_of::<sys::kiln_quant_unpack_args>(),
            codes: tensor(self.codes, held),
            scales: tensor(self.scales, held),
            zeros: tensor(self.zeros, held),
            minima: tensor(self.minima, held),
            weights: tensor(self.weights, held),
            format: self.format as u32,
            group: self.group,
        }
    }
}

/// `kiln_quantised_gemm_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct QuantisedGemmArgs<'a> {
    /// `` in [M][K] ``
    pub a: Option<&'a Tensor>,
    /// `` in [N][P], of the format's type or u8: [N][bytes] ``
    pub codes: Option<&'a Tensor>,
    /// `` in as the format says ``
    pub scales: Option<&'a Tensor>,
    /// `` in [N][P/G], of W4A8U [N]; NULL: 0 ``
    pub zeros: Option<&'a Tensor>,
    /// `` in [N][P/G], of the scales' type ``
    pub minima: Option<&'a Tensor>,
    /// `` in [M]; of FP8_BLOCK [M][P/128] ``
    pub a_scales: Option<&'a Tensor>,
    /// `` in [N]; NULL: none ``
    pub bias: Option<&'a Tensor>,
    /// `` out [M][N] ``
    pub c: Option<&'a Tensor>,
    pub format: QuantFormat,
    /// `` G; not read where the format has one or none ``
    pub group: i32,
    /// `` in [M][N], of c's type, added in f32; of formats with groups; NULL: none ``
    pub residual: Option<&'a Tensor>,
}

impl QuantisedGemmArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_quantised_gemm_args {
        let _ = (&numbers, &held);
        sys::kiln_quantised_gemm_args {
            struct_size: core::mem::size_of::<sys::kiln_quantised_gemm_args>(),
            a: tensor(self.a, held),
            codes: tensor(self.codes, held),
            scales: tensor(self.scales, held),
            zeros: tensor(self.zeros, held),
            minima: tensor(self.minima, held),
            a_scales: tensor(self.a_scales, held),
            bias: tensor(self.bias, held),
            c: tensor(self.c, held),
            format: self.format as u32,
            group: self.group,
            residual: tensor(self.residual, held),
            ..Default::default()
        }
    }
}

/// `kiln_rotary_embedding_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct RotaryEmbeddingArgs<'a> {
    /// `` inout T [tokens][H][D]: queries or keys ``
    pub x: Option<&'a Tensor>,
    /// `` in i32 [tokens] ``
    pub positions: Option<&'a Tensor>,
    /// `` in host memory; NULL: halves, all of D, base 10000 ``
    pub rotary: Option<&'a sys::kiln_rotary>,
    /// `` YaRN, Llama 3, NTK: positions that the model was trained for, at least 1 ``
    pub trained_length: i64,
    /// `` by the opposite angle: what it makes of a gradient ``
    pub backward: bool,
    /// `` in i32 [tokens]: NTK: L, the tokens of the sequence that each is of; NULL with other styles ``
    pub lengths: Option<&'a Tensor>,
}

impl RotaryEmbeddingArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_rotary_embedding_args {
        let _ = (&numbers, &held);
        sys::kiln_rotary_embedding_args {
            struct_size: core::mem::size_of::<sys::kiln_rotary_embedding_args>(),
            x: tensor(self.x, held),
            positions: tensor(self.positions, held),
            rotary: self.rotary.map_or(core::ptr::null(), |r| r),
            trained_length: self.trained_length,
            backward: self.backward,
            lengths: tensor(self.lengths, held),
        }
    }
}

/// `kiln_sample_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct SampleArgs<'a> {
    /// `` in T [M][V], V from 1 to 262144 ``
    pub logits: Option<&'a Tensor>,
    /// `` in f32 [M]; NULL: 1 ``
    pub temperatures: Option<&'a Tensor>,
    /// `` in i32 [M], 0 or less: all; NULL: all ``
    pub top_k: Option<&'a Tensor>,
    /// `` in f32 [M], 1 or more: all, 0 or less: the largest; NULL: all ``
    pub top_p: Option<&'a Tensor>,
    /// `` in f32 [M], from 0 to 1; NULL: 0 ``
    pub min_p: Option<&'a Tensor>,
    /// `` in i64 [M]; NULL: the largest logits are taken ``
    pub seeds: Option<&'a Tensor>,
    /// `` in i64 [M]: how many draws of the seed came before, such as the position; NULL: 0 ``
    pub steps: Option<&'a Tensor>,
    /// `` out i32 [M] ``
    pub tokens: Option<&'a Tensor>,
    /// `` out f32 [M]: of the token among the candidates; NULL: not wanted ``
    pub probabilities: Option<&'a Tensor>,
    /// `` out f32 [M]: its natural logarithm among all, by the logits as they are; NULL: not wanted ``
    pub logprobs: Option<&'a Tensor>,
    /// `` out f32 [M][V]: of all tokens among the candidates, others 0; NULL: not wanted ``
    pub distribution: Option<&'a Tensor>,
}

impl SampleArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_sample_args {
        let _ = (&numbers, &held);
        sys::kiln_sample_args {
            struct_size: core::mem::size_of::<sys::kiln_sample_args>(),
            logits: tensor(self.logits, held),
            temperatures: tensor(self.temperatures, held),
            top_k: tensor(self.top_k, held),
            top_p: tensor(self.top_p, held),
            min_p: tensor(self.min_p, held),
            seeds: tensor(self.seeds, held),
            steps: tensor(self.steps, held),
            tokens: tensor(self.tokens, held),
            probabilities: tensor(self.probabilities, held),
            logprobs: tensor(self.logprobs, held),
            distribution: tensor(self.distribution, held),
        }
    }
}

/// `kiln_softmax_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct SoftmaxArgs<'a> {
    /// `` in T [M][N], N at least 1 ``
    pub x: Option<&'a Tensor>,
    /// `` out bf16, f16 or f32 [M][N] ``
    pub out: Option<&'a Tensor>,
}

impl SoftmaxArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_softmax_args {
        let _ = (&numbers, &held);
        sys::kiln_softmax_args {
            struct_size: core::mem::size_of::<sys::kiln_softmax_args>(),
            x: tensor(self.x, held),
            out: tensor(self.out, held),
        }
    }
}

/// `kiln_sparse24_pack_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct Sparse24PackArgs<'a> {
    /// `` in bf16, f16, e4m3, e5m2 or i8 [Z][R][K], or [R][K]; K is a multiple of 8 ``
    pub weights: Option<&'a Tensor>,
    /// `` out as weights [Z][R][K/2] ``
    pub values: Option<&'a Tensor>,
    /// `` out u8 [Z][R][K/8] ``
    pub places: Option<&'a Tensor>,
    /// `` out i32 [Z][R]: groups of the row that had more than two; NULL with `prune` alone ``
    pub excess: Option<&'a Tensor>,
    /// `` what is above two may go unseen ``
    pub prune: bool,
}

impl Sparse24PackArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_sparse24_pack_args {
        let _ = (&numbers, &held);
        sys::kiln_sparse24_pack_args {
            struct_size: core::mem::size_of::<sys::kiln_sparse24_pack_args>(),
            weights: tensor(self.weights, held),
            values: tensor(self.values, held),
            places: tensor(self.places, held),
            excess: tensor(self.excess, held),
            prune: self.prune,
        }
    }
}

/// `kiln_topk_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct TopkArgs<'a> {
    /// `` in T [M][N], N at least K ``
    pub x: Option<&'a Tensor>,
    /// `` out T [M][K], K from 1 to 2048 ``
    pub values: Option<&'a Tensor>,
    /// `` out i32 [M][K] ``
    pub indices: Option<&'a Tensor>,
}

impl TopkArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_topk_args {
        let _ = (&numbers, &held);
        sys::kiln_topk_args {
            struct_size: core::mem::size_of::<sys::kiln_topk_args>(),
            x: tensor(self.x, held),
            values: tensor(self.values, held),
            indices: tensor(self.indices, held),
            ..Default::default()
        }
    }
}

/// `kiln_topk_select_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct TopkSelectArgs<'a> {
    /// `` in f32 [S][SKV] ``
    pub logits: Option<&'a Tensor>,
    /// `` in i32 [S]; NULL: 0 ``
    pub starts: Option<&'a Tensor>,
    /// `` in i32 [S]; NULL: SKV ``
    pub ends: Option<&'a Tensor>,
    /// `` out i32 [S][topk]; topk is 1 to 16384 ``
    pub indices: Option<&'a Tensor>,
}

impl TopkSelectArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_topk_select_args {
        let _ = (&numbers, &held);
        sys::kiln_topk_select_args {
            struct_size: core::mem::size_of::<sys::kiln_topk_select_args>(),
            logits: tensor(self.logits, held),
            starts: tensor(self.starts, held),
            ends: tensor(self.ends, held),
            indices: tensor(self.indices, held),
        }
    }
}

/// `kiln_vertical_slash_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct VerticalSlashArgs<'a> {
    /// `` in [B][S][H][D], at most 2^20 - 64 rows ``
    pub q: Option<&'a Tensor>,
    /// `` in [B][S][HKV][D] ``
    pub k: Option<&'a Tensor>,
    /// `` in [B][S][HKV][D] ``
    pub v: Option<&'a Tensor>,
    /// `` in i32 [B][H][columns], ascending, none twice; numbers outside of 0 .. S-1 (-1) count for nothing, wherever they stand ``
    pub vertical: Option<&'a Tensor>,
    /// `` in i32 [B][H][diagonals], likewise; at most 4096 ``
    pub slash: Option<&'a Tensor>,
    /// `` out [B][S][H][D] ``
    pub out: Option<&'a Tensor>,
    /// `` > 0; NULL: 1/sqrt(D) ``
    pub scale: Option<f64>,
}

impl VerticalSlashArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_vertical_slash_args {
        let _ = (&numbers, &held);
        sys::kiln_vertical_slash_args {
            struct_size: core::mem::size_of::<sys::kiln_vertical_slash_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            v: tensor(self.v, held),
            vertical: tensor(self.vertical, held),
            slash: tensor(self.slash, held),
            out: tensor(self.out, held),
            scale: number(self.scale, numbers),
            ..Default::default()
        }
    }
}

/// `kiln_vertical_slash_estimate_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct VerticalSlashEstimateArgs<'a> {
    /// `` in [B][S][H][D] ``
    pub q: Option<&'a Tensor>,
    /// `` in [B][S][HKV][D] ``
    pub k: Option<&'a Tensor>,
    /// `` out i32 [B][H][columns]: the columns with the largest sums of weights of the last 64 queries, the first 30 among them; ascending, -1 after all there are ``
    pub vertical: Option<&'a Tensor>,
    /// `` out i32 [B][H][diagonals]: likewise, the nearest 30 among them ``
    pub slash: Option<&'a Tensor>,
    /// `` of the scores that the weights are made from, > 0; NULL: 1, as in the authors' program ``
    pub scale: Option<f64>,
}

impl VerticalSlashEstimateArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_vertical_slash_estimate_args {
        let _ = (&numbers, &held);
        sys::kiln_vertical_slash_estimate_args {
            struct_size: core::mem::size_of::<sys::kiln_vertical_slash_estimate_args>(),
            q: tensor(self.q, held),
            k: tensor(self.k, held),
            vertical: tensor(self.vertical, held),
            slash: tensor(self.slash, held),
            scale: number(self.scale, numbers),
            ..Default::default()
        }
    }
}

/// `kiln_mla_plan_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct MlaPlanArgs<'a> {
    pub shape: Option<&'a sys::kiln_mla_shape>,
    /// `` dense: in i32 [batch]: tokens in the cache of each request, including the new ones; may be 0 ``
    pub lengths: Option<&'a Tensor>,
    /// `` sparse: those of the decoding calls, so that parts have equal work; NULL: ``
    pub topk_lengths: Option<&'a Tensor>,
    /// `` all lists are full ``
    pub extra_topk_lengths: Option<&'a Tensor>,
}

impl MlaPlanArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_mla_plan_args {
        let _ = (&numbers, &held);
        sys::kiln_mla_plan_args {
            struct_size: core::mem::size_of::<sys::kiln_mla_plan_args>(),
            shape: self.shape.map_or(core::ptr::null(), |r| r),
            lengths: tensor(self.lengths, held),
            topk_lengths: tensor(self.topk_lengths, held),
            extra_topk_lengths: tensor(self.extra_topk_lengths, held),
            ..Default::default()
        }
    }
}

/// `kiln_paged_plan_args`. The comments of fields are those of the C header, which has the rest; what is left out has its default.
#[derive(Clone, Copy, Default)]
pub struct PagedPlanArgs<'a> {
    /// `` in i32 [B], q_offsets [B + 1] or NULL: as in kiln_paged_attention_args, as are ``
    pub lengths: Option<&'a Tensor>,
    /// `` max_queries, causal and window ``
    pub q_offsets: Option<&'a Tensor>,
    /// `` TQ ``
    pub rows: i64,
    pub max_queries: i64,
    /// `` H ``
    pub heads: i64,
    /// `` HKV ``
    pub key_heads: i64,
    /// `` D ``
    pub size: i64,
    /// `` DV; 0: D ``
    pub value_size: i64,
    /// `` the caches are e4m3 ``
    pub eight_bit: bool,
    pub causal: bool,
    pub window: i64,
    /// `` of equal work, 1 to 65536; 0: as many as fill the device ``
    pub parts: i64,
}

impl PagedPlanArgs<'_> {
    // `numbers` holds what the struct of C points to.
    fn c_struct(&self, numbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::kiln_paged_plan_args {
        let _ = (&numbers, &held);
        sys::kiln_paged_plan_args {
            struct_size: core::mem::size_of::<sys::kiln_paged_plan_args>(),
            lengths: tensor(self.lengths, held),
            q_offsets: tensor(self.q_offsets, held),
            rows: self.rows,
            max_queries: self.max_queries,
            heads: self.heads,
            key_heads: self.key_heads,
            size: self.size,
            value_size: self.value_size,
            eight_bit: self.eight_bit,
            causal: self.causal,
            window: self.window,
            parts: self.parts,
            ..Default::default()
        }
    }
}

/// The operators, each by the name of its C function. Those that take something else than one struct of tensors and numbers
/// are in `kiln_sys` alone: `kiln_moe`, `kiln_moe_route`.
impl Operators {
    /// `kiln_activate`.
    pub fn activate(&self, stream: &Stream, args: &ActivateArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_activate(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_activate_backward`.
    pub fn activate_backward(&self, stream: &Stream, args: &ActivateBackwardArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_activate_backward(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_argmax`.
    pub fn argmax(&self, stream: &Stream, args: &ArgmaxArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_argmax(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_attention_backward`.
    pub fn attention_backward(&self, stream: &Stream, scratch: &mut Workspace, args: &AttentionBackwardArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_attention_backward_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_attention_backward(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_attention_backward_varlen`.
    pub fn attention_backward_varlen(&self, stream: &Stream, scratch: &mut Workspace, args: &AttentionBackwardVarlenArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_attention_backward_varlen_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_attention_backward_varlen(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_attention_decode`.
    pub fn attention_decode(&self, stream: &Stream, scratch: &mut Workspace, args: &AttentionDecodeArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_attention_decode_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_attention_decode(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_attention_forward`.
    pub fn attention_forward(&self, stream: &Stream, scratch: &mut Workspace, args: &AttentionArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_attention_forward_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_attention_forward(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_attention_forward_kvpacked`.
    pub fn attention_forward_kvpacked(&self, stream: &Stream, args: &AttentionKvpackedArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_attention_forward_kvpacked(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_attention_forward_qkvpacked`.
    pub fn attention_forward_qkvpacked(&self, stream: &Stream, args: &AttentionQkvpackedArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_attention_forward_qkvpacked(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_attention_forward_varlen`.
    pub fn attention_forward_varlen(&self, stream: &Stream, args: &AttentionVarlenArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_attention_forward_varlen(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_block_mask`.
    pub fn block_mask(&self, stream: &Stream, args: &BlockMaskArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_block_mask(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_block_sparse`.
    pub fn block_sparse(&self, stream: &Stream, scratch: &mut Workspace, args: &BlockSparseArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_block_sparse_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_block_sparse(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_block_sparse_decode`.
    pub fn block_sparse_decode(&self, stream: &Stream, scratch: &mut Workspace, args: &BlockSparseDecodeArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_block_sparse_decode_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_block_sparse_decode(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_block_sparse_gemm`.
    pub fn block_sparse_gemm(&self, stream: &Stream, args: &BlockSparseGemmArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_block_sparse_gemm(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_cast_fp8`.
    pub fn cast_fp8(&self, stream: &Stream, args: &CastFp8Args) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_cast_fp8(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_cast_int8`.
    pub fn cast_int8(&self, stream: &Stream, args: &CastInt8Args) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_cast_int8(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_causal_conv`.
    pub fn causal_conv(&self, stream: &Stream, args: &CausalConvArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_causal_conv(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_causal_conv_backward`.
    pub fn causal_conv_backward(&self, stream: &Stream, scratch: &mut Workspace, args: &CausalConvBackwardArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_causal_conv_backward_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_causal_conv_backward(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_causal_conv_step`.
    pub fn causal_conv_step(&self, stream: &Stream, args: &CausalConvStepArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_causal_conv_step(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_clean_logits`.
    pub fn clean_logits(&self, stream: &Stream, args: &CleanLogitsArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_clean_logits(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_conv2d`.
    pub fn conv2d(&self, stream: &Stream, args: &Conv2dArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_conv2d(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_cross_entropy`.
    pub fn cross_entropy(&self, stream: &Stream, args: &CrossEntropyArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_cross_entropy(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_cross_entropy_backward`.
    pub fn cross_entropy_backward(&self, stream: &Stream, args: &CrossEntropyBackwardArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_cross_entropy_backward(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_embedding`.
    pub fn embedding(&self, stream: &Stream, args: &EmbeddingArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_embedding(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_gated_norm`.
    pub fn gated_norm(&self, stream: &Stream, args: &GatedNormArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_gated_norm(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_gated_norm_backward`.
    pub fn gated_norm_backward(&self, stream: &Stream, scratch: &mut Workspace, args: &GatedNormBackwardArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_gated_norm_backward_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_gated_norm_backward(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_gdn_backward`.
    pub fn gdn_backward(&self, stream: &Stream, scratch: &mut Workspace, args: &GdnBackwardArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_gdn_backward_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_gdn_backward(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_gdn_forward`.
    pub fn gdn_forward(&self, stream: &Stream, scratch: &mut Workspace, args: &GdnArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_gdn_forward_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_gdn_forward(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_gdn_gates`.
    pub fn gdn_gates(&self, stream: &Stream, args: &GdnGatesArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_gdn_gates(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_gdn_gates_backward`.
    pub fn gdn_gates_backward(&self, stream: &Stream, scratch: &mut Workspace, args: &GdnGatesBackwardArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_gdn_gates_backward_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_gdn_gates_backward(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_gdn_step`.
    pub fn gdn_step(&self, stream: &Stream, args: &GdnStepArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_gdn_step(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_gemm`.
    pub fn gemm(&self, stream: &Stream, scratch: &mut Workspace, args: &GemmArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_gemm_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_gemm(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_grouped_gemm`.
    pub fn grouped_gemm(&self, stream: &Stream, scratch: &mut Workspace, args: &GroupedGemmArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_grouped_gemm_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_grouped_gemm(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_grouped_gemm_weights`.
    pub fn grouped_gemm_weights(&self, stream: &Stream, args: &GroupedGemmWeightsArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_grouped_gemm_weights(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_grouped_mxfp4`.
    pub fn grouped_mxfp4(&self, stream: &Stream, scratch: &mut Workspace, args: &GroupedMxfp4Args) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_grouped_mxfp4_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_grouped_mxfp4(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_hadamard`.
    pub fn hadamard(&self, stream: &Stream, args: &HadamardArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_hadamard(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_index_append`.
    pub fn index_append(&self, stream: &Stream, args: &IndexAppendArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_index_append(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_indexed_attention`.
    pub fn indexed_attention(&self, stream: &Stream, scratch: &mut Workspace, args: &IndexedAttentionArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_indexed_attention_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_indexed_attention(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_indexed_attention_paged`.
    pub fn indexed_attention_paged(&self, stream: &Stream, scratch: &mut Workspace, args: &IndexedAttentionPagedArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_indexed_attention_paged_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_indexed_attention_paged(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_indexer_logits`.
    pub fn indexer_logits(&self, stream: &Stream, args: &IndexerLogitsArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_indexer_logits(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_indexer_scores`.
    pub fn indexer_scores(&self, stream: &Stream, args: &IndexerScoresArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_indexer_scores(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_layer_norm`.
    pub fn layer_norm(&self, stream: &Stream, args: &NormArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_layer_norm(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_linear_attention_backward`.
    pub fn linear_attention_backward(&self, stream: &Stream, scratch: &mut Workspace, args: &LinearAttentionBackwardArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_linear_attention_backward_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_linear_attention_backward(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_linear_attention_forward`.
    pub fn linear_attention_forward(&self, stream: &Stream, scratch: &mut Workspace, args: &LinearAttentionArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_linear_attention_forward_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_linear_attention_forward(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_linear_attention_step`.
    pub fn linear_attention_step(&self, stream: &Stream, args: &LinearAttentionStepArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_linear_attention_step(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_mamba2_backward`.
    pub fn mamba2_backward(&self, stream: &Stream, scratch: &mut Workspace, args: &Mamba2BackwardArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_mamba2_backward_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_mamba2_backward(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_mamba2_forward`.
    pub fn mamba2_forward(&self, stream: &Stream, scratch: &mut Workspace, args: &Mamba2Args) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_mamba2_forward_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_mamba2_forward(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_mamba2_step`.
    pub fn mamba2_step(&self, stream: &Stream, args: &Mamba2StepArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_mamba2_step(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_masked_decode`.
    pub fn masked_decode(&self, stream: &Stream, scratch: &mut Workspace, args: &MaskedDecodeArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_masked_decode_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_masked_decode(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_mla_append`.
    pub fn mla_append(&self, stream: &Stream, args: &MlaAppendArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_mla_append(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_mla_decode`.
    pub fn mla_decode(&self, stream: &Stream, scratch: &mut Workspace, args: &MlaDecodeArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_mla_decode_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_mla_decode(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_mla_decode_contiguous`.
    pub fn mla_decode_contiguous(&self, stream: &Stream, scratch: &mut Workspace, args: &MlaDecodeContiguousArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_mla_decode_contiguous_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_mla_decode_contiguous(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_mla_decode_sparse`.
    pub fn mla_decode_sparse(&self, stream: &Stream, scratch: &mut Workspace, args: &MlaDecodeSparseArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_mla_decode_sparse_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_mla_decode_sparse(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_mla_dequantize`.
    pub fn mla_dequantize(&self, stream: &Stream, args: &MlaDequantizeArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_mla_dequantize(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_mla_prefill_sparse`.
    pub fn mla_prefill_sparse(&self, stream: &Stream, args: &MlaPrefillSparseArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_mla_prefill_sparse(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_mla_quantize`.
    pub fn mla_quantize(&self, stream: &Stream, args: &MlaQuantizeArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_mla_quantize(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_mla_slots`.
    pub fn mla_slots(&self, stream: &Stream, args: &MlaSlotsArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_mla_slots(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_moe_permute`.
    pub fn moe_permute(&self, stream: &Stream, args: &MoePermuteArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_moe_permute(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_moe_unpermute`.
    pub fn moe_unpermute(&self, stream: &Stream, args: &MoeUnpermuteArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_moe_unpermute(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_nsa_choose`.
    pub fn nsa_choose(&self, stream: &Stream, scratch: &mut Workspace, args: &NsaChooseArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_nsa_choose_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_nsa_choose(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_nsa_combine`.
    pub fn nsa_combine(&self, stream: &Stream, args: &NsaCombineArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_nsa_combine(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_nsa_combine_backward`.
    pub fn nsa_combine_backward(&self, stream: &Stream, args: &NsaCombineBackwardArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_nsa_combine_backward(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_nsa_compressed_backward`.
    pub fn nsa_compressed_backward(&self, stream: &Stream, scratch: &mut Workspace, args: &NsaCompressedBackwardArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_nsa_compressed_backward_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_nsa_compressed_backward(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_nsa_decode`.
    pub fn nsa_decode(&self, stream: &Stream, scratch: &mut Workspace, args: &NsaDecodeArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_nsa_decode_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_nsa_decode(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_nsa_decode_choose`.
    pub fn nsa_decode_choose(&self, stream: &Stream, args: &NsaDecodeChooseArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_nsa_decode_choose(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_nsa_decode_pool`.
    pub fn nsa_decode_pool(&self, stream: &Stream, args: &NsaDecodePoolArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_nsa_decode_pool(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_nsa_forward`.
    pub fn nsa_forward(&self, stream: &Stream, scratch: &mut Workspace, args: &NsaArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_nsa_forward_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_nsa_forward(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_nsa_selected_backward`.
    pub fn nsa_selected_backward(&self, stream: &Stream, scratch: &mut Workspace, args: &NsaSelectedBackwardArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_nsa_selected_backward_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_nsa_selected_backward(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_nsa_selected_forward`.
    pub fn nsa_selected_forward(&self, stream: &Stream, scratch: &mut Workspace, args: &NsaSelectedArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_nsa_selected_forward_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_nsa_selected_forward(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_paged_append`.
    pub fn paged_append(&self, stream: &Stream, args: &PagedAppendArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_paged_append(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_paged_attention`.
    pub fn paged_attention(&self, stream: &Stream, scratch: &mut Workspace, args: &PagedAttentionArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_paged_attention_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_paged_attention(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_paged_slots`.
    pub fn paged_slots(&self, stream: &Stream, args: &PagedSlotsArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_paged_slots(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_quant_pack`.
    pub fn quant_pack(&self, stream: &Stream, args: &QuantPackArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_quant_pack(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_quant_ternary`.
    pub fn quant_ternary(&self, stream: &Stream, scratch: &mut Workspace, args: &QuantTernaryArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_quant_ternary_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_quant_ternary(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_quant_unpack`.
    pub fn quant_unpack(&self, stream: &Stream, args: &QuantUnpackArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_quant_unpack(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_quantised_gemm`.
    pub fn quantised_gemm(&self, stream: &Stream, scratch: &mut Workspace, args: &QuantisedGemmArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_quantised_gemm_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_quantised_gemm(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_rms_norm`.
    pub fn rms_norm(&self, stream: &Stream, args: &NormArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_rms_norm(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_rotary_embedding`.
    pub fn rotary_embedding(&self, stream: &Stream, args: &RotaryEmbeddingArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_rotary_embedding(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_sample`.
    pub fn sample(&self, stream: &Stream, args: &SampleArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_sample(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_softmax`.
    pub fn softmax(&self, stream: &Stream, args: &SoftmaxArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_softmax(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_sparse24_pack`.
    pub fn sparse24_pack(&self, stream: &Stream, args: &Sparse24PackArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_sparse24_pack(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_topk`.
    pub fn topk(&self, stream: &Stream, scratch: &mut Workspace, args: &TopkArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_topk_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_topk(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_topk_select`.
    pub fn topk_select(&self, stream: &Stream, args: &TopkSelectArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let c = args.c_struct(&mut numbers, &mut held);
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_topk_select(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_vertical_slash`.
    pub fn vertical_slash(&self, stream: &Stream, scratch: &mut Workspace, args: &VerticalSlashArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_vertical_slash_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_vertical_slash(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_vertical_slash_estimate`.
    pub fn vertical_slash_estimate(&self, stream: &Stream, scratch: &mut Workspace, args: &VerticalSlashEstimateArgs) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_vertical_slash_estimate_workspace_size(self.as_ptr(), &c, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        c.workspace = scratch.as_ptr();
        c.workspace_bytes = scratch.bytes();
        held.extend(scratch.held());
        stream.fits(self.device())?;
        check(unsafe { sys::kiln_vertical_slash_estimate(self.as_ptr(), stream.as_ptr(), &c) })?;
        stream.hold(held);
        Ok(())
    }

    /// `kiln_mla_plan_make`: the plan is for calls that are queued later on the same stream.
    pub fn mla_plan_make(&self, stream: &Stream, args: &MlaPlanArgs, plan: &mut MlaPlan) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_mla_plan_size(self.as_ptr(), c.shape, &mut bytes) })?;
        stream.fits(self.device())?;
        c.memory = plan.reserve(self.device(), bytes)?;
        c.memory_bytes = bytes;
        let mut made = Default::default();
        check(unsafe { sys::kiln_mla_plan_make(self.as_ptr(), stream.as_ptr(), &c, &mut made) })?;
        plan.set(made);
        held.extend(plan.held());
        stream.hold(held);
        Ok(())
    }

    /// `kiln_paged_plan_make`: the plan is for calls that are queued later on the same stream.
    pub fn paged_plan_make(&self, stream: &Stream, args: &PagedPlanArgs, plan: &mut PagedPlan) -> Result<()> {
        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);
        let mut c = args.c_struct(&mut numbers, &mut held);
        let mut bytes = 0;
        check(unsafe { sys::kiln_paged_plan_size(self.as_ptr(), &c, &mut bytes) })?;
        stream.fits(self.device())?;
        c.memory = plan.reserve(self.device(), bytes)?;
        c.memory_bytes = bytes;
        let mut made = Default::default();
        check(unsafe { sys::kiln_paged_plan_make(self.as_ptr(), stream.as_ptr(), &c, &mut made) })?;
        plan.set(made);
        held.extend(plan.held());
        stream.hold(held);
        Ok(())
    }
}
