//! The matrix as a program: `interop [--all] [--only TEXT] [--workers N]`.
//!
//! Prints progress on standard error and a table at the end; exit status 1 if anything failed.
#![forbid(unsafe_code)]

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Instant;

use interop::matrix::{Check, Rows, couples, run, suites};
use interop::report::say;

struct Arguments {
    rows: Rows,
    only: String,
    workers: usize,
}

fn arguments() -> Result<Arguments, String> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let mut parsed = Arguments {
        rows: Rows::Pairs,
        only: String::new(),
        workers: cores * 2,
    };
    let mut all = std::env::args().skip(1);
    while let Some(argument) = all.next() {
        let mut value = || all.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--all" => parsed.rows = Rows::Product,
            "--only" => parsed.only = value()?,
            "--workers" => {
                parsed.workers = value()?.parse().map_err(|_| "--workers needs a number")?;
            }
            _ => return Err(format!("unknown argument {argument}")),
        }
    }
    Ok(parsed)
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!(
                "interop: {why}\n\
                 usage: interop [--all] [--only TEXT] [--workers N]\n\
                 --all runs the whole product instead of all pairs; --only takes the couples whose\n\
                 names (\"CLIENT -> SERVER\") have TEXT in them"
            );
            return ExitCode::from(2);
        }
    };
    let mut table = Vec::new();
    let mut failed = 0;
    for couple in couples() {
        let name = couple.name();
        if !name.contains(&arguments.only) {
            continue;
        }
        let common = match couple.common() {
            Ok(common) => common,
            Err((peer, why)) => {
                table.push(format!("{name:<30} skipped: {peer} ({why})"));
                continue;
            }
        };
        for check in [Check::Command, Check::RoundTrip] {
            let suites = suites(&common, arguments.rows, check);
            let label = format!("{name:<30} {check:?}");
            let started = Instant::now();
            let shown = std::sync::Mutex::new(Instant::now());
            let progress = |done: usize| progress(&label, done, suites.len(), &shown);
            let tally = run(
                &couple,
                &common,
                &suites,
                check,
                arguments.workers,
                &progress,
            );
            for line in &tally.failures {
                say(&format!("FAILED {line}"));
            }
            failed += tally.failures.len();
            table.push(format!(
                "{label:<42} {:>6} suites {:>4} failed {:>7.1} s",
                tally.run,
                tally.failures.len(),
                started.elapsed().as_secs_f64()
            ));
        }
    }
    println!("{}", table.join("\n"));
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Reports the progress of a couple: on a terminal in one line each second, else in occasional
/// lines.
fn progress(label: &str, done: usize, all: usize, shown: &std::sync::Mutex<Instant>) {
    let terminal = std::io::stderr().is_terminal();
    let pause_seconds = if terminal { 1 } else { 20 };
    let Ok(mut last) = shown.lock() else { return };
    if done != all && last.elapsed().as_secs() < pause_seconds {
        return;
    }
    *last = Instant::now();
    let (start, end) = if terminal { ("\r", "") } else { ("", "\n") };
    let end = if done == all { "\n" } else { end };
    eprint!("{start}{label}: {done}/{all}{end}");
}
