//! Serves the auth process from the first exchange hash to a completed chain (RFC 4252).
//!
//! Invariants: every refusal takes the same way out, with the delay and the count; what a
//! method proved becomes a login only through [`Chains::succeed`](super::chains::Chains), after
//! PermitRootLogin and with the account check behind it; the only way out with success carries
//! an [`Authenticated`].

use std::time::Duration;

use config::server::ServerConfig;
use keys::authorized_keys::KeyOptions;
use privsep::{
    AuthOutcome, ChooseGroup, Group, KbdintStart, KeyAnswer, KeyQuery, KeyVerify, LogLevel, Phase,
    SignExchangeHash, Signature, ToMonitor, User,
};
use wire::names;

use super::chains::{Authenticated, Method, Progress};
use super::channel::{Channel, End};
use super::kbdint::{Dialogue, Interrupted};
use super::pam::{AccountState, PamLogin, SayPassword};
use super::password;
use super::publickey::{Candidate, Lookup, SignedFor};
use super::signing::{Refusal, Signer};
use super::user::{Addresses, LoginUser, MAX_REQUESTS};
use crate::log::Log;

/// The one submethod of keyboard-interactive.
const SUBMETHOD_PAM: &str = "pam";
/// Given to PAM instead of what a client typed for a user who may not log in: no terminal can
/// have made it a password.
const NO_PASSWORD: &[u8] = b"\x08\n\r\x7fINCORRECT";

/// Why nobody logged in.
#[derive(Debug)]
pub(crate) enum NotLoggedIn {
    /// The auth process is gone or must go.
    End(End),
    /// MaxAuthTries; the client has been told.
    TooMany,
}

impl From<End> for NotLoggedIn {
    fn from(end: End) -> Self {
        Self::End(end)
    }
}

/// What a method proved, before anything but the method itself was asked.
#[derive(Default)]
struct Proof {
    submethod: Option<&'static str>,
    key: Option<Vec<u8>>,
    grants: Option<KeyOptions>,
    info: Option<String>,
}

/// An attempt, for the log.
struct Label {
    method: Method,
    /// Name in the log; the method's own but for unknown ones.
    name: String,
    /// Key or nothing.
    detail: String,
}

impl Label {
    fn of(method: Method) -> Self {
        Self {
            method,
            name: method.name().to_owned(),
            detail: String::new(),
        }
    }
}

/// The serving of one auth process.
pub(crate) struct Login<'c> {
    pub(crate) channel: Channel<'c>,
    pub(crate) signer: Signer,
    pub(crate) config: &'c ServerConfig,
    pub(crate) addresses: &'c Addresses,
    pub(crate) delay_secret: &'c [u8],
    pub(crate) log: &'c Log,
    pub(crate) user: Option<LoginUser>,
}

impl Login<'_> {
    /// Serves until a chain is complete.
    ///
    /// # Errors
    /// [`NotLoggedIn`].
    pub(crate) fn run(&mut self) -> Result<Authenticated, NotLoggedIn> {
        loop {
            let request = self.channel.request()?;
            if let Some(proof) = self.handle(request)? {
                self.channel.set_phase(Phase::Authenticated);
                self.channel.send(&AuthOutcome::Success)?;
                return Ok(proof);
            }
        }
    }

    fn handle(&mut self, request: ToMonitor) -> Result<Option<Authenticated>, NotLoggedIn> {
        match request {
            ToMonitor::ChooseGroup(request) => {
                let group = choose_group(&request, &self.config.global().moduli_file, self.log);
                self.channel.send(&group)?;
                Ok(None)
            }
            ToMonitor::SignExchangeHash(request) => {
                self.sign(&request)?;
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
        self.channel.set_phase(Phase::BeforeUser);
        self.channel.send(&Signature { blob })?;
        Ok(())
    }

    fn refused(&self, refusal: &Refusal) -> End {
        match refusal {
            Refusal::Violation(what) => End::Violation((*what).to_owned()),
            Refusal::Rate => End::Violation("too many signatures".to_owned()),
            Refusal::Key(error) => {
                self.log.error(&format!("host key cannot sign: {error}"));
                End::Closed
            }
        }
    }

    fn name_user(&mut self, request: &User) -> Result<(), NotLoggedIn> {
        if request.service != names::SERVICE_CONNECTION {
            return Err(End::Violation("service is not ssh-connection".to_owned()).into());
        }
        let started_us = sys::time::monotonic_us();
        let user = LoginUser::new(
            request,
            self.config,
            self.addresses,
            self.delay_secret,
            self.log,
            started_us,
        );
        let policy = user.policy();
        self.user = Some(user);
        self.channel.set_phase(Phase::Authenticating);
        self.channel.send(&policy)?;
        Ok(())
    }

    /// One request of the client, answered in the one way that there is for all.
    fn attempt(&mut self, request: ToMonitor) -> Result<Option<Authenticated>, NotLoggedIn> {
        let user = self.user.as_mut().ok_or_else(no_user)?;
        user.tries.requests += 1;
        if user.tries.requests > 1 {
            user.started_us = sys::time::monotonic_us();
        }
        if user.tries.requests > MAX_REQUESTS {
            return Err(self.too_many()?);
        }
        let (label, tried) = match request {
            ToMonitor::AuthNone(_) => (
                Label::of(Method::None),
                self.try_password(Method::None, b"")?,
            ),
            ToMonitor::AuthOther(request) => {
                let label = Label {
                    method: Method::None,
                    name: request.method,
                    detail: String::new(),
                };
                self.note_attempt();
                (label, None)
            }
            ToMonitor::AuthPassword(request) => (
                Label::of(Method::Password),
                self.try_password(Method::Password, request.password.expose())?,
            ),
            ToMonitor::KbdintStart(request) => match self.try_kbdint(&request)? {
                Some(tried) => (Label::of(Method::KeyboardInteractive), tried),
                // The client went on to another method, which is served next.
                None => return Ok(None),
            },
            ToMonitor::KeyQuery(request) => {
                self.answer_query(&request)?;
                return Ok(None);
            }
            ToMonitor::KeyVerify(request) => self.try_key(&request)?,
            _ => return Err(End::Violation("request out of place".to_owned()).into()),
        };
        if label.method != Method::None {
            self.note_attempt();
        }
        self.conclude(&label, tried)
    }

    fn note_attempt(&mut self) {
        if let Some(user) = &mut self.user {
            user.tries.attempted = true;
        }
    }

    /// From what a method proved to the answer.
    fn conclude(
        &mut self,
        label: &Label,
        tried: Option<Proof>,
    ) -> Result<Option<Authenticated>, NotLoggedIn> {
        let user = self.user.as_mut().ok_or_else(no_user)?;
        let progress = match tried {
            None => Progress::NotAsked,
            Some(proof) => admit(user, label.method, proof, self.log),
        };
        match progress {
            Progress::Complete(proof) => {
                if !check_account(user, self.log) {
                    return self.fail(label);
                }
                self.log_attempt("Accepted", label, true);
                Ok(Some(proof))
            }
            Progress::Partial => {
                self.log_attempt("Partial", label, false);
                let methods = self.methods();
                self.channel.send(&AuthOutcome::Partial { methods })?;
                Ok(None)
            }
            Progress::NotAsked => self.fail(label),
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

    /// Counts, logs and delays a failure; true when it was one too many.
    fn count_failure(&mut self, label: &Label) -> Result<bool, NotLoggedIn> {
        let user = self.user.as_mut().ok_or_else(no_user)?;
        // The first `none` only asks which methods there are.
        let asks = label.name == names::METHOD_NONE && user.tries.requests == 1;
        if !asks {
            user.tries.failures += 1;
        }
        let exceeded = user.tries.failures >= user.options.max_auth_tries;
        record_failure(user, label.method, self.addresses, self.log);
        let elapsed_us = sys::time::monotonic_us().saturating_sub(user.started_us);
        let pad = Duration::from_micros(user.delay.remaining_us(elapsed_us));
        self.log_attempt("Failed", label, false);
        std::thread::sleep(pad);
        Ok(exceeded)
    }

    fn too_many(&mut self) -> Result<NotLoggedIn, NotLoggedIn> {
        let user = self.user.as_ref().ok_or_else(no_user)?;
        self.log.error(&format!(
            "maximum authentication attempts exceeded for {} ssh2",
            user.from()
        ));
        self.channel.send(&AuthOutcome::TooManyFailures)?;
        Ok(NotLoggedIn::TooMany)
    }

    fn methods(&self) -> Vec<String> {
        self.user
            .as_ref()
            .map(|user| user.chains.methods())
            .unwrap_or_default()
    }

    fn log_attempt(&self, verdict: &str, label: &Label, authenticated: bool) {
        let Some(user) = &self.user else { return };
        let loud = authenticated
            || user.account.is_none()
            || user.tries.failures >= user.options.max_auth_tries / 2
            || label.method == Method::Password;
        let level = if loud {
            LogLevel::Info
        } else {
            LogLevel::Verbose
        };
        let submethod = if label.method == Method::KeyboardInteractive {
            "/pam"
        } else {
            ""
        };
        let detail = if label.detail.is_empty() {
            String::new()
        } else {
            format!(": {}", label.detail)
        };
        self.log.line(
            level,
            &format!(
                "{verdict} {}{submethod} for {} ssh2{detail}",
                label.name,
                user.from()
            ),
        );
    }

    // ---- the methods ----

    /// `password`, and `none` as an empty one where PermitEmptyPasswords lets it.
    fn try_password(&mut self, method: Method, given: &[u8]) -> Result<Option<Proof>, NotLoggedIn> {
        let user = self.user.as_mut().ok_or_else(no_user)?;
        if !user.chains.allows(method) {
            return Ok(None);
        }
        let may = user
            .account
            .as_ref()
            .is_some_and(|account| account.root_may(&user.options, method, false));
        let matched = if user.options.use_pam {
            let fits = may
                && given.len() <= password::MAX_PASSWORD_BYTES
                && (!given.is_empty() || user.options.permit_empty_passwords);
            let password = if fits { given } else { NO_PASSWORD };
            with_pam(user, self.log, |pam, permit_empty| {
                pam.authenticate(permit_empty, &mut SayPassword::new(password))
            }) && fits
        } else {
            let typical = password::typical_entry();
            let account = user.account.as_ref();
            password::check(
                &password::Stored {
                    shadow: account.and_then(|account| account.shadow.as_ref()),
                    like: typical.as_ref(),
                    permit_empty: user.options.permit_empty_passwords,
                },
                given,
                self.log,
            )
        };
        Ok(if matched {
            Some(Proof {
                info: Some(method.name().to_owned()),
                ..Proof::default()
            })
        } else {
            None
        })
    }

    /// `keyboard-interactive`; none when the client went on to something else.
    fn try_kbdint(&mut self, _request: &KbdintStart) -> Result<Option<Option<Proof>>, NotLoggedIn> {
        let user = self.user.as_mut().ok_or_else(no_user)?;
        let asked = user
            .chains
            .kbdint_submethods()
            .is_none_or(|names| names.contains(&SUBMETHOD_PAM));
        if !user.chains.allows(Method::KeyboardInteractive) || !user.options.use_pam || !asked {
            return Ok(Some(None));
        }
        let mut dialogue = Dialogue::new(&mut self.channel);
        let matched = with_pam(user, self.log, |pam, permit_empty| {
            pam.authenticate(permit_empty, &mut dialogue)
        });
        let (said, interrupted, answered_us) = dialogue.finish();
        if let Some(answered_us) = answered_us {
            user.started_us = answered_us;
        }
        match interrupted {
            Some(Interrupted::End(end)) => return Err(end.into()),
            Some(Interrupted::OtherRequest) => {
                user.tries.attempted = true;
                return Ok(None);
            }
            None => {}
        }
        if !matched {
            return Ok(Some(None));
        }
        if let Some(pam) = &mut user.pam {
            pam.keep_message(&said);
        }
        Ok(Some(Some(Proof {
            submethod: Some(SUBMETHOD_PAM),
            info: Some(format!(
                "{}/{SUBMETHOD_PAM}",
                names::METHOD_KEYBOARD_INTERACTIVE
            )),
            ..Proof::default()
        })))
    }

    /// `publickey` without a signature: would this key do?
    fn answer_query(&mut self, request: &KeyQuery) -> Result<(), NotLoggedIn> {
        let (label, found) = self.look_for_key(&request.algorithm, &request.key)?;
        if found.is_some() {
            self.log_attempt("Postponed", &label, false);
            let methods = self.methods();
            self.channel.send(&KeyAnswer {
                acceptable: true,
                methods,
                too_many_failures: false,
            })?;
            return Ok(());
        }
        self.note_attempt();
        let exceeded = self.count_failure(&label)?;
        if exceeded {
            let user = self.user.as_ref().ok_or_else(no_user)?;
            self.log.error(&format!(
                "maximum authentication attempts exceeded for {} ssh2",
                user.from()
            ));
        }
        let methods = self.methods();
        self.channel.send(&KeyAnswer {
            acceptable: false,
            methods,
            too_many_failures: exceeded,
        })?;
        if exceeded {
            return Err(NotLoggedIn::TooMany);
        }
        Ok(())
    }

    /// `publickey` with a signature.
    fn try_key(&mut self, request: &KeyVerify) -> Result<(Label, Option<Proof>), NotLoggedIn> {
        let (label, found) = self.look_for_key(&request.algorithm, &request.key)?;
        let host_key_fits = request
            .hostbound
            .as_deref()
            .is_none_or(|named| self.signer.first_host_key() == Some(named));
        if !host_key_fits {
            self.log
                .error("host-bound signature names another host key than the connection's");
        }
        let (Some((candidate, grants)), true) = (found, host_key_fits) else {
            return Ok((label, None));
        };
        let user = self.user.as_ref().ok_or_else(no_user)?;
        let signed_for = SignedFor {
            session_id: self.signer.session_id().unwrap_or_default(),
            user: &user.name,
            service: &user.service,
            hostbound: request.hostbound.as_deref(),
        };
        let verified = candidate.verify(&signed_for, &request.signature, &grants, &user.options);
        let tried = match verified {
            Ok(()) => Some(Proof {
                submethod: None,
                key: Some(candidate.key_blob()),
                info: Some(candidate.auth_info()),
                grants: Some(grants),
            }),
            Err(error) => {
                self.log
                    .verbose(&format!("signature not accepted: {error}"));
                None
            }
        };
        Ok((label, tried))
    }

    /// The lookup behind both forms. It is done for users who may not log in too, with nobody's
    /// rights; what it finds counts for those who may.
    fn look_for_key(
        &mut self,
        algorithm: &str,
        blob: &[u8],
    ) -> Result<(Label, Option<(Candidate, KeyOptions)>), NotLoggedIn> {
        let mut label = Label::of(Method::Publickey);
        let user = self.user.as_ref().ok_or_else(no_user)?;
        if !user.chains.allows(Method::Publickey) {
            return Ok((label, None));
        }
        let candidate = match Candidate::new(algorithm, blob, &user.options) {
            Ok(candidate) => candidate,
            Err(reason) => {
                self.log.debug(&reason);
                return Ok((label, None));
            }
        };
        label.detail = candidate.describe(&user.options);
        let decoy;
        let account = match &user.account {
            Some(account) => account,
            None => {
                decoy = super::accounts::Account::decoy();
                &decoy
            }
        };
        let grants = Lookup {
            account,
            valid: user.account.is_some(),
            options: &user.options,
            peer: &user.peer,
            address: self.addresses.remote,
            now: sys::time::realtime_seconds(),
            log: self.log,
        }
        .authorize(&candidate);
        let used = user.chains.is_used(&candidate.key_blob());
        if used {
            self.log
                .info(&format!("refusing previously-used {} key", label.detail));
        }
        let grants = grants.filter(|_| user.account.is_some() && !used);
        Ok((label, grants.map(|grants| (candidate, grants))))
    }
}

/// The line of btmp for a login without a terminal.
const NO_TERMINAL: &str = "ssh:notty";

/// Records a wrong password in btmp, which lastb(1) shows.
fn record_failure(user: &LoginUser, method: Method, addresses: &Addresses, log: &Log) {
    let typed = matches!(method, Method::Password | Method::KeyboardInteractive);
    if !typed || !sys::process::is_root() {
        return;
    }
    let written = sys::loginrec::Files::default().failure(&sys::loginrec::Login {
        user: &user.name,
        uid: 0,
        line: NO_TERMINAL,
        host: &addresses.host,
        address: Some(addresses.remote),
        pid: sys::process::pid(),
        time: sys::time::realtime(),
    });
    if let Err(error) = written {
        log.debug(&format!("failed login record: {error}"));
    }
}

/// Takes a proof to the chains, if the user may come in this way at all.
fn admit(user: &mut LoginUser, method: Method, proof: Proof, log: &Log) -> Progress {
    let Some(account) = user.account.as_ref().filter(|_| !user.denied) else {
        return Progress::NotAsked;
    };
    let forced = proof
        .grants
        .as_ref()
        .is_some_and(|grants| grants.force_command.is_some());
    if !account.root_may(&user.options, method, forced) {
        log.info(&format!(
            "ROOT LOGIN REFUSED FROM {} port {}",
            user.peer.address, user.peer.port
        ));
        return Progress::NotAsked;
    }
    if let Some(grants) = &proof.grants
        && let Err(reason) = user.add_grants(grants)
    {
        log.error(&reason);
        user.denied = true;
        return Progress::NotAsked;
    }
    let progress = user
        .chains
        .succeed(method, proof.submethod, proof.key.as_deref());
    if !matches!(progress, Progress::NotAsked) {
        user.auth_info.extend(proof.info);
    }
    progress
}

/// The account check: PAM's, or the dates of the password database.
fn check_account(user: &mut LoginUser, log: &Log) -> bool {
    if !user.options.use_pam {
        let today = sys::users::shadow::today();
        user.password_expired = user
            .account
            .as_ref()
            .and_then(|account| account.shadow.as_ref())
            .is_some_and(|shadow| shadow.state(today) == sys::users::PasswordState::MustChange);
        return true;
    }
    let name = user.name.clone();
    let state = match pam_of(user) {
        Ok(pam) => pam.account(),
        Err(error) => {
            log.error(&format!("PAM: {error}"));
            AccountState::Denied(error)
        }
    };
    match state {
        AccountState::Fine => true,
        AccountState::MustChangePassword => {
            user.password_expired = true;
            true
        }
        AccountState::Denied(reason) => {
            log.error(&format!(
                "Access denied for user {name} by PAM account configuration: {reason}"
            ));
            user.denied = true;
            false
        }
    }
}

/// The connection's one PAM handle, made at its first use.
fn pam_of(user: &mut LoginUser) -> Result<&mut PamLogin, String> {
    let pam = match user.pam.take() {
        Some(pam) => pam,
        None => PamLogin::start(&user.options.pam_service_name, &user.name, &user.peer)?,
    };
    Ok(user.pam.insert(pam))
}

fn with_pam(
    user: &mut LoginUser,
    log: &Log,
    authenticate: impl FnOnce(&mut PamLogin, bool) -> Result<(), String>,
) -> bool {
    let permit_empty = user.options.permit_empty_passwords;
    let from = user.from();
    let result = pam_of(user).and_then(|pam| authenticate(pam, permit_empty));
    if let Err(error) = &result {
        log.verbose(&format!("PAM: {error} for {from}"));
    }
    result.is_ok()
}

fn no_user() -> End {
    End::Violation("no user was named".to_owned())
}

/// RFC 8270 §3 and what a client may ask to be computed with, in bits.
const MIN_GROUP_BITS: usize = 2048;
const MAX_GROUP_BITS: usize = 8192;

fn choose_group(request: &ChooseGroup, moduli_file: &str, log: &Log) -> Group {
    let bits = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let groups = match sys::file::read_bounded(moduli_file, 8 << 20, sys::file::Links::Follow) {
        Ok(text) => keys::moduli::parse(&text),
        Err(error) => {
            log.info(&format!(
                "could not open {moduli_file} ({error}), using the built-in group"
            ));
            Vec::new()
        }
    };
    let chosen = keys::moduli::choose(
        &groups,
        bits(request.min_bits).max(MIN_GROUP_BITS),
        bits(request.preferred_bits),
        bits(request.max_bits).min(MAX_GROUP_BITS),
        u64::from_be_bytes(crypto::random::bytes()),
    );
    match chosen {
        Some(group) => Group {
            p: group.modulus.clone(),
            g: group.generator.clone(),
        },
        None => built_in_group(request, bits(request.preferred_bits)),
    }
}

/// One of RFC 3526's groups, when the file has none that fits; empty when they do not either.
fn built_in_group(request: &ChooseGroup, preferred_bits: usize) -> Group {
    use crypto::kex::{DhGroup, KexAlgorithm};
    let candidates = [
        KexAlgorithm::DhGroup14Sha256,
        KexAlgorithm::DhGroup16Sha512,
        KexAlgorithm::DhGroup18Sha512,
    ];
    let mut fitting: Vec<DhGroup> = candidates
        .into_iter()
        .filter_map(|algorithm| DhGroup::fixed(algorithm).ok())
        .filter(|group| {
            u32::try_from(group.bits())
                .is_ok_and(|bits| (request.min_bits..=request.max_bits).contains(&bits))
        })
        .collect();
    // The smallest that is large enough, else the largest.
    let at = fitting
        .iter()
        .position(|group| group.bits() >= preferred_bits)
        .unwrap_or(fitting.len().saturating_sub(1));
    if at < fitting.len() {
        let group = fitting.swap_remove(at);
        return Group {
            p: group.p(),
            g: group.g(),
        };
    }
    Group {
        p: Vec::new(),
        g: Vec::new(),
    }
}

#[cfg(test)]
#[path = "login_tests.rs"]
mod tests;
