//! Which algorithms the user named: by SSH's names, by those of `openssl speed`, or by a part
//! of either.

/// The names on the command line; none means every algorithm.
pub(super) struct Selection(Vec<String>);

impl Selection {
    pub(super) fn new(names: &[String]) -> Self {
        let whole = |name: &String| match plain(name).as_str() {
            // Parts of others' names that mean one thing alone.
            "dh" => "ffdh".to_owned(),
            "x25519" => "ecdhx25519".to_owned(),
            other => other.to_owned(),
        };
        Self(names.iter().map(whole).collect())
    }

    /// Whether the row of this name was asked for.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.wants_any(&[name])
    }

    /// Whether the row that goes by all these names was asked for.
    pub(super) fn wants_any(&self, names: &[&str]) -> bool {
        let asked = |name: &&str| {
            let name = plain(name);
            self.0.iter().any(|part| name.contains(part.as_str()))
        };
        self.0.is_empty() || names.iter().any(asked)
    }
}

/// A name without what the spellings of SSH and OpenSSL differ in: aes256-ctr and aes-256-ctr,
/// hmac-sha2-256 and `hmac(sha256)`, ecdh-sha2-nistp256 and ecdhp256.
fn plain(name: &str) -> String {
    name.to_ascii_lowercase()
        .replace("@openssh.com", "")
        .replace("sha2-nist", "")
        .replace("nistp", "p")
        .replace("sha2-", "sha")
        .replace(['-', '_', '(', ')'], "")
}
