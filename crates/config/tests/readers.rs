//! Checks that every option that is carried out is read: an option that is parsed but never read
//! would restrict on paper only, as the `rdomain` of `ListenAddress` once did.
//!
//! Both tests read the sources. A keyword of class "carried out" must be named where values become
//! options or are used while a file is read; a field of the typed options must be read outside the
//! code that fills it.

use std::fs;
use std::path::{Path, PathBuf};

use config::client::CLIENT_TABLE;
use config::server::SERVER_TABLE;
use config::value::{Support, Table};

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The source files under `folder`, without those of tests.
fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, out);
        } else if name.ends_with(".rs") && !name.contains("test") {
            out.push(path);
        }
    }
}

/// The text of the files without their tests and without white space before a point.
fn text_of(paths: &[PathBuf]) -> String {
    let mut out = String::new();
    for path in paths {
        let text = fs::read_to_string(path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for line in code.lines().map(str::trim) {
            if line.starts_with("//") {
                continue;
            }
            if !line.starts_with('.') {
                out.push('\n');
            }
            out.push_str(line);
        }
    }
    out
}

/// The sources that could read the options of one side.
fn readers(rooms: &[&str]) -> String {
    let mut paths = Vec::new();
    for room in rooms {
        sources(&crates().join(room).join("src"), &mut paths);
    }
    text_of(&paths)
}

/// The field with its topic and the keyword of a row of a table: `topic.field: Type = Keyword [`.
fn row(line: &str) -> Option<(&str, &str)> {
    let (field, rest) = line.trim().split_once(": ")?;
    let (_, rest) = rest.split_once(" = ")?;
    let (keyword, _) = rest.split_once(" [")?;
    let is_name = |name: &str| {
        name.chars()
            .all(|c| c.is_ascii_alphanumeric() || "_.".contains(c))
    };
    (is_name(field) && is_name(keyword)).then_some((field, keyword))
}

/// The public fields of each struct of a file and of the rows of a table, as `(struct, field)`.
fn fields(file: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(crates().join(file)).unwrap();
    let mut out = Vec::new();
    let mut inside = None;
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("pub struct ") {
            inside = head.strip_suffix(" {").map(str::to_owned);
        } else if let Some((field, _)) = row(line) {
            let options = file.contains("client").then_some("ClientOptions");
            out.push((
                options.unwrap_or("ServerOptions").to_owned(),
                field.to_owned(),
            ));
        } else if line == "}" {
            inside = None;
        } else if let (Some(name), Some(field)) = (&inside, line.trim().strip_prefix("pub ")) {
            let field = field.split(':').next().unwrap();
            out.push((name.clone(), field.to_owned()));
        }
    }
    out
}

/// True if `text` reads the field that `start` ends with: it is not set there, and no method is
/// called.
fn reads(text: &str, start: &str) -> bool {
    text.match_indices(start).any(|(at, _)| {
        let after = &text[at + start.len()..];
        let goes_on = |c: char| c.is_alphanumeric() || c == '_' || c == '(';
        !after.starts_with(goes_on) && !after.starts_with(" = ")
    })
}

/// Fields of `files` that no file of `rooms` reads. A variable with the options of a topic always
/// has the topic's name, one with all options is called `options`.
fn unread(files: &[&str], rooms: &[&str]) -> Vec<String> {
    let text = readers(rooms);
    // The only fields that a method of the options reads, for both sides.
    let hardware = text_of(&[crates().join("config/src/hardware.rs")]);
    let mut out = Vec::new();
    let mut count = 0;
    for (name, field) in files.iter().flat_map(|file| fields(file)) {
        // Describes a connection to be matched: written outside, read by Match.
        if name == "ConnectionSpec" {
            continue;
        }
        count += 1;
        let is_read = match name.as_str() {
            "ClientOptions" | "ServerOptions" => match field.split_once('.').unwrap() {
                ("self", field) => reads(&text, &format!("options.{field}")),
                ("compression", part) if reads(&hardware, &format!("self.{part}")) => true,
                _ => reads(&text, &field),
            },
            _ => reads(&text, &format!(".{field}")),
        };
        if !is_read {
            out.push(format!("{name}.{field}"));
        }
    }
    assert!(count > 50, "only {count} fields were found in {files:?}");
    out
}

#[test]
fn each_field_of_the_options_is_read_outside_of_its_parser() {
    let client = unread(
        &[
            "config/src/client/table.rs",
            "config/src/client/options.rs",
            "config/src/client/types.rs",
            "config/src/types.rs",
        ],
        &["client", "copy", "keygen", "fulmar"],
    );
    assert_eq!(client, [] as [&str; 0], "nobody carries these out");
    let server = unread(
        &[
            "config/src/server/table.rs",
            "config/src/server/options.rs",
            "config/src/penalties.rs",
            "config/src/types.rs",
        ],
        &["monitor", "server"],
    );
    assert_eq!(server, [] as [&str; 0], "nobody carries these out");
}

#[test]
fn each_keyword_that_is_carried_out_becomes_an_option_or_is_used_while_reading() {
    for (table, folder) in [(CLIENT_TABLE, "client"), (SERVER_TABLE, "server")] {
        let mut paths = Vec::new();
        sources(&crates().join("config/src").join(folder), &mut paths);
        paths.retain(|path| !path.ends_with("table.rs"));
        let mut text = text_of(&paths);
        let table_file = crates().join("config/src").join(folder).join("table.rs");
        for line in fs::read_to_string(table_file).unwrap().lines() {
            if let Some((_, keyword)) = row(line) {
                text.push_str(&format!("\nRow::{keyword}"));
            }
        }
        assert_eq!(unused(table, &text), [] as [&str; 0], "{folder}");
    }
}

fn unused(table: Table, text: &str) -> Vec<&'static str> {
    let carried = table.iter().filter(|row| row.support == Support::Carried);
    let unused = carried.filter(|row| !reads(text, &format!("Row::{}", row.name)));
    unused.map(|row| row.name).collect()
}

#[test]
fn what_match_asks_of_a_connection_is_looked_up() {
    let text = readers(&["monitor"]);
    let asked = fields("config/src/server/options.rs");
    let asked = asked.iter().filter(|(name, _)| name == "ConnectionSpec");
    for (_, field) in asked {
        let set = format!("{field}: ");
        let in_spec = text.split("ConnectionSpec {").skip(1).any(|rest| {
            rest.split("};")
                .next()
                .is_some_and(|body| body.contains(&set))
        });
        assert!(
            in_spec,
            "nobody looks {field} up: a Match block that asks for it never applies"
        );
    }
}

#[test]
fn a_field_that_nobody_reads_is_found() {
    let text = "let x = options.port; call(options.host()); options.user_name; options.tag = 1;";
    assert!(reads(text, "options.port"));
    assert!(!reads(text, "options.host"));
    assert!(!reads(text, "options.user"));
    assert!(!reads(text, "options.tag"));
    assert!(!reads(text, "options.rdomain"));
}
