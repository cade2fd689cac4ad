// SPDX-License-Identifier: MIT
// foreign_test.c - other languages' words: every row of the table is told to who writes its word, and what it suggests
// compiles.
#include "compile/compile.h"
#include "syntax/foreign.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char HEAD[] =
    "kernel k(in f32 X[N], in i32 S[N], inout f32 Y[N], inout i32 L[N], f32 x, f32 y, f32 z, %s, int n)\n{ ";
static const char VARIABLES[] =
    "shared f32 t[64] = 0; shared f16 a[16][16] = 0, b[16][16] = 0; fragment f32 c[16][16] = 0;\n"
    "f32 s = 0, top = -INFINITY; int at = 64; int any = 0;\n";

// i and j are indices of a forall, or else arguments.
static const char *head(Arena *arena, const char *body)
{
    return arena_printf(arena, HEAD, strstr(body, "forall (i") ? "i32 p, i32 q" : "i32 i, i32 j");
}

// What building a file says; "" if nothing is wrong.
static const char *build(Arena *arena, const char *source)
{
    Diags *const diags = diags_new(arena);
    Program *const program = program_from_text(arena, diags, "test.tile", source, strlen(source));
    const CheckOptions options = { .target = "cpu" };
    if (!diags->errors && program_find(program, DECL_KERNEL, "k")) check_kernel(program, "k", &options);
    Text text = { .arena = arena };
    diags_print(diags, &text, false);
    return text_cstr(&text);
}

static void tells(Arena *arena, const char *source, const char *text)
{
    const char *const said = build(arena, source);
    if (!strstr(said, text)) fail_msg("%s\nshould say '%s', and says:\n%s", source, text, said);
}

static const char *in_kernel(Arena *arena, const char *format, const char *word)
{
    const char *const body = arena_printf(arena, format, word);
    return arena_printf(arena, "%sgrid ();\n%s%s }", head(arena, body), VARIABLES, body);
}

static void use(Arena *arena, const ForeignWord *w)
{
    static const char *const values[] = { "s = %s(x);", "s = %s;", "s = tl.%s(x);", "%s(x);" };
    const char *const advice = foreign_advice(arena, w);
    switch (w->kind) {
    case FOREIGN_TYPE:
        tells(arena, in_kernel(arena, "%s v = 0;", w->word),
              w->ours ? arena_printf(arena, "'%s' is called %s here", w->word, w->ours)
                      : arena_printf(arena, "there is no type '%s'; %s", w->word, advice));
        tells(arena, in_kernel(arena, "s = %s(x);", w->word), advice);
        break;
    case FOREIGN_DECLARATION:
        tells(arena, arena_printf(arena, "%s something;", w->word), arena_printf(arena, "help: %s", advice));
        break;
    case FOREIGN_WORD:
        tells(arena, in_kernel(arena, "%s v;", w->word), arena_printf(arena, "there is no '%s'; %s", w->word, advice));
        break;
    case FOREIGN_GRID:
        tells(arena, in_kernel(arena, "n += %s.x;", w->word), arena_printf(arena, "help: %s", advice));
        // fall through
    case FOREIGN_VALUE:
    case FOREIGN_STATEMENT:
    case FOREIGN_NOTHING:
        for (int i = 0; i < COUNT(values); i++)
            tells(arena, in_kernel(arena, values[i], w->word), arena_printf(arena, "help: %s", advice));
        break;
    }
}

static const char *with_body(Arena *arena, const char *ours, const char *body)
{
    const char *const dots = strstr(ours, "{ ... }");
    return dots ? arena_printf(arena, "%.*s%s%s", (int)(dots - ours), ours, body, dots + 7) : ours;
}

static void follow(Arena *arena, const ForeignWord *w)
{
    const char *source = NULL;
    if (!w->ours) return;
    switch (w->kind) {
    case FOREIGN_TYPE: source = in_kernel(arena, "%s v = 1;", w->ours); break;
    case FOREIGN_VALUE: source = in_kernel(arena, "s = %s;", w->ours); break;
    case FOREIGN_STATEMENT:
    case FOREIGN_WORD: source = in_kernel(arena, "%s", w->ours); break;
    case FOREIGN_GRID: source = arena_printf(arena, "%s%s }", head(arena, w->ours), w->ours); break;
    case FOREIGN_DECLARATION:
        if (strncmp(w->ours, "import", 6) == 0) return;
        source = with_body(arena, w->ours, w->ours[0] == 'k' ? "{ grid (); }" : "{ return x; }");
        break;
    case FOREIGN_NOTHING: return;
    }
    const char *const said = build(arena, source);
    if (*said) fail_msg("'%s' suggests '%s', which does not compile:\n%s", w->word, w->ours, said);
}

static void each(void (*check)(Arena *, const ForeignWord *))
{
    for (int i = 0; i < n_foreign_words; i++) {
        Arena *const arena = arena_new();
        if (setjmp(arena->out_of_memory)) fail_msg("out of memory");
        check(arena, &foreign_words[i]);
        arena_free(arena);
    }
}

static void every_word_gets_its_hint(void **state) { each(use); }
static void what_is_suggested_compiles(void **state) { each(follow); }

static void words_are_unique(void **state)
{
    assert_true(n_foreign_words >= 100);
    for (int i = 0; i < n_foreign_words; i++)
        if (find_foreign(foreign_words[i].word) != &foreign_words[i])
            fail_msg("'%s' stands twice", foreign_words[i].word);
}

// No word of the language is another's.
static void words_are_foreign(void **state)
{
    Arena *const arena = arena_new();
    if (setjmp(arena->out_of_memory)) fail_msg("out of memory");
    for (int i = 0; i < n_foreign_words; i++)
        if (foreign_words[i].kind == FOREIGN_VALUE &&
            !*build(arena, in_kernel(arena, "s = %s;", foreign_words[i].word)))
            fail_msg("'%s' is a word of the language", foreign_words[i].word);
    arena_free(arena);
}

// Files that an advice names are there.
static void named_files_exist(void **state)
{
    int found = 0;
    for (int i = 0; i < n_foreign_words; i++)
        for (const char *at = foreign_words[i].advice; at && (at = strstr(at, "kernels/")) != NULL; at++, found++) {
            char path[512];
            snprintf(path, sizeof path, "%s/../%.*s", KILN_TEST_DIR, (int)strcspn(at, " ,"), at);
            if (access(path, R_OK) != 0) fail_msg("'%s' names %s, which is not there", foreign_words[i].word, path);
        }
    assert_true(found > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_unique),         cmocka_unit_test(words_are_foreign),
        cmocka_unit_test(every_word_gets_its_hint), cmocka_unit_test(what_is_suggested_compiles),
        cmocka_unit_test(named_files_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
