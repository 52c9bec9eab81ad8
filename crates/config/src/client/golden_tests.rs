//! `ssh -G` of OpenSSH 9.2p1 (testdata/client) and its complaints (testdata/errors) against ours.

use std::path::Path;

use super::*;
use crate::environment::{Environment, LocalUser, MemoryFiles};
use crate::golden::{Case, Difference, case, compare_all, differs, own};

/// Differences that do not depend on the file.
const DIFFERENCES: &[Difference] = &[
    differs(
        "gssapikexalgorithms",
        "curve25519 first, and none with SHA-1",
    ),
    differs(
        "casignaturealgorithms",
        "webauthn-sk-ecdsa-sha2-nistp256@openssh.com, as in OpenSSH 10.6",
    ),
    differs(
        "forwardx11trusted",
        "Debian changed the default to yes; ours is OpenSSH's own",
    ),
    own("controlconnections"),
    own("logincache"),
    own("pipelinelogin"),
    own("tcpfastopen"),
    differs("channeltimeout", "newer than 9.2"),
    differs("obscurekeystroketiming", "newer than 9.2"),
    differs("warnweakcrypto", "newer than 9.2"),
    differs("tcpkeepalive", "true and false, as 10.6 prints them"),
    differs("revokedhostkeys", "none, as 10.6 prints it"),
];

/// Defaults that differ: left out of the comparison of files that do not set the keyword.
const DEFAULTS: &[Difference] = &[
    differs("ciphers", "AES-GCM first where the CPU has AES"),
    differs("macs", "no SHA-1 by default"),
    differs("kexalgorithms", "mlkem768x25519 first"),
    differs("hostkeyalgorithms", "NIST curves last"),
    differs("ipqos", "that of OpenSSH 10.6"),
    differs("requiredrsasize", "2048 bits by default"),
    differs(
        "identityfile",
        "OpenSSH dropped DSA and XMSS since 9.2, and tries ML-DSA keys",
    ),
    differs("pubkeyacceptedalgorithms", ML_DSA),
    differs("hostbasedacceptedalgorithms", ML_DSA),
];

/// Differences of one file.
const OWN: &[(&str, Difference)] = &[
    (
        "final",
        differs(
            "serveraliveinterval",
            "Debian raises it to 300 with BatchMode; ours is OpenSSH's own",
        ),
    ),
    ("modifiers", differs("pubkeyacceptedalgorithms", ML_DSA)),
    ("modifiers", differs("hostbasedacceptedalgorithms", ML_DSA)),
];

const ML_DSA: &str = "ssh-mldsa44-ed25519 last, as in OpenSSH 10.6";

struct Root;

impl Environment for Root {
    fn variable(&self, name: &str) -> Option<String> {
        (name == "HOME").then(|| "/root".to_owned())
    }
    fn local_user(&self) -> LocalUser {
        LocalUser {
            name: "root".to_owned(),
            uid: 0,
            home: "/root".to_owned(),
        }
    }
    fn local_hostname(&self) -> String {
        "vm".to_owned()
    }
    fn home_of(&self, _user: &str) -> Option<String> {
        None
    }
    /// The commands that the golden files run.
    fn run_shell(&self, command: &str) -> Result<bool, String> {
        Ok(command == "test web1.example.org = web1.example.org")
    }
    fn local_addresses(&self) -> Vec<std::net::IpAddr> {
        Vec::new()
    }
    fn canonical_name(&self, _name: &str) -> Option<String> {
        None
    }
}

fn resolve(name: &str, text: &str, host: &str) -> Result<ClientOptions, crate::ConfigError> {
    ClientConfig::from_file(Path::new(name), Path::new("/root"))
        .with_files(MemoryFiles::default().with(name, text))
        .with_aes_hardware(true)
        .resolve(host, &CommandLine::new(), &Root)
}

const CASES: &[Case] = &[
    case!("client", "empty"),
    case!("client", "everything"),
    case!("client", "hosts"),
    case!("client", "final"),
    case!("client", "quoting"),
    case!("client", "ignore"),
    case!("client", "control"),
    case!("client", "jump"),
    case!("client", "modifiers"),
];

#[test]
fn dumps_are_those_of_openssh() {
    compare_all(CASES, DIFFERENCES, DEFAULTS, OWN, |case, host| {
        let options = resolve(case.name, case.text, host);
        let options = options.unwrap_or_else(|error| panic!("{}: {error}", case.name));
        options.dump()
    });
}

#[test]
fn complaints_are_those_of_openssh() {
    for Case { name, text, theirs } in [
        case!("errors", "unknown"),
        case!("errors", "noarg"),
        case!("errors", "quotes"),
        case!("errors", "port"),
        case!("errors", "flags"),
        case!("errors", "extra"),
        case!("errors", "time"),
        case!("errors", "numbers"),
        case!("errors", "lists"),
        case!("errors", "match"),
    ] {
        let name = format!("{name}.conf");
        let error = resolve(&name, text, "h").unwrap_err();
        let ours = error.to_string();
        // OpenSSH reports an error in a Match line or a list of key exchange methods on a separate
        // line, without the position; ours includes the position.
        let theirs: Vec<&str> = theirs
            .lines()
            .filter(|line| line.starts_with(&name) && !line.ends_with("Bad Match condition"))
            .collect();
        let ours: Vec<&str> = ours
            .lines()
            .filter(|line| name != "match.conf" || theirs.contains(line) || line.contains("'all'"))
            .collect();
        assert_eq!(ours, theirs, "{name}");
    }
}
