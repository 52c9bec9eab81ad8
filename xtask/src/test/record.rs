//! How cargo runs each test program: directory, arguments and environment, as it gives them to the
//! program of `target.*.runner`. That program is xtask itself, which writes them to a file.
//!
//! A record is a list of fields, each followed by NUL: the directory, the number of arguments, the
//! arguments (the program first), the variables (`NAME=VALUE`), and an empty field.

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A test program and how to run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// `PACKAGE::TARGET`. A package's library and its binary may have one name.
    pub(super) name: String,
    /// Its working directory: that of the package.
    pub(super) directory: PathBuf,
    /// The program and its arguments.
    pub(super) command: Vec<OsString>,
    /// All of its environment.
    pub(super) environment: Vec<(OsString, OsString)>,
}

/// The subcommand that cargo runs in place of each program: `xtask record FILE PROGRAM [ARGUMENT...]`.
/// Returns its exit status.
pub(crate) fn record(args: &[String]) -> i32 {
    let Some((file, command)) = args.split_first().filter(|(_, rest)| !rest.is_empty()) else {
        eprintln!("xtask record: only for `cargo xtask test`");
        return 2;
    };
    let written = std::env::current_dir().and_then(|directory| {
        let variables = std::env::vars_os();
        let text = as_record(directory.as_os_str(), command, variables);
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            // The environment may hold secrets.
            .mode(0o600)
            .open(file)?;
        file.write_all(&text)
    });
    match written {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("xtask record: {file}: {error}");
            1
        }
    }
}

fn as_record(
    directory: &OsStr,
    command: &[String],
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<u8> {
    let mut text = Vec::new();
    let mut put = |field: &[u8]| {
        text.extend_from_slice(field);
        text.push(0);
    };
    put(directory.as_bytes());
    put(command.len().to_string().as_bytes());
    for argument in command {
        put(argument.as_bytes());
    }
    for (name, value) in variables {
        put(&[name.as_bytes(), b"=", value.as_bytes()].concat());
    }
    put(b"");
    text
}

/// The test programs of the workspace in cargo's order, with a file in `folder`.
pub(super) fn programs(folder: &Path) -> Result<Vec<Program>, String> {
    let file = folder.join("programs");
    let _ = fs::remove_file(&file);
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    // Debug writes strings as TOML reads them.
    let runner = format!(
        "target.'cfg(all())'.runner=[{:?}, \"record\", {:?}]",
        own.to_string_lossy(),
        file.to_string_lossy(),
    );
    let output = super::cargo()
        .args(["test", "--workspace", "--tests", "--config", &runner])
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    // Cargo prefers a runner for the machine's triple, which then has run the tests.
    let records =
        fs::read(&file).map_err(|_| "cargo has another runner (CARGO_TARGET_*_RUNNER)")?;
    let _ = fs::remove_file(&file);
    parse(&records).ok_or_else(|| format!("{} is not whole", file.display()))
}

fn parse(records: &[u8]) -> Option<Vec<Program>> {
    let mut fields = records.strip_suffix(b"\0")?.split(|byte| *byte == 0);
    let mut programs = Vec::new();
    while let Some(directory) = fields.next() {
        let count: usize = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        let command: Vec<OsString> = fields.by_ref().take(count).map(owned).collect();
        let mut environment = Vec::new();
        loop {
            match fields.next()? {
                b"" => break,
                variable => {
                    let at = variable.iter().position(|byte| *byte == b'=')?;
                    let (name, value) = variable.split_at(at);
                    environment.push((owned(name), owned(value.strip_prefix(b"=")?)));
                }
            }
        }
        programs.push(Program {
            name: name_of(command.first()?, &environment)?,
            directory: owned(directory).into(),
            command,
            environment,
        });
    }
    Some(programs)
}

fn owned(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

/// The package, and the program's file name without its hash.
fn name_of(program: &OsStr, environment: &[(OsString, OsString)]) -> Option<String> {
    let (_, package) = environment
        .iter()
        .find(|(name, _)| name == "CARGO_PKG_NAME")?;
    let file = Path::new(program).file_name()?.to_str()?;
    let (target, _) = file.rsplit_once('-')?;
    Some(format!("{}::{target}", package.to_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> (OsString, OsString) {
        (name.into(), value.into())
    }

    #[test]
    fn what_is_recorded_is_read_again() {
        let variables = [
            pair("CARGO_PKG_NAME", "sim"),
            pair("LINES", "a=b\nc"),
            pair("NONE", ""),
        ];
        let command = [
            "/t/deps/odd_peers-0123".to_owned(),
            String::new(),
            "-q".into(),
        ];
        let mut records = Vec::new();
        for _ in 0..2 {
            let variables = variables.iter().cloned();
            records.extend(as_record(OsStr::new("/w/tests/sim"), &command, variables));
        }
        let programs = parse(&records).unwrap();
        assert_eq!(programs.len(), 2);
        let [program, same] = &programs[..] else {
            unreachable!()
        };
        assert_eq!(program, same);
        assert_eq!(program.name, "sim::odd_peers");
        assert_eq!(program.directory, Path::new("/w/tests/sim"));
        assert_eq!(program.command, command.map(OsString::from));
        assert_eq!(program.environment, variables);
        for length in 1..records.len() / 2 {
            assert_eq!(parse(&records[..length]), None, "{length}");
        }
    }
}
