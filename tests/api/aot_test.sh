#!/bin/sh
# SPDX-License-Identifier: MIT
# aot_test.sh - a kernel built ahead of time runs in a program that has no compiler, and says no where it should.
# usage: aot_test.sh KILN-COMMAND SOURCE-FOLDER LAUNCH-LIBRARY
set -eu
kiln=$1 source=$2 library=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export KILN_CACHE="$folder/cache"

cat >kernel.tile <<'END'
kernel saxpy<type T = f32, int BN = 64>(in T X[N], in T Y[N], out T Z[N], optional in T W[N], f32 a, i32 times)
{
    require(times > 0, "at least once");
    grid (n : ceildiv(N, BN));
    fragment f32 x[BN] = X[n*BN +: BN], y[BN] = Y[n*BN +: BN];
    for (int t = 0; t < times; t++) { forall (i : BN) y[i] += a * x[i]; }
    Z[n*BN +: BN] = y;
}
// Z = 2*X + 3*(X + Y) by way of a temporary; the last step is the first one's kernel again.
operator twice(in f32 X[N], in f32 Y[N], out f32 Z[N], i32 times)
{
    temp f32 T[N], U[N];
    saxpy<f32, 64>(X, Y, T, none, 1, 1);
    saxpy<f32, 32>(T, T, U, none, 2, 1);
    saxpy<f32, 64>(X, U, Z, none, 2, times);
}
END
cat >main.c <<'END'
#include "gen/saxpy.h"
#include "gen/saxpy_f64.h"
#include "gen/twice.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(kiln_status status, kiln_status expected)
{
    if (status == expected)
        return;
    fprintf(stderr, "%s: %s\n", kiln_status_name(status), kiln_error_message());
    exit(1);
}

int main(void)
{
    enum { N = 100 };
    static float x[N], y[N], z[N];
    static double xd[N], yd[N], zd[N];
    const int64_t shape[] = { N };
    kiln_device *cpu;
    kiln_kernel *kernel, *wide;
    for (int i = 0; i < N; i++)
        xd[i] = x[i] = (float)i, yd[i] = y[i] = 1;
    must(kiln_device_open("cpu", &cpu), KILN_OK);
    must(saxpy_open(cpu, &kernel), KILN_OK);
    must(saxpy_f64_open(cpu, &wide), KILN_OK);
    kiln_tensor tx = kiln_tensor_of(cpu, x, KILN_F32, 1, shape), ty = kiln_tensor_of(cpu, y, KILN_F32, 1, shape);
    kiln_tensor tz = kiln_tensor_of(cpu, z, KILN_F32, 1, shape);
    must(saxpy(kernel, NULL, &tx, &ty, &tz, NULL, 2, 3), KILN_OK);
    for (int i = 0; i < N; i++)
        if (z[i] != 1 + 6 * (float)i)
            return fprintf(stderr, "z[%d] is %g\n", i, z[i]), 1;
    kiln_kernel *operator;
    size_t bytes;
    static char workspace[4096] __attribute__((aligned(256)));
    must(twice_open(cpu, &operator), KILN_OK);
    must(twice_workspace_size(operator, &tx, &ty, &tz, 1, &bytes), KILN_OK);
    if (bytes != 1024)
        return fprintf(stderr, "workspace of %zu bytes\n", bytes), 1;
    must(twice(operator, NULL, &tx, &ty, &tz, 1, workspace, sizeof workspace), KILN_OK);
    for (int i = 0; i < N; i++)
        if (z[i] != 2 * (float)i + 3 * (float)(i + 1))
            return fprintf(stderr, "twice: z[%d] is %g\n", i, z[i]), 1;
    must(twice(operator, NULL, &tx, &ty, &tz, 1, NULL, 0), KILN_BAD_ARGUMENT);
    must(twice(operator, NULL, &tx, &ty, &tz, 0, workspace, sizeof workspace), KILN_BAD_SHAPE);
    kiln_code short_of = twice_code;
    short_of.steps_bytes -= 8;
    kiln_kernel *no_operator = NULL;
    must(kiln_kernel_from_code(cpu, &short_of, &no_operator), KILN_UNSUPPORTED);
    short_of = twice_code, short_of.n_kernels = 2;
    must(kiln_kernel_from_code(cpu, &short_of, &no_operator), KILN_UNSUPPORTED);
    kiln_kernel_free(operator);
    tx.data = xd, tx.type = KILN_F64, ty.data = yd, ty.type = KILN_F64;
    must(saxpy(kernel, NULL, &tx, &ty, &tz, NULL, 2, 3), KILN_BAD_TYPE);
    if (!strstr(kiln_error_message(), "'X' is a tensor of f64, expected f32"))
        return fprintf(stderr, "%s\n", kiln_error_message()), 1;
    tz.data = zd, tz.type = KILN_F64;
    must(saxpy_f64(wide, NULL, &tx, &ty, &tz, NULL, 0.5, 2), KILN_OK);
    if (zd[99] != 100)
        return fprintf(stderr, "zd[99] is %g\n", zd[99]), 1;
    must(saxpy_f64(wide, NULL, &tx, &ty, &tz, NULL, 0.5, 0), KILN_BAD_SHAPE);
    unsigned char bad[] = { 1, 2, 3 };
    kiln_code damaged = saxpy_code;
    damaged.plan = bad, damaged.plan_bytes = sizeof bad;
    kiln_kernel *none = NULL;
    must(kiln_kernel_from_code(cpu, &damaged, &none), KILN_UNSUPPORTED);
    kiln_kernel_free(kernel);
    kiln_kernel_free(wide);
    kiln_device_close(cpu);
    puts("ok");
    return 0;
}
END
"$kiln" build --emit=c --isa=portable --output=gen kernel.tile saxpy W=none >files
"$kiln" build --emit=object --name=saxpy_f64 --output=gen kernel.tile saxpy T=f64 W=none BN=32 >>files
"$kiln" build --emit=header --name=only --output=gen kernel.tile saxpy W=none >>files
"$kiln" build --emit=c --isa=portable --output=gen kernel.tile twice >>files
test "$(wc -l <files)" = 9                                 # of the operator: two different kernels
test ! -e gen/only.c

cc=${CC:-cc}
$cc -std=c11 -Wall -Wextra -Werror -I"$source/include" -c main.c -o main.o
compile=$(sed -n '3s/^ \* *//p' gen/saxpy.c)               # the command that the file asks for
$compile -c gen/saxpy.c -o gen/saxpy.o
for part in twice twice_1 twice_2; do $cc -w -O1 -std=gnu11 -c gen/$part.c -o gen/$part.o; done
$cc main.o gen/saxpy.o gen/saxpy_f64.o gen/twice.o gen/twice_1.o gen/twice_2.o "$library" ${LINK_FLAGS:-} -lpthread -ldl -lm -o program
PATH=/nonexistent ./program | grep -qx ok                  # no compiler in reach
if command -v c++ >/dev/null; then                         # the header is C++ too
    printf '#include "gen/saxpy.h"\nint main() { return saxpy_code.plan == 0; }\n' >main.cc
    c++ -Wall -Wextra -Werror -I"$source/include" -c main.cc -o main_cc.o
fi
# Names that the functions have for themselves, or that are words of C or C++.
cat >names.tile <<'END'
kernel names(in f32 stream[class], out f32 kernel[class], in f32 NULL[class], f32 args, f32 EOF, int int32_t)
{
    grid (n : ceildiv(class, 64));
    forall (i : 64) if (n*64 + i < class) kernel[n*64 + i] = stream[n*64 + i]*EOF + args*NULL[n*64 + i] + int32_t;
}
operator register(in f32 workspace[N], out f32 bytes[N])
{
    names(workspace, bytes, workspace, 1, 2, 3);
}
END
"$kiln" build --emit=header --output=gen names.tile names >>files
"$kiln" build --emit=header --output=gen --name=kept names.tile register >>files
printf '#include <stdio.h>\n#include "gen/names.h"\n#include "gen/kept.h"\nint main(void) { return names_code.plan == kept_code.plan; }\n' >names.c
$cc -std=c11 -Wall -Wextra -Werror -I"$source/include" -fsyntax-only names.c
if command -v c++ >/dev/null; then c++ -x c++ -Wall -Wextra -Werror -I"$source/include" -fsyntax-only names.c; fi

refused() { # refused MESSAGE OPTION...
    said=$1; shift
    if "$kiln" build "$@" --output=gen 2>message; then echo "accepted: $*"; exit 1; fi
    grep -q "$said" message || { cat message; exit 1; }
}
refused 'expected c, header, object or archive' --emit=tape kernel.tile
refused 'not a C identifier' --emit=c --name=9lives kernel.tile
refused "'register' is a word of C or C++: --name=NAME gives" --emit=c names.tile register
refused "'uint8_t' is a name of C's headers: --name=NAME gives" --emit=c --name=uint8_t kernel.tile
echo "ahead-of-time build: ok"
