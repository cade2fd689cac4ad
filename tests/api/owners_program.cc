// SPDX-License-Identifier: MIT
// owners_program.cc - kiln.hpp: owners, launches, workspaces, and failures as exceptions.
#include <kiln/kiln.hpp>
#include <kiln/ops/nn.h>

#include <cstdio>
#include <cstdlib>

namespace
{

#define EXPECT(x)                                                                                                      \
    do {                                                                                                               \
        if (!(x)) {                                                                                                    \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #x);                                       \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

template <class F> void expect_error(kiln_status status, const char *part, F f)
{
    try {
        f();
    } catch (const kiln::error &e) {
        if (e.status() == status && std::string(e.what()).find(part) != std::string::npos) return;
        std::fprintf(stderr, "expected '%s', but it said %s\n", part, e.what());
        std::exit(1);
    }
    std::fprintf(stderr, "expected '%s', but nothing failed\n", part);
    std::exit(1);
}

const char source[] = R"(
kernel scale(in f32 X[N], optional in f32 B[N], out f32 Y[N], f32 a)
{
    grid (n : ceildiv(N, 64));
    fragment f32 x[64] = X[n*64 +: 64];
    forall (i : 64) x[i] = x[i] * a + (present(B) ? B[n*64 + i] : 0);
    Y[n*64 +: 64] = x;
}
operator twice(in f32 X[N], out f32 Y[N], f32 a)
{
    temp f32 T[N];
    scale(X, none, T, a);
    scale(T, none, Y, a);
}
)";

kiln::kernel made() // an owner moves; what it is made from may go
{
    const kiln::device device("cpu");
    kiln::kernel kernel(device, kiln::program::from_text("scale.tile", source), "scale", "B=none");
    return kernel;
}

void launches(const kiln::device &device)
{
    const std::vector<float> host = { 1, 2, 3, 4 };
    const kiln::tensor x(device, KILN_F32, { 4 }), y(device, KILN_F32, { 4 });
    x.upload(std::span<const float>(host));
    const kiln::kernel kernel = made();
    kernel(kiln::stream(), x, nullptr, y, 2.5);
    EXPECT(y.download<float>() == (std::vector<float>{ 2.5f, 5, 7.5f, 10 }));
    const kiln::kernel with_b(device, kiln::program::from_text("scale.tile", source), "scale");
    const kiln::stream stream(device);
    kiln::event begin(device), end(device);
    begin.record(stream);
    with_b(stream, x, x, y, 1); // an integer for a number
    end.record(stream);
    EXPECT(kiln::milliseconds_between(begin, end) >= 0);
    kiln::wait(device, stream);
    EXPECT(y.download<float>()[3] == 8);
    kiln::workspace scratch(device);
    const kiln::kernel twice(device, kiln::program::from_text("scale.tile", source), "twice");
    twice(stream, scratch, x, y, 3);
    EXPECT(y.download<float>()[1] == 18 && scratch.bytes() >= 16);
    EXPECT(!kernel.source().empty() && twice.source().empty());
}

void tensors(const kiln::device &device)
{
    std::vector<float> memory = { 0, 1, 2, 3, 4, 5 };
    const kiln::tensor whole = kiln::tensor::over(device, memory.data(), KILN_F32, { 2, 3 });
    const kiln::tensor part = whole.slice(1, 1, 2), line = whole.reshaped({ 6 });
    EXPECT(part.shape()[1] == 2 && !part.is_contiguous() && whole.slice(0, 1, 1).is_contiguous() &&
           line.shape().size() == 1);
    kiln::tensor kept;
    {
        const kiln::tensor gone(device, KILN_F32, { 8 });
        kept = gone.slice(0, 4, 4);
    }
    kept.upload(std::span<const float>(std::vector<float>(4, 7))); // the memory is still there
    EXPECT(kept.download<float>()[3] == 7);
    expect_error(KILN_BAD_SHAPE, "is not contiguous", [&] { part.reshaped({ 4 }); });
    expect_error(KILN_BAD_SHAPE, "another number of elements", [&] { whole.reshaped({ 5 }); });
    expect_error(KILN_BAD_SHAPE, "more than 8 dimensions", [&] { whole.reshaped({ 6, 1, 1, 1, 1, 1, 1, 1, 1 }); });
    expect_error(KILN_BAD_SHAPE, "only contiguous tensors", [&] { part.download<float>(); });
    expect_error(KILN_BAD_SHAPE, "has 24 bytes, the span 4",
                 [&] { whole.upload(std::span<const float>(memory.data(), 1)); });
    expect_error(KILN_BAD_SHAPE, "kiln_tensor_slice", [&] { whole.slice(0, 1, 2); });
}

void operators(const kiln::device &device)
{
    const kiln::operators ops(device);
    const kiln::tensor x(device, KILN_F32, { 2, 4 }), y(device, KILN_F32, { 2, 4 }), wrong(device, KILN_F32, { 2, 5 });
    x.upload(std::span<const float>(std::vector<float>(8, 3)));
    kiln_norm_args args{};
    args.x = x, args.out = y;
    ops.run(kiln_rms_norm, kiln::stream(), args);
    EXPECT(y.download<float>()[7] == 1);
    args.out = wrong;
    expect_error(KILN_BAD_SHAPE, "kiln_rms_norm: dimension 1 of 'out' is 5, expected 4",
                 [&] { ops.run(kiln_rms_norm, kiln::stream(), args); });
}

} // namespace

int main()
{
    const kiln::device device("cpu");
    EXPECT(device.name() == "cpu" && !device.description().empty() && kiln::device::count("cpu") == 1);
    expect_error(KILN_NOT_FOUND, "nothing", [] { kiln::device("nothing"); });
    expect_error(KILN_BAD_SOURCE, "error", [] { kiln::program::from_text("bad.tile", "kernel"); });
    expect_error(KILN_NOT_FOUND, "gone.tile", [] { kiln::program::from_file("gone.tile"); });
    launches(device);
    tensors(device);
    operators(device);
    std::puts("owners: ok");
}
