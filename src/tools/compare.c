// SPDX-License-Identifier: MIT
// compare.c - whether what a kernel wrote is what the reference wrote.
#include "tools/cases.h"

#include <inttypes.h>
#include <math.h>

// Where a check says nothing: a few last places of the type, relative to the element, and absolute for results of the order
// of 1 or less; for larger ones in units of their root mean square, so that long sums are not blamed for their length.
static const double default_tolerance[DTYPE_COUNT] = {
    [DTYPE_F64] = 1e-12, [DTYPE_F32] = 1e-5,  [DTYPE_TF32] = 2e-3, [DTYPE_F16] = 2e-3, [DTYPE_BF16] = 1.6e-2,
    [DTYPE_E4M3] = 0.13, [DTYPE_E5M2] = 0.26, [DTYPE_E2M1] = 0.5,  [DTYPE_E8M0] = 1,
};

CaseTolerance tolerance_for(const CheckCase *check, int param, DType type)
{
    CaseTolerance t = {
        .param = param, .exact = !dtype_is_float(type), .relative = -1, .absolute = -1, .cosine = -1, .outliers = -1
    };
    // Said for all outputs first, then what is said for this one.
    for (int pass = 0; check && pass < 2; pass++)
        for (int i = 0; i < check->n_tolerances; i++) {
            const CaseTolerance *const said = &check->tolerances[i];
            if (said->param != (pass ? param : -1)) continue;
            // Among an operator's outputs there are integers, which a tolerance for all does not mean.
            if (pass == 0 && !dtype_is_float(type) && !said->exact) continue;
            t = *said;
            t.param = param;
        }
    if (t.exact) return t;
    if (t.relative < 0 && t.absolute < 0 && t.cosine < 0)
        t.relative = t.absolute = default_tolerance[type], t.by_type = true;
    else if (t.relative < 0 && t.absolute < 0) t.absolute = INFINITY; // only the cosine is asked for
    t.relative = t.relative < 0 ? 0 : t.relative;
    t.absolute = t.absolute < 0 ? 0 : t.absolute;
    return t;
}

static bool agrees(DType type, const CaseTolerance *t, const void *got, const void *expected, int64_t i)
{
    if (!dtype_is_float(type) && t->exact) return element_get_int(type, got, i) == element_get_int(type, expected, i);
    const double x = element_get(type, got, i), e = element_get(type, expected, i);
    if (isnan(x) || isnan(e)) return isnan(x) && isnan(e);
    if (isinf(x) || isinf(e)) return x == e;
    return t->exact ? x == e : fabs(x - e) <= t->absolute + t->relative * fabs(e);
}

typedef struct Verdict {
    int64_t wrong, first, worst, farthest; // farthest: of finite ones, right or wrong
    double worst_error, distance;
    double xx, ee, xe; // for the cosine
} Verdict;

static Verdict look(const kiln_tensor *got, const kiln_tensor *expected, const CaseTolerance *t)
{
    const DType type = dtype_of_type(got->type);
    const int64_t n = tensor_elements(got);
    Verdict v = { .first = -1, .worst = -1, .farthest = -1 };
    for (int64_t i = 0; i < n; i++) {
        const double x = element_get(type, got->data, i), e = element_get(type, expected->data, i);
        if (isfinite(x) && isfinite(e)) v.xx += x * x, v.ee += e * e, v.xe += x * e;
        if (isfinite(x) && isfinite(e) && (v.farthest < 0 || fabs(x - e) > v.distance))
            v.farthest = i, v.distance = fabs(x - e);
        if (agrees(type, t, got->data, expected->data, i)) continue;
        const double error = isfinite(x) && isfinite(e) ? fabs(x - e) : INFINITY;
        if (v.wrong++ == 0) v.first = i;
        if (v.worst < 0 || error > v.worst_error) v.worst = i, v.worst_error = error;
    }
    return v;
}

static void print_index(const kiln_tensor *tensor, int64_t index, char *out, size_t n)
{
    int64_t at[KILN_MAX_RANK];
    size_t used = 0;
    for (int d = tensor->rank - 1; d >= 0; d--) {
        at[d] = index % tensor->shape[d];
        index /= tensor->shape[d];
    }
    out[0] = 0;
    for (int d = 0; d < tensor->rank && used < n; d++)
        used += (size_t)snprintf(out + used, n - used, "[%" PRId64 "]", at[d]);
}

static void print_element(const kiln_tensor *tensor, int64_t i, char *out, size_t n)
{
    const DType type = dtype_of_type(tensor->type);
    const double value = element_get(type, tensor->data, i);
    if (isnan(value)) snprintf(out, n, "nan"); // its sign means nothing
    else if (dtype_is_float(type)) snprintf(out, n, "%.9g", value);
    else snprintf(out, n, "%" PRId64, element_get_int(type, tensor->data, i));
}

static size_t print_place(const char *what, const char *name, const kiln_tensor *got, const kiln_tensor *expected,
                          int64_t i, char *out, size_t n)
{
    char index[128], x[40], e[40];
    print_index(got, i, index, sizeof index);
    print_element(got, i, x, sizeof x);
    print_element(expected, i, e, sizeof e);
    const int used = snprintf(out, n, "%s: %s%s is %s, expected %s", what, name, index, x, e);
    return used < (int)n ? (size_t)used : n - 1;
}

static double root_mean_square(const kiln_tensor *tensor)
{
    const DType type = dtype_of_type(tensor->type);
    const int64_t n = tensor_elements(tensor);
    double sum = 0;
    int64_t finite = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = element_get(type, tensor->data, i);
        if (isfinite(x)) sum += x * x, finite++;
    }
    return finite ? sqrt(sum / (double)finite) : 0;
}

bool compare_tensors(const char *name, const kiln_tensor *got, const kiln_tensor *expected, const CaseTolerance *said,
                     char *problem, size_t bytes)
{
    const int64_t n = tensor_elements(got);
    CaseTolerance tolerance = *said;
    if (said->by_type) tolerance.absolute *= fmax(1, root_mean_square(expected));
    const CaseTolerance *const t = &tolerance;
    const Verdict v = look(got, expected, t);
    const double allowed = t->outliers > 0 ? floor(t->outliers * (double)n) : 0;
    if ((double)v.wrong > allowed) {
        size_t used =
            (size_t)snprintf(problem, bytes, "%s: %" PRId64 " of %" PRId64 " elements differ (", name, v.wrong, n);
        if (t->exact) used += (size_t)snprintf(problem + used, bytes - used, "exact)\n      ");
        else
            used += (size_t)snprintf(problem + used, bytes - used, "relative %g, absolute %g%s)\n      ", t->relative,
                                     t->absolute, allowed > 0 ? ", more than the outliers allowed" : "");
        used += print_place("first", name, got, expected, v.first, problem + used, bytes - used);
        if (v.worst != v.first && used + 8 < bytes) {
            memcpy(problem + used, "\n      ", 8);
            print_place("worst", name, got, expected, v.worst, problem + used + 7, bytes - used - 7);
        }
        return false;
    }
    const double distance = v.xx + v.ee > 0 ? 1 - 2 * v.xe / (v.xx + v.ee) : 0; // also sees a wrong scale
    if (t->cosine >= 0 && distance > t->cosine) {
        const int used =
            snprintf(problem, bytes, "%s: cosine distance to the reference is %.3g, allowed are %.3g\n      ", name,
                     distance, t->cosine);
        print_place("farthest", name, got, expected, v.farthest, problem + used, bytes - (size_t)used);
        return false;
    }
    return true;
}
