// SPDX-License-Identifier: MIT
// parser.h - a .tile source into its syntax tree.
//
// The grammar stands in parse_declaration.c, parse_statement.c and parse_expression.c, a function per rule with the
// rule above it: 'x' is a word, [x] optional, {x} any number, x | y a choice, list(x) is x {',' x}.
#ifndef KILN_SYNTAX_PARSER_H
#define KILN_SYNTAX_PARSER_H

#include "syntax/ast.h"

enum {
    PARSE_SOURCE_BYTES_MAX = 4 * 1024 * 1024, // larger files are refused: no kernel is a hundredth of that
    PARSE_NESTING_MAX = 200,                  // of blocks and parentheses, so that no walk of the tree runs deep
    PARSE_OPERATORS_MAX = 1000,               // in one expression, for the same reason
    PARSE_ERRORS_MAX = 200,                   // in one file; what has more is no kernel
};

// Never NULL. If it reported an error the tree has holes and must not be checked. Names are interned in `arena`:
// modules of one program are parsed into one arena.
Module *parse_module(Arena *arena, Diags *diags, const Source *source);

// Words that mean something at one place and are names elsewhere: what begins a declaration, a parameter, a statement.
// The i-th from 0; NULL past the last. Those of statements may come more than once.
const char *parse_declaration_word(int i);
const char *parse_parameter_word(int i);
const char *parse_statement_word(int i);

#endif
