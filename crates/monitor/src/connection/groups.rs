//! Groups for Diffie-Hellman group exchange (RFC 4419 §3), from the moduli file or built in.

use privsep::{ChooseGroup, Group};

use crate::log::Log;

/// Smallest (RFC 8270 §3) and largest group taken from the moduli file, in bits.
const MIN_GROUP_BITS: usize = 2048;
const MAX_GROUP_BITS: usize = 8192;

/// Chooses a group for a client's request; both fields are empty if none fits.
pub(crate) fn choose_group(request: &ChooseGroup, moduli_file: &str, log: &Log) -> Group {
    let bits = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let file = match sys::file::read_bounded(moduli_file, 8 << 20, sys::file::FollowLinks::Follow) {
        Ok(file) => Some(file),
        Err(error) => {
            log.info(&format!(
                "could not open {moduli_file} ({error}), using the built-in group"
            ));
            None
        }
    };
    let chosen = file.and_then(|file| {
        let chosen = keys::moduli::choose(
            &file,
            bits(request.min_bits).max(MIN_GROUP_BITS),
            bits(request.preferred_bits),
            bits(request.max_bits).min(MAX_GROUP_BITS),
            u64::from_be_bytes(crypto::random::bytes()),
        );
        if chosen.is_none() {
            log.info(&format!("WARNING: no suitable primes in {moduli_file}"));
        }
        chosen
    });
    match chosen {
        Some(group) => Group {
            p: group.modulus,
            g: group.generator,
        },
        None => built_in_group(request, bits(request.preferred_bits)),
    }
}

/// Chooses one of RFC 3526's groups if the file has none that fits; empty if none of these fits
/// either.
fn built_in_group(request: &ChooseGroup, preferred_bits: usize) -> Group {
    use crypto::kex::{DhGroup, KexAlgorithm};
    let candidates = [
        KexAlgorithm::DhGroup14Sha256,
        KexAlgorithm::DhGroup16Sha512,
        KexAlgorithm::DhGroup18Sha512,
    ];
    let mut fitting: Vec<DhGroup> = candidates
        .into_iter()
        .filter_map(|algorithm| DhGroup::fixed(algorithm).ok())
        .filter(|group| {
            u32::try_from(group.bits())
                .is_ok_and(|bits| (request.min_bits..=request.max_bits).contains(&bits))
        })
        .collect();
    // The smallest group that is large enough, else the largest.
    let at = fitting
        .iter()
        .position(|group| group.bits() >= preferred_bits)
        .unwrap_or(fitting.len().saturating_sub(1));
    if at < fitting.len() {
        let group = fitting.swap_remove(at);
        return Group {
            p: group.p(),
            g: group.g(),
        };
    }
    Group {
        p: Vec::new(),
        g: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use privsep::LogLevel;

    use super::*;

    #[test]
    fn groups_come_within_the_bounds_or_not_at_all() {
        let log = Log::to_memory(LogLevel::Info);
        let ask = |min_bits, preferred_bits, max_bits| {
            let request = ChooseGroup {
                min_bits,
                preferred_bits,
                max_bits,
            };
            choose_group(&request, "/nonexistent", &log).p.len() * 8
        };
        assert_eq!(ask(2048, 3072, 8192), 4096);
        assert_eq!(ask(2048, 8192, 8192), 8192);
        assert_eq!(ask(2048, 8192, 4096), 4096);
        assert_eq!(ask(1024, 1024, 1024), 0);
        assert_eq!(ask(9000, 9000, 16384), 0);
    }
}
