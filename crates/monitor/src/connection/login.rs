//! Serves the auth process from the first exchange hash to a completed chain (RFC 4252).
//!
//! Invariants: every refusal takes the same path, with the delay and the failure count; a proof
//! becomes a login only through [`Chains::succeed`](super::chains::Chains), after PermitRootLogin
//! and before the account check; the only successful exit returns an [`Authenticated`].

mod gssapi;
mod methods;
mod password;

use std::time::Duration;

use privsep::{AuthOutcome, LogLevel, LoginPhase, SignExchangeHash, Signature, ToMonitor, User};
use wire::names;

use super::admit::{Proof, admit, check_account, record_failure};
use super::audit::{self, Attempt};
use super::chains::{Authenticated, ChainMethod, ChainProgress};
use super::channel::{RpcChannel, RpcEnd};
use super::configuration::Configuration;
use super::early_session::{EarlySession, SessionProcess};
use super::groups::choose_group;
use super::gss_exchange::OpenExchange;
use super::kerberos::Kerberos;
use super::publickey::RevokedKeys;
use super::reports::{AttemptCounts, AttemptOutcome};
use super::signing::{Signer, SigningRefusal};
use super::user::{Addresses, LoginUser, MAX_REQUESTS};
use crate::log::{Log, PREAUTH};

/// The only submethod of keyboard-interactive.
const SUBMETHOD_PAM: &str = "pam";
/// Log word for a request after which the client continues with the same method.
const POSTPONED: &str = "Postponed";
/// Passed to PAM instead of the client's input for a user who may not log in: no terminal can have
/// produced it as a password.
const NO_PASSWORD: &[u8] = b"\x08\n\r\x7fINCORRECT";

/// Why nobody logged in.
#[derive(Debug)]
pub(crate) enum NotLoggedIn {
    /// The auth process has ended or must be ended.
    End(RpcEnd),
    /// MaxAuthTries was reached; the reply was sent.
    TooMany,
    /// `RefuseConnection` in a Match block that applies once the user is known.
    Refused,
}

impl From<RpcEnd> for NotLoggedIn {
    fn from(end: RpcEnd) -> Self {
        Self::End(end)
    }
}

/// An attempt as it is logged.
struct Label {
    method: ChainMethod,
    /// Description of the key, or empty.
    detail: String,
    /// True if a failure of the attempt is logged. As in OpenSSH, whose lines are counted, that
    /// excludes methods that this user cannot use now, and keys offered by a user who may not log
    /// in.
    is_tried: bool,
    /// True if the client only asked whether the key is acceptable.
    is_question: bool,
    /// True if a failure does not count for MaxAuthTries: `none` as the first request, with which a
    /// client asks for the methods, and the first questions for keys.
    is_free: bool,
    /// True if a KDC alone has decided on a password.
    is_by_kdc: bool,
}

impl Label {
    fn of(method: ChainMethod, is_tried: bool) -> Self {
        Self {
            method,
            detail: String::new(),
            is_tried,
            is_question: false,
            is_free: false,
            is_by_kdc: false,
        }
    }
}

/// State of serving one auth process.
pub(crate) struct AuthService<'c, 'n, 'l> {
    pub(crate) channel: RpcChannel<'l>,
    pub(crate) signer: Signer,
    pub(crate) config: &'c Configuration,
    pub(crate) addresses: &'c Addresses,
    pub(crate) delay_secret: &'c [u8],
    pub(crate) log: &'l Log,
    pub(crate) user: Option<LoginUser>,
    /// Revocation lists, parsed once for all keys that the client offers.
    pub(crate) revoked: RevokedKeys,
    /// The session process, which may start before the login.
    pub(crate) ahead: EarlySession<'n>,
    pub(crate) kerberos: Kerberos<'n>,
    /// The first key exchange, if it is by GSS-API.
    pub(crate) gss: Option<OpenExchange>,
    /// For the metrics.
    pub(crate) attempts: AttemptCounts,
}

impl<'l> AuthService<'_, '_, 'l> {
    /// Returns the parts that the session needs.
    pub(crate) fn into_parts(
        self,
    ) -> (
        RpcChannel<'l>,
        Signer,
        Option<LoginUser>,
        Option<SessionProcess>,
    ) {
        let process = self.ahead.into_started();
        (self.channel, self.signer, self.user, process)
    }

    /// Serves requests until a chain is complete.
    ///
    /// # Errors
    /// [`NotLoggedIn`].
    pub(crate) fn run(&mut self) -> Result<Authenticated, NotLoggedIn> {
        loop {
            let request = self.channel.request()?;
            if let Some(proof) = self.handle(request)? {
                self.channel.set_phase(LoginPhase::Authenticated);
                self.channel.send(&AuthOutcome::Success)?;
                return Ok(proof);
            }
        }
    }

    fn handle(&mut self, request: ToMonitor) -> Result<Option<Authenticated>, NotLoggedIn> {
        match request {
            ToMonitor::ChooseGroup(request) => {
                self.signer
                    .allow_group(false, sys::time::monotonic_ms())
                    .map_err(|refusal| self.refused(&refusal))?;
                let group = choose_group(
                    &request,
                    &self.config.global().algorithms.moduli_file,
                    self.log,
                );
                self.channel.send(&group)?;
                Ok(None)
            }
            ToMonitor::SignExchangeHash(request) => {
                self.sign(&request)?;
                Ok(None)
            }
            ToMonitor::GssExchange(request) => {
                self.exchange_keys(request)?;
                Ok(None)
            }
            ToMonitor::User(request) => {
                self.name_user(&request)?;
                Ok(None)
            }
            attempt => self.attempt(attempt),
        }
    }

    fn sign(&mut self, request: &SignExchangeHash) -> Result<(), NotLoggedIn> {
        let now_ms = sys::time::monotonic_ms();
        let blob = self
            .signer
            .sign_exchange_hash(request, false, now_ms)
            .map_err(|refusal| self.refused(&refusal))?;
        self.channel.set_phase(LoginPhase::BeforeUser);
        self.channel.send(&Signature { blob })?;
        if request.expects_login {
            self.ahead.start(self.log);
        }
        Ok(())
    }

    fn refused(&self, refusal: &SigningRefusal) -> RpcEnd {
        match refusal {
            SigningRefusal::Violation(what) => RpcEnd::Violation((*what).to_owned()),
            SigningRefusal::Rate(_) => RpcEnd::Violation("too many signatures".to_owned()),
            SigningRefusal::Key(error) => {
                self.log.error(&format!("host key cannot sign: {error}"));
                RpcEnd::Closed
            }
        }
    }

    fn name_user(&mut self, request: &User) -> Result<(), NotLoggedIn> {
        if request.service != names::SERVICE_CONNECTION {
            return Err(RpcEnd::Violation("service is not ssh-connection".to_owned()).into());
        }
        let started_us = sys::time::monotonic_us();
        let user = LoginUser::new(
            request,
            self.config,
            self.addresses,
            self.delay_secret,
            self.log,
            self.signer.is_by_gss(),
            started_us,
        );
        if user.options.connection.refuse_connection {
            self.log.info(&format!(
                "administratively prohibited connection for {}",
                user.from()
            ));
            self.user = Some(user);
            return Err(NotLoggedIn::Refused);
        }
        let policy = user.policy();
        self.user = Some(user);
        self.channel.set_phase(LoginPhase::Authenticating);
        // The first attempt follows the user's name at once, and the auth process waits for both
        // replies.
        self.channel.send_with_next(&policy);
        Ok(())
    }

    /// Serves one authentication request; all methods share the counting, logging and delay.
    fn attempt(&mut self, request: ToMonitor) -> Result<Option<Authenticated>, NotLoggedIn> {
        let user = self.user.as_mut().ok_or_else(no_user)?;
        user.tries.requests += 1;
        if user.tries.requests > 1 {
            user.started_us = sys::time::monotonic_us();
        }
        // With MaxAuthTries 0 the first request already exceeds the limit, and a valid key in it is
        // not checked.
        let is_none = matches!(request, ToMonitor::AuthNone(_));
        let is_probe = is_none && user.tries.requests == 1;
        let no_tries_left = user.tries.failures >= user.options.authentication.max_auth_tries;
        if no_tries_left || user.tries.requests > MAX_REQUESTS {
            // A question has an answer of its own.
            return match request {
                ToMonitor::KeyQuery(_) => self.refuse_query(true).map(|()| None),
                _ => Err(self.too_many()?),
            };
        }
        if is_none && self.answer_probe()? {
            return Ok(None);
        }
        if matches!(
            request,
            ToMonitor::KeyVerify(_) | ToMonitor::HostbasedVerify(_) | ToMonitor::GssapiKeyex(_)
        ) {
            // A client that signs expects to be let in. Nothing is known of the user here, so that
            // the time this takes reveals nothing.
            self.ahead.start(self.log);
        }
        self.ask_for_user();
        let (mut label, tried) = match request {
            ToMonitor::AuthNone(_) => self.try_password(ChainMethod::None, b"")?,
            ToMonitor::AuthOther(request) => {
                let method = log_name(request.method);
                self.log.debug(&format!("method {method} is not served"));
                (Label::of(ChainMethod::None, false), None)
            }
            ToMonitor::AuthPassword(request) => {
                self.try_password(ChainMethod::Password, request.password.expose())?
            }
            ToMonitor::KbdintStart(request) => match self.try_kbdint(&request)? {
                Some(tried) => tried,
                // The client changed to another method; that request is served next.
                None => return Ok(None),
            },
            ToMonitor::KeyQuery(request) => {
                self.answer_query(&request)?;
                return Ok(None);
            }
            ToMonitor::KeyVerify(request) => self.try_key(&request)?,
            ToMonitor::HostbasedVerify(request) => self.try_host(&request)?,
            ToMonitor::GssapiStart(_) => match self.try_gssapi()? {
                Some(tried) => tried,
                None => return Ok(None),
            },
            ToMonitor::GssapiKeyex(request) => self.try_gssapi_keyex(request.mic)?,
            _ => return Err(RpcEnd::Violation("request in the wrong phase".to_owned()).into()),
        };
        label.is_free = is_probe;
        if !is_none {
            self.note_attempt();
        }
        self.conclude(&label, tried)
    }

    /// Answers `none` as the first request, with which most clients ask for the methods, without
    /// the delay of a failure. Returns false if the request must be tried like any other.
    ///
    /// The response time reveals nothing: no database was asked for the user, and the list of
    /// methods depends only on the configuration and the name. If it depends on the account (Match
    /// Group, Match Invalid-User), or if `none` may succeed (PermitEmptyPasswords), the account has
    /// been or must be looked up, and the answer is delayed like a failure. The next request looks
    /// the user up within its own delay.
    fn answer_probe(&mut self) -> Result<bool, NotLoggedIn> {
        let user = self.user.as_mut().ok_or_else(no_user)?;
        if user.tries.requests > 1 || !user.is_unasked() || user.chains.allows(ChainMethod::None) {
            return Ok(false);
        }
        let methods = self.methods();
        self.channel.send(&AuthOutcome::Failure { methods })?;
        Ok(true)
    }

    /// Looks up the named user's account, unless that was done.
    pub(crate) fn ask_for_user(&mut self) {
        if let Some(user) = self.user.as_mut().filter(|user| user.is_unasked()) {
            user.ask(self.log);
        }
    }

    fn note_attempt(&mut self) {
        if let Some(user) = &mut self.user {
            user.tries.attempted = true;
        }
    }

    /// Evaluates a method's proof, sends the answer and returns the login if the chain is complete.
    fn conclude(
        &mut self,
        label: &Label,
        tried: Option<Proof>,
    ) -> Result<Option<Authenticated>, NotLoggedIn> {
        let user = self.user.as_mut().ok_or_else(no_user)?;
        let progress = match tried {
            None => ChainProgress::NotAsked,
            Some(proof) => admit(user, label.method, proof, self.log),
        };
        match progress {
            ChainProgress::Complete(proof) => {
                if !check_account(user, self.log) {
                    return self.deny(label);
                }
                self.attempts.count(label.method, AttemptOutcome::Accepted);
                self.log_attempt("Accepted", label, true);
                self.warn_of_old_algorithms();
                self.audit(label, true);
                Ok(Some(proof))
            }
            ChainProgress::Partial => {
                self.attempts.count(label.method, AttemptOutcome::Partial);
                self.log_attempt("Partial", label, false);
                self.audit(label, true);
                let methods = self.methods();
                self.channel.send(&AuthOutcome::Partial { methods })?;
                Ok(None)
            }
            ChainProgress::NotAsked => self.fail(label),
        }
    }

    fn fail(&mut self, label: &Label) -> Result<Option<Authenticated>, NotLoggedIn> {
        let exceeded = self.count_failure(label)?;
        if exceeded {
            return Err(self.too_many()?);
        }
        let methods = self.methods();
        self.channel.send(&AuthOutcome::Failure { methods })?;
        Ok(None)
    }

    /// Rejects a login after the account check; the reply carries PAM's messages, which only a user
    /// who has completed the chain may see.
    fn deny(&mut self, label: &Label) -> Result<Option<Authenticated>, NotLoggedIn> {
        if self.count_failure(label)? {
            return Err(self.too_many()?);
        }
        let methods = self.methods();
        let pam = self.user.as_ref().and_then(|user| user.pam.as_ref());
        let said = pam.map(|pam| pam.messages().to_owned()).unwrap_or_default();
        self.channel.send(&AuthOutcome::Denied { methods, said })?;
        Ok(None)
    }

    /// Counts, logs and delays a failure; returns true if MaxAuthTries is reached.
    fn count_failure(&mut self, label: &Label) -> Result<bool, NotLoggedIn> {
        let user = self.user.as_mut().ok_or_else(no_user)?;
        // A free request is delayed like a failure, but not counted.
        if !label.is_free {
            user.tries.failures += 1;
        }
        let exceeded = user.tries.failures >= user.options.authentication.max_auth_tries;
        record_failure(user, label.method, self.addresses, self.log);
        if label.is_tried {
            self.attempts.count(label.method, AttemptOutcome::Failed);
            self.log_attempt("Failed", label, false);
            self.audit(label, false);
        }
        let user = self.user.as_mut().ok_or_else(no_user)?;
        user.tries.guesses += u32::from(label.is_tried && !label.is_question);
        // What the lines and records above take depends on whether the user exists.
        let elapsed_us = sys::time::monotonic_us().saturating_sub(user.started_us);
        let wait = Duration::from_micros(user.delay.remaining_us(elapsed_us));
        let left = self.channel.time_left()?;
        std::thread::sleep(left.map_or(wait, |left| left.min(wait)));
        Ok(exceeded)
    }

    fn too_many(&mut self) -> Result<NotLoggedIn, NotLoggedIn> {
        self.log_too_many()?;
        self.channel.send(&AuthOutcome::TooManyFailures)?;
        Ok(NotLoggedIn::TooMany)
    }

    fn log_too_many(&self) -> Result<(), NotLoggedIn> {
        let user = self.user.as_ref().ok_or_else(no_user)?;
        let what = format!(
            "maximum authentication attempts exceeded for {} ssh2",
            user.from()
        );
        self.log.marked(LogLevel::Error, &what, PREAUTH);
        let end = format!(
            "Disconnecting {}: Too many authentication failures",
            user.who()
        );
        self.log.marked(LogLevel::Info, &end, PREAUTH);
        Ok(())
    }

    fn methods(&self) -> Vec<String> {
        self.user
            .as_ref()
            .map(|user| user.chains.methods())
            .unwrap_or_default()
    }

    fn audit(&self, label: &Label, succeeded: bool) {
        let Some(user) = &self.user else { return };
        let asks_pam = matches!(
            label.method,
            ChainMethod::Password | ChainMethod::KeyboardInteractive
        );
        let attempt = Attempt {
            method: label.method,
            name: user.account().map(|account| account.name.as_str()),
            key: &label.detail,
            by_pam: asks_pam && user.options.authentication.use_pam && !label.is_by_kdc,
            succeeded,
        };
        audit::attempt(&attempt, self.addresses);
    }

    fn log_attempt(&self, verdict: &str, label: &Label, authenticated: bool) {
        if let Some(user) = &self.user {
            let (level, line, mark) = attempt_line(user, verdict, label, authenticated);
            self.log.marked(level, &line, mark);
        }
    }

    /// `WarnWeakCrypto`: logs, once for a login, which algorithms of its proofs only old devices need. The
    /// auth process logs those of the connection.
    fn warn_of_old_algorithms(&self) {
        let warned = self.user.as_ref().filter(|user| {
            let told = user.options.algorithms.warn_weak_crypto;
            told.warns_of_old_algorithms() && !user.old_algorithms.is_empty()
        });
        if let Some(user) = warned {
            let (address, port) = (&user.peer.address, user.peer.port);
            self.log.info(&format!(
                "WARNING: login from {address} port {port} is using weak algorithms of old devices: {}",
                user.old_algorithms.join(", ")
            ));
        }
    }
}

/// Makes the log line of an attempt, with its level and suffix.
fn attempt_line(
    user: &LoginUser,
    verdict: &str,
    label: &Label,
    authenticated: bool,
) -> (LogLevel, String, &'static str) {
    let loud = authenticated
        || user.account().is_none()
        || user.tries.guesses >= user.options.authentication.max_auth_tries / 2
        || label.method == ChainMethod::Password;
    let level = if loud {
        LogLevel::Info
    } else {
        LogLevel::Verbose
    };
    // OpenSSH logs this line in its unprivileged process, hence the suffix.
    let is_postponed = verdict == POSTPONED;
    let submethod = match label.method {
        ChainMethod::KeyboardInteractive if !is_postponed => "/pam",
        _ => "",
    };
    let detail = match label.detail.as_str() {
        detail if !detail.is_empty() && !is_postponed => format!(": {detail}"),
        _ => String::new(),
    };
    let mark = if is_postponed { PREAUTH } else { "" };
    let method = label.method.name();
    let from = user.from();
    let line = format!("{verdict} {method}{submethod} for {from} ssh2{detail}");
    (level, line, mark)
}

/// A method's name for the log. RFC 4251 §6 permits neither blanks nor commas in names, nor more
/// than 64 bytes; any other text could forge an event.
fn log_name(name: String) -> String {
    let plain = (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b',');
    if plain { name } else { "unknown".to_owned() }
}

fn no_user() -> RpcEnd {
    RpcEnd::Violation("no user was named".to_owned())
}

#[cfg(test)]
#[path = "login_tests.rs"]
mod tests;
