//! Processing of the answers for one file.

use sftp::Code;
use sftp::attributes::mode;
use sftp::extension;
use sftp::message::Reply;

use super::UploadJob;
use super::stage::UploadStage;
use crate::engine::{Op, Session, attributes_of};
use crate::file::{FileAnswer, failure};

impl UploadJob {
    /// Processes an answer; returns the number of bytes that it confirms.
    pub(super) fn answer(&mut self, (link, session, asked, reply): FileAnswer<'_>) -> u64 {
        self.copy.answered();
        let failed = failure(reply);
        let mut moved = 0;
        match asked.op {
            Op::Stat => {
                let there = attributes_of(reply);
                match self.stage {
                    UploadStage::Begin(_) => self.target_known(there.as_ref()),
                    _ => self.looked(there.as_ref()),
                }
            }
            Op::Open => self.open_answered(link, session, reply),
            Op::Write | Op::PutFile => match failed {
                None => {
                    moved = u64::from(asked.len);
                    self.copy.moved += moved;
                }
                Some((code, why)) => {
                    self.not_written_from(asked.offset);
                    self.ask_space |= code == Code::FAILURE && why == code.text();
                    let verb = match asked.op {
                        Op::PutFile if code != Code::FAILURE => "dest open",
                        _ => "write remote",
                    };
                    self.fail_to(verb, &why);
                }
            },
            Op::Read | Op::Hash => self.proven(asked, Some(reply)),
            Op::Fstat => self.check_length(reply),
            Op::Owner => self.compared(reply),
            Op::Space => self.check_space(reply),
            Op::Truncate => {
                if let Some((_, why)) = failed {
                    self.fail_to("truncate remote", &why);
                }
                self.truncated();
            }
            Op::Attributes => {
                if let Some((_, why)) = failed {
                    self.fail_to("remote fsetstat", &why);
                }
            }
            Op::Sync => {
                if let Some((_, why)) = failed {
                    self.fail_to("remote fsync", &why);
                }
            }
            Op::Close => {
                session.handle_ends();
                if let Some((_, why)) = failed {
                    self.fail_to("close remote", &why);
                }
            }
            Op::Rename => {
                if let Some((_, why)) = failed {
                    self.rename_refused(&why);
                }
            }
            _ => {}
        }
        self.go_on();
        moved
    }

    /// An operation on the target failed.
    fn fail_to(&mut self, verb: &str, why: &str) {
        let to = self.shown_to();
        self.copy.fail(format!("{verb} \"{to}\": {why}"));
    }

    fn open_answered(&mut self, link: usize, session: &mut Session, reply: &Reply<'_>) {
        let Err(why) = self.copy.opened(link, session, reply) else {
            return;
        };
        if self.opens_another_part() {
            return;
        }
        self.fail_to("dest open", &why);
        self.not_written_from(self.copy.resumed);
    }

    fn check_length(&mut self, reply: &Reply<'_>) {
        let Reply::Attrs(attributes) = reply else {
            return;
        };
        let regular = attributes.permissions.is_none() || attributes.is(mode::REGULAR);
        if let Some(size) = attributes.size.filter(|_| regular)
            && size != self.end
        {
            let end = self.end;
            let why = format!("the server holds {size} bytes where {end} were written");
            self.fail_to("write remote", &why);
        }
    }

    fn check_space(&mut self, reply: &Reply<'_>) {
        let Reply::Extended(fields) = reply else {
            return;
        };
        let Ok(there) = extension::FileSystem::decode(fields) else {
            return;
        };
        // Less than the largest WRITE, part of which may have been written.
        let left = there
            .blocks_available
            .saturating_mul(there.fragment_size.max(1));
        let full = left < u64::from(sftp::MAX_DATA_BYTES)
            || (there.files > 0 && there.files_available == 0);
        if full && let Some(error) = self.copy.error() {
            *error = format!("{error} (No space left on device)");
        }
    }
}
