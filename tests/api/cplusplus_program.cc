// SPDX-License-Identifier: MIT
// cplusplus_program.cc - a C++ program that builds a kernel, launches it and calls an operator, with every macro of the headers.
#include <kiln/code.h>
#include <kiln/kiln.h>
#include <kiln/ops/attention.h>
#include <kiln/ops/decode.h>
#include <kiln/ops/deepseek.h>
#include <kiln/ops/gemm.h>
#include <kiln/ops/mla.h>
#include <kiln/ops/nn.h>
#include <kiln/ops/nsa.h>
#include <kiln/ops/paged.h>
#include <kiln/ops/recurrent.h>
#include <kiln/ops/sparse.h>

#include <cstdio>
#include <cstring>
#include <vector>

static const char source[] =
    "kernel scale(in f32 X[N], optional in f32 W[N], out f32 Y[N], int skip, f32 a)\n"
    "{\n"
    "    grid (n : ceildiv(N, 16));\n"
    "    forall (i : 16) Y[n*16 + i] = n*16 + i < skip ? 0 : a * X[n*16 + i];\n"
    "}\n";

static bool check(kiln_status status, const char *what)
{
    if (status)
        std::fprintf(stderr, "%s: %s: %s\n", what, kiln_status_name(status), kiln_error_message());
    return !status;
}

static bool launches(kiln_device *device)
{
    std::vector<float> x(40, 1.5f), y(40, -1.0f);
    const int64_t shape[] = { 40 };
    const kiln_tensor tx = kiln_tensor_of(device, x.data(), KILN_F32, 1, shape), ty = kiln_tensor_of(device, y.data(), KILN_F32, 1, shape);
    kiln_program *program = nullptr;
    kiln_kernel *kernel = nullptr;
    kiln_build_options options = KILN_ARGS(kiln_build_options);
    options.check = true;
    const kiln_arg args[] = { KILN_TENSOR(&tx), KILN_NONE, KILN_TENSOR(&ty), KILN_INT(2), KILN_FLOAT(2) };
    const bool done = check(kiln_program_load_text("scale", source, &program), "load")
                   && check(kiln_kernel_build(device, program, "scale", "W=none", &options, &kernel), "build")
                   && check(kiln_launch(kernel, nullptr, args, 5), "launch");
    kiln_kernel_free(kernel);
    kiln_program_free(program);
    return done && y[1] == 0.0f && y[2] == 3.0f && y[39] == 3.0f;
}

static bool calls(kiln_device *device)
{
    std::vector<float> memory(3 * 16, 1.0f), out(16, 0.0f);
    const int64_t shape[] = { 1, 1, 1, 16 };
    const kiln_tensor q = kiln_tensor_of(device, memory.data(), KILN_F32, 4, shape);
    const kiln_tensor o = kiln_tensor_of(device, out.data(), KILN_F32, 4, shape);
    kiln_ops *ops = nullptr;
    kiln_attention_args args = KILN_ARGS(kiln_attention_args);
    args.q = args.k = args.v = &q;
    args.out = &o;
    const bool done = check(kiln_ops_open(device, nullptr, &ops), "ops") && check(kiln_attention_forward(ops, nullptr, &args), "attention");
    args.struct_size = 8;
    const bool refused = kiln_attention_forward(ops, nullptr, &args) == KILN_BAD_ARGUMENT;
    kiln_ops_close(ops);
    return done && refused && out[15] == 1.0f;
}

int main()
{
    kiln_device *device = nullptr;
    if (std::strcmp(kiln_version(), KILN_VERSION) != 0 || !check(kiln_device_open("cpu", &device), "device"))
        return 1;
    const bool launched = launches(device), called = calls(device);
    kiln_device_close(device);
    if (!launched || !called)
        std::fprintf(stderr, "wrong numbers: launch %d, operator %d\n", launched, called);
    return launched && called ? 0 : 1;
}
