//! Tasks that are separate programs, built only when they are used.

use std::process::{Command, ExitCode};

/// `cargo xtask interop`: installs the peers, builds Fulmar and runs the matrix (`tests/interop`)
/// with `arguments`: `--all` for the whole product instead of all pairs, `--only TEXT` for the
/// pairs whose names contain TEXT, `--workers N`. `--all` also runs the long tests of copies: each
/// cut a hundred times, with large files and directories.
pub fn interop(arguments: &[String]) -> ExitCode {
    let mut install = Command::new("sh");
    install.arg(".ci/peers");
    let mut matrix = cargo();
    matrix
        .args(["run", "--quiet", "--release", "-p", "interop", "--"])
        .args(arguments);
    let mut copies = cargo();
    copies
        .args(["test", "--quiet", "-p", "interop"])
        .args(["--test", "cuts", "--test", "large"])
        .env("INTEROP_ALL", "1");
    let whole = arguments.iter().any(|argument| argument == "--all");
    run([install, matrix].into_iter().chain(whole.then_some(copies)))
}

/// `cargo xtask differ KIND`: generates cases from a seed and compares OpenSSH's results with
/// Fulmar's (`tests/differ`).
pub fn differ(arguments: &[String]) -> ExitCode {
    let mut cases = cargo();
    cases
        .args(["run", "--quiet", "-p", "differ", "--"])
        .args(arguments);
    run([cases])
}

/// `cargo xtask man`: writes the generated parts of `man/` and `completion/` (`xtask/pages`).
pub fn man() -> ExitCode {
    let mut pages = cargo();
    pages.args(["run", "--quiet", "-p", "pages"]);
    run([pages])
}

/// `cargo xtask surface`: how far OpenSSH's keywords are supported, by its manual pages in the
/// folder that `arguments` name (`xtask/pages`).
pub fn surface(arguments: &[String]) -> ExitCode {
    let mut pages = cargo();
    pages
        .args(["run", "--quiet", "-p", "pages", "--", "surface"])
        .args(arguments);
    run([pages])
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs the commands in the workspace's root until one fails.
fn run(commands: impl IntoIterator<Item = Command>) -> ExitCode {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    for mut command in commands {
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
