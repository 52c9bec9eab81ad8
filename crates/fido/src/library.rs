//! A provider library with the functions of OpenSSH's sk-api.h, version 10: `sk_api_version`,
//! `sk_enroll`, `sk_sign` and `sk_load_resident_keys`.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{NonNull, null, null_mut};

use zeroize::{Zeroize, Zeroizing};

use crate::message::{Attestation, TokenKey, TokenSignature, algorithm_number, type_of_number};
use crate::tokens::{NewTokenKey, TokenAccess, TokenSigning, Tokens};
use crate::{FidoError, RESIDENT, USER_PRESENCE, USER_VERIFICATION};

/// SSH_SK_VERSION_MAJOR, in the upper half.
const VERSION_MAJOR: u32 = 0x000a_0000;
const VERSION_MAJOR_MASK: u32 = 0xffff_0000;
/// Largest provider library that is searched for its symbols, in bytes.
const MAX_LIBRARY_BYTES: u64 = 256 * 1024 * 1024;
/// Longest field that is taken from a library, in bytes.
const MAX_FIELD_BYTES: usize = 64 * 1024;
/// Most keys that are taken from a library.
const MAX_KEYS: usize = 1024;

/// `struct sk_enroll_response`
#[repr(C)]
struct RawEnrollResponse {
    flags: u8,
    public_key: *mut u8,
    public_key_len: usize,
    key_handle: *mut u8,
    key_handle_len: usize,
    signature: *mut u8,
    signature_len: usize,
    attestation_cert: *mut u8,
    attestation_cert_len: usize,
    authdata: *mut u8,
    authdata_len: usize,
}

/// `struct sk_sign_response`
#[repr(C)]
struct RawSignResponse {
    flags: u8,
    counter: u32,
    sig_r: *mut u8,
    sig_r_len: usize,
    sig_s: *mut u8,
    sig_s_len: usize,
}

/// `struct sk_resident_key`
#[repr(C)]
struct RawResidentKey {
    alg: u32,
    slot: usize,
    application: *mut c_char,
    key: RawEnrollResponse,
    flags: u8,
    user_id: *mut u8,
    user_id_len: usize,
}

/// `struct sk_option`
#[repr(C)]
struct RawOption {
    name: *mut c_char,
    value: *mut c_char,
    required: u8,
}

type ApiVersion = unsafe extern "C" fn() -> u32;
type Enroll = unsafe extern "C" fn(
    u32,
    *const u8,
    usize,
    *const c_char,
    u8,
    *const c_char,
    *mut *mut RawOption,
    *mut *mut RawEnrollResponse,
) -> c_int;
type Sign = unsafe extern "C" fn(
    u32,
    *const u8,
    usize,
    *const c_char,
    *const u8,
    usize,
    u8,
    *const c_char,
    *mut *mut RawOption,
    *mut *mut RawSignResponse,
) -> c_int;
type LoadResidentKeys = unsafe extern "C" fn(
    *const c_char,
    *mut *mut RawOption,
    *mut *mut *mut RawResidentKey,
    *mut usize,
) -> c_int;

/// A loaded library. Its memory is never freed: the process ends after one request.
pub(crate) struct SkLibrary {
    enroll: Enroll,
    sign: Sign,
    load_resident_keys: LoadResidentKeys,
}

impl SkLibrary {
    /// Checks that a file names the functions of a provider, before any code of it runs.
    pub(crate) fn check(path: &Path) -> Result<(), FidoError> {
        let shown = path.display();
        let bytes = std::fs::File::open(path)
            .and_then(|file| sys::file::read_file_bounded(&file, MAX_LIBRARY_BYTES))
            .map_err(|error| {
                let words = error.to_string();
                FidoError::Failed(format!("{shown}: {}", escape::system_words(&words)))
            })?;
        let symbol = b"\0sk_api_version\0";
        if bytes.windows(symbol.len()).any(|part| part == symbol) {
            return Ok(());
        }
        Err(FidoError::Failed(format!(
            "provider {shown} is not an OpenSSH FIDO library"
        )))
    }

    /// Loads the library of an absolute path. Its constructors run.
    pub(crate) fn load(path: &Path) -> Result<Self, FidoError> {
        let shown = path.display();
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| FidoError::failed("a NUL byte in the provider's path"))?;
        // SAFETY: a terminated string. The library's constructors may do anything; therefore this
        // runs in a process that holds nothing of value.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        let handle = NonNull::new(handle).ok_or_else(|| {
            FidoError::Failed(format!(
                "Provider \"{shown}\" dlopen failed: {}",
                loader_error()
            ))
        })?;
        let symbol = |name: &CStr| -> Result<NonNull<c_void>, FidoError> {
            // SAFETY: the handle came from dlopen and is never closed.
            NonNull::new(unsafe { libc::dlsym(handle.as_ptr(), name.as_ptr()) }).ok_or_else(|| {
                let name = name.to_string_lossy();
                FidoError::Failed(format!("Provider \"{shown}\" has no {name}"))
            })
        };
        // SAFETY: sk-api.h gives the functions of these names these types.
        let (version, library) = unsafe {
            (
                std::mem::transmute::<NonNull<c_void>, ApiVersion>(symbol(c"sk_api_version")?),
                Self {
                    enroll: std::mem::transmute::<NonNull<c_void>, Enroll>(symbol(c"sk_enroll")?),
                    sign: std::mem::transmute::<NonNull<c_void>, Sign>(symbol(c"sk_sign")?),
                    load_resident_keys: std::mem::transmute::<NonNull<c_void>, LoadResidentKeys>(
                        symbol(c"sk_load_resident_keys")?,
                    ),
                },
            )
        };
        // SAFETY: the function takes no arguments.
        let version = unsafe { version() };
        if version & VERSION_MAJOR_MASK != VERSION_MAJOR {
            return Err(FidoError::Failed(format!(
                "Provider \"{shown}\" implements unsupported version {version:#010x} \
                 (supported: {VERSION_MAJOR:#010x})"
            )));
        }
        Ok(library)
    }
}

/// The response of a call that returned `code`.
///
/// # Safety
/// If `code` is 0, `response` is null or points at a response that lives as long as the process, as
/// sk-api.h says.
unsafe fn succeeded<'a, T>(code: c_int, response: *mut T) -> Result<&'a T, FidoError> {
    if code != 0 {
        return Err(FidoError::from_code(code));
    }
    // SAFETY: as the caller promises.
    unsafe { response.as_ref() }.ok_or_else(no_response)
}

impl Tokens for SkLibrary {
    fn sign(
        &mut self,
        access: &TokenAccess<'_>,
        signing: &TokenSigning<'_>,
    ) -> Result<TokenSignature, FidoError> {
        let application = c_string(signing.application.as_bytes())?;
        let pin = Pin::new(access.pin)?;
        let mut options = OptionList::new(access.device, None)?;
        let mut response: *mut RawSignResponse = null_mut();
        // SAFETY: all pointers are valid for the call and have the lengths that stand beside them;
        // strings are terminated.
        let code = unsafe {
            (self.sign)(
                algorithm_number(signing.key_type),
                signing.data.as_ptr(),
                signing.data.len(),
                application.as_ptr(),
                signing.handle.as_ptr(),
                signing.handle.len(),
                signing.flags,
                pin.as_ptr(),
                options.as_mut_ptr(),
                &raw mut response,
            )
        };
        // SAFETY: it is what the library set.
        let response = unsafe { succeeded(code, response) }?;
        Ok(TokenSignature {
            flags: response.flags,
            counter: response.counter,
            r: field(response.sig_r, response.sig_r_len)?,
            s: field(response.sig_s, response.sig_s_len)?,
        })
    }

    fn enroll(
        &mut self,
        access: &TokenAccess<'_>,
        key: &NewTokenKey<'_>,
    ) -> Result<TokenKey, FidoError> {
        let application = c_string(key.application.as_bytes())?;
        let pin = Pin::new(access.pin)?;
        let mut options = OptionList::new(access.device, key.user)?;
        let mut response: *mut RawEnrollResponse = null_mut();
        // SAFETY: as in `sign`.
        let code = unsafe {
            (self.enroll)(
                algorithm_number(key.key_type),
                key.challenge.as_ptr(),
                key.challenge.len(),
                application.as_ptr(),
                key.flags,
                pin.as_ptr(),
                options.as_mut_ptr(),
                &raw mut response,
            )
        };
        // SAFETY: it is what the library set.
        let response = unsafe { succeeded(code, response) }?;
        Ok(TokenKey {
            key_type: key.key_type,
            application: key.application.to_owned(),
            flags: response.flags,
            user: Vec::new(),
            ..token_key(response)?
        })
    }

    fn resident_keys(&mut self, access: &TokenAccess<'_>) -> Result<Vec<TokenKey>, FidoError> {
        let pin = Pin::new(access.pin)?;
        let mut options = OptionList::new(access.device, None)?;
        let mut list: *mut *mut RawResidentKey = null_mut();
        let mut count = 0;
        // SAFETY: as in `sign`.
        let code = unsafe {
            (self.load_resident_keys)(
                pin.as_ptr(),
                options.as_mut_ptr(),
                &raw mut list,
                &raw mut count,
            )
        };
        if code != 0 {
            return Err(FidoError::from_code(code));
        }
        if count == 0 {
            return Ok(Vec::new());
        }
        if list.is_null() || count > MAX_KEYS {
            return Err(no_response());
        }
        // SAFETY: after success the list has `count` pointers, as sk-api.h says.
        let list = unsafe { std::slice::from_raw_parts(list, count) };
        let mut keys = Vec::with_capacity(count);
        for entry in list {
            // SAFETY: each points at a resident key.
            let raw = unsafe { entry.as_ref() }.ok_or_else(no_response)?;
            // A type that is not known here does not hide the others.
            let Some(key_type) = type_of_number(raw.alg) else {
                continue;
            };
            if raw.application.is_null() {
                return Err(no_response());
            }
            // SAFETY: a terminated string.
            let application = unsafe { CStr::from_ptr(raw.application) };
            keys.push(TokenKey {
                key_type,
                application: application.to_string_lossy().into_owned(),
                // Libraries report here only that the key needs its user's verification.
                flags: USER_PRESENCE | RESIDENT | raw.flags & USER_VERIFICATION,
                user: field(raw.user_id, raw.user_id_len)?,
                ..token_key(&raw.key)?
            });
        }
        Ok(keys)
    }
}

fn token_key(response: &RawEnrollResponse) -> Result<TokenKey, FidoError> {
    Ok(TokenKey {
        key_type: keys::KeyType::SkEd25519,
        application: String::new(),
        flags: response.flags,
        public_key: field(response.public_key, response.public_key_len)?,
        handle: field(response.key_handle, response.key_handle_len)?,
        user: Vec::new(),
        attestation: Attestation {
            certificate: field(response.attestation_cert, response.attestation_cert_len)?,
            signature: field(response.signature, response.signature_len)?,
            authenticator_data: field(response.authdata, response.authdata_len)?,
        },
    })
}

fn no_response() -> FidoError {
    FidoError::failed("the provider gave no usable response")
}

/// Copies a field of a response; a null pointer is an empty field.
fn field(start: *const u8, length: usize) -> Result<Vec<u8>, FidoError> {
    if start.is_null() || length == 0 {
        return Ok(Vec::new());
    }
    if length > MAX_FIELD_BYTES {
        return Err(FidoError::failed(
            "the provider gave a field that is too long",
        ));
    }
    // SAFETY: the library gave this pointer with this length for a field of its response.
    Ok(unsafe { std::slice::from_raw_parts(start, length) }.to_vec())
}

fn c_string(text: &[u8]) -> Result<CString, FidoError> {
    CString::new(text).map_err(|_| FidoError::failed("a NUL byte in a name or PIN"))
}

/// A PIN as a terminated string, wiped at its end, or a null pointer.
struct Pin(Option<Zeroizing<Vec<u8>>>);

impl Pin {
    fn new(pin: Option<&[u8]>) -> Result<Self, FidoError> {
        let Some(pin) = pin else {
            return Ok(Self(None));
        };
        if pin.contains(&0) {
            return Err(FidoError::failed("a NUL byte in a name or PIN"));
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(pin.len() + 1));
        bytes.extend_from_slice(pin);
        bytes.push(0);
        Ok(Self(Some(bytes)))
    }

    fn as_ptr(&self) -> *const c_char {
        self.0
            .as_ref()
            .map_or(null(), |bytes| bytes.as_ptr().cast())
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// The options of a call, ended by a null pointer.
struct OptionList {
    /// Owns the strings.
    texts: Vec<CString>,
    /// Owns the options.
    options: Vec<RawOption>,
    pointers: Vec<*mut RawOption>,
}

impl OptionList {
    fn new(device: Option<&str>, user: Option<&str>) -> Result<Self, FidoError> {
        let mut all = Self {
            texts: Vec::new(),
            options: Vec::new(),
            pointers: Vec::new(),
        };
        for (name, value) in [("device", device), ("user", user)] {
            let Some(value) = value else { continue };
            let (name, value) = (c_string(name.as_bytes())?, c_string(value.as_bytes())?);
            all.options.push(RawOption {
                name: name.as_ptr().cast_mut(),
                value: value.as_ptr().cast_mut(),
                required: 0,
            });
            all.texts.extend([name, value]);
        }
        all.pointers = all.options.iter_mut().map(|each| &raw mut *each).collect();
        all.pointers.push(null_mut());
        Ok(all)
    }

    fn as_mut_ptr(&mut self) -> *mut *mut RawOption {
        debug_assert_eq!(self.texts.len(), 2 * self.options.len());
        self.pointers.as_mut_ptr()
    }
}

fn loader_error() -> String {
    // SAFETY: dlerror returns null or a string that is valid until the next call; it is copied at
    // once.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "unknown loader error".to_owned();
    }
    // SAFETY: not null, and terminated.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    escape::escape_at_most(bytes, escape::Style::Line, 300)
}
