//! Host and Match lines of ssh_config.

use std::net::IpAddr;

use crate::VERSION;
use crate::address::Cidr;
use crate::environment::Environment;
use crate::error::Place;
use crate::pattern::{self, Case};
use crate::tokens::{Purpose, Tokens};

/// True if a Host line applies. A matching `!pattern` overrides the others.
///
/// # Errors
/// The error text for the user.
pub(crate) fn host_line(host: &str, patterns: &[String]) -> Result<bool, String> {
    let mut active = false;
    for pattern in patterns {
        if pattern.is_empty() {
            return Err("keyword host empty argument".to_owned());
        }
        match pattern.strip_prefix('!') {
            Some(negated) if pattern::matches(host, negated) => return Ok(false),
            Some(_) => {}
            None => active |= pattern::matches(host, pattern),
        }
    }
    Ok(active)
}

/// The facts against which a Match line is evaluated.
pub(crate) struct Facts<'a> {
    pub(crate) host: &'a str,
    pub(crate) original_host: &'a str,
    pub(crate) user: &'a str,
    pub(crate) local_user: &'a str,
    pub(crate) tag: &'a str,
    pub(crate) session_type: &'a str,
    pub(crate) command: &'a str,
    pub(crate) final_pass: bool,
    pub(crate) tokens: &'a Tokens,
    pub(crate) environment: &'a dyn Environment,
    /// False inside a block that does not apply: its commands are not run.
    pub(crate) reachable: bool,
}

/// The result of a Match line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) applies: bool,
    /// True if `final` was named, which requires a second pass.
    pub(crate) wants_final: bool,
}

/// Evaluates a Match line.
///
/// # Errors
/// The error text for the user.
pub(crate) fn match_line(
    words: &[String],
    facts: &Facts<'_>,
    place: &Place,
) -> Result<Outcome, String> {
    let mut outcome = Outcome {
        applies: true,
        wants_final: false,
    };
    let mut attributes = 0;
    let mut left = words.iter().map(String::as_str);
    while let Some(word) = left.next() {
        let (negated, body) = match word.strip_prefix('!') {
            Some(body) => (true, body),
            None => (false, word),
        };
        let (name, joined) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (body, None),
        };
        let name = name.to_ascii_lowercase();
        if name == "all" {
            if attributes > 1 || joined.is_some() || left.next().is_some() {
                return Err("'all' cannot be combined with other Match attributes".to_owned());
            }
            outcome.applies &= !negated;
            return Ok(outcome);
        }
        attributes += 1;
        if name == "canonical" || name == "final" {
            if joined.is_some() {
                return Err(format!("Match '{name}' takes no argument"));
            }
            outcome.wants_final |= name == "final";
            outcome.applies &= facts.final_pass != negated;
            continue;
        }
        if !is_attribute(&name) {
            return Err(format!("Unsupported Match attribute {name}"));
        }
        let may_be_empty = matches!(name.as_str(), "tagged" | "command");
        let argument = joined
            .filter(|value| may_be_empty || !value.is_empty())
            .or_else(|| left.next())
            .ok_or_else(|| format!("missing argument for Match '{name}'"))?;
        if argument.is_empty() && !may_be_empty {
            return Err(format!("missing argument for Match '{name}'"));
        }
        // Once false, the result stays false, but the rest of the line is still checked.
        let runs = outcome.applies && facts.reachable;
        let met =
            criterion(&name, argument, facts, runs).map_err(|text| format!("{text} ({place})"))?;
        outcome.applies &= met != negated;
    }
    if attributes == 0 {
        return Err("One or more attributes required for Match".to_owned());
    }
    Ok(outcome)
}

fn is_attribute(name: &str) -> bool {
    matches!(
        name,
        "host"
            | "originalhost"
            | "user"
            | "localuser"
            | "localnetwork"
            | "tagged"
            | "version"
            | "sessiontype"
            | "command"
            | "exec"
    )
}

fn criterion(name: &str, argument: &str, facts: &Facts<'_>, runs: bool) -> Result<bool, String> {
    let plain = |subject: &str| pattern::match_list(subject, argument, Case::Sensitive).is_yes();
    let or_empty = |subject: &str| {
        if subject.is_empty() {
            argument.is_empty()
        } else {
            plain(subject)
        }
    };
    Ok(match name {
        "host" => pattern::match_hostname(facts.host, argument).is_yes(),
        "originalhost" => pattern::match_hostname(facts.original_host, argument).is_yes(),
        "user" => plain(facts.user),
        "localuser" => plain(facts.local_user),
        "tagged" => or_empty(facts.tag),
        "version" => plain(VERSION),
        "sessiontype" => plain(facts.session_type),
        "command" => or_empty(facts.command),
        "localnetwork" => local_network(argument, facts.environment, runs)?,
        _ => {
            if !runs {
                return Ok(false);
            }
            let command = facts
                .tokens
                .expand(argument, Purpose::Shell)
                .map_err(|error| format!("Match exec '{}': {error}", escape::one_line(argument)))?;
            facts.environment.run_shell(&command).map_err(|error| {
                format!("match exec '{}' error: {error}", escape::one_line(command))
            })?
        }
    })
}

fn local_network(list: &str, environment: &dyn Environment, runs: bool) -> Result<bool, String> {
    let mut networks = Vec::new();
    for entry in list.split(',') {
        networks
            .push(Cidr::parse(entry).map_err(|error| format!("Invalid network entry: {error}"))?);
    }
    if !runs {
        return Ok(false);
    }
    let addresses: Vec<IpAddr> = environment.local_addresses();
    Ok(networks
        .iter()
        .any(|network| addresses.iter().any(|address| network.contains(*address))))
}
