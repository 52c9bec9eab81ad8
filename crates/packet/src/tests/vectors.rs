//! Every suite against packets that asyncssh sealed (vectors.py).

use std::prelude::v1::*;

use crypto::cipher::CipherAlgorithm;
use crypto::mac::MacAlgorithm;

use super::{open_all, seal};
use crate::{OpenKeys, Position, SealKeys, Sequencer, Splitter};

const VECTORS: &str = include_str!("vectors.txt");

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

fn counting(from: u8, len: usize) -> Vec<u8> {
    (from..).take(len).collect()
}

#[test]
fn every_suite_agrees_with_asyncssh_across_the_sequence_wrap() {
    let payloads = [
        vec![0x15],
        counting(94, 21),
        (0..75u32).map(|i| (i * 7 % 251) as u8).collect(),
    ];
    let mut rows = 0;
    for row in VECTORS.lines() {
        let fields: Vec<&str> = row.split(' ').collect();
        let cipher = CipherAlgorithm::from_name(fields[0]).unwrap();
        let mac = MacAlgorithm::from_name(fields[1]);
        assert_eq!(mac.is_none(), fields[1] == "-");
        let key = counting(1, cipher.key_len());
        let iv = match cipher.iv_len() {
            12 => unhex("a0a1a2a300000000ffffffff"),
            len => vec![0xff; len],
        };
        let mac_key = counting(101, mac.map_or(0, MacAlgorithm::key_len));
        let state = Position {
            sequence: u32::MAX - 1,
            ..Position::default()
        };
        let mut sequencer = Sequencer::with_padding_seed([0; 32]);
        sequencer.set_keys(
            SealKeys::new(cipher, mac, &key, &iv, &mac_key)
                .unwrap()
                .into(),
            false,
        );
        sequencer.position = state;
        let open = OpenKeys::new(cipher, mac, &key, &iv, &mac_key).unwrap();
        let mut splitter = Splitter::with_keys_state(state, open.into());
        for (payload, wire) in payloads.iter().zip(&fields[2..]) {
            let wire = unhex(wire);
            assert_eq!(seal(&mut sequencer, payload), wire, "{row}");
            splitter.handle_bytes(&wire);
        }
        let opened = open_all(&mut splitter).unwrap();
        assert_eq!(opened.len(), 3);
        for (number, (packet, payload)) in opened.into_iter().zip(&payloads).enumerate() {
            assert_eq!(packet.payload(), payload, "{row}");
            assert_eq!(
                packet.sequence(),
                (u32::MAX - 1).wrapping_add(number as u32)
            );
        }
        rows += 1;
    }
    assert_eq!(rows, super::encrypted_suites().len());
}
