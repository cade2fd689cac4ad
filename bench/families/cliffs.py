# SPDX-License-Identifier: MIT
"""cliffs.py - kernels of many kinds beside TileLang's examples of the same, one run, one method; cliffs_table.sh starts it.

Needs KILN_LIBRARY, the packages kiln and torch; tilelang, and its examples in TILELANG_EXAMPLES. Without tilelang its earlier
figures stand in (TILELANG_MS, one H200, version 0.1.15), marked with "*". Every row builds both sides, compares their results,
then times both in turns: events around one call, 512 MB written before each, the median of 15. Rows are built by several
processes at once, and timed by one at a time.

    python3 cliffs.py [SECONDS] [ROW...]     begin no row after SECONDS (default 90); rows whose name contains a ROW
"""
import contextlib
import functools
import importlib
import importlib.util
import io
import multiprocessing
import os
import sys
import time
import warnings

EXAMPLES = os.environ.get("TILELANG_EXAMPLES", "")
TILELANG_MS = {"mamba2_chunk_scan": 0.6871, "gdn_state": 0.7254, "conv2d": 0.3187, "indexer_logits": 1.047, "vertical_slash H1": 0.1443,
               "vertical_slash H32": 4.576, "decode B1 ": 0.03064, "decode B128": 1.328, "topk_select 32768": 0.03003,
               "topk_select 8192": 0.2376, "topk 6": 0.03646, "gemm_stream_k 256": 0.016, "gemm_nt e4m3": 0.7255,
               "layer_norm": 0.04285, "rms_norm_long": 0.1338}


class Row:
    """Both sides of a row: named functions of no argument, each of which starts the work and returns its result or None."""

    def __init__(self, kiln, peers, close=2e-2, same=None):
        self.kiln, self.peers, self.close, self.same = kiln, peers, close, same


def example(path):
    """A module of TileLang's examples; they print, and import what lies beside them."""
    folder, name = os.path.split(os.path.join(EXAMPLES, path))
    sys.path.insert(0, folder)
    with contextlib.redirect_stdout(io.StringIO()):
        return importlib.import_module(name)


def lib(path, kernel, **values):
    import kiln
    return kiln.load(path).kernel(kernel, **values)


def normal(*shape, dtype=None, scale=1.0):
    import torch
    return (torch.randn(*shape, device="cuda") * scale).to(dtype or torch.float16)


def mamba2_chunk_scan(peer):
    import torch
    B, S, L, G, H, P, N = 8, 4096, 256, 1, 80, 64, 128
    cb, x, c = normal(B, S // L, G, L, L, scale=0.1), normal(B, S, H, P), normal(B, S, G, N, scale=0.1)
    dt = torch.rand(B, H, S // L, L, device="cuda").half()
    sums = -(torch.rand(B, H, S // L, L, device="cuda") * 0.02).cumsum(-1).half()
    states, skip = normal(B, S // L, H, P, N), normal(H)
    kernel = lib("linear/mamba2.tile", "mamba2_chunk_scan", T="f16", Offset=None, Z=None, Raw=None)
    kiln = lambda: kernel(CB=cb, X=x, Dt=dt, A=sums, C=c, State=states, Skip=skip)
    if not peer:
        return Row({"": kiln}, {})
    f = example("examples/linear_attention/example_mamba_chunk_scan").chunk_scan_fwd.compile(
        batch=B, seqlen=S, chunk_size=L, ngroups=G, nheads=H, headdim=P, dstate=N, block_M=64, block_N=64, block_K=64,
        block_Dstate=128, num_stages=2, threads=128)
    return Row({"": kiln}, {"TileLang": lambda: f(cb, x, dt, sums, c, states, skip)})


def gdn_state(peer):
    import torch
    B, S, H, D, C = 1, 32768, 32, 128, 64
    norm = torch.nn.functional.normalize
    k, w, u = (norm(normal(B, S, H, D, dtype=torch.float32), dim=-1).bfloat16() for _ in "kwu")
    gate = (-0.05 * torch.rand(B, S // C, C, H, device="cuda")).cumsum(2).view(B, S, H).contiguous()
    kernel = lib("linear/gdn.tile", "gdn_state", T="bf16", Rk=None, Offset=None, H0=None)
    kiln = lambda: kernel(K=k, W=w, U=u, Gate=gate)
    if not peer:
        return Row({"": kiln}, {})
    f = example("examples/gdn/example_chunk_delta_h").tilelang_chunk_gated_delta_rule_fwd_h(
        B, S, H, D, D, "bfloat16", "bfloat16", "float32", "float32", "float32", C, True, False, True, True,
        block_DK=32, block_DV=32, threads=128, num_stages=2)
    none = torch.zeros(B, H, D, D, device="cuda", dtype=torch.bfloat16)
    return Row({"": kiln}, {"TileLang": lambda: f(k, w, u, gate, none)}, same=lambda a, b: (a[2], b[2]))


def convolution(peer, patch):
    import torch
    x, w = normal(128, 64, 64, 128), normal(3, 3, 128, 128, scale=0.05)
    kernel = lib("conv/conv2d.tile", "conv2d_patch" if patch else "conv2d", T="f16")
    kiln = lambda: kernel(X=x, Wt=w, Y=out, stride=1, dilation=1, pad=1)
    out = torch.empty(128, 64, 64, 128, device="cuda", dtype=torch.float16)
    torch.backends.cudnn.benchmark = True
    first, last = x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
    peers = {"cuDNN": lambda: torch.conv2d(first, last, padding=1).permute(0, 2, 3, 1)}
    if peer:
        f = example("examples/convolution/example_convolution_autotune").convolution.compile(
            N=128, C=128, H=64, W=64, F=128, K=3, S=1, D=1, P=1, block_M=128, block_N=128, block_K=64, num_stages=3, thread_num=256,
            enable_rasteration=True)
        peers["TileLang"] = lambda: f(x, w)
    return Row({"": lambda: (kiln(), out)[1]}, peers)


def indexer_logits(peer):
    import torch
    S, SKV, H, D = 4096, 8192, 64, 128
    q, k = normal(S, H, D).to(torch.float8_e4m3fn), normal(SKV, D).to(torch.float8_e4m3fn)
    scales, weights = torch.rand(SKV, device="cuda"), normal(S, H, dtype=torch.float32)
    starts = torch.zeros(S, device="cuda", dtype=torch.int32)
    ends = torch.arange(SKV - S + 1, SKV + 1, device="cuda", dtype=torch.int32)
    from kiln import ops
    kiln = lambda: ops.indexer_logits(q, k, scales, weights, starts=starts, ends=ends)
    if not peer:
        return Row({"": kiln}, {})
    m = example("examples/deepseek_v32/fp8_lighting_indexer")
    f = lambda: m.mqa_attn_return_logits_interface(q, k, scales, weights, starts, ends)
    finite = lambda a, b: (a.masked_fill(a.isinf(), 0), b.masked_fill(b.isinf(), 0))
    return Row({"": kiln}, {"TileLang": f}, close=5e-2, same=finite)


def slash_lists(columns, diagonals, blocks):
    """The lists of TileLang's example for queries in blocks of 64: starts of blocks of keys, and the columns outside of them."""
    offsets, single = [], []
    down = sorted(diagonals, reverse=True)
    for m in range(blocks):
        end = 64 * m + 64
        ranges = []
        for s in (s for s in down if s < end):
            top = max(end - s, 64)
            if not ranges or top > ranges[-1][1] + 64:
                ranges.append([top - 64, top])
            elif top > ranges[-1][1]:
                ranges[-1][1] += 64
        offsets.append([x for a, b in ranges for x in range(a, b, 64)])
        covered = bytearray(64 * blocks + 128)
        for a, b in ranges:
            covered[a:b] = b"\1" * (b - a)
        last = ranges[-1][1] if ranges else 0
        single.append([c for c in columns if c < last and not covered[c]])
    return offsets, single


def vertical_slash(peer, H, D):
    import torch
    from kiln import ops
    S, NV, NS = 16384, 1000, 200
    q, k, v = (normal(1, S, H, D) for _ in "qkv")
    g = torch.Generator().manual_seed(1)
    columns = sorted({*range(30), *(torch.randperm(S - 30, generator=g)[:NV - 30] + 30).tolist()})
    diagonals = sorted({*range(30), *(torch.randperm(S - 30, generator=g)[:NS - 30] + 30).tolist()})
    each = lambda x: torch.tensor(x, device="cuda", dtype=torch.int32).expand(1, H, len(x)).contiguous()
    vertical, slash = each(columns), each(diagonals)
    kiln = lambda: ops.vertical_slash(q, k, v, vertical, slash)
    if not peer:
        return Row({"": kiln}, {})
    f = example("examples/minference/example_vertical_slash_sparse_attn")._tl_vs_sparse_flashattn(1, H, S, D, NV, NS)
    offsets, single = slash_lists(columns, diagonals, S // 64)
    pad = lambda lists, n: torch.tensor([x + [0] * (n - len(x)) for x in lists], dtype=torch.int32)
    all_heads = lambda t: t.expand(1, H, *t.shape).contiguous().cuda()
    lists = (all_heads(torch.tensor([len(x) for x in offsets], dtype=torch.int32)), all_heads(pad(offsets, NS)),
             all_heads(torch.tensor([len(x) for x in single], dtype=torch.int32)), all_heads(pad(single, NV)))
    qh, kh, vh = (x.transpose(1, 2).contiguous() for x in (q, k, v))
    return Row({"": kiln}, {"TileLang": lambda: f(qh, kh, vh, *lists)}, same=lambda a, b: (a, b.transpose(1, 2)))


def masked_decode(peer, B):
    import torch
    from kiln import ops
    H, HKV, S, D = 32, 8, 8192, 128
    q, k, v = normal(B, H, D), normal(B, S, HKV, D), normal(B, S, HKV, D)
    mask = torch.randint(0, 2, (B, S, HKV), device="cuda", dtype=torch.uint8)
    kiln = lambda: ops.attention_decode(q, k, v, mask=mask)
    if not peer:
        return Row({"": kiln}, {})
    f = example("examples/flash_decoding/example_gqa_decode").flashattn(
        B, H, HKV, S, D, block_N=128, block_H=64, num_split=8 if B == 1 else 1, num_stages=2, threads=128)
    return Row({"": kiln}, {"TileLang": lambda: f(q, k, v, mask)})


def topk_select(peer, B, S):
    import torch
    from kiln import ops
    x = normal(B, S, dtype=torch.float32)
    kiln = lambda: ops.topk_select(x, 2048)
    peers = {}
    if peer:
        m = example("examples/deepseek_v32/topk_selector")
        starts, ends = torch.zeros(B, device="cuda", dtype=torch.int32), torch.full((B,), S, device="cuda", dtype=torch.int32)
        index = torch.zeros(B, 2048, device="cuda", dtype=torch.int32)
        peers["TileLang"] = lambda: (m.tl_topk_impl(x, index, starts, ends), index)[1]
    return Row({"": kiln}, peers, same=lambda a, b: (a.sort(1)[0].float(), b.sort(1)[0].float()))


def topk(peer):
    import torch
    x = torch.rand(65536, 128, device="cuda")
    kernel = lib("topk/topk.tile", "topk", T="f32", KK=6)
    if not peer:
        return Row({"": lambda: kernel(x)}, {})
    f = example("examples/topk/example_topk").tl_topk.compile(M=65536, N=128, topk=6, blk_m=64, threads=128)
    return Row({"": lambda: kernel(x)}, {"TileLang": lambda: f(x)}, same=lambda a, b: (a[0], b[0]))


def gemm_stream_k(peer, M, N, K):
    import torch
    a, b = normal(M, K), normal(N, K, scale=0.1)
    tiles = dict(BM=64, BN=64) if M == 256 else {}
    kernel = lib("gemm/stream_k.tile", "gemm_stream_k", T="f16", **tiles)
    count = torch.cuda.get_device_properties(0).multi_processor_count
    peers = {"cuBLAS": lambda: torch.matmul(a, b.T)}
    if peer and M == 256:
        m = example("examples/gemm_streamk/example_tilelang_gemm_streamk")
        c = torch.zeros(M, N, device="cuda")
        t = m.T
        import tilelang     # as written it does not compile in this version
        m.tl_matmul_streamk.pass_configs = {tilelang.PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: True}
        peers["TileLang (sums into C)"] = lambda: (m.tl_matmul_streamk(
            a, b, c, m.streamk_tiles, m.BLOCK_SIZE_M, m.BLOCK_SIZE_N, m.BLOCK_SIZE_K, False, True, t.float16, t.float32, t.float32, 2, 64), c)[1]
    return Row({"": lambda: kernel(A=a, B=b, instances=count)}, peers, same=lambda x, y: (x, y) if y.dtype == x.dtype else None)


def gemm_e4m3(peer):
    import torch
    a, b = (normal(8192, 8192, scale=0.2).to(torch.float8_e4m3fn) for _ in "ab")
    out = torch.empty(8192, 8192, device="cuda", dtype=torch.float8_e4m3fn)
    kernel = lib("gemm/gemm.tile", "gemm_nt", T="e4m3")
    one = torch.ones((), device="cuda")
    peers = {"cuBLAS (to bf16)": lambda: torch._scaled_mm(a, b.T, one, one, out_dtype=torch.bfloat16)}
    if peer:
        m = example("benchmark/matmul_fp8/benchmark_matmul")
        f = m.matmul.jit_impl(8192, 8192, 8192, False, block_M=128, block_N=256, block_K=128, num_stages=3, thread_num=256, k_pack=1,
                     policy=m.T.GemmWarpPolicy.Square, enable_rasteration=True)
        peers["TileLang"] = lambda: f(a, b)
    return Row({"": lambda: (kernel(a, b, out), out)[1]}, peers, close=5e-2, same=lambda x, y: (x.float(), y.float()))


def layer_norm(peer):
    import torch
    x, w, b = normal(4096, 8192, dtype=torch.bfloat16), normal(8192, dtype=torch.bfloat16), normal(8192, dtype=torch.bfloat16)
    out = torch.empty_like(x)
    from kiln import ops
    peers = {"a copy": lambda: (out.copy_(x), None)[1]}
    if peer:
        f = example("examples/norm/layernorm")._layernorm_fwd(4096, 8192)
        peers["TileLang"] = lambda: f(x, w, b)[0]
    return Row({"": lambda: ops.layer_norm(x, w, b)}, peers)


def rms_norm_long(peer):
    import torch
    x = normal(8192, 8192, dtype=torch.float32)
    out = torch.empty_like(x)
    kernel = lib("norm/rms_norm.tile", "rms_norm_long", T="f32", W=None)
    peers = {"a copy": lambda: (out.copy_(x), None)[1]}
    if peer:
        f = example("examples/norm/rms_norm").rms_norm_splitk.compile(M=8192, N=8192, blk_m=1, blk_k=512)
        peers["TileLang"] = lambda: f(x)
    return Row({"": lambda: kernel(X=x, eps=1e-6)}, peers)


# name, the goal (the peer's time over Kiln's), how to make it; rows of one list are built by one process, the longest to build first
ROWS = [
    [("vertical_slash H32 D128 S16384", 1.2, functools.partial(vertical_slash, H=32, D=128)),
     ("vertical_slash H1 D64 S16384", 1.2, functools.partial(vertical_slash, H=1, D=64))],
    [("mamba2_chunk_scan b8 s4096 h80", 1.2, mamba2_chunk_scan), ("topk_select 32768, 64 rows", 1.2, functools.partial(topk_select, B=64, S=32768)),
     ("topk_select 8192, 4096 rows", 1.2, functools.partial(topk_select, B=4096, S=8192))],
    [("gdn_state S32768 H32", 1.2, gdn_state), ("topk 6 of 128, 65536 rows", 1.2, topk)],
    [("conv2d N128 C128 F128 64x64 3x3", 1.0, functools.partial(convolution, patch=False)),
     ("conv2d_patch, the same", 1.0, functools.partial(convolution, patch=True))],
    [("indexer_logits S4096 SKV8192 H64 D128", 1.2, indexer_logits), ("gemm_nt e4m3 8192^3", 1.2, gemm_e4m3)],
    [("decode B128 S8192, mask", 1.2, functools.partial(masked_decode, B=128)), ("decode B1 S8192, mask", 1.2, functools.partial(masked_decode, B=1))],
    [("gemm_stream_k 256x1024x512", 1.2, functools.partial(gemm_stream_k, M=256, N=1024, K=512)),
     ("gemm_stream_k 4096^3", 1.2, functools.partial(gemm_stream_k, M=4096, N=4096, K=4096)),
     ("layer_norm 4096x8192 bf16", 1.2, layer_norm), ("rms_norm_long 8192^2 f32", 1.2, rms_norm_long)],
]


def medians(functions, count=15):
    import torch
    flush, times = torch.empty(512 << 20, device="cuda", dtype=torch.uint8), {name: [] for name in functions}
    for f in functions.values():
        f()
    for _ in range(count):
        for name, f in functions.items():
            flush.zero_()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            f()
            end.record()
            times[name].append((begin, end))
        torch.cuda.synchronize()
    middle = lambda pairs: sorted(b.elapsed_time(e) for b, e in pairs)[len(pairs) // 2]
    return {name: middle(pairs) for name, pairs in times.items()}


def compare(row, ours, theirs):
    pair = row.same(ours, theirs) if row.same else (ours, theirs)
    if pair is None or pair[0] is None or pair[1] is None:
        return 0.0
    a, b = (x.double() for x in pair)
    return float((a - b).norm() / b.norm().clamp(min=1e-30))


def work(rows, barrier, lock, queue, limit, begin):
    warnings.filterwarnings("ignore")
    peer = importlib.util.find_spec("tilelang") is not None and os.path.isdir(EXAMPLES)
    made = []
    for name, goal, make in rows:
        why, row = "", None
        for with_peer in ((True, False) if peer else (False,)):
            try:
                row = make(with_peer)
                for f in [*row.kiln.values(), *row.peers.values()]:
                    f()
                break
            except Exception as error:      # a peer that does not compile: its earlier figure; Kiln that fails: the row says so
                why, row = "%s: %s" % (type(error).__name__, (str(error).strip().splitlines() or [""])[0][:90]), None
        made.append((name, goal, row, why))
    with contextlib.suppress(Exception):
        barrier.wait(max(1, begin + 0.6 * limit - time.time()))
    for name, goal, row, why in made:
        if row is None or time.time() - begin > limit:
            queue.put((name, goal, None, {}, why or "no time left", 0))
            continue
        with lock:
            try:
                import torch
                wrong = max([compare(row, f(), p()) for f in row.kiln.values() for p in row.peers.values()], default=0)
                ms = medians({**{"kiln" + n: f for n, f in row.kiln.items()}, **row.peers})
                queue.put((name, goal, ms.pop("kiln"), ms, why, wrong if wrong > row.close else 0))
            except Exception as error:
                queue.put((name, goal, None, {}, "%s: %s" % (type(error).__name__, str(error)[:90]), 0))


def main():
    begin, limit = time.time(), float(sys.argv[1]) if len(sys.argv) > 1 else 90
    named = sys.argv[2:]
    lists = [[r for r in rows if not named or any(n in r[0] for n in named)] for rows in ROWS]
    lists = [rows for rows in lists if rows]
    start = multiprocessing.get_context("spawn")
    barrier, lock, queue = start.Barrier(len(lists)), start.Lock(), start.Queue()
    processes = [start.Process(target=work, args=(rows, barrier, lock, queue, limit, begin), daemon=True) for rows in lists]
    for p in processes:
        p.start()
    print("%-38s %9s  %-34s %5s %5s" % ("row (ms, cold L2)", "Kiln", "peers", "ratio", "goal"))
    for _ in range(sum(map(len, lists))):
        try:
            name, goal, kiln, peers, why, wrong = queue.get(timeout=max(1, begin + limit + 15 - time.time()))
        except Exception:
            print("not every row came back")
            break
        if "TileLang" not in " ".join(peers):
            known = next((ms for key, ms in TILELANG_MS.items() if name.startswith(key)), None)
            peers = {**peers, "TileLang*": known} if known else peers
        compared = {n: ms for n, ms in peers.items() if n != "a copy" and (goal <= 1 or "TileLang" in n)} or peers
        ratio = min(compared.values()) / kiln if kiln and compared else 0
        print("%-38s %9s  %-34s %5.2f %5.1f%s%s" % (name, "%.4f" % kiln if kiln else "-", ", ".join("%s %.4f" % x for x in peers.items()), ratio,
                                                    goal, "  DIFFERS by %.3g" % wrong if wrong else "", "  (%s)" % why if why else ""), flush=True)
    for p in processes:
        p.join(1)
        p.kill()


if __name__ == "__main__":
    main()
