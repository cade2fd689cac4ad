# SPDX-License-Identifier: MIT
"""The operators with a state against NumPy, token by token: whole sequences, packed ones, steps that go on where one ended."""
import unittest

import numpy as np

import kiln
from kiln import ops

random = np.random.default_rng(2)


def normal(*shape):
    return random.standard_normal(shape, dtype=np.float32)


def uniform(low, high, *shape):
    return random.uniform(low, high, shape).astype("f4")


def i32(*numbers):
    return np.array(numbers, "i4")


def near(got, expected, tolerance=1e-3):
    np.testing.assert_allclose(np.asarray(got), expected, rtol=tolerance, atol=tolerance)


def softplus(x):
    return np.log1p(np.exp(x))


def silu(x):
    return x / (1 + np.exp(-x))


# Each takes the tokens of one sequence and a state, f64; it returns the outputs and the states after each token.

def delta_net(q, k, v, g, beta, x, normalize=False):
    group, out, states = v.shape[1] // k.shape[1], np.empty(v.shape), []
    for t in range(len(v)):
        qt, kt = (np.repeat(y[t], group, 0).astype("f8") for y in (q, k))
        if normalize:
            qt, kt = (y / np.sqrt((y * y).sum(1, keepdims=True) + 1e-6) for y in (qt, kt))
        x = np.exp(g[t].astype("f8").reshape(v.shape[1], -1, 1)) * x            # of each head, or of each channel
        lack = beta[t][:, None] * (v[t] - np.einsum("hk,hkv->hv", kt, x))
        x = x + kt[:, :, None] * lack[:, None]
        out[t] = np.einsum("hk,hkv->hv", qt, x) * q.shape[2] ** -0.5
        states.append(x)
    return out, states


def linear(q, k, v, g, x):
    group, out, states = v.shape[1] // k.shape[1], np.empty(v.shape), []
    for t in range(len(v)):
        qt, kt = (np.repeat(y[t], group, 0).astype("f8") for y in (q, k))
        x = np.exp(g[t].astype("f8"))[:, None, None] * x + kt[:, :, None] * v[t][:, None]
        out[t] = np.einsum("hk,hkv->hv", qt, x) * q.shape[2] ** -0.5
        states.append(x)
    return out, states


def mamba2(u, dt, a, b, c, x, skip=0, dt_bias=0):
    group, out, states = u.shape[1] // b.shape[1], np.empty(u.shape), []
    for t in range(len(u)):
        bt, ct, d = np.repeat(b[t], group, 0).astype("f8"), np.repeat(c[t], group, 0), softplus(dt[t] + dt_bias)
        x = np.exp(a * d)[:, None, None] * x + (d[:, None] * u[t])[:, :, None] * bt[:, None]
        out[t] = np.einsum("hpn,hn->hp", x, ct) + np.reshape(skip, (-1, 1)) * u[t]
        states.append(x)
    return out, states


def convolution(x, taps, state, bias=0):
    every, width = np.concatenate([state, x]), taps.shape[1]
    out = np.stack([(every[t:t + width] * taps.T).sum(0) + bias for t in range(len(x))])
    return silu(out), [every[t + 1:t + width] for t in range(len(x))]


def rises_along(gradients, inputs, total, tolerance=2e-3):
    """The sum of squares of all gradients is how much `total`, a number made from the inputs in f64, rises along them."""
    step, length = 1e-4, sum(float((np.asarray(d, "f8") ** 2).sum()) for d in gradients)
    two = [total(*(x.astype("f8") + sign * step * d / length ** 0.5 for x, d in zip(inputs, gradients))) for sign in (1, -1)]
    np.testing.assert_allclose((two[0] - two[1]) / (2 * step), length ** 0.5, rtol=tolerance)


class Recurrent(unittest.TestCase):
    HK, H, DK, DV = 2, 4, 16, 32

    def tokens(self, batch, n):
        """q, k, v, gates, beta"""
        return (normal(batch, n, self.HK, self.DK), normal(batch, n, self.HK, self.DK), normal(batch, n, self.H, self.DV),
                -uniform(0, 1, batch, n, self.H), uniform(0, 1, batch, n, self.H))

    def test_what_stands_around_them(self):
        a, b, log, bias = normal(5, 3), normal(5, 3), uniform(-1, 1, 3), normal(3)
        gates, beta = ops.gdn_gates(a, b, log, dt_bias=bias)
        near(gates, -np.exp(log) * softplus(a + bias)), near(beta, 1 / (1 + np.exp(-b)))
        dg, dbeta = normal(5, 3), normal(5, 3)
        da, db, dlog, dbias = ops.gdn_gates_backward(a, b, log, dg, dbeta, dt_bias=bias)
        expected = -dg * np.exp(log) / (1 + np.exp(-a - bias))
        near(da, expected), near(dbias, expected.sum(0)), near(dlog, (dg * gates).sum(0)), near(db, dbeta * beta * (1 - beta))
        x, z, weight, dout = normal(4, 3, 32), normal(4, 3, 32), uniform(0.5, 1.5, 32), normal(4, 3, 32)
        r = 1 / np.sqrt((x * x).mean(2, keepdims=True) + 1e-6)
        near(ops.gated_norm(x, z, weight), x * r * weight * silu(z))
        dx, dz, dweight = ops.gated_norm_backward(x, z, weight, dout)
        self.assertEqual((dx.shape, dz.shape), (x.shape, x.shape))
        near(dweight, (dout * x * r * silu(z)).sum((0, 1)))

    def test_gated_delta_net(self):
        q, k, v, g, beta = self.tokens(2, 70)                   # more than a chunk
        initial = normal(2, self.H, self.DK, self.DV)
        out, final = ops.gdn_forward(q, k, v, g, beta, initial_states=initial, normalize=True, return_states=True)
        for b in range(2):
            expected, states = delta_net(q[b], k[b], v[b], g[b], beta[b], initial[b], True)
            near(out[b], expected), near(final[b], states[-1])
        given = np.empty_like(out)
        self.assertIs(ops.gdn_forward(q, k, v, g, beta, given, initial_states=initial, normalize=True), given)
        np.testing.assert_array_equal(given, out)

    def test_gated_delta_net_by_steps(self):
        q, k, v, g, beta = self.tokens(2, 3)
        pool = normal(5, self.H, self.DK, self.DV)
        before, first, to = pool.copy(), i32(4, 0), i32([1, 4, -1], [0, 3, 2])
        out = ops.gdn_step(q, k, v, g, beta, pool, from_=first, to=to, normalize=True)
        for b in range(2):
            expected, states = delta_net(q[b], k[b], v[b], g[b], beta[b], before[first[b]], True)
            near(out[b], expected)
            for t, number in enumerate(to[b]):
                if number >= 0:
                    near(pool[number], states[t])
        held = pool.copy()
        ops.gdn_step(q[:, :1], k[:, :1], v[:, :1], g[:, :1].copy(), beta[:, :1].copy(), pool, normalize=True)   # in place
        near(pool[1], delta_net(q[1], k[1], v[1], g[1], beta[1], held[1], True)[1][0])
        np.testing.assert_array_equal(pool[2:], held[2:])

    def test_kimi_delta_attention(self):
        q, k, v, _, beta = self.tokens(1, 70)
        g, pool = -uniform(0, 1, 1, 70, self.H, self.DK), normal(1, self.H, self.DK, self.DV)
        out, final = ops.gdn_forward(q, k, v, g, beta, initial_states=pool, normalize=True, return_states=True)
        expected, states = delta_net(q[0], k[0], v[0], g[0], beta[0], pool[0], True)
        near(out[0], expected), near(final[0], states[-1])
        first = ops.gdn_step(q[:, :1], k[:, :1], v[:, :1], g[:, :1], beta[:, :1], pool, normalize=True)
        near(first[0], expected[:1]), near(pool[0], states[0])

    def test_gradients_of_a_gated_delta_net(self):
        q, k, v, g, beta = self.tokens(1, 70)
        dout, initial, dfinal = normal(1, 70, self.H, self.DV), normal(1, self.H, self.DK, self.DV), normal(1, self.H, self.DK, self.DV)

        def total(q, k, v, g, beta, x):
            out, states = delta_net(q[0], k[0], v[0], g[0], beta[0], x[0], True)
            return (out * dout[0]).sum() + (states[-1] * dfinal[0]).sum()
        for gates in (g, -uniform(0, 1, 1, 70, self.H, self.DK)):                    # of each head, of each channel
            inputs = q, k, v, gates, beta
            made = ops.gdn_backward(*inputs, dout, initial_states=initial, dfinal_states=dfinal, normalize=True, return_states=True)
            for i, d in enumerate(made):                        # of each input alone
                every = [d if i == j else np.zeros_like(x) for j, x in enumerate((*inputs, initial))]
                rises_along(every, (*inputs, initial), total)
        self.assertEqual(len(ops.gdn_backward(q, k, v, g, beta, dout)), 5)

    def test_linear_attention_of_packed_sequences(self):
        q, k, v, g, _ = self.tokens(1, 75)
        decay, offsets, initial = np.log(1 - 2.0 ** (-5 - np.arange(4))).astype("f4"), i32(0, 5, 5, 75), normal(3, 4, 16, 32)
        out, final = ops.linear_attention(q, k, v, gates=g, decay=decay, offsets=offsets, initial_states=initial,
                                          return_states=True)
        for n, (b, e) in enumerate(((0, 5), (5, 5), (5, 75))):
            expected, states = linear(q[0, b:e], k[0, b:e], v[0, b:e], g[0, b:e] + decay, initial[n])
            near(out[0, b:e], expected), near(final[n], states[-1] if states else initial[n])
        step = ops.linear_attention_step(q[:, :2], k[:, :2], v[:, :2], initial, gates=g[:, :2], decay=decay, from_=i32(2))
        alone = ops.linear_attention(q[:, :2], k[:, :2], v[:, :2], gates=g[:, :2], decay=decay)
        self.assertEqual((step.shape, alone.shape), ((1, 2, 4, 32), (1, 2, 4, 32)))
        near(alone[0], linear(q[0, :2], k[0, :2], v[0, :2], g[0, :2] + decay, np.zeros((4, 16, 32)))[0])

    def test_mamba2(self):
        batch, n, heads, size, groups, width = 2, 10, 4, 16, 2, 16
        u, dt, b, c = normal(batch, n, heads, size), normal(batch, n, heads), *(normal(batch, n, groups, width) for _ in "bc")
        a, skip, dt_bias = -uniform(0.5, 2, heads), normal(heads), normal(heads)
        initial = normal(batch, heads, size, width)
        out, final = ops.mamba2_forward(u, dt, a, b, c, skip=skip, dt_bias=dt_bias, initial_states=initial, return_states=True)
        z, pool = normal(batch, 2, heads, size), final.copy()
        step = ops.mamba2_step(u[:, :2], dt[:, :2], a, b[:, :2], c[:, :2], pool, skip=skip, dt_bias=dt_bias, z=z)
        for i in range(batch):
            expected, states = mamba2(u[i], dt[i], a, b[i], c[i], initial[i], skip, dt_bias)
            near(out[i], expected), near(final[i], states[-1])
            expected, states = mamba2(u[i, :2], dt[i, :2], a, b[i, :2], c[i, :2], final[i], skip, dt_bias)
            near(step[i], expected * silu(z[i])), near(pool[i], states[-1])

    def along(self, loss, gradients, *inputs):
        """The gradients in one direction are the difference of the loss there."""
        ways = [normal(*x.shape) for x in inputs]
        above, below = (loss(*(x.astype("f8") + step * w for x, w in zip(inputs, ways))) for step in (1e-4, -1e-4))
        near(sum((g * w).sum() for g, w in zip(gradients, ways)), (above - below) / 2e-4, 2e-3)

    def test_gradients_of_linear_attention(self):
        q, k, v, g, _ = self.tokens(1, 70)
        q, k, dout, initial = np.abs(q), np.abs(k), normal(*v.shape), normal(1, 4, 16, 32)
        dgates, dinitial = np.empty_like(g), np.empty_like(initial)
        made = ops.linear_attention_backward(q, k, v, dout, gates=g, initial_states=initial, dgates=dgates,
                                             dinitial_states=dinitial)
        self.along(lambda q, k, v, g, x: (linear(q[0], k[0], v[0], g[0], x[0])[0] * dout[0]).sum(),
                   (*made, dgates, dinitial), q, k, v, g, initial)
        norm = np.empty_like(g)
        out = ops.linear_attention(q, k, v, gates=g, normalize=True, norm=norm)
        one = np.zeros((4, 16, 33))

        def normalized(q, k, v, g):             # the sum of keys as a column more of the state
            with_ones = np.concatenate([v[0], np.ones_like(v[0, :, :, :1])], 2)
            both = linear(q[0], k[0], with_ones, g[0], one)[0]
            return both[..., :32] / both[..., 32:]
        near(out[0], normalized(q, k, v, g))
        made = ops.linear_attention_backward(q, k, v, dout, gates=g, out=out, norm=norm, dgates=dgates)
        self.along(lambda *x: (normalized(*x) * dout[0]).sum(), (*made, dgates), q, k, v, g)

    def test_gradients_of_mamba2_of_packed_sequences(self):
        heads, size, groups, width, offsets = 4, 16, 2, 16, i32(0, 5, 5, 20)
        u, dt, b, c = normal(1, 20, heads, size), normal(1, 20, heads), *(normal(1, 20, groups, width) for _ in "bc")
        a, skip, dt_bias = -uniform(0.5, 2, heads), normal(heads), normal(heads)
        initial, dout, dfinal = normal(3, heads, size, width), normal(1, 20, heads, size), normal(3, heads, size, width)
        out, final = ops.mamba2_forward(u, dt, a, b, c, skip=skip, dt_bias=dt_bias, offsets=offsets, initial_states=initial,
                                        return_states=True)

        def parts(u, dt, a, b, c, skip, dt_bias, x):
            for n, (first, end) in enumerate(zip(offsets, offsets[1:])):
                got, states = mamba2(u[0, first:end], dt[0, first:end], a, b[0, first:end], c[0, first:end], x[n], skip, dt_bias)
                yield first, end, got, states[-1] if states else x[n]
        for n, (first, end, expected, last) in enumerate(parts(u, dt, a, b, c, skip, dt_bias, initial)):
            near(out[0, first:end], expected), near(final[n], last)
        dskip, dbias, dinitial = np.empty_like(skip), np.empty_like(dt_bias), np.empty_like(initial)
        made = ops.mamba2_backward(u, dt, a, b, c, dout, skip=skip, dt_bias=dt_bias, offsets=offsets, initial_states=initial,
                                   dfinal_states=dfinal, dskip=dskip, ddt_bias=dbias, dinitial_states=dinitial)
        self.along(lambda *x: sum((got * dout[0, first:end]).sum() + (last * dfinal[n]).sum()
                                  for n, (first, end, got, last) in enumerate(parts(*x))),
                   (*made, dskip, dbias, dinitial), u, dt, a, b, c, skip, dt_bias, initial)

    def test_causal_convolution(self):
        x, taps, bias, initial = normal(1, 9, 32), normal(32, 4), normal(32), normal(2, 3, 32)
        out, final = ops.causal_conv(x, taps, bias=bias, offsets=i32(0, 7, 9), initial_states=initial, activation="silu",
                                     return_states=True)
        for n, (b, e) in enumerate(((0, 7), (7, 9))):
            expected, states = convolution(x[0, b:e], taps, initial[n], bias)
            near(out[0, b:e], expected), near(final[n], states[-1])
        pool, more = final.copy(), normal(2, 2, 32)
        out = ops.causal_conv_step(more, taps, pool, bias=bias, activation="silu", to=i32([1, -1], [-1, 0]), from_=i32(1, 0))
        for b, first in enumerate((1, 0)):
            expected, states = convolution(more[b], taps, final[first], bias)
            near(out[b], expected), near(pool[first], states[b])

    def test_gradients_of_a_causal_convolution(self):
        x, taps, bias, initial, dout = normal(1, 9, 32), normal(32, 4), normal(32), normal(1, 3, 32), normal(1, 9, 32)
        made = ops.causal_conv_backward(x, taps, dout, bias=bias, initial_states=initial, activation="silu", return_states=True)
        rises_along(made, (x, taps, bias, initial), lambda x, f, b, s: (convolution(x[0], f, s[0], b)[0] * dout[0]).sum())
        self.assertIsNone(ops.causal_conv_backward(x, taps, dout)[2])

    def test_messages(self):
        q, k, v, g, beta = self.tokens(1, 4)
        for call, says in ((lambda: ops.gdn_forward(q, k, v, g[..., :3], beta), "'gates'"),
                           (lambda: ops.linear_attention(q[..., :8], k, v), "'k'"),
                           (lambda: ops.gdn_step(q, k, v, g, beta, normal(1, 4, 16, 8)), "'states'"),
                           (lambda: ops.causal_conv(normal(1, 4, 32), normal(32, 9)), "'filter' has W = 9, expected 2 to 8")):
            with self.assertRaises(kiln.Error) as caught:
                call()
            self.assertIn(says, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
