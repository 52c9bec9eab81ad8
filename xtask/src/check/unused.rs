//! Dependencies that no source names. The compiler's own lint cannot check a whole workspace: it
//! checks one target at a time, and a crate's library need not use the dependencies of its tests.

use std::path::Path;

use super::manifest;
use super::sources::rust_files;

/// True if the code names the crate: `name::…`, `use name;` or `use name as …`.
fn is_named(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code.get(..at).unwrap_or_default().chars().next_back();
        let after = code.get(at + name.len()..).unwrap_or_default();
        // `::name` is a crate, `crate::name` a module.
        let starts = match before {
            Some(':') => !code.get(..at).unwrap_or_default().ends_with("crate::"),
            Some(before) => !before.is_alphanumeric() && before != '_' && before != '.',
            None => true,
        };
        starts && (after.starts_with("::") || after.starts_with(';') || after.starts_with(" as "))
    })
}

/// The code of every source below a directory, without comments.
fn code_of(folder: &Path) -> Vec<String> {
    let mut files = Vec::new();
    rust_files(folder, &mut files);
    let texts = files
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok());
    let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    texts
        .flat_map(|text| text.lines().map(code).collect::<Vec<_>>())
        .collect()
}

/// One line for each dependency of a crate that its sources do not name, or that is listed twice.
fn unused(folder: &Path, shown: &str) -> Vec<String> {
    let Ok(text) = std::fs::read_to_string(folder.join("Cargo.toml")) else {
        return vec![format!("{shown}: no Cargo.toml")];
    };
    let own = code_of(&folder.join("src"));
    let all = code_of(folder);
    let uses = |code: &[String], name: &str| {
        let name = name.replace('-', "_");
        code.iter().any(|line| is_named(line, &name))
    };
    let dependencies = manifest::names(&text, "dependencies");
    let mut lines = Vec::new();
    for name in &dependencies {
        match (uses(&own, name), uses(&all, name)) {
            (true, _) => {}
            (false, true) => lines.push(format!(
                "{shown}: only tests use {name}; it belongs to [dev-dependencies]"
            )),
            (false, false) => lines.push(format!("{shown}: nothing uses {name}")),
        }
    }
    for name in manifest::names(&text, "dev-dependencies") {
        if dependencies.contains(&name) {
            if !manifest::is_for_features(&text, name) {
                lines.push(format!("{shown}: {name} is listed twice"));
            }
        } else if !uses(&all, name) {
            lines.push(format!("{shown}: nothing uses {name}"));
        }
    }
    lines
}

/// One line for each broken rule.
pub(super) fn broken(root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for shown in manifest::packages(root) {
        lines.extend(unused(&root.join(&shown), &shown));
    }
    lines.sort();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_named_by_its_paths_and_not_by_modules_or_fields_of_its_name() {
        for code in [
            "use keys::PublicKey;",
            "use keys;",
            "pub use ::keys as files;",
            "    let key = keys::load(path)?;",
            "fn f(key: &keys::PublicKey)",
        ] {
            assert!(is_named(code, "keys"), "{code}");
        }
        for code in [
            "use crate::keys::PublicKey;",
            "let keys = self.keys;",
            "use host_keys::All;",
            "for key in keys {",
        ] {
            assert!(!is_named(code, "keys"), "{code}");
        }
    }
}
