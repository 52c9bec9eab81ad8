//! What the agent does with a request: its keys, its lock and its options decide, and the event loop
//! carries out what takes time.

use std::sync::Arc;

use agent::message::SESSION_BIND;
use agent::request::{AddRequest, AgentRequest, SignRequest};
use agent::{Constraints, answer};
use crypto::hash::HashAlgorithm;
use keys::pattern::{Case, match_list};
use keys::{KeyType, PresentedKey, PrivateKey, SignatureAlgorithm, fingerprint};
use token::message::{TokenList, TokenRequest};
use zeroize::Zeroizing;

use crate::bindings::Bindings;
use crate::destination;
use crate::keyring::{KeyEntry, KeyHolder, Keyring, TokenKeyPlace};
use crate::log::AgentLog;
use crate::signed_data;

/// The extensions in the answer to `query`, as in OpenSSH: without itself.
const EXTENSIONS: [&str; 1] = [SESSION_BIND];
/// Longest data that a security key signs, in bytes: they go to the helper in one message.
pub(crate) const MAX_TOUCH_BYTES: usize = 128 * 1024;
/// Longest part of foreign text in a question, in characters.
const MAX_SHOWN: usize = 200;

/// The agent's state.
pub(crate) struct KeyAgent {
    pub(crate) keyring: Keyring,
    pub(crate) log: AgentLog,
    /// Seconds after which an added key without a lifetime of its own is removed.
    pub(crate) default_lifetime: Option<u64>,
    pub(crate) fingerprint_hash: HashAlgorithm,
    /// Libraries may be named by clients on other machines (`-O allow-remote-pkcs11`).
    pub(crate) allows_remote_providers: bool,
    /// Patterns of the applications of security keys that sign any data; `None` for all.
    pub(crate) websafe: Option<String>,
    /// Keys were added, so that the heap may be larger.
    pub(crate) has_grown: bool,
}

/// The next step for a request.
pub(crate) enum Handling {
    /// The answer.
    Answer(Vec<u8>),
    /// A signature is made.
    Sign(Box<Signing>),
    /// The user is asked; then a signature is made.
    Confirm(Box<Signing>, String),
    /// The key is added if its provider is permitted, which the helper finds out.
    Check(Box<AddRequest>),
    /// The keys of a library's tokens are added.
    AddToken(Box<TokenAddition>),
    /// The keys of a library's tokens are removed, if its path is found to be this canonical one.
    RemoveToken(String),
    /// The passphrase is tried when earlier attempts have had their delay.
    Unlock(Zeroizing<Vec<u8>>),
}

/// The keys of a library's tokens are to be added.
pub(crate) struct TokenAddition {
    /// The library's path as the client has named it.
    pub(crate) provider: String,
    pub(crate) pin: Zeroizing<Vec<u8>>,
    pub(crate) constraints: Constraints,
}

/// The holder of the private key.
enum SigningKey {
    Memory(PrivateKey),
    Token(TokenKeyPlace),
}

/// A signature that the agent has decided to make.
pub(crate) struct Signing {
    key: SigningKey,
    blob: Vec<u8>,
    algorithm: SignatureAlgorithm,
    data: Vec<u8>,
    touch: Option<Touch>,
}

/// What a signature by a security key needs in addition.
pub(crate) struct Touch {
    pub(crate) provider: String,
    /// The notice for the user while the token waits; empty for a key without touch.
    pub(crate) notice: String,
    /// Asks for the PIN.
    pub(crate) pin_prompt: String,
}

impl Signing {
    /// True if it takes milliseconds, so that another thread makes it.
    pub(crate) fn is_slow(&self) -> bool {
        matches!(&self.key, SigningKey::Memory(key) if key.key_type() == KeyType::Rsa)
    }

    /// The request to the helper that signs, if the key is in a token, and the helper's number.
    pub(crate) fn in_token(&self) -> Option<(u64, TokenRequest)> {
        let SigningKey::Token(place) = &self.key else {
            return None;
        };
        let request = TokenRequest::Sign {
            key: place.key,
            algorithm: self.algorithm,
            data: self.data.clone(),
            pin: None,
        };
        Some((place.link, request))
    }

    /// What a signature by a security key needs; `None` for other keys.
    pub(crate) fn touch(&self) -> Option<&Touch> {
        self.touch.as_ref()
    }

    /// The private key; `None` for one in a token.
    pub(crate) fn key(&self) -> Option<&PrivateKey> {
        match &self.key {
            SigningKey::Memory(key) => Some(key),
            SigningKey::Token(_) => None,
        }
    }

    pub(crate) fn data(&self) -> &[u8] {
        &self.data
    }

    /// Blob of the key.
    pub(crate) fn blob(&self) -> &[u8] {
        &self.blob
    }

    /// The answer.
    pub(crate) fn perform(&self) -> Vec<u8> {
        match &self.key {
            SigningKey::Memory(key) => match key.sign(self.algorithm, &self.data) {
                Ok(signature) => answer::signature(&signature),
                Err(_) => answer::status(false),
            },
            SigningKey::Token(_) => answer::status(false),
        }
    }
}

fn refused() -> Handling {
    Handling::Answer(answer::status(false))
}

impl KeyAgent {
    /// Handles a request, without its length, of a connection with these bindings.
    pub(crate) fn handle(&mut self, bindings: &mut Bindings, body: &[u8]) -> Handling {
        if AgentRequest::is_session_bind(body) {
            bindings.attempted();
        }
        let request = match AgentRequest::decode(body) {
            Ok(request) => request,
            Err(error) => {
                self.log.info(format_args!("refused: {error}"));
                return match AgentRequest::is_session_bind(body) {
                    true => Handling::Answer(answer::extension_failure()),
                    false => refused(),
                };
            }
        };
        // A binding counts while the agent is locked too: the connection is the same afterwards.
        if self.keyring.is_locked() {
            match request {
                AgentRequest::Unlock(passphrase) => return unlock(passphrase),
                AgentRequest::ListIdentities => {
                    return Handling::Answer(answer::identities([].into_iter()));
                }
                AgentRequest::BindSession(_) => {}
                _ => {
                    self.log.debug(format_args!("refused: the agent is locked"));
                    return refused();
                }
            }
        }
        match request {
            AgentRequest::ListIdentities => Handling::Answer(self.list(bindings)),
            AgentRequest::Sign(request) => self.sign(bindings, &request),
            other => self.change(bindings, other),
        }
    }

    fn change(&mut self, bindings: &mut Bindings, request: AgentRequest<'_>) -> Handling {
        let is_done = match request {
            AgentRequest::Add(request) => return self.add(bindings, request),
            AgentRequest::Remove(blob) => self.remove(bindings, blob),
            AgentRequest::RemoveAll | AgentRequest::RemoveAllOfProtocol1 => {
                self.remove_visible(bindings);
                true
            }
            AgentRequest::Lock(passphrase) => self.keyring.lock(passphrase),
            AgentRequest::Unlock(passphrase) => return unlock(passphrase),
            AgentRequest::AddSmartcard {
                provider,
                pin,
                constraints,
            } => match self.token_addition(bindings, provider, pin, constraints) {
                Ok(addition) => return Handling::AddToken(Box::new(addition)),
                Err(reason) => {
                    let provider = shown(provider);
                    self.log
                        .info(format_args!("provider \"{provider}\" refused: {reason}"));
                    false
                }
            },
            AgentRequest::RemoveSmartcard { provider } => match std::str::from_utf8(provider) {
                Ok(provider) => return Handling::RemoveToken(provider.to_owned()),
                Err(_) => false,
            },
            AgentRequest::BindSession(bind) => match bindings.bind(&bind) {
                Ok(()) => true,
                Err(error) => {
                    self.log.info(format_args!("session-bind refused: {error}"));
                    return Handling::Answer(answer::extension_failure());
                }
            },
            AgentRequest::Query => return Handling::Answer(answer::extensions(&EXTENSIONS)),
            AgentRequest::OtherExtension(name) => {
                let name = shown(name);
                self.log.debug(format_args!("unknown extension \"{name}\""));
                false
            }
            AgentRequest::ListIdentities | AgentRequest::Sign(_) => false,
        };
        Handling::Answer(answer::status(is_done))
    }

    fn list(&self, bindings: &Bindings) -> Vec<u8> {
        let now = sys::time::realtime_seconds();
        let visible: Vec<(&[u8], &str)> = self
            .keyring
            .entries()
            .iter()
            .filter(|entry| destination::check(&entry.destinations, bindings, None, now).is_ok())
            .map(|entry| (entry.blob.as_slice(), entry.comment.as_str()))
            .collect();
        answer::identities(visible.into_iter())
    }

    fn add(&mut self, bindings: &Bindings, request: Box<AddRequest>) -> Handling {
        if let Err(reason) = self.may_add(bindings, &request) {
            let comment = shown(&request.comment);
            self.log
                .info(format_args!("key \"{comment}\" is not added: {reason}"));
            return refused();
        }
        match &request.constraints.provider {
            Some(provider) if !provider.eq_ignore_ascii_case(fido::INTERNAL) => {
                Handling::Check(request)
            }
            _ => {
                self.insert(*request);
                Handling::Answer(answer::status(true))
            }
        }
    }

    fn may_add(&self, bindings: &Bindings, request: &AddRequest) -> Result<(), String> {
        let constraints = &request.constraints;
        let blob = request.key.blob();
        let old = self.keyring.find(&blob);
        let now = sys::time::realtime_seconds();
        let is_security_key = request.key.key.security_key().is_some();
        let reason = if let Some(provider) = &constraints.provider
            && bindings.is_remote()
            && !self.allows_remote_providers
        {
            let provider = shown(provider);
            return Err(format!(
                "a client on another machine named the provider \"{provider}\""
            ));
        } else if constraints.provider.is_some() && !is_security_key {
            "a provider is for keys in security keys only"
        } else if constraints.provider.is_none() && is_security_key {
            "a key in a security key needs a provider"
        } else if constraints.max_signatures.is_some() {
            "a number of signatures can be limited for stateful keys only"
        } else if constraints.certificates.is_some() {
            "associated certificates are for keys of tokens only"
        } else if old
            .is_some_and(|old| destination::check(&old.destinations, bindings, None, now).is_err())
        {
            "a key with the same public key may not be changed from this host"
        } else if !self.keyring.has_room(&blob, &request.comment) {
            "there are too many keys, or their comments are too long"
        } else {
            return Ok(());
        };
        Err(reason.to_owned())
    }

    /// Adds the key of a request whose provider has been checked, unless something has changed
    /// meanwhile. `provider` is the path that was checked, or the reason why it is not permitted.
    pub(crate) fn add_checked(
        &mut self,
        bindings: &Bindings,
        mut request: AddRequest,
        provider: Result<String, String>,
    ) -> bool {
        let checked = match provider {
            Ok(path) if !self.keyring.is_locked() => {
                request.constraints.provider = Some(path);
                self.may_add(bindings, &request)
            }
            Ok(_) => Err("the agent is locked".to_owned()),
            Err(reason) => Err(reason),
        };
        if let Err(reason) = checked {
            let (comment, reason) = (shown(&request.comment), shown(&reason));
            self.log
                .info(format_args!("key \"{comment}\" is not added: {reason}"));
            return false;
        }
        self.insert(request);
        true
    }

    fn insert(&mut self, request: AddRequest) {
        let comment = shown(&request.comment);
        let constraints = &request.constraints;
        self.log.debug(format_args!(
            "adding {} \"{comment}\": lifetime {:?}, confirm {}, destinations {}",
            request.key.blob_name(),
            constraints.lifetime,
            constraints.confirm,
            constraints.destinations.len()
        ));
        let blob = request.key.blob();
        self.keyring.add(
            KeyHolder::Memory(Box::new(request.key)),
            blob,
            request.comment,
            request.constraints,
            self.default_lifetime,
            sys::time::boot_ms(),
        );
        self.has_grown = true;
    }

    /// Decides whether a client may have a library loaded: one on another machine may not
    /// (CVE-2016-10009, CVE-2023-38408). Which libraries are permitted, the helper decides, because
    /// this process opens no file.
    fn token_addition(
        &self,
        bindings: &Bindings,
        provider: &[u8],
        pin: &[u8],
        constraints: Constraints,
    ) -> Result<TokenAddition, &'static str> {
        if bindings.is_remote() && !self.allows_remote_providers {
            return Err("a client on another machine named it");
        }
        if constraints.provider.is_some() {
            return Err("a token has no provider of security keys");
        }
        if constraints.max_signatures.is_some() {
            return Err("a number of signatures can be limited for stateful keys only");
        }
        let provider = std::str::from_utf8(provider).map_err(|_| "its path is not text")?;
        Ok(TokenAddition {
            provider: provider.to_owned(),
            pin: Zeroizing::new(pin.to_vec()),
            constraints,
        })
    }

    /// Adds the keys of a library's tokens, each with all constraints (CVE-2023-28531,
    /// CVE-2023-51384), and their certificates. Returns the number of entries that were added.
    pub(crate) fn add_token_keys(
        &mut self,
        bindings: &Bindings,
        addition: &TokenAddition,
        place: (u64, &Arc<str>),
        list: &TokenList,
    ) -> usize {
        let (link, provider) = place;
        let certificates = addition.constraints.certificates.as_ref();
        let only_certificates = certificates.is_some_and(|certificates| certificates.only);
        let certificates: Vec<PresentedKey> = certificates
            .iter()
            .flat_map(|certificates| &certificates.blobs)
            .filter_map(|blob| PresentedKey::from_blob(blob).ok())
            .filter(|key| key.certificate().is_some())
            .collect();
        let mut count = 0;
        for (key, found) in (0_u32..).zip(&list.keys) {
            let plain = (!only_certificates).then(|| found.public.blob());
            let vouching = certificates
                .iter()
                .filter(|certificate| *certificate.key() == found.public);
            let blobs = plain.into_iter().chain(vouching.map(PresentedKey::blob));
            for blob in blobs {
                let now = sys::time::realtime_seconds();
                let old = self.keyring.find(&blob);
                let may_replace = old.is_none_or(|old| {
                    destination::check(&old.destinations, bindings, None, now).is_ok()
                });
                let holder = KeyHolder::Token(TokenKeyPlace {
                    link,
                    key,
                    key_type: found.public.key_type(),
                    provider: Arc::clone(provider),
                });
                // To a client, a NUL ends the text.
                let comment = match found.label.split('\0').next() {
                    None | Some("") => provider.to_string(),
                    Some(label) => label.to_owned(),
                };
                if !may_replace || !self.keyring.has_room(&blob, &comment) {
                    continue;
                }
                self.keyring.add(
                    holder,
                    blob,
                    comment,
                    addition.constraints.clone(),
                    self.default_lifetime,
                    sys::time::boot_ms(),
                );
                count += 1;
            }
        }
        self.has_grown |= count > 0;
        count
    }

    /// Removes the keys of the library at this canonical path; true if there was one.
    pub(crate) fn remove_token(&mut self, bindings: &Bindings, provider: &str) -> bool {
        let now = sys::time::realtime_seconds();
        self.keyring.remove_where(|entry| {
            let place = entry.holder.token();
            place.is_some_and(|place| &*place.provider == provider)
                && destination::check(&entry.destinations, bindings, None, now).is_ok()
        })
    }

    /// Removes all keys that the client may see; to it there are no others.
    fn remove_visible(&mut self, bindings: &Bindings) {
        let now = sys::time::realtime_seconds();
        self.keyring.remove_where(|entry| {
            destination::check(&entry.destinations, bindings, None, now).is_ok()
        });
        match self.keyring.entries().len() {
            0 => self.remove_all(),
            left => self.log.info(format_args!(
                "keys removed, except {left} that the client may not see"
            )),
        }
    }

    fn remove(&mut self, bindings: &Bindings, blob: &[u8]) -> bool {
        let now = sys::time::realtime_seconds();
        let is_permitted = self.keyring.find(blob).is_some_and(|entry| {
            destination::check(&entry.destinations, bindings, None, now).is_ok()
        });
        is_permitted && self.keyring.remove(blob)
    }

    /// Removes all keys; their memory is wiped.
    pub(crate) fn remove_all(&mut self) {
        self.keyring.remove_all();
        self.log.debug(format_args!("all keys removed"));
    }

    fn sign(&self, bindings: &Bindings, request: &SignRequest<'_>) -> Handling {
        let Some(entry) = self.keyring.find(request.blob) else {
            self.log.debug(format_args!("no such key"));
            return refused();
        };
        let comment = shown(&entry.comment);
        let login = signed_data::login(request.data, request.blob);
        if !entry.destinations.is_empty()
            && let Err(reason) = permit(&entry.destinations, bindings, login.as_ref())
        {
            self.log
                .info(format_args!("key \"{comment}\" does not sign: {reason}"));
            return refused();
        }
        let (key, key_type) = match &entry.holder {
            KeyHolder::Memory(held) => (SigningKey::Memory(held.key.clone()), held.key.key_type()),
            KeyHolder::Token(place) => (SigningKey::Token(place.clone()), place.key_type),
        };
        let algorithm = request.flags.algorithm(key_type);
        let touch = match self.touch(entry, bindings, request, login.as_ref()) {
            Ok(touch) => touch,
            Err(reason) => {
                self.log
                    .info(format_args!("key \"{comment}\" does not sign: {reason}"));
                return refused();
            }
        };
        let signing = Box::new(Signing {
            key,
            blob: request.blob.to_vec(),
            algorithm,
            data: request.data.to_vec(),
            touch,
        });
        match entry.confirm {
            false => Handling::Sign(signing),
            true => {
                let question = self.question(bindings, request, login.as_ref(), &comment);
                Handling::Confirm(signing, question)
            }
        }
    }

    /// What a signature by a security key needs.
    ///
    /// # Errors
    /// The data could be the answer to a web site's challenge: a key of such an application signs
    /// logins and files only, unless the agent's options say otherwise.
    fn touch(
        &self,
        entry: &KeyEntry,
        bindings: &Bindings,
        request: &SignRequest<'_>,
        login: Option<&signed_data::SignedLogin<'_>>,
    ) -> Result<Option<Touch>, &'static str> {
        let KeyHolder::Memory(held) = &entry.holder else {
            return Ok(None);
        };
        let (Some(parts), Some(provider)) = (held.key.security_key(), &entry.provider) else {
            return Ok(None);
        };
        let is_websafe = |patterns: &String| {
            match_list(parts.application, patterns.as_bytes(), Case::Sensitive).is_yes()
        };
        let is_known_data = login.is_some() || signed_data::file_signature(request.data).is_some();
        if !is_known_data && !self.websafe.as_ref().is_none_or(is_websafe) {
            return Err(
                "the data are neither a login nor a file signature, and the key's \
                        application is not one of SSH",
            );
        }
        if request.data.len() > MAX_TOUCH_BYTES {
            return Err("the data are too long for a security key");
        }
        let label = held.key.key_type().label();
        let fingerprint = fingerprint::of_blob(&held.key.public().blob(), self.fingerprint_hash);
        let needs_touch = parts.flags & fido::USER_PRESENCE != 0;
        let mut notice = String::new();
        if needs_touch {
            notice = format!("Confirm user presence for key {label} {fingerprint}");
            notice.push_str(&self.purpose(bindings, request, login));
        }
        let and = if needs_touch {
            " and confirm user presence "
        } else {
            " "
        };
        Ok(Some(Touch {
            provider: provider.clone(),
            notice,
            pin_prompt: format!("Enter PIN{and}for {label} key {fingerprint}: "),
        }))
    }

    /// Asks whether the key may be used, and says by whom.
    fn question(
        &self,
        bindings: &Bindings,
        request: &SignRequest<'_>,
        login: Option<&signed_data::SignedLogin<'_>>,
        comment: &str,
    ) -> String {
        let fingerprint = fingerprint::of_blob(request.blob, self.fingerprint_hash);
        let purpose = self.purpose(bindings, request, login);
        format!("Allow use of key {comment}?\nKey fingerprint {fingerprint}.{purpose}")
    }

    /// Says for whom a signature is, in lines that each begin with a newline.
    fn purpose(
        &self,
        bindings: &Bindings,
        request: &SignRequest<'_>,
        login: Option<&signed_data::SignedLogin<'_>>,
    ) -> String {
        let fingerprint = |blob: &[u8]| fingerprint::of_blob(blob, self.fingerprint_hash);
        let mut text = String::new();
        match (login, signed_data::file_signature(request.data)) {
            (Some(login), _) => {
                let user = shown(login.user);
                text.push_str(&format!("\nIt logs in as user \"{user}\""));
                // A binding tells where another session logs in, which is anybody's to choose.
                let bound = bindings.hops().last().filter(|hop| {
                    !hop.is_forwarding && hop.session_identifier == login.session_identifier
                });
                match login.host_key.map(fingerprint) {
                    Some(host) => text.push_str(&format!(" to the host with key {host}.")),
                    None => match bound {
                        Some(hop) => {
                            let host = fingerprint(&hop.host.blob());
                            text.push_str(&format!(" to the host with key {host}."));
                        }
                        None => text.push_str(" to an unknown host."),
                    },
                }
            }
            (None, Some(namespace)) => {
                let namespace = shown(namespace);
                text.push_str(&format!("\nIt signs for the namespace \"{namespace}\"."));
            }
            (None, None) => text.push_str("\nIt signs data of an unknown kind."),
        }
        for hop in bindings.hops().iter().filter(|hop| hop.is_forwarding) {
            let host = fingerprint(&hop.host.blob());
            text.push_str(&format!(
                "\nThe request comes through the host with key {host}."
            ));
        }
        text
    }
}

/// Checks a signature of a key with destination constraints.
fn permit(
    destinations: &[agent::constraint::DestinationConstraint],
    bindings: &Bindings,
    login: Option<&signed_data::SignedLogin<'_>>,
) -> Result<(), String> {
    let last = bindings
        .hops()
        .last()
        .ok_or("its destinations are restricted, and the connection is bound to no session")?;
    let login = login.ok_or("its destinations are restricted, and the data are no login")?;
    let now = sys::time::realtime_seconds();
    destination::check(destinations, bindings, Some(login.user), now)
        .map_err(|reason| reason.to_string())?;
    if login.session_identifier != last.session_identifier {
        return Err("the login is of another session than the bound one".to_owned());
    }
    match login.host_key {
        None if bindings.hops().len() > 1 => {
            Err("the login through a forwarded agent names no host key".to_owned())
        }
        Some(host_key) if host_key != last.host.blob() => {
            Err("the login names another host key than the bound session".to_owned())
        }
        _ => Ok(()),
    }
}

fn unlock(passphrase: &[u8]) -> Handling {
    Handling::Unlock(Zeroizing::new(passphrase.to_vec()))
}

fn shown(text: impl AsRef<[u8]>) -> String {
    escape::escape_at_most(text, escape::Style::Line, MAX_SHOWN)
}

#[cfg(test)]
#[path = "requests_tests.rs"]
mod tests;
