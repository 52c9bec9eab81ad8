//! Host-based logins between our programs and OpenSSH's, with either's ssh-keysign. Each case runs in
//! its own mount namespace, whose /etc/ssh has the keys and lists of the case. Needs root.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use interop::account::Guest;
use interop::fixture;
use interop::peers::ours::{self, Kind, couples};
use interop::process::{Input, command_line, installed, run};
use interop::report::skipped;
use interop::scratch::{SHELL_FUNCTIONS, Scratch, free_port};
use interop::site::finish;

/// Where OpenSSH's client looks for the program.
const KEYSIGN: &str = "/usr/lib/openssh/ssh-keysign";

/// Starts the server, runs the client as the guest, and stops the server.
const SCRIPT: &str = r#"
mount --make-rprivate / || exit 90
mount --bind "$ETC" /etc/ssh || exit 91
if [ -n "$OURS" ]; then mount --bind "$OURS" /usr/lib/openssh/ssh-keysign || exit 92; fi
if [ -e /usr/local/lib/fulmar ]; then mount -t tmpfs none /usr/local/lib/fulmar || exit 93; fi
start_server "$LOG" $SSHD -D -e -f "$ETC/sshd_config" -p "$PORT"
as_guest $SSH -F "$ETC/client" -p "$PORT" "$@" 127.0.0.1 'echo logged in'
end_with $?
"#;

/// The files of a case, with a login that succeeds by default.
struct Case {
    etc: Scratch,
    guest: Guest,
    server_options: String,
}

/// How a case ended.
#[derive(Debug, PartialEq, Eq)]
struct Ended {
    logged_in: bool,
    /// The server's lines about the method, without what differs in each run.
    lines: Vec<String>,
    /// The client's messages.
    said: String,
}

impl Case {
    fn new() -> Option<Self> {
        let needs = ["unshare", "setpriv"];
        if let Some(missing) = needs.iter().find(|name| installed(name).is_none()) {
            skipped("hostbased", missing);
            return None;
        }
        let guest = match Guest::new() {
            Ok(guest) => guest,
            Err(why) => {
                skipped("hostbased", &why);
                return None;
            }
        };
        let etc = Scratch::new();
        fs::set_permissions(etc.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for (name, kind) in [("ed25519", "ed25519"), ("rsa", "rsa")] {
            let path = etc.join(&format!("ssh_host_{name}_key"));
            let path = path.to_string_lossy();
            fixture::run_keygen(&["-q", "-t", kind, "-N", "", "-C", "", "-f", &path]).unwrap();
        }
        let case = Self {
            etc,
            guest,
            server_options: String::new(),
        };
        case.write("ssh_config", "Host *\nEnableSSHKeysign yes\n");
        case.write("moduli", "");
        case.write("shosts.equiv", "127.0.0.1\n");
        case.write("ssh_known_hosts", &case.known("127.0.0.1"));
        Some(case)
    }

    /// Lines of known_hosts for this host's keys under a name.
    fn known(&self, name: &str) -> String {
        ["ed25519", "rsa"]
            .map(|kind| {
                let path = self.etc.join(&format!("ssh_host_{kind}_key.pub"));
                format!("{name} {}", fs::read_to_string(path).unwrap())
            })
            .concat()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.etc.write(name, text);
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.etc.join(name)).unwrap();
    }

    /// Writes a file of the guest's home with this mode.
    fn home(&self, name: &str, text: &str, mode: u32) {
        self.guest.write(name, text, mode);
    }

    /// Logs in; `signer` is whose ssh-keysign signs.
    fn run(&self, client: Kind, server: Kind, signer: Kind, arguments: &[&str]) -> Ended {
        let etc = self.etc.path();
        let pam = match server {
            Kind::Fulmar => "",
            Kind::OpenSsh => "UsePAM no\n",
        };
        self.write(
            "sshd_config",
            &format!(
                "{}HostbasedAuthentication yes\nPasswordAuthentication no\nListenAddress 127.0.0.1\n\
                 KbdInteractiveAuthentication no\nPubkeyAuthentication no\nLogLevel VERBOSE\n{pam}\
                 HostKey /etc/ssh/ssh_host_ed25519_key\nPidFile none\nStrictModes yes\n",
                self.server_options
            ),
        );
        self.write(
            "client",
            "HostbasedAuthentication yes\nStrictHostKeyChecking no\nBatchMode yes\n\
             UserKnownHostsFile /dev/null\nGlobalKnownHostsFile /dev/null\nLogLevel ERROR\n",
        );
        let log = Scratch::new();
        let log = log.join("log");
        fs::write(&log, "").unwrap();
        let ours = match signer {
            Kind::Fulmar => our_keysign(&self.etc).to_string_lossy().into_owned(),
            Kind::OpenSsh => String::new(),
        };
        let port = free_port().to_string();
        let mut command = Command::new("unshare");
        let script = format!("{SHELL_FUNCTIONS}{SCRIPT}");
        command
            .args(["-m", "sh", "-c", &script, "sh"])
            .args(arguments)
            .env("ETC", etc)
            .env("OURS", ours)
            .env("LOG", &log)
            .env("PORT", &port)
            .env("SSH", command_line(&client.ssh().unwrap()))
            .env("SSHD", command_line(&server.sshd().unwrap()))
            .env("GUEST", &self.guest.name)
            .env("GUEST_HOME", self.guest.home());
        let outcome = finish(&mut command, Input::Nothing);
        assert!(
            !(90..100).contains(&outcome.status),
            "{}",
            outcome.summary()
        );
        let log = fs::read_to_string(log).unwrap();
        Ended {
            logged_in: outcome.status == 0,
            lines: lines_of(&log, &self.guest.name),
            said: outcome.summary(),
        }
    }
}

/// A set-user-ID copy of our binary, made once for each case.
fn our_keysign(scratch: &Scratch) -> PathBuf {
    let path = scratch.join("keysign.ours");
    if !path.exists() {
        fs::copy(ours::binary(), &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
    }
    path
}

fn lines_of(log: &str, guest: &str) -> Vec<String> {
    let about = [
        "Accepted hostbased",
        "Failed hostbased",
        "userauth_hostbased",
        "Rhosts authentication refused",
        "Authentication refused",
        "public key",
        "WARNING: revoked",
        "WARNING: login",
    ];
    log.lines()
        .map(|line| line.trim_end().replace(guest, "GUEST"))
        .filter(|line| about.iter().any(|text| line.contains(text)))
        .map(|line| match line.split_once(" port ") {
            Some((before, after)) => {
                let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
                format!("{before} port N{after}")
            }
            None => line,
        })
        .map(|line| {
            let home = line.find("/tmp/").map(|at| (&line[..at], &line[at..]));
            match home {
                Some((before, path)) => {
                    format!(
                        "{before}{}",
                        Path::new(path).file_name().unwrap().to_string_lossy()
                    )
                }
                None => line,
            }
        })
        .collect()
}

/// All combinations with at least one part of ours.
fn combinations() -> Vec<(Kind, Kind, Kind)> {
    let all = couples();
    let mut out: Vec<_> = all
        .iter()
        .map(|(one, other)| (*one, *other, Kind::Fulmar))
        .collect();
    if Path::new(KEYSIGN).exists() {
        out.extend(all.iter().map(|(one, other)| (*one, *other, Kind::OpenSsh)));
        out.push((Kind::OpenSsh, Kind::OpenSsh, Kind::Fulmar));
    }
    out
}

#[test]
fn a_host_vouches_for_its_user_whoever_made_each_part() {
    let Some(case) = Case::new() else { return };
    let mut accepted: Option<Vec<String>> = None;
    for (client, server, signer) in combinations() {
        let ended = case.run(client, server, signer, &[]);
        let which = format!("{client:?} {server:?} {signer:?}: {ended:?}");
        assert!(ended.logged_in, "{which}");
        let first = "Accepted hostbased for GUEST from 127.0.0.1 port N ssh2: ED25519 SHA256:";
        assert!(
            ended.lines.iter().any(|line| line.starts_with(first)),
            "{which}"
        );
        assert_eq!(
            *accepted.get_or_insert(ended.lines.clone()),
            ended.lines,
            "{which}"
        );
    }
}

#[test]
fn each_algorithm_of_a_key_signs() {
    let Some(case) = Case::new() else { return };
    for algorithm in ["ssh-ed25519", "rsa-sha2-256", "rsa-sha2-512"] {
        let option = format!("-oHostbasedAcceptedAlgorithms={algorithm}");
        for (client, server) in couples() {
            let ended = case.run(client, server, Kind::Fulmar, &[&option]);
            assert!(
                ended.logged_in,
                "{algorithm} {client:?} {server:?}: {ended:?}"
            );
        }
    }
    let refusing = Case {
        server_options: "HostbasedAcceptedAlgorithms rsa-sha2-512\n".to_owned(),
        ..case
    };
    let option = ["-oHostbasedAcceptedAlgorithms=ssh-ed25519"];
    let ended = refusing.run(Kind::Fulmar, Kind::Fulmar, Kind::Fulmar, &option);
    assert!(!ended.logged_in, "{ended:?}");
    let expected = "userauth_hostbased: signature algorithm ssh-ed25519 not in \
                    HostbasedAcceptedAlgorithms";
    assert!(
        ended.lines.iter().any(|line| line.starts_with(expected)),
        "{ended:?}"
    );
}

#[test]
fn both_sides_warn_of_a_signature_with_sha1() {
    let Some(case) = Case::new() else { return };
    let case = Case {
        server_options: "HostbasedAcceptedAlgorithms +ssh-rsa\n".to_owned(),
        ..case
    };
    let options = ["-oHostbasedAcceptedAlgorithms=ssh-rsa", "-oLogLevel=INFO"];
    for (client, server) in couples() {
        let ended = case.run(client, server, Kind::Fulmar, &options);
        let which = format!("{client:?} {server:?}: {ended:?}");
        assert!(ended.logged_in, "{which}");
        let said = "is using weak algorithms of old devices: ssh-rsa";
        let warns = |kind, text: &str| kind != Kind::Fulmar || text.matches(said).count() == 1;
        assert!(warns(client, &ended.said), "{which}");
        assert!(warns(server, &ended.lines.join("\n")), "{which}");
    }
}

#[test]
fn a_post_quantum_key_of_the_host_signs() {
    const NAME: &str = "ssh-mldsa44-ed25519";
    let Some(case) = Case::new() else { return };
    // As [`fixture::run_keygen`], which may be a program that does not know the type.
    let path = case.etc.join("ssh_host_mldsa44_ed25519_key");
    let mut keygen = Command::new(ours::binary());
    keygen.args(["keygen", "-q", "-t", "mldsa44-ed25519", "-N", "", "-f"]);
    let made = finish(keygen.arg(&path), Input::Nothing);
    assert_eq!(made.status, 0, "{}", made.summary());
    let public = fs::read_to_string(path.with_extension("pub")).unwrap();
    case.write("ssh_known_hosts", &format!("127.0.0.1 {public}"));
    let is_known = Kind::OpenSsh.ssh().is_ok_and(|mut ssh| {
        let outcome = finish(ssh.args(["-Q", "key"]), Input::Nothing);
        outcome.stdout.text().lines().any(|line| line == NAME)
    });
    let all = match is_known {
        true => combinations(),
        false => {
            skipped("openssh", &"it does not know ssh-mldsa44-ed25519");
            vec![(Kind::Fulmar, Kind::Fulmar, Kind::Fulmar)]
        }
    };
    let option = format!("-oHostbasedAcceptedAlgorithms={NAME}");
    for (client, server, signer) in all {
        let ended = case.run(client, server, signer, &[&option]);
        let which = format!("{client:?} {server:?} {signer:?}: {ended:?}");
        assert!(ended.logged_in, "{which}");
        let accepted = "ssh2: MLDSA44-ED25519 SHA256:";
        assert!(
            ended.lines.iter().any(|line| line.contains(accepted)),
            "{which}"
        );
    }
}

/// What changes a case, its server's options, and whether the login succeeds then.
type Change = (&'static str, &'static str, fn(&Case), bool);

const CHANGES: &[Change] = &[
    ("no list", "", |case| case.remove("shosts.equiv"), false),
    (
        "another host",
        "",
        |case| case.write("shosts.equiv", "192.0.2.1\n"),
        false,
    ),
    (
        "another user",
        "",
        |case| case.write("shosts.equiv", "127.0.0.1 nobody\n"),
        false,
    ),
    (
        "refused user",
        "",
        |case| {
            let user = &case.guest.name;
            case.write("shosts.equiv", &format!("127.0.0.1 -{user}\n127.0.0.1\n"));
        },
        false,
    ),
    (
        "wildcard",
        "",
        |case| case.write("shosts.equiv", "+\n+ +\n"),
        false,
    ),
    (
        "unknown key",
        "",
        |case| case.write("ssh_known_hosts", ""),
        false,
    ),
    (
        "known by another name",
        "",
        |case| {
            case.write("ssh_known_hosts", &case.known("localhost"));
        },
        false,
    ),
    (
        "revoked key",
        "",
        |case| {
            let lines = case.known("127.0.0.1");
            let revoked = case.known("@revoked *");
            case.write("ssh_known_hosts", &format!("{lines}{revoked}"));
        },
        false,
    ),
    (
        "keys of the second file",
        "",
        |case| {
            case.write("ssh_known_hosts", "");
            case.write("ssh_known_hosts2", &case.known("127.0.0.1"));
        },
        true,
    ),
    (
        "the user's list",
        "IgnoreRhosts no\n",
        |case| {
            case.remove("shosts.equiv");
            case.home(".rhosts", "127.0.0.1\n", 0o600);
        },
        true,
    ),
    (
        "the user's list, ignored",
        "",
        |case| {
            case.remove("shosts.equiv");
            case.home(".shosts", "127.0.0.1\n", 0o600);
        },
        false,
    ),
    (
        "~/.shosts alone",
        "IgnoreRhosts shosts-only\n",
        |case| {
            case.remove("shosts.equiv");
            case.home(".shosts", "127.0.0.1\n", 0o600);
        },
        true,
    ),
    (
        "~/.rhosts beside shosts-only",
        "IgnoreRhosts shosts-only\n",
        |case| {
            case.remove("shosts.equiv");
            case.home(".rhosts", "127.0.0.1\n", 0o600);
        },
        false,
    ),
    (
        "a list that others can write",
        "IgnoreRhosts no\n",
        |case| {
            case.remove("shosts.equiv");
            case.home(".shosts", "127.0.0.1\n", 0o622);
        },
        false,
    ),
    (
        "the user's known_hosts",
        "",
        |case| {
            case.write("ssh_known_hosts", "");
            case.home(".ssh/known_hosts", &case.known("127.0.0.1"), 0o600);
        },
        true,
    ),
    (
        "the user's known_hosts, ignored",
        "IgnoreUserKnownHosts yes\n",
        |case| {
            case.write("ssh_known_hosts", "");
            case.home(".ssh/known_hosts", &case.known("127.0.0.1"), 0o600);
        },
        false,
    ),
    (
        "known_hosts that others can write",
        "",
        |case| {
            case.write("ssh_known_hosts", "");
            case.home(".ssh/known_hosts", &case.known("127.0.0.1"), 0o666);
        },
        false,
    ),
    (
        "the client's word",
        "HostbasedUsesNameFromPacketOnly yes\n",
        |case| {
            case.write("shosts.equiv", "localhost\n");
            case.write("ssh_known_hosts", &case.known("localhost"));
        },
        true,
    ),
    (
        "the address beside the client's word",
        "HostbasedUsesNameFromPacketOnly yes\n",
        |_| {},
        false,
    ),
    (
        "a chain with another method",
        "AuthenticationMethods hostbased,publickey\nPubkeyAuthentication yes\n",
        |_| {},
        false,
    ),
    (
        "a chain of this method",
        "AuthenticationMethods hostbased\n",
        |_| {},
        true,
    ),
    (
        "switched off",
        "HostbasedAuthentication no\nPubkeyAuthentication yes\n",
        |_| {},
        false,
    ),
];

#[test]
fn the_same_lists_let_the_same_users_in_as_with_openssh() {
    for (what, options, change, succeeds) in CHANGES {
        let Some(mut case) = Case::new() else { return };
        case.server_options = (*options).to_owned();
        change(&case);
        let ours = case.run(Kind::Fulmar, Kind::Fulmar, Kind::Fulmar, &[]);
        assert_eq!(ours.logged_in, *succeeds, "{what}: {ours:?}");
        if installed("sshd").is_none() {
            skipped("openssh", &"sshd is not installed");
            continue;
        }
        let theirs = case.run(Kind::Fulmar, Kind::OpenSsh, Kind::Fulmar, &[]);
        assert_eq!(theirs.logged_in, *succeeds, "{what}: {theirs:?}");
        // OpenSSH tries a second key after a refusal, and stops later.
        assert_eq!(ours.lines, theirs.lines, "{what}");
    }
}

#[test]
fn keysign_signs_only_if_the_systems_configuration_says_so() {
    let Some(case) = Case::new() else { return };
    for text in [
        "",
        "EnableSSHKeysign no\n",
        "Host other\nEnableSSHKeysign yes\n",
        "Host *.invalid\nEnableSSHKeysign yes\n",
        "Host ?*\nEnableSSHKeysign yes\n",
        "Host ?\nEnableSSHKeysign yes\n",
        "Match final\nEnableSSHKeysign yes\n",
        "CanonicalizeHostname yes\nMatch canonical\nEnableSSHKeysign yes\n",
        "Match host *.invalid,127.*\nEnableSSHKeysign yes\n",
    ] {
        case.write("ssh_config", text);
        if Path::new(KEYSIGN).exists() && !text.is_empty() {
            let theirs = case.run(Kind::Fulmar, Kind::Fulmar, Kind::OpenSsh, &[]);
            assert!(!theirs.logged_in, "{text} {theirs:?}");
        }
        let ended = case.run(
            Kind::Fulmar,
            Kind::Fulmar,
            Kind::Fulmar,
            &["-oEnableSSHKeysign=yes"],
        );
        assert!(!ended.logged_in, "{ended:?}");
        assert!(
            ended
                .said
                .contains("ssh-keysign not enabled in /etc/ssh/ssh_config"),
            "{ended:?}"
        );
    }
}

/// Settings of hosts, which it has no use for, do not keep the program from signing.
#[test]
fn keysign_reads_the_rest_of_the_systems_configuration() {
    let Some(case) = Case::new() else { return };
    for text in [
        "Host *\nEnableSSHKeysign yes\n",
        "Host !?* *\nEnableSSHKeysign yes\n",
        "Host ?*\nEnableSSHKeysign no\nHost *\nEnableSSHKeysign yes\n",
        "Match host *\nEnableSSHKeysign yes\n",
        "Match !host ?*\nEnableSSHKeysign yes\n",
    ] {
        case.write("ssh_config", text);
        for signer in [Kind::Fulmar, Kind::OpenSsh] {
            if signer == Kind::OpenSsh && !Path::new(KEYSIGN).exists() {
                continue;
            }
            let ended = case.run(Kind::Fulmar, Kind::Fulmar, signer, &[]);
            assert!(ended.logged_in, "{text} {signer:?} {ended:?}");
        }
    }
    case.write(
        "ssh_config",
        "CanonicalizeHostname yes\nCanonicalizeFallbackLocal no\nMatch exec true\n\
         ProxyCommand none\nMatch !exec true\nEnableSSHKeysign no\nMatch all\n\
         EnableSSHKeysign yes\n",
    );
    for signer in [Kind::Fulmar, Kind::OpenSsh] {
        if signer == Kind::OpenSsh && !Path::new(KEYSIGN).exists() {
            continue;
        }
        let ended = case.run(Kind::Fulmar, Kind::Fulmar, signer, &[]);
        assert!(ended.logged_in, "{ended:?}");
    }
}

/// A caller chooses the name and the arguments of a set-user-ID program.
#[test]
fn the_set_user_id_binary_is_no_other_program() {
    let Some(case) = Case::new() else { return };
    let keysign = our_keysign(&case.etc);
    for script in [
        "exec -a ssh \"$0\" -V",
        "exec -a fulmar \"$0\" keygen -y -f /etc/shadow",
        "exec -a sshd \"$0\" -T",
    ] {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", &case.guest.name, "--regid", &case.guest.name])
            .args(["--clear-groups", "bash", "-c", script])
            .arg(&keysign);
        let outcome = run(
            &mut command,
            Input::Nothing,
            interop::process::COMMAND_LIMIT,
        )
        .unwrap();
        assert_eq!(outcome.status, 255, "{}", outcome.summary());
        assert_eq!(
            outcome.stderr.text(),
            "ssh-keysign not enabled in /etc/ssh/ssh_config\n"
        );
    }
}
