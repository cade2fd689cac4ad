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
u32, f32, ptr = ctypes.c_uint32, ctypes.c_float, lambda t: ctypes.c_uint64(t.data_ptr() if t is not None else 0)
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

# ---- the table --------------------------------------------------------------------------------------------------
FAMILIES = {'gemm': gemm, 'attention': attention, 'backward': backward}

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
