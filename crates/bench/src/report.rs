//! The report as tables for people and as JSON.

use super::figures::{BenchEntry, BenchGroup, BenchReport, EntryKind};
use super::stats;
use crate::table::Table;
use copy::json::Json;

/// A figure with three significant digits.
pub(super) fn digits(value: f64) -> String {
    match value.abs() {
        v if !v.is_finite() => "–".into(),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn ratio(value: Option<f64>) -> String {
    value.map_or_else(String::new, |ratio| format!("{ratio:.2}×"))
}

/// The name of the first measured peer.
pub(super) fn peer_name(group: &BenchGroup) -> Option<&str> {
    group
        .entries
        .iter()
        .find(|entry| entry.part == EntryKind::Peer && entry.median().is_some())
        .map(|entry| entry.label.split(" → ").next().unwrap_or(&entry.label))
}

/// The facts about the machine and the programs, one per line.
pub(super) fn about(report: &BenchReport) -> String {
    report
        .about
        .iter()
        .map(|(what, value)| format!("{what}: {value}\n"))
        .collect()
}

/// One group as a table.
pub(super) fn group(group: &BenchGroup) -> String {
    let mut text = format!("\n{}: {}\n{}", group.row, group.title, table(group));
    for note in &group.notes {
        text.push_str(&format!("  {note}\n"));
    }
    text
}

/// The headings and cells of one group, for every form of it.
pub(super) fn cells(group: &BenchGroup) -> (Vec<String>, Vec<Vec<String>>) {
    let has_cpu = group.entries.iter().any(|entry| !entry.cpu.is_empty());
    let limit = group
        .entries
        .iter()
        .find(|entry| entry.part == EntryKind::Limit && entry.median().is_some());
    let peer = peer_name(group);
    let more: Vec<String> = group
        .entries
        .iter()
        .find(|entry| !entry.more.is_empty())
        .map(|entry| entry.more.iter().map(|(what, _)| what.clone()).collect())
        .unwrap_or_default();
    let (per, scale) = group.per.unit();
    let mut heading = vec![String::new(), group.unit.name().into(), "min–max".into()];
    if has_cpu {
        heading.extend([format!("client {per}"), format!("server {per}")]);
    }
    heading.extend(peer.map(|name| format!("to {name}")));
    heading.extend(limit.map(|limit| format!("to {}", limit.label)));
    heading.extend(more.iter().cloned());
    let mut rows = Vec::new();
    for entry in &group.entries {
        if let Some(why) = &entry.missing {
            rows.push(vec![
                entry.label.clone(),
                format!("not measured: {}", why.why()),
            ]);
            continue;
        }
        let (low, high) = stats::range(&entry.values);
        let mut row = vec![
            entry.label.clone(),
            entry.median().map_or_else(|| "–".into(), digits),
            format!("{}–{}", digits(low), digits(high)),
        ];
        if has_cpu {
            match entry.cpu_median() {
                Some(cpu) => row.extend([cpu.client, cpu.server].map(|s| digits(s * scale))),
                None => row.extend([String::new(), String::new()]),
            }
        }
        row.extend(peer.map(|_| ratio(group.ratio(entry, EntryKind::Peer))));
        row.extend(limit.map(|_| ratio(group.ratio(entry, EntryKind::Limit))));
        row.extend(more.iter().map(|what| value_of(entry, what)));
        rows.push(row);
    }
    (heading, rows)
}

fn value_of(entry: &BenchEntry, what: &str) -> String {
    let found = entry.more.iter().find(|(heading, _)| heading == what);
    found.map_or_else(String::new, |(_, value)| value.clone())
}

fn table(group: &BenchGroup) -> String {
    let (heading, rows) = cells(group);
    let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
    let mut table = Table::new(&heading);
    let mut missing = String::new();
    for row in rows {
        match &row[..] {
            [label, why] => missing.push_str(&format!("{label}: {why}\n")),
            _ => table.row(row),
        }
    }
    table.render() + &missing
}

/// All figures.
pub(super) fn as_json(report: &BenchReport) -> Json {
    let about = report
        .about
        .iter()
        .map(|(what, value)| (what.as_str(), Json::text(value)))
        .collect();
    let groups = report.groups.iter().map(group_as_json).collect();
    Json::object(vec![
        ("about", Json::object(about)),
        ("groups", Json::List(groups)),
    ])
}

fn group_as_json(group: &BenchGroup) -> Json {
    let (per, scale) = group.per.unit();
    let numbers = |values: Vec<f64>| Json::List(values.into_iter().map(Json::Number).collect());
    let entries = group.entries.iter().map(|entry| {
        let mut pairs = vec![("chain", Json::text(&entry.label))];
        if let Some(why) = &entry.missing {
            pairs.push(("not_measured", Json::text(why.why())));
            return Json::object(pairs);
        }
        let (low, high) = stats::range(&entry.values);
        pairs.extend([
            ("median", Json::Number(stats::median(&entry.values))),
            ("min", Json::Number(low)),
            ("max", Json::Number(high)),
            ("values", numbers(entry.values.clone())),
        ]);
        if let Some(cpu) = entry.cpu_median() {
            let of = |end: fn(&super::figures::Cpu) -> f64| {
                numbers(entry.cpu.iter().map(|cpu| end(cpu) * scale).collect())
            };
            pairs.extend([
                ("client_cpu", Json::Number(cpu.client * scale)),
                ("server_cpu", Json::Number(cpu.server * scale)),
                ("client_cpu_values", of(|cpu| cpu.client)),
                ("server_cpu_values", of(|cpu| cpu.server)),
            ]);
        }
        for (key, part) in [
            ("times_the_peer", EntryKind::Peer),
            ("times_the_limit", EntryKind::Limit),
        ] {
            if let Some(ratio) = group.ratio(entry, part) {
                pairs.push((key, Json::Number(ratio)));
            }
        }
        for (what, value) in &entry.more {
            pairs.push((what, Json::text(value)));
        }
        Json::object(pairs)
    });
    Json::object(vec![
        ("row", Json::text(group.row)),
        ("title", Json::text(&group.title)),
        ("unit", Json::text(group.unit.name())),
        ("cpu_unit", Json::text(per)),
        ("entries", Json::List(entries.collect())),
        (
            "notes",
            Json::List(group.notes.iter().map(Json::text).collect()),
        ),
    ])
}
