#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# baselines.py - what PyTorch, cuBLAS and cuDNN need for the rows of `kiln bench`, which starts this and asks.
#
# Lines on standard input (bench/baseline.c has the protocol):
#     open<TAB>kernel<TAB>values   e.g. "gemm_nt" and "T=bf16, M=4096, ..."; answers with a name, or "none", or "none: why". Kernels
#                                  of rows are here, the families of --sweep in peers.py
#     time<TAB>runs                answers with the times in seconds
#     close
# Measured as Kiln's own rows are: random normal inputs, L2 overwritten before every run, events around the work alone,
# all runs queued before the first is waited for. A row that fails has no baseline; after a CUDA error, or when something
# takes longer than a minute (--patience=SECONDS), this program ends, and is started anew for the next row.
# --device=cpu: PyTorch's operators on the CPU, timed by the clock, for the families of --sweep.
import argparse
import faulthandler
import sys
import time as clock
import torch
import peers
import torch.nn.functional as F
from torch.nn.attention import sdpa_kernel, SDPBackend

DEV = 'cuda'
TYPES = {'bf16': torch.bfloat16, 'f16': torch.float16, 'f32': torch.float32, 'e4m3': torch.float8_e4m3fn, 'i8': torch.int8}

def random(*shape, type='bf16'):
    if type == 'i8': return torch.randint(-100, 101, shape, device=DEV, dtype=torch.int8)
    return torch.randn(*shape, device=DEV).to(TYPES[type])

def gemm(v):
    M, N, K, T = v['M'], v['N'], v['K'], v['T']
    a, b = random(M, K, type=T), random(N, K, type=T).t()
    if T == 'i8':
        return 'cuBLAS', lambda: torch._int_mm(a, b)
    if T == 'e4m3':
        one = torch.ones((), device=DEV)
        return 'cuBLAS', lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    out = torch.empty(M, N, device=DEV, dtype=TYPES[T])
    return 'cuBLAS', lambda: torch.matmul(a, b, out=out)

def attention(v):
    B, H, HKV, S, SKV, D, causal = v['B'], v['H'], v['HKV'], v['S'], v['SKV'], v['D'], v['CAUSAL']
    q, k, k2 = (random(B, n, h, D).transpose(1, 2) for n, h in ((S, H), (SKV, HKV), (SKV, HKV)))
    def run(k=k, v_=k2, grouped=HKV != H):
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v_, is_causal=causal, scale=v['scale'], enable_gqa=grouped)
    try:
        run()
        return 'cuDNN', run
    except (RuntimeError, TypeError):                        # no grouped heads: repeated ones, the same work
        k, k2 = (x.repeat_interleave(H // HKV, 1) for x in (k, k2))
        return 'cuDNN, repeated heads', lambda: run(k, k2, False)

def backward(v):
    B, H, HKV, S, SKV, D, causal = v['B'], v['H'], v['HKV'], v['S'], v['SKV'], v['D'], v['CAUSAL']
    q, k, x = (random(B, n, H, D).transpose(1, 2).requires_grad_() for n in (S, SKV, SKV))        # grouped heads repeated
    with torch.enable_grad(), sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        out = F.scaled_dot_product_attention(q, k, x, is_causal=causal, scale=v['scale'])
    g = torch.randn_like(out)
    return 'cuDNN' if HKV == H else 'cuDNN, repeated heads', lambda: torch.autograd.grad(out, (q, k, x), g, retain_graph=True)

def decode(v):
    B, H, HKV, S, D = v['B'], v['H'], v['HKV'], v['S'], v['D']
    q = random(B, 1, H, D).transpose(1, 2)
    k, k2 = (random(B, S, HKV, D).transpose(1, 2) for _ in range(2))
    return 'PyTorch sdpa', lambda: F.scaled_dot_product_attention(q, k, k2, scale=v['scale'], enable_gqa=HKV != H)

def gemv(v):
    b, a = random(v['N'], v['K'], type=v['T']), random(v['K'], type=v['T'])
    return 'torch.mv', lambda: torch.mv(b, a)

def gemv_transposed(v):
    b, a = random(v['K'], v['N'], type=v['T']).t(), random(v['K'], type=v['T'])
    return 'torch.mv', lambda: torch.mv(b, a)

def add(v):
    a, b = random(v['M'], v['N'], type=v['T']), random(v['M'], v['N'], type=v['T'])
    out = torch.empty_like(a)
    return 'torch.add', lambda: torch.add(a, b, out=out)

def rms_norm(v):
    x, w = random(v['M'], v['N'], type=v['T']), random(v['N'], type=v['T'])
    return 'F.rms_norm', lambda: F.rms_norm(x, (v['N'],), w, v['eps'])

def layer_norm(v):
    x, w, b = random(v['M'], v['N'], type=v['T']), random(v['N'], type=v['T']), random(v['N'], type=v['T'])
    return 'F.layer_norm', lambda: F.layer_norm(x, (v['N'],), w, b, v['eps'])

def softmax(v):
    x = random(v['M'], v['N'], type=v['T'])
    return 'torch.softmax', lambda: torch.softmax(x, -1)

FAMILIES = {'gemm_nt': gemm, 'attention_forward': attention, 'attention_backward': backward, 'flash_decode': decode, 'gemv': gemv, 'gemv_split': gemv,
            'gemv_transposed': gemv_transposed, 'add': add, 'rms_norm': rms_norm, 'rms_norm_long': rms_norm,
            'layer_norm': layer_norm, 'softmax': softmax}

def parse(text):
    def value(x):
        if x in ('true', 'false'): return x == 'true'
        for convert in (int, float):
            try: return convert(x)
            except ValueError: pass
        return x
    return {k.strip(): value(x.strip()) for k, x in (item.split('=') for item in text.split(','))}

def time(run, runs, flush):
    if not peers.gpu():
        times = []
        for _ in range(runs):
            begin = clock.perf_counter()
            run()
            times.append(clock.perf_counter() - begin)
        return times
    events = []
    for i in range(runs):
        flush.fill_(i)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record(); run(); end.record()
        events.append((begin, end))
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) * 1e-3 for begin, end in events]

def open_row(kernel, values):
    """The baseline's name and a function that runs it; ("none", None) without one, and whether CUDA still works."""
    make = peers.FAMILIES.get(kernel) or (FAMILIES.get(kernel) if peers.gpu() else None)
    if not make: return 'none: nothing is known for it', None, True
    try:
        name, run = make(parse(values))
        run()
        if peers.gpu(): torch.cuda.synchronize()
        return name, run, True
    except peers.NoPeer as reason:
        return f'none: {reason}', None, True
    except Exception as problem:                             # whatever it is, the other rows have theirs
        print(f'baselines: {kernel} {values}: {type(problem).__name__}: {str(problem)[:300]}', file=sys.stderr, flush=True)
        return f'none: {type(problem).__name__}', None, 'CUDA error' not in str(problem)

def main():
    options = argparse.ArgumentParser()
    options.add_argument('--device', choices=('cuda', 'cpu'), default='cuda')
    options.add_argument('--patience', type=int, default=60)
    chosen = options.parse_args()
    if chosen.patience < 1: options.error('--patience is at least a second')
    global DEV
    DEV = peers.DEV = chosen.device
    torch.set_grad_enabled(False)
    flush, run = torch.empty(1 << 28, dtype=torch.int32, device=DEV) if peers.gpu() else None, None
    for line in sys.stdin:
        command, *args = line.rstrip('\n').split('\t')
        faulthandler.dump_traceback_later(chosen.patience, exit=True)
        if command == 'open':
            name, run, works = open_row(*args)
            print(name.replace('\n', ' ')[:90], flush=True)
            if not works: sys.exit(1)
        elif command == 'time':
            print(*(f'{t:.9f}' for t in time(run, int(args[0]), flush)), flush=True)
        elif command == 'close':
            run = None
            if peers.gpu(): torch.cuda.empty_cache()         # the other program needs the memory
        faulthandler.cancel_dump_traceback_later()

if __name__ == '__main__':
    main()
