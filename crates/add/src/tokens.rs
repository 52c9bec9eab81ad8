//! Adds the keys of tokens to the agent (`-s`), and removes them (`-e`). The agent loads the library,
//! not this program.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use agent::Constraints;
use agent::constraint::AssociatedCertificates;

use crate::options::AddOptions;
use crate::{AddFailure, AgentConnection, Failed};

/// Adds or removes the keys of the tokens that `library` reaches. The operands are certificates.
///
/// # Errors
/// If a certificate cannot be read.
pub(crate) fn add_or_remove(
    connection: &mut AgentConnection,
    options: &AddOptions,
    mut constraints: Constraints,
    library: &OsStr,
) -> Result<Result<(), Failed>, AddFailure> {
    let mut blobs = Vec::new();
    for path in &options.files {
        let loaded = keygen::load_public_key(path).map_err(|error| {
            AddFailure::fatal(format!("load certificate {}: {error}", path.display()))
        })?;
        blobs.push(loaded.key.blob());
    }
    if !blobs.is_empty() && !options.keys_only {
        constraints.certificates = Some(AssociatedCertificates {
            only: options.certificates_only,
            blobs,
        });
    }
    let shown = escape::one_line(library.as_bytes());
    let (done, verb, participle) = match options.removes {
        true => (
            connection.remove_token(library.as_bytes()),
            "remove",
            "removed",
        ),
        false => {
            let pin = match keygen::ask_passphrase("Enter passphrase for PKCS#11: ") {
                Ok(pin) => pin,
                Err(error) => {
                    eprintln!("{error}");
                    return Ok(Err(Failed));
                }
            };
            let added = connection.add_token(library.as_bytes(), &pin, &constraints);
            (added, "add", "added")
        }
    };
    Ok(match done {
        Ok(()) => {
            if !options.quiet {
                eprintln!("Card {participle}: {shown}");
            }
            Ok(())
        }
        Err(error) => {
            eprintln!("Could not {verb} card \"{shown}\": {error}");
            Err(Failed)
        }
    })
}
