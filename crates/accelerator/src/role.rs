//! The process that loads the library: one thread per lane, one thread that waits for the end of
//! the process's owner, and nothing else.

use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use compress::provider::{Flush, Library, LibraryEncoder, Run, RunEncoder, RunError, RunOutput};
use sys::sandbox::files::Wall;
use sys::shared::SharedMemory;

use crate::layout::{
    CONTROL_FD, FIRST_LANE_FD, HELLO, LANE_BYTES, MAX_LANES, MESSAGE_BYTES, OUTPUT_BYTES, Reply,
    RunRequest, WINDOW_BYTES, question,
};

/// Main function of the role; `arguments` are the number of lanes and the library's path. Returns
/// the exit status. If a library was loaded, the process exits here instead: exit handlers of such
/// a library might hang.
#[must_use]
pub fn main(arguments: Vec<std::ffi::OsString>) -> i32 {
    let Ok(control) = sys::io::inherited(CONTROL_FD) else {
        eprintln!("{}: only other Fulmar processes start it", crate::ROLE);
        return 2;
    };
    let control = Arc::new(control);
    let Err(why) = serve(&control, &arguments);
    // Fails only if the other end is closed.
    let _ = say(&control, HELLO, &Reply::Failed(why));
    sys::process::exit_at_once(1)
}

fn serve(control: &Arc<OwnedFd>, arguments: &[std::ffi::OsString]) -> Result<Infallible, String> {
    let [count, library] = arguments else {
        return Err("a number of lanes and a library are needed".to_owned());
    };
    let count = count.to_str().and_then(|count| count.parse().ok());
    let count: usize = count
        .filter(|count| (1..=MAX_LANES).contains(count))
        .ok_or("bad lanes")?;
    let lanes = (0..count)
        .map(RoleLane::inherited)
        .collect::<io::Result<Vec<RoleLane>>>()
        .map_err(|error| format!("shared memory: {error}"))?;
    let _ = sys::process::set_name("provider");
    let path = PathBuf::from(library);
    let wall = sys::sandbox::provider(&[&path]).map_err(|error| format!("sandbox: {error}"))?;
    let sandbox = sandbox_name(wall)?;
    let failed = |error: io::Error| format!("cannot start a thread: {error}");
    let listener = Arc::clone(control);
    // Start this thread before the library is loaded, since loading may hang. A thread that starts
    // during loading waits for the dynamic loader's lock, so wait until this one runs.
    let begun = Arc::new(Barrier::new(2));
    let begins = Arc::clone(&begun);
    let listens = std::thread::Builder::new().spawn(move || {
        begins.wait();
        listen(&listener);
    });
    listens.map_err(failed)?;
    begun.wait();
    let library = Library::load(&path).map_err(|error| error.to_string())?;
    let library = Arc::new(library);
    let hello = vec![
        library.path().display().to_string(),
        library
            .version()
            .map_or_else(String::new, |version| format!("zlibVersion {version}")),
        library.missing().join(", "),
        sandbox.to_owned(),
    ];
    for lane in lanes {
        let encoder = library.encoder();
        let started = std::thread::Builder::new().spawn(move || lane.serve(encoder));
        started.map_err(failed)?;
    }
    say(control, HELLO, &Reply::Says(hello)).map_err(|error| error.to_string())?;
    loop {
        std::thread::park();
    }
}

/// Answers the questions on the control socket, and exits the process when its owner closes that
/// socket, whatever the lanes and the library do.
fn listen(control: &OwnedFd) -> ! {
    let mut message = [0; MESSAGE_BYTES];
    while let Ok(len @ 1..) = sys::io::read(control, &mut message) {
        let asked = question(message.get(..len).unwrap_or_default());
        let _ = say(control, asked, &Reply::Says(devices()));
    }
    sys::process::exit_at_once(0)
}

/// Describes the sandbox, or fails without Landlock, since nothing else would keep the library from
/// the user's files. The seccomp filter is always installed.
fn sandbox_name(wall: Wall) -> Result<&'static str, String> {
    match wall {
        Wall::Whole => Ok("seccomp and Landlock"),
        Wall::Partial => Ok("seccomp and the part of Landlock that this kernel has"),
        Wall::None => Err(
            "not loaded: this kernel has no Landlock (Linux 5.13 and later have it if it is enabled), and nothing else keeps a library from the user's files"
                .to_owned(),
        ),
    }
}

fn say(socket: &OwnedFd, number: u32, reply: &Reply) -> io::Result<()> {
    sys::socket::send_with_fds(socket, &reply.encode(number), &[]).map(drop)
}

/// Returns the devices that the library has opened, which distinguish an accelerator from software.
fn devices() -> Vec<String> {
    let mut found = Vec::new();
    // /proc/self/fd may be unreadable here as a directory; its links are readable.
    for number in 0..256 {
        let Ok(target) = std::fs::read_link(format!("/proc/self/fd/{number}")) else {
            continue;
        };
        let ordinary = ["/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"];
        let name = target.display().to_string();
        if target.starts_with("/dev")
            && !target.starts_with("/dev/shm")
            && !target.starts_with("/dev/pts")
            && !ordinary.iter().any(|path| target == Path::new(path))
            && !found.contains(&name)
        {
            found.push(name);
        }
    }
    found
}

/// One lane: encodes one run at a time from its memory, as requests on its socket ask.
struct RoleLane {
    socket: OwnedFd,
    memory: SharedMemory,
}

impl RoleLane {
    fn inherited(index: usize) -> io::Result<Self> {
        let first = FIRST_LANE_FD + 2 * i32::try_from(index).unwrap_or(i32::MAX / 4);
        Ok(Self {
            socket: sys::io::inherited(first)?,
            memory: SharedMemory::from_fd(sys::io::inherited(first + 1)?, LANE_BYTES)?,
        })
    }

    fn serve(mut self, mut encoder: LibraryEncoder) {
        let mut message = [0; MESSAGE_BYTES];
        let mut buffers = Buffers::default();
        loop {
            let idle = sys::io::wait_readable(&self.socket, Some(Duration::from_secs(1)));
            if idle.is_ok_and(|ready| !ready) {
                buffers = Buffers::default();
            }
            let len = match sys::io::read(&self.socket, &mut message) {
                Ok(0) | Err(_) => return,
                Ok(len) => len,
            };
            let message = message.get(..len).unwrap_or_default();
            let reply = match RunRequest::decode(message) {
                None => Reply::Failed("no such run".to_owned()),
                Some(request) => match self.run(&mut encoder, &request, &mut buffers) {
                    Ok(ends) => Reply::Done(ends),
                    Err(why) => Reply::Failed(why),
                },
            };
            if say(&self.socket, question(message), &reply).is_err() {
                return;
            }
        }
    }

    fn run(
        &mut self,
        encoder: &mut LibraryEncoder,
        request: &RunRequest,
        buffers: &mut Buffers,
    ) -> Result<Vec<usize>, String> {
        let Buffers { window, out } = buffers;
        window.clear();
        out.bytes.clear();
        out.ends.clear();
        let len = request.ends.last().copied().unwrap_or_default();
        let lost = |error: io::Error| format!("shared memory: {error}");
        self.memory.read_into(0, len, window).map_err(lost)?;
        let run = Run {
            window,
            history_bytes: request.history_bytes,
            ends: &request.ends,
            level: request.level,
            flush: Flush::Sync,
        };
        encoder.encode_run(&run, out).map_err(|RunError(why)| why)?;
        if out.bytes.len() > OUTPUT_BYTES {
            return Err("its output is too long".to_owned());
        }
        self.memory.write(WINDOW_BYTES, &out.bytes).map_err(lost)?;
        Ok(std::mem::take(&mut out.ends))
    }
}

/// Buffers reused from run to run, and freed after an idle second.
#[derive(Default)]
struct Buffers {
    window: Vec<u8>,
    out: RunOutput,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_loaded_behind_whatever_wall_there_is_and_never_without() {
        assert_eq!(sandbox_name(Wall::Whole).unwrap(), "seccomp and Landlock");
        let partial = sandbox_name(Wall::Partial).unwrap();
        assert_eq!(
            partial,
            "seccomp and the part of Landlock that this kernel has"
        );
        assert!(
            sandbox_name(Wall::None)
                .unwrap_err()
                .starts_with("not loaded")
        );
    }
}
