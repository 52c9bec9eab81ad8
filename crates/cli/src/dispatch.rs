//! Selects the program: by the first argument after `fulmar`, or by the name of a link to it.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// One program.
struct Subcommand {
    /// Subcommand of `fulmar`.
    name: &'static str,
    /// Names of links that start this program.
    links: &'static [&'static str],
    /// One line of help; `None` for roles that users do not start.
    help: Option<&'static str>,
    /// Output of `--help`; `None` if the program itself handles that flag.
    usage: Option<&'static str>,
    main: fn(Vec<OsString>) -> i32,
}

impl Subcommand {
    fn run(&self, arguments: Vec<OsString>) -> i32 {
        match self.usage {
            Some(usage) if arguments.first().is_some_and(|first| first == "--help") => {
                print!("{usage}");
                0
            }
            _ => (self.main)(arguments),
        }
    }
}

const PROGRAMS: &[Subcommand] = &[
    Subcommand {
        name: "ssh",
        links: &["ssh"],
        help: Some("log in to another machine, or run a command there"),
        usage: Some(client::USAGE),
        main: client::ssh_main,
    },
    Subcommand {
        name: "sshd",
        links: &["sshd"],
        help: if cfg!(target_env = "gnu") {
            Some("serve logins to this machine")
        } else {
            None
        },
        usage: if cfg!(target_env = "gnu") {
            Some(monitor::USAGE)
        } else {
            None
        },
        main: sshd,
    },
    Subcommand {
        name: "sftp-server",
        links: &["sftp-server"],
        help: Some("serve files to an SFTP client, started by an sshd"),
        usage: Some(server::sftp_server::USAGE),
        main: server::sftp_server::run,
    },
    Subcommand {
        name: "scp",
        links: &["scp"],
        help: Some("copy files from and to other machines"),
        usage: Some(copy::scp::USAGE),
        main: copy::scp::run,
    },
    Subcommand {
        name: "sftp",
        links: &["sftp"],
        help: Some("work with the files of another machine"),
        usage: Some(copy::sftp::USAGE),
        main: copy::sftp::run,
    },
    Subcommand {
        name: "each",
        links: &[],
        help: Some("run a command on many machines at once, or copy files to or from them"),
        usage: Some(each::USAGE),
        main: each::run,
    },
    Subcommand {
        name: "keygen",
        links: &["ssh-keygen"],
        help: Some("make, change and show keys and certificates"),
        usage: Some(keygen::USAGE),
        main: keygen::run,
    },
    Subcommand {
        name: "keyscan",
        links: &["ssh-keyscan"],
        help: Some("collect the host keys of servers"),
        usage: Some(keyscan::USAGE),
        main: keyscan::run,
    },
    Subcommand {
        name: "copy-id",
        links: &["ssh-copy-id"],
        help: Some("install public keys on another machine"),
        usage: Some(copy::copy_id::USAGE),
        main: copy::copy_id::run,
    },
    Subcommand {
        name: "agent",
        links: &["ssh-agent"],
        help: Some("hold keys and sign with them for ssh and others"),
        usage: Some(agentd::USAGE),
        main: agentd::run,
    },
    Subcommand {
        name: "add",
        links: &["ssh-add"],
        help: Some("add keys to the agent, remove, list and test them"),
        usage: Some(add::USAGE),
        main: add::run,
    },
    #[cfg(feature = "bench")]
    Subcommand {
        name: "demo",
        links: &[],
        help: Some("try everything on this machine: a private server, a login, a table of figures"),
        usage: None,
        main: bench::demo::run,
    },
    #[cfg(feature = "bench")]
    Subcommand {
        name: "bench",
        links: &[],
        help: Some("measure against the SSH installed on this machine"),
        usage: None,
        main: bench::run,
    },
    #[cfg(feature = "bench")]
    Subcommand {
        name: "speed",
        links: &[],
        help: Some("measure ciphers, MACs and other primitives on this machine"),
        usage: None,
        main: bench::speed::run,
    },
    Subcommand {
        name: "install",
        links: &[],
        help: Some("install or remove the binary, its links and its service"),
        usage: None,
        main: install::run,
    },
    Subcommand {
        name: "keysign",
        links: &["ssh-keysign"],
        help: None,
        usage: None,
        main: |_| client::keysign_main(),
    },
    #[cfg(target_env = "gnu")]
    Subcommand {
        name: "sshd-monitor",
        links: &[],
        help: None,
        usage: None,
        main: |_| monitor::monitor_main(),
    },
    #[cfg(target_env = "gnu")]
    Subcommand {
        name: "sshd-auth",
        links: &[],
        help: None,
        usage: None,
        // Neither this role nor the session's needs destructors at its end.
        main: |_| sys::process::exit_at_once(server::auth_main()),
    },
    #[cfg(target_env = "gnu")]
    Subcommand {
        name: "sshd-session",
        links: &[],
        help: None,
        usage: None,
        main: |_| sys::process::exit_at_once(server::session_main()),
    },
    Subcommand {
        name: "sshd-reader",
        links: &[],
        help: None,
        usage: None,
        main: |arguments| sys::process::exit_at_once(server::reader_main(&arguments)),
    },
    Subcommand {
        name: "sshd-recorder",
        links: &[],
        help: None,
        usage: None,
        main: |arguments| sys::process::exit_at_once(server::recorder_main(&arguments)),
    },
    Subcommand {
        name: fido::ROLE,
        links: &[fido::ROLE],
        help: None,
        usage: None,
        main: fido::main,
    },
    Subcommand {
        name: gssapi::ROLE,
        links: &[],
        help: None,
        usage: None,
        main: gssapi::main,
    },
    Subcommand {
        name: token::ROLE,
        links: &[],
        help: None,
        usage: None,
        main: token::main,
    },
    Subcommand {
        name: accelerator::ROLE,
        links: &[],
        help: None,
        usage: None,
        main: accelerator::main,
    },
    Subcommand {
        name: accelerator::PROBE_ROLE,
        links: &[],
        help: None,
        usage: None,
        main: accelerator::probe_main,
    },
];

#[cfg(target_env = "gnu")]
fn sshd(arguments: Vec<OsString>) -> i32 {
    monitor::sshd_main(arguments, server::greeting)
}

/// Without glibc there is no server: it would find only the users of /etc/passwd, and no PAM.
#[cfg(not(target_env = "gnu"))]
fn sshd(_arguments: Vec<OsString>) -> i32 {
    eprintln!(
        "fulmar: this build has no sshd: the C library musl has neither NSS nor PAM; use a package for \
         this system"
    );
    1
}

/// Programs that a build has only with the Cargo feature `bench`.
const BENCH_PROGRAMS: [&str; 3] = ["demo", "bench", "speed"];

/// The name of the binary itself.
const OWN_NAME: &str = "fulmar";

/// Runs the program that `args` selects (the first is the program's name); returns its exit status.
pub(crate) fn run(args: Vec<OsString>) -> i32 {
    // The only program that is installed set-user-ID. The caller chooses the arguments and the name,
    // and must not be able to choose another program. A group alone, which Debian gives ssh-agent so
    // that nobody traces it, is given up before anything else.
    if sys::process::is_elevated() && !matches!(sys::process::give_up_group(), Ok(true)) {
        return client::keysign_main();
    }
    let mut args = args.into_iter();
    let called = args.next().unwrap_or_default();
    let rest: Vec<OsString> = args.collect();
    if let Some(program) = by_link(&called) {
        return program.run(rest);
    }
    let Some((first, rest)) = rest.split_first() else {
        eprint!("{}", usage());
        return 2;
    };
    if let Some(program) = PROGRAMS.iter().find(|program| first == program.name) {
        return program.run(rest.to_vec());
    }
    match first.to_str() {
        // Only where the table has no such program.
        Some(name) if BENCH_PROGRAMS.contains(&name) => {
            eprintln!("fulmar: this build has no {name:?}: it was made without the feature bench");
            2
        }
        Some("help" | "--help" | "-h") => {
            print!("{}", usage());
            0
        }
        Some("version" | "--version" | "-V") => {
            println!("Fulmar_{}", env!("CARGO_PKG_VERSION"));
            0
        }
        _ => {
            eprintln!("fulmar: there is no program {first:?}");
            eprint!("{}", usage());
            2
        }
    }
}

/// The program by the name of the link that was called; if the name is not known, by the first known name that the link
/// leads to, as for `slogin`, a link to `ssh`, or an sshd with a name of its own.
fn by_link(called: &OsStr) -> Option<&'static Subcommand> {
    let known = by_name(Path::new(called));
    // No link, and the name of most calls and of all roles.
    if known.is_some() || Path::new(called).ends_with(OWN_NAME) {
        return known;
    }
    let path = sys::process::find_program(called)?;
    sys::process::link_chain(path).find_map(|path| by_name(&path))
}

fn by_name(path: &Path) -> Option<&'static Subcommand> {
    let name = path.file_name()?.to_str()?;
    PROGRAMS
        .iter()
        .find(|program| program.links.contains(&name))
}

fn usage() -> String {
    let mut text = String::from("usage: fulmar program [arguments]\n\nprograms:\n");
    for program in PROGRAMS {
        if let Some(help) = program.help {
            text.push_str(&format!("  {:<11} {help}\n", program.name));
        }
    }
    text.push_str(
        "\nA link to fulmar by the name ssh, sshd, scp, sftp, sftp-server, ssh-keygen, ssh-keyscan, \
         ssh-copy-id, ssh-agent or ssh-add is that program; so is a link by another name to such a link.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_by_a_programs_name_is_that_program() {
        let named = |path| by_link(OsStr::new(path)).map(|program| program.name);
        assert_eq!(named("/usr/lib/fulmar/bin/ssh"), Some("ssh"));
        assert_eq!(named("ssh-keygen"), Some("keygen"));
        assert_eq!(named("/usr/bin/fulmar"), None);
        assert_eq!(named("/nonexistent/slogin"), None);
        assert_eq!(named(""), None);
    }

    #[test]
    fn roles_are_not_offered_to_people() {
        assert!(!usage().contains("sshd-monitor"));
    }
}
