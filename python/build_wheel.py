# SPDX-License-Identifier: MIT
"""build_wheel.py - builds the wheel of the package `kiln`: what pip calls for `pip install ./python` and `pip wheel ./python`.

The wheel holds the package, and in kiln/native the shared library, the command, the library's kernels and the headers. It is
for any Python from 3.9 on, since the package reaches the library by ctypes. CMake builds in the source tree's folder `build`,
where `make` does, too; `pip install -C build=FOLDER` names another, and `-C prebuilt=1` takes what is there as it is.
"""
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sysconfig
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
METADATA = """Metadata-Version: 2.1
Name: kiln
Version: %s
Summary: Tile kernels for CPUs and NVIDIA GPUs: a compiler, and the kernels that large language models need
License: MIT
Requires-Python: >=3.9
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Programming Language :: C
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

"""
WHEEL = "Wheel-Version: 1.0\nGenerator: build_wheel.py\nRoot-Is-Purelib: false\nTag: %s\n"
ENTRY_POINTS = "[console_scripts]\nkiln = kiln.__main__:main\n"


def version():
    with open(os.path.join(ROOT, "CMakeLists.txt")) as file:
        return re.search(r"project\(kiln VERSION ([0-9.]+)", file.read()).group(1)


def metadata():
    with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as file:
        return METADATA % version() + file.read()


# ---- the library

def built(settings):
    """The folder of the built library; it is built first."""
    folder = os.path.abspath(settings.get("build") or os.path.join(ROOT, "build"))
    if not settings.get("prebuilt"):
        cmake = shutil.which("cmake") or "cmake"
        subprocess.run([cmake, "-S", ROOT, "-B", folder], check=True)
        subprocess.run([cmake, "--build", folder, "-j", str(os.cpu_count() or 1), "--target", "kiln", "kiln_command"], check=True)
    return folder


def platform_tag(*files):
    """By the newest version of glibc's symbols that the files ask for (PEP 600)."""
    machine = re.sub(r"[-.]", "_", sysconfig.get_platform())
    newest = 0
    for name in files:
        with open(name, "rb") as file:
            newest = max([newest] + [int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", file.read())])
    if newest and machine.startswith("linux_"):
        return "manylinux_2_%d_%s" % (newest, machine[len("linux_"):])
    return machine


def files_below(folder, ending):
    for place, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            if name.endswith(ending):
                yield os.path.join(place, name)


def native_files(folder):
    """What goes into kiln/native, laid out as an installation, in which the library finds its kernels: source, place."""
    yield os.path.realpath(os.path.join(folder, "libkiln.so")), "lib/libkiln.so"
    yield os.path.join(folder, "kiln"), "bin/kiln"
    for file in files_below(os.path.join(ROOT, "kernels"), ".tile"):
        yield file, "share/kiln/kernels/" + os.path.relpath(file, os.path.join(ROOT, "kernels"))
    for file in files_below(os.path.join(ROOT, "include"), ".h"):
        yield file, "include/" + os.path.relpath(file, os.path.join(ROOT, "include"))


# ---- the wheel: a zip of files, with a list of their digests last

class Wheel:
    def __init__(self, path):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.record = []

    def add(self, place, data, mode=0o644):
        info = zipfile.ZipInfo(place, (1980, 1, 1, 0, 0, 0))        # the same input gives the same wheel
        info.external_attr, info.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append("%s,sha256=%s,%d" % (place, digest, len(data)))

    def add_file(self, place, path):
        with open(path, "rb") as file:
            self.add(place, file.read(), 0o755 if os.access(path, os.X_OK) else 0o644)

    def finish(self, tag):
        information = "kiln-%s.dist-info/" % version()
        self.add(information + "METADATA", metadata().encode())
        self.add(information + "entry_points.txt", ENTRY_POINTS.encode())
        self.add_file(information + "LICENSE", os.path.join(ROOT, "LICENSE"))
        self.add(information + "WHEEL", (WHEEL % tag).encode())
        self.zip.writestr(information + "RECORD", "\n".join(self.record + [information + "RECORD,,"]) + "\n")
        self.zip.close()


# ---- what pip calls (PEP 517, PEP 660)

def get_requires_for_build_wheel(config_settings=None):
    return [] if shutil.which("cmake") or (config_settings or {}).get("prebuilt") else ["cmake"]


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    folder = built(config_settings or {})
    native = list(native_files(folder))
    tag = "py3-none-" + platform_tag(native[0][0], native[1][0])
    name = "kiln-%s-%s.whl" % (version(), tag)
    wheel = Wheel(os.path.join(wheel_directory, name))
    for ending in (".py", "py.typed"):
        for file in files_below(os.path.join(HERE, "kiln"), ending):
            wheel.add_file(os.path.relpath(file, HERE), file)
    for file, place in native:
        wheel.add_file("kiln/native/" + place, file)
    wheel.finish(tag)
    return name


def get_requires_for_build_editable(config_settings=None):
    return get_requires_for_build_wheel(config_settings)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """The package where it is, with the library of the folder `build` (kiln._library looks there)."""
    built(dict(config_settings or {}, build=None))
    name = "kiln-%s-py3-none-any.whl" % version()
    wheel = Wheel(os.path.join(wheel_directory, name))
    wheel.add("kiln.pth", (HERE + "\n").encode())
    wheel.finish("py3-none-any")
    return name


class UnsupportedOperation(Exception):
    """pip's name for it."""


def build_sdist(sdist_directory, config_settings=None):
    raise UnsupportedOperation("the sources are those of the whole tree: build wheels from it")
