//! [`Provider`]: starts the process that reaches security keys, and asks it for one thing.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use keys::{PrivateKey, SecurityKeySignature};
use sys::process::{Child, ChildCommand, PrintedText, SelfExe};
use sys::signals::Signal;

use crate::message::{
    Credential, Enrollment, HelperReply, HelperRequest, HelperWork, ResidentKey, receive_until,
    send,
};
use crate::{CONTROL_FD, FORCE, FidoError, ROLE};

/// The name of the provider without a library.
pub const INTERNAL: &str = "internal";

/// Environment variables that libraries for security keys read; no other variables reach the process.
const ENVIRONMENT: &[&str] = &[
    "HOME", "LANG", "LANGUAGE", "LC_*", "TZ", "FIDO_*", "LIBUSB_*",
];

/// How security keys are reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// The library's path, or [`INTERNAL`].
    name: String,
    /// The program whose role reaches security keys; `None` for the running one.
    program: Option<PathBuf>,
    /// How long a request may take.
    limit: Option<Duration>,
}

impl Provider {
    /// The provider with this name: [`INTERNAL`] in any case of letters, or the path of a library,
    /// which is made absolute.
    ///
    /// # Errors
    /// A path that does not exist or is not UTF-8; the reason in words.
    pub fn new(name: &str) -> Result<Self, String> {
        let named = |name: String| Self {
            name,
            program: None,
            limit: None,
        };
        if name.eq_ignore_ascii_case(INTERNAL) {
            return Ok(named(INTERNAL.to_owned()));
        }
        let path = std::fs::canonicalize(name)
            .map_err(|error| escape::system_words(&error.to_string()).into_owned())?;
        path.into_os_string()
            .into_string()
            .map(named)
            .map_err(|_| "its path is not UTF-8".to_owned())
    }

    /// The same, reached by a process of this program, which is an installed `fulmar` or
    /// `ssh-sk-helper` of the same version, instead of the running program.
    #[must_use]
    pub fn by_program(self, program: &Path) -> Self {
        Self {
            program: Some(program.to_owned()),
            ..self
        }
    }

    /// The same, with a limit on the time of each request, after which its process is ended. Without one
    /// a request waits as long as its token does.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self {
            limit: Some(limit),
            ..self
        }
    }

    /// The library's path, or [`INTERNAL`].
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True if no library is loaded.
    #[must_use]
    pub fn is_internal(&self) -> bool {
        self.name == INTERNAL
    }

    /// Signs `data` with a key of a security key; gives the signature blob. Waits for the touch.
    ///
    /// # Errors
    /// [`FidoError`]; [`FidoError::PinRequired`] if a PIN is needed or `pin` is wrong.
    pub fn sign(
        &self,
        key: &PrivateKey,
        data: &[u8],
        pin: Option<&[u8]>,
    ) -> Result<Vec<u8>, FidoError> {
        self.start_signing(key, data, pin)?.signature(key)
    }

    /// Starts what [`Provider::sign`] does, and returns before the token answers.
    ///
    /// # Errors
    /// As [`Provider::sign`].
    pub fn start_signing(
        &self,
        key: &PrivateKey,
        data: &[u8],
        pin: Option<&[u8]>,
    ) -> Result<RunningRequest, FidoError> {
        let parts = key
            .security_key()
            .ok_or_else(|| FidoError::failed("not a security key"))?;
        let application = core::str::from_utf8(parts.application)
            .map_err(|_| FidoError::failed("the key's application is not text"))?;
        self.start(
            pin,
            None,
            HelperWork::Sign {
                key_type: key.key_type(),
                application,
                handle: parts.handle,
                flags: parts.flags & !FORCE,
                data,
            },
        )
    }

    /// Makes a key in a token. Waits for the user's touch, at most the time that the token allows.
    ///
    /// # Errors
    /// [`FidoError::PinRequired`] if a PIN is needed or wrong, [`FidoError::CredentialExists`] if the token
    /// stores a key of the same application and user and [`crate::FORCE`] is not set; other errors as they
    /// come from the token.
    pub fn enroll(&self, enrollment: &Enrollment<'_>) -> Result<Credential, FidoError> {
        let work = HelperWork::Enroll {
            key_type: enrollment.key_type,
            application: enrollment.application,
            user: enrollment.user,
            challenge: enrollment.challenge,
            flags: enrollment.flags,
        };
        let running = self.start(enrollment.pin, enrollment.device, work)?;
        let HelperReply::Keys(keys) = running.reply()? else {
            return Err(FidoError::failed("bad answer"));
        };
        let [made] = keys.as_slice() else {
            return Err(FidoError::failed("bad answer"));
        };
        if made.key_type != enrollment.key_type || made.application != enrollment.application {
            return Err(FidoError::failed("the token made another key"));
        }
        Ok(Credential {
            key: made.private_key()?,
            attestation: made.attestation.clone(),
        })
    }

    /// Lists the keys that the token stores for applications which begin with
    /// [`crate::APPLICATION_PREFIX`].
    ///
    /// # Errors
    /// [`FidoError::PinRequired`] without the right PIN, which tokens need for this; other errors as they
    /// come from the token.
    pub fn resident_keys(
        &self,
        device: Option<&str>,
        pin: Option<&[u8]>,
    ) -> Result<Vec<ResidentKey>, FidoError> {
        let running = self.start(pin, device, HelperWork::ListResident)?;
        let HelperReply::Keys(keys) = running.reply()? else {
            return Err(FidoError::failed("bad answer"));
        };
        keys.iter()
            .filter(|key| key.application.starts_with(crate::APPLICATION_PREFIX))
            .map(|key| {
                Ok(ResidentKey {
                    key: key.private_key()?,
                    user: key.user.clone(),
                })
            })
            .collect()
    }

    fn start(
        &self,
        pin: Option<&[u8]>,
        device: Option<&str>,
        work: HelperWork<'_>,
    ) -> Result<RunningRequest, FidoError> {
        let failed = |error: io::Error| {
            let words = error.to_string();
            let words = escape::system_words(&words);
            FidoError::Failed(format!("cannot start {ROLE}: {words}"))
        };
        let mut running = RunningRequest::start(self.program.as_deref()).map_err(failed)?;
        running.limit = self.limit;
        let request = HelperRequest {
            provider: &self.name,
            pin,
            device,
            work,
        };
        send(&running.socket, &request.encode()).map_err(failed)?;
        Ok(running)
    }
}

/// A request whose process runs. Dropping it ends the process.
#[derive(Debug)]
pub struct RunningRequest {
    child: Child,
    socket: OwnedFd,
    printed: PrintedText,
    limit: Option<Duration>,
}

impl RunningRequest {
    fn start(program: Option<&Path>) -> io::Result<Self> {
        let (socket, theirs) = sys::socket::local::stream_pair()?;
        let (printed, prints) = PrintedText::new(ROLE)?;
        let mut command = match program {
            Some(program) => ChildCommand::new(program),
            None => SelfExe::open()?.command()?,
        };
        command
            .arg("fulmar")
            .arg(ROLE)
            .inherit_env_of(ENVIRONMENT)
            .fd(sys::io::null()?, 0)
            .fd(sys::io::null()?, 1)
            .fd(prints, 2)
            .fd(theirs, CONTROL_FD)
            .current_dir("/")
            // It has no controlling terminal then.
            .new_session()
            .death_signal(Signal::KILL)
            .no_new_privs();
        Ok(Self {
            child: command.spawn()?,
            socket,
            printed,
            limit: None,
        })
    }

    /// Waits for the signature of [`Provider::start_signing`] with the same key.
    ///
    /// # Errors
    /// [`FidoError`].
    pub fn signature(self, key: &PrivateKey) -> Result<Vec<u8>, FidoError> {
        let HelperReply::Signed(signature) = self.reply()? else {
            return Err(FidoError::failed("bad answer"));
        };
        let signature = SecurityKeySignature {
            r: &signature.r,
            s: &signature.s,
            flags: signature.flags,
            counter: signature.counter,
        };
        Ok(signature.blob(key.key_type())?)
    }

    /// A socket whose shutdown ends the request, from any thread.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn canceller(&self) -> io::Result<OwnedFd> {
        sys::io::dup(&self.socket)
    }

    fn reply(mut self) -> Result<HelperReply, FidoError> {
        let deadline = self.limit.map(|limit| Instant::now() + limit);
        let waited = self.printed.show_until_readable(&self.socket, self.limit);
        let reply = match waited.and_then(|()| receive_until(&self.socket, deadline)) {
            Ok(bytes) => HelperReply::decode(&bytes)?,
            // Its process is ended when this is dropped.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(FidoError::failed("no token has answered in time"));
            }
            Err(_) => {
                // It has ended, or the request was cancelled.
                let _ = self.child.signal(Signal::KILL);
                let ended = self.child.wait().map_err(FidoError::failed)?;
                return Err(FidoError::Failed(format!("{ROLE} has ended: {ended:?}")));
            }
        };
        match reply {
            HelperReply::Failed(error) => Err(error),
            reply => Ok(reply),
        }
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        let _ = self.child.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}
