//! Our scp and sftp with OpenSSH's server and ours: trees, the old protocol in both roles,
//! interrupted copies that are continued, full disks, batches; key exchanges during copies, also
//! with OpenSSH's programs.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use interop::account::is_root;
use interop::matrix::noise;
use interop::mounted::Mounted;
use interop::peers::ours::{self, Kind, couples};
use interop::process::{Background, COMMAND_LIMIT, Input, Outcome, installed, tool};
use interop::report::skipped;
use interop::scratch::{Scratch, until};
use interop::site::{HOST, Site, finish, here, program, scp, there};
use interop::terminal::Terminal;

const SFTP_SERVER: &str = "/usr/lib/openssh/sftp-server";

/// Runs the test with each available server.
fn each_server(test: impl Fn(&Site, &Scratch)) {
    for (server, subsystem) in [
        (Kind::OpenSsh, format!("Subsystem sftp {SFTP_SERVER}\n")),
        (Kind::Fulmar, "Subsystem sftp internal-sftp\n".to_owned()),
    ] {
        let there = installed("sshd").is_some() && Path::new(SFTP_SERVER).exists();
        if server == Kind::OpenSsh && !there {
            skipped("openssh's SFTP server", &"not installed");
            continue;
        }
        let site = Site::new(Kind::Fulmar, server, &subsystem);
        test(&site, &Scratch::new());
    }
}

fn bytes(len: usize) -> Vec<u8> {
    let mut state = 1_u32;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            u8::try_from(state >> 24).unwrap()
        })
        .collect()
}

fn tree(scratch: &Scratch) -> PathBuf {
    let root = scratch.join("tree");
    for folder in ["d/e/f", "empty", "many"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::write(root.join("d/e/f/large"), bytes(3_000_001)).unwrap();
    fs::write(root.join("d/nothing"), "").unwrap();
    for number in 0..300 {
        fs::write(root.join(format!("many/{number}")), bytes(number * 17)).unwrap();
    }
    let name = std::os::unix::ffi::OsStringExt::from_vec(b"odd \xff'\"*".to_vec());
    let name: std::ffi::OsString = name;
    fs::write(root.join(name), "odd").unwrap();
    fs::set_permissions(root.join("d/nothing"), fs::Permissions::from_mode(0o640)).unwrap();
    let old = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let file = fs::File::open(root.join("d/e/f/large")).unwrap();
    file.set_modified(old).unwrap();
    root
}

/// True if two trees have the same content; with `kept` also the same modes and times in seconds.
fn same(one: &Path, other: &Path, kept: bool) -> bool {
    let mut names = 0;
    for entry in fs::read_dir(one).unwrap() {
        let entry = entry.unwrap();
        let beside = other.join(entry.file_name());
        let (mine, Ok(theirs)) = (entry.metadata().unwrap(), fs::metadata(&beside)) else {
            return false;
        };
        let alike = !kept || (mine.mode(), mine.mtime()) == (theirs.mode(), theirs.mtime());
        let content = match mine.is_dir() {
            true => same(&entry.path(), &beside, kept),
            false => fs::read(entry.path()).unwrap() == fs::read(&beside).unwrap(),
        };
        if !alike || !content {
            return false;
        }
        names += 1;
    }
    fs::read_dir(other).unwrap().count() == names
}

#[test]
fn trees_go_up_and_down_with_modes_and_times() {
    each_server(|site, scratch| {
        let root = tree(scratch);
        let (up, down) = (scratch.join("up"), scratch.join("down"));
        let outcome = scp(site, &["-rp", &here(&root), &there(&up)]);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        assert!(same(&root, &up, true));
        let outcome = scp(site, &["-rp", &there(&up), &here(&down)]);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        assert!(same(&root, &down, true));
        // Into an existing directory, over several connections, and between servers.
        let outcome = scp(site, &["-r", "-n", "2", &here(&root), &there(&up)]);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        assert!(same(&root, &up.join("tree"), false));
        let across = scratch.join("across");
        let outcome = scp(site, &["-r", &there(&root), &there(&across)]);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        assert!(same(&root, &across, false));
    });
}

#[test]
fn the_old_protocol_goes_both_ways_with_openssh_at_the_other_end() {
    if installed("scp").is_none() {
        return skipped("the old protocol", &"no scp is installed");
    }
    each_server(|site, scratch| {
        let root = tree(scratch);
        let (up, down) = (scratch.join("up"), scratch.join("down"));
        let outcome = scp(site, &["-O", "-rp", &here(&root), &there(&up)]);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        assert!(same(&root, &up, true));
        let outcome = scp(site, &["-O", "-rp", &there(&up), &here(&down)]);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        assert!(same(&root, &down, true));
        let outcome = scp(site, &["-O", &there(&up.join("nothing")), &here(&down)]);
        assert_eq!(outcome.status, 1, "{}", outcome.summary());
    });
}

#[test]
fn openssh_s_scp_talks_to_our_roles() {
    if installed("scp").is_none() {
        return skipped("the roles of the old protocol", &"no scp is installed");
    }
    let scratch = Scratch::new();
    let root = tree(&scratch);
    // A program instead of ssh runs the command locally, with our scp as the other side.
    let text = format!(
        "#!/bin/sh\nfor last; do :; done\nexec sh -c \"{} $last\"\n",
        ours::binary().display()
    );
    let carrier = scratch.write("carrier", text);
    fs::set_permissions(&carrier, fs::Permissions::from_mode(0o755)).unwrap();
    let (up, down) = (scratch.join("up"), scratch.join("down"));
    for (from, to) in [(here(&root), there(&up)), (there(&up), here(&down))] {
        let mut command = Command::new("scp");
        command
            .arg("-S")
            .arg(&carrier)
            .args(["-O", "-rp", &from, &to]);
        let outcome = finish(&mut command, Input::Nothing);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
    }
    assert!(same(&root, &up, true) && same(&root, &down, true));
}

#[test]
fn a_copy_that_is_killed_leaves_a_prefix_and_is_gone_on_with() {
    each_server(|site, scratch| {
        let content = bytes(6_000_000);
        let from = scratch.write("from", &content);
        for (name, up) in [("up", true), ("down", false)] {
            let to = scratch.join(name);
            let (source, target) = match up {
                true => (here(&from), there(&to)),
                false => (there(&from), here(&to)),
            };
            let mut command = program(site, "scp");
            // All of it would take a minute.
            command.args(["--limit", "100K", &source, &target]);
            let child = Background::start(command.stderr(Stdio::null())).unwrap();
            let len = || fs::metadata(&to).map_or(0, |metadata| metadata.len());
            assert!(until(COMMAND_LIMIT, || len() > 100_000));
            drop(child);
            // Data in transit may still arrive.
            site.running.daemon.comes_to_rest();
            let part = fs::read(&to).unwrap();
            assert!(part.len() < content.len() && content.starts_with(&part));
            let outcome = scp(site, &["-Z", "--json", "--verify", &source, &target]);
            assert_eq!(outcome.status, 0, "{}", outcome.summary());
            assert!(fs::read(&to).unwrap() == content);
            let said = outcome.stdout.text();
            assert!(!said.contains("\"resumed_bytes\":0,"), "{said}");
            assert!(said.contains("\"verified\""), "{said}");
        }
    });
}

#[test]
fn a_full_disk_is_named_and_leaves_a_prefix() {
    if !is_root() {
        return skipped("a full disk", &"needs root");
    }
    each_server(|site, scratch| {
        let small = scratch.join("small");
        fs::create_dir(&small).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=2m", "none"]);
        match Mounted::at(&small, &mut mount) {
            Ok(small) => there_is_no_room(site, scratch, &small, "No space left on device"),
            Err(why) => skipped("a full disk", &why),
        }
    });
}

/// Copies of 6 MB there and from there, which fail with these words.
fn there_is_no_room(site: &Site, scratch: &Scratch, small: &Mounted, words: &str) {
    let content = bytes(6_000_000);
    let from = scratch.write("from", &content);
    let to = small.path().join("to");
    for (source, target) in [(here(&from), there(&to)), (there(&from), here(&to))] {
        let outcome = scp(site, &[&source, &target]);
        let part = fs::read(&to).unwrap();
        fs::remove_file(&to).unwrap();
        assert_eq!(outcome.status, 1, "{}", outcome.summary());
        let said = outcome.stderr.text();
        assert!(said.contains(words), "{said}");
        assert!(said.contains(&*to.to_string_lossy()), "{said}");
        assert!(part.len() < content.len() && content.starts_with(&part));
    }
}

/// A file system with 4 MiB of space. Btrfs has quotas that apply to root too.
fn with_quota(scratch: &Scratch) -> Result<Mounted, String> {
    let (mkfs, btrfs) = (installed("mkfs.btrfs"), installed("btrfs"));
    let (Some(mkfs), Some(btrfs)) = (mkfs, btrfs) else {
        return Err("no mkfs.btrfs (btrfs-progs) is installed".to_owned());
    };
    let (image, folder) = (scratch.join("image"), scratch.join("quota"));
    let file = fs::File::create(&image).map_err(|why| why.to_string())?;
    file.set_len(200 << 20).map_err(|why| why.to_string())?;
    fs::create_dir(&folder).map_err(|why| why.to_string())?;
    let (image, at) = (here(&image), here(&folder));
    tool(&mkfs, &["-q", &image])?;
    let mounted = Mounted::at(&folder, Command::new("mount").args(["-o", "loop", &image]))?;
    tool(&btrfs, &["quota", "enable", &at])?;
    tool(&btrfs, &["qgroup", "limit", "4M", &at])?;
    Ok(mounted)
}

#[test]
fn a_quota_is_named_and_leaves_a_prefix() {
    if !is_root() {
        return skipped("a quota", &"needs root");
    }
    let scratch = Scratch::new();
    match with_quota(&scratch) {
        Ok(small) => {
            // OpenSSH's server reports only that it failed.
            let lines = "Subsystem sftp internal-sftp\n";
            let site = Site::new(Kind::Fulmar, Kind::Fulmar, lines);
            there_is_no_room(&site, &scratch, &small, "Disk quota exceeded");
        }
        Err(why) => skipped("a quota", &why),
    }
}

#[test]
fn a_batch_ends_with_the_first_failure_that_counts() {
    each_server(|site, scratch| {
        let batch = |text: &str| {
            let file = scratch.write("batch", text);
            let mut command = program(site, "sftp");
            command
                .arg("-q")
                .arg("-b")
                .arg(file)
                .arg(there(scratch.path()));
            finish(&mut command, Input::Nothing)
        };
        fs::write(scratch.join("a b"), "x").unwrap();
        let outcome = batch("-rm nothing\nmkdir new\nput \"a b\"\nrename 'a b' new/c\nls -1 new\n");
        // The local file is relative to the test's directory.
        assert_eq!(outcome.status, 1, "{}", outcome.summary());
        let put = format!("put \"{}\" new/d\n", scratch.join("a b").display());
        let outcome = batch(&format!(
            "{put}rename 'a b' new/c\nls -1 new\nchmod 600 new/*\n"
        ));
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        assert!(outcome.stdout.text().contains("new/c\nnew/d\n"));
        let mode = fs::metadata(scratch.join("new/d")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        let outcome = batch("rm nothing\nmkdir never\n");
        assert_eq!(outcome.status, 1, "{}", outcome.summary());
        assert!(!scratch.join("never").exists());
        // What exists is no error; a flag that a command does not have is one.
        let local = scratch.join("here/e");
        let local = local.display();
        let outcome = batch(&format!(
            "mkdir -p p/q\nmkdir -p p/q/r/../s\nlmkdir -p {local}\nlmkdir -p {local}\nrmdir -p p\n"
        ));
        assert_eq!(outcome.status, 1, "{}", outcome.summary());
        assert_eq!(outcome.stderr.text(), "rmdir: Invalid flag -p\n");
        for made in ["p/q/r", "p/q/s", "here/e"] {
            assert!(scratch.join(made).is_dir(), "{made}");
        }
        let outcome = batch("mkdir -p p//t///u//\nmkdir -p p/t\nls -1 p/t[^x]\nls -1 f[!x]\n");
        assert_eq!(outcome.status, 1, "{}", outcome.summary());
        assert!(scratch.join("p/t/u").is_dir());
        // `[^x]` is an x or a `^`, as in OpenSSH.
        assert!(outcome.stderr.text().contains("p/t[^x]\" not found"));
        let long = format!("mkdir -p {}\n", "/".repeat(5000));
        let outcome = batch(&long);
        assert_eq!(outcome.status, 1, "{}", outcome.summary());
        let said = outcome.stderr.text();
        assert!(
            said.contains("the path is longer than 4096 bytes"),
            "{said}"
        );
        let outcome = batch("ls p\\\n");
        assert_eq!(outcome.stderr.text(), "Unterminated quoted argument\n");
        let outcome = batch("mkdir -p a/../p/q\nmkdir -p new/c/x\n");
        assert_eq!(outcome.status, 1, "{}", outcome.summary());
        let said = outcome.stderr.text();
        assert!(said.contains("new/c\": "), "{said}");
    });
}

/// What one run of `sftp` printed, without the ends of lines that only one of the two has, and its
/// status.
fn told(outcome: &Outcome) -> (String, String, i32) {
    let text = |text: String| text.replace('\r', "");
    let said = text(outcome.stderr.text());
    // The second line is OpenSSH's if its ssh ends before its sftp has closed the pipe.
    let said_by_chance = ["Connected to ", "Connection closed. "];
    let chatter = |line: &&str| !said_by_chance.iter().any(|start| line.starts_with(start));
    let said = said.lines().filter(chatter).collect::<Vec<_>>().join("\n");
    (text(outcome.stdout.text()), said, outcome.status)
}

#[test]
fn sftp_prints_what_openssh_s_prints() {
    if installed("sftp").is_none() {
        return skipped("OpenSSH's sftp", &"not installed");
    }
    each_server(|site, scratch| {
        let (far, near) = (scratch.join("far"), scratch.join("near"));
        let run = |own: bool, arguments: &[&str], input: &str| {
            for root in [&far, &near] {
                let _ = fs::remove_dir_all(root);
                fs::create_dir_all(root).unwrap();
            }
            fs::create_dir_all(far.join("dir/sub")).unwrap();
            for (name, len) in [("f1", 3), ("f2", 4), ("dir/x", 5), ("dir/sub/y", 6)] {
                fs::write(far.join(name), bytes(len)).unwrap();
            }
            let large = fs::File::create(far.join("large")).unwrap();
            large.set_len(1_035_264).unwrap();
            let old = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
            large.set_modified(old).unwrap();
            let mut command = match own {
                true => program(site, "sftp"),
                false => Command::new("sftp"),
            };
            if !own {
                command.arg("-S").arg(site.wrapper());
            }
            command.args(arguments).current_dir(&near);
            told(&finish(&mut command, Input::Bytes(input.as_bytes())))
        };
        let [at, first, dir, all] = ["", "f1", "dir", "f*"].map(|name| there(&far.join(name)));
        let commands = "ls f*\nls *\nls -1 */\nls -lh large\n@pwd\nget -r dir got\nput -r got up\n\
                        get f* .\nchmod 600 large\nrename large other\nrm f*\nrmdir dir/none\n";
        for (arguments, input) in [
            (vec!["-b", "-", &at], commands),
            (vec!["-q", &at], commands),
            (vec![&*at], commands),
            (vec!["-b", "-", "-N", &at], commands),
            (vec![&*first, "got"], ""),
            (vec![&*all, "."], ""),
            (vec![&*all, "missing"], ""),
            (vec!["-r", &*dir, "got"], ""),
        ] {
            let theirs = run(false, &arguments, input);
            let listed = |root: &Path| {
                let mut find = Command::new("find");
                finish(find.arg(root).arg("-printf").arg("%P %s\n"), Input::Nothing)
            };
            let (files, kept) = (listed(&near).stdout.text(), listed(&far).stdout.text());
            let ours = run(true, &arguments, input);
            assert_eq!(ours, theirs, "{arguments:?}");
            assert_eq!(listed(&near).stdout.text(), files, "{arguments:?}");
            assert_eq!(listed(&far).stdout.text(), kept, "{arguments:?}");
        }
    });
}

#[test]
fn nothing_leaves_the_target_and_no_shell_sees_a_name() {
    each_server(|site, scratch| {
        fs::create_dir_all(scratch.join("x/y")).unwrap();
        fs::write(scratch.join("x/file"), "x").unwrap();
        let out = scratch.join("out/in");
        fs::create_dir_all(&out).unwrap();
        let outcome = scp(site, &["-r", &there(&scratch.join("x/y/..")), &here(&out)]);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        assert_eq!(fs::read(out.join("file")).unwrap(), b"x");
        let beside = fs::read_dir(scratch.join("out")).unwrap().count();
        assert_eq!(beside, 1, "nothing beside the target");

        let mark = scratch.join("mark");
        let odd = format!("a`touch {}`$(touch {})", mark.display(), mark.display());
        let odd = odd.replace('/', "_");
        fs::write(scratch.join(&odd), "odd").unwrap();
        let back = scratch.join("back");
        let outcome = scp(site, &[&there(&scratch.join(&odd)), &here(&back)]);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        assert_eq!(fs::read(&back).unwrap(), b"odd");
        let outcome = scp(site, &[&here(&back), &there(&scratch.join("`touch mark`"))]);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        assert!(!mark.exists() && !Path::new("mark").exists());
        assert!(scratch.join("`touch mark`").exists());
    });
}

/// `name` (`scp`, `sftp`) of the site's client, configured for its server, if it is installed.
fn copier(site: &Site, name: &str) -> Option<Command> {
    match site.client {
        Kind::Fulmar => Some(program(site, name)),
        Kind::OpenSsh => installed(name).map(|path| {
            let mut command = Command::new(path);
            command.arg("-S").arg(site.wrapper());
            command
        }),
    }
}

/// The client's own count of its changes of keys.
fn key_changes(outcome: &Outcome) -> usize {
    let said = outcome.stderr.text();
    said.matches("debug1: SSH2_MSG_NEWKEYS received").count()
}

#[test]
fn a_copy_is_whole_though_keys_change_each_mebibyte() {
    const LIMITS: [&str; 6] = [
        "-o",
        "RekeyLimit=1M",
        "-o",
        "KexAlgorithms=curve25519-sha256",
        "-o",
        "LogLevel=DEBUG1",
    ];
    let content = noise(16 << 20);
    for (client, server) in couples() {
        let subsystem = match server {
            Kind::Fulmar => "internal-sftp",
            Kind::OpenSsh if Path::new(SFTP_SERVER).exists() => SFTP_SERVER,
            Kind::OpenSsh => {
                skipped("openssh's SFTP server", &"not installed");
                continue;
            }
        };
        let lines = format!("RekeyLimit 1M\nSubsystem sftp {subsystem}\n");
        let site = Site::new(client, server, &lines);
        let scratch = Scratch::new();
        let from = scratch.write("from", &content);
        for name in ["scp", "sftp"] {
            let to = |way: &str| scratch.join(&format!("{name}-{way}"));
            let (up, down) = (to("up"), to("down"));
            for (verb, source, target) in [("put", &from, &up), ("get", &up, &down)] {
                let Some(mut command) = copier(&site, name) else {
                    skipped(name, &"not installed");
                    continue;
                };
                command.args(LIMITS);
                let outcome = match (name, verb) {
                    ("scp", "put") => {
                        command.args([here(source), there(target)]);
                        finish(&mut command, Input::Nothing)
                    }
                    ("scp", _) => {
                        command.args([there(source), here(target)]);
                        finish(&mut command, Input::Nothing)
                    }
                    _ => {
                        let line = format!("{verb} {} {}\n", here(source), here(target));
                        command.args(["-b", "-", HOST]);
                        finish(&mut command, Input::Bytes(line.as_bytes()))
                    }
                };
                let what = format!("{} {name} {verb}, {}", client.name(), server.name());
                assert_eq!(outcome.status, 0, "{what}: {}", outcome.summary());
                assert!(fs::read(target).unwrap() == content, "{what}");
                // Data continue during a key exchange: between two Fulmars as many bytes again, and
                // more if an end is slow.
                let changes = key_changes(&outcome);
                assert!(changes > 3, "{what}: {changes} changes of keys");
            }
        }
    }
}

/// A program in place of ssh.
fn carrier(scratch: &Scratch, script: &str) -> PathBuf {
    let path = scratch.write("carrier", format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_name_that_no_pattern_of_its_own_fits_is_taken_as_it_is() {
    each_server(|site, scratch| {
        let source = scratch.join("data[12]");
        fs::write(&source, "it").unwrap();
        fs::write(scratch.join("data3"), "another").unwrap();
        for (place, relayed) in [("got", false), ("relayed", true)] {
            let target = scratch.join(place);
            let from = there(&source);
            let outcome = match relayed {
                false => scp(site, &[&from, &here(&target)]),
                true => scp(site, &["-3", &from, &there(&target)]),
            };
            assert_eq!(outcome.status, 0, "{}", outcome.summary());
            assert_eq!(fs::read(&target).unwrap(), b"it");
        }
        let missing = scp(
            site,
            &[&there(&scratch.join("none[12]")), &here(scratch.path())],
        );
        assert_ne!(missing.status, 0, "{}", missing.summary());
        let said = missing.stderr.text();
        assert!(said.contains("none[12]: No such file"), "{said}");
    });
}

#[test]
fn a_server_of_the_old_protocol_writes_no_name_of_its_own_choice() {
    let scratch = Scratch::new();
    let into = scratch.join("into");
    fs::create_dir(&into).unwrap();
    let get = |stream: &str, pattern: &str, recursive: bool| {
        // It stops after as many answers as a file has.
        let script = format!("printf '{stream}'; head -c 3 >/dev/null");
        let carrier = carrier(&scratch, &script);
        let mut command = Command::new(ours::binary());
        let flags = if recursive { "-qOrS" } else { "-qOS" };
        command.args(["scp", flags]).arg(carrier);
        command.arg(format!("host:{pattern}")).arg(&into);
        let outcome = finish(&mut command, Input::Nothing);
        let found: Vec<String> = fs::read_dir(&into)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        for name in &found {
            fs::remove_file(into.join(name)).unwrap();
        }
        (outcome, found)
    };
    let evil = "C0644 1 .bashrc\\nx\\0";
    for pattern in [
        "'a b'", "\"a b\"", "a\\ b", "a b", "$HOME/a", "$x", "`x`", "~", "~/a", ".", "*",
    ] {
        let (outcome, found) = get(evil, pattern, true);
        assert_eq!(outcome.status, 1, "{pattern}: {}", outcome.summary());
        let said = outcome.stderr.text();
        assert!(said.contains("does not match"), "{pattern}: {said}");
        assert_eq!(found, Vec::<String>::new(), "{pattern}");
    }
    // A pattern that only the remote shell knows may yield one item of a recursive copy.
    let two = "C0644 1 one\\nx\\0C0644 1 two\\nx\\0";
    let (outcome, found) = get(two, "$x", true);
    assert_eq!(outcome.status, 1, "{}", outcome.summary());
    assert_eq!(found, ["one"]);
    let (outcome, found) = get("C0644 1 a b\\nx\\0", "'a b'", true);
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
    assert_eq!(found, ["a b"]);
    for pattern in ["$(x)", "`x`", "dir/$x", "~"] {
        let (outcome, found) = get("C0644 1 one\\nx\\0", pattern, false);
        assert_eq!(outcome.status, 1, "{pattern}: {}", outcome.summary());
        assert_eq!(found, Vec::<String>::new(), "{pattern}");
    }
}

#[test]
fn the_old_protocol_ends_by_a_signal_while_the_other_side_is_silent() {
    let scratch = Scratch::new();
    let pid_file = scratch.join("pid");
    let script = format!(
        "echo $$ >'{0}.new'; mv '{0}.new' '{0}'; exec sleep 600",
        pid_file.display()
    );
    let carrier = carrier(&scratch, &script);
    let from = scratch.write("from", "content");
    let to = scratch.join("to");
    let far = "host:x".to_owned();
    for (name, up) in [("TERM", false), ("INT", true), ("HUP", false)] {
        let (source, target) = match up {
            true => (here(&from), far.clone()),
            false => (far.clone(), here(&to)),
        };
        let mut child = Command::new(ours::binary())
            .args(["scp", "-O", "-S"])
            .arg(&carrier)
            .args([source, target])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        assert!(until(COMMAND_LIMIT, || pid_file.exists()));
        let ssh = fs::read_to_string(&pid_file).unwrap();
        fs::remove_file(&pid_file).unwrap();
        let own = child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &own]).status();
        assert!(sent.unwrap().success());
        let mut status = None;
        let ends = until(COMMAND_LIMIT, || {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        if !ends {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(ends, "{name} ends nothing");
        assert_eq!(status.and_then(|status| status.code()), Some(1), "{name}");
        let left = Path::new("/proc").join(ssh.trim());
        assert!(until(COMMAND_LIMIT, || !left.exists()), "{name}");
        assert!(!to.exists());
    }
}

#[test]
fn an_interrupt_ends_a_command_of_sftp_and_not_sftp() {
    each_server(|site, scratch| {
        let from = scratch.write("from", bytes(4_000_000));
        let (up, down) = (scratch.join("up"), scratch.join("down"));
        let mut command = program(site, "sftp");
        // 100 KiB a second: both would take the better part of a minute.
        command.args(["-l", "800"]).arg(there(scratch.path()));
        let mut terminal = Terminal::new(&command, 100, 30);
        terminal.expect("sftp> ");
        for (line, to) in [
            (
                format!("get {} {}\n", from.display(), down.display()),
                &down,
            ),
            (format!("put {} {}\n", from.display(), up.display()), &up),
        ] {
            terminal.type_text(&line);
            let len = || fs::metadata(to).map_or(0, |metadata| metadata.len());
            let begun = until(COMMAND_LIMIT, || len() > 0);
            assert!(begun, "{line}: {}", terminal.screen());
            terminal.type_text("\x03");
            terminal.expect("Interrupt");
            terminal.expect("sftp> ");
            let part = fs::read(to).unwrap();
            assert!(part.len() < 4_000_000 && bytes(4_000_000).starts_with(&part));
        }
        terminal.type_text("pwd\n");
        terminal.expect("Remote working directory: ");
        terminal.type_text("bye\n");
        assert_eq!(terminal.end(), 0, "{}", terminal.screen());
    });
}

#[test]
fn a_file_copied_onto_itself_keeps_its_content() {
    each_server(|site, scratch| {
        let content = bytes(100_000);
        let file = scratch.write("file", &content);
        fs::hard_link(&file, scratch.join("hard")).unwrap();
        std::os::unix::fs::symlink(&file, scratch.join("soft")).unwrap();
        for (line, status) in [
            ("cp file file\n", Some(1)),
            ("cp file ../NAME/./file\n", Some(1)),
            ("cp file soft\n", Some(1)),
            ("cp soft file\n", Some(1)),
            // Ours sees that it is one file, OpenSSH's copies.
            ("cp file hard\n", None),
            ("cp file other\n", Some(0)),
        ] {
            let name = scratch.path().file_name().unwrap().to_string_lossy();
            let batch = scratch.write("batch", line.replace("NAME", &name));
            let mut command = program(site, "sftp");
            command.arg("-q").arg("-b").arg(batch);
            let outcome = finish(command.arg(there(scratch.path())), Input::Nothing);
            let told = status.is_none_or(|status| status == outcome.status);
            assert!(told, "{line}: {}", outcome.summary());
            assert!(fs::read(&file).unwrap() == content, "{line}");
        }
        assert!(fs::read(scratch.join("other")).unwrap() == content);
    });
}
