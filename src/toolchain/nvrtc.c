// SPDX-License-Identifier: MIT
// nvrtc.c - NVIDIA's run-time compiler, opened when first needed: CUDA C to cubin, without nvcc or headers.
//
// What ptxas reports of registers, stack and spills comes with the log of `--ptxas-options=-v`, and so do its
// warnings that wgmma was serialised, which cost most of a kernel's speed. Log and cubin are cached together, so
// that the report of a cached kernel is there as well.
#define _GNU_SOURCE // secure_getenv
#include "toolchain/toolchain.h"
#include "base/fork.h"
#include "base/memory.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// The few entry points used, as their manual declares them. 0 is success.
typedef struct NvrtcProgram NvrtcProgram;
typedef struct Nvrtc {
    void *library;
    char path[PATH_BYTES];
    int major, minor;
    int (*version)(int *major, int *minor);
    int (*create)(NvrtcProgram **program, const char *source, const char *name, int n, const char *const *headers,
                  const char *const *names);
    int (*destroy)(NvrtcProgram **program);
    int (*compile)(NvrtcProgram *program, int n, const char *const *options);
    int (*log_size)(NvrtcProgram *program, size_t *n);
    int (*log)(NvrtcProgram *program, char *log);
    int (*cubin_size)(NvrtcProgram *program, size_t *n);
    int (*cubin)(NvrtcProgram *program, char *cubin);
    int (*ptx_size)(NvrtcProgram *program, size_t *n);
    int (*ptx)(NvrtcProgram *program, char *ptx);
    const char *(*error)(int result);
    char problem[512];
} Nvrtc;

static Nvrtc nvrtc;

// ---- opening it

static bool find_entries(Nvrtc *n)
{
    // clang-format off
    const struct { const char *name; void *slot; } entries[] = {
        { "nvrtcVersion", &n->version },          { "nvrtcCreateProgram", &n->create },
        { "nvrtcDestroyProgram", &n->destroy },   { "nvrtcCompileProgram", &n->compile },
        { "nvrtcGetProgramLogSize", &n->log_size }, { "nvrtcGetProgramLog", &n->log },
        { "nvrtcGetCUBINSize", &n->cubin_size },  { "nvrtcGetCUBIN", &n->cubin },
        { "nvrtcGetPTXSize", &n->ptx_size },      { "nvrtcGetPTX", &n->ptx },
        { "nvrtcGetErrorString", &n->error },
    };
    // clang-format on
    for (int i = 0; i < COUNT(entries); i++) {
        void *const found = dlsym(n->library, entries[i].name);
        if (!found)
            return snprintf(n->problem, sizeof n->problem, "%.400s has no %s: too old", n->path, entries[i].name),
                   false;
        memcpy(entries[i].slot, &found, sizeof found);
    }
    if (n->version(&n->major, &n->minor) != 0)
        return snprintf(n->problem, sizeof n->problem, "%.400s does not say its version", n->path), false;
    return true;
}

static bool open_at(Nvrtc *n, const char *path)
{
    n->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!n->library) return false;
    snprintf(n->path, sizeof n->path, "%s", path);
    if (find_entries(n)) return true;
    dlclose(n->library);
    n->library = NULL;
    return false;
}

// The newest of the files that match.
static bool open_matching(Nvrtc *n, const char *pattern)
{
    glob_t found;
    bool ok = false;
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = found.gl_pathc; !ok && i-- > 0;) ok = open_at(n, found.gl_pathv[i]);
    globfree(&found);
    return ok;
}

static bool open_under(Nvrtc *n, const char *folder, const char *pattern)
{
    char path[PATH_BYTES];
    return folder && *folder && snprintf(path, sizeof path, "%s%s", folder, pattern) < (int)sizeof path &&
           open_matching(n, path);
}

static void open_nvrtc(void)
{
    static const char *const names[] = { "libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12" };
    static const char *const places[] = {
        "/usr/local/cuda/lib64/libnvrtc.so*",
        "/usr/local/cuda-*/lib64/libnvrtc.so*",
        "/usr/lib/x86_64-linux-gnu/libnvrtc.so*",
        "/usr/lib/aarch64-linux-gnu/libnvrtc.so*",
        "/usr/lib64/libnvrtc.so*",
        "/opt/cuda/lib64/libnvrtc.so*",
    };
    Nvrtc *const n = &nvrtc;
    const char *const given = secure_getenv("KILN_NVRTC");
    if (given && *given) {
        if (!open_at(n, given) && !n->problem[0])
            snprintf(n->problem, sizeof n->problem, "KILN_NVRTC is '%.200s', which cannot be opened (%.200s)", given,
                     dlerror());
        return;
    }
    for (int i = 0; i < COUNT(names); i++)
        if (open_at(n, names[i])) return;
    if (open_under(n, secure_getenv("CUDA_HOME"), "/lib64/libnvrtc.so*") ||
        open_under(n, secure_getenv("CUDA_PATH"), "/lib64/libnvrtc.so*") ||
        open_under(n, secure_getenv("VIRTUAL_ENV"), "/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so*"))
        return;
    for (int i = 0; i < COUNT(places); i++)
        if (open_matching(n, places[i])) return;
    if (!n->problem[0])
        snprintf(n->problem, sizeof n->problem,
                 "libnvrtc was not found: compiling for CUDA needs it (part of the CUDA "
                 "toolkit); name its file in KILN_NVRTC if it is in an unusual place");
}

static kiln_status need_nvrtc(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    fork_hold();
    pthread_once(&once, open_nvrtc);
    fork_release();
    return nvrtc.library ? KILN_OK : status_fail(KILN_TOOLCHAIN, "%s", nvrtc.problem);
}

kiln_status nvrtc_describe(char *text, size_t bytes)
{
    const kiln_status status = need_nvrtc();
    if (!status) snprintf(text, bytes, "NVRTC %d.%d (%s)", nvrtc.major, nvrtc.minor, nvrtc.path);
    return status;
}

// ---- what ptxas says

static int number_before(const char *line, const char *phrase)
{
    const char *at = strstr(line, phrase);
    if (!at) return 0;
    while (at > line && at[-1] == ' ') at--;
    while (at > line && at[-1] >= '0' && at[-1] <= '9') at--;
    return atoi(at);
}

static int number_after(const char *line, const char *phrase)
{
    const char *const at = strstr(line, phrase);
    return at ? atoi(at + strlen(phrase)) : 0;
}

static void raise_to(int *most, int value) { *most = value > *most ? value : *most; }

static void read_line(const char *line, CudaResources *r)
{
    raise_to(&r->stack_bytes, number_before(line, "bytes stack frame"));
    raise_to(&r->spill_store_bytes, number_before(line, "bytes spill stores"));
    raise_to(&r->spill_load_bytes, number_before(line, "bytes spill loads"));
    raise_to(&r->static_shared_bytes, number_before(line, "bytes smem"));
    if (strstr(line, "Used ")) {
        raise_to(&r->registers, number_after(line, "Used "));
        r->known = true;
    }
    // C7510 to C7520: "Potential Performance Loss: wgmma.mma_async instructions are serialized due to ..."
    const char *const code = strstr(line, "(C75");
    const int n = code ? atoi(code + 2) : 0;
    r->serialised_wgmma |= (n >= 7510 && n <= 7520) || strstr(line, "instructions are serialized") != NULL;
}

static CudaResources read_log(const char *log)
{
    CudaResources r = { 0 };
    for (const char *line = log; *line;) {
        const size_t n = strcspn(line, "\n");
        char text[512];
        snprintf(text, sizeof text, "%.*s", (int)(n < 500 ? n : 500), line);
        read_line(text, &r);
        line += n + (line[n] == '\n');
    }
    return r;
}

// ---- compiling

CudaArch cuda_arch(const GpuTarget *gpu, int device_arch)
{
    CudaArch arch;
    if (gpu->exact || !device_arch) snprintf(arch.name, sizeof arch.name, "%s", gpu->name);
    else snprintf(arch.name, sizeof arch.name, "sm_%d", device_arch);
    return arch;
}

static char *get_text(NvrtcProgram *program, int (*size)(NvrtcProgram *, size_t *), int (*get)(NvrtcProgram *, char *),
                      size_t *bytes)
{
    size_t n = 0;
    char *const text = size(program, &n) == 0 ? memory_alloc(n + 1) : NULL;
    if (text && get(program, text) != 0) text[0] = 0;
    *bytes = n;
    return text;
}

static kiln_status explain_failure(const char *what, CudaArch arch, int result, const char *log)
{
    char first[1200];
    snprintf(first, sizeof first, "%s", log ? log : "");
    if (strstr(first, "--gpu-architecture"))
        return status_fail(
            KILN_TOOLCHAIN,
            "NVRTC %d.%d (%s) cannot compile for %s: another version is needed; KILN_NVRTC names its file", nvrtc.major,
            nvrtc.minor, nvrtc.path, arch.name);
    return status_fail(KILN_TOOLCHAIN, "NVRTC failed on the code made for %s (%s)%s%s", what, nvrtc.error(result),
                       *first ? ":\n" : "", first);
}

enum { STACK_BYTES = 64 << 20 }; // of which what is not used costs nothing

// One compilation, in a thread of its own: NVRTC cannot be stopped, and lets one thread of a process in at a time, so who
// asks must be able to go away. The last of the two frees it.
typedef struct Job {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool done, left; // NVRTC has returned; nobody waits any more
    char *source, option[32];
    bool ptx, lines; // lines: with a table of the source's lines
    int result;
    char *code, *log;
    size_t n_code, n_log;
} Job;

typedef enum { OUTPUT_CUBIN, OUTPUT_PTX, OUTPUT_LINES } Output; // LINES: a cubin with them

static void free_job(Job *job)
{
    pthread_mutex_destroy(&job->lock);
    pthread_cond_destroy(&job->ended);
    memory_free(job->source);
    memory_free(job->code);
    memory_free(job->log);
    memory_free(job);
}

static Job *new_job(const char *source, CudaArch arch, Output output)
{
    Job *const job = memory_alloc(sizeof *job);
    char *const copy = job ? memory_copy_text(source) : NULL;
    pthread_condattr_t clock;
    if (!copy) {
        memory_free(job);
        return NULL;
    }
    job->source = copy;
    job->ptx = output == OUTPUT_PTX;
    job->lines = output == OUTPUT_LINES;
    // Of a virtual architecture there is no cubin, and ptxas, half of the time, does not run.
    snprintf(job->option, sizeof job->option, "-arch=%s%s", job->ptx ? "compute_" : "sm_", arch.name + strlen("sm_"));
    pthread_mutex_init(&job->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&job->ended, &clock);
    pthread_condattr_destroy(&clock);
    return job;
}

static void compile(Job *job)
{
    // --minimal leaves out the built-in headers, which take longer to read than any kernel.
    const char *options[7] = { job->option, "-std=c++17", "--minimal", "-diag-suppress=177" };
    int n = 4;
    if (!job->ptx) options[n++] = "--ptxas-options=-v";
    if (job->lines) options[n++] = "--generate-line-info";
    if (nvrtc.major > 12 || (nvrtc.major == 12 && nvrtc.minor >= 9))
        options[n++] = "--no-cache"; // its own, from which code comes without what ptxas said
    NvrtcProgram *program = NULL;
    job->result = nvrtc.create(&program, job->source, "kernel.cu", 0, NULL, NULL);
    if (job->result) return;
    job->result = nvrtc.compile(program, n, options);
    job->log = get_text(program, nvrtc.log_size, nvrtc.log, &job->n_log);
    if (!job->result)
        job->code = job->ptx ? get_text(program, nvrtc.ptx_size, nvrtc.ptx, &job->n_code)
                             : get_text(program, nvrtc.cubin_size, nvrtc.cubin, &job->n_code);
    nvrtc.destroy(&program);
}

static void *work(void *context)
{
    Job *const job = context;
    compile(job);
    pthread_mutex_lock(&job->lock);
    job->done = true;
    const bool left = job->left;
    pthread_cond_signal(&job->ended);
    pthread_mutex_unlock(&job->lock);
    if (left) free_job(job);
    return NULL;
}

// False: no time is left, and the job is the thread's alone.
static bool wait_for(Job *job, int seconds)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += seconds;
    pthread_mutex_lock(&job->lock);
    while (!job->done && pthread_cond_timedwait(&job->ended, &job->lock, &end) == 0) {
    }
    const bool done = job->done;
    job->left = !done;
    pthread_mutex_unlock(&job->lock);
    return done;
}

typedef struct Made {
    char *code, *log;
    size_t n_code;
} Made;

static kiln_status take_result(Job *job, const char *what, CudaArch arch, Made *made)
{
    if (job->result) return explain_failure(what, arch, job->result, job->log);
    if (!job->code) return status_fail(KILN_OUT_OF_MEMORY, "out of memory for the code of %s", what);
    *made = (Made){ job->code, job->log, job->n_code };
    job->code = job->log = NULL;
    return KILN_OK;
}

static kiln_status run_nvrtc(const char *source, CudaArch arch, const char *what, Output output, Made *made)
{
    pthread_t thread;
    kiln_status status = need_nvrtc();
    if (status) return status;
    Job *const job = new_job(source, arch, output);
    if (!job) return status_fail(KILN_OUT_OF_MEMORY, "out of memory to compile %s", what);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    const int error = pthread_create(&thread, &attributes, work, job);
    pthread_attr_destroy(&attributes);
    if (error) {
        free_job(job);
        return status_fail(KILN_OUT_OF_MEMORY, "no thread can be started to compile %s: %s", what, strerror(error));
    }
    if (!wait_for(job, build_seconds()))
        return status_fail(KILN_TOOLCHAIN,
                           "NVRTC did not end within %d seconds on the code made for %s, or on what another "
                           "thread gave it before; KILN_BUILD_SECONDS sets another limit",
                           build_seconds(), what);
    status = take_result(job, what, arch, made);
    free_job(job);
    return status;
}

static kiln_status nvrtc_hash(Hash *hash, CudaArch arch)
{
    const kiln_status status = need_nvrtc();
    if (status) return status;
    hash_add_text(hash, arch.name);
    hash_add(hash, &nvrtc.major, sizeof nvrtc.major);
    hash_add(hash, &nvrtc.minor, sizeof nvrtc.minor);
    return KILN_OK;
}

// The entry: the log, its NUL, then the cubin.
char *nvrtc_find(const char *name, size_t *n, CudaResources *resources)
{
    char file[HASH_NAME + 8];
    size_t size;
    snprintf(file, sizeof file, "%s.cubin", name);
    char *const bytes = cache_read(file, &size);
    if (!bytes) return NULL;
    const size_t log = strlen(bytes) + 1;
    if (resources) *resources = read_log(bytes);
    *n = size - log;
    memmove(bytes, bytes + log, *n);
    return bytes;
}

static void keep_cubin(const char *name, const Made *made)
{
    char file[HASH_NAME + 8];
    const size_t log = made->log ? strlen(made->log) + 1 : 1;
    char *const entry = memory_alloc(log + made->n_code);
    if (!entry) return;
    snprintf(file, sizeof file, "%s.cubin", name);
    memcpy(entry, made->log ? made->log : "", log);
    memcpy(entry + log, made->code, made->n_code);
    cache_write(file, entry, log + made->n_code);
    memory_free(entry);
}

// What is not in the cache.
static kiln_status build_cubin(const char *source, CudaArch arch, const char *what, const char *name, char **cubin,
                               size_t *n, CudaResources *resources)
{
    Made made = { 0 };
    const kiln_status status = run_nvrtc(source, arch, what, OUTPUT_CUBIN, &made);
    if (!status) {
        keep_cubin(name, &made);
        if (resources) *resources = read_log(made.log ? made.log : "");
        *cubin = made.code;
        *n = made.n_code;
    }
    memory_free(made.log);
    return status;
}

kiln_status nvrtc_build(const char *source, CudaArch arch, const char *what, char name[HASH_NAME], char **cubin,
                        size_t *n, CudaResources *resources)
{
    Hash hash = hash_begin();
    Turn turn;
    kiln_status status = nvrtc_hash(&hash, arch);
    if (!status) status = cache_check();
    if (status) return status;
    hash_add_text(&hash, source);
    hash_name(&hash, name);
    turn_take(&turn, name);
    if ((*cubin = nvrtc_find(name, n, resources)) == NULL)
        status = build_cubin(source, arch, what, name, cubin, n, resources);
    turn_end(&turn);
    return status;
}

kiln_status nvrtc_ptx(const char *source, CudaArch arch, char **ptx)
{
    Made made = { 0 };
    const kiln_status status = run_nvrtc(source, arch, "the kernel", OUTPUT_PTX, &made);
    memory_free(made.log);
    *ptx = made.code;
    return status;
}

kiln_status nvrtc_lines(const char *source, CudaArch arch, char **cubin, size_t *n)
{
    Made made = { 0 };
    const kiln_status status = run_nvrtc(source, arch, "the kernel", OUTPUT_LINES, &made);
    memory_free(made.log);
    *cubin = made.code;
    *n = made.n_code;
    return status;
}

// ---- of the CUDA target

static CudaArch arch_of(const CodeRequest *request) { return cuda_arch(request->target->gpu, request->device_arch); }

static kiln_status hash_build(Hash *hash, const CodeRequest *request) { return nvrtc_hash(hash, arch_of(request)); }

static kiln_status build_code(const char *source, const CodeRequest *request, const char *what, char name[HASH_NAME],
                              BuiltCode *code)
{
    *code = (BuiltCode){ .object = NULL };
    return nvrtc_build(source, arch_of(request), what, name, &code->image, &code->n_image, &code->resources);
}

static bool find_code(const char *name, BuiltCode *code)
{
    *code = (BuiltCode){ .object = NULL };
    code->image = nvrtc_find(name, &code->n_image, &code->resources);
    return code->image != NULL;
}

const Toolchain toolchain_nvrtc = { hash_build, build_code, find_code };
