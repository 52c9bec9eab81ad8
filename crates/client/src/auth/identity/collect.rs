//! Finds the user's keys and puts them in the order of trial.
//!
//! First certificates, then keys that both the configuration and the agent hold, then other
//! certificates and keys of the agent (unless `IdentitiesOnly`), then keys that only files hold. Only public halves are
//! parsed here, and the first key is opened if it needs no passphrase; others are opened when their
//! turn comes.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use config::client::{
    AuthenticationOptions, ClientOptions, IdentityAgent, PubkeyAuthentication, UserKeyOptions,
};
use keys::private_file::{self, PrivateFileError};
use keys::{CertificateKind, PresentedKey, PrivateKey, PublicKey};
use sys::file::FollowLinks;
use zeroize::Zeroizing;

use super::found::{FileKey, FoundCertificate, PrivateFile};
use super::{Agent, FileBytes, Identity, Source, in_token};
use crate::log::{debug1, debug2, error};

/// Most keys of an agent that are considered.
const MAX_AGENT_KEYS: usize = 256;
/// Largest public key or certificate file, bytes.
const MAX_PUBLIC_FILE: u64 = 1024 * 1024;

/// All keys to try, in order, and the agent that signs for some of them.
#[derive(Debug, Default)]
pub struct Keys {
    pub(in crate::auth) identities: VecDeque<Identity>,
    pub(in crate::auth) agent: Option<Agent>,
}

impl Keys {
    /// Reads the key files and asks the agent for its list. Empty if the options disable public key
    /// authentication.
    #[must_use]
    pub fn find(options: &ClientOptions) -> Self {
        if !is_enabled(&options.authentication) {
            return Self::default();
        }
        let mut agent = connect_agent(&options.user_keys);
        let in_agent = agent.as_mut().map(list).unwrap_or_default();
        let (files, named) = files(&options.user_keys);
        let certificates = certificates(&options.user_keys, named, &files);
        let mut identities = arrange(
            &certificates,
            &files,
            &in_agent,
            options.user_keys.identities_only,
        );
        in_token::insert(
            &mut identities,
            &options.user_keys,
            options.authentication.batch_mode,
            &files,
            &certificates,
        );
        if let Some(first) = identities.front_mut() {
            first.prepare();
        }
        Self { identities, agent }
    }
}

impl Keys {
    /// One line for each key that these options permit, in the order of trial; a server's own list
    /// of algorithms is not known.
    #[must_use]
    pub fn lines(&self, options: &ClientOptions) -> Vec<String> {
        let algorithms = &options.algorithms;
        let min_rsa_bits = usize::try_from(algorithms.required_rsa_size).unwrap_or(usize::MAX);
        let accepted = &algorithms.pubkey_accepted_algorithms;
        self.identities
            .iter()
            .filter(|each| each.algorithm(accepted, None, min_rsa_bits).is_some())
            .map(|each| format!("{each:?}\n"))
            .collect()
    }

    /// One key that the caller holds, presented as itself or by its certificate.
    #[must_use]
    pub fn one(key: &PrivateKey, presented: PresentedKey) -> Self {
        Self::given(
            presented,
            Source::File {
                key: Some(key.clone()),
                private: PrivateFile::Read(FileBytes::default()),
                comment: String::new(),
            },
        )
    }

    /// As [`Keys::one`], of a key whose secret is in a security key.
    #[must_use]
    pub fn of_security_key(
        key: &PrivateKey,
        presented: PresentedKey,
        provider: fido::Provider,
    ) -> Self {
        let key = key.clone();
        Self::given(presented, Source::SecurityKey { key, provider })
    }

    fn given(presented: PresentedKey, source: Source) -> Self {
        let identity = Identity {
            blob: presented.blob(),
            presented,
            name: String::new(),
            path: None,
            explicit: true,
            source,
        };
        Self {
            identities: VecDeque::from([identity]),
            agent: None,
        }
    }

    /// The keys of the agent at this socket, in the agent's order, at most 256.
    ///
    /// # Errors
    /// The agent cannot be reached or does not list its keys; holds the reason.
    pub fn of_agent(path: &Path) -> Result<Self, String> {
        let stream =
            UnixStream::connect(path).map_err(|reason| format!("{}: {reason}", path.display()))?;
        let mut agent = Agent::new(stream);
        let listed = agent.client.list().map_err(|reason| reason.to_string())?;
        let mut identities = arrange(&[], &[], &usable(listed), false);
        // A signature may need a person's touch: the server is asked first, also for a single key.
        for identity in &mut identities {
            if let Source::Agent { is_first, .. } = &mut identity.source {
                *is_first = false;
            }
        }
        Ok(Self {
            identities,
            agent: Some(agent),
        })
    }
}

fn is_enabled(authentication: &AuthenticationOptions) -> bool {
    authentication.pubkey_authentication != PubkeyAuthentication::No
        && authentication
            .preferred_authentications
            .iter()
            .any(|name| name == wire::names::METHOD_PUBLICKEY)
}

/// A key in the agent.
pub(super) struct AgentKey {
    pub(super) presented: PresentedKey,
    pub(super) blob: Vec<u8>,
    pub(super) comment: String,
}

/// The agent's socket, if there is one.
pub(crate) fn agent_socket(user_keys: &UserKeyOptions) -> Option<PathBuf> {
    match &user_keys.identity_agent {
        IdentityAgent::None => None,
        IdentityAgent::Socket(path) => Some(PathBuf::from(path)),
        IdentityAgent::FromEnvironment => std::env::var_os("SSH_AUTH_SOCK")
            .filter(|path| !path.is_empty())
            .map(PathBuf::from),
    }
}

fn connect_agent(user_keys: &UserKeyOptions) -> Option<Agent> {
    let path = agent_socket(user_keys)?;
    match UnixStream::connect(&path) {
        Ok(stream) => Some(Agent::new(stream)),
        Err(reason) => {
            debug1!("no agent at {}: {reason}", path.display());
            None
        }
    }
}

pub(super) fn list(agent: &mut Agent) -> Vec<AgentKey> {
    let listed = match agent.client.list() {
        Ok(listed) => listed,
        Err(reason) => {
            debug1!("the agent does not list its keys: {reason}");
            return Vec::new();
        }
    };
    usable(listed)
}

/// The keys of known types.
fn usable(listed: Vec<agent::Identity>) -> Vec<AgentKey> {
    let mut held = Vec::new();
    for identity in listed.into_iter().take(MAX_AGENT_KEYS) {
        // A key of an unknown type does not hide the others.
        match PresentedKey::from_blob(&identity.blob) {
            Ok(presented) => held.push(AgentKey {
                presented,
                blob: identity.blob,
                comment: identity.comment,
            }),
            Err(reason) => debug2!("ignoring a key of the agent: {reason}"),
        }
    }
    held
}

/// The content of an identity file.
pub(super) enum IdentityFile {
    /// The public half of a key, and its private file if that exists.
    Key(PublicKey, Option<PrivateFile>),
    /// A certificate, whose private key is elsewhere.
    Certificate(PresentedKey),
}

/// The keys of `IdentityFile`, and its certificates.
pub(super) fn files(user_keys: &UserKeyOptions) -> (Vec<FileKey>, Vec<FoundCertificate>) {
    let mut named = Vec::new();
    let mut certificates = Vec::new();
    for file in &user_keys.identity_files {
        let path = PathBuf::from(&file.path);
        match identity(&path) {
            Ok(Some(IdentityFile::Certificate(certificate))) => {
                certificates.push(FoundCertificate {
                    certificate,
                    path,
                    is_identity: true,
                })
            }
            Ok(Some(IdentityFile::Key(public, private))) => {
                // Another file with the same key may open where this one needs a passphrase.
                let known = named.iter().any(|other: &FileKey| other.path == path);
                if !known {
                    named.push(FileKey {
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
    (named, certificates)
}

/// Reads the identity file `path`; `None` if neither it nor its `.pub` file gives a key.
pub(super) fn identity(path: &Path) -> Result<Option<IdentityFile>, String> {
    let beside = with_suffix(path, ".pub");
    let (bytes, too_open) = match read_private(path) {
        Ok(Some(read)) => read,
        // The key may be in the agent alone.
        Ok(None) => return Ok(read_public(&beside).map(|key| IdentityFile::Key(key, None))),
        Err(reason) => {
            let public = read_public(&beside).ok_or_else(|| reason.clone())?;
            let private = PrivateFile::Unreadable(reason);
            return Ok(Some(IdentityFile::Key(public, Some(private))));
        }
    };
    let key = |public, bytes| {
        let private = too_open.map_or(PrivateFile::Read(bytes), PrivateFile::TooOpen);
        Ok(Some(IdentityFile::Key(public, Some(private))))
    };
    match private_file::parse_public(&bytes) {
        Ok(public) => key(public, bytes),
        Err(PrivateFileError::NeedsPassphrase) => match read_public(&beside) {
            Some(public) => key(public, bytes),
            None => Err("it is encrypted and its .pub file is missing".into()),
        },
        Err(PrivateFileError::NotAPrivateKey) => match parse_public_line(&bytes) {
            Some(PresentedKey::Plain(public)) => Ok(Some(IdentityFile::Key(public, None))),
            Some(certificate) => Ok(Some(IdentityFile::Certificate(certificate))),
            None => Err("not a private key file".into()),
        },
        Err(reason) => Err(reason.to_string()),
    }
}

/// The private key in a file that should have it; `None` if it has none.
pub(super) fn private_of(path: &Path) -> Option<PrivateFile> {
    let (bytes, too_open) = read_private(path).ok()??;
    private_file::is_private_key(&bytes)
        .then(|| too_open.map_or(PrivateFile::Read(bytes), PrivateFile::TooOpen))
}

/// The file's bytes, and its permissions if it is a private key that others can read; `None` if there is no
/// such file.
fn read_private(path: &Path) -> Result<Option<(FileBytes, Option<u32>)>, String> {
    let file = match sys::file::open_regular(path, FollowLinks::Follow) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let bytes = sys::file::read_file_bounded(&file, private_file::MAX_FILE_BYTES)
        .map(Zeroizing::new)
        .map_err(|error| error.to_string())?;
    let too_open = match private_file::is_private_key(&bytes) {
        true => sys::file::too_open_for_a_key(&file).ok().flatten(),
        false => None,
    };
    Ok(Some((bytes, too_open)))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn read_presented(path: &Path) -> Option<PresentedKey> {
    let bytes = sys::file::read_bounded(path, MAX_PUBLIC_FILE, FollowLinks::Follow).ok()?;
    parse_public_line(&bytes)
}

fn read_public(path: &Path) -> Option<PublicKey> {
    match read_presented(path)? {
        PresentedKey::Plain(key) => Some(key),
        PresentedKey::Certificate(_) => None,
    }
}

/// The key of the first line of the form `type base64 comment`.
fn parse_public_line(bytes: &[u8]) -> Option<PresentedKey> {
    bytes.split(|byte| *byte == b'\n').find_map(|line| {
        let mut words = line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
        let name = words.find(|word| !word.is_empty())?;
        let blob = keys::base64::decode(words.find(|word| !word.is_empty())?)?;
        let presented = PresentedKey::from_blob(&blob).ok()?;
        (presented.blob_name().as_bytes() == name).then_some(presented)
    })
}

/// Certificates of `CertificateFile`, then those that were `named` as identity files, then those in
/// the `-cert.pub` and `.pub` files of the identity files.
pub(super) fn certificates(
    user_keys: &UserKeyOptions,
    named: Vec<FoundCertificate>,
    files: &[FileKey],
) -> Vec<FoundCertificate> {
    let configured = user_keys.certificate_files.iter().map(PathBuf::from);
    let beside = files.iter().flat_map(|file| {
        // The `.pub` file itself may hold a certificate, as in OpenSSH; it is read only for files
        // that the user named.
        let suffixes = ["-cert.pub", ".pub"].into_iter();
        let suffixes = suffixes.take(if file.explicit { 2 } else { 1 });
        suffixes.map(|suffix| with_suffix(&file.path, suffix))
    });
    let read = |path: PathBuf, wanted: bool| {
        let certificate = read_presented(&path).filter(|key| key.certificate().is_some());
        if wanted && certificate.is_none() {
            debug1!("no certificate in {}", path.display());
        }
        certificate.map(|certificate| FoundCertificate {
            certificate,
            path,
            is_identity: false,
        })
    };
    let mut found: Vec<FoundCertificate> = Vec::new();
    let all = configured
        .filter_map(|path| read(path, true))
        .chain(named)
        .chain(beside.filter_map(|path| read(path, false)));
    for each in all {
        if !is_of_a_user(&each.certificate) {
            let path = each.path.display();
            debug1!("ignoring certificate {path}: not a user certificate");
        } else if !found
            .iter()
            .any(|other| other.certificate == each.certificate)
        {
            found.push(each);
        }
    }
    found
}

fn is_of_a_user(presented: &PresentedKey) -> bool {
    let certificate = presented.certificate();
    certificate.is_some_and(|certificate| certificate.kind() == CertificateKind::User)
}

pub(super) fn arrange(
    certificates: &[FoundCertificate],
    files: &[FileKey],
    held: &[AgentKey],
    identities_only: bool,
) -> VecDeque<Identity> {
    // The agent signs for the first of several files with one key.
    let of_file = |place: usize, file: &FileKey| {
        let is_same = |other: &FileKey| other.public == file.public;
        let is_first = !files.iter().take(place).any(is_same);
        plain_in_agent(held, &file.public).filter(|_| is_first)
    };
    let only_one = held.len() == 1;
    let certified = |found| of_certificate(found, files, held);
    let mut order: VecDeque<Identity> = certificates.iter().filter_map(certified).collect();
    for (place, file) in files.iter().enumerate() {
        if let Some(held) = of_file(place, file) {
            order.push_back(Identity {
                name: file.path.display().to_string(),
                path: Some(file.path.clone()),
                explicit: file.explicit,
                ..from_agent(held, file.explicit || only_one)
            });
        }
    }
    if !identities_only {
        let is_certificate = |held: &&AgentKey| held.presented.certificate().is_some();
        let certificates = held.iter().filter(is_certificate);
        let plain = held.iter().filter(|held| !is_certificate(held));
        for held in certificates.chain(plain) {
            let taken = order
                .iter()
                .any(|identity: &Identity| identity.blob == held.blob);
            if !taken {
                order.push_back(from_agent(held, only_one));
            }
        }
    }
    for (place, file) in files.iter().enumerate() {
        let Some(private) = file
            .private
            .as_ref()
            .filter(|_| of_file(place, file).is_none())
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
                private: private.clone(),
                comment: String::new(),
            },
        });
    }
    order
}

fn plain_in_agent<'h>(held: &'h [AgentKey], key: &PublicKey) -> Option<&'h AgentKey> {
    held.iter()
        .find(|held| held.presented.certificate().is_none() && held.presented.key() == key)
}

/// The certificate with its private key, which the agent holds under either name, or a file.
fn of_certificate(
    found: &FoundCertificate,
    files: &[FileKey],
    held: &[AgentKey],
) -> Option<Identity> {
    let key = found.certificate.key();
    let blob = found.certificate.blob();
    let of_key = || files.iter().filter(|file| &file.public == key);
    let can_sign = |file: &&FileKey| file.private.as_ref().and_then(PrivateFile::bytes).is_some();
    let file = of_key()
        .find(can_sign)
        .or_else(|| of_key().find(|file| file.private.is_some()))
        .or_else(|| of_key().next());
    let itself = held.iter().find(|held| held.blob == blob);
    let source = match (itself.or_else(|| plain_in_agent(held, key)), file) {
        (Some(held), _) => Source::Agent {
            blob: held.blob.clone(),
            is_first: true,
        },
        (
            None,
            Some(FileKey {
                private: Some(private),
                ..
            }),
        ) => Source::File {
            key: None,
            private: private.clone(),
            comment: String::new(),
        },
        _ => {
            let path = found.path.display();
            if found.is_identity {
                error!(
                    "Load key \"{path}\": it is a certificate, and its private key is neither \
                     in an agent nor an identity file (-i)"
                );
            } else {
                debug1!("no private key for the certificate {path}");
            }
            return None;
        }
    };
    Some(Identity {
        blob,
        presented: found.certificate.clone(),
        name: found.path.display().to_string(),
        path: file.map(|file| file.path.clone()),
        explicit: true,
        source,
    })
}

fn from_agent(held: &AgentKey, is_first: bool) -> Identity {
    Identity {
        presented: held.presented.clone(),
        blob: held.blob.clone(),
        name: held.comment.clone(),
        path: None,
        explicit: false,
        source: Source::Agent {
            blob: held.blob.clone(),
            is_first,
        },
    }
}
