//! What OpenSSH prints and refuses beside what the golden files hold.

use super::ConnectionSpec;
use super::tests::{ann, load, try_load};

#[test]
fn a_later_rekey_limit_says_the_time_that_an_earlier_one_left_out() {
    let limit = |text: &str, spec: &ConnectionSpec| {
        let limit = load(text).for_connection(spec).rekey_limit;
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
            .contains("\nrekeylimit 1024 0\n")
    );
}

#[test]
fn the_dump_is_that_of_openssh() {
    for (text, line) in [
        (
            "AuthenticationMethods password password",
            "authenticationmethods password password",
        ),
        ("UnusedConnectionTimeout 0", "unusedconnectiontimeout none"),
        ("AuthorizedKeysFile NONE", "authorizedkeysfile none"),
        (
            "PerSourcePenalties noauth:1.25 invaliduser:2 max-sources4:0",
            "persourcepenalties crash:90 authfail:5 noauth:1.250000 invaliduser:2 grace-exceeded:10 \
             refuseconnection:10 max:600 min:15 max-sources4:0 max-sources6:65536 overflow:permissive \
             overflow6:permissive",
        ),
        ("IPQoS throughput 8", "ipqos none 0x08"),
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
        "Match User x\nProtocol 2",
        "Match User x\nUsePrivilegeSeparation no",
        "Match User x\nWarnWeakCrypto no",
        "Match User x\nGSSAPICleanupCredentials no",
    ] {
        assert!(try_load(&format!("{line}\n")).is_err(), "{line}");
    }
    for line in [
        "AgentSocketPath user:.ssh/agent",
        "Match User x\nRSAAuthentication no",
        "Match User x\nGSSAPIAuthentication no",
        "WarnWeakCrypto no-pq-kex",
    ] {
        assert!(try_load(&format!("{line}\n")).is_ok(), "{line}");
    }
}
