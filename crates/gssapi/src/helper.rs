//! The process that loads the GSS-API library. The first request decides whether it initiates or
//! accepts a context, or does one thing for a user.
//!
//! Invariants: the ids are given up, and the sandbox is closed, before a byte of the peer is handled;
//! of the work as root only Kerberos' own configuration and the keytab are read.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use sys::gss::{CredentialState, Gss, GssAcceptor, GssError, GssInitiator, GssStep};
use sys::process::Credentials;
use sys::signals::Signal;
use zeroize::Zeroizing;

use crate::message::{
    CachedCredential, Client, ContextStep, ExportedCredential, GssFailure, HelperReply,
    HelperRequest, MAX_FRAME_BYTES, UserIds,
};
use crate::{AcceptorTerms, InitiatorTerms};

/// Largest keytab, bytes.
const MAX_KEYTAB_BYTES: u64 = 1024 * 1024;
/// Where delegated credentials are stored, as OpenSSH does it.
const CACHES: &str = "/tmp";

/// Main function of the role. Returns the exit status.
#[must_use]
pub fn main(arguments: Vec<OsString>) -> i32 {
    let (true, Ok(control)) = (arguments.is_empty(), sys::io::inherited(crate::CONTROL_FD)) else {
        eprintln!("{}: only other Fulmar processes start it", crate::ROLE);
        return 2;
    };
    let _ = sys::process::set_name("gssapi");
    let _ = sys::process::set_dumpable(false);
    let _ = serve(&control);
    // Exit handlers of a library might hang.
    sys::process::exit_at_once(0)
}

fn serve(control: &OwnedFd) -> io::Result<()> {
    let Some(first) = next(control)? else {
        return Ok(());
    };
    let served = match first {
        HelperRequest::Initiate(terms) => initiate(control, &terms),
        HelperRequest::Accept(terms) => accept(control, &terms),
        HelperRequest::Authorize { ids, name, user } => authorize(ids, &name, &user)
            .and_then(|verdict| say(control, &HelperReply::Authorized(verdict))),
        HelperRequest::Store {
            ids,
            credential,
            path,
        } => store(ids, &credential, &path).and_then(|()| say(control, &HelperReply::Done)),
        HelperRequest::CheckPassword { ids } => check_password(control, ids),
        HelperRequest::Inquire { identity } => inquire(control, identity.as_deref()),
        _ => Err(GssFailure::plain("a request without a context")),
    };
    match served {
        Ok(()) => Ok(()),
        Err(failure) => {
            say(control, &HelperReply::Failed(failure)).map_err(io::Error::other)?;
            // The owner reads the answer before it ends this process.
            next(control).map(drop)
        }
    }
}

/// The next request; `None` if the owner has closed the socket.
fn next(control: &OwnedFd) -> io::Result<Option<HelperRequest>> {
    let mut length = [0; 4];
    if !fill(control, &mut length)? {
        return Ok(None);
    }
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > MAX_FRAME_BYTES {
        return Err(io::Error::other("frame too long"));
    }
    let mut body = Zeroizing::new(vec![0; length]);
    if !fill(control, &mut body)? {
        return Ok(None);
    }
    HelperRequest::decode(&body)
        .map(Some)
        .map_err(io::Error::other)
}

/// Fills the buffer; false if the socket ends first.
fn fill(control: &OwnedFd, buffer: &mut [u8]) -> io::Result<bool> {
    let mut got = 0;
    while got < buffer.len() {
        match sys::io::read(control, buffer.get_mut(got..).unwrap_or_default())? {
            0 => return Ok(false),
            count => got += count,
        }
    }
    Ok(true)
}

fn say(control: &OwnedFd, reply: &HelperReply) -> Result<(), GssFailure> {
    Ok(sys::io::write_all(control, &reply.encode())?)
}

impl From<GssError> for GssFailure {
    fn from(error: GssError) -> Self {
        Self {
            reason: error.text,
            token: error.token,
        }
    }
}

impl From<GssStep> for ContextStep {
    fn from(step: GssStep) -> Self {
        Self {
            token: step.token,
            is_complete: step.is_complete,
        }
    }
}

impl From<CredentialState> for CachedCredential {
    fn from(state: CredentialState) -> Self {
        let now_s = sys::time::realtime_seconds();
        Self {
            name: state.name,
            end_s: now_s.saturating_add(u64::from(state.lifetime_s)),
            cache: state.cache,
        }
    }
}

fn sandboxed<T>(result: io::Result<T>) -> Result<(), GssFailure> {
    result
        .map(drop)
        .map_err(|error| GssFailure::plain(format!("sandbox: {error}")))
}

/// Takes on the ids of a request, if there are any.
fn become_user(ids: Option<UserIds>) -> Result<(), GssFailure> {
    let Some(UserIds { uid, gid, groups }) = ids else {
        return Ok(());
    };
    sys::process::become_user(&Credentials { uid, gid, groups })?;
    // The change of user has set both back.
    sys::process::set_dumpable(false)?;
    Ok(sys::process::set_parent_death_signal(Some(Signal::KILL))?)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The files that KRB5_CONFIG names, separated by colons.
fn configuration() -> Vec<PathBuf> {
    let named = variable("KRB5_CONFIG").unwrap_or_default();
    let paths = named.split(':').filter(|path| path.starts_with('/'));
    paths.map(PathBuf::from).collect()
}

/// The places of the user's credential caches: the usual ones, and the file or directory that
/// KRB5CCNAME names.
fn caches() -> Vec<PathBuf> {
    let uid = sys::process::effective_uid();
    let mut paths = vec![PathBuf::from(CACHES), format!("/run/user/{uid}").into()];
    let named = variable("KRB5CCNAME").unwrap_or_default();
    let path = match named.split_once(':') {
        Some(("FILE" | "DIR", path)) => path.trim_start_matches(':'),
        _ => &named,
    };
    if path.starts_with('/') {
        paths.push(PathBuf::from(path));
    }
    paths
}

/// Loads the library in the sandbox of a user's own work.
fn library_of_user() -> Result<Gss, GssFailure> {
    let mut readable = configuration();
    readable.extend(variable("KRB5_CLIENT_KTNAME").map(PathBuf::from));
    sandboxed(sys::sandbox::gss_user(&readable, &caches()))?;
    Ok(Gss::load()?)
}

fn initiate(control: &OwnedFd, terms: &InitiatorTerms) -> Result<(), GssFailure> {
    let gss = library_of_user()?;
    let identity = terms.identity.as_deref();
    let mut context = gss.initiator(&terms.service, terms.delegates, identity)?;
    let first = context.step(&[])?;
    say(control, &HelperReply::Step(first.into()))?;
    serve_initiator(control, &gss, context)
}

/// Looks at the user's credentials, without a context.
fn inquire(control: &OwnedFd, identity: Option<&str>) -> Result<(), GssFailure> {
    let gss = library_of_user()?;
    let state = gss.credential_state(identity)?;
    say(control, &HelperReply::Cached(state.into()))
}

/// Waits for a password, in a sandbox with the network and without a file to write.
fn check_password(control: &OwnedFd, ids: Option<UserIds>) -> Result<(), GssFailure> {
    become_user(ids)?;
    sandboxed(sys::sandbox::gss_password(&configuration()))?;
    let gss = Gss::load()?;
    say(control, &HelperReply::Done)?;
    let Some(HelperRequest::Password { user, password }) = next(control)? else {
        return Err(GssFailure::plain("no password"));
    };
    let context = gss.initiator_by_password(&user, &password, &sys::gss::own_service())?;
    drop(password);
    // Before the context adds its own ticket.
    let credential = ExportedCredential(context.exported_credential()?);
    say(control, &HelperReply::Credential(credential))?;
    serve_initiator(control, &gss, context)
}

fn serve_initiator(
    control: &OwnedFd,
    gss: &Gss,
    mut context: GssInitiator<'_>,
) -> Result<(), GssFailure> {
    while let Some(request) = next(control)? {
        let reply = initiator_reply(gss, &mut context, request);
        say(control, &reply.unwrap_or_else(HelperReply::Failed))?;
    }
    Ok(())
}

fn initiator_reply(
    gss: &Gss,
    context: &mut GssInitiator<'_>,
    request: HelperRequest,
) -> Result<HelperReply, GssFailure> {
    match request {
        HelperRequest::Token { token } => Ok(HelperReply::Step(context.step(&token)?.into())),
        HelperRequest::Sign { data } => Ok(HelperReply::Mic(context.mic(&data)?)),
        HelperRequest::Verify { data, mic } => {
            context.verify(&data, &mic)?;
            Ok(HelperReply::Done)
        }
        HelperRequest::Inquire { identity } => Ok(HelperReply::Cached(
            gss.credential_state(identity.as_deref())?.into(),
        )),
        _ => Err(GssFailure::plain("no request of an initiator")),
    }
}

/// The keytab's content in memory, so that it can be read without the rights of its owner.
fn keytab(gss: &Gss) -> Result<OwnedFd, GssFailure> {
    let name = gss.default_keytab()?;
    let path = match name.split_once(':') {
        Some(("FILE" | "WRFILE", path)) => path,
        _ if name.starts_with('/') => &name,
        _ => {
            return Err(GssFailure::plain(format!(
                "the keytab {name} is no file: set KRB5_KTNAME or default_keytab_name to one"
            )));
        }
    };
    let follow = sys::file::FollowLinks::Follow;
    let content = sys::file::read_bounded(path, MAX_KEYTAB_BYTES, follow)
        .map(Zeroizing::new)
        .map_err(|error| GssFailure::plain(format!("keytab {path}: {error}")))?;
    Ok(sys::memfd::sealed("keytab", &content)?)
}

fn accept(control: &OwnedFd, terms: &AcceptorTerms) -> Result<(), GssFailure> {
    let gss = Gss::load()?;
    let keytab = File::from(keytab(&gss)?);
    become_user(terms.ids.clone())?;
    let service = terms.is_strict.then(sys::gss::own_service);
    let name = format!("FILE:/proc/self/fd/{}", keytab.as_raw_fd());
    // The name of the service is looked up here, with the network that the sandbox takes away.
    let AcceptorTerms {
        takes_delegated,
        is_mutual,
        ..
    } = *terms;
    let mut acceptor = gss.acceptor(service.as_deref(), &name, takes_delegated, is_mutual)?;
    sandboxed(sys::sandbox::gss_acceptor(&configuration()))?;
    say(control, &HelperReply::Done)?;
    while let Some(request) = next(control)? {
        let reply = acceptor_reply(&mut acceptor, request);
        say(control, &reply.unwrap_or_else(HelperReply::Failed))?;
    }
    Ok(())
}

fn acceptor_reply(
    acceptor: &mut GssAcceptor<'_>,
    request: HelperRequest,
) -> Result<HelperReply, GssFailure> {
    match request {
        HelperRequest::Token { token } => Ok(HelperReply::Step(acceptor.step(&token)?.into())),
        HelperRequest::Verify { data, mic } => {
            acceptor.verify(&data, &mic)?;
            client_reply(acceptor)
        }
        HelperRequest::Sign { data } => Ok(HelperReply::Mic(acceptor.mic(&data)?)),
        HelperRequest::Whom => client_reply(acceptor),
        _ => Err(GssFailure::plain("no request of an acceptor")),
    }
}

fn client_reply(acceptor: &GssAcceptor<'_>) -> Result<HelperReply, GssFailure> {
    let client = acceptor.client()?;
    Ok(HelperReply::Client(Client {
        principal: client.principal,
        name: client.name,
        credential: client.credential,
    }))
}

/// The sandbox of work for a user of the server: anything that the user may read, but only caches
/// may be written.
fn for_user(ids: Option<UserIds>) -> Result<(), GssFailure> {
    become_user(ids)?;
    let everything = [PathBuf::from("/")];
    sandboxed(sys::sandbox::gss_user(
        &everything,
        &[PathBuf::from(CACHES)],
    ))
}

fn authorize(ids: Option<UserIds>, name: &[u8], user: &str) -> Result<bool, GssFailure> {
    for_user(ids)?;
    let gss = Gss::load()?;
    // A list that this user may not see is none for the library: auth_to_local would decide instead.
    if let Some(directory) = gss.list_directory()?
        && let Err(error) = std::fs::metadata(directory.join(user))
        && error.kind() != io::ErrorKind::NotFound
    {
        let shown = directory.display();
        return Err(GssFailure::plain(format!(
            "k5login_directory {shown} must be readable by {user}: {error}"
        )));
    }
    Ok(gss.is_authorized(name, user)?)
}

fn store(ids: Option<UserIds>, credential: &[u8], path: &str) -> Result<(), GssFailure> {
    for_user(ids)?;
    let gss = Gss::load()?;
    // Nobody else's file can be in the way: the library removes this one, and makes its own.
    drop(sys::file::create_new(path, 0o600)?);
    Ok(gss.store(credential, &format!("FILE:{path}"))?)
}
