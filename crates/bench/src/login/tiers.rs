//! Logins of ours to ours with less and less of the CPU, client and server alike: what each tier
//! of kernels is worth, down to what every CPU of the architecture has.

use crypto::arch::FEATURES_VARIABLE;

use super::super::figures::{BenchEntry, BenchGroup};
use super::super::report::digits;
use super::super::rounds::{Bench, Miss};
use super::by_turns;
use crate::harness::{Harness, Suite};

/// Rounds when the command line says nothing.
const ROUNDS: usize = 11;

/// Each tier with what it lacks, as the variable's value; the first is the whole CPU.
#[cfg(target_arch = "x86_64")]
const TIERS: &[(&str, &str)] = &[
    ("all CPU features", ""),
    ("without AVX-512", "~0:~0x00005842d0230000"),
    ("without VAES", "~0:~0x00005e42d0230000"),
    (
        "without AVX, ADX and BMI2",
        "~0x1000100000000000:~0x00005e42d02b0128",
    ),
    ("plain x86-64", "~0xffffffffffffffff:~0xffffffffffffffff"),
];
#[cfg(not(target_arch = "x86_64"))]
const TIERS: &[(&str, &str)] = &[];

/// Measures all tiers by turns.
pub(super) fn measure(bench: &Bench) -> BenchGroup {
    let text = (
        "ssh host true, ours to ours, with CPU features switched off",
        format!("both ends with {FEATURES_VARIABLE} in their environment"),
    );
    let mut group = by_turns(bench, text, ROUNDS, TIERS, |bench, value| {
        prepare(bench, value)
    });
    let whole = group.entries.first().and_then(BenchEntry::median);
    for entry in &mut group.entries {
        let times = entry.median().zip(whole);
        let cell = times.map_or_else(String::new, |(own, whole)| digits(own / whole));
        entry.more.push(("times the first".into(), cell));
    }
    group
}

fn prepare(bench: &Bench, value: &str) -> Result<(Suite, Harness), Miss> {
    let mut suite = Suite::ours()?;
    if !value.is_empty() {
        suite.set_environment(FEATURES_VARIABLE, value);
    }
    let harness = Harness::new(&suite, &bench.servers, "MaxStartups 1000")?;
    Ok((suite, harness))
}
