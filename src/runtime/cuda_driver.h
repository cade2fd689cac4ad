// SPDX-License-Identifier: MIT
// cuda_driver.h - the entry points of libcuda that Kiln uses, in its own words. Nothing of CUDA is needed to build.
#ifndef KILN_RUNTIME_CUDA_DRIVER_H
#define KILN_RUNTIME_CUDA_DRIVER_H

#include "base/status.h"

#include <stdint.h>

enum {
    CU_SUCCESS = 0,
    CU_OUT_OF_MEMORY = 2,
    CU_NO_DEVICE = 100,
    CU_NO_BINARY = 209,
    CU_ILLEGAL_ADDRESS = 700,
    CU_ATTR_PROCESSORS = 16,
    CU_ATTR_MAJOR = 75,
    CU_ATTR_MINOR = 76,
    CU_ATTR_SHARED_BYTES_MAX = 97,
    CU_FUNCTION_STATIC_SHARED = 1,
    CU_FUNCTION_LOCAL_BYTES = 3,
    CU_FUNCTION_REGISTERS = 4,
    CU_FUNCTION_DYNAMIC_SHARED = 8,
    CU_FUNCTION_LARGE_CLUSTERS = 14,
    CU_LAUNCH_CLUSTER = 4,
    CU_LAUNCH_EARLY = 6, // early: when all blocks of the launch before it have ended
    CU_STREAM_NON_BLOCKING = 1,
    CU_CAPTURE_RELAXED = 2,
    CU_HOST_PORTABLE = 1,
    CU_HOST_MAPPED = 2,
};

typedef struct CuLaunchAttribute {
    int id, pad;
    union {
        char bytes[64];
        struct {
            unsigned x, y, z;
        } cluster;
        int early;
    } value;
} CuLaunchAttribute;
typedef struct CuLaunchConfig {
    unsigned grid[3], block[3], shared_bytes;
    void *stream;
    CuLaunchAttribute *attributes;
    unsigned n_attributes;
} CuLaunchConfig;

typedef struct CuTensorMap {
    _Alignas(64) uint64_t opaque[16];
} CuTensorMap;

typedef struct CudaDriver {
    void *library;
    int version;       // 12040 for 12.4
    char problem[256]; // why it cannot be used; "" if it can
    int (*init)(unsigned flags);
    int (*driver_version)(int *version);
    int (*device_count)(int *n);
    int (*device_get)(int *device, int ordinal);
    int (*device_name)(char *name, int n, int device);
    int (*device_attribute)(int *value, int attribute, int device);
    int (*context_retain)(void **context, int device);
    int (*context_release)(int device);
    int (*context_reset)(int device);
    int (*context_push)(void *context);
    int (*context_pop)(void **context);
    int (*memory_alloc)(uint64_t *memory, size_t bytes);
    int (*memory_free)(uint64_t memory);
    int (*host_alloc)(void **memory, size_t bytes, unsigned flags);
    int (*host_free)(void *memory);
    int (*upload)(uint64_t to, const void *from, size_t bytes);
    int (*download)(void *to, uint64_t from, size_t bytes);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_wait)(void *stream);
    int (*capture_mode)(int *mode); // of the calling thread: exchanged
    int (*event_create)(void **event, unsigned flags);
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_wait)(void *event);
    int (*event_elapsed)(float *milliseconds, void *begin, void *end);
    int (*module_load)(void **module, const void *image);
    int (*module_unload)(void *module);
    int (*module_function)(void **function, void *module, const char *name);
    int (*function_set)(void *function, int attribute, int value);
    int (*function_get)(int *value, int attribute, void *function);
    int (*occupancy)(int *blocks, void *function, int threads, size_t shared_bytes);
    int (*cluster_occupancy)(int *clusters, void *function, const CuLaunchConfig *config);
    int (*launch)(const CuLaunchConfig *config, void *function, void **params, void **extra);
    int (*tensor_map)(CuTensorMap *map, int type, unsigned rank, void *base, const uint64_t *dims,
                      const uint64_t *strides, const unsigned *box, const unsigned *element_strides, int interleave,
                      int swizzle, int promotion, int fill);
    int (*tensor_map_im2col)(CuTensorMap *map, int type, unsigned rank, void *base, const uint64_t *dims,
                             const uint64_t *strides, const int *lower, const int *upper, unsigned channels,
                             unsigned pixels, const unsigned *element_strides, int interleave, int swizzle,
                             int promotion, int fill);
    int (*error_name)(int error, const char **text);
    int (*error_text)(int error, const char **text);
} CudaDriver;

// Opened once. NULL when there is no usable driver: then cuda_driver_problem() says why.
const CudaDriver *cuda_driver(void);
const char *cuda_driver_problem(void);

#endif
