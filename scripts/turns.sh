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
#                               few of the others
#     compiled as generic CUDA  few of the same fifth; every case of a third of the language's files
#     on the emulated device    few of a third of the kernels; half of the operators' tests
#     operators, natively       all; of the families that build many kernels those that the emulated device does not take
#     other forms of C          a third of the kernels with checks, a third as AVX2, a third as portable C, few cases. Kernels that say
#                               of tensors laid out otherwise what others say are taken with checks alone
#     the language's cases      natively; in other forms, on the emulated device, and what else is about instruction sets or that
#                               device: one of four groups (group_of_day below)
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

groups='language_run_portable emulated_language_conversions_test gpu_instructions
language_run_avx2 emulated_language_check gpu_emulator_faults
language_run_check emulated_language_run_0 prelude_every_isa
language_run_gpu_files emulated_language_run_1 docs_calls'
group_of_day() { echo "$groups" | every 4 "$1" | tr ' ' '\n'; }

# Sets what test.sh takes where nothing takes turns.
take_all() {
    whole=kernels brief='' native='' compiled='' emulated=kernels sanitized=kernels of_check=kernels of_avx2=kernels of_portable=kernels
    language_90=tests/language/run brief_90='' language_80=tests/language/run
    rests='' rests_asan='' quick='' PYTHON_WITHOUT='' with_frameworks=yes
}

# take_turns DAY TESTS: sets what the day takes of kernels and of the language's files (lists), and what it leaves of TESTS, the names of
# ctest's (rests and rests_asan, regular expressions).
take_turns() {
    half=$(($1 % 2)) third=$(($1 % 3)) fifth=$(($1 % 5))
    kernels=$(find kernels -name '*.tile' | sort)
    whole=$(echo "$kernels" | every 5 $fifth)
    brief=$(echo "$kernels" | others_than 5 $fifth)
    compiled=$(echo "$brief" | every 3 $third)
    sanitized=$(echo "$kernels" | every 2 $half)
    emulated=$(echo "$kernels" | every 3 $third)
    others=$(echo "$kernels" | grep -vE '/(forward_bhsd|varlen|backward_varlen|masked|decode_dense_fp8).tile$')
    of_check=$(echo "$kernels" | every 3 $third)
    native=$(echo "$brief" | grep -vxF "$of_check")        # with checks the others run on this processor, too
    of_avx2=$(echo "$others" | every 3 $((third + 1)))
    of_portable=$(echo "$others" | every 3 $((third + 2)))
    language=$(find tests/language/run -maxdepth 1 -name '*.tile' | sort)
    language_90=$(echo "$language" | every 3 $third)
    brief_90=$(echo "$language" | others_than 3 $third)
    language_80=$(echo "$language" | every 3 $third)

    today=$(group_of_day "$1" | either)
    of_group=$(echo "$groups" | tr ' ' '\n' | grep -vxE "$today")
    of_emulated=$(echo "$2" | grep '^emulated_ops_' | others_than 2 $half)
    # On the CPU, of the operators' families that build many kernels: those that the emulated device does not take today.
    large='gdn_backward|kda|recurrent|recurrent_backward|nsa|sparse|attention_sink|deepseek|mla_contiguous|moe|quant|strided'
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
    rests="^($(printf '%s\n' "$of_group" "$of_emulated" "$of_cpu" | grep . | either))\$"
    rests_asan="^($(printf '%s\n' "$of_group" "$of_cpu" | grep . | either)|$of_asan)\$"
}
