//! Forms that only ssh_config has.

use super::{Form, no_words, none_alone, one, only, unchanged};
use crate::client::types::{
    AddKeysToAgent, AgentName, CnameRule, ControlPersist, NameOrVariable, TunnelDevice, YesNoAsk,
};
use crate::destination;
use crate::forward::{ForwardListen, ForwardSpec, ForwardTo, UDP_PREFIX};
use crate::pattern;
use crate::types::{EscapeChar, Keystrokes};
use crate::units;
use crate::value::{EXTRA, Value, unsupported};

/// `EscapeChar none|^X|X`.
pub(crate) fn escape_char(words: &[String]) -> Form {
    let escape = match only(words)?.as_bytes() {
        b"none" => EscapeChar::None,
        [b'^', letter @ 64..=127] => EscapeChar::Byte(letter & 0x1f),
        [byte] => EscapeChar::Byte(*byte),
        _ => return Err("Bad escape character.".to_owned()),
    };
    Ok(Value::Escape(escape))
}

/// `AddKeysToAgent yes|no|ask|confirm [time]|time`.
pub(crate) fn add_keys_to_agent(words: &[String]) -> Form {
    let (first, second) = match words {
        [first] => (first.to_ascii_lowercase(), None),
        [first, second] => (first.to_ascii_lowercase(), Some(second)),
        _ => return Err(EXTRA.to_owned()),
    };
    let adds = |adds, confirm, lifetime_s: u32| {
        Ok(Value::AddKeys(AddKeysToAgent {
            adds,
            confirm,
            lifetime_s: Some(lifetime_s).filter(|seconds| *seconds > 0),
        }))
    };
    match (first.as_str(), second) {
        ("yes" | "true", None) => adds(YesNoAsk::Yes, false, 0),
        ("no" | "false", None) => adds(YesNoAsk::No, false, 0),
        ("ask", None) => adds(YesNoAsk::Ask, false, 0),
        ("confirm", None) => adds(YesNoAsk::Yes, true, 0),
        ("confirm", Some(time)) => match units::parse_seconds(time) {
            Some(seconds) => adds(YesNoAsk::Yes, true, seconds),
            None => Err("invalid time value.".to_owned()),
        },
        (time, None) => match units::parse_seconds(time) {
            Some(seconds) => adds(YesNoAsk::Yes, false, seconds),
            None => Err(unsupported(time)),
        },
        (other, _) => Err(unsupported(other)),
    }
}

/// `ControlPersist yes|no|time`.
pub(crate) fn control_persist(words: &[String]) -> Form {
    let persist = match only(words)? {
        "yes" | "true" => ControlPersist::Forever,
        "no" | "false" => ControlPersist::No,
        time => match units::parse_seconds(time) {
            Some(0) => ControlPersist::Forever,
            Some(seconds) => ControlPersist::Seconds(seconds),
            None => return Err("Bad ControlPersist argument.".to_owned()),
        },
    };
    Ok(Value::Persist(persist))
}

/// `ForwardAgent yes|no|path|$VARIABLE`.
pub(crate) fn forward_agent(words: &[String]) -> Form {
    let word = only(words)?;
    Ok(Value::Agent(match word.to_ascii_lowercase().as_str() {
        "yes" | "true" => AgentName::Usual("yes"),
        "no" | "false" => AgentName::None("no"),
        _ => agent_socket(word)?,
    }))
}

/// `IdentityAgent path|SSH_AUTH_SOCK|none|$VARIABLE`.
pub(crate) fn identity_agent(words: &[String]) -> Form {
    Ok(Value::Agent(match only(words)? {
        word if word.eq_ignore_ascii_case("none") => AgentName::None("none"),
        "SSH_AUTH_SOCK" => AgentName::Usual("SSH_AUTH_SOCK"),
        word => agent_socket(word)?,
    }))
}

/// The socket of an agent: `$NAME` must name a variable; `${NAME}` is part of a path.
fn agent_socket(word: &str) -> Result<AgentName, String> {
    let Some(name) = word.strip_prefix('$').filter(|n| !n.starts_with('{')) else {
        return Ok(AgentName::Socket(NameOrVariable::Name(word.to_owned())));
    };
    let good = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if name.is_empty() || !good {
        return Err(format!("Invalid environment name {word}."));
    }
    Ok(AgentName::Socket(NameOrVariable::Variable(name.to_owned())))
}

/// `PKCS11Provider path|none|$VARIABLE`, and the same of `SecurityKeyProvider`.
pub(crate) fn library(words: &[String]) -> Form {
    let word = only(words)?;
    let is_none = word.eq_ignore_ascii_case("none");
    let library = (!is_none).then(|| NameOrVariable::new(word));
    Ok(Value::Library(library))
}

/// Files of `UserKnownHostsFile` and `GlobalKnownHostsFile`.
pub(crate) fn known_hosts_files(words: &[String]) -> Form {
    none_alone(words)?;
    match words {
        [none] if none.eq_ignore_ascii_case("none") => no_words(),
        _ if words.iter().any(String::is_empty) => Err("empty argument.".to_owned()),
        _ => unchanged(words),
    }
}

/// `ObscureKeystrokeTiming yes|no|interval:milliseconds`.
pub(crate) fn obscure_keystrokes(words: &[String]) -> Form {
    let word = only(words)?;
    Ok(Value::Keystrokes(match word {
        "yes" | "true" => Keystrokes::Default,
        "no" | "false" => Keystrokes::Off,
        _ => match word.strip_prefix("interval:").map(str::parse) {
            Some(Ok(ms @ 1..=1000)) => Keystrokes::Every(ms),
            _ => return Err(unsupported(word)),
        },
    }))
}

/// `TunnelDevice local[:remote]`.
pub(crate) fn tunnel_device(words: &[String]) -> Form {
    match TunnelDevice::parse(only(words)?) {
        Some(devices) => Ok(Value::TunnelDevice(devices)),
        None => Err("Bad tun device.".to_owned()),
    }
}

/// `LocalForward listen target`.
pub(crate) fn local_forward(words: &[String]) -> Form {
    match words {
        [listen, target] => both_ends(listen, target, false),
        [] | [_] => Err("Missing target argument.".to_owned()),
        _ => Err(EXTRA.to_owned()),
    }
}

/// `RemoteForward listen [target]`; without a target it serves SOCKS. Port 0 leaves the choice to the server.
pub(crate) fn remote_forward(words: &[String]) -> Form {
    match words {
        [listen] => {
            let (listen, to) = (listener(listen, true)?, ForwardTo::Socks);
            Ok(Value::Forwards(vec![ForwardSpec { listen, to }]))
        }
        [listen, target] => both_ends(listen, target, true),
        [] => Err("missing argument.".to_owned()),
        _ => Err(EXTRA.to_owned()),
    }
}

/// `DynamicForward listen`.
pub(crate) fn dynamic_forward(words: &[String]) -> Form {
    Ok(Value::SocksListeners(vec![listener(only(words)?, false)?]))
}

/// Listener and target; those of datagrams have no paths.
fn both_ends(listen: &str, target: &str, may_be_any_port: bool) -> Form {
    let (is_udp, listen) = match listen.strip_prefix(UDP_PREFIX) {
        Some(rest) => (true, rest),
        None => (false, listen),
    };
    let spec = ForwardSpec {
        listen: listener(listen, may_be_any_port)?,
        to: target_of(target)?,
    };
    let spec = match is_udp {
        true => spec.of_datagrams(),
        false => Some(spec),
    };
    Ok(Value::Forwards(vec![spec.ok_or(BAD_FORWARDING)?]))
}

const BAD_FORWARDING: &str = "Bad forwarding specification.";

/// True for the path of a socket, in which `~` and `${NAME}` are expanded later.
fn is_socket(word: &str) -> bool {
    word.starts_with(['~', '$']) || word.contains('/')
}

/// Reads the address on which a forwarding listens: `port`, `address:port` or the path of a socket.
fn listener(word: &str, may_be_any_port: bool) -> Result<ForwardListen, String> {
    if word.starts_with(UDP_PREFIX) {
        // SOCKS has no datagrams without a connection.
        return Err(BAD_FORWARDING.to_owned());
    }
    if is_socket(word) {
        return Ok(ForwardListen::Unix(word.to_owned()));
    }
    let (host, port) = match units::split_host_port(word) {
        Some((host, Some(port))) => (Some(host), port),
        Some((port, None)) if !word.starts_with('[') => (None, port),
        _ => return Err(BAD_FORWARDING.to_owned()),
    };
    let port = match port {
        "0" if may_be_any_port => 0,
        port => units::parse_port(port).ok_or(BAD_FORWARDING)?,
    };
    Ok(ForwardListen::Tcp {
        address: host.map(str::to_owned),
        port,
    })
}

/// Reads the target of a forwarding: `host:port` or the path of a socket.
fn target_of(word: &str) -> Result<ForwardTo, String> {
    if is_socket(word) {
        return Ok(ForwardTo::Unix(word.to_owned()));
    }
    match units::split_host_port(word) {
        Some((host, Some(port))) if !host.is_empty() => Ok(ForwardTo::Tcp {
            host: host.to_owned(),
            port: units::parse_port(port).ok_or(BAD_FORWARDING)?,
        }),
        _ => Err(BAD_FORWARDING.to_owned()),
    }
}

/// Domains of `CanonicalDomains`.
pub(crate) fn domains(words: &[String]) -> Form {
    none_alone(words)?;
    if matches!(words, [only] if only.eq_ignore_ascii_case("none")) {
        return one("none");
    }
    for word in words {
        let begins_well = word
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !begins_well {
            return Err(format!(
                "domain name \"{word}\" starts with invalid character"
            ));
        }
        let good = word.len() < 256
            && !word.contains("..")
            && word
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
        if !good {
            return Err(format!(
                "domain name \"{word}\" contains invalid characters"
            ));
        }
    }
    let lower = words
        .iter()
        .map(|word| word.trim_end_matches('.').to_ascii_lowercase());
    Ok(Value::Words(lower.collect()))
}

/// Rules of `CanonicalizePermittedCNAMEs`.
pub(crate) fn cname_rules(words: &[String]) -> Form {
    if matches!(words, [only] if only.eq_ignore_ascii_case("none")) {
        return Ok(Value::CnameRules(Vec::new()));
    }
    let mut rules = Vec::new();
    for word in words {
        let (source, target) = match word.split_once(':') {
            None if word == "*" => ("*", "*"),
            Some((source, target)) if !source.is_empty() && !target.is_empty() => (source, target),
            _ => return Err(format!("Invalid permitted CNAME \"{word}\"")),
        };
        rules.push(CnameRule {
            source: source.to_ascii_lowercase(),
            target: target.to_ascii_lowercase(),
        });
    }
    Ok(Value::CnameRules(rules))
}

/// Hops of `ProxyJump`, comma-separated; the single word `none` means no hops.
pub(crate) fn proxy_jump(words: &[String]) -> Form {
    let word = only(words)?;
    match destination::parse_jumps(word) {
        Some(jumps) => Ok(Value::Jumps(jumps)),
        None => Err(format!("Invalid ProxyJump \"{}\"", escape::one_line(word))),
    }
}

/// Adds to a list of `SendEnv` patterns; `-pattern` removes earlier ones that match.
pub(crate) fn merge_send_env(have: &mut Vec<String>, more: &[String]) {
    for word in more {
        match word.strip_prefix('-') {
            Some(gone) => have.retain(|name| !pattern::matches(name, gone)),
            None => have.push(word.clone()),
        }
    }
}
