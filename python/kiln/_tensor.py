# SPDX-License-Identifier: MIT
"""Tensors of other packages as Kiln's, without copies; memory for outputs and workspaces from whoever made the inputs.

PyTorch's tensors and NumPy's arrays are asked directly, since that is quicker and tells all types; what is neither speaks
DLPack (1.x or before), `__cuda_array_interface__` or `__array_interface__`. No framework is imported here before one of its
objects was seen.
"""
from __future__ import annotations

import ctypes
import sys
from ctypes import c_char_p, c_int, c_int64, c_uint64, c_void_p, py_object
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ._library import (MAX_RANK, TYPE_BITS, TYPE_NAMES, TYPES, Error, TensorStruct, check, device_name, lib, open_device)

Array = Any                                     # a tensor of anyone's: what as_tensor takes
_Extents = c_int64 * MAX_RANK
WORKSPACE_ALIGNMENT = 256


class Tensor:
    """Memory with an element type, a shape and strides that Kiln takes as an argument. It holds what owns the memory.

    Made by `kiln.tensor` (over another object's memory), `kiln.empty` (memory of its own), and by calls that had to allocate
    an output of a type that the framework at hand lacks. It can be handed on: it has `__dlpack__`, on the host
    `__array_interface__`, on a GPU `__cuda_array_interface__`. NumPy has no 16-bit brain floats and no fp8: there such
    elements are unsigned integers of their size.
    """

    __slots__ = ("struct", "owner", "device", "read_only", "framework", "__weakref__")

    def __init__(self, struct: TensorStruct, owner: Any, device: str, read_only: bool = False, framework: Any = None):
        self.struct = struct
        self.owner = owner
        self.device = device                    # "cpu", "cuda:0" ...
        self.read_only = read_only
        self.framework = framework              # who allocates what goes with it

    @property
    def type(self) -> str:
        """The element type: "bf16", "f32", "e4m3" ..."""
        return TYPE_NAMES[self.struct.type]

    @property
    def shape(self) -> Tuple[int, ...]:
        """Extents in elements, outermost dimension first."""
        return tuple(self.struct.shape[:self.struct.rank])

    @property
    def strides(self) -> Tuple[int, ...]:
        """In elements."""
        if self.struct.has_strides:
            return tuple(self.struct.strides[:self.struct.rank])
        return _row_major(self.shape)

    @property
    def nbytes(self) -> int:
        return lib.kiln_tensor_bytes(self.struct)

    @property
    def data_ptr(self) -> int:
        return self.struct.data or 0

    def __repr__(self) -> str:
        return "kiln.Tensor(%s%s, %s)" % (self.type, list(self.shape), self.device)

    def write(self, source: Any) -> "Tensor":
        """Copies the bytes of `source`, contiguous host memory of the same size (an array, bytes), into it, and returns it."""
        view = memoryview(source).cast("B")
        if view.nbytes != self.nbytes or self.strides != _row_major(self.shape):
            raise ValueError("kiln: write() takes %d contiguous bytes, %d given" % (self.nbytes, view.nbytes))
        check(lib.kiln_upload(open_device(self.device), self.struct.data, bytes(view), self.nbytes))
        return self

    def read(self) -> bytes:
        """Its bytes, once all work on the device's default stream is done."""
        if self.strides != _row_major(self.shape):
            raise ValueError("kiln: read() takes a contiguous tensor")
        made = ctypes.create_string_buffer(self.nbytes)
        device = open_device(self.device)
        check(lib.kiln_stream_wait(device, None))
        check(lib.kiln_download(device, made, self.struct.data, self.nbytes))
        return made.raw

    # ---- handing on

    def __dlpack_device__(self) -> Tuple[int, int]:
        kind, _, index = self.device.partition(":")
        return (1, 0) if kind == "cpu" else (2, int(index))

    def __dlpack__(self, *, stream: Any = None, max_version: Optional[Tuple[int, int]] = None, **_: Any) -> Any:
        if self.device != "cpu":                # whatever stream reads it, the work is done
            check(lib.kiln_stream_wait(open_device(self.device), None))
        return _make_capsule(self, max_version is not None and max_version[0] >= 1)

    def _interface(self) -> dict:
        bits = TYPE_BITS[self.type]
        if bits < 8:
            raise AttributeError("elements of %d bits have no array interface" % bits)
        code = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "bool": "|b1"}.get(self.type)
        if code is None:
            code = ("<" if bits > 8 else "|") + ("i" if self.type[0] == "i" else "u") + str(bits // 8)
        return {"version": 3, "typestr": code, "shape": self.shape, "data": (self.data_ptr, self.read_only),
                "strides": tuple(s * bits // 8 for s in self.strides)}

    @property
    def __array_interface__(self) -> dict:
        if self.device != "cpu":
            raise AttributeError("memory of %s has no __array_interface__" % self.device)
        return self._interface()

    @property
    def __cuda_array_interface__(self) -> dict:
        if self.device == "cpu":
            raise AttributeError("memory of the host has no __cuda_array_interface__")
        return dict(self._interface(), stream=1)


def _row_major(shape: Sequence[int]) -> Tuple[int, ...]:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


_extents: dict = {}                             # arrays of shapes and strides that were seen: making one takes longest


def _extents_of(numbers: Sequence[int]) -> Any:
    made = _extents.get(numbers)
    if made is None:
        if len(numbers) > MAX_RANK:
            raise Error("bad shape", "a tensor of %d dimensions, expected at most %d" % (len(numbers), MAX_RANK))
        if len(_extents) >= 4096:
            _extents.clear()
        made = _extents[tuple(numbers)] = _Extents(*numbers)
    return made


def _struct(data: int, type_number: int, shape: Sequence[int], strides: Optional[Sequence[int]], device: str) -> TensorStruct:
    """shape and strides: tuples, in elements; strides None: row-major."""
    if strides is None and device == "cpu":
        return TensorStruct(data, type_number, len(shape), _extents_of(shape))
    return TensorStruct(data, type_number, len(shape), _extents_of(shape), _extents_of(strides or ()), strides is not None,
                        None if device == "cpu" else open_device(device))


# ---- capsules of DLPack. One that is not renamed frees its tensor itself when it goes, so holding it is enough to import.

_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = c_char_p, [py_object]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = c_void_p, [py_object, c_char_p]
_capsule_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is_valid.restype, _capsule_is_valid.argtypes = c_int, [c_void_p, c_char_p]
_raw_pointer = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = py_object
_Destructor = ctypes.PYFUNCTYPE(None, c_void_p)
_new_capsule.argtypes = [c_void_p, c_char_p, _Destructor]
_Deleter = ctypes.CFUNCTYPE(None, c_void_p)
_PLAIN, _VERSIONED = b"dltensor", b"dltensor_versioned"


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device", c_int * 2), ("ndim", c_int), ("dtype", ctypes.c_uint8 * 4),
                ("shape", c_void_p), ("strides", c_void_p), ("byte_offset", c_uint64)]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _DLTensor), ("context", c_void_p), ("deleter", c_void_p)]


class _ManagedVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", c_void_p), ("deleter", c_void_p),
                ("flags", c_uint64), ("tensor", _DLTensor)]


_exported: dict = {}                            # address of a managed tensor: what keeps its memory, and its own deleter


# Both may be called while the interpreter ends and modules are emptied: they hold what they use, and are never freed.
@_Deleter
def _delete(address: int, exported: dict = _exported) -> None:
    _, own_deleter = exported.pop(address)
    own_deleter(address)


@_Destructor
def _drop_capsule(capsule: int, names: tuple = (_PLAIN, _VERSIONED), is_valid: Any = _capsule_is_valid,
                  pointer: Any = _raw_pointer, delete: Any = _delete) -> None:      # one that nobody took
    for name in names:
        if is_valid(capsule, name):
            delete(pointer(capsule, name))


for _callback in (_delete, _drop_capsule):
    ctypes.pythonapi.Py_IncRef(py_object(_callback))


def _make_capsule(tensor: Tensor, versioned: bool) -> Any:
    made = c_void_p()
    if versioned:
        check(lib.kiln_tensor_to_dlpack_versioned(tensor.struct, int(tensor.read_only), ctypes.byref(made)))
        managed: Any = _ManagedVersioned.from_address(made.value or 0)
    elif tensor.read_only:
        raise BufferError("kiln: this tensor may only be read, which only DLPack 1.0 and later can say")
    else:
        check(lib.kiln_tensor_to_dlpack(tensor.struct, ctypes.byref(made)))
        managed = _Managed.from_address(made.value or 0)
    _exported[made.value] = (tensor, _Deleter(managed.deleter))
    managed.deleter = ctypes.cast(_delete, c_void_p).value
    return _new_capsule(made.value, _VERSIONED if versioned else _PLAIN, _drop_capsule)


# ---- what each package tells of its tensors, and how it allocates

# Names of element types of PyTorch, and of NumPy with the types that ml_dtypes adds. Packed types have several elements in one.
_NAMES = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3",
          "float8_e5m2": "e5m2", "float8_e8m0fnu": "e8m0", "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8",
          "uint64": "u64", "uint32": "u32", "uint16": "u16", "uint8": "u8", "bool": "bool"}


class _Torch:
    """PyTorch: its caching allocator and its current streams."""

    def __init__(self) -> None:
        torch = self.torch = sys.modules["torch"]
        self.types = {getattr(torch, name): TYPES[kiln] for name, kiln in _NAMES.items() if hasattr(torch, name)}
        self.dtypes = {number: dtype for dtype, number in self.types.items()}
        self.devices = {torch.device("cpu"): "cpu"}
        # The number alone, without an object around it: private, so it may be gone.
        self.raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)

    def owns(self, kind: Any) -> bool:
        return issubclass(kind, self.torch.Tensor)

    def _device(self, place: Any) -> str:
        if place.type not in ("cpu", "cuda"):
            raise Error("bad device", "a tensor of %s, expected one of the host or of a CUDA device" % place)
        name = self.devices[place] = "cpu" if place.type == "cpu" else "cuda:%d" % place.index
        return name

    def wrap(self, x: Any) -> Tensor:
        place, number = x.device, self.types.get(x.dtype)
        if number is None:
            raise Error("bad type", "a tensor of %s, which Kiln has no type for" % x.dtype)
        name = self.devices.get(place) or self._device(place)
        strides = None if x.is_contiguous() else x.stride()
        return Tensor(_struct(x.data_ptr(), number, x.shape, strides, name), x, name, False, self)

    def empty(self, shape: Sequence[int], type_name: str, device: str) -> Any:
        dtype = self.dtypes.get(TYPES[type_name])
        return empty(shape, type_name, device) if dtype is None else self.torch.empty(shape, dtype=dtype, device=device)

    def workspace(self, n: int, device: str, stream: Optional[int]) -> Tuple[int, Any]:
        memory = self.torch.empty(n + WORKSPACE_ALIGNMENT, dtype=self.torch.uint8, device=device)
        if stream is not None:                  # not the one in whose order memory is reused
            memory.record_stream(self.torch.cuda.ExternalStream(0 if stream == 1 else stream, device=device))
        return memory.data_ptr(), memory

    def stream(self, device: str) -> int:
        index = int(device[5:])
        return self.raw_stream(index) if self.raw_stream else self.torch.cuda.current_stream(index).cuda_stream


class _NumPy:
    """NumPy: the host alone."""

    def __init__(self) -> None:
        self.numpy = sys.modules["numpy"]
        self.types: dict = {}                   # by dtype: number, bytes

    def owns(self, kind: Any) -> bool:
        return issubclass(kind, self.numpy.ndarray)

    def _type(self, dtype: Any) -> Tuple[int, int]:
        known = self.types.get(dtype)
        if known is None:
            name = _NAMES.get(dtype.name)
            if name is None or not dtype.isnative:
                raise Error("bad type", "an array of %s, which Kiln has no type for" % dtype)
            known = self.types[dtype] = (TYPES[name], dtype.itemsize)
        return known

    def wrap(self, x: Any) -> Tensor:
        number, size = self._type(x.dtype)
        flags, strides = x.flags, None
        if not flags.c_contiguous:
            strides = _in_elements(x.strides, size)
        return Tensor(_struct(x.ctypes.data, number, x.shape, strides, "cpu"), x, "cpu", not flags.writeable, self)

    def empty(self, shape: Sequence[int], type_name: str, device: str) -> Any:
        for name, kiln in _NAMES.items():
            if kiln == type_name and device == "cpu":
                dtype = self._dtype(name)
                if dtype is not None:
                    return self.numpy.empty(shape, dtype)
        return empty(shape, type_name, device)

    def _dtype(self, name: str) -> Any:
        if name not in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"):
            return self.numpy.dtype(name)
        more = sys.modules.get("ml_dtypes")     # where nobody has imported it, nobody expects its types
        return self.numpy.dtype(getattr(more, name)) if more else None

    def workspace(self, n: int, device: str, stream: Optional[int]) -> Tuple[int, Any]:
        if device != "cpu":
            return _own_workspace(n, device)
        memory = self.numpy.empty(n + WORKSPACE_ALIGNMENT, "u1")
        return memory.ctypes.data, memory

    def stream(self, device: str) -> int:
        return 0


class _CuPy:
    """CuPy: its memory pool and its current streams."""

    def __init__(self) -> None:
        self.cupy = sys.modules["cupy"]

    def owns(self, kind: Any) -> bool:
        return issubclass(kind, self.cupy.ndarray)

    def wrap(self, x: Any) -> Tensor:
        return _wrap_dlpack(x, self.stream(""), self)

    def empty(self, shape: Sequence[int], type_name: str, device: str) -> Any:
        for name, kiln in _NAMES.items():
            if kiln == type_name and TYPE_BITS[kiln] >= 8 and kiln not in ("bf16", "e4m3", "e5m2", "e8m0"):
                with self.cupy.cuda.Device(int(device[5:])):
                    return self.cupy.empty(shape, name)
        return empty(shape, type_name, device)

    def workspace(self, n: int, device: str, stream: Optional[int]) -> Tuple[int, Any]:
        with self.cupy.cuda.Device(int(device[5:])):
            if stream is None:
                memory = self.cupy.empty(n + WORKSPACE_ALIGNMENT, "u1")
            else:                               # from the pool of the stream in whose order it is reused
                with self.cupy.cuda.ExternalStream(0 if stream == 1 else stream):
                    memory = self.cupy.empty(n + WORKSPACE_ALIGNMENT, "u1")
        return memory.data.ptr, memory

    def stream(self, device: str) -> int:
        return self.cupy.cuda.get_current_stream().ptr


class _Other:
    """Whatever else has tensors: outputs and workspaces are memory of Kiln's, work goes to the default stream."""

    def wrap(self, x: Any) -> Tensor:
        if hasattr(x, "__dlpack__"):
            return _wrap_dlpack(x, 0, self)
        if hasattr(x, "__cuda_array_interface__"):
            return _wrap_interface(x, x.__cuda_array_interface__, "cuda:%d" % _ordinal(x), self)
        if hasattr(x, "__array_interface__"):
            return _wrap_interface(x, x.__array_interface__, "cpu", self)
        raise TypeError("kiln: %s is no tensor: it has neither __dlpack__ nor an array interface" % type(x).__name__)

    def empty(self, shape: Sequence[int], type_name: str, device: str) -> Any:
        return empty(shape, type_name, device)

    def workspace(self, n: int, device: str, stream: Optional[int]) -> Tuple[int, Any]:
        return _own_workspace(n, device)

    def stream(self, device: str) -> int:
        return 0


class _Jax(_Other):
    """JAX: its arrays never change, though its DLPack does not say so."""

    def owns(self, kind: Any) -> bool:
        return hasattr(kind, "__dlpack__")

    def wrap(self, x: Any) -> Tensor:
        made = super().wrap(x)
        made.read_only = True
        return made


_other = _Other()
_kinds: dict = {"torch": _Torch, "numpy": _NumPy, "cupy": _CuPy, "jax": _Jax, "jaxlib": _Jax}
_packages: dict = {}                            # the frameworks that were seen, by package
_classes: dict = {}                             # who takes the objects of a class


def _framework_of(kind: Any) -> Any:
    """By the package of the class, or of one that it derives from."""
    for base in kind.__mro__:
        package = base.__module__.partition(".")[0]
        if package in _kinds:
            found = _packages.get(package)
            if found is None:
                found = _packages[package] = _kinds[package]()
            if found.owns(kind):
                _classes[kind] = found
                return found
    return _other


def as_tensor(x: Any) -> Tensor:
    """Any tensor as Kiln's, over the same memory. TypeError if it is none; Error if Kiln has no type or device for it."""
    kind = type(x)
    if kind is Tensor:
        return x
    try:
        return (_classes.get(kind) or _framework_of(kind)).wrap(x)
    except (AttributeError, BufferError, RuntimeError) as error:
        if isinstance(error, Error):
            raise
        raise TypeError("kiln: %s cannot be taken as a tensor: %s" % (kind.__name__, error)) from error


def _in_elements(strides: Sequence[int], size: int) -> Tuple[int, ...]:
    for s in strides:
        if s % size:
            raise Error("bad shape", "a stride of %d bytes is no multiple of an element's %d" % (s, size))
    return tuple(s // size for s in strides)


def _ordinal(x: Any) -> int:
    device = getattr(x, "device", None)
    return getattr(device, "id", 0) if device is not None else 0


def _wrap_interface(x: Any, told: dict, device: str, framework: Any) -> Tensor:
    code = told["typestr"]
    kinds = {"f": "f", "i": "i", "u": "u", "b": "bool"}
    name = kinds.get(code[1], "") + ("" if code[1] == "b" else str(8 * int(code[2:])))
    if name not in TYPES or code[0] == ">" and sys.byteorder == "little":
        raise Error("bad type", "an array of '%s', which Kiln has no type for" % code)
    address, read_only = told["data"]
    strides = told.get("strides")
    if strides is not None:
        strides = _in_elements(strides, int(code[2:]))
    if told.get("stream"):                      # work that must be done before this may be read
        check(lib.kiln_stream_wait(open_device(device), wrap_stream(device, told["stream"])))
    return Tensor(_struct(address, TYPES[name], tuple(told["shape"]), strides, device), x, device, bool(read_only), framework)


def _dlpack_of(x: Any, stream: int) -> Any:
    kind = x.__dlpack_device__()[0] if hasattr(x, "__dlpack_device__") else 1
    options = {"stream": stream or 1} if int(kind) == 2 else {}     # CUDA's number of the legacy default stream is 1
    try:
        return x.__dlpack__(max_version=(1, 1), **options)
    except TypeError:                           # from before DLPack 1.0
        return x.__dlpack__(**options)


def _wrap_dlpack(x: Any, stream: int, framework: Any) -> Tensor:
    if hasattr(x, "__dlpack_device__"):
        kind, index = x.__dlpack_device__()
        if int(kind) == 2:
            open_device("cuda:%d" % index)      # and keep it: importing alone would close it again
    capsule = _dlpack_of(x, stream)
    struct, flags, name = TensorStruct(), c_uint64(0), _capsule_name(capsule)
    if name == _VERSIONED:
        check(lib.kiln_tensor_from_dlpack_versioned(_capsule_pointer(capsule, name), struct, ctypes.byref(flags)))
    elif name == _PLAIN:
        check(lib.kiln_tensor_from_dlpack(_capsule_pointer(capsule, name), struct))
    else:
        raise TypeError("kiln: __dlpack__ of %s returned a capsule named %r" % (type(x).__name__, name))
    return Tensor(struct, (x, capsule), device_name(struct.device), bool(flags.value & 1), framework)


# ---- made here

def tensor(x: Any, type: Optional[str] = None) -> Tensor:
    """`x` as Kiln's tensor over the same memory, its elements taken as `type`: for types that the framework lacks.

    `type` ("bf16", "e4m3", "i4" ...) has as many bits as x's elements, or fewer: then the last dimension, which must be
    contiguous, counts elements that are packed with the first in the lowest bits. NumPy example: bf16 as uint16,
    `kiln.tensor(bits, "bf16")`; two i4 to a byte, `kiln.tensor(bytes, "i4")` has twice the columns.

    TypeError: x is no tensor. Error: there is no such type, or x's elements are no multiple of it.
    """
    given = as_tensor(x)
    if type is None:
        return given
    if type not in TYPES:
        raise Error("bad type", "there is no type '%s': the types are %s" % (type, ", ".join(TYPES)))
    have, want = TYPE_BITS[given.type], TYPE_BITS[type]
    each = have // want if want <= have and have % want == 0 else 0
    if not each or each > 1 and (not given.shape or given.strides[-1] != 1):
        raise Error("bad type", "elements of %s cannot be taken as %s" % (given.type, type))
    shape, strides = given.shape, given.strides
    if each > 1:
        shape, strides = shape[:-1] + (shape[-1] * each,), tuple(s * each for s in strides[:-1]) + (1,)
    struct = _struct(given.data_ptr, TYPES[type], shape, strides if given.struct.has_strides else None, given.device)
    return Tensor(struct, given.owner, given.device, given.read_only, given.framework)


class _Memory:
    """Memory of a device, freed with its last user."""

    __slots__ = ("device", "address")

    def __init__(self, n: int, device: str):
        made = c_void_p()
        self.device, self.address = open_device(device), None
        check(lib.kiln_alloc(self.device, max(n, 1), ctypes.byref(made)))
        self.address = made.value

    def __del__(self, lib: Any = lib) -> None:  # which is gone from the module when the interpreter ends
        if getattr(self, "address", None):
            lib.kiln_stream_wait(self.device, None)         # queued work may still use it
            lib.kiln_free(self.device, self.address)


def empty(shape: Sequence[int], type: str, device: str = "cpu") -> Tensor:
    """A row-major tensor in memory of Kiln's own, aligned to 256 bytes, not initialised; freed with the last that uses it.

    shape: extents in elements; type: "bf16", "f32" ...; device: "cpu", "cuda:0" ...
    Error: no such type or device, or not enough memory.
    """
    if type not in TYPES:
        raise Error("bad type", "there is no type '%s': the types are %s" % (type, ", ".join(TYPES)))
    struct = _struct(0, TYPES[type], tuple(shape), None, device)
    memory = _Memory(lib.kiln_tensor_bytes(struct), device)
    struct.data = memory.address
    return Tensor(struct, memory, device, False, _other)


def _own_workspace(n: int, device: str) -> Tuple[int, Any]:
    memory = _Memory(n + WORKSPACE_ALIGNMENT, device)
    return memory.address or 0, memory


def workspace(framework: Any, n: int, device: str, stream: Any = None) -> Tuple[Optional[int], int, Any]:
    """Address, bytes and owner of scratch memory, aligned as workspaces are. stream: the caller's, where work uses it that the
    framework's current stream does not wait for."""
    if not n:
        return None, 0, None
    address, owner = framework.workspace(n, device, None if stream is None or device == "cpu" else _native_stream(stream))
    return (address + WORKSPACE_ALIGNMENT - 1) // WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT, n, owner


# ---- streams

class _Streams(Dict[int, Optional[int]]):
    """Handles of a device's streams, by their native ones: made when they are asked for. None: the default stream."""

    def __init__(self, device: str):
        super().__init__({0: None, 1: None})    # CUDA's numbers of the legacy default stream
        self.device = device

    def __missing__(self, native: int) -> Optional[int]:
        made = c_void_p()
        check(lib.kiln_stream_wrap(open_device(self.device), native, ctypes.byref(made)))
        return self.setdefault(native, made.value)


_streams: Dict[str, _Streams] = {}              # by device


def streams_of(device: str) -> _Streams:
    known = _streams.get(device)
    return known if known is not None else _streams.setdefault(device, _Streams(device))


def wrap_stream(device: str, native: int) -> Optional[int]:
    return streams_of(device)[native]


def _native_stream(stream: Any) -> int:
    if isinstance(stream, int):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for name in ("cuda_stream", "ptr", "handle"):
        value = getattr(stream, name, None)
        if isinstance(value, int):
            return value
    raise TypeError("kiln: %s is no stream: expected a number, or an object with __cuda_stream__, cuda_stream or ptr"
                    % type(stream).__name__)


def stream_for(device: Optional[str], framework: Any, stream: Any = None) -> Optional[int]:
    """The handle of the stream to work on: the one that is given, else the framework's current one. None: the default one."""
    if device is None or device == "cpu":
        return None
    return wrap_stream(device, framework.stream(device) if stream is None else _native_stream(stream))


# ---- PyTorch on the shortest ways (_warm.py, and launches in _program.py)

tensor_types: List[Any] = []                    # torch.Tensor, once PyTorch is there
plain_types = {int, float, bool, str, type(None)}       # of options that hold nobody's memory


def know_torch() -> bool:
    """Whether there are tensors of PyTorch."""
    torch = sys.modules.get("torch")
    if torch is not None and not tensor_types and hasattr(torch, "Tensor"):
        tensor_types.extend([torch.Tensor, torch.nn.Parameter])
        plain_types.add(torch.dtype)
    return bool(tensor_types)
