//! Constraints of an added key (RFC 9987, "Key Constraints"; OpenSSH
//! PROTOCOL.agent §2 and §3): their encoding, and a decoder that refuses what it does not know.

use wire::{DecodeError, Put, Reader};

/// SSH_AGENT_CONSTRAIN_LIFETIME
const LIFETIME: u8 = 1;
/// SSH_AGENT_CONSTRAIN_CONFIRM
const CONFIRM: u8 = 2;
/// SSH_AGENT_CONSTRAIN_MAXSIGN
const MAX_SIGNATURES: u8 = 3;
/// SSH_AGENT_CONSTRAIN_EXTENSION
const EXTENSION: u8 = 255;

/// Restriction to destinations.
pub const RESTRICT_DESTINATION: &str = "restrict-destination-v00@openssh.com";
/// Certificates for the keys of a token.
pub const ASSOCIATED_CERTIFICATES: &str = "associated-certs-v00@openssh.com";
/// The library that reaches a security key.
pub const SECURITY_KEY_PROVIDER: &str = "sk-provider@openssh.com";

/// Largest number of destinations of a key, as in OpenSSH.
pub const MAX_DESTINATIONS: usize = 1024;
/// Largest number of host keys of one hop.
const MAX_HOST_KEYS: usize = 1024;
/// Largest number of associated certificates, as in OpenSSH.
const MAX_CERTIFICATES: usize = 1024;
/// Longest user or host name of a hop, in bytes: a pattern is matched for each request.
const MAX_NAME_BYTES: usize = 1024;

/// What restricts the use of a key. The default is no constraint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Constraints {
    /// Seconds until the agent removes the key; `None` for the agent's default.
    pub lifetime: Option<u32>,
    /// True if the agent's user must confirm each signature.
    pub confirm: bool,
    /// Largest number of signatures, which is defined only for stateful keys (XMSS).
    pub max_signatures: Option<u32>,
    /// Permitted hops; empty for any destination.
    pub destinations: Vec<DestinationConstraint>,
    /// The library for a security key.
    pub provider: Option<String>,
    /// Certificates for the keys of a token.
    pub certificates: Option<AssociatedCertificates>,
}

/// A permitted hop of the path from the agent to the destination of a login.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DestinationConstraint {
    /// Where the hop begins; without name and keys it is the agent's machine. Its user is empty.
    pub from: Hop,
    /// Where the hop ends; it has a name and at least one key.
    pub to: Hop,
}

/// A host in a destination constraint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hop {
    /// Pattern of permitted users; empty for all.
    pub user: String,
    /// The host's name, which its certificates must contain; shown to people.
    pub host: String,
    /// The host keys by which the host is known.
    pub keys: Vec<HopKey>,
}

/// A host key of a hop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HopKey {
    /// Blob of a plain public key.
    pub blob: Vec<u8>,
    /// True if it signs the host's certificates, false if it is the host's own key.
    pub is_authority: bool,
}

/// Certificates that an agent shall list for the keys of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssociatedCertificates {
    /// True if the plain keys shall not be listed.
    pub only: bool,
    /// Blobs of the certificates.
    pub blobs: Vec<Vec<u8>>,
}

impl Constraints {
    /// True if nothing restricts the key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Appends the constraints as the last field of a request to add a key.
    pub fn write(&self, out: &mut Vec<u8>) {
        if let Some(seconds) = self.lifetime {
            out.put_u8(LIFETIME);
            out.put_u32(seconds);
        }
        if self.confirm {
            out.put_u8(CONFIRM);
        }
        if let Some(count) = self.max_signatures {
            out.put_u8(MAX_SIGNATURES);
            out.put_u32(count);
        }
        if let Some(provider) = &self.provider {
            extension(out, SECURITY_KEY_PROVIDER);
            out.put_string(provider.as_bytes());
        }
        if !self.destinations.is_empty() {
            extension(out, RESTRICT_DESTINATION);
            let mut list = Vec::new();
            for destination in &self.destinations {
                destination.write(&mut list);
            }
            out.put_string(&list);
        }
        if let Some(certificates) = &self.certificates {
            extension(out, ASSOCIATED_CERTIFICATES);
            out.put_bool(certificates.only);
            let mut list = Vec::new();
            for blob in &certificates.blobs {
                list.put_string(blob);
            }
            out.put_string(&list);
        }
    }

    /// Reads constraints to the end of a request.
    ///
    /// # Errors
    /// [`DecodeError`] for a constraint that is unknown, repeated, empty or malformed: the key must
    /// not be added, because it would be less restricted than its owner asked.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut constraints = Self::default();
        while !reader.is_empty() {
            match reader.u8()? {
                LIFETIME => once(&mut constraints.lifetime, reader.u32()?)?,
                CONFIRM if constraints.confirm => return Err(REPEATED),
                CONFIRM => constraints.confirm = true,
                MAX_SIGNATURES => once(&mut constraints.max_signatures, reader.u32()?)?,
                EXTENSION => constraints.read_extension(reader)?,
                _ => return Err(UNKNOWN),
            }
        }
        Ok(constraints)
    }

    fn read_extension(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        match reader.utf8()? {
            SECURITY_KEY_PROVIDER => once(&mut self.provider, reader.utf8()?.to_owned()),
            RESTRICT_DESTINATION => {
                if !self.destinations.is_empty() {
                    return Err(REPEATED);
                }
                self.destinations = read_destinations(reader.string()?)?;
                Ok(())
            }
            ASSOCIATED_CERTIFICATES => {
                let only = reader.bool()?;
                let blobs = read_certificates(reader.string()?)?;
                once(
                    &mut self.certificates,
                    AssociatedCertificates { only, blobs },
                )
            }
            _ => Err(UNKNOWN),
        }
    }
}

const REPEATED: DecodeError = DecodeError::Malformed("a constraint is repeated");
const UNKNOWN: DecodeError = DecodeError::Malformed("a constraint is unknown");

fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), DecodeError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(REPEATED),
    }
}

fn extension(out: &mut Vec<u8>, name: &str) {
    out.put_u8(EXTENSION);
    out.put_string(name.as_bytes());
}

fn read_destinations(list: &[u8]) -> Result<Vec<DestinationConstraint>, DecodeError> {
    let mut reader = Reader::new(list);
    let mut destinations = Vec::new();
    while !reader.is_empty() {
        if destinations.len() == MAX_DESTINATIONS {
            return Err(DecodeError::Malformed("too many destinations"));
        }
        destinations.push(DestinationConstraint::read(reader.string()?)?);
    }
    if destinations.is_empty() {
        return Err(DecodeError::Malformed("a restriction names no destination"));
    }
    Ok(destinations)
}

fn read_certificates(list: &[u8]) -> Result<Vec<Vec<u8>>, DecodeError> {
    let mut reader = Reader::new(list);
    let mut blobs = Vec::new();
    while !reader.is_empty() {
        if blobs.len() == MAX_CERTIFICATES {
            return Err(DecodeError::Malformed("too many certificates"));
        }
        let blob = reader.string()?;
        // Left out, it would be missing without a word.
        if keys::PresentedKey::from_blob(blob).is_err() {
            return Err(DecodeError::Malformed("a certificate is not usable"));
        }
        blobs.push(blob.to_vec());
    }
    Ok(blobs)
}

impl DestinationConstraint {
    fn write(&self, out: &mut Vec<u8>) {
        let mut fields = Vec::new();
        for hop in [&self.from, &self.to] {
            let mut bytes = Vec::new();
            hop.write(&mut bytes);
            fields.put_string(&bytes);
        }
        // Reserved for extensions.
        fields.put_string(b"");
        out.put_string(&fields);
    }

    fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let from = Hop::read(reader.string()?)?;
        let to = Hop::read(reader.string()?)?;
        no_extensions(&mut reader)?;
        reader.finish()?;
        if !from.user.is_empty() || from.host.is_empty() != from.keys.is_empty() {
            return Err(DecodeError::Malformed("a hop's start is inconsistent"));
        }
        if to.host.is_empty() || to.keys.is_empty() {
            return Err(DecodeError::Malformed("a hop's end is incomplete"));
        }
        Ok(Self { from, to })
    }
}

impl Hop {
    fn write(&self, out: &mut Vec<u8>) {
        out.put_string(self.user.as_bytes());
        out.put_string(self.host.as_bytes());
        out.put_string(b"");
        for key in &self.keys {
            out.put_string(&key.blob);
            out.put_bool(key.is_authority);
        }
    }

    fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let user = read_name(&mut reader)?;
        let host = read_name(&mut reader)?;
        no_extensions(&mut reader)?;
        let mut keys = Vec::new();
        while !reader.is_empty() {
            if keys.len() == MAX_HOST_KEYS {
                return Err(DecodeError::Malformed("too many host keys"));
            }
            let blob = reader.string()?.to_vec();
            // A host key of an unknown type matches no host: the agent would be stricter than its
            // user expects, without a word.
            if keys::PublicKey::from_blob(&blob).is_err() {
                return Err(DecodeError::Malformed("a host key is not usable"));
            }
            let is_authority = reader.bool()?;
            keys.push(HopKey { blob, is_authority });
        }
        Ok(Self { user, host, keys })
    }
}

fn read_name(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
    let bytes = reader.string_max(MAX_NAME_BYTES)?;
    core::str::from_utf8(bytes)
        .ok()
        .filter(|name| !name.contains('\0'))
        .map(str::to_owned)
        .ok_or(DecodeError::Malformed("a name is not text"))
}

fn no_extensions(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    match reader.string()? {
        [] => Ok(()),
        _ => Err(DecodeError::Malformed("a hop has unknown extensions")),
    }
}
