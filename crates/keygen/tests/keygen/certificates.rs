//! Certificates: the same flags, files and refusals as ssh-keygen.

use super::Folder;

pub(super) fn certificates_are_the_same(folder: &Folder) {
    if !folder.have_theirs {
        return;
    }
    folder.ours_ok(&[
        "-q", "-t", "rsa", "-b", "2048", "-f", "ca", "-N", "", "-C", "ca",
    ]);
    folder.ours_ok(&["-q", "-t", "ed25519", "-f", "key", "-N", "", "-C", "k"]);
    folder.ours_ok(&["-q", "-t", "ecdsa", "-f", "key2", "-N", "", "-C", "k2"]);
    for flags in [
        &["-n", "a,b", "-V", "20200101:20300102030405", "-z", "5"][..],
        &["-h", "-n", "host.example.com", "-V", "always:20300101Z"],
        &["-V", "0x0:0x7fffffff", "-z", "+7"],
        &["-t", "rsa-sha2-256", "-O", "clear"],
        &[
            "-O",
            "no-x11-forwarding",
            "-O",
            "force-command=echo \"hi\"",
            "-O",
            "source-address=10.0.0.0/8,::1/128",
            "-O",
            "verify-required",
            "-O",
            "no-touch-required",
        ],
        &[
            "-O",
            "clear",
            "-O",
            "permit-pty",
            "-O",
            "extension:a@b=c",
            "-O",
            "critical:x@y",
        ],
        &["-h", "-O", "force-command=nothing for hosts"],
    ] {
        let mut args = vec!["-s", "ca", "-I", "the id"];
        args.extend(flags);
        args.extend(["key.pub", "key2.pub"]);
        let ours = folder.ours(&args, "");
        assert_eq!(ours.status, Some(0), "{}", ours.err);
        let shown =
            ["key-cert.pub", "key2-cert.pub"].map(|name| folder.both(&["-L", "-f", name]).out);
        let print = folder.both(&["-lf", "key-cert.pub"]).out;
        let theirs = folder.theirs(&args, "");
        assert_eq!(ours, theirs);
        let again =
            ["key-cert.pub", "key2-cert.pub"].map(|name| folder.theirs_ok(&["-L", "-f", name]));
        assert_eq!(shown, again, "{flags:?}");
        assert_eq!(print, folder.theirs_ok(&["-lf", "key-cert.pub"]));
    }
}

pub(super) fn certificate_options_are_checked(folder: &Folder) {
    folder.ours_ok(&["-q", "-t", "ed25519", "-f", "ca", "-N", "", "-C", "ca"]);
    folder.ours_ok(&["-q", "-t", "ed25519", "-f", "key", "-N", "", "-C", "k"]);
    for (flags, said) in [
        (
            &["-O", "force-command"][..],
            "Unsupported certificate option \"force-command\"",
        ),
        (
            &["-O", "force-command=a", "-O", "force-command=b"],
            "force-command already specified",
        ),
        (
            &["-O", "source-address=anywhere"],
            "Invalid source-address list",
        ),
        (
            &["-O", "source-address=10.0.0.0/99"],
            "Invalid source-address list",
        ),
        (&["-O", "source-address="], "Empty source-address option"),
        // OpenSSH signs these two.
        (
            &["-O", "critical:"],
            "Unsupported certificate option \"critical:\"",
        ),
        (
            &["-O", "critical:a=1", "-O", "critical:a=2"],
            "Couldn't certify key: invalid key: certificate repeats an option",
        ),
        (&["-n", "a,"], "Empty principal name"),
        (&["-n", ""], "Empty principal name"),
        (
            &["-V", "+1d:"],
            "Invalid certificate life specification +1d:",
        ),
        (
            &["-V", "20300101:20200101"],
            "Empty certificate validity interval",
        ),
        (
            &["-V", "+99999999999999999999w"],
            "Invalid relative certificate life +99999999999999999999w",
        ),
        // 69 years.
        (
            &["-V", "+3600w"],
            "Invalid relative certificate life +3600w",
        ),
        (&["-V", "-1d:+3600w"], "Invalid to time \"+3600w\""),
        (&["-z", "-5"], "Invalid serial number \"-5\""),
        (
            &["-t", "rsa-sha2-256"],
            "CA key type ssh-ed25519 doesn't match specified rsa-sha2-256",
        ),
    ] {
        let mut args = vec!["-s", "ca", "-I", "id"];
        args.extend(flags);
        args.push("key.pub");
        let run = folder.ours(&args, "");
        assert_eq!(
            (run.status, run.err.trim_end()),
            (Some(255), said),
            "{flags:?}"
        );
        assert!(!folder.path("key-cert.pub").exists());
    }
}

pub(super) fn certificate_options_are_written(folder: &Folder) {
    folder.ours_ok(&["-q", "-t", "ed25519", "-f", "ca", "-N", "", "-C", "ca"]);
    folder.ours_ok(&["-q", "-t", "ed25519", "-f", "key", "-N", "", "-C", "k"]);
    for (flags, principal, options) in [
        (&["-n", "a", "-n", "b"][..], "b", "(none)"),
        (
            &["-O", "verify-required", "-O", "verify-required"],
            "",
            "verify-required",
        ),
        (
            &["-O", "verify-required", "-O", "no-verify-required"],
            "",
            "(none)",
        ),
        (&["-O", "verify-required", "-O", "clear"], "", "(none)"),
        (&["-O", "Force-Command=x"], "", "force-command x"),
        (&["-O", "CRITICAL:a"], "", "a UNKNOWN FLAG OPTION"),
        (&["-O", "extension:permit-pty"], "", "(none)"),
    ] {
        let mut args = vec!["-q", "-s", "ca", "-I", "id"];
        args.extend(flags);
        args.push("key.pub");
        folder.ours_ok(&args);
        let shown = folder.ours_ok(&["-L", "-f", "key-cert.pub"]);
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        let expected = match principal {
            "" => format!("Principals: (none) Critical Options: {options} Extensions:"),
            name => format!("Principals: {name} Critical Options: {options} Extensions:"),
        };
        assert!(words.contains(&expected), "{flags:?} {words}");
        assert_eq!(
            words.matches("permit-pty").count(),
            usize::from(!flags.contains(&"clear"))
        );
    }
    // No permission means anything to a host.
    folder.ours_ok(&[
        "-q",
        "-h",
        "-s",
        "ca",
        "-I",
        "id",
        "-O",
        "permit-pty",
        "key.pub",
    ]);
    let shown = folder.ours_ok(&["-L", "-f", "key-cert.pub"]);
    assert!(
        shown.ends_with("Extensions: \n                permit-pty\n"),
        "{shown}"
    );
    folder.ours_ok(&["-q", "-s", "ca", "-I", "id", "-V", "+1d", "key.pub"]);
    let shown = folder.ours_ok(&["-L", "-f", "key-cert.pub"]);
    assert!(shown.contains("        Valid: from "), "{shown}");
    assert!(shown.contains("permit-user-rc\n"));
}
