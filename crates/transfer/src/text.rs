//! Error texts of the system, and text from a peer on one line, escaped by the crate `escape`.

pub use ::escape::one_line;

/// Escapes a file name for one line, as [`one_line`].
#[must_use]
pub fn name(bytes: &[u8]) -> String {
    one_line(bytes)
}

/// The system's text for an error, without the error number that Rust appends.
#[must_use]
pub fn reason(error: &std::io::Error) -> String {
    ::escape::system_words(&error.to_string()).into_owned()
}
