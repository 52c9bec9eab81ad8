//! The connections that share the sessions of one ControlPath (`ControlConnections`), and which of them a
//! session tries first.
//!
//! Each is an ordinary master: the first at ControlPath, the others at ControlPath with `.1`, `.2` and so on
//! appended.

use std::path::Path;
use std::time::{Duration, Instant};

use config::client::ClientOptions;

use super::line::Line;
use super::message::{INFO_LOAD, MasterReply, Wish};
use super::passenger::check_owner;
use crate::log::debug2;
use crate::text::one_line;

/// Time in which all masters of a pool tell their load. One that is slower comes last.
const PATIENCE: Duration = Duration::from_millis(200);

/// What a connection carries. The lesser load is that of fewer bytes, and among equals that of fewer
/// sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Load {
    /// MiB in a second, both directions together: what is typed and answered counts as nothing.
    mib_per_second: u64,
    /// Open sessions.
    sessions: usize,
}

impl Load {
    /// The load of a connection with `sessions` that carries `bytes` a second.
    pub(crate) fn new(bytes: u64, sessions: usize) -> Self {
        Self {
            mib_per_second: bytes >> 20,
            sessions,
        }
    }

    /// As a master tells it.
    pub(crate) fn text(self) -> String {
        format!("{} {}\n", self.mib_per_second, self.sessions)
    }

    fn parse(text: &str) -> Option<Self> {
        let (rate, sessions) = text.trim_end().split_once(' ')?;
        Some(Self {
            mib_per_second: rate.parse().ok()?,
            sessions: sessions.parse().ok()?,
        })
    }
}

/// The sockets of the pool's masters, whether these live or not.
pub(crate) fn sockets(path: &str, options: &ClientOptions) -> Vec<String> {
    let others =
        (1..options.connection.control_connections).map(|number| format!("{path}.{number}"));
    std::iter::once(path.to_owned()).chain(others).collect()
}

/// The sockets in the order in which a session tries them: those of masters by their load, then the
/// others. In their own order where the first is no Fulmar's, or has not told its load.
pub(crate) fn by_load(path: &str, options: &ClientOptions) -> Vec<String> {
    let sockets = sockets(path, options);
    let mut others = sockets.iter().skip(1);
    if !others.any(|socket| Path::new(socket).exists()) {
        return sockets;
    }
    let lines: Vec<Option<Line>> = sockets.iter().map(|socket| ask(socket)).collect();
    let deadline = Instant::now() + PATIENCE;
    let loads: Vec<Option<Load>> = lines
        .into_iter()
        .map(|line| told(line?, deadline))
        .collect();
    debug2!("loads of {}: {loads:?}", one_line(path));
    in_order(sockets, &loads)
}

fn in_order(sockets: Vec<String>, loads: &[Option<Load>]) -> Vec<String> {
    if loads.first().is_none_or(Option::is_none) {
        return sockets;
    }
    let mut order: Vec<(Option<Load>, String)> = loads.iter().copied().zip(sockets).collect();
    order.sort_by_key(|(load, _)| (load.is_none(), *load));
    order.into_iter().map(|(_, socket)| socket).collect()
}

/// Asks the master at `socket` for its load, if there is one of this user.
fn ask(socket: &str) -> Option<Line> {
    let mut line = Line::connect(Path::new(socket), Instant::now()).ok()?;
    check_owner(&line, &one_line(socket)).ok()?;
    line.greet(Some(Wish::Info(INFO_LOAD.into()))).ok()?;
    Some(line)
}

fn told(mut line: Line, deadline: Instant) -> Option<Load> {
    line.greeted(deadline).ok()?;
    match line.next(Some(deadline)).ok()? {
        MasterReply::Info(_, true, text) => Load::parse(&text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_try_the_connection_with_the_least_load_first() {
        let order = |loads: &[Option<Load>]| {
            let sockets = (0..loads.len()).map(|number| number.to_string());
            in_order(sockets.collect(), loads).join(" ")
        };
        let load = |bytes, sessions| Some(Load::new(bytes, sessions));
        let (idle, typed) = (load(0, 0), load(900, 0));
        assert_eq!(order(&[idle, idle, None]), "0 1 2");
        assert_eq!(order(&[typed, idle]), "0 1");
        assert_eq!(order(&[load(0, 1), None, idle]), "2 0 1");
        // Bytes count for more than sessions.
        assert_eq!(
            order(&[load(80 << 20, 1), load(900, 3), None, load(1 << 20, 1)]),
            "1 3 0 2"
        );
        assert_eq!(order(&[None, idle]), "0 1");
    }

    #[test]
    fn a_load_is_told_as_it_is() {
        let load = Load::new(5 << 20, 3);
        assert_eq!(Load::parse(&load.text()), Some(load));
        for bad in ["", "1", "1 2 3", "-1 2", "a b"] {
            assert_eq!(Load::parse(bad), None, "{bad}");
        }
    }
}
