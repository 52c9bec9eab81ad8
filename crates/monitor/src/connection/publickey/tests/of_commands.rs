//! The environment of AuthorizedKeysCommand, and what it prints on standard error.

use super::*;

/// The lines of the log at `level` that a question about a key causes, whose command is a script that prints
/// the key too.
fn told(level: LogLevel, script: &str) -> Vec<String> {
    let mut home = Home::new();
    home.log = Log::to_memory(level);
    let key = line(&key(1));
    let config = format!(
        "AuthorizedKeysCommand /bin/sh -c '{script}; echo \"{key}\"'\nAuthorizedKeysCommandUser nobody"
    );
    let found = home.ask_key(&config, &super::key(1)).is_some();
    let lines = home.log.lines();
    assert!(found, "{lines:?}");
    lines
}

#[test]
fn a_command_has_the_path_of_sessions_and_little_else() {
    if !sys::process::is_root() {
        // Only root can run it as another user.
        return;
    }
    let lines = told(LogLevel::Verbose, "/usr/bin/env >&2");
    let mut names = Vec::new();
    for line in &lines {
        let variable = line.strip_prefix("AuthorizedKeysCommand: ");
        names.extend(variable.and_then(|variable| variable.split('=').next()));
    }
    // What the shell sets, and LANG, which this process may have.
    names.retain(|name| !["PWD", "_", "OLDPWD", "SHLVL", "LANG"].contains(name));
    names.sort_unstable();
    assert_eq!(names, ["HOME", "LOGNAME", "PATH", "USER"]);
    let path = format!("AuthorizedKeysCommand: PATH={}", config::server::USER_PATH);
    assert!(lines.contains(&path), "{lines:?}");
}

#[test]
fn what_a_command_complains_of_is_told_at_verbose_and_looks_like_no_line_of_sshd() {
    if !sys::process::is_root() {
        return;
    }
    let script = "printf \"one\\nAccepted publickey for root\\n\\033[2Jtwo\" >&2";
    let lines = told(LogLevel::Verbose, script);
    let [one, accepted, two, found] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert_eq!(one, "AuthorizedKeysCommand: one");
    assert_eq!(
        accepted,
        "AuthorizedKeysCommand: Accepted publickey for root"
    );
    assert!(two.starts_with("AuthorizedKeysCommand: ") && !two.contains('\u{1b}'));
    assert!(found.starts_with("Accepted key "), "{found}");
    assert!(told(LogLevel::Info, script).is_empty());
}

#[test]
fn a_key_is_found_behind_megabytes_of_others_and_not_behind_more_than_a_file_may_have() {
    if !sys::process::is_root() {
        return;
    }
    let much = |lines: usize| {
        let other = line(&key(2));
        format!("/usr/bin/yes \"{other}\" | /usr/bin/head -n {lines}")
    };
    let bytes = line(&key(2)).len() + 1;
    told(LogLevel::Info, &much((3 << 20) / bytes));
    let mut home = Home::new();
    home.log = Log::to_memory(LogLevel::Info);
    let script = much((16 << 20) / bytes + 1);
    let config = format!(
        "AuthorizedKeysCommand /bin/sh -c '{script}; echo \"{}\"'\nAuthorizedKeysCommandUser nobody",
        line(&key(1))
    );
    assert!(home.ask_key(&config, &key(1)).is_none());
    let lines = home.log.lines();
    assert!(
        lines[0].ends_with("more than 16 MiB of output"),
        "{lines:?}"
    );
}

#[test]
fn a_command_that_complains_without_end_is_neither_stopped_nor_told_in_full() {
    if !sys::process::is_root() {
        return;
    }
    // More than a pipe holds, before and after the end of its output.
    let much = "/usr/bin/yes | /usr/bin/head -n 100000 >&2";
    let lines = told(LogLevel::Verbose, much);
    assert!(lines.len() < 40_000, "{}", lines.len());
    let home = Home::new();
    let config = format!(
        "AuthorizedKeysCommandUser nobody\n\
         AuthorizedKeysCommand /bin/sh -c 'echo \"{}\"; exec >&-; {much}'",
        line(&key(1))
    );
    assert!(home.ask_key(&config, &key(1)).is_some());
}
