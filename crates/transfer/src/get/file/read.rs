//! The stage in which data is requested and received. Ranges and streams that need no request per
//! block are in [`ranges`](super::ranges).

use bytes::Bytes;

use super::claims::Claim;
use super::{DownloadJob, DownloadStage};
use crate::engine::{Op, Session, Token};
use crate::file::FileJob;
use crate::plan::pace::Pace;
use crate::plan::shown;
use crate::step::{JOINING_BYTES, Step};
use crate::text;

/// Length of one request if the server reports holes, bytes.
const RANGE_BYTES: u32 = 4 << 20;

/// A requested range of data and holes.
#[derive(Debug)]
pub(super) struct Range {
    pub(super) begin: u64,
    /// Offset of the first byte not received.
    pub(super) at: u64,
    pub(super) end: u64,
}

/// State while data is requested and received.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// Offset of the first byte not requested yet.
    pub(super) next: u64,
    /// Ranges requested with their holes.
    pub(super) ranges: Vec<Range>,
    /// Ranges that arrived incomplete; they are requested again first.
    pub(super) again: Vec<(u64, u32)>,
    /// Offset at which the server reported the end of the file.
    pub(super) eof: Option<u64>,
    pub(super) claim: Claim,
    /// CLOSE is sent in the same flight as READ.
    pub(super) closes_early: bool,
    /// Id of the request whose answer streams the file, while it runs.
    pub(super) streaming: Option<u32>,
}

impl Read {
    /// Returns the next range to request: up to one byte beyond the expected `end`, which detects a
    /// file that has grown. If the length is unknown, one range at a time.
    fn next_range(&mut self, end: Option<u64>, max: u32, is_idle: bool) -> Option<(u64, u32)> {
        if let Some(again) = self.again.pop() {
            return Some(again);
        }
        if self.eof.is_some() {
            return None;
        }
        let left = match end {
            Some(end) => end
                .saturating_add(1)
                .checked_sub(self.next)
                .filter(|left| *left > 0)?,
            None if !is_idle => return None,
            None => u64::from(max),
        };
        let len = u32::try_from(left).unwrap_or(u32::MAX).min(max);
        let range = (self.next, len);
        self.next += u64::from(len);
        Some(range)
    }
}

impl DownloadJob {
    /// The stage's data, while the file is read.
    pub(super) fn reading(&mut self) -> Option<&mut Read> {
        match &mut self.stage {
            DownloadStage::Read(read) => Some(read),
            _ => None,
        }
    }

    pub(super) fn read(&mut self, link: usize, session: &mut Session, pace: &mut Pace) -> Step {
        let first = self.copy.handles.is_first(link);
        if self.copy.has_failed() {
            if let Some(id) = self.reading().and_then(|read| read.streaming.take()) {
                session.cancel(id);
                return Step::Sent { more: false };
            }
            return match self.copy.is_idle() {
                true if first => self.finish(link, session),
                _ => self.copy.leave_to_first(),
            };
        }
        if self.copy.handles.is_unopened(link) {
            // The rest arrives faster without another connection.
            return match self.left() < JOINING_BYTES {
                true => self.copy.leave_to_first(),
                false => self.copy.open_to_read(link, session, &self.item.from),
            };
        }
        let Some(handle) = self.copy.handles.open(link) else {
            return Step::Nothing;
        };
        if !session.takes_read() || !pace.lets_go() {
            return Step::Full;
        }
        let max = session.server().max_read;
        let with_holes = self.tells_holes(session, max);
        let most = if with_holes { RANGE_BYTES } else { max };
        let DownloadStage::Read(read) = &mut self.stage else {
            return Step::Nothing;
        };
        let is_idle = self.copy.is_idle();
        let Some((offset, len)) = read.next_range(self.end, most, is_idle) else {
            return match is_idle && first {
                true => self.finish(link, session),
                false => self.copy.leave_to_first(),
            };
        };
        pace.went(u64::from(len));
        if with_holes {
            self.ask_range((offset, len), &handle, session);
            return Step::Sent { more: true };
        }
        self.copy.read(session, &handle, (offset, len));
        // A file that fits in one READ is closed in the same flight; if the server returns less
        // than requested, it is opened again.
        let one = self.end.is_some_and(|end| end < u64::from(max));
        if one && self.copy.handles.len() == 1 && read.closes_early {
            self.copy.close(link, session);
            return Step::Sent { more: false };
        }
        Step::Sent { more: true }
    }

    /// All data has arrived, or the copy failed: sends CLOSE.
    fn finish(&mut self, link: usize, session: &mut Session) -> Step {
        let eof = self.reading().and_then(|read| read.eof);
        let end = self.end.or(eof);
        let front = self.front();
        if let Some(end) = end.filter(|end| *end != front) {
            self.fail_to_read(&format!("received {front} bytes instead of {end}"));
        }
        if !self.copy.has_failed()
            && self.copy.handles.len() == 1
            && let Some(handle) = self.copy.handles.close(link)
        {
            // All data is here; the result of CLOSE does not matter.
            session.close_read(&handle);
            self.stage = DownloadStage::Over;
            return Step::Over;
        }
        self.stage = DownloadStage::Close;
        self.copy.close_all(session);
        if self.copy.is_idle() {
            self.stage = DownloadStage::Over;
            return Step::Over;
        }
        Step::Sent { more: false }
    }

    /// Read and closed in one flight: checks that the file is complete.
    pub(super) fn closed_early(&mut self) {
        let front = self.front();
        if let DownloadStage::Read(mut read) = self.take_stage()
            && !self.copy.has_failed()
            && self.end.is_some_and(|end| front < end)
            && read.eof.is_none()
        {
            read.closes_early = false;
            self.copy.handles.reset();
            self.stage = DownloadStage::ToOpen(read);
            self.copy.wake_first();
        }
    }

    /// The server reported the end of the file at `offset`.
    pub(super) fn ends_at(&mut self, offset: u64) {
        match self.end {
            Some(end) if offset < end => {
                self.fail_to_read(&format!(
                    "file changed while it was copied: it had {end} bytes and ends at {offset} or \
                     before"
                ));
            }
            _ => {
                if let Some(read) = self.reading() {
                    read.eof = Some(read.eof.map_or(offset, |eof| eof.min(offset)));
                }
            }
        }
    }

    /// Processes data of the file, `at` bytes after the first byte of a DATA.
    pub(super) fn received(&mut self, asked: Token, at: u32, bytes: &Bytes) {
        if let DownloadStage::Proving(proof) = &mut self.stage {
            proof.data(bytes);
            return;
        }
        self.copy.moved += u64::try_from(bytes.len()).unwrap_or_default();
        let offset = match asked.op {
            Op::ReadRange | Op::OpenRead => self.goes_on(asked, bytes.len() as u64),
            _ => Some(asked.offset + u64::from(at)),
        };
        let Some(offset) = offset.filter(|_| !self.copy.has_failed()) else {
            return;
        };
        // Data beyond the expected end is counted, not written.
        let keep = match self.end {
            Some(end) => usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX),
            None => bytes.len(),
        };
        let keep = keep.min(bytes.len());
        if let Some(target) = &mut self.target {
            let written = target.keep(offset, bytes.slice(..keep));
            self.written(written);
        }
        if let (Op::OpenRead, Some(end)) = (asked.op, self.end)
            && keep < bytes.len()
        {
            // Otherwise the copy would continue as long as the file grows.
            self.fail_as_longer(end);
        }
    }

    /// Writes the data that was collected.
    pub(super) fn write_gathered(&mut self) {
        if let Some(target) = &mut self.target {
            let written = target.write_gathered();
            self.written(written);
        }
    }

    /// Processes the result of writing to the target.
    pub(super) fn written(&mut self, written: std::io::Result<()>) {
        if let Err(error) = written {
            let to = shown(&self.item.to);
            self.copy
                .fail(format!("write local \"{to}\": {}", text::reason(&error)));
        }
    }

    /// A DATA has been received completely; it had `len` bytes.
    pub(super) fn data_received(&mut self, asked: Token, len: u32) {
        if matches!(asked.op, Op::ReadRange | Op::OpenRead) {
            // STATUS ends the request.
            return;
        }
        self.copy.answered();
        if matches!(self.stage, DownloadStage::Proving(_)) {
            self.proven(asked, None);
            return;
        }
        self.write_gathered();
        if let Some(Claim::Same(at)) = self.reading().map(|read| read.claim) {
            // The end was there before: the file is being rewritten.
            self.ends_at(at);
        }
        let until = asked.offset + u64::from(len);
        match (self.end, &mut self.stage) {
            (Some(end), _) if until > end => self.fail_as_longer(end),
            (Some(end), DownloadStage::Read(read)) if until < end && len < asked.len => {
                read.again.push((until, asked.len - len));
            }
            (None, DownloadStage::Read(read)) => read.next = until,
            // No data after the expected end: that is the end of the file.
            _ => {}
        }
        self.go_on();
    }
}
