//! What the server says to the administrator: OpenSSH's lines at OpenSSH's levels.

/// How much an administrator wants to hear, as LogLevel in sshd_config(5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing.
    Quiet,
    /// What ends the server.
    Fatal,
    /// What went wrong.
    Error,
    /// Which files were touched.
    Info,
    /// What was asked and refused besides.
    Verbose,
    /// Every request.
    Debug1,
    /// More than that.
    Debug2,
    /// Everything.
    Debug3,
}

impl Level {
    /// The level of a name (any case).
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

/// Where lines go.
pub trait Log: Send {
    /// Lines of this level are wanted: making one may be saved otherwise.
    fn wants(&self, level: Level) -> bool;

    /// Writes a line, if its level is wanted. Foreign names in it are [`shown`] already.
    fn line(&self, level: Level, text: &str);
}

/// A foreign name as one line of printable ASCII that can stand between double quotes.
#[must_use]
pub fn shown(name: &[u8]) -> String {
    escape::escape(name, escape::Style::Quoted)
}
