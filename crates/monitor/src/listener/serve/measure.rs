//! The metrics in the listener's loop: reports of monitors, connections of those who ask, and the
//! file's time.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;

use privsep::{AnswerRequest, AttemptsReport, FrameSplitter, Message, SessionReport, roles};
use sys::Pid;
use sys::epoll::Interest;

use super::accept_failures::AcceptFailures;
use super::{ACCEPT_PAUSE_MS, Listener, METRICS_TOKEN, REPORTS_TOKEN};
use crate::listener::metrics::{self, Counters, Gauges, MetricsFile, MetricsForm, MetricsListener};
use crate::listener::reader::ReaderProcess;

/// Most connections accepted before other events are handled.
const ACCEPT_BATCH: usize = 8;
/// Most bytes of reports read before other events are handled.
const REPORT_BYTES: usize = 16 * 1024;

/// State of the metrics.
#[derive(Default)]
pub(super) struct Measured {
    pub(super) counters: Counters,
    /// Monitors of connections in which somebody has logged in.
    pub(super) sessions: HashSet<Pid>,
    listener: Option<MetricsListener>,
    accept_failures: AcceptFailures,
    /// Monotonic milliseconds until which no request is accepted.
    paused_until_ms: Option<u64>,
    file: Option<MetricsFile>,
    /// Answers requests; started with the first.
    reader: Option<ReaderProcess>,
    /// Reports that have not arrived as a whole.
    reports: FrameSplitter,
    /// The pipe of reports is watched.
    hears_reports: bool,
}

impl Measured {
    /// Monotonic milliseconds of the file's next write, the socket's next check or the end of a pause.
    pub(super) fn due_ms(&self) -> Option<u64> {
        let file = self.file.as_ref().map(MetricsFile::due_ms);
        let listener = self.listener.as_ref();
        let check = listener.and_then(MetricsListener::check_due_ms);
        let dues = file.into_iter().chain(check);
        dues.chain(self.paused_until_ms).min()
    }
}

impl Listener<'_> {
    /// Takes the socket and the file away: another program may have them elsewhere.
    pub(super) fn end_to_measure(&mut self) {
        drop(self.unwatched_listener());
        self.measured.file = None;
    }

    fn unwatched_listener(&mut self) -> Option<MetricsListener> {
        let listener = self.measured.listener.take();
        if let Some(socket) = listener.as_ref().and_then(MetricsListener::socket) {
            let _ = self.epoll.remove(socket.fd());
        }
        listener
    }

    /// Opens what the configuration in force asks for, and closes the rest.
    pub(super) fn begin_to_measure(&mut self, now_ms: u64) {
        let old = self.unwatched_listener();
        let logging = &self.options.logging;
        self.measured.listener = MetricsListener::of(logging, old, now_ms, self.log);
        self.measured.file = metrics::file_of(logging, self.measured.file.take(), now_ms);
        self.watch_requests();
        if let Some(reports) = self
            .launch
            .reports()
            .filter(|_| !self.measured.hears_reports)
        {
            let watched = self.epoll.add(reports, REPORTS_TOKEN, Interest::READABLE);
            self.measured.hears_reports = watched.is_ok();
        }
    }

    /// Accepts requests from now on.
    fn watch_requests(&mut self) {
        self.measured.paused_until_ms = None;
        let listener = self.measured.listener.as_ref();
        let Some(socket) = listener.and_then(MetricsListener::socket) else {
            return;
        };
        let fd = socket.fd();
        if let Err(error) = self.epoll.add(fd, METRICS_TOKEN, Interest::READABLE) {
            self.log.error(&format!("MetricsListen: {error}"));
        }
    }

    /// Adds the reports that have arrived to the counters.
    pub(super) fn hear_reports(&mut self) {
        let Some(pipe) = self.launch.reports() else {
            return;
        };
        let mut bytes = [0; REPORT_BYTES];
        let count = sys::io::read(pipe, &mut bytes).unwrap_or(0);
        let Measured {
            reports, counters, ..
        } = &mut self.measured;
        reports.feed(bytes.get(..count).unwrap_or_default());
        loop {
            let report = match reports.next_frame() {
                Ok(None) => return,
                Ok(Some(report)) => report,
                Err(error) => {
                    // Only monitors write here: a defect.
                    self.log.error(&format!("reports for the metrics: {error}"));
                    *reports = FrameSplitter::new();
                    return;
                }
            };
            match report.number {
                AttemptsReport::NUMBER => {
                    if let Ok(attempts) = report.decode() {
                        counters.add_attempts(&attempts);
                    }
                }
                SessionReport::NUMBER => {
                    if let Ok(session) = report.decode() {
                        counters.add_session(&session);
                    }
                }
                _ => {}
            }
        }
    }

    /// Hands new connections of those who ask to the reader.
    pub(super) fn answer_requests(&mut self, now_ms: u64) {
        let mut text = None;
        for _ in 0..ACCEPT_BATCH {
            let listener = self.measured.listener.as_ref();
            let Some(socket) = listener.and_then(MetricsListener::socket) else {
                return;
            };
            let network = match socket.accept() {
                Ok(Some(network)) => network,
                Ok(None) => return,
                Err(error) => {
                    let failures = &mut self.measured.accept_failures;
                    failures.report("MetricsListen: accept", &error, now_ms, self.log);
                    // With level-triggered epoll the loop would spin.
                    let _ = self.epoll.remove(socket.fd());
                    self.measured.paused_until_ms = Some(now_ms + ACCEPT_PAUSE_MS);
                    return;
                }
            };
            let text = text.get_or_insert_with(|| self.metrics_text(MetricsForm::OpenMetrics));
            let request = AnswerRequest {
                text: text.clone().into_bytes(),
            };
            if let Err(error) = self.pass_request(&request, &network) {
                self.log.verbose(&format!("a request for metrics: {error}"));
                let _ = sys::io::write(&network, roles::METRICS_REFUSAL);
            }
        }
    }

    /// Passes a connection to the reader, which is started first if there is none or it has ended.
    fn pass_request(&mut self, request: &AnswerRequest, network: &OwnedFd) -> io::Result<()> {
        if let Some(reader) = &self.measured.reader {
            match reader.pass(request, network) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                Err(_) => self.measured.reader = None,
            }
        }
        let reader = self.launch.start_reader()?;
        reader.pass(request, network)?;
        self.measured.reader = Some(reader);
        Ok(())
    }

    /// Writes the file and checks the socket when they are due, and ends a pause.
    pub(super) fn keep_measuring(&mut self, now_ms: u64) {
        let is_due = |at: u64| at <= now_ms;
        let listener = self.measured.listener.as_mut();
        let due = listener.filter(|each| each.check_due_ms().is_some_and(is_due));
        if due.is_some_and(|listener| listener.check(now_ms, self.log)) {
            // The old socket left the epoll set when it was closed.
            self.watch_requests();
        }
        if self.measured.paused_until_ms.is_some_and(is_due) {
            self.watch_requests();
        }
        let file_due = self.measured.file.as_ref().map(MetricsFile::due_ms);
        if !file_due.is_some_and(is_due) {
            return;
        }
        let text = self.metrics_text(MetricsForm::Prometheus);
        if let Some(file) = &mut self.measured.file {
            file.write(&text, now_ms, self.log);
        }
    }

    fn metrics_text(&self, form: MetricsForm) -> String {
        let gauges = Gauges {
            startups: self.startups.total(),
            sessions: self.measured.sessions.len(),
        };
        self.measured.counters.text(form, gauges)
    }
}
