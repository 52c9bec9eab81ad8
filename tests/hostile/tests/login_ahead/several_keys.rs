//! Several keys, and a server that counts those that it refuses.

use interop::agent::{RealAgent, program};
use interop::peers::ours::Kind;
use interop::process::Input;
use interop::site::finish;

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
        let questions = take(adversary, 4);
        assert_eq!(numbers(&questions), [5, 50, 50, 50]);
        for (request, key) in questions[1..].iter().zip(&keys) {
            assert_eq!(request_of(request), (false, key.public().blob()));
        }
        adversary.say(&accept());
        adversary.send(&failure("publickey"));
        // It may have other rights than the key of the last login, which comes after it.
        accepts_key(adversary, &keys[1]);
        accepts_key(adversary, &keys[2]);
        let all = take(adversary, 5);
        assert_eq!(numbers(&all), ALL[1..]);
        assert_eq!(key_of(&all[0]), keys[1].public().blob());
        adversary.say(&UserauthSuccess {});
        serve_started(adversary, 0, 7);
    });
    ended(&outcome, 7);
    let said = said(&outcome);
    let offers: Vec<&str> = said
        .lines()
        .filter_map(|line| line.strip_prefix("debug1: Offering public key: "))
        .filter_map(|line| line.split_once(' '))
        .map(|(path, _)| path)
        .collect();
    let paths = ["key0", "key1", "key2"].map(|key| scratch.join(key).display().to_string());
    assert_eq!(offers, paths, "{said}");
}

/// A server that takes one request only is asked about the first key; the known one signs when its turn comes.
#[test]
fn a_server_of_one_request_gets_a_question_about_another_key_than_the_known_one() {
    let scratch = Scratch::new();
    let (keys, arguments) = with_four_keys(&scratch);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = client_at(&scratch, &arguments, |adversary| {
        exchange_as(adversary, OTHER, &Offer::default());
        take(adversary, 2);
        adversary.say(&accept());
        adversary.send(&failure("publickey"));
        take(adversary, 1);
        accepts_key(adversary, &keys[1]);
        assert_eq!(key_of(&adversary.expect(50)), keys[1].public().blob());
        adversary.say(&UserauthSuccess {});
        adversary.expect(90);
        serve_unstarted(adversary, 6);
    });
    ended(&outcome, 6);
    let outcome = client_at(&scratch, &arguments, |adversary| {
        exchange_as(adversary, OTHER, &Offer::default());
        let all = take(adversary, 2);
        assert_eq!(numbers(&all), [5, 50]);
        assert_eq!(request_of(&all[1]), (false, keys[0].public().blob()));
        assert!(waits(adversary));
        adversary.say(&accept());
        adversary.send(&failure("publickey"));
        assert_eq!(key_of(&adversary.expect(50)), keys[1].public().blob());
        adversary.say(&UserauthSuccess {});
        adversary.expect(90);
        serve_unstarted(adversary, 7);
    });
    ended(&outcome, 7);
}

/// A Fulmar agent with these keys, and the option that names it; `None` where there is no agent.
fn agent_with(scratch: &Scratch, keys: &[PrivateKey]) -> Option<(RealAgent, String)> {
    let agent = RealAgent::start_of(Kind::Fulmar, &[])?;
    for (index, key) in keys.iter().enumerate() {
        let text = keys::private_file::write_openssh(key, "k", None).expect("a key file");
        let path = scratch.write(&format!("key{index}"), text.as_bytes());
        private(&path);
        let mut add = program(Kind::Fulmar, "add").expect("an ssh-add");
        add.env("SSH_AUTH_SOCK", &agent.socket).arg("-q").arg(&path);
        ended(&finish(&mut add, Input::Nothing), 0);
    }
    let option = format!("-oIdentityAgent={}", agent.socket.display());
    Some((agent, option))
}

/// An agent may ask its user: it signs with its only key when the server has accepted it, and at once when the last login
/// was with it.
#[test]
fn the_only_key_of_an_agent_is_asked_about_before_it_signs() {
    let scratch = Scratch::new();
    let key = PrivateKey::from_ed25519_seed(&[31; 32]);
    let Some((_agent, socket)) = agent_with(&scratch, std::slice::from_ref(&key)) else {
        return;
    };
    scratch.write("identity", key.public().to_line());
    let arguments = [&socket, ALIAS[0], ALIAS[1], ALIAS[2], ALIAS[3]];
    let outcome = client_at(&scratch, &arguments, |adversary| {
        exchange_as(adversary, OPENSSH, &Offer::default());
        let all = take(adversary, 2);
        assert_eq!(numbers(&all), [5, 50]);
        assert_eq!(request_of(&all[1]), (false, key.public().blob()));
        assert!(waits(adversary));
        adversary.say(&accept());
        accepts_key(adversary, &key);
        let all = take(adversary, 5);
        assert_eq!(numbers(&all), ALL[1..]);
        assert_eq!(key_of(&all[0]), key.public().blob());
        adversary.say(&UserauthSuccess {});
        serve_started(adversary, 0, 6);
    });
    ended(&outcome, 6);
    let outcome = client_at(&scratch, &arguments, |adversary| {
        let all = ahead(adversary, OPENSSH, 6);
        assert_eq!(key_of(&all[1]), key.public().blob());
        grant(adversary);
        serve_started(adversary, 0, 7);
    });
    ended(&outcome, 7);
}

/// Several keys of an agent that nobody named come after the question for the server's methods, and without it when the
/// last login was with one of them.
#[test]
fn the_keys_of_an_agent_go_at_once_when_the_last_login_was_with_one() {
    let scratch = Scratch::new();
    let keys = [31, 32].map(|seed| PrivateKey::from_ed25519_seed(&[seed; 32]));
    let Some((_agent, socket)) = agent_with(&scratch, &keys) else {
        return;
    };
    scratch.write("identity", "no key\n");
    let all = "-oIdentitiesOnly=no";
    let arguments = [&socket, all, ALIAS[0], ALIAS[1], ALIAS[2], ALIAS[3]];
    let outcome = client_at(&scratch, &arguments, |adversary| {
        exchange_as(adversary, OPENSSH, &Offer::default());
        assert_eq!(numbers(&take(adversary, 2)), [5, 50]);
        assert!(waits(adversary));
        adversary.say(&accept());
        adversary.send(&failure("publickey"));
        for (key, is_accepted) in keys.iter().zip([false, true]) {
            let question = adversary.expect(50);
            assert_eq!(request_of(&question), (false, key.public().blob()));
            match is_accepted {
                true => accepts_key(adversary, key),
                false => drop(adversary.send(&failure("publickey"))),
            }
        }
        assert_eq!(key_of(&adversary.expect(50)), keys[1].public().blob());
        adversary.say(&UserauthSuccess {});
        take(adversary, 4);
        serve_started(adversary, 0, 6);
    });
    ended(&outcome, 6);
    let outcome = client_at(&scratch, &arguments, |adversary| {
        exchange_as(adversary, OPENSSH, &Offer::default());
        let questions = take(adversary, 3);
        assert_eq!(numbers(&questions), [5, 50, 50]);
        for (request, key) in questions[1..].iter().zip(&keys) {
            assert_eq!(request_of(request), (false, key.public().blob()));
        }
        adversary.say(&accept());
        accepts_key(adversary, &keys[0]);
        adversary.send(&failure("publickey"));
        let all = take(adversary, 5);
        assert_eq!(numbers(&all), ALL[1..]);
        assert_eq!(key_of(&all[0]), keys[0].public().blob());
        adversary.say(&UserauthSuccess {});
        serve_started(adversary, 0, 7);
    });
    ended(&outcome, 7);
    let outcome = client_at(&scratch, &arguments, |adversary| {
        let all = ahead(adversary, OPENSSH, 6);
        assert_eq!(key_of(&all[1]), keys[0].public().blob());
        grant(adversary);
        serve_started(adversary, 0, 8);
    });
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
