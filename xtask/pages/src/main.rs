//! Generates parts of `man/` and `completion/` (`cargo xtask man`), and prints the coverage of
//! OpenSSH's keywords (`cargo xtask surface`). It is a crate of its own because xtask has no
//! dependencies: building the tables takes minutes on a fresh machine.
//!
//! The pages of the two configuration files are generated from the tables of `crates/config` and
//! the descriptions in the `.keywords` files; the completions from [`flags`]. The other pages are
//! written by hand. The tests compare all pages with the tables, so that nobody can add or remove
//! a keyword or flag without its description.

mod completion;
mod config_page;
mod surface;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A generated file; its path is relative to the workspace's root.
struct Made {
    path: &'static str,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Generates all files.
///
/// # Errors
///
/// A keyword without a description, or a description without a keyword.
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
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [] => write(),
        [task] if task == "surface" => show(surface::PAGES),
        [task, folder] if task == "surface" => show(folder),
        _ => Err("usage: pages [surface [FOLDER]]".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("pages: {why}");
            ExitCode::FAILURE
        }
    }
}

fn show(folder: &str) -> Result<(), String> {
    surface::surface(Path::new(folder)).map(|text| print!("{text}"))
}

fn write() -> Result<(), String> {
    all().and_then(|made| {
        for Made { path, text } in made {
            std::fs::write(root().join(path), text).map_err(|error| format!("{path}: {error}"))?;
            println!("{path}");
        }
        Ok(())
    })
}
