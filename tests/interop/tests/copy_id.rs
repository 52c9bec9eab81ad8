//! `fulmar copy-id` at servers of both suites, with a shell and without one, and its words beside
//! those of the installed ssh-copy-id.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use interop::agent::RealAgent;
use interop::fixture;
use interop::peers::ours::{Kind, binary};
use interop::peers::{Running, openssh};
use interop::process::{COMMAND_LIMIT, Input, Outcome, installed, run};
use interop::report::skipped;
use interop::scratch::Scratch;

/// Comment lines and a last line without its end.
const OTHERS: &str = "# ssh-ed25519 commented\nssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAA other";

/// A server, an agent whose key logs in, and a new key that does not.
struct Place {
    server: Running,
    agent: RealAgent,
    home: Scratch,
}

impl Place {
    /// A server whose configuration starts with `extra`; `None` without an agent.
    fn new(kind: Kind, extra: &str) -> Option<Self> {
        let agent = RealAgent::start(&["ed25519"])?;
        let home = Scratch::new();
        let there = Scratch::new();
        let known = there.write("fixture_keys", fixture::authorized_keys());
        let files = format!(
            "AuthorizedKeysFile {} {}\n",
            home.join("there/new/keys").display(),
            known.display()
        );
        let config = format!("{extra}{files}{}", openssh::server_config(kind, &there));
        let server =
            openssh::start_with(kind, there, &config).unwrap_or_else(|why| panic!("{why}"));
        fs::create_dir(home.join(".ssh")).expect("a folder");
        let place = Self {
            server,
            agent,
            home,
        };
        place.make_key("fresh");
        Some(place)
    }

    fn make_key(&self, name: &str) {
        let path = self.home.join(&format!(".ssh/id_{name}"));
        let path = path.display().to_string();
        fixture::run_keygen(&["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", &path])
            .expect("a key");
    }

    fn key(&self, name: &str) -> PathBuf {
        self.home.join(&format!(".ssh/id_{name}"))
    }

    fn line(&self, name: &str) -> String {
        fs::read_to_string(self.key(name).with_extension("pub")).expect("a key")
    }

    /// The file that is written on the server.
    fn target(&self) -> PathBuf {
        self.home.join("there/new/keys")
    }

    fn written(&self) -> String {
        fs::read_to_string(self.target()).unwrap_or_default()
    }

    fn config(&self) -> PathBuf {
        let text = format!(
            "HostName 127.0.0.1\nPort {}\nUser {}\nUserKnownHostsFile {}\n\
             GlobalKnownHostsFile /dev/null\nUpdateHostKeys no\nBatchMode yes\n{}",
            self.server.daemon.port,
            self.server.user,
            self.server.known_hosts.display(),
            self.agent.line()
        );
        self.home.write("config", text)
    }

    fn run(&self, mut command: Command, arguments: &[&str]) -> Outcome {
        command
            .env("HOME", self.home.path())
            .env_remove("SSH_AUTH_SOCK")
            .arg("-F")
            .arg(self.config())
            .args(arguments);
        run(&mut command, Input::Nothing, COMMAND_LIMIT).expect("copy-id")
    }

    /// Installs with these flags and the key `name`.
    fn install(&self, flags: &[&str], name: &str) -> Outcome {
        let mut command = ours();
        command
            .args(["-t", &self.target().display().to_string()])
            .args(flags);
        command.arg("-i").arg(self.key(name));
        self.run(command, &["target"])
    }
}

fn ours() -> Command {
    let mut command = Command::new(binary());
    command.arg("copy-id");
    command
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path)
        .expect("it is there")
        .permissions()
        .mode()
        & 0o7777
}

fn assert_added(outcome: &Outcome, what: &str) {
    assert_eq!(outcome.status, 0, "{what}: {}", outcome.summary());
    outcome.assert_shows("Number of key(s) added: 1\n");
}

fn assert_skipped(outcome: &Outcome, what: &str) {
    assert_eq!(outcome.status, 0, "{what}: {}", outcome.summary());
    let said = outcome.stderr.text();
    assert!(said.contains("All keys were skipped"), "{what}: {said}");
    assert_eq!(outcome.stdout.text(), "", "{what}");
}

/// Each server with a shell, and with SFTP alone.
fn each(test: impl Fn(&Place, &[&str], &str)) {
    for kind in [Kind::OpenSsh, Kind::Fulmar] {
        for (extra, flags) in [
            ("", &[][..]),
            ("", &["-s"][..]),
            ("ForceCommand internal-sftp\n", &["-s"][..]),
            ("ForceCommand internal-sftp\n", &[][..]),
        ] {
            let sftp = "Subsystem sftp internal-sftp\n";
            let Some(place) = Place::new(kind, &format!("{extra}{sftp}")) else {
                return;
            };
            test(
                &place,
                flags,
                &format!("{} {extra:?} {flags:?}", kind.name()),
            );
        }
    }
}

#[test]
fn a_key_is_installed_once() {
    each(|place, flags, what| {
        assert_added(&place.install(flags, "fresh"), what);
        assert_eq!(place.written(), place.line("fresh"), "{what}");
        assert_eq!(mode(&place.target()), 0o600, "{what}");
        for folder in ["there", "there/new"] {
            assert_eq!(mode(&place.home.join(folder)), 0o700, "{what}");
        }
        // It logs in now, and even by force it is not written twice.
        assert_skipped(&place.install(flags, "fresh"), what);
        assert_skipped(&place.install(&[flags, &["-f"]].concat(), "fresh"), what);
        assert_eq!(place.written(), place.line("fresh"), "{what}");
    });
}

#[test]
fn what_the_file_holds_stays_whole() {
    each(|place, flags, what| {
        fs::create_dir_all(place.home.join("there/new")).expect("folders");
        fs::write(place.target(), OTHERS).expect("a file");
        let open = fs::Permissions::from_mode(0o640);
        fs::set_permissions(place.target(), open).expect("a mode");
        assert_added(&place.install(flags, "fresh"), what);
        assert_eq!(
            place.written(),
            format!("{OTHERS}\n{}", place.line("fresh")),
            "{what}"
        );
        assert_eq!(mode(&place.target()), 0o640, "{what}");
    });
}

#[test]
fn a_dry_run_changes_nothing_and_speaks_as_ssh_copy_id() {
    for kind in [Kind::OpenSsh, Kind::Fulmar] {
        let Some(place) = Place::new(kind, "") else {
            return;
        };
        let key = place.key("fresh").display().to_string();
        let missing = place.home.join("none").display().to_string();
        for arguments in [
            &["-n", "-i", &key, "target"][..],
            &["-n", "-f", "-i", &key, "target"],
            &["-n", "-i", &key, "-p", "1", "target"],
            &["-n", "-i", &missing, "target"],
        ] {
            let found = place.run(ours(), arguments);
            assert_eq!(place.written(), "");
            let Some(theirs) = installed("ssh-copy-id") else {
                skipped("ssh-copy-id", &"not installed");
                return;
            };
            let expected = place.run(Command::new(&theirs), arguments);
            let name = theirs.display().to_string();
            let words = |outcome: &Outcome| {
                let text = outcome.stdout.text() + &outcome.stderr.text();
                // The words of the system's errors differ between shells.
                let text = text
                    .replace(&name, "ssh-copy-id")
                    .replace(" or directory", "");
                // 9.2 has no final line end in one case.
                text.replace('\r', "").trim_end().to_owned()
            };
            assert_eq!(words(&found), words(&expected), "{arguments:?}");
            assert_eq!(found.status, expected.status, "{arguments:?}");
        }
    }
}

#[test]
fn the_keys_of_the_agent_are_installed() {
    for kind in [Kind::OpenSsh, Kind::Fulmar] {
        let Some(place) = Place::new(kind, "") else {
            return;
        };
        let mut add = Command::new("ssh-add");
        add.arg("-q")
            .arg(place.key("fresh"))
            .env("SSH_AUTH_SOCK", &place.agent.socket);
        assert!(add.status().expect("ssh-add").success());
        let mut command = ours();
        command.args(["-x", "-t", &place.target().display().to_string(), "-F"]);
        command.arg(place.config()).arg("target");
        command
            .env("HOME", place.home.path())
            .env("SSH_AUTH_SOCK", &place.agent.socket);
        let outcome = run(&mut command, Input::Nothing, COMMAND_LIMIT).expect("copy-id");
        // The other one logs in already.
        assert_added(&outcome, kind.name());
        assert_eq!(place.written(), place.line("fresh"));
        let said = outcome.stderr.text();
        assert!(
            said.contains("Source of key(s) to be installed: ssh-add -L\n"),
            "{said}"
        );
        assert!(said.contains("+ ssh -a -x"), "{said}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let Some(place) = Place::new(Kind::Fulmar, "") else {
        return;
    };
    fs::write(place.home.join(".ssh/id_bad"), "private").expect("a file");
    fs::write(
        place.home.join(".ssh/id_bad.pub"),
        "# text\nssh-ed25519 AAAA nonsense\n",
    )
    .expect("a file");
    let outcome = place.install(&[], "bad");
    assert_eq!(outcome.status, 1);
    let said = outcome.stderr.text();
    assert!(
        said.contains("id_bad.pub: line 2 is no public key"),
        "{said}"
    );
    // A file in place of the folder.
    fs::write(place.home.join("there"), "").expect("a file");
    for flags in [&["-f"][..], &["-f", "-s"]] {
        let outcome = place.install(flags, "fresh");
        assert_eq!(outcome.status, 1, "{}", outcome.summary());
        assert_eq!(outcome.stdout.text(), "", "{flags:?}");
        assert!(
            outcome.stderr.text().contains("ERROR: "),
            "{}",
            outcome.summary()
        );
    }
}
