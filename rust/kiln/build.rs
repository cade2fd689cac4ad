// SPDX-License-Identifier: MIT
//! Tests and examples find the library where it was linked from.
fn main() {
    if let Ok(folder) = std::env::var("DEP_KILN_FOLDER") {
        println!("cargo:rustc-link-arg-tests=-Wl,-rpath,{}", folder);
        println!("cargo:rustc-link-arg-examples=-Wl,-rpath,{}", folder);
        println!("cargo:rustc-env=KILN_FOLDER={}", folder);
    }
}
