//! What a Cargo.toml says it depends on, as far as our own are written.

/// Names in a table of dependencies, `[dependencies]` or `[dev-dependencies]`, as they stand.
pub(super) fn names<'t>(manifest: &'t str, table: &str) -> Vec<&'t str> {
    let header = format!("[{table}]");
    manifest
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != header)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .collect()
}
