// SPDX-License-Identifier: MIT
// nvrtc.cpp - the entry points of NVRTC: the text is preprocessed, rewritten and compiled for the host by a C++ compiler.
//
// What is returned as a cubin is a word of its own, the size, and a shared library. Its version is a hash of the
// emulator, so that Kiln's cache keeps its code apart from NVIDIA's and from that of other emulators.
#include "emulator.h"
#include "image.h"
#include "rewrite.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <mutex>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRY extern "C" __attribute__((visibility("default")))

using namespace emu;

enum { SUCCESS = 0, NVRTC_INVALID_INPUT = 3, COMPILATION = 6 };

struct Program { std::string source, log, cubin, text; };

static std::string read_file(const std::string &path)
{
    std::ifstream in(path, std::ios::binary);
    std::stringstream all;
    all << in.rdbuf();
    return all.str();
}

static std::string own_path()
{
    Dl_info info;
    return dladdr((void *)own_path, &info) ? info.dli_fname : "";
}

static std::string quoted(const std::string &s) { return "'" + s + "'"; }

static std::string compiler()
{
    const char *const given = getenv("CXX");
    return given && *given ? given : EMULATOR_CXX;
}

// A script for sed that is applied to each kernel's text: how tests plant faults.
static std::string edit()
{
    const char *const given = getenv("KILN_EMULATOR_EDIT");
    return given ? given : "";
}

// Runs a command of the shell; what it says goes to `said`.
static bool run_command(const std::string &command, std::string *said)
{
    FILE *const pipe = popen((command + " 2>&1").c_str(), "r");
    char part[4096];
    if (!pipe)
        return false;
    for (size_t n; (n = fread(part, 1, sizeof part, pipe)) > 0; )
        said->append(part, n);
    return pclose(pipe) == 0;
}

struct Folder {
    std::string path;
    Folder()
    {
        const char *const base = getenv("TMPDIR");
        std::string pattern = std::string(base && *base ? base : "/tmp") + "/kiln-emulator-XXXXXX";
        path = mkdtemp(&pattern[0]) ? pattern : "";
    }
    ~Folder()
    {
        for (const char *name : { "/kernel.cu", "/kernel.ii", "/kernel.cpp", "/kernel.o", "/kernel.so" })
            unlink((path + name).c_str());
        rmdir(path.c_str());
    }
};

static bool write_file(const std::string &path, const std::string &text) { return (std::ofstream(path, std::ios::binary) << text).good(); }

static bool is_clang()
{
    static const bool clang = [] {
        std::string said;
        run_command(compiler() + " --version", &said);
        return said.find("clang") != std::string::npos;
    }();
    return clang;
}

// races.cpp wants to hear of accesses, not of calls.
static std::string watched()
{
    return std::string(" -fsanitize=thread ") + (is_clang() ? "-mllvm -tsan-instrument-func-entry-exit=0" : "--param tsan-instrument-func-entry-exit=0");
}

// NVRTC contracts products and sums of f32; so does the host, where it can.
static std::string fused()
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("fma"))
        return " -mfma -ffp-contract=fast";
#endif
    return " -ffp-contract=fast";
}

static uint32_t hash_of(uint32_t h, const std::string &text)
{
    for (const char c : text)
        h = (h ^ (unsigned char)c) * 16777619u;
    return h;
}

// The emulator and what kernels include of it.
static uint32_t hash_of_files()
{
    static const uint32_t hash = [] {
        uint32_t h = 2166136261u;
        for (const std::string &path : { own_path(), std::string(EMULATOR_FOLDER "/device.h"), std::string(EMULATOR_FOLDER "/ptx.h") })
            h = hash_of(h, read_file(path));
        return h;
    }();
    return hash;
}

// An option that names the folder of a precompiled device.h, a third of the time of most kernels. It stands beside the
// library; where it cannot, and with clang, which wants it named otherwise, kernels read the header itself.
static std::string precompiled(const std::string &flags)
{
    static std::mutex one_at_a_time;
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    const std::string command = compiler() + flags, folder = own_path() + ".headers-" + std::to_string(hash_of(hash_of_files(), command));
    const std::string header = folder + "/device.h.gch", unfinished = header + "." + std::to_string(getpid());
    std::string said;
    if (is_clang())
        return "";
    if (access(header.c_str(), R_OK) != 0
        && (mkdir(folder.c_str(), 0777), !run_command(command + " -x c++-header " + quoted(EMULATOR_FOLDER "/device.h") + " -o " + quoted(unfinished), &said)
            || rename(unfinished.c_str(), header.c_str()) != 0)) {
        unlink(unfinished.c_str());
        return "";
    }
    return " -I" + quoted(folder);
}

// "-arch=sm_90a" gives "900", and so does "-arch=compute_90a".
static std::string arch_of(int n, const char *const *options)
{
    for (int i = 0; i < n; i++) {
        const char *const at = strchr(options[i], '_');
        if (at && strstr(options[i], "arch"))
            return std::to_string(atoi(at + 1) * 10);
    }
    return "900";
}

static int compile(Program *p, int n, const char *const *options)
{
    const Folder folder;
    const std::string f = folder.path, arch = arch_of(n, options);
    std::string problem;
    if (f.empty() || !write_file(f + "/kernel.cu", p->source)) {
        p->log = "no folder for temporary files\n";
        return COMPILATION;
    }
    const std::string edits = edit();
    if (!edits.empty() && !run_command("sed -E -i -e " + quoted(edits) + " " + quoted(f + "/kernel.cu"), &p->log))
        return COMPILATION;
    if (!run_command(compiler() + " -E -P -x c++ -std=c++17 -D__CUDA_ARCH__=" + arch + " -D__CUDACC__ " + quoted(f + "/kernel.cu") + " -o "
                     + quoted(f + "/kernel.ii"), &p->log))
        return COMPILATION;
    if (!rewrite(read_file(f + "/kernel.ii"), &p->text, &problem)) {
        p->log += "the emulator cannot run this: " + problem + "\n";
        return COMPILATION;
    }
    const char *const keep = getenv("KILN_EMULATOR_KEEP");     // a file for the rewritten text, to look at
    if (keep && *keep)
        write_file(keep, p->text);
    write_file(f + "/kernel.cpp", p->text);
    // -Og compiles a kernel in three quarters of the time of -O1, and what it makes runs about as fast.
    const std::string flags = " -std=c++17 -Og -fPIC -w -Wno-psabi -fno-strict-aliasing -fno-exceptions" + watched() + fused() + " -fwrapv -fvisibility=hidden -D__CUDA_ARCH__=" + arch;
    if (!run_command(compiler() + flags + precompiled(flags) + " -I" + quoted(EMULATOR_FOLDER) + " -c " + quoted(f + "/kernel.cpp") + " -o " + quoted(f + "/kernel.o"), &p->log)
        || !run_command(compiler() + " -shared " + quoted(f + "/kernel.o") + " " + quoted(own_path()) + " -o " + quoted(f + "/kernel.so"), &p->log))
        return COMPILATION;
    const std::string library = read_file(f + "/kernel.so");
    const ImageHead head = { IMAGE_MAGIC, library.size() };
    p->cubin.assign((const char *)&head, sizeof head);
    p->cubin += library;
    p->log += "ptxas info    : Used 0 registers (emulated)\n";
    return SUCCESS;
}

// ---- entry points

ENTRY int nvrtcVersion(int *major, int *minor)
{
    static const uint32_t hash = hash_of(hash_of_files(), compiler() + edit());
    *major = 0;                                            // there is no NVRTC 0
    *minor = (int)(hash & 0x7fffffff);
    return SUCCESS;
}

ENTRY int nvrtcCreateProgram(Program **program, const char *source, const char *, int n_headers, const char *const *, const char *const *)
{
    if (n_headers)
        return NVRTC_INVALID_INPUT;
    *program = new Program;
    (*program)->source = source;
    return SUCCESS;
}

ENTRY int nvrtcDestroyProgram(Program **program)
{
    delete *program;
    *program = nullptr;
    return SUCCESS;
}

ENTRY int nvrtcCompileProgram(Program *program, int n, const char *const *options) { return compile(program, n, options); }

static int size_of(const std::string &text, size_t *n) { return *n = text.size() + 1, (int)SUCCESS; }
static int copy_of(const std::string &text, char *to) { return memcpy(to, text.c_str(), text.size() + 1), (int)SUCCESS; }

ENTRY int nvrtcGetProgramLogSize(Program *program, size_t *n) { return size_of(program->log, n); }
ENTRY int nvrtcGetProgramLog(Program *program, char *log) { return copy_of(program->log, log); }
ENTRY int nvrtcGetPTXSize(Program *program, size_t *n) { return size_of(program->text, n); }
ENTRY int nvrtcGetPTX(Program *program, char *ptx) { return copy_of(program->text, ptx); }
ENTRY int nvrtcGetCUBINSize(Program *program, size_t *n) { return *n = program->cubin.size(), (int)SUCCESS; }
ENTRY int nvrtcGetCUBIN(Program *program, char *cubin) { return memcpy(cubin, program->cubin.data(), program->cubin.size()), (int)SUCCESS; }
ENTRY const char *nvrtcGetErrorString(int error) { return error == SUCCESS ? "success" : error == COMPILATION ? "compilation" : "invalid input"; }
