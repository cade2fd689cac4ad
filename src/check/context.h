// SPDX-License-Identifier: MIT
// context.h - the state of one walk from syntax trees to Tile IR, and what its files offer each other.
//
// There is one walk. It resolves names, types expressions, folds what is known when built and emits Tile IR, all at
// once, because each needs the others: a build-time condition discards code before it is typed, an unrolled loop
// types its body anew for each value, an inlined function is typed for the arguments at hand.
//
// Emission: `out` is the link to fill next. A construct with a body emits its op, points `out` into the body, and
// afterwards back after the op. So whoever moves `out` into a nested block in the middle of a body (an `if` whose
// other side leaves) moves everything that follows up to the end of the enclosing construct with it.
//
// Errors: what is wrong is reported once and becomes poison (VALUE_POISON, ENTITY_POISON, NULL), which every user
// accepts silently.
#ifndef KILN_CHECK_CONTEXT_H
#define KILN_CHECK_CONTEXT_H

#include "base/near.h"
#include "base/table.h"
#include "check/check.h"

// Limits of the language, the same on every target; docs/language.md lists them. What inlining and unrolling make is
// counted while it is made.
enum {
    UNROLL_MAX = 4096,   // steps of one unrolled loop
    OPS_MAX = 100000,    // operations of one kernel
    STEPS_MAX = 1000000, // statements and operands of one kernel: those that emit nothing, too
    PARAMETERS_MAX = 64, // of a function; build parameters of anything
    CALLS_MAX = 64,      // functions inlined into each other
    TILE_ELEMENTS_MAX = 1 << 24,
    LOCAL_ELEMENTS_MAX = 1 << 16, // of all local arrays of a kernel: they lie on a thread's stack
    NESTING_MAX = 200,            // statements in each other, so that no walk of the operations runs deeper
};

// ---- names

typedef enum {
    ENTITY_POISON,
    ENTITY_VALUE,    // stands for an expression: a build parameter, a constant, an unchanging scalar
    ENTITY_VARIABLE, // a scalar variable
    ENTITY_TYPE,
    ENTITY_FUNCTION, // a build parameter that is a function
    ENTITY_BUFFER,   // tensor, tile or view
    ENTITY_ABSENT,   // an optional tensor that is not there
    ENTITY_UNBOUND,  // a shape symbol that only an absent tensor would bind
} EntityKind;

typedef struct Entity Entity;
struct Entity {
    EntityKind kind;
    Name name;
    Span span;
    const char *what; // "a build parameter", "a shape symbol" ...: for messages; NULL: a variable
    Expr *value;
    bool flexible;    // a literal constant, whose type adapts
    bool is_constant; // VALUE declared const, or a build parameter: fits where it is stored
    Var *var;
    DType type;
    Name function; // FUNCTION: of the program, or a built-in one
    Buffer *buffer;
    bool may_read, may_write;   // of buffers and variables, as their declaration says
    bool optional;              // uses stand under present()
    int forall_depth;           // foralls around the declaration
    uint32_t depends;           // VARIABLE declared in a forall: indices its value depends on
    Entity *next;               // the one declared before, in the same function
    const struct NameNode *all; // this one and those before, by name (scope.c)
};

// ---- values

typedef enum {
    VALUE_POISON,
    VALUE_SCALAR,
    VALUE_TYPE,     // bf16 in T == bf16
    VALUE_FUNCTION, // silu in act<silu>(x)
    VALUE_TARGET,   // cuda, cpu, TARGET
    VALUE_REGION,   // a tile, tensor or slice of one
    VALUE_NONE,
    VALUE_TEXT,
    VALUE_VOID,
} ValueKind;

typedef struct Value {
    ValueKind kind;
    Span span;
    Expr *expr;     // SCALAR
    bool flexible;  // SCALAR: made of literals; int, u64 or f64 until an operand or a variable gives the type
    bool is_bits;   // SCALAR: written as bits, which are a number of any type with as many
    DType type;     // TYPE
    Region region;  // REGION
    Entity *entity; // REGION, and SCALAR by its name: the name it was reached by
    const char *text;
    int length;    // TEXT and TARGET
    Name function; // FUNCTION
} Value;

// What can be assigned to: a variable, an element, or a region.
typedef enum { PLACE_POISON, PLACE_VARIABLE, PLACE_ELEMENT, PLACE_REGION } PlaceKind;
typedef struct Place {
    PlaceKind kind;
    Span span;
    Entity *entity;
    Var *var;
    Region region; // ELEMENT too: all subscripts are indices
    DType type;    // of what is stored there
} Place;

// ---- where the walk stands

typedef enum { FRAME_LOOP, FRAME_UNROLLED, FRAME_FORALL, FRAME_PIPELINE } FrameKind;

typedef struct LoopFrame LoopFrame;
struct LoopFrame {
    FrameKind kind;
    Span span;
    int branch_depth;             // run-time conditions around the loop
    int unreached;                // Checker.unreached around the loop
    bool stopped;                 // UNROLLED: a break was met for certain, no further steps
    bool continued;               // UNROLLED: the rest of this step is under a condition that other steps are not
    bool broken;                  // UNROLLED: what follows the loop is not under the conditions of its further steps
    TileOp **start, **step_start; // UNROLLED: before the loop, and of this step
    TileOp **step_base, **base;   // UNROLLED: where the next step, and what follows the loop, are emitted
    Var *left, *skipped;   // UNROLLED: set by a break or a continue (of this step) that is too deep for structure
    int breaks, continues; // UNROLLED: those so far
    LoopFrame *outer;      // within the same function
};

// How a list of statements was left. STRUCTURED ways emit nothing: what must not run is put into the other side of
// the `if` they stand in.
typedef enum {
    ESCAPE_NONE,
    ESCAPE_DEAD, // by an operation: what follows is never reached
    ESCAPE_CONTINUE,
    ESCAPE_BREAK,
    ESCAPE_RETURN, // structured
} Escape;

// Returns, breaks and continues that set a flag so far: those of the function and of the unrolled loop at hand.
typedef struct Flagged {
    int returns, breaks, continues;
} Flagged;

typedef struct Reduction {
    Buffer *root;
    Var *var;
    UpdateOp op;
    TileOp *made;
} Reduction;

typedef struct ForallFrame ForallFrame;
struct ForallFrame {
    TileOp *op;
    Var **vars;
    int n_vars; // its indices
    VEC(Reduction) reductions;
    bool poisoned; // an extent had an error: nothing more is said about writes
    ForallFrame *outer;
};

typedef struct CallFrame CallFrame;
struct CallFrame {
    const Decl *decl;
    Span span;      // of the call
    Var *result;    // NULL: the value is taken from the last statement, or none
    Expr *value;    // the value of the last `return` met
    DType type;     // of the result; NONE: void
    bool failed;    // a `return` had a wrong value
    Var *returned;  // set where a return stands too deep for structure alone; NULL until then
    TileOp **start; // before the body
    Entity *names;  // the caller's
    int branch_depth, depth;
    int unreached; // Checker.unreached around the call
    int flagged;   // returns by `returned` so far
    CallFrame *outer;
};

typedef struct PresentFact PresentFact;
struct PresentFact {
    const Entity *entity;
    PresentFact *next;
};

typedef struct Checker {
    Program *program;
    Arena *arena;
    Diags *diags;
    const CheckOptions *options;
    const Decl *decl;                     // the kernel, operator or specification
    TileKernel *kernel;                   // being made
    Entity *names;                        // visible, newest first; show() adds one
    Table functions, constants, assigned; // found once: of the files, by name; by declaration
    const Decl *body_of;                  // the declaration whose body is being walked
    TileOp **out;
    int n_ops, n_steps;     // so far, of OPS_MAX and STEPS_MAX
    int64_t local_elements; // of LOCAL_ELEMENTS_MAX
    int nesting;            // statements around this place, those of callers too
    PresentFact *present;
    LoopFrame *loop;
    ForallFrame *forall;
    CallFrame *call;
    Escape escape;      // of the list being walked
    int branch_depth;   // conditions and loops at run time around this place
    bool may_have_left; // a return of the kernel stands before this place
    int unreached;      // lists around this place that were left before it: it is checked, and changes nothing
    int guards;         // conditions at run time, those inside expressions too
    uint32_t groups;
    int stage;
    TileOp *pipeline;              // whose body this directly is, for stage labels
    bool sequential;               // reference, verify, case code: f64, no tiles
    bool fills_inputs;             // case code: `in` may be written, random_int exists
    bool has_grid, is_launch_time; // LAUNCH_TIME: before the grid
    bool too_much;                 // OPS_MAX or STEPS_MAX was reported
    int constant_depth;            // file constants being evaluated, one in another
    int errors;                    // reported here; the diagnostics themselves drop what was said before
    bool *binding_used;
    VEC(TileParam) params;
    VEC(TileBind) binds;
    VEC(TileShapeCheck) checks;
    VEC(TileRequire) requires;
    VEC(TileGridDim) grid;
} Checker;

// ---- errors (report.c). All return what poison is for them: false, or a poison Value.
bool check_error(Checker *cx, Span span, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define POISON ((Value){ .kind = VALUE_POISON })
#define FAIL(cx, span, ...) (check_error((cx), (span), __VA_ARGS__), POISON)
void check_note(Checker *cx, Span span, const char *format, ...) __attribute__((format(printf, 3, 4)));
void check_help(Checker *cx, Span span, const char *format, ...) __attribute__((format(printf, 3, 4)));
const char *show_expr(Checker *cx, const Expr *x);          // as text
const char *show_buffer(Checker *cx, const Buffer *buffer); // shared bf16[128][64]
const char *show_region(Checker *cx, const Region *region); // bf16[128][64]
const char *show_value(Checker *cx, const Value *value);    // what it is: "a type", "f32", "bf16[128][64]"
const char *operator_text(Operator op);
const char *update_text(Operator op); // "+=", "min="

// ---- names (scope.c)
Entity *declare(Checker *cx, Entity entity);           // poison if the name is taken (reported)
void find_declarations(Checker *cx);                   // of the program's files, once
void show(Checker *cx, Entity *entity);                // visible from here to the end of its block
Entity *find_entity(Checker *cx, Name name);           // NULL if there is none, nothing reported
Entity *get_entity(Checker *cx, Name name, Span span); // reported and poison if there is none
bool find_file_constant_named(const Checker *cx, Name name);
bool is_known_present(const Checker *cx, const Entity *entity);
void assume_present(Checker *cx, const Ex *cond, bool truth); // what a condition says about present()
Value entity_value(Checker *cx, Entity *entity, Span span);
Value check_name(Checker *cx, const Ex *ex);             // an EX_NAME, read
DType resolve_type(Checker *cx, const TypeRef *ref);     // NONE after an error
const Decl *find_function(const Checker *cx, Name name); // fn or extern
Name called_function(Checker *cx, Name name);            // what a build parameter stands for; else the name itself
bool check_build_count(Checker *cx, const Decl *decl);
bool resolve_build_params(Checker *cx, const Decl *decl, const Binding *bindings, int n);
const char *build_key(Checker *cx, const Decl *decl);
Value check_function_name(Checker *cx, const Ex *ex); // VALUE_FUNCTION, if it is the name of one
Value check_build_value(Checker *cx, const BuildParam *param, const Ex *ex);
Value given_build_value(Checker *cx, const BuildParam *param); // by a binding; poison if none gives it
void declare_build_param(Checker *cx, const BuildParam *param, Value value);
bool is_bound_absent(Checker *cx, Name name);                        // a binding says `none`
bool is_bound_strided(Checker *cx, Name name);                       // or `strided`
bool is_bound_unaligned(Checker *cx, Name name);                     // or `unaligned`
Expr *bound_constant(Checker *cx, Name name, Span span, DType type); // fixed by a binding; NULL if not

// ---- types (types.c)
DType default_float(const Checker *cx); // f32; f64 in sequential code
DType widened(DType type);              // what it computes in; bool gives i32
Value scalar_value(Expr *expr, Span span);
Value settle(Checker *cx, Value v);                                   // a literal gets its own type
Value convert_value(Checker *cx, Value v, DType to);                  // as assignment does; poison stays
Expr *convert_expr(Checker *cx, Value v, DType to);                   // NULL if poison
bool convert_pair(Checker *cx, Value *a, Value *b, const char *what); // usual arithmetic conversions
Expr *truth(Checker *cx, Value v);                                    // as a condition; NULL if poison
Value cast_value(Checker *cx, Value v, DType to);                     // as convert<> does: it need not fit

// ---- expressions (expressions.c)
Value check_expression(Checker *cx, const Ex *ex);
Value check_scalar(Checker *cx, const Ex *ex);                // an error if it is anything else
Expr *check_int(Checker *cx, const Ex *ex, const char *what); // converted to int; NULL if poison
bool check_const_int(Checker *cx, const Ex *ex, const char *what, int64_t *value);
Expr *check_condition(Checker *cx, const Ex *ex); // bool; NULL if poison
Value check_binary(Checker *cx, Span span, Operator op, Value a, Value b);
bool is_argument(const Entity *entity); // a scalar argument of the kernel
bool is_const_bool(const Expr *x, bool *value);
bool is_stable(const Expr *x);                                     // no loads, no variables that change
Expr *snapshot(Checker *cx, Expr *x, const char *name, Span span); // x, or a new variable that holds it

// ---- operations of the source, which algebra makes no constants of (written.c)
Expr *written_unary(Checker *cx, ExprOp op, Expr *x);
Expr *written_binary(Checker *cx, ExprOp op, Expr *x, Expr *y);
Expr *written_select(Checker *cx, Expr *cond, Expr *x, Expr *y);
Expr *written_math(Checker *cx, DType type, MathFn fn, int n, Expr **args);

// ---- built-in functions (builtins.c)
bool is_builtin(Name name);
bool is_builtin_math(Name name); // computes a number from numbers
Value check_builtin(Checker *cx, const Ex *ex, bool is_statement);
int builtin_names(const char **names, int max);

// ---- slices (slices.c)
Place check_place(Checker *cx, const Ex *ex);                                  // to write
Value check_subscript(Checker *cx, const Ex *ex);                              // to read: an element or a region
bool check_region(Checker *cx, const Ex *ex, Entity **entity, Region *region); // names no direction
Expr *load_element(Checker *cx, const Region *region);
Expr **region_subs(Checker *cx, const Region *region); // of an element
bool is_element(const Region *region);
const Ex *subscript_base(const Ex *ex); // what is subscripted; ex itself, if nothing is
bool may_read(Checker *cx, const Entity *entity, Span span);
bool may_write(Checker *cx, const Entity *entity, Span span);
void check_view(Checker *cx, const St *st);
Buffer *new_view(Checker *cx, const char *name, DType type, const Region *slice, const Ex *extents,
                 Span span); // NULL: reported
bool same_shape(Checker *cx, Span span, const Region *dst, const Region *src, const char *what);

// ---- functions (calls.c)
Value check_call(Checker *cx, const Ex *ex, bool is_statement);
void report_no_function(Checker *cx, Name name, Span span);
void check_return(Checker *cx, const St *st);

// ---- who changes what (assigned.c)
bool is_name(const Ex *ex, Name name);
bool statements_assign(Checker *cx, const St *list, Name name);                  // may a statement change this scalar?
bool body_assigns(Checker *cx, const Decl *decl, Name name);                     // may one of the declaration's?
bool declared_is_assigned(Checker *cx, const Decl *decl, const Declarator *one); // may one of the body's?

// ---- what preconditions and assumptions say (facts.c)
void learn_required(Checker *cx, const Expr *cond);
bool every_instance_comes_by(const Checker *cx);   // this place: nothing was left before it
void learn_assumed(Checker *cx, const Expr *cond); // after the T_ASSERT

// ---- limits (limits.c)
bool count_op(Checker *cx, Span span); // false: too many, now or before; reported once
bool count_step(Checker *cx, Span span);
void report_nesting(Checker *cx, Span span);
bool check_nesting(Checker *cx, TileOp *block); // of operations, before the first walk of them

// ---- statements (statements.c, loops.c, assignments.c, matmul.c)
TileOp *emit(Checker *cx, TileOp op); // appends a copy
void check_statements(Checker *cx, const St *list);
void check_body(Checker *cx, const St *list, TileOp **body); // in a scope of its own, into `body`
TileOp **end_of(TileOp **list);                              // the link after the last op
Entity *declare_scalar(Checker *cx, Entity entity, DType type, Expr *value, bool assigned);
void finish_construct(Checker *cx, Flagged before, bool is_loop); // after an op whose body may have set a flag
Flagged flagged_so_far(const Checker *cx);
void leave_by_flag(Checker *cx, Var **flag, const char *name, TileOp **declared_at, Span span);
void check_for(Checker *cx, const St *st);
void check_while(Checker *cx, const St *st);
void check_forall(Checker *cx, const St *st);
void check_pipeline(Checker *cx, const St *st);
void check_break(Checker *cx, const St *st);
void check_continue(Checker *cx, const St *st);
void check_assign(Checker *cx, const St *st);
void check_atomic(Checker *cx, const St *st);
void assign_to(Checker *cx, Place place, Operator op, const Ex *value, Span span);
void check_cumsum(Checker *cx, const Ex *call);
bool is_product(Checker *cx, const Ex *ex);
void check_product(Checker *cx, const Region *dst, Span span, const Ex *ex, bool accumulate);
bool is_atomic_target(Checker *cx, const Place *place, AtomicOp op); // reports

// ---- forall (forall.c)
typedef enum { WRITE_APART, WRITE_REDUCES, WRITE_COLLIDES, WRITE_UNKNOWN } WriteKind;
int forall_depth(const Checker *cx);             // foralls around this place
uint32_t depends_on(Checker *cx, const Expr *x); // bit i: index i of the innermost forall
// Whether the iterations of the innermost forall write different elements. `used`: the indices that take part.
WriteKind classify_write(Checker *cx, const Region *region, uint32_t *used);
bool check_fragment_subs(Checker *cx, const Entity *entity, const Region *region);
void check_forall_uses(Checker *cx, ForallFrame *frame);

// ---- shapes (shapes.c)
bool bind_parameters(Checker *cx, const Decl *decl, bool with_expected); // expected_X for each written X
void check_require(Checker *cx, const St *st);
void check_grid(Checker *cx, const St *st); // grid.c
void finish_parameters(Checker *cx);
bool known_at_launch(const Expr *x); // computable from symbols and scalar arguments

// ---- whole declarations
TileKernel *new_kernel(Checker *cx, const char *name);
Checker *new_checker(Program *program, const Decl *decl, const CheckOptions *options);
void check_cluster(Checker *cx); // cluster.c: after the body
bool report_unused_bindings(Checker *cx);
void report_missing_operator(Program *program, const char *name);
const Decl *find_launchable(const Program *program, const char *name); // kernel or operator
const Decl *signature_of(Program *program, const Decl *decl); // whose parameters a specification means; NULL: reported

#endif
