//! The stages after the data: a target that could not be written completely is truncated, and a
//! part file gets its name or is removed.

use sftp::Attributes;
use sftp::extension::{self, Extended};
use sftp::message::{Request, request};

use super::UploadJob;
use super::stage::{Finish, FinishStep, Naming, UploadStage};
use crate::engine::{Op, Session};
use crate::step::Step;

impl UploadJob {
    /// After a failure: truncates the target to the bytes certainly written.
    pub(super) fn cut(&mut self, session: &mut Session) -> Step {
        let (part, in_place, sure) = match self.stage.take() {
            UploadStage::Cut(cut) => (cut.part, cut.in_place, cut.sure),
            other => {
                self.stage = other;
                return Step::Nothing;
            }
        };
        let is_target = part.is_none();
        self.stage = UploadStage::Finish(Finish::new(part));
        // First, since truncating frees space.
        self.ask_for_space(session);
        if is_target
            && !in_place
            && let Some(handle) = self.copy.handles.first()
        {
            self.copy
                .send(session, Op::Truncate, &truncation(&handle, sure));
        }
        self.copy.close_all(session);
        if self.copy.is_idle() && !self.copy.handles.is_any_open() {
            return self.closed();
        }
        Step::Sent { more: false }
    }

    /// Closes the handle of this connection; renames or removes a part file on the first one.
    pub(super) fn finish(&mut self, link: usize, session: &mut Session) -> Step {
        let UploadStage::Finish(finish) = &self.stage else {
            return Step::Nothing;
        };
        let first = self.copy.handles.is_first(link);
        match finish.step {
            FinishStep::Closing => {}
            FinishStep::ToMove if first => return self.settle(session),
            FinishStep::ToMove | FinishStep::Moving => return Step::Nothing,
        }
        if first && self.ask_for_space(session) {
            return Step::Sent { more: true };
        }
        match self.copy.close(link, session) {
            Step::Nothing if first && self.copy.is_idle() && !self.copy.handles.is_any_open() => {
                self.closed()
            }
            step => step,
        }
    }

    /// Advances the stage once every request was answered.
    pub(super) fn finish_goes_on(&mut self) {
        let UploadStage::Finish(finish) = &mut self.stage else {
            return;
        };
        match finish.step {
            FinishStep::Closing if self.ask_space => self.copy.wake_first(),
            FinishStep::Closing if self.copy.handles.is_any_open() => self.copy.wake_all(),
            FinishStep::Closing => {
                self.closed();
            }
            FinishStep::ToMove => {}
            FinishStep::Moving if finish.naming == Naming::Refused => {
                finish.step = FinishStep::ToMove;
                self.copy.wake_first();
            }
            FinishStep::Moving => self.stage = UploadStage::Over,
        }
    }

    /// Every answer has arrived and every handle is closed.
    fn closed(&mut self) -> Step {
        let is_made = self.copy.handles.was_opened();
        let has_failed = self.copy.has_failed();
        if let UploadStage::Finish(finish) = &mut self.stage
            && finish.part.is_some()
            && is_made
            && (finish.naming == Naming::Unsent || has_failed)
        {
            finish.step = FinishStep::ToMove;
            self.copy.wake_first();
            return Step::Nothing;
        }
        self.stage = UploadStage::Over;
        Step::Over
    }

    /// Asks once whether the disk is full, if that may be the cause of the failure.
    fn ask_for_space(&mut self, session: &mut Session) -> bool {
        if !std::mem::take(&mut self.ask_space) || !session.server().has(extension::STATVFS, "2") {
            return false;
        }
        let UploadStage::Finish(Finish { part, .. }) = &self.stage else {
            return false;
        };
        let path = part.as_ref().map_or(&self.item.to, |part| &part.path);
        let request = Extended::Statvfs(extension::Statvfs { path });
        self.copy
            .send(session, Op::Space, &Request::Extended(request));
        true
    }
}

/// FSETSTAT that truncates a file to this length.
pub(super) fn truncation(handle: &[u8], len: u64) -> Request<'_> {
    Request::Fsetstat(request::Fsetstat {
        handle,
        attributes: Attributes {
            size: Some(len),
            ..Attributes::NONE
        },
    })
}
