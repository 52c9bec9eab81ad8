//! One connection: to the server's signature, or to what prevents it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use keys::PresentedKey;
use proto::{Connection, Event, TransportConfig, TransportOutput};
use sys::epoll::Interest;
use sys::socket::{ConnectFrom, Connecting};

use crate::key_types::KeyTypes;

/// Bytes that are read at once: a KEXINIT, or a reply with a large key.
const READ_BYTES: usize = 4096;
/// Receive sizes below the kernel's default are no gain; what a server sends beyond these bytes in
/// one turn waits in the socket.
const MAX_READS: usize = 4;

/// How far a connection is. The time limit begins anew with each stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanStage {
    Connecting,
    /// Waits for the identification line.
    Greeting,
    /// Waits for KEXINIT.
    Offer,
    /// Waits for the key.
    Key,
}

/// Why a connection ended without a key.
#[derive(Debug)]
pub(crate) enum ScanFailure {
    Connect(io::Error),
    Closed,
    Read(io::Error),
    Protocol(proto::Error),
    TimedOut,
}

/// The result of a turn.
#[derive(Debug)]
pub(crate) enum ScanStep {
    Waits,
    Key(PresentedKey),
    Failed(ScanFailure),
}

/// A connection that asks for keys of some types.
#[derive(Debug)]
pub(crate) struct ScanConnection {
    /// Number of the host.
    pub(crate) host: u64,
    pub(crate) address: SocketAddr,
    pub(crate) types: KeyTypes,
    socket: OwnedFd,
    /// `None` until the socket is connected.
    ssh: Option<Connection>,
    unsent: Vec<u8>,
}

impl ScanConnection {
    /// Starts to connect.
    ///
    /// # Errors
    /// The kernel's error if the attempt fails at once.
    pub(crate) fn start(host: u64, address: SocketAddr, types: KeyTypes) -> io::Result<Self> {
        let connecting = sys::socket::connect_start(address, &ConnectFrom::default())?;
        let (Connecting::Done(socket) | Connecting::InProgress(socket)) = connecting;
        Ok(Self {
            host,
            address,
            types,
            socket,
            ssh: None,
            unsent: Vec::new(),
        })
    }

    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    pub(crate) fn interest(&self) -> Interest {
        Interest::when(
            self.ssh.is_some(),
            self.ssh.is_none() || !self.unsent.is_empty(),
        )
    }

    pub(crate) fn stage(&self) -> ScanStage {
        match &self.ssh {
            None => ScanStage::Connecting,
            Some(ssh) if ssh.peer_version().is_none() => ScanStage::Greeting,
            Some(ssh) if ssh.peer_lists().is_none() => ScanStage::Offer,
            Some(_) => ScanStage::Key,
        }
    }

    /// The server's identification line; `None` before it has arrived.
    pub(crate) fn banner(&self) -> Option<&str> {
        self.ssh.as_ref()?.peer_version()
    }

    /// The host key algorithms that the server offers; `None` before its KEXINIT has arrived.
    pub(crate) fn offered(&self) -> Option<&[String]> {
        Some(self.ssh.as_ref()?.peer_lists()?.1)
    }

    /// Moves bytes until the socket blocks. `config` is used when the socket is connected.
    pub(crate) fn turn(&mut self, config: impl FnOnce() -> TransportConfig) -> ScanStep {
        match self.advance(config) {
            Ok(Some(key)) => ScanStep::Key(key),
            Ok(None) => ScanStep::Waits,
            Err(failure) => ScanStep::Failed(failure),
        }
    }

    fn advance(
        &mut self,
        config: impl FnOnce() -> TransportConfig,
    ) -> Result<Option<PresentedKey>, ScanFailure> {
        if self.ssh.is_none() {
            sys::socket::connect_finish(&self.socket).map_err(ScanFailure::Connect)?;
            let ssh = Connection::client(config(), now()).map_err(ScanFailure::Protocol)?;
            self.ssh = Some(ssh);
            return self.write().map(|()| None);
        }
        for _ in 0..MAX_READS {
            if !self.read()? {
                break;
            }
            if let Some(key) = self.next_key()? {
                return Ok(Some(key));
            }
        }
        self.write().map(|()| None)
    }

    /// True if bytes have arrived.
    fn read(&mut self) -> Result<bool, ScanFailure> {
        let Some(ssh) = &mut self.ssh else {
            return Ok(false);
        };
        let buffer = ssh.receive_buffer();
        buffer.reserve(READ_BYTES);
        match sys::io::read_into(&self.socket, buffer) {
            Ok(0) => Err(ScanFailure::Closed),
            Ok(_) => ssh
                .process(now())
                .map(|()| true)
                .map_err(ScanFailure::Protocol),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(ScanFailure::Read(error)),
        }
    }

    /// The key that the server has proven to hold.
    fn next_key(&mut self) -> Result<Option<PresentedKey>, ScanFailure> {
        let Some(ssh) = &mut self.ssh else {
            return Ok(None);
        };
        while let Some(event) = ssh.poll_event() {
            if let Event::HostKey { key, .. } = event {
                // A blob with a verified signature is a key.
                let unreadable = |_| ScanFailure::Protocol(proto::Error::HostKeySignature);
                return PresentedKey::from_blob(&key).map(Some).map_err(unreadable);
            }
        }
        Ok(None)
    }

    fn write(&mut self) -> Result<(), ScanFailure> {
        let Some(ssh) = &mut self.ssh else {
            return Ok(());
        };
        while let Some(output) = ssh.poll_output() {
            match output {
                TransportOutput::Raw(bytes) => self.unsent.extend_from_slice(&bytes),
                TransportOutput::Seal(job) => self.unsent.extend_from_slice(job.run().wire()),
            }
        }
        if self.unsent.is_empty() {
            return Ok(());
        }
        match sys::socket::send_now(&self.socket, &self.unsent) {
            Ok(sent) => drop(self.unsent.drain(..sent.min(self.unsent.len()))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // What the server has said before is read first.
            Err(_) => self.unsent.clear(),
        }
        Ok(())
    }
}

fn now() -> u64 {
    sys::time::monotonic_ms()
}
