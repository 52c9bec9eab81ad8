//! The download of one file as a state machine. Each stage has what exists in that stage only; the
//! open target stays until the copy is over, since its end truncates or finishes it.

use bytes::Bytes;
use sftp::extension::{self, Extended};
use sftp::message::Request;
use sftp::{Attributes, vendor};

use super::Item;
use crate::engine::{EngineError, Op, Session, Token};
use crate::file::{FileAnswer, FileCopy, FileJob, Proof};
use crate::options::{Options, Resume};
use crate::plan::pace::Pace;
use crate::report::FileResult;
use crate::sink::Sink;
use crate::step::{SMALL_BYTES, Step};
use crate::text;
use crate::watch::Targets;

mod answers;
mod claims;
mod open;
mod ranges;
mod read;
mod target;

pub(super) use target::{kept, open_sink};

use read::Read;
use target::LocalTarget;

/// How far the download of a file has come.
#[derive(Debug)]
enum DownloadStage {
    /// Nothing was sent.
    Begin,
    /// The whole file was requested at once (WALK).
    Whole {
        /// It has arrived.
        complete: bool,
        /// An interrupt came meanwhile.
        is_stopped: bool,
    },
    /// OPEN is due.
    ToOpen(Read),
    Opening(Read),
    /// The existing content is to be compared.
    ToProve,
    Proving(Proof),
    /// Data is requested and received.
    Read(Read),
    /// CLOSE is due or was sent.
    Close,
    Over,
}

/// The download of one file.
#[derive(Debug)]
pub(crate) struct DownloadJob {
    copy: FileCopy,
    item: Item,
    options: Options,
    attributes: Attributes,
    /// Length of the file, if known before it is read.
    end: Option<u64>,
    /// The local file, once it is open.
    target: Option<LocalTarget>,
    /// The files that the whole copy writes in place.
    targets: Targets,
    stage: DownloadStage,
}

impl FileJob for DownloadJob {
    fn copy(&mut self) -> &mut FileCopy {
        &mut self.copy
    }

    fn left(&self) -> u64 {
        let next = match &self.stage {
            DownloadStage::Begin | DownloadStage::ToProve | DownloadStage::Proving(_) => 0,
            DownloadStage::ToOpen(read)
            | DownloadStage::Opening(read)
            | DownloadStage::Read(read) => read.next,
            DownloadStage::Whole { .. } | DownloadStage::Close | DownloadStage::Over => return 0,
        };
        self.end.unwrap_or(0).saturating_sub(next)
    }

    fn is_over(&self) -> bool {
        matches!(self.stage, DownloadStage::Over)
    }

    fn step(&mut self, link: usize, session: &mut Session, pace: &mut Pace) -> Step {
        let first = self.copy.handles.is_first(link);
        if !session.takes_request() {
            return Step::Full;
        }
        match self.stage {
            DownloadStage::Begin if first => {
                let small = self.end.is_some_and(|end| end <= SMALL_BYTES);
                let plain = self.options.resume == Resume::Never && pace.lets_go();
                if small && plain && session.server().has(vendor::WALK, "2") {
                    return self.ask_whole(session, pace);
                }
                self.stage = DownloadStage::ToOpen(Read::default());
                Step::Sent { more: true }
            }
            DownloadStage::ToOpen(_) if first => self.open(link, session),
            DownloadStage::ToProve if first => self.prove(session),
            DownloadStage::Read(_) => self.read(link, session, pace),
            DownloadStage::Close => self.copy.close(link, session),
            DownloadStage::Over => Step::Over,
            _ => Step::Nothing,
        }
    }

    fn reply(&mut self, answer: FileAnswer<'_>) -> u64 {
        self.answer(answer)
    }

    fn data(&mut self, asked: Token, at: u32, bytes: &Bytes) -> u64 {
        let ended = self.ends_reading();
        self.received(asked, at, bytes);
        if !ended && self.ends_reading() {
            self.copy.wake_first();
        }
        u64::try_from(bytes.len()).unwrap_or_default()
    }

    fn data_ends(&mut self, asked: Token, len: u32) {
        self.data_received(asked, len);
    }

    fn takes_memory(&self) -> bool {
        matches!(self.stage, DownloadStage::Read(_))
            && !self.copy.has_failed()
            && self.sink().is_some_and(Sink::takes_memory)
    }

    fn has_idle_work(&self) -> bool {
        self.takes_memory() && self.sink().is_some_and(Sink::has_work)
    }

    fn work_idly(&mut self) {
        if let Some(target) = &mut self.target {
            target.sink.work();
        }
    }

    fn lose(&mut self, why: &EngineError) {
        let error = format!("read remote \"{}\": {why}", self.shown_from());
        self.copy.fail(error);
        self.stage = DownloadStage::Over;
    }

    fn stop(&mut self) {
        match self.stage {
            // Probably complete with the next answer.
            DownloadStage::Whole {
                ref mut is_stopped, ..
            } => {
                *is_stopped = true;
                return;
            }
            DownloadStage::Close | DownloadStage::Over => return,
            DownloadStage::Begin | DownloadStage::ToOpen(_) => self.stage = DownloadStage::Over,
            // Keep the local file, which may be a part.
            DownloadStage::ToProve => {
                self.stage = DownloadStage::Read(Read::default());
                self.target = None;
            }
            DownloadStage::Proving(_) => self.target = None,
            DownloadStage::Opening(_) | DownloadStage::Read(_) => {}
        }
        self.copy.fail(EngineError::Interrupted.to_string());
        self.copy.wake_first();
    }

    fn into_result(mut self) -> FileResult {
        // A lost connection may have left unwritten data.
        self.write_gathered();
        if let Some(LocalTarget { sink, .. }) = self.target.take() {
            if self.copy.has_failed() {
                sink.give_up(self.options.resume != Resume::Never);
            } else {
                let kept = kept(&self.attributes, &self.options);
                if let Err(error) = sink.finish(kept, self.options.sync) {
                    self.copy.fail(error);
                }
            }
        }
        let to = self.item.to.into_os_string().into_encoded_bytes();
        self.copy.into_result(self.item.from, to)
    }
}

impl DownloadJob {
    pub(super) fn new(
        copy: FileCopy,
        item: Item,
        attributes: Attributes,
        options: &Options,
        targets: &Targets,
    ) -> Self {
        let options = options.for_one(copy.handles.len());
        Self {
            copy,
            item,
            options,
            attributes,
            // A file in /proc claims size 0.
            end: attributes.size.filter(|size| *size > 0),
            target: None,
            targets: targets.clone(),
            stage: DownloadStage::Begin,
        }
    }

    fn shown_from(&self) -> String {
        text::name(&self.item.from)
    }

    /// Takes the stage, for its data to become that of the next one, which the caller sets.
    fn take_stage(&mut self) -> DownloadStage {
        std::mem::replace(&mut self.stage, DownloadStage::Over)
    }

    fn sink(&self) -> Option<&Sink> {
        self.target.as_ref().map(|target| &target.sink)
    }

    /// Number of bytes from the beginning of the target that are written without a gap.
    fn front(&self) -> u64 {
        self.sink().map_or(0, Sink::front)
    }

    /// Reading the server's file failed.
    fn fail_to_read(&mut self, why: &str) {
        let from = self.shown_from();
        self.copy.fail(format!("read remote \"{from}\": {why}"));
    }

    /// The server's file has more than the `end` bytes that it had.
    fn fail_as_longer(&mut self, end: u64) {
        self.fail_to_read(&format!(
            "file changed while it was copied: it had {end} bytes and has more"
        ));
    }

    fn fail_as_odd(&mut self) {
        self.fail_to_read("an answer of an unexpected type");
    }

    fn ask_whole(&mut self, session: &mut Session, pace: &mut Pace) -> Step {
        let size = u32::try_from(self.end.unwrap_or(0)).unwrap_or(u32::MAX);
        let request = Extended::Walk(extension::Walk {
            path: &self.item.from,
            flags: vendor::walk_flag::FILE,
            max_len: u32::try_from(SMALL_BYTES).unwrap_or(u32::MAX),
            window: SMALL_BYTES,
        });
        let request = Request::Extended(request);
        self.copy
            .send_data(session, Op::WalkFile, (0, size), &request);
        pace.went(u64::from(size));
        self.stage = DownloadStage::Whole {
            complete: false,
            is_stopped: false,
        };
        Step::Sent { more: false }
    }
}
