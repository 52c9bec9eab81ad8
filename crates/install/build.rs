//! Puts the manual pages and completions of the workspace into the binary, for `fulmar install`:
//! a page that is written is installed, without a list of pages to keep.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
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
            let path = path.canonicalize()?;
            writeln!(table, "({place:?}, include_str!({path:?})),").map_err(io::Error::other)?;
        }
    }
    table.push_str("]\n");
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("no OUT_DIR"))?;
    fs::write(Path::new(&out).join("share.rs"), table)
}

/// Where the file goes below the prefix; none for what is not installed (an editor's copy).
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
