// SPDX-License-Identifier: MIT
// common.h - what every lowering does alike: expressions and statements of Loop IR, the rules of integer arithmetic and of
// conversions, what `print` and --check builds say. A lowering asks here what is to be done, and says it by the names of
// its own prelude.
#ifndef KILN_LOWER_COMMON_COMMON_H
#define KILN_LOWER_COMMON_COMMON_H

#include "ir/loop.h"
#include "ir/tile.h"

#include <stdarg.h>

// ---- Loop IR (build.c)
Expr *common_call(Arena *arena, DType type, const char *name, int n, va_list args); // n: Expr *
Expr *common_literal(Arena *arena, DType type, const char *text);                   // printed as it stands
Expr *common_quoted(Arena *arena, const char *text);                                // a string of C
void common_add_call(LoopList *list, Expr *call);                                   // for its effect
void common_declare(LoopList *list, Var *var, Expr *value);                         // value NULL: not initialised
void common_assign(LoopList *list, Var *var, Expr *value);

// ---- integers where C has no answer (arithmetic.c; docs/language.md, 3)
// What a --check build tests of an operation: "add", "div"; NULL: nothing. is_int: of `int`, not of a sized type.
const char *common_tested(const TileKernel *kernel, ExprOp op, bool is_int, Span span);
// The count of a shift of `type`, cut to its bits. `right`: the count as its range is best known.
Expr *common_shift_count(Arena *arena, DType type, Expr *count, const Expr *right);
bool common_is_positive(const Expr *x);                       // provably
Expr *common_identity(Arena *arena, UpdateOp op, DType type); // x op identity is x; type: a wide one

// ---- conversions (convert.c)
typedef enum {
    CONVERT_CAST,     // C's does it
    CONVERT_TRUTH,    // is it not 0?
    CONVERT_NARROW,   // f32 to a float of fewer bits
    CONVERT_TF32,     // f32 to tf32
    CONVERT_SATURATE, // a float to an integer
    CONVERT_PACK,     // an integer to one of fewer than 8 bits
} ConvertStep;
DType common_widened(DType type);                      // what a value is computed in before it is converted
ConvertStep common_convert_step(DType to, DType from); // from: a widened type

// ---- views (views.c)
typedef struct ViewPairs {
    int front,
        back; // so many dimensions of a view are its base's ranges, one by one; the last by bytes where types differ
} ViewPairs;
ViewPairs common_pair_view(const Buffer *view);

// ---- print and --check (debug.c)
const char *common_print_format(Arena *arena,
                                const TileOp *print); // of printf: the place, then what the language's says
const char *common_outside_text(Arena *arena, const Buffer *buffer);
const char *common_unwritten_text(Arena *arena, const Buffer *buffer);
bool common_is_inside(const Expr *sub, const Expr *extent);                 // provably 0 <= sub < extent
bool common_is_asserted(const TileKernel *kernel, const TileOp *assertion); // an assume is in --check builds alone
bool common_unsupported(const TileKernel *kernel, Span span, const char *format, va_list args); // reports; false

#endif
