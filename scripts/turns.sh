#!/bin/sh
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034
# turns.sh - what scripts/test.sh takes on which day. Sourced, in the repository's root.
#
# Within 15 days each has had its turn (tests/tools/turns_test.sh holds the lists to that):
#
#     kernels, natively         of a fifth of the files every case; of the others few, in which every value of every parameter occurs, but
#                               for those that are taken with checks
#     compiled for Hopper       the same fifth, every case; of a third of the others few; of the language every case of a third of the files,
#                               few of another third
#     compiled as generic CUDA  few of the same fifth; every case of a third of the language's files
#     on the emulated device    few of a third of the kernels, of half of the pipelined ones with other orders of threads, of a third of the
#                               generic ones; half of the operators' tests
#     operators, natively       all; of the families that build many kernels those that the emulated device does not take
#     other forms of C          a third of the kernels with checks, a quarter as AVX2, a quarter as portable C, few cases. Kernels that say
#                               of tensors laid out otherwise what others say are taken with checks alone
#     the language's cases      natively every case of half of the files; few of the other half in another form of C
#     what is long beside       one of five groups (group_of_day below): the emulated device, instruction sets, ARM, thousands of tokens
#     ptxas on single kernels   a third (tests/turn.h), as faults that are planted in generated programs
#     the Python package        all but its longest file of tests or its second longest; or, with FRAMEWORKS=yes, all but these two with
#                               PyTorch and JAX
#     ASan's kernels            few of half of them
#     ASan's programs           all but the tools' or the longest unit tests; of the language's cases the forms of the day
#
# Generated programs run every day in all forms of C and on the emulated device.

every() { awk -v of="$1" -v at="$2" 'NR % of == at % of'; }    # every OF AT: those lines of a list
others_than() { awk -v of="$1" -v at="$2" 'NR % of != at % of'; }

# A list, one a line, as an alternative of a regular expression.
either() { tr '\n' '|' | sed 's/|$//'; }

groups='emulated_language_conversions_test gpu_instructions prelude_every_isa
emulated_language_check arm example_train_gdn language_run_gpu_files_0
emulated_language_run_0 gpu_emulator_faults
emulated_language_run_1 language_conversions_test ops_recurrent_backward_long
language_run_gpu_files_1 docs_calls ops_recurrence_test ops_recurrence_long'
group_of_day() { echo "$groups" | every 5 "$1" | tr ' ' '\n'; }

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
    rests='' rests_asan='' quick='' PYTHON_WITHOUT='' with_frameworks=yes
}

# take_turns DAY TESTS: sets what the day takes of kernels and of the language's files (lists), and what it leaves of TESTS, the names of
# ctest's (rests and rests_asan, regular expressions).
take_turns() {
    half=$(($1 % 2)) third=$(($1 % 3)) quarter=$(($1 % 4)) fifth=$(($1 % 5))
    kernels=$(find kernels -name '*.tile' | sort)
    whole=$(echo "$kernels" | every 5 $fifth)
    brief=$(echo "$kernels" | others_than 5 $fifth)
    compiled=$(echo "$brief" | every 3 $third)
    sanitized=$(echo "$kernels" | every 2 $half)
    emulated=$(echo "$kernels" | every 3 $third)
    pipelined=$(all_pipelined | every 2 $half)
    emulated_80=$(all_generic | every 3 $third)
    others=$(echo "$kernels" | grep -vE '/(forward_bhsd|varlen|backward_varlen|masked|decode_dense_fp8).tile$')
    of_check=$(echo "$kernels" | every 3 $third)
    native=$(echo "$brief" | grep -vxF "$of_check")        # with checks the others run on this processor, too
    of_avx2=$(echo "$others" | every 4 $quarter)
    of_portable=$(echo "$others" | every 4 $((quarter + 2)))
    language=$(find tests/language/run -maxdepth 1 -name '*.tile' | sort)
    language_90=$(echo "$language" | every 3 $third)
    brief_90=$(echo "$language" | every 3 $((third + 1)))
    language_80=$(echo "$language" | every 3 $third)

    today=$(group_of_day "$1" | either)
    of_group=$(echo "$groups" | tr ' ' '\n' | grep -vxE "$today")
    form=$(printf '%s\n' check avx2 portable | every 3 $third)
    of_language=$(echo "$2" | grep -E '^language_run(_check|_avx2|_portable)?_[01]$' | grep -vxE "language_run_($half|${form}_$((1 - half)))")
    of_emulated=$(echo "$2" | grep '^emulated_ops_' | others_than 2 $half)
    # On the CPU, of the operators' families that build many kernels: those that the emulated device does not take today.
    large='attention|attention_prefill|attention_sink|decode|deepseek|gated|gdn_backward|gemm|kda|mla_contiguous|mla_sparse|moe|nn|nsa'
    large="$large|quant|recurrent|recurrent_backward|sparse|strided"
    of_cpu=$(echo "$2" | grep -E "^ops_($large)_test\$" | while read -r test; do
        echo "$of_emulated" | grep -qx "emulated_$test" || echo "$test"; done)
    # With ASan: the kernels' code is the same, and compiled already where this build's tests take it.
    if [ "$half" = 0 ]; then of_asan='syntax_parser_test|layout_convert_test|layout_shared_transfer_test|check_limits_test'
    else of_asan='tools_cli|tools_page|tools_bench_page|tools_profile|tools_work|syntax_format_test|api_archive'
    fi
    case $third in
    0) PYTHON_WITHOUT=test_recurrent with_frameworks='' ;;
    1) PYTHON_WITHOUT='test_ops test_recurrent' with_frameworks=yes ;;
    2) PYTHON_WITHOUT=test_ops with_frameworks='' ;;
    esac
    rests="^($(printf '%s\n' "$of_group" "$of_language" "$of_emulated" "$of_cpu" | grep . | either))\$"
    rests_asan="^($(printf '%s\n' "$of_group" "$of_language" "$of_cpu" | grep . | either)|$of_asan)\$"
}
