//! The stages in which the server's file and the target are opened and, if the copy resumes, the
//! target's content is compared.

use sftp::message::Reply;

use super::read::Read;
use super::target::LocalTarget;
use super::{DownloadJob, DownloadStage, open_sink};
use crate::engine::{Session, Token};
use crate::file::Proof;
use crate::get::Item;
use crate::options::Resume;
use crate::plan::shown;
use crate::sink::Sink;
use crate::step::Step;
use crate::text;

impl DownloadJob {
    /// Opens the server's file on the first connection.
    pub(super) fn open(&mut self, link: usize, session: &mut Session) -> Step {
        let step = self.copy.open_to_read(link, session, &self.item.from);
        if matches!(step, Step::Sent { .. })
            && let DownloadStage::ToOpen(read) = self.take_stage()
        {
            self.stage = DownloadStage::Opening(read);
        }
        step
    }

    /// Length of the target's content that is worth comparing.
    fn here(&self) -> u64 {
        let here = self.sink().map_or(0, Sink::len_before);
        here.min(self.end.unwrap_or(0))
    }

    pub(super) fn prove(&mut self, session: &mut Session) -> Step {
        let here = self.here();
        let target = self.target.as_ref();
        let local = || target?.sink.file().try_clone().ok();
        match Proof::begin(&mut self.copy, session, here, local) {
            Some(proof) => {
                self.stage = DownloadStage::Proving(proof);
                Step::Sent { more: false }
            }
            None => Step::Nothing,
        }
    }

    /// The answer about the local content is complete; `reply` is `None` for DATA.
    pub(super) fn proven(&mut self, asked: Token, reply: Option<&Reply<'_>>) {
        let proof = match self.take_stage() {
            DownloadStage::Proving(proof) => proof,
            other => {
                self.stage = other;
                return;
            }
        };
        // A part file may have been written over several connections.
        let may_have_gaps = self.options.atomic || self.copy.handles.len() > 1;
        // After an interrupt the local file stays as it is.
        let good = self.sink().map_or(0, |sink| {
            proof.ends(asked, reply, Some(sink.file()), may_have_gaps)
        });
        self.go_on_at(good);
    }

    /// Opens the target.
    pub(super) fn open_target(&mut self) {
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
                self.target = Some(LocalTarget::new(sink));
                if !temporary {
                    self.copy.handles.keep_first();
                }
            }
            Err(error) => self.copy.fail(error),
        }
    }

    /// The server's file is open: opens the target, if it is not, and resumes or starts.
    pub(super) fn opened(&mut self) {
        let mut read = match self.take_stage() {
            DownloadStage::Opening(read) => read,
            _ => Read::default(),
        };
        if self.target.is_none() {
            self.open_target();
        }
        let here = self.sink().map_or(0, Sink::len_before);
        match self.options.resume {
            Resume::BySize if here > 0 => {
                // This includes a size of 0.
                if self.attributes.size.is_some_and(|size| here > size) {
                    // OpenSSH's text.
                    let to = shown(&self.item.to);
                    self.copy.fail(format!(
                        "Unable to resume download of \"{to}\": local file is larger than remote"
                    ));
                    self.target = None;
                    self.stage = DownloadStage::Read(read);
                } else {
                    self.go_on_at(here);
                }
            }
            Resume::Proven if here > 0 && self.end.is_some() => {
                self.stage = DownloadStage::ToProve;
            }
            resume => {
                read.closes_early = resume == Resume::Never && self.target.is_some();
                read.next = self.front();
                self.stage = DownloadStage::Read(read);
                self.expect();
            }
        }
        self.copy.handles.first_begins();
        self.copy.wake_all();
    }

    /// Tells the target the expected length.
    fn expect(&mut self) {
        if let (Some(target), Some(end)) = (&mut self.target, self.end) {
            target.sink.expect(end);
        }
    }

    /// Continues the copy at `offset`; the bytes before it are kept.
    fn go_on_at(&mut self, offset: u64) {
        self.copy.resumed = offset;
        self.copy.skipped = offset;
        self.stage = DownloadStage::Read(Read {
            next: offset,
            ..Read::default()
        });
        if let Some(target) = &mut self.target
            && let Err(error) = target.sink.go_on_at(offset)
        {
            let to = shown(&self.item.to);
            self.copy
                .fail(format!("local truncate \"{to}\": {}", text::reason(&error)));
        }
        self.expect();
        self.copy.wake_all();
    }
}
