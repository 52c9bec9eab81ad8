//! The flags of each program, in the order of their names.

use crate::{Argument, Flag, Program};

use Argument::{Directory, File, Free, Host, None, Query, SshOption, SshdOption, User, Words};

/// A flag that completion offers.
pub(crate) const fn flag(name: &'static str, argument: Argument, help: &'static str) -> Flag {
    Flag {
        name,
        argument,
        help,
    }
}

/// A flag without a value that completion does not offer.
const fn hidden(name: &'static str) -> Flag {
    flag(name, None, "")
}

/// A flag with a value that completion does not offer.
const fn hidden_with_value(name: &'static str) -> Flag {
    flag(name, Free("value"), "")
}

/// The flags of `sftp-server`.
pub const SFTP_SERVER: &[Flag] = &[
    flag("d", Directory, "where relative paths begin"),
    flag("e", None, "log to standard error"),
    flag("f", Free("facility"), "syslog facility"),
    flag("h", None, "print the flags"),
    flag(
        "l",
        Words(&["QUIET", "FATAL", "ERROR", "INFO", "VERBOSE", "DEBUG"]),
        "log level",
    ),
    flag("P", Free("requests"), "refused requests"),
    flag("p", Free("requests"), "the only permitted requests"),
    flag("Q", Words(&["requests"]), "print the names of requests"),
    flag("R", None, "read-only"),
    flag("u", Free("umask"), "umask of new files"),
    // As a login shell: the rest is a command.
    hidden("c"),
];

/// The flags of `ssh`.
pub const SSH: &[Flag] = &[
    flag("4", None, "IPv4 only"),
    flag("6", None, "IPv6 only"),
    flag("A", None, "forward the agent"),
    flag("a", None, "no agent forwarding"),
    flag("B", Free("interface"), "connect from this interface"),
    flag("b", Free("address"), "connect from this address"),
    flag("C", None, "compress"),
    flag("c", Query("cipher"), "ciphers, best first"),
    flag(
        "D",
        Free("[address:]port"),
        "SOCKS server for connections from the server",
    ),
    flag("E", File, "write messages to this file"),
    flag("e", Free("character"), "escape character, or none"),
    flag("F", File, "the only configuration file"),
    flag("f", None, "go to the background after login"),
    flag("G", None, "print the configuration and exit"),
    flag("g", None, "forwardings listen on all addresses"),
    flag("I", File, "PKCS#11 library"),
    flag("i", File, "key to log in with"),
    flag("J", Host, "hosts to connect through"),
    flag("K", None, "log in by GSSAPI and delegate"),
    flag("k", None, "no GSSAPI delegation"),
    flag(
        "L",
        Free("[address:]port:host:port"),
        "forward a local port or socket",
    ),
    flag("l", User, "log in as this user"),
    flag(
        "M",
        None,
        "share the connection; twice: ask before each use",
    ),
    flag("m", Query("mac"), "MACs, best first"),
    flag("N", None, "no command"),
    flag("n", None, "do not read standard input"),
    flag(
        "O",
        Words(&[
            "check", "conninfo", "channels", "status", "forward", "cancel", "exit", "stop", "proxy",
        ]),
        "ask the master of a shared connection",
    ),
    flag("o", SshOption, "an option of ssh_config"),
    flag("P", Free("tag"), "tag for Match tagged"),
    flag("p", Free("port"), "port of the server"),
    flag("Q", Query("help"), "list supported names"),
    flag("q", None, "no messages"),
    flag(
        "R",
        Free("[address:]port:host:port"),
        "forward a remote port or socket",
    ),
    flag("S", File, "socket of a shared connection, or none"),
    flag("s", None, "the command is a subsystem"),
    flag("T", None, "no terminal"),
    flag("t", None, "request a terminal; twice: always"),
    flag("V", None, "print the version"),
    flag("v", None, "more messages"),
    flag(
        "W",
        Free("host:port"),
        "connect standard input and output to a port",
    ),
    flag(
        "w",
        Free("local[:remote]"),
        "connect tunnel devices of both sides",
    ),
    flag("X", None, "forward X11 for untrusted programs"),
    flag("x", None, "no X11 forwarding"),
    flag("Y", None, "forward X11 for trusted programs"),
    flag("y", None, "write messages to syslog"),
    flag("Z", None, "list the keys that would be tried and exit"),
    flag("json", None, "with -O status: as JSON"),
    // Refused by name, or without a meaning.
    hidden("1"),
    hidden("2"),
];

/// The flags of `sshd`.
pub const SSHD: &[Flag] = &[
    flag("4", None, "IPv4 only"),
    flag("6", None, "IPv6 only"),
    flag("C", Free("user=...,addr=..."), "connection for -T and -G"),
    flag("c", File, "host certificate"),
    flag("D", None, "stay in the foreground"),
    flag("d", None, "debug: one connection, to standard error"),
    flag("E", File, "log to this file"),
    flag("e", None, "log to standard error"),
    flag("f", File, "configuration file"),
    flag("G", None, "print the configuration"),
    flag("g", Free("seconds"), "time limit for a login"),
    flag("h", File, "host key"),
    flag("i", None, "serve the connection on standard input"),
    flag("o", SshdOption, "an option of sshd_config"),
    flag("p", Free("port"), "port to listen on"),
    flag("q", None, "log nothing"),
    flag("T", None, "check, and print the configuration"),
    flag("t", None, "check configuration and keys"),
    flag("V", None, "print the version"),
    // Accepted and ignored: a connection always gets a new process.
    hidden_with_value("b"),
    hidden_with_value("k"),
    hidden("Q"),
    hidden("r"),
    hidden_with_value("u"),
];

/// The flags of `agent`.
pub const AGENT: &[Flag] = &[
    flag(
        "A",
        Free("user:directory | shared:directory"),
        "directory of the socket",
    ),
    flag("a", File, "path of the socket"),
    flag("c", None, "print commands for a C shell"),
    flag("D", None, "stay in the foreground"),
    flag(
        "d",
        None,
        "stay in the foreground and print debugging messages",
    ),
    flag("E", Words(&["sha256", "md5"]), "hash of fingerprints"),
    flag("k", None, "end the agent of SSH_AGENT_PID"),
    flag(
        "O",
        Words(&["allow-remote-pkcs11", "no-restrict-websafe"]),
        "an option",
    ),
    flag("P", Free("patterns"), "permitted providers"),
    flag("s", None, "print commands for a Bourne shell"),
    flag("T", None, "make the socket in a new directory below TMPDIR"),
    flag("t", Free("time"), "default lifetime of keys"),
    flag("U", None, "keep stale sockets"),
    flag("u", None, "remove stale sockets and exit"),
    flag("V", None, "print the version"),
];

/// The flags of `add`.
pub const ADD: &[Flag] = &[
    flag("C", None, "certificates only"),
    flag("c", None, "confirm each use of the key"),
    flag("D", None, "remove all keys"),
    flag("d", None, "remove keys"),
    flag("E", Words(&["sha256", "md5"]), "hash of fingerprints"),
    flag("e", File, "remove the keys of a PKCS#11 library"),
    flag("H", File, "known hosts file for -h"),
    flag(
        "h",
        Free("[host>][user@]host"),
        "restrict the key to a destination",
    ),
    flag("K", None, "load the keys that a security key stores"),
    flag("k", None, "plain keys only"),
    flag("L", None, "list public keys"),
    flag("l", None, "list fingerprints"),
    hidden_with_value("M"),
    hidden_with_value("m"),
    flag("N", None, "certificates stay after their validity"),
    hidden("P"),
    flag("Q", None, "list the agent's extensions"),
    flag("q", None, "quiet"),
    flag("S", File, "provider library of security keys"),
    flag("s", File, "add the keys of a PKCS#11 library"),
    flag("T", None, "test keys"),
    flag("t", Free("time"), "lifetime of the key"),
    flag("v", None, "print debugging messages"),
    flag("X", None, "unlock the agent"),
    flag("x", None, "lock the agent"),
];

/// The flags of `keygen`.
pub const KEYGEN: &[Flag] = &[
    flag("A", None, "make missing host keys"),
    flag("a", Free("rounds"), "rounds of bcrypt for the passphrase"),
    flag("B", None, "show a fingerprint as words"),
    flag("b", Free("bits"), "size of the key"),
    flag("C", Free("comment"), "comment"),
    flag("c", None, "change the comment"),
    flag(
        "D",
        File,
        "PKCS#11 library: list its keys, or sign with one",
    ),
    flag("E", Words(&["sha256", "md5"]), "hash of fingerprints"),
    flag("e", None, "print the public key in another format"),
    flag("F", Host, "find a host in known_hosts"),
    flag("f", File, "the file"),
    flag("g", None, "records of -r in the generic format"),
    flag("H", None, "hash the names in known_hosts"),
    flag("h", None, "make a host certificate"),
    flag("I", Free("name"), "key ID of a certificate"),
    flag("i", None, "read a public key in another format"),
    flag("K", None, "download the keys that a security key stores"),
    flag("k", None, "make a revocation list"),
    flag("L", None, "show a certificate"),
    flag("l", None, "show a fingerprint"),
    flag("M", Words(&["generate", "screen", "auto"]), "make moduli"),
    flag(
        "m",
        Words(&["RFC4716", "PKCS8", "PEM", "hexdump"]),
        "format",
    ),
    flag("N", Free("passphrase"), "new passphrase"),
    flag(
        "n",
        Free("names"),
        "principals of a certificate, number of moduli",
    ),
    flag(
        "O",
        Free("option"),
        "option of a certificate, of a security key or of -M",
    ),
    flag("P", Free("passphrase"), "old passphrase"),
    flag("p", None, "change the passphrase"),
    flag("Q", None, "check keys against a revocation list"),
    flag("q", None, "fewer messages"),
    flag("R", Host, "remove a host from known_hosts"),
    flag("r", Host, "print SSHFP records of a key for this host"),
    flag("s", File, "sign certificates with this key"),
    flag(
        "t",
        Words(&[
            "ed25519",
            "ecdsa",
            "rsa",
            "ed25519-sk",
            "ecdsa-sk",
            "mldsa44-ed25519",
        ]),
        "type of the key",
    ),
    flag("U", None, "sign with a key that the agent holds"),
    flag("u", None, "add to a revocation list"),
    flag("V", Free("from:to"), "validity of a certificate"),
    flag("v", None, "show the fingerprint as a picture too"),
    flag("w", File, "provider library of security keys"),
    flag(
        "Y",
        Words(&[
            "sign",
            "verify",
            "check-novalidate",
            "find-principals",
            "match-principals",
        ]),
        "signatures over files",
    ),
    flag("y", None, "print the public key of a private one"),
    flag("Z", Query("cipher"), "cipher of the file"),
    flag(
        "z",
        Free("serial"),
        "serial number of a certificate, version of a list",
    ),
    // The former names of what `-i` says, and of the default.
    hidden("X"),
    hidden("o"),
];

/// The flags of `keyscan`.
pub const KEYSCAN: &[Flag] = &[
    flag("4", None, "IPv4 only"),
    flag("6", None, "IPv6 only"),
    flag("c", None, "certificates instead of keys"),
    flag("D", None, "print SSHFP records"),
    flag("f", File, "list of hosts"),
    flag("H", None, "hash the names"),
    flag(
        "O",
        Words(&["hashalg=sha1", "hashalg=sha256"]),
        "hash of the records",
    ),
    flag("p", Free("port"), "port of the servers"),
    flag("q", None, "no comments"),
    flag("T", Free("seconds"), "time limit for a host"),
    flag(
        "t",
        Words(&[
            "rsa",
            "ecdsa",
            "ed25519",
            "ecdsa-sk",
            "ed25519-sk",
            "mldsa44-ed25519",
        ]),
        "types of keys",
    ),
    flag("v", None, "more messages"),
];

/// The flags of `each`.
pub const EACH: &[Flag] = &[
    flag("4", None, "IPv4 only"),
    flag("6", None, "IPv6 only"),
    flag("A", None, "forward the agent"),
    flag("b", Free("address"), "connect from this address"),
    flag("C", None, "compress"),
    flag("c", Query("cipher"), "ciphers, best first"),
    flag("connect-timeout", Free("time"), "limit of connecting"),
    flag("F", File, "the only configuration file"),
    flag("first-failure", None, "end with the first host that fails"),
    flag("get", None, "copy files of the hosts here"),
    hidden("h"),
    hidden("help"),
    flag("i", File, "identity file"),
    flag("J", Host, "jump through these hosts"),
    flag("json", None, "write JSON"),
    flag("l", User, "user"),
    flag("m", Query("mac"), "MACs, best first"),
    flag("n", Free("hosts"), "hosts at once"),
    flag("o", SshOption, "option of ssh_config"),
    flag("output", Directory, "write a file for each host"),
    flag("p", Free("port"), "port"),
    flag("prefix", None, "write line by line, with the host's name"),
    flag("preserve", None, "keep times and modes"),
    flag("put", None, "copy files to the hosts"),
    flag("q", None, "no messages"),
    flag("r", None, "copy directories"),
    flag("stdin", None, "give standard input to each host"),
    flag("timeout", Free("time"), "limit of the work of one host"),
    flag("v", None, "more messages"),
    flag("x", Host, "leave these hosts out"),
];

/// The flags of `copy-id`.
pub const COPY_ID: &[Flag] = &[
    flag("F", File, "the only configuration file"),
    flag(
        "f",
        None,
        "install without a look whether the keys are there",
    ),
    flag("i", File, "the keys of this file"),
    flag("n", None, "show the keys only"),
    flag("o", SshOption, "an option of ssh_config"),
    flag("p", Free("port"), "port of the server"),
    flag("s", None, "use SFTP, not a shell"),
    flag("t", Free("path"), "the file there"),
    flag("x", None, "show the commands"),
    // Prints the usage.
    hidden("h"),
];

/// The flags of `scp`.
pub const SCP: &[Flag] = &[
    flag("3", None, "remote to remote through this machine"),
    flag("4", None, "IPv4 only"),
    flag("6", None, "IPv6 only"),
    flag("A", None, "forward the agent"),
    flag("B", None, "never prompt"),
    flag("C", None, "compress"),
    flag("c", Query("cipher"), "ciphers, best first"),
    flag("D", File, "local SFTP server instead"),
    flag("d", None, "the target must be a directory"),
    flag("F", File, "the only configuration file"),
    flag("i", File, "key to log in with"),
    flag("J", Host, "hosts to connect through"),
    flag("l", Free("kilobits"), "limit in kilobits per second"),
    flag("M", Free("server"), "subsystem or path of the SFTP server"),
    flag("n", Free("number"), "connections for one copy, or auto"),
    flag("O", None, "the old protocol"),
    flag("o", SshOption, "an option of ssh_config"),
    flag("P", Free("port"), "port of the server"),
    flag("p", None, "keep modes and times"),
    flag("q", None, "no progress"),
    flag("R", None, "remote to remote, started on the first host"),
    flag("r", None, "copy directories"),
    flag("S", File, "program that connects"),
    flag("s", None, "SFTP, the default"),
    flag("T", None, "with -O, accept names that were not requested"),
    flag("v", None, "more messages"),
    flag("X", Free("option"), "no effect"),
    flag("Z", None, "continue a copy after verifying its first part"),
    flag(
        "atomic",
        None,
        "replace the target when the copy is complete",
    ),
    flag("json", None, "results as JSON"),
    flag("limit", Free("rate"), "limit in bytes per second"),
    flag("sparse", None, "preserve holes"),
    flag("verify", None, "compare both ends afterwards"),
    // Refused by name, given by the other side of `-O`, or the default.
    hidden("1"),
    hidden("2"),
    hidden("7"),
    hidden("8"),
    hidden("f"),
    hidden("t"),
    hidden("help"),
];

/// The flags of `sftp`.
pub const SFTP: &[Flag] = &[
    flag("4", None, "IPv4 only"),
    flag("6", None, "IPv6 only"),
    flag("A", None, "forward the agent"),
    flag("a", None, "continue partial files"),
    flag("B", Free("bytes"), "no effect"),
    flag("b", File, "run the commands of this file"),
    flag("C", None, "compress"),
    flag("c", Query("cipher"), "ciphers, best first"),
    flag("D", File, "local SFTP server instead"),
    flag("F", File, "the only configuration file"),
    flag("f", None, "sync files to the disk"),
    flag("i", File, "key to log in with"),
    flag("J", Host, "hosts to connect through"),
    flag("l", Free("kilobits"), "limit in kilobits per second"),
    flag("N", None, "not quiet"),
    flag("o", SshOption, "an option of ssh_config"),
    flag("P", Free("port"), "port of the server"),
    flag("p", None, "keep modes and times"),
    flag("q", None, "fewer messages"),
    flag("R", Free("number"), "no effect"),
    flag("r", None, "copy directories"),
    flag("S", File, "program that connects"),
    flag("s", Free("server"), "subsystem or path of the SFTP server"),
    flag("v", None, "more messages"),
    flag("X", Free("option"), "no effect"),
    // Refused by name, or without a meaning; `-h` prints the usage.
    hidden("1"),
    hidden("2"),
    hidden("h"),
];

/// The flags of `demo`.
pub const DEMO: &[Flag] = &[
    flag("size", Free("MiB"), "MiB in each direction"),
    hidden("h"),
    hidden("help"),
];

/// The flags of `bench`.
pub const BENCH: &[Flag] = &[
    flag("cipher", Query("cipher"), "ciphers to measure"),
    flag(
        "connections",
        Free("number"),
        "connections of the forward row, sessions of a master",
    ),
    flag("files", Free("number"), "small files of the copy row"),
    flag("html", File, "results as a page with charts"),
    flag("json", None, "results as JSON"),
    flag("logins", Free("number"), "logins per round, eight at once"),
    flag(
        "pairing",
        Words(&["ours-ours", "peer-peer", "ours-peer", "peer-ours"]),
        "clients and servers to combine",
    ),
    flag("pairs", Free("number"), "measured rounds"),
    flag(
        "part",
        Words(&[
            "local",
            "down",
            "dynamic",
            "remote",
            "unix",
            "streams",
            "ping",
            "connections",
            "idle",
            "keystroke",
            "stalls",
            "idle-ping",
            "tunnel",
            "udp",
            "first-byte",
            "far",
        ]),
        "parts of the forward row",
    ),
    flag("peer", Free("NAME=DIR"), "programs of a peer"),
    flag("rate", Free("Mbit/s"), "rates of the wan and echo rows"),
    flag(
        "rtt",
        Free("ms"),
        "round-trip times of the wan, copy, echo and forward rows",
    ),
    flag("sessions", Free("number"), "sessions of the idle row"),
    flag("size", Free("MiB"), "MiB of a transfer"),
    flag(
        "way",
        Words(&["pipes", "own", "file", "null"]),
        "sources and sinks of the bytes",
    ),
    hidden("h"),
    hidden("help"),
];

/// The flags of `speed`.
pub const SPEED: &[Flag] = &[
    flag("json", None, "results as JSON"),
    flag("html", File, "results as a page with charts"),
    flag("library", File, "measure compression with this library too"),
    hidden("h"),
    hidden("help"),
];

/// The flags of `install`.
pub const INSTALL: &[Flag] = &[
    flag("prefix", Directory, "directory of the binary and the links"),
    flag("root", Directory, "install below this directory"),
    flag("port", Free("port"), "port of the service"),
    flag("openssh-config", None, "read /etc/ssh/sshd_config"),
    flag("replace-sshd", None, "listen in place of OpenSSH's service"),
    flag("keysign", None, "install ssh-keysign, set-user-ID root"),
    flag("pam", Free("stack"), "PAM stack of debian, redhat or arch"),
    flag(
        "replace-openssh",
        None,
        "take the places of OpenSSH's programs",
    ),
    flag(
        "fulmar-defaults",
        None,
        "keep Fulmar's defaults in OpenSSH's place",
    ),
    flag("package", None, "files of a package"),
    flag("revert", None, "give OpenSSH its places back"),
    flag("remove", None, "uninstall"),
    flag("dry-run", None, "show the steps only"),
    hidden("h"),
    hidden("help"),
];

/// All programs, in the order of `fulmar`'s own help.
pub const PROGRAMS: &[Program] = &[
    Program {
        name: "ssh",
        help: "log in to another machine, or run a command there",
        flags: SSH,
        operand: Host,
        is_bench: false,
    },
    Program {
        name: "sshd",
        help: "serve logins to this machine",
        flags: SSHD,
        operand: None,
        is_bench: false,
    },
    Program {
        name: "sftp-server",
        help: "serve files to an SFTP client, started by an sshd",
        flags: SFTP_SERVER,
        operand: None,
        is_bench: false,
    },
    Program {
        name: "scp",
        help: "copy files from and to other machines",
        flags: SCP,
        operand: File,
        is_bench: false,
    },
    Program {
        name: "sftp",
        help: "work with the files of another machine",
        flags: SFTP,
        operand: Host,
        is_bench: false,
    },
    Program {
        name: "each",
        help: "run a command on many machines, or copy files",
        flags: EACH,
        operand: Host,
        is_bench: false,
    },
    Program {
        name: "agent",
        help: "hold keys and sign with them",
        flags: AGENT,
        operand: Free("command"),
        is_bench: false,
    },
    Program {
        name: "add",
        help: "add keys to the agent",
        flags: ADD,
        operand: File,
        is_bench: false,
    },
    Program {
        name: "keygen",
        help: "make, change and show keys and certificates",
        flags: KEYGEN,
        operand: File,
        is_bench: false,
    },
    Program {
        name: "keyscan",
        help: "collect the host keys of servers",
        flags: KEYSCAN,
        operand: Host,
        is_bench: false,
    },
    Program {
        name: "copy-id",
        help: "install public keys on another machine",
        flags: COPY_ID,
        operand: Host,
        is_bench: false,
    },
    Program {
        name: "demo",
        help: "try everything on this machine",
        flags: DEMO,
        operand: None,
        is_bench: true,
    },
    Program {
        name: "bench",
        help: "measure against the SSH installed on this machine",
        flags: BENCH,
        operand: Words(&[
            "throughput",
            "login",
            "echo",
            "rekey",
            "compress",
            "copy",
            "idle",
            "taskset",
            "wan",
            "forward",
            "keyscan",
            "agent",
            "sign",
            "each",
            "all",
            "up",
            "down",
        ]),
        is_bench: true,
    },
    Program {
        name: "speed",
        help: "measure ciphers, MACs and other primitives",
        flags: SPEED,
        operand: Free("algorithm"),
        is_bench: true,
    },
    Program {
        name: "install",
        help: "install or remove the binary, its links and its service",
        flags: INSTALL,
        operand: None,
        is_bench: false,
    },
];
