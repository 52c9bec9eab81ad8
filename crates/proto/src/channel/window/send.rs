//! The sending side of one channel.
//!
//! OpenSSH's client permits 2 MiB whatever the path. Beside a download that it cannot take as fast as
//! we send it, all of that waits there, and the echo of a keystroke behind it: 4 ms at 500 MiB/s. So to
//! a near peer that grants again as soon as it has taken 96 KiB, no more is sent on a prompt channel
//! than keeps both programs at work. That the peer is near is asked of the kernel and seen in its
//! grants: a tunnel may lie behind a socket that ends on this machine.

use super::{MAX_DATA_BYTES_FULMAR, Path};
use crate::{Error, Millis};

/// A peer is near where data were granted again within this time once, milliseconds.
const NEAR_ANSWER_MS: Millis = 2;
/// Nothing was granted for so long, milliseconds: the peer may wait for more than it was sent, and
/// has all that it permits from then on.
const NO_ANSWER_MS: Millis = 100;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct SendWindow {
    open: u32,
    max_data: u32,
    /// Sent and not granted again.
    out: u32,
    prompt: Option<Prompt>,
}

/// How soon the peer of a prompt channel grants again.
#[derive(Debug, Default)]
struct Prompt {
    /// What is to be granted until the data have been that were sent last at this moment.
    sample: Option<(u32, Millis)>,
    /// The shortest time until a sample was granted, milliseconds.
    least_ms: Option<Millis>,
    /// When something was sent or granted last.
    moved: Millis,
    /// The peer granted nothing for a while although it had much: from then on it has all that it
    /// permits.
    gives_up: bool,
}

impl SendWindow {
    /// The peer's maximum packet is believed as far as our own buffers go: some name 2^32 - 1.
    pub(crate) fn new(open: u32, max_data: u32) -> Self {
        Self {
            open,
            max_data: max_data.min(MAX_DATA_BYTES_FULMAR),
            out: 0,
            prompt: None,
        }
    }

    /// From now on a near peer has no more to take than keeps it at work. For a peer that grants
    /// again each 96 KiB or sooner.
    pub(crate) fn set_prompt(&mut self) {
        self.prompt.get_or_insert_default();
    }

    /// WINDOW_ADJUST; says whether the window was closed before.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`] past 2^32 − 1 (RFC 4254 §5.2).
    pub(crate) fn adjust(&mut self, bytes: u32, now: Millis) -> Result<bool, Error> {
        let was_closed = self.open == 0;
        self.open = self
            .open
            .checked_add(bytes)
            .ok_or(Error::PeerMisbehaved("window grows past 2^32 - 1"))?;
        self.out = self.out.saturating_sub(bytes);
        if let Some(prompt) = &mut self.prompt {
            prompt.granted(bytes, now);
        }
        Ok(was_closed && bytes > 0)
    }

    /// What may be sent now to a peer that is so near ([`Path::near_us`]).
    fn allowed(&self, near_us: Option<u64>) -> u32 {
        self.open.min(self.limit(near_us).saturating_sub(self.out))
    }

    /// The most that is sent and not granted again.
    fn limit(&self, near_us: Option<u64>) -> u32 {
        self.prompt
            .as_ref()
            .filter(|prompt| prompt.holds())
            .and(near_us)
            .map_or(u32::MAX, Path::near_bytes)
    }

    /// Nothing may be sent before the peer permits it.
    pub(crate) fn is_shut(&self) -> bool {
        self.open == 0
    }

    /// Bytes that one message of at most `most` may carry now.
    pub(crate) fn space(&self, most: usize, near_us: Option<u64>) -> usize {
        usize::try_from(self.allowed(near_us)).map_or(0, |open| open.min(self.max_data(most)))
    }

    /// Bytes that messages of at most `most` may carry now where `bytes` are wanted, or a little
    /// more: whole messages as long as the window is open.
    pub(crate) fn room(&self, bytes: usize, most: usize, near_us: Option<u64>) -> usize {
        let whole = bytes.next_multiple_of(self.max_data(most).max(1));
        usize::try_from(self.allowed(near_us)).map_or(whole, |open| open.min(whole))
    }

    /// Longest data of a message, where we send at most `most`.
    pub(crate) fn max_data(&self, most: usize) -> usize {
        usize::try_from(self.max_data).map_or(most, |max_data| max_data.min(most))
    }

    /// Charges what is sent.
    pub(crate) fn charge(&mut self, len: usize, now: Millis) -> Result<(), Error> {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let open = self.open.checked_sub(len);
        self.open = open.ok_or(Error::Misuse("more data than the window allows"))?;
        self.out = self.out.saturating_add(len);
        if let Some(prompt) = &mut self.prompt {
            prompt.sample.get_or_insert((self.out, now));
            prompt.moved = now;
        }
        Ok(())
    }

    /// When [`SendWindow::handle_timeout`] wants to be called: no more is sent although the peer
    /// permits it, and that must have an end.
    pub(crate) fn deadline(&self, near_us: Option<u64>) -> Option<Millis> {
        let prompt = self.prompt.as_ref()?;
        let is_held = self.open > 0 && self.out >= self.limit(near_us);
        is_held.then_some(prompt.moved.saturating_add(NO_ANSWER_MS))
    }

    /// True where the peer may have more from now on.
    pub(crate) fn handle_timeout(&mut self, near_us: Option<u64>, now: Millis) -> bool {
        let is_due = self
            .deadline(near_us)
            .is_some_and(|deadline| deadline <= now);
        if is_due && let Some(prompt) = &mut self.prompt {
            prompt.gives_up = true;
        }
        is_due
    }
}

impl Prompt {
    fn holds(&self) -> bool {
        !self.gives_up && self.least_ms.is_some_and(|ms| ms <= NEAR_ANSWER_MS)
    }

    fn granted(&mut self, bytes: u32, now: Millis) {
        self.moved = now;
        self.sample = match self.sample {
            Some((left, since)) if left <= bytes => {
                let took_ms = now.saturating_sub(since);
                self.least_ms = Some(self.least_ms.map_or(took_ms, |least| least.min(took_ms)));
                None
            }
            Some((left, since)) => Some((left - bytes, since)),
            None => None,
        };
    }
}
