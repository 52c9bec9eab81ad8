//! The types of keys that can be asked for (`-t`).

use keys::{KeyType, SignatureAlgorithm};

/// Number of [`TYPES`].
pub(crate) const COUNT: usize = TYPES.len();

/// The types in the order in which ssh-keyscan asks for them. ECDSA is one type with three curves.
const TYPES: [&[KeyType]; 6] = [
    &[KeyType::Rsa],
    &[KeyType::EcdsaP256, KeyType::EcdsaP384, KeyType::EcdsaP521],
    &[KeyType::Ed25519],
    &[KeyType::SkEcdsaP256],
    &[KeyType::SkEd25519],
    &[KeyType::MlDsa44Ed25519],
];

/// A set of [`TYPES`], by their positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyTypes([bool; COUNT]);

impl KeyTypes {
    /// No type.
    pub(crate) const NONE: Self = Self([false; COUNT]);
    /// Every type.
    pub(crate) const ALL: Self = Self([true; COUNT]);

    /// The type at one position alone.
    pub(crate) fn only(position: usize) -> Self {
        let mut types = Self::NONE;
        types.insert(position);
        types
    }

    pub(crate) fn insert(&mut self, position: usize) {
        if let Some(slot) = self.0.get_mut(position) {
            *slot = true;
        }
    }

    /// The positions in the set, ascending.
    pub(crate) fn positions(self) -> impl Iterator<Item = usize> {
        (0..COUNT).filter(move |position| self.0.get(*position) == Some(&true))
    }

    /// Names of the algorithms to offer: those of certificates or those of plain keys.
    pub(crate) fn algorithms(self, certificates: bool) -> Vec<String> {
        self.positions()
            .flat_map(|position| algorithms_at(position, certificates))
            .map(|algorithm| algorithm.name().to_owned())
            .collect()
    }

    /// Those of the set for which `offered`, a server's list, has an algorithm.
    pub(crate) fn offered_in(self, offered: &[String], certificates: bool) -> Self {
        let mut types = Self::NONE;
        for position in self.positions() {
            let mut ours = algorithms_at(position, certificates);
            if ours.any(|algorithm| offered.iter().any(|name| name == algorithm.name())) {
                types.insert(position);
            }
        }
        types
    }
}

fn algorithms_at(position: usize, certificates: bool) -> impl Iterator<Item = SignatureAlgorithm> {
    let types = TYPES.get(position).copied().unwrap_or_default();
    types
        .iter()
        .flat_map(move |each| match certificates {
            true => each.certificate_algorithms(),
            false => each.algorithms(),
        })
        .copied()
        .filter(|algorithm| wire::algorithms::KNOWN_SIGNATURES.contains(&algorithm.name()))
}

/// The position of a key's type.
pub(crate) fn position_of(key_type: KeyType) -> Option<usize> {
    TYPES.iter().position(|types| types.contains(&key_type))
}

/// Reads a name of `-t`: the short one in any case (`ed25519`), or the name of a key or signature
/// algorithm (`ssh-ed25519`, `rsa-sha2-512`).
pub(crate) fn position_by_name(name: &str) -> Option<usize> {
    TYPES.iter().position(|types| {
        types.iter().any(|each| {
            each.label().eq_ignore_ascii_case(name)
                || each.name() == name
                || each
                    .algorithms()
                    .iter()
                    .any(|algorithm| algorithm.name() == name)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_type_can_be_asked_for_by_its_names() {
        for key_type in KeyType::ALL {
            let position = position_of(key_type).unwrap();
            for name in [
                key_type.name(),
                key_type.label(),
                &key_type.label().to_lowercase(),
            ] {
                assert_eq!(position_by_name(name), Some(position), "{name}");
            }
            assert_eq!(position_by_name(key_type.certificate_name()), None);
        }
        assert_eq!(position_by_name("rsa-sha2-256"), position_by_name("rsa"));
        assert_eq!(position_by_name("dsa"), None);
    }

    #[test]
    fn types_that_a_server_lacks_are_not_asked_for() {
        let offered = [
            "ecdsa-sha2-nistp384",
            "rsa-sha2-512",
            "ssh-ed25519-cert-v01@openssh.com",
        ];
        let offered = offered.map(String::from);
        let found = |certificates| KeyTypes::ALL.offered_in(&offered, certificates);
        assert_eq!(found(false).positions().collect::<Vec<_>>(), [0, 1]);
        assert_eq!(found(true).positions().collect::<Vec<_>>(), [2]);
        let asked_for = KeyTypes::only(0).algorithms(true);
        let known = if wire::algorithms::STRICT { 2 } else { 3 };
        assert_eq!(
            asked_for[..],
            [
                "rsa-sha2-512-cert-v01@openssh.com",
                "rsa-sha2-256-cert-v01@openssh.com",
                "ssh-rsa-cert-v01@openssh.com"
            ][..known]
        );
    }
}
