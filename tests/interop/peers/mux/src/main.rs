//! Rust's crates openssh-mux-client and openssh as passengers of a master, for tests/interop.
//!
//! `mux client PATH TARGET LOCAL REMOTE`: what openssh-mux-client asks the master at PATH for, with
//! forwardings from the ports LOCAL and REMOTE to the port TARGET. `mux exit PATH` ends that master.
//! `mux openssh HOST CONFIG`: the crate openssh starts a master with the `ssh` of PATH. Each prints
//! what it has seen, a line each.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use openssh::{KnownHosts, SessionBuilder, Stdio};
use openssh_mux_client::{
    Connection, EstablishedSession, ForwardType, NonZeroByteVec, Session, SessionStatus, Socket,
    shutdown_mux_master,
};
use tokio::io::AsyncWriteExt;

type Seen = Result<(), Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Seen {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["client", path, target, local, remote] => {
            client(path, target.parse()?, local.parse()?, remote.parse()?).await
        }
        ["exit", path] => {
            shutdown_mux_master(path)?;
            println!("asked to exit");
            Ok(())
        }
        ["openssh", host, config] => openssh_crate(host, config).await,
        _ => Err("usage: mux client|exit|openssh ...".into()),
    }
}

fn tcp(port: u32) -> Socket<'static> {
    Socket::TcpSocket {
        port,
        host: "127.0.0.1".into(),
    }
}

/// The answer to some bytes through a port.
fn through(port: u32) -> Result<String, Box<dyn Error>> {
    let mut stream = TcpStream::connect(("127.0.0.1", u16::try_from(port)?))?;
    stream.write_all(b"words")?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.trim().to_owned())
}

async fn open(
    path: &str,
    command: &str,
    subsystem: bool,
) -> Result<EstablishedSession, Box<dyn Error>> {
    let bytes = NonZeroByteVec::from_bytes_slice_lossy(command.as_bytes());
    let session = Session::builder().cmd(std::borrow::Cow::Borrowed(&*bytes));
    let session = session.subsystem(subsystem).build();
    let connection = Connection::connect(path).await?;
    Ok(connection.open_new_session(&session, &[0, 1, 2]).await?)
}

async fn status(session: EstablishedSession) -> Result<Option<u32>, Box<dyn Error>> {
    match session.wait().await {
        Ok(SessionStatus::Exited { exit_value }) => Ok(exit_value),
        Ok(SessionStatus::TtyAllocFail(_)) => Err("no terminal".into()),
        Err((error, _)) => Err(error.into()),
    }
}

async fn client(path: &str, target: u32, local: u32, remote: u32) -> Seen {
    let mut connection = Connection::connect(path).await?;
    println!("alive {}", connection.send_alive_check().await?);
    for (kind, name, port) in [
        (ForwardType::Local, "local", local),
        (ForwardType::Remote, "remote", remote),
    ] {
        let (listen, to) = (tcp(port), tcp(target));
        connection.request_port_forward(kind, &listen, &to).await?;
        println!("{name} {}", through(port)?);
        connection.close_port_forward(kind, &listen, &to).await?;
        let again = connection.close_port_forward(kind, &listen, &to).await;
        println!("{name} closed, again: {}", again.is_ok());
    }
    println!(
        "status {:?}",
        status(open(path, "exit 7", false).await?).await?
    );
    println!(
        "killed {:?}",
        status(open(path, "kill -9 $$", false).await?).await?
    );
    println!(
        "subsystem {:?}",
        status(open(path, "echo", true).await?).await?
    );
    connection.request_stop_listening().await?;
    println!(
        "stopped, still there: {}",
        std::path::Path::new(path).exists()
    );
    Ok(())
}

async fn openssh_crate(host: &str, config: &str) -> Seen {
    let session = SessionBuilder::default()
        .known_hosts_check(KnownHosts::Strict)
        .config_file(config)
        .connect_mux(host)
        .await?;
    session.check().await?;
    let output = session.command("echo").arg("a  b").output().await?;
    println!("output {:?}", String::from_utf8_lossy(&output.stdout));
    let both = session.shell("echo no >&2; exit 5").output().await?;
    let said = String::from_utf8_lossy(&both.stderr).into_owned();
    println!("status {:?} {said:?}", both.status.code());
    let mut cat = session.command("cat");
    let mut child = cat
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .await?;
    let mut input = child.stdin().take().ok_or("no input")?;
    let bytes = vec![b'x'; 3 << 20];
    let write = async move { input.write_all(&bytes).await };
    // The input ends while the output is read.
    let (written, output) = tokio::join!(write, async {
        let mut output = child.stdout().take().ok_or("no output")?;
        let mut all = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut output, &mut all).await?;
        Ok::<usize, Box<dyn Error>>(all.len())
    });
    written?;
    println!("bytes {}", output?);
    println!("success {}", child.wait().await?.success());
    let missing = session.command("/nonexistent/program").status().await;
    println!("missing {}", missing.is_ok_and(|status| status.success()));
    session.close().await?;
    println!("closed");
    Ok(())
}
