//! The pages of ssh_config and sshd_config.

use config::client::CLIENT_TABLE;
use config::server::SERVER_TABLE;
use config::value::{Keyword, Kind, Repeat, Scope, Support, Table};

/// The description of one keyword.
struct Words<'t> {
    name: &'t str,
    form: &'t str,
    text: &'t str,
}

fn words(file: &'static str) -> Result<Vec<Words<'static>>, String> {
    file.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let mut parts = line.splitn(3, '|').map(str::trim);
            match (parts.next(), parts.next(), parts.next()) {
                (Some(name), Some(form), Some(text)) if !text.is_empty() => {
                    Ok(Words { name, form, text })
                }
                _ => Err(format!("keywords: bad line: {line}")),
            }
        })
        .collect()
}

/// The parts of one page.
struct Page {
    title: &'static str,
    head: &'static str,
    keywords: &'static str,
    table: Table,
    examples: &'static str,
    /// True if the page notes which keywords are not permitted in a Match block.
    has_scopes: bool,
    see_also: &'static str,
}

pub(super) fn ssh_config() -> Result<String, String> {
    page(&Page {
        title: "FULMAR_SSH_CONFIG",
        head: include_str!("ssh_config.head"),
        keywords: include_str!("ssh_config.keywords"),
        examples: include_str!("ssh_config.examples"),
        table: CLIENT_TABLE,
        has_scopes: false,
        see_also: ".BR fulmar\\-ssh (1),\n.BR fulmar_sshd_config (5)\n",
    })
}

pub(super) fn sshd_config() -> Result<String, String> {
    page(&Page {
        title: "FULMAR_SSHD_CONFIG",
        head: include_str!("sshd_config.head"),
        keywords: include_str!("sshd_config.keywords"),
        examples: include_str!("sshd_config.examples"),
        table: SERVER_TABLE,
        has_scopes: true,
        see_also: ".BR fulmar\\-sshd (8),\n.BR fulmar_ssh_config (5)\n",
    })
}

fn page(page: &Page) -> Result<String, String> {
    let words = words(page.keywords)?;
    let mut out = format!(
        ".\\\" Made by `cargo xtask man` from crates/config and xtask/pages/src; change those.\n\
         .TH {} 5 \"\" \"Fulmar {}\" \"File formats\"\n{}",
        page.title,
        env!("CARGO_PKG_VERSION"),
        page.head
    );
    let mut rows: Vec<Keyword> = page.table.iter().filter(is_described).collect();
    rows.sort_by_key(|row| row.name.to_ascii_lowercase());
    for row in rows {
        let words = words
            .iter()
            .find(|words| words.name == row.name)
            .ok_or_else(|| format!("no description of {}", row.name))?;
        entry(&mut out, &row, words, page.has_scopes);
    }
    for words in &words {
        let known = page.table.iter().filter(is_described);
        if !known.map(|row| row.name).any(|name| name == words.name) {
            return Err(format!(
                "description of {}, which is not a keyword",
                words.name
            ));
        }
    }
    left_out(&mut out, page.table);
    out.push_str(".SH EXAMPLES\n");
    out.push_str(page.examples);
    out.push_str(".SH SEE ALSO\n");
    out.push_str(page.see_also);
    Ok(out)
}

/// True for keywords with an entry of their own. The page's head describes Host, Match and Include;
/// a list at its end names the keywords without effect.
fn is_described(row: &Keyword) -> bool {
    !matches!(row.kind, Kind::Structure)
        && !matches!(
            row.support,
            Support::Deprecated | Support::Unsupported | Support::Ignored
        )
}

fn entry(out: &mut String, row: &Keyword, words: &Words<'_>, has_scopes: bool) {
    let form = match words.form {
        "" => form(&row.kind),
        form => form.to_owned(),
    };
    out.push_str(&format!(
        ".TP\n.BI {} \" {}\"\n{}\n",
        roff(row.name),
        roff(&form),
        roff(words.text)
    ));
    let mut notes = Vec::new();
    if !row.default.is_empty() {
        notes.push(format!("Default: {}.", shown(row, row.default)));
    }
    if row.repeat == Repeat::Add {
        notes.push("May be given more than once; all are used.".to_owned());
    }
    if has_scopes && row.scope == Scope::Global {
        notes.push("Not in a Match block.".to_owned());
    }
    if !row.aliases.is_empty() {
        notes.push(format!("Also {}.", row.aliases.join(", ")));
    }
    for note in notes {
        out.push_str(&roff(&note));
        out.push('\n');
    }
    if let Some(note) = support(row) {
        out.push_str(&format!(".br\n.I {}\n", roff(&note)));
    }
}

/// A value as users write it; the table holds the values that `-G` and `-T` print.
fn shown(row: &Keyword, canonical: &str) -> String {
    match row.kind {
        Kind::Choice(pairs) => pairs
            .iter()
            .find(|(_, choice)| choice.word == canonical)
            .map_or(canonical, |(written, _)| *written)
            .to_owned(),
        _ => canonical.to_owned(),
    }
}

fn listed(row: &Keyword, values: &[&str]) -> String {
    let shown: Vec<String> = values
        .iter()
        .map(|value| match *value {
            // Most keywords store yes and no; the others store true and false.
            "true" => "yes".to_owned(),
            "false" => "no".to_owned(),
            value => shown(row, value),
        })
        .collect();
    shown.join(" or ")
}

fn support(row: &Keyword) -> Option<String> {
    match row.support {
        Support::Fulfilled => Some(
            "Has no effect: it restricts or details something that Fulmar does not have."
                .to_owned(),
        ),
        Support::Enabling([]) => Some("Not supported: ignored with a warning.".to_owned()),
        Support::Enabling(values) => Some(format!(
            "Not supported: any value except {} is ignored with a warning.",
            listed(row, values)
        )),
        Support::Partly(values, words) => Some(format!(
            "Supported in part: any value except {} causes a warning; it {words}.",
            listed(row, values)
        )),
        Support::Restricting(values) => Some(format!(
            "Not supported: any value except {} is an error.",
            listed(row, values)
        )),
        _ => None,
    }
}

fn form(kind: &Kind) -> String {
    match kind {
        Kind::Flag | Kind::YesNo => "yes or no".to_owned(),
        Kind::Choice(pairs) => {
            let mut words: Vec<&str> = Vec::new();
            let mut seen: Vec<&str> = Vec::new();
            for (word, choice) in *pairs {
                // The first spelling of each value; true and false are left out.
                if matches!(*word, "true" | "false") || seen.contains(&choice.word) {
                    continue;
                }
                seen.push(choice.word);
                words.push(word);
            }
            match words.split_last() {
                Some((last, [])) => (*last).to_owned(),
                Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
                None => String::new(),
            }
        }
        Kind::Integer { min, max } if *max >= i64::from(i32::MAX) => {
            format!("number from {min}")
        }
        Kind::Integer { min, max } => format!("number from {min} to {max}"),
        Kind::Mode => "octal mode".to_owned(),
        Kind::Port => "port".to_owned(),
        Kind::Seconds { none } => {
            let none = if *none { ", or none" } else { "" };
            format!("time: 30, 90s, 10m, 2h, 1d, 1w{none}")
        }
        Kind::Text => "word".to_owned(),
        Kind::Path => "file".to_owned(),
        Kind::Paths => "one or more files".to_owned(),
        Kind::Words => "one or more words".to_owned(),
        Kind::Rest => "rest of the line".to_owned(),
        Kind::Algorithms(_) => "list of algorithms".to_owned(),
        // The `.keywords` files have the form of these; a test checks this.
        Kind::Parsed(_) | Kind::Structure => "words".to_owned(),
    }
}

/// Lists the keywords that are accepted without effect.
fn left_out(out: &mut String, table: Table) {
    let lists = [
        (
            Support::Unsupported,
            "Keywords of OpenSSH's optional features; ignored, and listed with \\-v",
        ),
        (
            Support::Deprecated,
            "Obsolete keywords; ignored, and listed with \\-v",
        ),
        (Support::Ignored, "Ignored without a message"),
    ];
    out.push_str(".SS Ignored keywords\n");
    for (support, title) in lists {
        let mut names: Vec<&str> = table
            .iter()
            .filter(|row| row.support == support)
            .flat_map(|row| std::iter::once(row.name).chain(row.aliases.iter().copied()))
            .collect();
        names.sort_unstable();
        out.push_str(&format!(".TP\n{title}\n{}.\n", roff(&names.join(", "))));
    }
}

/// Escapes text for troff: special characters, and a first character that would start a request.
fn roff(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('^', "\\(ha")
        .replace('~', "\\(ti");
    match escaped.starts_with(['.', '\'']) {
        true => format!("\\&{escaped}"),
        false => escaped,
    }
}

/// Names the keywords with a parser of their own whose form is not in the `.keywords` files.
#[cfg(test)]
pub(super) fn without_form() -> Vec<&'static str> {
    let files = [
        (CLIENT_TABLE, include_str!("ssh_config.keywords")),
        (SERVER_TABLE, include_str!("sshd_config.keywords")),
    ];
    let mut missing = Vec::new();
    for (table, file) in files {
        let words = words(file).unwrap_or_default();
        for row in table.iter().filter(is_described) {
            let said = words
                .iter()
                .any(|words| words.name == row.name && !words.form.is_empty());
            let is_list = row.name == "PubkeyAcceptedAlgorithms";
            if matches!(row.kind, Kind::Parsed(_)) && !said && !is_list {
                missing.push(row.name);
            }
        }
    }
    missing
}
