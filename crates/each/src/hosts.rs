//! The hosts of a run: from the command line, files (`@file`) and standard input (`-`), less the
//! excluded ones, each once.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use client::flags::destination::{self, Destination};
use escape::one_line;

use crate::ranges::{self, MAX_HOSTS};

/// Largest list that is read, bytes.
const MAX_LIST_BYTES: u64 = 64 << 20;

/// One host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// As it was written, after expansion: the name in messages, outputs and files.
    pub(crate) name: String,
    /// The destination as ssh takes it, without a port.
    pub(crate) destination: String,
    /// The port that was written with it.
    pub(crate) port: Option<u16>,
}

impl Host {
    /// Reads `[user@]host`, `[user@]host:port`, `[user@][address]:port` or an `ssh://` URI.
    fn parse(name: &str) -> Result<Self, String> {
        let bad = |why: &dyn std::fmt::Display| format!("\"{}\": {why}", one_line(name));
        if name.starts_with('-') {
            return Err(bad(&"a host's name does not begin with a dash"));
        }
        // They would name directories above those of the hosts.
        if [".", ".."].contains(&name) {
            return Err(bad(&"this is no host's name"));
        }
        if name.starts_with("ssh://") {
            Destination::parse(name).map_err(|why| bad(&why))?;
            return Ok(Self {
                name: name.to_owned(),
                destination: name.to_owned(),
                port: None,
            });
        }
        let (user, place) = match name.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, name),
        };
        let is_address = place.starts_with('[') && place.ends_with(']');
        let has_port = !is_address && (place.starts_with('[') || place.matches(':').count() == 1);
        let (host, port) = match has_port {
            true => {
                let (host, port) = destination::host_and_port(place)
                    .ok_or_else(|| bad(&"write host:port with a port from 1 to 65535"))?;
                (host, Some(port))
            }
            false => (place.trim_matches(['[', ']']).to_owned(), None),
        };
        let destination = match user {
            Some(user) => format!("{user}@{host}"),
            None => host,
        };
        match Destination::parse(&destination) {
            Ok(_) => {}
            Err(client::flags::FlagError::Usage) => {
                return Err(bad(&"the user or the host is missing"));
            }
            Err(why) => return Err(bad(&why)),
        }
        Ok(Self {
            name: name.to_owned(),
            destination,
            port,
        })
    }

    /// User, host and port that were written, whatever the form.
    fn place(&self) -> (Option<String>, String, Option<u16>) {
        match Destination::parse(&self.destination) {
            Ok(place) => (
                place.user,
                place.host.to_ascii_lowercase(),
                self.port.or(place.port),
            ),
            Err(_) => (None, self.destination.clone(), self.port),
        }
    }
}

/// The hosts to run on, and what was left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HostList {
    pub(crate) hosts: Vec<Host>,
    /// Number of names that were there before.
    pub(crate) repeated: usize,
    /// True if standard input was read.
    pub(crate) read_stdin: bool,
}

/// Reads the hosts of `words` and removes those of `excluded`.
///
/// # Errors
/// The message for the user.
pub(crate) fn list(words: &[String], excluded: &[String]) -> Result<HostList, String> {
    let mut list = HostList::default();
    let mut names = Vec::new();
    let mut without = Vec::new();
    for (words, into) in [(words, &mut names), (excluded, &mut without)] {
        for word in words {
            add(word, into, &mut list.read_stdin)?;
        }
    }
    let without = without.iter().map(|name| Host::parse(name));
    let without = without.map(|host| host.map(|host| host.place()));
    let without = without.collect::<Result<HashSet<_>, String>>()?;
    let mut seen = HashSet::new();
    for name in &names {
        let host = Host::parse(name)?;
        if !without.is_empty() {
            let place = host.place();
            let anyone = (None, place.1.clone(), None);
            if without.contains(&place) || without.contains(&anyone) {
                continue;
            }
        }
        match seen.insert(name.as_str()) {
            true => list.hosts.push(host),
            false => list.repeated += 1,
        }
    }
    Ok(list)
}

/// Adds the names of a word of the command line.
fn add(word: &str, names: &mut Vec<String>, read_stdin: &mut bool) -> Result<(), String> {
    let text = match word.strip_prefix('@') {
        _ if word == "-" => {
            if std::mem::replace(read_stdin, true) {
                return Err("standard input can be read once: write \"-\" once".to_owned());
            }
            read("standard input", std::io::stdin())?
        }
        Some(path) => {
            let file = File::open(Path::new(path)).map_err(|error| failed(path, &error))?;
            read(path, file)?
        }
        None => return add_patterns(word, names),
    };
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        add_patterns(line, names)?;
    }
    Ok(())
}

fn add_patterns(list: &str, names: &mut Vec<String>) -> Result<(), String> {
    for pattern in ranges::split(list) {
        let room = MAX_HOSTS.saturating_sub(names.len());
        names.extend(ranges::expand(pattern, room)?);
    }
    Ok(())
}

fn read(name: &str, from: impl Read) -> Result<String, String> {
    let mut bytes = Vec::new();
    let mut limited = from.take(MAX_LIST_BYTES + 1);
    limited
        .read_to_end(&mut bytes)
        .map_err(|error| failed(name, &error))?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > MAX_LIST_BYTES) {
        return Err(format!("{}: the list exceeds 64 MiB", one_line(name)));
    }
    String::from_utf8(bytes).map_err(|_| format!("{}: the list is not UTF-8", one_line(name)))
}

fn failed(name: &str, error: &std::io::Error) -> String {
    let reason = error.to_string();
    format!("{}: {}", one_line(name), escape::system_words(&reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str) -> (String, Option<u16>) {
        let host = Host::parse(name).unwrap();
        (host.destination, host.port)
    }

    fn words(list: &str) -> Vec<String> {
        list.split(' ')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn hosts_are_written_as_for_ssh_and_with_ports() {
        assert_eq!(parsed("h"), ("h".into(), None));
        assert_eq!(parsed("u@h"), ("u@h".into(), None));
        assert_eq!(parsed("u@h:22"), ("u@h".into(), Some(22)));
        assert_eq!(parsed("u@v@h:22"), ("u@v@h".into(), Some(22)));
        assert_eq!(parsed("::1"), ("::1".into(), None));
        assert_eq!(parsed("[::1]"), ("::1".into(), None));
        assert_eq!(parsed("u@[::1]:2222"), ("u@::1".into(), Some(2222)));
        assert_eq!(parsed("[192.0.2.1]:22"), ("192.0.2.1".into(), Some(22)));
        assert_eq!(parsed("ssh://u@h:22"), ("ssh://u@h:22".into(), None));
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for bad in [
            "-x",
            ".",
            "..",
            "-oProxyCommand=x",
            "h:0",
            "h:70000",
            "h:x",
            "@h",
            "u@",
            "u@-h",
            "a;b",
            "h\u{1b}c",
            "$(x)@h",
        ] {
            assert!(Host::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_host_runs_once_and_excluded_ones_do_not() {
        let list = list(&words("n[1-4] n2,n9 u@n3"), &words("n[3-4]")).unwrap();
        let names: Vec<&str> = list.hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["n1", "n2", "n9"]);
        assert_eq!(list.repeated, 1);
    }

    #[test]
    fn a_host_is_left_out_in_every_form_of_its_name() {
        let all = "h u@h h:22 u@h:22 ssh://h ssh://u@h ssh://u@h:22 H ::1 [::1]:22 u@::1 k";
        let left = |excluded| {
            let list = list(&words(all), &words(excluded)).unwrap();
            let names = list.hosts.into_iter().map(|host| host.name);
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(left("h [::1]"), "k");
        assert_eq!(left("ssh://H ::1"), "k");
        let others = "h u@h h:22 ssh://h ssh://u@h H ::1 [::1]:22 u@::1 k";
        assert_eq!(left("u@h:22"), others);
        assert_eq!(left("ssh://u@h:22"), others);
        assert!(list(&words("h"), &words("-x")).is_err());
    }

    #[test]
    fn addresses_in_brackets_are_no_ranges() {
        let list = list(
            &words("[127.0.0.1]:22 u@[192.0.2.1] [::1]:2222 n[1,2]"),
            &[],
        )
        .unwrap();
        let places = list.hosts.iter();
        let places = places.map(|host| (host.destination.as_str(), host.port));
        assert_eq!(
            places.collect::<Vec<_>>(),
            [
                ("127.0.0.1", Some(22)),
                ("u@192.0.2.1", None),
                ("::1", Some(2222)),
                ("n1", None),
                ("n2", None)
            ]
        );
    }

    #[test]
    fn files_have_comments_and_patterns() {
        let path = std::env::temp_dir().join(format!("each-hosts-{}", std::process::id()));
        std::fs::write(&path, "# all\nn[1-2]  # two\n\nweb, db\n").unwrap();
        let word = format!("@{}", path.display());
        let found = list(&[word], &[]).unwrap();
        std::fs::remove_file(&path).unwrap();
        let names: Vec<&str> = found.hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["n1", "n2", "web", "db"]);
        assert!(
            list(&words("@/nonexistent/list"), &[])
                .unwrap_err()
                .contains("No such file")
        );
    }
}
