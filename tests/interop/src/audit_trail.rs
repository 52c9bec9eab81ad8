//! The records of the kernel's audit subsystem, which is turned on meanwhile. Where it has been on once, Linux does
//! more for each system call of every later process, so that such tests are of whole runs.

use std::io::{BufRead, BufReader};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::peers::python::script_command;
use crate::process::{Background, COMMAND_LIMIT};
use crate::scratch::until;

/// Receives the records of all processes until it is dropped.
#[derive(Debug)]
pub struct AuditTrail {
    records: Arc<Mutex<Vec<String>>>,
    input: Option<ChildStdin>,
    process: Background,
}

impl AuditTrail {
    /// Turns auditing on and listens.
    ///
    /// # Errors
    /// One line with the reason if that is not possible: not a whole run, not root, no such subsystem.
    pub fn listen() -> Result<Self, String> {
        if !crate::report::is_whole_run() {
            return Err("whole runs only: it turns on the kernel's auditing".to_owned());
        }
        let mut command: Command = script_command("audit_trail.py")?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Background::start(&mut command).map_err(|error| error.to_string())?;
        let input = process.0.stdin.take();
        let output = process.0.stdout.take().ok_or("no output")?;
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        if lines.next().as_deref() != Some("ready") {
            return Err("the audit subsystem cannot be used".to_owned());
        }
        let records = Arc::<Mutex<Vec<String>>>::default();
        let taken = Arc::clone(&records);
        thread::spawn(move || {
            for line in lines {
                taken
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(line);
            }
        });
        Ok(Self {
            records,
            input,
            process,
        })
    }

    /// The records so far of the processes that have one with one of these texts, each as its number and words
    /// without those of the kernel; all are gone then. Waits until there is one with `last`.
    ///
    /// # Panics
    /// If there is none in time.
    #[must_use]
    pub fn take(&self, texts: &[&str], last: &str) -> Vec<String> {
        let lock = || self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let has_last = || {
            of(&lock(), texts)
                .iter()
                .any(|record| record.contains(last))
        };
        assert!(until(COMMAND_LIMIT, has_last), "no {last}: {:?}", *lock());
        let mut records = lock();
        let found = of(&records, texts);
        records.clear();
        found
    }
}

fn of(records: &[String], texts: &[&str]) -> Vec<String> {
    let is_meant = |record: &&String| texts.iter().any(|text| record.contains(text));
    let processes: Vec<&str> = records
        .iter()
        .filter(is_meant)
        .map(|record| process(record))
        .collect();
    let relevant = records
        .iter()
        .filter(|record| processes.contains(&process(record)));
    relevant.map(|record| words(record)).collect()
}

/// The word `pid=…`.
fn process(record: &str) -> &str {
    let mut words = record.split(' ');
    words
        .find(|word| word.starts_with("pid="))
        .unwrap_or_default()
}

impl Drop for AuditTrail {
    fn drop(&mut self) {
        // The end of its input turns auditing off again.
        drop(self.input.take());
        let _ = self.process.0.wait();
    }
}

/// `TYPE audit(…): pid=… msg='WORDS'` without what the kernel has added.
fn words(record: &str) -> String {
    let kind = record.split(' ').next().unwrap_or_default();
    let said = record
        .split_once("msg='")
        .map_or(record, |(_, words)| words);
    format!("{kind} {}", said.trim_end_matches('\''))
}
