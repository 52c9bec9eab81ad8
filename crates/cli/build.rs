//! Links the unwinder into the binary, so that it needs the C library alone.
//!
//! rustc asks for `-lgcc_s`, a shared library; a linker script of that name, found first, puts
//! the static one in its place. (`-static-libgcc` does not apply to an explicit `-l`.)

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target_env = std::env::var("CARGO_CFG_TARGET_ENV").unwrap_or_default();
    let target_os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if target_os != "linux" || target_env != "gnu" {
        return;
    }
    let Some(out) = std::env::var_os("OUT_DIR") else {
        return;
    };
    let script = std::path::Path::new(&out).join("libgcc_s.so");
    if std::fs::write(&script, "INPUT ( -lgcc_eh -lgcc )\n").is_ok() {
        println!(
            "cargo:rustc-link-search=native={}",
            std::path::Path::new(&out).display()
        );
    }
}
