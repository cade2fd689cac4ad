// SPDX-License-Identifier: MIT
// dlpack.c - tensors to and from DLPack, by the ABI its specification gives (version 0.8, unversioned managed tensors).
#include "runtime/runtime.h"
#include "base/memory.h"

#include <stdio.h>

typedef struct DLDevice { int32_t device_type, device_id; } DLDevice;
typedef struct DLDataType { uint8_t code, bits; uint16_t lanes; } DLDataType;
typedef struct DLTensor {
    void      *data;
    DLDevice   device;
    int32_t    ndim;
    DLDataType dtype;
    int64_t   *shape, *strides;      // strides NULL: row-major
    uint64_t   byte_offset;
} DLTensor;
typedef struct DLManagedTensor DLManagedTensor;
struct DLManagedTensor {
    DLTensor dl_tensor;
    void    *manager_ctx;
    void   (*deleter)(DLManagedTensor *self);
};

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6, DL_E4M3FN = 10, DL_E5M2 = 12, DL_E2M1FN = 17 };

static const struct { kiln_type type; uint8_t code, bits; } dl_types[] = {
    { KILN_F64, DL_FLOAT, 64 },  { KILN_F32, DL_FLOAT, 32 },   { KILN_F16, DL_FLOAT, 16 }, { KILN_BF16, DL_BFLOAT, 16 },
    { KILN_E4M3, DL_E4M3FN, 8 }, { KILN_E5M2, DL_E5M2, 8 },    { KILN_E2M1, DL_E2M1FN, 4 },
    { KILN_I64, DL_INT, 64 },    { KILN_I32, DL_INT, 32 },     { KILN_I16, DL_INT, 16 },   { KILN_I8, DL_INT, 8 },
    { KILN_I4, DL_INT, 4 },      { KILN_I2, DL_INT, 2 },
    { KILN_U64, DL_UINT, 64 },   { KILN_U32, DL_UINT, 32 },    { KILN_U16, DL_UINT, 16 },  { KILN_U8, DL_UINT, 8 },
    { KILN_U4, DL_UINT, 4 },     { KILN_U2, DL_UINT, 2 },      { KILN_BOOL, DL_BOOL, 8 },
};

static kiln_status import_device(DLDevice from, kiln_device **device)
{
    char name[16];
    *device = NULL;
    if (from.device_type == DL_CPU || from.device_type == DL_CUDA_HOST)
        return KILN_OK;
    if (from.device_type != DL_CUDA)
        return status_fail(KILN_BAD_DEVICE, "kiln_tensor_from_dlpack: device type %d is neither the CPU (1) nor CUDA (2)",
                           from.device_type);
    snprintf(name, sizeof name, "cuda:%d", from.device_id);
    const kiln_status status = kiln_device_open(name, device);
    // The tensor holds no use of the device: whoever launches on it does. The struct stays, as devices do.
    if (!status)
        kiln_device_close(*device);
    return status;
}

kiln_status kiln_tensor_from_dlpack(const void *managed, kiln_tensor *tensor)
{
    if (!managed || !tensor)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_tensor_from_dlpack: '%s' is null", managed ? "tensor" : "managed");
    const DLTensor *const from = &((const DLManagedTensor *)managed)->dl_tensor;
    kiln_tensor made = { .rank = from->ndim };
    if (from->ndim < 0 || from->ndim > KILN_MAX_RANK)
        return status_fail(KILN_BAD_SHAPE, "kiln_tensor_from_dlpack: rank %d is not between 0 and %d", from->ndim,
                           KILN_MAX_RANK);
    for (int i = 0; i < COUNT(dl_types); i++)
        if (dl_types[i].code == from->dtype.code && dl_types[i].bits == from->dtype.bits && from->dtype.lanes == 1)
            made.type = dl_types[i].type;
    if (!made.type)
        return status_fail(KILN_BAD_TYPE, "kiln_tensor_from_dlpack: type code %d with %d bits and %d lanes has no "
                           "counterpart", from->dtype.code, from->dtype.bits, from->dtype.lanes);
    const kiln_status status = import_device(from->device, &made.device);
    if (status)
        return status;
    made.data = from->data ? (char *)from->data + from->byte_offset : NULL;
    made.has_strides = from->strides != NULL;
    for (int i = 0; i < from->ndim; i++) {
        made.shape[i] = from->shape[i];
        made.strides[i] = from->strides ? from->strides[i] : 0;
    }
    *tensor = made;
    return KILN_OK;
}

typedef struct Export {
    DLManagedTensor managed;
    int64_t shape[KILN_MAX_RANK], strides[KILN_MAX_RANK];
} Export;

static void delete_export(DLManagedTensor *self) { memory_free(self->manager_ctx); }

static void fill_strides(int64_t *strides, const kiln_tensor *tensor)
{
    int64_t stride = 1;
    for (int i = tensor->rank - 1; i >= 0; stride *= tensor->shape[i], i--)
        strides[i] = tensor->has_strides ? tensor->strides[i] : stride;
}

kiln_status kiln_tensor_to_dlpack(const kiln_tensor *tensor, void **managed)
{
    if (!tensor || !managed)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_tensor_to_dlpack: '%s' is null", tensor ? "managed" : "tensor");
    if (tensor->rank < 0 || tensor->rank > KILN_MAX_RANK)
        return status_fail(KILN_BAD_SHAPE, "kiln_tensor_to_dlpack: rank %d is not between 0 and %d", tensor->rank,
                           KILN_MAX_RANK);
    DLDataType type = { .lanes = 0 };
    for (int i = 0; i < COUNT(dl_types); i++)
        if (dl_types[i].type == tensor->type)
            type = (DLDataType){ dl_types[i].code, dl_types[i].bits, 1 };
    if (!type.lanes)
        return status_fail(KILN_BAD_TYPE, "kiln_tensor_to_dlpack: DLPack has no type for %s",
                           kiln_type_name(tensor->type));
    Export *const made = memory_alloc(sizeof *made);
    if (!made)
        return status_fail(KILN_OUT_OF_MEMORY, "kiln_tensor_to_dlpack: out of memory");
    const bool cpu = device_is_cpu(tensor->device);
    memcpy(made->shape, tensor->shape, sizeof made->shape);
    fill_strides(made->strides, tensor);
    made->managed = (DLManagedTensor){
        .dl_tensor = { .data = tensor->data, .device = { cpu ? DL_CPU : DL_CUDA, cpu ? 0 : tensor->device->index },
                       .ndim = tensor->rank, .dtype = type, .shape = made->shape, .strides = made->strides },
        .manager_ctx = made, .deleter = delete_export };
    *managed = &made->managed;
    return KILN_OK;
}
