//! The table of public key types and of their signature algorithms (RFC 4253 §6.6, RFC 5656, RFC
//! 8332, RFC 8709, OpenSSH PROTOCOL.u2f and PROTOCOL.certkeys,
//! draft-miller-sshm-mldsa44-ed25519-composite-sigs-00).
//!
//! A *key type* is the name inside a key blob; a *signature algorithm* is the name that is
//! negotiated and that a signature contains. They differ for RSA, where one key type has two
//! algorithms and a third, `ssh-rsa` with SHA-1, for old devices, which no default permits; and for
//! P-256 in a security key, which also signs by way of a browser.

use core::fmt;

/// Type of a plain key, as named in its blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyType {
    /// `ssh-ed25519` (RFC 8709).
    Ed25519,
    /// `ecdsa-sha2-nistp256` (RFC 5656).
    EcdsaP256,
    /// `ecdsa-sha2-nistp384` (RFC 5656).
    EcdsaP384,
    /// `ecdsa-sha2-nistp521` (RFC 5656).
    EcdsaP521,
    /// `ssh-rsa` (RFC 4253 §6.6): the key type, not the SHA-1 signature algorithm of the same name.
    Rsa,
    /// `sk-ssh-ed25519@openssh.com`: a security key.
    SkEd25519,
    /// `sk-ecdsa-sha2-nistp256@openssh.com`: a security key.
    SkEcdsaP256,
    /// `ssh-mldsa44-ed25519` (OpenSSH 10.6): ML-DSA-44 with Ed25519.
    MlDsa44Ed25519,
}

struct KeyTypeRow {
    key_type: KeyType,
    name: &'static str,
    certificate_name: &'static str,
    /// Label that `ssh-keygen -l` prints in parentheses.
    label: &'static str,
}

const KEY_TYPES: [KeyTypeRow; 8] = [
    KeyTypeRow {
        key_type: KeyType::Ed25519,
        name: "ssh-ed25519",
        certificate_name: "ssh-ed25519-cert-v01@openssh.com",
        label: "ED25519",
    },
    KeyTypeRow {
        key_type: KeyType::EcdsaP256,
        name: "ecdsa-sha2-nistp256",
        certificate_name: "ecdsa-sha2-nistp256-cert-v01@openssh.com",
        label: "ECDSA",
    },
    KeyTypeRow {
        key_type: KeyType::EcdsaP384,
        name: "ecdsa-sha2-nistp384",
        certificate_name: "ecdsa-sha2-nistp384-cert-v01@openssh.com",
        label: "ECDSA",
    },
    KeyTypeRow {
        key_type: KeyType::EcdsaP521,
        name: "ecdsa-sha2-nistp521",
        certificate_name: "ecdsa-sha2-nistp521-cert-v01@openssh.com",
        label: "ECDSA",
    },
    KeyTypeRow {
        key_type: KeyType::Rsa,
        name: "ssh-rsa",
        certificate_name: "ssh-rsa-cert-v01@openssh.com",
        label: "RSA",
    },
    KeyTypeRow {
        key_type: KeyType::SkEd25519,
        name: "sk-ssh-ed25519@openssh.com",
        certificate_name: "sk-ssh-ed25519-cert-v01@openssh.com",
        label: "ED25519-SK",
    },
    KeyTypeRow {
        key_type: KeyType::SkEcdsaP256,
        name: "sk-ecdsa-sha2-nistp256@openssh.com",
        certificate_name: "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
        label: "ECDSA-SK",
    },
    KeyTypeRow {
        key_type: KeyType::MlDsa44Ed25519,
        name: "ssh-mldsa44-ed25519",
        certificate_name: "ssh-mldsa44-ed25519-cert",
        label: "MLDSA44-ED25519",
    },
];

impl KeyType {
    /// Every key type, in the table's order.
    pub const ALL: [Self; 8] = [
        Self::Ed25519,
        Self::EcdsaP256,
        Self::EcdsaP384,
        Self::EcdsaP521,
        Self::Rsa,
        Self::SkEd25519,
        Self::SkEcdsaP256,
        Self::MlDsa44Ed25519,
    ];

    fn row(self) -> &'static KeyTypeRow {
        match self {
            Self::Ed25519 => &KEY_TYPES[0],
            Self::EcdsaP256 => &KEY_TYPES[1],
            Self::EcdsaP384 => &KEY_TYPES[2],
            Self::EcdsaP521 => &KEY_TYPES[3],
            Self::Rsa => &KEY_TYPES[4],
            Self::SkEd25519 => &KEY_TYPES[5],
            Self::SkEcdsaP256 => &KEY_TYPES[6],
            Self::MlDsa44Ed25519 => &KEY_TYPES[7],
        }
    }

    /// The name in a plain key's blob.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The name in a certificate's blob.
    #[must_use]
    pub fn certificate_name(self) -> &'static str {
        self.row().certificate_name
    }

    /// Upper-case label for display, as in `256 SHA256:… (ED25519)`.
    #[must_use]
    pub fn label(self) -> &'static str {
        self.row().label
    }

    /// Looks up the key type with this blob name; the boolean is true for a certificate's name.
    #[must_use]
    pub fn from_blob_name(name: &[u8]) -> Option<(Self, bool)> {
        KEY_TYPES.iter().find_map(|row| {
            if row.name.as_bytes() == name {
                Some((row.key_type, false))
            } else if row.certificate_name.as_bytes() == name {
                Some((row.key_type, true))
            } else {
                None
            }
        })
    }

    /// True for keys whose secret is in a security key (FIDO).
    #[must_use]
    pub fn is_security_key(self) -> bool {
        matches!(self, Self::SkEd25519 | Self::SkEcdsaP256)
    }

    /// Plain signature algorithms with which a program signs by such a key, strongest first. Those of
    /// browsers ([`SignatureAlgorithm::is_of_browser`]) are verified and never made.
    #[must_use]
    pub fn algorithms(self) -> &'static [SignatureAlgorithm] {
        match self {
            Self::Ed25519 => &[SignatureAlgorithm::Ed25519],
            Self::EcdsaP256 => &[SignatureAlgorithm::EcdsaP256],
            Self::EcdsaP384 => &[SignatureAlgorithm::EcdsaP384],
            Self::EcdsaP521 => &[SignatureAlgorithm::EcdsaP521],
            Self::Rsa => &[
                SignatureAlgorithm::RsaSha512,
                SignatureAlgorithm::RsaSha256,
                SignatureAlgorithm::RsaSha1,
            ],
            Self::SkEd25519 => &[SignatureAlgorithm::SkEd25519],
            Self::SkEcdsaP256 => &[SignatureAlgorithm::SkEcdsaP256],
            Self::MlDsa44Ed25519 => &[SignatureAlgorithm::MlDsa44Ed25519],
        }
    }

    /// As [`Self::algorithms`], of certificates.
    #[must_use]
    pub fn certificate_algorithms(self) -> &'static [SignatureAlgorithm] {
        match self {
            Self::Ed25519 => &[SignatureAlgorithm::Ed25519Cert],
            Self::EcdsaP256 => &[SignatureAlgorithm::EcdsaP256Cert],
            Self::EcdsaP384 => &[SignatureAlgorithm::EcdsaP384Cert],
            Self::EcdsaP521 => &[SignatureAlgorithm::EcdsaP521Cert],
            Self::Rsa => &[
                SignatureAlgorithm::RsaSha512Cert,
                SignatureAlgorithm::RsaSha256Cert,
                SignatureAlgorithm::RsaSha1Cert,
            ],
            Self::SkEd25519 => &[SignatureAlgorithm::SkEd25519Cert],
            Self::SkEcdsaP256 => &[SignatureAlgorithm::SkEcdsaP256Cert],
            Self::MlDsa44Ed25519 => &[SignatureAlgorithm::MlDsa44Ed25519Cert],
        }
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! signature_algorithms {
    ($($variant:ident, $name:literal, $key_type:ident, $plain:ident, $certificate:literal;)*) => {
        /// A negotiable signature algorithm (host key or public key algorithm).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum SignatureAlgorithm {
            $(
                #[doc = concat!("`", $name, "`")]
                $variant,
            )*
        }

        impl SignatureAlgorithm {
            /// Every algorithm, in the table's order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The negotiated name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Looks up an algorithm by name; `None` for unknown names, and in a build with the
            /// feature `strict` for those with SHA-1.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                let found = match name { $($name => Self::$variant,)* _ => return None };
                (!(wire::algorithms::STRICT && found.is_sha1())).then_some(found)
            }

            /// The key type that the algorithm requires.
            #[must_use]
            pub fn key_type(self) -> KeyType {
                match self { $(Self::$variant => KeyType::$key_type,)* }
            }

            /// True if the key is presented as a certificate.
            #[must_use]
            pub fn is_certificate(self) -> bool {
                match self { $(Self::$variant => $certificate,)* }
            }

            /// The algorithm whose name the signature blob contains: itself, or for a certificate
            /// algorithm that of the certified key.
            #[must_use]
            pub fn plain(self) -> Self {
                match self { $(Self::$variant => Self::$plain,)* }
            }
        }
    };
}

signature_algorithms! {
    Ed25519, "ssh-ed25519", Ed25519, Ed25519, false;
    EcdsaP256, "ecdsa-sha2-nistp256", EcdsaP256, EcdsaP256, false;
    EcdsaP384, "ecdsa-sha2-nistp384", EcdsaP384, EcdsaP384, false;
    EcdsaP521, "ecdsa-sha2-nistp521", EcdsaP521, EcdsaP521, false;
    RsaSha1, "ssh-rsa", Rsa, RsaSha1, false;
    RsaSha256, "rsa-sha2-256", Rsa, RsaSha256, false;
    RsaSha512, "rsa-sha2-512", Rsa, RsaSha512, false;
    SkEd25519, "sk-ssh-ed25519@openssh.com", SkEd25519, SkEd25519, false;
    SkEcdsaP256, "sk-ecdsa-sha2-nistp256@openssh.com", SkEcdsaP256, SkEcdsaP256, false;
    WebauthnSkEcdsaP256, "webauthn-sk-ecdsa-sha2-nistp256@openssh.com", SkEcdsaP256, WebauthnSkEcdsaP256, false;
    MlDsa44Ed25519, "ssh-mldsa44-ed25519", MlDsa44Ed25519, MlDsa44Ed25519, false;
    Ed25519Cert, "ssh-ed25519-cert-v01@openssh.com", Ed25519, Ed25519, true;
    EcdsaP256Cert, "ecdsa-sha2-nistp256-cert-v01@openssh.com", EcdsaP256, EcdsaP256, true;
    EcdsaP384Cert, "ecdsa-sha2-nistp384-cert-v01@openssh.com", EcdsaP384, EcdsaP384, true;
    EcdsaP521Cert, "ecdsa-sha2-nistp521-cert-v01@openssh.com", EcdsaP521, EcdsaP521, true;
    RsaSha1Cert, "ssh-rsa-cert-v01@openssh.com", Rsa, RsaSha1, true;
    RsaSha256Cert, "rsa-sha2-256-cert-v01@openssh.com", Rsa, RsaSha256, true;
    RsaSha512Cert, "rsa-sha2-512-cert-v01@openssh.com", Rsa, RsaSha512, true;
    SkEd25519Cert, "sk-ssh-ed25519-cert-v01@openssh.com", SkEd25519, SkEd25519, true;
    SkEcdsaP256Cert, "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com", SkEcdsaP256, SkEcdsaP256, true;
    WebauthnSkEcdsaP256Cert, "webauthn-sk-ecdsa-sha2-nistp256-cert-v01@openssh.com", SkEcdsaP256, WebauthnSkEcdsaP256, true;
    MlDsa44Ed25519Cert, "ssh-mldsa44-ed25519-cert", MlDsa44Ed25519, MlDsa44Ed25519, true;
}

impl SignatureAlgorithm {
    /// Every algorithm but those with SHA-1, in the table's order: what may sign files and the
    /// certificates of their signers.
    pub const WITHOUT_SHA1: &'static [Self] = &{
        let mut rest = [Self::Ed25519; Self::ALL.len() - 2];
        let (mut from, mut to) = (0, 0);
        while from < Self::ALL.len() {
            if !Self::ALL[from].is_sha1() {
                rest[to] = Self::ALL[from];
                to += 1;
            }
            from += 1;
        }
        rest
    };

    /// True for the signatures of old devices, which can be forged for messages that the attacker
    /// chooses both of.
    #[must_use]
    pub const fn is_sha1(self) -> bool {
        matches!(self, Self::RsaSha1 | Self::RsaSha1Cert)
    }

    /// Looks up an algorithm by a name received from the peer.
    #[must_use]
    pub fn from_wire_name(name: &[u8]) -> Option<Self> {
        Self::from_name(core::str::from_utf8(name).ok()?)
    }

    /// The name that a key blob presented for this algorithm must start with.
    #[must_use]
    pub fn blob_name(self) -> &'static str {
        if self.is_certificate() {
            self.key_type().certificate_name()
        } else {
            self.key_type().name()
        }
    }

    /// True if the signature contains what a browser wrote (OpenSSH PROTOCOL.u2f, "webauthn signatures").
    #[must_use]
    pub fn is_of_browser(self) -> bool {
        self.plain() == Self::WebauthnSkEcdsaP256
    }

    /// True if security keys make these signatures, which then carry flags and a counter.
    #[must_use]
    pub fn is_security_key(self) -> bool {
        self.key_type().is_security_key()
    }
}

impl fmt::Display for SignatureAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_rows() {
        for key_type in KeyType::ALL {
            assert_eq!(key_type.row().key_type, key_type);
            assert_eq!(
                KeyType::from_blob_name(key_type.name().as_bytes()),
                Some((key_type, false))
            );
            assert_eq!(
                KeyType::from_blob_name(key_type.certificate_name().as_bytes()),
                Some((key_type, true))
            );
        }
        for algorithm in SignatureAlgorithm::ALL {
            let is_known = !(wire::algorithms::STRICT && algorithm.is_sha1());
            assert_eq!(
                SignatureAlgorithm::from_name(algorithm.name()),
                is_known.then_some(*algorithm)
            );
            assert_eq!(algorithm.plain().key_type(), algorithm.key_type());
            assert!(!algorithm.plain().is_certificate());
            let family = if algorithm.is_certificate() {
                algorithm.key_type().certificate_algorithms()
            } else {
                algorithm.key_type().algorithms()
            };
            assert_ne!(family.contains(algorithm), algorithm.is_of_browser());
        }
    }

    #[test]
    fn sha1_is_the_weakest_of_rsa() {
        assert_eq!(
            KeyType::Rsa.algorithms().last(),
            Some(&SignatureAlgorithm::RsaSha1)
        );
        assert_eq!(
            KeyType::Rsa.certificate_algorithms().last(),
            Some(&SignatureAlgorithm::RsaSha1Cert)
        );
        assert_eq!(SignatureAlgorithm::from_wire_name(b"\xff"), None);
    }
}
