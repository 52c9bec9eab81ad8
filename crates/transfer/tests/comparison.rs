//! A comparison after a copy uses the first of the copy's connections.

mod adversary;

use std::fs;

use transfer::engine::Engine;
use transfer::verify::{Compare, Pair};

use adversary::{Adversary, Nature, Place};

#[test]
fn pairs_are_compared_whatever_connections_the_copy_had() {
    for links in 1..4 {
        for chance in [None, Some(7), Some(8)] {
            let place = Place::new(&format!("comparison-{links}-{chance:?}"));
            let mut adversary = Adversary::new(Nature {
                links,
                chance,
                ..Nature::default()
            });
            let mut pairs = Vec::new();
            for number in 0..40 {
                let name = format!("f{number}");
                fs::write(place.join(&name), &name).unwrap();
                let there = match number {
                    7 => "other".to_owned(),
                    _ => name.clone(),
                };
                let remote = format!("/{name}").into_bytes();
                adversary.files.insert(remote.clone(), there.into_bytes());
                pairs.push(Pair {
                    local: place.join(name),
                    remote,
                });
            }
            let mut compare = Compare::new(pairs);
            Engine::new(adversary).run(&mut compare).unwrap();
            let failures = compare.failures();
            assert_eq!(failures.len(), 1, "{failures:?}");
            assert!(failures[0].contains("/f7"), "{failures:?}");
        }
    }
}
