// SPDX-License-Identifier: MIT
// ncu.c - the CSV that Nsight Compute prints.
//
// Raw: a row of names, one of units, one for each launch. Source: a row with the kernel's name, one of columns, one for each
// instruction; so again for each launch. What the program itself prints may stand between them.
#include "tools/ncu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef VEC(const char *) Fields;

// ---- rows

// One line, without its end; false: it is no row in quotes.
static bool read_row(Arena *arena, const char *line, size_t n, Fields *fields)
{
    const char *at = line, *const end = line + n;
    char *to = n && *line == '"' ? arena_alloc(arena, n + 1) : NULL; // a field's NUL is where a quote was
    while (at < end && *at == '"') {
        VEC_PUSH(arena, fields, to);
        for (at++; at < end; at++) {
            if (*at == '"' && at + 1 < end && at[1] == '"') at++;
            else if (*at == '"') break;
            *to++ = *at;
        }
        if (at == end) return false;
        *to++ = 0;
        at++;
        if (at < end && *at == ',') at++;
        else break;
    }
    return fields->count > 1 && (at == end || *at == '\r');
}

static int column(const Fields *head, const char *name)
{
    for (int i = 0; i < head->count; i++)
        if (strcmp(head->items[i], name) == 0) return i;
    return -1;
}

static const char *field(const Fields *row, int at) { return at >= 0 && at < row->count ? row->items[at] : ""; }

// "1,234.5"; NAN: no number.
static double number_of(const char *text)
{
    char plain[64], *end;
    size_t n = 0;
    for (; *text && n < sizeof plain - 1; text++)
        if (*text != ',') plain[n++] = *text;
    plain[n] = 0;
    const double value = strtod(plain, &end);
    return n && !*end ? value : NAN;
}

static double number_or_0(const Fields *row, int at)
{
    const double value = number_of(field(row, at));
    return isnan(value) ? 0 : value;
}

// ---- raw

static void add_launch(Arena *arena, NcuLaunches *launches, const Fields *head, const Fields *row)
{
    NcuLaunch launch = { .kernel = field(row, column(head, "Kernel Name")) };
    for (int i = 0; i < head->count && i < row->count; i++) {
        const double value = number_of(row->items[i]);
        if (strstr(head->items[i], "__") && !isnan(value))
            VEC_PUSH(arena, &launch.metrics, ((NcuMetric){ head->items[i], value }));
    }
    VEC_PUSH(arena, launches, launch);
}

bool ncu_read_raw(Arena *arena, const char *text, size_t n, NcuLaunches *launches)
{
    Fields head = { 0 };
    bool units = false;
    for (const char *at = text, *const end = text + n; at < end;) {
        const char *const newline = memchr(at, '\n', (size_t)(end - at));
        Fields row = { 0 };
        const bool is_row = read_row(arena, at, (size_t)((newline ? newline : end) - at), &row);
        if (is_row && column(&row, "ID") == 0 && column(&row, "Kernel Name") > 0) {
            head = row;
            units = true;
        } else if (is_row && head.count && units) {
            units = false; // with --print-units base they need not be read
        } else if (is_row && head.count) {
            add_launch(arena, launches, &head, &row);
        }
        at = newline ? newline + 1 : end;
    }
    return head.count > 0;
}

double ncu_metric(const NcuLaunch *launch, const char *name)
{
    for (int i = 0; i < launch->metrics.count; i++)
        if (strcmp(launch->metrics.items[i].name, name) == 0) return launch->metrics.items[i].value;
    return NAN;
}

// ---- source

typedef struct SourceColumns {
    int sass, samples, executed, sectors, wavefronts, ideal;
    Fields head;
} SourceColumns;

enum { SECTOR_BYTES = 32 };

static SourceColumns columns_of(const Fields *head)
{
    SourceColumns c = { .sass = column(head, "Source"),
                        .samples = column(head, "Warp Stall Sampling (All Samples)"),
                        .executed = column(head, "Instructions Executed"),
                        .sectors = column(head, "L2 Theoretical Sectors Global"),
                        .wavefronts = column(head, "L1 Wavefronts Shared"),
                        .ideal = column(head, "L1 Wavefronts Shared Ideal"),
                        .head = *head };
    if (c.samples < 0) c.samples = column(head, "Warp Stall Sampling (All Cycles)"); // until 2022
    if (c.samples < 0) c.samples = column(head, "# Samples");
    return c;
}

static void add_stalls(Arena *arena, NcuInstruction *instruction, const SourceColumns *columns, const Fields *row)
{
    for (int i = 0; i < columns->head.count && i < row->count; i++) {
        const char *const name = columns->head.items[i];
        const double samples = number_or_0(row, i);
        // Each reason has a second column, of the samples of cycles in which nothing was issued.
        const bool is_reason = strncmp(name, "stall_", 6) == 0 && !strstr(name, "not_issued") && !strstr(name, "(Not");
        if (is_reason && samples > 0) VEC_PUSH(arena, &instruction->stalls, ((NcuStall){ name + 6, samples }));
    }
}

static void add_instruction(Arena *arena, NcuLaunch *launch, const SourceColumns *columns, const Fields *row)
{
    NcuInstruction found = { .sass = field(row, columns->sass),
                             .samples = number_or_0(row, columns->samples),
                             .executed = number_or_0(row, columns->executed),
                             .l2_bytes = SECTOR_BYTES * number_or_0(row, columns->sectors) };
    if (columns->ideal >= 0) found.conflicts = number_or_0(row, columns->wavefronts) - number_or_0(row, columns->ideal);
    add_stalls(arena, &found, columns, row);
    VEC_PUSH(arena, &launch->code, found);
}

// "kernel(KernelParams)" is "kernel", too.
static bool is_named(const char *kernel, const char *name)
{
    const size_t n = strcspn(kernel, "(");
    return n == strcspn(name, "(") && strncmp(kernel, name, n) == 0;
}

static NcuLaunch *next_launch(NcuLaunches *launches, const char *name)
{
    for (int i = 0; i < launches->count; i++)
        if (launches->items[i].code.count == 0 && is_named(launches->items[i].kernel, name)) return &launches->items[i];
    return NULL;
}

bool ncu_read_source(Arena *arena, const char *text, size_t n, NcuLaunches *launches)
{
    SourceColumns columns = { 0 };
    NcuLaunch *launch = NULL;
    bool any = false;
    for (const char *at = text, *const end = text + n; at < end;) {
        const char *const newline = memchr(at, '\n', (size_t)(end - at));
        Fields row = { 0 };
        const bool is_row = read_row(arena, at, (size_t)((newline ? newline : end) - at), &row);
        if (is_row && (strcmp(row.items[0], "Kernel Name") == 0 || strcmp(row.items[0], "Function Name") == 0)) {
            launch = next_launch(launches, row.items[1]);
            columns = (SourceColumns){ 0 };
        } else if (is_row && column(&row, "Address") >= 0 && column(&row, "Source") >= 0) {
            columns = columns_of(&row);
        } else if (is_row && launch && columns.head.count) {
            add_instruction(arena, launch, &columns, &row);
            any = true;
        }
        at = newline ? newline + 1 : end;
    }
    return any;
}
