// SPDX-License-Identifier: MIT
// parse_declaration.c - the grammar of files and of what stands in them: kernels, functions, operators and their
// references, checks and verifications.
#include "syntax/parse.h"
#include "base/near.h"
#include "syntax/foreign.h"

// ---- parameters

// build-kind: 'type' | 'int' | 'bool' | 'f32' | 'f64' | 'fn'
static BuildKind parse_build_kind(Parser *parser)
{
    if (parse_accept_word(parser, "fn")) return BUILD_FN;
    const Token token = parser->token;
    const BuildKind kind = token.kind != TOK_TYPE     ? BUILD_TYPE
                           : token.type == DTYPE_INT  ? BUILD_INT
                           : token.type == DTYPE_BOOL ? BUILD_BOOL
                                                      : BUILD_FLOAT;
    const bool known = token.kind == TOK_TYPE
                           ? kind != BUILD_FLOAT || token.type == DTYPE_F32 || token.type == DTYPE_F64
                           : parse_is_word(parser, "type");
    if (known) parse_advance(parser);
    else parse_error_expected(parser, "'type', 'int', 'bool', 'f64' or 'fn' before the name of a build parameter");
    return kind;
}

// '{' list(build-value) '}': what may be tried, the default first
static void parse_range(Parser *parser, BuildParam *param)
{
    const bool outer = parser->in_check;
    parser->in_check = true;
    const Ex *const set = parse_build_value(parser);
    parser->in_check = outer;
    if (set->kind == EX_SET) param->value = param->range = set->set.items;
    else if (!parser->panicking) parse_error(parser, set->span, "a list of values stands alone after '='");
}

// build-param: build-kind name [ '=' ( build-value | '{' list(build-value) '}' ) ]
static BuildParam *parse_build_param(Parser *parser)
{
    BuildParam *const param = NEW(parser->arena, BuildParam, .name = NULL);
    param->kind = parse_build_kind(parser);
    param->name = parse_name(parser, "the name of a build parameter", &param->span);
    if (parser->panicking || !parse_accept(parser, TOK_ASSIGN)) return param;
    if (parser->token.kind == TOK_LBRACE) parse_range(parser, param);
    else param->value = parse_build_value(parser);
    return param;
}

// build-params: '<' list(build-param) '>'
static void parse_build_params(Parser *parser, Decl *decl)
{
    if (parser->panicking || !parse_accept(parser, TOK_LT)) return;
    decl->has_build = true;
    BuildParam **last = &decl->build;
    do {
        *last = parse_build_param(parser);
        last = &(*last)->next;
    } while (!parser->panicking && parse_accept(parser, TOK_COMMA));
    parse_expect(parser, TOK_GT, "or ',' after a build parameter");
}

// [ 'in' | 'out' | 'inout' ]
static Mode parse_mode(Parser *parser)
{
    return parse_accept_word(parser, "in")      ? MODE_IN
           : parse_accept_word(parser, "out")   ? MODE_OUT
           : parse_accept_word(parser, "inout") ? MODE_INOUT
                                                : MODE_SCALAR;
}

static const char *const param_words[] = { "optional", "in", "out", "inout", "strided" };

const char *parse_parameter_word(int i) { return i < COUNT(param_words) ? param_words[i] : NULL; }

static bool at_param_word(const Parser *parser) // and not at a type parameter that is called so
{
    bool word = false;
    for (int i = 0; i < COUNT(param_words); i++) word |= parse_is_word(parser, param_words[i]);
    return word && parse_ahead(parser, 2).kind != TOK_COMMA && parse_ahead(parser, 2).kind != TOK_RPAREN;
}

// param: [ 'optional' ] [ 'in' | 'out' | 'inout' ] [ 'strided' ] type name extents
static Param *parse_param(Parser *parser)
{
    Param *const param = NEW(parser->arena, Param, .name = NULL);
    param->optional = parse_accept_word(parser, "optional");
    param->mode = parse_mode(parser);
    param->strided = parse_accept_word(parser, "strided");
    if (at_param_word(parser))
        parse_error(parser, parse_here(parser),
                    "the order is: optional, then in, out or inout, then strided, then the type");
    if (parser->token.kind == TOK_CONST)
        parse_error(parser, parse_here(parser),
                    "parameters are not declared const: a tensor that is only read is 'in'");
    param->type = parse_type(parser, "the type of a parameter");
    parse_no_pointer(parser);
    param->name = parse_name(parser, "the name of a parameter", &param->span);
    if (!parser->panicking) param->extents = parse_extents(parser);
    if (param->extents && param->mode == MODE_SCALAR)
        parse_error(parser, param->span, "'%s' is a tensor: say 'in', 'out' or 'inout' before its type", param->name);
    return param;
}

// params: '(' [ list(param) ] ')'
static void parse_params(Parser *parser, Decl *decl)
{
    if (!parse_expect(parser, TOK_LPAREN, "and the parameters")) return;
    decl->has_params = true;
    Param **last = &decl->params;
    if (parser->token.kind != TOK_RPAREN) {
        do {
            *last = parse_param(parser);
            last = &(*last)->next;
        } while (!parser->panicking && parse_accept(parser, TOK_COMMA));
    }
    if (parser->token.kind == TOK_ASSIGN)
        parse_error(parser, parse_here(parser), "parameters have no default values; build parameters in <...> have");
    parse_expect(parser, TOK_RPAREN, "or ',' after a parameter");
}

// ---- declarations. Each starts after its first word.

// A '{' here opens a set of values, not a body.
static bool behind_assign(const Parser *parser)
{
    return parser->previous_end > 0 && parser->source->text[parser->previous_end - 1] == '=';
}

// A mistake in a head is skipped to the body, which is parsed all the same.
static void parse_decl_body(Parser *parser, Decl *decl)
{
    while (parser->panicking && parser->token.kind != TOK_END && !parse_at_declaration(parser)) {
        if (parser->token.kind != TOK_LBRACE) parse_advance(parser);
        else if (behind_assign(parser)) parse_skip_block(parser);
        else parser->panicking = false;
    }
    if (!parser->panicking) decl->body = parse_body(parser, "and the body");
}

static Name parse_decl_name(Parser *parser, Decl *decl, const char *what)
{
    decl->name = parse_name(parser, what, &decl->name_span);
    return decl->name;
}

// import: 'import' string [ ';' ]
static void parse_import(Parser *parser, Decl *decl)
{
    decl->name_span = parse_here(parser);
    if (parser->token.kind != TOK_STRING) {
        parse_error_expected(parser, "the path of a file in quotes after 'import'");
        return;
    }
    const Token path = parse_advance(parser);
    if (path.string.length == 0) parse_error(parser, decl->name_span, "'import' needs the path of a file");
    else decl->name = intern(parser->arena, path.string.text, (size_t)path.string.length);
    parser->panicking = false;
    parse_accept(parser, TOK_SEMICOLON);
}

// constant: 'const' type list(declarator) ';'
static void parse_file_constant(Parser *parser, Decl *decl)
{
    decl->body = parse_constant(parser);
    const Declarator *const first = decl->body->decl.names;
    if (!first) return;
    decl->name = first->name;
    decl->name_span = first->span;
}

// kernel: 'kernel' name [ build-params ] params body         operator: 'operator' ... the same
static void parse_kernel(Parser *parser, Decl *decl)
{
    parse_decl_name(parser, decl, decl->kind == DECL_KERNEL ? "the name of a kernel" : "the name of an operator");
    parse_build_params(parser, decl);
    if (!parser->panicking) parse_params(parser, decl);
    parse_decl_body(parser, decl);
}

// ( 'void' | type ) name [ build-params ] params
static void parse_fn_head(Parser *parser, Decl *decl)
{
    decl->result.span = parse_here(parser);
    if (!parse_accept(parser, TOK_VOID)) decl->result = parse_type(parser, "the type of the result, or 'void',");
    if (parser->token.kind == TOK_LPAREN || parser->token.kind == TOK_LT)
        parse_error(parser, decl->result.span,
                    "a function says what it returns: 'fn f32 name(...)' or 'fn void name(...)'");
    parse_decl_name(parser, decl, "the name of a function");
    parse_build_params(parser, decl);
    if (!parser->panicking) parse_params(parser, decl);
}

// fn: 'fn' ( 'void' | type ) name [ build-params ] params body
static void parse_fn(Parser *parser, Decl *decl)
{
    parse_fn_head(parser, decl);
    parse_decl_body(parser, decl);
}

// extern: 'extern' name 'fn' ( 'void' | type ) name [ build-params ] params ';'
static void parse_extern(Parser *parser, Decl *decl)
{
    decl->target = parse_name(parser, "a target such as 'cuda' after 'extern'", NULL);
    if (decl->target && !parse_accept_word(parser, "fn")) parse_error_expected(parser, "'fn' after the target");
    if (!parser->panicking) parse_fn_head(parser, decl);
    parse_expect(parser, TOK_SEMICOLON, "after the parameters; an extern function has no body");
}

// reference: 'reference' name [ [ build-params ] params ] body
static void parse_reference(Parser *parser, Decl *decl)
{
    parse_decl_name(parser, decl, "the name of a kernel or operator");
    parse_build_params(parser, decl);
    if (!parser->panicking && (decl->has_build || parser->token.kind == TOK_LPAREN)) parse_params(parser, decl);
    parse_decl_body(parser, decl);
}

// named-value: name '=' build-value
static NamedValue *parse_named_value(Parser *parser)
{
    NamedValue *const value = NEW(parser->arena, NamedValue, .name = NULL);
    value->name = parse_name(parser, "a name and its value, as in 'M = 64'", &value->span);
    if (parse_expect(parser, TOK_ASSIGN, "and a value")) value->value = parse_build_value(parser);
    return value;
}

// [ list(named-value) ] close
static NamedValue *parse_named_values(Parser *parser, TokenKind close)
{
    NamedValue *first = NULL, **last = &first;
    if (parser->token.kind != close) {
        do {
            *last = parse_named_value(parser);
            last = &(*last)->next;
        } while (!parser->panicking && parse_accept(parser, TOK_COMMA));
    }
    parse_expect(parser, close, "or ',' after a value");
    return first;
}

// check: 'check' name [ '<' list(named-value) '>' ] [ '(' list(named-value) ')' ] body
static void parse_check(Parser *parser, Decl *decl)
{
    parser->in_check = true;
    parse_decl_name(parser, decl, "the name of a kernel or operator");
    if (!parser->panicking && parse_accept(parser, TOK_LT)) {
        decl->has_build = true;
        decl->build_values = parse_named_values(parser, TOK_GT);
    }
    if (!parser->panicking && parse_accept(parser, TOK_LPAREN)) {
        decl->has_params = true;
        decl->values = parse_named_values(parser, TOK_RPAREN);
    }
    parse_decl_body(parser, decl);
    parser->in_check = false;
}

// verify: 'verify' name body
static void parse_verify(Parser *parser, Decl *decl)
{
    parse_decl_name(parser, decl, "the name of a kernel or operator");
    parse_decl_body(parser, decl);
}

typedef struct DeclInfo {
    const char *word;
    DeclKind kind;
    void (*parse)(Parser *, Decl *);
} DeclInfo;

// clang-format off
static const DeclInfo decl_infos[] = {
    { "import",    DECL_IMPORT,    parse_import },    { "kernel",   DECL_KERNEL,   parse_kernel },
    { "fn",        DECL_FN,        parse_fn },        { "operator", DECL_OPERATOR, parse_kernel },
    { "extern",    DECL_EXTERN,    parse_extern },    { "check",    DECL_CHECK,    parse_check },
    { "reference", DECL_REFERENCE, parse_reference }, { "verify",   DECL_VERIFY,   parse_verify },
};
// clang-format on

const char *parse_declaration_word(int i) { return i < COUNT(decl_infos) ? decl_infos[i].word : NULL; }

// What is no declaration, up to the next line that starts with one, or after the next block.
static void skip_declaration(Parser *parser)
{
    while (parser->token.kind != TOK_END && !parse_at_declaration(parser)) {
        if (parser->token.kind == TOK_CONST && parser->token.line_start) break;
        const bool is_set = behind_assign(parser);
        if (parser->token.kind != TOK_LBRACE) {
            parse_advance(parser);
            continue;
        }
        parse_skip_block(parser);
        if (!is_set) break;
    }
    parser->parens = 0;
    parser->panicking = false;
}

// What was meant by a file's word that begins no declaration.
static void help_declaration(Parser *parser)
{
    const Token token = parser->token;
    const char *const word =
        arena_copy_text(parser->arena, parser->source->text + token.begin, (size_t)(token.end - token.begin));
    const ForeignWord *const foreign = find_foreign_of(word, FOREIGN_DECLARATION);
    const char *words[COUNT(decl_infos)];
    for (int i = 0; i < COUNT(decl_infos); i++) words[i] = decl_infos[i].word;
    const char *const near = token.kind == TOK_NAME ? nearest_name(word, words, COUNT(words)) : NULL;
    if (foreign) parse_help(parser, parse_here(parser), "%s", foreign_advice(parser->arena, foreign));
    else if (near) parse_help(parser, parse_here(parser), "did you mean '%s'?", near);
    else if (token.kind == TOK_TYPE)
        parse_help(parser, parse_here(parser), "a function is written fn %s name(...)", word);
}

static void complain_declaration(Parser *parser)
{
    const Token token = parser->token;
    if (token.kind == TOK_RBRACE) {
        parse_error(parser, parse_here(parser), "this '}' closes nothing");
        parse_advance(parser);
        return;
    }
    const bool told = !parser->panicking;
    parse_error_expected(parser,
                         "a declaration: kernel, fn, operator, import, const, extern, reference, check or verify");
    if (told) help_declaration(parser);
}

// declaration: constant | import | kernel | fn | operator | extern | reference | check | verify
static Decl *parse_file_declaration(Parser *parser)
{
    const int begin = parser->token.begin;
    Decl *const decl = NEW(parser->arena, Decl, .kind = DECL_CONST);
    const DeclInfo *info = NULL;
    for (int i = 0; i < COUNT(decl_infos); i++)
        if (parse_is_word(parser, decl_infos[i].word)) info = &decl_infos[i];
    if (info) {
        decl->kind = info->kind;
        parse_advance(parser);
        info->parse(parser, decl);
    } else if (parser->token.kind == TOK_CONST) {
        parse_file_constant(parser, decl);
    } else {
        complain_declaration(parser);
    }
    decl->span = parse_span(parser, begin);
    if (parser->panicking) skip_declaration(parser);
    return decl;
}

// file: { declaration }
Module *parse_module(Arena *arena, Diags *diags, const Source *source)
{
    Module *const module = NEW(arena, Module, .source = source);
    if (source->length > PARSE_SOURCE_BYTES_MAX) {
        diag_error(diags, (Span){ source, 0, 0 }, "this file has %d bytes; at most %d can be compiled", source->length,
                   PARSE_SOURCE_BYTES_MAX);
        return module;
    }
    Parser parser = {
        .arena = arena, .diags = diags, .source = source, .errors_max = diags->errors + PARSE_ERRORS_MAX
    };
    lexer_open(&parser.lexer, arena, diags, source);
    parser.token = lexer_next(&parser.lexer);
    Decl **last = &module->decls;
    while (parser.token.kind != TOK_END) {
        *last = parse_file_declaration(&parser);
        last = &(*last)->next;
    }
    return module;
}
