//! The upload of one file as a state machine: what it sends next when its connection accepts data,
//! and how it processes answers. Each stage has a struct with what exists in that stage only.

use bytes::Bytes;

use crate::engine::{EngineError, Session, Spoiled, Token};
use crate::file::{FileAnswer, FileCopy, FileJob};
use crate::options::Options;
use crate::plan::pace::Pace;
use crate::plan::shown;
use crate::report::FileResult;
use crate::source::Source;
use crate::step::Step;
use crate::text;

use super::Item;
use super::target::Known;

mod answers;
mod begin;
mod finish;
mod part;
mod prepare;
mod stage;
mod write;

use stage::{Begin, PrepareStep, UploadStage};

/// The upload of one file.
#[derive(Debug)]
pub(crate) struct UploadJob {
    copy: FileCopy,
    item: Item,
    options: Options,
    /// Length of the file; that which its directory states until it is opened.
    end: u64,
    /// The server returned "Failure": ask whether the disk is full.
    ask_space: bool,
    stage: UploadStage,
}

impl FileJob for UploadJob {
    fn copy(&mut self) -> &mut FileCopy {
        &mut self.copy
    }

    fn left(&self) -> u64 {
        match &self.stage {
            UploadStage::Begin(_) | UploadStage::Prepare(_) => self.end,
            UploadStage::Write(write) => self.end.saturating_sub(write.next),
            UploadStage::Cut(_) | UploadStage::Finish(_) | UploadStage::Over => 0,
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.stage, UploadStage::Over)
    }

    fn step(&mut self, link: usize, session: &mut Session, pace: &mut Pace) -> Step {
        let first = self.copy.handles.is_first(link);
        if !session.takes_request() {
            return Step::Full;
        }
        match &self.stage {
            UploadStage::Begin(_) if first => self.begin(link, session),
            UploadStage::Prepare(_) if first => self.prepare(link, session),
            UploadStage::Write(_) => self.write(link, session, pace),
            UploadStage::Cut(_) if first && self.copy.is_idle() => self.cut(session),
            UploadStage::Finish(_) => self.finish(link, session),
            UploadStage::Over => Step::Over,
            UploadStage::Begin(_) | UploadStage::Prepare(_) | UploadStage::Cut(_) => Step::Nothing,
        }
    }

    fn reply(&mut self, answer: FileAnswer<'_>) -> u64 {
        self.answer(answer)
    }

    /// Processes the last bytes of the existing content.
    fn data(&mut self, _asked: Token, _at: u32, bytes: &Bytes) -> u64 {
        if let UploadStage::Prepare(prepare) = &mut self.stage
            && let PrepareStep::Proving(proof) = &mut prepare.step
        {
            proof.data(bytes);
        }
        0
    }

    fn data_ends(&mut self, asked: Token, _len: u32) {
        self.copy.answered();
        self.proven(asked, None);
    }

    fn spoiled(&mut self, spoiled: &Spoiled) {
        self.not_written_from(spoiled.at);
        let why = match &spoiled.error {
            Some(error) => text::reason(error),
            None => format!(
                "file changed while it was copied: it had {} bytes and ends at {}",
                self.end, spoiled.at
            ),
        };
        let error = format!("read local \"{}\": {why}", self.shown_from());
        self.copy.fail(error);
    }

    fn lose(&mut self, why: &EngineError) {
        let error = format!("write remote \"{}\": {why}", self.shown_to());
        self.copy.fail(error);
        self.stage = UploadStage::Over;
    }

    /// Truncates the target to the written bytes.
    fn stop(&mut self) {
        let is_idle = self.copy.is_idle();
        match &mut self.stage {
            // Everything was sent, or the copy has failed.
            UploadStage::Finish(_) | UploadStage::Cut(_) | UploadStage::Over => return,
            UploadStage::Begin(_) if is_idle => self.stage = UploadStage::Over,
            UploadStage::Begin(_) | UploadStage::Write(_) => {}
            UploadStage::Prepare(prepare) => match prepare.step {
                PrepareStep::ToOpen if is_idle => self.stage = UploadStage::Over,
                PrepareStep::Looking | PrepareStep::ToOpen => {}
                // The target is unchanged and stays so.
                PrepareStep::Opening | PrepareStep::Proving(_) => prepare.ends.in_place = true,
                PrepareStep::ToProve => {
                    prepare.ends.in_place = true;
                    self.fail_prepared();
                }
                PrepareStep::ToCompare
                | PrepareStep::Comparing
                | PrepareStep::ToTake
                | PrepareStep::ToLeave => self.fail_prepared(),
            },
        }
        self.copy.fail(EngineError::Interrupted.to_string());
        self.copy.wake_first();
    }

    fn into_result(self) -> FileResult {
        let from = self.item.from.as_os_str().as_encoded_bytes().to_vec();
        self.copy.into_result(from, self.item.to)
    }
}

impl UploadJob {
    /// The upload of a file of `len` bytes. `source` is the local file, if it is open already, and
    /// `known` are the answers for the target, if there are any.
    pub(super) fn new(
        mut copy: FileCopy,
        item: Item,
        len: u64,
        source: Option<Source>,
        known: Option<Known>,
        options: &Options,
    ) -> Self {
        let options = options.for_one(copy.handles.len());
        // A name with a trailing slash cannot be a file's: the server reports the error.
        let beside = (options.atomic || copy.handles.len() > 1) && !item.to.ends_with(b"/");
        if !beside {
            copy.handles.keep_first();
        }
        Self {
            copy,
            item,
            options,
            end: len,
            ask_space: false,
            stage: UploadStage::Begin(Begin::new(source, known, beside)),
        }
    }

    fn shown_from(&self) -> String {
        shown(&self.item.from)
    }

    fn shown_to(&self) -> String {
        text::name(&self.item.to)
    }

    /// The server may not have written the bytes from this offset on.
    fn not_written_from(&mut self, offset: u64) {
        let bad_from = match &mut self.stage {
            UploadStage::Write(write) => &mut write.bad_from,
            UploadStage::Cut(cut) => &mut cut.sure,
            // Nothing was written, or nothing is truncated any more.
            _ => return,
        };
        *bad_from = offset.min(*bad_from);
    }

    /// Advances the stage after an answer.
    fn go_on(&mut self) {
        let is_idle = self.copy.is_idle();
        match &self.stage {
            UploadStage::Begin(_) if is_idle && self.copy.has_failed() => self.copy.wake_first(),
            UploadStage::Prepare(_) if is_idle => self.prepare_goes_on(),
            UploadStage::Write(write) => {
                let over = write.next >= self.end || self.copy.has_failed();
                if over && is_idle {
                    self.copy.wake_first();
                } else if !self.copy.has_failed() {
                    // A connection that has just opened the file begins to write; the queues of the
                    // others have the job already.
                    self.copy.wake_opened();
                }
            }
            UploadStage::Cut(_) if is_idle => self.copy.wake_first(),
            UploadStage::Finish(_) if is_idle => self.finish_goes_on(),
            _ => {}
        }
    }
}

fn as_usize(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}
