// SPDX-License-Identifier: MIT
// c_words.h - names that C, C++ and CUDA, or their common headers, keep for themselves.
#ifndef KILN_BASE_C_WORDS_H
#define KILN_BASE_C_WORDS_H

#include <stdbool.h>

bool is_c_word(const char *name);        // a reserved word: never a name of a function or a variable
bool is_c_header_name(const char *name); // a type or macro of the headers that C programs include
#endif
