//! Known differences of configurations, with reasons. `*` in a pattern matches any text.

use crate::list::Listed;
use crate::list::Why::{self, Said, Since, Theirs};

const CLIENT: &str = "ssh_config";
const SERVER: &str = "sshd_config";
const LOOKUP: &str = "lookup";
const LISTING: &str = "listing";

const ACCIDENTS: Why = Said("OpenSSH accepts them by accident of its C parsers or /etc/services.");
const NEVER_MATCHES: Why =
    Said("An entry of `Match Address`/`LocalAddress` that no address can match");
const RSA_SIZE: Why = Said("`RequiredRSASize` below 1024 or above 16384: refused");
const SIZE_OF_ZERO: Why = Said("sshd: `Match LocalPort 0`, `RequiredRSASize` below 1024");
const PRINTED: Why =
    Said("-T prints `ChannelTimeout none`, `LogVerbose none`, `HostCertificate none`");
const SPEC: Why = Said("`sshd -C` with an address or port that does not parse: usage, status 1");
const COMMAND_OF_NOBODY: Why =
    Said("A command of AuthorizedKeysCommand or AuthorizedPrincipalsCommand with a user `none`");
const SPECLESS: Why = Said("`Match LocalPort` without `lport=` in -T: no match");
const TILDE: Why =
    Said("`~` in paths of sshd_config: refused; OpenSSH replaces it by root's home.");
const RELATIVE: Why =
    Said("A relative ChrootDirectory is relative to the directory in which sshd was started");
const NO_TEXT: Why = Said("NUL, non-UTF-8, lines over 64 KiB: refused with file and line");
const NO_TEXT_OF_USER: Why = Said(
    "Lines of more than 64 KiB, more than 4096 words on a line, NUL and bytes that are not UTF-8",
);
const CASE_OF_NAMES: Why = Said("`keygen -F/-R FOO` also finds/removes the hash of `foo`");
const REVOKED: Why = Said("known_hosts: `@revoked<TAB>` revokes for our ssh");
const BLANKS: Why = Said("`keygen -l` accepts several blanks between options and key");
const NO_COMMENT: Why = Said("`keygen -l`: a line without comment says \"no comment\"");
const EMPTY_NAMES: Why = Said("A list with an empty name (`a,,b`) is refused");
const WITHOUT_OLD: Why = Said(
    "Names in a list of algorithms that are left out (ssh-dss, in a build with the feature `strict` all old ones) or unknown are ignored",
);
const NONE_OF_ANY_CASE: Why = Said(
    "HostKeyAlias, BindAddress, BindInterface, IdentityAgent and LogVerbose of `none` in any case",
);
const ODD_HOP: Why = Said("Quotes, blanks and a leading `-` in ProxyJump are refused");
const EMPTY_PORT: Why = Said("`ssh://h:` and `ProxyJump h:` are refused");
const CONTROL: Why = Said("Control characters in `User`, `HostName` and `HostKeyAlias` of a file");
const TYPE_NAMES: Why =
    Said("Type names such as `ED25519` in place of `ssh-ed25519` are not read.");
const SHOWN: Why = Said("trims trailing blanks and CR, and shows UTF-8");

const NOT_BY_NAME: Why = Said("Ports are numbers without sign or blank");
const NONE_LEFT: Why = Said("`Ciphers -*` and the like are refused");

const NO_SUCH_DOMAIN: Why = Said(
    "A routing domain of `ListenAddress` that does not exist ends the start of sshd, not `sshd -t`",
);
const COMPRESSION_LEVEL: Why = Said("`CompressionLevel` is read (1 to 9); OpenSSH ignores it");
const CNAMES: Why = Said(
    "An unknown host name is not an error of `ssh -G` with CanonicalizePermittedCNAMEs; OpenSSH exits with 255.",
);
const GSSAPI_KEX: Why =
    Said("without those of SHA-1, which GSSAPIKexAlgorithms may name beside others");
const NO_HOST_KEY: Why = Said("`sshd -T` fails if no host key fits HostKeyAlgorithms");
const NAMELESS: Why =
    Said("`SetEnv` without a name (`=b`) and `TunnelDevice` above 65535 are refused");
const ZSTD: Why = Said("Only Fulmar has `Compression zstd`, in both files.");
const NEGATED: Why = Said("A name with `!` in a list of algorithms is refused");
const HEXADECIMAL: Why = Said("`IPQoS` takes hexadecimal and octal numbers");
const JOINED: Why =
    Theirs("Match sessiontype=x is refused, though every other attribute may be joined so");
const FIRST_WORD: Why = Theirs("LogVerbose of ssh_config keeps the first word alone");
const NONE_USER: Why = Theirs("a command or user called NONE in capitals");

/// All of them.
pub(crate) const LISTED: &[Listed] = &[
    // Both files.
    any("refuses", "*\u{0}*", NO_TEXT),
    any("refuses", "*\u{f8ff}*", NO_TEXT_OF_USER),
    any("refuses", "*,,*", EMPTY_NAMES),
    any("refuses", "*algorithms *,", EMPTY_NAMES),
    any("refuses", "*ciphers *,", EMPTY_NAMES),
    any("refuses", "*macs *,", EMPTY_NAMES),
    client(
        "prints serveraliveinterval",
        "batchmode yes",
        Said("batch mode of Debian sets ServerAliveInterval 300"),
    ),
    client(
        "prints forwardagent",
        "*; forwardagent /*",
        Theirs("a path of ForwardAgent counts though a line before it says yes or no"),
    ),
    client("prints hostkeyalias", "hostkeyalias none", NONE_OF_ANY_CASE),
    client(
        "prints identityagent",
        "identityagent none",
        NONE_OF_ANY_CASE,
    ),
    client(
        "prints dynamicforward",
        "localforward *",
        Theirs("ssh -G shows a LocalForward with a socket or a slash as a DynamicForward"),
    ),
    client(
        "prints compression",
        "-c*",
        Theirs("ssh -G of 10.6 prints `compression UNKNOWN` for -C"),
    ),
    client(
        "prints obscurekeystroketiming",
        "obscurekeystroketiming interval:*",
        Theirs("ssh -G of 10.6 prints an interval in a form that its own reader refuses"),
    ),
    client(
        "prints warnweakcrypto",
        "warnweakcrypto no-pq-kex",
        Theirs("ssh -G of 10.6 prints no for no-pq-kex"),
    ),
    client("refuses", "proxyjump -*", ODD_HOP),
    client("refuses", "proxyjump * *", ODD_HOP),
    client("refuses", "*proxyjump *:", EMPTY_PORT),
    any("refuses", "streamlocalbindmask *8*", ACCIDENTS),
    any("refuses", "streamlocalbindmask *9*", ACCIDENTS),
    client("refuses", "user *\t*", CONTROL),
    client(
        "prints sendenv",
        "*sendenv *; match *final*",
        Theirs("ssh -G prints a SendEnv for each pass over the file"),
    ),
    client("takes", "ciphers *", WITHOUT_OLD),
    client("takes", "macs *", WITHOUT_OLD),
    client("takes", "kexalgorithms *", WITHOUT_OLD),
    client("takes", "*hostkeyalgorithms *", WITHOUT_OLD),
    client("takes", "hostbasedaccepted* *", WITHOUT_OLD),
    client("takes", "pubkeyaccepted* *", WITHOUT_OLD),
    client("takes", "casignaturealgorithms *", WITHOUT_OLD),
    any("prints *", "*algorithms *ssh-dss*", WITHOUT_OLD),
    any("prints *", "*keytypes *ssh-dss*", WITHOUT_OLD),
    any("refuses", "ciphers -*", NONE_LEFT),
    client("refuses", "macs -*", NONE_LEFT),
    client("refuses", "*algorithms -*", NONE_LEFT),
    client("refuses", "pubkeyacceptedkeytypes -*", NONE_LEFT),
    client("refuses", "localforward * *:http", NOT_BY_NAME),
    client(
        "prints syslogfacility",
        "*; syslogfacility *",
        Theirs("SyslogFacility counts in blocks that do not apply, too"),
    ),
    server("refuses", "requiredrsasize *", RSA_SIZE),
    server("refuses", "*match *address *", NEVER_MATCHES),
    server("refuses", "*match *localport 0*", SIZE_OF_ZERO),
    server("refuses", "*match *localport=0*", SIZE_OF_ZERO),
    server("refuses", "*commanduser none*", COMMAND_OF_NOBODY),
    server("takes", "*match *localport*", SPECLESS),
    server("refuses", "-c *addr=x*", SPEC),
    server("refuses", "-c *lport=x*", SPEC),
    server("refuses", "*directory ~*", TILDE),
    server("refuses", "xauthlocation ~*", TILDE),
    server("refuses", "authorizedprincipalsfile ~*", TILDE),
    server("refuses", "pidfile ~*", TILDE),
    server("refuses", "revokedkeys ~*", TILDE),
    server("refuses", "trustedusercakeys ~*", TILDE),
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
    server("refuses", "persourcenetblocksize *:", ACCIDENTS),
    server("refuses", "maxstartups *:*:*:*", ACCIDENTS),
    server("refuses", "maxstartups *x", ACCIDENTS),
    server("takes", "ciphers *", WITHOUT_OLD),
    server("takes", "macs *", WITHOUT_OLD),
    server("takes", "kexalgorithms *", WITHOUT_OLD),
    server("takes", "hostkeyalgorithms *", WITHOUT_OLD),
    server("takes", "hostbasedaccepted* *", WITHOUT_OLD),
    server("takes", "pubkeyaccepted* *", WITHOUT_OLD),
    server("takes", "casignaturealgorithms *", WITHOUT_OLD),
    server("takes", "*invalid-user*", Since("10.6")),
    server("takes", "match *version *", Since("10.6")),
    server("takes", "revokedkeys /*", Since("10.6")),
    server("takes", "kexalgorithms *mlkem*", Since("10.6")),
    server(
        "prints streamlocalbindmask",
        "*; streamlocalbindmask *",
        Since("10.6"),
    ),
    server("takes", "pubkeyauthoptions *max-pk-ok*", Since("10.6")),
    server("takes", "match *; subsystem *", Since("9.5")),
    server("refuses", "*authorizedkeysfile none *", Since("10.6")),
    server("prints subsystem", "subsystem *", Since("10.6")),
    server("prints listenaddress", "*port *; port *", PRINTED),
    any("takes", "ipqos *va*", Since("10.6")),
    client("takes", "canonicaldomains _*", Since("10.6")),
    client("takes", "match *command*", Since("10.6")),
    client("takes", "match *localnetwork*", Since("10.6")),
    client("takes", "match *sessiontype*", Since("10.6")),
    client("takes", "match *tagged*", Since("10.6")),
    client("takes", "match *version*", Since("10.6")),
    client("refuses", "match * = *", Since("10.6")),
    client("takes", "revokedhostkeys /*", Since("10.6")),
    client("prints syslogfacility", "host *", Since("10.6")),
    client("prints proxyjump", "proxyjump '*", Since("10.6")),
    client("prints proxyusefdpass", "proxyjump *", Since("10.6")),
    client("refuses", "canonicalizepermittedcnames *", Since("10.6")),
    client("refuses", "-o user*", Since("10.6")),
    client("takes", "hostbased* *mldsa*", Since("10.6")),
    client(
        "takes",
        "forwardagent *; exitonforwardfailure yes",
        Said("`-G` does not look for the socket that ForwardAgent names"),
    ),
    client(
        "refuses",
        "proxyjump *%h*",
        Said("`-G` with `ProxyJump %h` are errors"),
    ),
    server("takes", "tcpkeepalive *", Since("10.6")),
    server("prints debianbanner", "debianbanner *", Since("10.6")),
    server(
        "takes",
        "rdomain none",
        Theirs("RDomain none is refused where there are no routing domains"),
    ),
    any("takes", "\u{c}", Theirs("a line of a form feed alone")),
    server("refuses", "match * = *", Since("10.6")),
    any("refuses", "*algorithms *!*", NEGATED),
    any("refuses", "*keytypes *!*", NEGATED),
    client("refuses", "compressionlevel *", COMPRESSION_LEVEL),
    client(
        "prints compressionlevel",
        "compressionlevel *",
        COMPRESSION_LEVEL,
    ),
    client("takes", "canonicalizepermittedcnames *", CNAMES),
    any("takes", "*gssapikexalgorithms *", GSSAPI_KEX),
    any("refuses", "*gssapikexalgorithms *", GSSAPI_KEX),
    any("prints gssapikexalgorithms", "*", GSSAPI_KEX),
    any("refuses", "*setenv *=*", NAMELESS),
    any("refuses", "*setenv=*", NAMELESS),
    client("refuses", "tunneldevice *", NAMELESS),
    any("takes", "compression zstd", ZSTD),
    any("prints ipqos", "*ipqos *0*", HEXADECIMAL),
    any("takes", "*ipqos *0*", HEXADECIMAL),
    client("refuses", "proxyjump *\"*", ODD_HOP),
    client("refuses", "proxyjump *'*", ODD_HOP),
    client("takes", "*match *sessiontype=*", JOINED),
    client("prints logverbose", "logverbose *", FIRST_WORD),
    client("refuses", "port *", NOT_BY_NAME),
    client("refuses", "remoteforward */*", ACCIDENTS),
    any("refuses", "rekeylimit ?", ACCIDENTS),
    any("refuses", "rekeylimit ? *", ACCIDENTS),
    server("refuses", "hostkeyalgorithms *", NO_HOST_KEY),
    server(
        "refuses",
        "persourcepenaltyexemptlist *",
        Said("An entry of PerSourcePenaltyExemptList that is not an address is refused"),
    ),
    server(
        "refuses",
        "subsystem *",
        Said("A `Subsystem` whose name has a blank is refused"),
    ),
    server(
        "refuses",
        "listenaddress \\*",
        Said("`ListenAddress *` is refused"),
    ),
    server(
        "prints persourcenetblocksize",
        "persourcenetblocksize *",
        Said("`PerSourceNetBlockSize 32`: IPv6 stays at 128"),
    ),
    server("refuses", "match version *; *", ACCIDENTS),
    server("refuses", "*authorized*commanduser none", NONE_USER),
    server(
        "prints authorizedkeysfile",
        "*authorizedkeysfile none*",
        Since("10.6"),
    ),
    server("prints pubkeyauthoptions", "*", Since("10.6")),
    server(
        "prints revokedkeys",
        "*revokedkeys *",
        Theirs("sshd of 10.6 leaves a relative RevokedKeys to the folder it runs in"),
    ),
    any("prints ipqos", "*ipqos *", Since("10.6")),
    server(
        "takes",
        "*match *; dsaauthentication *",
        Theirs("DSAAuthentication is PubkeyAuthentication but for Match blocks"),
    ),
    server("takes", "match *version=*", Since("10.6")),
    server("takes", "*keepalive all", Since("10.6")),
    any("takes", "*keepalive transport", Since("10.6")),
    client("takes", "*keepalive all", Since("10.6")),
    client("prints setenv", "*setenv*=*%*", Since("10.6")),
    server("takes", "listenaddress * rdomain *", NO_SUCH_DOMAIN),
    server("refuses", "denyusers #*", Since("10.6")),
    client("prints user", "*user *%*", Since("10.6")),
    client("prints controlpath", "*user *%*", Since("10.6")),
    client("refuses", "*user *%*", Since("10.6")),
    client("prints setenv", "*setenv *%*", Since("10.6")),
    client("refuses", "*setenv *%*", Since("10.6")),
    client(
        "prints revokedhostkeys",
        "*revokedhostkeys ~*",
        Since("10.6"),
    ),
    client(
        "prints streamlocalbindmask",
        "*; streamlocalbindmask *",
        Since("10.6"),
    ),
    client("prints connecttimeout", "setuptimeout *", Since("10.6")),
    client(
        "prints serveraliveinterval",
        "setuptimeout *",
        Since("10.6"),
    ),
    client("refuses", "globalknownhostsfile *", Since("10.6")),
    client("refuses", "dynamicforward */*", ACCIDENTS),
    // From 9.6 on `%C` has the jump host in it.
    client(
        "prints controlpath",
        "*controlpath *%c*; proxyjump *",
        Since("9.6"),
    ),
    client(
        "prints controlpath",
        "*proxyjump *; controlpath *%c*",
        Since("9.6"),
    ),
    client(
        "prints hostbasedacceptedalgorithms",
        "hostbasedacceptedalgorithms *",
        WITHOUT_OLD,
    ),
    client(
        "prints requesttty",
        "*-t*; *-t*",
        Theirs("a third -t takes back what the second has forced"),
    ),
    client("refuses", "setenv #*", Since("10.6")),
    client("refuses", "canonicaldomains #*", Since("10.6")),
    server("takes", "include *; *: subsystem *", Since("10.6")),
    server("prints logverbose", "logverbose none", NONE_OF_ANY_CASE),
    server("refuses", "clientaliveinterval +*", Since("10.6")),
    server(
        "refuses",
        "authorizedkeyscommand none; authorizedprincipalscommand *",
        Theirs("sshd 9.2 asks for the user of a command only where the other one is not NONE"),
    ),
    // known_hosts and files of keys.
    of(LISTING, "takes", "*  *", BLANKS),
    of(LOOKUP, "*", "*@revoked\t*", REVOKED),
    of(LOOKUP, "*", "*|1|*", CASE_OF_NAMES),
    of(LOOKUP, "*", "* ed25519 *", TYPE_NAMES),
    of("", "prints output", "*é*", SHOWN),
    of(LISTING, "prints output", "* ", SHOWN),
    of(LISTING, "prints output", "*  *", BLANKS),
    of(LISTING, "prints output", "*; {*}", NO_COMMENT),
    of(LISTING, "prints output", "*; \t{*}", NO_COMMENT),
    of(LISTING, "prints output", "*; {*}\r", NO_COMMENT),
    of(LISTING, "prints output", "*; \t{*}\r", NO_COMMENT),
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
