//! Lies during user authentication, against both roles, in memory.

use hostile::adversary::{Adversary, Offer, publickey_fields, userauth};
use hostile::subject::{Memory, PASSWORD, Subject};
use keys::{PrivateKey, SignatureAlgorithm};
use proto::{AuthProof, Connection, Error, Event, Role, TransportConfig};
use wire::message::{
    Encode, ExtInfo, ServiceAccept, UserauthBanner, UserauthFailure, UserauthInfoRequest,
    UserauthInfoResponse, UserauthPkOk, UserauthSuccess,
};
use wire::{NameList, Put, Rest};

/// A lying client that may authenticate.
fn client() -> Adversary<Memory> {
    let mut adversary = Adversary::new(Memory::server(TransportConfig::default()), Role::Client);
    adversary.exchange(&Offer::default());
    adversary.service();
    adversary
}

/// A lying server whose subject waits for SERVICE_ACCEPT.
fn server_before_service() -> Adversary<Memory> {
    let mut adversary = Adversary::new(Memory::client(TransportConfig::default()), Role::Server);
    adversary.exchange(&Offer::default());
    adversary.expect(5);
    adversary
}

/// A lying server whose subject may authenticate.
fn server() -> Adversary<Memory> {
    let mut adversary = server_before_service();
    adversary.say(&ServiceAccept {
        service: b"ssh-userauth",
    });
    assert!(
        adversary
            .subject
            .saw(|event| matches!(event, Event::UserauthReady))
    );
    adversary
}

/// As [`server`], after the subject has carried out a command.
fn server_after(command: impl FnOnce(&mut Connection) -> Result<(), Error>) -> Adversary<Memory> {
    let mut adversary = server();
    adversary.subject.command(command);
    adversary
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

/// A server's answers to requests of any method.
fn answers() -> [Vec<u8>; 3] {
    [UserauthSuccess {}.encode(), failure(), info_request(1)]
}

/// The adversary after `payload`, which ends the connection before a login.
fn ended_by(mut adversary: Adversary<Memory>, payload: &[u8]) -> Adversary<Memory> {
    adversary.send(payload);
    assert!(adversary.ends(), "{payload:?}");
    assert!(!adversary.subject.connection.is_authenticated());
    adversary
}

fn saw_prompts(adversary: &Adversary<Memory>) -> bool {
    let is_prompt = |event: &Event| matches!(event, Event::AuthInfoRequest { .. });
    adversary.subject.saw(is_prompt)
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
    let banner = UserauthBanner {
        text: b"hi",
        language: b"",
    };
    for payload in answers().into_iter().chain([banner.encode()]) {
        let adversary = ended_by(client(), &payload);
        assert!(matches!(
            adversary.subject.error,
            Some(Error::NotPermitted { .. })
        ));
    }
}

#[test]
fn channels_are_not_served_before_login() {
    for payload in channel_messages() {
        for mut adversary in [client(), server()] {
            adversary.send(&payload);
            if adversary.role == Role::Server {
                assert!(adversary.ends(), "{:?}", payload.first());
            } else {
                // A client may have sent it after a request that failed.
                assert_eq!(adversary.expect(3).len(), 5, "{:?}", payload.first());
            }
            assert_eq!(adversary.subject.connection.channel_count(), 0);
            assert!(!adversary.subject.saw(|event| matches!(
                event,
                Event::ChannelOpenRequest { .. } | Event::ChannelRequest { .. }
            )));
        }
    }
}

#[test]
fn messages_that_nobody_serves_yet_are_of_a_bounded_number() {
    let mut adversary = client();
    let open = channel_messages().remove(3);
    let answered = (0..5000)
        .take_while(|_| {
            adversary.send(&open);
            adversary
                .next_payload()
                .is_some_and(|payload| payload.first() == Some(&3))
        })
        .count();
    assert!((8..2000).contains(&answered), "{answered}");
    assert!(adversary.ends());
}

#[test]
fn a_client_sends_no_request_before_the_service_was_accepted() {
    // A server that answers out of order must not obtain a password from a client.
    for payload in [UserauthSuccess {}.encode(), failure(), info_request(1)] {
        let mut adversary = server_before_service();
        adversary.send(&payload);
        assert!(adversary.ends());
        assert!(
            !adversary
                .subject
                .saw(|event| matches!(event, Event::UserauthReady))
        );
        let refused = adversary
            .subject
            .connection
            .auth_password(b"user", PASSWORD);
        assert!(matches!(refused, Err(Error::Misuse(_))));
    }
}

#[test]
fn a_service_that_was_not_asked_for_is_refused() {
    let mut adversary = server_before_service();
    adversary.say(&ServiceAccept {
        service: b"ssh-connection",
    });
    assert!(adversary.ends());
    let mut adversary = Adversary::new(Memory::server(TransportConfig::default()), Role::Client);
    adversary.exchange(&Offer::default());
    adversary.say(&wire::message::ServiceRequest {
        service: b"ssh-connection",
    });
    adversary.ends_with("service not available");
    let reason = adversary.goodbye.map(|(reason, _)| reason);
    assert_eq!(reason, Some(wire::message::reason::SERVICE_NOT_AVAILABLE));
}

#[test]
fn answers_to_nothing_are_refused() {
    let key_would_do = UserauthPkOk {
        algorithm: b"ssh-ed25519",
        key: b"key",
    };
    for payload in answers().into_iter().chain([key_would_do.encode()]) {
        ended_by(server(), &payload);
    }
}

#[test]
fn one_request_gets_one_answer() {
    let mut adversary = server_after(|client| client.auth_password(b"user", b"wrong"));
    adversary.expect(50);
    adversary.send(&failure());
    adversary.send(&failure());
    assert!(adversary.ends());
}

#[test]
fn a_login_that_needed_no_proof_is_told_as_such() {
    let proof = |adversary: &Adversary<Memory>| {
        adversary
            .subject
            .events
            .iter()
            .find_map(|event| match event {
                Event::AuthSuccess(proof) => Some(*proof),
                _ => None,
            })
    };
    let mut adversary = server_after(|client| client.auth_none(b"user"));
    adversary.say(&UserauthSuccess {});
    assert_eq!(proof(&adversary), Some(AuthProof::Nothing));

    let mut adversary = server_after(|client| client.auth_keyboard_interactive(b"user", ""));
    adversary.say(&UserauthSuccess {});
    assert_eq!(proof(&adversary), Some(AuthProof::Nothing));

    // A request without prompts is not a question.
    let mut adversary = server_after(|client| client.auth_keyboard_interactive(b"user", ""));
    adversary.say(&UserauthInfoRequest {
        name: b"",
        instruction: b"",
        language: b"",
        count: 0,
        prompts: Rest(b""),
    });
    adversary.subject.command(|client| client.auth_respond(&[]));
    adversary.say(&UserauthSuccess {});
    assert_eq!(proof(&adversary), Some(AuthProof::Nothing));

    let mut adversary = server_after(|client| client.auth_password(b"user", PASSWORD));
    adversary.say(&UserauthSuccess {});
    assert_eq!(proof(&adversary), Some(AuthProof::Proven));
}

#[test]
fn success_for_a_key_that_was_only_asked_about_is_refused() {
    let mut adversary =
        server_after(|client| client.auth_publickey_query(b"user", "ssh-ed25519", b"blob"));
    adversary.say(&UserauthSuccess {});
    adversary.ends_with("query without signature");
}

#[test]
fn success_while_a_prompt_is_open_is_refused() {
    let mut adversary = server_after(|client| client.auth_keyboard_interactive(b"user", ""));
    adversary.send(&info_request(1));
    adversary.say(&UserauthSuccess {});
    adversary.ends_with("while a prompt is open");
}

#[test]
fn no_prompt_comes_after_login() {
    let mut adversary = server_after(|client| client.auth_none(b"user"));
    adversary.say(&UserauthSuccess {});
    adversary.send(&info_request(1));
    assert!(adversary.ends());
    assert!(!saw_prompts(&adversary));
}

#[test]
fn pk_ok_must_name_the_key_and_algorithm_that_were_asked_about() {
    for (algorithm, key, honest) in [
        (&b"ssh-ed25519"[..], &b"blob"[..], true),
        (b"ssh-ed25519", b"another", false),
        (b"rsa-sha2-512", b"blob", false),
        (b"", b"", false),
    ] {
        let mut adversary =
            server_after(|client| client.auth_publickey_query(b"user", "ssh-ed25519", b"blob"));
        adversary.say(&UserauthPkOk { algorithm, key });
        assert_eq!(
            adversary
                .subject
                .saw(|event| matches!(event, Event::AuthPkOk { .. })),
            honest
        );
        if !honest {
            adversary.ends_with("PK_OK for another key");
        }
    }
}

#[test]
fn a_server_answers_pk_ok_with_exactly_what_was_asked() {
    let mut adversary = client();
    let key = PrivateKey::from_ed25519_seed(&[3; 32]).public().blob();
    let answer = adversary.ask(
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
        let mut adversary = server_after(|client| client.auth_keyboard_interactive(b"user", ""));
        adversary.send(&info_request(count));
        assert!(adversary.ends(), "{count}");
        assert!(!saw_prompts(&adversary));
    }
}

#[test]
fn a_count_of_responses_is_not_believed() {
    for count in [u32::MAX, 1 << 31, 65, 2, 0] {
        let mut adversary = client();
        let mut fields = Vec::new();
        fields.put_string(b"");
        fields.put_string(b"");
        adversary.ask(b"user", "keyboard-interactive", &fields);
        let mut responses = Vec::new();
        responses.put_string(b"answer");
        adversary.say(&UserauthInfoResponse {
            count,
            responses: Rest(&responses),
        });
        assert!(adversary.ends(), "{count}");
        assert!(
            adversary
                .subject
                .asked
                .iter()
                .all(|(_, method)| *method != "response")
        );
    }
}

#[test]
fn responses_to_no_prompt_are_refused() {
    let mut adversary = client();
    adversary.say(&UserauthInfoResponse {
        count: 0,
        responses: Rest(b""),
    });
    assert!(adversary.ends());
}

#[test]
fn a_conversation_belongs_to_the_user_who_began_it() {
    let mut adversary = client();
    let mut fields = Vec::new();
    fields.put_string(b"");
    fields.put_string(b"");
    adversary.ask(b"alice", "keyboard-interactive", &fields);
    adversary.ask(b"root", "none", b"");
    // The prompts were alice's; another request has ended that conversation.
    let mut responses = Vec::new();
    responses.put_string(b"answer");
    adversary.say(&UserauthInfoResponse {
        count: 1,
        responses: Rest(&responses),
    });
    assert!(adversary.ends());
}

#[test]
fn a_count_of_extensions_is_not_believed() {
    for mut adversary in [client(), server()] {
        let mut pairs = Vec::new();
        pairs.put_string(b"a");
        pairs.put_string(b"b");
        adversary.say(&ExtInfo {
            count: u32::MAX,
            extensions: Rest(&pairs),
        });
        assert!(adversary.ends());
        assert!(matches!(adversary.subject.error, Some(Error::Malformed(_))));
    }
}

#[test]
fn a_password_of_a_megabyte_is_never_looked_at() {
    for len in [65 * 1024, 200 * 1024] {
        let mut adversary = client();
        let mut fields = vec![0];
        fields.put_string(&vec![b'x'; len]);
        adversary.send(&userauth(b"user", "password", &fields));
        assert!(adversary.ends());
        assert!(adversary.subject.asked.is_empty());
    }
    // More does not fit into a packet: its length alone ends the connection.
    let mut adversary = client();
    let mut length = (1u32 << 20).to_be_bytes().to_vec();
    length.extend_from_slice(&[0; 12]);
    adversary.send_bytes(&length);
    assert!(adversary.ends());
    assert_eq!(adversary.subject.error, Some(Error::IntegrityFailed));
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
        let mut adversary = client();
        adversary.send(&payload);
        assert!(adversary.ends());
        assert!(adversary.subject.asked.is_empty());
    }
}

#[test]
fn a_method_that_nobody_knows_fails_and_nothing_more() {
    for method in [
        "gssapi-with-mic",
        "hostbased-x",
        "publickey\0",
        "",
        "none,password",
    ] {
        let mut adversary = client();
        // An OID count of 2^32-1, where the method has one.
        let answer = adversary.ask(b"user", method, &[0xff; 4]);
        assert_eq!(answer.first(), Some(&51), "{method}");
        assert!(!adversary.subject.connection.is_authenticated());
    }
}

#[test]
fn tokens_of_an_exchange_are_counted_and_come_in_turn() {
    let token = |number: u8, bytes: &[u8]| {
        let mut message = vec![number];
        message.put_string(bytes);
        message
    };
    let mut kerberos = Vec::new();
    wire::userauth::put_gssapi_fields(&mut kerberos);
    let kerberos = kerberos.split_off(4 + "gssapi-with-mic".len());
    // Without an exchange no token, MIC or end of one is permitted.
    for number in [61, 65, 66] {
        let mut adversary = client();
        adversary.send(&token(number, b"x"));
        assert!(adversary.ends(), "{number}");
        assert!(adversary.subject.asked.is_empty());
    }
    // An endless exchange ends.
    let mut adversary = client();
    assert_eq!(adversary.ask(b"user", "gssapi-with-mic", &kerberos)[0], 60);
    for _ in 0..16 {
        adversary.send(&token(61, b"+more"));
    }
    assert!(!adversary.subject.connection.is_authenticated());
    adversary.send(&token(61, b"+more"));
    assert!(adversary.ends());
    assert_eq!(adversary.subject.asked.len(), 17);
    // After a failure what the client had sent before it knew is passed over, and no proof counts.
    let mut adversary = client();
    assert_eq!(adversary.ask(b"user", "gssapi-with-mic", &kerberos)[0], 60);
    adversary.send(&token(61, b"bad"));
    for number in [66, 61, 65] {
        adversary.send(&token(number, b"late"));
    }
    adversary.send(&[63]);
    assert_eq!(adversary.subject.methods_asked(), ["gssapi", "token"]);
    // A client that gives up goes on with another method; the MIC of the old exchange is none.
    let mut adversary = client();
    assert_eq!(adversary.ask(b"user", "gssapi-with-mic", &kerberos)[0], 60);
    adversary.send(&token(65, b"error"));
    adversary.send(&token(66, b"mic"));
    assert_eq!(adversary.subject.methods_asked(), ["gssapi"]);
    assert!(!adversary.subject.connection.is_authenticated());
    // Too long a token.
    let mut adversary = client();
    assert_eq!(adversary.ask(b"user", "gssapi-with-mic", &kerberos)[0], 60);
    adversary.send(&token(61, &vec![b'+'; 128 * 1024 + 1]));
    assert!(adversary.ends());
}

#[test]
fn a_signature_bound_to_another_host_key_is_refused() {
    let mut adversary = client();
    let key = PrivateKey::from_ed25519_seed(&[3; 32]);
    let blob = key.public().blob();
    let mut fields = publickey_fields("ssh-ed25519", &blob, None);
    fields.put_string(b"the host key of somebody else");
    adversary.send(&userauth(
        b"user",
        "publickey-hostbound-v00@openssh.com",
        &fields,
    ));
    adversary.ends_with("bound to another host key");
}

#[test]
fn the_signature_reaches_the_owner_as_it_came() {
    // The owner decides about the key of the signature, never about that of an earlier query.
    let mut adversary = client();
    let probed = PrivateKey::from_ed25519_seed(&[3; 32]).public().blob();
    adversary.ask(
        b"user",
        "publickey",
        &publickey_fields("ssh-ed25519", &probed, None),
    );
    let signing = PrivateKey::from_ed25519_seed(&[4; 32]);
    let request = adversary.signed_request(b"user", &signing, SignatureAlgorithm::Ed25519);
    adversary.send(&request);
    assert_eq!(adversary.answer().first(), Some(&51));
    assert_eq!(adversary.subject.methods_asked(), ["query", "publickey"]);
}

#[test]
fn banners_have_a_limit() {
    let mut adversary = server();
    let mut shown = 0;
    while shown < 10_000
        && adversary.say(&UserauthBanner {
            text: b"x",
            language: b"",
        })
    {
        shown += 1;
    }
    assert!(shown < 100, "{shown}");
    adversary.ends_with("too many banners");
}

#[test]
fn rounds_of_prompts_have_a_limit() {
    let mut adversary = server_after(|client| client.auth_keyboard_interactive(b"user", ""));
    let mut rounds = 0;
    while rounds < 1000 && adversary.send(&info_request(1)) {
        rounds += 1;
        let answer = vec![b"answer".to_vec().into()];
        adversary
            .subject
            .command(|client| client.auth_respond(&answer));
    }
    assert!(rounds <= 64, "{rounds}");
    assert!(adversary.ends());
}

#[test]
fn requests_behind_the_one_that_succeeded_are_passed_over() {
    let mut adversary = client();
    adversary.login_password(b"user", PASSWORD);
    let asked = adversary.subject.asked.len();
    adversary.send(&userauth(b"root", "none", b""));
    assert!(adversary.subject.error.is_none());
    assert_eq!(adversary.subject.asked.len(), asked);
    assert!(adversary.rest().is_empty());
    assert!(!adversary.subject.has_ended());
}
