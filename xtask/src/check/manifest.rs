//! Reads the dependencies of a Cargo.toml, in the forms that this workspace uses.

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
