// SPDX-License-Identifier: MIT
// json.h - text in JSON: any bytes as a string that every reader takes.
#ifndef KILN_BASE_JSON_H
#define KILN_BASE_JSON_H

#include <stdio.h>

void print_json_text(FILE *out, const char *text); // with its quotes; what is no UTF-8 becomes U+FFFD

#endif
