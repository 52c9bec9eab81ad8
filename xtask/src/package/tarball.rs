//! An archive with a static binary, which needs no library of the system that it is unpacked on: the
//! client's programs, the agent, the tools and sftp-server. musl, the C library that can be linked
//! statically, has neither NSS nor PAM, so that there is no server in it.

use std::fs;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Package, status_of, text_of};

/// The binary to pack: FULMAR_STATIC_BIN, or a build for musl.
pub(super) fn binary(package: &Package) -> Result<PathBuf> {
    let binary = match std::env::var_os("FULMAR_STATIC_BIN") {
        Some(binary) => binary.into(),
        None => {
            let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
            package.build(Some(&target))?
        }
    };
    // The segment that names the dynamic loader.
    let segments = text_of(Command::new("readelf").arg("-lW").arg(&binary))?;
    match segments.contains("INTERP") {
        true => Err(Error::other(format!("{} is not static", binary.display()))),
        false => Ok(binary),
    }
}

/// Packs it as `NAME.tar.gz`, whose files are in a folder `NAME` that may be unpacked anywhere.
pub(super) fn make(package: &Package, binary: &Path) -> Result<PathBuf> {
    let (version, architecture) = (&package.version, std::env::consts::ARCH);
    let name = format!("fulmar-{version}-{architecture}-static");
    let stage = package.stage("tarball")?;
    package.tree(binary, &stage, &format!("/{name}"), &[])?;
    let documents = stage.join(&name).join("share/doc/fulmar");
    fs::create_dir_all(&documents)?;
    for file in ["LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md"] {
        fs::copy(package.root.join(file), documents.join(file))?;
    }
    let materials = format!("fulmar-{version}.cdx.json");
    fs::copy(package.out.join(&materials), documents.join(&materials))?;
    package.settle(&stage)?;
    let path = package.out.join(format!("{name}.tar.gz"));
    let mut pack = Command::new("tar");
    pack.args(["--sort=name", "--format=gnu", "--owner=0", "--group=0"])
        .args(["--numeric-owner", "--mode=u=rwX,go=rX"])
        .args(["--use-compress-program", "gzip -9n"])
        .arg("--create")
        .arg("--file")
        .arg(&path)
        .arg("--directory")
        .arg(&stage)
        .arg(&name);
    status_of(&mut pack)?;
    Ok(path)
}
