// SPDX-License-Identifier: MIT
// emission.h - what `kiln build` writes for programs that have no compiler: C texts and objects of kernels and operators.
//
// A unit is a kernel or operator under one C identifier. It is compiled once for each form, and the forms are chained, the
// best first (kiln/code.h): the first is NAME_code, the others NAME_FORM_code. Each C text stands for itself and includes
// nothing of Kiln's, because the emitted code has names of its own that the public header knows in another sense; it
// repeats the layout of kiln_code instead.
#ifndef KILN_TOOLS_EMISSION_H
#define KILN_TOOLS_EMISSION_H

#include "tools/tool.h"

// What one text is compiled for.
typedef struct CodeForm {
    const char *name; // "avx2", "sm_90a"
    Target target;
    CudaArch arch;     // CUDA
    const char *flags; // of the C compiler; CUDA: its text is data
} CodeForm;

enum { MAX_FORMS = 16 };
typedef struct CodeForms {
    Arena *arena;
    CodeForm of[MAX_FORMS];
    int n;
    const char *machine; // that all its objects are for; NULL: this one
} CodeForms;

// A C text that was made, and the object that it becomes.
typedef struct Piece {
    const char *text, *name, *flags; // name: of the file, without folder and extension
    char object[PATH_BYTES + 160];
    kiln_status status;
    char message[2048];
} Piece;

// Everything of one call of `kiln build`.
typedef struct Emission {
    Arena *arena;
    const CodeForms *forms;
    const char *folder;            // --output
    const Folders *folders;        // of imports
    const char *tuned, *tuned_for; // --tuned, --tuned-for
    const char *name;              // the C identifier of the unit at hand; of all for an archive
    struct {
        Piece **items;
        int count, capacity;
    } pieces;
} Emission;

// --isa=avx2,portable and --arch=90,80, or what the device stands for. Prints what is wrong: an exit status, or -1.
int forms_choose(CodeForms *forms, Arena *arena, const char *isas, const char *archs, const kiln_device *device);
// "avx2, sm_90a", in the arena.
const char *forms_list(const CodeForms *forms, Arena *arena);

// ---- emission.c
// One unit for all forms: adds its texts to the pieces, and its functions to `header` (NULL: it has none).
kiln_status emission_unit(Emission *e, const BuildRequest *request, const char *name, Text *header);
void emission_add(Emission *e, const char *name, const Text *text, const char *flags); // a piece
kiln_status emission_write(const Emission *e, const char *name, const Text *text);     // FOLDER/NAME, and prints it
kiln_status emission_write_pieces(Emission *e);                                        // as C files
kiln_status emission_compile_pieces(Emission *e, const char *path);                    // and joins them (cc_join)

// ---- emission_text.c
// The pieces of a translated kernel or operator for one form. `next`: the identifier of the next form, or NULL.
kiln_status emission_code(Emission *e, const kiln_kernel *kernel, const CodeForm *form, const char *name,
                          const char *next);

// ---- emission_header.c
// Whether files and functions can be called so; if not, prints why and gives an exit status, else -1.
int check_identifier(const char *name);
void emission_header_begin(Text *out, const char *name, const char *forms);
void emission_header_end(Text *out);
void emission_functions(Text *out, const Emission *e, const LaunchPlan *plan, bool is_operator); // of the unit at hand

// ---- archive.c
// The archive of a list, and its header.
int build_archive(Emission *e, const char *list);

#endif
