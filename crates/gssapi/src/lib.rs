//! Kerberos by the GSS-API library of the system, for the method `gssapi-with-mic` (RFC 4462 §3), and for key
//! exchanges with the method `gssapi-keyex` (RFC 4462 §2 and §4).
//!
//! No process with a connection or with keys loads the library. Each of [`KerberosInitiator`], [`KerberosAcceptor`],
//! [`PasswordCheck`], [`authorize`], [`inquire`] and [`store`] starts a process for it ([`main`], a role of Fulmar's own
//! binary), which gives up its rights and enters a sandbox of [`sys::sandbox`] before it handles a byte of the peer.
//! [`message`] is the protocol between the two.
#![forbid(unsafe_code)]

// Printing to a closed pipe must not panic.
#[macro_use]
extern crate sys;

mod helper;
pub mod message;

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use sys::process::{Child, SelfExe};
use sys::signals::Signal;

pub use helper::main;
pub use message::{CachedCredential, Client, ContextStep, GssFailure, UserIds};
use message::{HelperReply, HelperRequest, MAX_FRAME_BYTES};

/// First argument of the process that loads the library.
pub const ROLE: &str = "gssapi-helper";
/// Descriptor of the helper's socket.
const CONTROL_FD: i32 = 3;
/// Longest wait of a server for an answer of its helper: what it computes takes milliseconds.
const SERVER_WAIT: Duration = Duration::from_secs(10);
/// Most tokens of each side for a password; Kerberos needs one.
const MAX_STEPS: u32 = 4;
/// The variables with which an administrator names Kerberos' files to a server.
pub const VARIABLES: [&str; 2] = ["KRB5_CONFIG", "KRB5_KTNAME"];

/// How long a helper's answers are awaited.
#[derive(Debug, Clone, Copy)]
enum AnswerWait {
    Endless,
    /// So long for each.
    Each(Duration),
    /// All of them until this time, monotonic milliseconds.
    Until(u64),
}

impl AnswerWait {
    /// A server's: what the helper computes takes milliseconds.
    fn of_server(until_ms: Option<u64>) -> Self {
        until_ms.map_or(Self::Each(SERVER_WAIT), Self::Until)
    }
}

/// A helper, which is killed on drop.
#[derive(Debug)]
struct HelperProcess {
    child: Child,
    socket: OwnedFd,
    wait: AnswerWait,
}

impl HelperProcess {
    /// Starts one for a user's own work, with the user's environment.
    fn of_user(wait: Option<Duration>) -> Result<Self, GssFailure> {
        let wait = wait.map_or(AnswerWait::Endless, AnswerWait::Each);
        Self::start(&SelfExe::open()?, true, wait)
    }

    /// Starts one for a server.
    fn of_server(executable: &SelfExe, wait: AnswerWait) -> Result<Self, GssFailure> {
        Self::start(executable, false, wait)
    }

    fn start(executable: &SelfExe, inherits: bool, wait: AnswerWait) -> Result<Self, GssFailure> {
        let (ours, theirs) = sys::socket::stream_pair()?;
        // Neither an answer nor room for a request is waited for without end.
        sys::io::set_nonblocking(&ours, true)?;
        let mut command = executable.command()?;
        command
            .args(["fulmar", ROLE])
            .fd(sys::io::null()?, 0)
            .fd(sys::io::null()?, 1)
            .fd_shared(sys::io::stderr(), 2)
            .fd(theirs, CONTROL_FD)
            .death_signal(Signal::KILL);
        if inherits {
            command.inherit_env().no_new_privs();
        } else {
            for name in VARIABLES {
                if let Ok(value) = std::env::var(name) {
                    command.env(name, value);
                }
            }
        }
        Ok(Self {
            child: command.spawn().map_err(io::Error::from)?,
            socket: ours,
            wait,
        })
    }

    fn call(&self, request: &HelperRequest) -> Result<HelperReply, GssFailure> {
        self.write(&request.encode())?;
        let length = self.read(4)?;
        let length = match length.first_chunk::<4>() {
            Some(length) => u32::from_be_bytes(*length),
            None => return Err(unexpected()),
        };
        match usize::try_from(length) {
            Ok(length) if length <= MAX_FRAME_BYTES => {
                match HelperReply::decode(&self.read(length)?).map_err(|_| unexpected())? {
                    HelperReply::Failed(failure) => Err(failure),
                    reply => Ok(reply),
                }
            }
            _ => Err(unexpected()),
        }
    }

    fn write(&self, mut bytes: &[u8]) -> Result<(), GssFailure> {
        let until_ms = self.until_ms();
        while !bytes.is_empty() {
            match sys::io::write(&self.socket, bytes) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !sys::io::wait_writable(&self.socket, left(until_ms))? {
                        return Err(silent());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn read(&self, length: usize) -> Result<zeroize::Zeroizing<Vec<u8>>, GssFailure> {
        let until_ms = self.until_ms();
        let mut bytes = zeroize::Zeroizing::new(vec![0; length]);
        let mut got = 0;
        while got < length {
            match sys::io::read(&self.socket, bytes.get_mut(got..).unwrap_or_default()) {
                Ok(0) => return Err(GssFailure::plain("the GSS-API process has ended")),
                Ok(count) => got += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !sys::io::wait_readable(&self.socket, left(until_ms))? {
                        return Err(silent());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(bytes)
    }

    /// Monotonic milliseconds of the end of a wait that begins now.
    fn until_ms(&self) -> Option<u64> {
        match self.wait {
            AnswerWait::Endless => None,
            AnswerWait::Each(wait) => Some(sys::time::monotonic_ms_after(wait)),
            AnswerWait::Until(until_ms) => Some(until_ms),
        }
    }

    fn step(&self, request: &HelperRequest) -> Result<ContextStep, GssFailure> {
        match self.call(request)? {
            HelperReply::Step(step) => Ok(step),
            _ => Err(unexpected()),
        }
    }

    fn mic(&self, data: Vec<u8>) -> Result<Vec<u8>, GssFailure> {
        match self.call(&HelperRequest::Sign { data })? {
            HelperReply::Mic(mic) => Ok(mic),
            _ => Err(unexpected()),
        }
    }

    fn client(&self, request: &HelperRequest) -> Result<Client, GssFailure> {
        match self.call(request)? {
            HelperReply::Client(client) => Ok(client),
            _ => Err(unexpected()),
        }
    }

    fn cached(&self, identity: Option<String>) -> Result<CachedCredential, GssFailure> {
        match self.call(&HelperRequest::Inquire { identity })? {
            HelperReply::Cached(cached) => Ok(cached),
            _ => Err(unexpected()),
        }
    }

    fn done(&self, request: &HelperRequest) -> Result<(), GssFailure> {
        match self.call(request)? {
            HelperReply::Done => Ok(()),
            _ => Err(unexpected()),
        }
    }
}

impl Drop for HelperProcess {
    fn drop(&mut self) {
        let _ = self.child.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

fn left(until_ms: Option<u64>) -> Option<Duration> {
    until_ms
        .map(|until_ms| Duration::from_millis(until_ms.saturating_sub(sys::time::monotonic_ms())))
}

fn silent() -> GssFailure {
    GssFailure::plain("the GSS-API process does not answer")
}

fn unexpected() -> GssFailure {
    GssFailure::plain("the GSS-API process gave a malformed answer")
}

/// What an initiator asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitiatorTerms {
    /// The service, `host@name`.
    pub service: String,
    /// The server gets the user's credentials.
    pub delegates: bool,
    /// The principal whose credentials are used; `None` for the default one.
    pub identity: Option<String>,
}

/// The client's side of a context, with the tickets of this process's user.
#[derive(Debug)]
pub struct KerberosInitiator(HelperProcess);

impl KerberosInitiator {
    /// Begins a context; returns the first token. May wait for a KDC. Each answer of the library is awaited for
    /// `wait`, or without a limit.
    ///
    /// # Errors
    /// [`GssFailure`] with the library's message, for example that there is no ticket.
    pub fn begin(
        terms: InitiatorTerms,
        wait: Option<Duration>,
    ) -> Result<(Self, ContextStep), GssFailure> {
        let helper = HelperProcess::of_user(wait)?;
        let first = helper.step(&HelperRequest::Initiate(terms))?;
        Ok((Self(helper), first))
    }

    /// Takes the server's token.
    ///
    /// # Errors
    /// [`GssFailure`] with the library's message, with a token for the server if there is one.
    pub fn step(&self, token: Vec<u8>) -> Result<ContextStep, GssFailure> {
        self.0.step(&HelperRequest::Token { token })
    }

    /// The MIC of `data` in the established context.
    ///
    /// # Errors
    /// [`GssFailure`] with the library's message.
    pub fn mic(&self, data: Vec<u8>) -> Result<Vec<u8>, GssFailure> {
        self.0.mic(data)
    }

    /// Verifies the server's MIC of `data` in the established context.
    ///
    /// # Errors
    /// [`GssFailure`] with the library's message; then the server has not proved who it is.
    pub fn verify(&self, data: Vec<u8>, mic: Vec<u8>) -> Result<(), GssFailure> {
        self.0.done(&HelperRequest::Verify { data, mic })
    }

    /// What the user's credential cache has now for the principal `identity`, or for the default one.
    ///
    /// # Errors
    /// [`GssFailure`] with the library's message.
    pub fn inquire(&self, identity: Option<String>) -> Result<CachedCredential, GssFailure> {
        self.0.cached(identity)
    }
}

/// What the user's credential cache has for the principal `identity`, or for the default one. Waits for `wait`.
///
/// # Errors
/// [`GssFailure`] with the library's message, for example that there is no cache.
pub fn inquire(identity: Option<String>, wait: Duration) -> Result<CachedCredential, GssFailure> {
    HelperProcess::of_user(Some(wait))?.cached(identity)
}

/// A process of a server that checks a password at the KDC, without rights and without the machine's key. The client's
/// side of a context whose acceptor has that key: a KDC that does not know the key cannot make the context's ticket.
#[derive(Debug)]
pub struct PasswordCheck(HelperProcess);

impl PasswordCheck {
    /// Starts the process, which changes to `ids` unless it is not root. All its answers are awaited until `until_ms`,
    /// in milliseconds of the monotonic clock.
    ///
    /// # Errors
    /// [`GssFailure`], for example that the library is not installed.
    pub fn start(
        executable: &SelfExe,
        ids: Option<UserIds>,
        until_ms: u64,
    ) -> Result<Self, GssFailure> {
        let helper = HelperProcess::of_server(executable, AnswerWait::Until(until_ms))?;
        helper.done(&HelperRequest::CheckPassword { ids })?;
        Ok(Self(helper))
    }

    /// Gets credentials of `user` at the KDC with the password, and with them proves the user to `acceptor`. Returns
    /// the principal with the credentials.
    ///
    /// # Errors
    /// [`GssFailure`] with the library's message, for example that the password is wrong; then nobody has proved
    /// anything.
    pub fn run(
        &self,
        user: &str,
        password: &[u8],
        acceptor: impl FnOnce() -> Result<KerberosAcceptor, GssFailure>,
    ) -> Result<Client, GssFailure> {
        let credential = match self.0.call(&HelperRequest::Password {
            user: user.to_owned(),
            password: zeroize::Zeroizing::new(password.to_vec()),
        })? {
            HelperReply::Credential(credential) => credential.0,
            _ => return Err(unexpected()),
        };
        let acceptor = acceptor()?;
        let mut token = Vec::new();
        for _ in 0..MAX_STEPS {
            token = self.0.step(&HelperRequest::Token { token })?.token;
            if !token.is_empty() {
                token = acceptor.step(token)?.token;
            }
            if token.is_empty() {
                break;
            }
        }
        // The acceptor keeps no record of tokens that it has seen. That this one is no copy is proved by the MIC of
        // a number that was never used before.
        let number = crypto::random::bytes::<32>().to_vec();
        let mut client = acceptor.verify(number.clone(), self.0.mic(number)?)?;
        client.credential = Some(credential);
        Ok(client)
    }
}

/// How an acceptor takes tickets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptorTerms {
    /// The ids that the process changes to; `None` if it is not root.
    pub ids: Option<UserIds>,
    /// Accept only for the service `host` of this machine's name, not for any key in the keytab.
    pub is_strict: bool,
    /// Accept credentials that the client delegates.
    pub takes_delegated: bool,
    /// Accept only a client that asks for a proof of this side, as in a key exchange.
    pub is_mutual: bool,
}

/// The server's side of a context.
#[derive(Debug)]
pub struct KerberosAcceptor(HelperProcess);

impl KerberosAcceptor {
    /// Starts an acceptor with the machine's keytab. Its answers are awaited until `until_ms` (monotonic milliseconds),
    /// or each for 10 s.
    ///
    /// # Errors
    /// [`GssFailure`] with the library's message, for example that the keytab has no key.
    pub fn start(
        executable: &SelfExe,
        terms: AcceptorTerms,
        until_ms: Option<u64>,
    ) -> Result<Self, GssFailure> {
        let helper = HelperProcess::of_server(executable, AnswerWait::of_server(until_ms))?;
        helper.done(&HelperRequest::Accept(terms))?;
        Ok(Self(helper))
    }

    /// Starts an acceptor and ends it, to learn whether the keytab has a key. Waits for `wait`: `Ok(false)` if the
    /// library has not said so by then.
    ///
    /// # Errors
    /// [`GssFailure`] with the library's message, for example that the keytab has no key.
    pub fn probe(
        executable: &SelfExe,
        terms: AcceptorTerms,
        wait: Duration,
    ) -> Result<bool, GssFailure> {
        let helper = HelperProcess::of_server(executable, AnswerWait::Each(wait))?;
        match helper.done(&HelperRequest::Accept(terms)) {
            Ok(()) => Ok(true),
            Err(failure) if failure == silent() => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Takes the client's token.
    ///
    /// # Errors
    /// [`GssFailure`] with the library's message, with a token for the client if there is one.
    pub fn step(&self, token: Vec<u8>) -> Result<ContextStep, GssFailure> {
        self.0.step(&HelperRequest::Token { token })
    }

    /// Verifies the client's MIC of `data` and names the client.
    ///
    /// # Errors
    /// [`GssFailure`] with the library's message; then nobody has proved anything.
    pub fn verify(&self, data: Vec<u8>, mic: Vec<u8>) -> Result<Client, GssFailure> {
        self.0.client(&HelperRequest::Verify { data, mic })
    }

    /// The MIC of `data` in the established context.
    ///
    /// # Errors
    /// [`GssFailure`] with the library's message.
    pub fn mic(&self, data: Vec<u8>) -> Result<Vec<u8>, GssFailure> {
        self.0.mic(data)
    }

    /// Names the client of the established context. The ticket may be a replayed one: only a MIC proves that it is
    /// the client who speaks.
    ///
    /// # Errors
    /// [`GssFailure`] with the library's message.
    pub fn client(&self) -> Result<Client, GssFailure> {
        self.0.client(&HelperRequest::Whom)
    }
}

/// True if the principal with this exported name may log in as `user`, whose ids the process takes on
/// (krb5_kuserok). The answer is awaited until `until_ms` (monotonic milliseconds), or for 10 s.
///
/// # Errors
/// [`GssFailure`] with the library's message.
pub fn authorize(
    executable: &SelfExe,
    ids: Option<UserIds>,
    name: Vec<u8>,
    user: &str,
    until_ms: Option<u64>,
) -> Result<bool, GssFailure> {
    let user = user.to_owned();
    let helper = HelperProcess::of_server(executable, AnswerWait::of_server(until_ms))?;
    match helper.call(&HelperRequest::Authorize { ids, name, user })? {
        HelperReply::Authorized(verdict) => Ok(verdict),
        _ => Err(unexpected()),
    }
}

/// Writes a delegated credential to a new file at `path` below /tmp, with the ids of its user.
///
/// # Errors
/// [`GssFailure`] with the library's message, or that the file exists.
pub fn store(
    executable: &SelfExe,
    ids: Option<UserIds>,
    credential: zeroize::Zeroizing<Vec<u8>>,
    path: &str,
) -> Result<(), GssFailure> {
    let path = path.to_owned();
    let helper = HelperProcess::of_server(executable, AnswerWait::of_server(None))?;
    helper.done(&HelperRequest::Store {
        ids,
        credential,
        path,
    })
}
