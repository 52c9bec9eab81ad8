//! Readers of keywords whose arguments have a form of their own ([`crate::value::Kind::Parsed`]).
//!
//! Each takes the words of a line and gives the canonical words, or the sentence for the user without file and
//! line. What the canonical words mean is read back in `client::resolve` and `server::build`.

use crate::pattern;
use crate::units;
use crate::value::{EXTRA, unsupported};

type Form = Result<Vec<String>, String>;

fn only(words: &[String]) -> Result<&str, String> {
    match words {
        [word] if !word.is_empty() => Ok(word),
        [] | [_] => Err("missing argument.".to_owned()),
        _ => Err(EXTRA.to_owned()),
    }
}

fn one(word: impl Into<String>) -> Form {
    Ok(vec![word.into()])
}

/// `LogLevel`.
pub(crate) fn log_level(words: &[String]) -> Form {
    let word = only(words)?;
    let upper = word.to_ascii_uppercase();
    match upper.as_str() {
        "QUIET" | "SILENT" => one("SILENT"),
        "FATAL" | "ERROR" | "INFO" | "VERBOSE" | "DEBUG" | "DEBUG2" | "DEBUG3" => one(upper),
        "DEBUG1" => one("DEBUG"),
        _ => Err(format!("unsupported log level '{word}'")),
    }
}

/// `SyslogFacility`.
pub(crate) fn facility(words: &[String]) -> Form {
    let word = only(words)?;
    let upper = word.to_ascii_uppercase();
    let known = matches!(upper.as_str(), "DAEMON" | "USER" | "AUTH" | "AUTHPRIV")
        || upper
            .strip_prefix("LOCAL")
            .is_some_and(|n| matches!(n.as_bytes(), [b'0'..=b'7']));
    if known {
        one(upper)
    } else {
        Err(format!("unsupported log facility '{word}'"))
    }
}

/// `IPQoS interactive [bulk]`.
pub(crate) fn ip_qos(words: &[String]) -> Form {
    if words.len() > 2 {
        return Err(EXTRA.to_owned());
    }
    let mut out = Vec::new();
    for word in words {
        let value = units::parse_ipqos(word).ok_or_else(|| format!("Bad IPQoS value: {word}"))?;
        out.push(units::format_ipqos(value));
    }
    match out.as_slice() {
        [] => Err("missing argument.".to_owned()),
        [single] => Ok(vec![single.clone(), single.clone()]),
        _ => Ok(out),
    }
}

/// `RekeyLimit bytes|default [time|none]`, kept as bytes and seconds where 0 is the default.
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
    let seconds = match time.map(String::as_str) {
        None | Some("none") => 0,
        Some(text) => units::parse_seconds(text).ok_or("invalid time value.")?,
    };
    Ok(vec![bytes.to_string(), seconds.to_string()])
}

/// One `type=interval` per word of `ChannelTimeout`; `none` alone is none.
pub(crate) fn channel_timeout(words: &[String]) -> Form {
    if matches!(words, [only] if only.eq_ignore_ascii_case("none")) {
        return one("none");
    }
    for word in words {
        let good = word
            .split_once('=')
            .is_some_and(|(kind, time)| !kind.is_empty() && units::parse_seconds(time).is_some());
        if !good {
            return Err(format!("invalid channel timeout {word}"));
        }
    }
    if words.is_empty() {
        return Err("missing argument.".to_owned());
    }
    Ok(words.to_vec())
}

/// Names of `AcceptEnv` and `SendEnv`.
pub(crate) fn environment_names(words: &[String]) -> Form {
    if words
        .iter()
        .any(|word| word.is_empty() || word.contains('='))
    {
        return Err("Invalid environment name.".to_owned());
    }
    Ok(words.to_vec())
}

/// `NAME=VALUE` words of `SetEnv`; the first of a name stays.
pub(crate) fn set_env(words: &[String]) -> Form {
    let mut out: Vec<String> = Vec::new();
    for word in words {
        let Some((name, _)) = word.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err("Invalid environment.".to_owned());
        };
        let seen = out
            .iter()
            .any(|have| have.split_once('=').is_some_and(|(n, _)| n == name));
        if !seen {
            out.push(word.clone());
        }
    }
    Ok(out)
}

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

/// `Port` of sshd_config, which may stand several times.
pub(crate) fn ports(words: &[String]) -> Form {
    let word = only(words)?;
    if units::parse_port(word).is_none() {
        return Err("Badly formatted port number.".to_owned());
    }
    one(word.trim_start_matches('0'))
}

/// `ListenAddress host[:port] [rdomain name]`, kept as `host port rdomain` with `-` for what is missing.
pub(crate) fn listen_address(words: &[String]) -> Form {
    let (place, rdomain) = match words {
        [place] => (place, "-"),
        [place, word, rdomain] if word == "rdomain" && !rdomain.is_empty() => {
            (place, rdomain.as_str())
        }
        [_, ..] => return Err("bad listen address".to_owned()),
        [] => return Err("missing address".to_owned()),
    };
    let bad = || format!("bad address \"{place}\"");
    // An unbracketed address of several colons is an IPv6 address without a port.
    let (host, port) = units::split_host_port(place).ok_or_else(bad)?;
    if host.contains(char::is_whitespace) || rdomain.contains(char::is_whitespace) {
        return Err(bad());
    }
    let port = match port {
        None => "-",
        Some(port) => {
            units::parse_port(port).ok_or("bad port number")?;
            port
        }
    };
    let host = if host.is_empty() { "*" } else { host };
    one(format!("{host} {port} {rdomain}"))
}

/// `MaxStartups start[:rate:full]`.
pub(crate) fn max_startups(words: &[String]) -> Form {
    let word = only(words)?;
    let bad = || "Invalid MaxStartups spec.".to_owned();
    let numbers: Vec<u32> = word
        .split(':')
        .map(|part| part.parse::<u32>().ok())
        .collect::<Option<_>>()
        .ok_or_else(bad)?;
    let (start, rate, full) = match numbers.as_slice() {
        [full] => (*full, 100, *full),
        [start, rate, full] => (*start, *rate, *full),
        _ => return Err(bad()),
    };
    if start == 0 || rate == 0 || rate > 100 || start > full || i32::try_from(full).is_err() {
        return Err(bad());
    }
    one(format!("{start}:{rate}:{full}"))
}

/// `PerSourceNetBlockSize bits4[:bits6]`.
pub(crate) fn net_block_size(words: &[String]) -> Form {
    let word = only(words)?;
    let (four, six) = word.split_once(':').unwrap_or((word, "128"));
    match (four.parse::<u8>(), six.parse::<u8>()) {
        (Ok(four @ 0..=32), Ok(six @ 0..=128)) => one(format!("{four}:{six}")),
        _ => Err("Invalid PerSourceNetBlockSize".to_owned()),
    }
}

/// `PerSourcePenaltyExemptList`: a list of addresses and networks.
pub(crate) fn exempt_list(words: &[String]) -> Form {
    let word = only(words)?;
    if !word.eq_ignore_ascii_case("none") && crate::address::match_cidr_list(None, word).is_err() {
        return Err(format!(
            "keyword persourcepenaltyexemptlist invalid argument \"{word}\""
        ));
    }
    one(word)
}

/// `key:value` words of `PerSourcePenalties`; `yes` and `no` stand alone.
pub(crate) fn penalties(words: &[String]) -> Form {
    if let [word] = words {
        match word.to_ascii_lowercase().as_str() {
            "yes" | "true" => return one("yes"),
            "no" | "false" => return one("no"),
            _ => {}
        }
    }
    let mut out = Vec::new();
    for word in words {
        let bad = || format!("unsupported keyword/value {word}");
        let (key, value) = word.split_once(':').ok_or_else(bad)?;
        let key = key.to_ascii_lowercase();
        let value = match key.as_str() {
            "crash" | "authfail" | "invaliduser" | "noauth" | "refuseconnection"
            | "grace-exceeded" | "max" | "min" => {
                let ms = units::parse_milliseconds(value)
                    .ok_or_else(|| format!("invalid {key} time in PerSourcePenalties."))?;
                ms.to_string()
            }
            "max-sources4" | "max-sources6" => match value.parse::<u32>() {
                Ok(n @ 1..=10_000_000) => n.to_string(),
                _ => return Err(format!("invalid {key} in PerSourcePenalties.")),
            },
            "overflow" | "overflow6" if matches!(value, "deny-all" | "permissive") => {
                value.to_owned()
            }
            _ => return Err(bad()),
        };
        out.push(format!("{key}:{value}"));
    }
    if out.is_empty() {
        Err("missing argument.".to_owned())
    } else {
        Ok(out)
    }
}

/// Chains of `AuthenticationMethods`; `any` stands alone.
pub(crate) fn authentication_methods(words: &[String]) -> Form {
    let mut out: Vec<String> = Vec::new();
    for word in words {
        if word == "any" {
            if words.len() > 1 {
                return Err("\"any\" must appear alone in AuthenticationMethods".to_owned());
            }
            return one("any");
        }
        let mut empty = true;
        for method in word.split(',') {
            empty = false;
            let name = method.split(':').next().unwrap_or_default();
            let known = matches!(
                name,
                "publickey"
                    | "password"
                    | "keyboard-interactive"
                    | "none"
                    | "hostbased"
                    | "gssapi-with-mic"
            );
            if !known {
                return Err(format!("invalid method {method} in AuthenticationMethods"));
            }
            let device = method.split_once(':').map(|(_, device)| device);
            if device
                .is_some_and(|d| name != "keyboard-interactive" || !matches!(d, "pam" | "bsdauth"))
            {
                return Err(format!("invalid method {method} in AuthenticationMethods"));
            }
            if matches!(name, "hostbased" | "gssapi-with-mic") || device == Some("bsdauth") {
                return Err(format!(
                    "method {method} in AuthenticationMethods is not carried out by this server; no one could log in"
                ));
            }
        }
        if empty {
            return Err("missing argument.".to_owned());
        }
        if !out.contains(word) {
            out.push(word.clone());
        }
    }
    if out.is_empty() {
        Err("no AuthenticationMethods specified".to_owned())
    } else {
        Ok(out)
    }
}

/// Patterns of `AllowUsers` and `DenyUsers`; a host part is checked for broken networks.
pub(crate) fn user_patterns(words: &[String]) -> Form {
    for word in words {
        let host = word.rsplit_once('@').map(|(_, host)| host);
        if word.is_empty()
            || host.is_some_and(|list| crate::address::match_list(None, list).is_err())
        {
            return Err(format!("invalid user pattern: \"{word}\""));
        }
    }
    Ok(words.to_vec())
}

/// `Subsystem name command [arguments]`, kept as one word with the name before the first space. The first
/// argument is the name, `rest` keeps the command's own quoting.
pub(crate) fn subsystem(words: &[String]) -> Form {
    match words {
        [] => Err("Missing subsystem name.".to_owned()),
        [_] => Err("Missing subsystem command.".to_owned()),
        [name, ..] if name.is_empty() || name.contains(char::is_whitespace) => {
            Err("Missing subsystem name.".to_owned())
        }
        [name, command @ ..] => one(format!("{name} {}", crate::lexer::join_words(command))),
    }
}

/// `PermitUserEnvironment yes|no|pattern-list`.
pub(crate) fn user_environment(words: &[String]) -> Form {
    let word = only(words)?;
    match word.to_ascii_lowercase().as_str() {
        "yes" | "true" => one("yes"),
        "no" | "false" => one("no"),
        _ => one(word),
    }
}

/// `PubkeyAuthOptions`.
pub(crate) fn pubkey_options(words: &[String]) -> Form {
    let mut out: Vec<String> = Vec::new();
    for word in words {
        let lower = word.to_ascii_lowercase();
        match lower.as_str() {
            "none" => {}
            "touch-required" | "verify-required" => {
                if !out.contains(&lower) {
                    out.push(lower);
                }
            }
            _ => return Err(format!("pubkey auth option \"{word}\" is not known")),
        }
    }
    if out.is_empty() { one("none") } else { Ok(out) }
}

/// `PermitListen`: as [`permitted_ports`], where a bare port stands for every address.
pub(crate) fn permitted_listeners(words: &[String]) -> Form {
    let words = permitted_ports(words)?;
    Ok(words
        .into_iter()
        .map(|word| {
            let bare = word == "*" || units::parse_port(&word).is_some();
            if bare { format!("*:{word}") } else { word }
        })
        .collect())
}

/// `PermitOpen`: `any`, `none`, or host:port words.
pub(crate) fn permitted_ports(words: &[String]) -> Form {
    if matches!(words, [only] if matches!(only.as_str(), "any" | "none")) {
        return Ok(words.to_vec());
    }
    for word in words {
        let port = match units::split_host_port(word) {
            Some((_, Some(port))) => port,
            Some((port, None)) => port,
            None => return Err(format!("bad port number in {word}")),
        };
        if port != "*" && units::parse_port(port).is_none() {
            return Err(format!("bad port number in {word}"));
        }
    }
    if words.is_empty() {
        Err("missing argument.".to_owned())
    } else {
        Ok(words.to_vec())
    }
}

/// A command that must be an absolute path with arguments, or `none`.
pub(crate) fn check_command(rest: &str) -> Result<(), String> {
    if rest.eq_ignore_ascii_case("none") || rest.starts_with('/') {
        Ok(())
    } else {
        Err("must be an absolute path".to_owned())
    }
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

#[cfg(test)]
#[path = "forms_tests.rs"]
mod tests;
