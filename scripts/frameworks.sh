#!/bin/sh
# SPDX-License-Identifier: MIT
# frameworks.sh - PyTorch, JAX and a kernel of notebooks, for the tests of the Python package: a virtual environment in FOLDER.
# usage: frameworks.sh FOLDER
#
# 2.7 GB are fetched by pip (python/tests/requirements.txt), 5 GB installed; a folder that is whole is taken as it is. Prints nothing; or one
# line that says why it cannot be made here, and ends with 1. Takes a minute or two, and at most LIMIT seconds (400).
set -u
folder=$1
cd "$(dirname "$0")/.." || exit 1
wanted=python/tests/requirements.txt
cmp -s "$wanted" "$folder/whole" && exit 0
mkdir -p "$(dirname "$folder")" || exit 1
free=$(df -Pk "$(dirname "$folder")" | awk 'NR == 2 { print int($4 / 1048576) }')
[ "$free" -ge 12 ] || { echo "$(dirname "$folder") has $free GB left, 12 are wanted"; exit 1; }
rm -rf "$folder"
# Bytecode is not compiled: most modules are never imported.
if ! said=$(python3 -m venv "$folder" 2>&1 &&
    timeout "${LIMIT:-400}" "$folder/bin/python" -m pip install -q --disable-pip-version-check --no-cache-dir --no-compile -r "$wanted" 2>&1); then
    rm -rf "$folder"
    echo "pip does not install $wanted: $(printf '%s' "$said" | tail -n 1 | cut -c1-200)"
    exit 1
fi
cp "$wanted" "$folder/whole"
