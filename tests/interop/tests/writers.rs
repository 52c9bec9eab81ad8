//! Several simultaneous copies to one target, as separate processes: a successful copy leaves the
//! whole content of one source, and no part file stays. Up and down, with our server and OpenSSH's;
//! in place if ours is at the writing end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use interop::matrix::noise;
use interop::peers::ours;
use interop::process::{Background, COMMAND_LIMIT};
use interop::scratch::{Scratch, until};
use interop::site::{Site, here, program, sftp_sites, there};

/// Longer than a file that only one connection writes.
const LEN: usize = 17 << 20;

/// Starts a copy of each source to `to` at once; returns the result of each.
fn copy(site: &Site, flags: &[&str], sources: &[&Path], to: &Path, up: bool) -> Vec<bool> {
    let mut copies: Vec<Background> = sources
        .iter()
        .map(|from| {
            let mut command = program(site, "scp");
            command.arg("-q").args(flags);
            match up {
                true => command.args([here(from), there(to)]),
                false => command.args([there(from), here(to)]),
            };
            Background::start(command.stderr(Stdio::null())).unwrap()
        })
        .collect();
    copies
        .iter_mut()
        .map(|copy| copy.0.wait().unwrap().success())
        .collect()
}

#[test]
fn of_several_writers_each_that_ends_well_leaves_whole_content() {
    for (name, site) in sftp_sites() {
        let scratch = Scratch::new();
        let contents = [1, 2].map(|seed| {
            let mut content = noise(LEN + seed);
            content.reverse();
            content
                .iter_mut()
                .for_each(|byte| *byte ^= u8::try_from(seed).unwrap());
            content
        });
        let sources = [0, 1].map(|at| scratch.write(["one", "two"][at], &contents[at]));
        let modes: [&[&str]; 4] = [
            &["--atomic"],
            &["-n", "3"],
            &["--atomic", "-Z"],
            &["-n", "3", "-Z"],
        ];
        for (flags, up) in modes
            .into_iter()
            .flat_map(|flags| [(flags, true), (flags, false)])
        {
            let what = format!("{name} {flags:?}, up {up}");
            let folder = scratch.join("folder");
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir(&folder).unwrap();
            let to = folder.join("to");
            let from = [&*sources[0], &*sources[1], &*sources[0]];
            let good = copy(&site, flags, &from, &to, up);
            let there = fs::read(&to).unwrap();
            let whole: Vec<usize> = (0..2).filter(|at| contents[*at] == there).collect();
            // It is the content of a successful copy.
            let left = whole
                .iter()
                .any(|at| (0..3).any(|writer| writer % 2 == *at && good[writer]));
            assert!(left, "{what}: {good:?} {whole:?}");
            // Resumed copies of one source may share a part file: one of them renames it.
            let shared = flags.contains(&"-Z") && up;
            assert!(good[1] && (good[0] || good[2]), "{what}: {good:?}");
            assert!(shared || good == [true; 3], "{what}: {good:?}");
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "{what}");
        }
    }
}

/// In place, writers of one source write the same bytes: a successful one leaves the whole content.
/// All may fail.
#[test]
fn writers_of_one_source_leave_it_whole_in_place() {
    for (name, site) in sftp_sites() {
        for (flags, up) in [(&[][..], true), (&[][..], false), (&["-Z"][..], true)] {
            let scratch = Scratch::new();
            let content = noise(LEN);
            let from = scratch.write("from", &content);
            let to = scratch.join("to");
            let good = copy(&site, flags, &[&*from; 3], &to, up);
            let what = format!("{name} {flags:?}, up {up}: {good:?}");
            let whole = fs::read(&to).unwrap() == content;
            assert!(whole || !good.contains(&true), "{what}");
        }
    }
}

/// `scp -O` with our program as the other side, on this machine.
fn old_scp(scratch: &Scratch) -> Command {
    let other = ours::binary().display().to_string();
    let text = format!("#!/bin/sh\nfor last; do :; done\nexec sh -c \"{other} $last\"\n");
    let carrier = scratch.write("carrier", text);
    fs::set_permissions(&carrier, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(ours::binary());
    command.arg("scp").arg("-O").arg("-S").arg(carrier);
    command
}

/// Copies of two files, each with its flags, to one target that ours writes.
fn ways(
    sites: &[(&str, Site)],
    scratch: &Scratch,
    to: &Path,
    copies: [(&[&str], &Path); 2],
) -> Vec<(String, [Command; 2])> {
    let commands = |up: bool, make: &dyn Fn() -> Command| {
        copies.map(|(flags, from)| {
            let mut command = make();
            command.args(flags);
            match up {
                true => command.args([here(from), there(to)]),
                false => command.args([there(from), here(to)]),
            };
            command
        })
    };
    let mut ways = Vec::new();
    for up in [true, false] {
        for (name, site) in sites {
            // Another server does not check.
            if !up || *name == "ours" {
                let both = commands(up, &|| program(site, "scp"));
                ways.push((format!("{name}, up {up}"), both));
            }
        }
        let both = commands(up, &|| old_scp(scratch));
        ways.push((format!("old protocol, up {up}"), both));
    }
    ways
}

#[test]
fn two_writers_in_place_do_not_both_end_well_with_mixed_content() {
    let sites = sftp_sites();
    let scratch = Scratch::new();
    let to = scratch.join("to");
    let contents = [LEN, LEN + 1].map(|len| {
        let mut content = noise(len);
        content.rotate_left(len - LEN + 7);
        content
    });
    let from = [0, 1].map(|at| scratch.write(["one", "two"][at], &contents[at]));
    for is_there in [false, true] {
        let copies = from.each_ref().map(|from| (&["-q"][..], &**from));
        for (what, commands) in ways(&sites, &scratch, &to, copies) {
            let _ = fs::remove_file(&to);
            if is_there {
                fs::write(&to, noise(5_000_000)).unwrap();
            }
            let said = scratch.join("said");
            let mut copies = commands.map(|mut command| {
                let file = fs::File::options().append(true).create(true).open(&said);
                Background::start(command.stderr(file.unwrap())).unwrap()
            });
            let good = [0, 1].map(|at| copies[at].0.wait().unwrap().success());
            let said = fs::read_to_string(&said).unwrap_or_default();
            let there = fs::read(&to).unwrap();
            let whole = (0..2).any(|at| good[at] && contents[at] == there);
            let mixed = good == [true; 2] && !whole;
            assert!(!mixed, "{what}, there {is_there}: {said}");
        }
    }
}

#[test]
fn a_writer_that_stands_still_holds_nobody_up_and_fails_when_it_goes_on() {
    let sites = sftp_sites();
    let scratch = Scratch::new();
    let to = scratch.join("to");
    let [one, two] = [LEN, 3_000_000].map(noise);
    let from = [scratch.write("one", one), scratch.write("two", &two)];
    let copies = [
        (&["-q", "-l", "8000"][..], &*from[0]),
        (&["-q", "-p"], &from[1]),
    ];
    for (what, [mut still, mut other]) in ways(&sites, &scratch, &to, copies) {
        let _ = fs::remove_file(&to);
        let said = scratch.join("said");
        let file = fs::File::create(&said).unwrap();
        let mut still = Background::start(still.stderr(file)).unwrap();
        let begun = until(COMMAND_LIMIT, || {
            fs::metadata(&to).is_ok_and(|to| to.len() > 0)
        });
        assert!(begun, "{what}");
        let signal = |signal: &str| {
            let pid = still.0.id().to_string();
            let sent = Command::new("kill").args([signal, &pid]).status();
            assert!(sent.unwrap().success());
        };
        signal("-STOP");
        let other = other.status().unwrap();
        let whole = fs::read(&to).unwrap() == two;
        signal("-CONT");
        let woken = still.0.wait().unwrap();
        let said = fs::read_to_string(&said).unwrap();
        assert!(other.success() && whole, "{what}: {said}");
        assert!(!woken.success(), "{what}");
        assert!(
            said.contains("another program wrote this file"),
            "{what}: {said}"
        );
        assert!(fs::read(&to).unwrap() == two, "{what}");
    }
}
