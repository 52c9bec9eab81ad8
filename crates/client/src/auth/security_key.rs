//! Signatures by security keys whose files are on this machine: the provider of `SecurityKeyProvider`,
//! the PIN, and the notice that a touch is awaited.

use config::client::{ClientOptions, NameOrVariable, UserKeyOptions};
use fido::{FidoError, Provider, USER_PRESENCE};
use keys::PrivateKey;
use sys::terminal::askpass::Notification;
use zeroize::Zeroizing;

use crate::interaction::{Interaction, Question};

/// The provider of the options.
///
/// # Errors
/// There is none, or its library does not exist; the reason in words.
pub(super) fn provider(user_keys: &UserKeyOptions) -> Result<Provider, String> {
    let none = || "security keys need a provider (SecurityKeyProvider)".to_owned();
    let named = user_keys.security_key_provider.as_ref();
    let name = match named.ok_or_else(none)? {
        NameOrVariable::Name(name) => name.clone(),
        NameOrVariable::Variable(name) => std::env::var(name).map_err(|_| none())?,
    };
    Provider::new(&name).map_err(|reason| format!("provider {name}: {reason}"))
}

/// As [`sign_by`], with the provider of the options.
///
/// # Errors
/// The reason in words.
pub(super) fn sign(
    key: &PrivateKey,
    data: &[u8],
    file: &str,
    options: &ClientOptions,
    interaction: &mut dyn Interaction,
) -> Result<Vec<u8>, String> {
    let provider = provider(&options.user_keys)?;
    let mut show = |text: &str, interaction: &mut dyn Interaction| {
        Notice::show(text, options.authentication.batch_mode, interaction)
    };
    sign_by(&provider, key, data, file, &mut show, interaction)
}

/// As [`sign_by`], without a notice.
///
/// # Errors
/// The reason in words.
pub(super) fn sign_quietly(
    provider: &Provider,
    key: &PrivateKey,
    data: &[u8],
    interaction: &mut dyn Interaction,
) -> Result<Vec<u8>, String> {
    sign_by(
        provider,
        key,
        data,
        "",
        &mut |_, _| Notice::Nowhere,
        interaction,
    )
}

/// Signs with the security key of `file`. `show` tells the user that the token waits for a touch. A PIN
/// is asked for once, and only if the token wants one: it may know its user by a fingerprint.
fn sign_by(
    provider: &Provider,
    key: &PrivateKey,
    data: &[u8],
    file: &str,
    show: &mut dyn FnMut(&str, &mut dyn Interaction) -> Notice,
    interaction: &mut dyn Interaction,
) -> Result<Vec<u8>, String> {
    let flags = key.security_key().map_or(0, |parts| parts.flags);
    let label = key.key_type().label();
    let ask = |interaction: &mut dyn Interaction| -> Result<Zeroizing<Vec<u8>>, String> {
        let prompt = format!("Enter PIN for {label} key {file}: ");
        interaction
            .ask(&prompt, Question::Secret)
            .ok_or_else(|| "it needs a PIN, and nobody can be asked for it".to_owned())
    };
    let mut pin = None;
    loop {
        let notice = (flags & USER_PRESENCE != 0).then(|| {
            let fingerprint = keys::fingerprint::sha256(&key.public().blob());
            let text = format!("Confirm user presence for key {label} {fingerprint}");
            show(&text, interaction)
        });
        match provider.sign(key, data, pin.as_deref().map(Vec::as_slice)) {
            Ok(signature) => {
                if matches!(notice, Some(Notice::Terminal)) {
                    interaction.tell("User presence confirmed\n");
                }
                return Ok(signature);
            }
            Err(FidoError::PinRequired) if pin.is_none() => {
                drop(notice);
                pin = Some(ask(interaction)?);
            }
            Err(reason) => return Err(reason.to_string()),
        }
    }
}

/// A notice that the token waits for its user.
enum Notice {
    /// Text on the terminal.
    Terminal,
    /// A window, which goes when this is dropped.
    Askpass(#[expect(dead_code, reason = "its end is the end of the notice")] Notification),
    /// Nobody can be told.
    Nowhere,
}

impl Notice {
    fn show(text: &str, batch_mode: bool, interaction: &mut dyn Interaction) -> Self {
        if !batch_mode && sys::io::is_terminal(sys::io::stderr()) {
            interaction.tell(&format!("{text}\n"));
            return Self::Terminal;
        }
        Notification::show(text).map_or(Self::Nowhere, Self::Askpass)
    }
}
