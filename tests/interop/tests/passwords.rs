//! Passwords, questions and chains of methods, for a temporary user; as root only.

use std::path::Path;
use std::process::Command;

use interop::account::Guest;
use interop::fixture;
use interop::peers::openssh;
use interop::peers::ours::Kind;
use interop::process::{Input, Outcome};
use interop::report::skipped;
use interop::scratch::Scratch;
use interop::site::{HOST, Site, askpass, each, finish};
use interop::terminal::Terminal;

const PASSWORD: &str = "Corr3ct horse, battery";

/// A user with a password and the ed25519 key of the fixture.
fn guest() -> Option<Guest> {
    let guest = Guest::new().and_then(|mut guest| {
        guest.set_password(PASSWORD)?;
        Ok(guest)
    });
    match guest {
        Ok(guest) => {
            guest.write(
                ".ssh/authorized_keys",
                fixture::text("user_ed25519.pub"),
                0o600,
            );
            Some(guest)
        }
        Err(why) => {
            skipped("logins by password", &why);
            None
        }
    }
}

/// A server for `guest`; `extra` precedes the other lines.
fn site(client: Kind, server: Kind, guest: &Guest, extra: &str) -> Site {
    let lines = format!("{extra}AuthorizedKeysFile .ssh/authorized_keys\n");
    let mut site = Site::new(client, server, &lines);
    site.running.user = guest.name.clone();
    site
}

struct Attempt {
    outcome: Outcome,
    questions: Vec<String>,
}

/// A login with these methods and answers.
fn login(site: &Site, methods: &str, extra: &str, answers: &[&str]) -> Attempt {
    login_for(site, methods, extra, answers, "echo in as $USER")
}

/// The same for another command.
fn login_for(site: &Site, methods: &str, extra: &str, answers: &[&str], remote: &str) -> Attempt {
    let scratch = Scratch::new();
    let program = askpass(&scratch, answers);
    let lines = format!("PreferredAuthentications {methods}\nBatchMode no\n{extra}");
    let mut command = site.ssh(&lines);
    command
        .args([HOST, remote])
        .env("SSH_ASKPASS", &program)
        .env("SSH_ASKPASS_REQUIRE", "force");
    let outcome = finish(&mut command, Input::Nothing);
    let asked = std::fs::read_to_string(scratch.join("askpass.asked")).unwrap_or_default();
    Attempt {
        outcome,
        questions: asked.lines().map(str::to_owned).collect(),
    }
}

impl Attempt {
    fn assert_in(&self, guest: &Guest) {
        let wanted = format!("in as {}\n", guest.name);
        assert_eq!(
            self.outcome.stdout.text(),
            wanted,
            "{}",
            self.outcome.summary()
        );
    }

    fn assert_out(&self) {
        assert_eq!(self.outcome.status, 255, "{}", self.outcome.summary());
        assert_eq!(self.outcome.stdout.length, 0);
        let said = self.outcome.stderr.text();
        assert!(
            said.contains("ermission denied") || said.contains("Too many"),
            "{said}"
        );
    }
}

#[test]
fn a_password_lets_in_and_a_wrong_one_does_not() {
    each(|client, server| {
        let Some(guest) = guest() else { return };
        for pam in ["no", "yes"] {
            let lines = format!("PasswordAuthentication yes\nUsePAM {pam}\n");
            let site = site(client, server, &guest, &lines);
            let attempt = login(&site, "password", "", &[PASSWORD]);
            attempt.assert_in(&guest);
            assert!(
                attempt.questions[0].contains(&guest.name),
                "{:?}",
                attempt.questions
            );
            let attempt = login(&site, "password", "", &["wrong", PASSWORD]);
            attempt.assert_in(&guest);
            assert_eq!(attempt.questions.len(), 2);
            login(&site, "password", "NumberOfPasswordPrompts 1\n", &["wrong"]).assert_out();
            login(&site, "password", "NumberOfPasswordPrompts 2\n", &["", "x"]).assert_out();
        }
    });
}

#[test]
fn a_password_is_no_way_in_when_it_is_switched_off() {
    each(|client, server| {
        let Some(guest) = guest() else { return };
        let site = site(client, server, &guest, "");
        let attempt = login(&site, "password,keyboard-interactive", "", &[PASSWORD]);
        attempt.assert_out();
        assert!(attempt.questions.is_empty(), "{:?}", attempt.questions);
    });
}

#[test]
fn an_account_without_a_password_needs_permission() {
    each(|client, server| {
        let Some(mut guest) = guest() else { return };
        // An empty hash in shadow.
        let mut command = Command::new("passwd");
        command.args(["-q", "-d", &guest.name]);
        assert_eq!(finish(&mut command, Input::Nothing).status, 0);
        guest.password = None;
        let site_no = site(client, server, &guest, "PasswordAuthentication yes\n");
        login(&site_no, "password", "NumberOfPasswordPrompts 1\n", &[""]).assert_out();
        let lines = "PasswordAuthentication yes\nPermitEmptyPasswords yes\n";
        let site_yes = site(client, server, &guest, lines);
        login(&site_yes, "none,password", "", &[""]).assert_in(&guest);
    });
}

#[test]
fn pam_asks_through_keyboard_interactive() {
    each(|client, server| {
        let Some(guest) = guest() else { return };
        let lines = "KbdInteractiveAuthentication yes\nUsePAM yes\n";
        let site = site(client, server, &guest, lines);
        let attempt = login(&site, "keyboard-interactive", "", &[PASSWORD]);
        attempt.assert_in(&guest);
        assert!(
            attempt.questions[0].contains("assword"),
            "{:?}",
            attempt.questions
        );
        login(&site, "keyboard-interactive", "", &["wrong", PASSWORD]).assert_in(&guest);
        let extra = "NumberOfPasswordPrompts 1\n";
        login(&site, "keyboard-interactive", extra, &["wrong"]).assert_out();
    });
}

#[test]
fn chains_of_methods_need_every_one() {
    each(|client, server| {
        let Some(guest) = guest() else { return };
        let lines = "AuthenticationMethods publickey,password publickey,keyboard-interactive\n\
                     PasswordAuthentication yes\nKbdInteractiveAuthentication yes\nUsePAM yes\n";
        let site = site(client, server, &guest, lines);
        login(&site, "publickey,password", "", &[PASSWORD]).assert_in(&guest);
        login(&site, "publickey,keyboard-interactive", "", &[PASSWORD]).assert_in(&guest);
        login(&site, "publickey", "", &[]).assert_out();
        login(
            &site,
            "password",
            "NumberOfPasswordPrompts 1\n",
            &[PASSWORD],
        )
        .assert_out();
        let wrong = login(
            &site,
            "publickey,password",
            "NumberOfPasswordPrompts 1\n",
            &["wrong"],
        );
        wrong.assert_out();
        let extra = "IdentityFile none\nPubkeyAuthentication no\n";
        login(
            &site,
            "password,keyboard-interactive",
            extra,
            &[PASSWORD, PASSWORD],
        )
        .assert_out();
    });
}

#[test]
fn a_key_and_what_pam_asks_are_needed_both_in_either_order() {
    let methods = ["publickey", "keyboard-interactive"];
    let stranger = format!(
        "IdentityFile {}\nNumberOfPasswordPrompts 1\n",
        fixture::file("user_rsa").display()
    );
    let once = "NumberOfPasswordPrompts 1\n";
    each(|client, server| {
        let Some(guest) = guest() else { return };
        for order in [methods, [methods[1], methods[0]]] {
            let chain = order.join(",");
            let lines = format!("AuthenticationMethods {chain}\n{ASKING}");
            let site = site(client, server, &guest, &lines);
            // The server's order is used, whatever the client prefers.
            for liked in [
                "publickey,keyboard-interactive",
                "keyboard-interactive,publickey",
            ] {
                let attempt = login(&site, liked, once, &[PASSWORD]);
                attempt.assert_in(&guest);
                assert_eq!(
                    attempt.questions.len(),
                    1,
                    "{chain}: {:?}",
                    attempt.questions
                );
            }
            let twice = "NumberOfPasswordPrompts 2\n";
            login(&site, &chain, twice, &["wrong", PASSWORD]).assert_in(&guest);
            let wrong = login(&site, &chain, twice, &["wrong", "wrong"]);
            wrong.assert_out();
            assert_eq!(wrong.questions.len(), 2, "{chain}: {:?}", wrong.questions);
            let without = format!("PubkeyAuthentication no\n{once}");
            login(&site, methods[1], &without, &[PASSWORD, PASSWORD]).assert_out();
            login(&site, methods[0], "", &[]).assert_out();
            let other = fixture::text("user_rsa.pub");
            guest.write(".ssh/authorized_keys", other, 0o600);
            let unlisted = login(&site, &chain, once, &[PASSWORD, PASSWORD]);
            unlisted.assert_out();
            // After a refused key no question is asked; before it, one.
            let asked = usize::from(order[0] == methods[1]);
            assert_eq!(unlisted.questions.len(), asked, "{chain}");
            login(&site, &chain, &stranger, &[PASSWORD]).assert_in(&guest);
            guest.write(
                ".ssh/authorized_keys",
                fixture::text("user_ed25519.pub"),
                0o600,
            );
            // A password that the dialogue changed counts as changed for the rest of the chain.
            expire(&guest);
            let answers = [PASSWORD, PASSWORD, NEW_PASSWORD, NEW_PASSWORD];
            login(&site, &chain, once, &answers).assert_in(&guest);
            let mut command = Command::new("chpasswd");
            let line = format!("{}:{PASSWORD}\n", guest.name);
            assert_eq!(
                finish(&mut command, Input::Bytes(line.as_bytes())).status,
                0
            );
        }
    });
}

#[test]
fn two_keys_can_be_demanded() {
    each(|client, server| {
        let Some(guest) = guest() else { return };
        let keys = format!(
            "{}{}",
            fixture::text("user_ed25519.pub"),
            fixture::text("user_rsa.pub")
        );
        guest.write(".ssh/authorized_keys", keys, 0o600);
        let site = site(
            client,
            server,
            &guest,
            "AuthenticationMethods publickey,publickey\n",
        );
        let second = format!("IdentityFile {}\n", fixture::file("user_rsa").display());
        login(&site, "publickey", &second, &[]).assert_in(&guest);
        // The same key twice is one key.
        login(&site, "publickey", "", &[]).assert_out();
    });
}

#[test]
fn too_many_tries_end_the_connection() {
    each(|client, server| {
        let Some(guest) = guest() else { return };
        let lines = "PasswordAuthentication yes\nMaxAuthTries 2\n";
        let site = site(client, server, &guest, lines);
        let extra = "NumberOfPasswordPrompts 6\n";
        let attempt = login(
            &site,
            "password",
            extra,
            &["1", "2", "3", "4", "5", PASSWORD],
        );
        assert_eq!(attempt.outcome.status, 255, "{}", attempt.outcome.summary());
        assert!(attempt.questions.len() <= 3, "{:?}", attempt.questions);
    });
}

#[test]
fn users_and_groups_can_be_shut_out() {
    each(|client, server| {
        let Some(guest) = guest() else { return };
        let cases = [
            ("AllowUsers other*\n".to_owned(), false),
            (format!("AllowUsers {}@127.0.0.1\n", guest.name), true),
            (format!("AllowUsers {}@192.0.2.*\n", guest.name), false),
            (format!("DenyUsers {}\n", guest.name), false),
            (format!("AllowGroups {}\n", guest.name), true),
            ("AllowGroups root\n".to_owned(), false),
            (format!("DenyGroups {}\n", guest.name), false),
        ];
        for (lines, may) in cases {
            let site = site(client, server, &guest, &lines);
            let attempt = login(&site, "publickey", "", &[]);
            assert_eq!(
                attempt.outcome.status == 0,
                may,
                "{lines}: {}",
                attempt.outcome.summary()
            );
        }
    });
}

#[test]
fn root_comes_in_only_as_permitted() {
    if guest().is_none() {
        return;
    }
    each(|client, server| {
        for (value, may) in [("no", false), ("prohibit-password", true), ("yes", true)] {
            let site = Site::new(client, server, &format!("PermitRootLogin {value}\n"));
            let outcome = site.run("echo in");
            assert_eq!(outcome.status == 0, may, "{value}: {}", outcome.summary());
        }
        let site = Site::new(client, server, "PermitRootLogin forced-commands-only\n");
        assert_eq!(site.run("echo in").status, 255);
        let key = fixture::text("user_ed25519.pub");
        let lines = format!("command=\"echo forced\" {key}");
        site.running
            .daemon
            .scratch()
            .write("authorized_keys", lines);
        assert_eq!(site.run("echo in").stdout.text(), "forced\n");
    });
}

/// A server whose PAM stack is `stack`, for its own service and for OpenSSH's.
fn site_with_stack(
    (client, server): (Kind, Kind),
    guest: &Guest,
    extra: &str,
    stack: &str,
    more: &[(&Path, &Path)],
) -> Option<Site> {
    let mut probe = Command::new("unshare");
    probe.args(["--mount", "true"]);
    if finish(&mut probe, Input::Nothing).status != 0 {
        skipped("a PAM stack of its own", &"no mount namespaces");
        return None;
    }
    let scratch = Scratch::new();
    let services = scratch.join("pam.d");
    std::fs::create_dir(&services).expect("a folder");
    for service in ["sshd", "fulmar"] {
        scratch.write(&format!("pam.d/{service}"), stack);
    }
    let config = format!(
        "{extra}AuthorizedKeysFile .ssh/authorized_keys\n{}",
        openssh::server_config(server, &scratch)
    );
    let mut places = vec![(&*services, Path::new("/etc/pam.d"))];
    places.extend(more);
    let mut running = openssh::start_beside(server, scratch, &config, &places)
        .unwrap_or_else(|why| panic!("{why}"));
    running.user = guest.name.clone();
    Some(Site { client, running })
}

/// True if libpam has a module of this name, in the directories of the distributions.
fn has_module(name: &str) -> bool {
    let folders = std::fs::read_dir("/lib").into_iter().flatten().flatten();
    folders
        .map(|entry| entry.path())
        .chain([
            "/lib".into(),
            "/lib64".into(),
            "/usr/lib".into(),
            "/usr/lib64".into(),
        ])
        .any(|folder| folder.join("security").join(name).exists())
}

#[test]
fn groups_that_a_module_adds_are_the_sessions() {
    if !has_module("pam_group.so") {
        skipped("groups of PAM", &"no pam_group");
        return;
    }
    each(|client, server| {
        let Some(guest) = guest() else { return };
        let scratch = Scratch::new();
        let rules = format!("*;*;{};Al0000-2400;games,audio\n", guest.name);
        let rules = scratch.write("group.conf", rules);
        let stack = "auth required pam_unix.so\nauth optional pam_group.so\n\
                     account required pam_unix.so\nsession required pam_unix.so\n";
        let place = (&*rules, Path::new("/etc/security/group.conf"));
        let lines = "UsePAM yes\nKbdInteractiveAuthentication yes\n";
        let Some(site) = site_with_stack((client, server), &guest, lines, stack, &[place]) else {
            return;
        };
        let groups = |methods: &str, answers: &[&str]| {
            let attempt = login_for(&site, methods, "", answers, "id -Gn");
            let mut names: Vec<String> = attempt
                .outcome
                .stdout
                .text()
                .split_ascii_whitespace()
                .map(str::to_owned)
                .collect();
            names.sort();
            names
        };
        let mut wanted = vec![guest.name.clone(), "audio".to_owned(), "games".to_owned()];
        wanted.sort();
        assert_eq!(groups("publickey", &[]), wanted);
        assert_eq!(groups("keyboard-interactive", &[PASSWORD]), wanted);
    });
}

/// Long enough and different enough from [`PASSWORD`] for pam_unix.
const NEW_PASSWORD: &str = "tr0ubador & three";

/// Expires the guest's password.
fn expire(guest: &Guest) {
    let mut command = Command::new("chage");
    command.args(["-d", "0", &guest.name]);
    assert_eq!(finish(&mut command, Input::Nothing).status, 0);
}

const ASKING: &str = "KbdInteractiveAuthentication yes\nPasswordAuthentication yes\nUsePAM yes\n";

#[test]
fn an_expired_password_is_changed_in_the_dialogue() {
    each(|client, server| {
        let Some(guest) = guest() else { return };
        let site = site(client, server, &guest, ASKING);
        expire(&guest);
        let method = "keyboard-interactive";
        let once = "NumberOfPasswordPrompts 1\n";
        // A user who does not know the password cannot change it, and a user who does not change it
        // cannot log in.
        login(&site, method, once, &["wrong"]).assert_out();
        login(&site, method, once, &[PASSWORD, "wrong"]).assert_out();
        let mistyped = [PASSWORD, PASSWORD, NEW_PASSWORD, "another", "", ""];
        login(&site, method, once, &mistyped).assert_out();

        let answers = [PASSWORD, PASSWORD, NEW_PASSWORD, NEW_PASSWORD];
        let attempt = login(&site, method, once, &answers);
        attempt.assert_in(&guest);
        let asked: Vec<String> = attempt
            .questions
            .iter()
            .map(|it| it.to_lowercase())
            .collect();
        assert_eq!(asked.len(), 4, "{asked:?}");
        assert!(asked[1].contains("current password"), "{asked:?}");
        assert!(asked[2].contains("new password"), "{asked:?}");

        let attempt = login(&site, method, once, &[NEW_PASSWORD]);
        attempt.assert_in(&guest);
        assert_eq!(attempt.questions.len(), 1);
        login(&site, method, once, &[PASSWORD]).assert_out();
    });
}

#[test]
fn who_logs_in_with_an_expired_password_may_change_it_and_nothing_else() {
    each(|client, server| {
        let Some(guest) = guest() else { return };
        let site = site(client, server, &guest, ASKING);
        for methods in ["password", "publickey"] {
            expire(&guest);
            let outcome = login(&site, methods, "", &[PASSWORD]).outcome;
            assert_eq!(outcome.status, 1, "{methods}: {}", outcome.summary());
            let said = outcome.stdout.text() + &outcome.stderr.text();
            assert!(
                said.contains("Password change required but no TTY available"),
                "{said}"
            );
            assert!(!said.contains("in as"), "{said}");
            let port = site.running.daemon.port.to_string();
            let mut forward = site.ssh(&format!("PreferredAuthentications {methods}\n"));
            forward.args(["-W", &format!("127.0.0.1:{port}"), HOST]);
            let outcome = finish(&mut forward, Input::Nothing);
            assert_ne!(outcome.status, 0, "{methods}: {}", outcome.summary());
            assert!(
                !outcome.stdout.text().contains("SSH-2.0"),
                "{}",
                outcome.summary()
            );
        }
        let mut command = site.ssh("PreferredAuthentications publickey\n");
        command.args(["-tt", HOST, "echo in as $USER"]);
        let mut terminal = Terminal::new(&command, 80, 24);
        terminal.expect("You must change your password now and login again");
        terminal.expect("urrent password:");
        terminal.type_text(&format!("{PASSWORD}\n"));
        for prompt in ["New password:", "new password:"] {
            terminal.expect(prompt);
            terminal.type_text(&format!("{NEW_PASSWORD}\n"));
        }
        terminal.expect("updated successfully");
        let _ = terminal.end();
        assert!(
            !terminal.screen().contains("in as"),
            "{}",
            terminal.screen()
        );
        login(&site, "password", "", &[NEW_PASSWORD]).assert_in(&guest);
    });
}

#[test]
fn an_expired_account_is_refused() {
    each(|client, server| {
        let Some(guest) = guest() else { return };
        for pam in ["no", "yes"] {
            let lines = format!("UsePAM {pam}\n");
            let site = site(client, server, &guest, &lines);
            login(&site, "publickey", "", &[]).assert_in(&guest);
            let age = |date: &str| {
                let mut command = Command::new("chage");
                command.args(["-E", date, &guest.name]);
                assert_eq!(finish(&mut command, Input::Nothing).status, 0);
            };
            age("2020-01-01");
            let outcome = login(&site, "publickey", "LogLevel INFO\n", &[]).outcome;
            age("-1");
            assert_ne!(outcome.status, 0, "UsePAM {pam}: {}", outcome.summary());
            assert_eq!(outcome.stdout.length, 0);
            // PAM informs the user; without PAM only the log has the reason.
            let is_told = outcome.stderr.text().contains("account has expired");
            assert_eq!(is_told, pam == "yes", "{}", outcome.summary());
        }
    });
}

#[test]
fn an_expired_password_stops_no_key_where_pam_is_off() {
    each(|client, server| {
        let Some(guest) = guest() else { return };
        let lines = "PasswordAuthentication yes\nUsePAM no\n";
        let site_of = |extra: &str| site(client, server, &guest, &format!("{extra}{lines}"));
        let site = site_of("");
        let both = site_of("AuthenticationMethods publickey,password\n");
        let chage = |arguments: &[&str]| {
            let mut command = Command::new("chage");
            command.args(arguments).arg(&guest.name);
            assert_eq!(finish(&mut command, Input::Nothing).status, 0);
        };
        for (what, arguments) in [
            ("to be changed", &["-d", "0"][..]),
            ("too old", &["-d", "2020-01-01", "-M", "10"]),
            ("inactive", &["-d", "2020-01-01", "-M", "10", "-I", "10"]),
        ] {
            chage(&["-d", "2020-01-01", "-M", "-1", "-I", "-1"]);
            login(&both, "publickey,password", "", &[PASSWORD]).assert_in(&guest);
            chage(arguments);
            login(&site, "publickey", "", &[]).assert_in(&guest);
            // A user who uses the password must change it, also together with a key.
            for (site, methods) in [(&site, "password"), (&both, "publickey,password")] {
                let outcome = login(site, methods, "", &[PASSWORD]).outcome;
                assert_eq!(
                    outcome.status,
                    1,
                    "{what}, {methods}: {}",
                    outcome.summary()
                );
                let said = outcome.stderr.text();
                assert!(
                    said.ends_with(
                        "WARNING: Your password has expired.\n\
                         Password change required but no TTY available.\n"
                    ),
                    "{what}, {methods}: {said}"
                );
                assert_eq!(outcome.stdout.length, 0, "{what}, {methods}");
            }
        }
    });
}
