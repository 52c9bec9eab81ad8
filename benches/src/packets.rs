//! Sealing and opening packets, small and large, with each kind of cipher and MAC.

use std::sync::Arc;

use crypto::cipher::CipherAlgorithm;
use crypto::mac::MacAlgorithm;
use packet::{OpenKeys, PacketBuf, SealKeys, Sequencer, Splitter};

use crate::Piece;

/// Ciphers and MACs.
const SUITES: [(&str, Option<&str>); 4] = [
    ("aes128-gcm@openssh.com", None),
    ("chacha20-poly1305@openssh.com", None),
    ("aes128-ctr", Some("umac-64-etm@openssh.com")),
    ("aes256-ctr", Some("hmac-sha2-256-etm@openssh.com")),
];
/// Bytes of a payload, and packets per piece of work.
const SIZES: [(usize, usize); 2] = [(64, 64), (32 * 1024, 8)];

/// Two pieces of work for each suite and size.
pub(crate) fn pieces() -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (cipher, mac) in SUITES {
        for (len, count) in SIZES {
            let suite = Suite::new(cipher, mac);
            let name = match mac {
                Some(mac) => format!("{cipher}+{mac}"),
                None => cipher.to_string(),
            };
            pieces.push(Piece::new(
                format!("seal {count} x {len} {name}"),
                sealing(&suite, len, count),
            ));
            pieces.push(Piece::new(
                format!("open {count} x {len} {name}"),
                opening(&suite, len, count),
            ));
        }
    }
    pieces
}

/// Keys of both directions.
struct Suite {
    seal: Arc<SealKeys>,
    open: Arc<OpenKeys>,
}

impl Suite {
    fn new(cipher: &str, mac: Option<&str>) -> Self {
        let cipher = CipherAlgorithm::from_name(cipher).expect("a cipher of the table");
        let mac = mac.map(|mac| MacAlgorithm::from_name(mac).expect("a MAC of the table"));
        let key = vec![1; cipher.key_len()];
        let iv = vec![2; cipher.iv_len()];
        let mac_key = vec![3; mac.map_or(0, |mac| mac.key_len())];
        let seal = SealKeys::new(cipher, mac, &key, &iv, &mac_key).expect("keys of the right size");
        let open = OpenKeys::new(cipher, mac, &key, &iv, &mac_key).expect("keys of the right size");
        Self {
            seal: seal.into(),
            open: open.into(),
        }
    }

    fn sequencer(&self) -> Sequencer {
        let mut sequencer = Sequencer::with_padding_seed([7; 32]);
        sequencer.set_keys(Arc::clone(&self.seal), true);
        sequencer
    }
}

fn sealing(suite: &Suite, len: usize, count: usize) -> impl FnMut() + 'static {
    let mut sequencer = suite.sequencer();
    let mut bufs: Vec<PacketBuf> = (0..count)
        .map(|_| PacketBuf::from_payload(&vec![0x5a; len]))
        .collect();
    move || {
        for buf in bufs.drain(..) {
            let job = sequencer.stamp(buf).expect("a packet of legal size");
            std::hint::black_box(job.run());
        }
    }
}

fn opening(suite: &Suite, len: usize, count: usize) -> impl FnMut() + 'static {
    let mut sequencer = suite.sequencer();
    let mut wire = Vec::new();
    for _ in 0..count {
        let buf = PacketBuf::from_payload(&vec![0x5a; len]);
        let job = sequencer.stamp(buf).expect("a packet of legal size");
        wire.extend_from_slice(job.run().wire());
    }
    let mut splitter = Splitter::new();
    splitter.set_keys(Arc::clone(&suite.open), true);
    splitter.handle_bytes(&wire);
    move || {
        let mut opened = 0;
        while let Some(job) = splitter.next().expect("legal lengths") {
            std::hint::black_box(job.run().expect("what was sealed opens"));
            opened += 1;
        }
        assert_eq!(opened, count);
    }
}
