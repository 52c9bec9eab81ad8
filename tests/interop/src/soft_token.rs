//! A token of SoftHSM with keys of each type, made with SoftHSM's and OpenSC's own tools.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::process::{Input, installed};
use crate::report::skipped;
use crate::scratch::Scratch;
use crate::site::finish;

/// The user's PIN.
pub const PIN: &str = "123456";
/// The token's label.
pub const LABEL: &str = "fulmar-token";
/// Each key: label, type for pkcs11-tool, and the SSH name of its type.
pub const KEYS: [(&str, &str, &str); 4] = [
    ("rsa key", "rsa:2048", "ssh-rsa"),
    ("p256 key", "EC:prime256v1", "ecdsa-sha2-nistp256"),
    ("p384 key", "EC:secp384r1", "ecdsa-sha2-nistp384"),
    ("p521 key", "EC:secp521r1", "ecdsa-sha2-nistp521"),
];

const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so",
    "/usr/lib/aarch64-linux-gnu/softhsm/libsofthsm2.so",
    "/usr/lib64/pkcs11/libsofthsm2.so",
];

/// A token in a directory of its own.
#[derive(Debug)]
pub struct SoftToken {
    /// SoftHSM's library.
    pub library: &'static Path,
    scratch: Scratch,
}

impl SoftToken {
    /// Makes a token with [`KEYS`]; `None` if SoftHSM or pkcs11-tool is not installed.
    ///
    /// # Panics
    /// If the tools fail.
    #[must_use]
    pub fn new() -> Option<Self> {
        let library = LIBRARIES.iter().map(Path::new).find(|path| path.exists());
        let tools = ["softhsm2-util", "pkcs11-tool"].map(installed);
        let (Some(library), [Some(util), Some(_)]) = (library, tools) else {
            skipped("tokens", &"softhsm2 or opensc is not installed");
            return None;
        };
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.join("tokens")).expect("a directory");
        let text = format!(
            "directories.tokendir = {}\nobjectstore.backend = file\nlog.level = ERROR\n",
            scratch.join("tokens").display()
        );
        scratch.write("softhsm2.conf", text);
        let token = Self { library, scratch };
        let init = [
            "--init-token",
            "--free",
            "--label",
            LABEL,
            "--so-pin",
            "12345678",
        ];
        token.tool(&util, &[&init[..], &["--pin", PIN]].concat());
        for (label, kind, _) in KEYS {
            token.add_key(label, kind);
        }
        Some(token)
    }

    /// Makes another key of this type for pkcs11-tool.
    ///
    /// # Panics
    /// If the tool fails.
    pub fn add_key(&self, label: &str, kind: &str) {
        self.add_key_with(label, kind, &[]);
    }

    /// As [`add_key`](Self::add_key), with more flags of pkcs11-tool.
    ///
    /// # Panics
    /// If the tool fails.
    pub fn add_key_with(&self, label: &str, kind: &str, flags: &[&str]) {
        static NEXT: AtomicU32 = AtomicU32::new(10);
        let id = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
        let module = self.library.display().to_string();
        let tool = installed("pkcs11-tool").expect("pkcs11-tool");
        let login = [
            "--module",
            &module,
            "--login",
            "--pin",
            PIN,
            "--token-label",
            LABEL,
        ];
        let make = [
            "--keypairgen",
            "--key-type",
            kind,
            "--label",
            label,
            "--id",
            &id,
        ];
        self.tool(&tool, &[&login[..], &make, flags].concat());
    }

    fn tool(&self, program: &Path, arguments: &[&str]) {
        let mut command = Command::new(program);
        self.reach(command.args(arguments));
        let done = finish(&mut command, Input::Nothing);
        assert_eq!(done.status, 0, "{}", done.summary());
    }

    /// Sets the environment in which the library finds the token.
    pub fn reach<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("SOFTHSM2_CONF", self.scratch.join("softhsm2.conf"))
    }

    /// The files of the token's objects, which can be taken away.
    #[must_use]
    pub fn objects(&self) -> PathBuf {
        self.scratch.join("tokens")
    }

    /// A directory for a test's own files.
    #[must_use]
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }
}
