//! The keys that the user can prove to hold: files, certificates, and what an agent holds, in
//! the order in which they are tried.
//!
//! First certificates, then keys that both the configuration and the agent name, then the
//! agent's others (unless `IdentitiesOnly`), then keys in files alone. Only public halves are
//! read here; a secret is opened when its turn comes.

use std::collections::VecDeque;
use std::fmt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use agent::AgentClient;
use config::client::{ClientOptions, IdentityAgent};
use keys::private_file::{self, PrivateFileError};
use keys::{KeyType, PresentedKey, PrivateKey, PublicKey, Signature, SignatureAlgorithm};
use sys::file::Links;
use zeroize::Zeroizing;

use crate::interaction::{Interaction, Question};
use crate::log::{debug1, debug2, error};
use crate::text::one_line;

/// Most keys of an agent that are considered.
const MAX_AGENT_KEYS: usize = 256;
/// Largest public key or certificate file, bytes.
const MAX_PUBLIC_FILE: u64 = 1024 * 1024;

/// A private key file as it was read, wiped when dropped.
type FileBytes = Zeroizing<Vec<u8>>;

/// Who makes the signature.
#[derive(Clone)]
enum Source {
    /// The agent, under this plain key's blob or the certificate's own.
    Agent {
        /// The blob that the agent knows.
        blob: Vec<u8>,
        /// It may be asked without knowing whether the server wants the key: the user named
        /// it, or it is the only one.
        unasked: bool,
    },
    /// A file; the secret once it was opened.
    File {
        /// The opened key.
        key: Option<PrivateKey>,
        /// The file as it was read for its public half.
        bytes: FileBytes,
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

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let agent = matches!(self.source, Source::Agent { .. });
        write!(
            f,
            "{} {} {}{}{}",
            one_line(&self.name),
            self.presented.blob_name(),
            keys::fingerprint::sha256(&self.presented.key().blob()),
            if self.explicit { " explicit" } else { "" },
            if agent { " agent" } else { "" }
        )
    }
}

impl Identity {
    /// The key or certificate blob as it is shown to the server.
    #[must_use]
    pub fn blob(&self) -> &[u8] {
        &self.blob
    }

    /// Whether a signature needs neither a person nor the server's interest first.
    #[must_use]
    pub fn signs_alone(&self) -> bool {
        match &self.source {
            Source::File { key, .. } => key.as_ref().is_some_and(PrivateKey::can_sign),
            Source::Agent { unasked, .. } => *unasked && !self.key_type().is_security_key(),
        }
    }

    fn key_type(&self) -> KeyType {
        self.presented.key().key_type()
    }

    /// The algorithm to sign with: the strongest that this key makes, the user accepts and
    /// the server takes. Servers list what matters for RSA only (RFC 8332 §3.3): other keys
    /// are tried whatever the list says. Without a list an RSA key signs with SHA-256, which
    /// every server takes that takes SHA-2 at all.
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
            None => wanted.last(),
        }
    }

    /// Opens the secret if that needs no passphrase.
    pub fn prepare(&mut self) {
        if let Source::File {
            key: slot @ None,
            bytes,
        } = &mut self.source
            && let Ok(file) = private_file::parse(bytes, None)
        {
            *slot = Some(file.key);
        }
    }

    /// Signs `data`; asks for the passphrase of a file that needs one. `None` when there is
    /// no signature; why has been said.
    pub fn sign(
        &mut self,
        algorithm: SignatureAlgorithm,
        data: &[u8],
        agent: Option<&mut Agent>,
        prompts: u32,
        interaction: &mut dyn Interaction,
    ) -> Option<Vec<u8>> {
        match &self.source {
            Source::Agent { blob, .. } => {
                let signature = agent?.client.sign_with(blob, data, algorithm.plain());
                match signature {
                    Ok(signature) if names_algorithm(&signature, algorithm) => Some(signature),
                    Ok(_) => {
                        error!(
                            "agent signed {} with another algorithm",
                            one_line(&self.name)
                        );
                        None
                    }
                    Err(reason) => {
                        error!(
                            "sign_and_send_pubkey: signing failed for {}: {reason}",
                            one_line(&self.name)
                        );
                        None
                    }
                }
            }
            Source::File { key: Some(key), .. } => sign_with(key, algorithm, data),
            Source::File { key: None, bytes } => {
                // A certificate's own name is not that of the file with the secret.
                let file = self
                    .path
                    .as_ref()
                    .map_or(self.name.clone(), |path| path.display().to_string());
                let key = unlock(&file, bytes, prompts, interaction)?;
                sign_with(&key, algorithm, data)
            }
        }
    }
}

fn names_algorithm(signature: &[u8], algorithm: SignatureAlgorithm) -> bool {
    Signature::from_blob(signature).is_ok_and(|signature| signature.algorithm == algorithm.plain())
}

fn sign_with(key: &PrivateKey, algorithm: SignatureAlgorithm, data: &[u8]) -> Option<Vec<u8>> {
    match key.sign(algorithm, data) {
        Ok(signature) => Some(signature),
        Err(reason) => {
            error!("signing failed: {reason}");
            None
        }
    }
}

/// A connection to an agent.
pub struct Agent {
    client: AgentClient<UnixStream>,
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Agent")
    }
}

/// Everything that may be tried, in order, and the agent that signs for some of it.
#[must_use]
pub fn collect(options: &ClientOptions) -> (VecDeque<Identity>, Option<Agent>) {
    let mut agent = connect_agent(options);
    let in_agent = agent.as_mut().map(list).unwrap_or_default();
    let files = files(options);
    let certificates = certificates(options, &files);
    let mut order = arrange(&certificates, &files, &in_agent, options.identities_only);
    if let Some(first) = order.front_mut() {
        first.prepare();
    }
    (order, agent)
}

/// A key in the agent.
struct Held {
    presented: PresentedKey,
    blob: Vec<u8>,
    comment: String,
}

fn connect_agent(options: &ClientOptions) -> Option<Agent> {
    let path = match &options.identity_agent {
        IdentityAgent::None => return None,
        IdentityAgent::Socket(path) => PathBuf::from(path),
        IdentityAgent::FromEnvironment => {
            PathBuf::from(std::env::var_os("SSH_AUTH_SOCK").filter(|path| !path.is_empty())?)
        }
    };
    match UnixStream::connect(&path) {
        Ok(stream) => Some(Agent {
            client: AgentClient::new(stream),
        }),
        Err(reason) => {
            debug1!("no agent at {}: {reason}", path.display());
            None
        }
    }
}

fn list(agent: &mut Agent) -> Vec<Held> {
    let listed = match agent.client.list() {
        Ok(listed) => listed,
        Err(reason) => {
            debug1!("the agent does not list its keys: {reason}");
            return Vec::new();
        }
    };
    let mut held = Vec::new();
    for identity in listed.into_iter().take(MAX_AGENT_KEYS) {
        // A key of an unknown type is no reason to leave the others.
        match PresentedKey::from_blob(&identity.blob) {
            Ok(presented) => held.push(Held {
                presented,
                blob: identity.blob,
                comment: identity.comment,
            }),
            Err(reason) => debug2!("a key of the agent is passed over: {reason}"),
        }
    }
    held
}

/// A key that a file names: its public half is known.
struct Named {
    public: PublicKey,
    path: PathBuf,
    explicit: bool,
    /// The private key file; without it the key must be in the agent.
    private: Option<FileBytes>,
}

fn files(options: &ClientOptions) -> Vec<Named> {
    let mut named = Vec::new();
    for file in &options.identity_files {
        let path = PathBuf::from(&file.path);
        match public_half(&path) {
            Ok(Some((public, private))) => {
                let known = named.iter().any(|other: &Named| other.public == public);
                if !known {
                    named.push(Named {
                        public,
                        path,
                        explicit: file.explicit,
                        private,
                    });
                }
            }
            Ok(None) => debug2!("no identity file {}", path.display()),
            Err(reason) => {
                let text = format!("Load key \"{}\": {reason}", path.display());
                if file.explicit {
                    error!("{text}");
                } else {
                    debug1!("{text}");
                }
            }
        }
    }
    named
}

/// The public half of the key that `path` names, and its private file if it is there; `None`
/// when there is no file.
fn public_half(path: &Path) -> Result<Option<(PublicKey, Option<FileBytes>)>, String> {
    let beside = with_suffix(path, ".pub");
    let Some(bytes) = private_file_bytes(path)? else {
        // The key may be in the agent alone.
        return Ok(read_public(&beside).map(|key| (key, None)));
    };
    match private_file::parse_public(&bytes) {
        Ok(public) => Ok(Some((public, Some(bytes)))),
        Err(PrivateFileError::NeedsPassphrase) => match read_public(&beside) {
            Some(public) => Ok(Some((public, Some(bytes)))),
            None => Err("it is under a passphrase and its .pub file is missing".into()),
        },
        Err(PrivateFileError::NotAPrivateKey) => match parse_public_line(&bytes) {
            Some(PresentedKey::Plain(public)) => Ok(Some((public, None))),
            _ => Err("not a private key file".into()),
        },
        Err(reason) => Err(reason.to_string()),
    }
}

/// The bytes of a private key file, unless others could have read it.
fn private_file_bytes(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, String> {
    let file = match sys::file::open_regular(path, Links::Follow) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let bytes = sys::file::read_file_bounded(&file, private_file::MAX_FILE_BYTES)
        .map(Zeroizing::new)
        .map_err(|error| error.to_string())?;
    if private_file::is_private_key(&bytes)
        && let Ok(Some(mode)) = sys::file::too_open_for_a_key(&file)
    {
        return Err(format!(
            "bad permissions: mode {mode:04o} lets others read this private key, so it is not \
             used (chmod 600 {})",
            path.display()
        ));
    }
    Ok(Some(bytes))
}

/// Asks for the passphrase until the key opens, `prompts` times at most.
fn unlock(
    name: &str,
    bytes: &[u8],
    prompts: u32,
    interaction: &mut dyn Interaction,
) -> Option<PrivateKey> {
    let failed = |reason: PrivateFileError| {
        error!("Load key \"{}\": {reason}", one_line(name));
        None
    };
    match private_file::parse(bytes, None) {
        Ok(file) => return Some(file.key),
        Err(PrivateFileError::NeedsPassphrase) => {}
        Err(reason) => return failed(reason),
    }
    let prompt = format!("Enter passphrase for key '{}': ", one_line(name));
    for _ in 0..prompts.max(1) {
        let passphrase = interaction.ask(&prompt, Question::Secret)?;
        if passphrase.is_empty() {
            debug2!("no passphrase given, try next key");
            return None;
        }
        match private_file::parse(bytes, Some(&passphrase)) {
            Ok(file) => return Some(file.key),
            Err(PrivateFileError::WrongPassphrase) => debug2!("wrong passphrase, try again"),
            Err(reason) => return failed(reason),
        }
    }
    None
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn read_presented(path: &Path) -> Option<PresentedKey> {
    let bytes = sys::file::read_bounded(path, MAX_PUBLIC_FILE, Links::Follow).ok()?;
    parse_public_line(&bytes)
}

fn read_public(path: &Path) -> Option<PublicKey> {
    match read_presented(path)? {
        PresentedKey::Plain(key) => Some(key),
        PresentedKey::Certificate(_) => None,
    }
}

/// The first line that is `type base64 comment`.
fn parse_public_line(bytes: &[u8]) -> Option<PresentedKey> {
    bytes.split(|byte| *byte == b'\n').find_map(|line| {
        let mut words = line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
        let name = words.find(|word| !word.is_empty())?;
        let blob = keys::base64::decode(words.find(|word| !word.is_empty())?)?;
        let presented = PresentedKey::from_blob(&blob).ok()?;
        (presented.blob_name().as_bytes() == name).then_some(presented)
    })
}

/// A certificate and where it was found.
struct Vouched {
    certificate: PresentedKey,
    path: PathBuf,
}

/// Certificates of `CertificateFile`, then those beside identity files.
fn certificates(options: &ClientOptions, files: &[Named]) -> Vec<Vouched> {
    let configured = options.certificate_files.iter().map(PathBuf::from);
    let beside = files
        .iter()
        .map(|file| with_suffix(&file.path, "-cert.pub"));
    let mut found: Vec<Vouched> = Vec::new();
    for (path, wanted) in configured
        .map(|path| (path, true))
        .chain(beside.map(|path| (path, false)))
    {
        match read_presented(&path) {
            Some(certificate) if certificate.certificate().is_some() => {
                if !found.iter().any(|other| other.certificate == certificate) {
                    found.push(Vouched { certificate, path });
                }
            }
            _ if wanted => debug1!("no certificate in {}", path.display()),
            _ => {}
        }
    }
    found
}

fn arrange(
    certificates: &[Vouched],
    files: &[Named],
    held: &[Held],
    identities_only: bool,
) -> VecDeque<Identity> {
    let plain_in_agent = |key: &PublicKey| {
        held.iter()
            .find(|held| held.presented.certificate().is_none() && held.presented.key() == key)
    };
    let only_one = held.len() == 1;
    let mut order = VecDeque::new();
    for vouched in certificates {
        let key = vouched.certificate.key();
        let file = files.iter().find(|file| &file.public == key);
        let source = match (plain_in_agent(key), file) {
            (Some(held), _) => Source::Agent {
                blob: held.blob.clone(),
                unasked: true,
            },
            (
                None,
                Some(Named {
                    private: Some(bytes),
                    ..
                }),
            ) => Source::File {
                key: None,
                bytes: bytes.clone(),
            },
            _ => {
                debug1!(
                    "no private key for the certificate {}",
                    vouched.path.display()
                );
                continue;
            }
        };
        order.push_back(Identity {
            blob: vouched.certificate.blob(),
            presented: vouched.certificate.clone(),
            name: vouched.path.display().to_string(),
            path: file.map(|file| file.path.clone()),
            explicit: true,
            source,
        });
    }
    for file in files {
        if let Some(held) = plain_in_agent(&file.public) {
            order.push_back(Identity {
                name: file.path.display().to_string(),
                path: Some(file.path.clone()),
                explicit: file.explicit,
                ..from_agent(held, file.explicit || only_one)
            });
        }
    }
    if !identities_only {
        for held in held {
            let taken = order
                .iter()
                .any(|identity: &Identity| identity.blob == held.blob);
            if !taken {
                order.push_back(from_agent(held, only_one));
            }
        }
    }
    for file in files {
        let Some(bytes) = file
            .private
            .as_ref()
            .filter(|_| plain_in_agent(&file.public).is_none())
        else {
            continue;
        };
        order.push_back(Identity {
            presented: PresentedKey::Plain(file.public.clone()),
            blob: file.public.blob(),
            name: file.path.display().to_string(),
            path: Some(file.path.clone()),
            explicit: file.explicit,
            source: Source::File {
                key: None,
                bytes: bytes.clone(),
            },
        });
    }
    order
}

fn from_agent(held: &Held, unasked: bool) -> Identity {
    Identity {
        presented: held.presented.clone(),
        blob: held.blob.clone(),
        name: held.comment.clone(),
        path: None,
        explicit: false,
        source: Source::Agent {
            blob: held.blob.clone(),
            unasked,
        },
    }
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
