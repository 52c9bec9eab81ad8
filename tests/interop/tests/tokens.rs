//! Keys in PKCS #11 tokens (of SoftHSM and of kryoptic): in the client, the agent and keygen, beside OpenSSH's programs
//! with the same token.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agent::AgentClient;
use interop::agent::program;
use interop::peers::openssh;
use interop::peers::ours::Kind;
use interop::process::{Background, COMMAND_LIMIT, Input, Outcome, descendants};
use interop::scratch::{Scratch, until};
use interop::site::{HOST, Site, askpass, finish};
use interop::soft_token::{KEYS, LABEL, PIN, SoftLibrary, SoftToken};
use sys::process::ChildCommand;

/// Each test with each library.
macro_rules! with_each_library {
    ($($name:ident,)*) => {
        mod softhsm {
            $(
                #[test]
                fn $name() {
                    super::$name(super::SoftLibrary::SoftHsm);
                }
            )*
        }

        mod kryoptic {
            $(
                #[test]
                fn $name() {
                    super::$name(super::SoftLibrary::Kryoptic);
                }
            )*
        }
    };
}

with_each_library! {
    keygen_lists_what_openssh_lists,
    each_agent_and_add_have_all_keys_of_a_token,
    the_client_asks_for_the_pin_once_and_never_again_after_a_wrong_one,
    a_wrong_pin_for_one_signature_leaves_the_other_keys_alone,
    an_identity_file_selects_a_key_of_the_token,
    an_authority_in_a_token_certifies,
    a_library_has_no_terminal_and_little_environment,
    a_forwarded_client_loads_no_library,
    only_libraries_at_permitted_paths_are_loaded,
    a_constraint_holds_for_each_key_and_certificate_of_a_token,
    a_token_that_stands_still_delays_no_other_key,
    host_keys_in_a_token_serve_by_the_agent,
    a_library_that_is_none_is_refused_in_words,
    a_token_that_was_removed_is_told_in_words_and_costs_no_pin,
}

const BOTH: [Kind; 2] = [Kind::Fulmar, Kind::OpenSsh];

/// An agent that reaches the token.
struct TokenAgent {
    socket: PathBuf,
    process: Background,
    _scratch: Scratch,
}

impl TokenAgent {
    fn start(of: Kind, token: &SoftToken, flags: &[&str]) -> Self {
        let scratch = Scratch::new();
        let socket = scratch.join("agent");
        let mut command = program(of, "agent").expect("an agent");
        command.args(["-D", "-a"]).arg(&socket).args(flags);
        if !flags.contains(&"-P") && !token.library.starts_with("/usr/lib") {
            command.arg("-P").arg(&token.library);
        }
        command.stdout(Stdio::null()).env_remove("DISPLAY");
        let process = Background::start(token.reach(&mut command)).expect("an agent");
        assert!(until(COMMAND_LIMIT, || UnixStream::connect(&socket).is_ok()));
        Self {
            socket,
            process,
            _scratch: scratch,
        }
    }

    fn add(&self, of: Kind, arguments: &[&str], pin: &str) -> Outcome {
        let mut command = program(of, "add").expect("an ssh-add");
        command.env("SSH_AUTH_SOCK", &self.socket).args(arguments);
        command.env_remove("DISPLAY");
        finish(&mut command, Input::Bytes(format!("{pin}\n").as_bytes()))
    }

    fn list(&self) -> Vec<String> {
        let listed = self.add(Kind::Fulmar, &["-L"], "");
        let text = listed.stdout.text().to_owned();
        let lines = text.lines().filter(|line| !line.starts_with("The agent"));
        lines.map(str::to_owned).collect()
    }

    fn client(&self) -> AgentClient<UnixStream> {
        AgentClient::new(UnixStream::connect(&self.socket).expect("an agent"))
    }
}

fn library(token: &SoftToken) -> String {
    token.library.display().to_string()
}

/// The public keys of the token by our keygen.
fn public_keys(token: &SoftToken) -> Vec<String> {
    keygen(Kind::Fulmar, token, &["-D", &library(token)])
}

fn keygen(of: Kind, token: &SoftToken, arguments: &[&str]) -> Vec<String> {
    let mut command = program(of, "keygen").expect("a keygen");
    let done = finish(token.reach(command.args(arguments)), Input::Nothing);
    assert_eq!(done.status, 0, "{of:?} {}", done.summary());
    done.stdout.text().lines().map(str::to_owned).collect()
}

/// A server that accepts the keys of the token, with a client that has none of its own.
fn site(token: &SoftToken, client: Kind) -> (Site, PathBuf) {
    let scratch = Scratch::new();
    let config = openssh::server_config(Kind::Fulmar, &scratch);
    scratch.write("authorized_keys", public_keys(token).join("\n"));
    let running = openssh::start_with(Kind::Fulmar, scratch, &config).expect("a server");
    let site = Site { client, running };
    let config = site.config("");
    let text = std::fs::read_to_string(&config).expect("a configuration");
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().starts_with("IdentityFile"))
        .filter(|line| !line.trim().starts_with("IdentitiesOnly"))
        .collect();
    std::fs::write(
        &config,
        format!("{}\nIdentityFile none\n", lines.join("\n")),
    )
    .expect("a configuration");
    (site, config)
}

fn keygen_lists_what_openssh_lists(of: SoftLibrary) {
    let Some(token) = SoftToken::new(of) else {
        return;
    };
    let mut lists = BOTH.map(|of| keygen(of, &token, &["-D", &library(&token)]));
    for list in &mut lists {
        list.sort();
        assert_eq!(list.len(), KEYS.len());
    }
    assert_eq!(lists[0], lists[1]);
    let shown = keygen(Kind::Fulmar, &token, &["-l", "-D", &library(&token)]);
    assert!(
        shown.iter().all(|line| line.contains("SHA256:")),
        "{shown:?}"
    );
}

fn each_agent_and_add_have_all_keys_of_a_token(of: SoftLibrary) {
    let Some(token) = SoftToken::new(of) else {
        return;
    };
    let keys = public_keys(&token);
    let (site, config) = site(&token, Kind::Fulmar);
    let path = library(&token);
    for of_agent in BOTH {
        for of_add in BOTH {
            let agent = TokenAgent::start(of_agent, &token, &[]);
            let added = agent.add(of_add, &["-s", &path], PIN);
            assert_eq!(
                added.status,
                0,
                "{of_agent:?} {of_add:?} {}",
                added.summary()
            );
            let words = format!("Card added: {path}");
            assert!(added.stderr.text().contains(&words), "{}", added.summary());
            let mut listed = agent.list();
            listed.sort();
            let mut wanted = keys.clone();
            wanted.sort();
            assert_eq!(listed, wanted, "{of_agent:?} {of_add:?}");
            for key in &keys {
                let public = token.scratch().write("key.pub", key);
                let tested = agent.add(of_add, &["-T", &public.display().to_string()], "");
                assert_eq!(tested.status, 0, "{of_agent:?} {}", tested.summary());
                let mut ssh = site.client.ssh().expect("a client");
                ssh.arg("-F").arg(&config).arg("-oIdentitiesOnly=yes");
                ssh.arg("-i")
                    .arg(&public)
                    .arg(format!("-oIdentityAgent={}", agent.socket.display()));
                let outcome = finish(ssh.args([HOST, "true"]), Input::Nothing);
                assert_eq!(
                    outcome.status,
                    0,
                    "{of_agent:?} {key} {}",
                    outcome.summary()
                );
            }
            let removed = agent.add(of_add, &["-e", &path], PIN);
            assert_eq!(removed.status, 0, "{of_agent:?} {}", removed.summary());
            assert!(agent.list().is_empty());
        }
    }
}

fn the_client_asks_for_the_pin_once_and_never_again_after_a_wrong_one(of: SoftLibrary) {
    let Some(token) = SoftToken::new(of) else {
        return;
    };
    let path = library(&token);
    let (site, config) = site(&token, Kind::Fulmar);
    for (answers, is_right) in [([PIN, "x"], true), (["wrong", PIN], false)] {
        let scratch = Scratch::new();
        let program = askpass(&scratch, &answers);
        let mut ssh = site.client.ssh().expect("a client");
        ssh.arg("-F")
            .arg(&config)
            .args(["-oBatchMode=no", "-I", &path, HOST, "true"]);
        token.reach(&mut ssh).env_remove("SSH_AUTH_SOCK");
        ssh.env("SSH_ASKPASS", &program)
            .env("SSH_ASKPASS_REQUIRE", "force");
        let outcome = finish(&mut ssh, Input::Nothing);
        assert_eq!(outcome.status == 0, is_right, "{}", outcome.summary());
        let asked = std::fs::read_to_string(scratch.join("askpass.asked")).expect("a question");
        assert_eq!(asked, format!("Enter PIN for '{LABEL}': \n"));
        if !is_right {
            let said = outcome.stderr.text();
            assert!(said.contains("PIN incorrect"), "{said}");
        }
    }
}

/// A key that wants the PIN for each signature (CKA_ALWAYS_AUTHENTICATE): a wrong one is spent once, and
/// the token's other keys still sign.
fn a_wrong_pin_for_one_signature_leaves_the_other_keys_alone(of: SoftLibrary) {
    let Some(token) = SoftToken::new(of) else {
        return;
    };
    let others = public_keys(&token);
    token.add_key_with("careful key", "rsa:2048", &["--always-auth"]);
    let path = library(&token);
    let (site, config) = site(&token, Kind::Fulmar);
    let careful = public_keys(&token);
    let careful = careful.iter().find(|key| !others.contains(key));
    let careful = careful.expect("the new key");
    for (answers, is_alone, is_in) in [
        ([PIN, PIN, "x"], true, true),
        ([PIN, "wrong", PIN], true, false),
        // The token decides which of the two is tried first.
        ([PIN, "wrong", PIN], false, true),
    ] {
        let scratch = Scratch::new();
        let program = askpass(&scratch, &answers);
        let first = scratch.write("first.pub", careful);
        let second = scratch.write("second.pub", &others[0]);
        let mut ssh = site.client.ssh().expect("a client");
        ssh.arg("-F")
            .arg(&config)
            .args(["-v", "-oBatchMode=no", "-oIdentitiesOnly=yes", "-i"])
            .arg(&first);
        if !is_alone {
            ssh.arg("-i").arg(&second);
        }
        ssh.arg(format!("-oPKCS11Provider={path}"));
        token.reach(&mut ssh).env_remove("SSH_AUTH_SOCK");
        ssh.env("SSH_ASKPASS", &program)
            .env("SSH_ASKPASS_REQUIRE", "force");
        let outcome = finish(ssh.args([HOST, "true"]), Input::Nothing);
        assert_eq!(outcome.status == 0, is_in, "{}", outcome.summary());
        let said = outcome.stderr.text();
        let asked = std::fs::read_to_string(scratch.join("askpass.asked")).expect("a question");
        if is_alone {
            assert_eq!(asked.lines().count(), 2, "{asked}");
            assert_eq!(said.matches("PIN incorrect").count(), usize::from(!is_in));
        }
    }
}

fn an_identity_file_selects_a_key_of_the_token(of: SoftLibrary) {
    let Some(token) = SoftToken::new(of) else {
        return;
    };
    // Our client only: OpenSSH 9.2 has no Ed25519 keys in tokens.
    token.add_key("ed25519 key", "EC:edwards25519");
    let (site, config) = site(&token, Kind::Fulmar);
    let keys = public_keys(&token);
    assert_eq!(keys.len(), KEYS.len() + 1);
    for key in keys {
        let scratch = Scratch::new();
        let program = askpass(&scratch, &[PIN]);
        let public = scratch.write("key.pub", &key);
        let mut ssh = site.client.ssh().expect("a client");
        ssh.arg("-F")
            .arg(&config)
            .args(["-v", "-oBatchMode=no", "-oIdentitiesOnly=yes", "-i"]);
        ssh.arg(&public)
            .arg(format!("-oPKCS11Provider={}", library(&token)));
        token.reach(&mut ssh).env_remove("SSH_AUTH_SOCK");
        ssh.env("SSH_ASKPASS", &program)
            .env("SSH_ASKPASS_REQUIRE", "force");
        let outcome = finish(ssh.args([HOST, "true"]), Input::Nothing);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        let offers = outcome.stderr.text().matches("Offering public key").count();
        assert_eq!(offers, 1, "{}", outcome.summary());
    }
}

fn an_authority_in_a_token_certifies(of: SoftLibrary) {
    let Some(token) = SoftToken::new(of) else {
        return;
    };
    // OpenSSH 9.2 has no Ed25519 keys in tokens.
    token.add_key("ed25519 key", "EC:edwards25519");
    let keys = public_keys(&token);
    assert_eq!(keys.len(), KEYS.len() + 1);
    for (place, key) in keys.iter().enumerate() {
        let scratch = Scratch::new();
        let program = askpass(&scratch, &[PIN]);
        let authority = scratch.write("ca.pub", key);
        let user = scratch.write("user.pub", interop::fixture::text("user_ed25519.pub"));
        let mut command = interop::agent::program(Kind::Fulmar, "keygen").expect("a keygen");
        command
            .arg("-s")
            .arg(&authority)
            .args(["-D", &library(&token), "-I", "id", "-n", "mia"]);
        token.reach(command.arg(&user));
        command
            .env("SSH_ASKPASS", &program)
            .env("SSH_ASKPASS_REQUIRE", "force");
        let done = finish(&mut command, Input::Nothing);
        assert_eq!(done.status, 0, "{place}: {}", done.summary());
        let certificate = scratch.join("user-cert.pub").display().to_string();
        let shown = keygen(Kind::OpenSsh, &token, &["-L", "-f", &certificate]);
        assert!(
            shown.iter().any(|line| line.contains("Signing CA")),
            "{shown:?}"
        );
    }
}

/// Starts a library for a client that says it is on another machine, by each request.
fn remote_requests(agent: &TokenAgent, path: &str) -> [bool; 2] {
    let host = keys::PrivateKey::from_ed25519_seed(&[9; 32]);
    let session = b"session";
    let signed = host.sign(keys::SignatureAlgorithm::Ed25519, session);
    let mut client = agent.client();
    client
        .bind_session(
            &host.public().blob(),
            session,
            &signed.expect("a signature"),
            true,
        )
        .expect("a binding");
    let confirm = agent::Constraints {
        confirm: true,
        ..agent::Constraints::default()
    };
    [agent::Constraints::default(), confirm].map(|constraints| {
        client
            .add_token(path.as_bytes(), PIN.as_bytes(), &constraints)
            .is_ok()
    })
}

fn helpers(agent: &TokenAgent) -> Vec<u32> {
    let is_helper = |pid: &u32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.windows(13).any(|part| part == b"pkcs11-helper")
    };
    let mut all = descendants(agent.process.0.id());
    all.retain(is_helper);
    all
}

/// The process that loads a library has no terminal of the user, and of the environment only what libraries
/// need.
fn a_library_has_no_terminal_and_little_environment(of: SoftLibrary) {
    let Some(token) = SoftToken::new(of) else {
        return;
    };
    let agent = TokenAgent::start(Kind::Fulmar, &token, &[]);
    let added = agent.add(Kind::Fulmar, &["-s", &library(&token)], PIN);
    assert_eq!(added.status, 0, "{}", added.summary());
    let helpers = helpers(&agent);
    let [helper] = helpers.as_slice() else {
        panic!("{helpers:?}");
    };
    let environment = std::fs::read(format!("/proc/{helper}/environ")).expect("an environment");
    let environment = String::from_utf8_lossy(&environment).into_owned();
    let names: Vec<&str> = environment
        .split('\0')
        .filter_map(|entry| Some(entry.split_once('=')?.0))
        .collect();
    assert!(names.contains(&token.of.variable()), "{names:?}");
    let others = ["PATH", "CARGO_MANIFEST_DIR", "SSH_AUTH_SOCK"];
    assert!(!others.iter().any(|name| names.contains(name)), "{names:?}");
    for (descriptor, start) in [(0, "/dev/null"), (1, "/dev/null"), (2, "pipe:")] {
        let path = format!("/proc/{helper}/fd/{descriptor}");
        let target = std::fs::read_link(path).expect("a descriptor");
        assert!(target.to_string_lossy().starts_with(start), "{target:?}");
    }
    // Parent, process group, session, terminal: it leads a session without one.
    let stat = std::fs::read_to_string(format!("/proc/{helper}/stat")).expect("a state");
    let (_, rest) = stat.rsplit_once(')').expect("a name");
    let fields: Vec<&str> = rest.split_whitespace().skip(3).take(2).collect();
    assert_eq!(fields, [helper.to_string().as_str(), "0"]);
}

/// CVE-2016-10009, CVE-2023-38408.
fn a_forwarded_client_loads_no_library(of: SoftLibrary) {
    let Some(token) = SoftToken::new(of) else {
        return;
    };
    let path = library(&token);
    let agent = TokenAgent::start(Kind::Fulmar, &token, &[]);
    assert_eq!(remote_requests(&agent, &path), [false, false]);
    assert!(helpers(&agent).is_empty() && agent.list().is_empty());
    // What the option permits, and nothing else has changed.
    let agent = TokenAgent::start(Kind::Fulmar, &token, &["-O", "allow-remote-pkcs11"]);
    assert_eq!(remote_requests(&agent, &path), [true, true]);
    assert_eq!(agent.list().len(), KEYS.len());
}

fn only_libraries_at_permitted_paths_are_loaded(of: SoftLibrary) {
    let Some(token) = SoftToken::new(of) else {
        return;
    };
    let copy = token.scratch().join("copy.so");
    std::fs::copy(&token.library, &copy).expect("a copy");
    let link = token.scratch().join("link.so");
    std::os::unix::fs::symlink(&token.library, &link).expect("a link");
    let (copy, link) = (copy.display().to_string(), link.display().to_string());
    let agent = TokenAgent::start(Kind::Fulmar, &token, &[]);
    assert_ne!(agent.add(Kind::Fulmar, &["-s", &copy], PIN).status, 0);
    assert!(helpers(&agent).is_empty());
    assert_eq!(agent.add(Kind::Fulmar, &["-s", &link], PIN).status, 0);
    // The canonical path removes what the link has added.
    assert_eq!(
        agent
            .add(Kind::Fulmar, &["-e", &library(&token)], "")
            .status,
        0
    );
    assert!(until(COMMAND_LIMIT, || helpers(&agent).is_empty()));
    let agent = TokenAgent::start(Kind::Fulmar, &token, &["-P", &copy]);
    assert_eq!(agent.add(Kind::Fulmar, &["-s", &copy], PIN).status, 0);
    assert_ne!(agent.add(Kind::Fulmar, &["-s", &link], PIN).status, 0);
}

/// CVE-2023-28531, CVE-2023-51384.
fn a_constraint_holds_for_each_key_and_certificate_of_a_token(of: SoftLibrary) {
    let Some(token) = SoftToken::new(of) else {
        return;
    };
    let path = library(&token);
    let keys = public_keys(&token);
    let certificate = certificate_of(&token, &keys[1]);
    let hosts = token.scratch().write(
        "known_hosts",
        format!("elsewhere {}", interop::fixture::text("host_ed25519.pub")),
    );
    let hosts = hosts.display().to_string();
    let agent = TokenAgent::start(Kind::Fulmar, &token, &[]);
    for of_add in [Kind::Fulmar] {
        let arguments = ["-H", &hosts, "-h", "elsewhere", "-s", &path, &certificate];
        let added = agent.add(of_add, &arguments, PIN);
        assert_eq!(added.status, 0, "{}", added.summary());
        let mut client = agent.client();
        let identities = client.list().expect("a list");
        assert_eq!(identities.len(), KEYS.len() + 1);
        for identity in &identities {
            // No key signs for what is no login to the destination.
            let signed = client.sign(&identity.blob, b"anything", agent::SignFlags::NONE);
            assert!(signed.is_err(), "{}", identity.comment);
        }
        assert_eq!(agent.add(of_add, &["-e", &path], "").status, 0);
    }
    let added = agent.add(Kind::Fulmar, &["-C", "-s", &path, &certificate], PIN);
    assert_eq!(added.status, 0, "{}", added.summary());
    let listed = agent.list();
    assert_eq!(listed.len(), 1);
    assert!(listed[0].contains("-cert-v01@openssh.com"), "{listed:?}");
    assert_eq!(agent.add(Kind::Fulmar, &["-D"], "").status, 0);
    let added = agent.add(Kind::Fulmar, &["-t", "1", "-s", &path], PIN);
    assert_eq!(added.status, 0, "{}", added.summary());
    assert!(until(COMMAND_LIMIT, || agent.list().is_empty()));
    assert!(until(COMMAND_LIMIT, || helpers(&agent).is_empty()));
}

/// A certificate of a key of the token, by a key of the fixture.
fn certificate_of(token: &SoftToken, key: &str) -> String {
    let public = token.scratch().write("certified.pub", key);
    let authority = token
        .scratch()
        .write("ca", interop::fixture::text("user_ed25519"));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&authority, mode).expect("a mode");
    let (public, authority) = (
        public.display().to_string(),
        authority.display().to_string(),
    );
    keygen(
        Kind::Fulmar,
        token,
        &["-q", "-s", &authority, "-I", "id", "-n", "mia", &public],
    );
    public.replace(".pub", "-cert.pub")
}

fn a_token_that_stands_still_delays_no_other_key(of: SoftLibrary) {
    let Some(token) = SoftToken::new(of) else {
        return;
    };
    let agent = TokenAgent::start(Kind::Fulmar, &token, &[]);
    let added = agent.add(Kind::Fulmar, &["-s", &library(&token)], PIN);
    assert_eq!(added.status, 0, "{}", added.summary());
    let mut client = agent.client();
    let identities = client.list().expect("a list");
    let plain = keys::PrivateKey::from_ed25519_seed(&[7; 32]);
    client
        .add(&agent::AddRequest {
            key: keys::private_file::HeldKey {
                key: plain.clone(),
                certificate: None,
            },
            comment: "plain".to_owned(),
            constraints: agent::Constraints::default(),
        })
        .expect("a key");
    let [helper] = helpers(&agent)[..] else {
        panic!("one helper");
    };
    let status = std::fs::read_to_string(format!("/proc/{helper}/status")).expect("a process");
    assert!(
        status.contains("Seccomp:\t2") && status.contains("NoNewPrivs:\t1"),
        "{status}"
    );
    let signal = |name: &str| {
        let done = Command::new("kill")
            .args([name, &helper.to_string()])
            .status();
        assert!(done.expect("a signal").success());
    };
    signal("-STOP");
    let mut waiting = agent.client();
    let blob = identities[0].blob.clone();
    let signs = std::thread::spawn(move || {
        let signed = waiting.sign(&blob, b"data", agent::SignFlags::RSA_SHA2_256);
        signed.is_ok()
    });
    for _ in 0..100 {
        let signed = client.sign(&plain.public().blob(), b"data", agent::SignFlags::NONE);
        assert!(signed.is_ok());
    }
    assert!(!signs.is_finished());
    signal("-CONT");
    assert!(signs.join().expect("a signature"));
    // A helper that dies costs its own keys only.
    signal("-KILL");
    assert!(until(COMMAND_LIMIT, || helpers(&agent).is_empty()));
    assert!(
        client
            .sign(&identities[0].blob, b"data", agent::SignFlags::NONE)
            .is_err()
    );
    assert!(
        client
            .sign(&plain.public().blob(), b"data", agent::SignFlags::NONE)
            .is_ok()
    );
}

fn host_keys_in_a_token_serve_by_the_agent(of: SoftLibrary) {
    let Some(token) = SoftToken::new(of) else {
        return;
    };
    let agent = TokenAgent::start(Kind::Fulmar, &token, &[]);
    let added = agent.add(Kind::Fulmar, &["-s", &library(&token)], PIN);
    assert_eq!(added.status, 0, "{}", added.summary());
    let scratch = Scratch::new();
    let mut lines: Vec<String> = openssh::server_config(Kind::Fulmar, &scratch)
        .lines()
        .filter(|line| !line.starts_with("Host"))
        .map(str::to_owned)
        .collect();
    lines.push(format!("HostKeyAgent {}", agent.socket.display()));
    let mut known = String::new();
    for (place, key) in public_keys(&token).iter().enumerate() {
        let public = scratch.write(&format!("host{place}.pub"), key);
        lines.push(format!("HostKey {}", public.display()));
        known.push_str(&format!("hosts-alias {key}\n"));
    }
    let known = token.scratch().write("hosts", known);
    let running = openssh::start_with(Kind::Fulmar, scratch, &lines.join("\n"));
    let site = Site {
        client: Kind::Fulmar,
        running: running.expect("a server"),
    };
    for algorithm in ["rsa-sha2-512", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp521"] {
        let extra = format!(
            "HostKeyAlias hosts-alias\nUserKnownHostsFile {}\nHostKeyAlgorithms {algorithm}\n",
            known.display()
        );
        let outcome = site.run_with(&extra, &[HOST, "true"], Input::Nothing);
        assert_eq!(outcome.status, 0, "{algorithm} {}", outcome.summary());
    }
}

/// `ssh` with the token and somebody who answers; what it says, and how often a PIN was asked for.
fn login_by_token(
    (site, config): &(Site, PathBuf),
    token: &SoftToken,
    answers: &[&str],
) -> (Outcome, usize) {
    let scratch = Scratch::new();
    let program = askpass(&scratch, answers);
    let mut ssh = site.client.ssh().expect("a client");
    ssh.arg("-F").arg(config);
    ssh.args(["-oBatchMode=no", "-I", &library(token), HOST, "true"]);
    token.reach(&mut ssh).env_remove("SSH_AUTH_SOCK");
    ssh.env("SSH_ASKPASS", &program)
        .env("SSH_ASKPASS_REQUIRE", "force");
    let outcome = finish(&mut ssh, Input::Nothing);
    let asked = std::fs::read_to_string(scratch.join("askpass.asked")).unwrap_or_default();
    (outcome, asked.lines().count())
}

fn a_token_that_was_removed_is_told_in_words_and_costs_no_pin(of: SoftLibrary) {
    let Some(token) = SoftToken::new(of) else {
        return;
    };
    let site = site(&token, Kind::Fulmar);
    let away = token.scratch().join("away");
    std::fs::rename(token.objects(), &away).expect("it is taken away");
    // kryoptic makes a new one, without keys, where it finds no directory either.
    std::fs::create_dir(token.objects()).expect("a directory");
    let (outcome, asked) = login_by_token(&site, &token, &[PIN]);
    assert_ne!(outcome.status, 0, "{}", outcome.summary());
    assert_eq!(asked, 0, "{}", outcome.summary());
    let said = outcome.stderr.text();
    assert!(said.contains(&library(&token)), "{said}");
    std::fs::remove_dir_all(token.objects()).expect("a directory");
    std::fs::rename(&away, token.objects()).expect("it is put back");
    let (outcome, asked) = login_by_token(&site, &token, &[PIN]);
    assert_eq!((outcome.status, asked), (0, 1), "{}", outcome.summary());
}

/// kryoptic counts wrong PINs, as cards do: each question costs one attempt, the last one is announced, and a locked
/// PIN is not asked for.
#[test]
fn a_wrong_pin_costs_one_attempt_and_a_locked_one_no_question() {
    const ATTEMPTS: usize = 10;
    let Some(token) = SoftToken::new(SoftLibrary::Kryoptic) else {
        return;
    };
    let site = site(&token, Kind::Fulmar);
    let (outcome, _) = login_by_token(&site, &token, &[PIN]);
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
    for left in (1..=ATTEMPTS).rev() {
        let (outcome, asked) = login_by_token(&site, &token, &["wrong", PIN]);
        assert_ne!(outcome.status, 0, "{left}: {}", outcome.summary());
        assert_eq!(asked, 1, "{left}: {}", outcome.summary());
        let said = outcome.stderr.text();
        assert_eq!(said.contains("last attempt"), left == 1, "{left}: {said}");
        let warns = said.contains("few attempts are left");
        assert_eq!(warns, [2, 3].contains(&left), "{left}: {said}");
    }
    let (outcome, asked) = login_by_token(&site, &token, &[PIN]);
    assert_ne!(outcome.status, 0, "{}", outcome.summary());
    assert_eq!(asked, 0, "{}", outcome.summary());
    assert!(
        outcome.stderr.text().contains("locked"),
        "{}",
        outcome.summary()
    );
    // Nor does the agent send it.
    let agent = TokenAgent::start(Kind::Fulmar, &token, &[]);
    let added = agent.add(Kind::Fulmar, &["-s", &library(&token)], PIN);
    assert_ne!(added.status, 0, "{}", added.summary());
}

fn a_library_that_is_none_is_refused_in_words(of: SoftLibrary) {
    let Some(token) = SoftToken::new(of) else {
        return;
    };
    let no_library = Path::new("/usr/lib/os-release");
    let mut command = program(Kind::Fulmar, "keygen").expect("a keygen");
    for path in [no_library, Path::new("/nonexistent.so")] {
        let done = finish(token.reach(command.arg("-D").arg(path)), Input::Nothing);
        assert_ne!(done.status, 0);
        assert!(!done.stderr.text().is_empty());
        command = program(Kind::Fulmar, "keygen").expect("a keygen");
    }
}

/// A library that never returns.
const ENDLESS: &str =
    "#include <unistd.h>\nint C_GetFunctionList(void *list) { for (;;) pause(); }\n";

#[test]
fn a_library_that_never_returns_ends_with_whoever_loaded_it() {
    let Some(compiler) = interop::process::installed("cc") else {
        return interop::report::skipped("an endless library", &"there is no C compiler");
    };
    let scratch = Scratch::new();
    let source = scratch.write("endless.c", ENDLESS);
    let library = scratch.join("endless.so");
    let built = Command::new(compiler)
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(source)
        .status();
    assert!(built.expect("a compiler").success());
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    let fulmar = Kind::Fulmar.ssh().expect("a client");
    let mut command = ChildCommand::new(fulmar.get_program());
    command
        .args(["fulmar", "pkcs11-helper"])
        .arg(&library)
        .inherit_stdio()
        .fd(theirs.into(), 3);
    let mut helper = command.spawn().expect("a helper");
    drop(command);
    let maps = format!("/proc/{}/maps", helper.pid());
    let is_loaded = || {
        let maps = std::fs::read_to_string(&maps).unwrap_or_default();
        maps.contains("endless.so")
    };
    assert!(until(COMMAND_LIMIT, is_loaded), "it is not loaded");
    assert!(helper.try_wait().expect("a child").is_none());
    drop(ours);
    let ended = until(COMMAND_LIMIT, || {
        helper.try_wait().expect("a child").is_some()
    });
    assert!(ended, "the process of a library outlives its owner");
}
