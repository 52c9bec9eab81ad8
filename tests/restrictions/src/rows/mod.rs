//! The table, by where the restriction is written.

mod certificates;
mod commands;
mod configuration;
mod hosts;
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
    let mut rows = [
        keys::rows(),
        certificates::rows(),
        configuration::rows(),
        root::rows(),
        commands::rows(),
        passwords::rows(),
        strict::rows(),
        hosts::rows(),
    ]
    .concat();
    rows.iter_mut().for_each(expect_datagrams);
    let mut names = BTreeSet::new();
    for row in &rows {
        assert!(names.insert(&row.name), "two rows named {:?}", row.name);
    }
    rows
}

/// Datagrams are forwarded as connections are, except that a list of ports permits none that it does
/// not name. Expects that for rows in which a forwarding of connections is restricted, and that do
/// not say otherwise.
fn expect_datagrams(row: &mut Row) {
    let (Some(tcp), Some(remote)) = (row.expected.get("tcp"), row.expected.get("remote-tcp"))
    else {
        return;
    };
    let is_plain = tcp == "A B" && remote == "A B";
    if is_plain || row.expected.contains_key("udp") || row.name.contains("(in Match)") {
        return;
    }
    let either = |found: &str| match found {
        "A" | "B" => "none".to_owned(),
        found => found.to_owned(),
    };
    let found = [("udp", either(tcp)), ("remote-udp", either(remote))];
    row.expected.extend(found);
}
