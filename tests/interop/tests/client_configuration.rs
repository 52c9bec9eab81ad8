//! The same lines of ssh_config and the same arguments with `ssh -G` of both suites: refusals and
//! resulting values. The table lists differences with reasons.

use std::collections::BTreeSet;

use interop::peers::ours::Kind;
use interop::report::skipped;
use interop::scratch::Scratch;

/// The common result of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Both {
    /// Both print these lines, in any order, and no others differ from a run without the case.
    Print(&'static [&'static str]),
    /// Both exit with 255 and print no values.
    Refuse,
    /// Both exit with 255 and this message.
    Say(&'static str),
    /// OpenSSH 9.2 has this result; ours refuses the case by name, or accepts it, for the given
    /// reason.
    Differ(&'static str),
}

use Both::{Differ, Print, Refuse, Say};

/// The lines of a file, the arguments before `h`, and their result.
type Case = (&'static str, &'static [&'static str], Both);

const LOOP: Both = Say("jumphost loop via h");

const CASES: &[Case] = &[
    // Connections through other hosts.
    ("Host *\nProxyJump h\n", &[], LOOP),
    ("Host *\nProxyJump h:23\n", &["-p", "23"], LOOP),
    ("ProxyJump u@h\n", &["-l", "u"], LOOP),
    ("HostName x\nProxyJump x\n", &[], Say("jumphost loop via x")),
    ("", &["-J", "h"], LOOP),
    ("ProxyJump u@h\n", &[], Print(&["proxyjump u@h"])),
    ("ProxyJump h:23\n", &[], Print(&["proxyjump h:23"])),
    (
        "ProxyJump none\nProxyCommand b\n",
        &[],
        Print(&["proxycommand b"]),
    ),
    ("ProxyJump none\nProxyJump b\n", &[], Print(&[])),
    (
        "ProxyJump NONE\nProxyJump b\nProxyCommand c\n",
        &[],
        Print(&["proxycommand c"]),
    ),
    ("ProxyCommand none\nProxyJump b\n", &[], Print(&[])),
    (
        "ProxyCommand a\nProxyJump b\n",
        &[],
        Print(&["proxycommand a"]),
    ),
    (
        "ProxyCommand a\n",
        &["-J", "none"],
        Print(&["proxycommand a"]),
    ),
    ("ProxyJump a\n", &["-J", "none"], Print(&[])),
    (
        "ProxyJump ssh://u@a:22\n",
        &[],
        Print(&["proxyjump u@a:22"]),
    ),
    ("ProxyJump [g]:22\n", &[], Print(&["proxyjump g:22"])),
    ("ProxyJump [::1]\n", &[], Print(&["proxyjump [::1]"])),
    ("ProxyJump ::1\n", &[], Say("Invalid ProxyJump \"::1\"")),
    ("ProxyJump a,,b\n", &[], Say("Invalid ProxyJump \"a,,b\"")),
    ("", &["-J", "::1"], Say("Invalid -J argument")),
    ("", &["-J", "none,a"], Print(&["proxyjump none,a"])),
    ("", &["-J", "a "], Print(&["proxyjump a"])),
    ("", &["-J", "u@a:22,b # $c"], Print(&["proxyjump u@a:22,b"])),
    ("", &["-J", "#"], Say("Invalid -J argument")),
    ("", &["-J", "a,"], Say("Invalid -J argument")),
    (
        "",
        &["-J", "a", "-J", "b"],
        Say("Only a single -J option is permitted"),
    ),
    (
        "",
        &["-oProxyCommand=x", "-J", "b"],
        Say("Cannot specify -J with ProxyCommand"),
    ),
    (
        "",
        &["-oProxyJump=a", "-J", "b"],
        Say("Only a single -J option is permitted"),
    ),
    // The last of two flags.
    ("", &["-4", "-6"], Print(&["addressfamily inet6"])),
    (
        "",
        &["-oAddressFamily=inet6", "-4"],
        Print(&["addressfamily inet"]),
    ),
    ("", &["-t", "-T"], Print(&["requesttty false"])),
    ("", &["-oCompression=no", "-C"], Print(&["compression yes"])),
    ("", &["-l", "a", "-l", "b"], Print(&["user a"])),
    ("", &["a@h", "-l", "b"], Print(&["user a"])),
    ("", &["-l", "b", "a@h"], Print(&["user b"])),
    ("User c\n", &["a@h"], Print(&["user a"])),
    ("", &["ssh://h:23", "-p", "24"], Print(&["port 23"])),
    // Keywords that are not permitted on the command line.
    (
        "",
        &["-oInclude=/x"],
        Say("Include directive not supported as a command-line option"),
    ),
    (
        "",
        &["-oHost=bar"],
        Say("Host directive not supported as a command-line option"),
    ),
    (
        "",
        &["-oMatch=all"],
        Say("directive not supported as a command-line option"),
    ),
    // Names.
    (
        "",
        &["-l", "a;b"],
        Say("remote username contains invalid characters"),
    ),
    (
        "",
        &["-oUser=a|b"],
        Say("remote username contains invalid characters"),
    ),
    (
        "",
        &["-l", "a\\"],
        Say("remote username contains invalid characters"),
    ),
    (
        "",
        &["-l", "a$b"],
        Differ("10.6 refuses $, too (CVE-2026-106583)"),
    ),
    (
        "",
        &["-l", "DOM\\b"],
        Differ("10.6 refuses a backslash, too (CVE-2026-106583)"),
    ),
    ("User a$b\n", &[], Print(&["user a$b"])),
    ("User pc$\n", &[], Print(&["user pc$"])),
    ("User DOM\\b\n", &[], Print(&["user DOM\\b"])),
    ("User a;b\n", &[], Print(&["user a;b"])),
    ("User -x\n", &[], Print(&["user -x"])),
    ("HostName a,b\n", &[], Print(&["hostname a,b"])),
    ("HostName a*b\n", &[], Print(&["hostname a*b"])),
    ("HostName ~x\n", &[], Print(&["hostname ~x"])),
    ("HostName ${x}\n", &[], Print(&["hostname ${x}"])),
    ("HostName \"a b\"\n", &[], Print(&["hostname a b"])),
    ("HostName %p\n", &[], Refuse),
    // `none` where it is permitted.
    (
        "UserKnownHostsFile none /a\n",
        &[],
        Say("\"none\" argument must appear alone."),
    ),
    (
        "GlobalKnownHostsFile /a none\n",
        &[],
        Say("\"none\" argument must appear alone."),
    ),
    (
        "GlobalKnownHostsFile NONE\n",
        &[],
        Print(&["globalknownhostsfile none"]),
    ),
    (
        "CanonicalDomains none a\n",
        &[],
        Say("\"none\" argument must appear alone."),
    ),
    (
        "CanonicalDomains .a\n",
        &[],
        Say("domain name \".a\" starts with invalid character"),
    ),
    ("KnownHostsCommand NONE\n", &[], Print(&[])),
    ("RemoteCommand none\n", &[], Print(&[])),
    ("RevokedHostKeys NONE\n", &[], Print(&[])),
    ("ControlPath none\n", &[], Print(&[])),
    ("User NONE\n", &[], Print(&["user NONE"])),
    ("SendEnv -x\n", &[], Print(&[])),
    ("DynamicForward ~/x\n", &[], Print(&["dynamicforward ~/x"])),
    ("EscapeChar NONE\n", &[], Refuse),
    ("ConnectTimeout NONE\n", &[], Refuse),
    ("ControlPersist TRUE\n", &[], Refuse),
    (
        "ServerAliveInterval none\nServerAliveInterval 5\n",
        &[],
        Print(&["serveraliveinterval 5"]),
    ),
    (
        "ConnectTimeout none\nConnectTimeout 5\n",
        &[],
        Print(&["connecttimeout 5"]),
    ),
    ("ForwardX11Timeout none\n", &[], Print(&[])),
    // Forms.
    ("Port\x0c77\n", &[], Refuse),
    ("\x0cPort 77\n", &[], Refuse),
    ("Port 77 \x0c\n", &[], Print(&["port 77"])),
    ("\"Port\"=77\n", &[], Say("Bad port '=77'.")),
    ("\"Port\" 77\n", &[], Print(&["port 77"])),
    (
        "RekeyLimit 1.5G\n",
        &[],
        Print(&["rekeylimit 1610612736 0"]),
    ),
    ("RekeyLimit 15\n", &[], Say("RekeyLimit too small")),
    ("RequiredRSASize 5\n", &[], Print(&["requiredrsasize 5"])),
    (
        "ConnectionAttempts 0\n",
        &[],
        Say("Invalid number of ConnectionAttempts"),
    ),
    (
        "ForkAfterAuthentication yes\n",
        &[],
        Say("Cannot fork into background without a command"),
    ),
    ("LocalForward 8080\n", &[], Say("Missing target argument.")),
    (
        "LocalForward 8080 g:0\n",
        &[],
        Say("Bad forwarding specification."),
    ),
    (
        "LocalForward ::1 g:2\n",
        &[],
        Say("Bad forwarding specification."),
    ),
    (
        "RemoteForward 8080:g:80\n",
        &[],
        Say("Bad forwarding specification."),
    ),
    (
        "RemoteForward 8080\n",
        &[],
        Print(&["remoteforward 8080 [socks]:0"]),
    ),
    (
        "DynamicForward 1080 g:1\n",
        &[],
        Say("extra arguments at end of line"),
    ),
    ("ControlPath ${UNSET_BY_ALL}\n", &[], Refuse),
    ("ControlPath %H\n", &[], Refuse),
    (
        "IdentityAgent $$\n",
        &[],
        Say("Invalid environment name $$."),
    ),
    (
        "IdentityAgent ${HOME}/x\n",
        &[],
        Print(&["identityagent HOME/x"]),
    ),
    ("TunnelDevice ANY:any\n", &[], Print(&[])),
    ("Match host= h\nPort 3\n", &[], Print(&["port 3"])),
    // Files of keys and includes.
    ("", &["-i", "/nonexistent/key"], Print(&[])),
    (
        "IdentityFile ${UNSET_BY_ALL}\n",
        &[],
        Print(&["identityfile ${UNSET_BY_ALL}"]),
    ),
    ("IdentityFile %T\n", &[], Print(&["identityfile %T"])),
    (
        "IdentityFile ~nosuchuser/x\n",
        &[],
        Print(&["identityfile ~nosuchuser/x"]),
    ),
    ("CertificateFile a%\n", &[], Print(&["certificatefile a%"])),
    (
        "Include ${UNSET_BY_ALL}/a\nPort 5\n",
        &[],
        Print(&["port 5"]),
    ),
    ("Include ~nosuchuser/a\nPort 5\n", &[], Print(&["port 5"])),
    ("Include /etc\nPort 5\n", &[], Print(&["port 5"])),
    // Lists of algorithms.
    (
        "Ciphers -aes*\n",
        &[],
        Print(&["ciphers chacha20-poly1305@openssh.com"]),
    ),
    ("HostKeyAlgorithms !ssh-ed25519\n", &[], Refuse),
    ("HostKeyAlgorithms *,!ssh-ed25519\n", &[], Refuse),
    ("CASignatureAlgorithms !x\n", &[], Refuse),
    ("HostKeyAlgorithms nothing*\n", &[], Refuse),
    (
        "Ciphers aes128-ctr,arcfour\n",
        &["-v"],
        Differ("names that are not known are passed over where others remain"),
    ),
    ("Ciphers arcfour\n", &[], Refuse),
    (
        "Ciphers 3des-cbc,aes256-cbc\nMACs hmac-md5-96\n",
        &[],
        Print(&["ciphers 3des-cbc,aes256-cbc", "macs hmac-md5-96"]),
    ),
    (
        "Ciphers -*\n",
        &[],
        Differ("a list without any algorithm makes no connection: refused"),
    ),
    // Deliberate.
    ("Port ssh\n", &[], Differ("ports are numbers")),
    (
        "FingerprintHash sha512\n",
        &[],
        Print(&["fingerprinthash SHA512"]),
    ),
    ("FingerprintHash ripemd160\n", &[], Refuse),
];

struct Outcome {
    status: Option<i32>,
    lines: BTreeSet<String>,
    said: String,
}

/// `ssh -G` with a file and arguments.
fn print(kind: Kind, scratch: &Scratch, text: &str, arguments: &[&str]) -> Outcome {
    let file = scratch.write("ssh_config", text);
    let mut command = kind.ssh().expect("an ssh");
    command
        .args(["-G", "-F"])
        .arg(file)
        .args(arguments)
        .arg("h");
    command.env_remove("UNSET_BY_ALL");
    command.stdin(std::process::Stdio::null());
    let output = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Outcome {
        status: output.status.code(),
        lines: text.lines().map(str::to_owned).collect(),
        said: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The lines that a case adds to what `kind` prints without it.
fn added(kind: Kind, outcome: &Outcome, scratch: &Scratch) -> BTreeSet<String> {
    let plain = print(kind, scratch, "", &[]);
    outcome.lines.difference(&plain.lines).cloned().collect()
}

#[test]
fn both_suites_read_the_same_from_the_same_lines() {
    if let Err(why) = Kind::OpenSsh.ssh() {
        return skipped("ssh -G of both", &why);
    }
    let scratch = Scratch::new();
    let home = std::env::var("HOME").unwrap_or_default();
    for (text, arguments, both) in CASES {
        let shown = format!("{text:?} {arguments:?}");
        let outcomes = [Kind::OpenSsh, Kind::tested()]
            .map(|kind| (kind, print(kind, &scratch, text, arguments)));
        for (kind, outcome) in &outcomes {
            let who = kind.name();
            let why = &outcome.said;
            match both {
                Print(wanted) => {
                    let wanted: BTreeSet<String> = wanted
                        .iter()
                        .map(|line| line.replace("HOME", &home))
                        .collect();
                    assert_eq!(outcome.status, Some(0), "{who}: {shown}: {why}");
                    assert_eq!(added(*kind, outcome, &scratch), wanted, "{who}: {shown}");
                }
                Refuse => assert_eq!(outcome.status, Some(255), "{who}: {shown}: {why}"),
                Say(words) => {
                    assert_eq!(outcome.status, Some(255), "{who}: {shown}: {why}");
                    assert!(why.contains(words), "{who}: {shown}: {why}");
                }
                Differ(_) => {}
            }
        }
        if let Differ(reason) = both {
            let [(_, theirs), (ours, mine)] = &outcomes;
            let same = theirs.status == mine.status && theirs.lines == mine.lines;
            let is_ours = *ours == Kind::Fulmar;
            assert!(!is_ours || !same, "{shown} differs no more: {reason}");
            assert!(
                !is_ours || !mine.said.is_empty(),
                "{shown}: ours says nothing of it"
            );
        }
    }
}

/// OpenSSH would start processes endlessly for some of these, so they run only with ours.
#[test]
fn no_process_starts_for_a_loop() {
    if Kind::tested() == Kind::OpenSsh {
        return;
    }
    let scratch = Scratch::new();
    for (text, via) in [
        ("Host *\nProxyJump h\n", "h"),
        (
            "Host h\nHostName 127.0.0.1\nPort 1\nHost *\nProxyJump h\n",
            "h",
        ),
        ("Host h\nProxyJump g\nHost g\nProxyJump h\n", "g"),
        ("Host h\nProxyJump a,b\nHost *\nProxyJump b\n", "b"),
    ] {
        let (status, said) = connect(&scratch, text);
        assert_eq!(status, Some(255), "{text}: {said}");
        // A hop's own process would print more, and so would the process that waits for it.
        assert_eq!(
            said.trim_end(),
            format!("jumphost loop via {via}"),
            "{text}"
        );
    }
}

fn connect(scratch: &Scratch, text: &str) -> (Option<i32>, String) {
    let file = scratch.write("ssh_config", text);
    let mut command = Kind::Fulmar.ssh().expect("ours");
    command.arg("-F").arg(file).args(["h", "true"]);
    command.stdin(std::process::Stdio::null());
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

/// A loop that is detected only at run time ends by itself.
#[test]
fn a_loop_of_commands_ends() {
    if Kind::tested() == Kind::OpenSsh {
        return;
    }
    let scratch = Scratch::new();
    let ssh = Kind::Fulmar.ssh().expect("ours");
    let log = scratch.path().join("started");
    let file = scratch.path().join("ssh_config");
    let program = ssh.get_program().to_string_lossy().into_owned();
    let text = format!(
        "Host *\nProxyCommand sh -c 'echo >> {}; exec {program} ssh -F {} -W %h:%p h'\n",
        log.display(),
        file.display()
    );
    let (status, said) = connect(&scratch, &text);
    assert_eq!(status, Some(255));
    assert!(said.contains("proxies run inside one another"), "{said}");
    let started = std::fs::read_to_string(log).unwrap_or_default();
    assert_eq!(started.lines().count(), 32);
}
