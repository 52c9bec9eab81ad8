//! `fulmar bench`: whole programs against the SSH installed on this machine, in alternating
//! pairs on loopback, medians. A report, not a test.

use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::json::Json;
use crate::lab::{Lab, Suite};
use crate::table::Table;

const USAGE: &str = "usage: fulmar bench [--json] [--pairs N] [--size MIB] [--peer NAME=DIR] [login] [up] [down]\n\
     Alternates with the OpenSSH in PATH, or with the programs ssh, sshd and ssh-keygen in DIR.\n";

struct Settings {
    json: bool,
    pairs: usize,
    mib: u64,
    peers: Vec<Suite>,
    rows: Vec<Row>,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Row {
    /// `ssh host true`, seconds.
    Login,
    /// `cat /dev/zero | ssh host 'cat >/dev/null'`, seconds.
    Up,
    /// `ssh host cat >/dev/null`, seconds.
    Down,
}

impl Row {
    const ALL: [Self; 3] = [Self::Login, Self::Up, Self::Down];

    fn name(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// Runs the program; gives its exit status: 0, 1 when something could not be measured, 2 for
/// arguments that it does not know.
#[must_use]
pub fn run(args: Vec<OsString>) -> i32 {
    let settings = match parse(&args) {
        Ok(Some(settings)) => settings,
        Ok(None) => {
            print!("{USAGE}");
            return 0;
        }
        Err(why) => {
            eprint!("fulmar bench: {why}\n{USAGE}");
            return 2;
        }
    };
    match measure(&settings) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("fulmar bench: {error}");
            1
        }
    }
}

fn parse(args: &[OsString]) -> Result<Option<Settings>, String> {
    let mut settings = Settings {
        json: false,
        pairs: 11,
        mib: 1024,
        peers: Vec::new(),
        rows: Vec::new(),
    };
    let mut words = args.iter().map(|arg| arg.to_str().unwrap_or_default());
    while let Some(word) = words.next() {
        let mut value = |what: &str| words.next().ok_or(format!("{word} wants {what}"));
        match word {
            "-h" | "--help" => return Ok(None),
            "--json" => settings.json = true,
            "--pairs" => {
                let text = value("a number")?;
                settings.pairs = text
                    .parse()
                    .ok()
                    .filter(|pairs| (1..=10_000).contains(pairs))
                    .ok_or(format!(
                        "--pairs wants a number from 1 to 10000, not {text}"
                    ))?;
            }
            "--size" => {
                let text = value("a number of MiB")?;
                settings.mib = text
                    .parse()
                    .ok()
                    .filter(|mib| (1..=1_048_576).contains(mib))
                    .ok_or(format!(
                        "--size wants a number of MiB from 1 to 1048576, not {text}"
                    ))?;
            }
            "--peer" => {
                let text = value("NAME=DIR")?;
                let (name, directory) = text
                    .split_once('=')
                    .ok_or(format!("--peer wants NAME=DIR, not {text}"))?;
                settings.peers.push(Suite::in_directory(name, directory)?);
            }
            other => match Row::ALL.into_iter().find(|row| row.name() == other) {
                Some(row) => settings.rows.push(row),
                None => return Err(format!("unknown argument {other}")),
            },
        }
    }
    if settings.rows.is_empty() {
        settings.rows.extend(Row::ALL);
    }
    Ok(Some(settings))
}

/// One contestant's figures for one row, seconds.
struct Series {
    name: String,
    seconds: Vec<f64>,
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => sorted.get(len / 2).copied().unwrap_or(f64::NAN),
        len => {
            let pair: Vec<f64> = sorted.iter().skip(len / 2 - 1).take(2).copied().collect();
            pair.iter().sum::<f64>() / 2.0
        }
    }
}

fn measure(settings: &Settings) -> io::Result<()> {
    let mut suites = vec![Suite::ours()?];
    if settings.peers.is_empty() {
        match Suite::openssh() {
            Ok(suite) => suites.push(suite),
            Err(why) => eprintln!("not measured: {why}"),
        }
    } else {
        suites.extend(settings.peers.iter().cloned());
    }
    let labs: Vec<Lab> = suites
        .iter()
        .map(|suite| Lab::start(suite, "MaxStartups 1000\n"))
        .collect::<io::Result<_>>()?;
    let mut results = Vec::new();
    for row in &settings.rows {
        let mut series: Vec<Series> = suites
            .iter()
            .map(|suite| Series {
                name: suite.name.clone(),
                seconds: Vec::new(),
            })
            .collect();
        // The first round warms caches and is not counted.
        for round in 0..=settings.pairs {
            for ((suite, lab), series) in suites.iter().zip(&labs).zip(&mut series) {
                let seconds = once(*row, suite, lab, settings.mib)?.as_secs_f64();
                if round > 0 {
                    series.seconds.push(seconds);
                }
            }
        }
        results.push((*row, series));
    }
    if settings.json {
        println!("{}", as_json(settings, &results).render());
    } else {
        print!("{}", as_table(settings, &results));
    }
    Ok(())
}

fn once(row: Row, suite: &Suite, lab: &Lab, mib: u64) -> io::Result<Duration> {
    let bytes = mib << 20;
    let mut client = match row {
        Row::Login => lab.client(suite, &[], "true"),
        Row::Up => lab.client(suite, &[], "cat >/dev/null"),
        Row::Down => lab.client(suite, &[], &format!("head -c {bytes} /dev/zero")),
    };
    let begun = Instant::now();
    let mut head = None;
    match row {
        Row::Login | Row::Down => client.stdin(Stdio::null()),
        Row::Up => {
            let mut source = std::process::Command::new("head")
                .args(["-c", &bytes.to_string(), "/dev/zero"])
                .stdout(Stdio::piped())
                .spawn()?;
            let pipe = source
                .stdout
                .take()
                .ok_or_else(|| io::Error::other("no pipe"))?;
            head = Some(source);
            client.stdin(pipe)
        }
    };
    let mut sink = None;
    if row == Row::Down {
        let mut cat = std::process::Command::new("sh")
            .args(["-c", "exec cat >/dev/null"])
            .stdin(Stdio::piped())
            .spawn()?;
        client.stdout(
            cat.stdin
                .take()
                .ok_or_else(|| io::Error::other("no pipe"))?,
        );
        sink = Some(cat);
    } else {
        client.stdout(Stdio::null());
    }
    let status = client.stderr(Stdio::inherit()).status()?;
    // The command value holds the write end of the pipe that the sink reads.
    drop(client);
    for mut child in [head, sink].into_iter().flatten() {
        child.wait()?;
    }
    if !status.success() {
        return Err(io::Error::other(format!(
            "{} {}: {status}; {}",
            suite.name,
            row.name(),
            lab.server_log().trim()
        )));
    }
    Ok(begun.elapsed())
}

fn figure(row: Row, mib: u64, seconds: f64) -> f64 {
    #[allow(clippy::cast_precision_loss)]
    match row {
        Row::Login => seconds * 1e3,
        Row::Up | Row::Down => mib as f64 / seconds,
    }
}

fn as_table(settings: &Settings, results: &[(Row, Vec<Series>)]) -> String {
    let mut table = Table::new(&["", "median", "best", "worst", "unit", "Fulmar is faster by"]);
    for (row, series) in results {
        let unit = if *row == Row::Login { "ms" } else { "MiB/s" };
        let ours = series
            .first()
            .map_or(f64::NAN, |first| median(&first.seconds));
        for each in series {
            let mid = median(&each.seconds);
            let best = each.seconds.iter().copied().fold(f64::INFINITY, f64::min);
            let worst = each.seconds.iter().copied().fold(0.0, f64::max);
            let show = |seconds: f64| format!("{:.1}", figure(*row, settings.mib, seconds));
            table.row(vec![
                format!("{} {}", row.name(), each.name),
                show(mid),
                show(best),
                show(worst),
                unit.into(),
                format!("{:.2}x", mid / ours),
            ]);
        }
    }
    format!(
        "{} alternating pairs on loopback, {} MiB\n{}",
        settings.pairs,
        settings.mib,
        table.render()
    )
}

fn as_json(settings: &Settings, results: &[(Row, Vec<Series>)]) -> Json {
    let rows = results
        .iter()
        .flat_map(|(row, series)| {
            let ours = series
                .first()
                .map_or(f64::NAN, |first| median(&first.seconds));
            series.iter().map(move |each| {
                let mid = median(&each.seconds);
                Json::object(vec![
                    ("row", Json::text(row.name())),
                    ("suite", Json::text(&each.name)),
                    ("median_seconds", Json::Number(mid)),
                    ("ratio_to_fulmar", Json::Number(mid / ours)),
                    (
                        "seconds",
                        Json::List(each.seconds.iter().copied().map(Json::Number).collect()),
                    ),
                ])
            })
        })
        .collect();
    Json::object(vec![
        #[allow(clippy::cast_precision_loss)]
        ("mib", Json::Number(settings.mib as f64)),
        ("results", Json::List(rows)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    }

    #[test]
    fn arguments_that_make_no_sense_are_refused_by_name() {
        let args = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert!(parse(&args(&["--pairs", "0"])).is_err());
        assert!(parse(&args(&["--peer", "x"])).is_err());
        assert!(parse(&args(&["upwards"])).is_err());
        let settings = parse(&args(&["up", "--size", "7"])).unwrap().unwrap();
        assert_eq!((settings.mib, settings.rows), (7, vec![Row::Up]));
    }
}
