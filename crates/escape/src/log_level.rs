//! The levels of OpenSSH's `LogLevel`, for every log of every program.

/// How important a log line must be to be written: a log of one level writes the lines of that level
/// and of those before it (`LogLevel` in ssh_config(5) and sshd_config(5), `-l` of sftp-server(8)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum LogLevel {
    /// Nothing is written; no line has this level.
    Quiet,
    /// Errors that end the program.
    Fatal,
    /// Other errors.
    Error,
    /// Logins, files that were accessed, warnings: the default.
    #[default]
    Info,
    /// More detail for permanent use in production.
    Verbose,
    /// Decisions (`-v`).
    Debug1,
    /// Messages by name (`-vv`).
    Debug2,
    /// Internals (`-vvv`).
    Debug3,
}

impl LogLevel {
    /// All levels; a level's index is its [`number`](Self::number).
    pub const ALL: [Self; 8] = [
        Self::Quiet,
        Self::Fatal,
        Self::Error,
        Self::Info,
        Self::Verbose,
        Self::Debug1,
        Self::Debug2,
        Self::Debug3,
    ];

    /// The level of a name in any case, with OpenSSH's synonyms `SILENT` and `DEBUG`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        Self::ALL
            .into_iter()
            .find(|level| is(level.name()) || is(level.word()))
    }

    /// The name that people write.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Quiet => "QUIET",
            Self::Fatal => "FATAL",
            Self::Error => "ERROR",
            Self::Info => "INFO",
            Self::Verbose => "VERBOSE",
            Self::Debug1 => "DEBUG1",
            Self::Debug2 => "DEBUG2",
            Self::Debug3 => "DEBUG3",
        }
    }

    /// The name that `ssh -G` and `sshd -T` print.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Quiet => "SILENT",
            Self::Debug1 => "DEBUG",
            other => other.name(),
        }
    }

    /// The text before a debug line, as OpenSSH writes it; empty for other levels.
    #[must_use]
    pub fn debug_prefix(self) -> &'static str {
        match self {
            Self::Debug1 => "debug1: ",
            Self::Debug2 => "debug2: ",
            Self::Debug3 => "debug3: ",
            _ => "",
        }
    }

    /// 0 for [`LogLevel::Quiet`] to 7 for [`LogLevel::Debug3`].
    #[must_use]
    pub fn number(self) -> u8 {
        // The enum is `repr(u8)`: this is its discriminant.
        self as u8
    }

    /// The level of a number; [`LogLevel::Debug3`] for numbers above 7.
    #[must_use]
    pub fn from_number(number: u8) -> Self {
        let level = Self::ALL.get(usize::from(number));
        level.copied().unwrap_or(Self::Debug3)
    }

    /// The next more verbose level, at most [`LogLevel::Debug3`].
    #[must_use]
    pub fn louder(self) -> Self {
        Self::from_number(self.number().saturating_add(1))
    }

    /// The next less verbose level, at least [`LogLevel::Quiet`].
    #[must_use]
    pub fn quieter(self) -> Self {
        Self::from_number(self.number().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::LogLevel;

    #[test]
    fn levels_have_an_order_with_two_ends() {
        for level in LogLevel::ALL {
            assert_eq!(LogLevel::from_number(level.number()), level);
        }
        assert_eq!(LogLevel::Debug3.louder(), LogLevel::Debug3);
        assert_eq!(LogLevel::Quiet.quieter(), LogLevel::Quiet);
        assert_eq!(LogLevel::Info.louder(), LogLevel::Verbose);
    }

    #[test]
    fn each_level_has_its_names() {
        for level in LogLevel::ALL {
            assert_eq!(LogLevel::from_name(level.name()), Some(level));
            assert_eq!(LogLevel::from_name(level.word()), Some(level));
        }
        assert_eq!(LogLevel::from_name("debug"), Some(LogLevel::Debug1));
        assert_eq!(LogLevel::from_name("DEBUG4"), None);
    }
}
