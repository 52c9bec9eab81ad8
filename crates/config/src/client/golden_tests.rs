//! `ssh -G` of OpenSSH 9.2p1 (testdata/client) and its complaints (testdata/errors) against ours.

use std::path::Path;

use super::*;
use crate::environment::{Environment, LocalUser, MemoryFiles};
use crate::golden::{BOTH_SIDES, Difference, all_needed, compare, own};

/// Differences that do not depend on the file.
const DIFFERENCES: &[Difference] = &[
    Difference {
        keyword: "gssapi*",
        reason: "this suite has no GSSAPI",
    },
    Difference {
        keyword: "forwardx11trusted",
        reason: "Debian changed the default to yes; ours is OpenSSH's own",
    },
    own("logincache"),
    own("pipelinelogin"),
    own("tcpfastopen"),
    Difference {
        keyword: "channeltimeout",
        reason: "newer than 9.2",
    },
    Difference {
        keyword: "obscurekeystroketiming",
        reason: "newer than 9.2",
    },
    Difference {
        keyword: "warnweakcrypto",
        reason: "newer than 9.2",
    },
];

/// Defaults that differ: left out of the comparison of files that do not set the keyword.
const DEFAULTS: &[Difference] = &[
    Difference {
        keyword: "ciphers",
        reason: "AES-GCM first where the CPU has AES",
    },
    Difference {
        keyword: "macs",
        reason: "no SHA-1 by default",
    },
    Difference {
        keyword: "kexalgorithms",
        reason: "mlkem768x25519 first",
    },
    Difference {
        keyword: "hostkeyalgorithms",
        reason: "NIST curves last",
    },
    Difference {
        keyword: "ipqos",
        reason: "that of OpenSSH 10.6",
    },
    Difference {
        keyword: "requiredrsasize",
        reason: "2048 bits by default",
    },
    Difference {
        keyword: "identityfile",
        reason: "OpenSSH dropped DSA and XMSS since 9.2",
    },
];

/// Differences of one file.
const OWN: &[(&str, Difference)] = &[(
    "final",
    Difference {
        keyword: "serveraliveinterval",
        reason: "Debian raises it to 300 with BatchMode; ours is OpenSSH's own",
    },
)];

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

macro_rules! case {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../testdata/client/", $name, ".conf")),
            include_str!(concat!("../../testdata/client/", $name, ".out")),
        )
    };
}

const CASES: &[(&str, &str, &str)] = &[
    case!("empty"),
    case!("everything"),
    case!("hosts"),
    case!("final"),
    case!("quoting"),
    case!("ignore"),
    case!("control"),
    case!("jump"),
    case!("modifiers"),
];

fn sets(text: &str, keyword: &str) -> bool {
    text.lines()
        .any(|line| line.trim().to_ascii_lowercase().starts_with(keyword))
}

#[test]
fn dumps_are_those_of_openssh() {
    let mut pairs = Vec::new();
    for (name, text, theirs) in CASES {
        let host = text
            .lines()
            .next()
            .unwrap()
            .strip_prefix("# host: ")
            .unwrap();
        let ours = match resolve(name, text, host) {
            Ok(options) => options.dump(),
            Err(error) => panic!("{name}: {error}"),
        };
        let relevant = DIFFERENCES
            .iter()
            .chain(BOTH_SIDES)
            .chain(DEFAULTS.iter().filter(|d| !sets(text, d.keyword)))
            .chain(OWN.iter().filter(|(file, _)| file == name).map(|(_, d)| d));
        let relevant: Vec<&Difference> = relevant.collect();
        compare(name, &ours, theirs, &relevant);
        pairs.push((ours, (*theirs).to_owned()));
    }
    all_needed(DIFFERENCES, &pairs);
    all_needed(BOTH_SIDES, &pairs);
    all_needed(DEFAULTS, &pairs);
}

macro_rules! error_case {
    ($name:literal) => {
        (
            concat!($name, ".conf"),
            include_str!(concat!("../../testdata/errors/", $name, ".conf")),
            include_str!(concat!("../../testdata/errors/", $name, ".out")),
        )
    };
}

#[test]
fn complaints_are_those_of_openssh() {
    for (name, text, theirs) in [
        error_case!("unknown"),
        error_case!("noarg"),
        error_case!("quotes"),
        error_case!("port"),
        error_case!("flags"),
        error_case!("extra"),
        error_case!("time"),
        error_case!("numbers"),
        error_case!("lists"),
        error_case!("match"),
    ] {
        let error = resolve(name, text, "h").unwrap_err();
        let ours = error.to_string();
        // OpenSSH reports an error in a Match line or a list of key exchange methods on a separate
        // line, without the position; ours includes the position.
        let theirs: Vec<&str> = theirs
            .lines()
            .filter(|line| line.starts_with(name) && !line.ends_with("Bad Match condition"))
            .collect();
        let ours: Vec<&str> = ours
            .lines()
            .filter(|line| name != "match.conf" || theirs.contains(line) || line.contains("'all'"))
            .collect();
        assert_eq!(ours, theirs, "{name}");
    }
}
