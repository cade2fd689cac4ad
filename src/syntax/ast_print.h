// SPDX-License-Identifier: MIT
// ast_print.h - the syntax tree as text, for `kiln dump --stage=ast` and for tests.
//
// The text reads like the source with every parenthesis written out. Two sources with the same text mean the same.
#ifndef KILN_SYNTAX_AST_PRINT_H
#define KILN_SYNTAX_AST_PRINT_H

#include "syntax/ast.h"

void ast_print(Text *out, const Module *module);
void ast_print_expression(Text *out, const Ex *ex);

#endif
