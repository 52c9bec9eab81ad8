//! Opens the session's channel before the login is answered, and, if the server processes messages
//! in order, also starts the command.
//!
//! [`super::strategy`] decides which servers accept that; `proto` handles a login that fails.

use std::collections::VecDeque;

use proto::channel::Request;
use proto::{ChannelId, Connection, Error};
use wire::Put;

use crate::log::{debug1, debug2};
use crate::plan::{Plan, What};
use crate::text::one_line;

/// A request with `want_reply` whose answer has not arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// `pty-req`
    Pty,
    /// `shell`, `exec` or `subsystem`
    Start,
    /// `break`
    Break,
}

/// How much of the session is sent before the server's answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PipelineDepth {
    /// Nothing.
    Nothing,
    /// CHANNEL_OPEN is sent.
    Open,
    /// CHANNEL_OPEN and the requests that start the command are sent.
    Whole,
}

/// A channel whose CHANNEL_OPEN was sent before the login was answered.
#[derive(Debug)]
pub struct EarlyChannel {
    pub(crate) id: ChannelId,
    /// Requests sent with it, whose answers are still to come.
    pub(crate) asked: VecDeque<Asked>,
    /// How much was sent: [`PipelineDepth::Open`] or [`PipelineDepth::Whole`].
    pub(crate) depth: PipelineDepth,
    /// True if EOF was sent because there is no input.
    pub(crate) input_ended: bool,
    /// True if the first bytes of the local end were sent with it.
    pub(crate) with_data: bool,
}

impl EarlyChannel {
    /// How much was sent early. With [`PipelineDepth::Whole`] a command may be running on the server, or
    /// have run, even if the connection fails.
    #[must_use]
    pub fn depth(&self) -> PipelineDepth {
        self.depth
    }
}

/// Opens the plan's channel, if it has one, after the unanswered login request. With
/// [`PipelineDepth::Whole`] a Fulmar server, whose limit is known, also gets `data` in the same flight.
///
/// # Errors
/// [`Error::Misuse`] if nothing may be sent early.
pub fn send_early(
    connection: &mut Connection,
    plan: &Plan,
    depth: PipelineDepth,
    data: &[u8],
) -> Result<Option<EarlyChannel>, Error> {
    let Some((kind, fields)) = channel_type(&plan.what).filter(|_| depth >= PipelineDepth::Open)
    else {
        return Ok(None);
    };
    let id = connection.open_channel_early(kind, &fields)?;
    debug2!("channel {}: CHANNEL_OPEN {kind}, not waiting", id.0);
    let mut early = EarlyChannel {
        id,
        asked: VecDeque::new(),
        depth: PipelineDepth::Open,
        input_ended: false,
        with_data: false,
    };
    if depth == PipelineDepth::Whole && !matches!(plan.what, What::Forward { .. }) {
        early.asked = start(connection, plan, id)?;
        early.depth = PipelineDepth::Whole;
        if has_no_input(plan) {
            connection.channel_eof(id)?;
            early.input_ended = true;
        } else if !data.is_empty() && connection.peer_quirks().is_fulmar {
            debug2!("channel {}: {} bytes, not waiting", id.0, data.len());
            connection.channel_send_early(id, data)?;
            early.with_data = true;
        }
        send_no_more_sessions(connection)?;
    }
    Ok(Some(early))
}

/// Sends no-more-sessions@openssh.com to a server that knows it: no other session shares this
/// connection, so the server may refuse further ones.
pub(crate) fn send_no_more_sessions(connection: &mut Connection) -> Result<(), Error> {
    if connection.peer_quirks().knows_openssh_extensions {
        debug1!("Requesting no-more-sessions@openssh.com");
        connection.send_no_more_sessions()?;
    }
    Ok(())
}

/// True if standard input never gives a byte.
fn has_no_input(plan: &Plan) -> bool {
    !plan.ends_here && (plan.stdin_null || sys::io::is_null(sys::io::stdin()))
}

/// Type and fields of the CHANNEL_OPEN; `None` for a session without a channel.
pub(crate) fn channel_type(what: &What) -> Option<(&'static str, Vec<u8>)> {
    match what {
        What::Nothing => None,
        What::Forward { host, port } => {
            let mut fields = Vec::new();
            fields.put_string(host.as_bytes());
            fields.put_u32(u32::from(*port));
            // The originator of standard input has no address (RFC 4254 §7.2 wants one).
            fields.put_string(b"127.0.0.1");
            fields.put_u32(65535);
            Some((wire::names::CHANNEL_DIRECT_TCPIP, fields))
        }
        _ => Some((wire::names::CHANNEL_SESSION, Vec::new())),
    }
}

/// Sends pty-req, env and the request that starts the command; returns the requests that will be
/// answered.
pub(crate) fn start(
    connection: &mut Connection,
    plan: &Plan,
    channel: ChannelId,
) -> Result<VecDeque<Asked>, Error> {
    let mut asked = VecDeque::new();
    if let Some(pty) = &plan.pty {
        let size = crate::terminal::window_size();
        let request = Request::Pty {
            term: pty.term.clone(),
            columns: size.columns,
            rows: size.rows,
            width_px: size.width_px,
            height_px: size.height_px,
            modes: pty.modes.clone(),
        };
        debug2!("channel {}: request pty-req", channel.0);
        connection.channel_request(channel, &request, true)?;
        asked.push_back(Asked::Pty);
    }
    for (name, value) in &plan.environment {
        debug1!(
            "channel {}: setting env {}",
            channel.0,
            one_line(&String::from_utf8_lossy(name))
        );
        let request = Request::Env {
            name: name.clone(),
            value: value.clone(),
        };
        connection.channel_request(channel, &request, false)?;
    }
    let request = match &plan.what {
        What::Exec(command) => {
            debug1!(
                "Sending command: {}",
                one_line(&String::from_utf8_lossy(command))
            );
            Request::Exec {
                command: command.clone(),
            }
        }
        What::Subsystem(name) => {
            debug1!(
                "Sending subsystem: {}",
                one_line(&String::from_utf8_lossy(name))
            );
            Request::Subsystem { name: name.clone() }
        }
        _ => Request::Shell,
    };
    connection.channel_request(channel, &request, true)?;
    asked.push_back(Asked::Start);
    Ok(asked)
}
