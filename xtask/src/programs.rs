//! Tasks that are separate programs, built only when they are used.

use std::process::{Command, ExitCode};

/// The workspace's root.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// `cargo xtask interop`: installs the peers, builds Fulmar and runs the matrix (`tests/interop`), each
/// round trip at full length, with `arguments`: `--all` for the whole product instead of all pairs, `--only TEXT` for the
/// pairs whose names contain TEXT, `--workers N`. `--all` also runs the long tests of copies (each
/// cut a hundred times, with large files and directories), of a thousand connections at once, and of
/// all tools of docs/interop.md, which it installs.
pub fn interop(arguments: &[String]) -> ExitCode {
    let mut install = Command::new("sh");
    install.arg(".ci/peers");
    let mut matrix = cargo();
    matrix
        .args(["run", "--quiet", "--release", "-p", "interop", "--"])
        .args(arguments)
        .env("INTEROP_ALL", "1");
    let mut tools = Command::new("sh");
    tools.arg(".ci/tools");
    let mut long = cargo();
    long.args(["test", "--quiet", "-p", "interop"])
        .args(["--test", "cuts", "--test", "large"])
        .args(["--test", "startups", "--test", "tools"])
        .env("INTEROP_ALL", "1");
    let whole = arguments.iter().any(|argument| argument == "--all");
    run([install, matrix]
        .into_iter()
        .chain(whole.then_some([tools, long]).into_iter().flatten()))
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

/// `cargo xtask endurance`: a server, an agent and a master work for hours (`tests/endurance`), by a release
/// build or the program that FULMAR_BIN names.
pub fn endurance(arguments: &[String]) -> ExitCode {
    let mut release = cargo();
    release.args(["build", "--quiet", "--release", "-p", "cli"]);
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/release/fulmar");
    let named = std::env::var_os("FULMAR_BIN");
    let mut works = cargo();
    works
        .args(["run", "--quiet", "-p", "endurance", "--"])
        .args(arguments)
        .env("FULMAR_BIN", named.clone().unwrap_or_else(|| built.into()));
    run(named
        .is_none()
        .then_some(release)
        .into_iter()
        .chain([works]))
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

/// `cargo xtask semver [REVISION]`: compares the public interface of the library with that of a revision of
/// Git, the last tag if none is named, by cargo-semver-checks.
pub fn semver(args: &[String]) -> ExitCode {
    let baseline = match args {
        [] => last_tag(),
        [revision] => Some(revision.clone()),
        _ => {
            eprintln!("usage: cargo xtask semver [REVISION]");
            return ExitCode::from(2);
        }
    };
    let Some(baseline) = baseline else {
        println!("xtask semver: no tag to compare with; name a revision");
        return ExitCode::SUCCESS;
    };
    let mut version = cargo();
    version.args(["semver-checks", "--version"]);
    if !version.output().is_ok_and(|output| output.status.success()) {
        eprintln!("xtask semver: cargo install --locked cargo-semver-checks");
        return ExitCode::FAILURE;
    }
    println!("xtask semver: fulmar since {baseline}");
    let mut checks = cargo();
    checks.args(["semver-checks", "-p", "fulmar", "--baseline-rev", &baseline]);
    run([checks])
}

/// The newest tag that the checked-out commit has.
fn last_tag() -> Option<String> {
    let mut describe = Command::new("git");
    describe.args(["describe", "--tags", "--abbrev=0"]);
    let output = describe.current_dir(ROOT).output().ok()?;
    let tag = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !tag.is_empty()).then_some(tag)
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs the commands in the workspace's root until one fails.
fn run(commands: impl IntoIterator<Item = Command>) -> ExitCode {
    for mut command in commands {
        match command.current_dir(ROOT).status() {
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
