/* SPDX-License-Identifier: MIT */
/* ahead_of_time.c - a kernel that was compiled before this program was, and needs no compiler where it runs.
 *
 *     kiln build --emit=object --output=gen --name=add_f32 kernels/elementwise/add.tile T=f32
 *     cc -Igen -Iinclude ahead_of_time.c gen/add_f32.o -lkiln_launch -lpthread -ldl -lm -o ahead_of_time
 */
#include "add_f32.h"

#include <stdio.h>
#include <stdlib.h>

static void must(kiln_status status)
{
    if (status == KILN_OK) return;
    fprintf(stderr, "%s: %s\n", kiln_status_name(status), kiln_error_message());
    exit(1);
}

int main(void)
{
    enum { M = 3, N = 5 };
    float a[M][N], b[1][N], c[M][N];
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            a[i][j] = (float)(10 * i + j);
            b[0][j] = 0.5f;
        }

    kiln_device *device;
    kiln_kernel *kernel;
    must(kiln_device_open("cpu", &device));
    must(add_f32_open(device, &kernel));

    const kiln_tensor ta = kiln_tensor_of(device, a, KILN_F32, 2, (int64_t[]){ M, N });
    const kiln_tensor tb = kiln_tensor_of(device, b, KILN_F32, 2, (int64_t[]){ 1, N }); /* one row for all of A */
    const kiln_tensor tc = kiln_tensor_of(device, c, KILN_F32, 2, (int64_t[]){ M, N });
    must(add_f32(kernel, NULL, &ta, &tb, &tc));

    int wrong = 0;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) wrong += c[i][j] != a[i][j] + 0.5f;
    printf("%d sums, %d wrong\n", M * N, wrong);
    kiln_kernel_free(kernel);
    kiln_device_close(device);
    return wrong != 0;
}
