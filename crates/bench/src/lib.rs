//! `fulmar bench`: measures whole programs, Fulmar's and those of other implementations on this
//! machine, by turns.
//!
//! Each row of the command line is a module that returns [`BenchGroup`](figures::BenchGroup)s of
//! entries that were measured in the same rounds. Programs that run at the far end are [`roles`] of
//! this binary.
#![forbid(unsafe_code)]

// The macros that print without panicking.
#[macro_use]
extern crate sys;

mod agent;
mod beside;
mod compress;
mod copy;
mod corpus;
mod deflate;
pub mod demo;
mod each;
mod echo;
mod figures;
mod forward;
mod harness;
mod hop;
mod html;
mod idle;
mod keyscan;
mod login;
mod options;
mod relay;
mod report;
mod roles;
mod rounds;
mod share;
mod sign;
pub mod speed;
mod stats;
mod table;
mod taskset;
mod throughput;
mod transfer;
mod wan;
mod words;

use std::ffi::OsString;

use figures::{BenchGroup, BenchReport, Emit};
use options::{BenchRow, BenchSettings};
use rounds::Bench;
use sys::signals::Signal;

use crate::harness::{ServerHost, Suite};

/// Runs the program; returns its exit status: 0, 1 if a measurement of Fulmar failed, 2 for unknown
/// arguments.
#[must_use]
pub fn run(args: Vec<OsString>) -> i32 {
    let words: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
    if let Some(status) = roles::run(&words) {
        return status;
    }
    let settings = match options::parse(&args) {
        Ok(Some(settings)) => settings,
        Ok(None) => {
            print!("{}", options::USAGE);
            return 0;
        }
        Err(why) => {
            eprint!("fulmar bench: {why}\n{}", options::USAGE);
            return 2;
        }
    };
    match measure(settings) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("fulmar bench: {error}");
            1
        }
    }
}

fn measure(mut settings: BenchSettings) -> Result<i32, String> {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        sys::signals::note(signal).map_err(|error| error.to_string())?;
    }
    let mut suites = vec![Suite::ours().map_err(|error| error.to_string())?];
    let mut about = Vec::new();
    if settings.peers.is_empty() {
        for peer in [Suite::openssh(), Suite::dropbear()] {
            match peer {
                Ok(suite) => suites.push(suite),
                Err(why) => about.push(("not measured".to_string(), why)),
            }
        }
    } else {
        suites.append(&mut settings.peers);
    }
    about.extend(machine(&suites));
    let servers = ServerHost::for_servers().map_err(|error| error.to_string())?;
    about.push((
        "log in to".into(),
        match servers.account() {
            Some(_) => "/bin/sh in an empty home".into(),
            None => "this user's own shell and home (root would have a plain one)".into(),
        },
    ));
    let bench = Bench {
        settings,
        suites,
        servers,
        interrupted: sys::signals::noted,
    };
    let mut report = BenchReport {
        about,
        groups: Vec::new(),
    };
    if let Some(path) = &bench.settings.html {
        // Reports an unwritable file before the measurements.
        std::fs::write(path, "").map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let as_text = !bench.settings.json;
    if as_text {
        print!("{}", report::about(&report));
    }
    let mut failed = false;
    for row in &bench.settings.rows {
        if (bench.interrupted)() {
            break;
        }
        let mut emit = |group: BenchGroup| {
            if group.is_empty() {
                return;
            }
            if as_text {
                print!("{}", report::group(&group));
            }
            failed |= group.failed();
            report.groups.push(group);
        };
        if let Err(why) = measure_row(&bench, *row, &mut emit) {
            eprintln!("fulmar bench: {}: {why}", row.name());
            failed = true;
        }
    }
    if (bench.interrupted)() {
        eprintln!("fulmar bench: interrupted; the results so far are kept");
        failed = true;
    }
    if let Some(path) = &bench.settings.html {
        std::fs::write(path, html::page(&report))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if bench.settings.json {
        println!("{}", report::as_json(&report).render());
    }
    Ok(i32::from(failed))
}

fn measure_row(bench: &Bench, row: BenchRow, emit: &mut Emit<'_>) -> Result<(), String> {
    match row {
        BenchRow::Throughput => throughput::measure(bench, emit),
        BenchRow::Rekey => throughput::measure_rekeys(bench, emit),
        BenchRow::Login => {
            login::measure(bench, emit);
            Ok(())
        }
        BenchRow::Echo => {
            emit(echo::measure(bench));
            beside::measure(bench, emit);
            Ok(())
        }
        BenchRow::Copy => copy::measure(bench, emit),
        BenchRow::Taskset => taskset::measure(bench, emit),
        BenchRow::Compress => compress::measure(bench, emit),
        BenchRow::Idle => {
            idle::measure(bench, emit);
            Ok(())
        }
        BenchRow::Wan => wan::measure(bench, emit),
        BenchRow::Forward => forward::measure(bench, emit),
        BenchRow::Keyscan => keyscan::measure(bench, emit),
        BenchRow::Agent => agent::measure(bench, emit),
        BenchRow::Sign => sign::measure(bench, emit),
        BenchRow::Each => each::measure(bench, emit),
        BenchRow::Share => {
            share::measure(bench, emit);
            Ok(())
        }
    }
}

/// Facts about the machine on which the figures depend.
fn machine(suites: &[Suite]) -> Vec<(String, String)> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or_else(|| "?".to_string(), |(_, name)| name.to_string());
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let load = read("/proc/loadavg");
    let programs: Vec<String> = suites
        .iter()
        .map(|suite| match (&suite.name, &suite.version) {
            (name, version) if name == version => name.clone(),
            (name, version) if version.is_empty() => name.clone(),
            (name, version) => format!("{name} ({version})"),
        })
        .collect();
    [
        ("programs", programs.join(", ")),
        (
            "CPU",
            format!(
                "{model}, {cores} to be used; {}",
                crate::speed::cpu_features()
            ),
        ),
        (
            "kernel",
            read("/proc/sys/kernel/osrelease").trim().to_string(),
        ),
        (
            "load before the first round",
            load.split(' ').next().unwrap_or("?").to_string(),
        ),
    ]
    .map(|(what, value)| (what.to_string(), value))
    .to_vec()
}
