use super::*;
use crate::private_file;
use crate::test_support::{Folder, SPECS, have_ssh_keygen, survives_damage};
use crate::{EcCurve, KeySpec, PrivateKey};

#[test]
fn every_format_is_read_back() {
    for spec in SPECS {
        let key = PrivateKey::generate(spec).unwrap().public().clone();
        let presented = PresentedKey::from(key.clone());
        let line = to_line(&presented, "a comment");
        let file = parse(format!("# first\n\n{line}\n").as_bytes()).unwrap();
        assert_eq!(
            (&file.key, file.comment.as_str()),
            (&presented, "a comment")
        );
        let file = parse_rfc4716(to_rfc4716(&presented, "a comment").as_bytes()).unwrap();
        assert_eq!(
            (&file.key, file.comment.as_str()),
            (&presented, "a comment")
        );
        assert_eq!(parse_pem(to_pkcs8(&key).unwrap().as_bytes()).unwrap(), key);
        assert_eq!(parse_pem(to_pem(&key).unwrap().as_bytes()).unwrap(), key);
    }
}

#[test]
fn ssh_keygen_converts_as_we_do() {
    if !have_ssh_keygen() {
        return;
    }
    let folder = Folder::new("convert");
    for spec in SPECS {
        let key = PrivateKey::generate(spec).unwrap();
        let public = key.public();
        let presented = PresentedKey::from(public.clone());
        let file = private_file::write_openssh(&key, "c", None).unwrap();
        folder.write("key", file.as_bytes());
        folder.write("key.pub", to_line(&presented, "c").as_bytes());
        let exported = folder.keygen_ok("-e -m RFC4716 -f key");
        assert_eq!(parse_rfc4716(exported.as_bytes()).unwrap().key, presented);
        folder.write("ours", to_rfc4716(&presented, "x").as_bytes());
        assert_eq!(
            folder.keygen_ok("-i -m RFC4716 -f ours").trim_end(),
            public.to_line()
        );
        if public.key_type() == crate::KeyType::Ed25519 {
            // OpenSSH 9.2 does not support PEM for Ed25519.
            continue;
        }
        for (format, ours) in [
            ("PKCS8", to_pkcs8(public).unwrap()),
            ("PEM", to_pem(public).unwrap()),
        ] {
            assert_eq!(folder.keygen_ok(&format!("-e -m {format} -f key")), ours);
            // ssh-keygen -i reads only RSA keys in PEM.
            if format == "PEM" && public.key_type() != crate::KeyType::Rsa {
                continue;
            }
            folder.write("ours", ours.as_bytes());
            assert_eq!(
                folder
                    .keygen_ok(&format!("-i -m {format} -f ours"))
                    .trim_end(),
                public.to_line()
            );
        }
    }
}

#[test]
fn continued_headers_of_rfc_4716_are_one() {
    let key = PrivateKey::generate(KeySpec::Ed25519).unwrap();
    let coded = base64::encode(&key.public().blob());
    let text = format!(
        "{RFC4716_BEGIN}\nSubject: me\nComment: \"a \\\nlong one\"\nx-y: z\n{coded}\n{RFC4716_END}\n"
    );
    let file = parse_rfc4716(text.as_bytes()).unwrap();
    assert_eq!(file.comment, "a long one");
    assert_eq!(file.key.key(), key.public());
}

#[test]
fn mutated_public_key_files_do_not_panic() {
    let key = PrivateKey::generate(KeySpec::Ecdsa(EcCurve::P256)).unwrap();
    let presented = PresentedKey::from(key.public().clone());
    for text in [
        to_line(&presented, "c"),
        to_rfc4716(&presented, "c"),
        to_pkcs8(key.public()).unwrap(),
    ] {
        survives_damage(text.as_bytes(), 1500, |bytes| {
            let _ = parse(bytes);
            let _ = parse_rfc4716(bytes);
            let _ = parse_pem(bytes);
        });
    }
}

#[test]
fn a_line_whose_type_differs_from_its_key_is_refused() {
    let key = PrivateKey::generate(KeySpec::Ed25519).unwrap();
    let line = key.public().to_line().replace("ssh-ed25519", "ssh-rsa");
    assert!(parse_line(line.as_bytes()).is_err());
    assert!(parse_line(b"ssh-ed25519").is_err());
    assert!(parse(b"").is_err());
}
