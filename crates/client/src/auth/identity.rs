//! A key of the user: the public half that is sent to the server, and how to sign with it.
//!
//! The module `collect` finds the keys and orders them.

mod collect;
mod found;
mod in_token;

use std::fmt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use agent::{AddRequest, AgentClient, Constraints};
use config::client::{ClientOptions, UserKeyOptions, YesNoAsk};
use keys::private_file::{self, HeldKey, PrivateFileError, PrivateKeyFile};
use keys::{KeyType, PresentedKey, PrivateKey, Signature, SignatureAlgorithm};
use proto::Connection;
use zeroize::Zeroizing;

pub use collect::Keys;
pub(crate) use collect::agent_socket;
use found::PrivateFile;

use super::security_key;
use crate::interaction::{Interaction, Question};
use crate::log::{debug1, debug2, error, info};
use crate::text::one_line;

/// A private key file as it was read, wiped when dropped.
type FileBytes = Zeroizing<Vec<u8>>;

/// Where the private key is.
#[derive(Clone)]
enum Source {
    /// The agent holds it, under the blob of the plain key or of the certificate.
    Agent {
        /// The blob that the agent knows.
        blob: Vec<u8>,
        /// True if the login may begin with this key: the user named it, or it is the only one.
        is_first: bool,
    },
    /// A private key file.
    File {
        /// The decrypted key; `None` until it is opened.
        key: Option<PrivateKey>,
        /// The file, read for its public half.
        private: PrivateFile,
        /// The file's comment, once the key is opened.
        comment: String,
    },
    /// A security key that the caller of the embedded client names.
    SecurityKey {
        /// The key with its handle.
        key: PrivateKey,
        /// How the token is reached.
        provider: fido::Provider,
    },
    /// A token of PKCS11Provider.
    Token {
        /// The library with its tokens.
        library: in_token::SharedToken,
        /// Place of the key in its list.
        key: usize,
    },
}

/// One key to try.
#[derive(Clone)]
pub struct Identity {
    presented: PresentedKey,
    blob: Vec<u8>,
    /// The file, or the agent's comment.
    name: String,
    /// The file with the secret.
    path: Option<PathBuf>,
    explicit: bool,
    source: Source,
}

/// As OpenSSH names a key in its messages and for `-Z`: `NAME TYPE FINGERPRINT [explicit] [agent]`.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // OpenSSH names the agent only if it holds what is presented.
        let agent = matches!(&self.source, Source::Agent { blob, .. } if *blob == self.blob);
        write!(
            f,
            "{} {} {}{}{}",
            one_line(&self.name),
            self.presented.label(),
            keys::fingerprint::sha256(&self.presented.key().blob()),
            if self.explicit { " explicit" } else { "" },
            if agent { " agent" } else { "" }
        )
    }
}

impl Identity {
    /// The blob of the key or certificate that is sent to the server.
    #[must_use]
    pub fn blob(&self) -> &[u8] {
        &self.blob
    }

    /// True if a signature needs no passphrase, PIN or touch. An agent may still have the user confirm it.
    #[must_use]
    pub fn signs_alone(&self) -> bool {
        match &self.source {
            Source::File { key, .. } => key.as_ref().is_some_and(PrivateKey::can_sign),
            Source::Agent { .. } => !self.key_type().is_security_key(),
            Source::Token { .. } | Source::SecurityKey { .. } => false,
        }
    }

    /// True if a login begins with this key, not with the question which methods the server has.
    pub(super) fn begins(&self) -> bool {
        let is_first = !matches!(
            self.source,
            Source::Agent {
                is_first: false,
                ..
            }
        );
        is_first && self.signs_alone()
    }

    /// True if an agent signs.
    pub(super) fn is_in_agent(&self) -> bool {
        matches!(self.source, Source::Agent { .. })
    }

    /// The algorithms of a proof with this key by `algorithm` that only old devices need.
    pub(super) fn old_algorithms(&self, algorithm: SignatureAlgorithm) -> Vec<&'static str> {
        self.presented.old_algorithms(algorithm)
    }

    fn key_type(&self) -> KeyType {
        self.presented.key().key_type()
    }

    /// The algorithm to sign with: the strongest that the key supports, `accepted` permits and the
    /// server accepts; `None` if there is none, or if an RSA key has fewer than `min_rsa_bits`. A
    /// server's list counts for RSA only (RFC 8332 §3.3); other keys are tried whatever it holds.
    /// Without a list an RSA key signs with SHA-256, which every server that supports SHA-2
    /// accepts.
    #[must_use]
    pub fn algorithm(
        &self,
        accepted: &[String],
        server: Option<&[String]>,
        min_rsa_bits: usize,
    ) -> Option<SignatureAlgorithm> {
        let key = self.presented.key();
        let is_rsa = self.key_type() == KeyType::Rsa;
        if is_rsa && key.bits() < min_rsa_bits {
            return None;
        }
        let can = match self.presented.certificate() {
            Some(_) => self.key_type().certificate_algorithms(),
            None => self.key_type().algorithms(),
        };
        let mut wanted = can
            .iter()
            .copied()
            .filter(|each| accepted.iter().any(|name| name == each.name()));
        if !is_rsa {
            return wanted.next();
        }
        match server {
            Some(list) => wanted.find(|each| {
                list.iter()
                    .any(|name| name == each.name() || name == each.plain().name())
            }),
            None => wanted.next_back(),
        }
    }

    /// Opens the private key if it needs no passphrase.
    pub fn prepare(&mut self) {
        if let Source::File {
            key: slot @ None,
            private: PrivateFile::Read(bytes),
            comment,
        } = &mut self.source
            && let Ok(file) = private_file::parse(bytes, None)
        {
            *slot = Some(file.key);
            *comment = file.comment;
        }
    }

    /// Signs `data`. Asks for the passphrase of a file that needs one, as often as the options permit,
    /// and for the PIN of a security key that needs one.
    ///
    /// # Errors
    /// Why there is no signature; `None` if the reason has been logged.
    pub fn sign(
        &mut self,
        algorithm: SignatureAlgorithm,
        data: &[u8],
        agent: Option<&mut Agent>,
        options: &ClientOptions,
        interaction: &mut dyn Interaction,
    ) -> Result<Vec<u8>, Option<String>> {
        // The name of a certificate differs from that of the private key file.
        let file = self
            .path
            .as_ref()
            .map_or_else(|| self.name.clone(), |path| path.display().to_string());
        match &mut self.source {
            Source::Agent { blob, .. } => {
                let agent = agent.ok_or(None)?;
                let name = one_line(&self.name);
                let label = match *blob == self.blob {
                    true => self.presented.label(),
                    false => self.presented.key().key_type().label().to_owned(),
                };
                match agent.client.sign_with(blob, data, algorithm.plain()) {
                    Ok(signature) if names_algorithm(&signature, algorithm) => Ok(signature),
                    Ok(_) => Err(Some(format!("agent signed {name} with another algorithm"))),
                    Err(reason) => Err(Some(format!(
                        "sign_and_send_pubkey: signing failed for {label} \"{name}\" from agent: {reason}"
                    ))),
                }
            }
            Source::SecurityKey { key, provider } => {
                security_key::sign_quietly(provider, key, data, interaction).map_err(Some)
            }
            Source::Token { library, key } => {
                in_token::sign(library, *key, algorithm, data, interaction)
            }
            Source::File { key: Some(key), .. } => {
                sign_with(key, algorithm, data, &file, options, interaction)
            }
            Source::File {
                key: slot @ None,
                private,
                comment,
            } => {
                let Some(bytes) = private.bytes() else {
                    private.complain(&file);
                    return Err(None);
                };
                let prompts = options.authentication.number_of_password_prompts;
                let opened = unlock(&file, bytes, prompts, interaction).ok_or(None)?;
                *comment = opened.comment;
                let key = slot.insert(opened.key);
                sign_with(key, algorithm, data, &file, options, interaction)
            }
        }
    }
}

impl Identity {
    /// Takes the secret from the key's file from now on, if the agent does not list the key to the session
    /// that its connection is bound to: it is restricted to other destinations. False if it is listed, so that the
    /// agent's refusal is final (the user may have declined), or without such a file.
    pub(super) fn leaves_agent(&mut self, agent: &mut Agent) -> bool {
        let (Source::Agent { blob, .. }, Some(path)) = (&self.source, &self.path) else {
            return false;
        };
        let Ok(listed) = agent.client.list() else {
            return false;
        };
        if listed.iter().any(|held| held.blob == *blob) {
            return false;
        }
        let Some(private) = collect::private_of(path) else {
            return false;
        };
        self.source = Source::File {
            key: None,
            private,
            comment: String::new(),
        };
        true
    }

    /// Adds the private key to the agent, if it was read from a file, as `AddKeysToAgent` says.
    pub(super) fn add_to_agent(&self, user_keys: &UserKeyOptions) {
        let wanted = user_keys.add_to_agent;
        let Source::File {
            key: Some(key),
            comment,
            ..
        } = &self.source
        else {
            return;
        };
        if wanted.adds == YesNoAsk::No {
            return;
        }
        let provider = match key.security_key() {
            Some(_) => match security_key::provider(user_keys) {
                Ok(provider) => Some(provider.name().to_owned()),
                Err(_) => return,
            },
            None => None,
        };
        let stream = collect::agent_socket(user_keys).map(UnixStream::connect);
        let Some(Ok(stream)) = stream else {
            debug1!("no agent to add the key to");
            return;
        };
        let file = self.path.as_ref().map(|path| path.display().to_string());
        let file = one_line(file.as_ref().unwrap_or(&self.name));
        let comment = match comment.as_str() {
            "" => file.as_str(),
            comment => comment,
        };
        if wanted.adds == YesNoAsk::Ask {
            let question = format!("Add key {file} ({}) to agent?", one_line(comment));
            if !sys::terminal::askpass::confirms(&question) {
                debug1!("the user does not add {file} to the agent");
                return;
            }
        }
        let request = AddRequest {
            key: HeldKey {
                key: key.clone(),
                certificate: None,
            },
            comment: comment.to_owned(),
            constraints: Constraints {
                lifetime: wanted.lifetime_s,
                confirm: wanted.confirm,
                provider,
                ..Constraints::default()
            },
        };
        match AgentClient::new(stream).add(&request) {
            Ok(()) => debug1!("identity added to agent: {file}"),
            Err(reason) => debug1!("could not add identity to agent: {file}: {reason}"),
        }
    }
}

fn names_algorithm(signature: &[u8], algorithm: SignatureAlgorithm) -> bool {
    Signature::from_blob(signature).is_ok_and(|signature| signature.algorithm == algorithm.plain())
}

fn sign_with(
    key: &PrivateKey,
    algorithm: SignatureAlgorithm,
    data: &[u8],
    file: &str,
    options: &ClientOptions,
    interaction: &mut dyn Interaction,
) -> Result<Vec<u8>, Option<String>> {
    let file = one_line(file);
    let failed = |reason: String| {
        let label = key.public().key_type().label();
        Some(format!(
            "sign_and_send_pubkey: signing failed for {label} \"{file}\": {reason}"
        ))
    };
    if key.security_key().is_some() {
        return security_key::sign(key, data, &file, options, interaction).map_err(failed);
    }
    key.sign(algorithm, data)
        .map_err(|reason| failed(reason.to_string()))
}

/// A connection to an agent.
pub struct Agent {
    client: AgentClient<UnixStream>,
    /// The connection is bound to the session, or the agent does not know how.
    is_bound: bool,
}

impl Agent {
    fn new(stream: UnixStream) -> Self {
        Self {
            client: AgentClient::new(stream),
            is_bound: false,
        }
    }

    /// Binds the connection to the session before its first signature
    /// (`session-bind@openssh.com`), so that the agent can obey a key's restriction to destinations.
    pub(super) fn bind(&mut self, connection: &Connection) {
        let (Some(key), Some(session), Some(signature)) = (
            connection.host_key(),
            connection.session_id(),
            connection.host_signature(),
        ) else {
            return;
        };
        if !std::mem::replace(&mut self.is_bound, true)
            && let Err(reason) = self.client.bind_session(key, session, signature, false)
        {
            debug2!("the agent does not bind its connection to the session: {reason}");
        }
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Agent")
    }
}

/// Asks for the passphrase until the key opens, at most `prompts` times (at least once).
fn unlock(
    name: &str,
    bytes: &[u8],
    prompts: u32,
    interaction: &mut dyn Interaction,
) -> Option<PrivateKeyFile> {
    let failed = |reason: PrivateFileError| {
        error!("Load key \"{}\": {reason}", one_line(name));
        None
    };
    match private_file::parse(bytes, None) {
        Ok(file) => return Some(file),
        Err(PrivateFileError::NeedsPassphrase) => {}
        Err(reason) => return failed(reason),
    }
    if let Some(warning) = private_file::slow_warning(bytes) {
        info!("Load key \"{}\": {warning}", one_line(name));
    }
    let prompt = format!("Enter passphrase for key '{}': ", one_line(name));
    for _ in 0..prompts.max(1) {
        let passphrase = interaction.ask(&prompt, Question::Secret)?;
        if passphrase.is_empty() {
            debug2!("no passphrase given, try next key");
            return None;
        }
        match private_file::parse(bytes, Some(&passphrase)) {
            Ok(file) => return Some(file),
            Err(PrivateFileError::WrongPassphrase) => debug2!("wrong passphrase, try again"),
            Err(reason) => return failed(reason),
        }
    }
    None
}

#[cfg(test)]
mod tests;
