#!/bin/sh
# SPDX-License-Identifier: MIT
# driver_test.sh - machines without a driver, a GPU or NVRTC, or with ones that are too old, refuse or fail: each is said.
# usage: driver_test.sh KILN
#
# Stub libraries take the places of libcuda and NVRTC. A stub of the driver answers 0 to all but what a case asks for.
set -u
kiln=$1
[ -x "$kiln" ] || { echo "there is no command at $kiln"; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export KILN_CACHE="$folder/cache" NO_COLOR=1
unset KILN_TEST_DEVICE KILN_CUDA KILN_NVRTC
failed=0 n=0

cat >good.tile <<'END'
kernel copy(in f32 X[N], out f32 Y[N]) { grid (n : N); Y[n] = X[n]; }
reference copy { for (int i = 0; i < N; i++) Y[i] = X[i]; }
check copy(N = 4) { }
END

cat >driver.c <<'END'
#include <stddef.h>
#include <stdint.h>
#define YES(name) int name(void) { return 0; }
static char memory[1 << 16] __attribute__((aligned(256))), host[4096];
#ifndef INIT
#define INIT 0
#endif
#ifndef VERSION
#define VERSION 13000
#endif
#ifndef COUNT
#define COUNT 1
#endif
#ifndef RETAIN
#define RETAIN 0
#endif
#ifndef LOAD
#define LOAD 0
#endif
#ifndef SM
#define SM 90
#endif
#ifndef SHARED
#define SHARED 232448
#endif
int cuInit(unsigned flags) { return INIT; }
int cuDriverGetVersion(int *version) { return *version = VERSION, 0; }
int cuDeviceGetCount(int *n) { return *n = COUNT, 0; }
int cuDeviceGetName(char *name, int n, int device) { return name[0] = 'S', name[1] = 0; }
int cuDeviceGetAttribute(int *value, int which, int device)
{
    return *value = which == 75 ? SM / 10 : which == 76 ? SM % 10 : which == 97 ? SHARED : 132, 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = memory, RETAIN; }
int cuMemAlloc_v2(uint64_t *at, size_t bytes) { return *at = (uintptr_t)memory, bytes <= sizeof memory ? 0 : 2; }
int cuMemHostAlloc(void **at, size_t bytes, unsigned flags) { return *at = host, bytes <= sizeof host ? 0 : 2; }
int cuModuleLoadData(void **module, const void *image) { return LOAD; }
int cuGetErrorName(int error, const char **text)
{
    return *text = error == 803 ? "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" : error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY"
                 : error == 46 ? "CUDA_ERROR_DEVICE_UNAVAILABLE" : "CUDA_ERROR_OTHER", 0;
}
int cuGetErrorString(int error, const char **text) { return *text = "as the stub says", 0; }
YES(cuDeviceGet) YES(cuDevicePrimaryCtxRelease_v2) YES(cuDevicePrimaryCtxReset_v2) YES(cuCtxPushCurrent_v2) YES(cuCtxPopCurrent_v2)
YES(cuMemFree_v2) YES(cuMemFreeHost) YES(cuMemcpyHtoD_v2) YES(cuMemcpyDtoH_v2) YES(cuStreamCreate) YES(cuStreamDestroy_v2)
YES(cuStreamSynchronize) YES(cuThreadExchangeStreamCaptureMode) YES(cuEventCreate) YES(cuEventDestroy_v2) YES(cuEventRecord) YES(cuEventSynchronize) YES(cuEventElapsedTime)
YES(cuModuleUnload) YES(cuModuleGetFunction) YES(cuFuncSetAttribute) YES(cuFuncGetAttribute)
YES(cuOccupancyMaxActiveBlocksPerMultiprocessor) YES(cuOccupancyMaxActiveClusters) YES(cuLaunchKernelEx)
#ifndef OLD
YES(cuTensorMapEncodeTiled) YES(cuTensorMapEncodeIm2col)
#endif
END

cat >nvrtc.c <<'END'
#include <stddef.h>
#include <string.h>
#ifndef MAJOR
#define MAJOR 13
#endif
static const char log[] = "nvrtc: error: invalid value for --gpu-architecture (-arch)\n";
int nvrtcVersion(int *major, int *minor) { return *major = MAJOR, *minor = 4, MAJOR == 0; }
int nvrtcCreateProgram(void **p, const char *s, const char *name, int n, const char *const *h, const char *const *names) { return *p = (void *)1, 0; }
int nvrtcDestroyProgram(void **p) { return 0; }
int nvrtcCompileProgram(void *p, int n, const char *const *options) { return MAJOR < 12 ? 5 : 0; }
int nvrtcGetProgramLogSize(void *p, size_t *n) { return *n = MAJOR < 12 ? sizeof log : 1, 0; }
int nvrtcGetProgramLog(void *p, char *to) { return strcpy(to, MAJOR < 12 ? log : ""), 0; }
int nvrtcGetPTXSize(void *p, size_t *n) { return *n = 4, 0; }
int nvrtcGetPTX(void *p, char *to) { return memcpy(to, "ptx", 4), 0; }
const char *nvrtcGetErrorString(int error) { return error == 5 ? "NVRTC_ERROR_INVALID_OPTION" : "NVRTC_ERROR"; }
#ifndef OLD
int nvrtcGetCUBINSize(void *p, size_t *n) { return *n = 4, 0; }
int nvrtcGetCUBIN(void *p, char *to) { return memcpy(to, "bin", 4), 0; }
#endif
END

# stub SOURCE DEFINITIONS...: makes $folder/SOURCE.so
stub() {
    source=$1
    shift
    ${CC:-cc} -w -shared -fPIC "$@" -o "$source.new" "$source.c" && mv "$source.new" "$source.so" || { echo "FAIL: $source.c"; exit 1; }
}

# says STATUS TEXT COMMAND...: it ends with STATUS and says TEXT, and no crash.
says() {
    status=$1 text=$2 n=$((n + 1))
    shift 2
    "$@" >out 2>&1 </dev/null
    got=$?
    if [ $got != "$status" ] || ! grep -qF -- "$text" out; then
        echo "FAIL: $* ended with $got, expected $status and '$text'; it said:"
        head -20 out
        failed=$((failed + 1))
    fi
}

# ---- the driver
launch() { env KILN_CUDA="$folder/driver.so" KILN_NVRTC="$folder/nvrtc.so" "$kiln" test --device="${1:-cuda:0}" good.tile; }
stub nvrtc
echo 'not a library' >libcuda.so.1
says 1 'no CUDA driver: libcuda.so.1 cannot be opened' env LD_LIBRARY_PATH="$folder" "$kiln" test --device=cuda:0 good.tile
says 0 'no CUDA driver: libcuda.so.1 cannot be opened' env LD_LIBRARY_PATH="$folder" "$kiln" devices
says 1 "no CUDA driver: KILN_CUDA is '/no/such/driver', which cannot be opened" env KILN_CUDA=/no/such/driver "$kiln" test --device=cuda:0 good.tile
stub driver -DOLD
says 1 'the CUDA driver is too old: it has no cuTensorMapEncodeTiled; 12.0 or later is needed' launch
stub driver -DVERSION=11080
says 1 'the CUDA driver is too old: it is 11.8, 12.0 or later is needed' launch
stub driver -DINIT=100
says 1 'the CUDA driver finds no GPU' launch
stub driver -DINIT=803
says 1 'the CUDA driver does not start: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH' launch
stub driver -DCOUNT=0
says 1 'cuda:0: there is no GPU' launch
stub driver
says 1 'cuda:1: there is one GPU, cuda:0' launch cuda:1
says 0 'S, sm_90, 132 SMs, driver for CUDA 13.0' env KILN_CUDA="$folder/driver.so" "$kiln" devices
stub driver -DSM=75
says 1 'cuda:0 is sm_75, which cannot run code for sm_80' launch
stub driver -DRETAIN=46
says 1 'cuda:0: CUDA_ERROR_DEVICE_UNAVAILABLE (as the stub says) opening it' launch
stub driver -DRETAIN=2
says 1 'cuda:0: out of device memory opening it' launch
stub driver -DLOAD=2
says 1 'cuda:0: out of device memory loading copy' launch
stub driver -DLOAD=209
says 0 "skip good.tile: copy<> (1 case)" launch
says 0 "cuda:0 is sm_90, and the code was compiled for another generation" launch
stub driver -DSM=80
says 1 'cuda:0 is sm_80, which cannot run code for sm_90' env KILN_CUDA="$folder/driver.so" "$kiln" test --device=cuda:0 --arch=90 good.tile

# ---- NVRTC
compile() { env KILN_NVRTC="$folder/nvrtc.so" "$kiln" test --arch="$1" --compile-only good.tile; }
says 1 "KILN_NVRTC is '/no/such/nvrtc', which cannot be opened (" env KILN_NVRTC=/no/such/nvrtc "$kiln" test --arch=90 --compile-only good.tile
stub nvrtc -DOLD
says 1 "nvrtc.so has no nvrtcGetCUBINSize: too old" compile 90
stub nvrtc -DMAJOR=0
says 1 "nvrtc.so does not say its version" compile 90
stub nvrtc -DMAJOR=11
says 1 'nvrtc.so) cannot compile for sm_90a: another version is needed' compile 90
says 1 'architecture 75 is not supported: choose 90 (Hopper) or 80' "$kiln" test --arch=75 --compile-only good.tile

echo "$((n - failed)) of $n expectations passed"
[ $failed -eq 0 ]
