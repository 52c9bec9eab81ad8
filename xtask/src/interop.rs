//! `cargo xtask interop`: the matrix of real peers against the release build.

use std::process::{Command, ExitCode};

/// Installs the peers, builds ours and runs the matrix (`tests/interop`, package `interop`) with
/// `arguments`: `--all` for the whole product instead of all pairs, `--only TEXT` for the couples
/// whose names have TEXT in them, `--workers N`.
pub fn run(arguments: &[String]) -> ExitCode {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut install = Command::new("sh");
    install.arg(".ci/peers");
    let mut matrix = Command::new(cargo);
    matrix
        .args(["run", "--quiet", "--release", "-p", "interop", "--"])
        .args(arguments);
    for mut command in [install, matrix] {
        match command.current_dir(root).status() {
            Ok(status) if status.success() => {}
            Ok(_) => return ExitCode::FAILURE,
            Err(error) => {
                eprintln!("xtask: {}: {error}", command.get_program().display());
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
