//! The user's credentials: made from a password, looked at in a cache, exported and stored.

use std::ffi::{CStr, c_char};
use std::ptr;

use zeroize::Zeroizing;

use super::raw::{RawKeyValue, RawKeyValueSet, RawOidSet};
use super::{
    Credential, Gss, GssError, GssInitiator, INITIATE, KERBEROS, LibraryBuffer, Name, USER_NAME,
    c_text, input, oid,
};

/// A cache in this process's memory.
const MEMORY_CACHE: &CStr = c"MEMORY:password";

/// What a credential cache has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialState {
    /// The exported name of the principal (RFC 2743 §3.2).
    pub name: Vec<u8>,
    /// Seconds until the end of the ticket-granting ticket, or of the first ticket if there is none.
    pub lifetime_s: u32,
    /// The name of the default cache (`FILE:/tmp/krb5cc_0`).
    pub cache: String,
}

fn ccache(value: *const c_char) -> RawKeyValue {
    let key = c"ccache".as_ptr();
    RawKeyValue { key, value }
}

impl Gss {
    /// A context with the service of a host (`host@name`), with credentials that the KDC of `user`'s realm gives for
    /// `password`. They are in this process's memory alone. May wait for a KDC.
    ///
    /// # Errors
    /// [`GssError`] with the library's message, for example that the password is wrong.
    pub fn initiator_by_password(
        &self,
        user: &str,
        password: &[u8],
        service: &str,
    ) -> Result<GssInitiator<'_>, GssError> {
        let credential = self.credential_of_password(user, password)?;
        self.initiator_with(credential, service, false)
    }

    fn credential_of_password(
        &self,
        user: &str,
        password: &[u8],
    ) -> Result<Credential<'_>, GssError> {
        let name = self.name(user.as_bytes(), USER_NAME)?;
        let mechanism = oid(KERBEROS);
        let mechanisms = RawOidSet {
            count: 1,
            elements: &raw const mechanism,
        };
        let (mut minor, mut first) = (0, Credential(self, ptr::null_mut()));
        let password = input(password);
        // SAFETY: all pointers are to live values, or null where gssapi_ext.h permits that; the credential is null.
        let major = unsafe {
            (self.call.acquire_cred_with_password)(
                &raw mut minor,
                name.1,
                &raw const password,
                0,
                &raw const mechanisms,
                INITIATE,
                &raw mut first.1,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        self.check(major, minor)?;
        // This credential has the password, and would be exported with it. One with the tickets alone replaces it.
        self.store_at(&first, MEMORY_CACHE)?;
        drop(first);
        let pair = ccache(MEMORY_CACHE.as_ptr());
        let store = RawKeyValueSet {
            count: 1,
            elements: &raw const pair,
        };
        self.credential(None, INITIATE, &raw const store)
    }

    /// The user's credential of the principal `identity`, or the default one.
    pub(super) fn credential_of(&self, identity: Option<&str>) -> Result<Credential<'_>, GssError> {
        match identity {
            Some(identity) => {
                let name = self.name(identity.as_bytes(), USER_NAME)?;
                self.credential(Some(&name), INITIATE, ptr::null())
            }
            None => Ok(Credential(self, ptr::null_mut())),
        }
    }

    /// What the user's credential cache has for the principal `identity`, or for the default one.
    ///
    /// # Errors
    /// [`GssError`] with the library's message, for example that there is no cache or that its tickets have expired.
    pub fn credential_state(&self, identity: Option<&str>) -> Result<CredentialState, GssError> {
        let credential = self.credential_of(identity)?;
        let (mut minor, mut lifetime_s) = (0, 0);
        let mut name = Name(self, ptr::null_mut());
        // SAFETY: all pointers are to live values, or null where RFC 2744 §5.21 permits that; the name is null.
        let major = unsafe {
            (self.call.inquire_cred)(
                &raw mut minor,
                credential.1,
                &raw mut name.1,
                &raw mut lifetime_s,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        self.check(major, minor)?;
        let mut exported = LibraryBuffer::new(self);
        // SAFETY: the name is the credential's; the output is empty.
        let major = unsafe { (self.call.export_name)(&raw mut minor, name.1, &raw mut exported.1) };
        self.check(major, minor)?;
        Ok(CredentialState {
            name: exported.bytes().to_vec(),
            lifetime_s,
            cache: self.default_cache()?,
        })
    }

    fn default_cache(&self) -> Result<String, GssError> {
        let mut context = ptr::null_mut();
        // SAFETY: the library fills the pointer.
        let status = unsafe { (self.call.krb5_init)(&raw mut context) };
        if status != 0 {
            return Err(GssError::plain(format!(
                "krb5.conf cannot be used (error {status})"
            )));
        }
        // SAFETY: the context is live; the text is terminated, or null, and lives until the context is freed, once.
        let name = unsafe {
            let name = (self.call.krb5_cc_default_name)(context);
            let copy =
                (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned());
            (self.call.krb5_free)(context);
            copy
        };
        Ok(name.unwrap_or_default())
    }

    /// The credential in MIT's form; tickets of a cache in memory are in it, another cache is only named.
    pub(super) fn exported(
        &self,
        credential: &Credential<'_>,
    ) -> Result<Zeroizing<Vec<u8>>, GssError> {
        let (mut minor, mut output) = (0, LibraryBuffer::new(self));
        // SAFETY: the credential is live; the output is empty.
        let major =
            unsafe { (self.call.export_cred)(&raw mut minor, credential.1, &raw mut output.1) };
        self.check(major, minor)?;
        Ok(Zeroizing::new(output.bytes().to_vec()))
    }

    /// Writes a credential to the cache with this name (`FILE:path`).
    pub(super) fn store_into(
        &self,
        credential: &Credential<'_>,
        cache: &str,
    ) -> Result<(), GssError> {
        self.store_at(credential, &c_text(cache)?)
    }

    fn store_at(&self, credential: &Credential<'_>, cache: &CStr) -> Result<(), GssError> {
        let pair = ccache(cache.as_ptr());
        let store = RawKeyValueSet {
            count: 1,
            elements: &raw const pair,
        };
        let (mut minor, mechanism) = (0, oid(KERBEROS));
        // SAFETY: all pointers are to live values or null where gssapi_ext.h permits that.
        let major = unsafe {
            (self.call.store_cred_into)(
                &raw mut minor,
                credential.1,
                INITIATE,
                &raw const mechanism,
                1,
                0,
                &raw const store,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        self.check(major, minor)
    }
}

impl GssInitiator<'_> {
    /// The credential of a context by password, in MIT's form, without the password.
    ///
    /// # Errors
    /// [`GssError`] with the library's message.
    pub fn exported_credential(&self) -> Result<Zeroizing<Vec<u8>>, GssError> {
        self.context.gss.exported(&self.credential)
    }
}
