//! `fulmar each`: runs a command on many hosts, or copies files to or from them, in one process.
//!
//! [`options`] has the command line, [`hosts`] and [`ranges`] the list of hosts. [`crew`] works through
//! it: one thread for each host at work runs the connection exactly as `ssh` does (client's
//! `session_with`: configuration, jumps, host keys, login), with [`session`] as the local end of a
//! command or the copy engine of scp ([`copies`]). [`output`] decides who writes when, [`ask`] who asks
//! what, and [`outcome`] makes the summary and the exit status. Connections of masters (ControlMaster) are not used.
#![forbid(unsafe_code)]

mod ask;
mod command;
mod copies;
mod crew;
mod hosts;
mod options;
mod outcome;
mod output;
mod ranges;
mod session;
mod spool;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ask::Questions;
use command::{Common, RunCommand};
use copies::CopyFiles;
use copy::host_copy::HostCopyWay;
use crew::{Ended, Results, RunTerms};
use hosts::{Host, HostList};
use options::{EachOptions, HostTask};
use outcome::{HostOutcome, STATUS_FAILED};
use output::RunOutput;
use spool::Spool;

/// Exit status after a signal that ended the run: 128 and the number of SIGINT.
const STATUS_INTERRUPTED: i32 = 130;

/// The usage text.
pub const USAGE: &str = "\
usage: fulmar each [flags] hosts... -- command...
       fulmar each [flags] --put hosts... -- source... target
       fulmar each [flags] --get hosts... -- source... target

hosts: [user@]host, [user@]host:port, ranges as n[001-512], @file, - (standard input)

  -n hosts           at once (128)
  -x hosts           leave these out
  --prefix           write line by line, each with its host's name
  --json             write JSON, at least one line for a host
  --output DIR       write DIR/host.out and DIR/host.err
  --stdin            give standard input to each host
  --timeout TIME     limit of the work of one host
  --connect-timeout TIME
  --first-failure    end with the first host that fails
  -r, --preserve     copy directories; keep times and modes
  -46ACqv -F file -J jump -b address -c ciphers -i file -l user -m macs -o option -p port
                     as ssh
";

/// Runs the program on its arguments, without its own name; gives its exit status.
#[must_use]
pub fn run(args: Vec<OsString>) -> i32 {
    let options = match EachOptions::parse(args) {
        Ok(options) => options,
        Err(why) if why.is_empty() => {
            say(USAGE.trim_end());
            return STATUS_FAILED;
        }
        Err(why) => return refuse(&why),
    };
    match perform(options) {
        Ok(status) => status,
        Err(why) => refuse(&why),
    }
}

fn say(text: &str) {
    // Nobody can be told of a standard error that is gone.
    let _ = sys::io::write_all(sys::io::stderr(), format!("{text}\n").as_bytes());
}

fn refuse(why: &str) -> i32 {
    say(&format!("fulmar each: {why}"));
    STATUS_FAILED
}

fn perform(options: EachOptions) -> Result<i32, String> {
    let HostList {
        hosts,
        repeated,
        read_stdin,
    } = hosts::list(&options.hosts, &options.excluded)?;
    if hosts.is_empty() {
        return Err("no hosts are left to work on".to_owned());
    }
    if repeated > 0 && !options.quiet {
        say(&format!(
            "fulmar each: {repeated} repeated {} left out: each host has one turn",
            if repeated == 1 {
                "name is"
            } else {
                "names are"
            }
        ));
    }
    let input = match options.stdin {
        true if read_stdin => {
            return Err(
                "standard input is the list of hosts: --stdin needs another list".to_owned(),
            );
        }
        true => Some(spool()?),
        false => None,
    };
    let output = Arc::new(RunOutput::new(options.form.clone(), options.quiet)?);
    let questions = Arc::new(Questions::new(Arc::clone(&output)));
    ask::serve_jumps(&questions);
    let common = Common {
        hosts: hosts.into(),
        questions,
        output,
        ssh: options.ssh.clone(),
        timeout: options.timeout,
        at_once: options.at_once,
    };
    work(&options, common, input)
}

fn spool() -> Result<Arc<Spool>, String> {
    let spool = Spool::of_stdin().map_err(|error| {
        let reason = error.to_string();
        format!("--stdin: {}", escape::system_words(&reason))
    })?;
    Ok(Arc::new(spool))
}

fn work(options: &EachOptions, common: Common, input: Option<Arc<Spool>>) -> Result<i32, String> {
    let hosts = Arc::clone(&common.hosts);
    let output = Arc::clone(&common.output);
    let terms = RunTerms {
        at_once: options.at_once,
        timeout: options.timeout,
        first_failure: options.first_failure,
    };
    let begun = Instant::now();
    let results = match &options.task {
        HostTask::Run(command) => {
            let work = RunCommand {
                common,
                command: command.clone(),
                input,
            };
            crew::run(work, &hosts, terms, &output)
        }
        HostTask::Put(sources, target) | HostTask::Get(sources, target) => {
            let way = match &options.task {
                HostTask::Put(..) => HostCopyWay::Put,
                _ => HostCopyWay::Get,
            };
            if way == HostCopyWay::Put
                && let Some(source) = copies::missing(sources)
            {
                let shown = escape::one_line(source.as_encoded_bytes());
                return Err(format!("{shown}: No such file or directory"));
            }
            let work = CopyFiles {
                common: Arc::new(common),
                way,
                sources: sources.clone(),
                target: target.clone(),
                recursive: options.recursive,
                preserve: options.preserve,
            };
            crew::run(work, &hosts, terms, &output)
        }
    };
    let results = results.map_err(|error| {
        let reason = error.to_string();
        escape::system_words(&reason).into_owned()
    })?;
    Ok(conclude(
        &hosts,
        &results,
        &output,
        begun.elapsed(),
        options.quiet,
    ))
}

/// Writes the summary; gives the exit status.
fn conclude(
    hosts: &[Host],
    results: &Results,
    output: &RunOutput,
    elapsed: Duration,
    quiet: bool,
) -> i32 {
    let not_started = HostOutcome::failed("not started");
    let mut failed: Vec<(&str, &str)> = Vec::new();
    for (index, (host, outcome)) in hosts.iter().zip(&results.outcomes).enumerate() {
        let outcome = outcome.as_ref().unwrap_or(&not_started);
        if let Some(cause) = outcome.cause.as_deref() {
            output.report_missing(index, &host.name, cause);
            failed.push((host.name.as_str(), cause));
        }
    }
    if !failed.is_empty() && !quiet && results.ended != Ended::Broken {
        let head = format!(
            "fulmar each: {} of {} hosts failed in {:.1} s",
            failed.len(),
            hosts.len(),
            elapsed.as_secs_f64()
        );
        let mut lines = vec![head];
        lines.extend(outcome::causes(failed));
        output.message(&lines.join("\n"));
    }
    match results.ended {
        Ended::Signal => STATUS_INTERRUPTED,
        Ended::Broken => STATUS_FAILED,
        // The thread of a host without an outcome has panicked.
        Ended::Whole => {
            let outcomes = results.outcomes.iter();
            outcome::worst(outcomes.map(|outcome| outcome.as_ref().unwrap_or(&not_started)))
        }
        // A host that ended with the run did not fail itself.
        Ended::Failure => outcome::worst(
            results
                .outcomes
                .iter()
                .flatten()
                .filter(|outcome| outcome.cause.as_deref() != Some(crew::ENDED_WITH_THE_RUN)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_an_outcome_fails_the_run() {
        let host = |name: &str| Host {
            name: name.to_owned(),
            destination: name.to_owned(),
            port: None,
        };
        let hosts = [host("n1"), host("n2")];
        let output = RunOutput::new(options::OutputForm::Grouped, true).unwrap();
        let status = |ended| {
            let results = Results {
                outcomes: vec![Some(HostOutcome::exit(0)), None],
                ended,
            };
            conclude(&hosts, &results, &output, Duration::ZERO, true)
        };
        assert_eq!(status(Ended::Whole), STATUS_FAILED);
        assert_eq!(status(Ended::Failure), 0);
    }
}
