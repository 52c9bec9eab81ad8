//! Signatures that browsers ask security keys for, made here by a software key of P-256: each verdict
//! is that of OpenSSH, for files and for logins. No browser and no token is needed. Files are also given to
//! the `ssh-keygen` of Debian unstable, where `cargo xtask regress` has installed it.

use std::path::PathBuf;
use std::process::Command;

use crypto::hash::HashAlgorithm;
use interop::agent::program;
use interop::fixture;
use interop::peers::ours::Kind;
use interop::peers::{python, unstable};
use interop::process::{Input, hex};
use interop::report::skipped;
use interop::scratch::Scratch;
use interop::site::{Site, finish};
use keys::sshsig::{self, FileSignature};
use keys::{PresentedKey, PrivateKey, PublicKey, SignatureAlgorithm, base64, private_file};

const ALGORITHM: &str = "webauthn-sk-ecdsa-sha2-nistp256@openssh.com";
const APPLICATION: &str = "example.org";
const NAMESPACE: &str = "file";
const TEXT: &[u8] = b"a message\n";

/// The parts of a signature that a case changes; what is signed agrees with them.
#[derive(Clone, Copy)]
struct Parts {
    of_type: &'static str,
    before: &'static str,
    after: &'static str,
    origin: &'static str,
    claimed: &'static str,
    flags: u8,
    extensions: &'static [u8],
}

const GOOD: Parts = Parts {
    of_type: "webauthn.get",
    before: "",
    after: "",
    origin: "https://example.org",
    claimed: "https://example.org",
    flags: 1,
    extensions: b"",
};

/// Each case with what is expected of it: of a file, and of a login.
fn cases() -> [(Parts, bool, bool); 13] {
    let both = |parts, is_good| (parts, is_good, is_good);
    let quoted = "https://example.org\",\"crossOrigin\":false,\"x\":\"";
    [
        both(GOOD, true),
        both(Parts { flags: 5, ..GOOD }, true),
        both(
            Parts {
                flags: 0x81,
                extensions: b"\xa0",
                ..GOOD
            },
            true,
        ),
        // A file's signer may do without a touch.
        (Parts { flags: 0, ..GOOD }, true, false),
        both(
            Parts {
                flags: 0x81,
                ..GOOD
            },
            false,
        ),
        both(
            Parts {
                extensions: b"\xa0",
                ..GOOD
            },
            false,
        ),
        both(
            Parts {
                flags: 0x41,
                ..GOOD
            },
            false,
        ),
        both(
            Parts {
                of_type: "webauthn.create",
                ..GOOD
            },
            false,
        ),
        both(
            Parts {
                before: "AAAA",
                ..GOOD
            },
            false,
        ),
        both(Parts { after: "=", ..GOOD }, false),
        both(
            Parts {
                origin: "https://other.example",
                ..GOOD
            },
            false,
        ),
        both(
            Parts {
                claimed: "https://example.or",
                ..GOOD
            },
            false,
        ),
        both(
            Parts {
                origin: quoted,
                claimed: quoted,
                ..GOOD
            },
            false,
        ),
    ]
}

/// A key of P-256 in software, and the public key of a token with the same secret.
struct BrowserKey {
    secret: PrivateKey,
    public: PublicKey,
    path: PathBuf,
}

impl BrowserKey {
    fn new(scratch: &Scratch) -> Self {
        let path = scratch.join("secret");
        let name = path.to_string_lossy();
        let made = fixture::run_keygen(&["-q", "-t", "ecdsa", "-b", "256", "-N", "", "-f", &name]);
        made.expect("a key");
        let file = std::fs::read(&path).expect("a key");
        let secret = private_file::parse(&file, None).expect("a key").key;
        let PublicKey::Ecdsa { point, .. } = secret.public().clone() else {
            panic!("a key of P-256");
        };
        let application = APPLICATION.into();
        Self {
            secret,
            public: PublicKey::SkEcdsaP256 { point, application },
            path,
        }
    }

    fn sign(&self, message: &[u8], parts: &Parts) -> Vec<u8> {
        let challenge = base64::encode_url(message);
        let client_data = format!(
            "{{\"type\":\"{}\",\"challenge\":\"{}{challenge}{}\",\"origin\":\"{}\",\"crossOrigin\":false}}",
            parts.of_type, parts.before, parts.after, parts.origin
        );
        let state = [&[parts.flags][..], &9_u32.to_be_bytes()].concat();
        let signed = [
            &HashAlgorithm::Sha256.digest(APPLICATION.as_bytes())[..],
            &state,
            parts.extensions,
            &HashAlgorithm::Sha256.digest(client_data.as_bytes())[..],
        ]
        .concat();
        let plain = self.secret.sign(SignatureAlgorithm::EcdsaP256, &signed);
        let plain = plain.expect("a signature");
        // Without the name; the numbers have their length before them.
        let name = SignatureAlgorithm::EcdsaP256.name().len();
        let numbers = plain.get(4 + name..).expect("the numbers");
        [
            &string(ALGORITHM.as_bytes()),
            numbers,
            &state,
            &string(parts.claimed.as_bytes()),
            &string(client_data.as_bytes()),
            &string(parts.extensions),
        ]
        .concat()
    }
}

fn string(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("a short string");
    [&length.to_be_bytes()[..], bytes].concat()
}

/// A tool that verifies, by name.
type Verifier = (&'static str, fn() -> Result<Command, String>);

const VERIFIERS: [Verifier; 3] = [
    ("fulmar keygen", || program(Kind::Fulmar, "keygen")),
    ("ssh-keygen", || program(Kind::OpenSsh, "keygen")),
    ("ssh-keygen of Debian unstable", || {
        unstable::program("ssh-keygen")
    }),
];

#[test]
fn signatures_over_files_have_the_same_verdict() {
    let scratch = Scratch::new();
    let key = BrowserKey::new(&scratch);
    let presented = PresentedKey::from(key.public.clone());
    let signers = scratch.write("signers", format!("bob {}\n", key.public.to_line()));
    let hash = HashAlgorithm::Sha512;
    let message = sshsig::message(NAMESPACE.as_bytes(), hash, &hash.digest(TEXT));
    let verifiers = VERIFIERS.iter().filter(|(name, keygen)| {
        let missing = keygen().err();
        missing.iter().for_each(|why| skipped(name, why));
        missing.is_none()
    });
    let verifiers: Vec<&Verifier> = verifiers.collect();
    for (number, (parts, is_good, _)) in cases().into_iter().enumerate() {
        let file = FileSignature {
            key: presented.clone(),
            namespace: NAMESPACE.into(),
            hash,
            signature: key.sign(&message, &parts),
        };
        let signature = scratch.write("signature", file.to_armored());
        for (of, keygen) in &verifiers {
            let mut command = keygen().expect("a keygen");
            command.args(["-Y", "verify", "-n", NAMESPACE, "-I", "bob", "-f"]);
            command.arg(&signers).arg("-s").arg(&signature);
            let outcome = finish(&mut command, Input::Bytes(TEXT));
            let summary = outcome.summary();
            assert_eq!(outcome.status == 0, is_good, "{number} {of}: {summary}");
        }
    }
}

/// The parts for `webauthn_client.py`.
fn json(key: &BrowserKey, parts: &Parts) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\\\""));
    let encoded = base64::encode(&key.public.blob());
    let extensions = hex(parts.extensions);
    let fields = [
        ("algorithm", quoted(ALGORITHM)),
        ("key", quoted(&encoded)),
        ("application", quoted(APPLICATION)),
        ("type", quoted(parts.of_type)),
        ("before", quoted(parts.before)),
        ("after", quoted(parts.after)),
        ("origin", quoted(parts.origin)),
        ("claimed", quoted(parts.claimed)),
        ("flags", parts.flags.to_string()),
        ("extensions", quoted(&extensions)),
    ];
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// What the client says of a login.
fn login(site: &Site, key: &BrowserKey, parts: &Parts) -> Option<String> {
    let mut command = match python::script_command("webauthn_client.py") {
        Ok(command) => command,
        Err(why) => {
            skipped("paramiko", &why);
            return None;
        }
    };
    command
        .arg(site.running.daemon.port.to_string())
        .arg(&site.running.user)
        .arg(&key.path)
        .arg(json(key, parts));
    let outcome = finish(&mut command, Input::Nothing);
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
    Some(outcome.stdout.text().trim_end().to_owned())
}

#[test]
fn logins_have_the_same_verdict() {
    let scratch = Scratch::new();
    let key = BrowserKey::new(&scratch);
    let authorized = scratch.write("authorized", format!("{}\n", key.public.to_line()));
    let lines = format!("AuthorizedKeysFile {}\n", authorized.display());
    // OpenSSH 9.2 does not have it by default.
    let permits = format!("PubkeyAcceptedAlgorithms +{ALGORITHM}\n");
    for server in [Kind::Fulmar, Kind::OpenSsh] {
        if server.sshd().is_err() {
            skipped("sshd", &"not installed");
            continue;
        }
        let site = Site::new(Kind::Fulmar, server, &format!("{lines}{permits}"));
        for (number, (parts, _, is_good)) in cases().into_iter().enumerate() {
            let Some(said) = login(&site, &key, &parts) else {
                return;
            };
            let expected = if is_good { "in" } else { "refused" };
            assert_eq!(said, expected, "{number} {server:?}");
        }
        // A server whose list has the algorithm of programs alone.
        let strict = "PubkeyAcceptedAlgorithms sk-ecdsa-sha2-nistp256@openssh.com\n";
        let site = Site::new(Kind::Fulmar, server, &format!("{lines}{strict}"));
        assert_eq!(
            login(&site, &key, &GOOD).as_deref(),
            Some("refused"),
            "{server:?}"
        );
    }
}
