//! `cargo xtask package`: packages of the release build without benchmarks, in target/package.
//!
//! `fulmar install --package` writes the tree, so that a package has what an installation has;
//! dpkg-deb, rpmbuild and tar pack it. All times are those of the last commit, and no path of the
//! build is in the result, so that two builds of a commit are equal.

use std::fs;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

mod deb;
mod materials;
mod rpm;
mod tarball;
mod tools;

/// What all kinds of packages need.
struct Package {
    /// The workspace's root.
    root: PathBuf,
    /// Where packages go.
    out: PathBuf,
    version: String,
    /// Seconds since 1970, of the last commit.
    epoch: String,
    maintainer: String,
    /// An ssh key that signs the sums.
    signer: Option<String>,
    /// Cargo's profile of the binaries: `release`, or another one for trials.
    profile: String,
}

/// Makes the packages that `arguments` name; returns 0, 1 after a failure, 2 for bad arguments.
pub(crate) fn run(arguments: &[String]) -> i32 {
    match make(arguments) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("xtask package: {error}");
            1
        }
    }
}

fn make(arguments: &[String]) -> Result<i32> {
    let root = fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))?;
    let mut package = Package {
        out: root.join("target/package"),
        version: version(&root)?,
        epoch: text_of(
            Command::new("git")
                .args(["log", "-1", "--format=%ct"])
                .current_dir(&root),
        )?,
        maintainer: "Fulmar developers <packages@fulmar.invalid>".to_owned(),
        signer: None,
        profile: "release".to_owned(),
        root,
    };
    let mut kinds = Vec::new();
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match (word.as_str(), word.starts_with("--")) {
            ("--out", _) => {
                package.out = rest
                    .next()
                    .map(PathBuf::from)
                    .ok_or_else(|| Error::other("--out needs a folder"))?
            }
            ("--sign", _) => package.signer = rest.next().cloned(),
            ("--maintainer", _) => package.maintainer = rest.next().cloned().unwrap_or_default(),
            ("--profile", _) => {
                package.profile = rest
                    .next()
                    .cloned()
                    .ok_or_else(|| Error::other("--profile needs a name"))?
            }
            ("deb" | "rpm" | "tarball" | "all", _) => kinds.push(word.as_str()),
            _ => {
                eprintln!("xtask package: unknown argument {word}");
                return Ok(2);
            }
        }
    }
    if kinds.contains(&"all") {
        kinds = vec!["deb", "rpm", "tarball"];
    }
    let kinds = tools::choose(&kinds, tools::is_there)?;
    fs::create_dir_all(&package.out)?;
    let (mut made, mut binaries) = (Vec::new(), Vec::new());
    let outcome = make_kinds(&package, &kinds, &mut made, &mut binaries);
    // Also of what was made before a failure.
    let summed = package.sums(&made, binaries.first());
    outcome.and(summed).map(|()| 0)
}

/// Makes the packages of all `kinds`; what is made, and the binaries in it, are in `made` and `binaries` also after a failure.
fn make_kinds(
    package: &Package,
    kinds: &[&str],
    made: &mut Vec<PathBuf>,
    binaries: &mut Vec<PathBuf>,
) -> Result<()> {
    made.push(materials::write(package)?);
    if kinds.contains(&"deb") || kinds.contains(&"rpm") {
        let binary = package.binary()?;
        binaries.push(binary.clone());
        if kinds.contains(&"deb") {
            made.extend(deb::make(package, &binary)?);
        }
        if kinds.contains(&"rpm") {
            made.push(rpm::make(package, &binary)?);
        }
    }
    if kinds.contains(&"tarball") {
        let binary = tarball::binary(package)?;
        binaries.push(binary.clone());
        made.push(tarball::make(package, &binary)?);
    }
    Ok(())
}

impl Package {
    /// The binary to pack: FULMAR_BIN, or a release build without benchmarks.
    fn binary(&self) -> Result<PathBuf> {
        match std::env::var_os("FULMAR_BIN") {
            Some(binary) => Ok(binary.into()),
            None => self.build(None),
        }
    }

    /// Builds the binary without benchmarks, for another target of the compiler if one is named. Its
    /// text names no directory of this machine, so that it depends on the sources alone.
    fn build(&self, target: Option<&str>) -> Result<PathBuf> {
        let folder = self.root.join("target/packaged");
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build
            .args(["build", "--locked", "-p", "cli", "--no-default-features"])
            .args(["--profile", &self.profile])
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &folder)
            // Cargo's own form: a path may have a blank.
            .env(
                "CARGO_ENCODED_RUSTFLAGS",
                self.maps("--remap-path-prefix=").join("\x1f"),
            )
            .env("CC_SHELL_ESCAPED_FLAGS", "1")
            .env("CFLAGS", quoted(&self.maps("-ffile-prefix-map=")))
            .env("SOURCE_DATE_EPOCH", &self.epoch);
        if let Some(target) = target {
            build.args(["--target", target]);
        }
        status_of(&mut build)?;
        let built = match self.profile.as_str() {
            "dev" => "debug",
            name => name,
        };
        Ok(folder
            .join(target.unwrap_or_default())
            .join(built)
            .join("fulmar"))
    }

    /// Flags that replace the directories of this machine in what a compiler writes: that of the
    /// sources and that of Cargo's crates. The compiler does so for its own.
    fn maps(&self, flag: &str) -> Vec<String> {
        let home = std::env::var("HOME").unwrap_or_default();
        let cargo = std::env::var("CARGO_HOME").unwrap_or_else(|_| format!("{home}/.cargo"));
        let places = [
            (self.root.display().to_string(), "/fulmar"),
            (cargo, "/cargo"),
        ];
        let map = |(from, to): (String, &str)| format!("{flag}{from}={to}");
        places.into_iter().map(map).collect()
    }

    /// An empty folder below `out` in which a package is put together.
    fn stage(&self, name: &str) -> Result<PathBuf> {
        let stage = self.out.join("stage").join(name);
        if stage.exists() {
            fs::remove_dir_all(&stage)?;
        }
        fs::create_dir_all(&stage)?;
        Ok(stage)
    }

    /// The files of an installation below `stage`, with the binary stripped and pages compressed.
    fn tree(&self, binary: &Path, stage: &Path, prefix: &str, more: &[&str]) -> Result<()> {
        let mut install = Command::new(binary);
        install
            .args(["install", "--package", "--prefix", prefix])
            .args(more)
            .arg("--root")
            .arg(stage);
        install.stdout(std::process::Stdio::null());
        status_of(&mut install)?;
        let top = stage.join(prefix.trim_start_matches('/'));
        status_of(
            Command::new("strip")
                .args(["--strip-unneeded", "--remove-section=.comment"])
                .arg(top.join("bin/fulmar")),
        )?;
        let pages = top.join("share/man");
        status_of(
            Command::new("find")
                .arg(pages)
                .args(["-type", "f", "-exec", "gzip", "-9n", "{}", "+"]),
        )
    }

    /// A text of packages/ with its `@NAME@` replaced.
    fn text(&self, name: &str, values: &[(&str, &str)]) -> Result<String> {
        let path = self.root.join("packages").join(name);
        let mut text = fs::read_to_string(&path)
            .map_err(|error| Error::other(format!("{}: {error}", path.display())))?;
        let common = [
            ("VERSION", self.version.as_str()),
            ("MAINTAINER", &self.maintainer),
        ];
        for (name, value) in common.iter().chain(values) {
            text = text.replace(&format!("@{name}@"), value);
        }
        Ok(text)
    }

    /// The date of the commit, as date(1) prints it with `form`.
    fn date(&self, form: &[&str]) -> Result<String> {
        let mut date = Command::new("date");
        date.args(["--utc", "--date", &format!("@{}", self.epoch)]);
        text_of(date.args(form).env("LC_ALL", "C"))
    }

    /// Sets the times of all files below `folder` to that of the commit.
    fn settle(&self, folder: &Path) -> Result<()> {
        let date = format!("@{}", self.epoch);
        status_of(Command::new("find").arg(folder).args([
            "-exec",
            "touch",
            "--no-dereference",
            "--date",
            &date,
            "{}",
            "+",
        ]))
    }

    /// Writes SHA256SUMS, and its signature (namespace `file`) by `fulmar` if a key is named.
    fn sums(&self, made: &[PathBuf], fulmar: Option<&PathBuf>) -> Result<()> {
        let names: Vec<&std::ffi::OsStr> =
            made.iter().filter_map(|path| path.file_name()).collect();
        let sums = text_of(
            Command::new("sha256sum")
                .args(&names)
                .current_dir(&self.out),
        )? + "\n";
        let path = self.out.join("SHA256SUMS");
        fs::write(&path, &sums)?;
        print!("{sums}");
        let (Some(signer), Some(fulmar)) = (&self.signer, fulmar) else {
            println!("SHA256SUMS is not signed: --sign KEY");
            return Ok(());
        };
        let signature = self.out.join("SHA256SUMS.sig");
        if signature.exists() {
            fs::remove_file(&signature)?;
        }
        status_of(
            Command::new(fulmar)
                .args(["keygen", "-Y", "sign", "-n", "file", "-f", signer])
                .arg(&path),
        )
    }
}

/// The version of the workspace.
fn version(root: &Path) -> Result<String> {
    let text = fs::read_to_string(root.join("Cargo.toml"))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("version = \""));
    let version = line.and_then(|line| line.strip_suffix('"'));
    version
        .map(str::to_owned)
        .ok_or_else(|| Error::other("Cargo.toml has no version"))
}

/// The flags in the form that CFLAGS has for the crate `cc` with CC_SHELL_ESCAPED_FLAGS.
fn quoted(flags: &[String]) -> String {
    let quoted = flags.iter().map(|flag| format!("'{flag}'"));
    quoted.collect::<Vec<_>>().join(" ")
}

/// Runs a command that must succeed.
fn status_of(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .map_err(|error| named(command, &error.to_string()))?;
    match status.success() {
        true => Ok(()),
        false => Err(named(command, &status.to_string())),
    }
}

/// The output of a command that must succeed, without the last line's end.
fn text_of(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .map_err(|error| named(command, &error.to_string()))?;
    if !output.status.success() {
        return Err(named(command, &String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned())
}

fn named(command: &Command, why: &str) -> Error {
    Error::other(format!("{}: {why}", command.get_program().display()))
}
