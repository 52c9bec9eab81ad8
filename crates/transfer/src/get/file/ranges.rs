//! Data without a request per block: ranges with their holes, and a file that the server streams
//! from the beginning.

use sftp::extension::{self, Extended};
use sftp::message::Request;
use sftp::vendor;

use super::read::{Range, Read};
use super::{DownloadJob, DownloadStage};
use crate::engine::{Op, Session, Token};
use crate::get::source::Reading;
use crate::sink::Sink;

impl DownloadJob {
    /// Continues with a file that the server already streams; returns the number of bytes received
    /// so far.
    pub(in crate::get) fn adopt(&mut self, reading: Reading) -> u64 {
        let is_spoiled = reading.is_spoiled();
        if let Some(first) = self.copy.handles.first_link() {
            match reading.handle {
                Some(handle) => self.copy.handles.opened(first, handle),
                None => self.copy.handles.asked(first),
            }
        }
        if is_spoiled {
            // Do not touch the target.
            self.stage = DownloadStage::Read(Read::default());
        } else {
            self.opened();
        }
        let asked = self.copy.id().token(Op::OpenRead);
        if let Some(read) = self.reading() {
            read.closes_early = false;
            read.next = u64::MAX;
            read.ranges.push(Range {
                begin: asked.offset,
                at: 0,
                end: u64::MAX,
            });
            read.streaming = Some(reading.id);
        }
        self.copy.sent();
        if reading.is_odd {
            self.fail_as_odd();
        }
        if !self.copy.has_failed() && !is_spoiled {
            for piece in &reading.pieces {
                self.received(asked, 0, piece);
            }
        }
        if let Some(why) = reading.ended {
            if let Some(read) = self.reading() {
                read.streaming = None;
            }
            self.copy.answered();
            self.stream_ends(asked, why);
        }
        self.copy.moved
    }

    /// True if a stream is no longer needed and was not cancelled yet.
    pub(super) fn ends_reading(&self) -> bool {
        let is_streaming =
            matches!(&self.stage, DownloadStage::Read(read) if read.streaming.is_some());
        is_streaming && self.copy.has_failed()
    }

    /// True if the copy preserves holes and the server reports them. Not used for a file that fits
    /// in one READ, nor with a rate limit, which needs small requests.
    pub(super) fn tells_holes(&self, session: &Session, max: u32) -> bool {
        self.sink().is_some_and(Sink::leaves_holes)
            && self.options.limit_bytes == 0
            && self.end.is_some_and(|end| end >= u64::from(max))
            && session.server().has(vendor::READ_RANGE, "1")
    }

    pub(super) fn ask_range(
        &mut self,
        (offset, len): (u64, u32),
        handle: &[u8],
        session: &mut Session,
    ) {
        let request = Extended::ReadRange(extension::ReadRange {
            handle,
            offset,
            len: u64::from(len),
            flags: vendor::read_flag::HOLES,
        });
        let request = Request::Extended(request);
        self.copy
            .send_data(session, Op::ReadRange, (offset, len), &request);
        if let Some(read) = self.reading() {
            read.ranges.push(Range {
                begin: offset,
                at: offset,
                end: offset.saturating_add(u64::from(len)),
            });
        }
    }

    /// Records `len` more bytes of a range; returns their offset, or `None` if they were not
    /// requested.
    pub(super) fn goes_on(&mut self, asked: Token, len: u64) -> Option<u64> {
        let range = self
            .reading()?
            .ranges
            .iter_mut()
            .find(|range| range.begin == asked.offset)?;
        let at = range.at;
        range.at = at.saturating_add(len);
        if range.at > range.end {
            self.fail_to_read("the server sent more than requested");
            return None;
        }
        Some(at)
    }

    /// Processes a hole in a range; returns its length.
    pub(super) fn hole(&mut self, asked: Token, fields: &[u8]) -> u64 {
        let Ok(hole) = vendor::Hole::decode(fields) else {
            self.fail_to_read("a malformed answer");
            return 0;
        };
        let at = self.goes_on(asked, hole.len);
        let (Some(at), false) = (at, self.copy.has_failed()) else {
            return 0;
        };
        let end = self.end.unwrap_or(u64::MAX);
        let len = hole.len.min(end.saturating_sub(at));
        self.copy.moved = self.copy.moved.saturating_add(len);
        if let Some(target) = &mut self.target {
            target.sink.leave_hole(at, len);
        }
        len
    }

    /// The answer to a range has ended.
    pub(super) fn range_ends(&mut self, asked: Token, why: Option<String>) {
        let Some(read) = self.reading() else {
            return;
        };
        let mut ranges = read.ranges.iter();
        let index = ranges.position(|range| range.begin == asked.offset);
        let Some(range) = index.map(|index| read.ranges.swap_remove(index)) else {
            return;
        };
        let end = self.end.unwrap_or(range.end);
        if let Some(why) = why {
            self.fail_to_read(&why);
        } else if range.at > end {
            self.fail_as_longer(end);
        } else if range.at < range.end.min(end) {
            self.ends_at(range.at);
        }
    }

    /// The stream of a file has ended.
    pub(super) fn stream_ends(&mut self, asked: Token, why: Option<String>) {
        self.write_gathered();
        self.range_ends(asked, why);
    }
}
