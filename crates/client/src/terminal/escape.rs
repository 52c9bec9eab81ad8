//! The escape filter: recognises `~.` and other escapes at the start of a line of typed input.
//!
//! Pure: bytes in, pieces out. `crate::session` carries the commands out.

/// A command given by an escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// `~.`: end the connection.
    Disconnect,
    /// `~^Z`: stop this program.
    Suspend,
    /// `~&`: go to the background until the last connection has ended.
    Background,
    /// `~C`: open a command line.
    CommandLine,
    /// `~B`: send BREAK.
    Break,
    /// `~R`: exchange new keys.
    Rekey,
    /// `~V`: log less.
    Quieter,
    /// `~v`: log more.
    Louder,
    /// `~#`: list channels.
    ListChannels,
    /// `~I`: show the connection's peer, algorithms and traffic.
    Information,
    /// `~s`: show the connection's status.
    Status,
    /// `~?`: list escapes.
    Help,
}

/// A piece of the filtered input, in order.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes for the server.
    Bytes(Vec<u8>),
    /// A command for this program.
    Command(Command),
}

/// Position in the line of the next input byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    LineStart,
    Escape,
    Inside,
}

/// The escape filter of one terminal.
#[derive(Debug)]
pub struct EscapeFilter {
    escape: Option<u8>,
    state: State,
}

impl EscapeFilter {
    /// A filter for the escape character `escape`; `None` passes everything.
    #[must_use]
    pub fn new(escape: Option<u8>) -> Self {
        Self {
            escape,
            state: State::LineStart,
        }
    }

    /// The character that starts an escape.
    #[must_use]
    pub fn escape(&self) -> Option<u8> {
        self.escape
    }

    /// Filters the next bytes. An escape character at the end is held back until the next byte
    /// arrives.
    pub fn filter(&mut self, input: &[u8]) -> Vec<Piece> {
        let Some(escape) = self.escape else {
            return if input.is_empty() {
                Vec::new()
            } else {
                vec![Piece::Bytes(input.to_vec())]
            };
        };
        let mut pieces = Vec::new();
        let mut bytes = Vec::with_capacity(input.len());
        for &byte in input {
            match self.state {
                State::LineStart if byte == escape => self.state = State::Escape,
                State::Escape => match command_of(byte) {
                    Some(command) => {
                        if !bytes.is_empty() {
                            pieces.push(Piece::Bytes(std::mem::take(&mut bytes)));
                        }
                        pieces.push(Piece::Command(command));
                        // Another escape may follow at once: the position is still the start of a
                        // line.
                        self.state = State::LineStart;
                    }
                    None => {
                        // A doubled escape character sends it once; before an unknown byte it is
                        // sent too.
                        if byte != escape {
                            bytes.push(escape);
                        }
                        bytes.push(byte);
                        self.state = after(byte);
                    }
                },
                _ => {
                    bytes.push(byte);
                    self.state = after(byte);
                }
            }
        }
        if !bytes.is_empty() {
            pieces.push(Piece::Bytes(bytes));
        }
        pieces
    }
}

fn after(byte: u8) -> State {
    if matches!(byte, b'\r' | b'\n') {
        State::LineStart
    } else {
        State::Inside
    }
}

fn command_of(byte: u8) -> Option<Command> {
    Some(match byte {
        b'.' => Command::Disconnect,
        0x1a => Command::Suspend,
        b'&' => Command::Background,
        b'C' => Command::CommandLine,
        b'I' => Command::Information,
        b'B' => Command::Break,
        b'R' => Command::Rekey,
        b'V' => Command::Quieter,
        b'v' => Command::Louder,
        b'#' => Command::ListChannels,
        b's' => Command::Status,
        b'?' => Command::Help,
        _ => return None,
    })
}

/// Whose terminal it is that escapes are typed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Typist {
    /// The connection's owner; `true` if `~C` is enabled.
    Owner(bool),
    /// A passenger on a shared connection.
    Passenger,
}

/// The text of `~?`, lines ended by newlines; in OpenSSH's words.
#[must_use]
pub fn help(escape: u8, typist: Typist) -> String {
    let escape = show(escape);
    let end = match typist {
        Typist::Owner(_) => "terminate connection (and any multiplexed sessions)",
        Typist::Passenger => "terminate session",
    };
    let rows = [
        (".", end),
        ("B", "send a BREAK to the remote system"),
        ("C", "open a command line"),
        ("I", "show connection information"),
        ("R", "request rekey"),
        ("V/v", "decrease/increase verbosity (LogLevel)"),
        ("^Z", "suspend ssh"),
        ("#", "list forwarded connections"),
        (
            "&",
            "background ssh (when waiting for connections to terminate)",
        ),
        ("s", "show algorithms, byte counts and compression"),
        ("?", "this message"),
    ];
    let mut text = String::from("Supported escape sequences:\n");
    for (key, meaning) in rows {
        let is_possible = match typist {
            Typist::Owner(command_line) => key != "C" || command_line,
            Typist::Passenger => !matches!(key, "C" | "V/v" | "^Z" | "&"),
        };
        if is_possible {
            text.push_str(&format!(" {escape}{key:<3} - {meaning}\n"));
        }
    }
    text.push_str(&format!(
        " {escape}{escape}   - send the escape character by typing it twice\n"
    ));
    text.push_str("(Note that escapes are only recognized immediately after newline.)\n");
    text
}

/// An escape character as a person writes it (`~`, `^]`).
#[must_use]
pub fn show(escape: u8) -> String {
    match escape {
        0..=0x1f => format!("^{}", char::from(escape + 64)),
        0x7f => "^?".to_owned(),
        other => char::from(other).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(filter: &mut EscapeFilter, input: &[u8]) -> (Vec<u8>, Vec<Command>) {
        let mut bytes = Vec::new();
        let mut commands = Vec::new();
        for piece in filter.filter(input) {
            match piece {
                Piece::Bytes(more) => bytes.extend(more),
                Piece::Command(command) => commands.push(command),
            }
        }
        (bytes, commands)
    }

    #[test]
    fn an_escape_counts_only_at_the_start_of_a_line() {
        let mut filter = EscapeFilter::new(Some(b'~'));
        assert_eq!(run(&mut filter, b"a~.b\r"), (b"a~.b\r".to_vec(), vec![]));
        assert_eq!(run(&mut filter, b"~."), (vec![], vec![Command::Disconnect]));
    }

    #[test]
    fn a_split_escape_waits_for_its_second_half() {
        let mut filter = EscapeFilter::new(Some(b'~'));
        assert_eq!(run(&mut filter, b"~"), (vec![], vec![]));
        assert_eq!(run(&mut filter, b"x"), (b"~x".to_vec(), vec![]));
        assert_eq!(run(&mut filter, b"\r~"), (b"\r".to_vec(), vec![]));
        assert_eq!(run(&mut filter, b"~."), (b"~.".to_vec(), vec![]));
    }

    #[test]
    fn each_command_has_its_key_and_bytes_keep_their_place() {
        let mut filter = EscapeFilter::new(Some(b'~'));
        let (bytes, commands) = run(&mut filter, b"~B~R~v~V~#~s~?~\x1a~&~C~Ils\r~~x");
        use Command::{
            Background, Break, CommandLine, Help, Information, ListChannels, Louder, Quieter,
            Rekey, Status, Suspend,
        };
        assert_eq!(
            commands,
            [
                Break,
                Rekey,
                Louder,
                Quieter,
                ListChannels,
                Status,
                Help,
                Suspend,
                Background,
                CommandLine,
                Information
            ]
        );
        assert_eq!(bytes, b"ls\r~x");
        let pieces = filter.filter(b"\r~Bz");
        assert_eq!(
            pieces,
            [
                Piece::Bytes(b"\r".to_vec()),
                Piece::Command(Break),
                Piece::Bytes(b"z".to_vec())
            ]
        );
    }

    #[test]
    fn without_an_escape_character_everything_passes() {
        let mut filter = EscapeFilter::new(None);
        assert_eq!(run(&mut filter, b"\r~."), (b"\r~.".to_vec(), vec![]));
        assert_eq!(show(0x1d), "^]");
        assert!(help(b'~', Typist::Owner(false)).contains(" ~.   - terminate"));
        let owner = |command_line| help(b'~', Typist::Owner(command_line));
        assert!(!owner(false).contains("~C") && owner(true).contains(" ~C   - open"));
        let passenger = help(b'~', Typist::Passenger);
        assert!(passenger.contains(" ~R ") && !passenger.contains("~&"));
    }
}
