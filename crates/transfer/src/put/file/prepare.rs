//! The stage in which the target is looked up, opened and, if the copy resumes, compared.

use sftp::Attributes;
use sftp::message::{Reply, open_flag, request};

use super::UploadJob;
use super::stage::{Cut, FirstCut, Prepare, PrepareStep, UploadStage, Write};
use crate::engine::{Session, Token};
use crate::file::Proof;
use crate::options::Resume;
use crate::source::Source;
use crate::step::Step;

impl UploadJob {
    /// Sends the next request for the target.
    pub(super) fn prepare(&mut self, link: usize, session: &mut Session) -> Step {
        let UploadStage::Prepare(prepare) = &self.stage else {
            return Step::Nothing;
        };
        match prepare.step {
            PrepareStep::ToOpen if self.copy.has_failed() => {
                // The job was interrupted before anything was opened.
                if !self.copy.is_idle() {
                    return Step::Nothing;
                }
                self.stage = UploadStage::Over;
                Step::Over
            }
            PrepareStep::ToOpen => self.open(link, session),
            PrepareStep::ToCompare => self.compare(session),
            PrepareStep::ToTake => self.take(link, session),
            PrepareStep::ToProve => self.prove(session),
            PrepareStep::ToLeave => self.leave(session),
            PrepareStep::Looking
            | PrepareStep::Opening
            | PrepareStep::Comparing
            | PrepareStep::Proving(_) => Step::Nothing,
        }
    }

    /// Processes the attributes of the target.
    pub(super) fn looked(&mut self, there: Option<&Attributes>) {
        let UploadStage::Prepare(prepare) = &mut self.stage else {
            return;
        };
        prepare.there = there.copied().or(prepare.there);
        if !matches!(prepare.step, PrepareStep::Looking) {
            return;
        }
        prepare.step = PrepareStep::ToOpen;
        let there = prepare.size_there();
        if prepare.ends.part.is_some() {
            self.part_looked();
        } else if self.options.resume == Resume::BySize && there >= self.end && there > 0 {
            // OpenSSH's text.
            self.copy
                .fail("destination file bigger or same size as source file".to_owned());
            self.stage = UploadStage::Over;
            return;
        }
        self.copy.wake_first();
    }

    fn open(&mut self, link: usize, session: &mut Session) -> Step {
        let UploadStage::Prepare(prepare) = &mut self.stage else {
            return Step::Nothing;
        };
        if !session.takes_handle() {
            return Step::Full;
        }
        let mut flags = open_flag::WRITE | open_flag::CREATE;
        if prepare.ends.part.is_some() {
            // No existing file is touched.
            flags |= open_flag::EXCLUSIVE;
        } else if prepare.cuts_on_open {
            flags |= open_flag::TRUNCATE;
        } else if self.options.resume == Resume::Proven && prepare.size_there() > 0 {
            flags |= open_flag::READ;
        }
        prepare.step = PrepareStep::Opening;
        let open = request::Open {
            path: prepare.ends.path(&self.item),
            flags,
            attributes: prepare.ends.attributes(session),
        };
        self.copy.open(link, session, open);
        Step::Sent { more: false }
    }

    /// Advances the stage once every request was answered.
    pub(super) fn prepare_goes_on(&mut self) {
        let UploadStage::Prepare(prepare) = &mut self.stage else {
            return;
        };
        match prepare.step {
            PrepareStep::Opening if !self.copy.has_failed() => {
                let part = prepare.ends.part.as_ref();
                if part.is_some_and(|part| part.candidate.is_some()) {
                    prepare.step = PrepareStep::ToCompare;
                    self.copy.wake_first();
                } else {
                    self.opened();
                }
            }
            PrepareStep::Opening if self.copy.handles.is_any_open() => {
                self.fail_prepared();
                self.copy.wake_first();
            }
            PrepareStep::Opening => self.stage = UploadStage::Over,
            PrepareStep::ToOpen if self.copy.has_failed() => self.copy.wake_first(),
            _ => {}
        }
    }

    /// The copy failed with the target open and nothing sent.
    pub(super) fn fail_prepared(&mut self) {
        match self.stage.take() {
            UploadStage::Prepare(Prepare { ends, .. }) => {
                self.stage = UploadStage::Cut(Cut::new(ends, 0));
            }
            other => self.stage = other,
        }
    }

    /// The target is open: resumes or starts.
    pub(super) fn opened(&mut self) {
        let UploadStage::Prepare(prepare) = &mut self.stage else {
            return;
        };
        let there = prepare.size_there();
        match self.options.resume {
            Resume::BySize => self.resume_at(there),
            Resume::Proven if there > 0 => {
                prepare.step = PrepareStep::ToProve;
                self.copy.wake_first();
            }
            _ if there > 0 && !prepare.cuts_on_open => {
                if prepare.may_be_the_source() {
                    prepare.ends.in_place = true;
                    self.write_from(0, FirstCut::None, there > self.end);
                } else {
                    self.write_from(0, FirstCut::Due(0), false);
                }
            }
            _ => self.write_from(0, FirstCut::None, false),
        }
    }

    /// Continues the copy at `offset`; the bytes before it are kept.
    fn resume_at(&mut self, offset: u64) {
        let UploadStage::Prepare(prepare) = &self.stage else {
            return;
        };
        let there = prepare.size_there();
        self.copy.resumed = offset;
        self.copy.skipped = offset;
        if prepare.ends.is_taken() {
            // Another copy of the same source may be writing to it.
            self.write_from(offset, FirstCut::None, there > self.end);
        } else if there > offset {
            self.write_from(offset, FirstCut::Due(offset), false);
        } else {
            self.write_from(offset, FirstCut::None, false);
        }
    }

    fn write_from(&mut self, next: u64, first_cut: FirstCut, cut_at_end: bool) {
        match self.stage.take() {
            UploadStage::Prepare(Prepare { ends, .. }) => {
                self.stage = UploadStage::Write(Write {
                    ends,
                    next,
                    bad_from: u64::MAX,
                    data_end: None,
                    first_cut,
                    cut_at_end,
                });
            }
            other => self.stage = other,
        }
        self.copy.handles.first_begins();
        // The other connections open it now that it exists.
        self.copy.wake_all();
    }

    /// Asks for hashes or the last bytes of the existing content.
    fn prove(&mut self, session: &mut Session) -> Step {
        let UploadStage::Prepare(prepare) = &mut self.stage else {
            return Step::Nothing;
        };
        let there = prepare.size_there().min(self.end);
        let Some(source) = prepare.ends.local.file() else {
            return Step::Nothing;
        };
        let local = || Some(source.file().clone());
        match Proof::begin(&mut self.copy, session, there, local) {
            Some(proof) => {
                prepare.step = PrepareStep::Proving(proof);
                Step::Sent { more: false }
            }
            None => Step::Nothing,
        }
    }

    /// The answer about the existing content is complete; `reply` is `None` for DATA.
    pub(super) fn proven(&mut self, asked: Token, reply: Option<&Reply<'_>>) {
        let UploadStage::Prepare(prepare) = &mut self.stage else {
            return;
        };
        if !matches!(prepare.step, PrepareStep::Proving(_)) {
            return;
        }
        let step = std::mem::replace(&mut prepare.step, PrepareStep::ToLeave);
        let PrepareStep::Proving(proof) = step else {
            return;
        };
        // A part file may have been written over several connections.
        let may_have_gaps = prepare.ends.part.is_some();
        let local = prepare.ends.local.file().map(Source::file);
        let good = proof.ends(asked, reply, local.map(|file| &**file), may_have_gaps);
        if good == 0 && prepare.ends.is_taken() && !self.copy.has_failed() {
            self.copy.wake_first();
            return;
        }
        self.resume_at(good);
    }
}
