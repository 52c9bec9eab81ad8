//! `sshd -T` of OpenSSH 9.2p1 (testdata/server) against ours.

use super::*;
use crate::environment::MemoryFiles;
use crate::golden::{BOTH_SIDES, Difference, all_needed, compare, own};

const DIFFERENCES: &[Difference] = &[
    Difference {
        keyword: "gssapi*",
        reason: "this suite has no GSSAPI",
    },
    Difference {
        keyword: "kerberos*",
        reason: "this suite has no Kerberos",
    },
    Difference {
        keyword: "pamservicename",
        reason: "newer than 9.2",
    },
    Difference {
        keyword: "persourcepenalt*",
        reason: "newer than 9.2",
    },
    Difference {
        keyword: "refuseconnection",
        reason: "newer than 9.2",
    },
    Difference {
        keyword: "rdomain",
        reason: "printed where the system has routing domains of that kind; 9.2 on Linux does not know it",
    },
    Difference {
        keyword: "ipqos",
        reason: "lowdelay and throughput mean none and are no default, as in OpenSSH 10.6",
    },
    own("preauthspares"),
    own("sftproot"),
    Difference {
        keyword: "channeltimeout",
        reason: "9.2 prints it only when it is set",
    },
    Difference {
        keyword: "logverbose",
        reason: "9.2 prints it only when it is set",
    },
];

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
        reason: "no NIST curves and no finite fields by default",
    },
    Difference {
        keyword: "requiredrsasize",
        reason: "2048 bits by default",
    },
];

macro_rules! case {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../testdata/server/", $name, ".conf")),
            include_str!(concat!("../../testdata/server/", $name, ".out")),
        )
    };
}

fn sets(text: &str, keyword: &str) -> bool {
    text.lines()
        .any(|line| line.trim().to_ascii_lowercase().starts_with(keyword))
}

#[test]
fn dumps_are_those_of_openssh() {
    let mut pairs = Vec::new();
    for (name, text, theirs) in [case!("empty"), case!("everything"), case!("match")] {
        let spec = text
            .lines()
            .next()
            .unwrap()
            .strip_prefix("# spec: ")
            .unwrap();
        let arguments = ServerArguments {
            aes_hardware: true,
            ..ServerArguments::default()
        };
        let config =
            match ServerConfig::parse(name, text.as_bytes(), &MemoryFiles::default(), &arguments) {
                Ok(config) => config,
                Err(error) => panic!("{name}: {error}"),
            };
        let spec = ConnectionSpec::parse(spec).unwrap();
        let ours = config.for_connection(&spec).dump();
        let relevant: Vec<&Difference> = DIFFERENCES
            .iter()
            .chain(BOTH_SIDES)
            .chain(DEFAULTS.iter().filter(|d| !sets(text, d.keyword)))
            .collect();
        compare(name, &ours, theirs, &relevant);
        pairs.push((ours, theirs.to_owned()));
        // The encoded form for a re-executed process gives the same dump.
        let again = ServerConfig::decode(&config.encode()).unwrap();
        assert_eq!(again.for_connection(&spec), config.for_connection(&spec));
    }
    all_needed(DIFFERENCES, &pairs);
    all_needed(BOTH_SIDES, &pairs);
    all_needed(DEFAULTS, &pairs);
}
