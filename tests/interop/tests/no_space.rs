//! Full disks: the state after a failed copy, and its continuation with `-Z`.

use std::fs;
use std::path::Path;
use std::process::Command;

use interop::account::is_root;
use interop::matrix::noise;
use interop::mounted::Mounted;
use interop::process::Input;
use interop::report::skipped;
use interop::scratch::Scratch;
use interop::site::{finish, here, program, sftp_sites, there};

/// Smallest file that several connections write to a part file (docs/transfer.md), bytes.
const LARGE_BYTES: usize = 20 << 20;
const SMALL_DISK: &str = "size=8m";
const LARGE_DISK: &str = "size=64m";

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the disk");
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// In place, one connection leaves a prefix without gaps. A part file of several connections can
/// have gaps and would use disk space under a hidden name: it is removed without `-Z` and kept with
/// it. The target is then either unchanged or complete.
#[test]
fn a_full_disk_leaves_what_a_copy_goes_on_with() {
    if !is_root() {
        skipped("full disks", &"not root");
        return;
    }
    for (name, site) in sftp_sites() {
        for up in [true, false] {
            for flags in [&[][..], &["-Z"], &["-n", "3"], &["-n", "3", "-Z"]] {
                let what = format!("{name}, up {up}, {flags:?}");
                let scratch = Scratch::new();
                let folder = scratch.join("disk");
                fs::create_dir(&folder).unwrap();
                let mut mount = Command::new("mount");
                let mount = mount.args(["-t", "tmpfs", "-o", SMALL_DISK, "small"]);
                let disk = match Mounted::at(&folder, mount) {
                    Ok(disk) => disk,
                    Err(why) => return skipped("full disks", &why),
                };
                let content = noise(LARGE_BYTES);
                let from = scratch.write("from", &content);
                let to = disk.path().join("to");
                let copy = |flags: &[&str]| {
                    let (source, target) = match up {
                        true => (here(&from), there(&to)),
                        false => (there(&from), here(&to)),
                    };
                    let mut command = program(&site, "scp");
                    command.args(flags).args(["--json", &source, &target]);
                    finish(&mut command, Input::Nothing)
                };
                let full = copy(flags);
                assert_eq!(full.status, 1, "{what}: {}", full.summary());
                let said = full.stderr.text();
                assert!(said.contains("No space left on device"), "{what}: {said}");
                let left = names(disk.path());
                match flags {
                    [] | ["-Z"] => {
                        assert_eq!(left, ["to"], "{what}");
                        let there = fs::read(&to).unwrap();
                        assert!(there.len() > 4 << 20, "{what}: {} bytes", there.len());
                        assert!(content.starts_with(&there), "{what}");
                    }
                    ["-n", "3"] => assert_eq!(left, [""; 0], "{what}"),
                    _ => assert!(
                        matches!(&left[..], [part] if part.ends_with(".fulmar-part")),
                        "{what}: {left:?}"
                    ),
                }
                let mut remount = Command::new("mount");
                remount.args(["-o", &format!("remount,{LARGE_DISK}")]);
                assert!(remount.arg(disk.path()).status().unwrap().success());
                let mut again = flags.to_vec();
                if !again.contains(&"-Z") {
                    again.push("-Z");
                }
                let outcome = copy(&again);
                assert_eq!(outcome.status, 0, "{what}: {}", outcome.summary());
                assert_eq!(names(disk.path()), ["to"], "{what}");
                assert!(fs::read(&to).unwrap() == content, "{what}");
                // OpenSSH's server cannot verify a part file.
                let proven = name == "ours" || !flags.contains(&"-n");
                let resumes = proven && flags != ["-n", "3"];
                let said = outcome.stdout.text();
                let from_nothing = said.contains("\"resumed_bytes\":0");
                assert_eq!(from_nothing, !resumes, "{what}: {said}");
            }
        }
    }
}
