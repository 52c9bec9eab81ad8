//! Programs that start an ssh for each of many hosts, with our client as `ssh`: pdsh, clush and mpirun.
//! All hosts are names of one server.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use interop::peers::ours::Kind;
use interop::process::{Input, Outcome, installed, quoted_command_line, run};
use interop::report::{is_whole_run, skipped};
use interop::site::Site;

/// Hosts of pdsh and clush.
const HOSTS: usize = 130;
/// Hosts of mpirun, which starts a daemon for each; these use much CPU time where all are one machine. A
/// whole run (`INTEROP_ALL=1`) has [`HOSTS`].
const FEW_MPI_HOSTS: usize = 6;
const LIMIT: Duration = Duration::from_secs(300);
/// Limit of mpirun.
const MPI_LIMIT: Duration = Duration::from_secs(20);
/// Times that mpirun is tried.
const MPI_ATTEMPTS: usize = 8;
/// Limit of mpirun in a whole run.
const LONG_LIMIT: Duration = Duration::from_secs(3600);

/// A server, and a directory with our client as `ssh`, which knows the names `n…`.
fn site() -> (Site, PathBuf) {
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "");
    let names = format!(
        "Host n*\nHostName 127.0.0.1\nPort {}\nUser {}\n",
        site.running.daemon.port, site.running.user
    );
    let command = site.ssh(&names);
    let words = quoted_command_line(&command);
    let text = format!("#!/bin/sh\nexec {} \"$@\"\n", words);
    let scratch = site.running.daemon.scratch();
    std::fs::create_dir(scratch.join("bin")).expect("a directory");
    let ssh = scratch.write("bin/ssh", text);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&ssh, mode).expect("an executable");
    (site, ssh)
}

fn finish(command: &mut Command) -> Outcome {
    run(command, Input::Nothing, LIMIT).expect("the program runs")
}

fn path_with(ssh: &Path) -> String {
    let directory = ssh.parent().expect("a directory").display();
    format!("{directory}:{}", std::env::var("PATH").unwrap_or_default())
}

#[test]
fn pdsh_runs_a_command_on_all_hosts() {
    let Some(pdsh) = installed("pdsh") else {
        return skipped("pdsh", &"it is not installed");
    };
    let (_site, ssh) = site();
    let hosts = format!("n[1-{HOSTS}]");
    let found = finish(
        Command::new(pdsh)
            .args([
                "-S",
                "-R",
                "ssh",
                "-f",
                "16",
                "-w",
                &hosts,
                "echo in; exit 3",
            ])
            .env("PATH", path_with(&ssh)),
    );
    assert_eq!(found.status, 3, "{}", found.summary());
    let mut lines: Vec<String> = found.stdout.text().lines().map(str::to_owned).collect();
    lines.sort();
    let mut expected: Vec<String> = (1..=HOSTS).map(|host| format!("n{host}: in")).collect();
    expected.sort();
    assert_eq!(lines, expected);
}

#[test]
fn clush_runs_a_command_on_all_hosts() {
    let Some(clush) = installed("clush") else {
        return skipped("clush", &"it is not installed");
    };
    let (_site, ssh) = site();
    let option = format!("ssh_path={}", ssh.display());
    let hosts = format!("n[1-{HOSTS}]");
    let found = finish(Command::new(clush).args([
        "-S",
        "-O",
        &option,
        "-f",
        "16",
        "-b",
        "-w",
        &hosts,
        "echo in; exit 3",
    ]));
    assert_eq!(found.status, 3, "{}", found.summary());
    let text = found.stdout.text();
    assert!(text.contains(&format!("n[1-{HOSTS}] ({HOSTS})")), "{text}");
    assert!(text.contains("\nin\n"), "{text}");
}

#[test]
fn mpirun_starts_its_daemons_by_our_client() {
    let Some(mpirun) = installed("mpirun") else {
        return skipped("mpirun", &"it is not installed");
    };
    let (count, limit) = match is_whole_run() {
        true => (HOSTS, LONG_LIMIT),
        false => (FEW_MPI_HOSTS, MPI_LIMIT),
    };
    let hosts: String = (1..=count)
        .map(|host| format!("n{host} slots=1\n"))
        .collect();
    // mpirun 4.1 may wait for ever for daemons of one machine that start fast: 2 of 24 runs with `sh -c` in
    // the place of ssh.
    for attempt in 1..=MPI_ATTEMPTS {
        let (site, ssh) = site();
        let hosts = site.running.daemon.scratch().write("hosts", &hosts);
        // One after another logs in, so that each client must end when its daemon has left the session.
        let mut command = Command::new(&mpirun);
        command
            .args(["--mca", "plm_rsh_no_tree_spawn", "1"])
            .args(["--mca", "plm_rsh_num_concurrent", "1"])
            .args(["--mca", "plm_rsh_agent"])
            .arg(&ssh)
            .args(["--map-by", "node", "-np", &count.to_string(), "--hostfile"])
            .arg(hosts)
            .args(["echo", "in"])
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        let found = match run(&mut command, Input::Nothing, limit) {
            Err(error) if error.kind() == ErrorKind::TimedOut && attempt < MPI_ATTEMPTS => {
                // All clients have done their part.
                let log = site.running.daemon.log();
                assert_eq!(log.matches("Accepted publickey").count(), count, "{log}");
                println!("mpirun waits for daemons that have started (attempt {attempt})");
                continue;
            }
            found => found.expect("mpirun ends"),
        };
        assert_eq!(found.status, 0, "{}", found.summary());
        assert_eq!(
            found.stdout.text(),
            "in\n".repeat(count),
            "{}",
            found.summary()
        );
        let log = site.running.daemon.log();
        let logins = log.matches("Accepted publickey").count();
        assert_eq!(logins, count, "{log}");
        break;
    }
}
