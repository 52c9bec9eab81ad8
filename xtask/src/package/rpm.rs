//! The package for Fedora and its relatives, packed by rpmbuild.

use std::fs;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Package, status_of};

pub(super) fn make(package: &Package, binary: &Path) -> Result<PathBuf> {
    let stage = package.stage("rpm")?;
    package.tree(binary, &stage, "/usr", &["--pam", "redhat"])?;
    let documents = stage.join("usr/share/licenses/fulmar");
    fs::create_dir_all(&documents)?;
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(package.root.join(name), documents.join(name))?;
    }
    package.settle(&stage)?;
    let mut files = Vec::new();
    list(&stage, &stage, &mut files)?;
    files.sort();
    let top = package.stage("rpmbuild")?;
    let spec = top.join("fulmar.spec");
    let stage_text = stage.display().to_string();
    let date = package.date(&["+%a %b %d %Y"])?;
    let values = [
        ("STAGE", stage_text.as_str()),
        ("FILES", &files.join("\n")),
        ("DATE", &date),
    ];
    fs::write(&spec, package.text("rpm/fulmar.spec", &values)?)?;
    let mut build = Command::new("rpmbuild");
    build.args([
        "-bb",
        "--quiet",
        "--define",
        &format!("_topdir {}", top.display()),
    ]);
    for define in [
        "use_source_date_epoch_as_buildtime 1",
        "clamp_mtime_to_source_date_epoch 1",
        "_buildhost packages",
    ] {
        build.args(["--define", define]);
    }
    status_of(build.arg(&spec).env("SOURCE_DATE_EPOCH", &package.epoch))?;
    let architecture = std::env::consts::ARCH;
    let name = format!("fulmar-{}-1.{architecture}.rpm", package.version);
    let path = package.out.join(&name);
    let made = top.join("RPMS").join(architecture).join(&name);
    fs::copy(&made, &path).map_err(|error| Error::other(format!("{}: {error}", made.display())))?;
    Ok(path)
}

/// The lines of %files, with what each path is to rpm.
fn list(folder: &Path, stage: &Path, files: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let inside = Path::new("/").join(path.strip_prefix(stage).unwrap_or(&path));
        if entry.file_type()?.is_dir() {
            // Folders that no other package brings.
            if inside.file_name().is_some_and(|name| name == "fulmar") {
                files.push(format!("%dir {}", inside.display()));
            }
            list(&path, stage, files)?;
            continue;
        }
        let kind = match inside.to_string_lossy() {
            path if path.starts_with("/etc/") => "%config(noreplace) ",
            path if path.starts_with("/usr/share/man/") => "%doc ",
            path if path.starts_with("/usr/share/licenses/") => "%license ",
            _ => "",
        };
        files.push(format!("{kind}{}", inside.display()));
    }
    Ok(())
}
