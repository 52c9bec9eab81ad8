//! The answers of `-Q`: the names that this build supports, one per line.

use keys::KeyType;
use wire::algorithms::{
    CLIENT_HOST_KEYS, GSS_KEX, KNOWN_CA_SIGNATURES, KNOWN_CIPHERS, KNOWN_KEX, KNOWN_MACS,
    KNOWN_SIGNATURES,
};

use crate::log;
use crate::session::FAILURE;

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
        names: &["HostKeyAlgorithms"],
        lines: || CLIENT_HOST_KEYS.to_vec(),
    },
    Answer {
        names: &[
            "PubkeyAcceptedAlgorithms",
            "PubkeyAcceptedKeyTypes",
            "HostbasedAcceptedAlgorithms",
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
    ANSWERS.iter().find(asked).map(|answer| (answer.lines)())
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
        assert!(lines("cipher-auth").unwrap().len() < lines("cipher").unwrap().len());
    }
}
