# SPDX-License-Identifier: MIT
# peers.py - what other programs need for the shapes of `kiln bench --sweep`: a function for each family (bench/sweep.h), of a shape's
# values, which gives a name and a function that does the work once. bench/baselines.py calls them.
#
# Packages beside PyTorch are imported where they are used. One that is not there, or fails at a shape, leaves the field to the
# others, and the name says so; where nobody is left, NoPeer says why. Of several the fastest is taken. Tensors have other random numbers than
# Kiln's, but the same shapes, lengths, lists and offsets (shape_length and offset_at in C have their twins here).
import math
import os
import sys
import time
import torch
import torch.nn.functional as F

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'families'))

DEV = 'cuda'
TYPES = {'f64': torch.float64, 'bf16': torch.bfloat16, 'f16': torch.float16, 'f32': torch.float32, 'e4m3': torch.float8_e4m3fn, 'i8': torch.int8}

class NoPeer(Exception):
    pass

def gpu():
    return DEV == 'cuda'

def random(*shape, type='bf16', scale=1.0):
    if type == 'i8': return torch.randint(-127, 128, shape, device=DEV, dtype=torch.int8)
    return (torch.randn(*shape, device=DEV) * scale).to(TYPES[type])

def between(low, high, *shape, dtype=torch.float32):
    return (torch.rand(*shape, device=DEV) * (high - low) + low).to(dtype)

def ints(values):
    return torch.tensor(values, device=DEV, dtype=torch.int32)

def length(longest, i):
    return longest if i == 0 else longest - longest * (i * 7919 % 1000) // 2000

def quick(run):
    """Seconds of a run, roughly: to choose among candidates."""
    run()
    if not gpu():
        best = math.inf
        for _ in range(3):
            begin = time.perf_counter()
            run()
            best = min(best, time.perf_counter() - begin)
        return best
    run()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(5): run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 5e3

def graphed(run):
    """The same as a graph, for what takes long to launch."""
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph): run()
    return graph.replay

def fastest(candidates):
    """Of pairs of a name and a function that makes the work, the fastest that runs."""
    found, problems, missing = [], [], []
    for name, make in candidates:
        try:
            run = make()
            found.append((quick(run), name, run))
        except Exception as problem:
            if 'CUDA error' in str(problem): raise
            why = str(problem).split('\n')[0]
            problems.append(f'{name}: {why}')
            missing.append(f'no {name}' if isinstance(problem, ImportError) else f'{name} fails')
    if not found: raise NoPeer('; '.join(problems) or 'none is known')
    for problem in problems: print(f'peers: {problem[:200]}', file=sys.stderr, flush=True)
    _, name, run = min(found, key=lambda x: x[0])
    return name + (f' ({", ".join(missing)})' if missing else ''), run

# ---- products

def gemm(v):
    M, N, K, T = v['M'], v['N'], v['K'], v['T']
    a, b = random(M, K, type=T), random(N, K, type=T).t()
    if T == 'e4m3':
        one = torch.ones((), device=DEV)
        return fastest([('cuBLAS', lambda: lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16))])
    out = torch.empty(M, N, device=DEV, dtype=TYPES[T])
    return 'cuBLAS' if gpu() else 'oneDNN, PyTorch', lambda: torch.matmul(a, b, out=out)

def gemm_types(v):
    M, N, K, T, op = v['M'], v['N'], v['K'], v['T'], v['OP']
    Z, name = (8 if op == 'batch' else 1), 'cuBLAS' if gpu() else 'oneDNN, PyTorch'
    if op == 'tf32x3': raise NoPeer('cuBLAS has no such sums for PyTorch')
    if op in ('i8', 'i8_scaled'):
        a, b = random(M, K, type=T), random(N, K, type=T)
        rows, columns = between(0.5, 1.5, M, 1), between(0.5, 1.5, 1, N)
        if op == 'i8': return fastest([('torch._int_mm', lambda: lambda: torch._int_mm(a, b.t()))])
        return fastest([('torch._int_mm, then scales', lambda: lambda: (torch._int_mm(a, b.t()) * rows * columns).bfloat16())])
    if op in ('e4m3_scaled', 'e5m2'):
        a, b = random(M, K, type=T), random(N, K, type='bf16').to(torch.float8_e5m2 if op == 'e5m2' else torch.float8_e4m3fn)
        one = torch.ones((), device=DEV)
        rows, columns = (between(0.5, 1.5, M, 1), between(0.5, 1.5, 1, N)) if op != 'e5m2' else (one, one)
        return fastest([(name, lambda: lambda: torch._scaled_mm(a, b.t(), scale_a=rows, scale_b=columns, out_dtype=torch.bfloat16))])
    if op == 'sparse24':
        a, w = random(M, K, type=T), random(N, K, type=T)
        def kept():
            from torch.sparse import to_sparse_semi_structured
            packed = to_sparse_semi_structured(w * torch.tensor([1, 1, 0, 0], device=DEV, dtype=w.dtype).repeat(K // 4))
            return lambda: F.linear(a, packed)
        return fastest([(name + ', dense', lambda: lambda: F.linear(a, w))] + ([('PyTorch, 2:4', kept)] if gpu() else []))
    a, b = random(Z, M, K, type=T), random(Z, N, K, type=T).transpose(1, 2)
    if op == 'batch': return name, lambda: torch.bmm(a, b)
    a, b = a[0], b[0]
    if op == 'swiglu':
        up = random(N, K, type=T).t()
        both = torch.cat([b, up], 1)
        def joined():
            g, u = (a @ both).chunk(2, 1)
            return F.silu(g) * u
        return fastest([(name + ', two products', lambda: lambda: F.silu(a @ b) * (a @ up)), (name + ', one product', lambda: joined)])
    if op == 'bias_gelu':
        bias = random(N, type=T)
        fused = lambda: lambda: torch.ops.aten._addmm_activation(bias, a, b, use_gelu=True)
        return fastest([(name + ', then gelu', lambda: lambda: F.gelu(torch.addmm(bias, a, b)))] + ([(name + ', gelu fused', fused)] if gpu() else []))
    def run():
        torch.backends.cuda.matmul.allow_tf32 = op == 'tf32'
        return a @ b
    return name, run

def quantised(v):
    M, N, K, G, T, form = v['M'], v['N'], v['K'], v['G'], v['T'], v['FORMAT']
    a = random(M, K, type=T)
    def gemlite():
        from gemlite.core import GemLiteLinearTriton, DType
        kind = DType.FP16 if T == 'f16' else DType.BF16
        layer = GemLiteLinearTriton(4, group_size=G, in_features=K, out_features=N, input_dtype=kind, output_dtype=kind)
        codes = torch.randint(0, 16, (N, K), device=DEV, dtype=torch.uint8)
        layer.pack(codes, between(0.001, 0.011, N, K // G, dtype=TYPES[T]), torch.randint(0, 16, (N, K // G), device=DEV).to(TYPES[T]), bias=None)
        return lambda: layer(a)
    def int4_of_cpu():
        codes = torch._convert_weight_to_int4pack_for_cpu(torch.randint(0, 16, (N, K), dtype=torch.int32), 1)
        scales = between(0.001, 0.011, K // G, N, 2, dtype=TYPES[T])
        return lambda: torch._weight_int4pack_mm_for_cpu(a, codes, G, scales)
    def dense():
        w = random(N, K, type=T)
        return lambda: torch.mm(a, w.t())
    def by_blocks():
        w, rows = random(N, K, type=T), between(0.5, 1.5, K // 128, M).t()
        columns = between(0.5, 1.5, (N + 127) // 128, K // 128)
        return lambda: torch._scaled_mm(a, w.t(), scale_a=rows, scale_b=columns.t(), out_dtype=torch.bfloat16)
    def of_tensors():
        w, one = random(N, K, type=T), torch.ones((), device=DEV)
        return lambda: torch._scaled_mm(a, w.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    def int8():
        w = random(N, K, type=T)
        return lambda: torch._int_mm(a, w.t())
    if form == 'int4':
        first = ('gemlite', gemlite) if gpu() else ('PyTorch int4', int4_of_cpu)
        if M <= 256: return fastest([first])
        return fastest([first, ('dense 16 bits', dense)])
    if form == 'mxfp4': return fastest([('dense 16 bits', dense)])
    if form == 'fp8_block':
        try: return fastest([('cuBLAS, blocks', by_blocks)])
        except NoPeer: return fastest([('one scale for a tensor', of_tensors)])
    return fastest([('torch._int_mm, sums alone', int8)])

# ---- attention

def sdpa_candidates(q, k, x, causal, grouped):
    from torch.nn.attention import sdpa_kernel, SDPBackend
    def with_backend(backend, repeat):
        def make():
            n = q.shape[1] // k.shape[1] if repeat else 1
            ks, xs = (t.repeat_interleave(n, 1) for t in (k, x)) if n > 1 else (k, x)
            def run():
                with sdpa_kernel(backend):
                    return F.scaled_dot_product_attention(q, ks, xs, is_causal=causal, enable_gqa=ks.shape[1] != q.shape[1])
            run()
            return run
        return make
    if not gpu():
        return [('PyTorch', lambda: lambda: F.scaled_dot_product_attention(q, k, x, is_causal=causal, enable_gqa=grouped))]
    backends = [('cuDNN', SDPBackend.CUDNN_ATTENTION), ('FlashAttention 2', SDPBackend.FLASH_ATTENTION)]
    each = [(name, with_backend(b, False)) for name, b in backends]
    return each + ([(name + ', repeated heads', with_backend(b, True)) for name, b in backends] if grouped else [])

def heads_first(v, n, heads, size):
    return random(v['B'], n, heads, size, type=v['T']).transpose(1, 2)

def attention(v):
    q, k = heads_first(v, v['S'], v['H'], v['D']), heads_first(v, v['SKV'], v['HKV'], v['D'])
    x = heads_first(v, v['SKV'], v['HKV'], v['DV'])
    return fastest(sdpa_candidates(q, k, x, v['CAUSAL'], v['H'] != v['HKV']) + flash3_candidates(q, k, x, v['CAUSAL']))

def flash3_candidates(q, k, x, causal):
    def make():
        from flash_attn_interface import flash_attn_func
        qs, ks, xs = (t.transpose(1, 2) for t in (q, k, x))
        return lambda: flash_attn_func(qs, ks, xs, causal=causal)
    return [('FlashAttention 3', make)] if gpu() else []

def backward(v):
    q, k = heads_first(v, v['S'], v['H'], v['D']), heads_first(v, v['SKV'], v['HKV'], v['D'])
    x = heads_first(v, v['SKV'], v['HKV'], v['DV'])
    tensors = [t.requires_grad_() for t in (q, k, x)]
    def gradient(forward):
        def make():
            out = forward()()
            g = torch.randn_like(out)
            return lambda: torch.autograd.grad(out, tensors, g, retain_graph=True)
        return make
    with torch.enable_grad():
        return fastest([(name, gradient(make)) for name, make in sdpa_candidates(*tensors, v['CAUSAL'], v['H'] != v['HKV'])])

def decode(v):
    q, k, x = heads_first(v, 1, v['H'], v['D']), heads_first(v, v['S'], v['HKV'], v['D']), heads_first(v, v['S'], v['HKV'], v['DV'])
    return fastest(sdpa_candidates(q, k, x, False, v['H'] != v['HKV']))

def ragged(v):
    """q, k, v of sequences one behind the other, their lengths, and offsets."""
    lengths = [length(v['S'], b) for b in range(v['B'])]
    q, k, x = (random(sum(lengths), v[h], v[d], type=v['T']) for h, d in (('H', 'D'), ('HKV', 'D'), ('HKV', 'DV')))
    return q, k, x, lengths, ints([sum(lengths[:b]) for b in range(v['B'] + 1)])

def flash2_varlen(v, q, k, x, offsets):
    more = dict(window_size_left=v['WINDOW'] - 1, window_size_right=0) if v['WINDOW'] else {}
    if v['DV'] != v['D']: x = F.pad(x, (0, v['D'] - v['DV']))                  # it has one head size
    return lambda: torch.ops.aten._flash_attention_forward(q, k, x, offsets, offsets, v['S'], v['S'], 0.0, v['CAUSAL'], False, **more)

def each_masked(v, q, k, x, lengths, offsets):
    """PyTorch's attention of each sequence, with a mask where there is a window."""
    parts, at = [], offsets.tolist()
    for b, n in enumerate(lengths):
        i, j = torch.arange(n, device=DEV)[:, None], torch.arange(n, device=DEV)[None]
        mask = (j <= i) & (j > i - v['WINDOW']) if v['WINDOW'] else None
        parts.append((*(t[at[b]:at[b + 1]].transpose(0, 1)[None] for t in (q, k, x)), mask))
    def run():
        return [F.scaled_dot_product_attention(a, b, c, attn_mask=m, is_causal=v['CAUSAL'] and m is None, enable_gqa=v['H'] != v['HKV'])
                for a, b, c, m in parts]
    return run

def packed(v):
    q, k, x, lengths, offsets = ragged(v)
    def flashinfer():
        import flashinfer
        w = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(torch.empty(256 << 20, dtype=torch.uint8, device=DEV), 'NHD')
        w.plan(offsets, offsets, v['H'], v['HKV'], v['D'], head_dim_vo=v['DV'], causal=v['CAUSAL'], q_data_type=TYPES[v['T']],
               window_left=v['WINDOW'] - 1 if v['WINDOW'] else -1, logits_soft_cap=float(v['SOFTCAP']) or None)
        return lambda: w.run(q, k, x)
    if not gpu():
        if v['SOFTCAP']: raise NoPeer('PyTorch has no softcap')
        return fastest([('PyTorch, a call for each sequence', lambda: each_masked(v, q, k, x, lengths, offsets))])
    return fastest([('FlashInfer', flashinfer)] + ([] if v['SOFTCAP'] else [('FlashAttention 2', lambda: flash2_varlen(v, q, k, x, offsets))]))

def packed_gradients(v):
    q, k, x, lengths, offsets = ragged(v)
    tensors = [t.requires_grad_() for t in (q, k, x)]
    def of_flash2():
        out = flash2_varlen(v, *tensors, offsets)()[0]
        g = torch.randn_like(out)
        return lambda: torch.autograd.grad(out, tensors, g, retain_graph=True)
    def of_each():
        out = torch.cat([t[0].transpose(0, 1) for t in each_masked(v, *tensors, lengths, offsets)()])
        g = torch.randn_like(out)
        return lambda: torch.autograd.grad(out, tensors, g, retain_graph=True)
    with torch.enable_grad():
        return fastest([('FlashAttention 2', of_flash2)] if gpu() else [('PyTorch, a call for each sequence', of_each)])

def flashinfer_paged(v, lengths, queries, table, k, x):
    def make():
        import flashinfer
        B, R, H, HKV, D, page = v['B'], v['R'], v['H'], v['HKV'], v['D'], v['PAGE']
        pages = [(n + page - 1) // page for n in lengths]
        starts = ints([sum(pages[:i]) for i in range(B + 1)])
        indices = torch.cat([table[b, :pages[b]] for b in range(B)]).int()
        last = ints([(n - 1) % page + 1 for n in lengths])
        space = torch.empty(256 << 20, dtype=torch.uint8, device=DEV)
        q = random(sum(queries), H, D, type=v['T'])
        more = dict(window_left=v['WINDOW'] - 1 if v['WINDOW'] else -1, logits_soft_cap=float(v['SOFTCAP']) or None,
                    q_data_type=TYPES[v['T']], kv_data_type=TYPES[v['TK']])
        if R == 1 and len(set(queries)) == 1:
            w = flashinfer.BatchDecodeWithPagedKVCacheWrapper(space, 'NHD', use_tensor_cores=H > HKV)
            w.plan(starts, indices, last, H, HKV, D, page, **more)
        else:
            w = flashinfer.BatchPrefillWithPagedKVCacheWrapper(space, 'NHD')
            w.plan(ints([sum(queries[:i]) for i in range(B + 1)]), starts, indices, last, H, HKV, D, page, causal=True, **more)
        return lambda: w.run(q, (k, x))
    return make

def paged(v):
    B, R, S, H, HKV, D, page = v['B'], v['R'], v['S'], v['H'], v['HKV'], v['D'], v['PAGE']
    each = (S + page - 1) // page
    lengths = [length(S, b) for b in range(B)]
    queries = [R] + [1 if v.get('MIXED') else R] * (B - 1)
    table = torch.randperm(B * each, device=DEV).view(B, each)
    k, x = (random(B * each, page, HKV, D, type=v['TK']) for _ in range(2))
    if gpu(): return fastest([('FlashInfer', flashinfer_paged(v, lengths, queries, table, k, x))])
    if v['SOFTCAP']: raise NoPeer('PyTorch has no softcap')
    q = [random(n, H, D, type=v['T']) for n in queries]
    masks = []
    for n, r in zip(lengths, queries):
        i, j = torch.arange(r)[:, None] + n - r, torch.arange(n)[None]
        masks.append((j <= i) & (j > i - v['WINDOW'] if v['WINDOW'] else j >= 0))
    def run():
        for b, n in enumerate(lengths):
            ks, xs = (t[table[b]].view(-1, HKV, D)[:n].transpose(0, 1)[None] for t in (k, x))
            F.scaled_dot_product_attention(q[b].transpose(0, 1)[None], ks, xs, attn_mask=masks[b], enable_gqa=H != HKV)
    return 'PyTorch, pages gathered', run

def masked(v):
    name, run = paged({**v, 'R': 1, 'WINDOW': 0, 'SOFTCAP': 0})
    return name + ', attention alone', run

# ---- latent attention

def mla(v):
    B, R, S, H, page = v['B'], v['R'], v['S'], v['H'], 64
    each = (S + page - 1) // page
    lengths = [length(S, b) for b in range(B)]
    table = torch.randperm(B * each, device=DEV).view(B, each).int()
    cache, q = random(B * each, page, 576, type=v['T']), random(B, R, H, 576, type=v['T'])
    def flash_mla():
        from flash_mla import flash_mla_with_kvcache, get_mla_metadata
        n = ints(lengths)
        plan = get_mla_metadata(n, R * H, 1)
        keys = cache.view(-1, page, 1, 576)
        return lambda: flash_mla_with_kvcache(q, keys, table, n, 512, plan[0], plan[1], causal=False)
    def flashinfer():
        import flashinfer
        w = flashinfer.mla.BatchMLAPagedAttentionWrapper(torch.empty(256 << 20, dtype=torch.uint8, device=DEV), backend='auto')
        pages = [(n + page - 1) // page for n in lengths]
        indices = torch.cat([table[b, :pages[b]] for b in range(B)])
        w.plan(ints([i * R for i in range(B + 1)]), ints([sum(pages[:i]) for i in range(B + 1)]), indices, ints(lengths), H, 512, 64, page,
               False, 576 ** -0.5, TYPES[v['T']], TYPES[v['T']])
        qs, parts = q.view(B * R, H, 576), (cache[..., :512].contiguous(), cache[..., 512:].contiguous())
        nope, rotary = qs[..., :512].contiguous(), qs[..., 512:].contiguous()
        return lambda: w.run(nope, rotary, *parts)
    def plain():
        def run():
            for b, n in enumerate(lengths):
                keys = cache[table[b].long()].view(-1, 576)[:n]
                torch.softmax(q[b].view(-1, 576) @ keys.t() / 24, -1) @ keys[:, :512]
        return run
    return fastest([('FlashMLA', flash_mla), ('FlashInfer', flashinfer)] if gpu() else [('PyTorch, pages gathered', plain)])

def mla_sparse(v):
    def flash_mla():
        from flash_mla import flash_mla_with_kvcache, get_mla_metadata
        B, R, H, topk = v['B'], v['R'], v['H'], v['TOPK']
        S = (v['S'] + 63) // 64 * 64
        cache = torch.zeros(B * S // 64, 64, 1, 656, device=DEV, dtype=torch.uint8).view(torch.float8_e4m3fn)
        lists = (torch.rand(B, R, topk, device=DEV) * S).int() + torch.arange(B, device=DEV, dtype=torch.int32)[:, None, None] * S
        q, table, n = random(B, R, H, 576), torch.arange(B * S // 64, device=DEV, dtype=torch.int32).view(B, -1), ints([S] * B)
        plan = get_mla_metadata(n, R * H, 1, H, True, topk)
        return lambda: flash_mla_with_kvcache(q, cache, table, n, 512, plan[0], plan[1], is_fp8_kvcache=True, indices=lists)
    if not gpu(): raise NoPeer('PyTorch has no such cache')
    return fastest([('FlashMLA', flash_mla)])

def mla_prefill(v):
    S, SKV, H, topk = v['S'], v['SKV'], v['H'], v['TOPK']
    q, kv = random(S, H, 576), random(SKV, 576)
    lists = (torch.rand(S, topk, device=DEV) * SKV).int()
    def flash_mla():
        from flash_mla import flash_mla_sparse_fwd
        keys, places = kv[:, None], lists[:, None]
        return lambda: flash_mla_sparse_fwd(q, keys, places, 576 ** -0.5)
    def plain():
        places = lists.long()
        def run():
            keys = kv[places]
            return torch.bmm(torch.softmax(torch.bmm(q, keys.transpose(1, 2)) / 24, -1), keys[..., :512])
        return run
    return fastest([('FlashMLA', flash_mla)] if gpu() else [('PyTorch, rows gathered', plain)])

def mla_contiguous(v):
    B, S, H, T = v['B'], v['S'], v['H'], v['T']
    q, q_rotary, cache, rotary = random(B, H, 512, type=T), random(B, H, 64, type=T), random(B, S, 512, type=T), random(B, S, 64, type=T)
    def plain():
        def run():
            s = torch.baddbmm(torch.bmm(q_rotary, rotary.transpose(1, 2)), q, cache.transpose(1, 2))
            return torch.bmm(torch.softmax(s / 24, -1), cache)
        return run
    def flashinfer():
        import flashinfer
        page, each = 1, S
        w = flashinfer.mla.BatchMLAPagedAttentionWrapper(torch.empty(256 << 20, dtype=torch.uint8, device=DEV), backend='auto')
        starts = torch.arange(B + 1, device=DEV, dtype=torch.int32)
        w.plan(starts, starts * each, torch.arange(B * each, device=DEV, dtype=torch.int32), ints([S] * B), H, 512, 64, page, False, 576 ** -0.5,
               TYPES[T], TYPES[T])
        keys, rotaries = cache.view(B * each, page, 512), rotary.view(B * each, page, 64)
        return lambda: w.run(q, q_rotary, keys, rotaries)
    def flash_mla():
        from flash_mla import flash_mla_with_kvcache, get_mla_metadata
        each = (S + 63) // 64
        pages, n = random(B * each, 64, 1, 576, type=T), ints([S] * B)
        table = torch.arange(B * each, device=DEV, dtype=torch.int32).view(B, each)
        both, plan = torch.cat([q, q_rotary], -1)[:, None], get_mla_metadata(n, H, 1)
        return lambda: flash_mla_with_kvcache(both, pages, table, n, 512, plan[0], plan[1], causal=False)
    peers = [('FlashMLA, parts joined in pages of 64', flash_mla), ('FlashInfer', flashinfer)]
    return fastest([('PyTorch', plain)] + (peers if gpu() else []))

def indexed(v):
    raise NoPeer('none is on PyPI')

def indexer(v):
    raise NoPeer('none is on PyPI')

# ---- experts

def offsets_of(R, E):
    weights = [500 + e * 7919 % 1000 for e in range(E)]
    return [R * sum(weights[:e]) // sum(weights) for e in range(E + 1)]

def grouped(v):
    E, N, K, R, T = v['E'], v['N'], v['K'], v['R'], v['T']
    a, b, ends = random(R, K, type=T), random(E, N, K, type=T), ints(offsets_of(R, E)[1:])
    bounds = offsets_of(R, E)
    def one_by_one():
        out = torch.empty(R, N, device=DEV, dtype=TYPES[T])
        def run():
            for e, (x, y) in enumerate(zip(bounds, bounds[1:])):
                if x < y: torch.mm(a[x:y], b[e].t(), out=out[x:y])
        return run
    return fastest([('torch._grouped_mm', lambda: lambda: torch._grouped_mm(a, b.transpose(1, 2), offs=ends)), ('a product for each expert', one_by_one)])

def grouped_mxfp4(v):
    name, run = grouped(v)
    return name + ', weights of 16 bits', run

def grouped_weights(v):
    E, N, K, R, T = v['E'], v['N'], v['K'], v['R'], v['T']
    a, g, bounds = random(R, K, type=T), random(R, N, type=T), offsets_of(R, E)
    ends = ints(bounds[1:])
    def one_by_one():
        out = torch.empty(E, N, K, device=DEV, dtype=TYPES[T])
        def run():
            for e, (x, y) in enumerate(zip(bounds, bounds[1:])): torch.mm(g[x:y].t(), a[x:y], out=out[e])
        return run
    return fastest([('torch._grouped_mm', lambda: lambda: torch._grouped_mm(g.t(), a, offs=ends)), ('a product for each expert', one_by_one)])

def route(v):
    M, E, top, groups = v['M'], v['E'], v['TOP'], v['GROUPS']
    logits = random(M, E, type=v['T'])
    def run():
        scores = torch.sigmoid(logits.float()) if v['OP'] == 'sigmoid' else torch.softmax(logits.float(), -1)
        chosen = scores
        if groups > 1:
            each = scores.view(M, groups, -1)
            best = each.topk(2, -1).values.sum(-1).topk(4, -1).indices
            chosen = each.masked_fill(~torch.zeros(M, groups, device=DEV, dtype=torch.bool).scatter_(1, best, True)[..., None], 0).view(M, E)
        weights, experts = chosen.topk(top, -1)
        return weights / weights.sum(-1, keepdim=True), experts
    return fastest([('PyTorch', lambda: run)])

def moe(v):
    E, top, D, width, M, T = v['E'], v['TOP'], v['D'], v['F'], v['M'], v['T']
    x, logits = random(M, D, type=T), torch.randn(M, E, device=DEV)
    up, down = random(E, 2 * width, D, type=T, scale=D ** -0.5), random(E, D, width, type=T, scale=width ** -0.5)
    def torch_layer():
        def run():
            s, ids = torch.softmax(logits, 1).topk(top, 1)
            s = s / s.sum(1, keepdim=True)
            flat = ids.flatten()
            order = flat.argsort(stable=True)
            ends = torch.bincount(flat, minlength=E).cumsum(0).to(torch.int32)
            g, u = torch._grouped_mm(x[order // top], up.transpose(1, 2), offs=ends).chunk(2, 1)
            y = torch._grouped_mm(F.silu(g) * u, down.transpose(1, 2), offs=ends)
            out = torch.zeros(M, D, device=DEV)
            return out.index_add_(0, order // top, y.float() * s.flatten()[order, None])
        return run
    def triton_kernels():
        import triton_moe
        pairs = torch.stack(up.chunk(2, 1), 2).flatten(1, 2)            # gates and values in turn: what the package fuses
        bias = torch.tensor([0.0, -1.0], device=DEV).repeat(E, width)   # it adds one to values
        call = triton_moe.layer(triton_moe.weights(pairs), bias, triton_moe.weights(down), None, top, alpha=1.0, limit=1e30)
        scores = logits.to(TYPES[T])
        return graphed(lambda: call(x, scores))
    return fastest([('PyTorch', torch_layer)] + ([('triton-kernels', triton_kernels)] if gpu() else []))

# ---- small operators

def nn(v):
    M, N, T, op = v['M'], v['N'], v['T'], v['OP']
    x = random(M, N, type=T)
    w, b, y = random(N, type=T), random(N, type=T), random(M, N, type=T)
    labels = torch.randint(0, N, (M,), device=DEV)
    def liger(module, name, *args):
        def make():
            function = getattr(__import__('liger_kernel.ops.' + module, fromlist=[name]), name)
            return lambda: function.apply(*args)
        return ('liger', make)
    def quack(name, *args, **more):
        def make():
            import quack
            function = getattr(quack, name)
            return lambda: function(*args, **more)
        return ('quack', make)
    def rotate():
        heads = x.view(M, N // 128, 128)
        angle = torch.arange(M, device=DEV)[:, None] * 3 * 10000 ** (-torch.arange(64, device=DEV) / 64)
        c, s = angle.cos()[:, None].to(x.dtype), angle.sin()[:, None].to(x.dtype)
        return lambda: torch.cat([heads[..., :64] * c - heads[..., 64:] * s, heads[..., 64:] * c + heads[..., :64] * s], -1)
    def rotate_liger():
        from liger_kernel.ops.rope import LigerRopeFunction
        q, k = random(1, N // 128, M, 128, type=T), random(1, 1, M, 128, type=T)
        c, s = random(1, M, 128, type=T), random(1, M, 128, type=T)
        return lambda: LigerRopeFunction.apply(q, k, c, s)
    def cast():
        groups = x.view(M, -1, 128)
        def run():
            scale = groups.abs().amax(-1, keepdim=True).float().clamp(min=1e-4) / 448
            return (groups.float() / scale).to(torch.float8_e4m3fn)
        return run
    def add_norm():
        def run():
            s = x + y
            return s, F.rms_norm(s, (N,), w, 1e-6)
        return run
    own, others = {
        'rms_norm': (lambda: lambda: F.rms_norm(x, (N,), w, 1e-6),
                     [liger('rms_norm', 'LigerRMSNormFunction', x, w, 1e-6, 0.0, 'llama', False), quack('rmsnorm', x, w, eps=1e-6)]),
        'add_rms_norm': (add_norm, [liger('fused_add_rms_norm', 'LigerFusedAddRMSNormFunction', x, y, w, 1e-6, 0.0, 'llama', False),
                                    quack('rmsnorm', x, w, residual=y, eps=1e-6)]),
        'layer_norm': (lambda: lambda: F.layer_norm(x, (N,), w, b, 1e-6), [liger('layer_norm', 'LigerLayerNormFunction', x, w, b, 1e-6)]),
        'swiglu': (lambda: lambda: F.silu(x) * y, [liger('swiglu', 'LigerSiLUMulFunction', x, y)]),
        'softmax': (lambda: lambda: torch.softmax(x, -1), [liger('softmax', 'LigerSoftmaxFunction', x), quack('softmax', x)]),
        'cross_entropy': (lambda: lambda: F.cross_entropy(x, labels, reduction='none'), [quack('cross_entropy', x, labels)]),
        'cast_fp8': (cast, []),
        'rotary': (rotate, [('liger', rotate_liger)]),
    }[op]
    return fastest([('PyTorch', own)] + (others if gpu() else []))

def select(v):
    M, N, K, T, op = v['M'], v['N'], v['K'], v['T'], v['OP']
    x = random(M, N, type=T)
    if op == 'topk': return fastest([('PyTorch', lambda: lambda: x.topk(K, -1))])
    if op == 'select': return fastest([('PyTorch, in any order', lambda: lambda: x.topk(min(K, N), -1, sorted=False))])
    if op == 'argmax': return fastest([('PyTorch', lambda: lambda: x.argmax(-1))])
    def plain():
        def run():
            if K:
                values, columns = x.float().topk(K, -1)
            else:
                values, columns = x.float().sort(-1, descending=True)
            p = torch.softmax(values, -1)
            p = torch.where(p.cumsum(-1) - p < 0.9, p, 0)
            return columns.gather(1, torch.multinomial(p, 1))
        return run
    def flashinfer():
        from flashinfer import sampling
        k, p = torch.full((M,), K or N, device=DEV, dtype=torch.int32), torch.full((M,), 0.9, device=DEV)
        logits = x.float()
        return lambda: sampling.top_k_top_p_sampling_from_logits(logits, k, p, filter_apply_order='top_k_first')
    return fastest([('PyTorch', plain)] + ([('FlashInfer', flashinfer)] if gpu() else []))

# ---- convolutions

def conv(v):
    B, HW, C, out, KS, stride, T = v['B'], v['HW'], v['C'], v['F'], v['KS'], v['STRIDE'], v['T']
    x = random(B, C, HW, HW, type=T).to(memory_format=torch.channels_last)
    w = random(out, C, KS, KS, type=T).to(memory_format=torch.channels_last)
    torch.backends.cudnn.benchmark = True
    return fastest([('cuDNN' if gpu() else 'oneDNN, PyTorch', lambda: lambda: F.conv2d(x, w, stride=stride, padding=(KS - 1) // 2))])

def short_conv(v):
    B, S, D, W, T = v['B'], v['S'], v['D'], v['W'], v['T']
    x, w = random(B, S, D, type=T), random(D, W, type=T)
    def plain():
        columns, filters = x.transpose(1, 2).contiguous(), w[:, None]
        return lambda: F.silu(F.conv1d(F.pad(columns, (W - 1, 0)), filters, groups=D))
    def fla():
        from fla.modules.causal_conv1d import causal_conv1d
        return lambda: causal_conv1d(x, w, activation='silu')
    return fastest([('PyTorch, channels first', plain)] + ([('fla', fla)] if gpu() else []))

# ---- layers with a state

def state_inputs(v, S):
    B, H, HK, DK, DV, op = v['B'], v['H'], v['HK'], v['DK'], v['DV'], v['OP']
    q, k, x = random(B, S, HK, DK), random(B, S, HK, DK), random(B, S, H, DV)
    if op in ('linear', 'retention', 'mamba2'): q, k = (t.repeat_interleave(H // HK, 2) for t in (q, k))
    gates = between(-0.2, -0.001, B, S, H, DK) if op == 'kda' else between(-0.2, -0.001, B, S, H)
    if op == 'kda': q, k = (t.repeat_interleave(H // HK, 2) for t in (q, k))
    return q, k, x, gates, between(0, 1, B, S, H, dtype=torch.bfloat16)

def fla_call(v, step):
    """fla's function of the shape's operator, of q, k, v, gates, beta and keywords."""
    op = v['OP']
    if not gpu(): raise NoPeer("fla's kernels are of Triton")
    try:
        if op == 'gdn':
            from fla.ops.gated_delta_rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
            one, whole = fused_recurrent_gated_delta_rule, chunk_gated_delta_rule
        elif op == 'kda':
            from fla.ops.kda import chunk_kda, fused_recurrent_kda
            one, whole = fused_recurrent_kda, chunk_kda
        else:
            from fla.ops.simple_gla import chunk_simple_gla, fused_recurrent_simple_gla
            one, whole = fused_recurrent_simple_gla, chunk_simple_gla
    except Exception as problem:
        raise NoPeer(f'fla: {problem}')
    f = one if step else whole
    if op in ('gdn', 'kda'):
        return lambda q, k, x, g, beta, **more: f(q, k, x, g=g, beta=beta, use_qk_l2norm_in_kernel=True, **more)
    if op == 'retention':
        decay = torch.log1p(-torch.exp2(-5 - torch.arange(v['H'], device=DEV, dtype=torch.float32)))
        return lambda q, k, x, g, beta, **more: f(q, k, x, g_gamma=decay, **more)
    return lambda q, k, x, g, beta, **more: f(q, k, x, g=g, **more)

def fla_name(v):
    return 'fla simple_gla, of values times dt' if v['OP'] == 'mamba2' else 'fla'

def recurrent(v):
    call, inputs = fla_call(v, False), state_inputs(v, v['S'])
    return fastest([(fla_name(v), lambda: lambda: call(*inputs))])

def gradients(v):
    call, inputs = fla_call(v, False), [t.requires_grad_() for t in state_inputs(v, v['S'])]
    wanted = inputs[:{'gdn': 5, 'kda': 5, 'retention': 3}.get(v['OP'], 4)]
    def make():
        with torch.enable_grad(): out = call(*inputs)[0]
        g = torch.randn_like(out)
        return lambda: torch.autograd.grad(out, wanted, g, retain_graph=True)
    return fastest([(fla_name(v), make)])

def step(v):
    B, H, DK, DV, op = v['B'], v['H'], v['DK'], v['DV'], v['OP']
    q, k, x, g, beta = state_inputs(v, 1)
    state = torch.randn(B, H, DK, DV, device=DEV)
    if gpu():
        call = fla_call(v, True)
        return fastest([(fla_name(v), lambda: lambda: call(q, k, x, g, beta, initial_state=state, output_final_state=True))])
    def one(t): return t[:, 0].float().repeat_interleave(H // t.shape[2], 1)
    def run():
        nonlocal state
        qs, ks, xs = one(q), one(k), one(x)
        decay = g[:, 0].exp()
        state = state * (decay[..., None] if op == 'kda' else decay[..., None, None])
        if op in ('gdn', 'kda'):
            qs, ks = F.normalize(qs, dim=-1), F.normalize(ks, dim=-1)
            xs = (xs - torch.einsum('bhk,bhkv->bhv', ks, state)) * beta[:, 0, :, None]
        state = state + ks[..., None] * xs[..., None, :]
        return torch.einsum('bhk,bhkv->bhv', qs, state)
    return 'PyTorch', run

# ---- sparse attention

def listed(own, places):
    """Blocks of the lists of blocks of queries `own`: [...] -> [..., places], -1 where there is none."""
    steps = (own // places).clamp(min=1)[..., None] * torch.arange(places, device=DEV)
    chosen = own[..., None] - steps
    return torch.where(chosen < 0, -1, chosen)

def nsa(v):
    B, S, H, HKV, D, block, places = v['B'], v['S'], v['H'], v['HKV'], v['D'], v['BS'], v['PLACES']
    if not gpu(): raise NoPeer("fla's kernels are of Triton")
    def fla():
        from fla.ops.nsa.parallel import parallel_nsa
        q, k, x = random(B, S, H, D), random(B, S, HKV, D), random(B, S, HKV, D)
        lists = listed(torch.arange(S, device=DEV) // block, places)[None, :, None].expand(B, S, HKV, places).contiguous()
        return lambda: parallel_nsa(q, k, x, block_indices=lists, block_counts=places, block_size=block)
    return fastest([('fla', fla)])

def nsa_whole(v):
    B, S, H, HKV, D, block, places = v['B'], v['S'], v['H'], v['HKV'], v['D'], v['BS'], v['PLACES']
    if not gpu(): raise NoPeer("fla's kernels are of Triton")
    def fla(window):
        def make():
            from fla.ops.nsa.parallel import parallel_nsa
            q, k, x = random(B, S, H, D), random(B, S, HKV, D), random(B, S, HKV, D)
            gates = [between(0, 1, B, S, H, dtype=torch.bfloat16) for _ in range(3)]
            if not window: return lambda: parallel_nsa(q, k, x, *gates[:2], block_counts=places, block_size=block)
            return lambda: parallel_nsa(q, k, x, *gates, block_counts=places, block_size=block, window_size=512)
        return make
    try: return fastest([('fla', fla(True))])
    except NoPeer: return fastest([('fla, without the window', fla(False))])

def nsa_gradients(v):
    B, S, H, HKV, D, block, places = v['B'], v['S'], v['H'], v['HKV'], v['D'], v['BS'], v['PLACES']
    if not gpu(): raise NoPeer("fla's kernels are of Triton")
    def fla():
        from fla.ops.nsa.parallel import parallel_nsa
        inputs = [random(B, S, h, D).requires_grad_() for h in (H, HKV, HKV)]
        lists = listed(torch.arange(S, device=DEV) // block, places)[None, :, None].expand(B, S, HKV, places).contiguous()
        with torch.enable_grad(): out = parallel_nsa(*inputs, block_indices=lists, block_counts=places, block_size=block)
        g = torch.randn_like(out)
        return lambda: torch.autograd.grad(out, inputs, g, retain_graph=True)
    return fastest([('fla', fla)])

def tiles_of_blocks(block):
    """flex_attention's tiles have to divide the mask's blocks: its own choice is 128."""
    return {'BLOCK_M': block, 'BLOCK_N': block} if block < 128 else None

def sparse(v):
    B, S, H, HKV, D, block, places, T = v['B'], v['S'], v['H'], v['HKV'], v['D'], v['BS'], v['PLACES'], v['T']
    q, k, x = (random(B, S, h, D, type=T).transpose(1, 2) for h in (H, HKV, HKV))
    blocks = (S + block - 1) // block
    lists = listed(torch.arange(blocks, device=DEV), places)
    def flex():
        from torch.nn.attention.flex_attention import BlockMask, flex_attention
        counts = (lists >= 0).sum(-1).int()[None, None].expand(B, H, blocks).contiguous()
        indices = torch.zeros(B, H, blocks, blocks, device=DEV, dtype=torch.int32)
        indices[..., :min(places, blocks)] = lists.clamp(min=0)[:, :blocks].int()
        mask = BlockMask.from_kv_blocks(counts, indices, BLOCK_SIZE=block, mask_mod=lambda b, h, i, j: i >= j)
        run = torch.compile(flex_attention, dynamic=False)
        return lambda: run(q, k, x, block_mask=mask, enable_gqa=H != HKV, kernel_options=tiles_of_blocks(block))
    def masked():
        taken = torch.zeros(blocks, blocks, dtype=torch.bool)
        for i in range(blocks): taken[i, lists[i][lists[i] >= 0]] = True
        mask = taken.repeat_interleave(block, 0).repeat_interleave(block, 1)[:S, :S] & torch.ones(S, S, dtype=torch.bool).tril()
        return lambda: F.scaled_dot_product_attention(q, k, x, attn_mask=mask, enable_gqa=H != HKV)
    return fastest([('flex_attention', flex)] if gpu() else [('PyTorch, all keys and a mask', masked)])

def sparse_decode(v):
    B, S, H, HKV, D, block, places, T = v['B'], v['S'], v['H'], v['HKV'], v['D'], v['BS'], v['PLACES'], v['T']
    q, k, x = random(B, H, D, type=T), random(B, S, HKV, D, type=T), random(B, S, HKV, D, type=T)
    own = torch.tensor((S - 1) // block, device=DEV)
    lists = listed(own, places)
    rows = (lists[lists >= 0][:, None] * block + torch.arange(block, device=DEV)).flatten()
    rows = rows[rows < S]
    def gathered():
        return lambda: F.scaled_dot_product_attention(q[:, :, None], k[:, rows].transpose(1, 2), x[:, rows].transpose(1, 2), enable_gqa=H != HKV)
    def flashinfer():
        import flashinfer
        if S % block: raise NoPeer('its pages are whole')
        w = flashinfer.BatchDecodeWithPagedKVCacheWrapper(torch.empty(256 << 20, dtype=torch.uint8, device=DEV), 'NHD', use_tensor_cores=H > HKV)
        pages = lists[lists >= 0].int().flip(0)
        n, each = len(pages), S // block
        indices = torch.cat([pages + b * each for b in range(B)])
        w.plan(torch.arange(B + 1, device=DEV, dtype=torch.int32) * n, indices, ints([block] * B), H, HKV, D, block, q_data_type=TYPES[T],
               kv_data_type=TYPES[T])
        keys, values = (t.view(B * each, block, HKV, D) for t in (k, x))
        return lambda: w.run(q, (keys, values))
    return fastest([('PyTorch, blocks gathered', gathered)] + ([('FlashInfer', flashinfer)] if gpu() else []))

def flex_of_blocks(q, k, x, taken, block, grouped):
    """PyTorch's flex_attention over blocks that a boolean tensor [B or 1][H or 1][blocks][blocks] says; causal inside."""
    from torch.nn.attention.flex_attention import BlockMask, flex_attention
    run = torch.compile(flex_attention, dynamic=False)
    counts = taken.sum(-1).int()
    indices = torch.argsort(taken.int(), dim=-1, descending=True, stable=True).int()
    mask = BlockMask.from_kv_blocks(counts, indices, BLOCK_SIZE=block, mask_mod=lambda b, h, i, j: i >= j)
    return lambda: run(q, k, x, block_mask=mask, enable_gqa=grouped, kernel_options=tiles_of_blocks(block))

def seer(v):
    B, S, H, HKV, D, top, T = v['B'], v['S'], v['H'], v['HKV'], v['D'], v['TOP'], v['T']
    q, k, x = (random(B, S, h, D, type=T).transpose(1, 2) for h in (H, HKV, HKV))
    blocks = (S + 63) // 64
    scores = torch.randn(B, H, blocks, blocks, device=DEV)
    causal = torch.ones(blocks, blocks, device=DEV, dtype=torch.bool).tril()
    def choose():
        seen = scores.masked_fill(~causal, -math.inf)
        best = seen.topk(min(top, blocks), -1).indices
        return torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, best, True) & causal
    def flex():
        if S % 128: raise NoPeer('flex_attention takes whole blocks')
        run = flex_of_blocks(q, k, x, choose(), 64, H != HKV)
        def both():
            choose()
            return run()
        return both
    def masked():
        below = torch.ones(S, S, dtype=torch.bool).tril()
        def run():
            mask = choose().repeat_interleave(64, 2).repeat_interleave(64, 3)[..., :S, :S] & below
            return F.scaled_dot_product_attention(q, k, x, attn_mask=mask, enable_gqa=H != HKV)
        return run
    return fastest([('topk and flex_attention', flex)] if gpu() else [('PyTorch, all keys and a mask', masked)])

def vertical_slash(v):
    B, S, H, HKV, D, T = v['B'], v['S'], v['H'], v['HKV'], v['D'], v['T']
    columns, diagonals = S // v['COLUMNS'], S // v['DIAGONALS']
    q, k, x = (random(B, S, h, D, type=T).transpose(1, 2) for h in (H, HKV, HKV))
    def flex():
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        seen = lambda b, h, i, j: (i >= j) & ((j % columns == 0) | ((i - j) % diagonals < 64))
        mask = torch.compile(create_block_mask)(seen, None, None, S, S, device=DEV)
        run = torch.compile(flex_attention, dynamic=False)
        return lambda: run(q, k, x, block_mask=mask, enable_gqa=H != HKV)
    def masked():
        i, j = torch.arange(S)[:, None], torch.arange(S)[None]
        mask = (i >= j) & ((j % columns == 0) | ((i - j) % diagonals < 64))
        return lambda: F.scaled_dot_product_attention(q, k, x, attn_mask=mask, enable_gqa=H != HKV)
    return fastest([('flex_attention', flex)] if gpu() else [('PyTorch, all keys and a mask', masked)])

FAMILIES = {'grouped-mxfp4': grouped_mxfp4, 'grouped-weights': grouped_weights, 'route': route, 'nsa-whole': nsa_whole, 'nsa-gradients': nsa_gradients, 'gemm': gemm, 'gemm-types': gemm_types, 'mla-contiguous': mla_contiguous, 'indexed': indexed, 'select': select, 'conv': conv,
            'short-conv': short_conv, 'sparse-decode': sparse_decode, 'seer': seer, 'vertical-slash': vertical_slash, 'attention': attention, 'packed': packed, 'packed-gradients': packed_gradients, 'backward': backward, 'decode': decode, 'paged': paged, 'paged-mixed': paged, 'masked': masked, 'mla': mla,
            'mla-sparse': mla_sparse, 'mla-prefill': mla_prefill, 'indexer': indexer, 'quantised': quantised, 'grouped': grouped,
            'moe': moe, 'nn': nn, 'recurrent': recurrent, 'step': step, 'gradients': gradients, 'nsa': nsa, 'sparse': sparse}
