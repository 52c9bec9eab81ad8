//! OpenSSH's output and refusals that the golden files do not cover.

use super::tests::{ann, load, try_load};
use super::{ConnectionSpec, ServerArguments, ServerConfig};
use crate::environment::MemoryFiles;

#[test]
fn a_later_rekey_limit_says_the_time_that_an_earlier_one_left_out() {
    let limit = |text: &str, spec: &ConnectionSpec| {
        let limit = load(text).for_connection(spec).algorithms.rekey_limit;
        (limit.bytes, limit.seconds)
    };
    let nobody = ConnectionSpec::default();
    assert_eq!(
        limit("RekeyLimit 1K\nRekeyLimit 2K 30\n", &nobody),
        (1024, 30)
    );
    assert_eq!(
        limit("RekeyLimit 1K none\nRekeyLimit 2K 30\n", &nobody),
        (1024, 30)
    );
    assert_eq!(
        limit("RekeyLimit 1K 0\nRekeyLimit 2K 30\n", &nobody),
        (1024, 0)
    );
    let matched = "RekeyLimit 2K 30\nMatch User ann\nRekeyLimit 1K\n";
    assert_eq!(limit(matched, &ann()), (1024, 30));
    assert!(
        load("RekeyLimit 1K\n")
            .global()
            .dump()
            .contains("\nRekeyLimit 1024 0\n")
    );
}

#[test]
fn the_dump_is_that_of_openssh() {
    for (text, line) in [
        (
            "AuthenticationMethods password password",
            "AuthenticationMethods password password",
        ),
        ("UnusedConnectionTimeout 0", "UnusedConnectionTimeout none"),
        (
            "PerSourcePenalties noauth:1.25 invaliduser:2 max-sources4:0",
            "PerSourcePenalties crash:90.000000 authfail:5.000000 noauth:1.250000 invaliduser:2.000000 grace-exceeded:10.000000 \
             refuseconnection:10.000000 max:600.000000 min:15.000000 max-sources4:0 max-sources6:65536 overflow:permissive \
             overflow6:permissive",
        ),
        ("IPQoS throughput 8", "IPQoS none 0x08"),
        (
            "PerSourcePenalties no\nPerSourcePenalties yes",
            "PerSourcePenalties no",
        ),
        (
            "PerSourcePenalties no\nPerSourcePenalties crash:9",
            "PerSourcePenalties crash:9.000000 authfail:5.000000 noauth:1.000000 invaliduser:5.000000 grace-exceeded:10.000000 \
             refuseconnection:10.000000 max:600.000000 min:15.000000 max-sources4:65536 max-sources6:65536 overflow:permissive \
             overflow6:permissive",
        ),
    ] {
        let dump = load(&format!("{text}\n")).global().dump();
        assert!(dump.lines().any(|have| have == line), "{text}: {dump}");
    }
}

#[test]
fn what_openssh_refuses_is_refused() {
    for line in [
        "ListenAddress *",
        "AuthorizedKeysFile none .ssh/a",
        "AgentSocketPath /x",
        "AgentSocketPath user:",
        "AgentSocketPath shared:tmp",
        "Match User x\nProtocol 2",
        "Match User x\nUsePrivilegeSeparation no",
        "Match User x\nWarnWeakCrypto no",
        "Match User x\nGSSAPICleanupCredentials no",
    ] {
        assert!(try_load(&format!("{line}\n")).is_err(), "{line}");
    }
    for line in [
        "AgentSocketPath user:.ssh/agent",
        "AgentSocketPath shared:/tmp",
        "AgentSocketPath none",
        "Match User x\nRSAAuthentication no",
        "Match User x\nGSSAPIAuthentication no",
        "WarnWeakCrypto no-pq-kex",
    ] {
        assert!(try_load(&format!("{line}\n")).is_ok(), "{line}");
    }
}

#[test]
fn match_all_ends_a_block() {
    let config = load(
        "SyslogFacility LOCAL3\nMatch User ann\nMaxAuthTries 3\nMatch all\nSyslogFacility LOCAL2\n\
         UseDNS yes\nPermitTTY no\n",
    );
    let global = config.global();
    assert_eq!(global.logging.syslog_facility.word(), "LOCAL3");
    assert!(global.connection.use_dns && global.session.permit_tty);
    let of_ann = config.for_connection(&ann());
    assert!(!of_ann.session.permit_tty && of_ann.connection.use_dns);
    assert_eq!(of_ann.authentication.max_auth_tries, 3);
    assert!(try_load("Match all\nMatch User ann\nUseDNS yes\n").is_err());
}

#[test]
fn a_percent_sign_is_no_folder() {
    let arguments = ServerArguments {
        working_directory: Some("/here".into()),
        ..ServerArguments::default()
    };
    let text = "TrustedUserCAKeys %x\nChrootDirectory %h\n";
    let files = MemoryFiles::default();
    let config = ServerConfig::parse("f", text.as_bytes(), &files, &arguments).unwrap();
    let options = config.global();
    assert_eq!(
        options.user_keys.trusted_user_ca_keys.as_deref(),
        Some("/here/%x")
    );
    assert_eq!(options.session.chroot_directory.as_deref(), Some("%h"));
}

#[test]
fn key_exchanges_by_gss_come_last_where_they_are_asked_for() {
    let of = |config: &ServerConfig| {
        let options = config.global();
        let algorithms = &options.algorithms;
        crate::algorithms::key_exchanges(
            options.authentication.gssapi_key_exchange,
            &algorithms.gssapi_kex_algorithms,
            &algorithms.kex_algorithms,
        )
    };
    let names = |text: &str| of(&load(text));
    let plain = load("").global().algorithms.kex_algorithms;
    assert_eq!(names(""), plain);
    assert_eq!(names("GSSAPIKexAlgorithms gss-group16-sha512-\n"), plain);
    let one =
        names("GSSAPIKeyExchange yes\nGSSAPIKexAlgorithms gss-group14-sha1-,gss-group16-sha512-\n");
    let (last, others) = one.split_last().unwrap();
    assert_eq!(last, "gss-group16-sha512-toWM5Slw5Ew8Mqkay+al2g==");
    assert_eq!(others, plain);
    let mut config = load("GSSAPIKeyExchange yes\n");
    assert_eq!(of(&config).len(), plain.len() + 4);
    // They have a list of their own, and this one has no modifiers.
    assert!(try_load("KexAlgorithms gss-group16-sha512-\n").is_err());
    assert!(try_load("GSSAPIKexAlgorithms +gss-group16-sha512-\n").is_err());
    assert!(try_load("Match User x\nGSSAPIKeyExchange yes\n").is_err());
    config.forgo_gss_exchanges();
    assert_eq!(of(&config), plain);
}
