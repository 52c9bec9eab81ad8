//! Forms of ssh_config alone.

use super::{Form, one, only};
use crate::pattern;
use crate::units;
use crate::value::{EXTRA, unsupported};

/// `EscapeChar none|^X|X`, kept as `ssh -G` prints it (`\^B`).
pub(crate) fn escape_char(words: &[String]) -> Form {
    let word = only(words)?;
    let bytes = word.as_bytes();
    match bytes {
        _ if word.eq_ignore_ascii_case("none") => one("none"),
        [b'^', c @ 64..=127] => one(format!("\\^{}", char::from(*c).to_ascii_uppercase())),
        [c] if *c != b'^' || bytes.len() == 1 => one(word),
        _ => Err("Bad escape character.".to_owned()),
    }
}

/// `AddKeysToAgent yes|no|ask|confirm [time]|time`.
pub(crate) fn add_keys_to_agent(words: &[String]) -> Form {
    let (first, second) = match words {
        [first] => (first.to_ascii_lowercase(), None),
        [first, second] => (first.to_ascii_lowercase(), Some(second)),
        _ => return Err(EXTRA.to_owned()),
    };
    match (first.as_str(), second) {
        ("yes" | "true", None) => one("true"),
        ("no" | "false", None) => one("false"),
        ("ask", None) => one("ask"),
        ("confirm", None) => one("confirm"),
        ("confirm", Some(time)) => match units::parse_seconds(time) {
            Some(seconds) => Ok(vec!["confirm".to_owned(), seconds.to_string()]),
            None => Err("invalid time value.".to_owned()),
        },
        (time, None) => match units::parse_seconds(time) {
            Some(seconds) => one(seconds.to_string()),
            None => Err(unsupported(time)),
        },
        (other, _) => Err(unsupported(other)),
    }
}

/// `ControlPersist yes|no|time`.
pub(crate) fn control_persist(words: &[String]) -> Form {
    let word = only(words)?;
    match word.to_ascii_lowercase().as_str() {
        "yes" | "true" => one("yes"),
        "no" | "false" => one("no"),
        _ => match units::parse_seconds(word) {
            Some(0) => one("yes"),
            Some(seconds) => one(seconds.to_string()),
            None => Err("invalid time value.".to_owned()),
        },
    }
}

/// `ForwardAgent yes|no|path|$VARIABLE`.
pub(crate) fn forward_agent(words: &[String]) -> Form {
    let word = only(words)?;
    match word.to_ascii_lowercase().as_str() {
        "yes" | "true" => one("yes"),
        "no" | "false" => one("no"),
        _ => one(word),
    }
}

/// `ObscureKeystrokeTiming yes|no|interval:milliseconds`.
pub(crate) fn obscure_keystrokes(words: &[String]) -> Form {
    let word = only(words)?;
    match word.to_ascii_lowercase().as_str() {
        "yes" | "true" => one("yes"),
        "no" | "false" => one("no"),
        lower => match lower.strip_prefix("interval:").map(str::parse::<u32>) {
            Some(Ok(ms)) if (1..=1000).contains(&ms) => one(format!("interval:{ms}")),
            _ => Err(unsupported(word)),
        },
    }
}

/// `TunnelDevice local[:remote]`.
pub(crate) fn tunnel_device(words: &[String]) -> Form {
    let word = only(words)?;
    let (local, remote) = word.split_once(':').unwrap_or((word, "any"));
    let good = |part: &str| part.eq_ignore_ascii_case("any") || part.parse::<u16>().is_ok();
    if good(local) && good(remote) {
        one(format!("{local}:{remote}"))
    } else {
        Err("Bad tun device.".to_owned())
    }
}

/// One forwarding of `LocalForward`, `RemoteForward` or `DynamicForward`, kept as the dump prints it.
pub(crate) fn forward(words: &[String]) -> Form {
    let bad = || format!("Bad forwarding specification '{}'.", words.join(" "));
    if words.len() > 2 {
        return Err(bad());
    }
    let mut out: Vec<String> = Vec::new();
    for (position, word) in words.iter().enumerate() {
        let is_path = word.contains('/') && !word.starts_with('[');
        let bare_port = position == 0 && units::parse_port(word).is_some();
        let shown = if is_path || bare_port {
            word.clone()
        } else {
            let (host, port) = match word.strip_prefix('[') {
                Some(_) => match units::split_host_port(word) {
                    Some((host, Some(port))) => (host, port),
                    _ => return Err(bad()),
                },
                None => word.rsplit_once(':').ok_or_else(bad)?,
            };
            if port != "0" && units::parse_port(port).is_none() {
                return Err(bad());
            }
            format!("[{host}]:{port}")
        };
        out.push(shown);
    }
    if out.is_empty() {
        Err(bad())
    } else {
        one(out.join(" "))
    }
}

/// Domains of `CanonicalDomains`.
pub(crate) fn domains(words: &[String]) -> Form {
    if matches!(words, [only] if only.eq_ignore_ascii_case("none")) {
        return one("none");
    }
    for word in words {
        let good = !word.is_empty()
            && word.len() < 256
            && !word.contains("..")
            && word
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
            && word
                .as_bytes()
                .first()
                .is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_' || *b == b'.');
        if !good {
            return Err(format!(
                "domain name \"{word}\" contains invalid characters"
            ));
        }
    }
    Ok(words
        .iter()
        .map(|word| word.trim_end_matches('.').to_ascii_lowercase())
        .collect())
}

/// Rules of `CanonicalizePermittedCNAMEs`.
pub(crate) fn cname_rules(words: &[String]) -> Form {
    if matches!(words, [only] if only.eq_ignore_ascii_case("none")) {
        return one("none");
    }
    let mut out = Vec::new();
    for word in words {
        if word == "*" {
            out.push("*:*".to_owned());
            continue;
        }
        match word.split_once(':') {
            Some((source, target)) if !source.is_empty() && !target.is_empty() => {
                out.push(word.to_ascii_lowercase());
            }
            _ => return Err(format!("Invalid permitted CNAME \"{word}\"")),
        }
    }
    Ok(out)
}

/// Hops of `ProxyJump`, comma-separated; `none` alone is none.
pub(crate) fn proxy_jump(words: &[String]) -> Form {
    let word = only(words)?;
    if word.eq_ignore_ascii_case("none") {
        return one("none");
    }
    for hop in word.split(',') {
        if crate::destination::parse_hop(hop).is_none() {
            return Err(format!("Invalid ProxyJump \"{word}\""));
        }
    }
    one(word)
}

/// Adds to a list of `SendEnv` patterns, where `-pattern` takes matching earlier ones away.
pub(crate) fn merge_send_env(have: &mut Vec<String>, more: &[String]) {
    for word in more {
        match word.strip_prefix('-') {
            Some(gone) => have.retain(|name| !pattern::matches(name, gone)),
            None => have.push(word.clone()),
        }
    }
}
