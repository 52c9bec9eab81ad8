//! Outgoing requests: encoded heads in memory, and after the head of a WRITE the range of a file
//! that is read straight into the packet that carries it.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Size at which a new piece is started for encoded requests, bytes.
const PIECE_BYTES: usize = 32 * 1024;

/// A range of a file that is sent as the data of a WRITE.
#[derive(Debug, Clone)]
pub struct Body {
    /// The file to read.
    pub file: Arc<File>,
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes; exactly this many are sent, even if the file is shorter by then.
    pub len: u32,
    /// Number of the job that sends it.
    pub job: usize,
}

/// Reading a file failed or came up short. Its WRITE was sent with its full length, with zeros in
/// place of the missing bytes.
#[derive(Debug)]
pub struct Spoiled {
    /// Number of the job that sent it.
    pub job: usize,
    /// Offset of the first byte that could not be read.
    pub at: u64,
    /// The error; `None` if the file ended.
    pub error: Option<io::Error>,
}

#[derive(Debug, Default)]
struct Piece {
    head: Vec<u8>,
    taken: usize,
    body: Option<Body>,
    body_taken: u32,
    spoiled: bool,
}

/// A queue of requests, output as bytes.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    queue: VecDeque<Piece>,
    spare: Option<Vec<u8>>,
    spoiled: Vec<Spoiled>,
}

impl Outgoing {
    /// Appends the whole messages that `write` writes.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let begin = self
            .queue
            .back()
            .is_none_or(|last| last.body.is_some() || last.head.len() >= PIECE_BYTES);
        if begin {
            let head = self.spare.take().unwrap_or_default();
            self.queue.push_back(Piece {
                head,
                ..Piece::default()
            });
        }
        if let Some(last) = self.queue.back_mut() {
            write(&mut last.head);
        }
    }

    /// Appends a message whose head `write` writes and whose data is `body`.
    pub(super) fn add_with_body(&mut self, body: Body, write: impl FnOnce(&mut Vec<u8>)) {
        self.add(write);
        if let Some(last) = self.queue.back_mut() {
            last.body = Some(body);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Fills `room` with the queued bytes and returns their number.
    pub(super) fn fill(&mut self, room: &mut [u8]) -> usize {
        let mut filled = 0;
        while let Some(first) = self.queue.front_mut() {
            let Some(rest) = room.get_mut(filled..).filter(|rest| !rest.is_empty()) else {
                break;
            };
            let (count, spoiled) = first.fill(rest);
            filled += count;
            self.spoiled.extend(spoiled);
            if first.is_done()
                && let Some(done) = self.queue.pop_front()
            {
                let mut head = done.head;
                head.clear();
                self.spare = Some(head);
            }
        }
        filled
    }

    /// Returns and clears the files whose reading failed.
    pub(super) fn take_spoiled(&mut self) -> Vec<Spoiled> {
        std::mem::take(&mut self.spoiled)
    }
}

impl Piece {
    fn is_done(&self) -> bool {
        self.taken >= self.head.len()
            && self
                .body
                .as_ref()
                .is_none_or(|body| self.body_taken >= body.len)
    }

    fn fill(&mut self, room: &mut [u8]) -> (usize, Option<Spoiled>) {
        let head = self.head.get(self.taken..).unwrap_or_default();
        let of_head = head.len().min(room.len());
        let (for_head, room) = room.split_at_mut(of_head);
        for_head.copy_from_slice(head.get(..of_head).unwrap_or_default());
        self.taken += of_head;
        let Some(body) = &self.body else {
            return (of_head, None);
        };
        let left = usize::try_from(body.len - self.body_taken).unwrap_or(usize::MAX);
        let wanted = left.min(room.len());
        let room = room.get_mut(..wanted).unwrap_or_default();
        let at = body.offset + u64::from(self.body_taken);
        let (read, error) = match self.spoiled {
            true => (0, None),
            false => read_at(&body.file, at, room),
        };
        let mut spoiled = None;
        if read < wanted {
            room.get_mut(read..).unwrap_or_default().fill(0);
            if !self.spoiled {
                self.spoiled = true;
                spoiled = Some(Spoiled {
                    job: body.job,
                    at: at + u64::try_from(read).unwrap_or_default(),
                    error,
                });
            }
        }
        self.body_taken += u32::try_from(wanted).unwrap_or_default();
        (of_head + wanted, spoiled)
    }
}

/// Reads until `room` is full, the file ends or reading fails; returns the number of bytes and the
/// error.
fn read_at(file: &File, mut at: u64, room: &mut [u8]) -> (usize, Option<io::Error>) {
    use std::os::unix::fs::FileExt;
    let mut read = 0;
    while let Some(rest) = room.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at) {
            Ok(0) => return (read, None),
            Ok(count) => {
                read += count;
                at += u64::try_from(count).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (read, Some(error)),
        }
    }
    (read, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::io::Write;

    fn file(bytes: &[u8]) -> Arc<File> {
        let scratch = Scratch::new();
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(scratch.join("file"))
            .unwrap();
        file.write_all(bytes).unwrap();
        Arc::new(file)
    }

    fn queue(bytes: &[u8], len: u32) -> Outgoing {
        let mut queue = Outgoing::default();
        queue.add(|out| out.extend_from_slice(b"one"));
        let body = Body {
            file: file(bytes),
            offset: 1,
            len,
            job: 3,
        };
        queue.add_with_body(body, |out| out.extend_from_slice(b"head:"));
        queue.add(|out| out.extend_from_slice(b"two"));
        queue
    }

    #[test]
    fn heads_and_files_come_out_in_order_in_pieces_of_any_size() {
        for step in [1, 2, 3, 5, 8, 100] {
            let mut queue = queue(b"0123456", 6);
            let mut seen = Vec::new();
            let mut room = vec![0; step];
            loop {
                let count = queue.fill(&mut room);
                if count == 0 {
                    break;
                }
                seen.extend_from_slice(&room[..count]);
            }
            assert_eq!(seen, b"onehead:123456two");
            assert!(queue.is_empty() && queue.take_spoiled().is_empty());
        }
    }

    #[test]
    fn a_file_that_has_shrunk_is_filled_up_with_zeros_and_reported_once() {
        let mut queue = queue(b"012", 6);
        let mut room = [9; 8];
        let mut seen = Vec::new();
        loop {
            let count = queue.fill(&mut room);
            if count == 0 {
                break;
            }
            seen.extend_from_slice(&room[..count]);
        }
        assert_eq!(seen, b"onehead:12\0\0\0\0two");
        let spoiled = queue.take_spoiled();
        assert_eq!(spoiled.len(), 1);
        assert_eq!((spoiled[0].job, spoiled[0].at), (3, 3));
    }
}
