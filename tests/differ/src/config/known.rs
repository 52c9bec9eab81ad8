//! Where ours reads a configuration otherwise, with the reason. `*` of a pattern is any text.

use crate::list::Listed;
use crate::list::Why::{self, Defect, Said, Since, Theirs};

const CLIENT: &str = "ssh_config";
const SERVER: &str = "sshd_config";
const LOOKUP: &str = "lookup";
const LISTING: &str = "listing";

const ACCIDENTS: Why = Said("OpenSSH takes them by accident of its C parsers or /etc/services.");
const NEVER_MATCHES: Why =
    Said("An entry of `Match Address`/`LocalAddress` that no address can match");
const RSA_SIZE: Why = Said("`RequiredRSASize` below 1024 or above 16384: refused");
const SIZE_OF_ZERO: Why = Said("sshd: `Match LocalPort 0`, `RequiredRSASize` below 1024");
const PRINTED: Why = Said("-T prints `channeltimeout none`, `hostcertificate none`");
const SPEC: Why = Said("`sshd -C` with an address or port that does not parse: usage, status 1");
const SPECLESS: Why = Said("`Match LocalPort` without `lport=` in -T: no match");
const TILDE: Why = Said("`~` in paths of sshd_config: refused; OpenSSH puts root's home there.");
const RELATIVE: Why =
    Said("ChrootDirectory relative: taken from the directory sshd was started in");
const NO_TEXT: Why = Said("NUL, non-UTF-8, lines over 64 KiB: refused with file and line");
const NO_TEXT_OF_USER: Why = Said(
    "Lines of more than 64 KiB, more than 4096 words on a line, NUL and bytes that are not UTF-8",
);
const CASE_OF_NAMES: Why = Said("`keygen -F/-R FOO` also finds/removes the hash of `foo`");
const REVOKED: Why = Said("known_hosts: `@revoked<TAB>` counts for our ssh");
const BLANKS: Why = Said("`keygen -l` takes several blanks between options and key");
const NO_COMMENT: Why = Said("`keygen -l`: a line without comment says \"no comment\"");
const EMPTY_NAMES: Why = Said("A list with an empty name (`a,,b`) is refused");
const WITHOUT_OLD: Why = Said(
    "Names in a list of algorithms that are left out (CBC, hmac-md5, ssh-rsa, group1) or not known are passed over",
);
const NONE_OF_ANY_CASE: Why =
    Said("HostKeyAlias, BindAddress, BindInterface and IdentityAgent of `none` in any case");
const COSMETIC: Why = Said("Cosmetic: `127.1` is not rewritten to 127.0.0.1 in -G");
const LOOPS: Why = Said("Loops of ProxyJump are followed through the configuration of each hop");

const NOT_BY_NAME: Why = Said("Ports are numbers without sign or blank");
const NONE_LEFT: Why = Said("`Ciphers -*` and the like are refused");

const ORDER: Why =
    Defect("what a pattern in a list stands for comes in another order than OpenSSH's");
const COMPRESSION_LEVEL: Why = Defect(
    "ssh_config: OpenSSH passes over CompressionLevel, whatever it says; docs/differences.md does not say that ours reads it",
);
const CNAMES: Why = Defect(
    "ssh -G with CanonicalizePermittedCNAMEs: OpenSSH looks the host up and fails where nobody knows it",
);
const FIRST_FLAG: Why = Defect(
    "ssh: of several -l or -p OpenSSH reads the first alone; ours refuses a wrong one behind it",
);
const LONE_SIGN: Why = Defect("a line of `=` alone is passed over by OpenSSH");
const OBSOLETE: Why = Defect(
    "keywords that OpenSSH only takes where they stand (Protocol and others not in Match, GSSAPI with its own values) are passed over anywhere",
);
const NO_HOST_KEY: Why = Defect(
    "sshd -T fails where no host key fits HostKeyAlgorithms; OpenSSH's tells it when it starts",
);
const RDOMAIN: Why =
    Defect("Match RDomain: refused by name, and docs/differences.md does not say so");

/// All of them.
pub(crate) const LISTED: &[Listed] = &[
    // Both files.
    any("refuses", "*\u{0}*", NO_TEXT),
    any("refuses", "*\u{f8ff}*", NO_TEXT_OF_USER),
    any("refuses", "=", LONE_SIGN),
    any("refuses", " =", LONE_SIGN),
    any("refuses", "-o =", LONE_SIGN),
    any("refuses", "\"\"", LONE_SIGN),
    any("refuses", "*,,*", EMPTY_NAMES),
    any("refuses", "*algorithms *,", EMPTY_NAMES),
    any("refuses", "*ciphers *,", EMPTY_NAMES),
    any("refuses", "*macs *,", EMPTY_NAMES),
    any("prints *algorithms", "*\\**", ORDER),
    // ssh_config.
    client("refuses", "compressionlevel *", COMPRESSION_LEVEL),
    client(
        "prints compressionlevel",
        "compressionlevel *",
        COMPRESSION_LEVEL,
    ),
    client("takes", "canonicalizepermittedcnames *", CNAMES),
    client("refuses", "*-l *; -l *", FIRST_FLAG),
    client("refuses", "*-p *; -p *", FIRST_FLAG),
    client("prints addkeystoagent", "addkeystoagent 0", COSMETIC),
    client(
        "prints addkeystoagent",
        "addkeystoagent confirm 0",
        COSMETIC,
    ),
    client(
        "prints serveraliveinterval",
        "batchmode *",
        Said("batch mode of Debian sets ServerAliveInterval 300"),
    ),
    client(
        "prints forwardagent",
        "forwardagent *",
        Said("tokens of ForwardAgent and forwardings raw in -G"),
    ),
    client("prints hostkeyalias", "hostkeyalias none", NONE_OF_ANY_CASE),
    client(
        "prints identityagent",
        "identityagent none",
        NONE_OF_ANY_CASE,
    ),
    client(
        "prints hostkeyalias",
        "hostkeyalias *",
        Defect("ssh -G: OpenSSH prints HostKeyAlias in lower case"),
    ),
    client(
        "prints hostname",
        "canonicalizehostname *",
        Defect("ssh -G with CanonicalizeHostname: a dot at the end of the host is cut"),
    ),
    client(
        "prints dynamicforward",
        "localforward /*",
        Theirs("ssh -G shows a LocalForward of a socket as a DynamicForward"),
    ),
    client(
        "prints compression",
        "*-c*",
        Theirs("ssh -G of 10.6 prints `compression UNKNOWN` for -C"),
    ),
    client(
        "prints escapechar",
        "escapechar \\\\",
        Defect("ssh -G: a backslash of EscapeChar is printed twice by OpenSSH"),
    ),
    client(
        "prints ipqos",
        "*ipqos *",
        Defect("lowdelay, throughput and reliability of IPQoS mean none in 10.6"),
    ),
    client(
        "prints logverbose",
        "logverbose *",
        Defect("LogVerbose: OpenSSH's client takes the first word alone"),
    ),
    client(
        "prints obscurekeystroketiming",
        "obscurekeystroketiming interval:*",
        Theirs("ssh -G of 10.6 prints an interval in a form that its own reader refuses"),
    ),
    client(
        "prints revokedhostkeys",
        "*revokedhostkeys ~*",
        Defect("ssh -G of 10.6 puts the home in place of ~ in RevokedHostKeys"),
    ),
    client(
        "prints versionaddendum",
        "versionaddendum none",
        Defect("VersionAddendum of ssh_config: OpenSSH takes none of any case as nothing"),
    ),
    client(
        "prints warnweakcrypto",
        "warnweakcrypto *",
        Theirs("ssh -G of 10.6 prints no for no-pq-kex"),
    ),
    client(
        "takes",
        "warnweakcrypto * *",
        Defect("WarnWeakCrypto: OpenSSH takes one word"),
    ),
    client(
        "refuses",
        "*exitonforwardfailure yes*",
        Defect("forwardings with ExitOnForwardFailure are refused in -G, too"),
    ),
    client("refuses", "proxyjump *", LOOPS),
    client(
        "refuses",
        "setenv =*",
        Defect("SetEnv without a name is refused by ours; OpenSSH's lexer loses a sign"),
    ),
    client("refuses", "streamlocalbindmask *", ACCIDENTS),
    client(
        "refuses",
        "tunneldevice *",
        Defect("TunnelDevice above 65535 is refused"),
    ),
    client(
        "takes",
        "compression *",
        Defect("ssh_config: Compression takes true and false, which OpenSSH refuses"),
    ),
    client(
        "takes",
        "dynamicforward $*",
        Said("tokens of ForwardAgent and forwardings raw in -G"),
    ),
    client(
        "takes",
        "match sessiontype*",
        Defect(
            "Match sessiontype=x: OpenSSH up to 10.6 refuses the joined form in which ours takes it",
        ),
    ),
    client("takes", "ciphers *", WITHOUT_OLD),
    client("takes", "macs *", WITHOUT_OLD),
    client("takes", "kexalgorithms *", WITHOUT_OLD),
    client("takes", "hostkeyalgorithms *", WITHOUT_OLD),
    client("takes", "hostbasedaccepted* *", WITHOUT_OLD),
    client("takes", "pubkeyaccepted* *", WITHOUT_OLD),
    client("takes", "casignaturealgorithms *", WITHOUT_OLD),
    client("takes", "gssapi*", OBSOLETE),
    client("refuses", "* -*", NONE_LEFT),
    client("refuses", "localforward * *:http", NOT_BY_NAME),
    client(
        "prints proxyjump",
        "proxyjump '*",
        Defect("ProxyJump: OpenSSH leaves single quotes where they stand"),
    ),
    client(
        "prints user",
        "*user %*",
        Defect("ssh 10.6 expands tokens in User"),
    ),
    client(
        "prints syslogfacility",
        "*; *",
        Theirs("SyslogFacility counts in blocks that do not apply, too"),
    ),
    client(
        "refuses",
        "*canonicaldomains _*",
        Defect("CanonicalDomains: 10.6 takes a name that begins with _"),
    ),
    client(
        "takes",
        "match * sessiontype=*",
        Defect(
            "Match sessiontype=x: OpenSSH up to 10.6 refuses the joined form in which ours takes it",
        ),
    ),
    // sshd_config.
    server("takes", "gssapi*", OBSOLETE),
    server("takes", "match *; *", OBSOLETE),
    server("refuses", "requiredrsasize *", RSA_SIZE),
    server("refuses", "*match *address *", NEVER_MATCHES),
    server("refuses", "*match *localport 0*", SIZE_OF_ZERO),
    server("refuses", "*match *rdomain*", RDOMAIN),
    server("takes", "*match *localport *", SPECLESS),
    server("refuses", "-c user=*", SPEC),
    server("refuses", "* ~*", TILDE),
    server("prints chrootdirectory", "chrootdirectory *", RELATIVE),
    server("prints hostcertificate", "hostcertificate none", PRINTED),
    server(
        "prints hostkey",
        "host*key none",
        Theirs("sshd -T prints (null) for a HostKey of none"),
    ),
    server(
        "prints authorized*",
        "authorized* none",
        Theirs("a command or user called NONE in capitals"),
    ),
    server(
        "prints authenticationmethods",
        "authenticationmethods *",
        Defect("sshd -T: a chain of AuthenticationMethods that stands twice is printed once"),
    ),
    server(
        "prints persourcepenalties",
        "*persourcepenalties *",
        Defect(
            "sshd -T: noauth of PerSourcePenalties stands before invaliduser in 10.6; fractions have six digits",
        ),
    ),
    server(
        "refuses",
        "persourcepenalties *",
        Defect("PerSourcePenalties: max-sources of 0 is refused"),
    ),
    server(
        "refuses",
        "persourcepenaltyexemptlist *",
        Defect("PerSourcePenaltyExemptList: an entry that is no address is refused"),
    ),
    server("refuses", "persourcenetblocksize *", ACCIDENTS),
    server("refuses", "maxstartups *", ACCIDENTS),
    server("refuses", "hostkeyalgorithms *", NO_HOST_KEY),
    server(
        "takes",
        "compression zstd",
        Defect("Compression zstd is ours alone, and docs/differences.md does not say so"),
    ),
    server(
        "takes",
        "*authorizedkeysfile none *",
        Defect("AuthorizedKeysFile: none beside others is taken"),
    ),
    server("takes", "ciphers *", WITHOUT_OLD),
    server("takes", "macs *", WITHOUT_OLD),
    server("takes", "kexalgorithms *", WITHOUT_OLD),
    server("takes", "hostkeyalgorithms *", WITHOUT_OLD),
    server("takes", "hostbasedaccepted* *", WITHOUT_OLD),
    server("takes", "pubkeyaccepted* *", WITHOUT_OLD),
    server("takes", "casignaturealgorithms *", WITHOUT_OLD),
    server(
        "refuses",
        "subsystem *",
        Defect("a subsystem whose name has a blank in it is refused"),
    ),
    server("takes", "*invalid-user*", Since("10.6")),
    server("takes", "match *version *", Since("10.6")),
    server("takes", "revokedkeys /*", Since("10.6")),
    server("takes", "kexalgorithms *mlkem*", Since("10.6")),
    server("prints kexalgorithms", "kexalgorithms *", Since("10.6")),
    server("prints streamlocalbindmask", "*; *", Since("10.6")),
    server("prints subsystem", "subsystem *", Since("10.6")),
    server(
        "prints revokedkeys",
        "revokedkeys none",
        Defect("sshd: RevokedKeys NONE is a file"),
    ),
    server(
        "refuses",
        "match *; hostbasedaccepted* !*",
        Defect(
            "a list of algorithms that names none is refused in a Match block that does not apply, too",
        ),
    ),
    server("prints listenaddress", "*port *; port *", PRINTED),
    server(
        "prints listenaddress",
        "listenaddress \\*",
        Defect("ListenAddress \\*: a name for 9.2, every address for ours"),
    ),
    server("takes", "ipqos *", Since("10.6")),
    client("takes", "ipqos *", Since("10.6")),
    client("takes", "match *", Since("10.6")),
    client("refuses", "match * = *", Since("10.6")),
    client("takes", "revokedhostkeys /*", Since("10.6")),
    client("prints streamlocalbindmask", "host *", Since("10.6")),
    client("prints syslogfacility", "host *", Since("10.6")),
    client("prints proxyjump", "proxyjump '*", Since("10.6")),
    client("prints proxyusefdpass", "proxyjump *", Since("10.6")),
    client("refuses", "canonicalizepermittedcnames *", Since("10.6")),
    client("refuses", "-o user*", Since("10.6")),
    client(
        "prints dynamicforward",
        "localforward *",
        Theirs("ssh -G of 9.2 shows a LocalForward of host/port as a DynamicForward"),
    ),
    server(
        "takes",
        "rdomain none",
        Theirs("RDomain none is refused where there are no routing domains"),
    ),
    any("takes", "\u{c}", Theirs("a line of a form feed alone")),
    server("refuses", "match * = *", Since("10.6")),
    server(
        "takes",
        "macs *",
        Defect(
            "MACs and others: an old name of another kind of algorithm (MACs aes192-cbc) is passed over as an old one",
        ),
    ),
    server(
        "refuses",
        "setenv *=*",
        Defect("sshd: SetEnv without a name (\"=b\") is refused by ours"),
    ),
    server(
        "refuses",
        "*match *; pamservicename *",
        Defect("PAMServiceName may stand in a Match block of 10.6"),
    ),
    server(
        "prints x11displayoffset",
        "match version *",
        Defect("sshd -T without -C: 10.6 meets Match Version *"),
    ),
    server(
        "prints sshd*path",
        "sshd*path *",
        Defect(
            "sshd -T: a relative SshdSessionPath is printed as it stands; 10.6 puts the folder before it",
        ),
    ),
    server(
        "prints authorizedkeysfile",
        "authorizedkeysfile none; *",
        Theirs("sshd -T of 10.6 prints nothing for AuthorizedKeysFile none"),
    ),
    server(
        "prints ipqos",
        "*ipqos *; *",
        Defect(
            "IPQoS: sshd -T of 10.6 prints 0x08 and the like for numbers and none for the old names",
        ),
    ),
    server(
        "prints unusedconnectiontimeout",
        "*",
        Defect("sshd -T: UnusedConnectionTimeout 0 is printed as none"),
    ),
    // known_hosts and files of keys.
    of(LISTING, "takes", "*  *", BLANKS),
    of(LOOKUP, "*", "*@revoked\t*", REVOKED),
    of(
        LOOKUP,
        "*",
        "*{*cert}*-l*",
        Defect("keygen -l -F passes over lines with a certificate for a key"),
    ),
    of(
        LOOKUP,
        "*",
        "*-l*{*cert}*",
        Defect("keygen -l -F passes over lines with a certificate for a key"),
    ),
    of(LOOKUP, "*", "*|1|*", CASE_OF_NAMES),
    of("", "prints output", "*é*", BLANKS),
    of(LISTING, "prints output", "* ", BLANKS),
    of(LISTING, "prints output", "*  *", BLANKS),
    of(LISTING, "prints output", "*;*", NO_COMMENT),
];

const fn of(form: &'static str, how: &'static str, pattern: &'static str, why: Why) -> Listed {
    Listed {
        form,
        how,
        pattern,
        why,
    }
}

const fn any(how: &'static str, pattern: &'static str, why: Why) -> Listed {
    of("", how, pattern, why)
}

const fn client(how: &'static str, pattern: &'static str, why: Why) -> Listed {
    of(CLIENT, how, pattern, why)
}

const fn server(how: &'static str, pattern: &'static str, why: Why) -> Listed {
    of(SERVER, how, pattern, why)
}
