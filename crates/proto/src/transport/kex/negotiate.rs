//! KEXINIT: our proposal, the peer's, and the result of both (RFC 4253 §7.1).

use alloc::string::String;
use alloc::vec::Vec;

use crypto::cipher::CipherAlgorithm;
use crypto::kex::KexAlgorithm;
use crypto::mac::MacAlgorithm;
use keys::SignatureAlgorithm;
use wire::message::{Encode, KexInit};
use wire::{NameList, names};

use crate::config::Offer;
use crate::transport::epoch_keys::DirectionSuite;
use crate::{DirectionAlgorithms, Error, Negotiated, Role};

/// Strength of 3DES with three keys, bytes: 112 bits.
const TRIPLE_DES_STRENGTH_BYTES: usize = 14;

/// Algorithms negotiated from both KEXINITs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Agreement {
    pub(crate) kex: KexAlgorithm,
    /// `None` for `null`, which only a method by GSS-API goes with.
    pub(crate) host_key: Option<SignatureAlgorithm>,
    pub(crate) c2s: DirectionSuite,
    pub(crate) s2c: DirectionSuite,
}

/// A server's lists as sent, including unknown names and markers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerLists {
    pub(crate) kex: Vec<String>,
    pub(crate) host_key: Vec<String>,
}

/// Contents of the peer's KEXINIT other than algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeerMarkers {
    pub(crate) strict_kex: bool,
    pub(crate) ext_info: bool,
    /// Both sides name the same method and the same host key type first, so a guess is right.
    pub(crate) same_first: bool,
    /// The server names the negotiated algorithms first, so guessing them will be right in the next
    /// exchange.
    pub(crate) server_names_it_first: bool,
    /// A guessed packet follows, and the guess is wrong: ignore that packet.
    pub(crate) wrong_guess_follows: bool,
}

/// Encodes our KEXINIT. `before` is the result of the last exchange, `None` in the first one. Only
/// the first KEXINIT contains markers: strict KEX and EXT_INFO are settled once for a connection.
/// Later ones name the last result first: the client would choose it anyway, and if both sides do
/// so a guess is right. `guessed`: a packet of the first method follows. Without `cookie` it is
/// random.
pub(crate) fn proposal(
    offer: &Offer,
    role: Role,
    before: Option<&Agreement>,
    guessed: bool,
    cookie: Option<[u8; 16]>,
) -> Vec<u8> {
    let markers: &[&str] = match (before, role) {
        (Some(_), _) => &[],
        (None, Role::Client) => &[names::EXT_INFO_CLIENT, names::STRICT_KEX_CLIENT],
        (None, Role::Server) => &[names::EXT_INFO_SERVER, names::STRICT_KEX_SERVER],
    };
    let kex = in_front(&offer.kex, before.map(|before| before.kex));
    let kex = join(kex.map(|each| each.name()).chain(markers.iter().copied()));
    let host_key = in_front(&offer.host_key, before.and_then(|before| before.host_key));
    let null = offer.null_host_key.then_some(names::HOST_KEY_NULL);
    let host_key = join(host_key.map(|each| each.name()).chain(null));
    let ciphers = join(offer.ciphers.iter().map(|each| each.name()));
    let macs = join(offer.macs.iter().map(|each| each.name()));
    let compression = join(offer.compression.iter().map(|each| each.name()));
    KexInit {
        cookie: cookie.unwrap_or_else(crypto::random::bytes),
        kex: list(&kex),
        host_key: list(&host_key),
        cipher_c2s: list(&ciphers),
        cipher_s2c: list(&ciphers),
        mac_c2s: list(&macs),
        mac_s2c: list(&macs),
        compression_c2s: list(&compression),
        compression_s2c: list(&compression),
        language_c2s: NameList::default(),
        language_s2c: NameList::default(),
        first_kex_packet_follows: guessed,
        reserved: 0,
    }
    .encode()
}

/// Converts names from our own tables, which are printable ASCII; an empty list would be a bug that
/// the peer answers with "no common algorithm".
fn list(text: &str) -> NameList<'_> {
    NameList::new(text).unwrap_or_default()
}

/// Encodes a client's first KEXINIT, followed by a guess, in Fulmar's own short encoding
/// ([`names::LANGUAGE_SHORT_KEXINIT`]): values that `spelled_out` adds are omitted.
pub(crate) fn short_proposal(offer: &Offer) -> Vec<u8> {
    let kex = join(offer.kex.iter().map(|each| each.name()));
    let host_key = join(offer.host_key.iter().map(|each| each.name()));
    let ciphers = join(offer.ciphers.iter().map(|each| each.name()));
    let needs_mac = |cipher: &CipherAlgorithm| cipher.needs_mac();
    let macs = match offer.ciphers.iter().any(needs_mac) {
        true => join(offer.macs.iter().map(|each| each.name())),
        false => String::new(),
    };
    KexInit {
        cookie: crypto::random::bytes(),
        kex: list(&kex),
        host_key: list(&host_key),
        cipher_c2s: list(&ciphers),
        cipher_s2c: NameList::default(),
        mac_c2s: list(&macs),
        mac_s2c: NameList::default(),
        compression_c2s: NameList::default(),
        compression_s2c: NameList::default(),
        language_c2s: list(names::LANGUAGE_SHORT_KEXINIT),
        language_s2c: NameList::default(),
        first_kex_packet_follows: true,
        reserved: 0,
    }
    .encode()
}

/// Returns the full lists of a client's KEXINIT, and true if it used the short encoding. There an
/// empty server-to-client list equals the client-to-server list, compression need not be named, and
/// both client markers are implied.
fn spelled_out<'a>(client: &KexInit<'a>) -> (KexInit<'a>, bool) {
    if !client.language_c2s.contains(names::LANGUAGE_SHORT_KEXINIT) {
        return (*client, false);
    }
    let or = |list: NameList<'a>, other: NameList<'a>| match list.first() {
        Some(_) => list,
        None => other,
    };
    let none = list(names::COMPRESSION_NONE);
    let meant = KexInit {
        cipher_s2c: or(client.cipher_s2c, client.cipher_c2s),
        mac_s2c: or(client.mac_s2c, client.mac_c2s),
        compression_c2s: or(client.compression_c2s, none),
        compression_s2c: or(client.compression_s2c, none),
        ..*client
    };
    (meant, true)
}

/// `list` with `first` moved to the front, if `list` contains it.
fn in_front<T: Copy + PartialEq>(list: &[T], first: Option<T>) -> impl Iterator<Item = T> {
    let first = first.filter(|first| list.contains(first));
    let rest = list.iter().copied();
    first
        .into_iter()
        .chain(rest.filter(move |each| Some(*each) != first))
}

fn join<'n>(list: impl Iterator<Item = &'n str>) -> String {
    let mut text = String::new();
    for name in list {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
    }
    text
}

/// Negotiates the algorithms of both proposals by RFC 4253 §7.1.
///
/// # Errors
/// [`Error::NoCommonAlgorithm`].
pub(crate) fn agree(
    offer: &Offer,
    role: Role,
    ours: &KexInit<'_>,
    theirs: &KexInit<'_>,
) -> Result<(Agreement, PeerMarkers), Error> {
    let (client, server) = match role {
        Role::Client => (ours, theirs),
        Role::Server => (theirs, ours),
    };
    let (client, short) = spelled_out(client);
    // Only a client's markers can be implied.
    let meant = short && role == Role::Server;
    let choice = Choice { role };
    let kex = choice.of("key exchange method", client.kex, server.kex, |name| {
        offer.kex.iter().copied().find(|each| each.name() == name)
    })?;
    let host_key = choice.of("host key type", client.host_key, server.host_key, |name| {
        if name == names::HOST_KEY_NULL {
            return (offer.null_host_key && kex.is_gss()).then_some(None);
        }
        let mut known = offer.host_key.iter().copied();
        known.find(|each| each.name() == name).map(Some)
    })?;
    let c2s = choice.direction(
        offer,
        (client.cipher_c2s, server.cipher_c2s),
        (client.mac_c2s, server.mac_c2s),
        (client.compression_c2s, server.compression_c2s),
    )?;
    let s2c = choice.direction(
        offer,
        (client.cipher_s2c, server.cipher_s2c),
        (client.mac_s2c, server.mac_s2c),
        (client.compression_s2c, server.compression_s2c),
    )?;
    let (strict, ext_info) = match role {
        Role::Client => (names::STRICT_KEX_SERVER, names::EXT_INFO_SERVER),
        Role::Server => (names::STRICT_KEX_CLIENT, names::EXT_INFO_CLIENT),
    };
    let same_first = client.kex.first() == server.kex.first()
        && client.host_key.first() == server.host_key.first();
    let markers = PeerMarkers {
        strict_kex: meant || theirs.kex.contains(strict),
        ext_info: meant || theirs.kex.contains(ext_info),
        same_first,
        server_names_it_first: server.kex.first() == Some(kex.name())
            && server.host_key.first() == Some(name_of(host_key)),
        wrong_guess_follows: theirs.first_kex_packet_follows && !same_first,
    };
    Ok((
        Agreement {
            kex,
            host_key,
            c2s,
            s2c,
        },
        markers,
    ))
}

struct Choice {
    role: Role,
}

impl Choice {
    /// The first of the client's names that the server has too. `known` contains our own names
    /// only, so that a marker such as `ext-info-c` is never chosen.
    fn of<T>(
        &self,
        kind: &'static str,
        client: NameList<'_>,
        server: NameList<'_>,
        known: impl Fn(&str) -> Option<T>,
    ) -> Result<T, Error> {
        client
            .iter()
            .filter(|name| server.contains(name))
            .find_map(known)
            .ok_or_else(|| {
                let owned = |list: NameList<'_>| list.iter().map(String::from).collect::<Vec<_>>();
                let (ours, theirs) = match self.role {
                    Role::Client => (client, server),
                    Role::Server => (server, client),
                };
                Error::NoCommonAlgorithm {
                    kind,
                    ours: owned(ours),
                    theirs: owned(theirs),
                }
            })
    }

    fn direction(
        &self,
        offer: &Offer,
        ciphers: (NameList<'_>, NameList<'_>),
        macs: (NameList<'_>, NameList<'_>),
        compressions: (NameList<'_>, NameList<'_>),
    ) -> Result<DirectionSuite, Error> {
        let cipher = self.of("cipher", ciphers.0, ciphers.1, |name| {
            offer
                .ciphers
                .iter()
                .copied()
                .find(|each| each.name() == name)
        })?;
        let mac = if cipher.needs_mac() {
            Some(self.of("MAC", macs.0, macs.1, |name| {
                offer.macs.iter().copied().find(|each| each.name() == name)
            })?)
        } else {
            None
        };
        let compression = self.of(
            "compression method",
            compressions.0,
            compressions.1,
            |name| {
                offer
                    .compression
                    .iter()
                    .copied()
                    .find(|each| each.name() == name)
            },
        )?;
        Ok(DirectionSuite {
            cipher,
            mac,
            compression,
        })
    }
}

impl DirectionSuite {
    fn public(&self) -> DirectionAlgorithms {
        DirectionAlgorithms {
            cipher: self.cipher.name(),
            mac: self
                .mac
                .map_or(DirectionAlgorithms::IMPLICIT_MAC, |mac| mac.name()),
            compression: self.compression.name(),
        }
    }

    /// The longest of what is derived for this direction, bytes: a key counts by its strength.
    fn strength_bytes(&self) -> usize {
        let key = match self.cipher {
            CipherAlgorithm::TripleDesCbc => TRIPLE_DES_STRENGTH_BYTES,
            cipher => cipher.key_len(),
        };
        let mac = self.mac.map_or(0, MacAlgorithm::key_len);
        key.max(self.cipher.block_len())
            .max(self.cipher.iv_len())
            .max(mac)
    }
}

fn name_of(host_key: Option<SignatureAlgorithm>) -> &'static str {
    host_key.map_or(names::HOST_KEY_NULL, SignatureAlgorithm::name)
}

impl Agreement {
    /// The name of the host key algorithm.
    pub(crate) fn host_key_name(&self) -> &'static str {
        name_of(self.host_key)
    }

    /// The algorithm of the host key's signature.
    ///
    /// # Errors
    /// [`Error::Bug`] for `null`, which is agreed on only with a method that needs no signature.
    pub(crate) fn signed_host_key(&self) -> Result<SignatureAlgorithm, Error> {
        self.host_key
            .ok_or(Error::Bug("a signature without a host key"))
    }

    /// Converts to names.
    pub(crate) fn public(&self, strict_kex: bool) -> Negotiated {
        Negotiated {
            kex: self.kex.name(),
            host_key: self.host_key_name(),
            client_to_server: self.c2s.public(),
            server_to_client: self.s2c.public(),
            strict_kex,
            group_exchange: None,
        }
    }

    /// The size of group that is as strong as the keys to derive, bits: OpenSSH's estimate
    /// (`dh_estimate`), after NIST SP 800-57.
    pub(crate) fn group_bits(&self) -> u32 {
        match self.c2s.strength_bytes().max(self.s2c.strength_bytes()) * 8 {
            ..=112 => 2048,
            113..=128 => 3072,
            129..=192 => 7680,
            _ => 8192,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Compression;

    #[test]
    fn a_group_is_as_strong_as_cipher_and_mac() {
        let suite = |(cipher, mac): (&str, &str)| DirectionSuite {
            cipher: CipherAlgorithm::from_name(cipher).expect(cipher),
            mac: MacAlgorithm::from_name(mac),
            compression: Compression::None,
        };
        let bits = |c2s, s2c| {
            let (c2s, s2c) = (suite(c2s), suite(s2c));
            let kex = KexAlgorithm::DhGroupExchangeSha256;
            let host_key = SignatureAlgorithm::Ed25519;
            Agreement {
                kex,
                host_key: Some(host_key),
                c2s,
                s2c,
            }
            .group_bits()
        };
        let short = ("aes128-ctr", "umac-64-etm@openssh.com");
        // Those of OpenSSH's client.
        for (other, expected) in [
            (short, 3072),
            (("3des-cbc", "umac-64-etm@openssh.com"), 3072),
            (("aes128-gcm@openssh.com", ""), 3072),
            (("aes192-ctr", "umac-64@openssh.com"), 7680),
            (("aes128-ctr", "hmac-sha1"), 7680),
            (("aes128-ctr", "hmac-sha2-256"), 8192),
            (("aes256-gcm@openssh.com", ""), 8192),
            (("chacha20-poly1305@openssh.com", ""), 8192),
        ] {
            assert_eq!(bits(short, other), expected, "{other:?}");
            assert_eq!(bits(other, short), expected, "{other:?}");
        }
    }
}
