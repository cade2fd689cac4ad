// SPDX-License-Identifier: MIT
// json_read.h - JSON as a tree in an arena.
#ifndef KILN_BASE_JSON_READ_H
#define KILN_BASE_JSON_READ_H

#include "base/arena.h"

#include <stdbool.h>

typedef enum { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_LIST, JSON_OBJECT } JsonKind;

typedef struct Json {
    JsonKind kind;
    const char *name; // of a member of an object
    const char *text; // STRING: its UTF-8, a zero byte in it becomes U+FFFD; NUMBER: as it was written
    double number;
    struct Json *first, *next; // LIST, OBJECT: what is in it; the one after this
} Json;

// NULL: it is not JSON, or nested deeper than 64 levels.
const Json *json_read(Arena *arena, const char *text, size_t n);
// The member of an object, by names with dots between them: "params.textDocument.uri". NULL: there is none.
const Json *json_at(const Json *json, const char *path);
const char *json_text(const Json *json, const char *path, const char *otherwise);
int json_int(const Json *json, const char *path, int otherwise);

#endif
