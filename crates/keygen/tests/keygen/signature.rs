//! Signatures over files that ssh-keygen makes and verifies as we do, by files and by an agent, and
//! those of git.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use super::{Folder, SELF};

const DATA: &str = "what is signed\n";

fn key(folder: &Folder, name: &str, flags: &[&str]) {
    let mut args = vec!["-q", "-N", "", "-C", "c", "-f", name];
    args.extend(flags);
    folder.ours_ok(&args);
}

/// Status and standard output, which must be the same by both programs.
fn same(folder: &Folder, args: &[&str], input: &str) -> (Option<i32>, String) {
    let ours = folder.ours(args, input);
    if folder.have_theirs {
        let theirs = folder.theirs(args, input);
        let (left, right) = ((ours.status, &ours.out), (theirs.status, &theirs.out));
        assert_eq!(left, right, "{args:?} {} {}", ours.err, theirs.err);
        // Debug words of ssh-keygen's own functions apart, both say something or nothing.
        assert_eq!(
            ours.err.is_empty(),
            theirs.err.is_empty(),
            "{args:?} {}",
            ours.err
        );
    }
    (ours.status, ours.out)
}

fn verify<'a>(signers: &'a str, signature: &'a str, principal: &'a str) -> Vec<&'a str> {
    vec![
        "-Y", "verify", "-f", signers, "-I", principal, "-n", "file", "-s", signature,
    ]
}

pub(super) fn signatures_are_verified_both_ways(folder: &Folder) {
    key(folder, "ca", &["-t", "ed25519"]);
    key(folder, "ed", &["-t", "ed25519"]);
    key(folder, "ec", &["-t", "ecdsa", "-b", "384"]);
    key(folder, "rsa", &["-t", "rsa", "-b", "2048"]);
    folder.ours_ok(&["-q", "-s", "ca", "-I", "i", "-n", "me@x", "ed.pub"]);
    let authority = format!("*@x cert-authority {}", folder.read("ca.pub"));
    for (name, public) in [
        ("ed", "ed.pub"),
        ("ec", "ec"),
        ("rsa", "rsa.pub"),
        ("ed", "ed-cert.pub"),
    ] {
        let plain = format!("me@x {}", folder.read(&format!("{name}.pub")));
        let by_authority = public.contains("cert");
        folder.write("signers", if by_authority { &authority } else { &plain });
        for hash in ["sha256", "sha512"] {
            let option = format!("hashalg={hash}");
            let args = [
                "-q", "-Y", "sign", "-f", public, "-n", "file", "-O", &option,
            ];
            let mut made = vec![folder.ours(&args, DATA)];
            // 9.2 takes no hash and uses SHA-512.
            if folder.have_theirs && hash == "sha512" {
                made.push(folder.theirs(&args[..7], DATA));
                if name == "ed" {
                    assert_eq!(made[0], made[1]);
                }
            }
            for run in made {
                assert_eq!(run.status, Some(0), "{}", run.err);
                // An RSA key signs with the hash of the data.
                if let Some(rsa) = rsa_algorithm(&run.out) {
                    assert_eq!((name, rsa), ("rsa", format!("rsa-sha2-{}", &hash[3..])));
                }
                folder.write("sig", &run.out);
                let good = same(folder, &verify("signers", "sig", "me@x"), DATA);
                assert_eq!(good.0, Some(0), "{public} {hash}");
                assert!(
                    good.1.starts_with("Good \"file\" signature for me@x with "),
                    "{good:?}"
                );
                for (signature, principal, data) in [
                    ("sig", "me@x", "something else"),
                    ("sig", "you@x", DATA),
                    ("nosuch", "me@x", DATA),
                ] {
                    let args = verify("signers", signature, principal);
                    let bad = same(folder, &args, data);
                    assert_eq!(bad, (Some(255), "Could not verify signature.\n".into()));
                }
                let check = |namespace| {
                    let args = ["-Y", "check-novalidate", "-n", namespace, "-s", "sig"];
                    same(folder, &args, DATA).0
                };
                assert_eq!((check("file"), check("other")), (Some(0), Some(255)));
                let find = ["-Y", "find-principals", "-f", "signers", "-s", "sig"];
                assert_eq!(same(folder, &find, ""), (Some(0), "me@x\n".into()));
            }
        }
    }
}

/// The name of an RSA algorithm in a signature.
fn rsa_algorithm(armored: &str) -> Option<String> {
    let lines = armored.lines().filter(|line| !line.starts_with('-'));
    let bytes = keys::base64::decode(lines.collect::<String>().as_bytes())?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let at = text.find("rsa-sha2-")?;
    text.get(at..at + "rsa-sha2-000".len()).map(str::to_owned)
}

/// The lines that permit and those that do not, the times, revoked keys, and wrong uses.
pub(super) fn allowed_signers_are_judged_alike(folder: &Folder) {
    key(folder, "ed", &["-t", "ed25519"]);
    key(folder, "other", &["-t", "ed25519"]);
    let sign = ["-q", "-Y", "sign", "-f", "ed", "-n", "file"];
    folder.write("sig", &folder.ours(&sign, DATA).out);
    let (public, other) = (folder.read("ed.pub"), folder.read("other.pub"));
    let mut statuses = Vec::new();
    for line in [
        format!("me {public}"),
        format!("m? {public}"),
        format!("*,!me {public}"),
        format!("me {other}me {public}"),
        format!("you octopus\nme {public}"),
        format!("me octopus {other}me {public}"),
        format!("me cert-authority {public}"),
        format!("me namespaces=\"git\" {public}"),
        format!("me namespaces=\"git,fi*\" {public}"),
        format!("me valid-before=\"20200101\" {public}"),
        format!("me valid-after=\"20200101\",valid-before=\"20210101Z\" {public}"),
        format!("me valid-after=\"20990101\" {public}"),
        format!("me x y\nme {public}"),
        "# nobody\n".to_owned(),
    ] {
        folder.write("signers", &line);
        for time in [None, Some("verify-time=20200601120000")] {
            let mut args = verify("signers", "sig", "me");
            args.extend(time.iter().flat_map(|time| ["-O", time]));
            statuses.push(same(folder, &args, DATA).0 == Some(0));
        }
        let find = ["-Y", "find-principals", "-f", "signers", "-s", "sig"];
        same(folder, &find, "");
        same(
            folder,
            &["-Y", "match-principals", "-f", "signers", "-I", "me"],
            "",
        );
    }
    let good: Vec<usize> = (0..statuses.len()).filter(|at| statuses[*at]).collect();
    assert_eq!(good, [0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 16, 17, 21, 24, 25]);

    folder.write("signers", &format!("me {public}"));
    folder.ours_ok(&["-q", "-k", "-f", "krl", "other.pub"]);
    folder.ours_ok(&["-q", "-k", "-f", "krl-of-it", "ed.pub"]);
    for (list, status) in [
        ("krl", 0),
        ("krl-of-it", 255),
        ("ed.pub", 255),
        ("nosuch", 255),
    ] {
        let mut args = verify("signers", "sig", "me");
        args.extend(["-r", list]);
        let ours = folder.ours(&args, DATA);
        assert_eq!(ours.status, Some(status), "{list}");
        if folder.have_theirs {
            let theirs = folder.theirs(&args, DATA);
            assert_eq!((ours.status, ours.out), (theirs.status, theirs.out));
        }
    }

    for args in [
        &["-Y", "sign", "-f", "ed"][..],
        &["-Y", "sign", "-n", "file"],
        &["-Y", "sign", "-n", "", "-f", "ed"],
        &["-Y", "sign", "-n", "file", "-f", "nosuch"],
        &["-Y", "sign", "-n", "file", "-f", "ed", "nosuch"],
        &["-Y", "sign", "-n", "file", "-f", "ed", "-", "sig"],
        &["-Y", "sign", "-n", "file", "-f", "ed", "-U"],
        &["-Y", "sign", "-n", "file", "-f", "ed", "-O", "octopus"],
        &["-Y", "verify", "-f", "signers", "-I", "me", "-n", "file"],
        &["-Y", "verify", "-f", "signers", "-s", "sig", "-n", "file"],
        &["-Y", "verify", "-f", "signers", "-s", "sig", "-I", "me"],
        &["-Y", "find-principals", "-s", "sig"],
        &["-Y", "octopus"],
    ] {
        let ours = folder.ours(args, DATA);
        assert!(matches!(ours.status, Some(1 | 255)), "{args:?}");
        if folder.have_theirs {
            let theirs = folder.theirs(args, DATA);
            assert_eq!(
                (ours.status, ours.out),
                (theirs.status, theirs.out),
                "{args:?}"
            );
        }
    }
    let mut args = verify("signers", "sig", "me");
    args.extend(["-O", "print-pubkey", "-q"]);
    let printed = folder.ours(&args, DATA).out;
    assert!(public.starts_with(printed.trim_end()) && !printed.is_empty());
}

/// A signature goes beside its file, and over another one only when that is confirmed.
pub(super) fn a_signature_goes_beside_its_file(folder: &Folder) {
    key(folder, "ed", &["-t", "ed25519"]);
    folder.write("data", DATA);
    let args = ["-Y", "sign", "-f", "ed", "-n", "file", "data"];
    let said = folder.ours(&args, "").err;
    assert_eq!(said, "Signing file data\nWrite signature to data.sig\n");
    let before = folder.read("data.sig");
    folder.write("data", "changed\n");
    let kept = folder.ours(&args, "n\n");
    assert_eq!(kept.out, "data.sig already exists.\nOverwrite (y/n)? ");
    assert_eq!(folder.read("data.sig"), before);
    folder.ours(&args, "y\n");
    assert_ne!(folder.read("data.sig"), before);
    let check = ["-Y", "check-novalidate", "-n", "file", "-s", "data.sig"];
    assert_eq!(folder.ours(&check, "changed\n").status, Some(0));
}

/// An agent that ends with the test.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Keys that only the agent holds sign files and, with `-U`, certificates.
pub(super) fn an_agent_signs(folder: &Folder) {
    if !folder.have_theirs {
        return;
    }
    let socket = folder.path("agent");
    let mut started = Command::new("ssh-agent")
        .args(["-D", "-a"])
        .arg(&socket)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It prints where it listens once it does.
    let mut first = [0];
    std::io::Read::read_exact(started.stdout.as_mut().unwrap(), &mut first).unwrap();
    let _agent = Agent(started);
    let with_agent = |args: &[&str]| {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(SELF, "1")
            .env("SSH_AUTH_SOCK", &socket)
            .current_dir(&folder.path)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let _ = child.stdin.take().unwrap().write_all(DATA.as_bytes());
        child.wait_with_output().unwrap()
    };
    key(folder, "ed", &["-t", "ed25519"]);
    key(folder, "rsa", &["-t", "rsa", "-b", "2048"]);
    key(folder, "here", &["-t", "ed25519"]);
    for name in ["ed", "rsa"] {
        let file = format!("{name}.pub");
        let sign = ["-Y", "sign", "-n", "file", "-U", "-f", &file];
        assert_eq!(with_agent(&sign).status.code(), Some(255), "not yet there");
        let added = Command::new("ssh-add")
            .args(["-q", name])
            .env("SSH_AUTH_SOCK", &socket)
            .current_dir(&folder.path)
            .status();
        assert!(added.unwrap().success());
        std::fs::remove_file(folder.path(name)).unwrap();
        let made = with_agent(&sign);
        assert_eq!(made.status.code(), Some(0));
        folder.write("sig", &String::from_utf8(made.stdout).unwrap());
        folder.write("signers", &format!("me {}", folder.read(&file)));
        let good = same(folder, &verify("signers", "sig", "me"), DATA);
        assert_eq!(good.0, Some(0), "{name}");
        for authority in [name, &file] {
            let certify = ["-U", "-s", authority, "-I", "i", "-n", "n", "here.pub"];
            assert_eq!(with_agent(&certify).status.code(), Some(0));
            let shown = folder.both(&["-L", "-f", "here-cert.pub"]);
            assert_eq!(shown.status, Some(0));
            std::fs::remove_file(folder.path("here-cert.pub")).unwrap();
        }
    }
    let certify = ["-U", "-s", "here", "-I", "i", "-n", "n", "here.pub"];
    assert_eq!(with_agent(&certify).status.code(), Some(255));
}

/// git signs and verifies commits and tags by it.
pub(super) fn git_signs_and_verifies(folder: &Folder) {
    let program = folder.path("keygen");
    let own = std::env::current_exe().unwrap();
    folder.write(
        "keygen",
        &format!("#!/bin/sh\n{SELF}=1 exec {} \"$@\"\n", own.display()),
    );
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).unwrap();
    key(folder, "ed", &["-t", "ed25519"]);
    key(folder, "other", &["-t", "ed25519"]);
    let signers = folder.path("signers");
    let allow = |name: &str| {
        let line = format!("me@x namespaces=\"git\" {}", folder.read(name));
        std::fs::write(&signers, line).unwrap();
    };
    let git = |args: &[&str]| {
        Command::new("git")
            .current_dir(&folder.path)
            .env("HOME", &folder.path)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .args(["-c", "user.name=me", "-c", "user.email=me@x"])
            .args(["-c", "gpg.format=ssh", "-c"])
            .arg(format!("gpg.ssh.program={}", program.display()))
            .arg("-c")
            .arg(format!("gpg.ssh.allowedSignersFile={}", signers.display()))
            .arg("-c")
            .arg(format!(
                "user.signingKey={}",
                folder.path("ed.pub").display()
            ))
            .args(args)
            .output()
    };
    let Ok(made) = git(&["init", "-q"]) else {
        println!("skipped: no git on this machine");
        return;
    };
    assert!(made.status.success());
    let good = |args: &[&str]| {
        let output = git(args).unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), said)
    };
    allow("ed.pub");
    let made = good(&["commit", "-q", "--allow-empty", "-S", "-m", "a"]);
    assert!(made.0, "{made:?}");
    assert!(good(&["tag", "-s", "-m", "t", "t"]).0);
    for args in [["verify-commit", "HEAD"], ["verify-tag", "t"]] {
        let (is_good, said) = good(&args);
        assert!(
            is_good && said.contains("Good \"git\" signature for me@x"),
            "{said}"
        );
    }
    allow("other.pub");
    for args in [["verify-commit", "HEAD"], ["verify-tag", "t"]] {
        let (is_good, said) = good(&args);
        assert!(!is_good && said.contains("No principal matched."), "{said}");
    }
}

/// Signature and signers come from pipes, as `<(…)` of a shell gives them.
pub(super) fn what_a_pipe_gives_is_read(folder: &Folder) {
    key(folder, "ed", &["-t", "ed25519"]);
    let sign = ["-q", "-Y", "sign", "-f", "ed", "-n", "file"];
    let signature = folder.ours(&sign, DATA).out;
    let signers = format!("me {}", folder.read("ed.pub"));
    for (pipe, text) in [("sig", signature), ("signers", signers)] {
        let path = folder.path(pipe);
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        std::thread::spawn(move || std::fs::write(path, text));
    }
    let ours = folder.ours(&verify("signers", "sig", "me"), DATA);
    assert_eq!(ours.status, Some(0), "{} {}", ours.out, ours.err);
}
