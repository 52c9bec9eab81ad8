//! The answers of `-Q`: the names that this build supports, one per line.

use keys::KeyType;
use wire::algorithms::{
    GSS_KEX, KNOWN_CA_SIGNATURES, KNOWN_CIPHERS, KNOWN_KEX, KNOWN_MACS, KNOWN_SIGNATURES,
};

use crate::log;
use crate::session::FAILURE;

/// The order in which OpenSSH 10.6 lists ciphers, MACs, key exchanges and the algorithms of keys.
/// Programs compare the lists as text. What it does not know comes last.
const ORDER: &[&str] = &[
    "3des-cbc",
    "aes128-cbc",
    "aes192-cbc",
    "aes256-cbc",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "hmac-sha1",
    "hmac-sha1-96",
    "hmac-sha2-256",
    "hmac-sha2-512",
    "hmac-md5",
    "hmac-md5-96",
    "umac-64@openssh.com",
    "umac-128@openssh.com",
    "hmac-sha1-etm@openssh.com",
    "hmac-sha1-96-etm@openssh.com",
    "hmac-sha2-256-etm@openssh.com",
    "hmac-sha2-512-etm@openssh.com",
    "hmac-md5-etm@openssh.com",
    "hmac-md5-96-etm@openssh.com",
    "umac-64-etm@openssh.com",
    "umac-128-etm@openssh.com",
    "diffie-hellman-group1-sha1",
    "diffie-hellman-group14-sha1",
    "diffie-hellman-group14-sha256",
    "diffie-hellman-group16-sha512",
    "diffie-hellman-group18-sha512",
    "diffie-hellman-group-exchange-sha1",
    "diffie-hellman-group-exchange-sha256",
    "ecdh-sha2-nistp256",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp521",
    "mlkem768nistp256-sha256",
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
    "sntrup761x25519-sha512",
    "sntrup761x25519-sha512@openssh.com",
    "mlkem768x25519-sha256",
    "ssh-ed25519",
    "ssh-ed25519-cert-v01@openssh.com",
    "sk-ssh-ed25519@openssh.com",
    "sk-ssh-ed25519-cert-v01@openssh.com",
    "ssh-mldsa44-ed25519",
    "ssh-mldsa44-ed25519-cert",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp384-cert-v01@openssh.com",
    "ecdsa-sha2-nistp521",
    "ecdsa-sha2-nistp521-cert-v01@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "webauthn-sk-ecdsa-sha2-nistp256@openssh.com",
    "webauthn-sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "ssh-rsa",
    "ssh-rsa-cert-v01@openssh.com",
    "rsa-sha2-256",
    "rsa-sha2-256-cert-v01@openssh.com",
    "rsa-sha2-512",
    "rsa-sha2-512-cert-v01@openssh.com",
];

/// A list and the names by which it can be queried.
struct Answer {
    names: &'static [&'static str],
    lines: fn() -> Vec<&'static str>,
}

const ANSWERS: &[Answer] = &[
    Answer {
        names: &["cipher", "Ciphers"],
        lines: || KNOWN_CIPHERS.to_vec(),
    },
    Answer {
        names: &["cipher-auth"],
        lines: || {
            let seals = |name: &&str| name.contains("gcm") || name.contains("poly1305");
            KNOWN_CIPHERS
                .iter()
                .copied()
                .filter(|name| seals(name))
                .collect()
        },
    },
    Answer {
        names: &["compression"],
        lines: || {
            vec![
                wire::names::COMPRESSION_NONE,
                wire::names::COMPRESSION_ZLIB_OPENSSH,
                wire::names::COMPRESSION_ZSTD,
            ]
        },
    },
    Answer {
        // With EnableHwCompression another engine may be in use, which `-v` and `~s` show.
        names: &["compression-engine"],
        lines: || vec!["internal"],
    },
    Answer {
        names: &["kex", "KexAlgorithms"],
        lines: || KNOWN_KEX.to_vec(),
    },
    Answer {
        names: &["kex-gss", "GSSAPIKexAlgorithms"],
        lines: || GSS_KEX.to_vec(),
    },
    Answer {
        names: &["mac", "MACs"],
        lines: || KNOWN_MACS.to_vec(),
    },
    Answer {
        names: &[
            "HostKeyAlgorithms",
            "PubkeyAcceptedAlgorithms",
            "PubkeyAcceptedKeyTypes",
            "HostbasedAcceptedAlgorithms",
            "HostbasedAcceptedKeyTypes",
            "HostbasedKeyTypes",
        ],
        lines: || KNOWN_SIGNATURES.to_vec(),
    },
    Answer {
        names: &["key-ca-sign", "CASignatureAlgorithms"],
        lines: || KNOWN_CA_SIGNATURES.to_vec(),
    },
    Answer {
        names: &["key"],
        lines: || {
            let plain = KeyType::ALL.into_iter().map(KeyType::name);
            plain
                .chain(KeyType::ALL.into_iter().map(KeyType::certificate_name))
                .collect()
        },
    },
    Answer {
        names: &["key-plain"],
        lines: || KeyType::ALL.into_iter().map(KeyType::name).collect(),
    },
    Answer {
        names: &["key-cert"],
        lines: || {
            KeyType::ALL
                .into_iter()
                .map(KeyType::certificate_name)
                .collect()
        },
    },
    Answer {
        names: &["key-sig"],
        lines: || KNOWN_SIGNATURES.to_vec(),
    },
    Answer {
        names: &["sig"],
        lines: || {
            KNOWN_SIGNATURES
                .iter()
                .copied()
                .filter(|name| !name.contains("-cert"))
                .collect()
        },
    },
    Answer {
        names: &["protocol-version"],
        lines: || vec!["2"],
    },
    Answer {
        names: &["help"],
        lines: || {
            ANSWERS
                .iter()
                .flat_map(|answer| answer.names.iter().copied())
                .collect()
        },
    },
];

/// The lines of one list; `None` if there is no such list.
#[must_use]
pub fn lines(what: &str) -> Option<Vec<&'static str>> {
    let asked = |answer: &&Answer| {
        answer
            .names
            .iter()
            .any(|name| name.eq_ignore_ascii_case(what))
    };
    let mut lines = ANSWERS.iter().find(asked).map(|answer| (answer.lines)())?;
    lines.sort_by_key(|line| {
        ORDER
            .iter()
            .position(|name| name == line)
            .unwrap_or(ORDER.len())
    });
    Some(lines)
}

/// Prints one list and returns the exit code.
#[must_use]
pub fn print(what: &str) -> i32 {
    let Some(lines) = lines(what) else {
        log::tell(&format!(
            "Unsupported query \"{}\"; ask for help\n",
            crate::text::one_line(what)
        ));
        return FAILURE;
    };
    let text = format!("{}\n", lines.join("\n"));
    match sys::io::write_all(sys::io::stdout(), text.as_bytes()) {
        Ok(()) => 0,
        Err(_) => FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_has_lines_and_keywords_work_in_any_case() {
        for answer in ANSWERS {
            for name in answer.names {
                assert!(!lines(name).unwrap().is_empty(), "{name}");
            }
        }
        assert_eq!(lines("CIPHERS"), lines("cipher"));
        assert_eq!(lines("nothing"), None);
        assert!(
            lines("key")
                .unwrap()
                .contains(&"ssh-ed25519-cert-v01@openssh.com")
        );
        assert!(!lines("sig").unwrap().contains(&"ssh-dss"));
        let host_keys = lines("HostKeyAlgorithms").unwrap();
        assert_eq!(lines("HostbasedKeyTypes").unwrap(), host_keys);
        assert_eq!(
            host_keys.get(..3).unwrap(),
            [
                "ssh-ed25519",
                "ssh-ed25519-cert-v01@openssh.com",
                "sk-ssh-ed25519@openssh.com"
            ]
        );
        assert!(host_keys.contains(&"webauthn-sk-ecdsa-sha2-nistp256@openssh.com"));
        assert_eq!(lines("cipher").unwrap().first(), Some(&"3des-cbc"));
        assert!(lines("cipher-auth").unwrap().len() < lines("cipher").unwrap().len());
    }
}
