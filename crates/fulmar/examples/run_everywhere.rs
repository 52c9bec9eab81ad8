//! Runs a command on many hosts at once, and prints each host's output with its name.
//!
//! ```text
//! cargo run --example run_everywhere -- USER KEY_FILE COMMAND HOST:PORT...
//! ```
//!
//! The hosts' keys must be in `known_hosts`. Exits with 1 if the command failed on any host.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use fulmar::client::{Auth, Config, Output, Session};
use fulmar::keys::{PrivateKey, private_file};

/// Connections at a time.
const AT_ONCE: usize = 32;

fn run(host: &str, user: &str, key: &PrivateKey, command: &str) -> Result<Output, Box<dyn Error>> {
    let (name, port) = host.rsplit_once(':').ok_or("write HOST:PORT")?;
    let mut session = Session::connect(name, port.parse()?, Config::default())?;
    let start = session.authenticate_and_start(user, Auth::Key(key));
    Ok(start.run(command)?)
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [user, key_file, command, hosts @ ..] = args.as_slice() else {
        return Err("usage: run_everywhere USER KEY_FILE COMMAND HOST:PORT...".into());
    };
    let file = private_file::load(key_file.as_ref())?;
    let key = private_file::parse(&file, None)?.key;

    let (queue, failed) = (Mutex::new(hosts.iter()), AtomicBool::new(false));
    let work = || {
        let next = || queue.lock().ok()?.next();
        while let Some(host) = next() {
            match run(host, user, &key, command) {
                Ok(output) => {
                    let text = String::from_utf8_lossy(&output.stdout);
                    // Another program's output: control characters are escaped.
                    println!("{host}: {}", text.trim_end().escape_debug());
                    failed.fetch_or(!output.exit.is_success(), Ordering::Relaxed);
                }
                Err(error) => {
                    eprintln!("{host}: {error}");
                    failed.store(true, Ordering::Relaxed);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(hosts.len()) {
            scope.spawn(work);
        }
    });
    Ok(ExitCode::from(u8::from(failed.into_inner())))
}
