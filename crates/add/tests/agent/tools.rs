//! Our programs and OpenSSH's with each other.

use keys::certificate::CertificateFields;
use keys::{CertificateKind, EcCurve, KeySpec};

use crate::{Agent, Folder, Whose, has, run};

const SPECS: [(&str, KeySpec); 5] = [
    ("ed", KeySpec::Ed25519),
    ("p256", KeySpec::Ecdsa(EcCurve::P256)),
    ("p384", KeySpec::Ecdsa(EcCurve::P384)),
    ("p521", KeySpec::Ecdsa(EcCurve::P521)),
    ("rsa", KeySpec::Rsa { bits: 2048 }),
];

/// Each agent with each ssh-add.
fn pairs() -> Vec<(Whose, Whose)> {
    let all = Whose::all();
    let of = |agent: &Whose| all.iter().map(|add| (*agent, *add)).collect::<Vec<_>>();
    all.iter().flat_map(of).collect()
}

pub(crate) fn keys_of_all_types_are_added_listed_tested_and_removed(folder: &Folder) {
    let names = SPECS.map(|(name, _)| name);
    for (name, spec) in SPECS {
        folder.key(name, spec, None);
    }
    let publics = names.map(|name| format!("{name}.pub"));
    let publics: Vec<&str> = publics.iter().map(String::as_str).collect();
    for (of_agent, of_add) in pairs() {
        let agent = Agent::start(folder, of_agent, &[]);
        let added = agent.add(folder, of_add, &names);
        assert_eq!(added.status, Some(0), "{of_agent:?} {of_add:?} {added:?}");
        let expected: Vec<String> = names
            .iter()
            .map(|name| format!("Identity added: {name} ({name})"))
            .collect();
        assert_eq!(added.err.trim_end(), expected.join("\n"));
        let listed = agent.add(folder, of_add, &["-L"]);
        let files: String = publics
            .iter()
            .map(|name| std::fs::read_to_string(folder.join(name)).unwrap())
            .collect();
        assert_eq!(listed.out, files, "{of_agent:?} {of_add:?}");
        let mut test = vec!["-T"];
        test.extend(&publics);
        let tested = agent.add(folder, of_add, &test);
        assert_eq!(
            (tested.status, &*tested.err),
            (Some(0), ""),
            "{of_agent:?} {of_add:?}"
        );
        let removed = agent.add(folder, of_add, &["-d", "ed", "rsa.pub"]);
        assert_eq!(removed.status, Some(0), "{removed:?}");
        assert_eq!(
            removed.err,
            "Identity removed: ed ED25519 (ed)\nIdentity removed: rsa.pub RSA (rsa)\n"
        );
        let p256 = std::fs::read_to_string(folder.join("p256.pub")).unwrap();
        let removed = agent.add_with(folder, of_add, &["-d", "-"], &p256);
        assert_eq!(removed.err, "Identity removed: (stdin) ECDSA (p256)\n");
        let listed = agent.add(folder, of_add, &["-l"]);
        assert_eq!(listed.out.lines().count(), 2, "{listed:?}");
        let from_pipe = std::fs::read_to_string(folder.join("ed")).unwrap();
        let added = agent.add_with(folder, of_add, &["-q", "-"], &from_pipe);
        assert_eq!((added.status, &*added.err), (Some(0), ""));
        // By its name, a pipe is a file like others.
        let p256 = std::fs::read_to_string(folder.join("p256")).unwrap();
        let added = agent.add_with(folder, of_add, &["/dev/stdin"], &p256);
        let said = "Identity added: /dev/stdin (p256)\n";
        assert_eq!((added.status, &*added.err), (Some(0), said));
        let p256 = std::fs::read_to_string(folder.join("p256.pub")).unwrap();
        for (flag, said) in [
            ("-T", ""),
            ("-d", "Identity removed: /dev/stdin ECDSA (p256)\n"),
        ] {
            let done = agent.add_with(folder, of_add, &[flag, "/dev/stdin"], &p256);
            assert_eq!((done.status, &*done.err), (Some(0), said), "{flag}");
        }
    }
}

pub(crate) fn the_words_and_statuses_are_those_of_ssh_add(folder: &Folder) {
    folder.key("ed", KeySpec::Ed25519, None);
    folder.key("open", KeySpec::Ed25519, None);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(folder.join("open"), mode).unwrap();
    std::fs::write(folder.join("no_key"), "nothing\n").unwrap();
    std::fs::write(folder.join("known"), "").unwrap();
    let all = Whose::all();
    let steps: &[&[&str]] = &[
        &["-l"],
        &["-L"],
        &["-d", "ed"],
        &["-D"],
        &["missing"],
        &["open"],
        &["no_key"],
        &["-l", "-L"],
        &["-x", "-X"],
        &["-l", "-D"],
        &["-T"],
        &["-T", "missing"],
        &["-t", "never", "ed"],
        &["-E", "none", "-l"],
        &["-h", "nowhere", "-H", "known", "ed"],
        &["-c", "ed"],
        &["-l"],
        &["-l", "-E", "md5"],
        &["-X"],
        &["-q", "-D"],
    ];
    let results = all.iter().map(|whose| {
        let agent = Agent::start(folder, *whose, &[]);
        let mut done = Vec::new();
        for args in steps {
            done.push((args.to_vec(), agent.add(folder, *whose, args)));
        }
        done
    });
    let results: Vec<_> = results.collect();
    if let [ours, theirs] = results.as_slice() {
        for (ours, theirs) in ours.iter().zip(theirs) {
            assert_eq!(ours, theirs);
        }
    }
    // A wrong command line is an error without an agent too, as from OpenSSH 10 on.
    for (args, status) in [
        (&["-y"][..], 1),
        (&["-t", "never", "ed"], 1),
        (&["-l", "-D"], 255),
    ] {
        let mut command = folder.command(Whose::Ours, "add");
        assert_eq!(run(command.args(args), "").status, Some(status), "{args:?}");
    }
    // Without an agent.
    for whose in all {
        let mut command = folder.command(whose, "add");
        let none = run(command.arg("-l"), "");
        assert_eq!(
            (none.status, &*none.err),
            (
                Some(2),
                "Could not open a connection to your authentication agent.\n"
            )
        );
        let mut command = folder.command(whose, "add");
        let gone = run(command.env("SSH_AUTH_SOCK", "/nonexistent").arg("-l"), "");
        assert_eq!(
            (gone.status, &*gone.err),
            (
                Some(2),
                "Error connecting to agent: No such file or directory\n"
            )
        );
    }
}

/// Writes a certificate of this validity beside a key.
fn certify(folder: &Folder, key: &keys::PrivateKey, name: &str, valid_before: u64) {
    let authority = keys::PrivateKey::from_ed25519_seed(&[3; 32]);
    let fields = CertificateFields {
        key: key.public().clone(),
        serial: 1,
        kind: CertificateKind::User,
        key_id: name.to_owned(),
        principals: vec!["somebody".to_owned()],
        valid_after: 0,
        valid_before,
        critical_options: Vec::new(),
        extensions: Vec::new(),
    };
    let algorithm = keys::SignatureAlgorithm::Ed25519;
    let certificate = fields.sign(&authority, algorithm).expect("a certificate");
    let line = keys::public_file::to_line(&certificate.into(), name);
    std::fs::write(folder.join(&format!("{name}-cert.pub")), line + "\n").unwrap();
}

pub(crate) fn certificates_go_with_their_keys_and_expire(folder: &Folder) {
    for (name, spec) in SPECS {
        let key = folder.key(name, spec, None);
        certify(folder, &key, name, u64::MAX);
    }
    let names = SPECS.map(|(name, _)| name);
    for (of_agent, of_add) in pairs() {
        let agent = Agent::start(folder, of_agent, &[]);
        let added = agent.add(folder, of_add, &names);
        assert_eq!(added.status, Some(0), "{added:?}");
        assert!(
            added
                .err
                .contains("Certificate added: p256-cert.pub (p256)\n"),
            "{added:?}"
        );
        let listed = agent.add(folder, of_add, &["-l"]).out;
        assert_eq!(listed.lines().count(), 10, "{listed}");
        assert!(listed.contains("(ED25519-CERT)\n") && listed.contains("(RSA-CERT)\n"));
        let certificates = names.map(|name| format!("{name}-cert.pub"));
        let mut test = vec!["-T"];
        test.extend(certificates.iter().map(String::as_str));
        let tested = agent.add(folder, of_add, &test);
        assert_eq!(
            (tested.status, &*tested.err),
            (Some(0), ""),
            "{of_agent:?} {of_add:?}"
        );
        let removed = agent.add(folder, of_add, &["-d", "ed"]);
        assert!(
            removed
                .err
                .ends_with("Identity removed: ed-cert.pub ED25519-CERT (ed)\n"),
            "{removed:?}"
        );
        assert!(!agent.add(folder, of_add, &["-l"]).out.contains("ED25519"));
    }
    // An agent keeps a certificate until five minutes after its validity.
    let key = folder.key("short", KeySpec::Ed25519, None);
    let agent = Agent::start(folder, Whose::Ours, &[]);
    let add = |args: &[&str]| agent.add(folder, Whose::Ours, args);
    let now = sys::time::realtime_seconds();
    certify(folder, &key, "short", now + 60);
    let added = add(&["-C", "short"]);
    let left = added
        .err
        .lines()
        .find(|line| line.starts_with("Lifetime set to 00:0"));
    assert!(left.is_some(), "{added:?}");
    certify(folder, &key, "short", now - 301);
    let expired = add(&["-C", "short"]);
    assert_eq!(expired.status, Some(1), "{expired:?}");
    assert_eq!(add(&["-C", "-N", "-q", "short"]).err, "");
    assert_eq!(add(&["-q", "-D"]).status, Some(0));
    certify(folder, &key, "short", now - 200);
    let added = add(&["-C", "short"]).err;
    assert!(added.contains("Lifetime set to 00:01:"), "{added}");
}

pub(crate) fn passphrases_are_asked_for_and_kept_for_the_next_key(folder: &Folder) {
    for name in ["one", "two"] {
        folder.key(name, KeySpec::Ed25519, Some("sesame"));
    }
    for (of_agent, of_add) in pairs() {
        let agent = Agent::start(folder, of_agent, &[]);
        let askpass = folder.join("answers");
        std::fs::write(
            &askpass,
            "#!/bin/sh\necho \"$1\" >> asked\nif test \"$(wc -l < asked)\" = 1; then echo wrong; \
             else echo sesame; fi\n",
        )
        .unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&askpass, mode).unwrap();
        let _ = std::fs::remove_file(folder.join("asked"));
        let mut command = folder.command(of_add, "add");
        command
            .args(["one", "two"])
            .env("SSH_AUTH_SOCK", &agent.socket)
            .env("SSH_ASKPASS", &askpass)
            .env("SSH_ASKPASS_REQUIRE", "force");
        let added = run(&mut command, "");
        assert_eq!(added.status, Some(0), "{of_add:?} {added:?}");
        let asked = std::fs::read_to_string(folder.join("asked")).unwrap();
        assert_eq!(
            asked,
            "Enter passphrase for one: \nBad passphrase, try again for one: \n"
        );
    }
}

pub(crate) fn a_locked_agent_shows_nothing(folder: &Folder) {
    folder.key("ed", KeySpec::Ed25519, None);
    for (of_agent, of_add) in pairs() {
        let agent = Agent::start(folder, of_agent, &[]);
        let askpass = folder.join("secret");
        std::fs::write(&askpass, "#!/bin/sh\necho sesame\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&askpass, mode).unwrap();
        let locks = |flag: &str| {
            let mut command = folder.command(of_add, "add");
            command
                .arg(flag)
                .env("SSH_AUTH_SOCK", &agent.socket)
                .env("SSH_ASKPASS", &askpass)
                .env("SSH_ASKPASS_REQUIRE", "force");
            let done = run(&mut command, "");
            (done.status, done.err)
        };
        assert_eq!(agent.add(folder, of_add, &["-q", "ed"]).status, Some(0));
        assert_eq!(locks("-x"), (Some(0), "Agent locked.\n".to_owned()));
        let refused = "Failed to lock agent: agent refused operation\n";
        assert_eq!(locks("-x"), (Some(1), refused.to_owned()));
        assert_eq!(
            agent.add(folder, of_add, &["-l"]).out,
            "The agent has no identities.\n"
        );
        assert_eq!(agent.add(folder, of_add, &["-T", "ed.pub"]).status, Some(1));
        assert_eq!(agent.add(folder, of_add, &["-D"]).status, Some(1));
        assert_eq!(locks("-X"), (Some(0), "Agent unlocked.\n".to_owned()));
        assert_eq!(agent.add(folder, of_add, &["-T", "ed.pub"]).status, Some(0));
    }
}

pub(crate) fn git_signs_with_a_key_of_the_agent(folder: &Folder) {
    if !has("git") || !has("ssh-keygen") {
        println!("skipped: no git or no ssh-keygen");
        return;
    }
    folder.key("ed", KeySpec::Ed25519, None);
    let agent = Agent::start(folder, Whose::Ours, &[]);
    assert_eq!(
        agent.add(folder, Whose::Ours, &["-q", "ed"]).status,
        Some(0)
    );
    // Only the agent has the private key.
    std::fs::remove_file(folder.join("ed")).unwrap();
    let public = std::fs::read_to_string(folder.join("ed.pub")).unwrap();
    std::fs::write(folder.join("signers"), format!("a@b {public}")).unwrap();
    let script = "git init -q . && git -c user.name=a -c user.email=a@b -c gpg.format=ssh \
        -c user.signingkey=\"$PWD/ed.pub\" commit -q --allow-empty -S -m signed && \
        git -c gpg.format=ssh -c gpg.ssh.allowedSignersFile=signers verify-commit HEAD";
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", script])
        .current_dir(&folder.path)
        .env("HOME", &folder.path)
        .env("SSH_AUTH_SOCK", &agent.socket);
    let signed = run(&mut command, "");
    assert_eq!(signed.status, Some(0), "{signed:?}");
    assert!(
        signed.err.contains("Good \"git\" signature for a@b"),
        "{signed:?}"
    );
}
