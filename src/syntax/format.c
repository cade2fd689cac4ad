// SPDX-License-Identifier: MIT
// format.c - tokens and comments back into text, in canonical form.
//
// The tree says where statements start and how deep they stand (marks, by byte offset); the rest is decided token
// by token: whether it starts a line, where that line starts, and whether a space precedes it.
#include "syntax/format.h"
#include "syntax/lexer.h"
#include "syntax/parser.h"

enum { INDENT = 4, COMMENT_GAP = 2, ONE_LINE_TOKENS_MAX = 80 };

// ---- marks: what the tree knows about the token at an offset

typedef enum { MARK_NONE, MARK_STARTS, MARK_FOLLOWS, MARK_JOINS } MarkKind;

typedef struct Mark {
    uint8_t kind;  // starts a line | keeps the author's choice | stays on the line
    bool label;    // a statement whose ':' ends a label
    bool breaks;   // a line ends between the token and the one before it
    uint8_t depth; // of the line that it starts; at most PARSE_NESTING_MAX + 2
} Mark;

typedef struct Line {
    const char *code, *comment;
    int comment_column; // where the author put it, counted from 0
    bool blank_before;
} Line;
typedef VEC(Line) Lines;

typedef struct Bracket {
    TokenKind open; // LPAREN, LBRACKET, LT of <...>, LBRACE of a set
    int column;     // where lines within it start; -1: not known before the next token
    int question;   // the column of a '?' that waits for its ':'; -1: none
} Bracket;

typedef struct Block {
    int depth;
    bool one_line;
} Block;

typedef struct Formatter {
    Arena *arena;
    const Source *source;
    Mark *marks;
    Lexer lexer;
    Lines lines;
    Text code;    // of the current line
    int column;   // its width
    Text comment; // after it
    int comment_column;
    bool behind_comment; // the code of the line ends with a comment
    bool blank_before;   // the current line
    bool after_open;     // the last line ends with the '{' of a block
    int indent;          // the columns before the statement's first line
    int written_indent;  // the same as the author wrote it
    int question;        // outside brackets, as in Bracket
    int depth;           // of the statement being written
    bool in_label;       // in a statement whose ':' ends a label
    Token before;        // the token before the current one
    VEC(Bracket) brackets;
    VEC(Block) blocks;
} Formatter;

// ---- comments, and line ends between tokens

typedef struct Comment {
    int begin, end; // without the line end
    int newlines;   // between it and what stands before it
    bool is_line;   // '//'
} Comment;

// Steps `at` over blanks and one comment. False if there is none before `end`; the newlines are counted anyhow.
static bool next_comment(const Source *source, int *at, int end, Comment *comment)
{
    comment->newlines = 0;
    for (; *at < end && source->text[*at] != '/'; ++*at) comment->newlines += source->text[*at] == '\n';
    if (*at >= end) return false;
    comment->begin = *at;
    comment->is_line = source->text[*at + 1] == '/';
    if (comment->is_line) {
        while (*at < end && source->text[*at] != '\n') ++*at;
    } else {
        for (*at += 2; source->text[*at] != '*' || source->text[*at + 1] != '/';) ++*at;
        *at += 2;
    }
    comment->end = *at;
    return true;
}

static bool has_line_end(const Source *source, int begin, int end)
{
    Comment comment;
    for (int at = begin; next_comment(source, &at, end, &comment);)
        if (comment.newlines > 0 || comment.is_line) return true;
    return comment.newlines > 0;
}

static void mark_line_ends(Formatter *f)
{
    Lexer lexer = f->lexer;
    int before = lexer.at;
    for (Token token = lexer_next(&lexer); token.kind != TOK_END; token = lexer_next(&lexer)) {
        f->marks[token.begin].breaks = has_line_end(f->source, before, token.begin);
        before = token.end;
    }
}

// ---- marks

static void mark(Formatter *f, int offset, MarkKind kind, int depth)
{
    f->marks[offset].kind = (uint8_t)kind;
    f->marks[offset].depth = (uint8_t)depth;
}

static void mark_statement(Formatter *f, const St *st, MarkKind kind, int depth);

static void mark_list(Formatter *f, const St *first, int depth)
{
    for (const St *st = first; st; st = st->next)
        mark_statement(f, st, MARK_STARTS, st->kind == ST_STAGE && depth > 0 ? depth - 1 : depth);
}

// A controlled statement goes one deeper only if it stands on a line of its own; a block never does.
static void mark_controlled(Formatter *f, const St *st, int depth)
{
    if (!st) return;
    const bool own_line = st->kind != ST_BLOCK && f->marks[st->span.begin].breaks;
    mark_statement(f, st, st->kind == ST_BLOCK ? MARK_JOINS : MARK_FOLLOWS, own_line ? depth + 1 : depth);
}

// `else`, and what it controls: an `if` stays on its line.
static void mark_else(Formatter *f, const St *st, int depth)
{
    Lexer lexer = f->lexer;
    lexer.at = st->branch.then->span.end;
    const Token word = lexer_next(&lexer);
    mark(f, word.begin, st->branch.then->kind == ST_BLOCK ? MARK_JOINS : MARK_FOLLOWS, depth);
    if (st->branch.otherwise->kind == ST_IF) mark_statement(f, st->branch.otherwise, MARK_JOINS, depth);
    else mark_controlled(f, st->branch.otherwise, depth);
}

static void mark_statement(Formatter *f, const St *st, MarkKind kind, int depth)
{
    mark(f, st->span.begin, kind, depth);
    f->marks[st->span.begin].label = st->kind == ST_STAGE || st->kind == ST_TOLERANCE;
    switch ((int)st->kind) {
    case ST_BLOCK: mark_list(f, st->block.body, depth + 1); break;
    case ST_FOR: mark_controlled(f, st->loop.body, depth); break;
    case ST_WHILE: mark_controlled(f, st->while_.body, depth); break;
    case ST_FORALL: mark_controlled(f, st->forall.body, depth); break;
    case ST_PIPELINE: mark_controlled(f, st->pipeline.body, depth); break;
    case ST_ON: mark_controlled(f, st->on.body, depth); break;
    case ST_IF:
        mark_controlled(f, st->branch.then, depth);
        if (st->branch.otherwise) mark_else(f, st, depth);
        break;
    default: break; // controls nothing
    }
}

static void mark_module(Formatter *f, const Module *module)
{
    for (const Decl *decl = module->decls; decl; decl = decl->next) {
        mark(f, decl->span.begin, MARK_STARTS, 0);
        if (decl->kind != DECL_CONST) mark_list(f, decl->body, 1);
    }
}

// ---- lines

// In characters, from 0; a tab is one. Not past 1000: only what people align matters.
static int column_of(const Source *source, int offset)
{
    int column = 0;
    for (int at = offset - 1; at >= 0 && source->text[at] != '\n' && column < 1000; at--)
        column += ((unsigned char)source->text[at] & 0xc0) != 0x80;
    return column;
}

static int width_of(const char *text) // in characters
{
    int width = 0;
    for (; *text; text++) width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static void add_code(Formatter *f, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) f->column += ((unsigned char)text[i] & 0xc0) != 0x80;
    text_add(&f->code, text, n);
}

static const char *take_text(Text *text) // and empty it
{
    char *const taken = arena_copy_text(text->arena, text_cstr(text), text->length);
    text->length = 0;
    return taken;
}

static void end_line(Formatter *f)
{
    if (f->code.length == 0 && f->comment.length == 0) return;
    const Line line = { take_text(&f->code), take_text(&f->comment), f->comment_column, f->blank_before };
    VEC_PUSH(f->arena, &f->lines, line);
    f->blank_before = false;
    f->column = 0;
}

static void start_line(Formatter *f, int indent, bool blank_before)
{
    end_line(f);
    f->blank_before = blank_before && f->lines.count > 0 && !f->after_open;
    f->after_open = false;
    for (int i = 0; i < indent; i++) add_code(f, " ", 1);
}

// Where the comments of n neighbouring lines stand: where the author put them, if that is one column and leaves room.
static int comment_column(const Line *lines, int n)
{
    int column = 0;
    bool agreed = true;
    for (int i = 0; i < n; i++) {
        const int width = width_of(lines[i].code) + COMMENT_GAP;
        if (width > column) column = width;
        agreed = agreed && lines[i].comment_column == lines[0].comment_column;
    }
    return agreed && lines[0].comment_column > column ? lines[0].comment_column : column;
}

static void print_lines(const Lines *lines, Text *out)
{
    for (int i = 0; i < lines->count;) {
        const Line *const line = &lines->items[i];
        int n = 0; // neighbouring lines with comments
        while (i + n < lines->count && line[n].comment[0] && (n == 0 || !line[n].blank_before)) n++;
        const int column = comment_column(line, n);
        for (int k = 0; k < (n ? n : 1); k++, i++) {
            text_print(out, "%s%s", line[k].blank_before ? "\n" : "", line[k].code);
            if (n) text_print(out, "%*s%s", column - width_of(line[k].code), "", line[k].comment);
            text_print(out, "\n");
        }
    }
}

// The comment's lines as they are, but for blanks at their ends.
static void add_comment(const Source *source, const Comment *comment, Text *out)
{
    for (int at = comment->begin; at < comment->end;) {
        const char *const line = source->text + at;
        const char *const newline = memchr(line, '\n', (size_t)(comment->end - at));
        int length = newline ? (int)(newline - line) : comment->end - at;
        at += length + 1;
        while (length > 0 && strchr(" \t\r\v\f", line[length - 1])) length--;
        text_add(out, line, (size_t)length);
        if (newline) text_add(out, "\n", 1);
    }
}

// ---- where a line starts

// Where the author put it, if that is right of the statement's start; else after the innermost open bracket.
static int continuation_indent(const Formatter *f, int offset)
{
    const int written = column_of(f->source, offset) - f->written_indent;
    if (written >= INDENT) return f->indent + written;
    return f->brackets.count ? f->brackets.items[f->brackets.count - 1].column : f->indent + INDENT;
}

static int *open_question(Formatter *f)
{
    return f->brackets.count ? &f->brackets.items[f->brackets.count - 1].question : &f->question;
}

// Where the token, or a comment before it, would start a line.
static int line_indent(Formatter *f, const Token *token, bool is_comment)
{
    const int inner = f->blocks.count ? f->blocks.items[f->blocks.count - 1].depth + 1 : 0;
    if (token->kind == TOK_END) return 0;
    if (token->kind == TOK_RBRACE && f->brackets.count == 0) return INDENT * (is_comment ? inner : inner - 1);
    if (f->marks[token->begin].kind != MARK_NONE) return INDENT * f->marks[token->begin].depth;
    if (token->kind == TOK_LBRACE && f->brackets.count == 0) return INDENT * f->depth;
    if (is_comment) return f->brackets.count ? f->brackets.items[f->brackets.count - 1].column : f->indent + INDENT;
    if (token->kind == TOK_COLON && *open_question(f) >= 0) return *open_question(f);
    return continuation_indent(f, token->begin);
}

static void resolve_bracket(Formatter *f, int column)
{
    if (f->brackets.count == 0) return;
    Bracket *const top = &f->brackets.items[f->brackets.count - 1];
    if (top->column < 0) top->column = column;
}

// All comments before the token. Returns whether the last one ends its line; `newlines`: those after it.
static bool write_comments(Formatter *f, const Token *token, int *newlines)
{
    bool broken = false;
    int at = f->before.end;
    Comment comment;
    while (next_comment(f->source, &at, token->begin, &comment)) {
        const bool own_line = comment.newlines > 0 || f->code.length + f->comment.length == 0 || broken;
        if (own_line) {
            resolve_bracket(f, f->indent + INDENT);
            start_line(f, line_indent(f, token, true), comment.newlines > 1);
            add_comment(f->source, &comment, &f->code);
        } else if (comment.is_line) {
            add_comment(f->source, &comment, &f->comment);
            f->comment_column = column_of(f->source, comment.begin);
        } else {
            if (!strchr("([ ", f->code.data[f->code.length - 1])) add_code(f, " ", 1);
            add_comment(f->source, &comment, &f->code);
            f->column += comment.end - comment.begin;
            f->behind_comment = true;
        }
        broken = comment.is_line || own_line;
    }
    *newlines = comment.newlines;
    return broken;
}

// ---- spaces

static bool is_word(TokenKind kind) { return (kind >= TOK_NAME && kind <= TOK_STRING) || kind >= TOK_ATOMIC; }

static bool ends_operand(TokenKind kind)
{
    return (kind >= TOK_NAME && kind <= TOK_STRING) || kind == TOK_RPAREN || kind == TOK_RBRACKET || kind == TOK_TRUE ||
           kind == TOK_FALSE || kind == TOK_NONE;
}

static bool is_sign(TokenKind kind)
{
    return kind == TOK_PLUS || kind == TOK_MINUS || kind == TOK_BANG || kind == TOK_TILDE;
}

static bool may_be_tight(TokenKind kind) { return kind == TOK_STAR || kind == TOK_SLASH || kind == TOK_PERCENT; }

// What the last tokens were, as far as the space after them depends on more than their kinds.
typedef struct Tightness {
    bool after_sign;  // before stands a sign of the operand to come
    bool after_tight; // or an operator written without spaces
    bool after_angle; // or the '<' or '>' of build arguments
} Tightness;

static bool wants_parenthesis_space(const Formatter *f)
{
    const TokenKind kind = f->before.kind;
    if (kind != TOK_NAME) return is_word(kind) && kind != TOK_TYPE;
    const Mark *const mark = &f->marks[f->before.begin];
    return mark->kind != MARK_NONE && (strcmp(f->before.name, "grid") == 0 || strcmp(f->before.name, "on") == 0);
}

static bool wants_space(const Formatter *f, const Token *token, const Tightness *tight, bool is_tight, bool is_angle)
{
    const TokenKind before = f->before.kind, kind = token->kind;
    if (before == TOK_END || before == TOK_LPAREN || before == TOK_LBRACKET || tight->after_sign || tight->after_tight)
        return false;
    switch ((int)kind) {
    case TOK_COMMA:
    case TOK_SEMICOLON:
    case TOK_RPAREN:
    case TOK_RBRACKET:
    case TOK_PLUSPLUS:
    case TOK_MINUSMINUS: return false;
    case TOK_LPAREN:
        if (tight->after_angle || before == TOK_NAME || before == TOK_TYPE)
            return wants_parenthesis_space(f) && !tight->after_angle;
        return before != TOK_RPAREN && before != TOK_RBRACKET;
    case TOK_LBRACKET: return !ends_operand(before);
    case TOK_COLON:
        if (f->in_label) return false;
        break;
    default: break;
    }
    if (is_angle || is_tight) return false;
    return !(tight->after_angle && before == TOK_LT);
}

// ---- brackets and blocks

static void open_bracket(Formatter *f, TokenKind open)
{
    const Bracket bracket = { open, -1, -1 };
    VEC_PUSH(f->arena, &f->brackets, bracket);
}

// A '{' after '=', ',' or '(' is a set of values, any other a block.
static bool opens_set(TokenKind before) { return before == TOK_ASSIGN || before == TOK_COMMA || before == TOK_LPAREN; }

// From after the '{': whether the block holds at most one simple statement and no line break.
static bool is_one_line(const Formatter *f)
{
    Lexer lexer = f->lexer;
    int semicolons = 0, parens = 0, sets = 0;
    TokenKind before = TOK_LBRACE;
    for (int i = 0; i < ONE_LINE_TOKENS_MAX; i++) {
        const Token token = lexer_next(&lexer);
        if (token.line_start || token.kind == TOK_END) return false;
        if (token.kind == TOK_LBRACE && !opens_set(before)) return false;
        if (token.kind == TOK_RBRACE && sets == 0) return semicolons <= 1;
        sets += (token.kind == TOK_LBRACE) - (token.kind == TOK_RBRACE);
        parens += (token.kind == TOK_LPAREN) - (token.kind == TOK_RPAREN);
        if (token.kind == TOK_SEMICOLON && parens == 0) semicolons++;
        before = token.kind;
    }
    return false;
}

static bool in_one_line(const Formatter *f) { return f->blocks.count && f->blocks.items[f->blocks.count - 1].one_line; }

// ---- tokens

// Whether the token starts a line: marks decide, then the author.
static bool starts_line(const Formatter *f, const Token *token, bool broken, int newlines)
{
    const TokenKind kind = token->kind;
    if (broken || f->lines.count + (int)f->code.length == 0) return true;
    if (kind == TOK_RBRACE && f->brackets.count == 0) return !in_one_line(f);
    switch ((MarkKind)f->marks[token->begin].kind) {
    case MARK_STARTS: return !in_one_line(f);
    case MARK_FOLLOWS: return newlines > 0;
    case MARK_JOINS: return false;
    case MARK_NONE: break;
    }
    return newlines > 0;
}

static bool is_blank_at(const Source *source, int offset)
{
    return offset < 0 || offset >= source->length || strchr(" \t\r\n\v\f", source->text[offset]) != NULL;
}

// `a*b` stays as it was if neither side has a blank.
static bool is_written_tight(const Formatter *f, const Token *token)
{
    if (!may_be_tight(token->kind) || !ends_operand(f->before.kind)) return false;
    const char next = token->end < f->source->length ? f->source->text[token->end] : ' ';
    return f->before.end == token->begin && !is_blank_at(f->source, token->end) && next != '/';
}

static void begin_statement(Formatter *f, const Token *token, bool new_line)
{
    const Mark *const mark = &f->marks[token->begin];
    if (mark->kind == MARK_NONE) return;
    f->depth = mark->depth;
    f->in_label = mark->label;
    f->question = -1;
    if (!new_line) return;
    f->indent = INDENT * mark->depth;
    f->written_indent = column_of(f->source, token->begin);
}

// `<` of build arguments or parameters; at file level names are compared only inside parentheses.
static bool opens_angle(const Formatter *f, const Token *token)
{
    if (token->kind != TOK_LT || f->before.kind != TOK_NAME) return false;
    return (f->blocks.count == 0 && f->brackets.count == 0) || lexer_opens_build_list(f->lexer);
}

static bool closes_angle(const Formatter *f, const Token *token)
{
    return token->kind == TOK_GT && f->brackets.count && f->brackets.items[f->brackets.count - 1].open == TOK_LT;
}

static void open_block(Formatter *f)
{
    const Block block = { f->depth, is_one_line(f) };
    VEC_PUSH(f->arena, &f->blocks, block);
    f->after_open = true;
}

static void follow_brackets(Formatter *f, const Token *token, bool is_angle)
{
    const TokenKind kind = token->kind;
    if (kind == TOK_LPAREN || kind == TOK_LBRACKET || (kind == TOK_LT && is_angle)) {
        open_bracket(f, kind);
    } else if (kind == TOK_LBRACE) {
        if (opens_set(f->before.kind)) open_bracket(f, kind);
        else open_block(f);
    } else if (kind == TOK_RPAREN || kind == TOK_RBRACKET || (kind == TOK_GT && is_angle) ||
               (kind == TOK_RBRACE && f->brackets.count)) {
        if (f->brackets.count) f->brackets.count--;
    } else if (kind == TOK_RBRACE && f->blocks.count) {
        f->blocks.count--;
        f->after_open = false;
    } else if (kind == TOK_QUESTION) {
        *open_question(f) = f->column - 1;
    } else if (kind == TOK_COLON && f->in_label) {
        f->in_label = false;
    }
}

// Places the token: on a line of its own, or after the last one.
static void place_token(Formatter *f, const Token *token, const Tightness *tight, bool is_tight, bool is_angle)
{
    int newlines = 0;
    const TokenKind before = f->before.kind;
    const bool broken = write_comments(f, token, &newlines);
    const bool new_line = starts_line(f, token, broken, newlines);
    if (new_line) {
        resolve_bracket(f, f->indent + INDENT);
        const int indent = line_indent(f, token, false);
        start_line(f, indent, newlines > 1 && token->kind != TOK_RBRACE);
    } else {
        const bool in_set = before == TOK_LBRACE && f->brackets.count;
        const bool closes_set = token->kind == TOK_RBRACE && f->brackets.count;
        const bool word_behind_comment = f->behind_comment && is_word(token->kind);
        if (!in_set && !closes_set && (word_behind_comment || wants_space(f, token, tight, is_tight, is_angle)))
            add_code(f, " ", 1);
        resolve_bracket(f, f->column);
    }
    f->behind_comment = false;
    begin_statement(f, token, new_line);
}

static void write_token(Formatter *f, const Token *token, Tightness *tight)
{
    const bool is_angle = opens_angle(f, token) || closes_angle(f, token);
    const bool is_tight = is_written_tight(f, token);
    place_token(f, token, tight, is_tight, is_angle);
    add_code(f, f->source->text + token->begin, (size_t)(token->end - token->begin));
    *tight = (Tightness){
        .after_sign = is_sign(token->kind) && !ends_operand(f->before.kind),
        .after_tight = is_tight,
        .after_angle = is_angle,
    };
    follow_brackets(f, token, is_angle);
    f->before = *token;
}

bool format_source(Arena *arena, Diags *diags, const Source *source, Text *out)
{
    const int errors = diags->errors;
    const Module *const module = parse_module(arena, diags, source);
    if (diags->errors != errors) return false;
    Formatter f = {
        .arena = arena, .source = source, .question = -1, .code = { .arena = arena }, .comment = { .arena = arena }
    };
    f.marks = NEW_ARRAY(arena, Mark, source->length + 1);
    lexer_open(&f.lexer, arena, NULL, source);
    f.before = (Token){ .kind = TOK_END, .begin = f.lexer.at, .end = f.lexer.at };
    mark_line_ends(&f);
    mark_module(&f, module);
    Tightness tight = { 0 };
    for (Token token = lexer_next(&f.lexer); token.kind != TOK_END; token = lexer_next(&f.lexer))
        write_token(&f, &token, &tight);
    const Token end = { .kind = TOK_END, .begin = source->length, .end = source->length };
    int newlines;
    write_comments(&f, &end, &newlines);
    end_line(&f);
    print_lines(&f.lines, out);
    return true;
}
