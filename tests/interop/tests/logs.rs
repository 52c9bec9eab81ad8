//! The log as read by fail2ban and sshguard: with their own filters they count the same for our
//! server as for OpenSSH's.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use interop::account::Guest;
use interop::fixture;
use interop::peers::Running;
use interop::peers::openssh::{client_config, server_config};
use interop::peers::ours::Kind;
use interop::process::{Input, Outcome, installed};
use interop::report::skipped;
use interop::scratch::Scratch;
use interop::site::{askpass, finish};
use interop::syslog::{self, Syslog};

const PASSWORD: &str = "Corr3ct horse, battery";
/// Number of simultaneous events.
const AT_ONCE: usize = 4;
/// Time limit for a silent server.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server and its visitors.
struct Site {
    running: Running,
    log: Syslog,
    user: String,
    /// Listed in DenyUsers.
    barred: String,
}

/// A visitor with a unique address, which identifies its log lines.
struct Visitor<'a> {
    site: &'a Site,
    address: Ipv4Addr,
}

impl Visitor<'_> {
    /// OpenSSH's client, with these lines of configuration and answers to its questions.
    fn ssh(&self, user: &str, lines: &str, answers: &[&str]) -> Outcome {
        self.ssh_of(Kind::OpenSsh, user, lines, answers)
    }

    fn ssh_of(&self, client: Kind, user: &str, lines: &str, answers: &[&str]) -> Outcome {
        let running = &self.site.running;
        let scratch = Scratch::new();
        let text = format!(
            "{lines}Host *\nBindAddress {}\nBatchMode no\nPort {}\nUser \"{user}\"\n{}",
            self.address,
            running.daemon.port,
            client_config(&running.known_hosts, "user_ed25519")
        );
        let config = scratch.write("ssh_config", text);
        let program = askpass(&scratch, answers);
        let mut command = client.ssh().expect("a client");
        command
            .arg("-F")
            .arg(config)
            .args(["127.0.0.1", "true"])
            .env("SSH_ASKPASS", program)
            .env("SSH_ASKPASS_REQUIRE", "force");
        finish(&mut command, Input::Nothing)
    }

    /// Answers to this number of password questions; all but the last are wrong, and the last too,
    /// unless `good`.
    fn asked(&self, user: &str, method: &str, tries: usize, good: bool) {
        let mut answers = vec!["wrong"; tries];
        if let Some(last) = answers.last_mut().filter(|_| good) {
            *last = PASSWORD;
        }
        let lines = format!("PreferredAuthentications {method}\nNumberOfPasswordPrompts {tries}\n");
        let outcome = self.ssh(user, &lines, &answers);
        assert_eq!(outcome.status == 0, good, "{}", outcome.summary());
    }

    /// A login with keys, accepted or refused.
    fn keys(&self, user: &str, names: &[&str], good: bool) {
        let mut lines = "PreferredAuthentications publickey\n".to_owned();
        for name in names {
            let file = fixture::file(name);
            lines.push_str(&format!("IdentityFile {}\n", file.display()));
        }
        let outcome = self.ssh(user, &lines, &[]);
        assert_eq!(outcome.status == 0, good, "{}", outcome.summary());
    }

    /// A visitor who only queries the methods.
    fn nothing(&self, user: &str) {
        let outcome = self.ssh(user, "PreferredAuthentications none\n", &[]);
        assert_eq!(outcome.status, 255, "{}", outcome.summary());
    }

    /// Our client, which disconnects if it has nothing to log in with.
    fn leaves(&self, user: &str) {
        let lines = "PreferredAuthentications hostbased\n";
        let outcome = self.ssh_of(Kind::Fulmar, user, lines, &[]);
        assert_eq!(outcome.status, 255, "{}", outcome.summary());
    }

    /// A client that disconnects before its login.
    fn refuses(&self, lines: &str) {
        let outcome = self.ssh(&self.site.user, lines, &[]);
        assert_eq!(outcome.status, 255, "{}", outcome.summary());
    }

    /// A visitor who sends these bytes and leaves, after the server has closed or at once.
    fn says(&self, bytes: &[u8], waits: bool) {
        let from = SocketAddrV4::new(self.address, 0);
        let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.site.running.daemon.port);
        let mut stream = connect(from, to).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        // The version line of the server.
        let _ = stream.read(&mut [0; 1024]);
        stream.write_all(bytes).expect("taken");
        if waits {
            let _ = stream.read_to_end(&mut Vec::new());
        }
        let _ = stream.shutdown(Shutdown::Both);
    }
}

fn connect(from: SocketAddrV4, to: SocketAddrV4) -> std::io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &from)?;
    connect(&socket, &to)?;
    Ok(socket.into())
}

type Event = (&'static str, fn(&Visitor<'_>));

/// The events.
const EVENTS: &[Event] = &[
    ("one wrong password", |v| {
        v.asked(&v.site.user, "password", 1, false)
    }),
    ("three wrong passwords", |v| {
        v.asked(&v.site.user, "password", 3, false)
    }),
    ("a wrong password, then the right one", |v| {
        v.asked(&v.site.user, "password", 2, true)
    }),
    ("a good password", |v| {
        v.asked(&v.site.user, "password", 1, true)
    }),
    ("a password of an unknown user", |v| {
        v.asked(UNKNOWN, "password", 1, false)
    }),
    ("three passwords of an unknown user", |v| {
        v.asked(UNKNOWN, "password", 3, false)
    }),
    ("a password of a barred user", |v| {
        v.asked(&v.site.barred, "password", 1, false)
    }),
    ("root's password", |v| v.asked("root", "password", 1, false)),
    ("one wrong answer", |v| {
        v.asked(&v.site.user, ASKS, 1, false)
    }),
    ("three wrong answers", |v| {
        v.asked(&v.site.user, ASKS, 3, false)
    }),
    ("a wrong answer, then the right one", |v| {
        v.asked(&v.site.user, ASKS, 2, true)
    }),
    ("a good answer", |v| v.asked(&v.site.user, ASKS, 1, true)),
    ("an answer of an unknown user", |v| {
        v.asked(UNKNOWN, ASKS, 1, false)
    }),
    ("three answers of an unknown user", |v| {
        v.asked(UNKNOWN, ASKS, 3, false)
    }),
    ("an answer of a barred user", |v| {
        v.asked(&v.site.barred, ASKS, 1, false)
    }),
    ("root's answer", |v| v.asked("root", ASKS, 1, false)),
    ("more passwords than MaxAuthTries", |v| {
        v.asked(&v.site.user, "password", 7, false)
    }),
    ("more answers than MaxAuthTries", |v| {
        v.asked(&v.site.user, ASKS, 7, false)
    }),
    ("a key", |v| v.keys(&v.site.user, &["user_ecdsa521"], true)),
    ("a key behind another", |v| {
        v.keys(&v.site.user, &["user_rsa", "user_ecdsa521"], true)
    }),
    ("a wrong key", |v| v.keys(&v.site.user, &[], false)),
    ("three wrong keys", |v| {
        v.keys(&v.site.user, &["user_rsa", "user_ecdsa256"], false)
    }),
    ("a key of an unknown user", |v| v.keys(UNKNOWN, &[], false)),
    ("a key of a barred user", |v| {
        v.keys(&v.site.barred, &["user_ecdsa521"], false)
    }),
    ("a key of root", |v| {
        v.keys("root", &["user_ecdsa521"], false)
    }),
    ("no method at all", |v| v.nothing(&v.site.user)),
    ("no method of an unknown user", |v| v.nothing(UNKNOWN)),
    ("no method of a barred user", |v| v.nothing(&v.site.barred)),
    ("a name that tells a story", |v| {
        v.nothing("x from 10.9.8.7 port 22 ssh2")
    }),
    ("nothing said", |v| v.says(b"", false)),
    ("nothing said by another", |v| v.says(b"", false)),
    ("a version and no more", |v| {
        v.says(b"SSH-2.0-scan\r\n", false)
    }),
    ("a page asked for", |v| {
        v.says(b"GET / HTTP/1.0\r\n\r\n", true)
    }),
    ("version 1", |v| v.says(b"SSH-1.5-old\r\n", true)),
    ("rubbish behind the version", |v| {
        v.says(b"SSH-2.0-scan\r\nxxxxxxxxxxxxxxxxxxxxxxxx", true)
    }),
    ("no cipher in common", |v| v.refuses("Ciphers 3des-cbc\n")),
    ("no key exchange in common", |v| {
        v.refuses("KexAlgorithms diffie-hellman-group1-sha1\n")
    }),
    ("our client without a method", |v| v.leaves(&v.site.user)),
    ("our client without a method, for nobody", |v| {
        v.leaves(UNKNOWN)
    }),
    ("an unknown host key", |v| {
        v.refuses("UserKnownHostsFile /dev/null\n")
    }),
];

const UNKNOWN: &str = "nobody-here";
const ASKS: &str = "keyboard-interactive";

/// The first lines of a site's configuration.
struct Terms {
    name: &'static str,
    lines: &'static str,
    /// True with keyboard-interactive.
    asks: bool,
}

const AT_VERBOSE: &str = "with PAM at VERBOSE";

const TERMS: &[Terms] = &[
    Terms {
        name: "with PAM",
        lines: "UsePAM yes\nKbdInteractiveAuthentication yes\n",
        asks: true,
    },
    Terms {
        name: AT_VERBOSE,
        lines: "LogLevel VERBOSE\nUsePAM yes\nKbdInteractiveAuthentication yes\n",
        asks: true,
    },
    Terms {
        name: "without PAM",
        lines: "",
        asks: false,
    },
];

impl Terms {
    fn events(&self) -> impl Iterator<Item = (Ipv4Addr, &'static Event)> {
        let asks = self.asks;
        let numbered = (1_u8..).zip(EVENTS);
        numbered
            .filter(move |(_, (name, _))| asks || !name.contains("answer"))
            .map(|(number, event)| (Ipv4Addr::new(127, 0, 1, number), event))
    }

    /// All events at a server of this kind, and the log of it.
    fn log(&self, kind: Kind, user: &Guest, barred: &Guest) -> Result<Vec<String>, String> {
        let scratch = Scratch::new();
        // OpenSSH before 10.6 counts each refused question about a key for MaxAuthTries.
        let counts_each = match kind {
            Kind::Fulmar => "PubkeyAuthOptions max-pk-ok:0\n",
            Kind::OpenSsh => "",
        };
        let config = format!(
            "{}{counts_each}PasswordAuthentication yes\nPermitRootLogin no\nDenyUsers {}\n\
             AuthorizedKeysFile .ssh/authorized_keys\n{}",
            self.lines,
            barred.name,
            server_config(kind, &scratch)
        );
        let (running, log) = syslog::start(kind, scratch, &config, &[])?;
        let site = Site {
            running,
            log,
            user: user.name.clone(),
            barred: barred.name.clone(),
        };
        let events: Vec<_> = self.events().collect();
        std::thread::scope(|scope| {
            for part in 0..AT_ONCE {
                let (site, events) = (&site, &events);
                scope.spawn(move || {
                    for (address, (_, event)) in events.iter().skip(part).step_by(AT_ONCE) {
                        let address = *address;
                        event(&Visitor { site, address });
                    }
                });
            }
        });
        site.running.daemon.comes_to_rest();
        Ok(site.log.lines())
    }
}

/// Number of occurrences of each address in a program's output.
fn count(addresses: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for address in addresses {
        *counts.entry(address).or_default() += 1;
    }
    counts
}

/// The matches of Debian's fail2ban filter in this mode.
fn fail2ban(log: &Path, mode: &str) -> BTreeMap<String, usize> {
    let mut command = Command::new("fail2ban-regex");
    command
        .args(["--usedns=no", "--out=ip"])
        .arg(log)
        .arg(format!("sshd[mode={mode}]"));
    let outcome = finish(&mut command, Input::Nothing);
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
    count(outcome.stdout.text().lines().map(str::to_owned))
}

/// The attacks that sshguard's parser detects, each line by itself, because it sometimes misses a
/// line after others.
fn sshguard(lines: &[String]) -> BTreeMap<String, usize> {
    let parse = |line: &String| {
        let input = format!("{line}\n");
        let outcome = finish(&mut Command::new(SSHGUARD), Input::Bytes(input.as_bytes()));
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        // Service, address, kind of address, severity.
        let text = outcome.stdout.text();
        text.split_whitespace().nth(1).map(str::to_owned)
    };
    count(lines.iter().filter_map(parse))
}

const SSHGUARD: &str = "/usr/libexec/sshguard/sshg-parser";
const FAIL2BAN_MODES: [&str; 4] = ["normal", "ddos", "extra", "aggressive"];

/// Both servers after all events.
struct Logs {
    terms: &'static Terms,
    theirs: Log,
    ours: Log,
}

struct Log {
    lines: Vec<String>,
    file: PathBuf,
}

impl Log {
    /// The lines about a visitor: those of processes that name its address once.
    fn about(&self, address: &str) -> Vec<&str> {
        let pid = |line: &str| line.split(['[', ']']).nth(1).map(str::to_owned);
        let is_about = |line: &str| {
            let mut words = line.split(|c: char| !c.is_ascii_digit() && c != '.');
            words.any(|word| word == address)
        };
        let pids: BTreeSet<_> = self
            .lines
            .iter()
            .filter(|line| is_about(line))
            .map(|line| pid(line))
            .collect();
        let lines = self.lines.iter().filter(|line| pids.contains(&pid(line)));
        lines.map(String::as_str).collect()
    }
}

impl Logs {
    /// The logs of all terms, whose servers run at once: PAM lets each wrong password wait for seconds.
    fn all(scratch: &Scratch, user: &Guest, barred: &Guest) -> Vec<Self> {
        let log = |terms: &Terms, kind: Kind| {
            let lines = terms
                .log(kind, user, barred)
                .unwrap_or_else(|why| panic!("{why}"));
            let name = format!("{}, {}", kind.name(), terms.name);
            let file = scratch.write(&name, lines.join("\n") + "\n");
            Log { lines, file }
        };
        std::thread::scope(|scope| {
            let begun = TERMS.iter().map(|terms| {
                let both = [Kind::OpenSsh, Kind::Fulmar];
                (
                    terms,
                    both.map(|kind| scope.spawn(move || log(terms, kind))),
                )
            });
            let begun: Vec<_> = begun.collect();
            let ended = begun.into_iter().map(|(terms, both)| {
                let [theirs, ours] = both.map(|log| log.join().expect("a log"));
                Self {
                    terms,
                    theirs,
                    ours,
                }
            });
            ended.collect()
        })
    }

    /// Fails with each event that a log reader counts differently.
    fn compare(
        &self,
        reader: &str,
        count: impl Fn(&Log) -> BTreeMap<String, usize> + Sync,
        differences: &mut Vec<String>,
    ) {
        let (theirs, ours) = std::thread::scope(|scope| {
            let theirs = scope.spawn(|| count(&self.theirs));
            let ours = count(&self.ours);
            (theirs.join().expect("a count"), ours)
        });
        for (address, (name, _)) in self.terms.events() {
            let address = address.to_string();
            let of = |counts: &BTreeMap<String, usize>| counts.get(&address).copied().unwrap_or(0);
            if of(&theirs) != of(&ours) {
                differences.push(format!(
                    "{}, {reader}: {name}: {} at OpenSSH, {} at ours\n{}\nand\n{}",
                    self.terms.name,
                    of(&theirs),
                    of(&ours),
                    self.theirs.about(&address).join("\n"),
                    self.ours.about(&address).join("\n"),
                ));
            }
        }
    }
}

/// Lines that administrators expect at LogLevel VERBOSE: both OpenSSH and Fulmar have each, in this
/// order.
const VERBOSE_LINES: &[(&str, &[&str])] = &[
    (
        "a key",
        &[
            "Connection from ",
            "Accepted key ECDSA SHA256:",
            "Postponed publickey for ",
            "Accepted publickey for ",
            "User child is on pid ",
            "Starting session: command for ",
            "Received disconnect from ",
            "Disconnected from user ",
        ],
    ),
    (
        "one wrong answer",
        &[
            "Connection from ",
            "Postponed keyboard-interactive for ",
            "error: PAM: Authentication failure for ",
            "Failed keyboard-interactive/pam for ",
            "Connection closed by authenticating user ",
        ],
    ),
];

#[test]
fn programs_that_ban_by_the_log_count_what_they_count_for_openssh() {
    let (Ok(mut user), Ok(mut barred)) = (Guest::new(), Guest::new()) else {
        skipped("logs", &"needs root");
        return;
    };
    if Kind::OpenSsh.sshd().is_err() {
        skipped("logs", &"no OpenSSH to compare with");
        return;
    }
    for guest in [&mut user, &mut barred] {
        guest.set_password(PASSWORD).expect("a password");
        let key = fixture::text("user_ecdsa521.pub");
        guest.write(".ssh/authorized_keys", key, 0o600);
    }
    let scratch = Scratch::new();
    let mut differences = Vec::new();
    for logs in Logs::all(&scratch, &user, &barred) {
        let terms = logs.terms;
        if installed("fail2ban-regex").is_some() {
            for mode in FAIL2BAN_MODES {
                let reader = format!("fail2ban {mode}");
                logs.compare(&reader, |log| fail2ban(&log.file, mode), &mut differences);
            }
        } else {
            skipped("fail2ban", &"not installed");
        }
        if Path::new(SSHGUARD).exists() {
            logs.compare("sshguard", |log| sshguard(&log.lines), &mut differences);
        } else {
            skipped("sshguard", &"not installed");
        }
        if terms.name == AT_VERBOSE {
            logs.look_for_verbose_lines(&mut differences);
        }
        if terms.asks {
            logs.look_for_lines_of_pam(&mut differences);
        }
    }
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}

impl Logs {
    fn look_for_verbose_lines(&self, differences: &mut Vec<String>) {
        for (event, beginnings) in VERBOSE_LINES {
            let (address, _) = self
                .terms
                .events()
                .find(|(_, (name, _))| name == event)
                .expect("an event");
            for (whose, log) in [("OpenSSH's", &self.theirs), ("our", &self.ours)] {
                let lines = log.about(&address.to_string());
                for beginning in *beginnings {
                    let text = |line: &&str| {
                        line.split_once("]: ")
                            .is_some_and(|(_, text)| text.starts_with(beginning))
                    };
                    if !lines.iter().any(text) {
                        differences.push(format!(
                            "{event}: {whose} log has no {beginning:?}:\n{}",
                            lines.join("\n")
                        ));
                    }
                }
            }
        }
    }

    /// Messages of PAM modules have the name and process ID of the server.
    fn look_for_lines_of_pam(&self, differences: &mut Vec<String>) {
        let is_named = |line: &str| {
            let (tag, text) = line.split_once(": ").unwrap_or_default();
            tag.contains(" sshd[")
                && text.starts_with("pam_unix(fulmar:auth): authentication failure;")
        };
        if !self.ours.lines.iter().any(|line| is_named(line)) {
            differences.push(format!("no line of pam_unix: {:#?}", self.ours.lines));
        }
    }
}

/// The lines of a server of `user` with these blocks, after a login of `who` with these lines of ssh_config.
fn logged(kind: Kind, user: &Guest, (who, client): (&str, &str), blocks: &str) -> Vec<String> {
    let scratch = Scratch::new();
    let config = format!(
        "PermitRootLogin forced-commands-only\nAuthorizedKeysFile .ssh/authorized_keys\n{}{blocks}",
        server_config(kind, &scratch)
    );
    let (running, log) =
        syslog::start(kind, scratch, &config, &[]).unwrap_or_else(|why| panic!("{why}"));
    let site = Site {
        running,
        log,
        user: user.name.clone(),
        barred: String::new(),
    };
    let address = Ipv4Addr::new(127, 0, 2, 1);
    Visitor {
        site: &site,
        address,
    }
    .ssh(who, client, &[]);
    site.running.daemon.comes_to_rest();
    site.log.lines()
}

/// True if the lines lack the text, or have it after `!`; `HOME` is replaced by the home of `user`.
fn is_wrong(part: &str, lines: &[String], user: &Guest) -> bool {
    let (text, is_wanted) = match part.strip_prefix('!') {
        Some(text) => (text, false),
        None => (part, true),
    };
    let text = text.replace("HOME", &user.home().display().to_string());
    lines.iter().any(|line| line.contains(&text)) != is_wanted
}

/// Events of one or two users, and their log lines, at both servers.
#[test]
fn what_let_a_user_in_is_in_the_log_where_match_asks_for_it() {
    let (Ok(user), Ok(other)) = (Guest::new(), Guest::new()) else {
        skipped("logs at VERBOSE", &"needs root");
        return;
    };
    let scratch = Scratch::new();
    let key = fixture::certificate(&scratch, "user_rsa", &["-n", &user.name]);
    let authority = fixture::text("user_ca.pub");
    let by_line = format!("cert-authority {authority}");
    user.write(".ssh/authorized_keys", by_line, 0o600);
    let plain = fixture::text("user_ed25519.pub");
    user.write(".ssh/plain", plain.clone(), 0o600);
    other.write(".ssh/authorized_keys", plain.clone(), 0o600);
    let forced = format!("command=\"true\" {plain}");
    let forced = scratch.write("forced", forced);
    let trusted = scratch.write("trusted", authority);
    let trusted = trusted.display();
    let of_rsa = format!("IdentityFile {}\n", key.display());
    let of_user = format!("Match User {}\nLogLevel VERBOSE\n", user.name);
    let cases: [(&str, String, &str, &str, &[&str]); 6] = [
        (
            "a certificate of a line",
            of_user.clone(),
            &user.name,
            &of_rsa,
            &[
                "Accepted certificate ID \"test\" (serial 0) signed by CA ED25519 SHA256:",
                " found at HOME/.ssh/authorized_keys:1",
            ],
        ),
        (
            "a certificate of a trusted authority",
            format!("{of_user}AuthorizedKeysFile none\nTrustedUserCAKeys {trusted}\n"),
            &user.name,
            &of_rsa,
            &[
                "Accepted certificate ID \"test\" (serial 0) signed by ED25519 CA SHA256:",
                &format!(" via {trusted}"),
            ],
        ),
        (
            "a key",
            format!("{of_user}AuthorizedKeysFile .ssh/plain\n"),
            &user.name,
            "",
            &[
                "Accepted key ED25519 SHA256:",
                " found at HOME/.ssh/plain:1",
            ],
        ),
        (
            "a root directory of its own",
            format!(
                "{of_user}AuthorizedKeysFile .ssh/plain\nChrootDirectory /\nForceCommand internal-sftp -u 0027\n"
            ),
            &user.name,
            "",
            &[
                "Changed root directory to \"/\"",
                "Starting session: forced-command (config) 'internal-sftp -u 0027' for ",
            ],
        ),
        (
            "another user",
            of_user.clone(),
            &other.name,
            "",
            &[
                "Accepted publickey for ",
                "!Accepted key ",
                "!Starting session",
            ],
        ),
        (
            "root with a command",
            format!("Match User root\nAuthorizedKeysFile {}\n", forced.display()),
            "root",
            "",
            &[
                "Root login accepted for forced command.",
                "Accepted publickey for root ",
            ],
        ),
    ];
    let mut failures = Vec::new();
    for (name, blocks, who, client, wanted) in &cases {
        for kind in [Kind::OpenSsh, Kind::Fulmar] {
            if kind.sshd().is_err() {
                continue;
            }
            let lines = logged(kind, &user, (who, client), blocks);
            for part in wanted.iter().filter(|part| is_wrong(part, &lines, &user)) {
                let kind = kind.name();
                failures.push(format!("{name}, {kind}: {part:?}:\n{}", lines.join("\n")));
            }
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}
