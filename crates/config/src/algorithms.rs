//! The default list of `wire::algorithms` for each keyword, and the `+ - ^` modifiers of
//! ssh_config(5).

use wire::algorithms::{
    CA_SIGNATURES, CLIENT_HOST_KEYS, CLIENT_KEX, GSS_KEX, KERBEROS_KEX_SUFFIX, KNOWN_CA_SIGNATURES,
    KNOWN_CIPHERS, KNOWN_KEX, KNOWN_MACS, KNOWN_SIGNATURES, MACS, SERVER_KEX, SIGNATURES, ciphers,
    is_old,
};

use crate::pattern;

/// The kinds of keys in the order in which a pattern expands, as in OpenSSH, without the part from
/// `@`; each is followed by its certificate.
const KINDS_OF_PATTERNS: [&str; 11] = [
    "ssh-ed25519",
    "sk-ssh-ed25519",
    "ssh-mldsa44-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256",
    "webauthn-sk-ecdsa-sha2-nistp256",
    "ssh-rsa",
    "rsa-sha2-256",
    "rsa-sha2-512",
];

/// The position of an algorithm in the expansion of a pattern; unknown kinds come last.
fn place_in_patterns(name: &str) -> (usize, bool) {
    let bare = name.split('@').next().unwrap_or_default();
    let bare = bare.strip_suffix("-v01").unwrap_or(bare);
    let kind = bare.strip_suffix("-cert");
    let place = KINDS_OF_PATTERNS
        .iter()
        .position(|known| *known == kind.unwrap_or(bare));
    (place.unwrap_or(KINDS_OF_PATTERNS.len()), kind.is_some())
}

/// The list that a keyword sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `KexAlgorithms`.
    Kex,
    /// `GSSAPIKexAlgorithms`, which takes no modifiers.
    GssKex,
    /// `Ciphers`.
    Cipher,
    /// `MACs`.
    Mac,
    /// `HostKeyAlgorithms`.
    HostKey,
    /// `PubkeyAcceptedAlgorithms` and `HostbasedAcceptedAlgorithms`.
    Signature,
    /// `CASignatureAlgorithms`.
    CaSignature,
}

/// The full names of the key exchanges that GSSAPIKexAlgorithms lists, with Kerberos.
#[must_use]
pub fn gss_key_exchanges(listed: &[String]) -> Vec<String> {
    let full = |name: &String| format!("{name}{KERBEROS_KEX_SUFFIX}");
    listed.iter().map(full).collect()
}

/// The key exchange methods of a server: `others`, then those of GSSAPIKexAlgorithms (`by_gss`) if GSSAPIKeyExchange is
/// on. The client's order decides (RFC 4253 §7.1). The server's first name only tells a client what to guess, and
/// most clients have no ticket; the distributions' OpenSSH puts the others last.
#[must_use]
pub fn key_exchanges(is_on: bool, by_gss: &[String], others: &[String]) -> Vec<String> {
    let mut names = others.to_vec();
    if is_on {
        names.extend(gss_key_exchanges(by_gss));
    }
    names
}

/// The side whose defaults apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// ssh_config.
    Client,
    /// sshd_config.
    Server,
}

impl Class {
    /// The default list. `aes_hardware`: the CPU has AES instructions.
    pub fn defaults(self, side: Side, aes_hardware: bool) -> &'static [&'static str] {
        match (self, side) {
            (Class::Kex, Side::Client) => CLIENT_KEX,
            (Class::Kex, Side::Server) => SERVER_KEX,
            (Class::GssKex, _) => GSS_KEX,
            (Class::Cipher, _) => ciphers(aes_hardware),
            (Class::Mac, _) => MACS,
            (Class::HostKey, Side::Client) => CLIENT_HOST_KEYS,
            (Class::HostKey, Side::Server) | (Class::Signature, _) => SIGNATURES,
            (Class::CaSignature, _) => CA_SIGNATURES,
        }
    }

    /// Every supported name.
    pub fn known(self) -> &'static [&'static str] {
        match self {
            Class::Kex => KNOWN_KEX,
            Class::GssKex => GSS_KEX,
            Class::Cipher => KNOWN_CIPHERS,
            Class::Mac => KNOWN_MACS,
            Class::HostKey | Class::Signature => KNOWN_SIGNATURES,
            Class::CaSignature => KNOWN_CA_SIGNATURES,
        }
    }

    /// Names that OpenSSH knows in such a list and this suite leaves out on purpose, as a build with
    /// the feature `strict` does all of [`is_old`]. Like unknown names they are accepted in a `-`
    /// list and, with other names beside them, ignored; the log message differs.
    pub fn left_out(self) -> &'static [&'static str] {
        match self {
            Class::Kex | Class::Mac => &[],
            Class::GssKex => &["gss-gex-sha1-", "gss-group1-sha1-", "gss-group14-sha1-"],
            Class::Cipher => &["rijndael-cbc@lysator.liu.se"],
            Class::HostKey | Class::Signature | Class::CaSignature => {
                &["ssh-dss", "ssh-dss-cert-v01@openssh.com"]
            }
        }
    }

    /// True if a name is one of [`is_old`] and of this class.
    fn is_old(self, name: &str) -> bool {
        let begins = match self {
            Class::Kex => "diffie-hellman-",
            Class::GssKex => return false,
            Class::Cipher => return is_old(name) && name.contains("-cbc"),
            Class::Mac => "hmac-",
            Class::HostKey | Class::Signature | Class::CaSignature => "ssh-",
        };
        is_old(name) && name.starts_with(begins)
    }

    /// OpenSSH's error text for a list of this class without a usable name.
    pub fn bad_list(self, spec: &str) -> String {
        match self {
            Class::Kex => format!("Bad SSH2 KexAlgorithms '{spec}'."),
            Class::GssKex => format!("Bad GSSAPI KexAlgorithms '{spec}'."),
            Class::Cipher => format!("Bad SSH2 cipher spec '{spec}'."),
            Class::Mac => format!("Bad SSH2 MAC spec '{spec}'."),
            _ => format!("Bad key types '{spec}'."),
        }
    }

    fn takes_patterns(self) -> bool {
        matches!(self, Class::HostKey | Class::Signature | Class::CaSignature)
    }

    /// Checks a specification without resolving it. Unknown names are ignored if others remain, so
    /// that a list written for a newer version still loads; [`Class::passed_over`] reports them.
    ///
    /// # Errors
    /// The error text if no name is supported, one is empty or negated (only `-` removes), or the
    /// list is empty.
    pub fn check(self, spec: &str) -> Result<(), String> {
        let (modifier, list) = split_modifier(spec);
        if self == Class::GssKex && modifier != Modifier::Replace {
            return Err(self.bad_list(spec));
        }
        if modifier == Modifier::Remove {
            return Ok(());
        }
        if list.is_empty() {
            return Err(self.bad_list(spec));
        }
        // `!` negates only in a list of names to remove.
        let malformed = |name: &str| name.is_empty() || name.starts_with('!');
        let usable = list.split(',').any(|name| self.finds(name));
        if list.split(',').any(malformed) || !(usable || modifier != Modifier::Replace) {
            return Err(self.bad_list(spec));
        }
        Ok(())
    }

    /// True if a name or pattern of a list matches a supported algorithm.
    fn finds(self, wanted: &str) -> bool {
        self.known()
            .iter()
            .any(|known| self.is_meant(known, wanted))
    }

    fn is_meant(self, known: &str, wanted: &str) -> bool {
        let wild = self.takes_patterns() && wanted.contains(['*', '?']);
        known == wanted || (wild && pattern::matches(known, wanted))
    }

    /// Resolves a checked specification: `+` appends to the default, `-` removes, `^` puts in
    /// front, and no modifier replaces. Patterns are expanded against the supported names. Each
    /// name appears once.
    pub fn resolve(self, spec: &str, side: Side, aes_hardware: bool) -> Vec<String> {
        let defaults = self.defaults(side, aes_hardware);
        let (modifier, list) = split_modifier(spec);
        match modifier {
            Modifier::Replace => unique(self.expand(list)),
            Modifier::Append => unique(defaults.iter().copied().chain(self.expand(list))),
            Modifier::Prepend => unique(
                self.expand(list)
                    .into_iter()
                    .chain(defaults.iter().copied()),
            ),
            Modifier::Remove => unique(defaults.iter().copied().filter(|name| {
                !pattern::match_list(name, list, pattern::Case::Sensitive).is_yes()
            })),
        }
    }

    /// The warning about ignored names of a specification, which this suite leaves out or does not
    /// know. Names to remove (`-name`) need no warning.
    pub fn passed_over(self, spec: &str) -> Option<String> {
        let (modifier, list) = split_modifier(spec);
        let names = list
            .split(',')
            .filter(|name| modifier != Modifier::Remove && !self.finds(name));
        let is_left_out = |name: &&str| {
            let mut left_out = self.left_out().iter();
            self.is_old(name) || left_out.any(|known| self.is_meant(known, name))
        };
        let (left_out, unknown): (Vec<&str>, Vec<&str>) = names.partition(is_left_out);
        let parts = [
            (unique(left_out), "left out of this suite"),
            (unique(unknown), "not known to this version"),
        ];
        let said: Vec<String> = parts
            .into_iter()
            .filter(|(names, _)| !names.is_empty())
            .map(|(names, why)| format!("{} {why}", escape::one_line(names.join(","))))
            .collect();
        (!said.is_empty()).then(|| format!("{}; ignored", said.join(", ")))
    }

    fn expand(self, list: &str) -> Vec<&'static str> {
        let mut known = self.known().to_vec();
        if self.takes_patterns() {
            known.sort_by_key(|name| place_in_patterns(name));
        }
        let mut out = Vec::new();
        for wanted in list.split(',') {
            out.extend(known.iter().filter(|name| self.is_meant(name, wanted)));
        }
        out
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Modifier {
    Replace,
    Append,
    Remove,
    Prepend,
}

/// A list may end in a comma, as lists joined by a script do; no name follows it.
fn split_modifier(spec: &str) -> (Modifier, &str) {
    let spec = spec.strip_suffix(',').unwrap_or(spec);
    if let Some(list) = spec.strip_prefix('+') {
        (Modifier::Append, list)
    } else if let Some(list) = spec.strip_prefix('-') {
        (Modifier::Remove, list)
    } else if let Some(list) = spec.strip_prefix('^') {
        (Modifier::Prepend, list)
    } else {
        (Modifier::Replace, spec)
    }
}

fn unique<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for name in names {
        if !out.iter().any(|have| have == name) {
            out.push(name.to_owned());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(class: Class, spec: &str) -> String {
        class.resolve(spec, Side::Server, true).join(",")
    }

    #[test]
    fn modifiers() {
        let base = SERVER_KEX.join(",");
        assert_eq!(
            resolved(Class::Kex, "+ecdh-sha2-nistp256,curve25519-sha256"),
            format!("{base},ecdh-sha2-nistp256")
        );
        assert_eq!(
            resolved(Class::Kex, "-*sntrup*,mlkem*"),
            "curve25519-sha256,curve25519-sha256@libssh.org"
        );
        assert_eq!(
            resolved(Class::Cipher, "^aes256-ctr"),
            "aes256-ctr,aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes128-ctr,aes192-ctr"
        );
        assert_eq!(
            resolved(Class::Signature, "ssh-ed25519*"),
            "ssh-ed25519,ssh-ed25519-cert-v01@openssh.com"
        );
        assert_eq!(
            resolved(Class::CaSignature, "rsa*,sk*,*384"),
            "rsa-sha2-256,rsa-sha2-512,sk-ssh-ed25519@openssh.com,sk-ecdsa-sha2-nistp256@openssh.com,\
             ecdsa-sha2-nistp384"
        );
        assert_eq!(resolved(Class::Mac, "hmac-sha1,hmac-sha1"), "hmac-sha1");
        assert_eq!(resolved(Class::Mac, "hmac-sha1,"), "hmac-sha1");
        assert_eq!(
            resolved(Class::Cipher, "-aes128-ctr,"),
            resolved(Class::Cipher, "-aes128-ctr")
        );
    }

    #[test]
    fn patterns_have_a_place_for_each_algorithm() {
        for name in SIGNATURES {
            assert!(
                place_in_patterns(name).0 < KINDS_OF_PATTERNS.len(),
                "{name}"
            );
        }
    }

    #[test]
    fn one_ecdsa_name_does_not_allow_the_others() {
        assert_eq!(
            resolved(Class::Signature, "ecdsa-sha2-nistp521"),
            "ecdsa-sha2-nistp521"
        );
    }

    #[test]
    fn a_list_fails_only_where_no_name_is_left() {
        assert!(Class::Cipher.check("aes128-xts").is_err());
        assert!(
            Class::Cipher
                .check("aes128-xts,rijndael-cbc@lysator.liu.se")
                .is_err()
        );
        assert!(Class::Cipher.check("aes128-xts,aes128-ctr").is_ok());
        assert!(Class::Cipher.check("+aes128-xts").is_ok());
        assert!(Class::Cipher.check("^aes128-xts").is_ok());
        assert_eq!(
            resolved(Class::Cipher, "aes128-xts,aes128-ctr"),
            "aes128-ctr"
        );
        assert!(Class::Cipher.check("").is_err());
        assert!(Class::Cipher.check("+").is_err());
        for list in [",", "aes128-ctr,,", "aes128-ctr,,aes256-ctr"] {
            assert!(Class::Cipher.check(list).is_err(), "{list}");
        }
        assert!(Class::Cipher.check("aes128-ctr,").is_ok());
        assert!(Class::HostKey.check("ssh-dss").is_err());
        assert!(Class::HostKey.check("+ssh-dss").is_ok());
        assert_eq!(
            resolved(Class::HostKey, "ssh-dss,ssh-ed25519"),
            "ssh-ed25519"
        );
        assert!(Class::Cipher.check("aes*").is_err());
        assert!(Class::Kex.check("-diffie*").is_ok());
        assert!(Class::Kex.check("-").is_ok());
        assert!(
            Class::GssKex
                .check("gss-gex-sha1-,gss-group16-sha512-")
                .is_ok()
        );
        for list in [
            "+gss-group16-sha512-",
            "-gss-*",
            "gss-gex-sha1-",
            "gss-*",
            "curve25519-sha256",
        ] {
            assert!(Class::GssKex.check(list).is_err(), "{list}");
        }
        assert!(Class::HostKey.check("no-such*").is_err());
        assert!(Class::HostKey.check("no-such*,ssh-ed25519").is_ok());
        for negated in ["!ssh-ed25519", "*,!ssh-ed25519", "+!ssh-*", "+!ssh-rsa"] {
            assert!(Class::HostKey.check(negated).is_err(), "{negated}");
            assert!(Class::CaSignature.check(negated).is_err(), "{negated}");
        }
    }

    #[test]
    fn names_that_are_passed_over_are_told_with_the_reason() {
        let told = |spec| Class::HostKey.passed_over(spec);
        assert_eq!(told("ssh-ed25519,rsa-*"), None);
        assert_eq!(told("-ssh-rsa,ssh-new"), None);
        assert_eq!(
            told("+ssh-dss,ssh-ed25519,ssh-new,ssh-dss-*,ssh-new").as_deref(),
            Some(
                "ssh-dss,ssh-dss-* left out of this suite, ssh-new not known to this version; ignored"
            )
        );
    }

    /// A name that another kind of list leaves out is an unknown one.
    #[test]
    fn each_list_leaves_out_names_of_its_own() {
        for (class, name, kept, other) in [
            (
                Class::GssKex,
                "gss-gex-sha1-",
                "gss-group16-sha512-",
                Class::Kex,
            ),
            (
                Class::Cipher,
                "rijndael-cbc@lysator.liu.se",
                "aes128-ctr",
                Class::Mac,
            ),
            (Class::HostKey, "ssh-dss", "ssh-ed25519", Class::Kex),
        ] {
            let told = |class: Class, kept: &str| class.passed_over(&format!("{name},{kept}"));
            assert_eq!(
                told(class, kept),
                Some(format!("{name} left out of this suite; ignored"))
            );
            assert_eq!(
                told(other, other.known()[0]),
                Some(format!("{name} not known to this version; ignored"))
            );
            assert!(class.check(name).is_err() && other.check(name).is_err());
        }
        for (class, name) in [
            (Class::Kex, "aes128-cbc"),
            (Class::Cipher, "hmac-md5"),
            (Class::Mac, "ssh-rsa"),
            (Class::GssKex, "diffie-hellman-group1-sha1"),
            (Class::Signature, "diffie-hellman-group1-sha1"),
        ] {
            let told = class.passed_over(name);
            let unknown = format!("{name} not known to this version; ignored");
            assert_eq!(told, Some(unknown), "{class:?}");
        }
    }

    /// A name of an old device works where it is written out, and a pattern of kinds of keys finds
    /// it, as in OpenSSH; no default has it, and `strict` knows none.
    #[test]
    fn old_algorithms_work_by_name_alone() {
        for (class, name) in [
            (Class::Kex, "diffie-hellman-group1-sha1"),
            (Class::Cipher, "3des-cbc"),
            (Class::Mac, "hmac-md5-96"),
            (Class::HostKey, "ssh-rsa"),
            (Class::Signature, "ssh-rsa-cert-v01@openssh.com"),
            (Class::CaSignature, "ssh-rsa"),
        ] {
            let has = |spec: &str| resolved(class, spec).split(',').any(|each| each == name);
            assert_eq!(has(&format!("+{name}")), !wire::algorithms::STRICT);
            assert_eq!(
                class.passed_over(name).is_some(),
                wire::algorithms::STRICT,
                "{name}"
            );
            for side in [Side::Client, Side::Server] {
                assert!(!class.defaults(side, true).contains(&name), "{name}");
            }
        }
    }

    #[test]
    fn every_default_is_known() {
        for class in [
            Class::Kex,
            Class::Cipher,
            Class::Mac,
            Class::HostKey,
            Class::Signature,
            Class::CaSignature,
        ] {
            for side in [Side::Client, Side::Server] {
                for aes in [true, false] {
                    for name in class.defaults(side, aes) {
                        assert!(class.known().contains(name), "{name}");
                    }
                }
            }
        }
    }

    #[test]
    fn aes_hardware_decides_which_cipher_stands_first() {
        assert_eq!(
            Class::Cipher.defaults(Side::Client, true)[0],
            "aes128-gcm@openssh.com"
        );
        assert_eq!(
            Class::Cipher.defaults(Side::Client, false)[0],
            "chacha20-poly1305@openssh.com"
        );
    }
}
