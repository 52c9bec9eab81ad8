//! Dependencies between crates point to lower levels only (ARCHITECTURE.md, map).

use std::path::Path;

use super::manifest;

/// THE table: each crate with its level and the crates that it must not depend on, directly or
/// indirectly.
const ROOMS: &[(&str, u8, &[&str])] = &[
    ("escape", 0, &[]),
    ("flags", 1, &["sys"]),
    ("wire", 0, &[]),
    ("crypto", 0, &[]),
    ("pipeline", 0, &[]),
    ("compress", 1, &[]),
    ("sys", 1, &[]),
    ("packet", 1, &["sys"]),
    ("keys", 1, &[]),
    ("privsep", 1, &["crypto"]),
    ("accelerator", 2, &[]),
    ("fido", 2, &[]),
    ("gssapi", 2, &[]),
    ("proto", 2, &["sys"]),
    ("sftp", 2, &[]),
    ("config", 2, &["packet", "sys"]),
    ("moduli", 2, &[]),
    ("token", 2, &[]),
    ("transfer", 3, &[]),
    ("agent", 3, &[]),
    ("driver", 3, &[]),
    ("migrate", 3, &["packet"]),
    // The privileged process parses its own RPC and nothing from the network.
    (
        "monitor",
        4,
        &["proto", "packet", "compress", "sftp", "transfer"],
    ),
    ("agentd", 4, &["driver", "proto"]),
    ("install", 4, &["driver", "proto"]),
    ("client", 4, &["monitor"]),
    ("server", 4, &["monitor", "transfer"]),
    ("copy", 5, &["monitor", "server"]),
    ("keygen", 5, &["monitor", "server"]),
    ("keyscan", 5, &["monitor", "server"]),
    ("fulmar", 5, &["monitor"]),
    ("add", 6, &["monitor", "server"]),
    ("each", 6, &["monitor", "server"]),
    ("bench", 6, &[]),
    ("cli", 7, &[]),
];

/// The workspace's crates that `room` depends on, without those of its tests.
fn dependencies(root: &Path, room: &str) -> Result<Vec<String>, String> {
    let path = root.join("crates").join(room).join("Cargo.toml");
    let text =
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(manifest::names(&text, "dependencies")
        .into_iter()
        .filter(|name| ROOMS.iter().any(|(room, ..)| room == name))
        .map(str::to_owned)
        .collect())
}

fn level(room: &str) -> Option<u8> {
    ROOMS
        .iter()
        .find(|(name, ..)| *name == room)
        .map(|(_, level, _)| *level)
}

fn reaches(root: &Path, room: &str, seen: &mut Vec<String>) -> Result<(), String> {
    for dependency in dependencies(root, room)? {
        if !seen.contains(&dependency) {
            seen.push(dependency.clone());
            reaches(root, &dependency, seen)?;
        }
    }
    Ok(())
}

/// One line for each dependency that is not permitted.
pub(super) fn broken(root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let listed = std::fs::read_dir(root.join("crates"))
        .into_iter()
        .flatten()
        .flatten();
    for entry in listed {
        let name = entry.file_name().to_string_lossy().into_owned();
        if level(&name).is_none() {
            lines.push(format!(
                "crates/{name} has no level: add it to the table in xtask/src/check/arrows.rs"
            ));
        }
    }
    for (room, own, forbidden) in ROOMS {
        match dependencies(root, room) {
            Err(error) => lines.push(error),
            Ok(found) => {
                for dependency in found {
                    if level(&dependency).is_none_or(|other| other >= *own) {
                        lines.push(format!(
                            "{room} (level {own}) must not depend on {dependency}"
                        ));
                    }
                }
            }
        }
        let mut seen = Vec::new();
        if let Err(error) = reaches(root, room, &mut seen) {
            lines.push(error);
        }
        for other in seen
            .iter()
            .filter(|other| forbidden.contains(&other.as_str()))
        {
            lines.push(format!("{room} must not reach {other}"));
        }
    }
    lines
}
