//! Several keys, and a server that counts those that it refuses.

use super::*;

/// A client of four keys that stores what it learns.
fn with_four_keys(scratch: &Scratch) -> (Vec<PrivateKey>, Vec<String>) {
    let keys: Vec<PrivateKey> = (31..=34)
        .map(|seed| PrivateKey::from_ed25519_seed(&[seed; 32]))
        .collect();
    let mut arguments = vec!["-v".to_owned(), "-oHostKeyAlias=adversary".to_owned()];
    for (index, key) in keys.iter().enumerate() {
        let text = keys::private_file::write_openssh(key, "k", None).expect("a key file");
        let path = scratch.write(&format!("key{index}"), text.as_bytes());
        private(&path);
        arguments.extend(["-i".to_owned(), path.display().to_string()]);
    }
    // The harness adds an identity of its own first: a file that is not a key.
    scratch.write("identity", "no key\n");
    arguments.extend(["user@127.0.0.1".to_owned(), "the command".to_owned()]);
    (keys, arguments)
}

fn accepts_key(adversary: &mut Adversary<Tcp>, key: &PrivateKey) {
    adversary.say(&UserauthPkOk {
        algorithm: b"ssh-ed25519",
        key: &key.public().blob(),
    });
}

/// A server counts refused signatures: it is asked about several keys, and the accepted one signs. The next login
/// knows which that was.
#[test]
fn up_to_three_keys_go_at_once_and_late_answers_are_known_by_their_number() {
    let scratch = Scratch::new();
    let (keys, arguments) = with_four_keys(&scratch);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = client_at(&scratch, &arguments, |adversary| {
        exchange_as(adversary, OPENSSH, &Offer::default());
        let questions = take(adversary, 4);
        assert_eq!(numbers(&questions), [5, 50, 50, 50]);
        for (request, key) in questions[1..].iter().zip(&keys) {
            assert_eq!(request_of(request), (false, key.public().blob()));
        }
        adversary.say(&accept());
        adversary.send(&failure("publickey"));
        adversary.send(&failure("publickey"));
        accepts_key(adversary, &keys[2]);
        let all = take(adversary, 5);
        assert_eq!(numbers(&all), ALL[1..]);
        assert_eq!(key_of(&all[0]), keys[2].public().blob());
        adversary.say(&UserauthSuccess {});
        serve_started(adversary, 0, 6);
    });
    ended(&outcome, 6);
    let outcome = client_at(&scratch, &arguments, |adversary| {
        exchange_as(adversary, OPENSSH, &Offer::default());
        let all = take(adversary, 8);
        assert_eq!(numbers(&all), [5, 50, 50, 50, 90, 98, 96, 80]);
        for (request, key) in all[1..4].iter().zip(&keys) {
            assert_eq!(key_of(request), key.public().blob());
        }
        let last = adversary.received;
        adversary.say(&accept());
        adversary.send(&failure("publickey"));
        adversary.say(&UserauthSuccess {});
        // The third key's request finds the user logged in.
        adversary.say(&Unimplemented { sequence: last - 4 });
        serve_started(adversary, 0, 7);
    });
    ended(&outcome, 7);
}

/// The keys before that of the last login use up the server's patience: they are not signed with again.
#[test]
fn keys_that_go_ahead_of_the_known_one_are_asked_about_if_they_are_too_many() {
    let scratch = Scratch::new();
    let (keys, arguments) = with_four_keys(&scratch);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = client_at(&scratch, &arguments, |adversary| {
        exchange_as(adversary, OPENSSH, &Offer::default());
        take(adversary, 4);
        adversary.say(&accept());
        adversary.send(&failure("publickey"));
        accepts_key(adversary, &keys[1]);
        adversary.send(&failure("publickey"));
        take(adversary, 5);
        adversary.say(&UserauthSuccess {});
        serve_started(adversary, 0, 6);
    });
    ended(&outcome, 6);
    let impatient: Script<'_> = Box::new(|adversary| {
        exchange_as(adversary, OPENSSH, &Offer::default());
        assert_eq!(numbers(&take(adversary, 7)), [5, 50, 50, 90, 98, 96, 80]);
        adversary.say(&accept());
        adversary.send(&failure("publickey"));
        adversary.say(&too_many());
    });
    let in_steps: Script<'_> = Box::new(|adversary| {
        exchange_as(adversary, OPENSSH, &Offer::default());
        adversary.expect(5);
        adversary.say(&accept());
        let first = adversary.expect(50);
        assert_eq!(request_of(&first), (false, keys[0].public().blob()));
        adversary.send(&failure("publickey"));
        let second = adversary.expect(50);
        assert_eq!(request_of(&second), (false, keys[1].public().blob()));
        accepts_key(adversary, &keys[1]);
        assert_eq!(key_of(&adversary.expect(50)), keys[1].public().blob());
        adversary.say(&UserauthSuccess {});
        adversary.expect(90);
        serve_unstarted(adversary, 8);
    });
    let outcome = client_through(&scratch, &arguments, vec![impatient, in_steps]);
    ended(&outcome, 8);
}

fn too_many() -> Disconnect<'static> {
    Disconnect {
        reason: 2,
        description: b"Too many authentication failures",
        language: b"",
    }
}

/// Another connection would end alike.
#[test]
fn a_key_too_many_ends_the_login_at_once() {
    let outcome = client_at(&Scratch::new(), &COMMAND, |adversary| {
        ahead(adversary, OPENSSH, 6);
        adversary.say(&accept());
        adversary.say(&too_many());
    });
    ended(&outcome, 255);
    let said = said(&outcome);
    assert!(said.contains("Too many authentication failures"), "{said}");
    assert!(!said.contains("trying again"), "{said}");
}
