//! The generated parts of `man/` and `completion/`; `cargo xtask man` runs this. It is no part of
//! xtask, which depends on nothing: building the tables takes minutes on a fresh machine.
//!
//! The pages of the two configuration files are made from the tables of `crates/config`, with
//! the words of the `.keywords` files here; the completions from [`flags`]. The other pages are
//! written by hand. The tests hold all of it against the tables, so that a keyword or flag
//! cannot come or go without its words.

mod completion;
mod config_page;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A file that is made, from the workspace's root.
struct Made {
    path: &'static str,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Everything that is made, or what is missing for it.
fn all() -> Result<Vec<Made>, String> {
    let mut made = vec![
        Made {
            path: "man/fulmar_ssh_config.5",
            text: config_page::ssh_config()?,
        },
        Made {
            path: "man/fulmar_sshd_config.5",
            text: config_page::sshd_config()?,
        },
    ];
    made.extend(completion::all());
    Ok(made)
}

fn main() -> ExitCode {
    let written = all().and_then(|made| {
        for Made { path, text } in made {
            std::fs::write(root().join(path), text).map_err(|error| format!("{path}: {error}"))?;
            println!("{path}");
        }
        Ok(())
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("pages: {why}");
            ExitCode::FAILURE
        }
    }
}
