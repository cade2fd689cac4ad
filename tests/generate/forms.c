// SPDX-License-Identifier: MIT
// forms.c - a kernel is built, launched on copies of its tensors with guards around them, and compared element by element.
#include "forms.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const Form forms[FORMS] = {
    { .name = "native", .device = "cpu" },
    { .name = "avx2", .device = "cpu", .isa = "avx2" },
    { .name = "portable", .device = "cpu", .isa = "portable" },
    { .name = "check", .device = "cpu", .check = true },
    { .name = "sm_90", .device = "cuda:0", .arch = 90 },
    { .name = "sm_80", .device = "cuda:0", .arch = 80 },
    { .name = "sm_90-check", .device = "cuda:0", .arch = 90, .check = true },
};

// clang-format off
const Plant plants[PLANTS] = {
    { "minimum", "max(", "min(" },    { "sum", " += ", " -= " },       { "comparison", " < ", " <= " },  { "shift", " >> ", " << " },
    { "select", " ? ", " == 0 ? " },  { "start", " * 2)", " * 2 + 1)" },   { "largest", " max= ", " min= " }, { "index", " - i", " - 1 - i" },
};
// clang-format on

enum { GUARD_BYTES = 64, GUARD = 0xa5, MAX_LAUNCHED = 64 };

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---- tensors as they lie in memory

typedef struct Image {
    Memory *memory;
    kiln_tensor tensor;
    unsigned char *host, *before;
    void *device_memory;
    size_t bytes;
} Image;

// clang-format off
static const kiln_type public_types[TYPES] = {
    [F64] = KILN_F64, [F32] = KILN_F32, [TF32] = KILN_TF32, [F16] = KILN_F16, [BF16] = KILN_BF16, [E4M3] = KILN_E4M3, [E5M2] = KILN_E5M2,
    [E2M1] = KILN_E2M1, [I64] = KILN_I64, [I32] = KILN_I32, [I16] = KILN_I16, [I8] = KILN_I8, [I4] = KILN_I4, [I2] = KILN_I2,
    [U64] = KILN_U64, [U32] = KILN_U32, [U16] = KILN_U16, [U8] = KILN_U8, [U4] = KILN_U4, [U2] = KILN_U2, [BOOL] = KILN_BOOL,
};
// clang-format on

// Where an element lies, in elements.
static int64_t offset_of(const Memory *memory, int64_t flat)
{
    const int64_t last = memory->dims[memory->rank - 1];
    return memory->strided ? flat / last * (last + memory->padding) + flat % last : flat;
}

static uint64_t load_bits(const Memory *memory, const unsigned char *data, int64_t flat)
{
    const int bits = type_info[memory->type].bits;
    const int64_t at = offset_of(memory, flat);
    uint64_t word = 0;
    if (bits < 8) return data[at * bits / 8] >> (at * bits % 8) & ((1u << bits) - 1);
    memcpy(&word, data + at * (bits / 8), (size_t)bits / 8);
    return word;
}

static void store_bits(const Memory *memory, unsigned char *data, int64_t flat, uint64_t word)
{
    const int bits = type_info[memory->type].bits;
    const int64_t at = offset_of(memory, flat);
    if (bits >= 8) {
        memcpy(data + at * (bits / 8), &word, (size_t)bits / 8);
        return;
    }
    const int shift = (int)(at * bits % 8), ones = (1 << bits) - 1;
    data[at * bits / 8] =
        (unsigned char)((data[at * bits / 8] & ~(ones << shift)) | (int)(word & (uint64_t)ones) << shift);
}

static void make_image(Image *image, Memory *memory)
{
    *image = (Image){ .memory = memory };
    kiln_tensor *const t = &image->tensor;
    int64_t rows = 1;
    *t = kiln_tensor_of(NULL, NULL, public_types[memory->type], memory->rank, memory->dims);
    t->has_strides = memory->strided;
    int64_t stride = 1;
    for (int i = memory->rank; i-- > 0;) {
        t->strides[i] = stride;
        stride *= memory->dims[i] + (i == memory->rank - 1 ? memory->padding : 0);
        rows = i < memory->rank - 1 ? rows * memory->dims[i] : rows;
    }
    const int64_t last = memory->dims[memory->rank - 1] + (memory->strided ? memory->padding : 0);
    image->bytes = (size_t)(rows * last * type_info[memory->type].bits + 7) / 8 + GUARD_BYTES;
    image->host = aligned_alloc(256, (image->bytes + 255) / 256 * 256);
    image->before = malloc(image->bytes);
    if (!image->host || !image->before) abort();
    memset(image->host, GUARD, image->bytes);
    for (int64_t i = 0; i < memory->n; i++) store_bits(memory, image->host, i, memory->given[i]);
    memcpy(image->before, image->host, image->bytes);
    t->data = image->host;
}

static kiln_status send_image(Image *image, kiln_device *device)
{
    const kiln_status status = kiln_alloc(device, image->bytes, &image->device_memory);
    image->tensor.device = device;
    image->tensor.data = image->device_memory;
    return status ? status : kiln_upload(device, image->device_memory, image->host, image->bytes);
}

// ---- comparing

static void show_value(char *text, size_t bytes, Type type, uint64_t word)
{
    const Value v = value_of_bits(type, word);
    if (is_float(type)) snprintf(text, bytes, "%.9g (0x%" PRIx64 ")", v.f, word);
    else if (type == U64) snprintf(text, bytes, "%" PRIu64, (uint64_t)v.i);
    else snprintf(text, bytes, "%" PRId64, v.i);
}

static void describe_element(Result *result, const Image *image, int64_t flat, uint64_t got)
{
    const Memory *const m = image->memory;
    char place[128] = "", have[64], want[64];
    int64_t index[MAX_RANK], rest = flat;
    for (int i = m->rank; i-- > 0; rest /= m->dims[i]) index[i] = rest % m->dims[i];
    for (int i = 0; i < m->rank; i++)
        snprintf(place + strlen(place), sizeof place - strlen(place), "[%" PRId64 "]", index[i]);
    show_value(have, sizeof have, m->type, got);
    show_value(want, sizeof want, m->type, m->cells[flat].bits);
    snprintf(result->reason, sizeof result->reason, "%s%s of %s is %s, expected %s", m->name, place,
             type_info[m->type].name, have, want);
}

// All elements, and that nothing lies where none are.
static bool image_agrees(Image *image, Result *result)
{
    const Memory *const m = image->memory;
    for (int64_t i = 0; i < m->n; i++) {
        const uint64_t got = load_bits(m, image->host, i);
        if (m->cells[i].vague) {
            result->vague++;
            store_bits(m, image->host, i, 0);
            store_bits(m, image->before, i, 0);
            continue;
        }
        result->compared++;
        if (got != m->cells[i].bits &&
            !same_value(value_of_bits(m->type, got), value_of_bits(m->type, m->cells[i].bits))) {
            describe_element(result, image, i, got);
            return false;
        }
        store_bits(m, image->host, i, 0);
        store_bits(m, image->before, i, 0);
    }
    if (memcmp(image->host, image->before, image->bytes) == 0) return true;
    snprintf(result->reason, sizeof result->reason, "bytes beside the elements of %s were written", m->name);
    return false;
}

// ---- building and launching

static char *planted(const char *text, const Plant *plant)
{
    Writer out = { 0 };
    for (const char *p; (p = strstr(text, plant->from)) != NULL; text = p + strlen(plant->from))
        write_text(&out, "%.*s%s", (int)(p - text), text, plant->to);
    write_text(&out, "%s", text);
    return out.text;
}

// The section that the place in a message belongs to: "generated.tile:LINE:".
static int section_of_message(const char *message, const char *text)
{
    const char *const place = strstr(message, "generated.tile:");
    int section = -1, number = 0, line = place ? atoi(place + strlen("generated.tile:")) : 0;
    for (const char *p = text; p && line > 0; line--) {
        if (sscanf(p, " // section %d", &number) == 1) section++;
        p = strchr(p, '\n');
        p = p ? p + 1 : NULL;
    }
    return section;
}

static kiln_status build(const Form *form, kiln_device *device, const char *text, kiln_kernel **kernel)
{
    kiln_program *program = NULL;
    const kiln_build_options options = { .check = form->check, .arch = form->arch, .isa = form->isa };
    kiln_status status = kiln_program_load_text("generated.tile", text, &program);
    if (!status) status = kiln_kernel_build(device, program, "generated", NULL, &options, kernel);
    kiln_program_free(program);
    return status;
}

static kiln_status launch(const Form *form, kiln_device *device, kiln_kernel *kernel, Section *const *sections, int n,
                          Image *images)
{
    kiln_arg args[MAX_LAUNCHED];
    int n_args = 0, n_images = 0;
    kiln_status status = KILN_OK;
    const bool on_cpu = strcmp(form->device, "cpu") == 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < sections[i]->n_tensors; k++) {
            Image *const image = &images[n_images++];
            if (!on_cpu && !status) status = send_image(image, device);
            args[n_args++] = KILN_TENSOR(&image->tensor);
        }
        for (int k = 0; k < sections[i]->n_scalars; k++)
            args[n_args++] = is_float(sections[i]->scalars[k]->type) ? KILN_FLOAT(sections[i]->scalars[k]->value.f)
                                                                     : KILN_INT(sections[i]->scalars[k]->value.i);
    }
    if (!status) status = kiln_launch(kernel, NULL, args, n_args);
    if (!status) status = kiln_stream_wait(device, NULL);
    for (int i = 0; i < n_images && !on_cpu; i++) {
        if (!status) status = kiln_download(device, images[i].host, images[i].device_memory, images[i].bytes);
        kiln_free(device, images[i].device_memory);
    }
    return status;
}

static void run_kernel(const Form *form, kiln_device *device, kiln_kernel *kernel, Section *const *sections, int n,
                       Result *result)
{
    Image images[MAX_LAUNCHED];
    int n_images = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < sections[i]->n_tensors; k++) make_image(&images[n_images++], sections[i]->tensors[k]);
    const double started = now();
    if (launch(form, device, kernel, sections, n, images)) {
        result->outcome = FAILED;
        snprintf(result->reason, sizeof result->reason, "launch: %s", kiln_error_message());
    }
    result->run_seconds = now() - started;
    for (int i = 0, image = 0; i < n; i++)
        for (int k = 0; k < sections[i]->n_tensors; k++, image++)
            if (result->outcome == AGREES && !image_agrees(&images[image], result)) {
                result->outcome = DIFFERS;
                result->section = i;
            }
    for (int i = 0; i < n_images; i++) {
        free(images[i].host);
        free(images[i].before);
    }
}

Result run_form(const Form *form, Section *const *sections, int n, const Grid *grid, const Plant *plant)
{
    Result result = { .outcome = AGREES, .section = -1 };
    Writer out = { 0 };
    kiln_device *device = NULL;
    kiln_kernel *kernel = NULL;
    print_kernel(&out, sections, n, grid);
    char *const text = plant ? planted(out.text, plant) : out.text;
    kiln_status status = kiln_device_open(form->device, &device);
    const double started = now();
    if (!status) status = build(form, device, text, &kernel);
    result.build_seconds = now() - started;
    if (status) {
        result.outcome = status == KILN_BAD_SOURCE ? REFUSED : status == KILN_UNSUPPORTED ? UNSUPPORTED : FAILED;
        snprintf(result.reason, sizeof result.reason, "%s", kiln_error_message());
        result.section = section_of_message(result.reason, text);
    } else run_kernel(form, device, kernel, sections, n, &result);
    if (result.outcome == FAILED) result.section = section_of_message(result.reason, text);
    kiln_kernel_free(kernel);
    if (device) kiln_device_close(device);
    if (text != out.text) free(text);
    free(out.text);
    return result;
}
