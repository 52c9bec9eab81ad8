//! Revocation lists that ssh-keygen reads as ours, and ours as its.

use super::Folder;

/// Keys `a` to `f`, authorities `ca` and `ca2`, and certificates with serials.
fn keys(folder: &Folder) {
    for name in ["ca", "ca2", "a", "b", "c", "d", "e", "f"] {
        folder.ours_ok(&["-q", "-t", "ed25519", "-f", name, "-N", "", "-C", name]);
    }
    for serial in [
        0,
        1,
        3,
        10,
        20,
        21,
        100,
        101,
        102,
        5000,
        5001,
        1_000_000,
        u64::MAX,
    ] {
        for authority in ["ca", "ca2"] {
            let name = format!("{authority}-{serial}");
            std::fs::copy(folder.path("e.pub"), folder.path(&format!("{name}.pub"))).unwrap();
            let (id, serial) = (format!("id {serial}"), serial.to_string());
            let file = format!("{name}.pub");
            folder.ours_ok(&["-q", "-s", authority, "-I", &id, "-z", &serial, &file]);
        }
    }
}

/// The names of all public keys and certificates.
fn all(folder: &Folder) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(&folder.path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".pub"))
        .collect();
    names.sort();
    names
}

/// What a list says of every key and certificate, by both programs, and which it revokes.
fn revoked(folder: &Folder, list: &str) -> Vec<String> {
    let names = all(folder);
    let mut args = vec!["-Q", "-f", list];
    args.extend(names.iter().map(String::as_str));
    let run = folder.both(&args);
    assert_eq!(run.err, "");
    let revoked: Vec<String> = run
        .out
        .lines()
        .filter_map(|line| line.strip_suffix(": REVOKED"))
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(run.out.lines().count(), names.len());
    assert_eq!(run.status, Some(i32::from(!revoked.is_empty())));
    revoked
}

fn specification(folder: &Folder) -> String {
    let key = |name: &str| folder.read(&format!("{name}.pub")).trim().to_owned();
    let hash = folder.ours_ok(&["-lf", "d.pub"]);
    let hash = hash.split(' ').nth(1).unwrap().to_owned();
    format!(
        "# a comment\n\nserial: 3 # one\n  Serial:0xA-20\nserial: 0144\nserial: 102\n\
         serial: 5000-900000\nserial: 18446744073709551615\nid: id 0\n\
         key: {}\nsha1: {}\nsha256: {}\nhash: {hash}\n",
        key("a"),
        key("b"),
        key("c"),
    )
}

pub(super) fn revocation_lists_are_the_same(folder: &Folder) {
    keys(folder);
    folder.write("spec", &specification(folder));
    let make = ["-k", "-s", "ca.pub", "-z", "7", "-C", "my list", "-f"];
    let out = folder.ours_ok(&[&make[..], &["ours", "spec"]].concat());
    assert_eq!(out, "Revoking from spec\n");
    assert_eq!(folder.mode("ours"), 0o644);
    let said = revoked(folder, "ours");
    let mut expected: Vec<String> = ["a.pub", "b.pub", "c.pub", "d.pub"]
        .map(str::to_owned)
        .into();
    for serial in [0, 3, 10, 20, 100, 102, 5000, 5001, u64::MAX] {
        expected.push(format!("ca-{serial}-cert.pub"));
    }
    expected.sort();
    assert_eq!(said, expected);
    let shown = folder.ours_ok(&["-Ql", "-f", "ours"]);
    for line in [
        "# KRL version 7",
        "# Comment: my list",
        "serial: 10-20",
        "serial: 5000-900000",
        "serial: 18446744073709551615",
        "id: id 0",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
    if folder.have_theirs {
        let theirs = folder.theirs_ok(&[&make[..], &["theirs", "spec"]].concat());
        assert_eq!(theirs, out);
        assert_eq!(revoked(folder, "theirs"), expected);
        // Without the moment at which each was made.
        let show = |list: &str, ours: bool| {
            let args = ["-Ql", "-f", list];
            let text = if ours {
                folder.ours_ok(&args)
            } else {
                folder.theirs_ok(&args)
            };
            let lines = text.lines().filter(|line| !line.starts_with("# Generated"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(show("ours", false), show("theirs", false));
        assert_eq!(show("ours", true), show("theirs", true));
        assert_eq!(show("ours", true), show("ours", false));
        // Either adds to the other's.
        folder.write("more", "serial: 21\nserial: 101\nserial: 1\n");
        let add = ["-q", "-k", "-u", "-s", "ca2.pub", "-f"];
        folder.ours_ok(&[&add[..], &["theirs", "more", "f.pub"]].concat());
        folder.theirs_ok(&[&add[..], &["ours", "more", "f.pub"]].concat());
        for serial in [1, 21, 101] {
            expected.push(format!("ca2-{serial}-cert.pub"));
        }
        expected.push("f.pub".to_owned());
        expected.sort();
        assert_eq!(revoked(folder, "ours"), expected);
        assert_eq!(revoked(folder, "theirs"), expected);
        assert_eq!(show("ours", true), show("theirs", true));
        assert!(show("ours", true).contains(&"# KRL version 7".to_owned()));
    }
    // The line of a key is a specification; the line of a digest is hexadecimal.
    let shown = folder.ours_ok(&["-Ql", "-f", "ours"]);
    let (keys, digests): (Vec<&str>, Vec<&str>) = shown
        .lines()
        .filter(|line| line.starts_with("hash: "))
        .partition(|line| line.contains('#'));
    folder.write("again", &keys.join("\n"));
    folder.ours_ok(&["-q", "-k", "-f", "hashes", "again"]);
    assert!(revoked(folder, "hashes").contains(&"a.pub".to_owned()));
    assert_eq!(digests.len(), 2, "{shown}");
    for digest in digests {
        let digits = digest.strip_prefix("hash: SHA256:").unwrap();
        assert_eq!(digits.len(), 64, "{digest}");
        assert!(digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
    // A certificate by its serial, or by its name; a CA; all authorities.
    folder.ours_ok(&["-q", "-k", "-f", "some", "ca-10-cert.pub", "ca2-0-cert.pub"]);
    assert_eq!(
        revoked(folder, "some"),
        ["ca-10-cert.pub", "ca2-0-cert.pub"]
    );
    folder.write("one", "serial: 10\n");
    folder.ours_ok(&["-q", "-k", "-s", "none", "-f", "any", "one"]);
    assert_eq!(
        revoked(folder, "any"),
        ["ca-10-cert.pub", "ca2-10-cert.pub"]
    );
    folder.ours_ok(&["-q", "-k", "-f", "authority", "ca2.pub"]);
    assert_eq!(revoked(folder, "authority").len(), 14);
    // A revoked key in a certificate.
    folder.ours_ok(&["-q", "-k", "-f", "holder", "e.pub"]);
    assert_eq!(revoked(folder, "holder").len(), all(folder).len() - 7);
    // Nothing is a list, too.
    folder.write("none", "# nothing\n");
    folder.ours_ok(&["-q", "-k", "-f", "empty", "none"]);
    assert!(revoked(folder, "empty").is_empty());
}

pub(super) fn bad_specifications_leave_the_list_as_it_was(folder: &Folder) {
    folder.ours_ok(&["-q", "-t", "ed25519", "-f", "ca", "-N", "", "-C", "ca"]);
    folder.ours_ok(&["-q", "-k", "-f", "list", "ca.pub"]);
    let before = std::fs::read(folder.path("list")).unwrap();
    for bad in [
        "serial: x",
        "serial: -5",
        "serial: 0",
        "serial: 5-",
        "serial: 7-5",
        "serial: 18446744073709551616",
        "serial: 0x",
        "serial: 08",
        "hash: MD5:00",
        "hash: SHA256:AAAA",
        "key: ssh-ed25519 AAAA",
        "not a key",
    ] {
        folder.write("spec", &format!("serial: 4\n{bad}\n"));
        let run = folder.ours(&["-k", "-u", "-s", "ca.pub", "-f", "list", "spec"], "");
        assert_eq!(run.status, Some(255), "{bad}");
        assert!(run.err.contains("spec:2: "), "{bad}: {}", run.err);
        assert!(!run.err.contains("panicked"), "{}", run.err);
        assert_eq!(std::fs::read(folder.path("list")).unwrap(), before);
    }
    // Nor is a list of keys, which sshd takes, one of these files.
    for args in [
        &["-Q", "-l", "-f", "ca.pub"][..],
        &["-Q", "-f", "ca.pub", "ca.pub"],
    ] {
        let run = folder.both(args);
        let said = "Invalid KRL file ca.pub: KRL file has invalid magic number\n";
        assert_eq!((run.status, &*run.err, &*run.out), (Some(255), said, ""));
    }
    folder.write("spec", "serial: 4\n");
    for args in [
        &["-k", "-f", "list", "spec"][..],
        &["-k", "-u", "-f", "nosuch", "ca.pub"],
        &["-k", "-f", "list", "nosuch"],
        &["-k", "-s", "nosuch", "-f", "list", "spec"],
        &["-k", "spec"],
        &["-Q", "ca.pub"],
        &["-Q", "-f", "nosuch", "ca.pub"],
        &["-Q", "-f", "ca", "ca.pub"],
        &["-Q", "-f", "list", "nosuch"],
    ] {
        let run = folder.ours(args, "");
        assert_eq!(run.status, Some(255), "{args:?}: {}", run.err);
        if folder.have_theirs {
            let theirs = folder.theirs(args, "");
            assert_eq!(theirs.status, Some(255), "{args:?}: {}", theirs.err);
        }
        assert_eq!(std::fs::read(folder.path("list")).unwrap(), before);
    }
}
