//! known_hosts files: `-F`, `-H`, `-R`.

use super::*;

pub(super) fn known_hosts_are_edited_alike(folder: &Folder) {
    folder.ours_ok(&[
        "-q",
        "-t",
        "ed25519",
        "-f",
        "key",
        "-N",
        "",
        "-C",
        "a comment",
    ]);
    let key = folder.read("key.pub");
    let text = format!(
        "# comment\nalpha,10.0.0.1 {key}[beta]:2222 {key}*.ex.com {key}\
         @cert-authority *.ex.com {key}@revoked alpha {key}\n"
    );
    folder.write("kh", &text);
    for args in [
        &["-F", "alpha", "-f", "kh"][..],
        &["-F", "10.0.0.1", "-f", "kh"],
        &["-F", "[beta]:2222", "-f", "kh"],
        &["-F", "www.ex.com", "-f", "kh"],
        &["-lF", "alpha", "-f", "kh"],
        &["-lvF", "alpha", "-f", "kh"],
        &["-qF", "alpha", "-f", "kh"],
        &["-F", "nobody", "-f", "kh"],
    ] {
        folder.both(args);
    }
    folder.ours_ok(&["-q", "-s", "key", "-I", "i", "-n", "h", "key.pub"]);
    folder.write("certified", &format!("h {}", folder.read("key-cert.pub")));
    for args in [
        ["-lF", "h", "-f", "certified"],
        ["-lvF", "h", "-f", "certified"],
    ] {
        let ours = folder.both(&args);
        assert!(ours.out.contains(" ED25519-CERT SHA256:"), "{}", ours.out);
    }
    let names = ["alpha", "10.0.0.1", "[beta]:2222", "www.ex.com", "nobody"];
    let flags = ["-R", "-qR"];
    for (name, flag) in names
        .iter()
        .flat_map(|name| flags.map(|flag| (*name, flag)))
    {
        let mut results = Vec::new();
        for ours in [true, false] {
            folder.write("kh2", &text);
            let args = [flag, name, "-f", "kh2"];
            if ours {
                results.push((folder.ours(&args, ""), folder.read("kh2")));
            } else if folder.have_theirs {
                results.push((folder.theirs(&args, ""), folder.read("kh2")));
            }
        }
        assert!(
            results.windows(2).all(|pair| pair[0] == pair[1]),
            "{results:#?}"
        );
    }
    folder.write("kh2", &text);
    std::fs::set_permissions(folder.path("kh2"), PermissionsExt::from_mode(0o600)).unwrap();
    let run = folder.ours(&["-qH", "-f", "kh2"], "");
    assert_eq!(run.status, Some(0));
    assert_eq!(
        run.out,
        "kh2 updated.\nOriginal contents retained as kh2.old\n"
    );
    assert_eq!(folder.mode("kh2"), 0o600);
    assert_eq!(folder.read("kh2.old"), text);
    assert!(!folder.read("kh2").contains("\nalpha") && !folder.read("kh2").contains("beta"));
    if folder.have_theirs {
        folder.write("kh3", &text);
        let theirs = folder.theirs(&["-qH", "-f", "kh3"], "");
        assert_eq!(run.err, theirs.err.replace("kh3", "kh2"));
        assert_eq!(run.out, theirs.out.replace("kh3", "kh2"));
    }
    for name in ["alpha", "10.0.0.1", "[beta]:2222"] {
        assert_eq!(folder.both(&["-F", name, "-f", "kh2"]).status, Some(0));
    }
    // A file with other things in it is left alone.
    let broken = format!("{text}junk\n");
    for (flags, ours) in [(["-R", "alpha"].as_slice(), true), (&["-H"], true)] {
        folder.write("kh4", &broken);
        let mut args = flags.to_vec();
        args.extend(["-f", "kh4"]);
        let run = folder.ours(&args, "");
        assert_eq!(run.status, Some(1), "{ours}");
        assert!(run.err.contains("kh4 is not a valid known_hosts file."));
        assert_eq!(folder.read("kh4"), broken);
    }
}

/// `/dev/stdin` is every program's, and root could replace it.
pub(super) fn the_name_of_a_descriptor_is_not_replaced(folder: &Folder) {
    folder.ours_ok(&["-q", "-t", "ed25519", "-f", "key", "-N", ""]);
    let text = format!("alpha {}", folder.read("key.pub"));
    for flags in [&["-H"][..], &["-R", "alpha"]] {
        folder.write("kh5", &text);
        let mut command = without_terminal(&std::env::current_exe().unwrap());
        command
            .env(SELF, "1")
            .args(flags)
            .args(["-f", "/proc/self/fd/0"]);
        let input = std::fs::File::open(folder.path("kh5")).unwrap();
        let output = command.stdin(input).output().unwrap();
        assert_eq!(output.status.code(), Some(255));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.ends_with("/proc/self/fd/0 cannot be replaced\n"),
            "{said}"
        );
    }
}

/// `-H` and `-R` replace a file only when every line of it is understood; `-F` finds whole lines only.
pub(super) fn damaged_known_hosts_are_not_rewritten(folder: &Folder) {
    folder.ours_ok(&["-q", "-t", "ed25519", "-f", "key", "-N", "", "-C", "c"]);
    let key = folder.read("key.pub").trim_end().to_owned();
    let hash = "|1|QUFBQUFBQUFBQUFBQUFBQUFBQUE=|QUFBQUFBQUFBQUFBQUFBQUFBQUE=";
    // A line, and whether -H, -R of another name and -R of its own name refuse it.
    for (line, refused) in [
        ("@revoked\t".to_owned(), [true, true, true]),
        (
            format!("@revoked @cert-authority foo {key}"),
            [true, true, true],
        ),
        (format!("@other foo {key}"), [true, true, true]),
        (format!("@cert-authority {key}"), [true, true, true]),
        (format!("@revoked\tfoo {key}"), [true, true, true]),
        ("foo ssh-ed25519 # c".to_owned(), [true, true, true]),
        ("foo rsa-sha2-256 AAAA".to_owned(), [false, false, false]),
        ("foo bogus-type AAAA".to_owned(), [true, true, true]),
        ("foo ssh-ed25519".to_owned(), [true, true, true]),
        ("foo 1024 35 123".to_owned(), [true, true, true]),
        ("foo".to_owned(), [true, true, true]),
        (format!("|2|a|b {key}"), [false, true, true]),
        (format!("|1|a|b {key}"), [false, true, true]),
        (format!("{hash} {key}"), [false, false, false]),
        (format!("foo {key}"), [false, false, false]),
        (format!("foo {key}\r"), [false, false, false]),
        (format!("@revoked foo {key}"), [false, false, false]),
        (
            "foo ssh-dss AAAAB3NzaC1kc3M=".to_owned(),
            [false, false, false],
        ),
        ("foo ssh-ed25519 AAAA".to_owned(), [false, false, false]),
    ] {
        let text = format!("{line}\nbar {key}\n");
        let tasks = [&["-H"][..], &["-R", "x"], &["-R", "foo"]];
        for (task, refused) in tasks.into_iter().zip(refused) {
            let mut seen = Vec::new();
            for ours in [true, false] {
                if !ours && !folder.have_theirs {
                    continue;
                }
                folder.write("kh", &text);
                let _ = std::fs::remove_file(folder.path("kh.old"));
                let args = [task, &["-f", "kh"]].concat();
                let run = if ours {
                    folder.ours(&args, "")
                } else {
                    folder.theirs(&args, "")
                };
                let left = folder.read("kh");
                assert_eq!(
                    run.status,
                    Some(i32::from(refused)),
                    "{line:?} {task:?} {ours} {run:?}"
                );
                assert!(!refused || left == text, "{line:?} {task:?}");
                // Salts differ from run to run; a name's hash is as long as any other's.
                let shape: Vec<usize> = left.lines().map(str::len).collect();
                seen.push((run, shape, left.contains('\r')));
            }
            assert!(
                seen.windows(2).all(|pair| pair[0] == pair[1]),
                "{line:?} {seen:#?}"
            );
        }
        folder.write("kh", &text);
        for args in [&["-F", "foo", "-f", "kh"][..], &["-lF", "foo", "-f", "kh"]] {
            // A carriage return is dropped, and a revocation with a tab is found.
            if !line.ends_with('\r') && !line.contains("\tfoo") {
                folder.both(args);
            }
        }
    }
}

/// `-l` shows a line's key where ssh-keygen does, so nothing that sshd would not take for a key; `-B`
/// and `-e` read the same files.
pub(super) fn the_keys_of_a_file_are_those_of_ssh_keygen(folder: &Folder) {
    folder.ours_ok(&["-q", "-t", "ed25519", "-f", "key", "-N", "", "-C", "c"]);
    let key = folder.read("key.pub");
    let key = key.trim_end().strip_suffix(" c").unwrap();
    for line in [
        key.to_string(),
        format!("{key} a comment"),
        format!("{key} # no comment"),
        format!("host {key}"),
        format!("host {key} # no comment"),
        format!("host {key} a comment"),
        format!("no-pty,command=\"a b\" {key}"),
        format!("command=\"a \\\" b\" {key}"),
        format!("no-pty no-X11 {key}"),
        format!("@cert-authority * {key}"),
        format!("@revoked * {key}"),
        format!("a\\ b {key}"),
        format!("COMMAND = \"x\" {key}"),
        format!("1024 {key}"),
        format!("0 {key}"),
        format!("command=\"x {key}"),
        format!("\t {key}"),
        "host ssh-ed25519 AAAA".to_owned(),
    ] {
        folder.write("file", &format!("# first\n{line}\n"));
        let shown = folder.both(&["-l", "-f", "file"]);
        assert_eq!(shown.out.is_empty(), shown.status == Some(255), "{line:?}");
        folder.both(&["-B", "-f", "file"]);
    }
    folder.write("bad-first", &format!("nonsense\n{key} c\n"));
    let exported = folder.ours_ok(&["-e", "-m", "PKCS8", "-f", "bad-first"]);
    if folder.have_theirs {
        // Its RFC 4716 comment names the file's owner as ours does; the key is what counts here.
        let args = ["-e", "-f", "bad-first"];
        assert_eq!(folder.ours_ok(&args), folder.theirs_ok(&args));
    }
    assert!(exported.contains("BEGIN PUBLIC KEY"));
    assert!(
        folder
            .ours_ok(&["-B", "-f", "key.pub"])
            .starts_with("256 x")
    );
}
