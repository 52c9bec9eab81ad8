//! Measures the echo of keystrokes on one channel while another channel carries bulk data.
//!
//! ```text
//! cargo run --release --example echo_beside_bulk -- HOST PORT USER up|down
//! ```
//!
//! Logs in with the key file that `SSH_KEY` names, or with the agent's keys; the server's key must
//! be in `known_hosts`. Prints the times of 200 echoes without bulk data and 200 with it, or of as
//! many as 30 seconds allow. The bulk channel runs `cat` from /dev/zero or to /dev/null; the other
//! channel runs `cat`, too.

use std::error::Error;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fulmar::client::{Auth, Channel, Config, Session};
use fulmar::keys::private_file;

const KEYSTROKES: usize = 200;
/// Time limit for all echoes on a slow line; fewer are counted then.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two keystrokes; a fast typist takes four times as long.
const PAUSE: Duration = Duration::from_millis(20);
/// Time that the bulk channel gets before the first keystroke.
const START: Duration = Duration::from_secs(2);

fn log_in(session: &mut Session, user: &str) -> Result<(), Box<dyn Error>> {
    if let Some(path) = std::env::var_os("SSH_KEY") {
        let file = private_file::load(path.as_ref())?;
        let key = private_file::parse(&file, None)?.key;
        session.authenticate(user, Auth::Key(&key))?;
    } else {
        session.authenticate(user, Auth::Agent)?;
    }
    Ok(())
}

fn echoes(channel: &mut Channel, what: &str) -> std::io::Result<()> {
    let mut times = Vec::with_capacity(KEYSTROKES);
    let begun = Instant::now();
    while times.len() < KEYSTROKES && begun.elapsed() < PATIENCE {
        let start = Instant::now();
        channel.write_all(b"k")?;
        channel.read_exact(&mut [0])?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(PAUSE);
    }
    times.sort_by(f64::total_cmp);
    let at = |per_cent: usize| times.get((times.len() - 1) * per_cent / 100).copied();
    let [median, high, worst] = [50, 99, 100].map(|share| at(share).unwrap_or_default());
    println!("{what}: median {median:.2} ms, 99 % {high:.2} ms, worst {worst:.2} ms");
    Ok(())
}

/// Moves bytes until told to stop, and counts them.
fn carry(mut bulk: Channel, up: bool, moved: &AtomicU64, done: &AtomicBool) {
    let mut room = vec![0; 64 * 1024];
    while !done.load(Relaxed) {
        let count = if up {
            bulk.write(&room)
        } else {
            bulk.read(&mut room)
        };
        // The thread ends with the connection.
        let Ok(count) = count else { return };
        moved.fetch_add(count as u64, Relaxed);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, user, way] = args.as_slice() else {
        return Err("usage: echo_beside_bulk HOST PORT USER up|down".into());
    };
    let up = way == "up";
    let mut session = Session::connect(host, port.parse()?, Config::default())?;
    log_in(&mut session, user)?;
    let mut echo = session.exec("exec cat")?;
    echoes(&mut echo, "alone")?;

    let command = if up {
        "exec cat >/dev/null"
    } else {
        "exec cat /dev/zero"
    };
    let bulk = session.exec(command)?;
    let (moved, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let (from, outcome) = std::thread::scope(|scope| {
        scope.spawn(|| carry(bulk, up, &moved, &done));
        std::thread::sleep(START);
        let from = (Instant::now(), moved.load(Relaxed));
        let outcome = echoes(&mut echo, &format!("beside bulk {way}"));
        done.store(true, Relaxed);
        (from, outcome)
    });
    outcome?;
    let bytes = moved.load(Relaxed) - from.1;
    let speed = bytes as f64 / from.0.elapsed().as_secs_f64() / f64::from(1 << 20);
    println!("bulk: {speed:.1} MiB/s");
    Ok(())
}
