//! Loops of `ProxyJump`, refused before the first process starts.
//!
//! A jump runs this program again for the jump host ([`crate::connect::proxy`]), where the configuration may name a
//! further jump. [`refuse_own_host`] finds what OpenSSH finds: a host that is its own jump host. [`refuse_loops`]
//! follows the chain through the configuration of each hop. What neither can see, because `Match exec` or a lookup of
//! names decides it, or because a `ProxyCommand` leads back here, ends at [`MAX_NESTED`] processes: each passes its
//! depth on in the environment.

use std::cell::Cell;
use std::net::IpAddr;

use config::client::{ClientConfig, ClientOptions, CommandLine, JumpHost, Proxy};
use config::environment::{Environment, LocalUser};

use crate::error::ClientError;
use crate::local::Here;
use crate::text::one_line;

/// Most proxies that may run inside one another, and most hops that are followed.
pub const MAX_NESTED: u32 = 32;

/// Tells a proxy how many proxies run around it.
pub const DEPTH_VARIABLE: &str = "FULMAR_PROXY_DEPTH";

/// The number of proxies that this process runs inside of; 0 where it was started by anything else.
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
    let Proxy::Jump(hops) = &options.proxy else {
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

/// Follows the jumps of `options` through the configuration of each hop and refuses a chain that comes back to a
/// call that it has made before. The chain is left to [`check_depth`] where only running it would show how it goes
/// on, and to the hop's own process where its configuration is refused.
///
/// # Errors
/// [`ClientError::Refused`].
pub fn refuse_loops(
    options: &ClientOptions,
    config: &ClientConfig,
    here: &Here,
) -> Result<(), ClientError> {
    let dry = Dry {
        here,
        is_open: Cell::new(false),
    };
    // The call that a proxy is started with decides everything after it.
    let mut calls: Vec<Vec<JumpHost>> = Vec::new();
    let mut proxy = options.proxy.clone();
    while let Proxy::Jump(hops) = proxy {
        let Some((last, before)) = hops.split_last() else {
            return Ok(());
        };
        let too_many = u32::try_from(calls.len()).is_ok_and(|calls| calls >= MAX_NESTED);
        if calls.contains(&hops) || too_many {
            return Err(found(last));
        }
        let resolved = config.resolve(&last.host, &command_line(last, before), &dry);
        let Ok(next) = resolved else {
            return Ok(());
        };
        if dry.is_open.get() {
            return Ok(());
        }
        refuse_own_host(&next)?;
        proxy = next.proxy;
        calls.push(hops);
    }
    Ok(())
}

/// What the proxy of a jump to `last` through `before` has on its command line.
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

/// Hops as `-J` takes them.
pub fn hop_list(hops: &[JumpHost]) -> String {
    let hops: Vec<String> = hops.iter().map(JumpHost::to_string).collect();
    hops.join(",")
}

/// This machine, with no command run and no name looked up: the hop's own process will do both.
struct Dry<'h> {
    here: &'h Here,
    /// Whether a command or a name was asked for.
    is_open: Cell<bool>,
}

impl Environment for Dry<'_> {
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
        self.is_open.set(true);
        Err("commands are not run while jumps are followed".to_owned())
    }

    fn local_addresses(&self) -> Vec<IpAddr> {
        self.here.local_addresses()
    }

    fn canonical_name(&self, _name: &str) -> Option<String> {
        self.is_open.set(true);
        None
    }
}

#[cfg(test)]
#[path = "jumps_tests.rs"]
mod tests;
