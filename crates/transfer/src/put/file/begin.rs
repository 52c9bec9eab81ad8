//! The stage before the local file is open. Its end decides how the file is sent: whole, to a target
//! that is open already, or to one that is looked up and opened.

use std::io;

use sftp::attributes::mode;
use sftp::extension::{self, Extended};
use sftp::message::{Request, request};
use sftp::{Attributes, vendor};

use super::UploadJob;
use super::stage::{
    Content, Ends, Finish, Local, PartFile, Prepare, PrepareStep, UploadStage, Writes,
};
use crate::engine::{Op, Session};
use crate::options::{Options, Resume};
use crate::part::PartNames;
use crate::put::target::Known;
use crate::source::Source;
use crate::step::{SMALL_BYTES, Step};
use crate::text;

/// Maximum number of bytes read from a file that claims size 0, as those of /proc do: its content
/// is held in memory.
const MAX_UNTOLD_BYTES: u64 = 64 << 20;

/// Maximum size of a file that is sent in one WRITE, bytes.
fn small_limit(session: &Session) -> u64 {
    SMALL_BYTES.min(u64::from(session.server().max_write))
}

impl UploadJob {
    /// Asks about the file that a part would replace, or opens the local file and sends the first
    /// request for the target.
    pub(super) fn begin(&mut self, link: usize, session: &mut Session) -> Step {
        let UploadStage::Begin(begin) = &mut self.stage else {
            return Step::Nothing;
        };
        if self.copy.has_failed() {
            // The job was interrupted before anything was opened.
            if !self.copy.is_idle() {
                return Step::Nothing;
            }
            self.stage = UploadStage::Over;
            return Step::Over;
        }
        match begin.writes {
            Writes::Beside => {
                match begin.known.take() {
                    Some(known) => self.target_known(known.place.itself.as_ref()),
                    None => self.ask_target(session),
                }
                return Step::Sent { more: false };
            }
            Writes::Asked => return Step::Nothing,
            Writes::InPlace | Writes::Replacing(_) => {}
        }
        let UploadStage::Begin(begin) = self.stage.take() else {
            return Step::Nothing;
        };
        let known = begin.known;
        let place = known.as_ref().map(|known| &known.place);
        let is_open = place.is_some_and(|place| place.opened.is_some());
        match self.open_local(begin.source, begin.writes, is_open, session) {
            Ok(ends) => {
                if let Some(ends) = self.put_whole(ends, session)
                    && let Some(prepare) = self.use_opened(link, known, ends, session)
                {
                    self.look(prepare, session);
                }
            }
            Err(error) => self.copy.fail(error),
        }
        match &self.stage {
            UploadStage::Over => Step::Over,
            UploadStage::Prepare(prepare) => Step::Sent {
                more: matches!(prepare.step, PrepareStep::ToOpen),
            },
            UploadStage::Write(_) => Step::Sent { more: true },
            _ => Step::Sent { more: false },
        }
    }

    /// Sends STAT of the file that a part would replace: a link or a device is written to instead.
    fn ask_target(&mut self, session: &mut Session) {
        if let UploadStage::Begin(begin) = &mut self.stage {
            begin.writes = Writes::Asked;
        }
        let path = &self.item.to;
        let request = Request::Lstat(request::Lstat { path });
        self.copy.send(session, Op::Stat, &request);
    }

    /// Processes the attributes of the file that the part replaces.
    pub(super) fn target_known(&mut self, there: Option<&Attributes>) {
        let UploadStage::Begin(begin) = &mut self.stage else {
            return;
        };
        let permissions = there.and_then(|there| there.permissions);
        let is_file = there.is_none_or(|there| {
            there.permissions.is_none() || there.is(mode::REGULAR) || there.is(0)
        });
        begin.writes = match is_file {
            true => Writes::Replacing(permissions.map(|permissions| permissions & 0o777)),
            false => {
                self.copy.handles.keep_first();
                Writes::InPlace
            }
        };
        self.copy.wake_first();
    }

    /// Opens the local file; reads a small one completely, unless its target `is_open`.
    fn open_local(
        &mut self,
        source: Option<Source>,
        writes: Writes,
        is_open: bool,
        session: &Session,
    ) -> Result<Ends, String> {
        let opened = source.map_or_else(|| Source::open(&self.item.from), Ok);
        let source = opened.map_err(|error| {
            let from = self.shown_from();
            match error.kind() {
                io::ErrorKind::InvalidInput => format!("local \"{from}\" is not a regular file"),
                _ => format!("open local \"{from}\": {}", text::reason(&error)),
            }
        })?;
        self.end = source.len;
        let (replaced_mode, part) = match writes {
            Writes::Replacing(mode) => {
                let names = PartNames::of_local(&source, &self.item.to);
                (mode, Some(PartFile::new(names, &self.item.to)))
            }
            Writes::InPlace | Writes::Beside | Writes::Asked => (None, None),
        };
        let (mode, times) = (source.mode, source.times);
        let content = match is_open || self.copy.handles.len() > 1 || self.end > SMALL_BYTES {
            true => Content::File(source),
            false => self.read_small(source, session)?,
        };
        Ok(Ends {
            local: Local {
                content,
                mode,
                times,
            },
            part,
            replaced_mode,
            in_place: false,
        })
    }

    /// Reads a small file. It stays open if it is to be continued, or does not fit in one WRITE.
    fn read_small(&mut self, source: Source, session: &Session) -> Result<Content, String> {
        let by_size = self.options.resume == Resume::BySize && self.end > 0;
        // Reading one byte more than expected detects a file that has grown; a file of size 0 may
        // be one of /proc, whose size is unknown.
        let wanted = if self.end == 0 {
            MAX_UNTOLD_BYTES
        } else {
            self.end
        };
        let bytes = source.read_up_to(wanted + 1).map_err(|error| {
            let from = self.shown_from();
            format!("read local \"{from}\": {}", text::reason(&error))
        })?;
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
            let more = if had > self.end { " or more" } else { "" };
            return Err(format!(
                "read local \"{}\": file changed while it was copied: it had {} bytes and has \
                 {had}{more}",
                self.shown_from(),
                self.end,
            ));
        }
        let fits = self.end <= small_limit(session) || source.len == 0;
        Ok(match self.options.resume {
            Resume::Never if fits => Content::Small(bytes),
            _ => Content::File(source),
        })
    }

    /// Sends a small file as one request, if the server supports that; returns what is left to do
    /// for the file otherwise.
    fn put_whole(&mut self, ends: Ends, session: &mut Session) -> Option<Ends> {
        let Content::Small(data) = &ends.local.content else {
            return Some(ends);
        };
        let fits = self.end <= small_limit(session);
        if !fits || ends.part.is_some() || !session.server().has(vendor::PUT_FILE, "1") {
            return Some(ends);
        }
        let (flags, attributes) = put_flags(&self.options, &ends.local, session);
        let len = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let request = Request::Extended(Extended::PutFile(extension::PutFile {
            path: &self.item.to,
            flags,
            attributes,
            data,
        }));
        self.copy
            .send_data(session, Op::PutFile, (0, len), &request);
        self.stage = UploadStage::Finish(Finish::new(None));
        None
    }

    /// Continues with a target that a [`Target`](crate::put::Target) has opened; returns what is
    /// left to do if it has not.
    fn use_opened(
        &mut self,
        link: usize,
        known: Option<Known>,
        ends: Ends,
        session: &mut Session,
    ) -> Option<Prepare> {
        let mut prepare = Prepare::new(ends);
        let Some(known) = known else {
            return Some(prepare);
        };
        if let Some(other) = &known.other {
            session.close_read(other);
        }
        prepare.there = known.place.there;
        match known.place.opened {
            Some(Ok(handle)) => {
                self.copy.handles.opened(link, handle);
                self.stage = UploadStage::Prepare(prepare);
                self.opened();
            }
            Some(Err(why)) => {
                let to = self.shown_to();
                self.copy.fail(format!("dest open \"{to}\": {why}"));
            }
            None => return Some(prepare),
        }
        None
    }

    /// Sends STAT of the target if its state matters: a target that may be the source must not be
    /// truncated by OPEN (unless the source is read completely before), and a part to be continued
    /// must be known.
    fn look(&mut self, mut prepare: Prepare, session: &mut Session) {
        let resumes = self.options.resume != Resume::Never;
        let is_read = prepare.ends.local.file().is_none();
        let is_beside = prepare.ends.part.is_some();
        if !resumes && (self.item.fresh || is_beside || is_read) {
            prepare.cuts_on_open = true;
        } else {
            if resumes {
                prepare.step = PrepareStep::Looking;
            }
            let path = prepare.ends.path(&self.item);
            let request = match is_beside {
                // A symbolic link is not a part.
                true => Request::Lstat(request::Lstat { path }),
                false => Request::Stat(request::Stat { path }),
            };
            self.copy.send(session, Op::Stat, &request);
        }
        self.stage = UploadStage::Prepare(prepare);
    }
}

/// Flags and attributes of PUT_FILE.
fn put_flags(options: &Options, local: &Local, session: &Session) -> (u32, Attributes) {
    let mut flags = 0;
    let mut attributes = local.mode();
    if options.preserve {
        flags |= vendor::put_flag::EXACT;
        attributes = local.kept(session);
    }
    if options.sync {
        flags |= vendor::put_flag::SYNC;
    }
    (flags, attributes)
}
