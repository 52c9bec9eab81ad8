//! Works through the hosts: a thread for each host at work, which runs its connection as `ssh` does, and
//! the main thread, which keeps the time limits, the progress and the signals.
//!
//! A host's thread ends with its host and starts the next one's: the C library keeps freed memory for each thread
//! (glibc's tcache), which would grow with the number of hosts.
//!
//! A thread that finds no free descriptor or memory gives its host back and ends, so that fewer work at
//! once; only the last one reports that.
//!
//! A thread whose host is given up may stand still in a call that no time limit ends (an agent that does not
//! answer). Another thread then takes its place: it writes what the host has left and goes on with the next.
//! So the run ends when all output is written, or nobody reads it any more.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use sys::epoll::EventFd;
use sys::signals::{self, Signal};

use crate::hosts::Host;
use crate::outcome::HostOutcome;
use crate::output::{HostOutput, RunOutput, locked};
use crate::session::Control;

/// How often the main thread looks at time limits, signals and the progress.
const LOOK: Duration = Duration::from_millis(200);
/// CPU time of the process between two looks, microseconds, below which all hosts wait. Thousands that only
/// answer signs of life take less.
const QUIET_US: u64 = 10_000;
/// How long a host that is given up has to end its connection in order, before another thread takes the place of
/// its own.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Stack of a host's thread, bytes. Only the pages that are used count.
const STACK_BYTES: usize = 2 << 20;
/// The cause of a host that was at work when the run ended early.
pub(crate) const ENDED_WITH_THE_RUN: &str = "ended with the run";
/// Signals that end the run in order.
pub(crate) const ENDING: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];
/// Descriptors of one host: the socket, those of its loop, and an agent's; a proxy has more.
const DESCRIPTORS_PER_HOST: u64 = 8;
/// Descriptors of everything else.
const OTHER_DESCRIPTORS: u64 = 64;

/// Does the work of one host, on its own thread.
pub(crate) trait HostWork: Send + Sync + 'static {
    /// The output of a host whose work begins. It opens no file: the roster is locked.
    fn output(&self, host: usize, control: &Control) -> HostOutput;

    /// Does the work. `Err` gives the host back because the system has no room for it; nothing has
    /// happened at the host then.
    fn work(
        &self,
        host: usize,
        control: &Arc<Control>,
        output: &Arc<Mutex<HostOutput>>,
        is_last_chance: bool,
    ) -> Result<HostOutcome, ()>;

    /// Ends the run: questions are refused.
    fn end(&self);
}

/// The conditions of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunTerms {
    pub(crate) at_once: usize,
    pub(crate) timeout: Option<Duration>,
    pub(crate) first_failure: bool,
}

/// A host that has its turn.
#[derive(Clone)]
struct AtWork {
    control: Arc<Control>,
    output: Arc<Mutex<HostOutput>>,
    since: Instant,
    /// When it was given up.
    given_up: Option<Instant>,
    /// The work is done, and the thread writes the output.
    is_done: bool,
}

/// The hosts that wait for their turn, and those that have it. One lock is for both: a host is in one of the
/// two until its turn is over.
#[derive(Default)]
struct Roster {
    queue: VecDeque<usize>,
    at_work: BTreeMap<usize, AtWork>,
    /// No other host starts.
    is_over: bool,
}

struct Crew<W> {
    work: W,
    roster: Mutex<Roster>,
    outcomes: Mutex<Vec<Option<HostOutcome>>>,
    done: AtomicUsize,
    failed: AtomicUsize,
    threads: AtomicUsize,
    /// Threads that stand still, whose places others have taken.
    stuck: AtomicUsize,
    wake: EventFd,
}

impl<W: HostWork> Crew<W> {
    fn new(work: W, hosts: usize) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            work,
            roster: Mutex::new(Roster {
                queue: (0..hosts).collect(),
                ..Roster::default()
            }),
            outcomes: Mutex::new(vec![None; hosts]),
            done: AtomicUsize::new(0),
            failed: AtomicUsize::new(0),
            threads: AtomicUsize::new(0),
            stuck: AtomicUsize::new(0),
            wake: EventFd::new()?,
        }))
    }

    /// Works on a host, and on further ones only as long as no thread can be started for them.
    fn serve(self: &Arc<Self>) {
        while let Some((host, at_work)) = self.next_host() {
            let goes_on = match at_work {
                Ok(at_work) => self.serve_host(host, &at_work),
                Err(error) => {
                    let gives_back = self.gives_back(&mut locked(&self.roster), host);
                    if !gives_back {
                        self.record(host, HostOutcome::failed(error.to_string()));
                    }
                    !gives_back
                }
            };
            if !goes_on {
                return;
            }
            if !locked(&self.roster).queue.is_empty() && self.start_thread(None).is_ok() {
                return;
            }
        }
    }

    /// Works on a host; false if this thread has left the crew.
    fn serve_host(&self, host: usize, at_work: &AtWork) -> bool {
        let AtWork {
            control, output, ..
        } = at_work;
        let is_last = self.threads.load(Ordering::Relaxed) <= 1;
        let result = self.work.work(host, control, output, is_last);
        if control.is_abandoned() {
            // The login of a copy has a thread of its own, which may be left.
            control.processes.end();
        }
        let mut roster = locked(&self.roster);
        let Some(entry) = roster.at_work.get_mut(&host) else {
            // Another thread has taken this one's place.
            self.stuck.fetch_sub(1, Ordering::Relaxed);
            return false;
        };
        let outcome = match result {
            Ok(outcome) => outcome,
            // It has its outcome.
            Err(()) if entry.given_up.is_some() => HostOutcome::failed(ENDED_WITH_THE_RUN),
            Err(()) => {
                roster.at_work.remove(&host);
                let gives_back = self.gives_back(&mut roster, host);
                if !gives_back {
                    roster.queue.push_front(host);
                }
                return !gives_back;
            }
        };
        entry.is_done = true;
        drop(roster);
        self.record(host, outcome);
        self.write(host, at_work);
        locked(&self.roster).at_work.remove(&host);
        true
    }

    /// Writes what a host with an outcome has left; waits until it may write.
    fn write(&self, host: usize, at_work: &AtWork) {
        let outcome = locked(&self.outcomes).get(host).cloned().flatten();
        if let Some(outcome) = outcome {
            let seconds = at_work.since.elapsed().as_secs_f64();
            locked(&at_work.output).finish(&outcome, seconds);
        }
    }

    /// Starts a thread, which is counted by its starter. It first writes what `left` has left, in the place of the
    /// host's own thread.
    fn start_thread(self: &Arc<Self>, left: Option<(usize, AtWork)>) -> io::Result<()> {
        let own = Arc::clone(self);
        let builder = thread::Builder::new().name("host".to_owned());
        let spawned = builder.stack_size(STACK_BYTES).spawn(move || {
            // The run goes on without a thread that panics.
            let served = std::panic::catch_unwind(AssertUnwindSafe(|| {
                if let Some((host, at_work)) = left {
                    own.write(host, &at_work);
                }
                own.serve();
            }));
            if served.is_err() {
                own.leaves();
            }
        });
        spawned.map(drop)
    }

    /// The next host for this thread, or why it cannot be worked on; without one the thread has left the crew.
    /// Both under the lock of the roster, as in [`Self::gives_back`]: no host is given back when nobody is left to
    /// take it.
    fn next_host(&self) -> Option<(usize, io::Result<AtWork>)> {
        let control = Control::new();
        let mut roster = locked(&self.roster);
        let host = match roster.is_over {
            true => None,
            false => roster.queue.pop_front(),
        };
        let Some(host) = host else {
            self.leaves();
            return None;
        };
        let at_work = control.map(|control| AtWork {
            output: Arc::new(Mutex::new(self.work.output(host, &control))),
            control: Arc::new(control),
            since: Instant::now(),
            given_up: None,
            is_done: false,
        });
        if let Ok(at_work) = &at_work {
            roster.at_work.insert(host, at_work.clone());
        }
        Some((host, at_work))
    }

    /// Gives the host back and takes this thread from the crew, unless it is the last.
    fn gives_back(&self, roster: &mut Roster, host: usize) -> bool {
        let less = |threads: usize| (threads > 1).then(|| threads - 1);
        let retires = self
            .threads
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok();
        if retires {
            roster.queue.push_front(host);
        }
        retires
    }

    /// Counts this thread as ended, and wakes the main thread.
    fn leaves(&self) {
        self.threads.fetch_sub(1, Ordering::Relaxed);
        let _ = self.wake.signal();
    }

    /// Records an outcome; the first of a host counts.
    fn record(&self, host: usize, outcome: HostOutcome) -> bool {
        let mut outcomes = locked(&self.outcomes);
        let Some(slot @ None) = outcomes.get_mut(host) else {
            return false;
        };
        self.failed
            .fetch_add(usize::from(!outcome.is_success()), Ordering::Relaxed);
        *slot = Some(outcome);
        self.done.fetch_add(1, Ordering::Relaxed);
        drop(outcomes);
        let _ = self.wake.signal();
        true
    }

    /// Ends hosts that have worked for too long. The time in which a host waited to write does not count.
    fn keep_time(&self, timeout: Duration, output: &RunOutput) {
        let cause = format!("timed out after {} s", timeout.as_secs());
        for (host, at_work) in &mut locked(&self.roster).at_work {
            let elapsed = at_work.since.elapsed();
            if elapsed >= timeout && elapsed.saturating_sub(output.waited(*host)) >= timeout {
                self.give_up(*host, at_work, &cause);
            }
        }
    }

    /// Ends a host's work for this reason, unless it has an outcome.
    fn give_up(&self, host: usize, at_work: &mut AtWork, cause: &str) {
        if at_work.given_up.is_none() && self.record(host, HostOutcome::failed(cause)) {
            at_work.given_up = Some(Instant::now());
            at_work.control.abandon();
        }
    }

    /// Gives the places of threads that stand still to others: those whose hosts were given up and have not
    /// ended in time. What their logins have started is ended.
    fn replace_stuck(self: &Arc<Self>) {
        let mut roster = locked(&self.roster);
        let is_late = |at_work: &AtWork| {
            let given_up = at_work.given_up.filter(|_| !at_work.is_done);
            given_up.is_some_and(|since| since.elapsed() >= LAST_WORDS)
        };
        let late = roster
            .at_work
            .iter()
            .filter(|(_, at_work)| is_late(at_work));
        let late: Vec<(usize, AtWork)> = late
            .map(|(host, at_work)| (*host, at_work.clone()))
            .collect();
        if late.is_empty() {
            return;
        }
        // The main thread takes the signals.
        let Ok(_blocked) = signals::Blocked::new(&ENDING) else {
            return;
        };
        for (host, at_work) in late {
            at_work.control.processes.end();
            // Without room for a thread, the next look tries again.
            if self.start_thread(Some((host, at_work))).is_ok() {
                roster.at_work.remove(&host);
                self.stuck.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Ends the run: hosts at work are given up, and others do not start.
    fn stop(&self, why: &str) {
        self.work.end();
        let mut roster = locked(&self.roster);
        roster.is_over = true;
        roster.queue.clear();
        for (host, at_work) in &mut roster.at_work {
            self.give_up(*host, at_work, why);
        }
    }
}

/// Ends an open question, which puts the terminal back, and copies. A second signal of the user ends the process at
/// once.
fn signal_own_threads() {
    let noted = ENDING.into_iter();
    let noted: Vec<Signal> = noted
        .filter(|signal| !signals::is_ignored(*signal).unwrap_or(false))
        .collect();
    let _ = signals::send(sys::process::pid(), Signal::TERM);
    for signal in noted {
        let _ = signals::restore_default(signal);
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All hosts had their turn.
    Whole,
    /// A signal.
    Signal,
    /// A host failed, and the command line asks to stop at the first failure.
    Failure,
    /// Standard output is closed.
    Broken,
}

/// The outcomes in the order of the hosts, `None` for those that did not start.
pub(crate) struct Results {
    pub(crate) outcomes: Vec<Option<HostOutcome>>,
    pub(crate) ended: Ended,
}

/// How many hosts can work at once.
fn room(at_once: usize, hosts: usize) -> usize {
    let _ = sys::process::raise_open_files();
    let limit = sys::process::limit(sys::process::Resource::OpenFiles);
    let descriptors = limit.map_or(1024, |limit| limit.soft);
    let fit = descriptors.saturating_sub(OTHER_DESCRIPTORS) / DESCRIPTORS_PER_HOST;
    at_once
        .min(hosts)
        .min(usize::try_from(fit).unwrap_or(usize::MAX))
        .max(1)
}

/// Works through the hosts.
///
/// # Errors
/// The system's error, if not even one thread can be started.
pub(crate) fn run(
    work: impl HostWork,
    hosts: &[Host],
    terms: RunTerms,
    output: &RunOutput,
) -> io::Result<Results> {
    for signal in ENDING {
        if !signals::is_ignored(signal).unwrap_or(false) {
            signals::note(signal)?;
        }
    }
    let crew = Crew::new(work, hosts.len())?;
    begin(&crew, room(terms.at_once, hosts.len()))?;
    let ended = watch(&crew, hosts.len(), terms, output);
    let outcomes = std::mem::take(&mut *locked(&crew.outcomes));
    Ok(Results { outcomes, ended })
}

/// Starts the threads; fewer, if the system has no room for all.
fn begin<W: HostWork>(crew: &Arc<Crew<W>>, count: usize) -> io::Result<()> {
    // The main thread takes the signals.
    let _blocked = signals::Blocked::new(&ENDING)?;
    for index in 0..count {
        crew.threads.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = crew.start_thread(None) {
            crew.threads.fetch_sub(1, Ordering::Relaxed);
            return if index == 0 { Err(error) } else { Ok(()) };
        }
    }
    Ok(())
}

/// Returns to the system what the logins have freed, once after each time in which hosts worked: what
/// waits long does without it.
struct Trimmer {
    /// The process's CPU time at the last look, microseconds.
    cpu_us: u64,
    is_trimmed: bool,
}

impl Trimmer {
    fn new() -> Self {
        Self {
            cpu_us: sys::time::process_cpu_us(),
            is_trimmed: false,
        }
    }

    /// To be called after each [`LOOK`] in which no host ended.
    fn look(&mut self) {
        let now = sys::time::process_cpu_us();
        let is_quiet = now.saturating_sub(self.cpu_us) < QUIET_US;
        if is_quiet && !self.is_trimmed {
            sys::memory::trim();
        }
        self.is_trimmed = is_quiet;
        // What trimming takes is no work of a host.
        self.cpu_us = sys::time::process_cpu_us();
    }
}

/// Keeps the time until all hosts have ended and their output is written.
fn watch<W: HostWork>(
    crew: &Arc<Crew<W>>,
    hosts: usize,
    terms: RunTerms,
    output: &RunOutput,
) -> Ended {
    let mut ended = Ended::Whole;
    let mut painted = Instant::now();
    let mut trimmer = Trimmer::new();
    while crew.threads.load(Ordering::Relaxed) > 0 {
        let is_awake = sys::io::wait_readable(&crew.wake, Some(LOOK)).unwrap_or(true);
        let _ = crew.wake.drain();
        if !is_awake {
            trimmer.look();
        }
        if let Some(timeout) = terms.timeout {
            crew.keep_time(timeout, output);
        }
        let (done, failed) = (
            crew.done.load(Ordering::Relaxed),
            crew.failed.load(Ordering::Relaxed),
        );
        if ended == Ended::Whole {
            ended = match () {
                () if signals::noted() => Ended::Signal,
                () if output.is_broken() => Ended::Broken,
                () if terms.first_failure && failed > 0 => Ended::Failure,
                () => Ended::Whole,
            };
            if ended != Ended::Whole {
                crew.stop(ENDED_WITH_THE_RUN);
                signal_own_threads();
            }
        }
        if terms.timeout.is_some() || ended != Ended::Whole {
            crew.replace_stuck();
        }
        if output.shows_progress() && painted.elapsed() >= LOOK && done < hosts {
            painted = Instant::now();
            let at_work = locked(&crew.roster).at_work.len();
            output.progress(&format!(
                "{done} of {hosts} done, {failed} failed, {at_work} at work"
            ));
        }
    }
    // Threads that stand still may have a question open, or wait to ask one.
    if ended == Ended::Whole && crew.stuck.load(Ordering::Relaxed) > 0 {
        crew.work.end();
        signal_own_threads();
    }
    drop(output.hold_screen());
    ended
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::OutputForm;

    /// The output of a host that writes nothing.
    fn silent(host: usize, control: &Control) -> HostOutput {
        let all = Arc::new(RunOutput::new(OutputForm::Grouped, true).unwrap());
        HostOutput::new(all, host, "", Arc::clone(&control.waker))
    }

    /// Gives each host back until one thread is left.
    struct Crowded;

    impl HostWork for Crowded {
        fn output(&self, host: usize, control: &Control) -> HostOutput {
            silent(host, control)
        }

        fn work(
            &self,
            _: usize,
            _: &Arc<Control>,
            _: &Arc<Mutex<HostOutput>>,
            is_last: bool,
        ) -> Result<HostOutcome, ()> {
            match is_last {
                true => Ok(HostOutcome::exit(0)),
                false => Err(()),
            }
        }

        fn end(&self) {}
    }

    #[test]
    fn memory_is_trimmed_again_after_work() {
        let mut trimmer = Trimmer {
            cpu_us: sys::time::process_cpu_us(),
            is_trimmed: true,
        };
        let begun = sys::time::process_cpu_us();
        while sys::time::process_cpu_us() - begun < 2 * QUIET_US {}
        trimmer.look();
        assert!(!trimmer.is_trimmed);
    }

    /// Notes the thread of each host.
    #[derive(Default)]
    struct Threads(Mutex<Vec<thread::ThreadId>>);

    impl HostWork for Arc<Threads> {
        fn output(&self, host: usize, control: &Control) -> HostOutput {
            silent(host, control)
        }

        fn work(
            &self,
            _: usize,
            _: &Arc<Control>,
            _: &Arc<Mutex<HostOutput>>,
            _: bool,
        ) -> Result<HostOutcome, ()> {
            locked(&self.0).push(thread::current().id());
            Ok(HostOutcome::exit(0))
        }

        fn end(&self) {}
    }

    #[test]
    fn each_host_has_a_thread_of_its_own() {
        const HOSTS: usize = 20;
        let threads = Arc::new(Threads::default());
        let crew = crew_of(Arc::clone(&threads), HOSTS);
        begin(&crew, 2).unwrap();
        while crew.threads.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
        let seen = locked(&threads.0);
        let mut distinct: Vec<_> = Vec::new();
        for thread in seen.iter() {
            if !distinct.contains(thread) {
                distinct.push(*thread);
            }
        }
        assert_eq!((seen.len(), distinct.len()), (HOSTS, HOSTS));
    }

    fn crew_of<W: HostWork>(work: W, hosts: usize) -> Arc<Crew<W>> {
        Crew::new(work, hosts).unwrap()
    }

    #[test]
    fn a_host_that_is_given_back_gets_its_turn() {
        const HOSTS: usize = 3;
        for _ in 0..500 {
            let crew = crew_of(Crowded, HOSTS);
            begin(&crew, HOSTS).unwrap();
            while crew.threads.load(Ordering::Relaxed) > 0 {
                thread::yield_now();
            }
            assert_eq!(crew.done.load(Ordering::Relaxed), HOSTS);
        }
    }

    /// Notes the host, and works until it is given up.
    #[derive(Default)]
    struct Endless(Mutex<Vec<usize>>);

    impl HostWork for Arc<Endless> {
        fn output(&self, host: usize, control: &Control) -> HostOutput {
            silent(host, control)
        }

        fn work(
            &self,
            host: usize,
            control: &Arc<Control>,
            _: &Arc<Mutex<HostOutput>>,
            _: bool,
        ) -> Result<HostOutcome, ()> {
            locked(&self.0).push(host);
            while !control.is_abandoned() {
                let _ = sys::io::wait_readable(&*control.waker, None);
            }
            Ok(HostOutcome::exit(0))
        }

        fn end(&self) {}
    }

    #[test]
    fn a_run_that_is_stopped_ends_every_host_that_has_begun() {
        const HOSTS: usize = 4;
        for round in 0..500 {
            let work = Arc::new(Endless::default());
            let crew = crew_of(Arc::clone(&work), HOSTS);
            begin(&crew, HOSTS).unwrap();
            for _ in 0..round % 50 {
                thread::yield_now();
            }
            crew.stop(ENDED_WITH_THE_RUN);
            while crew.threads.load(Ordering::Relaxed) > 0 {
                thread::yield_now();
            }
            let outcomes = locked(&crew.outcomes);
            for host in locked(&work.0).iter() {
                assert!(outcomes[*host].is_some(), "host {host} is not reported");
            }
        }
    }
}
