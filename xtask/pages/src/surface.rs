//! `cargo xtask surface`: the keywords of OpenSSH's manual pages, and how far the tables of
//! `crates/config` support each.

use std::path::Path;
use std::process::Command;

use config::client::CLIENT_TABLE;
use config::server::SERVER_TABLE;
use config::value::{Table, find, manual_rows};

/// Where the manual pages of a system are.
pub(super) const PAGES: &str = "/usr/share/man/man5";

/// The coverage of both files by the pages in `folder`.
///
/// # Errors
/// The text for the user if a page is missing.
pub(super) fn surface(folder: &Path) -> Result<String, String> {
    let mut out = String::new();
    for (page, table) in [
        ("ssh_config.5", CLIENT_TABLE),
        ("sshd_config.5", SERVER_TABLE),
    ] {
        out.push_str(&coverage(page, &keywords(&text(folder, page)?), table));
    }
    Ok(out)
}

/// A page, compressed or not.
fn text(folder: &Path, page: &str) -> Result<String, String> {
    let plain = folder.join(page);
    let packed = folder.join(format!("{page}.gz"));
    let path = if plain.exists() { plain } else { packed };
    let failed = |error: String| format!("{}: {error}", path.display());
    let output = Command::new("gzip").arg("-dcf").arg(&path).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    String::from_utf8(output.stdout).map_err(|error| failed(error.to_string()))
}

/// The keywords of a page: its items that start with a capital letter. Others are values.
fn keywords(page: &str) -> Vec<&str> {
    let items = page.lines().filter_map(|line| line.strip_prefix(".It Cm "));
    let mut names: Vec<&str> = items
        .filter_map(|item| item.split(' ').next())
        .filter(|name| name.starts_with(|first: char| first.is_ascii_uppercase()))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// How many keywords of each support there are, and the names of those that are not carried out.
fn coverage(page: &str, names: &[&str], table: Table) -> String {
    let rows = manual_rows(table);
    let support = |name: &str| match find(table, name).and_then(|row| rows.get(row)) {
        Some([_, _, support]) => support.as_str(),
        None => "not known",
    };
    let mut kinds: Vec<&str> = vec!["carried out"];
    for name in names {
        if !kinds.contains(&support(name)) {
            kinds.push(support(name));
        }
    }
    let mut out = format!("{page}: {} keywords\n", names.len());
    for kind in kinds {
        let of_kind: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| support(name) == kind)
            .collect();
        let listed = match kind {
            "carried out" => String::new(),
            _ => format!(": {}", of_kind.join(" ")),
        };
        out.push_str(&format!("{:4} {kind}{listed}\n", of_kind.len()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_with_a_capital_letter_are_counted_by_their_support() {
        let page = ".It Cm MaxStartups\ntext\n.It Cm all\n.It Cm SshdAuthPath\n.It Cm Frob Ar x\n\
            .It Cm MaxStartups\n.It Cm PubkeyAcceptedKeyTypes\n";
        let names = keywords(page);
        assert_eq!(
            names,
            [
                "Frob",
                "MaxStartups",
                "PubkeyAcceptedKeyTypes",
                "SshdAuthPath"
            ]
        );
        assert_eq!(
            coverage("page", &names, SERVER_TABLE),
            "page: 4 keywords\n   2 carried out\n   1 not known: Frob\n   \
             1 nothing to do: SshdAuthPath\n"
        );
    }
}
