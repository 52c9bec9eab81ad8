//! The stage in which data is sent, in ascending order.

use sftp::Attributes;
use sftp::extension::{self, Extended};
use sftp::message::{Request, request};
use sftp::vendor;

use super::finish::truncation;
use super::stage::{Content, Finish, FirstCut, Naming, UploadStage, Write};
use super::{UploadJob, as_usize};
use crate::engine::{Body, Op, Session};
use crate::plan::id::Subject;
use crate::plan::pace::Pace;
use crate::step::{JOINING_BYTES, Step};

impl UploadJob {
    /// Takes the stage; the caller sets the next one.
    fn take_write(&mut self) -> Option<Write> {
        match self.stage.take() {
            UploadStage::Write(write) => Some(write),
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// Sends the next data, or what ends the copy.
    pub(super) fn write(&mut self, link: usize, session: &mut Session, pace: &mut Pace) -> Step {
        let first = self.copy.handles.is_first(link);
        if self.copy.has_failed() {
            if let Some(write) = self.take_write() {
                self.stage = write.cut();
            }
            return match self.copy.is_idle() {
                true if first => self.cut(session),
                _ => self.copy.leave_to_first(),
            };
        }
        let UploadStage::Write(write) = &mut self.stage else {
            return Step::Nothing;
        };
        if self.copy.handles.is_unopened(link) {
            // The rest is sent faster without another connection.
            return match self.end.saturating_sub(write.next) < JOINING_BYTES {
                true => self.copy.leave_to_first(),
                false => self.join(link, session),
            };
        }
        let Some(handle) = self.copy.handles.open(link) else {
            return Step::Nothing;
        };
        if !first && write.first_cut != FirstCut::None {
            return Step::Full;
        }
        if let FirstCut::Due(len) = write.first_cut {
            write.first_cut = FirstCut::Sent;
            self.copy
                .send(session, Op::Truncate, &truncation(&handle, len));
        }
        if self.options.sparse {
            self.copy.skipped += write.skip_hole(self.end);
        }
        if write.next >= self.end {
            // Fulmar's server refuses writes that would leave a hole after a failed WRITE, so
            // nothing has to be truncated: what ends the copy need not wait for answers.
            let in_flight = self.copy.handles.len() == 1
                && !write.cut_at_end
                && session.server().has(vendor::PUT_FILE, "1");
            return match self.copy.is_idle() {
                true if first => self.end_data(session),
                _ if in_flight => self.end_data(session),
                _ => self.copy.leave_to_first(),
            };
        }
        if !session.takes_write() || !pace.lets_go() {
            return Step::Full;
        }
        self.send_data(&handle, session, pace)
    }

    /// Opens the file on another connection.
    fn join(&mut self, link: usize, session: &mut Session) -> Step {
        let UploadStage::Write(write) = &self.stage else {
            return Step::Nothing;
        };
        if !session.takes_handle() {
            return Step::Full;
        }
        let open = request::Open {
            path: write.ends.path(&self.item),
            flags: sftp::message::open_flag::WRITE,
            attributes: write.ends.attributes(session),
        };
        self.copy.open(link, session, open);
        Step::Sent { more: false }
    }

    fn send_data(&mut self, handle: &[u8], session: &mut Session, pace: &mut Pace) -> Step {
        let UploadStage::Write(write) = &mut self.stage else {
            return Step::Nothing;
        };
        let offset = write.next;
        let until = write.data_end.unwrap_or(self.end).min(self.end);
        let len = (until - offset).min(u64::from(session.server().max_write));
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        match &write.ends.local.content {
            Content::Small(small) => {
                let data = small.get(as_usize(offset)..).unwrap_or_default();
                let request = Request::Write(request::Write {
                    handle,
                    offset,
                    data: data.get(..as_usize(u64::from(len))).unwrap_or(data),
                });
                self.copy
                    .send_data(session, Op::Write, (offset, len), &request);
            }
            Content::File(source) => {
                let body = Body {
                    file: source.file().clone(),
                    offset,
                    len,
                    job: Subject::File(self.copy.id()).number(),
                };
                self.copy.sent();
                let token = self.copy.id().data_token(Op::Write, offset, len);
                session.send_file(token, handle, offset, body);
            }
        }
        pace.went(u64::from(len));
        write.next += u64::from(len);
        if write.next >= self.end && write.ends.local.file().is_none() {
            // That was all the data: the rest goes in the same flight.
            return self.end_data(session);
        }
        Step::Sent { more: true }
    }

    /// All data was sent: sends length, attributes and CLOSE in one flight.
    fn end_data(&mut self, session: &mut Session) -> Step {
        let Some(handle) = self.copy.handles.first() else {
            return Step::Nothing;
        };
        let Some(write) = self.take_write() else {
            return Step::Nothing;
        };
        let local = &write.ends.local;
        // A copy onto itself changes the modification time.
        let times = !write.ends.in_place;
        if let Some(Err(why)) = local.file().map(|source| source.check_unchanged(times)) {
            let from = self.shown_from();
            self.copy.fail(format!("read local \"{from}\": {why}"));
            // The content after the common beginning is unknown: keep the beginning only.
            self.stage = write.cut();
            return match self.copy.is_idle() {
                true => self.cut(session),
                false => Step::Nothing,
            };
        }
        if write.cut_at_end {
            self.copy
                .send(session, Op::Truncate, &truncation(&handle, self.end));
        }
        let handle = handle.as_slice();
        if local.file().is_some() {
            let request = Request::Fstat(request::Fstat { handle });
            self.copy.send(session, Op::Fstat, &request);
        }
        let attributes = match write.ends.replaced_mode {
            _ if self.options.preserve => Some(local.kept(session)),
            // The server's umask may have cleared bits.
            mode => mode.map(Attributes::with_permissions),
        };
        if let Some(attributes) = attributes {
            let request = Request::Fsetstat(request::Fsetstat { handle, attributes });
            self.copy.send(session, Op::Attributes, &request);
        }
        if self.options.sync && session.server().has(extension::FSYNC, "1") {
            let request = Extended::Fsync(extension::Fsync { handle });
            self.copy
                .send(session, Op::Sync, &Request::Extended(request));
        }
        self.copy.close_all(session);
        let mut finish = Finish::new(write.ends.part);
        if finish.part.is_some() && self.is_named_in_flight(session) {
            finish.naming = Naming::Sent;
        }
        let is_named = finish.naming == Naming::Sent;
        self.stage = UploadStage::Finish(finish);
        if is_named {
            self.give_name(session);
        }
        Step::Sent { more: false }
    }

    /// True if a part written over several connections is renamed without waiting for the answer to
    /// CLOSE. Fulmar's server has confirmed every write and handles requests in order.
    fn is_named_in_flight(&self, session: &Session) -> bool {
        !self.options.atomic
            && session.server().has(vendor::PUT_FILE, "1")
            && session.server().has(extension::POSIX_RENAME, "1")
    }

    /// A truncation was answered: the other connections write too.
    pub(super) fn truncated(&mut self) {
        if let UploadStage::Write(write) = &mut self.stage
            && write.first_cut == FirstCut::Sent
        {
            write.first_cut = FirstCut::None;
            self.copy.wake_all();
        }
    }
}
