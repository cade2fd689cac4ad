// SPDX-License-Identifier: MIT
// devices.c - `kiln devices`: what kernels can run on here, and what compiles them.
#include "tools/tool.h"

static void print_row(bool json, const char *name, bool ok, const char *text)
{
    if (json) {
        printf(", \"%s\": {\"usable\": %s, \"description\": ", name, ok ? "true" : "false");
        print_json_text(stdout, text);
        printf("}");
        return;
    }
    printf("%-8s %s%s%s\n", name, ok ? "" : paint(stdout, YELLOW), text, ok ? "" : paint(stdout, PLAIN));
}

static void print_device(bool json, const char *name)
{
    kiln_device *device = NULL;
    const bool ok = kiln_device_open(name, &device) == KILN_OK;
    print_row(json, name, ok, ok ? kiln_device_describe(device) : kiln_error_message());
    kiln_device_close(device);
}

int tool_devices(int argc, char **argv)
{
    bool json = false;
    const Option options[] = { { "--json", OPTION_FLAG, &json, NULL, "print one JSON object" } };
    const Usage usage = { "kiln devices [OPTION...]",
                          "Lists the devices kernels can run on, and the compilers for them.", options, COUNT(options),
                          "  kiln devices\n" };
    char text[512], name[24];
    int n;
    const int end = parse_options(&usage, argc, argv, &n);
    if (end >= 0) return end;
    if (n > 0) return fail_usage("devices takes no argument, but '%s' was given", argv[0]);
    if (json) printf("{\"version\": \"%s\"", KILN_VERSION);
    print_device(json, "cpu");
    const int gpus = kiln_device_count("cuda");
    for (int i = 0; i < (gpus ? gpus : 1); i++) {
        snprintf(name, sizeof name, "cuda:%d", i);
        print_device(json, name);
    }
    const bool cc = cc_describe(NULL, cpu_form_of_machine()->native, text, sizeof text) == KILN_OK;
    print_row(json, "cc", cc, cc ? text : kiln_error_message());
    const bool nvrtc = nvrtc_describe(text, sizeof text) == KILN_OK;
    print_row(json, "nvrtc", nvrtc, nvrtc ? text : kiln_error_message());
    if (json) printf("}\n");
    return EXIT_OK;
}
