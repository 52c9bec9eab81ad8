//! The chain without SSH: standard input and output of a command over plain TCP, through the
//! same pipes as SSH's, with reads and writes as large; and from file to file, without any pipe.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use crypto::cipher::{CipherAlgorithm, GcmKey};

/// The variable that tells both ends the secret which keeps strangers out, in hexadecimal.
pub(super) const TOKEN_VARIABLE: &str = "FULMAR_BENCH_TOKEN";
/// Room asked for in pipes that carry bulk, bytes: what the driver asks for in ours.
pub(super) const PIPE_BYTES: usize = 256 << 10;
/// Bytes of a read and a write.
const BUFFER_BYTES: usize = 256 << 10;
const TAG_BYTES: usize = 16;
/// Bytes of the secret.
const TOKEN_BYTES: usize = 32;

fn token() -> io::Result<[u8; TOKEN_BYTES]> {
    let text = std::env::var(TOKEN_VARIABLE).unwrap_or_default();
    text.as_bytes()
        .try_into()
        .map_err(|_| io::Error::other("this command is an internal part of fulmar bench"))
}

/// A secret for one pair of ends.
pub(super) fn new_token() -> String {
    let random: [u8; TOKEN_BYTES / 2] = crypto::random::bytes();
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Listens on `address`, prints the port, and gives the first connection that knows the secret.
fn listen(address: &str) -> io::Result<TcpStream> {
    let token = token()?;
    let listener = TcpListener::bind((address, 0))?;
    println!("{}", listener.local_addr()?.port());
    accepted(&listener, &token)
}

/// Connects to the server at `address` and tells it the secret.
fn reach(address: &str) -> io::Result<TcpStream> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    socket.write_all(&token()?)?;
    Ok(socket)
}

/// Listens on `address`, prints the port, and joins the first connection that knows the secret
/// with `command`; gives the command's exit status.
pub(super) fn serve(address: &str, command: &str) -> io::Result<i32> {
    let mut socket = listen(address)?;
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .env_remove(TOKEN_VARIABLE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("no pipes"));
    };
    widen(&stdin);
    widen(&stdout);
    let from_socket = socket.try_clone()?;
    let upward = std::thread::spawn(move || copy(from_socket, stdin));
    copy(stdout, &mut socket)?;
    // The command has closed its output: what still comes is for nobody.
    let status = child.wait()?;
    socket.shutdown(Shutdown::Write)?;
    match upward.join() {
        Ok(Ok(())) => Ok(status.code().unwrap_or(1)),
        Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Ok(status.code().unwrap_or(1))
        }
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::Error::other("the upward half panicked")),
    }
}

/// The first connection that begins with the secret.
fn accepted(listener: &TcpListener, token: &[u8; TOKEN_BYTES]) -> io::Result<TcpStream> {
    loop {
        let (mut socket, _) = listener.accept()?;
        socket.set_nodelay(true)?;
        let mut said = [0; TOKEN_BYTES];
        if socket.read_exact(&mut said).is_ok() && said == *token {
            return Ok(socket);
        }
    }
}

/// Joins standard input and output with the server at `address`; ends when the server has closed.
pub(super) fn connect(address: &str) -> io::Result<i32> {
    let socket = reach(address)?;
    let mut to_socket = socket.try_clone()?;
    widen(sys::io::stdin());
    widen(sys::io::stdout());
    std::thread::spawn(move || {
        // Where it fails the other half meets the end, too.
        if standard(sys::io::stdin())
            .and_then(|stdin| copy(stdin, &mut to_socket))
            .is_ok()
        {
            let _ = to_socket.shutdown(Shutdown::Write);
        }
    });
    copy(socket, standard(sys::io::stdout())?)?;
    Ok(0)
}

/// Whose part of a copy from file to file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileEnd {
    /// Listens at this address.
    Server,
    /// Connects to it.
    Client,
}

/// Where a file goes, and in which form.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileWay {
    /// True if received bytes are written to the file; false if the file is sent.
    pub(super) comes: bool,
    /// It is on its way in AES-GCM.
    pub(super) sealed: bool,
}

/// One end of a copy of the file `path`. Ends when the other end has it all.
pub(super) fn file(end: FileEnd, address: &str, way: FileWay, path: &str) -> io::Result<i32> {
    let mut socket = match end {
        FileEnd::Server => listen(address)?,
        FileEnd::Client => reach(address)?,
    };
    if way.comes {
        let mut file = File::create(path)?;
        match way.sealed {
            true => opened_blocks(&mut socket, &mut file)?,
            false => whole_blocks(&mut socket, &mut file)?,
        }
        socket.shutdown(Shutdown::Write)?;
        return Ok(0);
    }
    let mut file = File::open(path)?;
    match way.sealed {
        true => sealed_blocks(&mut file, &mut socket)?,
        false => whole_blocks(&mut file, &mut socket)?,
    }
    socket.shutdown(Shutdown::Write)?;
    match socket.read(&mut [0])? {
        0 => Ok(0),
        _ => Err(io::Error::other("the other end sent something")),
    }
}

/// Copies in blocks that are full, but for the last: a file system works by pages.
fn whole_blocks(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let block = fill(from, &mut buffer)?;
        to.write_all(block)?;
        if block.len() < BUFFER_BYTES {
            return Ok(());
        }
    }
}

/// Reads until `buffer` is full or nothing more comes; gives what came.
fn fill<'b>(from: &mut impl Read, buffer: &'b mut [u8]) -> io::Result<&'b mut [u8]> {
    let mut filled = 0;
    while let Some(room) = buffer.get_mut(filled..).filter(|room| !room.is_empty()) {
        match from.read(room) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(buffer.get_mut(..filled).unwrap_or_default())
}

/// The key is everybody's: what is measured is the work.
fn key() -> io::Result<GcmKey> {
    let key = GcmKey::new(CipherAlgorithm::Aes128Gcm, &[0; 16], &[0; 12]);
    key.map_err(|error| io::Error::other(error.to_string()))
}

/// Copies in blocks, each sealed in place and followed by its tag.
fn sealed_blocks(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let key = key()?;
    let mut buffer = vec![0; BUFFER_BYTES + TAG_BYTES];
    for count in 0.. {
        let (block, _) = buffer.split_at_mut(BUFFER_BYTES);
        let block = fill(from, block)?;
        let len = block.len();
        let tag = key.seal(count, [0; 4], block);
        if let Some(room) = buffer.get_mut(len..len + TAG_BYTES) {
            room.copy_from_slice(&tag);
        }
        to.write_all(buffer.get(..len + TAG_BYTES).unwrap_or_default())?;
        if len < BUFFER_BYTES {
            break;
        }
    }
    Ok(())
}

/// The other end of [`sealed_blocks`].
fn opened_blocks(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let key = key()?;
    let mut buffer = vec![0; BUFFER_BYTES + TAG_BYTES];
    for count in 0.. {
        let Some((block, tag)) = fill(from, &mut buffer)?.split_last_chunk_mut() else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        key.open(count, [0; 4], block, tag)
            .map_err(|error| io::Error::other(error.to_string()))?;
        to.write_all(block)?;
        if block.len() < BUFFER_BYTES {
            break;
        }
    }
    Ok(())
}

/// A standard stream without `std`'s buffer, which looks for line ends.
pub(super) fn standard(fd: std::os::fd::BorrowedFd<'static>) -> io::Result<File> {
    Ok(File::from(sys::io::dup(fd)?))
}

fn widen(pipe: impl std::os::fd::AsFd) {
    // Only pipes have a size, and the default is enough if 1 MiB is refused.
    let _ = sys::io::set_pipe_size(pipe, PIPE_BYTES);
}

fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return to.flush(),
            Ok(count) => to.write_all(buffer.get(..count).unwrap_or_default())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
