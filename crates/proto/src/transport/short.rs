//! A first KEXINIT that names only what is expected to be agreed on ([`ShortOffer`]).
//!
//! It holds names of the configured lists alone, and the exchange goes on only where the whole lists
//! lead to the same: whoever writes the cache that the expectation comes from, or answers, cannot
//! choose by it. In the usual spelling every server reads it; ours also reads a shorter one
//! (docs/PROTOCOL.md), which any other refuses, since it finds a list without a name.

use alloc::vec::Vec;

use wire::message::KexInit;

use super::Transport;
use super::negotiate::{self, Agreement};
use crate::config::ShortOffer;
use crate::{Error, Role};

/// Bytes of an unencrypted packet around its payload: length, length of the padding, padding.
fn packet_bytes(payload: usize) -> usize {
    (4 + 1 + payload + 4).next_multiple_of(8)
}

impl Transport {
    /// `whole`, or a shorter KEXINIT where only that lets the first flight fit. A packet with a
    /// public value of `public` bytes follows.
    pub(super) fn fitting(&mut self, whole: Vec<u8>, public: usize) -> Vec<u8> {
        let Some(short) = &self.config.short else {
            return whole;
        };
        // Number, length, and the byte that keeps an mpint from being negative.
        let rest = self.our_version.len() + 2 + packet_bytes(1 + 4 + public + 1);
        let fits = |payload: &Vec<u8>| rest + packet_bytes(payload.len()) <= short.flight_bytes;
        if fits(&whole) {
            return whole;
        }
        let found = self.shortened(short).into_iter().flatten().find(fits);
        match found {
            Some(shorter) => {
                self.offers_short = true;
                shorter
            }
            None => whole,
        }
    }

    /// In the usual spelling, and in ours where the server reads it.
    fn shortened(&self, short: &ShortOffer) -> [Option<Vec<u8>>; 2] {
        let Some(narrow) = self.offer.narrowed(short) else {
            return [None, None];
        };
        [
            Some(negotiate::proposal(&narrow, Role::Client, None, true, None)),
            short.understood.then(|| negotiate::short_proposal(&narrow)),
        ]
    }

    /// What was agreed on is what the whole lists would have led to.
    ///
    /// # Errors
    /// [`Error::ShortOffer`] where it is not.
    pub(super) fn check_short(
        &self,
        agreement: &Agreement,
        theirs: &KexInit<'_>,
    ) -> Result<(), Error> {
        if !self.offers_short {
            return Ok(());
        }
        let whole = negotiate::proposal(&self.offer, self.role, None, true, None);
        let (by_whole, _) =
            negotiate::agree(&self.offer, self.role, &KexInit::decode(&whole)?, theirs)?;
        match by_whole == *agreement {
            true => Ok(()),
            false => Err(Error::ShortOffer),
        }
    }
}
