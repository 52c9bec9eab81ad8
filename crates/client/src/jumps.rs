//! Detects loops of `ProxyJump` before the first process starts.
//!
//! A jump runs this program again for the jump host ([`crate::connect::proxy`]), whose
//! configuration may name another jump. [`refuse_own_host`] finds what OpenSSH finds: a host that
//! is its own jump host. [`refuse_loops`] follows the chain through the configuration of each hop.
//! A loop that neither sees, because it depends on `Match exec`, a name lookup or a `ProxyCommand`,
//! ends at [`MAX_NESTED`] processes: each passes its depth on in the environment.

use std::cell::Cell;
use std::net::IpAddr;

use config::client::{
    ClientConfig, ClientOptions, CommandLine, ConnectionOptions, JumpHost, Proxy,
};
use config::environment::{Environment, LocalUser};

use crate::error::ClientError;
use crate::local::Here;
use crate::text::one_line;

/// Most proxies that may run inside one another, and most hops that [`refuse_loops`] follows.
pub const MAX_NESTED: u32 = 32;

/// Environment variable that passes the number of enclosing proxies to a proxy.
pub const DEPTH_VARIABLE: &str = "FULMAR_PROXY_DEPTH";

/// The number of proxies that enclose this process; 0 if it was not started as a proxy.
#[must_use]
pub fn depth() -> u32 {
    std::env::var(DEPTH_VARIABLE)
        .ok()
        .and_then(|depth| depth.parse().ok())
        .unwrap_or(0)
}

/// Refuses to start a proxy inside [`MAX_NESTED`] others.
///
/// # Errors
/// [`ClientError::Refused`].
pub fn check_depth(depth: u32, options: &ClientOptions) -> Result<(), ClientError> {
    if depth < MAX_NESTED {
        return Ok(());
    }
    Err(ClientError::Refused(format!(
        "jumphost loop via {}: {MAX_NESTED} proxies run inside one another; check ProxyJump and ProxyCommand of the \
         configuration, and unset {DEPTH_VARIABLE} if you set it",
        one_line(&options.hostname)
    )))
}

/// Refuses a host that is its own jump host: same name, port and user, as OpenSSH compares them.
///
/// # Errors
/// [`ClientError::Refused`].
pub fn refuse_own_host(options: &ClientOptions) -> Result<(), ClientError> {
    let Proxy::Jump(hops) = &options.connection.proxy else {
        return Ok(());
    };
    match hops.last() {
        Some(hop)
            if hop.host == options.hostname
                && hop.port.unwrap_or(22) == options.port
                && hop.user.as_ref().unwrap_or(&options.user) == &options.user =>
        {
            Err(found(hop))
        }
        _ => Ok(()),
    }
}

fn found(hop: &JumpHost) -> ClientError {
    ClientError::Refused(format!("jumphost loop via {}", one_line(&hop.host)))
}

/// Follows the jumps of `options` through the configuration of each hop and refuses a chain that
/// repeats a call. The search stops without error where the chain depends on a command or a name
/// lookup (then [`check_depth`] limits it), or where the configuration of a hop is in error (the
/// hop's own process reports that).
///
/// # Errors
/// [`ClientError::Refused`].
pub fn refuse_loops(
    connection: &ConnectionOptions,
    config: &ClientConfig,
    here: &Here,
) -> Result<(), ClientError> {
    let offline = OfflineEnvironment::new(here);
    // The arguments of a call decide all that follows it.
    let mut calls: Vec<Vec<JumpHost>> = Vec::new();
    let mut proxy = connection.proxy.clone();
    while let Proxy::Jump(hops) = proxy {
        let Some((last, before)) = hops.split_last() else {
            return Ok(());
        };
        let too_many = u32::try_from(calls.len()).is_ok_and(|calls| calls >= MAX_NESTED);
        if calls.contains(&hops) || too_many {
            return Err(found(last));
        }
        let resolved = config.resolve(&last.host, &command_line(last, before), &offline);
        let Ok(next) = resolved else {
            return Ok(());
        };
        if offline.is_undecided.get() {
            return Ok(());
        }
        refuse_own_host(&next)?;
        proxy = next.connection.proxy;
        calls.push(hops);
    }
    Ok(())
}

/// The command line of the proxy for a jump to `last` through `before`.
fn command_line(last: &JumpHost, before: &[JumpHost]) -> CommandLine {
    let mut line = CommandLine::new();
    if let Some(user) = &last.user {
        line.set("User", user.clone());
    }
    if let Some(port) = last.port {
        line.set("Port", port.to_string());
    }
    if !before.is_empty() {
        line.set("ProxyJump", hop_list(before));
    }
    line.set("SessionType", "none");
    line
}

/// The hops in the form that `-J` takes.
pub fn hop_list(hops: &[JumpHost]) -> String {
    let hops: Vec<String> = hops.iter().map(JumpHost::to_string).collect();
    hops.join(",")
}

/// This machine, without running commands or looking up names. A hop's own process does both.
struct OfflineEnvironment<'h> {
    here: &'h Here,
    /// True if a command or a name lookup was requested.
    is_undecided: Cell<bool>,
}

impl<'h> OfflineEnvironment<'h> {
    fn new(here: &'h Here) -> Self {
        Self {
            here,
            is_undecided: Cell::new(false),
        }
    }
}

impl Environment for OfflineEnvironment<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        self.here.variable(name)
    }

    fn local_user(&self) -> LocalUser {
        self.here.local_user()
    }

    fn local_hostname(&self) -> String {
        self.here.local_hostname()
    }

    fn home_of(&self, user: &str) -> Option<String> {
        self.here.home_of(user)
    }

    fn run_shell(&self, _command: &str) -> Result<bool, String> {
        self.is_undecided.set(true);
        Err("commands are not run here".to_owned())
    }

    fn local_addresses(&self) -> Vec<IpAddr> {
        self.here.local_addresses()
    }

    fn canonical_name(&self, _name: &str) -> Option<String> {
        self.is_undecided.set(true);
        None
    }
}

#[cfg(test)]
#[path = "jumps_tests.rs"]
mod tests;
