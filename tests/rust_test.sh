#!/bin/sh
# SPDX-License-Identifier: MIT
# rust_test.sh - the Rust crates follow from the headers, build without a warning, and their tests and example run.
# usage: rust_test.sh SOURCE-FOLDER LIBKILN
set -eu
source=$1 library=$2
if ! command -v cargo >/dev/null; then echo "skipped: there is no cargo"; exit 77; fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if command -v clang >/dev/null; then python3 "$source/rust/generate.py" --check
else echo "rust: whether the crates follow from the headers is not looked at, for there is no clang"; fi
cp -r "$source/rust" "$folder/rust"
rm -rf "$folder/rust/target"
cd "$folder/rust"
KILN_LIB_DIR=$(cd "$(dirname "$library")" && pwd) RUSTFLAGS='-D warnings'
export KILN_LIB_DIR RUSTFLAGS LD_LIBRARY_PATH="$KILN_LIB_DIR"
cargo test --offline --quiet
cargo run --offline --quiet --example paged_decode cpu
echo "rust: ok"
