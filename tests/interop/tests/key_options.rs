//! Restrictions of keys, certificates and addresses, compared with Debian's sshd: the same lines
//! for both servers, row by row. A row with an intended difference has its reason.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use interop::account::current_user;
use interop::fixture;
use interop::peers::ours::Kind;
use interop::process::Input;
use interop::scratch::Scratch;
use interop::site::{HOST, Site, each, finish};

/// A server's result for a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Login {
    In,
    Out,
    /// OpenSSH accepts the login, ours refuses it; the reason.
    Stricter(&'static str),
    /// OpenSSH refuses the login, ours accepts it; the reason.
    Laxer(&'static str),
}

impl Login {
    fn expected(self, server: Kind) -> bool {
        let ours = server == Kind::Fulmar;
        match self {
            Self::In => true,
            Self::Out => false,
            Self::Stricter(why) | Self::Laxer(why) => {
                assert!(!why.is_empty());
                ours == matches!(self, Self::Laxer(_))
            }
        }
    }
}

/// True if a login with only the key of `path` succeeds.
fn lets_in(site: &Site, path: &Path) -> bool {
    let config = site.config("");
    let text = std::fs::read_to_string(&config).expect("the configuration");
    let mut kept = format!("IdentityFile {}\n", path.display());
    for line in text
        .lines()
        .filter(|line| !line.starts_with("IdentityFile"))
    {
        let _ = writeln!(kept, "{line}");
    }
    std::fs::write(&config, kept).expect("the configuration");
    let mut command = site.client.ssh().expect("a client");
    command.arg("-F").arg(config).args([HOST, "echo in"]);
    let outcome = finish(&mut command, Input::Nothing);
    let is_in = outcome.stdout.text() == "in\n";
    assert!(
        is_in || outcome.stderr.text().contains("Permission denied"),
        "{}",
        outcome.summary()
    );
    is_in
}

/// Fails with all unexpected rows.
fn compare(server: Kind, rows: &[(&str, Login)], mut lets_in: impl FnMut(&str) -> bool) {
    let wrong: Vec<String> = rows
        .iter()
        .filter(|(row, login)| lets_in(row) != login.expected(server))
        .map(|(row, login)| format!("{row}: not {login:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A copy of the user's key without the certificate beside it.
fn plain_key(scratch: &Scratch) -> PathBuf {
    scratch.write("key", fixture::text("user_ed25519"))
}

#[test]
fn options_of_a_key_let_in_whom_they_let_in_at_openssh() {
    use Login::{In, Out, Stricter};
    let service = "names of services are not looked up";
    let rows = [
        ("no-pty", In),
        ("principals=\"x\"", Out),
        ("principals=\"\"", Out),
        ("cert-authority", Out),
        ("no-such-option", Out),
        ("expiry-time=\"20200101Z\"", Out),
        ("expiry-time=\"20990101Z\"", In),
        // Addresses.
        ("from=\"127.0.0.1\"", In),
        ("from=\"::ffff:127.0.0.1\"", Out),
        ("from=\"::ffff:0:0/96\"", Out),
        ("from=\"127.1\"", In),
        ("from=\"0177.0.0.1\"", In),
        ("from=\"0x7f.1\"", In),
        ("from=\"127.000.000.001\"", In),
        ("from=\"2130706433\"", In),
        ("from=\"127.0.0/8\"", In),
        ("from=\"127.0.0.0/08\"", In),
        (
            "from=\"127.0.0.1,127.0.0.0/+8\"",
            Stricter("an entry that nothing matches is a slip"),
        ),
        ("from=\"127.0.0.1/8\"", Out),
        ("from=\"127.*\"", In),
        ("from=\"*,!127.1\"", Out),
        ("from=\"*,!127.0.0/8\"", Out),
        ("from=\"10.0.0/8\"", Out),
        (
            "from=\"*,!127.0.0.0/x\"",
            Stricter("an entry that nothing matches could be meant to deny"),
        ),
        // Destinations.
        ("permitopen=\"h:0\"", Out),
        ("permitopen=\"*:0\"", Out),
        ("permitlisten=\"*:0\"", Out),
        ("permitlisten=\"127.0.0.1:0\"", Out),
        ("permitopen=\"h:80\"", In),
        ("permitopen=\"h/80\"", In),
        ("permitopen=\":80\"", In),
        ("permitopen=\"h: 80\"", In),
        ("permitopen=\"h:+80\"", In),
        ("permitopen=\"h:ssh\"", Stricter(service)),
        ("permitopen=\"h\"", Out),
        ("permitopen=\"::1:80\"", Out),
        ("permitlisten=\":80\"", In),
        ("permitlisten=\"80\"", In),
        ("tunnel=\"x\"", Out),
        // Commas.
        ("no-pty,", In),
        (",no-pty", In),
        (",,", In),
        ("no-pty,,no-user-rc", In),
        // Others.
        ("environment=\"A B=1\"", Out),
        ("command=\"a\",command=\"b\"", Out),
        ("no-pty=\"x\"", Out),
    ];
    each(|client, server| {
        let site = Site::new(client, server, "");
        let scratch = Scratch::new();
        let key = plain_key(&scratch);
        compare(server, &rows, |options| {
            let line = format!("{options} {}", fixture::text("user_ed25519.pub"));
            site.running.daemon.scratch().write("authorized_keys", line);
            lets_in(&site, &key)
        });
    });
}

/// A copy of the user's key with a certificate of its own.
fn certificate(scratch: &Scratch, options: &[&str]) -> PathBuf {
    fixture::certificate(scratch, "user_ed25519", options)
}

#[test]
fn lines_of_principals_let_in_whom_they_let_in_at_openssh() {
    use Login::{In, Laxer, Out};
    let rows = [
        ("role", In),
        ("other", Out),
        ("no-pty role", In),
        ("principals=\"x\" role", Out),
        ("principals=\"role\" role", Out),
        ("cert-authority role", Out),
        ("principals=\"role\" role\nrole", Out),
        ("from=\"192.0.2.1\" role\nrole", Out),
        ("from=\"127.1\" role", In),
        ("expiry-time=\"20200101Z\" role\nrole", Out),
        ("no-such-option role\nrole", In),
        ("from=\"192.0.2.1\" other\nrole", In),
        ("role\r", Laxer("the end of a line is CRLF in every file")),
    ];
    each(|client, server| {
        let scratch = Scratch::new();
        let principals = scratch.write("principals", "");
        let lines = format!(
            "TrustedUserCAKeys {}\nAuthorizedKeysFile none\nAuthorizedPrincipalsFile {}\n",
            fixture::file("user_ca.pub").display(),
            principals.display()
        );
        let site = Site::new(client, server, &lines);
        let key = certificate(&scratch, &["-n", "role"]);
        compare(server, &rows, |text| {
            scratch.write("principals", format!("{text}\n"));
            lets_in(&site, &key)
        });
    });
}

#[test]
fn options_of_a_certificate_let_in_whom_they_let_in_at_openssh() {
    use Login::{In, Out};
    let rows = [
        ("no-pty", In),
        ("extension:permit-pty=x", Out),
        ("extension:permit-port-forwarding=x", Out),
        ("extension:no-touch-required=x", Out),
        ("extension:unheard-of@example.com=x", In),
        ("critical:verify-required=x", Out),
        ("critical:unheard-of@example.com=x", Out),
        ("critical:source-address=::ffff:127.0.0.1", Out),
        ("critical:source-address=127.1", In),
        ("critical:source-address=127.0.0/8", In),
        ("critical:source-address=0x7f.1", Out),
        ("critical:source-address=10.0.0/8", Out),
        ("critical:source-address=127.*", Out),
    ];
    let user = current_user();
    each(|client, server| {
        let lines = format!(
            "TrustedUserCAKeys {}\nAuthorizedKeysFile none\n",
            fixture::file("user_ca.pub").display()
        );
        let site = Site::new(client, server, &lines);
        compare(server, &rows, |option| {
            let scratch = Scratch::new();
            lets_in(&site, &certificate(&scratch, &["-n", &user, "-O", option]))
        });
    });
}

#[test]
fn lines_of_authorities_let_in_whom_they_let_in_at_openssh() {
    use Login::{In, Out};
    let rows = [
        ("CA", In),
        ("# comment\n\nOTHER\nCA", In),
        ("CA\ngarbage", In),
        ("garbage\nCA", Out),
        ("ssh-ed25519 AAAA\nCA", Out),
        ("no-pty OTHER\nCA", Out),
        ("no-pty CA", Out),
    ];
    let user = current_user();
    each(|client, server| {
        let scratch = Scratch::new();
        let authorities = scratch.write("authorities", "");
        let lines = format!(
            "TrustedUserCAKeys {}\nAuthorizedKeysFile none\n",
            authorities.display()
        );
        let site = Site::new(client, server, &lines);
        let key = certificate(&scratch, &["-n", &user]);
        compare(server, &rows, |text| {
            let ca = fixture::text("user_ca.pub");
            let other = fixture::text("user_ed25519.pub");
            let text = text.replace("CA", ca.trim()).replace("OTHER", other.trim());
            scratch.write("authorities", format!("{text}\n"));
            lets_in(&site, &key)
        });
    });
}

/// Several files: each is used, and a missing one refuses all keys.
#[test]
fn revocation_lists_count_together() {
    each(|client, server| {
        if server != Kind::Fulmar {
            // Debian 12's sshd takes one file.
            return;
        }
        let scratch = Scratch::new();
        let lists = [scratch.write("one", ""), scratch.write("two", "")];
        let lines = format!(
            "RevokedKeys {} {}\n",
            lists[0].display(),
            lists[1].display()
        );
        let site = Site::new(client, server, &lines);
        let key = plain_key(&scratch);
        assert!(lets_in(&site, &key));
        scratch.write("two", fixture::text("user_ed25519.pub"));
        assert!(!lets_in(&site, &key));
        scratch.write("two", "");
        std::fs::remove_file(&lists[0]).expect("a file");
        assert!(!lets_in(&site, &key));
    });
}

#[test]
fn no_attempt_is_left_where_none_is_permitted() {
    each(|client, server| {
        let site = Site::new(client, server, "MaxAuthTries 0\n");
        let outcome = site.run("echo in");
        assert_eq!(outcome.stdout.length, 0, "{}", outcome.summary());
        let said = outcome.stderr.text();
        assert!(said.contains("Too many authentication failures"), "{said}");
    });
}

#[test]
fn chains_with_none_let_nobody_in() {
    each(|client, server| {
        let scratch = Scratch::new();
        let key = plain_key(&scratch);
        for (methods, is_in) in [
            ("none", false),
            ("publickey,none", false),
            ("none,publickey", false),
            ("none publickey", true),
        ] {
            let site = Site::new(
                client,
                server,
                &format!("AuthenticationMethods {methods}\n"),
            );
            assert_eq!(lets_in(&site, &key), is_in, "{methods}");
        }
    });
}

/// sshd's result for Match Address: it applies, it does not, or the file is refused.
#[test]
fn blocks_of_addresses_apply_to_whom_they_apply_at_openssh() {
    // Criterion, whether it applies to 10.1.2.3 (none: refused), and the same for OpenSSH.
    let rows = [
        ("10.0.0/8", Some(true), Some(true)),
        ("10.66051", Some(true), Some(true)),
        ("012.1.2.3", Some(true), Some(true)),
        ("0xa.0x10203", Some(true), Some(true)),
        ("10.0.0.0/08", Some(true), Some(true)),
        ("*,!10.0.0/8", Some(false), Some(false)),
        ("::ffff:10.1.2.3", Some(false), Some(false)),
        ("::ffff:0:0/96", Some(false), Some(false)),
        ("10.1.2.*", Some(true), Some(true)),
        ("10.0.0.1/8", None, None),
        ("10.0.0.0/33", None, None),
        // Ours refuses entries and lists that can match nobody, because the author intended a match.
        ("10.0.0.0/200", None, Some(false)),
        ("10.0.0.0/x", None, Some(false)),
        ("10.0.0.0/+8", None, Some(false)),
        ("localhost", None, Some(false)),
        ("10.0.0.0/8,!host.example.com", None, Some(true)),
        ("10.0.0.0/8,192.168.0.x", None, Some(true)),
        ("10.0.0.0/8,host.example.com", Some(true), Some(true)),
        ("10.1.2.300", None, Some(false)),
    ];
    for kind in [Kind::Fulmar, Kind::OpenSsh] {
        let Ok(_) = kind.sshd() else { continue };
        for (list, ours, theirs) in rows {
            let scratch = Scratch::new();
            let config = scratch.write(
                "sshd_config",
                format!(
                    "HostKey {}\nMaxSessions 10\nMatch Address {list}\nMaxSessions 3\n",
                    fixture::file("host_ed25519").display()
                ),
            );
            let mut command = kind.sshd().expect("a server");
            command.arg("-T").arg("-f").arg(config);
            command.args(["-C", "user=root,host=h,addr=10.1.2.3"]);
            let outcome = finish(&mut command, Input::Nothing);
            let text = outcome.stdout.text().to_lowercase();
            let found = if text.contains("maxsessions 3\n") {
                Some(true)
            } else if text.contains("maxsessions 10\n") {
                Some(false)
            } else {
                None
            };
            let expected = if kind == Kind::Fulmar { ours } else { theirs };
            assert_eq!(found, expected, "{list}: {}", outcome.summary());
        }
    }
}
