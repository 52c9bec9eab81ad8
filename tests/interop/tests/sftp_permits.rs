//! `-R`, `-P` and `-p` of our sftp-server and of OpenSSH's: the same client sends the same requests
//! to both, and its exit status and the files are the same except for the listed differences.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use interop::peers::ours;
use interop::process::{Input, installed};
use interop::report::{Failures, skipped};
use interop::scratch::Scratch;
use interop::site::finish;

const SFTP_SERVER: &str = "/usr/lib/openssh/sftp-server";

/// Flags of the server, and commands that use the denied requests.
const ROWS: &[(&str, &[&str])] = &[
    ("", COMMANDS),
    ("-R", COMMANDS),
    ("-P open", &["get data copy", "put data copy", "ls -ln ed"]),
    (
        "-P read",
        &["get data copy", "put data copy", "cp data copy"],
    ),
    (
        "-P write",
        &["get data copy", "put data copy", "cp data copy"],
    ),
    ("-P close", &["get data copy", "put data copy", "ls -ln ed"]),
    ("-P lstat", &["ls -ln data", "ls -ln ed", "rm other"]),
    ("-P stat", &["ls -ln data", "get data copy", "ls -ln ed"]),
    ("-P lstat,stat,fstat", &["ls -ln data", "ls -ln ed"]),
    ("-P fstat", &["get data copy", "put data copy"]),
    ("-P setstat", &["chmod 0700 data", "chmod -h 0700 link"]),
    ("-P fsetstat", &["put data copy", "put -p data copy"]),
    ("-P opendir", &["ls -ln ed"]),
    ("-P readdir", &["ls -ln ed"]),
    ("-P remove", &["rm other", "rmdir ed"]),
    ("-P mkdir", &["mkdir dd"]),
    ("-P rmdir", &["rm other", "rmdir ed"]),
    ("-P realpath", &["ls -ln ed"]),
    ("-P rename", &["rename other o2", "rename -l other o2"]),
    (
        "-P posix-rename",
        &["rename other o2", "rename -l other o2"],
    ),
    ("-P rename,posix-rename", &["rename other o2"]),
    ("-P symlink", &["ln -s data l2", "ln data l2"]),
    ("-P hardlink", &["ln -s data l2", "ln data l2"]),
    ("-P statvfs", &["df ."]),
    ("-P lsetstat", &["chmod -h 0700 link", "chmod 0700 data"]),
    ("-P copy-data", &["cp data copy"]),
    ("-P expand-path", &["ls ~/"]),
    // An extension of OpenSSH needs only its own name.
    ("-p realpath,stat,lstat,posix-rename", &["rename other o2"]),
    ("-p realpath,stat,lstat,rename", &["rename other o2"]),
    (
        "-p realpath,stat,lstat,copy-data,open,close",
        &["cp data copy"],
    ),
    ("-p realpath,stat,lstat", COMMANDS),
];

const COMMANDS: &[&str] = &[
    "get data copy",
    "put data copy",
    "chmod 0700 data",
    "rm other",
    "mkdir dd",
    "rmdir ed",
    "rename other o2",
    "rename -l other o2",
    "ln -s data l2",
    "ln data l2",
    "ls -ln ed",
    "ls -ln data",
    "df .",
    "cp data copy",
];

/// Requests that ours refuses and OpenSSH's executes: extensions that do the work of a denied
/// request.
const STRICTER: &[(&str, &str)] = &[
    ("-P read", "cp data copy"),
    ("-P write", "cp data copy"),
    ("-P rename", "rename other o2"),
];

/// The exit status of a command, and the files after it.
fn outcome(server: &Path, flags: &str, command: &str) -> (i32, Vec<String>) {
    let scratch = Scratch::new();
    let work = scratch.join("work");
    fs::create_dir_all(work.join("ed")).unwrap();
    for name in ["data", "other"] {
        fs::write(work.join(name), name).unwrap();
        fs::set_permissions(work.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    symlink("data", work.join("link")).unwrap();
    let text = format!("cd {0}\nlcd {0}\n{command}\n", work.display());
    let mut client = Command::new("sftp");
    client
        .arg("-D")
        .arg(server)
        .args(["-q", "-b", "-"])
        .env("SERVER_FLAGS", flags);
    let outcome = finish(&mut client, Input::Bytes(text.as_bytes()));
    let mut found: Vec<String> = fs::read_dir(&work)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let content = fs::read(&path).unwrap_or_default();
            let name = path.file_name().unwrap().to_owned();
            format!("{name:?} {:o} {content:?}", metadata.mode())
        })
        .collect();
    found.sort();
    (outcome.status, found)
}

#[test]
fn what_flags_take_away_is_what_openssh_s_take_away() {
    if installed("sftp").is_none() || !Path::new(SFTP_SERVER).exists() {
        return skipped("openssh's sftp and sftp-server", &"not installed");
    }
    let scratch = Scratch::new();
    let ours = format!("{} sftp-server", ours::binary().display());
    let servers = [("theirs", SFTP_SERVER.to_owned()), ("ours", ours)].map(|(name, server)| {
        let text = format!("#!/bin/sh\nexec {server} -el quiet $SERVER_FLAGS\n");
        let path = scratch.write(name, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    });
    let mut failures = Failures::new();
    for (flags, commands) in ROWS {
        for command in *commands {
            let [theirs, ours] = servers.each_ref().map(|path| outcome(path, flags, command));
            let is_stricter = STRICTER.contains(&(flags, command));
            let good = match is_stricter {
                true => theirs.0 == 0 && ours.0 == 1,
                false => theirs == ours,
            };
            failures.check(good, || {
                format!("[{flags}] {command}: OpenSSH {theirs:?}, ours {ours:?}")
            });
        }
    }
    failures.settle();
}
