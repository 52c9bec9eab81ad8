//! Changing a key file: its passphrase (`-p`), its comment (`-c`).

use keys::PresentedKey;
use zeroize::Zeroizing;

use super::options::{Flags, Format, IdentityChoice, KeyFileForm};
use super::{KeygenFailure, console, files, reason};
use transfer::plan::shown;

/// The flags of `-p` and `-c`.
pub(super) struct KeyChange<'a> {
    identity: IdentityChoice<'a>,
    form: KeyFileForm,
    old_passphrase: Option<&'a [u8]>,
    new_passphrase: Option<&'a [u8]>,
    comment: Option<&'a str>,
}

impl<'a> From<&'a Flags> for KeyChange<'a> {
    fn from(flags: &'a Flags) -> Self {
        Self {
            identity: flags.identity(),
            form: flags.key_file_form,
            old_passphrase: flags.old_passphrase(),
            new_passphrase: flags.new_passphrase(),
            comment: flags.text("C"),
        }
    }
}

/// Gives a key another passphrase.
pub(super) fn passphrase(change: &KeyChange<'_>) -> Result<(), KeygenFailure> {
    let path = files::identity(change.identity)?;
    if let Err(error) = path.metadata() {
        return Err(KeygenFailure::new(format!(
            "{}: {}",
            shown(&path),
            reason(&error)
        )));
    }
    let failed = |error: files::LoadError| {
        KeygenFailure::new(format!("Failed to load key {}: {}", shown(&path), error.0))
    };
    let key_file = read(&path).map_err(failed)?;
    let file = key_file
        .private_asking(change.old_passphrase, "Enter old passphrase: ")
        .map_err(failed)?;
    if key_file.has_comment() {
        println!("Key has comment '{}'", escape::one_line(&file.comment));
    }
    let new = match change.new_passphrase {
        Some(passphrase) => Zeroizing::new(passphrase.to_vec()),
        None => {
            let first = console::passphrase("Enter new passphrase (empty for no passphrase): ")?;
            let second = console::passphrase("Enter same passphrase again: ")?;
            if first != second {
                println!("Pass phrases do not match.  Try again.");
                return Err(KeygenFailure::refused(""));
            }
            first
        }
    };
    files::write_private(change.form, &path, &file.key, &file.comment, &new)?;
    println!("Your identification has been saved with the new passphrase.");
    Ok(())
}

/// Gives a key and its public file another comment.
pub(super) fn comment(change: &KeyChange<'_>) -> Result<(), KeygenFailure> {
    if matches!(change.form.format, Some(Format::Pem | Format::Pkcs8)) {
        return Err(KeygenFailure::new(
            "Comments are only supported for keys stored in the new format (-o).",
        ));
    }
    let path = files::identity(change.identity)?;
    let given = change.old_passphrase.or(change.new_passphrase);
    let mut used = Zeroizing::new(given.unwrap_or_default().to_vec());
    let key_file = read(&path).map_err(|error| cannot_load(&path, &error.0))?;
    let file = match key_file.private(Some(&used)) {
        Ok(file) => file,
        Err(error) if given.is_some() || !error.0.contains("incorrect passphrase") => {
            return Err(cannot_load(&path, &error.0));
        }
        Err(_) => {
            let asked = console::passphrase("Enter passphrase: ")?;
            let file = key_file
                .private(Some(&asked))
                .map_err(|error| cannot_load(&path, &error.0))?;
            used = asked;
            file
        }
    };
    if file.comment.is_empty() {
        println!("No existing comment");
    } else {
        println!("Old comment: {}", escape::one_line(&file.comment));
    }
    let new = match change.comment {
        Some(comment) => comment.to_owned(),
        None => console::line("New comment: ")?.ok_or(KeygenFailure::refused(""))?,
    };
    if !new.is_empty() && new == file.comment {
        println!("No change to comment");
        return Ok(());
    }
    let passphrase: &[u8] = if file.encrypted { &used } else { &[] };
    files::write_private(change.form, &path, &file.key, &new, passphrase)?;
    let public = PresentedKey::from(file.key.public().clone());
    files::save_public(&files::public_path(&path), &public, &new)?;
    if new.is_empty() {
        println!("Comment removed");
    } else {
        println!("Comment '{new}' applied");
    }
    Ok(())
}

/// Reads a key file that is to be changed: a pipe cannot be written back to.
fn read(path: &std::path::Path) -> Result<files::KeyFile<'_>, files::LoadError> {
    let file = files::KeyFile::read(path)?;
    match file.is_regular {
        true => Ok(file),
        false => Err(files::LoadError("not a regular file".to_owned())),
    }
}

fn cannot_load(path: &std::path::Path, why: &str) -> KeygenFailure {
    KeygenFailure::new(format!(
        "Cannot load private key \"{}\": {why}",
        shown(path)
    ))
}
