// SPDX-License-Identifier: MIT
//! Where libkiln.so is: in the folder that $KILN_LIB_DIR names, in the source tree's build folder, or where the linker looks.
use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-env-changed=KILN_LIB_DIR");
    println!("cargo:rustc-link-lib=dylib=kiln");
    let tree = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../build");
    let folder = env::var("KILN_LIB_DIR").map(PathBuf::from).ok().or_else(|| tree.join("libkiln.so").exists().then_some(tree));
    if let Some(folder) = folder {
        let folder = folder.canonicalize().expect("KILN_LIB_DIR: no such folder");
        println!("cargo:rustc-link-search=native={}", folder.display());
        println!("cargo:folder={}", folder.display()); // DEP_KILN_FOLDER of crates that link programs
    }
}
