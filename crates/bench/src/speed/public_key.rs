//! Signatures and key exchanges, beside what the machine's `openssl speed` says and beside the
//! same code without the CPU's extensions.

use crypto::kex::{Initiator, KexAlgorithm, respond};
use crypto::sign::{KeyKind, PrivateKey, SignatureScheme};

use super::peers::{self, Baseline};
use super::select::Selection;
use super::time::{SLICE, rate_of_prepared, rates};

/// The kind of an operation with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperationKind {
    /// sign, verify
    Signature,
    /// keygen, respond, agree
    Exchange,
}

impl OperationKind {
    /// The names of its operations.
    pub(super) fn operations(self) -> &'static [&'static str] {
        match self {
            Self::Signature => &["sign", "verify"],
            Self::Exchange => &["keygen", "respond", "agree"],
        }
    }
}

/// One algorithm; operations a second, in the order of [`OperationKind::operations`].
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PublicKeyRow {
    pub(super) name: &'static str,
    pub(super) kind: OperationKind,
    pub(super) ours: Vec<f64>,
    /// By `openssl speed`, where it has the operation.
    pub(super) openssl: Option<Vec<f64>>,
    /// By the same library on plain instructions, where its CPU features can be switched off.
    pub(super) portable: Option<Vec<f64>>,
}

enum MeasuredWork {
    Signature(KeyKind, SignatureScheme, usize),
    Exchange(KexAlgorithm),
}

struct Algorithm {
    name: &'static str,
    /// Other names by which it is asked for.
    aliases: &'static [&'static str],
    /// The argument of `openssl speed`.
    openssl: Option<&'static str>,
    work: MeasuredWork,
}

const fn rsa(name: &'static str, openssl: &'static str, bits: usize) -> Algorithm {
    Algorithm {
        name,
        aliases: &[],
        openssl: Some(openssl),
        work: MeasuredWork::Signature(KeyKind::Rsa, SignatureScheme::RsaPkcs1Sha512, bits),
    }
}

const fn signature(
    name: &'static str,
    aliases: &'static [&'static str],
    openssl: &'static str,
    kind: KeyKind,
    scheme: SignatureScheme,
) -> Algorithm {
    Algorithm {
        name,
        aliases,
        openssl: Some(openssl),
        work: MeasuredWork::Signature(kind, scheme, 0),
    }
}

const fn exchange(
    name: &'static str,
    aliases: &'static [&'static str],
    openssl: Option<&'static str>,
    algorithm: KexAlgorithm,
) -> Algorithm {
    Algorithm {
        name,
        aliases,
        openssl,
        work: MeasuredWork::Exchange(algorithm),
    }
}

use KexAlgorithm as Kex;
use SignatureScheme as Scheme;

/// THE table of public-key algorithms that are measured.
#[rustfmt::skip]
const ALGORITHMS: &[Algorithm] = &[
    rsa("rsa-2048", "rsa2048", 2048),
    rsa("rsa-3072", "rsa3072", 3072),
    rsa("rsa-4096", "rsa4096", 4096),
    signature("ecdsa-nistp256", &["ecdsa-sha2-nistp256"], "ecdsap256", KeyKind::EcdsaP256, Scheme::EcdsaP256Sha256),
    signature("ecdsa-nistp384", &["ecdsa-sha2-nistp384"], "ecdsap384", KeyKind::EcdsaP384, Scheme::EcdsaP384Sha384),
    signature("ecdsa-nistp521", &["ecdsa-sha2-nistp521"], "ecdsap521", KeyKind::EcdsaP521, Scheme::EcdsaP521Sha512),
    signature("ed25519", &["ssh-ed25519", "eddsa"], "ed25519", KeyKind::Ed25519, Scheme::Ed25519),
    // With Ed25519, whose name would select this row too: a part of a name is enough.
    Algorithm {
        name: "mldsa44",
        aliases: &[],
        openssl: None,
        work: MeasuredWork::Signature(KeyKind::MlDsa44Ed25519, Scheme::MlDsa44Ed25519, 0),
    },
    exchange("mlkem768x25519-sha256", &[], None, Kex::MlKem768X25519Sha256),
    exchange("mlkem768nistp256-sha256", &[], None, Kex::MlKem768NistP256Sha256),
    exchange("sntrup761x25519-sha512", &[], None, Kex::Sntrup761X25519Sha512),
    exchange("curve25519-sha256", &["ecdhx25519"], Some("ecdhx25519"), Kex::Curve25519Sha256),
    exchange("ecdh-sha2-nistp256", &[], Some("ecdhp256"), Kex::EcdhNistP256),
    exchange("ecdh-sha2-nistp384", &[], Some("ecdhp384"), Kex::EcdhNistP384),
    exchange("ecdh-sha2-nistp521", &[], Some("ecdhp521"), Kex::EcdhNistP521),
    exchange("diffie-hellman-group14-sha256", &["ffdh2048"], Some("ffdh2048"), Kex::DhGroup14Sha256),
    exchange("diffie-hellman-group16-sha512", &["ffdh4096"], Some("ffdh4096"), Kex::DhGroup16Sha512),
    exchange("diffie-hellman-group18-sha512", &["ffdh8192"], Some("ffdh8192"), Kex::DhGroup18Sha512),
];

/// Measures what was asked for. With `peers`, other implementations, too.
pub(super) fn rows(selection: &Selection, peers: bool) -> Vec<PublicKeyRow> {
    let wanted: Vec<&Algorithm> = ALGORITHMS
        .iter()
        .filter(|algorithm| {
            let names = [&[algorithm.name], algorithm.aliases].concat();
            selection.wants_any(&names)
        })
        .collect();
    let names: Vec<&str> = wanted.iter().map(|algorithm| algorithm.name).collect();
    let baseline = if peers && !names.is_empty() {
        Baseline::measure(&names)
    } else {
        Baseline::default()
    };
    let measured = wanted.into_iter().filter_map(|algorithm| {
        let (kind, ours) = match algorithm.work {
            MeasuredWork::Signature(key, scheme, bits) => {
                (OperationKind::Signature, signatures(key, scheme, bits)?)
            }
            MeasuredWork::Exchange(method) => (OperationKind::Exchange, exchanges(method)?),
        };
        let openssl = algorithm.openssl.filter(|_| peers);
        let openssl = openssl.and_then(peers::openssl).and_then(|rates| {
            match (kind, rates.as_slice()) {
                (OperationKind::Signature, [_, _]) => Some(rates),
                // What it calls an operation is the agreement.
                (OperationKind::Exchange, [rate]) => Some(vec![f64::NAN, f64::NAN, *rate]),
                _ => None,
            }
        });
        let portable = kind.operations().iter();
        let portable: Option<Vec<f64>> = portable
            .map(|operation| baseline.rate(algorithm.name, operation))
            .collect();
        Some(PublicKeyRow {
            name: algorithm.name,
            kind,
            ours,
            openssl,
            portable,
        })
    });
    measured.collect()
}

fn signatures(kind: KeyKind, scheme: SignatureScheme, bits: usize) -> Option<Vec<f64>> {
    let key = PrivateKey::generate(kind, bits).ok()?;
    let message = [0x5a; 64];
    let signature = key.sign(scheme, &message).ok()?;
    let mut sign = || {
        let _ = std::hint::black_box(key.sign(scheme, &message));
    };
    let mut verify = || {
        let _ = std::hint::black_box(key.public().verify(scheme, &message, &signature));
    };
    Some(rates(&mut [(1.0, &mut sign), (1.0, &mut verify)], SLICE))
}

fn exchanges(method: KexAlgorithm) -> Option<Vec<f64>> {
    let (_, public) = Initiator::new(method).ok()?;
    let mut keygen = || {
        let _ = std::hint::black_box(Initiator::new(method));
    };
    let mut reply = || {
        let _ = std::hint::black_box(respond(method, &public));
    };
    let mut rates = rates(&mut [(1.0, &mut keygen), (1.0, &mut reply)], SLICE);
    let prepare = || {
        let (initiator, public) = Initiator::new(method).ok()?;
        let (reply, _) = respond(method, &public).ok()?;
        Some((initiator, reply))
    };
    rates.push(rate_of_prepared(prepare, |(initiator, reply)| {
        let _ = std::hint::black_box(initiator.finish(&reply));
    }));
    Some(rates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(asked: &[&str]) -> Vec<&'static str> {
        let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
        let selection = Selection::new(&asked);
        ALGORITHMS
            .iter()
            .filter(|each| selection.wants_any(&[&[each.name], each.aliases].concat()))
            .map(|each| each.name)
            .collect()
    }

    #[test]
    fn algorithms_go_by_the_names_of_openssl_speed() {
        for algorithm in ALGORITHMS {
            if let Some(openssl) = algorithm.openssl {
                assert_eq!(names(&[openssl]), [algorithm.name]);
            }
        }
        assert_eq!(names(&["rsa"]).len(), 3);
        assert_eq!(names(&["ecdsa"]).len(), 3);
        assert_eq!(names(&["ecdh"]).len(), 4);
        assert_eq!(names(&["dh"]).len(), 3);
        assert_eq!(names(&["ed25519"]), ["ed25519"]);
        assert_eq!(names(&["x25519"]), ["curve25519-sha256"]);
        assert_eq!(
            names(&["mlkem"]),
            ["mlkem768x25519-sha256", "mlkem768nistp256-sha256"]
        );
        assert_eq!(names(&["sntrup"]), ["sntrup761x25519-sha512"]);
        assert_eq!(names(&[]).len(), ALGORITHMS.len());
    }

    #[test]
    fn every_operation_is_measured() {
        let selection = Selection::new(&["ed25519".to_owned(), "x25519".to_owned()]);
        let rows = rows(&selection, false);
        assert_eq!(rows.len(), 2);
        for row in rows {
            assert_eq!(row.ours.len(), row.kind.operations().len());
            assert!(row.ours.iter().all(|rate| rate.is_finite() && *rate > 10.0));
            assert_eq!((row.openssl, row.portable), (None, None));
        }
    }
}
