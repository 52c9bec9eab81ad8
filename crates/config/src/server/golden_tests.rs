//! `sshd -T` of OpenSSH 9.2p1 and 10.6p1 (testdata/server) against ours.

use super::*;
use crate::environment::MemoryFiles;
use crate::golden::{Case, Difference, case, compare_all, compare_exactly, differs, own};

/// Keywords that OpenSSH does not have.
const OWN: &[Difference] = &[
    own("agentsocketlink"),
    own("logformat"),
    own("metricsfile"),
    own("metricslisten"),
    own("preauthspares"),
    own("proxyprotocolfrom"),
    own("recordterminals"),
    own("sftproot"),
    own("versionnamesopenssh"),
];

const DIFFERENCES: &[Difference] = &[
    differs(
        "casignaturealgorithms",
        "webauthn-sk-ecdsa-sha2-nistp256@openssh.com, as in OpenSSH 10.6",
    ),
    differs(
        "gssapikexalgorithms",
        "curve25519 first, and none with SHA-1",
    ),
    differs("gssapidelegatecredentials", "newer than 9.2"),
    differs("pamservicename", "newer than 9.2"),
    differs("persourcepenalt*", "newer than 9.2"),
    differs("refuseconnection", "newer than 9.2"),
    differs("warnweakcrypto", "newer than 9.2"),
    differs("agentsocketpath", "newer than 9.2"),
    differs("debianbanner", "9.2 does not print it"),
    differs("permitrootlogin", "prohibit-password, as 10.6 prints it"),
    differs("pubkeyauthoptions", "with max-pk-ok of 10.6"),
    differs("revokedkeys", "at its place in 10.6"),
    differs("tcpkeepalive", "true and false, as 10.6 prints them"),
    differs(
        "ipqos",
        "lowdelay and throughput mean none and are no default, as in OpenSSH 10.6",
    ),
    differs("channeltimeout", "9.2 prints it only when it is set"),
    differs("logverbose", "9.2 prints it only when it is set"),
];

const DEFAULTS: &[Difference] = &[
    differs("ciphers", "AES-GCM first where the CPU has AES"),
    differs("macs", "no SHA-1 by default"),
    differs(
        "kexalgorithms",
        "no NIST curves and no finite fields by default",
    ),
    differs("requiredrsasize", "2048 bits by default"),
    differs("hostkeyalgorithms", ML_DSA),
    differs("pubkeyacceptedalgorithms", ML_DSA),
    differs("hostbasedacceptedalgorithms", ML_DSA),
];

const ML_DSA: &str = "ssh-mldsa44-ed25519 last, as in OpenSSH 10.6";

/// Differences from 10.6.
const LATER: &[Difference] = &[
    differs("ciphers", "AES-GCM first where the CPU has AES"),
    differs("macs", "no SHA-1 by default"),
    differs(
        "kexalgorithms",
        "no NIST curves and no finite fields by default",
    ),
    differs("requiredrsasize", "2048 bits by default"),
    differs("pamservicename", "fulmar"),
    differs("gssapi*", "10.6 without GSS-API prints none of them"),
    differs("kerberos*", "10.6 without GSS-API prints none of them"),
    differs("debianbanner", "Debian's version is in no version line"),
    differs("sshdsessionpath", "there is no such program"),
    differs("sshdauthpath", "there is no such program"),
    differs("logverbose", "10.6 prints it only when it is set"),
];

fn dump(case: &Case, spec: &str) -> String {
    let arguments = ServerArguments {
        aes_hardware: true,
        ..ServerArguments::default()
    };
    let (name, files) = (case.name, MemoryFiles::default());
    let config = ServerConfig::parse(name, case.text.as_bytes(), &files, &arguments);
    let config = config.unwrap_or_else(|error| panic!("{name}: {error}"));
    let spec = ConnectionSpec::parse(spec).unwrap();
    // The encoded form for a re-executed process gives the same dump.
    let again = ServerConfig::decode(&config.encode()).unwrap();
    assert_eq!(again.for_connection(&spec), config.for_connection(&spec));
    config.for_connection(&spec).dump()
}

#[test]
fn dumps_are_those_of_openssh() {
    let cases = &[
        case!("server", "empty"),
        case!("server", "everything"),
        case!("server", "match"),
    ];
    compare_all(cases, &[DIFFERENCES, OWN].concat(), DEFAULTS, &[], dump);
}

#[test]
fn dumps_are_those_of_openssh_10_6_in_each_letter() {
    let cases = &[
        case!("server", "empty", "10.6.out"),
        case!("server", "everything", "10.6.out"),
        case!("server", "match", "10.6.out"),
    ];
    compare_exactly(cases, &[LATER, OWN].concat(), dump);
}
