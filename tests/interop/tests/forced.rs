//! Programs that run with a forced command, as root, compared between both servers: shell, command,
//! subsystem and terminal with `command=` of a key, `force-command` of a certificate and
//! ForceCommand, and the rc files that run before each (sshd(8), SSHRC; do_exec and do_rc_files of
//! OpenSSH's session.c).

use std::fs;
use std::path::Path;

use interop::account::Guest;
use interop::fixture;
use interop::peers::openssh;
use interop::peers::ours::Kind;
use interop::process::Input;
use interop::report::skipped;
use interop::scratch::Scratch;
use interop::site::{HOST, Site, each, finish};

/// A server with its own /etc/ssh, whose `sshrc` records that it ran, and a user whose `~/.ssh/rc`
/// does the same.
struct Place {
    site: Site,
    guest: Guest,
}

impl Place {
    /// `None`, with a message, if such a place is not possible.
    fn new(client: Kind, server: Kind, lines: &str) -> Option<Self> {
        let mut probe = std::process::Command::new("unshare");
        probe.args(["--mount", "true"]);
        if finish(&mut probe, Input::Nothing).status != 0 {
            skipped("what is forced", &"no mount namespaces");
            return None;
        }
        let guest = match Guest::new() {
            Ok(guest) => guest,
            Err(why) => {
                skipped("what is forced", &why);
                return None;
            }
        };
        let notes = guest.write("notes", "", 0o600);
        let note = |what: &str| format!("echo {what} >>{}\n", notes.display());
        guest.write(".ssh/rc", note("rc"), 0o600);
        let scratch = Scratch::new();
        let etc = scratch.join("etc");
        fs::create_dir(&etc).expect("a folder");
        fs::write(etc.join("sshrc"), note("sshrc")).expect("a file");
        let config = format!(
            "{lines}AuthorizedKeysFile .ssh/authorized_keys\nSubsystem sftp internal-sftp\n\
             Subsystem other echo other\n{}",
            openssh::server_config(server, &scratch)
        );
        let places = [(&*etc, Path::new("/etc/ssh"))];
        let mut running = openssh::start_beside(server, scratch, &config, &places)
            .unwrap_or_else(|why| panic!("{why}"));
        running.user = guest.name.clone();
        let site = Site { client, running };
        Some(Self { site, guest })
    }

    /// The only accepted key has these options.
    fn key(&self, options: &str) {
        let line = format!("{options} {}", fixture::text("user_ed25519.pub"));
        self.guest.write(".ssh/authorized_keys", line, 0o600);
    }

    /// Sends a request; returns standard output, the status, and the rc files that ran.
    fn ask(&self, asked: Asked) -> (String, i32, String) {
        self.guest.write("notes", "", 0o600);
        let arguments: &[&str] = match asked {
            Asked::Shell => &["-T", HOST],
            Asked::Terminal => &["-tt", HOST],
            Asked::Command => &[HOST, "echo mine"],
            Asked::Sftp => &["-s", HOST, "sftp"],
            Asked::Other => &["-s", HOST, "other"],
        };
        let outcome = self
            .site
            .run_with("", arguments, Input::Bytes(b"echo typed\n"));
        let notes = fs::read_to_string(self.guest.home().join("notes")).expect("the notes");
        let notes: Vec<&str> = notes.lines().collect();
        let said = outcome.stdout.text().replace('\r', "");
        (said, outcome.status, notes.join(" "))
    }

    fn expect(&self, what: &str, rows: &[(Asked, &str, i32, &str)]) {
        for (asked, said, status, notes) in rows {
            let (got, ended, ran) = self.ask(*asked);
            // On a terminal OpenSSH's own error appears before the message for the client, and the terminal
            // may echo what is typed after it.
            let fits = if *asked == Asked::Terminal {
                let shown = got.strip_suffix("echo typed\n").unwrap_or(&got);
                shown.ends_with(said) && !got.contains("typed\ntyped")
            } else {
                got == *said
            };
            assert!(
                fits && (ended, ran.as_str()) == (*status, *notes),
                "{what}, {asked:?}: {got:?}, status {ended}, rc files {ran:?}"
            );
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Shell,
    Terminal,
    Command,
    Sftp,
    Other,
}

use Asked::{Command, Other, Sftp, Shell, Terminal};

const ONLY_SFTP: &str = "This service allows sftp connections only.\n";

#[test]
fn a_forced_command_of_a_key_leaves_nothing_else() {
    each(|client, server| {
        let Some(place) = Place::new(client, server, "") else {
            return;
        };
        place.key("");
        place.expect(
            "no restriction",
            &[
                (Shell, "typed\n", 0, "rc"),
                (Command, "mine\n", 0, "rc"),
                (Other, "other\n", 0, "sshrc"),
            ],
        );
        place.key("command=\"\"");
        place.expect(
            "the empty command",
            &[
                (Shell, "", 0, "rc"),
                (Terminal, "", 0, "rc"),
                (Command, "", 0, "rc"),
                (Sftp, "", 0, "sshrc"),
                (Other, "", 0, "sshrc"),
            ],
        );
        place.key("restrict,command=\"echo forced\"");
        place.expect(
            "restrict",
            &[
                (Shell, "forced\n", 0, "sshrc"),
                (Command, "forced\n", 0, "sshrc"),
                (Sftp, "forced\n", 0, "sshrc"),
            ],
        );
        place.key("command=\"internal-sftp\"");
        place.expect(
            "internal-sftp",
            &[
                (Shell, ONLY_SFTP, 1, "sshrc"),
                (Terminal, ONLY_SFTP, 1, "sshrc"),
                (Command, ONLY_SFTP, 1, "sshrc"),
            ],
        );
    });
}

#[test]
fn nothing_of_the_users_runs_under_force_command() {
    each(|client, server| {
        let Some(place) = Place::new(client, server, "ForceCommand echo forced\n") else {
            return;
        };
        place.key("");
        let forced = [
            (Shell, "forced\n", 0, "sshrc"),
            (Command, "forced\n", 0, "sshrc"),
            (Sftp, "forced\n", 0, "sshrc"),
            (Other, "forced\n", 0, "sshrc"),
        ];
        place.expect("ForceCommand", &forced);
        place.key("command=\"\"");
        place.expect("ForceCommand over an empty command of the key", &forced);
        let Some(place) = Place::new(client, server, "ForceCommand internal-sftp\n") else {
            return;
        };
        place.key("command=\"id\"");
        place.expect(
            "ForceCommand internal-sftp",
            &[
                (Shell, ONLY_SFTP, 1, "sshrc"),
                (Command, ONLY_SFTP, 1, "sshrc"),
            ],
        );
        // The quotes are the command: a shell finds no program of the empty name.
        let Some(place) = Place::new(client, server, "ForceCommand \"\"\n") else {
            return;
        };
        place.key("");
        place.expect(
            "ForceCommand \"\"",
            &[(Shell, "", 127, "sshrc"), (Command, "", 127, "sshrc")],
        );
    });
}

#[test]
fn an_empty_forced_command_gives_root_no_shell() {
    each(|client, server| {
        if let Err(why) = Guest::new() {
            return skipped("root with a forced command", &why);
        }
        let site = Site::new(client, server, "PermitRootLogin forced-commands-only\n");
        let key = fixture::text("user_ed25519.pub");
        let lines = format!("command=\"\" {key}");
        site.running
            .daemon
            .scratch()
            .write("authorized_keys", lines);
        for arguments in [&["-T", HOST][..], &[HOST, "echo in"]] {
            let outcome = site.run_with("", arguments, Input::Bytes(b"echo in\n"));
            assert_eq!(outcome.status, 0, "{arguments:?}: {}", outcome.summary());
            assert_eq!(outcome.stdout.length, 0, "{}", outcome.summary());
        }
    });
}

#[test]
fn what_sftp_sends_while_the_rc_file_runs_is_served() {
    let Some(sftp) = interop::process::installed("sftp") else {
        return skipped("sftp", &"not installed");
    };
    each(|client, server| {
        let Some(place) = Place::new(client, server, "") else {
            return;
        };
        place.key("command=\"internal-sftp\"");
        let scratch = Scratch::new();
        let batch = scratch.write("batch", "pwd\n");
        for _ in 0..5 {
            let mut command = std::process::Command::new(&sftp);
            command.arg("-S").arg(place.site.wrapper());
            command.arg("-b").arg(&batch).arg(HOST);
            let outcome = finish(&mut command, Input::Nothing);
            assert_eq!(outcome.status, 0, "{}", outcome.summary());
            let home = place.guest.home().display().to_string();
            assert!(
                outcome.stdout.text().contains(&home),
                "{}",
                outcome.summary()
            );
        }
    });
}
