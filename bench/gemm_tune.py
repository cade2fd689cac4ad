# SPDX-License-Identifier: MIT
# gemm_tune.py - times tiles of kiln_gemm, and divisions along K, on shapes drawn by seed, beside cuBLAS. Used by gemm_table.sh.
#
#   python3 bench/gemm_tune.py LIBKILN KILN RESULT.csv [--shapes=N] [--seed=N] [--seconds=N] [--types=bf16,e4m3] [--few]
#
# The tiles are those of src/ops/gemm_costs.c and CANDIDATES. Their kernels are built first, by KILN, in parallel, for at most half of
# the seconds; what is not built then is left out. Of each shape the likeliest choices by the model are timed: cold L2 (clean lines of
# another buffer), medians of 5, while the device is kept busy until everything is queued. Results are compared with cuBLAS'. Each shape's times are
# in the file when its line is printed. --few: shapes of at most 16 rows alone. Last it prints how many rows of at most 16 read B at
# less than 85% of the device's bandwidth, and which, where B has 8 MB or more.
import ctypes, csv, os, random, subprocess, sys, time
from concurrent.futures import ThreadPoolExecutor
import torch
import gemm_fit
from gemm_fit import NAMES, PROCESSORS, STEP_BYTES, cost, possible, read_costs

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
FILE = os.path.join(ROOT, 'kernels/gemm/any.tile')
M = [1, 2, 4, 8, 16, 24, 32, 48, 64, 100, 128, 192, 256, 384, 512, 777, 1024, 1500, 2048, 4096, 8192]
NK = [(4096, 4096), (14336, 4096), (4096, 14336), (6144, 4096), (28672, 4096), (8192, 8192), (10240, 8192), (8192, 28672),
      (3584, 18944), (37888, 3584), (5120, 5120), (51200, 5120), (5120, 25600), (7168, 2048), (2112, 7168), (24576, 1536), (7168, 16384),
      (4096, 7168), (36864, 7168), (2880, 2880), (5120, 2880), (2880, 4096), (1024, 1024)]   # Llama, Qwen, DeepSeek, gpt-oss
CANDIDATES = [(16, 64, 1, 16, 1), (16, 128, 1, 12, 1), (16, 128, 2, 6, 1), (32, 64, 1, 12, 1), (32, 128, 1, 10, 1), (48, 128, 1, 8, 1),
              (64, 128, 1, 8, 1), (96, 128, 1, 7, 1), (144, 128, 1, 6, 1), (160, 128, 1, 6, 1)]
OPERATIONS_MOST, CHOICES, EACH = 3e12, 20, 2                            # of a shape; timed of a shape, and of a tile
LARGE = 8e3                                                             # KB of a matrix whose reading is told
TYPES = {'bf16': (5, torch.bfloat16, 2), 'f16': (4, torch.float16, 2), 'e4m3': (6, torch.float8_e4m3fn, 1)}


class Tensor(ctypes.Structure):
    _fields_ = [('data', ctypes.c_void_p), ('type', ctypes.c_int), ('rank', ctypes.c_int), ('shape', ctypes.c_int64 * 8),
                ('strides', ctypes.c_int64 * 8), ('has_strides', ctypes.c_bool), ('device', ctypes.c_void_p)]


class Value(ctypes.Union):
    _fields_ = [('tensor', ctypes.c_void_p), ('integer', ctypes.c_int64), ('real', ctypes.c_double)]


class Arg(ctypes.Structure):
    _fields_ = [('kind', ctypes.c_int), ('value', Value)]


# As src/ops/gemm.c builds it, of plain products.
def bindings(name, tile):
    result, depth = 'bf16' if name == 'e4m3' else name, tile[2] * STEP_BYTES // TYPES[name][2]
    return ('T=%s, U=%s, TC=%s, TA=false, TB=true, PREC=0, ACT=0, BM=%d, BN=%d, BK=%d, STAGES=%d, EVEN=true, TURN=%s, PA=false, '
            'PB=false, WHOLE=false, UP=none, SA=none, SB=none, UPS=none, BIAS=none, UPB=none, RES=none' %
            (name, name, result, *tile[:2], depth, tile[3], 'true' if tile[4] else 'false'))


class Kiln:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.kiln_error_message.restype = ctypes.c_char_p
        self.device, self.program, self.kernels = ctypes.c_void_p(), ctypes.c_void_p(), {}
        self.check(self.lib.kiln_device_open(b'cuda:0', ctypes.byref(self.device)))
        self.check(self.lib.kiln_program_load_file(FILE.encode(), ctypes.byref(self.program)))

    def check(self, status):
        if status: raise RuntimeError(self.lib.kiln_error_message().decode())

    def kernel(self, name, tile):
        if (name, tile) not in self.kernels:
            kernel = ctypes.c_void_p()
            self.check(self.lib.kiln_kernel_build(self.device, self.program, b'gemm', bindings(name, tile).encode(), None, ctypes.byref(kernel)))
            self.kernels[name, tile] = kernel
        return self.kernels[name, tile]

    def call(self, name, tile, a, b, c, parts):
        number = TYPES[name][0]
        types = (number, number, TYPES['bf16'][0] if name == 'e4m3' else number)
        tensors = [Tensor(t.data_ptr(), kind, 3, (1,) + t.shape, device=self.device.value) for t, kind in zip((a, b, c), types)]
        args = (Arg * 13)()                                             # A B UP C SA SB UPS BIAS UPB RES scale p parts
        for i, t in zip((0, 1, 3), tensors): args[i] = Arg(1, Value(tensor=ctypes.addressof(t)))
        args[10], args[11], args[12] = Arg(3, Value(real=1)), Arg(2, Value(integer=PROCESSORS)), Arg(2, Value(integer=parts))
        kernel, size = self.kernel(name, tile), ctypes.c_size_t()
        self.check(self.lib.kiln_workspace_size(kernel, args, 13, ctypes.byref(size)))
        space = torch.empty(max(size.value, 256), dtype=torch.uint8, device='cuda')
        at = ctypes.c_void_p(space.data_ptr())
        return lambda keep=(tensors, space): self.check(self.lib.kiln_launch_with(kernel, None, args, 13, at, size))


def build(kiln, names, tiles, jobs, end):
    """The tiles of each type whose kernels could be built in time."""
    def one(what):
        name, tile = what
        if time.time() > end: return None
        try:
            done = subprocess.run([kiln, 'build', '--device=cuda:0', FILE, 'gemm', bindings(name, tile)], capture_output=True, text=True,
                                  timeout=max(1, end - time.time()))
        except subprocess.TimeoutExpired: return None
        if done.returncode: print('# not built:', name, tile, done.stderr.strip().split('\n')[-1][:120], flush=True)
        return None if done.returncode else what
    with ThreadPoolExecutor(jobs) as pool: built = set(pool.map(one, [(name, tile) for name in names for tile in tiles]))
    return {name: [t for t in tiles if (name, t) in built] for name in names}


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


def likely(key, tiles, machine, factors):
    """The choices that the model expects to be the fastest, at most EACH of a tile: tile, parts."""
    m, n, k, size = key
    choices = possible(m, n, k, size, tiles)
    f = lambda values: torch.tensor(values, dtype=torch.float64)
    t = [tiles[i] for i, _ in choices]
    column = lambda i: f([x[i] for x in t])
    same = lambda x: torch.full((len(t),), float(x), dtype=torch.float64)
    ns = cost(machine, f([factors[i] for i, _ in choices]), same(m), same(n), same(k), same(size), column(0), column(1), column(2), column(4),
              f([p for _, p in choices]))
    taken = []
    for at in torch.argsort(ns).tolist():
        tile, parts = t[at], choices[at][1]
        if sum(x == tile for x, _ in taken) < EACH: taken.append((tile, parts))
    return taken[:CHOICES]


def drawn(draw, few):
    """A shape: three of four as engines have it, one of any size in whole vectors."""
    if few: return draw.choice((1, 2, 4, 8, 16)), *draw.choice(NK)
    while True:
        m, (n, k) = draw.choice(M), draw.choice(NK)
        if draw.random() < 0.25: m, n, k = int(2 ** draw.uniform(0, 14)), *(16 * int(2 ** draw.uniform(0, 10)) for _ in range(2))
        if 2.0 * m * n * k <= OPERATIONS_MOST: return m, n, k


def operands(m, n, k, name):
    a, b = (torch.randn(rows, k, device='cuda', dtype=torch.bfloat16) for rows in (m, n))
    if name != 'e4m3':
        a, b = a.to(TYPES[name][1]), b.to(TYPES[name][1])
        expected = a @ b.t()
        return a, b, expected, lambda: torch.matmul(a, b.t(), out=expected)
    a, b, one = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn), torch.ones((), device='cuda')
    run = lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True)
    return a, b, run(), run


def time_shape(kiln, name, tiles, shape, model, other, out):
    m, n, k = shape
    size = TYPES[name][2]
    a, b, expected, rival = operands(m, n, k, name)
    c, peer, best = torch.empty_like(expected), microseconds(rival, 9, other), []
    rows, top = slice(0, min(m, 1 + (1 << 24) // n)), expected.abs().max().float()
    for tile, parts in likely((m, n, k, size), tiles, *model):
        us = microseconds(kiln.call(name, tile, a, b, c, parts), 5, other)
        off = ((c[rows].float() - expected[rows].float()).abs().max() / top).item()
        if not off < 2e-2: print('WRONG', name, m, n, k, tile, parts, off)
        best.append((us, tile, parts))
        out.writerow([m, n, k, size, *tile, parts, round(us, 2), round(peer, 2)])
    return peer, best


def summary(ratios, few, bandwidth):
    if not ratios: return print('no shape was timed')
    print('geometric mean %.3f, least %.3f of %d' % (gemm_fit.mean(ratios), min(ratios), len(ratios)))
    missed = sorted(x for x in few if x[0] < 0.85)
    print('of %d rows with at most 16 and 8 MB of B, %d read B at less than 85%% of %.0f GB/s:' % (len(few), len(missed), bandwidth))
    for share, peer, name, shape, tile, parts in missed[:24]: print('  %.2f (cuBLAS %.2f) %s %d x %d x %d: %s x %d' % (share, peer, name, *shape, tile, parts))


def main():
    options = dict(x[2:].split('=') if '=' in x else (x[2:], '1') for x in sys.argv[1:] if x.startswith('--'))
    library, command, result = [x for x in sys.argv[1:] if not x.startswith('--')]
    begin, seconds = time.time(), float(options.get('seconds', 300))
    names, draw = options.get('types', 'bf16,e4m3').split(','), random.Random(int(options.get('seed', 1)))
    figures, tiles, factors = read_costs()
    more = [t for t in CANDIDATES if t not in tiles]
    tiles, factors = tiles + more, factors + [1.0] * len(more)
    built = build(command, names, tiles, os.cpu_count() or 8, begin + seconds / 2)
    print('# %.0f s: built ' % (time.time() - begin) + ', '.join('%d of %d for %s' % (len(built[x]), len(tiles), x) for x in names), flush=True)
    kiln, other = Kiln(library), torch.zeros(64 << 20, dtype=torch.int32, device='cuda')
    machine, ratios, few = [figures[x] for x in NAMES], [], []
    properties = torch.cuda.get_device_properties(0)
    bandwidth = 4800.0 if 'H200' in properties.name else 3350.0
    with open(result, 'w', newline='') as file:
        out = csv.writer(file)
        out.writerow('M N K size BM BN steps stages turned parts us cublas'.split())
        for i in range(int(options.get('shapes', 100000))):
            if time.time() - begin > seconds: break
            name, shape = names[i % len(names)], drawn(draw, 'few' in options)
            if name == 'e4m3': shape = shape[0], *(x // 16 * 16 for x in shape[1:])
            if not built[name]: continue
            model = machine, [f for t, f in zip(tiles, factors) if t in built[name]]
            peer, best = time_shape(kiln, name, built[name], shape, model, other, out)
            file.flush()
            if not best: continue
            us, tile, parts = min(best)
            print('%s %5d %5d %5d: cuBLAS %7.1f us, best %7.1f (%.2f) %s x %d, first %7.1f' % (name, *shape, peer, us, peer / us, tile, parts, best[0][0]), flush=True)
            ratios.append(peer / us)
            read = shape[1] * shape[2] * TYPES[name][2] / 1e3 / bandwidth
            if shape[0] <= 16 and read * bandwidth > LARGE: few.append((read / us, read / peer, name, shape, tile, parts))
    summary(ratios, few, bandwidth)


if __name__ == '__main__': main()
