//! Copies to and from Fulmar's server, in memory, on real files.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use sftp::server::Permits;
use sftp::server::{Serve, Work};
use transfer::engine::{Engine, EngineError, Exchange, Transport};
use transfer::get::{Get, Item as GetItem};
use transfer::options::{Options, Resume};
use transfer::put::{Item as PutItem, Put};
use transfer::report::{FileResult, Report};

use crate::served::{Plain, Silent};

/// A temporary directory of one test.
pub struct Place(pub PathBuf);

impl Place {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("fulmar-parts-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// Creates an empty directory.
    pub fn empty(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn content(seed: u8, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| seed ^ u8::try_from(at * 7 % 251).unwrap())
        .collect()
}

/// An event after this number of turns of a copy.
#[allow(dead_code, reason = "each of the tests has its own")]
pub enum Event<'e> {
    Nothing,
    /// Something else runs before this turn.
    Runs(usize, &'e mut dyn FnMut()),
    /// The connections end.
    Cut(usize),
    /// Something else runs before each turn.
    Each(&'e mut dyn FnMut()),
}

/// Connections to the server; small pieces are moved each way in a turn.
struct Near<'e> {
    serves: Vec<Serve>,
    event: Event<'e>,
    turns: usize,
}

impl Transport for Near<'_> {
    fn links(&self) -> usize {
        self.serves.len()
    }

    fn turn(&mut self, exchange: &mut dyn Exchange, _wait: Duration) -> Result<bool, EngineError> {
        self.turns += 1;
        match &mut self.event {
            Event::Runs(at, run) if *at == self.turns => run(),
            Event::Cut(at) if *at <= self.turns => return Err(EngineError::Closed),
            Event::Each(run) => run(),
            _ => {}
        }
        let mut moved = false;
        for (link, serve) in self.serves.iter_mut().enumerate() {
            let mut room = vec![0; 300_000];
            let count = exchange.fill(link, &mut room);
            room.truncate(count);
            moved |= count > 0;
            if count > 0 {
                serve.receive(Bytes::from(room));
            }
            let mut left: usize = 300_000;
            while left > 0 {
                let work = serve.work(&mut Plain).unwrap();
                let before = left;
                while left > 0
                    && let Some(buf) = serve.outbox().next(left, &mut Plain)
                {
                    left = left.saturating_sub(buf.payload().len());
                    exchange.feed(link, Bytes::copy_from_slice(buf.payload()))?;
                }
                moved |= left < before;
                if work == Work::Waiting && left == before {
                    break;
                }
            }
        }
        Ok(moved)
    }
}

#[derive(Default)]
pub struct Heard {
    results: Vec<FileResult>,
    lines: Vec<String>,
}

impl Report for Heard {
    fn ends(&mut self, result: &FileResult) {
        self.results.push(result.clone());
    }
    fn fails(&mut self, line: &str) {
        self.lines.push(line.to_owned());
    }
    fn says(&mut self, line: &str) {
        self.lines.push(line.to_owned());
    }
}

/// Copies one file; returns its result.
pub fn copy(
    up: bool,
    from: &Path,
    to: &Path,
    options: &Options,
    links: usize,
    event: Event<'_>,
) -> FileResult {
    let serves = (0..links).map(|_| {
        let place = sys::fs::PathRoot::everywhere(b"/").unwrap();
        Serve::new(place, Permits::everything(), 500, Box::new(Silent))
    });
    let mut engine = Engine::new(Near {
        serves: serves.collect(),
        event,
        turns: 0,
    });
    let mut heard = Heard::default();
    if up {
        let items = vec![PutItem {
            from: from.to_path_buf(),
            to: to.as_os_str().as_bytes().to_vec(),
            fresh: false,
        }];
        let mut work = Put::new(options.clone(), items, links, &mut heard);
        let _ = engine.run(&mut work);
    } else {
        let items = vec![GetItem {
            from: from.as_os_str().as_bytes().to_vec(),
            to: to.to_path_buf(),
            attributes: None,
        }];
        let mut work = Get::new(options.clone(), items, links, &mut heard);
        let _ = engine.run(&mut work);
    }
    // A file that never began has failed.
    heard.results.pop().unwrap_or_else(|| FileResult {
        from: Vec::new(),
        to: Vec::new(),
        bytes: 0,
        resumed_bytes: 0,
        verified: None,
        error: Some(heard.lines.concat()),
    })
}

pub fn spread(resume: Resume) -> Options {
    Options {
        resume,
        ..Options::default()
    }
}
