//! Who copies: `scp` and `sftp` of each suite, and programs that use an `ssh` as their carrier.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{CopiedFiles, CopyJob, trees};
use crate::figures::{BenchEntry, EntryKind, Miss};
use crate::harness::{Harness, SuiteKind, program};
use crate::options::BenchDirection;
use crate::rounds::{Bench, Ends};
use crate::transfer::TransferFiles;

/// How it copies.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Tool {
    /// The suite's `scp`, with these arguments.
    Scp(Vec<&'static str>),
    /// The suite's `sftp`, with a batch.
    Sftp,
    /// `rsync -a` over the suite's `ssh`.
    Rsync,
    /// `tar` through the suite's `ssh`.
    Tar,
    /// A program that takes what `scp` takes, and more.
    Foreign(&'static str, Vec<&'static str>),
    /// `cp`, without any server.
    Cp,
}

impl Tool {
    fn name(&self) -> String {
        match self {
            Self::Scp(arguments) => words("scp", arguments),
            Self::Sftp => "sftp".into(),
            Self::Rsync => "rsync -a".into(),
            Self::Tar => "tar through ssh".into(),
            Self::Foreign(name, arguments) => words(name, arguments),
            Self::Cp => "cp".into(),
        }
    }
}

fn words(name: &str, arguments: &[&str]) -> String {
    [&[name], arguments].concat().join(" ")
}

/// A program and who is at both ends.
#[derive(Debug, Clone)]
pub(super) struct Contender {
    ends: Ends,
    tool: Tool,
    label: String,
    part: EntryKind,
    /// Why it cannot be had.
    missing: Option<String>,
}

impl Contender {
    /// One of our programs with our server.
    pub(super) fn ours(words: &[&'static str]) -> Self {
        Self {
            ends: Ends {
                client: 0,
                server: 0,
            },
            tool: Tool::Scp(words.get(1..).unwrap_or_default().to_vec()),
            label: String::new(),
            part: EntryKind::Ours,
            missing: None,
        }
    }

    /// A program of nobody's suite, with the server of the first OpenSSH.
    ///
    /// # Errors
    /// Where it cannot be had.
    pub(super) fn foreign(
        bench: &Bench,
        name: &'static str,
        arguments: &[&'static str],
    ) -> Result<Self, Miss> {
        let this = foreign(bench, name, arguments);
        match this.missing {
            Some(why) => Err(Miss::Absent(why)),
            None => Ok(this),
        }
    }

    pub(super) fn entry(&self) -> BenchEntry {
        let mut entry = BenchEntry::new(&self.label, self.part);
        entry.missing = self.missing.clone().map(Miss::Absent);
        entry
    }

    /// The server's place in the list of suites; none where there is none.
    pub(super) fn server(&self) -> Option<usize> {
        (self.tool != Tool::Cp).then_some(self.ends.server)
    }

    /// A long path makes it slow: the receiver's window is not ours, or each file takes the client
    /// several round trips.
    pub(super) fn is_slow_far_away(&self, what: CopiedFiles, direction: BenchDirection) -> bool {
        match (what, direction) {
            (CopiedFiles::Large, BenchDirection::Up) => self.ends.server != 0,
            (CopiedFiles::Large, BenchDirection::Down) => self.ends.client != 0,
            (CopiedFiles::Many, _) => {
                self.ends.client != 0 && !matches!(self.tool, Tool::Tar | Tool::Rsync)
            }
        }
    }

    /// The command that copies.
    pub(super) fn command(
        &self,
        bench: &Bench,
        harness: &Harness,
        files: &TransferFiles,
        job: CopyJob,
    ) -> Result<Command, Miss> {
        let suite = bench.suites.get(self.ends.client).ok_or("no such suite")?;
        let (sent, arrived) = (source(files, job.what, job.part), files.arrived());
        let port = harness.address().port().to_string();
        let recursive = job.what == CopiedFiles::Many;
        let remote = |path: &Path| format!("{}:{}", harness.destination(), path.display());
        let scp_like = |mut command: Command, arguments: &[&str]| {
            command
                .args(["-q", "-P", port.as_str(), "-F"])
                .arg(harness.client_config());
            command.args(arguments);
            match job.direction {
                BenchDirection::Up => command.arg(&sent).arg(remote(&arrived)),
                BenchDirection::Down => command.arg(remote(&sent)).arg(&arrived),
            };
            command
        };
        match &self.tool {
            Tool::Scp(arguments) => {
                let mut copier = suite.copier().map_err(Miss::Absent)?;
                if recursive {
                    copier.arg("-r");
                }
                Ok(scp_like(copier, arguments))
            }
            Tool::Foreign(name, arguments) => {
                let mut copier = Command::new(program(name).map_err(Miss::Absent)?);
                if recursive && *name != "mscp" {
                    copier.arg("-r");
                }
                Ok(scp_like(copier, arguments))
            }
            Tool::Sftp => {
                let mut sftp = suite.sftp().map_err(Miss::Absent)?;
                let verb = match job.direction {
                    BenchDirection::Up => "put",
                    BenchDirection::Down => "get",
                };
                let flag = if recursive { " -r" } else { "" };
                let batch = files.beside("batch");
                let line = format!("{verb}{flag} {} {}\n", sent.display(), arrived.display());
                fs::write(&batch, line)?;
                sftp.args(["-q", "-P", port.as_str(), "-F"])
                    .arg(harness.client_config());
                sftp.arg("-b").arg(batch).arg(harness.destination());
                Ok(sftp)
            }
            Tool::Rsync => {
                let ssh = suite.client();
                let mut rsync = Command::new(program("rsync").map_err(Miss::Absent)?);
                let carrier = format!(
                    "{} -F {} -p {port}",
                    ssh.get_program().to_string_lossy(),
                    harness.client_config().display()
                );
                rsync.args(["-a", "-e", &carrier]);
                let end = if recursive { "/" } else { "" };
                let from = format!("{}{end}", sent.display());
                match job.direction {
                    BenchDirection::Up => rsync.arg(from).arg(remote(&arrived)),
                    BenchDirection::Down => rsync.arg(remote(Path::new(&from))).arg(&arrived),
                };
                Ok(rsync)
            }
            Tool::Tar => {
                let pack = format!("tar -C {} -cf - .", sent.display());
                let unpack = format!("mkdir -p {0} && tar -C {0} -xf -", arrived.display());
                let line = match job.direction {
                    BenchDirection::Up => {
                        format!("{pack} | {}", shell(&harness.client(suite, &[], &unpack)))
                    }
                    BenchDirection::Down => {
                        format!("{} | ({unpack})", shell(&harness.client(suite, &[], &pack)))
                    }
                };
                let mut tar = Command::new("/bin/sh");
                tar.args(["-c", &line]);
                Ok(tar)
            }
            Tool::Cp => Ok(local(files, job)),
        }
    }
}

/// A command as a shell reads it.
fn shell(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| format!("'{}'", word.to_string_lossy().replace('\'', "'\\''")))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The same without a server.
pub(super) fn local(files: &TransferFiles, job: CopyJob) -> Command {
    let mut cp = Command::new("cp");
    cp.arg("-r")
        .arg(source(files, job.what, job.part))
        .arg(files.arrived());
    cp
}

/// The path of the copied files; of a part of them with `part`.
pub(super) fn source(files: &TransferFiles, what: CopiedFiles, part: bool) -> PathBuf {
    match (what, part) {
        (_, false) => files.sent(),
        (CopiedFiles::Large, true) => files.beside("part"),
        (CopiedFiles::Many, true) => trees::few(&files.sent()),
    }
}

/// Makes the part of a large file that [`source`] names; gives its length.
pub(super) fn part_of(files: &TransferFiles, bytes: u64, share: u64) -> io::Result<u64> {
    let len = (bytes / share).max(1 << 20).min(bytes);
    let path = files.beside("part");
    if fs::metadata(&path).is_ok_and(|there| there.len() == len) {
        return Ok(len);
    }
    let mut part = File::open(files.sent())?.take(len);
    io::copy(&mut part, &mut File::create(path)?)
}

/// All that take their turns: `far` away without those that say nothing new there.
pub(super) fn contenders(bench: &Bench, what: CopiedFiles, far: bool) -> Vec<Contender> {
    let mut all = Vec::new();
    for (ends, entry) in bench.chains() {
        let kinds =
            [ends.client, ends.server].map(|index| bench.suites.get(index).map(|suite| suite.kind));
        if kinds.contains(&Some(SuiteKind::Dropbear)) {
            // Neither scp nor an SFTP server of its own.
            continue;
        }
        let mut add = |tool: Tool, needs: Option<&str>| {
            let missing = needs.and_then(|name| program(name).err());
            all.push(Contender {
                ends,
                label: format!("{}, {}", entry.label, tool.name()),
                part: entry.part,
                tool,
                missing,
            });
        };
        add(Tool::Scp(Vec::new()), None);
        match (entry.part, far) {
            (EntryKind::Ours, false) => {
                add(Tool::Sftp, None);
                if what == CopiedFiles::Large {
                    add(Tool::Scp(vec!["-n", "2"]), None);
                }
                add(Tool::Scp(vec!["-O"]), None);
            }
            (EntryKind::Ours, true) if what == CopiedFiles::Large => {
                add(Tool::Scp(vec!["-n", "4"]), None)
            }
            (EntryKind::Mixed, true) if what == CopiedFiles::Large && ends.client == 0 => {
                add(Tool::Scp(vec!["-n", "4"]), None);
            }
            (EntryKind::Peer, false) => {
                let gcm = vec!["-c", "aes128-gcm@openssh.com"];
                if what == CopiedFiles::Large {
                    add(Tool::Scp(gcm), None);
                } else {
                    add(Tool::Tar, Some("tar"));
                }
                add(Tool::Scp(vec!["-O"]), None);
                add(Tool::Sftp, None);
                add(Tool::Rsync, Some("rsync"));
            }
            (EntryKind::Peer, true) if what == CopiedFiles::Many => {
                add(Tool::Tar, Some("tar"));
                add(Tool::Rsync, Some("rsync"));
            }
            _ => {}
        }
    }
    if all.iter().any(|each| each.part == EntryKind::Peer) {
        all.push(foreign(bench, "hpnscp", &[]));
        let connections = match (what, far) {
            (CopiedFiles::Large, false) => ["-n", "2"],
            (CopiedFiles::Many, false) => ["-n", "4"],
            (_, true) => ["-n", "8"],
        };
        all.push(foreign(bench, "mscp", &connections));
    }
    if !far {
        all.push(Contender {
            ends: Ends {
                client: 0,
                server: 0,
            },
            tool: Tool::Cp,
            label: "cp".into(),
            part: EntryKind::Limit,
            missing: None,
        });
    }
    all
}

fn foreign(bench: &Bench, name: &'static str, arguments: &[&'static str]) -> Contender {
    let server = bench
        .suites
        .iter()
        .position(|suite| suite.kind == SuiteKind::OpenSsh);
    let missing = match server {
        None => Some("there is no OpenSSH for its other end".to_owned()),
        Some(_) => program(name).err(),
    };
    let server = server.unwrap_or(0);
    let tool = Tool::Foreign(name, arguments.to_vec());
    Contender {
        ends: Ends {
            client: server,
            server,
        },
        label: tool.name(),
        tool,
        part: EntryKind::Peer,
        missing,
    }
}
