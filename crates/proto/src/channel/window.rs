//! Flow control, RFC 4254 §5.2: what the peer may still send, and when it is told that it may
//! send more. A WINDOW_ADJUST follows the sink, never the arrival.

use crate::Error;

/// Bytes that a peer may send on a new channel before we say more.
pub(crate) const INITIAL_WINDOW_BYTES: u32 = 2 * 1024 * 1024;
/// Longest data in one message that we accept, bytes.
pub(crate) const MAX_DATA_BYTES: u32 = 32 * 1024;
/// The same for a peer of our own kind, which reads packets of any size in place.
pub(crate) const MAX_DATA_BYTES_FULMAR: u32 = 64 * 1024;

/// The receiving side of one channel.
#[derive(Debug)]
pub(crate) struct ReceiveWindow {
    size: u32,
    open: u32,
    consumed: u32,
    max_data: u32,
}

impl ReceiveWindow {
    pub(crate) fn new(max_data: u32) -> Self {
        Self {
            size: INITIAL_WINDOW_BYTES,
            open: INITIAL_WINDOW_BYTES,
            consumed: 0,
            max_data,
        }
    }

    /// Data arrived.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`] when it is more than was granted, in one message or in all.
    pub(crate) fn take(&mut self, len: usize) -> Result<(), Error> {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        if len > self.max_data {
            return Err(Error::PeerMisbehaved(
                "channel data longer than the maximum packet",
            ));
        }
        self.open = self
            .open
            .checked_sub(len)
            .ok_or(Error::PeerMisbehaved("channel data beyond the window"))?;
        Ok(())
    }

    /// The sink took `len` bytes; gives the number to grant, if it is time: once per quarter of
    /// the window.
    pub(crate) fn consume(&mut self, len: usize) -> Option<u32> {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let pending = self.size - self.open;
        self.consumed = self.consumed.saturating_add(len).min(pending);
        if self.consumed < self.size / 4 {
            return None;
        }
        let grant = core::mem::take(&mut self.consumed);
        self.open += grant;
        Some(grant)
    }
}

/// The sending side of one channel.
#[derive(Debug)]
pub(crate) struct SendWindow {
    open: u32,
    max_data: u32,
}

impl SendWindow {
    /// The peer's maximum packet is believed as far as our own buffers go: some name 2^32 - 1.
    pub(crate) fn new(open: u32, max_data: u32) -> Self {
        Self {
            open,
            max_data: max_data.min(MAX_DATA_BYTES_FULMAR),
        }
    }

    /// WINDOW_ADJUST; says whether the window was closed before.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`] past 2^32 − 1 (RFC 4254 §5.2).
    pub(crate) fn adjust(&mut self, bytes: u32) -> Result<bool, Error> {
        let was_closed = self.open == 0;
        self.open = self
            .open
            .checked_add(bytes)
            .ok_or(Error::PeerMisbehaved("window grows past 2^32 - 1"))?;
        Ok(was_closed && bytes > 0)
    }

    /// Bytes that one message may carry now.
    pub(crate) fn space(&self) -> usize {
        usize::try_from(self.open.min(self.max_data)).unwrap_or(0)
    }

    pub(crate) fn max_data(&self) -> usize {
        usize::try_from(self.max_data).unwrap_or(0)
    }

    /// Charges what is sent.
    pub(crate) fn charge(&mut self, len: usize) -> Result<(), Error> {
        let open = u32::try_from(len)
            .ok()
            .and_then(|len| self.open.checked_sub(len));
        self.open = open.ok_or(Error::Misuse("more data than the window allows"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_granted_again_once_per_quarter_and_never_beyond_what_came() {
        let mut window = ReceiveWindow::new(MAX_DATA_BYTES);
        let quarter = INITIAL_WINDOW_BYTES as usize / 4;
        let mut granted = 0;
        for _ in 0..(quarter / 32_768) {
            window.take(32_768).unwrap();
            granted += window.consume(32_768).unwrap_or(0);
        }
        assert_eq!(granted as usize, quarter);
        assert_eq!(window.consume(1 << 20), None);
        assert_eq!(window.open, INITIAL_WINDOW_BYTES);
    }

    #[test]
    fn data_beyond_the_window_or_the_maximum_packet_is_refused() {
        let mut window = ReceiveWindow::new(MAX_DATA_BYTES);
        assert!(window.take(32_769).is_err());
        for _ in 0..64 {
            window.take(32_768).unwrap();
        }
        assert!(window.take(1).is_err());
    }

    #[test]
    fn an_adjust_that_overflows_is_refused() {
        let mut window = SendWindow::new(u32::MAX, 1);
        assert!(window.adjust(1).is_err());
        assert!(!SendWindow::new(0, 1).adjust(0).unwrap());
        assert!(SendWindow::new(0, 1).adjust(9).unwrap());
    }
}
