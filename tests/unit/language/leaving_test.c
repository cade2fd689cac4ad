// SPDX-License-Identifier: MIT
// leaving_test.c - break, continue and return from anywhere: random bodies of loops, unrolled and not, against an interpreter.
#include "run.h"

enum { NODES = 400, FUNCTIONS = 8, ROUNDS = 6, ROWS = 40, STEPS = 4, INNER_STEPS = 3 };
typedef enum { CHANGE, BRANCH, INNER, CONTINUE, BREAK, RETURN } Kind;

// The statement, and the one after it. BRANCH: x[(index + at) % 8] > bound; INNER: a loop, unrolled where the outer one is.
typedef struct Node {
    Kind kind;
    int at, bound;
    struct Node *body, *otherwise, *next;
} Node;

static Node nodes[NODES];
static int n_nodes;
static uint64_t seed;

static int below(int n) { return (int)(bits_of(seed++) % (unsigned)n); }

static Node *make_list(int depth, bool in_inner)
{
    Node *first = NULL, **link = &first;
    for (int n = 1 + below(3); n > 0 && n_nodes < NODES; n--) {
        Node *const node = &nodes[n_nodes++];
        const int r = below(100);
        *node = (Node){ r < 25                ? CHANGE
                        : r < 70 && depth < 3 ? BRANCH
                        : r < 80 && !in_inner ? INNER
                        : r < 88              ? CONTINUE
                        : r < 96              ? BREAK
                                              : RETURN,
                        below(8),
                        below(9) - 1,
                        NULL,
                        NULL,
                        NULL };
        if (node->kind == BRANCH || node->kind == INNER)
            node->body = make_list(depth + 1, in_inner || node->kind == INNER);
        if (node->kind == BRANCH && below(5) < 2) node->otherwise = make_list(depth + 1, in_inner);
        *link = node;
        link = &node->next;
    }
    return first;
}

// ---- as text

static char *write_list(char *at, const Node *list, char index, bool unroll)
{
    for (; list; list = list->next) {
        switch (list->kind) {
        case CHANGE: at += sprintf(at, "a = a*3 + %d;\n", list->at); break;
        case CONTINUE: at += sprintf(at, "continue;\n"); break;
        case BREAK: at += sprintf(at, "break;\n"); break;
        case RETURN: at += sprintf(at, "return a + %d;\n", list->at + 100); break;
        case INNER:
            at +=
                sprintf(at, "%sfor (int j = 0; j < %d; j++) {\n", unroll && list->at % 2 ? "unroll " : "", INNER_STEPS);
            at = write_list(at, list->body, 'j', unroll);
            at += sprintf(at, "}\n");
            break;
        case BRANCH:
            at += sprintf(at, "if (x[(%c + %d) %% 8] > %d) {\n", index, list->at, list->bound);
            at = write_list(at, list->body, index, unroll);
            if (list->otherwise) at = write_list(at + sprintf(at, "} else {\n"), list->otherwise, index, unroll);
            at += sprintf(at, "}\n");
        }
    }
    return at;
}

static char *write_function(char *at, const char *name, int number, const Node *body, bool unroll)
{
    at += sprintf(at, "fn i32 %s%d(in i32 x[8])\n{\ni32 a = 1;\n%sfor (int i = 0; i < %d; i++) {\n", name, number,
                  unroll ? "unroll " : "", STEPS);
    at = write_list(at, body, 'i', unroll);
    return at + sprintf(at, "a += 1000;\n}\na = a*2 + 1;\nif (x[0] > 3) return a;\nreturn a + 7;\n}\n");
}

// ---- as C would

typedef enum { ON, CONTINUED, BROKEN, RETURNED } End;

static End run(const Node *list, const int32_t *x, uint32_t *a, int index)
{
    End end = ON;
    for (; list && end == ON; list = list->next) {
        switch (list->kind) {
        case CHANGE: *a = *a * 3 + (uint32_t)list->at; break;
        case CONTINUE: end = CONTINUED; break;
        case BREAK: end = BROKEN; break;
        case RETURN:
            *a += (uint32_t)list->at + 100;
            end = RETURNED;
            break;
        case BRANCH:
            end = run(x[(index + list->at) % 8] > list->bound ? list->body : list->otherwise, x, a, index);
            break;
        case INNER:
            for (int j = 0; j < INNER_STEPS && end < BROKEN; j++) end = run(list->body, x, a, j);
            if (end != RETURNED) end = ON;
        }
    }
    return end;
}

static int32_t expected(const Node *body, const int32_t *x)
{
    uint32_t a = 1;
    for (int i = 0; i < STEPS; i++) {
        const End end = run(body, x, &a, i);
        if (end == RETURNED) return (int32_t)a;
        if (end == BROKEN) break;
        if (end == ON) a += 1000;
    }
    a = a * 2 + 1;
    return (int32_t)(x[0] > 3 ? a : a + 7);
}

// ---- many

static void one_round(int round)
{
    static char text[1 << 20];
    static int32_t x[ROWS][8], r[ROWS][2 * FUNCTIONS];
    Node *bodies[FUNCTIONS];
    char *at = text;
    n_nodes = 0;
    seed = (uint64_t)round << 32;
    for (int f = 0; f < FUNCTIONS; f++) {
        bodies[f] = make_list(0, false);
        at = write_function(at, "unrolled", f, bodies[f], true);
        at = write_function(at, "looped", f, bodies[f], false);
    }
    at += sprintf(at, "kernel k(in i32 X[N][8], out i32 R[N][%d])\n{\ngrid (n : N);\nshared i32 x[8] = X[n];\n",
                  2 * FUNCTIONS);
    for (int f = 0; f < FUNCTIONS; f++)
        at += sprintf(at, "R[n][%d] = unrolled%d(x);\nR[n][%d] = looped%d(x);\n", 2 * f, f, 2 * f + 1, f);
    sprintf(at, "}\n");
    for (int n = 0; n < ROWS; n++)
        for (int i = 0; i < 8; i++) x[n][i] = below(12) - 2;
    kiln_kernel *const kernel = build(text, "k", NULL);
    RUN(kernel, T(x, KILN_I32, ROWS, 8), T(r, KILN_I32, ROWS, 2 * FUNCTIONS));
    kiln_kernel_free(kernel);
    for (int n = 0; n < ROWS; n++)
        for (int f = 0; f < 2 * FUNCTIONS; f++)
            if (r[n][f] != expected(bodies[f / 2], x[n])) {
                fputs(text, stderr);
                fail_msg("round %d, %s%d, row %d: %d, expected %d", round, f % 2 ? "looped" : "unrolled", f / 2, n,
                         r[n][f], expected(bodies[f / 2], x[n]));
            }
}

static void loops_are_left_as_in_c(void **state)
{
    const int rounds = getenv("KILN_EXHAUSTIVE") ? 100 * ROUNDS : ROUNDS;
    for (int round = 0; round < rounds; round++) one_round(round);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(loops_are_left_as_in_c) };
    return cmocka_run_group_tests_name("leaving", tests, NULL, NULL);
}
