use super::*;

const ALL: Enabled = Enabled {
    publickey: true,
    password: true,
    kbdint: true,
    hostbased: false,
    gssapi: false,
    gssapi_keyex: false,
    none: false,
};

fn chains(lists: &[&str]) -> Chains {
    Chains::new("ada", &configured(lists), ALL)
}

fn configured(lists: &[&str]) -> Vec<Vec<String>> {
    lists
        .iter()
        .map(|list| list.split(',').map(str::to_owned).collect())
        .collect()
}

#[test]
fn without_a_demand_one_method_is_enough() {
    for lists in [&[][..], &["any"]] {
        let mut chains = chains(lists);
        assert_eq!(
            chains.methods(),
            ["publickey", "password", "keyboard-interactive"]
        );
        let ChainProgress::Complete(proof) = chains.succeed(ChainMethod::Password, None, None)
        else {
            panic!("one success completes");
        };
        assert_eq!(proof.user(), "ada");
        assert_eq!(proof.methods(), ["password"]);
    }
}

#[test]
fn steps_are_taken_in_their_order() {
    let mut chains = chains(&["publickey,password", "publickey,keyboard-interactive"]);
    assert_eq!(chains.methods(), ["publickey"]);
    assert!(!chains.allows(ChainMethod::Password));
    assert!(matches!(
        chains.succeed(ChainMethod::Password, None, None),
        ChainProgress::NotAsked
    ));
    assert!(matches!(
        chains.succeed(ChainMethod::Publickey, None, Some(b"k1")),
        ChainProgress::Partial
    ));
    assert_eq!(chains.methods(), ["password", "keyboard-interactive"]);
    let ChainProgress::Complete(proof) =
        chains.succeed(ChainMethod::KeyboardInteractive, Some("pam"), None)
    else {
        panic!("the second list is complete");
    };
    assert_eq!(proof.methods(), ["publickey", "keyboard-interactive"]);
}

#[test]
fn two_publickey_steps_need_two_keys() {
    let mut chains = chains(&["publickey,publickey"]);
    assert!(matches!(
        chains.succeed(ChainMethod::Publickey, None, Some(b"k1")),
        ChainProgress::Partial
    ));
    assert!(chains.is_used(b"k1"));
    assert!(matches!(
        chains.succeed(ChainMethod::Publickey, None, Some(b"k1")),
        ChainProgress::NotAsked
    ));
    assert!(matches!(
        chains.succeed(ChainMethod::Publickey, None, Some(b"k2")),
        ChainProgress::Complete(_)
    ));
}

#[test]
fn a_submethod_must_be_the_one_named() {
    let mut chains = chains(&[
        "keyboard-interactive:bsdauth",
        "publickey,keyboard-interactive:pam",
    ]);
    assert_eq!(chains.kbdint_submethods(), Some(vec!["bsdauth"]));
    assert!(matches!(
        chains.succeed(ChainMethod::KeyboardInteractive, Some("pam"), None),
        ChainProgress::NotAsked
    ));
    assert!(matches!(
        chains.succeed(ChainMethod::Publickey, None, Some(b"k")),
        ChainProgress::Partial
    ));
    assert!(matches!(
        chains.succeed(ChainMethod::KeyboardInteractive, Some("pam"), None),
        ChainProgress::Complete(_)
    ));
}

#[test]
fn lists_with_methods_that_are_off_or_unknown_are_dropped() {
    let lists = configured(&["publickey,password", "gssapi-with-mic"]);
    let enabled = Enabled {
        password: false,
        ..ALL
    };
    let mut chains = Chains::new("ada", &lists, enabled);
    assert!(chains.hopeless());
    assert_eq!(chains.methods(), Vec::<String>::new());
    assert!(matches!(
        chains.succeed(ChainMethod::Publickey, None, Some(b"k")),
        ChainProgress::NotAsked
    ));
}

#[test]
fn a_method_that_is_off_never_succeeds() {
    let mut chains = Chains::new(
        "ada",
        &[],
        Enabled {
            publickey: true,
            ..Enabled::default()
        },
    );
    for method in [
        ChainMethod::None,
        ChainMethod::Password,
        ChainMethod::KeyboardInteractive,
    ] {
        assert!(!chains.allows(method));
        assert!(matches!(
            chains.succeed(method, None, None),
            ChainProgress::NotAsked
        ));
    }
}

/// As in OpenSSH, a chain with `none` is never complete, even for a user with an empty password.
#[test]
fn a_chain_with_none_is_never_complete() {
    let enabled = Enabled { none: true, ..ALL };
    for list in ["none", "none,publickey", "publickey,none"] {
        let mut chains = Chains::new("ada", &configured(&[list]), enabled);
        assert!(chains.hopeless(), "{list}");
        assert!(chains.methods().is_empty());
        assert!(!chains.allows(ChainMethod::None) && !chains.allows(ChainMethod::Publickey));
        assert!(matches!(
            chains.succeed(ChainMethod::None, None, None),
            ChainProgress::NotAsked
        ));
    }
    let mut chains = Chains::new("ada", &configured(&["none", "publickey"]), enabled);
    assert_eq!(chains.methods(), ["publickey"]);
    assert!(matches!(
        chains.succeed(ChainMethod::Publickey, None, Some(b"key")),
        ChainProgress::Complete(_)
    ));
}

#[test]
fn the_key_of_a_host_is_a_step_of_its_own() {
    let enabled = Enabled {
        hostbased: true,
        ..ALL
    };
    let mut chains = Chains::new("ada", &configured(&["hostbased,publickey"]), enabled);
    assert_eq!(chains.methods(), ["hostbased"]);
    let publickey = chains.succeed(ChainMethod::Publickey, None, Some(b"k1"));
    assert!(matches!(publickey, ChainProgress::NotAsked));
    let host = chains.succeed(ChainMethod::Hostbased, None, Some(b"host"));
    assert!(matches!(host, ChainProgress::Partial));
    // The host's key is no second factor.
    let same = chains.succeed(ChainMethod::Publickey, None, Some(b"host"));
    assert!(matches!(same, ChainProgress::NotAsked));
    let other = chains.succeed(ChainMethod::Publickey, None, Some(b"k1"));
    assert!(matches!(other, ChainProgress::Complete(_)));
    assert!(Chains::new("ada", &configured(&["hostbased"]), ALL).hopeless());
}

#[test]
fn a_ticket_is_a_step_like_any_other_and_needs_no_key() {
    let enabled = Enabled {
        gssapi: true,
        ..ALL
    };
    let chain = configured(&["gssapi-with-mic,publickey"]);
    let mut chains = Chains::new("ada", &chain, enabled);
    assert_eq!(chains.methods(), ["gssapi-with-mic"]);
    let progress = chains.succeed(ChainMethod::GssapiWithMic, None, None);
    assert!(matches!(progress, ChainProgress::Partial));
    assert_eq!(chains.methods(), ["publickey"]);
    assert!(!chains.allows(ChainMethod::GssapiWithMic));
    let off = Chains::new("ada", &[], ALL);
    assert!(!off.allows(ChainMethod::GssapiWithMic));
    assert!(!off.methods().iter().any(|name| name == "gssapi-with-mic"));
}
