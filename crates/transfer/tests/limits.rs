//! The limit that a copy reports: with Fulmar's server and a transport that delays the engine's
//! thread in various ways.

mod adversary;
mod served;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sftp::server::Permits;
use sftp::server::Serve;
use sys::thread::processor_time;
use transfer::engine::{EngineError, Exchange, LinkTimes, Transport};
use transfer::get::{Get, Item as GetItem};
use transfer::options::Options;
use transfer::put::{Item as PutItem, Put};
use transfer::remote::Remote;
use transfer::report::{FileResult, Limit, Report, Times};

use adversary::{Place, bytes};
use served::{Plain, Silent};

/// Delay of each of the first turns, in milliseconds; the longer ones for a busy machine that keeps
/// a thread from its processor as long as the shorter.
const EACH_MS: [u64; 3] = [40, 200, 1000];
const TURNS: usize = 12;
const FILE_BYTES: usize = 2_000_000;

/// The reason of the delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Keeps {
    /// A disk: the thread is blocked and reports no wait.
    Disk,
    Processor,
    /// A wait with idle connections.
    Answers,
    /// A wait while the network accepts no more data.
    Network,
    /// A wait while the peer accepts no more data.
    Peer,
    /// A wait while the connection's thread is running.
    Connection,
}

struct Kept {
    serve: Serve,
    keeps: Option<(Keeps, Duration)>,
    left: usize,
    times: LinkTimes,
}

impl Kept {
    fn keep(&mut self, exchange: &mut dyn Exchange) {
        let Some((keeps, each)) = self.keeps.filter(|_| self.left > 0) else {
            return;
        };
        self.left -= 1;
        if keeps == Keeps::Processor {
            let until = processor_time() + each;
            while processor_time() < until {
                std::hint::spin_loop();
            }
            return;
        }
        let begun = Instant::now();
        std::thread::sleep(each);
        let slept = begun.elapsed();
        let side = match keeps {
            Keeps::Disk => return,
            Keeps::Answers | Keeps::Processor => None,
            Keeps::Network => Some(&mut self.times.network),
            Keeps::Peer => Some(&mut self.times.peer),
            Keeps::Connection => Some(&mut self.times.work),
        };
        if let Some(side) = side {
            *side += slept;
        }
        exchange.waited(slept);
    }
}

impl Transport for Kept {
    fn links(&self) -> usize {
        1
    }

    fn turn(&mut self, exchange: &mut dyn Exchange, _wait: Duration) -> Result<bool, EngineError> {
        self.keep(exchange);
        let mut room = vec![0; 32_768];
        let count = exchange.fill(0, &mut room);
        room.truncate(count);
        self.serve.receive(Bytes::from(room));
        self.serve.work(&mut Plain).unwrap();
        // One per turn, so that both directions take the same number of turns.
        if let Some(buf) = self.serve.outbox().next(usize::MAX, &mut Plain) {
            exchange.feed(0, Bytes::copy_from_slice(buf.payload()))?;
        }
        Ok(true)
    }

    fn times(&self) -> Option<LinkTimes> {
        Some(self.times)
    }
}

#[derive(Default)]
struct Heard {
    times: Times,
    errors: Vec<String>,
}

impl Report for Heard {
    fn ends(&mut self, result: &FileResult) {
        self.errors.extend(result.error.clone());
    }
    fn fails(&mut self, line: &str) {
        self.errors.push(line.to_owned());
    }
    fn says(&mut self, line: &str) {
        self.errors.push(line.to_owned());
    }
    fn tick(&mut self, times: &Times) {
        self.times += *times;
    }
}

fn remote() -> Remote<Kept> {
    let place = sys::fs::PathRoot::everywhere(b"/").unwrap();
    Remote::new(Kept {
        serve: Serve::new(place, Permits::everything(), 500, Box::new(Silent)),
        keeps: None,
        left: TURNS,
        times: LinkTimes::default(),
    })
    .unwrap()
}

fn copy(keeps: (Keeps, Duration), up: bool, from: &Path, to: &Path) -> Times {
    let mut remote = remote();
    remote.engine().transport().keeps = Some(keeps);
    let mut heard = Heard::default();
    if up {
        let items = vec![PutItem {
            from: from.to_path_buf(),
            to: to.as_os_str().as_bytes().to_vec(),
            fresh: true,
        }];
        let mut work = Put::new(Options::default(), items, 1, &mut heard);
        remote.engine().run(&mut work).unwrap();
    } else {
        let items = vec![GetItem {
            from: from.as_os_str().as_bytes().to_vec(),
            to: to.to_path_buf(),
            attributes: None,
        }];
        let mut work = Get::new(Options::default(), items, 1, &mut heard);
        remote.engine().run(&mut work).unwrap();
    }
    assert_eq!(heard.errors, Vec::<String>::new());
    assert_eq!(remote.engine().transport().left, 0, "too few turns");
    assert_eq!(fs::metadata(to).unwrap().len(), 2_000_000);
    heard.times
}

#[test]
fn what_keeps_a_copy_is_told_by_its_name() {
    let place = Place::new("limits");
    let from = place.join("from");
    fs::write(&from, bytes(FILE_BYTES)).unwrap();
    for up in [true, false] {
        for (keeps, limit) in [
            (Keeps::Disk, if up { Limit::Source } else { Limit::Target }),
            (Keeps::Processor, Limit::Cpu),
            (Keeps::Connection, Limit::Cpu),
            (Keeps::Answers, Limit::NetworkOrPeer),
            (Keeps::Network, Limit::Network),
            (Keeps::Peer, Limit::Peer),
        ] {
            // Sleep and running time add up to at least this; if the kernel does not report how
            // long a thread was ready, a busy machine looks like a slow disk.
            let tells = sys::thread::ReadyTime::of_this_thread().total().is_some();
            if keeps == Keeps::Processor && !tells {
                continue;
            }
            let to = place.join("to");
            let mut all = Vec::new();
            let told = EACH_MS.map(Duration::from_millis).into_iter().any(|each| {
                let _ = fs::remove_file(&to);
                let times = copy((keeps, each), up, &from, &to);
                all.push(times);
                let its_own = times.each().into_iter().find(|(each, _)| *each == limit);
                times.limit() == limit && its_own.is_some_and(|(_, time)| time >= each * 11)
            });
            assert!(told, "{keeps:?}, up: {up}: {all:?}");
        }
    }
}
