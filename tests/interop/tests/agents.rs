//! `fulmar agent` and `fulmar add` with real clients and servers: restricted keys over one and two
//! hops, keys that ssh adds, and clients of other libraries.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use interop::agent::{RealAgent, program};
use interop::fixture;
use interop::peers::ours::Kind;
use interop::peers::python;
use interop::process::{Background, COMMAND_LIMIT, Input, installed, quoted_command_line};
use interop::report::skipped;
use interop::scratch::{Scratch, until};
use interop::site::{HOST, Site, askpass, each, finish};

const BOTH: [Kind; 2] = [Kind::Fulmar, Kind::OpenSsh];

/// The standard output of an ssh-add of this suite.
fn add(of: Kind, agent: &RealAgent, arguments: &[&str]) -> String {
    let mut command = program(of, "add").expect("an ssh-add");
    command.env("SSH_AUTH_SOCK", &agent.socket).args(arguments);
    let outcome = finish(&mut command, Input::Nothing);
    assert_eq!(
        outcome.status,
        0,
        "{of:?} {arguments:?}: {}",
        outcome.summary()
    );
    outcome.stdout.text().to_owned()
}

/// The client's configuration that logs in with the agent's key alone and forwards the agent.
fn restricted(site: &Site, agent: &RealAgent) -> std::path::PathBuf {
    let config = site.config(&format!("ForwardAgent yes\n{}", agent.line()));
    let lines = std::fs::read_to_string(&config).expect("a configuration");
    let key = fixture::file("user_ed25519").display().to_string();
    let public = fixture::file("user_ed25519.pub").display().to_string();
    std::fs::write(&config, lines.replace(&key, &public)).expect("a configuration");
    config
}

/// The known hosts file of a configuration.
fn known_hosts(config: &Path) -> String {
    let text = std::fs::read_to_string(config).expect("a configuration");
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("UserKnownHostsFile "));
    line.expect("known hosts").trim_matches('"').to_owned()
}

#[test]
fn restricted_keys_log_in_to_their_destinations_over_each_agent() {
    for of_agent in BOTH {
        let Some(agent) = RealAgent::start_of(of_agent, &[]) else {
            return;
        };
        each(|client, server| {
            let site = Site::new(client, server, "");
            let config = restricted(&site, &agent);
            let hosts = known_hosts(&config);
            let known = Scratch::new();
            let line = std::fs::read_to_string(&hosts).expect("known hosts");
            let names = known.write("names", renamed(&line));
            let key = known.write("key", fixture::text("user_ed25519"));
            let logs_in = |destinations: &[&str], command: &str| {
                let (key, names) = (key.display().to_string(), names.display().to_string());
                let mut arguments = vec!["-q", "-H", &names];
                for destination in destinations {
                    arguments.extend(["-h", destination]);
                }
                arguments.push(&key);
                let _ = add(Kind::Fulmar, &agent, &["-q", "-D"]);
                let _ = add(Kind::tested(), &agent, &arguments);
                let mut ssh = client.ssh().expect("a client");
                ssh.arg("-F").arg(&config).args([HOST, command]);
                finish(&mut ssh, Input::Nothing).status == 0
            };
            let who = format!("{}@localhost", interop::account::current_user());
            assert!(logs_in(&["localhost"], "true"), "{of_agent:?}");
            assert!(logs_in(&[&who], "true"), "{of_agent:?}");
            assert!(!logs_in(&["nobody@localhost"], "true"), "{of_agent:?}");
            assert!(!logs_in(&["there"], "true"), "{of_agent:?}");
            // The second hop, from the server to itself, needs a constraint of its own.
            let mut ssh = client.ssh().expect("a client");
            ssh.arg("-F").arg(&config);
            let words = quoted_command_line(&ssh);
            let again = format!("{} -o IdentityAgent=SSH_AUTH_SOCK {HOST} true", words);
            assert!(
                logs_in(&["localhost", "localhost>localhost"], &again),
                "{of_agent:?}"
            );
            assert!(!logs_in(&["localhost"], &again), "{of_agent:?}");
            assert!(
                !logs_in(&["localhost", "there>localhost"], &again),
                "{of_agent:?}"
            );
        });
    }
}

/// The agent holds the key for another destination only, and the key's file is there, too.
#[test]
fn a_key_that_the_agent_keeps_to_another_host_is_taken_from_its_file() {
    let Some(agent) = RealAgent::start_of(Kind::Fulmar, &[]) else {
        return;
    };
    each(|client, server| {
        let site = Site::new(client, server, "");
        let config = site.config(&agent.line());
        let known = Scratch::new();
        let line = std::fs::read_to_string(known_hosts(&config)).expect("known hosts");
        let names = known.write("names", renamed(&line)).display().to_string();
        let key = known.write("key", fixture::text("user_ed25519"));
        let key = key.display().to_string();
        let tested = Kind::tested();
        let _ = add(tested, &agent, &["-q", "-H", &names, "-h", "there", &key]);
        let mut ssh = client.ssh().expect("a client");
        ssh.arg("-F").arg(&config).args([HOST, "echo in"]);
        finish(&mut ssh, Input::Nothing).assert_in("the key's file");
        let _ = add(tested, &agent, &["-q", "-D"]);
    });
}

/// The other host's ssh-add asks the forwarded agent to remove all keys.
#[test]
fn a_host_removes_no_key_that_it_may_not_see() {
    if installed("ssh-add").is_none() {
        return skipped("ssh-add on the other host", &"not installed");
    }
    let Some(agent) = RealAgent::start_of(Kind::Fulmar, &[]) else {
        return;
    };
    each(|client, server| {
        let site = Site::new(client, server, "");
        let extra = format!("ForwardAgent yes\n{}", agent.line());
        let config = site.config(&extra);
        let known = Scratch::new();
        let line = std::fs::read_to_string(known_hosts(&config)).expect("known hosts");
        let names = known.write("names", renamed(&line)).display().to_string();
        let hidden = known.write("key", fixture::text("user_ecdsa256"));
        let hidden = hidden.display().to_string();
        let visible = known.write("other", fixture::text("user_rsa"));
        let visible = visible.display().to_string();
        let tested = Kind::tested();
        let _ = add(
            tested,
            &agent,
            &["-q", "-H", &names, "-h", "there", &hidden],
        );
        let listed = add(tested, &agent, &["-L"]);
        let _ = add(tested, &agent, &["-q", &visible]);
        for command in ["ssh-add -L", "ssh-add -D"] {
            let mut ssh = client.ssh().expect("a client");
            ssh.arg("-F").arg(&config).args([HOST, command]);
            let outcome = finish(&mut ssh, Input::Nothing);
            assert_eq!(outcome.status, 0, "{command}: {}", outcome.summary());
            let shown = outcome.stdout.text();
            assert!(!shown.contains("ecdsa-sha2"), "{shown}");
        }
        assert_eq!(add(tested, &agent, &["-L"]), listed);
        let _ = add(tested, &agent, &["-q", "-D"]);
    });
}

/// Known hosts lines of the server with the name `localhost`, which its certificate has, and a host
/// `there` with another key.
fn renamed(lines: &str) -> String {
    let here: Vec<String> = lines
        .lines()
        .filter_map(|line| {
            let (first, rest) = line.split_once(' ')?;
            Some(match first {
                "@cert-authority" => format!("{first} localhost {}", rest.split_once(' ')?.1),
                _ => format!("localhost {rest}"),
            })
        })
        .collect();
    let other = fixture::text("user_ecdsa256.pub");
    format!("{}\nthere {other}", here.join("\n"))
}

#[test]
fn ssh_adds_the_keys_that_it_has_used() {
    for of_agent in BOTH {
        let Some(agent) = RealAgent::start_of(of_agent, &[]) else {
            return;
        };
        each(|client, server| {
            let site = Site::new(client, server, "");
            let listed = |option: &str, answers: Option<&str>| {
                let _ = add(Kind::Fulmar, &agent, &["-q", "-D"]);
                let extra = format!("AddKeysToAgent {option}\n{}", agent.line());
                let mut command = site.ssh(&extra);
                let scratch = Scratch::new();
                if let Some(answer) = answers {
                    command
                        .env("SSH_ASKPASS", askpass(&scratch, &[answer]))
                        .env("SSH_ASKPASS_REQUIRE", "force");
                }
                let outcome = finish(command.args([HOST, "true"]), Input::Nothing);
                assert_eq!(outcome.status, 0, "{option}: {}", outcome.summary());
                let mut list = program(Kind::Fulmar, "add").expect("an ssh-add");
                list.env("SSH_AUTH_SOCK", &agent.socket).arg("-l");
                let outcome = finish(&mut list, Input::Nothing);
                outcome.stdout.text().matches("ED25519").count()
            };
            assert_eq!(listed("no", None), 0);
            assert_eq!(listed("yes", None), 1, "{client:?} {of_agent:?}");
            assert_eq!(listed("ask", Some("yes")), 1);
            assert_eq!(listed("ask", Some("no")), 0);
            assert_eq!(listed("1h", None), 1);
            assert_eq!(listed("confirm", None), 1);
        });
    }
}

#[test]
fn gpg_agent_holds_keys_that_we_add() {
    let Some(gpg) = installed("gpg-agent") else {
        return skipped("gpg-agent", &"not installed");
    };
    let scratch = Scratch::new();
    let home = scratch.join("gnupg");
    std::fs::create_dir(&home).expect("a folder");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&home, mode).expect("its mode");
    scratch.write(
        "gnupg/gpg-agent.conf",
        "enable-ssh-support\nallow-preset-passphrase\n",
    );
    let pinentry = scratch.write(
        "pinentry",
        "#!/bin/sh\necho OK\nwhile read line; do case $line in GETPIN) echo 'D sesame';; esac; echo OK; done\n",
    );
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&pinentry, mode).expect("its mode");
    let mut command = Command::new(gpg);
    command
        .arg("--homedir")
        .arg(&home)
        .arg("--pinentry-program")
        .arg(&pinentry)
        .args(["--daemon", "--no-detach", "--enable-ssh-support"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _agent = Background::start(&mut command).expect("gpg-agent");
    let socket = home.join("S.gpg-agent.ssh");
    assert!(until(COMMAND_LIMIT, || UnixStream::connect(&socket).is_ok()));
    let key = scratch.write("key", fixture::text("user_ed25519"));
    scratch.write("key.pub", fixture::text("user_ed25519.pub"));
    for (arguments, expected) in [
        (vec!["-q".to_owned(), key.display().to_string()], ""),
        (vec!["-T".to_owned(), key.display().to_string()], ""),
        (vec!["-l".to_owned()], "(ED25519)\n"),
        (
            vec!["-q".to_owned(), "-d".to_owned(), key.display().to_string()],
            "",
        ),
    ] {
        let mut add = program(Kind::Fulmar, "add").expect("an ssh-add");
        add.env("SSH_AUTH_SOCK", &socket).args(&arguments);
        let outcome = finish(&mut add, Input::Nothing);
        assert_eq!(outcome.status, 0, "{arguments:?} {}", outcome.summary());
        assert!(outcome.stdout.text().ends_with(expected));
    }
}

#[test]
fn clients_of_other_libraries_use_the_agent() {
    let keys = ["ed25519", "ecdsa256", "rsa"];
    let Some(agent) = RealAgent::start_of(Kind::Fulmar, &keys) else {
        return;
    };
    let signed = "signed ssh-ed25519\nsigned ecdsa-sha2-nistp256\nsigned ssh-rsa\n";
    let changed = "listed 4\nlisted 0\nlisted 0\n";
    let go = fixture::target_folder().join("peers-go/agent");
    let commands = [
        ("paramiko", python::script_command("agent_client.py"), ""),
        (
            "asyncssh",
            python::script_command("agent_client.py"),
            changed,
        ),
        (
            "go",
            match go.is_file() {
                true => Ok(Command::new(&go)),
                false => Err("run .ci/peers to build it".to_owned()),
            },
            changed,
        ),
    ];
    let scratch = Scratch::new();
    let other = scratch.write("other", fixture::text("user_ecdsa384"));
    for (name, command, rest) in commands {
        let mut command = match command {
            Ok(command) => command,
            Err(why) => {
                skipped(name, &why);
                continue;
            }
        };
        command
            .env("SSH_AUTH_SOCK", &agent.socket)
            .arg(name)
            .arg(&other);
        let outcome = finish(&mut command, Input::Nothing);
        assert_eq!(outcome.status, 0, "{name}: {}", outcome.summary());
        assert_eq!(outcome.stdout.text(), format!("{signed}{rest}"), "{name}");
        if !rest.is_empty() {
            agent.add(&keys);
        }
    }
}
