//! Processing of the answers for one file.

use sftp::attributes::mode;
use sftp::extension;
use sftp::message::Reply;
use sftp::{Attributes, Code};

use super::part::PartName;
use super::{UploadJob, UploadStage};
use crate::engine::{Op, Session, Token};
use crate::file::failure;
use crate::options::Resume;
use crate::text;

impl UploadJob {
    /// Processes an answer; returns the number of bytes that it confirms.
    pub(in crate::put) fn reply(
        &mut self,
        link: usize,
        session: &mut Session,
        asked: Token,
        reply: &Reply<'_>,
    ) -> u64 {
        self.copy.answered();
        let to = self.shown_to();
        let failed = failure(reply);
        let mut moved = 0;
        match asked.op {
            Op::Stat if self.stage == UploadStage::Target => match reply {
                Reply::Attrs(there) => self.target_known(Some(there)),
                _ => self.target_known(None),
            },
            Op::Stat => {
                if let Reply::Attrs(attributes) = reply {
                    self.there = Some(*attributes);
                }
                if self.stage == UploadStage::Looking {
                    self.looked();
                }
            }
            Op::Open => match (reply, failed) {
                (Reply::Handle(handle), _) => {
                    self.copy.handles.opened(link, handle.handle.to_vec());
                }
                (_, _) if self.opens_another_part() => session.handle_ends(),
                (_, failed) => {
                    session.handle_ends();
                    self.copy.handles.refused(link);
                    let why = failed.map_or("no handle came".to_owned(), |(_, why)| why);
                    self.copy.fail(format!("dest open \"{to}\": {why}"));
                    self.bad_from = self.bad_from.min(self.copy.resumed);
                }
            },
            Op::Write | Op::PutFile => match failed {
                None => {
                    moved = u64::from(asked.len);
                    self.copy.moved += moved;
                }
                Some((code, why)) => {
                    self.bad_from = self.bad_from.min(asked.offset);
                    self.ask_space |= code == Code::FAILURE && why == code.text();
                    let verb = match asked.op {
                        Op::PutFile if code != Code::FAILURE => "dest open",
                        _ => "write remote",
                    };
                    self.copy.fail(format!("{verb} \"{to}\": {why}"));
                }
            },
            Op::Read | Op::Hash => self.proven(asked, Some(reply)),
            Op::Fstat => self.check_length(reply),
            Op::Owner => self.compared(reply),
            Op::Space => self.check_space(reply),
            Op::Truncate => {
                if let Some((_, why)) = failed {
                    self.copy.fail(format!("truncate remote \"{to}\": {why}"));
                }
                if std::mem::take(&mut self.cutting) {
                    self.copy.wake_all();
                }
            }
            Op::Attributes => {
                if let Some((_, why)) = failed {
                    self.copy.fail(format!("remote fsetstat \"{to}\": {why}"));
                }
            }
            Op::Sync => {
                if let Some((_, why)) = failed {
                    self.copy.fail(format!("remote fsync \"{to}\": {why}"));
                }
            }
            Op::Close => {
                session.handle_ends();
                if let Some((_, why)) = failed {
                    self.copy.fail(format!("close remote \"{to}\": {why}"));
                }
            }
            Op::Rename => {
                if let Some((_, why)) = failed {
                    self.stays_unnamed = true;
                    self.copy.fail(format!(
                        "rename remote \"{}\": {why}",
                        text::name(&self.path)
                    ));
                }
            }
            _ => {}
        }
        self.go_on();
        moved
    }

    /// Advances the stage after an answer.
    fn go_on(&mut self) {
        match self.stage {
            UploadStage::Opening if self.copy.is_idle() => match self.copy.has_failed() {
                false if self.candidate.is_some() => {
                    self.stage = UploadStage::ToCompare;
                    self.copy.wake_first();
                }
                false => self.opened(),
                true if self.copy.handles.is_any_open() => {
                    self.stage = UploadStage::Cutting;
                    self.copy.wake_first();
                }
                true => self.stage = UploadStage::Over,
            },
            UploadStage::Begin | UploadStage::ToOpen
                if self.copy.is_idle() && self.copy.has_failed() =>
            {
                self.copy.wake_first();
            }
            UploadStage::Writing => {
                let over = self.next >= self.end || self.copy.has_failed();
                if over && self.copy.is_idle() {
                    self.copy.wake_first();
                } else if !self.copy.has_failed() {
                    // A connection that has just opened the file begins to write; the queues of the
                    // others have the job already.
                    self.copy.wake_opened();
                }
            }
            UploadStage::Cutting if self.copy.is_idle() => self.copy.wake_first(),
            UploadStage::Finishing | UploadStage::Closing if self.copy.is_idle() => {
                if self.ask_space {
                    self.copy.wake_first();
                } else if self.copy.handles.is_any_open() {
                    self.copy.wake_all();
                } else {
                    self.closed();
                }
            }
            UploadStage::Moving if self.copy.is_idle() && self.stays_unnamed && !self.removed => {
                self.stage = UploadStage::ToMove;
                self.copy.wake_first();
            }
            UploadStage::Moving if self.copy.is_idle() => self.stage = UploadStage::Over,
            _ => {}
        }
    }

    /// Processes the attributes of the file that the part replaces.
    pub(super) fn target_known(&mut self, there: Option<&Attributes>) {
        if let Some(there) = there
            && let Some(permissions) = there.permissions
        {
            if there.is(mode::REGULAR) || there.is(0) {
                self.target_mode = Some(permissions & 0o777);
            } else {
                self.temporary = false;
                self.path = self.item.to.clone();
                self.copy.handles.keep_first();
            }
        }
        self.stage = UploadStage::Begin;
        self.copy.wake_first();
    }

    /// The length of the target is known, before it is opened to resume.
    fn looked(&mut self) {
        if self.temporary {
            self.part_looked();
            return;
        }
        let there = self.size_there();
        if self.options.resume == Resume::BySize && there >= self.end && there > 0 {
            // OpenSSH's text.
            self.copy
                .fail("destination file bigger or same size as source file".to_owned());
            self.stage = UploadStage::Over;
            return;
        }
        self.stage = UploadStage::ToOpen;
        self.copy.wake_first();
    }

    /// The target is open: resumes or starts.
    pub(super) fn opened(&mut self) {
        let there = self.size_there();
        match self.options.resume {
            Resume::BySize => self.resume_at(there),
            Resume::Proven if there > 0 => {
                self.stage = UploadStage::ToProve;
                self.copy.wake_first();
                return;
            }
            _ if there > 0 && !self.cuts_on_open => {
                if self.may_be_the_source() {
                    self.in_place = true;
                    self.cut_at_end = there > self.end;
                } else {
                    self.cut_first = Some(0);
                }
            }
            _ => {}
        }
        self.stage = UploadStage::Writing;
        self.copy.handles.first_begins();
        // The other connections open it now that it exists.
        self.copy.wake_all();
    }

    fn resume_at(&mut self, offset: u64) {
        self.next = offset;
        self.copy.resumed = offset;
        self.copy.skipped = offset;
        if self.part == PartName::Taken {
            // Another copy of the same source may be writing to it.
            self.cut_at_end = self.size_there() > self.end;
        } else if self.size_there() > offset {
            self.cut_first = Some(offset);
        }
    }

    /// Returns true if the target may be the source itself, which truncating would destroy.
    fn may_be_the_source(&self) -> bool {
        let (Some(source), Some(there)) = (&self.source, &self.there) else {
            return false;
        };
        let seconds = u32::try_from(source.times.modified.seconds).ok();
        there.size == Some(source.len)
            && there
                .times
                .is_none_or(|times| Some(times.modified) == seconds)
    }

    /// The answer about the existing content is complete; `reply` is `None` for DATA.
    fn proven(&mut self, asked: Token, reply: Option<&Reply<'_>>) {
        // A part file may have been written over several connections.
        let may_have_gaps = self.temporary;
        let local = self.source.as_ref().map(|source| source.file().as_ref());
        let proof = self.proof.take();
        let good = proof.map_or(0, |proof| proof.ends(asked, reply, local, may_have_gaps));
        if good == 0 && self.part == PartName::Taken && !self.copy.has_failed() {
            self.stage = UploadStage::ToLeave;
            self.copy.wake_first();
            return;
        }
        self.resume_at(good);
        self.stage = UploadStage::Writing;
        self.copy.wake_all();
    }

    /// Processes the last bytes of the existing content.
    pub(in crate::put) fn data(&mut self, bytes: &[u8]) {
        if let Some(proof) = &mut self.proof {
            proof.data(bytes);
        }
    }

    /// The last bytes of the existing content have arrived.
    pub(in crate::put) fn data_ends(&mut self, asked: Token) {
        self.copy.answered();
        self.proven(asked, None);
    }

    fn check_length(&mut self, reply: &Reply<'_>) {
        let Reply::Attrs(attributes) = reply else {
            return;
        };
        let regular = attributes.permissions.is_none() || attributes.is(mode::REGULAR);
        if let Some(size) = attributes.size.filter(|_| regular)
            && size != self.end
            && !self.copy.has_failed()
        {
            let (to, end) = (self.shown_to(), self.end);
            self.copy.fail(format!(
                "write remote \"{to}\": the server holds {size} bytes where {end} were written"
            ));
        }
    }

    fn check_space(&mut self, reply: &Reply<'_>) {
        let Reply::Extended(fields) = reply else {
            return;
        };
        let Ok(there) = extension::FileSystem::decode(fields) else {
            return;
        };
        // Less than the largest WRITE, part of which may have been written.
        let left = there
            .blocks_available
            .saturating_mul(there.fragment_size.max(1));
        let full = left < u64::from(sftp::MAX_DATA_BYTES)
            || (there.files > 0 && there.files_available == 0);
        if full && let Some(error) = self.copy.error() {
            *error = format!("{error} (No space left on device)");
        }
    }
}
