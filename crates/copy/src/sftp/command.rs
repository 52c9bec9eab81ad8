//! What a line means.

use transfer::glob::unescaped;

use super::words;

/// How entries are shown and sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LsFlags {
    pub(super) long: bool,
    pub(super) one_column: bool,
    pub(super) numeric: bool,
    pub(super) all: bool,
    pub(super) units: bool,
    pub(super) by_size: bool,
    pub(super) by_time: bool,
    pub(super) unsorted: bool,
    pub(super) reverse: bool,
}

/// How files are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CopyFlags {
    /// `-a`
    pub(super) resume: bool,
    /// `-f`
    pub(super) sync: bool,
    /// `-p`
    pub(super) preserve: bool,
    /// `-r`
    pub(super) recursive: bool,
}

/// A command. Paths that may be patterns are as they were written; others are literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SftpCommand {
    Bye,
    Cd(Option<Vec<u8>>),
    Chgrp(Vec<u8>, u32, bool),
    Chmod(Vec<u8>, u32, bool),
    Chown(Vec<u8>, u32, bool),
    Copy(Vec<u8>, Vec<u8>),
    Df {
        path: Option<Vec<u8>>,
        units: bool,
        inodes: bool,
    },
    Get(CopyFlags, Vec<u8>, Option<Vec<u8>>),
    Put(CopyFlags, Vec<u8>, Option<Vec<u8>>),
    Help,
    Lcd(Option<Vec<u8>>),
    Lls(Vec<u8>),
    /// Whether with what leads there (`-p`), and the path.
    Lmkdir(bool, Vec<u8>),
    Link(Vec<u8>, Vec<u8>),
    Symlink(Vec<u8>, Vec<u8>),
    Lpwd,
    Ls(LsFlags, Option<Vec<u8>>),
    Lumask(u32),
    /// As `Lmkdir`.
    Mkdir(bool, Vec<u8>),
    Progress,
    Pwd,
    Rename(Vec<u8>, Vec<u8>, bool),
    Rm(Vec<u8>),
    Rmdir(Vec<u8>),
    Version,
    Shell(Vec<u8>),
}

/// All names, with what completes their arguments, and the flags they take.
pub(super) const NAMES: &[(&str, Completes, &str)] = &[
    ("bye", Completes::Nothing, ""),
    ("cd", Completes::Remote, ""),
    ("chdir", Completes::Remote, ""),
    ("chgrp", Completes::Remote, "h"),
    ("chmod", Completes::Remote, "h"),
    ("chown", Completes::Remote, "h"),
    ("copy", Completes::Remote, ""),
    ("cp", Completes::Remote, ""),
    ("df", Completes::Remote, "hi"),
    ("dir", Completes::Remote, "1Safhlnrt"),
    ("exit", Completes::Nothing, ""),
    ("get", Completes::Remote, "afPpRr"),
    ("help", Completes::Nothing, ""),
    ("lcd", Completes::Local, ""),
    ("lchdir", Completes::Local, ""),
    ("lls", Completes::Local, ""),
    ("lmkdir", Completes::Local, "p"),
    ("ln", Completes::Remote, "s"),
    ("lpwd", Completes::Local, ""),
    ("ls", Completes::Remote, "1Safhlnrt"),
    ("lumask", Completes::Nothing, ""),
    ("mkdir", Completes::Remote, "p"),
    ("mget", Completes::Remote, "afPpRr"),
    ("mput", Completes::Local, "afPpRr"),
    ("progress", Completes::Nothing, ""),
    ("put", Completes::Local, "afPpRr"),
    ("pwd", Completes::Remote, ""),
    ("quit", Completes::Nothing, ""),
    ("reget", Completes::Remote, "afPpRr"),
    ("rename", Completes::Remote, "l"),
    ("reput", Completes::Local, "afPpRr"),
    ("rm", Completes::Remote, ""),
    ("rmdir", Completes::Remote, ""),
    ("symlink", Completes::Remote, ""),
    ("version", Completes::Nothing, ""),
];

/// What completes a command's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Completes {
    Nothing,
    Remote,
    Local,
}

/// How, from where, and to where if that was said.
type Copied = (CopyFlags, Vec<u8>, Option<Vec<u8>>);

/// The arguments of a command.
struct Args {
    name: String,
    /// The flags before the first other word.
    flags: Vec<u8>,
    words: std::collections::VecDeque<Vec<u8>>,
}

impl Args {
    /// Takes the flags before the first other word; `known` are those of the command.
    fn read_flags(&mut self, known: &str) -> Result<(), String> {
        while let Some(word) = self.words.front() {
            let Some(cluster) = word.strip_prefix(b"-").filter(|rest| !rest.is_empty()) else {
                break;
            };
            if cluster == b"-" {
                self.words.pop_front();
                break;
            }
            for flag in cluster {
                if !known.as_bytes().contains(flag) {
                    let flag = escape::one_line([*flag]);
                    return Err(format!("{}: Invalid flag -{flag}", self.name));
                }
                self.flags.push(*flag);
            }
            self.words.pop_front();
        }
        Ok(())
    }

    fn has(&self, flag: u8) -> bool {
        self.flags.contains(&flag)
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        self.words.pop_front().filter(|word| !word.is_empty())
    }

    fn one(&mut self) -> Result<Vec<u8>, String> {
        self.next()
            .ok_or_else(|| format!("You must specify a path after a {} command.", self.name))
    }

    fn two(&mut self) -> Result<(Vec<u8>, Vec<u8>), String> {
        match (self.next(), self.next()) {
            (Some(first), Some(second)) => Ok((unescaped(&first), unescaped(&second))),
            _ => Err(format!(
                "You must specify two paths after a {} command.",
                self.name
            )),
        }
    }

    fn copy(&mut self, resume: bool) -> Result<Copied, String> {
        let flags = CopyFlags {
            resume: resume || self.has(b'a'),
            sync: self.has(b'f'),
            preserve: self.has(b'p') || self.has(b'P'),
            recursive: self.has(b'r') || self.has(b'R'),
        };
        let first = self.next().ok_or_else(|| {
            format!(
                "You must specify at least one path after a {} command.",
                self.name
            )
        })?;
        // One that is empty names no file, as in OpenSSH: it is not the default.
        Ok((
            flags,
            first,
            self.words.pop_front().map(|path| unescaped(&path)),
        ))
    }

    /// The path and the number before it, and whether `-h` is given.
    fn number(&mut self, radix: u32) -> Result<(Vec<u8>, u32, bool), String> {
        let number = self
            .next()
            .and_then(|word| u32::from_str_radix(std::str::from_utf8(&word).ok()?, radix).ok())
            .ok_or_else(|| {
                format!(
                    "You must supply a numeric argument to the {} command.",
                    self.name
                )
            })?;
        Ok((self.one()?, number, self.has(b'h')))
    }
}

fn ls_flags(found: &[u8]) -> LsFlags {
    let mut flags = LsFlags::default();
    for flag in found {
        match flag {
            b'1' => {
                (flags.long, flags.numeric, flags.units) = (false, false, false);
                flags.one_column = true;
            }
            b'S' => (flags.by_size, flags.by_time, flags.unsorted) = (true, false, false),
            b't' => (flags.by_size, flags.by_time, flags.unsorted) = (false, true, false),
            b'f' => (flags.by_size, flags.by_time, flags.unsorted) = (false, false, true),
            b'a' => flags.all = true,
            b'h' => flags.units = true,
            b'l' => (flags.one_column, flags.long) = (false, true),
            b'n' => (flags.one_column, flags.long, flags.numeric) = (false, true, true),
            _ => flags.reverse = true,
        }
    }
    flags
}

/// Reads a line that holds a command; none for an empty line or a comment.
///
/// # Errors
/// A description of the mistake, in OpenSSH's words.
pub(super) fn parse(line: &[u8]) -> Result<Option<SftpCommand>, String> {
    // A blank at the end may belong to a name: `trail\ `.
    let trimmed = line.trim_ascii_start();
    if trimmed.contains(&0) {
        return Err("A command cannot contain a NUL byte.".to_owned());
    }
    if let Some(rest) = trimmed.strip_prefix(b"!") {
        return Ok(Some(SftpCommand::Shell(rest.trim_ascii().to_vec())));
    }
    let mut words: std::collections::VecDeque<Vec<u8>> = words::split(trimmed)?.into();
    let Some(name) = words.pop_front() else {
        return Ok(None);
    };
    let name = String::from_utf8_lossy(&name).to_ascii_lowercase();
    // Its flags are for the ls of this system.
    if name == "lls" {
        let rest = trimmed.get(3..).unwrap_or_default().trim_ascii();
        return Ok(Some(SftpCommand::Lls(rest.to_vec())));
    }
    let known = match name.as_str() {
        "?" => "",
        name => {
            let row = NAMES.iter().find(|(each, ..)| *each == name);
            row.ok_or("Invalid command.")?.2
        }
    };
    let mut args = Args {
        name,
        flags: Vec::new(),
        words,
    };
    args.read_flags(known)?;
    command(&mut args).map(Some)
}

fn command(args: &mut Args) -> Result<SftpCommand, String> {
    let name = args.name.clone();
    Ok(match name.as_str() {
        "bye" | "exit" | "quit" => SftpCommand::Bye,
        "cd" | "chdir" => SftpCommand::Cd(args.next()),
        "chgrp" => {
            let (path, number, of_link) = args.number(10)?;
            SftpCommand::Chgrp(path, number, of_link)
        }
        "chmod" => {
            let (path, number, of_link) = args.number(8)?;
            SftpCommand::Chmod(path, number & 0o7777, of_link)
        }
        "chown" => {
            let (path, number, of_link) = args.number(10)?;
            SftpCommand::Chown(path, number, of_link)
        }
        "copy" | "cp" => {
            let (from, to) = args.two()?;
            SftpCommand::Copy(from, to)
        }
        "df" => SftpCommand::Df {
            path: args.next(),
            units: args.has(b'h'),
            inodes: args.has(b'i'),
        },
        "get" | "mget" | "reget" => {
            let (flags, from, to) = args.copy(name == "reget")?;
            SftpCommand::Get(flags, from, to)
        }
        "put" | "mput" | "reput" => {
            let (flags, from, to) = args.copy(name == "reput")?;
            SftpCommand::Put(flags, from, to)
        }
        "help" | "?" => SftpCommand::Help,
        "lcd" | "lchdir" => SftpCommand::Lcd(args.next().map(|path| unescaped(&path))),
        "lmkdir" => SftpCommand::Lmkdir(args.has(b'p'), unescaped(&args.one()?)),
        "ln" => {
            let (from, to) = args.two()?;
            match args.has(b's') {
                true => SftpCommand::Symlink(from, to),
                false => SftpCommand::Link(from, to),
            }
        }
        "symlink" => {
            let (from, to) = args.two()?;
            SftpCommand::Symlink(from, to)
        }
        "lpwd" => SftpCommand::Lpwd,
        "ls" | "dir" => SftpCommand::Ls(ls_flags(&args.flags), args.next()),
        "lumask" => {
            let mask = args
                .next()
                .and_then(|word| u32::from_str_radix(std::str::from_utf8(&word).ok()?, 8).ok());
            match mask {
                Some(mask) => SftpCommand::Lumask(mask),
                None => {
                    return Err(
                        "You must supply a numeric argument to the lumask command.".to_owned()
                    );
                }
            }
        }
        "mkdir" => SftpCommand::Mkdir(args.has(b'p'), unescaped(&args.one()?)),
        "progress" => SftpCommand::Progress,
        "pwd" => SftpCommand::Pwd,
        "rename" => {
            let (from, to) = args.two()?;
            SftpCommand::Rename(from, to, args.has(b'l'))
        }
        "rm" => SftpCommand::Rm(args.one()?),
        "rmdir" => SftpCommand::Rmdir(unescaped(&args.one()?)),
        "version" => SftpCommand::Version,
        _ => return Err("Invalid command.".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands() {
        let read = |line: &str| parse(line.as_bytes()).unwrap();
        assert_eq!(read("  "), None);
        assert_eq!(read("# x"), None);
        assert_eq!(read("BYE"), Some(SftpCommand::Bye));
        assert_eq!(read("! ls -l"), Some(SftpCommand::Shell(b"ls -l".to_vec())));
        assert_eq!(
            read("lls -l 'a b'"),
            Some(SftpCommand::Lls(b"-l 'a b'".to_vec()))
        );
        assert_eq!(
            read("chmod -h 644 x*"),
            Some(SftpCommand::Chmod(b"x*".to_vec(), 0o644, true))
        );
        let flags = CopyFlags {
            resume: true,
            recursive: true,
            ..CopyFlags::default()
        };
        assert_eq!(
            read("reget -r a \"b c\""),
            Some(SftpCommand::Get(
                flags,
                b"a".to_vec(),
                Some(b"b c".to_vec())
            ))
        );
        assert_eq!(
            read("get a ''"),
            Some(SftpCommand::Get(
                CopyFlags::default(),
                b"a".to_vec(),
                Some(Vec::new())
            ))
        );
        assert_eq!(
            read("chmod 0100644 x"),
            Some(SftpCommand::Chmod(b"x".to_vec(), 0o644, false))
        );
        assert_eq!(read("lumask 12345"), Some(SftpCommand::Lumask(0o12345)));
        assert_eq!(
            read("mkdir -p a/b"),
            Some(SftpCommand::Mkdir(true, b"a/b".to_vec()))
        );
        assert_eq!(
            read("lmkdir -- -p"),
            Some(SftpCommand::Lmkdir(false, b"-p".to_vec()))
        );
        assert_eq!(
            read("get a trail\\ \r"),
            Some(SftpCommand::Get(
                CopyFlags::default(),
                b"a".to_vec(),
                Some(b"trail ".to_vec())
            ))
        );
    }

    #[test]
    fn what_is_wrong_is_said_in_the_known_words() {
        let wrong = |line: &str| parse(line.as_bytes()).unwrap_err();
        assert_eq!(wrong("foo"), "Invalid command.");
        assert_eq!(wrong("rm a\0b"), "A command cannot contain a NUL byte.");
        assert_eq!(
            wrong("get"),
            "You must specify at least one path after a get command."
        );
        for (name, ..) in NAMES.iter().filter(|(name, ..)| *name != "lls") {
            let said = wrong(&format!("{name} -x a b"));
            assert_eq!(said, format!("{name}: Invalid flag -x"));
        }
        assert_eq!(
            wrong("mkdir -p"),
            "You must specify a path after a mkdir command."
        );
        assert_eq!(
            wrong("ln a"),
            "You must specify two paths after a ln command."
        );
        assert_eq!(
            wrong("chmod 9 x"),
            "You must supply a numeric argument to the chmod command."
        );
    }
}
