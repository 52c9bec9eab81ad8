//! Private keys of ssh.com's programs, as far as `ssh-keygen -i` reads them: RSA without encryption.

use crypto::sign::RsaParts;
use wire::Reader;
use zeroize::Zeroizing;

use super::{PrivateFileError, PrivateKey};
use crate::rfc4716::armored;

const BEGIN: &str = "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----";
const END: &str = "---- END SSH2 ENCRYPTED PRIVATE KEY ----";
const MAGIC: u32 = 0x3f6f_f9eb;
/// An exponent is three bytes, or one that is at least so large.
const LEAST_SHORT_EXPONENT: u8 = 30;

/// Whether a file says that it holds such a key.
#[must_use]
pub fn is_ssh_com(file: &[u8]) -> bool {
    file.split(|byte| matches!(byte, b'\r' | b'\n'))
        .any(|line| line.trim_ascii_end() == BEGIN.as_bytes())
}

/// Reads such a key.
///
/// # Errors
/// The defect of the file; other types of keys and encryption are not supported, as in OpenSSH.
pub fn parse_ssh_com(file: &[u8]) -> Result<PrivateKey, PrivateFileError> {
    let (blob, _comment) = armored(file, BEGIN, END)?;
    let mut reader = Reader::new(&blob);
    if reader.u32()? != MAGIC {
        return Err(PrivateFileError::Malformed);
    }
    let _length = reader.u32()?;
    let kind = reader.string()?;
    let cipher = reader.string()?;
    if cipher != b"none" {
        return Err(unsupported("cipher", cipher));
    }
    if !kind.windows(3).any(|part| part == b"rsa") {
        return Err(unsupported("type", kind));
    }
    // Lengths that say nothing which the numbers do not.
    let _lengths = [reader.u32()?, reader.u32()?, reader.u32()?];
    let first = reader.u8()?;
    let exponent = match first {
        LEAST_SHORT_EXPONENT.. => vec![first],
        _ => vec![first, reader.u8()?, reader.u8()?],
    };
    let [d, n, iqmp, q, p] = [
        number(&mut reader)?,
        number(&mut reader)?,
        number(&mut reader)?,
        number(&mut reader)?,
        number(&mut reader)?,
    ];
    let parts = RsaParts {
        n: &n,
        e: without_zeros(&exponent),
        d: &d,
        iqmp: &iqmp,
        p: &p,
        q: &q,
    };
    Ok(PrivateKey::from_rsa(&parts)?)
}

fn unsupported(what: &str, name: &[u8]) -> PrivateFileError {
    let name = crate::error::printable(name);
    PrivateFileError::Unsupported(format!("{what} \"{name}\""))
}

/// A number after the count of its bits.
fn number(reader: &mut Reader<'_>) -> Result<Zeroizing<Vec<u8>>, PrivateFileError> {
    let bytes = usize::try_from(reader.u32()?.div_ceil(8));
    let digits = reader.bytes(bytes.map_err(|_| PrivateFileError::Malformed)?)?;
    Ok(Zeroizing::new(without_zeros(digits).to_vec()))
}

fn without_zeros(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    digits.get(zeros..).unwrap_or_default()
}
