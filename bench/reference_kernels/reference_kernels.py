#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# reference_kernels.py - build, check and time the hand-written reference kernels of this folder beside cuBLAS and cuDNN.
#
# A reference kernel is target code written before the compiler printed it: what a lowering has to reach. Each is compiled
# by NVRTC (no CUDA header), checked against float64, then timed with its baseline in one run: clocks drift by 10-20%
# on a power-capped card, ratios within a run repeat to about 1%. Needs PyTorch and an sm_90 GPU.
#
#   reference_kernels.py [family ...] [--runs N] [--json FILE]      families: rows of FAMILIES at the end; default all
import argparse, ctypes, json, os, statistics
import torch
import torch.nn.functional as F
from torch.nn.attention import sdpa_kernel, SDPBackend

HERE = os.path.dirname(os.path.abspath(__file__))
DEV = 'cuda'
SMS = 132
u32, i32, f32, ptr = ctypes.c_uint32, ctypes.c_int32, ctypes.c_float, lambda t: ctypes.c_uint64(t.data_ptr() if t is not None else 0)
cdiv = lambda a, b: -(-a // b)

# ---- the driver: compile, describe tensors, launch --------------------------------------------------------------
cuda = ctypes.CDLL('libcuda.so.1')

def open_nvrtc():
    for name in ('libnvrtc.so.13', '/usr/local/cuda/lib64/libnvrtc.so.13', 'libnvrtc.so.12'):
        try: return ctypes.CDLL(name)
        except OSError: pass
    raise SystemExit('reference_kernels: no libnvrtc found')

def check(result, what):
    if result: raise RuntimeError(f'{what}: CUDA error {result}')

def compile_kernel(nvrtc, path, options):
    read = lambda p: open(p, 'rb').read()
    prelude, program = read(os.path.join(HERE, 'prelude.cuh')), ctypes.c_void_p()
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), read(path), os.path.basename(path).encode(), 1,
                                   (ctypes.c_char_p * 1)(prelude), (ctypes.c_char_p * 1)(b'prelude.cuh')), 'nvrtcCreateProgram')
    flags = [b'-arch=sm_90a', b'--std=c++17', b'--minimal', b'-diag-suppress=177'] + [o.encode() for o in options]
    if os.environ.get('BOUNDED_WAIT'): flags.append(b'-DBOUNDED_WAIT=' + os.environ['BOUNDED_WAIT'].encode())
    failed = nvrtc.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
    size = ctypes.c_size_t()
    if failed:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(f'{path}: {log.value.decode()[:4000]}')
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, cubin)
    return cubin.raw

class TensorMap(ctypes.Structure):
    _fields_ = [('word', ctypes.c_uint64 * 16)]

MAP_TYPE = {torch.bfloat16: 9, torch.float16: 6, torch.float32: 7, torch.int32: 3, torch.int8: 0, torch.uint8: 0}

def tensor_map(t, dims, strides, box, swizzle=3, promotion=3):
    """Innermost dimension first; strides in bytes, one fewer than dims. swizzle: 3 = 128 bytes, 0 = none."""
    raw = (ctypes.c_uint64 * 24)()
    at, n = (ctypes.addressof(raw) + 63) & ~63, len(dims)
    check(cuda.cuTensorMapEncodeTiled(ctypes.c_void_p(at), MAP_TYPE[t.dtype], n, ctypes.c_void_p(t.data_ptr()),
          (ctypes.c_uint64 * n)(*dims), (ctypes.c_uint64 * max(1, n - 1))(*strides), (ctypes.c_uint32 * n)(*box),
          (ctypes.c_uint32 * n)(*([1] * n)), 0, swizzle, promotion, 0), 'cuTensorMapEncodeTiled')
    m = TensorMap()
    ctypes.memmove(ctypes.addressof(m), at, 128)
    return m

class LaunchAttribute(ctypes.Structure):
    _fields_ = [('id', ctypes.c_int), ('pad', ctypes.c_int), ('value', ctypes.c_uint8 * 64)]

class LaunchConfig(ctypes.Structure):
    _fields_ = [('grid', u32 * 3), ('block', u32 * 3), ('smem', u32), ('stream', ctypes.c_void_p),
                ('attributes', ctypes.POINTER(LaunchAttribute)), ('count', u32)]

CUBINS = {}

class Kernel:
    def __init__(self, nvrtc, file, threads, smem, options=(), entry='kernel'):
        self.threads, self.smem, key = threads, smem, (file, options)
        if key not in CUBINS: CUBINS[key] = compile_kernel(nvrtc, os.path.join(HERE, file), options)
        cubin = CUBINS[key]
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        check(cuda.cuModuleLoadData(ctypes.byref(module), cubin), f'load {file}')
        check(cuda.cuModuleGetFunction(ctypes.byref(self.function), module, entry.encode()), f'entry of {file}')
        if smem > 48 * 1024: check(cuda.cuFuncSetAttribute(self.function, 8, smem), 'shared memory size')

    def bind(self, grid, *args, early=False):
        """A launch with these arguments, as a function of nothing. early: may start while its predecessor still runs."""
        pointers = (ctypes.c_void_p * len(args))(*[ctypes.addressof(a) for a in args])
        grid = grid if isinstance(grid, tuple) else (grid, 1, 1)
        attribute = LaunchAttribute(6)                    # programmatic stream serialisation
        attribute.value[0] = 1
        config = LaunchConfig((u32 * 3)(*grid), (u32 * 3)(self.threads, 1, 1), self.smem, 0, ctypes.pointer(attribute), int(early))
        def launch(keep=args):
            config.stream = torch.cuda.current_stream().cuda_stream
            check(cuda.cuLaunchKernelEx(ctypes.byref(config), self.function, pointers, None), 'launch')
        return launch

# ---- measuring --------------------------------------------------------------------------------------------------
def median_ms(functions, runs):
    """Interleaved, cold L2, medians: every function meets the same clocks."""
    flush = torch.empty(128 << 20, dtype=torch.int32, device=DEV)
    events = {name: [] for name in functions}
    for f in functions.values():
        for _ in range(2): f()
    for i in range(runs):
        for name, f in functions.items():
            flush.fill_(i)
            a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            a.record(); f(); b.record()
            events[name].append((a, b))
    torch.cuda.synchronize()
    return {name: statistics.median(a.elapsed_time(b) for a, b in v) for name, v in events.items()}

def error(out, ref):
    return ((out.double() - ref.double()).norm() / ref.double().norm()).item()

def normal(*shape):
    return torch.randn(*shape, device=DEV).bfloat16()

def require(ok, what):
    if not ok: raise SystemExit(f'reference_kernels: WRONG: {what}')

# ---- matrix product ---------------------------------------------------------------------------------------------
def gemm_launch(kernel, A, B, C):
    (M, K), N = A.shape, B.shape[0]
    m, n = cdiv(M, 128), cdiv(N, 256)
    return kernel.bind(min(m * n, SMS), tensor_map(A, [K, M], [K * 2], [64, 128]), tensor_map(B, [K, N], [K * 2], [64, 256]),
                       tensor_map(C, [N, M], [N * 2], [64, 16]), u32(m), u32(n), u32(cdiv(K, 64)))

def gemm(nvrtc, runs):
    kernel = Kernel(nvrtc, 'gemm_bf16.cu', 384, 229440)
    for M, N, K in ((1024, 512, 2048), (4232, 2064, 208), (64, 48, 64)):
        A, B, C = normal(M, K), normal(N, K), torch.full((M, N), float('nan'), device=DEV, dtype=torch.bfloat16)
        gemm_launch(kernel, A, B, C)()
        require(error(C, A.double() @ B.double().t()) < 4e-3, f'gemm {M} {N} {K}')
    for M, N, K in ((4096, 4096, 4096), (8192, 8192, 1024), (8192, 8192, 8192)):
        A, B, C = normal(M, K), normal(N, K), torch.empty(M, N, device=DEV, dtype=torch.bfloat16)
        Bt, other = B.t(), torch.empty_like(C)
        t = median_ms({'cublas': lambda: torch.matmul(A, Bt, out=other), 'reference': gemm_launch(kernel, A, B, C)}, runs)
        yield f'gemm bf16 {M}x{N}x{K}', 2.0 * M * N * K / 1e9, t, 'TFLOPS'

# ---- attention forward ------------------------------------------------------------------------------------------
def head_map(t, rows):
    """[B][S][H][D] as boxes of `rows` rows of one head, in 64-column panels."""
    B, S, H, D = t.shape
    return tensor_map(t, [64, S, D // 64, H, B], [H * D * 2, 128, D * 2, S * H * D * 2], [64, rows, D // 64, 1, 1])

def head_group(causal, heads, tiles_m, cost):
    """Heads handled together: the least predicted imbalance of the snake order, small groups (L2) first."""
    if not causal: return heads
    def imbalance(group):
        load, t = [0.0] * SMS, 0
        for first in range(0, heads, group):
            for m in range(tiles_m - 1, -1, -1):
                for _ in range(min(group, heads - first)):
                    r, i = divmod(t, SMS)
                    load[SMS - 1 - i if r & 1 else i] += (m + 1) * cost + 1
                    t += 1
        return max(load) / (sum(load) / SMS) + group * 0.0003
    return min((g for g in (8, 16, 24, 32, 48, 64, heads) if g <= heads), key=imbalance)

def attention_launch(kernel, BM, causal, Q, K, V, O, lse):
    B, S, H, D = Q.shape
    SKV, HKV = K.shape[1:3]
    m = cdiv(S, BM)
    return kernel.bind(min(m * H * B, SMS), head_map(Q, BM), head_map(K, 128), head_map(V, 128), head_map(O, 16), ptr(lse),
                       u32(B * H), u32(H), u32(H // HKV), u32(S), u32(SKV), u32(m), u32(head_group(causal, B * H, m, BM / 128)), f32(D ** -0.5))

def attention_reference(Q, K, V, causal):
    B, S, H, D = Q.shape
    SKV, HKV = K.shape[1:3]
    q, k, v = (x.double().transpose(1, 2) for x in (Q, K, V))
    k, v = (x.repeat_interleave(H // HKV, 1) for x in (k, v))
    s = q @ k.transpose(-1, -2) * D ** -0.5
    if causal:
        hidden = torch.arange(SKV, device=DEV)[None] > torch.arange(S, device=DEV)[:, None] + SKV - S
        s = s.masked_fill(hidden, float('-inf'))
    lse = torch.logsumexp(s, -1)
    p = torch.exp(s - torch.where(torch.isinf(lse), torch.zeros_like(lse), lse)[..., None])
    return (p @ v).transpose(1, 2), lse

def attention(nvrtc, runs):
    for D, BM, threads, smem in ((128, 128, 384, 196736), (64, 192, 512, 147616)):
        for causal in (False, True):
            kernel = Kernel(nvrtc, f'attention_d{D}.cu', threads, smem, ('-DCAUSAL',) if causal else ())
            for B, S, SKV, H, HKV in ((2, 512, 512, 4, 4), (1, 333, 777, 4, 2), (1, 1, 64, 2, 1)) + (((1, 400, 150, 2, 2),) if causal else ()):
                Q, K, V = normal(B, S, H, D) * 3, normal(B, SKV, HKV, D), normal(B, SKV, HKV, D)
                O, lse = torch.full_like(Q, float('nan')), torch.full((B, H, S), float('nan'), device=DEV)
                attention_launch(kernel, BM, causal, Q, K, V, O, lse)()
                ref, ref_lse = attention_reference(Q, K, V, causal)
                seen = torch.isfinite(ref_lse)
                require(error(O, ref) < 6e-3 and torch.equal(torch.isfinite(lse), seen)
                        and (lse.double() - ref_lse)[seen].abs().max() < 2e-3, f'attention D {D} causal {causal} {B, S, SKV, H, HKV}')
            for B, S, H in ((8, 4096, 32), (2, 8192, 32), (1, 16384, 16)) if D == 128 else ((8, 4096, 32),):
                Q, K, V = normal(B, S, H, D), normal(B, S, H, D), normal(B, S, H, D)
                O, lse = torch.empty_like(Q), torch.empty(B, H, S, device=DEV)
                heads_first = [x.transpose(1, 2) for x in (Q, K, V)]
                def cudnn():
                    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION): F.scaled_dot_product_attention(*heads_first, is_causal=causal)
                t = median_ms({'cudnn': cudnn, 'reference': attention_launch(kernel, BM, causal, Q, K, V, O, lse)}, runs)
                yield f'attention B{B} H{H} S{S} D{D}{" causal" if causal else ""}', 4.0 * B * H * S * S * D / 1e9 * (0.5 if causal else 1), t, 'TFLOPS'

# ---- attention backward -----------------------------------------------------------------------------------------
def backward_launch(kernels, BM, causal, Q, K, V, O, lse, dO):
    """The three launches, and the gradients that they fill."""
    rows, main, finish = kernels
    B, S, H, D = Q.shape
    SKV, HKV = K.shape[1:3]
    dQ, dK, dV = (torch.full_like(t, float('nan')) for t in (Q, K, V))
    acc, lse2, delta = torch.empty(B, S, H, D, device=DEV), torch.empty(B, H, S, device=DEV), torch.empty(B, H, S, device=DEV)
    per_row = lambda t: tensor_map(t, [S, B * H], [S * 4], [BM, 1], swizzle=0)
    added = tensor_map(acc, [32, S, D // 32, H, B], [H * D * 4, 128, D * 4, S * H * D * 4], [32, BM, 2, 1, 1])
    m, n = cdiv(S, BM), cdiv(SKV, 128)
    a = rows.bind(cdiv(B * S * H, 8), ptr(O), ptr(dO), ptr(lse), ptr(lse2), ptr(delta), ptr(acc), u32(B * S * H), u32(S), u32(H))
    b = main.bind(min(n * HKV * B, SMS), head_map(Q, BM), head_map(K, 128), head_map(V, 128), head_map(dO, BM), per_row(lse2),
                  per_row(delta), added, head_map(dK, 16), head_map(dV, 16), u32(B * HKV), u32(H), u32(HKV), u32(H // HKV),
                  u32(S), u32(SKV), u32(m), u32(n), f32(D ** -0.5))
    c = finish.bind(cdiv(acc.numel(), 2048), ptr(acc), ptr(dQ), ctypes.c_uint64(acc.numel()), f32(D ** -0.5))
    def launch(keep=(acc, lse2, delta, O, lse, dO)):
        a(); b(); c()
    return launch, (dQ, dK, dV)

def backward_reference(Q, K, V, dO, causal):
    leaves = [t.double().requires_grad_() for t in (Q, K, V)]
    O, lse = attention_reference(*leaves, causal)
    return O.detach(), lse.detach(), torch.autograd.grad(O, leaves, dO.double())

def backward(nvrtc, runs):
    helpers = [Kernel(nvrtc, 'attention_backward_d128.cu', 256, 0, (), entry) for entry in ('rows', 'finish')]
    for causal, BM, smem, file in ((False, 80, 231520, 'attention_backward_d128.cu'), (True, 64, 198752, 'attention_backward_d128_causal.cu')):
        kernels = helpers[0], Kernel(nvrtc, file, 384, smem), helpers[1]
        for B, S, SKV, H, HKV in ((1, 512, 512, 2, 2), (2, 1024, 640, 2, 1), (1, 332, 777, 4, 2), (1, 4, 64, 2, 1)):
            Q, K, V, dO = normal(B, S, H, 128), normal(B, SKV, HKV, 128), normal(B, SKV, HKV, 128), normal(B, S, H, 128)
            if causal and S > SKV: continue              # the reference's empty rows have no gradient of their own
            O, lse, wanted = backward_reference(Q, K, V, dO, causal)
            launch, gradients = backward_launch(kernels, BM, causal, Q, K, V, O.bfloat16().contiguous(), lse.float().contiguous(), dO)
            launch()
            require(all(error(g, w) < 6e-3 for g, w in zip(gradients, wanted)), f'backward causal {causal} {B, S, SKV, H, HKV}')
        forward = Kernel(nvrtc, 'attention_d128.cu', 384, 196736, ('-DCAUSAL',) if causal else ())
        for B, S, H in ((8, 4096, 32), (2, 8192, 32), (1, 16384, 16)):
            Q, K, V, dO = (normal(B, S, H, 128) for _ in range(4))
            O, lse = torch.empty_like(Q), torch.empty(B, H, S, device=DEV)
            attention_launch(forward, 128, causal, Q, K, V, O, lse)()
            leaves = [t.transpose(1, 2).detach().requires_grad_() for t in (Q, K, V)]
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION): out = F.scaled_dot_product_attention(*leaves, is_causal=causal)
            cudnn = lambda: torch.autograd.grad(out, leaves, dO.transpose(1, 2), retain_graph=True)
            launch, gradients = backward_launch(kernels, BM, causal, Q, K, V, O, lse, dO)
            launch()
            require(all(error(g[0], w.transpose(1, 2)[0]) < 2e-2 for g, w in zip(gradients, cudnn())), f'backward B{B} S{S} against cuDNN')
            t = median_ms({'cudnn': cudnn, 'reference': launch}, runs)
            yield f'backward B{B} H{H} S{S} D128{" causal" if causal else ""}', 10.0 * B * H * S * S * 128 / 1e9 * (0.5 if causal else 1), t, 'TFLOPS'

# ---- MLA decode -------------------------------------------------------------------------------------------------
def mla_case(rows, lengths, poison):
    """Pages in random order; what no request may read is NaN, and table entries past the end are garbage."""
    B, used = len(lengths), [cdiv(n, 64) for n in lengths]
    pages, at = sum(used) + 5, 0
    order, table = torch.randperm(pages), torch.full((B, max(used) + 3), 2147480000, dtype=torch.int32)
    cache = torch.empty(pages, 64, 576, device=DEV, dtype=torch.bfloat16)
    for i in range(0, pages, 8192): cache[i:i + 8192] = (torch.randn(min(8192, pages - i), 64, 576, device=DEV) / 10).clamp_(-1, 1).bfloat16()
    for b, n in enumerate(used):
        table[b, :n] = order[at:at + n].int()
        at += n
    if poison:
        cache[order[at:].to(DEV)] = float('nan')
        for b, n in enumerate(lengths):
            if n % 64: cache[int(table[b, n // 64]), n % 64:] = float('nan')
    return torch.randn(B, rows, 576, device=DEV).clamp_(-1, 1).bfloat16(), cache, table.to(DEV), torch.tensor(lengths, dtype=torch.int32, device=DEV)

REQUEST_COST = 5        # of a request beside its blocks, in blocks

def mla_launch(kernels, Q, cache, table, lengths, O, lse):
    (B, rows, _), pages = Q.shape, cache.shape[0]
    tiles = cdiv(rows, 64)
    decode, plan, combine, wide = kernels
    P = max(1, SMS // tiles)
    part, first = torch.zeros(P, 8, dtype=torch.int32, device=DEV), torch.zeros(B + 1, dtype=torch.int32, device=DEV)
    partial, partial_lse = torch.empty(B + P, rows, 512, device=DEV), torch.empty(B + P, rows, device=DEV)
    keys = lambda panels: tensor_map(cache, [64, 64, 9, pages], [1152, 128, 64 * 1152], [64, 64, panels, 1])
    plan.bind(1, ptr(lengths), ptr(part), ptr(first), u32(B), u32(P), u32(0), u32(REQUEST_COST))()
    a = decode.bind(tiles * P, tensor_map(Q, [64, rows, 9, B], [1152, 128, rows * 1152], [64, 64, 8, 1]), keys(4), keys(1),
                    tensor_map(O, [512, rows, B], [1024, rows * 1024], [64, 16, 1]),
                    tensor_map(partial, [512, rows, B + P], [2048, rows * 2048], [32, 16, 1]), ptr(Q), ptr(table), ptr(lengths), ptr(part),
                    ptr(first), ptr(lse), ptr(partial_lse), u32(tiles), u32(B), u32(rows), u32(table.shape[1]), u32(pages), f32(576 ** -0.5))
    merge, width = (combine, cdiv(rows, 8)) if B * rows >= 2048 else (wide, rows)
    c = merge.bind((width, B, 1), ptr(partial), ptr(partial_lse), ptr(first), ptr(O), ptr(lse), u32(rows), early=True)
    def launch(keep=(part, first, partial, partial_lse, O, lse)):
        a(); c()
    return launch

def mla_check(Q, cache, table, lengths, O, lse, requests, what):
    for b in requests:
        n = int(lengths[b])
        if n == 0:
            require((O[b] == 0).all() and (lse[b] == float('inf')).all(), f'{what}: empty request {b}')
            continue
        k = cache[table[b, :cdiv(n, 64)].long()].view(-1, 576)[:n].double()
        s = Q[b].double() @ k.t() * 576 ** -0.5
        require(error(O[b], torch.softmax(s, -1) @ k[:, :512]) < 6e-3 and (lse[b].double() - torch.logsumexp(s, -1)).abs().max() < 1e-4, f'{what}: request {b}')

def ragged(B, mean):
    drawn = torch.randn(B, generator=torch.Generator().manual_seed(mean)) * mean / 2 + mean
    return [max(int(n), 1) for n in drawn.tolist()]

def mla_decode(nvrtc, runs):
    entry = lambda name, threads, smem: Kernel(nvrtc, 'mla_decode.cu', threads, smem, (), name)
    kernels = entry('kernel', 384, 230656), entry('plan', 32, 0), entry('combine', 256, 0), entry('combine_wide', 256, 0)
    new = lambda Q: (torch.full((*Q.shape[:2], 512), float('nan'), device=DEV, dtype=torch.bfloat16), torch.full(Q.shape[:2], float('nan'), device=DEV))
    for rows, lengths in ((128, [640]), (128, [100, 0, 4096, 65]), (256, ragged(8, 500)), (16, ragged(64, 1500)), (128, [0] * 20 + ragged(20, 3000)), (64, [1, 63, 129])):
        case = mla_case(rows, lengths, True)
        O, lse = new(case[0])
        mla_launch(kernels, *case, O, lse)()
        mla_check(*case, O, lse, range(len(lengths)), f'mla_decode rows {rows}')
    for B, H, mean, vary in ((128, 128, 4096, True), (128, 128, 8192, True), (128, 128, 32768, True), (128, 64, 4096, False), (64, 16, 8192, False), (1, 128, 32768, False)):
        lengths = ragged(B, mean) if vary else [mean] * B
        case = mla_case(H, lengths, False)
        O, lse = new(case[0])
        launch = mla_launch(kernels, *case, O, lse)
        launch()
        mla_check(*case, O, lse, range(0, B, max(1, B // 3)), f'mla_decode B{B} H{H} {mean}')
        average = sum(lengths) / B
        t = median_ms({'reference': launch}, runs)
        yield f'mla_decode b{B} h{H} s_k {mean}', B * H * average * 2 * (576 + 512) / 1e9, t, 'TFLOPS'
        yield f'mla_decode b{B} h{H} s_k {mean}, bytes', B * (H * (576 + 512) * 2 + average * 1152) / 1e6, t, 'GB/s'

# ---- sparse MLA decode ------------------------------------------------------------------------------------------
def pack_tokens(x):
    """[N][576] as 656-byte tokens: 512 e4m3, 4 f32 scales (representable in bf16), 64 bf16."""
    blocks = x[:, :512].view(-1, 4, 128)
    scale = (blocks.abs().amax(-1) / 448).bfloat16().float().clamp_min(1e-8).bfloat16().float()
    code = (blocks / scale[..., None]).clamp(-448, 448).to(torch.float8_e4m3fn)
    return torch.cat([code.view(-1, 512).view(torch.uint8), scale.contiguous().view(torch.uint8), x[:, 512:].bfloat16().contiguous().view(torch.uint8)], 1)

def unpack_tokens(p):
    code, scale = p[:, :512].contiguous().view(torch.float8_e4m3fn).float().view(-1, 4, 128), p[:, 512:528].contiguous().view(torch.float32)
    return torch.cat([(code * scale[..., None]).view(-1, 512).bfloat16().double(), p[:, 528:].contiguous().view(torch.bfloat16).double()], 1)

def sparse_case(B, SQ, SK, topk, absent=0.0, poison=False):
    slots = cdiv(B * SK, 64) * 64
    cache = torch.cat([pack_tokens((torch.randn(min(1 << 20, slots - i), 576, device=DEV) / 10).clamp_(-1, 1)) for i in range(0, slots, 1 << 20)])
    index = (torch.rand(B, SQ, topk, device=DEV) * SK).int() + (torch.arange(B, device=DEV, dtype=torch.int32) * SK)[:, None, None]
    if absent:
        index[torch.rand(B, SQ, topk, device=DEV) < absent] = -1
        index[:, :, -1] = slots + 5
    if poison:
        used = torch.zeros(slots, dtype=torch.bool, device=DEV)
        used[index[(index >= 0) & (index < slots)].long()] = True
        cache[~used] = 0xff                               # NaN in every part
    return torch.randn(B, SQ * 128, 576, device=DEV).clamp_(-1, 1).bfloat16(), cache, index.contiguous()

def sparse_launch(kernels, Q, cache, index, O, lse):
    decode, plan, combine, wide = kernels
    B, SQ, topk = index.shape
    rows, P = SQ * 128, max(1, SMS // 2 // SQ)
    part, first = torch.zeros(P, 8, dtype=torch.int32, device=DEV), torch.zeros(B + 1, dtype=torch.int32, device=DEV)
    partial, partial_lse = torch.empty(B + P, rows, 512, device=DEV), torch.empty(B + P, rows, device=DEV)
    plan.bind(1, ptr(None), ptr(part), ptr(first), u32(B), u32(P), u32(topk), u32(REQUEST_COST))()
    a = decode.bind(2 * SQ * P, tensor_map(Q, [64, rows, 9, B], [1152, 128, rows * 1152], [64, 64, 8, 1]),
                    tensor_map(O, [512, rows, B], [1024, rows * 1024], [64, 16, 1]),
                    tensor_map(partial, [512, rows, B + P], [2048, rows * 2048], [32, 16, 1]), ptr(Q), ptr(cache), ptr(index), ptr(part),
                    ptr(first), ptr(lse), ptr(partial_lse), u32(SQ), u32(B), u32(rows), u32(topk), u32(cache.shape[0]), f32(576 ** -0.5))
    merge, width = (combine, cdiv(rows, 8)) if B * rows >= 2048 else (wide, rows)
    c = merge.bind((width, B, 1), ptr(partial), ptr(partial_lse), ptr(first), ptr(O), ptr(lse), u32(rows), early=True)
    def launch(keep=(part, first, partial, partial_lse, O, lse)):
        a(); c()
    return launch

def sparse_check(Q, cache, index, O, lse, requests, what):
    for b in requests:
        for j in range(index.shape[1]):
            q, o, l = (t[b, j * 128:(j + 1) * 128].double() for t in (Q, O, lse))
            k = unpack_tokens(cache[index[b, j][(index[b, j] >= 0) & (index[b, j] < cache.shape[0])].long()])
            if len(k) == 0:
                require((o == 0).all() and (l == float('inf')).all(), f'{what}: empty request {b}')
                continue
            s = q @ k.t() * 576 ** -0.5
            require(error(o, torch.softmax(s, -1) @ k[:, :512]) < 6e-3 and (l - torch.logsumexp(s, -1)).abs().max() < 1e-4, f'{what}: request {b}')

def mla_sparse(nvrtc, runs):
    dense = lambda name, threads: Kernel(nvrtc, 'mla_decode.cu', threads, 0, (), name)
    kernels = Kernel(nvrtc, 'mla_decode_sparse.cu', 384, SPARSE_SMEM), dense('plan', 32), dense('combine', 256), dense('combine_wide', 256)
    new = lambda Q: (torch.full((*Q.shape[:2], 512), float('nan'), device=DEV, dtype=torch.bfloat16), torch.full(Q.shape[:2], float('nan'), device=DEV))
    for B, SQ, SK, topk, absent in ((1, 1, 4096, 64, 0), (2, 2, 4096, 2048, 0.1), (6, 1, 1000, 512, 0.5), (3, 1, 500, 128, 1.0), (70, 1, 4096, 1024, 0.02)):
        case = sparse_case(B, SQ, SK, topk, absent, True)
        O, lse = new(case[0])
        sparse_launch(kernels, *case, O, lse)()
        sparse_check(*case, O, lse, range(B), f'mla_sparse {B, SQ, SK, topk}')
    for B, SQ, SK, topk in ((128, 1, 8192, 2048), (128, 2, 8192, 2048), (64, 2, 32768, 16384), (2, 1, 32768, 2048)):
        case = sparse_case(B, SQ, SK, topk)
        O, lse = new(case[0])
        launch = sparse_launch(kernels, *case, O, lse)
        launch()
        sparse_check(*case, O, lse, range(0, B, max(1, B // 2)), f'mla_sparse b{B} s_q{SQ}')
        yield f'mla_sparse b{B} s_q{SQ} topk {topk}', B * SQ * 128 * topk * 2 * (576 + 512) / 1e9, median_ms({'reference': launch}, runs), 'TFLOPS'

SPARSE_SMEM = 230560

# ---- the table --------------------------------------------------------------------------------------------------
FAMILIES = {'gemm': gemm, 'attention': attention, 'backward': backward, 'mla_decode': mla_decode, 'mla_sparse': mla_sparse}

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('family', nargs='*', default=[])
    parser.add_argument('--runs', type=int, default=20)
    parser.add_argument('--json')
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.zeros(1, device=DEV)
    nvrtc, results = open_nvrtc(), {}
    for name in args.family or FAMILIES:
        for case, work, times, unit in FAMILIES[name](nvrtc, args.runs):
            rate = {k: work / ms for k, ms in times.items()}
            base = next((k for k in times if k != 'reference'), None)
            ratio = f'  ratio {times[base] / times["reference"]:.3f}' if base else ''
            print(f'{case:44s} ' + '  '.join(f'{k} {v:.0f} {unit} ({times[k] * 1e3:.1f} us)' for k, v in rate.items()) + ratio, flush=True)
            results[case] = {'unit': unit, **rate}
    if args.json: json.dump(results, open(args.json, 'w'), indent=1)

if __name__ == '__main__':
    main()
