//! `cargo xtask order`: writes crates/cli/login.ld, which makes the linker place the functions of a
//! login next to each other.
//!
//! The kernel maps a program's code in pieces of 64 KiB when they are reached. A login runs 400 of
//! 6,000 functions in each of four processes; without an order they are spread over 7 MB, and each
//! process reaches 45 to 52 pieces. Breakpoints (trace.c) find the functions that a login runs. The
//! list has their names without versions and hashes, so that it works for later builds; a name that
//! no longer exists has no effect.

mod layout;

use std::collections::HashMap;
use std::io::{Error, Result};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use layout::{Function, ROLES};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The head of the written file.
const HEAD: &str = "\
/*
 * The functions of a login, next to each other: written by `cargo xtask order` (xtask/src/order),
 * used by build.rs. Names are without hashes; one that no longer exists does no harm.
 */
SECTIONS
{
  .text.login :
  {
";

/// Objects of aws-lc with one section for all their functions: those that the monitor and the
/// client use, those that all use, those of the client and the auth process, and those of all but
/// the monitor. Little of the last, 700 KB, runs.
const ASSEMBLED: [&str; 16] = [
    "bignum_madd_n25519",
    "bignum_mod_n25519",
    "bignum_neg_p25519",
    "edwards25519_decode",
    "edwards25519_encode",
    "edwards25519_scalarmuldouble",
    "edwards25519_scalarmulbase",
    "sha512-x86_64",
    "sha256-x86_64",
    "curve25519_x25519",
    "curve25519_x25519base",
    "sha3_keccak_f1600",
    "sha3_keccak4_f1600_alt",
    "rdrand-x86_64",
    "aesni-x86_64",
    "aesni-gcm-avx512",
];

/// Limit on the entries of a new list that the present one lacks, percent. A list that lacked 11 %
/// saved 3 % of a login's time, a new one 5 %.
const MAX_MISSING_PERCENT: usize = 5;

/// Builds the program, or uses the one that the arguments name, traces logins and writes the list;
/// `--check` compares the list instead. Returns the exit status.
pub fn run(arguments: &[String]) -> i32 {
    let (is_check, arguments) = match arguments {
        [first, rest @ ..] if first == "--check" => (true, rest),
        all => (false, all),
    };
    let binary = match arguments {
        [] => build(),
        [binary] => PathBuf::from(binary).canonicalize(),
        _ => Err(Error::other("at most one program")),
    };
    let done = binary.and_then(|binary| match is_check {
        true => check(binary),
        false => write(binary),
    });
    match done {
        Ok(summary) => {
            println!("{summary}");
            0
        }
        Err(error) => {
            eprintln!("xtask: {error}");
            1
        }
    }
}

fn build() -> Result<PathBuf> {
    let root = Path::new(ROOT);
    done(
        Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["build", "--release", "-p", "cli"])
            .current_dir(root),
    )?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    target.join("release/fulmar").canonicalize()
}

fn list() -> PathBuf {
    Path::new(ROOT).join("crates/cli/login.ld")
}

/// The functions that logins with `binary` run, in order.
fn watch(binary: PathBuf) -> Result<Vec<Function>> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Error::other("breakpoints are set on x86-64 only"));
    }
    let harness = Harness::new(binary)?;
    let names = harness.names()?;
    Ok(layout::order(harness.watch(&names)?))
}

/// One line of the list for each function.
fn entries(ordered: &[Function]) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    let names = ordered.iter().flat_map(|function| &function.names);
    names
        .map(|name| layout::pattern(name))
        // The name of the section contains `unlikely` if the compiler considers the function
        // unlikely.
        .map(|name| format!("    *(.text.{name} .text.unlikely.{name})\n"))
        .filter(|line| seen.insert(line.clone()))
        .collect()
}

/// Fails if the list lacks too many functions of logins with `binary`.
fn check(binary: PathBuf) -> Result<String> {
    let entries = entries(&watch(binary)?);
    let list = std::fs::read_to_string(list())?;
    let listed: std::collections::HashSet<&str> = list.lines().collect();
    let missing = entries
        .iter()
        .filter(|entry| !listed.contains(entry.trim_end_matches('\n')));
    let (missing, all) = (missing.count(), entries.len());
    let summary = format!("crates/cli/login.ld lacks {missing} of {all} functions of a login");
    if missing * 100 > all * MAX_MISSING_PERCENT {
        return Err(Error::other(format!("{summary}: run cargo xtask order")));
    }
    Ok(summary)
}

fn write(binary: PathBuf) -> Result<String> {
    let ordered = watch(binary)?;
    let windows = |functions: &[Function]| {
        let counts = layout::windows(functions);
        counts.map(|count| count.to_string()).join(", ")
    };
    let mut text = String::from(HEAD);
    text.extend(entries(&ordered));
    for object in ASSEMBLED {
        text.push_str(&format!("    *-{object}.o(.text)\n"));
    }
    text.push_str("  }\n}\nINSERT BEFORE .text;\n");
    std::fs::write(list(), text)?;
    Ok(format!(
        "{} functions; {} will reach {} pieces of 64 KiB of them",
        ordered.len(),
        ROLES.join(", "),
        windows(&ordered)
    ))
}

/// Keys, configuration and traces, in a directory that is removed with this value.
struct Harness {
    folder: PathBuf,
    binary: PathBuf,
    port: u16,
}

impl Drop for Harness {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Harness {
    fn new(binary: PathBuf) -> Result<Harness> {
        let folder = std::env::temp_dir().join(format!("fulmar-order-{}", std::process::id()));
        std::fs::create_dir(&folder)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let harness = Harness {
            folder,
            binary,
            port,
        };
        for key in ["host", "id"] {
            done(
                Command::new(&harness.binary)
                    .args(["keygen", "-q", "-t", "ed25519", "-N", "", "-f"])
                    .arg(harness.path(key)),
            )?;
        }
        let at = |name: &str| harness.path(name).display().to_string();
        std::fs::write(
            harness.path("sshd_config"),
            format!(
                "ListenAddress 127.0.0.1\nPort {}\nHostKey {}\nAuthorizedKeysFile {}\n\
                 StrictModes no\nPidFile none\n",
                harness.port,
                at("host"),
                at("id.pub"),
            ),
        )?;
        std::fs::write(
            harness.path("ssh_config"),
            format!(
                "Host *\nHostName 127.0.0.1\nPort {}\nIdentityFile {}\nIdentitiesOnly yes\n\
                 UserKnownHostsFile {}\nGlobalKnownHostsFile /dev/null\n\
                 StrictHostKeyChecking accept-new\n",
                harness.port,
                at("id"),
                at("known_hosts"),
            ),
        )?;
        done(
            Command::new("cc")
                .args(["-O1", "-o"])
                .arg(harness.path("trace"))
                .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/src/order/trace.c")),
        )?;
        Ok(harness)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Name and size of each function, by its address; a function may have several names.
    fn names(&self) -> Result<HashMap<u64, (Vec<String>, u64)>> {
        let all = Command::new("readelf")
            .arg("-sW")
            .arg(&self.binary)
            .output()?;
        let mut names: HashMap<u64, (Vec<String>, u64)> = HashMap::new();
        for line in String::from_utf8_lossy(&all.stdout).lines() {
            // Num: Value Size Type Bind Vis Ndx Name
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, value, size, "FUNC", _, _, section, name] = words[..] else {
                continue;
            };
            let size = match size.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16),
                None => size.parse(),
            };
            let (Ok(value), Ok(size)) = (u64::from_str_radix(value, 16), size) else {
                continue;
            };
            if section != "UND" && size > 0 {
                let entry = names.entry(value).or_default();
                entry.0.push(name.to_owned());
                entry.1 = size;
            }
        }
        if names.is_empty() {
            return Err(Error::other("readelf knows no function of the program"));
        }
        let addresses: String = names.keys().map(|at| format!("{at:x}\n")).collect();
        std::fs::write(self.path("functions"), addresses)?;
        Ok(names)
    }

    fn traced(&self, out: &str, words: &[&str]) -> Command {
        let mut command = Command::new(self.path("trace"));
        command
            .arg(self.path(out))
            .arg(&self.binary)
            .arg(self.path("functions"))
            .arg(&self.binary)
            .args(words)
            .stdin(Stdio::null());
        command
    }

    /// Three logins: the first to this server, one with the cached server profile, one with
    /// pre-started processes.
    fn watch(&self, names: &HashMap<u64, (Vec<String>, u64)>) -> Result<Vec<Function>> {
        let config = self.path("sshd_config").display().to_string();
        let server = self
            .traced("server", &["sshd", "-D", "-e", "-f", &config])
            .stderr(Stdio::null())
            .spawn()?;
        let server = Running(server);
        self.wait_for_port()?;
        let config = self.path("ssh_config").display().to_string();
        for out in ["first", "second", "third"] {
            // The next pair of processes starts when the listener is idle.
            std::thread::sleep(Duration::from_secs(2));
            done(&mut self.traced(out, &["ssh", "-F", &config, "host", "true"]))?;
        }
        drop(server);
        let mut functions: Vec<Function> = Vec::new();
        let mut index: HashMap<u64, usize> = HashMap::new();
        for out in ["second", "third", "first", "server"] {
            for line in std::fs::read_to_string(self.path(out))?.lines() {
                let Some((role, at)) = line.split_once(' ') else {
                    continue;
                };
                let Some(role) = ROLES.iter().position(|name| *name == role) else {
                    continue;
                };
                let at = u64::from_str_radix(at, 16).map_err(Error::other)?;
                let Some((names, size)) = names.get(&at) else {
                    continue;
                };
                let place = *index.entry(at).or_insert_with(|| {
                    functions.push(Function {
                        names: names.clone(),
                        size: *size,
                        roles: 0,
                        crowded: false,
                    });
                    functions.len() - 1
                });
                if let Some(function) = functions.get_mut(place) {
                    function.roles |= 1 << role;
                }
            }
        }
        match (0..ROLES.len()).find(|role| !functions.iter().any(|f| f.roles >> role & 1 == 1)) {
            Some(role) => Err(Error::other(format!("nothing was seen of {}", ROLES[role]))),
            None => {
                crowded(&mut functions, names);
                Ok(functions)
            }
        }
    }

    fn wait_for_port(&self) -> Result<()> {
        let begun = Instant::now();
        loop {
            match TcpStream::connect(("127.0.0.1", self.port)) {
                Ok(_) => return Ok(()),
                Err(error) if begun.elapsed() > Duration::from_secs(60) => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }
}

/// Marks the functions whose patterns match at least three times the bytes that run.
fn crowded(functions: &mut [Function], names: &HashMap<u64, (Vec<String>, u64)>) {
    let mut all: HashMap<String, u64> = HashMap::new();
    for (names, size) in names.values() {
        for name in names {
            *all.entry(layout::pattern(name)).or_default() += size;
        }
    }
    let mut run: HashMap<String, u64> = HashMap::new();
    for function in functions.iter() {
        for name in &function.names {
            *run.entry(layout::pattern(name)).or_default() += function.size;
        }
    }
    for function in functions {
        function.crowded = function.names.iter().any(|name| {
            let name = layout::pattern(name);
            all.get(&name) > run.get(&name).map(|run| run * 3).as_ref()
        });
    }
}

/// A process that ends when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn done(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    if status.success() {
        return Ok(());
    }
    let program = command.get_program().display();
    Err(Error::other(format!("{program}: {status}")))
}
