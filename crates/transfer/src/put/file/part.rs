//! The part file of one copy at the server: created under a name of its own, continued if an
//! earlier copy of the same source left it, and renamed to its target or removed.
//!
//! Invariants: no existing file is opened unless it is known to be a regular file of the user that
//! the copy runs as at the server; nothing is written to it unless it begins as the source does,
//! since it may be another name of a different file; a continued part is never truncated below its
//! length, so that a second copy of the same source, which writes the same bytes to it, loses
//! nothing.

use sftp::Attributes;
use sftp::attributes::mode;
use sftp::extension::{self, Extended};
use sftp::message::{Reply, Request, open_flag, request};

use super::UploadJob;
use super::stage::{FinishStep, Naming, PartName, PrepareStep, UploadStage};
use crate::engine::{Op, Session};
use crate::options::Resume;
use crate::part::beside;
use crate::step::Step;

impl UploadJob {
    /// Processes the attributes of the part's first name, before anything is opened.
    pub(super) fn part_looked(&mut self) {
        let fits = |there: &Attributes| {
            there.is(mode::REGULAR) && there.owner.is_some() && there.size > Some(0)
        };
        if let UploadStage::Prepare(prepare) = &mut self.stage
            && let Some(part) = &mut prepare.ends.part
            && let Some(there) = prepare.there.take()
        {
            part.candidate = Some(there).filter(fits);
            part.rename(&self.item.to);
        }
    }

    /// OPEN of the part was refused; returns true if another name is tried. Version 3 has no status
    /// code for "already exists".
    pub(super) fn opens_another_part(&mut self) -> bool {
        let UploadStage::Prepare(prepare) = &mut self.stage else {
            return false;
        };
        let Some(part) = &mut prepare.ends.part else {
            return false;
        };
        let is_opening = matches!(prepare.step, PrepareStep::Opening);
        // Another copy has renamed or removed a part that was taken since STAT.
        let again = part.name != PartName::Random && is_opening && !self.copy.has_failed();
        if again {
            part.rename(&self.item.to);
            prepare.there = None;
            prepare.step = PrepareStep::ToOpen;
            self.copy.handles.reset();
            self.copy.wake_first();
        }
        again
    }

    /// Sends FSTAT of the new part, whose owner is the user at the server.
    pub(super) fn compare(&mut self, session: &mut Session) -> Step {
        let UploadStage::Prepare(prepare) = &mut self.stage else {
            return Step::Nothing;
        };
        let Some(handle) = self.copy.handles.first() else {
            return Step::Nothing;
        };
        prepare.step = PrepareStep::Comparing;
        let request = Request::Fstat(request::Fstat { handle: &handle });
        self.copy.send(session, Op::Owner, &request);
        Step::Sent { more: false }
    }

    pub(super) fn compared(&mut self, reply: &Reply<'_>) {
        let UploadStage::Prepare(prepare) = &mut self.stage else {
            return;
        };
        let Some(part) = &mut prepare.ends.part else {
            return;
        };
        if !matches!(prepare.step, PrepareStep::Comparing) {
            return;
        }
        let fresh = match reply {
            Reply::Attrs(fresh) => Some(fresh),
            _ => None,
        };
        let user = |attributes: &Attributes| attributes.owner.map(|owner| owner.uid);
        let ours = fresh.and_then(user);
        let theirs = part.candidate.as_ref().and_then(user);
        if ours.is_some() && ours == theirs {
            // An existing part has the mode that its copy set.
            let mode = fresh.and_then(|fresh| fresh.permissions);
            let mode = mode.map(|mode| mode & 0o777);
            prepare.ends.replaced_mode = prepare.ends.replaced_mode.or(mode);
            prepare.step = PrepareStep::ToTake;
        } else {
            part.candidate = None;
            self.opened();
        }
        self.copy.wake_first();
    }

    /// Closes and removes the part that is open; returns false if none is.
    fn drop_part(&mut self, session: &mut Session) -> bool {
        let UploadStage::Prepare(prepare) = &self.stage else {
            return false;
        };
        let Some(handle) = self.copy.handles.first() else {
            return false;
        };
        session.close_read(&handle);
        let path = prepare.ends.path(&self.item);
        let request = Request::Remove(request::Remove { path });
        self.copy.send(session, Op::Remove, &request);
        self.copy.handles.reset();
        true
    }

    /// Gives up the new part for the existing one.
    pub(super) fn take(&mut self, link: usize, session: &mut Session) -> Step {
        if !self.drop_part(session) {
            return Step::Nothing;
        }
        let UploadStage::Prepare(prepare) = &mut self.stage else {
            return Step::Nothing;
        };
        let Some(part) = &mut prepare.ends.part else {
            return Step::Nothing;
        };
        part.path = beside(&self.item.to, &part.names.first());
        part.name = PartName::Taken;
        prepare.there = part.candidate.take();
        prepare.step = PrepareStep::Opening;
        let open = request::Open {
            path: &part.path,
            flags: open_flag::READ | open_flag::WRITE,
            attributes: Attributes::NONE,
        };
        self.copy.open(link, session, open);
        Step::Sent { more: false }
    }

    /// Removes the existing part, which does not help, and creates a new one. Version 3 does not
    /// report the link count of a file: if the part has another name, its content remains there.
    pub(super) fn leave(&mut self, session: &mut Session) -> Step {
        if !self.drop_part(session) {
            return Step::Nothing;
        }
        if let UploadStage::Prepare(prepare) = &mut self.stage
            && let Some(part) = &mut prepare.ends.part
        {
            part.rename(&self.item.to);
            prepare.there = None;
            prepare.step = PrepareStep::ToOpen;
        }
        Step::Sent { more: true }
    }

    /// Renames the part to its target, or removes it.
    pub(super) fn settle(&mut self, session: &mut Session) -> Step {
        let UploadStage::Finish(finish) = &mut self.stage else {
            return Step::Nothing;
        };
        let Some(part) = &finish.part else {
            return Step::Nothing;
        };
        // Keep a part only under its first name, by which a later copy finds it, and not without
        // resuming or after RENAME failed.
        let stays = self.options.resume != Resume::Never
            && part.name != PartName::Random
            && finish.naming != Naming::Refused;
        finish.step = FinishStep::Moving;
        if !self.copy.has_failed() {
            finish.naming = Naming::Sent;
            self.give_name(session);
        } else if stays || finish.naming == Naming::Removed {
            self.stage = UploadStage::Over;
            return Step::Over;
        } else {
            finish.naming = Naming::Removed;
            let request = Request::Remove(request::Remove { path: &part.path });
            self.copy.send(session, Op::Remove, &request);
        }
        Step::Sent { more: false }
    }

    /// Sends RENAME of the part to its target.
    pub(super) fn give_name(&mut self, session: &mut Session) {
        let UploadStage::Finish(finish) = &self.stage else {
            return;
        };
        let Some(part) = &finish.part else { return };
        let (old, new) = (&part.path, &self.item.to);
        if session.server().has(extension::POSIX_RENAME, "1") {
            let request = Extended::PosixRename(extension::PosixRename { old, new });
            self.copy
                .send(session, Op::Rename, &Request::Extended(request));
        } else {
            let request = Request::Remove(request::Remove { path: new });
            self.copy.send(session, Op::Remove, &request);
            let request = Request::Rename(request::Rename { old, new });
            self.copy.send(session, Op::Rename, &request);
        }
    }

    /// RENAME was refused.
    pub(super) fn rename_refused(&mut self, why: &str) {
        let UploadStage::Finish(finish) = &mut self.stage else {
            return;
        };
        finish.naming = Naming::Refused;
        let path = finish
            .part
            .as_ref()
            .map(|part| crate::text::name(&part.path));
        let path = path.unwrap_or_default();
        self.copy.fail(format!("rename remote \"{path}\": {why}"));
    }
}
