// SPDX-License-Identifier: MIT
// dlpack.c - tensors to and from DLPack, by the ABI its specification gives: managed tensors without a version, and those of 1.x.
#include "runtime/runtime.h"
#include "base/memory.h"

#include <stdio.h>

typedef struct DLDevice {
    int32_t device_type, device_id;
} DLDevice;
typedef struct DLDataType {
    uint8_t code, bits;
    uint16_t lanes;
} DLDataType;
typedef struct DLTensor {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape, *strides; // strides NULL: row-major
    uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensor DLManagedTensor;
struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(DLManagedTensor *self);
};

// From version 1.0 on. What stands before dl_tensor keeps its place in all versions, so that any can be read and deleted.
typedef struct DLManagedTensorVersioned DLManagedTensorVersioned;
struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *manager_ctx;
    void (*deleter)(DLManagedTensorVersioned *self);
    uint64_t flags;
    DLTensor dl_tensor;
};

enum { DL_MAJOR = 1, DL_MINOR = 1 }; // 1.1 has the codes of all types below
enum { DL_SUBBYTE_PADDED = 4 };      // a flag: elements below 8 bits take a byte each
enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3 };
enum {
    DL_INT = 0,
    DL_UINT = 1,
    DL_FLOAT = 2,
    DL_BFLOAT = 4,
    DL_BOOL = 6,
    DL_E4M3FN = 10,
    DL_E5M2 = 12,
    DL_E8M0FNU = 14,
    DL_E2M1FN = 17
};

// clang-format off
static const struct { kiln_type type; uint8_t code, bits; } dl_types[] = {
    { KILN_F64, DL_FLOAT, 64 },  { KILN_F32, DL_FLOAT, 32 },   { KILN_F16, DL_FLOAT, 16 }, { KILN_BF16, DL_BFLOAT, 16 },
    { KILN_E4M3, DL_E4M3FN, 8 }, { KILN_E5M2, DL_E5M2, 8 },    { KILN_E2M1, DL_E2M1FN, 4 },
    { KILN_I64, DL_INT, 64 },    { KILN_I32, DL_INT, 32 },     { KILN_I16, DL_INT, 16 },   { KILN_I8, DL_INT, 8 },
    { KILN_I4, DL_INT, 4 },      { KILN_I2, DL_INT, 2 },
    { KILN_U64, DL_UINT, 64 },   { KILN_U32, DL_UINT, 32 },    { KILN_U16, DL_UINT, 16 },  { KILN_U8, DL_UINT, 8 },
    { KILN_U4, DL_UINT, 4 },     { KILN_U2, DL_UINT, 2 },      { KILN_BOOL, DL_BOOL, 8 },
    { KILN_E8M0, DL_E8M0FNU, 8 },
};
// clang-format on

static kiln_status import_device(const char *function, DLDevice from, kiln_device **device)
{
    char name[16];
    *device = NULL;
    if (from.device_type == DL_CPU || from.device_type == DL_CUDA_HOST) return KILN_OK;
    if (from.device_type != DL_CUDA)
        return status_fail(KILN_BAD_DEVICE, "%s: device type %d is neither the CPU (1) nor CUDA (2)", function,
                           from.device_type);
    snprintf(name, sizeof name, "cuda:%d", from.device_id);
    const kiln_status status = kiln_device_open(name, device);
    // The tensor holds no use of the device: whoever launches on it does. The struct stays, as devices do.
    if (!status) kiln_device_close(*device);
    return status;
}

static kiln_status import_tensor(const char *function, const DLTensor *from, kiln_tensor *tensor)
{
    kiln_tensor made = { .rank = from->ndim };
    if (from->ndim < 0 || from->ndim > KILN_MAX_RANK)
        return status_fail(KILN_BAD_SHAPE, "%s: rank %d is not between 0 and %d", function, from->ndim, KILN_MAX_RANK);
    for (int i = 0; i < COUNT(dl_types); i++)
        if (dl_types[i].code == from->dtype.code && dl_types[i].bits == from->dtype.bits && from->dtype.lanes == 1)
            made.type = dl_types[i].type;
    if (!made.type)
        return status_fail(KILN_BAD_TYPE, "%s: type code %d with %d bits and %d lanes has no counterpart", function,
                           from->dtype.code, from->dtype.bits, from->dtype.lanes);
    const kiln_status status = import_device(function, from->device, &made.device);
    if (status) return status;
    made.data = from->data ? (char *)from->data + from->byte_offset : NULL;
    made.has_strides = from->strides != NULL;
    for (int i = 0; i < from->ndim; i++) {
        made.shape[i] = from->shape[i];
        made.strides[i] = from->strides ? from->strides[i] : 0;
    }
    *tensor = made;
    return KILN_OK;
}

kiln_status kiln_tensor_from_dlpack(const void *managed, kiln_tensor *tensor)
{
    if (!managed || !tensor)
        return status_fail(KILN_BAD_ARGUMENT, "kiln_tensor_from_dlpack: '%s' is null", managed ? "tensor" : "managed");
    return import_tensor("kiln_tensor_from_dlpack", &((const DLManagedTensor *)managed)->dl_tensor, tensor);
}

kiln_status kiln_tensor_from_dlpack_versioned(const void *managed, kiln_tensor *tensor, uint64_t *flags)
{
    static const char function[] = "kiln_tensor_from_dlpack_versioned";
    if (!managed || !tensor)
        return status_fail(KILN_BAD_ARGUMENT, "%s: '%s' is null", function, managed ? "tensor" : "managed");
    const DLManagedTensorVersioned *const from = managed;
    if (from->major != DL_MAJOR)
        return status_fail(KILN_UNSUPPORTED, "%s: the tensor is of DLPack %u.%u, expected %d.x", function,
                           (unsigned)from->major, (unsigned)from->minor, DL_MAJOR);
    if ((from->flags & KILN_DLPACK_READ_ONLY) && !flags)
        return status_fail(KILN_BAD_ARGUMENT, "%s: the tensor may only be read; give 'flags' to take it all the same",
                           function);
    if ((from->flags & DL_SUBBYTE_PADDED) && from->dl_tensor.dtype.bits < 8)
        return status_fail(KILN_BAD_TYPE, "%s: elements of %d bits take a byte each, expected packed ones", function,
                           from->dl_tensor.dtype.bits);
    const kiln_status status = import_tensor(function, &from->dl_tensor, tensor);
    if (!status && flags) *flags = from->flags & (KILN_DLPACK_READ_ONLY | KILN_DLPACK_COPIED);
    return status;
}

// ---- export

typedef struct Export {
    union {
        DLManagedTensor plain;
        DLManagedTensorVersioned versioned;
    };
    int64_t shape[KILN_MAX_RANK], strides[KILN_MAX_RANK];
} Export;

static void delete_plain(DLManagedTensor *self) { memory_free(self->manager_ctx); }
static void delete_versioned(DLManagedTensorVersioned *self) { memory_free(self->manager_ctx); }

static void fill_strides(int64_t *strides, const kiln_tensor *tensor)
{
    int64_t stride = 1;
    for (int i = tensor->rank - 1; i >= 0; stride *= tensor->shape[i], i--)
        strides[i] = tensor->has_strides ? tensor->strides[i] : stride;
}

static DLDataType export_type(kiln_type type)
{
    for (int i = 0; i < COUNT(dl_types); i++)
        if (dl_types[i].type == type) return (DLDataType){ dl_types[i].code, dl_types[i].bits, 1 };
    return (DLDataType){ .lanes = 0 };
}

// Memory for a managed tensor, and the tensor that goes into it.
static kiln_status export_tensor(const char *function, const kiln_tensor *tensor, void **managed, Export **made,
                                 DLTensor *to)
{
    if (!tensor || !managed)
        return status_fail(KILN_BAD_ARGUMENT, "%s: '%s' is null", function, tensor ? "managed" : "tensor");
    if (tensor->rank < 0 || tensor->rank > KILN_MAX_RANK)
        return status_fail(KILN_BAD_SHAPE, "%s: rank %d is not between 0 and %d", function, tensor->rank,
                           KILN_MAX_RANK);
    const DLDataType type = export_type(tensor->type);
    if (!type.lanes)
        return status_fail(KILN_BAD_TYPE, "%s: DLPack has no type for %s", function, kiln_type_name(tensor->type));
    Export *const e = *made = memory_alloc(sizeof **made);
    if (!e) return status_fail(KILN_OUT_OF_MEMORY, "%s: out of memory", function);
    const bool cpu = device_is_cpu(tensor->device);
    memcpy(e->shape, tensor->shape, sizeof e->shape);
    fill_strides(e->strides, tensor);
    *to = (DLTensor){ .data = tensor->data,
                      .device = { cpu ? DL_CPU : DL_CUDA, cpu ? 0 : tensor->device->index },
                      .ndim = tensor->rank,
                      .dtype = type,
                      .shape = e->shape,
                      .strides = e->strides };
    return KILN_OK;
}

kiln_status kiln_tensor_to_dlpack(const kiln_tensor *tensor, void **managed)
{
    Export *made;
    DLTensor to;
    const kiln_status status = export_tensor("kiln_tensor_to_dlpack", tensor, managed, &made, &to);
    if (status) return status;
    made->plain = (DLManagedTensor){ .dl_tensor = to, .manager_ctx = made, .deleter = delete_plain };
    *managed = &made->plain;
    return KILN_OK;
}

kiln_status kiln_tensor_to_dlpack_versioned(const kiln_tensor *tensor, uint64_t flags, void **managed)
{
    Export *made;
    DLTensor to;
    if (flags & ~(uint64_t)(KILN_DLPACK_READ_ONLY | KILN_DLPACK_COPIED))
        return status_fail(KILN_BAD_ARGUMENT,
                           "kiln_tensor_to_dlpack_versioned: 'flags' is %#llx, expected KILN_DLPACK_*",
                           (unsigned long long)flags);
    const kiln_status status = export_tensor("kiln_tensor_to_dlpack_versioned", tensor, managed, &made, &to);
    if (status) return status;
    made->versioned = (DLManagedTensorVersioned){ .major = DL_MAJOR,
                                                  .minor = DL_MINOR,
                                                  .manager_ctx = made,
                                                  .deleter = delete_versioned,
                                                  .flags = flags,
                                                  .dl_tensor = to };
    *managed = &made->versioned;
    return KILN_OK;
}

// ---- objects of a framework

// DLPackExchangeAPI up to what is used of it.
typedef struct ExchangeApi {
    uint32_t major, minor;
    struct ExchangeApi *before;
    void *allocate, *managed_from_object, *managed_to_object;
    int (*tensor_from_object)(void *object, DLTensor *tensor); // borrowed: valid as long as the object
} ExchangeApi;

static int agree(const ExchangeApi *api, kiln_dlpack_place *place, void *object)
{
    DLTensor t;
    int64_t is[COUNT(place->seen)];
    if (api->tensor_from_object(object, &t)) return -1;
    if (t.ndim < 0 || t.ndim > KILN_MAX_RANK || (t.ndim && !t.strides) || !t.data) return 0;
    is[0] = (int64_t)t.device.device_type << 32 | (uint32_t)t.device.device_id;
    char *const data = (char *)t.data + t.byte_offset;
    const int64_t is_unaligned = (uintptr_t)data % 16 != 0; // what calls choose kernels and workspaces by
    is[1] = is_unaligned << 48 | (int64_t)t.ndim << 32 | (int64_t)t.dtype.lanes << 16 | (int64_t)t.dtype.code << 8 |
            t.dtype.bits;
    const size_t bytes = sizeof *is * (size_t)t.ndim;
    if (bytes) memcpy(is + 2, t.shape, bytes), memcpy(is + 2 + t.ndim, t.strides, bytes);
    if (!place->seen[1]) memcpy(place->seen, is, 2 * sizeof *is + 2 * bytes);
    if (memcmp(place->seen, is, 2 * sizeof *is + 2 * bytes) != 0) return 0;
    *place->address = data;
    return 1;
}

// The functions of kiln_dlpack_places.
typedef struct ObjectFunctions {
    void *(*item)(void *objects, intptr_t i);
    void *(*type_of)(void *object);
    void (*release)(void *object);
} ObjectFunctions;

static bool is_of_type(const ObjectFunctions *f, kiln_dlpack_place *place, void *object)
{
    void *const type = f->type_of(object);
    f->release(type); // the object holds it
    if (!place->same) place->same = type;
    return place->same == type;
}

int kiln_dlpack_agree(const kiln_dlpack_places *p, void *objects)
{
    int result = 1;
    ObjectFunctions f;
    memcpy(&f.item, &p->item, sizeof f.item);
    memcpy(&f.type_of, &p->type_of, sizeof f.type_of);
    memcpy(&f.release, &p->release, sizeof f.release);
    for (int i = 0; i < p->n && result == 1; i++) {
        kiln_dlpack_place *const place = &p->places[i];
        void *const object = f.item(objects, (intptr_t)place->index);
        if (!place->address) result = object == place->same;
        else result = !object ? -1 : is_of_type(&f, place, object) ? agree(p->exchange_api, place, object) : 0;
    }
    return result;
}
