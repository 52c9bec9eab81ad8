//! Lists of hosts: files, standard input and the command line, read on a thread of their own,
//! because standard input may be slow, and only as fast as hosts are scanned.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use escape::{Style, escape};
use keys::address::Cidr;
use sys::epoll::EventFd;

use crate::options::{HostList, KeyscanOptions};

/// Entries that are read in advance.
const READ_AHEAD: usize = 256;
/// Longest line that is read, bytes; a longer one is skipped.
const MAX_LINE_BYTES: u64 = 64 * 1024;

/// An open list of hosts.
pub(crate) enum Input {
    /// The name for messages, and the lines.
    Lines(String, Box<dyn BufRead + Send>),
    Entry(Vec<u8>),
}

/// A host to scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScanTarget {
    /// Names and addresses of the host, separated by commas; the first that answers is scanned.
    pub(crate) addresses: String,
    /// The names to print, separated by commas.
    pub(crate) output: String,
}

/// Opens all files before anything is scanned.
///
/// # Errors
/// The message for the first file that cannot be opened.
pub(crate) fn open(options: &KeyscanOptions) -> Result<Vec<Input>, String> {
    options.lists.iter().map(open_one).collect()
}

fn open_one(list: &HostList) -> Result<Input, String> {
    match list {
        HostList::Stdin => {
            let lines = BufReader::new(io::stdin());
            Ok(Input::Lines("stdin".into(), Box::new(lines)))
        }
        HostList::File(path) => {
            let name = shown(path);
            let file = File::open(Path::new(path)).map_err(|error| read_error(&name, &error))?;
            Ok(Input::Lines(name, Box::new(BufReader::new(file))))
        }
        HostList::Entry(text) => Ok(Input::Entry(text.as_bytes().to_vec())),
    }
}

fn shown(path: &OsStr) -> String {
    escape(path.as_bytes(), Style::Lines)
}

fn read_error(name: &str, error: &io::Error) -> String {
    let words = error.to_string();
    format!("ssh-keyscan: {name}: {}", escape::system_words(&words))
}

/// Reads the lists on a new thread; `wake` is signalled when a target or the end can be received.
/// An error of reading is the last message.
///
/// # Errors
/// The system's error if there can be no thread.
pub(crate) fn start(
    inputs: Vec<Input>,
    wake: Arc<EventFd>,
) -> io::Result<Receiver<Result<ScanTarget, String>>> {
    let (sender, receiver) = sync_channel(READ_AHEAD);
    let reader = Reader { sender, wake };
    thread::Builder::new().name("hosts".into()).spawn(move || {
        for input in inputs {
            if reader.read(input).is_none() {
                return;
            }
        }
    })?;
    Ok(receiver)
}

struct Reader {
    sender: SyncSender<Result<ScanTarget, String>>,
    wake: Arc<EventFd>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        // The receiver sees the end only when the sender is gone.
        let (nobody, _) = sync_channel(0);
        self.sender = nobody;
        let _ = self.wake.signal();
    }
}

impl Reader {
    /// `None` if nothing more is to be read.
    fn read(&self, input: Input) -> Option<()> {
        let (name, mut lines) = match input {
            Input::Entry(text) => return self.send_all(&text),
            Input::Lines(name, lines) => (name, lines),
        };
        loop {
            match next_line(&mut lines) {
                Ok(None) => return Some(()),
                Ok(Some(line)) => self.send_all(entry_of(&line))?,
                Err(error) => {
                    self.send(Err(read_error(&name, &error)));
                    return None;
                }
            }
        }
    }

    fn send_all(&self, entry: &[u8]) -> Option<()> {
        for target in targets(&String::from_utf8_lossy(entry)) {
            self.send(Ok(target))?;
        }
        Some(())
    }

    /// `None` if the scan has ended.
    fn send(&self, message: Result<ScanTarget, String>) -> Option<()> {
        self.sender.send(message).ok()?;
        let _ = self.wake.signal();
        Some(())
    }
}

/// The next line with its end; an empty one in place of a line that is too long.
fn next_line(mut lines: &mut dyn BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    if (&mut lines)
        .take(MAX_LINE_BYTES)
        .read_until(b'\n', &mut line)?
        == 0
    {
        return Ok(None);
    }
    let is_whole = |line: &[u8]| line.ends_with(b"\n") || (line.len() as u64) < MAX_LINE_BYTES;
    if is_whole(&line) {
        return Ok(Some(line));
    }
    loop {
        line.clear();
        (&mut lines)
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut line)?;
        if is_whole(&line) {
            return Ok(Some(Vec::new()));
        }
    }
}

/// The entry of a line: without its comment and the blanks before that or the line's end.
fn entry_of(line: &[u8]) -> &[u8] {
    let end = line.iter().position(|byte| *byte == b'#');
    let entry = line.get(..end.unwrap_or(line.len())).unwrap_or_default();
    let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    let end = entry.iter().rposition(is_text).map_or(0, |last| last + 1);
    entry.get(..end).unwrap_or_default()
}

/// The hosts of an entry: all addresses of a network or, with or without names to print, one host.
fn targets(entry: &str) -> Box<dyn Iterator<Item = ScanTarget>> {
    if let Ok(network) = Cidr::parse(entry) {
        return Box::new(network.addresses().map(|address| ScanTarget {
            addresses: address.to_string(),
            output: address.to_string(),
        }));
    }
    let is_blank = |letter: char| matches!(letter, ' ' | '\t' | '\n');
    let entry = entry.trim_start_matches(is_blank);
    let (addresses, names) = entry.split_once(is_blank).unwrap_or((entry, ""));
    let output = match names {
        "" => addresses,
        names => names,
    };
    let target = ScanTarget {
        addresses: addresses.to_owned(),
        output: output.to_owned(),
    };
    Box::new((!addresses.is_empty()).then_some(target).into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(entry: &str) -> Vec<(String, String)> {
        targets(entry)
            .map(|target| (target.addresses, target.output))
            .collect()
    }

    fn pair(addresses: &str, output: &str) -> Vec<(String, String)> {
        vec![(addresses.into(), output.into())]
    }

    #[test]
    fn entries_are_read_as_by_ssh_keyscan() {
        assert_eq!(found("a.example"), pair("a.example", "a.example"));
        assert_eq!(found("a,b n1,N2"), pair("a,b", "n1,N2"));
        assert_eq!(found("\ta  n"), pair("a", " n"));
        assert_eq!(found("127.1"), pair("127.0.0.1", "127.0.0.1"));
        assert_eq!(found("0:0::1"), pair("::1", "::1"));
        // A network with bits after its mask, or with names, is a name that nobody has.
        assert_eq!(found("192.0.2.1/30"), pair("192.0.2.1/30", "192.0.2.1/30"));
        assert_eq!(found("192.0.2.0/30 n"), pair("192.0.2.0/30", "n"));
        assert_eq!(found("192.0.2.0/30").len(), 4);
        assert_eq!(found(""), []);
        assert_eq!(found(" "), []);
    }

    #[test]
    fn comments_and_line_ends_are_no_part_of_an_entry() {
        assert_eq!(entry_of(b"host n # text # more\n"), b"host n");
        assert_eq!(entry_of(b"# text\n"), b"");
        assert_eq!(entry_of(b" host \t\r\n"), b" host");
        assert_eq!(entry_of(b"\n"), b"");
    }

    #[test]
    fn a_line_without_end_costs_no_memory() {
        let long = vec![b'x'; 200_000];
        let text = [b"first\n".as_slice(), &long, b"\nlast"].concat();
        let mut lines = text.as_slice();
        assert_eq!(next_line(&mut lines).unwrap().unwrap(), b"first\n");
        assert_eq!(next_line(&mut lines).unwrap().unwrap(), b"");
        assert_eq!(next_line(&mut lines).unwrap().unwrap(), b"last");
        assert_eq!(next_line(&mut lines).unwrap(), None);
    }

    #[test]
    fn the_reader_waits_for_the_scan() {
        let wake = Arc::new(EventFd::new().unwrap());
        let inputs = vec![
            Input::Entry(b"::/0".to_vec()),
            Input::Entry(b"never reached".to_vec()),
        ];
        let receiver = start(inputs, wake).unwrap();
        let first = receiver.recv().unwrap().unwrap();
        assert_eq!(first.addresses, "::");
        // Dropping the receiver ends the reader in the middle of the network.
    }
}
