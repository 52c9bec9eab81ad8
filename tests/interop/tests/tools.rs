//! Tools that people run over SSH, one script each in peers/tools: those that start `ssh`, `scp` or `sftp` with ours and
//! with OpenSSH's, and those with a client of their own. docs/interop.md lists their versions and results.
//!
//! Without `INTEROP_ALL=1` only the quick ones run, each with our client and our server; `.ci/tools` installs the others.
//! `INTEROP_OURS=openssh` runs all of them with OpenSSH alone.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use interop::account::Guest;
use interop::fixture::{self, target_folder};
use interop::matrix::noise;
use interop::peers::ours::{self, Kind, couples};
use interop::process::{Input, installed};
use interop::report::{is_whole_run, skipped};
use interop::scratch::{Scratch, free_port};
use interop::site::{Site, finish};

const PASSWORD: &str = "Corr3ct horse, battery";

/// What a tool is run with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Uses {
    /// It starts ssh, scp or sftp: each pair of programs.
    Ssh,
    /// It has a client of its own: our server.
    OwnClient,
}

/// When it runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    /// In each run.
    Always,
    /// With `INTEROP_ALL=1`.
    WholeRun,
}

/// The folder of the scripts' files.
fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}

/// A file that is needed, as a path below `target/` if it has a `/`, else as a program.
fn missing(needs: &[&str]) -> Option<String> {
    let is_there = |need: &str| match need.strip_prefix("target/") {
        Some(path) => target_folder().join(path).exists(),
        None if need.starts_with('/') => Path::new(need).exists(),
        None => installed(need).is_some(),
    };
    let lacks = needs.iter().find(|need| !is_there(need))?;
    Some(format!("no {lacks}"))
}

/// Runs the script `name` for each pair that `uses` and `when` ask for.
fn tool(name: &str, uses: Uses, when: When, needs: &[&str]) {
    with_lines(name, uses, when, needs, "");
}

fn with_lines(name: &str, uses: Uses, when: When, needs: &[&str], lines: &str) {
    if when == When::WholeRun && !is_whole_run() {
        return;
    }
    if let Some(why) = missing(needs) {
        return skipped(name, &why);
    }
    let mut failed = Vec::new();
    for (client, server) in couples() {
        let ours = client == server;
        if !ours && (uses == Uses::OwnClient || !is_whole_run()) {
            continue;
        }
        if let Err(why) = run_script(name, client, server, lines) {
            failed.push(format!("{} -> {}: {why}", client.name(), server.name()));
        }
    }
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

/// `ssh`, `scp` and `sftp` of `site`'s client in a folder, configured for its server.
fn programs(site: &Site, folder: &Scratch) -> PathBuf {
    let bin = folder.join("bin");
    fs::create_dir(&bin).expect("a folder");
    let config = site.config("");
    symlink(site.wrapper(), bin.join("ssh")).expect("a link");
    for name in ["scp", "sftp"] {
        let program = match site.client {
            Kind::Fulmar => format!("'{}' {name}", ours::binary().display()),
            Kind::OpenSsh => {
                installed(name).map_or_else(String::new, |path| path.display().to_string())
            }
        };
        let text = format!(
            "#!/bin/sh\nexec {program} -F '{}' \"$@\"\n",
            config.display()
        );
        let path = folder.write(&format!("bin/{name}"), text);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("an executable");
    }
    bin
}

fn run_script(name: &str, client: Kind, server: Kind, lines: &str) -> Result<(), String> {
    let guest = Guest::new().and_then(|mut guest| {
        guest.set_password(PASSWORD)?;
        Ok(guest)
    });
    let sftp = match server {
        Kind::Fulmar => "internal-sftp",
        Kind::OpenSsh => "/usr/lib/openssh/sftp-server",
    };
    let site = Site::new(
        client,
        server,
        &format!("{lines}Subsystem sftp {sftp}\nPasswordAuthentication yes\n"),
    );
    let (folder, own) = (Scratch::new(), Scratch::new());
    fs::create_dir(folder.join("tree")).expect("a folder");
    for number in 0..20 {
        folder.write(&format!("tree/{number}"), noise(number * 1_500));
    }
    let data = noise((3 << 20) - 5);
    folder.write("three", data.repeat(3));
    folder.write("data", data);
    let path = std::env::var("PATH").unwrap_or_default();
    let key = |name: &str| own_copy(&own, name).display().to_string();
    let mut command = Command::new("sh");
    command
        .arg("-eu")
        .arg(peers().join("tools").join(format!("{name}.sh")))
        .current_dir(folder.path())
        .env(
            "PATH",
            format!("{}:{path}", programs(&site, &own).display()),
        )
        .env("T_HOST", interop::site::HOST)
        .env("T_PORT", site.running.daemon.port.to_string())
        .env("T_FREE_PORTS", format!("{} {}", free_port(), free_port()))
        .env("T_USER", &site.running.user)
        .env("T_KEY", key("user_ed25519"))
        .env("T_RSA_KEY", key("user_rsa"))
        .env("T_ECDSA_KEY", key("user_ecdsa256"))
        .env("T_KNOWN_HOSTS", &site.running.known_hosts)
        .env("T_DIR", folder.path())
        .env("T_PEERS", peers())
        .env("T_TARGET", target_folder())
        .env("T_PYTHON", target_folder().join("peers-venv/bin/python"))
        .env_remove("TMUX")
        .env_remove("SSH_AUTH_SOCK");
    if let Ok(guest) = &guest {
        command
            .env("T_GUEST", &guest.name)
            .env("T_PASSWORD", PASSWORD);
    }
    let outcome = finish(&mut command, Input::Nothing);
    if outcome.status == 0 {
        return Ok(());
    }
    Err(format!(
        "{}\nserver: {}",
        outcome.summary(),
        site.running.daemon.log()
    ))
}

/// A copy of a user's key with its public half, for programs that are particular about modes.
fn own_copy(own: &Scratch, name: &str) -> PathBuf {
    own.write(
        &format!("{name}.pub"),
        fixture::text(&format!("{name}.pub")),
    );
    own.write(name, fixture::text(name))
}

/// A test for each script: its name, what it uses, when it runs, what it needs.
macro_rules! tools {
    ($($test:ident = $name:literal $uses:ident $when:ident [$($need:literal),*];)*) => {$(
        #[test]
        fn $test() {
            tool($name, Uses::$uses, When::$when, &[$($need),*]);
        }
    )*};
}

tools! {
    sshfs_mounts_a_folder = "sshfs" Ssh Always ["sshfs", "/dev/fuse"];
    mosh_starts_its_server = "mosh" Ssh Always ["mosh", "script"];
    restic_keeps_snapshots = "restic" Ssh Always ["restic"];
    lftp_mirrors_by_sftp_and_fish = "lftp" Ssh Always ["lftp"];
    rclone_copies_and_checks = "rclone" OwnClient Always ["rclone"];
    curl_speaks_sftp_and_scp = "curl" OwnClient Always ["curl"];
    vim_reads_and_writes_by_netrw = "netrw" Ssh Always ["vim"];
    streams_pass_pipes = "pipes" Ssh Always [];
    winscp_sends_these_requests = "winscp" OwnClient Always ["target/peers-venv/bin/python"];
    vs_code_reaches_its_server = "vscode" Ssh Always ["bash", "python3"];
    lima_runs_a_guest = "lima" Ssh Always ["bash", "python3"];
    borg_keeps_archives = "borg" Ssh WholeRun ["borg"];
    duplicity_keeps_volumes = "duplicity" Ssh WholeRun ["duplicity"];
    tmux_is_left_and_entered = "tmux" Ssh WholeRun ["tmux", "script"];
    parallel_runs_jobs = "parallel" Ssh WholeRun ["parallel", "rsync"];
    docker_reaches_a_service = "docker" Ssh WholeRun ["docker", "python3"];
    buildx_finds_a_builder = "buildx" Ssh WholeRun ["docker", "python3", "target/peers-buildx/docker-buildx"];
    mariadb_speaks_first = "mariadb" Ssh WholeRun ["mariadbd", "mariadb", "mariadb-install-db", "python3"];
    podman_reaches_a_service = "podman" OwnClient WholeRun ["podman", "python3"];
    libvirt_reaches_its_daemon = "virsh" Ssh WholeRun ["virsh", "libvirtd"];
    emacs_edits_by_tramp = "tramp" Ssh WholeRun ["emacs"];
    mercurial_clones_and_pushes = "hg" Ssh WholeRun ["hg"];
    subversion_commits = "svn" Ssh WholeRun ["svn", "svnserve"];
    unison_synchronises = "unison" Ssh WholeRun ["unison"];
    rdiff_backup_goes_back = "rdiff-backup" Ssh WholeRun ["rdiff-backup"];
    lsyncd_follows_changes = "lsyncd" Ssh WholeRun ["lsyncd", "rsync"];
    git_annex_moves_contents = "git-annex" Ssh WholeRun ["git-annex"];
    midnight_commander_copies = "mc" Ssh WholeRun ["mc", "tmux"];
    libssh2_is_served = "libssh2" OwnClient WholeRun ["target/peers-tools/bin/python"];
    libssh_is_served = "libssh" OwnClient WholeRun ["target/peers-tools/bin/python"];
    fabric_is_served = "fabric" OwnClient WholeRun ["target/peers-tools/bin/python"];
    ssh2_of_npm_is_served = "ssh2" OwnClient WholeRun ["node", "target/peers-node/node_modules/ssh2"];
    jsch_is_served = "jsch" OwnClient WholeRun ["java", "target/peers-java/new"];
    sshj_is_served = "sshj" OwnClient WholeRun ["java", "target/peers-java/new"];
    russh_is_served = "russh" OwnClient WholeRun ["target/peers-russh/debug/russh-client"];
    apache_mina_is_served = "mina" OwnClient WholeRun ["java", "target/peers-java/new"];
}

/// JSch 0.1.55 knows no SHA-2 for RSA and no Ed25519: ECDSA for both keys, and no exchange that is on by default here.
#[test]
fn jsch_of_2018_is_served_where_nist_exchanges_are_on() {
    let lines = "KexAlgorithms +ecdh-sha2-nistp256\n";
    with_lines(
        "jsch-old",
        Uses::OwnClient,
        When::WholeRun,
        &["java", "target/peers-java/old"],
        lines,
    );
}

/// A dialogue needs an account with a password.
fn with_password(name: &str, needs: &[&str]) {
    if interop::account::is_root() {
        tool(name, Uses::Ssh, When::Always, needs);
    } else {
        skipped(name, &"needs root");
    }
}

#[test]
fn sshpass_types_the_password() {
    with_password("sshpass", &["sshpass"]);
}

#[test]
fn expect_holds_a_dialogue() {
    with_password("expect", &["expect"]);
}

/// What clients do only with a server that names OpenSSH in its version line.
#[test]
fn a_server_that_names_openssh_is_told_more() {
    let lines = "VersionNamesOpenSSH yes\n";
    let site = Site::new(Kind::OpenSsh, Kind::Fulmar, lines);
    if installed("ssh").is_none() || Kind::tested() == Kind::OpenSsh {
        return;
    }
    // The reader ends; the endless command must, too.
    let script = format!(
        "{} {} yes | head -n 3",
        site.wrapper().display(),
        interop::site::HOST
    );
    let outcome = finish(Command::new("sh").args(["-c", &script]), Input::Nothing);
    assert_eq!(outcome.stdout.text(), "y\ny\ny\n", "{}", outcome.summary());
    let ours = Site {
        client: Kind::Fulmar,
        running: site.running,
    };
    let outcome = finish(
        ours.ssh("LogLevel DEBUG1\n")
            .args([interop::site::HOST, "echo in"]),
        Input::Nothing,
    );
    outcome.assert_in("our client");
    let said = outcome.stderr.text();
    assert!(said.contains("OpenSSH_10.6 Fulmar_"), "{said}");
}
