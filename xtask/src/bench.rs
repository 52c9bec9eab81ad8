//! `cargo xtask bench [--bless]`: counts the instructions of the protocol's work under callgrind
//! and compares them with the baseline in `benches/`.
//!
//! Counts are repeatable to the instruction for one compiler and one set of CPU features; with
//! others they are only reported. They do not cover the AVX-512 kernels, which callgrind does not
//! support.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Permitted increase over the baseline, percent.
const TOLERANCE_PERCENT: f64 = 3.0;
/// The function whose instructions are counted (benches/src/main.rs).
const WATCHED: &str = "benches::count_instructions";
const BASELINE: &str = "benches/baseline.txt";
const HEAD: &str =
    "# Instructions by callgrind, made by `cargo xtask bench --bless`: 3 % more fail ./check.\n";

/// Counts by name, with the lines that describe the environment.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    /// Compiler, CPU features, valgrind.
    basis: Vec<String>,
    counts: Vec<(String, u64)>,
}

/// Runs the task; returns its exit status.
pub fn run(args: &[String]) -> i32 {
    let bless = match args {
        [] => false,
        [flag] if flag == "--bless" => true,
        _ => {
            eprintln!("xtask bench: only --bless is known");
            return 2;
        }
    };
    let Some(valgrind) = said_by("valgrind", &["--version"]) else {
        println!("skipped: instruction counts (valgrind is not installed)");
        return 0;
    };
    match count(&valgrind).and_then(|counts| conclude(&counts, bless)) {
        Ok(status) => status,
        Err(why) => {
            eprintln!("xtask bench: {why}");
            1
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The first line of a program's output, if the program can be run.
fn said_by(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.lines().next()?.to_string())
}

/// Builds the program and runs it under callgrind.
fn count(valgrind: &str) -> Result<Counts, String> {
    let rustc = said_by("rustc", &["-V"]).ok_or("there is no rustc")?;
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--package", "benches"])
        .current_dir(root())
        .status()
        .map_err(|error| error.to_string())?;
    if !built.success() {
        return Err("the benches do not compile".into());
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let directory = target.join("callgrind");
    // Output of an earlier run would be mistaken for that of this run.
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=out"])
        .arg(format!("--toggle-collect={WATCHED}"))
        .arg(format!("--dump-after={WATCHED}"))
        .arg(
            target
                .join("release/benches")
                .canonicalize()
                .map_err(|error| error.to_string())?,
        )
        .current_dir(&directory)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let (told, names): (Vec<&str>, Vec<&str>) =
        printed.lines().partition(|line| line.starts_with('#'));
    let mut counts = Vec::new();
    for (index, name) in names.into_iter().enumerate() {
        let path = directory.join(format!("out.{}", index + 1));
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let sum = summary(&text).ok_or(format!("{} has no summary", path.display()))?;
        counts.push((name.to_string(), sum));
    }
    if counts.is_empty() {
        return Err("nothing was counted".into());
    }
    let mut basis = vec![format!("# {rustc}"), format!("# {valgrind}")];
    basis.extend(told.into_iter().map(str::to_string));
    Ok(Counts { basis, counts })
}

/// The total in a file of callgrind.
fn summary(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("summary: "))?;
    line.trim().parse().ok().filter(|sum| *sum > 0)
}

fn as_text(counts: &Counts) -> String {
    let mut text = String::from(HEAD);
    for line in &counts.basis {
        text.push_str(&format!("{line}\n"));
    }
    for (name, count) in &counts.counts {
        text.push_str(&format!("{count:>10} {name}\n"));
    }
    text
}

fn parse(text: &str) -> Result<Counts, String> {
    let text = text.strip_prefix(HEAD).unwrap_or(text);
    let (basis, lines): (Vec<&str>, Vec<&str>) = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .partition(|line| line.starts_with('#'));
    let counts = lines
        .into_iter()
        .map(|line| {
            let (count, name) = line.trim().split_once(' ')?;
            Some((name.to_string(), count.parse().ok()?))
        })
        .collect::<Option<_>>()
        .ok_or("a line is not a count and a name")?;
    Ok(Counts {
        basis: basis.into_iter().map(str::to_string).collect(),
        counts,
    })
}

/// Prints the counts beside the baseline, or stores them as the baseline; returns the exit status.
fn conclude(counts: &Counts, bless: bool) -> Result<i32, String> {
    let path = root().join(BASELINE);
    if bless {
        fs::write(&path, as_text(counts)).map_err(|error| error.to_string())?;
        println!("{BASELINE}");
        return Ok(0);
    }
    let text = fs::read_to_string(&path).map_err(|error| format!("{BASELINE}: {error}"))?;
    let baseline = parse(&text).map_err(|why| format!("{BASELINE}: {why}"))?;
    let verdict = judge(&baseline, counts);
    print!("{}", verdict.table);
    if !verdict.comparable {
        println!(
            "only reported: {BASELINE} rests on\n{}\nand this on\n{}",
            baseline.basis.join("\n"),
            counts.basis.join("\n")
        );
        return Ok(0);
    }
    if verdict.better > 0 {
        let better = verdict.better;
        println!("{better} took fewer: keep that with `cargo xtask bench --bless`");
    }
    for line in &verdict.worse {
        eprintln!("xtask bench: {line}");
    }
    Ok(i32::from(!verdict.worse.is_empty()))
}

/// The result of a comparison with the baseline.
struct Verdict {
    /// One line for each count.
    table: String,
    /// True if both have the same compiler, features and valgrind.
    comparable: bool,
    /// Number of pieces with fewer instructions by more than the tolerance.
    better: usize,
    /// The failures, one line each.
    worse: Vec<String>,
}

fn judge(baseline: &Counts, counts: &Counts) -> Verdict {
    let mut verdict = Verdict {
        table: String::new(),
        comparable: baseline.basis == counts.basis,
        better: 0,
        worse: Vec::new(),
    };
    for (name, now) in &counts.counts {
        let before = baseline.counts.iter().find(|(other, _)| other == name);
        let change = before.map(|(_, before)| percent(*before, *now));
        let shown = change.map_or("new".into(), |change| format!("{change:+.1} %"));
        verdict
            .table
            .push_str(&format!("{now:>10} {shown:>9}  {name}\n"));
        match change {
            None => verdict.worse.push(format!("{name} is not in {BASELINE}")),
            Some(change) if change > TOLERANCE_PERCENT => verdict.worse.push(format!(
                "{name}: {change:+.1} % instructions, more than {TOLERANCE_PERCENT} %"
            )),
            Some(change) => verdict.better += usize::from(change < -TOLERANCE_PERCENT),
        }
    }
    for (name, _) in &baseline.counts {
        if counts.counts.iter().all(|(other, _)| other != name) {
            let line = format!("{name} is in {BASELINE} and was not counted");
            verdict.worse.push(line);
        }
    }
    verdict
}

fn percent(before: u64, now: u64) -> f64 {
    #[allow(clippy::cast_precision_loss)]
    let (before, now) = (before.max(1) as f64, now as f64);
    (now / before - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let counts = Counts {
            basis: vec!["# rustc 1".into(), "# features: x".into()],
            counts: vec![("seal 64 x 64 a".into(), 12), ("login".into(), 3_000_000)],
        };
        assert_eq!(parse(&as_text(&counts)).unwrap(), counts);
        assert!(parse("# rustc\nmany login\n").is_err());
    }

    #[test]
    fn the_baseline_can_be_read() {
        let text = fs::read_to_string(root().join(BASELINE)).unwrap();
        let baseline = parse(&text).unwrap();
        assert!(
            baseline
                .basis
                .iter()
                .any(|line| line.starts_with("# rustc "))
        );
        assert!(baseline.counts.iter().any(|(name, _)| name == "login"));
    }

    fn counts(basis: &str, counts: &[(&str, u64)]) -> Counts {
        Counts {
            basis: vec![basis.into()],
            counts: counts
                .iter()
                .map(|(name, n)| ((*name).into(), *n))
                .collect(),
        }
    }

    #[test]
    fn more_than_the_tolerance_or_another_list_of_work_is_wrong() {
        let baseline = counts("# a", &[("login", 1000), ("seal", 2000)]);
        for (now, wrong, better) in [
            (&[("login", 1029), ("seal", 2058)][..], None, 0),
            (&[("login", 969), ("seal", 2000)], None, 1),
            (&[("login", 1031), ("seal", 1)], Some("login: +3.1 %"), 1),
            (&[("login", 1000)], Some("seal is in "), 0),
            (
                &[("login", 1000), ("seal", 2000), ("open", 1)],
                Some("open is not in "),
                0,
            ),
        ] {
            let verdict = judge(&baseline, &counts("# a", now));
            assert!(verdict.comparable);
            assert_eq!(verdict.better, better, "{now:?}");
            assert_eq!(verdict.worse.len(), usize::from(wrong.is_some()), "{now:?}");
            for (line, wrong) in verdict.worse.iter().zip(wrong) {
                assert!(line.starts_with(wrong), "{line}");
            }
        }
        let elsewhere = counts("# b", &[("login", 9000), ("seal", 2000)]);
        assert!(!judge(&baseline, &elsewhere).comparable);
    }

    #[test]
    fn a_file_without_instructions_has_no_sum() {
        assert_eq!(summary("version: 1\nsummary: 17\ntotals: 17\n"), Some(17));
        assert_eq!(summary("summary: 0\n"), None);
        assert_eq!(summary("totals: 17\n"), None);
    }
}
