//! `cargo xtask regress`: runs OpenSSH's own regression suite, as packaged by Debian, with Fulmar's
//! programs under OpenSSH's names.
//!
//! Debian and its `openssh-tests` are installed in a directory below target/ (chroot.rs). Each test
//! runs in its own namespaces above it (enter.sh): tests do not share ports, processes or files,
//! and leave none. exceptions.txt lists the expected failures with their reasons; the run fails if
//! a test fails that is not listed, or if a listed one passes. The suite's own library replaces
//! security keys.
//!
//! With `--by unstable` the OpenSSH of another release runs the tests of the suite instead, those
//! that are listed if none is named: what it fails, too, is no difference of Fulmar's.
//!
//! With `--in` a command runs there instead of the suite, so that Fulmar's other tests run against
//! that OpenSSH: cargo's variable for a test runner names it (CONTRIBUTING.md).

mod cases;
mod chroot;
mod exceptions;

use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use cases::{By, Outcome, Test};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// A release of Debian, by its codename.
struct Suite {
    name: &'static str,
}

const SUITES: [Suite; 2] = [Suite { name: "bookworm" }, Suite { name: "unstable" }];

/// The parsed command line.
#[derive(Default)]
struct Wanted {
    suite: Option<String>,
    mirror: Option<String>,
    /// The suite whose OpenSSH runs the tests.
    by: Option<String>,
    list: bool,
    openssh: bool,
    workers: Option<usize>,
    /// A command that runs above the chroot instead of the tests.
    command: Vec<String>,
    tests: Vec<String>,
}

/// Runs the tests that `arguments` name, or all; returns the exit status.
pub fn run(arguments: &[String]) -> i32 {
    match wanted(arguments).and_then(|wanted| of_suites(&wanted)) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("xtask regress: {error}");
            2
        }
    }
}

fn wanted(arguments: &[String]) -> Result<Wanted> {
    let mut wanted = Wanted::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || {
            let missing = || Error::other(format!("{argument} wants a value"));
            rest.next().cloned().ok_or_else(missing)
        };
        match argument.as_str() {
            "--suite" => wanted.suite = Some(value()?),
            "--mirror" => wanted.mirror = Some(value()?),
            "--by" => wanted.by = Some(value()?),
            "--workers" => wanted.workers = Some(value()?.parse().map_err(Error::other)?),
            "--in" => wanted.command = rest.by_ref().cloned().collect(),
            "--list" => wanted.list = true,
            "--openssh" => wanted.openssh = true,
            flag if flag.starts_with('-') => {
                return Err(Error::other(format!("there is no {flag}")));
            }
            test => wanted.tests.push(test.to_owned()),
        }
    }
    Ok(wanted)
}

/// Runs the selected tests of the selected suites; 0 if all results match the list of exceptions.
fn of_suites(wanted: &Wanted) -> Result<i32> {
    let suites: Vec<&Suite> = SUITES
        .iter()
        .filter(|suite| wanted.suite.as_ref().is_none_or(|name| name == suite.name))
        .collect();
    if suites.is_empty() {
        return Err(Error::other("the suites are bookworm and unstable"));
    }
    if !is_root() {
        return Err(Error::other("needs root, for a chroot and namespaces"));
    }
    let sources = Path::new(ROOT).canonicalize()?;
    let folder = sources.join("target/regress");
    std::fs::create_dir_all(&folder)?;
    install();
    if !wanted.command.is_empty() {
        let [suite] = suites.as_slice() else {
            return Err(Error::other("--in wants --suite"));
        };
        let root = chroot::ready(suite, &folder, wanted.mirror.as_deref())?;
        return cases::run_in(&root, &sources, &wanted.command);
    }
    let other = match &wanted.by {
        None => None,
        Some(name) => {
            let suite = SUITES.iter().find(|suite| suite.name == name);
            let suite = suite.ok_or_else(|| Error::other(format!("--by {name}: no suite")))?;
            Some(chroot::ready(suite, &folder, wanted.mirror.as_deref())?)
        }
    };
    let built = match wanted.list || wanted.openssh || other.is_some() {
        true => None,
        false => Some(program(&folder)?),
    };
    let by = match (&built, &other) {
        (Some(program), _) => By::Ours(program),
        (None, Some(root)) => By::Other(root),
        (None, None) => By::Own,
    };
    let mut right = true;
    for suite in suites {
        let root = chroot::ready(suite, &folder, wanted.mirror.as_deref())?;
        right &= of_suite(wanted, suite, &folder, &root, by)?;
    }
    Ok(i32::from(!right))
}

fn is_root() -> bool {
    Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout == b"0\n")
}

/// Installs Debian's packages if this is a Debian; a program that is still missing is reported
/// where it is needed.
fn install() {
    let _ = Command::new("sh")
        .args([".ci/debian", "mmdebstrap=mmdebstrap"])
        .current_dir(ROOT)
        .status();
}

/// The tested program, `FULMAR_BIN` or a release build, without symbols: the tests also copy it as
/// their data.
fn program(folder: &Path) -> Result<PathBuf> {
    let built = match std::env::var_os("FULMAR_BIN") {
        Some(path) => PathBuf::from(path),
        None => {
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let mut build = Command::new(cargo);
            build.args(["build", "--quiet", "--release", "-p", "cli"]);
            if !build.current_dir(ROOT).status()?.success() {
                return Err(Error::other("the build failed"));
            }
            Path::new(ROOT).join("target/release/fulmar")
        }
    };
    let small = folder.join("fulmar");
    // Another run may be using the old one.
    let new = folder.join(format!("fulmar.{}", std::process::id()));
    let mut strip = Command::new("strip");
    strip.arg("-o").args([&new, &built]);
    if !strip.status().is_ok_and(|status| status.success()) {
        return Err(Error::other(format!("strip {} failed", built.display())));
    }
    std::fs::rename(&new, &small)?;
    Ok(small)
}

fn of_suite(
    wanted: &Wanted,
    suite: &Suite,
    folder: &Path,
    root: &Path,
    by: By<'_>,
) -> Result<bool> {
    let all = cases::all(root)?;
    let exceptions = exceptions::of(suite.name)?;
    for name in exceptions.keys() {
        if !all.iter().any(|test| test.name == *name) {
            return Err(Error::other(format!(
                "exceptions.txt names {name}, which {} does not have",
                suite.name
            )));
        }
    }
    let chosen: Vec<Test> = all
        .into_iter()
        .filter(|test| match (wanted.tests.is_empty(), by) {
            (true, By::Other(_)) => exceptions.contains_key(test.name.as_str()),
            (true, _) => true,
            (false, _) => wanted.tests.contains(&test.name),
        })
        .collect();
    if chosen.is_empty() {
        return Err(Error::other("there is no such test"));
    }
    let heading = format!("{}, openssh-tests {}", suite.name, chroot::version(root));
    println!("{heading}: {} tests", chosen.len());
    if wanted.list {
        for test in &chosen {
            let reason = exceptions.get(test.name.as_str()).copied();
            println!("  {:<24} {}", test.name, reason.unwrap_or(""));
        }
        return Ok(true);
    }
    let whose = match by {
        By::Ours(_) => "ours",
        By::Own => "openssh",
        By::Other(_) => "other",
    };
    let logs = folder.join(format!("{}.{whose}.logs", suite.name));
    std::fs::create_dir_all(&logs)?;
    let workers = wanted
        .workers
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    let mut count = Count::default();
    let results = each(chosen, workers, |test| {
        let started = Instant::now();
        let reason = exceptions.get(test.name.as_str()).copied();
        let reason = reason.filter(|_| !matches!(by, By::Own));
        let outcome = cases::run(test, root, by, &logs, reason.is_some());
        println!("{}", line(test, &outcome, reason, started.elapsed()));
        (outcome, reason.is_some())
    });
    for (outcome, listed) in &results {
        count.add(outcome, *listed);
    }
    println!("{heading}: {count}");
    if count.unlisted + count.unexpected > 0 {
        println!("what failed has its log in {}", logs.display());
    }
    Ok(count.unlisted + count.unexpected == 0)
}

/// The printed result of a test.
fn line(test: &Test, outcome: &Outcome, reason: Option<&str>, took: Duration) -> String {
    let (word, rest) = match (outcome, reason) {
        (Outcome::Passed, None) => ("ok", String::new()),
        (Outcome::Passed, Some(reason)) => ("PASSED", format!("is listed: {reason}")),
        (Outcome::Skipped(why), _) => ("skipped", why.clone()),
        (Outcome::Failed(_), Some(reason)) => ("listed", reason.to_owned()),
        (Outcome::Failed(why), None) => ("FAILED", why.clone()),
    };
    let seconds = took.as_secs();
    let text = format!("  {word:<8} {:<22} {seconds:>3} s  {rest}", test.name);
    text.trim_end().to_owned()
}

#[derive(Default)]
struct Count {
    passed: usize,
    skipped: usize,
    /// Failed, as listed.
    listed: usize,
    /// Failed, and not in the list.
    unlisted: usize,
    /// Passed, although the list says that it fails.
    unexpected: usize,
}

impl Count {
    fn add(&mut self, outcome: &Outcome, listed: bool) {
        let of = match (outcome, listed) {
            (Outcome::Passed, false) => &mut self.passed,
            (Outcome::Passed, true) => &mut self.unexpected,
            (Outcome::Skipped(_), _) => &mut self.skipped,
            (Outcome::Failed(_), true) => &mut self.listed,
            (Outcome::Failed(_), false) => &mut self.unlisted,
        };
        *of += 1;
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} passed, {} fail as listed, {} skipped by the suite itself",
            self.passed, self.listed, self.skipped
        )?;
        if self.unlisted > 0 {
            write!(f, ", {} FAILED", self.unlisted)?;
        }
        if self.unexpected > 0 {
            write!(f, ", {} passed although listed", self.unexpected)?;
        }
        Ok(())
    }
}

/// Runs `work` for each test, on `threads` threads; the results are not ordered.
fn each<R: Send>(tests: Vec<Test>, workers: usize, work: impl Fn(&Test) -> R + Sync) -> Vec<R> {
    let waiting = Mutex::new(tests.into_iter());
    let next = || waiting.lock().ok().and_then(|mut tests| tests.next());
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..workers.max(1) {
            scope.spawn(|| {
                while let Some(test) = next() {
                    let result = work(&test);
                    if let Ok(mut results) = results.lock() {
                        results.push(result);
                    }
                }
            });
        }
    });
    results.into_inner().unwrap_or_default()
}
