// SPDX-License-Identifier: MIT
// ast.h - the syntax tree of a .tile file, as the parser makes it and `kiln dump --stage=ast` prints it.
//
// The tree is what was written: nothing is resolved, folded or typed. Every node carries its span. Names are
// interned (base/intern.h: one pointer per spelling within an arena), so that they compare with ==.
#ifndef KILN_SYNTAX_AST_H
#define KILN_SYNTAX_AST_H

#include "base/diag.h"
#include "base/intern.h"
#include "ir/dtype.h"

typedef const char *Name; // interned

// ---- expressions

typedef enum {
    EX_INT,
    EX_FLOAT,
    EX_BOOL,
    EX_STRING,
    EX_NAME, // variable, tensor, tile, build parameter, named constant; `cuda`, `cpu`
    EX_TYPE, // an element type where a value may stand: <...>, T == bf16
    EX_NONE, // `none`, an absent optional tensor
    EX_UNARY,
    EX_BINARY,    // BINARY includes @
    EX_SELECT,    // a ? b : c
    EX_CALL,      // f<...>(...); convert<T>(x), transpose(a), ceildiv(a, b), present(A) ...
    EX_SUBSCRIPT, // a[sub]: one subscript each, so A[i][j] nests
    EX_SET,       // { a, b, c }: a list of values in a check
} ExKind;

typedef enum {
    OP_NEG,
    OP_NOT,
    OP_BITNOT, // unary
    OP_MUL,
    OP_DIV,
    OP_MOD,
    OP_ADD,
    OP_SUB,
    OP_SHL,
    OP_SHR, // binary, by falling precedence
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_EQ,
    OP_NE,
    OP_AND,
    OP_XOR,
    OP_OR,
    OP_ANDAND,
    OP_OROR,
    OP_MATMUL, // as strong as *
    OP_MIN,
    OP_MAX,    // only in min= and max=
    OP_ASSIGN, // plain = (statements only)
    OP_COUNT
} Operator;

typedef enum { SUB_INDEX, SUB_ALL, SUB_RANGE } SubKind; // [i]   [:]   [start +: width : step]

typedef struct Ex Ex;
struct Ex {
    ExKind kind;
    Span span;
    Ex *next; // the following argument, set item, extent ...
    union {
        struct {
            uint64_t value;
            bool is_bits;
        } integer; // a literal; sign is an operator; is_bits: hex, binary
        struct {
            double value;
        } real;
        struct {
            bool value;
        } boolean;
        struct {
            const char *text;
            int length;
        } string; // escapes resolved
        struct {
            Name name;
        } name;
        struct {
            DType type;
        } type;
        struct {
            Operator op;
            Ex *a;
        } unary;
        struct {
            Operator op;
            Ex *a, *b;
        } binary;
        struct {
            Ex *cond, *a, *b;
        } select;
        struct {
            Name name;
            Ex *build, *args;
            Span name_span;
            bool has_build;
        } call;
        struct {
            Ex *base;
            SubKind how;
            Ex *start, *width, *step;
        } sub; // INDEX: start only
        struct {
            Ex *items;
        } set;
    };
};

// ---- statements

typedef enum { STORE_SCALAR, STORE_SHARED, STORE_CLUSTER_SHARED, STORE_FRAGMENT, STORE_LOCAL, STORE_TEMP } Storage;

// A type as written: an element type or the name of a type parameter.
typedef struct TypeRef {
    DType type;
    Name name;
    Span span;
} TypeRef; // name NULL: `type`

typedef struct Declarator Declarator; // name[extent][extent] = init
struct Declarator {
    Name name;
    Span span;
    Ex *extents;
    Ex *init;
    Declarator *next;
};

typedef struct IndexVar IndexVar; // i : n   or   i : lo .. hi
struct IndexVar {
    Name name;
    Span span;
    Ex *lo, *hi;
    IndexVar *next;
}; // lo NULL: 0

typedef struct Hint Hint; // warps(8), persistent, cluster(x = 2), swizzle(128), accept(serial, "why")
struct Hint {
    Name name;
    Span span;
    Name argument_name;
    Ex *argument;
    bool has_reason; // the argument is a text beside the name
    Hint *next;
}; // unused parts NULL

typedef struct St St;
typedef enum {
    ST_BLOCK,  // { ... }
    ST_DECL,   // [const] type or storage type, declarators
    ST_VIEW,   // view T name[shape] = slice
    ST_ASSIGN, // target op= value; ++ and -- arrive as += 1 and -= 1
    ST_ATOMIC, // atomic target op= value
    ST_CALL,   // f(...); a kernel call inside an operator
    ST_IF,
    ST_FOR,
    ST_WHILE, // FOR: C's three parts; `unroll for` has a flag
    ST_FORALL,
    ST_PIPELINE,
    ST_STAGE, // `stage 1:` label; what follows it belongs to that stage
    ST_ON,    // on (0, 1) statement
    ST_BREAK,
    ST_CONTINUE,
    ST_RETURN,
    ST_GRID, // grid (x : X, y : Y) hints;
    ST_REQUIRE,
    ST_ASSUME,
    ST_ASSERT,
    ST_PRINT,
    ST_LAYOUT,    // layout(a) = swizzle(128);
    ST_TOLERANCE, // in a check: tolerance C: relative 1e-2, absolute 1e-3;
    ST_INPUT,     // in a check: input A = normal(0, 1);
} StKind;

struct St {
    StKind kind;
    Span span;
    St *next;
    union {
        struct {
            St *body;
        } block;
        struct {
            Storage storage;
            bool is_const;
            TypeRef type;
            Declarator *names;
        } decl;
        struct {
            TypeRef type;
            bool has_type;
            Declarator *name;
        } view; // one or more; init is the slice
        struct {
            Ex *target;
            Operator op;
            Ex *value;
        } assign; // also atomic
        struct {
            Ex *call;
        } call;
        struct {
            Ex *cond;
            St *then, *otherwise;
            bool is_static;
        } branch; // static if
        struct {
            St *init;
            Ex *cond;
            St *step;
            St *body;
            bool unroll;
        } loop; // for
        struct {
            Ex *cond;
            St *body;
        } while_;
        struct {
            IndexVar *indices;
            St *body;
        } forall;
        struct {
            IndexVar *indices;
            Hint *hints;
            St *body;
        } pipeline; // hints: stages = 2
        struct {
            Ex *number;
        } stage;
        struct {
            Ex *groups;
            St *body;
        } on;
        struct {
            Ex *value;
        } return_; // value may be NULL
        struct {
            IndexVar *indices;
            Hint *hints;
        } grid;
        struct {
            Ex *cond;
            Ex *message;
        } require; // also assume, assert
        struct {
            Ex *args;
        } print;
        struct {
            Ex *target;
            Hint *hint;
        } layout;
        struct {
            Name output;
            Span output_span;
            Hint *terms;
        } tolerance; // output NULL: all
        struct {
            Name tensor;
            Span tensor_span;
            Ex *how;
        } input; // how: call, none, or a constant
    };
};

// ---- declarations

typedef enum { BUILD_TYPE, BUILD_INT, BUILD_BOOL, BUILD_FLOAT, BUILD_FN } BuildKind;

typedef struct BuildParam BuildParam; // type T = bf16, int N = 64, fn F = silu
struct BuildParam {
    BuildKind kind;
    Name name;
    Span span;
    Ex *value; // the default, or NULL
    Ex *range; // int BM = {128, 64, 256}: all values that `kiln tune` tries, the default first; NULL: not to be tuned
    BuildParam *next;
};

typedef enum { MODE_SCALAR, MODE_IN, MODE_OUT, MODE_INOUT } Mode;

typedef struct Param Param; // [optional] [in|out|inout] [strided] T A[M][K]
struct Param {
    Name name;
    Span span;
    Mode mode;
    bool optional, strided;
    TypeRef type;
    Ex *extents; // extents NULL: a scalar (of a fn: also `out`/`inout` scalars)
    Param *next;
};

typedef enum {
    DECL_IMPORT, // import "softmax.tile"
    DECL_CONST,  // const int N = 4;  at file level: `body` is the ST_DECL, `name` its first
    DECL_KERNEL,
    DECL_FN,
    DECL_OPERATOR,
    DECL_EXTERN,    // extern cuda fn f32 name(...);
    DECL_REFERENCE, // reference name [<...>(...)] { }   without lists: the kernel's own
    DECL_CHECK,     // check name<T = {bf16, f32}>(M = {1, 17}, scale = 0.5) { }
    DECL_VERIFY,    // verify name { }
} DeclKind;

typedef struct NamedValue NamedValue; // M = {1, 17}
struct NamedValue {
    Name name;
    Span span;
    Ex *value;
    NamedValue *next;
};

typedef struct Decl Decl;
struct Decl {
    DeclKind kind;
    Span span; // of the whole declaration
    Name name;
    Span name_span; // IMPORT: the path, as written; NULL after an error
    Decl *next;
    TypeRef result; // fn: DTYPE_NONE for void
    BuildParam *build;
    bool has_build;
    Param *params;
    bool has_params;
    NamedValue *build_values, *values; // CHECK
    St *body;                          // a list of statements; NULL for extern
    Name target;                       // extern: cuda or cpu
};

typedef struct Module {
    const Source *source;
    Decl *decls;
} Module;

#endif
