//! Log lines for the administrator: OpenSSH's lines at OpenSSH's levels.

/// Log level, as LogLevel in sshd_config(5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing.
    Quiet,
    /// Errors that end the server.
    Fatal,
    /// Other errors.
    Error,
    /// The files that were accessed.
    Info,
    /// Other requests, and refused ones.
    Verbose,
    /// Every request.
    Debug1,
    /// More than that.
    Debug2,
    /// Everything.
    Debug3,
}

impl Level {
    /// Returns the level of a name, in any case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let known = [
            ("QUIET", Self::Quiet),
            ("FATAL", Self::Fatal),
            ("ERROR", Self::Error),
            ("INFO", Self::Info),
            ("VERBOSE", Self::Verbose),
            ("DEBUG", Self::Debug1),
            ("DEBUG1", Self::Debug1),
            ("DEBUG2", Self::Debug2),
            ("DEBUG3", Self::Debug3),
        ];
        let mut known = known.into_iter();
        known
            .find(|(text, _)| text.eq_ignore_ascii_case(name))
            .map(|(_, level)| level)
    }
}

/// A destination of log lines.
pub trait Log: Send {
    /// Returns true if lines of this level are logged; otherwise the caller need not format them.
    fn wants(&self, level: Level) -> bool;

    /// Writes a line, if its level is logged. Names from the client in it are escaped by [`shown`]
    /// already.
    fn line(&self, level: Level, text: &str);
}

/// Escapes a name from the client as printable ASCII on one line, for use between double quotes.
#[must_use]
pub fn shown(name: &[u8]) -> String {
    escape::escape(name, escape::Style::Quoted)
}
