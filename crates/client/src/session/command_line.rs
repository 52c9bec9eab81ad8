//! The escape `~C`: a line of the terminal, in its own mode, with which the user adds and cancels
//! forwardings or runs a local command. Text and effects are those of OpenSSH.
//!
//! The session goes on while the line is typed: its output appears, and forwarded connections work.

use config::forward::{ForwardKind, ForwardListen, ForwardSpec};

use super::ClientSession;
use crate::error::ClientError;
use crate::forward::{Added, SessionForwards};
use crate::log::{self, error, info};
use crate::session::StdioFlags;

/// Longest line, bytes; a terminal delivers at most 4,096.
const MAX_LINE_BYTES: usize = 16 << 10;

/// A typed line, split into its parts.
#[derive(Debug, PartialEq, Eq)]
enum LineCommand<'l> {
    Nothing,
    Help,
    /// A command for the user's shell.
    Local(&'l str),
    Add(ForwardKind, &'l str),
    Cancel(ForwardKind, &'l str),
    Invalid,
}

impl<'l> LineCommand<'l> {
    fn parse(line: &'l str, local_commands: bool) -> Self {
        let line = line.trim_start();
        let line = line.strip_prefix('-').unwrap_or(line);
        if line.trim_end().is_empty() {
            return Self::Nothing;
        }
        if line.starts_with(['h', 'H', '?']) {
            return Self::Help;
        }
        if let Some(command) = line.strip_prefix('!').filter(|_| local_commands) {
            return Self::Local(command);
        }
        let (line, cancels) = match line.strip_prefix('K') {
            Some(line) => (line, true),
            None => (line, false),
        };
        let mut rest = line.chars();
        let kind = match rest.next() {
            Some('L') => ForwardKind::Local,
            Some('R') => ForwardKind::Remote,
            Some('D') => ForwardKind::Dynamic,
            _ => return Self::Invalid,
        };
        let words = rest.as_str().trim();
        match cancels {
            true => Self::Cancel(kind, words),
            false => Self::Add(kind, words),
        }
    }
}

const HELP: &str = "Commands:
      -L[bind_address:]port:host:hostport    Request local forward
      -R[bind_address:]port:host:hostport    Request remote forward
      -D[bind_address:]port                  Request dynamic forward
      -KL[bind_address:]port                 Cancel local forward
      -KR[bind_address:]port                 Cancel remote forward
      -KD[bind_address:]port                 Cancel dynamic forward";
const LOCAL_HELP: &str = "      !args                                  Execute local command";

impl ClientSession<'_> {
    /// Gives the terminal its own mode back and asks for a line.
    pub(super) fn open_command_line(&mut self) -> Result<(), ClientError> {
        if !self.plan.command_line {
            log::tell("commandline disabled\n");
            return Ok(());
        }
        self.terminal.begin_line()?;
        log::tell("\r\nssh> ");
        Ok(())
    }

    /// Bytes of the terminal while a line is typed; none at the end of the file, which cancels it.
    pub(super) fn take_line_input(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        let Some(line) = self.terminal.line_mut() else {
            return Ok(());
        };
        let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let (piece, after) = match end {
            Some(end) => (bytes.get(..end), bytes.get(end + 1..)),
            None => (Some(bytes), None),
        };
        line.extend_from_slice(piece.unwrap_or_default());
        if line.len() > MAX_LINE_BYTES {
            line.clear();
        }
        if end.is_none() && !bytes.is_empty() {
            return Ok(());
        }
        let line = std::mem::take(line);
        if end.is_some() {
            let line = String::from_utf8_lossy(&line).into_owned();
            self.run_command_line(&line)?;
        }
        self.terminal.end_line();
        self.terminal.type_bytes(after.unwrap_or_default());
        Ok(())
    }

    fn run_command_line(&mut self, line: &str) -> Result<(), ClientError> {
        match LineCommand::parse(line, self.plan.local_commands) {
            LineCommand::Nothing => {}
            LineCommand::Help => {
                HELP.lines().for_each(|line| info!("{line}"));
                if self.plan.local_commands {
                    info!("{LOCAL_HELP}");
                }
            }
            LineCommand::Local(command) => {
                let blocking = StdioFlags::blocking();
                if let Err(reason) = crate::local::run_in_shell(command) {
                    error!("cannot run the command: {reason}");
                }
                drop(blocking);
            }
            LineCommand::Add(kind, words) => self.add_forwarding(kind, words)?,
            LineCommand::Cancel(kind, words) => self.cancel_forwarding(kind, words)?,
            LineCommand::Invalid => info!("Invalid command."),
        }
        Ok(())
    }

    fn add_forwarding(&mut self, kind: ForwardKind, words: &str) -> Result<(), ClientError> {
        let Some(spec) = ForwardSpec::parse(words, kind) else {
            match kind {
                ForwardKind::Remote => info!("Bad remote forwarding specification."),
                _ => info!("Bad local forwarding specification."),
            }
            return Ok(());
        };
        if self.plan.is_distrusted {
            error!("Port forwarding is disabled to avoid man-in-the-middle attacks.");
            return Ok(());
        }
        let forwards = self.forwards.as_mut();
        let added = forwards.map(|forwards| forwards.add(kind, spec, self.driver));
        match added.transpose()? {
            None | Some(Added::Failed) => info!("Port forwarding failed."),
            Some(_) => info!("Forwarding port."),
        }
        Ok(())
    }

    fn cancel_forwarding(&mut self, kind: ForwardKind, words: &str) -> Result<(), ClientError> {
        let Some(listen) = ForwardListen::parse(words) else {
            info!("Bad forwarding close specification.");
            return Ok(());
        };
        let cancel = |forwards: &mut SessionForwards| forwards.cancel(kind, &listen, self.driver);
        match self.forwards.as_mut().map(cancel).transpose()? {
            Some(true) => info!("Canceled forwarding."),
            _ => info!("Unknown port forwarding."),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_openssh_reads_them() {
        use ForwardKind::{Dynamic, Local, Remote};
        use LineCommand::{Add, Cancel, Help, Invalid, Nothing};
        for (line, command) in [
            ("", Nothing),
            ("  -", Nothing),
            ("-h", Help),
            ("?", Help),
            ("Help", Help),
            ("-L 8080:a:1", Add(Local, "8080:a:1")),
            ("L8080:a:1 ", Add(Local, "8080:a:1")),
            ("-R*:0:a:1", Add(Remote, "*:0:a:1")),
            ("-D1080", Add(Dynamic, "1080")),
            ("-KL8080", Cancel(Local, "8080")),
            ("KR /s", Cancel(Remote, "/s")),
            ("-KD", Cancel(Dynamic, "")),
            ("-K", Invalid),
            ("--L1", Invalid),
            ("x", Invalid),
            ("!ls", Invalid),
        ] {
            assert_eq!(LineCommand::parse(line, false), command, "{line}");
        }
        assert_eq!(
            LineCommand::parse(" !ls -l", true),
            LineCommand::Local("ls -l")
        );
    }
}
