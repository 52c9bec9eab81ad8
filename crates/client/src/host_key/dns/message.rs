//! DNS messages (RFC 1035 §4): a query for SSHFP records (RFC 4255 §3) with EDNS (RFC 6891), and the
//! reading of the answer. No I/O.
//!
//! Bounds: a message has at most 65,535 bytes, in which fewer than 6,000 records fit; a name at most 127 labels,
//! and each pointer leads backwards, so that no name is endless. All records are read, or none: the record that
//! tells may be the last.

use wire::{Put, Reader};

/// Most bytes of a name in text form.
const MAX_NAME_BYTES: usize = 253;
/// Most bytes of an answer by UDP, as the query offers: what passes most networks in one piece.
pub const UDP_BYTES: u16 = 1232;
/// Number of the record type SSHFP.
const TYPE_SSHFP: u16 = 44;
/// Number of the record type CNAME.
const TYPE_CNAME: u16 = 5;
/// Number of the pseudo-record OPT.
const TYPE_OPT: u16 = 41;
/// Number of the class Internet.
const CLASS_IN: u16 = 1;
/// Codes of a server that cannot read a query, or does not know what is in it.
const FORMAT_ERROR: u8 = 1;
const NOT_IMPLEMENTED: u8 = 4;
/// Most aliases that are followed inside an answer.
const MAX_ALIASES: usize = 16;

/// Bit QR: a response.
const RESPONSE: u16 = 1 << 15;
/// Bit TC: the answer did not fit.
const TRUNCATED: u16 = 1 << 9;
/// Bit RD: the server shall ask others.
const RECURSION: u16 = 1 << 8;
/// Bit AD: the server has validated the answer; in a query: the asker wants to know.
const AUTHENTIC: u16 = 1 << 5;

/// A record's data (RFC 4255 §3.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    /// Number of the key's algorithm.
    pub algorithm: u8,
    /// Number of the hash.
    pub hash: u8,
    /// The hash of the key.
    pub digest: Vec<u8>,
}

/// What a response says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// The records, and whether the server has validated them.
    Records {
        /// The records of the name or of what it is an alias of.
        fingerprints: Vec<Fingerprint>,
        /// Bit AD.
        is_authentic: bool,
    },
    /// The answer did not fit: ask by TCP.
    Truncated,
    /// The server cannot read the query (FORMERR or NOTIMP), as one that does not know EDNS says
    /// (RFC 6891 §7).
    NotUnderstood,
    /// The server failed; its number (RFC 1035 §4.1.1).
    Failed(u8),
    /// The name does not exist.
    NoName,
}

/// A query for the SSHFP records of a name, with EDNS or without; `None` for a name that no host can
/// have.
#[must_use]
pub fn query(id: u16, name: &str, has_edns: bool) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(name.len() + 32);
    put_u16(&mut out, id);
    put_u16(&mut out, RECURSION | AUTHENTIC);
    for count in [1, 0, 0, u16::from(has_edns)] {
        put_u16(&mut out, count);
    }
    put_name(&mut out, name)?;
    put_u16(&mut out, TYPE_SSHFP);
    put_u16(&mut out, CLASS_IN);
    if !has_edns {
        return Some(out);
    }
    // The pseudo-record of EDNS: the root's name, the size of an answer, no flags, no options.
    out.put_u8(0);
    put_u16(&mut out, TYPE_OPT);
    put_u16(&mut out, UDP_BYTES);
    out.put_u32(0);
    put_u16(&mut out, 0);
    Some(out)
}

fn put_u16(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_be_bytes());
}

fn put_name(out: &mut Vec<u8>, name: &str) -> Option<()> {
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return None;
    }
    for label in name.split('.') {
        let len = u8::try_from(label.len()).ok();
        out.put_u8(len.filter(|len| (1..=63).contains(len))?);
        out.extend_from_slice(label.as_bytes());
    }
    out.put_u8(0);
    Some(())
}

/// Reads the response to [`query`]; `None` for anything that is not one: another number or question,
/// or a malformed message.
#[must_use]
pub fn response(message: &[u8], id: u16, name: &str) -> Option<Response> {
    let mut reader = Message {
        bytes: message,
        at: 0,
    };
    let asked = name
        .strip_suffix('.')
        .unwrap_or(name)
        .to_ascii_lowercase()
        .into_bytes();
    let found_id = reader.u16()?;
    let flags = reader.u16()?;
    let questions = reader.u16()?;
    let answers = usize::from(reader.u16()?);
    reader.skip(4)?;
    if found_id != id || flags & RESPONSE == 0 {
        return None;
    }
    let code = flags.to_be_bytes()[1] & 15;
    // A server that cannot read a query need not repeat its question.
    if questions == 0 && [FORMAT_ERROR, NOT_IMPLEMENTED].contains(&code) {
        return Some(Response::NotUnderstood);
    }
    if questions != 1 {
        return None;
    }
    let is_ours = reader.name()? == asked && reader.u16()? == TYPE_SSHFP;
    if !is_ours || reader.u16()? != CLASS_IN {
        return None;
    }
    match code {
        0 => {}
        FORMAT_ERROR | NOT_IMPLEMENTED => return Some(Response::NotUnderstood),
        3 => return Some(Response::NoName),
        code => return Some(Response::Failed(code)),
    }
    if flags & TRUNCATED != 0 {
        return Some(Response::Truncated);
    }
    let records = reader.records(answers)?;
    Some(Response::Records {
        fingerprints: of_name(&records, asked),
        is_authentic: flags & AUTHENTIC != 0,
    })
}

/// The fingerprints of `name`, or of the name that it is an alias of.
fn of_name(records: &[Record], mut name: Vec<u8>) -> Vec<Fingerprint> {
    for _ in 0..MAX_ALIASES {
        let alias = records.iter().find_map(|record| match &record.data {
            Data::Alias(target) if record.name == name => Some(target),
            _ => None,
        });
        match alias {
            Some(target) => target.clone_into(&mut name),
            None => break,
        }
    }
    let own = records.iter().filter(|record| record.name == name);
    own.filter_map(|record| match &record.data {
        Data::Fingerprint(found) => Some(found.clone()),
        Data::Alias(_) => None,
    })
    .collect()
}

/// A record of the answer.
struct Record {
    /// In lower case, without the final dot. Any bytes: a record of another name may be in the answer.
    name: Vec<u8>,
    data: Data,
}

enum Data {
    Alias(Vec<u8>),
    Fingerprint(Fingerprint),
}

/// A message that is read from the front.
struct Message<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Message<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(len)?;
        let bytes = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    fn skip(&mut self, len: usize) -> Option<()> {
        self.take(len).map(drop)
    }

    fn u16(&mut self) -> Option<u16> {
        let [high, low] = *self.take(2)? else {
            return None;
        };
        Some(u16::from_be_bytes([high, low]))
    }

    /// A name, whose rest may be elsewhere in the message (RFC 1035 §4.1.4).
    fn name(&mut self) -> Option<Vec<u8>> {
        let mut out: Vec<u8> = Vec::new();
        let mut behind = None;
        loop {
            let start = self.at;
            let len = *self.take(1)?.first()?;
            match len {
                0 => break,
                1..=63 => {
                    if !out.is_empty() {
                        out.push(b'.');
                    }
                    out.extend_from_slice(self.take(usize::from(len))?);
                    if out.len() > MAX_NAME_BYTES {
                        return None;
                    }
                }
                0xc0..=0xff => {
                    let low = *self.take(1)?.first()?;
                    behind.get_or_insert(self.at);
                    let target = usize::from(u16::from_be_bytes([len & 0x3f, low]));
                    // Only backwards, so that the walk ends.
                    if target >= start {
                        return None;
                    }
                    self.at = target;
                }
                _ => return None,
            }
            if out.len() > MAX_NAME_BYTES {
                return None;
            }
        }
        self.at = behind.unwrap_or(self.at);
        out.make_ascii_lowercase();
        Some(out)
    }

    fn records(&mut self, count: usize) -> Option<Vec<Record>> {
        let mut out = Vec::new();
        for _ in 0..count {
            let name = self.name()?;
            let kind = self.u16()?;
            let class = self.u16()?;
            self.skip(4)?;
            let len = usize::from(self.u16()?);
            let end = self.at.checked_add(len)?;
            let data = match (kind, class) {
                (TYPE_SSHFP, CLASS_IN) => fingerprint(self.bytes.get(self.at..end)?),
                (TYPE_CNAME, CLASS_IN) => Some(Data::Alias(self.name()?)),
                _ => None,
            };
            if end > self.bytes.len() {
                return None;
            }
            self.at = end;
            out.extend(data.map(|data| Record { name, data }));
        }
        Some(out)
    }
}

/// The data of a record; `None` for one that is too short, which is passed over as in OpenSSH.
fn fingerprint(data: &[u8]) -> Option<Data> {
    let mut reader = Reader::new(data);
    let algorithm = reader.u8().ok()?;
    let hash = reader.u8().ok()?;
    let digest = data.get(2..).filter(|digest| !digest.is_empty())?;
    Some(Data::Fingerprint(Fingerprint {
        algorithm,
        hash,
        digest: digest.to_vec(),
    }))
}
