// SPDX-License-Identifier: MIT
// parse_statement.c - the grammar of statements.
#include "syntax/parse.h"
#include "syntax/foreign.h"

static St *new_st(Parser *parser, int begin, St st)
{
    st.span = parse_span(parser, begin);
    return memcpy(arena_alloc(parser->arena, sizeof(St)), &st, sizeof(St));
}

static St *hole(Parser *parser) { return new_st(parser, parser->token.begin, (St){ .kind = ST_BLOCK }); }

// ';'     A missing one at the end of a line is reported there, and the next line parsed as if it were not missing.
static void parse_semicolon(Parser *parser)
{
    if (parse_accept(parser, TOK_SEMICOLON)) {
        parser->panicking = false; // whatever was wrong, the next statement starts here
        parser->parens = 0;
        return;
    }
    const TokenKind kind = parser->token.kind;
    if (!parser->token.line_start && kind != TOK_RBRACE && kind != TOK_END) {
        parse_error_expected(parser, "';' or an operator");
        return;
    }
    const Span end = { parser->source, parser->previous_end, parser->previous_end };
    if (!parser->panicking) {
        parse_error(parser, end, "expected ';' at the end of the statement");
        parser->panicking = false;
    }
}

// ---- declarations

// declarator: name extents [ '=' expression ]
static Declarator *parse_declarator(Parser *parser)
{
    Declarator *const one = NEW(parser->arena, Declarator, .name = NULL);
    one->name = parse_name(parser, "a name", &one->span);
    one->extents = parse_extents(parser);
    if (parse_accept(parser, TOK_ASSIGN)) one->init = parse_expression(parser);
    one->span = parse_span(parser, one->span.begin);
    return one;
}

// list(declarator)
static Declarator *parse_declarators(Parser *parser)
{
    Declarator *first = NULL, **last = &first;
    do {
        *last = parse_declarator(parser);
        last = &(*last)->next;
    } while (!parser->panicking && parse_accept(parser, TOK_COMMA));
    return first;
}

// storage: 'shared' | 'cluster' 'shared' | 'fragment' | 'local' | 'temp'
static Storage parse_storage(Parser *parser)
{
    if (parse_accept(parser, TOK_SHARED)) return STORE_SHARED;
    if (parse_accept(parser, TOK_FRAGMENT)) return STORE_FRAGMENT;
    if (parse_accept(parser, TOK_LOCAL)) return STORE_LOCAL;
    const TokenKind next = parse_ahead(parser, 1).kind;
    if (parse_is_word(parser, "cluster") && next == TOK_SHARED) {
        parse_advance(parser);
        parse_advance(parser);
        return STORE_CLUSTER_SHARED;
    }
    if (parse_is_word(parser, "temp") && (next == TOK_TYPE || next == TOK_NAME)) {
        parse_advance(parser);
        return STORE_TEMP;
    }
    return STORE_SCALAR;
}

// declaration: [ 'const' ] [ storage ] type list(declarator)
static St *parse_declaration(Parser *parser)
{
    const int begin = parser->token.begin;
    St st = { .kind = ST_DECL };
    st.decl.is_const = parse_accept(parser, TOK_CONST);
    st.decl.storage = parse_storage(parser);
    const TokenKind second = parse_ahead(parser, 1).kind;
    if (parser->token.kind == TOK_NAME && second != TOK_NAME && second != TOK_STAR)
        parse_error(parser, parse_here(parser), "expected an element type before '%s'", parser->token.name);
    st.decl.type = parse_type(parser, "an element type");
    parse_no_pointer(parser);
    if (!parser->panicking) st.decl.names = parse_declarators(parser);
    return new_st(parser, begin, st);
}

St *parse_constant(Parser *parser)
{
    St *const st = parse_declaration(parser);
    parse_semicolon(parser);
    return st;
}

static St *parse_declaration_statement(Parser *parser) { return parse_constant(parser); }

// view: 'view' [ type ] list(declarator) ';'
static St *parse_view(Parser *parser)
{
    const int begin = parse_advance(parser).begin;
    St st = { .kind = ST_VIEW };
    const TokenKind next = parse_ahead(parser, 1).kind;
    st.view.has_type = parser->token.kind == TOK_TYPE || next == TOK_NAME;
    if (st.view.has_type) st.view.type = parse_type(parser, "an element type");
    st.view.name = parse_declarators(parser);
    for (const Declarator *one = st.view.name; one && !parser->panicking; one = one->next)
        if (!one->init) parse_error(parser, one->span, "a view needs what it is a view of: '= slice'");
    parse_semicolon(parser);
    return new_st(parser, begin, st);
}

// ---- assignments and calls

// clang-format off
static const Operator assignments[TOK_COUNT] = {           // 0, which is no assignment's: none
    [TOK_ASSIGN] = OP_ASSIGN,
    [TOK_PLUS_ASSIGN] = OP_ADD, [TOK_MINUS_ASSIGN] = OP_SUB, [TOK_STAR_ASSIGN] = OP_MUL, [TOK_SLASH_ASSIGN] = OP_DIV,
    [TOK_PERCENT_ASSIGN] = OP_MOD, [TOK_AMP_ASSIGN] = OP_AND, [TOK_PIPE_ASSIGN] = OP_OR, [TOK_CARET_ASSIGN] = OP_XOR,
    [TOK_SHL_ASSIGN] = OP_SHL, [TOK_SHR_ASSIGN] = OP_SHR, [TOK_MIN_ASSIGN] = OP_MIN, [TOK_MAX_ASSIGN] = OP_MAX,
};
// clang-format on

static void check_target(Parser *parser, const Ex *target)
{
    if (target->kind != EX_NAME && target->kind != EX_SUBSCRIPT)
        parse_error(parser, target->span, "only a variable, an element or a slice can be assigned to");
}

// `x max = y`: the lexer knows max= only as one word.
static void check_split_operator(Parser *parser)
{
    if (!parse_is_word(parser, "min") && !parse_is_word(parser, "max")) return;
    if (parse_ahead(parser, 1).kind != TOK_ASSIGN) return;
    parse_error(parser, parse_here(parser), "'%s=' is written without a space", parser->token.name);
}

static Ex *one_of(Parser *parser, Token token) // the 1 of ++ and --
{
    const Span span = { parser->source, token.begin, token.end };
    return NEW(parser->arena, Ex, .kind = EX_INT, .span = span, .integer = { 1, false });
}

// assignment: expression ( assignment-operator expression | '++' | '--' )      call: expression
static St *parse_assignment_or_call(Parser *parser)
{
    const int begin = parser->token.begin;
    Ex *const target = parse_expression(parser);
    if (parser->panicking) return hole(parser);
    St st = { .kind = ST_ASSIGN, .assign = { .target = target, .op = assignments[parser->token.kind] } };
    if (st.assign.op != 0) {
        check_target(parser, target);
        parse_advance(parser);
        st.assign.value = parse_expression(parser);
        if (assignments[parser->token.kind] != 0)
            parse_error(parser, parse_here(parser), "assignments do not chain; write one statement for each");
    } else if (parser->token.kind == TOK_PLUSPLUS || parser->token.kind == TOK_MINUSMINUS) {
        check_target(parser, target);
        st.assign.op = parser->token.kind == TOK_PLUSPLUS ? OP_ADD : OP_SUB;
        st.assign.value = one_of(parser, parse_advance(parser));
    } else if (target->kind == EX_CALL) {
        st = (St){ .kind = ST_CALL, .call = { target } };
    } else {
        check_split_operator(parser);
        if (parser->token.kind == TOK_SEMICOLON || parser->token.line_start)
            parse_error(parser, target->span, "this statement does nothing; expected an assignment or a call");
        else parse_error_expected(parser, "an assignment");
    }
    return new_st(parser, begin, st);
}

static bool at_declaration_statement(const Parser *parser)
{
    switch ((int)parser->token.kind) {
    case TOK_CONST:
    case TOK_SHARED:
    case TOK_FRAGMENT:
    case TOK_LOCAL: return true;
    case TOK_TYPE: return parse_ahead(parser, 1).kind != TOK_LPAREN;
    case TOK_NAME: {
        const TokenKind next = parse_ahead(parser, 1).kind;
        if (next == TOK_SHARED) return parse_is_word(parser, "cluster");
        if (next == TOK_TYPE) return parse_is_word(parser, "temp");
        if (next == TOK_STAR && parse_ahead(parser, 2).kind == TOK_NAME &&
            find_foreign_of(parser->token.name, FOREIGN_TYPE))
            return true;
        const Token second = parse_ahead(parser, 1); // `m max = 3` is a mistake of its own
        if (next == TOK_NAME && (strcmp(second.name, "max") == 0 || strcmp(second.name, "min") == 0)) return false;
        return next == TOK_NAME && !parse_ahead(parser, 1).line_start;
    }
    default: return false;
    }
}

// simple: declaration | assignment | call
static St *parse_simple(Parser *parser)
{
    return at_declaration_statement(parser) ? parse_declaration(parser) : parse_assignment_or_call(parser);
}

static St *parse_simple_statement(Parser *parser)
{
    const int begin = parser->token.begin;
    St *const st = parse_simple(parser);
    parse_semicolon(parser);
    st->span = parse_span(parser, begin);
    return st;
}

// atomic: 'atomic' expression assignment-operator expression ';'
static St *parse_atomic(Parser *parser)
{
    const int begin = parse_advance(parser).begin;
    St st = { .kind = ST_ATOMIC };
    st.assign.target = parse_expression(parser);
    st.assign.op = assignments[parser->token.kind];
    if (parser->token.kind == TOK_ASSIGN)
        parse_error(parser, parse_here(parser),
                    "'atomic' needs an operation such as +=; to store atomically call atomic_exchange");
    if (st.assign.op != 0 && !parser->panicking) {
        check_target(parser, st.assign.target);
        parse_advance(parser);
        st.assign.value = parse_expression(parser);
    } else {
        parse_error_expected(parser, "an operation such as '+=' after the target of 'atomic'");
    }
    parse_semicolon(parser);
    return new_st(parser, begin, st);
}

// ---- blocks and control

// body: '{' { statement } '}'
St *parse_body(Parser *parser, const char *owner)
{
    const Span open = parse_here(parser);
    if (!parse_expect(parser, TOK_LBRACE, owner)) return NULL;
    parser->parens = 0;
    St *first = NULL, **last = &first;
    while (parser->token.kind != TOK_RBRACE && parser->token.kind != TOK_END && !parse_at_declaration(parser)) {
        const int begin = parser->token.begin;
        *last = parse_statement(parser);
        while (*last) last = &(*last)->next; // 'input' makes one for each of its tensors
        if (parser->panicking) parse_skip_statement(parser);
        if (parser->token.begin == begin) parse_advance(parser); // no statement begins so
    }
    const bool quiet = parser->panicking || parser->given_up;
    if (!parse_accept(parser, TOK_RBRACE)) {
        parse_error_expected(parser, "'}'");
        if (!quiet) diag_note(parser->diags, open, "this '{' is not closed");
    }
    return first;
}

static St *parse_block(Parser *parser)
{
    const int begin = parser->token.begin;
    St *const body = parse_body(parser, "");
    return new_st(parser, begin, (St){ .kind = ST_BLOCK, .block = { body } });
}

// The statement that another one controls. A declaration alone would be visible to nobody.
static St *parse_controlled(Parser *parser)
{
    const bool declares = at_declaration_statement(parser) && !parser->panicking;
    St *const st = parse_statement(parser);
    if (!declares || parser->panicking) return st;
    parse_error(parser, st->span, "a declaration alone has no effect here; put it into braces with what uses it");
    parser->panicking = false; // the source is understood
    return st;
}

static int parse_open(Parser *parser, const char *where) // '('; the open parentheses around it
{
    const int outer = parser->parens;
    parse_expect(parser, TOK_LPAREN, where);
    return outer;
}

// if: [ 'static' ] 'if' '(' expression ')' statement [ 'else' statement ]
static St *parse_if(Parser *parser)
{
    const int begin = parser->token.begin;
    St st = { .kind = ST_IF, .branch = { .is_static = parse_accept(parser, TOK_STATIC) } };
    parse_expect(parser, TOK_IF, "after 'static'");
    const int outer = parse_open(parser, "after 'if'");
    st.branch.cond = parse_expression(parser);
    if (parser->token.kind == TOK_ASSIGN)
        parse_error(parser, parse_here(parser), "an assignment is a statement, not a value; did you mean '=='?");
    if (!parse_close(parser, outer, "after the condition")) return hole(parser);
    st.branch.then = parse_controlled(parser);
    if (!parser->panicking && parse_accept(parser, TOK_ELSE)) st.branch.otherwise = parse_controlled(parser);
    return new_st(parser, begin, st);
}

// while: 'while' '(' expression ')' statement
static St *parse_while(Parser *parser)
{
    const int begin = parse_advance(parser).begin;
    St st = { .kind = ST_WHILE };
    const int outer = parse_open(parser, "after 'while'");
    st.while_.cond = parse_expression(parser);
    if (!parse_close(parser, outer, "after the condition")) return hole(parser);
    st.while_.body = parse_controlled(parser);
    return new_st(parser, begin, st);
}

static const char no_range[] =
    "'for' has C's three parts; a range is written forall (i : n), or pipeline (i : n) for steps in order";

// [ simple ] ';' [ expression ] ';' [ simple ]
static void parse_for_head(Parser *parser, St *st)
{
    if (parser->token.kind != TOK_SEMICOLON && parser->token.kind != TOK_COLON) st->loop.init = parse_simple(parser);
    if (parser->token.kind == TOK_COLON) parser->panicking = false;
    if (parser->token.kind == TOK_COLON) parse_error(parser, parse_here(parser), "%s", no_range);
    parse_expect(parser, TOK_SEMICOLON, "after the first part of 'for'");
    if (parser->panicking) return;
    if (parser->token.kind != TOK_SEMICOLON) st->loop.cond = parse_expression(parser);
    parse_expect(parser, TOK_SEMICOLON, "after the condition of 'for'");
    if (parser->token.kind != TOK_RPAREN && !parser->panicking) st->loop.step = parse_simple(parser);
    if (parser->token.kind == TOK_COMMA)
        parse_error(parser, parse_here(parser), "the last part of 'for' is one statement");
}

// for: [ 'unroll' ] 'for' '(' for-head ')' statement
static St *parse_for(Parser *parser)
{
    const int begin = parser->token.begin;
    St st = { .kind = ST_FOR, .loop = { .unroll = parse_accept(parser, TOK_UNROLL) } };
    parse_expect(parser, TOK_FOR, "after 'unroll'");
    if (parser->token.kind == TOK_NAME) parse_error(parser, parse_here(parser), "%s", no_range);
    const int outer = parse_open(parser, "after 'for'");
    // `for (i : n)` reads as a statement that does nothing, which would hide what is wrong with it.
    if (parser->token.kind == TOK_NAME && parse_ahead(parser, 1).kind == TOK_COLON && !parser->panicking)
        parse_advance(parser);
    if (!parser->panicking) parse_for_head(parser, &st);
    if (!parse_close(parser, outer, "after the head of 'for'")) return hole(parser);
    st.loop.body = parse_controlled(parser);
    return new_st(parser, begin, st);
}

// index: name ':' expression [ '..' expression ]
static IndexVar *parse_index(Parser *parser)
{
    IndexVar *const index = NEW(parser->arena, IndexVar, .name = NULL);
    if (parser->token.kind == TOK_TYPE) parse_error(parser, parse_here(parser), "an index has no type; write 'i : n'");
    index->name = parse_name(parser, "an index, as in 'i : n'", &index->span);
    parse_expect(parser, TOK_COLON, "and the extent after an index");
    if (parser->panicking) return index;
    index->hi = parse_expression(parser);
    if (parse_accept(parser, TOK_DOTDOT)) {
        index->lo = index->hi;
        index->hi = parse_expression(parser);
    }
    index->span = parse_span(parser, index->span.begin);
    return index;
}

// list(index)
static IndexVar *parse_indices(Parser *parser)
{
    IndexVar *first = NULL, **last = &first;
    do {
        *last = parse_index(parser);
        last = &(*last)->next;
    } while (!parser->panicking && parse_accept(parser, TOK_COMMA));
    return first;
}

// forall: 'forall' '(' list(index) ')' statement
static St *parse_forall(Parser *parser)
{
    const int begin = parse_advance(parser).begin;
    St st = { .kind = ST_FORALL };
    const int outer = parse_open(parser, "after 'forall'");
    if (!parser->panicking) st.forall.indices = parse_indices(parser);
    if (!parse_close(parser, outer, "after the indices")) return hole(parser);
    st.forall.body = parse_controlled(parser);
    return new_st(parser, begin, st);
}

// named-hint: name '=' expression
static Hint *parse_named_hint(Parser *parser)
{
    Hint *const hint = NEW(parser->arena, Hint, .name = NULL);
    hint->name = parse_name(parser, "a hint, as in 'stages = 2'", &hint->span);
    if (parse_expect(parser, TOK_ASSIGN, "and a value after a hint")) hint->argument = parse_expression(parser);
    hint->span = parse_span(parser, hint->span.begin);
    return hint;
}

// pipeline: 'pipeline' '(' list(index) [ ';' list(named-hint) ] ')' statement
static St *parse_pipeline(Parser *parser)
{
    const int begin = parse_advance(parser).begin;
    St st = { .kind = ST_PIPELINE };
    const int outer = parse_open(parser, "after 'pipeline'");
    if (!parser->panicking) st.pipeline.indices = parse_indices(parser);
    if (!parser->panicking && parse_accept(parser, TOK_SEMICOLON)) {
        Hint **last = &st.pipeline.hints;
        do {
            *last = parse_named_hint(parser);
            last = &(*last)->next;
        } while (!parser->panicking && parse_accept(parser, TOK_COMMA));
    }
    if (!parse_close(parser, outer, "after the head of 'pipeline'")) return hole(parser);
    st.pipeline.body = parse_controlled(parser);
    return new_st(parser, begin, st);
}

// stage: 'stage' expression ':'
static St *parse_stage(Parser *parser)
{
    const int begin = parse_advance(parser).begin;
    St st = { .kind = ST_STAGE };
    st.stage.number = parse_expression(parser);
    parse_expect(parser, TOK_COLON, "after the number of a stage");
    return new_st(parser, begin, st);
}

// on: 'on' '(' list(expression) ')' statement
static St *parse_on(Parser *parser)
{
    const int begin = parse_advance(parser).begin;
    const int outer = parse_open(parser, "after 'on'");
    St st = { .kind = ST_ON };
    if (parser->token.kind == TOK_RPAREN)
        parse_error(parser, parse_here(parser), "expected the number of a warp group");
    st.on.groups = parse_arguments(parser, TOK_RPAREN);
    if (parser->panicking && !parse_close(parser, outer, "")) return hole(parser);
    st.on.body = parse_controlled(parser);
    return new_st(parser, begin, st);
}

// jump: ( 'break' | 'continue' ) ';'
static St *parse_jump(Parser *parser)
{
    const Token token = parse_advance(parser);
    parse_semicolon(parser);
    return new_st(parser, token.begin, (St){ .kind = token.kind == TOK_BREAK ? ST_BREAK : ST_CONTINUE });
}

// return: 'return' [ expression ] ';'
static St *parse_return(Parser *parser)
{
    const int begin = parse_advance(parser).begin;
    St st = { .kind = ST_RETURN };
    if (parser->token.kind != TOK_SEMICOLON && parser->token.kind != TOK_RBRACE)
        st.return_.value = parse_expression(parser);
    parse_semicolon(parser);
    return new_st(parser, begin, st);
}

// ---- hints and other words that are statements by their place

// hint: name [ '(' [ name '=' ] expression ')' | '(' name ',' string ')' ]
static Hint *parse_hint(Parser *parser)
{
    Hint *const hint = NEW(parser->arena, Hint, .name = NULL);
    hint->name = parse_name(parser, "a hint", &hint->span);
    if (!parser->panicking && parse_accept(parser, TOK_LPAREN)) {
        const TokenKind behind = parse_ahead(parser, 1).kind;
        if (parser->token.kind == TOK_NAME && (behind == TOK_ASSIGN || behind == TOK_COMMA)) {
            hint->argument_name = parse_advance(parser).name;
            parse_advance(parser);
            hint->has_reason = behind == TOK_COMMA;
        }
        if (hint->has_reason && parser->token.kind != TOK_STRING) parse_error_expected(parser, "a reason in quotes");
        hint->argument = parse_expression(parser);
        parse_expect(parser, TOK_RPAREN, "after the argument of a hint");
    }
    hint->span = parse_span(parser, hint->span.begin);
    return hint;
}

// Its reason makes lines long: it may begin one, where any other name says that a semicolon is missing.
static bool is_accept(Parser *parser)
{
    return strcmp(parser->token.name, "accept") == 0 && parse_ahead(parser, 1).kind == TOK_LPAREN;
}

// grid: 'grid' '(' [ list(index) ] ')' { hint } ';'
static St *parse_grid(Parser *parser)
{
    const int begin = parse_advance(parser).begin;
    const int outer = parse_open(parser, "after 'grid'");
    St st = { .kind = ST_GRID };
    if (parser->token.kind != TOK_RPAREN) st.grid.indices = parse_indices(parser);
    if (!parse_close(parser, outer, "after the coordinates of the grid")) return hole(parser);
    Hint **last = &st.grid.hints;
    while (parser->token.kind == TOK_NAME && !parser->panicking && (!parser->token.line_start || is_accept(parser))) {
        *last = parse_hint(parser);
        last = &(*last)->next;
    }
    parse_semicolon(parser);
    return new_st(parser, begin, st);
}

// claim: ( 'require' | 'assume' | 'assert' ) '(' expression [ ',' expression ] ')' ';'
static St *parse_claim(Parser *parser, StKind kind)
{
    const int begin = parse_advance(parser).begin;
    const int outer = parse_open(parser, "");
    St st = { .kind = kind };
    st.require.cond = parse_expression(parser);
    if (!parser->panicking && parse_accept(parser, TOK_COMMA)) {
        if (parser->token.kind != TOK_STRING) parse_error_expected(parser, "a message in quotes");
        st.require.message = parse_expression(parser);
    }
    if (!parse_close(parser, outer, "after the condition and its message")) return hole(parser);
    parse_semicolon(parser);
    return new_st(parser, begin, st);
}

static St *parse_require(Parser *parser) { return parse_claim(parser, ST_REQUIRE); }
static St *parse_assume(Parser *parser) { return parse_claim(parser, ST_ASSUME); }
static St *parse_assert(Parser *parser) { return parse_claim(parser, ST_ASSERT); }

// print: 'print' '(' string { ',' expression } ')' ';'
static St *parse_print(Parser *parser)
{
    const int begin = parse_advance(parser).begin;
    parse_advance(parser);
    St st = { .kind = ST_PRINT };
    if (parser->token.kind != TOK_STRING) parse_error_expected(parser, "a text in quotes to print");
    st.print.args = parse_arguments(parser, TOK_RPAREN);
    parse_semicolon(parser);
    return new_st(parser, begin, st);
}

// layout: 'layout' '(' expression ')' '=' hint ';'
static St *parse_layout(Parser *parser)
{
    const int begin = parse_advance(parser).begin;
    St st = { .kind = ST_LAYOUT };
    parse_advance(parser);
    st.layout.target = parse_expression(parser);
    parse_expect(parser, TOK_RPAREN, "after the tile");
    parse_expect(parser, TOK_ASSIGN, "and a layout");
    st.layout.hint = parse_hint(parser);
    parse_semicolon(parser);
    return new_st(parser, begin, st);
}

// input: 'input' list(name) '=' expression ';'
static St *parse_input(Parser *parser)
{
    const int begin = parse_advance(parser).begin;
    St *first = NULL, **last = &first;
    if (!parser->in_check) parse_error(parser, parse_span(parser, begin), "'input' belongs into a check");
    do { // one statement for each tensor; they share how it is made
        St *const st = *last = NEW(parser->arena, St, .kind = ST_INPUT);
        last = &st->next;
        st->input.tensor = parse_name(parser, "the name of a tensor", &st->input.tensor_span);
    } while (!parser->panicking && parse_accept(parser, TOK_COMMA));
    Ex *how = NULL;
    if (parse_expect(parser, TOK_ASSIGN, "and how the input is made")) how = parse_expression(parser);
    parse_semicolon(parser);
    for (St *st = first; st; st = st->next) {
        st->input.how = how;
        st->span = parse_span(parser, begin);
    }
    return first;
}

// tolerance: 'tolerance' [ [ name ] ':' ] list(name [ expression ]) ';'
static St *parse_tolerance(Parser *parser)
{
    const int begin = parse_advance(parser).begin;
    St st = { .kind = ST_TOLERANCE };
    if (!parser->in_check) parse_error(parser, parse_span(parser, begin), "'tolerance' belongs into a check");
    if (parse_ahead(parser, 1).kind == TOK_COLON)
        st.tolerance.output = parse_name(parser, "the name of an output", &st.tolerance.output_span);
    parse_accept(parser, TOK_COLON);
    Hint **last = &st.tolerance.terms;
    do {
        Hint *const term = *last = NEW(parser->arena, Hint, .name = NULL);
        last = &term->next;
        term->name = parse_name(parser, "a bound such as 'relative 1e-3', or 'exact'", &term->span);
        if (parser->token.kind != TOK_COMMA && parser->token.kind != TOK_SEMICOLON && !parser->panicking)
            term->argument = parse_expression(parser);
        term->span = parse_span(parser, term->span.begin);
    } while (!parser->panicking && parse_accept(parser, TOK_COMMA));
    parse_semicolon(parser);
    return new_st(parser, begin, st);
}

// A name that starts a statement of its own if `next` follows it; elsewhere it is a name like any other.
typedef struct WordStatement {
    const char *word;
    TokenKind next;
    St *(*parse)(Parser *);
} WordStatement;

// clang-format off
static const WordStatement word_statements[] = {
    { "grid",      TOK_LPAREN, parse_grid },    { "on",     TOK_LPAREN, parse_on },
    { "require",   TOK_LPAREN, parse_require }, { "assume", TOK_LPAREN, parse_assume },
    { "assert",    TOK_LPAREN, parse_assert },  { "print",  TOK_LPAREN, parse_print },
    { "layout",    TOK_LPAREN, parse_layout },  { "stage",  TOK_INT,    parse_stage },
    { "view",      TOK_NAME,   parse_view },    { "view",   TOK_TYPE,   parse_view },
    { "input",     TOK_NAME,   parse_input },   { "tolerance", TOK_NAME, parse_tolerance },
    { "tolerance", TOK_COLON,  parse_tolerance },
    { "cluster",   TOK_SHARED, parse_declaration_statement },
    { "temp",      TOK_NAME,   parse_declaration_statement }, { "temp", TOK_TYPE, parse_declaration_statement },
};
// clang-format on

const char *parse_statement_word(int i) { return i < COUNT(word_statements) ? word_statements[i].word : NULL; }

static const WordStatement *find_word_statement(const Parser *parser)
{
    const TokenKind next = parse_ahead(parser, 1).kind;
    for (int i = 0; i < COUNT(word_statements); i++)
        if (word_statements[i].next == next && parse_is_word(parser, word_statements[i].word))
            return &word_statements[i];
    return NULL;
}

// stage-by-name | word-statement | simple ';'
static St *parse_named_statement(Parser *parser)
{
    const Token second = parse_ahead(parser, 1);
    if (parse_is_word(parser, "stage") && second.kind == TOK_NAME && parse_ahead(parser, 2).kind == TOK_COLON)
        return parse_stage(parser);
    const WordStatement *const statement = find_word_statement(parser);
    if (statement) return statement->parse(parser);
    const bool assigned = second.kind == TOK_LBRACKET || assignments[second.kind] != 0;
    const ForeignWord *const foreign = assigned ? NULL : find_foreign_of(parser->token.name, FOREIGN_WORD);
    if (foreign)
        parse_error(parser, parse_here(parser), "there is no '%s'; %s", foreign->word,
                    foreign_advice(parser->arena, foreign));
    return parser->panicking ? hole(parser) : parse_simple_statement(parser);
}

// statement: block | control | jump | atomic | word-statement | simple ';'
static St *parse_statement_kind(Parser *parser)
{
    switch ((int)parser->token.kind) {
    case TOK_LBRACE: return parse_block(parser);
    case TOK_STATIC:
    case TOK_IF: return parse_if(parser);
    case TOK_WHILE: return parse_while(parser);
    case TOK_UNROLL:
    case TOK_FOR: return parse_for(parser);
    case TOK_FORALL: return parse_forall(parser);
    case TOK_PIPELINE: return parse_pipeline(parser);
    case TOK_BREAK:
    case TOK_CONTINUE: return parse_jump(parser);
    case TOK_RETURN: return parse_return(parser);
    case TOK_ATOMIC: return parse_atomic(parser);
    case TOK_NAME: return parse_named_statement(parser);
    case TOK_CONST:
    case TOK_SHARED:
    case TOK_FRAGMENT:
    case TOK_LOCAL:
    case TOK_TYPE:
    case TOK_LPAREN: return parse_simple_statement(parser);
    case TOK_SEMICOLON:
        parse_error(parser, parse_here(parser), "an empty statement; write { } if nothing is meant to happen");
        return hole(parser);
    case TOK_ELSE:
        parse_error(parser, parse_here(parser), "this 'else' belongs to no 'if'");
        parse_advance(parser);
        parser->panicking = false; // what it holds is parsed on its own
        return hole(parser);
    default: parse_error_expected(parser, "a statement"); return hole(parser);
    }
}

St *parse_statement(Parser *parser)
{
    St *const st = parse_enter(parser) ? parse_statement_kind(parser) : hole(parser);
    parse_leave(parser);
    return st;
}
