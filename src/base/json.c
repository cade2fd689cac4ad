// SPDX-License-Identifier: MIT
// json.c - strings of JSON, which are Unicode: paths and messages need not be.
#include "base/json.h"
#include "base/arena.h"

#include <stdbool.h>

// The bytes of the character at `at`, at most four; 0 if they are no UTF-8: cut off, longer than need be, a surrogate, or
// past the last character.
static int utf8_length(const unsigned char *at)
{
    static const struct {
        unsigned char mask, lead;
        unsigned least;
    } forms[] = {
        { 0x80, 0x00, 0 },
        { 0xe0, 0xc0, 0x80 },
        { 0xf0, 0xe0, 0x800 },
        { 0xf8, 0xf0, 0x10000 },
    };
    for (int i = 0; i < COUNT(forms); i++) {
        unsigned character = (unsigned char)(at[0] & ~forms[i].mask);
        if ((at[0] & forms[i].mask) != forms[i].lead) continue;
        for (int k = 1; k <= i; k++) {
            if ((at[k] & 0xc0) != 0x80) // the text's end, too
                return 0;
            character = character << 6 | (at[k] & 0x3f);
        }
        const bool surrogate = character >= 0xd800 && character <= 0xdfff;
        return character < forms[i].least || surrogate || character > 0x10ffff ? 0 : i + 1;
    }
    return 0;
}

void print_json_text(FILE *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    putc('"', out);
    while (*at) {
        const int n = utf8_length(at);
        if (n == 0) fputs("\\ufffd", out);
        else if (*at == '"' || *at == '\\') fprintf(out, "\\%c", *at);
        else if (*at == '\n') fputs("\\n", out);
        else if (*at < 0x20 || *at == 0x7f) fprintf(out, "\\u%04x", *at);
        else fwrite(at, 1, (size_t)n, out);
        at += n ? n : 1;
    }
    putc('"', out);
}
