//! Answers of name servers about the fingerprints of host keys.

use client::host_key::dns::message::{self, Response};
use client::host_key::dns::resolver::Resolver;

/// The name of the query that the input answers.
const NAME: &str = "a.example";
/// Fewest bytes of a record: the root's name, ten bytes about it, algorithm, hash and one byte of the digest.
const RECORD_BYTES: usize = 14;

/// An answer, and the same bytes as resolv.conf.
///
/// # Panics
/// Only for a defect.
pub fn dns_answer(data: &[u8]) {
    let id = data.first_chunk().copied().unwrap_or_default();
    let response = message::response(data, u16::from_be_bytes(id), NAME);
    if let Some(Response::Records { fingerprints, .. }) = response {
        assert!(fingerprints.len() <= data.len() / RECORD_BYTES);
        let bytes: usize = fingerprints.iter().map(|found| found.digest.len()).sum();
        assert!(bytes <= data.len());
    }
    let _ = Resolver::parse(&String::from_utf8_lossy(data));
}

/// An answer with two records, one with an alias, and a resolv.conf.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let head = |answers: u8| {
        let mut out = message::query(0x1234, NAME, true).expect("a query");
        out.truncate(out.len() - 11);
        out.splice(2..12, [0x81, 0xa0, 0, 1, 0, answers, 0, 0, 0, 0]);
        out
    };
    let record = |name: &[u8], kind: u8, data: &[u8]| {
        let len = u8::try_from(data.len()).expect("short");
        let fixed = [0, kind, 0, 1, 0, 0, 0, 60, 0, len];
        [name, &fixed, data].concat()
    };
    let asked = [0xc0, 12];
    let alias = b"\x01b\xc0\x0e";
    vec![
        [
            head(2),
            record(&asked, 44, &[&[4, 2][..], &[7; 32]].concat()),
            record(&asked, 44, &[&[1, 1][..], &[7; 20]].concat()),
        ]
        .concat(),
        [
            head(2),
            record(&asked, 5, alias),
            record(b"\x01b\x07example\0", 44, &[4, 2, 1, 2, 3]),
        ]
        .concat(),
        b"nameserver 127.0.0.53\nnameserver ::1\noptions edns0 trust-ad timeout:3\n".to_vec(),
    ]
}
