//! What a copy tells while it runs.

use std::ops::AddAssign;
use std::time::Duration;

/// What became of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileResult {
    /// Where it came from.
    pub from: Vec<u8>,
    /// Where it went.
    pub to: Vec<u8>,
    /// Bytes that were moved; less than the file's size where a part was there.
    pub bytes: u64,
    /// Bytes that were there already.
    pub resumed_bytes: u64,
    /// How the content was compared at the end, if it was.
    pub verified: Option<&'static str>,
    /// Why it failed: file, operation and cause. None when the other side holds our bytes.
    pub error: Option<String>,
}

/// What a copy waits for most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Limit {
    /// Not known yet.
    #[default]
    Unknown,
    /// Reading local files.
    Source,
    /// Writing local files.
    Target,
    /// The processor at this side: time on it, or until there was one.
    Cpu,
    /// The network takes no more.
    Network,
    /// The peer takes no more: its window is shut, its host's is, or as much as may be is in flight
    /// without an answer.
    Peer,
    /// Something is to come from the peer, and which of the two keeps it is not known.
    NetworkOrPeer,
    /// What was asked for (`--limit`).
    Asked,
}

/// Where the time of a copy went. Connections work beside the files: the sum may be more than the
/// time that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// See [`Limit::Source`].
    pub source: Duration,
    /// See [`Limit::Target`].
    pub target: Duration,
    /// See [`Limit::Cpu`]: of the thread that is busiest.
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
    /// Each with what it is the time of.
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

    /// What took the most of it.
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

/// Hears what a copy does. Names are foreign bytes: they are to be escaped.
///
/// Many files may be under way at once. Each has a number, which no other has meanwhile.
pub trait Report {
    /// A file begins.
    fn begins(&mut self, file: usize, name: &[u8], size: Option<u64>) {
        let _ = (file, name, size);
    }

    /// So many more bytes of a file are at the other end.
    fn moved(&mut self, file: usize, bytes: u64) {
        let _ = (file, bytes);
    }

    /// So many bytes of a file need not move: they are there already, or are a hole.
    fn skipped(&mut self, file: usize, bytes: u64) {
        let _ = (file, bytes);
    }

    /// A file that has begun is done, or failed; [`Report::ends`] follows.
    fn leaves(&mut self, file: usize) {
        let _ = file;
    }

    /// A file is done, or failed, perhaps before it could begin.
    fn ends(&mut self, result: &FileResult);

    /// A directory or something else failed; one line.
    fn fails(&mut self, line: &str);

    /// Something that is no failure; one line.
    fn says(&mut self, line: &str);

    /// Called now and then, several times a second while there is something to do: where the time
    /// since the last call went.
    fn tick(&mut self, times: &Times) {
        let _ = times;
    }
}
