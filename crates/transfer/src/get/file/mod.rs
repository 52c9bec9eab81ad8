//! The download of one file as a state machine. Ranges and streams that need no request per block
//! are in [`ranges`].

use std::path::Path;

use bytes::Bytes;
use sftp::extension::{self, Extended};
use sftp::message::{Reply, Request, open_flag, request};
use sftp::{Attributes, Code, ExactTimes, own};

use super::Item;
use crate::engine::{EngineError, Op, Session, Token, status_text};
use crate::options::{Options, Resume};
use crate::part::PartNames;
use crate::plan::id::{DirId, FileId};
use crate::plan::jobs::Left;
use crate::plan::pace::Pace;
use crate::plan::shown;
use crate::report::FileResult;
use crate::sink::{Opening, Sink};
use crate::source::hash::{self, Hashing};
use crate::step::{
    JOINING_BYTES, SMALL_BYTES, Step, TAIL_BYTES, impossible_size, proof_block, proven_len,
};
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

#[derive(Debug)]
struct Part {
    link: usize,
    handle: Option<Vec<u8>>,
    asked: bool,
    /// Reading on this connection has begun.
    reads: bool,
    closing: bool,
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
pub(super) struct DownloadJob {
    id: FileId,
    item: Item,
    parent: Option<DirId>,
    parts: Vec<Part>,
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
    moved: u64,
    resumed: u64,
    /// Bytes present before the copy that were not reported yet.
    skipped: u64,
    waiting: u32,
    error: Option<String>,
    proof: Option<Hashing>,
    tail: Vec<u8>,
    wakes: Vec<usize>,
    options: Options,
    /// The files that the whole copy writes in place.
    targets: Targets,
}

impl Left for DownloadJob {
    /// Number of bytes not requested yet.
    fn left(&self) -> u64 {
        match self.stage {
            DownloadStage::Whole | DownloadStage::Closing | DownloadStage::Over => 0,
            _ => self.end.unwrap_or(0).saturating_sub(self.next),
        }
    }
}

impl DownloadJob {
    pub(super) fn new(
        id: FileId,
        item: Item,
        parent: Option<DirId>,
        attributes: Attributes,
        links: Vec<usize>,
        options: &Options,
        targets: &Targets,
    ) -> Self {
        let options = options.for_one(links.len());
        let parts = links.into_iter().map(|link| Part {
            link,
            handle: None,
            asked: false,
            reads: false,
            closing: false,
        });
        Self {
            id,
            item,
            parent,
            parts: parts.collect(),
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
            moved: 0,
            resumed: 0,
            skipped: 0,
            waiting: 0,
            error: None,
            proof: None,
            tail: Vec::new(),
            wakes: Vec::new(),
            options,
            targets: targets.clone(),
        }
    }

    pub(super) fn parent(&self) -> Option<DirId> {
        self.parent
    }

    pub(super) fn is_over(&self) -> bool {
        self.stage == DownloadStage::Over
    }

    pub(super) fn take_wakes(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.wakes)
    }

    /// Returns and resets the number of bytes present before the copy that were not reported yet.
    pub(super) fn take_skipped(&mut self) -> u64 {
        std::mem::take(&mut self.skipped)
    }

    /// Finishes the target, or truncates it after a failure.
    pub(super) fn into_result(mut self) -> FileResult {
        // A lost connection may have left unwritten data.
        self.write_gathered();
        if let Some(sink) = self.sink.take() {
            if self.error.is_some() {
                sink.give_up(self.options.resume != Resume::Never);
            } else {
                let kept = kept(&self.attributes, &self.options);
                self.error = sink.finish(kept, self.options.sync).err();
            }
        }
        FileResult {
            from: self.item.from,
            to: self.item.to.as_os_str().as_encoded_bytes().to_vec(),
            bytes: self.moved,
            resumed_bytes: self.resumed,
            verified: None,
            error: self.error,
        }
    }

    fn fail(&mut self, error: String) {
        self.error.get_or_insert(error);
    }

    fn shown_from(&self) -> String {
        text::name(&self.item.from)
    }

    pub(super) fn lose(&mut self, why: &EngineError) {
        let error = format!("read remote \"{}\": {why}", self.shown_from());
        self.fail(error);
        self.stage = DownloadStage::Over;
    }

    /// After an interrupt: waits for unanswered requests and closes the handles.
    pub(super) fn stop(&mut self) {
        match self.stage {
            // Complete with the next answer.
            DownloadStage::Whole | DownloadStage::Closing | DownloadStage::Over => return,
            DownloadStage::Begin | DownloadStage::ToOpen => self.stage = DownloadStage::Over,
            // Keep the local file, which may be a part.
            DownloadStage::ToProve => (self.stage, self.sink) = (DownloadStage::Reading, None),
            DownloadStage::Proving => self.sink = None,
            DownloadStage::Opening | DownloadStage::Reading => {}
        }
        self.fail(EngineError::Interrupted.to_string());
        self.wakes.extend(self.parts.first().map(|part| part.link));
    }

    /// True if the target reserves memory for the rest of the file.
    pub(super) fn takes_memory(&self) -> bool {
        self.stage == DownloadStage::Reading
            && self.error.is_none()
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

    fn handle(&self, part: usize) -> Option<Vec<u8>> {
        self.parts.get(part)?.handle.clone()
    }

    // ---- requests -------------------------------------------------------------------------

    /// Sends the next request on this link.
    pub(super) fn step(&mut self, link: usize, session: &mut Session, pace: &mut Pace) -> Step {
        let first = self.parts.first().is_some_and(|part| part.link == link);
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
            DownloadStage::Closing => self.close(link, session),
            DownloadStage::Over => Step::Over,
            _ => Step::Nothing,
        }
    }

    fn ask_whole(&mut self, session: &mut Session, pace: &mut Pace) -> Step {
        let size = u32::try_from(self.end.unwrap_or(0)).unwrap_or(u32::MAX);
        let request = Extended::GetFile(extension::GetFile {
            path: &self.item.from,
            flags: 0,
            max_len: u32::try_from(SMALL_BYTES).unwrap_or(u32::MAX),
        });
        let token = self.id.data_token(Op::GetFile, 0, size);
        session.send(token, &Request::Extended(request));
        pace.went(u64::from(size));
        self.waiting += 1;
        self.stage = DownloadStage::Whole;
        Step::Sent { more: false }
    }

    fn open(&mut self, link: usize, session: &mut Session) -> Step {
        if !session.takes_handle() {
            return Step::Full;
        }
        let request = Request::Open(request::Open {
            path: &self.item.from,
            flags: open_flag::READ,
            attributes: Attributes::NONE,
        });
        session.send(self.id.token(Op::Open), &request);
        session.handle_begins();
        self.waiting += 1;
        if self.stage == DownloadStage::ToOpen {
            self.stage = DownloadStage::Opening;
        }
        if let Some(part) = self.parts.iter_mut().find(|part| part.link == link) {
            part.asked = true;
        }
        Step::Sent { more: false }
    }

    fn prove(&mut self, session: &mut Session) -> Step {
        let here = self.sink.as_ref().map_or(0, Sink::len_before);
        let here = here.min(self.end.unwrap_or(0));
        let Some(handle) = self.handle(0) else {
            return Step::Nothing;
        };
        self.stage = DownloadStage::Proving;
        self.waiting += 1;
        if session.server().has(own::HASH_RANGE, "1") {
            let request = Extended::HashRange(extension::HashRange {
                handle: &handle,
                offset: 0,
                len: here,
                block_len: proof_block(here),
            });
            session.send(self.id.token(Op::Hash), &Request::Extended(request));
            // Both ends hash at the same time.
            let file = self.sink.as_ref().map(|sink| sink.file().try_clone());
            self.proof = file
                .and_then(Result::ok)
                .map(|file| hash::begin(file, here, proof_block(here)));
        } else {
            let len = here.min(TAIL_BYTES);
            let request = Request::Read(request::Read {
                handle: &handle,
                offset: here - len,
                len: u32::try_from(len).unwrap_or(u32::MAX),
            });
            let len = u32::try_from(len).unwrap_or(u32::MAX);
            let token = self.id.data_token(Op::Read, here - u64::from(len), len);
            session.send(token, &request);
        }
        Step::Sent { more: false }
    }

    fn read(&mut self, link: usize, session: &mut Session, pace: &mut Pace) -> Step {
        let first = self.parts.first().is_some_and(|part| part.link == link);
        if self.error.is_some() {
            if let Some(id) = self.streaming.take() {
                session.cancel(id);
                return Step::Sent { more: false };
            }
            return match self.waiting {
                0 if first => self.finish(session),
                _ => self.left_to_first(),
            };
        }
        let Some(part) = self.parts.iter().find(|part| part.link == link) else {
            return Step::Nothing;
        };
        if !part.asked {
            // The rest arrives faster without another connection.
            return match self.left() < JOINING_BYTES {
                true => self.left_to_first(),
                false => self.open(link, session),
            };
        }
        let Some(handle) = part.handle.clone().filter(|_| !part.closing) else {
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
                None if self.waiting == 0 && first => return self.finish(session),
                None => return self.left_to_first(),
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
        session.send(self.id.data_token(Op::Read, offset, len), &request);
        pace.went(u64::from(len));
        self.waiting += 1;
        // A file that fits in one READ is closed in the same flight; if the server returns less
        // than requested, it is opened again.
        let one = self.end.is_some_and(|end| end < u64::from(max));
        if one && self.parts.len() == 1 && self.closes_early {
            self.close(link, session);
            return Step::Sent { more: false };
        }
        Step::Sent { more: true }
    }

    /// The first part's handle is valid only on its own connection: wake that connection, unless an
    /// answer will.
    fn left_to_first(&mut self) -> Step {
        if self.waiting == 0 {
            self.wakes.extend(self.parts.first().map(|part| part.link));
        }
        Step::Nothing
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
            None if self.waiting > 0 => return None,
            None => u64::from(max),
        };
        let len = u32::try_from(left).unwrap_or(u32::MAX).min(max);
        let range = (self.next, len);
        self.next += u64::from(len);
        Some(range)
    }

    /// All data has arrived, or the copy failed: sends CLOSE.
    fn finish(&mut self, session: &mut Session) -> Step {
        let end = self.end.or(self.eof);
        let front = self.sink.as_ref().map_or(0, Sink::front);
        if self.error.is_none() && end.is_some_and(|end| end != front) {
            let (from, end) = (self.shown_from(), end.unwrap_or(0));
            self.fail(format!(
                "read remote \"{from}\": {front} bytes came where {end} should"
            ));
        }
        if self.error.is_none()
            && let [part] = self.parts.as_mut_slice()
            && !part.closing
            && let Some(handle) = part.handle.take()
        {
            // All data is here; the result of CLOSE does not matter.
            session.close_read(&handle);
            self.stage = DownloadStage::Over;
            return Step::Over;
        }
        self.stage = DownloadStage::Closing;
        let links: Vec<usize> = self.parts.iter().skip(1).map(|part| part.link).collect();
        self.wakes.extend(links);
        if let Some(first) = self.parts.first().map(|part| part.link) {
            self.close(first, session);
        }
        if self.waiting == 0 {
            self.stage = DownloadStage::Over;
            return Step::Over;
        }
        Step::Sent { more: false }
    }

    fn close(&mut self, link: usize, session: &mut Session) -> Step {
        let Some(part) = self.parts.iter_mut().find(|part| part.link == link) else {
            return Step::Nothing;
        };
        let Some(handle) = part.handle.as_ref().filter(|_| !part.closing) else {
            return Step::Nothing;
        };
        part.closing = true;
        session.send(
            self.id.token(Op::Close),
            &Request::Close(request::Close { handle }),
        );
        self.waiting += 1;
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
            self.wakes.push(link);
            return 0;
        }
        self.waiting = self.waiting.saturating_sub(1);
        let from = self.shown_from();
        let mut moved = 0;
        match (asked.op, reply) {
            (Op::GetFile, Reply::Extended(fields)) => moved = self.whole(fields),
            (Op::GetFile, Reply::Status(status)) => {
                let why = status_text(status.code, status.message);
                self.fail(format!("remote open \"{from}\": {why}"));
                self.stage = DownloadStage::Over;
            }
            (Op::Open, Reply::Handle(handle)) => {
                if let Some(part) = self.parts.iter_mut().find(|part| part.link == link) {
                    part.handle = Some(handle.handle.to_vec());
                }
                match self.stage {
                    // Do not touch the target.
                    DownloadStage::Opening if self.error.is_some() => {
                        self.stage = DownloadStage::Reading
                    }
                    DownloadStage::Opening => self.opened(),
                    _ => {}
                }
            }
            (Op::Open, reply) => {
                session.handle_ends();
                let why = match reply {
                    Reply::Status(status) => status_text(status.code, status.message),
                    _ => "no handle came".to_owned(),
                };
                self.fail(format!("remote open \"{from}\": {why}"));
            }
            (Op::Read, Reply::Status(_)) if self.stage == DownloadStage::Proving => {
                self.proven(asked, 0)
            }
            (Op::Read, Reply::Status(status)) if status.code == Code::EOF => {
                self.ends(asked, session);
            }
            (Op::Stat, Reply::Attrs(now)) => self.claims(Some(now)),
            (Op::Stat, _) => self.claims(None),
            (Op::Read, Reply::Status(status)) => {
                let why = status_text(status.code, status.message);
                self.fail(format!("read remote \"{from}\": {why}"));
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
            (Op::Hash, reply) => {
                let good = self.equal_hashes(reply);
                self.go_on_at(good);
            }
            (Op::Close, reply) => {
                session.handle_ends();
                if let Some(part) = self.parts.iter_mut().find(|part| part.link == link) {
                    part.handle = None;
                }
                if let Reply::Status(status) = reply
                    && !status.code.is_ok()
                {
                    let why = status_text(status.code, status.message);
                    self.fail(format!("close remote \"{from}\": {why}"));
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
        self.fail(format!(
            "read remote \"{from}\": an answer of the wrong kind"
        ));
    }

    /// Advances the stage after an answer.
    fn go_on(&mut self) {
        match self.stage {
            DownloadStage::Opening if self.waiting == 0 && self.error.is_some() => {
                self.stage = DownloadStage::Over
            }
            DownloadStage::Reading
                if self.closes_early && self.waiting == 0 && self.is_closed() =>
            {
                self.closed_early();
            }
            DownloadStage::Reading => {
                let opened: Vec<usize> = self
                    .parts
                    .iter_mut()
                    .filter(|part| part.handle.is_some() && !part.reads)
                    .map(|part| {
                        part.reads = true;
                        part.link
                    })
                    .collect();
                self.wakes.extend(opened);
                let idle = self.waiting == 0 || !self.again.is_empty();
                if idle || (self.end.is_none() && self.eof.is_none()) {
                    self.wakes.extend(self.parts.first().map(|part| part.link));
                }
            }
            DownloadStage::Closing if self.waiting == 0 => {
                if self.is_closed() {
                    self.stage = DownloadStage::Over;
                } else {
                    let links: Vec<usize> = self.parts.iter().map(|part| part.link).collect();
                    self.wakes.extend(links);
                }
            }
            _ => {}
        }
    }

    fn is_closed(&self) -> bool {
        self.parts.iter().all(|part| part.handle.is_none())
    }

    /// Read and closed in one flight: checks that the file is complete.
    fn closed_early(&mut self) {
        let front = self.sink.as_ref().map_or(0, Sink::front);
        if self.error.is_none() && self.end.is_some_and(|end| front < end) && self.eof.is_none() {
            self.closes_early = false;
            for part in &mut self.parts {
                (part.asked, part.reads, part.closing) = (false, false, false);
            }
            self.stage = DownloadStage::ToOpen;
            self.wakes.extend(self.parts.first().map(|part| part.link));
            return;
        }
        self.stage = DownloadStage::Over;
    }

    /// The server reported the end of the file at `offset`.
    fn ends_at(&mut self, offset: u64) {
        let from = self.shown_from();
        match self.end {
            Some(end) if offset < end => {
                self.fail(format!(
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
            self.fail(format!(
                "read remote \"{from}\": an answer that cannot be read"
            ));
            self.stage = DownloadStage::Over;
            return 0;
        };
        if !file.is_whole {
            if let Some(error) = impossible_size(&file.attributes) {
                self.fail(format!("read remote \"{from}\": {error}"));
                self.stage = DownloadStage::Over;
                return 0;
            }
            // The file has changed since its directory was read.
            self.attributes = file.attributes;
            self.end = file.attributes.size.filter(|size| *size > 0);
            self.stage = DownloadStage::ToOpen;
            self.wakes.extend(self.parts.first().map(|part| part.link));
            return 0;
        }
        self.attributes = file.attributes;
        self.end = Some(u64::try_from(file.data.len()).unwrap_or_default());
        self.open_sink();
        self.moved += u64::try_from(file.data.len()).unwrap_or_default();
        self.write(0, file.data);
        self.stage = DownloadStage::Over;
        u64::try_from(file.data.len()).unwrap_or_default()
    }

    fn open_sink(&mut self) {
        let beside = self.options.atomic || self.parts.len() > 1;
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
                    self.parts.truncate(1);
                }
            }
            Err(error) => self.fail(error),
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
                    self.fail(format!(
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
        if let Some(first) = self.parts.first_mut() {
            first.reads = true;
        }
        let links: Vec<usize> = self.parts.iter().map(|part| part.link).collect();
        self.wakes.extend(links);
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
        self.resumed = offset;
        self.skipped = offset;
        self.next = offset;
        self.stage = DownloadStage::Reading;
        if let Some(sink) = &mut self.sink
            && let Err(error) = sink.go_on_at(offset)
        {
            let to = shown(&self.item.to);
            self.fail(format!("local truncate \"{to}\": {}", text::reason(&error)));
        }
        self.expect();
        let links: Vec<usize> = self.parts.iter().map(|part| part.link).collect();
        self.wakes.extend(links);
    }

    /// Returns the end of the range that is equal on both sides.
    fn equal_hashes(&mut self, reply: &Reply<'_>) -> u64 {
        let here = self.sink.as_ref().map_or(0, Sink::len_before);
        let here = here.min(self.end.unwrap_or(0));
        let ours = self.proof.take().and_then(|proof| proof.join().ok());
        match (reply, ours) {
            (Reply::Extended(fields), Some(ours)) => proven_len(fields, &ours, here),
            _ => 0,
        }
    }

    /// Compares the last bytes of the local file with `len` bytes received from the server.
    fn proven(&mut self, asked: Token, len: u32) {
        use std::os::unix::fs::FileExt;
        let tail = std::mem::take(&mut self.tail);
        let mut here = vec![0; tail.len()];
        let read = self
            .sink
            .as_ref()
            .map(|sink| sink.file().read_exact_at(&mut here, asked.offset));
        let equal = len == asked.len && matches!(read, Some(Ok(()))) && here == tail;
        // A part file may have been written over several connections and may have gaps.
        let temporary = self.options.atomic || self.parts.len() > 1;
        let good = match equal && !temporary {
            true => asked.offset + u64::from(asked.len),
            false => 0,
        };
        self.go_on_at(good);
    }

    /// Processes data of the file, `at` bytes after the first byte of a DATA.
    pub(super) fn data(&mut self, asked: Token, at: u32, bytes: &Bytes) {
        if self.stage == DownloadStage::Proving {
            self.tail.extend_from_slice(bytes);
            return;
        }
        self.moved += u64::try_from(bytes.len()).unwrap_or_default();
        let offset = match asked.op {
            Op::ReadRange | Op::OpenRead => self.goes_on(asked, bytes.len() as u64),
            _ => Some(asked.offset + u64::from(at)),
        };
        let Some(offset) = offset.filter(|_| self.error.is_none()) else {
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
            self.fail(has_more(&from, end));
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
            && self.error.is_none()
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
        self.fail(format!("write local \"{to}\": {}", text::reason(error)));
    }

    /// A DATA has been received completely; it had `len` bytes.
    pub(super) fn data_ends(&mut self, asked: Token, len: u32) {
        if matches!(asked.op, Op::ReadRange | Op::OpenRead) {
            // STATUS ends the request.
            return;
        }
        self.waiting = self.waiting.saturating_sub(1);
        if self.stage == DownloadStage::Proving {
            self.proven(asked, len);
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
                self.fail(has_more(&from, end));
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
