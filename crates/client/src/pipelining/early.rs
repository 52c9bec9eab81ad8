//! Opens the session's channel before the login is answered, and, if the server processes messages
//! in order, also starts the command.
//!
//! [`super::strategy`] decides which servers accept that; `proto` handles a login that fails.

use std::collections::VecDeque;

use proto::channel::Request;
use proto::{ChannelId, Connection, Error};

use crate::log::{debug1, debug2};
use crate::plan::{Plan, What};
use crate::terminal;
use crate::text::one_line;
use crate::x11::X11Plan;

/// A request with `want_reply` whose answer has not arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// `pty-req`
    Pty,
    /// `x11-req`
    X11,
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
    /// The channel's number.
    #[must_use]
    pub fn id(&self) -> ChannelId {
        self.id
    }

    /// How much was sent early. With [`PipelineDepth::Whole`] a command may be running on the server, or
    /// have run, even if the connection fails.
    #[must_use]
    pub fn depth(&self) -> PipelineDepth {
        self.depth
    }
}

/// A channel to open, and the requests that start what it is for.
#[derive(Debug)]
pub struct ChannelStart {
    /// The channel's type.
    pub kind: String,
    /// The encoded fields of CHANNEL_OPEN that follow the maximum packet size.
    pub fields: Vec<u8>,
    /// The requests, in order. `env` is sent without `want_reply`: a server may ignore a variable
    /// (RFC 4254 §6.4).
    pub requests: Vec<Request>,
    /// True if there is no input, so that EOF follows the requests.
    pub input_ended: bool,
    /// True if no other session shares the connection, so that the server may refuse further ones.
    pub is_only_session: bool,
}

impl ChannelStart {
    /// The channel of a plan; `None` for a plan without one.
    #[must_use]
    pub fn of(plan: &Plan) -> Option<Self> {
        let (kind, fields) = channel_type(&plan.what)?;
        let is_forward = matches!(plan.what, What::Forward(_));
        Some(Self {
            kind: kind.to_owned(),
            fields,
            requests: if is_forward {
                Vec::new()
            } else {
                requests(plan)
            },
            input_ended: has_no_input(plan),
            is_only_session: !is_forward && !plan.is_shared,
        })
    }

    /// Opens the channel after the unanswered login request, or at once after the login. With
    /// [`PipelineDepth::Whole`] the requests follow, and a Fulmar server, whose limit is known,
    /// also gets `data` in the same flight.
    ///
    /// # Errors
    /// [`Error::Misuse`] if nothing may be sent early.
    pub fn send_early(
        &self,
        connection: &mut Connection,
        depth: PipelineDepth,
        data: &[u8],
    ) -> Result<EarlyChannel, Error> {
        let id = connection.open_channel_early(&self.kind, &self.fields)?;
        debug2!("channel {}: CHANNEL_OPEN {}, not waiting", id.0, self.kind);
        let mut early = EarlyChannel {
            id,
            asked: VecDeque::new(),
            depth: PipelineDepth::Open,
            input_ended: false,
            with_data: false,
        };
        if depth == PipelineDepth::Whole && !self.requests.is_empty() {
            early.asked = send_requests(connection, &self.requests, id)?;
            early.depth = PipelineDepth::Whole;
            if self.input_ended {
                connection.channel_eof(id)?;
                early.input_ended = true;
            } else if !data.is_empty() && connection.peer_quirks().is_fulmar {
                debug2!("channel {}: {} bytes, not waiting", id.0, data.len());
                connection.channel_send_early(id, data)?;
                early.with_data = true;
            }
            if self.is_only_session {
                send_no_more_sessions(connection)?;
            }
        }
        Ok(early)
    }
}

/// Opens the plan's channel, if it has one, and starts its command, without waiting.
///
/// # Errors
/// [`Error::Misuse`] if nothing may be sent early.
pub(crate) fn send_early(
    connection: &mut Connection,
    plan: &Plan,
    depth: PipelineDepth,
    data: &[u8],
) -> Result<Option<EarlyChannel>, Error> {
    let start = ChannelStart::of(plan);
    start
        .map(|start| start.send_early(connection, depth, data))
        .transpose()
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
    match plan.ends_here {
        true => plan.sends_nothing,
        false => plan.stdin_null || sys::io::is_null(sys::io::stdin()),
    }
}

/// Type and fields of the CHANNEL_OPEN; `None` for a session without a channel.
pub(crate) fn channel_type(what: &What) -> Option<(&'static str, Vec<u8>)> {
    match what {
        What::Nothing => None,
        // The originator of standard input has no address.
        What::Forward(target) => Some(target.open_request(None)),
        _ => Some((wire::names::CHANNEL_SESSION, Vec::new())),
    }
}

/// Sends agent-req, pty-req, env and the request that starts the command; returns the requests that will be
/// answered.
pub(crate) fn start(
    connection: &mut Connection,
    plan: &Plan,
    channel: ChannelId,
) -> Result<VecDeque<Asked>, Error> {
    send_requests(connection, &requests(plan), channel)
}

/// True if the messages of the plan's requests are few and short enough to follow CHANNEL_OPEN.
pub(crate) fn may_follow_open(plan: &Plan) -> bool {
    const MOST_REQUESTS: usize = 256;
    // Name, terminal's modes and lengths of a request are far shorter than this.
    const OVERHEAD: usize = 64;
    let variables = plan.environment.iter();
    let variables = variables.map(|(name, value)| name.len() + value.len() + OVERHEAD);
    let start = match &plan.what {
        What::Exec(bytes) | What::Subsystem(bytes) => bytes.len(),
        What::Shell => 0,
        What::Forward(_) | What::Nothing => return false,
    };
    let terminal = plan.pty.as_ref();
    let terminal = terminal.map_or(0, |pty| pty.term.len() + pty.modes.len());
    let bytes = variables.sum::<usize>() + start + terminal + 1024;
    plan.environment.len() <= MOST_REQUESTS && bytes <= Connection::EARLY_REQUEST_BYTES
}

fn requests(plan: &Plan) -> Vec<Request> {
    let mut requests = Vec::new();
    requests.extend(plan.x11.as_ref().map(X11Plan::request));
    if plan.agent.is_some() {
        requests.push(Request::AgentForwarding { standard: false });
    }
    if let Some(pty) = &plan.pty {
        let size = pty.size.or_else(terminal::window_size);
        let size = size.unwrap_or(terminal::Size::UNKNOWN);
        requests.push(Request::Pty {
            term: pty.term.clone(),
            columns: size.columns,
            rows: size.rows,
            width_px: size.width_px,
            height_px: size.height_px,
            modes: pty.modes.clone(),
        });
    }
    let variables = plan.environment.iter().cloned();
    requests.extend(variables.map(|(name, value)| Request::Env { name, value }));
    requests.push(match plan.what.clone() {
        What::Exec(command) => Request::Exec { command },
        What::Subsystem(name) => Request::Subsystem { name },
        _ => Request::Shell,
    });
    requests
}

fn send_requests(
    connection: &mut Connection,
    requests: &[Request],
    channel: ChannelId,
) -> Result<VecDeque<Asked>, Error> {
    let text = |bytes: &[u8]| one_line(&String::from_utf8_lossy(bytes));
    let mut asked = VecDeque::new();
    let standard = connection.agent_forward_supported();
    for request in requests {
        let request = match request {
            // The names of the draft, if the server has announced by now that it knows them.
            Request::AgentForwarding { .. } => &Request::AgentForwarding { standard },
            other => other,
        };
        match request {
            Request::AgentForwarding { .. } => debug1!(
                "Requesting agent forwarding on channel {} via {}",
                channel.0,
                request.name()
            ),
            Request::X11 { .. } => {
                debug1!("Requesting X11 forwarding with authentication spoofing.");
            }
            Request::Env { name, .. } => {
                debug1!("channel {}: setting env {}", channel.0, text(name));
            }
            Request::Exec { command } => debug1!("Sending command: {}", text(command)),
            Request::Subsystem { name } => debug1!("Sending subsystem: {}", text(name)),
            other => debug2!("channel {}: request {}", channel.0, other.name()),
        }
        match request {
            Request::Env { .. } | Request::AgentForwarding { .. } => {}
            Request::X11 { .. } => asked.push_back(Asked::X11),
            Request::Pty { .. } => asked.push_back(Asked::Pty),
            _ => asked.push_back(Asked::Start),
        }
        let want_reply = !matches!(
            request,
            Request::Env { .. } | Request::AgentForwarding { .. }
        );
        connection.channel_request(channel, request, want_reply)?;
    }
    Ok(asked)
}
