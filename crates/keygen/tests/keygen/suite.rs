//! What OpenSSH's own regression suite asks of ssh-keygen and the tests beside this file do not:
//! private halves where public keys are meant, askpass, old synonyms, SSHFP records, PKCS#8.

use std::os::unix::fs::PermissionsExt;

use super::{Folder, SELF, without_terminal};

fn key(folder: &Folder, name: &str, flags: &[&str]) {
    let mut args = vec!["-q", "-N", "", "-C", "c", "-f", name];
    args.extend(flags);
    folder.ours_ok(&args);
}

/// The key to sign may be named by its private file, and then its `.pub` may lack; a `.pub` may
/// also exist alone, named by the private file.
pub(super) fn a_certificate_is_signed_for_a_private_file(folder: &Folder) {
    key(folder, "ca", &["-t", "ed25519"]);
    key(folder, "key", &["-t", "ed25519"]);
    let args = ["-s", "ca", "-I", "id", "-n", "a", "key"];
    for without in [None, Some("key.pub")] {
        if let Some(name) = without {
            std::fs::remove_file(folder.path(name)).unwrap();
        }
        let said = folder.both(&args).err;
        assert_eq!(
            said,
            "Signed user key key-cert.pub: id \"id\" serial 0 for a valid forever\n"
        );
        let shown = folder.both(&["-L", "-f", "key-cert.pub"]);
        assert_eq!(shown.status, Some(0));
        std::fs::remove_file(folder.path("key-cert.pub")).unwrap();
    }
    folder.write("key.pub", &folder.ours_ok(&["-y", "-f", "key"]));
    std::fs::remove_file(folder.path("key")).unwrap();
    assert_eq!(folder.both(&args).status, Some(0));
    assert!(folder.path("key-cert.pub").exists());
}

/// `SSH_ASKPASS_REQUIRE=force` brings the passphrase from the program, whatever standard input is.
pub(super) fn a_passphrase_comes_from_askpass(folder: &Folder) {
    folder.ours_ok(&[
        "-q", "-t", "ed25519", "-N", "hunter2", "-f", "key", "-C", "",
    ]);
    folder.write("askpass", "#!/bin/sh\necho hunter2\n");
    let program = folder.path("askpass");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).unwrap();
    let run = |require: &str| {
        let mut command = without_terminal(&std::env::current_exe().unwrap());
        command
            .env(SELF, "1")
            .env("SSH_ASKPASS", &program)
            .env("SSH_ASKPASS_REQUIRE", require)
            .env_remove("DISPLAY")
            .current_dir(&folder.path)
            .args(["-y", "-f", "key"])
            .stdin(std::process::Stdio::null());
        command.output().unwrap()
    };
    let forced = run("force");
    let line = String::from_utf8_lossy(&forced.stdout).into_owned();
    assert!(line.starts_with("ssh-ed25519 "), "{forced:?}");
    assert!(folder.read("key.pub").starts_with(line.trim_end()));
    assert_eq!(run("never").status.code(), Some(255));
}

/// Records that both programs print alike, and what makes none.
pub(super) fn sshfp_records_are_the_same(folder: &Folder) {
    key(folder, "ed", &["-t", "ed25519"]);
    key(folder, "ec", &["-t", "ecdsa"]);
    key(folder, "rsa", &["-t", "rsa", "-b", "2048"]);
    for (name, number) in [("ed", 4), ("ec.pub", 3), ("rsa.pub", 1)] {
        let records = folder.both(&["-r", "host.example", "-f", name]);
        assert_eq!(records.status, Some(0));
        let lines: Vec<&str> = records.out.lines().collect();
        assert_eq!(lines.len(), 2, "{records:?}");
        for (line, kind) in lines.iter().zip(1..) {
            let head = format!("host.example IN SSHFP {number} {kind} ");
            assert!(line.starts_with(&head), "{line}");
        }
        let generic = folder.both(&["-g", "-r", "h", "-f", name]).out;
        assert!(generic.contains(" TYPE44 \\# 22 0"), "{generic}");
        let args = ["-O", "hashalg=sha256", "-r", "host.example", "-f", name];
        let one = folder.ours_ok(&args);
        assert_eq!(one.trim_end(), lines[1]);
    }
    folder.both(&["-r", "h", "-f", "nosuch"]);
    folder.ours_ok(&["-q", "-s", "ed", "-I", "i", "-n", "n", "ec.pub"]);
    for args in [
        &["-f", "ec-cert.pub"][..],
        &["-f", "ed", "-O", "hashalg=md5"],
        &["-f", "ed", "-O", "nothing"],
    ] {
        let mut all = vec!["-r", "h"];
        all.extend(args);
        let run = folder.ours(&all, "");
        assert_eq!((run.status, run.out.as_str()), (Some(255), ""), "{args:?}");
    }
}

/// Flags that scripts still have: `-X` for `-i`, `-o`, and SSH2 for RFC4716.
pub(super) fn old_synonyms_are_taken(folder: &Folder) {
    key(folder, "key", &["-t", "ed25519", "-o"]);
    let exported = folder.both(&["-e", "-m", "SSH2", "-f", "key"]).out;
    assert!(exported.starts_with("---- BEGIN SSH2 PUBLIC KEY ----\n"));
    folder.write("exported", &exported);
    for args in [
        &["-X", "-f", "exported"][..],
        &["-i", "-m", "ssh2", "-f", "exported"],
    ] {
        let line = folder.both(args).out;
        assert!(
            folder.read("key.pub").starts_with(line.trim_end()),
            "{line}"
        );
    }
}

/// Ed25519 keys are written as PKCS#8 (RFC 8410) where that is asked for, as OpenSSH does from
/// 10.3 on.
pub(super) fn ed25519_keys_are_written_as_pkcs8(folder: &Folder) {
    for (passphrase, label) in [("", "PRIVATE KEY"), ("secret", "ENCRYPTED PRIVATE KEY")] {
        let name = format!("key{passphrase}");
        folder.ours_ok(&[
            "-q", "-t", "ed25519", "-m", "PKCS8", "-N", passphrase, "-f", &name,
        ]);
        let head = format!("-----BEGIN {label}-----\n");
        assert!(folder.read(&name).starts_with(&head));
        let line = folder.ours_ok(&["-y", "-P", passphrase, "-f", &name]);
        assert!(
            folder
                .read(&format!("{name}.pub"))
                .starts_with(line.trim_end())
        );
    }
    // OpenSSL's old format has no Ed25519.
    folder.ours_ok(&["-p", "-m", "PEM", "-N", "", "-f", "key"]);
    let head = "-----BEGIN OPENSSH PRIVATE KEY-----\n";
    assert!(folder.read("key").starts_with(head));
    folder.ours_ok(&["-p", "-m", "PKCS8", "-N", "", "-f", "key"]);
    assert!(folder.read("key").starts_with("-----BEGIN PRIVATE KEY"));
}

/// What `<(...)` and `/dev/stdin` name is read once.
pub(super) fn key_files_may_be_pipes(folder: &Folder) {
    key(folder, "ca", &["-t", "ed25519"]);
    key(folder, "key", &["-t", "ed25519"]);
    folder.ours_ok(&["-q", "-s", "ca", "-I", "id", "-n", "a", "key.pub"]);
    folder.ours_ok(&["-q", "-k", "-f", "list", "key.pub"]);
    folder.write(
        "pkcs8",
        &folder.ours_ok(&["-e", "-m", "PKCS8", "-f", "key.pub"]),
    );
    for (flags, file) in [
        (&["-y"][..], "key"),
        (&["-e"], "key.pub"),
        (&["-i", "-m", "PKCS8"], "pkcs8"),
        (&["-B"], "key.pub"),
        (&["-l"], "key.pub"),
        (&["-L"], "key-cert.pub"),
        (&["-r", "host"], "key.pub"),
        (&["-Q", "-f", "list"], "key.pub"),
        (&["-q", "-I", "id", "-n", "a", "key.pub", "-s"], "ca"),
    ] {
        let takes_value = matches!(flags.first(), Some(&"-Q" | &"-q"));
        let with = |name| {
            let mut args = flags.to_vec();
            if !takes_value {
                args.push("-f");
            }
            args.push(name);
            args
        };
        let piped = folder.ours(&with("/dev/stdin"), &folder.read(file));
        let named = folder.ours(&with(file), "");
        let renamed = named.out.replace(&format!("{file}:"), "/dev/stdin:");
        let renamed = renamed.replace(&format!("{file} ("), "/dev/stdin (");
        assert_eq!(
            (piped.status, piped.out),
            (named.status, renamed),
            "{flags:?} {}",
            piped.err
        );
        if folder.have_theirs && !matches!(flags, ["-i", ..]) {
            let theirs = folder.theirs(&with("/dev/stdin"), &folder.read(file));
            assert_eq!(theirs.status, piped.status, "{flags:?}");
        }
    }
    // ssh-keygen reads these files twice and finds nothing the second time.
    folder.ours_ok(&["-q", "-p", "-N", "hunter2", "-f", "key"]);
    let text = folder.read("key");
    for flags in [
        &["-y", "-P", "hunter2"][..],
        &["-l"],
        &["-e", "-P", "hunter2"],
    ] {
        let mut args = flags.to_vec();
        args.extend(["-f", "/dev/stdin"]);
        let run = folder.ours(&args, &text);
        assert_eq!(run.status, Some(0), "{flags:?} {}", run.err);
    }
    // A pipe takes no other passphrase.
    let change = ["-p", "-P", "hunter2", "-N", "", "-f", "/dev/stdin"];
    let run = folder.ours(&change, &text);
    assert_eq!(run.status, Some(255), "{}", run.out);
    assert!(run.err.contains("not a regular file"), "{}", run.err);
}

/// New files have the umask's permissions; those of ssh-keygen are the same, except that a private
/// key is always private.
pub(super) fn the_umask_holds_for_files_without_secrets(folder: &Folder) {
    let program = std::env::current_exe().unwrap();
    for (mask, public, signed) in [
        (0o077, 0o600, 0o600),
        (0o027, 0o640, 0o640),
        (0, 0o644, 0o666),
    ] {
        let name = format!("key{mask:o}");
        let public_name = format!("{name}.pub");
        for args in [
            &["-q", "-t", "ed25519", "-N", "", "-f", &name][..],
            &["-q", "-s", &name, "-I", "i", "-n", "n", &public_name],
            &["-q", "-k", "-f", &format!("{name}.krl"), &public_name],
            &["-q", "-Y", "sign", "-n", "n", "-f", &name, &public_name],
        ] {
            let script = format!("umask {mask:o}; exec \"$0\" \"$@\"");
            let mut shell = without_terminal(std::path::Path::new("sh"));
            shell.args(["-c", &script]).arg(&program).env(SELF, "1");
            let run = folder.run(shell, args, "");
            assert_eq!(run.status, Some(0), "{args:?} {}", run.err);
        }
        let mode = |end: &str| folder.mode(&format!("{name}{end}"));
        assert_eq!(mode(""), 0o600);
        for end in [".pub", "-cert.pub", ".krl"] {
            assert_eq!(mode(end), public, "{mask:o} {end}");
        }
        assert_eq!(mode(".pub.sig"), signed, "{mask:o}");
    }
    // A link stays a link, and the file keeps its permissions.
    key(folder, "far", &["-t", "ed25519"]);
    for end in ["", ".pub"] {
        let target = folder.path(&format!("far{end}"));
        std::os::unix::fs::symlink(target, folder.path(&format!("near{end}"))).unwrap();
    }
    std::fs::set_permissions(folder.path("far.pub"), PermissionsExt::from_mode(0o640)).unwrap();
    folder.ours_ok(&["-q", "-c", "-C", "renamed", "-f", "near"]);
    for end in ["", ".pub"] {
        assert!(folder.path(&format!("near{end}")).is_symlink());
    }
    assert!(folder.read("far.pub").ends_with(" renamed\n"));
    assert_eq!((folder.mode("far"), folder.mode("far.pub")), (0o600, 0o640));
}

/// OpenSSL's formats take no passphrase of less than five bytes; OpenSSH's takes each.
pub(super) fn short_passphrases_are_refused_for_old_formats(folder: &Folder) {
    for (format, passphrase, status) in [
        ("PEM", "abcd", 1),
        ("PKCS8", "abcd", 1),
        ("PEM", "abcde", 0),
        ("PKCS8", "abcde", 0),
        ("RFC4716", "a", 0),
    ] {
        let _ = std::fs::remove_file(folder.path("key"));
        let args = [
            "-q", "-t", "ecdsa", "-m", format, "-N", passphrase, "-f", "key",
        ];
        let run = folder.ours(&args, "");
        assert_eq!(run.status, Some(status), "{format} {passphrase}");
        let said = "Saving key \"key\" failed: passphrase is too short (minimum five characters)\n";
        assert_eq!(run.err, if status == 0 { "" } else { said });
        assert_eq!(folder.path("key").exists(), status == 0);
    }
}
