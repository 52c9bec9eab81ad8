//! Arguments of keywords: valid, borderline and invalid samples, and small damage.

use config::algorithms::{Class, Side};
use config::value::{Keyword, Kind};

use interop::random::Random;

/// How unusual or invalid a value may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taste {
    /// Usual values.
    Good,
    /// Unusual and invalid values.
    Odd,
}

const WORDS: [&str; 14] = [
    "a",
    "none",
    "yes",
    "no",
    "x.y",
    "/x/y",
    "host.example",
    "\"a b\"",
    "user@h",
    "a=b",
    "10",
    "any",
    "'q'",
    "A",
];
const ODD_WORDS: [&str; 34] = [
    "NONE",
    "None",
    "\"\"",
    "''",
    "%h",
    "%%",
    "%",
    "%x",
    "%{h}",
    "${DIFFER}",
    "${NOT_SET_BY_ANYBODY}",
    "${",
    "$DIFFER",
    "~",
    "~/x",
    "~root/x",
    "~nosuchuser/x",
    "-x",
    "#a",
    "a#b",
    "\"#a\"",
    "a\\ b",
    "\\\"a",
    "a\\",
    "\\\\",
    "é",
    "*",
    "!a",
    "a,b",
    ",",
    "[::1]:22",
    "a/b",
    "a\tb",
    "x=",
];
const PATHS: [&str; 10] = [
    "/x/y",
    "none",
    "/etc/ssh/z",
    "/x y",
    "\"/x y\"",
    "x/y",
    "/x/%h",
    "/x/%u",
    "/",
    "/dev/null",
];
const COMMANDS: [&str; 12] = [
    "/bin/true",
    "/bin/echo %h",
    "none",
    "/bin/echo \"a b\" c",
    "/bin/echo 'a b'",
    "/bin/x # y",
    "NONE",
    "/bin/echo a  b",
    "/bin/echo %u %k %t",
    "/bin/echo \\\"x",
    "internal-sftp",
    "/bin/echo =a",
];
const NUMBERS: [&str; 8] = ["0", "1", "2", "3", "10", "100", "2048", "65535"];
const ODD_NUMBERS: [&str; 22] = [
    "-1",
    "07",
    "0x10",
    "1.5",
    "+5",
    "5x",
    "x",
    "2147483647",
    "2147483648",
    "4294967296",
    "99999999999999999999",
    "-0",
    "1e3",
    "\"5\"",
    "''",
    "1024",
    "16384",
    "16385",
    "1023",
    "none",
    "10 20",
    "5 # c",
];
const TIMES: [&str; 9] = ["0", "1", "90", "1h30m", "2W", "1d", "10s", "5M", "600"];
const ODD_TIMES: [&str; 18] = [
    "none",
    "NONE",
    "-1",
    "1.5",
    "1x",
    "m",
    "1h 30m",
    "1hm",
    "99999999999",
    "3550w",
    "3551w",
    "1m1",
    "0s",
    "1S",
    "\"5m\"",
    "+1",
    "1:30",
    "none none",
];
const MODES: [&str; 5] = ["0177", "177", "0777", "0", "000"];
const ODD_MODES: [&str; 9] = [
    "01777", "0888", "8", "-1", "u+x", "0x77", "00000177", "7777", "177x",
];
const FLAGS: [&str; 2] = ["yes", "no"];
const ODD_FLAGS: [&str; 12] = [
    "true", "false", "YES", "No", "TRUE", "on", "1", "0", "maybe", "\"yes\"", "yes no", "ye",
];
const ODD_PORTS: [&str; 10] = [
    "0", "65536", "-1", "ssh", "022", "+22", "22x", "22 23", "\"22\"", "2.2",
];

/// Samples for keywords whose arguments have a special form, separated by ` | `; other keywords use
/// their default and general words.
const SAMPLES: &[(&str, &str)] = &[
    (
        "loglevel",
        r#"INFO | quiet | Debug | DEBUG1 | debug3 | VERBOSE | silent | DEBUG4 | fatal"#,
    ),
    (
        "syslogfacility",
        r#"AUTH | daemon | LOCAL0 | local7 | LOCAL8 | USER | AUTHPRIV | KERN"#,
    ),
    (
        "ipqos",
        r#"ef | lowdelay throughput | af21 cs1 | none | 0x10 | 8 | 256 | 0x100 | ef none | EF | le | va | ef cs0 cs1 | reliability | -1 | 010 | throughput ''"#,
    ),
    (
        "rekeylimit",
        r#"1G | 1G 1h | default none | 500M 30 | 16 | 15 | 0 | 1k | 1K none | default 1h | 1.5G | none | DEFAULT | 1T | 1b | 1G NONE | 1GB | 1G 1x"#,
    ),
    ("port", r#"22 | 2222 | 65535 | 1"#),
    (
        "listenaddress",
        r#"127.0.0.1 | 127.0.0.1:77 | 0.0.0.0 | :: | [::1]:22 | ::1 | [::]:0 | 127.0.0.1:0 | 10.0.0.1:65536 | [127.0.0.1]:5 | [::1 | 127.0.0.1 rdomain x | [::1] | *"#,
    ),
    (
        "maxstartups",
        r#"10:30:100 | 10 | 5:10:20 | 1:1:1 | 20:30:10 | 0 | 10:0:10 | 10:101:10 | 10:30 | 10:30:100:1 | 1:100:1"#,
    ),
    ("persourcemaxstartups", r#"none | 5 | 0 | NONE | -1 | x"#),
    (
        "persourcenetblocksize",
        r#"32:128 | 24 | 24:56 | 0:0 | 33 | 32:129 | 24: | : | none"#,
    ),
    (
        "persourcepenaltyexemptlist",
        r#"none | 10.0.0.0/8 | 10.0.0.0/8,::1 | 10.0.0.0/33 | x | NONE | 127.0.0.1 | 10.0.0.1/8"#,
    ),
    (
        "persourcepenalties",
        r#"yes | no | crash:90 | authfail:5.5 noauth:1 | max:10m min:15 | max-sources4:100 | overflow:deny-all | overflow6:permissive | overflow:x | crash: | crash | grace-exceeded:1h | max-sources6:0 | crash:1 crash:2 | YES | refuseconnection:0.25 | invaliduser:5"#,
    ),
    (
        "authenticationmethods",
        r#"any | publickey | publickey,password | publickey password | any publickey | publickey,publickey | none | keyboard-interactive:pam | publickey, | hostbased | password publickey,password | password password | ANY | nothing | publickey,none | keyboard-interactive"#,
    ),
    (
        "allowusers",
        r#"root | a* | * | root nobody | !root | u@h | u@10.0.0.0/8 | u@*.example | "a b" | ?"#,
    ),
    (
        "denyusers",
        r#"root | a* | * | root nobody | !root | u@h | u@10.0.0.0/8 | u@*.example | "a b" | ?"#,
    ),
    (
        "allowgroups",
        r#"root | a* | * | root nobody | !root | u@h | u@10.0.0.0/8 | u@*.example | "a b" | ?"#,
    ),
    (
        "denygroups",
        r#"root | a* | * | root nobody | !root | u@h | u@10.0.0.0/8 | u@*.example | "a b" | ?"#,
    ),
    (
        "acceptenv",
        r#"LANG | LC_* | LANG LC_* | A=B | * | '' | a,b"#,
    ),
    (
        "sendenv",
        r#"LANG | LC_* | LANG LC_* | -LC_* | -* | LANG -LANG | A=B | '' | -"#,
    ),
    (
        "setenv",
        r#"A=b | A=b C=d | A= | =b | A | "A=b c" | A=b A=c | A="b c" | A='b' | A=%h | A=b=c"#,
    ),
    (
        "subsystem",
        r#"sftp internal-sftp | sftp /usr/lib/openssh/sftp-server | sftp /x -l INFO | sftp | a /x "b c" | sftp "/x y" z | "a b" /x | sftp none | "" /x | SFTP /x"#,
    ),
    (
        "permitopen",
        r#"any | none | h:1 | 127.0.0.1:* | *:80 | [::1]:22 | h:1 g:2 | 80 | * | localhost:8080 | h/80 | ::1/80"#,
    ),
    (
        "permitlisten",
        r#"any | none | h:1 | 127.0.0.1:* | *:80 | [::1]:22 | h:1 g:2 | 80 | * | localhost:8080 | h/80 | ::1/80"#,
    ),
    (
        "permitremoteopen",
        r#"any | none | h:1 | 127.0.0.1:* | *:80 | [::1]:22 | h:1 g:2 | 80 | * | localhost:8080 | h/80 | ::1/80"#,
    ),
    (
        "permittunnel",
        r#"yes | no | point-to-point | ethernet | YES | true | any"#,
    ),
    (
        "permituserenvironment",
        r#"yes | no | LANG,LC_* | YES | A B | '' | TRUE | *"#,
    ),
    (
        "pubkeyauthoptions",
        r#"none | touch-required | verify-required | touch-required verify-required | NONE | none touch-required | x | Touch-Required | max-pk-ok:3 | touch-required touch-required"#,
    ),
    (
        "channeltimeout",
        r#"none | session=1h | session:*=5m direct-tcpip=10 | x | session= | =5 | NONE | none session=1 | session=0 | global=1m | session:command=5 session:command=6"#,
    ),
    (
        "warnweakcrypto",
        r#"yes | no | no-pq-kex | yes no-pq-kex | x | true"#,
    ),
    (
        "obscurekeystroketiming",
        r#"yes | no | interval:80 | interval:0 | interval:1001 | interval:x | YES | true | interval:20 | interval:1000 | interval"#,
    ),
    (
        "identityagent",
        r#"none | SSH_AUTH_SOCK | /x/agent | $DIFFER | ~/agent | ${DIFFER}/x | $ | NONE | $a-b"#,
    ),
    (
        "forwardagent",
        r#"yes | no | /x/agent | $DIFFER | true | NO | ~/a"#,
    ),
    (
        "addkeystoagent",
        r#"yes | no | ask | confirm | 1h | confirm 1h | 0 | confirm 0 | ask 1h | YES | x"#,
    ),
    (
        "controlpersist",
        r#"yes | no | 1h | 0 | YES | x | true | 10"#,
    ),
    (
        "escapechar",
        r#"~ | none | ^B | ^b | ^ | ab | ^? | ^[ | \ | ^@ | '#' | é | NONE"#,
    ),
    (
        "tunneldevice",
        r#"any | any:any | 1 | 1:2 | any:5 | ANY:any | x | 1: | 65536:1 | -1 | 2147483647:any"#,
    ),
    (
        "localforward",
        r#"8080 h:80 | 127.0.0.1:8080 h:80 | [::1]:8080 [::1]:80 | 8080 | /x/s /y/s | 8080 /y/s | *:8080 h:80 | 8080:h:80 | h/8080 g/80 | 0 h:80 | 8080 h:0 | localhost:8080 h:http | 8080 h:80 x"#,
    ),
    (
        "remoteforward",
        r#"8080 h:80 | 0 h:80 | 8080 | h:8080 g:80 | /x/s /y/s | *:8080 h:80 | 65536 h:1 | 8080 [::1]:80"#,
    ),
    (
        "dynamicforward",
        r#"1080 | 127.0.0.1:1080 | [::1]:1080 | *:1080 | 0 | /x/s | h:x | 1080 x"#,
    ),
    (
        "canonicaldomains",
        r#"none | example.org | a.example b.example | .a | _a | a..b | none a | A.Example. | a_b | a/b | -a"#,
    ),
    (
        "canonicalizepermittedcnames",
        r#"none | *.a:*.b | * | a | A:B | :b | a: | a:b c:d | none a:b | a:b,c"#,
    ),
    (
        "globalknownhostsfile",
        r#"/x | /x /y | none | none /x | ~/x | '' | %d/x | NONE"#,
    ),
    (
        "userknownhostsfile",
        r#"/x | /x /y | none | /x none | ~/x | '' | %d/x | NONE | ${DIFFER}/x"#,
    ),
    (
        "proxyjump",
        r#"h | u@h:23 | a,b | none | NONE | ssh://u@a:22 | [::1]:22 | ::1 | a,,b | u@ | @h | h:0 | h:x | a b | a,none | none,a | -x | u@v@h | ssh://h/ | [g]:22 | h: | %h | 1.2.3.4:5"#,
    ),
    (
        "user",
        r#"root | a b | a;b | -x | %u | A | DOM\b | a$b | a@b | é"#,
    ),
    (
        "hostname",
        r#"h | %h.example | 10.0.0.1 | %%h | %p | H | h. | ::1 | %n | a b | h;x | ~x"#,
    ),
    ("bindaddress", r#"10.0.0.1 | ::1 | localhost | x y"#),
    ("tag", r#"t | a,b | T"#),
    (
        "ignoreunknown",
        r#"x | Foo* | * | foo,bar | !foo | Foo Bar"#,
    ),
    (
        "preferredauthentications",
        r#"publickey | publickey,password | none | x | password,x | password,,publickey"#,
    ),
    ("kbdinteractivedevices", r#"pam | bsdauth,pam | "#),
    (
        "identityfile",
        r#"~/.ssh/x | /x/%h | none | /x/%r | %d/x | x | /x/%C | ${DIFFER}"#,
    ),
    ("certificatefile", r#"/x | none | ~/x | %d/x"#),
    ("revokedhostkeys", r#"none | /x | /x /y | NONE | ~/x"#),
    ("revokedkeys", r#"none | /x | /x /y | NONE"#),
    (
        "controlpath",
        r#"none | /x/%C | ~/x/%r@%h:%p | NONE | /x/%i | /x/%q"#,
    ),
    (
        "authorizedkeysfile",
        r#"none | .ssh/x | /x/%u %h/y | none x | '' | %% | a b c | NONE"#,
    ),
    (
        "authorizedprincipalsfile",
        r#"none | /x/%u | %h/x | NONE | ~/x"#,
    ),
    ("versionaddendum", r#"none | x | x y | NONE | #x | "x y""#),
    (
        "authorizedkeyscommand",
        r#"/bin/x %u | none | x | "/bin/x" | NONE | /bin/x "a b""#,
    ),
    (
        "authorizedprincipalscommand",
        r#"/bin/x %u | none | x | NONE"#,
    ),
    ("authorizedkeyscommanduser", r#"nobody | none | NONE | %u"#),
    ("chrootdirectory", r#"/x | none | %h | x | NONE | ~"#),
    ("banner", r#"/x | none | NONE | x"#),
    (
        "forcecommand",
        r#"/x | none | internal-sftp | internal-sftp -R | a "b c" | '' | "" | NONE | a # b | a=b"#,
    ),
    ("hostkey", r#"{here}/host_key | /x/y | x | none | NONE"#),
    (
        "hostcertificate",
        r#"{here}/host_key-cert.pub | /x/y | none"#,
    ),
    (
        "securitykeyprovider",
        r#"internal | /x | none | x | $DIFFER"#,
    ),
    (
        "logverbose",
        r#"none | kex.c:*:1000 | a,b | * | a b | NONE"#,
    ),
    ("rdomain", r#"none | x | %D"#),
    ("refuseconnection", r#"yes | no | x"#),
    ("hostkeyalias", r#"x | none | a b | A | %h"#),
    ("bindinterface", r#"lo | none"#),
    (
        "knownhostscommand",
        r#"/bin/x %H | none | NONE | x | /bin/x %f %K"#,
    ),
    (
        "proxycommand",
        r#"none | nc %h %p | NONE | "a b" c | none x | a # b | 'none'"#,
    ),
    ("localcommand", r#"echo %h | none | a  b | NONE"#),
    ("remotecommand", r#"echo %h | none | a  b | a # b | NONE"#),
    ("xauthlocation", r#"/usr/bin/xauth | none | x | ~/x"#),
    ("modulifile", r#"/etc/ssh/moduli | none | x"#),
    ("pidfile", r#"/run/x.pid | none | x | NONE"#),
];

/// Arguments for a keyword, in the form of a file.
pub(crate) fn arguments(
    random: &mut Random,
    keyword: &Keyword,
    side: Side,
    taste: Taste,
) -> String {
    let is_odd = taste == Taste::Odd && random.chance(40);
    let text = if is_odd && random.chance(12) {
        // The arguments of another keyword.
        let (_, samples) = random.pick_of(SAMPLES);
        one_of(random, samples)
    } else {
        sample(random, keyword, side, is_odd)
    };
    if taste == Taste::Odd && random.chance(20) {
        damaged(random, &text)
    } else {
        text
    }
}

fn samples(name: &str) -> Option<&'static str> {
    let (_, samples) = SAMPLES
        .iter()
        .find(|(of, _)| of.eq_ignore_ascii_case(name))?;
    Some(samples)
}

fn one_of(random: &mut Random, samples: &str) -> String {
    let samples: Vec<&str> = samples.split(" | ").collect();
    random.pick(&samples).to_owned()
}

fn sample(random: &mut Random, keyword: &Keyword, side: Side, is_odd: bool) -> String {
    let two = |random: &mut Random, good: &[&'static str], odd: &[&'static str]| {
        random.pick(if is_odd { odd } else { good }).to_owned()
    };
    match keyword.kind {
        Kind::Flag | Kind::YesNo => two(random, &FLAGS, &ODD_FLAGS),
        Kind::Choice(words) => match is_odd {
            true if random.chance(50) => random.pick(&ODD_FLAGS).to_owned(),
            true => random.pick_of(words).0.to_ascii_uppercase(),
            false => random.pick_of(words).0.to_owned(),
        },
        Kind::Integer { .. } => two(random, &NUMBERS, &ODD_NUMBERS),
        Kind::Mode => two(random, &MODES, &ODD_MODES),
        Kind::Port => two(random, &["22", "2222", "65535", "1"], &ODD_PORTS),
        Kind::Seconds { .. } => two(random, &TIMES, &ODD_TIMES),
        Kind::Algorithms(class) => algorithms(random, class, side, is_odd),
        _ => {
            let own = samples(keyword.name);
            match (own, is_odd) {
                (Some(own), false) => one_of(random, own),
                (_, true) if random.chance(60) => random.pick(&ODD_WORDS).to_owned(),
                (Some(own), true) => one_of(random, own),
                (None, _) => match keyword.kind {
                    Kind::Path | Kind::Paths => random.pick(&PATHS).to_owned(),
                    Kind::Rest => random.pick(&COMMANDS).to_owned(),
                    _ if random.chance(30) && !keyword.default.is_empty() => {
                        keyword.default.to_owned()
                    }
                    _ => random.pick(&WORDS).to_owned(),
                },
            }
        }
    }
}

fn algorithms(random: &mut Random, class: Class, side: Side, is_odd: bool) -> String {
    let known = class.known();
    let usual = class.defaults(side, true);
    let mut names = Vec::new();
    for _ in 0..1 + random.below(3) {
        let name = match random.below(10) {
            0..=4 => random.pick(usual).to_owned(),
            5..=7 => random.pick(known).to_owned(),
            // Names of other lists, too.
            8 if is_odd => {
                let class = *random.pick_of(&[Class::Cipher, Class::HostKey, Class::GssKex]);
                random.pick(class.left_out()).to_owned()
            }
            9 if is_odd => random
                .pick(&[
                    "",
                    "x",
                    "*",
                    "aes*",
                    "!*",
                    "*,!ssh-ed25519",
                    "ssh-rsa",
                    "?",
                    "nothing*",
                    "none",
                ])
                .to_owned(),
            _ => {
                let name: String = random.pick(usual).chars().take(5).collect();
                format!("{name}*")
            }
        };
        names.push(name);
    }
    let list = names.join(",");
    let sign = match is_odd {
        true => random.pick(&["+", "-", "^", "", "++", "!", "=", "-+"]),
        // Without a sign patterns are refused.
        false => random.pick(&["+", "-", "^", "", ""]),
    };
    format!("{sign}{list}")
}

/// The text with a small change.
pub(crate) fn damaged(random: &mut Random, text: &str) -> String {
    const LETTERS: [&str; 26] = [
        ",", ":", "=", "/", "*", "!", "@", "[", "]", "%", "~", "-", "+", "\"", "'", "\\", "#", "$",
        " ", "\t", "0", "a", "\u{0}", "\u{f8ff}", "\r", "\u{c}",
    ];
    let mut letters: Vec<char> = text.chars().collect();
    let at = random.below(letters.len() + 1);
    let here = at.min(letters.len().saturating_sub(1));
    match random.below(8) {
        0 if !letters.is_empty() => {
            letters.remove(here);
        }
        1 if !letters.is_empty() => letters.insert(here, letters[here]),
        2 if !letters.is_empty() => {
            let letter = letters[here];
            letters[here] = match letter.is_ascii_lowercase() {
                true => letter.to_ascii_uppercase(),
                false => letter.to_ascii_lowercase(),
            };
        }
        3 => letters.truncate(here),
        4 => letters.extend([' ', 'x']),
        5 => letters.extend(" x\"".chars().take(random.below(4))),
        // Control characters and invalid bytes are rare, because they are always refused.
        _ => {
            let end = if random.chance(15) { LETTERS.len() } else { 22 };
            let letter = random.pick(&LETTERS[..end]);
            letters.splice(at..at, letter.chars());
        }
    }
    letters.into_iter().collect()
}
