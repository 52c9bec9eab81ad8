//! The far ends of what is measured, and the chain without SSH: programs that the bench starts
//! from this binary, for itself alone.

use std::io::{self, Write};

use super::relay::{self, FileEnd, FileWay};
use crate::demo::stream;
use crate::hop;

/// The line on standard error by which the far end tells that it runs.
pub(super) const READY: &str = "bench: ready";
/// The beginning of the line by which it tells its own CPU seconds.
pub(super) const CPU: &str = "bench: cpu ";
/// What an end of a copy over plain TCP does with its file.
pub(super) const COMES: &str = "comes";
pub(super) const GOES: &str = "goes";
/// In which form it is on its way.
pub(super) const PLAIN: &str = "plain";
pub(super) const SEALED: &str = "sealed";

fn file_way(way: &str, form: &str) -> FileWay {
    FileWay {
        comes: way == COMES,
        sealed: form == SEALED,
    }
}

/// Runs the role that `words` name, if they name one; gives its exit status.
pub(super) fn run(words: &[&str]) -> Option<i32> {
    let done = match *words {
        ["source", bytes] => end_of_stream(bytes, |total| {
            stream::source(relay::standard(sys::io::stdout())?, total)
        }),
        ["sink", bytes] => end_of_stream(bytes, |total| {
            stream::sink(relay::standard(sys::io::stdin())?, total)
        }),
        ["relay-server", address, command] => relay::serve(address, command),
        ["relay-client", address] => relay::connect(address),
        ["file-server", address, way, form, path] => {
            relay::file(FileEnd::Server, address, file_way(way, form), path)
        }
        ["file-client", address, way, form, path] => {
            relay::file(FileEnd::Client, address, file_way(way, form), path)
        }
        ["hop", address, target] => hop(address, target),
        _ => return None,
    };
    Some(match done {
        Ok(status) => status,
        Err(error) => {
            eprintln!("fulmar bench: {error}");
            1
        }
    })
}

fn hop(address: &str, target: &str) -> io::Result<i32> {
    let (Ok(address), Ok(target)) = (address.parse(), target.parse()) else {
        return Err(io::Error::other("not an address and a target"));
    };
    hop::hop(address, target)?;
    Ok(0)
}

fn end_of_stream(bytes: &str, work: impl FnOnce(u64) -> io::Result<()>) -> io::Result<i32> {
    let Ok(total) = bytes.parse() else {
        eprintln!("fulmar bench: not a number of bytes: {bytes}");
        return Ok(2);
    };
    tell(READY)?;
    let before = sys::process::own_usage()?;
    for end in [sys::io::stdin(), sys::io::stdout()] {
        // A terminal or a file has no size to ask for.
        let _ = sys::io::set_pipe_size(end, relay::PIPE_BYTES);
    }
    work(total)?;
    let used = sys::process::own_usage()?.total() - before.total();
    tell(&format!("{CPU}{:.6}", used.as_secs_f64()))?;
    Ok(0)
}

/// One line on standard error, in one write.
fn tell(line: &str) -> io::Result<()> {
    io::stderr().write_all(format!("{line}\n").as_bytes())
}
