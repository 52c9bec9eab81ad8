//! Keys in the tokens of PKCS11Provider (`ssh -I`): finding them, their order, and signing.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use config::client::{NameOrVariable, UserKeyOptions};
use keys::{PresentedKey, SignatureAlgorithm};
use token::{PinQuestion, TokenLibrary};
use zeroize::Zeroizing;

use super::found::{FileKey, FoundCertificate};
use super::{Identity, Source};
use crate::interaction::{Interaction, Question};
use crate::log::{debug1, error};
use crate::prompt::Prompter;
use crate::text::one_line;

/// A library that all identities of its keys use.
pub(super) type SharedToken = Arc<Mutex<TokenLibrary>>;

/// The library of the options.
fn library(user_keys: &UserKeyOptions) -> Option<PathBuf> {
    match user_keys.pkcs11_provider.as_ref()? {
        NameOrVariable::Name(path) => Some(PathBuf::from(path)),
        NameOrVariable::Variable(name) => {
            let value = std::env::var_os(name).filter(|value| !value.is_empty());
            if value.is_none() {
                debug1!(
                    "PKCS11Provider ${} did not resolve; disabling",
                    one_line(name)
                );
            }
            value.map(PathBuf::from)
        }
    }
}

/// Puts the keys of tokens among the others: those that an identity file or certificate names come
/// first, all others, unless `IdentitiesOnly` is set, before keys that only files hold.
pub(super) fn insert(
    order: &mut VecDeque<Identity>,
    user_keys: &UserKeyOptions,
    batch_mode: bool,
    files: &[FileKey],
    certificates: &[FoundCertificate],
) {
    let Some(path) = library(user_keys) else {
        return;
    };
    let mut prompter = Prompter::new(batch_mode);
    let mut ask = |question: &PinQuestion| ask(&mut prompter, question);
    let opened = match TokenLibrary::open(&path, &mut ask) {
        Ok(opened) => opened,
        Err(reason) => {
            error!(
                "PKCS11Provider {}: {reason}",
                one_line(&path.display().to_string())
            );
            return;
        }
    };
    debug1!("{} keys in {}", opened.keys().len(), path.display());
    if opened.keys().is_empty() {
        // The token was removed, or the library does not find it.
        error!(
            "PKCS11Provider {}: it reaches no token with a key",
            one_line(&path.display().to_string())
        );
    }
    let found: Vec<(PresentedKey, String)> = opened
        .keys()
        .iter()
        .map(|key| (key.public.clone().into(), key.label.clone()))
        .collect();
    let library = Arc::new(Mutex::new(opened));
    let identity = |presented: PresentedKey, key: usize, name: &str| Identity {
        blob: presented.blob(),
        presented,
        name: match name {
            "" => path.display().to_string(),
            name => name.to_owned(),
        },
        path: None,
        explicit: false,
        source: Source::Token {
            library: Arc::clone(&library),
            key,
        },
    };
    let mut first = VecDeque::new();
    let mut others = Vec::new();
    for (place, (key, label)) in found.iter().enumerate() {
        for vouching in certificates
            .iter()
            .filter(|one| one.certificate.key() == key.key())
        {
            first.push_back(identity(vouching.certificate.clone(), place, label));
        }
        if files.iter().any(|file| file.public == *key.key()) {
            first.push_back(identity(key.clone(), place, label));
        } else if !user_keys.identities_only {
            others.push(identity(key.clone(), place, label));
        }
    }
    let is_known = |other: &Identity, order: &VecDeque<Identity>| {
        order.iter().any(|identity| identity.blob == other.blob)
    };
    others.retain(|other| !is_known(other, order));
    let is_file = |identity: &Identity| matches!(identity.source, Source::File { .. });
    let place = order.iter().position(is_file).unwrap_or(order.len());
    for (offset, other) in others.into_iter().enumerate() {
        order.insert(place + offset, other);
    }
    order.retain(|old| !is_known(old, &first));
    first.append(order);
    *order = first;
}

fn ask(interaction: &mut dyn Interaction, question: &PinQuestion) -> Option<Zeroizing<Vec<u8>>> {
    if let Some(warning) = question.warning().filter(|_| interaction.can_ask()) {
        interaction.tell(&format!("{warning}\n"));
    }
    interaction.ask(&question.prompt(), Question::Secret)
}

/// Signs with a key of a token; asks for its PIN if it needs one.
pub(super) fn sign(
    library: &SharedToken,
    key: usize,
    algorithm: SignatureAlgorithm,
    data: &[u8],
    interaction: &mut dyn Interaction,
) -> Result<Vec<u8>, Option<String>> {
    let mut token = library.lock().unwrap_or_else(PoisonError::into_inner);
    let mut ask = |question: &PinQuestion| ask(interaction, question);
    token
        .sign(key, algorithm, data, &mut ask)
        .map_err(|reason| Some(format!("sign_and_send_pubkey: signing failed: {reason}")))
}
