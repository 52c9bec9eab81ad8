//! `fulmar demo`: everything once, on this machine, without root or configuration.
//!
//! A private server on a loopback port with fresh keys; a login, a command, a shell on a
//! terminal for one line, and a gibibyte each way, checked. The same for the OpenSSH of this
//! machine where there is one. Exit status 0 only if all of ours worked.

use std::ffi::OsString;
use std::io;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{self, Harness, Suite};
use crate::table::Table;

pub(crate) mod stream;

const USAGE: &str = "usage: fulmar demo [--size MIB]\n\
     Needs nothing but a loopback network. --size: MiB sent each way (1024).\n";
/// Number of logins whose median is shown.
const LOGINS: usize = 11;

/// Runs the program; gives its exit status: 0 if all of it worked, 1 if not, 2 for arguments
/// that it does not know.
#[must_use]
pub fn run(args: Vec<OsString>) -> i32 {
    let words: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
    match words[..] {
        [] => demonstrate(1024),
        ["--size", mib] => match mib.parse() {
            Ok(mib @ 1..=1_048_576) => demonstrate(mib),
            _ => {
                eprintln!("fulmar demo: --size wants a number of MiB from 1 to 1048576");
                2
            }
        },
        ["-h" | "--help"] => {
            print!("{USAGE}");
            0
        }
        // The far ends of the streams: commands that the demonstration runs through ssh.
        ["source", bytes] => end_of_stream(bytes, |total| stream::source(io::stdout(), total)),
        ["sink", bytes] => end_of_stream(bytes, |total| stream::sink(io::stdin(), total)),
        _ => {
            eprint!("fulmar demo: unknown arguments\n{USAGE}");
            2
        }
    }
}

fn end_of_stream(bytes: &str, work: impl FnOnce(u64) -> io::Result<()>) -> i32 {
    let Ok(total) = bytes.parse() else {
        eprintln!("fulmar demo: not a number of bytes: {bytes}");
        return 2;
    };
    match work(total) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("fulmar demo: {error}");
            1
        }
    }
}

/// Results of one suite.
struct Figures {
    algorithms: Vec<(String, String)>,
    first_login: Duration,
    /// Median time of `ssh host true`, start to exit.
    login: Duration,
    /// Median time of the same command in the user's shell, started as a server starts it.
    shell: Duration,
    up_mib_s: f64,
    down_mib_s: f64,
}

fn demonstrate(mib: u64) -> i32 {
    let begun = Instant::now();
    let _: [u8; 1] = crypto::random::bytes();
    let first_random = begun.elapsed();
    let ours = match Suite::ours()
        .map_err(|error| error.to_string())
        .and_then(|suite| try_suite(&suite, mib))
    {
        Ok(figures) => figures,
        Err(error) => {
            eprintln!("fulmar demo: {error}");
            return 1;
        }
    };
    let theirs = Suite::openssh().and_then(|suite| {
        let figures = try_suite(&suite, mib)?;
        Ok((suite.name, figures))
    });
    println!();
    println!("CPU:      {}", crate::speed::cpu_features());
    println!("kernels:  {}", crate::speed::kernels());
    println!(
        "first random byte of a process: {:.3} ms",
        first_random.as_secs_f64() * 1e3
    );
    println!();
    let mut heading = vec!["", "Fulmar"];
    if let Ok((name, _)) = &theirs {
        heading.push(name);
    }
    let mut table = Table::new(&heading);
    let peer = theirs.as_ref().ok().map(|(_, figures)| figures);
    for (index, (what, value)) in ours.algorithms.iter().enumerate() {
        let other = peer.and_then(|figures| figures.algorithms.get(index));
        table.row(vec![
            what.clone(),
            value.clone(),
            other.map_or(String::new(), |pair| pair.1.clone()),
        ]);
    }
    let mut figure = |what: &str, value: &dyn Fn(&Figures) -> String| {
        table.row(vec![
            what.to_string(),
            value(&ours),
            peer.map_or(String::new(), value),
        ]);
    };
    let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    figure("first login", &|figures| ms(figures.first_login));
    figure(&format!("login, median of {LOGINS}"), &|figures| {
        ms(figures.login)
    });
    figure("  SSH's part", &|figures| {
        ms(figures.login.saturating_sub(figures.shell))
    });
    figure("  your shell's start-up", &|figures| ms(figures.shell));
    figure("up", &|figures| format!("{:.0} MiB/s", figures.up_mib_s));
    figure("down", &|figures| {
        format!("{:.0} MiB/s", figures.down_mib_s)
    });
    print!("{}", table.render());
    if let Err(reason) = &theirs {
        println!("\nnot compared: {reason}");
    }
    println!("\nEverything worked, and all bytes were equal.");
    0
}

/// Runs the whole demonstration with one suite's client and server.
fn try_suite(suite: &Suite, mib: u64) -> Result<Figures, String> {
    let step = |what: &str| println!("{}: {what}", suite.name);
    step("starting a private server");
    let harness = Harness::start(suite, "").map_err(|error| error.to_string())?;
    let fail =
        |what: &str, why: &str| format!("{}: {what}: {why}\n{}", suite.name, harness.server_log());

    step("logging in and running a command");
    let (output, first_login) = harness::timed(
        harness.client(suite, &["-v"], "echo hello from the other side"),
        b"",
    )
    .map_err(|error| error.to_string())?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.stdout != b"hello from the other side\n" || !output.status.success() {
        return Err(fail("the command did not answer", &errors));
    }
    let algorithms = algorithms(&errors);

    step("measuring logins");
    let mut times = Vec::new();
    let mut shells = Vec::new();
    for _ in 0..LOGINS {
        let (output, time) = harness::timed(harness.client(suite, &[], "true"), b"")
            .map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(fail(
                "a login failed",
                &String::from_utf8_lossy(&output.stderr),
            ));
        }
        times.push(time);
        let shell = user_shell().map_err(|error| error.to_string())?;
        let (_, time) = harness::timed(shell, b"").map_err(|error| error.to_string())?;
        shells.push(time);
    }
    let login = median(times);
    let shell = median(shells);

    step("opening a shell on a terminal for one line");
    let (output, _) = harness::timed(
        harness.client(suite, &["-tt"], ""),
        b"stty -echo; tty; echo $((6 * 7)) >&2; exit 3\n",
    )
    .map_err(|error| error.to_string())?;
    let screen = String::from_utf8_lossy(&output.stdout).into_owned();
    if !screen.contains("/dev/pts/") || !screen.contains("42") || output.status.code() != Some(3) {
        return Err(fail("the shell did not answer", &screen));
    }

    let bytes = mib << 20;
    let own = harness::own_binary_quoted().map_err(|error| error.to_string())?;
    step(&format!("sending {mib} MiB"));
    let up = transfer(
        harness.client(suite, &[], &format!("{own} demo sink {bytes}")),
        |stdin, _| stream::source(stdin, bytes),
    )
    .map_err(|why| fail("sending failed", &why))?;
    step(&format!("receiving {mib} MiB"));
    let down = transfer(
        harness.client(suite, &[], &format!("{own} demo source {bytes}")),
        |_, stdout| stream::sink(stdout, bytes),
    )
    .map_err(|why| fail("receiving failed", &why))?;
    #[allow(clippy::cast_precision_loss)]
    let rate = |time: Duration| mib as f64 / time.as_secs_f64();
    Ok(Figures {
        algorithms,
        first_login,
        login,
        shell,
        up_mib_s: rate(up),
        down_mib_s: rate(down),
    })
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// `true` in the login shell of the user, with the environment that a server gives a session. A shell
/// that SSH_CLIENT is set for may read start-up files (bash reads ~/.bashrc), and these often take
/// longer than the login.
fn user_shell() -> io::Result<Command> {
    let user = sys::users::by_uid(sys::process::effective_uid())?
        .ok_or_else(|| io::Error::other("the user who runs this has no passwd entry"))?;
    let mut command = Command::new(&user.shell);
    command
        .args(["-c", "true"])
        .env_clear()
        .env("USER", &user.name)
        .env("LOGNAME", &user.name)
        .env("HOME", &user.home)
        .env("SHELL", &user.shell)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("SSH_CLIENT", "127.0.0.1 1 22")
        .env("SSH_CONNECTION", "127.0.0.1 1 127.0.0.1 22");
    if user.home.is_dir() {
        command.current_dir(&user.home);
    }
    Ok(command)
}

/// Runs `client`, lets `work` feed and read it, and gives the time from start to exit.
fn transfer(
    mut client: Command,
    work: impl FnOnce(std::process::ChildStdin, std::process::ChildStdout) -> io::Result<()>,
) -> Result<Duration, String> {
    let begun = Instant::now();
    let mut child = client
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("no pipes".into());
    };
    // Wider pipes cost fewer switches between the processes; where they are refused the
    // default does.
    let _ = sys::io::set_pipe_size(&stdin, 1 << 20);
    let _ = sys::io::set_pipe_size(&stdout, 1 << 20);
    let worked = work(stdin, stdout);
    let output = child
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    let time = begun.elapsed();
    if !output.status.success() {
        return Err(format!(
            "{}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    worked.map_err(|error| error.to_string())?;
    Ok(time)
}

/// The negotiated algorithms, from the output of `ssh -v`.
fn algorithms(log: &str) -> Vec<(String, String)> {
    let after = |prefix: &str| {
        log.lines()
            .find_map(|line| line.trim_end().strip_prefix(prefix))
            .map_or_else(|| "?".to_string(), |rest| rest.trim().to_string())
    };
    let suite = after("debug1: kex: client->server cipher:");
    let cipher = suite
        .split(" MAC:")
        .next()
        .unwrap_or_default()
        .trim()
        .to_string();
    let mac = suite
        .split(" MAC:")
        .nth(1)
        .and_then(|rest| rest.split(" compression:").next())
        .unwrap_or_default()
        .trim()
        .to_string();
    vec![
        ("key exchange".into(), after("debug1: kex: algorithm:")),
        ("host key".into(), after("debug1: kex: host key algorithm:")),
        ("cipher".into(), cipher),
        ("MAC".into(), mac),
    ]
}
