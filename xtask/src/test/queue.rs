//! Runs test programs, several at once. The output of each goes to a file: that of a failed one is
//! printed whole, of the others one line and what they skipped. One that runs for long is named meanwhile.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::record::Program;

/// How tests name what they pass over (`interop::report::skipped`).
const SKIPPED: &str = "skipped: ";

/// Time after which a program is named that still runs.
const LONG: Duration = Duration::from_secs(120);
/// Time after which it is named again.
const LONGER: Duration = Duration::from_secs(300);

/// A program that ran.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) name: String,
    pub(super) seconds: f64,
    /// Why it failed, if it did.
    pub(super) failure: Option<String>,
    /// Why it failed beside other programs, if it was run again alone ([`Queue::again`]).
    pub(super) earlier: Option<String>,
    /// The file with its output.
    pub(super) log: PathBuf,
}

/// Programs that ran, of a known number.
pub(super) struct Queue<'a> {
    folder: &'a Path,
    count: usize,
    done: Mutex<Vec<Run>>,
}

impl<'a> Queue<'a> {
    /// For `count` programs, with logs in `folder`.
    pub(super) fn new(folder: &'a Path, count: usize) -> Self {
        Self {
            folder,
            count,
            done: Mutex::default(),
        }
    }

    /// Runs the programs in this order, `jobs` at once, and reports each when it ends.
    pub(super) fn run(&mut self, programs: &[Program], jobs: usize) {
        let waiting = Mutex::new(programs.iter());
        let next = || locked(&waiting).next();
        thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while let Some(program) = next() {
                        self.report(run(program, self.folder));
                    }
                });
            }
        });
    }

    /// Runs the failed ones of `programs` once more, alone, unless more than `most` failed.
    ///
    /// A test with a limit of time can miss it on two cores that several programs share. The first
    /// failure stays on record ([`Run::earlier`]) and its output in a file of its own.
    pub(super) fn again(&mut self, programs: &[Program], most: usize) {
        let mut done = locked(&self.done);
        let failed: Vec<&mut Run> = done
            .iter_mut()
            .filter(|run| run.failure.is_some())
            .collect();
        if failed.len() > most {
            return;
        }
        for earlier in failed {
            let is_it = |program: &&Program| log_of(program, self.folder) == earlier.log;
            let Some(program) = programs.iter().find(is_it) else {
                continue;
            };
            let _ = fs::rename(&earlier.log, earlier.log.with_extension("first.log"));
            println!("again, alone: {}", program.name);
            let mut later = run(program, self.folder);
            later.seconds += earlier.seconds;
            later.earlier = earlier.failure.take();
            let output = fs::read(&later.log).unwrap_or_default();
            for line in skipped(&String::from_utf8_lossy(&output)) {
                println!("    {line}");
            }
            if let Some(why) = &later.failure {
                println!(
                    "FAILED again: {why}\n{}",
                    String::from_utf8_lossy(&output).trim_end()
                );
            }
            *earlier = later;
        }
    }

    /// The programs that ran.
    pub(super) fn finish(self) -> Vec<Run> {
        self.done
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, run: Run) {
        let mut done = locked(&self.done);
        done.push(run);
        let (Some(run), number, count) = (done.last(), done.len(), self.count) else {
            return;
        };
        let output = fs::read(&run.log).unwrap_or_default();
        let output = String::from_utf8_lossy(&output);
        let (name, seconds) = (&run.name, run.seconds);
        match &run.failure {
            Some(why) => println!(
                "[{number}/{count}] {name} {seconds:.1} s FAILED: {why}\n{}",
                output.trim_end()
            ),
            None => {
                println!("[{number}/{count}] {name} {seconds:.1} s");
                for line in skipped(&output) {
                    println!("    {line}");
                }
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a program passed over. A line may have the harness's words in front.
fn skipped(output: &str) -> impl Iterator<Item = &str> {
    output
        .lines()
        .filter_map(|line| line.get(line.find(SKIPPED)?..))
}

/// Runs a program to its end.
fn run(program: &Program, folder: &Path) -> Run {
    let log = log_of(program, folder);
    let begun = Instant::now();
    let report = || {
        let (name, seconds) = (&program.name, begun.elapsed().as_secs());
        println!(
            "{name} has run for {seconds} s; its output: {}",
            log.display()
        );
    };
    let failure = match reported(|| status(program, &log), (LONG, LONGER), report) {
        Ok(status) => failure(status),
        Err(error) => Some(error.to_string()),
    };
    Run {
        name: program.name.clone(),
        seconds: begun.elapsed().as_secs_f64(),
        failure,
        earlier: None,
        log,
    }
}

/// Calls `report` while `work` lasts: after the first time, and after each further second one.
fn reported<T>(
    work: impl FnOnce() -> T,
    (first, further): (Duration, Duration),
    report: impl Fn() + Send,
) -> T {
    let (end, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut next = first;
            // The other end is closed when the work is done.
            while ended.recv_timeout(next) == Err(mpsc::RecvTimeoutError::Timeout) {
                report();
                next = further;
            }
        });
        let done = work();
        drop(end);
        done
    })
}

/// The file for the program's output, named by its file name, which is unique, or a name without one.
fn log_of(program: &Program, folder: &Path) -> PathBuf {
    let name = match &program.command[..] {
        [path, ..] if program.name.contains("::") => {
            let file = Path::new(path).file_name().unwrap_or_default();
            file.to_string_lossy().into_owned()
        }
        _ => program.name.clone(),
    };
    folder.join(format!("{name}.log"))
}

/// Files, not pipes: nobody waits for a process that a test has left.
fn status(program: &Program, log: &Path) -> io::Result<ExitStatus> {
    // Appended to: programs that a test starts write to it too.
    let _ = fs::remove_file(log);
    let output = File::options().create(true).append(true).open(log)?;
    let (path, arguments) = program
        .command
        .split_first()
        .ok_or_else(|| io::Error::other("no program"))?;
    Command::new(path)
        .args(arguments)
        .current_dir(&program.directory)
        .env_clear()
        .envs(
            program
                .environment
                .iter()
                .map(|(name, value)| (name, value)),
        )
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .status()
}

fn failure(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exit status {code}")),
        (None, signal) => Some(format!("killed by signal {}", signal.unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str, script: &str) -> Program {
        Program {
            name: name.into(),
            directory: "/".into(),
            command: ["/bin/sh", "-c", script].map(Into::into).to_vec(),
            environment: vec![("WHERE".into(), "here".into())],
        }
    }

    #[test]
    fn each_program_runs_once_with_its_own_environment() {
        let folder = std::env::temp_dir().join(format!("xtask-test-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut queue = Queue::new(&folder, 4);
        let programs = vec![
            program(
                "one",
                "echo 'skipped: this (because)'; pwd; echo $WHERE$HOME >&2",
            ),
            program("two", "exit 3"),
            program("three", "kill -9 $$"),
        ];
        queue.run(&programs, 2);
        let mut gone = program("gone", "");
        gone.command = vec!["/nonexistent/program".into()];
        queue.run(&[gone], 1);
        let mut runs = queue.finish();
        assert_eq!(runs.last().unwrap().name, "gone");
        assert!(runs.last().unwrap().failure.is_some());
        runs.sort_by(|one, other| one.name.cmp(&other.name));
        let output = |index: usize| fs::read_to_string(&runs[index].log).unwrap();
        assert_eq!(runs[1].failure, None);
        assert_eq!(output(1), "skipped: this (because)\n/\nhere\n");
        assert_eq!(runs[2].failure.as_deref(), Some("killed by signal 9"));
        assert_eq!(runs[3].failure.as_deref(), Some("exit status 3"));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_failed_runs_once_more_and_both_results_are_kept() {
        let folder = std::env::temp_dir().join(format!("xtask-again-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let marker = folder.join("marker");
        let marker = marker.display();
        let programs = || {
            vec![
                program("good", "exit 0"),
                program(
                    "once",
                    &format!("[ -e {marker} ] || {{ : >{marker}; exit 4; }}"),
                ),
                program("always", "exit 5"),
            ]
        };
        let mut queue = Queue::new(&folder, 3);
        queue.run(&programs(), 1);
        queue.again(&programs(), 1);
        assert!(locked(&queue.done).iter().all(|run| run.earlier.is_none()));
        queue.again(&programs(), 2);
        let [good, once, always] = &queue.finish()[..] else {
            panic!("three programs ran");
        };
        assert_eq!((&good.failure, &good.earlier), (&None, &None));
        assert_eq!(once.failure, None);
        assert_eq!(once.earlier.as_deref(), Some("exit status 4"));
        let status = Some("exit status 5".to_owned());
        assert_eq!((&always.failure, &always.earlier), (&status, &status));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn long_work_is_reported_again_and_again_and_short_work_never() {
        let (send, receive) = mpsc::channel();
        let soon = Duration::from_millis(1);
        let later = LONG + LONGER;
        let seen = || (receive.recv(), receive.recv());
        let report = move || send.send(()).unwrap_or_default();
        assert_eq!(reported(seen, (soon, soon), report), (Ok(()), Ok(())));
        assert_eq!(reported(|| 7, (later, later), || unreachable!()), 7);
    }

    #[test]
    fn what_was_skipped_is_found_in_any_line() {
        let output = "test a ... skipped: one (x)\nskipped: two (y)\ntest b ... ok\n";
        let found: Vec<&str> = skipped(output).collect();
        assert_eq!(found, ["skipped: one (x)", "skipped: two (y)"]);
    }
}
