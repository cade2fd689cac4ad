#!/bin/sh
# SPDX-License-Identifier: MIT
# arm_test.sh - the forms for ARM, cross-built and run on an emulated processor: the prelude's tests, with few cases, and a
# program with a kernel and an operator from an archive, linked statically.
# usage: arm_test.sh KILN-COMMAND SOURCE-FOLDER LAUNCH-SOURCE...
set -eu
kiln=$1 source=$2
shift 2
cc=aarch64-linux-gnu-gcc
for tool in $cc qemu-aarch64; do
    command -v $tool >/dev/null ||
        { echo "skipped: there is no $tool (apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)"; exit 0; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
KILN_CACHE=$folder/cache KILN_SPARSE=1
export KILN_CACHE KILN_SPARSE
unset KILN_ISA CC AR
fail() { echo "$*"; exit 1; }
emulated="qemu-aarch64 -cpu max,sve256=on,sve-default-vector-length=32"

# ---- the prelude: form, tests, flags. What a form takes from the portable one is tested with that.
here=$source/tests/unit/lower/cpu
kernel="-std=c11 -O1 -ffp-contract=fast -fno-math-errno -fno-trapping-math -fopenmp-simd -DKILN_ISA_GIVEN"
while IFS='|' read -r name tests flags; do
    for test in $tests; do
        # shellcheck disable=SC2086
        $cc -Wall -Wextra -Wswitch-enum -Werror $kernel $flags "$here/${test}_test.c" -static -o test -lm
        $emulated ./test >out 2>&1 || { cat out; fail "$name $test: FAILED"; }
        echo "$name $test: holds"
    done
done <<'TABLE'
neon_bf16|convert matmul|-march=armv8.2-a+dotprod+bf16 -DKILN_NEON=1 -DKILN_ARM_DOT=1 -DKILN_ARM_BF16=1
sve256_bf16|matmul vector_math|-march=armv8.2-a+sve+bf16 -msve-vector-bits=256 -DKILN_SVE256=1 -DKILN_ARM_DOT=1 -DKILN_ARM_BF16=1
TABLE

# ---- an archive made on this machine for that one
cat >arm.list <<END
attention/decode.tile flash_decode T=bf16, D=64, DV=64, G=2, BN=128, Mask=none, LENGTH=none, SINK=none, LSE=none
$source/kernels/gemm/gemm.tile gemm_nt as gemm T=bf16, BM=32, BN=32, BK=32
END
"$kiln" build --emit=archive --isa=neon,sve256_bf16 --name=arm --output=gen arm.list >files
aarch64-linux-gnu-objdump -d gen/libarm.a >text
grep -q 'bfdot.*z[0-9]*\.s' text || fail "the form sve256_bf16 has no bfdot"
grep -qE 'fmla.*v[0-9]+\.4s' text || fail "the form neon has no fmla"
for file; do case $file in /*) echo "$file" ;; *) echo "$source/$file" ;; esac; done >sources
sh "$source/src/ops/forms.sh" "$source/include/kiln/ops" >forms.c
echo "$folder/forms.c" >>sources
mkdir objects
n=0                                                        # files of two folders may have one name
while read -r file; do
    n=$((n + 1))
    $cc -std=gnu11 -O0 -w -pipe -I"$source/include" -I"$source/src" -c "$file" -o "objects/$n.o"
done <sources
cat >main.c <<'END'
#include "arm.h"
#include <kiln/ops/attention.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
static float from_bf16(uint16_t x) { const uint32_t bits = (uint32_t)x << 16; float y; memcpy(&y, &bits, 4); return y; }
static uint16_t number(int i) { const float y = (float)(i * 37 % 33 - 16) / 16; uint32_t bits; memcpy(&bits, &y, 4); return (uint16_t)(bits >> 16); }
static void fill(uint16_t *x, int n, int from) { for (int i = 0; i < n; i++) x[i] = number(from + i); }

static kiln_status run_gemm(kiln_device *device, double *worst)
{
    enum { M = 19, N = 24, K = 40 };
    static uint16_t a[M][K] __attribute__((aligned(16))), b[N][K] __attribute__((aligned(16))), c[M][N] __attribute__((aligned(16)));
    const kiln_tensor ta = kiln_tensor_of(device, a, KILN_BF16, 2, (int64_t[]){ M, K }), tb = kiln_tensor_of(device, b, KILN_BF16, 2, (int64_t[]){ N, K });
    const kiln_tensor tc = kiln_tensor_of(device, c, KILN_BF16, 2, (int64_t[]){ M, N });
    kiln_kernel *kernel;
    fill(a[0], M * K, 1), fill(b[0], N * K, 7);
    kiln_status status = gemm_open(device, &kernel);
    if (status) return status;
    status = gemm(kernel, NULL, &ta, &tb, &tc);
    kiln_kernel_free(kernel);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < K; k++) sum += (double)from_bf16(a[i][k]) * from_bf16(b[j][k]);
            *worst = fmax(*worst, fabs(sum - from_bf16(c[i][j])) / (fabs(sum) + 1));
        }
    return status;
}

static kiln_status run_decode(kiln_device *device, double *worst)
{
    enum { H = 2, S = 70, D = 64 };
    static uint16_t q[H][D] __attribute__((aligned(16))), k[S][D] __attribute__((aligned(16))), v[S][D] __attribute__((aligned(16))), out[H][D] __attribute__((aligned(16)));
    static char workspace[1 << 16] __attribute__((aligned(256)));
    const kiln_tensor tq = kiln_tensor_of(device, q, KILN_BF16, 3, (int64_t[]){ 1, H, D }), tk = kiln_tensor_of(device, k, KILN_BF16, 4, (int64_t[]){ 1, S, 1, D });
    const kiln_tensor tv = kiln_tensor_of(device, v, KILN_BF16, 4, (int64_t[]){ 1, S, 1, D }), to = kiln_tensor_of(device, out, KILN_BF16, 3, (int64_t[]){ 1, H, D });
    kiln_ops *ops;
    fill(q[0], H * D, 3), fill(k[0], S * D, 11), fill(v[0], S * D, 5);
    kiln_status status = kiln_ops_open_archive(device, &arm_archive, &ops);
    if (status) return status;
    kiln_attention_decode_args args = { .q = &tq, .k = &tk, .v = &tv, .out = &to, .workspace = workspace, .workspace_bytes = sizeof workspace };
    status = kiln_attention_decode(ops, NULL, &args);
    kiln_ops_close(ops);
    for (int h = 0; h < H; h++) {
        double p[S], total = 0;
        for (int s = 0; s < S; s++) {
            double dot = 0;
            for (int d = 0; d < D; d++) dot += (double)from_bf16(q[h][d]) * from_bf16(k[s][d]);
            total += p[s] = exp(dot / sqrt(D));
        }
        for (int d = 0; d < D; d++) {
            double sum = 0;
            for (int s = 0; s < S; s++) sum += p[s] / total * from_bf16(v[s][d]);
            *worst = fmax(*worst, fabs(sum - from_bf16(out[h][d])));
        }
    }
    return status;
}

int main(void)
{
    kiln_device *device;
    double worst = 0;
    kiln_status status = kiln_device_open("cpu", &device);
    if (!status) status = run_gemm(device, &worst);
    if (!status) status = run_decode(device, &worst);
    if (status) fprintf(stderr, "%s: %s\n", kiln_status_name(status), kiln_error_message());
    else printf("%s: largest difference %.2g\n", kiln_device_describe(device), worst);
    return status || worst > 1e-2;
}
END
$cc -std=c11 -O1 -w -static -Igen -I"$source/include" main.c gen/libarm.a objects/*.o -lpthread -ldl -lm -o program 2>link || { cat link; exit 1; }
run() { # run FORM COMMAND...
    form=$1; shift
    "$@" ./program >out 2>&1 || { cat out; fail "the archive's program failed: $*"; }
    grep -q " $form, .*largest difference" out || { cat out; fail "expected the form $form"; }
}
# shellcheck disable=SC2086
run sve256_bf16 $emulated
run neon qemu-aarch64 -cpu cortex-a57
# Other lengths of SVE have NEON.
run neon_bf16 qemu-aarch64 -cpu max,sve512=on,sve-default-vector-length=64
echo "arm: ok"
