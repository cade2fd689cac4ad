// SPDX-License-Identifier: MIT
// form.h - what the structs of operators' arguments consist of: made of their headers (forms.sh), in FORM(kiln_gemm_args).
#ifndef KILN_OPS_FORM_H
#define KILN_OPS_FORM_H

#include <stddef.h>

typedef enum FormKind {
    FORM_BYTE,   // a value of 1 byte,
    FORM_INT,    // of 4,
    FORM_WORD,   // of 8
    FORM_TENSOR, // a pointer to one; NULL: absent
    FORM_MEMORY, // a pointer to scratch; its size is the next field
    FORM_WORDS,  // a pointer to so many bytes of whole words that are values; NULL: absent
    FORM_STRUCT, // a pointer to a struct; NULL: absent
} FormKind;

typedef struct Form {
    size_t bytes; // of the struct
    int n;
    const struct FormField *fields;
} Form;

typedef struct FormField {
    short offset, bytes; // bytes: of the words pointed to
    FormKind kind;
    const Form *of; // of the struct pointed to
} FormField;

// That of a struct. There is no header of them all: a new operator's is declared by its use.
#define FORM(type)                                                                                                     \
    ({                                                                                                                 \
        extern const Form form_##type;                                                                                 \
        &form_##type;                                                                                                  \
    })

// A field of a type that is not here does not compile.
// clang-format off
#define FORM_FIELD(type, name)                                                                                          \
    { offsetof(type, name),                                                                                             \
      (short)_Generic(((type *)0)->name, const double *: sizeof(double), const kiln_mla_plan *: sizeof(kiln_mla_plan),   \
                      const kiln_paged_plan *: sizeof(kiln_paged_plan), default: 0),                                     \
      _Generic(((type *)0)->name, bool: FORM_BYTE, int: FORM_INT, unsigned: FORM_INT, int64_t: FORM_WORD,                \
               size_t: FORM_WORD, double: FORM_WORD, const kiln_tensor *: FORM_TENSOR, void *: FORM_MEMORY,              \
               const double *: FORM_WORDS, const kiln_mla_plan *: FORM_WORDS, const kiln_paged_plan *: FORM_WORDS,       \
               const kiln_rotary *: FORM_STRUCT, const kiln_moe_routing *: FORM_STRUCT,                                  \
               const kiln_mla_shape *: FORM_STRUCT),                                                                     \
      _Generic(((type *)0)->name, const kiln_rotary *: &form_kiln_rotary,                                                \
               const kiln_moe_routing *: &form_kiln_moe_routing, const kiln_mla_shape *: &form_kiln_mla_shape,           \
               default: NULL) }
// clang-format on

#endif
