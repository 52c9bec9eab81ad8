//! Copies: scp, scp -O and sftp of both suites with servers of both.
//!
//! Every other pair of client and server must give the result of OpenSSH with OpenSSH: the exit
//! status and the content of both directories, with modes, with times that were set, and with
//! leftover files. All of it runs without root's permission to read and write everything, so that
//! modes have an effect.

mod case;
mod known;
mod place;

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;

use interop::account::is_root;
use interop::peers::ours::{Kind, binary};
use interop::process::{Input, installed, run};
use interop::scratch::Scratch;
use interop::site::{HOST, Site};

use crate::run::{Finding, Run, Suite};
use case::{Case, Piece, Tool};
pub(crate) use known::LISTED;
use place::{Place, Tree};

/// Time limit of a copy of a few files.
const LIMIT: Duration = Duration::from_secs(60);

/// Largest number of smaller cases that are tried per case.
const MOST_TRIES: usize = 30;

/// Set in the process without root's permissions.
const BOUND: &str = "DIFFER_BOUND";

/// Client and server.
type Couple = (Kind, Kind);

const ORACLE: Couple = (Kind::OpenSsh, Kind::OpenSsh);
const COUPLES: [Couple; 3] = [
    (Kind::Fulmar, Kind::Fulmar),
    (Kind::Fulmar, Kind::OpenSsh),
    (Kind::OpenSsh, Kind::Fulmar),
];

/// Executes this program again without root's permissions over the files of others; returns in the
/// new process.
///
/// # Errors
/// If that is not possible.
pub(crate) fn give_up_rights() -> Result<(), String> {
    if !is_root() || std::env::var_os(BOUND).is_some() {
        return Ok(());
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new("setpriv");
    command
        .args(["--bounding-set", "-dac_override,-dac_read_search"])
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env(BOUND, "yes");
    Err(format!("setpriv: {}", command.exec()))
}

/// One server of each kind.
pub(crate) struct Copies {
    /// The site of each client and server.
    sites: Vec<(Couple, Site)>,
    _programs: Scratch,
}

/// Cases with OpenSSH's results.
type Seen = Vec<(Case, Came)>;

/// The result of a copy.
#[derive(Clone, PartialEq, Eq)]
struct Came {
    status: Option<i32>,
    said: String,
    tree: Tree,
}

impl Suite for Copies {
    const NAME: &'static str = "copies";
    const LISTED: &'static [crate::list::Listed] = LISTED;
    // A copy mostly waits for other processes.
    const AT_ONCE: usize = 2;

    fn new(_run: &Run) -> Result<Self, String> {
        let programs = ["ssh", "sshd", "scp", "sftp", "mkfifo", "mknod"];
        if let Some(missing) = programs.into_iter().find(|name| installed(name).is_none()) {
            return Err(format!("no {missing}"));
        }
        // A server starts the scp of `scp -O` by its name.
        let programs = Scratch::new();
        let text = format!("#!/bin/sh\nexec {} scp \"$@\"\n", binary().display());
        let ours = programs.write("scp", text);
        fs::set_permissions(ours, PermissionsExt::from_mode(0o755))
            .map_err(|error| error.to_string())?;
        let mut sites = Vec::new();
        for couple in [ORACLE].into_iter().chain(COUPLES) {
            let extra = match couple.1 {
                Kind::OpenSsh => "Subsystem sftp /usr/lib/openssh/sftp-server\n".to_owned(),
                Kind::Fulmar => format!(
                    "Subsystem sftp internal-sftp\nSetEnv PATH={}:/usr/bin:/bin SHLVL=1\n",
                    programs.path().display()
                ),
            };
            sites.push((couple, Site::new(couple.0, couple.1, &extra)));
        }
        Ok(Self {
            sites,
            _programs: programs,
        })
    }

    fn peers(&self) -> Vec<String> {
        vec!["OpenSSH".into()]
    }

    fn try_case(&self, run: &Run, number: u64) -> Vec<Finding> {
        let case = case::case(run.seed, number);
        let mut seen = Vec::new();
        let wanted = self.wanted(&case, &mut seen);
        if run.is_single() {
            println!(
                "{}\nOpenSSH: {:?} {}\n{:#?}",
                case.text(),
                wanted.status,
                wanted.said,
                wanted.tree
            );
        }
        let mut found = Vec::new();
        for couple in COUPLES {
            let came = self.copy(&case, couple);
            if run.is_single() {
                println!(
                    "{}: {:?} {}\n{:#?}",
                    name_of(couple),
                    came.status,
                    came.said,
                    came.tree
                );
            }
            if let Some(class) = differs(&wanted, &came) {
                found.push(self.smallest(&case, couple, class, &mut seen));
            }
        }
        found
    }
}

/// Fields of a copy's result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Status,
    Tree,
}

fn differs(wanted: &Came, came: &Came) -> Option<Class> {
    if wanted.status != came.status {
        return Some(Class::Status);
    }
    (wanted.tree != came.tree).then_some(Class::Tree)
}

fn name_of((client, server): Couple) -> String {
    format!("{}-{}", client.name(), server.name())
}

impl Copies {
    /// OpenSSH's result, determined once per case, because all pairs use the same smaller cases.
    fn wanted(&self, case: &Case, seen: &mut Seen) -> Came {
        if let Some((_, came)) = seen.iter().find(|(before, _)| before == case) {
            return came.clone();
        }
        let came = self.copy(case, ORACLE);
        seen.push((case.clone(), came.clone()));
        came
    }

    fn smallest(&self, case: &Case, couple: Couple, class: Class, seen: &mut Seen) -> Finding {
        let mut case = case.clone();
        let mut left = MOST_TRIES;
        'again: loop {
            for simpler in case.simpler() {
                if left == 0 {
                    break 'again;
                }
                left -= 1;
                let wanted = self.wanted(&simpler, seen);
                let came = self.copy(&simpler, couple);
                if differs(&wanted, &came) == Some(class) {
                    case = simpler;
                    continue 'again;
                }
            }
            break;
        }
        let (wanted, came) = (self.wanted(&case, seen), self.copy(&case, couple));
        let how = match class {
            Class::Status => format!("exits {} not {}", shown(came.status), shown(wanted.status)),
            Class::Tree => tree_difference(&wanted.tree, &came.tree),
        };
        Finding {
            form: couple_form(couple),
            how: how.clone(),
            case: case.text(),
            shown: format!(
                "  {}: {}\n  OpenSSH said {:?}\n  {} said {:?}\n",
                name_of(couple),
                case.text(),
                wanted.said,
                name_of(couple),
                came.said
            ),
        }
    }

    fn copy(&self, case: &Case, couple: Couple) -> Came {
        let place = Place::new(case);
        let (_, site) = self
            .sites
            .iter()
            .find(|(of, _)| *of == couple)
            .expect("a site");
        let mut command = match couple.0 {
            Kind::Fulmar => {
                let mut command = Command::new(binary());
                command.arg(if case.tool == Tool::Sftp {
                    "sftp"
                } else {
                    "scp"
                });
                command
            }
            Kind::OpenSsh => Command::new(if case.tool == Tool::Sftp {
                "sftp"
            } else {
                "scp"
            }),
        };
        command.arg("-F").arg(site.config(""));
        let local = if case.is_get { "into" } else { "from" };
        command.current_dir(place.folder().join(local));
        let batch = arguments(case, &place, &mut command);
        let input = batch
            .as_ref()
            .map_or(Input::Nothing, |batch| Input::Bytes(batch));
        let outcome = run(&mut command, input, LIMIT);
        let here = place.folder().display().to_string();
        let (status, said) = match outcome {
            Ok(outcome) => (
                Some(outcome.status),
                outcome.stderr.text().replace(&here, ""),
            ),
            Err(why) => (None, why.to_string()),
        };
        Came {
            status,
            said,
            tree: place.tree(),
        }
    }
}

fn couple_form(couple: Couple) -> &'static str {
    match couple {
        (Kind::Fulmar, Kind::Fulmar) => "ours-ours",
        (Kind::Fulmar, Kind::OpenSsh) => "ours-openssh",
        _ => "openssh-ours",
    }
}

fn shown(status: Option<i32>) -> String {
    status.map_or("never".into(), |status| status.to_string())
}

fn tree_difference(wanted: &Tree, is: &Tree) -> String {
    let mut found = Vec::new();
    for path in wanted
        .keys()
        .chain(is.keys().filter(|path| !wanted.contains_key(*path)))
    {
        let (wanted, is) = (wanted.get(path), is.get(path));
        if wanted != is {
            let nothing = "nothing".to_owned();
            found.push(format!(
                "{path}: {} not {}",
                is.unwrap_or(&nothing),
                wanted.unwrap_or(&nothing)
            ));
        }
    }
    found.join(", ")
}

/// Adds the case's arguments to the command; returns the batch of sftp.
fn arguments(case: &Case, place: &Place, command: &mut Command) -> Option<Vec<u8>> {
    let flags: Vec<&str> = case
        .pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Flag(flag) => Some(*flag),
            _ => None,
        })
        .collect();
    let sources: Vec<Vec<u8>> = case
        .pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Source(name, is_escaped) => Some(named(case, place, "from", name, *is_escaped)),
            _ => None,
        })
        .collect();
    let target = named(case, place, "into", &case.target, true);
    if case.tool == Tool::Sftp {
        let verb = if case.is_get { "get" } else { "put" };
        let mut batch = Vec::new();
        for source in sources {
            for word in [verb.as_bytes()]
                .into_iter()
                .chain(flags.iter().map(|flag| flag.as_bytes()))
            {
                batch.extend_from_slice(word);
                batch.push(b' ');
            }
            batch.extend_from_slice(&source);
            batch.push(b' ');
            batch.extend_from_slice(&target);
            batch.push(b'\n');
        }
        command.args(["-b", "-", HOST]);
        return Some(batch);
    }
    if case.tool == Tool::Old {
        command.arg("-O");
    }
    command.args(flags).arg("--");
    let there = |path: Vec<u8>| OsString::from_vec([HOST.as_bytes(), b":", &path].concat());
    for source in sources {
        if case.is_get {
            command.arg(there(source));
        } else {
            command.arg(OsStr::from_bytes(&source));
        }
    }
    if case.is_get {
        command.arg(OsStr::from_bytes(&target));
    } else {
        command.arg(there(target));
    }
    None
}

/// A name in one of the directories, as an argument of the program.
fn named(case: &Case, place: &Place, folder: &str, name: &[u8], is_escaped: bool) -> Vec<u8> {
    let is_local = case.is_get == (folder == "into");
    let path = match is_local && case.is_relative {
        true if name.is_empty() => b".".to_vec(),
        true => name.to_vec(),
        false => {
            let path = place.path(&[folder.as_bytes(), b"/", name].concat());
            path.into_os_string().into_vec()
        }
    };
    // A shell parses remote names of the old protocol, names of SFTP sources are patterns, and
    // batch lines have quotes and patterns.
    let is_read = match case.tool {
        Tool::Sftp => true,
        Tool::Old => !is_local,
        Tool::Scp => !is_local && folder == "from",
    };
    if !is_read || !(is_escaped || case.tool == Tool::Sftp) {
        return path;
    }
    let mut escaped = Vec::new();
    for byte in path {
        match byte {
            b'\n' if case.tool == Tool::Old => escaped.extend_from_slice(b"'\n'"),
            b if !b.is_ascii_alphanumeric() && b.is_ascii() && !b"/.-_\n".contains(&b) => {
                escaped.extend([b'\\', b])
            }
            b => escaped.push(b),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_in_the_docs() {
        assert_eq!(crate::list::not_in_the_docs(LISTED), Vec::<&str>::new());
    }
}
