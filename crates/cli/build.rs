//! Links the unwinder into the binary, so that it needs only the C library, and places the
//! functions of a login next to each other in release builds.
//!
//! rustc passes `-lgcc_s`, a shared library; a linker script of that name, which is found first,
//! replaces it by the static one. (`-static-libgcc` does not affect an explicit `-l`.)
//!
//! login.ld adds an output section to the linker's defaults; GNU ld and lld support this. With
//! another linker it is left out. `cargo xtask order` writes it.

use std::env::{var, var_os};
use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=login.ld");
    if var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "musl") {
        // C code asks the compiler's library for the CPU's features; rustc does not pass it for musl,
        // whose unwinder it brings itself.
        println!("cargo:rustc-link-arg-bins=-lgcc");
    } else {
        link_the_unwinder();
    }
    if var("PROFILE").is_ok_and(|profile| profile == "release") && !another_linker() {
        order_functions();
    }
}

fn link_the_unwinder() {
    let Some(out) = var_os("OUT_DIR") else {
        return;
    };
    let script = Path::new(&out).join("libgcc_s.so");
    if std::fs::write(&script, "INPUT ( -lgcc_eh -lgcc )\n").is_ok() {
        println!(
            "cargo:rustc-link-search=native={}",
            Path::new(&out).display()
        );
    }
}

fn order_functions() {
    let Some(here) = var_os("CARGO_MANIFEST_DIR") else {
        return;
    };
    let script = Path::new(&here).join("login.ld");
    // cc passes it to the linker; it affects only this crate's binary.
    println!("cargo:rustc-link-arg-bins=-T{}", script.display());
}

/// True if flags or the configured linker name one that may not support such scripts.
fn another_linker() -> bool {
    let flags = var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let linker = var("RUSTC_LINKER").unwrap_or_default();
    ["mold", "gold", "wild"]
        .iter()
        .any(|name| flags.contains(name) || linker.contains(name))
}
