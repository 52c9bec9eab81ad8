//! Programs that use ssh as their transport: sftp, scp, rsync, git.

use std::fs;
use std::process::Command;

use interop::matrix::{noise, test_data};
use interop::process::{Input, installed};
use interop::report::skipped;
use interop::scratch::Scratch;
use interop::site::{HOST, Site, each, finish};

/// Debian's path of the subsystem's program.
const SFTP_SERVER: &str = "/usr/lib/openssh/sftp-server";

fn subsystem() -> String {
    format!("Subsystem sftp {SFTP_SERVER}\n")
}

fn has(program: &str) -> bool {
    let found = installed(program).is_some();
    if !found {
        skipped(program, &"not installed");
    }
    found
}

#[test]
fn sftp_puts_and_gets() {
    if !has("sftp") || !std::path::Path::new(SFTP_SERVER).exists() {
        return;
    }
    each(|client, server| {
        let site = Site::new(client, server, &subsystem());
        let scratch = Scratch::new();
        let (data, _) = test_data();
        let (there, back) = (scratch.join("there"), scratch.join("back"));
        let batch = format!(
            "put {} {}\nget {} {}\nls {}\n",
            data.display(),
            there.display(),
            there.display(),
            back.display(),
            there.display()
        );
        let batch = scratch.write("batch", batch);
        let mut command = Command::new("sftp");
        command
            .arg("-S")
            .arg(site.wrapper())
            .arg("-b")
            .arg(batch)
            .arg(HOST);
        let outcome = finish(&mut command, Input::Nothing);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        assert_eq!(
            fs::read(back).expect("the copy"),
            fs::read(data).expect("the data")
        );
    });
}

#[test]
fn a_subsystem_that_there_is_none_of_is_refused() {
    each(|client, server| {
        let site = Site::new(client, server, &subsystem());
        let outcome = site.run_with("", &["-s", HOST, "no-such"], Input::Nothing);
        assert_ne!(outcome.status, 0);
        assert!(
            outcome.stderr.text().contains("ubsystem"),
            "{}",
            outcome.summary()
        );
    });
}

#[test]
fn scp_copies_folders_both_ways() {
    if !has("scp") || !std::path::Path::new(SFTP_SERVER).exists() {
        return;
    }
    each(|client, server| {
        let site = Site::new(client, server, &subsystem());
        for protocol in ["-s", "-O"] {
            let scratch = Scratch::new();
            let tree = scratch.join("tree");
            fs::create_dir_all(tree.join("below")).expect("folders");
            for number in 0..40 {
                fs::write(
                    tree.join(format!("below/file {number}")),
                    noise(number * 997),
                )
                .expect("files");
            }
            let there = scratch.join("there").display().to_string();
            let back = scratch.join("back").display().to_string();
            let wrapper = site.wrapper();
            let copy = |from: &str, to: &str| {
                let mut command = Command::new("scp");
                command
                    .args(["-q", "-r", protocol, "-S"])
                    .arg(&wrapper)
                    .args([from, to]);
                let outcome = finish(&mut command, Input::Nothing);
                assert_eq!(outcome.status, 0, "{protocol}: {}", outcome.summary());
            };
            copy(&tree.display().to_string(), &format!("{HOST}:{there}"));
            copy(&format!("{HOST}:{there}"), &back);
            let same = finish(
                Command::new("diff").arg("-r").arg(&tree).arg(&back),
                Input::Nothing,
            );
            assert_eq!(same.status, 0, "{}", same.summary());
        }
    });
}

#[test]
fn rsync_copies_and_sees_what_changed() {
    if !has("rsync") {
        return;
    }
    each(|client, server| {
        let site = Site::new(client, server, "");
        let scratch = Scratch::new();
        let (from, to) = (scratch.join("from"), scratch.join("to"));
        fs::create_dir_all(from.join("below")).expect("folders");
        for number in 0..200 {
            fs::write(from.join(format!("below/{number}")), noise(number * 91)).expect("files");
        }
        fs::write(from.join("large"), noise(5_000_000)).expect("a file");
        let wrapper = site.wrapper().display().to_string();
        let copy = || {
            let mut command = Command::new("rsync");
            command
                .args(["-a", "--delete", "--stats", "-e", &wrapper])
                .arg(format!("{}/", from.display()))
                .arg(format!("{HOST}:{}/", to.display()));
            let outcome = finish(&mut command, Input::Nothing);
            assert_eq!(outcome.status, 0, "{}", outcome.summary());
            let same = finish(
                Command::new("diff").arg("-r").arg(&from).arg(&to),
                Input::Nothing,
            );
            assert_eq!(same.status, 0, "{}", same.summary());
            outcome.stdout.text()
        };
        copy();
        fs::remove_file(from.join("below/7")).expect("one file less");
        fs::write(from.join("new"), "new\n").expect("one file more");
        let stats = copy();
        assert!(stats.contains("regular files transferred: 1\n"), "{stats}");
    });
}

#[test]
fn git_clones_and_pushes() {
    if !has("git") {
        return;
    }
    each(|client, server| {
        let site = Site::new(client, server, "");
        let scratch = Scratch::new();
        let wrapper = site.wrapper();
        let git = |folder: &str, arguments: &[&str]| {
            let mut command = Command::new("git");
            command
                .arg("-C")
                .arg(scratch.join(folder))
                .args(["-c", "user.name=A", "-c", "user.email=a@example.com"])
                .args(["-c", "init.defaultBranch=main", "-c", "safe.directory=*"])
                .args(arguments)
                .env("GIT_SSH_COMMAND", &wrapper)
                .env("GIT_SSH_VARIANT", "ssh")
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("HOME", scratch.path());
            let outcome = finish(&mut command, Input::Nothing);
            assert_eq!(
                outcome.status,
                0,
                "git {arguments:?}: {}",
                outcome.summary()
            );
            outcome.stdout.text()
        };
        let bare = scratch.join("bare.git").display().to_string();
        git(".", &["init", "-q", "--bare", &bare]);
        git(".", &["clone", "-q", &format!("{HOST}:{bare}"), "one"]);
        fs::write(scratch.join("one/file"), noise(300_000)).expect("a file");
        git("one", &["add", "file"]);
        git("one", &["commit", "-q", "-m", "first"]);
        git("one", &["push", "-q", "origin", "HEAD:main"]);
        git(
            ".",
            &[
                "clone",
                "-q",
                "-b",
                "main",
                &format!("ssh://{HOST}{bare}"),
                "two",
            ],
        );
        assert_eq!(
            fs::read(scratch.join("two/file")).expect("the clone"),
            noise(300_000)
        );
    });
}

#[test]
fn tar_goes_through_a_pipe() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let scratch = Scratch::new();
        fs::create_dir(scratch.join("from")).expect("a folder");
        fs::create_dir(scratch.join("to")).expect("a folder");
        for number in 0..50 {
            fs::write(scratch.join(&format!("from/{number}")), noise(20_000)).expect("files");
        }
        let script = format!(
            "tar -C {0}/from -cf - . | {1} {HOST} 'tar -C {0}/to -xf -'",
            scratch.path().display(),
            site.wrapper().display()
        );
        let outcome = finish(Command::new("sh").args(["-c", &script]), Input::Nothing);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        let mut diff = Command::new("diff");
        diff.arg("-r")
            .arg(scratch.join("from"))
            .arg(scratch.join("to"));
        assert_eq!(finish(&mut diff, Input::Nothing).status, 0);
    });
}
