use super::*;

/// Without a realm only what needs none: errors have words, and a made-up credential or token is
/// refused. tests/interop has the realm.
#[test]
fn what_is_no_token_is_refused_with_words() {
    let Ok(gss) = Gss::load() else {
        eprintln!("skipped: libgssapi_krb5.so.2 is not installed");
        return;
    };
    for bytes in [&b""[..], b"x", &[0x60, 0x82, 0xff, 0xff], &[0xff; 64]] {
        let error = gss.store(bytes, "MEMORY:x").unwrap_err();
        assert!(!error.text.is_empty());
        assert!(gss.is_authorized(bytes, "root").is_err());
    }
    assert!(gss.is_authorized(b"x", "a\0b").is_err());
    let initiator = gss.initiator("host@localhost", false, None).unwrap();
    assert!(initiator.mic(b"data").is_err());
}

/// A context that is established counts only with the flags that its owner needs.
#[test]
fn a_context_without_mutual_authentication_or_integrity_is_none() {
    let Ok(gss) = Gss::load() else {
        eprintln!("skipped: libgssapi_krb5.so.2 is not installed");
        return;
    };
    for (required, flags, is_good) in [
        (MUTUAL | INTEGRITY, MUTUAL | INTEGRITY | DELEGATES, true),
        (MUTUAL | INTEGRITY, INTEGRITY, false),
        (MUTUAL | INTEGRITY, MUTUAL, false),
        (INTEGRITY, INTEGRITY, true),
        (INTEGRITY, MUTUAL, false),
    ] {
        let mut context = GssContext::new(&gss, required);
        let output = LibraryBuffer::new(&gss);
        let step = context.step((0, 0), flags, &output);
        assert_eq!(step.is_ok(), is_good, "{required} {flags}");
        assert_eq!(context.established().is_ok(), is_good);
        // Before the end the flags are not final.
        let mut context = GssContext::new(&gss, required);
        assert!(context.step((CONTINUE_NEEDED, 0), 0, &output).is_ok());
        assert!(context.mic(b"hash").is_err() && context.verify(b"hash", b"mic").is_err());
    }
}

#[test]
fn this_machine_is_a_host() {
    let service = own_service();
    assert!(service.starts_with("host@") && service.len() > 5);
}
