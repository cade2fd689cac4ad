// SPDX-License-Identifier: MIT
// diag.c - collecting diagnostics and printing them with the source lines they are about.
//
//   gemm.tile:9:16: error: inner extents of '@' differ: 64 on the left, 128 on the right
//           acc += a @ b;
//                  ^~~~~
//   gemm.tile:8:18: note: 'b' is shared bf16[128][64]
//
// The source line follows errors; notes and helps are one line each, below the message they
// belong to.
#include "base/diag.h"

#include <stdlib.h>

enum { DEFAULT_LIMIT = 20, LINE_COLUMNS_MAX = 120 };

typedef struct KindInfo {
    const char *name, *color;
} KindInfo;

// clang-format off
static const KindInfo kinds[] = {
    [DIAG_ERROR] = { "error", "\033[1;31m" },
    [DIAG_NOTE]  = { "note",  "\033[1;36m" },
    [DIAG_HELP]  = { "help",  "\033[1;32m" },
};
// clang-format on

Diags *diags_new(Arena *arena)
{
    Diags *const diags = NEW(arena, Diags, .arena = arena);
    diags->last = &diags->first;
    return diags;
}

// ---- collecting

static void keep(Diags *diags, DiagKind kind, Span span, const char *format, va_list args)
{
    Text message = { .arena = diags->arena };
    text_vprint(&message, format, args);
    *diags->last = NEW(diags->arena, Diag, .kind = kind, .span = span, .message = text_cstr(&message));
    diags->last = &(*diags->last)->next;
}

static bool same_span(Span a, Span b) { return a.source == b.source && a.begin == b.begin && a.end == b.end; }

// At one span only the first error is kept. Nowhere is not a span.
static bool is_repeated(const Diags *diags, Span span)
{
    if (!span.source) return false;
    for (const Diag *diag = diags->first; diag; diag = diag->next)
        if (diag->kind == DIAG_ERROR && same_span(diag->span, span)) return true;
    return false;
}

static int limit_of(const Diags *diags) { return diags->limit ? diags->limit : DEFAULT_LIMIT; }

bool diag_error(Diags *diags, Span span, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    diags->dropping = is_repeated(diags, span) || ++diags->errors > limit_of(diags);
    if (!diags->dropping) keep(diags, DIAG_ERROR, span, format, args);
    va_end(args);
    return false;
}

void diag_note(Diags *diags, Span span, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!diags->dropping) keep(diags, DIAG_NOTE, span, format, args);
    va_end(args);
}

void diag_help(Diags *diags, Span span, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!diags->dropping) keep(diags, DIAG_HELP, span, format, args);
    va_end(args);
}

// ---- printing

typedef struct Group {
    const Diag *first;
    int source, index;
} Group; // a message with its notes and helps

// By source, in the order in which sources were first complained about; then by place; then as reported.
static int compare_groups(const void *a, const void *b)
{
    const Group *const x = a, *const y = b;
    if (x->source != y->source) return x->source < y->source ? -1 : 1;
    if (x->first->span.begin != y->first->span.begin) return x->first->span.begin < y->first->span.begin ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static int source_rank(const Group *groups, int n, const Source *source)
{
    for (int i = 0; i < n; i++)
        if (groups[i].first->span.source == source) return groups[i].source;
    return n;
}

static int sorted_groups(const Diags *diags, Group **groups)
{
    int n = 0;
    for (const Diag *diag = diags->first; diag; diag = diag->next) n++;
    *groups = NEW_ARRAY(diags->arena, Group, n ? n : 1);
    int count = 0;
    for (const Diag *diag = diags->first; diag; diag = diag->next) {
        if (count && diag->kind != DIAG_ERROR) continue; // a note without an error stands alone
        (*groups)[count] = (Group){ diag, source_rank(*groups, count, diag->span.source), count };
        count++;
    }
    qsort(*groups, (size_t)count, sizeof(Group), compare_groups);
    return count;
}

typedef struct Line {
    const char *begin, *end;
} Line;

static Line line_around(const Source *source, int offset)
{
    const char *const limit = source->text + source->length;
    const char *begin = source->text + (offset < source->length ? offset : source->length), *end = begin;
    while (begin > source->text && begin[-1] != '\n') begin--;
    while (end < limit && *end != '\n') end++;
    if (begin == source->text && end - begin >= 3 && memcmp(begin, "\xef\xbb\xbf", 3) == 0) begin += 3;
    if (end > begin && end[-1] == '\r') end--;
    return (Line){ begin, end };
}

static bool is_continuation(char c) { return ((unsigned char)c & 0xc0) == 0x80; }

static int utf8_length(const char *p, const char *end)
{
    const unsigned char c = (unsigned char)*p;
    const int n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
    if (n == 0 || end - p < n) return 0;
    for (int i = 1; i < n; i++)
        if (!is_continuation(p[i])) return 0;
    return n;
}

// The line as a terminal can bear it: what is not text becomes '?', one column each.
static void print_line_part(Text *out, const char *begin, const char *end)
{
    for (const char *p = begin; p < end;) {
        const int n = utf8_length(p, end);
        const bool printable = n > 1 || (n == 1 && (*p == '\t' || ((unsigned char)*p >= 32 && *p != 127)));
        text_add(out, printable ? p : "?", printable ? (size_t)n : 1);
        p += n ? n : 1;
    }
}

// What stands under that part of the line: blanks (tabs stay tabs, so that the columns agree) or marks.
static void print_under(Text *out, const char *begin, const char *end, const char *marks)
{
    for (const char *p = begin; p < end;) {
        const int n = utf8_length(p, end);
        if (!marks) text_add(out, *p == '\t' ? "\t" : " ", 1);
        else text_add(out, p == begin ? &marks[0] : &marks[1], 1);
        p += n ? n : 1;
    }
}

// A long line is cut to a window that shows the place, at the boundaries of characters.
static Line clip_line(Line line, const char *place)
{
    if (line.end - line.begin <= LINE_COLUMNS_MAX) return line;
    Line clipped = line;
    if (place - line.begin > LINE_COLUMNS_MAX / 2) clipped.begin = place - LINE_COLUMNS_MAX / 2;
    while (clipped.begin < place && is_continuation(*clipped.begin)) clipped.begin++;
    if (line.end - clipped.begin > LINE_COLUMNS_MAX) clipped.end = clipped.begin + LINE_COLUMNS_MAX;
    while (clipped.end > place && clipped.end < line.end && is_continuation(*clipped.end)) clipped.end--;
    return clipped;
}

static void print_source_line(Text *out, Span span, bool color)
{
    const Line whole = line_around(span.source, span.begin);
    const char *place = span.source->text + (span.begin < span.source->length ? span.begin : span.source->length);
    if (place > whole.end) place = whole.end;
    if (place < whole.begin) place = whole.begin;
    const Line line = clip_line(whole, place);
    const char *end = span.source->text + (span.end < span.source->length ? span.end : span.source->length);
    if (end > line.end) end = line.end;

    const bool cut_before = line.begin > whole.begin, cut_after = line.end < whole.end;
    text_print(out, "%s", cut_before ? "..." : "");
    print_line_part(out, line.begin, line.end);
    text_print(out, "%s\n%s", cut_after ? "..." : "", cut_before ? "   " : "");
    print_under(out, line.begin, place, NULL);
    text_print(out, "%s", color ? "\033[1;32m" : "");
    if (end > place) print_under(out, place, end, "^~");
    else text_add(out, "^", 1); // an empty place, or the end of a line or file
    text_print(out, "%s\n", color ? "\033[0m" : "");
}

static void print_diag(Text *out, const Diag *diag, bool color)
{
    const KindInfo *const kind = &kinds[diag->kind];
    if (diag->span.source) {
        const Position at = source_position(diag->span.source, diag->span.begin);
        text_print(out, "%s:%d:%d: ", diag->span.source->path, at.line, at.column);
    }
    text_print(out, "%s%s:%s ", color ? kind->color : "", kind->name, color ? "\033[0m" : "");
    text_print(out, "%s\n", diag->message);
    if (diag->span.source && diag->kind == DIAG_ERROR && !diag->span.source->hidden)
        print_source_line(out, diag->span, color);
}

void diags_print(const Diags *diags, Text *out, bool color)
{
    Group *groups;
    const int n = sorted_groups(diags, &groups);
    for (int i = 0; i < n; i++) {
        print_diag(out, groups[i].first, color);
        for (const Diag *diag = groups[i].first->next; diag && diag->kind != DIAG_ERROR; diag = diag->next)
            print_diag(out, diag, color);
    }
    if (diags->errors > limit_of(diags))
        text_print(out, "%d errors, the first %d are shown\n", diags->errors, limit_of(diags));
}
