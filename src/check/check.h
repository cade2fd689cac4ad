// SPDX-License-Identifier: MIT
// check.h - from syntax trees to Tile IR: names, types, shapes, constants, and specialisation, in one walk.
//
// A program is a file and everything it imports. A kernel is checked when it is specialised: with its build
// parameters known, what build-time conditions discard is never typed. Every mistake becomes a diagnostic; the
// result is NULL if there was one.
#ifndef KILN_CHECK_CHECK_H
#define KILN_CHECK_CHECK_H

#include "ir/tile.h"
#include "syntax/ast.h"

typedef struct Program {
    Arena *arena;
    Diags *diags;
    Module **modules;
    int n_modules; // the first is the file itself; each file once
} Program;

// A value given from outside: a build parameter, a shape symbol or scalar argument fixed when built; `none` for an
// optional tensor that will be absent (those not named are present); `strided` for a tensor whose rows lie apart,
// `unaligned` for one of any strides, as if it were declared strided.
typedef enum { BIND_INT, BIND_FLOAT, BIND_TYPE, BIND_FN, BIND_NONE, BIND_STRIDED, BIND_UNALIGNED } BindKind;
typedef struct Binding {
    const char *name;
    BindKind kind;
    int64_t integer; // also bool
    double real;
    DType type;
    const char *function; // its name in the program, or that of a built-in one
} Binding;

typedef struct CheckOptions {
    const char *target; // "cpu" or "cuda"
    int arch;           // of cuda: 90 or 80
    bool checked;       // --check: keep what it traps
    const Binding *bindings;
    int n_bindings;
} CheckOptions;

Decl *program_find(const Program *program, DeclKind kind, const char *name); // NULL if there is none

TileKernel *check_kernel(Program *program, const char *name, const CheckOptions *options);

// ---- what `kiln tune` may try: of build parameters that have a list and are not bound, every choice, the defaults first
typedef struct Tunings {
    Binding **items; // each of n_values
    int count, n_values;
    int found;      // more than count: there are more than `most`, of which these are the first
    Binding *given; // bindings of build parameters without a list that differ from the default
    int n_given;
} Tunings;
Tunings *check_tunings(Program *program, const char *name, const CheckOptions *options, int most); // NULL on error

// ---- operators: kernels in sequence with temporaries
typedef struct OperatorArg {
    int param, temp;
    Expr *scalar;
    bool none;
} OperatorArg; // param or temp >= 0, else scalar or none
typedef struct OperatorStep {
    TileKernel *kernel;
    OperatorArg *args;
    int n_args;
    Expr *when;
} OperatorStep; // when NULL: always
typedef struct OperatorPlan {
    TileKernel *interface; // the operator's own parameters, binds, checks, requires; no body
    Buffer **temps;
    int n_temps; // shapes are expressions over the interface's symbols and arguments
    OperatorStep *steps;
    int n_steps;
} OperatorPlan;
OperatorPlan *check_operator(Program *program, const char *name, const CheckOptions *options);

// ---- specification (DESIGN 1.4). All three give sequential kernels (is_sequential) with the parameters of the
// kernel or operator `name`; the reference computes floating point in f64.
TileKernel *check_reference(Program *program, const char *name,
                            const CheckOptions *options); // NULL also if there is none
// The verify block takes the parameters, then one more tensor `expected_X` for each written tensor X.
TileKernel *check_verify(Program *program, const char *name, const CheckOptions *options);

typedef enum { INPUT_NORMAL, INPUT_UNIFORM, INPUT_CONSTANT, INPUT_PERMUTATION, INPUT_SORTED } InputKind;
typedef struct CaseInput {
    int param;
    InputKind kind;
    double a, b;
} CaseInput;
typedef struct CaseTolerance {
    int param;
    bool exact;
    double relative, absolute, cosine, outliers;
    bool by_type;
} CaseTolerance; // param -1: all; < 0: not said; by_type: nothing was
// One member of a check's product: the bindings that build it, those that launch it, its inputs and tolerance.
typedef struct CheckCase {
    const Decl *decl;
    const char *label; // gemm_nt<bf16>(M=17, N=64, K=32)
    Binding *build;
    int n_build;
    Binding *launch;
    int n_launch; // shape symbols and scalar arguments
    CaseInput *inputs;
    int n_inputs;
    CaseTolerance *tolerances;
    int n_tolerances;
    bool has_code; // statements that fill inputs after `inputs` were made
} CheckCase;
typedef struct CheckCases {
    CheckCase *items;
    int count;
} CheckCases;
CheckCases *check_cases(Program *program, const char *name); // of every check of `name`; NULL on error
TileKernel *check_case_code(Program *program, const char *name, const CheckCase *one);

// ---- words that mean something where they stand, for editors: the i-th from 0; NULL past the last
const char *check_function_word(int i);  // built-in functions
const char *check_constant_word(int i);  // of the language
const char *check_grid_word(int i);      // hints of a grid
const char *check_layout_word(int i);    // of `layout`
const char *check_input_word(int i);     // how a check's input is made
const char *check_tolerance_word(int i); // terms of a tolerance

#endif
