//! Shared code of this crate's tests: temporary folders, the installed ssh-keygen, and
//! deterministic damage.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::certificate::{CertificateFields, CertificateKind};
use crate::{EcCurve, KeySpec, PresentedKey, PrivateKey, SignatureAlgorithm};

/// The kinds of keys whose files are tested in every format.
pub(crate) const SPECS: [KeySpec; 5] = [
    KeySpec::Ed25519,
    KeySpec::Ecdsa(EcCurve::P256),
    KeySpec::Ecdsa(EcCurve::P384),
    KeySpec::Ecdsa(EcCurve::P521),
    KeySpec::Rsa { bits: 2048 },
];

/// The same key for each `seed`.
pub(crate) fn key(seed: u8) -> PrivateKey {
    PrivateKey::from_ed25519_seed(&[seed; 32])
}

/// A certificate without limit of time for the key of `seed`, signed by that of `authority`.
pub(crate) fn signed(
    kind: CertificateKind,
    principal: &str,
    seed: u8,
    authority: u8,
    serial: u64,
    key_id: &str,
) -> PresentedKey {
    let fields = CertificateFields {
        key: key(seed).public().clone(),
        serial,
        kind,
        key_id: key_id.to_owned(),
        principals: vec![principal.to_owned()],
        valid_after: 0,
        valid_before: u64::MAX,
        critical_options: Vec::new(),
        extensions: Vec::new(),
    };
    let signed = fields.sign(&key(authority), SignatureAlgorithm::Ed25519);
    signed.unwrap().into()
}

/// A temporary folder, removed on drop.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fulmar-keys-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.0
    }

    /// Writes a file with mode 0600.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let path = self.path(name);
        std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .unwrap()
            .write_all(bytes)
            .unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// Runs ssh-keygen in the folder, with blank-separated arguments.
    pub(crate) fn keygen(&self, arguments: &str) -> Output {
        self.keygen_args(&arguments.split_whitespace().collect::<Vec<_>>())
    }

    pub(crate) fn keygen_args(&self, arguments: &[&str]) -> Output {
        Command::new("ssh-keygen")
            .args(arguments)
            .current_dir(&self.0)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Runs ssh-keygen, which must succeed; returns its standard output.
    pub(crate) fn keygen_ok(&self, arguments: &str) -> String {
        succeeded(arguments, self.keygen(arguments))
    }

    pub(crate) fn keygen_args_ok(&self, arguments: &[&str]) -> String {
        succeeded(&arguments.join(" "), self.keygen_args(arguments))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn succeeded(arguments: &str, output: Output) -> String {
    assert!(
        output.status.success(),
        "ssh-keygen {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// True if ssh-keygen is installed; prints a message if not.
pub(crate) fn have_ssh_keygen() -> bool {
    let found = Command::new("ssh-keygen")
        .arg("-?")
        .stdin(Stdio::null())
        .output()
        .is_ok();
    if !found {
        eprintln!("skipped: no ssh-keygen on this machine");
    }
    found
}

/// A small random generator with a fixed seed, so that every run applies the same damage.
pub(crate) struct Damage(u64);

impl Damage {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap();
        usize::try_from(self.next() % bound).unwrap()
    }

    /// Returns a copy of `bytes` with a few bytes changed, removed or inserted.
    pub(crate) fn apply(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = bytes.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(out.len());
            let byte = u8::try_from(self.next() & 0xff).unwrap();
            match self.below(6) {
                0 if !out.is_empty() => out[at] = byte,
                1 if !out.is_empty() => out[at] ^= 1 << (byte & 7),
                2 => out.truncate(at),
                3 => out.insert(at, byte),
                4 if !out.is_empty() => {
                    let end = (at + self.below(40)).min(out.len());
                    out.drain(at..end);
                }
                _ if at + 4 <= out.len() => {
                    out[at..at + 4].copy_from_slice(&[0xff, 0xff, 0xff, byte]);
                }
                _ => {}
            }
        }
        out
    }
}

/// Calls `parse` with many damaged copies of `bytes`; it must not panic.
pub(crate) fn survives_damage(bytes: &[u8], rounds: u64, mut parse: impl FnMut(&[u8])) {
    for seed in 1..=rounds {
        parse(&Damage::new(seed).apply(bytes));
    }
    for end in 0..bytes.len().min(2000) {
        parse(&bytes[..end]);
    }
}
