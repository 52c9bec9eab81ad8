//! Processing of the answers for one file.

use sftp::message::Reply;
use sftp::{Code, vendor};

use super::read::Read;
use super::{DownloadJob, DownloadStage};
use crate::engine::{EngineError, Op, Session, status_text};
use crate::file::{FileAnswer, failure};
use crate::step::impossible_size;

impl DownloadJob {
    /// Processes an answer; returns the number of bytes received with it.
    pub(super) fn answer(&mut self, (link, session, asked, reply): FileAnswer<'_>) -> u64 {
        if let (Op::ReadRange, Reply::Extended(fields)) = (asked.op, reply) {
            // More of the range follows.
            return self.hole(asked, fields);
        }
        if let (Op::WalkFile, Reply::Extended(fields)) = (asked.op, reply) {
            // STATUS follows.
            return self.whole(fields);
        }
        if let (Op::OpenRead, Reply::Extended(_)) = (asked.op, reply) {
            self.fail_as_odd();
            self.copy.wake(link);
            return 0;
        }
        self.copy.answered();
        match (asked.op, reply) {
            (Op::WalkFile, Reply::Status(_)) => self.whole_ends(),
            (Op::Open, reply) => self.open_answered(link, session, reply),
            (Op::Read, Reply::Status(_)) if matches!(self.stage, DownloadStage::Proving(_)) => {
                self.proven(asked, Some(reply));
            }
            (Op::Read, Reply::Status(status)) if status.code == Code::EOF => {
                self.ends(asked, session);
            }
            (Op::Stat, Reply::Attrs(now)) => self.claims(Some(now)),
            (Op::Stat, _) => self.claims(None),
            (Op::Read, Reply::Status(status)) => {
                self.fail_to_read(&status_text(status.code, status.message));
            }
            (Op::ReadRange, Reply::Status(_)) => {
                self.range_ends(asked, failure(reply).map(|(_, why)| why));
            }
            (Op::OpenRead, Reply::Status(_)) => {
                self.ends_streaming();
                self.stream_ends(asked, failure(reply).map(|(_, why)| why));
            }
            (Op::Hash, reply) => self.proven(asked, Some(reply)),
            (Op::Close, reply) => {
                session.handle_ends();
                if let Some((_, why)) = failure(reply) {
                    let from = self.shown_from();
                    self.copy.fail(format!("close remote \"{from}\": {why}"));
                }
            }
            (op, _) => {
                if op == Op::OpenRead {
                    self.ends_streaming();
                }
                self.fail_as_odd();
            }
        }
        self.go_on();
        0
    }

    fn ends_streaming(&mut self) {
        if let Some(read) = self.reading() {
            read.streaming = None;
        }
    }

    fn fail_to_open(&mut self, why: &str) {
        let from = self.shown_from();
        self.copy.fail(format!("remote open \"{from}\": {why}"));
    }

    fn open_answered(&mut self, link: usize, session: &mut Session, reply: &Reply<'_>) {
        if let Err(why) = self.copy.opened(link, session, reply) {
            self.fail_to_open(&why);
            return;
        }
        match self.stage {
            // Do not touch the target.
            DownloadStage::Opening(_) if self.copy.has_failed() => {
                self.stage = DownloadStage::Read(Read::default());
            }
            DownloadStage::Opening(_) => self.opened(),
            _ => {}
        }
    }

    /// Advances the stage after an answer.
    pub(super) fn go_on(&mut self) {
        let is_idle = self.copy.is_idle();
        match &self.stage {
            DownloadStage::Opening(_) if is_idle && self.copy.has_failed() => {
                self.stage = DownloadStage::Over;
            }
            DownloadStage::Read(read)
                if read.closes_early && is_idle && !self.copy.handles.is_any_open() =>
            {
                self.closed_early();
            }
            DownloadStage::Read(read) => {
                let idle = is_idle || !read.again.is_empty();
                let one_by_one = self.end.is_none() && read.eof.is_none();
                self.copy.wake_opened();
                if idle || one_by_one {
                    self.copy.wake_first();
                }
            }
            DownloadStage::Close if is_idle => match self.copy.handles.is_any_open() {
                true => self.copy.wake_all(),
                false => self.stage = DownloadStage::Over,
            },
            _ => {}
        }
    }

    /// Processes the entry of the whole file; returns the number of bytes received.
    fn whole(&mut self, fields: &[u8]) -> u64 {
        let entry = vendor::entries(fields).next();
        let complete = matches!(self.stage, DownloadStage::Whole { complete: true, .. });
        let Some(Ok(entry)) = entry.filter(|_| !complete && !self.copy.has_failed()) else {
            self.fail_to_read("a malformed answer");
            return 0;
        };
        if let Some(error) = impossible_size(&entry.attributes) {
            self.fail_to_read(&error);
            return 0;
        }
        self.attributes = entry.attributes;
        self.end = entry.attributes.size.filter(|size| *size > 0);
        let Some(content) = entry.content else {
            // The file has changed since its directory was read.
            return 0;
        };
        let len = u64::try_from(content.len()).unwrap_or_default();
        self.end = Some(len);
        if let DownloadStage::Whole { complete, .. } = &mut self.stage {
            *complete = true;
        }
        self.open_target();
        self.copy.moved += len;
        if let Some(target) = &mut self.target {
            let written = target.write(0, content);
            self.written(written);
        }
        len
    }

    /// No more follows about the whole file. If it has not arrived, it is opened, which reports the
    /// error if there is one; not after an interrupt.
    fn whole_ends(&mut self) {
        let DownloadStage::Whole {
            complete,
            is_stopped,
        } = self.stage
        else {
            return;
        };
        if is_stopped && !complete {
            self.copy.fail(EngineError::Interrupted.to_string());
        }
        if complete || self.copy.has_failed() {
            self.stage = DownloadStage::Over;
        } else {
            self.stage = DownloadStage::ToOpen(Read::default());
            self.copy.wake_first();
        }
    }
}
