//! What changes for the client. Its defaults have OpenSSH's key exchanges and host keys; MACs and the
//! smallest RSA key differ.

use std::path::{Path, PathBuf};

use config::Files as _;

use super::{Consequence, Machine, RSA_BITS, SSH_CONFIG, is_small_rsa, macs_line};

/// Files that Include lines may lead to, in all, and how deep.
const MAX_FILES: usize = 256;
const MAX_DEPTH: usize = 16;

pub(super) fn consequences(machine: &Machine, homes: &[PathBuf]) -> Vec<Consequence> {
    let mut set = Keywords::default();
    set.read(machine, Path::new(SSH_CONFIG), 0);
    let mut found = Vec::new();
    if !set.has("macs") {
        found.push(Consequence {
            what: "servers whose only MAC is hmac-sha1 cannot be reached by default".to_owned(),
            lines: vec![macs_line()],
        });
    }
    let has_small = |home: &&PathBuf| machine.known_hosts(home).iter().any(is_small_rsa);
    let users = homes.iter().filter(has_small).count();
    if users > 0 && !set.has("requiredrsasize") {
        let (theirs, ours) = RSA_BITS;
        let whose = match users {
            1 => "1 user's known_hosts has".to_owned(),
            users => format!("{users} users' known_hosts have"),
        };
        found.push(Consequence {
            what: format!(
                "{whose} RSA keys of less than {ours} bits, which are refused by default"
            ),
            lines: vec![format!("RequiredRSASize {theirs}")],
        });
    }
    found
}

/// The keywords of a configuration and of the files that it includes, under any condition: a
/// machine whose administrator has set one somewhere has decided.
#[derive(Default)]
struct Keywords {
    /// In lower case.
    names: Vec<String>,
    files: usize,
}

impl Keywords {
    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    fn read(&mut self, machine: &Machine, path: &Path, depth: usize) {
        self.files += 1;
        if self.files > MAX_FILES || depth > MAX_DEPTH {
            return;
        }
        let text = machine.read(path).unwrap_or_default();
        for line in String::from_utf8_lossy(&text).lines() {
            let Ok(Some(line)) = config::lexer::read_line(line) else {
                continue;
            };
            let name = line.keyword.to_ascii_lowercase();
            if name == "include" {
                for pattern in config::lexer::split_words(line.rest, true).unwrap_or_default() {
                    let pattern = Path::new("/etc/ssh").join(pattern);
                    let pattern = pattern.to_string_lossy();
                    for file in config::include::expand(&pattern, machine).unwrap_or_default() {
                        self.read(machine, &file, depth + 1);
                    }
                }
            }
            self.names.push(name);
        }
    }
}
