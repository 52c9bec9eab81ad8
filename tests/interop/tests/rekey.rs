//! 3 MiB (10 in a whole run) through `cat` for each common cipher with each common MAC, with a key exchange
//! every MiB, compared by SHA-256; and less data with more exchanges for each key exchange method.

use crypto::hash::HashAlgorithm;
use interop::matrix::{self, Check, Couple, noise};
use interop::peers::Order;
use interop::process::{Input, hex};
use interop::report::skipped;
use interop::scratch::Scratch;
use interop::suite::Algorithms;

interop::test_each_couple!(Check::RoundTrip);

/// Bytes in each direction, and bytes between key exchanges.
const BYTES: usize = 80_000;
const LIMIT_BYTES: u64 = 64 * 1024;

/// Key exchanges with every common method, started by either side. A group that a method needs is
/// available after the login too.
fn by_every_method(couple: &Couple) {
    let common = match couple.common() {
        Ok(common) => common,
        Err((peer, why)) => return skipped(&peer, &why),
    };
    let data = noise(BYTES);
    let digest = hex(HashAlgorithm::Sha256.digest(&data).as_ref());
    let scratch = Scratch::new();
    let file = scratch.write("data", &data);
    for (ours, theirs) in [(Some(LIMIT_BYTES), None), (None, Some(LIMIT_BYTES))] {
        let server = couple
            .server
            .start(&common, ours)
            .unwrap_or_else(|why| panic!("{why}"));
        for kex in &common.kex {
            let first = |names: &[String]| names.iter().take(1).cloned().collect();
            let offer = Algorithms {
                kex: vec![kex.clone()],
                host_keys: first(&common.host_keys),
                ciphers: first(&common.ciphers),
                macs: first(&common.macs),
                compression: vec!["none".to_owned()],
            };
            let order = Order {
                input: Input::File(&file),
                rekey_bytes: theirs,
                ..server.order(&offer, "cat")
            };
            let outcome = couple.client.run(&order).unwrap_or_else(|why| {
                panic!("{}: {kex}: {why}; {}", couple.name(), server.daemon.log())
            });
            assert_eq!(outcome.status, 0, "{kex}: {}", outcome.summary());
            assert_eq!(outcome.stdout.sha256, digest, "{kex}");
        }
    }
}

#[test]
fn by_every_method_ours_to_ours() {
    by_every_method(&matrix::couples()[0]);
}

#[test]
fn by_every_method_ours_to_openssh() {
    by_every_method(&matrix::couples()[1]);
}

#[test]
fn by_every_method_openssh_to_ours() {
    by_every_method(&matrix::couples()[4]);
}

#[test]
fn by_every_method_paramiko_to_ours() {
    by_every_method(&matrix::couples()[8]);
}
