use wire::Put;
use wire::permissions::Permission;

use super::*;
use crate::key_options::KeyOptions;
use crate::test_support::{Folder, have_ssh_keygen, survives_damage};
use crate::{EcCurve, KeySpec, PresentedKey, PrivateKey, private_file, public_file};

const NOW: u64 = 1_800_000_000;

fn ed25519() -> PrivateKey {
    PrivateKey::generate(KeySpec::Ed25519).unwrap()
}

fn fields(key: &PrivateKey, kind: CertificateKind) -> CertificateFields {
    CertificateFields {
        key: key.public().clone(),
        serial: 7,
        kind,
        key_id: "an id".to_owned(),
        principals: vec!["alice".to_owned(), "bob".to_owned()],
        valid_after: NOW - 100,
        valid_before: NOW + 100,
        critical_options: Vec::new(),
        extensions: Vec::new(),
    }
}

fn rules<'a>(kind: CertificateKind, names: &'a [&'a str]) -> CertificateRules<'a> {
    CertificateRules {
        kind,
        names,
        now: NOW,
        authority_algorithms: SignatureAlgorithm::ALL,
        min_rsa_bits: 2048,
    }
}

fn sign(fields: &CertificateFields, authority: &PrivateKey) -> Certificate {
    let algorithm = authority.key_type().algorithms()[0];
    fields.sign(authority, algorithm).unwrap()
}

fn user_check(change: impl FnOnce(&mut CertificateFields)) -> Result<KeyOptions, CertificateError> {
    let key = ed25519();
    let mut fields = fields(&key, CertificateKind::User);
    change(&mut fields);
    sign(&fields, &ed25519()).check(&rules(CertificateKind::User, &["alice"]))
}

#[test]
fn certificates_of_every_type_by_every_authority_are_read_back() {
    let specs = [
        KeySpec::Ed25519,
        KeySpec::Ecdsa(EcCurve::P256),
        KeySpec::Ecdsa(EcCurve::P521),
        KeySpec::Rsa { bits: 2048 },
    ];
    for spec in specs {
        let key = PrivateKey::generate(spec).unwrap();
        for authority in specs {
            let authority = PrivateKey::generate(authority).unwrap();
            for algorithm in authority.key_type().algorithms() {
                let mut fields = fields(&key, CertificateKind::Host);
                fields.extensions = vec![
                    CertificateOption::flag("z"),
                    CertificateOption::with_text("a", "b"),
                ];
                let certificate = fields.sign(&authority, *algorithm).unwrap();
                assert_eq!(certificate.key(), key.public());
                assert_eq!(certificate.authority(), authority.public());
                assert_eq!(certificate.signature_algorithm(), *algorithm);
                assert_eq!(
                    (certificate.serial(), certificate.key_id()),
                    (7, &b"an id"[..])
                );
                assert_eq!(certificate.extensions()[0].text(), Some("b"));
                let again = Certificate::from_blob(certificate.blob()).unwrap();
                assert_eq!(again, certificate);
            }
        }
    }
}

#[test]
fn every_changed_byte_ends_the_certificate() {
    let certificate = sign(&fields(&ed25519(), CertificateKind::User), &ed25519());
    let blob = certificate.blob();
    for at in 0..blob.len() {
        let mut changed = blob.to_vec();
        changed[at] ^= 1;
        assert!(Certificate::from_blob(&changed).is_err(), "byte {at}");
        assert!(Certificate::from_blob(&blob[..at]).is_err());
    }
    let mut longer = blob.to_vec();
    longer.push(0);
    assert!(Certificate::from_blob(&longer).is_err());
}

#[test]
fn mutated_certificates_do_not_panic() {
    let mut fields = fields(&ed25519(), CertificateKind::User);
    fields.critical_options = vec![CertificateOption::with_text("force-command", "x")];
    let certificate = sign(&fields, &ed25519());
    survives_damage(certificate.blob(), 3000, |bytes| {
        let _ = PresentedKey::from_blob(bytes);
    });
}

/// Builds a certificate whose fields are signed but break a rule.
fn forged(
    authority: &PrivateKey,
    authority_blob: &[u8],
    principals: &[u8],
    options: &[u8],
) -> Result<Certificate, KeyError> {
    let key = ed25519();
    let mut blob = Vec::new();
    blob.put_string(b"ssh-ed25519-cert-v01@openssh.com");
    blob.put_string(&[1; 32]);
    key.public().write_fields(&mut blob);
    blob.put_u64(1);
    blob.put_u32(1);
    blob.put_string(b"id");
    blob.put_string(principals);
    blob.put_u64(0);
    blob.put_u64(u64::MAX);
    blob.put_string(options);
    blob.put_string(b"");
    blob.put_string(b"");
    blob.put_string(authority_blob);
    let signature = authority
        .sign(authority.key_type().algorithms()[0], &blob)
        .unwrap();
    blob.put_string(&signature);
    Certificate::from_blob(&blob)
}

#[test]
fn an_authority_that_is_itself_a_certificate_is_refused() {
    let authority = ed25519();
    let own = sign(&fields(&authority, CertificateKind::User), &ed25519());
    assert!(forged(&authority, &authority.public().blob(), b"", b"").is_ok());
    assert!(matches!(
        forged(&authority, own.blob(), b"", b""),
        Err(KeyError::WrongKind(_))
    ));
}

#[test]
fn lists_with_wrong_lengths_nul_or_repetition_are_refused() {
    let authority = ed25519();
    let blob = authority.public().blob();
    let list = |items: &[&[u8]]| {
        let mut out = Vec::new();
        for item in items {
            out.put_string(item);
        }
        out
    };
    let bad = |principals: &[u8], options: &[u8]| {
        assert!(forged(&authority, &blob, principals, options).is_err());
    };
    bad(&[0, 0, 0, 9, b'a'], b"");
    bad(&list(&[b"root\0x"]), b"");
    bad(&list(&[b"\xff"]), b"");
    bad(&list(&vec![&b"a"[..]; MAX_PRINCIPALS + 1]), b"");
    bad(b"", &list(&[b"force-command"]));
    bad(
        b"",
        &list(&[b"verify-required", b"", b"verify-required", b""]),
    );
}

#[test]
fn an_authority_signing_with_sha1_is_refused() {
    let authority = PrivateKey::generate(KeySpec::Rsa { bits: 2048 }).unwrap();
    let key = ed25519();
    let good = sign(&fields(&key, CertificateKind::User), &authority);
    // The same certificate with `ssh-rsa` as the signature's algorithm name.
    let mut signature = Vec::new();
    signature.put_string(b"ssh-rsa");
    signature.put_string(&[1; 256]);
    let mut reader = Reader::new(good.blob());
    let end = good.blob().len() - (4 + 4 + "rsa-sha2-512".len() + 4 + 256);
    let mut blob = reader.bytes(end).unwrap().to_vec();
    blob.put_string(&signature);
    assert_eq!(
        Certificate::from_blob_permitted(&blob, SignatureAlgorithm::WITHOUT_SHA1),
        Err(KeyError::AuthorityAlgorithm)
    );
    // The signature itself is wrong, too.
    assert_eq!(
        Certificate::from_blob(&blob),
        Err(KeyError::Invalid("certificate's signature does not verify"))
    );
}

#[test]
fn the_time_of_validity_has_both_ends() {
    assert!(user_check(|fields| fields.valid_after = NOW).is_ok());
    assert_eq!(
        user_check(|fields| fields.valid_after = NOW + 1),
        Err(CertificateError::NotYetValid)
    );
    assert_eq!(
        user_check(|fields| fields.valid_before = NOW),
        Err(CertificateError::Expired)
    );
    assert!(user_check(|fields| fields.valid_before = u64::MAX).is_ok());
}

#[test]
fn empty_principals_never_match() {
    assert_eq!(
        user_check(|fields| fields.principals.clear()),
        Err(CertificateError::NoPrincipals)
    );
    let key = ed25519();
    let mut empty = fields(&key, CertificateKind::User);
    empty.principals = vec![String::new()];
    assert_eq!(
        sign(&empty, &ed25519()).check(&rules(CertificateKind::User, &[""])),
        Err(CertificateError::PrincipalMismatch)
    );
    assert_eq!(
        sign(&fields(&key, CertificateKind::User), &ed25519())
            .check(&rules(CertificateKind::User, &[])),
        Err(CertificateError::PrincipalMismatch)
    );
}

#[test]
fn a_principal_with_a_comma_is_one_principal() {
    for name in ["alice", "a", "alice,bob"] {
        let key = ed25519();
        let mut fields = fields(&key, CertificateKind::User);
        fields.principals = vec!["alice,bob".to_owned()];
        let verdict = sign(&fields, &ed25519()).check(&rules(CertificateKind::User, &[name]));
        assert_eq!(verdict.is_ok(), name == "alice,bob");
    }
}

#[test]
fn kind_authority_algorithm_and_size_are_held_to_the_rules() {
    let key = ed25519();
    let certificate = sign(&fields(&key, CertificateKind::User), &ed25519());
    assert_eq!(
        certificate.check(&rules(CertificateKind::Host, &["alice"])),
        Err(CertificateError::WrongKind)
    );
    let only_rsa = CertificateRules {
        authority_algorithms: &[SignatureAlgorithm::RsaSha512],
        ..rules(CertificateKind::User, &["alice"])
    };
    assert_eq!(
        certificate.check(&only_rsa),
        Err(CertificateError::AuthorityAlgorithm(
            SignatureAlgorithm::Ed25519
        ))
    );
    for (permitted, read) in [
        (SignatureAlgorithm::RsaSha512, false),
        (SignatureAlgorithm::EcdsaP256, false),
        (SignatureAlgorithm::Ed25519, true),
    ] {
        let blob = certificate.blob();
        let parsed = Certificate::from_blob_permitted(blob, &[permitted]);
        assert_eq!(parsed.is_ok(), read, "{permitted}");
        // Only the authority's name is read: the rest is not a key.
        let mut odd = blob.to_vec();
        let point = certificate.authority().blob()[19..].to_vec();
        let at = odd.windows(32).rposition(|bytes| bytes == point).unwrap();
        odd[at..at + 32].fill(0xff);
        assert_eq!(
            Certificate::certified_key(&odd).as_ref(),
            Ok(certificate.key())
        );
        let refused = Certificate::from_blob_permitted(&odd, &[permitted]).unwrap_err();
        assert_eq!(
            refused == KeyError::AuthorityAlgorithm,
            !read,
            "{permitted}"
        );
    }
    let small = PrivateKey::generate(KeySpec::Rsa { bits: 1024 }).unwrap();
    for (key, authority) in [(&key, &small), (&small, &key)] {
        assert_eq!(
            sign(&fields(key, CertificateKind::User), authority)
                .check(&rules(CertificateKind::User, &["alice"])),
            Err(CertificateError::KeyTooSmall)
        );
    }
}

#[test]
fn critical_options_are_obeyed_or_refuse_and_extensions_grant() {
    let grants = user_check(|fields| {
        fields.critical_options = vec![
            CertificateOption::with_text("force-command", "uptime"),
            CertificateOption::with_text("source-address", "192.0.2.0/24"),
            CertificateOption::flag("verify-required"),
        ];
        fields.extensions = ["permit-pty", "no-touch-required", "unknown@example.com"]
            .map(CertificateOption::flag)
            .to_vec();
    })
    .unwrap();
    assert_eq!(grants.force_command.as_deref(), Some("uptime"));
    let addresses = grants.source_address.unwrap();
    assert!(addresses.contains("192.0.2.9".parse().unwrap()));
    assert!(!addresses.contains("192.0.3.9".parse().unwrap()));
    assert!(grants.verify_required && grants.no_touch_required && grants.restricted);
    for each in Permission::ALL {
        assert_eq!(grants.permissions.permits(*each), *each == Permission::Pty);
    }

    let critical = |option: CertificateOption| {
        user_check(|fields| fields.critical_options = vec![option]).unwrap_err()
    };
    assert!(matches!(
        critical(CertificateOption::flag("unknown@example.com")),
        CertificateError::UnknownCriticalOption(_)
    ));
    assert_eq!(
        critical(CertificateOption::flag("force-command")),
        CertificateError::BadOption("force-command")
    );
    assert_eq!(
        critical(CertificateOption::with_text("source-address", "anywhere")),
        CertificateError::BadOption("source-address")
    );
    assert_eq!(
        critical(CertificateOption::with_text("verify-required", "x")),
        CertificateError::BadOption("verify-required")
    );
    let permissions = Permission::ALL.iter().map(|each| each.extension());
    for name in permissions.chain(["no-touch-required"]) {
        let extension = |data: &[u8]| {
            let option = CertificateOption {
                name: name.to_owned(),
                data: data.to_vec(),
            };
            user_check(|fields| fields.extensions = vec![option])
        };
        assert!(extension(b"").is_ok());
        assert_eq!(extension(b"x"), Err(CertificateError::BadOption(name)));
    }
}

#[test]
fn a_hosts_certificate_has_no_critical_option_and_ignores_case() {
    let key = ed25519();
    let mut fields = fields(&key, CertificateKind::Host);
    fields.principals = vec!["Host.Example.com".to_owned()];
    let check = |fields: &CertificateFields| {
        sign(fields, &ed25519()).check(&rules(CertificateKind::Host, &["host.example.com"]))
    };
    assert_eq!(check(&fields), Ok(KeyOptions::nothing()));
    fields.critical_options = vec![CertificateOption::with_text("force-command", "x")];
    assert!(matches!(
        check(&fields),
        Err(CertificateError::UnknownCriticalOption(_))
    ));
}

#[test]
fn ssh_keygen_shows_our_certificates_and_we_read_its_own() {
    if !have_ssh_keygen() {
        return;
    }
    let folder = Folder::new("certificates");
    for (count, spec) in [
        KeySpec::Ed25519,
        KeySpec::Ecdsa(EcCurve::P384),
        KeySpec::Rsa { bits: 2048 },
    ]
    .into_iter()
    .enumerate()
    {
        let authority = PrivateKey::generate(spec).unwrap();
        let key = PrivateKey::generate(spec).unwrap();
        let ca = format!("ca{count}");
        let file = private_file::write_openssh(&authority, "ca", None).unwrap();
        folder.write(&ca, file.as_bytes());
        folder.write(
            &format!("{ca}.pub"),
            authority.public().to_line().as_bytes(),
        );
        let name = format!("key{count}");
        folder.write(&format!("{name}.pub"), key.public().to_line().as_bytes());
        folder.keygen_args_ok(&[
            "-q",
            "-s",
            &ca,
            "-I",
            "their id",
            "-n",
            "alice,bob",
            "-z",
            "42",
            "-V",
            "20200101Z:20400101Z",
            "-O",
            "clear",
            "-O",
            "permit-pty",
            "-O",
            "force-command=echo hi",
            "-O",
            "source-address=10.0.0.0/8",
            &format!("{name}.pub"),
        ]);
        let theirs = public_file::parse(&folder.read(&format!("{name}-cert.pub"))).unwrap();
        let theirs = theirs.key.certificate().unwrap().clone();
        assert_eq!(theirs.key(), key.public());
        assert_eq!(theirs.authority(), authority.public());
        assert_eq!((theirs.serial(), theirs.key_id()), (42, &b"their id"[..]));
        let grants = theirs
            .check(&rules(CertificateKind::User, &["bob"]))
            .unwrap();
        assert_eq!(grants.force_command.as_deref(), Some("echo hi"));
        assert!(grants.permissions.permits(Permission::Pty));
        assert!(!grants.permissions.permits(Permission::UserRc));

        let mut ours = fields(&key, CertificateKind::Host);
        ours.extensions = Vec::new();
        let ours = PresentedKey::from(sign(&ours, &authority));
        folder.write("ours-cert.pub", public_file::to_line(&ours, "c").as_bytes());
        let shown = folder.keygen_ok("-L -f ours-cert.pub");
        assert!(shown.contains("Key ID: \"an id\""), "{shown}");
        assert!(
            shown.contains("host certificate") && shown.contains("alice"),
            "{shown}"
        );
    }
}
