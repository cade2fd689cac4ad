// SPDX-License-Identifier: MIT
// write_roles.c - what each role does, in its order, and the barriers: who arrives, who waits.
#include "tools/page/html.h"
#include "tools/page/page.h"

static int number_of(const PageKernel *kernel, const Source *source)
{
    for (int i = 0; i < kernel->sources.count; i++)
        if (kernel->sources.items[i].source == source) return i;
    return -1;
}

static void write_action(Text *out, const PageKernel *kernel, const char *id, const PageAction *action)
{
    const int source = action->source ? number_of(kernel, action->source) : -1;
    text_print(out, "%*s", 2 * action->depth, "");
    html_text(out, action->text);
    if (source >= 0 && action->line)
        text_print(out, "  <a href=\"#%ss%dl%d\">line %d</a>", id, source, action->line, action->line);
    text_print(out, "\n");
}

static void write_role(Text *out, const PageKernel *kernel, const char *id, const PageRole *role)
{
    text_print(out, "<details open><summary>");
    html_print(out, "%s: threads %d to %d", role->name, role->first_thread, role->first_thread + role->threads - 1);
    if (role->registers) text_print(out, ", %d registers each", role->registers);
    text_print(out, "</summary>\n<pre class=\"code\" tabindex=\"0\">");
    for (int i = 0; i < role->actions.count; i++) write_action(out, kernel, id, &role->actions.items[i]);
    text_print(out, "</pre></details>\n");
}

static void write_barrier(Text *out, const PageBarrier *barrier)
{
    text_print(out, "<tr><td>");
    html_text(out, barrier->name);
    text_print(out, "</td><td>");
    html_text(out, *barrier->arrivers ? barrier->arrivers : "nobody");
    text_print(out, "</td><td class=\"arrow\" aria-hidden=\"true\">&#8594;</td><td>");
    html_text(out, *barrier->waiters ? barrier->waiters : "nobody");
    text_print(out, "</td><td>%s</td><td>", barrier->counts);
    if (barrier->slots)
        text_print(out, "%d mbarrier%s at byte %d", barrier->slots, barrier->slots == 1 ? "" : "s", barrier->offset);
    else text_print(out, "hardware");
    text_print(out, "</td></tr>\n");
}

void write_roles(Text *out, const PageKernel *kernel, const char *id)
{
    text_print(out, "<section id=\"%sbarriers\"><h2>Barriers: who waits for whom</h2>\n", id);
    if (kernel->barriers.count) {
        text_print(
            out,
            "<div class=\"scroll\"><table><thead><tr><th>barrier</th><th>arrives</th><th></th><th>waits</th><th>a phase ends after</th>"
            "<th>where</th></tr></thead><tbody>\n");
        for (int i = 0; i < kernel->barriers.count; i++) write_barrier(out, &kernel->barriers.items[i]);
        text_print(out, "</tbody></table></div>\n");
    } else {
        text_print(out, "<p>None: no warp waits for another.</p>\n");
    }
    text_print(out, "</section>\n<section id=\"%sroles\"><h2>Warp roles</h2>\n", id);
    text_print(
        out,
        "<p>What the threads of each role do, in their order, as <code>kiln dump --stage=schedule</code> prints it.</p>\n");
    for (int i = 0; i < kernel->roles.count; i++) write_role(out, kernel, id, &kernel->roles.items[i]);
    text_print(out, "</section>\n");
}
