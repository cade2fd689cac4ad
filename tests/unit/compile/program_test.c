// SPDX-License-Identifier: MIT
// Programs: each file once, imports beside the importer, and a message for whatever cannot be read.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "compile/compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Loaded {
    Arena *arena;
    Diags *diags;
    Program *program;
    const char *text;
} Loaded;

static void write_file(const char *name, const char *text)
{
    FILE *const file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static Loaded load(const char *path)
{
    Loaded l = { .arena = arena_new() };
    assert_non_null(l.arena);
    if (setjmp(l.arena->out_of_memory) != 0) fail_msg("out of memory");
    Text text = { .arena = l.arena };
    l.diags = diags_new(l.arena);
    l.program = program_load(l.arena, l.diags, path);
    diags_print(l.diags, &text, false);
    l.text = text_cstr(&text);
    return l;
}

static void expect(const char *path, int modules, const char *message)
{
    Loaded l = load(path);
    if (message ? !strstr(l.text, message) : l.diags->errors != 0) fail_msg("%s: '%s'", path, l.text);
    assert_int_equal(l.program->n_modules, modules);
    arena_free(l.arena);
}

static void each_import_is_read_once(void **state)
{
    assert_int_equal(mkdir("sub", 0777), 0);
    write_file("top.tile", "import \"sub/a.tile\"\nimport \"b.tile\"\n");
    write_file("sub/a.tile", "import \"../b.tile\"\n");
    write_file("b.tile", "const int N = 4;\n");
    expect("top.tile", 3, NULL);
}

static void imports_in_a_circle_are_an_error(void **state)
{
    write_file("x.tile", "import \"y.tile\"\n");
    write_file("y.tile", "import \"x.tile\"\n");
    expect("x.tile", 2, "y.tile:1:8: error: \"x.tile\" imports itself");
    write_file("self.tile", "import \"self.tile\"\n");
    expect("self.tile", 1, "imports itself");
}

static void what_cannot_be_read_is_named(void **state)
{
    expect("absent.tile", 0, "cannot read 'absent.tile': there is no such file");
    expect("sub", 0, "it is a folder");
    expect("/dev/null", 0, "it is not a regular file");
    write_file("m.tile", "\nimport \"gone.tile\"\n");
    expect("m.tile", 1, "m.tile:2:8: error: cannot import 'gone.tile': there is no such file");
    if (geteuid() == 0) {
        print_message("skipped: root may read every file\n");
        return;
    }
    write_file("secret.tile", "");
    chmod("secret.tile", 0);
    expect("secret.tile", 0, "Permission denied");
}

// Whoever writes a program must not learn from its errors what other files hold.
static void files_elsewhere_are_not_shown(void **state)
{
    const char secret[] = "swordfish: $1$ hash\n";
    char path[64] = "/tmp/kiln-elsewhere-XXXXXX", name[96], text[256];
    assert_non_null(mkdtemp(path));
    snprintf(name, sizeof name, "%s/shadow", path);
    write_file(name, secret);
    snprintf(text, sizeof text, "import \"%s\"\n", name);
    write_file("m.tile", text);
    expect("m.tile", 1, "the name of a source ends in .tile");
    assert_int_equal(symlink(name, "link.tile"), 0); // its own name counts
    write_file("m.tile", "import \"link.tile\"\n");
    expect("m.tile", 1, "the name of a source ends in .tile");
    unlink("link.tile");
    unlink(name);
    snprintf(name, sizeof name, "%s/theirs.tile", path);
    write_file(name, "kernel k( /* swordfish */\n");
    snprintf(text, sizeof text, "import \"%s\"\n", name);
    write_file("m.tile", text);
    Loaded l = load("m.tile");
    assert_int_equal(l.diags->errors, 1);
    assert_non_null(strstr(l.text, "theirs.tile:"));
    assert_null(strstr(l.text, "swordfish"));
    arena_free(l.arena);
    write_file("ours.tile", "kernel k( /* swordfish */\n");
    write_file("m.tile", "import \"ours.tile\"\n");
    expect("m.tile", 2, "swordfish");
    unlink("ours.tile");
    unlink(name);
    rmdir(path);
}

static int enter_folder(void **state)
{
    static char folder[] = "/tmp/kiln-program-XXXXXX";
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
    static const char *const files[] = { "top.tile", "sub/a.tile", "b.tile", "x.tile",
                                         "y.tile",   "self.tile",  "m.tile", "secret.tile" };
    char folder[4096];
    for (int i = 0; i < COUNT(files); i++) unlink(files[i]);
    rmdir("sub");
    return getcwd(folder, sizeof folder) && chdir("/") == 0 ? rmdir(folder) : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_import_is_read_once),
        cmocka_unit_test(imports_in_a_circle_are_an_error),
        cmocka_unit_test(what_cannot_be_read_is_named),
        cmocka_unit_test(files_elsewhere_are_not_shown),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
