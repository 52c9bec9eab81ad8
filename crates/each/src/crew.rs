//! Works through the hosts: a thread for each host at work, which runs its connection as `ssh` does, and
//! the main thread, which keeps the time limits, the progress and the signals.
//!
//! A host's thread ends with its host and starts the next one's: the C library keeps freed memory for each thread
//! (glibc's tcache), which would grow with the number of hosts.
//!
//! A thread that finds no free descriptor or memory gives its host back and ends, so that fewer work at
//! once; only the last one reports that.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use sys::epoll::EventFd;
use sys::signals::{self, Signal};

use crate::hosts::Host;
use crate::outcome::HostOutcome;
use crate::output::{RunOutput, locked};
use crate::session::Control;

/// How often the main thread looks at time limits, signals and the progress.
const LOOK: Duration = Duration::from_millis(200);
/// CPU time of the process between two looks, microseconds, below which all hosts wait. Thousands that only
/// answer signs of life take less.
const QUIET_US: u64 = 10_000;
/// How long hosts that are given up have to end their connections in order.
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
    /// Does the work. `Err` gives the host back because the system has no room for it; nothing has
    /// happened at the host then.
    fn work(
        &self,
        host: usize,
        control: &Arc<Control>,
        is_last_chance: bool,
    ) -> Result<HostOutcome, ()>;

    /// Ends the run: questions are refused and waits return.
    fn end(&self);
}

/// The conditions of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunTerms {
    pub(crate) at_once: usize,
    pub(crate) timeout: Option<Duration>,
    pub(crate) first_failure: bool,
}

struct AtWork {
    control: Arc<Control>,
    since: Instant,
}

struct Crew<W> {
    work: W,
    queue: Mutex<VecDeque<usize>>,
    at_work: Mutex<BTreeMap<usize, AtWork>>,
    outcomes: Mutex<Vec<Option<HostOutcome>>>,
    done: AtomicUsize,
    failed: AtomicUsize,
    threads: AtomicUsize,
    is_over: AtomicBool,
    wake: EventFd,
}

impl<W: HostWork> Crew<W> {
    /// Works on a host, and on further ones only as long as no thread can be started for them.
    fn serve(self: &Arc<Self>) {
        while let Some(host) = self.next_host() {
            let control = match Control::new() {
                Ok(control) => Arc::new(control),
                Err(error) => {
                    if self.gives_back(host) {
                        return;
                    }
                    self.record(host, HostOutcome::failed(error.to_string()));
                    continue;
                }
            };
            let at_work = AtWork {
                control: Arc::clone(&control),
                since: Instant::now(),
            };
            locked(&self.at_work).insert(host, at_work);
            let is_last = self.threads.load(Ordering::Relaxed) <= 1;
            let outcome = self.work.work(host, &control, is_last);
            locked(&self.at_work).remove(&host);
            match outcome {
                Ok(outcome) => {
                    self.record(host, outcome);
                }
                Err(()) => {
                    if self.gives_back(host) {
                        return;
                    }
                    locked(&self.queue).push_front(host);
                }
            }
            if !locked(&self.queue).is_empty() && self.start_thread().is_ok() {
                return;
            }
        }
    }

    /// Starts a thread, which is counted by its starter.
    fn start_thread(self: &Arc<Self>) -> io::Result<()> {
        let own = Arc::clone(self);
        let builder = thread::Builder::new().name("host".to_owned());
        let spawned = builder.stack_size(STACK_BYTES).spawn(move || {
            // The run goes on without a thread that panics.
            let served = std::panic::catch_unwind(AssertUnwindSafe(|| own.serve()));
            if served.is_err() {
                own.leaves();
            }
        });
        spawned.map(drop)
    }

    /// The next host for this thread; without one the thread has left the crew. Both under the lock of
    /// the queue, as in [`Self::gives_back`]: no host is given back when nobody is left to take it.
    fn next_host(&self) -> Option<usize> {
        let mut queue = locked(&self.queue);
        let is_over = self.is_over.load(Ordering::Relaxed);
        let host = queue.pop_front().filter(|_| !is_over);
        if host.is_none() {
            self.leaves();
        }
        host
    }

    /// Gives the host back and takes this thread from the crew, unless it is the last.
    fn gives_back(&self, host: usize) -> bool {
        let mut queue = locked(&self.queue);
        let less = |threads: usize| (threads > 1).then(|| threads - 1);
        let retires = self
            .threads
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok();
        if retires {
            queue.push_front(host);
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

    /// Ends hosts that have worked for too long.
    fn keep_time(&self, timeout: Duration) {
        let mut late = Vec::new();
        for (host, at_work) in locked(&self.at_work).iter() {
            let (since, control) = (at_work.since, &at_work.control);
            if since.elapsed() >= timeout && !control.is_abandoned() && !control.is_done() {
                late.push((*host, Arc::clone(&at_work.control)));
            }
        }
        for (host, control) in late {
            self.give_up(
                host,
                &control,
                &format!("timed out after {} s", timeout.as_secs()),
            );
        }
    }

    fn give_up(&self, host: usize, control: &Control, cause: &str) {
        if self.record(host, HostOutcome::failed(cause)) {
            control.abandon(cause);
        }
    }

    /// Ends the run: hosts at work are given up, and others do not start.
    fn stop(&self, why: &str) {
        self.is_over.store(true, Ordering::Relaxed);
        self.work.end();
        locked(&self.queue).clear();
        let at_work: Vec<(usize, Arc<Control>)> = locked(&self.at_work)
            .iter()
            .map(|(host, at_work)| (*host, Arc::clone(&at_work.control)))
            .collect();
        for (host, control) in at_work {
            self.give_up(host, &control, why);
        }
        // Ends an open question, which puts the terminal back, and copies.
        let _ = signals::send(sys::process::pid(), Signal::TERM);
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
    let crew = Arc::new(Crew {
        work,
        queue: Mutex::new((0..hosts.len()).collect()),
        at_work: Mutex::default(),
        outcomes: Mutex::new(vec![None; hosts.len()]),
        done: AtomicUsize::new(0),
        failed: AtomicUsize::new(0),
        threads: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
        wake: EventFd::new()?,
    });
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
        if let Err(error) = crew.start_thread() {
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

fn watch<W: HostWork>(crew: &Crew<W>, hosts: usize, terms: RunTerms, output: &RunOutput) -> Ended {
    let mut ended = Ended::Whole;
    let mut last: Option<Instant> = None;
    let mut painted = Instant::now();
    let mut trimmer = Trimmer::new();
    while crew.threads.load(Ordering::Relaxed) > 0 {
        let is_awake = sys::io::wait_readable(&crew.wake, Some(LOOK)).unwrap_or(true);
        let _ = crew.wake.drain();
        if !is_awake {
            trimmer.look();
        }
        if let Some(timeout) = terms.timeout {
            crew.keep_time(timeout);
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
            }
        }
        // A thread whose host is given up may still be in a system call.
        if ended != Ended::Whole || done == hosts {
            let since = *last.get_or_insert_with(Instant::now);
            if since.elapsed() >= LAST_WORDS {
                break;
            }
        }
        if output.shows_progress() && painted.elapsed() >= LOOK && done < hosts {
            painted = Instant::now();
            let at_work = locked(&crew.at_work).len();
            output.progress(&format!(
                "{done} of {hosts} done, {failed} failed, {at_work} at work"
            ));
        }
    }
    // Hosts that have exceeded their time may have a question open, or wait to ask one.
    if ended == Ended::Whole && crew.threads.load(Ordering::Relaxed) > 0 {
        crew.stop(ENDED_WITH_THE_RUN);
    }
    drop(output.hold_screen());
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives each host back until one thread is left.
    struct Crowded;

    impl HostWork for Crowded {
        fn work(&self, _: usize, _: &Arc<Control>, is_last: bool) -> Result<HostOutcome, ()> {
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
        fn work(&self, _: usize, _: &Arc<Control>, _: bool) -> Result<HostOutcome, ()> {
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
        Arc::new(Crew {
            work,
            queue: Mutex::new((0..hosts).collect()),
            at_work: Mutex::default(),
            outcomes: Mutex::new(vec![None; hosts]),
            done: AtomicUsize::new(0),
            failed: AtomicUsize::new(0),
            threads: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            wake: EventFd::new().unwrap(),
        })
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
}
