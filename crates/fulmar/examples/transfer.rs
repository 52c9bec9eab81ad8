//! Copies a file or a directory tree to or from a server, and shows the progress.
//!
//! ```text
//! cargo run --example transfer -- USER KEY_FILE HOST PORT upload|download FROM TO
//! ```
//!
//! The server's key must be in `known_hosts`. TO is the path of the copy itself. The copy is
//! written beside its place and renamed, so that it appears whole or not at all.

use std::error::Error;
use std::io::{Write, stderr};

use fulmar::client::{Auth, Config, Session};
use fulmar::keys::private_file;
use fulmar::sftp::{CopyOptions, Progress, Sftp};

/// One line that is written over again.
fn show(progress: &Progress<'_>) {
    let name = String::from_utf8_lossy(progress.name);
    let total = progress.total_bytes.unwrap_or(progress.bytes).max(1);
    let percent = progress.bytes.saturating_mul(100) / total;
    // A name from the server may hold control characters.
    let _ = write!(stderr(), "\r{percent:3} % {}", name.escape_debug());
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [user, key_file, host, port, direction, from, to] = args.as_slice() else {
        return Err("usage: transfer USER KEY_FILE HOST PORT upload|download FROM TO".into());
    };
    let file = private_file::load(key_file.as_ref())?;
    let key = private_file::parse(&file, None)?.key;
    let mut session = Session::connect(host, port.parse()?, Config::default())?;
    session.authenticate(user, Auth::Key(&key))?;

    let mut sftp = Sftp::open(&session)?;
    let options = CopyOptions {
        recursive: true,
        preserve: true,
        atomic: true,
        ..CopyOptions::default()
    };
    match direction.as_str() {
        "upload" => sftp.upload(from, to, options, show)?,
        "download" => sftp.download(from, to, options, show)?,
        _ => return Err("upload or download?".into()),
    }
    eprintln!();
    Ok(())
}
