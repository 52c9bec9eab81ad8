//! Several copies to one target at once, as processes of their own: whoever ends well has left one
//! source's whole content, and no part file stays. Up and down, with our server and OpenSSH's; in
//! place wherever ours is at the end that writes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use interop::matrix::noise;
use interop::peers::ours;
use interop::process::{Background, COMMAND_LIMIT};
use interop::scratch::{Scratch, until};
use interop::site::{Site, here, program, scp, sftp_sites, there};

/// Longer than what one connection writes alone.
const LEN: usize = 17 << 20;

/// Starts a copy of each source to `to` at once; gives how each ended.
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
            // It is that of one that ended well.
            let left = whole
                .iter()
                .any(|at| (0..3).any(|writer| writer % 2 == *at && good[writer]));
            assert!(left, "{what}: {good:?} {whole:?}");
            // Copies of one source that resume may share a part at another's server: one of them
            // gives it its name.
            let shared = flags.contains(&"-Z") && up && name != "ours";
            assert!(good[1] && (good[0] || good[2]), "{what}: {good:?}");
            assert!(shared || good == [true; 3], "{what}: {good:?}");
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "{what}");
        }
    }
}

/// In place, writers of one source write the same.
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
            assert!(good.contains(&true), "{what}");
            assert!(fs::read(&to).unwrap() == content, "{what}");
        }
    }
}

/// `scp -O` whose other side is ours, on this machine.
fn old_scp(scratch: &Scratch) -> Command {
    let other = ours::binary().display().to_string();
    let text = format!("#!/bin/sh\nfor last; do :; done\nexec sh -c \"{other} $last\"\n");
    let carrier = scratch.write("carrier", text);
    fs::set_permissions(&carrier, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(ours::binary());
    command.arg("scp").arg("-O").arg("-S").arg(carrier);
    command
}

/// Up, down, by the old protocol, and a small file: all of them to one target.
#[test]
fn of_writers_in_place_each_that_ends_well_leaves_its_whole_content() {
    let sites = sftp_sites();
    let [ours, others @ ..] = &sites[..] else {
        unreachable!("ours is always there")
    };
    for round in 0..4_usize {
        let scratch = Scratch::new();
        let to = scratch.join("to");
        if round % 2 == 1 {
            fs::write(&to, noise(5_000_000)).unwrap();
        }
        let contents = [LEN, LEN + 1, 8_000_000, 9000, 70_000].map(|len| {
            let mut content = noise(len);
            content.rotate_left(len / 3);
            content
        });
        let from = |number: usize| scratch.write(&format!("from-{number}"), &contents[number]);
        let down = &others.get(round / 2).unwrap_or(ours).1;
        let commands = [
            (program(&ours.1, "scp"), here(&from(0)), there(&to)),
            (program(down, "scp"), there(&from(1)), here(&to)),
            (old_scp(&scratch), here(&from(2)), there(&to)),
            (program(&ours.1, "scp"), here(&from(3)), there(&to)),
            (old_scp(&scratch), there(&from(4)), here(&to)),
        ];
        let started = commands.map(|(mut command, from, to)| {
            let said = scratch.join(&format!("said {}", from.replace('/', "-")));
            let file = fs::File::create(&said).unwrap();
            command.args(["-q", &from, &to]).stderr(file);
            (Background::start(&mut command).unwrap(), said)
        });
        let ended = started.map(|(mut copy, said)| {
            let good = copy.0.wait().unwrap().success();
            let said = fs::read_to_string(said).unwrap();
            assert!(good || said.contains("another copy"), "{round}: {said}");
            good
        });
        let there = fs::read(&to).unwrap();
        let whole = (0..contents.len()).find(|number| contents[*number] == there);
        assert!(
            whole.is_some_and(|number| ended[number]),
            "{round}: {ended:?} {whole:?}"
        );
    }
}

#[test]
fn a_copy_that_stands_still_holds_nobody_up_and_fails_when_it_wakes() {
    for (name, site) in sftp_sites() {
        for up in [true, false] {
            if up && name != "ours" {
                continue;
            }
            let scratch = Scratch::new();
            let [one, two] = [LEN, 3_000_000].map(noise);
            let [one, two] = [scratch.write("one", one), scratch.write("two", &two)];
            let to = scratch.join("to");
            let ends = |from: &Path| match up {
                true => [here(from), there(&to)],
                false => [there(from), here(&to)],
            };
            let mut command = program(&site, "scp");
            command.args(["-q", "-l", "8000"]).args(ends(&one));
            let mut still = Background::start(command.stderr(Stdio::null())).unwrap();
            let begun = until(COMMAND_LIMIT, || {
                fs::metadata(&to).is_ok_and(|to| to.len() > 0)
            });
            assert!(begun, "{name}, up {up}");
            let signal = |signal: &str| {
                let pid = still.0.id().to_string();
                let sent = Command::new("kill").args([signal, &pid]).status();
                assert!(sent.unwrap().success());
            };
            signal("-STOP");
            let [from, target] = ends(&two);
            let other = scp(&site, &["-q", &from, &target]);
            signal("-CONT");
            let what = format!("{name}, up {up}");
            assert_eq!(other.status, 0, "{what}: {}", other.summary());
            let woken = still.0.wait().unwrap();
            assert!(!woken.success(), "{what}");
            assert!(fs::read(&to).unwrap() == fs::read(&two).unwrap(), "{what}");
        }
    }
}
