//! `fulmar keygen` beside the installed ssh-keygen: the same command lines, the same words and
//! exit codes, and files that each reads of the other.
//!
//! The test program runs itself with `FULMAR_KEYGEN` set to be the program under test.

#[path = "keygen/certificates.rs"]
mod certificates;
#[path = "keygen/known_hosts.rs"]
mod known_hosts;
#[path = "keygen/krl.rs"]
mod krl;
#[path = "keygen/moduli.rs"]
mod moduli;
#[path = "keygen/named.rs"]
mod named_tests;
#[path = "keygen/signature.rs"]
mod signature;
#[path = "keygen/suite.rs"]
mod suite;

use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use known_hosts::{
    damaged_known_hosts_are_not_rewritten, known_hosts_are_edited_alike,
    the_keys_of_a_file_are_those_of_ssh_keygen, the_name_of_a_descriptor_is_not_replaced,
};
use named_tests::{named, run_named};

const SELF: &str = "FULMAR_KEYGEN";

type Test = fn(&Folder);

fn main() {
    if std::env::var_os(SELF).is_some() {
        let args = std::env::args_os().skip(1).collect();
        std::process::exit(keygen::run(args));
    }
    let tests: &[(&str, Test)] = &[
        named!(keys_are_made_with_safe_modes),
        named!(an_existing_key_is_not_overwritten_unasked),
        named!(a_key_that_others_can_read_has_no_comment),
        named!(host_keys_are_made_where_they_lack),
        named!(wrong_use_is_refused_as_ssh_keygen_does),
        named!(ssh_keygen_uses_our_keys_and_we_use_its),
        named!(what_is_shown_is_what_ssh_keygen_shows),
        named!(passphrases_and_comments_change),
        named!(secrets_are_never_readable_by_others),
        named!(known_hosts_are_edited_alike),
        named!(damaged_known_hosts_are_not_rewritten),
        named!(the_name_of_a_descriptor_is_not_replaced),
        named!(the_keys_of_a_file_are_those_of_ssh_keygen),
        named!(certificates::certificates_are_the_same),
        named!(certificates::certificate_options_are_checked),
        named!(certificates::certificate_options_are_written),
        named!(text_from_files_is_printed_harmless),
        named!(invisible_characters_are_shown_wherever_they_stand),
        named!(damaged_files_end_in_a_message),
        named!(krl::revocation_lists_are_the_same),
        named!(krl::bad_specifications_leave_the_list_as_it_was),
        named!(suite::a_certificate_is_signed_for_a_private_file),
        named!(suite::a_passphrase_comes_from_askpass),
        named!(suite::sshfp_records_are_the_same),
        named!(suite::old_synonyms_are_taken),
        named!(suite::key_files_may_be_pipes),
        named!(suite::the_umask_holds_for_files_without_secrets),
        named!(suite::short_passphrases_are_refused_for_old_formats),
        named!(suite::ed25519_keys_are_written_as_pkcs8),
        named!(signature::signatures_are_verified_both_ways),
        named!(signature::allowed_signers_are_judged_alike),
        named!(signature::what_a_pipe_gives_is_read),
        named!(signature::a_signature_goes_beside_its_file),
        named!(signature::an_agent_signs),
        named!(signature::git_signs_and_verifies),
        named!(moduli::lists_and_checkpoints_are_those_of_ssh_keygen),
        named!(moduli::tested_moduli_are_screened_again),
        named!(moduli::moduli_are_made_in_one_step),
        named!(moduli::what_makes_no_moduli_is_refused),
    ];
    let have_theirs = Command::new("ssh-keygen")
        .arg("-?")
        .stdin(Stdio::null())
        .output()
        .is_ok();
    if !have_theirs {
        println!("skipped: no ssh-keygen on this machine; comparisons are left out");
    }
    run_named(tests, |name, test: Test| {
        test(&Folder::new(name, have_theirs))
    });
}

/// What a run gave.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    status: Option<i32>,
    out: String,
    err: String,
}

/// A program in a session of its own: passphrases are asked for at the terminal, if there is one.
fn without_terminal(program: &Path) -> Command {
    let mut command = Command::new("setsid");
    command.arg("--wait").arg(program);
    command
}

/// A folder that goes with its test.
struct Folder {
    path: PathBuf,
    have_theirs: bool,
}

impl Folder {
    fn new(name: &str, have_theirs: bool) -> Self {
        let path =
            std::env::temp_dir().join(format!("fulmar-keygen-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self { path, have_theirs }
    }

    fn ours(&self, args: &[&str], input: &str) -> Run {
        let mut command = without_terminal(&std::env::current_exe().unwrap());
        command.env(SELF, "1");
        self.run(command, args, input)
    }

    fn theirs(&self, args: &[&str], input: &str) -> Run {
        self.run(without_terminal(Path::new("ssh-keygen")), args, input)
    }

    fn run(&self, mut command: Command, args: &[&str], input: &str) -> Run {
        let mut child = command
            .args(args)
            .current_dir(&self.path)
            .env_remove("DISPLAY")
            .env_remove("SSH_ASKPASS")
            .env_remove("SSH_AUTH_SOCK")
            .env("TZ", "Europe/Berlin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A program that does not read its input closes it; that is no failure.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        Run {
            status: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            // ssh-keygen ends some of its messages with CR LF.
            // OpenSSH has this line from 10.3 on.
            err: String::from_utf8_lossy(&output.stderr)
                .replace('\r', "")
                .replace("Warning: certificate will contain no principals (-n)\n", ""),
        }
    }

    fn ours_ok(&self, args: &[&str]) -> String {
        let run = self.ours(args, "");
        assert_eq!(run.status, Some(0), "{args:?}: {}", run.err);
        run.out
    }

    fn theirs_ok(&self, args: &[&str]) -> String {
        let run = self.theirs(args, "");
        assert_eq!(run.status, Some(0), "{args:?}: {}", run.err);
        run.out
    }

    /// Both programs must do the same.
    fn both(&self, args: &[&str]) -> Run {
        let ours = self.ours(args, "");
        if self.have_theirs {
            assert_eq!(ours, self.theirs(args, ""), "{args:?}");
        }
        ours
    }

    fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn mode(&self, name: &str) -> u32 {
        self.path(name).metadata().unwrap().mode() & 0o7777
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn keys_are_made_with_safe_modes(folder: &Folder) {
    for (index, kind) in [
        &["-t", "ed25519"][..],
        &["-t", "ecdsa", "-b", "384"],
        &["-t", "rsa", "-b", "2048"],
        &["-trsa", "-b2048", "-mPEM"],
        &[],
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("key{index}");
        let mut args = kind.to_vec();
        args.extend(["-f", &name, "-N", "", "-C", "a comment"]);
        let out = folder.ours_ok(&args);
        assert!(out.contains(&format!("Your identification has been saved in {name}\n")));
        assert_eq!(out.lines().count(), 17, "{out}");
        assert_eq!(folder.mode(&name), 0o600);
        assert_eq!(folder.mode(&format!("{name}.pub")), 0o644);
        assert!(
            folder
                .read(&format!("{name}.pub"))
                .ends_with(" a comment\n")
        );
        let fingerprint = out.lines().nth(4).unwrap();
        let shown = folder.both(&["-lf", &name]).out;
        assert!(shown.contains(fingerprint), "{shown} {fingerprint}");
    }
    assert_eq!(folder.ours_ok(&["-q", "-f", "quiet", "-N", ""]), "");
    assert!(
        folder
            .read("key3")
            .starts_with("-----BEGIN RSA PRIVATE KEY-----\n")
    );
}

fn an_existing_key_is_not_overwritten_unasked(folder: &Folder) {
    folder.ours_ok(&["-q", "-f", "key", "-N", "", "-t", "ed25519"]);
    let before = folder.read("key");
    let args = ["-t", "ed25519", "-f", "key", "-N", ""];
    for input in ["", "n\n", "no\n", " y\n"] {
        let ours = folder.ours(&args, input);
        assert_eq!(ours.status, Some(1));
        assert!(ours.out.contains("key already exists.\nOverwrite (y/n)? "));
        if folder.have_theirs {
            assert_eq!(ours, folder.theirs(&args, input));
        }
    }
    assert_eq!(folder.read("key"), before);
    assert_eq!(folder.ours(&args, "y\n").status, Some(0));
    assert_ne!(folder.read("key"), before);
    assert_eq!(folder.mode("key"), 0o600);
    // A passphrase asked for, twice, on standard input.
    let run = folder.ours(&["-q", "-t", "ed25519", "-f", "asked"], "secret\nsecret\n");
    assert_eq!(run.status, Some(0), "{}", run.err);
    let asked = "Enter passphrase for \"asked\" (empty for no passphrase): ";
    assert_eq!(run.err, format!("{asked}Enter same passphrase again: "));
    assert_eq!(
        folder
            .ours(&["-y", "-P", "secret", "-f", "asked"], "")
            .status,
        Some(0)
    );
    assert_eq!(
        folder
            .ours(&["-y", "-P", "other", "-f", "asked"], "")
            .status,
        Some(255)
    );
    // As readpassphrase(3), which takes a CR for the end as well.
    folder.ours(&["-q", "-t", "ed25519", "-f", "cr"], "secret\rsecret\r");
    folder.ours_ok(&["-y", "-P", "secret", "-f", "cr"]);
    // A link that leads nowhere has no key to lose, and stays.
    std::os::unix::fs::symlink("target", folder.path("link")).unwrap();
    folder.ours_ok(&["-q", "-t", "ed25519", "-f", "link", "-N", ""]);
    assert!(folder.path("link").is_symlink() && folder.mode("target") == 0o600);
    let run = folder.ours(&["-q", "-t", "ed25519", "-f", "none"], "secret\nother\n");
    assert_ne!(run.status, Some(0));
    assert!(!folder.path("none").exists());
    // Others that do not match are followed by another attempt.
    let answers = "one\ntwo\nthree\nthree\n";
    let run = folder.ours(&["-q", "-t", "ed25519", "-f", "again"], answers);
    assert_eq!(run.status, Some(0), "{}", run.err);
    let run = folder.ours(&["-y", "-f", "again"], "three\n");
    assert_eq!(run.status, Some(0), "{}", run.err);
    assert_eq!(run.err, "Enter passphrase for \"again\": ");
}

fn a_key_that_others_can_read_has_no_comment(folder: &Folder) {
    folder.ours_ok(&["-q", "-t", "ed25519", "-f", "key", "-N", "", "-C", "c"]);
    let open = PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(folder.path("key"), open).unwrap();
    // The public file beside it has the comment.
    let run = folder.both(&["-lf", "key"]);
    assert!(
        run.err.is_empty() && run.out.ends_with(" c (ED25519)\n"),
        "{run:?}"
    );
    std::fs::remove_file(folder.path("key.pub")).unwrap();
    let run = folder.both(&["-lf", "key"]);
    assert!(
        run.err.contains("Permissions 0644 for 'key' are too open."),
        "{run:?}"
    );
    assert!(run.out.ends_with(" no comment (ED25519)\n"), "{run:?}");
}

fn host_keys_are_made_where_they_lack(folder: &Folder) {
    std::fs::create_dir_all(folder.path("etc/ssh")).unwrap();
    let prefix = folder.path.to_str().unwrap().to_owned();
    let out = folder.ours_ok(&["-A", "-f", &prefix]);
    assert_eq!(
        out,
        "ssh-keygen: generating new host keys: RSA ECDSA ED25519 MLDSA44-ED25519 \n"
    );
    let before = folder.read("etc/ssh/ssh_host_ed25519_key");
    for kind in ["rsa", "ecdsa", "ed25519"] {
        assert_eq!(folder.mode(&format!("etc/ssh/ssh_host_{kind}_key")), 0o600);
        folder.both(&["-lf", &format!("etc/ssh/ssh_host_{kind}_key")]);
    }
    // The ssh-keygen of this machine may not know it.
    let mldsa = "etc/ssh/ssh_host_mldsa44_ed25519_key";
    assert_eq!(folder.mode(mldsa), 0o600);
    let shown = folder.ours_ok(&["-lf", mldsa]);
    assert!(shown.starts_with("512 SHA256:") && shown.ends_with(" (MLDSA44-ED25519)\n"));
    std::fs::remove_file(folder.path("etc/ssh/ssh_host_ecdsa_key")).unwrap();
    let out = folder.ours_ok(&["-A", "-f", &prefix]);
    assert_eq!(out, "ssh-keygen: generating new host keys: ECDSA \n");
    assert_eq!(folder.ours_ok(&["-A", "-f", &prefix]), "");
    assert_eq!(folder.read("etc/ssh/ssh_host_ed25519_key"), before);
}

fn wrong_use_is_refused_as_ssh_keygen_does(folder: &Folder) {
    folder.write("junk", "hello\n");
    std::fs::set_permissions(folder.path("junk"), PermissionsExt::from_mode(0o600)).unwrap();
    folder.ours_ok(&["-q", "-t", "ed25519", "-f", "key", "-N", "", "-C", "c"]);
    for args in [
        &["-t", "rsa", "-b", "512", "-f", "r", "-N", ""][..],
        &["-t", "ecdsa", "-b", "333", "-f", "r", "-N", ""],
        &["-t", "foo", "-f", "r", "-N", ""],
        &["-t", "ed25519", "-f", "nodir/k", "-N", ""],
        &["-y", "-f", "nosuch"],
        &["-y", "-f", "key.pub"],
        &["-l", "-f", "nosuch"],
        &["-l", "-f", "junk"],
        &["-p", "-f", "nosuch", "-N", ""],
        &["-e", "-f", "nosuch"],
        &["-i", "-f", "nosuch"],
        &["-L", "-f", "key.pub"],
        &["-L", "-f", "nosuch"],
        &["-F", "alpha", "-f", "nosuch"],
        &["-R", "alpha", "-f", "nosuch"],
        &["-s", "key", "key.pub"],
        &["-s", "nosuch", "-I", "x", "key.pub"],
        &["-s", "key", "-I", "x", "nosuch.pub"],
        &["-s", "key", "-I", "x", "-V", "foo", "key.pub"],
        &["-s", "key", "-I", "x", "-O", "foo", "key.pub"],
    ] {
        let run = folder.both(args);
        assert!(matches!(run.status, Some(1 | 255)), "{args:?}");
    }
    for args in [
        &["-Z"][..],
        &["-s", "key", "-I", "x"],
        &["-x"],
        &["-l", "-f", "key", "operand"],
    ] {
        let run = folder.ours(args, "");
        assert_eq!(run.status, Some(1), "{args:?}");
        assert!(run.err.contains("usage:"));
    }
    assert!(!folder.path("r").exists());
}

fn ssh_keygen_uses_our_keys_and_we_use_its(folder: &Folder) {
    if !folder.have_theirs {
        return;
    }
    for (index, flags) in [
        &["-t", "ed25519"][..],
        &[
            "-t",
            "ed25519",
            "-Z",
            "chacha20-poly1305@openssh.com",
            "-a",
            "2",
        ],
        &[
            "-t",
            "ecdsa",
            "-b",
            "521",
            "-Z",
            "aes256-gcm@openssh.com",
            "-a",
            "2",
        ],
        &["-t", "ecdsa", "-m", "PEM"],
        &["-t", "ecdsa", "-m", "PKCS8"],
        &["-t", "rsa", "-b", "2048", "-m", "PKCS8"],
    ]
    .into_iter()
    .enumerate()
    {
        for passphrase in ["", "secret"] {
            let names = [
                format!("o{index}{passphrase}"),
                format!("t{index}{passphrase}"),
            ];
            for (name, ours) in names.iter().zip([true, false]) {
                let mut args = vec!["-q", "-N", passphrase, "-C", "c", "-f", name];
                args.extend(flags);
                if ours {
                    folder.ours_ok(&args);
                } else {
                    folder.theirs_ok(&args);
                }
                let shown = folder.both(&["-y", "-P", passphrase, "-f", name]).out;
                let public = folder.read(&format!("{name}.pub"));
                assert_eq!(
                    shown.trim_end().split(' ').nth(1),
                    public.trim_end().split(' ').nth(1)
                );
                if !passphrase.is_empty() {
                    let run = folder.ours(&["-y", "-P", "wrong", "-f", name], "");
                    assert_eq!(run.status, Some(255));
                    assert!(run.err.contains("incorrect passphrase"), "{}", run.err);
                }
            }
        }
    }
}

fn what_is_shown_is_what_ssh_keygen_shows(folder: &Folder) {
    folder.ours_ok(&[
        "-q", "-t", "rsa", "-b", "2048", "-f", "rsa", "-N", "", "-C", "one two",
    ]);
    folder.ours_ok(&[
        "-q", "-t", "ed25519", "-f", "ed", "-N", "secret", "-C", "three",
    ]);
    folder.ours_ok(&["-q", "-t", "ecdsa", "-f", "ec", "-N", "", "-m", "PEM"]);
    let (rsa, ed) = (folder.read("rsa.pub"), folder.read("ed.pub"));
    folder.write(
        "auth",
        &format!("# keys\n\n{rsa}command=\"a b\",no-pty {rsa}restrict {ed}garbage\n"),
    );
    folder.write("hosts", &format!("alpha,beta {ed}alpha {rsa}"));
    for args in [
        &["-lf", "rsa"][..],
        &["-lvf", "rsa.pub"],
        &["-l", "-E", "md5", "-f", "ed"],
        &["-lv", "-E", "sha512", "-f", "ed.pub"],
        &["-lf", "ec"],
        &["-lf", "auth"],
        &["-lf", "hosts"],
        &["-yf", "rsa"],
        &["-ef", "rsa"],
        &["-ef", "ed.pub"],
        &["-e", "-m", "PEM", "-f", "rsa.pub"],
        &["-e", "-m", "PKCS8", "-f", "rsa"],
        &["-e", "-m", "PKCS8", "-f", "ec"],
    ] {
        let run = folder.both(args);
        assert_eq!(run.status, Some(0), "{args:?}");
        assert!(!run.out.is_empty());
    }
    // A private key without its public file.
    std::fs::remove_file(folder.path("ed.pub")).unwrap();
    assert!(folder.both(&["-lf", "ed"]).out.contains("no comment"));
    for (flags, file) in [
        (&["-e"][..], "rsa.pub"),
        (&["-e", "-m", "PEM"], "rsa.pub"),
        (&["-e", "-m", "PKCS8"], "ec.pub"),
    ] {
        let mut export = flags.to_vec();
        export.extend(["-f", file]);
        folder.write("exported", &folder.ours_ok(&export));
        let mut import: Vec<&str> = vec!["-i"];
        import.extend(flags.iter().skip(1));
        import.extend(["-f", "exported"]);
        let line = folder.both(&import).out;
        assert!(folder.read(file).starts_with(line.trim_end()));
    }
}

fn passphrases_and_comments_change(folder: &Folder) {
    folder.ours_ok(&[
        "-q", "-t", "ed25519", "-f", "key", "-N", "first", "-C", "old",
    ]);
    let public = folder.read("key.pub");
    let wrong = folder.both(&["-p", "-f", "key", "-P", "wrong", "-N", "x"]);
    assert_eq!(wrong.status, Some(255));
    let out = folder.ours_ok(&["-p", "-f", "key", "-P", "first", "-N", "second"]);
    assert_eq!(
        out,
        "Key has comment 'old'\nYour identification has been saved with the new passphrase.\n"
    );
    assert_eq!(folder.mode("key"), 0o600);
    assert_eq!(
        folder.ours(&["-y", "-P", "first", "-f", "key"], "").status,
        Some(255)
    );
    assert_eq!(folder.ours_ok(&["-y", "-P", "second", "-f", "key"]), public);

    // Asked for on standard input: the old one, the new one twice.
    let run = folder.ours(&["-p", "-f", "key"], "second\nthird\nthird\n");
    assert_eq!(run.status, Some(0), "{}", run.err);
    let before = folder.read("key");
    let run = folder.ours(&["-p", "-f", "key", "-P", "third"], "a\nb\n");
    assert_eq!(run.status, Some(1));
    assert!(run.out.contains("Pass phrases do not match.  Try again."));
    assert_eq!(folder.read("key"), before);

    let args = ["-c", "-f", "key", "-P", "third", "-C", "new one"];
    assert_eq!(
        folder.ours_ok(&args),
        "Old comment: old\nComment 'new one' applied\n"
    );
    assert!(folder.read("key.pub").ends_with(" new one\n"));
    assert_eq!(folder.mode("key"), 0o600);
    assert_eq!(
        folder.ours_ok(&args),
        "Old comment: new one\nNo change to comment\n"
    );
    // Still under its passphrase.
    assert_eq!(
        folder.ours(&["-y", "-P", "x", "-f", "key"], "").status,
        Some(255)
    );
    if folder.have_theirs {
        let shown = folder.theirs_ok(&["-y", "-P", "third", "-f", "key"]);
        assert_eq!(shown, folder.read("key.pub"));
    }
    // Taken off, the file has none.
    folder.ours_ok(&["-p", "-f", "key", "-P", "third", "-N", ""]);
    assert_eq!(folder.both(&["-y", "-f", "key"]).status, Some(0));
}

/// The file of a secret is created exclusively with mode 0600; nothing is opened wider and
/// narrowed later.
fn secrets_are_never_readable_by_others(folder: &Folder) {
    let trace = folder.path("trace");
    let strace = Command::new("strace")
        .args([
            "-f",
            "-qq",
            "-e",
            "trace=openat,open,creat,rename,renameat,renameat2",
            "-o",
        ])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["-q", "-t", "ed25519", "-f", "key", "-N", ""])
        .env(SELF, "1")
        .current_dir(&folder.path)
        .status();
    if !strace.is_ok_and(|status| status.success()) {
        println!("skipped: no strace, so that opens are not watched");
        return;
    }
    let trace = std::fs::read_to_string(trace).unwrap();
    let opened: Vec<&str> = trace
        .lines()
        .filter(|line| line.contains("\"key\"") && line.contains("O_CREAT"))
        .collect();
    assert_eq!(opened.len(), 1, "{trace}");
    assert!(
        opened[0].contains("O_EXCL") && opened[0].contains("0600"),
        "{}",
        opened[0]
    );
}

/// Names in files must not reach the terminal as control sequences.
fn text_from_files_is_printed_harmless(folder: &Folder) {
    folder.ours_ok(&["-q", "-t", "ed25519", "-f", "ca", "-N", "", "-C", "ca"]);
    let key = folder.read("ca.pub").trim_end().to_owned();
    folder.write("evil.pub", &format!("{key} \u{1b}[2J\u{7}evil\n"));
    assert!(
        !folder
            .ours_ok(&["-lf", "evil.pub"])
            .contains(['\u{1b}', '\u{7}'])
    );
    folder.ours_ok(&[
        "-q",
        "-s",
        "ca",
        "-I",
        "\u{1b}]0;x\u{7}",
        "-n",
        "\u{1b}[1m",
        "ca.pub",
    ]);
    let shown = folder.ours_ok(&["-L", "-f", "ca-cert.pub"]);
    assert!(!shown.contains(['\u{1b}', '\u{7}']), "{shown:?}");
    assert!(Path::new(&folder.path("ca-cert.pub")).exists());
}

/// Characters that reverse, hide or end a line are shown as bytes wherever a file can hold them: a
/// certificate's key id, principals and options, a key's comment, and known_hosts.
fn invisible_characters_are_shown_wherever_they_stand(folder: &Folder) {
    folder.ours_ok(&["-q", "-t", "ed25519", "-f", "ca", "-N", "", "-C", "ca"]);
    let key = folder.read("ca.pub");
    let key = key.trim_end().strip_suffix(" ca").unwrap().to_owned();
    for (hidden, shown) in [
        ("\u{202e}", "\\342\\200\\256"),
        ("\u{2066}", "\\342\\201\\246"),
        ("\u{200b}", "\\342\\200\\213"),
        ("\u{2028}", "\\342\\200\\250"),
        ("\u{feff}", "\\357\\273\\277"),
        ("\u{e0041}", "\\363\\240\\201\\201"),
        ("\u{9b}", "\\302\\233"),
        ("\u{1b}", "\\033"),
    ] {
        let name = |place: &str| format!("{place}{hidden}x");
        let expected = |place: &str| format!("{place}{shown}x");
        let force = format!("force-command={}", name("/bin/f"));
        let extension = format!("extension:{}", name("e@example.com"));
        folder.ours_ok(&[
            "-q",
            "-s",
            "ca",
            "-I",
            &name("id"),
            "-n",
            &name("who"),
            "-O",
            &force,
            "-O",
            &extension,
            "ca.pub",
        ]);
        let certificate = folder.ours_ok(&["-L", "-f", "ca-cert.pub"]);
        for place in ["id", "who", "/bin/f", "e@example.com"] {
            assert!(
                certificate.contains(&expected(place)),
                "{place} {certificate:?}"
            );
        }
        folder.write("comment.pub", &format!("{key} {}\n", name("comment")));
        let comment = folder.ours_ok(&["-l", "-f", "comment.pub"]);
        assert!(comment.contains(&expected("comment")), "{comment:?}");
        let hosts = format!(
            "{},a* {key} {}\nb {key} {}\n",
            name("h"),
            name("c"),
            name("d")
        );
        folder.write("kh", &hosts);
        let found = folder.ours_ok(&["-l", "-F", "b", "-f", "kh"]);
        assert!(found.contains(&expected("d")), "{found:?}");
        let hashed = folder.ours(&["-H", "-f", "kh"], "").err;
        assert!(hashed.contains(&expected("h")), "{hashed:?}");
        for text in [&certificate, &comment, &found, &hashed] {
            assert!(!text.contains(hidden), "{text:?}");
        }
    }
}

/// Damaged files end in a message and a status, never in a panic (status 101) or a signal.
fn damaged_files_end_in_a_message(folder: &Folder) {
    folder.ours_ok(&["-q", "-t", "ed25519", "-f", "key", "-N", "", "-C", "c"]);
    let good = folder.read("key").into_bytes();
    let mut state = 7_u32;
    let mut next = |bound: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        usize::try_from(state >> 8).unwrap() % bound
    };
    for _ in 0..40 {
        let mut bad = good.clone();
        for _ in 0..=next(3) {
            let at = next(bad.len());
            bad[at] = u8::try_from(next(256)).unwrap();
        }
        if next(3) == 0 {
            bad.truncate(next(bad.len()));
        }
        let path = folder.path("bad");
        std::fs::write(&path, &bad).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        for task in ["-y", "-l"] {
            let run = folder.ours(&[task, "-f", "bad"], "");
            assert!(matches!(run.status, Some(0 | 255)), "{run:?}");
        }
    }
    let garbage: Vec<u8> = (0..1 << 20)
        .map(|_| u8::try_from(next(256)).unwrap())
        .collect();
    std::fs::write(folder.path("garbage"), &garbage).unwrap();
    assert_eq!(
        folder.ours(&["-F", "alpha", "-f", "garbage"], "").status,
        Some(1)
    );
    assert_eq!(
        folder.ours(&["-R", "alpha", "-f", "garbage"], "").status,
        Some(1)
    );
    assert_eq!(folder.ours(&["-l", "-f", "garbage"], "").status, Some(255));
    assert_eq!(std::fs::read(folder.path("garbage")).unwrap(), garbage);
}
