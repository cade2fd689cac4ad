// SPDX-License-Identifier: MIT
// parse.h - what the three files of the grammar share: the parser's state, errors and recovery.
//
// After the first error of a statement the parser panics: it reports nothing more until it has found a place where
// the source makes sense again. Mistakes within the parentheses of `for`, `grid` and the like are skipped to the
// parenthesis that closes them, so that the body is still parsed; others to the end of the statement; mistakes
// in the head of a declaration to its body.
#ifndef KILN_SYNTAX_PARSE_H
#define KILN_SYNTAX_PARSE_H

#include "syntax/lexer.h"
#include "syntax/parser.h"

typedef struct Parser {
    Arena *arena;
    Diags *diags;
    const Source *source;
    Lexer lexer;        // comes after `token`
    Token token;        // the one to look at
    int previous_end;   // of the token before it
    int parens;         // open ( and [ before `token`
    int nesting;        // blocks and expressions being parsed
    int operators;      // in the outermost expression being parsed
    int in_expression;  // how many expressions around it are being parsed
    bool panicking;     // an error was reported and no place to go on has been found yet
    int errors_max;     // of all diagnostics; past it the parser gives up
    bool given_up;      // too many errors or nested too deeply: nothing more is parsed or reported
    bool in_check;      // in a check's body or values
    bool in_build_list; // in <...>: comparisons need parentheses
} Parser;

// ---- tokens
Span parse_span(const Parser *parser, int begin);                     // from there to the end of the last token
Span parse_here(const Parser *parser);                                // the token to look at
Token parse_ahead(const Parser *parser, int n);                       // the n-th token after it
Token parse_advance(Parser *parser);                                  // steps over it and returns it
bool parse_accept(Parser *parser, TokenKind kind);                    // steps over it if it is one
bool parse_expect(Parser *parser, TokenKind kind, const char *where); // "expected 'KIND' WHERE" if it is not
bool parse_is_word(const Parser *parser, const char *word);           // a name spelled so
bool parse_accept_word(Parser *parser, const char *word);
Name parse_name(Parser *parser, const char *what, Span *span); // "expected WHAT"; NULL after an error
const char *parse_describe(const Parser *parser);              // the token, for "found ..."

// ---- errors: false, and quiet while panicking
bool parse_error(Parser *parser, Span span, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool parse_error_expected(Parser *parser, const char *what); // "expected WHAT, found ..."
void parse_help(Parser *parser, Span span, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool parse_enter(Parser *parser); // one level deeper; false: too deep
void parse_leave(Parser *parser);

// ---- recovery
// Behind the ')' that closes what was opened at `outer` open parentheses. True if a body may follow.
bool parse_close(Parser *parser, int outer, const char *where);
void parse_skip_statement(Parser *parser);
void parse_skip_block(Parser *parser);           // stands on '{'; to after its '}'
bool parse_at_declaration(const Parser *parser); // a line starts, without indentation, as one

// ---- the grammar
Ex *parse_expression(Parser *parser);
Ex *parse_build_value(Parser *parser);                // between < and >
Ex *parse_arguments(Parser *parser, TokenKind close); // after the opening bracket, to after the other
TypeRef parse_type(Parser *parser, const char *what);
void parse_no_pointer(Parser *parser); // after a type: complains of '*' and '&'
Ex *parse_extents(Parser *parser);     // {'[' expression ']'}
St *parse_statement(Parser *parser);
St *parse_body(Parser *parser, const char *owner); // a block's statements, after its '}'
St *parse_constant(Parser *parser);                // a declaration that starts with const

#endif
