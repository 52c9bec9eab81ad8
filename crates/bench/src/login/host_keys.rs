//! Logins of ours to ours by the type of the host key: what a post-quantum one costs.

use keys::KeySpec;

use super::super::figures::{BenchEntry, BenchGroup};
use super::super::report::digits;
use super::super::rounds::{Bench, Miss};
use super::by_turns;
use crate::harness::{Harness, Suite};

/// Rounds when the command line says nothing.
const ROUNDS: usize = 21;

/// Names of the types; the first is what the others are compared with.
const TYPES: [(&str, KeySpec); 2] = [
    ("ssh-ed25519", KeySpec::Ed25519),
    ("ssh-mldsa44-ed25519", KeySpec::MlDsa44Ed25519),
];

/// Measures all types by turns.
pub(super) fn measure(bench: &Bench) -> BenchGroup {
    let text = (
        "ssh host true, ours to ours, by the host key",
        "CPU time of both ends, and beyond that of the first".into(),
    );
    let mut group = by_turns(bench, text, ROUNDS, &TYPES, prepare);
    let first = group.entries.first().map(cpu_ms);
    for entry in &mut group.entries {
        let own = cpu_ms(entry);
        let more = first.map_or_else(String::new, |first| format!("{:+.2}", own - first));
        entry.more.push(("CPU, ms".into(), digits(own)));
        entry.more.push(("more".into(), more));
    }
    group
}

/// CPU time of client and server in a login, the median.
fn cpu_ms(entry: &BenchEntry) -> f64 {
    let both: Vec<f64> = entry
        .cpu
        .iter()
        .map(|cpu| (cpu.client + cpu.server) * 1e3)
        .collect();
    super::stats::median(&both)
}

fn prepare(bench: &Bench, spec: &KeySpec) -> Result<(Suite, Harness), Miss> {
    let suite = Suite::ours()?;
    let harness = Harness::with_host_key(*spec, &suite, &bench.servers, "MaxStartups 1000")?;
    Ok((suite, harness))
}
