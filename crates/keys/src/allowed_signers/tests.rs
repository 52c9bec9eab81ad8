use super::*;
use crate::certificate::CertificateFields;
use crate::private_key::{KeySpec, PrivateKey};

const NOW: u64 = 1_800_000_000;

fn clock(time: crate::time::CivilTime) -> Option<i64> {
    time.utc_seconds()
}

fn make() -> (PrivateKey, String) {
    let key = PrivateKey::generate(KeySpec::Ed25519).unwrap();
    let line = public_file::to_line(&key.public().clone().into(), "a comment");
    (key, line)
}

fn all(file: &str, principal: Option<&str>) -> Vec<Result<AllowedSigner, BadLine>> {
    signers(file.as_bytes(), principal.map(str::as_bytes), &clock).collect()
}

fn one(line: &str) -> AllowedSigner {
    all(line, None).remove(0).unwrap()
}

fn reason(line: &str) -> BadLineReason {
    all(line, None).remove(0).unwrap_err().reason
}

#[test]
fn lines_are_read_with_their_options() {
    let (key, text) = make();
    let file = format!(
        "# comment\n\n  a@x,*.b {text}\nc \
         cert-authority,namespaces=\"git,f*\",valid-after=\"20200101Z\",valid-before=\"20300101Z\" \
         {text}\n\"d e\" Cert-Authority\t{text}\r\n"
    );
    let found: Vec<AllowedSigner> = all(&file, None).into_iter().map(Result::unwrap).collect();
    assert_eq!(found.len(), 3);
    assert_eq!(
        (found[0].line, found[0].principals.as_slice()),
        (3, &b"a@x,*.b"[..])
    );
    assert_eq!(found[0].key.key(), key.public());
    assert!(!found[0].authority && found[0].namespaces.is_none());
    assert!(found[1].authority);
    assert_eq!(found[1].namespaces.as_deref(), Some("git,f*"));
    assert_eq!(found[1].valid_after, Some(1_577_836_800));
    assert_eq!(found[1].valid_before, Some(1_893_456_000));
    assert_eq!(found[2].principals, b"d e");
    assert!(found[2].authority);
    let count = |principal| all(&file, Some(principal)).len();
    assert_eq!((count("x.b"), count("d e"), count("d")), (1, 1, 0));
    // A comment in another encoding is accepted.
    let mut bytes = format!("a cert-authority {text}").into_bytes();
    bytes.push(0xe4);
    assert!(signers(&bytes, None, &clock).all(|line| line.is_ok()));
}

#[test]
fn a_line_that_is_not_understood_is_an_error() {
    let (_, text) = make();
    for (line, expected) in [
        ("a".to_owned(), BadLineReason::NoKey),
        ("a b".to_owned(), BadLineReason::NoKey),
        (format!("\"a {text}"), BadLineReason::Quotes),
        (format!("a namespaces=\"x {text}"), BadLineReason::Quotes),
    ] {
        assert_eq!(reason(&line), expected, "{line}");
    }
    assert!(matches!(
        reason("a cert-authority x y"),
        BadLineReason::Key(_)
    ));
    for options in [
        "octopus",
        "namespaces=a",
        "namespaces=\"a\",namespaces=\"a\"",
        "namespaces=\"a\"x",
        "cert-authority,",
        ",cert-authority",
        "cert-authority=\"x\"",
        "valid-after=\"x\"",
        "valid-after=\"19700101Z\"",
        "valid-before=\"20300101Z\",valid-before=\"20300101Z\"",
        "valid-after=\"20300101Z\",valid-before=\"20300101Z\"",
    ] {
        let line = format!("a {options} {text}");
        assert!(
            matches!(reason(&line), BadLineReason::Options(_)),
            "{options}"
        );
    }
    let long = format!("a {text}{}", "x".repeat(crate::lines::MAX_LINE_BYTES));
    assert_eq!(reason(&long), BadLineReason::TooLong);
    // Lines of other principals are not parsed.
    assert!(all("a octopus x", Some("b")).is_empty());
    assert!(all("a octopus x", Some("a"))[0].is_err());
}

#[test]
fn a_key_signs_for_its_line_alone() {
    let (key, text) = make();
    let (other, _) = make();
    let key = PresentedKey::from(key.public().clone());
    let permits = |options: &str, namespace: &[u8], time| {
        let signer = one(&format!("a,*.b {options} {text}"));
        signer.permits(&key, Some("a"), Some(namespace), time)
    };
    let names = vec!["a".to_owned(), "*.b".to_owned()];
    assert_eq!(permits("", b"git", NOW), Ok(Some(names.clone())));
    assert_eq!(permits("cert-authority", b"git", NOW), Ok(None));
    let signer = one(&format!("a {text}"));
    let other = PresentedKey::from(other.public().clone());
    assert_eq!(signer.permits(&other, None, None, NOW), Ok(None));

    let list = "namespaces=\"git,f*,!file\"";
    assert!(permits(list, b"git", NOW).is_ok());
    assert!(permits(list, b"fog", NOW).is_ok());
    for refused in [&b"file"[..], b"gi", b""] {
        assert_eq!(permits(list, refused, NOW), Err(NotPermitted::Namespace));
    }
    let signer = one(&format!("a,*.b {list} {text}"));
    assert_eq!(signer.permits(&key, None, None, NOW), Ok(Some(names)));

    let span = "valid-after=\"20200101Z\",valid-before=\"20300101Z\"";
    let (from, to) = (1_577_836_800, 1_893_456_000);
    for time in [from, NOW, to] {
        assert!(permits(span, b"x", time).is_ok());
    }
    assert_eq!(
        permits(span, b"x", from - 1),
        Err(NotPermitted::NotYetValid(from))
    );
    assert_eq!(permits(span, b"x", to + 1), Err(NotPermitted::Expired(to)));
}

#[test]
fn an_authority_vouches_for_the_names_in_its_certificates() {
    let (authority, text) = make();
    let (key, _) = make();
    let certify = |principals: &[&str], kind, valid_before| -> PresentedKey {
        let fields = CertificateFields {
            key: key.public().clone(),
            serial: 1,
            kind,
            key_id: "id".into(),
            principals: principals.iter().map(|&name| name.into()).collect(),
            valid_after: 0,
            valid_before,
            critical_options: Vec::new(),
            extensions: Vec::new(),
        };
        let algorithm = SignatureAlgorithm::Ed25519;
        fields.sign(&authority, algorithm).unwrap().into()
    };
    let user = |principals: &[&str]| certify(principals, CertificateKind::User, u64::MAX);
    let signer = one(&format!("a,*.b cert-authority {text}"));
    let ask = |key: &PresentedKey, principal| signer.permits(key, principal, None, NOW);
    let vouched = user(&["a", "x.b", "y"]);
    assert_eq!(ask(&vouched, Some("a")), Ok(Some(vec!["a".to_owned()])));
    let names = vec!["a".to_owned(), "x.b".to_owned()];
    assert_eq!(ask(&vouched, None), Ok(Some(names)));
    // A matching pattern is not enough: the certificate must list the principal.
    let refused = |error| Err(NotPermitted::Certificate(error));
    let mismatch = refused(CertificateError::PrincipalMismatch);
    assert_eq!(ask(&vouched, Some("z.b")), mismatch);
    assert_eq!(ask(&user(&["y"]), None), Err(NotPermitted::NoPrincipals));
    let nobody = refused(CertificateError::NoPrincipals);
    assert_eq!(ask(&user(&[]), Some("a")), nobody);
    assert_eq!(ask(&user(&[]), None), Err(NotPermitted::NoPrincipals));
    let host = certify(&["a"], CertificateKind::Host, u64::MAX);
    assert_eq!(ask(&host, Some("a")), refused(CertificateError::WrongKind));
    let over = certify(&["a"], CertificateKind::User, NOW);
    assert_eq!(ask(&over, Some("a")), refused(CertificateError::Expired));
    assert_eq!(ask(&over, None), Err(NotPermitted::NoPrincipals));
    // Permitted are neither the plain key nor the authority's own key, nor a certificate without
    // the option.
    let plain = |key: &PrivateKey| PresentedKey::from(key.public().clone());
    assert_eq!(ask(&plain(&key), Some("a")), Ok(None));
    assert_eq!(ask(&plain(&authority), Some("a")), Ok(None));
    let signer = one(&format!("a {text}"));
    assert_eq!(signer.permits(&vouched, Some("a"), None, NOW), Ok(None));
    // A line may contain a certificate itself.
    let line = public_file::to_line(&vouched, "");
    let signer = one(&format!("z {line}"));
    let names = Ok(Some(vec!["z".to_owned()]));
    assert_eq!(signer.permits(&vouched, Some("z"), None, NOW), names);
    assert_eq!(
        signer.permits(&user(&["a"]), Some("z"), None, NOW),
        Ok(None)
    );
}
