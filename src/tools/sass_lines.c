// SPDX-License-Identifier: MIT
// sass_lines.c - the table of lines in a cubin: DWARF 2's .debug_line in an ELF file of 64 bits.
//
// A row of the table says from which address on code is for which line. NVIDIA adds an instruction, 0x90: what follows was
// inlined, with the number of the row whose call it is of (the first row is 1; 0: not inlined). Nothing read here is trusted:
// what is out of bounds ends the reading.
#include "tools/sass_lines.h"
#include "base/memory.h"

#include <elf.h>
#include <stdlib.h>

// ---- the file

typedef struct Bytes {
    const uint8_t *at, *end;
    bool failed;
} Bytes;

static uint64_t take(Bytes *b, int bytes)
{
    uint64_t value = 0;
    if (b->failed || b->end - b->at < bytes) {
        b->failed = true;
        return 0;
    }
    for (int i = 0; i < bytes; i++) value |= (uint64_t)b->at[i] << (8 * i);
    b->at += bytes;
    return value;
}

static uint64_t take_uleb(Bytes *b)
{
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        const uint64_t byte = take(b, 1);
        if (shift < 64) value |= (byte & 0x7f) << shift;
        if (!(byte & 0x80)) return value;
    }
}

static int64_t take_sleb(Bytes *b)
{
    uint64_t value = 0;
    for (int shift = 0;;) {
        const uint64_t byte = take(b, 1);
        if (shift < 64) value |= (byte & 0x7f) << shift;
        shift += 7;
        if (byte & 0x80) continue;
        if (byte & 0x40 && shift < 64) value |= ~UINT64_C(0) << shift;
        return (int64_t)value;
    }
}

static void skip(Bytes *b, uint64_t n)
{
    if (n > (uint64_t)(b->end - b->at)) b->failed = true;
    else b->at += n;
}

typedef struct Sections {
    Bytes lines;
    uint64_t code_bytes;
    int n_code;
} Sections;

static void add_section(Sections *found, const char *cubin, size_t n, const Elf64_Shdr *section, const char *name)
{
    const bool fits = section->sh_offset <= n && section->sh_size <= n - section->sh_offset;
    if (strcmp(name, ".debug_line") == 0 && fits) {
        found->lines.at = (const uint8_t *)cubin + section->sh_offset;
        found->lines.end = found->lines.at + section->sh_size;
    }
    if (strncmp(name, ".text.", 6) == 0) {
        found->code_bytes = section->sh_size;
        found->n_code++;
    }
}

static bool find_sections(const char *cubin, size_t n, Sections *found)
{
    Elf64_Ehdr head;
    Elf64_Shdr names, section;
    *found = (Sections){ .n_code = 0 };
    if (n < sizeof head) return false;
    memcpy(&head, cubin, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_shoff > n ||
        head.e_shentsize != sizeof section || (n - head.e_shoff) / sizeof section < head.e_shnum ||
        head.e_shstrndx >= head.e_shnum)
        return false;
    memcpy(&names, cubin + head.e_shoff + head.e_shstrndx * sizeof names, sizeof names);
    if (names.sh_offset > n || names.sh_size > n - names.sh_offset || names.sh_size == 0 ||
        cubin[names.sh_offset + names.sh_size - 1])
        return false;
    for (int i = 0; i < head.e_shnum; i++) {
        memcpy(&section, cubin + head.e_shoff + (size_t)i * sizeof section, sizeof section);
        if (section.sh_name < names.sh_size)
            add_section(found, cubin, n, &section, cubin + names.sh_offset + section.sh_name);
    }
    return found->lines.at && found->n_code == 1 && found->code_bytes % SASS_BYTES == 0 && found->code_bytes <= n;
}

// ---- its table

typedef struct LineRow {
    uint64_t address;
    int64_t line;
    uint64_t caller; // the row's number; 0: not inlined
} LineRow;

typedef struct LineTable {
    Arena *arena;
    Bytes b;
    int line_base, line_range, opcode_base, shortest;
    uint8_t arguments[256]; // of standard opcodes
    LineRow now;
    VEC(LineRow) rows;
} LineTable;

static void read_head(LineTable *t)
{
    Bytes *const b = &t->b;
    const uint64_t length = take(b, 4);
    if (length < (uint64_t)(b->end - b->at)) b->end = b->at + length;
    if (take(b, 2) != 2) b->failed = true; // the version
    const uint64_t rest = take(b, 4);
    Bytes program = *b;
    skip(&program, rest);
    t->shortest = (int)take(b, 1);
    take(b, 1); // whether rows begin statements
    t->line_base = (int8_t)take(b, 1);
    t->line_range = (int)take(b, 1);
    t->opcode_base = (int)take(b, 1);
    for (int i = 1; i < t->opcode_base; i++) t->arguments[i] = (uint8_t)take(b, 1);
    b->failed |= t->line_range == 0 || program.failed;
    b->at = program.at;
}

static void add_row(LineTable *t) { VEC_PUSH(t->arena, &t->rows, t->now); }

static void run_extended(LineTable *t)
{
    Bytes *const b = &t->b;
    const uint64_t length = take_uleb(b);
    const uint8_t *const begin = b->at;
    switch (length ? take(b, 1) : 0) {
    case 1: t->now = (LineRow){ .line = 1 }; break; // the end of a sequence
    case 2: t->now.address = take(b, 8); break;
    case 0x90: t->now.caller = take_uleb(b); break; // and the function's name, which is skipped
    default: break;
    }
    b->at = begin;
    skip(b, length);
}

static void run_special(LineTable *t, int opcode)
{
    const int step = opcode - t->opcode_base;
    t->now.address += (uint64_t)(step / t->line_range * t->shortest);
    t->now.line += t->line_base + step % t->line_range;
    add_row(t);
}

static void run_one(LineTable *t)
{
    Bytes *const b = &t->b;
    const int opcode = (int)take(b, 1);
    if (opcode >= t->opcode_base) {
        run_special(t, opcode);
        return;
    }
    switch (opcode) {
    case 0: run_extended(t); break;
    case 1: add_row(t); break;
    case 2: t->now.address += take_uleb(b) * (uint64_t)t->shortest; break;
    case 3: t->now.line += take_sleb(b); break;
    case 8: t->now.address += (uint64_t)((255 - t->opcode_base) / t->line_range * t->shortest); break;
    case 9: t->now.address += take(b, 2); break;
    default:
        for (int i = 0; i < t->arguments[opcode]; i++) take_uleb(b);
    }
}

// Of where a row's code was called at last; a row is only called from one before it.
static int outer_line(const LineTable *t, int row)
{
    while (row >= 0 && t->rows.items[row].caller)
        row = t->rows.items[row].caller <= (uint64_t)row ? (int)t->rows.items[row].caller - 1 : -1;
    return row >= 0 && t->rows.items[row].line > 0 && t->rows.items[row].line < INT32_MAX ? (int)t->rows.items[row].line
                                                                                          : 0;
}

bool sass_text_lines(Arena *arena, const char *cubin, size_t n, const int **lines, int *n_lines)
{
    Sections sections;
    if (!find_sections(cubin, n, &sections)) return false;
    LineTable *const t = NEW(arena, LineTable, .arena = arena, .b = sections.lines, .now = { .line = 1 });
    read_head(t);
    while (!t->b.failed && t->b.at < t->b.end) run_one(t);
    if (t->b.failed || t->rows.count == 0) return false;
    // The last row of an address counts; rows come in the order of addresses.
    int *const found = NEW_ARRAY(arena, int, (int64_t)(sections.code_bytes / SASS_BYTES) + 1);
    *n_lines = (int)(sections.code_bytes / SASS_BYTES);
    for (int i = 0, row = -1; i < *n_lines; i++) {
        while (row + 1 < t->rows.count && t->rows.items[row + 1].address <= (uint64_t)i * SASS_BYTES) row++;
        found[i] = row < 0 ? 0 : outer_line(t, row);
    }
    *lines = found;
    return true;
}

// ---- the comments of the text

// "    // at kernels/gemm.tile:22". False: it is none.
static bool read_place(Arena *arena, const char *line, size_t n, SassPlace *place)
{
    const char *const end = line + n, *colon = end;
    while (line < end && *line == ' ') line++;
    if (end - line < 8 || strncmp(line, "// at ", 6) != 0) return false;
    while (colon > line && *colon != ':') colon--;
    if (*colon != ':') return false;
    *place = (SassPlace){ arena_printf(arena, "%.*s", (int)(colon - line - 6), line + 6), atoi(colon + 1) };
    return place->line > 0;
}

void sass_places_of_text(Arena *arena, const char *text, SassPlaces *places)
{
    SassPlace last = { 0 };
    VEC_PUSH(arena, places, last);
    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        read_place(arena, at, strcspn(at, "\n"), &last);
        VEC_PUSH(arena, places, last);
    }
}

kiln_status sass_places(Arena *arena, const Compiled *compiled, CudaArch arch, SassPlaces *places)
{
    char *cubin;
    size_t n;
    const int *lines;
    int n_lines;
    SassPlaces of_text = { 0 };
    const kiln_status status = nvrtc_lines(compiled->source, arch, &cubin, &n);
    if (status) return status;
    const bool ok = sass_text_lines(arena, cubin, n, &lines, &n_lines);
    memory_free(cubin);
    if (!ok) return status_fail(KILN_TOOLCHAIN, "the compiled code has no table of lines that can be read");
    sass_places_of_text(arena, compiled->source, &of_text);
    for (int i = 0; i < n_lines; i++)
        VEC_PUSH(arena, places, (lines[i] < of_text.count ? of_text.items[lines[i]] : (SassPlace){ 0 }));
    return KILN_OK;
}
