//! Packages for Debian and its relatives, packed by dpkg-deb: `fulmar`, and
//! `fulmar-replaces-openssh`, whose installation is `fulmar install --replace-openssh`.

use std::fs;
use std::io::Result;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Package, materials, status_of, text_of};

/// Files that dpkg asks about before it replaces what somebody has changed.
const CONFFILES: [&str; 2] = ["/etc/fulmar/sshd_config", "/etc/pam.d/fulmar"];

pub(super) fn make(package: &Package, binary: &Path) -> Result<Vec<PathBuf>> {
    let architecture = text_of(Command::new("dpkg").arg("--print-architecture"))?;
    let stage = package.stage("deb")?;
    package.tree(binary, &stage, "/usr", &["--pam", "debian"])?;
    documents(package, &stage, "fulmar")?;
    write(
        &stage.join("usr/share/lintian/overrides/fulmar"),
        &package.text("deb/overrides", &[])?,
        0o644,
    )?;
    let depends = depends(package, &stage.join("usr/bin/fulmar"))?;
    let size = size(&stage)?;
    let values = [
        ("ARCH", architecture.as_str()),
        ("DEPENDS", &depends),
        ("SIZE", &size),
    ];
    let control = stage.join("DEBIAN");
    write(
        &control.join("control"),
        &package.text("deb/control", &values)?,
        0o644,
    )?;
    write(
        &control.join("conffiles"),
        &(CONFFILES.join("\n") + "\n"),
        0o644,
    )?;
    for script in ["postinst", "prerm", "postrm"] {
        write(
            &control.join(script),
            &package.text(&format!("deb/{script}"), &[])?,
            0o755,
        )?;
    }
    let all = package.stage("deb-replaces")?;
    documents(package, &all, "fulmar-replaces-openssh")?;
    let control = all.join("DEBIAN");
    write(
        &control.join("control"),
        &package.text("deb/control-replaces", &[("SIZE", "20")])?,
        0o644,
    )?;
    for script in ["postinst", "prerm"] {
        write(
            &control.join(script),
            &package.text(&format!("deb/{script}-replaces"), &[])?,
            0o755,
        )?;
    }
    let version = &package.version;
    [
        (stage, format!("fulmar_{version}_{architecture}.deb")),
        (all, format!("fulmar-replaces-openssh_{version}_all.deb")),
    ]
    .into_iter()
    .map(|(stage, name)| pack(package, &stage, &name))
    .collect()
}

fn pack(package: &Package, stage: &Path, name: &str) -> Result<PathBuf> {
    let sums = "cd \"$1\" && find . -path ./DEBIAN -prune -o -path ./etc -prune -o -type f -printf '%P\\n' \
                | LC_ALL=C sort | xargs -r md5sum >DEBIAN/md5sums && chmod 644 DEBIAN/md5sums";
    status_of(Command::new("sh").args(["-c", sums, "sh"]).arg(stage))?;
    package.settle(stage)?;
    let path = package.out.join(name);
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--root-owner-group", "-Zxz", "--build"])
        .arg(stage)
        .arg(&path);
    status_of(
        pack.env("SOURCE_DATE_EPOCH", &package.epoch)
            .stdout(std::process::Stdio::null()),
    )?;
    Ok(path)
}

/// Copyright and changelog.
fn documents(package: &Package, stage: &Path, name: &str) -> Result<()> {
    let folder = stage.join("usr/share/doc").join(name);
    write(
        &folder.join("copyright"),
        &materials::copyright(package)?,
        0o644,
    )?;
    let date = package.date(&["--rfc-email"])?;
    let (version, maintainer) = (&package.version, &package.maintainer);
    let changes = format!(
        "{name} ({version}) unstable; urgency=medium\n\n  * CHANGELOG.md of Fulmar lists the changes.\n\n -- {maintainer}  {date}\n"
    );
    let path = folder.join("changelog");
    write(&path, &changes, 0o644)?;
    status_of(Command::new("gzip").arg("-9n").arg(&path))
}

/// The libraries that the binary needs with their versions, as dpkg-shlibdeps finds them.
fn depends(package: &Package, binary: &Path) -> Result<String> {
    let folder = package.stage("shlibdeps")?;
    write(
        &folder.join("debian/control"),
        "Source: fulmar\n\nPackage: fulmar\nArchitecture: any\n",
        0o644,
    )?;
    let found = text_of(
        Command::new("dpkg-shlibdeps")
            .arg("-O")
            .arg(binary)
            .current_dir(&folder),
    )?;
    Ok(found.trim_start_matches("shlibs:Depends=").to_owned())
}

/// In KiB, as dpkg counts.
fn size(stage: &Path) -> Result<String> {
    let size = text_of(
        Command::new("du")
            .args(["-sk", "--apparent-size"])
            .arg(stage),
    )?;
    Ok(size.split_whitespace().next().unwrap_or("0").to_owned())
}

fn write(path: &Path, text: &str, mode: u32) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}
