//! What the metrics count, and their two text forms: OpenMetrics 1.0 for MetricsListen, and the
//! text format of Prometheus, which textfile collectors read, for MetricsFile.
//!
//! No value names a user or a host: all labels have fixed values.

use std::fmt::Write;

use privsep::roles::{COUNTED_CHANNELS, ConnectionNews};
use privsep::{AttemptsReport, SessionReport};

use crate::connection::{ATTEMPT_COUNTS, AttemptOutcome, ChainMethod};
use crate::listener::penalties::Offence;
use crate::listener::startups::StartupRefusal;

/// Upper bounds of the buckets of login times, in milliseconds.
const BUCKETS_MS: [u64; 12] = [
    5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000,
];

/// Why the listener has closed a connection without a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalReason {
    /// MaxStartups.
    MaxStartups,
    /// PerSourceMaxStartups.
    PerSource,
    /// PerSourcePenalties.
    Penalty,
    /// A load balancer's connection without a valid header (ProxyProtocolFrom).
    ProxyHeader,
}

impl RefusalReason {
    const ALL: [Self; 4] = [
        Self::MaxStartups,
        Self::PerSource,
        Self::Penalty,
        Self::ProxyHeader,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::MaxStartups => "max_startups",
            Self::PerSource => "per_source_max_startups",
            Self::Penalty => "penalty",
            Self::ProxyHeader => "proxy_header",
        }
    }
}

impl From<StartupRefusal> for RefusalReason {
    fn from(refusal: StartupRefusal) -> Self {
        match refusal {
            StartupRefusal::MaxStartups => Self::MaxStartups,
            StartupRefusal::PerSource => Self::PerSource,
        }
    }
}

/// How a connection without a login has ended, as a label's value.
fn end_word(news: ConnectionNews) -> &'static str {
    match news {
        ConnectionNews::Authenticated => "logged_in",
        ConnectionNews::AuthenticationFailed => "authentication_failed",
        ConnectionNews::InvalidUser => "invalid_user",
        ConnectionNews::NoAttempt => "no_attempt",
        ConnectionNews::GraceExceeded => "grace_exceeded",
        ConnectionNews::Crashed => "crashed",
        ConnectionNews::Refused => "refused",
        ConnectionNews::NotServed => "not_served",
        ConnectionNews::Gone => "reset",
    }
}

fn outcome_word(outcome: AttemptOutcome) -> &'static str {
    match outcome {
        AttemptOutcome::Accepted => "accepted",
        AttemptOutcome::Partial => "partial",
        AttemptOutcome::Failed => "failed",
    }
}

/// The form of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricsForm {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format of Prometheus, version 0.0.4.
    Prometheus,
}

/// Values that the counters do not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gauges {
    /// Connections in which nobody has logged in yet.
    pub(crate) startups: usize,
    /// Connections in which somebody has logged in.
    pub(crate) sessions: usize,
}

/// The counters, since the listener's start. None of them wraps.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    attempts: [u64; ATTEMPT_COUNTS],
    ends: [u64; ConnectionNews::ALL.len()],
    /// Login times up to each bound of [`BUCKETS_MS`], and all.
    logins: [u64; BUCKETS_MS.len()],
    login_count: u64,
    login_ms: u64,
    refusals: [u64; RefusalReason::ALL.len()],
    penalties: [u64; Offence::ALL.len()],
    received: u64,
    sent: u64,
    rekeys: u64,
    channels: [u64; COUNTED_CHANNELS.len()],
}

fn add(counter: &mut u64, count: u64) {
    *counter = counter.saturating_add(count);
}

/// Adds 1 to the counter of `which`.
fn count<T: PartialEq>(counters: &mut [u64], all: &[T], which: &T) {
    let counted = counters.iter_mut().zip(all);
    for (counter, _) in counted.filter(|(_, each)| *each == which) {
        add(counter, 1);
    }
}

impl Counters {
    /// A connection has ended without a login.
    pub(crate) fn ended(&mut self, news: ConnectionNews) {
        count(&mut self.ends, &ConnectionNews::ALL, &news);
    }

    /// Somebody has logged in, this time after the connection was accepted.
    pub(crate) fn logged_in(&mut self, after_ms: u64) {
        self.ended(ConnectionNews::Authenticated);
        let buckets = self.logins.iter_mut().zip(BUCKETS_MS);
        for (bucket, _) in buckets.filter(|(_, bound_ms)| after_ms <= *bound_ms) {
            add(bucket, 1);
        }
        add(&mut self.login_count, 1);
        add(&mut self.login_ms, after_ms);
    }

    /// A connection was refused.
    pub(crate) fn refused(&mut self, reason: RefusalReason) {
        count(&mut self.refusals, &RefusalReason::ALL, &reason);
    }

    /// A source is refused from now on.
    pub(crate) fn penalised(&mut self, offence: Offence) {
        count(&mut self.penalties, &Offence::ALL, &offence);
    }

    /// Adds the attempts of a connection.
    pub(crate) fn add_attempts(&mut self, report: &AttemptsReport) {
        for (counter, more) in self.attempts.iter_mut().zip(&report.counts) {
            add(counter, u64::from(*more));
        }
    }

    /// Adds what a session has done.
    pub(crate) fn add_session(&mut self, report: &SessionReport) {
        add(&mut self.received, report.received);
        add(&mut self.sent, report.sent);
        add(&mut self.rekeys, u64::from(report.rekeys));
        for (counter, more) in self.channels.iter_mut().zip(&report.channels) {
            add(counter, *more);
        }
    }

    /// The text of all values.
    pub(crate) fn text(&self, form: MetricsForm, gauges: Gauges) -> String {
        let mut text = MetricsText::new(form);
        text.info(env!("CARGO_PKG_VERSION"));
        self.write_logins(&mut text);
        let rest = [(self.received, "received"), (self.sent, "sent")];
        text.counters(
            "fulmar_sshd_network_bytes",
            "Bytes of the connections of logged-in users, from the login on.",
            rest.map(|(value, direction)| (labels([("direction", direction)]), value)),
        );
        let channels = self.channels.iter().zip(COUNTED_CHANNELS);
        text.counters(
            "fulmar_sshd_channels",
            "Channels opened by either side, by type.",
            channels.map(|(value, kind)| (labels([("type", kind)]), *value)),
        );
        text.counters(
            "fulmar_sshd_rekeys",
            "Key exchanges after the first of a connection.",
            [(String::new(), self.rekeys)],
        );
        text.gauge(
            "fulmar_sshd_startups",
            "Connections in which nobody has logged in yet.",
            gauges.startups,
        );
        text.gauge(
            "fulmar_sshd_sessions",
            "Connections in which somebody has logged in.",
            gauges.sessions,
        );
        text.end()
    }

    fn write_logins(&self, text: &mut MetricsText) {
        let pairs = ChainMethod::ALL.into_iter().flat_map(|method| {
            let outcomes = AttemptOutcome::ALL.into_iter();
            outcomes.map(move |outcome| (method, outcome))
        });
        let attempts = self.attempts.iter().zip(pairs);
        text.counters(
            "fulmar_sshd_attempts",
            "Attempts to log in, by method and outcome; the first request for the methods is none.",
            attempts.map(|(value, (method, outcome))| {
                let outcome = outcome_word(outcome);
                (
                    labels([("method", method.name()), ("outcome", outcome)]),
                    *value,
                )
            }),
        );
        let ends = self.ends.iter().zip(ConnectionNews::ALL);
        text.counters(
            "fulmar_sshd_connections",
            "Connections by the end of their start-up: a login, or why there was none.",
            ends.map(|(value, news)| (labels([("end", end_word(news))]), *value)),
        );
        text.histogram(
            "fulmar_sshd_login_seconds",
            "Time from the acceptance of a connection to the login.",
            &self.logins,
            (self.login_count, self.login_ms),
        );
        let refusals = self.refusals.iter().zip(RefusalReason::ALL);
        text.counters(
            "fulmar_sshd_refused_connections",
            "Connections closed before they were served.",
            refusals.map(|(value, reason)| (labels([("reason", reason.word())]), *value)),
        );
        let penalties = self.penalties.iter().zip(Offence::ALL);
        text.counters(
            "fulmar_sshd_penalties",
            "Sources refused from then on (PerSourcePenalties), by their last offence.",
            penalties.map(|(value, offence)| (labels([("offence", offence.word())]), *value)),
        );
    }
}

/// `{name="value",…}`. No value has a character that must be escaped.
fn labels<const N: usize>(pairs: [(&str, &str); N]) -> String {
    let pairs = pairs.map(|(name, value)| format!("{name}=\"{value}\""));
    format!("{{{}}}", pairs.join(","))
}

/// Milliseconds as seconds with a fraction.
fn seconds(ms: u64) -> String {
    let text = format!("{}.{:03}", ms / 1000, ms % 1000);
    let short = text.trim_end_matches('0');
    if short.ends_with('.') {
        format!("{short}0")
    } else {
        short.to_owned()
    }
}

/// A text under construction.
struct MetricsText {
    form: MetricsForm,
    text: String,
}

impl MetricsText {
    fn new(form: MetricsForm) -> Self {
        let text = String::with_capacity(8192);
        Self { form, text }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.text.write_fmt(line);
        self.text.push('\n');
    }

    /// The lines before the samples of the family `name`. OpenMetrics names the family of a counter
    /// without the suffix of its samples.
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let suffix = match (self.form, kind) {
            (MetricsForm::Prometheus, "counter") => "_total",
            (MetricsForm::Prometheus, "info") => "_info",
            _ => "",
        };
        let known_kind = match (self.form, kind) {
            (MetricsForm::Prometheus, "info") => "gauge",
            _ => kind,
        };
        self.line(format_args!("# HELP {name}{suffix} {help}"));
        self.line(format_args!("# TYPE {name}{suffix} {known_kind}"));
        let unit = ["seconds", "bytes"]
            .into_iter()
            .find(|unit| name.ends_with(unit));
        if let Some(unit) = unit.filter(|_| self.form == MetricsForm::OpenMetrics) {
            self.line(format_args!("# UNIT {name} {unit}"));
        }
    }

    fn info(&mut self, version: &str) {
        self.head("fulmar_sshd", "info", "The server's version.");
        let labels = labels([("version", version)]);
        self.line(format_args!("fulmar_sshd_info{labels} 1"));
    }

    fn counters(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (String, u64)>,
    ) {
        self.head(name, "counter", help);
        for (labels, value) in samples {
            self.line(format_args!("{name}_total{labels} {value}"));
        }
    }

    fn gauge(&mut self, name: &str, help: &str, value: usize) {
        self.head(name, "gauge", help);
        self.line(format_args!("{name} {value}"));
    }

    /// `buckets` are the values up to each bound of [`BUCKETS_MS`]; `all` are the number of values and
    /// their sum in milliseconds.
    fn histogram(&mut self, name: &str, help: &str, buckets: &[u64], all: (u64, u64)) {
        self.head(name, "histogram", help);
        for (bucket, bound_ms) in buckets.iter().zip(BUCKETS_MS) {
            let bound = seconds(bound_ms);
            self.line(format_args!("{name}_bucket{{le=\"{bound}\"}} {bucket}"));
        }
        let (count, sum_ms) = all;
        self.line(format_args!("{name}_bucket{{le=\"+Inf\"}} {count}"));
        let sum = seconds(sum_ms);
        self.line(format_args!("{name}_sum {sum}"));
        self.line(format_args!("{name}_count {count}"));
    }

    fn end(mut self) -> String {
        if self.form == MetricsForm::OpenMetrics {
            self.line(format_args!("# EOF"));
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAUGES: Gauges = Gauges {
        startups: 3,
        sessions: 2,
    };

    fn counted() -> Counters {
        let mut counters = Counters::default();
        counters.logged_in(7);
        counters.logged_in(2500);
        counters.logged_in(100_000);
        counters.ended(ConnectionNews::InvalidUser);
        counters.refused(RefusalReason::Penalty);
        counters.penalised(Offence::Crash);
        let mut counts = vec![0; ATTEMPT_COUNTS];
        counts[3] = 2;
        counters.add_attempts(&AttemptsReport { counts });
        let mut channels = vec![0; COUNTED_CHANNELS.len()];
        channels[1] = 4;
        counters.add_session(&SessionReport {
            received: 10,
            sent: 20,
            rekeys: 1,
            channels,
        });
        counters
    }

    #[test]
    fn both_forms_have_all_values() {
        let counters = counted();
        for form in [MetricsForm::OpenMetrics, MetricsForm::Prometheus] {
            let text = counters.text(form, GAUGES);
            for line in [
                "fulmar_sshd_attempts_total{method=\"publickey\",outcome=\"accepted\"} 2",
                "fulmar_sshd_connections_total{end=\"logged_in\"} 3",
                "fulmar_sshd_connections_total{end=\"invalid_user\"} 1",
                "fulmar_sshd_login_seconds_bucket{le=\"0.005\"} 0",
                "fulmar_sshd_login_seconds_bucket{le=\"0.01\"} 1",
                "fulmar_sshd_login_seconds_bucket{le=\"1.0\"} 1",
                "fulmar_sshd_login_seconds_bucket{le=\"2.5\"} 2",
                "fulmar_sshd_login_seconds_bucket{le=\"30.0\"} 2",
                "fulmar_sshd_login_seconds_bucket{le=\"+Inf\"} 3",
                "fulmar_sshd_login_seconds_sum 102.507",
                "fulmar_sshd_login_seconds_count 3",
                "fulmar_sshd_refused_connections_total{reason=\"penalty\"} 1",
                "fulmar_sshd_penalties_total{offence=\"crash\"} 1",
                "fulmar_sshd_network_bytes_total{direction=\"received\"} 10",
                "fulmar_sshd_network_bytes_total{direction=\"sent\"} 20",
                "fulmar_sshd_channels_total{type=\"direct-tcpip\"} 4",
                "fulmar_sshd_rekeys_total 1",
                "fulmar_sshd_startups 3",
                "fulmar_sshd_sessions 2",
            ] {
                assert!(text.lines().any(|each| each == line), "{line}\n{text}");
            }
            assert!(text.len() < privsep::roles::MAX_READER_MESSAGE_BYTES / 2);
        }
    }

    #[test]
    fn the_forms_differ_where_their_specifications_do() {
        let counters = Counters::default();
        let open = counters.text(MetricsForm::OpenMetrics, GAUGES);
        assert!(open.ends_with("\n# EOF\n"));
        assert!(open.contains("# TYPE fulmar_sshd_rekeys counter\n"));
        assert!(open.contains("# UNIT fulmar_sshd_login_seconds seconds\n"));
        let plain = counters.text(MetricsForm::Prometheus, GAUGES);
        assert!(!plain.contains("# EOF") && !plain.contains("# UNIT"));
        assert!(plain.contains("# TYPE fulmar_sshd_rekeys_total counter\n"));
        assert!(plain.contains("# TYPE fulmar_sshd_info gauge\n"));
    }

    #[test]
    fn counters_do_not_wrap() {
        let mut counters = Counters::default();
        for _ in 0..2 {
            counters.add_session(&SessionReport {
                received: u64::MAX,
                sent: 0,
                rekeys: u32::MAX,
                channels: vec![u64::MAX; 100],
            });
        }
        assert_eq!(counters.received, u64::MAX);
    }
}
