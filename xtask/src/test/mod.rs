//! `cargo xtask test [--jobs N] [NAME...]`: all tests of the workspace, several test programs at once.
//!
//! `cargo test` runs one test program after the other, and most of them wait for other processes more than
//! they compute. Here cargo builds them and says how it would run each ([`record`]), [`queue`] runs
//! them, and [`order`] lists which come first and which need the machine for themselves.

mod documentation;
mod order;
mod queue;
mod record;

use std::path::{Path, PathBuf};
use std::process::Command;

use queue::Run;
use record::Program;

pub(crate) use record::record;

/// Test programs at once by default. Each has as many threads as the machine has cores.
const AT_ONCE: usize = 2;

/// Number of slowest programs that are listed at the end.
const SLOWEST: usize = 10;

/// Most programs that are run a second time: more failures than this have one cause.
const MOST_AGAIN: usize = 6;

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    /// Test programs at once.
    jobs: usize,
    /// Only programs whose name begins with one of these; all if there are none.
    names: Vec<String>,
}

/// Runs the task; returns its exit status.
pub(crate) fn run(args: &[String]) -> i32 {
    let request = match parse(args) {
        Ok(request) => request,
        Err(why) => {
            eprintln!("xtask test: {why}");
            return 2;
        }
    };
    match all(&request) {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(why) => {
            eprintln!("xtask test: {why}");
            1
        }
    }
}

fn parse(args: &[String]) -> Result<Request, String> {
    let mut request = Request {
        jobs: AT_ONCE,
        names: Vec::new(),
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--jobs" {
            request.jobs = args
                .next()
                .and_then(|number| number.parse().ok())
                .filter(|jobs| *jobs > 0)
                .ok_or("--jobs needs a number of at least 1")?;
        } else if arg.starts_with('-') {
            return Err(format!("{arg} is not known"));
        } else {
            request.names.push(arg.clone());
        }
    }
    Ok(request)
}

/// Builds and runs the programs; returns true if all tests passed.
fn all(request: &Request) -> Result<bool, String> {
    let folder = target().join("tests");
    // Of an earlier run, of programs that may be gone.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut build = cargo();
    build.args(["test", "--workspace", "--no-run", "--quiet"]);
    if !build.status().map_err(|error| error.to_string())?.success() {
        return Err("the tests do not compile".into());
    }
    let mut programs = record::programs(&folder)?;
    programs.push(documentation::program(&root()));
    for name in order::FIRST
        .iter()
        .chain(order::ALONE.iter().map(|(name, _)| name))
    {
        if programs.iter().all(|program| program.name != *name) {
            return Err(format!(
                "xtask/src/test/order.rs lists {name}, which does not exist"
            ));
        }
    }
    if !request.names.is_empty() {
        let is_named = |program: &Program| {
            let mut names = request.names.iter();
            names.any(|name| program.name.starts_with(name.as_str()))
        };
        programs.retain(is_named);
    }
    if programs.is_empty() {
        return Err("no test program has such a name".into());
    }
    let begun = std::time::Instant::now();
    let (beside, alone) = order::sorted(programs);
    let mut queue = queue::Queue::new(&folder, beside.len() + alone.len());
    queue.run(&beside, request.jobs);
    queue.run(&alone, 1);
    queue.again(&[beside, alone].concat(), MOST_AGAIN);
    Ok(conclude(queue.finish(), begun.elapsed().as_secs_f64()))
}

/// Prints the slowest programs and the failed ones; returns true if there are none.
fn conclude(mut runs: Vec<Run>, seconds: f64) -> bool {
    runs.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    let sum: f64 = runs.iter().map(|run| run.seconds).sum();
    println!("\nThe slowest of {} test programs:", runs.len());
    for run in runs.iter().take(SLOWEST) {
        println!("{:>8.1} s  {}", run.seconds, run.name);
    }
    println!("{sum:>8.1} s  all of them, in {seconds:.1} s");
    let failed: Vec<&Run> = runs.iter().filter(|run| run.failure.is_some()).collect();
    for run in runs.iter().filter(|run| run.failure.is_none()) {
        if let Some(why) = &run.earlier {
            let log = run.log.with_extension("first.log");
            println!(
                "UNSTABLE {}: {why} beside others, passed alone; {}",
                run.name,
                log.display()
            );
        }
    }
    for run in &failed {
        let why = run.failure.as_deref().unwrap_or_default();
        println!("FAILED {}: {why}; {}", run.name, run.log.display());
    }
    failed.is_empty()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Cargo in the workspace's root.
fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Request, String> {
        let args: Vec<String> = args.iter().map(|&arg| arg.into()).collect();
        parse(&args)
    }

    #[test]
    fn a_command_line_has_a_number_of_jobs_and_names() {
        let (jobs, names) = (3, vec!["sim::".into(), "wire::wire".into()]);
        assert_eq!(
            parsed(&["sim::", "--jobs", "3", "wire::wire"]),
            Ok(Request { jobs, names })
        );
        for wrong in [&["--jobs"][..], &["--jobs", "0"], &["--jobs", "x"], &["-p"]] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
