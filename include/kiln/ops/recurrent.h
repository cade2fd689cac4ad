/* SPDX-License-Identifier: MIT */
/* recurrent.h - layers with a state of fixed size for each head: gated delta net, linear attention, retention, Mamba-2,
 * and the short causal convolution before them. Sequences whole, packed or not, and token by token.
 *
 *     gated delta net     X = exp(g) X;  X = X + k^T beta (v - k X);  o = scale q X
 *     Kimi delta attention: the same with a gate for each channel of a key, diag(exp(g)) X
 *     linear attention    X = exp(g) X + k^T v;                       o = scale q X
 *
 * The state X is DK x DV; q, k, v and o are rows of a token and head. g is a natural logarithm, at most 0.
 *
 * Letters: B batch, S tokens of a sequence, R tokens of a step, H value heads, HK key heads (both at least 1, H a multiple of HK: value head h
 * has the query and the key of head h / (H / HK)), DK size of queries and keys, DV of values; DK and DV are multiples of 16 up to
 * 256. T is bf16, f16 or f32, the same for all tensors of a call that have it. States are f32 or T, those of a call the same;
 * products are of T with sums in f32. A state is kept in f32 from chunk to chunk, and rounded to T where it is multiplied: in
 * f16 one past 65504 is infinite there. The workspaces of whole sequences hold W and U
 * of a gated delta net; of Mamba-2, and where a query has more than 256 bytes, a state of T for each chunk, too.
 *
 * Packed sequences: with `offsets` B is 1, S counts the tokens of all, and sequence n of N is tokens offsets[n] to
 * offsets[n + 1] - 1, none or more. There is an initial and a final state for each. Without, N is B.
 *
 * Steps: the state before the first token of request b is that of number from[b], the one after token t goes to number
 * to[b][t]. With drafts of several tokens each then has a state, so that the next step begins at the last that was accepted.
 * A number outside the states is none: it is read as 0, and nothing is written. from NULL: b. to NULL: the state after the last
 * token goes where the first came from, in place. Two requests may not share a state that one of them writes.
 *
 * kiln/ops/ops.h has what holds for all calls (memory, streams, errors, threads, first call). Queries, keys, values, x, dt,
 * b, c, z and outputs may have rows that lie apart, such as parts of one projection; all others are contiguous. Offsets are
 * checked as ops.h says of values in device memory. Results are the same in every run. The kernels are in kernels/linear.
 */
#ifndef KILN_OPS_RECURRENT_H
#define KILN_OPS_RECURRENT_H

#include "kiln/ops/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- gated delta net, and Kimi delta attention, whose gates have one dimension more: in chunks of 64 tokens or fewer; the
 * recurrence for k of length 1, that of `normalize`, stays bounded */

typedef struct kiln_gdn_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   T [B][S][HK][DK] */
    const kiln_tensor *k;            /* in   T [B][S][HK][DK] */
    const kiln_tensor *v;            /* in   T [B][S][H][DV] */
    const kiln_tensor *gates;        /* in   f32 [B][S][H] or [B][S][H][DK]: g. Below -40, -infinity too, it counts as -40 */
    const kiln_tensor *beta;         /* in   T or f32 [B][S][H] */
    const kiln_tensor *offsets;      /* in   i32 [N + 1], from 0 to S, not decreasing; NULL: not packed */
    const kiln_tensor *initial_states; /* in   f32 or T [N][H][DK][DV]: the states before the first token; NULL: 0 */
    const kiln_tensor *out;          /* out  T [B][S][H][DV]: o */
    const kiln_tensor *final_states; /* out  f32 or T [N][H][DK][DV]: the states after the last token; NULL: not wanted */
    bool    normalize;               /* q and k are divided by sqrt(|q|^2 + 1e-6) and sqrt(|k|^2 + 1e-6) */
    const double *scale;             /* > 0; NULL: 1/sqrt(DK) */
    void   *workspace;               /* kiln_gdn_forward_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_gdn_args;

KILN_API kiln_status kiln_gdn_forward_workspace_size(kiln_ops *ops, const kiln_gdn_args *args, size_t *bytes);
KILN_API kiln_status kiln_gdn_forward(kiln_ops *ops, kiln_stream *stream, const kiln_gdn_args *args);

typedef struct kiln_gdn_step_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   T [B][R][HK][DK], R from 1 to 16 */
    const kiln_tensor *k;            /* in   T [B][R][HK][DK] */
    const kiln_tensor *v;            /* in   T [B][R][H][DV] */
    const kiln_tensor *gates;        /* in   f32 [B][R][H] or [B][R][H][DK] */
    const kiln_tensor *beta;         /* in   T or f32 [B][R][H] */
    const kiln_tensor *from;         /* in   i32 [B]; NULL: b */
    const kiln_tensor *to;           /* in   i32 [B][R]; NULL: in place */
    const kiln_tensor *states;       /* inout f32 or T [M][H][DK][DV] */
    const kiln_tensor *out;          /* out  T [B][R][H][DV] */
    bool    normalize;
    const double *scale;             /* > 0; NULL: 1/sqrt(DK) */
} kiln_gdn_step_args;

KILN_API kiln_status kiln_gdn_step(kiln_ops *ops, kiln_stream *stream, const kiln_gdn_step_args *args);

/* Gradients, from those of `out` and of the final states. The forward pass leaves nothing but its inputs: what it computed is
 * computed again. The gradient of a gate below -40 is 0. The workspace holds, for each chunk, two states of T, and for each token
 * and head about 3 DK + 4 DV + 64 elements of T; with gates for each channel, in chunks of C = 64 tokens or fewer, 6 DK + 3 DV + 3 C. States and their gradients are of one type. */
typedef struct kiln_gdn_backward_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   T [B][S][HK][DK], of the forward pass, as all down to initial_states */
    const kiln_tensor *k;            /* in   T [B][S][HK][DK] */
    const kiln_tensor *v;            /* in   T [B][S][H][DV] */
    const kiln_tensor *gates;        /* in   f32 [B][S][H] or [B][S][H][DK] */
    const kiln_tensor *beta;         /* in   T or f32 [B][S][H] */
    const kiln_tensor *offsets;      /* in   i32 [N + 1], from 0 to S, not decreasing; NULL: not packed */
    const kiln_tensor *initial_states; /* in   f32 or T [N][H][DK][DV]; NULL: 0 */
    const kiln_tensor *dout;         /* in   T [B][S][H][DV] */
    const kiln_tensor *dfinal_states; /* in   f32 or T [N][H][DK][DV]; NULL: 0 */
    const kiln_tensor *dq;           /* out  T [B][S][HK][DK]: summed over the heads of a group, as dk */
    const kiln_tensor *dk;           /* out  T [B][S][HK][DK] */
    const kiln_tensor *dv;           /* out  T [B][S][H][DV] */
    const kiln_tensor *dgates;       /* out  f32, of gates' shape */
    const kiln_tensor *dbeta;        /* out  [B][S][H], of beta's type */
    const kiln_tensor *dinitial_states; /* out  f32 or T [N][H][DK][DV]; NULL: not wanted */
    bool    normalize;               /* as in the forward pass, as scale */
    const double *scale;             /* > 0; NULL: 1/sqrt(DK) */
    void   *workspace;               /* kiln_gdn_backward_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_gdn_backward_args;

KILN_API kiln_status kiln_gdn_backward_workspace_size(kiln_ops *ops, const kiln_gdn_backward_args *args, size_t *bytes);
KILN_API kiln_status kiln_gdn_backward(kiln_ops *ops, kiln_stream *stream, const kiln_gdn_backward_args *args);

/* What a layer makes gates and beta from: gates = -exp(a_log) softplus(a + dt_bias), beta = sigmoid(b). Letter: M tokens, B S of
 * them. With gates for each channel a has DK numbers for a head. The gradients of a_log and dt_bias are sums over the tokens, in
 * an order that the shapes decide. */
typedef struct kiln_gdn_gates_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *a;            /* in   T [M][H] or [M][H][DK], DK a multiple of 16 up to 256 */
    const kiln_tensor *b;            /* in   T [M][H] */
    const kiln_tensor *a_log;        /* in   f32 [H] */
    const kiln_tensor *dt_bias;      /* in   f32 [H] or [H][DK]; NULL: 0 */
    const kiln_tensor *gates;        /* out  f32, of a's shape */
    const kiln_tensor *beta;         /* out  T or f32 [M][H] */
    bool    double_beta;             /* beta = 2 sigmoid(b): eigenvalues down to -1 */
} kiln_gdn_gates_args;

typedef struct kiln_gdn_gates_backward_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *a;            /* in   T [M][H] or [M][H][DK], as in the forward call, as all down to dt_bias */
    const kiln_tensor *b;            /* in   T [M][H] */
    const kiln_tensor *a_log;        /* in   f32 [H] */
    const kiln_tensor *dt_bias;      /* in   f32 [H] or [H][DK]; NULL: 0 */
    const kiln_tensor *dgates;       /* in   f32, of a's shape */
    const kiln_tensor *dbeta;        /* in   T or f32 [M][H] */
    const kiln_tensor *da;           /* out  T, of a's shape */
    const kiln_tensor *db;           /* out  T [M][H] */
    const kiln_tensor *da_log;       /* out  f32 [H] */
    const kiln_tensor *ddt_bias;     /* out  f32 [H] or [H][DK]; NULL: not wanted */
    bool    double_beta;
    void   *workspace;               /* kiln_gdn_gates_backward_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_gdn_gates_backward_args;

KILN_API kiln_status kiln_gdn_gates(kiln_ops *ops, kiln_stream *stream, const kiln_gdn_gates_args *args);
KILN_API kiln_status kiln_gdn_gates_backward_workspace_size(kiln_ops *ops, const kiln_gdn_gates_backward_args *args,
                                                            size_t *bytes);
KILN_API kiln_status kiln_gdn_gates_backward(kiln_ops *ops, kiln_stream *stream, const kiln_gdn_gates_backward_args *args);

/* ---- linear attention; with decay log1p(-2^(-5 - head)), made in f64, retention; with gates their gated kind.
 * g = gates + decay; below -40 it counts as -40 in whole sequences */

typedef struct kiln_linear_attention_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   T [B][S][HK][DK] */
    const kiln_tensor *k;            /* in   T [B][S][HK][DK] */
    const kiln_tensor *v;            /* in   T [B][S][H][DV] */
    const kiln_tensor *gates;        /* in   f32 [B][S][H]; NULL: 0 */
    const kiln_tensor *decay;        /* in   f32 [H]; NULL: 0 */
    const kiln_tensor *offsets;      /* in   i32 [N + 1], from 0 to S, not decreasing; NULL: not packed */
    const kiln_tensor *initial_states; /* in   f32 or T [N][H][DK][DV]; NULL: 0 */
    const kiln_tensor *out;          /* out  T [B][S][H][DV] */
    const kiln_tensor *final_states; /* out  f32 or T [N][H][DK][DV]; NULL: not wanted */
    const kiln_tensor *initial_keys; /* in   f32 [N][H][DK]: Z before the first token, with `normalize`; NULL: 0 */
    const kiln_tensor *final_keys;   /* out  f32 [N][H][DK]: Z after the last token, with `normalize`; NULL: not wanted */
    const kiln_tensor *norm;         /* out  f32 [B][S][H]: n, which the gradients take, with `normalize`; NULL: not wanted */
    bool    normalize;               /* out is multiplied by n = 1 / (scale q Z + 1e-10), Z = exp(g) Z + k */
    const double *scale;             /* > 0; NULL: 1/sqrt(DK) */
    void   *workspace;               /* kiln_linear_attention_forward_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_linear_attention_args;

KILN_API kiln_status kiln_linear_attention_forward_workspace_size(kiln_ops *ops, const kiln_linear_attention_args *args,
                                                                  size_t *bytes);
KILN_API kiln_status kiln_linear_attention_forward(kiln_ops *ops, kiln_stream *stream, const kiln_linear_attention_args *args);

typedef struct kiln_linear_attention_step_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   T [B][R][HK][DK], R from 1 to 16 */
    const kiln_tensor *k;            /* in   T [B][R][HK][DK] */
    const kiln_tensor *v;            /* in   T [B][R][H][DV] */
    const kiln_tensor *gates;        /* in   f32 [B][R][H]; NULL: 0 */
    const kiln_tensor *decay;        /* in   f32 [H]; NULL: 0 */
    const kiln_tensor *from;         /* in   i32 [B]; NULL: b */
    const kiln_tensor *to;           /* in   i32 [B][R]; NULL: in place */
    const kiln_tensor *states;       /* inout f32 or T [M][H][DK][DV] */
    const kiln_tensor *out;          /* out  T [B][R][H][DV] */
    const double *scale;             /* > 0; NULL: 1/sqrt(DK) */
    const kiln_tensor *keys;         /* inout f32 [M][H][DK]: Z, beside each state; out is multiplied by n. NULL: it is not */
    const kiln_tensor *norm;         /* out  f32 [B][R][H]: n, with keys */
} kiln_linear_attention_step_args;

KILN_API kiln_status kiln_linear_attention_step(kiln_ops *ops, kiln_stream *stream, const kiln_linear_attention_step_args *args);

/* ---- Mamba-2: d = softplus(dt + dt_bias), X = exp(a d) X + d x^T b, out = (X c + skip x) silu(z); a layer that normalises what it
 * gates has no z here, and kiln_gated_norm after it, with gate_first
 *
 * Letters: P elements of a head, G groups (H is a multiple of G: head h has b and c of group h / (H / G)), N elements of a
 * state's row, not the number of sequences, which is E: without offsets, B. Sequences are taken in chunks of 256 or 128 tokens. There P is 16, 32, 64
 * or 128 and N a multiple of 16, P * N at most 16384; with T = f32 N is at most 128 and P * N at most 8192. In steps N is a
 * multiple of 8 up to 256. */

typedef struct kiln_mamba2_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *x;            /* in   T [B][S][H][P] */
    const kiln_tensor *dt;           /* in   T [B][S][H] */
    const kiln_tensor *a;            /* in   f32 [H], below 0 */
    const kiln_tensor *b;            /* in   T [B][S][G][N] */
    const kiln_tensor *c;            /* in   T [B][S][G][N] */
    const kiln_tensor *skip;         /* in   f32 [H]; NULL: 0 */
    const kiln_tensor *dt_bias;      /* in   f32 [H]; NULL: 0 */
    const kiln_tensor *z;            /* in   T [B][S][H][P]: out is multiplied by silu(z); NULL: 1 */
    const kiln_tensor *offsets;      /* in   i32 [E + 1], from 0 to S, not decreasing; NULL: not packed */
    const kiln_tensor *initial_states; /* in   f32 or T [E][H][P][N]; NULL: 0 */
    const kiln_tensor *out;          /* out  T [B][S][H][P] */
    const kiln_tensor *ungated;      /* out  T [B][S][H][P]: out without silu(z), for the gradients; NULL: not wanted. Not without z */
    const kiln_tensor *final_states; /* out  f32 or T [E][H][P][N]; NULL: not wanted */
    bool    plain_dt;                /* d = dt + dt_bias */
    void   *workspace;               /* kiln_mamba2_forward_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_mamba2_args;

KILN_API kiln_status kiln_mamba2_forward_workspace_size(kiln_ops *ops, const kiln_mamba2_args *args, size_t *bytes);
KILN_API kiln_status kiln_mamba2_forward(kiln_ops *ops, kiln_stream *stream, const kiln_mamba2_args *args);

typedef struct kiln_mamba2_step_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *x;            /* in   T [B][R][H][P], R from 1 to 16 */
    const kiln_tensor *dt;           /* in   T [B][R][H] */
    const kiln_tensor *a;            /* in   f32 [H], below 0 */
    const kiln_tensor *b;            /* in   T [B][R][G][N] */
    const kiln_tensor *c;            /* in   T [B][R][G][N] */
    const kiln_tensor *skip;         /* in   f32 [H]; NULL: 0 */
    const kiln_tensor *dt_bias;      /* in   f32 [H]; NULL: 0 */
    const kiln_tensor *z;            /* in   T [B][R][H][P]: out is multiplied by silu(z); NULL: 1 */
    const kiln_tensor *from;         /* in   i32 [B]; NULL: the number of the request */
    const kiln_tensor *to;           /* in   i32 [B][R]; NULL: in place */
    const kiln_tensor *states;       /* inout f32 or T [M][H][P][N] */
    const kiln_tensor *out;          /* out  T [B][R][H][P] */
    bool    plain_dt;                /* d = dt + dt_bias */
} kiln_mamba2_step_args;

KILN_API kiln_status kiln_mamba2_step(kiln_ops *ops, kiln_stream *stream, const kiln_mamba2_step_args *args);

/* ---- gradients of linear attention and of Mamba-2, from those of `out` and of the final states
 *
 * Tensors down to the first gradient are those of the forward call, whose other outputs are not needed but where it says so:
 * states between chunks are made again. Gradients of q, k, b and c are sums over the heads that share them. States and their
 * gradients are f32 or T, those of a call the same. The workspaces hold two states of T for each chunk of 64 tokens. A gate
 * below -40 counts as -40. */

typedef struct kiln_linear_attention_backward_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *q;            /* in   T [B][S][HK][DK] */
    const kiln_tensor *k;            /* in   T [B][S][HK][DK] */
    const kiln_tensor *v;            /* in   T [B][S][H][DV] */
    const kiln_tensor *gates;        /* in   f32 [B][S][H]; NULL: 0 */
    const kiln_tensor *decay;        /* in   f32 [H]; NULL: 0 */
    const kiln_tensor *offsets;      /* in   i32 [N + 1], from 0 to S, not decreasing; NULL: not packed */
    const kiln_tensor *initial_states; /* in   f32 or T [N][H][DK][DV]; NULL: 0 */
    const kiln_tensor *initial_keys; /* in   f32 [N][H][DK]; NULL: 0 */
    const kiln_tensor *out;          /* in   T [B][S][H][DV] of a normalised forward call; NULL: it was not */
    const kiln_tensor *norm;         /* in   f32 [B][S][H], both or neither */
    const kiln_tensor *dout;         /* in   T [B][S][H][DV] */
    const kiln_tensor *dfinal_states; /* in   f32 or T [N][H][DK][DV]; NULL: 0 */
    const kiln_tensor *dfinal_keys;  /* in   f32 [N][H][DK]; NULL: 0 */
    const kiln_tensor *dq;           /* out  T [B][S][HK][DK] */
    const kiln_tensor *dk;           /* out  T [B][S][HK][DK] */
    const kiln_tensor *dv;           /* out  T [B][S][H][DV] */
    const kiln_tensor *dgates;       /* out  f32 [B][S][H]; NULL: not wanted */
    const kiln_tensor *ddecay;       /* out  f32 [H]; NULL: not wanted */
    const kiln_tensor *dinitial_states; /* out  f32 or T [N][H][DK][DV]; NULL: not wanted */
    const kiln_tensor *dinitial_keys; /* out  f32 [N][H][DK]; NULL: not wanted */
    const double *scale;             /* > 0; NULL: 1/sqrt(DK) */
    void   *workspace;               /* kiln_linear_attention_backward_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_linear_attention_backward_args;

KILN_API kiln_status kiln_linear_attention_backward_workspace_size(kiln_ops *ops, const kiln_linear_attention_backward_args *args,
                                                                   size_t *bytes);
KILN_API kiln_status kiln_linear_attention_backward(kiln_ops *ops, kiln_stream *stream,
                                                    const kiln_linear_attention_backward_args *args);

typedef struct kiln_mamba2_backward_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *x;            /* in   T [B][S][H][P] */
    const kiln_tensor *dt;           /* in   T [B][S][H] */
    const kiln_tensor *a;            /* in   f32 [H], below 0 */
    const kiln_tensor *b;            /* in   T [B][S][G][N] */
    const kiln_tensor *c;            /* in   T [B][S][G][N] */
    const kiln_tensor *skip;         /* in   f32 [H]; NULL: 0 */
    const kiln_tensor *dt_bias;      /* in   f32 [H]; NULL: 0 */
    const kiln_tensor *z;            /* in   T [B][S][H][P]; NULL: 1 */
    const kiln_tensor *ungated;      /* in   T [B][S][H][P], both or neither */
    const kiln_tensor *offsets;      /* in   i32 [E + 1], from 0 to S, not decreasing; NULL: not packed */
    const kiln_tensor *initial_states; /* in   f32 or T [E][H][P][N]; NULL: 0 */
    const kiln_tensor *dout;         /* in   T [B][S][H][P] */
    const kiln_tensor *dfinal_states; /* in   f32 or T [E][H][P][N]; NULL: 0 */
    const kiln_tensor *dx;           /* out  T [B][S][H][P] */
    const kiln_tensor *ddt;          /* out  T [B][S][H] */
    const kiln_tensor *da;           /* out  f32 [H] */
    const kiln_tensor *db;           /* out  T [B][S][G][N] */
    const kiln_tensor *dc;           /* out  T [B][S][G][N] */
    const kiln_tensor *dskip;        /* out  f32 [H]; NULL: not wanted */
    const kiln_tensor *ddt_bias;     /* out  f32 [H]; NULL: not wanted */
    const kiln_tensor *dz;           /* out  T [B][S][H][P]; NULL: not wanted. Not without z */
    const kiln_tensor *dinitial_states; /* out  f32 or T [E][H][P][N]; NULL: not wanted */
    bool    plain_dt;                /* d = dt + dt_bias */
    void   *workspace;               /* kiln_mamba2_backward_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_mamba2_backward_args;

KILN_API kiln_status kiln_mamba2_backward_workspace_size(kiln_ops *ops, const kiln_mamba2_backward_args *args, size_t *bytes);
KILN_API kiln_status kiln_mamba2_backward(kiln_ops *ops, kiln_stream *stream, const kiln_mamba2_backward_args *args);

/* ---- causal convolution of each channel with a filter of W tokens, from 2 to 8
 *
 *     out[t][d] = activation(bias[d] + sum over w of filter[d][w] * x[t - (W - 1) + w][d])
 *
 * Letters: D channels. A state is the last W - 1 inputs, the oldest first. Tokens before the first are those of the initial
 * state, taken as T, or 0. */

typedef struct kiln_causal_conv_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *x;            /* in   T [B][S][D] */
    const kiln_tensor *filter;       /* in   T [D][W] */
    const kiln_tensor *bias;         /* in   T [D]; NULL: 0 */
    const kiln_tensor *offsets;      /* in   i32 [N + 1], from 0 to S, not decreasing; NULL: not packed */
    const kiln_tensor *initial_states; /* in   f32 or T [N][W - 1][D]; NULL: 0 */
    const kiln_tensor *out;          /* out  T [B][S][D] */
    const kiln_tensor *final_states; /* out  f32 or T [N][W - 1][D]; NULL: not wanted */
    kiln_activation activation;
} kiln_causal_conv_args;

KILN_API kiln_status kiln_causal_conv(kiln_ops *ops, kiln_stream *stream, const kiln_causal_conv_args *args);

typedef struct kiln_causal_conv_step_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *x;            /* in   T [B][R][D], R from 1 to 16 */
    const kiln_tensor *filter;       /* in   T [D][W] */
    const kiln_tensor *bias;         /* in   T [D]; NULL: 0 */
    const kiln_tensor *from;         /* in   i32 [B]; NULL: b */
    const kiln_tensor *to;           /* in   i32 [B][R]; NULL: in place */
    const kiln_tensor *states;       /* inout f32 or T [M][W - 1][D] */
    const kiln_tensor *out;          /* out  T [B][R][D] */
    kiln_activation activation;
} kiln_causal_conv_step_args;

KILN_API kiln_status kiln_causal_conv_step(kiln_ops *ops, kiln_stream *stream, const kiln_causal_conv_step_args *args);

/* Gradients, from those of `out` and of the final states. Sums over tokens are in f32, in an order that the shapes decide. */
typedef struct kiln_causal_conv_backward_args {
    size_t  struct_size;             /* sizeof, or 0: see KILN_ARGS */
    const kiln_tensor *x;            /* in   T [B][S][D], of the forward pass, as all down to initial_states */
    const kiln_tensor *filter;       /* in   T [D][W] */
    const kiln_tensor *bias;         /* in   T [D]; NULL: 0 */
    const kiln_tensor *offsets;      /* in   i32 [N + 1], from 0 to S, not decreasing; NULL: not packed */
    const kiln_tensor *initial_states; /* in   f32 or T [N][W - 1][D]; NULL: 0 */
    const kiln_tensor *dout;         /* in   T [B][S][D] */
    const kiln_tensor *dfinal_states; /* in   f32 or T [N][W - 1][D]; NULL: 0 */
    const kiln_tensor *dx;           /* out  T [B][S][D] */
    const kiln_tensor *dfilter;      /* out  T [D][W] */
    const kiln_tensor *dbias;        /* out  T [D]; NULL: not wanted */
    const kiln_tensor *dinitial_states; /* out  f32 or T [N][W - 1][D]; NULL: not wanted */
    kiln_activation activation;
    void   *workspace;               /* kiln_causal_conv_backward_workspace_size bytes */
    size_t  workspace_bytes;
} kiln_causal_conv_backward_args;

KILN_API kiln_status kiln_causal_conv_backward_workspace_size(kiln_ops *ops, const kiln_causal_conv_backward_args *args,
                                                              size_t *bytes);
KILN_API kiln_status kiln_causal_conv_backward(kiln_ops *ops, kiln_stream *stream, const kiln_causal_conv_backward_args *args);

#ifdef __cplusplus
}
#endif
#endif
