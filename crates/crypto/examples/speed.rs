//! How fast the primitives are on this machine: medians of CPU-bound loops.
//!
//! `cargo run --release -p crypto --example speed`

use std::hint::black_box;
use std::time::Instant;

use crypto::cipher::{CIPHERS, ChaChaPolyKey, CipherKind, CtrKey, GcmKey};
use crypto::kex::{DhGroup, DhPolicy, Initiator, KEXES, KexAlgorithm, KexFamily, respond};
use crypto::mac::{MACS, MacKey};
use crypto::sign::{KeyKind, PrivateKey, SignatureScheme};

/// Median nanoseconds of a call.
fn nanoseconds(mut call: impl FnMut()) -> u128 {
    let start = Instant::now();
    call();
    let once = start.elapsed().as_nanos().max(1);
    let calls = (5_000_000 / once).clamp(1, 100_000);
    let mut rounds: Vec<u128> = (0..9)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..calls {
                call();
            }
            start.elapsed().as_nanos() / calls
        })
        .collect();
    rounds.sort_unstable();
    rounds[rounds.len() / 2]
}

fn rate(name: &str, mut call: impl FnMut(&mut [u8])) {
    print!("{name:32}");
    for len in [64, 1024, 32768] {
        let mut data = vec![7; len];
        let ns = nanoseconds(|| call(black_box(&mut data)));
        print!("{ns:>8} ns {:>6.2} GB/s", len as f64 / ns as f64);
    }
    println!();
}

/// With an argument, only the packet algorithms whose names contain it.
fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    println!("features: {:?}", crypto::arch::describe());
    println!("kernels:  {:?}", crypto::arch::kernels());
    println!("{:32}{:>23}{:>23}{:>23}", "", "64 B", "1 KiB", "32 KiB");
    for spec in CIPHERS.iter().filter(|spec| spec.name.contains(&only)) {
        let (key, iv) = (vec![1; spec.key_len], vec![2; spec.iv_len]);
        match spec.kind {
            CipherKind::Ctr => {
                let key = CtrKey::new(spec.algorithm, &key, &iv).expect("lengths fit");
                rate(spec.name, |data| key.apply(0, data));
            }
            CipherKind::Gcm => {
                let key = GcmKey::new(spec.algorithm, &key, &iv).expect("lengths fit");
                rate(spec.name, |data| {
                    black_box(key.seal(1, [0; 4], data));
                });
            }
            CipherKind::ChaChaPoly => {
                let key = ChaChaPolyKey::new(&key).expect("length fits");
                rate(spec.name, |data| {
                    black_box(key.seal(1, data));
                });
            }
        }
    }
    for spec in MACS
        .iter()
        .filter(|spec| !spec.etm && spec.name.contains(&only))
    {
        let key = MacKey::new(spec.algorithm, &vec![1; spec.key_len]).expect("length fits");
        rate(spec.name, |data| {
            black_box(key.compute(1, data));
        });
    }
    if only.is_empty() {
        exchanges();
        signatures();
    }
}

fn exchanges() {
    for spec in KEXES {
        if spec.family == KexFamily::DhGroupExchange {
            continue;
        }
        let start = nanoseconds(|| {
            black_box(Initiator::new(spec.algorithm).expect("starts"));
        });
        let (_, init) = Initiator::new(spec.algorithm).expect("starts");
        let answer = nanoseconds(|| {
            black_box(respond(spec.algorithm, &init).expect("answers"));
        });
        let (reply, _) = respond(spec.algorithm, &init).expect("answers");
        let whole = nanoseconds(|| {
            let (half, _) = Initiator::new(spec.algorithm).expect("starts");
            black_box(half.finish(&reply).expect("ends"));
        });
        println!(
            "{:36} start {:>6} us, respond {:>6} us, finish {:>6} us",
            spec.name,
            start / 1000,
            answer / 1000,
            whole.saturating_sub(start) / 1000
        );
    }
    for algorithm in [
        KexAlgorithm::DhGroup14Sha256,
        KexAlgorithm::DhGroup16Sha512,
        KexAlgorithm::DhGroup18Sha512,
    ] {
        let group = DhGroup::fixed(algorithm).expect("fixed");
        let start = Instant::now();
        let checked = DhGroup::new(&group.p(), &[2], &DhPolicy::default());
        println!(
            "safe-prime check of {} bits: {} ms ({})",
            group.bits(),
            start.elapsed().as_millis(),
            checked.is_ok()
        );
    }
}

fn signatures() {
    for (kind, scheme) in [
        (KeyKind::Ed25519, SignatureScheme::Ed25519),
        (KeyKind::EcdsaP256, SignatureScheme::EcdsaP256Sha256),
        (KeyKind::EcdsaP384, SignatureScheme::EcdsaP384Sha384),
        (KeyKind::EcdsaP521, SignatureScheme::EcdsaP521Sha512),
        (KeyKind::Rsa, SignatureScheme::RsaPkcs1Sha512),
    ] {
        let key = PrivateKey::generate(kind, 3072).expect("generates");
        let signature = key.sign(scheme, b"m").expect("signs");
        let sign = nanoseconds(|| {
            black_box(key.sign(scheme, b"m").expect("signs"));
        });
        let verify = nanoseconds(|| {
            assert_eq!(key.public().verify(scheme, b"m", &signature), Ok(()));
        });
        println!(
            "{scheme:36?} sign {:>6} us, verify {:>6} us",
            sign / 1000,
            verify / 1000
        );
    }
}
