//! The generated files are up to date, and the hand-written pages are complete.

use std::fs;
use std::process::{Command, Stdio};

use super::{Made, all, config_page, root};
use flags::PROGRAMS;

const PAGES: &[&str] = &[
    "man/fulmar.1",
    "man/fulmar-ssh.1",
    "man/fulmar-sshd.8",
    "man/fulmar-sftp-server.8",
    "man/fulmar-scp.1",
    "man/fulmar-sftp.1",
    "man/fulmar-keygen.1",
    "man/fulmar-keyscan.1",
    "man/fulmar-copy-id.1",
    "man/fulmar-each.1",
    "man/fulmar-agent.1",
    "man/fulmar-add.1",
    "man/fulmar-bench.1",
    "man/fulmar-keysign.8",
    "man/fulmar-tools.1",
    "man/fulmar_ssh_config.5",
    "man/fulmar_sshd_config.5",
];

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn what_is_made_is_up_to_date() {
    for Made { path, text } in all().unwrap() {
        assert!(read(path) == text, "{path} is old: run cargo xtask man");
    }
}

#[test]
fn each_page_has_examples() {
    for path in PAGES {
        let page = read(path);
        let (_, behind) = page.split_once("\n.SH EXAMPLES\n").unwrap_or_default();
        let examples = behind.split("\n.SH ").next().unwrap_or_default();
        assert!(examples.lines().count() >= 3, "{path} has no EXAMPLES");
    }
    let names = fs::read_dir(root().join("man")).unwrap();
    assert_eq!(names.count(), PAGES.len());
}

#[test]
fn every_keyword_with_a_form_of_its_own_says_it() {
    assert_eq!(config_page::without_form(), Vec::<&str>::new());
}

#[test]
fn the_pages_name_every_flag_and_program() {
    let overview = read("man/fulmar.1");
    for program in PROGRAMS {
        assert!(
            overview.contains(&format!(".B {}\n", program.name.replace('-', "\\-"))),
            "fulmar.1 leaves out {}",
            program.name
        );
        let path = match program.name {
            "ssh" => "man/fulmar-ssh.1",
            "sshd" => "man/fulmar-sshd.8",
            "sftp-server" => "man/fulmar-sftp-server.8",
            "scp" => "man/fulmar-scp.1",
            "sftp" => "man/fulmar-sftp.1",
            "keygen" => "man/fulmar-keygen.1",
            "keyscan" => "man/fulmar-keyscan.1",
            "copy-id" => "man/fulmar-copy-id.1",
            "each" => "man/fulmar-each.1",
            "agent" => "man/fulmar-agent.1",
            "add" => "man/fulmar-add.1",
            "bench" => "man/fulmar-bench.1",
            _ => "man/fulmar-tools.1",
        };
        let page = read(path);
        for flag in program.flags.iter().filter(|flag| flag.is_offered()) {
            let name = flag.name.replace('-', "\\-");
            let typed = match flag.name.len() {
                1 => format!("\\-{name}"),
                _ => format!("\\-\\-{name}"),
            };
            let said = page.lines().any(|line| {
                line.starts_with(".B") && line.split([' ', '"', ',']).any(|word| word == typed)
            });
            assert!(said, "{path} leaves out {typed}");
        }
    }
}

#[test]
fn the_pages_are_of_this_version() {
    let version = format!("\"Fulmar {}\"", env!("CARGO_PKG_VERSION"));
    for page in PAGES {
        let text = read(page);
        let title = text.lines().find(|line| line.starts_with(".TH")).unwrap();
        assert!(title.contains(&version), "{page}: {title}");
    }
}

#[test]
fn the_pages_are_good_troff() {
    let found = Command::new("groff").arg("--version").output().is_ok();
    if !found {
        println!("skipped: no groff is installed");
        return;
    }
    for page in PAGES {
        let output = Command::new("groff")
            .args(["-man", "-ww", "-Tascii", "-z"])
            .arg(root().join(page))
            .output()
            .unwrap();
        let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(complaints.is_empty(), "{page}: {complaints}");
    }
}

fn has(shell: &str) -> bool {
    let found = Command::new(shell)
        .args(["-c", "true"])
        .stdin(Stdio::null())
        .output()
        .is_ok();
    if !found {
        println!("skipped: no {shell} is installed");
    }
    found
}

#[test]
fn the_shells_read_their_completions() {
    for (shell, path) in [
        ("bash", "completion/fulmar.bash"),
        ("zsh", "completion/_fulmar"),
        ("fish", "completion/fulmar.fish"),
    ] {
        if has(shell) {
            let output = Command::new(shell)
                .arg("-n")
                .arg(root().join(path))
                .output()
                .unwrap();
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}

#[test]
fn bash_completes_programs_flags_and_values() {
    if !has("bash") {
        return;
    }
    let complete = |words: &str| {
        let script = format!(
            "compopt() {{ :; }}; . completion/fulmar.bash; COMP_WORDS=({words}); \
             COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); _fulmar; echo \"${{COMPREPLY[*]}}\""
        );
        let output = Command::new("bash")
            .args(["-c", &script])
            .current_dir(root())
            .output()
            .unwrap();
        assert!(
            output.stderr.is_empty(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(complete("fulmar keyg"), "keygen");
    assert_eq!(
        complete("fulmar keygen -t e"),
        "ed25519 ecdsa ed25519-sk ecdsa-sk"
    );
    assert_eq!(complete("fulmar install --dry"), "--dry-run");
    assert_eq!(complete("fulmar ssh -o Strict"), "StrictHostKeyChecking=");
    assert_eq!(complete("fulmar sshd -o ChrootD"), "ChrootDirectory=");
    assert_eq!(complete("fulmar bench u"), "up");
    assert!(complete("fulmar ssh -").contains("-J"));
}
