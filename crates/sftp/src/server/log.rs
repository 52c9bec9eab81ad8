//! Log lines for the administrator: OpenSSH's lines at OpenSSH's levels.

use escape::LogLevel;

/// A destination of log lines.
pub trait Log: Send {
    /// Returns true if lines of this level are logged; otherwise the caller need not format them.
    fn wants(&self, level: LogLevel) -> bool;

    /// Writes a line, if its level is logged. Names from the client in it are escaped by [`shown`]
    /// already.
    fn line(&self, level: LogLevel, text: &str);
}

/// Escapes a name from the client as printable ASCII on one line, for use between double quotes.
#[must_use]
pub fn shown(name: &[u8]) -> String {
    escape::escape(name, escape::Style::Quoted)
}
