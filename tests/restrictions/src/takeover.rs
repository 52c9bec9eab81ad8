//! Determines with our client whether one login can take back a port whose client is lost.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use interop::peers::ours::Kind;
use interop::process::{Background, COMMAND_LIMIT};

use crate::place::Place;
use crate::row::Outcomes;
use crate::services::Services;

/// Time between looks at the port.
const LOOK: Duration = Duration::from_millis(20);

/// The outcome of `takeover`: `yes` if the login gets the port that a connection of the same key has
/// without the row's restriction, and whose client is stopped.
///
/// # Panics
/// If a client does not run.
#[must_use]
pub fn outcomes(place: &Place, services: &Services) -> Outcomes {
    let file = place.here.join("authorized_keys");
    let restricted = fs::read(&file).expect("the row's keys");
    let key = fs::read(place.here.join("id.pub")).expect("the key");
    fs::write(&file, key).expect("the row's keys");
    let old = holds(place, services);
    fs::write(&file, restricted).expect("the row's keys");
    let mut stop = Command::new("kill");
    stop.args(["-STOP", &old.0.id().to_string()]);
    assert!(stop.status().is_ok_and(|status| status.success()), "kill");
    let mut command = client(place, services);
    command.args(["-o", "ExitOnForwardFailure=yes", "-o", "LogLevel=DEBUG"]);
    command.args(["-N", "alone"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::piped());
    let mut new = Background::start(&mut command).expect("our client");
    let log = BufReader::new(new.0.stderr.take().expect("its messages"));
    let granted = format!(
        "remote forward success for: listen port {},",
        place.listen[0]
    );
    // Refused, it ends.
    let is_taken = log
        .lines()
        .map_while(Result::ok)
        .any(|line| line.contains(&granted));
    drop((old, new));
    // The other probes find the port free.
    awaited(|| TcpListener::bind((Ipv4Addr::LOCALHOST, place.listen[0])).is_ok());
    [("takeover", if is_taken { "yes" } else { "no" }.to_owned())].into()
}

/// A connection with the port.
fn holds(place: &Place, services: &Services) -> Background {
    let mut command = client(place, services);
    command
        .args(["-N", "alone"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let client = Background::start(&mut command).expect("our client");
    awaited(|| TcpStream::connect((Ipv4Addr::LOCALHOST, place.listen[0])).is_ok());
    client
}

fn awaited(is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < COMMAND_LIMIT, "the port does not change");
        thread::sleep(LOOK);
    }
}

/// Our client that asks for the first port.
fn client(place: &Place, services: &Services) -> Command {
    let mut command = Kind::Fulmar.ssh().expect("our client");
    let spec = format!("{}:127.0.0.1:{}", place.listen[0], services.ports[0]);
    command.arg("-F").arg(place.here.join("ssh_config"));
    command.args(["-R", &spec]);
    command
}
