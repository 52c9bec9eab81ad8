//! `login`: `ssh host true`, from the client's start to its exit, and what it costs both ends.

use std::process::Stdio;
use std::time::Instant;

use super::figures::{Cpu, Group, Per, Unit};
use super::options::Row;
use super::rounds::{Bench, Chain, Miss, Sample};
use crate::lab::{Lab, Suite};

/// Rounds when the command line says nothing.
const ROUNDS: usize = 21;

/// Measures logins to servers that keep running, one for each chain.
pub(super) fn measure(bench: &Bench) -> Group {
    let (chains, entries): (Vec<Chain>, Vec<_>) = bench.chains().into_iter().unzip();
    let mut labs: Vec<Result<Lab, String>> = chains
        .iter()
        .map(|chain| bench.lab(chain.server, &bench.servers, "MaxStartups 1000"))
        .collect();
    let group = Group {
        row: Row::Login.name(),
        title: "ssh host true".into(),
        unit: Unit::Milliseconds,
        per: Per::Login,
        entries,
        notes: vec!["from the client's start to its exit; the server runs on".into()],
    };
    let rounds = bench.settings.rounds(ROUNDS);
    let mut group = bench.alternate(group, rounds, |index| {
        let (Some(chain), Some(lab)) = (chains.get(index), labs.get_mut(index)) else {
            return Err("no such chain".into());
        };
        let suite = bench.suites.get(chain.client).ok_or("no such suite")?;
        once(suite, lab.as_mut().map_err(|why| why.clone())?)
    });
    for (entry, lab) in group.entries.iter_mut().zip(&mut labs) {
        let Ok(lab) = lab else { continue };
        #[allow(clippy::cast_precision_loss)]
        match lab.stop() {
            Ok(all) => {
                let each = all.as_secs_f64() / (rounds + 1) as f64;
                entry.cpu.iter_mut().for_each(|cpu| cpu.server = each);
            }
            Err(error) => entry.missing = Some(error.into()),
        }
    }
    group
}

fn once(suite: &Suite, lab: &mut Lab) -> Result<Sample, Miss> {
    lab.serve()?;
    let mut client = lab.client(suite, &[], "true");
    client
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let begun = Instant::now();
    let mut child = client.spawn().map_err(|error| error.to_string())?;
    let mut words = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        // A client that says something that is no text says it in its status, too.
        let _ = std::io::Read::read_to_string(&mut stderr, &mut words);
    }
    let (status, usage) = sys::process::wait_usage(child).map_err(|error| error.to_string())?;
    let seconds = begun.elapsed().as_secs_f64();
    if !status.is_success() {
        let why = format!("{status:?}: {}", words.trim());
        return Err(lab.complaint(why).into());
    }
    Ok(Sample {
        value: seconds * 1e3,
        cpu: Some(Cpu {
            client: usage.total().as_secs_f64(),
            server: 0.0,
        }),
    })
}
