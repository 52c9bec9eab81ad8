//! Values as text: one by one, and all of a table as `ssh -G` and `sshd -T` print them.

use crate::client::types::CnameRule;
use crate::penalties::{self, MaxStartups};
use crate::types::{EscapeChar, IpQos, Keystrokes};
use crate::units;
use crate::value::{Dump, Table, Value, Values, is_none};

/// Formats a value in one line, as the dump prints it.
pub(crate) fn show(value: &Value, dump: Dump) -> String {
    match value {
        Value::Flag(true) => "yes".to_owned(),
        Value::Flag(false) => "no".to_owned(),
        Value::Number(n) if dump == Dump::Octal => format!("0{n:o}"),
        Value::Number(-1) => "none".to_owned(),
        Value::Number(n) => n.to_string(),
        Value::Word(word) => word.clone(),
        Value::Words(words) if words.is_empty() => "none".to_owned(),
        Value::Words(words) if dump == Dump::Comma => words.join(","),
        Value::Words(words) => words.join(" "),
        Value::Choice(choice) => choice.word.to_owned(),
        Value::Rekey { bytes, seconds } => format!("{bytes} {}", seconds.unwrap_or(0)),
        Value::IpQos(IpQos { interactive, bulk }) => {
            let name = |value: &Option<u8>| units::format_ipqos(value.map_or(-1, i64::from));
            format!("{} {}", name(interactive), name(bulk))
        }
        Value::Threads(None) => "auto".to_owned(),
        Value::Threads(Some(threads)) => threads.to_string(),
        Value::Escape(EscapeChar::None) => "none".to_owned(),
        Value::Escape(EscapeChar::Byte(b'\\')) => "\\\\".to_owned(),
        Value::Escape(EscapeChar::Byte(byte @ ..32)) => format!("\\^{}", char::from(byte | 64)),
        Value::Escape(EscapeChar::Byte(byte)) => char::from(*byte).to_string(),
        Value::Keystrokes(Keystrokes::Off) => "no".to_owned(),
        Value::Keystrokes(Keystrokes::Default) => "yes".to_owned(),
        Value::Keystrokes(Keystrokes::Every(ms)) => format!("interval:{ms}"),
        Value::Startups(MaxStartups { start, rate, full }) => format!("{start}:{rate}:{full}"),
        Value::NetBlock(four, six) => format!("{four}:{six}"),
        Value::Penalties(parts) => penalties::show(parts),
        Value::Chains(chains) if chains.is_empty() => "any".to_owned(),
        Value::Chains(chains) => {
            let chains: Vec<String> = chains.iter().map(|chain| chain.join(",")).collect();
            chains.join(" ")
        }
        Value::Persist(persist) => persist.to_string(),
        Value::AddKeys(adds) => adds.to_string(),
        Value::TunnelDevice(devices) => devices.to_string(),
        Value::ChannelTimeouts(timeouts) => timeouts.words().join(" "),
        Value::Permits(list) => list.words().join(" "),
        Value::PubkeyAuth(options) => options.to_string(),
        Value::UserEnvironment(permitted) => permitted.to_string(),
        Value::AgentSocket(path) => path.to_string(),
        Value::CnameRules(rules) if rules.is_empty() => "none".to_owned(),
        Value::CnameRules(rules) => {
            let rules: Vec<String> = rules.iter().map(CnameRule::to_string).collect();
            rules.join(" ")
        }
        Value::Exempt(list) => list.to_string(),
        Value::Agent(name) => name.to_string(),
        Value::Jumps(jumps) => jumps.to_string(),
        Value::Library(None) => "none".to_owned(),
        Value::Library(Some(library)) => library.to_string(),
        Value::Ports(_)
        | Value::Listeners(_)
        | Value::Variables(_)
        | Value::Subsystems(_)
        | Value::Forwards(_)
        | Value::SocksListeners(_) => value.entries().unwrap_or_default().join(" "),
    }
}

/// The words of a value as a line of the file has them: [`Kind::read`](crate::value::Kind::read) reads the same value again.
pub(crate) fn written(value: &Value) -> Vec<String> {
    match value {
        Value::Rekey {
            bytes,
            seconds: None,
        } => vec![bytes.to_string()],
        Value::ChannelTimeouts(timeouts) => timeouts.words(),
        Value::Permits(list) => list.words(),
        Value::UserEnvironment(permitted) => vec![permitted.to_string()],
        Value::AgentSocket(path) => vec![path.to_string()],
        value => show(value, Dump::Line)
            .split(' ')
            .map(str::to_owned)
            .collect(),
    }
}

/// How a dump writes the keywords.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Letters {
    /// In lower case, as `ssh -G`.
    Lower,
    /// As the manual page, as `sshd -T` of OpenSSH 10.6; that of 9.2 writes them in lower case.
    Manual,
}

/// Prints the values as `ssh -G` and `sshd -T` do: keyword, a space, the value.
pub(crate) fn dump(table: Table, values: &Values, letters: Letters) -> String {
    let mut out = String::new();
    let mut line = |name: &str, text: &str| {
        match letters {
            Letters::Lower => out.push_str(&name.to_ascii_lowercase()),
            Letters::Manual => out.push_str(name),
        }
        out.push(' ');
        out.push_str(text);
        out.push('\n');
    };
    for (index, keyword) in table.iter().enumerate() {
        let value = values.at(index);
        let entries = value.and_then(Value::entries);
        match (keyword.dump, value, entries.as_deref()) {
            (Dump::Never, ..) | (Dump::PerWord, _, Some([])) => {}
            (Dump::UnlessNone, Some(value), _) if is_none(&show(value, keyword.dump)) => {}
            (Dump::OrWord(word) | Dump::PerWordOr(word), _, Some([]))
            | (Dump::OrWord(word) | Dump::PerWordOr(word), None, _) => line(keyword.name, word),
            (Dump::PerWord | Dump::PerWordOr(_), _, Some(entries)) => {
                for entry in entries {
                    line(keyword.name, entry);
                }
            }
            (_, None, _) => {}
            (how, Some(value), _) => line(keyword.name, &show(value, how)),
        }
    }
    out
}

/// The form in which a value is compared with the lists of [`Support`](crate::value::Support).
pub(crate) fn canonical(value: &Value) -> String {
    show(value, Dump::Line)
}
