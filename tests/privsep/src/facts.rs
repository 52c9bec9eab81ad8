//! The kernel's data about a process: /proc/PID.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// A snapshot of a process.
#[derive(Clone)]
pub struct Facts {
    /// Process ID.
    pub pid: u32,
    status: String,
    limits: String,
    /// Its name, as `ps -o comm` shows it.
    pub name: String,
    /// Its arguments, as `ps` shows them, without spaces at the end; NUL bytes are spaces.
    pub command_line: String,
    /// Its environment at execution.
    pub environment: Vec<String>,
    /// Its root directory.
    pub root: PathBuf,
    /// Descriptors and their objects (`/dev/null`, `socket:[1]`, `pipe:[2]`, …).
    pub descriptors: BTreeMap<u32, String>,
    /// Owner of its directory in /proc: root if it is not dumpable.
    pub owner: u32,
}

/// For failed tests; leaves out the environment of the user who runs the tests.
impl fmt::Debug for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self
            .environment
            .iter()
            .filter_map(|entry| entry.split('=').next())
            .collect();
        f.debug_struct("Facts")
            .field("pid", &self.pid)
            .field("command_line", &self.command_line)
            .field("uid", &self.status("Uid"))
            .field("gid", &self.status("Gid"))
            .field("groups", &self.status("Groups"))
            .field("root", &self.root)
            .field("owner", &self.owner)
            .field("descriptors", &self.descriptors)
            .field("variables", &names)
            .finish_non_exhaustive()
    }
}

impl Facts {
    /// Reads a process; `None` if it has ended.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let text = |name: &str| {
            let bytes = fs::read(folder.join(name)).ok()?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        };
        let mut descriptors = BTreeMap::new();
        for entry in fs::read_dir(folder.join("fd")).ok()?.flatten() {
            let number = entry.file_name().to_str()?.parse().ok()?;
            // A descriptor that was closed meanwhile.
            let Ok(target) = fs::read_link(entry.path()) else {
                continue;
            };
            descriptors.insert(number, target.to_string_lossy().into_owned());
        }
        Some(Self {
            pid,
            status: text("status")?,
            limits: text("limits")?,
            name: text("comm")?.trim_end().to_owned(),
            command_line: text("cmdline")?.replace('\0', " ").trim_end().to_owned(),
            environment: text("environ")?
                .split('\0')
                .filter(|entry| !entry.is_empty())
                .map(str::to_owned)
                .collect(),
            root: fs::read_link(folder.join("root")).ok()?,
            descriptors,
            owner: fs::metadata(folder.join("status")).ok()?.uid(),
        })
    }

    /// The words of a line of /proc/PID/status.
    ///
    /// # Panics
    /// If there is no such line.
    #[must_use]
    pub fn status(&self, name: &str) -> Vec<&str> {
        let line = self.status.lines().find_map(|line| {
            let (found, rest) = line.split_once(':')?;
            (found == name).then_some(rest)
        });
        line.unwrap_or_else(|| panic!("no {name} in {}", self.status))
            .split_whitespace()
            .collect()
    }

    /// One decimal number of it.
    ///
    /// # Panics
    /// If it is not a number.
    #[must_use]
    pub fn number(&self, name: &str) -> u64 {
        let words = self.status(name);
        words.first().expect("a number").parse().expect("a number")
    }

    /// A set of capabilities (`CapEff` …).
    ///
    /// # Panics
    /// If there is none of that name.
    #[must_use]
    pub fn capabilities(&self, name: &str) -> u64 {
        u64::from_str_radix(self.status(name)[0], 16).expect("hexadecimal digits")
    }

    /// Real, effective, saved and file system user, which must be equal.
    ///
    /// # Panics
    /// If they differ.
    #[must_use]
    pub fn uid(&self) -> u32 {
        Self::all_alike(&self.status("Uid"))
    }

    /// As [`uid`](Self::uid) for the group.
    ///
    /// # Panics
    /// If they differ.
    #[must_use]
    pub fn gid(&self) -> u32 {
        Self::all_alike(&self.status("Gid"))
    }

    fn all_alike(words: &[&str]) -> u32 {
        assert!(
            words.len() == 4 && words.iter().all(|word| *word == words[0]),
            "ids differ: {words:?}"
        );
        words[0].parse().expect("a number")
    }

    /// Supplementary groups, sorted.
    ///
    /// # Panics
    /// If the kernel's text is not numeric.
    #[must_use]
    pub fn groups(&self) -> Vec<u32> {
        let words = self.status("Groups");
        let mut groups: Vec<u32> = words.iter().map(|word| word.parse().unwrap()).collect();
        groups.sort_unstable();
        groups
    }

    /// Soft and hard value of a line of /proc/PID/limits.
    ///
    /// # Panics
    /// If there is no such line.
    #[must_use]
    pub fn limit(&self, name: &str) -> (String, String) {
        let rest = self
            .limits
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or_else(|| panic!("no {name} in {}", self.limits));
        let mut words = rest.split_whitespace().map(str::to_owned);
        (words.next().unwrap(), words.next().unwrap())
    }

    /// The kind of a descriptor's object, without its number.
    #[must_use]
    pub fn kind(&self, descriptor: u32) -> &str {
        self.descriptors
            .get(&descriptor)
            .map_or("closed", |target| kind_of(target))
    }

    /// Numbers of descriptors above standard error, with their kinds.
    #[must_use]
    pub fn kinds_above_stderr(&self) -> Vec<(u32, &str)> {
        self.descriptors
            .range(3..)
            .map(|(number, target)| (*number, kind_of(target)))
            .collect()
    }

    /// Its sockets, by the kernel's number.
    #[must_use]
    pub fn sockets(&self) -> Vec<u64> {
        let mut found: Vec<u64> = self
            .descriptors
            .values()
            .filter_map(|target| {
                let rest = target.strip_prefix("socket:[")?;
                rest.strip_suffix(']')?.parse().ok()
            })
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

fn kind_of(target: &str) -> &str {
    match target.split_once(":[") {
        Some((kind @ ("socket" | "pipe"), _)) => kind,
        _ => target,
    }
}

/// Numbers of the listening sockets, on any address, and of those connected to `port`.
#[must_use]
pub fn tcp_sockets(port: u16) -> (Vec<u64>, Vec<u64>) {
    let wanted = format!(":{port:04X}");
    let (mut listening, mut connected) = (Vec::new(), Vec::new());
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = fs::read_to_string(table).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let (Some(local), Some(state), Some(inode)) =
                (fields.get(1), fields.get(3), fields.get(9))
            else {
                continue;
            };
            let Ok(inode) = inode.parse() else { continue };
            if *state == "0A" {
                listening.push(inode);
            } else if local.ends_with(&wanted) {
                connected.push(inode);
            }
        }
    }
    (listening, connected)
}
