// SPDX-License-Identifier: MIT
// kernel.c - build a kernel or operator: the front end under the program's lock, then the toolchain, and before both
// the index of what was built already.
//
// The index goes from everything that decides a build (texts, name, bindings, target, compiler, this library) straight
// to a record with plan and source and to the code, so that a cached build neither checks nor lowers.
#include "runtime/build.h"
#include "runtime/tuned.h"
#include "base/fork.h"
#include "base/memory.h"

#include <stdio.h>

// ---- code

static kiln_status take_object(kiln_kernel *kernel, void *object)
{
    void *const entry = cc_symbol(object, kernel->plan->symbol);
    kernel->object = object;
    if (!entry)
        return status_fail(KILN_TOOLCHAIN, "%s: the compiled code has no entry '%s'", kernel->plan->name,
                           kernel->plan->symbol);
    memcpy(&kernel->entry, &entry, sizeof entry);
    return KILN_OK;
}

static kiln_status take_cubin(kiln_kernel *kernel, const BuiltCode *code)
{
    const CudaResources *const r = &code->resources;
    kernel->cubin = code->image;
    kernel->report =
        (struct CudaReport){ r->registers,           r->stack_bytes,      r->spill_store_bytes + r->spill_load_bytes,
                             r->static_shared_bytes, r->serialised_wgmma, r->known };
    return kernel->device ? cuda_load(kernel) : KILN_OK;
}

static kiln_status take_code(kiln_kernel *kernel, const BuiltCode *code)
{
    return code->object ? take_object(kernel, code->object) : take_cubin(kernel, code);
}

// The target of a lowered kernel: without an arch it is the CPU's, as references of all kernels are.
static const TargetKind *kind_of(const LaunchPlan *plan)
{
    const TargetKind *const kind = plan->arch ? target_find(plan->target) : NULL;
    return kind ? kind : &target_cpu;
}

kiln_status kernel_attach(kiln_kernel *kernel)
{
    BuiltCode code;
    kernel->arch = kernel->plan->arch;
    return kind_of(kernel->plan)->toolchain->find(kernel->object_name, &code) ? take_code(kernel, &code)
                                                                              : KILN_NOT_FOUND;
}

static CodeRequest code_request(const BuildRequest *request)
{
    return (CodeRequest){ .target = &request->target,
                          .device_arch = request->device ? request->device->arch : 0,
                          .form = request->form != FORM_KERNEL ? CC_SEQUENTIAL
                                  : request->checked           ? CC_CHECKED
                                                               : CC_KERNEL };
}

// Runs the toolchain on a kernel that has plan and source.
static kiln_status make_code(kiln_kernel *kernel, const BuildRequest *request)
{
    const CodeRequest how = code_request(request);
    BuiltCode code;
    kernel->arch = kernel->plan->arch;
    const kiln_status status =
        kind_of(kernel->plan)->toolchain->build(kernel->source, &how, kernel->plan->name, kernel->object_name, &code);
    return status ? status : take_code(kernel, &code);
}

// ---- the front end, under the lock

// What the front end makes; it stands outside the arena's reach, so that a jump out of it leaves nothing behind.
typedef struct Front {
    const BuildRequest *request;
    kiln_kernel *kernel; // the result
    const char *stage;   // or these, for kernel_compile
    Text *dump;
    UseCompiled *use;
    void *context;
} Front;

// Copies what must outlive the compilation.
static kiln_status keep_compiled(kiln_kernel *kernel, const Compiled *compiled)
{
    if (setjmp(kernel->arena->out_of_memory) != 0) return status_fail(KILN_OUT_OF_MEMORY, "out of memory for a kernel");
    Text bytes = { .arena = kernel->arena };
    plan_write(&bytes, compiled->plan);
    kernel->plan = plan_read(kernel->arena, bytes.data, bytes.length);
    kernel->source = arena_copy_text(kernel->arena, compiled->source, strlen(compiled->source));
    kernel->explanation = arena_printf(kernel->arena, "%s%s", compiled->explanation, compiled->cost);
    Text notes = { .arena = kernel->arena };
    notes_print(&notes, &compiled->kernel->notes);
    kernel->notes = text_cstr(&notes);
    kernel->accepts_spills = compiled->kernel->notes.accepted[NOTE_SPILLS] != NULL;
    return kernel->plan ? KILN_OK
                        : status_fail(KILN_UNSUPPORTED, "%s: its launch plan cannot be stored", compiled->plan->name);
}

static CheckOptions check_options(const BuildRequest *request)
{
    return (CheckOptions){ .target = request->target.kind->name,
                           .arch = target_arch(&request->target),
                           .checked = request->checked,
                           .bindings = request->bindings,
                           .n_bindings = request->n_bindings };
}

static TileKernel *check_form(const BuildRequest *request, const CheckOptions *options)
{
    Program *const program = request->program->program;
    switch (request->form) {
    case FORM_KERNEL: return check_kernel(program, request->name, options);
    case FORM_REFERENCE: return check_reference(program, request->name, options);
    case FORM_VERIFY: return check_verify(program, request->name, options);
    case FORM_CASE_CODE: return check_case_code(program, request->name, request->one);
    }
    return NULL;
}

// `into` NULL: hands the result to front->use instead.
static kiln_status compile_tile(const Front *front, TileKernel *tile, bool follows, kiln_kernel *into)
{
    const Diags *const diags = front->request->program->program->diags;
    Target target = front->request->target;
    target.follows = follows;
    const Compiled *const compiled = tile ? compile_kernel(tile, &target, front->stage, front->dump) : NULL;
    if (!compiled)
        return diags->errors ? program_fail(diags)
                             : status_fail(KILN_NOT_FOUND, "'%s' has nothing of that kind", front->request->name);
    if (into) return keep_compiled(into, compiled);
    return front->use ? front->use(compiled, front->context) : KILN_OK;
}

// The steps of an operator become kernels of their own.
static kiln_status compile_operator(Front *front)
{
    const BuildRequest *const request = front->request;
    const CheckOptions options = check_options(request);
    const OperatorPlan *const plan = check_operator(request->program->program, request->name, &options);
    kiln_kernel *const kernel = front->kernel;
    kiln_status status = KILN_OK;
    if (!plan) return program_fail(request->program->program->diags);
    if (plan->n_temps > MAX_TEMPS)
        return status_fail(KILN_UNSUPPORTED, "'%s' has %d temporaries; %d are supported", request->name, plan->n_temps,
                           MAX_TEMPS);
    if (kernel && setjmp(kernel->arena->out_of_memory) != 0)
        return status_fail(KILN_OUT_OF_MEMORY, "out of memory for an operator");
    Steps *const steps = kernel ? operator_steps(kernel, plan) : NULL;
    for (int i = 0; !status && i < plan->n_steps; i++) {
        if (steps && !(steps->steps[i].kernel = kernel_new(request->device)))
            return status_fail(KILN_OUT_OF_MEMORY, "out of memory for an operator");
        status = compile_tile(front, plan->steps[i].kernel, i > 0, steps ? steps->steps[i].kernel : NULL);
    }
    return status;
}

static kiln_status compile_request(Front *front)
{
    const BuildRequest *const request = front->request;
    const CheckOptions options = check_options(request);
    if (request->form == FORM_KERNEL && program_find(request->program->program, DECL_OPERATOR, request->name))
        return compile_operator(front);
    return compile_tile(front, check_form(request, &options), false, front->kernel);
}

static kiln_status run_front(Front *front)
{
    kiln_program *const program = front->request->program;
    kiln_status status;
    fork_hold();
    pthread_mutex_lock(&program->lock);
    const ArenaMark mark = arena_mark(program->arena);
    Diags *const before = program->program->diags;
    if (setjmp(program->arena->out_of_memory) == 0) {
        program->program->diags = diags_new(program->arena);
        status = compile_request(front);
    } else {
        status = status_fail(KILN_OUT_OF_MEMORY, "out of memory compiling '%s'", front->request->name);
    }
    program->program->diags = before;
    arena_rewind(program->arena, mark);
    pthread_mutex_unlock(&program->lock);
    fork_release();
    return status;
}

kiln_status kernel_compile(const BuildRequest *request, const char *stage, Text *dump, UseCompiled *use, void *context)
{
    Front front = { .request = request, .stage = stage, .dump = dump, .use = use, .context = context };
    return run_front(&front);
}

// ---- building

static kiln_status make_all_code(kiln_kernel *kernel, const BuildRequest *request)
{
    kiln_status status = KILN_OK;
    if (!kernel->steps) return make_code(kernel, request);
    for (int i = 0; !status && i < kernel->steps->n_steps; i++)
        status = make_code(kernel->steps->steps[i].kernel, request);
    return status;
}

kiln_status kernel_translate(const BuildRequest *request, kiln_kernel **kernel)
{
    Front front = { .request = request, .kernel = kernel_new(request->device) };
    if (!front.kernel) return status_fail(KILN_OUT_OF_MEMORY, "out of memory for a kernel");
    const kiln_status status = run_front(&front);
    if (status) kiln_kernel_free(front.kernel);
    else *kernel = front.kernel;
    return status;
}

static kiln_status build_anew(const BuildRequest *request, kiln_kernel **kernel)
{
    kiln_kernel *made;
    kiln_status status = kernel_translate(request, &made);
    if (status) return status;
    status = make_all_code(made, request);
    if (status) kiln_kernel_free(made);
    else *kernel = made;
    return status;
}

// The compiler's part of a record's name; it fails where there is no compiler.
static kiln_status hash_toolchain(Hash *hash, const BuildRequest *request)
{
    const CodeRequest how = code_request(request);
    return request->target.kind->toolchain->hash(hash, &how);
}

static void hash_request(Hash *hash, const BuildRequest *request, Arena *arena)
{
    const Target *const target = &request->target;
    Text bindings = { .arena = arena };
    const int facts[] = { request->checked, (int)request->form, (int)target->cpu.isa, target->cpu.bf16,
                          target->cpu.vnni, target->cpu.amx,    target_arch(target) };
    bindings_print(&bindings, request->bindings, request->n_bindings);
    hash_add_text(hash, library_identity());
    hash_add_text(hash, request->program->hash);
    hash_add_text(hash, request->name);
    hash_add_text(hash, text_cstr(&bindings));
    hash_add_text(hash, target->kind->name);
    hash_add(hash, facts, sizeof facts);
    hash_add(hash, &target->wide, sizeof target->wide);
    hash_add(hash, &target->boxes_alone, sizeof target->boxes_alone);
    hash_add(hash, &target->silent, sizeof target->silent);
    hash_add(hash, &target->trace, sizeof target->trace);
}

enum { RECORD_NAME = HASH_NAME + 8 };

// The name of a kernel's record: of all that decides a build.
static kiln_status record_name(const BuildRequest *request, Arena *arena, char name[RECORD_NAME])
{
    Hash hash = hash_begin();
    const kiln_status status = hash_toolchain(&hash, request);
    hash_request(&hash, request, arena);
    hash_name(&hash, name);
    strcat(name, ".plan");
    return status;
}

// The name of the entry that holds the name of the record that was made last, by whatever compiler: where there is none
// now, what one made before is taken.
static void last_name(const BuildRequest *request, Arena *arena, char name[RECORD_NAME])
{
    const int device_arch = request->device ? request->device->arch : 0;
    Hash hash = hash_begin();
    hash_add_text(&hash, cpu_identity());
    hash_add(&hash, &device_arch, sizeof device_arch);
    hash_request(&hash, request, arena);
    hash_name(&hash, name);
    strcat(name, ".last");
}

static kiln_status find_record(const BuildRequest *request, const char *name, kiln_kernel **kernel)
{
    size_t n;
    char *const record = cache_read(name, &n);
    const kiln_status status = record ? kernel_restore(record, n, request->device, kernel) : KILN_NOT_FOUND;
    memory_free(record);
    return status;
}

// What some compiler made before, where there is none now.
static kiln_status find_last(const BuildRequest *request, Arena *arena, kiln_kernel **kernel)
{
    char last[RECORD_NAME];
    size_t n;
    last_name(request, arena, last);
    char *const record = cache_read(last, &n);
    const kiln_status status = record && n == RECORD_NAME ? find_record(request, record, kernel) : KILN_NOT_FOUND;
    memory_free(record);
    return status;
}

// A build that takes more launches, or explains itself, serves as well.
static kiln_status find_record_like(const BuildRequest *request, Arena *arena, kiln_kernel **kernel)
{
    char name[RECORD_NAME];
    kiln_status status = KILN_NOT_FOUND;
    for (int more = 0; more < 4 && status == KILN_NOT_FOUND; more++) {
        BuildRequest other = *request;
        if ((more & 1 && !request->target.silent) || (more & 2 && !request->target.boxes_alone)) continue;
        if (more & 1) other.target.silent = false;
        if (more & 2) other.target.boxes_alone = false;
        status =
            record_name(&other, arena, name) ? find_last(&other, arena, kernel) : find_record(&other, name, kernel);
    }
    return status;
}

static void keep_record(const BuildRequest *request, Arena *arena, const char name[RECORD_NAME],
                        const kiln_kernel *kernel)
{
    char last[RECORD_NAME], record[RECORD_NAME] = "";
    Text text = { .arena = arena };
    kernel_store(&text, kernel);
    last_name(request, arena, last);
    strcpy(record, name);
    if (cache_write(name, text.data, text.length)) cache_write(last, record, sizeof record);
}

// Case code is not kept: it depends on a case, which has no text of its own.
static kiln_status find_or_build(const BuildRequest *request, Arena *arena, kiln_kernel **kernel)
{
    char name[RECORD_NAME];
    if (request->form == FORM_CASE_CODE) return build_anew(request, kernel);
    kiln_status status = cache_check();
    if (!status) status = find_record_like(request, arena, kernel);
    if (status != KILN_NOT_FOUND) return status;
    status = record_name(request, arena, name);
    if (status) return status; // there is no compiler, and was none before
    status = build_anew(request, kernel);
    if (!status && setjmp(arena->out_of_memory) == 0) // a record that does not fit is merely not kept
        keep_record(request, arena, name, *kernel);
    return status;
}

// Runs `find_or_build` with an arena for what it needs on the way.
kiln_status kernel_build(const BuildRequest *request, kiln_kernel **kernel)
{
    Arena *const arena = arena_new();
    kiln_status status = KILN_OUT_OF_MEMORY;
    *kernel = NULL;
    if (arena && setjmp(arena->out_of_memory) == 0) status = find_or_build(request, arena, kernel);
    else status = status_fail(KILN_OUT_OF_MEMORY, "out of memory building '%s'", request->name);
    arena_free(arena);
    if (!status && request->device && !device_is_cpu(request->device) && request->form == FORM_KERNEL &&
        request->target.boxes_alone)
        wide_connect(*kernel, request);
    return status;
}

// `arch` 0: the device's own code, if there is some; else what runs on anything that is recent.
static kiln_status choose_gpu(const kiln_device *device, int arch, Target *target)
{
    char list[128];
    target->kind = &target_cuda;
    target->gpu = arch ? gpu_find(arch) : gpu_for_device(device->arch);
    if (!target->gpu)
        return status_fail(KILN_UNSUPPORTED, "CUDA architecture %d is not supported: choose %s", arch,
                           gpu_list(list, sizeof list));
    if (device && !gpu_code_runs(target->gpu, device->arch))
        return status_fail(KILN_UNSUPPORTED, "%s is sm_%d, which cannot run code for sm_%d", device->name, device->arch,
                           target->gpu->arch);
    target->card = device ? device->description : NULL;
    target->boxes_alone = device != NULL;
    return KILN_OK;
}

kiln_status target_choose(const kiln_device *device, const kiln_build_options *options, Target *target)
{
    static const kiln_build_options none;
    const kiln_build_options *const o = options ? options : &none;
    *target = (Target){ .kind = &target_cpu };
    const kiln_status status = status_check_size("kiln_build_options", o->struct_size, sizeof *o);
    if (status) return status;
    if (!device && !o->arch)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_kernel_build: 'device' is null and options->arch is not set");
    if (device && device_is_cpu(device)) {
        if (o->arch)
            return status_fail(KILN_BAD_ARGUMENT, "kiln_kernel_build: options->arch is %d, but the device is the cpu",
                               o->arch);
        return cpu_target_choose(o->isa, &target->cpu);
    }
    return choose_gpu(device, o->arch, target);
}

kiln_status kiln_kernel_build(kiln_device *device, kiln_program *program, const char *name, const char *bindings,
                              const kiln_build_options *options, kiln_kernel **kernel)
{
    if (!program || !name || !kernel)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_kernel_build: '%s' is null",
                           !program ? "program"
                           : !name  ? "name"
                                    : "kernel");
    BuildRequest request = { .device = device, .program = program, .name = name, .checked = options && options->check };
    Binding *bound = NULL;
    kiln_status status = target_choose(device, options, &request.target);
    request.target.silent = true;
    Arena *const arena = status ? NULL : arena_new();
    if (status) return status;
    if (arena && setjmp(arena->out_of_memory) == 0) {
        status = bindings_parse(arena, program, name, bindings, &bound, &request.n_bindings);
        request.bindings = bound;
        if (!status && options) status = tuned_apply(arena, &request, options->tuned, options->tuned_for);
        if (!status) status = kernel_build(&request, kernel);
    } else {
        status = status_fail(KILN_OUT_OF_MEMORY, "out of memory building '%s'", name);
    }
    arena_free(arena);
    return status;
}
