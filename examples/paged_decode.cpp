/* SPDX-License-Identifier: MIT */
/* paged_decode.cpp - decoding through the paged operators, in C++20: requests of different lengths share the pages of one cache;
 * each step appends a token of every request, its keys turned by their positions, plans how the keys are divided, and attends. The
 * last step's result is compared with a plain loop.
 *
 *     c++ -std=c++20 paged_decode.cpp -lkiln -o paged_decode && ./paged_decode cpu            (or: cuda:0)
 */
#include <kiln/kiln.hpp>
#include <kiln/ops/paged.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <random>

namespace
{

constexpr std::int64_t B = 3, H = 8, HKV = 2, D = 64, PAGE = 16, PAGES_EACH = 4, PAGES = B * PAGES_EACH;
constexpr int STEPS = 5;

std::uint16_t to_f16(float x) // of numbers that f16 holds as normal ones, or 0
{
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffff) < 0x38800000) return 0;
    return static_cast<std::uint16_t>((bits >> 16 & 0x8000) |
                                      (((bits & 0x7fffffff) - 0x38000000 + 0xfff + (bits >> 13 & 1)) >> 13));
}

float from_f16(std::uint16_t x)
{
    const std::uint32_t bits =
        x & 0x7fff ? (static_cast<std::uint32_t>(x & 0x8000) << 16) | (((x & 0x7fffu) << 13) + 0x38000000u) : 0;
    float f;
    std::memcpy(&f, &bits, sizeof f);
    return f;
}

std::vector<std::uint16_t> random_values(std::size_t n)
{
    static std::mt19937 generator(1);
    std::uniform_real_distribution<float> any(-1, 1);
    std::vector<std::uint16_t> x(n);
    for (auto &v : x) v = to_f16(any(generator));
    return x;
}

kiln::tensor integers(const kiln::device &device, const std::vector<std::int32_t> &values)
{
    kiln::tensor t(device, KILN_I32, { static_cast<std::int64_t>(values.size()) });
    t.upload(std::span<const std::int32_t>(values));
    return t;
}

// Head h of request b, in double precision, from the cache as it is.
double largest_error(const std::vector<std::int32_t> &table, int length, const std::vector<std::uint16_t> &k,
                     const std::vector<std::uint16_t> &v, const std::vector<std::uint16_t> &q,
                     const std::vector<std::uint16_t> &out, std::int64_t b, std::int64_t h)
{
    const std::uint16_t *const row = &q[static_cast<std::size_t>((b * H + h) * D)];
    std::vector<double> w(static_cast<std::size_t>(length));
    const auto at = [&](int t) {
        const std::int64_t slot = table[static_cast<std::size_t>(b * PAGES_EACH + t / PAGE)] * PAGE + t % PAGE;
        return static_cast<std::size_t>((slot * HKV + h / (H / HKV)) * D);
    };
    for (int t = 0; t < length; t++) {
        double s = 0;
        for (std::size_t d = 0; d < D; d++) s += double(from_f16(row[d])) * from_f16(k[at(t) + d]);
        w[static_cast<std::size_t>(t)] = std::exp(s / std::sqrt(double(D)));
    }
    const double sum = std::accumulate(w.begin(), w.end(), 0.0);
    double worst = 0;
    for (std::size_t d = 0; d < D; d++) {
        double expected = 0;
        for (int t = 0; t < length; t++) expected += w[static_cast<std::size_t>(t)] / sum * from_f16(v[at(t) + d]);
        worst = std::max(worst, std::abs(expected - from_f16(out[static_cast<std::size_t>((b * H + h) * D) + d])));
    }
    return worst;
}

int decode(const std::string &name)
{
    const kiln::device device(name);
    const kiln::operators ops(device);
    const kiln::stream stream(device);
    kiln::workspace scratch(device);
    kiln::plan<kiln_paged_plan> plan(device);
    const kiln::tensor k(device, KILN_F16, { PAGES, PAGE, HKV, D }), v(device, KILN_F16, { PAGES, PAGE, HKV, D });
    k.upload(std::span<const std::uint16_t>(random_values(k.bytes() / 2)));
    v.upload(std::span<const std::uint16_t>(random_values(v.bytes() / 2)));
    std::vector<std::int32_t> pages(PAGES), lengths = { 3, 30, 17 };
    for (int i = 0; i < PAGES; i++) pages[static_cast<std::size_t>(i)] = (i * 7 + 3) % static_cast<int>(PAGES);
    const kiln::tensor table = integers(device, pages).reshaped({ B, PAGES_EACH });
    const kiln::tensor slots(device, KILN_I32, { B }), positions(device, KILN_I32, { B });
    const kiln::tensor q(device, KILN_F16, { B, H, D }), out(device, KILN_F16, { B, H, D });
    const kiln::tensor keys(device, KILN_F16, { B, HKV, D }), values(device, KILN_F16, { B, HKV, D });
    const kiln_rotary rotary = { .style = KILN_ROTARY_HALVES, .base = 10000 };
    std::vector<std::uint16_t> queries;
    for (int step = 0; step < STEPS; step++) {
        for (auto &length : lengths) length++;
        const kiln::tensor now = integers(device, lengths);
        queries = random_values(q.bytes() / 2);
        q.upload(std::span<const std::uint16_t>(queries)); // of a model: its projections
        keys.upload(std::span<const std::uint16_t>(random_values(keys.bytes() / 2)));
        values.upload(std::span<const std::uint16_t>(random_values(values.bytes() / 2)));
        ops.run(kiln_paged_slots, stream,
                { .table = table, .lengths = now, .slots = slots, .positions = positions, .page_size = PAGE });
        ops.run(kiln_paged_append, stream,
                { .keys = keys,
                  .values = values,
                  .slots = slots,
                  .positions = positions,
                  .k = k,
                  .v = v,
                  .rotary = &rotary });
        // One for all layers of a step; here is one layer.
        ops.make(kiln_paged_plan_make, kiln_paged_plan_size, stream, plan,
                 { .lengths = now, .rows = B, .heads = H, .key_heads = HKV, .size = D, .causal = true });
        ops.run(kiln_paged_attention, kiln_paged_attention_workspace_size, stream, scratch,
                { .plan = plan, .q = q, .k = k, .v = v, .table = table, .lengths = now, .out = out, .causal = true });
        kiln::wait(device, stream); // `now` goes
    }
    const auto result = out.download<std::uint16_t>(), all_k = k.download<std::uint16_t>(),
               all_v = v.download<std::uint16_t>();
    double worst = 0;
    for (std::int64_t b = 0; b < B; b++)
        for (std::int64_t h = 0; h < H; h++)
            worst = std::max(
                worst, largest_error(pages, lengths[static_cast<std::size_t>(b)], all_k, all_v, queries, result, b, h));
    std::printf("%d steps of %d requests on %s: off by %.2g at most: %s\n", STEPS, static_cast<int>(B),
                device.description().c_str(), worst, worst < 2e-3 ? "as it should be" : "WRONG");
    return worst < 2e-3 ? 0 : 1;
}

} // namespace

int main(int argc, char **argv)
{
    try {
        return decode(argc > 1 ? argv[1] : "cpu");
    } catch (const kiln::error &e) {
        std::fprintf(stderr, "%s: %s\n", kiln_status_name(e.status()), e.what());
        return 1;
    }
}
