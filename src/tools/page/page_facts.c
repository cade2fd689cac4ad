// SPDX-License-Identifier: MIT
// page_facts.c - what was decided for each line: where tiles are, what actions of the schedule come from it, notes.
#include "tools/page/page.h"
#include "lower/gpu/schedule/dump.h"

typedef struct Facts {
    Page *page;
    PageKernel *kernel;
    const Schedule *schedule;
    const ScheduleRole *role;
} Facts;

// What was said of a line is not said again.
static void add_fact(Facts *f, PageFact fact)
{
    if (!fact.source || fact.line <= 0) return;
    for (int i = 0; i < f->kernel->lines.count; i++) {
        const PageFact *const other = &f->kernel->lines.items[i];
        if (other->source == fact.source && other->line == fact.line && strcmp(other->text, fact.text) == 0) return;
    }
    VEC_PUSH(f->page->arena, &f->kernel->lines, fact);
}

static void add_tile_fact(Facts *f, int number)
{
    const PageTile *const tile = &f->kernel->tiles.items[number];
    Text text = { .arena = f->page->arena };
    if (!tile->in_shared)
        text_print(&text, "%s: %d register%s of each thread", tile->name, tile->registers,
                   tile->registers == 1 ? "" : "s");
    else
        text_print(&text, "%s: shared memory, %d x %d bytes at %d", tile->name, tile->slots, tile->bytes, tile->offset);
    const SharedLayout *const shared = tile->in_shared && tile->has_layout ? &tile->layout.shared : NULL;
    if (shared && shared->swizzle_bytes) text_print(&text, ", swizzle %d", shared->swizzle_bytes);
    if (tile->ring) text_print(&text, ", ring %s", tile->ring);
    if (tile->why) text_print(&text, ", because %s", tile->why);
    add_fact(f, (PageFact){ tile->source, tile->line, FACT_STORAGE, text_cstr(&text), number });
}

// ---- actions

// False: it says nothing of its line that a reader asks for.
static bool kind_of(const Action *action, PageFactKind *kind)
{
    switch (action->kind) {
    case ACTION_COPY:
    case ACTION_STORE:
    case ACTION_PREFETCH:
    case ACTION_LDMATRIX: *kind = FACT_COPY; return true;
    case ACTION_MMA: *kind = FACT_PRODUCT; return true;
    case ACTION_SCAN:
    case ACTION_ATOMIC: *kind = FACT_WORK; return true;
    case ACTION_MAP: *kind = FACT_WORK; return action->map.how != MAP_ELEMENTS && action->map.how != MAP_STAGE;
    case ACTION_BARRIER_SYNC:
    case ACTION_BARRIER_ARRIVE:
    case ACTION_CLUSTER_SYNC:
    case ACTION_WAIT:
    case ACTION_RELEASE: *kind = FACT_SYNC; return true;
    case ACTION_GRID:
    case ACTION_LOOP:
    case ACTION_IF:
    case ACTION_SCOPE:
    case ACTION_JUMP:
    case ACTION_ACQUIRE:
    case ACTION_EXPECT:
    case ACTION_ARRIVE:
    case ACTION_ADVANCE:
    case ACTION_COPY_COMMIT:
    case ACTION_COPY_WAIT:
    case ACTION_STORE_WAIT:
    case ACTION_MMA_WAIT:
    case ACTION_FENCE_ASYNC:
    case ACTION_FENCE_REGISTERS:
    case ACTION_WARP_SYNC:
    case ACTION_SCALAR:
    case ACTION_DECLARE: return false;
    }
    return false;
}

// The dump's words without the source operation, which stands beside.
static const char *words_of(Facts *f, const Action *action)
{
    static const char *const copies[] = { [COPY_TMA] = "TMA",
                                          [COPY_CP_ASYNC] = "cp.async",
                                          [COPY_LANES] = "copied by lanes",
                                          [COPY_THREADS] = "copied by threads" };
    static const char *const stores[] = {
        [STORE_THREADS] = "stored by threads",
        [STORE_STAGED] = "stored by TMA, staged in shared memory",
        [STORE_TRANSPOSED] = "stored by TMA, transposed",
        [STORE_REDUCE] = "added by TMA",
        [STORE_ATOMIC] = "added by atomics",
        [STORE_BOXES] = NULL,
    };
    Arena *const arena = f->page->arena;
    Text text = { .arena = arena };
    if (action->kind == ACTION_COPY) {
        text_print(&text, "%s", copies[action->copy.how]);
        if (action->copy.bytes) text_print(&text, ", %d bytes", action->copy.bytes);
    } else if (action->kind == ACTION_STORE) {
        if (!stores[action->store.how]) return NULL;
        text_print(&text, "%s", stores[action->store.how]);
    } else if (action->kind == ACTION_MMA) {
        if (action->mma.count > 1) text_print(&text, "%d x ", action->mma.count);
        text_print(&text, "%s%s", action->mma.instruction ? action->mma.instruction : "no tensor cores",
                   action->mma.is_async ? ", in flight" : "");
    } else {
        schedule_dump_action(f->schedule, action, &text);
    }
    return text_cstr(&text);
}

static void add_conflicts(Facts *f, const Action *action, const TileOp *op)
{
    const ActionWork *const work = action->work;
    if (!work || work->conflicts < 2 || !op || !op->span.source) return;
    const int line = source_position(op->span.source, op->span.begin).line;
    add_fact(
        f, (PageFact){ op->span.source, line, FACT_NOTE,
                       arena_printf(f->page->arena, "bank conflict: %d lanes meet at one bank%s%s", work->conflicts,
                                    work->conflicting ? " of " : "", work->conflicting ? work->conflicting->name : ""),
                       -1 });
}

// around: the operation that an action without one belongs to.
static void add_actions(Facts *f, const Action *action, const TileOp *around)
{
    for (; action; action = action->next) {
        PageFactKind kind;
        const TileOp *const op = action->op ? action->op : around;
        const Span span = action->op || !action->span.source ? (op ? op->span : action->span) : action->span;
        const char *const words = kind_of(action, &kind) && span.source ? words_of(f, action) : NULL;
        if (words && (kind != FACT_SYNC || action->span.source || action->op))
            add_fact(f, (PageFact){ span.source, source_position(span.source, span.begin).line, kind,
                                    arena_printf(f->page->arena, "%s: %s", f->role->name, words), -1 });
        add_conflicts(f, action, op);
        add_actions(f, action->body, op);
        // What is done where the launch's strides allow no boxes would hide what is done as a rule.
        if (action->kind != ACTION_SCOPE) add_actions(f, action->otherwise, op);
    }
}

static void add_notes(Facts *f, const NoteList *notes)
{
    for (int i = 0; i < notes->list.count; i++) {
        const Note *const note = &notes->list.items[i];
        const char *const accepted = notes->accepted[note->kind];
        if (!note->span.source) continue;
        const char *const text = arena_printf(f->page->arena, "%s [%s]%s%s%s%s", note->why, note_infos[note->kind].name,
                                              note->instead && !accepted ? "; instead: " : "",
                                              note->instead && !accepted ? note->instead : "",
                                              accepted ? "; accepted: " : "", accepted ? accepted : "");
        add_fact(f, (PageFact){ note->span.source, source_position(note->span.source, note->span.begin).line, FACT_NOTE,
                                text, -1 });
    }
}

void page_add_facts(Page *page, PageKernel *kernel, const Compiled *compiled)
{
    Facts f = { page, kernel, compiled->unit->schedule, NULL };
    for (int i = 0; i < kernel->tiles.count; i++) add_tile_fact(&f, i);
    for (int i = 0; f.schedule && i < f.schedule->roles.count; i++) {
        f.role = f.schedule->roles.items[i];
        add_actions(&f, f.role->body, NULL);
    }
    add_notes(&f, &compiled->kernel->notes);
}
