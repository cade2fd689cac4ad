// SPDX-License-Identifier: MIT
// page.h - `kiln explain --html`: what is shown of a kernel, as plain data, and its writing as one HTML file.
//
// First the data are collected: page_add_kernel() reads a compiled kernel and copies what the page says of it; it changes
// nothing, and after it the compilation may be freed. page_add_timeline() adds spans of any origin, such as the waits that a
// profiler measured. Then page_write() makes HTML of the data alone: text in, text out, the same bytes each time.
//
// All memory is the arena's that page_new() is given; sources are the program's, and must live as long as the page.
// The page needs no network and no script: what a script adds is that grids move and that arrow keys walk over cells and spans.
#ifndef KILN_TOOLS_PAGE_PAGE_H
#define KILN_TOOLS_PAGE_PAGE_H

#include "compile/compile.h"
#include "tools/page/tile_layout.h"

// ---- what was decided for one line of a source
typedef enum PageFactKind {
    FACT_STORAGE,
    FACT_COPY,
    FACT_PRODUCT,
    FACT_WORK,
    FACT_SYNC,
    FACT_NOTE,
    FACT_KINDS
} PageFactKind;
typedef struct PageFact {
    const Source *source;
    int line; // from 1
    PageFactKind kind;
    const char *text;
    int tile; // in the kernel's list, whose entry it leads to; -1: none
} PageFact;

// Cycles of a multiprocessor for one instance, by the cost model.
typedef struct PageCost {
    const Source *source;
    int line;
    double floor, expected;
    const char *bound; // "tensor cores"
} PageCost;

// A file of which something is shown. The declarations that something was decided in are open, the rest is folded.
typedef struct PageLines {
    int first, last;
} PageLines;
typedef struct PageSource {
    const Source *source;
    VEC(PageLines) open; // in the order of the file
} PageSource;

// ---- tiles
typedef struct PageTile {
    const char *name, *shape; // "bf16[128][64]"; of scratch and staging: ""
    bool in_shared;
    int registers;            // of a thread, 32 bits each
    int offset, bytes, slots; // in shared memory; of one slot
    const char *ring;         // that fills it; NULL: none
    const char *why;          // a fragment in shared memory: the reason; NULL: none
    const Source *source;
    int line;        // of its declaration; 0: none
    bool has_layout; // else it is staging, scratch, or of elements that are less than a byte
    TileLayout layout;
    int like; // the first tile of the list with the same layout: its grid is drawn; itself, if there is none before
} PageTile;

// ---- who does what, and who waits for whom
typedef struct PageAction {
    int depth, line; // line 0: none
    const Source *source;
    const char *text;
} PageAction;
typedef VEC(PageAction) PageActions;
typedef struct PageRole {
    const char *name;
    int first_thread, threads, registers; // registers of a thread; 0: as at launch
    PageActions actions;
} PageRole;

// One thing that some wait for until others have arrived.
typedef struct PageBarrier {
    const char *name;     // "full of ring a b", "named barrier 3 + group"
    const char *arrivers; // roles, with what they do: "producer: expect, tma"
    const char *waiters;
    const char *counts; // "1 arrival and 49152 bytes"
    int slots, offset;  // mbarriers, of which the first is at this byte; named barriers: 0 slots
} PageBarrier;

// ---- time
typedef enum PageSpanKind { SPAN_COMPUTE, SPAN_PRODUCT, SPAN_COPY, SPAN_WAIT, SPAN_HELD, SPAN_KINDS } PageSpanKind;
// Somebody does, or waits for, something. Spans of a role that overlap are drawn over each other.
typedef struct PageSpan {
    const char *role, *what;
    double begin, end;
    PageSpanKind kind;
    int step; // of a loop; -1: none
    int line; // of the kernel's own source; 0: none
} PageSpan;
typedef struct PageTimeline {
    const char *title, *unit; // "cycles", "ns"
    const char *about;        // where it comes from, a sentence or two
    const PageSpan *spans;
    int n;
} PageTimeline;

// What the warps of a role waited for, by a measurement: all waits that say the same.
typedef struct PageWait {
    const char *role;        // with its warps
    const char *kind, *what; // "full", "full slot of a b"; of what is no wait: what it is, and ""
    double share;            // of the role's time
    double time;             // of one warp
    long times;              // 0: not counted
    int line;                // of the kernel's own source; 0: none
} PageWait;

// ---- one kernel: itself, or a step of an operator
typedef struct PageKernel {
    const char *name, *target; // with its build values
    VEC(const char *) facts;   // "384 threads", "persistent" ...
    VEC(PageSource) sources;   // its own first
    VEC(PageFact) lines;
    VEC(PageCost) costs;
    VEC(PageTile) tiles;
    VEC(PageRole) roles;
    VEC(PageBarrier) barriers;
    VEC(PageTimeline) timelines;
    VEC(PageWait) waits;
    const char *measured, *measured_unit;             // where the waits are from; NULL: there are none
    int shared_bytes, shared_limit, thread_registers; // thread_registers: the most of a role's, or as launched
    int barrier_bytes, barrier_offset;                // of all mbarriers together
    const char *no_schedule;                          // why there are no tiles, roles and barriers; NULL: there are
    const char *explanation;                          // as `kiln explain` prints it
    const char *code, *code_title;                    // CUDA C or C
    const char *ptx, *no_ptx;                         // one of both
    double expected_seconds;                          // of the launch by the cost model; 0: not known
} PageKernel;

// ---- the launch
typedef struct PageRoofline {
    const char *unknown;                       // why it is not drawn; NULL: it is
    const char *card;                          // "an H200"
    double operations, bytes;                  // of the launch, at least
    double operation_rate, byte_rate;          // per second
    double expected_seconds, measured_seconds; // 0: not known
    const char *measured_where;                // "NVIDIA H200", or as it was given
} PageRoofline;

typedef struct Page {
    Arena *arena;
    const char *title;   // file and kernel
    const char *command; // that makes this page
    VEC(PageKernel *) kernels;
    PageRoofline roofline;
} Page;

// ---- making
Page *page_new(Arena *arena, const char *title, const char *command);
// The next kernel, of this program. Its PTX is for the caller to set.
PageKernel *page_add_kernel(Page *page, const Compiled *compiled, const Target *target, const Program *program);
// The spans are copied; roles appear in the order of their first spans.
void page_add_timeline(Page *page, PageKernel *kernel, PageTimeline timeline);

// ---- writing
void page_write(Text *out, const Page *page);

// ---- parts of making, each a file
void page_add_facts(Page *page, PageKernel *kernel, const Compiled *compiled);    // page_facts.c
void page_add_roles(Page *page, PageKernel *kernel, const Compiled *compiled);    // page_roles.c
void page_add_barriers(Page *page, PageKernel *kernel, const Compiled *compiled); // page_barriers.c

// ---- parts of writing, each a file; ids begin with `id`
void write_source(Text *out, const PageKernel *kernel, const char *id);
void write_tiles(Text *out, const PageKernel *kernel, const char *id);
void write_memory(Text *out, const PageKernel *kernel, const char *id);
void write_roles(Text *out, const PageKernel *kernel, const char *id);
void write_timelines(Text *out, const PageKernel *kernel, const char *id);
void write_roofline(Text *out, const PageRoofline *roofline);
extern const char page_style[], page_script[]; // page.css and page.js, embedded by embed.sh

#endif
