//! The tokens of a loaded library: their sessions, logins and keys.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keys::{PublicKey, SignatureAlgorithm};
use sys::cryptoki::{
    Cryptoki, CryptokiError, CryptokiHandle, CryptokiNumber, attribute, token_flag,
};

use crate::message::{Pin, PinState, PinUse, TokenEntry, TokenKey, TokenList, TokenReply};
use crate::objects::{self, FoundKey};

/// A token, of which one session is used by one thread at a time.
pub(crate) struct TokenSlot {
    slot: CryptokiHandle,
    label: String,
    session: Mutex<TokenSession>,
}

#[derive(Default)]
struct TokenSession {
    handle: Option<CryptokiHandle>,
    is_logged_in: bool,
}

/// A key with the place of its token.
struct ListedKey {
    found: FoundKey,
    token: usize,
}

/// The tokens and keys of a library at the last listing.
#[derive(Default)]
pub(crate) struct LibraryTokens {
    slots: Vec<Arc<TokenSlot>>,
    keys: Vec<ListedKey>,
}

fn failed(what: &str, error: CryptokiError) -> TokenReply {
    TokenReply::Failed {
        reason: format!("{what}: {error}"),
        is_pin_wrong: matches!(
            error,
            CryptokiError::PIN_INCORRECT | CryptokiError::PIN_LOCKED
        ),
    }
}

impl TokenSlot {
    fn session(&self) -> MutexGuard<'_, TokenSession> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session, opened if there is none.
    fn open(
        &self,
        cryptoki: &Cryptoki,
        state: &mut TokenSession,
    ) -> Result<CryptokiHandle, CryptokiError> {
        if let Some(handle) = state.handle {
            return Ok(handle);
        }
        let handle = cryptoki.open_session(self.slot)?;
        *state = TokenSession {
            handle: Some(handle),
            is_logged_in: false,
        };
        Ok(handle)
    }

    /// Replaces a session in which a signature has begun and was not made: the next could not begin
    /// there.
    fn renew(&self, cryptoki: &Cryptoki, state: &mut TokenSession) {
        let Some(old) = state.handle.take() else {
            return;
        };
        // Opened before the old one is closed: a login ends with the token's last session.
        state.handle = cryptoki.open_session(self.slot).ok();
        cryptoki.close_session(old);
        state.is_logged_in = state
            .handle
            .is_some_and(|session| cryptoki.has_user(session));
    }

    fn entry(&self, cryptoki: &Cryptoki) -> TokenEntry {
        let flags = cryptoki.token(self.slot).map_or(0, |token| token.flags);
        TokenEntry {
            label: self.label.clone(),
            needs_pin: flags & token_flag::LOGIN_REQUIRED != 0 && !self.session().is_logged_in,
            has_keypad: flags & token_flag::PROTECTED_PATH != 0,
            pin_state: pin_state(flags),
        }
    }

    /// Logs in, once, unless that has been done.
    fn login(
        &self,
        cryptoki: &Cryptoki,
        state: &mut TokenSession,
        pin: Option<&Pin>,
    ) -> Result<(), CryptokiError> {
        if state.is_logged_in {
            return Ok(());
        }
        let handle = self.open(cryptoki, state)?;
        match cryptoki.login(handle, pin.map(|pin| pin.as_slice()), false) {
            Ok(()) | Err(CryptokiError::ALREADY_LOGGED_IN) => {
                state.is_logged_in = true;
                Ok(())
            }
            Err(error) => {
                if error.is_removed() {
                    *state = TokenSession::default();
                }
                Err(error)
            }
        }
    }
}

fn pin_state(flags: CryptokiNumber) -> PinState {
    if flags & token_flag::PIN_LOCKED != 0 {
        PinState::Locked
    } else if flags & token_flag::PIN_FINAL_TRY != 0 {
        PinState::FinalTry
    } else if flags & token_flag::PIN_COUNT_LOW != 0 {
        PinState::Low
    } else {
        PinState::Fine
    }
}

impl LibraryTokens {
    /// Looks at all slots. Sessions of tokens that are still there stay open and logged in.
    pub(crate) fn refresh(&mut self, cryptoki: &Cryptoki, pin: Option<&Pin>) -> TokenReply {
        let slots = match cryptoki.slots() {
            Ok(slots) => slots,
            Err(error) => return failed("C_GetSlotList", error),
        };
        let mut present = Vec::new();
        for slot in slots {
            let Ok(token) = cryptoki.token(slot) else {
                continue;
            };
            if token.flags & token_flag::INITIALIZED == 0 {
                continue;
            }
            let is_known = |old: &&Arc<TokenSlot>| old.slot == slot && old.label == token.label;
            present.push(match self.slots.iter().find(is_known) {
                Some(old) => Arc::clone(old),
                None => Arc::new(TokenSlot {
                    slot,
                    label: token.label,
                    session: Mutex::default(),
                }),
            });
        }
        let mut list = TokenList::default();
        let mut failure = None;
        let mut keys = Vec::new();
        for (token, slot) in present.iter().enumerate() {
            if let Some(pin) = pin
                && let Err(reply) = try_pin(cryptoki, slot, pin, present.len())
            {
                failure = Some(reply);
                continue;
            }
            let found = match slot.open(cryptoki, &mut slot.session()) {
                Ok(handle) => objects::keys(cryptoki, handle),
                Err(error) => {
                    failure = Some(failed(&format!("token '{}'", slot.label), error));
                    Vec::new()
                }
            };
            keys.extend(found.into_iter().map(|found| ListedKey { found, token }));
        }
        list.tokens
            .extend(present.iter().map(|slot| slot.entry(cryptoki)));
        list.keys.extend(keys.iter().map(|key| TokenKey {
            public: key.found.public.clone(),
            label: key.found.label.clone(),
            token: u32::try_from(key.token).unwrap_or(u32::MAX),
        }));
        for old in &self.slots {
            if !present.iter().any(|slot| Arc::ptr_eq(slot, old))
                && let Some(handle) = old.session().handle.take()
            {
                cryptoki.close_session(handle);
            }
        }
        self.slots = present;
        self.keys = keys;
        match failure.filter(|_| list.keys.is_empty()) {
            Some(reply) => reply,
            None => TokenReply::Opened(list),
        }
    }

    /// The work of a login, for another thread.
    pub(crate) fn login(&self, token: u32) -> Option<Arc<TokenSlot>> {
        self.slots.get(usize::try_from(token).ok()?).cloned()
    }

    /// The work of a signature, for another thread.
    pub(crate) fn signing(&self, key: u32, algorithm: SignatureAlgorithm) -> Option<SigningTask> {
        let listed = self.keys.get(usize::try_from(key).ok()?)?;
        Some(SigningTask {
            slot: self.slots.get(listed.token).cloned()?,
            token: u32::try_from(listed.token).ok()?,
            public: listed.found.public.clone(),
            id: listed.found.id.clone(),
            algorithm,
        })
    }
}

/// Tries a PIN at a token that needs one, if that does not risk its last attempt for another token's
/// PIN.
fn try_pin(
    cryptoki: &Cryptoki,
    slot: &TokenSlot,
    pin: &Pin,
    tokens: usize,
) -> Result<(), TokenReply> {
    let entry = slot.entry(cryptoki);
    if !entry.needs_pin || entry.has_keypad {
        return Ok(());
    }
    let label = &slot.label;
    let refuse = |reason: String| TokenReply::Failed {
        reason,
        is_pin_wrong: false,
    };
    if pin.is_empty() {
        return Err(refuse(format!("token '{label}' needs a PIN")));
    }
    match entry.pin_state {
        PinState::Locked => return Err(refuse(format!("the PIN of token '{label}' is locked"))),
        PinState::FinalTry if tokens > 1 => {
            return Err(refuse(format!(
                "token '{label}' has one attempt left, and there are other tokens that the PIN may be for"
            )));
        }
        _ => {}
    }
    let done = slot.login(cryptoki, &mut slot.session(), Some(pin));
    done.map_err(|error| failed(&format!("login to token '{label}'"), error))
}

impl TokenSlot {
    /// Logs in; without a PIN at the token itself.
    pub(crate) fn perform_login(&self, cryptoki: &Cryptoki, pin: Option<&Pin>) -> TokenReply {
        match self.login(cryptoki, &mut self.session(), pin) {
            Ok(()) => TokenReply::LoggedIn,
            Err(error) => failed(&format!("login to token '{}'", self.label), error),
        }
    }
}

/// A signature to make.
pub(crate) struct SigningTask {
    slot: Arc<TokenSlot>,
    token: u32,
    public: PublicKey,
    id: Vec<u8>,
    algorithm: SignatureAlgorithm,
}

/// Why a signature was not made.
enum NotSigned {
    NeedsPin(PinUse),
    Failed(CryptokiError),
    Other(&'static str),
}

impl From<CryptokiError> for NotSigned {
    fn from(error: CryptokiError) -> Self {
        Self::Failed(error)
    }
}

impl SigningTask {
    /// Signs; waits for other signatures of the same token.
    pub(crate) fn perform(
        &self,
        cryptoki: &Cryptoki,
        data: &[u8],
        pin: Option<(PinUse, Pin)>,
    ) -> TokenReply {
        let mut state = self.slot.session();
        let had_session = state.handle.is_some();
        let mut done = self.attempt(cryptoki, &mut state, data, pin.as_ref());
        if let Err(NotSigned::Failed(error)) = &done
            && error.is_removed()
        {
            *state = TokenSession::default();
            // It may be there again. A PIN is not sent twice.
            if had_session && pin.is_none() {
                done = self.attempt(cryptoki, &mut state, data, None);
            }
        }
        let label = &self.slot.label;
        match done {
            Ok(blob) => TokenReply::Signature(blob),
            Err(NotSigned::NeedsPin(pin_use)) => TokenReply::NeedsPin {
                token: self.token,
                pin_use,
            },
            Err(NotSigned::Failed(error)) => failed(&format!("token '{label}'"), error),
            Err(NotSigned::Other(reason)) => TokenReply::Failed {
                reason: format!("token '{label}': {reason}"),
                is_pin_wrong: false,
            },
        }
    }

    fn attempt(
        &self,
        cryptoki: &Cryptoki,
        state: &mut TokenSession,
        data: &[u8],
        pin: Option<&(PinUse, Pin)>,
    ) -> Result<Vec<u8>, NotSigned> {
        let session = self.slot.open(cryptoki, state)?;
        let flags = cryptoki.token(self.slot.slot)?.flags;
        let has_keypad = flags & token_flag::PROTECTED_PATH != 0;
        let pin_for = |wanted: PinUse| match pin {
            _ if has_keypad => Ok(None),
            Some((pin_use, pin)) if *pin_use == wanted => Ok(Some(pin)),
            _ => Err(NotSigned::NeedsPin(wanted)),
        };
        if flags & token_flag::LOGIN_REQUIRED != 0 && !state.is_logged_in {
            let pin = pin_for(PinUse::Login)?;
            self.slot.login(cryptoki, state, pin)?;
        }
        let key = objects::private_key(cryptoki, session, &self.id)?
            .ok_or(NotSigned::Other("it does not have the private key"))?;
        let always = cryptoki.attribute(session, key, attribute::ALWAYS_AUTHENTICATE);
        let needs_pin = always.is_some_and(|value| value.first().is_some_and(|byte| *byte != 0));
        // The PIN is asked for before C_SignInit, because only a signature ends that operation.
        let pin = match needs_pin {
            true => Some(pin_for(PinUse::OneSignature)?),
            false => None,
        };
        let (mechanism, data) = objects::to_sign(self.algorithm, data)
            .ok_or(NotSigned::Other("it has no such algorithm"))?;
        cryptoki.begin_signature(session, mechanism, key)?;
        let confirmed = match pin {
            Some(pin) => cryptoki.login(session, pin.map(|pin| pin.as_slice()), true),
            None => Ok(()),
        };
        let signature = confirmed.and_then(|()| cryptoki.sign(session, &data));
        let signature = signature.inspect_err(|_| self.slot.renew(cryptoki, state))?;
        objects::signature_blob(&self.public, self.algorithm, &signature)
            .ok_or(NotSigned::Other("its signature has a wrong length"))
    }
}
