//! The upload of one file as a state machine: what it sends next when its link accepts data, and
//! how it processes answers.

use sftp::attributes::mode;
use sftp::extension::{self, Extended};
use sftp::message::{Request, open_flag, request};
use sftp::{Attributes, ExactTimes, own};

mod answers;
mod part;

use self::part::PartName;
use super::Item;
use super::target::Known;
use crate::engine::{Body, EngineError, Op, Session, Spoiled};
use crate::file::{FileCopy, FileJob, Proof};
use crate::options::{Options, Resume};
use crate::part::PartNames;
use crate::plan::id::Subject;
use crate::plan::pace::Pace;
use crate::plan::shown;
use crate::report::FileResult;
use crate::source::Source;
use crate::step::{JOINING_BYTES, SMALL_BYTES, Step};
use crate::text;

/// Maximum number of bytes read from a file that claims size 0, as those of /proc do: its content
/// is held in memory.
const MAX_UNTOLD_BYTES: u64 = 64 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UploadStage {
    /// Neither end is known.
    Begin,
    /// STAT of the file that a part file would replace was sent.
    Target,
    /// STAT of the target was sent.
    Looking,
    /// OPEN is due.
    ToOpen,
    Opening,
    /// FSTAT of the new part is due or was sent, to compare its owner with that of an existing
    /// part.
    ToCompare,
    Comparing,
    /// The existing part is to be opened in place of the new one.
    ToTake,
    /// The existing content is to be compared.
    ToProve,
    Proving,
    /// The existing part does not begin as the source does: it is to be given up for a new one.
    ToLeave,
    Writing,
    /// Everything was sent, including CLOSE.
    Finishing,
    /// The copy failed: unanswered requests are awaited.
    Cutting,
    /// The copy failed: everything was sent, including CLOSE.
    Closing,
    /// The part file is renamed to its target or removed.
    ToMove,
    Moving,
    Over,
}

/// The upload of one file.
#[derive(Debug)]
pub(crate) struct UploadJob {
    copy: FileCopy,
    item: Item,
    stage: UploadStage,
    source: Option<Source>,
    /// Mode and times of the source, kept after it is closed.
    facts: Option<(u32, ExactTimes)>,
    /// The content of a small file.
    small: Option<Vec<u8>>,
    /// Path that is written: the target, or a part file in its directory.
    path: Vec<u8>,
    temporary: bool,
    /// The names that the part file may have.
    names: Option<PartNames>,
    /// Which of these names `path` has.
    part: PartName,
    /// An existing part under the first name, until it is used or rejected.
    candidate: Option<Attributes>,
    /// RENAME was sent in the same flight as CLOSE.
    named: bool,
    /// RENAME failed, or REMOVE was sent.
    stays_unnamed: bool,
    removed: bool,
    /// STAT of the file that the part file replaces was sent.
    target_asked: bool,
    /// The mode of the file that is replaced.
    target_mode: Option<u32>,
    /// Offset of the first byte not sent, and the length of the file.
    next: u64,
    end: u64,
    /// End of the data range that contains `next`, for a file with holes.
    data_end: Option<u64>,
    /// Attributes of the target before the copy.
    there: Option<Attributes>,
    /// The answers of a [`Target`](super::Target).
    known: Option<Known>,
    cut_at_end: bool,
    /// Offset of the first byte that the server may not have written.
    bad_from: u64,
    /// The server returned "Failure": ask whether the disk is full.
    ask_space: bool,
    proof: Option<Proof>,
    /// The target may be the source.
    in_place: bool,
    /// OPEN truncates the target.
    cuts_on_open: bool,
    /// Truncate the target to this length before the first WRITE.
    cut_first: Option<u64>,
    /// The truncation is unanswered: a WRITE on another connection could overtake it.
    cutting: bool,
    options: Options,
}

impl FileJob for UploadJob {
    fn copy(&mut self) -> &mut FileCopy {
        &mut self.copy
    }

    fn left(&self) -> u64 {
        match self.stage {
            UploadStage::Begin
            | UploadStage::Target
            | UploadStage::Looking
            | UploadStage::ToOpen
            | UploadStage::Opening
            | UploadStage::ToCompare
            | UploadStage::Comparing
            | UploadStage::ToTake
            | UploadStage::ToProve
            | UploadStage::Proving
            | UploadStage::ToLeave
            | UploadStage::Writing => self.end.saturating_sub(self.next),
            _ => 0,
        }
    }

    fn is_over(&self) -> bool {
        self.stage == UploadStage::Over
    }

    fn step(&mut self, link: usize, session: &mut Session, pace: &mut Pace) -> Step {
        let first = self.copy.handles.is_first(link);
        if !session.takes_request() {
            return Step::Full;
        }
        match self.stage {
            UploadStage::Begin | UploadStage::ToOpen if first && self.copy.has_failed() => {
                // The job was interrupted before anything was opened.
                if !self.copy.is_idle() {
                    return Step::Nothing;
                }
                self.stage = UploadStage::Over;
                Step::Over
            }
            UploadStage::Begin if first && self.temporary && !self.target_asked => {
                match self.known.take() {
                    Some(known) => {
                        self.target_asked = true;
                        self.target_known(known.place.itself.as_ref());
                    }
                    None => self.ask_target(session),
                }
                Step::Sent { more: false }
            }
            UploadStage::Begin if first => match self.begin(session) {
                Ok(()) => {
                    self.small.is_some().then(|| self.put_whole(session));
                    if self.stage == UploadStage::Begin && !self.is_open_already(link, session) {
                        self.look(session);
                    }
                    match self.stage {
                        UploadStage::Over => Step::Over,
                        UploadStage::ToOpen | UploadStage::Writing => Step::Sent { more: true },
                        _ => Step::Sent { more: false },
                    }
                }
                Err(error) => {
                    self.copy.fail(error);
                    self.stage = UploadStage::Over;
                    Step::Over
                }
            },
            UploadStage::ToOpen if first => self.open(link, session),
            UploadStage::ToCompare if first => self.compare(session),
            UploadStage::ToTake if first => self.take(link, session),
            UploadStage::ToProve if first => self.prove(session),
            UploadStage::ToLeave if first => self.leave(session),
            UploadStage::Writing => self.write(link, session, pace),
            UploadStage::Cutting if self.copy.is_idle() && first => self.cut(session),
            UploadStage::Finishing | UploadStage::Closing => {
                if first && self.ask_for_space(session) {
                    return Step::Sent { more: true };
                }
                match self.copy.close(link, session) {
                    Step::Nothing
                        if first && self.copy.is_idle() && !self.copy.handles.is_any_open() =>
                    {
                        self.closed()
                    }
                    step => step,
                }
            }
            UploadStage::ToMove if first => self.settle(session),
            UploadStage::Over => Step::Over,
            _ => Step::Nothing,
        }
    }

    fn lose(&mut self, why: &EngineError) {
        let error = format!("write remote \"{}\": {why}", self.shown_to());
        self.copy.fail(error);
        self.stage = UploadStage::Over;
    }

    /// Truncates the target to the written bytes.
    fn stop(&mut self) {
        match self.stage {
            // Everything was sent, or the copy has failed.
            UploadStage::Finishing
            | UploadStage::Cutting
            | UploadStage::Closing
            | UploadStage::ToMove
            | UploadStage::Moving
            | UploadStage::Over => return,
            UploadStage::Begin | UploadStage::ToOpen if self.copy.is_idle() => {
                self.stage = UploadStage::Over
            }
            UploadStage::Begin
            | UploadStage::Target
            | UploadStage::Looking
            | UploadStage::ToOpen => {}
            // The target is unchanged and stays so.
            UploadStage::Opening | UploadStage::Proving => self.in_place = true,
            UploadStage::ToProve => (self.stage, self.in_place) = (UploadStage::Cutting, true),
            UploadStage::ToCompare
            | UploadStage::Comparing
            | UploadStage::ToTake
            | UploadStage::ToLeave => {
                self.stage = UploadStage::Cutting;
            }
            UploadStage::Writing => {}
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
    pub(super) fn new(mut copy: FileCopy, item: Item, len: u64, options: &Options) -> Self {
        let options = options.for_one(copy.handles.len());
        // A name with a trailing slash cannot be a file's: the server reports the error.
        let temporary = (options.atomic || copy.handles.len() > 1) && !item.to.ends_with(b"/");
        let path = item.to.clone();
        if !temporary {
            copy.handles.keep_first();
        }
        Self {
            copy,
            stage: UploadStage::Begin,
            source: None,
            facts: None,
            small: None,
            path,
            temporary,
            names: None,
            part: PartName::First,
            candidate: None,
            named: false,
            stays_unnamed: false,
            removed: false,
            target_asked: false,
            target_mode: None,
            next: 0,
            end: len,
            data_end: None,
            there: None,
            known: None,
            cut_at_end: false,
            bad_from: u64::MAX,
            ask_space: false,
            proof: None,
            in_place: false,
            cuts_on_open: false,
            cut_first: None,
            cutting: false,
            options,
            item,
        }
    }

    /// Uses a local file that is open already.
    pub(super) fn with_source(mut self, source: Option<Source>) -> Self {
        self.source = source;
        self
    }

    /// Uses the answers for the target.
    pub(super) fn with_known(mut self, known: Option<Known>) -> Self {
        self.known = known;
        self
    }

    /// Returns and resets the bytes that were not sent and not reported yet, once others have
    /// `moved`.
    pub(super) fn take_skipped(&mut self, moved: u64) -> u64 {
        match moved {
            0 => 0,
            _ => std::mem::take(&mut self.copy.skipped),
        }
    }

    fn shown_from(&self) -> String {
        shown(&self.item.from)
    }

    fn shown_to(&self) -> String {
        text::name(&self.item.to)
    }

    /// Reading the source failed or came up short.
    pub(super) fn spoiled(&mut self, spoiled: &Spoiled) {
        self.bad_from = self.bad_from.min(spoiled.at);
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

    // ---- sending --------------------------------------------------------------------------

    /// Opens the local file; reads a small one completely.
    fn begin(&mut self, session: &Session) -> Result<(), String> {
        let from = self.shown_from();
        let reading =
            |error: std::io::Error| format!("read local \"{from}\": {}", text::reason(&error));
        let opened = self
            .source
            .take()
            .map_or_else(|| Source::open(&self.item.from), Ok);
        let source = opened.map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidInput => format!("local \"{from}\" is not a regular file"),
            _ => format!("open local \"{from}\": {}", text::reason(&error)),
        })?;
        self.end = source.len;
        self.facts = Some((source.mode, source.times));
        let limit = SMALL_BYTES.min(u64::from(session.server().max_write));
        let opened = self
            .known
            .as_ref()
            .is_some_and(|known| known.place.opened.is_some());
        if self.temporary {
            let names = PartNames::of_local(&source, &self.item.to);
            self.path = crate::part::beside(&self.item.to, &names.first());
            self.names = Some(names);
        }
        let by_size = self.options.resume == Resume::BySize && self.end > 0;
        if opened || self.copy.handles.len() > 1 || self.end > SMALL_BYTES {
            self.source = Some(source);
            return Ok(());
        }
        // Reading one byte more than expected detects a file that has grown; a file of size 0 may
        // be one of /proc, whose size is unknown.
        let wanted = if self.end == 0 {
            MAX_UNTOLD_BYTES
        } else {
            self.end
        };
        let bytes = source.read_up_to(wanted + 1).map_err(reading)?;
        let had = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        // A sysfs file claims a page and has less.
        let claims = had < self.end && source.check_unchanged(true).is_ok();
        if claims || self.end == 0 && had <= MAX_UNTOLD_BYTES {
            self.end = had;
            if !by_size && (had > 0 || self.options.resume == Resume::Proven) {
                // Nothing to resume for such a file.
                self.options.resume = Resume::Never;
            }
        }
        if had != self.end {
            return Err(format!(
                "read local \"{from}\": file changed while it was copied: it had {} bytes and \
                 has {had}{}",
                self.end,
                if had > self.end { " or more" } else { "" }
            ));
        }
        match self.options.resume {
            Resume::Never if self.end <= limit || source.len == 0 => self.small = Some(bytes),
            _ => self.source = Some(source),
        }
        Ok(())
    }

    fn mode(&self) -> Attributes {
        let mode = self.facts.map_or(0o644, |(mode, _)| mode);
        Attributes::with_permissions(mode & 0o777)
    }

    /// Mode and times to set after the content.
    fn kept(&self, session: &Session) -> Attributes {
        let exact = session.server().has(own::EXACT_TIMES, "1");
        match self.facts {
            Some((_, times)) => Attributes {
                times: Some(times.into()),
                exact_times: exact.then_some(times),
                ..self.mode()
            },
            None => self.mode(),
        }
    }

    /// Sends a small file as one request, if the server supports that.
    fn put_whole(&mut self, session: &mut Session) {
        if self.temporary || !session.server().has(own::PUT_FILE, "1") {
            return;
        }
        let limit = SMALL_BYTES.min(u64::from(session.server().max_write));
        let Some(data) = self.small.take_if(|_| self.end <= limit) else {
            return;
        };
        let mut flags = 0;
        let mut attributes = self.mode();
        if self.options.preserve {
            flags |= own::put_flag::EXACT;
            attributes = self.kept(session);
        }
        if self.options.sync {
            flags |= own::put_flag::SYNC;
        }
        let range = (0, as_u32(data.len()));
        let request = Extended::PutFile(extension::PutFile {
            path: &self.path,
            flags,
            attributes,
            data: &data,
        });
        self.copy
            .send_data(session, Op::PutFile, range, &Request::Extended(request));
        self.next = self.end;
        self.stage = UploadStage::Finishing;
    }

    /// Sends STAT of the target if its state matters: a target that may be the source must not be
    /// truncated by OPEN (unless the source is read completely before), and a part to be continued
    /// must be known.
    fn look(&mut self, session: &mut Session) {
        self.stage = UploadStage::ToOpen;
        let resumes = self.options.resume != Resume::Never;
        if !resumes && (self.item.fresh || self.temporary || self.small.is_some()) {
            self.cuts_on_open = true;
            return;
        }
        if resumes {
            self.stage = UploadStage::Looking;
        }
        if self.temporary {
            // A symbolic link is not a part.
            let request = Request::Lstat(request::Lstat { path: &self.path });
            self.copy.send(session, Op::Stat, &request);
            return;
        }
        let request = Request::Stat(request::Stat { path: &self.path });
        self.copy.send(session, Op::Stat, &request);
    }

    /// Continues with a target that a [`Target`](super::Target) has opened.
    fn is_open_already(&mut self, link: usize, session: &mut Session) -> bool {
        let Some(known) = self.known.take() else {
            return false;
        };
        if let Some(other) = &known.other {
            session.close_read(other);
        }
        self.there = known.place.there;
        match known.place.opened {
            Some(Ok(handle)) => {
                self.copy.handles.opened(link, handle);
                self.opened();
            }
            Some(Err(why)) => {
                let to = self.shown_to();
                self.copy.fail(format!("dest open \"{to}\": {why}"));
                self.stage = UploadStage::Over;
            }
            None => return false,
        }
        true
    }

    /// Sends STAT of the file that a part would replace: a link or a device is written to instead.
    fn ask_target(&mut self, session: &mut Session) {
        self.target_asked = true;
        self.stage = UploadStage::Target;
        let path = &self.item.to;
        self.copy
            .send(session, Op::Stat, &Request::Lstat(request::Lstat { path }));
    }

    fn open(&mut self, link: usize, session: &mut Session) -> Step {
        if !session.takes_handle() {
            return Step::Full;
        }
        let mut flags = open_flag::WRITE;
        if self.stage == UploadStage::ToOpen {
            flags |= open_flag::CREATE;
            if self.temporary {
                // No existing file is touched.
                flags |= open_flag::EXCLUSIVE;
            } else if self.cuts_on_open {
                flags |= open_flag::TRUNCATE;
            } else if self.options.resume == Resume::Proven && self.size_there() > 0 {
                flags |= open_flag::READ;
            }
            self.stage = UploadStage::Opening;
        }
        let mut attributes = self
            .target_mode
            .map_or_else(|| self.mode(), Attributes::with_permissions);
        if !self.temporary {
            attributes = session.sole_writer(attributes);
        }
        let open = request::Open {
            path: &self.path,
            flags,
            attributes,
        };
        self.copy.open(link, session, open);
        Step::Sent { more: false }
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

    /// Asks for hashes or the last bytes of the existing content.
    fn prove(&mut self, session: &mut Session) -> Step {
        let there = self.size_there().min(self.end);
        let Some(source) = &self.source else {
            return Step::Nothing;
        };
        let local = || Some(source.file().clone());
        self.proof = Proof::begin(&mut self.copy, session, there, local);
        if self.proof.is_none() {
            return Step::Nothing;
        }
        self.stage = UploadStage::Proving;
        Step::Sent { more: false }
    }

    fn handle(&self) -> Option<Vec<u8>> {
        self.copy.handles.first().map(<[u8]>::to_vec)
    }

    fn write(&mut self, link: usize, session: &mut Session, pace: &mut Pace) -> Step {
        let first = self.copy.handles.is_first(link);
        if self.copy.has_failed() {
            self.stage = UploadStage::Cutting;
            return match self.copy.is_idle() {
                true if first => self.cut(session),
                _ => self.copy.leave_to_first(),
            };
        }
        if self.copy.handles.is_unopened(link) {
            // The rest is sent faster without another connection.
            return match self.end.saturating_sub(self.next) < JOINING_BYTES {
                true => self.copy.leave_to_first(),
                false => self.open(link, session),
            };
        }
        let Some(handle) = self.copy.handles.open(link).map(<[u8]>::to_vec) else {
            return Step::Nothing;
        };
        if !first && (self.cutting || self.cut_first.is_some()) {
            return Step::Full;
        }
        if let Some(len) = self.cut_first.take() {
            self.cutting = true;
            self.set_length(session, &handle, len);
        }
        // The bytes after the compared ones of an existing part are overwritten, not truncated.
        let over = self.in_place || self.part == PartName::Taken;
        if self.options.sparse && !over && self.small.is_none() {
            self.skip_holes();
        }
        if self.next >= self.end {
            return match self.copy.is_idle() {
                true if first => self.finish(session),
                _ if self.ends_in_flight(session) => self.finish(session),
                _ => self.copy.leave_to_first(),
            };
        }
        if !session.takes_write() || !pace.lets_go() {
            return Step::Full;
        }
        let until = self.data_end.unwrap_or(self.end).min(self.end);
        let len = (until - self.next).min(u64::from(session.server().max_write));
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let range = (self.next, len);
        let data = self
            .small
            .as_ref()
            .and_then(|small| small.get(as_usize(self.next)..));
        match (data, &self.source) {
            (Some(data), _) => {
                let request = Request::Write(request::Write {
                    handle: &handle,
                    offset: self.next,
                    data: data.get(..as_usize(u64::from(len))).unwrap_or(data),
                });
                self.copy.send_data(session, Op::Write, range, &request);
            }
            (None, Some(source)) => {
                let body = Body {
                    file: source.file().clone(),
                    offset: self.next,
                    len,
                    job: Subject::File(self.copy.id()).number(),
                };
                let token = self.copy.id().data_token(Op::Write, self.next, len);
                self.copy.sent();
                session.send_file(token, &handle, self.next, body);
            }
            (None, None) => return Step::Nothing,
        }
        pace.went(u64::from(len));
        self.next += u64::from(len);
        if self.small.is_some() && self.next >= self.end {
            // That was all the data: the rest goes in the same flight.
            return self.finish(session);
        }
        Step::Sent { more: true }
    }

    /// True if the closing requests follow the data without waiting for answers. Fulmar's server
    /// refuses writes that would leave a hole after a failed WRITE, so nothing has to be truncated.
    fn ends_in_flight(&self, session: &Session) -> bool {
        self.copy.handles.len() == 1 && !self.cut_at_end && session.server().has(own::PUT_FILE, "1")
    }

    fn skip_holes(&mut self) {
        if self.data_end.is_some_and(|end| self.next < end) {
            return;
        }
        let Some(source) = &self.source else { return };
        let (begin, end) = source.data_from(self.next).unwrap_or((self.end, self.end));
        self.copy.skipped += begin.saturating_sub(self.next);
        self.next = begin;
        self.data_end = Some(end);
        self.cut_at_end = true;
    }

    /// All data was sent: sends length, attributes and CLOSE in one flight.
    fn finish(&mut self, session: &mut Session) -> Step {
        let Some(handle) = self.handle() else {
            return Step::Nothing;
        };
        let changed = match &self.source {
            // A copy onto itself changes the modification time.
            Some(source) if self.small.is_none() => source.check_unchanged(!self.in_place),
            _ => Ok(()),
        };
        if let Err(why) = changed {
            let from = self.shown_from();
            self.copy.fail(format!("read local \"{from}\": {why}"));
            // The content after the common beginning is unknown: keep the beginning only.
            self.stage = UploadStage::Cutting;
            return match self.copy.is_idle() {
                true => self.cut(session),
                _ => Step::Nothing,
            };
        }
        self.stage = UploadStage::Finishing;
        if self.cut_at_end {
            self.set_length(session, &handle, self.end);
        }
        if self.small.is_none() {
            let request = Request::Fstat(request::Fstat { handle: &handle });
            self.copy.send(session, Op::Fstat, &request);
        }
        if self.options.preserve {
            let request = Request::Fsetstat(request::Fsetstat {
                handle: &handle,
                attributes: self.kept(session),
            });
            self.copy.send(session, Op::Attributes, &request);
        } else if let Some(mode) = self.target_mode {
            // The server's umask may have cleared bits.
            let request = Request::Fsetstat(request::Fsetstat {
                handle: &handle,
                attributes: Attributes::with_permissions(mode),
            });
            self.copy.send(session, Op::Attributes, &request);
        }
        if self.options.sync && session.server().has(extension::FSYNC, "1") {
            let request = Extended::Fsync(extension::Fsync { handle: &handle });
            self.copy
                .send(session, Op::Sync, &Request::Extended(request));
        }
        self.copy.close_all(session);
        if self.temporary && self.is_named_in_flight(session) {
            self.named = true;
            self.give_name(session);
        }
        Step::Sent { more: false }
    }

    /// True if a part written over several connections is renamed without waiting for the answer to
    /// CLOSE. Fulmar's server has confirmed every write and handles requests in order.
    fn is_named_in_flight(&self, session: &Session) -> bool {
        !self.options.atomic
            && session.server().has(own::PUT_FILE, "1")
            && session.server().has(extension::POSIX_RENAME, "1")
    }

    fn set_length(&mut self, session: &mut Session, handle: &[u8], len: u64) {
        let request = Request::Fsetstat(request::Fsetstat {
            handle,
            attributes: Attributes {
                size: Some(len),
                ..Attributes::NONE
            },
        });
        self.copy.send(session, Op::Truncate, &request);
    }

    /// After a failure: truncates the target to the bytes certainly written.
    fn cut(&mut self, session: &mut Session) -> Step {
        self.stage = UploadStage::Closing;
        // First, since truncating frees space.
        self.ask_for_space(session);
        if let Some(handle) = self.handle() {
            let sure = self.bad_from.min(self.next);
            if !self.temporary && !self.in_place && sure < u64::MAX {
                self.set_length(session, &handle, sure);
            }
        }
        self.copy.close_all(session);
        if self.copy.is_idle() && !self.copy.handles.is_any_open() {
            return self.closed();
        }
        Step::Sent { more: false }
    }

    /// Asks once whether the disk is full, if that may be the cause of the failure.
    fn ask_for_space(&mut self, session: &mut Session) -> bool {
        if !std::mem::take(&mut self.ask_space) || !session.server().has(extension::STATVFS, "2") {
            return false;
        }
        let request = Extended::Statvfs(extension::Statvfs { path: &self.path });
        self.copy
            .send(session, Op::Space, &Request::Extended(request));
        true
    }
}

fn as_u32(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

fn as_usize(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}
