// SPDX-License-Identifier: MIT
// A schedule as text: the tables, then the roles.
#include "schedules.h"

#include "lower/gpu/schedule/dump.h"

static void expect_dump(Made made, const char *expected)
{
    Text text = { .arena = made.arena };
    schedule_dump(made.schedule, &text);
    assert_string_equal(text_cstr(&text), expected);
    end_schedule(&made);
}

static void gemm_reads_as_it_runs(void **state)
{
    (void)state;
    expect_dump(make_gemm(), "schedule gemm for sm_90a: 384 threads, 213040 bytes of shared memory, persistent\n"
                             "  roles\n"
                             "    producer: threads 0 .. 127, 40 registers each\n"
                             "    consumers: threads 128 .. 383, 232 registers each\n"
                             "  registers\n"
                             "    acc f32[128][256], m64 accumulator, 128 registers a thread\n"
                             "  shared memory\n"
                             "    a bf16[128][64], swizzle 128: 3 x 16384 bytes @0, ring a b\n"
                             "    b bf16[128][128], swizzle 128: 3 x 32768 bytes @49152, ring a b\n"
                             "    stage bf16[128][256], swizzle 128: 65536 bytes @147456\n"
                             "  rings\n"
                             "    a b[3]: full @212992 counts 1, empty @213016 counts 8\n"
                             "producer:\n"
                             "  for tile in grid\n"
                             "    pipeline (; stages = 3)\n"
                             "      one thread\n"
                             "        acquire a b\n"
                             "        expect a b, 49152 bytes\n"
                             "        tma a, 16384 bytes\n"
                             "        tma b, 32768 bytes\n"
                             "      advance a b\n"
                             "consumers:\n"
                             "  for tile in grid\n"
                             "    map acc\n"
                             "    pipeline (; stages = 3)\n"
                             "      wait a b\n"
                             "      mma.issue acc <- acc, a, b, 4 x wgmma.m64n128k16\n"
                             "      mma.wait 0\n"
                             "      release a b, 8 arrivals\n"
                             "      advance a b\n"
                             "    store.wait 0\n"
                             "    barrier.sync 2 + group, 128 threads\n"
                             "    map stage <- acc\n"
                             "    fence.proxy.async\n"
                             "    barrier.sync 2 + group, 128 threads\n"
                             "    one thread\n"
                             "      store (staged, tma) <- stage, 32768 bytes\n"
                             "  store.wait 0\n");
}

static void multistage_reads_as_it_runs(void **state)
{
    (void)state;
    expect_dump(make_multistage(), "schedule gemm for sm_80: 256 threads, 98304 bytes of shared memory\n"
                                   "  roles\n"
                                   "    consumers: threads 0 .. 255\n"
                                   "  registers\n"
                                   "    acc f32[128][128], m64 accumulator, 64 registers a thread\n"
                                   "  shared memory\n"
                                   "    a bf16[128][128], swizzle 128: 3 x 32768 bytes @0\n"
                                   "consumers:\n"
                                   "  pipeline (; stages = 3), prologue iterations: 2\n"
                                   "    every iteration after the prologue\n"
                                   "      cp.async.wait 1\n"
                                   "      barrier.sync 0\n"
                                   "    the step ahead, if there is one\n"
                                   "      cp.async a\n"
                                   "    cp.async.commit\n"
                                   "    every iteration after the prologue\n"
                                   "      map acc <- a\n");
}

// What comes from the source stands as Tile IR prints it, in one line.
static void source_operations_are_cut_to_a_line(void **state)
{
    (void)state;
    Made made = make_schedule("loops", 0);
    Var n = { .name = "n" };
    Arena *const arena = made.arena;
    TileOp op = { .kind = T_FOR,
                  .for_ = { .var = &n,
                            .lo = expr_int(arena, DTYPE_I32, 0),
                            .hi = expr_int(arena, DTYPE_I32, 8),
                            .step = expr_int(arena, DTYPE_I32, 2) } };
    TileOp branch = { .kind = T_IF, .branch = { .cond = expr_bool(arena, true) } };
    TileOp print = { .kind = T_PRINT,
                     .print = { .format = "a text that is so long that nobody would read all of it in "
                                          "a line of a dump, which has room for a hundred columns" } };
    begin_role(&made, ROLE_OF_CONSUMERS, "consumers", 0, 128, 0);
    open_loop(&made, &op, LOOP_ALL);
    open_if(&made, &branch);
    schedule_add(&made.builder, (Action){ .kind = ACTION_SCALAR, .op = &print });
    schedule_otherwise(&made.builder);
    add(&made, ACTION_WARP_SYNC);
    close_body(&made);
    close_body(&made);
    end_role(&made);
    expect_dump(made,
                "schedule loops for sm_90a: 128 threads, 0 bytes of shared memory, persistent\n"
                "  roles\n"
                "    consumers: threads 0 .. 127\n"
                "consumers:\n"
                "  for (n : 0 .. 8 step 2)\n"
                "    if (true)\n"
                "      scalar print(\"a text that is so long that nobody would read all of it in a line of a dump, "
                "which has roo...\n"
                "    else\n"
                "      warp.sync\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemm_reads_as_it_runs),
        cmocka_unit_test(multistage_reads_as_it_runs),
        cmocka_unit_test(source_operations_are_cut_to_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
