# SPDX-License-Identifier: MIT
# gemm_fit.py - fits the model of cost of src/ops/gemm_tiles.c to times that bench/gemm_tune.py has measured, and writes it.
#
#   python3 bench/gemm_fit.py TIMES.csv... [--steps=N] [--write] [--tiles=all|used]
#
# Two thirds of the shapes are fitted, by random steps; the others say what the fit is worth: how far the tiles that the model
# chooses are from the best that were measured, and from cuBLAS. It prints both for the figures that stand in src/ops/gemm_costs.c
# and for those found, then the shapes chosen worst. --write: puts those found into that file, if the others are chosen better by
# them. --tiles: of the measured tiles all, or (the default) those that are the best, or within 2% of it, for some shape.
import csv, math, os, random, re, sys
import torch

COSTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../src/ops/gemm_costs.c')
NAMES = ('flops_1 flops_2 l2_bytes latency step launch end end_element divided part part_element join_bytes l2_all each bytes '
         'memory straddle').split()
PARTS_MAX, TURNED_ROWS, STEP_BYTES, PROCESSORS = 33, 64, 128, 132     # as in gemm_tiles.c
FAR, MISSED = 2, 1.03                                                  # times the best of a shape: more tell little; gets a row of its own
FINAL = '''// SPDX-License-Identifier: MIT
// gemm_costs.c - the figures of the model of cost of gemm_tiles.c, and its tiles.
//
// Written by bench/gemm_table.sh; not meant to be edited.
// %s
#include "ops/gemm_tiles.h"

#include "base/arena.h"

// clang-format off
const GemmMachine gemm_machine = {
%s
};

const GemmTile gemm_tiles[] = {
%s
};
// clang-format on
const int gemm_n_tiles = COUNT(gemm_tiles);

// clang-format off
const GemmKnown gemm_known[] = {
%s
};
// clang-format on
const int gemm_n_known = COUNT(gemm_known);
'''


def read_costs(path=COSTS):
    """The figures, by name; the tiles: rows, columns, steps of 128 bytes, stages, turned; their factors."""
    source = open(path).read()
    figures = {'flops_%s' % b: float(x) for b, x in re.findall(r'\[(\d)\] = ([\d.]+)', source)}
    figures.update({name: float(x) for name, x in re.findall(r'\.(\w+) = ([\d.]+)', source)})
    rows = re.findall(r'\{ (\d+), (\d+), (\d+), (\d+), (true|false), ([\d.]+) \}', source)
    tiles = [(int(r), int(c), int(s), int(n), int(t == 'true')) for r, c, s, n, t, _ in rows]
    return figures, tiles, [float(x[5]) for x in rows]


def number(x, digits):
    text = '%f' % float('%.*g' % (digits, x))                          # without an exponent
    return text.rstrip('0').rstrip('.')


def over(x, y): return torch.ceil(x / y)


def cost(machine, factor, m, n, k, size, rows, columns, steps, turned, parts):
    """ns of products, as gemm_tiles.c has it. Tensors of f64 but machine; size: bytes of an element."""
    f1, f2, l2, latency, step, launch, end, end_element, divided, part, part_element, join, l2_all, each, most, once, straddle = machine
    depth = steps * STEP_BYTES / size
    along, tiles, elements = over(k, depth), over(m, rows) * over(n, columns), rows * columns
    rest = torch.where(parts > 1, tiles % PROCESSORS, 0)
    whole, shared = tiles - rest, rest * parts
    moved = (torch.minimum(rows, m) + columns) * STEP_BYTES * steps * torch.where(k * size % STEP_BYTES > 0, straddle, 1.0)
    flops = torch.where(size == 1, f1, f2)
    math_ns = torch.where(turned > 0, rows, torch.clamp(rows, min=64)) * columns * depth * 2 / flops
    one = (torch.maximum(torch.maximum(math_ns, moved / l2), latency * steps) + step) * factor
    ns = over(whole, PROCESSORS) * (along * one + end + end_element * elements)
    more = divided + shared * elements * 4 / join + over(shared, PROCESSORS) * (over(along, parts) * one + part + part_element * elements)
    ns = torch.maximum(ns + torch.where(rest > 0, more, 0.0), tiles * along * moved / l2_all)
    active = torch.clamp(torch.maximum(whole, shared), max=PROCESSORS)
    memory = (m * k + k * n + m * n) * size / torch.clamp(active * each, max=most) + once
    return launch + torch.maximum(ns, memory) + torch.minimum(ns, memory) / 10


def wasteful(m, tile): return tile[0] > 16 and tile[0] >= 2 * max(m, 8) or tile[0] < 64 and m > 4 * tile[0]


def possible(m, n, k, size, tiles):
    """Every tile and number of parts that gemm_tiles.c would consider: index of a tile, parts."""
    found = []
    for i, t in enumerate(tiles):
        if wasteful(m, t): continue
        along = -(-k // (t[2] * STEP_BYTES // size))
        for parts in range(1, (1 if t[4] and t[0] > TURNED_ROWS else PARTS_MAX) + 1):
            if parts > 1 and along < 2 * parts: break
            found.append((i, parts))
    return found


def mean(values): return math.exp(sum(map(math.log, values)) / len(values)) if values else float('nan')


class Times:
    """Measured times, in columns; those of one shape stand together."""
    def __init__(self, rows, tiles):
        f = lambda values: torch.tensor(values, dtype=torch.float64)
        self.keys = sorted({r[0] for r in rows})
        rows = sorted(rows, key=lambda r: r[0])
        self.rows, self.tile = rows, torch.tensor([tiles.index(r[1]) for r in rows])
        self.m, self.n, self.k, self.size = (f([r[0][i] for r in rows]) for i in range(4))
        self.shape = [f([r[1][i] for r in rows]) for i in (0, 1, 2, 4)]
        self.parts, self.us, self.peer = f([r[2] for r in rows]), f([r[3] for r in rows]), f([r[4] for r in rows])
        at = {key: i for i, key in enumerate(self.keys)}
        self.key = torch.tensor([at[r[0]] for r in rows])
        self.best = torch.full((len(self.keys),), math.inf, dtype=torch.float64).scatter_reduce(0, self.key, self.us, 'amin')

    def cost(self, machine, factors):
        rows, columns, steps, turned = self.shape
        return cost(machine, factors[self.tile], self.m, self.n, self.k, self.size, rows, columns, steps, turned, self.parts)

    def chosen(self, ns):
        """Of each shape the place of what is expected to be the fastest."""
        least = torch.full((len(self.keys),), math.inf, dtype=torch.float64).scatter_reduce(0, self.key, ns, 'amin')
        place = torch.arange(len(ns))
        return torch.full((len(self.keys),), len(ns)).scatter_reduce(0, self.key, torch.where(ns <= least[self.key], place, len(ns)), 'amin')

    def score(self, machine, factors, start):
        ns = self.cost(machine, factors)
        off = torch.log(ns / self.us / 1000).abs()
        near = self.us < 1.3 * self.best[self.key]                     # what is far from the best need not be known well
        lost = torch.log(self.us[self.chosen(ns)] / self.best)
        strange = (torch.log(torch.tensor(machine) / torch.tensor(start[0])) ** 2).sum() * 3e-4 + (torch.log(factors / start[1]) ** 2).mean() * 0.02
        return (off[near] ** 1.5).mean() + 0.3 * (off ** 1.5).mean() + 3 * lost.mean() + 0.1 * lost.max() + strange

    def report(self, name, machine, factors):
        at = self.chosen(self.cost(machine, factors))
        lost, ratio = (self.us[at] / self.best).tolist(), (self.peer[at] / self.us[at]).tolist()
        top = (self.peer[at] / self.best).tolist()
        print('%s: %d shapes; of the best measured %.3f, at most %.3f; cuBLAS over chosen %.3f, least %.3f, %d below 0.9; over the best measured %.3f, least %.3f' %
              (name, len(lost), mean(lost), max(lost), mean(ratio), min(ratio), sum(x < 0.9 for x in ratio), mean(top), min(top)))
        return at, lost, ratio


def read_times(paths):
    rows = []
    for path in paths:
        for r in csv.DictReader(open(path)):
            tile = tuple(int(r[x]) for x in ('BM', 'BN', 'steps', 'stages', 'turned'))
            rows.append(((int(r['M']), int(r['N']), int(r['K']), int(r['size'])), tile, int(r['parts']), float(r['us']), float(r['cublas'])))
    return rows


def fit(times, start, steps):
    draw = random.Random(1)
    best, least = start, times.score(*start, start)
    for i in range(steps):
        machine, factors = list(best[0]), best[1].clone()
        width = 0.2 * (1 - i / steps) + 0.01
        if draw.random() < 0.5:
            for j in draw.sample(range(len(machine)), draw.choice((1, 1, 2, 3))): machine[j] *= math.exp(draw.gauss(0, width))
        else:
            for j in draw.sample(range(len(factors)), min(len(factors), draw.choice((1, 1, 2, 4)))): factors[j] *= math.exp(draw.gauss(0, width / 2))
        now = times.score(machine, factors, start)
        if now < least: best, least = (machine, factors), now
    return best


def known_rows(times, machine, factors):
    """Of shapes whose choice takes more than MISSED of the best: bytes, M, N, K, place of the tile, parts."""
    at, best = times.chosen(times.cost(machine, factors)).tolist(), {}
    for i, (key, _, _, us, _) in enumerate(times.rows):
        if us < best.get(key, (math.inf,))[0]: best[key] = (us, i)
    missed = [(times.rows[i][0], best[times.rows[i][0]][1]) for i in at if times.rows[i][3] > MISSED * best[times.rows[i][0]][0]]
    return sorted((key[3], *key[:3], times.tile[i].item(), times.rows[i][2]) for key, i in missed)


def write_costs(about, machine, factors, tiles, known_shapes=()):
    figures, known = dict(zip(NAMES, machine)), read_costs()[0]
    flops = ', '.join('[%d] = %s' % (size, number(x, 5)) for size, x in ((1, figures['flops_1']), (2, figures['flops_2']), (4, figures['flops_2'] / 2)))
    groups = ['    .tensor_flops = { %s },' % flops, '    .flops_f32 = %s,' % number(known['flops_f32'], 4),
              "    .flops_f64 = %s, // a guess, half of f32's" % number(known['flops_f64'], 4)]
    groups += ['    .%s = %s,' % (name, number(figures[name], 4)) for name in NAMES[2:]]
    lines = ['    { %d, %d, %d, %d, %s, %.3f },' % (*t[:4], 'true' if t[4] else 'false', f) for t, f in zip(tiles, factors)]
    shapes = ['    { %d, %d, %d, %d, %d, %d },' % row for row in known_shapes] or ['    { 0, 0, 0, 0, 0, 0 },']
    open(COSTS, 'w').write(FINAL % (about, '\n'.join(groups), '\n'.join(lines), '\n'.join(shapes)))


def main():
    torch.set_num_threads(1)
    options = dict(x[2:].split('=') if '=' in x else (x[2:], '1') for x in sys.argv[1:] if x.startswith('--'))
    rows = read_times([x for x in sys.argv[1:] if not x.startswith('--')])
    figures, tiles, factors = read_costs()
    near = {}
    for key, tile, _, us, _ in rows: near[key] = min(near.get(key, math.inf), us)
    wanted = {tile for key, tile, _, us, _ in rows if us <= 1.02 * near[key]} if options.get('tiles', 'used') == 'used' else {r[1] for r in rows}
    known = dict(zip(tiles, factors))
    before = Times([r for r in rows if r[1] in known], tiles)
    taken = [t for t in tiles if t in wanted] + sorted(t for t in wanted if t not in known)
    rows = [r for r in rows if r[1] in wanted]
    keys = sorted(near)
    random.Random(1).shuffle(keys)
    fitted = set(keys[:len(keys) * 2 // 3])
    fitted_rows, other_rows = [r for r in rows if r[0] in fitted], [r for r in rows if r[0] not in fitted]
    start = ([figures[name] for name in NAMES], torch.tensor([known.get(t, 1.0) for t in taken], dtype=torch.float64))
    found = fit(Times([r for r in fitted_rows if r[3] <= FAR * near[r[0]]], taken), start, int(options.get('steps', 2000)))
    print(', '.join('%s %.4g' % x for x in zip(NAMES, found[0])))
    print('%d tiles of %d: ' % (len(taken), len({r[1] for r in rows} | set(tiles))) + ', '.join('%dx%dx%d%s %.2f' % (*t[:3], 't' if t[4] else '', f) for t, f in zip(taken, found[1])))
    others = Times(other_rows, taken)
    was = Times([r for r in before.rows if r[0] not in fitted], tiles).report('others, by the figures there are', start[0], torch.tensor(factors, dtype=torch.float64)) if before.rows else None
    Times(fitted_rows, taken).report('fitted', *found)
    at, lost, ratio = others.report('others, by these', *found)
    for x, r, i in sorted(zip(lost, ratio, at.tolist()), reverse=True)[:8]:
        print('%.2f of the best (cuBLAS %.2f)' % (x, r), *others.rows[i][:3])
    if 'write' not in options: return
    if was and mean(was[2]) >= mean(ratio): return print('not better: %s stays' % os.path.basename(COSTS))
    about = '%d times of %d shapes; of %d others the model\'s choice is %.3f of the best measured, and %.3f of cuBLAS.' % (len(rows), len(keys), len(ratio), mean(lost), mean(ratio))
    write_costs(about, found[0], found[1].tolist(), taken, known_rows(Times(rows, taken), *found))
    print('written: %s' % os.path.relpath(COSTS))


if __name__ == '__main__': main()
