//! Keys in security keys: a token that waits delays nobody, which libraries are loaded for whom, and
//! the programs of OpenSSH with its dummy token.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use agent::message::{FAILURE, SIGN_RESPONSE, SUCCESS};
use agent::{AgentClient, AgentError, Constraints, SignFlags};
use keys::{KeySpec, PrivateKey, PublicKey};

use crate::protocol::{adding, answer, bind, key, sign_request};
use crate::{Agent, Folder, Run, Whose, until};

/// OpenSSH's dummy token, of its package of tests; another place may be named.
const DUMMY: &str = "/usr/lib/openssh/regress/misc/sk-dummy/sk-dummy.so";
const DUMMY_VARIABLE: &str = "FULMAR_SK_DUMMY";

/// A provider that signs with the key `wait` when the file `touched` exists.
fn token(folder: &Folder) -> PathBuf {
    let path = folder.join("token.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fido/tests/token.c");
    let built = Command::new("cc")
        .args(["-O1", "-shared", "-fPIC", "-o"])
        .arg(&path)
        .arg(format!(
            "-DWAIT_FOR=\"{}\"",
            folder.join("touched").display()
        ))
        .arg(format!("-DPROBE=\"{}\"", folder.join("probe").display()))
        .arg(source)
        .status()
        .expect("a C compiler");
    assert!(built.success());
    path.canonicalize().unwrap()
}

fn security_key(application: &str, handle: &str, flags: u8) -> PrivateKey {
    let public = PublicKey::SkEd25519 {
        point: [7; 32],
        application: application.as_bytes().to_vec(),
    };
    PrivateKey::of_security_key(public, flags, handle.as_bytes()).unwrap()
}

fn by(provider: &Path) -> Constraints {
    Constraints {
        provider: Some(provider.display().to_string()),
        ..Constraints::default()
    }
}

fn allowing(folder: &Folder) -> String {
    format!("{}/*", folder.path.canonicalize().unwrap().display())
}

pub(crate) fn a_token_that_waits_delays_nobody(folder: &Folder) {
    let token = token(folder);
    let agent = Agent::start_asking(folder, &["-P", &allowing(folder)]);
    let waiting = security_key("ssh:", "wait", 1);
    let mut client = agent.connect();
    client.add(&adding(waiting.clone(), by(&token))).unwrap();
    client.add(&adding(key(2), Constraints::default())).unwrap();
    let plain = key(2).public().blob();
    let blob = waiting.public().blob();
    let mut stream = UnixStream::connect(&agent.socket).unwrap();
    let measured = |client: &mut AgentClient<UnixStream>| {
        let mut times: Vec<_> = (0..300)
            .map(|_| {
                let start = Instant::now();
                client.sign(&plain, b"data", SignFlags::NONE).unwrap();
                start.elapsed()
            })
            .collect();
        times.sort();
        times[times.len() * 99 / 100]
    };
    let alone = measured(&mut client);
    std::io::Write::write_all(&mut stream, &sign_request(&blob, b"data")).unwrap();
    until(|| folder.join("asked").exists());
    let beside = measured(&mut client);
    println!("99 % of signatures: {alone:?} alone, {beside:?} beside a token that waits");
    std::fs::write(folder.join("touched"), "").unwrap();
    assert_eq!(answer(&mut stream)[0], SIGN_RESPONSE);
    let asked = std::fs::read_to_string(folder.join("asked")).unwrap();
    let fingerprint = keys::fingerprint::sha256(&blob);
    assert_eq!(
        asked,
        format!(
            "Confirm user presence for key ED25519-SK {fingerprint}\n\
             It signs data of an unknown kind.\nhint none\n"
        )
    );
    // The process of a request ends with its client, and the key signs again.
    std::fs::remove_file(folder.join("touched")).unwrap();
    std::fs::remove_file(folder.join("asked")).unwrap();
    std::io::Write::write_all(&mut stream, &sign_request(&blob, b"data")).unwrap();
    until(|| folder.join("asked").exists());
    drop(stream);
    until(|| helpers_of(&token) == 0);
    std::fs::write(folder.join("touched"), "").unwrap();
    client.sign(&blob, b"data", SignFlags::NONE).unwrap();
}

pub(crate) fn clients_that_leave_free_no_room(folder: &Folder) {
    let token = token(folder);
    let agent = Agent::start_asking(folder, &["-P", &allowing(folder)]);
    let asks_and_leaves = |blob: &[u8]| {
        let mut stream = UnixStream::connect(&agent.socket).unwrap();
        std::io::Write::write_all(&mut stream, &sign_request(blob, b"data")).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    };
    let asked = || {
        let text = std::fs::read_to_string(folder.join("asked")).unwrap_or_default();
        text.matches("hint ").count()
    };
    let waiting = security_key("ssh:", "wait", 1);
    let confirmed = Constraints {
        confirm: true,
        ..Constraints::default()
    };
    let mut client = agent.connect();
    client.add(&adding(waiting.clone(), by(&token))).unwrap();
    client.add(&adding(key(2), confirmed)).unwrap();
    let blob = waiting.public().blob();
    let mut stream = UnixStream::connect(&agent.socket).unwrap();
    std::io::Write::write_all(&mut stream, &sign_request(&blob, b"data")).unwrap();
    until(|| asked() == 1);
    // Nobody is asked to touch the token for those whose turn would have come later.
    for _ in 0..4 {
        asks_and_leaves(&blob);
    }
    std::fs::write(folder.join("touched"), "").unwrap();
    assert_eq!(answer(&mut stream)[0], SIGN_RESPONSE);
    client.sign(&blob, b"data", SignFlags::NONE).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(asked(), 2);
    // The windows of clients that have gone count.
    for _ in 0..24 {
        asks_and_leaves(&key(2).public().blob());
    }
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(asked(), 2 + 16);
    std::fs::write(folder.join("answer"), "no").unwrap();
}

/// Processes that have the library loaded.
fn helpers_of(library: &Path) -> usize {
    let name = library.display().to_string();
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| {
            std::fs::read_to_string(entry.path().join("maps"))
                .is_ok_and(|maps| maps.contains(&name))
        })
        .count()
}

pub(crate) fn libraries_are_loaded_for_local_clients_only(folder: &Folder) {
    let token = token(folder);
    let sk = security_key("ssh:", "name", 1);
    // Without -P only the system's directories; a path that leads out of them does not count.
    let agent = Agent::start(folder, Whose::Ours, &[]);
    let mut client = agent.connect();
    let detour = Path::new("/usr/lib/../..").join(token.strip_prefix("/").unwrap());
    for path in [&token, &detour, &PathBuf::from("/nonexistent")] {
        let refused = client.add(&adding(sk.clone(), by(path)));
        assert!(matches!(refused, Err(AgentError::Refused)), "{path:?}");
    }
    // A provider is needed, and only for such keys.
    let refused = client.add(&adding(sk.clone(), Constraints::default()));
    assert!(matches!(refused, Err(AgentError::Refused)));
    let refused = client.add(&adding(key(1), by(Path::new("internal"))));
    assert!(matches!(refused, Err(AgentError::Refused)));
    assert!(client.list().unwrap().is_empty());
    drop(agent);
    // A client on another machine names no provider, not even the one without a library.
    let allowed = allowing(folder);
    for (flags, is_added) in [(&[][..], false), (&["-O", "allow-remote-pkcs11"], true)] {
        let flags = [&["-P", &allowed], flags].concat();
        let agent = Agent::start(folder, Whose::Ours, &flags);
        let mut stream = UnixStream::connect(&agent.socket).unwrap();
        std::io::Write::write_all(&mut stream, &bind(key(9), b"session", true)).unwrap();
        assert_eq!(answer(&mut stream), [SUCCESS]);
        let mut remote = AgentClient::new(stream);
        for provider in [&token, &PathBuf::from("internal")] {
            let added = remote.add(&adding(sk.clone(), by(provider)));
            assert_eq!(added.is_ok(), is_added, "{provider:?} {flags:?}");
        }
        let mut local = agent.connect();
        local.add(&adding(sk.clone(), by(&token))).unwrap();
        local
            .sign(&sk.public().blob(), b"data", SignFlags::NONE)
            .unwrap();
    }
}

pub(crate) fn keys_of_web_sites_sign_no_other_data(folder: &Folder) {
    let token = token(folder);
    let allowed = allowing(folder);
    let web = security_key("https://web", "name", 1);
    let blob = web.public().blob();
    let login = |agent: &Agent| {
        let mut stream = UnixStream::connect(&agent.socket).unwrap();
        let signed = wire::userauth::publickey_signed_data(
            b"session",
            b"user",
            b"ssh-connection",
            b"sk-ssh-ed25519@openssh.com",
            &blob,
            None,
        );
        std::io::Write::write_all(&mut stream, &sign_request(&blob, &signed)).unwrap();
        answer(&mut stream)[0]
    };
    for (flags, signs) in [
        (&[][..], false),
        (&["-O", "no-restrict-websafe"], true),
        (&["-O", "websafe-allow=https:*"], true),
        (&["-O", "websafe-allow=https:*,!https://web"], false),
    ] {
        let flags = [&["-P", &allowed], flags].concat();
        let agent = Agent::start(folder, Whose::Ours, &flags);
        let mut client = agent.connect();
        client.add(&adding(web.clone(), by(&token))).unwrap();
        let signed = client.sign(&blob, b"data", SignFlags::NONE);
        assert_eq!(signed.is_ok(), signs, "{flags:?}");
        assert_eq!(login(&agent), SIGN_RESPONSE);
    }
    assert_ne!(SIGN_RESPONSE, FAILURE);
}

pub(crate) fn resident_keys_are_added_with_their_constraints(folder: &Folder) {
    let token = token(folder);
    let allowed = allowing(folder);
    let agent = Agent::start(folder, Whose::Ours, &["-P", &allowed]);
    let provider = token.display().to_string();
    let add = |pin: &str| {
        agent.add_with(
            folder,
            Whose::Ours,
            &["-K", "-S", &provider, "-t", "60"],
            pin,
        )
    };
    let wrong = add("4321\n");
    assert_eq!(wrong.status, Some(1), "{wrong:?}");
    assert!(
        wrong.err.contains("Unable to load resident keys: "),
        "{wrong:?}"
    );
    let added = add("1234\n");
    assert_eq!(added.status, Some(0), "{added:?}");
    let lines = added
        .err
        .matches("Resident identity added: ED25519-SK SHA256:")
        .count();
    assert_eq!(lines, 2, "{added:?}");
    // A constraint holds for each key of the token (CVE-2023-28531).
    assert_eq!(added.err.matches("Lifetime set to 00:01:00").count(), 2);
    assert_eq!(agent.connect().list().unwrap().len(), 2);
}

pub(crate) fn the_dummy_token_of_openssh_signs_over_each_agent(folder: &Folder) {
    let dummy =
        std::env::var_os(DUMMY_VARIABLE).map_or_else(|| PathBuf::from(DUMMY), PathBuf::from);
    let Ok(dummy) = dummy.canonicalize() else {
        println!(
            "skipped: OpenSSH's dummy token is not installed (openssh-tests, {DUMMY_VARIABLE})"
        );
        return;
    };
    let text = dummy.display().to_string();
    for kind in ["ed25519-sk", "ecdsa-sk"] {
        let made = crate::run(
            Command::new("ssh-keygen")
                .args(["-q", "-t", kind, "-N", "", "-f", kind, "-w", &text])
                .current_dir(&folder.path),
            "",
        );
        assert_eq!(made.status, Some(0), "{made:?}");
    }
    // A key whose algorithm has another provider is not disturbed by it.
    folder.key("plain", KeySpec::Ed25519, None);
    let pattern = format!("{text},/nothing/*");
    for agent_of in Whose::all() {
        let agent = Agent::start(folder, agent_of, &["-P", &pattern]);
        for add_of in Whose::all() {
            let good =
                |run: Run| assert_eq!(run.status, Some(0), "{agent_of:?} {add_of:?} {run:?}");
            let files = ["ed25519-sk", "ecdsa-sk", "plain"];
            let mut args = vec!["-q", "-S", &text];
            args.extend(files);
            good(agent.add(folder, add_of, &args));
            let publics = files.map(|file| format!("{file}.pub"));
            let mut args = vec!["-T"];
            args.extend(publics.iter().map(String::as_str));
            good(agent.add(folder, Whose::Ours, &args));
            good(agent.add(folder, Whose::Theirs, &args));
            good(agent.add(folder, add_of, &["-q", "-D"]));
        }
    }
}
