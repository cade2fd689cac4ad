// SPDX-License-Identifier: MIT
// parse.c - the parser's hands: looking at tokens, complaining once, and finding a place to go on.
#include "syntax/parse.h"
#include "syntax/foreign.h"

// ---- tokens

Span parse_span(const Parser *parser, int begin)
{
    const int end = parser->previous_end > begin ? parser->previous_end : begin;
    return (Span){ parser->source, begin, end };
}

Span parse_here(const Parser *parser)
{
    // The end of the file is shown after the last token, where what is missing would stand.
    if (parser->token.kind == TOK_END) return (Span){ parser->source, parser->previous_end, parser->previous_end };
    return (Span){ parser->source, parser->token.begin, parser->token.end };
}

Token parse_ahead(const Parser *parser, int n)
{
    Lexer lexer = parser->lexer;
    lexer.diags = NULL;
    Token token = parser->token;
    for (int i = 0; i < n; i++) token = lexer_next(&lexer);
    return token;
}

// From here on the file has ended, and nothing more is reported.
static void stop(Parser *parser)
{
    parser->given_up = true;
    parser->token = (Token){ .kind = TOK_END, .begin = parser->token.begin, .end = parser->token.begin };
}

Token parse_advance(Parser *parser)
{
    const Token token = parser->token;
    if (token.kind == TOK_LPAREN || token.kind == TOK_LBRACKET) parser->parens++;
    if ((token.kind == TOK_RPAREN || token.kind == TOK_RBRACKET) && parser->parens > 0) parser->parens--;
    parser->previous_end = token.end;
    if (parser->diags->errors > parser->errors_max) stop(parser);
    if (!parser->given_up) parser->token = lexer_next(&parser->lexer);
    return token;
}

bool parse_accept(Parser *parser, TokenKind kind)
{
    if (parser->token.kind != kind) return false;
    parse_advance(parser);
    return true;
}

bool parse_expect(Parser *parser, TokenKind kind, const char *where)
{
    if (parse_accept(parser, kind)) return true;
    const char *const what = where[0] ? arena_printf(parser->arena, "'%s' %s", token_spelling(kind), where)
                                      : arena_printf(parser->arena, "'%s'", token_spelling(kind));
    return parse_error_expected(parser, what);
}

bool parse_is_word(const Parser *parser, const char *word)
{
    return parser->token.kind == TOK_NAME && strcmp(parser->token.name, word) == 0;
}

bool parse_accept_word(Parser *parser, const char *word)
{
    if (!parse_is_word(parser, word)) return false;
    parse_advance(parser);
    return true;
}

Name parse_name(Parser *parser, const char *what, Span *span)
{
    if (span) *span = parse_here(parser);
    if (parser->token.kind == TOK_NAME) return parse_advance(parser).name;
    const char *const spelling = token_spelling(parser->token.kind);
    if (parser->token.kind >= TOK_ATOMIC && !parser->panicking)
        parse_error(parser, parse_here(parser), "expected %s; '%s' is a reserved word", what, spelling);
    else parse_error_expected(parser, what);
    return NULL;
}

const char *parse_describe(const Parser *parser)
{
    const Token token = parser->token;
    const int length = token.end - token.begin;
    if (token.kind == TOK_END) return "the end of the file";
    if (token.kind == TOK_STRING) return "a string";
    if (length > 40) return token.kind == TOK_NAME ? "a long name" : "a long number";
    return arena_printf(parser->arena, "'%.*s'", length, parser->source->text + token.begin);
}

// ---- errors

bool parse_error(Parser *parser, Span span, const char *format, ...)
{
    if (parser->panicking || parser->given_up) return false;
    parser->panicking = true;
    va_list args;
    va_start(args, format);
    const char *const message = arena_vprintf(parser->arena, format, args);
    va_end(args);
    return diag_error(parser->diags, span, "%s", message);
}

bool parse_error_expected(Parser *parser, const char *what)
{
    if (parser->token.kind == TOK_ERROR) parser->panicking = true; // the lexer has told
    if (parser->panicking) return false;
    parse_error(parser, parse_here(parser), "expected %s, found %s", what, parse_describe(parser));
    const ForeignWord *const foreign = parser->token.kind == TOK_NAME ? find_foreign(parser->token.name) : NULL;
    if (foreign && foreign->kind != FOREIGN_DECLARATION)
        parse_help(parser, parse_here(parser), "%s", foreign_advice(parser->arena, foreign));
    return false;
}

void parse_help(Parser *parser, Span span, const char *format, ...)
{
    if (parser->given_up) return;
    va_list args;
    va_start(args, format);
    const char *const message = arena_vprintf(parser->arena, format, args);
    va_end(args);
    diag_help(parser->diags, span, "%s", message);
}

// What nests too deeply was not written by hand, so nothing is lost by stopping here.
static void give_up(Parser *parser)
{
    parse_error(parser, parse_here(parser), "nested more than %d levels deep", PARSE_NESTING_MAX);
    stop(parser);
}

bool parse_enter(Parser *parser)
{
    parser->nesting++;
    if (parser->nesting > PARSE_NESTING_MAX && !parser->given_up) give_up(parser);
    return !parser->given_up;
}

void parse_leave(Parser *parser) { parser->nesting--; }

// ---- recovery

bool parse_at_declaration(const Parser *parser)
{
    static const char *const words[] = {
        "kernel", "fn", "operator", "import", "reference", "check", "verify", "extern"
    };
    const int begin = parser->token.begin;
    if (!parser->token.line_start || (begin > 0 && parser->source->text[begin - 1] != '\n')) return false;
    const TokenKind next = parse_ahead(parser, 1).kind;
    if (next != TOK_NAME && next != TOK_TYPE && next != TOK_STRING && next != TOK_VOID) return false;
    for (int i = 0; i < COUNT(words); i++)
        if (parse_is_word(parser, words[i])) return true;
    return false;
}

void parse_skip_block(Parser *parser)
{
    int depth = 0;
    do {
        if (parser->token.kind == TOK_END || (depth > 0 && parse_at_declaration(parser))) return;
        if (parser->token.kind == TOK_LBRACE) depth++;
        if (parser->token.kind == TOK_RBRACE) depth--;
        parse_advance(parser);
    } while (depth > 0);
}

// Skips to after the ')' that brings the open parentheses back to `outer`. A body's '{', a '}', and a ';' that is
// outside or ends its line show that there is none.
static bool skip_to_close(Parser *parser, int outer)
{
    TokenKind before = TOK_END;
    for (;; before = parse_advance(parser).kind) {
        const TokenKind kind = parser->token.kind;
        if (kind == TOK_LBRACE && before == TOK_ASSIGN) { // a set of values, not a body
            parse_skip_block(parser);
            continue;
        }
        if (kind == TOK_LBRACE || kind == TOK_RBRACE || kind == TOK_END || parse_at_declaration(parser))
            return kind == TOK_LBRACE;
        if (kind == TOK_SEMICOLON && (parser->parens <= outer || parse_ahead(parser, 1).line_start)) return false;
        if (kind == TOK_RPAREN && parser->parens <= outer + 1) {
            parse_advance(parser);
            return true;
        }
    }
}

bool parse_close(Parser *parser, int outer, const char *where)
{
    if (!parser->panicking && parse_expect(parser, TOK_RPAREN, where)) return true;
    const bool found = skip_to_close(parser, outer);
    parser->parens = outer;
    if (found) parser->panicking = false;
    return found;
}

static bool begins_statement(TokenKind kind)
{
    return kind == TOK_IF || kind == TOK_FOR || kind == TOK_WHILE || kind == TOK_FORALL || kind == TOK_PIPELINE ||
           kind == TOK_SHARED || kind == TOK_FRAGMENT || kind == TOK_LOCAL || kind == TOK_CONST || kind == TOK_TYPE ||
           kind == TOK_RETURN || kind == TOK_BREAK || kind == TOK_CONTINUE || kind == TOK_ATOMIC ||
           kind == TOK_STATIC || kind == TOK_UNROLL;
}

void parse_skip_statement(Parser *parser)
{
    while (parser->token.kind != TOK_END && parser->token.kind != TOK_RBRACE && !parse_at_declaration(parser)) {
        if (parser->token.line_start && begins_statement(parser->token.kind)) break;
        if (parser->token.kind == TOK_LBRACE) {
            parse_skip_block(parser);
            parse_accept(parser, TOK_SEMICOLON);
            break;
        }
        if (parse_advance(parser).kind == TOK_SEMICOLON) break;
    }
    parser->parens = 0;
    parser->panicking = false;
}
