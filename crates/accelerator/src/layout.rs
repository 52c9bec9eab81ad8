//! Layout of a lane's shared memory, and the messages on the sockets between a connection's process
//! and the process that has loaded a library.

use compress::MAX_INFLATED_BYTES;
use compress::provider::{HISTORY_BYTES, MAX_GROWTH_BYTES, MAX_RUN_PAYLOADS};

/// Maximum length of a run's window, bytes. It lies at the beginning of a lane's memory.
pub(crate) const WINDOW_BYTES: usize = HISTORY_BYTES + MAX_RUN_PAYLOADS * MAX_INFLATED_BYTES;
/// Maximum length of a run's output, bytes. It lies at offset [`WINDOW_BYTES`].
pub(crate) const OUTPUT_BYTES: usize = MAX_RUN_PAYLOADS * (MAX_INFLATED_BYTES + MAX_GROWTH_BYTES);
/// Length of a lane's memory, bytes.
pub(crate) const LANE_BYTES: usize = WINDOW_BYTES + OUTPUT_BYTES;

/// The control socket: the process reports on it the library that it has loaded.
pub(crate) const CONTROL_FD: i32 = 3;
/// The socket of the first lane; its memory has the next number, then the next lane follows.
pub(crate) const FIRST_LANE_FD: i32 = 4;
/// Maximum number of lanes of one process; more than any caller asks for.
pub(crate) const MAX_LANES: usize = 16;

/// Maximum length of a message, bytes.
pub(crate) const MESSAGE_BYTES: usize = 4096;
/// Maximum length of a text within a message, bytes.
const TEXT_BYTES: usize = 1000;

/// Number of the unasked message that the process sends once it has loaded the library.
pub(crate) const HELLO: u32 = 0;
/// Number of the question for open devices.
pub(crate) const DEVICES: u32 = 1;

/// A run whose window lies in the lane's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunRequest {
    /// Repeated in the answer.
    pub(crate) number: u32,
    pub(crate) level: u8,
    pub(crate) history_bytes: usize,
    pub(crate) ends: Vec<usize>,
}

impl RunRequest {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = self.number.to_le_bytes().to_vec();
        out.push(self.level);
        put_number(&mut out, self.history_bytes);
        put_numbers(&mut out, &self.ends);
        out
    }

    /// Returns `None` unless the message describes a run within the lane's memory.
    pub(crate) fn decode(message: &[u8]) -> Option<Self> {
        let (number_bytes, rest) = message.split_first_chunk()?;
        let (level, rest) = rest.split_first()?;
        let (history_bytes, rest) = number(rest)?;
        let request = Self {
            number: u32::from_le_bytes(*number_bytes),
            level: *level,
            history_bytes,
            ends: numbers(rest)?,
        };
        let ascending = request.ends.is_sorted() && request.ends.len() <= MAX_RUN_PAYLOADS;
        let inside = request.ends.first()? >= &history_bytes && history_bytes <= HISTORY_BYTES;
        (ascending && inside && *request.ends.last()? <= WINDOW_BYTES).then_some(request)
    }
}

/// Returns the number that a question begins with; [`HELLO`] if the message is too short for one.
pub(crate) fn question(message: &[u8]) -> u32 {
    message
        .first_chunk()
        .map_or(HELLO, |bytes| u32::from_le_bytes(*bytes))
}

/// An answer of the library's process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// End of each payload in the output.
    Done(Vec<usize>),
    /// Texts; their meaning depends on the question.
    Says(Vec<String>),
    /// The request failed for this reason.
    Failed(String),
}

impl Reply {
    /// Encodes the answer to the question `number`.
    pub(crate) fn encode(&self, number: u32) -> Vec<u8> {
        let mut out = number.to_le_bytes().to_vec();
        match self {
            Self::Done(ends) => {
                out.push(0);
                put_numbers(&mut out, ends);
            }
            Self::Says(texts) => {
                out.push(1);
                for (index, text) in texts.iter().enumerate() {
                    if index > 0 {
                        out.push(0);
                    }
                    out.extend_from_slice(cut(text).as_bytes());
                }
                out.truncate(MESSAGE_BYTES);
            }
            Self::Failed(text) => {
                out.push(2);
                out.extend_from_slice(cut(text).as_bytes());
            }
        }
        out
    }

    /// Returns the number of the question and the answer; `None` for a malformed message, as from a
    /// process that the library has damaged.
    pub(crate) fn decode(message: &[u8]) -> Option<(u32, Self)> {
        let (number, rest) = message.split_first_chunk()?;
        let number = u32::from_le_bytes(*number);
        let (tag, rest) = rest.split_first()?;
        let reply = match tag {
            0 => {
                let ends = numbers(rest)?;
                let inside = ends.last().is_none_or(|end| *end <= OUTPUT_BYTES);
                (ends.is_sorted() && inside).then_some(Self::Done(ends))
            }
            1 => Some(Self::Says(
                rest.split(|byte| *byte == 0).map(text).collect(),
            )),
            2 => Some(Self::Failed(text(rest))),
            _ => None,
        };
        reply.map(|reply| (number, reply))
    }
}

/// Escapes a text of another process for one line of a log, at most [`TEXT_BYTES`] long.
pub(crate) fn text(bytes: &[u8]) -> String {
    escape::escape_at_most(bytes, escape::Style::Line, TEXT_BYTES)
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

fn put_number(out: &mut Vec<u8>, number: usize) {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[usize]) {
    for number in numbers {
        put_number(out, *number);
    }
}

fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((usize::try_from(u32::from_le_bytes(*number)).ok()?, rest))
}

fn numbers(mut bytes: &[u8]) -> Option<Vec<usize>> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let (next, rest) = number(bytes)?;
        out.push(next);
        bytes = rest;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_went() {
        let request = RunRequest {
            number: 0x0102_0304,
            level: 6,
            history_bytes: 100,
            ends: vec![200, 300],
        };
        assert_eq!(question(&request.encode()), request.number);
        assert_eq!(RunRequest::decode(&request.encode()), Some(request));
        for reply in [
            Reply::Done(vec![1, 2]),
            Reply::Says(vec!["a".into(), String::new(), "b".into()]),
            Reply::Failed("why".into()),
        ] {
            assert_eq!(Reply::decode(&reply.encode(7)), Some((7, reply)));
        }
    }

    #[test]
    fn what_lies_outside_a_lane_or_has_no_order_is_no_message() {
        for (history_bytes, ends) in [
            (HISTORY_BYTES + 1, vec![HISTORY_BYTES + 2]),
            (10, vec![9]),
            (0, vec![]),
            (0, vec![5, 4]),
            (0, vec![WINDOW_BYTES + 1]),
            (0, vec![1; MAX_RUN_PAYLOADS + 1]),
        ] {
            let request = RunRequest {
                number: 1,
                level: 6,
                history_bytes,
                ends,
            };
            assert_eq!(RunRequest::decode(&request.encode()), None, "{request:?}");
        }
        for bad in [
            &[][..],
            &[1, 0, 0, 0],
            &[1, 0, 0, 0, 9],
            &[1, 0, 0, 0, 0, 1],
            &[1, 0, 0, 0, 0, 0, 0, 0, 0xff],
        ] {
            assert_eq!(Reply::decode(bad), None);
        }
        assert_eq!(Reply::decode(&Reply::Done(vec![2, 1]).encode(1)), None);
        let control = Reply::decode(b"\x01\0\0\0\x02a\x1b[31mb\n");
        assert_eq!(control, Some((1, Reply::Failed("a\\033[31mb\\012".into()))));
    }
}
