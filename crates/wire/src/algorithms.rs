//! Lists of algorithm names: the defaults of both sides, and the names that a configuration may
//! select.
//!
//! Default lists are in order of preference. The tables of `crypto` and `keys` map names to
//! implementations; every name listed here is implemented in this build (a test of `proto` checks
//! this). Algorithms of old devices ([`is_old`]) are in no default list, and in a build with the
//! feature `strict` in no list at all. The server's defaults are shorter than OpenSSH's: they omit NIST-curve and finite-field
//! exchanges, which cost an attacking client nothing and the server much.

/// True in a build with the feature `strict`.
pub const STRICT: bool = cfg!(feature = "strict");

/// All supported key exchanges: the server's defaults first, then the NIST curves and finite-field groups
/// that the client adds, then those that only a configuration selects. Each part is in order of preference.
pub const KNOWN_KEX: &[&str] = &[
    "mlkem768x25519-sha256",
    "sntrup761x25519-sha512",
    "sntrup761x25519-sha512@openssh.com",
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp256",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp521",
    "diffie-hellman-group-exchange-sha256",
    "diffie-hellman-group16-sha512",
    "diffie-hellman-group18-sha512",
    "diffie-hellman-group14-sha256",
    "mlkem768nistp256-sha256",
    #[cfg(not(feature = "strict"))]
    "diffie-hellman-group14-sha1",
    #[cfg(not(feature = "strict"))]
    "diffie-hellman-group-exchange-sha1",
    #[cfg(not(feature = "strict"))]
    "diffie-hellman-group1-sha1",
];

/// Default key exchanges of the server, in order of preference.
pub const SERVER_KEX: &[&str] = KNOWN_KEX.split_at(5).0;

/// Default key exchanges of the client, in order of preference.
pub const CLIENT_KEX: &[&str] = KNOWN_KEX.split_at(12).0;

/// Key exchanges by GSS-API as GSSAPIKexAlgorithms lists them, without the mechanism at the end of the name, in
/// order of preference. They are in no other list.
pub const GSS_KEX: &[&str] = &[
    "gss-curve25519-sha256-",
    "gss-nistp256-sha256-",
    "gss-group14-sha256-",
    "gss-group16-sha512-",
];

/// The end of the name of a key exchange by GSS-API with Kerberos: the MD5 of the DER encoding of its OID in
/// Base64 (RFC 4462 §2).
pub const KERBEROS_KEX_SUFFIX: &str = "toWM5Slw5Ew8Mqkay+al2g==";

/// Returns true if the full name is that of a key exchange by GSS-API.
#[must_use]
pub fn is_gss_kex(kex: &str) -> bool {
    kex.starts_with("gss-")
}

/// Returns true if the key exchange is believed to resist quantum computers.
#[must_use]
pub fn is_post_quantum(kex: &str) -> bool {
    kex.starts_with("mlkem") || kex.starts_with("sntrup")
}

/// Returns true for a key exchange, cipher, MAC or signature algorithm that only old devices need,
/// and that is weak: SHA-1 where it is not keyed, CBC, MD5, and MACs of 96 bits.
#[must_use]
pub fn is_old(name: &str) -> bool {
    let bare = name.split('@').next().unwrap_or_default();
    let bare = bare.strip_suffix("-etm").unwrap_or(bare);
    matches!(bare, "ssh-rsa" | "ssh-rsa-cert-v01")
        || bare.starts_with("hmac-md5")
        || bare.ends_with("-96")
        || bare.ends_with("-cbc")
        || (bare.starts_with("diffie-hellman-") && bare.ends_with("-sha1"))
}

/// All supported ciphers: the defaults first, then those that only a configuration selects. Each part is in
/// order of preference for a CPU with AES instructions.
pub const KNOWN_CIPHERS: &[&str] = &[
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
    #[cfg(not(feature = "strict"))]
    "aes128-cbc",
    #[cfg(not(feature = "strict"))]
    "aes192-cbc",
    #[cfg(not(feature = "strict"))]
    "aes256-cbc",
    #[cfg(not(feature = "strict"))]
    "3des-cbc",
];

/// Default ciphers for a CPU with AES instructions, in order of preference.
pub const CIPHERS_WITH_AES: &[&str] = KNOWN_CIPHERS.split_at(6).0;

/// Default ciphers for a CPU without AES instructions, in order of preference: the same names as in
/// [`CIPHERS_WITH_AES`].
pub const CIPHERS_WITHOUT_AES: &[&str] = &[
    "chacha20-poly1305@openssh.com",
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
];

/// Default ciphers in order of preference; `aes_hardware` is true if the CPU has AES instructions.
#[must_use]
pub const fn ciphers(aes_hardware: bool) -> &'static [&'static str] {
    if aes_hardware {
        CIPHERS_WITH_AES
    } else {
        CIPHERS_WITHOUT_AES
    }
}

/// All supported MACs: the defaults first, then those that only a configuration selects. Each part is in
/// order of preference.
pub const KNOWN_MACS: &[&str] = &[
    "umac-64-etm@openssh.com",
    "umac-128-etm@openssh.com",
    "hmac-sha2-256-etm@openssh.com",
    "hmac-sha2-512-etm@openssh.com",
    "umac-64@openssh.com",
    "umac-128@openssh.com",
    "hmac-sha2-256",
    "hmac-sha2-512",
    "hmac-sha1-etm@openssh.com",
    "hmac-sha1",
    #[cfg(not(feature = "strict"))]
    "hmac-sha1-96-etm@openssh.com",
    #[cfg(not(feature = "strict"))]
    "hmac-md5-etm@openssh.com",
    #[cfg(not(feature = "strict"))]
    "hmac-md5-96-etm@openssh.com",
    #[cfg(not(feature = "strict"))]
    "hmac-sha1-96",
    #[cfg(not(feature = "strict"))]
    "hmac-md5",
    #[cfg(not(feature = "strict"))]
    "hmac-md5-96",
];

/// Default MACs, in order of preference.
pub const MACS: &[&str] = KNOWN_MACS.split_at(8).0;

/// Default host key algorithms of the client, in order of preference: certificates before plain
/// keys, in each group NIST curves and then post-quantum keys last. Without those of browsers, which
/// sign no key exchange.
pub const CLIENT_HOST_KEYS: &[&str] = &[
    "ssh-ed25519-cert-v01@openssh.com",
    "sk-ssh-ed25519-cert-v01@openssh.com",
    "rsa-sha2-512-cert-v01@openssh.com",
    "rsa-sha2-256-cert-v01@openssh.com",
    "ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "ecdsa-sha2-nistp384-cert-v01@openssh.com",
    "ecdsa-sha2-nistp521-cert-v01@openssh.com",
    "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "ssh-mldsa44-ed25519-cert",
    "ssh-ed25519",
    "sk-ssh-ed25519@openssh.com",
    "rsa-sha2-512",
    "rsa-sha2-256",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "ssh-mldsa44-ed25519",
];

/// Signature algorithms that users may log in with, and that a server may offer for its host keys
/// (it offers those that its host keys support).
pub const SIGNATURES: &[&str] = &[
    "ssh-ed25519-cert-v01@openssh.com",
    "ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "ecdsa-sha2-nistp384-cert-v01@openssh.com",
    "ecdsa-sha2-nistp521-cert-v01@openssh.com",
    "sk-ssh-ed25519-cert-v01@openssh.com",
    "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "webauthn-sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "rsa-sha2-512-cert-v01@openssh.com",
    "rsa-sha2-256-cert-v01@openssh.com",
    "ssh-mldsa44-ed25519-cert",
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "webauthn-sk-ecdsa-sha2-nistp256@openssh.com",
    "rsa-sha2-512",
    "rsa-sha2-256",
    "ssh-mldsa44-ed25519",
];

/// All supported signature algorithms for host keys and users: [`SIGNATURES`], then those that only a
/// configuration selects.
#[cfg(not(feature = "strict"))]
pub const KNOWN_SIGNATURES: &[&str] = &{
    let mut names = [""; SIGNATURES.len() + OLD_SIGNATURES.len()];
    let (defaults, old) = names.split_at_mut(SIGNATURES.len());
    defaults.copy_from_slice(SIGNATURES);
    old.copy_from_slice(OLD_SIGNATURES);
    names
};

/// All supported signature algorithms for host keys and users.
#[cfg(feature = "strict")]
pub const KNOWN_SIGNATURES: &[&str] = SIGNATURES;

/// Signatures with SHA-1, of certificates and of plain keys.
#[cfg(not(feature = "strict"))]
const OLD_SIGNATURES: &[&str] = &["ssh-rsa-cert-v01@openssh.com", "ssh-rsa"];

/// Signature algorithms of keys without certificates, the second half of [`SIGNATURES`]: the
/// contents of `server-sig-algs` (RFC 8308 §3.1).
pub const PLAIN_SIGNATURES: &[&str] = SIGNATURES.split_at(SIGNATURES.len() / 2).1;

/// All signature algorithms that a certificate authority may use.
#[cfg(not(feature = "strict"))]
pub const KNOWN_CA_SIGNATURES: &[&str] = &{
    let mut names = ["ssh-rsa"; PLAIN_SIGNATURES.len() + 1];
    let (plain, _) = names.split_at_mut(PLAIN_SIGNATURES.len());
    plain.copy_from_slice(PLAIN_SIGNATURES);
    names
};

/// All signature algorithms that a certificate authority may use.
#[cfg(feature = "strict")]
pub const KNOWN_CA_SIGNATURES: &[&str] = PLAIN_SIGNATURES;

/// Default signature algorithms of certificate authorities: as in OpenSSH 10.6, all but the last of
/// [`PLAIN_SIGNATURES`], `ssh-mldsa44-ed25519`.
pub const CA_SIGNATURES: &[&str] = PLAIN_SIGNATURES.split_at(PLAIN_SIGNATURES.len() - 1).0;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn plain_signatures_are_those_without_certificates() {
        let plain = SIGNATURES.iter().filter(|name| !name.contains("-cert"));
        assert!(plain.eq(PLAIN_SIGNATURES));
        assert_eq!(CA_SIGNATURES.last(), Some(&"rsa-sha2-256"));
    }

    #[test]
    fn hybrids_are_post_quantum() {
        let quantum: Vec<&str> = KNOWN_KEX
            .iter()
            .copied()
            .filter(|name| is_post_quantum(name))
            .collect();
        assert_eq!(quantum[..3], KNOWN_KEX[..3]);
        assert_eq!(quantum[3..], ["mlkem768nistp256-sha256"]);
    }

    #[test]
    fn the_defaults_end_where_they_are_meant_to() {
        assert_eq!(SERVER_KEX.last(), Some(&"curve25519-sha256@libssh.org"));
        assert_eq!(CLIENT_KEX.last(), Some(&"diffie-hellman-group14-sha256"));
        assert_eq!(CIPHERS_WITH_AES.last(), Some(&"aes256-ctr"));
        assert_eq!(MACS.last(), Some(&"hmac-sha2-512"));
    }

    #[test]
    fn no_default_is_old() {
        for list in [
            CLIENT_KEX,
            SERVER_KEX,
            CIPHERS_WITH_AES,
            CIPHERS_WITHOUT_AES,
            MACS,
            CLIENT_HOST_KEYS,
            SIGNATURES,
            CA_SIGNATURES,
        ] {
            assert!(!list.iter().any(|name| is_old(name)), "{list:?}");
        }
    }

    #[test]
    fn the_feature_strict_leaves_old_algorithms_out() {
        let lists = [
            KNOWN_KEX,
            KNOWN_CIPHERS,
            KNOWN_MACS,
            KNOWN_SIGNATURES,
            KNOWN_CA_SIGNATURES,
        ];
        let old = |list: &[&str]| list.iter().filter(|name| is_old(name)).count();
        let expected = if cfg!(feature = "strict") {
            [0; 5]
        } else {
            [3, 4, 6, 2, 1]
        };
        assert_eq!(lists.map(old), expected);
    }

    #[test]
    fn the_cpu_decides_over_the_order_of_ciphers_alone() {
        let sorted = |list: &[&'static str]| {
            let mut names = list.to_vec();
            names.sort_unstable();
            names
        };
        assert_eq!(sorted(CIPHERS_WITH_AES), sorted(CIPHERS_WITHOUT_AES));
    }

    #[test]
    fn no_list_has_a_name_twice() {
        for list in [
            SERVER_KEX,
            CLIENT_KEX,
            KNOWN_KEX,
            KNOWN_CIPHERS,
            CIPHERS_WITHOUT_AES,
            KNOWN_MACS,
            CLIENT_HOST_KEYS,
            KNOWN_SIGNATURES,
            KNOWN_CA_SIGNATURES,
            SIGNATURES,
            CA_SIGNATURES,
        ] {
            let mut names: Vec<&str> = list.to_vec();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), list.len(), "{list:?}");
        }
    }
}
