//! `cargo xtask man`: the generated parts of `man/` and `completion/`.
//!
//! The pages of the two configuration files are made from the tables of `crates/config`, with
//! the words of `man/*.keywords` here; the completions from [`flags`]. The other pages are
//! written by hand. The tests hold all of it against the tables, so that a keyword or flag
//! cannot come or go without its words.

mod completion;
mod config_page;
mod flags;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

/// A file that is made, from the workspace's root.
struct Made {
    path: &'static str,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
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

/// Writes what is made; gives the exit status.
pub fn run() -> i32 {
    let written = all().and_then(|made| {
        for Made { path, text } in made {
            std::fs::write(root().join(path), text).map_err(|error| format!("{path}: {error}"))?;
            println!("{path}");
        }
        Ok(())
    });
    match written {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("xtask man: {why}");
            1
        }
    }
}
