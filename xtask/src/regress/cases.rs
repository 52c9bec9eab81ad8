//! The suite's tests, and running one of them.

use std::fs::File;
use std::io::{Error, Result};
use std::path::Path;
use std::process::{Command, Stdio};

/// Time limit of one test in seconds, for a machine that does other work as well: the longest,
/// dropbear-server of unstable, logs in more than 1,000 times.
const LIMIT: u32 = 2400;

/// Time limit of a test that is listed as failing, in seconds: some wait forever for features that
/// Fulmar lacks.
const LISTED_LIMIT: u32 = 240;

/// Prefix of commands that run above a chroot (enter.sh).
const UNSHARE: [&str; 10] = [
    "unshare",
    "--mount",
    "--net",
    "--ipc",
    "--uts",
    "--pid",
    "--fork",
    "--kill-child",
    "sh",
    concat!(env!("CARGO_MANIFEST_DIR"), "/src/regress/enter.sh"),
];

/// Prints the tests' names by the variables that hold them.
const NAMES: &str = "include Makefile\nnames: ; @echo $(REGRESS_TARGETS) / $(LTESTS) $(EXTRA_TESTS) / $(INTEROP_TESTS)\n";

/// Whose programs run the tests.
#[derive(Clone, Copy)]
pub(super) enum By<'p> {
    /// This program, under OpenSSH's names.
    Ours(&'p Path),
    /// The OpenSSH that the suite comes with.
    Own,
    /// The OpenSSH in this chroot.
    Other(&'p Path),
}

pub(super) struct Test {
    pub name: String,
    /// The variables of the suite's Makefile that list tests.
    targets: Vec<String>,
}

pub(super) enum Outcome {
    Passed,
    /// Skipped by the suite itself, with its reason.
    Skipped(String),
    /// Failed, with the suite's message.
    Failed(String),
}

/// All tests of the suite in a chroot, as its Makefile names them, except those that do not test
/// programs (`unit`).
pub(super) fn all(root: &Path) -> Result<Vec<Test>> {
    let mut make = Command::new("chroot");
    make.arg(root)
        .args([
            "make",
            "--no-print-directory",
            "-sC",
            "/usr/lib/openssh/regress",
        ])
        .args(["--eval", NAMES, "names"]);
    let output = make.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lists: Vec<&str> = text.split('/').collect();
    let [files, programs, peers] = lists.as_slice() else {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::other(format!("the suite's Makefile: {error}")));
    };
    let test = |name: &str, target: &[&str]| Test {
        name: name.to_owned(),
        targets: target.iter().map(|&word| word.replace('%', name)).collect(),
    };
    let files = files.split_whitespace().map(|name| test(name, &["%"]));
    let programs = programs
        .split_whitespace()
        .map(|name| test(name, &["t-exec", "LTESTS=%"]));
    let peers = peers
        .split_whitespace()
        .map(|name| test(name, &["t-exec-interop", "INTEROP_TESTS=%"]));
    Ok(files.chain(programs).chain(peers).collect())
}

/// Runs a test of the suite in `root`; writes its output to a file of its name in `logs`.
pub(super) fn run(test: &Test, root: &Path, by: By<'_>, logs: &Path, is_listed: bool) -> Outcome {
    let log = logs.join(&test.name);
    let limit = if is_listed { LISTED_LIMIT } else { LIMIT };
    match output(test, root, by, &log, limit) {
        Ok((status, text)) => judge(status, &text, limit),
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

fn output(test: &Test, root: &Path, by: By<'_>, log: &Path, limit: u32) -> Result<(i32, String)> {
    let file = File::create(log)?;
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", &limit.to_string()])
        .args(UNSHARE);
    match by {
        By::Ours(program) => command.arg(root).arg(program),
        By::Own => command.arg(root).arg("-"),
        By::Other(other) => command.env("TESTS_OF", root).arg(other).arg("-"),
    };
    let status = command
        .args(&test.targets)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .status()?;
    let text = String::from_utf8_lossy(&std::fs::read(log)?).into_owned();
    Ok((status.code().unwrap_or(1), text))
}

/// Runs a command above a chroot, in the current directory, with the directory `sources`; returns
/// its exit status.
pub(super) fn run_in(root: &Path, sources: &Path, command: &[String]) -> Result<i32> {
    let [unshare, rest @ ..] = UNSHARE;
    let status = Command::new(unshare)
        .args(rest)
        .arg(root)
        .arg("--in")
        .arg(sources)
        .arg(std::env::current_dir()?)
        .args(command)
        .status()?;
    Ok(status.code().unwrap_or(1))
}

/// The result of a test, from its exit status and output.
fn judge(status: i32, text: &str, limit: u32) -> Outcome {
    let said = |starts: &[&str]| {
        let begins = |line: &&str| {
            let low = line.to_ascii_lowercase();
            starts.iter().any(|start| low.starts_with(start))
        };
        text.lines().find(begins).map(str::to_owned)
    };
    match status {
        0 => said(&["skipped", "skipping:"]).map_or(Outcome::Passed, Outcome::Skipped),
        // Those of timeout.
        124 | 137 => Outcome::Failed(format!("not done within {limit} s")),
        _ => Outcome::Failed(failure(text)),
    }
}

/// The line in which a test names its failure: the first fatal one, or the last one before its
/// final headline.
fn failure(text: &str) -> String {
    let before = text.split("\nmake: ***").next().unwrap_or_default();
    let lines = || before.lines().filter(|line| !line.is_empty());
    lines()
        .find(|line| line.starts_with("FATAL"))
        .or_else(|| lines().rfind(|line| !line.starts_with("failed ")))
        .unwrap_or("said nothing")
        .chars()
        .take(120)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_test_says_is_told() {
        let failed = |text| match judge(2, text, LIMIT) {
            Outcome::Failed(why) => why,
            _ => String::new(),
        };
        let fatal = "run test a.sh ...\ndebug1: x\nFATAL: no sshd\ncat: x\n\nmake: *** [t-exec] Error 1\nmake: Leaving";
        assert_eq!(failed(fatal), "FATAL: no sshd");
        let last = "run test a.sh ...\nfirst part\nno rekeying\nfailed rekey\nmake: *** [t-exec] Error 1\n";
        assert_eq!(failed(last), "no rekeying");
        assert_eq!(failed(""), "said nothing");
    }

    #[test]
    fn a_skipped_test_is_no_pass() {
        let outcome = judge(0, "run test a.sh ...\nSKIPPED: no gdb\n", LIMIT);
        assert!(matches!(outcome, Outcome::Skipped(why) if why == "SKIPPED: no gdb"));
        assert!(matches!(judge(0, "ok a\n", LIMIT), Outcome::Passed));
        assert!(matches!(
            judge(124, "SKIPPED: b\n", LIMIT),
            Outcome::Failed(_)
        ));
    }
}
