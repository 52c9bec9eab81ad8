//! One file from a server, which ours sends with its first answer: also if our sshd runs another
//! sftp-server, if a request is denied, and if the request cannot succeed.

use std::fs;
use std::path::Path;

use interop::matrix::noise;
use interop::peers::ours::Kind;
use interop::process::{Input, Outcome, installed, tool};
use interop::report::skipped;
use interop::scratch::{Scratch, until};
use interop::site::{Site, finish, here, program, scp, there};

const SFTP_SERVER: &str = "/usr/lib/openssh/sftp-server";

/// Servers by suite of sshd and of the SFTP server.
fn servers() -> Vec<(&'static str, Site)> {
    let site = |server, command: &str| {
        let lines = format!("Subsystem sftp {command}\n");
        Site::new(Kind::Fulmar, server, &lines)
    };
    let mut sites = vec![
        ("ours", site(Kind::Fulmar, "internal-sftp")),
        (
            "ours, open-read denied",
            site(Kind::Fulmar, "internal-sftp -P open-read"),
        ),
        ("ours, read-only", site(Kind::Fulmar, "internal-sftp -R")),
    ];
    if !Path::new(SFTP_SERVER).exists() {
        skipped("openssh's sftp-server", &"not installed");
        return sites;
    }
    sites.push(("openssh's behind ours", site(Kind::Fulmar, SFTP_SERVER)));
    if installed("sshd").is_some() {
        sites.push(("openssh's", site(Kind::OpenSsh, SFTP_SERVER)));
    }
    sites
}

/// Runs our `sftp` with these commands.
fn sftp(site: &Site, scratch: &Scratch, commands: &str) -> Outcome {
    let batch = scratch.write("batch", commands);
    let mut command = program(site, "sftp");
    command.arg("-b").arg(batch).arg(there(scratch.path()));
    finish(&mut command, Input::Nothing)
}

#[test]
fn it_comes_whole_whoever_serves_it() {
    for (name, site) in servers() {
        let scratch = Scratch::new();
        let to = scratch.join("to");
        for len in [0, 5, 70_000, 5_000_000] {
            let content = noise(len);
            let from = scratch.write("a file", &content);
            for flags in [&[][..], &["-p"], &["--atomic"], &["--verify"], &["-C"]] {
                let (from, target) = (there(&from), here(&to));
                let words = [flags, &[from.as_str(), target.as_str()]].concat();
                let outcome = scp(&site, &words);
                assert_eq!(outcome.status, 0, "{name} {flags:?}: {}", outcome.summary());
                assert!(fs::read(&to).unwrap() == content, "{name} {flags:?} {len}");
                // The next one replaces a longer file.
                fs::write(&to, noise(len + 3)).unwrap();
            }
            let outcome = sftp(
                &site,
                &scratch,
                &format!("get \"a file\" {0}\nget \"a file\" {0}.2\n", here(&to)),
            );
            assert_eq!(outcome.status, 0, "{name}: {}", outcome.summary());
            let second = scratch.join("to.2");
            assert!(fs::read(&to).unwrap() == content, "{name} {len}");
            assert!(fs::read(&second).unwrap() == content, "{name} {len}");
            fs::remove_file(second).unwrap();
        }
    }
}

#[test]
fn what_cannot_be_copied_is_named_and_nothing_waits() {
    for (name, site) in servers() {
        let scratch = Scratch::new();
        fs::create_dir(scratch.join("folder")).unwrap();
        fs::write(scratch.join("folder/in"), "in").unwrap();
        let large = scratch.write("large", noise(9_000_000));
        let small = scratch.write("small", "small");
        let to = scratch.join("to");
        let mut cases = vec![
            (scratch.join("folder"), to.clone(), "not a regular file"),
            (
                scratch.join("none"),
                to.clone(),
                "No such file or directory",
            ),
            ("/dev/null".into(), to.clone(), "not a regular file"),
            (
                large.clone(),
                scratch.join("no/to"),
                "No such file or directory",
            ),
            (small, scratch.join("no/to"), "No such file or directory"),
            (large.clone(), "/dev/full".into(), "No space left on device"),
        ];
        let fifo = scratch.join("fifo");
        if tool(Path::new("mkfifo"), &[&fifo]).is_ok() {
            cases.push((fifo, to.clone(), "not a regular file"));
        }
        for (from, target, words) in cases {
            let outcome = scp(&site, &[&there(&from), &here(&target)]);
            let said = outcome.stderr.text();
            assert_eq!(outcome.status, 1, "{name}: {}", outcome.summary());
            assert!(said.contains(words), "{name}: {said}");
            assert!(!to.exists(), "{name}: {said}");
        }
        // The session continues with the next command.
        let commands = format!(
            "-get none\n-get folder {0}\n-get large {1}/no/to\nget large {0}\n",
            here(&to),
            here(scratch.path())
        );
        let outcome = sftp(&site, &scratch, &commands);
        assert_eq!(outcome.status, 0, "{name}: {}", outcome.summary());
        assert!(
            fs::read(&to).unwrap() == fs::read(&large).unwrap(),
            "{name}"
        );
        let outcome = scp(
            &site,
            &[
                "-r",
                &there(&scratch.join("folder")),
                &here(&scratch.join("copy")),
            ],
        );
        assert_eq!(outcome.status, 0, "{name}: {}", outcome.summary());
        assert_eq!(fs::read(scratch.join("copy/in")).unwrap(), b"in");
    }
}

/// A file of sysfs claims a page and has a few bytes.
#[test]
fn a_file_that_is_shorter_than_it_says_comes_as_it_is() {
    let from = Path::new("/sys/class/net/lo/mtu");
    let Ok(content) = fs::read(from) else {
        skipped("sysfs", &"not mounted");
        return;
    };
    for (name, site) in servers() {
        let scratch = Scratch::new();
        let to = scratch.join("to");
        fs::write(&to, noise(5000)).unwrap();
        let outcome = scp(&site, &[&there(from), &here(&to)]);
        assert_eq!(outcome.status, 0, "{name}: {}", outcome.summary());
        assert!(fs::read(&to).unwrap() == content, "{name}");
        fs::remove_file(&to).unwrap();
        let commands = format!("get {} {}\n", here(from), here(&to));
        let outcome = sftp(&site, &scratch, &commands);
        assert_eq!(outcome.status, 0, "{name}: {}", outcome.summary());
        assert!(fs::read(&to).unwrap() == content, "{name}");
        // And it is copied to /dev/null, which accepts everything.
        if name.contains("read-only") {
            continue;
        }
        for flags in [&[][..], &["-Z"], &["--verify"]] {
            fs::write(&to, noise(5000)).unwrap();
            let outcome = scp(&site, &[flags, &[&here(from), &there(&to)]].concat());
            let what = format!("{name} {flags:?}");
            assert_eq!(outcome.status, 0, "{what}: {}", outcome.summary());
            assert!(fs::read(&to).unwrap() == content, "{what}");
        }
        fs::write(&to, content.get(..1).unwrap()).unwrap();
        let commands = format!("put -a {} {}\n", here(from), here(&to));
        let outcome = sftp(&site, &scratch, &commands);
        assert_eq!(outcome.status, 0, "{name}: {}", outcome.summary());
        assert!(fs::read(&to).unwrap() == content, "{name}");
    }
}

/// The combined request for the file is the fourth message, after LSTAT: if it had waited for VERSION,
/// the only request for the path would be to open it.
#[test]
fn a_fulmar_is_asked_for_it_before_it_has_greeted() {
    let lines = "LogLevel DEBUG1\nSubsystem sftp internal-sftp -l DEBUG1\n";
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, lines);
    let scratch = Scratch::new();
    let from = scratch.write("from", noise(3_000_000));
    let to = scratch.join("to");
    let outcome = scp(&site, &[&there(&from), &here(&to)]);
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
    let line = format!("request 4: open-read \"{}\"", here(&from));
    let daemon = &site.running.daemon;
    let told = until(interop::process::COMMAND_LIMIT, || {
        daemon.log().contains(&line)
    });
    assert!(told, "{}", daemon.log());
    assert!(!daemon.log().contains(": read \""), "{}", daemon.log());
}
