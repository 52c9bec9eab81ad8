//! Whole packets as `packet` seals and opens them in batches: each cipher, with each MAC where it
//! needs one.

use crypto::cipher::{CIPHERS, CipherAlgorithm};
use crypto::mac::{MACS, MacAlgorithm};
use packet::{
    OpenKeys, PacketBuf, SealKeys, SealedPacket, Sequencer, Splitter, open_batch, seal_batch,
};

use super::select::Selection;
use super::time::rate;

/// Payload of the packets that are measured, bytes.
pub(super) const PAYLOAD_BYTES: usize = 32 * 1024;

/// One cipher with its MAC: seal and open, bytes per second.
pub(super) struct PacketRow {
    pub(super) name: String,
    pub(super) seal: f64,
    pub(super) open: f64,
}

pub(super) fn rows(selection: &Selection) -> Vec<PacketRow> {
    let mut rows = Vec::new();
    for spec in CIPHERS {
        let Some(cipher) = CipherAlgorithm::from_name(spec.name) else {
            continue;
        };
        let macs: Vec<Option<MacAlgorithm>> = if cipher.needs_mac() {
            MACS.iter().map(|spec| Some(spec.algorithm)).collect()
        } else {
            vec![None]
        };
        for mac in macs {
            let name = match mac {
                Some(mac) => format!("{} {}", cipher.name(), mac.name()),
                None => cipher.name().to_string(),
            };
            if selection.wants(&name)
                && let Some(row) = row(name, cipher, mac)
            {
                rows.push(row);
            }
        }
    }
    rows
}

fn row(name: String, cipher: CipherAlgorithm, mac: Option<MacAlgorithm>) -> Option<PacketRow> {
    let key = vec![1; cipher.key_len()];
    let iv = vec![2; cipher.iv_len()];
    let mac_key = vec![3; mac.map_or(0, |mac| mac.key_len())];
    let seal_keys = SealKeys::new(cipher, mac, &key, &iv, &mac_key).ok()?;
    let open_keys = OpenKeys::new(cipher, mac, &key, &iv, &mac_key).ok()?;
    let payload = vec![0x5a; PAYLOAD_BYTES];
    #[allow(clippy::cast_precision_loss)]
    let batch_bytes = (PAYLOAD_BYTES * BATCH) as f64;
    let mut sequencer = Sequencer::new();
    sequencer.set_keys(seal_keys.into(), true);
    let mut bufs = vec![PacketBuf::with_capacity(PAYLOAD_BYTES); BATCH];
    let (mut jobs, mut sealed) = (Vec::new(), Vec::new());
    // Copying the payload into the buffer replaces the read from a file.
    let seal = rate(batch_bytes, || {
        for mut buf in bufs.drain(..) {
            buf.clear();
            buf.extend(&payload);
            jobs.extend(sequencer.stamp(buf));
        }
        seal_batch(&mut jobs, &mut sealed);
        bufs.extend(sealed.drain(..).map(SealedPacket::into_buf));
    });
    let wire = sealed_batch(cipher, mac, (&key, &iv, &mac_key), &payload)?;
    let keys = std::sync::Arc::new(open_keys);
    let mut splitter = Splitter::new();
    let (mut jobs, mut opened) = (Vec::new(), Vec::new());
    let open = rate(batch_bytes, || {
        splitter.set_keys(keys.clone(), true);
        splitter.handle_bytes(&wire);
        while let Ok(Some(job)) = splitter.next() {
            jobs.push(job);
        }
        open_batch(&mut jobs, &mut opened);
        opened.clear();
    });
    Some(PacketRow { name, seal, open })
}

/// Packets that are sealed or opened in one round: as many as make the most of every MAC.
const BATCH: usize = 16;

fn sealed_batch(
    cipher: CipherAlgorithm,
    mac: Option<MacAlgorithm>,
    keys: (&[u8], &[u8], &[u8]),
    payload: &[u8],
) -> Option<Vec<u8>> {
    let mut sequencer = Sequencer::new();
    sequencer.set_keys(
        SealKeys::new(cipher, mac, keys.0, keys.1, keys.2)
            .ok()?
            .into(),
        true,
    );
    let mut wire = Vec::new();
    for _ in 0..BATCH {
        let sealed = sequencer
            .stamp(PacketBuf::from_payload(payload))
            .ok()?
            .run();
        wire.extend_from_slice(sealed.wire());
    }
    Some(wire)
}
