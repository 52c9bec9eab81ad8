use super::edit::{append, appended, entry_line, hashed, without_host, without_keys};
use super::*;
use crate::certificate::CertificateKind;
use crate::test_support::{Folder, have_ssh_keygen, key, signed, survives_damage};
use crate::{KeySpec, KeyType, PresentedKey, PrivateKey, PublicKey};

fn public(seed: u8) -> PublicKey {
    key(seed).public().clone()
}

fn line(hosts: &str, seed: u8) -> String {
    format!("{hosts} {}\n", public(seed).to_line())
}

fn file(text: &str) -> KnownHosts {
    KnownHosts::new("known_hosts", text.as_bytes())
}

fn judge(text: &str, name: &str, seed: u8) -> HostKeyStatus {
    lookup(&[file(text)], name, &PresentedKey::from(public(seed)))
}

fn found_at(status: &HostKeyStatus) -> Option<usize> {
    match status {
        HostKeyStatus::Found { at, .. } => Some(at.line),
        _ => None,
    }
}

#[test]
fn names_patterns_and_ports_are_found() {
    let text = [
        "# a comment\n".to_owned(),
        line("alpha,192.0.2.1", 1),
        line("*.example.com,!bad.example.com", 2),
        line("[gamma]:2222", 3),
    ]
    .concat();
    assert_eq!(found_at(&judge(&text, "alpha", 1)), Some(2));
    assert_eq!(found_at(&judge(&text, &host_name("ALPHA", 22), 1)), Some(2));
    assert_eq!(found_at(&judge(&text, "192.0.2.1", 1)), Some(2));
    assert_eq!(found_at(&judge(&text, "www.example.com", 2)), Some(3));
    assert_eq!(judge(&text, "bad.example.com", 2), HostKeyStatus::Unknown);
    assert_eq!(
        found_at(&judge(&text, &host_name("gamma", 2222), 3)),
        Some(4)
    );
    assert_eq!(judge(&text, "gamma", 3), HostKeyStatus::Unknown);
    assert_eq!(judge(&text, "[gamma]:2223", 3), HostKeyStatus::Unknown);
}

#[test]
fn a_changed_key_is_told_with_its_place() {
    let text = line("alpha", 1) + &line("alpha", 2);
    match judge(&text, "alpha", 3) {
        HostKeyStatus::Changed { known } => {
            assert_eq!(known.len(), 2);
            assert_eq!(known[0].location.line, 1);
            assert_eq!(
                known[0].fingerprint(),
                crate::fingerprint::sha256(&public(1).blob())
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(found_at(&judge(&text, "alpha", 2)), Some(2));
}

#[test]
fn a_match_in_any_file_wins() {
    let first = KnownHosts::new("one", line("alpha", 1));
    let second = KnownHosts::new("two", line("alpha", 2));
    let status = lookup(&[first, second], "alpha", &PresentedKey::from(public(2)));
    match status {
        HostKeyStatus::Found { at, by_authority } => {
            assert_eq!((at.path.to_str(), at.line), (Some("two"), 1));
            assert!(!by_authority);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn keys_of_other_types_are_not_a_change() {
    let ecdsa = PrivateKey::generate(KeySpec::Ecdsa(crate::EcCurve::P256)).unwrap();
    let status = lookup(
        &[file(&line("alpha", 1))],
        "alpha",
        &PresentedKey::from(ecdsa.public().clone()),
    );
    assert!(matches!(status, HostKeyStatus::OtherTypes { known } if known.len() == 1));
    let known = known_types(&[file(&line("alpha", 1))], "alpha");
    assert_eq!(
        (known.plain, known.authority),
        (vec![KeyType::Ed25519], false)
    );
}

/// A line that was cut off or damaged is no key of the host: it does not make another key a changed one.
#[test]
fn a_damaged_key_counts_for_nothing() {
    for damaged in [
        "alpha ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA==\n",
        "alpha ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQ==\n",
    ] {
        assert_eq!(judge(damaged, "alpha", 1), HostKeyStatus::Unknown);
        let known = known_types(&[file(damaged)], "alpha");
        assert_eq!(known, KnownTypes::default());
        let both = format!("{damaged}{}", line("alpha", 1));
        let found = judge(&both, "alpha", 1);
        assert!(matches!(found, HostKeyStatus::Found { .. }), "{found:?}");
    }
}

fn certificate(seed: u8, authority: u8) -> PresentedKey {
    signed(CertificateKind::Host, "alpha", seed, authority, 0, "")
}

#[test]
fn authorities_vouch_for_certificates_alone() {
    let text = format!("@cert-authority {}", line("*.example.com,alpha", 9));
    let files = [file(&text)];
    assert!(matches!(
        lookup(&files, "alpha", &certificate(1, 9)),
        HostKeyStatus::Found {
            by_authority: true,
            ..
        }
    ));
    assert_eq!(
        lookup(&files, "alpha", &certificate(1, 8)),
        HostKeyStatus::Unknown
    );
    assert_eq!(
        lookup(&files, "beta", &certificate(1, 9)),
        HostKeyStatus::Unknown
    );
    // The authority's own key is not a key of the host.
    assert_eq!(judge(&text, "alpha", 9), HostKeyStatus::Unknown);
    assert!(known_types(&files, "alpha").authority);
    // A line of the authority's key without marker trusts no certificate.
    assert_eq!(
        lookup(&[file(&line("alpha", 9))], "alpha", &certificate(1, 9)),
        HostKeyStatus::Unknown
    );
}

#[test]
fn a_revoked_key_or_authority_is_refused_whatever_else_is_known() {
    let revoked = |seed| format!("@revoked {}", line("*", seed));
    let plain = line("alpha", 1) + &revoked(1);
    assert!(matches!(
        judge(&plain, "alpha", 1),
        HostKeyStatus::Revoked { at } if at.line == 2
    ));
    let trusted = format!("@cert-authority {}", line("alpha", 9));
    for text in [trusted.clone() + &revoked(9), trusted + &revoked(1)] {
        assert!(matches!(
            lookup(&[file(&text)], "alpha", &certificate(1, 9)),
            HostKeyStatus::Revoked { .. }
        ));
    }
}

#[test]
fn a_name_that_is_a_pattern_is_kept_as_itself() {
    for name in [
        "*", "a,b", "h?", "!h", "a b", "|1|x|y", "@revoked", "#h", "a\nb",
    ] {
        let text = entry_line(&[name], &public(1), false);
        assert_eq!(text.lines().count(), 1, "{name:?}");
        assert_eq!(found_at(&judge(&text, name, 1)), Some(1), "{name:?}");
        for other in ["a", "b", "hx", "other"] {
            assert_eq!(judge(&text, other, 1), HostKeyStatus::Unknown, "{name:?}");
        }
    }
    assert!(entry_line(&["h", "::1", "[h]:22"], &public(1), false).starts_with("h,::1,[h]:22 "));
}

#[test]
fn hashed_names_match_their_name_alone() {
    let text = entry_line(&["alpha", "[beta]:99"], &public(1), true);
    assert_eq!(text.lines().count(), 2);
    assert!(!text.contains("alpha"));
    assert_eq!(found_at(&judge(&text, "alpha", 1)), Some(1));
    assert_eq!(found_at(&judge(&text, "[beta]:99", 1)), Some(2));
    assert_eq!(judge(&text, "gamma", 1), HostKeyStatus::Unknown);
    // The example of sshd(8), computed with another tool.
    assert_eq!(
        hash_name_with("example.org", &[0x41; 20]),
        format!(
            "|1|QUFBQUFBQUFBQUFBQUFBQUFBQUE=|{}",
            base64::encode(&name_hash(&[0x41; 20], "example.org"))
        )
    );
}

#[test]
fn truncated_and_damaged_lines_are_passed_over() {
    let good = line("alpha", 1);
    let hash = entry_line(&["alpha"], &public(2), true);
    for end in 0..hash.len() - 1 {
        let text = format!("{}\n{good}", &hash[..end]);
        assert_eq!(found_at(&judge(&text, "alpha", 1)), Some(2), "{text}");
    }
    for bad in [
        "@unknown alpha ssh-ed25519 AAAA",
        "alpha",
        "alpha ssh-ed25519",
        "alpha 1024 35 123456789",
        "alpha ssh-ed25519 !!!!",
        "|1|| ssh-ed25519 AAAA",
        "|1|AAAA ssh-ed25519 AAAA",
        "|2|AAAA|AAAA ssh-ed25519 AAAA",
        "\0\0\0",
    ] {
        let text = format!("{bad}\n{good}");
        assert_eq!(found_at(&judge(&text, "alpha", 1)), Some(2), "{bad}");
    }
}

#[test]
fn a_line_over_the_limit_is_passed_over_whole() {
    let tail = line("alpha", 1);
    let text = format!("{} {tail}{}", "x".repeat(300_000), line("alpha", 2));
    assert_eq!(found_at(&judge(&text, "alpha", 2)), Some(2));
    assert!(matches!(
        judge(&text, "alpha", 1),
        HostKeyStatus::Changed { .. }
    ));
}

#[test]
fn mutated_known_hosts_files_do_not_panic() {
    let text = format!(
        "@cert-authority {}@revoked {}{}{}",
        line("*.a,!b.a", 1),
        line("*", 2),
        line("alpha,[beta]:22", 3),
        entry_line(&["alpha"], &public(4), true)
    );
    let presented = certificate(3, 1);
    survives_damage(text.as_bytes(), 3000, |bytes| {
        let file = KnownHosts::new("f", bytes);
        let _ = lookup(std::slice::from_ref(&file), "alpha", &presented);
        let _ = hashed(&file);
        let _ = without_host(&file, "alpha");
    });
    let garbage: Vec<u8> = (0..1 << 20)
        .map(|index: u32| u8::try_from(index.wrapping_mul(0x9e37_79b1) >> 24).unwrap())
        .collect();
    let _ = lookup(&[KnownHosts::new("f", garbage)], "alpha", &presented);
}

#[test]
fn edits_touch_nothing_else() {
    let text = format!(
        "# keep me\n\n{}{}@revoked {}broken line\n{}",
        line("alpha", 1),
        line("beta", 2),
        line("alpha", 3),
        line("alpha,gamma", 4).trim_end(),
    );
    let edited = without_host(&file(&text), "alpha");
    assert_eq!(edited.changed_lines, [3, 7]);
    assert_eq!(edited.invalid_lines, [6]);
    assert_eq!(
        String::from_utf8(edited.text).unwrap(),
        format!(
            "# keep me\n\n{}@revoked {}broken line\n",
            line("beta", 2),
            line("alpha", 3)
        )
    );
    let edited = without_keys(&file(&text), "alpha", &[public(4).blob()]);
    assert_eq!(edited.changed_lines, [7]);
    assert_eq!(appended(b"no end", "next\n"), b"no end\nnext\n");
    assert_eq!(appended(b"", "next\n"), b"next\n");
}

#[test]
fn a_line_is_appended_to_a_file_that_is_made_or_has_no_end() {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

    let folder = Folder::new("append");
    let path = folder.path("made/known_hosts");
    append(&path, "first\n").unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    // As a file that is made here with these permissions: less the umask.
    let like = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(folder.path("like"));
    drop(like.unwrap());
    assert_eq!(mode(&path), mode(&folder.path("like")));
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    std::fs::write(&path, "no end").unwrap();
    append(&path, "second\n").unwrap();
    append(&path, "third\n").unwrap();
    assert_eq!(folder.read("made/known_hosts"), b"no end\nsecond\nthird\n");
}

#[test]
fn ssh_keygen_finds_removes_and_hashes_as_we_do() {
    if !have_ssh_keygen() {
        return;
    }
    let folder = Folder::new("known-hosts");
    let text = format!(
        "# comment\n{}{}{}@cert-authority {}@revoked {}\n{}",
        line("alpha,10.0.0.1", 1),
        line("[beta]:2222", 2),
        line("*.example.com,!x.example.com", 3),
        line("*.example.com", 4),
        line("alpha", 5),
        line("gamma", 6).trim_end().to_owned() + "  trailing comment \n",
    );
    let known = file(&text);
    for name in [
        "alpha",
        "10.0.0.1",
        "[beta]:2222",
        "www.example.com",
        "gamma",
        "nobody",
    ] {
        folder.write("kh", text.as_bytes());
        let theirs = folder.keygen(&format!("-F {name} -f kh"));
        let ours: Vec<usize> = known
            .entries()
            .filter(|entry| entry.matches(name))
            .map(|entry| entry.line)
            .collect();
        let shown = String::from_utf8(theirs.stdout).unwrap();
        let lines: Vec<usize> = shown
            .lines()
            .filter_map(|line| line.strip_prefix(&format!("# Host {name} found: line ")))
            .map(|rest| rest.split(' ').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(ours, lines, "{name}");
        assert_eq!(theirs.status.success(), !ours.is_empty());

        folder.keygen(&format!("-R {name} -f kh"));
        let edited = without_host(&known, name);
        assert_eq!(
            String::from_utf8_lossy(&folder.read("kh")),
            String::from_utf8_lossy(&edited.text),
            "{name}"
        );
    }
    // Each implementation finds names that the other one hashed.
    folder.write("kh", text.as_bytes());
    folder.keygen_ok("-H -f kh");
    let theirs = KnownHosts::new("kh", folder.read("kh"));
    let ours = hashed(&known);
    assert_eq!(ours.pattern_lines, [4]);
    folder.write("ours", &ours.text);
    let mine = KnownHosts::new("ours", ours.text);
    for (name, seed) in [
        ("alpha", 1),
        ("10.0.0.1", 1),
        ("[beta]:2222", 2),
        ("gamma", 6),
    ] {
        let presented = PresentedKey::from(public(seed));
        let both = [
            lookup(std::slice::from_ref(&theirs), name, &presented),
            lookup(std::slice::from_ref(&mine), name, &presented),
        ];
        assert!(
            both.iter().all(|status| found_at(status).is_some()),
            "{name} {both:?}"
        );
        folder.keygen_ok(&format!("-F {name} -f ours"));
    }
    let shape = |file: &KnownHosts| -> Vec<(usize, bool)> {
        file.entries()
            .map(|entry| (entry.line, entry.is_hashed()))
            .collect()
    };
    assert_eq!(shape(&theirs), shape(&mine));
}
