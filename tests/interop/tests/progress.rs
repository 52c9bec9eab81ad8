//! The reports of our copies: what they wait for, on a terminal and with `--json`, whose format
//! docs/transfer.md describes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use interop::json::Value;
use interop::peers::ours::Kind;
use interop::process::{Input, Outcome, descendants, installed, kill};
use interop::report::skipped;
use interop::scratch::Scratch;
use interop::site::{HOST, Site, finish, here, program, scp, there};
use interop::slow_folder::SlowFolder;
use interop::terminal::Terminal;

const SFTP_SERVER: &str = "/usr/lib/openssh/sftp-server";
const DOCUMENT: &str = include_str!("../../../docs/transfer.md");
/// The delay of a slow directory per piece: long compared with other delays of a busy machine.
const DELAY: Duration = Duration::from_millis(80);

fn ours() -> Site {
    Site::new(Kind::Fulmar, Kind::Fulmar, "Subsystem sftp internal-sftp\n")
}

/// A slow directory, if it is possible.
fn slow(scratch: &Scratch, files: &[(&str, Vec<u8>)]) -> Option<SlowFolder> {
    match SlowFolder::mount(scratch, files, DELAY) {
        Ok(folder) => Some(folder),
        Err(why) => {
            skipped("a slow folder", &why);
            None
        }
    }
}

/// The one line that a copy with `--json` prints.
fn told(outcome: &Outcome) -> Value {
    let text = outcome.stdout.text();
    assert_eq!(text.trim_end().lines().count(), 1, "{}", outcome.summary());
    Value::read(&text).unwrap_or_else(|why| panic!("{why}: {}", outcome.summary()))
}

/// What a successful copy reports that it waited for.
fn limit(outcome: &Outcome) -> String {
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
    let told = told(outcome);
    let limit = told.find("limited_by").and_then(Value::text);
    limit.unwrap_or_else(|| panic!("{told:?}")).to_owned()
}

#[test]
fn a_slow_disk_is_told_by_the_side_it_is_on() {
    let (site, scratch) = (ours(), Scratch::new());
    let content = vec![7; 3_000_000];
    let Some(folder) = slow(&scratch, &[("from", content.clone())]) else {
        return;
    };
    let from = folder.path().join("from");
    let to = scratch.join("to");
    let outcome = scp(&site, &["--json", &here(&from), &there(&to)]);
    assert_eq!(limit(&outcome), "source-disk", "{}", outcome.summary());
    assert!(fs::read(&to).unwrap() == content);
    let slow = folder.path().join("to");
    let outcome = scp(&site, &["--json", &there(&to), &here(&slow)]);
    assert_eq!(limit(&outcome), "target-disk", "{}", outcome.summary());
    assert_eq!(fs::metadata(&slow).unwrap().len(), 3_000_000);
    // By the old protocol, too.
    if installed("scp").is_some() {
        let outcome = scp(&site, &["-O", "--json", &here(&from), &there(&to)]);
        assert_eq!(limit(&outcome), "source-disk", "{}", outcome.summary());
    } else {
        skipped("the old protocol", &"no scp is installed");
    }
    // On a terminal during the copy.
    let mut command = program(&site, "scp");
    command.args([&here(&from), &there(&to)]);
    let mut terminal = Terminal::new(&command, 100, 24);
    terminal.expect("limited by source disk");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn a_peer_that_takes_no_more_is_told() {
    if installed("sshd").is_none() || !Path::new(SFTP_SERVER).exists() {
        return skipped("openssh's SFTP server", &"not installed");
    }
    // Its window stays at 2 MiB: it is full while most of the file is still local.
    let subsystem = format!("Subsystem sftp {SFTP_SERVER}\n");
    let site = Site::new(Kind::Fulmar, Kind::OpenSsh, &subsystem);
    let scratch = Scratch::new();
    let from = scratch.write("from", vec![7; 10_000_000]);
    let Some(folder) = slow(&scratch, &[("short", vec![7; 2_000_000])]) else {
        return;
    };
    let to = folder.path().join("to");
    let outcome = scp(&site, &["--json", &here(&from), &there(&to)]);
    assert_eq!(limit(&outcome), "peer", "{}", outcome.summary());
    // In the other direction it is not known whether the peer or the network is slow.
    let (short, back) = (folder.path().join("short"), scratch.join("back"));
    let outcome = scp(&site, &["--json", &there(&short), &here(&back)]);
    assert_eq!(limit(&outcome), "network-or-peer", "{}", outcome.summary());
}

/// Forwards a connection that the kernel limits to this rate in bytes per second.
const PASSER: &str = "\
import socket, sys
way = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
way.setsockopt(socket.SOL_SOCKET, 47, 800000)
socket.send_fds(socket.socket(fileno=1), [b'x'], [way.fileno()])
";

#[test]
fn a_slow_network_is_told() {
    let Some(python) = installed("python3") else {
        return skipped("a slow network", &"no python3 is installed");
    };
    let (site, scratch) = (ours(), Scratch::new());
    let from = scratch.write("from", vec![7; 3_000_000]);
    let to = scratch.join("to");
    let passer = scratch.write("passer.py", PASSER);
    let way = format!(
        "ProxyCommand={} {} {}",
        python.display(),
        passer.display(),
        site.running.daemon.port
    );
    let options = ["-o", &way, "-o", "ProxyUseFdpass=yes", "--json"];
    let outcome = scp(
        &site,
        &[&options[..], &[&here(&from), &there(&to)]].concat(),
    );
    assert_eq!(limit(&outcome), "network", "{}", outcome.summary());
    let outcome = scp(
        &site,
        &["--json", "--limit", "1M", &here(&from), &there(&to)],
    );
    assert_eq!(limit(&outcome), "asked", "{}", outcome.summary());
}

/// The fields of `--json` in the document, with their kinds.
fn documented() -> BTreeMap<String, String> {
    let part = DOCUMENT.split("### The output of `--json`").nth(1);
    let part = part.expect("the part of the document");
    let part = part.split("\n#").next().unwrap_or_default();
    let rows = part.lines().filter_map(|line| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        Some((name.to_owned(), cells.next()?.to_owned()))
    });
    rows.collect()
}

fn fits(kind: &str, value: &Value) -> bool {
    match (kind, value) {
        ("count", Value::Number(number)) => *number >= 0.0 && number.fract() == 0.0,
        ("seconds", Value::Number(number)) => *number >= 0.0,
        ("truth", Value::Bool(_))
        | ("text", Value::Text(_))
        | ("list", Value::List(_))
        | ("object", Value::Object(_)) => true,
        _ => false,
    }
}

/// Compares a value and its members with the document; `seen` collects the found names.
fn compare(
    name: &str,
    value: &Value,
    known: &BTreeMap<String, String>,
    seen: &mut BTreeSet<String>,
) {
    if !name.is_empty() {
        let kind = known.get(name);
        let kind = kind.unwrap_or_else(|| panic!("{name} is not in the document: {value:?}"));
        assert!(fits(kind, value), "{name} is no {kind}: {value:?}");
        seen.insert(name.to_owned());
    }
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                let dot = if name.is_empty() { "" } else { "." };
                compare(&format!("{name}{dot}{member}"), value, known, seen);
            }
        }
        Value::List(list) => {
            for value in list {
                // An object of a list is identified by its members.
                assert!(matches!(value, Value::Object(_)), "{name}: {value:?}");
                let Value::Object(members) = value else {
                    continue;
                };
                for (member, value) in members {
                    compare(&format!("{name}[].{member}"), value, known, seen);
                }
            }
        }
        _ => {}
    }
}

#[test]
fn json_has_the_form_of_the_document() {
    let (site, scratch) = (ours(), Scratch::new());
    let known = documented();
    assert!(known.len() > 10, "{known:?}");
    let mut seen = BTreeSet::new();
    let one = scratch.write("one \"\\\u{e9}", vec![1; 300_000]);
    let two = scratch.write("two", vec![2; 5000]);
    let folder = scratch.join("folder");
    fs::create_dir_all(&folder).unwrap();
    let target = scratch.join("target");
    fs::create_dir_all(&target).unwrap();
    let number = |value: &Value, name: &str| value.find(name).and_then(Value::number).unwrap();

    let arguments = [
        "--json",
        "--verify",
        &here(&one),
        &here(&two),
        &there(&target),
    ];
    let good = scp(&site, &arguments);
    assert_eq!(good.status, 0, "{}", good.summary());
    let value = told(&good);
    compare("", &value, &known, &mut seen);
    assert_eq!(value.find("ok"), Some(&Value::Bool(true)));
    assert_eq!(
        (number(&value, "files"), number(&value, "bytes")),
        (2.0, 305_000.0)
    );
    assert!(number(&value, "seconds") > 0.0 && number(&value, "peak_bytes_per_second") > 0.0);
    let Some(Value::List(results)) = value.find("results") else {
        panic!("{value:?}");
    };
    assert_eq!(results.len(), 2);
    assert!(results.iter().any(|each| {
        let from = each.find("from").and_then(Value::text);
        from.is_some_and(|from| from.contains("one")) && number(each, "bytes") == 300_000.0
    }));
    // The category with the most time limited the copy.
    let Some(Value::Object(limits)) = value.find("limits") else {
        panic!("{value:?}");
    };
    let most = limits.iter().max_by(|one, other| {
        let seconds = |(_, value): &(String, Value)| value.number().unwrap();
        seconds(one).total_cmp(&seconds(other))
    });
    let limited_by = value.find("limited_by").and_then(Value::text);
    assert_eq!(most.map(|(name, _)| name.as_str()), limited_by);

    // An existing part of a download.
    let back = scratch.write("back", vec![1; 100_000]);
    let there = format!("{HOST}:{}", target.join("two").display());
    fs::write(target.join("two"), vec![1; 300_000]).unwrap();
    let resumed = scp(&site, &["--json", "-Z", &there, &here(&back)]);
    assert_eq!(resumed.status, 0, "{}", resumed.summary());
    compare("", &told(&resumed), &known, &mut seen);

    // A failure has its reason, and the rest arrives.
    let into = format!("{HOST}:{}", target.display());
    let bad = scp(&site, &["--json", &here(&folder), &here(&two), &into]);
    assert_eq!(bad.status, 1, "{}", bad.summary());
    let value = told(&bad);
    compare("", &value, &known, &mut seen);
    assert_eq!(value.find("ok"), Some(&Value::Bool(false)));
    assert_eq!(
        (number(&value, "files"), number(&value, "failed")),
        (2.0, 1.0)
    );

    let names: BTreeSet<String> = known.into_keys().collect();
    assert_eq!(seen, names, "what the document has and no copy told");
    // Nothing is copied, and the output is still JSON.
    let mut command = program(&site, "scp");
    command.args(["--json", "-q", &here(&scratch.join("none")), &into]);
    let none = finish(&mut command, Input::Nothing);
    assert_ne!(none.status, 0);
    compare("", &told(&none), &documented(), &mut BTreeSet::new());
}

/// A tree with one large file between small ones, copied at 4 MB/s at its own terminal.
fn large_among_small(site: &Site, scratch: &Scratch) -> Terminal {
    let folder = scratch.join("folder");
    fs::create_dir(&folder).unwrap();
    for name in ["a", "zz"] {
        fs::write(folder.join(name), b"2\n").unwrap();
    }
    fs::write(folder.join("large"), vec![7; 12_000_000]).unwrap();
    let mut command = program(site, "scp");
    let to = format!("{HOST}:{}", scratch.join("to").display());
    command.args(["-r", "--limit", "4M", &here(&folder), &to]);
    Terminal::new(&command, 100, 24)
}

/// The successive states of the terminal's lines.
fn lines(terminal: &Terminal) -> Vec<String> {
    let screen = terminal.screen().replace("\x1b[K", "");
    let lines = screen.split(['\r', '\n']).filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

#[test]
fn of_a_tree_the_file_that_moves_is_shown_with_its_own_rate() {
    let (site, scratch) = (ours(), Scratch::new());
    let mut terminal = large_among_small(&site, &scratch);
    assert_eq!(terminal.end(), 0);
    let lines = lines(&terminal);
    let under_way = lines
        .iter()
        .filter(|line| line.starts_with("large ") && line.contains(" ETA"));
    assert!(under_way.count() > 3, "{lines:#?}");
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("large ") && line.contains("100%"))
    );
    // The rate of each file: rates in MB are at most the limit.
    for line in lines.iter().filter(|line| !line.starts_with("total")) {
        let rate = line
            .split_whitespace()
            .find_map(|word| word.strip_suffix("MB/s"));
        let rate: f64 = rate.unwrap_or("0").parse().unwrap();
        assert!(rate <= 4.0 && !line.contains("GB/s"), "{lines:#?}");
    }
}

#[test]
fn an_interrupt_is_one_line() {
    let (site, scratch) = (ours(), Scratch::new());
    let mut terminal = large_among_small(&site, &scratch);
    terminal.expect("large");
    terminal.expect("ETA");
    terminal.type_text("\x03");
    assert_ne!(terminal.end(), 0);
    let lines = lines(&terminal);
    let behind = lines.iter().skip_while(|line| !line.starts_with("large"));
    let behind: Vec<&String> = behind.filter(|line| !line.starts_with("large")).collect();
    let said: Vec<&&String> = behind
        .iter()
        .filter(|line| !line.contains("100%"))
        .collect();
    let said: Vec<String> = said.iter().map(|line| line.replace("^C", "")).collect();
    assert_eq!(said, ["scp: Interrupted"], "{lines:#?}");
}

#[test]
fn a_server_that_dies_is_told_of_on_a_line_of_its_own() {
    let (site, scratch) = (ours(), Scratch::new());
    let mut terminal = large_among_small(&site, &scratch);
    terminal.expect("large");
    terminal.expect("ETA");
    for process in descendants(site.running.daemon.pid()) {
        kill(process);
    }
    assert_eq!(terminal.end(), 255);
    let screen = terminal.screen();
    assert!(screen.contains("\nConnection "), "{screen:?}");
    assert!(!screen.contains("\u{1b}[KConnection "), "{screen:?}");
}
