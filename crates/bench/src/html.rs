//! The report as one page: a summary, then a chart and a table of each group. It follows the
//! reader's light or dark mode, fits any window width, loads nothing and runs no script.

use std::fmt::Write;

use super::figures::{BenchEntry, BenchGroup, BenchReport, EntryKind, Unit};
use super::report::{cells, digits, peer_name};
use super::stats;
use crate::table::Table;

const STYLE: &str = "\
:root{color-scheme:light dark;--back:#fff;--text:#1c2024;--soft:#5b646d;--line:#d8dee4;--track:#f0f2f4;\
--ours:#0b6bcb;--mixed:#6aa9e9;--peer:#b0682f;--limit:#8b949e}\
@media(prefers-color-scheme:dark){:root{--back:#15181c;--text:#e4e8ec;--soft:#9aa4ae;--line:#30363d;\
--track:#20252b;--ours:#58a6ff;--mixed:#2f6cb0;--peer:#d4915c;--limit:#6b747d}}\
body{margin:0 auto;max-width:78rem;padding:1rem 1.2rem 4rem;background:var(--back);color:var(--text);\
font:16px/1.5 system-ui,sans-serif;overflow-wrap:break-word}\
h1{font-size:1.6rem}h2{font-size:1.25rem;margin-top:2.5rem;border-bottom:1px solid var(--line)}\
h3{font-size:1rem;margin:1.8rem 0 0}a{color:inherit;text-decoration-color:var(--soft)}\
dl{display:grid;grid-template-columns:minmax(5rem,max-content) 1fr;gap:.1rem 1rem;font-size:.85rem}\
dt{color:var(--soft)}dd{margin:0;min-width:0}\
ul.sum{list-style:none;padding:0}ul.sum li{display:grid;grid-template-columns:5.5rem 1fr;gap:0 1rem;\
align-items:baseline;padding:.35rem 0;border-bottom:1px solid var(--line)}\
.times{font-size:1.5rem;font-weight:600;text-align:right;color:var(--ours);font-variant-numeric:tabular-nums}\
.times.less{color:var(--peer)}.what{display:block;color:var(--soft);font-size:.85rem}.verdict{margin:.1rem 0 .6rem;color:var(--soft)}\
.verdict b{color:var(--text)}\
.bar{display:grid;grid-template-columns:19rem 1fr 11rem;gap:0 .7rem;align-items:center;font-size:.85rem;\
margin:.35rem 0}.bar .name{text-align:right}.track{position:relative;height:1rem;background:var(--track);\
border-radius:2px}.track i{position:absolute;inset:0 auto 0 0;border-radius:2px}\
.track u{position:absolute;top:.45rem;height:.1rem;min-width:1px;background:var(--text)}\
.track b{position:absolute;top:-.2rem;bottom:-.2rem;width:2px;background:var(--text)}\
.ours{background:var(--ours)}.mixed{background:var(--mixed)}.peer{background:var(--peer)}\
.limit{background:var(--limit)}.value{white-space:nowrap;font-variant-numeric:tabular-nums}\
.key{font-size:.85rem;color:var(--soft)}.key span{display:inline-block;margin-right:.9rem}.key i{display:inline-block;width:.8rem;height:.8rem;\
border-radius:2px;margin-right:.35rem;vertical-align:-.05rem}\
@media(max-width:45rem){dl{grid-template-columns:1fr}dd{margin:0 0 .4rem}\
.bar{grid-template-columns:1fr 9.5rem;margin:.6rem 0}\
.bar .name{grid-column:1/3;text-align:left}ul.sum li{grid-template-columns:4.2rem 1fr}\
.times{font-size:1.2rem}}\
.wide{overflow-x:auto;margin:.8rem 0}table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}\
th,td{padding:.2rem .7rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}\
th:first-child,td:first-child{text-align:left}th{color:var(--soft);font-weight:500}\
td.missing{text-align:left;white-space:normal;color:var(--soft)}th:first-child,td:first-child{padding-left:0}p.note{color:var(--soft);font-size:.85rem;margin:.3rem 0}";

/// The whole page.
pub(super) fn page(report: &BenchReport) -> String {
    let mut page = begun("fulmar bench");
    summary(&mut page, report);
    page.push_str(
        "<p class=\"key\"><span><i class=\"ours\"></i>Fulmar at both ends</span>\
         <span><i class=\"mixed\"></i>Fulmar at one end</span><span><i class=\"peer\"></i>another program</span>\
         <span><i class=\"limit\"></i>without SSH</span></p>\n\
         <p class=\"note\">Bars are medians; lines reach from the lowest to the highest round. The entries of \
         a chart were measured by turns.</p>\n",
    );
    let about = report.about.iter();
    facts(
        &mut page,
        about.map(|(what, value)| (what.as_str(), value.as_str())),
    );
    let mut row = "";
    for (number, group) in report.groups.iter().enumerate() {
        if group.row != row {
            row = group.row;
            push(&mut page, format_args!("<h2>{}</h2>\n", escaped(row)));
        }
        push(
            &mut page,
            format_args!("<h3 id=\"g{number}\">{}</h3>\n", escaped(&group.title)),
        );
        chart(&mut page, group);
        table(&mut page, group);
        for note in &group.notes {
            push(
                &mut page,
                format_args!("<p class=\"note\">{}</p>\n", escaped(note)),
            );
        }
    }
    page.push_str("</html>\n");
    page
}

/// The head of a page and its title.
fn begun(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n<h1>{title}</h1>\n"
    )
}

/// Facts about the measurement, each with its name.
fn facts<'f>(page: &mut String, facts: impl IntoIterator<Item = (&'f str, &'f str)>) {
    page.push_str("<dl>\n");
    for (what, value) in facts {
        let (what, value) = (escaped(what), escaped(value));
        push(page, format_args!("<dt>{what}</dt><dd>{value}</dd>\n"));
    }
    page.push_str("</dl>\n");
}

/// One bar of a part of `fulmar speed`.
pub(super) struct SpeedBar {
    pub(super) label: String,
    /// In the part's own unit; bars of a part are compared.
    pub(super) value: f64,
    pub(super) shown: String,
    /// The figure of this machine's connections, not one beside it.
    pub(super) is_ours: bool,
}

/// A part of `fulmar speed`.
pub(super) struct SpeedPart {
    pub(super) title: &'static str,
    /// What the bars mean, in one or two sentences.
    pub(super) reading: String,
    pub(super) bars: Vec<SpeedBar>,
    /// The value at which the chart has a line, if it compares with something that has no bar.
    pub(super) line_at: Option<f64>,
    pub(super) table: Table,
    pub(super) note: String,
}

/// The page of `fulmar speed`: a chart and a table of each part.
pub(super) fn speed_page(about: &[(&str, String)], parts: &[SpeedPart]) -> String {
    let mut page = begun("fulmar speed");
    page.push_str(
        "<p class=\"key\"><span><i class=\"ours\"></i>in use on this machine</span>\
         <span><i class=\"peer\"></i>not in use</span></p>\n",
    );
    facts(
        &mut page,
        about.iter().map(|(what, value)| (*what, value.as_str())),
    );
    for part in parts {
        push(
            &mut page,
            format_args!("<h2>{}</h2>\n", escaped(part.title)),
        );
        let values = part.bars.iter().map(|bar| bar.value);
        let most = values.chain(part.line_at).fold(0.0, f64::max);
        let line = part.line_at.map_or_else(String::new, |value| {
            format!("<b style=\"left:{:.1}%\"></b>", value / most * 100.0)
        });
        if !part.bars.is_empty() {
            push(
                &mut page,
                format_args!("<p class=\"verdict\">{}</p>\n", escaped(&part.reading)),
            );
        }
        // The table has the same figures.
        page.push_str("<div aria-hidden=\"true\">\n");
        for bar in part.bars.iter().filter(|bar| bar.value > 0.0) {
            push(
                &mut page,
                format_args!(
                    "<div class=\"bar\"><span class=\"name\">{}</span><span class=\"track\">\
                     <i class=\"{}\" style=\"width:{:.1}%\"></i>{line}</span>\
                     <span class=\"value\">{}</span></div>\n",
                    escaped(&bar.label),
                    if bar.is_ours { "ours" } else { "peer" },
                    bar.value / most * 100.0,
                    escaped(&bar.shown),
                ),
            );
        }
        page.push_str("</div>\n");
        let (heading, rows) = part.table.parts();
        rows_of(&mut page, heading, rows);
        for line in part.note.lines() {
            push(
                &mut page,
                format_args!("<p class=\"note\">{}</p>\n", escaped(line)),
            );
        }
    }
    page.push_str("</html>\n");
    page
}

/// Writing to a string cannot fail.
fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = page.write_fmt(text);
}

/// Escapes foreign text for an element or a quoted attribute.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in escape::one_line(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

fn class(part: EntryKind) -> &'static str {
    match part {
        EntryKind::Ours => "ours",
        EntryKind::Mixed => "mixed",
        EntryKind::Peer => "peer",
        EntryKind::Limit => "limit",
    }
}

/// The entry's figure as a multiple of the first peer's: of its speed, memory or round trips.
fn times(group: &BenchGroup, entry: &BenchEntry) -> Option<f64> {
    let better = group
        .ratio(entry, EntryKind::Peer)
        .filter(|ratio| *ratio > 0.0)?;
    Some(match group.unit {
        Unit::Kib | Unit::RoundTrips => 1.0 / better,
        Unit::MibPerSecond
        | Unit::PerSecond
        | Unit::Milliseconds
        | Unit::Microseconds
        | Unit::Seconds => better,
    })
}

/// How the group's first entry of ours compares with its first peer.
struct Comparison<'g> {
    ours: &'g BenchEntry,
    peer: &'g BenchEntry,
    /// A number followed by a multiplication sign.
    times: String,
    /// The words after `times`: `as fast as OpenSSH`.
    words: String,
    /// True if the peer's figure is better.
    is_less: bool,
}

fn comparison(group: &BenchGroup) -> Option<Comparison<'_>> {
    let first = |part| {
        let mut entries = group.entries.iter();
        entries.find(|entry| entry.part == part && entry.median().is_some())
    };
    let (ours, peer) = (first(EntryKind::Ours)?, first(EntryKind::Peer)?);
    let name = peer_name(group)?;
    let words = match group.unit {
        Unit::Kib => format!("the memory of {name}"),
        Unit::RoundTrips => format!("the round trips of {name}"),
        _ => format!("as fast as {name}"),
    };
    Some(Comparison {
        ours,
        peer,
        times: format!("{}×", digits(times(group, ours)?)),
        words,
        is_less: group.ratio(ours, EntryKind::Peer)? < 1.0,
    })
}

/// A line for each group that has entries of Fulmar and of a peer.
fn summary(page: &mut String, report: &BenchReport) {
    let groups = report.groups.iter().enumerate();
    let lines: Vec<_> = groups
        .filter_map(|(number, group)| Some((number, group, comparison(group)?)))
        .collect();
    if lines.is_empty() {
        return;
    }
    page.push_str("<ul class=\"sum\">\n");
    for (number, group, comparison) in lines {
        let unit = group.unit.name();
        let of = |entry: &BenchEntry| {
            let median = entry.median().unwrap_or(f64::NAN);
            format!("{} {} {unit}", escaped(&entry.label), digits(median))
        };
        push(
            page,
            format_args!(
                "<li><span class=\"times{}\">{}</span><span>{} <a href=\"#g{number}\">in {}: {}</a>\
                 <span class=\"what\">{} against {}</span></span></li>\n",
                if comparison.is_less { " less" } else { "" },
                comparison.times,
                escaped(&comparison.words),
                escaped(group.row),
                escaped(&group.title),
                of(comparison.ours),
                of(comparison.peer),
            ),
        );
    }
    page.push_str("</ul>\n");
}

/// The bars of the measured entries; nothing if there are none.
fn chart(page: &mut String, group: &BenchGroup) {
    let measured: Vec<&BenchEntry> = group
        .entries
        .iter()
        .filter(|entry| entry.missing.is_none() && entry.median().is_some())
        .collect();
    let most = measured
        .iter()
        .map(|entry| stats::range(&entry.values).1)
        .fold(0.0, f64::max);
    if most <= 0.0 {
        return;
    }
    page.push_str("<p class=\"verdict\">");
    if let Some(Comparison {
        ours, times, words, ..
    }) = comparison(group)
    {
        let (ours, words) = (escaped(&ours.label), escaped(&words));
        push(page, format_args!("{ours}: <b>{times}</b> {words}. "));
    }
    page.push_str(if group.unit.more_is_better() {
        "Longer is better.</p>\n"
    } else {
        "Shorter is better.</p>\n"
    });
    // The table has the same figures.
    page.push_str("<div aria-hidden=\"true\">\n");
    for entry in measured {
        bar(page, group, entry, most);
    }
    page.push_str("</div>\n");
}

fn bar(page: &mut String, group: &BenchGroup, entry: &BenchEntry, most: f64) {
    let median = entry.median().unwrap_or(0.0);
    let (low, high) = stats::range(&entry.values);
    let percent = |value: f64| value / most * 100.0;
    let ratio = match entry.part {
        EntryKind::Peer | EntryKind::Limit => None,
        EntryKind::Ours | EntryKind::Mixed => times(group, entry),
    };
    let ratio = ratio.map_or_else(String::new, |ratio| format!(" · {}×", digits(ratio)));
    push(
        page,
        format_args!(
            "<div class=\"bar\"><span class=\"name\">{}</span><span class=\"track\">\
             <i class=\"{}\" style=\"width:{:.1}%\"></i><u style=\"left:{:.1}%;width:{:.1}%\"></u></span>\
             <span class=\"value\">{} {}{ratio}</span></div>\n",
            escaped(&entry.label),
            class(entry.part),
            percent(median),
            percent(low),
            percent(high - low),
            digits(median),
            group.unit.name(),
        ),
    );
}

fn table(page: &mut String, group: &BenchGroup) {
    let (heading, rows) = cells(group);
    rows_of(page, &heading, &rows);
}

/// A table; a row of two cells has the reason why there are no figures.
fn rows_of(page: &mut String, heading: &[String], rows: &[Vec<String>]) {
    page.push_str("<div class=\"wide\"><table>\n<tr>");
    for cell in heading {
        push(page, format_args!("<th>{}</th>", escaped(cell)));
    }
    page.push_str("</tr>\n");
    for row in rows {
        page.push_str("<tr>");
        match &row[..] {
            [label, why] if heading.len() > 2 => push(
                page,
                format_args!(
                    "<td>{}</td><td class=\"missing\" colspan=\"{}\">{}</td>",
                    escaped(label),
                    heading.len().saturating_sub(1),
                    escaped(why)
                ),
            ),
            cells => {
                for cell in cells {
                    push(page, format_args!("<td>{}</td>", escaped(cell)));
                }
            }
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Per;

    fn report() -> BenchReport {
        let entry = |label: &str, part, values: &[f64]| BenchEntry {
            values: values.to_vec(),
            ..BenchEntry::new(label, part)
        };
        let mut missing = entry("gone <b>", EntryKind::Mixed, &[]);
        missing.missing = Some("no \"such\" & such".into());
        let group = |row, unit, title: &str, entries| BenchGroup {
            row,
            title: title.into(),
            unit,
            per: Per::Gib,
            entries,
            notes: vec!["head | ssh host 'cat >/dev/null'".into()],
        };
        BenchReport {
            about: vec![("CPU".into(), "a & b\u{1b}\u{202e}".into())],
            groups: vec![
                group(
                    "throughput",
                    Unit::MibPerSecond,
                    "pipes, <up>",
                    vec![
                        entry("Fulmar → Fulmar", EntryKind::Ours, &[100.0, 200.0, 300.0]),
                        entry("OpenSSH' → OpenSSH'", EntryKind::Peer, &[100.0]),
                        missing,
                    ],
                ),
                group(
                    "idle",
                    Unit::Kib,
                    "sessions",
                    vec![
                        entry("Fulmar", EntryKind::Ours, &[50.0]),
                        entry("OpenSSH", EntryKind::Peer, &[200.0]),
                    ],
                ),
            ],
        }
    }

    #[test]
    fn a_page_needs_nothing_else_and_escapes_what_it_shows() {
        let page = page(&report());
        for foreign in [
            "http", "<script", "src=", "url(", "@import", "<b>no", "gone <b>", "<up>", "\u{1b}",
            "\u{202e}",
        ] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert!(page.contains("gone &lt;b&gt;"));
        assert!(page.contains("no &quot;such&quot; &amp; such"));
        assert!(page.contains(r"a &amp; b\033\342\200\256"));
        assert!(page.contains("as fast as OpenSSH&#39;"));
    }

    #[test]
    fn the_page_begins_with_how_many_times_as_fast_each_group_is() {
        let page = page(&report());
        let (head, _) = page.split_once("<dl>").unwrap();
        for part in [
            "<span class=\"times\">2.00×</span><span>as fast as OpenSSH&#39; <a href=\"#g0\">in throughput: pipes, &lt;up&gt;</a>",
            "Fulmar → Fulmar 200 MiB/s against OpenSSH&#39; → OpenSSH&#39; 100 MiB/s",
            "<span class=\"times\">0.25×</span><span>the memory of OpenSSH <a href=\"#g1\">",
        ] {
            assert!(head.contains(part), "{part}: {head}");
        }
        assert!(page.contains("id=\"g0\"") && page.contains("id=\"g1\""));
        assert!(page.contains("Shorter is better") && page.contains("Longer is better"));
    }

    #[test]
    fn bars_are_as_long_as_their_medians() {
        let page = page(&report());
        for bar in [
            "class=\"ours\" style=\"width:66.7%\"></i><u style=\"left:33.3%;width:66.7%\">",
            "class=\"peer\" style=\"width:33.3%\"",
        ] {
            assert!(page.contains(bar), "{bar}: {page}");
        }
        assert_eq!(page.matches("class=\"bar\"").count(), 4);
    }
}
