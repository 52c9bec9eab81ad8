//! The program under test: a connection in memory, or a real program at the other end of a socket.

mod memory;
mod tcp;

pub use memory::{Memory, PASSWORD};
pub use tcp::Tcp;

/// The other end.
pub trait Subject {
    /// Sends bytes to it; false if it is gone.
    fn deliver(&mut self, bytes: &[u8]) -> bool;
    /// Received bytes. `None` if it is gone or, in memory, has nothing to send.
    fn collect(&mut self) -> Option<Vec<u8>>;
    /// True if it has ended the connection.
    fn has_ended(&mut self) -> bool;
    /// For messages of failed tests.
    fn state(&self) -> String {
        String::new()
    }
}
