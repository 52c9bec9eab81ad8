//! Cases from a seed: files by the grammar of each form, with the keywords of the tables.

use config::algorithms::Side;
use config::client::CLIENT_TABLE;
use config::server::SERVER_TABLE;
use config::value::{Keyword, Kind};

use super::case::{Case, Form, KEYS, Piece};
use super::values::{Taste, arguments, damaged};
use interop::random::Random;

/// The keywords of a file that at least one peer knows.
pub(crate) struct Grammar {
    pub(crate) client: Vec<Keyword>,
    pub(crate) server: Vec<Keyword>,
}

impl Grammar {
    /// The keywords of the tables that at least one peer knows, by `knows`.
    pub(crate) fn new(knows: impl Fn(Form, &str) -> bool) -> Self {
        let of = |form, table: config::value::Table| {
            let known = |keyword: &Keyword| {
                !matches!(keyword.kind, Kind::Structure) && knows(form, keyword.name)
            };
            table.iter().filter(known).collect()
        };
        Self {
            client: of(Form::Client, CLIENT_TABLE),
            server: of(Form::Server, SERVER_TABLE),
        }
    }

    /// The case of these numbers.
    pub(crate) fn case(&self, seed: u64, number: u64) -> Case {
        let mut random = Random::of_case(seed, number);
        let form = match random.below(20) {
            0..=8 => Form::Client,
            9..=16 => Form::Server,
            17..=18 => Form::Lookup,
            _ => Form::Listing,
        };
        let random = &mut random;
        let (pieces, subject) = match form {
            Form::Client => self.of_client(random),
            Form::Server => self.of_server(random),
            Form::Lookup => lookup(random),
            Form::Listing => listing(random),
        };
        Case {
            form,
            pieces: pieces.into_iter().enumerate().collect(),
            subject,
        }
    }

    fn of_client(&self, random: &mut Random) -> (Vec<Piece>, Vec<String>) {
        let taste = taste(random);
        let mut pieces = Vec::new();
        for _ in 0..random.below(3) {
            pieces.push(self.argument(random, taste));
        }
        for _ in 0..1 + random.below(7) {
            let line = match random.below(10) {
                0 => format!("{} {}", cased(random, "Host"), host_patterns(random, taste)),
                1 => format!("{} {}", cased(random, "Match"), client_match(random, taste)),
                2 if random.chance(30) => include(random),
                _ => line(random, &self.client, Side::Client, taste),
            };
            pieces.push(Piece::Line(line));
        }
        for _ in 0..random.below(3) {
            pieces.push(Piece::More(line(random, &self.client, Side::Client, taste)));
        }
        let mut subject = vec![
            random
                .pick(&[
                    "h",
                    "h",
                    "h",
                    "H",
                    "h.example",
                    "127.0.0.1",
                    "::1",
                    "u@h",
                    "ssh://u@h:23",
                    "h.",
                ])
                .to_owned(),
        ];
        if random.chance(10) {
            subject.push(random.pick(&["true", "echo a"]).to_owned());
        }
        (pieces, subject)
    }

    fn argument(&self, random: &mut Random, taste: Taste) -> Piece {
        let words = match random.below(10) {
            0 => vec!["-p", random.pick(&["5", "65535", "0", "x", "05"])],
            1 => vec!["-l", random.pick(&["u", "a b", "root", "a;b", "u@v"])],
            2 => vec![random.pick(&[
                "-4", "-6", "-C", "-t", "-T", "-q", "-N", "-n", "-x", "-a", "-k", "-tt",
            ])],
            3 => vec!["-i", random.pick(&["/x", "none", "~/x"])],
            4 => vec!["-e", random.pick(&["none", "^b", "~", "ab"])],
            _ => {
                let line = line(random, &self.client, Side::Client, taste);
                return Piece::Argument(vec!["-o".into(), line]);
            }
        };
        Piece::Argument(words.into_iter().map(str::to_owned).collect())
    }

    fn of_server(&self, random: &mut Random) -> (Vec<Piece>, Vec<String>) {
        let taste = taste(random);
        let mut pieces = Vec::new();
        if random.chance(60) {
            pieces.push(Piece::Argument(vec!["-C".into(), connection(random)]));
        }
        if random.chance(15) {
            let line = line(random, &self.server, Side::Server, taste);
            pieces.push(Piece::Argument(vec!["-o".into(), line]));
        }
        let mut is_in_match = false;
        for _ in 0..1 + random.below(7) {
            let line = match random.below(12) {
                0 => {
                    is_in_match = true;
                    format!("{} {}", cased(random, "Match"), server_match(random, taste))
                }
                1 if random.chance(30) => include(random),
                _ => {
                    let line =
                        |random: &mut Random| line(random, &self.server, Side::Server, taste);
                    match is_in_match && random.chance(60) {
                        true => self.in_match(random, taste),
                        false => line(random),
                    }
                }
            };
            pieces.push(Piece::Line(line));
        }
        for _ in 0..random.below(3) {
            pieces.push(Piece::More(line(random, &self.server, Side::Server, taste)));
        }
        (pieces, Vec::new())
    }

    /// A line that is permitted in a Match block.
    fn in_match(&self, random: &mut Random, taste: Taste) -> String {
        loop {
            let keyword = random.pick_of(&self.server);
            if keyword.scope == config::value::Scope::Everywhere {
                return decorated(random, keyword, Side::Server, taste);
            }
        }
    }
}

/// Most files are valid, so that their results are compared.
fn taste(random: &mut Random) -> Taste {
    if random.chance(55) {
        Taste::Good
    } else {
        Taste::Odd
    }
}

fn line(random: &mut Random, keywords: &[Keyword], side: Side, taste: Taste) -> String {
    if taste == Taste::Odd && random.chance(4) {
        return random
            .pick(&[
                "",
                "# a comment",
                "   ",
                "=",
                "\"\"",
                "NoSuchKeyword x",
                "\tPort",
                "\"Port\" 22",
                "Port=",
                "==",
                "\u{c}",
                ";x",
            ])
            .to_owned();
    }
    let keyword = random.pick_of(keywords);
    decorated(random, keyword, side, taste)
}

fn decorated(random: &mut Random, keyword: &Keyword, side: Side, taste: Taste) -> String {
    let name = match keyword.aliases {
        [] => keyword.name,
        aliases if random.chance(25) => random.pick(aliases),
        _ => keyword.name,
    };
    let mut name = cased(random, name);
    if taste == Taste::Odd && random.chance(2) {
        name = damaged(random, &name);
    }
    let mut value = arguments(random, keyword, side, taste);
    if random.chance(8) && !value.contains(['"', '\'', '\\', ' ']) {
        value = match random.below(2) {
            0 => format!("\"{value}\""),
            _ => format!("'{value}'"),
        };
    }
    let (mut before, mut between, mut after) = ("", " ", "");
    if random.chance(20) {
        between = random.pick(&["=", " = ", "\t", "  ", " =", "= "]);
    }
    if random.chance(10) {
        before = random.pick(&[" ", "\t", "    "]);
    }
    if random.chance(12) {
        after = random.pick(&[" ", "\t", " # comment", " #comment", "\r", " #", " \u{c}"]);
    }
    format!("{before}{name}{between}{value}{after}")
}

fn cased(random: &mut Random, name: &str) -> String {
    match random.below(12) {
        0 => name.to_ascii_uppercase(),
        1 => name.to_ascii_lowercase(),
        _ => name.to_owned(),
    }
}

fn include(random: &mut Random) -> String {
    let what = random.pick(&[
        "{here}/more",
        "{here}/mo*",
        "{here}/none",
        "{here}/none*",
        "",
        "more",
        "{here}/more {here}/none",
        "\"{here}/more\"",
        "{here}/more {here}/more",
        "~/nothing*",
        "''",
    ]);
    format!("Include {what}")
}

fn host_patterns(random: &mut Random, taste: Taste) -> String {
    match taste {
        Taste::Good => random.pick(&[
            "h",
            "*",
            "h g",
            "g",
            "!h *",
            "h*",
            "?",
            "*.example",
            "127.*",
            "H",
            "* !g",
        ]),
        Taste::Odd => random.pick(&[
            "", "!h", "\"h\"", "\"h g\"", "h,g", "''", "!", "h # x", "h #x", "h#x", "=h", "! h",
            "'h'", "\\h",
        ]),
    }
    .to_owned()
}

fn list(random: &mut Random, of: &[&str]) -> String {
    let mut text = random.pick(of).to_owned();
    while random.chance(25) {
        text.push(',');
        text.push_str(random.pick(of));
    }
    text
}

fn client_match(random: &mut Random, taste: Taste) -> String {
    let mut text = String::new();
    for _ in 0..1 + random.below(3) {
        let name = random.pick(&[
            "all",
            "canonical",
            "final",
            "host",
            "originalhost",
            "user",
            "localuser",
            "localnetwork",
            "exec",
            "host",
            "user",
            "tagged",
            "command",
            "sessiontype",
            "version",
        ]);
        let value = match name {
            "host" | "originalhost" => {
                list(random, &["h", "*", "g", "!h", "h.example", "!*", "?", "H"])
            }
            "user" | "localuser" => list(random, &["root", "u", "*", "!root", "R*"]),
            "localnetwork" => list(
                random,
                &[
                    "127.0.0.0/8",
                    "10.0.0.0/33",
                    "::1/128",
                    "127.0.0.1",
                    "x",
                    "0.0.0.0/0",
                    "127.0.0.1/8",
                ],
            ),
            "exec" => random
                .pick(&[
                    "true",
                    "false",
                    "\"exit 0\"",
                    "\"exit 1\"",
                    "\"test %h = h\"",
                ])
                .to_owned(),
            "tagged" => list(random, &["t", "*", "\"\"", "x"]),
            "command" => list(random, &["true", "*", "\"\"", "\"echo a\""]),
            "sessiontype" => list(random, &["shell", "exec", "none", "subsystem", "*"]),
            "version" => list(random, &["*", "none"]),
            _ => String::new(),
        };
        push_criterion(random, &mut text, name, &value, taste);
    }
    finish_match(random, text, taste)
}

fn server_match(random: &mut Random, taste: Taste) -> String {
    let mut text = String::new();
    for _ in 0..1 + random.below(2) {
        let name = random.pick(&[
            "all",
            "User",
            "Group",
            "Host",
            "Address",
            "LocalAddress",
            "LocalPort",
            "User",
            "Address",
            "RDomain",
            "Version",
            "invalid-user",
        ]);
        let value = match name {
            "User" => list(random, &["root", "nobody", "*", "!root", "r*", "Root"]),
            "Group" => list(random, &["root", "daemon", "*", "!root", "nosuchgroup"]),
            "Host" => list(
                random,
                &[
                    "h.example",
                    "*",
                    "!h.example",
                    "*.example",
                    "H.Example",
                    "10.1.2.3",
                ],
            ),
            "Address" | "LocalAddress" => list(
                random,
                &[
                    "10.0.0.0/8",
                    "10.1.2.3",
                    "*",
                    "!10.1.2.3",
                    "10.*",
                    "::/0",
                    "10.1.2.3/8",
                    "10.0.0.0/33",
                    "x",
                    "0.0.0.0/0",
                    "::1",
                    "!10.0.0.0/8",
                ],
            ),
            "LocalPort" => random
                .pick(&["22", "23", "0", "x", "22,23", "022"])
                .to_owned(),
            "RDomain" => "x".to_owned(),
            "Version" => list(random, &["*", "none"]),
            _ => String::new(),
        };
        push_criterion(random, &mut text, name, &value, taste);
    }
    finish_match(random, text, taste)
}

fn push_criterion(random: &mut Random, text: &mut String, name: &str, value: &str, taste: Taste) {
    if !text.is_empty() {
        text.push(' ');
    }
    if random.chance(10) {
        text.push('!');
    }
    text.push_str(&cased(random, name));
    if !value.is_empty() {
        let separators = if taste == Taste::Odd {
            ["=", " = ", "  "]
        } else {
            [" "; 3]
        };
        text.push_str(random.pick(&separators));
        text.push_str(value);
    }
}

/// The command of a Match line is not damaged, because it is executed.
fn finish_match(random: &mut Random, text: String, taste: Taste) -> String {
    match taste == Taste::Odd && random.chance(20) && !text.to_ascii_lowercase().contains("exec") {
        true => damaged(random, &text),
        false => text,
    }
}

fn connection(random: &mut Random) -> String {
    let mut parts = vec![
        format!("user={}", random.pick(&["root", "nobody", "daemon"])),
        format!(
            "host={}",
            random.pick(&["h.example", "10.1.2.3", "H.example"])
        ),
        format!("addr={}", random.pick(&["10.1.2.3", "::1", "192.0.2.1"])),
        format!("laddr={}", random.pick(&["10.0.0.1", "::1"])),
        format!("lport={}", random.pick(&["22", "23"])),
    ];
    if random.chance(10) {
        parts.remove(random.below(5));
    }
    if random.chance(5) {
        parts.push(
            random
                .pick(&[
                    "x",
                    "user=nobody",
                    "rdomain=x",
                    "lport=x",
                    "addr=x",
                    "",
                    "invalid-user",
                ])
                .to_owned(),
        );
    }
    parts.join(",")
}

/// A host that ssh-keygen hashed: `h`.
const HASHED: &str = "|1|8dhCZp3LDDzQJakg6vpLjCQxtrQ=|FYq0cnwD4XjL/eokNgkIb95dx5k=";

fn key(random: &mut Random) -> String {
    match random.below(12) {
        0 => random
            .pick(&[
                "ssh-ed25519 AAAA",
                "ssh-ed25519",
                "ssh-rsa {ed25519.blob}",
                "ssh-ed25519 {rsa.blob}",
                "x {ed25519.blob}",
                "ED25519 {ed25519.blob}",
                "ssh-dss AAAAB3NzaC1kc3M=",
                "1024 65537 12345678901234567890",
                "{ed25519}=",
                "{ed25519}AAAA",
                "ssh-ed25519 !!!",
                "{ed25519.blob}",
            ])
            .to_owned(),
        _ => random.pick_of(&KEYS).0.to_owned(),
    }
}

fn lookup(random: &mut Random) -> (Vec<Piece>, Vec<String>) {
    let mut pieces = Vec::new();
    for _ in 0..1 + random.below(5) {
        let hosts = match random.below(10) {
            0 => HASHED.to_owned(),
            1 => random
                .pick(&[
                    "|1|x|y", "|1|", "|2|a|b", "", "\"h\"", "h,,g", ",h", "h,|1|x|y", "#h",
                ])
                .to_owned(),
            _ => list(
                random,
                &[
                    "h",
                    "g",
                    "*",
                    "!h",
                    "[h]:2222",
                    "127.0.0.1",
                    "H",
                    "h*",
                    "?",
                    "[h]:22",
                    "h.example",
                    "!g",
                ],
            ),
        };
        let mut line = match random.below(12) {
            0 => random
                .pick(&[
                    "@revoked ",
                    "@cert-authority ",
                    "@x ",
                    "@revoked\t",
                    "@cert-authority @revoked ",
                    " ",
                    "\t",
                    "@ ",
                    "@revoked",
                ])
                .to_owned(),
            _ => String::new(),
        };
        line.push_str(&hosts);
        line.push_str(if random.chance(8) {
            random.pick(&["\t", "  ", ""])
        } else {
            " "
        });
        line.push_str(&key(random));
        line.push_str(if random.chance(40) {
            random.pick(&[" comment", " a b", "\tc", " #c", " ", "\r", " é"])
        } else {
            ""
        });
        if random.chance(6) {
            line = random
                .pick(&["", "# comment", "  ", "h", "h ", "\u{0}", " # x"])
                .to_owned();
        }
        if random.chance(6) {
            line = damaged(random, &line);
        }
        pieces.push(Piece::Line(line));
    }
    if random.chance(40) {
        pieces.push(Piece::Argument(vec!["-l".into()]));
        if random.chance(30) {
            let hash = random
                .pick(&["md5", "sha256", "sha1", "SHA512", "x"])
                .to_owned();
            pieces.push(Piece::Argument(vec!["-E".into(), hash]));
        }
    }
    let name = random.pick(&[
        "h",
        "h",
        "h",
        "g",
        "H",
        "[h]:2222",
        "[h]:22",
        "127.0.0.1",
        "h.example",
        "*",
        "x",
    ]);
    (pieces, vec![name.to_owned()])
}

fn listing(random: &mut Random) -> (Vec<Piece>, Vec<String>) {
    let mut pieces = Vec::new();
    for _ in 0..1 + random.below(4) {
        let options = match random.below(4) {
            0 => random
                .pick(&[
                    "no-pty ",
                    "command=\"a b\" ",
                    "restrict,command=\"x \\\" y\" ",
                    "from=\"h\",no-pty ",
                    "x ",
                    "command=\"a ",
                    "h ",
                    "cert-authority ",
                    "  ",
                    "\t",
                    "no-pty  ",
                    "@revoked h ",
                    "command='a b' ",
                ])
                .to_owned(),
            _ => String::new(),
        };
        let mut line = format!("{options}{}", key(random));
        line.push_str(if random.chance(50) {
            random.pick(&[
                " comment", " a b", "\tc", " #c", " ", "\r", "  c", " c ", " é",
            ])
        } else {
            ""
        });
        if random.chance(8) {
            line = random
                .pick(&[
                    "",
                    "# comment",
                    "  ",
                    "h",
                    "\u{0}",
                    "garbage garbage garbage",
                ])
                .to_owned();
        }
        if random.chance(6) {
            line = damaged(random, &line);
        }
        pieces.push(Piece::Line(line));
    }
    if random.chance(30) {
        let hash = random
            .pick(&["md5", "sha256", "MD5", "sha1", "SHA512", "x"])
            .to_owned();
        pieces.push(Piece::Argument(vec!["-E".into(), hash]));
    }
    (pieces, Vec::new())
}
