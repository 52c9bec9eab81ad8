//! `copy`: `scp` of one large file and of many small ones, over SFTP and by the old protocol,
//! both ways, compared afterwards.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use super::figures::{Cpu, Emit, Group, Per, Unit};
use super::options::{Direction, Row};
use super::rounds::{Bench, Chain, Miss, Sample};
use super::transfer::{Files, same_bytes};
use super::words::{Watch, Words};
use crate::demo::stream;
use crate::lab::Lab;

/// Rounds when the command line says nothing.
const ROUNDS: usize = 3;
/// Directories of the many small files, files in each, and bytes of each.
const DIRECTORIES: usize = 100;
const FILES_EACH: usize = 100;
const SMALL_BYTES: u64 = 4096;

/// What is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Large,
    Many,
}

/// Measures each pairing with the client's own `scp`.
pub(super) fn measure(bench: &Bench, emit: &mut Emit<'_>) -> Result<(), String> {
    let files = Files::new().map_err(|error| error.to_string())?;
    let mut labs = bench.labs(&bench.servers, "Subsystem sftp internal-sftp");
    for what in [What::Large, What::Many] {
        remove(&files.sent())
            .and_then(|()| match what {
                What::Large => files.fill(bench.settings.bytes()),
                What::Many => many(&files.sent()),
            })
            .map_err(|error| error.to_string())?;
        for old in [false, true] {
            for direction in &bench.settings.directions {
                emit(group(bench, &mut labs, &files, (what, old, *direction)));
            }
        }
    }
    Ok(())
}

fn many(parent: &Path) -> io::Result<()> {
    let mut number = 0_u64;
    for directory in 0..DIRECTORIES {
        let directory = parent.join(format!("{directory:03}"));
        fs::create_dir_all(&directory)?;
        for file in 0..FILES_EACH {
            let mut text = Vec::new();
            stream::source(&mut text, SMALL_BYTES)?;
            number += 1;
            text.splice(..8, number.to_le_bytes());
            fs::write(directory.join(format!("{file:03}")), text)?;
        }
    }
    Ok(())
}

fn group(
    bench: &Bench,
    labs: &mut [Result<Lab, String>],
    files: &Files,
    (what, old, direction): (What, bool, Direction),
) -> Group {
    let (chains, entries): (Vec<Chain>, Vec<_>) = bench.chains().into_iter().unzip();
    let flag = if old { "scp -O" } else { "scp" };
    let (title, unit) = match what {
        What::Large => (
            format!("{flag}, {} MiB, {}", bench.settings.mib(), direction.name()),
            Unit::MibPerSecond,
        ),
        What::Many => (
            format!(
                "{flag} -r, {} files of {SMALL_BYTES} bytes, {}",
                DIRECTORIES * FILES_EACH,
                direction.name()
            ),
            Unit::Seconds,
        ),
    };
    let group = Group {
        row: Row::Copy.name(),
        title,
        unit,
        per: match what {
            What::Large => Per::Gib,
            What::Many => Per::Copy,
        },
        entries,
        notes: vec!["from start to exit, login included; files in memory, compared".into()],
    };
    bench.alternate(group, bench.settings.rounds(ROUNDS), |index| {
        let chain = chains.get(index).ok_or("no such chain")?;
        let lab = labs.get_mut(chain.server).ok_or("no such suite")?;
        let lab = lab.as_mut().map_err(|why| Miss::Failed(why.clone()))?;
        let (seconds, cpu) = once(bench, *chain, lab, files, (what, old, direction))?;
        #[allow(clippy::cast_precision_loss)]
        let mib = bench.settings.mib() as f64;
        let (value, work) = match what {
            What::Large => (mib / seconds, mib / 1024.0),
            What::Many => (seconds, 1.0),
        };
        Ok(Sample {
            value,
            cpu: Some(Cpu {
                client: cpu.client / work,
                server: cpu.server / work,
            }),
        })
    })
}

fn once(
    bench: &Bench,
    chain: Chain,
    lab: &mut Lab,
    files: &Files,
    (what, old, direction): (What, bool, Direction),
) -> Result<(f64, Cpu), Miss> {
    let suite = bench.suites.get(chain.client).ok_or("no such suite")?;
    let mut copier = suite.copier().map_err(Miss::Absent)?;
    lab.serve()?;
    copier.arg("-q").arg("-F").arg(lab.client_config());
    copier.arg("-P").arg(lab.address().port().to_string());
    if old {
        copier.arg("-O");
    }
    if what == What::Many {
        copier.arg("-r");
    }
    let remote = |path: PathBuf| format!("{}:{}", lab.destination(), path.display());
    let (sent, arrived) = (files.sent(), files.arrived());
    match direction {
        Direction::Up => copier.arg(&sent).arg(remote(arrived)),
        Direction::Down => copier.arg(remote(sent)).arg(&arrived),
    };
    copier
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let begun = Instant::now();
    let mut child = copier.spawn()?;
    let words = Words::listen(child.stderr.take().ok_or("no pipe")?);
    let watch = Watch::start(child.id());
    let (status, usage) = sys::process::wait_usage(child)?;
    let seconds = begun.elapsed().as_secs_f64();
    let stuck = watch.stop();
    let server = lab.stop()?;
    let said = words.all();
    let compared = match what {
        What::Large => same_bytes(&files.sent(), &files.arrived()),
        What::Many => same_trees(&files.sent(), &files.arrived()),
    };
    remove(&files.arrived())?;
    if stuck || !status.is_success() {
        return Err(said.complaint(&format!("{status:?}")).into());
    }
    if !compared? {
        return Err("other files arrived than were sent".into());
    }
    let cpu = Cpu {
        client: usage.total().as_secs_f64(),
        server: server.as_secs_f64(),
    };
    Ok((seconds, cpu))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

/// Whether two directories hold the same files.
fn same_trees(one: &Path, other: &Path) -> io::Result<bool> {
    let mut count = 0;
    for entry in fs::read_dir(one)? {
        let entry = entry?;
        let beside = other.join(entry.file_name());
        let same = match entry.file_type()?.is_dir() {
            true => same_trees(&entry.path(), &beside)?,
            false => beside.is_file() && fs::read(entry.path())? == fs::read(beside)?,
        };
        if !same {
            return Ok(false);
        }
        count += 1;
    }
    Ok(fs::read_dir(other)?.count() == count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_that_lacks_a_file_or_has_another_is_not_the_same() {
        let files = Files::new().unwrap();
        for path in [files.sent(), files.arrived()] {
            fs::create_dir_all(path.join("a")).unwrap();
            fs::write(path.join("a/x"), "x").unwrap();
            fs::write(path.join("y"), "y").unwrap();
        }
        let same = || same_trees(&files.sent(), &files.arrived()).unwrap();
        assert!(same());
        fs::write(files.arrived().join("a/x"), "z").unwrap();
        assert!(!same());
        fs::write(files.arrived().join("a/x"), "x").unwrap();
        fs::write(files.arrived().join("more"), "").unwrap();
        assert!(!same());
        fs::remove_file(files.arrived().join("more")).unwrap();
        fs::remove_file(files.arrived().join("y")).unwrap();
        assert!(!same());
    }
}
