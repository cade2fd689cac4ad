// SPDX-License-Identifier: MIT
// lexer.c - bytes into tokens. Any bytes: a source may hold anything, also NULs and broken UTF-8.
//
// What is wrong inside a token is reported here, and the token is delivered all the same, so that the parser does
// not complain a second time. Bytes that begin no token become TOK_ERROR.
#include "syntax/lexer.h"

#include <assert.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>

enum { NUMBER_CHARS_MAX = 400 };

// clang-format off
static const char *const spellings[] = {
    [TOK_LPAREN] = "(",   [TOK_RPAREN] = ")",   [TOK_LBRACKET] = "[", [TOK_RBRACKET] = "]",
    [TOK_LBRACE] = "{",   [TOK_RBRACE] = "}",   [TOK_COMMA] = ",",    [TOK_SEMICOLON] = ";",
    [TOK_COLON] = ":",    [TOK_QUESTION] = "?", [TOK_DOT] = ".",      [TOK_DOTDOT] = "..",
    [TOK_SLICE] = "+:",   [TOK_ARROW] = "->",   [TOK_PLUS] = "+",     [TOK_MINUS] = "-",
    [TOK_STAR] = "*",     [TOK_SLASH] = "/",    [TOK_PERCENT] = "%",  [TOK_AT] = "@",
    [TOK_AMP] = "&",      [TOK_PIPE] = "|",     [TOK_CARET] = "^",    [TOK_TILDE] = "~",
    [TOK_BANG] = "!",     [TOK_AMPAMP] = "&&",  [TOK_PIPEPIPE] = "||", [TOK_SHL] = "<<",
    [TOK_SHR] = ">>",     [TOK_LT] = "<",       [TOK_GT] = ">",       [TOK_LE] = "<=",
    [TOK_GE] = ">=",      [TOK_EQ] = "==",      [TOK_NE] = "!=",      [TOK_ASSIGN] = "=",
    [TOK_PLUS_ASSIGN] = "+=",    [TOK_MINUS_ASSIGN] = "-=", [TOK_STAR_ASSIGN] = "*=", [TOK_SLASH_ASSIGN] = "/=",
    [TOK_PERCENT_ASSIGN] = "%=", [TOK_AMP_ASSIGN] = "&=",   [TOK_PIPE_ASSIGN] = "|=", [TOK_CARET_ASSIGN] = "^=",
    [TOK_SHL_ASSIGN] = "<<=",    [TOK_SHR_ASSIGN] = ">>=",  [TOK_MIN_ASSIGN] = "min=", [TOK_MAX_ASSIGN] = "max=",
    [TOK_PLUSPLUS] = "++",       [TOK_MINUSMINUS] = "--",

    [TOK_ATOMIC] = "atomic",     [TOK_BREAK] = "break",       [TOK_CONST] = "const",   [TOK_CONTINUE] = "continue",
    [TOK_ELSE] = "else",         [TOK_FALSE] = "false",       [TOK_FOR] = "for",       [TOK_FORALL] = "forall",
    [TOK_FRAGMENT] = "fragment", [TOK_IF] = "if",             [TOK_LOCAL] = "local",   [TOK_NONE] = "none",
    [TOK_PIPELINE] = "pipeline", [TOK_RETURN] = "return",     [TOK_SHARED] = "shared", [TOK_STATIC] = "static",
    [TOK_TRUE] = "true",         [TOK_UNROLL] = "unroll",     [TOK_VOID] = "void",     [TOK_WHILE] = "while",
};
// clang-format on
static_assert(COUNT(spellings) == TOK_COUNT, "a spelling per token");

// The kinds that begin with a character, of punctuation the longest first.
// clang-format off
static const uint8_t beginning_with[128][4] = {
    ['('] = { TOK_LPAREN },   [')'] = { TOK_RPAREN },    ['['] = { TOK_LBRACKET }, [']'] = { TOK_RBRACKET },
    ['{'] = { TOK_LBRACE },   ['}'] = { TOK_RBRACE },    [','] = { TOK_COMMA },    [';'] = { TOK_SEMICOLON },
    [':'] = { TOK_COLON },    ['?'] = { TOK_QUESTION },  ['@'] = { TOK_AT },       ['~'] = { TOK_TILDE },
    ['.'] = { TOK_DOTDOT, TOK_DOT },          ['+'] = { TOK_PLUSPLUS, TOK_PLUS_ASSIGN, TOK_SLICE, TOK_PLUS },
    ['*'] = { TOK_STAR_ASSIGN, TOK_STAR },    ['-'] = { TOK_MINUSMINUS, TOK_MINUS_ASSIGN, TOK_ARROW, TOK_MINUS },
    ['/'] = { TOK_SLASH_ASSIGN, TOK_SLASH },  ['&'] = { TOK_AMPAMP, TOK_AMP_ASSIGN, TOK_AMP },
    ['%'] = { TOK_PERCENT_ASSIGN, TOK_PERCENT }, ['|'] = { TOK_PIPEPIPE, TOK_PIPE_ASSIGN, TOK_PIPE },
    ['^'] = { TOK_CARET_ASSIGN, TOK_CARET },  ['<'] = { TOK_SHL_ASSIGN, TOK_SHL, TOK_LE, TOK_LT },
    ['!'] = { TOK_NE, TOK_BANG },             ['>'] = { TOK_SHR_ASSIGN, TOK_SHR, TOK_GE, TOK_GT },
    ['='] = { TOK_EQ, TOK_ASSIGN },

    ['a'] = { TOK_ATOMIC },   ['b'] = { TOK_BREAK },     ['c'] = { TOK_CONST, TOK_CONTINUE },   ['e'] = { TOK_ELSE },
    ['f'] = { TOK_FALSE, TOK_FOR, TOK_FORALL, TOK_FRAGMENT }, ['i'] = { TOK_IF },     ['l'] = { TOK_LOCAL },
    ['n'] = { TOK_NONE },     ['p'] = { TOK_PIPELINE },  ['r'] = { TOK_RETURN },      ['s'] = { TOK_SHARED, TOK_STATIC },
    ['t'] = { TOK_TRUE },     ['u'] = { TOK_UNROLL },    ['v'] = { TOK_VOID },        ['w'] = { TOK_WHILE },
};
// clang-format on

const char *token_spelling(TokenKind kind) { return spellings[kind]; }

// ---- bytes

static int byte_at(const Lexer *lexer, int offset) // -1 past the end
{
    return offset < lexer->source->length ? (unsigned char)lexer->source->text[offset] : -1;
}

static bool is_digit(int c) { return c >= '0' && c <= '9'; }
static bool is_letter(int c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_word(int c) { return is_letter(c) || is_digit(c); }
static bool is_space(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static int hex_value(int c)
{
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// The length of the UTF-8 character at `offset`, 0 if there is none.
static int utf8_length(const Lexer *lexer, int offset)
{
    const int c = byte_at(lexer, offset), c1 = byte_at(lexer, offset + 1);
    const int n = c < 0 ? 0 : c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((byte_at(lexer, offset + i) & 0xc0) != 0x80 || byte_at(lexer, offset + i) < 0) return 0;
    if ((c == 0xe0 && c1 < 0xa0) || (c == 0xed && c1 >= 0xa0) || (c == 0xf0 && c1 < 0x90) || (c == 0xf4 && c1 >= 0x90))
        return 0; // overlong, surrogate, or past U+10FFFF
    return n;
}

__attribute__((format(printf, 4, 5))) static void complain(const Lexer *lexer, int begin, int end, const char *format,
                                                           ...)
{
    if (!lexer->diags) return;
    va_list args;
    va_start(args, format);
    const char *const message = arena_vprintf(lexer->arena, format, args);
    va_end(args);
    diag_error(lexer->diags, (Span){ lexer->source, begin, end }, "%s", message);
}

// ---- blanks and comments

// Steps over one byte or character of a comment or string; complains about what is not text.
static int skip_character(const Lexer *lexer, int offset, const char *where)
{
    const int n = utf8_length(lexer, offset);
    if (n > 0 && byte_at(lexer, offset) != 0) return offset + n;
    int end = offset + 1; // a run of bad bytes is one mistake
    if (n > 0) {
        while (byte_at(lexer, end) == 0) end++;
        complain(lexer, offset, end, "a NUL byte in a %s", where);
    } else {
        while (end < lexer->source->length && utf8_length(lexer, end) == 0) end++;
        complain(lexer, offset, end, "a %s that is not valid UTF-8", where);
    }
    return end;
}

static void skip_line_comment(Lexer *lexer)
{
    lexer->at += 2;
    for (int c; (c = byte_at(lexer, lexer->at)) >= 0 && c != '\n';)
        lexer->at = c > 0 && c < 0x80 ? lexer->at + 1 : skip_character(lexer, lexer->at, "comment");
}

static void skip_block_comment(Lexer *lexer, bool *line_start)
{
    const int begin = lexer->at;
    lexer->at += 2;
    while (lexer->at < lexer->source->length) {
        const int c = byte_at(lexer, lexer->at);
        if (c == '*' && byte_at(lexer, lexer->at + 1) == '/') {
            lexer->at += 2;
            return;
        }
        if (c == '\n') *line_start = true;
        lexer->at = skip_character(lexer, lexer->at, "comment");
    }
    complain(lexer, begin, begin + 2, "this comment is never closed: '*/' is missing");
}

// To the next token. True if a line began on the way, or at the start of the file.
static bool skip_blanks(Lexer *lexer)
{
    bool line_start = lexer->at == lexer->first;
    for (;;) {
        const int c = byte_at(lexer, lexer->at);
        if (is_space(c)) {
            if (c == '\n') line_start = true;
            lexer->at++;
        } else if (c == '/' && byte_at(lexer, lexer->at + 1) == '/') {
            skip_line_comment(lexer);
        } else if (c == '/' && byte_at(lexer, lexer->at + 1) == '*') {
            skip_block_comment(lexer, &line_start);
        } else {
            return line_start;
        }
    }
}

// ---- numbers

// The characters of a number: digits, letters, separators, points, and the sign of an exponent. `..` ends it.
static int number_end(const Lexer *lexer, int begin)
{
    const bool hex = byte_at(lexer, begin) == '0' && (byte_at(lexer, begin + 1) | 32) == 'x';
    int at = begin;
    for (;; at++) {
        const int c = byte_at(lexer, at), before = at > begin ? byte_at(lexer, at - 1) | 32 : 0;
        if (is_word(c)) continue;
        if (c == '\'' && is_word(byte_at(lexer, at + 1)) && at > begin) continue;
        if (c == '.' && byte_at(lexer, at + 1) != '.') continue;
        if ((c == '+' || c == '-') && before == (hex ? 'p' : 'e') && is_digit(byte_at(lexer, at + 1))) continue;
        return at;
    }
}

// Copies the number without separators; 0 if it does not fit.
static int copy_number(const Lexer *lexer, int begin, int end, char buffer[NUMBER_CHARS_MAX])
{
    int n = 0;
    for (int at = begin; at < end; at++) {
        const int c = byte_at(lexer, at);
        if (c == '\'' || c == '_') continue;
        if (n == NUMBER_CHARS_MAX - 1) return 0;
        buffer[n++] = (char)c;
    }
    buffer[n] = 0;
    return n;
}

static uint64_t parse_integer(const Lexer *lexer, int begin, int end, const char *digits, int base)
{
    uint64_t value = 0;
    for (const char *p = digits; *p; p++) {
        const int digit = hex_value((unsigned char)*p);
        if (digit < 0 || digit >= base) {
            if (is_letter((unsigned char)*p) && p > digits)
                complain(lexer, begin, end, "a number has no suffix: '%s' after the digits", p);
            else
                complain(lexer, begin, end, "'%c' is no digit of a %s number", *p,
                         base == 2    ? "binary"
                         : base == 16 ? "hexadecimal"
                                      : "decimal");
            return 0;
        }
        if (value > (UINT64_MAX - (uint64_t)digit) / (uint64_t)base) {
            complain(lexer, begin, end, "this number does not fit into 64 bits");
            return 0;
        }
        value = value * (uint64_t)base + (uint64_t)digit;
    }
    if (!*digits) complain(lexer, begin, end, "a number without digits");
    return value;
}

// strtod reads the decimal point of the program's locale, so that is what it gets.
static double parse_real(const Lexer *lexer, int begin, int end, const char *number)
{
    const char *const point = localeconv()->decimal_point;
    Text text = { .arena = lexer->arena };
    for (const char *p = number; *p; p++) {
        if (*p == '.') text_add(&text, point, strlen(point));
        else text_add(&text, p, 1);
    }
    char *rest;
    const double value = strtod(text_cstr(&text), &rest);
    if (*rest) {
        complain(lexer, begin, end, "'%s' is no number; a number has no suffix, and at most one point and one exponent",
                 number);
        return 0;
    }
    if (isinf(value)) complain(lexer, begin, end, "this number is too large for f64; write INFINITY if that is meant");
    return value;
}

static Token lex_number(Lexer *lexer, Token token)
{
    const int begin = token.begin, end = lexer->at = token.end = number_end(lexer, begin);
    char number[NUMBER_CHARS_MAX];
    token.kind = TOK_INT;
    token.integer.value = 0;
    token.integer.is_bits = false;
    if (!copy_number(lexer, begin, end, number)) {
        complain(lexer, begin, end, "a number of more than %d characters", NUMBER_CHARS_MAX - 1);
        return token;
    }
    const int prefix = number[0] == '0' ? number[1] | 32 : 0;
    if (strpbrk(number, prefix == 'x' ? ".pP" : prefix == 'b' ? "." : ".eE")) {
        token.kind = TOK_FLOAT;
        token.real = parse_real(lexer, begin, end, number);
    } else if (prefix == 'x' || prefix == 'b') {
        token.integer.value = parse_integer(lexer, begin, end, number + 2, prefix == 'x' ? 16 : 2);
        token.integer.is_bits = true;
    } else if (number[0] == '0' && is_digit((unsigned char)number[1])) {
        complain(lexer, begin, end, "octal numbers do not exist: write it in decimal, without the leading 0");
    } else {
        token.integer.value = parse_integer(lexer, begin, end, number, 10);
    }
    return token;
}

// ---- strings

typedef struct Escape {
    char letter, meaning;
} Escape;

static const Escape escapes[] = { { 'n', '\n' }, { 't', '\t' },  { 'r', '\r' },
                                  { '"', '"' },  { '\'', '\'' }, { '\\', '\\' } };

// The byte that the escape at lexer->at (after the backslash) stands for.
static char lex_escape(Lexer *lexer)
{
    const int c = byte_at(lexer, lexer->at);
    for (int i = 0; i < COUNT(escapes); i++)
        if (c == escapes[i].letter) {
            lexer->at++;
            return escapes[i].meaning;
        }
    const int begin = lexer->at - 1;
    lexer->at = c < 0 ? lexer->at : lexer->at + 1;
    complain(lexer, begin, lexer->at, "unknown escape; there are \\n \\t \\r \\\" \\' \\\\");
    return '?';
}

static Token lex_string(Lexer *lexer, Token token)
{
    Text text = { .arena = lexer->arena };
    token.kind = TOK_STRING;
    lexer->at++;
    for (;;) {
        const int c = byte_at(lexer, lexer->at), from = lexer->at;
        if (c == '"') {
            lexer->at++;
            break;
        }
        if (c < 0 || c == '\n' || c == '\r') {
            complain(lexer, token.begin, lexer->at, "this string is not closed on its line");
            token.kind = TOK_ERROR;
            break;
        }
        if (c == '\\' && byte_at(lexer, lexer->at + 1) != '\n') {
            lexer->at++;
            const char byte = lex_escape(lexer);
            if (lexer->diags) text_add(&text, &byte, 1);
            continue;
        }
        lexer->at = skip_character(lexer, lexer->at, "string");
        if (lexer->diags) text_add(&text, lexer->source->text + from, (size_t)(lexer->at - from));
    }
    token.end = lexer->at;
    token.string.text = text_cstr(&text);
    token.string.length = (int)text.length;
    return token;
}

// ---- words and punctuation

static bool is_spelled(const Lexer *lexer, int begin, int end, const char *spelling)
{
    int at = begin;
    while (at < end && *spelling == lexer->source->text[at]) at++, spelling++;
    return at == end && !*spelling;
}

static Token lex_word(Lexer *lexer, Token token)
{
    while (is_word(byte_at(lexer, lexer->at))) lexer->at++;
    const char *const word = lexer->source->text + token.begin;
    const int length = lexer->at - token.begin;
    token.end = lexer->at;
    if (byte_at(lexer, token.end) == '=' && byte_at(lexer, token.end + 1) != '=')
        for (TokenKind kind = TOK_MIN_ASSIGN; kind <= TOK_MAX_ASSIGN; kind++)
            if (is_spelled(lexer, token.begin, token.end + 1, spellings[kind])) {
                token.kind = kind;
                token.end = ++lexer->at;
                return token;
            }
    const uint8_t *const kinds = beginning_with[(int)*word];
    for (int i = 0; i < COUNT(*beginning_with) && kinds[i]; i++)
        if (is_spelled(lexer, token.begin, token.end, spellings[kinds[i]])) {
            token.kind = kinds[i];
            return token;
        }
    const DType type = dtype_find(word, length);
    if (type != DTYPE_NONE) {
        token.kind = TOK_TYPE;
        token.type = type;
    } else {
        token.kind = TOK_NAME;
        token.name = intern(lexer->arena, word, (size_t)length);
    }
    return token;
}

static Token lex_punctuation(Lexer *lexer, Token token)
{
    const uint8_t *kind = beginning_with[byte_at(lexer, token.begin)];
    for (;; kind++) { // every character that is here is a token by itself
        const char *const spelling = spellings[*kind];
        const int length = !spelling[1] ? 1 : !spelling[2] ? 2 : 3;
        if (token.begin + length > lexer->source->length ||
            !is_spelled(lexer, token.begin, token.begin + length, spelling))
            continue;
        token.kind = *kind;
        lexer->at = token.end = token.begin + length;
        return token;
    }
}

static bool begins_token(const Lexer *lexer, int offset)
{
    const int c = byte_at(lexer, offset);
    return c < 0 || is_space(c) || is_word(c) || c == '"' || (c < 0x80 && beginning_with[c][0]);
}

// Bytes that begin no token: a run of them is one mistake.
static Token lex_garbage(Lexer *lexer, Token token)
{
    const int begin = token.begin, c = byte_at(lexer, begin), n = utf8_length(lexer, begin);
    while (!begins_token(lexer, lexer->at)) lexer->at++;
    if (c == '\'') {
        while (is_word(byte_at(lexer, lexer->at)) || byte_at(lexer, lexer->at) == '\\') lexer->at++;
        if (byte_at(lexer, lexer->at) == '\'') lexer->at++;
    }
    token.kind = TOK_ERROR;
    token.end = lexer->at;
    if (c == 0) complain(lexer, begin, token.end, "a NUL byte in the source");
    else if (n == 0) complain(lexer, begin, token.end, "this is not valid UTF-8");
    else if (n > 1)
        complain(lexer, begin, token.end, "'%.*s' may stand only in comments and strings", n,
                 lexer->source->text + begin);
    else if (c == '\'') complain(lexer, begin, token.end, "character constants do not exist");
    else if (c == '#')
        complain(lexer, begin, token.end, "there is no preprocessor: use import, const and build parameters");
    else if (c < 32 || c == 127) complain(lexer, begin, token.end, "a control character (%d) in the source", c);
    else complain(lexer, begin, token.end, "'%c' means nothing here", c);
    return token;
}

void lexer_open(Lexer *lexer, Arena *arena, Diags *diags, const Source *source)
{
    const bool has_mark = source->length >= 3 && memcmp(source->text, "\xef\xbb\xbf", 3) == 0;
    *lexer = (Lexer){ arena, diags, source, .first = has_mark ? 3 : 0, .at = has_mark ? 3 : 0 };
}

Token lexer_next(Lexer *lexer)
{
    const bool line_start = skip_blanks(lexer);
    const int begin = lexer->at, c = byte_at(lexer, begin);
    const Token token = { .kind = TOK_END, .begin = begin, .end = begin, .line_start = line_start };
    if (c < 0) return token;
    if (is_digit(c) || (c == '.' && is_digit(byte_at(lexer, begin + 1)))) return lex_number(lexer, token);
    if (is_letter(c)) return lex_word(lexer, token);
    if (c == '"') return lex_string(lexer, token);
    return begins_token(lexer, begin) ? lex_punctuation(lexer, token) : lex_garbage(lexer, token);
}

static bool calls_next(Lexer lexer) { return lexer_next(&lexer).kind == TOK_LPAREN; }

// The search ends after 200 words, so that a file of nothing but `a < a < ...` costs no more than it should.
bool lexer_opens_build_list(Lexer lexer)
{
    lexer.diags = NULL;
    int angles = 1, parens = 0;
    TokenKind before = TOK_LT;
    for (int i = 0; i < 200; i++) {
        const Token token = lexer_next(&lexer);
        switch ((int)token.kind) {
        case TOK_LPAREN:
        case TOK_LBRACKET: parens++; break;
        case TOK_RPAREN:
        case TOK_RBRACKET:
            if (--parens < 0) return false;
            break;
        case TOK_NAME:
        case TOK_TYPE:
        case TOK_INT:
        case TOK_FLOAT:
        case TOK_TRUE:
        case TOK_FALSE:
        case TOK_NONE:
        case TOK_COMMA:
        case TOK_PLUS:
        case TOK_MINUS:
        case TOK_STAR:
        case TOK_SLASH:
        case TOK_PERCENT: break;
        case TOK_END:
        case TOK_ERROR:
        case TOK_SEMICOLON:
        case TOK_LBRACE:
        case TOK_RBRACE: return false;
        case TOK_LT:
            if (parens == 0 && before != TOK_NAME) return false;
            if (parens == 0) angles++;
            break;
        case TOK_GT:
            if (parens > 0) break;
            if (!calls_next(lexer)) return false;
            if (--angles == 0) return true;
            break;
        default:
            if (parens == 0) return false;
        }
        before = token.kind;
    }
    return false;
}
