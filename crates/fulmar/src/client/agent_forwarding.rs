//! Connections to the user's agent that programs on the server make (agent forwarding, OpenSSH's
//! PROTOCOL.agent §1). A program answers them itself, with [`agent::serve`], or passes them on to a real agent.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::channel::Channel;
use crate::Error;
use crate::link::{AgentChannels, ChannelCore, Command, Handle};

/// Connections to the agent, made by [`Session::agent_connections`](super::Session::agent_connections).
/// Any number of threads may accept them.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let session: fulmar::client::Session = todo!();
/// use std::io::Write;
/// use std::os::unix::net::UnixStream;
///
/// let connections = session.agent_connections()?;
/// let command = session.start().forward_agent().exec("git pull")?;
/// let channel = connections.accept(None)?;
/// // A real agent learns that the connection is forwarded, and from where.
/// let mut agent = UnixStream::connect(std::env::var("SSH_AUTH_SOCK")?)?;
/// agent.write_all(&connections.session_bind()?)?;
/// # let _ = (command, channel);
/// # Ok(())
/// # }
/// ```
///
/// At most 64 connections wait to be accepted; further ones are refused. Dropping this value refuses
/// connections again and closes the waiting ones; accepted ones go on.
pub struct AgentConnections {
    handle: Arc<Handle>,
    channels: AgentChannels,
}

impl AgentConnections {
    pub(super) fn new(handle: Arc<Handle>, channels: AgentChannels) -> Self {
        Self { handle, channels }
    }

    /// Waits for the next connection, at most for `timeout`; `None` waits without limit. The channel
    /// carries messages of the agent protocol.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; otherwise why the SSH connection ended.
    pub fn accept(&self, timeout: Option<Duration>) -> Result<Channel, Error> {
        let (opened, _) = self.channels.backlog.take(timeout)?;
        Ok(Channel::new(ChannelCore::new(
            opened,
            Arc::clone(&self.handle),
        )))
    }

    /// The message that binds a connection to an agent to this session as a forwarded one
    /// (`session-bind@openssh.com`), with its length: send it to a real agent first, and drop its answer,
    /// which is one message. Without it the agent takes the server's programs for local ones, and keys
    /// with destinations do not work.
    ///
    /// # Errors
    /// [`Error::Agent`] if the server's host key is too long for a message.
    pub fn session_bind(&self) -> Result<Vec<u8>, Error> {
        let AgentChannels {
            host_key,
            session_identifier,
            host_signature,
            ..
        } = &self.channels;
        agent::message::session_bind(host_key, session_identifier, host_signature, true)
            .map(|frame| frame.to_vec())
            .map_err(|error| Error::Agent(error.to_string()))
    }
}

impl fmt::Debug for AgentConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentConnections").finish_non_exhaustive()
    }
}

impl Drop for AgentConnections {
    fn drop(&mut self) {
        // If the connection has ended, nothing is accepted.
        let _ = self.handle.send(Command::RefuseAgents);
    }
}
