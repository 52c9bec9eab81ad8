//! The output of all hosts: who may write when, and in which form.
//!
//! Memory is bounded. A host's output is held up to [`HELD_BYTES`]; what exceeds that needs the floor
//! (grouped), leaves as a line of its own (JSON) or has left already (prefixed, files). One host at a
//! time has the floor and writes as its output comes; another that is full takes no more until the
//! floor is free, so that its window closes and its command waits, which its time limit does not count. One that
//! has ended waits for the floor with its thread, so that no more hosts hold output than are at work at once.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use copy::json::Json;
use escape::{Style, escape, one_line};
use proto::Stream;
use sys::epoll::EventFd;

use crate::options::OutputForm;
use crate::outcome::HostOutcome;

/// Bytes of a host that are held until it ends; also the longest line of the prefixed form, which is
/// broken there.
const HELD_BYTES: usize = 64 << 10;
/// Most messages of one connection in JSON.
const MAX_MESSAGES: usize = 100;
/// Erases the line of the progress.
const ERASE: &str = "\r\x1b[K";

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The host that has the floor (see the head of this module), and those that wait for it.
#[derive(Debug, Default)]
struct Floor {
    owner: Option<usize>,
    waiting: VecDeque<(usize, Arc<EventFd>)>,
    /// How long hosts at work have waited.
    waits: BTreeMap<usize, FloorWait>,
}

#[derive(Debug, Default)]
struct FloorWait {
    before: Duration,
    /// Since when the host waits now.
    since: Option<Instant>,
}

impl FloorWait {
    fn total(&self) -> Duration {
        let now = self.since.map(|since| since.elapsed());
        self.before + now.unwrap_or_default()
    }
}

/// The output of the run.
#[derive(Debug)]
pub(crate) struct RunOutput {
    form: OutputForm,
    quiet: bool,
    /// Whether standard output and standard error are terminals.
    terminals: [bool; 2],
    floor: Mutex<Floor>,
    freed: Condvar,
    /// Held while something is written; true while the line of the progress is on the terminal.
    screen: Mutex<bool>,
    /// True once a write to standard output failed.
    is_broken: AtomicBool,
    /// Hosts whose last line was written, in the form of JSON.
    reported: Mutex<HashSet<usize>>,
}

impl RunOutput {
    /// The output of a run.
    ///
    /// # Errors
    /// Why there is no directory for the files.
    pub(crate) fn new(form: OutputForm, quiet: bool) -> Result<Self, String> {
        if let OutputForm::Files(directory) = &form {
            std::fs::create_dir_all(directory).map_err(|error| {
                let reason = error.to_string();
                let reason = escape::system_words(&reason).into_owned();
                format!(
                    "{}: {reason}",
                    escape::one_line(directory.as_os_str().as_encoded_bytes())
                )
            })?;
        }
        Ok(Self {
            form,
            quiet,
            terminals: [sys::io::stdout(), sys::io::stderr()].map(sys::io::is_terminal),
            floor: Mutex::default(),
            freed: Condvar::new(),
            screen: Mutex::new(false),
            is_broken: AtomicBool::new(false),
            reported: Mutex::default(),
        })
    }

    /// True if the output is for a program that reads JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.form == OutputForm::Json
    }

    /// True if the progress can be shown.
    pub(crate) fn shows_progress(&self) -> bool {
        let [_, errors] = self.terminals;
        errors && !self.quiet
    }

    /// True if nobody reads standard output any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// Shows a line that the next output erases.
    pub(crate) fn progress(&self, line: &str) {
        // Not while a question is open.
        let Ok(mut is_shown) = self.screen.try_lock() else {
            return;
        };
        let _ = sys::io::write_all(sys::io::stderr(), format!("{ERASE}{line}").as_bytes());
        *is_shown = true;
    }

    /// Erases the progress and keeps everything else from the screen while the guard lives.
    pub(crate) fn hold_screen(&self) -> MutexGuard<'_, bool> {
        let mut is_shown = locked(&self.screen);
        if std::mem::take(&mut *is_shown) {
            let _ = sys::io::write_all(sys::io::stderr(), ERASE.as_bytes());
        }
        is_shown
    }

    fn write(&self, stream: Stream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let _screen = self.hold_screen();
        let written = match stream {
            Stream::Data => sys::io::write_all(sys::io::stdout(), bytes),
            Stream::Stderr => sys::io::write_all(sys::io::stderr(), bytes),
        };
        // Nobody can be told of a standard error that is gone.
        if written.is_err() && stream == Stream::Data {
            self.is_broken.store(true, Ordering::Relaxed);
        }
    }

    /// In the form of JSON, writes the last line of a host that has none: it did not start, or its thread
    /// has not returned.
    pub(crate) fn report_missing(&self, host: usize, name: &str, cause: &str) {
        if !self.is_json() || !locked(&self.reported).insert(host) {
            return;
        }
        let line = Json::object(vec![
            ("host", Json::text(one_line(name))),
            ("exit", Json::Number(f64::NAN)),
            ("error", Json::text(cause)),
        ]);
        self.write(Stream::Data, (line.render() + "\n").as_bytes());
    }

    /// Writes a message of this program to standard error.
    pub(crate) fn message(&self, text: &str) {
        self.write(Stream::Stderr, format!("{text}\n").as_bytes());
    }

    /// Takes the floor, if it is free; otherwise `waker` is signalled when the floor becomes free.
    fn take_floor(&self, host: usize, waker: &Arc<EventFd>) -> bool {
        let mut floor = locked(&self.floor);
        if floor.owner.is_some_and(|owner| owner != host) {
            if floor.waiting.iter().all(|(waiting, _)| *waiting != host) {
                floor.waiting.push_back((host, Arc::clone(waker)));
            }
            let wait = floor.waits.entry(host).or_default();
            wait.since.get_or_insert_with(Instant::now);
            return false;
        }
        floor.owner = Some(host);
        if let Some(wait) = floor.waits.get_mut(&host) {
            wait.before = wait.total();
            wait.since = None;
        }
        true
    }

    /// How long a host at work has waited for the floor.
    pub(crate) fn waited(&self, host: usize) -> Duration {
        let floor = locked(&self.floor);
        let wait = floor.waits.get(&host);
        wait.map_or(Duration::ZERO, FloorWait::total)
    }

    /// Waits for the floor. Who has it ends: its command, by its time limit or with the run.
    fn await_floor(&self, host: usize) {
        let mut floor = locked(&self.floor);
        while floor.owner.is_some_and(|owner| owner != host) {
            let waited = self.freed.wait(floor);
            floor = waited.unwrap_or_else(PoisonError::into_inner);
        }
        floor.owner = Some(host);
    }

    fn leave_floor(&self, host: usize) {
        let mut floor = locked(&self.floor);
        floor.waiting.retain(|(waiting, _)| *waiting != host);
        floor.waits.remove(&host);
        if floor.owner != Some(host) {
            return;
        }
        floor.owner = None;
        if let Some((_, waker)) = floor.waiting.pop_front() {
            let _ = waker.signal();
        }
        drop(floor);
        self.freed.notify_all();
    }
}

/// The files of one host.
#[derive(Debug)]
struct HostFiles {
    stem: PathBuf,
    output: File,
    /// Created when the first byte arrives.
    errors: Option<File>,
}

impl HostFiles {
    fn create(directory: &Path, name: &str) -> io::Result<Self> {
        let stem = directory.join(name.replace('/', "_"));
        Ok(Self {
            output: File::create(with_suffix(&stem, "out"))?,
            errors: None,
            stem,
        })
    }

    fn write(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        if stream == Stream::Data {
            return self.output.write_all(bytes);
        }
        let errors = match self.errors.take() {
            Some(file) => file,
            None => File::create(with_suffix(&self.stem, "err"))?,
        };
        self.errors.insert(errors).write_all(bytes)
    }
}

fn with_suffix(stem: &Path, suffix: &str) -> PathBuf {
    let mut path = stem.as_os_str().to_owned();
    path.push(".");
    path.push(suffix);
    PathBuf::from(path)
}

/// The output of one host.
#[derive(Debug)]
pub(crate) struct HostOutput {
    all: Arc<RunOutput>,
    host: usize,
    /// Escaped for a terminal: it comes from a file or the command line.
    name: String,
    /// Wakes the host's connection.
    waker: Arc<EventFd>,
    /// Data that was received and has no room in the output yet.
    backlog: VecDeque<(Stream, Bytes)>,
    /// Grouped and JSON: the output so far, as long as it is held.
    held: Vec<(Stream, Vec<u8>)>,
    held_bytes: usize,
    /// Grouped: what was written is under this host's name, by stream.
    has_title: [bool; 2],
    /// The last byte written to each stream was a newline, or nothing was written.
    is_at_start: [bool; 2],
    has_floor: bool,
    /// By stream, what waits for what follows it: the beginning of the next line (prefixed), or of a character
    /// (grouped, on a terminal).
    partial: [Vec<u8>; 2],
    /// JSON: messages of the connection.
    messages: Vec<String>,
    /// The last message of the connection.
    last_message: Option<String>,
    files: Option<HostFiles>,
    /// Why the output is not complete.
    failure: Option<String>,
}

fn index(stream: Stream) -> usize {
    match stream {
        Stream::Data => 0,
        Stream::Stderr => 1,
    }
}

const STREAMS: [Stream; 2] = [Stream::Data, Stream::Stderr];

impl HostOutput {
    pub(crate) fn new(all: Arc<RunOutput>, host: usize, name: &str, waker: Arc<EventFd>) -> Self {
        Self {
            all,
            host,
            name: one_line(name),
            waker,
            backlog: VecDeque::new(),
            held: Vec::new(),
            held_bytes: 0,
            has_title: [false; 2],
            is_at_start: [true; 2],
            has_floor: false,
            partial: Default::default(),
            messages: Vec::new(),
            last_message: None,
            files: None,
            failure: None,
        }
    }

    /// Creates the files, if the output goes there.
    pub(crate) fn open(&mut self, name: &str) {
        if let OutputForm::Files(directory) = &self.all.form {
            match HostFiles::create(directory, name) {
                Ok(created) => self.files = Some(created),
                Err(error) => self.failure = Some(lost(&error)),
            }
        }
    }

    /// Why the output of the host cannot be kept; the host then fails.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// The last message of the connection.
    pub(crate) fn last_message(&self) -> Option<&str> {
        self.last_message.as_deref()
    }

    /// A message about the host's connection, of one or more lines.
    pub(crate) fn message(&mut self, text: &str) {
        self.last_message = Some(text.to_owned());
        if self.all.is_json() {
            if self.messages.len() < MAX_MESSAGES {
                self.messages.push(text.to_owned());
            }
            return;
        }
        if self.all.quiet {
            return;
        }
        let lines: Vec<String> = text
            .lines()
            .map(|line| format!("{}: {line}", self.name))
            .collect();
        self.all.message(&lines.join("\n"));
    }

    /// Receives data of the host.
    pub(crate) fn receive(&mut self, stream: Stream, data: Bytes) {
        self.backlog.push_back((stream, data));
    }

    /// Takes over what was received, as far as there is room; returns the number of bytes.
    pub(crate) fn take_over(&mut self) -> usize {
        let mut taken = 0;
        while let Some((stream, data)) = self.backlog.pop_front() {
            if !self.takes(stream, &data) {
                self.backlog.push_front((stream, data));
                break;
            }
            taken += data.len();
        }
        taken
    }

    /// Takes over one piece; false if there is no room.
    fn takes(&mut self, stream: Stream, data: &Bytes) -> bool {
        match &self.all.form {
            OutputForm::Grouped => return self.takes_grouped(stream, data),
            OutputForm::Prefixed => self.lines(stream, data),
            OutputForm::Json => {
                if self.held_bytes > 0 && self.held_bytes + data.len() > HELD_BYTES {
                    self.write_part();
                }
                self.hold(stream, data);
            }
            OutputForm::Files(_) => {
                let files = self.files.as_mut();
                let written = files.map_or(Ok(()), |files| files.write(stream, data));
                if let Err(error) = written {
                    self.failure.get_or_insert(lost(&error));
                }
            }
        }
        true
    }

    fn hold(&mut self, stream: Stream, data: &[u8]) {
        self.held_bytes += data.len();
        match self.held.last_mut() {
            Some((last, held)) if *last == stream => held.extend_from_slice(data),
            _ => self.held.push((stream, data.to_vec())),
        }
    }

    fn takes_grouped(&mut self, stream: Stream, data: &[u8]) -> bool {
        if !self.has_floor && self.held_bytes + data.len() <= HELD_BYTES {
            self.hold(stream, data);
            return true;
        }
        if !self.has_floor && !self.all.take_floor(self.host, &self.waker) {
            return false;
        }
        self.has_floor = true;
        self.write_held("");
        self.write_under_title(stream, data, "");
        true
    }

    /// Writes what is held; `end` is how the host ended, for its title.
    fn write_held(&mut self, end: &str) {
        self.held_bytes = 0;
        for (stream, held) in std::mem::take(&mut self.held) {
            self.write_under_title(stream, &held, end);
        }
    }

    fn write_under_title(&mut self, stream: Stream, data: &[u8], end: &str) {
        let Some(last) = data.last() else { return };
        let at = index(stream);
        let has_title = self.has_title.get_mut(at);
        if has_title.is_some_and(|has_title| !std::mem::replace(has_title, true)) {
            let mark = if stream == Stream::Stderr {
                " (stderr)"
            } else {
                ""
            };
            let title = format!("==> {}{mark}{end} <==\n", self.name);
            self.all.write(stream, title.as_bytes());
        }
        let shown = match self.all.terminals.get(at) {
            Some(true) => Cow::Owned(self.escaped(at, data).into_bytes()),
            _ => Cow::Borrowed(data),
        };
        self.all.write(stream, &shown);
        if let Some(is_at_start) = self.is_at_start.get_mut(at) {
            *is_at_start = *last == b'\n';
        }
    }

    /// The data as text for a terminal. What the next data may complete is kept.
    fn escaped(&mut self, at: usize, data: &[u8]) -> String {
        let mut text = Vec::new();
        if let Some(partial) = self.partial.get_mut(at) {
            text = std::mem::take(partial);
            text.extend_from_slice(data);
            *partial = text.split_off(text.len() - unfinished(&text));
        }
        escape(text, Style::Lines)
    }

    /// Ends the block of a stream: what is kept is written, and the last line ends.
    fn end_block(&mut self, stream: Stream) {
        let at = index(stream);
        let partial = self.partial.get_mut(at).map(std::mem::take);
        let mut rest = escape(partial.unwrap_or_default(), Style::Lines);
        if self.is_at_start.get(at) == Some(&false) {
            rest.push('\n');
        }
        self.all.write(stream, rest.as_bytes());
    }

    // ---- prefixed ---------------------------------------------------------------------------

    /// Writes the whole lines that `data` completes.
    fn lines(&mut self, stream: Stream, data: &[u8]) {
        let at = index(stream);
        let mut out = Vec::new();
        for piece in data.split_inclusive(|byte| *byte == b'\n') {
            let Some(partial) = self.partial.get_mut(at) else {
                return;
            };
            let mut rest = piece;
            // A line that is too long is broken.
            while partial.len() + rest.len() > HELD_BYTES + 1 {
                let (now, later) =
                    rest.split_at(HELD_BYTES.saturating_sub(partial.len()).min(rest.len()));
                partial.extend_from_slice(now);
                let line = std::mem::take(partial);
                self.all.prefixed(&self.name, at, &line, &mut out);
                rest = later;
            }
            partial.extend_from_slice(rest);
            if partial.last() == Some(&b'\n') {
                partial.pop();
                let line = std::mem::take(partial);
                self.all.prefixed(&self.name, at, &line, &mut out);
            }
        }
        self.all.write(stream, &out);
    }

    fn last_lines(&mut self) {
        for stream in STREAMS {
            let at = index(stream);
            let partial = self.partial.get_mut(at).map(std::mem::take);
            if let Some(line) = partial.filter(|line| !line.is_empty()) {
                let mut out = Vec::new();
                self.all.prefixed(&self.name, at, &line, &mut out);
                self.all.write(stream, &out);
            }
        }
    }

    // ---- JSON -------------------------------------------------------------------------------

    /// The held output as fields of a JSON line; `is_last` if no further line of the host follows.
    fn fields(&mut self, is_last: bool) -> Vec<(&'static str, Json)> {
        let mut fields = vec![("host", Json::text(self.name.clone()))];
        let held = std::mem::take(&mut self.held);
        self.held_bytes = 0;
        let names = [("stdout", "stdout_base64"), ("stderr", "stderr_base64")];
        for (stream, (plain, encoded)) in STREAMS.into_iter().zip(names) {
            let parts = held.iter().filter(|(from, _)| *from == stream);
            let bytes: Vec<u8> = parts.flat_map(|(_, bytes)| bytes.iter().copied()).collect();
            if bytes.is_empty() {
                continue;
            }
            match String::from_utf8(bytes) {
                Ok(text) => fields.push((plain, Json::text(text))),
                // A character may be cut where a part ends: its beginning waits for the next part.
                Err(error) => {
                    let (valid, is_cut) = (
                        error.utf8_error().valid_up_to(),
                        error.utf8_error().error_len().is_none(),
                    );
                    let mut bytes = error.into_bytes();
                    if is_cut && !is_last && valid > 0 {
                        self.hold(stream, &bytes.split_off(valid));
                        let text = String::from_utf8_lossy(&bytes).into_owned();
                        fields.push((plain, Json::text(text)));
                    } else {
                        fields.push((encoded, Json::text(keys::base64::encode(&bytes))));
                    }
                }
            }
        }
        fields
    }

    fn write_part(&mut self) {
        let mut fields = self.fields(false);
        fields.push(("more", Json::Bool(true)));
        let line = Json::object(fields).render() + "\n";
        self.all.write(Stream::Data, line.as_bytes());
    }

    fn write_last(&mut self, outcome: &HostOutcome, seconds: f64) {
        if !locked(&self.all.reported).insert(self.host) {
            return;
        }
        let mut fields = self.fields(true);
        let status = outcome.status.map(f64::from);
        fields.push(("exit", status.map_or(Json::Number(f64::NAN), Json::Number)));
        if let Some(cause) = outcome.cause.as_ref().filter(|_| outcome.status.is_none()) {
            fields.push(("error", Json::text(cause.clone())));
        }
        if !self.messages.is_empty() {
            let messages = std::mem::take(&mut self.messages);
            fields.push((
                "messages",
                Json::List(messages.into_iter().map(Json::text).collect()),
            ));
        }
        fields.push(("seconds", Json::Number((seconds * 1e3).round() / 1e3)));
        let line = Json::object(fields).render() + "\n";
        self.all.write(Stream::Data, line.as_bytes());
    }

    /// Ends the host's output: writes all that is held.
    pub(crate) fn finish(&mut self, outcome: &HostOutcome, seconds: f64) {
        let is_grouped = self.all.form == OutputForm::Grouped;
        if is_grouped && (self.has_floor || self.held_bytes > 0 || !self.backlog.is_empty()) {
            self.all.await_floor(self.host);
            self.has_floor = true;
            let end = match outcome.status {
                Some(status) if status != 0 => format!(": exit {status}"),
                _ => String::new(),
            };
            self.write_held(&end);
        }
        self.take_over();
        match &self.all.form {
            OutputForm::Grouped => STREAMS
                .into_iter()
                .for_each(|stream| self.end_block(stream)),
            OutputForm::Prefixed => self.last_lines(),
            OutputForm::Json => self.write_last(outcome, seconds),
            OutputForm::Files(_) => {}
        }
        self.all.leave_floor(self.host);
    }
}

impl RunOutput {
    /// Adds a line of a host to `out`. On a terminal, control characters are escaped: none may change
    /// another host's line.
    fn prefixed(&self, name: &str, stream: usize, line: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        match self.terminals.get(stream) {
            Some(true) => out.extend_from_slice(escape(line, Style::Lines).as_bytes()),
            _ => out.extend_from_slice(line),
        }
        out.push(b'\n');
    }
}

fn lost(error: &io::Error) -> String {
    let reason = error.to_string();
    format!("output not kept: {}", escape::system_words(&reason))
}

/// Number of bytes at the end of a text that what follows may complete: the beginning of a character in UTF-8, or a
/// carriage return, which is dropped before a newline.
fn unfinished(text: &[u8]) -> usize {
    /// The longest beginning of a character, bytes.
    const MAX_BEGINNING: usize = 3;
    let (_, tail) = text.split_at(text.len().saturating_sub(MAX_BEGINNING));
    if tail.last() == Some(&b'\r') {
        return 1;
    }
    let last = tail
        .utf8_chunks()
        .last()
        .map_or(&[][..], |chunk| chunk.invalid());
    let is_cut = std::str::from_utf8(last).is_err_and(|error| error.error_len().is_none());
    if is_cut { last.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_completed_waits() {
        for (text, count) in [
            (&b""[..], 0),
            (b"a\n", 0),
            (b"a\r", 1),
            (b"a\xc3", 1),
            ("aä".as_bytes(), 0),
            (b"\xf0\x9f\x98", 3),
            ("😀".as_bytes(), 0),
            (b"\xff", 0),
            (b"\xe2\xff", 0),
            (b"abc\xe2\x82", 2),
        ] {
            assert_eq!(unfinished(text), count, "{text:?}");
        }
    }
}
