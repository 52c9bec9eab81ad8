//! The vectors of RFC 4418's appendix (with erratum 3507), and for 128-bit tags vectors on which
//! other implementations agree.

use super::*;
use crate::arch::{self, sets};
use crate::test_support::{Noise, hex};

fn nonce() -> u64 {
    u64::from_be_bytes(*b"bcdefghi")
}

fn check(message: &[u8], tag64: &str, tag128: &str) {
    for features in sets() {
        check_on(&features, message, tag64, tag128);
    }
}

fn check_on(features: &CpuFeatures, message: &[u8], tag64: &str, tag128: &str) {
    for (tag_len, expected) in [(8, tag64), (16, tag128)] {
        let umac = Umac::new(b"abcdefghijklmnop", tag_len, features).expect("length fits");
        let (tag, len) = umac.compute(nonce(), &[message]);
        assert_eq!(tag[..len], hex(expected), "{} bytes", message.len());
        let (first, second) = message.split_at(message.len() / 3);
        let (tag, len) = umac.compute(nonce(), &[first, second]);
        assert_eq!(
            tag[..len],
            hex(expected),
            "{} bytes in parts",
            message.len()
        );
    }
}

#[test]
fn short_messages_match() {
    check(b"", "6E155FAD26900BE1", "32fedb100c79ad58f07ff7643cc60465");
    check(
        b"aaa",
        "44B5CB542F220104",
        "185e4fe905cba7bd85e4c2dc3d117d8d",
    );
    check(
        b"abc",
        "D4D7B9F6BD4FBFCF",
        "883c3d4b97a61976ffcf232308cba5a5",
    );
}

#[test]
fn a_message_of_one_block_skips_the_second_layer() {
    check(
        &[b'a'; 1 << 10],
        "26BF2F5D60118BD9",
        "7a54abe04af82d60fb298c3cbd195bcb",
    );
}

#[test]
fn messages_of_many_blocks_match() {
    check(
        &b"abc".repeat(500),
        "D4CF26DDEFD5C01A",
        "8824a260c53c66a36c9260a62cb83aa1",
    );
    check(
        &[b'a'; 1 << 15],
        "27F8EF643B0D118D",
        "7b136bd911e4b734286ef2be501f2c3c",
    );
    check(
        &vec![b'a'; 1 << 20],
        "A4477E87E9F55853",
        "f8acfa3ac31cfeea047f7b115b03bef5",
    );
}

#[test]
fn a_message_that_needs_the_long_polynomial_matches() {
    check(
        &vec![b'a'; 1 << 25],
        "FACA46F856E9B45F",
        "a621c2457c0012e64f3fdae9e7e1870c",
    );
}

/// All three layers, on every level, at once and in two parts.
#[test]
fn every_level_has_the_tags_of_the_portable_one_on_every_length() {
    let mut noise = Noise::new(17);
    let long = [1023, 1024, 1025, 2047, 2048, 2049, 32_768, 35_000];
    let lengths: Vec<usize> = (0..=300)
        .chain(long)
        .chain((0..30).map(|_| noise.below(40_000)))
        .collect();
    for tag_len in [8, 16] {
        let key = noise.array();
        let portable = Umac::new(&key, tag_len, &CpuFeatures::default()).expect("length fits");
        for features in sets() {
            let umac = Umac::new(&key, tag_len, &features).expect("length fits");
            for &len in &lengths {
                let nonce = noise.next_u64();
                let message = noise.bytes(len);
                let expected = portable.compute(nonce, &[&message]);
                let level = umac.kernel();
                assert_eq!(umac.compute(nonce, &[&message]), expected, "{level}, {len}");
                let (first, second) = message.split_at(noise.below(len + 1));
                let parts = umac.compute(nonce, &[first, second]);
                assert_eq!(parts, expected, "{level}, {len} bytes in parts");
            }
        }
    }
}

#[test]
fn two_nonces_share_a_block_of_the_64_bit_pad() {
    let umac = Umac::new(b"abcdefghijklmnop", 8, arch::detect()).expect("length fits");
    let even = umac.pad(6);
    let odd = umac.pad(7);
    assert_eq!(even[..8], odd[8..]);
    assert_eq!(even[8..], odd[..8]);
    assert_ne!(umac.pad(8)[..8], even[..8]);
    let wide = Umac::new(b"abcdefghijklmnop", 16, arch::detect()).expect("length fits");
    assert_eq!(wide.pad(6), even);
    assert_ne!(wide.pad(7)[..8], odd[..8]);
}
