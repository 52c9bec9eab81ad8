//! Words of the system, and foreign text on one line by the rules of the crate `escape`.

pub use ::escape::one_line;

/// A name as one line: [`one_line`] for bytes.
#[must_use]
pub fn name(bytes: &[u8]) -> String {
    one_line(bytes)
}

/// The system's words for an error, without the number that Rust adds.
#[must_use]
pub fn reason(error: &std::io::Error) -> String {
    ::escape::system_words(&error.to_string()).into_owned()
}
