//! MIT's GSS-API library (RFC 2743, RFC 4121): loading it, and the calls that establish a Kerberos
//! context on either side, sign with it, and name and store what the client proved.
//!
//! The library is foreign code and parses tokens of the peer: load it only in a process in
//! [`crate::sandbox::gss_acceptor`], [`crate::sandbox::gss_user`] or [`crate::sandbox::gss_password`].

mod credential;
mod raw;

pub use credential::CredentialState;

use std::ffi::{CStr, CString, OsString, c_int};
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::ptr;

use zeroize::Zeroizing;

use crate::dynlib::Library;
use crate::ffi::wide;
use raw::{Functions, Opaque, RawBuffer, RawKeyValue, RawKeyValueSet, RawOid, RawOidSet};

/// The names of the library.
const LIBRARY: &[&std::ffi::CStr] = &[c"libgssapi_krb5.so.2"];
/// Longest name of a keytab, bytes.
const MAX_KEYTAB_NAME_BYTES: usize = 4096;
/// Most lines of one error.
const MAX_ERROR_LINES: usize = 8;

/// 1.2.840.113554.1.2.2, Kerberos 5 (RFC 4121 §1).
const KERBEROS: &[u8] = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02";
/// 1.2.840.113554.1.2.1.4, GSS_C_NT_HOSTBASED_SERVICE (RFC 2744 §3).
const HOST_SERVICE: &[u8] = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04";
/// 1.2.840.113554.1.2.1.1, GSS_C_NT_USER_NAME (RFC 2744 §3).
const USER_NAME: &[u8] = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x01";
/// 1.3.6.1.5.6.4, GSS_C_NT_EXPORT_NAME (RFC 2744 §3).
const EXPORTED_NAME: &[u8] = b"\x2b\x06\x01\x05\x06\x04";

const CONTINUE_NEEDED: u32 = 1;
/// The bits of a status that tell of an error: calling errors and routine errors.
const ERROR_BITS: u32 = 0xffff_0000;
const INITIATE: c_int = 1;
const ACCEPT: c_int = 2;
const DELEGATES: u32 = 1;
const MUTUAL: u32 = 2;
const INTEGRITY: u32 = 32;

/// A failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GssError {
    /// The library's messages, one on each line.
    pub text: String,
    /// A token that tells the peer of the error; may be empty.
    pub token: Vec<u8>,
}

impl GssError {
    /// An error without a token for the peer.
    pub fn plain(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            token: Vec::new(),
        }
    }
}

impl fmt::Display for GssError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for GssError {}

impl From<String> for GssError {
    fn from(text: String) -> Self {
        Self::plain(text)
    }
}

/// A step of a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GssStep {
    /// The token for the peer; may be empty.
    pub token: Vec<u8>,
    /// True if the context is established.
    pub is_complete: bool,
}

/// The client of an accepted context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GssClient {
    /// The principal as text.
    pub principal: String,
    /// The exported name (RFC 2743 §3.2).
    pub name: Vec<u8>,
    /// The delegated credential in MIT's form; `None` if there is none.
    pub credential: Option<Zeroizing<Vec<u8>>>,
}

/// The loaded library.
pub struct Gss {
    call: Functions,
    _library: Library,
}

fn oid(bytes: &'static [u8]) -> RawOid {
    RawOid {
        length: u32::try_from(bytes.len()).unwrap_or_default(),
        elements: bytes.as_ptr(),
    }
}

/// A buffer that the library only reads.
fn input(bytes: &[u8]) -> RawBuffer {
    RawBuffer {
        length: bytes.len(),
        value: bytes.as_ptr().cast_mut().cast(),
    }
}

fn c_text(text: &str) -> Result<CString, GssError> {
    CString::new(text).map_err(|_| GssError::plain("a NUL byte inside a name"))
}

/// A name of the library, released on drop.
struct Name<'g>(&'g Gss, Opaque);

impl Drop for Name<'_> {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the name came from the library and is released once; null is permitted.
        unsafe { (self.0.call.release_name)(&raw mut minor, &raw mut self.1) };
    }
}

/// A credential of the library, released on drop.
struct Credential<'g>(&'g Gss, Opaque);

impl Drop for Credential<'_> {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the credential came from the library and is released once; null is permitted.
        unsafe { (self.0.call.release_cred)(&raw mut minor, &raw mut self.1) };
    }
}

/// A buffer that the library fills, released on drop.
struct LibraryBuffer<'g>(&'g Gss, RawBuffer);

impl<'g> LibraryBuffer<'g> {
    fn new(gss: &'g Gss) -> Self {
        let value = ptr::null_mut();
        Self(gss, RawBuffer { length: 0, value })
    }

    fn bytes(&self) -> &[u8] {
        if self.1.value.is_null() {
            return &[];
        }
        // SAFETY: the library has set pointer and length of memory that lives until the release.
        unsafe { std::slice::from_raw_parts(self.1.value.cast::<u8>(), self.1.length) }
    }
}

impl Drop for LibraryBuffer<'_> {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the buffer is empty or was filled by the library, and is released once.
        unsafe { (self.0.call.release_buffer)(&raw mut minor, &raw mut self.1) };
    }
}

impl Gss {
    /// Loads the library.
    ///
    /// # Errors
    /// The loader's message, for example if the library is not installed.
    pub fn load() -> Result<Self, GssError> {
        let library = Library::open(LIBRARY)?;
        let call = Functions::of(&library)?;
        Ok(Self {
            call,
            _library: library,
        })
    }

    /// The name of the default keytab, from KRB5_KTNAME or krb5.conf (`FILE:/etc/krb5.keytab`).
    ///
    /// # Errors
    /// If krb5.conf cannot be read.
    pub fn default_keytab(&self) -> Result<String, GssError> {
        let mut context = ptr::null_mut();
        // SAFETY: the library fills the pointer.
        let status = unsafe { (self.call.krb5_init)(&raw mut context) };
        if status != 0 {
            return Err(GssError::plain(format!(
                "krb5.conf cannot be used (error {status})"
            )));
        }
        let mut name = [0_u8; MAX_KEYTAB_NAME_BYTES];
        let room = c_int::try_from(name.len()).unwrap_or_default();
        // SAFETY: the buffer has that many bytes; the context is live.
        let status =
            unsafe { (self.call.krb5_kt_default_name)(context, name.as_mut_ptr().cast(), room) };
        // SAFETY: the context is freed once.
        unsafe { (self.call.krb5_free)(context) };
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        match (status, std::str::from_utf8(name)) {
            (0, Ok(name)) => Ok(name.to_owned()),
            _ => Err(GssError::plain("the default keytab has no usable name")),
        }
    }

    /// The directory of k5login_directory in krb5.conf, which has the users' lists of principals
    /// instead of their home directories.
    ///
    /// # Errors
    /// If krb5.conf cannot be read.
    pub fn list_directory(&self) -> Result<Option<PathBuf>, GssError> {
        let mut context = ptr::null_mut();
        // SAFETY: the library fills the pointer.
        let mut status = i64::from(unsafe { (self.call.krb5_init)(&raw mut context) });
        let (mut profile, mut text) = (ptr::null_mut(), ptr::null_mut());
        if status == 0 {
            // SAFETY: the context is live; the library fills the pointer with a copy.
            status = i64::from(unsafe { (self.call.krb5_get_profile)(context, &raw mut profile) });
            // SAFETY: the context is freed once.
            unsafe { (self.call.krb5_free)(context) };
        }
        if status == 0 {
            // SAFETY: the profile is live; the texts are terminated, or null where profile.h permits
            // that; the library fills the pointer.
            let found = unsafe {
                (self.call.profile_get_string)(
                    profile,
                    c"libdefaults".as_ptr(),
                    c"k5login_directory".as_ptr(),
                    ptr::null(),
                    ptr::null(),
                    &raw mut text,
                )
            };
            status = wide(found);
            // SAFETY: the profile is released once.
            unsafe { (self.call.profile_release)(profile) };
        }
        if status != 0 {
            return Err(GssError::plain(format!(
                "krb5.conf cannot be used (error {status})"
            )));
        }
        if text.is_null() {
            return Ok(None);
        }
        // SAFETY: the library has set a terminated text, which is released once.
        let path = unsafe {
            let bytes = CStr::from_ptr(text).to_bytes().to_vec();
            (self.call.profile_release_string)(text);
            PathBuf::from(OsString::from_vec(bytes))
        };
        Ok(Some(path))
    }

    /// The words for a failed call; keeps the token for the peer.
    fn error(&self, major: u32, minor: u32, token: Vec<u8>) -> GssError {
        let mut lines: Vec<String> = Vec::new();
        let mechanism = oid(KERBEROS);
        for (status, kind) in [(major, 1), (minor, 2)] {
            let mut more = 0;
            loop {
                let (mut ignored, mut text) = (0, LibraryBuffer::new(self));
                // SAFETY: all pointers are to live values; the output is empty.
                let result = unsafe {
                    (self.call.display_status)(
                        &raw mut ignored,
                        status,
                        kind,
                        &raw const mechanism,
                        &raw mut more,
                        &raw mut text.1,
                    )
                };
                if result & ERROR_BITS != 0 {
                    break;
                }
                lines.push(String::from_utf8_lossy(text.bytes()).into_owned());
                if more == 0 || lines.len() >= MAX_ERROR_LINES {
                    break;
                }
            }
        }
        GssError {
            text: lines.join("\n"),
            token,
        }
    }

    fn check(&self, major: u32, minor: u32) -> Result<(), GssError> {
        match major & ERROR_BITS {
            0 => Ok(()),
            _ => Err(self.error(major, minor, Vec::new())),
        }
    }

    fn name(&self, text: &[u8], kind: &'static [u8]) -> Result<Name<'_>, GssError> {
        let (mut minor, mut name) = (0, Name(self, ptr::null_mut()));
        let (text, kind) = (input(text), oid(kind));
        // SAFETY: all pointers are to live values; the name is null.
        let major = unsafe {
            (self.call.import_name)(
                &raw mut minor,
                &raw const text,
                &raw const kind,
                &raw mut name.1,
            )
        };
        self.check(major, minor)?;
        Ok(name)
    }

    /// A context with the service of a host (`host@name`), with the user's credentials, of the principal
    /// `identity` or the default ones, which are delegated if `delegates`.
    ///
    /// # Errors
    /// [`GssError`] with the library's message.
    pub fn initiator(
        &self,
        service: &str,
        delegates: bool,
        identity: Option<&str>,
    ) -> Result<GssInitiator<'_>, GssError> {
        let credential = self.credential_of(identity)?;
        self.initiator_with(credential, service, delegates)
    }

    fn initiator_with<'g>(
        &'g self,
        credential: Credential<'g>,
        service: &str,
        delegates: bool,
    ) -> Result<GssInitiator<'g>, GssError> {
        Ok(GssInitiator {
            target: self.name(service.as_bytes(), HOST_SERVICE)?,
            credential,
            context: GssContext::new(self, MUTUAL | INTEGRITY),
            flags: MUTUAL | INTEGRITY | if delegates { DELEGATES } else { 0 },
        })
    }

    /// The acceptor for `service` (`host@name`), or for every key in `keytab`. No replay cache is
    /// kept: the caller takes a context for a proof only with a MIC over data that no other
    /// connection has. `is_mutual`: the client must have asked for a proof of this side.
    ///
    /// # Errors
    /// [`GssError`] with the library's message, for example if the keytab has no key of the service.
    pub fn acceptor(
        &self,
        service: Option<&str>,
        keytab: &str,
        takes_delegated: bool,
        is_mutual: bool,
    ) -> Result<GssAcceptor<'_>, GssError> {
        let name = service
            .map(|service| self.name(service.as_bytes(), HOST_SERVICE))
            .transpose()?;
        let keytab = c_text(keytab)?;
        let pair = |key: &'static std::ffi::CStr, value: *const std::ffi::c_char| RawKeyValue {
            key: key.as_ptr(),
            value,
        };
        let pairs = [
            pair(c"keytab", keytab.as_ptr()),
            pair(c"rcache", c"none:".as_ptr()),
        ];
        let store = RawKeyValueSet {
            count: 2,
            elements: pairs.as_ptr(),
        };
        let required = if is_mutual {
            MUTUAL | INTEGRITY
        } else {
            INTEGRITY
        };
        Ok(GssAcceptor {
            credential: self.credential(name.as_ref(), ACCEPT, &raw const store)?,
            context: GssContext::new(self, required),
            client: Name(self, ptr::null_mut()),
            delegated: Credential(self, ptr::null_mut()),
            takes_delegated,
        })
    }

    /// A credential for `name`, or the default one, from `store` or, if it is null, from the usual places.
    fn credential(
        &self,
        name: Option<&Name<'_>>,
        usage: c_int,
        store: *const RawKeyValueSet,
    ) -> Result<Credential<'_>, GssError> {
        let mechanism = oid(KERBEROS);
        let mechanisms = RawOidSet {
            count: 1,
            elements: &raw const mechanism,
        };
        let (mut minor, mut credential) = (0, Credential(self, ptr::null_mut()));
        // SAFETY: all pointers are to live values, which the caller keeps for `store`, or null where
        // RFC 2744 §5.2 and gssapi_ext.h permit that.
        let major = unsafe {
            (self.call.acquire_cred_from)(
                &raw mut minor,
                name.map_or(ptr::null_mut(), |name| name.1),
                0,
                &raw const mechanisms,
                usage,
                store,
                &raw mut credential.1,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        self.check(major, minor)?;
        Ok(credential)
    }

    /// True if the principal with this exported name may log in as `user`, by the rules of
    /// krb5_kuserok: the user's .k5login, or auth_to_local of krb5.conf.
    ///
    /// # Errors
    /// [`GssError`] with the library's message.
    pub fn is_authorized(&self, name: &[u8], user: &str) -> Result<bool, GssError> {
        let name = self.name(name, EXPORTED_NAME)?;
        let user = c_text(user)?;
        // SAFETY: the name is live, the text is terminated.
        Ok(unsafe { (self.call.userok)(name.1, user.as_ptr()) } == 1)
    }

    /// Writes an exported credential to the cache with this name (`FILE:path`).
    ///
    /// # Errors
    /// [`GssError`] with the library's message.
    pub fn store(&self, credential: &[u8], cache: &str) -> Result<(), GssError> {
        let (mut minor, mut imported) = (0, Credential(self, ptr::null_mut()));
        let token = input(credential);
        // SAFETY: all pointers are to live values; the credential is null.
        let major = unsafe {
            (self.call.import_cred)(&raw mut minor, &raw const token, &raw mut imported.1)
        };
        self.check(major, minor)?;
        self.store_into(&imported, cache)
    }
}

/// A context, deleted on drop.
struct GssContext<'g> {
    gss: &'g Gss,
    context: Opaque,
    /// The flags that an established context must have.
    required: u32,
    /// True if the context is established and has them.
    is_ready: bool,
}

impl<'g> GssContext<'g> {
    fn new(gss: &'g Gss, required: u32) -> Self {
        Self {
            gss,
            context: ptr::null_mut(),
            required,
            is_ready: false,
        }
    }

    /// The step of a call that returned these values.
    fn step(
        &mut self,
        (major, minor): (u32, u32),
        flags: u32,
        output: &LibraryBuffer<'_>,
    ) -> Result<GssStep, GssError> {
        let token = output.bytes().to_vec();
        if major & ERROR_BITS != 0 {
            return Err(self.gss.error(major, minor, token));
        }
        let is_complete = major & CONTINUE_NEEDED == 0;
        let missing = self.required & !flags;
        if is_complete && missing & INTEGRITY != 0 {
            return Err(GssError::plain(
                "the context does not protect the integrity of messages",
            ));
        }
        if is_complete && missing & MUTUAL != 0 {
            return Err(GssError::plain(
                "the context does not prove the server's identity",
            ));
        }
        self.is_ready = is_complete;
        Ok(GssStep { token, is_complete })
    }

    fn established(&self) -> Result<(), GssError> {
        match self.is_ready {
            true => Ok(()),
            false => Err(GssError::plain("the context is not established")),
        }
    }

    /// The MIC of `data`.
    fn mic(&self, data: &[u8]) -> Result<Vec<u8>, GssError> {
        self.established()?;
        let (mut minor, mut output) = (0, LibraryBuffer::new(self.gss));
        let data = input(data);
        // SAFETY: all pointers are to live values; the context is established.
        let major = unsafe {
            (self.gss.call.get_mic)(
                &raw mut minor,
                self.context,
                0,
                &raw const data,
                &raw mut output.1,
            )
        };
        self.gss.check(major, minor)?;
        Ok(output.bytes().to_vec())
    }

    /// Verifies the peer's MIC of `data`.
    fn verify(&self, data: &[u8], mic: &[u8]) -> Result<(), GssError> {
        self.established()?;
        let mut minor = 0;
        let (data, mic) = (input(data), input(mic));
        // SAFETY: all pointers are to live values; the context is established.
        let major = unsafe {
            (self.gss.call.verify_mic)(
                &raw mut minor,
                self.context,
                &raw const data,
                &raw const mic,
                ptr::null_mut(),
            )
        };
        // Also the supplementary bits (an old or duplicate token) are no success here.
        match major {
            0 => Ok(()),
            _ => Err(self.gss.error(major, minor, Vec::new())),
        }
    }
}

impl Drop for GssContext<'_> {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the context came from the library and is deleted once; null is permitted.
        unsafe {
            (self.gss.call.delete_sec_context)(
                &raw mut minor,
                &raw mut self.context,
                ptr::null_mut(),
            )
        };
    }
}

/// The client's side of a context.
pub struct GssInitiator<'g> {
    target: Name<'g>,
    credential: Credential<'g>,
    context: GssContext<'g>,
    flags: u32,
}

impl GssInitiator<'_> {
    /// Takes the peer's token, which is empty at first, and returns the next one.
    ///
    /// # Errors
    /// [`GssError`] with the library's message; the context is then of no use.
    pub fn step(&mut self, token: &[u8]) -> Result<GssStep, GssError> {
        let gss = self.context.gss;
        let (mut minor, mut flags, mut output) = (0, 0, LibraryBuffer::new(gss));
        let (token, mechanism) = (input(token), oid(KERBEROS));
        // SAFETY: all pointers are to live values or null where RFC 2744 §5.19 permits that.
        let major = unsafe {
            (gss.call.init_sec_context)(
                &raw mut minor,
                self.credential.1,
                &raw mut self.context.context,
                self.target.1,
                &raw const mechanism,
                self.flags,
                0,
                ptr::null_mut(),
                &raw const token,
                ptr::null_mut(),
                &raw mut output.1,
                &raw mut flags,
                ptr::null_mut(),
            )
        };
        self.context.step((major, minor), flags, &output)
    }

    /// The MIC of `data`.
    ///
    /// # Errors
    /// [`GssError`] with the library's message, or that the context is not established.
    pub fn mic(&self, data: &[u8]) -> Result<Vec<u8>, GssError> {
        self.context.mic(data)
    }

    /// Verifies the server's MIC of `data`.
    ///
    /// # Errors
    /// [`GssError`] with the library's message, or that the context is not established.
    pub fn verify(&self, data: &[u8], mic: &[u8]) -> Result<(), GssError> {
        self.context.verify(data, mic)
    }
}

/// The server's side of a context.
pub struct GssAcceptor<'g> {
    credential: Credential<'g>,
    context: GssContext<'g>,
    client: Name<'g>,
    delegated: Credential<'g>,
    takes_delegated: bool,
}

impl GssAcceptor<'_> {
    /// Takes the client's token and returns the next one.
    ///
    /// # Errors
    /// [`GssError`] with the library's message, with a token for the client if there is one; the context is then of no
    /// use.
    pub fn step(&mut self, token: &[u8]) -> Result<GssStep, GssError> {
        let gss = self.context.gss;
        if self.context.is_ready {
            return Err(GssError::plain("a token after the last"));
        }
        let (mut minor, mut flags, mut output) = (0, 0, LibraryBuffer::new(gss));
        let token = input(token);
        let delegated = match self.takes_delegated {
            true => &raw mut self.delegated.1,
            false => ptr::null_mut(),
        };
        // SAFETY: all pointers are to live values or null where RFC 2744 §5.1 permits that; the
        // client's name is null until the call that completes the context.
        let major = unsafe {
            (gss.call.accept_sec_context)(
                &raw mut minor,
                &raw mut self.context.context,
                self.credential.1,
                &raw const token,
                ptr::null_mut(),
                &raw mut self.client.1,
                ptr::null_mut(),
                &raw mut output.1,
                &raw mut flags,
                ptr::null_mut(),
                delegated,
            )
        };
        self.context.step((major, minor), flags, &output)
    }

    /// The MIC of `data`.
    ///
    /// # Errors
    /// [`GssError`] with the library's message, or that the context is not established.
    pub fn mic(&self, data: &[u8]) -> Result<Vec<u8>, GssError> {
        self.context.mic(data)
    }

    /// Verifies the client's MIC of `data`.
    ///
    /// # Errors
    /// [`GssError`] with the library's message, or that the context is not established.
    pub fn verify(&self, data: &[u8], mic: &[u8]) -> Result<(), GssError> {
        self.context.verify(data, mic)
    }

    /// The client and the credential that it has delegated.
    ///
    /// # Errors
    /// [`GssError`] with the library's message, or that the context is not established.
    pub fn client(&self) -> Result<GssClient, GssError> {
        self.context.established()?;
        let gss = self.context.gss;
        let (mut minor, mut principal, mut name) =
            (0, LibraryBuffer::new(gss), LibraryBuffer::new(gss));
        // SAFETY: the name is the client's; the outputs are empty.
        let major = unsafe {
            (gss.call.display_name)(
                &raw mut minor,
                self.client.1,
                &raw mut principal.1,
                ptr::null_mut(),
            )
        };
        gss.check(major, minor)?;
        // SAFETY: as above.
        let major =
            unsafe { (gss.call.export_name)(&raw mut minor, self.client.1, &raw mut name.1) };
        gss.check(major, minor)?;
        let credential = match self.delegated.1.is_null() {
            true => None,
            false => Some(gss.exported(&self.delegated)?),
        };
        Ok(GssClient {
            principal: String::from_utf8_lossy(principal.bytes()).into_owned(),
            name: name.bytes().to_vec(),
            credential,
        })
    }
}

/// `host@` and the name of this machine: the service of a strict acceptor.
#[must_use]
pub fn own_service() -> String {
    let system = rustix::system::uname();
    format!("host@{}", system.nodename().to_string_lossy())
}

#[cfg(test)]
mod tests;
