// SPDX-License-Identifier: MIT
// words.c - the words of the language by what they are, each from the table that gives it its meaning.
#include "tools/words.h"
#include "base/arena.h"
#include "check/check.h"
#include "ir/dtype.h"
#include "syntax/lexer.h"
#include "syntax/parser.h"

static const char *in(const char *const *words, int n, int i) { return i < n ? words[i] : NULL; }

static const char *reserved_word(int i) { return i < TOK_COUNT - TOK_ATOMIC ? token_spelling(TOK_ATOMIC + i) : NULL; }
static const char *type_word(int i) { return i < DTYPE_COUNT - 1 ? dtype_name(DTYPE_NONE + 1 + i) : NULL; }

// Of grammar rules that compare with a word of their own.
static const char *kind_word(int i)
{
    static const char *const words[] = { "type" };
    return in(words, COUNT(words), i);
}

static const char *pipeline_word(int i)
{
    static const char *const words[] = { "stages" };
    return in(words, COUNT(words), i);
}

const WordGroup word_groups[WORD_GROUPS] = {
    { "reserved", "a word of the language", reserved_word },
    { "declarations", "begins a declaration", parse_declaration_word },
    { "parameters", "says what a parameter is", parse_parameter_word },
    { "kinds", "a kind of build parameter", kind_word },
    { "statements", "begins a statement", parse_statement_word },
    { "types", "an element type", type_word },
    { "functions", "a built-in function", check_function_word },
    { "constants", "a constant of the language", check_constant_word },
    { "hints", "a hint of a grid", check_grid_word },
    { "layouts", "a layout of a tile", check_layout_word },
    { "pipelines", "a hint of a pipeline", pipeline_word },
    { "inputs", "how an input of a check is made", check_input_word },
    { "tolerances", "a term of a tolerance", check_tolerance_word },
};
