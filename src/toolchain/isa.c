// SPDX-License-Identifier: MIT
// isa.c - the forms of CPU code, and which of them this machine runs.
#define _GNU_SOURCE // secure_getenv
#include "toolchain/toolchain.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// One row for each form that CPU code comes in, better ones after; a form is this row, its branches in the prelude
// (lower/cpu/prelude) and their macros (lower/cpu/prelude.c). `flags` admit the instructions of the form and no others;
// `native` is for code that stays on this machine.
#define NO_TILES " -mno-amx-tile -mno-amx-bf16 -mno-amx-int8" // the processor may have what the system does not grant
#define WIDE " -mprefer-vector-width=512"
#define DOTS " -mavx512vnni -mavx512bf16"
// clang-format off
static const CpuForm forms[] = {
    { "portable",     NULL,      { .isa = ISA_PORTABLE }, "", "" },
    { "avx2",         "x86_64",  { .isa = ISA_AVX2 }, "-march=x86-64-v3", "-march=native" },
    { "avx512",       "x86_64",  { .isa = ISA_AVX512 }, "-march=x86-64-v4" WIDE, "-march=native" WIDE NO_TILES },
    { "avx512_vnni",  "x86_64",  { .isa = ISA_AVX512, .vnni = true }, "-march=x86-64-v4 -mavx512vnni" WIDE, "-march=native" WIDE NO_TILES },
    { "avx512_bf16",  "x86_64",  { .isa = ISA_AVX512, .vnni = true, .bf16 = true }, "-march=x86-64-v4" DOTS WIDE, "-march=native" WIDE NO_TILES },
    { "amx",          "x86_64",  { .isa = ISA_AVX512, .vnni = true, .bf16 = true, .amx = true },
      "-march=x86-64-v4 -mamx-tile -mamx-bf16 -mamx-int8" DOTS WIDE, "-march=native" WIDE },
    { "neon",         "aarch64", { .isa = ISA_NEON }, "-march=armv8-a", "-march=armv8-a" },
    { "neon_dot",     "aarch64", { .isa = ISA_NEON, .vnni = true }, "-march=armv8.2-a+dotprod", "-march=armv8.2-a+dotprod" },
    { "neon_bf16",    "aarch64", { .isa = ISA_NEON, .vnni = true, .bf16 = true }, "-march=armv8.2-a+dotprod+bf16",
      "-march=armv8.2-a+dotprod+bf16" },
    { "sve256",       "aarch64", { .isa = ISA_SVE256, .vnni = true }, "-march=armv8.2-a+sve -msve-vector-bits=256",
      "-march=armv8.2-a+sve -msve-vector-bits=256" },
    { "sve256_bf16",  "aarch64", { .isa = ISA_SVE256, .vnni = true, .bf16 = true }, "-march=armv8.2-a+sve+bf16 -msve-vector-bits=256",
      "-march=armv8.2-a+sve+bf16 -msve-vector-bits=256" },
};
// clang-format on

#if defined(__x86_64__)
#include <cpuid.h>

static const char own_machine[] = "x86_64";

static bool bit(unsigned word, int n) { return word >> n & 1; }

// Tile registers must be asked for once per process (arch_prctl ARCH_REQ_XCOMP_PERM of XTILEDATA).
static bool ask_for_tiles(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }

static CpuTarget detect(void)
{
    CpuTarget target = { .isa = ISA_PORTABLE };
    unsigned a, b, c, d, c1, xcr0, high;
    if (!__get_cpuid(1, &a, &b, &c1, &d) || !bit(c1, 27)) return target;
    __asm__("xgetbv" : "=a"(xcr0), "=d"(high) : "c"(0)); // what the system saves when threads switch
    if ((xcr0 & 6) != 6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return target;
    const bool fma = bit(c1, 12), f16c = bit(c1, 29), avx2 = bit(b, 5), bmi2 = bit(b, 8);
    if (fma && f16c && avx2 && bmi2) target.isa = ISA_AVX2;
    const bool f = bit(b, 16), dq = bit(b, 17), bw = bit(b, 30), vl = bit(b, 31);
    if (target.isa != ISA_AVX2 || (xcr0 & 0xe6) != 0xe6 || !f || !dq || !bw || !vl) return target;
    target.isa = ISA_AVX512;
    target.vnni = bit(c, 11);
    const bool tiles = bit(d, 22) && bit(d, 24) && bit(d, 25);
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) target.bf16 = bit(a, 5);
    target.amx = tiles && (xcr0 & 0x60000) == 0x60000 && ask_for_tiles();
    return target;
}

static void identify(char *text, size_t n)
{
    unsigned w[16] = { 0 };
    __get_cpuid(1, &w[0], &w[1], &w[2], &w[3]);
    w[1] = 0; // holds the number of the core it ran on
    __get_cpuid_count(7, 0, &w[4], &w[5], &w[6], &w[7]);
    __get_cpuid_count(7, 1, &w[8], &w[9], &w[10], &w[11]);
    w[2] &= ~(1u << 27); // follows the system's state
    int at = 0;
    for (int i = 0; i < 12; i++) at += snprintf(text + at, n - (size_t)at, "%x.", w[i]);
}
#elif defined(__aarch64__)
#include <sys/auxv.h>
#include <sys/prctl.h>

static const char own_machine[] = "aarch64";

// Bits of AT_HWCAP and AT_HWCAP2, as the kernel numbers them.
enum { HAS_DOT_PRODUCTS = 1 << 20, HAS_SVE = 1 << 22, HAS_BF16 = 1 << 14, HAS_SVE_BF16 = 1 << 12 };
enum { ASK_VECTOR_LENGTH = 51, LENGTH_MASK = 0xffff }; // prctl PR_SVE_GET_VL

static CpuTarget detect(void)
{
    const unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
    CpuTarget target = { .isa = ISA_NEON, .vnni = first & HAS_DOT_PRODUCTS, .bf16 = second & HAS_BF16 };
    // Code for fixed lengths runs at that length alone.
    if (first & HAS_SVE && (prctl(ASK_VECTOR_LENGTH) & LENGTH_MASK) == 32)
        target = (CpuTarget){ .isa = ISA_SVE256, .vnni = true, .bf16 = second & HAS_SVE_BF16 };
    return target;
}

static void identify(char *text, size_t n) { snprintf(text, n, "%lx.%lx", getauxval(AT_HWCAP), getauxval(AT_HWCAP2)); }
#else
static const char own_machine[] = "";
static CpuTarget detect(void) { return (CpuTarget){ .isa = ISA_PORTABLE }; }
static void identify(char *text, size_t n) { snprintf(text, n, "portable"); }
#endif

// ---- forms

static bool is_of_machine(const CpuForm *form, const char *machine)
{
    return !form->machine || strcmp(form->machine, machine) == 0;
}

static bool has_all(const CpuTarget *have, const CpuForm *form)
{
    const CpuTarget *const wanted = &form->target;
    return is_of_machine(form, own_machine) && wanted->isa <= have->isa && wanted->bf16 <= have->bf16 &&
           wanted->vnni <= have->vnni && wanted->amx <= have->amx;
}

static const CpuForm *best_form(const CpuTarget *have)
{
    const CpuForm *best = &forms[0];
    for (int i = 1; i < COUNT(forms); i++)
        if (has_all(have, &forms[i])) best = &forms[i];
    return best;
}

static const CpuForm *machine_form;
static char machine_identity[192];

static void detect_once(void)
{
    const CpuTarget target = detect();
    machine_form = best_form(&target);
    identify(machine_identity, sizeof machine_identity);
}

const CpuForm *cpu_form_of_machine(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, detect_once);
    return machine_form;
}

CpuTarget cpu_target_of_machine(void) { return cpu_form_of_machine()->target; }

const char *cpu_machine(void) { return own_machine; }

const char *cpu_identity(void)
{
    cpu_form_of_machine();
    return machine_identity;
}

static bool is_same(const CpuTarget *a, const CpuTarget *b)
{
    return a->isa == b->isa && a->bf16 == b->bf16 && a->vnni == b->vnni && a->amx == b->amx;
}

const CpuForm *cpu_form_of(const CpuTarget *target)
{
    const CpuForm *found = &forms[0];
    for (int i = 0; i < COUNT(forms); i++)
        if (is_same(&forms[i].target, target)) found = &forms[i];
    return found;
}

const CpuForm *cpu_form_find(const char *name)
{
    for (int i = 0; i < COUNT(forms); i++)
        if (strcmp(forms[i].name, name) == 0) return &forms[i];
    return NULL;
}

void cpu_form_names(const char *machine, char *text, size_t bytes)
{
    size_t at = 0;
    for (int i = COUNT(forms) - 1; i >= 0 && at < bytes; i--)
        if (!machine || is_of_machine(&forms[i], machine))
            at += (size_t)snprintf(text + at, bytes - at, "%s%s", at == 0 ? "" : i == 0 ? " or " : ", ", forms[i].name);
}

kiln_status cpu_form_choose(const char *isa, const CpuForm **form)
{
    const CpuForm *const machine = cpu_form_of_machine();
    const bool from_environment = !isa;
    *form = machine;
    if (!isa) isa = secure_getenv("KILN_ISA");
    if (!isa || !*isa) return KILN_OK;
    const CpuForm *const found = cpu_form_find(isa);
    if (!found) {
        char names[256];
        cpu_form_names(own_machine, names, sizeof names);
        return status_fail(KILN_BAD_ARGUMENT, "%s '%s' is unknown: expected %s",
                           from_environment ? "KILN_ISA" : "instruction set", isa, names);
    }
    if (!has_all(&machine->target, found))
        return status_fail(KILN_UNSUPPORTED, "this machine has no %s; its best is %s", isa, machine->name);
    *form = found;
    return KILN_OK;
}

kiln_status cpu_target_choose(const char *isa, CpuTarget *target)
{
    const CpuForm *form;
    const kiln_status status = cpu_form_choose(isa, &form);
    *target = form->target;
    return status;
}

bool cpu_form_runs(const char *name, const CpuForm *limit)
{
    const CpuForm *const form = cpu_form_find(name);
    return form && has_all(&limit->target, form);
}
