use super::*;
use crate::public_file;
use crate::test_support::{Folder, SPECS, have_ssh_keygen, survives_damage};
use crate::{EcCurve, KeySpec, PresentedKey};

fn quick(cipher: FileCipher) -> OpensshProtection {
    OpensshProtection { cipher, rounds: 1 }
}

fn same(left: &PrivateKey, right: &PrivateKey) -> bool {
    let write = |key| asn1::write_pkcs8(key, None).unwrap();
    left.public() == right.public() && *write(left) == *write(right)
}

#[test]
fn every_format_is_read_back() {
    for spec in SPECS {
        let key = PrivateKey::generate(spec).unwrap();
        let plain = write_openssh(&key, "a comment", None).unwrap();
        let file = parse(plain.as_bytes(), None).unwrap();
        assert!(same(&file.key, &key) && !file.encrypted);
        assert_eq!(file.comment, "a comment");
        for cipher in FileCipher::all() {
            let text = write_openssh_with(&key, "c", Some(b"secret"), &quick(cipher)).unwrap();
            let file = parse(text.as_bytes(), Some(b"secret")).unwrap();
            assert!(same(&file.key, &key) && file.encrypted);
            assert_eq!(
                parse(text.as_bytes(), None).unwrap_err(),
                PrivateFileError::NeedsPassphrase
            );
            assert_eq!(
                parse(text.as_bytes(), Some(b"wrong")).unwrap_err(),
                PrivateFileError::WrongPassphrase
            );
            assert_eq!(parse_public(text.as_bytes()).unwrap(), *key.public());
        }
        let pkcs8 = write_pkcs8(&key, None).unwrap();
        assert!(same(&parse(pkcs8.as_bytes(), None).unwrap().key, &key));
        if spec == KeySpec::Ed25519 {
            assert_eq!(
                write_pem(&key, None).unwrap_err(),
                PrivateFileError::NotInThisFormat
            );
            continue;
        }
        for passphrase in [None, Some(&b"secret"[..])] {
            let pem = write_pem(&key, passphrase).unwrap();
            assert!(same(&parse(pem.as_bytes(), passphrase).unwrap().key, &key));
        }
    }
}

#[test]
fn encrypted_pkcs8_opens_with_its_passphrase_alone() {
    let key = PrivateKey::generate(KeySpec::Ed25519).unwrap();
    let text = write_pkcs8(&key, Some(b"secret")).unwrap();
    assert!(same(
        &parse(text.as_bytes(), Some(b"secret")).unwrap().key,
        &key
    ));
    assert_eq!(
        parse(text.as_bytes(), Some(b"wrong")).unwrap_err(),
        PrivateFileError::WrongPassphrase
    );
    assert_eq!(
        parse(text.as_bytes(), None).unwrap_err(),
        PrivateFileError::NeedsPassphrase
    );
}

#[test]
fn ssh_keygen_reads_what_we_write() {
    if !have_ssh_keygen() {
        return;
    }
    let folder = Folder::new("theirs-reads");
    let check = |key: &PrivateKey, text: &str, passphrase: &str| {
        folder.write("key", text.as_bytes());
        let line = folder.keygen_args_ok(&["-y", "-P", passphrase, "-f", "key"]);
        let file = public_file::parse(line.as_bytes()).unwrap();
        assert_eq!(file.key, PresentedKey::from(key.public().clone()));
    };
    for spec in SPECS {
        let key = PrivateKey::generate(spec).unwrap();
        check(&key, &write_openssh(&key, "c", None).unwrap(), "");
        for cipher in FileCipher::all() {
            let text = write_openssh_with(&key, "c", Some(b"secret"), &quick(cipher)).unwrap();
            check(&key, &text, "secret");
        }
        if spec != KeySpec::Ed25519 {
            check(&key, &write_pem(&key, None).unwrap(), "");
            check(&key, &write_pem(&key, Some(b"secret")).unwrap(), "secret");
            check(&key, &write_pkcs8(&key, None).unwrap(), "");
            check(&key, &write_pkcs8(&key, Some(b"secret")).unwrap(), "secret");
        }
    }
}

#[test]
fn we_read_what_ssh_keygen_writes() {
    if !have_ssh_keygen() {
        return;
    }
    let folder = Folder::new("ours-reads");
    let mut count = 0;
    for kind in [
        "ed25519",
        "ecdsa -b 256",
        "ecdsa -b 384",
        "ecdsa -b 521",
        "rsa -b 2048",
    ] {
        let mut files: Vec<(String, &str)> = vec![("-m RFC4716".to_owned(), "")];
        for cipher in FileCipher::all() {
            files.push((format!("-a 1 -Z {}", cipher.name()), "secret"));
        }
        if kind != "ed25519" {
            for format in ["PEM", "PKCS8"] {
                files.push((format!("-m {format}"), ""));
                files.push((format!("-m {format}"), "secret"));
            }
        }
        for (flags, passphrase) in files {
            let name = format!("key{count}");
            count += 1;
            let mut arguments: Vec<&str> = vec!["-q", "-t"];
            arguments.extend(kind.split(' ').chain(flags.split(' ')));
            arguments.extend(["-C", "their comment", "-N", passphrase, "-f", &name]);
            folder.keygen_args_ok(&arguments);
            let public = public_file::parse(&folder.read(&format!("{name}.pub"))).unwrap();
            let private = load(&folder.path(&name)).unwrap();
            let passphrase = Some(passphrase.as_bytes()).filter(|text| !text.is_empty());
            let file = parse(&private, passphrase).unwrap_or_else(|error| {
                panic!("{kind} {flags}: {error}");
            });
            assert_eq!(public.key, PresentedKey::from(file.key.public().clone()));
            assert_eq!(file.encrypted, passphrase.is_some());
            if passphrase.is_some() {
                let wrong = parse(&private, Some(b"wrong")).unwrap_err();
                assert_eq!(wrong, PrivateFileError::WrongPassphrase, "{kind} {flags}");
            }
        }
    }
}

#[test]
fn openssl_and_we_read_each_other() {
    let folder = Folder::new("openssl");
    let openssl = |arguments: &str| {
        std::process::Command::new("openssl")
            .args(arguments.split(' '))
            .current_dir(folder.root())
            .output()
    };
    if openssl("version").is_err() {
        eprintln!("skipped: no openssl on this machine");
        return;
    }
    let rsa = PrivateKey::generate(KeySpec::Rsa { bits: 2048 }).unwrap();
    let ed25519 = PrivateKey::generate(KeySpec::Ed25519).unwrap();
    let read = |arguments: String, key: &PrivateKey| {
        let output = openssl(&arguments).unwrap();
        let diagnostics = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments}: {diagnostics}");
        let file = parse(&folder.read("out"), Some(b"secret")).unwrap_or_else(|error| {
            panic!("{arguments}: {error}");
        });
        assert!(same(&file.key, key), "{arguments}");
    };
    for key in [&rsa, &ed25519] {
        let text = write_pkcs8(key, Some(b"secret")).unwrap();
        folder.write("in", text.as_bytes());
        read(
            "pkcs8 -topk8 -in in -passin pass:secret -out out -nocrypt".to_owned(),
            key,
        );
        folder.write("in", write_pkcs8(key, None).unwrap().as_bytes());
        let convert = "pkcs8 -topk8 -in in -out out";
        for cipher in ["aes-128-cbc", "aes-192-cbc", "aes-256-cbc", "des-ede3-cbc"] {
            for hash in ["SHA1", "SHA256", "SHA384", "SHA512"] {
                read(
                    format!(
                        "{convert} -passout pass:secret -v2 {cipher} -v2prf hmacWith{hash} -iter 10"
                    ),
                    key,
                );
            }
        }
    }
    folder.write("in", write_pem(&rsa, Some(b"secret")).unwrap().as_bytes());
    for cipher in ["aes128", "aes192", "aes256", "des3"] {
        read(
            format!(
                "rsa -in in -passin pass:secret -traditional -{cipher} -passout pass:secret -out out"
            ),
            &rsa,
        );
    }
}

#[test]
fn mutated_key_files_do_not_panic() {
    let key = PrivateKey::generate(KeySpec::Ecdsa(EcCurve::P256)).unwrap();
    let texts = [
        write_openssh(&key, "c", None).unwrap(),
        write_openssh_with(
            &key,
            "c",
            Some(b"p"),
            &quick(FileCipher::from_name(b"aes256-gcm@openssh.com").unwrap()),
        )
        .unwrap(),
        write_pem(&key, None).unwrap(),
        write_pem(&key, Some(b"p")).unwrap(),
        write_pkcs8(&key, None).unwrap(),
    ];
    for text in texts {
        survives_damage(text.as_bytes(), 100, |bytes| {
            let _ = parse(bytes, None);
        });
        // Damages the decoded content, which the armour does not protect. Without a passphrase, so
        // that a damaged number of rounds costs no time.
        let block = pem::find(text.as_bytes(), |_| true).unwrap();
        survives_damage(&block.body, 2000, |bytes| {
            let _ = openssh::read(bytes, None);
            let _ = asn1::read_pkcs8(bytes, false);
            let _ = asn1::read_encrypted_pkcs8(bytes, None);
            let traditional = pem::PemBlock {
                label: "EC PRIVATE KEY",
                headers: Vec::new(),
                body: Zeroizing::new(bytes.to_vec()),
            };
            let _ = asn1::read_traditional(&traditional, None);
        });
    }
}

#[test]
fn a_key_file_cannot_ask_for_endless_work() {
    let key = PrivateKey::generate(KeySpec::Ed25519).unwrap();
    let text = write_openssh_with(&key, "c", Some(b"p"), &quick(FileCipher::default())).unwrap();
    let mut body = pem::find(text.as_bytes(), |_| true).unwrap().body.to_vec();
    // The rounds are the last four bytes of the options, at offset 15 + (4+10) + (4+6) + 4 +
    // (4+16).
    let at = 15 + 14 + 10 + 4 + 20;
    assert_eq!(body[at..at + 4], [0, 0, 0, 1]);
    body[at..at + 4].copy_from_slice(&[0xff; 4]);
    assert_eq!(
        openssh::read(&body, Some(b"p")).unwrap_err(),
        PrivateFileError::TooMuchWork
    );
    body[at..at + 4].copy_from_slice(&[0; 4]);
    assert!(openssh::read(&body, Some(b"p")).is_err());
    // A million rounds are accepted with a warning; one more is refused before a passphrase is
    // requested.
    let mut file = |rounds: u32| {
        body[at..at + 4].copy_from_slice(&rounds.to_be_bytes());
        pem::write(openssh::LABEL, &[], &body, 70)
    };
    for (rounds, expected, warned) in [
        (1024, PrivateFileError::NeedsPassphrase, false),
        (1025, PrivateFileError::NeedsPassphrase, true),
        (16_385, PrivateFileError::NeedsPassphrase, true),
        (1_000_000, PrivateFileError::NeedsPassphrase, true),
        (1_000_001, PrivateFileError::TooMuchWork, false),
    ] {
        let text = file(rounds);
        assert_eq!(parse(text.as_bytes(), None).unwrap_err(), expected);
        assert_eq!(slow_warning(text.as_bytes()).is_some(), warned, "{rounds}");
    }
}

#[test]
fn keys_are_written_under_the_rounds_of_openssh() {
    let key = PrivateKey::generate(KeySpec::Ed25519).unwrap();
    let text = write_openssh(&key, "c", Some(b"p")).unwrap();
    let body = pem::find(text.as_bytes(), |_| true).unwrap().body.to_vec();
    assert_eq!(openssh::kdf_rounds(&body), Some(32));
}

#[test]
fn halves_that_do_not_belong_together_are_refused() {
    let (one, other) = (
        PrivateKey::generate(KeySpec::Ed25519).unwrap(),
        PrivateKey::generate(KeySpec::Ed25519).unwrap(),
    );
    let text = write_openssh(&one, "c", None).unwrap();
    let body = pem::find(text.as_bytes(), |_| true).unwrap().body.to_vec();
    let (ours, theirs) = (one.public().blob(), other.public().blob());
    let at = body
        .windows(ours.len())
        .position(|part| part == ours)
        .unwrap();
    let mut swapped = body.clone();
    swapped[at..at + theirs.len()].copy_from_slice(&theirs);
    assert_eq!(
        openssh::read(&swapped, None).unwrap_err(),
        PrivateFileError::Malformed
    );
}

#[test]
fn other_files_are_no_keys() {
    for text in [
        "",
        "hello\n",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        assert_eq!(
            parse(text.as_bytes(), None).unwrap_err(),
            PrivateFileError::NotAPrivateKey
        );
    }
    let dsa = "-----BEGIN DSA PRIVATE KEY-----\nAAAA\n-----END DSA PRIVATE KEY-----\n";
    assert!(matches!(
        parse(dsa.as_bytes(), None),
        Err(PrivateFileError::Unsupported(_))
    ));
    assert!(is_private_key(dsa.as_bytes()));
}

#[test]
fn no_secret_appears_in_debug_output() {
    let key = PrivateKey::from_ed25519_seed(&[0xa5; 32]);
    let text = write_openssh(&key, "c", None).unwrap();
    let shown = format!("{:?}", parse(text.as_bytes(), None).unwrap());
    assert!(
        !shown.contains("165") && !shown.to_lowercase().contains("a5a5"),
        "{shown}"
    );
}

/// Sections of encrypted files whose length does not fit the cipher are errors, even with the right
/// passphrase.
#[test]
fn wrong_lengths_in_encrypted_files_are_errors() {
    for iv_len in 0..40 {
        for data_len in [0, 1, 15, 16, 17, 32] {
            let (iv, data) = (vec![1; iv_len], vec![2; data_len]);
            let body = asn1::encrypted_info(b"salt", 1, &iv, &data);
            assert!(asn1::read_encrypted_pkcs8(&body, Some(b"p")).is_err());
            for cipher in ["AES-128-CBC", "AES-256-CBC", "DES-EDE3-CBC", "NONE", ""] {
                let info = format!("{cipher},{}", "0A".repeat(iv_len));
                let block = pem::PemBlock {
                    label: "EC PRIVATE KEY",
                    headers: vec![("Proc-Type", "4,ENCRYPTED"), ("DEK-Info", &info)],
                    body: Zeroizing::new(data.clone()),
                };
                assert!(asn1::read_traditional(&block, Some(b"p")).is_err());
            }
        }
    }
    for iterations in [0, u32::MAX] {
        let body = asn1::encrypted_info(b"salt", iterations, &[0; 16], &[0; 16]);
        assert_eq!(
            asn1::read_encrypted_pkcs8(&body, Some(b"p")).unwrap_err(),
            PrivateFileError::TooMuchWork
        );
    }
}

#[test]
fn damage_to_an_encrypted_section_is_a_wrong_passphrase_or_malformed() {
    let key = PrivateKey::generate(KeySpec::Ed25519).unwrap();
    for cipher in FileCipher::all() {
        let text = write_openssh_with(&key, "c", Some(b"p"), &quick(cipher)).unwrap();
        let body = pem::find(text.as_bytes(), |_| true).unwrap().body.to_vec();
        let blob = key.public().blob();
        let at = body
            .windows(blob.len())
            .position(|part| part == blob)
            .unwrap();
        let (head, tail) = body.split_at(at + blob.len());
        for seed in 1..100 {
            let damaged = crate::test_support::Damage::new(seed).apply(tail);
            if damaged == tail {
                continue;
            }
            let whole = [head, &damaged].concat();
            // Only AEAD ciphers detect every change; the others must not panic.
            let read = openssh::read(&whole, Some(b"p"));
            if cipher.name().contains("gcm") || cipher.name().contains("poly1305") {
                assert!(read.is_err());
            }
        }
    }
}

/// As ssh.com's programs write an RSA key that is not encrypted.
fn of_ssh_com(key: &PrivateKey, cipher: &str) -> String {
    let pem = write_pem(key, None).unwrap();
    let coded: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let der = crate::base64::decode(coded.as_bytes()).unwrap();
    let mut rest = &der[4..];
    let mut numbers = Vec::new();
    while let [0x02, length, after @ ..] = rest {
        let (length, after) = match *length {
            0x82 => (
                usize::from(u16::from_be_bytes([after[0], after[1]])),
                &after[2..],
            ),
            0x81 => (usize::from(after[0]), &after[1..]),
            short => (usize::from(short), after),
        };
        numbers.push(&after[..length]);
        rest = &after[length..];
    }
    let [_version, n, _e, d, p, q, _dp, _dq, qinv] = numbers[..] else {
        panic!("{} numbers", numbers.len());
    };
    let mut blob = Vec::new();
    let word = |blob: &mut Vec<u8>, number: usize| {
        blob.extend_from_slice(&u32::try_from(number).unwrap().to_be_bytes());
    };
    word(&mut blob, 0x3f6f_f9eb);
    word(&mut blob, 0);
    for text in [
        "if-modn{sign{rsa-pkcs1-sha1},encrypt{rsa-pkcs1v2-oaep}}",
        cipher,
    ] {
        word(&mut blob, text.len());
        blob.extend_from_slice(text.as_bytes());
    }
    for length in [0, 0, 17] {
        word(&mut blob, length);
    }
    blob.extend_from_slice(&[1, 0, 1]);
    for number in [d, n, qinv, q, p] {
        word(&mut blob, number.len() * 8);
        blob.extend_from_slice(number);
    }
    format!(
        "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nSubject: me\nComment: \"a key\"\n{}---- END SSH2 ENCRYPTED PRIVATE KEY ----\n",
        *crate::base64::encode_lines(&blob, 70)
    )
}

#[test]
fn keys_of_ssh_com_are_read() {
    let key = PrivateKey::generate(KeySpec::Rsa { bits: 2048 }).unwrap();
    let text = of_ssh_com(&key, "none");
    for end in ["\n", "\r\n", "\r"] {
        let text = text.replace('\n', end);
        assert!(is_ssh_com(text.as_bytes()), "{end:?}");
        assert!(
            same(&parse_ssh_com(text.as_bytes()).unwrap(), &key),
            "{end:?}"
        );
    }
    let encrypted = of_ssh_com(&key, "3des-cbc");
    assert_eq!(
        parse_ssh_com(encrypted.as_bytes()).unwrap_err(),
        PrivateFileError::Unsupported("cipher \"3des-cbc\"".into())
    );
    assert!(!is_ssh_com(write_pem(&key, None).unwrap().as_bytes()));
    survives_damage(text.as_bytes(), 200, |bytes| {
        let _ = parse_ssh_com(bytes);
    });
}
