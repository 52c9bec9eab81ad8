//! Output of a copy: errors, the progress of each file and the total, and JSON at the end.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use transfer::report::{FileResult, Limit, Report, Times};
use transfer::text;

use super::units;
use crate::json::Json;

/// Interval between two updates of the line on a terminal.
const REPAINT: Duration = Duration::from_millis(250);
/// Interval between two lines without a terminal. A copy that takes less time writes none.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// Time over which a rate is measured.
const RATE_SPAN: Duration = Duration::from_secs(1);
/// Maximum errors that are kept for the caller; others are only counted.
const MAX_KEPT: usize = 100;
/// Maximum files that `--json` lists; others are only counted.
const MAX_NAMED: usize = 100_000;

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Show {
    /// Errors only.
    #[default]
    Nothing,
    /// One line that is updated in place, for a terminal.
    Line,
    /// A line every ten seconds, for a file or pipe.
    Lines,
}

/// A file that is being copied.
#[derive(Debug)]
struct Moving {
    name: Vec<u8>,
    size: Option<u64>,
    started: Instant,
    /// Bytes that the target has, and those of them that this copy has moved.
    done: u64,
    moved: u64,
    /// Value of `moved` when the file to show was last chosen.
    seen: u64,
    rate: Rate,
    /// A line was written about it.
    told: bool,
}

/// Bytes per second over the last [`RATE_SPAN`].
#[derive(Debug)]
struct Rate {
    since: Instant,
    bytes: u64,
    per_second: u64,
}

impl Rate {
    fn new(now: Instant) -> Self {
        Self {
            since: now,
            bytes: 0,
            per_second: 0,
        }
    }

    /// Takes the total of moved bytes; returns true if the rate was measured anew.
    fn measure(&mut self, bytes: u64, now: Instant) -> bool {
        let span = now.duration_since(self.since);
        if span < RATE_SPAN {
            return false;
        }
        self.per_second = per_second(bytes.saturating_sub(self.bytes), span);
        (self.since, self.bytes) = (now, bytes);
        true
    }
}

/// Progress on the terminal or in lines.
#[derive(Debug)]
struct Progress {
    /// Time of the last line.
    painted: Instant,
    rate: Rate,
    /// Largest rate of a second, bytes per second.
    peak: u64,
    /// The requested limit on the rate, bytes per second; 0 for no limit.
    most: u64,
    /// What took the most time in the last second.
    limit: Limit,
    /// Where the time went since `limit` was found, and in the whole copy.
    recent: Times,
    times: Times,
    /// Files being copied, by their numbers.
    under_way: BTreeMap<usize, Moving>,
    /// Number of the file that is shown.
    shown: Option<usize>,
    /// The file that has just ended, until its result is known.
    leaving: Option<Moving>,
    /// At least one line was written to a standard output that is no terminal.
    told: bool,
}

impl Progress {
    fn new(now: Instant) -> Self {
        Self {
            painted: now,
            rate: Rate::new(now),
            peak: 0,
            most: 0,
            limit: Limit::Unknown,
            recent: Times::default(),
            times: Times::default(),
            under_way: BTreeMap::new(),
            shown: None,
            leaving: None,
            told: false,
        }
    }
}

/// Totals of a copy.
#[derive(Debug, Default)]
struct Counts {
    bytes: u64,
    files: u64,
    /// Files and directories that failed.
    failed: u64,
}

/// Reports a copy to its user: errors, progress, and the results as JSON.
#[derive(Debug)]
pub(crate) struct Console {
    /// Text before each error.
    prefix: &'static str,
    /// The errors, for a caller that reports them itself; otherwise they go to standard error.
    kept: Option<Vec<String>>,
    show: Show,
    json: bool,
    /// The results of single files are kept.
    remembers: bool,
    /// The word before the name of each directory that a copy enters; empty for no such lines.
    entering: &'static str,
    started: Instant,
    progress: Progress,
    counts: Counts,
    results: Vec<FileResult>,
    /// Sources of failed files, at most [`MAX_NAMED`].
    failed_from: Vec<Vec<u8>>,
}

impl Console {
    pub(crate) fn new(prefix: &'static str, show: Show, json: bool) -> Self {
        let now = Instant::now();
        // JSON is the only output for a program.
        let show = match show {
            Show::Lines if json => Show::Nothing,
            show => show,
        };
        Self {
            prefix,
            kept: None,
            show,
            json,
            remembers: json,
            entering: "",
            started: now,
            progress: Progress::new(now),
            counts: Counts::default(),
            results: Vec::new(),
            failed_from: Vec::new(),
        }
    }

    /// A console that shows nothing and keeps the errors for [`Console::take_errors`].
    pub(crate) fn keeping() -> Self {
        let mut console = Self::new("", Show::Nothing, false);
        console.kept = Some(Vec::new());
        console
    }

    /// The errors that were kept, in order.
    pub(crate) fn take_errors(&mut self) -> Vec<String> {
        self.kept.take().unwrap_or_default()
    }

    /// Number of bytes and files copied.
    pub(crate) fn copied(&self) -> (u64, u64) {
        (self.counts.bytes, self.counts.files)
    }

    /// How progress can be shown on standard output, if it is `wanted`.
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

    /// Names each directory that a copy enters on standard output, after this word, as OpenSSH's
    /// sftp does even where it is quiet.
    pub(crate) fn name_directories(&mut self, word: &'static str) {
        self.entering = word;
    }

    /// Sets the requested limit on the rate; 0 for no limit.
    pub(crate) fn limit_to(&mut self, bytes_per_second: u64) {
        self.progress.most = bytes_per_second;
    }

    /// Reports each source of which a file failed, as scp does at its end.
    pub(crate) fn failed_sources<'s>(
        &mut self,
        sources: impl Iterator<Item = &'s [u8]>,
        target: &[u8],
    ) {
        for source in sources {
            let failed = self.failed_from.iter().any(|from| from.starts_with(source));
            if failed {
                let kind = match std::path::Path::new(crate::scp::operand::os(source).as_os_str())
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

    /// Resets all counts.
    pub(crate) fn restart(&mut self) {
        let most = self.progress.most;
        *self = Self::new(self.prefix, self.show, self.json);
        self.progress.most = most;
    }

    /// Number of files and directories that failed.
    pub(crate) fn failed(&self) -> u64 {
        self.counts.failed
    }

    /// Reports an error of the program itself.
    pub(crate) fn error(&mut self, line: &str) {
        self.counts.failed += 1;
        self.say(line);
    }

    /// Reports why the program ends; after an interrupt it is the only line.
    pub(crate) fn last_error(&mut self, line: &str) {
        self.counts.failed += 1;
        if let Some(kept) = &mut self.kept {
            kept.push(line.to_owned());
            return;
        }
        self.close_line();
        eprintln!("{}{line}", self.prefix);
    }

    /// Counts a failure that has been reported already.
    pub(crate) fn count_failure(&mut self) {
        self.counts.failed += 1;
    }

    fn say(&mut self, line: &str) {
        if let Some(kept) = &mut self.kept {
            if kept.len() < MAX_KEPT {
                kept.push(line.to_owned());
            }
            return;
        }
        self.close_line();
        // Files that an interrupt ended have not failed.
        if is_interrupted() {
            return;
        }
        eprintln!("{}{line}", self.prefix);
    }

    /// Ends the line on the terminal, unless a message of the connection has ended it.
    fn close_line(&mut self) {
        if client::log::close_line() {
            println!();
        }
    }

    fn measure(&mut self, now: Instant) {
        if self.progress.rate.measure(self.counts.bytes, now) {
            self.progress.peak = self.progress.peak.max(self.progress.rate.per_second);
            self.progress.limit = std::mem::take(&mut self.progress.recent).limit();
        }
        for file in self.progress.under_way.values_mut() {
            file.rate.measure(file.moved, now);
        }
    }

    /// Returns true if the shown progress is due for an update.
    fn is_due(&self, now: Instant) -> bool {
        let every = match self.show {
            Show::Nothing => return false,
            Show::Line => REPAINT,
            Show::Lines => LINE_EVERY,
        };
        now.duration_since(self.progress.painted) >= every
    }

    /// Chooses the file to show: the one shown before as long as it moves, otherwise the one that has
    /// moved most.
    fn choose(&mut self) {
        let moved = |file: &Moving| file.moved - file.seen;
        let goes_on = |number| {
            self.progress
                .under_way
                .get(number)
                .is_some_and(|file| moved(file) > 0)
        };
        if !self.progress.shown.as_ref().is_some_and(goes_on) {
            let most = self
                .progress
                .under_way
                .iter()
                .max_by_key(|(_, file)| moved(file));
            let most = most.filter(|(_, file)| moved(file) > 0);
            let stays = self
                .progress
                .shown
                .filter(|number| self.progress.under_way.contains_key(number));
            let first = || self.progress.under_way.keys().next().copied();
            self.progress.shown = most.map(|(number, _)| *number).or(stays).or_else(first);
        }
        for file in self.progress.under_way.values_mut() {
            file.seen = file.moved;
        }
    }

    /// The name of a file, and its progress.
    fn standing(&self, file: &Moving, now: Instant, last: bool) -> (String, String) {
        let done = file.done;
        let share = match file.size {
            Some(0) | None => 100,
            Some(size) => (u128::from(done) * 100 / u128::from(size)).min(100),
        };
        let most = if self.progress.most == 0 {
            u64::MAX
        } else {
            self.progress.most
        };
        let spent = now.duration_since(file.started);
        let (rate, time) = match last {
            true => (per_second(file.moved, spent), units::clock(spent.as_secs())),
            false => {
                let left = file.size.unwrap_or(done).saturating_sub(done);
                let rate = match file.rate.since == file.started {
                    // The file is younger than a second.
                    true => per_second(file.moved, spent),
                    false => file.rate.per_second,
                };
                let eta = match rate {
                    0 => "--:--".to_owned(),
                    rate => units::clock(left / rate),
                };
                (rate, format!("{eta} ETA{}", words(self.progress.limit)))
            }
        };
        let tail = format!(
            "{share:>3}% {:>6} {:>8}/s   {time}",
            units::bytes(done),
            units::bytes(rate.min(most))
        );
        (text::name(&file.name), tail)
    }

    /// Shows the progress of the chosen file.
    fn paint(&mut self) {
        let now = Instant::now();
        self.choose();
        let file = self
            .progress
            .shown
            .and_then(|number| self.progress.under_way.get(&number));
        let Some(file) = file else { return };
        let (name, tail) = self.standing(file, now, false);
        self.progress.painted = now;
        if self.show == Show::Lines {
            println!("{name} {tail}");
            self.progress.told = true;
            if let Some(file) = self
                .progress
                .shown
                .and_then(|number| self.progress.under_way.get_mut(&number))
            {
                file.told = true;
            }
            return;
        }
        line(&name, &tail, "");
        client::log::open_line();
    }

    /// Shows the end of a file.
    fn paint_last(&mut self, file: &Moving) {
        let (name, tail) = self.standing(file, Instant::now(), true);
        match self.show {
            // A file without a line needs no last line.
            Show::Lines if file.told => println!("{name} {tail}"),
            Show::Line => {
                client::log::close_line();
                line(&name, &tail, "\n");
            }
            Show::Lines | Show::Nothing => {}
        }
    }

    /// Writes the total if more than one file was copied, and JSON if requested.
    pub(crate) fn finish(&mut self) {
        self.close_line();
        let spent = self.started.elapsed();
        let rate = per_second(self.counts.bytes, spent);
        let total = (self.show == Show::Line || self.progress.told) && !is_interrupted();
        if total && self.counts.files > 1 {
            let peak = self.progress.peak.max(rate);
            println!(
                "total: {} files, {} in {}, {}/s (peak {}/s){}",
                self.counts.files,
                units::bytes(self.counts.bytes),
                units::clock(spent.as_secs()),
                units::bytes(rate),
                units::bytes(peak),
                words(self.progress.times.limit())
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
        let limits = self.progress.times.each().into_iter();
        let limits = limits.map(|(limit, time)| (name(limit), Json::Number(time.as_secs_f64())));
        Json::object(vec![
            ("ok", Json::Bool(self.counts.failed == 0)),
            ("files", Json::Number(self.counts.files as f64)),
            ("failed", Json::Number(self.counts.failed as f64)),
            ("bytes", Json::Number(self.counts.bytes as f64)),
            ("seconds", Json::Number(spent.as_secs_f64())),
            (
                "peak_bytes_per_second",
                Json::Number(self.progress.peak.max(rate) as f64),
            ),
            ("limited_by", Json::text(name(self.progress.times.limit()))),
            ("limits", Json::object(limits.collect())),
            (
                "results",
                Json::List(self.results.iter().map(file).collect()),
            ),
        ])
    }

    /// Results of the files without errors, for verification.
    pub(crate) fn good(&self) -> impl Iterator<Item = &FileResult> {
        self.results.iter().filter(|result| result.error.is_none())
    }

    /// Keeps the results of single files from now on.
    pub(crate) fn remember(&mut self) {
        self.remembers = true;
    }

    /// Records how the files without errors were verified.
    pub(crate) fn verified(&mut self, how: &'static str) {
        for result in &mut self.results {
            if result.error.is_none() {
                result.verified = Some(how);
            }
        }
    }
}

fn is_interrupted() -> bool {
    sys::signals::interrupts() > 0 || sys::signals::noted()
}

/// Name of a limit in JSON.
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

/// Text about a limit at the end of a line.
fn words(limit: Limit) -> &'static str {
    match limit {
        Limit::Unknown => "",
        Limit::Source => "  limited by source disk",
        Limit::Target => "  limited by target disk",
        Limit::Cpu => "  limited by CPU",
        Limit::Network => "  limited by network",
        Limit::Peer => "  limited by peer",
        Limit::NetworkOrPeer => "  limited by network or peer",
        Limit::Asked => "  limited by the given rate",
    }
}

fn per_second(bytes: u64, span: Duration) -> u64 {
    let nanoseconds = span.as_nanos().max(1);
    u64::try_from(u128::from(bytes) * 1_000_000_000 / nanoseconds).unwrap_or(u64::MAX)
}

/// Writes a line over the previous one.
fn line(name: &str, tail: &str, end: &str) {
    let width =
        sys::terminal::window_size(sys::io::stdout()).map_or(80, |size| usize::from(size.columns));
    let room = width.saturating_sub(tail.chars().count() + 2).max(10);
    let shown: String = name.chars().take(room).collect();
    let line = format!("\r{shown:<room$} {tail}");
    let line: String = line.chars().take(width).collect();
    let mut out = std::io::stdout().lock();
    // If the terminal is gone, SIGHUP ends the process.
    let _ = write!(out, "{line}\x1b[K{end}");
    let _ = out.flush();
}

impl Report for Console {
    fn begins(&mut self, file: usize, name: &[u8], size: Option<u64>) {
        if self.show == Show::Nothing {
            return;
        }
        let now = Instant::now();
        let moving = Moving {
            name: transfer::plan::base_name(name).to_vec(),
            size,
            started: now,
            done: 0,
            moved: 0,
            seen: 0,
            rate: Rate::new(now),
            told: false,
        };
        self.progress.under_way.insert(file, moving);
    }

    fn moved(&mut self, file: usize, bytes: u64) {
        self.counts.bytes += bytes;
        if let Some(file) = self.progress.under_way.get_mut(&file) {
            file.moved += bytes;
            file.done += bytes;
        }
    }

    fn skipped(&mut self, file: usize, bytes: u64) {
        if let Some(file) = self.progress.under_way.get_mut(&file) {
            file.done += bytes;
        }
    }

    fn leaves(&mut self, file: usize) {
        self.progress.leaving = self.progress.under_way.remove(&file);
    }

    fn ends(&mut self, result: &FileResult) {
        self.counts.files += 1;
        let leaving = self.progress.leaving.take();
        if let Some(error) = &result.error {
            self.counts.failed += 1;
            self.say(error);
            if self.failed_from.len() < MAX_NAMED {
                self.failed_from.push(result.from.clone());
            }
        } else if let Some(mut file) = leaving {
            file.done = result.bytes + result.resumed_bytes;
            file.size = Some(file.done);
            self.paint_last(&file);
        }
        if self.remembers && self.results.len() < MAX_NAMED {
            self.results.push(result.clone());
        }
    }

    fn enters(&mut self, path: &[u8]) {
        if !self.entering.is_empty() {
            self.close_line();
            println!("{} {}", self.entering, text::name(path));
        }
    }

    fn fails(&mut self, line: &str) {
        self.counts.failed += 1;
        self.say(line);
    }

    fn says(&mut self, line: &str) {
        self.say(line);
    }

    fn tick(&mut self, times: &Times) {
        self.progress.times += *times;
        self.progress.recent += *times;
        let now = Instant::now();
        self.measure(now);
        if self.is_due(now) {
            self.paint();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_terminal_a_line_comes_now_and_then_and_says_how_far_it_is() {
        let mut console = Console::new("", Show::Lines, false);
        console.begins(7, b"/a/file", Some(4000));
        console.moved(7, 1000);
        let begun = console.progress.painted;
        assert!(!console.is_due(begun + LINE_EVERY / 2));
        let later = begun + LINE_EVERY;
        assert!(console.is_due(later));
        console.progress.recent.asked = LINE_EVERY;
        console.measure(later);
        assert_eq!(console.progress.recent, Times::default());
        let (name, tail) = console.standing(&console.progress.under_way[&7], later, false);
        assert_eq!(name, "file");
        assert!(tail.contains(" 25%") && tail.contains("ETA"), "{tail}");
        assert!(tail.ends_with("limited by the given rate"), "{tail}");
        for (show, json) in [(Show::Nothing, false), (Show::Lines, true)] {
            assert!(!Console::new("", show, json).is_due(later), "{show:?}");
        }
    }

    #[test]
    fn the_file_that_moves_is_shown_with_its_own_rate() {
        let mut console = Console::new("", Show::Line, false);
        let begun = Instant::now();
        for (number, name) in [b"small", b"large", b"other"].iter().enumerate() {
            console.begins(number, *name, Some(100 << 20));
        }
        console.choose();
        assert_eq!(console.progress.shown, Some(0));
        console.moved(1, 50 << 20);
        console.skipped(1, 25 << 20);
        console.moved(2, 10 << 20);
        console.choose();
        assert_eq!(console.progress.shown, Some(1));
        let second = begun + Duration::from_millis(1001);
        console.measure(second);
        let (name, tail) = console.standing(&console.progress.under_way[&1], second, false);
        assert_eq!(name, "large");
        assert!(tail.contains(" 75%") && tail.contains("50.0MB/s"), "{tail}");
        // It stays as long as it moves at all.
        console.moved(1, 1);
        console.moved(2, 10 << 20);
        console.choose();
        assert_eq!(console.progress.shown, Some(1));
        console.moved(2, 10 << 20);
        console.choose();
        assert_eq!(console.progress.shown, Some(2));
        // Bytes that were present already do not count as speed, and the limit on the rate holds.
        console.limit_to(40 << 20);
        let end = begun + Duration::from_millis(1001);
        let (_, tail) = console.standing(&console.progress.under_way[&1], end, true);
        assert!(tail.contains("40.0MB/s"), "{tail}");
        console.leaves(2);
        console.choose();
        assert_ne!(console.progress.shown, Some(2));
    }
}
