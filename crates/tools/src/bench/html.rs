//! The report as one page: tables and bar charts, in the colours of the reader's system. It loads
//! nothing and runs nothing.

use std::fmt::Write;

use super::figures::{Entry, Group, Part, Report};
use super::report::{cells, digits};
use super::stats;

/// Width of a chart, of its labels, and of the room for figures behind the bars; height of a bar
/// with the gap below it. All in the SVG's own units.
const WIDTH: f64 = 880.0;
const LABELS: f64 = 330.0;
const FIGURES: f64 = 90.0;
const STEP: f64 = 26.0;
const BAR: f64 = 16.0;

const STYLE: &str = "\
:root{color-scheme:light dark;--back:#fff;--text:#1c2024;--soft:#626b74;--line:#d8dee4;--ours:#0b6bcb;\
--mixed:#6aa9e9;--peer:#b0682f;--limit:#9aa3ab}\
@media(prefers-color-scheme:dark){:root{--back:#15181c;--text:#e4e8ec;--soft:#9aa4ae;--line:#30363d;\
--ours:#58a6ff;--mixed:#2f6cb0;--peer:#d4915c;--limit:#6b747d}}\
body{margin:0 auto;max-width:60rem;padding:1rem 1.2rem 4rem;background:var(--back);color:var(--text);\
font:16px/1.5 system-ui,sans-serif}\
h1{font-size:1.6rem}h2{font-size:1.25rem;margin-top:2.5rem;border-bottom:1px solid var(--line)}\
h3{font-size:1rem;margin:1.8rem 0 .4rem}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem}dt{color:var(--soft)}dd{margin:0}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}\
th,td{padding:.2rem .7rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}\
th:first-child,td:first-child{text-align:left}th{color:var(--soft);font-weight:500}\
td.missing{text-align:left;white-space:normal;color:var(--soft)}p.note{color:var(--soft);font-size:.85rem}\
svg{width:100%;height:auto;max-width:50rem}svg text{fill:var(--text);font:12px system-ui,sans-serif}\
.ours{fill:var(--ours)}.mixed{fill:var(--mixed)}.peer{fill:var(--peer)}.limit{fill:var(--limit)}\
.range{stroke:var(--text);stroke-width:1.2}";

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let mut page = String::from(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>fulmar bench</title>\n",
    );
    push(
        &mut page,
        format_args!("<style>{STYLE}</style>\n<h1>fulmar bench</h1>\n<dl>\n"),
    );
    for (what, value) in &report.about {
        let (what, value) = (escaped(what), escaped(value));
        push(&mut page, format_args!("<dt>{what}</dt><dd>{value}</dd>\n"));
    }
    page.push_str("</dl>\n");
    page.push_str(
        "<p class=\"note\">Bars are medians, lines the lowest and highest of the rounds, in which \
         all of a chart took turns.</p>\n",
    );
    let mut row = "";
    for group in &report.groups {
        if group.row != row {
            row = group.row;
            push(&mut page, format_args!("<h2>{}</h2>\n", escaped(row)));
        }
        push(
            &mut page,
            format_args!("<h3>{}</h3>\n", escaped(&group.title)),
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

/// Writing to a string cannot fail.
fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = page.write_fmt(text);
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

fn class(part: Part) -> &'static str {
    match part {
        Part::Ours => "ours",
        Part::Mixed => "mixed",
        Part::Peer => "peer",
        Part::Limit => "limit",
    }
}

/// Bars of what was measured; nothing when that is nothing.
fn chart(page: &mut String, group: &Group) {
    let measured: Vec<&Entry> = group
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
    #[allow(clippy::cast_precision_loss)]
    let height = STEP * measured.len() as f64;
    let title = escaped(&format!("{}: {}", group.row, group.title));
    push(
        page,
        format_args!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\n"
        ),
    );
    let scale = (WIDTH - LABELS - FIGURES) / most;
    let mut top = 0.0;
    for entry in measured {
        bar(page, group, entry, scale, top);
        top += STEP;
    }
    page.push_str("</svg>\n");
}

fn bar(page: &mut String, group: &Group, entry: &Entry, scale: f64, top: f64) {
    let median = entry.median().unwrap_or(0.0);
    let (low, high) = stats::range(&entry.values);
    let at = |value: f64| LABELS + value * scale;
    let middle = top + BAR / 2.0;
    let text = middle + 4.0;
    push(
        page,
        format_args!(
            "<text x=\"{:.1}\" y=\"{text:.1}\" text-anchor=\"end\">{}</text>\
             <rect class=\"{}\" x=\"{LABELS}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2\"/>\
             <path class=\"range\" d=\"M{:.1} {middle:.1}H{:.1}\"/>\
             <text x=\"{:.1}\" y=\"{text:.1}\">{} {}</text>\n",
            LABELS - 8.0,
            escaped(&entry.label),
            class(entry.part),
            median * scale,
            at(low),
            at(high),
            at(high) + 6.0,
            digits(median),
            group.unit.name(),
        ),
    );
}

fn table(page: &mut String, group: &Group) {
    let (heading, rows) = cells(group);
    page.push_str("<div class=\"wide\"><table>\n<tr>");
    for cell in &heading {
        push(page, format_args!("<th>{}</th>", escaped(cell)));
    }
    page.push_str("</tr>\n");
    for row in rows {
        page.push_str("<tr>");
        match &row[..] {
            [label, why] => push(
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
    use crate::bench::figures::{Per, Unit};

    fn report() -> Report {
        let entry = |label: &str, part, values: &[f64]| Entry {
            values: values.to_vec(),
            ..Entry::new(label, part)
        };
        let mut missing = entry("gone <b>", Part::Mixed, &[]);
        missing.missing = Some("no \"such\" & such".into());
        Report {
            about: vec![("CPU".into(), "a & b".into())],
            groups: vec![Group {
                row: "throughput",
                title: "pipes, <up>".into(),
                unit: Unit::MibPerSecond,
                per: Per::Gib,
                entries: vec![
                    entry("Fulmar → Fulmar", Part::Ours, &[100.0, 200.0, 300.0]),
                    entry("peer → peer", Part::Peer, &[100.0]),
                    missing,
                ],
                notes: vec!["head | ssh host 'cat >/dev/null'".into()],
            }],
        }
    }

    #[test]
    fn a_page_needs_nothing_else_and_escapes_what_it_shows() {
        let page = page(&report());
        for foreign in ["http", "<script", "src=", "url(", "@import", "<b>", "<up>"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert!(page.contains("gone &lt;b&gt;"));
        assert!(page.contains("no &quot;such&quot; &amp; such"));
        assert!(page.contains("a &amp; b"));
    }

    #[test]
    fn bars_are_as_long_as_their_medians() {
        let page = page(&report());
        let full = WIDTH - LABELS - FIGURES;
        let ours = format!(
            "class=\"ours\" x=\"330\" y=\"0.0\" width=\"{:.1}\"",
            full * 2.0 / 3.0
        );
        let peer = format!(
            "class=\"peer\" x=\"330\" y=\"26.0\" width=\"{:.1}\"",
            full / 3.0
        );
        assert!(page.contains(&ours) && page.contains(&peer), "{page}");
        assert_eq!(page.matches("<rect").count(), 2);
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    }
}
