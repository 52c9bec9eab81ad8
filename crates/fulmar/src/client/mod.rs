//! Logs in to a server and runs commands there.
//!
//! [`Session::connect`] exchanges keys and lets the [`Config`]'s [`HostKeyPolicy`] check the host
//! key; [`Session::authenticate`] logs in, and may be called again after a refusal; then
//! [`Session::run`], [`Session::exec`], [`Session::shell`] and [`Session::subsystem`] open
//! channels, from any number of threads at once.
//!
//! [`Session::connect_tcp`] and [`Session::connect_unix`] let the server connect,
//! [`Session::connect_udp`] lets it send and receive datagrams,
//! [`Session::listen_tcp`] and [`Session::listen_unix`] let it listen; [`SocksRequest`] serves
//! browsers and others that name their target themselves.
//!
//! ```no_run
//! use std::io::{Read, Write};
//! use fulmar::client::{Auth, Config, KnownHosts, Session};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut config = Config::new(KnownHosts::of_user()?.accept_new());
//! config.transport.alive_interval_ms = Some(15_000);
//! let mut session = Session::connect("example.org", 22, config)?;
//! session.authenticate("mia", Auth::Password("secret"))?;
//!
//! let mut sort = session.exec("sort")?;
//! sort.write_all(b"pear\napple\n")?;
//! sort.send_eof();
//! let mut sorted = String::new();
//! sort.read_to_string(&mut sorted)?;
//! assert!(sort.wait()?.is_success());
//! # Ok(())
//! # }
//! ```

mod agent_forwarding;
mod auth;
mod channel;
mod config;
mod datagrams;
mod host_key;
mod listener;
mod role;
mod session;
mod socks;

pub use agent_forwarding::AgentConnections;
pub use auth::{Ask, Auth, Prompts, SecurityKeyAccess};
pub use channel::{Channel, Output, Stderr};
pub use config::{Config, LoginCache};
pub use datagrams::Datagrams;
pub use host_key::{AcceptAny, FixedKey, HostKeyPolicy, KnownHosts, PresentedHostKey};
pub use listener::RemoteListener;
pub use proto::AuthProof;
pub use session::{Session, Start};
pub use socks::SocksRequest;
