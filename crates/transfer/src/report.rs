//! Progress and results that a copy reports.

use std::ops::AddAssign;
use std::time::Duration;

/// Result of copying one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileResult {
    /// Path of the source.
    pub from: Vec<u8>,
    /// Path of the target.
    pub to: Vec<u8>,
    /// Number of bytes transferred; less than the file's size if a part of the target existed.
    pub bytes: u64,
    /// Number of bytes of the target that existed before and were kept.
    pub resumed_bytes: u64,
    /// How the content was compared after the copy; `None` if it was not.
    pub verified: Option<&'static str>,
    /// The error: file, operation and cause. `None` if the copy is complete.
    pub error: Option<String>,
}

/// What limits the speed of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Limit {
    /// Not known yet.
    #[default]
    Unknown,
    /// Reading local files.
    Source,
    /// Writing local files.
    Target,
    /// The local processor: time running on it or waiting for it.
    Cpu,
    /// The network accepts no more data.
    Network,
    /// The peer accepts no more data: its channel window or its TCP window is full, or the maximum
    /// number of unanswered bytes is in flight.
    Peer,
    /// Data from the peer is awaited, and it is unknown whether the network or the peer delays it.
    NetworkOrPeer,
    /// The rate that the user set (`--limit`).
    Asked,
}

/// Where the time of a copy went. Connections have their own threads, so the sum may exceed the
/// elapsed time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// See [`Limit::Source`].
    pub source: Duration,
    /// See [`Limit::Target`].
    pub target: Duration,
    /// See [`Limit::Cpu`]: the time of the busiest thread.
    pub cpu: Duration,
    /// See [`Limit::Network`].
    pub network: Duration,
    /// See [`Limit::Peer`].
    pub peer: Duration,
    /// See [`Limit::NetworkOrPeer`].
    pub network_or_peer: Duration,
    /// See [`Limit::Asked`].
    pub asked: Duration,
}

impl Times {
    /// Returns each time with its [`Limit`].
    #[must_use]
    pub fn each(&self) -> [(Limit, Duration); 7] {
        [
            (Limit::Source, self.source),
            (Limit::Target, self.target),
            (Limit::Cpu, self.cpu),
            (Limit::Network, self.network),
            (Limit::Peer, self.peer),
            (Limit::NetworkOrPeer, self.network_or_peer),
            (Limit::Asked, self.asked),
        ]
    }

    /// Returns the limit with the largest time.
    #[must_use]
    pub fn limit(&self) -> Limit {
        let each = self.each().into_iter();
        each.filter(|(_, time)| !time.is_zero())
            .max_by_key(|(_, time)| *time)
            .map_or(Limit::Unknown, |(limit, _)| limit)
    }
}

impl AddAssign for Times {
    fn add_assign(&mut self, more: Self) {
        self.source += more.source;
        self.target += more.target;
        self.cpu += more.cpu;
        self.network += more.network;
        self.peer += more.peer;
        self.network_or_peer += more.network_or_peer;
        self.asked += more.asked;
    }
}

/// Receives the progress of a copy. Names come from the peer or the file system unescaped; the
/// implementation must escape them.
///
/// Many files may be in progress at once. Each has a number, which is reused only after
/// [`Report::leaves`].
pub trait Report {
    /// The copy of a file begins.
    fn begins(&mut self, file: usize, name: &[u8], size: Option<u64>) {
        let _ = (file, name, size);
    }

    /// `bytes` more bytes of the file have reached the other end.
    fn moved(&mut self, file: usize, bytes: u64) {
        let _ = (file, bytes);
    }

    /// `bytes` bytes of the file need not be transferred: they exist at the other end or are a
    /// hole.
    fn skipped(&mut self, file: usize, bytes: u64) {
        let _ = (file, bytes);
    }

    /// A file that has begun is complete or has failed; [`Report::ends`] follows.
    fn leaves(&mut self, file: usize) {
        let _ = file;
    }

    /// A file is complete or has failed, possibly before it began.
    fn ends(&mut self, result: &FileResult);

    /// The copy of a directory's entries begins; `path` is the directory's at the source.
    fn enters(&mut self, path: &[u8]) {
        let _ = path;
    }

    /// The copy of a directory or another operation failed; `line` is one line.
    fn fails(&mut self, line: &str);

    /// A notice that is not an error; `line` is one line.
    fn says(&mut self, line: &str);

    /// Called several times a second while the copy is active, with the distribution of the time
    /// since the last call.
    fn tick(&mut self, times: &Times) {
        let _ = times;
    }
}
