// SPDX-License-Identifier: MIT
// write_page.c - the page's outline: head, overview, a part for each kernel, and what is folded in at the end.
#include "tools/page/html.h"
#include "tools/page/page.h"

enum { CODE_BYTES_MAX = 250 * 1000 }; // of one text that is folded in; the rest is left out, which is said

static void write_navigation(Text *out, const PageKernel *kernel, const char *id)
{
    static const char *const parts[][2] = {
        { "source", "Source" }, { "timeline", "Timeline" }, { "barriers", "Barriers" }, { "roles", "Warp roles" },
        { "tiles", "Layouts" }, { "memory", "Memory" },     { "code", "Code" },
    };
    text_print(out, "<nav aria-label=\"Parts\">");
    for (int i = 0; i < (int)(sizeof parts / sizeof *parts); i++) {
        const bool is_gpu = i != 0 && i != 6, is_measured = i == 1 && kernel->measured;
        if (is_gpu && kernel->no_schedule && !is_measured) continue;
        text_print(out, "<a href=\"#%s%s\">%s</a> ", id, parts[i][0], parts[i][1]);
    }
    text_print(out, "<a href=\"#roofline\">Roofline</a></nav>\n");
}

static void write_folded(Text *out, const char *title, const char *text)
{
    size_t n = strlen(text);
    int left_out = 0;
    if (n > CODE_BYTES_MAX) {
        n = CODE_BYTES_MAX;
        while (n > 0 && text[n - 1] != '\n') n--;
        for (const char *at = text + n; *at; at++) left_out += *at == '\n';
    }
    text_print(out, "<details><summary>");
    html_text(out, title);
    text_print(out, "</summary><pre class=\"code\" tabindex=\"0\">");
    html_text_n(out, text, n);
    text_print(out, "</pre>");
    if (left_out)
        text_print(out, "<p>%d more lines are left out; <code>kiln dump</code> prints them all.</p>", left_out);
    text_print(out, "</details>\n");
}

static void write_code(Text *out, const PageKernel *kernel, const char *id)
{
    text_print(out, "<section id=\"%scode\"><h2>Code</h2>\n", id);
    if (kernel->code) write_folded(out, kernel->code_title, kernel->code);
    if (kernel->ptx) write_folded(out, "PTX", kernel->ptx);
    else if (kernel->no_ptx) {
        text_print(out, "<p class=\"reason\">No PTX: ");
        html_text(out, kernel->no_ptx);
        text_print(out, "</p>\n");
    }
    if (kernel->explanation && *kernel->explanation) write_folded(out, "What kiln explain prints", kernel->explanation);
    text_print(out, "</section>\n");
}

static void write_kernel(Text *out, const Page *page, int number)
{
    const PageKernel *const kernel = page->kernels.items[number];
    const char *const id = page->kernels.count > 1 ? arena_printf(out->arena, "step%d-", number + 1) : "";
    text_print(out, "<article>\n");
    if (page->kernels.count > 1) text_print(out, "<h2>Step %d</h2>\n", number + 1);
    text_print(out, "<p class=\"name\"><code>");
    html_text(out, kernel->name);
    text_print(out, "</code> for ");
    html_text(out, kernel->target);
    text_print(out, "</p>\n<ul class=\"facts\">");
    for (int i = 0; i < kernel->facts.count; i++) {
        text_print(out, "<li>");
        html_text(out, kernel->facts.items[i]);
        text_print(out, "</li>");
    }
    text_print(out, "</ul>\n");
    write_navigation(out, kernel, id);
    write_source(out, kernel, id);
    if (kernel->no_schedule) {
        text_print(out, "<p class=\"reason\">");
        html_text(out, kernel->no_schedule);
        text_print(out, "</p>\n");
        if (kernel->measured) write_timelines(out, kernel, id);
    } else {
        write_timelines(out, kernel, id);
        write_roles(out, kernel, id);
        write_tiles(out, kernel, id);
        write_memory(out, kernel, id);
    }
    write_code(out, kernel, id);
    text_print(out, "</article>\n");
}

void page_write(Text *out, const Page *page)
{
    text_print(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                    "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
    html_text(out, page->title);
    text_print(out, "</title>\n<style>\n");
    text_add(out, page_style, strlen(page_style));
    print_layout_style(out);
    text_print(out, "\n</style>\n</head>\n<body>\n<main>\n<h1>");
    html_text(out, page->title);
    text_print(out, "</h1>\n<p class=\"command\"><code>");
    html_text(out, page->command);
    text_print(out, "</code></p>\n");
    for (int i = 0; i < page->kernels.count; i++) write_kernel(out, page, i);
    write_roofline(out, &page->roofline);
    text_print(out, "</main>\n<p id=\"said\" role=\"status\" hidden></p>\n<script>\n");
    text_add(out, page_script, strlen(page_script));
    text_print(out, "</script>\n</body>\n</html>\n");
}
