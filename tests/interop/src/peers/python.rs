//! asyncssh and paramiko. A client is a process that reads one task per line, because importing
//! them takes longer than a login; it answers with a line of the same form, `name=value` separated
//! by tabs.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::Instant;

use super::{Client, Order, Running, Server};
use crate::fixture;
use crate::process::{Background, COMMAND_LIMIT, Daemon, Input, Outcome, Stream, tool};
use crate::scratch::{Scratch, free_port};
use crate::suite::Algorithms;

/// A client in Python.
pub struct PythonClient {
    library: &'static str,
    /// Idle workers.
    idle: Mutex<Vec<Worker>>,
}

/// asyncssh as a server.
#[derive(Clone, Copy, Debug)]
pub struct AsyncsshServer;

/// paramiko as a server: one Ed25519 host key, and its library's algorithms.
#[derive(Clone, Copy, Debug)]
pub struct ParamikoServer;

fn python() -> Result<PathBuf, String> {
    let path = fixture::target_folder().join("peers-venv/bin/python");
    if path.is_file() {
        Ok(path)
    } else {
        Err("run .ci/peers to install it".into())
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("peers")
        .join(name)
}

/// A script for these libraries.
///
/// # Errors
/// If they are not installed.
pub fn script_command(name: &str) -> Result<Command, String> {
    let mut command = Command::new(python()?);
    command.arg(script(name));
    Ok(command)
}

/// The algorithms that a library reports.
fn offers(
    library: &str,
    cell: &OnceLock<Result<Algorithms, String>>,
) -> Result<Algorithms, String> {
    cell.get_or_init(|| {
        let text = tool(
            &python()?,
            &[script("offers.py").as_os_str(), library.as_ref()],
        )
        .map_err(|error| error.lines().last().unwrap_or_default().to_owned())?;
        let list = |name: &str| -> Vec<String> {
            text.lines()
                .filter_map(|line| line.split_once('\t'))
                .find(|(key, _)| *key == name)
                .map(|(_, names)| names.split(',').map(str::to_owned).collect())
                .unwrap_or_default()
        };
        let algorithms = Algorithms {
            kex: list("kex"),
            host_keys: list("host_keys"),
            ciphers: list("ciphers"),
            macs: list("macs"),
            compression: list("compression"),
        };
        Ok(fixture::with_host_keys(algorithms.usable()))
    })
    .clone()
}

impl PythonClient {
    /// A client by the name of its library.
    #[must_use]
    pub fn new(library: &'static str) -> Self {
        Self {
            library,
            idle: Mutex::default(),
        }
    }
}

impl Client for PythonClient {
    fn name(&self) -> String {
        self.library.to_owned()
    }

    fn offers(&self) -> Result<Algorithms, String> {
        static ASYNCSSH: OnceLock<Result<Algorithms, String>> = OnceLock::new();
        static PARAMIKO: OnceLock<Result<Algorithms, String>> = OnceLock::new();
        let cell = if self.library == "asyncssh" {
            &ASYNCSSH
        } else {
            &PARAMIKO
        };
        offers(self.library, cell)
    }

    fn chooses(&self) -> bool {
        true
    }

    fn run(&self, order: &Order<'_>) -> Result<Outcome, String> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let mut worker = match idle {
            Some(worker) => worker,
            None => Worker::start(self.library)?,
        };
        let started = Instant::now();
        // A worker that does not answer is killed when it is dropped.
        let answer = worker.ask(&line(order))?;
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(worker);
        let field = |name: &str| {
            answer
                .split('\t')
                .filter_map(|part| part.split_once('='))
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.to_owned())
                .unwrap_or_default()
        };
        if !field("error").is_empty() {
            return Err(field("error"));
        }
        let stream = |name: &str| Stream {
            head: unhex(&field(&format!("{name}_head"))),
            length: field(&format!("{name}_length")).parse().unwrap_or(0),
            sha256: field(&format!("{name}_sha256")),
        };
        Ok(Outcome {
            status: field("status")
                .parse()
                .map_err(|_| format!("no status in {answer:?}"))?,
            stdout: stream("stdout"),
            stderr: stream("stderr"),
            took: started.elapsed(),
        })
    }
}

fn line(order: &Order<'_>) -> String {
    let mut line = format!(
        "port={}\tuser={}\tidentity={}\tknown_hosts={}\tcommand={}",
        order.port,
        order.user,
        fixture::file(order.identity).display(),
        order.known_hosts.display(),
        order.command,
    );
    let lists = [
        ("kex", &order.offer.kex),
        ("host_keys", &order.offer.host_keys),
        ("ciphers", &order.offer.ciphers),
        ("macs", &order.offer.macs),
        ("compression", &order.offer.compression),
    ];
    for (name, names) in lists {
        line.push_str(&format!("\t{name}={}", names.join(",")));
    }
    if let Some(bytes) = order.rekey_bytes {
        line.push_str(&format!("\trekey_bytes={bytes}"));
    }
    if let Input::File(path) = order.input {
        line.push_str(&format!("\tinput={}", path.display()));
    }
    line
}

struct Worker {
    process: Background,
    answers: mpsc::Receiver<String>,
}

impl Worker {
    fn start(library: &str) -> Result<Self, String> {
        let mut command = Command::new(python()?);
        command
            .arg(script(&format!("{library}_client.py")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = Background::start(&mut command).map_err(|error| error.to_string())?;
        let output = process.0.stdout.take().ok_or("no output")?;
        let (send, answers) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { return };
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { process, answers })
    }

    fn ask(&mut self, line: &str) -> Result<String, String> {
        let input = self.process.0.stdin.as_mut().ok_or("no input")?;
        writeln!(input, "{line}").map_err(|error| error.to_string())?;
        input.flush().map_err(|error| error.to_string())?;
        self.answers
            .recv_timeout(COMMAND_LIMIT)
            .map_err(|_| "no answer: it hangs or has crashed".to_owned())
    }
}

impl Server for AsyncsshServer {
    fn name(&self) -> String {
        "asyncssh server".into()
    }

    fn offers(&self) -> Result<Algorithms, String> {
        PythonClient::new("asyncssh").offers()
    }

    /// asyncssh 2.24.1 keeps the signature algorithm of a connection in the key that all
    /// connections share: of two RSA logins at once, one may get the other's kind of signature.
    fn logins_at_once(&self) -> usize {
        1
    }

    fn start(&self, offer: &Algorithms, rekey_bytes: Option<u64>) -> Result<Running, String> {
        let mut options = Vec::new();
        let mut option = |name: &str, value: String| options.push(format!("{name}={value}"));
        option("kex", offer.kex.join(","));
        option("host_keys", offer.host_keys.join(","));
        option("ciphers", offer.ciphers.join(","));
        option("macs", offer.macs.join(","));
        option("compression", offer.compression.join(","));
        if let Some(bytes) = rekey_bytes {
            option("rekey_bytes", bytes.to_string());
        }
        serve("asyncssh_server.py", &options)
    }
}

impl Server for ParamikoServer {
    fn name(&self) -> String {
        "paramiko server".into()
    }

    fn offers(&self) -> Result<Algorithms, String> {
        PythonClient::new("paramiko").offers()
    }

    /// Its algorithms cannot be configured.
    fn start(&self, _: &Algorithms, _: Option<u64>) -> Result<Running, String> {
        serve("paramiko_server.py", &[])
    }
}

/// Starts one of our server scripts with these options and those that all have.
fn serve(name: &str, options: &[String]) -> Result<Running, String> {
    let scratch = Scratch::new();
    let port = free_port();
    let known = fixture::known_hosts(&format!("[127.0.0.1]:{port}"));
    let known_hosts = scratch.write("known_hosts", known);
    let authorized = scratch.write("authorized_keys", fixture::authorized_keys());
    let mut command = Command::new(python()?);
    command
        .arg(script(name))
        .arg(format!("port={port}"))
        .arg(format!("keys={}", fixture::folder().display()))
        .arg(format!("authorized_keys={}", authorized.display()))
        .args(options);
    let daemon = Daemon::start(&mut command, port, scratch)?;
    Ok(Running::of_this_user(daemon, known_hosts))
}

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .filter_map(|pair| u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}
