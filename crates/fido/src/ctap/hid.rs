//! Tokens as HID devices: finding them, and messages in reports of 64 bytes (CTAP 2.1 §11.2).

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::FidoError;

/// Where the kernel lists HID devices with a raw interface.
const HID_DEVICES: &str = "/sys/class/hidraw";
/// Largest report descriptor (HID_MAX_DESCRIPTOR_SIZE), in bytes.
const MAX_DESCRIPTOR_BYTES: u64 = 4096;
/// The usage page and the usage of FIDO tokens.
const FIDO_PAGE: u32 = 0xf1d0;
const FIDO_USAGE: u32 = 1;

/// Bytes of a report.
const REPORT_BYTES: usize = 64;
/// Payload of the first report of a message, and of each further one.
const FIRST_BYTES: usize = REPORT_BYTES - 7;
const NEXT_BYTES: usize = REPORT_BYTES - 5;
/// Longest message: one first report and 128 further ones.
const MAX_PAYLOAD_BYTES: usize = FIRST_BYTES + 128 * NEXT_BYTES;

const BROADCAST: u32 = 0xffff_ffff;
const COMMAND_BIT: u8 = 0x80;
const INIT: u8 = 0x06;
/// Requests of U2F.
pub(crate) const MSG: u8 = 0x03;
/// Requests of CTAP 2.
pub(crate) const CBOR: u8 = 0x10;
const CANCEL: u8 = 0x11;
const KEEPALIVE: u8 = 0x3b;
const ERROR: u8 = 0x3f;
/// The error of a token that serves another program.
const ERROR_BUSY: u8 = 0x06;
/// The capability bit of CTAP 2, and that of tokens without U2F.
const CAPABILITY_CBOR: u8 = 0x04;
const CAPABILITY_NO_MSG: u8 = 0x08;

/// Silence after which a token counts as gone: it reports every 100 ms while it waits for its user.
const SILENCE: Duration = Duration::from_secs(5);
/// Time that a token has for a request, with its user. Tokens end their wait after 30 s.
const REQUEST_LIMIT: Duration = Duration::from_secs(120);
/// Time between two attempts with a token that serves another program.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// The device files of the attached tokens, in the order of their names.
pub(crate) fn find() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(HID_DEVICES)
        .into_iter()
        .flatten()
        .flatten()
    {
        let descriptor = std::fs::File::open(entry.path().join("device/report_descriptor"))
            .and_then(|file| sys::file::read_file_bounded(&file, MAX_DESCRIPTOR_BYTES));
        if descriptor.is_ok_and(|descriptor| is_token(&descriptor)) {
            found.push(Path::new("/dev").join(entry.file_name()));
        }
    }
    found.sort();
    found
}

/// True if a report descriptor (HID 1.11 §6.2.2) has the usage of FIDO.
pub(crate) fn is_token(descriptor: &[u8]) -> bool {
    let (mut rest, mut page) = (descriptor, 0);
    while let Some((prefix, after)) = rest.split_first() {
        // Long items say their length in the next byte.
        let length = match (prefix, prefix & 3) {
            (0xfe, _) => 2 + after.first().map_or(0, |length| usize::from(*length)),
            (_, 3) => 4,
            (_, length) => usize::from(length),
        };
        let Some((data, after)) = after.split_at_checked(length) else {
            return false;
        };
        let value = data
            .iter()
            .rev()
            .take(4)
            .fold(0_u32, |value, byte| value << 8 | u32::from(*byte));
        match prefix & 0xfc {
            0x04 => page = value,
            0x08 if page == FIDO_PAGE && value == FIDO_USAGE => return true,
            _ => {}
        }
        rest = after;
    }
    false
}

/// A channel to a token.
pub(crate) struct TokenChannel {
    device: OwnedFd,
    channel: u32,
    capabilities: u8,
}

/// The answer to [`TokenChannel::ask`], as far as it has arrived.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TokenSays {
    /// Nothing yet.
    Nothing,
    /// The token serves another program and has dropped the request.
    Busy,
    Answer(Vec<u8>),
}

impl TokenChannel {
    /// Opens a token and a channel of its own.
    ///
    /// # Errors
    /// [`FidoError::Unsupported`] for a token without CTAP 2 and U2F; else the reason.
    pub(crate) fn open(path: &Path) -> Result<Self, FidoError> {
        let device = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|error| {
                let words = error.to_string();
                FidoError::Failed(format!(
                    "{}: {}",
                    path.display(),
                    escape::system_words(&words)
                ))
            })?;
        Self::over(device.into())
    }

    /// As [`Self::open`], with an open device.
    pub(crate) fn over(device: OwnedFd) -> Result<Self, FidoError> {
        let mut token = Self {
            device,
            channel: BROADCAST,
            capabilities: 0,
        };
        let nonce: [u8; 8] = crypto::random::bytes();
        let deadline = Instant::now() + SILENCE;
        token.send(INIT, &nonce)?;
        loop {
            let (command, answer) = token.receive(deadline)?;
            // Other programs' answers come on the same channel.
            let Some(rest) = answer.strip_prefix(&nonce).filter(|_| command == INIT) else {
                continue;
            };
            let short = || FidoError::failed("the token's answer is too short");
            let (channel, rest) = rest.split_first_chunk().ok_or_else(short)?;
            token.channel = u32::from_be_bytes(*channel);
            token.capabilities = *rest.get(4).ok_or_else(short)?;
            let speaks_nothing =
                token.capabilities & (CAPABILITY_CBOR | CAPABILITY_NO_MSG) == CAPABILITY_NO_MSG;
            return match speaks_nothing {
                true => Err(FidoError::Unsupported),
                false => Ok(token),
            };
        }
    }

    /// True if the token speaks CTAP 2; all others speak U2F.
    pub(crate) fn speaks_ctap2(&self) -> bool {
        self.capabilities & CAPABILITY_CBOR != 0
    }

    /// Sends a request, [`CBOR`] or [`MSG`], and gives the answer. Waits for the user, and while the
    /// token serves another program.
    pub(crate) fn request(&mut self, command: u8, request: &[u8]) -> Result<Vec<u8>, FidoError> {
        let deadline = Instant::now() + REQUEST_LIMIT;
        loop {
            self.send(command, request)?;
            let said = loop {
                match read_answer(command, self.receive(deadline)?)? {
                    TokenSays::Nothing => {}
                    said => break said,
                }
            };
            match said {
                TokenSays::Answer(answer) => return Ok(answer),
                _ if Instant::now() < deadline => std::thread::sleep(BUSY_PAUSE),
                _ => return Err(FidoError::failed("the token serves another program")),
            }
        }
    }

    /// Sends a request without waiting for the answer.
    pub(crate) fn ask(&self, command: u8, request: &[u8]) -> Result<(), FidoError> {
        self.send(command, request)
    }

    /// Reads the answer to [`Self::ask`] without waiting.
    pub(crate) fn look(&self, command: u8) -> Result<TokenSays, FidoError> {
        let is_ready = sys::io::wait_readable(&self.device, Some(Duration::ZERO));
        match is_ready.map_err(|error| lost(&error))? {
            true => read_answer(command, self.receive(Instant::now() + SILENCE)?),
            false => Ok(TokenSays::Nothing),
        }
    }

    /// Ends the wait for the user in a request of CTAP 2, whose answer is of no use any more.
    pub(crate) fn cancel(&self) {
        // A token that is gone waits for nobody.
        let _ = self.send(CANCEL, &[]);
    }

    fn send(&self, command: u8, payload: &[u8]) -> Result<(), FidoError> {
        let too_long = || FidoError::failed("the request is too long for a token");
        let length = u16::try_from(payload.len()).map_err(|_| too_long())?;
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(too_long());
        }
        let (first, rest) = payload.split_at(payload.len().min(FIRST_BYTES));
        let mut header = vec![COMMAND_BIT | command];
        header.extend_from_slice(&length.to_be_bytes());
        self.send_report(&header, first)?;
        for (number, piece) in (0_u8..).zip(rest.chunks(NEXT_BYTES)) {
            self.send_report(&[number], piece)?;
        }
        Ok(())
    }

    fn send_report(&self, header: &[u8], payload: &[u8]) -> Result<(), FidoError> {
        // The kernel wants the report's number, which FIDO does not use, before the report.
        let mut report = Vec::with_capacity(1 + REPORT_BYTES);
        report.push(0);
        report.extend_from_slice(&self.channel.to_be_bytes());
        report.extend_from_slice(header);
        report.extend_from_slice(payload);
        report.resize(1 + REPORT_BYTES, 0);
        sys::io::write(&self.device, &report)
            .map(drop)
            .map_err(|error| lost(&error))
    }

    /// The next message on this channel: command and payload.
    fn receive(&self, deadline: Instant) -> Result<(u8, Vec<u8>), FidoError> {
        let (command, length, mut payload) = loop {
            let report = self.receive_report(deadline)?;
            let [command, high, low, payload @ ..] = report.as_slice() else {
                continue;
            };
            // The rest of a message that was not read to its end.
            if command & COMMAND_BIT == 0 {
                continue;
            }
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            if length > MAX_PAYLOAD_BYTES {
                return Err(FidoError::failed("the token's answer is too long"));
            }
            break (command & !COMMAND_BIT, length, payload.to_vec());
        };
        let mut next = 0_u8;
        while payload.len() < length {
            let report = self.receive_report(deadline)?;
            let Some((number, piece)) = report.split_first() else {
                continue;
            };
            if *number != next {
                return Err(FidoError::failed("the token's answer has a gap"));
            }
            next = next.wrapping_add(1);
            payload.extend_from_slice(piece);
        }
        payload.truncate(length);
        Ok((command, payload))
    }

    /// The next report on this channel, without the channel's number.
    fn receive_report(&self, deadline: Instant) -> Result<Vec<u8>, FidoError> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let is_ready = sys::io::wait_readable(&self.device, Some(left.min(SILENCE)));
            if !is_ready.map_err(|error| lost(&error))? {
                return Err(FidoError::failed("the token does not answer"));
            }
            let mut report = [0; REPORT_BYTES];
            let length = sys::io::read(&self.device, &mut report).map_err(|error| lost(&error))?;
            if length == 0 {
                return Err(FidoError::failed("the token has been removed"));
            }
            let Some((channel, rest)) = report.get(..length).and_then(<[u8]>::split_first_chunk)
            else {
                continue;
            };
            if u32::from_be_bytes(*channel) == self.channel {
                return Ok(rest.to_vec());
            }
        }
    }
}

/// Reads a message as answer to a request.
fn read_answer(command: u8, message: (u8, Vec<u8>)) -> Result<TokenSays, FidoError> {
    match message {
        (KEEPALIVE, _) => Ok(TokenSays::Nothing),
        (ERROR, code) => match code.first() {
            Some(&ERROR_BUSY) => Ok(TokenSays::Busy),
            Some(code) => Err(FidoError::Failed(format!(
                "the token reports error {code:#04x}"
            ))),
            None => Err(FidoError::failed("the token gave no usable answer")),
        },
        (found, answer) if found == command => Ok(TokenSays::Answer(answer)),
        _ => Err(FidoError::failed("the token gave no usable answer")),
    }
}

fn lost(error: &io::Error) -> FidoError {
    let words = error.to_string();
    FidoError::Failed(format!("the token: {}", escape::system_words(&words)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_known_by_their_descriptors() {
        // Usage Page (FIDO), Usage (CTAPHID), Collection; a keyboard; a keyboard's page with usage 1;
        // a long item before the page; a value that is cut off.
        for (descriptor, expected) in [
            (&[0x06, 0xd0, 0xf1, 0x09, 0x01, 0xa1, 0x01][..], true),
            (&[0x05, 0x01, 0x09, 0x06, 0xa1, 0x01], false),
            (&[0x05, 0x01, 0x09, 0x01], false),
            (&[0xfe, 1, 0, 9, 0x06, 0xd0, 0xf1, 0x09, 0x01], true),
            (&[0x06, 0xd0], false),
            (&[], false),
        ] {
            assert_eq!(is_token(descriptor), expected, "{descriptor:x?}");
        }
    }
}
