//! Forms that only sshd_config has.

use super::{Form, no_words, none_alone, one, only, permitted_ports, unchanged};
use crate::address::{ExemptList, ListenEntry};
use crate::forward::{MAX_PATH_BYTES, UDP_PREFIX};
use crate::penalties::{self, MaxStartups};
use crate::server::options::{AgentSocketPath, PermitTunnel, PubkeyAuthOptions, UserEnvironment};
use crate::types::{AgentPlace, Subsystem};
use crate::units;
use crate::value::Value;

/// `Port` of sshd_config, which may be given several times.
pub(crate) fn ports(words: &[String]) -> Form {
    let word = only(words)?;
    match units::parse_port(word) {
        Some(port) => Ok(Value::Ports(vec![port])),
        None => Err("Badly formatted port number.".to_owned()),
    }
}

/// `ListenAddress host[:port] [rdomain NAME]`. The server binds its socket to the device with that
/// name, as OpenSSH does on Linux.
pub(crate) fn listen_address(words: &[String]) -> Form {
    let (place, rdomain) = match words {
        [place] => (place, None),
        [place, word, name] if word == "rdomain" => (place, Some(name)),
        [_, ..] => return Err("bad listen address".to_owned()),
        [] => return Err("missing address".to_owned()),
    };
    if rdomain.is_some_and(|name| !is_device_name(name)) {
        return Err("bad routing domain".to_owned());
    }
    if place.is_empty() {
        return Err("missing address".to_owned());
    }
    let bad = || format!("bad address \"{place}\"");
    // An address of several colons without brackets is an IPv6 address without a port.
    let (host, port) = units::split_host_port(place).ok_or_else(bad)?;
    // Refused: glibc takes an empty host for the loopback address; omit the line to listen on every
    // address.
    if host.is_empty() || host == "*" || host.contains(char::is_whitespace) {
        return Err(bad());
    }
    let port = match port {
        None => None,
        Some(port) => Some(units::parse_port(port).ok_or("bad port number")?),
    };
    Ok(Value::Listeners(vec![ListenEntry {
        host: host.to_owned(),
        port,
        rdomain: rdomain.cloned(),
    }]))
}

/// True for a name that a network device may have on Linux (`dev_valid_name`).
fn is_device_name(name: &str) -> bool {
    const LONGEST: usize = 15;
    let bad = |c: char| c.is_whitespace() || matches!(c, '/' | ':' | '\0');
    (1..=LONGEST).contains(&name.len()) && !matches!(name, "." | "..") && !name.contains(bad)
}

/// `AuthorizedKeysFile`: files, or `none` alone.
pub(crate) fn authorized_keys_files(words: &[String]) -> Form {
    match words {
        [] => Err("missing argument.".to_owned()),
        [none] if none.eq_ignore_ascii_case("none") => no_words(),
        _ if words.iter().any(String::is_empty) => Err("empty argument.".to_owned()),
        _ => none_alone(words).and_then(|()| unchanged(words)),
    }
}

/// `LogVerbose`: patterns, or `none` alone.
pub(crate) fn log_verbose(words: &[String]) -> Form {
    none_alone(words)?;
    match words {
        [only] if only.eq_ignore_ascii_case("none") => no_words(),
        _ => unchanged(words),
    }
}

/// `AgentSocketPath none|user:path|shared:path`; a shared path is absolute.
pub(crate) fn agent_socket_path(words: &[String]) -> Form {
    let word = only(words)?;
    let path = match AgentPlace::parse(word) {
        None if word == "none" => AgentSocketPath::None,
        None if word.starts_with("shared:") => return Err("invalid shared path.".to_owned()),
        None => return Err("invalid path.".to_owned()),
        Some(AgentPlace::User(directory)) if directory.is_empty() => {
            return Err("invalid user path.".to_owned());
        }
        Some(place) => AgentSocketPath::At(place),
    };
    Ok(Value::AgentSocket(path))
}

/// `UnusedConnectionTimeout none|time`; a time of 0 is kept as `none`.
pub(crate) fn unused_timeout(words: &[String]) -> Form {
    let word = only(words)?;
    let seconds = match word {
        "none" => Some(0),
        time => units::parse_seconds(time),
    };
    match seconds.map(i64::from) {
        Some(0) => Ok(Value::Number(-1)),
        Some(seconds) => Ok(Value::Number(seconds)),
        None => Err("invalid time value.".to_owned()),
    }
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
        // With one number the rate has no effect; OpenSSH prints its default.
        [full] => (*full, 30, *full),
        [start, rate, full] => (*start, *rate, *full),
        _ => return Err(bad()),
    };
    if start == 0 || rate == 0 || rate > 100 || start > full || i32::try_from(full).is_err() {
        return Err(bad());
    }
    Ok(Value::Startups(MaxStartups { start, rate, full }))
}

/// `PerSourceNetBlockSize bits4[:bits6]`.
pub(crate) fn net_block_size(words: &[String]) -> Form {
    let word = only(words)?;
    let (four, six) = word.split_once(':').unwrap_or((word, "128"));
    match (four.parse::<u8>(), six.parse::<u8>()) {
        (Ok(four @ 0..=32), Ok(six @ 0..=128)) => Ok(Value::NetBlock(four, six)),
        _ => Err("Invalid PerSourceNetBlockSize".to_owned()),
    }
}

/// `PerSourcePenaltyExemptList`: a list of addresses and networks.
pub(crate) fn exempt_list(words: &[String]) -> Form {
    networks(words, "persourcepenaltyexemptlist")
}

/// `ProxyProtocolFrom`: a list of addresses and networks.
pub(crate) fn proxy_protocol_from(words: &[String]) -> Form {
    networks(words, "proxyprotocolfrom")
}

/// `MetricsListen`: an absolute path that fits into an address, or a loopback address with a port.
pub(crate) fn metrics_listen(words: &[String]) -> Form {
    let word = only(words)?;
    if word.eq_ignore_ascii_case("none") {
        return no_words();
    }
    let is_loopback = word
        .parse()
        .is_ok_and(|at: std::net::SocketAddr| at.ip().is_loopback() && at.port() != 0);
    if word.starts_with('/') && word.len() > MAX_PATH_BYTES {
        return Err(format!(
            "MetricsListen {word}: a path of more than {MAX_PATH_BYTES} bytes"
        ));
    }
    if word.starts_with('/') || is_loopback {
        return one(word);
    }
    Err(format!(
        "MetricsListen {word}: neither an absolute path nor a loopback address with a port"
    ))
}

/// A list of addresses and networks with commas, or `none`.
fn networks(words: &[String], keyword: &str) -> Form {
    let word = only(words)?;
    if word.eq_ignore_ascii_case("none") {
        return Ok(Value::Exempt(ExemptList::default()));
    }
    match ExemptList::parse(word) {
        Ok(list) => Ok(Value::Exempt(list)),
        Err(_) => Err(format!("keyword {keyword} invalid argument \"{word}\"")),
    }
}

/// `PerSourcePenalties`.
pub(crate) fn penalties(words: &[String]) -> Form {
    penalties::read(words).map(Value::Penalties)
}

/// Chains of `AuthenticationMethods`; `any` must be the only one.
pub(crate) fn authentication_methods(words: &[String]) -> Form {
    let mut out: Vec<Vec<String>> = Vec::new();
    for word in words {
        if word == "any" {
            if words.len() > 1 {
                return Err("\"any\" must appear alone in AuthenticationMethods".to_owned());
            }
            return Ok(Value::Chains(Vec::new()));
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
                    | "gssapi-keyex"
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
            if device == Some("bsdauth") {
                return Err(format!(
                    "method {method} in AuthenticationMethods is not supported by this server; nobody could log in"
                ));
            }
        }
        if empty {
            return Err("missing argument.".to_owned());
        }
        out.push(word.split(',').map(str::to_owned).collect());
    }
    if out.is_empty() {
        Err("no AuthenticationMethods specified".to_owned())
    } else {
        Ok(Value::Chains(out))
    }
}

/// Patterns of `AllowUsers` and `DenyUsers`; networks in a host part are checked.
pub(crate) fn user_patterns(words: &[String]) -> Form {
    for word in words {
        let host = word.rsplit_once('@').map(|(_, host)| host);
        if word.is_empty()
            || host.is_some_and(|list| crate::address::check_host_list(list).is_err())
        {
            return Err(format!("invalid user pattern: \"{word}\""));
        }
    }
    unchanged(words)
}

/// `Subsystem name command [arguments]`; the command keeps the quoting of its arguments.
pub(crate) fn subsystem(words: &[String]) -> Form {
    match words {
        [] => Err("Missing subsystem name.".to_owned()),
        [_] => Err("Missing subsystem command.".to_owned()),
        [name, ..] if name.is_empty() || name.contains(char::is_whitespace) => {
            Err("Missing subsystem name.".to_owned())
        }
        [name, command @ ..] => Ok(Value::Subsystems(vec![Subsystem {
            name: name.clone(),
            command: crate::lexer::join_words(command),
        }])),
    }
}

/// `PermitUserEnvironment yes|no|pattern-list`. Only `yes` and `no` in lower case are special:
/// `TRUE` is a pattern, which permits the variable of that name.
pub(crate) fn user_environment(words: &[String]) -> Form {
    Ok(Value::UserEnvironment(match only(words)? {
        "yes" => UserEnvironment::Yes,
        "no" => UserEnvironment::No,
        list => UserEnvironment::Matching(list.to_owned()),
    }))
}

/// `PerSourceMaxStartups none|number`.
pub(crate) fn source_startups(words: &[String]) -> Form {
    let word = only(words)?;
    if word == "none" {
        return Ok(Value::Number(-1));
    }
    match word.parse::<u32>() {
        Ok(number) if i32::try_from(number).is_ok() => Ok(Value::Number(i64::from(number))),
        _ => Err("PerSourceMaxStartups integer value invalid.".to_owned()),
    }
}

/// `PermitTunnel`, whose words are case-sensitive, as in OpenSSH.
pub(crate) fn tunnel(words: &[String]) -> Form {
    let word = only(words)?;
    let mut spellings = PermitTunnel::SPELLINGS.iter();
    match spellings.find(|(spelling, _)| *spelling == word) {
        Some((_, choice)) => Ok(Value::Choice(*choice)),
        None => Err(format!("bad PermitTunnel argument {word}")),
    }
}

/// `PermitOpen`: `any`, `none`, or words of host and port. A word without a port is refused.
pub(crate) fn permitted_opens(words: &[String]) -> Form {
    let lists = !matches!(words, [only] if matches!(only.as_str(), "any" | "none"));
    for word in words.iter().filter(|_| lists) {
        let place = word.strip_prefix(UDP_PREFIX).unwrap_or(word);
        if place.contains('/') {
            return Err("PermitOpen missing host".to_owned());
        }
        if !matches!(units::split_host_port(place), Some((_, Some(_)))) {
            return Err("PermitOpen bad port number".to_owned());
        }
    }
    permitted_ports(words)
}

/// The largest `max-pk-ok`, as in OpenSSH.
const MAX_PK_OK: u32 = 255;

/// `PubkeyAuthOptions`. As in OpenSSH, the last `max-pk-ok` counts.
pub(crate) fn pubkey_options(words: &[String]) -> Form {
    let mut options = PubkeyAuthOptions::default();
    for word in words {
        let lower = word.to_ascii_lowercase();
        match (lower.as_str(), lower.strip_prefix("max-pk-ok:")) {
            ("none", _) => {}
            ("touch-required", _) => options.touch_required = true,
            ("verify-required", _) => options.verify_required = true,
            (_, Some(count)) if count.parse::<u32>().is_ok_and(|count| count <= MAX_PK_OK) => {
                options.max_pk_ok = count.parse().ok();
            }
            _ => return Err(format!("pubkey auth option \"{word}\" is not known")),
        }
    }
    Ok(Value::PubkeyAuth(options))
}

/// `PermitListen`: as [`permitted_ports`]; a port alone means every address.
pub(crate) fn permitted_listeners(words: &[String]) -> Form {
    let split = |word: &String| match word.strip_prefix(UDP_PREFIX) {
        Some(place) => (UDP_PREFIX, place.to_owned()),
        None => ("", word.clone()),
    };
    if let Some(word) = words.iter().find(|word| split(word).1.contains('/')) {
        return Err(format!("bad port number in {word}"));
    }
    let listener = |word: &String| {
        let (prefix, place) = split(word);
        match place == "*" || units::parse_port(&place).is_some() {
            true => format!("{prefix}*:{place}"),
            false => word.clone(),
        }
    };
    permitted_ports(&words.iter().map(listener).collect::<Vec<_>>())
}

/// A command that must be an absolute path with arguments, or `none`.
pub(crate) fn check_command(rest: &str) -> Result<(), String> {
    if rest.eq_ignore_ascii_case("none") || rest.starts_with('/') {
        Ok(())
    } else {
        Err("must be an absolute path".to_owned())
    }
}
