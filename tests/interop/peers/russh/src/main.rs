//! Rust's crates russh and russh-sftp as a client, for tests/interop: three kinds of keys, a wrong password, commands, a
//! signal, a terminal, forwardings of both directions and to a Unix socket, files, a rekey beside data.
//! tests/interop/tests/tools.rs names the server, the keys and a folder in the environment.

use std::error::Error;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use russh::client::{self, ChannelOpenHandle, Handle};
use russh::keys::{PrivateKeyWithHashAlg, PublicKeyOrCertificate, load_secret_key};
use russh::{Channel, ChannelMsg, Disconnect, Sig};
use russh_sftp::client::SftpSession;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};

type Seen<T = ()> = Result<T, Box<dyn Error>>;

/// Accepts the host key, and gives back what arrives on forwarded connections.
struct Client;

impl client::Handler for Client {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        key: &PublicKeyOrCertificate,
    ) -> Result<bool, Self::Error> {
        Ok(matches!(key, PublicKeyOrCertificate::PublicKey { .. }))
    }

    async fn server_channel_open_forwarded_tcpip(
        &mut self,
        channel: Channel<client::Msg>,
        _: &str,
        _: u32,
        _: &str,
        _: u32,
        reply: ChannelOpenHandle,
        _: &mut client::Session,
    ) -> Result<(), Self::Error> {
        reply.accept().await;
        tokio::spawn(async move {
            let mut stream = channel.into_stream();
            let mut said = [0; 5];
            if stream.read_exact(&mut said).await.is_ok() {
                let _ = stream.write_all(&said.to_ascii_uppercase()).await;
                let _ = stream.shutdown().await;
            }
        });
        Ok(())
    }
}

fn variable(name: &str) -> Seen<String> {
    std::env::var(name).map_err(|error| format!("{name}: {error}").into())
}

async fn connected() -> Seen<Handle<Client>> {
    let address = ("127.0.0.1", variable("T_PORT")?.parse()?);
    Ok(client::connect(Arc::new(client::Config::default()), address, Client).await?)
}

async fn login(key: &str) -> Seen<Handle<Client>> {
    let mut session = connected().await?;
    let key = Arc::new(load_secret_key(variable(key)?, None)?);
    let hash = session.best_supported_rsa_hash().await?.flatten();
    let key = PrivateKeyWithHashAlg::new(key, hash);
    let user = variable("T_USER")?;
    match session.authenticate_publickey(user, key).await?.success() {
        true => Ok(session),
        false => Err("the login failed".into()),
    }
}

/// What a channel said until its end.
#[derive(Default, PartialEq, Debug)]
struct End {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    status: Option<u32>,
    signal: Option<String>,
}

async fn end(mut channel: Channel<client::Msg>) -> End {
    let mut end = End::default();
    while let Some(message) = channel.wait().await {
        match message {
            ChannelMsg::Data { data } => end.stdout.extend_from_slice(&data),
            ChannelMsg::ExtendedData { data, ext: 1 } => end.stderr.extend_from_slice(&data),
            ChannelMsg::ExitStatus { exit_status } => end.status = Some(exit_status),
            ChannelMsg::ExitSignal { signal_name, .. } => {
                end.signal = Some(format!("{signal_name:?}"));
            }
            _ => {}
        }
    }
    end
}

async fn commands(key: &str) -> Seen {
    let session = login(key).await?;
    let channel = session.channel_open_session().await?;
    channel.exec(true, "cat; echo to-error >&2; exit 7").await?;
    let text = vec![b'x'; 300_000];
    channel.data(text.as_slice()).await?;
    channel.eof().await?;
    let seen = end(channel).await;
    assert_eq!((seen.stdout.len(), seen.status), (text.len(), Some(7)));
    assert_eq!(seen.stderr, b"to-error\n");
    // A second session of the connection, during a new key exchange.
    session.rekey_soon().await?;
    let channel = session.channel_open_session().await?;
    channel
        .exec(true, "head -c 5000000 /dev/zero; exit 3")
        .await?;
    let seen = end(channel).await;
    assert_eq!((seen.stdout.len(), seen.status), (5_000_000, Some(3)));
    session
        .disconnect(Disconnect::ByApplication, "", "")
        .await?;
    Ok(())
}

async fn signal_and_terminal(session: &Handle<Client>) -> Seen {
    let mut channel = session.channel_open_session().await?;
    channel.exec(true, "echo ready; exec sleep 1000").await?;
    // The command must be there before the signal.
    loop {
        match channel.wait().await {
            Some(ChannelMsg::Data { .. }) => break,
            Some(_) => {}
            None => return Err("the command ended".into()),
        }
    }
    channel.signal(Sig::TERM).await?;
    assert_eq!(end(channel).await.signal.as_deref(), Some("TERM"));

    let channel = session.channel_open_session().await?;
    channel
        .request_pty(true, "xterm", 90, 30, 0, 0, &[])
        .await?;
    channel.request_shell(true).await?;
    channel
        .data(&b"stty size; echo a$((6*7))b; exit 5\n"[..])
        .await?;
    let seen = end(channel).await;
    let text = String::from_utf8_lossy(&seen.stdout);
    assert!(text.contains("30 90") && text.contains("a42b"), "{text}");
    assert_eq!(seen.status, Some(5));
    Ok(())
}

/// The answer to five bytes through a stream, to its end.
async fn asked<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(
    mut stream: S,
) -> Seen<Vec<u8>> {
    stream.write_all(b"words").await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(answer)
}

/// Answers one connection as [`Client`] answers forwarded ones.
async fn answer<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(mut stream: S) {
    let mut said = [0; 5];
    if stream.read_exact(&mut said).await.is_ok() {
        let _ = stream.write_all(&said.to_ascii_uppercase()).await;
    }
}

async fn forwardings(session: &Handle<Client>, folder: &str) -> Seen {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = u32::from(listener.local_addr()?.port());
    tokio::spawn(async move {
        if let Ok((stream, _)) = listener.accept().await {
            answer(stream).await;
        }
    });
    let channel = session
        .channel_open_direct_tcpip("127.0.0.1", port, "127.0.0.1", 1)
        .await?;
    assert_eq!(asked(channel.into_stream()).await?, b"WORDS");

    let path = format!("{folder}/socket");
    let listener = UnixListener::bind(&path)?;
    tokio::spawn(async move {
        if let Ok((stream, _)) = listener.accept().await {
            answer(stream).await;
        }
    });
    let channel = session.channel_open_direct_streamlocal(path).await?;
    assert_eq!(asked(channel.into_stream()).await?, b"WORDS");

    let port = session.tcpip_forward("127.0.0.1", 0).await?;
    let stream = TcpStream::connect(("127.0.0.1", u16::try_from(port)?)).await?;
    assert_eq!(asked(stream).await?, b"WORDS");
    session.cancel_tcpip_forward("127.0.0.1", port).await?;
    let again = TcpStream::connect(("127.0.0.1", u16::try_from(port)?)).await;
    assert!(again.is_err(), "the port still listens");
    Ok(())
}

async fn files(session: &Handle<Client>, folder: &str) -> Seen {
    let mut data = Vec::new();
    std::fs::File::open(format!("{folder}/data"))?.read_to_end(&mut data)?;
    let channel = session.channel_open_session().await?;
    channel.request_subsystem(true, "sftp").await?;
    let sftp = SftpSession::new(channel.into_stream()).await?;
    let there = format!("{folder}/by-russh");
    let mut file = sftp.create(there.as_str()).await?;
    file.write_all(&data).await?;
    file.shutdown().await?;
    assert!(std::fs::read(&there)? == data, "another content arrived");
    assert!(
        sftp.read(there.as_str()).await? == data,
        "another content was read"
    );
    let mut names: Vec<String> = sftp
        .read_dir(format!("{folder}/tree"))
        .await?
        .map(|entry| entry.file_name())
        .collect();
    let mut expected: Vec<String> = std::fs::read_dir(format!("{folder}/tree"))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    expected.sort();
    assert_eq!(names, expected);
    // Both names in OpenSSH's order (PROTOCOL, 4.1).
    sftp.symlink("data", format!("{folder}/link")).await?;
    assert_eq!(
        std::fs::read_link(format!("{folder}/link"))?,
        Path::new("data")
    );
    sftp.rename(there, format!("{folder}/renamed")).await?;
    let size = sftp.metadata(format!("{folder}/renamed")).await?.size;
    assert_eq!(size, u64::try_from(data.len()).ok());
    sftp.create_dir(format!("{folder}/folder")).await?;
    sftp.remove_dir(format!("{folder}/folder")).await?;
    sftp.close().await?;
    Ok(())
}

async fn all() -> Seen {
    for key in ["T_KEY", "T_RSA_KEY", "T_ECDSA_KEY"] {
        commands(key).await.map_err(|why| format!("{key}: {why}"))?;
    }
    let mut wrong = connected().await?;
    let user = variable("T_USER")?;
    let outcome = wrong.authenticate_password(user, "not this one").await?;
    assert!(!outcome.success(), "a wrong password was accepted");
    let folder = variable("T_DIR")?;
    let session = login("T_KEY").await?;
    signal_and_terminal(&session).await?;
    forwardings(&session, &folder).await?;
    files(&session, &folder).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Seen {
    tokio::time::timeout(Duration::from_secs(100), all()).await?
}
