// SPDX-License-Identifier: MIT
// json_read.c - a reader of JSON, one function for each kind of value.
#include "base/json_read.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NESTING_MAX = 64 };

typedef struct Reader {
    Arena *arena;
    const char *at, *end;
    int nesting;
} Reader;

static bool read_value(Reader *r, Json *value);

static void skip_blanks(Reader *r)
{
    while (r->at < r->end && memchr(" \t\r\n", *r->at, 4)) r->at++;
}

static bool accept(Reader *r, char c)
{
    skip_blanks(r);
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

static bool read_word(Reader *r, const char *word)
{
    const size_t n = strlen(word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

// The four digits of \uXXXX.
static bool read_hex(Reader *r, unsigned *value)
{
    *value = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        const char *const digits = "0123456789abcdefABCDEF";
        const char *const found = r->at < r->end && *r->at ? strchr(digits, *r->at) : NULL;
        if (!found) return false;
        *value = *value * 16 + (unsigned)(found - digits - (found - digits > 15 ? 6 : 0));
    }
    return true;
}

static char *put_utf8(char *to, unsigned c)
{
    if (c == 0 || (c >= 0xd800 && c < 0xe000)) c = 0xfffd;
    if (c < 0x80) {
        *to++ = (char)c;
        return to;
    }
    const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    *to++ = (char)((more == 1 ? 0xc0 : more == 2 ? 0xe0 : 0xf0) | c >> 6 * more);
    for (int i = more - 1; i >= 0; i--) *to++ = (char)(0x80 | (c >> 6 * i & 0x3f));
    return to;
}

// Behind "\u"; two of them may be one character.
static bool read_unicode(Reader *r, char **to)
{
    unsigned c, low;
    if (!read_hex(r, &c)) return false;
    if (c >= 0xd800 && c < 0xdc00 && r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u') {
        const char *const before = r->at;
        r->at += 2;
        if (!read_hex(r, &low)) return false;
        if (low >= 0xdc00 && low < 0xe000) c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        else r->at = before;
    }
    *to = put_utf8(*to, c);
    return true;
}

static bool read_escape(Reader *r, char **to)
{
    static const char from[] = "\"\\/bfnrt", is[] = "\"\\/\b\f\n\r\t";
    const char c = r->at < r->end ? *r->at++ : 0;
    if (c == 'u') return read_unicode(r, to);
    const char *const found = c ? strchr(from, c) : NULL;
    if (found) *(*to)++ = is[found - from];
    return found != NULL;
}

static const char *read_string(Reader *r)
{
    if (!accept(r, '"')) return NULL;
    const char *end = r->at;
    while (end < r->end && *end != '"') end += *end == '\\' ? 2 : 1;
    if (end >= r->end) return NULL;
    char *const text = arena_alloc(r->arena, (size_t)(end - r->at) * 3 + 1), *to = text; // a zero byte becomes three
    while (*r->at != '"') {
        if (*r->at != '\\') {
            if (*r->at) *to++ = *r->at;
            else to = put_utf8(to, 0);
            r->at++;
        } else {
            r->at++;
            if (!read_escape(r, &to)) return NULL;
        }
    }
    r->at++;
    *to = 0;
    return text;
}

static bool read_number(Reader *r, Json *value)
{
    const char *const begin = r->at;
    while (r->at < r->end && *r->at && strchr("+-.0123456789eE", *r->at)) r->at++;
    char *end;
    value->kind = JSON_NUMBER;
    value->text = arena_copy_text(r->arena, begin, (size_t)(r->at - begin));
    value->number = strtod(value->text, &end);
    return r->at > begin && !*end;
}

static bool read_members(Reader *r, Json *value, char close)
{
    Json **last = &value->first;
    if (accept(r, close)) return true;
    do {
        Json *const one = NEW(r->arena, Json, .kind = JSON_NULL);
        if (close == '}' && !((one->name = read_string(r)) && accept(r, ':'))) return false;
        if (!read_value(r, one)) return false;
        *last = one;
        last = &one->next;
    } while (accept(r, ','));
    return accept(r, close);
}

static bool read_nested(Reader *r, Json *value, JsonKind kind)
{
    value->kind = kind;
    r->at++;
    if (++r->nesting > NESTING_MAX) return false;
    const bool ok = read_members(r, value, kind == JSON_LIST ? ']' : '}');
    r->nesting--;
    return ok;
}

static bool read_value(Reader *r, Json *value)
{
    skip_blanks(r);
    if (r->at == r->end) return false;
    switch (*r->at) {
    case '{': return read_nested(r, value, JSON_OBJECT);
    case '[': return read_nested(r, value, JSON_LIST);
    case '"': value->kind = JSON_STRING; return (value->text = read_string(r)) != NULL;
    case 't': value->kind = JSON_TRUE; return read_word(r, "true");
    case 'f': value->kind = JSON_FALSE; return read_word(r, "false");
    case 'n': value->kind = JSON_NULL; return read_word(r, "null");
    default: return read_number(r, value);
    }
}

const Json *json_read(Arena *arena, const char *text, size_t n)
{
    Reader r = { .arena = arena, .at = text, .end = text + n };
    Json *const value = NEW(arena, Json, .kind = JSON_NULL);
    const bool ok = read_value(&r, value);
    skip_blanks(&r);
    return ok && r.at == r.end ? value : NULL;
}

const Json *json_at(const Json *json, const char *path)
{
    while (json && *path) {
        const size_t n = strcspn(path, ".");
        const Json *one = json->kind == JSON_OBJECT ? json->first : NULL;
        while (one && (strlen(one->name) != n || memcmp(one->name, path, n) != 0)) one = one->next;
        json = one;
        path += n + (path[n] == '.');
    }
    return json;
}

const char *json_text(const Json *json, const char *path, const char *otherwise)
{
    const Json *const found = json_at(json, path);
    return found && found->kind == JSON_STRING ? found->text : otherwise;
}

int json_int(const Json *json, const char *path, int otherwise)
{
    const Json *const found = json_at(json, path);
    return found && found->kind == JSON_NUMBER && found->number >= INT_MIN && found->number <= INT_MAX
               ? (int)found->number
               : otherwise;
}
