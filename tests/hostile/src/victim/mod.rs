//! Who is lied to: a connection in memory, or a socket with a real program behind it.

mod memory;
mod tcp;

pub use memory::{Memory, PASSWORD};
pub use tcp::Tcp;

/// The other end.
pub trait Victim {
    /// Hands it bytes; false when it is gone.
    fn deliver(&mut self, bytes: &[u8]) -> bool;
    /// What it sent. `None` when it is gone, or in memory, when it has nothing to say.
    fn collect(&mut self) -> Option<Vec<u8>>;
    /// It has ended the connection.
    fn has_ended(&mut self) -> bool;
    /// For messages of failed tests.
    fn state(&self) -> String {
        String::new()
    }
}
