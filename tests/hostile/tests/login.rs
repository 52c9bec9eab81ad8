//! Lies during user authentication, against both roles, in memory.

use hostile::liar::{Liar, Offer, publickey_fields, userauth};
use hostile::victim::{Memory, PASSWORD, Victim};
use keys::{PrivateKey, SignatureAlgorithm};
use proto::{AuthProof, Error, Event, Role, TransportConfig};
use wire::message::{
    Encode, ExtInfo, ServiceAccept, UserauthBanner, UserauthFailure, UserauthInfoRequest,
    UserauthInfoResponse, UserauthPkOk, UserauthSuccess,
};
use wire::{NameList, Put, Rest};

/// A lying client that may authenticate.
fn client() -> Liar<Memory> {
    let mut liar = Liar::new(Memory::server(TransportConfig::default()), Role::Client);
    liar.exchange(&Offer::default());
    liar.service();
    liar
}

/// A lying server whose victim waits for SERVICE_ACCEPT.
fn server_before_service() -> Liar<Memory> {
    let mut liar = Liar::new(Memory::client(TransportConfig::default()), Role::Server);
    liar.exchange(&Offer::default());
    liar.expect(5);
    liar
}

/// A lying server whose victim may authenticate.
fn server() -> Liar<Memory> {
    let mut liar = server_before_service();
    liar.say(&ServiceAccept {
        service: b"ssh-userauth",
    });
    assert!(
        liar.victim
            .saw(|event| matches!(event, Event::UserauthReady))
    );
    liar
}

fn failure() -> Vec<u8> {
    UserauthFailure {
        methods: NameList::new("password").expect("a list"),
        partial_success: false,
    }
    .encode()
}

fn info_request(count: u32) -> Vec<u8> {
    let mut prompts = Vec::new();
    prompts.put_string(b"Password: ");
    prompts.put_bool(false);
    UserauthInfoRequest {
        name: b"",
        instruction: b"",
        language: b"",
        count,
        prompts: Rest(&prompts),
    }
    .encode()
}

fn channel_messages() -> Vec<Vec<u8>> {
    let mut list = Vec::new();
    for number in (80..=82).chain(90..=100) {
        let mut payload = vec![number];
        payload.put_string(b"session");
        payload.extend_from_slice(&[0; 12]);
        list.push(payload);
    }
    list
}

#[test]
fn what_only_servers_say_is_refused_from_a_client() {
    for payload in [
        UserauthSuccess {}.encode(),
        failure(),
        info_request(1),
        UserauthBanner {
            text: b"hi",
            language: b"",
        }
        .encode(),
    ] {
        let mut liar = client();
        liar.send(&payload);
        assert!(liar.ends(), "message {:?}", payload.first());
        assert!(matches!(
            liar.victim.error,
            Some(Error::NotPermitted { .. })
        ));
        assert!(!liar.victim.connection.is_authenticated());
    }
}

#[test]
fn channels_are_not_served_before_login() {
    for payload in channel_messages() {
        for mut liar in [client(), server()] {
            liar.send(&payload);
            if liar.role == Role::Server {
                assert!(liar.ends(), "{:?}", payload.first());
            } else {
                // A client may have sent it after a request that failed.
                assert_eq!(liar.expect(3).len(), 5, "{:?}", payload.first());
            }
            assert_eq!(liar.victim.connection.channel_count(), 0);
            assert!(!liar.victim.saw(|event| matches!(
                event,
                Event::ChannelOpenRequest { .. } | Event::ChannelRequest { .. }
            )));
        }
    }
}

#[test]
fn messages_that_nobody_serves_yet_are_of_a_bounded_number() {
    let mut liar = client();
    let open = channel_messages().remove(3);
    let answered = (0..5000)
        .take_while(|_| {
            liar.send(&open);
            liar.next_payload()
                .is_some_and(|payload| payload.first() == Some(&3))
        })
        .count();
    assert!((8..2000).contains(&answered), "{answered}");
    assert!(liar.ends());
}

#[test]
fn a_client_sends_no_request_before_the_service_was_accepted() {
    // A server that answers out of order must not obtain a password from a client.
    for payload in [UserauthSuccess {}.encode(), failure(), info_request(1)] {
        let mut liar = server_before_service();
        liar.send(&payload);
        assert!(liar.ends());
        assert!(
            !liar
                .victim
                .saw(|event| matches!(event, Event::UserauthReady))
        );
        let refused = liar.victim.connection.auth_password(b"user", PASSWORD);
        assert!(matches!(refused, Err(Error::Misuse(_))));
    }
}

#[test]
fn a_service_that_was_not_asked_for_is_refused() {
    let mut liar = server_before_service();
    liar.say(&ServiceAccept {
        service: b"ssh-connection",
    });
    assert!(liar.ends());
    let mut liar = Liar::new(Memory::server(TransportConfig::default()), Role::Client);
    liar.exchange(&Offer::default());
    liar.say(&wire::message::ServiceRequest {
        service: b"ssh-connection",
    });
    liar.ends_with("service not available");
    let reason = liar.goodbye.map(|(reason, _)| reason);
    assert_eq!(reason, Some(wire::message::reason::SERVICE_NOT_AVAILABLE));
}

#[test]
fn answers_to_nothing_are_refused() {
    for payload in [
        UserauthSuccess {}.encode(),
        failure(),
        info_request(1),
        UserauthPkOk {
            algorithm: b"ssh-ed25519",
            key: b"key",
        }
        .encode(),
    ] {
        let mut liar = server();
        liar.send(&payload);
        assert!(liar.ends(), "{payload:?}");
        assert!(!liar.victim.connection.is_authenticated());
    }
}

#[test]
fn one_request_gets_one_answer() {
    let mut liar = server();
    liar.victim
        .command(|client| client.auth_password(b"user", b"wrong"));
    liar.expect(50);
    liar.send(&failure());
    liar.send(&failure());
    assert!(liar.ends());
}

#[test]
fn a_login_that_needed_no_proof_is_told_as_such() {
    let proof = |liar: &Liar<Memory>| {
        liar.victim.events.iter().find_map(|event| match event {
            Event::AuthSuccess(proof) => Some(*proof),
            _ => None,
        })
    };
    let mut liar = server();
    liar.victim.command(|client| client.auth_none(b"user"));
    liar.say(&UserauthSuccess {});
    assert_eq!(proof(&liar), Some(AuthProof::Nothing));

    let mut liar = server();
    liar.victim
        .command(|client| client.auth_keyboard_interactive(b"user", ""));
    liar.say(&UserauthSuccess {});
    assert_eq!(proof(&liar), Some(AuthProof::Nothing));

    // A request without prompts is not a question.
    let mut liar = server();
    liar.victim
        .command(|client| client.auth_keyboard_interactive(b"user", ""));
    liar.say(&UserauthInfoRequest {
        name: b"",
        instruction: b"",
        language: b"",
        count: 0,
        prompts: Rest(b""),
    });
    liar.victim.command(|client| client.auth_respond(&[]));
    liar.say(&UserauthSuccess {});
    assert_eq!(proof(&liar), Some(AuthProof::Nothing));

    let mut liar = server();
    liar.victim
        .command(|client| client.auth_password(b"user", PASSWORD));
    liar.say(&UserauthSuccess {});
    assert_eq!(proof(&liar), Some(AuthProof::Proven));
}

#[test]
fn success_for_a_key_that_was_only_asked_about_is_refused() {
    let mut liar = server();
    liar.victim
        .command(|client| client.auth_publickey_query(b"user", "ssh-ed25519", b"blob"));
    liar.say(&UserauthSuccess {});
    liar.ends_with("query without signature");
}

#[test]
fn success_while_a_prompt_is_open_is_refused() {
    let mut liar = server();
    liar.victim
        .command(|client| client.auth_keyboard_interactive(b"user", ""));
    liar.send(&info_request(1));
    liar.say(&UserauthSuccess {});
    liar.ends_with("while a prompt is open");
}

#[test]
fn no_prompt_comes_after_login() {
    let mut liar = server();
    liar.victim.command(|client| client.auth_none(b"user"));
    liar.say(&UserauthSuccess {});
    liar.send(&info_request(1));
    assert!(liar.ends());
    assert!(
        !liar
            .victim
            .saw(|event| matches!(event, Event::AuthInfoRequest { .. }))
    );
}

#[test]
fn pk_ok_must_name_the_key_and_algorithm_that_were_asked_about() {
    for (algorithm, key, honest) in [
        (&b"ssh-ed25519"[..], &b"blob"[..], true),
        (b"ssh-ed25519", b"another", false),
        (b"rsa-sha2-512", b"blob", false),
        (b"", b"", false),
    ] {
        let mut liar = server();
        liar.victim
            .command(|client| client.auth_publickey_query(b"user", "ssh-ed25519", b"blob"));
        liar.say(&UserauthPkOk { algorithm, key });
        assert_eq!(
            liar.victim
                .saw(|event| matches!(event, Event::AuthPkOk { .. })),
            honest
        );
        if !honest {
            liar.ends_with("PK_OK for another key");
        }
    }
}

#[test]
fn a_server_answers_pk_ok_with_exactly_what_was_asked() {
    let mut liar = client();
    let key = PrivateKey::from_ed25519_seed(&[3; 32]).public().blob();
    let answer = liar.ask(
        b"user",
        "publickey",
        &publickey_fields("ssh-ed25519", &key, None),
    );
    let ok = UserauthPkOk::decode(&answer).expect("PK_OK");
    assert_eq!((ok.algorithm, ok.key), (&b"ssh-ed25519"[..], &key[..]));
}

#[test]
fn a_count_of_prompts_is_not_believed() {
    for count in [u32::MAX, 1 << 31, 65, 2, 0] {
        let mut liar = server();
        liar.victim
            .command(|client| client.auth_keyboard_interactive(b"user", ""));
        liar.send(&info_request(count));
        assert!(liar.ends(), "{count}");
        assert!(
            !liar
                .victim
                .saw(|event| matches!(event, Event::AuthInfoRequest { .. }))
        );
    }
}

#[test]
fn a_count_of_responses_is_not_believed() {
    for count in [u32::MAX, 1 << 31, 65, 2, 0] {
        let mut liar = client();
        let mut fields = Vec::new();
        fields.put_string(b"");
        fields.put_string(b"");
        liar.ask(b"user", "keyboard-interactive", &fields);
        let mut responses = Vec::new();
        responses.put_string(b"answer");
        liar.say(&UserauthInfoResponse {
            count,
            responses: Rest(&responses),
        });
        assert!(liar.ends(), "{count}");
        assert!(
            liar.victim
                .asked
                .iter()
                .all(|(_, method)| *method != "response")
        );
    }
}

#[test]
fn responses_to_no_prompt_are_refused() {
    let mut liar = client();
    liar.say(&UserauthInfoResponse {
        count: 0,
        responses: Rest(b""),
    });
    assert!(liar.ends());
}

#[test]
fn a_conversation_belongs_to_the_user_who_began_it() {
    let mut liar = client();
    let mut fields = Vec::new();
    fields.put_string(b"");
    fields.put_string(b"");
    liar.ask(b"alice", "keyboard-interactive", &fields);
    liar.ask(b"root", "none", b"");
    // The prompts were alice's; another request has ended that conversation.
    let mut responses = Vec::new();
    responses.put_string(b"answer");
    liar.say(&UserauthInfoResponse {
        count: 1,
        responses: Rest(&responses),
    });
    assert!(liar.ends());
}

#[test]
fn a_count_of_extensions_is_not_believed() {
    for mut liar in [client(), server()] {
        let mut pairs = Vec::new();
        pairs.put_string(b"a");
        pairs.put_string(b"b");
        liar.say(&ExtInfo {
            count: u32::MAX,
            extensions: Rest(&pairs),
        });
        assert!(liar.ends());
        assert!(matches!(liar.victim.error, Some(Error::Malformed(_))));
    }
}

#[test]
fn a_password_of_a_megabyte_is_never_looked_at() {
    for len in [65 * 1024, 200 * 1024] {
        let mut liar = client();
        let mut fields = vec![0];
        fields.put_string(&vec![b'x'; len]);
        liar.send(&userauth(b"user", "password", &fields));
        assert!(liar.ends());
        assert!(liar.victim.asked.is_empty());
    }
    // More does not fit into a packet: its length alone ends the connection.
    let mut liar = client();
    let mut length = (1u32 << 20).to_be_bytes().to_vec();
    length.extend_from_slice(&[0; 12]);
    liar.send_bytes(&length);
    assert!(liar.ends());
    assert_eq!(liar.victim.error, Some(Error::IntegrityFailed));
}

#[test]
fn names_and_methods_without_measure_are_refused() {
    for payload in [
        userauth(&[b'a'; 1025], "none", b""),
        userauth(b"user", &"m".repeat(257), b""),
        userauth(b"user", "none", b"more"),
        userauth(b"user", "password", b""),
        userauth(b"user", "publickey", b"\x01"),
        userauth(b"user", "keyboard-interactive", b"\xff\xff\xff\xff"),
    ] {
        let mut liar = client();
        liar.send(&payload);
        assert!(liar.ends());
        assert!(liar.victim.asked.is_empty());
    }
}

#[test]
fn a_method_that_nobody_knows_fails_and_nothing_more() {
    for method in [
        "gssapi-with-mic",
        "hostbased",
        "publickey\0",
        "",
        "none,password",
    ] {
        let mut liar = client();
        // An OID count of 2^32-1, where the method has one.
        let answer = liar.ask(b"user", method, &[0xff; 4]);
        assert_eq!(answer.first(), Some(&51), "{method}");
        assert!(!liar.victim.connection.is_authenticated());
    }
}

#[test]
fn a_signature_bound_to_another_host_key_is_refused() {
    let mut liar = client();
    let key = PrivateKey::from_ed25519_seed(&[3; 32]);
    let blob = key.public().blob();
    let mut fields = publickey_fields("ssh-ed25519", &blob, None);
    fields.put_string(b"the host key of somebody else");
    liar.send(&userauth(
        b"user",
        "publickey-hostbound-v00@openssh.com",
        &fields,
    ));
    liar.ends_with("bound to another host key");
}

#[test]
fn the_signature_reaches_the_owner_as_it_came() {
    // The owner decides about the key of the signature, never about that of an earlier query.
    let mut liar = client();
    let probed = PrivateKey::from_ed25519_seed(&[3; 32]).public().blob();
    liar.ask(
        b"user",
        "publickey",
        &publickey_fields("ssh-ed25519", &probed, None),
    );
    let signing = PrivateKey::from_ed25519_seed(&[4; 32]);
    let request = liar.signed_request(b"user", &signing, SignatureAlgorithm::Ed25519);
    liar.send(&request);
    assert_eq!(liar.answer().first(), Some(&51));
    let asked: Vec<&str> = liar
        .victim
        .asked
        .iter()
        .map(|(_, method)| *method)
        .collect();
    assert_eq!(asked, ["query", "publickey"]);
}

#[test]
fn banners_have_a_limit() {
    let mut liar = server();
    let mut shown = 0;
    while shown < 10_000
        && liar.say(&UserauthBanner {
            text: b"x",
            language: b"",
        })
    {
        shown += 1;
    }
    assert!(shown < 100, "{shown}");
    liar.ends_with("too many banners");
}

#[test]
fn rounds_of_prompts_have_a_limit() {
    let mut liar = server();
    liar.victim
        .command(|client| client.auth_keyboard_interactive(b"user", ""));
    let mut rounds = 0;
    while rounds < 1000 && liar.send(&info_request(1)) {
        rounds += 1;
        let answer = vec![b"answer".to_vec().into()];
        liar.victim.command(|client| client.auth_respond(&answer));
    }
    assert!(rounds <= 64, "{rounds}");
    assert!(liar.ends());
}

#[test]
fn requests_behind_the_one_that_succeeded_are_passed_over() {
    let mut liar = client();
    liar.login_password(b"user", PASSWORD);
    let asked = liar.victim.asked.len();
    liar.send(&userauth(b"root", "none", b""));
    assert!(liar.victim.error.is_none());
    assert_eq!(liar.victim.asked.len(), asked);
    assert!(liar.rest().is_empty());
    assert!(!liar.victim.has_ended());
}
