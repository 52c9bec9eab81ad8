//! Puts the manual pages and completions of the workspace into the binary, for `fulmar install`:
//! a page that is written is installed, without a list of pages to keep.
//!
//! Lines between the comments `bench: begin` and `bench: end` are only in builds with the feature
//! `bench`; a page without other lines is left out of those without it.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let has_bench = env::var_os("CARGO_FEATURE_BENCH").is_some();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut table = String::from("&[\n");
    for folder in ["man", "completion"] {
        let folder = root.join(folder);
        println!("cargo::rerun-if-changed={}", folder.display());
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder)? {
            paths.push(entry?.path());
        }
        paths.sort();
        for path in paths {
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(place) = name.and_then(place) else {
                continue;
            };
            println!("cargo::rerun-if-changed={}", path.display());
            let mut text = fs::read_to_string(path)?;
            if !has_bench {
                text = without_bench(&text)?;
            }
            if !text.is_empty() {
                writeln!(table, "({place:?}, {text:?}),").map_err(io::Error::other)?;
            }
        }
    }
    table.push_str("]\n");
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("no OUT_DIR"))?;
    fs::write(Path::new(&out).join("share.rs"), table)
}

/// The text without the parts that only builds with the feature `bench` have.
fn without_bench(text: &str) -> io::Result<String> {
    let mut kept = String::new();
    let mut is_bench = false;
    for line in text.lines() {
        // A comment of the shells or of troff.
        match line.trim_start_matches([' ', '.', '\\', '"', '#']) {
            "bench: begin" if !is_bench => is_bench = true,
            "bench: end" if is_bench => is_bench = false,
            "bench: begin" | "bench: end" => return Err(io::Error::other("bench: out of order")),
            _ if is_bench => {}
            _ => kept.extend([line, "\n"]),
        }
    }
    match is_bench {
        true => Err(io::Error::other("bench: no end")),
        false => Ok(kept),
    }
}

/// Where the file goes below the prefix; `None` for a file that is not installed (an editor's copy).
fn place(name: &str) -> Option<String> {
    Some(match name {
        "_fulmar" => "share/zsh/site-functions/_fulmar".to_owned(),
        "fulmar.bash" => "share/bash-completion/completions/fulmar".to_owned(),
        "fulmar.fish" => "share/fish/vendor_completions.d/fulmar.fish".to_owned(),
        page => {
            let (_, section) = page.rsplit_once('.')?;
            let section: u8 = section.parse().ok()?;
            format!("share/man/man{section}/{page}")
        }
    })
}
