//! The download of one file as a state machine. Ranges and streams that need no request per block
//! are in [`ranges`].

use std::path::Path;

use bytes::Bytes;
use sftp::extension::{self, Extended};
use sftp::message::{Reply, Request, request};
use sftp::{Attributes, Code, ExactTimes, own};

use super::Item;
use crate::engine::{EngineError, Op, Session, Token, status_text};
use crate::file::{FileCopy, FileJob, Proof};
use crate::options::{Options, Resume};
use crate::part::PartNames;
use crate::plan::pace::Pace;
use crate::plan::shown;
use crate::report::FileResult;
use crate::sink::{Opening, Sink};
use crate::step::{JOINING_BYTES, SMALL_BYTES, Step, impossible_size};
use crate::text;
use crate::watch::Targets;

mod claims;
mod ranges;

use claims::Claim;
use ranges::Range;

/// Maximum number of bytes, and of pieces, collected for one write.
const GATHER_BYTES: usize = 256 << 10;
const GATHER_PIECES: usize = 64;
/// Length of one request if the server reports holes, bytes.
const RANGE_BYTES: u32 = 4 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DownloadStage {
    Begin,
    /// The whole file was requested at once (GET_FILE).
    Whole,
    ToOpen,
    Opening,
    ToProve,
    Proving,
    Reading,
    /// CLOSE is due or was sent.
    Closing,
    Over,
}

/// Consecutive pieces of a file that are not written yet.
#[derive(Debug, Default)]
struct Gathered {
    at: u64,
    bytes: usize,
    pieces: Vec<Bytes>,
}

impl Gathered {
    fn end(&self) -> u64 {
        self.at.saturating_add(self.bytes as u64)
    }

    fn is_full(&self) -> bool {
        self.bytes >= GATHER_BYTES || self.pieces.len() >= GATHER_PIECES
    }
}

/// Opens the local target of the server's file `from`, or with `beside` a part file in the same
/// directory.
///
/// # Errors
/// One line that names the file and the cause.
pub(super) fn open_sink(
    from: &[u8],
    to: &Path,
    attributes: &Attributes,
    options: &Options,
    beside: bool,
    targets: &Targets,
) -> Result<(Sink, bool), String> {
    let opening = match options.resume {
        Resume::Never => Opening::Anew {
            len: attributes.size,
            modified: attributes.best_times().map(|times| times.modified.seconds),
        },
        _ => Opening::GoOn,
    };
    let mode = attributes.permissions.unwrap_or(0o666);
    // A symbolic link or a device is written to, not replaced.
    let is_other = || std::fs::symlink_metadata(to).is_ok_and(|there| !there.is_file());
    // A name with a trailing slash cannot be a file's: opening it reports the error.
    let target = to.as_os_str().as_encoded_bytes();
    let beside = beside && !target.ends_with(b"/") && !is_other();
    let names = beside.then(|| PartNames::of_remote(from, attributes, target));
    Sink::open(to, mode, opening, names.as_ref(), options.sparse, targets)
        .map(|sink| (sink, beside))
        .map_err(|error| format!("open local \"{}\": {}", shown(to), text::reason(&error)))
}

/// Mode and times to set on a finished file.
pub(super) fn kept(
    attributes: &Attributes,
    options: &Options,
) -> Option<(u32, Option<ExactTimes>)> {
    options.preserve.then(|| {
        let mode = attributes.permissions.unwrap_or(0o644);
        (mode, attributes.best_times())
    })
}

/// The download of one file.
#[derive(Debug)]
pub(crate) struct DownloadJob {
    copy: FileCopy,
    item: Item,
    stage: DownloadStage,
    sink: Option<Sink>,
    attributes: Attributes,
    /// Length of the file, if known before it is read.
    end: Option<u64>,
    /// Offset of the first byte not requested yet.
    next: u64,
    gathered: Gathered,
    /// Ranges requested with their holes.
    ranges: Vec<Range>,
    /// Ranges that arrived incomplete; they are requested again first.
    again: Vec<(u64, u32)>,
    /// Offset at which the server reported the end of the file.
    eof: Option<u64>,
    claim: Claim,
    /// CLOSE is sent in the same flight as READ.
    closes_early: bool,
    /// Id of the request whose answer streams the file, while it runs.
    streaming: Option<u32>,
    proof: Option<Proof>,
    options: Options,
    /// The files that the whole copy writes in place.
    targets: Targets,
}

impl FileJob for DownloadJob {
    fn copy(&mut self) -> &mut FileCopy {
        &mut self.copy
    }

    fn left(&self) -> u64 {
        match self.stage {
            DownloadStage::Whole | DownloadStage::Closing | DownloadStage::Over => 0,
            _ => self.end.unwrap_or(0).saturating_sub(self.next),
        }
    }

    fn is_over(&self) -> bool {
        self.stage == DownloadStage::Over
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
                if small && plain && session.server().has(own::GET_FILE, "1") {
                    return self.ask_whole(session, pace);
                }
                self.stage = DownloadStage::ToOpen;
                Step::Sent { more: true }
            }
            DownloadStage::ToOpen if first => self.open(link, session),
            DownloadStage::ToProve if first => self.prove(session),
            DownloadStage::Reading => self.read(link, session, pace),
            DownloadStage::Closing => self.copy.close(link, session),
            DownloadStage::Over => Step::Over,
            _ => Step::Nothing,
        }
    }

    fn lose(&mut self, why: &EngineError) {
        let error = format!("read remote \"{}\": {why}", self.shown_from());
        self.copy.fail(error);
        self.stage = DownloadStage::Over;
    }

    fn stop(&mut self) {
        match self.stage {
            // Complete with the next answer.
            DownloadStage::Whole | DownloadStage::Closing | DownloadStage::Over => return,
            DownloadStage::Begin | DownloadStage::ToOpen => self.stage = DownloadStage::Over,
            // Keep the local file, which may be a part.
            DownloadStage::ToProve => (self.stage, self.sink) = (DownloadStage::Reading, None),
            DownloadStage::Proving => self.sink = None,
            DownloadStage::Opening | DownloadStage::Reading => {}
        }
        self.copy.fail(EngineError::Interrupted.to_string());
        self.copy.wake_first();
    }

    fn into_result(mut self) -> FileResult {
        // A lost connection may have left unwritten data.
        self.write_gathered();
        if let Some(sink) = self.sink.take() {
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
            stage: DownloadStage::Begin,
            sink: None,
            attributes,
            // A file in /proc claims size 0.
            end: attributes.size.filter(|size| *size > 0),
            next: 0,
            gathered: Gathered::default(),
            ranges: Vec::new(),
            again: Vec::new(),
            eof: None,
            claim: Claim::None,
            closes_early: false,
            streaming: None,
            proof: None,
            options,
            targets: targets.clone(),
        }
    }

    /// Returns and resets the number of bytes present before the copy that were not reported yet.
    pub(super) fn take_skipped(&mut self) -> u64 {
        std::mem::take(&mut self.copy.skipped)
    }

    fn shown_from(&self) -> String {
        text::name(&self.item.from)
    }

    /// True if the target reserves memory for the rest of the file.
    pub(super) fn takes_memory(&self) -> bool {
        self.stage == DownloadStage::Reading
            && !self.copy.has_failed()
            && self.sink.as_ref().is_some_and(Sink::takes_memory)
    }

    /// True if the target has idle work.
    pub(super) fn has_idle_work(&self) -> bool {
        self.takes_memory() && self.sink.as_ref().is_some_and(Sink::has_work)
    }

    /// Does a part of the idle work.
    pub(super) fn work_idly(&mut self) {
        if let Some(sink) = &mut self.sink {
            sink.work();
        }
    }

    // ---- requests -------------------------------------------------------------------------

    fn ask_whole(&mut self, session: &mut Session, pace: &mut Pace) -> Step {
        let size = u32::try_from(self.end.unwrap_or(0)).unwrap_or(u32::MAX);
        let request = Extended::GetFile(extension::GetFile {
            path: &self.item.from,
            flags: 0,
            max_len: u32::try_from(SMALL_BYTES).unwrap_or(u32::MAX),
        });
        let request = Request::Extended(request);
        self.copy
            .send_data(session, Op::GetFile, (0, size), &request);
        pace.went(u64::from(size));
        self.stage = DownloadStage::Whole;
        Step::Sent { more: false }
    }

    fn open(&mut self, link: usize, session: &mut Session) -> Step {
        if !session.takes_handle() {
            return Step::Full;
        }
        self.copy.open_to_read(link, session, &self.item.from);
        if self.stage == DownloadStage::ToOpen {
            self.stage = DownloadStage::Opening;
        }
        Step::Sent { more: false }
    }

    fn prove(&mut self, session: &mut Session) -> Step {
        let here = self.sink.as_ref().map_or(0, Sink::len_before);
        let here = here.min(self.end.unwrap_or(0));
        let local = || self.sink.as_ref()?.file().try_clone().ok();
        self.proof = Proof::begin(&mut self.copy, session, here, local);
        if self.proof.is_none() {
            return Step::Nothing;
        }
        self.stage = DownloadStage::Proving;
        Step::Sent { more: false }
    }

    fn read(&mut self, link: usize, session: &mut Session, pace: &mut Pace) -> Step {
        let first = self.copy.handles.is_first(link);
        if self.copy.has_failed() {
            if let Some(id) = self.streaming.take() {
                session.cancel(id);
                return Step::Sent { more: false };
            }
            return match self.copy.is_idle() {
                true if first => self.finish(link, session),
                _ => self.copy.leave_to_first(),
            };
        }
        if self.copy.handles.is_unopened(link) {
            // The rest arrives faster without another connection.
            return match self.left() < JOINING_BYTES {
                true => self.copy.leave_to_first(),
                false => self.open(link, session),
            };
        }
        let Some(handle) = self.copy.handles.open(link).map(<[u8]>::to_vec) else {
            return Step::Nothing;
        };
        if !session.takes_read() || !pace.lets_go() {
            return Step::Full;
        }
        let max = session.server().max_read;
        let with_holes = self.tells_holes(session, max);
        let most = if with_holes { RANGE_BYTES } else { max };
        let (offset, len) = match self.again.pop() {
            Some(again) => again,
            None => match self.next_range(most) {
                Some(range) => range,
                None if self.copy.is_idle() && first => return self.finish(link, session),
                None => return self.copy.leave_to_first(),
            },
        };
        if with_holes {
            self.ask_range((offset, len), &handle, session);
            pace.went(u64::from(len));
            return Step::Sent { more: true };
        }
        let request = Request::Read(request::Read {
            handle: &handle,
            offset,
            len,
        });
        self.copy
            .send_data(session, Op::Read, (offset, len), &request);
        pace.went(u64::from(len));
        // A file that fits in one READ is closed in the same flight; if the server returns less
        // than requested, it is opened again.
        let one = self.end.is_some_and(|end| end < u64::from(max));
        if one && self.copy.handles.len() == 1 && self.closes_early {
            self.copy.close(link, session);
            return Step::Sent { more: false };
        }
        Step::Sent { more: true }
    }

    /// Returns the next range to request: up to one byte beyond the expected end, which detects a
    /// file that has grown. If the length is unknown, one range at a time.
    fn next_range(&mut self, max: u32) -> Option<(u64, u32)> {
        if self.eof.is_some() {
            return None;
        }
        let left = match self.end {
            Some(end) => end
                .saturating_add(1)
                .checked_sub(self.next)
                .filter(|left| *left > 0)?,
            None if !self.copy.is_idle() => return None,
            None => u64::from(max),
        };
        let len = u32::try_from(left).unwrap_or(u32::MAX).min(max);
        let range = (self.next, len);
        self.next += u64::from(len);
        Some(range)
    }

    /// All data has arrived, or the copy failed: sends CLOSE.
    fn finish(&mut self, link: usize, session: &mut Session) -> Step {
        let end = self.end.or(self.eof);
        let front = self.sink.as_ref().map_or(0, Sink::front);
        if !self.copy.has_failed() && end.is_some_and(|end| end != front) {
            let (from, end) = (self.shown_from(), end.unwrap_or(0));
            self.copy.fail(format!(
                "read remote \"{from}\": {front} bytes came where {end} should"
            ));
        }
        if !self.copy.has_failed()
            && self.copy.handles.len() == 1
            && let Some(handle) = self.copy.handles.close(link)
        {
            // All data is here; the result of CLOSE does not matter.
            session.close_read(&handle);
            self.stage = DownloadStage::Over;
            return Step::Over;
        }
        self.stage = DownloadStage::Closing;
        self.copy.close_all(session);
        if self.copy.is_idle() {
            self.stage = DownloadStage::Over;
            return Step::Over;
        }
        Step::Sent { more: false }
    }

    // ---- answers --------------------------------------------------------------------------

    /// Processes an answer; returns the number of bytes received with it.
    pub(super) fn reply(
        &mut self,
        link: usize,
        session: &mut Session,
        asked: Token,
        reply: &Reply<'_>,
    ) -> u64 {
        if let (Op::ReadRange, Reply::Extended(fields)) = (asked.op, reply) {
            // More of the range follows.
            return self.hole(asked, fields);
        }
        if let (Op::OpenRead, Reply::Extended(_)) = (asked.op, reply) {
            self.fail_as_odd();
            self.copy.wake(link);
            return 0;
        }
        self.copy.answered();
        let from = self.shown_from();
        let mut moved = 0;
        match (asked.op, reply) {
            (Op::GetFile, Reply::Extended(fields)) => moved = self.whole(fields),
            (Op::GetFile, Reply::Status(status)) => {
                let why = status_text(status.code, status.message);
                self.copy.fail(format!("remote open \"{from}\": {why}"));
                self.stage = DownloadStage::Over;
            }
            (Op::Open, Reply::Handle(handle)) => {
                self.copy.handles.opened(link, handle.handle.to_vec());
                match self.stage {
                    // Do not touch the target.
                    DownloadStage::Opening if self.copy.has_failed() => {
                        self.stage = DownloadStage::Reading
                    }
                    DownloadStage::Opening => self.opened(),
                    _ => {}
                }
            }
            (Op::Open, reply) => {
                session.handle_ends();
                self.copy.handles.refused(link);
                let why = match reply {
                    Reply::Status(status) => status_text(status.code, status.message),
                    _ => "no handle came".to_owned(),
                };
                self.copy.fail(format!("remote open \"{from}\": {why}"));
            }
            (Op::Read, Reply::Status(_)) if self.stage == DownloadStage::Proving => {
                self.proven(asked, Some(reply))
            }
            (Op::Read, Reply::Status(status)) if status.code == Code::EOF => {
                self.ends(asked, session);
            }
            (Op::Stat, Reply::Attrs(now)) => self.claims(Some(now)),
            (Op::Stat, _) => self.claims(None),
            (Op::Read, Reply::Status(status)) => {
                let why = status_text(status.code, status.message);
                self.copy.fail(format!("read remote \"{from}\": {why}"));
            }
            (Op::ReadRange, Reply::Status(status)) => {
                let why = (!status.code.is_ok()).then(|| status_text(status.code, status.message));
                self.range_ends(asked, why);
            }
            (Op::OpenRead, Reply::Status(status)) => {
                let why = (!status.code.is_ok()).then(|| status_text(status.code, status.message));
                self.streaming = None;
                self.stream_ends(asked, why);
            }
            (Op::Hash, reply) => self.proven(asked, Some(reply)),
            (Op::Close, reply) => {
                session.handle_ends();
                if let Reply::Status(status) = reply
                    && !status.code.is_ok()
                {
                    let why = status_text(status.code, status.message);
                    self.copy.fail(format!("close remote \"{from}\": {why}"));
                }
            }
            (op, _) => {
                if op == Op::OpenRead {
                    self.streaming = None;
                }
                self.fail_as_odd();
            }
        }
        self.go_on();
        moved
    }

    fn fail_as_odd(&mut self) {
        let from = self.shown_from();
        self.copy.fail(format!(
            "read remote \"{from}\": an answer of the wrong kind"
        ));
    }

    /// Advances the stage after an answer.
    fn go_on(&mut self) {
        match self.stage {
            DownloadStage::Opening if self.copy.is_idle() && self.copy.has_failed() => {
                self.stage = DownloadStage::Over
            }
            DownloadStage::Reading
                if self.closes_early && self.copy.is_idle() && !self.copy.handles.is_any_open() =>
            {
                self.closed_early();
            }
            DownloadStage::Reading => {
                self.copy.wake_opened();
                let idle = self.copy.is_idle() || !self.again.is_empty();
                if idle || (self.end.is_none() && self.eof.is_none()) {
                    self.copy.wake_first();
                }
            }
            DownloadStage::Closing if self.copy.is_idle() => {
                if !self.copy.handles.is_any_open() {
                    self.stage = DownloadStage::Over;
                } else {
                    self.copy.wake_all();
                }
            }
            _ => {}
        }
    }

    /// Read and closed in one flight: checks that the file is complete.
    fn closed_early(&mut self) {
        let front = self.sink.as_ref().map_or(0, Sink::front);
        if !self.copy.has_failed() && self.end.is_some_and(|end| front < end) && self.eof.is_none()
        {
            self.closes_early = false;
            self.copy.handles.reset();
            self.stage = DownloadStage::ToOpen;
            self.copy.wake_first();
            return;
        }
        self.stage = DownloadStage::Over;
    }

    /// The server reported the end of the file at `offset`.
    fn ends_at(&mut self, offset: u64) {
        let from = self.shown_from();
        match self.end {
            Some(end) if offset < end => {
                self.copy.fail(format!(
                    "read remote \"{from}\": file changed while it was copied: it had {end} bytes \
                     and ends at {offset} or before"
                ));
            }
            _ => {
                self.eof = Some(self.eof.map_or(offset, |eof| eof.min(offset)));
            }
        }
    }

    /// Processes the answer to GET_FILE.
    fn whole(&mut self, fields: &[u8]) -> u64 {
        let from = self.shown_from();
        let Ok(file) = own::File::decode(fields) else {
            self.copy.fail(format!(
                "read remote \"{from}\": an answer that cannot be read"
            ));
            self.stage = DownloadStage::Over;
            return 0;
        };
        if !file.is_whole {
            if let Some(error) = impossible_size(&file.attributes) {
                self.copy.fail(format!("read remote \"{from}\": {error}"));
                self.stage = DownloadStage::Over;
                return 0;
            }
            // The file has changed since its directory was read.
            self.attributes = file.attributes;
            self.end = file.attributes.size.filter(|size| *size > 0);
            self.stage = DownloadStage::ToOpen;
            self.copy.wake_first();
            return 0;
        }
        self.attributes = file.attributes;
        self.end = Some(u64::try_from(file.data.len()).unwrap_or_default());
        self.open_sink();
        self.copy.moved += u64::try_from(file.data.len()).unwrap_or_default();
        self.write(0, file.data);
        self.stage = DownloadStage::Over;
        u64::try_from(file.data.len()).unwrap_or_default()
    }

    fn open_sink(&mut self) {
        let beside = self.options.atomic || self.copy.handles.len() > 1;
        let Item { from, to, .. } = &self.item;
        match open_sink(
            from,
            to,
            &self.attributes,
            &self.options,
            beside,
            &self.targets,
        ) {
            Ok((sink, temporary)) => {
                self.sink = Some(sink);
                if !temporary {
                    self.copy.handles.keep_first();
                }
            }
            Err(error) => self.copy.fail(error),
        }
    }

    /// The server's file is open: opens the target, if it is not, and resumes or starts.
    fn opened(&mut self) {
        if self.sink.is_none() {
            self.open_sink();
        }
        self.stage = DownloadStage::Reading;
        self.closes_early = self.options.resume == Resume::Never && self.sink.is_some();
        let here = self.sink.as_ref().map_or(0, Sink::len_before);
        match self.options.resume {
            Resume::BySize if here > 0 => {
                // This includes a size of 0.
                if self.attributes.size.is_some_and(|size| here > size) {
                    // OpenSSH's text.
                    let to = shown(&self.item.to);
                    self.copy.fail(format!(
                        "Unable to resume download of \"{to}\": local file is larger than remote"
                    ));
                    self.sink = None;
                } else {
                    self.go_on_at(here);
                }
            }
            Resume::Proven if here > 0 && self.end.is_some() => self.stage = DownloadStage::ToProve,
            _ => self.next = self.sink.as_ref().map_or(0, Sink::front),
        }
        self.expect();
        self.copy.handles.first_begins();
        self.copy.wake_all();
    }

    /// Tells the target the expected length.
    fn expect(&mut self) {
        if self.stage == DownloadStage::Reading
            && let (Some(sink), Some(end)) = (&mut self.sink, self.end)
        {
            sink.expect(end);
        }
    }

    /// Continues the copy at `offset`; the bytes before it are kept.
    fn go_on_at(&mut self, offset: u64) {
        self.copy.resumed = offset;
        self.copy.skipped = offset;
        self.next = offset;
        self.stage = DownloadStage::Reading;
        if let Some(sink) = &mut self.sink
            && let Err(error) = sink.go_on_at(offset)
        {
            let to = shown(&self.item.to);
            self.copy
                .fail(format!("local truncate \"{to}\": {}", text::reason(&error)));
        }
        self.expect();
        self.copy.wake_all();
    }

    /// The answer about the local content is complete; `reply` is `None` for DATA.
    fn proven(&mut self, asked: Token, reply: Option<&Reply<'_>>) {
        // A part file may have been written over several connections.
        let may_have_gaps = self.options.atomic || self.copy.handles.len() > 1;
        let local = self.sink.as_ref().map(Sink::file);
        // After an interrupt the local file stays as it is.
        let proof = self.proof.take().filter(|_| local.is_some());
        let good = proof.map_or(0, |proof| proof.ends(asked, reply, local, may_have_gaps));
        self.go_on_at(good);
    }

    /// Processes data of the file, `at` bytes after the first byte of a DATA.
    pub(super) fn data(&mut self, asked: Token, at: u32, bytes: &Bytes) {
        if self.stage == DownloadStage::Proving {
            if let Some(proof) = &mut self.proof {
                proof.data(bytes);
            }
            return;
        }
        self.copy.moved += u64::try_from(bytes.len()).unwrap_or_default();
        let offset = match asked.op {
            Op::ReadRange | Op::OpenRead => self.goes_on(asked, bytes.len() as u64),
            _ => Some(asked.offset + u64::from(at)),
        };
        let Some(offset) = offset.filter(|_| !self.copy.has_failed()) else {
            return;
        };
        // Data beyond the expected end is counted, not written.
        let keep = match self.end {
            Some(end) => usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX),
            None => bytes.len(),
        };
        let keep = keep.min(bytes.len());
        self.keep(offset, bytes.slice(..keep));
        if let (Op::OpenRead, Some(end)) = (asked.op, self.end)
            && keep < bytes.len()
        {
            // Otherwise the copy would continue as long as the file grows.
            let from = self.shown_from();
            self.copy.fail(has_more(&from, end));
        }
    }

    /// Writes data, now or together with the data that follows it.
    fn keep(&mut self, offset: u64, bytes: Bytes) {
        if !self.sink.as_ref().is_some_and(Sink::gathers) {
            self.write(offset, &bytes);
            return;
        }
        if self.gathered.end() != offset {
            self.write_gathered();
        }
        if self.gathered.pieces.is_empty() {
            self.gathered.at = offset;
        }
        if !bytes.is_empty() {
            self.gathered.bytes += bytes.len();
            self.gathered.pieces.push(bytes);
        }
        if self.gathered.is_full() {
            self.write_gathered();
        }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        if let Some(sink) = &mut self.sink
            && !self.copy.has_failed()
            && !bytes.is_empty()
            && let Err(error) = sink.write(offset, bytes)
        {
            self.fail_to_write(&error);
        }
    }

    /// Writes the collected pieces. A file system works in pages; one call per packet would touch
    /// one page in eight twice.
    fn write_gathered(&mut self) {
        if self.gathered.pieces.is_empty() {
            return;
        }
        let gathered = std::mem::take(&mut self.gathered);
        if let Some(sink) = &mut self.sink
            && let Err(error) = sink.write_pieces(gathered.at, &gathered.pieces)
        {
            self.fail_to_write(&error);
        }
        let mut pieces = gathered.pieces;
        pieces.clear();
        self.gathered.pieces = pieces;
    }

    fn fail_to_write(&mut self, error: &std::io::Error) {
        let to = shown(&self.item.to);
        self.copy
            .fail(format!("write local \"{to}\": {}", text::reason(error)));
    }

    /// A DATA has been received completely; it had `len` bytes.
    pub(super) fn data_ends(&mut self, asked: Token, len: u32) {
        if matches!(asked.op, Op::ReadRange | Op::OpenRead) {
            // STATUS ends the request.
            return;
        }
        self.copy.answered();
        if self.stage == DownloadStage::Proving {
            self.proven(asked, None);
            return;
        }
        self.write_gathered();
        if let Claim::Same(at) = self.claim {
            // The end was there before: the file is being rewritten.
            self.ends_at(at);
        }
        let until = asked.offset + u64::from(len);
        match self.end {
            Some(end) if until > end => {
                let from = self.shown_from();
                self.copy.fail(has_more(&from, end));
            }
            Some(end) if until < end && len < asked.len => {
                self.again.push((until, asked.len - len));
            }
            // No data after the expected end: that is the end of the file.
            Some(_) => {}
            None => self.next = until,
        }
        self.go_on();
    }
}

fn has_more(from: &str, end: u64) -> String {
    format!(
        "read remote \"{from}\": file changed while it was copied: it had {end} bytes and has more"
    )
}
