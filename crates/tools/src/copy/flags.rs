//! The walk over a command line: flags of one letter, alone or in clusters, long ones where a
//! program has them, and operands.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// What a program makes of its command line.
pub(crate) trait Flags {
    /// The letters that stand alone.
    const PLAIN: &'static [u8];
    /// The letters that a value follows, in the same word or the next.
    const VALUED: &'static [u8];

    /// A letter of [`Self::PLAIN`].
    ///
    /// # Errors
    /// What is wrong with it; empty for the usage alone.
    fn plain(&mut self, flag: u8) -> Result<(), String>;

    /// A letter of [`Self::VALUED`].
    ///
    /// # Errors
    /// What is wrong with its value.
    fn valued(&mut self, flag: u8, value: OsString) -> Result<(), String>;

    /// What stands behind `--`; a value may be taken from `args`. False in a program without
    /// long flags.
    ///
    /// # Errors
    /// What is wrong with it.
    fn long(
        &mut self,
        text: &[u8],
        args: &mut dyn Iterator<Item = OsString>,
    ) -> Result<bool, String> {
        let _ = (text, args);
        Ok(false)
    }

    /// What is no flag.
    fn operand(&mut self, operand: OsString);
}

/// Hands all arguments to `flags`, one after the other; behind `--` stand operands only.
///
/// # Errors
/// The first thing that is wrong with them, in getopt's words or those of `flags`.
pub(crate) fn walk(flags: &mut impl Flags, args: Vec<OsString>) -> Result<(), String> {
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let bytes = arg.as_bytes();
        if bytes == b"--" {
            args.for_each(|operand| flags.operand(operand));
            return Ok(());
        }
        if let Some(long) = bytes.strip_prefix(b"--")
            && flags.long(long, &mut args)?
        {
            continue;
        }
        match bytes.strip_prefix(b"-") {
            None | Some([]) => flags.operand(arg),
            Some(letters) => cluster(flags, letters, &mut args)?,
        }
    }
    Ok(())
}

fn cluster<F: Flags>(
    flags: &mut F,
    mut letters: &[u8],
    args: &mut dyn Iterator<Item = OsString>,
) -> Result<(), String> {
    while let Some((flag, rest)) = letters.split_first() {
        letters = rest;
        if F::PLAIN.contains(flag) {
            flags.plain(*flag)?;
        } else if F::VALUED.contains(flag) {
            let value = match rest.is_empty() {
                false => OsStr::from_bytes(rest).to_owned(),
                true => args.next().ok_or_else(|| {
                    format!("option requires an argument -- {}", char::from(*flag))
                })?,
            };
            return flags.valued(*flag, value);
        } else {
            let flag = escape::one_line([*flag]);
            return Err(format!("unknown option -- {flag}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seen {
        has_long: bool,
        seen: Vec<String>,
    }

    impl Flags for Seen {
        const PLAIN: &'static [u8] = b"ab";
        const VALUED: &'static [u8] = b"o";

        fn plain(&mut self, flag: u8) -> Result<(), String> {
            self.seen.push(char::from(flag).to_string());
            Ok(())
        }
        fn valued(&mut self, flag: u8, value: OsString) -> Result<(), String> {
            let flag = char::from(flag);
            self.seen
                .push(format!("{flag}={}", value.to_string_lossy()));
            Ok(())
        }
        fn long(
            &mut self,
            text: &[u8],
            _args: &mut dyn Iterator<Item = OsString>,
        ) -> Result<bool, String> {
            self.seen.push(String::from_utf8_lossy(text).into_owned());
            Ok(self.has_long)
        }
        fn operand(&mut self, operand: OsString) {
            self.seen.push(format!("({})", operand.to_string_lossy()));
        }
    }

    fn walked(has_long: bool, line: &str) -> Result<String, String> {
        let mut seen = Seen {
            has_long,
            ..Seen::default()
        };
        let args = line.split(' ').map(OsString::from).collect();
        walk(&mut seen, args).map(|()| seen.seen.join(" "))
    }

    #[test]
    fn letters_values_and_operands_come_in_their_order() {
        let all = walked(true, "-abox x -o - -ba --long=1 y -- -a").unwrap();
        assert_eq!(all, "a b o=x (x) o=- b a long=1 (y) (-a)");
        assert_eq!(walked(true, "- -").unwrap(), "(-) (-)");
    }

    #[test]
    fn what_is_unknown_or_lacks_its_value_is_said_as_getopt_says_it() {
        let wrong = |line| walked(false, line).unwrap_err();
        assert_eq!(wrong("-ax"), "unknown option -- x");
        assert_eq!(wrong("-a\u{1}"), "unknown option -- \\001");
        assert_eq!(wrong("--long"), "unknown option -- -");
        assert_eq!(wrong("-ao"), "option requires an argument -- o");
    }
}
