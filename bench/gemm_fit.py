# SPDX-License-Identifier: MIT
# gemm_fit.py - fits the cost model of src/ops/gemm_tiles.c to times that bench/gemm_tune.py has measured.
#
#   python3 bench/gemm_fit.py TIMES.csv [STEPS]
#
# Two thirds of the shapes are fitted, by random steps; the others say what the fit is worth: how far the tiles that the model
# chooses are from the best that were measured. It prints the figures for `machine`, and the shapes chosen worst.
import csv, math, os, random, re, sys

SOURCE = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), '../src/ops/gemm_tiles.c')).read()
NAMES = 'flops l2_bytes latency step launch end end_element divided part part_element join_bytes l2_all each bytes memory straddle'.split()


def figure(name):
    text = re.search(r'\[2\] = ([\d.]+)' if name == 'flops' else r'\.%s = ([\d.]+)' % name, SOURCE)
    return float(text.group(1))


MACHINE = [figure(name) for name in NAMES]
# rows, columns, elements of 16 bits along K in a step, stages, whether it is turned
TILES = [(int(r), int(c), int(s) * 64, int(n), int(t == 'true')) for r, c, s, n, t in
         re.findall(r'\{ (\d+), (\d+), (\d+), (\d+), (\w+) \}', re.search(r'narrow\[\] = \{(.*?)\n\};', SOURCE, re.S).group(1))]


def over(x, y): return -(-x // y)


def cost(machine, m, n, k, rows, columns, depth, turned, parts, processors=132):
    flops, l2, latency, step, launch, end, end_element, divided, part, part_element, join, l2_all, each, most, once, straddle = machine
    steps, tiles, elements = over(k, depth), over(m, rows) * over(n, columns), rows * columns
    rest = tiles % processors if parts > 1 else 0
    moved = (min(rows, m) + columns) * depth * 2 * (straddle if k * 2 % 128 else 1)
    step += max((rows if turned else max(rows, 64)) * columns * depth * 2 / flops, moved / l2, latency * depth / 64)
    ns = over(tiles - rest, processors) * (steps * step + end + end_element * elements)
    if rest:
        ns += divided + rest * parts * elements * 4 / join
        ns += over(rest * parts, processors) * (over(steps, parts) * step + part + part_element * elements)
    ns = max(ns, tiles * steps * moved / l2_all)
    active = processors if tiles - rest >= processors else min(processors, max(rest * parts, tiles - rest))
    memory = (m * k + k * n + m * n) * 2 / min(most, active * each) + once
    return launch + max(ns, memory) + min(ns, memory) / 10


def choices(machine, times):
    best, chosen = {}, {}
    for key, tile, us, peer in times:
        ns = cost(machine, *key, *tile)
        if key not in best or us < best[key]: best[key] = us
        if key not in chosen or ns < chosen[key][0]: chosen[key] = (ns, tile, us, peer)
    return [(chosen[key][2] / best[key], chosen[key][3] / chosen[key][2], key, chosen[key][1]) for key in best]


def mean(values): return math.exp(sum(map(math.log, values)) / len(values))


def score(machine, times):
    off = sum(abs(math.log(cost(machine, *key, *tile) / us / 1000)) ** 1.5 for key, tile, us, _ in times) / len(times)
    lost = [c[0] for c in choices(machine, times)]
    strange = sum(math.log(x / y) ** 2 for x, y in zip(machine, MACHINE))  # what the times do not tell stays as it is
    return off + 3 * math.log(mean(lost)) + 0.15 * math.log(max(lost)) + 3e-4 * strange


def main():
    times = [((int(r['M']), int(r['N']), int(r['K'])), tuple(int(r[x]) for x in ('BM', 'BN', 'BK', 'turned', 'parts')),
              float(r['us']), float(r['cublas'])) for r in csv.DictReader(open(sys.argv[1]))]
    draw = random.Random(1)
    keys = sorted({t[0] for t in times})
    draw.shuffle(keys)
    fitted = set(keys[:len(keys) * 2 // 3])
    known, unknown = [t for t in times if t[0] in fitted], [t for t in times if t[0] not in fitted]
    best = list(MACHINE)
    least = score(best, known)
    for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 3000):
        trial = list(best)
        for i in draw.sample(range(len(trial)), draw.choice((1, 1, 2, 3))): trial[i] *= math.exp(draw.gauss(0, 0.15))
        if (now := score(trial, known)) < least: best, least = trial, now
    print(', '.join('%s %.4g' % x for x in zip(NAMES, best)))
    for name, part in ('fitted', known), ('others', unknown):
        found = choices(best, part)
        print('%s: %.3f of the best times, at most %.3f; cuBLAS over these %.3f, at least %.3f' %
              (name, mean([c[0] for c in found]), max(c[0] for c in found), mean([c[1] for c in found]), min(c[1] for c in found)))
    for lost, ratio, key, tile in sorted(choices(best, times), reverse=True)[:8]: print('%.2f (%.2f of cuBLAS)' % (lost, ratio), key, tile)


if __name__ == '__main__': main()
