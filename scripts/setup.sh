#!/bin/sh
# SPDX-License-Identifier: MIT
# setup.sh - install what building and testing need, or say the one line to type.
# usage: setup.sh build | test
#   build   a C compiler and cmake: without them it ends with 1
#   test    cmocka as well; clang with its run-time libraries, what builds and runs code for ARM, python3 with NumPy, and
#           Chromium, which tests use where they are there
set -u

missing=
need() { # need COMMAND-OR-FILE PACKAGE...
    case $1 in
    /*) [ -e "$1" ] && return ;;
    *)  command -v "$1" >/dev/null 2>&1 && return ;;
    esac
    shift
    missing="$missing $*"
}

as_root=
may_install() {
    command -v apt-get >/dev/null 2>&1 || return 1
    [ "$(id -u)" = 0 ] && return 0
    command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null && as_root=sudo
}

install() { # install PACKAGE...
    echo "installing: $*"
    # Lists are fetched only where the ones that are here do not do.
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 && return
    $as_root apt-get update -qq >/dev/null 2>&1
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

clang_runtime() { # the package with the sanitizers and the fuzzer of the clang that is here, or would be installed
    if command -v clang >/dev/null 2>&1; then
        version=$(clang -dumpversion | cut -d. -f1)
    else
        version=$(apt-cache depends clang 2>/dev/null | sed -nE 's/.*Depends: clang-([0-9]+).*/\1/p' | head -n 1)
    fi
    [ -n "$version" ] && echo "libclang-rt-$version-dev"
}

has_fuzzer() {
    runtime=$(clang -print-runtime-dir 2>/dev/null) || return 1
    for file in "$runtime"/libclang_rt.fuzzer*.a; do [ -e "$file" ] && return 0; done
    return 1
}

has_browser() { # what tests/tools/browser.py looks for
    [ -n "${CHROMIUM:-}" ] && return
    for browser in chromium chromium-browser google-chrome chrome; do command -v "$browser" >/dev/null 2>&1 && return; done
    return 1
}

need cc gcc libc6-dev
need cmake cmake
[ "${1:-build}" = test ] && need /usr/include/cmocka.h libcmocka-dev
if [ -n "$missing" ]; then
    # shellcheck disable=SC2086
    if ! may_install || ! install $missing; then
        echo "packages are missing and cannot be installed from here; please type:"
        echo "    sudo apt-get install -y$missing"
        exit 1
    fi
fi
if [ "${1:-build}" = test ] && ! has_fuzzer; then
    if may_install && [ -z "$(clang_runtime)" ]; then $as_root apt-get update -qq >/dev/null 2>&1; fi
    # shellcheck disable=SC2046
    if ! may_install || ! install clang $(clang_runtime) 2>/dev/null; then
        echo "clang with its sanitizers is not here: tests do with gcc's, and fuzz without coverage; to have it, type:"
        echo "    sudo apt-get install -y clang $(clang_runtime)"
    fi
fi
if [ "${1:-build}" = test ]; then
    missing=
    need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
    need /usr/aarch64-linux-gnu/include/stdio.h libc6-dev-arm64-cross
    need qemu-aarch64 qemu-user
    # shellcheck disable=SC2086
    if [ -n "$missing" ] && { ! may_install || ! install $missing 2>/dev/null; }; then
        echo "what builds and runs code for ARM is not here: its test skips; to have it, type:"
        echo "    sudo apt-get install -y$missing"
    fi
    if ! python3 -c 'import numpy' 2>/dev/null && ! /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
        if ! may_install || ! install python3 python3-numpy 2>/dev/null; then
            echo "python3 with NumPy is not here: the test of the Python package skips; to have it, type:"
            echo "    sudo apt-get install -y python3 python3-numpy"
        fi
    fi
    if ! has_browser; then
        if ! may_install || ! install chromium 2>/dev/null; then
            echo "Chromium is not here: the pages of 'kiln explain --html' are not looked at; to have it, type:"
            echo "    sudo apt-get install -y chromium"
        fi
    fi
fi
exit 0
