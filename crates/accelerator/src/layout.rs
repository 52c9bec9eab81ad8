//! What passes between a connection's process and the one that has loaded a library: the memory
//! of a lane, and the messages on its socket.

use compress::MAX_INFLATED_BYTES;
use compress::provider::{HISTORY_BYTES, MAX_GROWTH_BYTES, MAX_RUN_PAYLOADS};

/// Where a run's window lies in a lane's memory: at the beginning, and so many bytes at most.
pub(crate) const WINDOW_BYTES: usize = HISTORY_BYTES + MAX_RUN_PAYLOADS * MAX_INFLATED_BYTES;
/// Where its output lies: behind, and so many bytes at most.
pub(crate) const OUTPUT_BYTES: usize = MAX_RUN_PAYLOADS * (MAX_INFLATED_BYTES + MAX_GROWTH_BYTES);
/// A lane's memory, bytes.
pub(crate) const LANE_BYTES: usize = WINDOW_BYTES + OUTPUT_BYTES;

/// The socket on which the process says what it has loaded.
pub(crate) const CONTROL_FD: i32 = 3;
/// The first lane's socket; its memory follows, then the next lane's.
pub(crate) const FIRST_LANE_FD: i32 = 4;
/// Lanes of one process: more threads than anybody compresses with.
pub(crate) const MAX_LANES: usize = 16;

/// The longest message, bytes.
pub(crate) const MESSAGE_BYTES: usize = 4096;
/// The longest text in one, bytes.
const TEXT_BYTES: usize = 1000;

/// The number of what the process says by itself when it has loaded the library.
pub(crate) const HELLO: u32 = 0;
/// The number of the question for devices that are open.
pub(crate) const DEVICES: u32 = 1;

/// The numbers that describe a run whose window lies in the lane's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunRequest {
    /// What its answer carries again.
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

    /// `None` for what no run is.
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

/// The number of a question, with which each begins; [`HELLO`] of what is too short for one.
pub(crate) fn question(message: &[u8]) -> u32 {
    message
        .first_chunk()
        .map_or(HELLO, |bytes| u32::from_le_bytes(*bytes))
}

/// What the process answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Where in the output each payload ends.
    Done(Vec<usize>),
    /// Texts, in an order that the question gives.
    Says(Vec<String>),
    /// It did not work, for this reason.
    Failed(String),
}

impl Reply {
    /// As the answer to the question by this number.
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

    /// With the number of the question; `None` for what is none of these: the process is not what
    /// it was.
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

/// A text of another process, fit for a line of a log.
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
