//! The two examples, run against each other.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// Cargo's folder of examples, which is next to the folder of the tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(|deps| deps.parent()).unwrap();
    folder.join("examples").join(name)
}

struct Embedded {
    child: Child,
    port: String,
    host_key: String,
    password: String,
}

impl Embedded {
    fn start() -> Self {
        let mut child = Command::new(example("embed_server"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("examples are built with the tests: cargo test -p fulmar");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut value = |name: &str| {
            let line = lines.next().unwrap().unwrap();
            line.strip_prefix(name).unwrap().to_owned()
        };
        Self {
            port: value("port: "),
            host_key: value("host key: "),
            password: value("password: "),
            child,
        }
    }

    fn run(&self, password: &str, command: &str) -> Output {
        Command::new(example("run_command"))
            .args(["127.0.0.1", &self.port, "mia", command])
            .env("SSH_HOST_KEY", &self.host_key)
            .env("SSH_PASSWORD", password)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

#[test]
fn run_command_logs_in_to_embed_server() {
    let mut server = Embedded::start();
    let output = server.run(&server.password, "echo good day");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.stdout, b"good day\n", "{errors}");
    assert_eq!(output.status.code(), Some(0));

    let output = server.run(&server.password, "reboot");
    assert_eq!(output.stderr, b"no such command\n");
    assert_eq!(output.status.code(), Some(127));

    let output = server.run("guess", "echo no");
    assert_eq!(output.status.code(), Some(255));
    assert!(output.stdout.is_empty());

    // The server ends with its standard input.
    let mut stdin = server.child.stdin.take().unwrap();
    stdin.flush().unwrap();
    drop(stdin);
    assert!(server.child.wait().unwrap().success());
}
