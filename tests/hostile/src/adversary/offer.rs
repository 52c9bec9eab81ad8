//! The content of the adversary's KEXINIT.

use wire::message::{Encode, KexInit};
use wire::{NameList, names};

use proto::Role;

/// Name-lists of a KEXINIT; the same for both directions.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Key exchange methods, with markers if a test sets them itself.
    pub kex: String,
    /// Host key algorithms.
    pub host_key: String,
    /// Ciphers.
    pub cipher: String,
    /// MACs.
    pub mac: String,
    /// Compression methods.
    pub compression: String,
    /// Announce strict key exchange.
    pub strict: bool,
    /// Ask for EXT_INFO.
    pub ext_info: bool,
    /// Announce a guessed packet.
    pub guess_follows: bool,
}

impl Default for Offer {
    fn default() -> Self {
        Self {
            kex: "curve25519-sha256".into(),
            host_key: "ssh-ed25519".into(),
            cipher: "aes128-gcm@openssh.com".into(),
            mac: "hmac-sha2-256-etm@openssh.com".into(),
            compression: "none".into(),
            strict: true,
            ext_info: false,
            guess_follows: false,
        }
    }
}

impl Offer {
    /// The default with another key exchange method.
    #[must_use]
    pub fn kex(name: &str) -> Self {
        Self {
            kex: name.into(),
            ..Self::default()
        }
    }

    /// The default without strict key exchange.
    #[must_use]
    pub fn lax() -> Self {
        Self {
            strict: false,
            ..Self::default()
        }
    }

    /// The KEXINIT's payload.
    ///
    /// # Panics
    /// If a list contains a character that a name-list must not have.
    #[must_use]
    pub fn payload(&self, role: Role) -> Vec<u8> {
        let mut kex = self.kex.clone();
        let (strict, ext_info) = match role {
            Role::Client => (names::STRICT_KEX_CLIENT, names::EXT_INFO_CLIENT),
            Role::Server => (names::STRICT_KEX_SERVER, names::EXT_INFO_SERVER),
        };
        for (wanted, marker) in [(self.strict, strict), (self.ext_info, ext_info)] {
            if wanted {
                kex.push(',');
                kex.push_str(marker);
            }
        }
        let list = |text| NameList::new(text).expect("a name-list");
        KexInit {
            cookie: [7; 16],
            kex: list(&kex),
            host_key: list(&self.host_key),
            cipher_c2s: list(&self.cipher),
            cipher_s2c: list(&self.cipher),
            mac_c2s: list(&self.mac),
            mac_s2c: list(&self.mac),
            compression_c2s: list(&self.compression),
            compression_s2c: list(&self.compression),
            language_c2s: NameList::default(),
            language_s2c: NameList::default(),
            first_kex_packet_follows: self.guess_follows,
            reserved: 0,
        }
        .encode()
    }
}
