//! THE lists of algorithm names: the defaults of both sides, and the names that may be asked for.
//!
//! The order of a default is the order of preference. What each name does is in the tables of
//! `crypto` and `keys`; a name listed here is one that this build carries out (a test of `proto`
//! holds both together). The defaults of the server are shorter than OpenSSH's: no NIST-curve and
//! no finite-field exchange, which cost a cheap client nothing and the server much.

/// Key exchanges of the server, best first.
pub const SERVER_KEX: &[&str] = &[
    "mlkem768x25519-sha256",
    "sntrup761x25519-sha512",
    "sntrup761x25519-sha512@openssh.com",
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
];

/// Key exchanges of the client, best first; NIST curves and finite-field groups stand last.
pub const CLIENT_KEX: &[&str] = &[
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
];

/// Every key exchange that can be asked for by name.
pub const KNOWN_KEX: &[&str] = &[
    "mlkem768x25519-sha256",
    "mlkem768nistp256-sha256",
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
];

/// Whether a key exchange withstands a quantum computer, as far as anyone knows.
#[must_use]
pub fn is_post_quantum(kex: &str) -> bool {
    kex.starts_with("mlkem") || kex.starts_with("sntrup")
}

/// Ciphers where the CPU has AES instructions.
pub const CIPHERS_WITH_AES: &[&str] = &[
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
];

/// Ciphers where AES would run in portable code.
pub const CIPHERS_WITHOUT_AES: &[&str] = &[
    "chacha20-poly1305@openssh.com",
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
];

/// The ciphers of a machine, best first; `aes_hardware` says whether its CPU has AES instructions.
#[must_use]
pub const fn ciphers(aes_hardware: bool) -> &'static [&'static str] {
    if aes_hardware {
        CIPHERS_WITH_AES
    } else {
        CIPHERS_WITHOUT_AES
    }
}

/// MACs, best first.
pub const MACS: &[&str] = &[
    "umac-64-etm@openssh.com",
    "umac-128-etm@openssh.com",
    "hmac-sha2-256-etm@openssh.com",
    "hmac-sha2-512-etm@openssh.com",
    "umac-64@openssh.com",
    "umac-128@openssh.com",
    "hmac-sha2-256",
    "hmac-sha2-512",
];

/// Every MAC that can be asked for by name.
pub const KNOWN_MACS: &[&str] = &[
    "umac-64-etm@openssh.com",
    "umac-128-etm@openssh.com",
    "hmac-sha2-256-etm@openssh.com",
    "hmac-sha2-512-etm@openssh.com",
    "hmac-sha1-etm@openssh.com",
    "umac-64@openssh.com",
    "umac-128@openssh.com",
    "hmac-sha2-256",
    "hmac-sha2-512",
    "hmac-sha1",
];

/// Host key algorithms of the client, NIST curves last.
pub const CLIENT_HOST_KEYS: &[&str] = &[
    "ssh-ed25519-cert-v01@openssh.com",
    "sk-ssh-ed25519-cert-v01@openssh.com",
    "rsa-sha2-512-cert-v01@openssh.com",
    "rsa-sha2-256-cert-v01@openssh.com",
    "ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "ecdsa-sha2-nistp384-cert-v01@openssh.com",
    "ecdsa-sha2-nistp521-cert-v01@openssh.com",
    "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "ssh-ed25519",
    "sk-ssh-ed25519@openssh.com",
    "rsa-sha2-512",
    "rsa-sha2-256",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];

/// Signature algorithms of keys: what users may log in with, and what a server may offer of its host keys
/// (it offers those of the keys that it was given).
pub const SIGNATURES: &[&str] = &[
    "ssh-ed25519-cert-v01@openssh.com",
    "ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "ecdsa-sha2-nistp384-cert-v01@openssh.com",
    "ecdsa-sha2-nistp521-cert-v01@openssh.com",
    "sk-ssh-ed25519-cert-v01@openssh.com",
    "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "rsa-sha2-512-cert-v01@openssh.com",
    "rsa-sha2-256-cert-v01@openssh.com",
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "rsa-sha2-512",
    "rsa-sha2-256",
];

/// Signature algorithms of plain keys, the second half of [`SIGNATURES`]: what `server-sig-algs`
/// names (RFC 8308 §3.1).
pub const PLAIN_SIGNATURES: &[&str] = SIGNATURES.split_at(SIGNATURES.len() / 2).1;

/// Signature algorithms that a certificate authority may use.
pub const CA_SIGNATURES: &[&str] = PLAIN_SIGNATURES;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn plain_signatures_are_those_without_certificates() {
        let plain = SIGNATURES.iter().filter(|name| !name.contains("-cert-"));
        assert!(plain.eq(PLAIN_SIGNATURES));
    }

    #[test]
    fn hybrids_are_post_quantum() {
        let quantum: Vec<&str> = KNOWN_KEX
            .iter()
            .copied()
            .filter(|name| is_post_quantum(name))
            .collect();
        assert_eq!(quantum, KNOWN_KEX[..4]);
    }

    #[test]
    fn no_list_has_a_name_twice() {
        for list in [
            SERVER_KEX,
            CLIENT_KEX,
            KNOWN_KEX,
            CIPHERS_WITH_AES,
            CIPHERS_WITHOUT_AES,
            MACS,
            KNOWN_MACS,
            CLIENT_HOST_KEYS,
            SIGNATURES,
        ] {
            let mut names: Vec<&str> = list.to_vec();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), list.len(), "{list:?}");
        }
    }
}
