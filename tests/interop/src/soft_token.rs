//! Tokens in software with keys of each type: of SoftHSM, made with its own tool, and of kryoptic (`.ci/kryoptic`). OpenSC's
//! pkcs11-tool makes the keys.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::fixture::target_folder;
use crate::process::{Input, installed};
use crate::report::skipped;
use crate::scratch::Scratch;
use crate::site::finish;

/// The user's PIN.
pub const PIN: &str = "123456";
/// The security officer's PIN.
const OFFICER_PIN: &str = "12345678";
/// The token's label.
pub const LABEL: &str = "fulmar-token";
/// Each key: label, type for pkcs11-tool, and the SSH name of its type.
pub const KEYS: [(&str, &str, &str); 4] = [
    ("rsa key", "rsa:2048", "ssh-rsa"),
    ("p256 key", "EC:prime256v1", "ecdsa-sha2-nistp256"),
    ("p384 key", "EC:secp384r1", "ecdsa-sha2-nistp384"),
    ("p521 key", "EC:secp521r1", "ecdsa-sha2-nistp521"),
];

/// Whose token it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoftLibrary {
    /// SoftHSM 2.
    SoftHsm,
    /// kryoptic, whose PIN is locked after wrong attempts.
    Kryoptic,
}

/// Where SoftHSM's library is.
const SOFT_HSM: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so",
    "/usr/lib/aarch64-linux-gnu/softhsm/libsofthsm2.so",
    "/usr/lib64/pkcs11/libsofthsm2.so",
];

impl SoftLibrary {
    /// The library, or the reason why there is none.
    fn path(self) -> Result<PathBuf, &'static str> {
        if installed("pkcs11-tool").is_none() {
            return Err("opensc is not installed");
        }
        match self {
            Self::SoftHsm => {
                let found = SOFT_HSM
                    .iter()
                    .map(PathBuf::from)
                    .find(|path| path.exists());
                let tool = installed("softhsm2-util");
                found
                    .filter(|_| tool.is_some())
                    .ok_or("softhsm2 is not installed")
            }
            Self::Kryoptic => {
                let built = target_folder().join("kryoptic/libkryoptic_pkcs11.so");
                built
                    .canonicalize()
                    .map_err(|_| "sh .ci/kryoptic builds it")
            }
        }
    }

    /// The variable that names its configuration.
    #[must_use]
    pub fn variable(self) -> &'static str {
        match self {
            Self::SoftHsm => "SOFTHSM2_CONF",
            Self::Kryoptic => "KRYOPTIC_CONF",
        }
    }

    /// A configuration with objects in this directory.
    fn configuration(self, objects: &Path) -> String {
        let objects = objects.display();
        match self {
            Self::SoftHsm => format!(
                "directories.tokendir = {objects}\nobjectstore.backend = file\nlog.level = ERROR\n"
            ),
            Self::Kryoptic => format!(
                "[[slots]]\nslot = 1\ndbtype = \"sqlite\"\ndbargs = \"{objects}/token.sql\"\n"
            ),
        }
    }
}

/// A token in a directory of its own.
#[derive(Debug)]
pub struct SoftToken {
    /// Whose it is.
    pub of: SoftLibrary,
    /// The library's path without links.
    pub library: PathBuf,
    scratch: Scratch,
}

impl SoftToken {
    /// Makes a token with [`KEYS`]; `None` if the library or pkcs11-tool is not there.
    ///
    /// # Panics
    /// If the tools fail.
    #[must_use]
    pub fn new(of: SoftLibrary) -> Option<Self> {
        let library = match of.path() {
            Ok(library) => library,
            Err(why) => {
                skipped(&format!("tokens of {of:?}"), &why);
                return None;
            }
        };
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.join("tokens")).expect("a directory");
        scratch.write("conf", of.configuration(&scratch.join("tokens")));
        let token = Self {
            of,
            library,
            scratch,
        };
        match of {
            SoftLibrary::SoftHsm => {
                let init = ["--init-token", "--free", "--label", LABEL];
                let pins = ["--so-pin", OFFICER_PIN, "--pin", PIN];
                token.tool("softhsm2-util", &[&init[..], &pins].concat());
            }
            SoftLibrary::Kryoptic => {
                let init = ["--init-token", "--label", LABEL, "--so-pin", OFFICER_PIN];
                token.pkcs11_tool(&init);
                let officer = ["--login", "--login-type", "so", "--so-pin", OFFICER_PIN];
                token.pkcs11_tool(&[&officer[..], &["--init-pin", "--new-pin", PIN]].concat());
            }
        }
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
        // Hexadecimal digits, two for each byte.
        let id = format!("{:04}", NEXT.fetch_add(1, Ordering::Relaxed));
        let login = ["--login", "--pin", PIN, "--token-label", LABEL];
        let make = [
            "--keypairgen",
            "--key-type",
            kind,
            "--label",
            label,
            "--id",
            &id,
        ];
        self.pkcs11_tool(&[&login[..], &make, flags].concat());
    }

    fn pkcs11_tool(&self, arguments: &[&str]) {
        let module = self.library.display().to_string();
        self.tool(
            "pkcs11-tool",
            &[&["--module", &module][..], arguments].concat(),
        );
    }

    fn tool(&self, program: &str, arguments: &[&str]) {
        let mut command = Command::new(installed(program).expect("a tool"));
        self.reach(command.args(arguments));
        let done = finish(&mut command, Input::Nothing);
        assert_eq!(done.status, 0, "{}", done.summary());
    }

    /// Sets the environment in which the library finds the token.
    pub fn reach<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env(self.of.variable(), self.scratch.join("conf"))
    }

    /// The directory of the token's objects, which can be taken away.
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
