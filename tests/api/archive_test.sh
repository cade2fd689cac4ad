#!/bin/sh
# SPDX-License-Identifier: MIT
# archive_test.sh - operators and kernels from an archive in several forms, in programs that find no compiler: each form
# holds its own instructions only, and what fits the machine is chosen when it is opened.
# usage: archive_test.sh KILN-COMMAND SOURCE-FOLDER LAUNCH-LIBRARY DECODE-LOOP-EXAMPLE [EMULATED-GPU]
set -eu
kiln=$1 source=$2 library=$3 loop=$4 gpu=${5:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
KILN_CACHE=$folder/cache
export KILN_CACHE
cc=${CC:-cc}
unset KILN_ISA CC AR
fail() { echo "$*"; exit 1; }
link() { # link PROGRAM SOURCE-OR-OPTION...
    program=$1; shift
    # shellcheck disable=SC2086
    $cc -std=c11 -O1 -Wall -Wextra -Igen -I"$source/include" "$@" "$library" ${LINK_FLAGS:-} -lpthread -ldl -lm -o "$program"
}
alone() { PATH=/nonexistent KILN_NVRTC=/nonexistent/nvrtc KILN_CACHE=/nonexistent/cache "$@"; }

# ---- the operators of a decoding loop: list, archive, program
"$loop" --device cpu --list >decode.list
grep -q '^cpu mla/decode.tile mla_decode_dense ' decode.list || { cat decode.list; fail "the list lacks the decoding kernel"; }
case $(uname -m) in
    x86_64) forms=portable,avx512,avx2 ;;
    *) forms=portable; echo "skipped: forms beside the portable one are checked on x86-64" ;;
esac
"$kiln" build --emit=archive --isa=portable --name=decode --output=gen decode.list >files
[ "$(cat files)" = "gen/decode.h
gen/libdecode.a" ] || { cat files; fail "other files were expected"; }
link shipped -DSHIPPED "$source/examples/decode_loop.c" gen/libdecode.a
alone ./shipped --device cpu >said
grep -q 'largest difference' said
# What was built once is found without a compiler, too.
PATH=/nonexistent "$loop" --device cpu >said
# One kernel alone: the message is the line of the next.
grep mla_slots decode.list >less.list
"$kiln" build --emit=archive --isa=portable --name=decode --output=less less.list >files
link lacking -DSHIPPED -Iless "$source/examples/decode_loop.c" less/libdecode.a
if alone ./lacking 2>said; then fail "an operator ran without its kernel"; fi
grep -qF "the archive lacks a kernel; add this line to the list that it is built from: $(grep 'mla_plan ' decode.list)" said ||
    { cat said decode.list; fail "the message does not name the line"; }

# ---- an operator with many options: the lines that messages name, one after the other, are its list
cat >masked.c <<'END'
#include "masked.h"
#include <kiln/ops/decode.h>
#include <stdio.h>
static _Alignas(256) char q[2048], k[2048], v[2048], cache[1 << 16], out[2048], workspace[1 << 16];
static int table[2][2][4] = { { { 0, 1, 2, 3 }, { 4, 5, 6, 7 } }, { { 8, 9, 10, 11 }, { 12, 13, 14, 15 } } }, lengths[4] = { 120, 3 };
int main(void)
{
    kiln_device *device;
    kiln_ops *ops;
    if (kiln_device_open("cpu", &device) || kiln_ops_open_archive(device, &masked_archive, &ops)) return 2;
    const int64_t heads[] = { 2, 2, 16 }, pages[] = { 16, 2, 32, 16 }, each[] = { 2, 2, 4 }, rows[] = { 2 };
    kiln_tensor tq = kiln_tensor_of(device, q, KILN_F16, 3, heads), tk = tq, tv = tq, to = tq;
    kiln_tensor tc = kiln_tensor_of(device, cache, KILN_F16, 4, pages), tt = kiln_tensor_of(device, table, KILN_I32, 3, each);
    kiln_tensor tl = kiln_tensor_of(device, lengths, KILN_I32, 1, rows);
    kiln_rotary rotary = { .style = KILN_ROTARY_HALVES };
    tk.data = k, tv.data = v, to.data = out;
    for (int i = 0; i < 2048; i += 2) v[i] = 0, v[i + 1] = 0x3C; /* 1 */
    kiln_masked_decode_args args = { .q = &tq, .k = &tk, .v = &tv, .cache = &tc, .table = &tt, .lengths = &tl, .out = &to,
                                     .rotary = &rotary, .workspace = workspace, .workspace_bytes = sizeof workspace, .splits = 2 };
    const int failed = kiln_masked_decode(ops, NULL, &args) != KILN_OK;
    if (failed) puts(kiln_error_message());
    else printf("%#x\n", (unsigned char)out[65] << 8 | (unsigned char)out[64]); /* of a row with 3 keys of 0 before it: 0.25 */
    kiln_ops_close(ops);
    return failed;
}
END
echo "cpu decode/inputs.tile masked_mha_inputs CROSS=true" >masked.list
for lacked in masked_mha masked_mha_inputs; do
    "$kiln" build --emit=archive --isa=portable --name=masked --output=gen masked.list >files
    link masked masked.c gen/libmasked.a
    if alone ./masked >said; then fail "masked decoding ran without a kernel"; fi
    sed -n 's/.*that it is built from: //p' said >line
    grep -q " $lacked\( \|$\)" line || { cat said; fail "the message does not name $lacked"; }
    cat line >>masked.list
done
"$kiln" build --emit=archive --isa=portable --name=masked --output=gen masked.list >files
link masked masked.c gen/libmasked.a
alone ./masked >said || { cat said; fail "masked decoding does not run from an archive"; }
grep -q '^0x3400$' said || { cat said; fail "masked decoding from an archive computes something else"; }

# ---- an operator of two kernels queues neither where the archive lacks the second
cat >pack.c <<'END'
#include "pack.h"
#include <kiln/ops/quant.h>
#include <stdio.h>
#include <string.h>
static _Alignas(256) char weights[32], weight_scales[4], codes[256], scales[16];
int main(void)
{
    kiln_device *device;
    kiln_ops *ops;
    if (kiln_device_open("cpu", &device) || kiln_ops_open_archive(device, &pack_archive, &ops)) return 2;
    const int64_t some[] = { 2, 16 }, all[] = { 2, 64 }, groups[] = { 2, 1 }, padded[] = { 2, 4 };
    kiln_tensor tw = kiln_tensor_of(device, weights, KILN_U8, 2, some), ts = kiln_tensor_of(device, weight_scales, KILN_BF16, 2, groups);
    kiln_tensor tc = kiln_tensor_of(device, codes, KILN_U8, 2, all), to = kiln_tensor_of(device, scales, KILN_BF16, 2, padded);
    memset(codes, 7, sizeof codes);
    kiln_quant_pack_args args = { .weights = &tw, .weight_scales = &ts, .codes = &tc, .scales = &to, .format = KILN_QUANT_INT4S, .k = 32, .group = 32 };
    if (!kiln_quant_pack(ops, NULL, &args) || kiln_stream_wait(device, NULL)) return 3;
    puts(kiln_error_message());
    kiln_ops_close(ops);
    for (int i = 0; i < 128; i++)
        if (codes[i] != 7) return 1;
    return 0;
}
END
echo "cpu quant/pack.tile quant_pack_codes FROM=0, X=u8, Q=u4, BITS=4" >pack.list
"$kiln" build --emit=archive --isa=portable --name=pack --output=gen pack.list >files
link pack pack.c gen/libpack.a
alone ./pack >said || { cat said; fail "packing wrote codes though the kernel of scales is lacking"; }
grep -q " quant_pack_scales " said || { cat said; fail "the message does not name quant_pack_scales"; }

# ---- each form holds what its name says and no more: by its object, disassembled, with the code of the kernels in it
cat >one.list <<'END'
cpu kernels.tile first T=bf16    # for the CPU alone
END
cat >two.list <<'END'
kernels.tile first as early T=f32
kernels.tile both
END
cat >kernels.tile <<'END'
kernel first<type T = f32>(in T A[M][K], in T B[N][K], out T C[M][N])
{
    grid (n : ceildiv(N, 32), m : ceildiv(M, 32));
    fragment f32 acc[32][32] = 0;
    pipeline (k : ceildiv(K, 32)) {
        shared T a[32][32] = A[m*32 +: 32][k*32 +: 32], b[32][32] = B[n*32 +: 32][k*32 +: 32];
        acc += a @ transpose(b);
    }
    forall (i : 32, j : 32) acc[i][j] = exp(acc[i][j]);
    C[m*32 +: 32][n*32 +: 32] = acc;
}
operator both(in f32 A[M][K], in f32 B[N][K], out f32 C[M][N])
{
    temp f32 T[M][N];
    first<f32>(A, B, T);
    first<f32>(A, B, C);
}
END
count() { objdump -d --no-show-raw-insn "$1" | grep -cE "$2" || true; }
if [ "$forms" != portable ] && command -v objdump >/dev/null; then
    for form in portable avx2 avx512 amx; do
        "$kiln" build --emit=archive --isa=$form --name=one --output=$form one.list >files
        above='%zmm|%k[0-7]|%[xy]mm(1[6-9]|2[0-9]|3[01])|vdpbf16ps|vpdpbusd|tdpbf16ps'
        case $form in
            portable)    wanted='mulps|mulss' not="$above|%ymm|\\sv[a-z]" ;;
            avx2)        wanted='vfmadd.*%ymm' not=$above ;;
            avx512)      wanted='vfmadd.*%zmm' not='vdpbf16ps|vpdpbusd|vpermb|vpopcnt|vpshld|vpcompressb|tdpbf16ps|vcvtneps2bf16|vcvtne2ps2bf16' ;;
            amx)         wanted='tdpbf16ps' not='vpermb|vpopcnt|vpshld|vpcompressb' ;;
        esac
        [ "$(count $form/libone.a "$wanted")" -gt 0 ] || fail "the form $form has no instruction like $wanted"
        [ "$(count $form/libone.a "$not")" = 0 ] || fail "the form $form has instructions like $not"
    done
else
    echo "skipped: no objdump, or another machine"
fi

# ---- typed functions from an archive; code for what the machine has not is refused
cat >main.c <<'END'
#include "two.h"
#include <math.h>
#include <stdio.h>
static kiln_status run(kiln_device *device, int operator)
{
    enum { M = 40, N = 35, K = 50 };
    static float a[M][K], b[N][K], c[M][N];
    static char workspace[2 * M * N * 4] __attribute__((aligned(256)));
    for (int k = 0; k < K; k++) {
        for (int i = 0; i < M; i++) a[i][k] = 0.01f * (float)(i - k);
        for (int j = 0; j < N; j++) b[j][k] = 0.01f * (float)(j + k);
    }
    const kiln_tensor ta = kiln_tensor_of(device, a, KILN_F32, 2, (int64_t[]){ M, K }), tb = kiln_tensor_of(device, b, KILN_F32, 2, (int64_t[]){ N, K });
    const kiln_tensor tc = kiln_tensor_of(device, c, KILN_F32, 2, (int64_t[]){ M, N });
    kiln_kernel *kernel;
    kiln_status status = operator ? both_open(device, &kernel) : early_open(device, &kernel);
    if (status) return status;
    status = operator ? both(kernel, NULL, &ta, &tb, &tc, workspace, sizeof workspace) : early(kernel, NULL, &ta, &tb, &tc);
    kiln_kernel_free(kernel);
    for (int i = 0; !status && i < M; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < K; k++) sum += (double)a[i][k] * b[j][k];
            if (!(fabs(c[i][j] - exp(sum)) <= 1e-5 * exp(sum))) return KILN_DEVICE_FAILED;
        }
    return status;
}
int main(void)
{
    kiln_device *device;
    kiln_status status = kiln_device_open("cpu", &device);
    if (!status) status = run(device, 0);
    if (!status) status = run(device, 1);
    if (status) fprintf(stderr, "%s: %s\n", kiln_status_name(status), kiln_error_message());
    else puts("ok");
    kiln_device_close(device);
    return status != KILN_OK;
}
END
"$kiln" build --emit=archive --isa=$forms --name=two --output=gen two.list >files
link typed main.c gen/libtwo.a
alone ./typed | grep -qx ok
if [ "$forms" != portable ]; then
    if grep -qw avx2 /proc/cpuinfo; then KILN_ISA=avx2 alone ./typed | grep -qx ok; fi
    "$kiln" build --emit=archive --isa=avx2 --name=two --output=only two.list >files
    link only_avx2 -Ionly main.c only/libtwo.a
    if KILN_ISA=portable alone ./only_avx2 2>said; then fail "code for AVX2 ran where only portable code may"; fi
    grep -q 'first: compiled for avx2; the best of this machine is portable' said || { cat said; exit 1; }
fi

# ---- GPU forms beside a CPU form: the device chooses. The emulated GPU is a Hopper.
cat >gpu.c <<'END'
#include "twice.h"
#include <stdio.h>
int main(int argc, char **argv)
{
    float x[100], y[100] = { 0 };
    void *memory[2];
    kiln_device *device;
    kiln_kernel *kernel = NULL;
    for (int i = 0; i < 100; i++) x[i] = (float)i;
    kiln_status status = kiln_device_open(argv[argc - 1], &device);
    for (int i = 0; !status && i < 2; i++) status = kiln_alloc(device, sizeof x, &memory[i]);
    if (!status) status = kiln_upload(device, memory[0], x, sizeof x);
    if (!status) status = twice_open(device, &kernel);
    if (!status) {
        const kiln_tensor in = kiln_tensor_of(device, memory[0], KILN_F32, 1, (int64_t[]){ 100 });
        const kiln_tensor out = kiln_tensor_of(device, memory[1], KILN_F32, 1, (int64_t[]){ 100 });
        status = twice(kernel, NULL, &in, &out);
    }
    if (!status) status = kiln_stream_wait(device, NULL);
    if (!status) status = kiln_download(device, y, memory[1], sizeof y);
    if (status) fprintf(stderr, "%s: %s\n", kiln_status_name(status), kiln_error_message());
    kiln_kernel_free(kernel);
    return status != KILN_OK || y[99] != 198;
}
END
cat >twice.tile <<'END'
kernel twice(in f32 X[N], out f32 Y[N])
{
    grid (n : ceildiv(N, 64));
    fragment f32 x[64] = X[n*64 +: 64];
    forall (i : 64) x[i] *= 2;
    Y[n*64 +: 64] = x;
}
END
if [ -n "$gpu" ] && [ -e "$gpu" ]; then
    KILN_NVRTC=$gpu "$kiln" build --emit=object --isa=portable --arch=80,90 --output=gen twice.tile >files
    link both_kinds gpu.c gen/twice.o
    alone ./both_kinds cpu
    KILN_CUDA=$gpu alone ./both_kinds cuda:0
    KILN_NVRTC=$gpu "$kiln" build --emit=object --arch=80 --output=gen twice.tile >files
    link older gpu.c gen/twice.o
    if KILN_CUDA=$gpu alone ./older cuda:0 2>said; then fail "a cubin for sm_80 ran on sm_90"; fi
    grep -q 'twice: compiled for sm_80, but cuda:0 is sm_90' said || { cat said; exit 1; }
    if alone ./older cpu 2>said; then fail "a cubin ran on the cpu"; fi
    grep -q 'twice: compiled for sm_80, but the device is cpu' said || { cat said; exit 1; }
else
    echo "skipped: GPU forms, there is no emulated GPU"
fi

refused() { # refused MESSAGE OPTION...
    said=$1; shift
    if message=$("$kiln" build "$@" --output=gen 2>&1); then fail "accepted: $*"; fi
    case $message in *"$said"*) ;; *) fail "$message" ;; esac
}
refused '--isa=sse9: expected ' --emit=object --isa=avx2,sse9 kernels.tile first
refused 'one object holds code of one machine' --emit=object --isa=avx2,neon kernels.tile first
refused '--arch=70: expected 90 or 80' --emit=object --arch=70 kernels.tile first
path=$PATH
PATH=/nonexistent
refused 'no C compiler for aarch64: aarch64-linux-gnu-gcc is not in PATH; install it' --emit=object --isa=neon kernels.tile first
PATH=$path
printf 'nowhere.tile first\n' >bad.list
refused 'that was line 1 of bad.list' --emit=archive bad.list
printf '\n\nkernels.tile frist\n' >bad.list
refused "kernels.tile has no kernel or operator called 'frist'" --emit=archive bad.list
echo "archives: ok"
