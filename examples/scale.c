/* SPDX-License-Identifier: MIT */
/* scale.c - the smallest program: a kernel from a string, run on memory of the caller's.
 *
 *     cc scale.c -lkiln -o scale && ./scale            (or: ./scale cuda:0)
 */
#include <kiln/kiln.h>

#include <stdio.h>
#include <stdlib.h>

static const char source[] = "kernel scale(in f32 X[N], out f32 Y[N], f32 a)\n"
                             "{\n"
                             "    grid (n : ceildiv(N, 256));\n"
                             "    fragment f32 x[256] = X[n*256 +: 256];\n"
                             "    forall (i : 256) x[i] *= a;\n"
                             "    Y[n*256 +: 256] = x;\n"
                             "}\n";

static void must(kiln_status status)
{
    if (status == KILN_OK) return;
    fprintf(stderr, "%s: %s\n", kiln_status_name(status), kiln_error_message());
    exit(1);
}

int main(int argc, char **argv)
{
    enum { N = 1000 };
    float x[N], y[N];
    for (int i = 0; i < N; i++) x[i] = (float)i;

    kiln_device *device;
    kiln_program *program;
    kiln_kernel *kernel;
    must(kiln_device_open(argc > 1 ? argv[1] : "cpu", &device));
    must(kiln_program_load_text("scale.tile", source, &program));
    must(kiln_kernel_build(device, program, "scale", NULL, NULL, &kernel));

    void *dx, *dy; /* device memory; on the CPU, plain memory */
    must(kiln_alloc(device, sizeof x, &dx));
    must(kiln_alloc(device, sizeof y, &dy));
    must(kiln_upload(device, dx, x, sizeof x));

    kiln_tensor tx = kiln_tensor_of(device, dx, KILN_F32, 1, (int64_t[]){ N });
    kiln_tensor ty = kiln_tensor_of(device, dy, KILN_F32, 1, (int64_t[]){ N });
    must(kiln_launch(kernel, NULL, (kiln_arg[]){ KILN_TENSOR(&tx), KILN_TENSOR(&ty), KILN_FLOAT(2.5) }, 3));
    must(kiln_download(device, y, dy, sizeof y));
    for (int i = 0; i < N; i++)
        if (y[i] != 2.5f * (float)i) return fprintf(stderr, "y[%d] is %g\n", i, (double)y[i]), 1;

    /* A wrong launch starts nothing and says which argument was wrong. */
    kiln_tensor shorter = kiln_tensor_of(device, dy, KILN_F32, 1, (int64_t[]){ N - 1 });
    kiln_status refused =
        kiln_launch(kernel, NULL, (kiln_arg[]){ KILN_TENSOR(&tx), KILN_TENSOR(&shorter), KILN_FLOAT(2.5) }, 3);
    printf("scaled %d numbers on %s; a wrong launch is refused: %s\n", N, kiln_device_describe(device),
           kiln_error_message());

    kiln_free(device, dx);
    kiln_free(device, dy);
    kiln_kernel_free(kernel);
    kiln_program_free(program);
    kiln_device_close(device);
    return refused == KILN_BAD_SHAPE ? 0 : 1;
}
