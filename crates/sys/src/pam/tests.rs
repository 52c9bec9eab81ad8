use super::*;
use std::path::PathBuf;

/// A directory with PAM service files for one test.
struct Services(PathBuf);

impl Services {
    fn new(name: &str, services: &[(&str, &str)]) -> Option<Self> {
        if let Err(error) = preload() {
            eprintln!("skipped: {error}");
            return None;
        }
        let path = std::env::temp_dir().join(format!("fulmar-sys-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        for (service, text) in services {
            std::fs::write(path.join(service), text).unwrap();
        }
        Some(Self(path))
    }

    fn start(&self, service: &str) -> Pam {
        Pam::start_in(service, "root", Some(&self.0)).unwrap()
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn silent(_: &[PamPrompt]) -> Option<Vec<Zeroizing<Vec<u8>>>> {
    None
}

fn always(answer: &'static [u8]) -> impl Conversation {
    move |messages: &[PamPrompt]| {
        let prompts = messages.iter().filter(|message| message.is_prompt());
        Some(prompts.map(|_| Zeroizing::new(answer.to_vec())).collect())
    }
}

const PERMIT: &str = "auth required pam_permit.so\naccount required pam_permit.so\n\
                      session required pam_permit.so\npassword required pam_permit.so\n";

#[test]
fn a_whole_transaction_succeeds_where_modules_permit() {
    let Some(services) = Services::new("pam-permit", &[("permit", PERMIT)]) else {
        return;
    };
    let mut pam = services.start("permit");
    pam.set_item(PamItem::RemoteHost, "peer.example").unwrap();
    pam.set_item(PamItem::Tty, "ssh").unwrap();
    pam.set_item(PamItem::RemoteUser, "ann").unwrap();
    pam.authenticate(false, &mut silent).unwrap();
    pam.check_account(&mut silent).unwrap();
    pam.set_credentials(CredentialAction::Establish, &mut silent)
        .unwrap();
    pam.open_session(&mut silent).unwrap();
    pam.put_env("COLOUR", "a=b").unwrap();
    pam.put_env("EMPTY", "").unwrap();
    let mut env = pam.env_list();
    env.sort();
    assert_eq!(
        env,
        [
            ("COLOUR".into(), "a=b".into()),
            ("EMPTY".into(), String::new())
        ]
    );
    assert_eq!(pam.user().as_deref(), Some("root"));
    pam.change_password(&mut silent).unwrap();
    pam.close_session(&mut silent).unwrap();
    pam.set_credentials(CredentialAction::Delete, &mut silent)
        .unwrap();
}

#[test]
fn a_refusal_carries_its_code_and_text() {
    let services = [(
        "deny",
        "auth required pam_deny.so\naccount required pam_deny.so\n",
    )];
    let Some(services) = Services::new("pam-deny", &services) else {
        return;
    };
    let mut pam = services.start("deny");
    let error = pam.authenticate(false, &mut silent).unwrap_err();
    assert_eq!(error.code(), Some(Code::AUTH_ERR));
    assert!(!error.to_string().is_empty());
    assert!(pam.check_account(&mut silent).is_err());
}

#[test]
fn libpam_does_not_sleep_after_a_failure() {
    // The module requests half an hour; with libpam's own delay there would be no answer within a
    // minute.
    const SERVICE: &str = "auth optional pam_faildelay.so delay=1800000000\n\
                           auth required pam_deny.so\n";
    let Some(services) = Services::new("pam-delay", &[("delay", SERVICE)]) else {
        return;
    };
    let path = services.0.clone();
    let (sender, answered) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut pam = Pam::start_in("delay", "root", Some(&path)).unwrap();
        let _ = sender.send(pam.authenticate(false, &mut silent));
    });
    let failed = answered.recv_timeout(std::time::Duration::from_secs(60));
    assert!(failed.expect("libpam sleeps").is_err());
}

#[test]
fn modules_ask_and_answers_arrive() {
    let services = [("ask", "auth required pam_unix.so nodelay\n")];
    let Some(services) = Services::new("pam-ask", &services) else {
        return;
    };
    let mut asked = Vec::new();
    let mut conversation = |messages: &[PamPrompt]| {
        asked.extend_from_slice(messages);
        let prompts = messages.iter().filter(|message| message.is_prompt());
        Some(prompts.map(|_| Zeroizing::new(b"wrong".to_vec())).collect())
    };
    let mut pam = services.start("ask");
    let error = pam.authenticate(false, &mut conversation).unwrap_err();
    assert_ne!(error.code(), Some(Code::CONV_ERR));
    assert!(matches!(&asked[0], PamPrompt::PromptHidden(text) if text.contains("assword")));
}

#[test]
fn a_broken_conversation_is_a_failure_and_nothing_worse() {
    let services = [("ask", "auth required pam_unix.so nodelay\n")];
    let Some(services) = Services::new("pam-broken", &services) else {
        return;
    };
    let mut too_many = |_: &[PamPrompt]| {
        Some(vec![
            Zeroizing::new(b"a".to_vec()),
            Zeroizing::new(b"b".to_vec()),
        ])
    };
    let mut panicking =
        |_: &[PamPrompt]| -> Option<Vec<Zeroizing<Vec<u8>>>> { panic!("expected by the test") };
    let mut with_nul = always(b"a\0b");
    let broken: [&mut dyn Conversation; 4] =
        [&mut silent, &mut too_many, &mut panicking, &mut with_nul];
    for conversation in broken {
        let mut pam = services.start("ask");
        let error = pam.authenticate(true, conversation).unwrap_err();
        assert!(error.code().is_some());
    }
    static LONG: [u8; MAX_TEXT_LEN + 1] = [b'a'; MAX_TEXT_LEN + 1];
    let mut pam = services.start("ask");
    assert!(pam.authenticate(true, &mut always(&LONG)).is_err());
}

#[test]
fn texts_are_bounded_and_services_are_no_paths() {
    if preload().is_err() {
        return;
    }
    for service in ["", "../x", "a/b", "a\0b"] {
        assert_eq!(Pam::start(service, "root").unwrap_err(), PamError::BadText);
    }
    let long = "x".repeat(MAX_TEXT_LEN + 1);
    assert_eq!(Pam::start("other", &long).unwrap_err(), PamError::BadText);
    let mut pam = Pam::start("other", "root").unwrap();
    assert_eq!(pam.set_item(PamItem::Tty, "a\0b"), Err(PamError::BadText));
    assert_eq!(pam.put_env("A=B", "c"), Err(PamError::BadText));
    assert_eq!(pam.put_env("", "c"), Err(PamError::BadText));
}
