//! The lines that are printed for a host.

use keys::known_hosts::{hash_name, host_name};
use keys::{PresentedKey, base64, sshfp};

use crate::options::KeyscanOptions;
use crate::say;

/// Writes the comment that names a server's software to standard error.
pub(crate) fn comment(options: &KeyscanOptions, name: &str, banner: &str) {
    if options.quiet {
        return;
    }
    let mark = if options.records.is_some() { ';' } else { '#' };
    say(&format!("{mark} {name}:{} {banner}", options.port));
}

/// Prints the lines of a key; `names` are those of the output, separated by commas.
pub(crate) fn key(options: &KeyscanOptions, names: &str, key: &PresentedKey) {
    for line in lines(options, names, key) {
        match line {
            Ok(line) => println!("{line}"),
            Err(message) => say(&message),
        }
    }
}

fn lines(options: &KeyscanOptions, names: &str, key: &PresentedKey) -> Vec<Result<String, String>> {
    let is_default_port = options.port == keys::known_hosts::DEFAULT_PORT;
    if options.certificates || (!options.hash_names && is_default_port) {
        return lines_of_one(options, names, key);
    }
    // A hash holds one name, and so does a name with a port.
    names
        .split(',')
        .flat_map(|name| lines_of_one(options, name, key))
        .collect()
}

fn lines_of_one(
    options: &KeyscanOptions,
    name: &str,
    key: &PresentedKey,
) -> Vec<Result<String, String>> {
    if let Some(hashes) = &options.records {
        let records = hashes
            .iter()
            .map(|hash| sshfp::record(name, key, *hash, false));
        return match records.collect::<Option<Vec<String>>>() {
            Some(records) => records.into_iter().map(Ok).collect(),
            None => vec![Err(sshfp::NO_RECORD.to_owned())],
        };
    }
    let key = format!("{} {}", key.blob_name(), base64::encode(&key.blob()));
    if options.certificates {
        return vec![Ok(key)];
    }
    let host = host_name(name, options.port);
    let host = match options.hash_names {
        true => hash_name(&host),
        false => host,
    };
    vec![Ok(format!("{host} {key}"))]
}

#[cfg(test)]
mod tests {
    use keys::PrivateKey;

    use super::*;

    fn printed(options: &KeyscanOptions, names: &str) -> Vec<String> {
        let key = PrivateKey::from_ed25519_seed(&[1; 32]).public().clone();
        lines(options, names, &PresentedKey::Plain(key))
            .into_iter()
            .map(|line| line.unwrap().replace(" AAAAC3NzaC1lZDI1NTE5AAAAI", " KEY"))
            .map(|line| line.split("KEY").next().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn names_share_a_line_where_a_line_can_hold_them() {
        let mut options = KeyscanOptions::default();
        assert_eq!(printed(&options, "A,b c"), ["a,b c ssh-ed25519 "]);
        options.port = 2222;
        assert_eq!(
            printed(&options, "A,b,"),
            [
                "[a]:2222 ssh-ed25519 ",
                "[b]:2222 ssh-ed25519 ",
                "[]:2222 ssh-ed25519 "
            ]
        );
        options.hash_names = true;
        let hashed = printed(&options, "a,b");
        assert_eq!(hashed.len(), 2);
        assert!(hashed.iter().all(|line| line.starts_with("|1|")));
    }

    #[test]
    fn records_keep_the_names_as_they_are() {
        let options = KeyscanOptions {
            records: Some(sshfp::HASHES.to_vec()),
            ..KeyscanOptions::default()
        };
        let records = printed(&options, "Aa");
        assert_eq!(records.len(), 2);
        assert!(records[0].starts_with("Aa IN SSHFP 4 1 "));
        assert!(records[1].starts_with("Aa IN SSHFP 4 2 "));
    }
}
