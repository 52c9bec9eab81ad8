//! The facts with which the lines of ssh_config are matched and expanded, and the tokens made of
//! them.

use crypto::hash::HashAlgorithm;

use crate::client::table::{Row, jumps};
use crate::environment::LocalUser;
use crate::tokens::{Purpose, Tokens};
use crate::value::{Value, Values};

/// The facts known at the start of a pass.
pub(crate) struct Knowledge {
    /// The host as typed.
    pub(crate) host_argument: String,
    /// In the second pass: the host name after the first.
    pub(crate) settled_host: Option<String>,
    pub(crate) local: LocalUser,
    pub(crate) local_hostname: String,
}

impl Knowledge {
    /// The host that Host lines match: as typed in the first pass, the final name in the second.
    pub(crate) fn host(&self) -> &str {
        self.settled_host.as_deref().unwrap_or(&self.host_argument)
    }

    /// The host to connect to, as far as known: `HostName` expanded, or the argument.
    ///
    /// # Errors
    /// If `HostName` contains a token other than %h and %%.
    pub(crate) fn hostname(&self, values: &Values) -> Result<String, String> {
        if let Some(settled) = &self.settled_host {
            return Ok(settled.clone());
        }
        let template = values.word(Row::HostName.index());
        if template.is_empty() {
            return Ok(self.host_argument.clone());
        }
        Tokens::new()
            .with('h', &self.host_argument)
            .expand(template, Purpose::Plain)
            .map_err(|error| format!("HostName {template}: {error}"))
    }

    /// The tokens of ssh_config(5) that are known before a connection.
    pub(crate) fn tokens(&self, values: &Values, hostname: &str) -> Tokens {
        let user = match values.word(Row::User.index()) {
            "" => self.local.name.as_str(),
            user => user,
        };
        let port = match values.at(Row::Port.index()) {
            Some(Value::Number(port)) => port.to_string(),
            _ => "22".to_owned(),
        };
        let alias = match values.word(Row::HostKeyAlias.index()) {
            "" => self.host_argument.as_str(),
            alias => alias,
        };
        let jump = jumps(values).last().map_or("", |hop| &hop.host);
        let short = self.local_hostname.split('.').next().unwrap_or_default();
        let hashed = format!("{}{hostname}{port}{user}{jump}", self.local_hostname);
        Tokens::new()
            .with('C', sha1_hex(&hashed))
            .with('L', short)
            .with('d', &self.local.home)
            .with('h', hostname)
            .with('i', self.local.uid.to_string())
            .with('j', jump)
            .with('k', alias)
            .with('l', &self.local_hostname)
            .with('n', &self.host_argument)
            .with('p', port)
            .with('r', user)
            .with('u', &self.local.name)
    }
}

/// The SHA-1 of `text` in hexadecimal digits, for the token `%C`, with which OpenSSH names sockets
/// and files. No security depends on it.
fn sha1_hex(text: &str) -> String {
    let digest = HashAlgorithm::Sha1.digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::sha1_hex;

    #[test]
    fn a_name_of_a_connection_is_the_published_digest() {
        assert_eq!(sha1_hex("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    }
}
