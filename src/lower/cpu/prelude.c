// SPDX-License-Identifier: MIT
// prelude.c - which parts of the prelude an emitted kernel starts with: each costs compile time, so only what is used.
#include "lower/cpu/cpu.h"

bool cpu_has_use(const Cpu *cx, const char *macro)
{
    for (int i = 0; i < cx->uses.count; i++)
        if (strcmp(cx->uses.items[i], macro) == 0) return true;
    return false;
}

static bool uses_any(const Cpu *cx, const char *const *macros, int n)
{
    for (int i = 0; i < n; i++)
        if (cpu_has_use(cx, macros[i])) return true;
    return false;
}

// The instruction set is the target's, not the compiler's guess: tile registers need the system's permission too.
static const char *isa_macros(Cpu *cx)
{
    // clang-format off
    static const struct { const char *own, *vnni, *bf16, *amx; } macros[] = {
        [ISA_PORTABLE] = { NULL, NULL, NULL, NULL },
        [ISA_AVX2]     = { "KILN_AVX2", NULL, NULL, NULL },
        [ISA_AVX512]   = { "KILN_AVX512", "KILN_VNNI", "KILN_BF16", "KILN_AMX" },
        [ISA_NEON]     = { "KILN_NEON", "KILN_ARM_DOT", "KILN_ARM_BF16", NULL },
        [ISA_SVE256]   = { "KILN_SVE256", "KILN_ARM_DOT", "KILN_ARM_BF16", NULL },
    };
    // clang-format on
    const CpuTarget *const t = cx->target;
    Text text = { .arena = cx->arena };
    // bf16 without tiles: on machines with both, the vector instruction is slower than two f32 products.
    const char *const names[] = { "KILN_ISA_GIVEN", macros[t->isa].own, t->vnni ? macros[t->isa].vnni : NULL,
                                  t->amx ? macros[t->isa].amx : NULL, t->bf16 && !t->amx ? macros[t->isa].bf16 : NULL };
    for (int i = 0; i < COUNT(names); i++)
        if (names[i]) text_print(&text, "#define %s 1\n", names[i]);
    return text_cstr(&text);
}

void cpu_choose_preludes(Cpu *cx)
{
    static const char *const narrow[] = { "BF16", "F16", "E4M3", "E5M2", "E4M3_E5M2", "E5M2_E4M3" };
    static const char *const bytes[] = { "I8I8", "U8U8", "I8U8", "U8I8" };
    static const char *const few[] = { "FEW_F32", "FEW_BF16", "FEW_F16", "FEW_E4M3", "FEW_E5M2" };
    const bool is_narrow = uses_any(cx, narrow, COUNT(narrow)), is_bytes = uses_any(cx, bytes, COUNT(bytes));
    const bool is_few = uses_any(cx, few, COUNT(few)), is_few_bytes = cpu_has_use(cx, "FEW_I8");
    const bool product = is_narrow || is_bytes || cpu_has_use(cx, "F32") || cpu_has_use(cx, "F64");
    const bool tiles = cx->target && cx->target->amx && (is_narrow || is_bytes || cpu_has_use(cx, "FEW_BF16"));
    const struct {
        const char *name;
        bool needed;
    } parts[] = {
        { "cpu/base", true },
        { "cpu/convert", true },
        { "cpu/entry", true },
        { "cpu/vector_math", cpu_has_use(cx, "MATH") },
        { "cpu/double_math", cpu_has_use(cx, "F64_MATH") },
        { "cpu/stream", cpu_has_use(cx, "STREAM") },
        { "cpu/reduce", cpu_has_use(cx, "REDUCE") },
        { "cpu/atomic", cx->atomics },
        { "cpu/check", cpu_is_checked(cx) },
        { "cpu/matmul_pack", is_few || is_few_bytes || (product && (is_narrow || is_bytes || cpu_has_use(cx, "F32"))) },
        { "cpu/matmul_vector", product },
        { "cpu/matmul_amx", tiles },
        { "cpu/matmul", product && (is_narrow || is_bytes || cpu_has_use(cx, "F32")) },
        { "cpu/matmul_f32", cpu_has_use(cx, "F32") },
        { "cpu/matmul_f64", cpu_has_use(cx, "F64") },
        { "cpu/matmul_narrow_float", is_narrow },
        { "cpu/matmul_i8", is_bytes },
        { "cpu/matmul_i32", cpu_has_use(cx, "I32") },
        { "cpu/matmul_few_bf16", cpu_has_use(cx, "FEW_BF16") },
        { "cpu/matmul_few", is_few },
        { "cpu/matmul_few_i8", is_few_bytes },
    };
    cx->unit->preludes = NEW_ARRAY(cx->arena, const char *, COUNT(parts));
    for (int i = 0; i < COUNT(parts); i++)
        if (parts[i].needed) cx->unit->preludes[cx->unit->n_preludes++] = parts[i].name;
    if (cx->target) cx->isa = isa_macros(cx);
}
