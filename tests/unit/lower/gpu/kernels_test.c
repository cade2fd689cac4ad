// SPDX-License-Identifier: MIT
// What the CUDA lowering makes of the kernels that are held to hand-written speed: the instructions that must be there,
// and, where NVRTC is present, what ptxas says of them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "../../../skip.h"
#include "../../../turn.h"

#include "compile/compile.h"
#include "lower/gpu/schedule/verify.h"
#include "toolchain/toolchain.h"
#include "base/memory.h"

#include <stdio.h>

typedef struct Case {
    const char *file, *kernel;
    Binding bindings[8];
    int n;
    int arch;
    const char *has[4]; // must occur in the source
    const char *lacks;  // must not
    bool is_clean;      // no spills, no stack; nowhere is a wgmma serialised
} Case;

#define TYPE(name_, type_)                                                                                             \
    {                                                                                                                  \
        .name = name_, .kind = BIND_TYPE, .type = type_                                                                \
    }
#define NONE(name_)                                                                                                    \
    {                                                                                                                  \
        .name = name_, .kind = BIND_NONE                                                                               \
    }
#define INT(name_, value_)                                                                                             \
    {                                                                                                                  \
        .name = name_, .kind = BIND_INT, .integer = value_                                                             \
    }

// clang-format off
static const Case cases[] = {
    { "gemm/gemm.tile", "gemm_nt", { INT("K", 4096), INT("N", 4096) }, 2, 90,
      { "wgmma_64x256x16_bf16_ss", "tma_load_2d", "store_matrices(", "wgmma_wait(1)" }, "load_vector", true },
    { "gemm/gemm.tile", "gemm_nt", { INT("K", 4096), INT("N", 4096), INT("CLUSTER", 2) }, 3, 90,
      { "tma_multicast<3>(", "tma_load_2d(shared_address(v_b)", "mbar_arrive_at(", "cluster_sync()" }, "load_vector", true },
    { "attention/forward.tile", "attention_forward", { INT("D", 128), INT("CLUSTER", 4) }, 2, 90,
      { "tma_multicast<15>(shared_address(v_k)", "tma_multicast<15>(shared_address(v_v)", "tma_load_4d(shared_address(v_q)" }, NULL, true },
    { "attention/forward.tile", "attention_forward", { INT("D", 128), INT("CAUSAL", 1), INT("CLUSTER", 2) }, 3, 90,
      { "__syncthreads()" }, "blockIdx.x % 2u", true },
    { "mla/decode.tile", "mla_decode", { INT("PAIR", 2) }, 1, 90, { "tma_load_rows<64, 128, 2, 4, 8192, 64, 3>", "mbar_arrive_at(" }, "load_vector", true },
    { "gemm/gemm.tile", "gemm_tn", { INT("M", 4096), INT("N", 4096) }, 2, 90, { "_ta_tb(", "tma_store_2d" }, NULL, true },
    { "gemm/gemm.tile", "gemm_nt", { TYPE("T", DTYPE_F16) }, 1, 80, { "mma_16x8x16_f16", "ldmatrix_x4", "copy_vector<8>(", "copy_wait(1)" }, "wgmma_6", true },
    { "attention/forward.tile", "attention_forward", { INT("D", 128) }, 1, 80, { "mma_16x8x16_bf16", "copy_inside<8>(", "copy_wait(0)" }, "wgmma_6", false },
    { "gemm/gemm.tile", "gemm_nt", { TYPE("T", DTYPE_F32), TYPE("TC", DTYPE_F32) }, 2, 90, { "fma_product<", "tma_load_2d" }, "wgmma_6", true },
    { "gemm/gemm.tile", "gemm_tn", { TYPE("T", DTYPE_F32), TYPE("TC", DTYPE_F32) }, 2, 80, { "fma_product<" }, "mma_16x8", true },
    { "attention/forward.tile", "attention_forward", { INT("D", 128) }, 1, 90,
      { "_bf16_rs(", "_bf16_rs_tb(", "tma_load_4d", "setmaxnreg_inc(240)" }, NULL, true },
    { "attention/forward.tile", "attention_forward", { INT("D", 64), INT("CAUSAL", 1) }, 2, 90, { "_rs_tb(" }, NULL, true },
    { "attention/forward.tile", "attention_forward", { INT("D", 128), INT("SKV", 4096) }, 2, 90, { "bar_arrive(3", "_bf16_rs(" }, NULL, true },
    { "attention/forward.tile", "attention_forward", { INT("D", 64), INT("SKV", 4096) }, 2, 90, { "bar_arrive(3", "_rs_tb(" }, NULL, true },
    { "attention/backward.tile", "attention_backward_main", { INT("BM", 64) }, 1, 90,
      { "tma_add_4d", "cp_async_4", "_ss_ta_tb(", "setmaxnreg_inc(240)" }, "atomic_add(", true },
    { "attention/backward.tile", "attention_backward_parts", { INT("CAUSAL", 1) }, 1, 90,
      { "tma_add_4d", "_ss_ta_tb(", "setmaxnreg_inc(240)", "slot_next" }, "cp_async_4(", true },
    { "attention/backward.tile", "attention_backward_long", { INT("UNDER", 0) }, 1, 90, { "tma_add_4d", "slot_next" }, "cp_async_4(", true },
    { "attention/backward.tile", "attention_backward_long", { INT("UNDER", 1) }, 1, 90, { "tma_add_4d", "slot_next" }, "cp_async_4(", false },
    { "attention/varlen.tile", "attention_varlen", { { 0 } }, 0, 90, { "tma_load_rows<128, 128, 2, ", "_bf16_rs_tb(" }, NULL, true },
    { "mla/decode.tile", "mla_decode", { { 0 } }, 0, 90,
      { "tma_load_rows<64, 128, 2, 4, 8192, 64>", "bar_arrive(3, 256)", "bar_sync(6, 256)", "cp_async_16(" }, "load_vector", true },
    { "gemm/stream_k.tile", "gemm_stream_k_main", { { 0 } }, 0, 90, { "tma_load_2d", "setmaxnreg_inc(" }, "atomic_add(", true },
    { "mla/decode_fp8.tile", "mla_decode_sparse", { INT("PAIR", 2) }, 1, 90,
      { "remote_copy(", "mbar_arrive_at(", "cluster_sync()", "row_or_zeros<1040>(" }, "cp_async_arrive(", true },
    { "mla/decode_fp8.tile", "mla_decode_sparse", { INT("PAIR", 1), INT("ROUND_SCALE", 1) }, 2, 90,
      { "load_piece_ahead<4>(", "multiply_bf16(", "quotient_by_size(" }, "bar_sync(2, 128)", true },
    { "mla/prefill.tile", "mla_prefill_sparse", { { 0 } }, 0, 90,
      { "setmaxnreg_dec(56)", "setmaxnreg_inc(224)", "bar_sync(2, 128)", "store_matrices(" }, "bar_sync(1, 384)", true },
    { "mla/decode_fp8.tile", "mla_decode_sparse", { { 0 } }, 0, 90,
      { "setmaxnreg_dec(128)", "remote_copy(", "load_piece_ahead<4>(", "quotient_by_size(" }, "bar_sync(1, 384)", true },
    { "gemm/gemm.tile", "gemm_nt", { TYPE("T", DTYPE_E4M3), TYPE("TC", DTYPE_E4M3) }, 2, 90, { "stage_8<128>" }, "store_pair", true },
    { "gemm/sparse24.tile", "gemm_sparse24_nt", { { 0 } }, 0, 90, { "wgmma_sp_64x128x32_bf16_ss", "load_places(", "tma_load_2d" }, NULL, true },
    { "gemm/sparse24.tile", "gemm_sparse24_nn", { { 0 } }, 0, 80, { "mma_sp_16x8x32_bf16", "load_places(", "ldmatrix_x4_trans" }, NULL, true },
    { "sparse/vertical_slash.tile", "vertical_slash", { INT("D", 128) }, 1, 90,
      { "tma_load_4d(shared_address(v_ka)", "cp_async_16(", "cp_async_arrive(", "setmaxnreg_inc(224)" }, "load_vector", true },
    { "attention/forward.tile", "attention_forward", { INT("D", 256), INT("BN", 128) }, 2, 90, { "tma_load_4d" }, "bar_arrive(3", true },
    { "attention/forward.tile", "attention_forward", { INT("D", 512), INT("BM", 64), INT("BN", 64) }, 3, 90, { "wgmma_64x256x16_bf16_ss" }, NULL, true },
    { "../tests/unit/lower/gpu/fits.tile", "narrow", { { 0 } }, 0, 90, { "wgmma_64x64x16_f16_rs_tb" }, "64x128x16", true },
    { "../tests/language/run/recurrences.tile", "carried", { { 0 } }, 0, 90,
      { "store_turned_matrices(", "ldmatrix_x4_trans(", "choose(", "tma_wait_read(0)" }, "bar_sync(1, ", true },
    { "../tests/language/run/recurrences.tile", "read_across", { { 0 } }, 0, 90, { "ldmatrix_x4(", "ldmatrix_x4_trans(", "choose(" }, "load_shared", true },
    { "linear/mamba2.tile", "mamba2_chunk_scan",
      { { .name = "Offset", .kind = BIND_NONE }, { .name = "Z", .kind = BIND_NONE }, { .name = "Raw", .kind = BIND_NONE } }, 3, 90, { "tma_wait_read(0)" },
      "tma_wait_written", true },
    { "conv/conv2d.tile", "conv2d", { INT("C", 3) }, 1, 90, { "load_raw<8>(v_held, ", "mbar_expect_more(", "tma_load_im2col_4d(" }, "v_X_v", true },
    { "conv/conv2d.tile", "conv2d", { { .name = "Y", .kind = BIND_STRIDED }, { .name = "X", .kind = BIND_STRIDED } }, 2, 90,
      { "shuffle_from(v_line_at", "transpose_quad(v_quad", "store_words<8>(v_quad" }, "v_Y[math_any_div", true },
    { "topk/indexer.tile", "indexer_logits", { { .name = "Q", .kind = BIND_STRIDED } }, 1, 90, { "tma_load_3d(shared_address(v_q)" }, NULL, true },
    // sizes and forms that hold as many registers as there are
    { "attention/forward.tile", "attention_forward", { INT("D", 208) }, 1, 90, { "setmaxnreg_dec(40)", "setmaxnreg_inc(232)" }, NULL, true },
    { "attention/paged.tile", "paged_part", { TYPE("C", DTYPE_E4M3), INT("CAP", 1), INT("WINDOW", 100), INT("BM", 64), INT("BN", 32) }, 5, 90,
      { "wgmma_64x128x16_f16_rs_tb" }, NULL, true },
    { "mla/decode_fp8.tile", "mla_decode_sparse", { INT("PAIR", 1), NONE("CACHE2"), NONE("SCALES2"), NONE("INDEX2"), NONE("LIMIT2"), NONE("SCALES") }, 6, 90,
      { "load_piece_ahead<4>(" }, NULL, true },
    { "sparse/vertical_slash.tile", "vertical_slash", { INT("D", 256) }, 1, 90, { "wgmma_64x256x16_f16_rs_tb" }, NULL, true },
    { "norm/fused.tile", "norm", { TYPE("T", DTYPE_F16), TYPE("TY", DTYPE_E4M3), INT("CENTER", 1), INT("WIDTH", 8192), NONE("RES"), NONE("B") }, 6, 90,
      { "load_whole<16>" }, NULL, true },
    { "norm/rms_norm.tile", "rms_norm", { { 0 } }, 0, 90, { "load_whole<8>", "store_whole<8>", "round_bf16<8>" }, "setmaxnreg_", true },
};
// clang-format on

static Compiled *compile_build(Arena *arena, const Case *c, bool checked)
{
    char path[512];
    snprintf(path, sizeof path, "%s/../kernels/%s", KILN_TEST_DIR, c->file);
    Diags *const diags = diags_new(arena);
    Program *const program = program_load(arena, diags, path);
    const CheckOptions options = {
        .target = "cuda", .arch = c->arch, .checked = checked, .bindings = c->bindings, .n_bindings = c->n
    };
    TileKernel *const kernel = check_kernel(program, c->kernel, &options);
    const Target target = { .kind = &target_cuda, .gpu = gpu_find(c->arch) };
    Compiled *const compiled = kernel ? compile_kernel(kernel, &target, NULL, NULL) : NULL;
    if (!compiled) {
        Text text = { .arena = arena };
        diags_print(diags, &text, false);
        fail_msg("%s: %s", c->kernel, text_cstr(&text));
    }
    return compiled;
}

static Compiled *compile_case(Arena *arena, const Case *c) { return compile_build(arena, c, false); }

static void sources_hold_the_planned_instructions(void **state)
{
    for (int i = 0; i < COUNT(cases); i++) {
        Arena *const arena = arena_new();
        assert_non_null(arena);
        if (setjmp(arena->out_of_memory) != 0) fail_msg("out of memory");
        // The kernel's own text, after the preludes: they name every intrinsic.
        const char *const text = strstr(compile_case(arena, &cases[i])->source, "struct __align__(64) KernelParams");
        assert_non_null(text);
        for (int j = 0; j < COUNT(cases[i].has) && cases[i].has[j]; j++)
            if (!strstr(text, cases[i].has[j]))
                fail_msg("%s for %d lacks %s", cases[i].kernel, cases[i].arch, cases[i].has[j]);
        if (cases[i].lacks && strstr(text, cases[i].lacks))
            fail_msg("%s for %d has %s", cases[i].kernel, cases[i].arch, cases[i].lacks);
        arena_free(arena);
    }
}

// What an engineer who knows the machine wants to know before anything runs.
static void explanations_say_what_runs(void **state)
{
    // clang-format off
    static const struct { Case kernel; const char *says[14]; } explained[] = {
        { { "attention/forward.tile", "attention_forward", { INT("D", 128) }, 1, 90, { NULL }, NULL, true },
          { "256 computing (2 groups), and a producer group of 128, of which a thread copies", "fastest: x, h, b", "every second round backwards",
            "setmaxnreg: 24 in the producer, 240 in group 0, 240 in group 1", "2 x 32768 bytes at 32768, panels of 64 columns, swizzle 128",
            "2 buffers, full at", "tensor map 1: K in boxes of 64 x 1 x 128 x 1", "(8 m64n128k16 of bf16 in each group, B K-major)",
            "(8 m64n128k16 of bf16 in each group, B N-major)", "ping-pong between the groups", "o to O by TMA, staged",
            "staging of stores: 32768 bytes", "line 46: LSE written by the threads", "ring 0: q, 1 buffer, full" } },
        { { "attention/forward.tile", "attention_forward", { INT("D", 128), INT("SKV", 4096) }, 2, 90, { NULL }, NULL, true },
          { "A from registers, loaded before the loop", "ping-pong between the groups" } },       // without a mask
        { { "gemm/gemm.tile", "gemm_nt", { { 0 } }, 0, 90, { NULL }, NULL, true },
          { "bands of 16 along m, within a band along n", "(4 m64n256k16 of bf16 in each group, B K-major)",
            "acc to C by TMA, staged; where its rows are not multiples of 16 bytes, by the threads" } },
        { { "gemm/gemm.tile", "gemm_nt", { { 0 } }, 0, 80, { NULL }, NULL, true }, { "m16n8k16 of bf16 in each warp)", "acc to C by the threads" } },
        { { "attention/backward.tile", "attention_backward_main", { INT("BM", 64), INT("CAUSAL", 1) }, 2, 90, { NULL }, NULL, true },
          { "dq added to dQ by TMA, staged", "work depends on n: a CTA takes its i-th longest and i-th shortest together" } },
        { { "mla/decode.tile", "mla_decode", { { 0 } }, 0, 90, { NULL }, NULL, true }, { "group 1 waits before line", "(named barrier 3)", "128 registers of each thread of group 1;",
            "(4 m64n256k16 of bf16 in group 1, B N-major)" } },
        { { "../tests/language/run/recurrences.tile", "by_parts", { { 0 } }, 0, 90, { NULL }, NULL, true },
          { "2 x 32768 bytes at 8192, panels of 64 columns, swizzle 128, fetched ahead (ring 1)", "ring 1: x, 2 buffers" } },
        { { "../tests/language/run/recurrences.tile", "plain_loops", { { 0 } }, 0, 90, { NULL }, NULL, true },
          { "ring 0: a, 2 buffers", "ring 1: x, 3 buffers", "ring 2: a x, 3 buffers" } },
        { { "mla/prefill.tile", "mla_prefill_sparse", { { 0 } }, 0, 90, { NULL }, NULL, true },
          { "KV read by the threads of the producer, rows by cp.async" } },
        { { "attention/forward.tile", "attention_forward", { INT("D", 256), INT("BN", 128) }, 2, 90, { NULL }, NULL, true }, // both stages do not fit
          { "234 hold fragments, 198 at one time", "step by step" } },
        { { "attention/forward.tile", "attention_forward", { INT("D", 512), INT("BM", 64), INT("BN", 64) }, 3, 90, { NULL }, NULL, true },
          { "256 computing (2 groups)", "groups divide the columns" } },                                       // hinted: one group
        { { "attention/forward.tile", "attention_forward", { INT("D", 64), INT("BM", 256) }, 2, 90, { NULL }, NULL, true },
          { "256 computing (2 groups)", "groups divide the rows" } },                                          // hinted: four
        { { "../tests/unit/lower/gpu/fits.tile", "crowded", { { 0 } }, 0, 90, { NULL }, NULL, true },
          { "2 CTAs for each multiprocessor", "3 CTAs of a multiprocessor do not have the registers: 2" } },
        { { "topk/indexer.tile", "indexer_logits", { INT("BN", 64) }, 1, 90, { NULL }, NULL, true },
          { "no product divides among 3 groups: there are 2", "2 CTAs for each multiprocessor", "groups divide the columns" } },
        { { "linear/mamba2_chunk_backward.tile", "mamba2_chunk_backward", { INT("P", 16) }, 1, 90, { NULL }, NULL, true },
          { "256 computing (2 groups)" } }, // a barrier in an arm has nothing to wait for that the other arm does not
        { { "../tests/unit/lower/gpu/fits.tile", "many", { { 0 } }, 0, 90, { NULL }, NULL, true },
          { "5 CTAs for each multiprocessor", "6 CTAs of a multiprocessor do not have the registers: 5" } },
        { { "../tests/unit/lower/gpu/fits.tile", "packed", { { 0 } }, 0, 90, { NULL }, NULL, true },
          { "u32[64][16]: 3 x 4096 bytes", "u8[64][64]: 3 x 4096 bytes", "u4[64][128]: 1 x 8192 bytes",
            "not ahead because a tile has a byte for each packed element; words of a view are fetched" } },
        { { "../tests/unit/lower/gpu/fits.tile", "packed", { { 0 } }, 0, 80, { NULL }, NULL, true },
          { ", multistage cp.async", "u8[64][64]: 3 x 4096 bytes", "panels of 64 columns, swizzle 64, multistage cp.async",
            "u4[64][128]: 1 x 8192 bytes", "not ahead because a tile has a byte for each packed element" } },
        { { "linear/causal_conv.tile", "causal_conv", { NONE("Offset"), NONE("Init") }, 2, 90, { NULL }, NULL, true },
          { "3 CTAs for each multiprocessor", "occupancy: 3 CTAs, because an instance takes ", "; no more have room in registers",
            "setmaxnreg: 40 in the producer, 120 in group 0" } },
        { { "linear/linear_attention_normalized.tile", "key_parts", { INT("DK", 96), INT("REVERSE", 1), NONE("W"), NONE("Rest") }, 4, 90, { NULL }, NULL, true },
          { "2 CTAs for each multiprocessor", "no more have room in registers" } }, // an address for each element that it loads
        { { "norm/softmax.tile", "softmax_long", { NONE("LABEL"), NONE("DLOSS"), NONE("LOSS"), NONE("LSE") }, 4, 90, { NULL }, NULL, true },
          { "most       f32[32][16]: 1 registers of each thread", "barriers of all computing threads before lines: none",
            "register 4 x d3+1 8 x d0+1; lane 16 x d2+1 2 x d1+1; warp 4 x d1+2; group 4 x d1+8" } },   // sums of a thread's own
        { { "sparse/vertical_slash.tile", "vertical_slash", { { 0 } }, 0, 90, { NULL }, NULL, true },
          { "occupancy: 1 CTA, because its products have the registers of one", "K to ka by TMA, into the ring that the producer's threads fill", "K read by the threads of the producer, rows by cp.async" } },
        { { "attention/forward.tile", "attention_forward", { TYPE("T", DTYPE_F32), INT("D", 100) }, 2, 90, { NULL }, NULL, true },   // lines of an import
          { "softmax.tile:24 42 softmax.tile:32 softmax.tile:33" } },
    };
    // clang-format on
    for (int i = 0; i < COUNT(explained); i++) {
        Arena *const arena = arena_new();
        assert_non_null(arena);
        if (setjmp(arena->out_of_memory) != 0) fail_msg("out of memory");
        const char *const text = compile_case(arena, &explained[i].kernel)->explanation;
        assert_non_null(text);
        for (int j = 0; j < COUNT(explained[i].says) && explained[i].says[j]; j++)
            if (!strstr(text, explained[i].says[j]))
                fail_msg("%s does not say '%s':\n%s", explained[i].kernel.kernel, explained[i].says[j], text);
        arena_free(arena);
    }
}

// Sums over warps: one barrier per sum, and one after the loop where its steps need no whole sum.
static void sums_over_warps_take_one_barrier(void **state)
{
    // clang-format off
    static const Case sums[] = {
        { "norm/rms_norm.tile", "rms_norm", { { 0 } }, 0, 90, { "scratch_buffer ^" }, NULL, true },
        { "norm/rms_norm.tile", "rms_norm_long", { { 0 } }, 0, 90, { "scratch_buffer ^" }, NULL, true },
        { "gemm/gemv.tile", "gemv_transposed", { { 0 } }, 0, 90, { "scratch_buffer ^" }, NULL, true },
    };
    // clang-format on
    for (int i = 0; i < COUNT(sums); i++) {
        Arena *const arena = arena_new();
        assert_non_null(arena);
        if (setjmp(arena->out_of_memory) != 0) fail_msg("out of memory");
        const char *const text = strstr(compile_case(arena, &sums[i])->source, "struct __align__(64) KernelParams");
        const char *const barrier = strstr(text, "__syncthreads()");
        if (!barrier || strstr(barrier + 1, "__syncthreads()") || !strstr(text, sums[i].has[0]))
            fail_msg("%s does not have one barrier", sums[i].kernel);
        arena_free(arena);
    }
}

// Where the ring's barriers stand, of those named in the explanation: "ring 0: q, 1 buffer, full at 57376, empty at 57384".
static void name_barriers(const char *explanation, char names[4], int full[4], int empty[4])
{
    for (const char *at = explanation; (at = strstr(at, "\nring ")); at++) {
        int i, used = 0;
        char name;
        if (sscanf(at, "\nring %d: %c,%n", &i, &name, &used) == 2 && used && i < 4 &&
            sscanf(strstr(at, "full at "), "full at %d, empty at %d", &full[i], &empty[i]) == 2)
            names[i] = name;
    }
}

// What a group does, one word for each line of its code that is about tiles: +q waits for tile q, -q gives it back.
static void print_deeds(Text *out, const Compiled *compiled, int group)
{
    // clang-format off
    static const struct { const char *line, *deed; } marks[] = {
        { "for (int32_t v_t", "step" }, { "wgmma_commit", "product" }, { "bar_sync(3", "told" }, { "if (v_t + 1 >= v_T)", "last?" },
        { "if (0 >= v_T)", "none?" } };
    char names[4] = { 0 };
    int full[4], empty[4], now = -1, at, left;
    name_barriers(compiled->explanation, names, full, empty);
    for (const char *line = compiled->source; (line = strchr(line, '\n')); line++) {
        const char *const begin = line + 1 + strspn(line + 1, " ");
        sscanf(begin, "if (v_group%*[_0-9] == %d)", &now);
        if (now != group) continue;
        for (int i = 0; i < COUNT(marks); i++)
            if (strncmp(begin, marks[i].line, strlen(marks[i].line)) == 0) text_print(out, " %s", marks[i].deed);
        if (sscanf(begin, "wgmma_wait(%d)", &left) == 1) text_print(out, " flying=%d", left);
        const bool wait = sscanf(begin, "mbar_wait(shared_base() + %du", &at) == 1;
        if (wait || sscanf(begin, "mbar_arrive(shared_base() + %du", &at) == 1)
            for (int i = 0; i < 4; i++)
                if (names[i] && at == (wait ? full : empty)[i]) text_print(out, " %c%c", wait ? '+' : '-', names[i]);
    }
    // clang-format on
}

static void groups_wait_for_tiles_and_give_them_back_in_their_place(void **state)
{
    static const char file[] = "../tests/unit/lower/gpu/rings.tile";
    static const struct {
        const char *kernel;
        int group;
        const char *deeds;
    } expected[] = {
        // q in the last step, under the product after; where there is no step, after the loop
        { "kept", 0, " +q step +k product product flying=1 last? -q flying=0 -k none? -q" },
        { "kept", 1, " +q step +k product flying=0 -k -q" }, // read by a statement, too
        { "gathered", 0, " step +a +c product flying=0 -a -c" },
        // a is full when d is; so is c when group 0 says that it has read it
        { "gathered", 1, " step +a +d product product +c told product product flying=2 -a flying=1 -d flying=0 -c" },
    };
    for (int i = 0; i < COUNT(expected); i++) {
        Arena *const arena = arena_new();
        assert_non_null(arena);
        if (setjmp(arena->out_of_memory) != 0) fail_msg("out of memory");
        Text deeds = { .arena = arena };
        print_deeds(&deeds, compile_case(arena, &(Case){ .file = file, .kernel = expected[i].kernel, .arch = 90 }),
                    expected[i].group);
        if (strcmp(text_cstr(&deeds), expected[i].deeds) != 0)
            fail_msg("group %d of %s:%s, expected%s", expected[i].group, expected[i].kernel, text_cstr(&deeds),
                     expected[i].deeds);
        arena_free(arena);
    }
}

// Latent attention fills shared memory without checks, which take some. With them nothing is in tensor cores.
static void kernels_that_fill_shared_memory_fit_with_checks(void **state)
{
    // clang-format off
    static const Case full[] = {
        { "mla/decode.tile", "mla_decode", { { 0 } }, 0, 90, { "written(" }, "mma_", true },
        { "mla/decode.tile", "mla_decode", { { 0 } }, 0, 80, { "written(" }, "mma_", true },
        { "mla/decode_fp8.tile", "mla_decode_sparse", { { 0 } }, 0, 90, { "written(" }, "mma_", true },
        { "mla/decode_fp8.tile", "mla_decode_sparse", { { 0 } }, 0, 80, { "written(" }, "mma_", true },
        { "mla/decode_dense_fp8.tile", "mla_decode_pages_fp8", { { 0 } }, 0, 90, { "written(" }, "mma_", true },
        { "mla/decode_dense_fp8.tile", "mla_decode_pages_fp8", { { 0 } }, 0, 80, { "written(" }, "mma_", true },
        { "mla/prefill.tile", "mla_prefill_sparse", { { 0 } }, 0, 90, { "written(" }, "mma_", true },
        { "mla/prefill.tile", "mla_prefill_sparse", { { 0 } }, 0, 80, { "written(" }, "mma_", true },
    };
    // clang-format on
    for (int i = 0; i < COUNT(full); i++) {
        Arena *const arena = arena_new();
        assert_non_null(arena);
        if (setjmp(arena->out_of_memory) != 0) fail_msg("out of memory");
        const char *const text =
            strstr(compile_build(arena, &full[i], true)->source, "struct __align__(64) KernelParams");
        assert_non_null(text);
        if (!strstr(text, full[i].has[0]) || strstr(text, full[i].lacks))
            fail_msg("%s for %d is no checked build", full[i].kernel, full[i].arch);
        arena_free(arena);
    }
}

static void what_cannot_be_is_an_error(void **state)
{
    // clang-format off
    static const struct { const char *file, *kernel, *messages[3]; } refused[] = {
        { "limits", "memory", { "memory needs 240288 bytes of shared memory; a CTA has 232448", "limits.tile:7:16: note: 'small': 1 x 256 bytes",
                                "limits.tile:7:40: help: 'large' must have fewer rows or columns" } },
        { "limits", "registers", { "limits.tile:17:9: error: the fragments that hold values here take 256 registers of each thread; there are 232",
                                   "limits.tile:14:18: note: 'wide': 256", "limits.tile:14:18: help: 'wide' must have fewer rows or columns" } },
        { "limits", "registers_of_two", { "limits.tile:30:22: error: the fragments that hold values here take 512 registers",
                                          "limits.tile:27:18: note: 'sum': 256", "limits.tile:30:22: note: 'score': 256" } },
        { "limits", "layouts", { "limits.tile:45:5: error: the layout of 'y' cannot be kept: lines 41 and 45 want different layouts" } },
        { "hints", "swizzled", { "layout(x) = swizzle(64): its rows are not a multiple of 64 bytes" } },
        { "hints", "split_k", { "layout(y) = partial: the contraction is not a multiple of an instruction's for each group" } },
        { "hints", "divided", { "layout(y) = columns: the groups cannot have multiples of 8 columns each" } },
    };
    // clang-format on
    for (int i = 0; i < COUNT(refused); i++) {
        Arena *const arena = arena_new();
        assert_non_null(arena);
        if (setjmp(arena->out_of_memory) != 0) fail_msg("out of memory");
        Diags *const diags = diags_new(arena);
        const char *const path = arena_printf(arena, KILN_TEST_DIR "/unit/lower/gpu/%s.tile", refused[i].file);
        TileKernel *const kernel = check_kernel(program_load(arena, diags, path), refused[i].kernel,
                                                &(CheckOptions){ .target = "cuda", .arch = 90 });
        assert_non_null(kernel);
        const Target target = { .kind = &target_cuda, .gpu = &gpu_sm_90a };
        assert_null(compile_kernel(kernel, &target, NULL, NULL));
        Text text = { .arena = arena };
        diags_print(diags, &text, false);
        for (int j = 0; j < COUNT(refused[i].messages) && refused[i].messages[j]; j++)
            if (!strstr(text_cstr(&text), refused[i].messages[j]))
                fail_msg("%s: %s", refused[i].kernel, text_cstr(&text));
        arena_free(arena);
    }
}

// How many actions that order others can be left out of a block, one at a time, without a fault being found.
static int count_unneeded(const Schedule *schedule, Action **link)
{
    int n = 0;
    for (; *link; link = &(*link)->next) {
        Action *const action = *link;
        const bool orders = (action->kind >= ACTION_ACQUIRE && action->kind <= ACTION_ADVANCE) ||
                            action->kind == ACTION_COPY_WAIT || action->kind == ACTION_STORE_WAIT ||
                            action->kind == ACTION_MMA_WAIT || action->kind == ACTION_FENCE_ASYNC ||
                            (action->kind >= ACTION_BARRIER_SYNC && action->kind <= ACTION_WARP_SYNC);
        if (orders) {
            *link = action->next;
            n += schedule_verify(schedule).kind == FAULT_NONE;
            *link = action;
        }
        n += count_unneeded(schedule, &action->body) + count_unneeded(schedule, &action->otherwise);
    }
    return n;
}

// Of a GEMM everything is needed, down to the arm that copies elements; but there the slot has been waited for a step ahead, and
// where both operands are shifted, the copies of one are waited for with the other's. Attention has a wait that only keeps ptxas
// from moving another, and a warp meets before it releases what ldmatrix has read.
static void schedules_leave_nothing_out(void **state)
{
    (void)state;
    static const struct {
        Case kernel;
        int unneeded;
    } all[] = {
        { { .file = "gemm/gemm.tile", .kernel = "gemm_nt", .arch = 90 }, 2 },
        { { .file = "attention/forward.tile", .kernel = "attention_forward", .arch = 90 }, 2 },
    };
    for (int i = 0; i < COUNT(all); i++) {
        Arena *const arena = arena_new();
        assert_non_null(arena);
        if (setjmp(arena->out_of_memory) != 0) fail_msg("out of memory");
        const Schedule *const schedule = compile_case(arena, &all[i].kernel)->unit->schedule;
        int n = 0;
        for (int r = 0; r < schedule->roles.count; r++) n += count_unneeded(schedule, &schedule->roles.items[r]->body);
        assert_int_equal(n, all[i].unneeded);
        arena_free(arena);
    }
}

#ifdef HAS_ADDRESS_SANITIZER
enum { PTXAS_ONE_OF = 20 }; // ptxas says the same of the same text
#else
enum { PTXAS_ONE_OF = 3 };
#endif

static void ptxas_reports_no_spills(void **state)
{
    char text[256];
    if (nvrtc_describe(text, sizeof text) != KILN_OK) {
        skip_because("there is no NVRTC");
    }
    for (int i = 0; i < COUNT(cases); i++) {
        if (!has_turn(i, PTXAS_ONE_OF)) continue;
        Arena *const arena = arena_new();
        assert_non_null(arena);
        if (setjmp(arena->out_of_memory) != 0) fail_msg("out of memory");
        const Compiled *const compiled = compile_case(arena, &cases[i]);
        char name[HASH_NAME], *cubin = NULL;
        size_t n = 0;
        CudaResources r = { 0 };
        assert_int_equal(
            nvrtc_build(compiled->source, cuda_arch(gpu_find(cases[i].arch), 0), cases[i].kernel, name, &cubin, &n, &r),
            KILN_OK);
        if (r.serialised_wgmma || (cases[i].is_clean && (r.spill_store_bytes || r.stack_bytes)))
            fail_msg("%s: %d bytes spilled, %d of stack, serialised: %d", cases[i].kernel, r.spill_store_bytes,
                     r.stack_bytes, r.serialised_wgmma);
        memory_free(cubin);
        arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_hold_the_planned_instructions),
        cmocka_unit_test(explanations_say_what_runs),
        cmocka_unit_test(sums_over_warps_take_one_barrier),
        cmocka_unit_test(groups_wait_for_tiles_and_give_them_back_in_their_place),
        cmocka_unit_test(kernels_that_fill_shared_memory_fit_with_checks),
        cmocka_unit_test(what_cannot_be_is_an_error),
        cmocka_unit_test(schedules_leave_nothing_out),
        cmocka_unit_test(ptxas_reports_no_spills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
