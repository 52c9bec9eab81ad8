//! Lies in key exchanges by GSS-API, against both roles in memory: the order of the messages, their number, and what
//! COMPLETE says.

use hostile::adversary::{Adversary, Offer};
use hostile::subject::{Memory, Subject};
use proto::{Error, Event, Role, TransportConfig};
use wire::Put;
use wire::Rest;
use wire::algorithms::{GSS_KEX, KERBEROS_KEX_SUFFIX};
use wire::message::{
    Encode, KexEcdhReply, KexGssComplete, KexGssContinue, KexGssError, KexGssHostKey, KexGssInit,
    NewKeys,
};

fn names() -> Vec<String> {
    let full = |name: &&str| format!("{name}{KERBEROS_KEX_SUFFIX}");
    GSS_KEX.iter().map(full).collect()
}

fn config() -> TransportConfig {
    let mut config = TransportConfig::default();
    config.kex.splice(..0, names());
    config
}

/// A lying server that has the client's INIT.
fn server() -> Adversary<Memory> {
    let mut adversary = Adversary::new(Memory::client(config()), Role::Server);
    adversary.hello();
    adversary.kexinit(&Offer::kex(&names()[0]));
    adversary.expect_kexinit();
    let init = adversary.expect(30);
    let init = KexGssInit::decode(&init).expect("KEXGSS_INIT");
    assert_eq!((init.token, init.public.len()), (&b"token"[..], 32));
    adversary
}

/// A lying client before its INIT.
fn client() -> Adversary<Memory> {
    let mut adversary = Adversary::new(Memory::server(config()), Role::Client);
    adversary.hello();
    adversary.kexinit(&Offer::kex(&names()[0]));
    adversary.expect_kexinit();
    adversary
}

fn public() -> Vec<u8> {
    let kex = crypto::kex::KexAlgorithm::Curve25519Sha256;
    crypto::kex::Initiator::new(kex).expect("a key pair").1
}

fn complete(mic: &[u8], token: Option<&[u8]>) -> Vec<u8> {
    let mut rest = Vec::new();
    if let Some(token) = token {
        rest.put_string(token);
    }
    KexGssComplete {
        public: &public(),
        mic,
        has_token: token.is_some(),
        token: Rest(&rest),
    }
    .encode()
}

fn is_accepted(adversary: &Adversary<Memory>) -> bool {
    let new = |event: &Event| matches!(event, Event::KeysChanged { .. });
    adversary.subject.saw(new) || adversary.subject.connection.session_id().is_some()
}

#[test]
fn complete_counts_only_with_the_mic_of_its_own_hash_and_the_token_that_is_awaited() {
    let wrong = [
        (complete(b"", Some(b"last")), "without a MIC"),
        (
            complete(&[1; 32], Some(b"last")),
            "GSS-API key exchange failed",
        ),
        (
            complete(&[1; 28], Some(b"last")),
            "GSS-API key exchange failed",
        ),
        (complete(&[1; 8192], Some(b"last")), "without a MIC"),
        // The client's context still needs a token.
        (complete(&[1; 32], None), "without the last one"),
    ];
    for (payload, words) in wrong {
        let mut adversary = server();
        adversary.send(&payload);
        adversary.ends_with(words);
        assert!(!is_accepted(&adversary));
    }
    // A flag without its token, a token without its flag, and bytes after it.
    let whole = complete(&[1; 32], Some(b"last"));
    let mut flag_alone = complete(&[1; 32], None);
    *flag_alone.last_mut().unwrap() = 1;
    let longer = [&whole[..], &[0]].concat();
    let mut hidden = complete(&[1; 32], None);
    hidden.put_string(b"last");
    for payload in [flag_alone, longer, hidden, whole[..9].to_vec()] {
        let mut adversary = server();
        adversary.send(&payload);
        assert!(adversary.ends() && !is_accepted(&adversary));
    }
}

#[test]
fn a_host_key_comes_once_and_is_no_proof() {
    let key = KexGssHostKey { host_key: b"key" }.encode();
    let mut adversary = server();
    adversary.send(&key);
    assert!(!adversary.subject.has_ended());
    adversary.send(&key);
    adversary.ends_with("second");
    let mut adversary = server();
    adversary.send(
        &KexGssHostKey {
            host_key: &vec![1; 1 << 17],
        }
        .encode(),
    );
    adversary.ends_with("too long");
    // The signature of a host key is another method's proof.
    let mut adversary = server();
    adversary.say(&KexEcdhReply {
        host_key: b"key",
        public: &public(),
        signature: b"signature",
    });
    assert!(adversary.ends() && !is_accepted(&adversary));
    assert!(
        !adversary
            .subject
            .saw(|event| matches!(event, Event::HostKey { .. }))
    );
}

#[test]
fn tokens_have_an_end() {
    // The client answers each of them.
    let mut adversary = server();
    for _ in 0..16 {
        adversary.say(&KexGssContinue { token: b"again" });
        adversary.expect(31);
    }
    adversary.say(&KexGssContinue { token: b"again" });
    adversary.ends_with("too many");
    for token in [&b""[..], &vec![1; 128 * 1024 + 1]] {
        let mut adversary = server();
        adversary.say(&KexGssContinue { token });
        assert!(adversary.ends());
    }
    // So does the server.
    let mut adversary = client();
    let public = public();
    adversary.say(&KexGssInit {
        token: b"first",
        public: &public,
    });
    for _ in 0..15 {
        adversary.expect(31);
        adversary.say(&KexGssContinue { token: b"again" });
    }
    adversary.expect(31);
    adversary.say(&KexGssContinue { token: b"again" });
    adversary.ends_with("too many");
    assert!(!is_accepted(&adversary));
}

#[test]
fn messages_come_in_their_order() {
    let public = public();
    let init = KexGssInit {
        token: b"first",
        public: &public,
    }
    .encode();
    let token = KexGssContinue { token: b"token" }.encode();
    let error = KexGssError {
        major: 1,
        minor: 2,
        text: b"text",
        language: b"",
    }
    .encode();
    let newkeys = NewKeys {}.encode();
    // To a server before INIT, and after it.
    for payload in [&token, &complete(&[1; 32], None), &error, &newkeys] {
        let mut adversary = client();
        adversary.send(payload);
        assert!(adversary.ends(), "{payload:?}");
    }
    for payload in [&init, &complete(&[1; 32], None), &error, &newkeys] {
        let mut adversary = client();
        adversary.send(&init);
        adversary.expect(31);
        adversary.send(payload);
        assert!(adversary.ends() && !is_accepted(&adversary), "{payload:?}");
    }
    // To a client.
    for payload in [&init, &newkeys] {
        let mut adversary = server();
        adversary.send(payload);
        assert!(adversary.ends() && !is_accepted(&adversary), "{payload:?}");
    }
    let mut adversary = server();
    adversary.send(&error);
    assert!(adversary.ends());
    assert_eq!(
        adversary.subject.error,
        Some(Error::GssFailed("text".into()))
    );
}

#[test]
fn public_values_are_checked_as_in_the_methods_with_a_host_key() {
    for value in [&b""[..], &[0; 32], &[1; 31], &[1; 33]] {
        let mut adversary = client();
        adversary.say(&KexGssInit {
            token: b"first",
            public: value,
        });
        assert!(adversary.ends());
        assert!(
            !adversary
                .subject
                .saw(|event| matches!(event, Event::GssAccept { .. }))
        );
    }
    for (index, values) in [
        (1, vec![vec![4; 65], vec![4; 64]]),
        (2, vec![vec![0], vec![1], vec![0x80; 256], vec![0xff; 257]]),
    ] {
        for value in values {
            let mut adversary = Adversary::new(Memory::server(config()), Role::Client);
            adversary.hello();
            adversary.kexinit(&Offer::kex(&names()[index]));
            adversary.expect_kexinit();
            adversary.say(&KexGssInit {
                token: b"first",
                public: &value,
            });
            assert!(adversary.ends(), "{index} {value:?}");
        }
    }
}

#[test]
fn a_refused_token_is_told_and_ends_the_exchange() {
    let mut adversary = client();
    let public = public();
    adversary.say(&KexGssInit {
        token: b"bad",
        public: &public,
    });
    let token = adversary.expect(31);
    assert_eq!(KexGssContinue::decode(&token).unwrap().token, b"error");
    let error = adversary.expect(34);
    let error = KexGssError::decode(&error).unwrap();
    assert_eq!(error.text, b"the server does not accept the ticket");
    adversary.ends_with("GSS-API key exchange failed");
}

#[test]
fn null_goes_with_no_other_method() {
    for subject in [Role::Server, Role::Client] {
        let memory = match subject {
            Role::Server => Memory::server(config()),
            Role::Client => Memory::client(config()),
        };
        let role = match subject {
            Role::Server => Role::Client,
            Role::Client => Role::Server,
        };
        let mut adversary = Adversary::new(memory, role);
        adversary.hello();
        adversary.kexinit(&Offer {
            host_key: "null".into(),
            ..Offer::default()
        });
        adversary.ends_with("no common algorithm");
    }
}
