// SPDX-License-Identifier: MIT
// isa.c - which instructions the CPU kernels may use here.
#define _GNU_SOURCE                  // secure_getenv
#include "toolchain/toolchain.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const isa_names[] = { [ISA_PORTABLE] = "portable", [ISA_AVX2] = "avx2", [ISA_AVX512] = "avx512" };

const char *cpu_isa_name(CpuIsa isa) { return isa_names[isa]; }

#if defined(__x86_64__)
#include <cpuid.h>

static bool bit(unsigned word, int n) { return word >> n & 1; }

// Tile registers must be asked for once per process (arch_prctl ARCH_REQ_XCOMP_PERM of XTILEDATA).
static bool ask_for_tiles(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }

static CpuTarget detect(void)
{
    CpuTarget target = { .isa = ISA_PORTABLE };
    unsigned a, b, c, d, c1, xcr0, high;
    if (!__get_cpuid(1, &a, &b, &c1, &d) || !bit(c1, 27))
        return target;
    __asm__("xgetbv" : "=a"(xcr0), "=d"(high) : "c"(0));   // what the system saves when threads switch
    if ((xcr0 & 6) != 6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return target;
    const bool fma = bit(c1, 12), f16c = bit(c1, 29), avx2 = bit(b, 5), bmi2 = bit(b, 8);
    if (fma && f16c && avx2 && bmi2)
        target.isa = ISA_AVX2;
    const bool f = bit(b, 16), dq = bit(b, 17), bw = bit(b, 30), vl = bit(b, 31);
    if (target.isa != ISA_AVX2 || (xcr0 & 0xe6) != 0xe6 || !f || !dq || !bw || !vl)
        return target;
    target.isa = ISA_AVX512;
    target.vnni = bit(c, 11);
    const bool tiles = bit(d, 22) && bit(d, 24) && bit(d, 25);
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d))
        target.bf16 = bit(a, 5);
    target.amx = tiles && (xcr0 & 0x60000) == 0x60000 && ask_for_tiles();
    return target;
}

static void identify(char *text, size_t n)
{
    unsigned w[16] = { 0 };
    __get_cpuid(1, &w[0], &w[1], &w[2], &w[3]);
    w[1] = 0;                        // holds the number of the core it ran on
    __get_cpuid_count(7, 0, &w[4], &w[5], &w[6], &w[7]);
    __get_cpuid_count(7, 1, &w[8], &w[9], &w[10], &w[11]);
    w[2] &= ~(1u << 27);             // follows the system's state
    int at = 0;
    for (int i = 0; i < 12; i++)
        at += snprintf(text + at, n - (size_t)at, "%x.", w[i]);
}
#else
static CpuTarget detect(void) { return (CpuTarget){ .isa = ISA_PORTABLE }; }
static void identify(char *text, size_t n) { snprintf(text, n, "portable"); }
#endif

static CpuTarget machine;
static char      machine_identity[192];

static void detect_once(void)
{
    machine = detect();
    identify(machine_identity, sizeof machine_identity);
}

CpuTarget cpu_target_of_machine(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, detect_once);
    return machine;
}

const char *cpu_identity(void)
{
    cpu_target_of_machine();
    return machine_identity;
}

kiln_status cpu_target_choose(const char *isa, CpuTarget *target)
{
    *target = cpu_target_of_machine();
    const bool from_environment = !isa;
    if (!isa)
        isa = secure_getenv("KILN_ISA");
    if (!isa || !*isa)
        return KILN_OK;
    for (int i = 0; i < COUNT(isa_names); i++) {
        if (strcmp(isa, isa_names[i]) != 0)
            continue;
        if (i > (int)target->isa)
            return status_fail(KILN_UNSUPPORTED, "this machine has no %s; its best is %s", isa, isa_names[target->isa]);
        if (i < (int)target->isa)
            *target = (CpuTarget){ .isa = (CpuIsa)i };
        return KILN_OK;
    }
    return status_fail(KILN_BAD_ARGUMENT, "%s '%s' is unknown: expected avx512, avx2 or portable",
                       from_environment ? "KILN_ISA" : "instruction set", isa);
}
