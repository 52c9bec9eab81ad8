//! The data of PAM modules and their messages to the user, with separate stacks; as root only.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use interop::account::Guest;
use interop::fixture;
use interop::peers::ours::Kind;
use interop::peers::{Running, openssh};
use interop::process::{Background, Input};
use interop::report::skipped;
use interop::scratch::{Scratch, until};
use interop::site::{HOST, Site, askpass, each, finish};

const PASSWORD: &str = "Corr3ct horse, battery";
/// Time limit for a module and a test to wait for each other.
const PATIENCE: Duration = Duration::from_secs(60);

/// A user with a password and the ed25519 key of the fixture, and a program for pam_exec that
/// records its environment.
struct Place {
    guest: Guest,
    scratch: Scratch,
}

impl Place {
    fn new() -> Option<Self> {
        let mut probe = Command::new("unshare");
        probe.args(["--mount", "true"]);
        if finish(&mut probe, Input::Nothing).status != 0 {
            skipped("PAM stacks", &"no mount namespaces");
            return None;
        }
        let has_module = |folder: &str| Path::new(folder).join("security/pam_exec.so").exists();
        let folders = std::fs::read_dir("/lib").into_iter().flatten().flatten();
        let mut folders = folders.map(|entry| entry.path().display().to_string());
        if !folders.any(|folder| has_module(&folder)) && !has_module("/lib64") {
            skipped("PAM stacks", &"no pam_exec");
            return None;
        }
        let mut guest = Guest::new().ok()?;
        guest.set_password(PASSWORD).expect("a password");
        let key = fixture::text("user_ed25519.pub");
        guest.write(".ssh/authorized_keys", key, 0o600);
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.join("pam.d")).expect("a folder");
        Some(Self { guest, scratch })
    }

    /// A program of this name for pam_exec.
    fn program(&self, name: &str, text: &str) -> String {
        let path = self.scratch.write(name, text);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("its mode");
        path.display().to_string()
    }

    fn service(&self, name: &str, stack: &str) {
        self.scratch.write(&format!("pam.d/{name}"), stack);
    }

    /// A server with only these PAM services.
    fn site(&self, client: Kind, server: Kind, extra: &str, blocks: &str) -> Site {
        let scratch = Scratch::new();
        let config = format!(
            "{extra}UsePAM yes\nAuthorizedKeysFile .ssh/authorized_keys\n{}{blocks}",
            openssh::server_config(server, &scratch)
        );
        let services = self.scratch.join("pam.d");
        let places = [(&*services, Path::new("/etc/pam.d"))];
        let running: Running = openssh::start_beside(server, scratch, &config, &places)
            .unwrap_or_else(|why| panic!("{why}"));
        let mut site = Site { client, running };
        site.running.user = self.guest.name.clone();
        site
    }
}

const UNIX: &str =
    "auth required pam_unix.so\naccount required pam_unix.so\nsession required pam_permit.so\n";

/// The client names submethods (KbdInteractiveDevices); a server without them asks nothing.
#[test]
fn submethods_that_the_client_names_are_asked_for() {
    let Some(place) = Place::new() else { return };
    place.service("sshd", UNIX);
    place.service("fulmar", UNIX);
    each(|client, server| {
        let lines = "KbdInteractiveAuthentication yes\n";
        let site = place.site(client, server, lines, "");
        for (devices, is_in) in [
            ("", true),
            ("pam", true),
            ("bsdauth,pam", true),
            ("bsdauth", false),
        ] {
            let line = match devices {
                "" => String::new(),
                list => format!("\nKbdInteractiveDevices {list}"),
            };
            let methods = format!("keyboard-interactive{line}");
            let outcome = finish(&mut ssh(&site, &Scratch::new(), &methods), Input::Nothing);
            let what = format!("{client:?} {server:?} {devices:?}: {}", outcome.summary());
            assert_eq!(outcome.stdout.text() == "in\n", is_in, "{what}");
        }
    });
}

/// A login with these methods, whose questions are answered with the password.
fn ssh(site: &Site, scratch: &Scratch, methods: &str) -> Command {
    let lines = format!("PreferredAuthentications {methods}\nBatchMode no\nLogLevel INFO\n");
    let mut command = site.ssh(&lines);
    command
        .args([HOST, "echo in"])
        .env("SSH_ASKPASS", askpass(scratch, &[PASSWORD]))
        .env("SSH_ASKPASS_REQUIRE", "force");
    command
}

#[test]
fn modules_know_the_connection_and_what_was_proved_before() {
    each(|client, server| {
        let Some(place) = Place::new() else { return };
        let said = place.scratch.join("said");
        let noting = format!(
            "#!/bin/sh\necho \"$PAM_TYPE|$SSH_CONNECTION|$SSH_AUTH_INFO_0|\" >>{}\n",
            said.display()
        );
        let noting = place.program("note", &noting);
        let stack = format!(
            "auth required pam_exec.so {noting}\nauth required pam_unix.so\n\
             account required pam_exec.so {noting}\nsession required pam_exec.so {noting}\n"
        );
        for service in ["sshd", "fulmar"] {
            place.service(service, &stack);
        }
        let chain = "AuthenticationMethods publickey,keyboard-interactive\n\
                     KbdInteractiveAuthentication yes\n";
        let site = place.site(client, server, chain, "");
        let scratch = Scratch::new();
        let outcome = finish(
            &mut ssh(&site, &scratch, "publickey,keyboard-interactive"),
            Input::Nothing,
        );
        assert_eq!(outcome.stdout.text(), "in\n", "{}", outcome.summary());
        let notes = std::fs::read_to_string(&said).unwrap_or_default();
        let port = site.running.daemon.port;
        let is_here = |text: &str| {
            let words: Vec<&str> = text.split(' ').collect();
            matches!(words[..], ["127.0.0.1", _, "127.0.0.1", last] if last == port.to_string())
        };
        for (kind, proved) in [
            ("auth", "publickey ssh-ed25519 "),
            ("account", "publickey ssh-ed25519 "),
            ("open_session", "keyboard-interactive/pam"),
        ] {
            let at = notes.find(&format!("{kind}|"));
            let note = at.and_then(|at| notes.get(at..)).unwrap_or_default();
            let mut parts = note.split('|').skip(1);
            assert!(is_here(parts.next().unwrap_or_default()), "{kind}: {notes}");
            assert!(
                parts.next().unwrap_or_default().contains(proved),
                "{kind}: {notes}"
            );
        }
    });
}

#[test]
fn what_a_module_says_is_shown_before_it_goes_on() {
    for client in [Kind::Fulmar, Kind::OpenSsh] {
        if client.ssh().is_err() {
            continue;
        }
        let Some(place) = Place::new() else { return };
        let (seen, words) = (place.scratch.join("seen"), "Approve it on your telephone");
        let waiting = format!(
            "#!/bin/sh\nfor i in $(seq 600); do [ -e {} ] && exit 0; sleep 0.1; done\nexit 1\n",
            seen.display()
        );
        let waiting = place.program("wait", &waiting);
        let text = place.scratch.write("words", format!("{words}\n"));
        let stack = format!(
            "auth optional pam_echo.so file={}\nauth required pam_exec.so {waiting}\n\
             auth required pam_permit.so\naccount required pam_permit.so\n\
             session required pam_permit.so\n",
            text.display()
        );
        place.service("fulmar", &stack);
        let lines = "KbdInteractiveAuthentication yes\n";
        let site = place.site(client, Kind::Fulmar, lines, "");
        let scratch = Scratch::new();
        let (out, err) = (scratch.join("out"), scratch.join("err"));
        let file = |path: &Path| std::fs::File::create(path).expect("a file");
        let mut command = ssh(&site, &scratch, "keyboard-interactive");
        command
            .stdin(Stdio::null())
            .stdout(file(&out))
            .stderr(file(&err));
        let mut client = Background::start(&mut command).expect("a client");
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let shown = until(PATIENCE, || read(&err).contains(words));
        assert!(shown, "not shown: {}", site.running.daemon.log());
        assert_eq!(read(&out), "");
        std::fs::write(&seen, "").expect("a file");
        let status = client.0.wait().expect("its end");
        assert!(
            status.success(),
            "{}{}",
            read(&err),
            site.running.daemon.log()
        );
        assert_eq!(read(&out), "in\n");
    }
}

#[test]
fn a_match_block_may_name_another_service() {
    let Some(place) = Place::new() else { return };
    let closed = "auth required pam_deny.so\naccount required pam_deny.so\n";
    let open = "auth required pam_unix.so\naccount required pam_permit.so\n\
                session required pam_permit.so\n";
    place.service("fulmar", closed);
    place.service("other", open);
    let block = format!("Match User {}\nPAMServiceName other\n", place.guest.name);
    let lines = "KbdInteractiveAuthentication yes\n";
    for (block, status) in [("", 255), (&*block, 0)] {
        let site = place.site(Kind::Fulmar, Kind::Fulmar, lines, block);
        for methods in ["keyboard-interactive", "publickey"] {
            let outcome = finish(&mut ssh(&site, &Scratch::new(), methods), Input::Nothing);
            assert_eq!(outcome.status, status, "{block:?}: {}", outcome.summary());
        }
    }
}
