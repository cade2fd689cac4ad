// SPDX-License-Identifier: MIT
// debug.c - what `print` shows, what --check builds say, and what no lowering takes yet.
#include "lower/common/common.h"

static void add_escaped(Text *out, char c) { text_print(out, c == '%' ? "%%%%" : "%c", c); }

// The language's format holds {} for each value; values without one follow, separated by spaces.
const char *common_print_format(Arena *arena, const TileOp *op)
{
    Text format = { .arena = arena };
    int used = 0;
    for (const char *p = span_where(arena, op->span); *p; p++) add_escaped(&format, *p);
    text_print(&format, ": ");
    const size_t start = format.length;
    for (const char *p = op->print.format ? op->print.format : ""; *p; p++) {
        if (p[0] == '{' && p[1] == '}' && used < op->print.n) {
            text_print(&format, "%s", print_conversion(op->print.args[used++]->type));
            p++;
        } else {
            add_escaped(&format, *p);
        }
    }
    for (; used < op->print.n; used++)
        text_print(&format, "%s%s", format.length > start ? " " : "", print_conversion(op->print.args[used]->type));
    return text_cstr(&format);
}

const char *common_outside_text(Arena *arena, const Buffer *buffer)
{
    return arena_printf(arena, "a subscript of '%s' is outside its extent", buffer->name);
}

const char *common_unwritten_text(Arena *arena, const Buffer *buffer)
{
    return arena_printf(arena, "reads an element of '%s' that nothing has written", buffer->name);
}

bool common_is_inside(const Expr *sub, const Expr *extent)
{
    const Range r = expr_range(sub);
    int64_t n;
    return expr_as_int(extent, &n) && r.has_lo && r.has_hi && r.lo >= 0 && r.hi < n;
}

bool common_is_asserted(const TileKernel *kernel, const TileOp *op) { return !op->assertion.assume || kernel->checked; }

bool common_unsupported(const TileKernel *kernel, Span span, const char *format, va_list args)
{
    return diag_error(kernel->diags, span, "%s is not supported on %s yet", arena_vprintf(kernel->arena, format, args),
                      kernel->target);
}
