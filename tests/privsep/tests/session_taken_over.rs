//! A compromised session process: signatures and terminals are granted only for their purpose and
//! at a bounded rate.

use std::os::unix::fs::MetadataExt;

use interop::account::is_root;
use interop::report::skipped;
use keys::SignatureAlgorithm;
use privsep::{
    ChooseGroup, Group, HostkeysProof, HostkeysProve, LoginPhase, Message, PtyAllocate, PtyGranted,
    PtyRefused, PtyRelease, SignExchangeHash, Signature, TunnelGranted, TunnelOpen, TunnelRefused,
};
use privsep_tests::double::{host_key, timed};
use privsep_tests::place::{HASH, Place, exchange, gss_exchange};
use wire::Put;

const DOUBLE: &str = env!("CARGO_BIN_EXE_privsep-double");

#[test]
fn after_the_login_signatures_come_for_exchanges_and_proofs_at_a_bounded_rate() {
    let place = Place::new(DOUBLE);
    for (what, request) in [
        ("a byte less", exchange(&HASH[..31])),
        ("a chosen text", exchange(&[7; 200])),
        (
            "a key that there is not",
            SignExchangeHash {
                key_index: 9,
                ..exchange(&HASH)
            },
        ),
    ] {
        let mut monitor = place.at(LoginPhase::Session);
        monitor.send(&request);
        monitor.ends_for_a_broken_rule(what);
    }
    for (what, keys) in [
        (
            "a key that was not offered",
            vec![(7, "ssh-ed25519".to_owned())],
        ),
        (
            "an algorithm that was not offered",
            vec![(0, "rsa-sha2-512".to_owned())],
        ),
        (
            "a certificate",
            vec![(0, "ssh-ed25519-cert-v01@openssh.com".to_owned())],
        ),
    ] {
        let mut monitor = place.at(LoginPhase::Session);
        monitor.send(&HostkeysProve { keys });
        monitor.ends_for_a_broken_rule(what);
    }

    // A rekey by GSS-API only follows a first exchange by GSS-API.
    let mut monitor = place.monitor("GSSAPIKeyExchange yes");
    place.bring(&mut monitor, LoginPhase::Session);
    monitor.send(&gss_exchange(&HASH));
    monitor.ends_for_a_broken_rule("a MIC after a login with a host key");

    let mut monitor = place.at(LoginPhase::Session);
    let prove = HostkeysProve {
        keys: vec![(0, "ssh-ed25519".to_owned())],
    };
    let (proofs, took) = timed(|| {
        let answers = (0..2000).map(|_| monitor.ask::<_, HostkeysProof>(&prove));
        answers
            .filter(|answer| !answer.signatures.is_empty())
            .count()
    });
    let most = 256 + usize::try_from(took.as_millis() / 5).unwrap() + 1;
    assert!((1..=most).contains(&proofs), "{proofs} proofs in {took:?}");
    // One request for more keys than the rate permits gets nothing.
    let many = HostkeysProve {
        keys: vec![(0, "ssh-ed25519".to_owned()); 10_000],
    };
    let answer: HostkeysProof = monitor.ask(&many);
    assert!(answer.signatures.is_empty());

    // Exchanges above the rate wait: none is refused, and none is signed too early.
    let mut monitor = place.at(LoginPhase::Session);
    let (_, took) = timed(|| {
        for _ in 0..1000 {
            let _: Signature = monitor.ask(&exchange(&[9; 32]));
        }
    });
    assert!(
        took.as_millis() >= 1000 - 256 - 1,
        "1000 exchanges in {took:?}"
    );
}

#[test]
fn a_rekey_has_one_group_and_where_a_method_needs_one() {
    let place = Place::new(DOUBLE);
    let request = ChooseGroup {
        min_bits: 2048,
        preferred_bits: 3072,
        max_bits: 8192,
    };
    let method = "diffie-hellman-group-exchange-sha256";
    let mut monitor = place.monitor(&format!("KexAlgorithms +{method}"));
    place.bring(&mut monitor, LoginPhase::Session);
    for _ in 0..3 {
        let group: Group = monitor.ask(&request);
        assert!(group.p.len() >= 256);
        let _: Signature = monitor.ask(&SignExchangeHash {
            kex_algorithm: method.to_owned(),
            ..exchange(&[9; 32])
        });
    }
    let _: Group = monitor.ask(&request);
    monitor.send(&request);
    monitor.ends_for_a_broken_rule("a second group");
    let mut monitor = place.at(LoginPhase::Session);
    monitor.send(&request);
    monitor.ends_for_a_broken_rule("a group where no method needs one");
}

#[test]
fn a_proof_names_the_session_of_the_first_exchange() {
    let place = Place::new(DOUBLE);
    let mut monitor = place.at(LoginPhase::Session);
    // A rekey does not change the session identifier of proofs.
    let _: Signature = monitor.ask(&exchange(&[9; 32]));
    let proof: HostkeysProof = monitor.ask(&HostkeysProve {
        keys: vec![(0, "ssh-ed25519".to_owned())],
    });
    let public = host_key().public().clone();
    let verify = |session_id: &[u8]| {
        let mut data = Vec::new();
        data.put_string(b"hostkeys-prove-00@openssh.com");
        data.put_string(session_id);
        data.put_string(&public.blob());
        let policy = keys::VerifyPolicy {
            min_rsa_bits: 2048,
            require_user_presence: false,
            require_user_verification: false,
        };
        keys::PresentedKey::Plain(public.clone())
            .verify(
                SignatureAlgorithm::Ed25519,
                &data,
                &proof.signatures[0],
                &policy,
            )
            .is_ok()
    };
    assert!(verify(&HASH));
    assert!(!verify(&[9; 32]));
}

#[test]
fn terminals_are_bounded_in_number_and_come_back() {
    if !is_root() {
        skipped("terminals of the monitor", &"not root");
        return;
    }
    let place = Place::new(DOUBLE);
    let uid = interop::account::uid_of(&place.user).expect("a uid");
    let mut monitor = place.at(LoginPhase::Session);
    let mut granted = Vec::new();
    for _ in 0..200 {
        monitor.send(&PtyAllocate {});
        let frame = monitor.next_frame().expect("an answer");
        if frame.number == PtyRefused::NUMBER {
            continue;
        }
        let terminal: PtyGranted = frame.decode().expect("a terminal");
        let owner = std::fs::metadata(&terminal.tty).expect("a terminal").uid();
        assert_eq!(owner, uid);
        granted.push(terminal.tty);
    }
    assert!(
        (1..=64).contains(&granted.len()),
        "{} terminals",
        granted.len()
    );
    assert_eq!(monitor.descriptors as usize, 2 * granted.len());
    let held = monitor.open_descriptors();
    assert!(held < 64 + 20, "the monitor holds {held} descriptors");
    monitor.end_role();
    monitor.wait_for_end();
    for tty in &granted {
        // Removed, or owned by root again; or another test now has a terminal with this name.
        let owner = std::fs::metadata(tty).map(|found| found.uid());
        assert!(!owner.is_ok_and(|owner| owner == uid), "{tty}");
    }
}

#[test]
fn terminals_come_at_a_bounded_rate() {
    if !is_root() {
        skipped("terminals of the monitor", &"not root");
        return;
    }
    let place = Place::new(DOUBLE);
    let mut monitor = place.at(LoginPhase::Session);
    let (granted, took) = timed(|| {
        let mut granted = 0_u128;
        for _ in 0..1000 {
            monitor.send(&PtyAllocate {});
            let frame = monitor.next_frame().expect("an answer");
            if let Ok(terminal) = frame.decode::<PtyGranted>() {
                granted += 1;
                monitor.send(&PtyRelease { tty: terminal.tty });
            }
        }
        granted
    });
    // Each writes records that stay on disk.
    let most = 128 + 1 + took.as_millis() / 50;
    assert!(
        granted >= 64 && granted <= most,
        "{granted} terminals in {took:?}"
    );
}

#[test]
fn a_terminal_of_somebody_else_cannot_be_given_back() {
    let place = Place::new(DOUBLE);
    let theirs = sys::pty::Pty::open().expect("a terminal");
    if is_root() {
        theirs.give_to(12_345, None).expect("another owner");
    }
    let before = std::fs::metadata(&theirs.name).expect("a terminal").uid();
    for tty in [
        theirs.name.display().to_string(),
        "/etc/passwd".into(),
        "/dev/pts/../shm/x".into(),
        String::new(),
    ] {
        let mut monitor = place.at(LoginPhase::Session);
        monitor.send(&PtyRelease { tty });
        monitor.ends_for_a_broken_rule("a terminal that was not granted");
    }
    let after = std::fs::metadata(&theirs.name).expect("a terminal").uid();
    assert_eq!(before, after);
}

#[test]
fn what_takes_terminals_away_holds_without_the_session() {
    for (options, lines) in [("no-pty ", ""), ("restrict ", ""), ("", "PermitTTY no")] {
        let place = Place::with_options(DOUBLE, options);
        let mut monitor = place.monitor(lines);
        place.bring(&mut monitor, LoginPhase::Session);
        monitor.send(&PtyAllocate {});
        monitor.ends_for_a_broken_rule(&format!("a terminal under {options}{lines}"));
    }
}

#[test]
fn what_takes_tunnels_away_holds_without_the_session() {
    let device = |options: &str, lines: &str, unit| {
        let place = Place::with_options(DOUBLE, options);
        let mut monitor = place.monitor(lines);
        place.bring(&mut monitor, LoginPhase::Session);
        monitor.send(&TunnelOpen {
            ethernet: false,
            unit,
            with_header: false,
        });
        let frame = monitor.next_frame().expect("an answer");
        match frame.decode::<TunnelGranted>() {
            Ok(granted) => Ok(granted.interface),
            Err(_) => Err(frame.decode::<TunnelRefused>().expect("a reason").reason),
        }
    };
    let yes = "PermitTunnel yes";
    let rejected = "Server has rejected tunnel device forwarding";
    for (options, lines) in [
        ("", ""),
        ("", "PermitTunnel ethernet"),
        ("", "PermitTunnel yes\nDisableForwarding yes"),
        ("restrict ", yes),
    ] {
        assert_eq!(device(options, lines, None), Err(rejected.to_owned()));
    }
    assert_eq!(
        device("tunnel=\"7\" ", yes, Some(8)),
        Err("the key permits another tunnel device".to_owned())
    );
    // Without a device that was made for the user, only root may have one.
    match device("restrict,tunnel=\"3971\" ", yes, None) {
        Ok(interface) => assert_eq!(interface, "tun3971"),
        Err(reason) => assert!(reason.starts_with("Failed to open"), "{reason}"),
    }
}

#[test]
fn a_session_that_reads_nothing_holds_nobody() {
    let place = Place::new(DOUBLE);
    let mut monitor = place.at(LoginPhase::Session);
    let prove = HostkeysProve { keys: Vec::new() }.encode_frame();
    // Answers that fill every buffer, and that nobody reads.
    monitor.send_bytes(&prove.repeat(200_000));
    monitor.kill_role();
    monitor.wait_for_end();
}
