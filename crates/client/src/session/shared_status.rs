//! The texts about a shared connection that `-O conninfo`, `-O channels` and `-O status` ask for.

use std::fmt::Write as _;

use proto::ChannelId;

use super::ClientSession;
use crate::forward::{ForwardStatus, SessionForwards};
use crate::sharing::master::{InfoText, Master, PassengerStatus};
use crate::terminal::escape::Command;
use crate::text::one_line;

/// The state of a shared connection.
struct SharedStatus {
    pid: u32,
    host: String,
    peer: String,
    age_s: u64,
    round_trip_us: Option<u32>,
    received: u64,
    sent: u64,
    listens: bool,
    passengers: Vec<(PassengerStatus, Option<(u64, u64)>)>,
    forwards: Vec<ForwardStatus>,
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            _ if escape::is_harmless(character) => out.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
    out
}

fn or_null<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "null".into(), |value| value.to_string())
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

impl SharedStatus {
    fn json(&self) -> String {
        let passengers = self.passengers.iter().map(|(passenger, traffic)| {
            format!(
                "{{\"pid\":{},\"uid\":{},\"channel\":{},\"what\":{},\"sent\":{},\"received\":{}}}",
                or_null(passenger.pid),
                or_null(passenger.uid),
                or_null(passenger.channel.map(|channel| channel.0)),
                quoted(&passenger.what),
                or_null(traffic.map(|(sent, _)| sent)),
                or_null(traffic.map(|(_, received)| received))
            )
        });
        let forwards = self.forwards.iter().map(|forward| {
            format!(
                "{{\"forward\":{},\"connections\":{},\"open\":{},\"sent\":{},\"received\":{}}}",
                quoted(&forward.name),
                forward.connections,
                forward.open,
                forward.sent,
                forward.received
            )
        });
        format!(
            "{{\"pid\":{},\"host\":{},\"peer\":{},\"age_s\":{},\"round_trip_us\":{},\"received\":{},\"sent\":{},\"accepts_sessions\":{},\"sessions\":{},\"forwards\":{}}}\n",
            self.pid,
            quoted(&self.host),
            quoted(&self.peer),
            self.age_s,
            or_null(self.round_trip_us),
            self.received,
            self.sent,
            self.listens,
            list(passengers),
            list(forwards)
        )
    }

    fn text(&self) -> String {
        let (hours, minutes, seconds) = (self.age_s / 3600, self.age_s / 60 % 60, self.age_s % 60);
        let round_trip = self.round_trip_us.map_or_else(
            || "unknown (through a proxy)".into(),
            |us| format!("{}.{:03} ms", us / 1000, us % 1000),
        );
        let mut out = format!(
            "master {} for {} ({})\n  age {hours:02}:{minutes:02}:{seconds:02}, round trip {round_trip}\n  {} bytes received, {} sent\n",
            self.pid,
            one_line(&self.host),
            self.peer,
            self.received,
            self.sent
        );
        if !self.listens {
            out.push_str("  takes no more sessions\n");
        }
        let _ = writeln!(out, "sessions: {}", self.passengers.len());
        for (passenger, traffic) in &self.passengers {
            let who = match (passenger.pid, passenger.uid) {
                (Some(pid), Some(uid)) => format!("process {pid} of user {uid}"),
                _ => "no process any more".into(),
            };
            let channel = passenger.channel.map(|channel| format!("#{} ", channel.0));
            let bytes =
                traffic.map(|(sent, received)| format!(", {sent} bytes sent, {received} received"));
            let _ = writeln!(
                out,
                "  {}{}: {who}{}",
                channel.unwrap_or_default(),
                one_line(&passenger.what),
                bytes.unwrap_or_default()
            );
        }
        let _ = writeln!(out, "forwardings: {}", self.forwards.len());
        for forward in &self.forwards {
            let _ = writeln!(
                out,
                "  {}: {} connections, {} open, {} bytes sent, {} received",
                forward.name, forward.connections, forward.open, forward.sent, forward.received
            );
        }
        out
    }
}

impl ClientSession<'_> {
    /// Makes the texts that passengers have asked for.
    pub(super) fn give_texts(&mut self) {
        let texts = self.master.as_mut().map(Master::take_texts);
        for (serial, id, wanted) in texts.unwrap_or_default() {
            let text = match wanted {
                // Without the escape's own line; with OpenSSH's ends of lines.
                InfoText::Connection => self.plain_text(Command::Information),
                InfoText::Channels => self.plain_text(Command::ListChannels),
                InfoText::Status { json: true } => self.shared_status().json(),
                InfoText::Status { json: false } => self.shared_status().text(),
            };
            if let Some(master) = &mut self.master {
                master.give_text((serial, id), text, self.driver);
            }
        }
    }

    fn plain_text(&mut self, command: Command) -> String {
        let text = self.escape_text(command);
        let text = text.split_once('\n').map_or("", |(_, rest)| rest);
        text.trim_end_matches('\n').replace('\n', "\r\n") + "\r\n"
    }

    fn shared_status(&mut self) -> SharedStatus {
        let (received, sent) = self.driver.wire_bytes();
        let round_trip_us = sys::socket::tcp_info(self.driver.socket());
        let forwards = self.forwards.as_mut();
        let forwards = forwards.map(|forwards| SessionForwards::statuses(forwards, self.driver));
        let traffic: Vec<(ChannelId, (u64, u64))> = self
            .driver
            .connection()
            .channel_statuses()
            .map(|status| {
                let traffic = status.traffic;
                (status.channel, (traffic.sent, traffic.received))
            })
            .collect();
        let of = |channel: Option<ChannelId>| {
            let mut all = traffic.iter();
            all.find_map(|(each, bytes)| (Some(*each) == channel).then_some(*bytes))
        };
        let mut passengers = Vec::new();
        if let Some(channel) = self.channel {
            passengers.push(PassengerStatus {
                pid: i32::try_from(std::process::id()).ok(),
                uid: Some(sys::process::effective_uid()),
                channel: Some(channel),
                what: self.plan.what.shown(),
            });
        }
        passengers.extend(self.master.iter().flat_map(Master::passengers));
        SharedStatus {
            pid: std::process::id(),
            host: self.peer.host.clone(),
            peer: self.peer.to_string(),
            age_s: self.driver.now().saturating_sub(self.begun_ms) / 1000,
            round_trip_us: round_trip_us.ok().map(|info| info.rtt_us),
            received,
            sent,
            listens: self.master.as_ref().is_some_and(Master::listens),
            passengers: passengers
                .into_iter()
                .map(|passenger| {
                    let bytes = of(passenger.channel);
                    (passenger, bytes)
                })
                .collect(),
            forwards: forwards.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_valid_json_whatever_the_command_says() {
        assert_eq!(
            quoted("a\"b\\c\u{1b}\u{202e}é"),
            "\"a\\\"b\\\\c\\u001b\\u202eé\""
        );
        let status = SharedStatus {
            pid: 1,
            host: "h".into(),
            peer: "p".into(),
            age_s: 3661,
            round_trip_us: Some(1234),
            received: 1,
            sent: 2,
            listens: true,
            passengers: vec![(
                PassengerStatus {
                    pid: None,
                    uid: None,
                    channel: Some(ChannelId(3)),
                    what: "shell".into(),
                },
                None,
            )],
            forwards: Vec::new(),
        };
        assert_eq!(
            status.json(),
            "{\"pid\":1,\"host\":\"h\",\"peer\":\"p\",\"age_s\":3661,\"round_trip_us\":1234,\
             \"received\":1,\"sent\":2,\"accepts_sessions\":true,\"sessions\":[{\"pid\":null,\
             \"uid\":null,\"channel\":3,\"what\":\"shell\",\"sent\":null,\"received\":null}],\
             \"forwards\":[]}\n"
        );
        let text = status.text();
        assert!(text.contains("age 01:01:01, round trip 1.234 ms"), "{text}");
        assert!(text.contains("#3 shell: no process any more"), "{text}");
    }
}
