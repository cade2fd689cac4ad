// SPDX-License-Identifier: MIT
// kiln.hpp - Kiln for C++20: what kiln.h has, with owners, spans and exceptions. A header alone; the library is the same.
//
//     kiln::device device("cuda:0");                                                 or "cpu"
//     kiln::program program = kiln::program::from_file("norm.tile");
//     kiln::kernel norm(device, program, "norm", "T=f32");
//     kiln::tensor x(device, KILN_F32, { rows, columns }), y(device, KILN_F32, { rows, columns });
//     x.upload(std::span<const float>(values));
//     norm(kiln::stream(), x, y, 1e-5);                                              arguments in the order of the source
//
//     kiln::operators ops(device);                                                   those of the headers in kiln/ops
//     kiln::workspace scratch(device);
//     ops.run(kiln_gemm, kiln_gemm_workspace_size, stream, scratch, { .a = a, .b = b, .c = c });
//
// Every failure is a kiln::error with the status and Kiln's message; nothing was started then. Owners move and do not copy. What
// is made from a device keeps it open, and a kernel its program; a kernel, operators, or a tensor's memory must not go while
// queued work uses it. Threads: as in kiln.h. An empty stream is the device's default one.
#ifndef KILN_KILN_HPP
#define KILN_KILN_HPP

#include "kiln/kiln.h"
#include "kiln/ops/ops.h"

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kiln
{

// ---- errors

class error : public std::runtime_error
{
  public:
    error(kiln_status status, const std::string &message) : std::runtime_error(message), status_(status) {}
    kiln_status status() const noexcept { return status_; }

  private:
    kiln_status status_;
};

// Throws unless the status is KILN_OK, with the message of this thread's failed call.
inline void check(kiln_status status)
{
    if (status != KILN_OK) throw error(status, kiln_error_message());
}

// ---- devices, streams, events

// A use of a device: copies share it, and it is closed with the last.
class device
{
  public:
    explicit device(const std::string &name = "cpu")
    {
        kiln_device *opened = nullptr;
        check(kiln_device_open(name.c_str(), &opened));
        handle_.reset(opened, kiln_device_close);
    }
    kiln_device *get() const noexcept { return handle_.get(); }
    std::string name() const { return kiln_device_name(get()); }
    std::string description() const { return kiln_device_describe(get()); } // "NVIDIA H200, sm_90, 132 SMs"
    static int count(const std::string &kind) { return kiln_device_count(kind.c_str()); }

  private:
    std::shared_ptr<kiln_device> handle_;
};

class stream
{
  public:
    stream() = default; // the default one of whatever device it is used with
    explicit stream(const device &of) : device_(std::make_shared<device>(of))
    {
        kiln_stream *opened = nullptr;
        check(kiln_stream_open(of.get(), &opened));
        handle_.reset(opened);
    }
    // The caller's CUstream or cudaStream_t, which the caller still owns.
    static stream wrap(const device &of, void *native)
    {
        stream made;
        kiln_stream *wrapped = nullptr;
        check(kiln_stream_wrap(of.get(), native, &wrapped));
        made.device_ = std::make_shared<device>(of);
        made.handle_.reset(wrapped);
        return made;
    }
    kiln_stream *get() const noexcept { return handle_.get(); }

  private:
    struct closer {
        void operator()(kiln_stream *s) const noexcept { kiln_stream_close(s); }
    };
    std::shared_ptr<device> device_; // null: of the default one. Before the stream, so that it is closed after it
    std::unique_ptr<kiln_stream, closer> handle_;
};

// Waits until the work of a stream is done; throws the errors of that work.
inline void wait(const device &of, const stream &s = stream()) { check(kiln_stream_wait(of.get(), s.get())); }

class event
{
  public:
    explicit event(const device &of) : device_(of)
    {
        kiln_event *opened = nullptr;
        check(kiln_event_open(of.get(), &opened));
        handle_.reset(opened);
    }
    void record(const stream &s = stream()) { check(kiln_event_record(handle_.get(), s.get())); }
    void wait() const { check(kiln_event_wait(handle_.get())); }
    kiln_event *get() const noexcept { return handle_.get(); }

  private:
    struct closer {
        void operator()(kiln_event *e) const noexcept { kiln_event_close(e); }
    };
    device device_;
    std::unique_ptr<kiln_event, closer> handle_;
};

inline double milliseconds_between(const event &begin, const event &end)
{
    double ms = 0;
    check(kiln_event_elapsed(begin.get(), end.get(), &ms));
    return ms;
}

// ---- memory and tensors

// Device memory, aligned to 256 bytes, not zeroed; freed with its last owner.
inline std::shared_ptr<void> allocate(const device &of, std::size_t bytes)
{
    void *memory = nullptr;
    check(kiln_alloc(of.get(), bytes, &memory));
    return std::shared_ptr<void>(memory, [of](void *p) { kiln_free(of.get(), p); });
}

// A kiln_tensor with what owns its memory. Copies, slices and reshaped ones share the memory. It is a `const kiln_tensor *`
// wherever the C functions and structs take one; such a pointer lives as long as this object.
class tensor
{
  public:
    tensor() = default;
    // Memory of its own, row-major, not initialised.
    tensor(const device &of, kiln_type type, std::span<const std::int64_t> shape)
        : value_(describe(of, nullptr, type, shape))
    {
        owner_ = allocate(of, kiln_tensor_bytes(&value_));
        value_.data = owner_.get();
    }
    tensor(const device &of, kiln_type type, std::initializer_list<std::int64_t> shape)
        : tensor(of, type, std::span<const std::int64_t>(shape.begin(), shape.size()))
    {
    }
    // Over memory of the caller's, which must outlive it.
    static tensor over(const device &of, void *data, kiln_type type, std::span<const std::int64_t> shape)
    {
        tensor made;
        made.value_ = describe(of, data, type, shape);
        return made;
    }
    static tensor over(const device &of, void *data, kiln_type type, std::initializer_list<std::int64_t> shape)
    {
        return over(of, data, type, std::span<const std::int64_t>(shape.begin(), shape.size()));
    }
    // Any kiln_tensor; `owner` keeps its memory.
    explicit tensor(const kiln_tensor &value, std::shared_ptr<void> owner = nullptr)
        : value_(value), owner_(std::move(owner))
    {
    }

    const kiln_tensor *get() const noexcept { return &value_; }
    operator const kiln_tensor *() const noexcept { return &value_; }
    void *data() const noexcept { return value_.data; }
    kiln_type type() const noexcept { return value_.type; }
    std::span<const std::int64_t> shape() const noexcept
    {
        return { value_.shape, static_cast<std::size_t>(value_.rank) };
    }
    std::size_t bytes() const noexcept { return kiln_tensor_bytes(&value_); }

    bool is_contiguous() const noexcept
    {
        std::int64_t stride = 1;
        for (int d = value_.rank - 1; d >= 0 && value_.has_strides; d--) {
            if (value_.shape[d] != 1 && value_.strides[d] != stride) return false;
            stride *= value_.shape[d];
        }
        return true;
    }

    // `extent` elements of dimension `dim` from `first` on, over the same memory.
    tensor slice(int dim, std::int64_t first, std::int64_t extent) const
    {
        tensor made = *this;
        check(kiln_tensor_slice(&value_, dim, first, extent, &made.value_));
        return made;
    }
    // The same elements in another shape; only of a contiguous tensor.
    tensor reshaped(std::initializer_list<std::int64_t> shape) const
    {
        tensor made = *this;
        const std::size_t before = bytes();
        if (!is_contiguous()) throw error(KILN_BAD_SHAPE, "kiln::tensor::reshaped: the tensor is not contiguous");
        if (shape.size() > KILN_MAX_RANK) throw error(KILN_BAD_SHAPE, "kiln::tensor::reshaped: more than 8 dimensions");
        made.value_ =
            kiln_tensor_of(value_.device, value_.data, value_.type, static_cast<int>(shape.size()), shape.begin());
        if (kiln_tensor_bytes(&made.value_) != before)
            throw error(KILN_BAD_SHAPE, "kiln::tensor::reshaped: another number of elements");
        return made;
    }
    // Copies all elements of a contiguous tensor; the span has as many bytes. They return when the copy is done.
    template <class T> void upload(std::span<const T> host) const
    {
        check_copy(host.size_bytes());
        check(kiln_upload(value_.device, value_.data, host.data(), host.size_bytes()));
    }
    template <class T> void download(std::span<T> host) const
    {
        check_copy(host.size_bytes());
        check(kiln_download(value_.device, host.data(), value_.data, host.size_bytes()));
    }
    template <class T> std::vector<T> download() const
    {
        std::vector<T> host(bytes() / sizeof(T));
        download(std::span<T>(host));
        return host;
    }

  private:
    static kiln_tensor describe(const device &of, void *data, kiln_type type, std::span<const std::int64_t> shape)
    {
        if (shape.size() > KILN_MAX_RANK) throw error(KILN_BAD_SHAPE, "kiln::tensor: more than 8 dimensions");
        return kiln_tensor_of(of.get(), data, type, static_cast<int>(shape.size()), shape.data());
    }
    void check_copy(std::size_t host_bytes) const
    {
        if (!is_contiguous())
            throw error(KILN_BAD_SHAPE, "kiln::tensor: only contiguous tensors are copied as a whole");
        if (host_bytes != bytes())
            throw error(KILN_BAD_SHAPE, "kiln::tensor: the tensor has " + std::to_string(bytes()) +
                                            " bytes, the span " + std::to_string(host_bytes));
    }
    kiln_tensor value_ = kiln_tensor();
    std::shared_ptr<void> owner_;
};

// Scratch memory that grows to what calls ask for, and never shrinks. Calls that run at the same time need one each; growing
// waits for the stream, whose earlier work may still use the old memory.
class workspace
{
  public:
    explicit workspace(const device &of) : device_(of) {}
    void reserve(std::size_t bytes, const stream &s = stream())
    {
        if (bytes <= bytes_) return;
        if (bytes_) kiln::wait(device_, s);
        memory_ = allocate(device_, bytes);
        bytes_ = bytes;
    }
    void *data() const noexcept { return memory_.get(); }
    std::size_t bytes() const noexcept { return bytes_; }

  private:
    device device_;
    std::shared_ptr<void> memory_;
    std::size_t bytes_ = 0;
};

// How the keys of a ragged batch are divided, with its memory: kiln::plan<kiln_paged_plan>, kiln::plan<kiln_mla_plan>. It is empty
// until operators::make has filled it. It is a `const P *` wherever a call takes one.
template <class P> class plan
{
  public:
    explicit plan(const device &of) : memory_(of) {}
    const P *get() const noexcept { return &value_; }
    operator const P *() const noexcept { return &value_; }

  private:
    friend class operators;
    workspace memory_;
    P value_ = P();
};

// ---- programs and kernels

// Copies share it.
class program
{
  public:
    static program from_file(const std::string &path)
    {
        kiln_program *loaded = nullptr;
        check(kiln_program_load_file(path.c_str(), &loaded));
        return program(loaded);
    }
    // `name` is shown in messages; imports are first searched in its folder.
    static program from_text(const std::string &name, const std::string &text)
    {
        kiln_program *loaded = nullptr;
        check(kiln_program_load_text(name.c_str(), text.c_str(), &loaded));
        return program(loaded);
    }
    kiln_program *get() const noexcept { return handle_.get(); }

  private:
    explicit program(kiln_program *loaded) : handle_(loaded, kiln_program_free) {}
    std::shared_ptr<kiln_program> handle_;
};

// An argument of a launch: a tensor, an integer or bool, a floating-point number, or nullptr for an absent optional tensor.
class argument
{
  public:
    argument(const tensor &t) : value_(kiln_arg_tensor(t.get())) {}
    argument(const kiln_tensor *t) : value_(t ? kiln_arg_tensor(t) : kiln_arg_none()) {}
    argument(std::nullptr_t) : value_(kiln_arg_none()) {}
    template <std::integral I> argument(I i) : value_(kiln_arg_int(static_cast<std::int64_t>(i))) {}
    template <std::floating_point F> argument(F x) : value_(kiln_arg_float(static_cast<double>(x))) {}
    const kiln_arg &get() const noexcept { return value_; }

  private:
    kiln_arg value_;
};

class kernel
{
  public:
    // bindings: "T=bf16, BM=64, LSE=none", as for kiln_kernel_build.
    kernel(const device &on, const program &of, const std::string &name, const std::string &bindings = "",
           const kiln_build_options *options = nullptr)
        : device_(on), program_(of)
    {
        kiln_kernel *built = nullptr;
        check(kiln_kernel_build(on.get(), of.get(), name.c_str(), bindings.c_str(), options, &built));
        handle_.reset(built);
    }
    kiln_kernel *get() const noexcept { return handle_.get(); }
    std::string source() const // the emitted C or CUDA C; "" for operators
    {
        const char *const text = kiln_kernel_source(get());
        return text ? text : "";
    }
    // Queues one run, with the arguments in the order of the source.
    template <class... A>
    requires(std::constructible_from<argument, const A &> &&...) void operator()(const stream &s, const A &...a) const
    {
        const std::array<kiln_arg, sizeof...(A)> args = { argument(a).get()... };
        check(kiln_launch(get(), s.get(), args.data(), static_cast<int>(args.size())));
    }
    // The same for an operator that has temporaries.
    template <class... A>
    requires(std::constructible_from<argument, const A &> &&...) void operator()(const stream &s, workspace &scratch,
                                                                                 const A &...a) const
    {
        const std::array<kiln_arg, sizeof...(A)> args = { argument(a).get()... };
        std::size_t bytes = 0;
        check(kiln_workspace_size(get(), args.data(), static_cast<int>(args.size()), &bytes));
        scratch.reserve(bytes, s);
        check(kiln_launch_with(get(), s.get(), args.data(), static_cast<int>(args.size()), scratch.data(),
                               scratch.bytes()));
    }

  private:
    struct closer {
        void operator()(kiln_kernel *k) const noexcept { kiln_kernel_free(k); }
    };
    device device_;
    program program_;
    std::unique_ptr<kiln_kernel, closer> handle_;
};

// ---- operators

class operators
{
  public:
    explicit operators(const device &of, const kiln_build_options *options = nullptr) : device_(of)
    {
        kiln_ops *opened = nullptr;
        check(kiln_ops_open(of.get(), options, &opened));
        handle_.reset(opened);
    }
    kiln_ops *get() const noexcept { return handle_.get(); }

    // A call of kiln/ops/*.h that needs no workspace. The size of the arguments' struct is filled in.
    template <class Args>
    void run(kiln_status (*call)(kiln_ops *, kiln_stream *, const Args *), const stream &s,
             std::type_identity_t<Args> args) const
    {
        args.struct_size = sizeof args;
        check(call(get(), s.get(), &args));
    }
    // One that does, with its size function; the arguments' workspace is filled in.
    template <class Args>
    void run(kiln_status (*call)(kiln_ops *, kiln_stream *, const Args *),
             kiln_status (*size)(kiln_ops *, const Args *, size_t *), const stream &s, workspace &scratch,
             std::type_identity_t<Args> args) const
    {
        std::size_t bytes = 0;
        args.struct_size = sizeof args;
        check(size(get(), &args, &bytes));
        scratch.reserve(bytes, s);
        args.workspace = scratch.data();
        args.workspace_bytes = scratch.bytes();
        check(call(get(), s.get(), &args));
    }
    // kiln_paged_plan_make or kiln_mla_plan_make, with its size function. The plan is for calls that are queued later on the same
    // stream; it is made again, in the same memory, for each step.
    template <class Args, class Sized, class P>
    void make(kiln_status (*call)(kiln_ops *, kiln_stream *, const Args *, P *),
              kiln_status (*size)(kiln_ops *, const Sized *, size_t *), const stream &s, plan<P> &made,
              std::type_identity_t<Args> args) const
    {
        std::size_t bytes = 0;
        args.struct_size = sizeof args;
        if constexpr (std::is_same_v<Sized, Args>) check(size(get(), &args, &bytes));
        else check(size(get(), args.shape, &bytes));
        made.memory_.reserve(bytes, s);
        args.memory = made.memory_.data();
        args.memory_bytes = made.memory_.bytes();
        check(call(get(), s.get(), &args, &made.value_));
    }

  private:
    struct closer {
        void operator()(kiln_ops *o) const noexcept { kiln_ops_close(o); }
    };
    device device_;
    std::unique_ptr<kiln_ops, closer> handle_;
};

} // namespace kiln

#endif
