// SPDX-License-Identifier: MIT
// instructions.cpp - which PTX instructions are emulated, and what each becomes in C++.
//
// A rule's pattern is matched with "OPCODE SHAPE": the shape has a letter for each operand, r for a register or number,
// a for an [address], v for a {vector}. In the text, $0 to $9 are the operands (addresses and vectors as their parts,
// separated by commas), @1 to @9 what the pattern captured, ^1 to ^9 the same in capitals. Types are names in `ptx`.
#include "rewrite.h"

#include <cctype>

namespace emu {

#define OWN     "(?:\\.shared(?:::cta)?)"
#define REMOTE  "\\.shared::cluster"
#define SCOPE  "(?:\\.(?:cta|cluster|gpu|sys))?"
#define ORDER  "(?:\\.(?:weak|relaxed|release|acquire|acq_rel))?"
#define TYPE   "([bsuf](?:8|16|32|64))"
#define HINTS  "(?:\\.(?:nc|ca|cg|cs|cv|lu|wb|wt)|\\.L1::[a-z_]+|\\.L2::[a-z0-9_]+)*"

struct Rule { const char *pattern, *text; };

static const Rule rules[] = {
    // ---- mbarriers
    { "mbarrier\\.init" OWN "?\\.b64 ar", "ptx::mbarrier_init($0, $1)" },
    { "mbarrier\\.inval" OWN "?\\.b64 a", "ptx::mbarrier_inval($0)" },
    { "mbarrier\\.arrive" ORDER "(?:\\.cta|(\\.cluster))?" OWN "?\\.b64 ra", "ptx::assign($0, ptx::mbarrier_arrive(ptx::own($1), 1, \"@1\"[0] != 0))" },
    { "mbarrier\\.arrive" ORDER "(?:\\.cta|(\\.cluster))?" OWN "?\\.b64 rar", "ptx::assign($0, ptx::mbarrier_arrive(ptx::own($1), $2, \"@1\"[0] != 0))" },
    { "mbarrier\\.arrive" ORDER "(?:\\.cta|(\\.cluster))?" REMOTE "\\.b64 ra", "ptx::no_result($0, ptx::mbarrier_arrive($1, 1, \"@1\"[0] != 0))" },
    { "mbarrier\\.arrive" ORDER "(?:\\.cta|(\\.cluster))?" REMOTE "\\.b64 rar", "ptx::no_result($0, ptx::mbarrier_arrive($1, $2, \"@1\"[0] != 0))" },
    { "mbarrier\\.arrive\\.expect_tx" ORDER SCOPE OWN "?\\.b64 rar", "ptx::assign($0, ptx::mbarrier_arrive_expect_tx(ptx::own($1), $2))" },
    { "mbarrier\\.arrive\\.expect_tx" ORDER "(?:\\.cta|(\\.cluster))?" REMOTE "\\.b64 rar", "ptx::no_result($0, ptx::mbarrier_arrive_expect_tx($1, $2, \"@1\"[0] != 0))" },
    { "mbarrier\\.expect_tx" ORDER SCOPE OWN "?\\.b64 ar", "ptx::mbarrier_expect_tx(ptx::own($0), $1)" },
    { "mbarrier\\.expect_tx" ORDER SCOPE REMOTE "\\.b64 ar", "ptx::mbarrier_expect_tx($0, $1)" },
    { "mbarrier\\.complete_tx" ORDER SCOPE OWN "?\\.b64 ar", "ptx::mbarrier_complete_tx(ptx::own($0), $1)" },
    { "mbarrier\\.complete_tx" ORDER SCOPE REMOTE "\\.b64 ar", "ptx::mbarrier_complete_tx($0, $1)" },
    { "mbarrier\\.(?:try|test)_wait\\.parity" ORDER SCOPE OWN "?\\.b64 rarr?", "$0 = ptx::mbarrier_try_parity($1, $2)" },
    { "mbarrier\\.(?:try|test)_wait" ORDER SCOPE OWN "?\\.b64 rarr?", "$0 = ptx::mbarrier_try_state($1, $2)" },

    // ---- other barriers and fences
    { "(?:bar|barrier)(?:\\.cta)?\\.sync(?:\\.aligned)? rr?", "ptx::bar_sync($*)" },
    { "(?:bar|barrier)(?:\\.cta)?\\.arrive(?:\\.aligned)? rr", "ptx::bar_arrive($*)" },
    { "bar\\.warp\\.sync r", "ptx::warp_sync($0)" },
    { "barrier\\.cluster\\.arrive(?:\\.release|(\\.relaxed))?(\\.aligned)? ", "ptx::cluster_arrive(\"@1\"[0] == 0, \"@2\"[0] != 0)" },
    { "barrier\\.cluster\\.wait(?:\\.acquire)?(\\.aligned)? ", "ptx::cluster_wait(\"@1\"[0] != 0)" },
    { "fence\\.proxy\\.async(?:\\.global|\\.shared(?:::cta|::cluster)?)? ", "ptx::proxy_fence()" },
    { "fence\\.mbarrier_init\\.release\\.cluster ", "ptx::mbarrier_init_fence()" },
    { "fence(?:\\.sc|\\.acq_rel|\\.acquire|\\.release)?" SCOPE " ", "ptx::nothing()" },
    { "membar\\.(?:cta|gl|sys) ", "ptx::nothing()" },
    { "griddepcontrol\\.wait ", "ptx::wait_for_launches()" },
    { "nanosleep\\.u32 r", "ptx::looked_at_memory()" },
    { "trap ", "ptx::trap(\"trap\")" },

    // ---- lanes
    { "elect\\.sync rr", "ptx::pair_second($0, ptx::elect($1))" },
    { "mapa" REMOTE "\\.u32 rrr", "ptx::assign($0, ptx::map_to_rank($1, $2))" },
    { "ldmatrix\\.sync\\.aligned\\.m8n8\\.x([124])(\\.trans)?" OWN "?\\.b16 (?:v|r)a",
      "ptx::ldmatrix(\"@2\"[0] != 0, ptx::own($1), ptx::refs($0))" },
    { "stmatrix\\.sync\\.aligned\\.m8n8\\.x([124])(\\.trans)?" OWN "?\\.b16 a(?:v|r)",
      "ptx::stmatrix(\"@2\"[0] != 0, ptx::own($0), ptx::words($1))" },
    { "mma\\.sync\\.aligned\\.m16n8k(\\d+)\\.row\\.col\\.(?:f32|s32)\\.(f16|bf16|tf32|e4m3|e5m2|s8|u8)\\.(f16|bf16|tf32|e4m3|e5m2|s8|u8)\\.(?:f32|s32) vv[vr]v",
      "ptx::mma(@1, ptx::TYPE_^2, ptx::TYPE_^3, ptx::refs($0), ptx::words($1), ptx::words($2), ptx::words($3))" },
    { "mma\\.sp(?:::ordered_metadata)?\\.sync\\.aligned\\.m16n8k(\\d+)\\.row\\.col\\.(?:f32|s32)\\.(f16|bf16|e4m3|e5m2|s8|u8)\\.(f16|bf16|e4m3|e5m2|s8|u8)\\.(?:f32|s32) vvvvrr",
      "ptx::mma_sparse(@1, ptx::TYPE_^2, ptx::TYPE_^3, ptx::refs($0), ptx::words($1), ptx::words($2), ptx::words($3), $4, $5)" },
    { "mma\\.sync\\.aligned\\.m8n8k4\\.row\\.col\\.f64\\.f64\\.f64\\.f64 v[vr][vr]v",
      "ptx::mma_f64(ptx::doubles($0), $1, $2)" },
    { "wgmma\\.fence\\.sync\\.aligned ", "ptx::wgmma_fence()" },
    { "wgmma\\.commit_group\\.sync\\.aligned ", "ptx::wgmma_commit()" },
    { "wgmma\\.wait_group\\.sync\\.aligned r", "ptx::wgmma_wait($0)" },
    { "wgmma\\.mma_async\\.sync\\.aligned\\.m64n(\\d+)k(\\d+)\\.f32\\.(f16|bf16|tf32|e4m3|e5m2)\\.(f16|bf16|tf32|e4m3|e5m2) v[vr]rrrrr?r?",
      "ptx::wgmma_issue({ @1, @2, false, ptx::TYPE_^3, ptx::TYPE_^4 }, ptx::refs($0), ptx::operand($1), $2, $3, { $4+ })" },
    { "wgmma\\.mma_async\\.sync\\.aligned\\.m64n(\\d+)k(\\d+)\\.s32\\.(s8|u8)\\.(s8|u8) v[vr]rr",
      "ptx::wgmma_issue({ @1, @2, true, ptx::TYPE_^3, ptx::TYPE_^4 }, ptx::refs($0), ptx::operand($1), $2, $3, { 1, 1 })" },
    { "wgmma\\.mma_async\\.sp\\.sync\\.aligned\\.m64n(\\d+)k(\\d+)\\.f32\\.(f16|bf16|e4m3|e5m2)\\.(f16|bf16|e4m3|e5m2) v[vr]rrrrrrr?r?",
      "ptx::wgmma_sparse({ @1, @2, false, ptx::TYPE_^3, ptx::TYPE_^4 }, ptx::refs($0), ptx::operand($1), $2, $3, $4, $5, { $6+ })" },
    { "wgmma\\.mma_async\\.sp\\.sync\\.aligned\\.m64n(\\d+)k(\\d+)\\.s32\\.(s8|u8)\\.(s8|u8) v[vr]rrrr",
      "ptx::wgmma_sparse({ @1, @2, true, ptx::TYPE_^3, ptx::TYPE_^4 }, ptx::refs($0), ptx::operand($1), $2, $3, $4, $5, { 1, 1 })" },
    { "setmaxnreg\\.(inc|dec)\\.sync\\.aligned\\.u32 r", "ptx::set_max_registers($0, \"@1\"[0] == 'i')" },

    // ---- copies
    { "cp\\.async\\.(?:ca|cg)" OWN "\\.global" HINTS " aar", "ptx::cp_async($0, (const void *)($1), $2, $2)" },
    { "cp\\.async\\.(?:ca|cg)" OWN "\\.global" HINTS " aarr", "ptx::cp_async($0, (const void *)($1), $2, $3)" },
    { "cp\\.async\\.commit_group ", "ptx::cp_async_commit()" },
    { "cp\\.async\\.wait_group r", "ptx::cp_async_wait($0)" },
    { "cp\\.async\\.wait_all ", "ptx::cp_async_wait_all()" },
    { "cp\\.async\\.mbarrier\\.arrive(\\.noinc)?" OWN "?\\.b64 a", "ptx::cp_async_arrive($0, \"@1\"[0] == 0)" },
    { "cp\\.async\\.bulk\\.commit_group ", "ptx::bulk_commit()" },
    { "cp\\.async\\.bulk\\.wait_group r", "ptx::bulk_wait($0, false)" },
    { "cp\\.async\\.bulk\\.wait_group\\.read r", "ptx::bulk_wait($0, true)" },
    { "cp\\.async\\.bulk\\.tensor\\.([1-5])d\\.shared::(?:cluster|cta)\\.global(?:\\.tile)?\\.mbarrier::complete_tx::bytes(?:\\.L2::cache_hint)? aaar?",
      "ptx::tma_load(@1, $0, ptx::place($1), $2, ptx::ADDRESSED)" },
    { "cp\\.async\\.bulk\\.tensor\\.([3-5])d\\.shared::(?:cluster|cta)\\.global\\.im2col\\.mbarrier::complete_tx::bytes aaav",
      "ptx::tma_load_im2col(@1, $0, ptx::place($1), $2, $3)" },
    { "cp\\.async\\.bulk\\.tensor\\.([1-5])d\\.shared::cluster\\.global(?:\\.tile)?\\.mbarrier::complete_tx::bytes\\.multicast::cluster(?:\\.L2::cache_hint)? aaarr?",
      "ptx::tma_load(@1, $0, ptx::place($1), $2, $3)" },
    { "cp\\.async\\.bulk\\.tensor\\.([1-5])d\\.global\\.shared::cta(?:\\.tile)?\\.bulk_group(?:\\.L2::cache_hint)? aar?",
      "ptx::tma_store(@1, ptx::place($0), $1, ptx::REDUCE_ADD, false)" },
    { "cp\\.reduce\\.async\\.bulk\\.tensor\\.([1-5])d\\.global\\.shared::cta\\.(add|and|or|xor)(?:\\.tile)?\\.bulk_group(?:\\.L2::cache_hint)? aar?",
      "ptx::tma_store(@1, ptx::place($0), $1, ptx::REDUCE_^2, true)" },
    { "cp\\.reduce\\.async\\.bulk\\.tensor\\.([1-5])d\\.global\\.shared::cta\\.(min|max)(?:\\.tile)?\\.bulk_group(?:\\.L2::cache_hint)? aar?",
      "ptx::tma_store(@1, ptx::place($0), $1, ptx::REDUCE_^2_U, true)" },
    { "cp\\.async\\.bulk\\.shared::(?:cluster|cta)\\.global\\.mbarrier::complete_tx::bytes(?:\\.L2::cache_hint)? aarar?",
      "ptx::bulk_load($0, (const void *)($1), $2, $3, ptx::ADDRESSED)" },
    { "cp\\.async\\.bulk\\.shared::cluster\\.global\\.mbarrier::complete_tx::bytes\\.multicast::cluster(?:\\.L2::cache_hint)? aararr?",
      "ptx::bulk_load($0, (const void *)($1), $2, $3, $4)" },
    { "cp\\.async\\.bulk\\.shared::cluster\\.shared::cta\\.mbarrier::complete_tx::bytes aara", "ptx::bulk_send($0, $1, $2, $3)" },
    { "cp\\.async\\.bulk\\.global\\.shared::cta\\.bulk_group(?:\\.L2::cache_hint)? aarr?", "ptx::bulk_store((void *)($0), $1, $2, -1, ptx::REDUCE_ADD)" },
    { "cp\\.reduce\\.async\\.bulk\\.global\\.shared::cta\\.bulk_group(?:\\.L2::cache_hint)?\\.add(?:\\.noftz)?\\.(f16|bf16|f32|f64|u32|s32|u64) aarr?",
      "ptx::bulk_store((void *)($0), $1, $2, ptx::ELEMENT_^1, ptx::REDUCE_ADD)" },
    { "cp\\.async\\.bulk\\.prefetch\\.tensor\\.([1-5])d\\.L2\\.global(?:\\.tile)?(?:\\.L2::cache_hint)? ar?", "ptx::tma_prefetch_box(@1, ptx::place($0))" },
    { "cp\\.async\\.bulk\\.prefetch\\.L2\\.global(?:\\.L2::cache_hint)? arr?", "ptx::nothing()" },
    { "prefetch\\.tensormap a", "ptx::check_tensor_map((const void *)($0))" },
    { "prefetch(?:\\.global)?\\.L[12] a", "ptx::nothing()" },
    { "createpolicy\\..* r.*", "ptx::assign($0, (ptx::u64)1)" },
    { "st\\.async" ORDER SCOPE "(?:\\.shared::cluster)?\\.mbarrier::complete_tx::bytes(?:\\.v[24])?\\.[bufs]32 a[vr]a",
      "ptx::st_async($0, ptx::words($1), $2)" },

    // ---- loads and stores
    { "ld(?:\\.volatile)?" ORDER SCOPE OWN "(?:\\.v[248])?\\." TYPE " [rv]a", "ptx::load_shared<ptx::@1>(ptx::own($1), $0)" },
    { "st(?:\\.volatile)?" ORDER SCOPE OWN "(?:\\.v[248])?\\." TYPE " a[rv]", "ptx::store_shared<ptx::@1>(ptx::own($0), $1)" },
    { "ld" ORDER SCOPE REMOTE "(?:\\.v[248])?\\." TYPE " [rv]a", "ptx::load_shared<ptx::@1>($1, $0)" },
    { "st" ORDER SCOPE REMOTE "(?:\\.v[248])?\\." TYPE " a[rv]", "ptx::store_shared<ptx::@1>($0, $1)" },
    { "ld\\.(?:volatile|relaxed|acquire)" SCOPE "(?:\\.global)?" HINTS "(?:\\.v[248])?\\." TYPE " [rv]a", "ptx::load<ptx::@1>(true, $1, $0)" },
    { "ld(?:\\.weak)?(?:\\.global)?" HINTS "(?:\\.v[248])?\\." TYPE " [rv]a", "ptx::load<ptx::@1>(false, $1, $0)" },
    { "st(?:\\.volatile)?" ORDER SCOPE "(?:\\.global)?" HINTS "(?:\\.v[248])?\\." TYPE " a[rv]", "ptx::store<ptx::@1>($0, $1)" },
    { "red" ORDER SCOPE "(?:\\.global)?\\.add(?:\\.noftz)?(?:\\.v[248])?\\.(f16x2|bf16x2|f16|bf16|f32|f64|u32|s32|u64) a[rv]",
      "ptx::red(ptx::ELEMENT_^1, ptx::REDUCE_ADD, (void *)($0), $1)" },
    { "red" ORDER SCOPE "(?:\\.global)?\\.(min|max)\\.(u|s)(32|64) a[rv]", "ptx::red(ptx::ELEMENT_^2@3, ptx::REDUCE_^1_^2, (void *)($0), $1)" },
    { "atom" ORDER SCOPE "(?:\\.global)?\\.add\\.(f32|f64|u32|s32|u64) rar", "ptx::assign($0, ptx::atomic_add((ptx::@1 *)($1), ptx::to<ptx::@1>($2)))" },
    { "atom" ORDER SCOPE "(?:\\.global)?\\.exch\\.(b32|b64) rar", "ptx::assign($0, ptx::atomic_exchange((ptx::@1 *)($1), ptx::to<ptx::@1>($2)))" },
    { "atom" ORDER SCOPE "(?:\\.global)?\\.cas\\.(b32|b64) rarr", "ptx::assign($0, ptx::atomic_cas((ptx::@1 *)($1), ptx::to<ptx::@1>($2), ptx::to<ptx::@1>($3)))" },

    // ---- conversions
    { "cvt\\.f32\\.f16 rr", "$0 = ptx::from_f16($1)" },
    { "cvt\\.f32\\.bf16 rr", "$0 = ptx::from_bf16($1)" },
    { "cvt\\.rn\\.f16\\.f32 rr", "$0 = ptx::to_f16($1)" },
    { "cvt\\.rn\\.bf16\\.f32 rr", "$0 = ptx::to_bf16($1)" },
    { "cvt\\.rn\\.(bf16|f16)x2\\.f32 rrr", "$0 = (ptx::u32)ptx::to_@1($1) << 16 | ptx::to_@1($2)" },
    { "cvt\\.rn\\.satfinite\\.(e4m3|e5m2)x2\\.f32 rrr", "$0 = (ptx::u16)(ptx::to_@1($1) << 8 | ptx::to_@1($2))" },
    { "cvt\\.rn\\.f16x2\\.(e4m3|e5m2)x2 rr", "$0 = (ptx::u32)ptx::to_f16(ptx::from_@1((ptx::u8)(($1) >> 8))) << 16 | ptx::to_f16(ptx::from_@1((ptx::u8)($1)))" },
    { "cvt\\.rn\\.satfinite\\.(e4m3|e5m2)x2\\.f16x2 rr",
      "$0 = (ptx::u16)(ptx::to_@1(ptx::from_f16((ptx::u16)(($1) >> 16))) << 8 | ptx::to_@1(ptx::from_f16((ptx::u16)($1))))" },
    { "cvt\\.rna\\.tf32\\.f32 rr", "ptx::assign($0, ptx::rounded_tf32($1))" },
    { "cvt\\.(rzi|rni|rmi|rpi)\\.([su](?:32|64))\\.(f32|f64) rr", "ptx::assign($0, ptx::to_integer<ptx::@2>(ptx::@1($1)))" },
    { "cvt\\.r[nz]\\.(f32|f64)\\.([suf](?:32|64)) rr", "ptx::assign($0, (ptx::@1)ptx::to<ptx::@2>($1))" },
    { "cvt\\.([su](?:16|32|64))\\.([su](?:16|32|64)) rr", "ptx::assign($0, (ptx::@1)ptx::to<ptx::@2>($1))" },

    // ---- arithmetic
    { "ex2\\.approx(?:\\.ftz)?\\.f32 rr", "$0 = exp2f(ptx::to<ptx::f32>($1))" },
    { "lg2\\.approx\\.f32 rr", "$0 = log2f(ptx::to<ptx::f32>($1))" },
    { "lg2\\.approx\\.ftz\\.f32 rr", "$0 = log2f(ptx::flushed(ptx::to<ptx::f32>($1)))" },
    { "rcp\\.(?:approx|rn)(?:\\.ftz)?\\.f32 rr", "$0 = 1.0f / ptx::to<ptx::f32>($1)" },
    { "rsqrt\\.approx(?:\\.ftz)?\\.f32 rr", "$0 = 1.0f / sqrtf(ptx::to<ptx::f32>($1))" },
    { "sqrt\\.(?:approx|rn)(?:\\.ftz)?\\.f32 rr", "$0 = sqrtf(ptx::to<ptx::f32>($1))" },
    { "tanh\\.approx\\.f32 rr", "$0 = ptx::coarse(tanhf(ptx::to<ptx::f32>($1)))" },
    { "(sin|cos)\\.approx(?:\\.ftz)?\\.f32 rr", "$0 = @1f(ptx::to<ptx::f32>($1))" },
    { "div\\.(?:full|approx|rn)(?:\\.ftz)?\\.f32 rrr", "$0 = ptx::to<ptx::f32>($1) / ptx::to<ptx::f32>($2)" },
    { "add(?:\\.rn)?(?:\\.ftz)?\\." TYPE " rrr", "ptx::assign($0, (ptx::@1)(ptx::to<ptx::@1>($1) + ptx::to<ptx::@1>($2)))" },
    { "sub(?:\\.rn)?(?:\\.ftz)?\\." TYPE " rrr", "ptx::assign($0, (ptx::@1)(ptx::to<ptx::@1>($1) - ptx::to<ptx::@1>($2)))" },
    { "mul(?:\\.rn|\\.lo)?(?:\\.ftz)?\\." TYPE " rrr", "ptx::assign($0, (ptx::@1)(ptx::to<ptx::@1>($1) * ptx::to<ptx::@1>($2)))" },
    { "mad\\.lo\\." TYPE " rrrr", "ptx::assign($0, (ptx::@1)(ptx::to<ptx::@1>($1) * ptx::to<ptx::@1>($2) + ptx::to<ptx::@1>($3)))" },
    { "fma\\.rn(?:\\.ftz)?\\.(f32|f64) rrrr", "ptx::assign($0, (ptx::@1)fma((double)ptx::to<ptx::@1>($1), (double)ptx::to<ptx::@1>($2), (double)ptx::to<ptx::@1>($3)))" },
    { "(min|max)(?:\\.ftz)?\\.f32 rrr", "$0 = f@1f(ptx::to<ptx::f32>($1), ptx::to<ptx::f32>($2))" },
    { "(min|max)\\.([su](?:32|64)) rrr", "ptx::assign($0, @1(ptx::to<ptx::@2>($1), ptx::to<ptx::@2>($2)))" },
    { "mul(?:\\.rn)?\\.(bf16|f16)x2 rrr", "$0 = ptx::mul_pair(ptx::HALF_^1, $1, $2)" },
    { "sub(?:\\.rn)?\\.(bf16|f16)x2 rrr", "$0 = ptx::sub_pair(ptx::HALF_^1, $1, $2)" },
    { "add(?:\\.rn)?\\.(bf16|f16)x2 rrr", "$0 = ptx::add_pair(ptx::HALF_^1, $1, $2)" },
    { "fma\\.rn\\.(bf16|f16)x2 rrrr", "$0 = ptx::fma_pair(ptx::HALF_^1, $1, $2, $3)" },
    { "and\\.(?:b\\d+|pred) rrr", "$0 = ($1) & ($2)" },
    { "or\\.(?:b\\d+|pred) rrr", "$0 = ($1) | ($2)" },
    { "xor\\.(?:b\\d+|pred) rrr", "$0 = ($1) ^ ($2)" },
    { "not\\.pred rr", "$0 = !($1)" },
    { "not\\.b(\\d+) rr", "$0 = ~($1)" },
    { "shl\\.b(?:32|64) rrr", "$0 = ($2) < 8 * sizeof($0) ? ($1) << ($2) : 0" },
    { "shr\\.([bsu](?:32|64)) rrr", "ptx::assign($0, ptx::shift_right<ptx::@1>($1, $2))" },
    { "prmt\\.b32 rrrr", "$0 = ptx::permute($1, $2, $3)" },
    { "lop3\\.b32 rrrrr", "$0 = ptx::logic3($1, $2, $3, $4)" },
    { "dp4a\\.u32\\.u32 rrrr", "$0 = ptx::dot4($1, $2, $3)" },
    { "setp\\.(eq|ne|lt|le|gt|ge)\\." TYPE " rrr", "$0 = ptx::compare_@1(ptx::to<ptx::@2>($1), ptx::to<ptx::@2>($2))" },
    { "selp\\." TYPE " rrrr", "ptx::assign($0, ($3) ? ptx::to<ptx::@1>($1) : ptx::to<ptx::@1>($2))" },
    { "mov\\." TYPE " rr", "ptx::assign($0, ptx::to<ptx::@1>($1))" },
    { "mov\\.pred rr", "$0 = $1" },
    { "mov\\.b(?:32|64) rv", "$0 = ptx::packed<decltype($0 + 0)>($1)" },
    { "mov\\.b(?:32|64) vr", "ptx::unpack($1, $0)" },
    { "cvta\\.to\\.shared\\.u64 rr", "ptx::assign($0, ptx::shared_from_generic((const void *)($1)))" },
};

static std::string operands_from(const std::vector<Operand> &operands, size_t first)
{
    std::string text;
    for (size_t i = first; i < operands.size(); i++)
        text += (i > first ? ", " : "") + operands[i].text;
    return text;
}

static std::string fill(const char *text, const std::smatch &found, const std::vector<Operand> &operands)
{
    std::string out;
    for (const char *p = text; *p; p++) {
        const bool numbered = p[1] && isdigit((unsigned char)p[1]);
        if (*p == '$' && p[1] == '*') {
            out += operands_from(operands, 0);
            p++;
        } else if (*p == '$' && numbered) {
            const size_t i = (size_t)(*++p - '0');
            if (p[1] == '+')
                p++, out += operands_from(operands, i);
            else
                out += i < operands.size() ? operands[i].text : "";
        } else if ((*p == '@' || *p == '^') && numbered) {
            std::string part = found[(size_t)(p[1] - '0')].str();
            if (*p == '^')
                for (char &c : part)
                    c = (char)toupper((unsigned char)c);
            out += part;
            p++;
        } else {
            out += *p;
        }
    }
    return out;
}

std::string translate(const std::string &opcode, const std::vector<Operand> &operands)
{
    static const std::vector<std::regex> patterns = [] {
        std::vector<std::regex> made;
        for (const Rule &rule : rules)
            made.emplace_back(rule.pattern);
        return made;
    }();
    std::string key = opcode + " ";
    for (const Operand &x : operands)
        key += x.shape;
    std::smatch found;
    for (size_t i = 0; i < patterns.size(); i++)
        if (std::regex_match(key, found, patterns[i]))
            return fill(rules[i].text, found, operands);
    return "";
}

}
