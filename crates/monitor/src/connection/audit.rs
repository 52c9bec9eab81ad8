//! Records of logins for the system's audit trail, in the words that ausearch(8) and aureport(8)
//! read (libaudit's audit_log_acct_message). OpenSSH records failed attempts and terminals alike
//! (audit-linux.c); records of keys are those of Fedora's sshd. PAM's modules record what they do
//! themselves.
//!
//! Only root writes records. Failures are ignored: a system without auditing has no trail.

use sys::audit::{AuditRecord, value};

use super::chains::ChainMethod;
use super::user::Addresses;

/// Name of a user who does not exist, so that no password that somebody typed as a name is recorded;
/// OpenSSH's words.
const INVALID_USER: &str = "(invalid user)";

/// Whom a record is about.
#[derive(Debug, Clone, Copy)]
enum Subject<'n> {
    /// A name that was tried; `None` for one that does not exist.
    Name(Option<&'n str>),
    Uid(u32),
}

/// An attempt to prove an identity.
#[derive(Debug)]
pub(crate) struct Attempt<'n> {
    pub(crate) method: ChainMethod,
    /// The user's name; `None` if there is no such user.
    pub(crate) name: Option<&'n str>,
    /// The log's description of the key, or empty.
    pub(crate) key: &'n str,
    /// True if PAM's modules have checked the proof, and recorded that.
    pub(crate) by_pam: bool,
    pub(crate) succeeded: bool,
}

/// Records an attempt: the key that was used, the proof, and a failed login.
pub(crate) fn attempt(attempt: &Attempt<'_>, addresses: &Addresses) {
    if sys::process::is_root() {
        let _ = sys::audit::send(&records_of(attempt, addresses));
    }
}

fn records_of(attempt: &Attempt<'_>, addresses: &Addresses) -> Vec<(AuditRecord, String)> {
    use AuditRecord::{Authentication, KeyUse, Login};
    // Only a session's records name the host.
    let line = AuditLine::new(addresses, None, attempt.succeeded);
    let subject = Some(Subject::Name(attempt.name));
    let mut records = Vec::new();
    if attempt.succeeded
        && let Some(fingerprint) = fingerprint(attempt.key)
    {
        let words = format!("op=negotiate kind=auth-key fp={fingerprint}");
        records.push((KeyUse, line.text(&words, None, "?")));
    }
    if !attempt.by_pam {
        let words = match attempt.method {
            ChainMethod::Publickey => "op=pubkey_auth grantors=auth-key",
            ChainMethod::Hostbased => "op=hostbased_auth",
            ChainMethod::Password => "op=password_auth",
            ChainMethod::GssapiWithMic | ChainMethod::GssapiKeyex => "op=gssapi_auth",
            ChainMethod::None | ChainMethod::KeyboardInteractive => "op=authentication",
        };
        records.push((Authentication, line.text(words, subject, "ssh")));
    }
    if !attempt.succeeded {
        records.push((Login, line.text("op=login", subject, "sshd")));
    }
    records
}

/// Records the beginning or the end of a session of the user.
pub(crate) fn session(record: AuditRecord, uid: u32, addresses: &Addresses) {
    if sys::process::is_root() {
        let line = AuditLine::new(addresses, Some(&addresses.host), true);
        let text = line.text("op=login", Some(Subject::Uid(uid)), "ssh");
        let _ = sys::audit::send(&[(record, text)]);
    }
}

/// The fingerprint in the log's description of a key.
fn fingerprint(key: &str) -> Option<&str> {
    let mut words = key.split(' ');
    words.find(|word| word.starts_with("SHA256:") || word.starts_with("MD5:"))
}

/// What the records of one event share.
struct AuditLine {
    program: String,
    host: String,
    address: String,
    result: &'static str,
}

impl AuditLine {
    fn new(addresses: &Addresses, host: Option<&str>, succeeded: bool) -> Self {
        let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
        // A name of the DNS is foreign text; a plain one needs no quotes.
        let quoted = value(host.unwrap_or_default());
        let plain = quoted
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        let host = plain.filter(|name| !name.is_empty()).unwrap_or("?");
        let address = addresses.remote_text();
        let is_address = address.parse::<std::net::IpAddr>().is_ok();
        Self {
            program: value(&program.to_string_lossy()),
            host: host.to_owned(),
            address: if is_address { address } else { "?".to_owned() },
            result: if succeeded { "success" } else { "failed" },
        }
    }

    fn text(&self, words: &str, subject: Option<Subject<'_>>, terminal: &str) -> String {
        let subject = match subject {
            Some(Subject::Name(name)) => format!(" acct={}", value(name.unwrap_or(INVALID_USER))),
            Some(Subject::Uid(uid)) => format!(" id={uid}"),
            None => String::new(),
        };
        format!(
            "{words}{subject} exe={} hostname={} addr={} terminal={terminal} res={}",
            self.program, self.host, self.address, self.result
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses() -> Addresses {
        Addresses {
            remote: "192.0.2.7".parse().unwrap(),
            remote_port: 4711,
            local: "192.0.2.1".parse().unwrap(),
            local_port: 22,
            rdomain: String::new(),
            host: "peer.example".to_owned(),
        }
    }

    #[test]
    fn names_that_are_typed_cannot_forge_words() {
        let named = addresses();
        let line = AuditLine::new(&named, Some(&named.host), false);
        let tried = |name| line.text("op=login", Some(Subject::Name(name)), "sshd");
        let line = tried(Some("ada"));
        assert!(line.starts_with("op=login acct=\"ada\" exe=\"/"), "{line}");
        assert!(line.ends_with(" hostname=peer.example addr=192.0.2.7 terminal=sshd res=failed"));
        let line = tried(Some("x\" res=success"));
        assert!(
            line.starts_with("op=login acct=7822207265733D73756363657373 "),
            "{line}"
        );
        // "(invalid user)"
        assert!(tried(None).starts_with("op=login acct=28696E76616C6964207573657229 "));
        let mut odd = addresses();
        odd.host = "a b".to_owned();
        let line = AuditLine::new(&odd, Some(&odd.host), true);
        let text = line.text("op=login", Some(Subject::Uid(7)), "ssh");
        assert!(text.starts_with("op=login id=7 exe=\"/"), "{text}");
        assert!(text.contains(" hostname=? "), "{text}");
    }

    #[test]
    fn what_pam_has_checked_is_left_to_its_records() {
        let attempt = |by_pam, succeeded| Attempt {
            method: ChainMethod::Password,
            name: Some("ada"),
            key: "",
            by_pam,
            succeeded,
        };
        let kinds = |attempt: Attempt<'_>| -> Vec<AuditRecord> {
            let records = records_of(&attempt, &addresses());
            assert!(
                records
                    .iter()
                    .all(|(_, text)| text.contains(" hostname=? "))
            );
            records.into_iter().map(|(record, _)| record).collect()
        };
        use AuditRecord::{Authentication, Login};
        assert_eq!(kinds(attempt(false, true)), [Authentication]);
        assert_eq!(kinds(attempt(false, false)), [Authentication, Login]);
        assert_eq!(kinds(attempt(true, true)), []);
        assert_eq!(kinds(attempt(true, false)), [Login]);
    }

    #[test]
    fn a_key_is_named_by_its_fingerprint() {
        assert_eq!(fingerprint("ED25519 SHA256:abc"), Some("SHA256:abc"));
        let certificate = "ED25519-CERT SHA256:abc ID x (serial 0) CA ED25519 SHA256:def";
        assert_eq!(fingerprint(certificate), Some("SHA256:abc"));
        assert_eq!(fingerprint(""), None);
    }
}
