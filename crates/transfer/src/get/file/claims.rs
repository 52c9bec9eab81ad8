//! Files whose size is larger than their content, as those of sysfs claim a page. An early end is
//! accepted if the server then reports the same size again, and a further READ at that offset again
//! sees the end. A file that was truncated, or is being rewritten, differs in one of the two.

use sftp::Attributes;
use sftp::message::{Request, request};

use super::DownloadJob;
use crate::engine::{Op, Session, Token};

/// Maximum claimed size of a file that is checked this way, bytes: one READ returns it.
const MAX_CLAIM_BYTES: u64 = 32 << 10;

/// State of the check of an early end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Claim {
    /// No early end was seen.
    #[default]
    None,
    /// The end was seen at this offset; FSTAT was sent.
    Asked(u64),
    /// The size is the same; the end at this offset must be seen again.
    Same(u64),
}

impl DownloadJob {
    /// A READ reported the end of the file at its offset.
    pub(super) fn ends(&mut self, asked: Token, session: &mut Session) {
        let offset = asked.offset;
        let early = self
            .end
            .is_some_and(|end| offset < end && end <= MAX_CLAIM_BYTES);
        let is_one = self.copy.handles.len() == 1 && !self.copy.has_failed();
        let Some(read) = self.reading().filter(|_| early && is_one) else {
            return self.ends_at(offset);
        };
        match read.claim {
            Claim::None => {
                read.claim = Claim::Asked(offset);
                let path = &self.item.from;
                let request = Request::Stat(request::Stat { path });
                self.copy.send(session, Op::Stat, &request);
            }
            Claim::Same(at) if at == offset => {
                read.eof = Some(at);
                self.end = Some(at);
            }
            Claim::Asked(_) | Claim::Same(_) => self.ends_at(offset),
        }
    }

    /// Processes the answer to FSTAT.
    pub(super) fn claims(&mut self, now: Option<&Attributes>) {
        let Some(Claim::Asked(at)) = self.reading().map(|read| read.claim) else {
            return;
        };
        let before = self.attributes;
        let modified = |of: &Attributes| of.times.map(|times| times.modified);
        let is_same =
            |now: &Attributes| now.size == before.size && modified(now) == modified(&before);
        if let Some(read) = self.reading().filter(|_| now.is_some_and(is_same)) {
            read.claim = Claim::Same(at);
            read.again.push((at, 1));
            self.copy.wake_first();
        } else {
            self.ends_at(at);
        }
    }
}
