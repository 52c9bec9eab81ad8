//! The stages of the upload of one file, each with what exists in that stage only.

use sftp::attributes::mode;
use sftp::{Attributes, ExactTimes, vendor};

use crate::engine::Session;
use crate::file::Proof;
use crate::part::{PartNames, beside};
use crate::put::Item;
use crate::put::target::Known;
use crate::source::Source;

/// How far the upload of a file has come.
#[derive(Debug)]
pub(super) enum UploadStage {
    /// The local file is not open.
    Begin(Begin),
    /// The local file is open; the target is looked up, opened and compared.
    Prepare(Prepare),
    /// Data is sent.
    Write(Write),
    /// The copy failed while the target was open: unanswered requests are awaited.
    Cut(Cut),
    /// Everything was sent, including CLOSE; a part file is renamed or removed.
    Finish(Finish),
    Over,
}

impl UploadStage {
    /// Takes the stage, for its data to become that of the next one, which the caller sets.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Over)
    }
}

/// State before the local file is open.
#[derive(Debug)]
pub(super) struct Begin {
    /// The local file, if it is open already.
    pub(super) source: Option<Source>,
    /// The answers of a [`Target`](crate::put::Target).
    pub(super) known: Option<Known>,
    pub(super) writes: Writes,
}

/// Where the file is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Writes {
    /// To the target itself.
    InPlace,
    /// To a part file; STAT of the file that it replaces is due.
    Beside,
    /// To a part file; that STAT was sent.
    Asked,
    /// To a part file, which has the mode of the file that it replaces, if there is one.
    Replacing(Option<u32>),
}

impl Begin {
    pub(super) fn new(source: Option<Source>, known: Option<Known>, beside: bool) -> Self {
        Self {
            source,
            known,
            writes: match beside {
                true => Writes::Beside,
                false => Writes::InPlace,
            },
        }
    }
}

/// The open local file.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) content: Content,
    /// File type and permission bits.
    pub(super) mode: u32,
    pub(super) times: ExactTimes,
}

#[derive(Debug)]
pub(super) enum Content {
    /// All of a small file, which is closed.
    Small(Vec<u8>),
    File(Source),
}

impl Local {
    /// The open file, if its content was not read completely.
    pub(super) fn file(&self) -> Option<&Source> {
        match &self.content {
            Content::File(source) => Some(source),
            Content::Small(_) => None,
        }
    }

    /// Mode for a new file.
    pub(super) fn mode(&self) -> Attributes {
        Attributes::with_permissions(self.mode & 0o777)
    }

    /// Mode and times to set after the content.
    pub(super) fn kept(&self, session: &Session) -> Attributes {
        let exact = session.server().has(vendor::EXACT_TIMES, "1");
        Attributes {
            times: Some(self.times.into()),
            exact_times: exact.then_some(self.times),
            ..self.mode()
        }
    }
}

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
    pub(super) fn size_there(&self) -> u64 {
        match &self.there {
            Some(there) if there.permissions.is_none() || there.is(mode::REGULAR) => {
                there.size.unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// Returns true if the target may be the source itself, which truncating would destroy.
    pub(super) fn may_be_the_source(&self) -> bool {
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

/// The part file of one copy.
#[derive(Debug)]
pub(super) struct PartFile {
    pub(super) names: PartNames,
    pub(super) name: PartName,
    pub(super) path: Vec<u8>,
    /// An existing part under the first name, until it is used or rejected.
    pub(super) candidate: Option<Attributes>,
}

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

impl PartFile {
    /// A part of the target `to` under its first name.
    pub(super) fn new(names: PartNames, to: &[u8]) -> Self {
        Self {
            path: beside(to, &names.first()),
            names,
            name: PartName::First,
            candidate: None,
        }
    }

    /// Continues under a random name.
    pub(super) fn rename(&mut self, to: &[u8]) {
        self.path = beside(to, &self.names.another());
        self.name = PartName::Random;
    }
}

/// State while data is sent.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) ends: Ends,
    /// Offset of the first byte not sent.
    pub(super) next: u64,
    /// Offset of the first byte that the server may not have written.
    pub(super) bad_from: u64,
    /// End of the data range that contains `next`, for a file with holes.
    pub(super) data_end: Option<u64>,
    pub(super) first_cut: FirstCut,
    /// The target is truncated to the length of the source after the data.
    pub(super) cut_at_end: bool,
}

/// Truncation of the target before the first WRITE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstCut {
    None,
    /// To this length.
    Due(u64),
    /// It is unanswered: a WRITE on another connection could overtake it.
    Sent,
}

impl Write {
    /// Skips a hole of the source at `next`, which the target gets as a hole; returns its length.
    pub(super) fn skip_hole(&mut self, end: u64) -> u64 {
        // The bytes after the compared ones of an existing part are overwritten, not truncated.
        if self.ends.in_place || self.ends.is_taken() {
            return 0;
        }
        let Some(source) = self.ends.local.file() else {
            return 0;
        };
        if self.data_end.is_some_and(|end| self.next < end) {
            return 0;
        }
        let (begin, data_end) = source.data_from(self.next).unwrap_or((end, end));
        let hole = begin.saturating_sub(self.next);
        self.next = begin;
        self.data_end = Some(data_end);
        self.cut_at_end = true;
        hole
    }

    pub(super) fn cut(self) -> UploadStage {
        let sure = self.bad_from.min(self.next);
        UploadStage::Cut(Cut::new(self.ends, sure))
    }
}

/// A copy that failed while its target was open.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) part: Option<PartFile>,
    /// The target stays as it is.
    pub(super) in_place: bool,
    /// Number of bytes from the beginning that the server has certainly written.
    pub(super) sure: u64,
}

impl Cut {
    pub(super) fn new(ends: Ends, sure: u64) -> Self {
        Self {
            part: ends.part,
            in_place: ends.in_place,
            sure,
        }
    }
}

/// A copy that has sent everything up to CLOSE.
#[derive(Debug)]
pub(super) struct Finish {
    /// The part file that was written.
    pub(super) part: Option<PartFile>,
    pub(super) naming: Naming,
    pub(super) step: FinishStep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FinishStep {
    /// Answers are awaited, and the handles of other connections closed.
    Closing,
    /// The part file is to be renamed to its target or removed.
    ToMove,
    Moving,
}

/// What became of the part file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Naming {
    Unsent,
    /// RENAME was sent, and not refused.
    Sent,
    /// RENAME was refused.
    Refused,
    /// REMOVE was sent.
    Removed,
}

impl Finish {
    pub(super) fn new(part: Option<PartFile>) -> Self {
        Self {
            part,
            naming: Naming::Unsent,
            step: FinishStep::Closing,
        }
    }
}
