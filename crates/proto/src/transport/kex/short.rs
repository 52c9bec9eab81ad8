//! A short first KEXINIT that names only the algorithms expected to be negotiated ([`ShortOffer`]).
//!
//! It contains only names of the configured lists, and the exchange continues only if the full
//! lists lead to the same result. So neither the writer of the cache from which the expectation
//! comes nor the server can influence the choice. Every server reads the usual encoding; a Fulmar
//! server also reads a shorter one (docs/PROTOCOL.md), which others refuse because of its empty
//! lists.

use alloc::vec::Vec;

use wire::message::KexInit;

use super::Exchanging;
use super::negotiate::{self, Agreement};
use crate::config::ShortOffer;
use crate::{Error, Role};

/// Size of an unencrypted packet, bytes: length, padding length, payload and padding.
fn packet_bytes(payload: usize) -> usize {
    (4 + 1 + payload + 4).next_multiple_of(8)
}

impl Exchanging<'_> {
    /// Returns `whole`, or a shorter KEXINIT if only that lets the first flight fit. A packet with
    /// a public value of `public` bytes follows.
    pub(super) fn fitting(&mut self, whole: Vec<u8>, public: usize) -> Vec<u8> {
        let Some(short) = &self.config.guess.short else {
            return whole;
        };
        // Message number, length, and the byte that keeps an mpint from being negative.
        let rest = self.versions.ours().len() + 2 + packet_bytes(1 + 4 + public + 1);
        let fits = |payload: &Vec<u8>| rest + packet_bytes(payload.len()) <= short.flight_bytes;
        if fits(&whole) {
            return whole;
        }
        let found = self.shortened(short).into_iter().flatten().find(fits);
        match found {
            Some(shorter) => {
                self.exchange.first_inits.offers_short = true;
                shorter
            }
            None => whole,
        }
    }

    /// The short lists in the usual encoding, and in the short one if the server reads it.
    fn shortened(&self, short: &ShortOffer) -> [Option<Vec<u8>>; 2] {
        let Some(narrow) = self.exchange.offer.narrowed(short) else {
            return [None, None];
        };
        [
            Some(negotiate::proposal(&narrow, Role::Client, None, true, None)),
            short.understood.then(|| negotiate::short_proposal(&narrow)),
        ]
    }

    /// Checks that the full lists would have led to the same result.
    ///
    /// # Errors
    /// [`Error::ShortOffer`] if they would not.
    pub(super) fn check_short(
        &self,
        agreement: &Agreement,
        theirs: &KexInit<'_>,
    ) -> Result<(), Error> {
        if !self.exchange.first_inits.offers_short {
            return Ok(());
        }
        let whole = negotiate::proposal(&self.exchange.offer, self.role, None, true, None);
        let (by_whole, _) = negotiate::agree(
            &self.exchange.offer,
            self.role,
            &KexInit::decode(&whole)?,
            theirs,
        )?;
        match by_whole == *agreement {
            true => Ok(()),
            false => Err(Error::ShortOffer),
        }
    }
}
