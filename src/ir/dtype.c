// SPDX-License-Identifier: MIT
// dtype.c - the table of element types.
#include "ir/dtype.h"

#include <assert.h>
#include <string.h>

enum { LONGEST_NAME = 4 };

// Elements narrower than 32 bits are widened before they are computed with: floats to f32, integers to i32.
// What C has no type for is stored as the unsigned integer of its size.
// clang-format off
const DTypeInfo dtype_info[] = {  // name    bits  class           computes in  stored in C
    [DTYPE_NONE] = { "none",   0, CLASS_NONE,     DTYPE_NONE, "void"     },
    [DTYPE_F64]  = { "f64",   64, CLASS_FLOAT,    DTYPE_F64,  "double"   },
    [DTYPE_F32]  = { "f32",   32, CLASS_FLOAT,    DTYPE_F32,  "float"    },
    [DTYPE_TF32] = { "tf32",  32, CLASS_FLOAT,    DTYPE_F32,  "float"    },
    [DTYPE_F16]  = { "f16",   16, CLASS_FLOAT,    DTYPE_F32,  "uint16_t" },
    [DTYPE_BF16] = { "bf16",  16, CLASS_FLOAT,    DTYPE_F32,  "uint16_t" },
    [DTYPE_E4M3] = { "e4m3",   8, CLASS_FLOAT,    DTYPE_F32,  "uint8_t"  },
    [DTYPE_E5M2] = { "e5m2",   8, CLASS_FLOAT,    DTYPE_F32,  "uint8_t"  },
    [DTYPE_E2M1] = { "e2m1",   4, CLASS_FLOAT,    DTYPE_F32,  "uint8_t"  },
    [DTYPE_INT]  = { "int",   64, CLASS_SIGNED,   DTYPE_INT,  "int64_t"  },
    [DTYPE_I64]  = { "i64",   64, CLASS_SIGNED,   DTYPE_I64,  "int64_t"  },
    [DTYPE_I32]  = { "i32",   32, CLASS_SIGNED,   DTYPE_I32,  "int32_t"  },
    [DTYPE_I16]  = { "i16",   16, CLASS_SIGNED,   DTYPE_I32,  "int16_t"  },
    [DTYPE_I8]   = { "i8",     8, CLASS_SIGNED,   DTYPE_I32,  "int8_t"   },
    [DTYPE_I4]   = { "i4",     4, CLASS_SIGNED,   DTYPE_I32,  "uint8_t"  },
    [DTYPE_I2]   = { "i2",     2, CLASS_SIGNED,   DTYPE_I32,  "uint8_t"  },
    [DTYPE_U64]  = { "u64",   64, CLASS_UNSIGNED, DTYPE_U64,  "uint64_t" },
    [DTYPE_U32]  = { "u32",   32, CLASS_UNSIGNED, DTYPE_U32,  "uint32_t" },
    [DTYPE_U16]  = { "u16",   16, CLASS_UNSIGNED, DTYPE_I32,  "uint16_t" },
    [DTYPE_U8]   = { "u8",     8, CLASS_UNSIGNED, DTYPE_I32,  "uint8_t"  },
    [DTYPE_U4]   = { "u4",     4, CLASS_UNSIGNED, DTYPE_I32,  "uint8_t"  },
    [DTYPE_U2]   = { "u2",     2, CLASS_UNSIGNED, DTYPE_I32,  "uint8_t"  },
    [DTYPE_BOOL] = { "bool",   8, CLASS_BOOL,     DTYPE_BOOL, "uint8_t"  },
    [DTYPE_E8M0] = { "e8m0",   8, CLASS_FLOAT,    DTYPE_F32,  "uint8_t"  },
};
// clang-format on
static_assert(sizeof(dtype_info) / sizeof(dtype_info[0]) == DTYPE_COUNT, "one row per element type");

static bool is_called(DType type, const char *name, size_t length)
{
    const char *const own = dtype_info[type].name;
    return *own == *name && strlen(own) == length && memcmp(own, name, length) == 0;
}

DType dtype_find(const char *name, int length)
{
    for (int t = DTYPE_NONE + 1; t < DTYPE_COUNT && length > 0 && length <= LONGEST_NAME; t++)
        if (is_called((DType)t, name, (size_t)length)) return (DType)t;
    return DTYPE_NONE;
}
