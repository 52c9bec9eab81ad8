//! Programs that set ControlMaster by themselves: Ansible, git and rsync, with our client as `ssh`.

use std::fs;
use std::path::Path;
use std::process::Command;

use interop::fixture::target_folder;
use interop::peers::ours::Kind;
use interop::process::{Input, installed};
use interop::report::skipped;
use interop::scratch::Scratch;
use interop::site::{HOST, Site, finish};

const PLAYBOOK: &str = "
- hosts: target
  gather_facts: false
  tasks:
    - command: 'echo {{ item }}'
      loop: [two]
      register: said
    - copy:
        content: words
        dest: '{{ there }}'
    - meta: reset_connection
    - command: 'cat {{ there }}'
      register: read
    - assert:
        that:
          - said.results[0].stdout == 'two'
          - read.stdout == 'words'
    - command: 'false'
      register: failed
      failed_when: failed.rc != 1
";

/// Tasks of the playbook.
const TASKS: usize = 50;

/// The playbook, with further tasks in its middle.
fn playbook() -> String {
    let (before, after) = PLAYBOOK.split_once("    - meta:").expect("a task");
    let tasks = PLAYBOOK.matches("\n    - ").count();
    let more: String = (tasks..TASKS)
        .map(|number| format!("    - raw: 'echo {number}'\n"))
        .collect();
    format!("{before}{more}    - meta:{after}")
}

/// Number of logins that the server has accepted.
fn logins(site: &Site) -> usize {
    let log = site.running.daemon.log();
    log.matches("Accepted publickey").count()
}

/// Ends the masters whose sockets are in `folder`.
fn end_masters(site: &Site, folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path().display().to_string();
        let asked = site.run_with("", &["-S", &path, "-O", "exit", HOST], Input::Nothing);
        assert_eq!(asked.status, 0, "{}", asked.summary());
    }
}

#[test]
fn ansible_shares_connections_as_it_is() {
    let ansible = target_folder().join("peers-venv/bin/ansible-playbook");
    if !ansible.is_file() {
        return skipped("ansible", &"run .ci/peers to install it");
    }
    let python = installed("python3").expect("python3");
    for pipelining in ["False", "True"] {
        let site = Site::new(Kind::Fulmar, Kind::Fulmar, "");
        // Its name is part of the sockets' names.
        let folder = Scratch::new();
        let sockets = folder.join("c");
        let inventory = format!(
            "{HOST} ansible_ssh_executable={} ansible_python_interpreter={} there={}\n",
            site.wrapper().display(),
            python.display(),
            folder.join("there").display()
        );
        let inventory = folder.write("inventory", inventory);
        let playbook = folder.write("play.yml", playbook());
        let mut command = Command::new(&ansible);
        command
            .arg("-i")
            .args([&inventory, &playbook])
            .env("HOME", folder.path())
            .env("ANSIBLE_CONFIG", folder.write("ansible.cfg", ""))
            .env("ANSIBLE_NOCOLOR", "1")
            .env("ANSIBLE_SSH_CONTROL_PATH_DIR", &sockets)
            .env("ANSIBLE_PIPELINING", pipelining)
            .env("ANSIBLE_SSH_TRANSFER_METHOD", "piped")
            .env("ANSIBLE_LOCAL_TEMP", folder.join("local"))
            .env("ANSIBLE_REMOTE_TEMP", folder.join("remote"));
        let played = finish(&mut command, Input::Nothing);
        let text = played.stdout.text();
        assert_eq!(played.status, 0, "{text}\n{}", played.summary());
        assert!(text.contains("failed=0"), "{text}");
        // All but reset_connection, which is no task of the host.
        assert!(text.contains(&format!("ok={}", TASKS - 1)), "{text}");
        // One before reset_connection, one after.
        assert_eq!(logins(&site), 2, "{}", site.running.daemon.log());
        end_masters(&site, &sockets);
    }
}

#[test]
fn git_and_rsync_share_a_login() {
    let (Some(git), Some(rsync)) = (installed("git"), installed("rsync")) else {
        return skipped("git and rsync", &"they are not installed");
    };
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "");
    let folder = Scratch::new();
    let ssh = format!(
        "{} -o ControlMaster=auto -o ControlPersist=30 -o ControlPath={}",
        site.wrapper().display(),
        folder.join("s").display()
    );
    let place = |name: &str| folder.join(name).display().to_string();
    let run = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("HOME", folder.path())
            .env("GIT_SSH_COMMAND", &ssh)
            .env("GIT_CONFIG_NOSYSTEM", "1");
        let outcome = finish(&mut command, Input::Nothing);
        assert_eq!(outcome.status, 0, "{arguments:?}: {}", outcome.summary());
    };
    run(&git, &["init", "-q", "--bare", &place("bare")]);
    let from = format!("ssh://{HOST}{}", place("bare"));
    run(&git, &["clone", "-q", &from, &place("copy")]);
    run(&git, &["-C", &place("copy"), "fetch", "-q"]);
    let bytes = interop::matrix::noise(1 << 20);
    folder.write("file", &bytes);
    let to = format!("{HOST}:{}", place("arrived"));
    run(&rsync, &["-e", &ssh, &place("file"), &to]);
    assert_eq!(fs::read(folder.join("arrived")).expect("the file"), bytes);
    assert_eq!(logins(&site), 1, "{}", site.running.daemon.log());
    let path = place("s");
    let asked = site.run_with("", &["-S", &path, "-O", "exit", HOST], Input::Nothing);
    assert_eq!(asked.status, 0, "{}", asked.summary());
}
