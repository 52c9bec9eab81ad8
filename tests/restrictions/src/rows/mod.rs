//! The table, by where the restriction is written.

mod certificates;
mod commands;
mod configuration;
mod keys;
mod passwords;
mod root;
mod strict;

use std::collections::BTreeSet;

use crate::row::Row;

/// Every row.
///
/// # Panics
/// If two rows have the same name.
#[must_use]
pub fn all() -> Vec<Row> {
    let rows = [
        keys::rows(),
        certificates::rows(),
        configuration::rows(),
        root::rows(),
        commands::rows(),
        passwords::rows(),
        strict::rows(),
    ]
    .concat();
    let mut names = BTreeSet::new();
    for row in &rows {
        assert!(names.insert(&row.name), "two rows named {:?}", row.name);
    }
    rows
}
