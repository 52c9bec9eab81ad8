//! The static programs in a tar archive: for machines without a package, and without a server, since
//! accounts of directories (NSS) and PAM need the machine's C library.

use std::fs;
use std::io::Result;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{MUSL, Package, status_of};

/// Programs that the archive's binary is by links.
const PROGRAMS: [&str; 9] = [
    "ssh",
    "scp",
    "sftp",
    "ssh-keygen",
    "ssh-agent",
    "ssh-add",
    "ssh-keyscan",
    "ssh-copy-id",
    "sftp-server",
];

pub(super) fn make(package: &Package, binary: &Path) -> Result<PathBuf> {
    let name = format!("fulmar-{}-{MUSL}", package.version);
    let stage = package.stage("tar")?;
    let tree = package.stage("tar-tree")?;
    package.tree(binary, &tree, "debian")?;
    let folder = stage.join(&name);
    fs::create_dir_all(folder.join("bin"))?;
    fs::rename(tree.join("usr/bin/fulmar"), folder.join("bin/fulmar"))?;
    for program in PROGRAMS {
        symlink("fulmar", folder.join("bin").join(program))?;
    }
    fs::rename(tree.join("usr/share"), folder.join("share"))?;
    for license in ["LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md"] {
        fs::copy(package.root.join(license), folder.join(license))?;
    }
    let path = package.out.join(format!("{name}.tar.gz"));
    let mut pack = Command::new("tar");
    pack.args([
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--format=gnu",
    ]);
    pack.arg(format!("--mtime=@{}", package.epoch))
        .arg("--directory")
        .arg(&stage);
    pack.args(["--use-compress-program", "gzip -9n", "--create", "--file"])
        .arg(&path)
        .arg(&name);
    status_of(&mut pack)?;
    Ok(path)
}
