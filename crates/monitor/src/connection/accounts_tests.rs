use super::*;
use crate::test_support::{account, options};

fn peer() -> Peer {
    Peer {
        host: "host.example".into(),
        address: "192.0.2.7".into(),
        port: 40000,
        rdomain: String::new(),
        connection: "192.0.2.7 40000 192.0.2.1 22".into(),
    }
}

fn verdict(text: &str) -> Result<(), Denial> {
    account().verdict(&options(text), &peer(), ShellFile::Fine, 20_000)
}

#[test]
fn lists_of_users_and_groups_decide_as_sshd_config_says() {
    for (text, allowed) in [
        ("", true),
        ("AllowUsers ada", true),
        ("AllowUsers a*", true),
        ("AllowUsers bob", false),
        ("AllowUsers ada@192.0.2.0/24", true),
        ("AllowUsers ada@198.51.100.0/24", false),
        ("DenyUsers ada", false),
        ("DenyUsers bob", true),
        ("DenyUsers ada\nAllowUsers ada", false),
        ("AllowGroups wheel", false),
        ("AllowGroups staff", true),
        ("DenyGroups staff", false),
        ("DenyGroups wheel", true),
        ("DenyGroups staff\nAllowGroups staff", false),
        // Each word is one plain pattern: no list, no negation.
        ("AllowGroups wheel,staff", false),
        ("DenyGroups wheel,staff", true),
        ("AllowGroups !staff *", true),
        ("DenyGroups !staff *", false),
        ("AllowGroups st*", true),
        // A host name is compared only with UseDNS.
        ("AllowUsers ada@host.example", false),
        ("UseDNS yes\nAllowUsers ada@host.example", true),
    ] {
        assert_eq!(verdict(text).is_ok(), allowed, "{text}");
    }
}

#[test]
fn the_shell_must_be_there_unless_a_chroot_has_its_own() {
    let ada = account();
    let with_shell =
        |text: &str, shell| ada.verdict(&options(text), &peer(), shell, 20_000).is_ok();
    assert!(!with_shell("", ShellFile::Missing));
    assert!(!with_shell("", ShellFile::NotExecutable));
    assert!(with_shell("ChrootDirectory /srv", ShellFile::Missing));
}

#[test]
fn locked_and_expired_accounts_stay_out_unless_pam_decides() {
    let shadow = |line: &[u8]| sys::users::shadow::parse(line).map(|(_, shadow)| shadow);
    for (line, allowed) in [
        (&b"ada:$6$x$y:19000:0:99999:7:::"[..], true),
        (b"ada:!$6$x$y:19000:0:99999:7:::", false),
        (b"ada:!:19000:0:99999:7:::", false),
        // No password fits `*`, but a key may.
        (b"ada:*:19000:0:99999:7:::", true),
        (b"ada:$6$x$y:19000:0:99999:7::19999:", false),
        (b"ada:$6$x$y:19000:0:99999:7::20001:", true),
        // The password must be changed, or expired longer ago than the grace period: a key still
        // lets the user in.
        (b"ada:$6$x$y:0:0:99999:7:::", true),
        (b"ada:$6$x$y:19000:0:90:7:::", true),
        (b"ada:$6$x$y:19000:0:90:7:30::", true),
        (b"ada:$6$x$y:19000:0:90:7:30:19999:", false),
    ] {
        let mut ada = account();
        ada.shadow = shadow(line);
        assert!(ada.shadow.is_some());
        let text = String::from_utf8_lossy(line);
        let got = ada.verdict(&options("UsePAM no"), &peer(), ShellFile::Fine, 20_000);
        assert_eq!(got.is_ok(), allowed, "{text}");
        assert!(
            ada.verdict(&options("UsePAM yes"), &peer(), ShellFile::Fine, 20_000)
                .is_ok(),
            "{text}"
        );
    }
}

#[test]
fn root_comes_in_only_as_configured() {
    let mut root = account();
    root.uid = 0;
    let may = |word: &str, method, forced| {
        root.root_may(
            &options(&format!("PermitRootLogin {word}")).authentication,
            method,
            forced,
        )
    };
    use ChainMethod::{KeyboardInteractive, Password, Publickey};
    assert!(may("yes", Password, false));
    assert!(!may("no", Publickey, true));
    assert!(may("prohibit-password", Publickey, false));
    assert!(!may("prohibit-password", Password, false));
    assert!(!may("without-password", KeyboardInteractive, false));
    assert!(!may("forced-commands-only", Publickey, false));
    assert!(may("forced-commands-only", Publickey, true));
    assert!(account().root_may(
        &options("PermitRootLogin no").authentication,
        Password,
        false
    ));
}

#[test]
fn names_that_could_be_paths_or_flags_are_no_names() {
    for bad in [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "-x",
        "a\nb",
        "a\0",
        &"x".repeat(300),
    ] {
        assert!(!is_plain_name(bad), "{bad:?}");
        assert!(look_up(bad, true, &Log::to_memory(privsep::LogLevel::Info)).is_none());
    }
    for good in ["ada", "a.b-c_d", "user@domain", "ünï"] {
        assert!(is_plain_name(good), "{good:?}");
    }
}

#[test]
fn modules_and_databases_are_asked_for_nothing_that_is_no_name() {
    for odd in ["", "..", "a/b", "../../etc/passwd", "a\nb", "-x"] {
        assert_eq!(known_name(odd), NO_ONE, "{odd:?}");
    }
    assert_eq!(known_name(&"a".repeat(100_000)), NO_ONE);
    assert_eq!(known_name("ada"), "ada");
}
