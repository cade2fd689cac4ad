# SPDX-License-Identifier: MIT
"""libkiln, loaded: its structs, its functions, its errors, its devices.

The library is the first of: the file that $KILN_LIBRARY names, the one inside this package, the one that was built in the
source tree which holds this package, the one that the system's loader finds.
"""
from __future__ import annotations

import ctypes
import os
import threading
from ctypes import POINTER, c_bool, c_char_p, c_int, c_int64, c_size_t, c_uint64, c_void_p
from typing import Dict, Optional

PACKAGE = os.path.dirname(os.path.abspath(__file__))
NATIVE = os.path.join(PACKAGE, "native")        # what `cmake --install` leaves, inside a wheel
MAX_RANK = 8


class Error(RuntimeError):
    """A call that Kiln refused, or that failed. The text is Kiln's message: it names the argument, its value, and what was
    expected. `status` is the name of the kind, such as "bad shape"."""

    def __init__(self, status: str, message: str):
        super().__init__(message)
        self.status = status


class TensorStruct(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("type", c_int), ("rank", c_int), ("shape", c_int64 * MAX_RANK),
                ("strides", c_int64 * MAX_RANK), ("has_strides", c_bool), ("device", c_void_p)]


# kiln_arg as two words: its kind, and its value, the address of a tensor, an integer, or the bits of a double.
NONE, TENSOR, INT, FLOAT = range(4)


class ParameterStruct(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("kind", c_int), ("type", c_int), ("rank", c_int),
                ("reads", c_bool), ("writes", c_bool), ("optional", c_bool), ("strided", c_bool)]


class BuildOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("check", c_bool), ("arch", c_int), ("isa", c_char_p),
                ("tuned", c_char_p), ("tuned_for", c_char_p)]


class ProgramOptions(ctypes.Structure):
    _fields_ = [("folders", POINTER(c_char_p)), ("n_folders", c_int)]


# Every function that is called from here: what it returns, and its parameters. `status` stands for kiln_status.
_status = c_int
_FUNCTIONS = {
    "kiln_version": (c_char_p,),
    "kiln_error_message": (c_char_p,),
    "kiln_status_name": (c_char_p, c_int),
    "kiln_type_name": (c_char_p, c_int),
    "kiln_type_bits": (c_int, c_int),
    "kiln_device_open": (_status, c_char_p, POINTER(c_void_p)),
    "kiln_device_describe": (c_char_p, c_void_p),
    "kiln_device_name": (c_char_p, c_void_p),
    "kiln_device_count": (c_int, c_char_p),
    "kiln_alloc": (_status, c_void_p, c_size_t, POINTER(c_void_p)),
    "kiln_free": (None, c_void_p, c_void_p),
    "kiln_upload": (_status, c_void_p, c_void_p, c_void_p, c_size_t),
    "kiln_download": (_status, c_void_p, c_void_p, c_void_p, c_size_t),
    "kiln_stream_wrap": (_status, c_void_p, c_void_p, POINTER(c_void_p)),
    "kiln_stream_wait": (_status, c_void_p, c_void_p),
    "kiln_tensor_bytes": (c_size_t, POINTER(TensorStruct)),
    "kiln_tensor_from_dlpack": (_status, c_void_p, POINTER(TensorStruct)),
    "kiln_tensor_from_dlpack_versioned": (_status, c_void_p, POINTER(TensorStruct), POINTER(c_uint64)),
    "kiln_tensor_to_dlpack": (_status, POINTER(TensorStruct), POINTER(c_void_p)),
    "kiln_tensor_to_dlpack_versioned": (_status, POINTER(TensorStruct), c_uint64, POINTER(c_void_p)),
    "kiln_program_load": (_status, c_char_p, c_char_p, POINTER(ProgramOptions), POINTER(c_void_p)),
    "kiln_program_free": (None, c_void_p),
    "kiln_kernel_build": (_status, c_void_p, c_void_p, c_char_p, c_char_p, POINTER(BuildOptions), POINTER(c_void_p)),
    "kiln_kernel_free": (None, c_void_p),
    "kiln_kernel_source": (c_char_p, c_void_p),
    "kiln_kernel_parameters": (c_int, c_void_p),
    "kiln_kernel_parameter": (_status, c_void_p, c_int, POINTER(ParameterStruct)),
    "kiln_kernel_extents": (_status, c_void_p, c_void_p, c_int, c_int, POINTER(c_int64)),
    "kiln_workspace_size": (_status, c_void_p, c_void_p, c_int, POINTER(c_size_t)),
    "kiln_launch_with": (_status, c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_size_t),
    "kiln_set_threads": (None, c_int),
    "kiln_ops_open": (_status, c_void_p, POINTER(BuildOptions), POINTER(c_void_p)),
    "kiln_ops_list": (c_size_t, c_void_p, c_void_p, c_size_t),
}


def _candidates():
    if os.environ.get("KILN_LIBRARY"):
        return [os.environ["KILN_LIBRARY"]]
    build = os.path.join(os.path.dirname(os.path.dirname(PACKAGE)), "build", "libkiln.so")
    files = [os.path.join(NATIVE, "lib", "libkiln.so"), build]
    return [file for file in files if os.path.exists(file)] + ["libkiln.so.0"]


def _load() -> ctypes.CDLL:
    file = _candidates()[0]
    try:
        loaded = ctypes.CDLL(file)
    except OSError as error:
        raise ImportError("kiln: cannot load its library (%s): install the wheel, build the source tree with 'make', or set "
                          "KILN_LIBRARY to a libkiln.so" % error) from None
    for name, (result, *parameters) in _FUNCTIONS.items():
        try:
            function = getattr(loaded, name)
        except AttributeError:
            raise ImportError("kiln: %s is another version than this package: it has no %s" % (file, name)) from None
        function.restype, function.argtypes = result, parameters
    return loaded


lib = _load()
version = lib.kiln_version().decode()


def error_of(status: int) -> Error:
    """The exception for a status that is not KILN_OK: the message of this thread's last failed call."""
    return Error(lib.kiln_status_name(status).decode(), lib.kiln_error_message().decode("utf-8", "replace"))


def check(status: int) -> None:
    if status:
        raise error_of(status)


# ---- element types: name, number, bits, as the library has them

TYPES: Dict[str, int] = {}
while True:
    _name = lib.kiln_type_name(len(TYPES) + 1).decode()
    if not _name.isalnum():                     # "unknown type"
        break
    TYPES[_name] = len(TYPES) + 1
TYPE_NAMES = {number: name for name, number in TYPES.items()}
TYPE_BITS = {name: lib.kiln_type_bits(number) for name, number in TYPES.items()}

# ---- devices: opened once, and kept until the process ends

_devices: Dict[str, int] = {}
_lock = threading.Lock()


def open_device(name: str) -> int:
    """The handle of "cpu", "cuda:0" ..."""
    handle = _devices.get(name)
    if handle is None:
        with _lock:
            handle = _devices.get(name)         # another thread may have been first
            if handle is None:
                made = c_void_p()
                check(lib.kiln_device_open(name.encode(), ctypes.byref(made)))
                handle = _devices[name] = made.value or 0
    return handle


def device_name(handle: Optional[int]) -> str:
    return lib.kiln_device_name(handle).decode() if handle else "cpu"


def build_options(check_code: bool, arch: int, isa: Optional[str], tuned: Optional[str] = None,
                  tuned_for: Optional[str] = None) -> BuildOptions:
    texts = [text.encode() if text else None for text in (isa, tuned, tuned_for)]
    return BuildOptions(ctypes.sizeof(BuildOptions), check_code, arch, *texts)
