//! Changing a key file: its passphrase (`-p`), its comment (`-c`).

use keys::PresentedKey;

use super::options::{Format, KeygenOptions};
use super::{KeygenFailure, console, files, reason};
use transfer::plan::shown;

/// Gives a key another passphrase.
pub(super) fn passphrase(options: &KeygenOptions) -> Result<(), KeygenFailure> {
    let path = files::identity(options)?;
    if let Err(error) = path.metadata() {
        return Err(KeygenFailure::new(format!(
            "{}: {}",
            shown(&path),
            reason(&error)
        )));
    }
    let old = options.old_passphrase.as_ref().map(|text| text.as_slice());
    let file = files::load_private(&path, old, "Enter old passphrase: ").map_err(|error| {
        KeygenFailure::new(format!("Failed to load key {}: {}", shown(&path), error.0))
    })?;
    if !file.comment.is_empty() {
        println!("Key has comment '{}'", escape::one_line(&file.comment));
    }
    let new = match &options.new_passphrase {
        Some(passphrase) => passphrase.clone(),
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
    let text = files::private_text(options, &file.key, &file.comment, &new)?;
    files::save_private(&path, &text).map_err(|error| {
        KeygenFailure::refused(format!(
            "Saving key \"{}\" failed: {}.",
            shown(&path),
            reason(&error)
        ))
    })?;
    println!("Your identification has been saved with the new passphrase.");
    Ok(())
}

/// Gives a key and its public file another comment.
pub(super) fn comment(options: &KeygenOptions) -> Result<(), KeygenFailure> {
    if matches!(options.format, Some(Format::Pem | Format::Pkcs8)) {
        return Err(KeygenFailure::new(
            "Comments are only supported for keys stored in the new format (-o).",
        ));
    }
    let path = files::identity(options)?;
    let given = options
        .old_passphrase
        .as_ref()
        .or(options.new_passphrase.as_ref())
        .cloned();
    let mut used = given.clone();
    let file = match files::load_private(&path, Some(given.as_deref().map_or(b"", |text| text)), "")
    {
        Ok(file) => file,
        Err(error) if given.is_some() || !error.0.contains("incorrect passphrase") => {
            return Err(cannot_load(&path, &error.0));
        }
        Err(_) => {
            let asked = console::passphrase("Enter passphrase: ")?;
            let file = files::load_private(&path, Some(&asked), "")
                .map_err(|error| cannot_load(&path, &error.0))?;
            used = Some(asked);
            file
        }
    };
    if file.comment.is_empty() {
        println!("No existing comment");
    } else {
        println!("Old comment: {}", escape::one_line(&file.comment));
    }
    let new = match &options.comment {
        Some(comment) => comment.clone(),
        None => console::line("New comment: ")?.ok_or(KeygenFailure::refused(""))?,
    };
    if !new.is_empty() && new == file.comment {
        println!("No change to comment");
        return Ok(());
    }
    let passphrase = if file.encrypted {
        used.unwrap_or_default()
    } else {
        Default::default()
    };
    let text = files::private_text(options, &file.key, &new, &passphrase)?;
    files::save_private(&path, &text).map_err(|error| {
        KeygenFailure::refused(format!(
            "Saving key \"{}\" failed: {}",
            shown(&path),
            reason(&error)
        ))
    })?;
    let public = PresentedKey::from(file.key.public().clone());
    files::save_public(&files::public_path(&path), &public, &new)?;
    if new.is_empty() {
        println!("Comment removed");
    } else {
        println!("Comment '{new}' applied");
    }
    Ok(())
}

fn cannot_load(path: &std::path::Path, why: &str) -> KeygenFailure {
    KeygenFailure::new(format!(
        "Cannot load private key \"{}\": {why}",
        shown(path)
    ))
}
