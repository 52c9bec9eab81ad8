//! Keys in tokens that a PKCS #11 library reaches (`-D`).

use std::path::Path;

use keys::{PresentedKey, PublicKey};
use token::{PinQuestion, TokenLibrary};
use zeroize::Zeroizing;

use super::options::FingerprintForm;
use super::signer::Signer;
use super::{KeygenFailure, console, files, show};
use transfer::plan::shown;

fn ask(question: &PinQuestion) -> Option<Zeroizing<Vec<u8>>> {
    if let Some(warning) = question.warning() {
        eprintln!("{warning}");
    }
    console::passphrase(&question.prompt()).ok()
}

fn open(library: &Path) -> Result<TokenLibrary, KeygenFailure> {
    let token = TokenLibrary::open(library, &mut ask)
        .map_err(|error| KeygenFailure::new(format!("provider {}: {error}", shown(library))))?;
    match token.keys() {
        [] => Err(KeygenFailure::new("cannot read public key from pkcs11")),
        _ => Ok(token),
    }
}

/// Prints the public keys of all tokens, or their fingerprints.
pub(super) fn list(library: &Path, form: Option<FingerprintForm>) -> Result<(), KeygenFailure> {
    for key in open(library)?.keys() {
        let presented: PresentedKey = key.public.clone().into();
        match form {
            Some(form) => show::print_fingerprint(form, &presented, "(PKCS11 key)"),
            None => println!("{}", keys::public_file::to_line(&presented, &key.label)),
        }
    }
    Ok(())
}

/// The authority whose public half is in the file `public`, and its private half in a token.
pub(super) fn authority(
    library: &Path,
    public: &Path,
) -> Result<(PublicKey, Signer), KeygenFailure> {
    let wanted = files::load_public(public).map_err(|error| {
        KeygenFailure::new(format!(
            "Couldn't load CA public key \"{}\": {}",
            shown(public),
            error.0
        ))
    })?;
    let wanted = wanted.key.key().clone();
    let token = open(library)?;
    let place = token.keys().iter().position(|key| key.public == wanted);
    let key = place.ok_or_else(|| {
        KeygenFailure::new(format!("No PKCS#11 key matching {} found", shown(public)))
    })?;
    let token = Box::new(token);
    Ok((wanted, Signer::Token { token, key, ask }))
}
