// SPDX-License-Identifier: MIT
// reference.c - references of kernels as kernels of the CPU, for tests and benchmarks; and some of their instances alone.
//
// A reference whose body is one forall has an instance for each iteration (lower/cpu/sequential.c). Some instances,
// drawn at random, judge a kernel at sizes that all of them could not follow in hours.
#include "base/memory.h"
#include "runtime/build.h"

kiln_status reference_build(kiln_program *program, const char *name, const Binding *bindings, int n_bindings,
                            kiln_kernel **reference)
{
    BuildRequest request = {
        .program = program, .name = name, .bindings = bindings, .n_bindings = n_bindings, .form = FORM_REFERENCE
    };
    kiln_status status = kiln_device_open("cpu", &request.device);
    if (!status) status = target_choose(request.device, NULL, &request.target);
    if (!status) status = kernel_build(&request, reference);
    kiln_device_close(request.device); // the kernel holds a use of it
    return status;
}

// Of n equal parts of them, one of each, so that none runs twice.
static int64_t draw_instance(int64_t i, int64_t n, int64_t all)
{
    const int64_t begin = (int64_t)((__int128)all * i / n), end = (int64_t)((__int128)all * (i + 1) / n);
    const uint64_t hash = (uint64_t)(i + all) * 0x9e3779b97f4a7c15u;
    return i == 0 ? 0 : i == n - 1 ? all - 1 : begin + (int64_t)((hash ^ hash >> 29) % (uint64_t)(end - begin));
}

kiln_status reference_run_some(kiln_kernel *reference, const kiln_arg *args, int n_args, int64_t n)
{
    Launch launch;
    kiln_status status = launch_prepare(&launch, reference->plan, reference->device, args, n_args);
    if (status) return status;
    if (launch.instances <= n) return cpu_run(reference->entry, &launch, NULL, launch.instances);
    int64_t *const some = memory_alloc(sizeof *some * (size_t)n);
    if (!some) return status_fail(KILN_OUT_OF_MEMORY, "out of memory for instances of a reference");
    for (int64_t i = 0; i < n; i++) some[i] = draw_instance(i, n, launch.instances);
    status = cpu_run(reference->entry, &launch, some, n);
    memory_free(some);
    return status;
}
