// SPDX-License-Identifier: MIT
// toolchain.h - from emitted source to loadable code: the system's C compiler, NVRTC, and the cache in front of both.
//
// All functions may be called from several threads. They report through status_fail. Results that the cache holds
// are found by content: a name is the hash of everything that could change the result.
#ifndef KILN_TOOLCHAIN_TOOLCHAIN_H
#define KILN_TOOLCHAIN_TOOLCHAIN_H

#include "base/status.h"
#include "target/target.h"
#include "toolchain/hash.h"

enum { PATH_BYTES = 4096 };

// ---- programs (process.c)

// Runs argv[0] (a path, or looked for in PATH) with standard input empty; TMPDIR is set to `folder` if not NULL.
// `output` receives the first bytes of both its outputs, NUL-terminated. Returns its exit status, 128 + a signal's
// number, or -1: it could not be started (errno says why), or was ended after `seconds`, with all that it had started
// (errno is ETIMEDOUT). What it leaves running in the background is not waited for.
int process_run(char *const argv[], const char *folder, int seconds, char *output, size_t output_bytes);
// What a compiler may take: $KILN_BUILD_SECONDS (3600 at most), else 600.
int build_seconds(void);
// The path of a program, as a shell would find it. False if there is none.
bool process_find(const char *program, char path[PATH_BYTES]);

// ---- files (files.c)

// A whole file in memory_alloc'ed bytes with a NUL after them; NULL: errno says why.
char *file_read(const char *path, size_t *n);
char *file_read_open(int fd, size_t *n);                        // the same of a file that is open, and stays so
bool file_write(const char *path, const void *bytes, size_t n); // false: errno says why; no file is left
bool file_write_open(int fd, const void *bytes, size_t n);      // false: errno says why
void folder_remove(const char *path);                           // with the files in it, one level deep
void folder_remove_at(int parent, const char *name);            // the same; `parent`: a folder's descriptor
bool folder_make(const char *path);                             // and its parents; for the user alone
bool folder_make_shared(const char *path);                      // the same, for whom the umask lets
bool library_folder(char path[PATH_BYTES]);                     // of the library's kernels (library.c); false: not here

// ---- the cache (cache.c)
//
// $KILN_CACHE, else $XDG_CACHE_HOME/kiln, else ~/.cache/kiln. Entries are files that end in a checksum, written
// aside and renamed into place. A cache that cannot be used only costs time: nothing fails because of it. One that
// others can write is not used at all, and builds say so (cache_check).

kiln_status cache_check(void);                 // fails if the folder is there and not trusted
bool cache_folder(char path[PATH_BYTES]);      // false: there is none to use
char *cache_read(const char *name, size_t *n); // NULL: not there, or damaged (and removed)
// The same, and a descriptor of what was read, to be closed; -1 with `*bytes` NULL.
int cache_open(const char *name, char **bytes, size_t *n);
bool cache_write(const char *name, const void *bytes, size_t n);
typedef struct CacheUse {
    int64_t entries, bytes;
} CacheUse;
CacheUse cache_measure(void);
CacheUse cache_clean(int older_than_days); // what was removed; 0: everything
// A private folder for one build: in the cache where that can be written, else in $TMPDIR or /tmp.
kiln_status work_folder_make(bool outside_cache, char path[PATH_BYTES]);

// ---- the machine (isa.c)

// A form of CPU code: what --isa and KILN_ISA name, and what code compiled ahead of time says it needs. One that names
// instructions is made of these and of nothing better, wherever it is compiled.
typedef struct CpuForm {
    const char *name;    // "avx2"
    const char *machine; // "x86_64", "aarch64"; NULL: any
    CpuTarget target;
    const char *flags, *native; // of the C compiler: for other machines, and for this one
} CpuForm;

const char *cpu_machine(void);                  // "" if it is none that a form names
const CpuForm *cpu_form_of_machine(void);       // the best that runs here
const CpuForm *cpu_form_find(const char *name); // NULL: there is none
const CpuForm *cpu_form_of(const CpuTarget *target);
bool cpu_form_runs(const char *name, const CpuForm *limit);         // here, if `limit` does
void cpu_form_names(const char *machine, char *text, size_t bytes); // "avx2 or portable"; NULL: of all machines
// `isa`: a form's name, or NULL (then $KILN_ISA, then the machine's best).
kiln_status cpu_form_choose(const char *isa, const CpuForm **form);
kiln_status cpu_target_choose(const char *isa, CpuTarget *target);
CpuTarget cpu_target_of_machine(void);
const char *cpu_identity(void); // differs where -march=native differs

// ---- the C compiler (cc.c)

typedef enum { CC_KERNEL, CC_CHECKED, CC_SEQUENTIAL } CcForm; // SEQUENTIAL: references and the like

// Adds to `hash` what a build with the C compiler depends on besides the source: also which compiler that is. It fails where
// there is none; what was built last, by whatever compiler, is then found by everything else (runtime/kernel.c).
kiln_status cc_hash(Hash *hash, const CpuTarget *target, CcForm form);
// Compiles (or finds) a complete C source as a loaded shared object. `name`: of its cache entry; `what`: for messages.
kiln_status cc_build(const char *source, const CpuTarget *target, CcForm form, const char *what, char name[HASH_NAME],
                     void **object);
// The object of a former build, from the cache; NULL if it is not there any more.
void *cc_find(const char *name);
void *cc_symbol(void *object, const char *name); // NULL: it has none
void cc_close(void *object);
// What code for a form that stays here is compiled with.
const char *cc_isa_flags(const CpuTarget *target);
// One line for people: the command that compiles a kernel, with the flags of an instruction set, for a machine (NULL: this
// one). Where that is another one, the compiler is $CC, else its gcc: aarch64-linux-gnu-gcc.
kiln_status cc_describe(const char *machine, const char *flags, char *text, size_t bytes);
// The same command run, to an object file.
kiln_status cc_object(const char *source, const char *machine, const char *flags, const char *path);
// Puts objects together: into one (`path` ends in .o), or into an archive, by $AR or ar.
kiln_status cc_join(const char *machine, const char *const *objects, int n, const char *path);

// ---- NVRTC (nvrtc.c)

typedef struct CudaResources {
    int registers, stack_bytes, spill_store_bytes, spill_load_bytes, static_shared_bytes; // of the largest entry
    bool known;
    bool serialised_wgmma; // ptxas warned C7510 to C7520: products do not overlap
} CudaResources;

// What code is compiled as for a GPU of `device_arch` (0: none at hand): the text for sm_80 runs on all later machines, a cubin
// only on the generation it was made for.
typedef struct CudaArch {
    char name[16];
} CudaArch; // "sm_90a"
CudaArch cuda_arch(const GpuTarget *gpu, int device_arch);
// `cubin`: memory_alloc'ed. `resources` may be NULL.
kiln_status nvrtc_build(const char *source, CudaArch arch, const char *what, char name[HASH_NAME], char **cubin,
                        size_t *n, CudaResources *resources);
char *nvrtc_find(const char *name, size_t *n, CudaResources *resources);
// The same code with a table of the source's lines (tools/sass_lines.h reads it); not of the cache.
kiln_status nvrtc_lines(const char *source, CudaArch arch, char **cubin, size_t *n);
kiln_status nvrtc_ptx(const char *source, CudaArch arch, char **ptx);
kiln_status nvrtc_describe(char *text, size_t bytes);

// ---- of a target (target.h)

typedef struct CodeRequest {
    const Target *target;
    int device_arch; // of the GPU at hand; 0: none
    CcForm form;     // of CPU code
} CodeRequest;

// Code that can be loaded; the one or the other.
typedef struct BuiltCode {
    void *object; // CPU: it is
    char *image;  // GPU: memory_alloc'ed
    size_t n_image;
    CudaResources resources;
} BuiltCode;

typedef struct Toolchain {
    // What a build depends on besides the source; fails where there is no compiler.
    kiln_status (*hash)(Hash *hash, const CodeRequest *request);
    // `name`: of the cache entry; `what`: for messages.
    kiln_status (*build)(const char *source, const CodeRequest *request, const char *what, char name[HASH_NAME],
                         BuiltCode *code);
    bool (*find)(const char *name, BuiltCode *code); // of a former build, from the cache
} Toolchain;

extern const Toolchain toolchain_cc, toolchain_nvrtc;

// What identifies this build of Kiln itself, for keys.
const char *library_identity(void);

#endif
