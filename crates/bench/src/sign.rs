//! `sign`: the key tool signs a commit and verifies the signature, as git asks it to (`keygen -Y`).

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use keys::private_file::write_openssh;
use keys::{KeySpec, PrivateKey};

use super::figures::{BenchEntry, BenchGroup, Cpu, Emit, Per, Unit};
use super::options::BenchRow;
use super::rounds::{Bench, Miss, Sample};
use super::stats;
use crate::harness::Suite;

/// Default number of rounds.
const ROUNDS: usize = 5;
/// Runs of the tool in a round.
const RUNS: usize = 20;
/// Length of the signed text in bytes: that of a commit with a short message.
const COMMIT_BYTES: usize = 300;

/// Types of the key, with their names in the titles.
const KINDS: [(&str, KeySpec); 2] = [
    ("Ed25519", KeySpec::Ed25519),
    ("ML-DSA-44 with Ed25519", KeySpec::MlDsa44Ed25519),
];

/// What the tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SignPart {
    Sign,
    Verify,
}

/// Measures the key tool of each suite that has one.
pub(super) fn measure(bench: &Bench, emit: &mut Emit<'_>) -> Result<(), String> {
    for (kind, spec) in KINDS {
        let files = CommitFiles::new(spec)?;
        for part in [SignPart::Sign, SignPart::Verify] {
            let (suites, entries): (Vec<usize>, Vec<BenchEntry>) =
                bench.served().into_iter().unzip();
            let what = match part {
                SignPart::Sign => "signing a commit",
                SignPart::Verify => "verifying the signature of a commit",
            };
            let group = BenchGroup {
                row: BenchRow::Sign.name(),
                title: format!("{what}, {kind}, from start to end"),
                unit: Unit::Milliseconds,
                per: Per::Connection,
                entries,
                notes: vec![format!(
                    "{COMMIT_BYTES} bytes, a key without passphrase; median of {RUNS} runs"
                )],
            };
            emit(
                bench.alternate(group, bench.settings.rounds(ROUNDS), |index| {
                    let suite = suites.get(index).and_then(|index| bench.suites.get(*index));
                    files.figure(part, suite.ok_or("no such suite")?)
                }),
            );
        }
    }
    Ok(())
}

/// The files that the tool reads and writes, removed on drop.
struct CommitFiles {
    folder: PathBuf,
}

impl CommitFiles {
    fn new(spec: KeySpec) -> Result<Self, String> {
        let key = PrivateKey::generate(spec).map_err(|why| why.to_string())?;
        let text = write_openssh(&key, "bench", None).map_err(|why| why.to_string())?;
        let folder = std::env::temp_dir().join(format!("fulmar-bench-sign-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let files = Self { folder };
        let line = key.public().to_line();
        let write = |name: &str, content: &[u8]| {
            sys::file::write_private(files.folder.join(name), content)
                .map_err(|error| format!("{name}: {error}"))
        };
        write("key", text.as_bytes())?;
        write("key.pub", format!("{line}\n").as_bytes())?;
        write("allowed", format!("bench {line}\n").as_bytes())?;
        write("commit", &[b'c'; COMMIT_BYTES])?;
        Ok(files)
    }

    fn command(&self, suite: &Suite, arguments: &[&str]) -> Result<Command, Miss> {
        let mut command = suite.keygen().map_err(Miss::Absent)?;
        command
            .args(arguments)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(command)
    }

    /// The median of some runs, in milliseconds.
    fn figure(&self, part: SignPart, suite: &Suite) -> Result<Sample, Miss> {
        if !self
            .command(suite, &["-l", "-f", "key.pub"])?
            .status()?
            .success()
        {
            return Err(Miss::Absent("it has no keys of this type".to_owned()));
        }
        let signature = self.folder.join("commit.sig");
        let mut times = Vec::with_capacity(RUNS);
        let mut seconds = 0.0;
        for run in 0..=RUNS {
            let sign = part == SignPart::Sign;
            let mut command = if sign || run == 0 {
                let _ = fs::remove_file(&signature);
                self.command(suite, &["-Y", "sign", "-n", "git", "-f", "key", "commit"])?
            } else {
                let words = ["-Y", "verify", "-n", "git", "-f", "allowed", "-I", "bench"];
                let mut command = self.command(suite, &words)?;
                command.args(["-s", "commit.sig"]);
                command.stdin(fs::File::open(self.folder.join("commit"))?);
                command
            };
            let begun = Instant::now();
            let (status, usage) = sys::process::wait_usage(command.spawn()?)?;
            if !status.is_success() {
                return Err(format!("{part:?} failed").into());
            }
            // The first run makes the signature that is verified, and warms the files up.
            if run > 0 {
                times.push(begun.elapsed().as_secs_f64() * 1e3);
                seconds += usage.total().as_secs_f64();
            }
        }
        #[allow(clippy::cast_precision_loss)]
        let client = seconds / RUNS as f64;
        Ok(Sample {
            value: stats::median(&times),
            cpu: Some(Cpu::of_client(client)),
        })
    }
}

impl Drop for CommitFiles {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
