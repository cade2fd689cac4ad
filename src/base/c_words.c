// SPDX-License-Identifier: MIT
// c_words.c - the words, sorted by language and header.
#include "base/c_words.h"
#include "base/arena.h"

// Those that are words of Kiln's language as well cannot be names in a source; they stand here for names of other places.
static const char *const words[] = {
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char", "class",
    "co_await", "co_return", "co_yield", "compl", "concept", "const", "const_cast", "consteval", "constexpr", "constinit",
    "continue", "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum", "explicit", "export",
    "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int", "long", "main", "mutable", "namespace", "new",
    "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected", "public", "register",
    "reinterpret_cast", "requires", "restrict", "return", "short", "signed", "sizeof", "static", "static_assert",
    "static_cast", "struct", "switch", "template", "this", "thread_local", "throw", "true", "try", "typedef", "typeid",
    "typename", "typeof", "typeof_unqual", "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "while",
    "xor", "xor_eq",
    "_Alignas", "_Alignof", "_Atomic", "_Bool", "_Complex", "_Generic", "_Imaginary", "_Noreturn", "_Pragma",
    "_Static_assert", "_Thread_local", "__alignof__", "__asm", "__asm__", "__attribute__", "__builtin_offsetof",
    "__builtin_types_compatible_p", "__builtin_va_arg", "__const", "__extension__", "__inline", "__inline__", "__label__",
    "__restrict", "__restrict__", "__signed__", "__typeof", "__typeof__", "__volatile__",
    "__align__", "__cluster_dims__", "__constant__", "__device__", "__forceinline__", "__global__", "__grid_constant__",
    "__host__", "__launch_bounds__", "__managed__", "__noinline__", "__shared__",
};

static const char *const header_names[] = {
    "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "intptr_t", "uintptr_t",
    "intmax_t", "uintmax_t", "size_t", "ptrdiff_t", "ssize_t", "max_align_t", "NULL", "offsetof",                      // stdint, stddef
    "INT8_MAX", "INT16_MAX", "INT32_MAX", "INT64_MAX", "UINT8_MAX", "UINT16_MAX", "UINT32_MAX", "UINT64_MAX", "SIZE_MAX",
    "INT_MAX", "INT_MIN", "LONG_MAX", "LONG_MIN", "CHAR_BIT",                                                          // limits
    "EOF", "FILE", "BUFSIZ", "stdin", "stdout", "stderr", "errno", "assert", "NDEBUG", "I", "complex", "imaginary",
    "INFINITY", "NAN", "HUGE_VAL", "M_PI", "M_E", "isnan", "isinf", "signbit", "FLT_MAX", "FLT_EPSILON", "DBL_MAX",    // math, float
    "EXIT_SUCCESS", "EXIT_FAILURE", "RAND_MAX", "va_list", "va_arg", "va_end", "va_start", "linux", "unix",
};

static bool is_among(const char *const *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(list[i], name) == 0) return true;
    return false;
}

bool is_c_word(const char *name) { return is_among(words, COUNT(words), name); }
bool is_c_header_name(const char *name) { return is_among(header_names, COUNT(header_names), name); }
