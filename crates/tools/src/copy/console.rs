//! What a copy shows: errors, a line for each file and a total while it runs, JSON at its end.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use transfer::report::{FileResult, Limit, Report, Times};
use transfer::text;

use super::units;
use crate::json::Json;

/// How often the line is painted.
const REPAINT: Duration = Duration::from_millis(250);
/// How often a line is written where there is no terminal. A copy that takes less says nothing.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// The rate is what came in so long a time.
const RATE_SPAN: Duration = Duration::from_secs(1);
/// Files that `--json` names one by one; the rest is counted.
const MAX_NAMED: usize = 100_000;

/// What is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Show {
    /// Errors only.
    #[default]
    Nothing,
    /// One line that is painted again, for a terminal.
    Line,
    /// A line now and then, for whoever reads it later.
    Lines,
}

#[derive(Debug)]
struct Current {
    name: String,
    size: Option<u64>,
}

/// Hears what a copy does. See the module's head.
#[derive(Debug)]
pub(crate) struct Console {
    /// Before each error.
    prefix: &'static str,
    show: Show,
    json: bool,
    remembers: bool,
    started: Instant,
    painted: Instant,
    rate_since: Instant,
    rate_bytes: u64,
    rate: u64,
    peak: u64,
    /// What took the most time, and where the time went since that was found; where all of it went.
    limit: Limit,
    recent: Times,
    times: Times,
    current: Option<Current>,
    current_bytes: u64,
    current_started: Instant,
    /// Bytes that were moved, and how much there is as far as that is known.
    bytes: u64,
    known_bytes: u64,
    files: u64,
    failed: u64,
    line_is_open: bool,
    /// A plain line was written: of the file that is under way, and at all.
    told_current: bool,
    told: bool,
    results: Vec<FileResult>,
    /// Where what failed came from, as far as that is remembered.
    failed_from: Vec<Vec<u8>>,
}

impl Console {
    pub(crate) fn new(prefix: &'static str, show: Show, json: bool) -> Self {
        let now = Instant::now();
        // What a program reads holds nothing else.
        let show = match show {
            Show::Lines if json => Show::Nothing,
            show => show,
        };
        Self {
            prefix,
            show,
            json,
            remembers: json,
            started: now,
            painted: now,
            rate_since: now,
            rate_bytes: 0,
            rate: 0,
            peak: 0,
            limit: Limit::Unknown,
            recent: Times::default(),
            times: Times::default(),
            current: None,
            current_bytes: 0,
            current_started: now,
            bytes: 0,
            known_bytes: 0,
            files: 0,
            failed: 0,
            line_is_open: false,
            told_current: false,
            told: false,
            results: Vec::new(),
            failed_from: Vec::new(),
        }
    }

    /// What standard output is good for, if anything is `wanted`.
    pub(crate) fn for_output(wanted: bool) -> Show {
        match (wanted, std::io::stdout().is_terminal()) {
            (true, true) => Show::Line,
            (true, false) => Show::Lines,
            (false, _) => Show::Nothing,
        }
    }

    pub(crate) fn set_show(&mut self, show: Show) {
        self.show = show;
    }

    /// scp's last word on each source of which something failed.
    pub(crate) fn failed_sources<'s>(
        &mut self,
        sources: impl Iterator<Item = &'s [u8]>,
        target: &[u8],
    ) {
        for source in sources {
            let failed = self.failed_from.iter().any(|from| from.starts_with(source));
            if failed {
                let kind = match std::path::Path::new(crate::scp::place::os(source).as_os_str())
                    .is_dir()
                {
                    true => "directory",
                    false => "file",
                };
                let (source, target) = (text::name(source), text::name(target));
                self.say(&format!("failed to upload {kind} {source} to {target}"));
            }
        }
    }

    /// Counting begins anew.
    pub(crate) fn restart(&mut self) {
        *self = Self::new(self.prefix, self.show, self.json);
    }

    /// How many files and directories failed.
    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// An error of the program's own.
    pub(crate) fn error(&mut self, line: &str) {
        self.failed += 1;
        self.say(line);
    }

    /// Something failed that others have reported.
    pub(crate) fn count_failure(&mut self) {
        self.failed += 1;
    }

    fn say(&mut self, line: &str) {
        self.close_line();
        // What an interrupt ends has not failed, however much of it there is.
        if sys::signals::interrupts() > 0 {
            return;
        }
        eprintln!("{}{line}", self.prefix);
    }

    fn close_line(&mut self) {
        if std::mem::take(&mut self.line_is_open) {
            println!();
        }
    }

    fn measure(&mut self, now: Instant) {
        let span = now.duration_since(self.rate_since);
        if span >= RATE_SPAN {
            let moved = self.bytes - self.rate_bytes;
            self.rate = per_second(moved, span);
            self.peak = self.peak.max(self.rate);
            self.rate_since = now;
            self.rate_bytes = self.bytes;
            self.limit = std::mem::take(&mut self.recent).limit();
        }
    }

    /// Whether what is shown is to be brought up to date.
    fn is_due(&self, now: Instant) -> bool {
        let every = match self.show {
            Show::Nothing => return false,
            Show::Line => REPAINT,
            Show::Lines => LINE_EVERY,
        };
        now.duration_since(self.painted) >= every
    }

    /// The name of the file that is under way, and how far it is.
    fn standing(&self, now: Instant, last: bool) -> Option<(&str, String)> {
        let current = self.current.as_ref()?;
        let size = current.size;
        let done = self.current_bytes;
        let share = match size {
            Some(0) | None => 100,
            Some(size) => (u128::from(done) * 100 / u128::from(size)).min(100),
        };
        let spent = now.duration_since(self.current_started);
        let (rate, time) = match last {
            true => (per_second(done, spent), units::clock(spent.as_secs())),
            false => {
                let left = size.unwrap_or(done).saturating_sub(done);
                let eta = match self.rate {
                    0 => "--:--".to_owned(),
                    rate => units::clock(left / rate),
                };
                (self.rate, format!("{eta} ETA{}", words(self.limit)))
            }
        };
        let tail = format!(
            "{share:>3}% {:>6} {:>8}/s   {time}",
            units::bytes(done),
            units::bytes(rate)
        );
        Some((&current.name, tail))
    }

    fn paint(&mut self, last: bool) {
        let now = Instant::now();
        let Some((name, tail)) = self.standing(now, last) else {
            return;
        };
        if self.show == Show::Lines {
            // A file that was never told of needs no end.
            if !last || self.told_current {
                println!("{name} {tail}");
                (self.told, self.painted) = (true, now);
            }
            self.told_current = !last;
            return;
        }
        let width = sys::terminal::window_size(sys::io::stdout())
            .map_or(80, |size| usize::from(size.columns));
        let room = width.saturating_sub(tail.chars().count() + 2).max(10);
        let shown: String = name.chars().take(room).collect();
        let line = format!("\r{shown:<room$} {tail}");
        let line: String = line.chars().take(width).collect();
        let mut out = std::io::stdout().lock();
        // A terminal that is gone takes the process with it soon enough.
        let _ = write!(out, "{line}\x1b[K");
        if last {
            let _ = writeln!(out);
        }
        let _ = out.flush();
        self.line_is_open = !last;
        self.painted = now;
    }

    /// The total, where more than one file was copied, and JSON where it was asked for.
    pub(crate) fn finish(&mut self) {
        self.close_line();
        let spent = self.started.elapsed();
        let rate = per_second(self.bytes, spent);
        let total = self.show == Show::Line || self.told;
        if total && self.files > 1 {
            let peak = self.peak.max(rate);
            println!(
                "total: {} files, {} in {}, {}/s (peak {}/s){}",
                self.files,
                units::bytes(self.bytes),
                units::clock(spent.as_secs()),
                units::bytes(rate),
                units::bytes(peak),
                words(self.times.limit())
            );
        }
        if self.json {
            println!("{}", self.to_json(spent, rate).render());
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn to_json(&self, spent: Duration, rate: u64) -> Json {
        let file = |result: &FileResult| {
            let mut pairs = vec![
                ("from", Json::text(text::name(&result.from))),
                ("to", Json::text(text::name(&result.to))),
                ("bytes", Json::Number(result.bytes as f64)),
                ("resumed_bytes", Json::Number(result.resumed_bytes as f64)),
                ("ok", Json::Bool(result.error.is_none())),
            ];
            if let Some(error) = &result.error {
                pairs.push(("error", Json::text(error)));
            }
            if let Some(verified) = result.verified {
                pairs.push(("verified", Json::text(verified)));
            }
            Json::object(pairs)
        };
        let limits = self.times.each().into_iter();
        let limits = limits.map(|(limit, time)| (name(limit), Json::Number(time.as_secs_f64())));
        Json::object(vec![
            ("ok", Json::Bool(self.failed == 0)),
            ("files", Json::Number(self.files as f64)),
            ("failed", Json::Number(self.failed as f64)),
            ("bytes", Json::Number(self.bytes as f64)),
            ("seconds", Json::Number(spent.as_secs_f64())),
            (
                "peak_bytes_per_second",
                Json::Number(self.peak.max(rate) as f64),
            ),
            ("limited_by", Json::text(name(self.times.limit()))),
            ("limits", Json::object(limits.collect())),
            (
                "results",
                Json::List(self.results.iter().map(file).collect()),
            ),
        ])
    }

    /// The files that were copied well, for those who look at them again.
    pub(crate) fn good(&self) -> impl Iterator<Item = &FileResult> {
        self.results.iter().filter(|result| result.error.is_none())
    }

    /// Remembers what becomes of each file.
    pub(crate) fn remember(&mut self) {
        self.remembers = true;
    }

    /// Files were compared: how.
    pub(crate) fn verified(&mut self, how: &'static str) {
        for result in &mut self.results {
            if result.error.is_none() {
                result.verified = Some(how);
            }
        }
    }
}

/// What a limit is called, by programs too.
fn name(limit: Limit) -> &'static str {
    match limit {
        Limit::Unknown => "unknown",
        Limit::Source => "source-disk",
        Limit::Target => "target-disk",
        Limit::Cpu => "cpu",
        Limit::Network => "network",
        Limit::Peer => "peer",
        Limit::NetworkOrPeer => "network-or-peer",
        Limit::Asked => "asked",
    }
}

/// A limit behind what a line shows.
fn words(limit: Limit) -> &'static str {
    match limit {
        Limit::Unknown => "",
        Limit::Source => "  limited by source disk",
        Limit::Target => "  limited by target disk",
        Limit::Cpu => "  limited by CPU",
        Limit::Network => "  limited by network",
        Limit::Peer => "  limited by peer",
        Limit::NetworkOrPeer => "  limited by network or peer",
        Limit::Asked => "  limited as asked",
    }
}

fn per_second(bytes: u64, span: Duration) -> u64 {
    let nanoseconds = span.as_nanos().max(1);
    u64::try_from(u128::from(bytes) * 1_000_000_000 / nanoseconds).unwrap_or(u64::MAX)
}

impl Report for Console {
    fn begins(&mut self, name: &[u8], size: Option<u64>) {
        self.known_bytes = self.known_bytes.saturating_add(size.unwrap_or(0));
        if self.show == Show::Nothing {
            return;
        }
        if self.current.is_none() {
            self.current = Some(Current {
                name: text::name(transfer::plan::base_name(name)),
                size,
            });
            self.current_bytes = 0;
            self.current_started = Instant::now();
        }
    }

    fn moved(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.current_bytes += bytes;
    }

    fn ends(&mut self, result: &FileResult) {
        self.files += 1;
        if let Some(error) = &result.error {
            self.failed += 1;
            self.say(error);
            if self.failed_from.len() < MAX_NAMED {
                self.failed_from.push(result.from.clone());
            }
        } else if self.show != Show::Nothing {
            let name = text::name(transfer::plan::base_name(&result.from));
            let size = result.bytes + result.resumed_bytes;
            self.current_bytes = size;
            self.current = Some(Current {
                name,
                size: Some(size),
            });
            self.paint(true);
            self.current_started = Instant::now();
        }
        self.current = None;
        if self.remembers && self.results.len() < MAX_NAMED {
            self.results.push(result.clone());
        }
    }

    fn fails(&mut self, line: &str) {
        self.failed += 1;
        self.say(line);
    }

    fn says(&mut self, line: &str) {
        self.say(line);
    }

    fn tick(&mut self, times: &Times) {
        self.times += *times;
        self.recent += *times;
        let now = Instant::now();
        self.measure(now);
        if self.is_due(now) {
            self.paint(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_terminal_a_line_comes_now_and_then_and_says_how_far_it_is() {
        let mut console = Console::new("", Show::Lines, false);
        console.begins(b"/a/file", Some(4000));
        console.moved(1000);
        let begun = console.painted;
        assert!(!console.is_due(begun + LINE_EVERY / 2));
        let later = begun + LINE_EVERY;
        assert!(console.is_due(later));
        console.recent.asked = LINE_EVERY;
        console.measure(later);
        assert_eq!(console.recent, Times::default());
        let (name, tail) = console.standing(later, false).unwrap();
        assert_eq!(name, "file");
        assert!(tail.contains(" 25%") && tail.contains("ETA"), "{tail}");
        assert!(tail.ends_with("limited as asked"), "{tail}");
        for (show, json) in [(Show::Nothing, false), (Show::Lines, true)] {
            assert!(!Console::new("", show, json).is_due(later), "{show:?}");
        }
    }
}
