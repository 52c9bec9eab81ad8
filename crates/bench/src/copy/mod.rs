//! `copy`: files up and down, by our `scp` and `sftp` and by those of others, each compared
//! afterwards: one large file, many small ones, what is gone on with, and the first two over a long
//! path.

mod copiers;
mod plain;
mod trees;

use std::fs::File;
use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::figures::{BenchEntry, BenchGroup, Cpu, Emit, EntryKind, Per, Unit};
use super::options::{BenchDirection, BenchRow};
use super::rounds::{Bench, Miss, Sample};
use super::transfer::{TransferFiles, same_bytes};
use super::wan::World;
use super::words::{StderrReader, Watch};
use crate::harness::{Harness, ServerHost};
use copiers::{Contender, contenders};

/// Rounds when the command line says nothing.
const ROUNDS: usize = 3;
/// What of a large file those copy over a long path whose window is OpenSSH's.
const PEERS_SHARE: u64 = 8;
/// What of the files: each takes them four round trips.
const PEERS_FILES: usize = 50;
/// Part of a file that is there when a copy is gone on with, of 100.
const THERE: u64 = 90;

/// The copied files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopiedFiles {
    Large,
    Many,
}

/// Which files, from where to where.
#[derive(Debug, Clone, Copy)]
struct CopyJob {
    what: CopiedFiles,
    direction: BenchDirection,
    /// What there is to copy: a file or a directory.
    bytes: u64,
    /// Only a part of it, where a whole one would take hours.
    part: bool,
    /// A part of what arrives is there.
    resumes: bool,
}

/// The most memory of each end, bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Peak {
    client: u64,
    server: u64,
}

/// What one copy took.
#[derive(Debug, Clone, Copy)]
struct Spent {
    seconds: f64,
    /// Of the whole copy.
    cpu: Cpu,
    peak: Peak,
}

impl Spent {
    /// The speed for a file of `bytes`: MiB/s, and CPU seconds per GiB.
    fn as_speed(self, bytes: u64) -> (Sample, Peak) {
        #[allow(clippy::cast_precision_loss)]
        let mib = bytes as f64 / f64::from(1 << 20);
        let for_a_gib = |seconds: f64| seconds * 1024.0 / mib;
        let sample = Sample {
            value: mib / self.seconds,
            cpu: Some(Cpu {
                client: for_a_gib(self.cpu.client),
                server: for_a_gib(self.cpu.server),
            }),
        };
        (sample, self.peak)
    }

    /// As a time, the copy's own.
    fn as_time(self) -> (Sample, Peak) {
        let sample = Sample {
            value: self.seconds,
            cpu: Some(self.cpu),
        };
        (sample, self.peak)
    }
}

/// Measures everything that was asked for.
pub(super) fn measure(bench: &Bench, emit: &mut Emit<'_>) -> Result<(), String> {
    let files = TransferFiles::new().map_err(|error| error.to_string())?;
    let mut harnesses = bench.harnesses(&bench.servers, "Subsystem sftp internal-sftp");
    let world = World::begin();
    let mut far_labs = match &world {
        Ok(world) => bench.harnesses(&world.far, "Subsystem sftp internal-sftp"),
        Err(_) => Vec::new(),
    };
    for what in [CopiedFiles::Large, CopiedFiles::Many] {
        prepare(bench, &files, what).map_err(|error| error.to_string())?;
        for direction in &bench.settings.directions {
            let mut stand = CopyStand {
                bench,
                harnesses: &mut harnesses,
                files: &files,
                near: &ServerHost::here(),
            };
            emit(stand.copies(what, *direction));
            if what == CopiedFiles::Large {
                emit(stand.resumed(*direction));
            }
            let mut stand = CopyStand {
                harnesses: &mut far_labs,
                ..stand
            };
            for rtt_ms in &bench.settings.rtts_ms {
                emit(stand.far_copies(what, *direction, &world, *rtt_ms));
            }
        }
    }
    Ok(())
}

fn prepare(bench: &Bench, files: &TransferFiles, what: CopiedFiles) -> io::Result<()> {
    trees::remove(&files.sent())?;
    match what {
        CopiedFiles::Large => files.fill(bench.settings.bytes()),
        CopiedFiles::Many => trees::many(&files.sent(), bench.settings.files),
    }
}

/// Where it is measured.
struct CopyStand<'s> {
    bench: &'s Bench,
    harnesses: &'s mut [Result<Harness, String>],
    files: &'s TransferFiles,
    /// Where clients run.
    near: &'s ServerHost,
}

impl CopyStand<'_> {
    fn job(&self, what: CopiedFiles, direction: BenchDirection) -> CopyJob {
        CopyJob {
            what,
            direction,
            bytes: self.bench.settings.bytes(),
            part: false,
            resumes: false,
        }
    }

    /// A title's beginning.
    fn title(&self, what: CopiedFiles) -> String {
        match what {
            CopiedFiles::Large => format!("one file of {} MiB", self.bench.settings.mib()),
            CopiedFiles::Many => format!(
                "{} files of {} bytes",
                self.bench.settings.files,
                trees::SMALL_BYTES
            ),
        }
    }

    /// Every program, on this machine.
    fn copies(&mut self, what: CopiedFiles, direction: BenchDirection) -> BenchGroup {
        let contenders = contenders(self.bench, what, false);
        let mut entries: Vec<BenchEntry> = contenders.iter().map(Contender::entry).collect();
        if what == CopiedFiles::Large {
            entries.extend(plain::entries());
        }
        let group = BenchGroup {
            row: BenchRow::Copy.name(),
            title: format!("{}, {}", self.title(what), direction.name()),
            unit: match what {
                CopiedFiles::Large => Unit::MibPerSecond,
                CopiedFiles::Many => Unit::Seconds,
            },
            per: match what {
                CopiedFiles::Large => Per::Gib,
                CopiedFiles::Many => Per::Copy,
            },
            entries,
            notes: vec![
                "from start to exit, login included; files in memory, compared".into(),
                "memory: the most that one process of each end had at once, not less than this \
                 program's own"
                    .into(),
            ],
        };
        let job = self.job(what, direction);
        self.alternate(group, |stand, index| {
            let spent = match contenders.get(index) {
                Some(contender) => stand.once(contender, job)?,
                None => stand.plain(&stand.bench.servers, job, index - contenders.len())?,
            };
            Ok(match what {
                CopiedFiles::Large => spent.as_speed(job.bytes),
                CopiedFiles::Many => spent.as_time(),
            })
        })
    }

    /// Runs a group by turns; adds what memory was used.
    fn alternate(
        &mut self,
        group: BenchGroup,
        mut once: impl FnMut(&mut Self, usize) -> Result<(Sample, Peak), Miss>,
    ) -> BenchGroup {
        let mut peaks = vec![Peak::default(); group.entries.len()];
        let bench = self.bench;
        let rounds = bench.settings.rounds(ROUNDS);
        let mut group = bench.alternate(group, rounds, |index| {
            let (sample, peak) = once(self, index)?;
            if let Some(most) = peaks.get_mut(index) {
                most.client = most.client.max(peak.client);
                most.server = most.server.max(peak.server);
            }
            Ok(sample)
        });
        let mib = |bytes: u64| bytes.div_ceil(1 << 20).to_string();
        for (entry, peak) in group.entries.iter_mut().zip(peaks) {
            if !entry.values.is_empty() && entry.part != EntryKind::Limit {
                entry.more = vec![
                    ("client MiB".into(), mib(peak.client)),
                    ("server MiB".into(), mib(peak.server)),
                ];
            }
        }
        group
    }

    /// One copy, compared.
    fn once(&mut self, contender: &Contender, job: CopyJob) -> Result<Spent, Miss> {
        let files = self.files;
        trees::remove(&files.arrived())?;
        if job.resumes {
            let mut part = File::open(files.sent())?.take(job.bytes / 100 * THERE);
            io::copy(&mut part, &mut File::create(files.arrived())?)?;
        }
        let (mut child, begun) = self.start(contender, job)?;
        let words = StderrReader::listen(child.stderr.take().ok_or("no pipe")?);
        let watch = Watch::start(child.id());
        let (status, usage) = sys::process::wait_usage(child)?;
        let seconds = begun.elapsed().as_secs_f64();
        let stuck = watch.stop();
        let server = match contender.server() {
            Some(index) => self.harness(index)?.stop_and_count()?,
            None => crate::harness::Cost::default(),
        };
        let said = words.all();
        let sent = copiers::source(files, job.what, job.part);
        let compared = match job.what {
            CopiedFiles::Large => same_bytes(&sent, &files.arrived()),
            CopiedFiles::Many => trees::same(&sent, &files.arrived()),
        };
        trees::remove(&files.arrived())?;
        if stuck || !status.is_success() {
            return Err(said.complaint(&format!("{status:?}")).into());
        }
        if !compared? {
            return Err(said
                .complaint("the arrived files differ from the sent ones")
                .into());
        }
        Ok(Spent {
            seconds,
            cpu: Cpu {
                client: usage.total().as_secs_f64(),
                server: server.cpu.as_secs_f64(),
            },
            peak: Peak {
                client: usage.peak_bytes,
                server: server.peak_bytes,
            },
        })
    }

    fn harness(&mut self, index: usize) -> Result<&mut Harness, Miss> {
        let harness = self.harnesses.get_mut(index).ok_or("no such server")?;
        harness.as_mut().map_err(|why| Miss::Failed(why.clone()))
    }

    fn start(
        &mut self,
        contender: &Contender,
        job: CopyJob,
    ) -> Result<(std::process::Child, Instant), Miss> {
        let (bench, files, near) = (self.bench, self.files, self.near);
        let mut command: Command = match contender.server() {
            Some(index) => {
                let harness = self.harness(index)?;
                harness.serve()?;
                contender.command(bench, harness, files, job)?
            }
            None => copiers::local(files, job),
        };
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let begun = Instant::now();
        Ok((near.spawn(command)?, begun))
    }

    /// What takes up a copy that was cut, beside one that begins anew.
    fn resumed(&mut self, direction: BenchDirection) -> BenchGroup {
        let entries = vec![
            BenchEntry::new("Fulmar → Fulmar, scp, whole", EntryKind::Peer),
            BenchEntry::new("Fulmar → Fulmar, scp -Z", EntryKind::Ours),
            BenchEntry::new("hpnscp -Z", EntryKind::Peer),
        ];
        let group = BenchGroup {
            row: BenchRow::Copy.name(),
            title: format!(
                "{}, {}, of which {THERE} % exist",
                self.title(CopiedFiles::Large),
                direction.name()
            ),
            unit: Unit::Seconds,
            per: Per::Copy,
            entries,
            notes: vec!["existing content is verified first (goal: 25 % of a whole copy)".into()],
        };
        let job = self.job(CopiedFiles::Large, direction);
        let mut group = self.alternate(group, |stand, index| {
            let contender = match index {
                0 => Contender::ours(&["scp"]),
                1 => Contender::ours(&["scp", "-Z"]),
                _ => Contender::foreign(stand.bench, "hpnscp", &["-Z", "-O"])?,
            };
            let job = CopyJob {
                resumes: index > 0,
                ..job
            };
            Ok(stand.once(&contender, job)?.as_time())
        });
        let medians: Vec<f64> = group
            .entries
            .iter()
            .filter_map(BenchEntry::median)
            .collect();
        if let [whole, resumed, ..] = medians[..] {
            let share = 100.0 * resumed / whole;
            group.notes.push(format!("{share:.0} % of a whole copy"));
        }
        group
    }

    /// The same over a long path.
    fn far_copies(
        &mut self,
        what: CopiedFiles,
        direction: BenchDirection,
        world: &Result<World, String>,
        rtt_ms: u64,
    ) -> BenchGroup {
        let contenders = contenders(self.bench, what, true);
        let mut entries: Vec<BenchEntry> = contenders.iter().map(Contender::entry).collect();
        if what == CopiedFiles::Large {
            entries.extend(plain::entries());
        }
        let mut group = BenchGroup {
            row: BenchRow::Copy.name(),
            title: format!("{}, {}, {rtt_ms} ms", self.title(what), direction.name()),
            unit: match what {
                CopiedFiles::Large => Unit::MibPerSecond,
                CopiedFiles::Many => Unit::PerSecond,
            },
            per: match what {
                CopiedFiles::Large => Per::Gib,
                CopiedFiles::Many => Per::Copy,
            },
            entries,
            notes: vec![match what {
                CopiedFiles::Large => format!(
                    "no rate limit, login included; if the receiver is not Fulmar, 1/{PEERS_SHARE} of it"
                ),
                CopiedFiles::Many => format!(
                    "files a second, login included; programs with round trips for each file copy {PEERS_FILES}"
                ),
            }],
        };
        let world = match world {
            Ok(world) => world,
            Err(why) => {
                for entry in &mut group.entries {
                    entry.missing = Some(Miss::Absent(why.clone()));
                }
                return group;
            }
        };
        match world.set(rtt_ms, 0) {
            Ok(seen) => group.notes.push(format!(
                "round-trip time seen: {:.1} ms",
                seen.as_secs_f64() * 1e3
            )),
            Err(why) => group.notes.push(why),
        }
        let job = self.job(what, direction);
        let files = self.bench.settings.files;
        let mut stand = CopyStand {
            bench: self.bench,
            harnesses: &mut *self.harnesses,
            files: self.files,
            near: &world.near,
        };
        stand.alternate(group, |stand, index| {
            let Some(contender) = contenders.get(index) else {
                let spent = stand.plain(&world.far, job, index - contenders.len())?;
                return Ok(spent.as_speed(job.bytes));
            };
            let part = contender.is_slow_far_away(what, direction);
            let bytes = match (what, part) {
                (CopiedFiles::Large, true) => {
                    copiers::part_of(stand.files, job.bytes, PEERS_SHARE)?
                }
                _ => job.bytes,
            };
            let spent = stand.once(contender, CopyJob { bytes, part, ..job })?;
            if what == CopiedFiles::Large {
                return Ok(spent.as_speed(bytes));
            }
            let count = if part { PEERS_FILES.min(files) } else { files };
            let (mut sample, peak) = spent.as_time();
            #[allow(clippy::cast_precision_loss)]
            let count = count as f64;
            sample.value = count / sample.value;
            Ok((sample, peak))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_copy_took_is_a_speed_or_a_time() {
        let cpu = Cpu {
            client: 1.0,
            server: 3.0,
        };
        let spent = Spent {
            seconds: 4.0,
            cpu,
            peak: Peak::default(),
        };
        let (speed, _) = spent.as_speed(512 << 20);
        let for_a_gib = Cpu {
            client: 2.0,
            server: 6.0,
        };
        assert_eq!((speed.value, speed.cpu), (128.0, Some(for_a_gib)));
        let (time, _) = spent.as_time();
        assert_eq!((time.value, time.cpu), (4.0, Some(cpu)));
    }
}
