// SPDX-License-Identifier: MIT
// types.cuh - the types and addresses that all generated code uses. No CUDA header is included anywhere.
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define DEVICE static __device__ __forceinline__

struct __align__(64) TensorMap { uint64_t word[16]; };

extern __shared__ __align__(1024) uint8_t shared_memory[];

#define param_word(i) ((int64_t)kp.word[i])
#define param_map(i) (&kp.map[i])
#define param_extra(i) ((int64_t)kp.extra[i])

template <class To, class From> DEVICE To bitcast(From x)
{
    static_assert(sizeof(To) == sizeof(From), "a bitcast keeps the size");
    To to;
    memcpy(&to, &x, sizeof to);
    return to;
}
// Signed integers wrap as the language says, not as C++ assumes.
template <class T> DEVICE T wrapping_sum(T a, T b) { return a + b; }
DEVICE int32_t wrapping_sum(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }
DEVICE int64_t wrapping_sum(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
template <class T> DEVICE T param_scalar(uint64_t word)
{
    T x;
    memcpy(&x, &word, sizeof x);
    return x;
}

template <class T, class U> DEVICE T element_as(const U *p, int32_t bytes = 0) { return *(const T *)((const uint8_t *)p + bytes); }
template <class T, class U> DEVICE void store_as(U *p, T x, int32_t bytes = 0) { *(T *)((uint8_t *)p + bytes) = x; }
template <class T> DEVICE T *shared_pointer(int32_t offset) { return (T *)(shared_memory + offset); }
DEVICE uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
DEVICE uint32_t shared_base(void) { return shared_address(shared_memory); }
// The same in all lanes, and known to be.
DEVICE int32_t uniform(int32_t x) { return __shfl_sync(0xffffffffu, x, 0); }

// The same, and not known to be: nothing made of it is made earlier.
DEVICE int32_t again(int32_t x) { asm volatile("" : "+r"(x)); return x; }
// The thread's number, read here: it need not be kept until then.
DEVICE int32_t thread_number(void)
{
    int32_t x;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
    return x;
}

// The element of a panel whose rows are BYTES wide: 16-byte pieces are XORed with the row.
template <int BYTES, int SIZE> DEVICE int32_t swizzle(int32_t row, int32_t column)
{
    const int32_t offset = row * BYTES + column * SIZE;
    return (offset ^ ((offset >> 7 & (BYTES / 16 - 1)) << 4)) / SIZE;
}

// Stops the kernel. The first thread that comes here says why, in memory of the host; the others wait until it has.
struct FaultRecord { uint32_t taken, done, block; char text[244]; };
static __device__ __noinline__ void trapped(uint64_t address, const char *text)
{
    FaultRecord *const record = (FaultRecord *)address;
    if (atomicCAS(&record->taken, 0u, 1u) == 0u) {
        record->block = blockIdx.x;
        for (int i = 0; i < 243 && text[i]; i++)
            record->text[i] = text[i];
        __threadfence_system();
        *(volatile uint32_t *)&record->done = 1;
        __threadfence_system();
    }
    for (int i = 0; i < 1 << 20 && !*(volatile uint32_t *)&record->done; i++)
        __threadfence_system();
    asm volatile("trap;");
}
