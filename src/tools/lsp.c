// SPDX-License-Identifier: MIT
// lsp.c - `kiln lsp`: a language server (LSP 3.17) for .tile files over standard input and output.
//
// Documents are kept as whole texts. After each change the program is read anew, and every kernel, function's caller and
// specification is checked as `kiln test` would, for the CPU, with its defaults; what is reported goes to the editor. What a word
// stands for is told by the syntax tree (places.c), and how a tile is kept by compiling its kernel when it is first asked
// for (lsp_layouts.c).
#include "tools/lsp_layouts.h"
#include "tools/places.h"
#include "tools/tool.h"
#include "tools/words.h"
#include "base/json_read.h"
#include "base/memory.h"
#include "syntax/format.h"
#include "syntax/lexer.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MESSAGE_BYTES_MAX = 64 << 20 };

typedef struct Document {
    struct Document *next;
    char *uri, *path, *text; // memory_alloc'ed
    KernelLayouts *layouts;  // of this text
} Document;

typedef struct Server {
    const Folders *folders;
    FILE *in, *out;
    Document *documents;
    Arena *arena; // of the message at hand
    bool shut_down, ended;
} Server;

// A document as a program.
typedef struct Read {
    Document *document;
    Program *program; // NULL: it could not be read
    const Module *module;
    Diags *diags;
} Read;

// ---- texts

static char *from_uri(const char *uri) // file:///a%20b.tile -> /a b.tile
{
    const char *at = strncmp(uri, "file://", 7) == 0 ? uri + 7 : uri;
    char *const path = memory_alloc(strlen(at) + 1), *to = path;
    for (; path && *at; at++) {
        if (at[0] == '%' && isxdigit((unsigned char)at[1]) && isxdigit((unsigned char)at[2])) {
            const char digits[] = { at[1], at[2], 0 };
            *to++ = (char)strtol(digits, NULL, 16);
            at += 2;
        } else {
            *to++ = *at;
        }
    }
    if (path) *to = 0;
    return path;
}

static const char *to_uri(Arena *arena, const char *path)
{
    Text uri = { .arena = arena };
    text_print(&uri, "file://");
    for (; *path; path++)
        if (isalnum((unsigned char)*path) || strchr("/-_.~", *path)) text_print(&uri, "%c", *path);
        else text_print(&uri, "%%%02X", (unsigned char)*path);
    return text_cstr(&uri);
}

// Columns of LSP count UTF-16 units.
static void print_position(Text *out, const Source *source, int offset)
{
    const char *const text = source->text;
    int line = 0, begin = 0, units = 0;
    offset = offset < 0 ? 0 : offset > source->length ? source->length : offset;
    for (int i = 0; i < offset; i++)
        if (text[i] == '\n') line++, begin = i + 1;
    for (int i = begin; i < offset; i++) {
        const unsigned char c = (unsigned char)text[i];
        if ((c & 0xc0) != 0x80) units += c >= 0xf0 ? 2 : 1;
    }
    text_print(out, "{\"line\":%d,\"character\":%d}", line, units);
}

static void print_range(Text *out, Span span)
{
    text_print(out, "{\"start\":");
    print_position(out, span.source, span.begin);
    text_print(out, ",\"end\":");
    print_position(out, span.source, span.end);
    text_print(out, "}");
}

static int offset_of(const Source *source, int line, int units)
{
    const char *at = source->text;
    for (; line > 0 && *at; at++) line -= *at == '\n';
    while (units > 0 && *at && *at != '\n') {
        units -= (unsigned char)*at >= 0xf0 ? 2 : 1;
        do at++;
        while (((unsigned char)*at & 0xc0) == 0x80);
    }
    return (int)(at - source->text);
}

static void add_text(Text *out, const char *text, size_t n)
{
    char *bytes = NULL;
    size_t length = 0;
    FILE *const memory = open_memstream(&bytes, &length);
    if (!memory) return;
    print_json_text(memory, arena_copy_text(out->arena, text, n));
    fclose(memory);
    if (bytes) text_add(out, bytes, length);
    free(bytes);
}

static void add_string(Text *out, const char *text) { add_text(out, text, strlen(text)); }

// ---- messages

static void send(Server *s, const Text *body)
{
    fprintf(s->out, "Content-Length: %zu\r\n\r\n", body->length);
    fwrite(text_cstr(body), 1, body->length, s->out);
    fflush(s->out);
}

static void print_id(Text *out, const Json *message)
{
    const Json *const id = json_at(message, "id");
    if (id && id->kind == JSON_STRING) add_string(out, id->text);
    else text_print(out, "%s", id && id->kind == JSON_NUMBER ? id->text : "null");
}

static void reply(Server *s, const Json *message, const char *result)
{
    Text body = { .arena = s->arena };
    text_print(&body, "{\"jsonrpc\":\"2.0\",\"id\":");
    print_id(&body, message);
    text_print(&body, ",\"result\":");
    text_add(&body, result, strlen(result));
    text_print(&body, "}");
    send(s, &body);
}

static void refuse(Server *s, const Json *message, int code, const char *why)
{
    Text body = { .arena = s->arena };
    text_print(&body, "{\"jsonrpc\":\"2.0\",\"id\":");
    print_id(&body, message);
    text_print(&body, ",\"error\":{\"code\":%d,\"message\":", code);
    add_string(&body, why);
    text_print(&body, "}}");
    send(s, &body);
}

// ---- documents

static Document *find_document(const Server *s, const char *uri)
{
    Document *d = s->documents;
    while (d && strcmp(d->uri, uri) != 0) d = d->next;
    return d;
}

static void free_document(Document *d)
{
    layouts_free(d->layouts);
    memory_free(d->uri);
    memory_free(d->path);
    memory_free(d->text);
    memory_free(d);
}

static void close_document(Server *s, const char *uri)
{
    for (Document **link = &s->documents; *link; link = &(*link)->next) {
        Document *const d = *link;
        if (strcmp(d->uri, uri) != 0) continue;
        *link = d->next;
        free_document(d);
        return;
    }
}

static void set_document(Server *s, const char *uri, const char *text)
{
    close_document(s, uri);
    Document *const d = memory_alloc(sizeof *d);
    if (!d) return;
    *d = (Document){ s->documents, memory_copy_text(uri), from_uri(uri), memory_copy_text(text), NULL };
    if (d->uri && d->path && d->text) s->documents = d;
    else free_document(d);
}

// ---- reading and checking

static Read read_document(Server *s, Document *d)
{
    const ImportFolders folders = { s->folders->items, s->folders->n };
    Read r = { .document = d, .diags = diags_new(s->arena) };
    r.diags->limit = 200;
    r.program = program_from_text_with(s->arena, r.diags, d->path, d->text, strlen(d->text), &folders);
    if (r.program->n_modules) r.module = r.program->modules[0];
    else r.program = NULL;
    return r;
}

static bool has_defaults(const Decl *decl)
{
    for (const BuildParam *b = decl->build; b; b = b->next)
        if (!b->value) return false;
    return true;
}

static void check_one(Program *program, const Decl *decl)
{
    static const CheckOptions options = { .target = "cpu" };
    if (!decl->name || !has_defaults(decl)) return;
    if (decl->kind == DECL_KERNEL) check_kernel(program, decl->name, &options);
    if (decl->kind == DECL_OPERATOR) check_operator(program, decl->name, &options);
    if (decl->kind != DECL_KERNEL && decl->kind != DECL_OPERATOR) return;
    if (program_find(program, DECL_REFERENCE, decl->name)) check_reference(program, decl->name, &options);
    if (program_find(program, DECL_VERIFY, decl->name)) check_verify(program, decl->name, &options);
    check_cases(program, decl->name);
}

static void add_diagnostic(Text *out, const Diag *diag, int *n)
{
    text_print(out, "%s{\"severity\":1,\"source\":\"kiln\",\"range\":", (*n)++ ? "," : "");
    print_range(out, diag->span);
    text_print(out, ",\"message\":");
    Text message = { .arena = out->arena };
    text_print(&message, "%s", diag->message);
    for (const Diag *more = diag->next; more && more->kind != DIAG_ERROR; more = more->next)
        text_print(&message, "\n%s: %s", more->kind == DIAG_NOTE ? "note" : "help", more->message);
    add_string(out, text_cstr(&message));
    text_print(out, "}");
}

static void publish(Server *s, Document *d)
{
    const Read r = read_document(s, d);
    for (const Decl *decl = r.module && !r.diags->errors ? r.module->decls : NULL; decl; decl = decl->next)
        check_one(r.program, decl);
    Text body = { .arena = s->arena };
    int n = 0;
    text_print(&body, "{\"jsonrpc\":\"2.0\",\"method\":\"textDocument/publishDiagnostics\",\"params\":{\"uri\":");
    add_string(&body, d->uri);
    text_print(&body, ",\"diagnostics\":[");
    for (const Diag *diag = r.diags->first; diag; diag = diag->next)
        if (diag->kind == DIAG_ERROR && r.module && diag->span.source == r.module->source)
            add_diagnostic(&body, diag, &n);
    text_print(&body, "]}}");
    send(s, &body);
}

// ---- questions about a place

typedef struct Question {
    Read read;
    int offset;
    Span word;
    bool has_word;
} Question;

static bool ask(Server *s, const Json *message, Question *q)
{
    Document *const d = find_document(s, json_text(message, "params.textDocument.uri", ""));
    *q = (Question){ .offset = 0 };
    if (!d) return false;
    q->read = read_document(s, d);
    if (!q->read.module) return false;
    const Source *const source = q->read.module->source;
    q->offset = offset_of(source, json_int(message, "params.position.line", 0),
                          json_int(message, "params.position.character", 0));
    q->has_word = word_at(source, q->offset, &q->word);
    return true;
}

static const char *word_text(Server *s, const Question *q)
{
    return arena_copy_text(s->arena, q->word.source->text + q->word.begin, (size_t)(q->word.end - q->word.begin));
}

static void add_location(Server *s, Text *out, Span span)
{
    text_print(out, "{\"uri\":");
    add_string(out, to_uri(s->arena, span.source->path));
    text_print(out, ",\"range\":");
    print_range(out, span);
    text_print(out, "}");
}

static void definition(Server *s, const Json *message)
{
    Question q;
    Place place;
    Text result = { .arena = s->arena };
    if (ask(s, message, &q) && q.has_word && find_declared_place(q.read.program, q.read.module, q.word, &place))
        add_location(s, &result, place.span);
    reply(s, message, result.length ? text_cstr(&result) : "null");
}

// What stands in the line before a declaration, as a comment.
static void add_comment(Text *out, Span text)
{
    const char *const all = text.source->text;
    int begin = text.begin;
    while (begin > 0 && all[begin - 1] != '\n') begin--;
    int first = begin;
    while (first > 0) {
        int line = first - 1;
        while (line > 0 && all[line - 1] != '\n') line--;
        if (strncmp(all + line, "// ", 3) != 0) break;
        first = line;
    }
    if (first == begin) return;
    text_print(out, "\n\n");
    for (int at = first; at < begin; at++) {
        if (at == first || all[at - 1] == '\n') at += 3;
        text_print(out, "%c", all[at] == '\n' ? ' ' : all[at]);
    }
}

static void describe_place(Text *out, const Place *place)
{
    const Span t = place->text;
    text_print(out, "```tile\n%.*s\n```\n%s", t.end - t.begin, t.source->text + t.begin, place->what);
    if (!place->inside) add_comment(out, place->text);
}

static bool describe_word(Server *s, const Question *q, Text *out)
{
    Place place;
    if (find_declared_place(q->read.program, q->read.module, q->word, &place)) {
        Document *const d = q->read.document;
        describe_place(out, &place);
        layouts_describe(&d->layouts, out, &(LayoutQuestion){ d->path, d->text, s->folders, &place });
        return true;
    }
    const char *const word = word_text(s, q);
    const DType type = dtype_find(word, (int)strlen(word));
    for (int i = 0; i < M_COUNT; i++)
        if (strcmp(builtins[i].name, word) == 0) {
            text_print(out, "`%s`: a built-in function of %d argument%s", word, builtins[i].arguments,
                       builtins[i].arguments == 1 ? "" : "s");
            return true;
        }
    if (type != DTYPE_NONE) text_print(out, "`%s`: an element type of %d bits", word, dtype_bits(type));
    return type != DTYPE_NONE;
}

static void hover(Server *s, const Json *message)
{
    Question q;
    Text said = { .arena = s->arena }, result = { .arena = s->arena };
    if (ask(s, message, &q) && q.has_word && describe_word(s, &q, &said)) {
        text_print(&result, "{\"contents\":{\"kind\":\"markdown\",\"value\":");
        add_string(&result, text_cstr(&said));
        text_print(&result, "},\"range\":");
        print_range(&result, q.word);
        text_print(&result, "}");
    }
    reply(s, message, result.length ? text_cstr(&result) : "null");
}

// ---- completion

typedef struct Listing {
    Text *out;
    int n;
} Listing;

static void list_item(Listing *l, const char *label, int kind, const char *detail)
{
    text_print(l->out, "%s{\"label\":", l->n++ ? "," : "");
    add_string(l->out, label);
    text_print(l->out, ",\"kind\":%d,\"detail\":", kind);
    add_string(l->out, detail);
    text_print(l->out, "}");
}

static void list_place(void *context, const Place *place)
{
    enum { FUNCTION = 3, VARIABLE = 6 };
    list_item(context, place->name, place->inside ? VARIABLE : FUNCTION, place->what);
}

static void completion(Server *s, const Json *message)
{
    enum { FUNCTION = 3, KEYWORD = 14, CONSTANT = 21, STRUCT = 22 };
    Question q;
    Text result = { .arena = s->arena };
    Listing l = { &result, 0 };
    text_print(&result, "[");
    if (ask(s, message, &q)) {
        const Decl *const decl = decl_at(q.read.module, q.offset);
        if (decl) places_in(q.read.program, decl, list_place, &l);
        places_of(q.read.program, list_place, &l);
    }
    for (int g = 0; g < WORD_GROUPS; g++) {
        const WordGroup *const group = &word_groups[g];
        const int kind = strcmp(group->name, "types") == 0       ? STRUCT
                         : strcmp(group->name, "functions") == 0 ? FUNCTION
                         : strcmp(group->name, "constants") == 0 ? CONSTANT
                                                                 : KEYWORD;
        const char *before = "";
        for (int i = 0; group->word(i); before = group->word(i++))
            if (strcmp(group->word(i), before) != 0) list_item(&l, group->word(i), kind, group->about);
    }
    text_print(&result, "]");
    reply(s, message, text_cstr(&result));
}

// ---- rename, symbols, format

static bool is_word(const char *text)
{
    if (!isalpha((unsigned char)*text) && *text != '_') return false;
    while (isalnum((unsigned char)*text) || *text == '_') text++;
    return !*text;
}

// All words of a source, in `within`, that are spelled as this one. A local name has one meaning in all of its declaration.
static void add_edits(Server *s, Text *out, const Source *source, Span within, const char *word, const char *fresh,
                      int *n)
{
    Lexer lexer;
    lexer_open(&lexer, s->arena, NULL, source);
    for (Token t = lexer_next(&lexer); t.kind != TOK_END; t = lexer_next(&lexer)) {
        if (t.kind != TOK_NAME || t.begin < within.begin || t.end > within.end || strcmp(t.name, word) != 0) continue;
        text_print(out, "%s{\"range\":", (*n)++ ? "," : "");
        print_range(out, (Span){ source, t.begin, t.end });
        text_print(out, ",\"newText\":");
        add_string(out, fresh);
        text_print(out, "}");
    }
}

static void add_file_edits(Server *s, Text *out, const Source *source, Span within, const char *word, const char *fresh,
                           int *files)
{
    Text edits = { .arena = s->arena };
    int n = 0;
    add_edits(s, &edits, source, within, word, fresh, &n);
    if (!n) return;
    text_print(out, "%s", (*files)++ ? "," : "");
    add_string(out, to_uri(s->arena, source->path));
    text_print(out, ":[%s]", text_cstr(&edits));
}

static Span all_of(const Source *source) { return (Span){ source, 0, source->length }; }

static void rename_place(Server *s, const Question *q, const Place *place, const char *fresh, Text *out)
{
    const char *const word = word_text(s, q);
    int files = 0;
    text_print(out, "{\"changes\":{");
    if (place->inside) {
        // The specification's names are the kernel's: all of its declarations in this file.
        const Decl *const subject = subject_of(q->read.program, place->inside);
        Text edits = { .arena = s->arena };
        int n = 0;
        for (const Decl *d = q->read.module->decls; d; d = d->next)
            if (d->name && subject_of(q->read.program, d) == subject)
                add_edits(s, &edits, q->read.module->source, d->span, word, fresh, &n);
        add_string(out, q->read.document->uri);
        text_print(out, ":[%s]", text_cstr(&edits));
    } else {
        for (int m = 0; m < q->read.program->n_modules; m++)
            add_file_edits(s, out, q->read.program->modules[m]->source, all_of(q->read.program->modules[m]->source),
                           word, fresh, &files);
    }
    text_print(out, "}}");
}

static void rename_word(Server *s, const Json *message)
{
    Question q;
    Place place;
    Text result = { .arena = s->arena };
    const char *const fresh = json_text(message, "params.newName", "");
    if (!is_word(fresh))
        refuse(s, message, -32602, "the new name is no name: letters, digits and _, not first a digit");
    else if (!ask(s, message, &q) || !q.has_word || !find_declared_place(q.read.program, q.read.module, q.word, &place))
        refuse(s, message, -32602, "there is nothing to rename here: the word is declared in no source");
    else {
        rename_place(s, &q, &place, fresh, &result);
        reply(s, message, text_cstr(&result));
    }
}

static void symbols(Server *s, const Json *message)
{
    enum { FUNCTION = 12, CONSTANT = 14, EVENT = 24 };
    static const char *const kinds[] = {
        [DECL_KERNEL] = "kernel", [DECL_FN] = "fn",        [DECL_OPERATOR] = "operator",
        [DECL_EXTERN] = "extern", [DECL_CONST] = "const",  [DECL_REFERENCE] = "reference",
        [DECL_CHECK] = "check",   [DECL_VERIFY] = "verify"
    };
    Question q;
    Text result = { .arena = s->arena };
    int n = 0;
    text_print(&result, "[");
    for (const Decl *d = ask(s, message, &q) ? q.read.module->decls : NULL; d; d = d->next) {
        if (d->kind == DECL_IMPORT || !d->name || !d->name_span.source) continue;
        const int kind = d->kind == DECL_CONST ? CONSTANT : d->kind >= DECL_REFERENCE ? EVENT : FUNCTION;
        text_print(&result, "%s{\"name\":", n++ ? "," : "");
        add_string(&result, d->name);
        text_print(&result, ",\"detail\":\"%s\",\"kind\":%d,\"range\":", kinds[d->kind], kind);
        print_range(&result, d->span);
        text_print(&result, ",\"selectionRange\":");
        print_range(&result, d->name_span);
        text_print(&result, "}");
    }
    text_print(&result, "]");
    reply(s, message, text_cstr(&result));
}

static void format_document(Server *s, const Json *message)
{
    const Document *const d = find_document(s, json_text(message, "params.textDocument.uri", ""));
    Text formatted = { .arena = s->arena }, result = { .arena = s->arena };
    if (d) {
        const Source source = { .path = d->path, .text = d->text, .length = (int)strlen(d->text) };
        if (format_source(s->arena, diags_new(s->arena), &source, &formatted)) {
            text_print(&result, "[{\"range\":");
            print_range(&result, all_of(&source));
            text_print(&result, ",\"newText\":");
            add_text(&result, text_cstr(&formatted), formatted.length);
            text_print(&result, "}]");
        }
    }
    reply(s, message, result.length ? text_cstr(&result) : "null"); // null: it has syntax errors, which are shown
}

// ---- the loop

static void initialize(Server *s, const Json *message)
{
    reply(
        s, message,
        "{\"capabilities\":{\"positionEncoding\":\"utf-16\",\"textDocumentSync\":1,\"hoverProvider\":true,"
        "\"definitionProvider\":true,\"completionProvider\":{},\"renameProvider\":true,\"documentSymbolProvider\":true,"
        "\"documentFormattingProvider\":true},\"serverInfo\":{\"name\":\"kiln\",\"version\":\"" KILN_VERSION "\"}}");
}

static void take_text(Server *s, const char *uri, const char *text)
{
    if (!text) return;
    set_document(s, uri, text);
    Document *const d = find_document(s, uri);
    if (d) publish(s, d);
}

static void opened(Server *s, const Json *message)
{
    take_text(s, json_text(message, "params.textDocument.uri", ""),
              json_text(message, "params.textDocument.text", NULL));
}

static void changed(Server *s, const Json *message)
{
    const Json *const changes = json_at(message, "params.contentChanges");
    const Json *last = changes ? changes->first : NULL;
    while (last && last->next) last = last->next;
    if (last) take_text(s, json_text(message, "params.textDocument.uri", ""), json_text(last, "text", NULL));
}

// What it imports may be another now.
static void saved(Server *s, const Json *message)
{
    (void)message;
    for (Document *d = s->documents; d; d = d->next) {
        layouts_free(d->layouts);
        d->layouts = NULL;
    }
}

static void closed(Server *s, const Json *message)
{
    const char *const uri = json_text(message, "params.textDocument.uri", "");
    Text body = { .arena = s->arena };
    close_document(s, uri);
    text_print(&body, "{\"jsonrpc\":\"2.0\",\"method\":\"textDocument/publishDiagnostics\",\"params\":{\"uri\":");
    add_string(&body, uri);
    text_print(&body, ",\"diagnostics\":[]}}");
    send(s, &body);
}

static void shut_down(Server *s, const Json *message)
{
    s->shut_down = true;
    reply(s, message, "null");
}

static void end(Server *s, const Json *message)
{
    (void)message;
    s->ended = true;
}

static void ignore(Server *s, const Json *message)
{
    (void)s;
    (void)message;
}

typedef struct Method {
    const char *name;
    void (*handle)(Server *s, const Json *message);
} Method;

static const Method methods[] = {
    { "initialize", initialize },
    { "initialized", ignore },
    { "shutdown", shut_down },
    { "exit", end },
    { "textDocument/didOpen", opened },
    { "textDocument/didChange", changed },
    { "textDocument/didClose", closed },
    { "textDocument/didSave", saved },
    { "textDocument/hover", hover },
    { "textDocument/definition", definition },
    { "textDocument/completion", completion },
    { "textDocument/rename", rename_word },
    { "textDocument/documentSymbol", symbols },
    { "textDocument/formatting", format_document },
};

static void handle(Server *s, const Json *message)
{
    const char *const name = json_text(message, "method", "");
    const bool is_request = json_at(message, "id") != NULL;
    for (int i = 0; i < COUNT(methods); i++) {
        if (strcmp(methods[i].name, name) != 0) continue;
        if (s->shut_down && methods[i].handle != end) refuse(s, message, -32600, "the server is shut down");
        else methods[i].handle(s, message);
        return;
    }
    if (is_request && *name) refuse(s, message, -32601, "the server has no such method");
}

// The bytes of the next message; NULL: the input has ended.
static char *read_message(Server *s, size_t *n)
{
    char line[256];
    long length = -1;
    while (fgets(line, sizeof line, s->in) && line[strspn(line, "\r\n")]) {
        if (strncasecmp(line, "Content-Length:", 15) == 0) length = strtol(line + 15, NULL, 10);
    }
    if (feof(s->in) || ferror(s->in) || length < 0 || length > MESSAGE_BYTES_MAX) return NULL;
    char *const bytes = memory_alloc((size_t)length + 1);
    *n = bytes ? fread(bytes, 1, (size_t)length, s->in) : 0;
    if (bytes && *n == (size_t)length) return bytes;
    memory_free(bytes);
    return NULL;
}

static void handle_bytes(Server *s, const char *bytes, size_t n)
{
    s->arena = arena_new();
    if (s->arena && setjmp(s->arena->out_of_memory) == 0) {
        const Json *const message = json_read(s->arena, bytes, n);
        if (message) handle(s, message);
        else refuse(s, NULL, -32700, "the message is not JSON");
    }
    arena_free(s->arena);
}

int tool_lsp(int argc, char **argv)
{
    Folders folders = { .n = 0 };
    int n_args = 0;
    const Option options[] = { FOLDER_OPTION(folders) };
    const Usage usage = {
        "kiln lsp [-I DIR]",
        "A language server for .tile files, over standard input and output: diagnostics as the source is typed, what a word stands\n"
        "for and where it is declared, completion, renaming, the outline of a file, formatting. Editors start it; docs/editors.md.",
        options, COUNT(options), "  kiln lsp\n"
    };
    const int done = parse_options(&usage, argc, argv, &n_args);
    if (done >= 0) return done;
    if (n_args) return fail_usage("lsp: '%s': it takes no arguments", argv[0]);
    Server s = { .folders = &folders, .in = stdin, .out = stdout };
    size_t n;
    for (char *bytes; !s.ended && (bytes = read_message(&s, &n)); memory_free(bytes)) handle_bytes(&s, bytes, n);
    while (s.documents) close_document(&s, s.documents->uri);
    return s.shut_down ? EXIT_OK : EXIT_FAILED;
}
