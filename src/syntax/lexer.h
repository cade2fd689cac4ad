// SPDX-License-Identifier: MIT
// lexer.h - the words of a .tile source, one at a time.
//
// Reserved are only the words of C that the language has, the storage classes and the element types. All others
// that mean something (`kernel`, `in`, `grid`, `stage`, `on`, `view`, `input` ...) are names, which the parser knows
// by the place they stand in; so a kernel may call its tensor `check` and its sum `out`.
#ifndef KILN_SYNTAX_LEXER_H
#define KILN_SYNTAX_LEXER_H

#include "syntax/ast.h"

typedef enum {
    TOK_END,   // of the file
    TOK_ERROR, // something that is no word; it has been reported
    TOK_NAME,
    TOK_TYPE,
    TOK_INT,
    TOK_FLOAT,
    TOK_STRING,

    TOK_LPAREN,
    TOK_RPAREN,
    TOK_LBRACKET,
    TOK_RBRACKET,
    TOK_LBRACE,
    TOK_RBRACE,
    TOK_COMMA,
    TOK_SEMICOLON,
    TOK_COLON,
    TOK_QUESTION,
    TOK_DOT,
    TOK_DOTDOT,
    TOK_SLICE,
    TOK_ARROW,
    TOK_PLUS,
    TOK_MINUS,
    TOK_STAR,
    TOK_SLASH,
    TOK_PERCENT,
    TOK_AT,
    TOK_AMP,
    TOK_PIPE,
    TOK_CARET,
    TOK_TILDE,
    TOK_BANG,
    TOK_AMPAMP,
    TOK_PIPEPIPE,
    TOK_SHL,
    TOK_SHR,
    TOK_LT,
    TOK_GT,
    TOK_LE,
    TOK_GE,
    TOK_EQ,
    TOK_NE,
    TOK_ASSIGN,
    TOK_PLUS_ASSIGN,
    TOK_MINUS_ASSIGN,
    TOK_STAR_ASSIGN,
    TOK_SLASH_ASSIGN,
    TOK_PERCENT_ASSIGN,
    TOK_AMP_ASSIGN,
    TOK_PIPE_ASSIGN,
    TOK_CARET_ASSIGN,
    TOK_SHL_ASSIGN,
    TOK_SHR_ASSIGN,
    TOK_MIN_ASSIGN,
    TOK_MAX_ASSIGN,
    TOK_PLUSPLUS,
    TOK_MINUSMINUS,

    TOK_ATOMIC,
    TOK_BREAK,
    TOK_CONST,
    TOK_CONTINUE,
    TOK_ELSE,
    TOK_FALSE,
    TOK_FOR,
    TOK_FORALL,
    TOK_FRAGMENT,
    TOK_IF,
    TOK_LOCAL,
    TOK_NONE,
    TOK_PIPELINE,
    TOK_RETURN,
    TOK_SHARED,
    TOK_STATIC,
    TOK_TRUE,
    TOK_UNROLL,
    TOK_VOID,
    TOK_WHILE,
    TOK_COUNT
} TokenKind;

typedef struct Token {
    TokenKind kind;
    int begin, end;  // byte offsets in the source
    bool line_start; // the first word of its line
    union {
        Name name;  // NAME
        DType type; // TYPE
        struct {
            uint64_t value;
            bool is_bits;
        } integer;   // INT; is_bits: hexadecimal or binary
        double real; // FLOAT
        struct {
            const char *text;
            int length;
        } string; // STRING, escapes resolved
    };
} Token;

// A copy of a lexer reads ahead on its own. With `diags` NULL it is silent and makes no strings.
typedef struct Lexer {
    Arena *arena;
    Diags *diags;
    const Source *source;
    int first, at; // the first byte after a byte order mark; the next byte
} Lexer;

void lexer_open(Lexer *lexer, Arena *arena, Diags *diags, const Source *source); // skips a byte order mark
Token lexer_next(Lexer *lexer);

// Whether a `<` after a name, over which `lexer` has just stepped, opens build arguments rather than compares.
// It does if from here to a `>` that is directly followed by `(` there are only names, numbers, types, commas and
// the operators + - * / %, with anything inside parentheses and further <...> after names. So `a < b` compares,
// `f<a, b>(c)` calls, and `f<(a > b)>(c)` needs its parentheses.
bool lexer_opens_build_list(Lexer lexer);

const char *token_spelling(TokenKind kind); // of punctuation and reserved words; NULL for others

#endif
