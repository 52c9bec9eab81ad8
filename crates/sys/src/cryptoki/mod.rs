//! A PKCS #11 library ("Cryptoki", OASIS PKCS #11 2.40): loading it, and the twelve calls that list
//! the keys of tokens and sign with them.
//!
//! The library is foreign code: load it only in a process in [`crate::sandbox::token`]. What its
//! results mean (objects, attributes, keys) is the caller's to judge.

mod raw;

use std::ffi::{CString, c_ulong, c_void};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};

use raw::{
    FunctionList, InitializeArgs, RawAttribute, RawMechanism, RawSessionInfo, RawTokenInfo,
    function,
};

/// Most slots of a library that are looked at.
const MAX_SLOTS: usize = 64;
/// Most objects of one search.
const MAX_OBJECTS: usize = 1024;
/// Longest attribute that is read, bytes; an X.509 certificate may have some kilobytes.
const MAX_ATTRIBUTE_BYTES: usize = 64 * 1024;
/// Largest library that is searched for its symbol, bytes.
const MAX_LIBRARY_BYTES: u64 = 256 * 1024 * 1024;
/// Longest signature, bytes: RSA of 16384 bits has 2048.
const MAX_SIGNATURE_BYTES: usize = 4096;

/// A number in PKCS #11 (CK_ULONG): 64 bits, on armv7 32.
pub type CryptokiNumber = c_ulong;
/// A number of an object, session or slot.
pub type CryptokiHandle = c_ulong;

/// Classes of objects (CKO).
pub mod class {
    /// CKO_CERTIFICATE
    pub const CERTIFICATE: super::CryptokiNumber = 1;
    /// CKO_PUBLIC_KEY
    pub const PUBLIC_KEY: super::CryptokiNumber = 2;
    /// CKO_PRIVATE_KEY
    pub const PRIVATE_KEY: super::CryptokiNumber = 3;
}

/// Attributes (CKA).
pub mod attribute {
    /// CKA_CLASS
    pub const CLASS: super::CryptokiNumber = 0;
    /// CKA_LABEL
    pub const LABEL: super::CryptokiNumber = 3;
    /// CKA_VALUE
    pub const VALUE: super::CryptokiNumber = 0x11;
    /// CKA_CERTIFICATE_TYPE
    pub const CERTIFICATE_TYPE: super::CryptokiNumber = 0x80;
    /// CKA_KEY_TYPE
    pub const KEY_TYPE: super::CryptokiNumber = 0x100;
    /// CKA_ID
    pub const ID: super::CryptokiNumber = 0x102;
    /// CKA_SIGN
    pub const SIGN: super::CryptokiNumber = 0x108;
    /// CKA_MODULUS
    pub const MODULUS: super::CryptokiNumber = 0x120;
    /// CKA_PUBLIC_EXPONENT
    pub const PUBLIC_EXPONENT: super::CryptokiNumber = 0x122;
    /// CKA_EC_PARAMS
    pub const EC_PARAMS: super::CryptokiNumber = 0x180;
    /// CKA_EC_POINT
    pub const EC_POINT: super::CryptokiNumber = 0x181;
    /// CKA_ALWAYS_AUTHENTICATE
    pub const ALWAYS_AUTHENTICATE: super::CryptokiNumber = 0x202;
}

/// Types of keys (CKK).
pub mod key_type {
    /// CKK_RSA
    pub const RSA: super::CryptokiNumber = 0;
    /// CKK_EC
    pub const EC: super::CryptokiNumber = 3;
    /// CKK_EC_EDWARDS
    pub const EC_EDWARDS: super::CryptokiNumber = 0x40;
}

/// Mechanisms of signatures (CKM).
pub mod mechanism {
    /// CKM_RSA_PKCS: PKCS #1 v1.5 over a DigestInfo.
    pub const RSA_PKCS: super::CryptokiNumber = 1;
    /// CKM_ECDSA over a digest.
    pub const ECDSA: super::CryptokiNumber = 0x1041;
    /// CKM_EDDSA over the message.
    pub const EDDSA: super::CryptokiNumber = 0x1057;
}

/// Flags of a token (CKF).
pub mod token_flag {
    /// CKF_LOGIN_REQUIRED
    pub const LOGIN_REQUIRED: super::CryptokiNumber = 4;
    /// CKF_PROTECTED_AUTHENTICATION_PATH: the PIN is entered at the token.
    pub const PROTECTED_PATH: super::CryptokiNumber = 0x100;
    /// CKF_TOKEN_INITIALIZED
    pub const INITIALIZED: super::CryptokiNumber = 0x400;
    /// CKF_USER_PIN_COUNT_LOW: a wrong PIN was entered.
    pub const PIN_COUNT_LOW: super::CryptokiNumber = 0x1_0000;
    /// CKF_USER_PIN_FINAL_TRY: the next wrong PIN locks the token.
    pub const PIN_FINAL_TRY: super::CryptokiNumber = 0x2_0000;
    /// CKF_USER_PIN_LOCKED
    pub const PIN_LOCKED: super::CryptokiNumber = 0x4_0000;
}

/// A result of a call (CK_RV) other than CKR_OK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CryptokiError(pub CryptokiNumber);

impl CryptokiError {
    /// CKR_FUNCTION_NOT_SUPPORTED, also for a function that the library lacks.
    pub const NOT_SUPPORTED: Self = Self(0x54);
    /// CKR_PIN_INCORRECT
    pub const PIN_INCORRECT: Self = Self(0xa0);
    /// CKR_PIN_LOCKED
    pub const PIN_LOCKED: Self = Self(0xa4);
    /// CKR_USER_ALREADY_LOGGED_IN
    pub const ALREADY_LOGGED_IN: Self = Self(0x100);
    /// CKR_USER_NOT_LOGGED_IN
    pub const NOT_LOGGED_IN: Self = Self(0x101);
    const ALREADY_INITIALIZED: Self = Self(0x191);
    const CANNOT_LOCK: Self = Self(0xa);

    /// True if the token has gone, or a session does not exist any more because it had gone.
    #[must_use]
    pub fn is_removed(self) -> bool {
        matches!(self.0, 0x30 | 0x32 | 0xb0 | 0xb3 | 0xe0 | 0xe1)
    }
}

impl fmt::Display for CryptokiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            0x02 | 0x31 => "the token has no memory left",
            0x05 | 0x06 => "the token failed",
            0x30 | 0x32 | 0xb0 | 0xb3 | 0xe0 | 0xe1 => "the token was removed",
            0x50 | 0x200 => "it was cancelled at the token",
            0x54 => "the library cannot do it",
            0x60 | 0x82 => "the token does not have the key any more",
            0x68 | 0x70 | 0x71 => "the key may not be used this way",
            0xa0 => "PIN incorrect",
            0xa1 => "PIN invalid",
            0xa2 => "PIN length out of range",
            0xa3 => "PIN expired",
            0xa4 => "PIN locked",
            0x100 => "already logged in",
            0x101 => "not logged in",
            _ => return write!(f, "error 0x{:x}", self.0),
        })
    }
}

impl std::error::Error for CryptokiError {}

/// A token in a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenInfo {
    /// Its label without the trailing spaces; foreign text.
    pub label: String,
    /// Bits of [`token_flag`].
    pub flags: CryptokiNumber,
}

/// A loaded and initialized library, which is never closed. A call may take as long as the token
/// does, or as a person needs to touch it.
pub struct Cryptoki {
    functions: NonNull<FunctionList>,
    /// True if several threads may call at the same time, each in its own session.
    is_concurrent: bool,
}

// SAFETY: the list of functions is constant and never freed; the library was initialized for several
// threads, or `is_concurrent` tells the caller to call from one at a time.
unsafe impl Send for Cryptoki {}
// SAFETY: as above.
unsafe impl Sync for Cryptoki {}

impl fmt::Debug for Cryptoki {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cryptoki")
            .field("is_concurrent", &self.is_concurrent)
            .finish_non_exhaustive()
    }
}

type Rv = c_ulong;

fn checked(rv: Rv) -> Result<(), CryptokiError> {
    match rv {
        0 => Ok(()),
        other => Err(CryptokiError(other)),
    }
}

/// True if the file contains the name of the function that each library has.
fn names_the_function(path: &Path) -> Result<bool, String> {
    let bytes = std::fs::File::open(path)
        .and_then(|file| crate::file::read_file_bounded(&file, MAX_LIBRARY_BYTES))
        .map_err(|error| error.to_string())?;
    let name = c"C_GetFunctionList".to_bytes_with_nul();
    Ok(bytes.windows(name.len()).any(|part| part == name))
}

fn length(bytes: usize) -> c_ulong {
    c_ulong::try_from(bytes).unwrap_or(c_ulong::MAX)
}

impl Cryptoki {
    /// Loads the library at `path` and initializes it.
    ///
    /// # Errors
    /// In words: the loader's, or why the library does not work.
    pub fn load(path: &Path) -> Result<Self, String> {
        let other = || "it is no PKCS#11 library: it has no C_GetFunctionList".to_owned();
        // Constructors of any other library do not run (CVE-2023-38408). The loader finds a name
        // without a directory by itself.
        if path.as_os_str().as_bytes().contains(&b'/') && !names_the_function(path)? {
            return Err(other());
        }
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
        let library = crate::dynlib::Library::open_local(&name)?;
        let symbol = library.symbol(c"C_GetFunctionList").map_err(|_| other())?;
        // SAFETY: PKCS #11 defines this symbol as a function of this type.
        let get: unsafe extern "C" fn(*mut *mut FunctionList) -> Rv =
            unsafe { std::mem::transmute(symbol.as_ptr()) };
        let mut list = ptr::null_mut();
        // SAFETY: `list` takes the address of a static list.
        checked(unsafe { get(&raw mut list) })
            .map_err(|error| format!("C_GetFunctionList: {error}"))?;
        let functions = NonNull::new(list).ok_or("C_GetFunctionList gave nothing")?;
        // SAFETY: the library gave a list of at least this length: all of version 2 have 68.
        let version = unsafe { functions.as_ref() }.version;
        if version[0] < 2 {
            return Err(format!("its version {} is not supported", version[0]));
        }
        let mut cryptoki = Self {
            functions,
            is_concurrent: true,
        };
        match cryptoki.initialize(true) {
            Ok(()) | Err(CryptokiError::ALREADY_INITIALIZED) => {}
            Err(CryptokiError::CANNOT_LOCK) => {
                cryptoki.is_concurrent = false;
                let again = cryptoki.initialize(false);
                again.map_err(|error| format!("C_Initialize: {error}"))?;
            }
            Err(error) => return Err(format!("C_Initialize: {error}")),
        }
        Ok(cryptoki)
    }

    /// True if several threads may call at the same time, each in its own session.
    #[must_use]
    pub fn is_concurrent(&self) -> bool {
        self.is_concurrent
    }

    fn function(&self, place: usize) -> Result<*const c_void, CryptokiError> {
        // SAFETY: see `load`.
        let list = unsafe { self.functions.as_ref() };
        let found = list.functions.get(place).copied();
        found
            .filter(|function| !function.is_null())
            .ok_or(CryptokiError::NOT_SUPPORTED)
    }

    fn initialize(&self, locks: bool) -> Result<(), CryptokiError> {
        let function = self.function(function::INITIALIZE)?;
        // SAFETY: the type of C_Initialize.
        let call: unsafe extern "C" fn(*mut InitializeArgs) -> Rv =
            unsafe { std::mem::transmute(function) };
        let mut args = InitializeArgs {
            mutexes: [ptr::null(); 4],
            flags: raw::OS_LOCKING,
            reserved: ptr::null_mut(),
        };
        let args = if locks {
            &raw mut args
        } else {
            ptr::null_mut()
        };
        // SAFETY: the arguments live during the call; null permits one thread.
        checked(unsafe { call(args) })
    }

    /// The slots with a token, at most 64.
    ///
    /// # Errors
    /// The library's.
    pub fn slots(&self) -> Result<Vec<CryptokiHandle>, CryptokiError> {
        let function = self.function(function::GET_SLOT_LIST)?;
        // SAFETY: the type of C_GetSlotList.
        let call: unsafe extern "C" fn(u8, *mut CryptokiHandle, *mut c_ulong) -> Rv =
            unsafe { std::mem::transmute(function) };
        let mut count = 0;
        // SAFETY: asks for the number only. Some libraries find tokens only when asked for that.
        checked(unsafe { call(1, ptr::null_mut(), &raw mut count) })?;
        let mut slots = vec![0; MAX_SLOTS];
        count = length(MAX_SLOTS);
        // SAFETY: there is room for `count` numbers.
        checked(unsafe { call(1, slots.as_mut_ptr(), &raw mut count) })?;
        slots.truncate(usize::try_from(count).unwrap_or(0));
        Ok(slots)
    }

    /// The token in this slot.
    ///
    /// # Errors
    /// The library's.
    pub fn token(&self, slot: CryptokiHandle) -> Result<TokenInfo, CryptokiError> {
        let function = self.function(function::GET_TOKEN_INFO)?;
        // SAFETY: the type of C_GetTokenInfo.
        let call: unsafe extern "C" fn(CryptokiHandle, *mut RawTokenInfo) -> Rv =
            unsafe { std::mem::transmute(function) };
        let mut info = RawTokenInfo {
            label: [b' '; 32],
            manufacturer: [0; 32],
            model: [0; 16],
            serial: [0; 16],
            flags: 0,
            counts: [0; 10],
            versions: [0; 4],
            time: [0; 16],
        };
        // SAFETY: the structure is as the standard defines it, and lives during the call.
        checked(unsafe { call(slot, &raw mut info) })?;
        let label = String::from_utf8_lossy(&info.label);
        Ok(TokenInfo {
            label: label.trim_end_matches([' ', '\0']).to_owned(),
            flags: info.flags,
        })
    }

    /// Opens a session that changes nothing.
    ///
    /// # Errors
    /// The library's.
    pub fn open_session(&self, slot: CryptokiHandle) -> Result<CryptokiHandle, CryptokiError> {
        let function = self.function(function::OPEN_SESSION)?;
        // SAFETY: the type of C_OpenSession.
        let call: unsafe extern "C" fn(
            CryptokiHandle,
            c_ulong,
            *mut c_void,
            *const c_void,
            *mut CryptokiHandle,
        ) -> Rv = unsafe { std::mem::transmute(function) };
        let mut session = 0;
        let (none, no_callback) = (ptr::null_mut(), ptr::null());
        // SAFETY: `session` lives during the call; there is no callback.
        let rv = unsafe {
            call(
                slot,
                raw::SERIAL_SESSION,
                none,
                no_callback,
                &raw mut session,
            )
        };
        checked(rv).map(|()| session)
    }

    /// True if the token says that its user is logged in.
    #[must_use]
    pub fn has_user(&self, session: CryptokiHandle) -> bool {
        let Ok(function) = self.function(function::GET_SESSION_INFO) else {
            return false;
        };
        // SAFETY: the type of C_GetSessionInfo.
        let call: unsafe extern "C" fn(CryptokiHandle, *mut RawSessionInfo) -> Rv =
            unsafe { std::mem::transmute(function) };
        let mut info = RawSessionInfo {
            slot: 0,
            state: 0,
            flags: 0,
            device_error: 0,
        };
        // SAFETY: the structure is as the standard defines it, and lives during the call.
        let rv = unsafe { call(session, &raw mut info) };
        rv == 0 && [raw::RO_USER, raw::RW_USER].contains(&info.state)
    }

    /// Closes a session.
    pub fn close_session(&self, session: CryptokiHandle) {
        if let Ok(function) = self.function(function::CLOSE_SESSION) {
            // SAFETY: the type of C_CloseSession, which takes a number.
            let call: unsafe extern "C" fn(CryptokiHandle) -> Rv =
                unsafe { std::mem::transmute(function) };
            // SAFETY: as above.
            let _ = unsafe { call(session) };
        }
    }

    /// Logs the user in; without a PIN the token asks for it itself. `for_one_use` answers
    /// CKA_ALWAYS_AUTHENTICATE of the key of [`Self::begin_signature`].
    ///
    /// # Errors
    /// The library's.
    pub fn login(
        &self,
        session: CryptokiHandle,
        pin: Option<&[u8]>,
        for_one_use: bool,
    ) -> Result<(), CryptokiError> {
        const USER: c_ulong = 1;
        const CONTEXT_SPECIFIC: c_ulong = 2;
        let function = self.function(function::LOGIN)?;
        // SAFETY: the type of C_Login.
        let call: unsafe extern "C" fn(CryptokiHandle, c_ulong, *const u8, c_ulong) -> Rv =
            unsafe { std::mem::transmute(function) };
        let who = if for_one_use { CONTEXT_SPECIFIC } else { USER };
        let (pin, bytes) = pin.map_or((ptr::null(), 0), |pin| (pin.as_ptr(), pin.len()));
        // SAFETY: the PIN lives during the call and is only read.
        checked(unsafe { call(session, who, pin, length(bytes)) })
    }

    /// The objects whose attributes have these values, at most 1024.
    ///
    /// # Errors
    /// The library's.
    pub fn find(
        &self,
        session: CryptokiHandle,
        wanted: &[(CryptokiNumber, &[u8])],
    ) -> Result<Vec<CryptokiHandle>, CryptokiError> {
        type Init = unsafe extern "C" fn(CryptokiHandle, *const RawAttribute, c_ulong) -> Rv;
        type Next =
            unsafe extern "C" fn(CryptokiHandle, *mut CryptokiHandle, c_ulong, *mut c_ulong) -> Rv;
        type End = unsafe extern "C" fn(CryptokiHandle) -> Rv;
        let init = self.function(function::FIND_OBJECTS_INIT)?;
        let next = self.function(function::FIND_OBJECTS)?;
        let end = self.function(function::FIND_OBJECTS_FINAL)?;
        // SAFETY: the types of C_FindObjectsInit, C_FindObjects and C_FindObjectsFinal.
        let (init, next, end) = unsafe {
            (
                std::mem::transmute::<*const c_void, Init>(init),
                std::mem::transmute::<*const c_void, Next>(next),
                std::mem::transmute::<*const c_void, End>(end),
            )
        };
        let template: Vec<RawAttribute> = wanted
            .iter()
            .map(|(kind, value)| RawAttribute {
                kind: *kind,
                value: value.as_ptr().cast_mut().cast(),
                length: length(value.len()),
            })
            .collect();
        // SAFETY: the template and its values live during the call and are only read.
        checked(unsafe { init(session, template.as_ptr(), length(template.len())) })?;
        let mut found = Vec::new();
        let mut some = [0; 64];
        let result = loop {
            let mut count = 0;
            // SAFETY: there is room for 64 numbers.
            let rv = unsafe { next(session, some.as_mut_ptr(), 64, &raw mut count) };
            if let Err(error) = checked(rv) {
                break Err(error);
            }
            let count = usize::try_from(count).unwrap_or(0);
            found.extend_from_slice(some.get(..count).unwrap_or_default());
            if count == 0 || found.len() >= MAX_OBJECTS {
                break Ok(());
            }
        };
        // SAFETY: ends the search of this session.
        let _ = unsafe { end(session) };
        result.map(|()| found)
    }

    /// An attribute of an object; `None` if the object does not have it, or it is longer than 64 KiB.
    #[must_use]
    pub fn attribute(
        &self,
        session: CryptokiHandle,
        object: CryptokiHandle,
        kind: CryptokiNumber,
    ) -> Option<Vec<u8>> {
        let function = self.function(function::GET_ATTRIBUTE_VALUE).ok()?;
        // SAFETY: the type of C_GetAttributeValue.
        let call: unsafe extern "C" fn(
            CryptokiHandle,
            CryptokiHandle,
            *mut RawAttribute,
            c_ulong,
        ) -> Rv = unsafe { std::mem::transmute(function) };
        let mut raw = RawAttribute {
            kind,
            value: ptr::null_mut(),
            length: 0,
        };
        // SAFETY: asks for the length.
        checked(unsafe { call(session, object, &raw mut raw, 1) }).ok()?;
        let bytes = usize::try_from(raw.length).ok();
        let mut value = vec![0_u8; bytes.filter(|bytes| *bytes <= MAX_ATTRIBUTE_BYTES)?];
        raw.value = value.as_mut_ptr().cast();
        // SAFETY: there is room for the length that was given, which the call checks.
        checked(unsafe { call(session, object, &raw mut raw, 1) }).ok()?;
        value.truncate(usize::try_from(raw.length).ok()?);
        Some(value)
    }

    /// An attribute that is a number (CK_ULONG).
    #[must_use]
    pub fn number(
        &self,
        session: CryptokiHandle,
        object: CryptokiHandle,
        kind: CryptokiNumber,
    ) -> Option<CryptokiNumber> {
        let value = self.attribute(session, object, kind)?;
        value.try_into().ok().map(CryptokiNumber::from_ne_bytes)
    }

    /// Begins a signature with this key and mechanism of [`mechanism`].
    ///
    /// # Errors
    /// The library's.
    pub fn begin_signature(
        &self,
        session: CryptokiHandle,
        mechanism: CryptokiNumber,
        key: CryptokiHandle,
    ) -> Result<(), CryptokiError> {
        let function = self.function(function::SIGN_INIT)?;
        // SAFETY: the type of C_SignInit.
        let call: unsafe extern "C" fn(CryptokiHandle, *mut RawMechanism, CryptokiHandle) -> Rv =
            unsafe { std::mem::transmute(function) };
        let mut mechanism = RawMechanism {
            kind: mechanism,
            parameter: ptr::null_mut(),
            length: 0,
        };
        // SAFETY: the mechanism lives during the call and has no parameter.
        checked(unsafe { call(session, &raw mut mechanism, key) })
    }

    /// Makes the signature that was begun.
    ///
    /// # Errors
    /// The library's.
    pub fn sign(&self, session: CryptokiHandle, data: &[u8]) -> Result<Vec<u8>, CryptokiError> {
        let function = self.function(function::SIGN)?;
        // SAFETY: the type of C_Sign.
        let call: unsafe extern "C" fn(
            CryptokiHandle,
            *const u8,
            c_ulong,
            *mut u8,
            *mut c_ulong,
        ) -> Rv = unsafe { std::mem::transmute(function) };
        let mut signature = vec![0_u8; MAX_SIGNATURE_BYTES];
        let mut bytes = length(MAX_SIGNATURE_BYTES);
        // SAFETY: the data is only read, and there is room for `bytes`.
        let rv = unsafe {
            call(
                session,
                data.as_ptr(),
                length(data.len()),
                signature.as_mut_ptr(),
                &raw mut bytes,
            )
        };
        checked(rv)?;
        signature.truncate(usize::try_from(bytes).unwrap_or(0));
        Ok(signature)
    }
}

/// A CK_ULONG as the value of an attribute.
#[must_use]
pub fn number_value(number: CryptokiNumber) -> [u8; size_of::<CryptokiNumber>()] {
    number.to_ne_bytes()
}
