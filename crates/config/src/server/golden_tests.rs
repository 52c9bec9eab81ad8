//! `sshd -T` of OpenSSH 9.2p1 (testdata/server) against ours.

use super::*;
use crate::environment::MemoryFiles;
use crate::golden::{Difference, case, compare_all, differs, own};

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
    differs(
        "rdomain",
        "printed where the system has routing domains of that kind; 9.2 on Linux does not know it",
    ),
    differs(
        "ipqos",
        "lowdelay and throughput mean none and are no default, as in OpenSSH 10.6",
    ),
    own("agentsocketlink"),
    own("logformat"),
    own("metricsfile"),
    own("metricslisten"),
    own("preauthspares"),
    own("proxyprotocolfrom"),
    own("recordterminals"),
    own("sftproot"),
    own("versionnamesopenssh"),
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

#[test]
fn dumps_are_those_of_openssh() {
    let cases = &[
        case!("server", "empty"),
        case!("server", "everything"),
        case!("server", "match"),
    ];
    compare_all(cases, DIFFERENCES, DEFAULTS, &[], |case, spec| {
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
    });
}
