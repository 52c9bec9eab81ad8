//! The client's side of agent forwarding (`-A`, `ForwardAgent`; OpenSSH's PROTOCOL.agent): channels
//! that the server opens are joined to the agent's socket, after a request that binds the connection
//! to this session.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use ::agent::message::{Frame, session_bind};
use config::client::{ClientOptions, ForwardAgent};
use driver::Driver;
use keys::{KeySpec, PrivateKey, SignatureAlgorithm};
use proto::{ChannelId, Connection};
use wire::names;

use super::SessionForwards;
use super::remote::refuse;
use crate::auth::identity;
use crate::connect::plain_reason;
use crate::error::ClientError;
use crate::log::{debug1, error};
use crate::plan::Plan;
use crate::text::one_line;

/// The agent that the session forwards.
pub(super) struct ForwardedAgent {
    path: PathBuf,
    /// The server has been asked for it.
    is_requested: bool,
}

/// True for the types of channels to an agent.
pub(crate) fn is_agent(kind: &str) -> bool {
    matches!(kind, names::CHANNEL_AGENT | names::CHANNEL_AGENT_OPENSSH)
}

/// The socket of the agent to forward; `None` if the options forward none, or if it cannot be
/// reached now.
///
/// # Errors
/// [`ClientError::Refused`] if a socket that the options name is missing and `ExitOnForwardFailure`
/// is set.
pub(crate) fn socket(options: &ClientOptions) -> Result<Option<PathBuf>, ClientError> {
    let path = match &options.forwarding.agent {
        ForwardAgent::No => None,
        ForwardAgent::Yes => identity::agent_socket(&options.user_keys),
        ForwardAgent::Socket(path) => {
            if let Err(reason) = std::fs::metadata(path) {
                let (path, reason) = (one_line(path), plain_reason(&reason));
                let text = format!("Cannot forward agent socket path \"{path}\": {reason}");
                if options.forwarding.exit_on_forward_failure {
                    return Err(ClientError::Refused(text));
                }
                error!("{text}");
            }
            Some(PathBuf::from(path))
        }
    };
    Ok(path.filter(|path| is_reachable(path)))
}

fn is_reachable(path: &Path) -> bool {
    UnixStream::connect(path)
        .inspect_err(|reason| debug1!("no agent to forward at {}: {reason}", path.display()))
        .is_ok()
}

/// The agent's message that binds a connection to the session, as a forwarded one.
///
/// After a key exchange by GSS-API the server has shown no host key. The session is then bound to one
/// that is made here and forgotten: it is no destination of any key, and the agent refuses what it
/// refuses to requests from elsewhere (such as to load a library), which it does not do for a
/// connection that nobody has bound.
fn binding(connection: &Connection) -> Option<Frame> {
    let session = connection.session_id()?;
    if connection.is_by_gss() {
        let key = PrivateKey::generate(KeySpec::Ed25519).ok()?;
        let signature = key.sign(SignatureAlgorithm::Ed25519, session).ok()?;
        return session_bind(&key.public().blob(), session, &signature, true).ok();
    }
    let (key, signature) = (connection.host_key()?, connection.host_signature()?);
    session_bind(key, session, signature, true).ok()
}

impl SessionForwards {
    /// Forwards the agent at this socket, when the server has been asked for it.
    #[must_use]
    pub fn with_agent(mut self, path: PathBuf) -> Self {
        self.agent = Some(ForwardedAgent {
            path,
            is_requested: false,
        });
        self
    }

    /// The requests of the plan's channel have been sent.
    pub(crate) fn channel_requested(&mut self, plan: &Plan) {
        if let Some(agent) = self.agent.as_mut().filter(|_| plan.agent.is_some()) {
            agent.is_requested = true;
        }
        if let Some(x11) = self.x11.as_mut().filter(|_| plan.x11.is_some()) {
            x11.requested();
        }
    }

    pub(super) fn expects_agent(&self) -> bool {
        self.agent.as_ref().is_some_and(|agent| agent.is_requested)
    }

    /// The server opens a channel to the agent.
    ///
    /// # Errors
    /// Those of [`Self::report`].
    pub(super) fn agent_opened(
        &mut self,
        channel: ChannelId,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        let bind = binding(driver.connection());
        match (&self.agent, bind) {
            (Some(agent), Some(bind)) => {
                debug1!("channel {}: connecting to the agent", channel.0);
                self.forwards
                    .connect_agent(channel, &agent.path, bind.to_vec(), driver);
            }
            _ => refuse(channel, driver),
        }
        self.report()
    }
}
