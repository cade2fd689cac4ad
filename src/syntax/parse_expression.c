// SPDX-License-Identifier: MIT
// parse_expression.c - the grammar of expressions. C's precedence; '@' binds as strongly as '*'.
#include "syntax/parse.h"
#include "syntax/foreign.h"

static Ex *new_ex(Parser *parser, int begin, Ex ex)
{
    ex.span = parse_span(parser, begin);
    return memcpy(arena_alloc(parser->arena, sizeof(Ex)), &ex, sizeof(Ex));
}

// What stands where an expression could not be parsed. Nobody sees it: there was an error.
static Ex *hole(Parser *parser) { return new_ex(parser, parser->token.begin, (Ex){ .kind = EX_INT }); }

// Each operator may be a level of the tree, so that long chains count as deep ones do.
static void count_operator(Parser *parser)
{
    if (++parser->operators == PARSE_OPERATORS_MAX + 1)
        parse_error(parser, parse_here(parser), "more than %d operators in one expression", PARSE_OPERATORS_MAX);
}

// ---- primary expressions

// list(expression)
static Ex *parse_list(Parser *parser, Ex *(*parse_item)(Parser *))
{
    Ex *first = NULL, **last = &first;
    do {
        *last = parse_item(parser);
        last = &(*last)->next;
    } while (!parser->panicking && parse_accept(parser, TOK_COMMA));
    return first;
}

// [ list(expression) ] ')'
Ex *parse_arguments(Parser *parser, TokenKind close)
{
    const bool outer_list = parser->in_build_list;
    parser->in_build_list = false;
    Ex *const items = parser->token.kind == close ? NULL : parse_list(parser, parse_expression);
    parse_expect(parser, close, close == TOK_RPAREN ? "or ',' after an argument" : "or ',' after a value");
    parser->in_build_list = outer_list;
    return items;
}

// build-value: an expression whose comparisons and shifts to the right stand in parentheses
Ex *parse_build_value(Parser *parser)
{
    const bool outer_list = parser->in_build_list;
    parser->in_build_list = true;
    Ex *const value = parse_expression(parser);
    parser->in_build_list = outer_list;
    return value;
}

// name | name [ '<' list(build-value) '>' ] '(' [ list(expression) ] ')'
static Ex *parse_name_or_call(Parser *parser)
{
    const int begin = parser->token.begin;
    Ex call = { .kind = EX_CALL, .call = { .name_span = parse_here(parser), .name = parser->token.name } };
    parse_advance(parser);
    if (parser->token.kind == TOK_LT && lexer_opens_build_list(parser->lexer)) {
        parse_advance(parser);
        call.call.has_build = true;
        if (parser->token.kind != TOK_GT) call.call.build = parse_list(parser, parse_build_value);
        parse_expect(parser, TOK_GT, "after the build arguments");
    }
    if (parser->token.kind != TOK_LPAREN && !call.call.has_build)
        return new_ex(parser, begin, (Ex){ .kind = EX_NAME, .name = { call.call.name } });
    count_operator(parser);
    if (parse_expect(parser, TOK_LPAREN, "after the build arguments"))
        call.call.args = parse_arguments(parser, TOK_RPAREN);
    return new_ex(parser, begin, call);
}

// The type of a cast: one of the language, or one of another's before an operand. NULL: this is no cast.
static const char *cast_type(const Parser *parser)
{
    if (parse_ahead(parser, 1).kind != TOK_RPAREN) return NULL;
    if (parser->token.kind == TOK_TYPE) return dtype_name(parser->token.type);
    const TokenKind operand = parse_ahead(parser, 2).kind;
    const bool is_cast = operand == TOK_NAME || operand == TOK_INT || operand == TOK_FLOAT || operand == TOK_LPAREN;
    const ForeignWord *const foreign =
        is_cast && parser->token.kind == TOK_NAME ? find_foreign_of(parser->token.name, FOREIGN_TYPE) : NULL;
    return foreign ? foreign->ours : NULL;
}

// '(' expression ')'
static Ex *parse_parenthesised(Parser *parser)
{
    const int begin = parser->token.begin;
    parse_advance(parser);
    const char *const type = cast_type(parser);
    if (type) {
        const Span span = { parser->source, begin, parse_ahead(parser, 1).end };
        parse_error(parser, span, "casts do not exist; a conversion is written convert<%s>(...)", type);
        return hole(parser);
    }
    const bool outer_list = parser->in_build_list;
    parser->in_build_list = false;
    Ex *const inner = parse_expression(parser);
    if (parser->token.kind == TOK_ASSIGN)
        parse_error(parser, parse_here(parser), "an assignment is a statement, not a value; did you mean '=='?");
    parse_expect(parser, TOK_RPAREN, "");
    parser->in_build_list = outer_list;
    return inner;
}

// set: '{' list(expression) '}'     in checks, and as the values of a build parameter
static Ex *parse_set(Parser *parser)
{
    const int begin = parser->token.begin;
    if (!parser->in_check) {
        parse_error(parser, parse_here(parser), "a list of values in braces stands only in a check");
        return hole(parser);
    }
    parse_advance(parser);
    if (parser->token.kind == TOK_RBRACE) parse_error(parser, parse_span(parser, begin), "a list without values");
    Ex *const items = parse_arguments(parser, TOK_RBRACE);
    return new_ex(parser, begin, (Ex){ .kind = EX_SET, .set = { items } });
}

static Ex *parse_type_value(Parser *parser)
{
    const Token token = parse_advance(parser);
    Ex *const type = new_ex(parser, token.begin, (Ex){ .kind = EX_TYPE, .type = { token.type } });
    if (parser->token.kind == TOK_LPAREN)
        parse_error(parser, type->span, "a type is no function; a conversion is written convert<%s>(...)",
                    dtype_name(token.type));
    return type;
}

// primary: number | string | 'true' | 'false' | 'none' | type | name-or-call | '(' expression ')' | set
static Ex *parse_primary(Parser *parser)
{
    const Token token = parser->token;
    const int begin = token.begin;
    switch ((int)token.kind) {
    case TOK_INT:
        parse_advance(parser);
        return new_ex(parser, begin, (Ex){ .kind = EX_INT, .integer = { token.integer.value, token.integer.is_bits } });
    case TOK_FLOAT:
        parse_advance(parser);
        return new_ex(parser, begin, (Ex){ .kind = EX_FLOAT, .real = { token.real } });
    case TOK_STRING:
        parse_advance(parser);
        return new_ex(parser, begin, (Ex){ .kind = EX_STRING, .string = { token.string.text, token.string.length } });
    case TOK_TRUE:
    case TOK_FALSE:
        parse_advance(parser);
        return new_ex(parser, begin, (Ex){ .kind = EX_BOOL, .boolean = { token.kind == TOK_TRUE } });
    case TOK_NONE: parse_advance(parser); return new_ex(parser, begin, (Ex){ .kind = EX_NONE });
    case TOK_TYPE: return parse_type_value(parser);
    case TOK_NAME: return parse_name_or_call(parser);
    case TOK_LPAREN: return parse_parenthesised(parser);
    case TOK_LBRACE: return parse_set(parser);
    case TOK_PLUSPLUS:
    case TOK_MINUSMINUS:
        parse_error(parser, parse_here(parser), "'%s' is a statement and comes after its variable: x%s;",
                    token_spelling(token.kind), token_spelling(token.kind));
        return hole(parser);
    case TOK_AMP:
        parse_error(parser, parse_here(parser),
                    "addresses do not exist; a function changes its 'inout' and 'out' parameters");
        return hole(parser);
    default: parse_error_expected(parser, "an expression"); return hole(parser);
    }
}

// ---- subscripts, operators

// subscript: ':' | expression [ '+:' expression [ ':' expression ] ]
static Ex parse_subscript(Parser *parser, Ex *base)
{
    Ex ex = { .kind = EX_SUBSCRIPT, .sub = { .base = base, .how = SUB_INDEX } };
    if (parse_accept(parser, TOK_COLON)) {
        ex.sub.how = SUB_ALL;
        return ex;
    }
    if (parser->token.kind == TOK_RBRACKET) {
        parse_error(parser, parse_here(parser), "expected a subscript; the whole extent is [:]");
        return ex;
    }
    ex.sub.start = parse_expression(parser);
    if (parse_accept(parser, TOK_SLICE)) {
        ex.sub.how = SUB_RANGE;
        ex.sub.width = parse_expression(parser);
        if (parse_accept(parser, TOK_COLON)) ex.sub.step = parse_expression(parser);
    } else if (parser->token.kind == TOK_COLON || parser->token.kind == TOK_DOTDOT) {
        parse_error(parser, parse_here(parser), "a slice is written [start +: width], not with start and end");
    } else if (parser->token.kind == TOK_COMMA) {
        parse_error(parser, parse_here(parser), "each subscript has its own brackets: A[i][j]");
    }
    return ex;
}

// std::max
static bool at_scope_of_library(const Parser *parser, const Ex *owner)
{
    return parser->token.kind == TOK_COLON && owner->kind == EX_NAME && foreign_is_library(owner->name.name) &&
           parse_ahead(parser, 1).kind == TOK_COLON;
}

// blockIdx.x, torch.relu, std::max: what there is in place of it, if the member or its owner is known.
static void complain_member(Parser *parser, const Ex *owner)
{
    const Token member = parse_ahead(parser, parser->token.kind == TOK_COLON ? 2 : 1);
    const bool quiet = parser->panicking;
    parse_error(parser, parse_here(parser), "there are no structures and no members");
    const ForeignWord *const foreign =
        owner->kind == EX_NAME && member.kind == TOK_NAME ? find_foreign_member(owner->name.name, member.name) : NULL;
    if (foreign && !quiet) parse_help(parser, owner->span, "%s", foreign_advice(parser->arena, foreign));
    else if (!quiet && owner->kind == EX_NAME && foreign_is_library(owner->name.name) && member.kind == TOK_NAME)
        parse_help(parser, owner->span, "what there is has no prefix: %s(...)", member.name);
}

// postfix: primary { '[' subscript ']' }
static Ex *parse_postfix(Parser *parser)
{
    const int begin = parser->token.begin;
    const bool outer_list = parser->in_build_list;
    Ex *ex = parse_primary(parser);
    parser->in_build_list = false;
    while (!parser->panicking && parse_accept(parser, TOK_LBRACKET)) {
        count_operator(parser);
        const Ex subscript = parse_subscript(parser, ex);
        parse_expect(parser, TOK_RBRACKET, "after a subscript");
        ex = new_ex(parser, begin, subscript);
    }
    parser->in_build_list = outer_list;
    if (parser->token.kind == TOK_LPAREN && !outer_list)
        parse_error(parser, parse_here(parser), "only the name of a function can be called");
    if (parser->token.kind == TOK_DOT || parser->token.kind == TOK_ARROW || at_scope_of_library(parser, ex))
        complain_member(parser, ex);
    return ex;
}

// unary: postfix | ( '-' | '+' | '!' | '~' ) unary
static Ex *parse_unary(Parser *parser)
{
    const Token token = parser->token;
    const Operator op = token.kind == TOK_MINUS   ? OP_NEG
                        : token.kind == TOK_BANG  ? OP_NOT
                        : token.kind == TOK_TILDE ? OP_BITNOT
                                                  : OP_COUNT;
    if (op == OP_COUNT && token.kind != TOK_PLUS) return parse_postfix(parser);
    parse_advance(parser);
    count_operator(parser);
    Ex *const a = parse_enter(parser) ? parse_unary(parser) : hole(parser);
    parse_leave(parser);
    return op == OP_COUNT ? a : new_ex(parser, token.begin, (Ex){ .kind = EX_UNARY, .unary = { op, a } });
}

typedef struct BinaryInfo {
    Operator op;
    int precedence;
} BinaryInfo;

enum { COMPARISON = 7, LOWEST = 1 }; // precedences

// clang-format off
static const BinaryInfo binaries[TOK_COUNT] = {
    [TOK_PIPEPIPE] = { OP_OROR, LOWEST }, [TOK_AMPAMP] = { OP_ANDAND, 2 },
    [TOK_PIPE] = { OP_OR, 3 },  [TOK_CARET] = { OP_XOR, 4 }, [TOK_AMP] = { OP_AND, 5 },
    [TOK_EQ] = { OP_EQ, 6 },    [TOK_NE] = { OP_NE, 6 },
    [TOK_LT] = { OP_LT, COMPARISON }, [TOK_LE] = { OP_LE, COMPARISON },
    [TOK_GT] = { OP_GT, COMPARISON }, [TOK_GE] = { OP_GE, COMPARISON },
    [TOK_SHL] = { OP_SHL, 8 },  [TOK_SHR] = { OP_SHR, 8 },
    [TOK_PLUS] = { OP_ADD, 9 }, [TOK_MINUS] = { OP_SUB, 9 },
    [TOK_STAR] = { OP_MUL, 10 }, [TOK_SLASH] = { OP_DIV, 10 }, [TOK_PERCENT] = { OP_MOD, 10 }, [TOK_AT] = { OP_MATMUL, 10 },
};
// clang-format on

static bool closes_build_list(const Parser *parser)
{
    const TokenKind kind = parser->token.kind;
    return parser->in_build_list &&
           (kind == TOK_GT || kind == TOK_GE || kind == TOK_LT || kind == TOK_LE || kind == TOK_SHR);
}

// binary: unary { operator unary }     by precedence; comparisons do not chain
static Ex *parse_binary(Parser *parser, int lowest)
{
    const int begin = parser->token.begin;
    Ex *left = parse_unary(parser);
    int before = 0;
    while (!parser->panicking && !closes_build_list(parser)) {
        const BinaryInfo binary = binaries[parser->token.kind];
        if (binary.precedence == 0 || binary.precedence < lowest) break;
        if (binary.precedence == COMPARISON && before == COMPARISON)
            parse_error(parser, parse_here(parser), "comparisons do not chain; write a < b && b < c");
        before = binary.precedence;
        parse_advance(parser);
        count_operator(parser);
        Ex *const right = parse_binary(parser, binary.precedence + 1);
        left = new_ex(parser, begin, (Ex){ .kind = EX_BINARY, .binary = { binary.op, left, right } });
    }
    return left;
}

// expression: binary [ '?' expression ':' expression ]
static Ex *parse_select(Parser *parser)
{
    const int begin = parser->token.begin;
    Ex *const cond = parse_binary(parser, LOWEST);
    if (parser->panicking || !parse_accept(parser, TOK_QUESTION)) return cond;
    count_operator(parser);
    Ex *const a = parse_expression(parser);
    Ex *const b = parse_expect(parser, TOK_COLON, "and the value for a false condition") ? parse_expression(parser)
                                                                                         : hole(parser);
    return new_ex(parser, begin, (Ex){ .kind = EX_SELECT, .select = { cond, a, b } });
}

Ex *parse_expression(Parser *parser)
{
    if (parser->in_expression == 0) parser->operators = 0;
    parser->in_expression++;
    Ex *const ex = parse_enter(parser) ? parse_select(parser) : hole(parser);
    parse_leave(parser);
    parser->in_expression--;
    return ex;
}

// ---- types and extents

// What other languages call their types, and what stands there before one.
static void complain_type(Parser *parser, const ForeignWord *foreign)
{
    if (foreign->ours) parse_error(parser, parse_here(parser), "'%s' is called %s here", foreign->word, foreign->ours);
    else parse_error(parser, parse_here(parser), "there is no type '%s'; %s", foreign->word, foreign->advice);
}

// type: element-type | name of a type parameter
TypeRef parse_type(Parser *parser, const char *what)
{
    const TypeRef type = { .span = parse_here(parser) };
    if (parser->token.kind == TOK_TYPE) return (TypeRef){ parse_advance(parser).type, NULL, type.span };
    const ForeignWord *const foreign =
        parser->token.kind == TOK_NAME ? find_foreign_of(parser->token.name, FOREIGN_TYPE) : NULL;
    if (foreign) complain_type(parser, foreign);
    return (TypeRef){ DTYPE_NONE, parse_name(parser, what, NULL), type.span };
}

void parse_no_pointer(Parser *parser)
{
    const TokenKind kind = parser->token.kind;
    if (kind != TOK_STAR && kind != TOK_AMP) return;
    const Token name = parse_ahead(parser, 1);
    const bool quiet = parser->panicking;
    parse_error(parser, parse_here(parser), kind == TOK_STAR ? "there are no pointers" : "there are no references");
    if (!quiet && kind == TOK_STAR)
        parse_help(parser, parse_here(parser), "a tensor is a parameter with its extents: in f32 %s[N]",
                   name.kind == TOK_NAME ? name.name : "X");
    if (!quiet && kind == TOK_AMP)
        parse_help(parser, parse_here(parser), "a function changes its 'inout' and 'out' parameters");
}

// extents: { '[' expression ']' }
Ex *parse_extents(Parser *parser)
{
    Ex *first = NULL, **last = &first;
    while (!parser->panicking && parse_accept(parser, TOK_LBRACKET)) {
        if (parser->token.kind == TOK_RBRACKET)
            parse_error(parser, parse_here(parser), "expected an extent between the brackets");
        *last = parse_expression(parser);
        last = &(*last)->next;
        if (parser->token.kind == TOK_COMMA)
            parse_error(parser, parse_here(parser), "each extent has its own brackets: A[M][K]");
        parse_expect(parser, TOK_RBRACKET, "after an extent");
    }
    return first;
}
