//! Patterns of names within one component of a path, as OpenSSH's own glob(3) reads them: `*`, `?`, `[…]` with
//! ranges and classes as `[[:digit:]]`, `!` and not `^` for all others, and a backslash before what is no pattern.
//! Here and not elsewhere because an `Include` that names too few files leaves restrictions out.

/// One part of a component.
#[derive(Debug)]
enum Part {
    Byte(u8),
    AnyByte,
    AnyBytes,
    Set { negated: bool, members: Vec<Member> },
}

/// What a set has in it.
#[derive(Debug)]
enum Member {
    Range(u8, u8),
    Class(Class),
}

/// Whether a byte is of a class.
type Class = fn(&u8) -> bool;

/// A byte of a pattern, and whether a backslash stood before it.
type Letter = (u8, bool);

/// A byte that is syntax if no backslash stood before it.
const fn syntax(byte: u8) -> Letter {
    (byte, false)
}

const BEGIN: Letter = syntax(b'[');
const END: Letter = syntax(b']');
const COLON: Letter = syntax(b':');
const RANGE: Letter = syntax(b'-');

/// The classes of isalpha(3) and its like, of ASCII.
const CLASSES: &[(&str, Class)] = &[
    ("alnum", u8::is_ascii_alphanumeric),
    ("alpha", u8::is_ascii_alphabetic),
    ("blank", |byte| matches!(byte, b' ' | b'\t')),
    ("cntrl", u8::is_ascii_control),
    ("digit", u8::is_ascii_digit),
    ("graph", u8::is_ascii_graphic),
    ("lower", u8::is_ascii_lowercase),
    ("print", |byte| byte.is_ascii_graphic() || *byte == b' '),
    ("punct", u8::is_ascii_punctuation),
    ("space", |byte| matches!(byte, b' ' | b'\t'..=b'\r')),
    ("upper", u8::is_ascii_uppercase),
    ("xdigit", u8::is_ascii_hexdigit),
];

/// The pattern of one component.
#[derive(Debug)]
pub(crate) struct Pattern(Vec<Part>);

impl Pattern {
    /// Reads a component; `None` where it names an unknown class, and where a set ends within one.
    pub(crate) fn read(component: &str) -> Option<Pattern> {
        let letters = letters(component);
        let mut rest = letters.as_slice();
        let mut parts = Vec::new();
        while let [letter, after @ ..] = rest {
            rest = after;
            parts.push(match *letter {
                (b'*', false) => Part::AnyBytes,
                (b'?', false) => Part::AnyByte,
                BEGIN if ends_somewhere(after) => {
                    let (set, after) = read_set(after)?;
                    rest = after;
                    set
                }
                (byte, _) => Part::Byte(byte),
            });
        }
        Some(Pattern(parts))
    }

    /// The only name that it matches; `None` if it has wildcards.
    pub(crate) fn name(&self) -> Option<Vec<u8>> {
        let byte_of = |part: &Part| match part {
            Part::Byte(byte) => Some(*byte),
            _ => None,
        };
        self.0.iter().map(byte_of).collect()
    }

    /// Whether a name matches, without ever backing up past the last star. A leading dot must be asked for.
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        let asks_for_dot = matches!(self.0.first(), Some(Part::Byte(b'.')));
        if name.first() == Some(&b'.') && !asks_for_dot {
            return false;
        }
        let (mut n, mut p) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        loop {
            let part = self.0.get(p);
            if matches!(part, Some(Part::AnyBytes)) {
                star = Some((n, p + 1));
                p += 1;
                continue;
            }
            let fits = match (name.get(n), part) {
                (None, None) => return true,
                (Some(byte), Some(part)) => part.takes(*byte),
                _ => false,
            };
            match star {
                _ if fits => {
                    n += 1;
                    p += 1;
                }
                Some((from, after)) if from < name.len() => {
                    star = Some((from + 1, after));
                    n = from + 1;
                    p = after;
                }
                _ => return false,
            }
        }
    }
}

impl Part {
    fn takes(&self, byte: u8) -> bool {
        match self {
            Part::Byte(own) => *own == byte,
            Part::AnyByte | Part::AnyBytes => true,
            Part::Set { negated, members } => {
                let has = |member: &Member| match member {
                    Member::Range(low, high) => (low..=high).contains(&&byte),
                    Member::Class(holds) => holds(&byte),
                };
                members.iter().any(has) != *negated
            }
        }
    }
}

/// A text in which nothing is a pattern.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '\\') {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

/// A backslash at the end matches itself.
fn letters(component: &str) -> Vec<Letter> {
    let mut out = Vec::with_capacity(component.len());
    let mut bytes = component.bytes().peekable();
    while let Some(byte) = bytes.next() {
        out.push(match (byte, bytes.peek()) {
            (b'\\', Some(next)) => (*next, true),
            (b'\\', None) => (byte, true),
            _ => (byte, false),
        });
        if byte == b'\\' {
            bytes.next();
        }
    }
    out
}

/// True if a `]` ends the set; as the first character it is an ordinary member.
fn ends_somewhere(set: &[Letter]) -> bool {
    let members = set.strip_prefix(&[syntax(b'!')]).unwrap_or(set);
    members.iter().skip(1).any(|letter| *letter == END)
}

/// Reads `…]`, and gives what follows it; `None` for an unknown class, and where only a class ends.
fn read_set(set: &[Letter]) -> Option<(Part, &[Letter])> {
    let mut rest = set.strip_prefix(&[syntax(b'!')]).unwrap_or(set);
    let negated = rest.len() < set.len();
    let mut members = Vec::new();
    let mut is_first = true;
    loop {
        match rest {
            [] => return None,
            [END, after @ ..] if !is_first => {
                return Some((Part::Set { negated, members }, after));
            }
            [BEGIN, COLON, named @ ..] if class_end(named).is_some() => {
                let (name, after) = named.split_at_checked(class_end(named)?)?;
                let is_name = |class: &str| name.iter().map(|(byte, _)| *byte).eq(class.bytes());
                let (_, holds) = CLASSES.iter().find(|(class, _)| is_name(class))?;
                members.push(Member::Class(*holds));
                rest = after.get(2..)?;
            }
            [(low, _), RANGE, high, after @ ..] if *high != END => {
                members.push(Member::Range(*low, high.0));
                rest = after;
            }
            [(byte, _), after @ ..] => {
                members.push(Member::Range(*byte, *byte));
                rest = after;
            }
        }
        is_first = false;
    }
}

/// How long the name of a class is.
fn class_end(named: &[Letter]) -> Option<usize> {
    named.windows(2).position(|pair| *pair == [COLON, END])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components() {
        for (name, pattern, expected) in [
            ("a.conf", "*.conf", true),
            ("a.conf", "*", true),
            (".conf", "*", false),
            (".conf", ".*", true),
            (".conf", "\\.*", true),
            ("a.conf", "?.conf", true),
            ("10-x.conf", "[0-9][0-9]-*.conf", true),
            ("x0-x.conf", "[0-9][0-9]-*.conf", false),
            ("10-x.conf", "[[:digit:]][[:digit:]]-*.conf", true),
            ("x0-x.conf", "[[:digit:]][[:digit:]]-*.conf", false),
            ("X", "[[:lower:][:digit:]_]", false),
            ("_", "[[:lower:][:digit:]_]", true),
            ("X", "[![:lower:]]", true),
            ("x", "[[:none:]]", false),
            ("x[[:alpha:]", "x[[:alpha:]", false),
            ("b", "[!a]", true),
            ("a", "[!a]", false),
            // Unlike a shell.
            ("a", "[^a]", true),
            ("b", "[^a]", false),
            ("]", "[]]", true),
            ("]", "[!]]", false),
            ("]", "[a\\]]", true),
            ("-", "[a\\-z]", true),
            ("b", "[a\\-z]", false),
            ("[", "[", true),
            ("a[b", "a[b", true),
            ("[!", "[!", true),
            ("[!]", "[!]", true),
            ("a*b", "a\\*b", true),
            ("axb", "a\\*b", false),
            ("a\\", "a\\", true),
            ("a", "", false),
            ("", "*", true),
        ] {
            let read = Pattern::read(pattern);
            assert_eq!(
                read.is_some_and(|pattern| pattern.matches(name.as_bytes())),
                expected,
                "{name} {pattern}"
            );
        }
        let slow = Pattern::read(&format!("{}b", "*a".repeat(1000))).unwrap();
        assert!(!slow.matches(&[b'a'; 4096]));
        assert!(Pattern::read("*.conf").unwrap().matches(b"caf\xe9.conf"));
    }

    #[test]
    fn what_is_escaped_is_one_name() {
        for name in ["plain", "a*b", "[x]", "d\\u", "q?"] {
            let pattern = Pattern::read(&escaped(name)).unwrap();
            assert_eq!(pattern.name().as_deref(), Some(name.as_bytes()));
        }
        assert_eq!(Pattern::read("a*").unwrap().name(), None);
    }
}
