//! Copies files from one server to another through the local machine.
//!
//! The source is on the first connection, the target on the second. OPEN truncates the target, so
//! the source is opened first; data is requested once both files are open.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use bytes::Bytes;
use sftp::message::{Request, open_flag, request};
use sftp::{Attributes, Code};

use crate::engine::{Disk, EngineError, Op, Session, Token, attributes_of};
use crate::file::{FileAnswer, FileCopy, FileJob, FileWork, Files, failure};
use crate::plan::id::Subject;
use crate::plan::pace::Pace;
use crate::report::{FileResult, Report};
use crate::step::{Step, impossible_size, may_be_same};
use crate::text;

/// The connection to the server that has the source.
const SOURCE: usize = 0;
/// The connection to the server that gets the copy.
const TARGET: usize = 1;
/// Maximum number of bytes received and not sent on.
const MAX_HELD_BYTES: usize = 16 << 20;

/// A file to copy.
#[derive(Debug, Clone)]
pub struct RelayItem {
    /// Path on the first server.
    pub from: Vec<u8>,
    /// Path on the second server.
    pub to: Vec<u8>,
    /// Attributes on the first server.
    pub attributes: Attributes,
}

/// The request that is next for the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TargetStep {
    /// STAT.
    Look,
    /// OPEN, once STAT is answered and the source is open.
    Open { looked: bool },
    /// WRITE and, at the end, FSETSTAT.
    Write,
    /// CLOSE.
    Close,
}

/// Number of bytes that all jobs have received and not sent on.
type Held = Rc<Cell<usize>>;

/// The copy of one file.
#[derive(Debug)]
pub(crate) struct RelayJob {
    copy: FileCopy,
    item: RelayItem,
    preserve: bool,
    /// Length of the file, if known before it is read.
    end: Option<u64>,
    step: TargetStep,
    /// The target may be the source: it is not truncated.
    in_place: bool,
    /// Offset of the first byte not requested.
    next: u64,
    at_end: bool,
    /// Data received of unfinished READs, by offset.
    arriving: BTreeMap<u64, Vec<u8>>,
    to_write: VecDeque<(u64, Vec<u8>)>,
    held: Held,
    /// Offset of the first byte that the target may not hold.
    bad_from: u64,
    written_to: u64,
}

impl FileJob for RelayJob {
    fn copy(&mut self) -> &mut FileCopy {
        &mut self.copy
    }

    fn left(&self) -> u64 {
        self.end.unwrap_or(0).saturating_sub(self.next)
    }

    fn is_over(&self) -> bool {
        self.copy.is_idle() && self.copy.handles.are_closed()
    }

    fn step(&mut self, link: usize, session: &mut Session, pace: &mut Pace) -> Step {
        match link {
            _ if !session.takes_request() => Step::Full,
            SOURCE => self.read(session, pace),
            _ => self.write(session),
        }
    }

    fn reply(&mut self, (link, session, asked, reply): FileAnswer<'_>) -> u64 {
        self.copy.answered();
        let from = text::name(&self.item.from);
        let to = text::name(&self.item.to);
        let mut moved = 0;
        match (asked.op, failure(reply)) {
            (Op::Stat, _) => {
                let there = attributes_of(reply);
                self.in_place = may_be_same(&self.item.attributes, there.as_ref());
                self.step = TargetStep::Open { looked: true };
                self.copy.wake(TARGET);
            }
            (Op::Open, _) => {
                if let Err(why) = self.copy.opened(link, session, reply) {
                    self.bad_from = 0;
                    self.fail(match link {
                        SOURCE => format!("remote open \"{from}\": {why}"),
                        _ => format!("dest open \"{to}\": {why}"),
                    });
                }
                self.copy.wake_all();
            }
            (Op::Read, Some((Code::EOF, _))) => {
                self.at_end = true;
                if self.end.is_some_and(|end| asked.offset < end) {
                    self.fail_to_read("file changed while it was copied");
                }
            }
            (Op::Read, failed) => {
                self.fail_to_read(&failed.map(|(_, why)| why).unwrap_or_default());
            }
            (Op::Write, None) => {
                moved = u64::from(asked.len);
                self.copy.moved += moved;
            }
            (Op::Write, Some((_, why))) => {
                self.bad_from = self.bad_from.min(asked.offset);
                self.fail(format!("write remote \"{to}\": {why}"));
            }
            (Op::Close, failed) => {
                session.handle_ends();
                if let Some((_, why)) = failed {
                    self.fail(format!("close remote \"{to}\": {why}"));
                }
            }
            (Op::Attributes, Some((_, why))) => {
                self.fail(format!("remote fsetstat \"{to}\": {why}"));
            }
            _ => {}
        }
        self.go_on();
        moved
    }

    fn data(&mut self, asked: Token, _at: u32, bytes: &Bytes) -> u64 {
        if self.copy.has_failed() {
            return 0;
        }
        self.held.set(self.held.get() + bytes.len());
        let arriving = self.arriving.entry(asked.offset).or_default();
        arriving.extend_from_slice(bytes);
        0
    }

    fn data_ends(&mut self, asked: Token, len: u32) {
        self.copy.answered();
        let arrived = self.arriving.remove_entry(&asked.offset);
        self.to_write.extend(arrived);
        if self.to_write.len() == 1 {
            self.copy.wake(TARGET);
        }
        if self.end.is_none() {
            self.next = asked.offset + u64::from(len);
        } else if len < asked.len {
            self.fail_to_read("the server sent less than requested");
        }
        self.go_on();
    }

    fn stop(&mut self) {
        self.fail(EngineError::Interrupted.to_string());
        self.go_on();
    }

    fn lose(&mut self, why: &EngineError) {
        let to = text::name(&self.item.to);
        self.fail(format!("write remote \"{to}\": {why}"));
        self.copy.abandon();
    }

    fn into_result(self) -> FileResult {
        self.copy.into_result(self.item.from, self.item.to)
    }
}

impl RelayJob {
    fn new(copy: FileCopy, item: RelayItem, preserve: bool, held: Held) -> Self {
        Self {
            copy,
            preserve,
            end: item.attributes.size.filter(|size| *size > 0),
            item,
            step: TargetStep::Look,
            in_place: false,
            next: 0,
            at_end: false,
            arriving: BTreeMap::new(),
            to_write: VecDeque::new(),
            held,
            bad_from: u64::MAX,
            written_to: 0,
        }
    }

    /// The copy has failed: nothing more is opened or written.
    fn fail(&mut self, error: String) {
        self.copy.fail(error);
        self.copy.handles.refuse_unopened();
        let arriving = std::mem::take(&mut self.arriving);
        let dropped = self.to_write.drain(..).chain(arriving);
        let dropped: usize = dropped.map(|(_, data)| data.len()).sum();
        self.held.set(self.held.get().saturating_sub(dropped));
    }

    fn fail_to_read(&mut self, why: &str) {
        let from = text::name(&self.item.from);
        self.fail(format!("read remote \"{from}\": {why}"));
    }

    fn is_read(&self) -> bool {
        self.copy.has_failed() || self.at_end || self.end.is_some_and(|end| self.next >= end)
    }

    /// True if everything that was read is written, or the copy has failed.
    fn is_moved(&self) -> bool {
        self.is_read() && self.copy.is_idle() && self.to_write.is_empty()
    }

    /// After an answer: the connections may have something to send.
    fn go_on(&mut self) {
        if self.copy.is_idle() {
            self.copy.wake_all();
        }
    }

    /// Sends the next request to the first server.
    fn read(&mut self, session: &mut Session, pace: &mut Pace) -> Step {
        if self.copy.handles.is_unopened(SOURCE) {
            return self.copy.open_to_read(SOURCE, session, &self.item.from);
        }
        let Some(handle) = self.copy.handles.open(SOURCE) else {
            return Step::Nothing;
        };
        if self.is_moved() {
            self.copy.close_read(SOURCE, session);
            return match self.is_over() {
                true => Step::Over,
                false => Step::Sent { more: false },
            };
        }
        let one_by_one = self.end.is_none() && !self.copy.is_idle();
        if self.is_read() || one_by_one || !self.copy.handles.is_open(TARGET) {
            return Step::Nothing;
        }
        if self.held.get() >= MAX_HELD_BYTES || !session.takes_read() || !pace.lets_go() {
            return Step::Full;
        }
        let left = self.end.map_or(u64::MAX, |end| end - self.next);
        let len = u32::try_from(left).unwrap_or(u32::MAX);
        let range = (self.next, len.min(session.server().max_read));
        self.copy.read(session, &handle, range);
        pace.went(u64::from(range.1));
        self.next += u64::from(range.1);
        Step::Sent { more: true }
    }

    /// Sends the next request to the second server.
    fn write(&mut self, session: &mut Session) -> Step {
        if self.copy.handles.is_unopened(TARGET) {
            return self.open(session);
        }
        let Some(handle) = self.copy.handles.open(TARGET) else {
            return Step::Nothing;
        };
        if !self.to_write.is_empty() && !session.takes_write() {
            return Step::Full;
        }
        if let Some((offset, mut data)) = self.to_write.pop_front() {
            let max = usize::try_from(session.server().max_write).unwrap_or(usize::MAX);
            if data.len() > max {
                let rest = data.split_off(max);
                let after = offset + u64::try_from(data.len()).unwrap_or_default();
                self.to_write.push_front((after, rest));
            }
            self.held.set(self.held.get().saturating_sub(data.len()));
            let len = u32::try_from(data.len()).unwrap_or(u32::MAX);
            let request = Request::Write(request::Write {
                handle: &handle,
                offset,
                data: &data,
            });
            self.copy
                .send_data(session, Op::Write, (offset, len), &request);
            self.written_to = self.written_to.max(offset + u64::from(len));
            return Step::Sent { more: true };
        }
        if !self.is_moved() {
            return Step::Nothing;
        }
        let attributes = self.last_attributes();
        if attributes != Attributes::NONE && self.step == TargetStep::Write {
            let request = Request::Fsetstat(request::Fsetstat {
                handle: &handle,
                attributes,
            });
            self.copy.send(session, Op::Attributes, &request);
        }
        self.step = TargetStep::Close;
        self.copy.close(TARGET, session)
    }

    /// Looks up and opens the target.
    fn open(&mut self, session: &mut Session) -> Step {
        match self.step {
            TargetStep::Look => {
                self.step = TargetStep::Open { looked: false };
                let path = &self.item.to;
                let request = Request::Stat(request::Stat { path });
                self.copy.send(session, Op::Stat, &request);
                return Step::Sent { more: false };
            }
            TargetStep::Open { looked: true } if self.copy.handles.is_open(SOURCE) => {}
            _ => return Step::Nothing,
        }
        if !session.takes_handle() {
            return Step::Full;
        }
        self.step = TargetStep::Write;
        let cut = match self.in_place {
            true => 0,
            false => open_flag::TRUNCATE,
        };
        let mode = self.item.attributes.permissions.unwrap_or(0o666) & 0o777;
        let open = request::Open {
            path: &self.item.to,
            flags: open_flag::WRITE | open_flag::CREATE | cut,
            attributes: session.sole_writer(Attributes::with_permissions(mode)),
        };
        self.copy.open(TARGET, session, open);
        Step::Sent { more: false }
    }

    /// What the target gets before CLOSE: mode and times, or the length that is certainly written.
    fn last_attributes(&self) -> Attributes {
        let mut attributes = Attributes::NONE;
        match self.copy.has_failed() {
            // The target may be the only copy: keep it.
            true if self.in_place => {}
            true => attributes.size = Some(self.bad_from.min(self.written_to)),
            false if self.preserve => {
                attributes.permissions = self.item.attributes.permissions.map(|mode| mode & 0o777);
                attributes.times = self.item.attributes.times;
            }
            false => {}
        }
        attributes
    }
}

/// The work that copies the items.
pub struct Relay<'r> {
    items: VecDeque<RelayItem>,
    files: Files<&'r mut dyn Report, RelayJob>,
    preserve: bool,
    held: Held,
}

impl<'r> Relay<'r> {
    /// Creates a work that copies `items`; with `preserve`, modes and times too. Items that cannot
    /// be regular files fail at once.
    pub fn new(
        items: Vec<RelayItem>,
        preserve: bool,
        limit_bytes: u64,
        report: &'r mut dyn Report,
    ) -> Self {
        let mut work = Self {
            items: VecDeque::new(),
            files: Files::new(items.len(), 2, limit_bytes, report),
            preserve,
            held: Held::default(),
        };
        for item in items {
            match impossible_size(&item.attributes) {
                Some(error) => {
                    let from = text::name(&item.from);
                    let error = format!("read remote \"{from}\": {error}");
                    work.files.ended(item.from, &item.to, 0, Some(error));
                }
                None => work.items.push_back(item),
            }
        }
        work
    }
}

impl<'r> FileWork for Relay<'r> {
    type Report = &'r mut dyn Report;
    type Job = RelayJob;
    const DISK: Option<Disk> = Some(Disk::Neither);

    fn files(&self) -> &Files<Self::Report, RelayJob> {
        &self.files
    }

    fn files_mut(&mut self) -> &mut Files<Self::Report, RelayJob> {
        &mut self.files
    }

    fn begin_next(&mut self, link: usize, session: &mut Session) -> bool {
        let next = self.items.front();
        let may = next.is_some_and(|next| !self.files.is_written(&next.to));
        if !may || link != SOURCE || !self.files.takes_more(session) {
            return false;
        }
        let Some(item) = self.items.pop_front() else {
            return false;
        };
        self.files.take_target(&item.to);
        let name = item.from.clone();
        let size = item.attributes.size.filter(|size| *size > 0);
        let (preserve, held) = (self.preserve, &self.held);
        let id = self.files.begin(SOURCE, (&name, size), |id| {
            let copy = FileCopy::new(id, None, vec![SOURCE, TARGET]);
            RelayJob::new(copy, item, preserve, held.clone())
        });
        self.files.wake(TARGET, Subject::File(id));
        true
    }

    fn has_more(&self) -> bool {
        !self.items.is_empty()
    }

    fn stop_others(&mut self) {
        self.items.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Heard(Vec<String>);

    impl Report for Heard {
        fn ends(&mut self, result: &FileResult) {
            self.0.extend(result.error.clone());
        }
        fn fails(&mut self, line: &str) {
            self.0.push(line.to_owned());
        }
        fn says(&mut self, _line: &str) {}
    }

    #[test]
    fn a_size_that_no_file_has_is_refused() {
        let mut heard = Heard::default();
        let items = [1 << 63, u64::MAX, 1].map(|size| RelayItem {
            from: b"/f".to_vec(),
            to: b"/t".to_vec(),
            attributes: Attributes {
                size: Some(size),
                ..Attributes::NONE
            },
        });
        let work = Relay::new(items.into(), false, 0, &mut heard);
        assert_eq!((work.files.failures, work.items.len()), (2, 1));
        assert!(heard.0.iter().all(|error| error.contains("\"/f\"")));
        assert_eq!(heard.0.len(), 2);
    }
}
