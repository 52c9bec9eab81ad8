//! The memory that a peer can make us use, counted by the allocator.
//!
//! One test function, because the counts are the process's.

#[path = "../../counting_allocator.rs"]
#[allow(dead_code, reason = "each program uses a part of it")]
mod counting_allocator;

use counting_allocator::{PEAK_BYTES, live};

use std::sync::atomic::Ordering::Relaxed;

use hostile::adversary::{Adversary, Offer};
use hostile::subject::Memory;
use proto::{Role, TransportConfig};
use wire::Put;
use wire::message::{Ping, UserauthSuccess};

fn client() -> Adversary<Memory> {
    let mut adversary = Adversary::client();
    adversary.subject.forgets = true;
    adversary
}

/// Rekeys that start with a wrong guess: leaked memory of a guess would add up.
fn wrong_guesses() {
    let mut adversary = client();
    let rekey = |adversary: &mut Adversary<Memory>| {
        adversary.kexinit(&Offer {
            guess_follows: true,
            ..Offer::kex("unheard-of@example.com,curve25519-sha256")
        });
        adversary.expect_kexinit();
        let mut guess = vec![30];
        guess.put_string(&[0; 1216]);
        adversary.send(&guess);
        adversary.agree();
        adversary.newkeys();
        adversary.expect_newkeys();
    };
    for _ in 0..50 {
        rekey(&mut adversary);
    }
    let before = live();
    for _ in 0..10_000 {
        rekey(&mut adversary);
    }
    let grown = live().saturating_sub(before);
    assert!(
        grown < 64 * 1024,
        "{grown} bytes stay after 10,000 wrong guesses"
    );
}

fn refused_channels() {
    let mut adversary = client();
    adversary.subject.refuses_channels = true;
    let open = |adversary: &mut Adversary<Memory>, number: u32| {
        adversary.open("nonsense", number, 1 << 20, 32_768);
        adversary.expect(92);
    };
    for number in 0..500 {
        open(&mut adversary, number);
    }
    let before = live();
    for number in 0..20_000 {
        open(&mut adversary, number);
    }
    let grown = live().saturating_sub(before);
    assert!(
        grown < 64 * 1024,
        "{grown} bytes stay after 20,000 refused channels"
    );
    assert_eq!(adversary.subject.connection.channel_count(), 0);
}

fn opened_and_closed_channels() {
    let mut adversary = client();
    let cycle = |adversary: &mut Adversary<Memory>| {
        let channel = adversary.open_session(9);
        assert_eq!(channel, 0, "the number is free again");
        adversary.say(&wire::message::ChannelClose {
            recipient_channel: channel,
        });
        adversary.expect(97);
    };
    for _ in 0..500 {
        cycle(&mut adversary);
    }
    let before = live();
    for _ in 0..20_000 {
        cycle(&mut adversary);
    }
    let grown = live().saturating_sub(before);
    assert!(
        grown < 64 * 1024,
        "{grown} bytes stay after 20,000 channels"
    );
}

/// Counts of billions must not cause an allocation.
fn giant_counts() {
    let peak_of = |mut adversary: Adversary<Memory>, payload: Vec<u8>| {
        let before = live();
        PEAK_BYTES.store(before, Relaxed);
        adversary.send(&payload);
        PEAK_BYTES.load(Relaxed) - before
    };
    let count = |number: u8, head: &[&[u8]]| {
        let mut payload = vec![number];
        for part in head {
            payload.put_string(part);
        }
        payload.extend_from_slice(&[0xff; 4]);
        payload
    };
    let authenticating = || {
        let mut adversary =
            Adversary::new(Memory::client(TransportConfig::default()), Role::Server);
        adversary.exchange(&Offer::default());
        adversary.accept_service();
        adversary
            .subject
            .command(|client| client.auth_keyboard_interactive(b"user", ""));
        adversary
    };
    let logged_in = || {
        let mut adversary = authenticating();
        adversary.say(&UserauthSuccess {});
        adversary
            .subject
            .command(|client| client.prove_host_keys(&[b"key".to_vec()]));
        adversary
    };
    for (name, adversary, payload) in [
        ("prompts", authenticating(), count(60, &[b"", b"", b""])),
        ("extensions", authenticating(), count(7, &[])),
        ("proofs", logged_in(), count(81, &[])),
        ("string", client(), count(90, &[])),
        ("responses", client(), count(61, &[])),
    ] {
        let peak = peak_of(adversary, payload);
        // Every packet needs the receive slab and its own memory.
        assert!(
            peak < 4 << 20,
            "{name}: {peak} bytes for a count of 2^32 - 1"
        );
    }
}

/// The memory that a logged-in peer can make the connection use by never reading is bounded.
fn unread_answers() {
    let mut adversary = client();
    let before = live();
    PEAK_BYTES.store(before, Relaxed);
    let ping = Ping {
        data: &[7; 30 * 1024],
    };
    for _ in 0..300 {
        let payload = wire::message::Encode::encode(&ping);
        let packet = adversary.seal(&payload);
        let connection = &mut adversary.subject.connection;
        if !connection.wants_input() {
            break;
        }
        connection.receive_buffer().extend_from_slice(&packet);
        connection.process(0).expect("honest pings");
    }
    assert!(!adversary.subject.connection.wants_input());
    let held = live() - before;
    assert!(
        held < 8 << 20,
        "{held} bytes wait for a peer that does not read"
    );
}

#[test]
fn memory_stays_flat_whatever_a_peer_sends() {
    wrong_guesses();
    refused_channels();
    opened_and_closed_channels();
    giant_counts();
    unread_answers();
}
