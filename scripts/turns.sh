#!/bin/sh
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034
# turns.sh - what scripts/test.sh takes on which day. Sourced, in the repository's root.
#
# Within so many days each has had its turn (tests/tools/turns_test.sh holds the lists to that; where nothing is said: 15):
#
#     kernels, on the CPU       7 days: every case of a seventh of the files, natively. 6 days: each kernel takes few cases, in which every value
#                               of every parameter occurs, every day in one form: natively (a third), with checks (a third), as AVX2 (a sixth),
#                               as portable C (a sixth). Kernels that say of tensors laid out otherwise what others say go natively in place of
#                               AVX2 and portable C
#     compiled for Hopper       7 days: the same seventh, every case; 6 days: few of a sixth; of the language 5 days: every case of a fifth of the
#                               files, few of another fifth
#     compiled as generic CUDA  7 days: few of the same seventh; 5 days: every case of a fifth of the language's files
#     on the emulated device    5 days: few of a fifth of the kernels, of a fifth of the generic ones; 2 days: half of the pipelined ones with
#                               other orders of threads, by seeds of the day; 3 days: a third of the operators' tests
#     operators, natively       all; 3 days: of the families that build many kernels a third, which the emulated device has another day
#     the language's cases      natively every case of half of the files; few of the other half in another form of C
#     what is long beside       one of five groups (group_of_day below): the emulated device, instruction sets, ARM, thousands of tokens
#     parts                     2 days: the build with TSan and what it runs, or rewritten kernels and random programs for the front end
#                               (left_parts below); 3 days: kernels compiled with checks for Hopper
#     ptxas on single kernels   a third (tests/turn.h), as faults that are planted in generated programs, and families of sweeps
#     the Python package        all but its longest file of tests or its second longest; or, with FRAMEWORKS=yes, all but these two with
#                               PyTorch and JAX
#     ASan's kernels            3 days: few of those that are taken natively
#     ASan's programs           all but the tools' or the longest unit tests; of the language's cases the forms of the day
#
# Generated programs run every day in all forms of C and on the emulated device, and are other ones each day.

every() { awk -v of="$1" -v at="$2" 'NR % of == at % of'; }    # every OF AT: those lines of a list
others_than() { awk -v of="$1" -v at="$2" 'NR % of != at % of'; }

# A list, one a line, as an alternative of a regular expression.
either() { tr '\n' '|' | sed 's/|$//'; }

groups='emulated_language_conversions_test gpu_instructions prelude_every_isa
emulated_language_check arm example_train_gdn language_run_gpu_files_0
emulated_language_run_0 gpu_emulator_faults docs_calls ops_recurrence_test
emulated_language_run_1 language_conversions_test ops_recurrent_backward_long
language_run_gpu_files_1 ops_recurrence_long'
group_of_day() { echo "$groups" | every 5 "$1" | tr ' ' '\n'; }

# What scripts/test.sh consists of: what others wait for first, what is short last.
all_parts='build_asan test_programs build_tsan test_native test_emulated test_generated test_cliffs test_cuda_90 test_cuda_80 test_cuda_checked test_checked test_avx2
    test_portable test_language test_asan test_asan_kernels test_tsan fuzz_front_end fuzz_launch'

# Kernels that the emulated device runs with other orders of threads, and those that it runs as generic CUDA.
all_pipelined() {
    printf 'kernels/%s.tile\n' gemm/gemm attention/forward attention/backward attention/varlen gemm/split_k gemm/stream_k linear/gdn \
        mla/decode linear/mamba2 sparse/block
}
all_generic() {
    find kernels/gemm kernels/norm -name '*.tile' | sort
    printf 'kernels/%s.tile\n' mla/decode_fp8 attention/forward topk/topk
}

# Sets what test.sh takes where nothing takes turns.
take_all() {
    pipelined=$(all_pipelined) emulated_80=$(all_generic)
    whole=kernels brief='' native='' compiled='' emulated=kernels sanitized=kernels of_check=kernels of_avx2=kernels of_portable=kernels
    language_90=tests/language/run brief_90='' language_80=tests/language/run
    rests='' rests_asan='' quick='' PYTHON_WITHOUT='' with_frameworks=yes left_parts='' few_sms='1 2 3' order_seed=0 generate_seed=1
}

# of_six DAY AT...: of a list on each of six days one sixth after the other.
of_six() { awk -v day="$1" -v at=" $2 " 'index(at, " " (NR + day) % 6 " ")'; }

# take_turns DAY TESTS: sets what the day takes of kernels and of the language's files (lists), and what it leaves of the parts (left_parts)
# and of TESTS, the names of ctest's (rests and rests_asan, regular expressions).
take_turns() {
    half=$(($1 % 2)) third=$(($1 % 3)) fifth=$(($1 % 5)) seventh=$(($1 % 7))
    kernels=$(find kernels -name '*.tile' | sort)
    whole=$(echo "$kernels" | every 7 $seventh)
    brief=$(echo "$kernels" | others_than 7 $seventh)
    compiled=$(echo "$kernels" | every 6 $(($1 % 6)) | grep -vxF "$whole")
    emulated=$(echo "$kernels" | every 5 $fifth)
    pipelined=$(all_pipelined | every 2 $half)
    few_sms="$((third + 1)) $(((third + 1) % 3 + 1))" order_seed=$1 generate_seed=$(($1 * 100000))
    emulated_80=$(all_generic | every 5 $fifth)
    alike='/(forward_bhsd|varlen|backward_varlen|masked|decode_dense_fp8).tile$'
    of_check=$(echo "$kernels" | of_six "$1" '1 4')
    of_avx2=$(echo "$kernels" | of_six "$1" 2 | grep -vE "$alike")
    of_portable=$(echo "$kernels" | of_six "$1" 5 | grep -vE "$alike")
    native=$(echo "$brief" | grep -vxF "$(printf '%s\n' "$of_check" "$of_avx2" "$of_portable")")
    sanitized=$(echo "$kernels" | of_six "$1" '0 3')       # compiled already: they are in `native` or in `whole`
    many='/(conversions|layouts|reductions|sparse24|tensor_cores).tile$'       # have most cases: one a day
    language=$(find tests/language/run -maxdepth 1 -name '*.tile' | sort | awk -v many="$many" '$0 ~ many { print; next } { rest = rest $0 "\n" } END { printf "%s", rest }')
    language_90=$(echo "$language" | every 5 $fifth)
    brief_90=$(echo "$language" | every 5 $(((fifth + 1) % 5)))
    language_80=$(echo "$language" | every 5 $fifth)

    today=$(group_of_day "$1" | either)
    of_group=$(echo "$groups" | tr ' ' '\n' | grep -vxE "$today")
    form=$(printf '%s\n' check avx2 portable | every 3 $third)
    of_language=$(echo "$2" | grep -E '^language_run(_check|_avx2|_portable)?_[01]$' | grep -vxE "language_run_($half|${form}_$((1 - half)))")
    # Operators: those of families that build many kernels on the emulated device one day, on the CPU another, on the third neither.
    emulated_ops=$(echo "$2" | grep '^emulated_ops_')
    of_emulated=$(echo "$emulated_ops" | others_than 3 $third)
    large='attention|attention_prefill|attention_sink|decode|deepseek|gated|gdn_backward|gemm|kda|mla_contiguous|mla_sparse|moe|nn|nsa'
    large="$large|quant|recurrent|recurrent_backward|sparse|strided"
    resting=$(echo "$emulated_ops" | others_than 3 $(((third + 1) % 3)) | sed 's/^emulated_//')
    of_cpu=$(echo "$2" | grep -E "^ops_($large)_test\$" | grep -xF "${resting:-none}")
    # With ASan: the kernels' code is the same, and compiled already where this build's tests take it.
    if [ "$half" = 0 ]; then of_asan='syntax_parser_test|layout_convert_test|layout_shared_transfer_test|check_limits_test'
    else of_asan='tools_cli|tools_page|tools_bench_page|tools_profile|tools_work|syntax_format_test|api_archive'
    fi
    if [ "$half" = 0 ]; then left_parts='test_cliffs fuzz_front_end'
    else left_parts='build_tsan test_tsan fuzz_launch'
    fi
    [ "$third" = 0 ] || left_parts="$left_parts test_cuda_checked"
    case $third in
    0) PYTHON_WITHOUT=test_recurrent with_frameworks='' ;;
    1) PYTHON_WITHOUT='test_ops test_recurrent' with_frameworks=yes ;;
    2) PYTHON_WITHOUT=test_ops with_frameworks='' ;;
    esac
    rests="^($(printf '%s\n' "$of_group" "$of_language" "$of_emulated" "$of_cpu" | grep . | either))\$"
    rests_asan="^($(printf '%s\n' "$of_group" "$of_language" "$of_cpu" | grep . | either)|$of_asan)\$"
}
