//! Copies files from one server to another through the local machine.

use std::collections::VecDeque;

use bytes::Bytes;
use sftp::message::{Reply, Request, open_flag, request};
use sftp::{Attributes, Code};

use crate::engine::{Disk, EngineError, Op, Session, Token, Work, attributes_of};
use crate::file::{FileCopy, failure};
use crate::plan::id::{FileId, Id, Subject};
use crate::plan::pace::Pace;
use crate::plan::plain;
use crate::plan::slab::Slab;
use crate::report::{FileResult, Report, Times};
use crate::step::{impossible_size, may_be_same};
use crate::text;

/// The connection to the server that has the source.
const SOURCE: usize = 0;
/// The connection to the server that gets the copy.
const TARGET: usize = 1;
/// Maximum number of files in progress.
const MAX_FILES: usize = 32;
/// Maximum number of bytes received and not sent on.
const MAX_HELD_BYTES: usize = 16 << 20;

/// A file to copy.
#[derive(Debug, Clone)]
pub struct Item {
    /// Path on the first server.
    pub from: Vec<u8>,
    /// Path on the second server.
    pub to: Vec<u8>,
    /// Attributes on the first server.
    pub attributes: Attributes,
}

#[derive(Debug)]
struct RelayJob {
    copy: FileCopy,
    item: Item,
    end: Option<u64>,
    /// STAT of the target was sent.
    looked: bool,
    /// The answer to STAT: the target's attributes, if it exists.
    there: Option<Option<Attributes>>,
    /// The target may be the source.
    in_place: bool,
    next: u64,
    at_end: bool,
    /// Data received of unfinished READs, by offset.
    arriving: Vec<(u64, Vec<u8>)>,
    to_write: VecDeque<(u64, Vec<u8>)>,
    /// Offset of the first byte that the target may not hold.
    bad_from: u64,
    written_to: u64,
    settled: bool,
}

/// The work that copies the items.
pub struct Relay<'r> {
    items: VecDeque<Item>,
    jobs: Slab<FileId, RelayJob>,
    preserve: bool,
    pace: Pace,
    held: usize,
    report: &'r mut dyn Report,
    failures: usize,
    lost: bool,
}

impl<'r> Relay<'r> {
    /// Creates a work that copies `items`; with `preserve`, modes and times too. Items that cannot
    /// be regular files fail at once.
    pub fn new(
        items: Vec<Item>,
        preserve: bool,
        limit_bytes: u64,
        report: &'r mut dyn Report,
    ) -> Self {
        let mut work = Self {
            items: VecDeque::new(),
            jobs: Slab::default(),
            preserve,
            pace: Pace::new(limit_bytes),
            held: 0,
            report,
            failures: 0,
            lost: false,
        };
        for item in items {
            match impossible_size(&item.attributes) {
                Some(error) => work.refuse(item, &error),
                None => work.items.push_back(item),
            }
        }
        work
    }

    fn refuse(&mut self, item: Item, error: &str) {
        let from = text::name(&item.from);
        self.failures += 1;
        self.report.ends(&FileResult {
            from: item.from,
            to: item.to,
            bytes: 0,
            resumed_bytes: 0,
            verified: None,
            error: Some(format!("read remote \"{from}\": {error}")),
        });
    }

    /// Number of files that failed.
    #[must_use]
    pub fn failures(&self) -> usize {
        self.failures
    }

    /// True if another file is being written to the next item's target.
    fn next_is_written(&self) -> bool {
        let Some(next) = self.items.front() else {
            return false;
        };
        let target = plain(&next.to);
        let mut jobs = self.jobs.ids().filter_map(|id| self.jobs.get(id));
        jobs.any(|job| plain(&job.item.to) == target)
    }

    fn end(&mut self, id: FileId) {
        let Some(job) = self.jobs.remove(id) else {
            return;
        };
        let to_write = job.to_write.iter().chain(&job.arriving);
        let dropped: usize = to_write.map(|(_, data)| data.len()).sum();
        self.held = self.held.saturating_sub(dropped);
        self.report.leaves(id.index());
        let result = job.copy.into_result(job.item.from, job.item.to);
        self.failures += usize::from(result.error.is_some());
        self.report.ends(&result);
    }
}

impl RelayJob {
    fn reads_done(&self) -> bool {
        self.copy.has_failed() || self.at_end || self.end.is_some_and(|end| self.next >= end)
    }

    fn idle(&self) -> bool {
        self.copy.is_idle() && (self.to_write.is_empty() || self.copy.has_failed())
    }

    fn is_over(&self) -> bool {
        self.idle() && self.copy.handles.are_closed() && self.reads_done()
    }

    /// Sends the next request to the first server.
    fn read(&mut self, session: &mut Session, held: usize, pace: &mut Pace) -> bool {
        if self.copy.handles.is_unopened(SOURCE) {
            if !session.takes_handle() {
                return false;
            }
            self.copy.open_to_read(SOURCE, session, &self.item.from);
            return true;
        }
        let Some(handle) = self.copy.handles.open(SOURCE) else {
            return false;
        };
        if self.reads_done() {
            if !self.copy.is_idle() || !self.to_write.is_empty() && !self.copy.has_failed() {
                return false;
            }
            self.copy.close(SOURCE, session);
            return true;
        }
        // Read only once the target is open or refused.
        if !self.copy.handles.is_open(TARGET)
            || held >= MAX_HELD_BYTES
            || !session.takes_read()
            || !pace.lets_go()
        {
            return false;
        }
        if self.end.is_none() && !self.copy.is_idle() {
            return false;
        }
        let left = self.end.map_or(u64::MAX, |end| end - self.next);
        let len = u32::try_from(left)
            .unwrap_or(u32::MAX)
            .min(session.server().max_read);
        let request = Request::Read(request::Read {
            handle: &handle,
            offset: self.next,
            len,
        });
        self.copy
            .send_data(session, Op::Read, (self.next, len), &request);
        pace.went(u64::from(len));
        self.next += u64::from(len);
        true
    }

    /// Sends the next request to the second server.
    fn write(&mut self, session: &mut Session, preserve: bool, held: &mut usize) -> bool {
        if !self.looked {
            if !session.takes_request() {
                return false;
            }
            self.looked = true;
            let path = &self.item.to;
            self.copy
                .send(session, Op::Stat, &Request::Stat(request::Stat { path }));
            return true;
        }
        if self.copy.handles.is_unopened(TARGET) {
            // OPEN truncates the target: not before the source is open.
            let is_open = self.copy.handles.is_open(SOURCE);
            let Some(there) = self.there.filter(|_| is_open) else {
                return false;
            };
            if !session.takes_handle() {
                return false;
            }
            self.in_place = may_be_same(&self.item.attributes, there.as_ref());
            let cut = if self.in_place {
                0
            } else {
                open_flag::TRUNCATE
            };
            let mode = self.item.attributes.permissions.unwrap_or(0o666) & 0o777;
            let attributes = Attributes::with_permissions(mode);
            let open = request::Open {
                path: &self.item.to,
                flags: open_flag::WRITE | open_flag::CREATE | cut,
                attributes: session.sole_writer(attributes),
            };
            self.copy.open(TARGET, session, open);
            return true;
        }
        let Some(handle) = self.copy.handles.open(TARGET) else {
            return false;
        };
        if !self.copy.has_failed()
            && session.takes_write()
            && let Some((offset, mut data)) = self.to_write.pop_front()
        {
            let max = usize::try_from(session.server().max_write).unwrap_or(usize::MAX);
            if data.len() > max {
                let rest = data.split_off(max);
                let behind = offset + u64::try_from(data.len()).unwrap_or_default();
                self.to_write.push_front((behind, rest));
            }
            *held = held.saturating_sub(data.len());
            let len = u32::try_from(data.len()).unwrap_or(u32::MAX);
            let request = Request::Write(request::Write {
                handle: &handle,
                offset,
                data: &data,
            });
            self.copy
                .send_data(session, Op::Write, (offset, len), &request);
            self.written_to = self.written_to.max(offset + u64::from(len));
            return true;
        }
        if !self.reads_done() || !self.idle() {
            return false;
        }
        if !std::mem::replace(&mut self.settled, true) {
            let mut attributes = Attributes::NONE;
            if self.copy.has_failed() && self.in_place {
                // The target may be the only copy: keep it.
            } else if self.copy.has_failed() {
                attributes.size = Some(self.bad_from.min(self.written_to));
            } else if preserve {
                attributes.permissions = self.item.attributes.permissions.map(|mode| mode & 0o777);
                attributes.times = self.item.attributes.times;
            }
            if attributes != Attributes::NONE {
                let request = Request::Fsetstat(request::Fsetstat {
                    handle: &handle,
                    attributes,
                });
                self.copy.send(session, Op::Attributes, &request);
            }
        }
        self.copy.close(TARGET, session);
        true
    }
}

impl Work for Relay<'_> {
    fn poll(&mut self, link: usize, session: &mut Session) -> bool {
        if link > TARGET || !session.is_ready() {
            return false;
        }
        let ids: Vec<FileId> = self.jobs.ids().collect();
        for id in ids {
            let Some(job) = self.jobs.get_mut(id) else {
                continue;
            };
            let sent = match link {
                SOURCE => job.read(session, self.held, &mut self.pace),
                _ => job.write(session, self.preserve, &mut self.held),
            };
            if sent {
                return true;
            }
        }
        if link == SOURCE
            && self.jobs.len() < MAX_FILES
            && !self.next_is_written()
            && let Some(item) = self.items.pop_front()
        {
            let end = item.attributes.size.filter(|size| *size > 0);
            let name = item.from.clone();
            let id = self.jobs.insert_with(|id| RelayJob {
                copy: FileCopy::new(id, None, vec![SOURCE, TARGET]),
                item,
                end,
                looked: false,
                there: None,
                in_place: false,
                next: 0,
                at_end: false,
                arriving: Vec::new(),
                to_write: VecDeque::new(),
                bad_from: u64::MAX,
                written_to: 0,
                settled: false,
            });
            self.report.begins(id.index(), &name, end);
            return true;
        }
        false
    }

    fn reply(&mut self, link: usize, session: &mut Session, token: Token, reply: &Reply<'_>) {
        let Some(id) = Subject::file(token.job) else {
            return;
        };
        let Some(job) = self.jobs.get_mut(id) else {
            return;
        };
        job.copy.answered();
        let from = text::name(&job.item.from);
        let to = text::name(&job.item.to);
        let failed = failure(reply);
        let mut moved = 0;
        match (token.op, reply, failed) {
            (Op::Stat, reply, _) => job.there = Some(attributes_of(reply)),
            (Op::Open, Reply::Handle(handle), _) => {
                job.copy.handles.opened(link, handle.handle.to_vec());
            }
            (Op::Open, _, failed) => {
                session.handle_ends();
                let why = failed.map_or("the answer has no handle".to_owned(), |(_, why)| why);
                let error = match link {
                    SOURCE => format!("remote open \"{from}\": {why}"),
                    _ => format!("dest open \"{to}\": {why}"),
                };
                job.copy.fail(error);
                // Without a source the target is not touched.
                job.copy.handles.refused(link);
                if link == SOURCE {
                    job.copy.handles.refused(TARGET);
                }
                job.looked = true;
                job.bad_from = 0;
            }
            (Op::Read, _, Some((Code::EOF, _))) => {
                job.at_end = true;
                if job.end.is_some_and(|end| token.offset < end) {
                    job.copy.fail(format!(
                        "read remote \"{from}\": file changed while it was copied"
                    ));
                }
            }
            (Op::Read, _, failed) => {
                let why = failed.map(|(_, why)| why).unwrap_or_default();
                job.copy.fail(format!("read remote \"{from}\": {why}"));
            }
            (Op::Write, _, None) => {
                moved = u64::from(token.len);
                job.copy.moved += moved;
            }
            (Op::Write, _, Some((_, why))) => {
                job.bad_from = job.bad_from.min(token.offset);
                job.copy.fail(format!("write remote \"{to}\": {why}"));
            }
            (Op::Close, _, failed) => {
                session.handle_ends();
                if let (TARGET, Some((_, why))) = (link, failed) {
                    job.copy.fail(format!("close remote \"{to}\": {why}"));
                }
            }
            (Op::Attributes, _, Some((_, why))) => {
                job.copy.fail(format!("remote fsetstat \"{to}\": {why}"));
            }
            _ => {}
        }
        let over = job.is_over();
        if moved > 0 {
            self.report.moved(id.index(), moved);
        }
        if over {
            self.end(id);
        }
    }

    fn data(&mut self, _link: usize, token: Token, _at: u32, bytes: &Bytes) {
        self.held += bytes.len();
        if let Some(job) = Subject::file(token.job).and_then(|id| self.jobs.get_mut(id)) {
            match job
                .arriving
                .iter_mut()
                .find(|(offset, _)| *offset == token.offset)
            {
                Some((_, gathered)) => gathered.extend_from_slice(bytes),
                None => job.arriving.push((token.offset, bytes.to_vec())),
            }
        }
    }

    fn data_ends(&mut self, _link: usize, _session: &mut Session, token: Token, len: u32) {
        let Some(id) = Subject::file(token.job) else {
            return;
        };
        let Some(job) = self.jobs.get_mut(id) else {
            return;
        };
        job.copy.answered();
        let at = job
            .arriving
            .iter()
            .position(|(offset, _)| *offset == token.offset);
        if let Some(at) = at {
            let arrived = job.arriving.swap_remove(at);
            job.to_write.push_back(arrived);
        }
        if job.end.is_none() {
            job.next = token.offset + u64::from(len);
        } else if len < token.len {
            job.copy.fail(format!(
                "read remote \"{}\": the server sent less than requested",
                text::name(&job.item.from)
            ));
        }
        if job.copy.has_failed() {
            let dropped: usize = job.to_write.drain(..).map(|(_, data)| data.len()).sum();
            self.held = self.held.saturating_sub(dropped);
        }
    }

    fn is_done(&self) -> bool {
        self.lost || (self.items.is_empty() && self.jobs.is_empty())
    }

    fn wakes_at(&self) -> Option<std::time::Instant> {
        self.pace.wakes_at()
    }

    fn disk(&self) -> Option<Disk> {
        Some(Disk::Neither)
    }

    fn tick(&mut self, times: &Times) {
        self.report.tick(times);
    }

    fn lost(&mut self, why: &EngineError) {
        self.lost = true;
        let open: Vec<FileId> = self.jobs.ids().collect();
        for id in open {
            if let Some(job) = self.jobs.get_mut(id) {
                let error = format!("write remote \"{}\": {why}", text::name(&job.item.to));
                job.copy.fail(error);
            }
            self.end(id);
        }
        self.failures = self.failures.max(1);
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
        let items = [1 << 63, u64::MAX, 1].map(|size| Item {
            from: b"/f".to_vec(),
            to: b"/t".to_vec(),
            attributes: Attributes {
                size: Some(size),
                ..Attributes::NONE
            },
        });
        let work = Relay::new(items.into(), false, 0, &mut heard);
        assert_eq!((work.failures(), work.items.len()), (2, 1));
        assert!(heard.0.iter().all(|error| error.contains("\"/f\"")));
        assert_eq!(heard.0.len(), 2);
    }
}
