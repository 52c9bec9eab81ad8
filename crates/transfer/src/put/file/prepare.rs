//! The stage in which the target is looked up, opened and, if the copy resumes, compared.

use sftp::Attributes;
use sftp::attributes::mode;
use sftp::message::{Reply, open_flag, request};

use super::begin::Local;
use super::finish::Cut;
use super::part::{PartFile, PartName};
use super::write::{FirstCut, Write};
use super::{UploadJob, UploadStage};
use crate::engine::{Session, Token};
use crate::file::Proof;
use crate::options::Resume;
use crate::put::Item;
use crate::source::Source;
use crate::step::Step;

/// The local file and the file that is written.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) local: Local,
    /// The part file that is written; `None` if the target is.
    pub(super) part: Option<PartFile>,
    /// The mode of the file that the part replaces.
    pub(super) replaced_mode: Option<u32>,
    /// The target may be the source, or is left as it is: it is not truncated.
    pub(super) in_place: bool,
}

impl Ends {
    /// The path that is written.
    pub(super) fn path<'a>(&'a self, item: &'a Item) -> &'a [u8] {
        self.part.as_ref().map_or(&item.to, |part| &part.path)
    }

    /// True if an existing part is continued.
    pub(super) fn is_taken(&self) -> bool {
        self.part
            .as_ref()
            .is_some_and(|part| part.name == PartName::Taken)
    }

    /// Mode and flags for an OPEN.
    pub(super) fn attributes(&self, session: &Session) -> Attributes {
        let attributes = self
            .replaced_mode
            .map_or_else(|| self.local.mode(), Attributes::with_permissions);
        match self.part {
            Some(_) => attributes,
            None => session.sole_writer(attributes),
        }
    }
}

/// State until data is sent.
#[derive(Debug)]
pub(super) struct Prepare {
    pub(super) ends: Ends,
    /// Attributes of the target before the copy.
    pub(super) there: Option<Attributes>,
    /// OPEN truncates the target.
    pub(super) cuts_on_open: bool,
    pub(super) step: PrepareStep,
}

#[derive(Debug)]
pub(super) enum PrepareStep {
    /// STAT of the target was sent; OPEN needs its answer.
    Looking,
    /// OPEN is due.
    ToOpen,
    Opening,
    /// FSTAT of the new part is due, to compare its owner with that of an existing part.
    ToCompare,
    Comparing,
    /// The existing part is to be opened in place of the new one.
    ToTake,
    /// The existing content is to be compared.
    ToProve,
    Proving(Proof),
    /// The existing part does not begin as the source does: it is to be given up for a new one.
    ToLeave,
}

impl Prepare {
    pub(super) fn new(ends: Ends) -> Self {
        Self {
            ends,
            there: None,
            cuts_on_open: false,
            step: PrepareStep::ToOpen,
        }
    }

    /// Returns the length of an existing regular target.
    fn size_there(&self) -> u64 {
        match &self.there {
            Some(there) if there.permissions.is_none() || there.is(mode::REGULAR) => {
                there.size.unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// Returns true if the target may be the source itself, which truncating would destroy.
    fn may_be_the_source(&self) -> bool {
        let (Some(source), Some(there)) = (self.ends.local.file(), &self.there) else {
            return false;
        };
        let seconds = u32::try_from(source.times.modified.seconds).ok();
        there.size == Some(source.len)
            && there
                .times
                .is_none_or(|times| Some(times.modified) == seconds)
    }
}

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
