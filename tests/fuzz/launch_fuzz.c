// SPDX-License-Identifier: MIT
// launch_fuzz.c - any bytes as the arguments of a launch: it is refused with a message or runs, and never touches
// memory that no tensor describes.
//
// Tensors lie in one buffer with guards; a description that would leave it gets a null pointer, since nothing could
// know that a caller lied. An unlisted status, a refusal without a message or a changed guard aborts.
#include "base/memory.h"
#include "kiln/kiln.h"
#include "runtime/runtime.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BUFFER_BYTES = 1 << 16, GUARD_BYTES = 256, ARGS = 7 };

static const char source[] =
    "kernel fuzzed(in f32 A[M][K], in strided bf16 B[K][N], inout strided f32 C[M][N], in i32 INDEX[M + 1], out u4 P[N],\n"
    "              i8 small, f32 a)\n"
    "{\n"
    "    require(M <= 64 && small >= 0, \"few rows\");\n"
    "    grid (m : M);\n"
    "    for (int n = 0; n < N; n++) {\n"
    "        fragment f32 s[1] = 0;\n"
    "        for (int k = 0; k < K; k++) { forall (i : 1) s[i] += A[m][k] * B[k][n] * a; }\n"
    "        forall (i : 1) C[m][n + i] += s[i] + INDEX[m + 1];\n"
    "    }\n"
    "    if (m == 0) { for (int n = 0; n < N; n++) { forall (i : 1) P[n + i] = small; } }\n"
    "}\n";

typedef struct Input {
    const uint8_t *data;
    size_t left;
} Input;

static uint8_t take(Input *in)
{
    if (!in->left) return 0;
    in->left--;
    return *in->data++;
}

// Mostly small numbers, now and then one at an edge.
static int64_t take_number(Input *in)
{
    static const int64_t edges[] = { 0, 1, -1, INT64_MAX, INT64_MIN, INT32_MAX, INT64_C(1) << 32, INT64_C(1) << 58 };
    const uint8_t kind = take(in);
    if (kind < 200) return kind % 24;
    return kind < 232 ? edges[kind % 8] : (int64_t)take(in) - 64;
}

static char buffer[GUARD_BYTES + BUFFER_BYTES + GUARD_BYTES];
static char *const memory = buffer + GUARD_BYTES;

// Extents are kept small where memory backs them, so that no run takes long.
static bool fits(const kiln_tensor *t)
{
    uintptr_t begin, end;
    if (t->rank < 0 || t->rank > KILN_MAX_RANK || dtype_of_type(t->type) == DTYPE_NONE) return true;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] < 0 || t->shape[i] > 64 || (t->has_strides && (t->strides[i] > 9000 || t->strides[i] < -9000)))
            return false;
    return !tensor_range(t, &begin, &end) || (begin >= (uintptr_t)memory && end <= (uintptr_t)memory + BUFFER_BYTES);
}

static void take_tensor(Input *in, kiln_tensor *t, kiln_device *cpu, int i)
{
    static const kiln_type types[] = { KILN_F32, KILN_BF16, KILN_F32, KILN_I32, KILN_U4 };
    static const int ranks[] = { 2, 2, 2, 1, 1 };
    const uint8_t flags = take(in);
    *t = (kiln_tensor){ .type = flags & 1 && flags & 2 ? (kiln_type)take(in) : types[i % 5],
                        .rank = flags & 4 && flags & 8 ? (int)take_number(in) : ranks[i % 5],
                        .device = flags & 16 ? cpu : NULL,
                        .has_strides = flags & 32 };
    for (int d = 0; d < KILN_MAX_RANK && d < 3; d++) {
        t->shape[d] = take_number(in);
        t->strides[d] = take_number(in);
    }
    t->data = memory + i * 12000 + (take(in) & 3) * 4 + (flags & 64 ? take(in) : 0);
    if (!fits(t)) t->data = NULL;
}

static void check_outcome(kiln_status status)
{
    const bool listed = status == KILN_OK || status == KILN_BAD_ARGUMENT || status == KILN_BAD_TYPE ||
                        status == KILN_BAD_SHAPE || status == KILN_BAD_DEVICE || status == KILN_BAD_ALIGNMENT;
    bool guarded = true;
    for (int i = 0; i < GUARD_BYTES; i++)
        guarded &= buffer[i] == 0x5a && buffer[GUARD_BYTES + BUFFER_BYTES + i] == 0x5a;
    if (listed && guarded && (status == KILN_OK || *kiln_error_message())) return;
    fprintf(stderr, "status %d (%s), guards %s\n", (int)status, kiln_error_message(), guarded ? "hold" : "are broken");
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static kiln_device *cpu;
    static kiln_kernel *kernel, *spaced; // the same with A and INDEX bound to `strided`
    static kiln_program *program;
    if (!kernel && (kiln_device_open("cpu", &cpu) || kiln_program_load_text("fuzzed.tile", source, &program) ||
                    kiln_kernel_build(cpu, program, "fuzzed", "A=strided, INDEX=strided", NULL, &spaced) ||
                    kiln_kernel_build(cpu, program, "fuzzed", NULL, NULL, &kernel))) {
        fprintf(stderr, "%s\n", kiln_error_message());
        abort();
    }
    Input in = { data, size };
    kiln_tensor tensors[ARGS];
    kiln_arg args[ARGS];
    memset(buffer, 0x5a, sizeof buffer);
    for (int i = 0; i < ARGS; i++) {
        const uint8_t kind = take(&in);
        take_tensor(&in, &tensors[i], cpu, i);
        args[i] = i < 5    ? KILN_TENSOR(&tensors[i])
                  : i == 5 ? KILN_INT(take_number(&in))
                           : KILN_FLOAT((double)take_number(&in));
        if (kind > 245) args[i] = kind & 1 ? KILN_NONE : (kiln_arg){ .kind = (kiln_arg_kind)(kind % 7), .integer = 0 };
    }
    const uint8_t count = take(&in);
    check_outcome(kiln_launch(kernel, NULL, args, count > 250 ? count - 250 : ARGS));
    check_outcome(kiln_launch(spaced, NULL, args, count > 250 ? count - 250 : ARGS));
    return 0;
}
