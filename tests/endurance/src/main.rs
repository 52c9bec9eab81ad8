//! `cargo xtask endurance`: one server, one agent and one master work for hours at a tenth of the load
//! that they could carry, in random order: logins, long sessions, forwarded connections, copies, rekeys,
//! reloads, shared connections, refused logins and killed clients.
//!
//! At each mark all work stops and [`figures`] measures the processes that stay: their memory,
//! descriptors and number may not grow. [`works`] has the kinds of work; the report names the seed and
//! number of one that fails.
#![forbid(unsafe_code)]

mod figures;
mod place;
mod works;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use figures::Mark;
use interop::random::Random;
use interop::report::panic_text;
use place::Place;
use sys::signals::Signal;
use works::{KINDS, WorkKind};

const USAGE: &str = "\
usage: cargo xtask endurance [--minutes N] [--mark N] [--seed N]
  --minutes N  how long (120)
  --mark N     minutes between two looks at the processes (10)
  --seed N     what the order of the works follows from (1)
FULMAR_BIN names the program; without it a release build is made.
";

/// Threads that work.
const WORKERS: u64 = 2;
/// A thread rests for this many times the time that a work took: both together are a tenth of full load.
const REST: u32 = 18;
/// The longest rest: after a work that takes long because it waits, not because it computes.
const LONGEST_REST: Duration = Duration::from_secs(4);
/// Time without work before a look at the processes: buffers are returned after one second.
const STILL: Duration = Duration::from_secs(5);
/// Longest time that works have to end before a look.
const ENDING: Duration = Duration::from_secs(300);

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Wishes {
    minutes: u64,
    mark_minutes: u64,
    seed: u64,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(wishes) = parse(&arguments) else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    // The run ends by these in order, so that no process stays.
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        if let Err(error) = sys::signals::note(signal) {
            eprintln!("endurance: {error}");
            return ExitCode::FAILURE;
        }
    }
    // A failure of a work is a line of the report; its place in the source helps nobody.
    std::panic::set_hook(Box::new(|_| {}));
    let run = catch_unwind(AssertUnwindSafe(|| Run::new(wishes).whole()));
    match run {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(payload) => {
            eprintln!("endurance: {}", panic_text(payload.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Option<Wishes> {
    let mut wishes = Wishes {
        minutes: 120,
        mark_minutes: 10,
        seed: 1,
    };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let place = match argument.as_str() {
            "--minutes" => &mut wishes.minutes,
            "--mark" => &mut wishes.mark_minutes,
            "--seed" => &mut wishes.seed,
            _ => return None,
        };
        *place = arguments.next()?.parse().ok()?;
    }
    (wishes.minutes > 0 && wishes.mark_minutes > 0).then_some(wishes)
}

/// How often a kind of work was done, and how often it failed.
type Counts = BTreeMap<&'static str, (u64, u64)>;

/// A run.
struct Run {
    wishes: Wishes,
    place: Place,
    begun: Instant,
    /// Number of the next work.
    next: AtomicU64,
    /// No work begins while this is true.
    is_still: AtomicBool,
    /// Threads that work at this moment.
    at_work: AtomicU64,
    is_over: AtomicBool,
    counts: Mutex<Counts>,
}

impl Run {
    fn new(wishes: Wishes) -> Self {
        Self {
            wishes,
            place: Place::new(),
            begun: Instant::now(),
            next: AtomicU64::new(1),
            is_still: AtomicBool::new(true),
            at_work: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            counts: Mutex::default(),
        }
    }

    /// Runs to the end; true if nothing failed and nothing grew.
    fn whole(&self) -> bool {
        let Wishes {
            minutes,
            mark_minutes,
            seed,
        } = self.wishes;
        println!(
            "endurance: {minutes} minutes, seed {seed}, {WORKERS} threads at a tenth of the load"
        );
        let mut marks = Vec::new();
        thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| self.work());
            }
            // The first look: nobody has worked yet.
            marks.extend(self.look());
            let whole = Duration::from_secs(minutes * 60);
            let step = Duration::from_secs(mark_minutes * 60);
            let mut next = step.min(whole);
            while next <= whole && self.waits_until(next) {
                marks.extend(self.look());
                next = match next < whole {
                    true => (next + step).min(whole),
                    false => next + step,
                };
            }
            self.is_over.store(true, Ordering::SeqCst);
        });
        self.conclude(&marks)
    }

    /// Waits until this time after the start; false if a signal ends the run earlier.
    fn waits_until(&self, time: Duration) -> bool {
        while self.begun.elapsed() < time {
            if sys::signals::noted() {
                return false;
            }
            thread::sleep(Duration::from_millis(200));
        }
        true
    }

    /// Stops all work, and measures the processes; `None` if works do not end or a process cannot be
    /// measured.
    fn look(&self) -> Option<Mark> {
        self.is_still.store(true, Ordering::SeqCst);
        let is_at_rest = || self.at_work.load(Ordering::SeqCst) == 0;
        if !interop::scratch::until(ENDING, is_at_rest) {
            self.count("works that end", false);
            println!("FAILED: works do not end in {} s", ENDING.as_secs());
            self.is_still.store(false, Ordering::SeqCst);
            return None;
        }
        self.place.server_is_at_rest();
        thread::sleep(STILL);
        let mark = Mark::of(&self.place);
        self.is_still.store(false, Ordering::SeqCst);
        let mark = match mark {
            Ok(mark) => mark,
            Err(why) => {
                self.count("looks at the processes", false);
                println!("FAILED: {why}");
                return None;
            }
        };
        let (done, failed) = self.totals();
        let minutes = self.begun.elapsed().as_secs() / 60;
        println!("{minutes:>4} min  {done} works, {failed} failed; {mark}");
        Some(mark)
    }

    /// One thread: a work, a rest, and so on.
    fn work(&self) {
        while !self.is_over.load(Ordering::SeqCst) {
            self.at_work.fetch_add(1, Ordering::SeqCst);
            if self.is_still.load(Ordering::SeqCst) {
                self.at_work.fetch_sub(1, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(50));
                continue;
            }
            let number = self.next.fetch_add(1, Ordering::SeqCst);
            let begun = Instant::now();
            self.do_work(number);
            self.at_work.fetch_sub(1, Ordering::SeqCst);
            let rest = (begun.elapsed() * REST).min(LONGEST_REST);
            let end = Instant::now() + rest;
            while Instant::now() < end && !self.is_over.load(Ordering::SeqCst) {
                thread::sleep(rest.min(Duration::from_millis(50)));
            }
        }
    }

    fn do_work(&self, number: u64) {
        let mut random = Random::of_case(self.wishes.seed, number);
        let kind = pick(&mut random);
        let done = catch_unwind(AssertUnwindSafe(|| (kind.work)(&self.place, &mut random)));
        if let Err(payload) = &done {
            let why = panic_text(payload.as_ref());
            let seed = self.wishes.seed;
            println!("FAILED {} (seed {seed}, number {number}): {why}", kind.name);
        }
        self.count(kind.name, done.is_ok());
    }

    fn count(&self, name: &'static str, is_done: bool) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (done, failed) = counts.entry(name).or_default();
        *done += u64::from(is_done);
        *failed += u64::from(!is_done);
    }

    fn totals(&self) -> (u64, u64) {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let sum =
            |(done, failed): (u64, u64), (more, bad): &(u64, u64)| (done + more, failed + bad);
        counts.values().fold((0, 0), sum)
    }

    /// Prints the counts and the verdict.
    fn conclude(&self, marks: &[Mark]) -> bool {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, (done, failed)) in counts.iter() {
            println!("{done:>8} {name}{}", failed_words(*failed));
        }
        drop(counts);
        let (_, failed) = self.totals();
        let grown = match marks {
            // The first look finds processes that have done nothing yet.
            [_, first, .., last] => last.grown_since(first),
            _ => vec!["nothing was compared: that needs two marks after the start".to_owned()],
        };
        for line in &grown {
            println!("GROWN {line}");
        }
        let minutes = self.begun.elapsed().as_secs() / 60;
        let verdict = match (failed, grown.is_empty()) {
            (0, true) => "nothing failed, and nothing grew".to_owned(),
            (0, false) => format!("nothing failed, {} values grew", grown.len()),
            (count, is_steady) => format!(
                "{count} works failed{}",
                if is_steady { "" } else { ", and values grew" }
            ),
        };
        println!("endurance: {minutes} minutes: {verdict}");
        failed == 0 && grown.is_empty()
    }
}

fn failed_words(failed: u64) -> String {
    match failed {
        0 => String::new(),
        count => format!(", {count} more FAILED"),
    }
}

/// A kind of work, each as often as its weight says.
fn pick(random: &mut Random) -> &'static WorkKind {
    let whole = KINDS.iter().map(|kind| kind.weight).sum();
    let mut number = random.below(whole);
    for kind in KINDS {
        match number.checked_sub(kind.weight) {
            Some(left) => number = left,
            None => return kind,
        }
    }
    &KINDS[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_has_numbers() {
        let parsed = |text: &str| {
            let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            parse(&words)
        };
        let wishes = Wishes {
            minutes: 60,
            mark_minutes: 5,
            seed: 7,
        };
        assert_eq!(parsed("--minutes 60 --mark 5 --seed 7"), Some(wishes));
        for wrong in ["--minutes 0", "--mark", "--mark x", "--load 3", "program"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn each_kind_has_its_turn() {
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..2000 {
            seen.insert(pick(&mut Random::of_case(1, number)).name);
        }
        assert_eq!(seen.len(), KINDS.len());
    }
}
