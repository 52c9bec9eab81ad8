//! Behaviour of all programs: `--help`, and output to a closed pipe.

use std::io::Read as _;
use std::process::{Command, Output, Stdio};

const PROGRAMS: &[&str] = &[
    "ssh",
    "sshd",
    "sftp-server",
    "scp",
    "sftp",
    "keygen",
    "agent",
    "add",
    #[cfg(feature = "bench")]
    "demo",
    #[cfg(feature = "bench")]
    "bench",
    #[cfg(feature = "bench")]
    "speed",
    "install",
];

fn fulmar(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    fulmar(arguments).output().unwrap()
}

/// The writing end of a pipe without a reader.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn help_is_output_and_no_error() {
    for program in PROGRAMS {
        let output = run(&[program, "--help"]);
        assert_eq!(output.status.code(), Some(0), "{program}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("usage: "), "{program}: {text}");
        assert_eq!(output.stderr, b"", "{program}");
    }
    // After other words it is an ordinary argument.
    assert_eq!(run(&["scp", "x", "--help"]).status.code(), Some(1));
}

/// keychain looks for the word OpenSSH, other scripts for the number after it.
#[test]
fn the_version_names_the_openssh_that_it_is_compatible_with() {
    for program in ["ssh", "sshd", "agent"] {
        let output = run(&[program, "-V"]);
        assert_eq!(output.status.code(), Some(0), "{program}");
        let text = String::from_utf8(output.stderr).unwrap();
        let words: Vec<&str> = text.trim_end().split(' ').collect();
        assert!(words[0].starts_with("Fulmar_"), "{program}: {text}");
        let rest = ["(compatible", "with", "OpenSSH_10.6)"];
        assert_eq!(words[1..], rest, "{program}");
    }
}

#[cfg(not(feature = "bench"))]
#[test]
fn a_program_that_the_build_lacks_is_refused_by_name() {
    let help = run(&["help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    for program in ["demo", "bench", "speed"] {
        assert!(!help.contains(&format!("\n  {program} ")), "{help}");
        let output = run(&[program, "--help"]);
        assert_eq!(output.status.code(), Some(2), "{program}");
        assert_eq!(output.stdout, b"", "{program}");
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            format!(
                "fulmar: this build has no {program:?}: it was made without the feature bench\n"
            )
        );
    }
}

#[test]
fn a_reader_that_left_is_no_reason_to_panic() {
    // Each of these writes to standard error.
    for arguments in [
        &["nothing"][..],
        &["ssh"],
        &["ssh", "-F", "/nonexistent", "h"],
        &["sshd", "--frob"],
        &["sftp-server", "--frob"],
        &["scp", "--frob"],
        &["sftp", "--frob"],
        &["keygen", "--frob"],
        &["keygen", "-l", "-f", "/nonexistent"],
        &["agent", "--frob"],
        &["agent", "-a", "/nonexistent/socket"],
        &["add", "--frob"],
        &["install", "--frob"],
        &["sshd-monitor"],
        &["sshd-auth"],
        &["sshd-session"],
        &["sshd-reader"],
        &["sshd-recorder"],
        &["compress-provider"],
        &["pkcs11-helper"],
        &["gssapi-helper"],
    ] {
        let heard = run(arguments);
        assert_ne!(heard.stderr, b"", "{arguments:?} says nothing");
        let status = heard.status.code().unwrap();
        assert!(status != 0 && status != 101, "{arguments:?}: {status}");
        let unheard = fulmar(arguments).stderr(unread()).status().unwrap();
        assert_eq!(unheard.code(), Some(status), "{arguments:?}");
    }
}

#[test]
fn output_that_did_not_arrive_is_a_failure() {
    for arguments in [
        &["--help"][..],
        &["version"],
        &["keygen", "--help"],
        &["sftp-server", "-Q", "requests"],
    ] {
        assert_eq!(run(arguments).status.code(), Some(0), "{arguments:?}");
        let unread = fulmar(arguments).stdout(unread()).output().unwrap();
        assert_eq!(unread.status.code(), Some(1), "{arguments:?}");
        assert_eq!(unread.stderr, b"", "{arguments:?}");
    }
}

#[test]
fn errors_of_the_system_have_no_numbers() {
    for arguments in [
        &["ssh", "-F", "/nonexistent", "h"][..],
        &["ssh", "-E", "/nonexistent/log", "h"],
        &["keygen", "-y", "-f", "/nonexistent"],
        &["keygen", "-l", "-f", "/nonexistent"],
        &["agent", "-a", "/nonexistent/socket"],
        &["sshd", "-t", "-f", "/nonexistent"],
        &["sftp", "-b", "/nonexistent", "h"],
    ] {
        let mut child = fulmar(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut text = String::new();
        let mut stderr = child.stderr.take().unwrap();
        stderr.read_to_string(&mut text).unwrap();
        assert_ne!(child.wait().unwrap().code(), Some(0), "{arguments:?}");
        assert!(text.contains("No such file"), "{arguments:?}: {text}");
        assert!(!text.contains("(os error"), "{arguments:?}: {text}");
    }
}

#[test]
fn a_file_that_is_not_there_is_said_in_one_line() {
    for arguments in [
        &["ssh", "-F", "/nonexistent", "h"][..],
        &["sshd", "-t", "-f", "/nonexistent"],
    ] {
        let output = run(arguments);
        assert_ne!(output.status.code(), Some(0));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
        assert!(
            said.contains("/nonexistent") && said.contains("No such file or directory"),
            "{said}"
        );
        assert!(!said.contains("options"), "{said}");
    }
}

/// Runs `install` below a directory; returns its lines with their first words.
fn install(root: &std::path::Path, flags: &[&str]) -> Vec<(String, String)> {
    let root = root.to_str().unwrap();
    let output = run(&[&["install", "--root", root], flags].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().take_while(|line| !line.is_empty());
    lines
        .filter_map(|line| line.split_once(' '))
        .map(|(verb, path)| (verb.to_owned(), path.trim().to_owned()))
        .collect()
}

#[test]
fn an_installation_says_what_it_leaves_alone() {
    let root = std::env::temp_dir().join(format!("fulmar-install-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    let first = install(&root, &["--pam", "debian"]);
    assert!(first.iter().all(|(verb, _)| verb != "same"), "{first:?}");
    let configuration = root.join("etc/fulmar/sshd_config");
    std::fs::write(&configuration, "# mine\n").unwrap();
    let second = install(&root, &["--pam", "debian"]);
    let changed = |(verb, _): &&(String, String)| verb != "same";
    let changed: Vec<_> = second.iter().filter(changed).collect();
    let mine = (
        "keep".to_owned(),
        format!("{} (it is yours)", configuration.display()),
    );
    assert!(changed.contains(&&mine), "{changed:?}");
    assert!(
        changed
            .iter()
            .all(|(verb, path)| verb == "keep" || path.ends_with("_key")),
        "{changed:?}"
    );
    let removed = install(&root, &["--remove"]);
    let left: Vec<_> = removed.iter().filter(|(verb, _)| verb == "keep").collect();
    let (_, left) = left.first().unwrap();
    assert_eq!(
        *left,
        format!(
            "{} (changed since it was installed)",
            configuration.display()
        )
    );
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn an_installation_that_fails_has_not_said_that_it_copied() {
    // Nobody makes a directory there.
    let output = run(&["install", "--root", "/proc"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("/proc/usr"), "{said}");
}

/// As for OpenSSH, to which the name that it is called by is a name only.
#[test]
fn a_link_to_a_programs_name_is_that_program_by_any_name() {
    use std::os::unix::fs::symlink;
    use std::os::unix::process::CommandExt as _;
    let folder = std::env::temp_dir().join(format!("fulmar-names-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("other")).unwrap();
    let place = |name: &str| folder.join(name);
    symlink(env!("CARGO_BIN_EXE_fulmar"), place("ssh-keygen")).unwrap();
    symlink("ssh-keygen", place("mykeys")).unwrap();
    symlink("../mykeys", place("other/keys-of-mine")).unwrap();
    symlink(env!("CARGO_BIN_EXE_fulmar"), place("suite")).unwrap();
    let usage = |command: &mut Command| {
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().next().unwrap_or_default().to_owned()
    };
    let expected = usage(&mut fulmar(&["keygen", "--help"]));
    assert!(expected.contains("keygen"), "{expected}");
    for name in ["ssh-keygen", "mykeys", "other/keys-of-mine"] {
        let said = usage(Command::new(place(name)).arg("--help"));
        assert_eq!(said, expected, "{name}");
    }
    // A shell passes the name as it was typed.
    let mut by_path = Command::new(place("mykeys"));
    by_path.arg0("mykeys").arg("--help").env("PATH", &folder);
    assert_eq!(usage(&mut by_path), expected);
    // A link to the binary itself names no program: the first word does.
    let said = usage(Command::new(place("suite")).args(["keygen", "--help"]));
    assert_eq!(said, expected);
    std::fs::remove_dir_all(folder).unwrap();
}
