//! OpenSSH's private key format (PROTOCOL.key): one key, its public key unencrypted, the secret in
//! a section that may be encrypted with a key derived by bcrypt.

use crypto::sign::RsaParts;
use wire::{Put, Reader};
use zeroize::Zeroizing;

use super::encryption::FileCipher;
use super::{PrivateFileError, PrivateKeyFile};
use crate::algorithm::KeyType;
use crate::error::{KeyError, printable};
use crate::pem;
use crate::private_key::{PrivateKey, PrivateKeySecret, SecurityKeyHandle};
use crate::public_key::PublicKey;

pub(super) const LABEL: &str = "OPENSSH PRIVATE KEY";
const MAGIC: &[u8] = b"openssh-key-v1\0";
const KDF_NONE: &str = "none";
const KDF_BCRYPT: &str = "bcrypt";
const SALT_BYTES: usize = 16;
/// Width of the base64 lines, as in ssh-keygen.
const LINE_WIDTH: usize = 70;

/// Rounds of bcrypt for written keys, as in OpenSSH 10.6: under half a second.
pub const DEFAULT_KDF_ROUNDS: u32 = 32;

/// Largest number of bcrypt rounds that a file may request, as in OpenSSH 10.6: hours of work.
pub const MAX_KDF_ROUNDS: u32 = 1_000_000;

/// Above this number of rounds the derivation takes longer than about ten seconds, so a program
/// warns before it begins.
pub const MANY_KDF_ROUNDS: u32 = 1024;

/// Longest salt of a file, in bytes.
const MAX_SALT_BYTES: usize = 1024;

/// Encryption of a key that is written with a passphrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpensshProtection {
    /// The cipher.
    pub cipher: FileCipher,
    /// Rounds of bcrypt; 0 is treated as 1.
    pub rounds: u32,
}

impl Default for OpensshProtection {
    fn default() -> Self {
        Self {
            cipher: FileCipher::default(),
            rounds: DEFAULT_KDF_ROUNDS,
        }
    }
}

/// The parts of a file up to the secret section, undecrypted.
struct Header<'a> {
    cipher: &'a [u8],
    kdf: &'a [u8],
    kdf_options: &'a [u8],
    public: PublicKey,
    section: &'a [u8],
    /// The bytes after the section: the tag of an AEAD cipher.
    tag: &'a [u8],
}

fn read_header(body: &[u8]) -> Result<Header<'_>, PrivateFileError> {
    let mut reader = Reader::new(body);
    if reader.bytes(MAGIC.len())? != MAGIC {
        return Err(PrivateFileError::Malformed);
    }
    let cipher = reader.string()?;
    let kdf = reader.string()?;
    let kdf_options = reader.string()?;
    if reader.u32()? != 1 {
        return Err(PrivateFileError::Unsupported("number of keys".to_owned()));
    }
    let public = PublicKey::from_blob(reader.string()?)?;
    let section = reader.string()?;
    Ok(Header {
        cipher,
        kdf,
        kdf_options,
        public,
        section,
        tag: reader.rest(),
    })
}

/// Decodes salt and rounds of bcrypt.
fn read_kdf_options(bytes: &[u8]) -> Result<(&[u8], u32), PrivateFileError> {
    let mut options = Reader::new(bytes);
    let salt = options.string_max(MAX_SALT_BYTES)?;
    let rounds = options.u32()?;
    options.finish()?;
    Ok((salt, rounds))
}

/// Number of bcrypt rounds that a file requests; `None` if it does not use bcrypt.
pub(super) fn kdf_rounds(body: &[u8]) -> Option<u32> {
    let header = read_header(body).ok()?;
    if header.kdf != KDF_BCRYPT.as_bytes() {
        return None;
    }
    let (_, rounds) = read_kdf_options(header.kdf_options).ok()?;
    Some(rounds)
}

pub(super) fn read_public(body: &[u8]) -> Result<PublicKey, PrivateFileError> {
    read_header(body).map(|header| header.public)
}

pub(super) fn read(
    body: &[u8],
    passphrase: Option<&[u8]>,
) -> Result<PrivateKeyFile, PrivateFileError> {
    let header = read_header(body)?;
    let unsupported = |what: &str, name: &[u8]| {
        PrivateFileError::Unsupported(format!("{what} \"{}\"", printable(name)))
    };
    let encrypted = header.cipher != KDF_NONE.as_bytes();
    let section = if encrypted {
        let cipher =
            FileCipher::from_name(header.cipher).ok_or(unsupported("cipher", header.cipher))?;
        if header.kdf != KDF_BCRYPT.as_bytes() {
            return Err(unsupported("key derivation", header.kdf));
        }
        let (salt, rounds) = read_kdf_options(header.kdf_options)?;
        // Checked before the user is asked for a passphrase, which could not help.
        if rounds > MAX_KDF_ROUNDS {
            return Err(PrivateFileError::TooMuchWork);
        }
        let passphrase = passphrase.ok_or(PrivateFileError::NeedsPassphrase)?;
        let material = derive(passphrase, salt, rounds, cipher)?;
        cipher.open(&material, header.section, header.tag)?
    } else {
        if header.kdf != KDF_NONE.as_bytes() {
            return Err(unsupported("key derivation", header.kdf));
        }
        if !header.tag.is_empty() {
            return Err(PrivateFileError::Malformed);
        }
        Zeroizing::new(header.section.to_vec())
    };
    let damaged = if encrypted {
        PrivateFileError::WrongPassphrase
    } else {
        PrivateFileError::Malformed
    };
    let (key, comment) = read_section(&section, damaged)?;
    if *key.public() != header.public {
        return Err(PrivateFileError::Malformed);
    }
    Ok(PrivateKeyFile {
        key,
        comment,
        encrypted,
    })
}

fn derive(
    passphrase: &[u8],
    salt: &[u8],
    rounds: u32,
    cipher: FileCipher,
) -> Result<Zeroizing<Vec<u8>>, PrivateFileError> {
    if rounds > MAX_KDF_ROUNDS {
        return Err(PrivateFileError::TooMuchWork);
    }
    // bcrypt does not accept an empty passphrase, so it cannot be the right one.
    if passphrase.is_empty() {
        return Err(PrivateFileError::WrongPassphrase);
    }
    let mut material = Zeroizing::new(vec![0; cipher.key_len() + cipher.iv_len()]);
    bcrypt_pbkdf::bcrypt_pbkdf(passphrase, salt, rounds, &mut material)
        .map_err(|_| PrivateFileError::Malformed)?;
    Ok(material)
}

/// Reads the decrypted section: two equal numbers, the key, its comment, and the padding 1, 2, 3, …
fn read_section(
    section: &[u8],
    damaged: PrivateFileError,
) -> Result<(PrivateKey, String), PrivateFileError> {
    let mut reader = Reader::new(section);
    if reader.u32()? != reader.u32()? {
        return Err(damaged);
    }
    let key = read_private(&mut reader)?;
    let comment = String::from_utf8_lossy(reader.string()?).into_owned();
    let padding = reader.rest();
    if !padding
        .iter()
        .zip(1_u8..=255)
        .all(|(byte, count)| *byte == count)
        || padding.len() > 255
    {
        return Err(PrivateFileError::Malformed);
    }
    Ok((key, comment))
}

pub(super) fn read_private(reader: &mut Reader<'_>) -> Result<PrivateKey, PrivateFileError> {
    let name = reader.string()?;
    let key_type = match KeyType::from_blob_name(name) {
        Some((key_type, false)) => key_type,
        Some((_, true)) => {
            return Err(PrivateFileError::Unsupported(
                "certificate inside".to_owned(),
            ));
        }
        None => return Err(KeyError::UnknownType(printable(name)).into()),
    };
    // Only for RSA the order differs from the blob: the modulus precedes the exponent.
    if key_type == KeyType::Rsa {
        return read_rsa(reader);
    }
    let public = PublicKey::read_fields(key_type, reader)?;
    let key = match &public {
        PublicKey::Ed25519 { .. } => {
            let secret = reader.string()?;
            let seed = secret
                .first_chunk::<32>()
                .filter(|_| secret.len() == 64)
                .ok_or(PrivateFileError::Malformed)?;
            PrivateKey::from_ed25519_seed(seed)
        }
        PublicKey::Ecdsa { curve, point } => {
            PrivateKey::from_ecdsa(*curve, reader.mpint()?.magnitude(), Some(point))?
        }
        PublicKey::MlDsa44Ed25519 { .. } => PrivateKey::from_mldsa44_ed25519(reader.string()?)?,
        PublicKey::SkEd25519 { .. } | PublicKey::SkEcdsaP256 { .. } => {
            let handle = SecurityKeyHandle {
                flags: reader.u8()?,
                handle: Zeroizing::new(reader.string()?.to_vec()),
                reserved: reader.string()?.to_vec(),
            };
            PrivateKey::from_security_key(public.clone(), handle)?
        }
        PublicKey::Rsa { .. } => return Err(PrivateFileError::Malformed),
    };
    if *key.public() != public {
        return Err(KeyError::Invalid("its public and private parts do not match").into());
    }
    Ok(key)
}

fn read_rsa(reader: &mut Reader<'_>) -> Result<PrivateKey, PrivateFileError> {
    let [n, e, d, iqmp, p, q] = [
        reader.mpint()?,
        reader.mpint()?,
        reader.mpint()?,
        reader.mpint()?,
        reader.mpint()?,
        reader.mpint()?,
    ]
    .map(|number| number.magnitude());
    let parts = RsaParts {
        n,
        e,
        d,
        iqmp,
        p,
        q,
    };
    Ok(PrivateKey::from_rsa(&parts)?)
}

/// Encodes a key in OpenSSH's format; encrypted as `protection` specifies, unless the passphrase is
/// absent or empty.
///
/// # Errors
/// [`PrivateFileError::Key`] if the crypto library fails, [`PrivateFileError::TooMuchWork`] for
/// more than [`MAX_KDF_ROUNDS`] rounds.
pub fn write_openssh_with(
    key: &PrivateKey,
    comment: &str,
    passphrase: Option<&[u8]>,
    protection: &OpensshProtection,
) -> Result<Zeroizing<String>, PrivateFileError> {
    let passphrase = passphrase.filter(|passphrase| !passphrase.is_empty());
    let block = passphrase.map_or(8, |_| protection.cipher.block_len());
    let mut section = write_section(key, comment, block)?;
    // The capacity suffices, so that no reallocation leaves secrets in freed memory.
    let mut out = Zeroizing::new(Vec::with_capacity(section.len() + comment.len() + 4096));
    out.extend_from_slice(MAGIC);
    let mut tag = None;
    match passphrase {
        None => {
            out.put_string(KDF_NONE.as_bytes());
            out.put_string(KDF_NONE.as_bytes());
            out.put_string(b"");
        }
        Some(passphrase) => {
            let salt: [u8; SALT_BYTES] = crypto::random::bytes();
            let cipher = protection.cipher;
            let material = derive(passphrase, &salt, protection.rounds.max(1), cipher)?;
            tag = cipher.seal(&material, &mut section)?;
            out.put_string(cipher.name().as_bytes());
            out.put_string(KDF_BCRYPT.as_bytes());
            let mut options = Vec::new();
            options.put_string(&salt);
            options.put_u32(protection.rounds.max(1));
            out.put_string(&options);
        }
    }
    out.put_u32(1);
    out.put_string(&key.public().blob());
    out.put_string(&section);
    out.extend_from_slice(tag.as_ref().map_or(&[][..], |tag| &tag[..]));
    Ok(pem::write(LABEL, &[], &out, LINE_WIDTH))
}

fn write_section(
    key: &PrivateKey,
    comment: &str,
    block: usize,
) -> Result<Zeroizing<Vec<u8>>, PrivateFileError> {
    // An RSA key of 16384 bits takes under 10 KiB.
    let mut out = Zeroizing::new(Vec::with_capacity(16 * 1024 + comment.len()));
    let check = u32::from_be_bytes(crypto::random::bytes());
    out.put_u32(check);
    out.put_u32(check);
    write_private(key, &mut out)?;
    out.put_string(comment.as_bytes());
    let mut padding = 1;
    while out.len() % block != 0 {
        out.push(padding);
        padding += 1;
    }
    Ok(out)
}

/// Encodes the private key in the format of the section and of an agent's request to add a key.
pub(super) fn write_private(
    key: &PrivateKey,
    out: &mut Zeroizing<Vec<u8>>,
) -> Result<(), PrivateFileError> {
    out.put_string(key.key_type().name().as_bytes());
    match key.public() {
        // The point is among the secret's fields.
        PublicKey::Ed25519 { .. } => {}
        // Unlike in the public key, the modulus comes first.
        PublicKey::Rsa { exponent, modulus } => {
            out.put_mpint(modulus);
            out.put_mpint(exponent);
        }
        other => other.write_fields(out),
    }
    write_secret(key, out)
}

/// Writes the fields that follow the public key.
pub(super) fn write_secret(
    key: &PrivateKey,
    out: &mut Zeroizing<Vec<u8>>,
) -> Result<(), PrivateFileError> {
    let lacks = || PrivateFileError::Key(KeyError::Internal);
    match (key.public(), key.secret()) {
        (PublicKey::Ed25519 { point }, PrivateKeySecret::Software(secret)) => {
            let seed = secret.ed25519_seed().ok_or_else(lacks)?;
            out.put_string(point);
            out.put_u32(64);
            out.extend_from_slice(&seed[..]);
            out.extend_from_slice(point);
        }
        (PublicKey::Ecdsa { .. }, PrivateKeySecret::Software(secret)) => {
            out.put_mpint(&secret.ecdsa_scalar().ok_or_else(lacks)?);
        }
        (PublicKey::Rsa { .. }, PrivateKeySecret::Software(secret)) => {
            let parts = secret.rsa_parts().ok_or_else(lacks)?;
            for number in [&parts.d, &parts.iqmp, &parts.p, &parts.q] {
                out.put_mpint(number);
            }
        }
        (PublicKey::MlDsa44Ed25519 { .. }, PrivateKeySecret::Software(secret)) => {
            out.put_string(&secret.mldsa44_ed25519_seeds().ok_or_else(lacks)?[..]);
        }
        (_, PrivateKeySecret::SecurityKey(handle)) => {
            out.put_u8(handle.flags);
            out.put_string(&handle.handle);
            out.put_string(&handle.reserved);
        }
        _ => return Err(lacks()),
    }
    Ok(())
}
