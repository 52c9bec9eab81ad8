//! The workspace's packages, and the names in their Cargo.toml, in the forms that this workspace uses.

use std::path::Path;

/// Directories that are packages or contain packages.
const PLACES: &[&str] = &["benches", "crates", "tests", "xtask"];

/// The directories of all packages, as paths from the workspace's root, in order.
pub(crate) fn packages(root: &Path) -> Vec<String> {
    let mut packages = Vec::new();
    for place in PLACES {
        let inside = std::fs::read_dir(root.join(place))
            .into_iter()
            .flatten()
            .flatten();
        let inside = inside.map(|entry| format!("{place}/{}", entry.file_name().to_string_lossy()));
        let all = inside.chain([(*place).to_owned()]);
        packages.extend(all.filter(|shown| root.join(shown).join("Cargo.toml").exists()));
    }
    packages.sort();
    packages
}

/// The name of the package.
pub(crate) fn package_name(manifest: &str) -> Option<&str> {
    let line = lines(manifest, "package").find(|line| name(line) == Some("name"))?;
    line.split('"').nth(1)
}

/// Names in a table of dependencies, `[dependencies]` or `[dev-dependencies]`, in the file's order.
pub(super) fn names<'t>(manifest: &'t str, table: &str) -> Vec<&'t str> {
    lines(manifest, table).filter_map(name).collect()
}

/// True if the tests enable a feature of `dependency` that the library may be built without.
pub(super) fn is_for_features(manifest: &str, dependency: &str) -> bool {
    lines(manifest, "dev-dependencies")
        .any(|line| name(line) == Some(dependency) && line.contains("features"))
}

fn lines<'t>(manifest: &'t str, table: &str) -> impl Iterator<Item = &'t str> {
    let header = format!("[{table}]");
    manifest
        .lines()
        .map(str::trim)
        .skip_while(move |line| *line != header)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn name(line: &str) -> Option<&str> {
    line.split(['.', '=', ' ']).next()
}
