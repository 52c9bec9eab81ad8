//! One bulk transfer through one chain: source, client, server, sink, and what it took.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Instant;

use super::figures::Cpu;
use super::options::{BenchDirection, BenchTransport};
use super::relay::{self, PIPE_BYTES, TOKEN_VARIABLE};
use super::roles;
use super::rounds::{Miss, Sample};
use super::words::{STUCK_LIMIT, Said, StderrReader, Watch, kill};
use crate::demo::stream;
use crate::harness::{self, Directory, Harness, ServerHost, Suite, Wishes};

/// What goes where.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transfer<'a> {
    pub(super) way: BenchTransport,
    pub(super) direction: BenchDirection,
    pub(super) bytes: u64,
    /// The files of [`BenchTransport::File`] and [`BenchTransport::Null`].
    pub(super) files: &'a TransferFiles,
}

/// A file that is sent and the place of the one that arrives, in memory where that can be had.
#[derive(Debug)]
pub(super) struct TransferFiles {
    directory: Directory,
}

impl TransferFiles {
    /// The directory; the file to send is written by [`TransferFiles::fill`].
    pub(super) fn new() -> io::Result<Self> {
        let memory = Path::new("/dev/shm");
        let directory = match Directory::new(memory) {
            Ok(directory) => directory,
            Err(_) => Directory::new(&std::env::temp_dir())?,
        };
        Ok(Self { directory })
    }

    /// Writes the file to send: the stamped stream.
    pub(super) fn fill(&self, bytes: u64) -> io::Result<()> {
        stream::source(File::create(self.sent())?, bytes)
    }

    pub(super) fn sent(&self) -> PathBuf {
        self.directory.path().join("sent")
    }

    /// A file beside them.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn arrived(&self) -> PathBuf {
        self.directory.path().join("arrived")
    }

    /// Whether what arrived is what was sent; takes it away.
    fn check(&self) -> Result<(), String> {
        let same = same_bytes(&self.sent(), &self.arrived()).map_err(text)?;
        std::fs::remove_file(self.arrived()).map_err(text)?;
        match same {
            true => Ok(()),
            false => Err("the arrived bytes differ from the sent ones".into()),
        }
    }
}

/// Whether two files hold the same.
pub(super) fn same_bytes(one: &Path, other: &Path) -> io::Result<bool> {
    let mut files = [File::open(one)?, File::open(other)?];
    if files[0].metadata()?.len() != files[1].metadata()?.len() {
        return Ok(false);
    }
    let mut blocks = [vec![0; stream::BLOCK_BYTES], vec![0; stream::BLOCK_BYTES]];
    loop {
        let count = files[0].read(&mut blocks[0])?;
        if count == 0 {
            return Ok(true);
        }
        let [one, other] = &mut blocks;
        let (Some(one), Some(other)) = (one.get(..count), other.get_mut(..count)) else {
            return Ok(false);
        };
        files[1].read_exact(other)?;
        if one != other {
            return Ok(false);
        }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Both ends of a chain, ready to be started.
pub(super) enum Chain<'a> {
    /// `suite`'s client against the harness's server.
    Ssh {
        harness: &'a mut Harness,
        suite: &'a Suite,
        wishes: &'a Wishes,
    },
    /// The relay, with its server at a place.
    Plain { server: &'a ServerHost },
}

impl<'a> Chain<'a> {
    /// `suite`'s client against the server of `harness`, if that started.
    pub(super) fn ssh(
        harness: &'a mut Result<Harness, String>,
        suite: &'a Suite,
        wishes: &'a Wishes,
    ) -> Result<Self, Miss> {
        Ok(Chain::Ssh {
            harness: harness.as_mut().map_err(|why| Miss::Failed(why.clone()))?,
            suite,
            wishes,
        })
    }
}

/// Runs one transfer with the near end at `near`.
pub(super) fn run(
    transfer: &Transfer<'_>,
    chain: &mut Chain<'_>,
    near: &ServerHost,
) -> Result<(Sample, Said), Miss> {
    let command = remote_command(transfer)?;
    let result = match chain {
        Chain::Ssh {
            harness,
            suite,
            wishes,
        } => {
            let flags = suite.flags(wishes).map_err(Miss::Absent)?;
            let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            if wishes.compress {
                // It tells at the end what came of it.
                flags.push("-v");
            }
            harness.serve().map_err(text)?;
            let mut client = harness.client(suite, &flags, &command);
            client.stderr(Stdio::piped());
            let ran = near_end(transfer, client, None, near);
            let server = harness.stop().map_err(text)?;
            ran.map(|ran| (ran, server))
                .map_err(|why| harness.complaint(why))
        }
        Chain::Plain { server } => {
            let ends = relay_ends(("relay-server", &[&command]), "relay-client", server)?;
            let ran = near_end(transfer, ends.near, Some(ends.words), near);
            if ran.is_err() {
                // A client that failed may leave it waiting.
                kill(ends.far.id());
            }
            let (_, used) = sys::process::wait_usage(ends.far).map_err(text)?;
            ran.map(|ran| (ran, used.total()))
        }
    };
    if transfer.way == BenchTransport::File {
        transfer.files.check()?;
    }
    let (ran, server) = result?;
    #[allow(clippy::cast_precision_loss)]
    let mib = transfer.bytes as f64 / f64::from(1 << 20);
    let gib = mib / 1024.0;
    let sample = Sample {
        value: mib / ran.seconds,
        cpu: Some(Cpu {
            client: ran.client_cpu / gib,
            server: (server.as_secs_f64() - ran.said.cpu) / gib,
        }),
    };
    Ok((sample, ran.said))
}

/// What runs at the far end. Its first word is that it runs.
fn remote_command(transfer: &Transfer<'_>) -> Result<String, String> {
    let ready = format!("echo '{}' >&2; exec", roles::READY);
    let own = harness::own_binary_quoted().map_err(text)?;
    let bytes = transfer.bytes;
    let (sent, arrived) = (transfer.files.sent(), transfer.files.arrived());
    Ok(match (transfer.direction, transfer.way) {
        (BenchDirection::Up, BenchTransport::Pipes | BenchTransport::Null) => {
            format!("{ready} cat >/dev/null")
        }
        (BenchDirection::Up, BenchTransport::File) => {
            format!("{ready} cat >'{}'", arrived.display())
        }
        (BenchDirection::Up, BenchTransport::Own) => format!("exec {own} bench sink {bytes}"),
        (BenchDirection::Down, BenchTransport::Pipes) => {
            format!("{ready} head -c {bytes} /dev/zero")
        }
        (BenchDirection::Down, BenchTransport::File | BenchTransport::Null) => {
            format!("{ready} cat '{}'", sent.display())
        }
        (BenchDirection::Down, BenchTransport::Own) => format!("exec {own} bench source {bytes}"),
    })
}

/// The chain without SSH, of which the far end runs.
pub(super) struct RelayEnd {
    pub(super) far: Child,
    /// The far end's standard error.
    pub(super) words: ChildStderr,
    pub(super) near: Command,
}

/// Starts the relay's far end in its role, with these arguments after its address; the near end
/// also has a role and receives the address.
pub(super) fn relay_ends(
    (far_role, words): (&str, &[&str]),
    near_role: &str,
    server: &ServerHost,
) -> Result<RelayEnd, String> {
    let own = std::env::current_exe().map_err(text)?;
    let token = relay::new_token();
    let address = server.address();
    let mut far = Command::new(&own);
    far.args(["bench", far_role, &address.to_string()])
        .args(words)
        .env(TOKEN_VARIABLE, &token)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = server.spawn(far).map_err(text)?;
    let mut port = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut port).map_err(text)?;
    }
    let words = child.stderr.take().ok_or("no pipe")?;
    let mut near = Command::new(own);
    near.args(["bench", near_role])
        .arg(format!("{address}:{}", port.trim()))
        .env(TOKEN_VARIABLE, &token)
        .stderr(Stdio::inherit());
    Ok(RelayEnd {
        far: child,
        words,
        near,
    })
}

/// What the near end of a transfer took.
struct Ran {
    /// From the far end's first word to the end of the last process.
    seconds: f64,
    client_cpu: f64,
    said: Said,
}

/// Starts `client` between its source and its sink, and waits for all of it. The far end's words
/// come from `words`, or from the client's standard error.
fn near_end(
    transfer: &Transfer<'_>,
    mut client: Command,
    words: Option<ChildStderr>,
    near: &ServerHost,
) -> Result<Ran, String> {
    let mut helper = wire(transfer, &mut client, near)?;
    let mut client = near.spawn(client).map_err(text)?;
    let words = match words.or_else(|| client.stderr.take()) {
        Some(stderr) => StderrReader::listen(stderr),
        None => return Err("no pipe".into()),
    };
    let watch = Watch::start(client.id());
    let bytes = transfer.bytes;
    let stdin = client.stdin.take();
    let stdout = client.stdout.take();
    let own = std::thread::spawn(move || match (stdin, stdout) {
        (Some(stdin), _) => {
            let _ = sys::io::set_pipe_size(&stdin, PIPE_BYTES);
            stream::source(stdin, bytes)
        }
        (None, Some(stdout)) => {
            let _ = sys::io::set_pipe_size(&stdout, PIPE_BYTES);
            stream::sink(stdout, bytes)
        }
        (None, None) => Ok(()),
    });
    let waited = sys::process::wait_usage(client).map_err(text);
    let worked = own.join().map_err(|_| "the near end panicked")?;
    if let Some(helper) = &mut helper {
        helper.wait().map_err(text)?;
    }
    let end = Instant::now();
    let stuck = watch.stop();
    let said = words.all();
    let (status, usage) = waited?;
    if stuck {
        return Err(format!("stuck for {} s", STUCK_LIMIT.as_secs()));
    }
    if !status.is_success() {
        return Err(said.complaint(&format!("{status:?}")));
    }
    worked.map_err(|error| said.complaint(&error.to_string()))?;
    let ready = said
        .ready
        .ok_or_else(|| said.complaint("the far end has not reported its start"))?;
    Ok(Ran {
        seconds: end.duration_since(ready).as_secs_f64(),
        client_cpu: usage.total().as_secs_f64(),
        said,
    })
}

/// Gives the client its input and output; starts `head` or `cat` where they are a part of the
/// way.
fn wire(
    transfer: &Transfer<'_>,
    client: &mut Command,
    near: &ServerHost,
) -> Result<Option<Child>, String> {
    client.stdin(Stdio::null()).stdout(Stdio::null());
    let files = transfer.files;
    match (transfer.direction, transfer.way) {
        (BenchDirection::Up, BenchTransport::Pipes) => {
            let mut head = Command::new("head");
            head.args(["-c", &transfer.bytes.to_string(), "/dev/zero"])
                .stdin(Stdio::null())
                .stdout(Stdio::piped());
            let mut head = near.spawn(head).map_err(text)?;
            client.stdin(head.stdout.take().ok_or("no pipe")?);
            return Ok(Some(head));
        }
        (BenchDirection::Down, BenchTransport::Pipes) => {
            let mut cat = Command::new("cat");
            cat.stdin(Stdio::piped()).stdout(Stdio::null());
            let mut cat = near.spawn(cat).map_err(text)?;
            client.stdout(cat.stdin.take().ok_or("no pipe")?);
            return Ok(Some(cat));
        }
        (BenchDirection::Up, BenchTransport::Own) => {
            client.stdin(Stdio::piped());
        }
        (BenchDirection::Down, BenchTransport::Own) => {
            client.stdout(Stdio::piped());
        }
        (BenchDirection::Up, BenchTransport::File | BenchTransport::Null) => {
            client.stdin(File::open(files.sent()).map_err(text)?);
        }
        (BenchDirection::Down, BenchTransport::File) => {
            client.stdout(File::create(files.arrived()).map_err(text)?);
        }
        (BenchDirection::Down, BenchTransport::Null) => {}
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_arrived_otherwise_is_told_and_taken_away() {
        let files = TransferFiles::new().unwrap();
        let bytes = stream::BLOCK_BYTES as u64 + 100;
        files.fill(bytes).unwrap();
        let sent = std::fs::read(files.sent()).unwrap();
        let arrive = |bytes: &[u8]| {
            std::fs::write(files.arrived(), bytes).unwrap();
            let checked = files.check();
            assert!(!files.arrived().exists());
            checked
        };
        assert_eq!(arrive(&sent), Ok(()));
        for index in [0, stream::BLOCK_BYTES, sent.len() - 1] {
            let mut changed = sent.clone();
            changed[index] ^= 1;
            assert!(arrive(&changed).is_err(), "byte {index}");
        }
        assert!(arrive(&sent[1..]).is_err());
        assert!(arrive(&[&sent[..], b"x"].concat()).is_err());
        // Nothing arrived at all.
        assert!(files.check().is_err());
    }
}
