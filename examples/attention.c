/* SPDX-License-Identifier: MIT */
/* attention.c - causal attention with grouped heads over the caller's own arrays, compared with a plain loop.
 *
 *     cc attention.c -lkiln -lm -o attention && ./attention kernels/attention/forward.tile
 */
#include <kiln/kiln.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { B = 1, S = 200, H = 8, HKV = 2, D = 64 }; /* batch, sequence, query heads, key heads, head size */

static void must(kiln_status status)
{
    if (status == KILN_OK) return;
    fprintf(stderr, "%s: %s\n", kiln_status_name(status), kiln_error_message());
    exit(1);
}

static float *random_floats(size_t n)
{
    float *x = malloc(n * sizeof *x);
    if (!x) exit(1);
    for (size_t i = 0; i < n; i++) x[i] = (float)rand() / (float)RAND_MAX * 2 - 1;
    return x;
}

/* One element of the output, in double precision. q, k, v are [sequence][heads][D]. */
static double expected(const float *q, const float *k, const float *v, int i, int h, int d, double scale)
{
    const int g = h / (H / HKV);
    double sum = 0, out = 0;
    for (int j = 0; j <= i; j++) {
        double dot = 0;
        for (int e = 0; e < D; e++) dot += (double)q[(i * H + h) * D + e] * (double)k[(j * HKV + g) * D + e];
        const double w = exp(dot * scale);
        sum += w;
        out += w * (double)v[(j * HKV + g) * D + d];
    }
    return out / sum;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "kernels/attention/forward.tile";
    float *q = random_floats((size_t)S * H * D), *k = random_floats((size_t)S * HKV * D);
    float *v = random_floats((size_t)S * HKV * D), *o = random_floats((size_t)S * H * D);
    const double scale = 1 / sqrt(D);

    kiln_device *device;
    kiln_program *program;
    kiln_kernel *kernel;
    must(kiln_device_open("cpu", &device));
    must(kiln_program_load_file(path, &program));
    must(kiln_kernel_build(device, program, "attention_forward", "T=f32, D=64, CAUSAL=true, LSE=none", NULL, &kernel));

    kiln_tensor tq = kiln_tensor_of(device, q, KILN_F32, 4, (int64_t[]){ B, S, H, D });
    kiln_tensor tk = kiln_tensor_of(device, k, KILN_F32, 4, (int64_t[]){ B, S, HKV, D });
    kiln_tensor tv = kiln_tensor_of(device, v, KILN_F32, 4, (int64_t[]){ B, S, HKV, D });
    kiln_tensor to = kiln_tensor_of(device, o, KILN_F32, 4, (int64_t[]){ B, S, H, D });
    const kiln_arg args[] = { KILN_TENSOR(&tq), KILN_TENSOR(&tk), KILN_TENSOR(&tv),
                              KILN_TENSOR(&to), KILN_NONE,        KILN_FLOAT(scale) };
    must(kiln_launch(kernel, NULL, args, 6));

    double worst = 0;
    for (int i = 0; i < S; i += 7)
        for (int h = 0; h < H; h++)
            for (int d = 0; d < D; d += 5)
                worst = fmax(worst, fabs(expected(q, k, v, i, h, d, scale) - (double)o[(i * H + h) * D + d]));
    printf("attention over %d tokens: largest difference %.1e\n", S, worst);

    kiln_kernel_free(kernel);
    kiln_program_free(program);
    kiln_device_close(device);
    free(q), free(k), free(v), free(o);
    return worst < 1e-5 ? 0 : 1;
}
