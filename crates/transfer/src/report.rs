//! What a copy tells while it runs.

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

/// What a copy waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Limit {
    /// Not known yet.
    #[default]
    Unknown,
    /// The network or the peer takes no more.
    Peer,
    /// The answers of the server are waited for.
    Server,
    /// What was asked for (`--limit`).
    Asked,
    /// This side: reading, writing, or the processor.
    Here,
}

/// Hears what a copy does. Names are foreign bytes: they are to be escaped.
pub trait Report {
    /// A file begins.
    fn begins(&mut self, name: &[u8], size: Option<u64>) {
        let _ = (name, size);
    }

    /// So many more bytes are at the other end.
    fn moved(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// A file is done, or failed.
    fn ends(&mut self, result: &FileResult);

    /// A directory or something else failed; one line.
    fn fails(&mut self, line: &str);

    /// Something that is no failure; one line.
    fn says(&mut self, line: &str);

    /// Called in each turn.
    fn tick(&mut self, limit: Limit) {
        let _ = limit;
    }
}
