# SPDX-License-Identifier: MIT
# gemm_tune.py - times every tile of src/ops/gemm_tiles.c, and divisions along K, on shapes drawn by seed, beside cuBLAS.
#
#   python3 bench/gemm_tune.py LIBKILN RESULT.csv [SHAPES [SEED [SECONDS]]]
#
# Of each shape the 16 likeliest choices are timed: cold L2 (clean lines of another buffer), medians of 5, while the device is
# kept busy until everything is queued. Results are compared with cuBLAS'. bench/gemm_fit.py fits the cost model to them.
import ctypes, csv, math, os, random, sys, time
import torch
from gemm_fit import MACHINE, TILES, cost

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
M = [1, 2, 4, 8, 16, 24, 32, 48, 64, 100, 128, 192, 256, 384, 512, 777, 1024, 1500, 2048, 4096]
NK = [(4096, 4096), (14336, 4096), (4096, 14336), (6144, 4096), (28672, 4096), (8192, 8192), (10240, 8192), (8192, 28672),
      (3584, 18944), (37888, 3584), (5120, 5120), (7168, 2048), (2112, 7168), (24576, 1536), (7168, 16384), (4096, 7168),
      (2880, 2880), (5120, 2880), (2880, 4096), (1024, 1024)]   # Llama, Qwen, DeepSeek, gpt-oss


class Tensor(ctypes.Structure):
    _fields_ = [('data', ctypes.c_void_p), ('type', ctypes.c_int), ('rank', ctypes.c_int), ('shape', ctypes.c_int64 * 8),
                ('strides', ctypes.c_int64 * 8), ('has_strides', ctypes.c_bool), ('device', ctypes.c_void_p)]


class Value(ctypes.Union):
    _fields_ = [('tensor', ctypes.c_void_p), ('integer', ctypes.c_int64), ('real', ctypes.c_double)]


class Arg(ctypes.Structure):
    _fields_ = [('kind', ctypes.c_int), ('value', Value)]


class Kiln:
    BF16 = 5

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.kiln_error_message.restype = ctypes.c_char_p
        self.device, self.program, self.kernels = ctypes.c_void_p(), ctypes.c_void_p(), {}
        self.check(self.lib.kiln_device_open(b'cuda:0', ctypes.byref(self.device)))
        file = os.path.join(ROOT, 'kernels/gemm/any.tile')
        self.check(self.lib.kiln_program_load_file(file.encode(), ctypes.byref(self.program)))

    def check(self, status):
        if status: raise RuntimeError(self.lib.kiln_error_message().decode())

    def kernel(self, tile):
        if tile not in self.kernels:
            kernel = ctypes.c_void_p()
            bindings = 'TB=true, BM=%d, BN=%d, BK=%d, STAGES=%d, TURN=%s, BIAS=none, RES=none' % (*tile[:4], 'true' if tile[4] else 'false')
            self.check(self.lib.kiln_kernel_build(self.device, self.program, b'gemm', bindings.encode(), None,
                                                  ctypes.byref(kernel)))
            self.kernels[tile] = kernel
        return self.kernels[tile]

    def call(self, tile, a, b, c, processors, parts):
        tensors = [Tensor(t.data_ptr(), self.BF16, 3, (1,) + t.shape, device=self.device.value) for t in (a, b, c)]
        args = (Arg * 8)()
        for i, t in enumerate(tensors): args[i] = Arg(1, Value(tensor=ctypes.addressof(t)))
        args[5], args[6], args[7] = Arg(3, Value(real=1)), Arg(2, Value(integer=processors)), Arg(2, Value(integer=parts))
        kernel, size = self.kernel(tile), ctypes.c_size_t()
        self.check(self.lib.kiln_workspace_size(kernel, args, 8, ctypes.byref(size)))
        space = torch.empty(max(size.value, 256), dtype=torch.uint8, device='cuda')
        at = ctypes.c_void_p(space.data_ptr())
        return lambda keep=(tensors, space): self.check(self.lib.kiln_launch_with(kernel, None, args, 8, at, size))


def microseconds(run, times, other):
    run()
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(times)]
    for begin, end in events:
        torch.cuda._sleep(100000)
        other.max()
        begin.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return sorted(b.elapsed_time(e) * 1000 for b, e in events)[times // 2]


def likely(shape, processors):
    m, n, k = shape
    every = []
    for tile in TILES:
        if tile[0] > 16 and tile[0] >= 2 * max(m, 8) or tile[0] < 64 and m > 4 * tile[0]: continue
        for parts in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 22, 33):
            if parts > 1 and (tile[4] or -(-k // tile[2]) < 2 * parts): continue
            every.append((cost(MACHINE, m, n, k, *tile[:3], tile[4], parts, processors), tile, parts))
    every.sort()
    taken = []
    for _, tile, parts in every:
        if sum(t == tile for t, _ in taken) < 2: taken.append((tile, parts))
    return taken[:16]


def main():
    shapes, seed, limit = (int(x) for x in (sys.argv[3:] + ['60', '1', '300'][len(sys.argv) - 3:]))
    kiln, draw, begin = Kiln(sys.argv[1]), random.Random(seed), time.time()
    processors, ratios = torch.cuda.get_device_properties(0).multi_processor_count, []
    other = torch.zeros(64 << 20, dtype=torch.int32, device='cuda')
    out = csv.writer(open(sys.argv[2], 'w'))
    out.writerow('M N K BM BN BK stages turned parts us cublas'.split())
    for _ in range(shapes):
        m, (n, k) = draw.choice(M), draw.choice(NK)
        if time.time() - begin > limit: break
        a, b = (torch.randn(rows, k, device='cuda', dtype=torch.bfloat16) for rows in (m, n))
        c, expected = torch.empty(m, n, device='cuda', dtype=torch.bfloat16), a @ b.t()
        peer = microseconds(lambda: torch.matmul(a, b.t(), out=expected), 9, other)
        best = []
        for tile, parts in likely((m, n, k), processors):
            us = microseconds(kiln.call(tile, a, b, c, processors, parts), 5, other)
            off = (c.float() - expected.float()).abs().max() / expected.float().abs().max()
            if off > 2e-2: print('WRONG', m, n, k, tile, parts, off.item())
            best.append((us, tile, parts))
            out.writerow([m, n, k, *tile, parts, round(us, 2), round(peer, 2)])
        print('%5d %5d %5d: cuBLAS %7.1f us, best %7.1f (%.2f) %s x %d, first %7.1f' %
              (m, n, k, peer, min(best)[0], peer / min(best)[0], *min(best)[1:], best[0][0]), flush=True)
        ratios.append(peer / min(best)[0])
    print('geometric mean %.3f, least %.3f of %d' % (math.exp(sum(map(math.log, ratios)) / len(ratios)), min(ratios), len(ratios)))


if __name__ == '__main__': main()
