//! One algorithm, every kernel that this machine has for it.

use std::hint::black_box;
use std::time::Duration;

use crypto::arch::{self, CpuFeatures, Level};
use crypto::cipher::{CbcKey, ChaChaPolyKey, CipherAlgorithm, CipherKind, CtrKey, GcmKey};
use crypto::mac::{MacAlgorithm, MacKey, Tag};

use super::select::Selection;
use super::time::{rates, ticks_per_second};

/// Bytes of each packet.
pub(super) const PACKET_BYTES: usize = 32 * 1024;
/// Packets whose HMACs are computed together.
pub(super) const MANY: usize = 16;

#[derive(Clone, Copy)]
enum Algorithm {
    Cipher(CipherAlgorithm),
    /// Without encrypt-then-MAC, which is a matter of what is covered.
    Mac(MacAlgorithm),
}

const ALGORITHMS: [(&str, Algorithm); 11] = [
    ("aes-128-gcm", Algorithm::Cipher(CipherAlgorithm::Aes128Gcm)),
    ("aes-256-gcm", Algorithm::Cipher(CipherAlgorithm::Aes256Gcm)),
    (
        "chacha20-poly1305",
        Algorithm::Cipher(CipherAlgorithm::ChaCha20Poly1305),
    ),
    ("aes-128-ctr", Algorithm::Cipher(CipherAlgorithm::Aes128Ctr)),
    ("aes-192-ctr", Algorithm::Cipher(CipherAlgorithm::Aes192Ctr)),
    ("aes-256-ctr", Algorithm::Cipher(CipherAlgorithm::Aes256Ctr)),
    ("umac-64", Algorithm::Mac(MacAlgorithm::Umac64)),
    ("umac-128", Algorithm::Mac(MacAlgorithm::Umac128)),
    ("hmac-sha1", Algorithm::Mac(MacAlgorithm::HmacSha1)),
    ("hmac-sha2-256", Algorithm::Mac(MacAlgorithm::HmacSha256)),
    ("hmac-sha2-512", Algorithm::Mac(MacAlgorithm::HmacSha512)),
];

/// One algorithm by one kernel.
pub(super) struct AlgorithmRow {
    pub(super) name: &'static str,
    pub(super) kernel: &'static str,
    pub(super) bytes_per_second: f64,
    /// Ticks of the time-stamp counter for a byte: cycles of the CPU's nominal clock. `None` where
    /// there is no such counter.
    pub(super) cycles_per_byte: Option<f64>,
    /// The rate as a multiple of the portable kernel's.
    pub(super) times_portable: f64,
    /// Whether this machine's connections use it.
    pub(super) in_use: bool,
}

/// Measures what was asked for; each figure takes `slice`. The rows of an algorithm begin
/// with its portable kernel.
pub(super) fn rows(selection: &Selection, slice: Duration) -> Vec<AlgorithmRow> {
    let mut rows = Vec::new();
    let clock = ticks_per_second();
    for (name, algorithm) in ALGORITHMS {
        if !selection.wants(name) {
            continue;
        }
        let mut tiers = tiers(algorithm);
        let mut works: Vec<(f64, &mut dyn FnMut())> = tiers
            .iter_mut()
            .map(|tier| (tier.bytes, &mut *tier.work as &mut dyn FnMut()))
            .collect();
        let rates = rates(&mut works, slice);
        let portable = rates.first().copied().unwrap_or(f64::NAN);
        let in_use = tier(algorithm, arch::detect()).map(|tier| tier.kernel);
        rows.extend(tiers.iter().zip(rates).map(|(tier, rate)| AlgorithmRow {
            name,
            kernel: tier.kernel,
            bytes_per_second: rate,
            cycles_per_byte: clock.map(|clock| clock / rate),
            times_portable: rate / portable,
            in_use: in_use == Some(tier.kernel),
        }));
    }
    rows
}

/// A kernel, with its work and the number of bytes that it processes.
struct KernelTier {
    kernel: &'static str,
    bytes: f64,
    work: Box<dyn FnMut()>,
}

/// The kernels that this machine has for an algorithm, each once, the portable one first.
fn tiers(algorithm: Algorithm) -> Vec<KernelTier> {
    let mut tiers: Vec<KernelTier> = Vec::new();
    for level in Level::ALL {
        if let Some(tier) = tier(algorithm, &arch::detect().limited_to(*level))
            && tiers.iter().all(|other| other.kernel != tier.kernel)
        {
            tiers.push(tier);
        }
    }
    tiers
}

fn tier(algorithm: Algorithm, features: &CpuFeatures) -> Option<KernelTier> {
    match algorithm {
        Algorithm::Cipher(cipher) => cipher_tier(cipher, features),
        Algorithm::Mac(mac) => mac_tier(mac, features),
    }
}

fn cipher_tier(cipher: CipherAlgorithm, features: &CpuFeatures) -> Option<KernelTier> {
    let (key, iv) = (vec![1; cipher.key_len()], vec![2; cipher.iv_len()]);
    let mut packet = vec![3; PACKET_BYTES];
    let (kernel, work): (&'static str, Box<dyn FnMut()>) = match cipher.kind() {
        CipherKind::Ctr => {
            let key = CtrKey::with_features(cipher, &key, &iv, features).ok()?;
            (
                key.kernel(),
                Box::new(move || key.apply(0, black_box(&mut packet))),
            )
        }
        CipherKind::Cbc => {
            let key = CbcKey::new(cipher, &key).ok()?;
            let work = move || key.encrypt(&[2; 16], black_box(&mut packet));
            ("aws-lc", Box::new(work))
        }
        CipherKind::Gcm => {
            let key = GcmKey::new(cipher, &key, &iv).ok()?;
            let mut invocation = 0;
            let work = move || {
                invocation += 1;
                black_box(key.seal(invocation, [0; 4], black_box(&mut packet)));
            };
            ("aws-lc", Box::new(work))
        }
        CipherKind::ChaChaPoly => {
            let key = ChaChaPolyKey::with_features(&key, features).ok()?;
            let kernel = key.kernel();
            let work = move || {
                black_box(key.seal(0, black_box(&mut packet)));
            };
            (kernel, Box::new(work))
        }
    };
    Some(KernelTier {
        kernel,
        bytes: as_f64(PACKET_BYTES),
        work,
    })
}

fn mac_tier(mac: MacAlgorithm, features: &CpuFeatures) -> Option<KernelTier> {
    let key = MacKey::with_features(mac, &vec![1; mac.key_len()], features).ok()?;
    let kernel = key.kernel();
    let data = vec![3; MANY * PACKET_BYTES];
    let count = if key.gains_by_many() { MANY } else { 1 };
    let mut tags = vec![Tag::default(); count];
    let work = move || {
        let packets: Vec<(u32, &[u8])> = data
            .chunks(PACKET_BYTES)
            .take(count)
            .map(|packet| (0, packet))
            .collect();
        key.compute_many(black_box(&packets), &mut tags);
        black_box(&tags);
    };
    Some(KernelTier {
        kernel,
        bytes: as_f64(count * PACKET_BYTES),
        work: Box::new(work),
    })
}

#[allow(clippy::cast_precision_loss)]
fn as_f64(bytes: usize) -> f64 {
    bytes as f64
}
