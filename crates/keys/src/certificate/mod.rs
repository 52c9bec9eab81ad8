//! OpenSSH certificates (PROTOCOL.certkeys): fields and signature.
//!
//! A [`Certificate`] value exists only if the authority named in it has made a valid signature over
//! exactly the received bytes. [`Certificate::check`] checks the validity for a name and a time;
//! the caller decides whether the authority is trusted. [`CertificateFields::sign`] signs new
//! certificates.

mod check;
mod sign;

#[cfg(test)]
mod tests;

use core::fmt;

use wire::Reader;

pub use check::{
    CRITICAL_OPTIONS, CertificateError, CertificateRules, FORCE_COMMAND, NO_TOUCH_REQUIRED,
    SOURCE_ADDRESS, VERIFY_REQUIRED,
};
pub use sign::CertificateFields;

use crate::algorithm::{KeyType, SignatureAlgorithm};
use crate::error::{KeyError, VerifyError, printable};
use crate::public_key::{PublicKey, read_type};
use crate::signature::{Signature, VerifyPolicy};

/// Limit on the principals of a certificate.
pub const MAX_PRINCIPALS: usize = 256;

/// Limit on the critical options, and on the extensions, of a certificate.
pub const MAX_OPTIONS: usize = 256;

/// Whether a certificate is for a user or a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CertificateKind {
    /// Type 1: identifies a user to a host.
    User,
    /// Type 2: identifies a host to a user.
    Host,
}

impl CertificateKind {
    fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::User),
            2 => Some(Self::Host),
            _ => None,
        }
    }

    pub(crate) fn number(self) -> u32 {
        match self {
            Self::User => 1,
            Self::Host => 2,
        }
    }

    /// Returns `user` or `host`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Host => "host",
        }
    }
}

/// A critical option or an extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateOption {
    /// Name of the option.
    pub name: String,
    /// Data field; options with a text value hold it as a nested `string`.
    pub data: Vec<u8>,
}

impl CertificateOption {
    /// Decodes the text in the data; `None` if the data is not exactly one `string` of UTF-8
    /// without NUL.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        let mut reader = Reader::new(&self.data);
        let text = reader.utf8().ok()?;
        (reader.is_empty() && !text.contains('\0')).then_some(text)
    }
}

/// A certificate whose signature has been verified.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    blob: Vec<u8>,
    key: PublicKey,
    serial: u64,
    kind: CertificateKind,
    key_id: Vec<u8>,
    principals: Vec<String>,
    valid_after: u64,
    valid_before: u64,
    critical_options: Vec<CertificateOption>,
    extensions: Vec<CertificateOption>,
    authority: PublicKey,
    signature_algorithm: SignatureAlgorithm,
}

impl Certificate {
    /// Parses a certificate blob and verifies its signature.
    ///
    /// # Errors
    /// [`KeyError`]; [`KeyError::WrongKind`] if the authority is itself a certificate.
    pub fn from_blob(blob: &[u8]) -> Result<Self, KeyError> {
        Self::from_blob_permitted(blob, SignatureAlgorithm::ALL)
    }

    /// As [`from_blob`](Self::from_blob), but accepts only signatures with one of `authorities`.
    /// The names of the authority's key type and of the signature algorithm are checked before
    /// either is parsed.
    ///
    /// # Errors
    /// As [`from_blob`](Self::from_blob), and [`KeyError::AuthorityAlgorithm`].
    pub fn from_blob_permitted(
        blob: &[u8],
        authorities: &[SignatureAlgorithm],
    ) -> Result<Self, KeyError> {
        let (key_type, mut reader) = begin(blob)?;
        let key = PublicKey::read_fields(key_type, &mut reader)?;
        let serial = reader.u64()?;
        let kind = CertificateKind::from_number(reader.u32()?).ok_or(KeyError::Invalid(
            "certificate is for neither user nor host",
        ))?;
        let key_id = without_nul(reader.string()?)?.to_vec();
        let principals = read_principals(reader.string()?)?;
        let valid_after = reader.u64()?;
        let valid_before = reader.u64()?;
        let critical_options = read_options(reader.string()?)?;
        let extensions = read_options(reader.string()?)?;
        let _reserved = reader.string()?;
        let authority_blob = reader.string()?;
        let signed_bytes = blob.len() - reader.remaining().len();
        let signature_blob = reader.string()?;
        reader.finish()?;

        check_authority_names(authority_blob, signature_blob, authorities)?;
        let authority = read_authority(authority_blob)?;
        let signed = blob.get(..signed_bytes).unwrap_or_default();
        let signature_algorithm = verify(&authority, signed, signature_blob)?;
        Ok(Self {
            blob: blob.to_vec(),
            key,
            serial,
            kind,
            key_id,
            principals,
            valid_after,
            valid_before,
            critical_options,
            extensions,
            authority,
            signature_algorithm,
        })
    }

    /// Parses only the certified key of a certificate blob: neither the authority nor its signature
    /// is looked at, so that the certificate vouches for nothing.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn certified_key(blob: &[u8]) -> Result<PublicKey, KeyError> {
        let (key_type, mut reader) = begin(blob)?;
        PublicKey::read_fields(key_type, &mut reader)
    }

    /// The received bytes.
    #[must_use]
    pub fn blob(&self) -> &[u8] {
        &self.blob
    }

    /// The certified key.
    #[must_use]
    pub fn key(&self) -> &PublicKey {
        &self.key
    }

    /// Serial number; 0 if the authority assigns none.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Whether it is for a user or a host.
    #[must_use]
    pub fn kind(&self) -> CertificateKind {
        self.kind
    }

    /// The authority's free text to identify the certificate; foreign bytes without NUL.
    #[must_use]
    pub fn key_id(&self) -> &[u8] {
        &self.key_id
    }

    /// Names of the users or hosts that it is for. An empty list matches no name.
    #[must_use]
    pub fn principals(&self) -> &[String] {
        &self.principals
    }

    /// First second of validity, in seconds since 1970.
    #[must_use]
    pub fn valid_after(&self) -> u64 {
        self.valid_after
    }

    /// First second after validity, in seconds since 1970; `u64::MAX` for no end.
    #[must_use]
    pub fn valid_before(&self) -> u64 {
        self.valid_before
    }

    /// The critical options, in the order of the blob.
    #[must_use]
    pub fn critical_options(&self) -> &[CertificateOption] {
        &self.critical_options
    }

    /// The extensions, in the order of the blob.
    #[must_use]
    pub fn extensions(&self) -> &[CertificateOption] {
        &self.extensions
    }

    /// Key of the authority that signed the certificate.
    #[must_use]
    pub fn authority(&self) -> &PublicKey {
        &self.authority
    }

    /// Algorithm of the authority's signature.
    #[must_use]
    pub fn signature_algorithm(&self) -> SignatureAlgorithm {
        self.signature_algorithm
    }

    /// The authority's signature for warnings, if it is one that only old devices need.
    #[must_use]
    pub fn old_signature(&self) -> Option<&'static str> {
        let is_old = self.signature_algorithm.is_sha1();
        is_old.then_some("ssh-rsa of the certificate's authority")
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("key", &self.key)
            .field("kind", &self.kind)
            .field("serial", &self.serial)
            .field("key_id", &printable(&self.key_id))
            .field("principals", &self.principals)
            .field("authority", &self.authority)
            .finish_non_exhaustive()
    }
}

/// The type of a certificate's key, and the fields from the key on.
fn begin(blob: &[u8]) -> Result<(KeyType, Reader<'_>), KeyError> {
    let (key_type, is_certificate, mut reader) = read_type(blob)?;
    if !is_certificate {
        return Err(KeyError::WrongKind(
            "expected a certificate, found a plain key",
        ));
    }
    let _nonce = reader.string()?;
    Ok((key_type, reader))
}

fn without_nul(bytes: &[u8]) -> Result<&[u8], KeyError> {
    if bytes.contains(&0) {
        return Err(KeyError::Invalid("NUL byte in a certificate's text"));
    }
    Ok(bytes)
}

fn read_principals(list: &[u8]) -> Result<Vec<String>, KeyError> {
    let mut reader = Reader::new(list);
    let mut principals = Vec::new();
    while !reader.is_empty() {
        if principals.len() == MAX_PRINCIPALS {
            return Err(KeyError::Invalid("certificate names too many principals"));
        }
        let text = core::str::from_utf8(without_nul(reader.string()?)?)
            .map_err(|_| KeyError::Invalid("principal is not UTF-8"))?;
        principals.push(text.to_owned());
    }
    Ok(principals)
}

fn read_options(list: &[u8]) -> Result<Vec<CertificateOption>, KeyError> {
    let mut reader = Reader::new(list);
    let mut options: Vec<CertificateOption> = Vec::new();
    while !reader.is_empty() {
        if options.len() == MAX_OPTIONS {
            return Err(KeyError::Invalid("certificate has too many options"));
        }
        let name = reader.utf8()?.to_owned();
        let data = reader.string()?.to_vec();
        if options.iter().any(|option| option.name == name) {
            return Err(KeyError::Invalid("certificate repeats an option"));
        }
        options.push(CertificateOption { name, data });
    }
    Ok(options)
}

/// Checks the names at the start of both blobs against the permitted algorithms. Unknown names are
/// left to the parsers, which report them.
fn check_authority_names(
    authority: &[u8],
    signature: &[u8],
    permitted: &[SignatureAlgorithm],
) -> Result<(), KeyError> {
    let key_type = KeyType::from_blob_name(Reader::new(authority).string()?);
    let algorithm = SignatureAlgorithm::from_wire_name(Reader::new(signature).string()?);
    let type_fits = key_type.is_none_or(|(key_type, _)| {
        permitted
            .iter()
            .any(|permitted| permitted.key_type() == key_type)
    });
    if type_fits && algorithm.is_none_or(|algorithm| permitted.contains(&algorithm)) {
        Ok(())
    } else {
        Err(KeyError::AuthorityAlgorithm)
    }
}

/// SSH has no chains of certificates: an authority is a plain key.
fn read_authority(blob: &[u8]) -> Result<PublicKey, KeyError> {
    PublicKey::from_blob(blob).map_err(|error| match error {
        KeyError::WrongKind(_) => {
            KeyError::WrongKind("the authority of a certificate is itself a certificate")
        }
        other => other,
    })
}

fn verify(
    authority: &PublicKey,
    signed: &[u8],
    signature_blob: &[u8],
) -> Result<SignatureAlgorithm, KeyError> {
    // `check` applies the policy for the authority's size; this is only the minimum of the crypto
    // library.
    let policy = VerifyPolicy {
        min_rsa_bits: 1024,
        ..VerifyPolicy::default()
    };
    let algorithm = Signature::from_blob(signature_blob)
        .map_err(signature_error)?
        .algorithm;
    authority
        .verify(algorithm, signed, signature_blob, &policy)
        .map_err(signature_error)?;
    Ok(algorithm)
}

fn signature_error(error: VerifyError) -> KeyError {
    match error {
        VerifyError::Malformed(error) => KeyError::Malformed(error),
        VerifyError::WrongAlgorithm => {
            KeyError::Invalid("certificate is signed with an unsupported algorithm")
        }
        VerifyError::WrongKeyType => KeyError::Invalid(
            "certificate's signature algorithm does not match its authority's key",
        ),
        VerifyError::NoUserPresence | VerifyError::NoUserVerification => {
            KeyError::Invalid("certificate's authority signed without a touch")
        }
        VerifyError::KeyTooSmall { .. } => {
            KeyError::Invalid("key of the certificate's authority is too small")
        }
        VerifyError::BadSignature => KeyError::Invalid("certificate's signature does not verify"),
    }
}
