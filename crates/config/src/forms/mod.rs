//! Readers of keywords whose arguments have a form of their own ([`crate::value::Kind::Parsed`]).
//!
//! Each function takes the words of a line and returns the value, or the error text for the user
//! without file and line.
//! This module holds the forms that both files share; [`client`] and [`server`] hold the others.

pub(crate) mod client;
pub(crate) mod server;

use crate::channel_timeouts::ChannelTimeouts;
use crate::permit::PermitList;
use crate::types::{IpQos, LogLevel, SyslogFacility, Variable};
use crate::units;
use crate::value::{Choice, EXTRA, Value, spelled};

pub(crate) type Form = Result<Value, String>;

fn only(words: &[String]) -> Result<&str, String> {
    match words {
        [word] if !word.is_empty() => Ok(word),
        [] | [_] => Err("missing argument.".to_owned()),
        _ => Err(EXTRA.to_owned()),
    }
}

fn one(word: impl Into<String>) -> Form {
    Ok(Value::Words(vec![word.into()]))
}

/// The words as they are.
fn unchanged(words: &[String]) -> Form {
    Ok(Value::Words(words.to_vec()))
}

/// The value of a list that the word `none` sets to nothing.
fn no_words() -> Form {
    Ok(Value::Words(Vec::new()))
}

/// Refuses `none` together with other words.
fn none_alone(words: &[String]) -> Result<(), String> {
    if words.len() > 1 && words.iter().any(|word| word.eq_ignore_ascii_case("none")) {
        return Err("\"none\" argument must appear alone.".to_owned());
    }
    Ok(())
}

/// `LogLevel`.
pub(crate) fn log_level(words: &[String]) -> Form {
    let word = only(words)?;
    let level =
        LogLevel::from_name(word).ok_or_else(|| format!("unsupported log level '{word}'"))?;
    Ok(Value::Choice(Choice {
        number: level.number(),
        word: level.word(),
    }))
}

/// `SyslogFacility`.
pub(crate) fn facility(words: &[String]) -> Form {
    let word = only(words)?;
    spelled(SyslogFacility::SPELLINGS, word)
        .ok_or_else(|| format!("unsupported log facility '{word}'"))
}

/// `IPQoS interactive [bulk]`.
pub(crate) fn ip_qos(words: &[String]) -> Form {
    let read = |word: &String| {
        let value = units::parse_ipqos(word).ok_or_else(|| format!("Bad IPQoS value: {word}"))?;
        Ok::<_, String>(u8::try_from(value).ok())
    };
    let (interactive, bulk) = match words {
        [] => return Err("missing argument.".to_owned()),
        [both] => (read(both)?, read(both)?),
        [interactive, bulk] => (read(interactive)?, read(bulk)?),
        _ => return Err(EXTRA.to_owned()),
    };
    Ok(Value::IpQos(IpQos { interactive, bulk }))
}

/// `RekeyLimit bytes|default [time|none]`; without a time, or with `none`, a later line may still
/// give one.
pub(crate) fn rekey_limit(words: &[String]) -> Form {
    let (size, time) = match words {
        [size] => (size, None),
        [size, time] => (size, Some(time)),
        [] => return Err("missing argument.".to_owned()),
        _ => return Err(EXTRA.to_owned()),
    };
    let bytes = if size == "default" {
        0
    } else {
        let bytes = units::parse_bytes(size)
            .ok_or_else(|| format!("Bad number '{size}': invalid format"))?;
        if bytes != 0 && bytes < 16 {
            return Err("RekeyLimit too small".to_owned());
        }
        bytes
    };
    let seconds = match time.filter(|text| *text != "none") {
        Some(text) => Some(units::parse_seconds(text).ok_or("invalid time value.")?),
        None => None,
    };
    Ok(Value::Rekey { bytes, seconds })
}

/// Most libraries: more than a machine has accelerators.
const MOST_LIBRARIES: usize = 16;

/// `HwCompressionLibrary path…|none`: relative paths are refused, since their meaning would depend
/// on the loader.
pub(crate) fn libraries(words: &[String]) -> Form {
    match words {
        [] => return Err("missing argument.".to_owned()),
        [only] if only.eq_ignore_ascii_case("none") => return no_words(),
        _ => {}
    }
    if words.len() > MOST_LIBRARIES {
        return Err(format!("more than {MOST_LIBRARIES} libraries."));
    }
    match words.iter().find(|word| !word.starts_with('/')) {
        Some(word) => Err(format!("'{word}' is not an absolute path.")),
        None => unchanged(words),
    }
}

/// Most threads of `CryptoThreads`: more than any machine's memory can keep busy.
const MOST_CRYPTO_THREADS: usize = 256;

/// `CryptoThreads auto|number`.
pub(crate) fn crypto_threads(words: &[String]) -> Form {
    let word = only(words)?;
    if word.eq_ignore_ascii_case("auto") {
        return Ok(Value::Threads(None));
    }
    match word.parse() {
        Ok(threads @ 1..=MOST_CRYPTO_THREADS) => Ok(Value::Threads(Some(threads))),
        _ => Err(format!("Bad number of threads '{word}'.")),
    }
}

/// Least value of `WindowMemory`, bytes: with less, no channel could be opened.
const LEAST_WINDOW_MEMORY: i64 = 64 * 1024;

/// `WindowMemory bytes`.
pub(crate) fn window_memory(words: &[String]) -> Form {
    let [size] = words else {
        return Err(EXTRA.to_owned());
    };
    let bytes = units::parse_bytes(size).and_then(|bytes| i64::try_from(bytes).ok());
    match bytes.ok_or_else(|| format!("Bad number '{size}': invalid format"))? {
        ..LEAST_WINDOW_MEMORY => Err("WindowMemory too small".to_owned()),
        bytes => Ok(Value::Number(bytes)),
    }
}

/// One `type=interval` per word of `ChannelTimeout`; the single word `none` means none.
pub(crate) fn channel_timeout(words: &[String]) -> Form {
    let mut timeouts = ChannelTimeouts::default();
    if matches!(words, [only] if only.eq_ignore_ascii_case("none")) {
        return Ok(Value::ChannelTimeouts(timeouts));
    }
    none_alone(words)?;
    for word in words {
        if !timeouts.add(word) {
            return Err(format!("invalid channel timeout {word}"));
        }
    }
    if words.is_empty() {
        return Err("missing argument.".to_owned());
    }
    Ok(Value::ChannelTimeouts(timeouts))
}

/// Names of `AcceptEnv` and `SendEnv`.
pub(crate) fn environment_names(words: &[String]) -> Form {
    if words
        .iter()
        .any(|word| word.is_empty() || word.contains('='))
    {
        return Err("Invalid environment name.".to_owned());
    }
    unchanged(words)
}

/// `NAME=VALUE` words of `SetEnv`; the first of a name counts.
pub(crate) fn set_env(words: &[String]) -> Form {
    let mut out: Vec<Variable> = Vec::new();
    for word in words {
        let Some((name, value)) = word.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err("Invalid environment.".to_owned());
        };
        if !out.iter().any(|have| have.name == name) {
            out.push(Variable {
                name: name.to_owned(),
                value: value.to_owned(),
            });
        }
    }
    Ok(Value::Variables(out))
}

/// A `Permit*` list: `any` or `none` alone, or words `[udp/]host:port`.
pub(crate) fn permitted_ports(words: &[String]) -> Form {
    if let [only] = words
        && matches!(only.as_str(), "any" | "none")
    {
        return Ok(Value::Permits(PermitList::of_word(only)));
    }
    let mut list = PermitList::default();
    for word in words {
        if !list.add(word.clone()) {
            return Err(format!("bad port number in {word}"));
        }
    }
    match words {
        [] => Err("missing argument.".to_owned()),
        _ => Ok(Value::Permits(list)),
    }
}

/// `PermitRemoteOpen`: `any`, `none`, or words of host and port. Only `any` in lower case permits
/// everything: OpenSSH accepts the words in any case, and refuses to connect with another.
pub(crate) fn permitted_remotes(words: &[String]) -> Form {
    let is_word = |only: &str| {
        ["any", "none"]
            .iter()
            .any(|word| word.eq_ignore_ascii_case(only))
    };
    match words {
        [only] if is_word(only) => Ok(Value::Permits(PermitList::of_word(only))),
        _ => match words.iter().find(|word| word.contains('/')) {
            Some(word) => Err(format!("bad port number in {word}")),
            None => permitted_ports(words),
        },
    }
}

#[cfg(test)]
mod tests;
