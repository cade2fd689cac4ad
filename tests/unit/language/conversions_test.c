// SPDX-License-Identifier: MIT
// conversions_test.c - every type converted to every other, on every path that converts, against the rules in plain C:
// to floating point to nearest even, f16 and bf16 overflow to infinity, smaller ones saturate, e8m0 at both ends; floating to integer truncates
// and saturates, NaN gives 0; integer to narrower integer keeps the low bits.
#include "run.h"

typedef enum { FLOATING, SIGNED, UNSIGNED, TRUTH, POWER } Kind; // POWER: of two, an exponent alone
typedef struct Type {
    const char *name;
    kiln_type type;
    int bits;
    Kind kind;
    int mantissa, bias;
    bool infinity, nan;
} Type;

// clang-format off
static const Type types[] = {
    { "f64", KILN_F64, 64, FLOATING, 52, 1023, true, true },  { "f32", KILN_F32, 32, FLOATING, 23, 127, true, true },
    { "f16", KILN_F16, 16, FLOATING, 10, 15, true, true },    { "bf16", KILN_BF16, 16, FLOATING, 7, 127, true, true },
    { "e4m3", KILN_E4M3, 8, FLOATING, 3, 7, false, true },    { "e5m2", KILN_E5M2, 8, FLOATING, 2, 15, true, true },
    { "e2m1", KILN_E2M1, 4, FLOATING, 1, 1, false, false },
#define INTEGER(name, type, bits, kind) { name, type, bits, kind, 0, 0, false, false }
    INTEGER("i64", KILN_I64, 64, SIGNED),   INTEGER("i32", KILN_I32, 32, SIGNED),   INTEGER("i16", KILN_I16, 16, SIGNED),
    INTEGER("i8", KILN_I8, 8, SIGNED),      INTEGER("i4", KILN_I4, 4, SIGNED),      INTEGER("i2", KILN_I2, 2, SIGNED),
    INTEGER("u64", KILN_U64, 64, UNSIGNED), INTEGER("u32", KILN_U32, 32, UNSIGNED), INTEGER("u16", KILN_U16, 16, UNSIGNED),
    INTEGER("u8", KILN_U8, 8, UNSIGNED),    INTEGER("u4", KILN_U4, 4, UNSIGNED),    INTEGER("u2", KILN_U2, 2, UNSIGNED),
    INTEGER("bool", KILN_BOOL, 8, TRUTH),
    { "e8m0", KILN_E8M0, 8, POWER, 0, 127, false, true },
};
// clang-format on
enum { TYPES = sizeof types / sizeof types[0], PACK = 4096 };

// A number exactly as it is: floating, or an integer of 65 bits.
typedef struct Number {
    bool floating;
    double real;
    __int128 integer;
} Number;

static uint64_t get_bits(const Type *t, const void *data, int64_t i)
{
    uint64_t word = 0;
    if (t->bits < 8) return ((const uint8_t *)data)[i * t->bits / 8] >> (i * t->bits % 8) & ((1u << t->bits) - 1);
    memcpy(&word, (const char *)data + i * (t->bits / 8), (size_t)t->bits / 8);
    return word;
}

static void set_bits(const Type *t, void *data, int64_t i, uint64_t word)
{
    if (t->bits >= 8) {
        memcpy((char *)data + i * (t->bits / 8), &word, (size_t)t->bits / 8);
        return;
    }
    uint8_t *const byte = (uint8_t *)data + i * t->bits / 8;
    const int shift = (int)(i * t->bits % 8);
    *byte = (uint8_t)((*byte & ~(((1 << t->bits) - 1) << shift)) | (int)(word & ((1u << t->bits) - 1)) << shift);
}

static double decode(const Type *t, uint64_t word)
{
    const int exponent_bits = t->bits - 1 - t->mantissa, ones = (1 << exponent_bits) - 1;
    const int exponent = (int)(word >> t->mantissa & (uint64_t)ones);
    const uint64_t fraction = word & ((UINT64_C(1) << t->mantissa) - 1);
    const double sign = word >> (t->bits - 1) & 1 ? -1 : 1;
    if (exponent == ones && t->infinity) return fraction ? NAN : sign * INFINITY;
    if (exponent == ones && t->nan && fraction == (UINT64_C(1) << t->mantissa) - 1) return NAN;
    if (exponent == 0) return sign * ldexp((double)fraction, 1 - t->bias - t->mantissa);
    return sign * ldexp((double)(fraction + (UINT64_C(1) << t->mantissa)), exponent - t->bias - t->mantissa);
}

static Number number_of(const Type *t, uint64_t word)
{
    if (t->kind == POWER) return (Number){ .floating = true, .real = word == 255 ? NAN : ldexp(1, (int)word - 127) };
    if (t->kind == FLOATING) return (Number){ .floating = true, .real = decode(t, word) };
    if (t->kind == SIGNED) return (Number){ .integer = (int64_t)(word << (64 - t->bits)) >> (64 - t->bits) };
    return (Number){ .integer = t->kind == TRUTH ? word != 0 : word };
}

static double largest_of(const Type *t)
{
    const uint64_t ones = (UINT64_C(1) << (t->bits - 1)) - 1; // all but the sign
    return decode(t, t->infinity ? (ones >> t->mantissa << t->mantissa) - 1 : t->nan ? ones - 1 : ones);
}

// To nearest even, in the format's own last places; 113 bits hold every number and its rounding error.
static double round_to(const Type *t, Number x)
{
    const __float128 value = x.floating ? (__float128)x.real : (__float128)x.integer;
    if (x.floating && (isnan(x.real) || x.real == 0)) return x.real;
    const double limit = largest_of(t);
    if (x.floating && isinf(x.real)) return t->bits > 8 ? x.real : copysign(limit, x.real);
    __float128 size = value < 0 ? -value : value, unit = 1;
    while (size / unit >= 2) unit *= 2;
    while (size / unit < 1) unit /= 2;
    const __float128 least = ldexp(1, 1 - t->bias);
    unit = unit < least ? least : unit;
    for (int i = 0; i < t->mantissa; i++) unit /= 2;
    const __float128 places = size / unit;
    uint64_t whole = (uint64_t)places;
    const __float128 rest = places - whole;
    whole += rest > 0.5 || (rest == 0.5 && whole % 2 == 1);
    const __float128 rounded = whole * unit;
    const double result = rounded > limit ? (t->bits > 8 ? INFINITY : limit) : (double)rounded;
    return value < 0 ? -result : result;
}

// The nearest power of two, of two the one with the even code; nothing is below 2^-127 or above 2^127.
static double nearest_power(Number x)
{
    const __float128 value = x.floating ? (__float128)x.real : (__float128)x.integer;
    if (x.floating && isnan(x.real)) return NAN;
    int code = 0;
    while (code < 254) {
        const __float128 middle = (__float128)1.5 * ldexp(1, code - 127);
        if (value < middle || (value == middle && code % 2 == 0)) break;
        code++;
    }
    return ldexp(1, code - 127);
}

static __int128 to_integer(const Type *t, Number x)
{
    const __int128 one = 1, low = t->kind == SIGNED ? -(one << (t->bits - 1)) : 0;
    const __int128 high = t->kind == SIGNED ? (one << (t->bits - 1)) - 1 : (one << t->bits) - 1;
    if (t->kind == TRUTH) return x.floating ? x.real != 0 : x.integer != 0;
    if (!x.floating) {
        const uint64_t word = (uint64_t)x.integer;
        return t->kind == SIGNED ? (int64_t)(word << (64 - t->bits)) >> (64 - t->bits)
                                 : (__int128)(word & (t->bits == 64 ? ~UINT64_C(0) : (UINT64_C(1) << t->bits) - 1));
    }
    if (isnan(x.real)) return 0;
    if (x.real <= (double)low) return low;
    if (x.real >= (double)high) return high;
    return (__int128)x.real;
}

static bool is_right(const Type *to, Number from, uint64_t word, char *expected)
{
    const Number got = number_of(to, word);
    if (to->kind == FLOATING || to->kind == POWER) {
        double right = to->kind == POWER ? nearest_power(from) : round_to(to, from);
        if (!to->nan && isnan(right)) right = largest_of(to);
        sprintf(expected, "%.17g, expected %.17g", got.real, right);
        return same_double(got.real, right);
    }
    const __int128 right = to_integer(to, from);
    sprintf(expected, "%" PRId64 ", expected %" PRId64, (int64_t)got.integer, (int64_t)right);
    return got.integer == right;
}

// ---- the numbers to convert

static uint64_t f64_bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, 8);
    return u;
}
static uint32_t f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

// Every value of the narrower formats, the middles between neighbours, and the numbers just beside them.
static uint64_t floating_edge(const Type *t, int64_t i)
{
    static const double ends[] = { 0,
                                   0.5,
                                   1.5,
                                   2.5,
                                   0.99999999,
                                   127.5,
                                   128,
                                   255.5,
                                   32767.5,
                                   65519,
                                   65519.99,
                                   65520,
                                   65536,
                                   2147483520.0,
                                   2147483647.5,
                                   2147483648.0,
                                   4294967040.0,
                                   4294967295.5,
                                   4294967296.0,
                                   9223372036854774784.0,
                                   9223372036854775808.0,
                                   18446744073709549568.0,
                                   18446744073709551616.0,
                                   3.4028234e38,
                                   3.40282356779733661637e38,
                                   3.3961775292304957e38,
                                   1e300,
                                   7.0064923216240854e-46,
                                   1e-46,
                                   1e-320,
                                   INFINITY };
    const double sign = i & 1 ? -1 : 1;
    double x;
    i /= 2;
    if (i < COUNT_OF(ends)) x = ends[i];
    else if (i == COUNT_OF(ends)) x = NAN;
    else {
        const Type *const narrow = &types[2 + i % 5];
        const uint64_t n = (UINT64_C(1) << (narrow->bits - 1)) - 2, k = bits_of((uint64_t)i) % n;
        const double a = decode(narrow, k), b = decode(narrow, k + 1);
        const int place = (int)(bits_of((uint64_t)i + 77) % 5);
        if (isnan(a) || isnan(b) || isinf(b)) x = 1;
        else
            x = place == 0   ? a
                : place == 1 ? (a + b) / 2
                : place == 2 ? nextafter((a + b) / 2, INFINITY)
                : place == 3 ? (double)nextafterf((float)((a + b) / 2), 0)
                             : ldexp((double)(bits_of((uint64_t)i) >> 11), (int)(i % 140) - 110);
    }
    x *= sign;
    return t->bits == 64 ? f64_bits(x) : f32_bits((float)x);
}

static uint64_t integer_edge(const Type *t, int64_t i)
{
    const uint64_t noise = bits_of((uint64_t)i);
    const int shift = (int)(noise % (unsigned)t->bits);
    switch (i % 4) {
    case 0: return (UINT64_C(1) << shift) + (noise >> 32) % 3 - 1;
    case 1: return 0 - ((UINT64_C(1) << shift) + (noise >> 32) % 3 - 1);
    case 2: return noise >> 8;
    default: return noise >> shift | UINT64_C(1) << (63 - shift); // halves of last places of floats among them
    }
}

static uint64_t number_to_convert(const Type *t, int64_t i)
{
    if (t->kind == TRUTH) return (uint64_t)i & 1;
    if (t->bits <= 16) return (uint64_t)i * (t->bits == 16 ? 65536 / PACK : 1) + (t->bits == 16 ? (uint64_t)i % 16 : 0);
    return t->kind == FLOATING ? floating_edge(t, i) : integer_edge(t, i);
}

// ---- on every path, in one kernel for each type: outputs Y0, Y1 ... (and Z0 ...) for each type it becomes

typedef struct Path {
    const char *name, *outputs, *before, *each, *after;
    int n_outputs;
} Path;

static const Path paths[] = {
    // a tensor into a tile of another type, a tile into a tensor of another type
    { "slices", ", out B$ Y$[N], out B$ Z$[N]", "grid (n : ceildiv(N, 256));\nshared A u[256] = X[n*256 +: 256];\n",
      "{ fragment B$ t[256] = X[n*256 +: 256]; Y$[n*256 +: 256] = t; Z$[n*256 +: 256] = u; }\n", "", 2 },
    { "elements", ", out B$ Y$[N]", "grid (n : ceildiv(N, 256));\nshared A a[256] = X[n*256 +: 256];\n",
      "{ shared B$ b[256]; forall (i : 256) b[i] = a[i]; Y$[n*256 +: 256] = b; }\n", "", 1 },
    { "scalars", ", out B$ Y$[N]", "grid ();\nfor (int n = 0; n < N; n++) {\nA a = X[n];\n",
      "Y$[n] = convert<B$>(a);\n", "}\n", 1 },
};

static char *write_with(char *at, const char *text, int number) // $ becomes the number
{
    for (; *text; text++) at += *text == '$' ? sprintf(at, "%d", number) : sprintf(at, "%c", *text);
    return at;
}

static char *kernel_text(const Path *path)
{
    static char text[1 << 16];
    char *at = text + sprintf(text, "kernel %s<type A = f32", path->name);
    for (int to = 0; to < TYPES; to++) at += sprintf(at, ", type B%d = %s", to, types[to].name);
    at += sprintf(at, ">(in A X[N]");
    for (int to = 0; to < TYPES; to++) at = write_with(at, path->outputs, to);
    at += sprintf(at, ")\n{\n%s", path->before);
    for (int to = 0; to < TYPES; to++) at = write_with(at, path->each, to);
    sprintf(at, "%s}\n", path->after);
    return text;
}

static void compare(const char *path, const Type *a, const Type *b, const char *x, const char *y)
{
    char expected[128];
    for (int64_t i = 0; i < PACK; i++) {
        const Number number = number_of(a, get_bits(a, x, i));
        if (a == b && get_bits(a, x, i) == get_bits(b, y, i)) continue; // an infinity of e5m2 among them
        if (!is_right(b, number, get_bits(b, y, i), expected))
            fail_msg("%s, %s to %s: element %d, %.17g (%" PRId64 "), became %s", path, a->name, b->name, (int)i,
                     number.real, (int64_t)number.integer, expected);
    }
}

static void convert_all(const Path *path, int from)
{
    static char x[PACK * 8], out[2 * TYPES][PACK * 8];
    const Type *const a = &types[from];
    char bindings[64];
    Arg args[2 * TYPES + 1];
    memset(x, 0, sizeof x);
    memset(out, 0x5a, sizeof out);
    for (int64_t i = 0; i < PACK; i++) set_bits(a, x, i, number_to_convert(a, i));
    sprintf(bindings, "A=%s", a->name);
    const int n = path->n_outputs;
    args[0] = T(x, a->type, PACK);
    for (int i = 0; i < n * TYPES; i++) args[1 + i] = T(out[i], types[i / n].type, PACK);
    kiln_kernel *const kernel = build(kernel_text(path), path->name, bindings);
    launch(kernel, args, 1 + n * TYPES);
    kiln_kernel_free(kernel);
    for (int i = 0; i < n * TYPES; i++) compare(path->name, a, &types[i / n], x, out[i]);
}

// Each source type is a kernel of its own: all of them with KILN_EXHAUSTIVE, else every fifth, another fifth by each path.
static void convert_some(int path)
{
    const int step = getenv("KILN_EXHAUSTIVE") ? 1 : 5;
    for (int a = step == 1 ? 0 : path; a < TYPES; a += step) convert_all(&paths[path], a);
}

static void slices(void **state) { convert_some(0); }
static void elements(void **state) { convert_some(1); }
static void scalars(void **state) { convert_some(2); }

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(slices), cmocka_unit_test(elements),
                                        cmocka_unit_test(scalars) };
    return cmocka_run_group_tests_name("conversions", tests, NULL, NULL);
}
