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

use super::{UploadJob, UploadStage};
use crate::engine::{Op, Session};
use crate::options::Resume;
use crate::part::beside;
use crate::step::Step;

/// Which of its names a part file has, and how it was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartName {
    /// The name by which a later copy of the same source finds it.
    First,
    /// A random name, because the first was in use.
    Random,
    /// The first name, of a part that another copy created.
    Taken,
}

impl UploadJob {
    /// Continues under a random name.
    fn rename_part(&mut self) {
        if let Some(names) = &self.names {
            self.path = beside(&self.item.to, &names.another());
        }
        self.part = PartName::Random;
        self.there = None;
    }

    /// Processes the attributes of the part's first name, before anything is opened.
    pub(super) fn part_looked(&mut self) {
        let fits = |there: &Attributes| {
            there.is(mode::REGULAR) && there.owner.is_some() && there.size > Some(0)
        };
        if self.there.is_some() {
            self.candidate = self.there.take().filter(fits);
            self.rename_part();
        }
        self.stage = UploadStage::ToOpen;
        self.copy.wake_first();
    }

    /// OPEN of the part was refused; returns true if another name is tried. Version 3 has no status
    /// code for "already exists".
    pub(super) fn opens_another_part(&mut self) -> bool {
        let again = match self.part {
            _ if !self.temporary
                || self.stage != UploadStage::Opening
                || self.copy.has_failed() =>
            {
                false
            }
            PartName::First => true,
            // Another copy has renamed or removed the part since STAT.
            PartName::Taken => true,
            PartName::Random => false,
        };
        if again {
            self.rename_part();
            self.copy.handles.reset();
            self.stage = UploadStage::ToOpen;
            self.copy.wake_first();
        }
        again
    }

    /// Sends FSTAT of the new part, whose owner is the user at the server.
    pub(super) fn compare(&mut self, session: &mut Session) -> Step {
        let Some(handle) = self.handle() else {
            return Step::Nothing;
        };
        self.stage = UploadStage::Comparing;
        let request = Request::Fstat(request::Fstat { handle: &handle });
        self.copy.send(session, Op::Owner, &request);
        Step::Sent { more: false }
    }

    pub(super) fn compared(&mut self, reply: &Reply<'_>) {
        if self.stage != UploadStage::Comparing {
            return;
        }
        let user = |attributes: &Attributes| attributes.owner.map(|owner| owner.uid);
        let ours = match reply {
            Reply::Attrs(fresh) => user(fresh),
            _ => None,
        };
        let theirs = self.candidate.as_ref().and_then(user);
        if ours.is_some() && ours == theirs {
            // An existing part has the mode that its copy set.
            let fresh = match reply {
                Reply::Attrs(fresh) => fresh.permissions.map(|mode| mode & 0o777),
                _ => None,
            };
            self.target_mode = self.target_mode.or(fresh);
            self.stage = UploadStage::ToTake;
        } else {
            self.candidate = None;
            self.opened();
        }
        self.copy.wake_first();
    }

    /// Gives up the new part for the existing one.
    pub(super) fn take(&mut self, link: usize, session: &mut Session) -> Step {
        let Some(fresh) = self.handle() else {
            return Step::Nothing;
        };
        session.close_read(&fresh);
        let path = &self.path;
        self.copy.send(
            session,
            Op::Remove,
            &Request::Remove(request::Remove { path }),
        );
        if let Some(names) = &self.names {
            self.path = beside(&self.item.to, &names.first());
        }
        self.part = PartName::Taken;
        self.there = self.candidate.take();
        self.stage = UploadStage::Opening;
        let open = request::Open {
            path: &self.path,
            flags: open_flag::READ | open_flag::WRITE,
            attributes: Attributes::NONE,
        };
        self.copy.open(link, session, open);
        Step::Sent { more: false }
    }

    /// Removes the existing part, which does not help, and creates a new one. Version 3 does not
    /// report the link count of a file: if the part has another name, its content remains there.
    pub(super) fn leave(&mut self, session: &mut Session) -> Step {
        let Some(taken) = self.handle() else {
            return Step::Nothing;
        };
        session.close_read(&taken);
        let path = &self.path;
        self.copy.send(
            session,
            Op::Remove,
            &Request::Remove(request::Remove { path }),
        );
        self.rename_part();
        self.copy.handles.reset();
        self.stage = UploadStage::ToOpen;
        Step::Sent { more: true }
    }

    /// Every answer has arrived and every handle is closed.
    pub(super) fn closed(&mut self) -> Step {
        let is_made = self.copy.handles.was_opened();
        let is_left = !self.named || self.copy.has_failed();
        if self.temporary && is_made && is_left {
            self.stage = UploadStage::ToMove;
            self.copy.wake_first();
            return Step::Nothing;
        }
        self.stage = UploadStage::Over;
        Step::Over
    }

    /// Renames the part to its target, or removes it.
    pub(super) fn settle(&mut self, session: &mut Session) -> Step {
        // Keep a part only under its first name, by which a later copy finds it, and not without
        // resuming or after RENAME failed.
        let stays = self.options.resume != Resume::Never
            && self.part != PartName::Random
            && !self.stays_unnamed;
        self.stage = UploadStage::Moving;
        if !self.copy.has_failed() {
            self.give_name(session);
        } else if stays || std::mem::replace(&mut self.removed, true) {
            self.stage = UploadStage::Over;
            return Step::Over;
        } else {
            let request = Request::Remove(request::Remove { path: &self.path });
            self.copy.send(session, Op::Remove, &request);
        }
        Step::Sent { more: false }
    }

    pub(super) fn give_name(&mut self, session: &mut Session) {
        let (old, new) = (&self.path, &self.item.to);
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
}
