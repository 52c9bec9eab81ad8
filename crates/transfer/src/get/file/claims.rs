//! Files that claim more bytes than they have, as those of sysfs claim a page: the end that comes
//! early is theirs if the server still says the same of the file afterwards, and the end is still
//! there after that. One that was cut, or is being written anew, differs in one of the two.

use sftp::Attributes;
use sftp::message::{Request, request};

use super::Job;
use crate::engine::{Op, Session, Token};

/// Files that claim no more are looked at, bytes: one READ brings them.
const MAX_CLAIM_BYTES: u64 = 32 << 10;

/// What is known of an end that came early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Claim {
    /// None came.
    #[default]
    None,
    /// One came at this offset, and what the file claims now is asked for.
    Asked(u64),
    /// It claims the same: the end at this offset has to be seen again.
    Same(u64),
}

impl Job {
    /// A READ at `offset` has seen the file's end.
    pub(super) fn ends(&mut self, asked: Token, session: &mut Session) {
        let offset = asked.offset;
        let early = self
            .end
            .is_some_and(|end| offset < end && end <= MAX_CLAIM_BYTES);
        match self.claim {
            _ if !early || self.error.is_some() || self.parts.len() != 1 => self.ends_at(offset),
            Claim::None => {
                self.claim = Claim::Asked(offset);
                self.waiting += 1;
                let path = &self.item.from;
                let request = Request::Stat(request::Stat { path });
                session.send(Token::new(asked.job, Op::Stat), &request);
            }
            Claim::Same(at) if at == offset => {
                (self.end, self.eof) = (Some(at), Some(at));
            }
            Claim::Asked(_) | Claim::Same(_) => self.ends_at(offset),
        }
    }

    /// What the file claims now.
    pub(super) fn claims(&mut self, now: Option<&Attributes>) {
        let Claim::Asked(at) = self.claim else {
            return;
        };
        let before = &self.attributes;
        let modified = |of: &Attributes| of.times.map(|times| times.modified);
        if now.is_some_and(|now| now.size == before.size && modified(now) == modified(before)) {
            self.claim = Claim::Same(at);
            self.again.push((at, 1));
            self.wakes.extend(self.parts.first().map(|part| part.link));
        } else {
            self.ends_at(at);
        }
    }
}
