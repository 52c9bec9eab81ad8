//! Start of the auth process: reads the inherited descriptors and its part of the configuration,
//! and closes the sandbox before the first byte of the network is read.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use config::server::ServerOptions;
use config::types::WarnWeakCrypto;
use privsep::{AuthConnection, AuthStart, Message, roles};
use proto::{ServerHostKey, TransportConfig};
use sys::process::Credentials;
use sys::sandbox::{Confinement, DEFAULT_OPEN_FILES, SandboxPolicy};

use sys::memory::REST;

use crate::rpc::{Rpc, RpcError};
use crate::transport;

/// Limit on the start record, in bytes: lists of algorithms and host certificates.
const MAX_START_BYTES: usize = 1024 * 1024;

/// Why the process cannot start; always a failure of the server, not of the client.
#[derive(Debug)]
pub(super) struct StartError(String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

fn failed(what: &'static str) -> impl Fn(&dyn fmt::Display) -> StartError {
    move |error| StartError(format!("{what}: {error}"))
}

/// Everything read before the sandbox closes.
pub(super) struct AuthProcessStart {
    network: Option<OwnedFd>,
    pub(super) auth: AuthStart,
    transport: TransportConfig,
    warns_of_weak: WarnWeakCrypto,
}

/// A connection to serve.
pub(super) struct Begun {
    pub(super) network: OwnedFd,
    pub(super) connection: AuthConnection,
    pub(super) transport: TransportConfig,
    pub(super) warns_of_weak: WarnWeakCrypto,
    pub(super) host_keys: Vec<ServerHostKey>,
}

impl AuthProcessStart {
    /// Reads the descriptors and the start record that the monitor passes on.
    pub(super) fn read(rpc: &'static Rpc) -> Result<Self, StartError> {
        crate::log::only_by(rpc).map_err(|e| failed("standard error")(&e))?;
        let record =
            sys::io::inherited(roles::AUTH_START_FD).map_err(|e| failed("start descriptor")(&e))?;
        let bytes = sys::memfd::read_sealed(&record, MAX_START_BYTES)
            .map_err(|e| failed("start record")(&e))?;
        let auth = AuthStart::decode_body(&bytes).map_err(|e| failed("start record")(&e))?;
        let network = auth
            .connection
            .as_ref()
            .map(|_| sys::io::inherited(roles::NETWORK_FD))
            .transpose()
            .map_err(|e| failed("network descriptor")(&e))?;
        let (transport, warns_of_weak) = transport_of(&auth.options)?;
        Ok(Self {
            network,
            transport,
            warns_of_weak,
            auth,
        })
    }

    /// Returns the connection; a pre-forked process waits for it. Returns `None` if the monitor
    /// closes the RPC instead. Call after [`close_sandbox`](Self::close_sandbox).
    pub(super) fn connection(&mut self, rpc: &Rpc) -> Result<Option<Begun>, StartError> {
        let mut transport = core::mem::take(&mut self.transport);
        let given = self.network.take().zip(self.auth.connection.take());
        let (network, connection) = match given {
            Some(given) => given,
            None => match await_connection(rpc) {
                Ok((network, connection)) => (network, connection),
                Err(RpcError::Closed) => return Ok(None),
                Err(error) => return Err(failed("waiting for a connection")(&error)),
            },
        };
        if let Some(options) = &connection.options {
            (transport, self.warns_of_weak) = transport_of(options)?;
        }
        if let Some(cookie) = &connection.greeted {
            let cookie = cookie.as_slice().try_into();
            transport.opening.cookie = Some(cookie.map_err(|e| failed("cookie")(&e))?);
        }
        Ok(Some(Begun {
            network,
            connection,
            transport,
            warns_of_weak: self.warns_of_weak,
            host_keys: transport::host_keys(&self.auth.host_keys),
        }))
    }

    /// Closes the sandbox. Afterwards this process can open no file and start no program.
    pub(super) fn close_sandbox(&self) -> Result<(), StartError> {
        // Code that opens a file or maps memory at first use runs now.
        crypto::warm_up();
        let confinement = match (&self.auth.chroot, self.auth.uid_gid) {
            (Some(directory), Some((uid, gid))) => Confinement::EmptyRoot {
                directory: PathBuf::from(directory),
                user: Credentials {
                    uid,
                    gid,
                    groups: vec![gid],
                },
            },
            (None, None) => Confinement::Landlock,
            _ => {
                return Err(StartError(
                    "a root directory and a user belong together".to_owned(),
                ));
            }
        };
        let policy = SandboxPolicy {
            confinement,
            max_open_files: DEFAULT_OPEN_FILES,
            may_write: false,
        };
        sys::sandbox::preauth(&policy).map_err(|error| StartError(error.to_string()))
    }
}

/// Decodes the transport's configuration, and which weak algorithms are logged.
fn transport_of(options: &[u8]) -> Result<(TransportConfig, WarnWeakCrypto), StartError> {
    let mut options = ServerOptions::decode_to_read(options).map_err(|e| failed("options")(&e))?;
    Ok((
        transport::config(&mut options),
        options.algorithms.warn_weak_crypto,
    ))
}

fn await_connection(rpc: &Rpc) -> Result<(OwnedFd, AuthConnection), RpcError> {
    if !sys::io::wait_readable(rpc.as_fd(), Some(REST))? {
        // The wait may take hours.
        sys::memory::rest();
    }
    let (connection, network) = rpc.expect_with_descriptor()?;
    Ok((network, connection))
}
