//! `scp -O` between ours and OpenSSH's, each as the program of the user and as the one of the other
//! side: every couple must have the result of two of OpenSSH's.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use interop::matrix::noise;
use interop::peers::ours::{self, Kind};
use interop::process::{Background, COMMAND_LIMIT, Input, Outcome, installed, wait};
use interop::report::skipped;
use interop::scratch::{Scratch, until};
use interop::site::finish;

/// The user's program, and the program of the other side.
#[derive(Clone, Copy, Debug)]
struct Couple {
    client: Kind,
    other: Kind,
}

const OF_OPENSSH: Couple = Couple {
    client: Kind::OpenSsh,
    other: Kind::OpenSsh,
};

const COUPLES: [Couple; 3] = [
    Couple {
        client: Kind::Fulmar,
        other: Kind::Fulmar,
    },
    Couple {
        client: Kind::Fulmar,
        other: Kind::OpenSsh,
    },
    Couple {
        client: Kind::OpenSsh,
        other: Kind::Fulmar,
    },
];

/// A directory with the files of a couple that copies on this machine.
struct Place {
    couple: Couple,
    scratch: Scratch,
    carrier: PathBuf,
}

impl Place {
    fn new(couple: Couple) -> Self {
        let scratch = Scratch::new();
        // A program instead of ssh runs the command locally, with the other side's scp.
        let other = match couple.other {
            Kind::Fulmar => format!("{} ", ours::binary().display()),
            Kind::OpenSsh => String::new(),
        };
        let text = format!("#!/bin/sh\nfor last; do :; done\nexec sh -c \"{other}$last\"\n");
        let carrier = scratch.write("carrier", text);
        fs::set_permissions(&carrier, fs::Permissions::from_mode(0o755)).unwrap();
        Self {
            couple,
            scratch,
            carrier,
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = match self.couple.client {
            Kind::Fulmar => {
                let mut command = Command::new(ours::binary());
                command.arg("scp");
                command
            }
            Kind::OpenSsh => Command::new("scp"),
        };
        command.arg("-q").arg("-S").arg(&self.carrier).arg("-O");
        command.args(arguments).current_dir(self.scratch.path());
        command
    }

    fn copy(&self, arguments: &[&str]) -> Outcome {
        finish(&mut self.command(arguments), Input::Nothing)
    }

    /// A name in the directory, as a remote name.
    fn there(&self, name: &str) -> String {
        format!("host:{}", self.scratch.join(name).display())
    }

    /// Everything below a directory of the scratch: path, mode, and content.
    fn found(&self, folder: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut left = vec![self.scratch.join(folder)];
        while let Some(path) = left.pop() {
            let Ok(metadata) = fs::symlink_metadata(&path) else {
                continue;
            };
            let name = path.strip_prefix(self.scratch.path()).unwrap();
            let mode = metadata.mode();
            found.push(match metadata.is_dir() {
                true => format!("{name:?} {mode:o}"),
                false => format!("{name:?} {mode:o} {:?}", fs::read(&path).unwrap()),
            });
            if metadata.is_dir() {
                left.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            }
        }
        found.sort();
        found
    }
}

/// Runs a test first with two of OpenSSH's, then with every couple that includes ours.
fn each_as_openssh<T: PartialEq + std::fmt::Debug>(test: impl Fn(&Place) -> T) {
    if installed("scp").is_none() {
        return skipped("the old protocol", &"no scp is installed");
    }
    let expected = test(&Place::new(OF_OPENSSH));
    for couple in COUPLES {
        assert_eq!(test(&Place::new(couple)), expected, "{couple:?}");
    }
}

fn write(path: &Path, content: &[u8], mode: u32) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn modes_arrive_as_with_openssh() {
    each_as_openssh(|place| {
        let from = place.scratch.join("from");
        fs::create_dir(&from).unwrap();
        for mode in [
            0o400, 0o444, 0o555, 0o600, 0o640, 0o755, 0o777, 0o1755, 0o1640,
        ] {
            write(&from.join(format!("{mode:o}")), b"content", mode);
            // Empty files have a separate path through a sink.
            write(&from.join(format!("{mode:o}-empty")), b"", mode);
        }
        for mode in [0o555, 0o700, 0o1777] {
            let folder = from.join(format!("folder-{mode:o}"));
            fs::create_dir(&folder).unwrap();
            write(&folder.join("in"), b"x", 0o444);
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        }
        let mut came = Vec::new();
        for (flags, up, down) in [("-r", "up", "down"), ("-rp", "up-p", "down-p")] {
            let outcome = place.copy(&[flags, "from", &place.there(up)]);
            came.push(outcome.status.to_string());
            let outcome = place.copy(&[flags, &place.there("from"), down]);
            came.push(outcome.status.to_string());
            came.extend(place.found(up));
            came.extend(place.found(down));
        }
        came
    });
}

#[test]
fn odd_names_and_deep_trees_arrive_as_with_openssh() {
    each_as_openssh(|place| {
        let from = place.scratch.join("from");
        let deep = from.join(["d"; 100].join("/"));
        fs::create_dir_all(&deep).unwrap();
        write(&deep.join("f"), b"deep", 0o644);
        for name in [
            "tab\there",
            "new\nline",
            "e\u{e9}\n\\z",
            "back\\slash",
            "\u{7f}\n",
        ] {
            write(&from.join(name), name.as_bytes(), 0o644);
        }
        let mut came = Vec::new();
        came.push(
            place
                .copy(&["-r", "from", &place.there("up")])
                .status
                .to_string(),
        );
        came.push(
            place
                .copy(&["-r", &place.there("from"), "down"])
                .status
                .to_string(),
        );
        came.extend(place.found("up"));
        came.extend(place.found("down"));
        came
    });
}

#[test]
fn a_source_that_is_missing_ends_nothing() {
    each_as_openssh(|place| {
        for name in ["a", "c"] {
            write(&place.scratch.join(name), name.as_bytes(), 0o644);
        }
        let mut came = Vec::new();
        for (index, sources) in [["a", "b", "c"], ["b", "a", "c"], ["a", "c", "b"]]
            .into_iter()
            .enumerate()
        {
            for way in ["up", "down", "across"] {
                let folder = format!("{way}{index}");
                fs::create_dir(place.scratch.join(&folder)).unwrap();
                let mut arguments: Vec<String> = sources.map(str::to_owned).to_vec();
                if way != "up" {
                    arguments = sources.map(|source| place.there(source)).to_vec();
                }
                arguments.push(match way {
                    "down" => folder.clone(),
                    _ => place.there(&folder),
                });
                // Two servers talk to each other through this machine.
                arguments.insert(0, "-3".to_owned());
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                let outcome = place.copy(&arguments);
                // Between two servers OpenSSH forgets failures before the last source.
                match (way, place.couple.client) {
                    ("across", Kind::OpenSsh) => {}
                    _ => assert_eq!(outcome.status, 1, "{way}: {}", outcome.summary()),
                }
                came.extend(place.found(&folder));
            }
        }
        came
    });
}

#[test]
fn a_file_copied_onto_itself_keeps_its_content() {
    if installed("scp").is_none() {
        return skipped("the old protocol", &"no scp is installed");
    }
    for couple in COUPLES {
        let place = Place::new(couple);
        let content = noise(700_000);
        write(&place.scratch.join("file"), &content, 0o644);
        fs::hard_link(place.scratch.join("file"), place.scratch.join("other")).unwrap();
        let far = place.there("file");
        for (flags, from, to) in [
            ("-q", "file", far.as_str()),
            ("-q", &far, "file"),
            ("-p", "file", &far),
            ("-p", &far, "file"),
            ("-q", "other", &far),
            ("-q", &far, "other"),
        ] {
            let outcome = place.copy(&[flags, from, to]);
            let what = format!("{couple:?} {flags} {from} {to}: {}", outcome.summary());
            assert!(
                fs::read(place.scratch.join("file")).unwrap() == content,
                "{what}"
            );
            // OpenSSH's sink writes the same bytes again, and our source reports that its file was
            // written.
            let openssh_is_sink = match to == far {
                true => couple.other == Kind::OpenSsh,
                false => couple.client == Kind::OpenSsh,
            };
            if !openssh_is_sink {
                assert_eq!(outcome.status, 0, "{what}");
            }
        }
    }
}

#[test]
fn a_source_that_changes_its_length_ends_the_copy_and_loses_nothing() {
    if installed("scp").is_none() {
        return skipped("the old protocol", &"no scp is installed");
    }
    for couple in COUPLES {
        for len in [900_000, 2_100_000] {
            let place = Place::new(couple);
            let (from, to) = (place.scratch.join("from"), place.scratch.join("to"));
            let content = noise(2_000_000);
            write(&from, &content, 0o644);
            // 1,000,000 bytes a second, so that it changes while it is read.
            let mut command = place.command(&["-l", "8000", "from", &place.there("to")]);
            let mut copy = Background::start(&mut command).unwrap();
            let came = || fs::metadata(&to).map_or(0, |there| there.len());
            assert!(until(COMMAND_LIMIT, || came() > 0), "{couple:?}");
            let file = fs::File::options().write(true).open(&from).unwrap();
            file.set_len(len).unwrap();
            let status = wait(&mut copy.0, COMMAND_LIMIT)
                .unwrap_or_else(|why| panic!("{couple:?} {len}: {why}"));
            let there = fs::read(&to).unwrap();
            let what = format!("{couple:?} {len}: {status}, {} bytes", there.len());
            if couple.client == Kind::Fulmar {
                assert_eq!(status.code(), Some(1), "{what}");
            }
            // The received data stay: all available bytes, followed only by zeros.
            let kept = there
                .len()
                .min(usize::try_from(len).unwrap())
                .min(content.len());
            assert!(kept > 0 && there.starts_with(&content[..kept]), "{what}");
        }
    }
}

#[test]
fn flags_that_the_old_protocol_cannot_carry_out_are_refused() {
    let place = Place::new(COUPLES[0]);
    write(&place.scratch.join("file"), b"x", 0o644);
    for flags in [
        &["--atomic"][..],
        &["--sparse"],
        &["--verify"],
        &["-Z"],
        &["-n", "2"],
    ] {
        let far = place.there("to");
        let arguments: Vec<&str> = flags.iter().copied().chain(["file", &far]).collect();
        let outcome = place.copy(&arguments);
        assert_eq!(outcome.status, 1, "{}", outcome.summary());
        let said = outcome.stderr.text();
        let named = format!("{} needs SFTP", flags[0]);
        assert!(said.contains(&named), "{said}");
        assert!(!place.scratch.join("to").exists());
    }
}

#[test]
fn a_signal_ends_what_waits_for_others() {
    let scratch = Scratch::new();
    // It announces a file and is then silent.
    let text = "#!/bin/sh\nprintf 'C0644 1 x\\n'\necho $$ >\"$PID_FILE.$$\"\n\
                mv \"$PID_FILE.$$\" \"$PID_FILE\"\nexec sleep 600\n";
    let carrier = scratch.write("carrier", text);
    fs::set_permissions(&carrier, fs::Permissions::from_mode(0o755)).unwrap();
    let fifo = scratch.join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let fifo = fifo.display().to_string();
    let ways = [
        // A target that nobody reads.
        &["-O", "host:x", &fifo][..],
        &["-O", "-3", "one:x", "other:x"],
        &["-O", "-R", "one:x", "other:x"],
        &["-R", "one:x", "other:x"],
    ];
    for (index, arguments) in ways.into_iter().enumerate() {
        let pid_file = scratch.join(&format!("pid{index}"));
        let mut command = Command::new(ours::binary());
        command.arg("scp").arg("-S").arg(&carrier).args(arguments);
        command.env("PID_FILE", &pid_file);
        let mut copy = Background::start(&mut command).unwrap();
        assert!(until(COMMAND_LIMIT, || pid_file.exists()), "{arguments:?}");
        let other = fs::read_to_string(&pid_file).unwrap();
        let own = copy.0.id().to_string();
        let sent = Command::new("kill").args(["-s", "TERM", &own]).status();
        assert!(sent.unwrap().success());
        let status =
            wait(&mut copy.0, COMMAND_LIMIT).unwrap_or_else(|why| panic!("{arguments:?}: {why}"));
        assert_eq!(status.code(), Some(1), "{arguments:?}");
        let left = Path::new("/proc").join(other.trim());
        assert!(until(COMMAND_LIMIT, || !left.exists()), "{arguments:?}");
    }
}
