//! Several copies to one target at once, as processes of their own: whoever ends well has left one
//! source's whole content, and no part file stays. Up and down, with our server and OpenSSH's.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use interop::matrix::noise;
use interop::process::Background;
use interop::scratch::Scratch;
use interop::site::{Site, here, program, sftp_sites, there};

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
            // Copies of one source that resume may share a part: one of them gives it its name.
            let shared = flags.contains(&"-Z") && up;
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
